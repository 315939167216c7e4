/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.c - where a packet goes: candidates, the choice among them, and
 * a channel there or a turn to wait for one.
 *
 * Nobody waits for an output that has a channel to give (but a packet that has to collect slots,
 * while another one does there): so who comes never passes who waits. Who waits is served by
 * priority; then those that collect and the others take turns, so neither starves the other; and
 * among each, round robin over inputs and their channels. A link of EMU_VCS_KEPT_OF channels or
 * more keeps its last one for packets above bulk, which otherwise would wait for a bulk packet's
 * reply.
 *
 * Why nothing deadlocks. As in input/fifo.c, cables can be put in an order such that every packet
 * takes them in that order: the ways up, by level, then the ways down. Take a cable X from S, a
 * switch or a node, to F, and assume that each open channel of cables after X is closed at some
 * time. Then:
 * (1) What lies at F leaves. It waits for a channel after X: one is closed, and given in turn. Then
 *     for slots there, which come back by (1) on that cable.
 * (2) A unicast packet, or a broadcast of one segment, needs one slot at F at a time: its channel's
 *     own, which is free when its segment before has left. It has one on every cable of its way: so
 *     all of it comes.
 * (3) A broadcast's segment leaves F only after its last copy. Sent as in (2), a copy would wait
 *     for its siblings' slots and for its own rest, which waits for slots that others hold who wait
 *     for the copy. So from its source on a broadcast of several segments is sent only into slots
 *     that it has, for all of it (emu/packet/vc.h): once they are promised nothing stops it before
 *     F. Those it collects are held by segments at F, which leave (1), and by promises to packets
 *     that nothing stops. Others on X do not take them meanwhile, and go on as in (2).
 * (4) Each copy opens its channel, collects and goes alone. What waits for all copies are the slots
 *     and the channel of the cable *into* S, and that is before them all.
 * (5) So the last segment comes to F and is answered in the end. A reply needs no slot, and no turn
 *     but that of the wire: the channel of X is closed. From the last cables backwards all are.
 * One channel and no pool are enough, but for broadcasts of more segments than a channel's slot and
 * the pool hold: they can never be sent so, and get a NACK.
 * Source: QsNet III §III (the choice), §IV-A (broadcasts); the promises are ours.
 */
#include "switch/channel/choose.h"

/* Combine units are asked for here, or one switch further. */
static emu_ports route_unit(const struct switch_channels *ch, uint32_t dst)
{
    emu_ports outs = EMU_NO_PORTS;

    for (uint32_t o = 0; o < ch->sw.ports; o++)
        outs |= emu_port_if(o, ch->units.at[o] == dst);
    return outs & ch->up;
}

/*
 * D-mod-K: digits of the destination's number choose, at each level the next one, the device to go
 * to and then the link to it. So the switches of a level share out the destinations among the
 * devices above, and all of those for one destination agree: it is reached by few links, and each
 * link of a full tree leads to equally many. Source: Zahavi, D-Mod-K Routing Providing Non-Blocking
 * Traffic for Shift Permutations on Real Life Fat Trees, CCIT Report 776, Technion, 2010.
 */
static uint32_t route_static(const struct switch_channels *ch, emu_ports outs, uint32_t dst)
{
    uint32_t digits = dst / switch_route(&ch->sw)->spread;
    emu_ports firsts = EMU_NO_PORTS; /* one link to each device */
    uint32_t devices;

    for (emu_ports left = outs; emu_ports_any(left); left &= ~ch->port[emu_ports_first(left)].twins)
        firsts |= emu_port(emu_ports_first(left));
    devices = emu_ports_count(firsts);
    outs &= ch->port[emu_ports_nth(firsts, digits % devices)].twins;
    return emu_ports_nth(outs, digits / devices % emu_ports_count(outs));
}

/*
 * The outputs that a packet to @dst from input @p may take. Adaptive routing sees at once which
 * links are down; the others rely on their tables, which the manager edits.
 */
