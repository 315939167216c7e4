/* SPDX-License-Identifier: BSD-3-Clause */
/* phases.c - see phases.h. */
#include "apps/traffic/workload/phases.h"

#include <math.h>

#include "apps/traffic/workload/stats.h"

#define WARMUP_LEAST_PS  UINT64_C(20000000)  /* 20 us */
#define MEASURE_LEAST_PS UINT64_C(200000000) /* 200 us */
#define MESSAGES_LEAST   20000
/*
 * The relaxation time would be infinite at load 1. So its formula uses at least this value for |1 -
 * load|.
 */
#define MARGIN_LEAST 0.02 /* for loads below 1 */
#define MARGIN_ABOVE 0.05 /* for loads from 1 on, which have no true relaxation time */
#define RELAX_TIMES  20   /* relaxation times in a measurement */

static double most(double a, double b)
{
    return a > b ? a : b;
}

void traffic_phases_choose(uint64_t *warmup_ps, uint64_t *measure_ps,
                           const struct traffic_scale *scale)
{
    double load = (double)scale->load / TRAFFIC_LOAD_UNIT;
    double margin = load < 1 ? most(1 - load, MARGIN_LEAST) : most(load - 1, MARGIN_ABOVE);
    double wire_ps = (double)scale->wire_ps;
    double relax = wire_ps / (margin * margin);
    double warm = most(most(WARMUP_LEAST_PS, 5.0 * (double)scale->longest_ps), relax);
    double measure = most(most(MEASURE_LEAST_PS, 4 * warm),
                          MESSAGES_LEAST * wire_ps / load / (double)scale->links);

    if (load < 1)
        measure = most(measure, RELAX_TIMES * relax);
    *warmup_ps = warm < TRAFFIC_PHASE_MOST_PS ? (uint64_t)warm : TRAFFIC_PHASE_MOST_PS;
    *measure_ps = measure < TRAFFIC_PHASE_MOST_PS ? (uint64_t)measure : TRAFFIC_PHASE_MOST_PS;
}

/* Return whether the mean from batch @from on is above 0 by more than its confidence interval. */
static bool above_zero(const double *value, uint32_t from)
{
    double part[TRAFFIC_BATCHES];

    /* repeat each of these batches, so that there are TRAFFIC_BATCHES values */
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        part[i] = value[from + i * (TRAFFIC_BATCHES - from) / TRAFFIC_BATCHES];
    struct traffic_mean mean = traffic_mean_of(part);
    double widen = from ? 1.4826 : 1; /* about t(14) / t(29) * sqrt(2), for half as many samples */

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

#define ALIKE  0.5   /* in a steady run, neighbouring batches have at most this correlation */
#define DRIFT  3     /* a drift above this, in standard errors, is significant */
#define MATTER 0.005 /* a drift above this, as a fraction of the latency, is relevant */
#define THIRD  (TRAFFIC_BATCHES / 3)

/*
 * Return whether the means of the first and last third differ by more than both DRIFT and MATTER.
 */
static bool drifts(const double *value)
{
    double mean[3] = {0};
    double squares = 0;

    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        mean[i / THIRD] += value[i] / THIRD;
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        squares += (value[i] - mean[i / THIRD]) * (value[i] - mean[i / THIRD]);
    double error = sqrt(squares / (TRAFFIC_BATCHES - 3) * 2 / THIRD);
    double drift = fabs(mean[2] - mean[0]);
    return drift > DRIFT * error && drift > MATTER * mean[1];
}

bool traffic_steady(const double *latency, const double *growth)
{
    struct traffic_mean grows = traffic_mean_of(growth);

    return traffic_correlation(latency) <= ALIKE && !drifts(latency) &&
           grows.mean <= 1.5 * grows.ci95;
}
