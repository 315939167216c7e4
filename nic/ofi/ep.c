/* SPDX-License-Identifier: BSD-3-Clause */
/* ep.c - endpoints: open, bind, enable, close */
#include "nic/ofi/cm.h"
#include "nic/ofi/coll.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>
#include <string.h>

/* Return whether @flags name a direction in which this endpoint or context has no transfers. */
static bool ep_lacks_side(const struct ofi_ep *ep, uint64_t flags)
{
    return (!ep->sends && flags & (FI_SEND | FI_READ | FI_WRITE)) ||
           (!ep->receives && flags & (FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE));
}

static void ep_bind_side(struct ofi_side *side, struct ofi_cq *cq, uint64_t flags)
{
    if (!side->cq)
        ofi_hold(&cq->source.refs);
    side->cq = cq;
    side->selective = flags & FI_SELECTIVE_COMPLETION;
}

static int ep_bind_cq(struct ofi_ep *ep, struct fid *fid, uint64_t flags)
{
    struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq_fid.fid);

    if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
        return -FI_EBADFLAGS;
    if (!(flags & (FI_TRANSMIT | FI_RECV)) || cq->domain != ep->domain ||
        ep_lacks_side(ep, flags) || (flags & FI_TRANSMIT && ep->tx.cq) ||
        (flags & FI_RECV && ep->rx.cq))
        return -FI_EINVAL;
    if (flags & FI_TRANSMIT)
        ep_bind_side(&ep->tx, cq, flags);
    if (flags & FI_RECV)
        ep_bind_side(&ep->rx, cq, flags);
    return 0;
}

static int ep_bind_cntr(struct ofi_ep *ep, struct fid *fid, uint64_t flags)
{
    static const uint64_t of[OFI_COUNTS] = {
        [OFI_COUNT_SEND] = FI_SEND,
        [OFI_COUNT_RECV] = FI_RECV,
        [OFI_COUNT_READ] = FI_READ,
        [OFI_COUNT_WRITE] = FI_WRITE,
        [OFI_COUNT_REMOTE_READ] = FI_REMOTE_READ,
        [OFI_COUNT_REMOTE_WRITE] = FI_REMOTE_WRITE,
    };

    if (flags & ~(FI_SEND | FI_RECV | OFI_CAPS_ACCESS))
        return -FI_EBADFLAGS;
    if (!flags || ep_lacks_side(ep, flags)) /* without flags, the counter would count nothing */
        return -FI_EINVAL;
    for (unsigned i = 0; i < OFI_COUNTS; i++)
        if (flags & of[i] && ep->cntr[i])
            return -FI_EINVAL;
    for (unsigned i = 0; i < OFI_COUNTS; i++)
        if (flags & of[i] && ofi_cntr_bind(ep->domain, fid, &ep->cntr[i]))
            return -FI_EINVAL; /* the counter is of another domain, so nothing was bound */
    return 0;
}

static int ep_bind_av(struct ofi_ep *ep, struct fid *fid)
{
    struct ofi_av *av = ofi_av_of(fid);

    /* contexts use the vector of their scalable endpoint */
    if (ep->av || ep->sep || ofi_av_domain(av) != ep->domain)
        return -FI_EINVAL;
    ep->av = av;
    ofi_av_hold(ep->av);
    return 0;
}

int ofi_ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct ofi_ep *ep = ofi_ep_of_fid(fid);

    if (ep->enabled)
        return -FI_EOPBADSTATE;
    if (!other)
        return -FI_EINVAL;
    switch (other->fclass) {
    case FI_CLASS_CQ:
        return ep_bind_cq(ep, other, flags);
    case FI_CLASS_CNTR:
        return ep_bind_cntr(ep, other, flags);
    case FI_CLASS_AV:
        return ep_bind_av(ep, other);
    case FI_CLASS_STX_CTX:
    case FI_CLASS_SRX_CTX:
        return ofi_share_bind(ep, other, flags);
    case FI_CLASS_EQ:
        return ofi_eq_bind(other, &ep->eq);
    default:
        return -FI_EINVAL;
    }
}

/*
 * Open queues for all contexts. The first context gets the queues in the address @source, and the
 * others get the queues with the next numbers.
 */
static int queues_open_at(struct fabemu *fab, const struct ofi_addr *source, unsigned count,
                          struct fabemu_queue **queue)
{
    int err = 0;

    for (unsigned i = 0; i < count && !err; i++) {
        uint32_t id = source->queue[i % OFI_KINDS] + i / OFI_KINDS * OFI_KINDS;

        err = id < OFI_QUEUE_NONE ? fabemu_queue_open(fab, (uint16_t)id, &queue[i]) : -EINVAL;
        while (err && i)
            fabemu_queue_close(queue[--i]);
    }
    return err;
}

