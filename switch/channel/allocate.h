/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * allocate.h - virtual channel allocation: a packet gets a channel of its output, or waits for one.
 *
 * A packet *collects* slots if slots at the remote end must be promised to all its segments before
 * it sends the first. A packet waits for an output only if the output has no channel to give, or if
 * it would have to collect slots while another packet does so. So a new packet never overtakes a
 * waiting one. Waiting packets are served by priority. Within a priority, packets that collect
 * slots alternate with the others, so neither starves. Each of these two kinds is served round
 * robin over inputs and their channels. Long packets leave some channels of a link to higher
 * priorities (emu_vcs_kept()).
 *
 * Invariants:
 * - `openable` and `light` follow `pending`, the number of open channels of each output.
 * - `wants` of a packet is the set of outputs for which it waits. `waiting` of each pair of ports,
 *   `waiters` of the output, `of_priority` and `collect` of the input, and ch->waiting follow from
 *   `wants` of all packets.
 * - `unsettled` of a broadcast counts its copies and the outputs that it wants.
 *
 * Why nothing deadlocks: as in input/fifo.c, the cables can be ordered so that every packet takes
 * them in that order. Cables that lead upwards come first, by level, then cables that lead
 * downwards. Take a cable X from S, a switch or a node, to F, and assume that each open channel of
 * the cables after X closes at some time. Then:
 * (1) Every segment in the buffer at F leaves. Its packet may have to wait until a channel of a
 *     cable after X closes, or until several do, if a packet of its priority must leave some
 *     channels free. Channels of that cable close, and are granted in turn. (If packets of higher
 *     priorities take them again and again, the packet gets a NACK: reply.c.) Then the packet waits
 *     for slots, which come back because of (1) on that cable.
 * (2) A unicast packet, or a broadcast of one segment, needs one slot at F at a time: its channel's
 *     own, which is free when its previous segment has left. It has such a slot on every cable of
 *     its path, so the whole packet arrives.
 * (3) A segment of a broadcast leaves F only when its last copy does. If a broadcast of several
 *     segments were sent as in (2), a copy would wait for the slots of the other copies and for its
 *     own remaining segments. These would wait for slots of other packets, which in turn would wait
 *     for the copy. So such a broadcast is sent only into slots that were promised to it, for all
 *     its segments at once (emu/packet/vc.h), and nothing stops it before F. A slot that it still
 *     needs is either used by a segment at F, which leaves by (1), or promised to a packet that
 *     nothing stops. Meanwhile other packets on X do not take these slots, and go on as in (2).
 * (4) Each copy opens its channel, collects its slots and leaves independently. Only the slots and
 *     the channel of the cable *into* S wait for all copies, and that cable comes before the cables
 *     of the copies.
 * (5) So the last segment arrives at F and gets a reply in the end. A reply needs no slot, only the
 *     wire, so the channel of X closes. By induction from the last cables backwards, all channels
 *     close.
 * A packet takes the cables of each tree of a group in this order, too. So this holds for any
 * number of trees.
 * It holds even if a link has only one channel, and no slots that its channels share (the pool).
 * One exception: a broadcast of more segments than a channel's slot and the pool can hold can never
 * be sent, and gets a NACK.
 * Source: QsNet III, §III for the choice of an output, §IV-A for broadcasts. The promises of slots
 * are not from the paper.
 */
#ifndef SWITCH_CHANNEL_ALLOCATE_H
#define SWITCH_CHANNEL_ALLOCATE_H

#include "switch/channel/requests.h"
#include "switch/policy/policy.h"

/* Return the subset of @outs whose wire is free and that have nothing to send. */
static inline emu_ports switch_channel_idle(struct switch_channels *ch, emu_ports outs,
                                            uint64_t at_ps)
{
    outs &= ~ch->queued;
    if (ch->timing)
        emu_each_port (o, outs)
            outs &= ~emu_port_if(o, ch->timing->busy_ps[o] > at_ps);
    return outs;
}

/* Choose one of @outs. An output that is idle and has few open channels is lightly loaded. */
static inline uint32_t switch_channel_choose(struct switch_channels *ch, emu_ports outs,
                                             uint64_t at_ps)
{
    if (!emu_ports_several(outs))
        return emu_ports_first(outs);
    return route_choose(&ch->sw, outs, switch_channel_idle(ch, outs & ch->light, at_ps));
}

/*
 * Update `light` and `openable` for a change of `pending` of @o by 1. @pending: the larger one of
 * the old and the new value.
 */
static inline void switch_channel_count(struct switch_channels *ch, uint32_t o, uint32_t pending)
{
    ch->light ^= emu_port_if(o, pending == ch->light_pending);
    for (uint32_t priority = 0; priority < CHANNEL_OPENABLES; priority++)
        ch->openable[priority] ^= emu_port_if(o, pending == ch->most_open[priority]);
}

static inline void switch_channel_opened(struct switch_channels *ch, uint32_t o)
{
    uint32_t pending = ch->port[o].pending + 1u;

    __atomic_store_n(&ch->port[o].pending, (uint8_t)pending,
                     __ATOMIC_RELAXED); /* switch_queued() reads it */
    ch->open++;
    switch_channel_count(ch, o, pending);
}

/* Update the counts of output @o, whose channel @c has closed. */
static inline void switch_channel_closed(struct switch_channels *ch, uint32_t o, uint32_t c)
{
    struct switch_channel_port *port = &ch->port[o];
    uint32_t pending = port->pending;

    switch_channel_forget_requests(port, c);
    switch_channel_count(ch, o, pending);
    ch->open--;
    __atomic_store_n(&port->pending, (uint8_t)(pending - 1), __ATOMIC_RELAXED);
}

/* Open a channel of output @o, which must have one free, for packet @v. Returns the channel. */
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
 * Give the packet @v a channel of one of @outs, or if it is a broadcast, of each of them. If a
 * channel is missing, make the packet wait for it. @outs: not empty.
 */
void switch_channel_allocate(struct switch_channels *ch, uint32_t v, emu_ports outs,
                             uint64_t at_ps);

/* Grant the free channels of output @o to packets that wait for them. */
void switch_channel_grant(struct switch_channels *ch, uint32_t o, uint64_t at_ps);

/* Make the packet @v stop waiting for channels of @outs. */
void switch_channel_stop_waiting_for(struct switch_channels *ch, uint32_t v, emu_ports outs);

/*
 * Take the credits of output @o that have returned by @at_ps; on clock raw, all credits. If a
 * packet has then collected all its slots, grant channels, because the next packet may collect.
 */
void switch_channel_take_credits(struct switch_channels *ch, uint32_t o, uint64_t at_ps);

#endif
