/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * whole.c - clock raw: a packet that is here from head to end is taken at once.
 *
 * Nearly all packets are segments of one message, for one process, or of one vector, for a group's
 * members or for the adapter to combine, full but for the last one, and come as a whole: whoever
 * sends one mostly has room for all of it (engine_link_whole()). Such a packet is never "in parts",
 * and in no list: its entries are compared with what they must say, its payload is checked, who it
 * is for gets it, and the reply is due. The checks are those of receive.c.
 * What does not pass, or has to wait, is left as it lies for receive.c to judge, so nothing is
 * decided here but that all is well.
 *
 * Measured: of a stream's worker, beside what engine_link_whole() and take_new() (post.c) save,
 * 10 ns of 97 a segment; done by the functions of receive.c, in a row and without their lists, it
 * was half of that. Of a message of 8 bytes 17 ns of 204. Of a broadcast, or of an all-reduce of 8
 * bytes, over 4 members 6 %.
 */
#include "nic/engine/internal.h"

/* Whose a packet is. */
enum whole_for { WHOLE_NOBODY, WHOLE_HOST, WHOLE_TREE };

/* The head at the front of a cable: segments of its packet; 0: not of one that is taken here. */
static inline uint32_t whole_head(const struct engine *e, const struct engine_incoming *in,
                                  const struct emu_packet_hdr *hdr, struct emu_head *head)
{
    uint32_t segs;

    if (in->state != ENGINE_CLOSED || in->tag == hdr->tag || !emu_head_unpack(head, hdr->head) ||
        head->channel != hdr->channel || (!head->group && head->dst != e->node) || !head->bytes)
        return 0;
    segs = emu_packet_segments(head->bytes);
    return hdr->last == (segs == 1) ? segs : 0;
}

/* What follows the first word of its continuations; of the last one. */
static inline uint64_t whole_rest(const struct emu_head *head, uint32_t tag, uint32_t wire,
                                  bool last)
{
    return (struct emu_packet_hdr){.tag = tag,
                                   .kind = EMU_PACKET_CONT,
                                   .wire = (uint8_t)(wire - 1),
                                   .channel = head->channel,
                                   .last = last}
        .rest;
}

/*
 * Has all of it come, as it should be? Its head is at the front of @from. @buf: gets the buffers,
 * @crc what came with the last segment.
 */
static inline bool whole_came(struct emu_ring_end from, const struct emu_head *head, uint32_t segs,
                              uint32_t *buf, uint32_t *crc)
{
    const struct emu_entry *entry = emu_ring_slot(&from);
    uint32_t tag = entry->packet.tag, last = segs - 1;
    uint64_t rest = whole_rest(head, tag, EMU_SEG_BYTES, false);
    uint64_t last_rest = whole_rest(head, tag, emu_packet_last_wire(head->bytes, segs), true);
    uint32_t cont =
        emu_cont_pack(&(struct emu_cont){.channel = head->channel, .priority = head->priority});
    struct emu_ring_end end = from;

    end.at += last;
    if (!emu_ring_front(&end)) /* slots are filled in order */
        return false;
    buf[0] = entry->buf;
    for (uint32_t s = 1; s < segs; s++) {
        uint32_t bits = s << EMU_CONT_INDEX | (s == last ? EMU_CONT_LAST : 0);

        from.at++;
        entry = emu_ring_slot(&from);
        if (entry->packet.cont != (cont ^ emu_cont_other(bits)) ||
            entry->packet.rest != (s == last ? last_rest : rest))
            return false;
        buf[s] = entry->buf;
    }
    *crc = entry->crc;
    return true;
}

/* Are the buffers of @count segments of @segs there, and no others? */
static inline bool whole_has(const uint32_t *buf, uint32_t count, uint32_t segs)
{
    for (uint32_t s = 0; s < segs; s++)
        if ((buf[s] != EMU_NO_BUF) != (s < count))
            return false;
    return true;
}

