/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sets.h - which nodes send, and the destination sets of multicasts.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_SETS_H
#define APPS_TRAFFIC_WORKLOAD_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- sources ------------------------------------------------------------------------ */

enum traffic_spread {
    TRAFFIC_SPREAD_EVEN, /* every so many nodes */
    TRAFFIC_SPREAD_FIRST,
    TRAFFIC_SPREAD_RANDOM
};

struct traffic_sources {
    enum traffic_spread spread;
    uint32_t count; /* 0: all nodes */
};

/** traffic_sources_parse - "N", "first:N" or "random:N"; false if it is none of them. */
bool traffic_sources_parse(struct traffic_sources *ret, const char *text);

/**
 * traffic_sources_choose - mark the nodes that send.
 * @sends: @nodes of them, written. The count is at most @nodes.
 */
void traffic_sources_choose(const struct traffic_sources *sources, uint64_t seed, uint32_t nodes,
                            bool *sends);

/* --- destination sets --------------------------------------------------------------- */

enum traffic_law {
    TRAFFIC_LAW_UNIFORM,  /* 1 … 2 * mean - 1 destinations */
    TRAFFIC_LAW_BINOMIAL, /* each other node with the same probability; no set is empty */
    TRAFFIC_LAW_FIXED,    /* the mean, or one of the two whole numbers next to it */
    TRAFFIC_LAWS
};

/** traffic_law_name - its name as in --fanout-law. Pure. */
const char *traffic_law_name(enum traffic_law law);

struct traffic_sets_config {
    uint32_t nodes;
    const bool *sends; /* by node */
    double fanout;     /* mean destinations of a set */
    enum traffic_law law;
    uint32_t per_source; /* sets that each source chooses from */
    uint64_t seed;
};

/* The sets of source @i are numbers i * per_source … (i + 1) * per_source - 1. */
struct traffic_sets {
    uint32_t sources;
    uint32_t per_source;
    uint32_t count;      /* sets of all sources */
    uint32_t *source;    /* by set: the node that sends to it */
    uint32_t *first;     /* by set, and one more: where in member[] its destinations begin */
    uint32_t *member;    /* nodes, in random order, never the source */
    uint32_t *group;     /* by set: its collective address, once there is one */
    uint32_t fanout_max; /* destinations of the largest set */
};

/**
 * traffic_sets_draw - draw every source's sets, from the seed alone.
 * Errors: -EINVAL, no such mean with so many nodes; -ENOMEM; with one line in @error.
 */
int traffic_sets_draw(struct traffic_sets *ret, const struct traffic_sets_config *config,
                      char *error, size_t error_bytes);

void traffic_sets_release(struct traffic_sets *sets);

static inline uint32_t traffic_sets_fanout(const struct traffic_sets *sets, uint32_t set)
{
    return sets->first[set + 1] - sets->first[set];
}

#endif