static emu_ports route_candidates(struct switch_channels *ch, uint32_t p, uint32_t dst)
{
    emu_ports onward = ch->port[p].onward;
    emu_ports outs;

    if (dst >= ch->units.first)
        return route_unit(ch, dst);
    outs = topo_route_ports(switch_route(&ch->sw), dst);
    switch (ch->sw.profile->routing) {
    case EMU_ROUTING_STATIC:
        outs &= ch->plugged;
        return onward & (emu_ports_several(outs) ? emu_port(route_static(ch, outs, dst)) : outs);
    case EMU_ROUTING_OBLIVIOUS:
        outs &= ch->plugged;
        return onward &
               (emu_ports_several(outs) ? emu_port(route_random.pick(&ch->sw.choice, outs)) : outs);
    case EMU_ROUTING_ADAPTIVE:
        break;
    }
    return outs & onward;
}

/*
 * The outputs of the broadcast @v: all ports of its group's tree but the one that it came by. None
 * if it came from outside the tree, if an input can never hold all of its segments, or if a link of
 * the tree is down. @slot: the group's place in the table of groups; a header says no more of it.
 */
static emu_ports route_broadcast(const struct switch_channels *ch, uint32_t v, uint32_t slot)
{
    const struct switch_group *group = emu_table_at(&ch->sw.groups, slot);
    emu_ports from = emu_port(v / EMU_VCS), outs;
    bool member = group && (emu_ports_any(group->ports & from) || /* or from the unit here */
                            v / EMU_VCS == ch->units.own);

    if (!member || ch->in[v].last > ch->sw.profile->pool_slots)
        return EMU_NO_PORTS;
    outs = group->ports & ~from;
    return emu_ports_any(outs & ~ch->up) ? EMU_NO_PORTS : outs;
}

/* Does the packet need slots at the far end for all of its segments before its first one goes? */
static bool route_collects(const struct switch_channel_in *in)
{
    return in->group && in->last;
}

/* Packet @v gets a channel of output @o, which has one. */
static void route_open(struct switch_channels *ch, uint32_t v, uint32_t o, uint64_t at_ps)
{
    struct switch_channel_port *port = &ch->port[o];
    struct switch_channel_in *in = &ch->in[v];
    uint32_t c = switch_channel_open(ch, v, o);

    if (route_collects(in)) {
        switch_channel_take_credits(ch, o, at_ps);
        emu_vcs_promise(&port->vcs, c, in->last + 1u);
    }
    if (in->queued)
        switch_channel_stopped(ch, o, c, v / EMU_VCS, in->priority);
}

/* May packet @v open a channel of output @o now? */
static bool route_may_open(const struct switch_channels *ch, uint32_t v, uint32_t o)
{
    const struct switch_channel_in *in = &ch->in[v];

    if (!emu_ports_has(ch->openable[in->priority != 0], o))
        return false;
    return !route_collects(in) || !emu_vcs_collecting(&ch->port[o].vcs);
}

/* Packet @v waits for a channel of @outs. */
static void route_wait(struct switch_channels *ch, uint32_t v, emu_ports outs)
{
    uint32_t p = v / EMU_VCS, c = v % EMU_VCS;

    ch->in[v].wants = outs;
    if (!emu_ports_any(outs))
        return;
    ch->port[p].of_priority[ch->in[v].priority] |= 1u << c;
    ch->port[p].collect |= (uint32_t)route_collects(&ch->in[v]) << c;
    ch->waiting[ch->in[v].priority]++;
    emu_each_port (o, outs) {
        switch_channel_pair(ch, o, p)->waiting |= 1u << c;
        ch->port[o].waiters |= emu_port(p);
    }
}

void switch_channel_unwait_for(struct switch_channels *ch, uint32_t v, emu_ports outs)
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

void switch_channel_unwait(struct switch_channels *ch, uint32_t v)
{
    switch_channel_unwait_for(ch, v, ch->in[v].wants);
}

