/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * requests.h - which outputs have something to send, as requests to the switch allocator.
 *
 * arrival.c, allocate.c and reply.c make requests; transmit.c serves them. For each output:
 * - `replies` has a bit for each channel of the port's input whose reply waits for the wire;
 * - `ready` has a bit for each open channel with a segment to send (its cursor is not
 *   CHANNEL_NONE), in the word of the packet's priority;
 * - `stopped` has a bit for each open channel whose packet has ever made a request, so not for
 *   packets that bypass the buffer. `input_of`, `open_of` and `served` map these to inputs.
 * An output is in `queued` while it has any request, and in `news` from the time of a request until
 * raw.c or timed.c has scheduled the output.
 */
#ifndef SWITCH_CHANNEL_REQUESTS_H
#define SWITCH_CHANNEL_REQUESTS_H

#include "switch/channel/channel.h"

static inline void switch_channel_request(struct switch_channels *ch, uint32_t o)
{
    ch->news |= emu_port(o);
    ch->queued |= emu_port(o);
}

/* A request of output @o was withdrawn or served; clear `queued` if it was the last one. */
static inline void switch_channel_unrequest(struct switch_channels *ch, uint32_t o)
{
    const struct switch_channel_port *port = &ch->port[o];
    uint32_t any = port->replies;

    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++)
        any |= port->ready[priority];
    ch->queued &= ~emu_port_if(o, !any);
}

/* The packet on channel @c of output @o, which came by input @p, has a segment to send. */
static inline void switch_channel_request_segment(struct switch_channels *ch, uint32_t o,
                                                  uint32_t c, uint32_t p, uint32_t priority)
{
    struct switch_channel_port *port = &ch->port[o];

    port->ready[priority] |= 1u << c;
    port->stopped |= 1u << c;
    port->input_of[c] = (uint8_t)p;
    port->open_of[p] |= 1u << c;
    port->served |= emu_port(p);
    switch_channel_request(ch, o);
}

/* Channel @c of output @o closes: remove it from the maps to inputs. */
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
