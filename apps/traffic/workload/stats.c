/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats.c - computes means, percentiles and confidence intervals from accumulators.
 *
 * Confidence intervals use batch means: the measurement is divided into TRAFFIC_BATCHES parts of
 * equal length. Batches of throughput are treated as independent. Batches of latency are treated as
 * a first-order autoregressive process. If successive batches have the correlation r, the variance
 * of their sum is (1 + r) / (1 - r) times that of independent values.
 */
#include "apps/traffic/workload/stats.h"

#include <math.h>
#include <string.h>

/* Student's t for two-sided 95 %, TRAFFIC_BATCHES - 1 degrees of freedom */
#define STUDENT_T95 2.0452296
_Static_assert(TRAFFIC_BATCHES == 30, "t is for 29 degrees of freedom");

struct traffic_phase traffic_phase_of(uint64_t start_ps, uint64_t measure_ps)
{
    uint64_t batch_ps = (measure_ps + TRAFFIC_BATCHES - 1) / TRAFFIC_BATCHES;

    if (batch_ps < 2)
        batch_ps = 2;
    return (struct traffic_phase){.start_ps = start_ps,
                                  .batch_ps = batch_ps,
                                  .measure_ps = TRAFFIC_BATCHES * batch_ps,
                                  .inverse = UINT64_MAX / batch_ps};
}

void traffic_stats_init(struct traffic_stats *stats, const struct traffic_phase *phase)
{
    memset(stats, 0, sizeof *stats);
    stats->phase = *phase;
    stats->least_ps = UINT64_MAX;
}

void traffic_stats_add(struct traffic_stats *stats, const struct traffic_stats *from)
{
    stats->messages += from->messages;
    stats->least_ps = from->least_ps < stats->least_ps ? from->least_ps : stats->least_ps;
    stats->most_ps = from->most_ps > stats->most_ps ? from->most_ps : stats->most_ps;
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++) {
        stats->batch[i].messages += from->batch[i].messages;
        stats->batch[i].latency_ps += from->batch[i].latency_ps;
        stats->batch[i].share_ps += from->batch[i].share_ps;
        stats->batch[i].wire_ps += from->batch[i].wire_ps;
    }
    for (uint32_t i = 0; i < TRAFFIC_BUCKETS; i++)
        stats->bucket[i] += from->bucket[i];
}

uint64_t traffic_bucket_middle(uint32_t bucket)
{
    unsigned shift = bucket >> TRAFFIC_BUCKET_BITS;
    uint64_t first;

    if (shift < 2)
        return bucket;
    shift--;
    first = (uint64_t)(bucket - (shift << TRAFFIC_BUCKET_BITS)) << shift;
    return first + ((uint64_t)1 << (shift - 1));
}

uint64_t traffic_percentile(const struct traffic_stats *stats, double part)
{
    uint64_t wanted = (uint64_t)ceil(part * (double)stats->messages);
    uint64_t seen = 0;

    for (uint32_t i = 0; i < TRAFFIC_BUCKETS && stats->messages; i++) {
        uint64_t value = traffic_bucket_middle(i);
        seen += stats->bucket[i];
        if (seen < wanted || !seen)
            continue;
        value = value < stats->most_ps ? value : stats->most_ps;
        return value > stats->least_ps ? value : stats->least_ps;
    }
    return 0;
}

/*
 * Batches have different numbers of messages, so the mean is a ratio of two sums. The value of a
 * batch is mean + (sum of its latencies - its number of messages * mean) / (messages per batch).
 */
double traffic_batch_latencies(const struct traffic_stats *stats, double *ret)
{
    double messages = (double)stats->messages;
    double mean = 0;

    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        mean += (double)stats->batch[i].latency_ps / messages;
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++) {
        double expected = mean * (double)stats->batch[i].messages;
        double off = (double)stats->batch[i].latency_ps - expected;
        ret[i] = mean + off * TRAFFIC_BATCHES / messages;
    }
    return mean;
}

double traffic_correlation(const double *value)
{
    double mean = 0, squares = 0, products = 0;

    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        mean += value[i] / TRAFFIC_BATCHES;
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++) {
        squares += (value[i] - mean) * (value[i] - mean);
        if (i)
            products += (value[i] - mean) * (value[i - 1] - mean);
    }
    return squares > 1e-18 * mean * mean ? products / squares : 0;
}

static double latency_ci95(const struct traffic_stats *stats)
{
    double value[TRAFFIC_BATCHES];
    unsigned used = 0;

    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        used += stats->batch[i].messages > 0;
    traffic_batch_latencies(stats, value);
    double r = traffic_correlation(value);
    if (used < 20 || r > TRAFFIC_CORRELATION_MOST)
        return -1;
    return traffic_mean_of(value).ci95 * (r > 0 ? sqrt((1 + r) / (1 - r)) : 1);
}

void traffic_latency_of(struct traffic_latency *ret, const struct traffic_stats *stats)
{
    unsigned __int128 total = 0;

    *ret = (struct traffic_latency){.messages = stats->messages, .mean_ci95_ps = -1};
    if (!stats->messages)
        return;
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        total += stats->batch[i].latency_ps;
    ret->mean_ps = (uint64_t)((total + stats->messages / 2) / stats->messages);
    ret->mean_ci95_ps = latency_ci95(stats);
    ret->least_ps = stats->least_ps;
    ret->most_ps = stats->most_ps;
    ret->median_ps = traffic_percentile(stats, 0.5);
    ret->p99_ps = traffic_percentile(stats, 0.99);
}

struct traffic_mean traffic_mean_of(const double *value)
{
    struct traffic_mean ret = {.mean = 0};
    double squares = 0;

    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        ret.mean += value[i] / TRAFFIC_BATCHES;
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++)
        squares += (value[i] - ret.mean) * (value[i] - ret.mean);
    ret.ci95 = STUDENT_T95 * sqrt(squares / (TRAFFIC_BATCHES - 1) / TRAFFIC_BATCHES);
    return ret;
}
