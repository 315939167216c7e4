/* SPDX-License-Identifier: BSD-3-Clause */
/* unsupported.h - calls of libfabric that the provider does not support */
#ifndef NIC_OFI_UNSUPPORTED_H
#define NIC_OFI_UNSUPPORTED_H

#include "nic/ofi/ofi.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Define a function that returns -@error. */
#define OFI_NO(type, name, error, ...)            \
    static inline type ofi_no_##name(__VA_ARGS__) \
    {                                             \
        return -(error);                          \
    }

/* --- any object --- */
OFI_NO(int, bind, FI_ENOSYS, struct fid *fid, struct fid *other, uint64_t flags)
OFI_NO(int, control, FI_ENOSYS, struct fid *fid, int command, void *arg)
OFI_NO(int, ops_open, FI_ENOSYS, struct fid *fid, const char *name, uint64_t flags, void **ops,
       void *context)

/* --- endpoints --- */
OFI_NO(int, tx_ctx, FI_ENOSYS, struct fid_ep *ep, int index, struct fi_tx_attr *attr,
       struct fid_ep **tx, void *context)
OFI_NO(int, rx_ctx, FI_ENOSYS, struct fid_ep *ep, int index, struct fi_rx_attr *attr,
       struct fid_ep **rx, void *context)
OFI_NO(ssize_t, cancel, FI_ENOSYS, fid_t fid, void *context)
OFI_NO(int, setopt, FI_ENOPROTOOPT, fid_t fid, int level, int name, const void *value, size_t bytes)
OFI_NO(int, getopt, FI_ENOPROTOOPT, fid_t fid, int level, int name, void *value, size_t *bytes)
OFI_NO(int, setname, FI_ENOSYS, fid_t fid, void *addr, size_t bytes)
OFI_NO(int, getname, FI_ENOSYS, fid_t fid, void *addr, size_t *bytes)
OFI_NO(ssize_t, size_left, FI_ENOSYS, struct fid_ep *ep)
OFI_NO(int, getpeer, FI_ENOSYS, struct fid_ep *ep, void *addr, size_t *bytes)
OFI_NO(int, connect, FI_ENOSYS, struct fid_ep *ep, const void *addr, const void *param,
       size_t bytes)
OFI_NO(int, listen, FI_ENOSYS, struct fid_pep *pep)
OFI_NO(int, accept, FI_ENOSYS, struct fid_ep *ep, const void *param, size_t bytes)
OFI_NO(int, reject, FI_ENOSYS, struct fid_pep *pep, fid_t handle, const void *param, size_t bytes)
OFI_NO(int, shutdown, FI_ENOSYS, struct fid_ep *ep, uint64_t flags)
OFI_NO(ssize_t, coll_msg, FI_ENOSYS, struct fid_ep *ep, const struct fi_msg_collective *msg,
       struct fi_ioc *resultv, void **result_desc, size_t result_count, uint64_t flags)

#undef OFI_NO
#pragma GCC diagnostic pop

/* The operations of an object that can be closed, and for which nothing else is supported. */
#define OFI_FID_OPS(closes)                                                    \
    {                                                                          \
        .size = sizeof(struct fi_ops), .close = (closes), .bind = ofi_no_bind, \
        .control = ofi_no_control, .ops_open = ofi_no_ops_open,                \
    }

#endif