/* Whose is the packet with @head and this first segment? What is nobody's, receive.c judges. */
static inline enum whole_for whole_for(const struct engine *e, const struct emu_head *head,
                                       const struct emu_hdr *hdr)
{
    if (hdr->src >= e->nodes)
        return WHOLE_NOBODY;
    if (head->group)
        return (hdr->kind == EMU_MULTICAST || hdr->kind == EMU_ALLREDUCE) &&
                       (uint16_t)hdr->dst == head->dst
                   ? WHOLE_HOST
                   : WHOLE_NOBODY;
    if (hdr->kind == EMU_UNICAST)
        return hdr->dst == e->node ? WHOLE_HOST : WHOLE_NOBODY;
    return hdr->kind == EMU_REDUCE || hdr->kind == EMU_ALLREDUCE ? WHOLE_TREE : WHOLE_NOBODY;
}

/* Is it a segment of @bytes, its header too, that is what the packet's @first one is? */
static inline bool whole_fits(const struct engine *e, const struct emu_hdr *hdr,
                              const struct emu_hdr *first, uint32_t bytes)
{
    return hdr->kind == first->kind && engine_seg_bytes(hdr) == bytes && hdr->dst == first->dst &&
           hdr->src == first->src && (hdr->kind <= EMU_MULTICAST || engine_seg_is_sane(e, hdr));
}

/* Are these full segments, and perhaps a shorter last one, and is the CRC-32 right? */
static inline bool whole_good(struct engine *e, const struct emu_head *head, uint32_t tag,
                              const uint32_t *buf, uint32_t crc)
{
    uint32_t full = head->bytes / EMU_SEG_BYTES, rest = head->bytes % EMU_SEG_BYTES;
    const struct emu_hdr *first = engine_hdr(e, buf[0]);
    const void *piece[ENGINE_SEGS_MAX];
    uint32_t payload;

    for (uint32_t s = 0; s < full; s++) {
        const struct emu_hdr *hdr = engine_hdr(e, buf[s]);

        if (!whole_fits(e, hdr, first, EMU_SEG_BYTES))
            return false;
        piece[s] = hdr;
    }
    if (rest && !whole_fits(e, engine_hdr(e, buf[full]), first, rest))
        return false;
    payload = emu_crc32_pieces(0, piece, full);
    if (rest)
        payload = emu_crc32(payload, engine_hdr(e, buf[full]), rest);
    return engine_crc(payload, tag, head->dst, head->group, e->receive.heard[first->src].life) ==
           crc;
}

/* It is here: its channel is free for the next one, and it is handed over if it is new. */
static void whole_take(struct engine *e, struct engine_link *l, uint32_t i, uint32_t segs,
                       enum whole_for whose)
{
    struct engine_incoming *in = &e->receive.incoming[i];

    for (uint32_t s = 0; s < segs; s++)
        emu_ring_skip(&l->rx.data); /* the slot before the credit that lets it be filled */
    emu_rx_done(&l->rx, segs);
    if (!engine_heard_first(e, in)) {
        for (uint32_t s = 0; s < in->count; s++)
            emu_pool_drop(engine_cache(e), in->buf[s]);
    } else if (whose == WHOLE_HOST) {
        engine_deliver_at_once(e, in->buf, in->count);
    } else {
        engine_contribute_all(e, in->buf, in->count, 0);
        emu_count(&e->counts.received, 1);
    }
    engine_answer(e, i, true, 0);
}

uint32_t engine_arrive_whole(struct engine *e, struct engine_link *l, uint32_t most)
{
    const struct emu_packet_hdr *hdr = &emu_ring_slot(&l->rx.data)->packet;
    uint32_t i = (uint32_t)(l - e->link) * EMU_VCS + hdr->channel % EMU_VCS;
    struct engine_incoming *in = &e->receive.incoming[i];
    uint32_t tag = hdr->tag, segs, count, crc;
    struct emu_head head;
    enum whole_for whose;

    segs = whole_head(e, in, hdr, &head);
    if (!segs || segs > most || !whole_came(l->rx.data, &head, segs, in->buf, &crc))
        return 0;
    count = (head.bytes + EMU_SEG_BYTES - 1) / EMU_SEG_BYTES;
    if (!whole_has(in->buf, count, segs))
        return 0;
    whose = whole_for(e, &head, engine_hdr(e, in->buf[0]));
    if (whose == WHOLE_NOBODY || (whose == WHOLE_HOST && !engine_delivers_at_once(e, count)) ||
        !whole_good(e, &head, tag, in->buf, crc))
        return 0;
    in->head = head;
    in->tag = tag;
    in->count = (uint8_t)count;
    whole_take(e, l, i, segs, whose);
    return segs;
}
