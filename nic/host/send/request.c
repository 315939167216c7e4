/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c - what leaves the adapter, and in which turn.
 *
 * Answers first (a peer waits for them), then requests, peer by peer in post
 * order, then bulk data, transfer by transfer in short bursts that leave slots
 * of the up ring free, so that a small message waits behind little.
 */
#include "nic/host/adapter.h"

#include <stdlib.h>
#include <string.h>

/* Segments to ourselves need no fabric: they go round in memory, by the same protocol. */
static struct emu_seg *loop_claim(struct fabemu *fab)
{
    struct nic_loop *loop = fab->loop;

    if (!loop) {
        loop = fab->loop = malloc(sizeof *loop);
        if (!loop)
            return NULL;
        loop->head = loop->tail = 0;
    }
    if (loop->tail - loop->head == NIC_LOOP_SLOTS)
        return NULL;
    return &loop->seg[loop->tail++ % NIC_LOOP_SLOTS];
}

struct emu_seg *nic_claim_up(struct fabemu *fab)
{
    if (!emu_list_empty(&fab->setting) && !nic_word_flush(fab))
        return NULL;
    return emu_edge_nic_claim(&fab->edge, fab->now_ps + fab->send_ps);
}

struct emu_seg *nic_claim(struct fabemu *fab, uint32_t node)
{
    struct emu_seg *seg = node == fab->info.node ? loop_claim(fab) : nic_claim_up(fab);

    if (seg)
        seg->hdr = (struct emu_hdr){.dst = node, .src = fab->info.node, .kind = EMU_UNICAST};
    return seg;
}

bool nic_bulk_room(struct fabemu *fab)
{
    struct emu_edge_nic *edge = &fab->edge;

    if (edge->up_tail - edge->up_head < EMU_EDGE_SLOTS - NIC_RING_RESERVE)
        return true;
    edge->up_head = atomic_load_explicit(&edge->shared->up_head, memory_order_acquire); /* Y1 */
    return edge->up_tail - edge->up_head < EMU_EDGE_SLOTS - NIC_RING_RESERVE;
}

struct nic_wire_head nic_head(struct nic_peer *peer, enum nic_what what, uint16_t queue)
{
    peer->rx_told = peer->rx_next;
    peer->rx_eaten_told = peer->rx_eaten;
    return (struct nic_wire_head){.what = (uint8_t)what, .queue = queue, .check = peer->tx_check,
                                  .ack = peer->rx_next, .eaten = peer->rx_eaten};
}

/* --- answers ------------------------------------------------------------------ */

static bool answer_now(struct fabemu *fab, uint32_t dst, const void *payload, uint8_t len)
{
    struct emu_seg *seg = nic_claim(fab, dst);

    if (!seg)
        return false;
    seg->hdr.len = len;
    emu_copy(seg->payload, payload, len);
    if (seg->payload[0] == NIC_HELLO && fab->info.acknowledged && dst != fab->info.node)
        seg->hdr.kind |= EMU_TOLD; /* nic_peer_rehail() wants to know */
    return true;
}

/* Can we do without it? These are said again; a peer waits for the others, which its requests bound. */
static bool answer_may_drop(const uint8_t *payload)
{
    return payload[0] == NIC_HELLO || payload[0] == NIC_ACK || payload[0] == NIC_BYE;
}

bool nic_answer(struct fabemu *fab, struct nic_peer *peer, void *payload, size_t bytes)
{
    bool may_drop = answer_may_drop(payload);
    struct nic_ctl *ctl;

    if (emu_list_empty(&fab->ctls) && answer_now(fab, peer->node, payload, (uint8_t)bytes))
        return true;
    if (may_drop && fab->ctl_count >= NIC_CTL_MAX) {
        fab->counts.refused++;
        return false;
    }
    if (!emu_list_empty(&fab->ctl_free)) {
        ctl = emu_list_entry(fab->ctl_free.next, struct nic_ctl, link);
        emu_list_del(&ctl->link);
    } else {
        ctl = calloc(1, sizeof *ctl);
        if (!ctl) {
            fab->counts.refused++;
            return false;
        }
    }
    ctl->dst = peer->node;
    ctl->len = (uint8_t)bytes;
    memcpy(ctl->payload, payload, bytes);
    emu_list_add(&fab->ctls, &ctl->link);
    fab->ctl_count += may_drop;
    return true;
}

static uint32_t answers_send(struct fabemu *fab)
{
    uint32_t sent = 0;

    while (!emu_list_empty(&fab->ctls)) {
        struct nic_ctl *ctl = emu_list_entry(fab->ctls.next, struct nic_ctl, link);

        if (!answer_now(fab, ctl->dst, ctl->payload, ctl->len))
            break;
        emu_list_del(&ctl->link);
        emu_list_add(&fab->ctl_free, &ctl->link);
        fab->ctl_count -= answer_may_drop(ctl->payload);
        sent++;
    }
    return sent;
}

/* --- requests ------------------------------------------------------------------- */

