/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c - fi_fabric(): the root of a user's objects. It holds no adapter.
 */
#include "nic/ofi/ofi.h"

#include <stdlib.h>
#include <string.h>

int ofi_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid, (void)other, (void)flags;
    return -FI_ENOSYS;
}

int ofi_no_control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)command, (void)arg;
    return -FI_ENOSYS;
}

int ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    (void)fid, (void)name, (void)flags, (void)ops, (void)context;
    return -FI_ENOSYS;
}

static int fabric_close(struct fid *fid)
{
    struct ofi_fabric *fabric = container_of(fid, struct ofi_fabric, fabric_fid.fid);

    if (ofi_held(&fabric->refs))
        return -FI_EBUSY;
    free(fabric);
    return 0;
}

static int fabric_no_passive_ep(struct fid_fabric *fabric, struct fi_info *info,
                                struct fid_pep **pep, void *context)
{
    (void)fabric, (void)info, (void)pep, (void)context;
    return -FI_ENOSYS;
}

static int fabric_no_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
                               struct fid_wait **set)
{
    (void)fabric, (void)attr, (void)set;
    return -FI_ENOSYS;
}

/* No object here has a file descriptor to wait on. */
static int fabric_no_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    (void)fabric, (void)fids, (void)count;
    return -FI_ENOSYS;
}

static struct fi_ops fabric_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = fabric_close,
    .bind = ofi_no_bind,
    .control = ofi_no_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = ofi_domain_open,
    .passive_ep = fabric_no_passive_ep,
    .eq_open = ofi_eq_open,
    .wait_open = fabric_no_wait_open,
    .trywait = fabric_no_trywait,
};

int ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **ret, void *context)
{
    if (attr->name && strcmp(attr->name, OFI_NAME) != 0)
        return -FI_ENODATA;
    struct ofi_fabric *fabric = calloc(1, sizeof *fabric);

    if (!fabric)
        return -FI_ENOMEM;
    fabric->fabric_fid.fid.fclass = FI_CLASS_FABRIC;
    fabric->fabric_fid.fid.context = context;
    fabric->fabric_fid.fid.ops = &fabric_fid_ops;
    fabric->fabric_fid.ops = &fabric_ops;
    fabric->fabric_fid.api_version = attr->api_version;
    *ret = &fabric->fabric_fid;
    return 0;
}
