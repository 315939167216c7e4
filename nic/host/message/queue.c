/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.c - endpoints for messages: posting, matching, probing, cancelling.
 *
 * Two lists a queue, both in order: receives without a message and messages
 * without a receive. Never is there one of each that match.
 */
#include "nic/host/adapter.h"

#include <stdlib.h>
#include <string.h>

#define ANY_FIRST 256u
#define ANY_LAST 65534u /* 65535 is no queue to the libfabric provider */

static bool tag_matches(uint64_t tag, uint64_t want, uint64_t ignore)
{
    return ((tag ^ want) & ~ignore) == 0;
}

static bool source_matches(struct fabemu_source from, struct fabemu_source want)
{
    return (want.node == FABEMU_ANY_NODE || want.node == from.node) &&
           (want.queue == FABEMU_ANY_QUEUE || want.queue == from.queue);
}

struct nic_op *nic_queue_match(struct fabemu_queue *queue, struct fabemu_source from, uint64_t tag)
{
    for (struct emu_list *at = queue->posted.next; at != &queue->posted; at = at->next) {
        struct nic_op *op = emu_list_entry(at, struct nic_op, link);

        if (!source_matches(from, (struct fabemu_source){op->node, op->from}) ||
            !tag_matches(tag, op->tag, op->data_or_ignore))
            continue;
        emu_list_del(at);
        return op;
    }
    return NULL;
}

/* @seat: 0, whichever process of the node sent it. */
static struct fabemu_message *message_find(struct fabemu_queue *queue, struct fabemu_source want,
                                           uint64_t seat, uint64_t tag, uint64_t ignore)
{
    for (struct emu_list *at = queue->unexpected.next; at != &queue->unexpected; at = at->next) {
        struct fabemu_message *msg = emu_list_entry(at, struct fabemu_message, link);

        if (source_matches((struct fabemu_source){msg->src_node, msg->src_queue}, want) &&
            (!seat || msg->src_seat == seat) && tag_matches(msg->tag, tag, ignore))
            return msg;
    }
    return NULL;
}

/* --- open and close ---------------------------------------------------------------- */

struct fabemu_queue *nic_queue_at(struct fabemu *fab, uint16_t id)
{
    struct fabemu_queue *queue = fab->queues[id];

    if (queue)
        return queue;
    queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    queue->fab = fab;
    queue->id = id;
    emu_list_init(&queue->posted);
    emu_list_init(&queue->unexpected);
    emu_list_init(&queue->active);
    fab->queues[id] = queue;
    return queue;
}

/* Messages that came early become ordinary unexpected ones. */
static void queue_adopt(struct fabemu *fab, struct fabemu_queue *queue)
{
    for (struct emu_list *at = queue->unexpected.next; at != &queue->unexpected; at = at->next)
        fab->parked--;
    queue->open = true;
}

static int queue_open_locked(struct fabemu *fab, uint16_t id, struct fabemu_queue **ret)
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

int fabemu_queue_open(struct fabemu *fab, uint16_t id, struct fabemu_queue **ret)
{
    int err;

    if (nic_gone(fab))
        return nic_fail_gone();
    nic_lock(fab);
    err = queue_open_locked(fab, id, ret);
    nic_unlock(fab);
    return err ? nic_fail(err, "queue %u of node %u: %s", (unsigned)id, fab->info.node,
                          strerror(-err))
               : 0;
}

uint16_t fabemu_queue_id(const struct fabemu_queue *queue)
{
    return queue->id;
}

void nic_receive_abandon(struct fabemu *fab, struct nic_op *op)
{
    struct nic_peer *peer = op->state == NIC_OP_FILLING ? nic_peer(fab, op->node) : NULL;

    if (op->state == NIC_OP_WAITING) /* the sender is not to wait, nor to go on */
        nic_fin(fab, nic_peer(fab, op->node), op->remote, -ECANCELED);
    if (peer && peer->fill_op == op)
        peer->fill_op = NULL;
    else if (peer && peer->fill_msg && peer->fill_msg->op == op)
        nic_message_drop(fab, peer->fill_msg);
    nic_op_end(fab, op, -ECANCELED);
}

