/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c - assembles, checks and answers packets from the links.
 *
 * An adapter moves segments to its memory as they arrive, so a segment's slot in the link's buffer
 * is free immediately. When the last segment of a packet arrives, the engine checks the order of
 * its segments, the CRC-16 of every header, the CRC-32 and the destination. If one is wrong, it
 * answers with a NACK.
 * Source: QsNet III §III, §IV-B.
 */
#include "nic/engine/internal.h"

/* --- complete packets --------------------------------------------------------------- */

static void incoming_drop(struct engine *e, struct engine_incoming *in)
{
    for (uint32_t s = 0; s < in->segs; s++)
        emu_pool_drop(engine_cache(e), in->buf[s]);
}

void engine_answer(struct engine *e, uint32_t i, bool ack, uint64_t at_ps)
{
    struct engine_link *l = &e->link[i / EMU_VCS];
    uint32_t c = i % EMU_VCS;

    e->receive.incoming[i].state = ENGINE_CLOSED;
    if (e->cut >> (i / EMU_VCS) & 1)
        return; /* the link is down: no reply is possible */
    l->replies |= 1u << c;
    l->nacks = (l->nacks & ~(1u << c)) | (uint32_t)!ack << c;
    l->reply_tag[c] = e->receive.incoming[i].tag;
    engine_wake(l, at_ps);
}

/*
 * Drop the packet on this channel. Its sender has opened the channel again, and does not await a
 * reply to this packet any more.
 */
static void incoming_abandon(struct engine *e, uint32_t i)
{
    struct engine_incoming *in = &e->receive.incoming[i];

    if (in->state == ENGINE_TAKEN) { /* its delivery continues, but is not answered */
        e->host.delivery.reply = ENGINE_NONE;
        return;
    }
    emu_count(&e->counts.abandoned, 1);
    if (in->state == ENGINE_STORED) {
        /* the packet was delivered, but its sender gets no ACK */
        engine_list_drop(&e->receive.stored, e->receive.join, (uint16_t)i);
        return;
    }
    engine_list_drop(in->state == ENGINE_INCOMPLETE ? &e->receive.parts : &e->receive.complete,
                     e->receive.join, (uint16_t)i);
    incoming_drop(e, in);
}

static enum engine_class segment_class(const struct emu_hdr *hdr)
{
    switch (engine_kind(hdr)) {
    case EMU_UNICAST:
    case EMU_MULTICAST:
        return ENGINE_PLAIN;
    case EMU_TEST:
        return ENGINE_TEST;
    default:
        return ENGINE_TREE;
    }
}

/* Return whether a host segment with this header is valid for its packet's destination. */
static bool segment_is_for(const struct engine *e, const struct emu_head *head,
                           const struct emu_hdr *hdr)
{
    uint8_t kind = engine_kind(hdr);

    if (head->group) /* the packet's destination is the slot of one of the group's trees */
        return kind != EMU_UNICAST && kind != EMU_REDUCE &&
               (uint16_t)(head->dst - hdr->dst) < e->group_slots;
    return kind == EMU_UNICAST ? hdr->dst == head->dst : kind != EMU_MULTICAST && kind != EMU_TEST;
}

/*
 * Return whether the packet's host segments are valid, come from one node and are meant for the
 * packet's destination, and whether its CRC-32 is right.
 */
static bool payload_good(struct engine *e, const struct engine_incoming *in, uint32_t crc)
{
    const struct emu_head *head = &in->head;
    const struct emu_hdr *first = engine_hdr(e, in->buf[0]);
    uint32_t src = first->src, bytes = 0;

    if (src >= e->nodes || !segment_is_for(e, head, first))
        return false;
    for (uint32_t s = 0; s < in->count; s++) {
        const struct emu_hdr *hdr = engine_hdr(e, in->buf[s]);

        if (!engine_seg_is_sane(e, hdr) || hdr->src != src ||
            ((hdr->dst != first->dst || hdr->kind != first->kind) &&
             (segment_class(hdr) != segment_class(first) || !segment_is_for(e, head, hdr))))
            return false;
        bytes += engine_seg_bytes(hdr);
    }
    return bytes == head->bytes &&
           engine_crc(engine_payload_crc(e, in->buf, in->count), in->tag, head->dst, head->group,
                      e->receive.history[src].incarnation) == crc;
}

