/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mr.c - memory regions. A peer names a region by its key. The adapter chooses the key if the
 * domain has FI_MR_BASIC or FI_MR_PROV_KEY; otherwise the application chooses it. A peer names a
 * byte in the region by its offset from the start or, if the domain has FI_MR_BASIC or
 * FI_MR_VIRT_ADDR, by its address. Local buffers need no registration.
 *
 * Counters may be bound to a region at any time. If the domain has FI_MR_RMA_EVENT, a region with
 * FI_RMA_EVENT is registered with the adapter only by fi_mr_enable(), so that its counters miss no
 * access.
 */
#include "nic/ofi/ep.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>

struct ofi_mr {
    struct fid_mr mr_fid;
    struct ofi_domain *domain;
    /* the memory that is registered with the adapter */
    struct fabemu_iov iov[OFI_IOV_MAX];
    unsigned iovs;
    /* FABEMU_REMOTE_*; 0: peers may not access the region, so it is not registered */
    unsigned access;
    bool registered;         /* the region is registered with the adapter */
    uint64_t requested_key;  /* the key, if the application chooses it */
    struct ofi_cntr *reads;  /* counts peers' reads; NULL: none */
    struct ofi_cntr *writes; /* counts peers' writes */
};

static struct ofi_mr *mr_of(struct fid *fid)
{
    return container_of(fid, struct ofi_mr, mr_fid.fid);
}

/* Let the adapter count peers' accesses in the bound counters. Errors: negative errno values. */
static int mr_attach_counters(const struct ofi_mr *mr)
{
    int err = 0;

    if (mr->reads)
        err = fabemu_register_event(mr->domain->fab, mr->mr_fid.key, FABEMU_REMOTE_READ,
                                    &mr->reads->event);
    if (mr->writes && !err)
        err = fabemu_register_event(mr->domain->fab, mr->mr_fid.key, FABEMU_REMOTE_WRITE,
                                    &mr->writes->event);
    return err;
}

static int mr_close(struct fid *fid)
{
    struct ofi_mr *mr = mr_of(fid);

    if (mr->registered)
        fabemu_unregister(mr->domain->fab, mr->mr_fid.key);
    ofi_cntr_unbind(&mr->reads);
    ofi_cntr_unbind(&mr->writes);
    ofi_release(&mr->domain->refs);
    free(mr);
    return 0;
}

/* Register the region with the adapter. Errors: -FI_ENOKEY and others. */
static int mr_enable(struct ofi_mr *mr)
{
    unsigned how = (mr->domain->by_address ? FABEMU_BY_ADDRESS : 0) |
                   (mr->domain->chosen_keys ? FABEMU_CHOSEN_KEY : 0);
    uint64_t key = mr->requested_key;
    int err;

    if (mr->registered || !mr->access)
        return 0; /* mr_init() has set the key of a local region, which no peer can use */
    err = fabemu_registerv(mr->domain->fab, mr->iov, mr->iovs, mr->access | how, &key);
    if (err)
        return err == -EEXIST ? -FI_ENOKEY : -ofi_errno(err);
    mr->registered = true;
    mr->mr_fid.key = key;
    return -ofi_errno(mr_attach_counters(mr));
}

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct ofi_mr *mr = mr_of(fid);
    int err = 0;

    if (!other)
        return -FI_EINVAL;
    if (other->fclass != FI_CLASS_CNTR)
        return -FI_ENOSYS; /* regions belong to the domain, not to an endpoint */
    if (!flags || flags & ~(FI_REMOTE_READ | FI_REMOTE_WRITE))
        return -FI_EBADFLAGS;
    if (mr->registered && mr->domain->enables_regions)
        return -FI_EOPBADSTATE;
    if ((flags & FI_REMOTE_READ && mr->reads) || (flags & FI_REMOTE_WRITE && mr->writes))
        return -FI_EINVAL;
    if (flags & FI_REMOTE_READ)
        err = ofi_cntr_bind(mr->domain, other, &mr->reads);
    if (flags & FI_REMOTE_WRITE && !err)
        err = ofi_cntr_bind(mr->domain, other, &mr->writes);
    return err || !mr->registered ? err : -ofi_errno(mr_attach_counters(mr));
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    (void)arg;
    return command == FI_ENABLE ? mr_enable(mr_of(fid)) : -FI_ENOSYS;
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = mr_close,
    .bind = mr_bind,
    .control = mr_control,
    .ops_open = ofi_no_ops_open,
};

static void mr_init(struct ofi_mr *mr, struct ofi_domain *domain, const struct fi_mr_attr *attr)
{
    mr->domain = domain;
    mr->access = (attr->access & FI_REMOTE_READ ? FABEMU_REMOTE_READ : 0) |
                 (attr->access & FI_REMOTE_WRITE ? FABEMU_REMOTE_WRITE : 0);
    mr->iovs = (unsigned)attr->iov_count;
    for (unsigned i = 0; i < mr->iovs; i++)
        mr->iov[i] = (struct fabemu_iov){attr->mr_iov[i].iov_base, attr->mr_iov[i].iov_len};
    mr->requested_key = attr->requested_key;
    mr->mr_fid.key = domain->chosen_keys ? attr->requested_key : FI_KEY_NOTAVAIL;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **ret)
{
    struct ofi_domain *domain = container_of(fid, struct ofi_domain, domain_fid.fid);
    struct ofi_mr *mr;
    int err = 0;

    if (flags & ~FI_RMA_EVENT || fid->fclass != FI_CLASS_DOMAIN)
        return -FI_EBADFLAGS;
    if (!attr || !ret || !attr->mr_iov || !attr->iov_count ||
        attr->iov_count > ofi_limits()->iovs || attr->offset)
        /* attr->iface is not checked, because it is undefined without FI_HMEM and before version
           1.9 */
        return -FI_EINVAL;
    mr = calloc(1, sizeof *mr);
    if (!mr)
        return -FI_ENOMEM;
    mr_init(mr, domain, attr);
    if (!domain->enables_regions || !(flags & FI_RMA_EVENT))
        err = mr_enable(mr);
    if (err) {
        free(mr);
        return err;
    }
    ofi_fid_init(&mr->mr_fid.fid, FI_CLASS_MR, attr->context, &mr_fid_ops);
    ofi_hold(&mr->domain->refs);
    *ret = &mr->mr_fid;
    return 0;
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
