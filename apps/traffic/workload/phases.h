/* SPDX-License-Identifier: BSD-3-Clause */
/* phases.h - choose the lengths of warm-up and measurement; detect saturation and steady state. */
#ifndef APPS_TRAFFIC_WORKLOAD_PHASES_H
#define APPS_TRAFFIC_WORKLOAD_PHASES_H

#include <stdbool.h>
#include <stdint.h>

#define TRAFFIC_PHASE_MOST_PS UINT64_C(20000000000) /* 20 ms: limit of automatic phases */
#define TRAFFIC_LOAD_UNIT     1000000000u           /* a load of 1, the links' rate */

/* Input to the choice of phases. */
struct traffic_scale {
    uint64_t load;       /* of a source: fraction of its links' rate, times TRAFFIC_LOAD_UNIT */
    uint64_t longest_ps; /* latency without load over the longest route */
    uint64_t wire_ps;    /* wire time of a message */
    uint64_t links;      /* links of all senders */
};

/**
 * traffic_phases_choose - choose warm-up and measurement if the user has set neither. Pure.
 *
 * Warm-up: 20 us, 5 latencies without load, or the relaxation time of a queue at this load,
 * wire / (1 - load)^2, whichever is longest. Measurement: 200 us, 4 warm-ups, 20 relaxation times
 * (below load 1), or 20000 messages in all. Neither is longer than TRAFFIC_PHASE_MOST_PS.
 */
void traffic_phases_choose(uint64_t *warmup_ps, uint64_t *measure_ps,
                           const struct traffic_scale *scale);

/**
 * traffic_saturated - return whether the load is above saturation. Pure.
 * @offered, @accepted, @growth: by batch, as fractions of the link rate; growth is the increase of
 * messages waiting in the sources.
 *
 * The load is above saturation if three means exceed their confidence intervals: that of offered -
 * accepted, that of the growth, and that of the growth in the second half of the measurement. The
 * second half is tested, too, because queues may still fill when the measurement begins.
 */
bool traffic_saturated(const double *offered, const double *accepted, const double *growth);

/**
 * traffic_steady - return whether the measurement was in a steady state. Pure.
 * @latency: by batch (traffic_batch_latencies()). @growth: as for traffic_saturated().
 *
 * The state was not steady if one of these is true: neighbouring batches of @latency have a
 * correlation above 0.5; the last third of @latency differs from the first by more than 3 standard
 * errors and by more than 0.5 %; the mean growth is more than 1.5 times its confidence interval.
 */
bool traffic_steady(const double *latency, const double *growth);

#endif
