/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allocate.h - virtual channel allocation: a packet gets a channel of its output, or waits for one.
 *
 * A packet never waits for an output that has a channel to give, except that a packet that collects
 * slots waits while another one does so. So a packet that comes never passes one that waits.
 * Packets that wait are served by priority; then those that collect slots and the others take
 * turns, so neither starves the other; and among each, round robin over inputs and their channels.
 * A link of EMU_VCS_KEPT_OF channels or more keeps its last one for packets above bulk, which
 * otherwise would wait for a bulk packet's reply.
 *
 * What must hold:
 * - `openable` and `light` follow `pending`, the number of open channels of each output.
 * - `wants` of a packet are the outputs that it waits for. `waiting` of each pair of ports,
 *   `waiters` of the output, `of_priority` and `collect` of the input, and ch->waiting agree.
 * - The copies of a broadcast and the outputs that it wants are `unsettled` together.
 *
 * Why nothing deadlocks. As in input/fifo.c, cables can be put in an order such that every packet
 * takes them in that order: the links up, by level, then the links down. Take a cable X from S, a
 * switch or a node, to F, and assume that each open channel of the cables after X is closed at some
 * time. Then:
 * (1) Every segment in the buffer at F leaves. Its packet waits for a channel of a cable after X:
 *     one is closed, and granted in turn. Then it waits for slots there, which come back because of
 *     (1) on that cable.
 * (2) A unicast packet, or a broadcast of one segment, needs one slot at F at a time: its channel's
 *     own, which is free when its previous segment has left. It has one on every cable of its path,
 *     so the whole packet arrives.
 * (3) A segment of a broadcast leaves F only when its last copy does. Sent as in (2), a copy would
 *     wait for the slots of its siblings and for its own remaining segments, and these for slots of
 *     other packets, which in turn wait for the copy. So a broadcast of several segments is sent
 *     only into slots that were promised to it, for all its segments at once (emu/packet/vc.h):
 *     then nothing stops it before F. While it collects, its slots are held by segments at F, which
 *     leave by (1), and by promises to packets that nothing stops. Other packets on X do not take
 *     these slots meanwhile, and go on as in (2).
 * (4) Each copy opens its channel, collects its slots and leaves independently. Only the slots and
 *     the channel of the cable *into* S wait for all copies, and that cable comes before theirs.
 * (5) So the last segment arrives at F, and is answered in the end. A reply needs no slot, only its
 *     turn on the wire, so the channel of X is closed. By induction from the last cables backwards
 *     all channels are.
 * One channel and no pool are enough, except for a broadcast of more segments than a channel's slot
 * and the pool hold: it can never be sent this way, and gets a NACK.
 * Source: QsNet III §III (the choice), §IV-A (broadcasts); the promises are ours.
 */
#ifndef SWITCH_CHANNEL_ALLOCATE_H
#define SWITCH_CHANNEL_ALLOCATE_H

#include "switch/channel/requests.h"
#include "switch/policy/policy.h"

/* Of @outs, those that send nothing and have nothing to send. */
static inline emu_ports switch_channel_idle(struct switch_channels *ch, emu_ports outs,
                                            uint64_t at_ps)
{
    outs &= ~ch->queued;
    if (ch->timing)
        emu_each_port (o, outs)
            outs &= ~emu_port_if(o, ch->timing->busy_ps[o] > at_ps);
    return outs;
}

/* One of @outs. Lightly loaded are outputs that are idle and have few open channels. */
static inline uint32_t switch_channel_choose(struct switch_channels *ch, emu_ports outs,
                                             uint64_t at_ps)
{
    if (!emu_ports_several(outs))
        return emu_ports_first(outs);
    return route_choose(&ch->sw, outs, switch_channel_idle(ch, outs & ch->light, at_ps));
}

/* The number of open channels of output @o has become @pending, or was @pending until now. */
static inline void switch_channel_count(struct switch_channels *ch, uint32_t o, uint32_t pending)
{
    ch->light ^= emu_port_if(o, pending == ch->light_pending);
    ch->openable[0] ^= emu_port_if(o, pending == ch->bulk);
    ch->openable[1] ^= emu_port_if(o, pending == ch->channels);
}

/* One more channel of output @o is open. */
static inline void switch_channel_opened(struct switch_channels *ch, uint32_t o)
{
    uint32_t pending = ch->port[o].pending + 1u;

    __atomic_store_n(&ch->port[o].pending, (uint8_t)pending,
                     __ATOMIC_RELAXED); /* switch_queued() */
    ch->open++;
    switch_channel_count(ch, o, pending);
}

/* Channel @c of output @o is open no more. */
static inline void switch_channel_closed(struct switch_channels *ch, uint32_t o, uint32_t c)
{
    struct switch_channel_port *port = &ch->port[o];
    uint32_t pending = port->pending;

    switch_channel_forget_requests(port, c);
    switch_channel_count(ch, o, pending);
    ch->open--;
    __atomic_store_n(&port->pending, (uint8_t)(pending - 1), __ATOMIC_RELAXED);
}

/* Packet @v opens a channel of output @o, which has one to give. Returns the channel. */
static inline uint32_t switch_channel_open(struct switch_channels *ch, uint32_t v, uint32_t o)
{
    struct switch_channel_in *in = &ch->in[v];
    uint32_t c = (uint32_t)emu_vcs_open(&ch->port[o].vcs, in->tag);
    uint32_t w = o * EMU_VCS + c;

    ch->out[w] = (struct switch_channel_out){.from = (uint16_t)v,
                                             .next = in->copies,
                                             .tick = ch->tick,
                                             .priority = in->priority,
                                             .cursor = in->queued ? in->queue.first : CHANNEL_NONE};
    in->copies = (uint16_t)w;
    switch_channel_opened(ch, o);
    return c;
}

/*
 * The packet @v gets a channel of one of @outs, or of each of them if it is a broadcast, or waits
 * for these. @outs: not empty.
 */
void switch_channel_allocate(struct switch_channels *ch, uint32_t v, emu_ports outs,
                             uint64_t at_ps);

/* Channels of output @o may have become free: grant them to packets that wait, in turn. */
void switch_channel_grant(struct switch_channels *ch, uint32_t o, uint64_t at_ps);

/* The packet @v waits for no output any more; for none of @outs. */
void switch_channel_stop_waiting(struct switch_channels *ch, uint32_t v);
void switch_channel_stop_waiting_for(struct switch_channels *ch, uint32_t v, emu_ports outs);

/*
 * Take the credits of output @o that came by @at_ps; clock raw: all. If a packet has now collected
 * all its slots, the next one may, so channels are granted.
 */
void switch_channel_take_credits(struct switch_channels *ch, uint32_t o, uint64_t at_ps);

#endif
