/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.c - messages that arrive: copy them into the receive that matches, or keep them.
 *
 * The segments of an eager message are dispatched in order, so at most one eager message of each
 * peer is incomplete (peer->filling). An RTS announces a long message, which waits at its sender
 * until we ask for it by a CTS. A FIN ends a transfer (base/wire.h).
 */
#include "nic/host/rx/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic/host/tx/answer.h"

/* --- memory of unexpected messages -------------------------------------------------- */

static const uint32_t msg_pool_bytes[NIC_MSG_POOLS] = {0, NIC_INLINE_BYTES, 1024, 8192};

static struct fabemu_message *msg_alloc(struct fabemu *fab, uint64_t bytes)
{
    struct fabemu_message *msg;
    unsigned pool = 0;

    while (pool < NIC_MSG_POOLS && bytes > msg_pool_bytes[pool])
        pool++;
    if (pool < NIC_MSG_POOLS && !emu_list_empty(&fab->msg_free[pool])) {
        msg = emu_list_entry(fab->msg_free[pool].next, struct fabemu_message, link);
        emu_list_del(&msg->link);
    } else {
        msg = malloc(sizeof *msg + (pool < NIC_MSG_POOLS ? msg_pool_bytes[pool] : bytes));
        if (!msg)
            return NULL;
    }
    memset(msg, 0, sizeof *msg);
    msg->pool = (uint8_t)pool;
    return msg;
}

static void msg_free(struct fabemu *fab, struct fabemu_message *msg)
{
    emu_list_del(&msg->link);
    if (msg->pool < NIC_MSG_POOLS)
        emu_list_add(&fab->msg_free[msg->pool], &msg->link);
    else
        free(msg);
}

void nic_message_release_pools(struct fabemu *fab)
{
    for (unsigned pool = 0; pool < NIC_MSG_POOLS; pool++) {
        while (!emu_list_empty(&fab->msg_free[pool])) {
            struct fabemu_message *msg =
                emu_list_entry(fab->msg_free[pool].next, struct fabemu_message, link);

            emu_list_del(&msg->link);
            free(msg);
        }
    }
}

/* --- matched ------------------------------------------------------------------------ */

void nic_message_describe(struct fabemu_req *req, uint32_t node, uint64_t incarnation,
                          const struct nic_wire_msg *wire)
{
    req->src_node = node;
    req->src_incarnation = incarnation;
    req->src_queue = wire->src_queue;
    req->tag = wire->tag;
    req->data = wire->data;
    req->mark = wire->mark;
    req->queue = wire->head.queue;
    req->bytes = wire->bytes;
}

/*
 * Fill the receive's request with the properties of its message. op->bytes is still the size of the
 * receive's buffer.
 */
static void receive_fill_request(struct nic_recv *recv, uint32_t node, uint64_t incarnation,
                                 const struct nic_wire_msg *wire, uint32_t number)
{
    struct nic_op *op = &recv->op;

    op->node = node;
    recv->status = wire->bytes > op->bytes && op->iovs ? -EMSGSIZE : 0;
    nic_message_describe(op->post.req, node, incarnation, wire);
    recv->watched.number = (uint16_t)number;
}

/* Request a message that waits at its sender; @id is the sender's id. */
static void receive_fetch(struct fabemu *fab, struct nic_peer *peer, struct nic_recv *recv,
                          uint32_t id, uint64_t bytes)
{
    struct nic_op *op = &recv->op;
    uint64_t accept = bytes < op->bytes ? bytes : op->bytes;

    if (accept && nic_op_id(fab, op)) {
        nic_fin(fab, peer, id, -ENOBUFS);
        nic_op_end(fab, op, -ENOBUFS);
        return;
    }
    nic_cts(fab, peer, id, op->id, accept);
    if (!accept) {
        nic_op_end(fab, op, recv->status);
        return;
    }
    op->bytes = accept;
    op->moved = 0;
    op->remote = id;
    op->state = NIC_OP_WAITING;
    emu_list_add(&recv->queue->active, &op->post.link);
}

static void receive_copy(struct fabemu *fab, struct nic_recv *recv, struct fabemu_message *msg)
{
    nic_op_write(&recv->op, 0, msg->buf, msg->wire.bytes);
    nic_op_end(fab, &recv->op, recv->status);
    nic_message_drop(fab, msg);
}

void nic_message_take(struct fabemu *fab, struct fabemu_message *msg, struct nic_recv *recv)
{
    struct nic_peer *peer = nic_peer(fab, msg->src_node);

    assert(fab->locked && recv->op.state == NIC_OP_POSTED);
    emu_list_del(&msg->link);
    receive_fill_request(recv, msg->src_node, msg->src_incarnation, &msg->wire, msg->number);
    if (msg->broken || (msg->rts && !nic_peer_check_is_current(peer, msg->check))) {
        nic_op_end(fab, &recv->op, -EHOSTUNREACH);
        if (!msg->rts)
            nic_peer_consumed(fab, peer, msg->check, msg->wire.bytes);
        msg_free(fab, msg);
    } else if (msg->rts) {
        receive_fetch(fab, peer, recv, msg->wire.id, msg->wire.bytes);
        msg_free(fab, msg);
    } else if (msg->whole) {
        receive_copy(fab, recv, msg);
    } else {
        msg->recv = recv;
        recv->op.state = NIC_OP_FILLING;
        emu_list_add(&recv->queue->active, &recv->op.post.link);
    }
}

