/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - the calls that open and close queues, send, receive, probe and cancel */
#include "nic/fabemu.h"

#include <errno.h>
#include <string.h>

#include "emu/util/now.h"
#include "nic/host/api/announce.h"
#include "nic/host/base/base.h"
#include "nic/host/base/compute.h"
#include "nic/host/base/trace.h"
#include "nic/host/base/lock.h"
#include "nic/host/peer/failure.h"
#include "nic/host/peer/handshake.h"
#include "nic/host/progress/progress.h"
#include "nic/host/rx/message.h"
#include "nic/host/rx/queue.h"
#include "nic/host/tx/request.h"

/* --- queues ------------------------------------------------------------------------- */

#define ANY_FIRST 256u
#define ANY_END   65534u /* the libfabric provider uses 65535 to mean "no queue" */

/* Open the queue. Messages that arrived for it earlier become ordinary unexpected messages. */
static void queue_adopt(struct fabemu *fab, struct fabemu_queue *queue)
{
    emu_each_listed (const struct fabemu_message, msg, &queue->unexpected, link)
        nic_peer(fab, msg->src_node)->parked--;
    queue->open = true;
    fab->retired[queue->id] = false;
    emu_list_add(&fab->opened, &queue->opened);
}

static int queue_open_locked(struct fabemu *fab, uint32_t id, struct fabemu_queue **ret)
{
    struct fabemu_queue *queue = nic_queue_at(fab, id);

    if (!queue)
        return -ENOMEM;
    if (queue->open)
        return -EADDRINUSE;
    queue_adopt(fab, queue);
    nic_receive_resume(fab);
    *ret = queue;
    return 0;
}

static int queue_open(struct fabemu *fab, uint16_t id, bool counted, struct fabemu_queue **ret)
{
    int err;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_lock(fab);
    if (counted && fab->queues[id] && fab->queues[id]->refs) {
        *ret = fab->queues[id];
        err = 0;
    } else {
        err = queue_open_locked(fab, id, ret);
    }
    if (!err)
        (*ret)->refs += counted;
    nic_unlock(fab);
    return err ? nic_fail(err, "cannot open queue %u of node %u: %s", (unsigned)id, fab->info.node,
                          strerror(-err))
               : 0;
}

int fabemu_queue_open(struct fabemu *fab, uint16_t id, struct fabemu_queue **ret)
{
    return queue_open(fab, id, false, ret);
}

int fabemu_queue_open_counted(struct fabemu *fab, uint16_t id, struct fabemu_queue **ret)
{
    return queue_open(fab, id, true, ret);
}

uint16_t fabemu_queue_id(const struct fabemu_queue *queue)
{
    return (uint16_t)queue->id;
}

static bool queues_are_free(const struct fabemu *fab, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (fab->queues[first + i] && fab->queues[first + i]->open)
            return false;
    return true;
}

/* Open @count queues, and drop the messages that arrived for their numbers earlier. */
static int queues_open(struct fabemu *fab, uint32_t first, uint32_t count,
                       struct fabemu_queue **ret)
{
    int err = 0;

    for (uint32_t i = 0; i < count && !err; i++) {
        if (fab->queues[first + i])
            nic_queue_free(fab->queues[first + i]);
        err = queue_open_locked(fab, first + i, &ret[i]);
        while (err && i)
            nic_queue_free(ret[--i]);
    }
    return err;
}

/*
 * Open free queues. Choose their ids round robin, so that an id is used again as late as possible:
 * a message for the previous owner of an id must not reach the next owner.
 */
static int queues_open_next(struct fabemu *fab, uint32_t count, struct fabemu_queue **ret)
{
    uint32_t pairs = count + count % 2;

    if (fab->queue_any < ANY_FIRST)
        fab->queue_any = ANY_FIRST;
    for (uint32_t n = ANY_FIRST; n < ANY_END; n += 2) {
        uint32_t first = fab->queue_any;

        if (pairs <= ANY_END - first && queues_are_free(fab, first, pairs)) {
            fab->queue_any = first + pairs == ANY_END ? ANY_FIRST : first + pairs;
            return queues_open(fab, first, count, ret);
        }
        fab->queue_any = first + 2 == ANY_END ? ANY_FIRST : first + 2;
    }
    return -EADDRINUSE;
}

