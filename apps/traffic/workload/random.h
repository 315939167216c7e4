/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random.h - random numbers for synthetic traffic. They are the same on any host.
 *
 * A *stream* is a sequence of random numbers. Each node has a stream for each purpose, so that
 * draws of one node do not affect another node. A copy of a stream replays it. Exponential gaps are
 * computed with integers alone, without libm, so that no rounding depends on the host.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_RANDOM_H
#define APPS_TRAFFIC_WORKLOAD_RANDOM_H

#include <stdint.h>

#include "emu/util/random.h"

/* The purpose of a stream. */
enum traffic_stream {
    TRAFFIC_STREAM_GAPS,       /* times between messages */
    TRAFFIC_STREAM_PICKS,      /* destinations */
    TRAFFIC_STREAM_SETS,       /* destination sets, drawn once */
    TRAFFIC_STREAM_SOURCES,    /* the nodes that send; a single stream for the fabric */
    TRAFFIC_STREAM_GROUPS,     /* members of groups; a single stream for the fabric */
    TRAFFIC_STREAM_PERMUTATION /* destinations; a stream for each permutation */
};

/* splitmix64: any state is valid. */
struct traffic_random {
    uint64_t state;
};

/** traffic_random_init - begin the stream of @node for the purpose @stream. */
void traffic_random_init(struct traffic_random *random, uint64_t seed, uint64_t node,
                         enum traffic_stream stream);

static inline uint64_t traffic_random_next(struct traffic_random *random)
{
    return emu_splitmix(&random->state);
}

/** traffic_random_below - draw uniformly from 0 … @below - 1, up to a bias of @below * 2^-32. */
static inline uint32_t traffic_random_below(struct traffic_random *random, uint32_t below)
{
    return (uint32_t)((traffic_random_next(random) >> 32) * below >> 32);
}

/** traffic_shuffle - put @count items into a uniformly random order. */
void traffic_shuffle(struct traffic_random *random, uint32_t *item, uint32_t count);

#define TRAFFIC_EXP_BITS 8 /* bits of the table's index; the error is at most 2e-6 */

/* -ln(x) at x = 1/2 + i/512, in units of 2^-32. */
struct traffic_exp {
    uint64_t minus_ln[(1u << TRAFFIC_EXP_BITS) + 1];
};

/** traffic_exp_init - compute the table. */
void traffic_exp_init(struct traffic_exp *exp);

/**
 * traffic_exp_of - return -ln(u / 2^64) in units of 2^-32. It has an exponential distribution with
 * mean 1 if @u is uniform. Pure.
 *
 * u / 2^64 = x * 2^-zeros with x in [1/2, 1). The leading zeros give a multiple of ln 2. The next 8
 * bits of x select an interval of the table, and 32 more bits give the position in the interval.
 */
static inline uint64_t traffic_exp_of(const struct traffic_exp *exp, uint64_t u)
{
    const uint64_t ln2 = UINT64_C(0xb17217f8); /* ln 2 * 2^32 */
    unsigned zeros = (unsigned)__builtin_clzll(u | 1);
    uint64_t x = (u | 1) << zeros;
    uint64_t i = x >> (63 - TRAFFIC_EXP_BITS) & ((1u << TRAFFIC_EXP_BITS) - 1);
    uint64_t part = x >> (31 - TRAFFIC_EXP_BITS) & UINT32_MAX;
    uint64_t fall = exp->minus_ln[i] - exp->minus_ln[i + 1];

    return zeros * ln2 + exp->minus_ln[i] - (fall * part >> 32);
}

/** traffic_exp_ps - draw a time from the exponential distribution with mean @mean_ps. */
static inline uint64_t traffic_exp_ps(const struct traffic_exp *exp, struct traffic_random *random,
                                      uint64_t mean_ps)
{
    uint64_t times = traffic_exp_of(exp, traffic_random_next(random));

    return (uint64_t)(((unsigned __int128)mean_ps * times + (1u << 31)) >> 32);
}

#endif
