/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offset.h - estimate the offset between the peer's clock and ours.
 *
 * Each host queries the other's time by a CLOCK record, which the other host answers at once. A
 * round trip gives four times: the query is sent here at T1 and received there at T2; the answer is
 * sent there at T3 and received here at T4. The offset is ((T2 - T1) + (T3 - T4)) / 2. Its error is
 * at most half the round trip, (T4 - T1) - (T3 - T2). The error has this size if all of the delay
 * was in one direction.
 *
 * Queueing lengthens a round trip. Therefore, for each quarter of a second, only the sample with
 * the shortest round trip is kept. Of these samples the one with the least error is used. The error
 * of a sample grows with its age, because the two clocks run at slightly different rates. This
 * *drift* is computed from two samples some seconds apart.
 * Source: NTP (RFC 5905 section 8, its clock filter). Deviation: there are only two clocks, and no
 * clock is adjusted.
 *
 * Owner: the host link's device. Any thread may read the published numbers.
 */
#ifndef EMU_HOSTLINK_OFFSET_H
#define EMU_HOSTLINK_OFFSET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* samples kept for the offset: the best one of each quarter of a second */
#define HOSTLINK_SAMPLES 8u
#define HOSTLINK_SECONDS 16u /* samples kept for the drift: the best one of each second */

struct hostlink_sample {
    uint64_t at_ns;    /* our clock in the middle of the round trip */
    int64_t offset_ns; /* the peer's clock minus ours */
    uint64_t rtt_ns;
    bool good;
};

struct hostlink_offset {
    uint64_t asked_ns;    /* sent_ns of the peer's last query; 0: it was answered */
    uint64_t received_ns; /* when that query arrived */
    /* sample with the shortest round trip, for each quarter of a second */
    struct hostlink_sample least[HOSTLINK_SAMPLES];
    /* sample with the shortest round trip, for each second */
    struct hostlink_sample second[HOSTLINK_SECONDS];
    struct hostlink_sample best; /* the sample in use */
    double drift;                /* ns per ns; 0 until known */
    double unsure;               /* largest error of `drift` */

    /* Published for reports, one by one: they may belong to different samples. */
    _Atomic bool known;
    _Atomic int64_t offset_ns;
    _Atomic uint64_t error_ns;
    _Atomic int64_t drift_ppb;
};

void hostlink_offset_reset(struct hostlink_offset *offset);

/**
 * hostlink_offset_sample - process a CLOCK record that arrived at @now_ns. It is a query of the
 * peer if @echo_ns is 0, else the answer to one of our queries. Implausible times are ignored.
 */
void hostlink_offset_sample(struct hostlink_offset *offset, uint64_t sent_ns, uint64_t echo_ns,
                            uint64_t received_ns, uint64_t now_ns);

/** hostlink_offset_at - return the peer's clock minus ours at @now_ns; 0 if unknown. */
int64_t hostlink_offset_at(const struct hostlink_offset *offset, uint64_t now_ns);

#endif