int fabemu_queue_open_any(struct fabemu *fab, unsigned count, struct fabemu_queue **ret)
{
    int err;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    if (!count || count > ANY_END)
        return nic_fail(count ? -EADDRINUSE : -EINVAL, "%u queues cannot be opened", count);
    nic_lock(fab);
    err = queues_open_next(fab, count, ret);
    nic_unlock(fab);
    return err ? nic_fail(err, "no %u successive queues of node %u are free", count, fab->info.node)
               : 0;
}

static int shared_open_locked(struct fabemu *fab, struct fabemu_queue **ret)
{
    for (uint32_t id = NIC_NUMBERS; id < NIC_QUEUES; id++)
        if (!fab->queues[id])
            return queue_open_locked(fab, id, ret);
    return -ENOSPC;
}

int fabemu_queue_open_shared(struct fabemu *fab, struct fabemu_queue **ret)
{
    int err;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_lock(fab);
    err = shared_open_locked(fab, ret);
    nic_unlock(fab);
    return err ? nic_fail(err, "cannot open a shared receive queue: %s", strerror(-err)) : 0;
}

int fabemu_queue_share(struct fabemu_queue *queue, struct fabemu_queue *shared)
{
    struct fabemu *fab = queue->fab;
    bool valid;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_lock(fab);
    valid = shared->fab == fab && nic_queue_is_shared(shared) && !nic_queue_is_shared(queue) &&
            queue->receiver == queue && emu_list_empty(&queue->posted) &&
            emu_list_empty(&queue->active);
    if (valid)
        nic_queue_share(queue, shared);
    nic_unlock(fab);
    return valid ? 0 : nic_fail(-EINVAL, "these queues cannot share their receives");
}

void fabemu_queue_close(struct fabemu_queue *queue)
{
    struct fabemu *fab = queue->fab;
    bool last;

    if (nic_is_defunct(fab))
        return;
    nic_lock(fab);
    last = queue->refs <= 1;
    if (!last)
        queue->refs--;
    nic_unlock(fab);
    if (!last)
        return;
    nic_queue_withdraw(queue);
    nic_lock(fab); /* meanwhile another thread may have opened the queue again */
    if (queue->refs > 1)
        queue->refs--;
    else
        nic_queue_free(queue);
    nic_unlock(fab);
}

void fabemu_queue_on_loss(struct fabemu_queue *queue,
                          void (*lost)(struct fabemu_queue *queue, const struct fabemu_req *failed,
                                       void *arg),
                          void *arg)
{
    if (nic_is_defunct(queue->fab))
        return;
    nic_lock(queue->fab);
    queue->lost = lost;
    queue->lost_arg = arg;
    nic_unlock(queue->fab);
}

int fabemu_queue_event(struct fabemu_queue *queue, unsigned access, struct fabemu_event *event)
{
    struct fabemu *fab = queue->fab;
    const struct fabemu_req named = {.event = event};
    int err;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    if (nic_event_check(fab, &named))
        return -EINVAL;
    nic_lock(fab);
    err = nic_access_set(&queue->events, access, event);
    nic_unlock(fab);
    return err;
}

/* --- send --------------------------------------------------------------------------- */

static int send_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);
    const struct fabemu_queue *queue = fab->queues[nic_send_of(op)->src_queue];

    if (queue && queue->broken)
        nic_op_end(fab, op, -ECANCELED);
    else
        nic_peer_request(fab, nic_peer(fab, op->node), op);
    return 0;
}

static void send_prepare(struct nic_send *send, const struct fabemu_queue *queue,
                         const struct fabemu_dest *dest, const struct fabemu_iov *iov,
                         unsigned iovs)
{
    struct nic_op *op = &send->op;

    op->post.link = (struct emu_list){0};
    op->post.begin = send_begin;
    op->kind = NIC_OP_SEND;
    op->state = NIC_OP_ARMED;
    op->node = dest->node;
    op->id = 0;
    op->incarnation = dest->incarnation;
    op->named = dest->incarnation != 0;
    op->seen_ms = 0;
    send->tag = dest->tag;
    send->data = dest->data;
    send->mark = dest->mark;
    send->dst_queue = dest->queue;
    send->src_queue = (uint16_t)queue->id;
    send->delivered = dest->delivered;
    send->matched = dest->matched;
    send->reports_loss = queue->lost;
    nic_op_iov(op, iov, iovs);
    send->watched = nic_watched_begin(queue->fab, op->bytes);
}

static int send_check(const struct fabemu_queue *queue, const struct fabemu_dest *dest)
{
    if (nic_queue_is_shared(queue))
        return nic_fail(-EINVAL, "a shared receive queue cannot send");
    return nic_node_check(queue->fab, dest->node);
}

