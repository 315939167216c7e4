/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offset.h - how far the other host's clock is ahead of ours.
 *
 * Each host asks what time it is there (CLOCK), and is answered at once. So four times are known
 * of a round trip: it left here at T1, came there at T2, left there at T3, came here at T4. The
 * offset is ((T2 - T1) + (T3 - T4)) / 2, wrong by half of the round trip (T4 - T1) - (T3 - T2) at
 * most, as if all of it had been one way. What waited on its way has a long round trip; so of each
 * quarter of a second the sample with the least is kept, and of these the one with the least error
 * counts. A sample is less sure the older it is: clocks go on at different rates. That rate, the
 * drift, is known from samples seconds apart, as well as these are.
 * Source: NTP (RFC 5905 §8, its clock filter); deviation: two clocks only, and nobody's is set.
 *
 * Owner: the host link's device; the published numbers are anybody's to read.
 */
#ifndef EMU_HOSTLINK_OFFSET_H
#define EMU_HOSTLINK_OFFSET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HOSTLINK_SAMPLES 8u  /* quarters of a second that count */
#define HOSTLINK_SECONDS 16u /* seconds that the drift is taken from */

struct hostlink_sample {
    uint64_t at_ns;    /* our clock, in its middle */
    int64_t offset_ns; /* the other's less ours */
    uint64_t trip_ns;
    bool good;
};

struct hostlink_offset {
    uint64_t asked_ns;    /* sent_ns of the last question that came; 0: it was answered */
    uint64_t received_ns; /* and when */
    struct hostlink_sample least[HOSTLINK_SAMPLES];  /* of each quarter of a second, */
    struct hostlink_sample second[HOSTLINK_SECONDS]; /* of each second */
    struct hostlink_sample best;                     /* that counts */
    double drift;                                    /* ns in a ns; 0 until known */
    double unsure;                                   /* it is wrong by so much at most */

    /* For reports: each is recent. */
    _Atomic bool known;
    _Atomic int64_t offset_ns;
    _Atomic uint64_t error_ns;
    _Atomic int64_t drift_ppb;
};

/** hostlink_offset_reset - nothing is known. */
void hostlink_offset_reset(struct hostlink_offset *offset);

/**
 * hostlink_offset_sample - a CLOCK with these times came at @now_ns: a question, if @echo_ns is 0,
 * or the answer to one of ours. Any times may come.
 */
void hostlink_offset_sample(struct hostlink_offset *offset, uint64_t sent_ns, uint64_t echo_ns,
                            uint64_t received_ns, uint64_t now_ns);

/** hostlink_offset_at - the other's clock less ours at @now_ns; 0 while nothing is known. */
int64_t hostlink_offset_at(const struct hostlink_offset *offset, uint64_t now_ns);

#endif
