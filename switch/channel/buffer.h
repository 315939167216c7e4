/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * buffer.h - the buffer of each input, and the credits that return to its sender.
 *
 * A segment holds a slot of the store until no copy of its packet wants it (`hold[slot].left` is
 * 0), and then until all segments before it on its channel have left. `port->held` counts the
 * segments of an input that took a credit, at most channels + pool_slots of them; `uncredited`
 * counts those that took none, which only faults make. When a segment leaves, one credit returns
 * to the sender: on timed clocks at once; on clock raw credits of one channel are collected in
 * rx.owed, and paid at the end of the step at the latest.
 */
#ifndef SWITCH_CHANNEL_BUFFER_H
#define SWITCH_CHANNEL_BUFFER_H

#include "switch/channel/channel.h"

/* Clock raw: @count credits for segments of channel @c return to the sender at input @p. */
static inline void switch_channel_owe(struct switch_channels *ch, uint32_t p, uint32_t c,
                                      uint32_t count)
{
    struct switch_channel_port *port = &ch->port[p];

    if (port->rx.owed && port->owed_channel != c) {
        emu_rx_put_credits(&port->rx, port->rx.owed, port->owed_channel, 0);
        port->rx.owed = 0;
    }
    port->owed_channel = (uint8_t)c;
    port->rx.owed += count;
    ch->paid |= emu_port(p);
}

/* Has the input of port @p a slot for one more segment with a credit? */
static inline bool switch_channel_has_room(const struct switch_channels *ch, uint32_t p)
{
    return ch->port[p].held < ch->channels + ch->sw.profile->pool_slots;
}

/* One credit for channel @channel of input @p returns to the sender as of @at_ps. */
void switch_channel_return_credit(struct switch_channels *ch, uint32_t p, uint32_t channel,
                                  uint64_t at_ps);

/* Clock raw: all credits that are owed are paid, and the senders notified. Once a pass. */
void switch_channel_flush_credits(struct switch_channels *ch);

/* Is there a slot for one more segment at port @p? */
bool switch_channel_has_slot(const struct switch_channels *ch, uint32_t p, enum emu_fate fate);

/* A segment of the open packet @v enters at the end of its queue. Returns its slot. */
uint32_t switch_channel_append(struct switch_channels *ch, uint32_t v,
                               const struct emu_entry *entry, enum emu_fate fate);

/* The oldest segments of @v that no copy wants leave, and their credits return. */
void switch_channel_release(struct switch_channels *ch, uint32_t v, uint64_t at_ps);

/* One copy of @v does without the segments from @slot on; CHANNEL_NONE: there are none. */
void switch_channel_forgo(struct switch_channels *ch, uint32_t v, uint32_t slot, uint64_t at_ps);

/* No copy of @v wants any of its segments any more. */
void switch_channel_discard(struct switch_channels *ch, uint32_t v, uint64_t at_ps);

#endif