static void queue_free(struct fabemu_queue *queue)
{
    struct fabemu *fab = queue->fab;

    while (!emu_list_empty(&queue->posted))
        nic_op_end(fab, emu_list_entry(queue->posted.next, struct nic_op, link), -ECANCELED);
    while (!emu_list_empty(&queue->active))
        nic_receive_abandon(fab, emu_list_entry(queue->active.next, struct nic_op, link));
    while (!emu_list_empty(&queue->unexpected)) {
        if (!queue->open)
            fab->parked--;
        nic_message_drop(fab, emu_list_entry(queue->unexpected.next, struct fabemu_message, link));
    }
    fab->queues[queue->id] = NULL;
    free(queue);
}

/* In turn, so that an id comes back late; what was sent to its last owner is not the next one's. */
static int queue_open_next(struct fabemu *fab, struct fabemu_queue **ret)
{
    if (fab->queue_any < ANY_FIRST)
        fab->queue_any = ANY_FIRST;
    for (uint32_t n = ANY_FIRST; n <= ANY_LAST; n++) {
        uint16_t id = (uint16_t)fab->queue_any;
        struct fabemu_queue *queue = fab->queues[id];

        fab->queue_any = id == ANY_LAST ? ANY_FIRST : id + 1u;
        if (queue && queue->open)
            continue;
        if (queue)
            queue_free(queue);
        return queue_open_locked(fab, id, ret);
    }
    return -EADDRINUSE;
}

int fabemu_queue_open_any(struct fabemu *fab, struct fabemu_queue **ret)
{
    int err;

    if (nic_gone(fab))
        return nic_fail_gone();
    nic_lock(fab);
    err = queue_open_next(fab, ret);
    nic_unlock(fab);
    return err ? nic_fail(err, "no queue of node %u is free", fab->info.node) : 0;
}

void fabemu_queue_close(struct fabemu_queue *queue)
{
    struct fabemu *fab = queue->fab;

    if (nic_gone(fab))
        return;
    nic_lock(fab);
    queue_free(queue);
    nic_unlock(fab);
}

void nic_queue_release(struct fabemu *fab)
{
    for (uint32_t id = 0; id < NIC_QUEUES; id++)
        if (fab->queues[id])
            queue_free(fab->queues[id]);
}

static void queue_passed(struct fabemu *fab, struct fabemu_queue *queue, uint32_t node,
                         uint64_t first)
{
    struct emu_list *at, *next;

    for (at = queue->posted.next; at != &queue->posted; at = next) {
        struct nic_op *op = emu_list_entry(at, struct nic_op, link);

        next = at->next;
        if (op->node == node && op->seat < first)
            nic_op_end(fab, op, -EHOSTUNREACH);
    }
    for (at = queue->unexpected.next; at != &queue->unexpected; at = next) {
        struct fabemu_message *msg = emu_list_entry(at, struct fabemu_message, link);

        next = at->next;
        if (msg->src_node != node || msg->src_seat >= first || !msg->rts)
            continue;
        if (!queue->open)
            fab->parked--;
        nic_message_drop(fab, msg);
    }
}

void nic_queue_passed(struct fabemu *fab, uint32_t node, uint64_t first)
{
    for (uint32_t id = 0; id < NIC_QUEUES; id++)
        if (fab->queues[id])
            queue_passed(fab, fab->queues[id], node, first);
}

void nic_queue_probe(struct fabemu *fab)
{
    for (uint32_t id = 0; id < NIC_QUEUES; id++) {
        struct fabemu_queue *queue = fab->queues[id];

        for (struct emu_list *at = queue ? queue->posted.next : NULL; at && at != &queue->posted;
             at = at->next) {
            uint32_t node = emu_list_entry(at, struct nic_op, link)->node;

            if (node != FABEMU_ANY_NODE)
                nic_peer_probe(fab, nic_peer(fab, node));
        }
    }
}

