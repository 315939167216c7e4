/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scalable.c - scalable endpoints: several transmit and receive contexts with one address.
 *
 * The scalable endpoint is a struct ofi_ep, and so is each context. The scalable endpoint owns the
 * queues of all receive contexts. Its address names two queues, those of receive context 0. The
 * numbers of the queues of receive context I are higher by 2I. Therefore a sender needs only the
 * address and I to name a context (fi_rx_addr()). The queues stay open until the scalable endpoint
 * is closed, so they keep messages for a context that is not open. All transmit contexts send from
 * the queues in the address, so that receivers recognise the scalable endpoint as the source.
 * Source: fi_endpoint(3), SCALABLE ENDPOINTS.
 */
#include "nic/ofi/ep.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>

struct sep_side {
    size_t count;
    struct ofi_ep *context[OFI_CONTEXTS_MAX]; /* NULL: not open */
};

struct ofi_sep {
    struct ofi_ep ep;     /* ep.lock protects the fields below */
    struct fi_info *info; /* a copy of the argument of fi_scalable_ep() */
    struct sep_side tx, rx;
    uint32_t open; /* number of open contexts */
    struct fabemu_queue *queue[OFI_KINDS * OFI_CONTEXTS_MAX];
};

static struct ofi_sep *sep_of(struct fid *fid)
{
    return container_of(ofi_ep_of_fid(fid), struct ofi_sep, ep);
}

/* --- contexts ----------------------------------------------------------------------- */

void ofi_sep_share_av(struct ofi_ep *context)
{
    context->av = context->sep->ep.av;
    if (context->av)
        ofi_av_hold(context->av);
}

/* Open the queues of all receive contexts. Errors: -FI_ENOAV; those of ofi_ep_queues_open(). */
static int sep_enable(struct ofi_sep *sep)
{
    int err = 0;

    if (!sep->ep.av)
        return -FI_ENOAV;
    ofi_lock(&sep->ep.lock);
    if (!sep->ep.enabled)
        err = ofi_ep_queues_open(&sep->ep, (unsigned)sep->rx.count, sep->queue);
    if (!err)
        sep->ep.enabled = true;
    ofi_unlock(&sep->ep.lock);
    return err;
}

int ofi_sep_queues(struct ofi_ep *context)
{
    struct ofi_sep *sep = context->sep;
    unsigned index = context->receives ? context->index : 0;
    int err = sep_enable(sep);

    if (err)
        return err;
    for (unsigned kind = 0; kind < OFI_KINDS; kind++)
        context->queue[kind] = sep->queue[OFI_KINDS * index + kind];
    context->source = sep->ep.source;
    return 0;
}

static struct sep_side *context_side(const struct ofi_ep *context)
{
    return context->receives ? &context->sep->rx : &context->sep->tx;
}

void ofi_sep_forget(struct ofi_ep *context)
{
    struct ofi_sep *sep = context->sep;

    ofi_lock(&sep->ep.lock);
    context_side(context)->context[context->index] = NULL;
    sep->open--;
    ofi_unlock(&sep->ep.lock);
}

/*
 * Enter the context in the table of its scalable endpoint. Errors: -FI_EBUSY, a context with this
 * index is open.
 */
static int context_enter(struct ofi_ep *context)
{
    struct ofi_sep *sep = context->sep;
    struct ofi_ep **at = &context_side(context)->context[context->index];
    int err = 0;

    ofi_lock(&sep->ep.lock);
    if (*at) {
        err = -FI_EBUSY;
    } else {
        *at = context;
        sep->open++;
    }
    ofi_unlock(&sep->ep.lock);
    return err;
}

/*
 * Open a context.
 * @caps, @op_flags: as the program requests them; 0: those of the scalable endpoint.
 */
static int context_open(struct ofi_sep *sep, size_t class, int index, uint64_t caps,
                        uint64_t op_flags, struct fid_ep **ret, void *context)
{
    bool receives = class == FI_CLASS_RX_CTX;
    const struct sep_side *side = receives ? &sep->rx : &sep->tx;
    struct ofi_ep *ep;
    int err;

    if (!ret || index < 0 || (size_t)index >= side->count)
        return -FI_EINVAL;
    ep = calloc(1, sizeof *ep);
    if (!ep)
        return -FI_ENOMEM;
    ofi_ep_init(ep, sep->ep.domain, sep->info, class, context);
    ep->receives = receives;
    ep->sends = !receives;
    ep->sep = sep;
    ep->index = (unsigned)index;
    atomic_init(&ep->multi_min_bytes, ofi_multi_min_bytes(&sep->ep));
    if (caps)
        ep->caps = caps | (sep->ep.caps & OFI_CAPS_DOMAIN);
    if (op_flags)
        atomic_init(receives ? &ep->handle.rx_flags : &ep->handle.tx_flags, op_flags);
    err = context_enter(ep);
    if (err) {
        ofi_ep_free(ep);
        return err;
    }
    *ret = &ep->handle.ep_fid;
    return 0;
}

