/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * whole.c - clock raw: a packet of a stream that is here from head to end is taken at once.
 *
 * Of a long message nearly all packets are full segments for one process, and come as a whole, for
 * whoever sends the next one has room for all of it (engine_link_whole()). Such a packet is never
 * "in parts", and in no list: its entries are compared with what they must say, its payload is
 * checked, the process gets it, and the reply is due. The checks are those of receive.c. What does
 * not pass, or has to wait, is left as it lies for receive.c to judge, so nothing is decided here
 * but that all is well.
 *
 * Measured: of a stream's worker, beside what engine_link_whole() and take_new() (post.c) save,
 * 10 ns of 97 a segment; done by the functions of receive.c, in a row and without their lists, it
 * was half of that.
 */
#include "nic/engine/internal.h"

/* The head at the front of a cable: segments of its packet; 0: not of one that is taken here. */
static inline uint32_t whole_head(const struct engine *e, const struct engine_incoming *in,
                                  const struct emu_packet_hdr *hdr, struct emu_head *head)
{
    if (in->state != ENGINE_CLOSED || in->tag == hdr->tag || hdr->last ||
        !emu_head_unpack(head, hdr->head) || head->channel != hdr->channel || head->group ||
        head->dst != e->node || !head->bytes || head->bytes % EMU_SEG_BYTES)
        return 0;
    return emu_packet_segments(head->bytes);
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

/* Are these full segments of one process for the one here, and is the CRC-32 right? */
static inline bool whole_good(struct engine *e, const struct emu_head *head, uint32_t tag,
                              const uint32_t *buf, uint32_t count, uint32_t crc)
{
    const void *piece[ENGINE_SEGS_MAX];
    uint32_t src = engine_hdr(e, buf[0])->src;

    for (uint32_t s = 0; s < count; s++) {
        const struct emu_hdr *hdr = engine_hdr(e, buf[s]);

        if (hdr->kind != EMU_UNICAST || hdr->len != EMU_PAYLOAD_BYTES || hdr->dst != e->node ||
            hdr->src != src)
            return false;
        piece[s] = hdr;
    }
    return src < e->nodes && engine_crc(emu_crc32_pieces(0, piece, count), tag, head->dst, false,
                                        e->receive.heard[src].life) == crc;
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
    if (!segs || segs > most || !engine_delivers_at_once(e, segs) ||
        !whole_came(l->rx.data, &head, segs, in->buf, &crc))
        return 0;
    count = head.bytes / EMU_SEG_BYTES;
    if (!whole_has(in->buf, count, segs) || !whole_good(e, &head, tag, in->buf, count, crc))
        return 0;
    in->head = head;
    in->tag = tag;
    in->count = (uint8_t)count;
    whole_take(e, l, i, segs);
    return segs;
}
