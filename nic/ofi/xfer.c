/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xfer.c - sends, receives and peeks of messages, tagged or not.
 *
 * After an operation is posted, other threads may at once complete it, read its completion entry
 * and use it for another call. So these functions do not access a posted operation.
 */
#include "nic/ofi/ep.h"

#include <string.h>

#define XFER_SEND_FLAGS (OFI_CALL_FLAGS_TX | FI_REMOTE_CQ_DATA)
#define XFER_RECV_FLAGS (OFI_OP_FLAGS_RX | FI_MORE | FI_PEEK | FI_CLAIM | FI_DISCARD)
/* Flags of receive calls that cannot be triggered. */
#define XFER_NOT_TRIGGERED (FI_MULTI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD)

int ofi_iov(const struct ofi_xfer *xfer, struct fabemu_iov *to, unsigned *pieces, size_t *bytes)
{
    if (xfer->iovs > ofi_limits()->iovs || (xfer->iovs && !xfer->iov))
        return -FI_EINVAL;
    *bytes = 0;
    *pieces = 1;
    to[0] = (struct fabemu_iov){0};
    for (unsigned i = 0; i < xfer->iovs; i++) {
        const struct iovec *from = &xfer->iov[i];

        if (!from->iov_base && from->iov_len)
            return -FI_EFAULT;
        if (__builtin_add_overflow(*bytes, from->iov_len, bytes))
            return -FI_EMSGSIZE;
        to[i] = (struct fabemu_iov){.base = from->iov_base, .bytes = from->iov_len};
        *pieces = i + 1;
    }
    return 0;
}

/*
 * As ofi_iov(), for a receive. A piece at address 0 is allowed, because programs post such pieces
 * for messages without data. The buffer ends before it, and a longer message is truncated
 * (FI_ETRUNC).
 */
static int xfer_room(const struct ofi_xfer *xfer, struct fabemu_iov *to, unsigned *pieces,
                     size_t *bytes)
{
    int err = ofi_iov(xfer, to, pieces, bytes);

    return err == -FI_EFAULT ? 0 : err;
}

int ofi_data_check(const struct ofi_ep *ep, uint64_t flags)
{
    return flags & FI_REMOTE_CQ_DATA && !ep->domain->cq_data ? -FI_EOPNOTSUPP : 0;
}

void ofi_iov_copy(void *to, const struct fabemu_iov *iov, unsigned pieces)
{
    char *at = to;

    for (unsigned i = 0; i < pieces; at += iov[i++].bytes)
        if (iov[i].bytes)
            memcpy(at, iov[i].base, iov[i].bytes);
}

unsigned ofi_iov_slice(const struct fabemu_iov *from, unsigned pieces, size_t offset, size_t bytes,
                       struct fabemu_iov *to)
{
    unsigned count = 0;

    to[0] = (struct fabemu_iov){0};
    for (unsigned i = 0; i < pieces && bytes; i++) {
        size_t skip = offset < from[i].bytes ? offset : from[i].bytes;
        size_t n = from[i].bytes - skip < bytes ? from[i].bytes - skip : bytes;

        offset -= skip;
        bytes -= n;
        if (n)
            to[count++] = (struct fabemu_iov){.base = (char *)from[i].base + skip, .bytes = n};
    }
    return count ? count : 1;
}

/* Return the result of a call. After -FI_EAGAIN the caller tries again, so make progress first. */
static ssize_t xfer_result(struct ofi_ep *ep, int err)
{
    if (err == -EAGAIN)
        fabemu_progress(ep->domain->fab);
    return err ? -ofi_errno(err) : 0;
}

