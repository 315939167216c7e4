/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offset.h - estimates the offset between the peer's clock and ours.
 *
 * Each host queries the other's time (CLOCK), which is answered at once. A round trip gives four
 * times: sent here T1, received there T2, answered there T3, received here T4. The offset is ((T2 -
 * T1) + (T3 - T4)) / 2, with an error of at most half the round trip (T4 - T1) - (T3 - T2), reached
 * if all of the delay was in one direction. Queueing lengthens the round trip, so only the sample
 * with the shortest one is kept per quarter of a second, and the kept sample with the least error
 * is used. The error of a sample grows with its age, because the clocks' rates differ. That drift
 * is computed from samples seconds apart, with their errors.
 * Source: NTP (RFC 5905 section 8, its clock filter). Deviation: two clocks only, and none is
 * adjusted.
 *
 * Owner: the host link's device; any thread may read the published numbers.
 */
#ifndef EMU_HOSTLINK_OFFSET_H
#define EMU_HOSTLINK_OFFSET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HOSTLINK_SAMPLES 8u  /* quarters of a second that samples are kept for */
#define HOSTLINK_SECONDS 16u /* seconds that samples for the drift are kept for */

struct hostlink_sample {
    uint64_t at_ns;    /* our clock in the middle of the round trip */
    int64_t offset_ns; /* the peer's clock minus ours */
    uint64_t trip_ns;
    bool good;
};

struct hostlink_offset {
    uint64_t asked_ns;    /* sent_ns of the last query received; 0: answered */
    uint64_t received_ns; /* when it arrived */
    struct hostlink_sample least[HOSTLINK_SAMPLES];  /* best of each quarter of a second */
    struct hostlink_sample second[HOSTLINK_SECONDS]; /* best of each second */
    struct hostlink_sample best;                     /* the sample in use */
    double drift;                                    /* ns per ns; 0 until known */
    double unsure;                                   /* error bound of drift */

    /* Published for reports; may be of different samples. */
    _Atomic bool known;
    _Atomic int64_t offset_ns;
    _Atomic uint64_t error_ns;
    _Atomic int64_t drift_ppb;
};

/** hostlink_offset_reset - forget all samples. */
void hostlink_offset_reset(struct hostlink_offset *offset);

/**
 * hostlink_offset_sample - a CLOCK record arrived at @now_ns: a query if @echo_ns is 0, else the
 * answer to one of ours. The times need not be valid.
 */
void hostlink_offset_sample(struct hostlink_offset *offset, uint64_t sent_ns, uint64_t echo_ns,
                            uint64_t received_ns, uint64_t now_ns);

/** hostlink_offset_at - the peer's clock minus ours at @now_ns; 0 if unknown. */
int64_t hostlink_offset_at(const struct hostlink_offset *offset, uint64_t now_ns);

#endif