int ofi_ep_queues_open(struct ofi_ep *ep, unsigned contexts, struct fabemu_queue **queue)
{
    const struct fabemu_info *info = fabemu_info(ep->domain->fab);
    struct fabemu *fab = ep->domain->fab;
    int err;

    if (!ofi_addr_is_here(&ep->source, info) || !ofi_addr_is_here(&ep->name, info))
        return -FI_EADDRNOTAVAIL;
    if (ofi_addr_has_queues(&ep->source))
        err = queues_open_at(fab, &ep->source, OFI_KINDS * contexts, queue);
    else
        err = fabemu_queue_open_any(fab, OFI_KINDS * contexts, queue);
    if (err)
        return -ofi_errno(err);
    err = ofi_addr_has_queues(&ep->source) ? fabemu_queue_announce(queue[OFI_UNTAGGED]) : 0;
    if (err) {
        for (unsigned i = 0; i < OFI_KINDS * contexts; i++)
            fabemu_queue_close(queue[i]);
        return -ofi_errno(err);
    }
    for (unsigned kind = 0; kind < OFI_KINDS; kind++)
        ep->source.queue[kind] = fabemu_queue_id(queue[kind]);
    ep->source.node = info->node;
    ep->source.fabric = ep->domain->fabric_hash;
    ep->source.incarnation = info->incarnation;
    ep->name.node = ep->source.node;
    ep->name.fabric = ep->source.fabric;
    ep->name.incarnation = ep->source.incarnation;
    return 0;
}

/*
 * If the entries of the completion queue for receives have room for completion data, let an
 * operation wait for peers' writes with such data. Otherwise the adapter refuses these writes.
 */
static int ep_await_data(struct ofi_ep *ep)
{
    const struct ofi_xfer none = {.kind = OFI_UNTAGGED};
    struct ofi_op *op;

    if (!(ep->caps & FI_RMA) || !(ep->caps & FI_REMOTE_WRITE) || !ep->domain->cq_data ||
        !ep->rx.cq || ep->rx.cq->entry_bytes < sizeof(struct fi_cq_data_entry))
        return 0;
    op = ofi_op_get(ep, &none, OFI_COUNT_NOTICE);
    if (!op)
        return -FI_ENOMEM;
    ofi_notice_await(op);
    return 0;
}

/* Let the adapter count the gets, puts and atomics of peers that target this endpoint. */
static int ep_count_remote(struct ofi_ep *ep)
{
    struct ofi_cntr *reads = ep->cntr[OFI_COUNT_REMOTE_READ];
    struct ofi_cntr *writes = ep->cntr[OFI_COUNT_REMOTE_WRITE];
    struct fabemu_queue *queue = ep->queue[OFI_UNTAGGED];
    int err = 0;

    if (reads)
        err = fabemu_queue_event(queue, FABEMU_REMOTE_READ, &reads->event);
    if (writes && !err)
        err = fabemu_queue_event(queue, FABEMU_REMOTE_WRITE, &writes->event);
    return -ofi_errno(err);
}

static int ep_queues_open(struct ofi_ep *ep)
{
    return ep->sep ? ofi_sep_queues(ep) : ofi_ep_queues_open(ep, 1, ep->queue);
}

/* Callback of the adapter. */
static void ep_lost(struct fabemu_queue *queue, const struct fabemu_req *failed, void *arg)
{
    struct ofi_ep *ep = arg;

    ofi_op_lost(ep, queue == ep->queue[OFI_TAGGED] ? OFI_TAGGED : OFI_UNTAGGED, failed);
}

/*
 * Open MPI's transport follows the context of each error entry without a check, so it crashes on an
 * entry without a context. Its launcher mpirun sets this variable.
 */
static bool is_open_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL;
}

/*
 * Report the messages that the network has dropped. For a scalable endpoint they are not reported,
 * because all its transmit contexts have the same queues. Instead, the next operation of such an
 * endpoint with the receiver fails.
 */
static void ep_watch_losses(struct ofi_ep *ep)
{
    if (is_open_mpi())
        return;
    for (unsigned kind = 0; kind < OFI_KINDS && ep->sends && !ep->sep; kind++)
        fabemu_queue_on_loss(ep->queue[kind], ep_lost, ep);
}