/* Return how many segments carry a host segment; 0 if these are not the first segments. */
static uint8_t incoming_count(const struct engine_incoming *in)
{
    uint8_t count = 0;

    while (count < in->segs && in->buf[count] != EMU_NO_BUF)
        count++;
    for (uint32_t s = count; s < in->segs; s++)
        if (in->buf[s] != EMU_NO_BUF)
            return 0;
    return count;
}

/* Answer a network conditional by the reply to its packet. */
static void incoming_test(struct engine *e, uint32_t i, uint64_t at_ps)
{
    bool agrees = engine_agrees(e, e->receive.incoming[i].buf[0]);

    incoming_drop(e, &e->receive.incoming[i]);
    engine_answer(e, i, agrees, at_ps);
}

/* Return how many contributions, beginning at host segment @from, have one source and group. */
static uint32_t incoming_alike(struct engine *e, const struct engine_incoming *in, uint32_t from)
{
    const struct emu_hdr *first = engine_hdr(e, in->buf[from]);
    uint32_t end = from + 1;

    for (; end < in->count && engine_hdr(e, in->buf[end])->dst == first->dst &&
           engine_hdr(e, in->buf[end])->src == first->src;
         end++)
        ;
    return end - from;
}

/* Take contributions of another adapter and combine them here. The host does not see them. */
static void incoming_contributions(struct engine *e, uint32_t i, uint64_t at_ps)
{
    struct engine_incoming *in = &e->receive.incoming[i];

    if (engine_history_first(e, in)) {
        emu_count(&e->counts.received, 1);
        for (uint32_t s = 0, run; s < in->count; s += run) {
            run = incoming_alike(e, in, s);
            engine_contribute_all(e, &in->buf[s], run, at_ps);
        }
    } else {
        for (uint32_t s = 0; s < in->count; s++)
            emu_pool_drop(engine_cache(e), in->buf[s]);
    }
    engine_answer(e, i, true, at_ps);
}

/* Deliver the packet to this node's host as soon as the host has space. */
static void incoming_deliver(struct engine *e, uint32_t i, uint64_t at_ps)
{
    struct engine_incoming *in = &e->receive.incoming[i];

    in->state = ENGINE_COMPLETE;
    engine_list_add(&e->receive.complete, e->receive.join, (uint16_t)i);
    engine_deliver(e, at_ps);
}

/*
 * Return whether the packet is complete, for this node, and undamaged. Sets in->count. @crc: from
 * its last segment.
 */
static bool incoming_good(struct engine *e, struct engine_incoming *in, uint32_t crc)
{
    in->count = incoming_count(in);
    return !in->broken && in->count && in->segs == emu_packet_segments(in->head.bytes) &&
           payload_good(e, in, crc);
}

/* Check a packet whose last segment has arrived, and pass it on. */
static void incoming_judge(struct engine *e, uint32_t i, uint32_t crc, uint64_t at_ps)
{
    struct engine_incoming *in = &e->receive.incoming[i];

    if (!incoming_good(e, in, crc)) {
        emu_count(&e->counts.broken, 1);
        incoming_drop(e, in);
        engine_answer(e, i, false, at_ps);
        return;
    }
    switch (segment_class(engine_hdr(e, in->buf[0]))) {
    case ENGINE_TEST:
        incoming_test(e, i, at_ps);
        return;
    case ENGINE_TREE:
        if (!in->head.group) { /* a result for the whole group goes to its members' hosts */
            incoming_contributions(e, i, at_ps);
            return;
        }
        break;
    case ENGINE_PLAIN:
        break;
    }
    incoming_deliver(e, i, at_ps);
}

/* Drop the packets of an ended incarnation of @src that wait for the host. */
static void incoming_forget(struct engine *e, uint32_t src, uint64_t at_ps)
{
    uint16_t i = e->receive.complete.first, next;

    for (; i != ENGINE_NONE; i = next) {
        struct engine_incoming *in = &e->receive.incoming[i];

        next = e->receive.join[i].next;
        if (engine_hdr(e, in->buf[0])->src != src)
            continue;
        emu_count(&e->counts.abandoned, 1);
        engine_list_drop(&e->receive.complete, e->receive.join, i);
        incoming_drop(e, in);
        engine_answer(e, i, false, at_ps);
    }
}

