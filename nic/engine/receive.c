/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c - packets off the links: put together, judged, answered.
 *
 * An adapter moves segments to its memory as they come, so a segment's place in the link's buffer
 * is free at once. A packet is judged with its last segment: all segments in their order, every
 * header's CRC-16, the CRC-32, the right place. What fails is answered with a NACK.
 * Source: QsNet III §III, §IV-B.
 */
#include "nic/engine/internal.h"

#define SEQ_MASK (UINT32_MAX >> ENGINE_TRY_BITS) /* sequence numbers as a tag has them */

/* --- whose numbers were heard ------------------------------------------------------------ */

/*
 * A tag has SEQ_BITS = 26 bits of a packet's number n. The receiver knows the highest number L that
 * it heard of the flow, and takes n for the one nearest to L. That is right, and no new packet is
 * taken for an old one, because n and L are never further apart than 2^25:
 *
 * A flow goes to a node, or to one group as long as that is. So each of its packets goes to the same
 * receivers, and one that is acknowledged was heard by all of them (switches merge the replies of a
 * group's members). Let A be the highest number that was acknowledged when the source gave n. Then
 * A <= L, and n - A <= ENGINE_SPAN + what its queue holds, for no packet enters a flow that is
 * further ahead (engine_flow_dead()): so n - L < 2^25. On the other side a packet that is not over is
 * less than ENGINE_WINDOW behind the next number (flow_open()), and L is behind that: L - n <
 * ENGINE_WINDOW. What is behind L by more is a late copy of a packet that is over. It would have to
 * be late by 2^25 packets of its flow to be taken for a new one; but a copy is held by channels and
 * rings alone, and these are emptied, or given up, within a few time-outs.
 *
 * Before the first number is heard, L is not known, and none can be wrong: any is new.
 */
static_assert(ENGINE_SPAN + UINT16_MAX + ENGINE_WINDOW < 1u << (31 - ENGINE_TRY_BITS),
              "numbers of a tag are told apart");

static inline uint64_t heard_bit(uint32_t seq)
{
    return emu_bit(seq % 64);
}

static inline uint64_t *heard_word(struct engine_heard *heard, uint32_t seq)
{
    return &heard->seen[seq % ENGINE_WINDOW / 64];
}

/* @seq is @ahead numbers behind the highest one so far: what lies between was not heard of yet. */
static void heard_advance(struct engine_heard *heard, uint32_t seq, uint32_t ahead)
{
    if (ahead > ENGINE_WINDOW)
        ahead = ENGINE_WINDOW;
    for (uint32_t i = 0; i < ahead; i++)
        *heard_word(heard, seq - i) &= ~heard_bit(seq - i);
    heard->last = seq;
}

/* Is @seq new in that flow? Then it is from now on not. */
static bool heard_first(struct engine_heard *heard, uint32_t src, uint32_t seq)
{
    uint32_t ahead = (seq - heard->last) & SEQ_MASK, behind = (heard->last - seq) & SEQ_MASK;

    if (!heard->from || ahead - 1 < SEQ_MASK / 2) {
        heard_advance(heard, seq, heard->from ? ahead : ENGINE_WINDOW);
        heard->from = src + 1;
    } else if (behind >= ENGINE_WINDOW || (*heard_word(heard, seq) & heard_bit(seq))) {
        return false;
    }
    *heard_word(heard, seq) |= heard_bit(seq);
    return true;
}

bool engine_heard_first(struct engine *e, const struct engine_incoming *in)
{
    const struct emu_hdr *hdr = engine_hdr(e, in->buf[0]);
    bool to_group = in->head.group;
    struct engine_group *group = to_group ? engine_group_of(e, hdr->dst) : NULL;
    struct engine_heard *heard = group      ? engine_group_heard(group, hdr->src)
                                 : to_group ? NULL
                                            : &e->heard[hdr->src];
    uint32_t key = engine_flow_key(hdr->src, to_group ? hdr->dst : in->head.dst, to_group);

    if (!heard) { /* all have left the group, or its source is none of its own */
        emu_count(&e->counts.vain, in->count);
        return false;
    }
    if (heard_first(heard, hdr->src, (in->tag ^ key) >> ENGINE_TRY_BITS))
        return true;
    emu_count(&e->counts.duplicates, 1);
    return false;
}

/* --- a packet ends ---------------------------------------------------------------------------- */

static void incoming_drop(struct engine *e, struct engine_incoming *in)
{
    for (uint32_t s = 0; s < in->segs; s++)
        emu_pool_drop(engine_cache(e), in->buf[s]);
}