/* The queues of a context belong to its scalable endpoint, which closes them. */
static void ep_queues_close(struct ofi_ep *ep)
{
    for (unsigned kind = 0; kind < OFI_KINDS && !ep->sep; kind++)
        fabemu_queue_close(ep->queue[kind]);
    if (ep->join_queue)
        fabemu_queue_close(ep->join_queue);
    ep->join_queue = NULL;
}

/* Open the queue to which other processes send messages about groups (join.c). */
static int ep_join_open(struct ofi_ep *ep)
{
    int err = ep->caps & FI_COLLECTIVE && !ep->sep
                  ? fabemu_queue_open_counted(ep->domain->fab, OFI_JOIN_QUEUE, &ep->join_queue)
                  : 0;

    return -ofi_errno(err);
}

static int ep_check_bound(struct ofi_ep *ep)
{
    if (ep->sep && !ep->av)
        ofi_sep_share_av(ep);
    if (!ep->av && !ep->cm)
        return -FI_ENOAV;
    if (ep->sends && !ep->tx.cq && ep->caps & FI_SEND && !ep->cntr[OFI_COUNT_SEND])
        return -FI_ENOCQ;
    if (ep->receives && !ep->rx.cq && ep->caps & FI_RECV && !ep->cntr[OFI_COUNT_RECV])
        return -FI_ENOCQ;
    return (ep->shares_tx && !ep->stx) || (ep->shares_rx && !ep->srx) ? -FI_EOPBADSTATE : 0;
}

static int ep_enable(struct ofi_ep *ep)
{
    const struct ofi_addr requested = ep->source;
    int err;

    if (ep->enabled)
        return 0;
    err = ep_check_bound(ep);
    if (!err)
        err = ep_queues_open(ep);
    if (err)
        return err;
    err = ep_count_remote(ep);
    if (!err && ep->srx)
        err = ofi_srx_join(ep);
    if (!err)
        err = ep->cm ? ofi_conn_enable(ep) : ep_join_open(ep);
    if (!err)
        err = ep_await_data(ep);
    if (err && ep->srx)
        ofi_srx_leave(ep);
    if (err) { /* the program may try again */
        ep_queues_close(ep);
        ep->source = requested;
    }
    if (!err)
        ep_watch_losses(ep);
    ep->enabled = !err;
    return err;
}

/* Get or set operation flags. FI_TRANSMIT or FI_RECV in *flags selects the direction. */
static int ep_op_flags(struct ofi_handle *handle, uint64_t *flags, bool set)
{
    uint64_t given = flags ? *flags : 0;
    uint64_t side = given & (FI_TRANSMIT | FI_RECV), wanted = given & ~side;
    _Atomic uint64_t *own = side == FI_TRANSMIT ? &handle->tx_flags : &handle->rx_flags;
    uint64_t known = side == FI_TRANSMIT ? OFI_OP_FLAGS_TX | (handle->ep->caps & FI_TRIGGER)
                                         : OFI_OP_FLAGS_RX;

    if (side != FI_TRANSMIT && side != FI_RECV)
        return -FI_EINVAL;
    if (!set)
        *flags = atomic_load_explicit(own, memory_order_relaxed);
    else if (wanted & ~known)
        return -FI_EBADFLAGS;
    else
        atomic_store_explicit(own, wanted, memory_order_relaxed);
    return 0;
}

int ofi_ep_control(struct fid *fid, int command, void *arg)
{
    struct ofi_handle *handle = ofi_handle_of(container_of(fid, struct fid_ep, fid));

    switch (command) {
    case FI_ENABLE:
        return ep_enable(handle->ep);
    case FI_GETOPSFLAG:
        return ep_op_flags(handle, arg, false);
    case FI_SETOPSFLAG:
        return ep_op_flags(handle, arg, true);
    case FI_ALIAS:
        return ofi_alias_open(handle, arg);
    default:
        return -FI_ENOSYS;
    }
}

/*
 * Drop completions from now on. A reader of the completion queue lets an operation wait for a
 * peer's next write only under the queue's lock and if `closing` is not set. So no reader does so
 * once this function has returned.
 */
static void ep_stop(struct ofi_ep *ep)
{
    if (ep->rx.cq)
        ofi_lock(&ep->rx.cq->lock);
    atomic_store_explicit(&ep->closing, true, memory_order_relaxed);
    if (ep->rx.cq)
        ofi_unlock(&ep->rx.cq->lock);
}

/*
 * Wait until no thread is cancelling deferred work of this endpoint (works_cancel() in work.c). All
 * of this work is complete, so no further thread begins to cancel it.
 */
static void ep_work_released(struct ofi_ep *ep)
{
    ofi_lock(&ep->domain->lock);
    ofi_unlock(&ep->domain->lock);
}

