/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rto.h - the retransmission time-out: how long an engine waits for a reply before it sends again,
 * and, between switches with link-level retry (emu/retry/replay.h), a cable's end for an answer.
 *
 * In simulated time it is the profile's. On clock raw a reply takes as long as the host's threads
 * need to pass it on: microseconds where each has a core, many milliseconds where they share one.
 * There the time-out follows the round trips that were seen, as TCP's does (RFC 6298): their
 * smoothed mean and four times their mean deviation, doubled when a reply does not come, until the
 * next round trip. A packet that was sent again says nothing of round trips, for its reply may be
 * to any of its tries (Karn). Each further try of a packet waits twice as long as the one before.
 *
 * One that is too short costs a packet that arrives twice, which the receiver finds; one that is
 * too long costs the time in which a lost packet's flow stands still.
 *
 * Owner: the worker of the engine, or of the cable's end.
 */
#ifndef NIC_EMU_RTO_H
#define NIC_EMU_RTO_H

#include <stdint.h>

/* At least this, clock raw: a thread that waits for a core behind another one is not lost. 5 ms */
#define EMU_RTO_LEAST_PS UINT64_C(5000000000)

struct emu_rto {
    uint64_t least_ps;
    uint64_t most_ps;   /* the profile's; if least_ps is the same, it is always that */
    uint64_t first_ps;  /* that of a packet's first try */
    uint64_t mean_ps;   /* of round trips, smoothed: 7/8 of what it was */
    uint64_t spread_ps; /* mean deviation from that, smoothed: 3/4 of what it was */
    uint64_t samples;
};

/** emu_rto_init - always @most_ps. */
static inline void emu_rto_init(struct emu_rto *rto, uint64_t most_ps)
{
    *rto = (struct emu_rto){.least_ps = most_ps, .most_ps = most_ps, .first_ps = most_ps};
}

/** emu_rto_adapt - between @least_ps and what it is now, by round trips. */
static inline void emu_rto_adapt(struct emu_rto *rto, uint64_t least_ps)
{
    if (least_ps < rto->most_ps)
        rto->least_ps = least_ps;
}

static inline uint64_t emu_rto_within(const struct emu_rto *rto, uint64_t ps)
{
    if (ps < rto->least_ps)
        return rto->least_ps;
    return ps < rto->most_ps ? ps : rto->most_ps;
}

/** emu_rto_ps - how long the reply to a packet that has had @tries, one or more, is awaited. */
static inline uint64_t emu_rto_ps(const struct emu_rto *rto, uint32_t tries)
{
    uint32_t doublings = tries <= 1 ? 0 : tries - 1;

    if (doublings > 63 || rto->first_ps > rto->most_ps >> doublings)
        return rto->most_ps;
    return rto->first_ps << doublings;
}

/** emu_rto_came - a packet that was sent once had its reply after @trip_ps. */
static inline void emu_rto_came(struct emu_rto *rto, uint64_t trip_ps)
{
    uint64_t off_ps;

    if (rto->least_ps == rto->most_ps)
        return;
    if (trip_ps > rto->most_ps)
        trip_ps = rto->most_ps;
    off_ps = trip_ps > rto->mean_ps ? trip_ps - rto->mean_ps : rto->mean_ps - trip_ps;
    if (!rto->samples++) {
        rto->mean_ps = trip_ps;
        rto->spread_ps = trip_ps / 2;
    } else {
        rto->spread_ps = rto->spread_ps - rto->spread_ps / 4 + off_ps / 4;
        rto->mean_ps = rto->mean_ps - rto->mean_ps / 8 + trip_ps / 8;
    }
    rto->first_ps = emu_rto_within(rto, rto->mean_ps + 4 * rto->spread_ps);
}

/** emu_rto_late - a reply did not come in time. */
static inline void emu_rto_late(struct emu_rto *rto)
{
    rto->first_ps = emu_rto_within(rto, 2 * rto->first_ps);
}

#endif