void nic_message_drop(struct fabemu *fab, struct fabemu_message *msg)
{
    struct nic_peer *peer = nic_peer(fab, msg->src_node);

    if (peer->fill.msg == msg)
        /* the rest is dropped as it arrives; the message is acknowledged with its last byte */
        peer->fill.msg = NULL;
    else if (msg->rts && nic_peer_check_is_current(peer, msg->check))
        /* tell the sender that nobody will receive the message */
        nic_fin(fab, peer, msg->wire.id, -ECANCELED);
    else if (!msg->rts)
        nic_peer_consumed(fab, peer, msg->check, msg->wire.bytes);
    msg_free(fab, msg);
}

/* --- unmatched ---------------------------------------------------------------------- */

/*
 * Keep a message without a receive. Returns NULL, and counts the message as closed, if the queue
 * has closed or is broken. Returns NULL, and counts the message as refused unless this process is
 * detaching, if there is no memory or too many messages are kept.
 */
static struct fabemu_message *message_keep(struct fabemu *fab, struct nic_peer *peer,
                                           struct fabemu_queue *queue,
                                           const struct nic_wire_msg *wire, bool rts,
                                           uint32_t number)
{
    struct fabemu_message *msg = NULL;

    if (fab->retired[queue->id] || queue->broken) {
        fab->counts.closed++;
        return NULL;
    }
    if (queue->open || peer->parked < NIC_PARKED_MAX)
        msg = msg_alloc(fab, rts ? 0 : wire->bytes);
    if (!msg) {
        fab->counts.refused += !fab->leaving;
        return NULL;
    }
    if (!queue->open)
        peer->parked++;
    msg->queue = queue;
    msg->src_node = peer->node;
    msg->src_incarnation = peer->incarnation;
    msg->check = peer->rx_check;
    msg->rts = rts;
    msg->number = number;
    msg->wire = *wire;
    emu_list_add(&queue->unexpected, &msg->link);
    return msg;
}

static struct nic_recv *queue_match(struct fabemu_queue *queue, const struct nic_peer *peer,
                                    const struct nic_wire_msg *wire)
{
    return nic_queue_match(queue, (struct fabemu_source){peer->node, wire->src_queue},
                           peer->incarnation, wire->tag, wire->bytes);
}

/* --- the wire ----------------------------------------------------------------------- */

static size_t message_head_bytes(const struct emu_seg *seg)
{
    return seg->payload[0] == NIC_SHORT ? sizeof(struct nic_wire_short)
                                        : sizeof(struct nic_wire_msg);
}

/* Read the header of a message's first segment, in the long or the short form. */
static void message_read(const struct emu_seg *seg, struct nic_wire_msg *wire)
{
    struct nic_wire_short little;

    if (seg->payload[0] != NIC_SHORT) {
        memcpy(wire, seg->payload, sizeof *wire);
        return;
    }
    memcpy(&little, seg->payload, sizeof little);
    *wire = (struct nic_wire_msg){.head = little.head,
                                  .src_queue = little.src_queue,
                                  .mark = little.mark,
                                  .tag = little.tag,
                                  .data = little.data,
                                  .bytes = seg->hdr.len - sizeof little};
}

/*
 * Read and check the first segment of an eager message or an RTS. Returns the queue that receives
 * the message.
 * NULL: the segment was malformed or refused, and was counted.
 */
static struct fabemu_queue *message_begin(struct fabemu *fab, struct nic_peer *peer,
                                          const struct emu_seg *seg, struct nic_wire_msg *wire)
{
    struct fabemu_queue *queue = NULL;

    if (peer->filling) { /* the rest of the previous message is missing */
        nic_message_break(fab, peer, -EPROTO);
        fab->counts.malformed++;
    }
    if (seg->hdr.len < message_head_bytes(seg)) {
        fab->counts.malformed++;
        return NULL;
    }
    message_read(seg, wire);
    queue = nic_queue_at(fab, wire->head.queue);
    if (!queue)
        fab->counts.refused++;
    return queue ? queue->receiver : NULL;
}

/* Return the status of a message that message_keep() has not kept. */
static int message_refusal(const struct fabemu *fab, const struct fabemu_queue *queue)
{
    if (fab->leaving)
        return -EHOSTUNREACH;
    return fab->retired[queue->id] || queue->broken ? -ECANCELED : -ENOMEM;
}

/* Send a FIN to the sender of an eager message. @id: the sender's id; 0: it wants no FIN. */
static void message_confirm(struct fabemu *fab, struct nic_peer *peer, uint32_t id, int status)
{
    if (id)
        nic_fin(fab, peer, id, status);
}

