/* SPDX-License-Identifier: BSD-3-Clause */
/* no.h - calls of libfabric that the provider does not support */
#ifndef NIC_OFI_NO_H
#define NIC_OFI_NO_H

#include "nic/ofi/ofi.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* --- any object --- */

static inline int ofi_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_control(struct fid *fid, int command, void *arg)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                                  void *context)
{
    return -FI_ENOSYS;
}

/* --- fabrics --- */

static inline int ofi_no_passive_ep(struct fid_fabric *fabric, struct fi_info *info,
                                    struct fid_pep **pep, void *context)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
                                   struct fid_wait **set)
{
    return -FI_ENOSYS;
}

/* No object here has a file descriptor to wait on. */
static inline int ofi_no_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return -FI_ENOSYS;
}

/* --- event queues --- */

static inline ssize_t ofi_no_eq_write(struct fid_eq *eq, uint32_t event, const void *buf,
                                      size_t bytes, uint64_t flags)
{
    return -FI_ENOSYS;
}

/* --- domains --- */

static inline int ofi_no_scalable_ep(struct fid_domain *domain, struct fi_info *info,
                                     struct fid_ep **ep, void *context)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
                                   struct fid_poll **set)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr,
                                 struct fid_stx **stx, void *context)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr,
                                 struct fid_ep **ep, void *context)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_collective(struct fid_domain *domain, enum fi_collective_op coll,
                                    struct fi_collective_attr *attr, uint64_t flags)
{
    return -FI_EOPNOTSUPP;
}

/* --- address vectors --- */

static inline int ofi_no_insertsym(struct fid_av *fid, const char *node, size_t nodes,
                                   const char *service, size_t services, fi_addr_t *fi_addr,
                                   uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

/* --- endpoints --- */

static inline int ofi_no_getopt(fid_t fid, int level, int name, void *value, size_t *bytes)
{
    return -FI_ENOPROTOOPT;
}

static inline int ofi_no_setopt(fid_t fid, int level, int name, const void *value, size_t bytes)
{
    return -FI_ENOPROTOOPT;
}

static inline int ofi_no_tx_ctx(struct fid_ep *ep, int index, struct fi_tx_attr *attr,
                                struct fid_ep **tx, void *context)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_rx_ctx(struct fid_ep *ep, int index, struct fi_rx_attr *attr,
                                struct fid_ep **rx, void *context)
{
    return -FI_ENOSYS;
}

static inline ssize_t ofi_no_size_left(struct fid_ep *ep)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_getpeer(struct fid_ep *ep, void *addr, size_t *bytes)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_connect(struct fid_ep *ep, const void *addr, const void *param,
                                 size_t bytes)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_listen(struct fid_pep *pep)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_accept(struct fid_ep *ep, const void *param, size_t bytes)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t bytes)
{
    return -FI_ENOSYS;
}

static inline int ofi_no_shutdown(struct fid_ep *ep, uint64_t flags)
{
    return -FI_ENOSYS;
}

#pragma GCC diagnostic pop

/* The operations of an object that can be closed, and nothing else that every object may do. */
#define OFI_FID_OPS(closes)                                                    \
    {                                                                          \
        .size = sizeof(struct fi_ops), .close = (closes), .bind = ofi_no_bind, \
        .control = ofi_no_control, .ops_open = ofi_no_ops_open,                \
    }

#endif
