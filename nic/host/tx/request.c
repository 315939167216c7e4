/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c - the queue of requests to each peer. Requests are numbered per peer, in the order in
 * which they were posted, and sent within the peer's window.
 */
#include "nic/host/tx/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic/host/tx/answer.h"
#include "nic/host/tx/bulk.h"
#include "nic/host/tx/up.h"

#define NIC_PEER_BURST 32u   /* segments per peer and burst */
#define NIC_PUT_EAGER  8192u /* bytes of the longest eager put */

/*
 * Return whether the message, whose first segment is due, is sent eagerly rather than by RTS. The
 * receiver answers an RTS when a receive has matched the message.
 */
static bool send_is_eager(const struct fabemu *fab, const struct nic_peer *peer,
                          const struct nic_send *send)
{
    uint64_t bytes = send->op.bytes;

    if (bytes <= NIC_INLINE_BYTES || send->matched)
        return !send->matched;
    return bytes <= fab->eager_bytes &&
           peer->tx_eager - peer->tx_consumed + bytes <= NIC_EAGER_WINDOW;
}

static bool send_is_short(const struct nic_send *send)
{
    return send->op.bytes <= NIC_INLINE_BYTES && !send->op.id && send->data <= UINT32_MAX;
}

/* Write a message that consists of one segment, with the short header. */
static void send_short(struct nic_peer *peer, struct nic_send *send, struct emu_seg *seg)
{
    const struct nic_wire_short wire = {.head = nic_head(peer, NIC_SHORT, send->dst_queue),
                                        .src_queue = send->src_queue,
                                        .mark = send->mark,
                                        .data = (uint32_t)send->data,
                                        .tag = send->tag};

    seg->hdr.len = (uint8_t)(sizeof wire + send->op.bytes);
    memcpy(seg->payload, &wire, sizeof wire);
    nic_op_read(&send->op, seg->payload + sizeof wire, send->op.bytes);
}

/*
 * Write the first segment of a message with the long header: the first @bytes of the message, or an
 * RTS without data.
 */
static void send_begins(struct nic_peer *peer, struct nic_send *send, bool eager,
                        struct emu_seg *seg, uint64_t bytes)
{
    const struct nic_wire_msg msg = {.head = nic_head(peer, eager ? NIC_EAGER : NIC_RTS,
                                                      send->dst_queue),
                                     .src_queue = send->src_queue,
                                     .mark = send->mark,
                                     .id = send->op.id,
                                     .tag = send->tag,
                                     .data = send->data,
                                     .bytes = send->op.bytes};

    seg->hdr.len = (uint8_t)(sizeof msg + bytes);
    memcpy(seg->payload, &msg, sizeof msg);
    nic_op_read(&send->op, seg->payload + sizeof msg, bytes);
}

/*
 * Note the queue of a message without a FIN, so that its loss can be reported. If there is no
 * memory, the loss will not be reported.
 */
static void sender_note(struct nic_peer *peer, const struct nic_send *send, uint32_t seq)
{
    struct nic_sender *sender;

    if (!peer->senders)
        peer->senders = calloc(NIC_ORDER_WINDOW, sizeof *peer->senders);
    if (!peer->senders)
        return;
    sender = &peer->senders[seq % NIC_ORDER_WINDOW];
    *sender = (struct nic_sender){.seq = seq, .queue = send->src_queue + 1u};
}

/*
 * Send the first segment of a message. A message that is not @eager has an id. Returns false if
 * there is no space; then nothing has changed.
 */
