/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choose.h - the choice among outputs, and a channel of the one chosen: route.c says when. Inline,
 * for who goes through (through.c).
 */
#ifndef SWITCH_CHANNEL_CHOOSE_H
#define SWITCH_CHANNEL_CHOOSE_H

#include "switch/channel/channel.h"
#include "switch/policy/policy.h"

/* Of @outs, those on which nothing goes and nothing waits to go. */
static inline emu_ports switch_channel_idle(struct switch_channels *ch, emu_ports outs,
                                            uint64_t at_ps)
{
    outs &= ~ch->queued;
    if (ch->timing)
        emu_each_port (o, outs)
            outs &= ~emu_port_if(o, ch->timing->busy_ps[o] > at_ps);
    return outs;
}

/* Lightly loaded are links without activity that wait for few replies. */
static inline uint32_t switch_channel_choose(struct switch_channels *ch, emu_ports outs,
                                             uint64_t at_ps)
{
    if (!emu_ports_several(outs))
        return emu_ports_first(outs);
    return route_choose(&ch->sw, outs, switch_channel_idle(ch, outs & ch->light, at_ps));
}

/* Packet @v opens a channel of output @o, which has one. Returns the channel. */
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

#endif
