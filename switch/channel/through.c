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

/* Is this the very continuation that comes next on channel @c, whose packet is @in? */
static inline bool through_next(const struct switch_channel_in *in, uint32_t c,
                                const struct emu_packet_hdr *hdr)
{
    bool last = in->index == in->last;
    uint32_t cont = emu_cont_pack(&(struct emu_cont){
        .channel = (uint8_t)c, .priority = in->priority, .index = in->index, .last = last});

    return hdr->kind == EMU_PACKET_CONT && hdr->channel == c && hdr->tag == in->tag &&
           hdr->cont == cont && hdr->last == last &&
           hdr->wire == (last ? in->last_wire : EMU_SEG_BYTES - 1);
}

/* Those at the front of port @p's cable that come next on channel @c: up to @most go on. */
static uint32_t through_run(struct switch_channels *ch, uint32_t p, uint32_t c, uint32_t most)
{
    struct switch_channel_in *in = &ch->in[p * EMU_VCS + c];
    struct emu_tx *tx = &ch->port[in->copies / EMU_VCS].tx;
    struct emu_rx *rx = &ch->port[p].rx;
    const struct emu_entry *entry;
    uint32_t to = in->copies % EMU_VCS, sent = 0;

    while (sent < most && (entry = emu_rx_front(rx, 0)) && through_next(in, c, &entry->packet) &&
           emu_tx_has_slot(tx)) {
        through_send(ch, tx, c, to, entry);
        in->index++;
        emu_rx_skip(rx); /* the slot before the credit that lets it be filled */
        sent++;
    }
    return sent;
}

uint32_t switch_channel_through(struct switch_channels *ch, uint32_t p, uint32_t most)
{
    struct switch_channel_port *port = &ch->port[p];
    const struct emu_entry *entry = emu_rx_front(&port->rx, 0);
    uint32_t c = entry ? entry->packet.channel % EMU_VCS : 0, sent;
    struct switch_channel_in *in = &ch->in[p * EMU_VCS + c];
    uint32_t w = in->copies, o = w / EMU_VCS;

    if (!entry || entry->packet.kind != EMU_PACKET_CONT || !through_may(in) ||
        in->index > in->last || !through_open(ch, o))
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
