/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_phases.c - decisions about a run: pure functions on numbers.
 */
#include "apps/traffic_phases.h"

#include "apps/traffic_stats.h"

#define WARMUP_LEAST_PS   UINT64_C(20000000)    /* 20 us */
#define MEASURE_LEAST_PS  UINT64_C(200000000)   /* 200 us */
#define PHASE_MOST_PS     UINT64_C(20000000000) /* 20 ms */
#define MESSAGES_LEAST    20000
#define MARGIN_LEAST      0.05 /* relaxation times are not longer than at this distance from 1 */

static double most(double a, double b)
{
    return a > b ? a : b;
}

void traffic_phases_choose(uint64_t *warmup_ps, uint64_t *measure_ps,
                           const struct traffic_scale *scale)
{
    double load = (double)scale->load / TRAFFIC_LOAD_UNIT;
    double margin = most(load < 1 ? 1 - load : load - 1, MARGIN_LEAST);
    double wire_ps = (double)scale->wire_ps;
    double warm = most(most(WARMUP_LEAST_PS, 5.0 * (double)scale->longest_ps),
                       wire_ps / (margin * margin));
    double measure = most(most(MEASURE_LEAST_PS, 4 * warm),
                          MESSAGES_LEAST * wire_ps / load / scale->senders);

    *warmup_ps = warm < PHASE_MOST_PS ? (uint64_t)warm : PHASE_MOST_PS;
    *measure_ps = measure < PHASE_MOST_PS ? (uint64_t)measure : PHASE_MOST_PS;
}

static bool above_zero(const double *value, uint32_t from)
{
    double part[TRAFFIC_BATCHES];

    /* The later batches alone: each stands for as many as make up the whole. */
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        part[i] = value[from + i * (TRAFFIC_BATCHES - from) / TRAFFIC_BATCHES];
    struct traffic_mean mean = traffic_mean_of(part);
    double widen = from ? 1.4826 : 1; /* t(14) / t(29) * sqrt(2), for half as many */

    return mean.mean > widen * mean.ci95;
}

bool traffic_saturated(const double *offered, const double *accepted, const double *growth)
{
    double lacking[TRAFFIC_BATCHES];

    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        lacking[i] = offered[i] - accepted[i];
    return above_zero(lacking, 0) && above_zero(growth, 0) &&
           above_zero(growth, TRAFFIC_BATCHES / 2);
}
