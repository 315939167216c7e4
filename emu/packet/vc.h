/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vc.h - a sender's state of the virtual channels (here: channels) of a cable: which are open, and
 * how many free slots the receiver has.
 *
 * The receiver has a slot of 256 bytes per channel and a shared pool of slots (QsNet III §IV-B).
 * The first segment of a channel at the receiver uses the channel's own slot; its further segments
 * use slots of the pool. The number of open channels, which is the number of pending
 * acknowledgments, is the load that adaptive routing compares.
 *
 * A broadcast of several segments is sent only when all of its segments have slots
 * (switch/channel/allocate.h explains why). Its channel *collects* slots, which are then reserved
 * for it, and sends the head when it has enough. Only one channel at a time collects. Meanwhile no
 * other channel takes slots of the pool, so the collecting channel waits only for segments that are
 * already at the receiver.
 */
#ifndef EMU_VC_H
#define EMU_VC_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/packet.h"
#include "emu/util/bits.h"

#define EMU_POOL_SLOTS_MAX 96u /* maximum number of slots of a cable's pool */
#define EMU_VCS_KEPT_OF    8u  /* cables of at least 8 channels keep some free: emu_vcs_kept() */

/**
 * emu_vcs_kept - return how many channels of a cable with @count channels must stay free when a
 * packet of @priority opens one. They are for packets of higher priorities. Otherwise a packet of a
 * higher priority would have to wait for the reply to a long packet. Pure.
 */
static inline uint32_t emu_vcs_kept(uint32_t count, uint32_t priority)
{
    return count >= EMU_VCS_KEPT_OF && priority <= EMU_PRIORITY_LONG
               ? EMU_PRIORITY_LONG + 1 - priority
               : 0;
}

struct emu_vcs {
    uint32_t open;     /* bit per channel: open from the packet's head until its reply */
    uint32_t usable;   /* bit per channel that exists: profile->channels */
    uint32_t occupied; /* bit per channel whose `used` is not 0 */
    uint32_t paid;     /* bit per channel that has collected all slots for its segments */
    uint8_t last_opened;
    bool turns;            /* open the channels round robin; false: open the lowest closed one */
    uint8_t pool;          /* free slots of the receiver's pool; 0 while collecting */
    uint8_t collector;     /* channel that collects slots; EMU_VCS: none */
    uint8_t need;          /* slots that the collector still needs */
    uint8_t used[EMU_VCS]; /* by channel: reserved slots, and segments whose credit is not back */
    uint8_t promised[EMU_VCS]; /* by channel: slots reserved for segments not yet sent */
    uint32_t tag[EMU_VCS];     /* by open channel: the packet's tag */
};

/**
 * emu_vcs_init - close all channels. @count: channels, 1 to EMU_VCS. @pool: slots of the pool.
 * @turns: open the channels round robin. If false, only few channels are used, and their state
 * stays in the caches at both ends. On clock raw, a packet of five segments then passes a switch in
 * 0.88 of the time.
 */
static inline void emu_vcs_init(struct emu_vcs *channels, uint32_t count, uint32_t pool, bool turns)
{
    *channels = (struct emu_vcs){.usable = (uint32_t)emu_bits_below(count),
                                 .turns = turns,
                                 .collector = EMU_VCS,
                                 .pool = (uint8_t)pool};
}

/**
 * emu_vcs_open - open a channel for packet @tag and return it; -1: all are open. Prefers a channel
 * whose own slot is free: after a time-out a segment of a closed channel may still be at the
 * receiver.
 */
static inline int emu_vcs_open(struct emu_vcs *channels, uint32_t tag)
{
    uint32_t closed = channels->usable & ~channels->open;

    if (!closed)
        return -1;
    if (closed & ~channels->occupied)
        closed &= ~channels->occupied;
    channels->last_opened = (uint8_t)(channels->turns ? emu_bits_next(closed, channels->last_opened)
                                                      : emu_bits_first(closed));
    channels->open |= 1u << channels->last_opened;
    channels->tag[channels->last_opened] = tag;
    return channels->last_opened;
}

/** emu_vcs_close - close channel @c on the reply to packet @tag; return false for a stale reply. */
static inline bool emu_vcs_close(struct emu_vcs *channels, uint32_t c, uint32_t tag)
{
    if (!(channels->open >> c & 1) || channels->tag[c] != tag)
        return false;
    channels->open &= ~(1u << c);
    return true;
}

static inline uint32_t emu_vcs_pending(const struct emu_vcs *channels)
{
    return (uint32_t)__builtin_popcount(channels->open);
}

/* --- slots -------------------------------------------------------------------------- */

/** emu_vcs_room - return the channels whose next segment has a slot. Not for the collector. */
static inline uint32_t emu_vcs_room(const struct emu_vcs *channels)
{
    return channels->pool ? UINT32_MAX : ~channels->occupied | channels->paid;
}

