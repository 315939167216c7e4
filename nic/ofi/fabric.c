/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.c - fi_fabric(): the root of a program's objects; it has no adapter */
#include "nic/ofi/no.h"

#include <stdlib.h>
#include <string.h>

static int fabric_close(struct fid *fid)
{
    struct ofi_fabric *fabric = container_of(fid, struct ofi_fabric, fabric_fid.fid);

    if (ofi_held(&fabric->refs))
        return -FI_EBUSY;
    free(fabric);
    return 0;
}

static struct fi_ops fabric_fid_ops = OFI_FID_OPS(fabric_close);

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = ofi_domain_open,
    .passive_ep = ofi_no_passive_ep,
    .eq_open = ofi_eq_open,
    .wait_open = ofi_no_wait_open,
    .trywait = ofi_no_trywait,
};

int ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **ret, void *context)
{
    if (attr->name && strcmp(attr->name, OFI_NAME) != 0)
        return -FI_ENODATA;
    struct ofi_fabric *fabric = calloc(1, sizeof *fabric);

    if (!fabric)
        return -FI_ENOMEM;
    ofi_fid_init(&fabric->fabric_fid.fid, FI_CLASS_FABRIC, context, &fabric_fid_ops);
    fabric->fabric_fid.ops = &fabric_ops;
    fabric->fabric_fid.api_version = attr->api_version;
    *ret = &fabric->fabric_fid;
    return 0;
}
