/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats.h - latencies, throughput, their confidence intervals, and the digest.
 *
 * The nodes of one worker share one *accumulator* (struct traffic_stats), which no other worker
 * uses. Accumulators contain only integers: sums, a minimum and a maximum. So the result of adding
 * all accumulators is the same for any number of workers. Times are picoseconds of virtual time.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_STATS_H
#define APPS_TRAFFIC_WORKLOAD_STATS_H

#include <stdbool.h>
#include <stdint.h>

#define TRAFFIC_BATCHES 30 /* a measurement is divided into this many batches of equal length */

/*
 * Histogram: below 256 ps there is a bucket for each value, and above that, 128 buckets for each
 * power of two. All values in a bucket differ from its middle by at most 1/256 (0.39 %).
 */
#define TRAFFIC_BUCKET_BITS 7
#define TRAFFIC_BUCKETS     ((65u - TRAFFIC_BUCKET_BITS) << TRAFFIC_BUCKET_BITS)

/*
 * A measurement, which is a period of simulated time. Latencies count for messages born in it, and
 * throughput counts the deliveries made in it.
 */
struct traffic_phase {
    uint64_t start_ps;
    uint64_t batch_ps;   /* length of a batch */
    uint64_t measure_ps; /* length of the measurement: TRAFFIC_BATCHES * batch_ps */
    uint64_t inverse;    /* 2^64 / batch_ps, rounded down */
};

struct traffic_batch {
    uint64_t messages;   /* number of messages born in the batch and delivered at any time */
    uint64_t latency_ps; /* sum of the latencies of these messages */
    /* wire time of deliveries in the batch, in units of 2^-10 ps; each of n copies counts as 1/n */
    uint64_t share_ps;
    uint64_t wire_ps; /* wire time of deliveries in the batch, in ps; every copy counts fully */
};

struct traffic_stats {
    struct traffic_phase phase;
    uint64_t messages; /* number of messages born in the measurement and delivered at any time */
    uint64_t least_ps; /* least latency; UINT64_MAX: no messages */
    uint64_t most_ps;
    struct traffic_batch batch[TRAFFIC_BATCHES];
    uint64_t bucket[TRAFFIC_BUCKETS];
};

/** traffic_phase_of - return a measurement of @measure_ps, rounded up to whole batches. */
struct traffic_phase traffic_phase_of(uint64_t start_ps, uint64_t measure_ps);

void traffic_stats_init(struct traffic_stats *stats, const struct traffic_phase *phase);

void traffic_stats_add(struct traffic_stats *stats, const struct traffic_stats *from);

/** traffic_batch_at - return the batch at @age_ps after the start; @age_ps < measure_ps. Pure. */
static inline uint32_t traffic_batch_at(const struct traffic_phase *phase, uint64_t age_ps)
{
    uint64_t batch = (uint64_t)((unsigned __int128)age_ps * phase->inverse >> 64);

    return (uint32_t)(batch + (age_ps - batch * phase->batch_ps >= phase->batch_ps));
}

/** traffic_bucket_of - return the bucket of a value. Pure. */
static inline uint32_t traffic_bucket_of(uint64_t value)
{
    unsigned top = 63u - (unsigned)__builtin_clzll(value | 1);
    unsigned shift = top > TRAFFIC_BUCKET_BITS ? top - TRAFFIC_BUCKET_BITS : 0;

    return (uint32_t)((shift << TRAFFIC_BUCKET_BITS) + (value >> shift));
}

/** traffic_bucket_middle - return the value in the middle of a bucket. Pure. */
uint64_t traffic_bucket_middle(uint32_t bucket);

/**
 * traffic_stats_record - add the latency of a message that was born @age_ps after the start of the
 * measurement; @age_ps < measure_ps.
 */
static inline void traffic_stats_record(struct traffic_stats *stats, uint64_t age_ps,
                                        uint64_t latency_ps)
{
    struct traffic_batch *batch = &stats->batch[traffic_batch_at(&stats->phase, age_ps)];

    batch->messages++;
    batch->latency_ps += latency_ps;
    stats->messages++;
    stats->least_ps = latency_ps < stats->least_ps ? latency_ps : stats->least_ps;
    stats->most_ps = latency_ps > stats->most_ps ? latency_ps : stats->most_ps;
    stats->bucket[traffic_bucket_of(latency_ps)]++;
}

/**
 * traffic_stats_latency - add the latency of a message that was delivered at @at_ps, if it was born
 * in the measurement.
 */
static inline void traffic_stats_latency(struct traffic_stats *stats, uint64_t birth_ps,
                                         uint64_t at_ps)
{
    /* wraps if the message was born before the start */
    uint64_t age_ps = birth_ps - stats->phase.start_ps;

    if (age_ps < stats->phase.measure_ps)
        traffic_stats_record(stats, age_ps, at_ps - birth_ps);
}

/** traffic_stats_wire - add a segment that arrived at @at_ps, a time in the measurement. */
static inline void traffic_stats_wire(struct traffic_stats *stats, uint64_t at_ps, uint64_t wire_ps,
                                      uint64_t share_ps)
{
    struct traffic_batch *batch =
        &stats->batch[traffic_batch_at(&stats->phase, at_ps - stats->phase.start_ps)];

    batch->share_ps += share_ps;
    batch->wire_ps += wire_ps;
}

/* --- results ------------------------------------------------------------------------ */

struct traffic_latency {
    uint64_t messages;
    uint64_t mean_ps;
    uint64_t least_ps;
    uint64_t median_ps;
    uint64_t p99_ps;
    uint64_t most_ps;
    double mean_ci95_ps; /* half the width of the 95 % confidence interval; negative: unknown */
};

/**
 * traffic_latency_of - compute the results of an accumulator. Pure.
 *
 * The confidence interval is widened if neighbouring batches are correlated. It is unknown if fewer
 * than 20 batches have messages, or if the correlation is above TRAFFIC_CORRELATION_MOST.
 */
void traffic_latency_of(struct traffic_latency *ret, const struct traffic_stats *stats);

/**
 * traffic_batch_latencies - return the mean latency in ps. Set @ret[i] to the mean plus the
 * deviation of batch i from it, weighted by the batch's number of messages. Pure.
 */
double traffic_batch_latencies(const struct traffic_stats *stats, double *ret);

#define TRAFFIC_CORRELATION_MOST 0.7

/** traffic_correlation - return the correlation of successive batches' values (lag 1). Pure. */
double traffic_correlation(const double *value);

/** traffic_percentile - return the latency that a fraction @part of all messages do not exceed. */
uint64_t traffic_percentile(const struct traffic_stats *stats, double part);

/* A mean over batches, and half the width of its 95 % confidence interval. */
struct traffic_mean {
    double mean;
    double ci95;
};

/** traffic_mean_of - return the mean of TRAFFIC_BATCHES values, with Student's t. Pure. */
struct traffic_mean traffic_mean_of(const double *value);

/* --- digest ------------------------------------------------------------------------- */

#define TRAFFIC_DIGEST_START UINT64_C(0x243f6a8885a308d3)

/**
 * traffic_digest - add a delivery to a digest of deliveries. The digest depends on sources, times
 * of birth and arrival, and the order of deliveries.
 */
static inline uint64_t traffic_digest(uint64_t digest, uint32_t src, uint64_t birth_ps,
                                      uint64_t at_ps)
{
    digest ^= at_ps + (birth_ps << 21 | birth_ps >> 43);
    digest = (digest ^ (uint64_t)src << 40) * UINT64_C(0x9fb21c651e98df25);
    return digest ^ digest >> 32;
}

#endif