/* Store the destination of the rest of an arriving message. */
static void fill_begin(struct nic_peer *peer, struct nic_recv *recv, struct fabemu_message *msg,
                       const struct nic_wire_msg *wire, uint64_t got)
{
    if (recv) {
        recv->op.state = NIC_OP_FILLING;
        emu_list_add(&recv->queue->active, &recv->op.post.link);
    }
    peer->filling = true;
    peer->fill = (struct nic_fill){recv, msg, got, wire->bytes, wire->id};
}

void nic_message_eager(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_msg wire;
    struct fabemu_queue *queue = message_begin(fab, peer, seg, &wire);
    const uint8_t *from = seg->payload + message_head_bytes(seg);
    uint64_t n = seg->hdr.len - message_head_bytes(seg);

    if (!queue)
        return;
    if (wire.bytes > NIC_EAGER_LIMIT || n > NIC_INLINE_BYTES || n > wire.bytes ||
        (n < wire.bytes && n < NIC_INLINE_BYTES)) {
        fab->counts.malformed++;
        return;
    }

    struct nic_recv *recv = queue_match(queue, peer, &wire);
    struct fabemu_message *msg = NULL;

    if (recv) {
        receive_fill_request(recv, peer->node, peer->incarnation, &wire, seg->hdr.seq);
        nic_op_write(&recv->op, 0, from, n);
    } else {
        msg = message_keep(fab, peer, queue, &wire, false, seg->hdr.seq);
        if (msg)
            emu_copy(msg->buf, from, n);
    }
    if (!recv && !msg) {
        message_confirm(fab, peer, wire.id, message_refusal(fab, queue));
        wire.id = 0;
    }
    if (n < wire.bytes) {
        fill_begin(peer, recv, msg, &wire, n);
        return;
    }
    if (recv)
        nic_op_end(fab, &recv->op, recv->status);
    else if (msg)
        msg->whole = true;
    message_confirm(fab, peer, wire.id, 0);
}

/* Note that the message is no longer arriving. Returns its destination. */
static struct nic_fill fill_take(struct nic_peer *peer)
{
    struct nic_fill fill = peer->fill;

    peer->filling = false;
    peer->fill = (struct nic_fill){0};
    return fill;
}

static void fill_end(struct fabemu *fab, struct nic_peer *peer)
{
    struct nic_fill fill = fill_take(peer);

    message_confirm(fab, peer, fill.id, fill.recv || fill.msg ? 0 : -ECANCELED);
    if (fill.msg) {
        fill.msg->whole = true;
        if (fill.msg->recv)
            receive_copy(fab, fill.msg->recv, fill.msg);
        return;
    }
    if (fill.recv)
        nic_op_end(fab, &fill.recv->op, fill.recv->status);
    nic_peer_consumed(fab, peer, peer->rx_check, fill.bytes);
}

void nic_message_more(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    uint64_t n = seg->hdr.len - sizeof(struct nic_wire_head);
    const uint8_t *from = seg->payload + sizeof(struct nic_wire_head);

    if (!peer->filling || n == 0 || n > peer->fill.bytes - peer->fill.got) {
        fab->counts.malformed++;
        return;
    }
    if (peer->fill.recv)
        nic_op_write(&peer->fill.recv->op, peer->fill.got, from, n);
    else if (peer->fill.msg)
        emu_copy(peer->fill.msg->buf + peer->fill.got, from, n);
    peer->fill.got += n;
    if (peer->fill.got == peer->fill.bytes)
        fill_end(fab, peer);
}

void nic_message_break(struct fabemu *fab, struct nic_peer *peer, int status)
{
    struct nic_fill fill = fill_take(peer);
    struct fabemu_message *msg = fill.msg;

    if (fill.recv)
        nic_op_end(fab, &fill.recv->op, status);
    if (!msg)
        return;
    if (msg->recv) {
        nic_op_end(fab, &msg->recv->op, status);
        msg_free(fab, msg);
        /* messages to queues that are not open count against a limit, so keep no broken message */
    } else if (!msg->queue->open) {
        peer->parked--;
        msg_free(fab, msg);
    } else { /* a receive that matches it must fail, rather than match the next message */
        msg->broken = true;
    }
}

void nic_message_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_msg wire;
    struct fabemu_queue *queue = message_begin(fab, peer, seg, &wire);

    if (!queue)
        return;

    struct nic_recv *recv = queue_match(queue, peer, &wire);

    if (recv) {
        receive_fill_request(recv, peer->node, peer->incarnation, &wire, seg->hdr.seq);
        receive_fetch(fab, peer, recv, wire.id, wire.bytes);
    } else if (!message_keep(fab, peer, queue, &wire, true, seg->hdr.seq) && !fab->leaving) {
        /* while we detach, no FIN is needed: our disconnect ends the sender's operation */
        nic_fin(fab, peer, wire.id, message_refusal(fab, queue));
    }
}
