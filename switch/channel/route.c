/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.c - route computation: the outputs that a packet may take.
 *
 * `plugged` is the set of outputs with a cable, and `up` is the subset whose link is up. The
 * `twins` of an output are all outputs to the same device. `onward` of an input is the set of
 * outputs that a packet from there may take. A packet that came down from a higher switch never
 * goes up again, even while the manager changes the routing tables. So all routes go up first and
 * then down, and nothing can deadlock even if switches have tables of different ages (allocate.h).
 * Source: QsNet III §III.
 */
#include "switch/channel/stages.h"

void switch_channel_update_onward(struct switch_channels *ch)
{
    for (uint32_t p = 0; p < ch->sw.ports; p++)
        ch->port[p].onward = emu_ports_has(ch->sw.ups, p) ? ch->up & ~ch->sw.ups : ch->up;
}

void switch_channel_find_cables(struct switch_channels *ch)
{
    for (uint32_t p = 0; p < ch->sw.ports; p++) {
        const struct emu_tx *tx = &ch->port[p].tx;

        if (tx->kind != EMU_LINK_LOCAL)
            continue;
        ch->plugged |= emu_port(p);
        for (uint32_t o = 0; o < ch->sw.ports; o++) {
            const struct emu_tx *other = &ch->port[o].tx;
            bool twin = other->kind == EMU_LINK_LOCAL && other->remote == tx->remote &&
                        other->peer.index == tx->peer.index &&
                        ch->port[o].rx.beyond == ch->port[p].rx.beyond;

            ch->port[p].twins |= emu_port_if(o, twin);
        }
    }
    ch->up = ch->plugged;
    switch_channel_update_onward(ch);
}

/* Return the outputs to combine unit @dst, which is at this switch or at a neighbour. */
static emu_ports route_unit(const struct switch_channels *ch, uint32_t dst)
{
    emu_ports outs = EMU_NO_PORTS;

    for (uint32_t o = 0; o < ch->sw.ports; o++)
        outs |= emu_port_if(o, ch->units.at[o] == dst);
    return outs & ch->up;
}

/*
 * Choose an output by D-mod-K: at each level, the next digit of the destination's number chooses
 * the next device, and the digit after it chooses one of the links to that device. So the switches
 * of a level spread the destinations over the devices above, and all switches choose the same
 * device for one destination. Therefore few links lead to a destination, and each link of a full
 * tree leads to equally many destinations.
 * Source: Zahavi, D-Mod-K Routing Providing Non-Blocking Traffic for Shift Permutations on Real
 * Life Fat Trees, CCIT Report 776, Technion, 2010.
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
 * Return the outputs that a packet to @dst from input @p may take. Adaptive routing avoids links
 * that are down. The other kinds rely on the routing tables, which the manager changes.
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
 * Return the outputs of the broadcast @v: all ports of its group's tree except the port at which it
 * arrived. Returns none if it arrived from outside the tree, if an input can never hold all of its
 * segments, or if a link of the tree is down. @slot: the group's index in the table of groups.
 * (The header of a packet has no generation, which would tell the group from earlier ones that had
 * this index.)
 */
static emu_ports route_broadcast(const struct switch_channels *ch, uint32_t v, uint32_t slot)
{
    const struct switch_group *group = emu_table_at(&ch->sw.groups, slot);
    emu_ports from = emu_port(v / EMU_VCS), outs;
    /* the packet comes from a port of the tree, or from this switch's own combine unit */
    bool member = group && (emu_ports_any(group->ports & from) || v / EMU_VCS == ch->units.own);

    if (!member || ch->in[v].last > ch->sw.profile->pool_slots)
        return EMU_NO_PORTS;
    outs = group->ports & ~from;
    return emu_ports_any(outs & ~ch->up) ? EMU_NO_PORTS : outs;
}

emu_ports switch_channel_route(struct switch_channels *ch, uint32_t v, const struct emu_head *head)
{
    return ch->in[v].group ? route_broadcast(ch, v, head->dst)
                           : route_candidates(ch, v / EMU_VCS, head->dst);
}
