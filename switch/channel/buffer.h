/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * buffer.h - the buffer of each input, and the credits that return to its sender.
 *
 * A segment occupies a slot of the store until all copies of its packet have sent it
 * (`hold[slot].left` is 0), and all earlier segments on its channel have left. `port->held` counts
 * the segments of an input that took a credit; there are at most channels + pool_slots.
 * `uncredited` counts segments without a credit, which only faults cause. When a segment leaves,
 * one credit returns to the sender. On timed clocks it returns immediately. On clock raw, rx.owed
 * collects the credits of one channel, and they return at the end of the step at the latest.
 */
#ifndef SWITCH_CHANNEL_BUFFER_H
#define SWITCH_CHANNEL_BUFFER_H

#include "switch/channel/channel.h"

/* Clock raw: add @count to the credits for channel @c that the input of port @p owes its sender. */
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
    ch->owing |= emu_port(p);
}

/* Return whether the input of port @p has a slot for one more segment that took a credit. */
static inline bool switch_channel_has_room(const struct switch_channels *ch, uint32_t p)
{
    return ch->port[p].held < ch->channels + ch->sw.profile->pool_slots;
}

/* Return one credit for @channel of input @p, because a slot became free at @at_ps. */
void switch_channel_return_credit(struct switch_channels *ch, uint32_t p, uint32_t channel,
                                  uint64_t at_ps);

/* Clock raw: return all credits that are owed, and notify the senders. Called once per step. */
void switch_channel_flush_credits(struct switch_channels *ch);

/*
 * Return whether there is a slot for one more segment at port @p. A duplicate (@fate) took no
 * credit, so it needs one of the slots for such segments.
 */
bool switch_channel_has_slot(const struct switch_channels *ch, uint32_t p, enum emu_fate fate);

uint32_t switch_channel_append(struct switch_channels *ch, uint32_t v,
                               const struct emu_entry *entry, enum emu_fate fate);

/* Free the slots of the oldest segments of @v that all copies have sent; return their credits. */
void switch_channel_release(struct switch_channels *ch, uint32_t v, uint64_t at_ps);

/* Note that one copy of @v will not send the segment in @slot and the queued segments after it. */
void switch_channel_forgo(struct switch_channels *ch, uint32_t v, uint32_t slot, uint64_t at_ps);

/* Drop all queued segments of @v, because no copy will send them. */
void switch_channel_discard(struct switch_channels *ch, uint32_t v, uint64_t at_ps);

#endif
