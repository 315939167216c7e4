/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rto.h - retransmission time-outs: those of a link engine that waits for the reply to a packet,
 * and those of a cable with link-level retry (emu/retry/replay.h) that waits for an ACK or NACK.
 *
 * On timed clocks the profile gives the time-out. On clock raw a reply takes as long as the host's
 * threads need: microseconds if each has a core, many milliseconds if they share one. On clock raw
 * the time-out therefore follows measured round trips, as TCP's does (RFC 6298). It is their
 * smoothed mean plus four times their mean deviation. When a reply does not come in time, the
 * time-out is doubled until the next round trip is measured. Round trips of retransmitted packets
 * are not measured, since the reply may belong to any of the transmissions (Karn). A transmission
 * that follows a time-out of the same packet waits twice as long as the previous transmission.
 * Transmissions that were answered do not count, because an answer shows that the network did not
 * lose them.
 *
 * If the time-out is too short, a packet arrives twice, which the receiver detects. If the time-out
 * is too long, packets that must follow a lost packet in order wait until it expires.
 *
 * Owner: the worker of the engine or of the cable's sender.
 */
#ifndef EMU_RTO_H
#define EMU_RTO_H

#include <stdint.h>

/* clock raw: the time-out is at least 5 ms, because the replying thread may wait for a core */
#define EMU_RTO_LEAST_PS UINT64_C(5000000000)

struct emu_rto {
    uint64_t least_ps;
    uint64_t most_ps;   /* the profile's time-out; equal to least_ps if the time-out is constant */
    uint64_t first_ps;  /* current time-out of a packet's first transmission */
    uint64_t mean_ps;   /* smoothed round trip: a new sample has a weight of 1/8 */
    uint64_t spread_ps; /* smoothed deviation from mean_ps: a new sample has a weight of 1/4 */
    uint64_t samples;
};

/** emu_rto_init - make the time-out a constant @most_ps. */
static inline void emu_rto_init(struct emu_rto *rto, uint64_t most_ps)
{
    *rto = (struct emu_rto){.least_ps = most_ps, .most_ps = most_ps, .first_ps = most_ps};
}

/** emu_rto_adapt - make the time-out follow round trips, between @least_ps and rto->most_ps. */
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

/**
 * emu_rto_ps - return the time-out of a packet's transmission. @late: how many transmissions of the
 * packet directly before this one got no reply in time.
 */
static inline uint64_t emu_rto_ps(const struct emu_rto *rto, uint32_t late)
{
    if (late > 63 || rto->first_ps > rto->most_ps >> late)
        return rto->most_ps;
    return rto->first_ps << late;
}

/** emu_rto_sample - adapt to the round trip @rtt_ps of a packet that was sent only once. */
static inline void emu_rto_sample(struct emu_rto *rto, uint64_t rtt_ps)
{
    uint64_t off_ps;

    if (rto->least_ps == rto->most_ps)
        return;
    if (rtt_ps > rto->most_ps)
        rtt_ps = rto->most_ps;
    off_ps = rtt_ps > rto->mean_ps ? rtt_ps - rto->mean_ps : rto->mean_ps - rtt_ps;
    if (!rto->samples++) {
        rto->mean_ps = rtt_ps;
        rto->spread_ps = rtt_ps / 2;
    } else {
        rto->spread_ps = rto->spread_ps - rto->spread_ps / 4 + off_ps / 4;
        rto->mean_ps = rto->mean_ps - rto->mean_ps / 8 + rtt_ps / 8;
    }
    rto->first_ps = emu_rto_within(rto, rto->mean_ps + 4 * rto->spread_ps);
}

/** emu_rto_late - double the time-out, because a reply did not come in time. */
static inline void emu_rto_late(struct emu_rto *rto)
{
    rto->first_ps = emu_rto_within(rto, 2 * rto->first_ps);
}

#endif