/* Does the message go at once, or does it ask first? Decided when its turn comes. */
static bool send_is_eager(const struct fabemu *fab, const struct nic_peer *peer,
                          const struct nic_op *op)
{
    if (op->bytes <= NIC_INLINE_BYTES)
        return true;
    return op->bytes <= fab->eager_bytes &&
           peer->tx_eager - peer->tx_eaten + op->bytes <= NIC_EAGER_WINDOW;
}

/* The first segment of a message, which has an id unless it is @eager. False: no room, nothing changed. */
static bool send_first(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op, bool eager)
{
    struct emu_seg *seg = nic_claim(fab, peer->node);

    if (!seg)
        return false;

    struct nic_wire_msg msg = {.head = nic_head(peer, eager ? NIC_EAGER : NIC_RTS, op->dst_queue),
                               .src_queue = op->src_queue, .id = op->id, .tag = op->tag,
                               .data = op->data_or_ignore, .bytes = op->bytes};
    uint64_t n = !eager ? 0 : op->bytes < NIC_INLINE_BYTES ? op->bytes : NIC_INLINE_BYTES;

    seg->hdr.seq = peer->tx_seq++;
    seg->hdr.len = (uint8_t)(sizeof msg + n);
    memcpy(seg->payload, &msg, sizeof msg);
    nic_op_read(op, seg->payload + sizeof msg, n);
    if (!eager) {
        emu_list_del(&op->link);
        op->state = NIC_OP_WAITING;
        return true;
    }
    op->moved = n;
    op->state = NIC_OP_EAGER;
    if (op->bytes > NIC_INLINE_BYTES)
        peer->tx_eager += (uint32_t)op->bytes;
    return true;
}

static bool send_more(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    struct emu_seg *seg = nic_claim(fab, peer->node);

    if (!seg)
        return false;

    struct nic_wire_head head = nic_head(peer, NIC_MORE, op->dst_queue);
    uint64_t left = op->bytes - op->moved;
    uint64_t n = left < NIC_MORE_BYTES ? left : NIC_MORE_BYTES;

    seg->hdr.seq = peer->tx_seq++;
    seg->hdr.len = (uint8_t)(sizeof head + n);
    memcpy(seg->payload, &head, sizeof head);
    nic_op_read(op, seg->payload + sizeof head, n);
    op->moved += n;
    return true;
}

static bool memory_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    bool small = op->kind == NIC_OP_PUT && op->bytes <= NIC_INLINE_BYTES;
    enum nic_what what = small ? NIC_PUT : op->kind == NIC_OP_PUT ? NIC_PUT_RTS : NIC_GET;
    struct emu_seg *seg = nic_claim(fab, peer->node);

    if (!seg)
        return false;

    struct nic_wire_mem mem = {.head = nic_head(peer, what, 0), .id = op->id, .key = op->key,
                               .offset = op->offset, .bytes = op->bytes};

    seg->hdr.seq = peer->tx_seq++;
    seg->hdr.len = (uint8_t)(sizeof mem + (small ? op->bytes : 0));
    memcpy(seg->payload, &mem, sizeof mem);
    if (small) {
        nic_op_read(op, seg->payload + sizeof mem, op->bytes);
        op->moved = op->bytes;
    }
    emu_list_del(&op->link);
    op->state = NIC_OP_WAITING;
    return true;
}

static bool atomic_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    struct emu_seg *seg = nic_claim(fab, peer->node);

    if (!seg)
        return false;

    struct nic_wire_atomic atomic = {
        .mem = {.head = nic_head(peer, NIC_ATOMIC, 0), .id = op->id, .key = op->key,
                .offset = op->offset, .bytes = op->bytes},
        .op = op->atomic_op, .type = op->atomic_type,
        .flags = op->iov[0].base ? NIC_ATOMIC_FETCH : 0,
        .operand = op->operand, .compare = op->compare};

    seg->hdr.seq = peer->tx_seq++;
    seg->hdr.len = sizeof atomic;
    memcpy(seg->payload, &atomic, sizeof atomic);
    emu_list_del(&op->link);
    op->state = NIC_OP_WAITING;
    return true;
}

/* All of it is sent: complete, unless it has an id, which the receiver is to name when it has it all. */
static void send_end(struct fabemu *fab, struct nic_op *op)
{
    if (!op->id) {
        nic_op_end(fab, op, 0);
        return;
    }
    emu_list_del(&op->link);
    op->state = NIC_OP_WAITING;
}

/* One segment of the request. False: no room. */
static bool request_step(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    bool begun = op->state == NIC_OP_EAGER, eager = begun;

    if (op->kind == NIC_OP_ATOMIC)
        return atomic_request(fab, peer, op);
    if (op->kind != NIC_OP_SEND)
        return memory_request(fab, peer, op);
    if (!begun)
        eager = send_is_eager(fab, peer, op);
    if ((!eager || op->delivered) && !op->id && nic_op_id(fab, op)) {
        nic_op_end(fab, op, -ENOBUFS);
        return true;
    }
    if (begun ? !send_more(fab, peer, op) : !send_first(fab, peer, op, eager))
        return false;
    if (op->state == NIC_OP_EAGER && op->moved == op->bytes)
        send_end(fab, op);
    return true;
}