static bool send_first(struct fabemu *fab, struct nic_peer *peer, struct nic_send *send, bool eager)
{
    struct nic_op *op = &send->op;
    struct emu_seg *seg = nic_claim(fab, peer->node);
    uint64_t n = !eager ? 0 : op->bytes < NIC_INLINE_BYTES ? op->bytes : NIC_INLINE_BYTES;

    if (!seg)
        return false;
    send->watched.number = (uint16_t)peer->tx_seq;
    if (send->reports_loss && !op->id)
        sender_note(peer, send, peer->tx_seq);
    seg->hdr.seq = peer->tx_seq++;
    if (eager && send_is_short(send))
        send_short(peer, send, seg);
    else
        send_begins(peer, send, eager, seg, n);
    nic_peer_sent(fab, peer, op->bytes);
    if (!eager) {
        emu_list_del(&op->post.link);
        op->state = NIC_OP_WAITING;
        return true;
    }
    op->moved = n;
    op->state = NIC_OP_EAGER;
    if (op->bytes > NIC_INLINE_BYTES)
        peer->tx_eager += (uint32_t)op->bytes;
    return true;
}

static bool send_more(struct fabemu *fab, struct nic_peer *peer, struct nic_send *send)
{
    struct nic_op *op = &send->op;
    struct emu_seg *seg = nic_claim(fab, peer->node);

    if (!seg)
        return false;

    struct nic_wire_head head = nic_head(peer, NIC_MORE, send->dst_queue);
    uint64_t left = op->bytes - op->moved;
    uint64_t n = left < NIC_MORE_BYTES ? left : NIC_MORE_BYTES;

    seg->hdr.seq = peer->tx_seq++;
    seg->hdr.len = (uint8_t)(sizeof head + n);
    memcpy(seg->payload, &head, sizeof head);
    nic_op_read(op, seg->payload + sizeof head, n);
    op->moved += n;
    return true;
}

/* Claim a segment for a put or get request and fill in its first fields. NULL: no space. */
static struct emu_seg *memory_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op,
                                      enum nic_what what, uint16_t queue)
{
    const struct nic_access *access = nic_access_of(op);
    struct emu_seg *seg = nic_claim(fab, peer->node);

    if (!seg)
        return NULL;

    struct nic_wire_mem mem = {.head = nic_head(peer, what, queue),
                               .id = op->id,
                               .at = (uint32_t)op->moved,
                               .key = access->key,
                               .offset = access->offset,
                               .bytes = op->bytes};

    mem.head.targets_queue = op->post.req->targets_queue;
    seg->hdr.seq = peer->tx_seq++;
    seg->hdr.len = sizeof mem;
    memcpy(seg->payload, &mem, sizeof mem);
    return seg;
}

/* Note that all segments of the request were sent. */
static void request_waits(struct nic_op *op)
{
    emu_list_del(&op->post.link);
    op->state = NIC_OP_WAITING;
}

/* Note that a segment of the request with @bytes of its data was sent. */
static void request_moved(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op,
                          uint64_t bytes)
{
    op->moved += bytes;
    op->state = NIC_OP_EAGER;
    if (op->moved < op->bytes)
        return;
    nic_peer_sent(fab, peer, op->bytes);
    request_waits(op);
}

static void put_notice(const struct fabemu_notice *notice, struct emu_seg *seg)
{
    const struct nic_wire_notice wire = {.data = notice->data, .src_queue = notice->src_queue};

    memcpy(seg->payload + seg->hdr.len, &wire, sizeof wire);
    seg->hdr.len += sizeof wire;
}

/*
 * An eager put carries its data in the request, which may have several segments if there is no
 * notice. The data of a longer put follows after the CTS.
 */
static bool put_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    const struct nic_put *put = nic_put_of(op);
    bool noticed = put->has_notice;
    uint64_t most = noticed ? NIC_NOTICED_BYTES : NIC_INLINE_BYTES, left = op->bytes - op->moved;
    bool eager = op->bytes <= (noticed ? NIC_NOTICED_BYTES : NIC_PUT_EAGER);
    enum nic_what what = noticed ? (eager ? NIC_PUT_NOTICE : NIC_PUT_NOTICE_RTS)
                                 : (eager ? NIC_PUT : NIC_PUT_RTS);
    uint16_t queue = noticed ? put->notice.queue : op->post.req->target_queue;
    struct emu_seg *seg = memory_request(fab, peer, op, what, queue);

    if (!seg)
        return false;
    if (noticed)
        put_notice(&put->notice, seg);
    if (!eager) {
        request_waits(op); /* nic_stream() counts the put */
        return true;
    }
    most = left < most ? left : most;
    nic_op_read(op, seg->payload + seg->hdr.len, most);
    seg->hdr.len = (uint8_t)(seg->hdr.len + most);
    request_moved(fab, peer, op, most);
    return true;
}