void engine_set_incarnation(struct engine *engine, uint32_t src, uint32_t incarnation,
                            uint64_t at_ps)
{
    incoming_forget(engine, src, at_ps);
    engine->receive.history[src] = (struct engine_history){.incarnation = incarnation};
    if (src == engine->node)
        engine->incarnation = incarnation;
}

/*
 * Put the packet back into the list of incomplete packets with a later due time, because another
 * segment has arrived. Most packets go to the end of the list.
 */
static void incoming_due_later(struct engine *e, uint16_t i)
{
    struct engine_receiving *receive = &e->receive;
    struct engine_incoming *in = &receive->incoming[i];
    uint16_t prev = receive->parts.last;

    in->due_ps = in->active_ps + e->rto.most_ps;
    while (prev != ENGINE_NONE && receive->incoming[prev].due_ps > in->due_ps)
        prev = receive->join[prev].prev;
    engine_list_insert(&receive->parts, receive->join, prev, i);
}

void engine_receive_due(struct engine *e, uint64_t at_ps)
{
    uint16_t i;

    while ((i = e->receive.stored.first) != ENGINE_NONE &&
           e->receive.incoming[i].due_ps <= e->now_ps) {
        engine_list_drop(&e->receive.stored, e->receive.join, i);
        engine_answer(e, i, true, at_ps);
    }
    while ((i = e->receive.parts.first) != ENGINE_NONE &&
           e->receive.incoming[i].due_ps <= e->now_ps) {
        struct engine_incoming *in = &e->receive.incoming[i];

        engine_list_drop(&e->receive.parts, e->receive.join, i);
        if (in->active_ps + e->rto.most_ps > e->now_ps) {
            incoming_due_later(e, i);
            continue;
        }
        emu_count(&e->counts.abandoned, 1);
        incoming_drop(e, in);
        engine_answer(e, i, false, at_ps);
    }
}

/* --- segments ----------------------------------------------------------------------- */

static bool segment_good(const struct engine *e, struct engine_incoming *in,
                         const struct emu_packet_hdr *hdr)
{
    struct emu_cont cont;

    if (hdr->kind == EMU_PACKET_HEAD)
        return emu_head_unpack(&in->head, hdr->head) && in->head.channel == hdr->channel &&
               (in->head.group || in->head.dst == e->node);
    return emu_cont_unpack(&cont, hdr->cont) && cont.channel == hdr->channel &&
           cont.index == in->segs && cont.last == hdr->last;
}

/*
 * Return whether this continuation, which is not the next one, is a copy of an earlier one that a
 * fault has made. A segment of another try would have another tag.
 */
static bool cont_repeats(const struct engine_incoming *in, const struct emu_packet_hdr *hdr)
{
    struct emu_cont cont;

    return hdr->kind == EMU_PACKET_CONT && emu_cont_unpack(&cont, hdr->cont) &&
           cont.channel == hdr->channel && cont.index < in->segs;
}

static void segment_stale(struct engine *e, const struct emu_entry *entry)
{
    emu_count(&e->counts.stale, 1);
    emu_pool_drop(engine_cache(e), entry->buf);
}

/* Begin a packet, whose head has arrived. The packet that was on its channel has ended. */
static void packet_begin(struct engine *e, uint32_t i, const struct emu_entry *entry)
{
    struct engine_incoming *in = &e->receive.incoming[i];

    if (in->state != ENGINE_CLOSED)
        incoming_abandon(e, i);
    e->link[i / EMU_VCS].replies &= ~(1u << i % EMU_VCS);
    in->state = ENGINE_INCOMPLETE;
    in->tag = entry->packet.tag;
    in->broken = false;
    in->segs = 0;
    in->due_ps = e->now_ps + e->rto.most_ps;
    engine_list_add(&e->receive.parts, e->receive.join, (uint16_t)i);
}

