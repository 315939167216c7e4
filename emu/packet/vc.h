/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vc.h - the sending end's accounts on the virtual channels of a cable:
 * which are open, and how much room the far end has.
 *
 * The far end has a slot of 256 bytes for each channel and a pool of slots
 * that any of them may use (QsNet III §IV-B). A channel's first segment there
 * takes its own slot, the others take from the pool. How many channels are
 * open is how many acknowledgments are pending: the load that routing sees.
 *
 * A broadcast of several segments goes only where there is room for all of it
 * (switch/channel/allocate.h says why): slots are promised to its channel, and its
 * head is sent when all are. One channel collects slots at a time; meanwhile
 * nobody else takes from the pool, so it waits only for segments that are there.
 */
#ifndef EMU_VC_H
#define EMU_VC_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/packet.h"
#include "emu/util/bits.h"

#define EMU_POOL_SLOTS_MAX 96u /* of a cable's pool, at most */
#define EMU_VCS_KEPT_OF    8u  /* links of so many channels keep one for packets above bulk */

struct emu_vcs {
    uint32_t open; /* a bit a channel: from its head until its reply */
    /* a bit a channel that may be opened: profile->channels of them */
    uint32_t usable;
    uint32_t occupied;         /* a bit a channel with `used` */
    uint32_t paid;             /* a bit a channel that has collected: its segments have slots */
    uint8_t last_opened;       /* channel opened last */
    bool turns;                /* channels are opened in turn; else the lowest that is closed */
    uint8_t pool;              /* free slots of the far end's pool; collecting: 0 */
    uint8_t collector;         /* channel that collects; EMU_VCS: none */
    uint8_t need;              /* slots that it still needs */
    uint8_t used[EMU_VCS];     /* slots taken: by segments that lie at the far end, or are on */
                               /* their way there, or were promised one */
    uint8_t promised[EMU_VCS]; /* of them, for segments that were not sent yet */
    uint32_t tag[EMU_VCS];     /* of the packet on an open channel */
};

/**
 * emu_vcs_init - all closed. @count: 1 to EMU_VCS. @pool: slots.
 * @turns: whether they are opened in turn. If not, as few are in use as packets are under way, and
 * what both ends keep of these stays in the caches: on clock raw a hop of a packet of five segments
 * takes 0.88 of the time.
 */
static inline void emu_vcs_init(struct emu_vcs *channels, uint32_t count, uint32_t pool, bool turns)
{
    *channels = (struct emu_vcs){.usable = (uint32_t)emu_bits_below(count),
                                 .turns = turns,
                                 .collector = EMU_VCS,
                                 .pool = (uint8_t)pool};
}

/**
 * emu_vcs_open - open a channel for packet @tag; -1: all are open.
 * Prefers a channel whose own slot is free: after a time-out a channel may be closed while a
 * segment of its packet still lies at the far end.
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

/** emu_vcs_close - the reply to packet @tag came on channel @c; false: it is an old one. */
static inline bool emu_vcs_close(struct emu_vcs *channels, uint32_t c, uint32_t tag)
{
    if (!(channels->open >> c & 1) || channels->tag[c] != tag)
        return false;
    channels->open &= ~(1u << c);
    return true;
}

/** emu_vcs_pending - open channels: acknowledgments that are awaited. */
static inline uint32_t emu_vcs_pending(const struct emu_vcs *channels)
{
    return (uint32_t)__builtin_popcount(channels->open);
}

/* --- slots -------------------------------------------------------------------------- */

/** emu_vcs_room - channels whose next segment has a slot, by bit. One that collects has none. */
static inline uint32_t emu_vcs_room(const struct emu_vcs *channels)
{
    return channels->pool ? UINT32_MAX : ~channels->occupied | channels->paid;
}

/* One more slot is taken; there was room. */
static inline void emu_vcs_take_slot(struct emu_vcs *channels, uint32_t c)
{
    channels->pool = (uint8_t)(channels->pool - (channels->used[c]++ != 0));
    channels->occupied |= 1u << c;
}

/* The channel that collects takes what is there. */
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

/** emu_vcs_room_for - segments of channel @c, which has collected none, that have slots now. */
static inline uint32_t emu_vcs_room_for(const struct emu_vcs *channels, uint32_t c)
{
    return channels->pool + !channels->used[c];
}

/** emu_vcs_room_new - segments that have slots now, of a packet that opens a closed channel. */
static inline uint32_t emu_vcs_room_new(const struct emu_vcs *channels)
{
    return channels->pool + ((channels->usable & ~channels->open & ~channels->occupied) != 0);
}

/** emu_vcs_spend_all - @count segments of such a channel are sent, 1 or more; there was room. */
static inline void emu_vcs_spend_all(struct emu_vcs *channels, uint32_t c, uint32_t count)
{
    channels->pool = (uint8_t)(channels->pool - (count - !channels->used[c]));
    channels->used[c] = (uint8_t)(channels->used[c] + count);
    channels->occupied |= 1u << c;
}

/** emu_vcs_spend - a segment of channel @c is sent; there was room. */
static inline void emu_vcs_spend(struct emu_vcs *channels, uint32_t c)
{
    if (!(channels->paid >> c & 1))
        emu_vcs_take_slot(channels, c);
    else if (!--channels->promised[c])
        channels->paid &= ~(1u << c);
}

/** emu_vcs_has_promised - has channel @c collected, for @count segments that were not sent yet? */
static inline bool emu_vcs_has_promised(const struct emu_vcs *channels, uint32_t c, uint32_t count)
{
    return channels->paid >> c & 1 && channels->promised[c] == count;
}

/** emu_vcs_spend_promised - @count of them are sent, 1 or more. */
static inline void emu_vcs_spend_promised(struct emu_vcs *channels, uint32_t c, uint32_t count)
{
    channels->promised[c] = (uint8_t)(channels->promised[c] - count);
    channels->paid &= ~((uint32_t)!channels->promised[c] << c);
}

/**
 * emu_vcs_is_due - can there be a credit for channel @c on its way? One that cannot be is forged,
 * or one was before.
 */
static inline bool emu_vcs_is_due(const struct emu_vcs *channels, uint32_t c)
{
    return channels->used[c] > channels->promised[c];
}

/** emu_vcs_return - a credit for a segment of channel @c came back. */
static inline void emu_vcs_return(struct emu_vcs *channels, uint32_t c)
{
    channels->pool = (uint8_t)(channels->pool + (--channels->used[c] != 0));
    channels->occupied &= ~((uint32_t)!channels->used[c] << c);
    if (channels->collector != EMU_VCS)
        emu_vcs_collect(channels);
}

/**
 * emu_vcs_return_all - the same of @count credits at a time. Returns those of them that cannot be,
 * which have changed nothing.
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

/** emu_vcs_collecting - does a channel collect slots? Then no other may. */
static inline bool emu_vcs_collecting(const struct emu_vcs *channels)
{
    return channels->collector != EMU_VCS;
}

/**
 * emu_vcs_promise - open channel @c gets a slot for each of the @segments segments of its
 * packet, now or as they come back; none collects. @segments: at most 1 and the pool's slots.
 */
static inline void emu_vcs_promise(struct emu_vcs *channels, uint32_t c, uint32_t segments)
{
    channels->collector = (uint8_t)c;
    channels->need = (uint8_t)segments;
    emu_vcs_collect(channels);
}

/** emu_vcs_forget - channel @c sends nothing more, so the slots promised to it are free. */
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
