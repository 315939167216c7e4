/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vc.h - a sender's state of the virtual channels of a cable: which are open, and how many slots
 * the receiver has free.
 *
 * The receiver has a slot of 256 bytes per channel and a shared pool of slots (QsNet III §IV-B). A
 * channel's first segment there uses its own slot, the others use the pool. The number of open
 * channels is the number of pending acknowledgments: the load that adaptive routing compares.
 *
 * A broadcast of several segments is sent only where all of it has slots (switch/channel/allocate.h
 * says why): slots are reserved for its channel, and its head is sent once all are. One channel at
 * a time collects slots; meanwhile no other takes from the pool, so it waits only for segments
 * already at the receiver.
 */
#ifndef EMU_VC_H
#define EMU_VC_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/packet.h"
#include "emu/util/bits.h"

#define EMU_POOL_SLOTS_MAX 96u /* of a cable's pool at most */
#define EMU_VCS_KEPT_OF    8u  /* with that many, one is kept for packets above bulk priority */

struct emu_vcs {
    uint32_t open; /* bit per channel: from its head until its reply */
    /* bit per channel that exists: profile->channels */
    uint32_t usable;
    uint32_t occupied;         /* bit per channel with `used` */
    uint32_t paid;             /* bit per channel that has collected slots for its segments */
    uint8_t last_opened;       /* channel opened last */
    bool turns;                /* open channels round robin; else the lowest closed one */
    uint8_t pool;              /* free slots of the receiver's pool; 0 while collecting */
    uint8_t collector;         /* channel that collects slots; EMU_VCS: none */
    uint8_t need;              /* slots that it still needs */
    uint8_t used[EMU_VCS];     /* slots in use: by segments at the receiver or on */
                               /* their way, or reserved */
    uint8_t promised[EMU_VCS]; /* of those, reserved for segments not yet sent */
    uint32_t tag[EMU_VCS];     /* of the packet on an open channel */
};

/**
 * emu_vcs_init - @count: channels, 1 to EMU_VCS, all closed. @pool: slots. @turns: open them round
 * robin. If not, few channels are in use, and their state at both ends stays in the caches: on
 * clock raw a hop of a packet of five segments takes 0.88 of the time.
 */
static inline void emu_vcs_init(struct emu_vcs *channels, uint32_t count, uint32_t pool, bool turns)
{
    *channels = (struct emu_vcs){.usable = (uint32_t)emu_bits_below(count),
                                 .turns = turns,
                                 .collector = EMU_VCS,
                                 .pool = (uint8_t)pool};
}

/**
 * emu_vcs_open - open a channel for packet @tag; -1: all are open. Prefers a channel whose own slot
 * is free: after a time-out a closed channel's segment may still be at the receiver.
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

/** emu_vcs_close - close channel @c upon the reply to packet @tag. False: the reply is stale. */
static inline bool emu_vcs_close(struct emu_vcs *channels, uint32_t c, uint32_t tag)
{
    if (!(channels->open >> c & 1) || channels->tag[c] != tag)
        return false;
    channels->open &= ~(1u << c);
    return true;
}

/** emu_vcs_pending - open channels, which are pending acknowledgments. */
static inline uint32_t emu_vcs_pending(const struct emu_vcs *channels)
{
    return (uint32_t)__builtin_popcount(channels->open);
}

/* --- slots -------------------------------------------------------------------------- */

/** emu_vcs_room - bit per channel whose next segment has a slot. Not the one that collects. */
static inline uint32_t emu_vcs_room(const struct emu_vcs *channels)
{
    return channels->pool ? UINT32_MAX : ~channels->occupied | channels->paid;
}

/* Use one more slot. There is one. */
static inline void emu_vcs_take_slot(struct emu_vcs *channels, uint32_t c)
{
    channels->pool = (uint8_t)(channels->pool - (channels->used[c]++ != 0));
    channels->occupied |= 1u << c;
}

/* Give free slots to the channel that collects. */
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

/** emu_vcs_room_for - segments of channel @c, which has no reserved slots, that have slots now. */
static inline uint32_t emu_vcs_room_for(const struct emu_vcs *channels, uint32_t c)
{
    return channels->pool + !channels->used[c];
}

/** emu_vcs_room_new - segments that have slots now, of a packet on a newly opened channel. */
static inline uint32_t emu_vcs_room_new(const struct emu_vcs *channels)
{
    return channels->pool + ((channels->usable & ~channels->open & ~channels->occupied) != 0);
}

/** emu_vcs_spend_all - send @count (1 or more) segments of a channel without reserved slots. */
static inline void emu_vcs_spend_all(struct emu_vcs *channels, uint32_t c, uint32_t count)
{
    channels->pool = (uint8_t)(channels->pool - (count - !channels->used[c]));
    channels->used[c] = (uint8_t)(channels->used[c] + count);
    channels->occupied |= 1u << c;
}

/** emu_vcs_spend - send a segment of channel @c, which has a slot. */
static inline void emu_vcs_spend(struct emu_vcs *channels, uint32_t c)
{
    if (!(channels->paid >> c & 1))
        emu_vcs_take_slot(channels, c);
    else if (!--channels->promised[c])
        channels->paid &= ~(1u << c);
}

/** emu_vcs_has_promised - are slots reserved for exactly @count unsent segments of channel @c? */
static inline bool emu_vcs_has_promised(const struct emu_vcs *channels, uint32_t c, uint32_t count)
{
    return channels->paid >> c & 1 && channels->promised[c] == count;
}

/** emu_vcs_spend_promised - send @count (1 or more) of those. */
static inline void emu_vcs_spend_promised(struct emu_vcs *channels, uint32_t c, uint32_t count)
{
    channels->promised[c] = (uint8_t)(channels->promised[c] - count);
    channels->paid &= ~((uint32_t)!channels->promised[c] << c);
}

/** emu_vcs_return - a credit for a segment of channel @c came back. */
static inline void emu_vcs_return(struct emu_vcs *channels, uint32_t c)
{
    channels->pool = (uint8_t)(channels->pool + (--channels->used[c] != 0));
    channels->occupied &= ~((uint32_t)!channels->used[c] << c);
    if (channels->collector != EMU_VCS)
        emu_vcs_collect(channels);
}

/** emu_vcs_return_all - @count credits came back. Returns how many were impossible and ignored. */
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

/** emu_vcs_collecting - does a channel collect slots? Then no other may. */
static inline bool emu_vcs_collecting(const struct emu_vcs *channels)
{
    return channels->collector != EMU_VCS;
}

/**
 * emu_vcs_promise - reserve slots for the @segments segments of open channel @c, now or as they
 * become free. No other channel collects. @segments: at most 1 and the pool's slots.
 */
static inline void emu_vcs_promise(struct emu_vcs *channels, uint32_t c, uint32_t segments)
{
    channels->collector = (uint8_t)c;
    channels->need = (uint8_t)segments;
    emu_vcs_collect(channels);
}

/** emu_vcs_forget - channel @c sends nothing more: free its reserved slots. */
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
