/* SPDX-License-Identifier: BSD-3-Clause */
/* allocate.c - virtual channel allocation (allocate.h). */
#include "switch/channel/allocate.h"

/* Take the credits of output @o that have returned by @at_ps; on clock raw, all credits. */
static void allocate_take_credits(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    struct switch_channel_port *port = &ch->port[o];
    const struct emu_credit *back;

    while ((back = emu_credit_front(&port->tx.credit)) && back->time_ps <= at_ps) {
        uint32_t bad = emu_vcs_return_all(&port->vcs, back->channel % EMU_VCS, back->count);

        emu_credit_skip(&port->tx.credit);
        if (__builtin_expect(bad != 0, 0))
            emu_count(&ch->sw.counts.bad, bad);
    }
}

/* Return whether a packet *collects* slots: it needs one for each segment before it sends any. */
static bool allocate_collects(const struct switch_channel_in *in)
{
    return in->group && in->last;
}

/* Give packet @v a channel of output @o, which must have one free. */
static void allocate_open(struct switch_channels *ch, uint32_t v, uint32_t o, uint64_t at_ps)
{
    struct switch_channel_port *port = &ch->port[o];
    struct switch_channel_in *in = &ch->in[v];
    uint32_t c = switch_channel_open(ch, v, o);

    if (allocate_collects(in)) {
        allocate_take_credits(ch, o, at_ps);
        emu_vcs_promise(&port->vcs, c, in->last + 1u);
    }
    if (in->queued)
        switch_channel_request_segment(ch, o, c, v / EMU_VCS, in->priority);
}

static bool allocate_may_open(const struct switch_channels *ch, uint32_t v, uint32_t o)
{
    const struct switch_channel_in *in = &ch->in[v];

    if (!emu_ports_has(switch_channel_openable(ch, in->priority), o))
        return false;
    return !allocate_collects(in) || !emu_vcs_collecting(&ch->port[o].vcs);
}

/* --- a packet has arrived ----------------------------------------------------------- */

static void allocate_wait(struct switch_channels *ch, uint32_t v, emu_ports outs)
{
    uint32_t p = v / EMU_VCS, c = v % EMU_VCS;

    ch->in[v].wants = outs;
    if (!emu_ports_any(outs))
        return;
    ch->port[p].of_priority[ch->in[v].priority] |= 1u << c;
    ch->port[p].collect |= (uint32_t)allocate_collects(&ch->in[v]) << c;
    ch->waiting[ch->in[v].priority]++;
    emu_each_port (o, outs) {
        switch_channel_pair(ch, o, p)->waiting |= 1u << c;
        ch->port[o].waiters |= emu_port(p);
    }
}

void switch_channel_stop_waiting_for(struct switch_channels *ch, uint32_t v, emu_ports outs)
{
    struct switch_channel_in *in = &ch->in[v];
    uint32_t p = v / EMU_VCS, c = v % EMU_VCS;

    in->wants &= ~outs;
    if (emu_ports_any(outs) && !emu_ports_any(in->wants)) {
        ch->port[p].of_priority[in->priority] &= ~(1u << c);
        ch->port[p].collect &= ~(1u << c);
        ch->waiting[in->priority]--;
    }
    emu_each_port (o, outs) {
        struct switch_channel_pair *pair = switch_channel_pair(ch, o, p);

        pair->waiting &= ~(1u << c);
        ch->port[o].waiters &= ~emu_port_if(p, !pair->waiting);
    }
}

static void allocate_all(struct switch_channels *ch, uint32_t v, emu_ports outs, uint64_t at_ps)
{
    emu_ports wants = EMU_NO_PORTS;

    ch->in[v].unsettled = (uint8_t)emu_ports_count(outs);
    emu_each_port (o, outs) {
        if (allocate_may_open(ch, v, o))
            allocate_open(ch, v, o, at_ps);
        else
            wants |= emu_port(o);
    }
    allocate_wait(ch, v, wants);
}

