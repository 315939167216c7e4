/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * requests.h - which outputs have something to send. A *request* tells the switch allocator
 * (transmit.c) that an output has a segment or a reply.
 *
 * arrival.c, allocate.c and reply.c make requests; transmit.c serves them. Each output has these
 * sets:
 * - `replies`: the channels of the port's input whose replies wait for the wire;
 * - `ready`: the open channels with a segment to send (their cursors are not CHANNEL_NONE), one set
 *   per priority of the packets;
 * - `stopped`: the open channels whose packets have ever made a request. (Packets that bypass the
 *   buffer make none.) `input_of`, `open_of` and `served` map these channels to inputs.
 * An output is in the set `queued` while it has a request. It is in the set `news` from a request
 * until raw.c or timed.c has scheduled the output.
 */
#ifndef SWITCH_CHANNEL_REQUESTS_H
#define SWITCH_CHANNEL_REQUESTS_H

#include "switch/channel/channel.h"

static inline void switch_channel_request(struct switch_channels *ch, uint32_t o)
{
    ch->news |= emu_port(o);
    ch->queued |= emu_port(o);
}

/* Clear `queued` of output @o if it has no request left. */
static inline void switch_channel_unrequest(struct switch_channels *ch, uint32_t o)
{
    const struct switch_channel_port *port = &ch->port[o];
    uint32_t any = port->replies;

    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++)
        any |= port->ready[priority];
    ch->queued &= ~emu_port_if(o, !any);
}

/* Request to send a segment of the packet on channel @c of output @o, which arrived at input @p. */
static inline void switch_channel_request_segment(struct switch_channels *ch, uint32_t o,
                                                  uint32_t c, uint32_t p, uint32_t priority)
{
    struct switch_channel_port *port = &ch->port[o];

    /* This comes first, because after a shift by @c, GCC 12 with -fsanitize=undefined warns of an
       overflow. */
    port->input_of[c] = (uint8_t)p;
    port->ready[priority] |= 1u << c;
    port->stopped |= 1u << c;
    port->open_of[p] |= 1u << c;
    port->served |= emu_port(p);
    switch_channel_request(ch, o);
}

/* Channel @c of an output closes: remove it from the maps to inputs. */
static inline void switch_channel_forget_requests(struct switch_channel_port *port, uint32_t c)
{
    uint32_t p = port->input_of[c];

    if (!(port->stopped >> c & 1))
        return;
    port->stopped &= ~(1u << c);
    port->open_of[p] &= ~(1u << c);
    port->served &= ~emu_port_if(p, !port->open_of[p]);
}

#endif