static void route_all(struct switch_channels *ch, uint32_t v, emu_ports outs, uint64_t at_ps)
{
    emu_ports wants = EMU_NO_PORTS;

    ch->in[v].unsettled = (uint8_t)emu_ports_count(outs);
    emu_each_port (o, outs) {
        if (route_may_open(ch, v, o))
            route_open(ch, v, o, at_ps);
        else
            wants |= emu_port(o);
    }
    route_wait(ch, v, wants);
}

static void route_one(struct switch_channels *ch, uint32_t v, emu_ports outs, uint64_t at_ps)
{
    emu_ports openable = outs & ch->openable[ch->in[v].priority != 0];

    ch->in[v].unsettled = 1;
    if (emu_ports_any(openable))
        route_open(ch, v, switch_channel_choose(ch, openable, at_ps), at_ps);
    else
        route_wait(ch, v, outs);
}

void switch_channel_route(struct switch_channels *ch, uint32_t v, const struct emu_head *head,
                          uint64_t at_ps)
{
    struct switch_channel_in *in = &ch->in[v];
    emu_ports outs = in->group ? route_broadcast(ch, v, head->dst)
                               : route_candidates(ch, v / EMU_VCS, head->dst);

    if (!emu_ports_any(outs)) {
        emu_count(&ch->sw.counts.refused, 1);
        if (!in->group)
            switch_trap(&ch->sw, head->dst);
        in->state = CHANNEL_DRAINED;
        in->nack = true;
    } else if (in->group) {
        emu_count(&ch->sw.counts.multicasts, emu_ports_several(outs));
        route_all(ch, v, outs, at_ps);
    } else {
        route_one(ch, v, outs, at_ps);
    }
}

/* Of input @p, channels whose packets wait for output @o, and collect slots or do not. */
static uint32_t route_waiting(const struct switch_channels *ch, uint32_t o, uint32_t p,
                              uint32_t priority, bool collects)
{
    const struct switch_channel_port *port = &ch->port[p];

    return switch_channel_pair(ch, o, p)->waiting & port->of_priority[priority] &
           (collects ? port->collect : ~port->collect);
}

/* Of those that wait for output @o, and collect slots or do not, the next in turn; CHANNEL_NONE. */
static uint32_t route_next_of(struct switch_channels *ch, uint32_t o, uint32_t priority,
                              bool collects)
{
    struct switch_channel_port *port = &ch->port[o];

    for (emu_ports left = port->waiters; emu_ports_any(left);) {
        uint32_t p = emu_ports_next(left, port->last_grant[collects]);
        uint32_t channels = route_waiting(ch, o, p, priority, collects);
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
 * The packet that is next in turn for a channel of output @o; CHANNEL_NONE: nobody may have one.
 * Those that collect slots and the others take turns; who may not collect yet keeps the turn.
 */
static uint32_t route_next(struct switch_channels *ch, uint32_t o)
{
    struct switch_channel_port *port = &ch->port[o];

    for (uint32_t priority = EMU_PRIORITIES; priority--;) {
        bool turn = port->collects >> priority & 1;

        if (!ch->waiting[priority] || !emu_ports_has(ch->openable[priority != 0], o))
            continue;
        for (uint32_t other = 0; other < 2; other++) {
            bool collects = turn ^ other;
            uint32_t v = collects && emu_vcs_collecting(&port->vcs)
                             ? CHANNEL_NONE
                             : route_next_of(ch, o, priority, collects);

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
    while (emu_ports_any(ch->port[o].waiters) && emu_ports_has(ch->openable[1], o)) {
        uint32_t v = route_next(ch, o);

        if (v == CHANNEL_NONE)
            return;
        switch_channel_unwait_for(ch, v, ch->in[v].group ? emu_port(o) : ch->in[v].wants);
        route_open(ch, v, o, at_ps);
    }
}