/* Use one more slot for channel @c. A slot must be free. */
static inline void emu_vcs_take_slot(struct emu_vcs *channels, uint32_t c)
{
    channels->pool = (uint8_t)(channels->pool - (channels->used[c]++ != 0));
    channels->occupied |= 1u << c;
}

/* Reserve free slots for the collector, until it has all that it needs. */
static inline void emu_vcs_collect(struct emu_vcs *channels)
{
    uint32_t c = channels->collector;

    for (; channels->need && (!channels->used[c] || channels->pool); channels->need--) {
        emu_vcs_take_slot(channels, c);
        channels->promised[c]++;
    }
    if (channels->need)
        return;
    channels->collector = EMU_VCS;
    channels->paid |= 1u << c;
}

/** emu_vcs_room_for - return how many segments channel @c, without reserved slots, can send now. */
static inline uint32_t emu_vcs_room_for(const struct emu_vcs *channels, uint32_t c)
{
    return channels->pool + !channels->used[c];
}

/** emu_vcs_room_new - do emu_vcs_room_for() for the channel that emu_vcs_open() would open. */
static inline uint32_t emu_vcs_room_new(const struct emu_vcs *channels)
{
    return channels->pool + ((channels->usable & ~channels->open & ~channels->occupied) != 0);
}

/** emu_vcs_spend_all - use slots for @count segments of @c. @count: 1 to emu_vcs_room_for(). */
static inline void emu_vcs_spend_all(struct emu_vcs *channels, uint32_t c, uint32_t count)
{
    channels->pool = (uint8_t)(channels->pool - (count - !channels->used[c]));
    channels->used[c] = (uint8_t)(channels->used[c] + count);
    channels->occupied |= 1u << c;
}

/** emu_vcs_spend - use a free or reserved slot, which must exist, for a segment of channel @c. */
static inline void emu_vcs_spend(struct emu_vcs *channels, uint32_t c)
{
    if (!(channels->paid >> c & 1))
        emu_vcs_take_slot(channels, c);
    else if (!--channels->promised[c])
        channels->paid &= ~(1u << c);
}

static inline bool emu_vcs_has_promised(const struct emu_vcs *channels, uint32_t c, uint32_t count)
{
    return channels->paid >> c & 1 && channels->promised[c] == count;
}

/** emu_vcs_spend_promised - use reserved slots for @count (at least 1) segments of channel @c. */
static inline void emu_vcs_spend_promised(struct emu_vcs *channels, uint32_t c, uint32_t count)
{
    channels->promised[c] = (uint8_t)(channels->promised[c] - count);
    channels->paid &= ~((uint32_t)!channels->promised[c] << c);
}

/** emu_vcs_return - handle a credit that has come back for a segment of channel @c. */
static inline void emu_vcs_return(struct emu_vcs *channels, uint32_t c)
{
    channels->pool = (uint8_t)(channels->pool + (--channels->used[c] != 0));
    channels->occupied &= ~((uint32_t)!channels->used[c] << c);
    if (channels->collector != EMU_VCS)
        emu_vcs_collect(channels);
}

/**
 * emu_vcs_return_all - handle @count credits for segments of channel @c. Credits for which no
 * segment was sent are ignored; their number is returned.
 */
static inline uint32_t emu_vcs_return_all(struct emu_vcs *channels, uint32_t c, uint32_t count)
{
    uint32_t due = (uint32_t)channels->used[c] - channels->promised[c];
    uint32_t good = count < due ? count : due;
    uint32_t used = channels->used[c] - good;

    if (!good)
        return count;
    channels->used[c] = (uint8_t)used;
    channels->pool = (uint8_t)(channels->pool + good - !used);
    channels->occupied &= ~((uint32_t)!used << c);
    if (channels->collector != EMU_VCS)
        emu_vcs_collect(channels);
    return count - good;
}

/**
 * emu_vcs_collecting - return whether a channel collects slots. If so, no other one may begin to.
 */
static inline bool emu_vcs_collecting(const struct emu_vcs *channels)
{
    return channels->collector != EMU_VCS;
}

/**
 * emu_vcs_promise - begin to collect slots for the @segments segments of open channel @c. No other
 * channel may be collecting. @segments: at most the pool's slots plus 1.
 */
static inline void emu_vcs_promise(struct emu_vcs *channels, uint32_t c, uint32_t segments)
{
    channels->collector = (uint8_t)c;
    channels->need = (uint8_t)segments;
    emu_vcs_collect(channels);
}

/** emu_vcs_forget - free the reserved slots of channel @c, which will send no more segments. */
static inline void emu_vcs_forget(struct emu_vcs *channels, uint32_t c)
{
    uint32_t promised = channels->promised[c];

    if (channels->collector == c)
        channels->collector = EMU_VCS;
    channels->paid &= ~(1u << c);
    channels->promised[c] = 0;
    while (promised--)
        emu_vcs_return(channels, c);
}

#endif
