/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alias.c - aliases of endpoints. An alias is a handle of the same endpoint, and has its own flags
 * for the calls that have no flags argument. Source: fi_endpoint(3), fi_ep_alias().
 */
#include "nic/ofi/ep.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>

static int alias_close(struct fid *fid)
{
    struct ofi_handle *alias = ofi_handle_of(container_of(fid, struct fid_ep, fid));

    ofi_release(&alias->ep->aliases);
    free(alias);
    return 0;
}

static struct fi_ops alias_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = alias_close,
    .bind = ofi_no_bind,
    .control = ofi_ep_control,
    .ops_open = ofi_no_ops_open,
};

int ofi_alias_open(struct ofi_handle *of, struct fi_alias *ret)
{
    struct ofi_handle *alias;
    uint64_t flags;
    int err = 0;

    if (!ret || !ret->fid)
        return -FI_EINVAL;
    flags = ret->flags;
    alias = malloc(sizeof *alias);
    if (!alias)
        return -FI_ENOMEM;
    alias->ep_fid = of->ep_fid;
    alias->ep = of->ep;
    atomic_init(&alias->tx_flags, ofi_tx_flags(&of->ep_fid));
    atomic_init(&alias->rx_flags, ofi_rx_flags(&of->ep_fid));
    alias->ep_fid.fid.ops = &alias_fid_ops;
    if (flags)
        err = ofi_ep_control(&alias->ep_fid.fid, FI_SETOPSFLAG, &flags);
    if (err) {
        free(alias);
        return err;
    }
    ofi_hold(&alias->ep->aliases);
    *ret->fid = &alias->ep_fid.fid;
    return 0;
}
