/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mr.c - memory regions. A peer names a region by its key, which the adapter chooses in domains
 * with FI_MR_BASIC or FI_MR_PROV_KEY, and the application in others. A peer names a byte in the
 * region by its offset from the start or, if the domain has FI_MR_BASIC or FI_MR_VIRT_ADDR, by its
 * address. Local buffers need no registration.
 */
#include "nic/ofi/unsupported.h"

#include <stdlib.h>

struct ofi_mr {
    struct fid_mr mr_fid;
    struct ofi_domain *domain;
    bool registered; /* it is registered with the adapter, because peers may access it */
};

static int mr_close(struct fid *fid)
{
    struct ofi_mr *mr = container_of(fid, struct ofi_mr, mr_fid.fid);

    if (mr->registered)
        fabemu_unregister(mr->domain->fab, mr->mr_fid.key);
    ofi_release(&mr->domain->refs);
    free(mr);
    return 0;
}

static struct fi_ops mr_fid_ops = OFI_FID_OPS(mr_close);

static int mr_register(struct ofi_mr *mr, const struct fi_mr_attr *attr, unsigned access)
{
    struct fabemu_iov iov[OFI_IOV_MAX];
    int err;

    for (size_t i = 0; i < attr->iov_count; i++)
        iov[i] = (struct fabemu_iov){attr->mr_iov[i].iov_base, attr->mr_iov[i].iov_len};
    access |= mr->domain->by_address ? FABEMU_BY_ADDRESS : 0;
    access |= mr->domain->chosen_keys ? FABEMU_CHOSEN_KEY : 0;
    err =
        fabemu_registerv(mr->domain->fab, iov, (unsigned)attr->iov_count, access, &mr->mr_fid.key);
    mr->registered = !err;
    return err;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **ret)
{
    unsigned access = (attr->access & FI_REMOTE_READ ? FABEMU_REMOTE_READ : 0) |
                      (attr->access & FI_REMOTE_WRITE ? FABEMU_REMOTE_WRITE : 0);
    struct ofi_mr *mr;
    int err;

    if (flags || fid->fclass != FI_CLASS_DOMAIN)
        return -FI_EBADFLAGS;
    if (!attr->iov_count || attr->iov_count > OFI_IOV_MAX || attr->offset)
        /* attr->iface is not checked: it is undefined without FI_HMEM and before version 1.9 */
        return -FI_EINVAL;
    mr = calloc(1, sizeof *mr);
    if (!mr)
        return -FI_ENOMEM;
    mr->domain = container_of(fid, struct ofi_domain, domain_fid.fid);
    mr->mr_fid.key = attr->requested_key;
    if (access) {
        err = mr_register(mr, attr, access);
        if (err)
            goto free_mr;
    }
    ofi_fid_init(&mr->mr_fid.fid, FI_CLASS_MR, attr->context, &mr_fid_ops);
    ofi_hold(&mr->domain->refs);
    *ret = &mr->mr_fid;
    return 0;

free_mr:
    free(mr);
    return err == -EEXIST ? -FI_ENOKEY : -ofi_errno(err);
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
                   void *context)
{
    struct fi_mr_attr attr = {.mr_iov = iov,
                              .iov_count = count,
                              .access = access,
                              .offset = offset,
                              .requested_key = requested_key,
                              .context = context};

    return mr_regattr(fid, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t bytes, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = bytes};

    return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr ofi_mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = mr_regattr,
};