int ofi_tx_context(struct fid_ep *fid, int index, struct fi_tx_attr *attr, struct fid_ep **ret,
                   void *context)
{
    const struct fi_tx_attr none = {0}, *want = attr ? attr : &none;
    struct ofi_sep *sep = sep_of(&fid->fid);
    struct fi_tx_attr got;
    int err;

    if (fid->fid.fclass != FI_CLASS_SEP)
        return -FI_ENOSYS;
    if (ofi_check_tx(want, sep->ep.caps))
        return -FI_EINVAL;
    got = sep->info->tx_attr ? *sep->info->tx_attr : none;
    err = context_open(sep, FI_CLASS_TX_CTX, index, want->caps, want->op_flags, ret, context);
    if (err)
        return err;
    if (want->msg_order)
        ofi_ep_of(*ret)->after_writes = want->msg_order & FI_ORDER_SAW;
    if (!attr)
        return 0;
    ofi_tclass_set(sep->ep.domain, want->tclass);
    got.caps = want->caps ? want->caps : got.caps;
    got.op_flags = want->op_flags ? want->op_flags : got.op_flags;
    got.msg_order = want->msg_order ? want->msg_order : got.msg_order;
    got.tclass = want->tclass ? want->tclass : got.tclass;
    *attr = got;
    return 0;
}

int ofi_rx_context(struct fid_ep *fid, int index, struct fi_rx_attr *attr, struct fid_ep **ret,
                   void *context)
{
    const struct fi_rx_attr none = {0}, *want = attr ? attr : &none;
    struct ofi_sep *sep = sep_of(&fid->fid);
    struct fi_rx_attr got;
    int err;

    if (fid->fid.fclass != FI_CLASS_SEP)
        return -FI_ENOSYS;
    if (ofi_check_rx(want, sep->ep.caps))
        return -FI_EINVAL;
    got = sep->info->rx_attr ? *sep->info->rx_attr : none;
    err = context_open(sep, FI_CLASS_RX_CTX, index, want->caps, want->op_flags, ret, context);
    if (err || !attr)
        return err;
    got.caps = want->caps ? want->caps : got.caps;
    got.op_flags = want->op_flags ? want->op_flags : got.op_flags;
    *attr = got;
    return 0;
}

/* --- the scalable endpoint ---------------------------------------------------------- */

static void sep_free(struct ofi_sep *sep)
{
    if (sep->info)
        fi_freeinfo(sep->info);
    ofi_ep_free(&sep->ep); /* sep->ep is the first field of *sep */
}
static_assert(offsetof(struct ofi_sep, ep) == 0, "ofi_ep_free() frees the scalable endpoint");

static int sep_close(struct fid *fid)
{
    struct ofi_sep *sep = sep_of(fid);

    if (sep->open)
        return -FI_EBUSY;
    for (size_t i = 0; sep->ep.enabled && i < OFI_KINDS * sep->rx.count; i++)
        fabemu_queue_close(sep->queue[i]);
    if (sep->ep.av)
        ofi_av_release(sep->ep.av);
    sep_free(sep);
    return 0;
}

static int sep_control(struct fid *fid, int command, void *arg)
{
    (void)arg;
    return command == FI_ENABLE ? sep_enable(sep_of(fid)) : -FI_ENOSYS;
}

static struct fi_ops sep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = sep_close,
    .bind = ofi_ep_bind,
    .control = sep_control,
    .ops_open = ofi_no_ops_open,
};

/*
 * Return the number of contexts that the program wants; 0: the provider does not support that many.
 */
static size_t sep_contexts(size_t want)
{
    return want > OFI_CONTEXTS_MAX ? 0 : want ? want : 1;
}

int ofi_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ret,
                 void *context)
{
    const struct fi_ep_attr none = {0}, *attr = info && info->ep_attr ? info->ep_attr : &none;
    size_t tx = sep_contexts(attr->tx_ctx_cnt), rx = sep_contexts(attr->rx_ctx_cnt);
    struct ofi_addr source;
    struct ofi_sep *sep;
    int err = info && ret ? ofi_ep_check(info, &source) : -FI_EINVAL;

    if (err)
        return err;
    if (!tx || !rx || attr->type == FI_EP_MSG)
        return -FI_EINVAL;
    sep = calloc(1, sizeof *sep);
    if (!sep)
        return -FI_ENOMEM;
    ofi_ep_init(&sep->ep, ofi_domain_of(domain), info, FI_CLASS_SEP, context);
    sep->ep.handle.ep_fid.fid.ops = &sep_fid_ops;
    sep->ep.sends = sep->ep.receives = false;
    sep->ep.source = source;
    sep->tx.count = tx;
    sep->rx.count = rx;
    sep->info = fi_dupinfo(info);
    if (!sep->info) {
        sep_free(sep);
        return -FI_ENOMEM;
    }
    *ret = &sep->ep.handle.ep_fid;
    return 0;
}
