/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * phases.h - how long to warm up and to measure, and what past saturation is.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_PHASES_H
#define APPS_TRAFFIC_WORKLOAD_PHASES_H

#include <stdbool.h>
#include <stdint.h>

#define TRAFFIC_PHASE_MOST_PS UINT64_C(20000000000) /* 20 ms: of those that are chosen */
#define TRAFFIC_LOAD_UNIT     1000000000u           /* loads are in 10^-9 of the link rate */

/* What the choice of phases goes by. */
struct traffic_scale {
    uint64_t load;       /* of a source, in TRAFFIC_LOAD_UNITths */
    uint64_t longest_ps; /* latency without load over the longest route */
    uint64_t wire_ps;    /* of a message */
    uint64_t links;      /* of all senders */
};

/**
 * traffic_phases_choose - warm-up and measurement for a run that names none. Pure.
 *
 * Warm-up: 20 us, 5 latencies without load, or the relaxation time of a queue at this load,
 * wire / (1 - load)^2, whichever is longest. Measurement: 200 us, 4 warm-ups, 20 relaxation times
 * (below load 1), or 20000 messages in all. Neither is longer than TRAFFIC_PHASE_MOST_PS.
 */
void traffic_phases_choose(uint64_t *warmup_ps, uint64_t *measure_ps,
                           const struct traffic_scale *scale);

/**
 * traffic_saturated - is the load more than the network takes? Pure.
 * @offered, @accepted, @growth: by batch: fractions of the link rate; growth is that of the
 * messages that wait in the sources.
 *
 * It is, if what was offered and not accepted, batch by batch, is above 0 by more than its
 * confidence interval, and so is the growth, both over the measurement and over its second half:
 * queues that were still filling when the measurement began do not count as saturation.
 */
bool traffic_saturated(const double *offered, const double *accepted, const double *growth);

/**
 * traffic_steady - had the queues forgotten how the measurement began? Pure.
 * @latency: by batch (traffic_batch_latencies()). @growth: as above.
 *
 * They had not, if neighbouring batches are alike (correlation above 0.5), the last third differs
 * from the first by more than 3 standard errors and 0.5 %, or what waits in the sources grows by
 * more than 1.5 times its confidence interval.
 */
bool traffic_steady(const double *latency, const double *growth);

#endif
