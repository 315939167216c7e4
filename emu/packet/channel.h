/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h - the sending end's books on the virtual channels of a cable:
 * which are open, and how much room the far end has.
 *
 * The far end has a place of 256 bytes for each channel and a pool of places
 * that any of them may use (QsNet III §IV-B). A channel's first segment there
 * takes its own place, the others take from the pool. How many channels are
 * open is how many acknowledgments are pending: the load that routing sees.
 *
 * A broadcast of several segments goes only where there is room for all of it
 * (switch/channel/route.c says why): places are promised to its channel, and its
 * head is sent when all are. One channel collects places at a time; meanwhile
 * nobody else takes from the pool, so it waits only for segments that are there.
 */
#ifndef EMU_CHANNEL_H
#define EMU_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/bits.h"
#include "emu/packet/packet.h"

#define EMU_POOL_PLACES_MAX  64u /* of a cable's pool, at most */
#define EMU_CHANNELS_KEPT_OF 8u  /* links of so many channels keep one for packets above bulk */

struct emu_channels {
    uint32_t open;                /* a bit a channel: from its head until its reply */
    uint32_t usable;              /* a bit a channel that may be opened: profile->channels of them */
    uint32_t occupied;            /* a bit a channel with `used` */
    uint32_t paid;                /* a bit a channel that has collected: its segments have places */
    uint8_t turn;                 /* channel opened last */
    uint8_t pool;                 /* free places of the far end's pool; collecting: 0 */
    uint8_t collector;            /* channel that collects; EMU_CHANNELS: none */
    uint8_t need;                 /* places that it still needs */
    uint8_t used[EMU_CHANNELS];   /* places taken: by segments that lie at the far end, or are on */
                                  /* their way there, or were promised one */
    uint8_t promised[EMU_CHANNELS]; /* of them, for segments that were not sent yet */
    uint32_t tag[EMU_CHANNELS];   /* of the packet on an open channel */
};

/** emu_channels_init - all closed. @count: 1 to EMU_CHANNELS. @pool: places. */
static inline void emu_channels_init(struct emu_channels *channels, uint32_t count, uint32_t pool)
{
    *channels = (struct emu_channels){.usable = (uint32_t)emu_bits_below(count),
                                      .collector = EMU_CHANNELS, .pool = (uint8_t)pool};
}

/**
 * emu_channels_open - open the next free channel for packet @tag; -1: all are open.
 * Prefers a channel whose own slot is free: after a time-out a channel may be closed while a
 * segment of its packet still lies at the far end.
 */
static inline int emu_channels_open(struct emu_channels *channels, uint32_t tag)
{
    uint32_t closed = channels->usable & ~channels->open;

    if (!closed)
        return -1;
    if (closed & ~channels->occupied)
        closed &= ~channels->occupied;
    channels->turn = (uint8_t)emu_bits_next(closed, channels->turn);
    channels->open |= 1u << channels->turn;
    channels->tag[channels->turn] = tag;
    return channels->turn;
}

/** emu_channels_close - the reply to packet @tag came on channel @c; false: it is an old one. */
static inline bool emu_channels_close(struct emu_channels *channels, uint32_t c, uint32_t tag)
{
    if (!(channels->open >> c & 1) || channels->tag[c] != tag)
        return false;
    channels->open &= ~(1u << c);
    return true;
}

/** emu_channels_pending - open channels: acknowledgments that are awaited. */
static inline uint32_t emu_channels_pending(const struct emu_channels *channels)
{
    return (uint32_t)__builtin_popcount(channels->open);
}

/* --- places --------------------------------------------------------------------- */

/** emu_channels_room - channels whose next segment has a place, by bit. One that collects has none. */
static inline uint32_t emu_channels_room(const struct emu_channels *channels)
{
    return channels->pool ? UINT32_MAX : ~channels->occupied | channels->paid;
}

/* One more place is taken; there was room. */
static inline void emu_channels_place(struct emu_channels *channels, uint32_t c)
{
    channels->pool = (uint8_t)(channels->pool - (channels->used[c]++ != 0));
    channels->occupied |= 1u << c;
}

/* The channel that collects takes what is there. */
static inline void emu_channels_collect(struct emu_channels *channels)
{
    uint32_t c = channels->collector;

    for (; channels->need && (!channels->used[c] || channels->pool); channels->need--) {
        emu_channels_place(channels, c);
        channels->promised[c]++;
    }
    if (channels->need)
        return;
    channels->collector = EMU_CHANNELS;
    channels->paid |= 1u << c;
}

/** emu_channels_spend - a segment of channel @c is sent; there was room. */
static inline void emu_channels_spend(struct emu_channels *channels, uint32_t c)
{
    if (!(channels->paid >> c & 1))
        emu_channels_place(channels, c);
    else if (!--channels->promised[c])
        channels->paid &= ~(1u << c);
}

/** emu_channels_return - a credit for a segment of channel @c came back. */
static inline void emu_channels_return(struct emu_channels *channels, uint32_t c)
{
    channels->pool = (uint8_t)(channels->pool + (--channels->used[c] != 0));
    channels->occupied &= ~((uint32_t)!channels->used[c] << c);
    if (channels->collector != EMU_CHANNELS)
        emu_channels_collect(channels);
}

/** emu_channels_collecting - does a channel collect places? Then no other may. */
static inline bool emu_channels_collecting(const struct emu_channels *channels)
{
    return channels->collector != EMU_CHANNELS;
}

/**
 * emu_channels_promise - open channel @c gets a place for each of the @segments segments of its
 * packet, now or as they come back; none collects. @segments: at most 1 and the pool's places.
 */
static inline void emu_channels_promise(struct emu_channels *channels, uint32_t c,
                                        uint32_t segments)
{
    channels->collector = (uint8_t)c;
    channels->need = (uint8_t)segments;
    emu_channels_collect(channels);
}

/** emu_channels_forget - channel @c sends nothing more, so the slots promised to it are free. */
static inline void emu_channels_forget(struct emu_channels *channels, uint32_t c)
{
    uint32_t promised = channels->promised[c];

    if (channels->collector == c)
        channels->collector = EMU_CHANNELS;
    channels->paid &= ~(1u << c);
    channels->promised[c] = 0;
    while (promised--)
        emu_channels_return(channels, c);
}

#endif