static bool get_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    if (!memory_request(fab, peer, op, NIC_GET, op->post.req->target_queue))
        return false;
    request_waits(op);
    return true;
}

/* Append @bytes of operands to the request. NULL: there are none. */
static void atomic_operands(struct emu_seg *seg, const void *operands, uint64_t bytes)
{
    if (!operands)
        return;
    memcpy(seg->payload + seg->hdr.len, operands, bytes);
    seg->hdr.len = (uint8_t)(seg->hdr.len + bytes);
}

static bool atomic_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    const struct nic_atomic_access *at = nic_atomic_of(op);
    struct emu_seg *seg = nic_claim(fab, peer->node);

    if (!seg)
        return false;

    uint16_t queue = op->post.req->target_queue;
    struct nic_wire_atomic atomic = {.mem = {.head = nic_head(peer, NIC_ATOMIC, queue),
                                             .id = op->id,
                                             .key = at->access.key,
                                             .offset = at->access.offset,
                                             .bytes = op->bytes},
                                     .op = at->what,
                                     .type = at->type,
                                     .flags = op->iov[0].base ? NIC_ATOMIC_FETCH : 0};

    atomic.mem.head.targets_queue = op->post.req->targets_queue;
    seg->hdr.seq = peer->tx_seq++;
    seg->hdr.len = sizeof atomic;
    memcpy(seg->payload, &atomic, sizeof atomic);
    atomic_operands(seg, at->operand, op->bytes);
    atomic_operands(seg, at->compare, op->bytes);
    request_moved(fab, peer, op, op->bytes);
    return true;
}

/* Handle a batch whose segments were all sent: let it await a FIN or its result, or end it. */
static void batch_sent(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    const struct nic_batch_access *batch = nic_batch_of(op);
    const struct fabemu_iov result = {.base = batch->result, .bytes = batch->access.offset};

    nic_peer_sent(fab, peer, op->bytes);
    if (!op->id) {
        nic_op_end(fab, op, 0);
        return;
    }
    request_waits(op);
    if (result.bytes)
        nic_op_iov(op, &result, 1);
}

/* Send the next segment of a batch. */
static bool batch_step(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    bool begins = op->state == NIC_OP_QUEUED;
    struct emu_seg *seg = nic_claim(fab, peer->node);
    uint64_t most = begins ? NIC_INLINE_BYTES : NIC_MORE_BYTES, left = op->bytes - op->moved;
    uint64_t n = left < most ? left : most;

    if (!seg)
        return false;

    const struct nic_wire_mem mem = {.head = nic_head(peer, begins ? NIC_BATCH : NIC_BATCH_MORE, 0),
                                     .id = op->id,
                                     .key = nic_access_of(op)->key,
                                     .offset = nic_access_of(op)->offset,
                                     .bytes = op->bytes};

    seg->hdr.seq = peer->tx_seq++;
    seg->hdr.len = begins ? sizeof mem : sizeof mem.head;
    memcpy(seg->payload, &mem, seg->hdr.len);
    nic_op_read(op, seg->payload + seg->hdr.len, n);
    seg->hdr.len = (uint8_t)(seg->hdr.len + n);
    op->moved += n;
    op->state = NIC_OP_EAGER;
    if (op->moved == op->bytes)
        batch_sent(fab, peer, op);
    return true;
}