int fabemu_send(struct fabemu_queue *queue, const struct fabemu_dest *dest,
                const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req)
{
    struct fabemu *fab = queue->fab;
    struct nic_op *op = nic_op_of(req);
    struct emu_call call;
    int err = send_check(queue, dest);

    if (!err)
        err = nic_iov_check(iov, iovs);
    if (!err)
        err = nic_event_check(fab, req);
    if (err)
        return err;
    send_prepare(nic_send_of(op), queue, dest, iov, iovs);
    if (op->bytes > NIC_TRANSFER_MAX)
        return nic_fail(-EMSGSIZE, "a message has at most %llu bytes",
                        (unsigned long long)NIC_TRANSFER_MAX);
    op->post.req = req;
    call = nic_op_call(op);
    call.tag = nic_send_of(op)->tag;
    return nic_post(fab, &op->post, &call);
}

/*
 * Prepare for the next call of fabemu_inject() with this message, which cannot be sent now and is
 * not queued. Connect to a peer that is not open. If the window is full, check once a second
 * whether the peer still answers, as nic_watch() does for operations. Record the message, so that
 * the fabric can report it as pending.
 */
static void inject_prepare_retry(struct fabemu *fab, struct nic_peer *peer,
                                 const struct nic_send *send)
{
    if (fab->offer.node != peer->node || fab->offer.tx_seq != peer->tx_seq)
        fab->offer = (struct nic_offer){.node = peer->node, .tx_seq = peer->tx_seq};
    fab->offer.made = true;
    fab->offer.tag = send->tag;
    fab->offer.bytes = send->op.bytes;
    if (!peer->open ||
        (!nic_peer_window(peer) && nic_now_ns(fab) - peer->hello_began_ns >= fab->watch_gap_ns))
        nic_peer_connect(fab, peer);
}

int fabemu_inject(struct fabemu_queue *queue, const struct fabemu_dest *dest, const void *buf,
                  size_t bytes)
{
    struct fabemu *fab = queue->fab;
    struct fabemu_iov iov = {.base = (void *)(uintptr_t)buf, .bytes = bytes};
    struct nic_send send;
    struct emu_call call;
    int err = bytes > FABEMU_INJECT_BYTES
                  ? nic_fail(-EINVAL, "at most %d bytes can be injected", FABEMU_INJECT_BYTES)
                  : send_check(queue, dest);

    if (!err)
        err = nic_buffer_check(buf, bytes);
    if (err)
        return err;
    send_prepare(&send, queue, dest, &iov, 1);
    send.op.post.req = NULL;
    call = nic_op_call(&send.op);
    call.tag = send.tag;
    nic_call_begin(fab, &call);
    nic_lock(fab);
    nic_ready(fab);
    nic_trace_begin(fab, NULL);

    struct nic_peer *peer = nic_peer(fab, dest->node);

    err = nic_peer_begin(fab, peer, &send.op);
    if (err || peer->unanswered)
        nic_peer_report(fab, peer->node);
    if (!err && peer->unanswered) {
        peer->unanswered = false; /* so that the next call tries again */
        err = nic_fail(-EHOSTUNREACH, "nobody answers at node %u", peer->node);
    } else if (!err && !nic_request_now(fab, peer, &send)) {
        err = -EAGAIN;
        inject_prepare_retry(fab, peer, &send);
    }
    if (!err) {
        nic_op_report(fab, &send.op);
        nic_trace_posted(fab, &call);
    }
    nic_unlock(fab);
    nic_call_end(fab, &call, !err);
    return err;
}

/* --- receive ------------------------------------------------------------------------ */

/*
 * Post a receive from one node. If the node has no process, send hellos to it. A process that
 * attaches soon will answer them. Without an answer, the receive must fail.
 */
static void receive_post(struct fabemu *fab, struct nic_peer *peer, struct nic_recv *recv)
{
    struct nic_op *op = &recv->op;

    if (nic_peer_begin(fab, peer, op)) {
        nic_op_end(fab, op, -EHOSTUNREACH);
        return;
    }
    emu_list_add(&recv->queue->posted, &op->post.link);
    if (peer->vacated || nic_peer_is_new(fab, peer))
        nic_peer_connect(fab, peer);
}

