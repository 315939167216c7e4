/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * multi.c - receive buffers for several messages (FI_MULTI_RECV).
 *
 * The buffer has an operation, and so has each message that arrives in it. When the buffer takes no
 * more messages and all its messages are complete, the buffer's operation becomes an entry that has
 * only the flag FI_MULTI_RECV. Source: fi_cq(3).
 */
#include "nic/ofi/ep.h"

/*
 * Report a complete message in a buffer. Report the buffer, too, when it takes no more messages and
 * all its messages are complete. Lock: the adapter's.
 * @op: the operation of the message or, when the buffer takes no more messages, of the buffer.
 */
static void multi_done(struct ofi_op *op)
{
    struct ofi_op *multi = op->whole;

    if (op != multi)
        ofi_op_finish(op);
    if (atomic_fetch_sub_explicit(&multi->parts, 1, memory_order_relaxed) > 1)
        return;
    if (!multi->error) { /* counters count the messages, not the buffer */
        ofi_op_flags_set(multi, FI_MULTI_RECV);
        multi->cntr = NULL;
    }
    ofi_op_finish(multi);
}

/* Initialise the operation of a message that will be stored at @at in the buffer of @multi. */
static void arrival_init(struct ofi_op *op, struct ofi_op *multi, void *at)
{
    op->req.context = multi->req.context;
    op->req.mark = 0;
    op->req.incarnation = 0;
    op->req.queue = OFI_QUEUE_NONE;
    op->srx = multi->srx;
    op->cq = multi->cq;
    op->cntr = multi->cntr;
    op->buf = at;
    op->room = multi->room - (size_t)((char *)at - (char *)multi->buf);
    op->flags = multi->flags;
    op->error = 0;
    op->kind = multi->kind;
    op->done = multi_done;
    op->whole = multi;
    op->wanted = multi->wanted;
}

/* Callback of the adapter: a message has matched the buffer and will be stored at @at. */
static struct fabemu_req *multi_next(struct fabemu_req *req, void *at)
{
    struct ofi_op *multi = container_of(req, struct ofi_op, req);
    struct ofi_op *op = ofi_op_arrival(multi);

    if (!op)
        return NULL;
    arrival_init(op, multi, at);
    atomic_fetch_add_explicit(&multi->parts, 1, memory_order_relaxed);
    return &op->req;
}

int ofi_multi_post(struct ofi_op *op, const struct ofi_xfer *xfer, struct fabemu_source from)
{
    size_t min_bytes = ofi_multi_min_bytes(op->ep);
    const struct fabemu_multi multi = {
        .base = op->buf,
        .bytes = op->room,
        .min_bytes = min_bytes < op->room ? min_bytes : op->room,
        .next = multi_next,
    };

    op->done = multi_done;
    op->whole = op;
    atomic_store_explicit(&op->parts, 1, memory_order_relaxed);
    return fabemu_recv_multi(op->ep->queue[op->kind], from, xfer->tag, xfer->ignore, &multi,
                             &op->req);
}

int ofi_multi_setopt(fid_t fid, int level, int name, const void *value, size_t bytes)
{
    struct ofi_ep *ep = ofi_ep_of_fid(fid);
    size_t min_bytes;

    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (!value || bytes != sizeof min_bytes)
        return -FI_EINVAL;
    min_bytes = *(const size_t *)value;
    /* at least 1, so that a full buffer is released */
    atomic_store_explicit(&ep->multi_min_bytes, min_bytes ? min_bytes : 1, memory_order_relaxed);
    return 0;
}