static void packet_add(struct engine *e, uint32_t i, struct emu_entry *entry, uint64_t at_ps)
{
    struct engine_incoming *in = &e->receive.incoming[i];

    if (!segment_good(e, in, &entry->packet)) {
        if (cont_repeats(in, &entry->packet)) {
            segment_stale(e, entry);
            return;
        }
        in->broken = true;
    }
    in->broken |= in->segs == ENGINE_SEGS_MAX;
    in->active_ps = e->now_ps;
    if (in->segs == ENGINE_SEGS_MAX)
        emu_pool_drop(engine_cache(e), entry->buf);
    else
        in->buf[in->segs++] = entry->buf;
    if (!entry->packet.last)
        return;
    engine_list_drop(&e->receive.parts, e->receive.join, (uint16_t)i);
    incoming_judge(e, i, entry->crc, at_ps);
}

void engine_arrive(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                   enum emu_fate fate, uint64_t at_ps)
{
    const struct emu_packet_hdr *hdr = &entry->packet;
    uint32_t i = (uint32_t)(l - e->link) * EMU_VCS + hdr->channel % EMU_VCS;

    if (fate == EMU_FATE_LOST)
        return;
    switch (hdr->kind) {
    case EMU_PACKET_ACK:
    case EMU_PACKET_NACK:
        engine_link_reply(e, l, hdr, at_ps);
        return;
    case EMU_PACKET_HEAD:
        if (e->receive.incoming[i].tag == hdr->tag) { /* a copy of the head, made by a fault */
            segment_stale(e, entry);
            return;
        }
        packet_begin(e, i, entry);
        break;
    default:
        assert(hdr->kind == EMU_PACKET_CONT);
        if (e->receive.incoming[i].state != ENGINE_INCOMPLETE ||
            e->receive.incoming[i].tag != hdr->tag) {
            segment_stale(e, entry);
            return;
        }
    }
    packet_add(e, i, entry, at_ps);
}

/* Return the second word of the header of a valid continuation of packet @in. */
static inline uint64_t cont_rest(const struct engine_incoming *in, uint32_t c, uint32_t wire,
                                 bool last)
{
    return (struct emu_packet_hdr){.tag = in->tag,
                                   .kind = EMU_PACKET_CONT,
                                   .wire = (uint8_t)(wire - 1),
                                   .channel = (uint8_t)c,
                                   .last = last}
        .rest;
}

/*
 * Take up to @most valid continuations of packet @in, on channel @c, from the front of @from.
 * Returns how many, and in *crc the CRC of the last one. Computes the common part of their headers
 * only once.
 */
static inline uint32_t run_take(struct engine_incoming *in, uint32_t c, struct emu_ring_end *from,
                                uint32_t most, uint32_t *crc)
{
    uint32_t first = in->segs, s = first, last = emu_packet_segments(in->head.bytes) - 1;
    uint32_t cont =
        emu_cont_pack(&(struct emu_cont){.channel = (uint8_t)c, .priority = in->head.priority});
    uint64_t rest = cont_rest(in, c, EMU_SEG_BYTES, false);
    uint64_t last_rest = cont_rest(in, c, emu_packet_last_wire(in->head.bytes, last + 1), true);

    for (; s - first < most && s <= last; s++) {
        const struct emu_entry *entry = emu_ring_front(from);
        uint32_t bits = s << EMU_CONT_INDEX | (s == last ? EMU_CONT_LAST : 0);

        if (!entry || entry->packet.cont != (cont ^ emu_cont_other(bits)) ||
            entry->packet.rest != (s == last ? last_rest : rest))
            break;
        in->buf[s] = entry->buf;
        *crc = entry->crc;
        emu_ring_skip(from); /* free the slot before the credit allows the sender to fill it */
    }
    in->segs = (uint8_t)s;
    return s - first;
}

uint32_t engine_arrive_run(struct engine *e, struct engine_link *l, uint32_t c, uint32_t most)
{
    uint32_t i = (uint32_t)(l - e->link) * EMU_VCS + c, run, crc = 0;
    struct engine_incoming *in = &e->receive.incoming[i];

    if (in->state != ENGINE_INCOMPLETE || in->broken)
        return 0;
    run = run_take(in, c, &l->rx.data, most, &crc);
    if (!run)
        return 0;
    in->active_ps = e->now_ps;
    emu_rx_done(&l->rx, run);
    if (in->segs == emu_packet_segments(in->head.bytes)) {
        engine_list_drop(&e->receive.parts, e->receive.join, (uint16_t)i);
        incoming_judge(e, i, crc, 0);
    }
    return run;
}