static int xfer_dest(struct ofi_ep *ep, const struct ofi_xfer *xfer, struct fabemu_dest *ret)
{
    struct ofi_peer peer;
    int err;

    if (!ep->enabled)
        return -FI_EOPBADSTATE;
    if (xfer->flags & ~(XFER_SEND_FLAGS | (ep->caps & FI_TRIGGER)))
        return -FI_EBADFLAGS;
    if (ofi_data_check(ep, xfer->flags))
        return -FI_EOPNOTSUPP;
    err = ofi_ep_peer(ep, xfer->addr, &peer);
    if (err)
        return err;
    *ret = (struct fabemu_dest){
        .node = peer.node,
        .incarnation = peer.incarnation,
        .queue = peer.queue[xfer->kind],
        .delivered = xfer->flags & OFI_DELIVERED,
        .matched = xfer->flags & FI_MATCH_COMPLETE,
        .tag = xfer->tag,
        .data = xfer->flags & FI_REMOTE_CQ_DATA ? xfer->data : 0,
        .mark = xfer->flags & FI_REMOTE_CQ_DATA ? OFI_HAS_DATA : 0,
    };
    return 0;
}

static const void *xfer_gather(char *buf, const struct fabemu_iov *iov, unsigned pieces)
{
    if (pieces == 1)
        return iov[0].base;
    ofi_iov_copy(buf, iov, pieces);
    return buf;
}

/*
 * Send data whose buffer the program may reuse when the call returns. An operation is needed only
 * if the send must be reported or counted.
 */
static ssize_t xfer_inject(struct ofi_ep *ep, const struct ofi_xfer *xfer,
                           const struct fabemu_dest *dest, const struct fabemu_iov *iov,
                           unsigned pieces, size_t bytes)
{
    bool reported = (!xfer->silent && ep->tx.cq) || ep->cntr[OFI_COUNT_SEND];
    struct ofi_op *op = NULL;
    char buf[FABEMU_INJECT_BYTES];

    if (reported) {
        op = ofi_op_get(ep, xfer, OFI_COUNT_SEND);
        if (!op)
            return -FI_EAGAIN;
    }
    int err = fabemu_inject(ep->queue[xfer->kind], dest, xfer_gather(buf, iov, pieces), bytes);

    if (op && err)
        ofi_op_put(op);
    else if (op)
        ofi_op_finish_here(op);
    return xfer_result(ep, err);
}

/* Post a send that completes later. With FI_INJECT, copy the data into the operation. */
static ssize_t xfer_post(struct ofi_ep *ep, const struct ofi_xfer *xfer,
                         const struct fabemu_dest *dest, struct fabemu_iov *iov, unsigned pieces,
                         size_t bytes)
{
    struct ofi_op *op;
    int err = ofi_op_begin(ep, xfer, OFI_COUNT_SEND, &op);

    if (err)
        return err;
    if (xfer->flags & FI_INJECT) {
        iov[0] = (struct fabemu_iov){.base = ofi_op_copy(op, iov, pieces, bytes), .bytes = bytes};
        pieces = 1;
        if (!iov[0].base) {
            ofi_op_drop(op);
            return -FI_EAGAIN;
        }
    }
    err = fabemu_send(ep->queue[xfer->kind], dest, iov, pieces, &op->req);
    if (err)
        ofi_op_drop(op);
    return xfer_result(ep, err);
}

ssize_t ofi_send(struct ofi_ep *ep, const struct ofi_xfer *xfer)
{
    struct fabemu_iov iov[OFI_IOV_MAX];
    struct fabemu_dest dest;
    unsigned pieces;
    size_t bytes;
    int err = xfer_dest(ep, xfer, &dest);

    if (err)
        return err;
    err = ofi_iov(xfer, iov, &pieces, &bytes);
    if (err)
        return err;
    if (bytes > (xfer->flags & FI_INJECT ? ofi_limits()->inject_bytes : ep->message_max_bytes))
        return -FI_EMSGSIZE;
    if (ofi_op_fenced(ep, xfer->flags) || ofi_op_after_writes(ep, xfer->flags))
        return -FI_EAGAIN;
    if (xfer->flags & FI_INJECT && bytes <= FABEMU_INJECT_BYTES && !dest.delivered &&
        !dest.matched && !(xfer->flags & FI_TRIGGER))
        return xfer_inject(ep, xfer, &dest, iov, pieces, bytes);
    return xfer_post(ep, xfer, &dest, iov, pieces, bytes);
}

