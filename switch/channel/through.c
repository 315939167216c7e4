/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * through.c - clock raw: what does not stop at this switch.
 *
 * Raw has no time. A segment of a unicast packet that finds nothing waiting at its output, and room
 * beyond it, would leave in the pass in which it came: it goes from one cable's ring to the next,
 * and never lies in the store. So does a reply. Checks, room, credits, counters and what is kept of
 * channels are those of any segment. Where something waits, all that comes waits behind it
 * (route.c, output.c), so turns and priorities are not passed by.
 *
 * Continuations mostly come several at a time, for a link sends packet by packet. Each must be the
 * very word that comes next on its channel, so its CRC-16 is compared, not computed twice, and what
 * they have in common is looked up once. What is not as expected is for input.c to judge.
 */
#include "switch/channel/channel.h"

/* Does nothing wait at output @o, and is there a slot on its cable? */
static inline bool through_open(const struct switch_channels *ch, uint32_t o)
{
    const struct emu_tx *tx = &ch->port[o].tx;

    return !((ch->queued | ch->sw.stuck) >> o & 1) && tx->shape == EMU_LINK_LOCAL &&
           emu_tx_has_slot(tx);
}

/* Segments that channel @c of output @o, at which nothing waits, has room for; @wanted of them. */
static inline uint32_t through_room(struct switch_channels *ch, uint32_t o, uint32_t c,
                                    uint32_t wanted)
{
    const struct emu_vcs *vcs = &ch->port[o].vcs;

    if (emu_vcs_room_for(vcs, c) < wanted) {
        switch_channel_take_credits(ch, o, 0);
        if (ch->queued >> o & 1) /* a packet got its turn by that */
            return 0;
    }
    return emu_vcs_room_for(vcs, c) < wanted ? emu_vcs_room_for(vcs, c) : wanted;
}

/* Has the packet @in one copy, whose channel is open, and nothing waiting here? */
static inline bool through_may(const struct switch_channel_in *in)
{
    return in->state == CHANNEL_OPEN && in->copies != CHANNEL_NONE && !in->queued && !in->group;
}

/* One goes by channel @c of output @o, from channel @from of its input. */
static inline void through_send(struct switch_channels *ch, struct emu_tx *tx, uint32_t from,
                                uint32_t c, const struct emu_entry *entry)
{
    struct emu_entry *slot = emu_tx_slot(tx);

    slot->packet = entry->packet;
    slot->buf = entry->buf;
    slot->crc = entry->crc;
    switch_channel_relabel(ch, &slot->packet, from, c);
    emu_tx_show(tx, 0);
}

bool switch_channel_pass(struct switch_channels *ch, uint32_t v, const struct emu_entry *entry)
{
    const struct switch_channel_in *in = &ch->in[v];
    uint32_t w = in->copies, o = w / EMU_VCS, c = w % EMU_VCS;

    if (!through_may(in) || !through_open(ch, o) || !through_room(ch, o, c, 1))
        return false;
    ch->out[w].tick = ch->tick;
    ch->out[w].ended = entry->packet.last;
    emu_vcs_spend_all(&ch->port[o].vcs, c, 1);
    through_send(ch, &ch->port[o].tx, v % EMU_VCS, c, entry);
    ch->news |= emu_bit(o); /* its receiver is to be told */
    return true;
}

bool switch_channel_pass_reply(struct switch_channels *ch, uint32_t v)
{
    uint32_t p = v / EMU_VCS, c = v % EMU_VCS;
    struct switch_channel_in *in = &ch->in[v];
    struct emu_entry entry;

    if (!through_open(ch, p))
        return false;
    in->state = CHANNEL_CLOSED;
    entry = switch_channel_reply(in, c, in->nack);
    emu_tx_send(&ch->port[p].tx, &entry);
    ch->news |= emu_bit(p);
    return true;
}

/* What a continuation's header says beside its index, on channel @c, whose packet is @in. */
static inline struct emu_packet_hdr through_cont(const struct switch_channel_in *in, uint32_t c,
                                                 bool last)
{
    return (struct emu_packet_hdr){.tag = in->tag,
                                   .kind = EMU_PACKET_CONT,
                                   .wire = last ? in->last_wire : EMU_SEG_BYTES - 1,
                                   .channel = (uint8_t)c,
                                   .last = last};
}

/*
 * Those at the front of port @p's cable that come next on channel @c: up to @most go on. All that
 * stays the same is in variables of its own: 60 instructions a segment, else 130.
 */
static uint32_t through_run(struct switch_channels *ch, uint32_t p, uint32_t c, uint32_t most)
{
    struct switch_channel_in *in = &ch->in[p * EMU_VCS + c];
    struct emu_tx *tx = &ch->port[in->copies / EMU_VCS].tx;
    struct emu_rx *rx = &ch->port[p].rx;
    struct emu_ring_end from = rx->data, to = tx->data;
    uint32_t by = in->copies % EMU_VCS, relabel = switch_channel_relabel_cont(ch, c, by);
    uint64_t here = through_cont(in, c, false).rest, there = through_cont(in, by, false).rest;
    struct emu_cont cont = {.channel = (uint8_t)c, .priority = in->priority, .index = in->index};
    uint32_t sent = 0, last = in->last;
    const struct emu_entry *entry;

    for (; sent < most && (entry = emu_ring_front(&from)) && emu_ring_has_slot(&to); sent++) {
        struct emu_entry *slot = emu_ring_slot(&to);
        uint32_t word;

        if (cont.index == last) {
            cont.last = true;
            here = through_cont(in, c, true).rest;
            there = through_cont(in, by, true).rest;
        }
        word = emu_cont_pack(&cont);
        if (entry->packet.cont != word || entry->packet.rest != here)
            break;
        slot->packet.head = word ^ relabel;
        slot->packet.rest = there;
        slot->buf = entry->buf;
        slot->crc = entry->crc;
        emu_ring_show(emu_ring_next(&to), 0);
        emu_ring_skip(&from); /* the slot before the credit that lets it be filled */
        cont.index++;
    }
    in->index = cont.index;
    rx->data = from;
    emu_tx_sent(tx, &to, sent);
    return sent;
}

uint32_t switch_channel_through(struct switch_channels *ch, uint32_t p, uint32_t most)
{
    struct switch_channel_port *port = &ch->port[p];
    const struct emu_entry *entry = emu_ring_front(&port->rx.data);
    uint32_t c = entry->packet.channel % EMU_VCS, sent;
    struct switch_channel_in *in = &ch->in[p * EMU_VCS + c];
    uint32_t w = in->copies, o = w / EMU_VCS;

    if (!through_may(in) || in->index > in->last || !through_open(ch, o))
        return 0;
    sent = in->last - in->index + 1u;
    sent = through_room(ch, o, w % EMU_VCS, sent < most ? sent : most);
    if (sent)
        sent = through_run(ch, p, c, sent);
    if (!sent)
        return 0;
    in->tick = ch->out[w].tick = ch->tick;
    in->whole = ch->out[w].ended = in->index > in->last;
    emu_vcs_spend_all(&ch->port[o].vcs, w % EMU_VCS, sent);
    emu_rx_done(&port->rx, sent);
    emu_rx_put_credits(&port->rx, sent, c, 0);
    ch->paid |= emu_bit(p);
    ch->news |= emu_bit(o);
    return sent;
}