/*
 * End all operations. First cancel the operations that wait for a counter. Then wait for the sends,
 * while their receivers can still fetch the data. Then close the queues, which cancels the
 * receives. Last, abort the other operations. Aborting takes the adapter's lock, so when this
 * returns, no callback is running, and the adapter uses no buffer of the application.
 */
void ofi_ep_drain(struct ofi_ep *ep)
{
    struct ofi_wait wait = ofi_wait_drain(ep->domain->fab);

    ofi_discard_claims(ep);
    ofi_op_disarm(ep, true, NULL);
    while (ofi_op_sends_pending(ep) && ofi_wait_step(&wait))
        ;
    ep_stop(ep);
    if (ep->srx)
        ofi_srx_leave(ep);
    if (ep->enabled)
        ep_queues_close(ep);
    ofi_op_abort_all(ep);
    ep_work_released(ep);
}

static void ep_unbind_side(struct ofi_ep *ep, const struct ofi_side *side)
{
    if (!side->cq)
        return;
    ofi_cq_forget(side->cq, ep);
    ofi_release(&side->cq->source.refs);
}

static void ep_unbind(struct ofi_ep *ep)
{
    ep_unbind_side(ep, &ep->tx);
    ep_unbind_side(ep, &ep->rx);
    for (unsigned i = 0; i < OFI_COUNTS; i++)
        ofi_cntr_unbind(&ep->cntr[i]);
    if (ep->av)
        ofi_av_release(ep->av);
    ofi_share_unbind(ep);
}

void ofi_ep_free(struct ofi_ep *ep)
{
    ofi_eq_unbind(&ep->eq);
    ofi_release(&ep->domain->refs);
    ofi_op_pool_free(ep);
    free(ep->mcs);
    ofi_lock_destroy(&ep->lock);
    free(ep);
}

static int ep_close(struct fid *fid)
{
    struct ofi_ep *ep = ofi_ep_of_fid(fid);

    if (ofi_held(&ep->aliases) || ofi_mc_any(ep))
        return -FI_EBUSY;
    ofi_conn_close(ep);
    ofi_ep_drain(ep);
    ep_unbind(ep);
    if (ep->sep)
        ofi_sep_forget(ep);
    ofi_ep_free(ep);
    return 0;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
    return ofi_op_cancel(ofi_ep_of_fid(fid), context);
}

int ofi_ep_setname(fid_t fid, void *addr, size_t bytes)
{
    struct ofi_ep *ep = ofi_ep_of_fid(fid);

    if (ep->enabled || ep->sep)
        return -FI_EOPBADSTATE;
    return ofi_addr_read(ep->addr_format, addr, bytes, ep->cm ? &ep->name : &ep->source);
}

int ofi_ep_getname(fid_t fid, void *addr, size_t *bytes)
{
    struct ofi_ep *ep = ofi_ep_of_fid(fid);

    if (!ep->enabled)
        return -FI_EOPBADSTATE; /* an endpoint has no queues before it is enabled */
    return ofi_addr_copy(ep->addr_format, ofi_addr_has_queues(&ep->name) ? &ep->name : &ep->source,
                         addr, bytes);
}

int ofi_ep_peer(const struct ofi_ep *ep, fi_addr_t addr, struct ofi_peer *ret)
{
    if (!ep->sends)
        return -FI_EOPNOTSUPP;
    return ep->cm ? ofi_conn_peer(ep, ret) : ofi_av_peer(ep->av, addr, ret);
}

int ofi_opt_get(int level, int name, int which, size_t is, void *value, size_t *bytes)
{
    size_t room;

    if (level != FI_OPT_ENDPOINT || name != which)
        return -FI_ENOPROTOOPT;
    if (!value || !bytes)
        return -FI_EINVAL;
    room = *bytes;
    *bytes = sizeof is;
    if (room < sizeof is)
        return -FI_ETOOSMALL;
    memcpy(value, &is, sizeof is);
    return 0;
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *bytes)
{
    const struct ofi_ep *ep = ofi_ep_of_fid(fid);

    if (ep->cm && name == FI_OPT_CM_DATA_SIZE)
        return ofi_opt_get(level, name, name, OFI_CM_DATA_BYTES, value, bytes);
    return ofi_opt_get(level, name, FI_OPT_MIN_MULTI_RECV, ofi_multi_min_bytes(ep), value, bytes);
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = ep_close,
    .bind = ofi_ep_bind,
    .control = ofi_ep_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = ep_cancel,
    .getopt = ep_getopt,
    .setopt = ofi_multi_setopt,
    .tx_ctx = ofi_tx_context,
    .rx_ctx = ofi_rx_context,
    .rx_size_left = ofi_no_size_left,
    .tx_size_left = ofi_no_size_left,
};