static uint32_t peer_send(struct fabemu *fab, struct nic_peer *peer)
{
    uint32_t sent = 0;

    while (sent < NIC_PEER_BURST && !emu_list_empty(&peer->sendq) && nic_peer_window(peer)) {
        if (!request_step(fab, peer, emu_list_entry(peer->sendq.next, struct nic_op, link)))
            break;
        sent++;
    }
    if (emu_list_empty(&peer->sendq))
        emu_list_del(&peer->ready);
    return sent;
}

void nic_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    if (nic_peer_begin(fab, peer, op)) {
        nic_op_end(fab, op, -EHOSTUNREACH);
        return;
    }
    op->state = NIC_OP_QUEUED;
    emu_list_add(&peer->sendq, &op->link);
    if (!peer->open) {
        nic_peer_hail(fab, peer);
        return;
    }
    if (!emu_listed(&peer->ready))
        emu_list_add(&fab->ready, &peer->ready);
    peer_send(fab, peer);
}

bool nic_request_now(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    if (!peer->open) {
        nic_peer_hail(fab, peer);
        return false;
    }
    return emu_list_empty(&peer->sendq) && nic_peer_window(peer) &&
           send_first(fab, peer, op, true); /* one segment */
}

static uint32_t requests_send(struct fabemu *fab)
{
    uint32_t sent = 0;
    struct emu_list *last = fab->ready.prev;

    for (bool more = !emu_list_empty(&fab->ready); more;) {
        struct emu_list *at = fab->ready.next;
        struct nic_peer *peer = emu_list_entry(at, struct nic_peer, ready);

        more = at != last;
        sent += peer_send(fab, peer);
        if (emu_listed(at)) { /* to the end of the round */
            emu_list_del(at);
            emu_list_add(&fab->ready, at);
        }
    }
    return sent;
}

/* --- bulk data -------------------------------------------------------------------- */

void nic_stream(struct fabemu *fab, struct nic_op *op)
{
    emu_list_del(&op->link);
    op->state = NIC_OP_STREAM;
    emu_list_add(&fab->bulk, &op->link);
}

static void stream_end(struct fabemu *fab, struct nic_op *op)
{
    if (op->kind == NIC_OP_SERVE_GET)
        nic_op_end(fab, op, 0);
    else
        send_end(fab, op);
}

static uint32_t stream_send(struct fabemu *fab, struct nic_op *op)
{
    const struct nic_peer *peer = nic_peer(fab, op->node);
    struct nic_wire_data data = {.what = NIC_DATA, .check = (uint16_t)peer->tx_check,
                                 .id = op->remote};
    uint32_t sent = 0;

    while (sent < NIC_BULK_BURST && op->moved < op->bytes && nic_bulk_room(fab)) {
        struct emu_seg *seg = nic_claim(fab, op->node);
        uint64_t left = op->bytes - op->moved;
        uint64_t n = left < NIC_DATA_BYTES ? left : NIC_DATA_BYTES;

        if (!seg)
            break;
        seg->hdr.seq = (uint32_t)(op->moved / NIC_DATA_BYTES);
        seg->hdr.len = (uint8_t)(sizeof data + n);
        memcpy(seg->payload, &data, sizeof data);
        if (op->iovs == 1)
            emu_copy(seg->payload + sizeof data, (const uint8_t *)op->iov[0].base + op->moved, n);
        else
            nic_op_read(op, seg->payload + sizeof data, n);
        op->moved += n;
        sent++;
    }
    return sent;
}

static uint32_t bulk_send(struct fabemu *fab)
{
    uint32_t sent = 0;

    for (uint32_t n = 1; n && sent < EMU_EDGE_SLOTS && !emu_list_empty(&fab->bulk); sent += n) {
        struct nic_op *op = emu_list_entry(fab->bulk.next, struct nic_op, link);

        n = stream_send(fab, op);
        emu_edge_nic_publish(&fab->edge); /* the fabric works on these while we fill the next */
        if (op->moved == op->bytes) {
            stream_end(fab, op);
        } else {
            emu_list_del(&op->link);
            emu_list_add(&fab->bulk, &op->link);
        }
    }
    return sent;
}

uint32_t nic_transmit(struct fabemu *fab)
{
    uint32_t sent = 0;

    if (!emu_list_empty(&fab->setting) && !nic_word_flush(fab))
        return 0;
    sent += answers_send(fab);
    if (!emu_list_empty(&fab->busy))
        sent += nic_group_transmit(fab);
    if (!emu_list_empty(&fab->ready))
        sent += requests_send(fab);
    if (!emu_list_empty(&fab->bulk))
        sent += bulk_send(fab);
    return sent;
}
