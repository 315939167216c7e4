/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share.c - shared transmit and receive contexts.
 *
 * A shared transmit context needs no resources, because all endpoints send through the same
 * adapter. A shared receive context is an endpoint whose queues are shared receive queues of the
 * adapter: their receives match messages to the queues of all bound endpoints. When a receive of
 * the context gets a message, the endpoint to which the message was sent reports and counts it.
 * Some completions belong to no message: a receive that was cancelled or failed, and the release of
 * a buffer for several messages. The endpoint that has used the context longest reports these
 * completions. If no endpoint uses the context, they are not reported.
 * Source: fi_endpoint(3), SHARED CONTEXTS.
 */
#include "nic/ofi/ep.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>

/* Capabilities that a shared context must have if one of its endpoints has them. */
#define SHARE_CAPS_TX (FI_MSG | FI_TAGGED | OFI_CAPS_MEMORY)
#define SHARE_CAPS_RX (FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV)

struct ofi_stx {
    struct fid_stx stx_fid;
    struct ofi_domain *domain;
    uint64_t caps;
    _Atomic uint32_t refs; /* number of bound endpoints */
};

struct ofi_srx {
    /* ep.av is the address vector of the endpoints that use the context; NULL: there are none */
    struct ofi_ep ep;
    _Atomic uint32_t refs; /* number of bound endpoints */
    /* The fields below are written under ep.lock. Callbacks read `at` and `oldest` without it; C1
       pairs with C2. */
    /* the endpoint that owns a queue, by the queue's number; NULL: none */
    _Atomic(struct ofi_ep *) at[OFI_QUEUE_NONE];
    _Atomic(struct ofi_ep *) oldest; /* the endpoint that has used it longest; NULL: none */
    struct ofi_ep *newest;           /* the endpoint that began to use it last */
};

static struct ofi_stx *stx_of(struct fid *fid)
{
    return container_of(fid, struct ofi_stx, stx_fid.fid);
}

struct ofi_srx *ofi_srx_of(struct ofi_ep *ep)
{
    return ep->handle.ep_fid.fid.fclass == FI_CLASS_SRX_CTX ? container_of(ep, struct ofi_srx, ep)
                                                            : NULL;
}

/* --- endpoints that use a shared receive context ------------------------------------ */

bool ofi_srx_assign(struct ofi_op *op)
{
    struct ofi_srx *srx = op->srx;
    bool message = op->req.queue != OFI_QUEUE_NONE;
    /* C1: a thread that finds an endpoint also sees its contents */
    struct ofi_ep *ep = atomic_load_explicit(message ? &srx->at[op->req.queue] : &srx->oldest,
                                             memory_order_acquire);

    if (!ep)
        return false;
    op->srx = NULL;
    op->ep = ep;
    op->cq = ep->rx.cq;
    if (op->flags & FI_RECV) /* the release of a buffer for several messages is not counted */
        op->cntr = ep->cntr[OFI_COUNT_RECV];
    if (!ep->rx.selective)
        op->wanted = true;
    return true;
}

/*
 * From now on, endpoint @to reports the messages to the queues of @ep; NULL: no endpoint does.
 * Lock: the context's.
 */
static void srx_point(struct ofi_srx *srx, const struct ofi_ep *ep, struct ofi_ep *to)
{
    for (unsigned kind = 0; kind < OFI_KINDS; kind++)
        atomic_store_explicit(&srx->at[fabemu_queue_id(ep->queue[kind])], to,
                              memory_order_release); /* C2 */
}

static int srx_add(struct ofi_srx *srx, struct ofi_ep *ep)
{
    if (srx->newest && srx->ep.av != ep->av)
        return -FI_EINVAL;
    srx->ep.av = ep->av;
    if (srx->newest)
        srx->newest->srx_next = ep;
    else
        atomic_store_explicit(&srx->oldest, ep, memory_order_release); /* C2 */
    ep->srx_previous = srx->newest;
    ep->srx_next = NULL;
    srx->newest = ep;
    srx_point(srx, ep, ep);
    return 0;
}

static void srx_remove(struct ofi_srx *srx, struct ofi_ep *ep)
{
    srx_point(srx, ep, NULL);
    if (ep->srx_previous)
        ep->srx_previous->srx_next = ep->srx_next;
    else
        atomic_store_explicit(&srx->oldest, ep->srx_next, memory_order_release); /* C2 */
    if (ep->srx_next)
        ep->srx_next->srx_previous = ep->srx_previous;
    else
        srx->newest = ep->srx_previous;
    if (!srx->newest)
        srx->ep.av = NULL; /* the address vector may be closed before this context */
}

int ofi_srx_join(struct ofi_ep *ep)
{
    struct ofi_srx *srx = ep->srx;
    int err;

    ofi_lock(&srx->ep.lock);
    err = srx_add(srx, ep);
    ep->srx_joined = !err;
    ofi_unlock(&srx->ep.lock);
    for (unsigned kind = 0; kind < OFI_KINDS && !err; kind++)
        err = -ofi_errno(fabemu_queue_share(ep->queue[kind], srx->ep.queue[kind]));
    return err;
}

void ofi_srx_leave(struct ofi_ep *ep)
{
    ofi_lock(&ep->srx->ep.lock);
    if (ep->srx_joined)
        srx_remove(ep->srx, ep);
    ep->srx_joined = false;
    ofi_unlock(&ep->srx->ep.lock);
}

/* --- bind --------------------------------------------------------------------------- */

