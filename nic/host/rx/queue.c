/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - endpoints for messages: the table of queues, matching, and closing */
#include "nic/host/rx/queue.h"

#include <errno.h>
#include <stdlib.h>

#include "nic/host/rx/message.h"
#include "nic/host/rx/notice.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/request.h"

static bool tag_matches(uint64_t tag, uint64_t want, uint64_t ignore)
{
    return ((tag ^ want) & ~ignore) == 0;
}

static bool source_matches(struct fabemu_source from, struct fabemu_source want)
{
    return (want.node == FABEMU_ANY_NODE || want.node == from.node) &&
           (want.queue == FABEMU_ANY_QUEUE || want.queue == from.queue);
}

static struct nic_recv *multi_receive(struct nic_recv *multi, struct fabemu_req *req,
                                      const struct fabemu_iov *iov)
{
    struct nic_recv *recv = nic_recv_of(nic_op_new(req, NIC_OP_RECV, FABEMU_ANY_NODE, NULL));

    recv->op.state = NIC_OP_POSTED;
    recv->queue = multi->queue;
    recv->watched = multi->watched;
    nic_op_iov(&recv->op, iov, 1);
    __atomic_store_n(&req->status, FABEMU_PENDING, __ATOMIC_RELAXED);
    return recv;
}

struct nic_recv *nic_multi_next(struct nic_recv *multi, uint64_t bytes, bool *open)
{
    struct nic_op *op = &multi->op;
    struct fabemu_iov iov = {.base = (char *)op->iov[0].base + op->moved,
                             .bytes = op->bytes - op->moved};
    struct fabemu_req *req = multi->next(op->post.req, iov.base);
    struct nic_recv *recv = req ? multi_receive(multi, req, &iov) : NULL;

    op->moved += bytes < iov.bytes ? bytes : iov.bytes;
    *open = req && op->bytes - op->moved >= multi->min_bytes;
    if (!*open) {
        /* only the receives of single messages are reported to the fabric */
        multi->watched.began_ns = 0;
        nic_op_end(multi->queue->fab, op, req ? 0 : -ENOMEM);
    }
    return recv;
}

static struct nic_recv *queue_find_posted(struct fabemu_queue *queue, struct fabemu_source from,
                                          uint64_t incarnation, uint64_t tag)
{
    emu_each_listed (struct nic_recv, recv, &queue->posted, op.post.link)
        if (source_matches(from, (struct fabemu_source){recv->op.node, recv->from}) &&
            recv->op.incarnation <= incarnation && tag_matches(tag, recv->tag, recv->ignore))
            return recv;
    return NULL;
}

struct nic_recv *nic_queue_match(struct fabemu_queue *queue, struct fabemu_source from,
                                 uint64_t incarnation, uint64_t tag, uint64_t bytes)
{
    struct nic_recv *recv = queue_find_posted(queue, from, incarnation, tag), *one;
    bool open;

    while (recv && recv->next) {
        one = nic_multi_next(recv, bytes, &open);
        if (one)
            return one;
        recv = queue_find_posted(queue, from, incarnation, tag);
    }
    if (recv)
        emu_list_del(&recv->op.post.link);
    return recv;
}

struct fabemu_message *nic_queue_find(struct fabemu_queue *queue, struct fabemu_source want,
                                      uint64_t incarnation, uint64_t tag, uint64_t ignore)
{
    emu_each_listed (struct fabemu_message, msg, &queue->unexpected, link)
        if (source_matches((struct fabemu_source){msg->src_node, msg->wire.src_queue}, want) &&
            (!incarnation || msg->src_incarnation == incarnation) &&
            tag_matches(msg->wire.tag, tag, ignore))
            return msg;
    return NULL;
}

struct fabemu_queue *nic_queue_at(struct fabemu *fab, uint32_t id)
{
    struct fabemu_queue *queue = fab->queues[id];

    if (queue)
        return queue;
    queue = calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    queue->fab = fab;
    queue->id = id;
    queue->receiver = queue;
    queue->lost_to = FABEMU_ANY_NODE;
    emu_list_init(&queue->posted);
    emu_list_init(&queue->unexpected);
    emu_list_init(&queue->claimed);
    emu_list_init(&queue->active);
    emu_list_init(&queue->notices);
    emu_list_init(&queue->awaiting);
    fab->queues[id] = queue;
    return queue;
}

void nic_queue_share(struct fabemu_queue *queue, struct fabemu_queue *shared)
{
    queue->receiver = shared;
    while (!emu_list_empty(&queue->unexpected)) {
        struct fabemu_message *msg =
            emu_list_entry(queue->unexpected.next, struct fabemu_message, link);
        struct nic_recv *recv =
            nic_queue_match(shared, (struct fabemu_source){msg->src_node, msg->wire.src_queue},
                            msg->src_incarnation, msg->wire.tag, msg->wire.bytes);

        msg->queue = shared;
        if (recv) {
            nic_message_take(queue->fab, msg, recv);
        } else {
            emu_list_del(&msg->link);
            emu_list_add(&shared->unexpected, &msg->link);
        }
    }
}

/* --- closing ------------------------------------------------------------------------ */