static bool send_step(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    struct nic_send *send = nic_send_of(op);
    bool begun = op->state == NIC_OP_EAGER, eager = begun || send_is_eager(fab, peer, send);

    if ((!eager || send->delivered) && !op->id && nic_op_id(fab, op)) {
        nic_op_end(fab, op, -ENOBUFS);
        return true;
    }
    if (begun ? !send_more(fab, peer, send) : !send_first(fab, peer, send, eager))
        return false;
    if (op->state == NIC_OP_EAGER && op->moved == op->bytes)
        nic_send_end(fab, op);
    return true;
}

/* Send the next segment of the request. Returns false if there is no space. */
static bool request_step(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    static bool (*const steps[NIC_OP_KINDS])(struct fabemu * fab, struct nic_peer * peer,
                                             struct nic_op * op) = {
        [NIC_OP_SEND] = send_step,        [NIC_OP_PUT] = put_request,  [NIC_OP_GET] = get_request,
        [NIC_OP_ATOMIC] = atomic_request, [NIC_OP_BATCH] = batch_step,
    };

    assert(steps[op->kind]);
    return steps[op->kind](fab, peer, op);
}

static uint32_t peer_send(struct fabemu *fab, struct nic_peer *peer)
{
    uint32_t sent = 0;

    while (sent < NIC_PEER_BURST && !emu_list_empty(&peer->sendq) && nic_peer_window(peer)) {
        if (!request_step(fab, peer, emu_list_entry(peer->sendq.next, struct nic_op, post.link)))
            break;
        sent++;
    }
    if (emu_list_empty(&peer->sendq))
        emu_list_del(&peer->ready);
    return sent;
}

void nic_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    assert(fab->locked && op->state == NIC_OP_ARMED);
    op->state = NIC_OP_QUEUED;
    emu_list_add(&peer->sendq, &op->post.link);
    if (!peer->open)
        return;
    if (!emu_listed(&peer->ready))
        emu_list_add(&fab->ready, &peer->ready);
    peer_send(fab, peer);
}

bool nic_request_now(struct fabemu *fab, struct nic_peer *peer, struct nic_send *send)
{
    return peer->open && emu_list_empty(&peer->sendq) && nic_peer_window(peer) &&
           send_first(fab, peer, send, true); /* the message is eager */
}

/* Return whether @op is a send from queue @src that can end now. */
static bool send_can_end(struct nic_op *op, uint16_t src)
{
    return op->kind == NIC_OP_SEND && nic_send_of(op)->src_queue == src &&
           (op->state == NIC_OP_QUEUED || op->state == NIC_OP_WAITING ||
            op->state == NIC_OP_STREAM);
}

static void send_cancel(struct fabemu *fab, struct nic_op *op, int status)
{
    if (op->state == NIC_OP_STREAM)
        nic_fin(fab, nic_peer(fab, op->node), op->remote, status);
    nic_op_end(fab, op, status);
}

void nic_sends_end(struct fabemu *fab, uint16_t src, int status)
{
    for (uint32_t i = 1; i < fab->slot_count; i++) {
        struct nic_op *op = fab->slots[i].op;

        if (op && send_can_end(op, src))
            send_cancel(fab, op, status);
    }
    for (uint32_t node = 0; node < fab->info.nodes; node++) {
        struct emu_list *queue = &fab->peers[node].sendq, *at, *next;

        for (at = queue->next; at && at != queue; at = next) {
            struct nic_op *op = emu_list_entry(at, struct nic_op, post.link);

            next = at->next;
            if (send_can_end(op, src))
                send_cancel(fab, op, status);
        }
    }
}

uint32_t nic_requests_send(struct fabemu *fab)
{
    uint32_t sent = 0;
    struct emu_list *last = fab->ready.prev;

    for (bool more = !emu_list_empty(&fab->ready); more;) {
        struct emu_list *at = fab->ready.next;
        struct nic_peer *peer = emu_list_entry(at, struct nic_peer, ready);

        more = at != last;
        sent += peer_send(fab, peer);
        if (emu_listed(at)) { /* move the peer to the end of the list */
            emu_list_del(at);
            emu_list_add(&fab->ready, at);
        }
    }
    return sent;
}
