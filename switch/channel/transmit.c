/* SPDX-License-Identifier: BSD-3-Clause */
/* transmit.c - choose which channel of an output sends next, and send its segment (transmit.h). */
#include "switch/channel/transmit.h"

void switch_channel_stop_copy(struct switch_channels *ch, uint32_t w)
{
    uint32_t o = w / EMU_VCS, c = w % EMU_VCS;
    struct switch_channel_port *port = &ch->port[o];
    struct switch_channel_out *out = &ch->out[w];

    port->ready[out->priority] &= ~(1u << c);
    if (port->vcs.promised[c])
        /* other packets may use the slots that were promised to this copy */
        ch->news |= emu_port(o);
    emu_vcs_forget(&port->vcs, c);
    out->cursor = CHANNEL_NONE;
    out->ended = true;
    switch_channel_unrequest(ch, o);
}

/* --- switch allocation -------------------------------------------------------------- */

/*
 * Choose one of the channels @ready. Inputs are served round robin. The packets of one input are
 * served one after the other: the output continues with a packet as long as a segment of this
 * packet may be sent. With round robin by segments, all packets would end later and occupy their
 * channels longer. With random traffic, 8 packets outstanding and 2 levels, the links would then be
 * used to 81 % instead of 85 %.
 */
static uint32_t transmit_next(struct switch_channels *ch, uint32_t o, uint32_t ready)
{
    struct switch_channel_port *port = &ch->port[o];
    struct switch_channel_pair *pair;
    uint32_t p = port->last_input, own = ready;

    if (emu_bits_several(ready)) {
        do {
            p = emu_ports_next(port->served, p);
            own = port->open_of[p] & ready;
        } while (!own);
    } else {
        p = port->input_of[emu_bits_first(ready)];
    }
    port->last_input = (uint8_t)p;
    pair = switch_channel_pair(ch, o, p);
    if (!emu_bits_several(own)) { /* last_sent is not read, to avoid a cache miss */
        pair->last_sent = (uint8_t)emu_bits_first(own);
        return emu_bits_first(own);
    }
    if (!(own >> pair->last_sent & 1)) /* otherwise the same packet continues */
        pair->last_sent = (uint8_t)emu_bits_next(own, pair->last_sent);
    return pair->last_sent;
}

/* Return the channel that sends next; EMU_VCS: none may send. */
static uint32_t transmit_pick(struct switch_channels *ch, uint32_t o)
{
    const struct switch_channel_port *port = &ch->port[o];
    uint32_t room = emu_vcs_room(&port->vcs);

    for (uint32_t priority = EMU_PRIORITIES; priority--;)
        if (port->ready[priority] & room)
            return transmit_next(ch, o, port->ready[priority] & room);
    return EMU_VCS;
}

/* --- the wire ----------------------------------------------------------------------- */

static inline void transmit_depart(struct switch_channels *ch, uint32_t o, struct emu_entry *entry,
                                   uint64_t at_ps)
{
    struct emu_tx *tx = &ch->port[o].tx;

    if (!ch->timing) { /* the entries are published at the end of the burst */
        emu_tx_send(tx, entry);
        return;
    }
    emu_tx_depart_packet(tx, entry, at_ps);
    emu_tx_flush(tx);
    ch->timing->busy_ps[o] = tx->busy_ps;
}

static void transmit_reply(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    struct switch_channel_port *port = &ch->port[o];
    uint32_t c = emu_bits_next(port->replies, port->last_reply);
    struct switch_channel_in *in = &ch->in[o * EMU_VCS + c];
    struct emu_entry entry = {.packet.rest = switch_channel_reply_rest(in, c, port->nacks >> c & 1),
                              .buf = EMU_NO_BUF};

    port->last_reply = (uint8_t)c;
    port->replies &= ~(1u << c);
    switch_channel_unrequest(ch, o);
    in->state = CHANNEL_CLOSED;
    if (in->group && at_ps < port->reply_ps[c])
        at_ps = port->reply_ps[c];
    transmit_depart(ch, o, &entry, at_ps);
}

/* Move the cursor of copy @w past the segment in @slot, and spend its credit. */
static inline void transmit_advance(struct switch_channels *ch, uint32_t w, uint32_t slot)
{
    uint32_t o = w / EMU_VCS, c = w % EMU_VCS;
    struct switch_channel_port *port = &ch->port[o];
    struct switch_channel_out *out = &ch->out[w];

    out->tick = ch->tick;
    if (slot != ch->in[out->from].queue.last) {
        out->cursor = ch->store.next[slot];
    } else {
        out->cursor = CHANNEL_NONE;
        port->ready[out->priority] &= ~(1u << c);
        switch_channel_unrequest(ch, o);
    }
    emu_vcs_spend(&port->vcs, c);
}

/* End copy @w, which has sent its last segment. Free slots that were promised to lost segments. */
static inline void transmit_end(struct switch_channels *ch, uint32_t w, uint64_t at_ps)
{
    ch->out[w].ended = true;
    if (!ch->port[w / EMU_VCS].vcs.promised[w % EMU_VCS])
        return;
    switch_channel_stop_copy(ch, w);
    switch_channel_grant(ch, w / EMU_VCS, at_ps);
}

static void transmit_segment(struct switch_channels *ch, uint32_t o, uint32_t c, uint64_t at_ps)
{
    uint32_t w = o * EMU_VCS + c;
    uint32_t v = ch->out[w].from;
    uint32_t slot = ch->out[w].cursor;
    struct emu_entry entry = ch->store.slot[slot];

    at_ps = switch_no_sooner(at_ps, &entry);
    switch_channel_relabel(ch, &entry.packet, v % EMU_VCS, c);
    transmit_advance(ch, w, slot);
    transmit_depart(ch, o, &entry, at_ps);
    if (entry.packet.last)
        transmit_end(ch, w, at_ps);
    if (!--ch->hold[slot].left)
        switch_channel_release(ch, v, at_ps);
}

/*
 * Send through output @o. Credits are taken only if the pool has no slots left. While it has slots,
 * every ready channel may send, and no broadcast *collects* slots (channel.h). So more credits
 * would change nothing.
 */
bool switch_channel_transmit(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    struct switch_channel_port *port = &ch->port[o];
    uint32_t c;

    if (!port->vcs.pool)
        switch_channel_take_credits(ch, o, at_ps);
    if (port->replies) {
        transmit_reply(ch, o, at_ps);
    } else {
        c = transmit_pick(ch, o);
        if (c == EMU_VCS)
            return false;
        transmit_segment(ch, o, c, at_ps);
    }
    return true;
}
