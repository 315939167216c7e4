/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eq.c - event queues, for programs that open one without need: connections do not exist here, and
 * addresses are inserted immediately, so a queue stays empty.
 */
#include "nic/ofi/no.h"

#include <stdlib.h>

struct ofi_eq {
    struct fid_eq eq_fid;
    struct ofi_fabric *fabric;
};

static int eq_close(struct fid *fid)
{
    struct ofi_eq *eq = container_of(fid, struct ofi_eq, eq_fid.fid);

    ofi_release(&eq->fabric->refs);
    free(eq);
    return 0;
}

static ssize_t eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t bytes, uint64_t flags)
{
    (void)eq, (void)event, (void)buf, (void)bytes, (void)flags;
    return -FI_EAGAIN;
}

static ssize_t eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
    (void)eq, (void)buf, (void)flags;
    return -FI_EAGAIN;
}

static ssize_t eq_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t bytes, int timeout_ms,
                        uint64_t flags)
{
    struct ofi_wait wait = ofi_wait_begin(NULL, timeout_ms);

    (void)eq, (void)event, (void)buf, (void)bytes, (void)flags;
    while (ofi_wait_sleep(&wait))
        ;
    return -FI_EAGAIN;
}

static const char *eq_strerror(struct fid_eq *eq, int prov_errno, const void *data, char *buf,
                               size_t bytes)
{
    (void)eq, (void)data, (void)buf, (void)bytes;
    return fi_strerror(prov_errno);
}

static struct fi_ops eq_fid_ops = OFI_FID_OPS(eq_close);

static struct fi_ops_eq eq_ops = {
    .size = sizeof(struct fi_ops_eq),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = ofi_no_eq_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

int ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **ret,
                void *context)
{
    struct ofi_eq *eq;

    if (attr && !ofi_waits_by_polling(attr->wait_obj))
        return -FI_ENOSYS;
    eq = calloc(1, sizeof *eq);
    if (!eq)
        return -FI_ENOMEM;
    eq->fabric = container_of(fabric, struct ofi_fabric, fabric_fid);
    ofi_fid_init(&eq->eq_fid.fid, FI_CLASS_EQ, context, &eq_fid_ops);
    eq->eq_fid.ops = &eq_ops;
    ofi_hold(&eq->fabric->refs);
    *ret = &eq->eq_fid;
    return 0;
}