void nic_receive_abandon(struct fabemu *fab, struct nic_recv *recv)
{
    struct nic_op *op = &recv->op;
    struct nic_peer *peer = op->state == NIC_OP_FILLING ? nic_peer(fab, op->node) : NULL;

    /* the sender stops waiting for this receive, and sends no more data */
    if (op->state == NIC_OP_WAITING)
        nic_fin(fab, nic_peer(fab, op->node), op->remote, -ECANCELED);
    if (peer && peer->fill.recv == recv)
        peer->fill.recv = NULL;
    else if (peer && peer->fill.msg && peer->fill.msg->recv == recv)
        nic_message_drop(fab, peer->fill.msg);
    nic_op_end(fab, op, -ECANCELED);
}

/* Return whether a message to queue number @to is lost when @queue closes. */
static bool is_lost(const struct fabemu_queue *queue, uint16_t to)
{
    return nic_queue_is_shared(queue) || queue->id == to;
}

/* Cancel each receive that has matched a message, if the message was sent to @queue. */
static void matched_end(struct fabemu_queue *queue)
{
    struct emu_list *list = &queue->receiver->active, *at, *next;

    for (at = list->next; at != list; at = next) {
        struct nic_recv *recv = emu_list_entry(at, struct nic_recv, op.post.link);

        next = at->next;
        if (is_lost(queue, recv->op.post.req->queue))
            nic_receive_abandon(queue->fab, recv);
    }
}

static void unexpected_end(struct fabemu_queue *queue)
{
    struct emu_list *list = &queue->receiver->unexpected, *at, *next;

    for (at = list->next; at != list; at = next) {
        struct fabemu_message *msg = emu_list_entry(at, struct fabemu_message, link);

        next = at->next;
        if (!is_lost(queue, msg->wire.head.queue))
            continue;
        if (!queue->open)
            nic_peer(queue->fab, msg->src_node)->parked--;
        nic_message_drop(queue->fab, msg);
    }
}

/* End the sharing of a shared receive queue that is being closed. */
static void sharing_end(struct fabemu_queue *shared)
{
    emu_each_listed (struct fabemu_queue, queue, &shared->fab->opened, opened)
        if (queue->receiver == shared)
            queue->receiver = queue;
}

/* End the receives of messages, and drop the messages. */
static void messages_end(struct fabemu_queue *queue)
{
    while (!emu_list_empty(&queue->posted))
        nic_op_end(queue->fab, emu_list_entry(queue->posted.next, struct nic_op, post.link),
                   -ECANCELED);
    matched_end(queue);
    unexpected_end(queue);
}

void nic_queue_break(struct fabemu_queue *queue)
{
    queue->broken = true;
    messages_end(queue);
    nic_sends_end(queue->fab, (uint16_t)queue->id, -ECANCELED);
}

static void claimed_end(struct fabemu_queue *queue)
{
    while (!emu_list_empty(&queue->claimed))
        nic_message_drop(queue->fab,
                         emu_list_entry(queue->claimed.next, struct fabemu_message, link));
}

void nic_queue_free(struct fabemu_queue *queue)
{
    struct fabemu *fab = queue->fab;

    nic_notices_end(queue);
    messages_end(queue);
    claimed_end(queue);
    if (nic_queue_is_shared(queue))
        sharing_end(queue);
    emu_list_del(&queue->opened);
    fab->retired[queue->id] = queue->open && !queue->refs;
    fab->queues[queue->id] = NULL;
    free(queue);
}

void nic_queue_release(struct fabemu *fab)
{
    for (uint32_t id = 0; id < NIC_QUEUES; id++)
        if (fab->queues[id])
            nic_queue_free(fab->queues[id]);
}

void nic_queue_forget_event(struct fabemu *fab, const struct fabemu_event *event)
{
    emu_each_listed (struct fabemu_queue, queue, &fab->opened, opened)
        nic_access_forget(&queue->events, event);
}

static void receives_fail(struct fabemu *fab, struct fabemu_queue *queue, uint32_t node,
                          uint64_t first)
{
    struct emu_list *at, *next;

    for (at = queue->posted.next; at != &queue->posted; at = next) {
        struct nic_op *op = emu_list_entry(at, struct nic_op, post.link);

        next = at->next;
        if (op->node == node && op->incarnation < first)
            nic_op_end(fab, op, -EHOSTUNREACH);
    }
}

/* Fail the long messages (RTS) of ended processes or, if they are @withdrawn, drop them. */
static void announced_fail(struct fabemu *fab, struct fabemu_queue *queue, uint32_t node,
                           uint64_t first, bool withdrawn)
{
    struct emu_list *at, *next;

    for (at = queue->unexpected.next; at != &queue->unexpected; at = next) {
        struct fabemu_message *msg = emu_list_entry(at, struct fabemu_message, link);

        next = at->next;
        if (msg->src_node != node || msg->src_incarnation >= first || !msg->rts)
            continue;
        msg->broken |= !withdrawn;
        if (msg->broken && queue->open)
            continue;
        if (!queue->open) /* the number of messages to queues that are not open is limited */
            nic_peer(fab, node)->parked--;
        nic_message_drop(fab, msg);
    }
}

void nic_queue_fail_older(struct fabemu *fab, uint32_t node, uint64_t first, bool withdrawn)
{
    for (uint32_t id = 0; id < NIC_QUEUES; id++) {
        if (!fab->queues[id])
            continue;
        receives_fail(fab, fab->queues[id], node, first);
        announced_fail(fab, fab->queues[id], node, first, withdrawn);
    }
}