static int bind_stx(struct ofi_ep *ep, struct ofi_stx *stx)
{
    if (!ep->shares_tx || ep->stx || stx->domain != ep->domain ||
        ep->caps & SHARE_CAPS_TX & ~stx->caps)
        return -FI_EINVAL;
    ep->stx = stx;
    ofi_hold(&stx->refs);
    return 0;
}

static int bind_srx(struct ofi_ep *ep, struct ofi_srx *srx)
{
    if (!ep->shares_rx || ep->srx || srx->ep.domain != ep->domain ||
        ep->caps & SHARE_CAPS_RX & ~srx->ep.caps)
        return -FI_EINVAL;
    ep->srx = srx;
    ofi_hold(&srx->refs);
    return 0;
}

int ofi_share_bind(struct ofi_ep *ep, struct fid *fid, uint64_t flags)
{
    if (flags)
        return -FI_EBADFLAGS;
    return fid->fclass == FI_CLASS_STX_CTX ? bind_stx(ep, stx_of(fid))
                                           : bind_srx(ep, ofi_srx_of(ofi_ep_of_fid(fid)));
}

void ofi_share_unbind(struct ofi_ep *ep)
{
    if (ep->stx)
        ofi_release(&ep->stx->refs);
    if (ep->srx)
        ofi_release(&ep->srx->refs);
}

/* --- shared transmit contexts ------------------------------------------------------- */

static int stx_close(struct fid *fid)
{
    struct ofi_stx *stx = stx_of(fid);

    if (ofi_held(&stx->refs))
        return -FI_EBUSY;
    ofi_release(&stx->domain->refs);
    free(stx);
    return 0;
}

static struct fi_ops stx_fid_ops = OFI_FID_OPS(stx_close);

static struct fi_ops_ep stx_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = ofi_no_cancel,
    .getopt = ofi_no_getopt,
    .setopt = ofi_no_setopt,
    .tx_ctx = ofi_no_tx_ctx,
    .rx_ctx = ofi_no_rx_ctx,
    .rx_size_left = ofi_no_size_left,
    .tx_size_left = ofi_no_size_left,
};

int ofi_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **ret,
                 void *context)
{
    struct ofi_stx *stx;

    if (!ret || ofi_check_tx(attr, OFI_CAPS_TX))
        return -FI_EINVAL;
    stx = calloc(1, sizeof *stx);
    if (!stx)
        return -FI_ENOMEM;
    stx->domain = ofi_domain_of(domain);
    stx->caps = attr && attr->caps ? attr->caps : OFI_CAPS_TX;
    ofi_fid_init(&stx->stx_fid.fid, FI_CLASS_STX_CTX, context, &stx_fid_ops);
    stx->stx_fid.ops = &stx_ops;
    ofi_hold(&stx->domain->refs);
    *ret = &stx->stx_fid;
    return 0;
}

/* --- shared receive contexts -------------------------------------------------------- */

static int srx_close(struct fid *fid)
{
    struct ofi_ep *ep = ofi_ep_of_fid(fid);
    struct ofi_srx *srx = ofi_srx_of(ep);

    if (ofi_held(&srx->refs) || ofi_held(&ep->aliases))
        return -FI_EBUSY;
    ofi_ep_drain(ep);
    ofi_ep_free(ep); /* srx->ep is the first field of *srx */
    return 0;
}
static_assert(offsetof(struct ofi_srx, ep) == 0, "ofi_ep_free() frees the context");

static struct fi_ops srx_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = srx_close,
    .bind = ofi_no_bind,
    .control = ofi_ep_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_cm srx_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = ofi_no_setname,
    .getname = ofi_no_getname,
    .getpeer = ofi_no_getpeer,
    .connect = ofi_no_connect,
    .listen = ofi_no_listen,
    .accept = ofi_no_accept,
    .reject = ofi_no_reject,
    .shutdown = ofi_no_shutdown,
};

static int srx_queues_open(struct ofi_ep *ep)
{
    for (unsigned kind = 0; kind < OFI_KINDS; kind++) {
        int err = fabemu_queue_open_shared(ep->domain->fab, &ep->queue[kind]);

        if (err) {
            if (kind)
                fabemu_queue_close(ep->queue[0]);
            return -ofi_errno(err);
        }
    }
    return 0;
}

static void srx_init(struct ofi_ep *ep, struct ofi_domain *domain, struct fi_rx_attr *attr,
                     void *context)
{
    /* offer FI_DIRECTED_RECV only on request: other programs may pass any value as the source
       address of a receive, and it must be ignored */
    const struct fi_info info = {
        .caps = attr && attr->caps ? attr->caps : OFI_CAPS_RX & ~FI_DIRECTED_RECV,
        .rx_attr = attr,
    };

    ofi_ep_init(ep, domain, &info, FI_CLASS_SRX_CTX, context);
    ep->handle.ep_fid.fid.ops = &srx_fid_ops;
    ep->handle.ep_fid.cm = &srx_cm_ops;
    ep->sends = false;
    ep->rx.selective = true; /* ofi_srx_assign() then applies the setting of the endpoint */
}

int ofi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ret,
                 void *context)
{
    struct ofi_srx *srx;
    int err;

    if (!ret || ofi_check_rx(attr, OFI_CAPS_RX))
        return -FI_EINVAL;
    srx = calloc(1, sizeof *srx); /* unused pages of `at` take no memory */
    if (!srx)
        return -FI_ENOMEM;
    srx_init(&srx->ep, ofi_domain_of(domain), attr, context);
    err = srx_queues_open(&srx->ep);
    if (err) {
        ofi_ep_free(&srx->ep);
        return err;
    }
    srx->ep.enabled = true;
    *ret = &srx->ep.handle.ep_fid;
    return 0;
}