/* Let the receive wait in its queue, because no unexpected message matches it. */
static void receive_enqueue(struct fabemu *fab, struct nic_recv *recv)
{
    if (recv->queue->broken)
        nic_op_end(fab, &recv->op, -ECANCELED);
    else if (recv->op.node == FABEMU_ANY_NODE)
        emu_list_add(&recv->queue->posted, &recv->op.post.link);
    else
        receive_post(fab, nic_peer(fab, recv->op.node), recv);
}

/*
 * Start a receive of a message that has arrived already, or that arrives later. Before an armed
 * receive starts, its queue may have closed, or may have begun to share the receives of another
 * queue.
 */
static int receive_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_recv *recv = nic_recv_of(nic_op_of(post->req));
    struct fabemu_queue *queue = recv->queue;
    struct fabemu_message *msg;

    if (fab->queues[recv->queue_id] != queue || queue->receiver != queue) {
        nic_op_end(fab, &recv->op, -ECANCELED);
        return 0;
    }
    recv->op.state = NIC_OP_POSTED;
    msg = nic_queue_find(queue, (struct fabemu_source){recv->op.node, recv->from},
                         post->req->incarnation, recv->tag, recv->ignore);
    if (msg)
        nic_message_take(fab, msg, recv);
    else
        receive_enqueue(fab, recv);
    return 0;
}

static int receive_prepare(struct fabemu_queue *queue, const struct fabemu_iov *iov, unsigned iovs,
                           struct fabemu_req *req)
{
    struct nic_op *op = nic_op_of(req);
    int err = nic_iov_check(iov, iovs);

    if (err)
        return err;
    if (nic_is_defunct(queue->fab))
        return nic_fail_defunct();
    if (queue->receiver != queue)
        return nic_fail(-EINVAL, "post the receive to the shared receive queue");
    if (nic_event_check(queue->fab, req))
        return -EINVAL;
    op->post.link = (struct emu_list){0};
    op->post.req = req;
    op->post.begin = receive_begin;
    op->kind = NIC_OP_RECV;
    op->state = req->after ? NIC_OP_ARMED : NIC_OP_POSTED;
    op->id = 0;
    op->incarnation = req->incarnation;
    op->named = req->incarnation != 0;
    op->seen_ms = 0;
    nic_recv_of(op)->queue = queue;
    nic_recv_of(op)->queue_id = queue->id;
    nic_recv_of(op)->next = NULL;
    /* the size of the message is not known yet */
    nic_recv_of(op)->watched = nic_watched_begin(queue->fab, UINT64_MAX);
    nic_op_iov(op, iov, iovs);
    return 0;
}

/*
 * Check the source of a receive, and prepare the receive. Only fabemu_recv_multi() must then set
 * further fields.
 */
static int receive_prepare_from(struct fabemu_queue *queue, struct fabemu_source from, uint64_t tag,
                                uint64_t ignore, const struct fabemu_iov *iov, unsigned iovs,
                                struct fabemu_req *req)
{
    static const struct fabemu_iov nothing = {0};
    const struct fabemu *fab = queue->fab;
    struct nic_recv *recv = nic_recv_of(nic_op_of(req));
    int err;

    if (from.node != FABEMU_ANY_NODE && from.node >= fab->info.nodes)
        return nic_fail(-EINVAL, "there is no node %u: the fabric has %u nodes", from.node,
                        fab->info.nodes);
    if (!iovs) { /* an empty buffer, which truncates every message with data */
        iov = &nothing;
        iovs = 1;
    }
    err = receive_prepare(queue, iov, iovs, req);
    if (err)
        return err;
    recv->op.node = from.node;
    recv->from = from.queue;
    recv->tag = tag;
    recv->ignore = ignore;
    return 0;
}

int fabemu_recv_from(struct fabemu_queue *queue, struct fabemu_source from, uint64_t tag,
                     uint64_t ignore, const struct fabemu_iov *iov, unsigned iovs,
                     struct fabemu_req *req)
{
    struct fabemu *fab = queue->fab;
    int err = receive_prepare_from(queue, from, tag, ignore, iov, iovs, req);

    return err ? err : nic_op_post(fab, nic_op_of(req));
}

