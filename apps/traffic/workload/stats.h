/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats.h - latencies, throughput, their confidence, and the digest.
 *
 * Nodes of one worker share one accumulator and no worker touches another's:
 * all that is in it are whole numbers that add up, so the sum is the same for
 * any number of workers. Times are picoseconds of virtual time.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_STATS_H
#define APPS_TRAFFIC_WORKLOAD_STATS_H

#include <stdbool.h>
#include <stdint.h>

#define TRAFFIC_BATCHES 30 /* parts of equal length that the measurement is cut into */

/*
 * Histogram: below 256 ps each value, above that 128 buckets for each power of
 * two. A bucket's middle is within 1/256 (0.39 %) of all that is in it.
 */
#define TRAFFIC_BUCKET_BITS 7
#define TRAFFIC_BUCKETS     ((65u - TRAFFIC_BUCKET_BITS) << TRAFFIC_BUCKET_BITS)

/* The measurement: what was born, or delivered, in it counts. */
struct traffic_phase {
    uint64_t start_ps;
    uint64_t batch_ps;   /* length of a batch */
    uint64_t measure_ps; /* of all: TRAFFIC_BATCHES * batch_ps */
    uint64_t inverse;    /* 2^64 / batch_ps, rounded down */
};

struct traffic_batch {
    uint64_t messages;   /* born in it and delivered, whenever */
    uint64_t latency_ps; /* sum of theirs */
    uint64_t share_ps;   /* delivered in it, whenever born: time on the wire, in 1/1024 ps; a
                            copy of a multicast is a part of it */
    uint64_t wire_ps;    /* the same, every copy whole, in ps */
};

struct traffic_stats {
    struct traffic_phase phase;
    uint64_t messages; /* born in the measurement and delivered */
    uint64_t least_ps; /* latencies: UINT64_MAX when there is none */
    uint64_t most_ps;
    struct traffic_batch batch[TRAFFIC_BATCHES];
    uint64_t bucket[TRAFFIC_BUCKETS];
};

/** traffic_phase_of - a measurement from @start_ps on, @measure_ps rounded up to whole batches. */
struct traffic_phase traffic_phase_of(uint64_t start_ps, uint64_t measure_ps);

void traffic_stats_init(struct traffic_stats *stats, const struct traffic_phase *phase);

/** traffic_stats_add - add what @from has. */
void traffic_stats_add(struct traffic_stats *stats, const struct traffic_stats *from);

/** traffic_batch_at - the batch that @age_ps after the start lies in: below measure_ps. Pure. */
static inline uint32_t traffic_batch_at(const struct traffic_phase *phase, uint64_t age_ps)
{
    uint64_t batch = (uint64_t)((unsigned __int128)age_ps * phase->inverse >> 64);

    return (uint32_t)(batch + (age_ps - batch * phase->batch_ps >= phase->batch_ps));
}

/** traffic_bucket_of - the bucket of a value. Pure. */
static inline uint32_t traffic_bucket_of(uint64_t value)
{
    unsigned top = 63u - (unsigned)__builtin_clzll(value | 1);
    unsigned shift = top > TRAFFIC_BUCKET_BITS ? top - TRAFFIC_BUCKET_BITS : 0;

    return (uint32_t)((shift << TRAFFIC_BUCKET_BITS) + (value >> shift));
}

/** traffic_bucket_middle - the value that stands for a bucket. Pure. */
uint64_t traffic_bucket_middle(uint32_t bucket);

/** traffic_stats_record - a latency; born @age_ps after the start, which is below measure_ps. */
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

/** traffic_stats_latency - a message born at @birth_ps was delivered at @at_ps: is it measured? */
static inline void traffic_stats_latency(struct traffic_stats *stats, uint64_t birth_ps,
                                         uint64_t at_ps)
{
    uint64_t age_ps = birth_ps - stats->phase.start_ps; /* before the start: too large */

    if (age_ps < stats->phase.measure_ps)
        traffic_stats_record(stats, age_ps, at_ps - birth_ps);
}

/**
 * traffic_stats_wire - a segment of @wire_ps came at @at_ps, in the measurement, and counts
 * @share_ps / 1024.
 */
static inline void traffic_stats_wire(struct traffic_stats *stats, uint64_t at_ps, uint64_t wire_ps,
                                      uint64_t share_ps)
{
    struct traffic_batch *batch =
        &stats->batch[traffic_batch_at(&stats->phase, at_ps - stats->phase.start_ps)];

    batch->share_ps += share_ps;
    batch->wire_ps += wire_ps;
}

/* --- what comes out ----------------------------------------------------------------- */

struct traffic_latency {
    uint64_t messages;
    uint64_t mean_ps;
    uint64_t least_ps;
    uint64_t median_ps;
    uint64_t p99_ps;
    uint64_t most_ps;
    double mean_ci95_ps; /* half of the interval's width; negative: not known */
};

/**
 * traffic_latency_of - what the accumulator says. Pure.
 *
 * The interval is widened by what neighbouring batches have in common. It is not known with
 * messages in fewer than 20 batches, or with a correlation above TRAFFIC_CORRELATION_MOST.
 */
void traffic_latency_of(struct traffic_latency *ret, const struct traffic_stats *stats);

/**
 * traffic_batch_latencies - mean latency (ps) and how the batches differ from it: @ret, values
 * about that mean, batches with more messages further from it. Pure.
 */
double traffic_batch_latencies(const struct traffic_stats *stats, double *ret);

#define TRAFFIC_CORRELATION_MOST 0.7

/** traffic_correlation - of TRAFFIC_BATCHES values with their next ones (lag 1). Pure. */
double traffic_correlation(const double *value);

/** traffic_percentile - the least value that @part (0 to 1) of all messages do not exceed. */
uint64_t traffic_percentile(const struct traffic_stats *stats, double part);

/* A mean of batches and half of its 95 % confidence interval. */
struct traffic_mean {
    double mean;
    double ci95;
};

/** traffic_mean_of - of TRAFFIC_BATCHES values: batch means, Student's t. Pure. */
struct traffic_mean traffic_mean_of(const double *value);

/* --- digest ------------------------------------------------------------------------- */

#define TRAFFIC_DIGEST_START UINT64_C(0x243f6a8885a308d3)

/**
 * traffic_digest - take one more delivery into a node's digest. The order counts.
 * Deliveries are told apart by source, birth and time of delivery.
 */
static inline uint64_t traffic_digest(uint64_t digest, uint32_t src, uint64_t birth_ps,
                                      uint64_t at_ps)
{
    digest ^= at_ps + (birth_ps << 21 | birth_ps >> 43);
    digest = (digest ^ (uint64_t)src << 40) * UINT64_C(0x9fb21c651e98df25);
    return digest ^ digest >> 32;
}

#endif