void engine_answer(struct engine *e, uint32_t i, bool ack, uint64_t at_ps)
{
    struct engine_link *l = &e->link[i / EMU_CHANNELS];
    uint32_t c = i % EMU_CHANNELS;

    e->incoming[i].state = ENGINE_CLOSED;
    l->replies |= 1u << c;
    l->nacks = (l->nacks & ~(1u << c)) | (uint32_t)!ack << c;
    l->reply_tag[c] = e->incoming[i].tag;
    engine_wake(l, at_ps);
}

/* Its sender has opened the channel anew: nobody waits for a reply to what was on it. */
static void incoming_abandon(struct engine *e, uint32_t i)
{
    struct engine_incoming *in = &e->incoming[i];

    if (in->state == ENGINE_TAKEN) { /* that goes on; see engine/host.c */
        e->delivery.reply = ENGINE_NONE;
        return;
    }
    emu_count(&e->counts.abandoned, 1);
    if (in->state == ENGINE_STORED) { /* delivered, but nobody will hear of it */
        engine_list_drop(&e->stored, e->incoming_join, (uint16_t)i);
        return;
    }
    engine_list_drop(in->state == ENGINE_PARTS ? &e->parts : &e->whole, e->incoming_join,
                     (uint16_t)i);
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

/* Is a host segment with this header one for where its packet went? */
static bool segment_is_for(const struct emu_head *head, const struct emu_hdr *hdr)
{
    uint8_t kind = engine_kind(hdr);

    if (head->group)
        return kind != EMU_UNICAST && kind != EMU_REDUCE && (uint16_t)hdr->dst == head->dst;
    return kind == EMU_UNICAST ? hdr->dst == head->dst : kind != EMU_MULTICAST && kind != EMU_TEST;
}

/* Do the host segments in it make up the packet, for here, from one node? And is the CRC-32 right? */
static bool incoming_good(struct engine *e, const struct engine_incoming *in, uint32_t crc)
{
    const struct emu_head *head = &in->head;
    uint32_t src = engine_hdr(e, in->buf[0])->src;
    enum engine_class class = segment_class(engine_hdr(e, in->buf[0]));
    uint32_t payload = 0, bytes = 0;

    for (uint32_t s = 0; s < in->count; s++) {
        const struct emu_hdr *hdr = engine_hdr(e, in->buf[s]);

        if (hdr->len > EMU_PAYLOAD_BYTES || hdr->src != src || src >= e->nodes ||
            segment_class(hdr) != class || !segment_is_for(head, hdr))
            return false;
        payload = emu_crc32(payload, hdr, engine_seg_there(hdr));
        bytes += engine_seg_bytes(hdr);
    }
    return bytes == head->bytes && engine_crc(payload, in->tag, head->dst, head->group) == crc;
}

/* Segments that carry a host segment: the first ones, and at least one. 0: it is not so. */
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

/* A network conditional: the answer is the reply. */
static void incoming_test(struct engine *e, uint32_t i, uint64_t at_ps)
{
    bool agrees = engine_agrees(e, e->incoming[i].buf[0]);

    incoming_drop(e, &e->incoming[i]);
    engine_answer(e, i, agrees, at_ps);
}

/* From another adapter: for this one, not for its host. */
static void incoming_contributions(struct engine *e, uint32_t i, uint64_t at_ps)
{
    struct engine_incoming *in = &e->incoming[i];
    bool first = engine_heard_first(e, in);

    if (first)
        emu_count(&e->counts.received, 1);
    for (uint32_t s = 0; s < in->count; s++) {
        const struct emu_hdr *hdr = engine_hdr(e, in->buf[s]);
        struct engine_group *group = first ? engine_group_of(e, hdr->dst) : NULL;

        if (group)
            engine_contribute(e, group, hdr->src, in->buf[s], at_ps);
        else
            emu_pool_drop(engine_cache(e), in->buf[s]);
    }
    engine_answer(e, i, true, at_ps);
}

/* The last segment is here; @crc came with it. */
static void incoming_judge(struct engine *e, uint32_t i, uint32_t crc, uint64_t at_ps)
{
    struct engine_incoming *in = &e->incoming[i];

    in->count = incoming_count(in);
    if (in->broken || !in->count || in->segs != emu_packet_segments(in->head.bytes) ||
        !incoming_good(e, in, crc)) {
        emu_count(&e->counts.broken, 1);
        incoming_drop(e, in);
        engine_answer(e, i, false, at_ps);
        return;
    }
    if (segment_class(engine_hdr(e, in->buf[0])) == ENGINE_TEST) {
        incoming_test(e, i, at_ps);
    } else if (!in->head.group && engine_kind(engine_hdr(e, in->buf[0])) != EMU_UNICAST) {
        incoming_contributions(e, i, at_ps);
    } else {
        in->late_ps = e->late_ps;
        in->state = ENGINE_WHOLE;
        engine_list_add(&e->whole, e->incoming_join, (uint16_t)i);
        engine_deliver(e, at_ps);
    }
}

void engine_receive_due(struct engine *e, uint64_t at_ps)
{
    uint16_t i;

    while ((i = e->stored.first) != ENGINE_NONE && e->incoming[i].due_ps <= e->now_ps) {
        engine_list_drop(&e->stored, e->incoming_join, i);
        engine_answer(e, i, true, at_ps);
    }
    while ((i = e->parts.first) != ENGINE_NONE && e->incoming[i].due_ps <= e->now_ps) {
        struct engine_incoming *in = &e->incoming[i];

        engine_list_drop(&e->parts, e->incoming_join, i);
        if (in->active_ps + e->timeout_ps > e->now_ps) { /* another part came meanwhile */
            uint16_t prev = e->parts.last;

            in->due_ps = in->active_ps + e->timeout_ps;
            while (prev != ENGINE_NONE && e->incoming[prev].due_ps > in->due_ps)
                prev = e->incoming_join[prev].prev;
            engine_list_insert(&e->parts, e->incoming_join, prev, i);
            continue;
        }
        emu_count(&e->counts.abandoned, 1);
        incoming_drop(e, in);
        engine_answer(e, i, false, at_ps);
    }
}

/* --- segments ------------------------------------------------------------------------------------ */

/* The header of a segment, or of what should be the next one of packet @in. False: broken. */
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

static void segment_arrive(struct engine *e, uint32_t i, struct emu_entry *entry,
                           uint64_t at_ps)
{
    struct engine_incoming *in = &e->incoming[i];
    const struct emu_packet_hdr *hdr = &entry->packet;
    bool head = hdr->kind == EMU_PACKET_HEAD;

    if (head) {
        if (in->state != ENGINE_CLOSED)
            incoming_abandon(e, i);
        e->link[i / EMU_CHANNELS].replies &= ~(1u << i % EMU_CHANNELS);
        in->state = ENGINE_PARTS;
        in->tag = hdr->tag;
        in->broken = false;
        in->segs = 0;
        in->due_ps = e->now_ps + e->timeout_ps;
        engine_list_add(&e->parts, e->incoming_join, (uint16_t)i);
    } else if (in->state != ENGINE_PARTS || in->tag != hdr->tag) {
        emu_count(&e->counts.stale, 1);
        emu_pool_drop(engine_cache(e), entry->buf);
        return;
    }
    in->broken |= !segment_good(e, in, hdr) || in->segs == ENGINE_SEGS_MAX;
    in->active_ps = e->now_ps;
    if (in->segs == ENGINE_SEGS_MAX)
        emu_pool_drop(engine_cache(e), entry->buf);
    else
        in->buf[in->segs++] = entry->buf;
    if (!hdr->last)
        return;
    engine_list_drop(&e->parts, e->incoming_join, (uint16_t)i);
    incoming_judge(e, i, *engine_entry_crc(entry), at_ps);
}

/* The segment's place in the link's buffer is free. */
static void segment_credit(struct engine *e, struct engine_link *l, uint32_t channel,
                           uint64_t at_ps)
{
    if (e->dev.timed) {
        emu_rx_pay_channel(&l->rx, channel, at_ps + e->profile->credit_ps);
        return;
    }
    emu_credit_put(&l->rx.credit, 1, channel, 0);
    l->credited++; /* told once a burst */
}

void engine_arrive(struct engine *e, struct engine_link *l, struct emu_entry *entry,
                   enum emu_fate fate, uint64_t at_ps)
{
    const struct emu_packet_hdr *hdr = &entry->packet;
    uint32_t c = hdr->channel % EMU_CHANNELS;

    if (hdr->kind == EMU_PACKET_ACK || hdr->kind == EMU_PACKET_NACK) {
        if (fate != EMU_FATE_LOST)
            engine_reply(e, l, hdr, at_ps);
        return;
    }
    assert(hdr->kind == EMU_PACKET_HEAD || hdr->kind == EMU_PACKET_CONT);
    if (fate != EMU_FATE_TWICE)
        segment_credit(e, l, c, at_ps);
    if (fate != EMU_FATE_LOST)
        segment_arrive(e, (uint32_t)(l - e->link) * EMU_CHANNELS + c, entry, at_ps);
}