/* --- send ------------------------------------------------------------------------- */

static int send_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);

    nic_request(fab, nic_peer(fab, op->node), op);
    return 0;
}

static void send_prepare(struct nic_op *op, const struct fabemu_queue *queue,
                         const struct fabemu_dest *dest, const struct fabemu_iov *iov,
                         unsigned iovs)
{
    op->link = (struct emu_list){0};
    op->post.begin = send_begin;
    op->kind = NIC_OP_SEND;
    op->state = NIC_OP_ARMED;
    op->node = dest->node;
    op->id = 0;
    op->seat = dest->seat;
    op->named = dest->seat != 0;
    op->tag = dest->tag;
    op->data_or_ignore = dest->data;
    op->dst_queue = dest->queue;
    op->src_queue = queue->id;
    op->delivered = dest->delivered;
    nic_op_iov(op, iov, iovs);
}

int fabemu_send(struct fabemu_queue *queue, const struct fabemu_dest *dest,
                const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req)
{
    struct fabemu *fab = queue->fab;
    struct nic_op *op = nic_op_of(req);
    int err = nic_node_check(fab, dest->node);

    if (!err)
        err = nic_iov_check(iov, iovs);
    if (!err)
        err = nic_event_check(fab, req);
    if (err)
        return err;
    send_prepare(op, queue, dest, iov, iovs);
    if (op->bytes > NIC_TRANSFER_MAX)
        return nic_fail(-EMSGSIZE, "a message has at most %llu bytes",
                        (unsigned long long)NIC_TRANSFER_MAX);
    op->req = req;
    return nic_post(fab, &op->post);
}

/*
 * The window is full, and no operation is there that waits for it: who injects asks again. Whether the process
 * answers is asked here as the watch asks for operations: once a second.
 */
static void inject_asks(struct fabemu *fab, struct nic_peer *peer)
{
    if (peer->open && !nic_peer_window(peer) && nic_now_ns() - peer->hail_began_ns >= fab->watch_gap_ns)
        nic_peer_hail(fab, peer);
}

int fabemu_inject(struct fabemu_queue *queue, const struct fabemu_dest *dest, const void *buf,
                  size_t bytes)
{
    struct fabemu *fab = queue->fab;
    struct fabemu_iov iov = {.base = (void *)(uintptr_t)buf, .bytes = bytes};
    struct nic_op op;
    int err = bytes > FABEMU_INJECT_BYTES
                  ? nic_fail(-EINVAL, "at most %d bytes can be injected", FABEMU_INJECT_BYTES)
                  : nic_node_check(fab, dest->node);

    if (!err)
        err = nic_buffer_check(buf, bytes);
    if (err)
        return err;
    send_prepare(&op, queue, dest, &iov, 1);
    op.req = NULL;
    nic_lock(fab);

    struct nic_peer *peer = nic_peer(fab, dest->node);

    err = nic_peer_begin(fab, peer, &op);
    if (err || peer->unanswered)
        nic_peer_named(fab, peer->node);
    if (!err && peer->unanswered) {
        peer->unanswered = false; /* the next call tries again */
        err = nic_fail(-EHOSTUNREACH, "nobody answers at node %u", peer->node);
    } else if (!err && !nic_request_now(fab, peer, &op)) {
        err = -EAGAIN;
        inject_asks(fab, peer);
    }
    nic_unlock(fab);
    return err;
}

/* --- receive ------------------------------------------------------------------------ */

static int receive_prepare(struct fabemu_queue *queue, const struct fabemu_iov *iov, unsigned iovs,
                           struct fabemu_req *req)
{
    struct nic_op *op = nic_op_of(req);
    int err = nic_iov_check(iov, iovs);

