/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * whole.c - clock raw: a message's packet that is here from head to end is taken at once.
 *
 * Nearly all packets are segments of one message, for one process, full but for the last one, and
 * come as a whole: whoever sends one mostly has room for all of it (engine_link_whole()). Such a
 * packet is never "in parts", and in no list: its entries are compared with what they must say, its
 * payload is checked, the process gets it, and the reply is due. The checks are those of receive.c.
 * What does not pass, or has to wait, is left as it lies for receive.c to judge, so nothing is
 * decided here but that all is well.
 *
 * Measured: of a stream's worker, beside what engine_link_whole() and take_new() (post.c) save,
 * 10 ns of 97 a segment; done by the functions of receive.c, in a row and without their lists, it
 * was half of that. Of a message of 8 bytes 17 ns of 204.
 */
#include "nic/engine/internal.h"

/* The head at the front of a cable: segments of its packet; 0: not of one that is taken here. */
static inline uint32_t whole_head(const struct engine *e, const struct engine_incoming *in,
                                  const struct emu_packet_hdr *hdr, struct emu_head *head)
{
    uint32_t segs;

    if (in->state != ENGINE_CLOSED || in->tag == hdr->tag || !emu_head_unpack(head, hdr->head) ||
        head->channel != hdr->channel || head->group || head->dst != e->node || !head->bytes)
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
    uint64_t last_rest = whole_rest(head, tag, emu_packet_wire_bytes(head->bytes, last), true);
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

/* Is it a segment of @bytes, its header too, from @src for the process here? */
static inline bool whole_fits(const struct engine *e, const struct emu_hdr *hdr, uint32_t src,
                              uint32_t bytes)
{
    return hdr->kind == EMU_UNICAST && engine_seg_bytes(hdr) == bytes && hdr->dst == e->node &&
           hdr->src == src;
}

/* Are these full segments, and perhaps a shorter last one, and is the CRC-32 right? */
static inline bool whole_good(struct engine *e, const struct emu_head *head, uint32_t tag,
                              const uint32_t *buf, uint32_t crc)
{
    uint32_t full = head->bytes / EMU_SEG_BYTES, rest = head->bytes % EMU_SEG_BYTES;
    uint32_t src = engine_hdr(e, buf[0])->src, payload;
    const void *piece[ENGINE_SEGS_MAX];

    for (uint32_t s = 0; s < full; s++) {
        const struct emu_hdr *hdr = engine_hdr(e, buf[s]);

        if (!whole_fits(e, hdr, src, EMU_SEG_BYTES))
            return false;
        piece[s] = hdr;
    }
    if (src >= e->nodes || (rest && !whole_fits(e, engine_hdr(e, buf[full]), src, rest)))
        return false;
    payload = emu_crc32_pieces(0, piece, full);
    if (rest)
        payload = emu_crc32(payload, engine_hdr(e, buf[full]), rest);
    return engine_crc(payload, tag, head->dst, false, e->receive.heard[src].life) == crc;
}

/* It is here: its channel is free for the next one, and it is the host's if it is new. */
static void whole_take(struct engine *e, struct engine_link *l, uint32_t i, uint32_t segs)
{
    struct engine_incoming *in = &e->receive.incoming[i];

    for (uint32_t s = 0; s < segs; s++)
        emu_ring_skip(&l->rx.data); /* the slot before the credit that lets it be filled */
    emu_rx_done(&l->rx, segs);
    if (engine_heard_first(e, in)) {
        engine_deliver_at_once(e, in->buf, in->count);
    } else {
        for (uint32_t s = 0; s < in->count; s++)
            emu_pool_drop(engine_cache(e), in->buf[s]);
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

    segs = whole_head(e, in, hdr, &head);
    if (!segs || segs > most || !whole_came(l->rx.data, &head, segs, in->buf, &crc))
        return 0;
    count = (head.bytes + EMU_SEG_BYTES - 1) / EMU_SEG_BYTES;
    if (!whole_has(in->buf, count, segs) || !engine_delivers_at_once(e, count) ||
        !whole_good(e, &head, tag, in->buf, crc))
        return 0;
    in->head = head;
    in->tag = tag;
    in->count = (uint8_t)count;
    whole_take(e, l, i, segs);
    return segs;
}