int fabemu_recv_multi(struct fabemu_queue *queue, struct fabemu_source from, uint64_t tag,
                      uint64_t ignore, const struct fabemu_multi *multi, struct fabemu_req *req)
{
    struct fabemu *fab = queue->fab;
    struct nic_recv *one, *recv = nic_recv_of(nic_op_of(req));
    const struct fabemu_iov iov = {.base = multi->base, .bytes = multi->bytes};
    uint64_t incarnation = req->incarnation;
    struct fabemu_message *msg;
    struct emu_call call;
    bool open = true;
    int err = receive_prepare_from(queue, from, tag, ignore, &iov, 1, req);

    if (!err && req->after)
        err = nic_fail(-EINVAL, "a receive of several messages cannot be armed");
    if (!err && fab->sim.trace)
        err = nic_fail(-EOPNOTSUPP, "--goal cannot record a receive of several messages");
    if (err)
        return err;
    if (!multi->min_bytes || multi->min_bytes > multi->bytes)
        return nic_fail(-EINVAL, "a buffer of %zu bytes cannot have a minimum of %zu", multi->bytes,
                        multi->min_bytes);
    recv->next = multi->next;
    recv->min_bytes = multi->min_bytes;
    call = nic_op_call(&recv->op);
    nic_call_begin(fab, &call);
    nic_lock(fab);
    nic_ready(fab);
    __atomic_store_n(&req->status, FABEMU_PENDING, __ATOMIC_RELAXED);
    while (open && (msg = nic_queue_find(queue, from, incarnation, tag, ignore))) {
        one = nic_multi_next(recv, msg->wire.bytes, &open);
        if (one)
            nic_message_take(fab, msg, one);
    }
    if (open)
        receive_enqueue(fab, recv);
    nic_unlock(fab);
    nic_call_end(fab, &call, true);
    return 0;
}

int fabemu_recv(struct fabemu_queue *queue, uint32_t node, uint64_t tag, uint64_t ignore,
                const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req)
{
    return fabemu_recv_from(queue, (struct fabemu_source){node, FABEMU_ANY_QUEUE}, tag, ignore, iov,
                            iovs, req);
}

int fabemu_probe_from(struct fabemu_queue *queue, struct fabemu_source from, uint64_t tag,
                      uint64_t ignore, struct fabemu_message **claim, struct fabemu_req *req)
{
    struct fabemu *fab = queue->fab;
    struct fabemu_message *msg;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_poll_app(fab);
    nic_lock(fab);
    msg = nic_queue_find(queue, from, req->incarnation, tag, ignore);
    if (msg) {
        nic_message_describe(req, msg->src_node, msg->src_incarnation, &msg->wire);
        req->status = 0;
        if (claim) {
            emu_list_del(&msg->link);
            emu_list_add(&queue->claimed, &msg->link);
            *claim = msg;
        }
        fab->probe = (struct nic_probe){.made = false};
    } else {
        fab->probe.made = true;
        fab->probe.node = from.node;
        fab->probe.tag = tag;
        fab->probe.ignore = ignore;
    }
    nic_unlock(fab);
    return msg ? 0 : -ENOMSG;
}

int fabemu_probe(struct fabemu_queue *queue, uint32_t node, uint64_t tag, uint64_t ignore,
                 struct fabemu_message **claim, struct fabemu_req *req)
{
    return fabemu_probe_from(queue, (struct fabemu_source){node, FABEMU_ANY_QUEUE}, tag, ignore,
                             claim, req);
}

int fabemu_recv_claimed(struct fabemu_queue *queue, struct fabemu_message *claim,
                        const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req)
{
    struct fabemu *fab = queue->fab;
    struct emu_call call;
    int err = receive_prepare(queue, iov, iovs, req);

    if (!err && req->after)
        err = nic_fail(-EINVAL, "the receive of a claimed message cannot be armed");
    if (err)
        return err;
    call = nic_op_call(nic_op_of(req));
    call.node = EMU_CALL_NO_NODE;
    nic_call_begin(fab, &call);
    nic_lock(fab);
    __atomic_store_n(&req->status, FABEMU_PENDING, __ATOMIC_RELAXED);
    nic_trace_begin(fab, req);
    nic_message_take(fab, claim, nic_recv_of(nic_op_of(req)));
    nic_trace_posted(fab, &call);
    nic_unlock(fab);
    nic_call_end(fab, &call, true);
    return 0;
}

int fabemu_cancel(struct fabemu_queue *queue, struct fabemu_req *req)
{
    struct fabemu *fab = queue->fab;
    struct nic_op *op = nic_op_of(req);
    int err = -ENOENT;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_lock(fab);
    if (fabemu_req_status(req) == FABEMU_PENDING && op->state == NIC_OP_POSTED &&
        nic_recv_of(op)->queue == queue) {
        nic_op_end(fab, op, -ECANCELED);
        err = 0;
    }
    nic_unlock(fab);
    return err;
}