/*
 * Look up the source of a receive. A shared context uses the address vector of its endpoints. That
 * can change, so this takes the context's lock. Errors: -FI_ENOAV, -FI_EINVAL.
 */
static int xfer_peer(struct ofi_ep *ep, fi_addr_t addr, struct ofi_peer *ret)
{
    bool shared = ofi_srx_of(ep);
    int err;

    if (shared)
        ofi_lock(&ep->lock);
    err = ep->av ? ofi_av_endpoint(ep->av, addr, ret) : -FI_ENOAV;
    if (shared)
        ofi_unlock(&ep->lock);
    return err;
}

/*
 * Find the source node, queue and incarnation of a receive. Without FI_DIRECTED_RECV it matches any
 * source.
 */
static int xfer_source(struct ofi_ep *ep, const struct ofi_xfer *xfer, struct fabemu_source *from,
                       uint64_t *incarnation)
{
    struct ofi_peer peer;
    int err;

    *from = (struct fabemu_source){FABEMU_ANY_NODE, FABEMU_ANY_QUEUE};
    *incarnation = 0;
    if (!ep->enabled)
        return -FI_EOPBADSTATE;
    if (!ep->receives || ep->srx) /* another context receives the messages */
        return -FI_EOPNOTSUPP;
    if (xfer->flags & ~(XFER_RECV_FLAGS | (ep->caps & FI_TRIGGER)))
        return -FI_EBADFLAGS;
    if (xfer->flags & FI_TRIGGER && (ofi_srx_of(ep) || xfer->flags & XFER_NOT_TRIGGERED))
        return -FI_ENOSYS; /* fi_trigger(3) */
    if (!(ep->caps & FI_DIRECTED_RECV) || xfer->addr == FI_ADDR_UNSPEC || ep->cm)
        return 0;
    err = xfer_peer(ep, xfer->addr, &peer);
    if (err)
        return err;
    *from = (struct fabemu_source){peer.node, peer.queue[xfer->kind]};
    *incarnation = peer.incarnation;
    return 0;
}

/* M2 pairs with M1 in op.c: a thread that finds the operation cancellable also sees its context. */
static void xfer_expect(struct ofi_op *op, const struct ofi_xfer *xfer, size_t bytes)
{
    op->buf = xfer->iovs ? xfer->iov[0].iov_base : NULL;
    op->room = bytes;
    atomic_store_explicit(&op->cancellable, true, memory_order_release); /* M2 */
}

ssize_t ofi_recv(struct ofi_ep *ep, const struct ofi_xfer *xfer)
{
    struct fabemu_iov iov[OFI_IOV_MAX];
    unsigned pieces;
    size_t bytes;
    struct fabemu_source from;
    uint64_t incarnation;
    int err = xfer_source(ep, xfer, &from, &incarnation);

    if (err)
        return err;
    err = xfer_room(xfer, iov, &pieces, &bytes);
    if (err)
        return err;
    if (xfer->flags & FI_MULTI_RECV && (pieces != 1 || !bytes))
        return -FI_EINVAL;
    struct ofi_op *op;

    err = ofi_op_begin(ep, xfer, OFI_COUNT_RECV, &op);
    if (err)
        return err;
    xfer_expect(op, xfer, bytes);
    op->req.incarnation = incarnation;
    if (xfer->flags & FI_MULTI_RECV)
        err = ofi_multi_post(op, xfer, from);
    else
        err = fabemu_recv_from(ep->queue[xfer->kind], from, xfer->tag, xfer->ignore, iov, pieces,
                               &op->req);
    if (err)
        ofi_op_drop(op);
    return xfer_result(ep, err);
}

/*
 * Complete a peek. It always gets a completion entry, which describes the message that was found,
 * or has the error FI_ENOMSG. Errors: -FI_EOPBADSTATE, no endpoint uses this shared context.
 */