    if (err)
        return err;
    if (nic_gone(queue->fab))
        return nic_fail_gone();
    if (req->after)
        return nic_fail(-EINVAL, "a receive is posted at once");
    if (nic_event_check(queue->fab, req))
        return -EINVAL;
    op->link = (struct emu_list){0};
    op->req = req;
    op->kind = NIC_OP_RECV;
    op->state = NIC_OP_POSTED;
    op->id = 0;
    op->seat = req->seat;
    op->named = req->seat != 0;
    op->queue = queue;
    nic_op_iov(op, iov, iovs);
    return 0;
}

/* After one that is gone we ask for its successor: if there is none, the receive ends. */
static void receive_post(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    if (nic_peer_begin(fab, peer, op)) {
        nic_op_end(fab, op, -EHOSTUNREACH);
        return;
    }
    emu_list_add(&op->queue->posted, &op->link);
    if (peer->missed)
        nic_peer_hail(fab, peer);
}

int fabemu_recv_from(struct fabemu_queue *queue, struct fabemu_source from, uint64_t tag,
                     uint64_t ignore, const struct fabemu_iov *iov, unsigned iovs,
                     struct fabemu_req *req)
{
    static const struct fabemu_iov nothing = {0};
    struct fabemu *fab = queue->fab;
    struct nic_op *op = nic_op_of(req);
    struct fabemu_message *msg;
    int err;

    if (from.node != FABEMU_ANY_NODE && from.node >= fab->info.nodes)
        return nic_fail(-EINVAL, "there is no node %u: the fabric has %u", from.node,
                        fab->info.nodes);
    if (!iovs) { /* an empty buffer, which a longer message does not fit */
        iov = &nothing;
        iovs = 1;
    }
    err = receive_prepare(queue, iov, iovs, req);
    if (err)
        return err;
    op->node = from.node;
    op->from = from.queue;
    op->tag = tag;
    op->data_or_ignore = ignore;
    nic_lock(fab);
    __atomic_store_n(&req->status, FABEMU_PENDING, __ATOMIC_RELAXED);
    msg = message_find(queue, from, req->seat, tag, ignore);
    if (msg)
        nic_message_take(fab, msg, op);
    else if (from.node == FABEMU_ANY_NODE)
        emu_list_add(&queue->posted, &op->link);
    else
        receive_post(fab, nic_peer(fab, from.node), op);
    nic_unlock(fab);
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

    if (nic_gone(fab))
        return nic_fail_gone();
    nic_poll_app(fab);
    nic_lock(fab);
    msg = message_find(queue, from, req->seat, tag, ignore);
    if (msg) {
        req->src_node = msg->src_node;
        req->src_seat = msg->src_seat;
        req->src_queue = msg->src_queue;
        req->tag = msg->tag;
        req->data = msg->data;
        req->bytes = msg->bytes;
        req->status = 0;
        if (claim) {
            emu_list_del(&msg->link);
            *claim = msg;
        }
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
    int err = receive_prepare(queue, iov, iovs, req);

    if (err)
        return err;
    nic_lock(fab);
    __atomic_store_n(&req->status, FABEMU_PENDING, __ATOMIC_RELAXED);
    nic_message_take(fab, claim, nic_op_of(req));
    nic_unlock(fab);
    return 0;
}

int fabemu_cancel(struct fabemu_queue *queue, struct fabemu_req *req)
{
    struct fabemu *fab = queue->fab;
    struct nic_op *op = nic_op_of(req);
    int err = -ENOENT;

    if (nic_gone(fab))
        return nic_fail_gone();
    nic_lock(fab);
    if (fabemu_req_status(req) == FABEMU_PENDING && op->kind == NIC_OP_RECV &&
        op->state == NIC_OP_POSTED && op->queue == queue) {
        nic_op_end(fab, op, -ECANCELED);
        err = 0;
    }
    nic_unlock(fab);
    return err;
}
