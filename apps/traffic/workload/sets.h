/* SPDX-License-Identifier: BSD-3-Clause */
/* sets.h - choose which nodes send, and draw the destination sets of multicasts. */
#ifndef APPS_TRAFFIC_WORKLOAD_SETS_H
#define APPS_TRAFFIC_WORKLOAD_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- sources ------------------------------------------------------------------------ */

enum traffic_spread {
    TRAFFIC_SPREAD_EVEN,  /* at equal distances */
    TRAFFIC_SPREAD_FIRST, /* nodes 0 … count - 1 */
    TRAFFIC_SPREAD_RANDOM
};

struct traffic_sources {
    enum traffic_spread spread;
    uint32_t count; /* 0: all nodes */
};

/** traffic_sources_parse - parse "N", "first:N" or "random:N". Returns false if it is invalid. */
bool traffic_sources_parse(struct traffic_sources *ret, const char *text);

/** traffic_sources_choose - set @sends, by node. sources->count must be at most @nodes. */
void traffic_sources_choose(const struct traffic_sources *sources, uint64_t seed, uint32_t nodes,
                            bool *sends);

/* --- destination sets --------------------------------------------------------------- */

enum traffic_distribution {
    TRAFFIC_DISTRIBUTION_UNIFORM, /* 1 … 2 * mean - 1 destinations, all sizes equally likely */
    /* each other node with the same probability; empty sets are redrawn */
    TRAFFIC_DISTRIBUTION_BINOMIAL,
    TRAFFIC_DISTRIBUTION_FIXED, /* the mean, rounded up or down at random */
    TRAFFIC_DISTRIBUTIONS
};

/** traffic_distribution_name - return the distribution's name, as in --fanout-law. Pure. */
const char *traffic_distribution_name(enum traffic_distribution law);

struct traffic_sets_config {
    uint32_t nodes;
    const bool *sends; /* by node */
    double fanout;     /* mean number of destinations of a set */
    enum traffic_distribution law;
    /* number of sets of each source, which chooses among them for each message */
    uint32_t per_source;
    uint64_t seed;
};

/* Source number i has the sets i * per_source … (i + 1) * per_source - 1. */
struct traffic_sets {
    uint32_t sources;
    uint32_t per_source;
    uint32_t count;   /* number of sets of all sources */
    uint32_t *source; /* by set: the node that sends to it */
    /* by set: index of its first node in member[]; one more entry holds the end of the last set */
    uint32_t *first;
    uint32_t *member;    /* destinations of all sets, without the source, in random order */
    uint32_t *group;     /* by set: collective address of its group, when that exists */
    uint32_t fanout_max; /* number of destinations of the largest set */
};

/**
 * traffic_sets_draw - draw the sets of all sources. The same @config always gives the same sets.
 * Errors: -EINVAL, the mean is impossible with this number of nodes; -ENOMEM; one line in @error.
 */
int traffic_sets_draw(struct traffic_sets *ret, const struct traffic_sets_config *config,
                      char *error, size_t error_bytes);

void traffic_sets_release(struct traffic_sets *sets);

static inline uint32_t traffic_sets_fanout(const struct traffic_sets *sets, uint32_t set)
{
    return sets->first[set + 1] - sets->first[set];
}

#endif