static struct fi_ops_cm ep_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = ofi_ep_setname,
    .getname = ofi_ep_getname,
    .getpeer = ofi_no_getpeer,
    .connect = ofi_no_connect,
    .listen = ofi_no_listen,
    .accept = ofi_no_accept,
    .reject = ofi_no_reject,
    .shutdown = ofi_no_shutdown,
    .join = ofi_join,
};

void ofi_ep_init(struct ofi_ep *ep, struct ofi_domain *domain, const struct fi_info *info,
                 size_t class, void *context)
{
    ofi_fid_init(&ep->handle.ep_fid.fid, class, context, &ep_fid_ops);
    ofi_hold(&domain->refs);
    ep->domain = domain;
    ep->name = ofi_addr_any;
    ep->sends = ep->receives = true;
    ep->addr_format = ofi_addr_format(info->addr_format);
    ofi_lock_init(&ep->lock, domain);
    if (info->tx_attr)
        ofi_tclass_set(domain, info->tx_attr->tclass);
    ep->caps = info->caps;
    ep->message_max_bytes = info->ep_attr && info->ep_attr->type == FI_EP_DGRAM
                                ? OFI_DATAGRAM_MAX_BYTES
                                : ofi_limits()->message_bytes;
    atomic_init(&ep->multi_min_bytes, OFI_MULTI_MIN_BYTES);
    ep->handle.ep = ep;
    ep->after_writes = info->tx_attr && info->tx_attr->msg_order & FI_ORDER_SAW;
    atomic_init(&ep->handle.tx_flags, info->tx_attr ? info->tx_attr->op_flags : 0);
    atomic_init(&ep->handle.rx_flags, info->rx_attr ? info->rx_attr->op_flags : 0);
    ep->handle.ep_fid.ops = &ep_ops;
    ep->handle.ep_fid.cm = &ep_cm_ops;
    ep->handle.ep_fid.msg = &ofi_msg_ops;
    ep->handle.ep_fid.tagged = &ofi_tagged_ops;
    ep->handle.ep_fid.rma = &ofi_rma_ops;
    ep->handle.ep_fid.atomic = &ofi_atomic_ops;
    ep->handle.ep_fid.collective = &ofi_coll_ops;
}

int ofi_ep_check(const struct fi_info *info, struct ofi_addr *source)
{
    enum fi_ep_type type = info->ep_attr ? info->ep_attr->type : FI_EP_UNSPEC;

    if (type > FI_EP_RDM || ofi_addr_of_source(info, source))
        return -FI_EINVAL;
    if (info->tx_attr && ofi_tclass(info->tx_attr->tclass) < 0)
        return -FI_EINVAL;
    if ((info->tx_attr && info->tx_attr->op_flags & ~OFI_OP_FLAGS_TX) ||
        (info->rx_attr && info->rx_attr->op_flags & ~OFI_OP_FLAGS_RX))
        return -FI_EBADFLAGS;
    return 0;
}

int ofi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ret, void *context)
{
    const struct fi_ep_attr none = {0}, *attr = info && info->ep_attr ? info->ep_attr : &none;
    bool shares_tx = attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
    bool shares_rx = attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
    struct ofi_addr source;
    struct ofi_ep *ep;
    int err = info && ret ? ofi_ep_check(info, &source) : -FI_EINVAL;

    if (err)
        return err;
    if ((attr->tx_ctx_cnt > 1 && !shares_tx) || (attr->rx_ctx_cnt > 1 && !shares_rx))
        return -FI_EINVAL; /* such an endpoint is opened by fi_scalable_ep() */
    ep = calloc(1, sizeof *ep);
    if (!ep)
        return -FI_ENOMEM;
    ofi_ep_init(ep, ofi_domain_of(domain), info, FI_CLASS_EP, context);
    ep->source = source;
    ep->shares_tx = shares_tx;
    ep->shares_rx = shares_rx;
    if (attr->type == FI_EP_MSG) {
        ep->name = source;
        err = ofi_conn_open(ep, info);
    }
    if (err) {
        ofi_ep_free(ep);
        return err;
    }
    /* data uses other queues, because a passive endpoint may own those in the address */
    if (ep->cm) {
        ep->handle.ep_fid.cm = &ofi_conn_ops;
        ofi_addr_set_port(&ep->source, 0);
    }
    *ret = &ep->handle.ep_fid;
    return 0;
}