static void allocate_one(struct switch_channels *ch, uint32_t v, emu_ports outs, uint64_t at_ps)
{
    emu_ports openable = outs & switch_channel_openable(ch, ch->in[v].priority);

    ch->in[v].unsettled = 1;
    if (emu_ports_any(openable))
        allocate_open(ch, v, switch_channel_choose(ch, openable, at_ps), at_ps);
    else
        allocate_wait(ch, v, outs);
}

void switch_channel_allocate(struct switch_channels *ch, uint32_t v, emu_ports outs, uint64_t at_ps)
{
    if (ch->in[v].group)
        allocate_all(ch, v, outs, at_ps);
    else
        allocate_one(ch, v, outs, at_ps);
}

/* --- a channel is free -------------------------------------------------------------- */

/*
 * Return the channels of input @p whose packets have this priority and wait for output @o.
 * @collects: only packets that collect slots; otherwise only packets that do not.
 */
static uint32_t allocate_waiting(const struct switch_channels *ch, uint32_t o, uint32_t p,
                                 uint32_t priority, bool collects)
{
    const struct switch_channel_port *port = &ch->port[p];

    return switch_channel_pair(ch, o, p)->waiting & port->of_priority[priority] &
           (collects ? port->collect : ~port->collect);
}

/* Return the next packet, by round robin, that waits for output @o; CHANNEL_NONE if none does. */
static uint32_t allocate_next_of(struct switch_channels *ch, uint32_t o, uint32_t priority,
                                 bool collects)
{
    struct switch_channel_port *port = &ch->port[o];

    for (emu_ports left = port->waiters; emu_ports_any(left);) {
        uint32_t p = emu_ports_next(left, port->last_grant[collects]);
        uint32_t channels = allocate_waiting(ch, o, p, priority, collects);
        uint8_t *last = &switch_channel_pair(ch, o, p)->last_grant[collects];

        if (channels) {
            port->last_grant[collects] = (uint8_t)p;
            *last = (uint8_t)emu_bits_next(channels, *last);
            return p * EMU_VCS + *last;
        }
        left &= ~emu_port(p);
    }
    return CHANNEL_NONE;
}

/*
 * Return the packet that gets the next channel of output @o, or CHANNEL_NONE if no packet may have
 * one. Within a priority, packets that collect slots alternate with the others. If the next packet
 * may not collect yet, because another packet is collecting, it keeps its turn, and packets that do
 * not collect go first.
 */
static uint32_t allocate_next(struct switch_channels *ch, uint32_t o)
{
    struct switch_channel_port *port = &ch->port[o];

    for (uint32_t priority = EMU_PRIORITIES; priority--;) {
        bool first = port->collects >> priority & 1;

        if (!ch->waiting[priority] || !emu_ports_has(switch_channel_openable(ch, priority), o))
            continue;
        for (uint32_t other = 0; other < 2; other++) {
            bool collects = first ^ other;
            uint32_t v = collects && emu_vcs_collecting(&port->vcs)
                             ? CHANNEL_NONE
                             : allocate_next_of(ch, o, priority, collects);

            if (v == CHANNEL_NONE)
                continue;
            port->collects ^= (uint8_t)((uint32_t)!other << priority);
            return v;
        }
    }
    return CHANNEL_NONE;
}

void switch_channel_grant(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    while (emu_ports_any(ch->port[o].waiters) &&
           emu_ports_has(switch_channel_openable(ch, EMU_PRIORITIES - 1), o)) {
        uint32_t v = allocate_next(ch, o);

        if (v == CHANNEL_NONE)
            return;
        switch_channel_stop_waiting_for(ch, v, ch->in[v].group ? emu_port(o) : ch->in[v].wants);
        allocate_open(ch, v, o, at_ps);
    }
}

void switch_channel_take_credits(struct switch_channels *ch, uint32_t o, uint64_t at_ps)
{
    const struct emu_vcs *vcs = &ch->port[o].vcs;
    bool collecting = emu_vcs_collecting(vcs);

    allocate_take_credits(ch, o, at_ps);
    if (collecting && !emu_vcs_collecting(vcs))
        switch_channel_grant(ch, o, at_ps);
}