static ssize_t xfer_peek_answer(struct ofi_op *op, const struct fabemu_req *found, int err)
{
    struct ofi_ep *ep = op->srx ? op->ep : NULL;
    bool reported;

    if (ep)
        ofi_lock(&ep->lock); /* no endpoint may leave the shared context now */
    op->req.tag = found->tag;
    op->req.data = found->data;
    op->req.mark = found->mark;
    op->req.bytes = found->bytes;
    op->req.src_node = found->src_node;
    op->req.src_incarnation = found->src_incarnation;
    op->req.src_queue = found->src_queue;
    op->req.queue = err ? OFI_QUEUE_NONE : found->queue;
    op->error = err ? ofi_errno(err) : 0;
    reported = !ep || ofi_srx_assign(op);
    if (reported) {
        op->wanted = true;
        op->cntr = NULL;
        ofi_op_finish_here(op);
    } else {
        ofi_op_put(op);
    }
    if (ep)
        ofi_unlock(&ep->lock);
    return reported ? 0 : -FI_EOPBADSTATE;
}

static void xfer_discard(struct ofi_ep *ep, struct ofi_op *op, struct fabemu_message *message)
{
    /* report nothing, because the peek has already reported the message */
    op->srx = NULL;
    op->cq = NULL;
    op->cntr = NULL;
    if (fabemu_recv_claimed(ep->queue[op->kind], message, NULL, 0, &op->req))
        ofi_op_put(op);
}

void ofi_discard_claims(struct ofi_ep *ep)
{
    while (ep->claims) {
        struct ofi_op *op = ep->claims;

        ep->claims = op->next;
        xfer_discard(ep, op, op->message);
    }
}

ssize_t ofi_peek(struct ofi_ep *ep, const struct ofi_xfer *xfer)
{
    bool take = xfer->flags & (FI_CLAIM | FI_DISCARD);
    struct fabemu_message *message = NULL;
    struct fabemu_req found = {0};
    struct fabemu_source from;
    int err = xfer_source(ep, xfer, &from, &found.incarnation);

    if (err)
        return err;
    struct ofi_op *answer = ofi_op_get(ep, xfer, OFI_COUNT_RECV);
    struct ofi_op *taken = take && answer ? ofi_op_get(ep, xfer, OFI_COUNT_RECV) : NULL;

    if (!answer || (take && !taken)) {
        if (answer)
            ofi_op_put(answer);
        return -FI_EAGAIN;
    }
    err = fabemu_probe_from(ep->queue[xfer->kind], from, xfer->tag, xfer->ignore,
                            take ? &message : NULL, &found);
    if (taken && err)
        ofi_op_put(taken);
    else if (taken && xfer->flags & FI_DISCARD)
        xfer_discard(ep, taken, message);
    else if (taken)
        ofi_op_claim(taken, message);
    if (err && ep->rx.cq)
        /* Yield after some peeks that found nothing. Each peek adds an entry to the queue, so a
           caller that polls by peeking never finds the queue empty, and never yields there. */
        ofi_cq_poll_missed(ep->rx.cq);
    return xfer_peek_answer(answer, &found, err);
}

ssize_t ofi_recv_claimed(struct ofi_ep *ep, const struct ofi_xfer *xfer)
{
    struct fabemu_iov iov[OFI_IOV_MAX];
    unsigned pieces;
    size_t bytes;
    int err = xfer_room(xfer, iov, &pieces, &bytes);

    if (err)
        return err;
    if (xfer->flags & ~(uint64_t)XFER_RECV_FLAGS)
        return -FI_EBADFLAGS;
    struct ofi_op *op = ofi_op_claimed(ep, xfer->context);

    if (!op)
        return -FI_ENOMSG;
    op->wanted = !ep->rx.selective || xfer->flags & FI_COMPLETION;
    op->buf = xfer->iovs ? xfer->iov[0].iov_base : NULL;
    op->room = bytes;
    if (xfer->flags & FI_DISCARD)
        pieces = 0;
    err = fabemu_recv_claimed(ep->queue[xfer->kind], op->message, iov, pieces, &op->req);
    if (err)
        ofi_op_claim(op, op->message);
    return xfer_result(ep, err);
}
