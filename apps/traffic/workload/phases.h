/* SPDX-License-Identifier: BSD-3-Clause */
/* phases.h - choose the lengths of warm-up and measurement; detect saturation and steady state. */
#ifndef APPS_TRAFFIC_WORKLOAD_PHASES_H
#define APPS_TRAFFIC_WORKLOAD_PHASES_H

#include <stdbool.h>
#include <stdint.h>

/* 20 ms: limit of phases that are chosen automatically */
#define TRAFFIC_PHASE_MOST_PS UINT64_C(20000000000)
/* stands for load 1, which is the rate of the links */
#define TRAFFIC_LOAD_UNIT 1000000000u

/* Input to the choice of phases. */
struct traffic_scale {
    /* load of a source: fraction of the rate of its links, times TRAFFIC_LOAD_UNIT */
    uint64_t load;
    uint64_t longest_ps; /* latency of a message on the longest route without other traffic */
    uint64_t wire_ps;    /* wire time of a message */
    uint64_t links;      /* number of links of all senders */
};

/**
 * traffic_phases_choose - choose warm-up and measurement if the user has set neither. Pure.
 *
 * Warm-up: the longest of 20 us, 5 * longest_ps, and the relaxation time of a queue at this load,
 * which is wire_ps / (1 - load)^2. Measurement: the longest of 200 us, 4 warm-ups, 20 relaxation
 * times (only for loads below 1), and the time of 20000 messages in all. Neither is longer than
 * TRAFFIC_PHASE_MOST_PS.
 */
void traffic_phases_choose(uint64_t *warmup_ps, uint64_t *measure_ps,
                           const struct traffic_scale *scale);

/**
 * traffic_saturated - return whether the load is above saturation. Pure.
 * @offered, @accepted, @growth: by batch, as fractions of the link rate; growth is the increase of
 * messages waiting in the sources.
 *
 * The load is above saturation if three means exceed their confidence intervals: the mean of
 * offered - accepted, the mean of the growth, and the mean of the growth in the second half of the
 * measurement. The second half is tested, too, because queues may still fill when the measurement
 * begins.
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
