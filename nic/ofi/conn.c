/* SPDX-License-Identifier: BSD-3-Clause */
/* conn.c - calls for the connections of FI_EP_MSG endpoints; cm.c exchanges the messages */
#include "nic/ofi/cm.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>
#include <string.h>

#define CONN_RECEIVES 4 /* receives that are posted for messages about one connection */

int ofi_conn_open(struct ofi_ep *ep, const struct fi_info *info)
{
    if (info->handle) {
        ep->request = ofi_request_hold(ep->domain->fabric, info->handle);
        if (!ep->request && ofi_pep_addr_of(ep->domain->fabric, info->handle, &ep->name))
            return -FI_EINVAL;
    }
    ep->cm = calloc(1, sizeof *ep->cm);
    if (ep->cm)
        return 0;
    if (ep->request)
        ofi_request_release(ep->request);
    return -FI_ENOMEM;
}

int ofi_conn_enable(struct ofi_ep *ep)
{
    int err;

    if (!ep->eq)
        return -FI_ENOEQ;
    if (ep->cm->queue)
        return 0; /* opened by an earlier attempt to enable the endpoint */
    err = ofi_cm_open(ep->cm, ep->domain->fab, &ep->handle.ep_fid.fid, OFI_QUEUE_NONE);
    if (err)
        return err;
    err = ofi_cm_start(ep->cm, ep->eq, CONN_RECEIVES);
    if (err)
        ofi_cm_close(ep->cm);
    return err;
}

void ofi_conn_close(struct ofi_ep *ep)
{
    if (!ep->cm)
        return;
    if (ep->cm->queue) {
        ofi_eq_lock(ep->eq);
        ofi_cm_shutdown(ep->cm);
        ofi_eq_unlock(ep->eq);
        ofi_eq_remove(ep->cm); /* so that no thread handles its messages any more */
        ofi_cm_refuse(ep->cm, &ep->cm->addr);
        ofi_cm_drain(ep->cm);
        ofi_cm_close(ep->cm);
    }
    if (ep->request)
        ofi_request_release(ep->request);
    free(ep->cm);
}

int ofi_conn_peer(const struct ofi_ep *ep, struct ofi_peer *ret)
{
    return ofi_cm_peer(ep->cm, ret);
}

static int conn_connect(struct fid_ep *fid, const void *addr, const void *data, size_t bytes)
{
    struct ofi_ep *ep = ofi_ep_of(fid);
    struct ofi_addr server;
    int err = ofi_addr_read_whole(ep->addr_format, addr, &server);

    if (!err)
        err = ofi_cm_data_check(data, bytes);
    if (!err)
        err = ofi_addr_dest(&server, ep->domain->fab);
    if (!err)
        err = fi_enable(fid);
    if (err)
        return err;
    ofi_eq_lock(ep->eq);
    err = ofi_cm_connect(ep->cm, &ep->source, &server, data, bytes);
    ofi_eq_unlock(ep->eq);
    return err;
}

static int conn_accept(struct fid_ep *fid, const void *data, size_t bytes)
{
    struct ofi_ep *ep = ofi_ep_of(fid);
    int err;

    if (!ep->request)
        return -FI_EOPBADSTATE;
    err = fi_enable(fid);
    if (err)
        return err;
    if (!ofi_request_answer(ep->request, NULL))
        return -FI_EOPBADSTATE;
    ofi_eq_lock(ep->eq);
    err = ofi_cm_accept(ep->cm, &ep->source, ep->request, data, bytes);
    ofi_eq_unlock(ep->eq);
    ofi_request_answered(ep->request, !err);
    return err;
}

static int conn_shutdown(struct fid_ep *fid, uint64_t flags)
{
    struct ofi_ep *ep = ofi_ep_of(fid);
    int err;

    if (flags)
        return -FI_EBADFLAGS;
    if (!ep->enabled)
        return -FI_ENOTCONN;
    ofi_eq_lock(ep->eq);
    err = ofi_cm_shutdown(ep->cm);
    ofi_eq_unlock(ep->eq);
    return err;
}

static int conn_getpeer(struct fid_ep *fid, void *addr, size_t *bytes)
{
    struct ofi_ep *ep = ofi_ep_of(fid);
    struct ofi_peer peer;
    struct ofi_addr named = {.fabric = ep->domain->fabric_hash};
    int err = ofi_cm_peer(ep->cm, &peer);

    if (err)
        return err;
    named.node = peer.node;
    named.incarnation = peer.incarnation;
    memcpy(named.queue, peer.queue, sizeof named.queue);
    return ofi_addr_copy(ep->addr_format, &named, addr, bytes);
}

struct fi_ops_cm ofi_conn_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = ofi_ep_setname,
    .getname = ofi_ep_getname,
    .getpeer = conn_getpeer,
    .connect = conn_connect,
    .listen = ofi_no_listen,
    .accept = conn_accept,
    .reject = ofi_no_reject,
    .shutdown = conn_shutdown,
};
