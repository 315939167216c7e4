/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arrival.h - an entry has come to a port: it is checked, and enters its input's buffer.
 */
#ifndef SWITCH_CHANNEL_ARRIVAL_H
#define SWITCH_CHANNEL_ARRIVAL_H

#include "switch/channel/channel.h"

/* Take the next entry of port @p that has come by @until_ps; false: there is none. */
static inline bool switch_channel_take(struct switch_channels *ch, uint32_t p, uint64_t until_ps,
                                       struct emu_entry *entry, enum emu_fate *fate)
{
    struct switch_channel_port *port = &ch->port[p];

    return emu_rx_take(&port->rx, port->faults, &ch->sw.dev.worker->cache, until_ps, entry, fate);
}

/* @entry came to port @p at @at_ps. Its buffer reference comes with it. */
void switch_channel_arrive(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                           enum emu_fate fate, uint64_t at_ps);

#endif
