/* SPDX-License-Identifier: BSD-3-Clause */
/* pattern.h - traffic patterns: which node sends to which, parsed from --pattern. */
#ifndef APPS_TRAFFIC_WORKLOAD_PATTERN_H
#define APPS_TRAFFIC_WORKLOAD_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/traffic/workload/random.h"
#include "topo/topo.h"

#define TRAFFIC_NOBODY UINT32_MAX /* instead of a destination: the node sends nothing */

enum traffic_kind {
    TRAFFIC_FIXED,       /* each node sends to one other node, which is in to[] */
    TRAFFIC_PERMUTATION, /* the same with random destinations, see traffic_pattern_draw() */
    TRAFFIC_UNIFORM,     /* to a random other node */
    TRAFFIC_HOTSPOT,     /* a fraction of messages to one node, the rest to random other nodes */
    TRAFFIC_ALLTOALL,    /* round robin to all other nodes, beginning with the sender's successor */
    TRAFFIC_MULTICAST,   /* to destination sets: workload/sets.h */
    TRAFFIC_COLLECTIVE   /* reductions and barriers: workload/coll.h */
};

enum traffic_collective { TRAFFIC_REDUCE, TRAFFIC_BARRIER, TRAFFIC_ALLREDUCE };

struct traffic_pattern {
    enum traffic_kind kind;
    enum traffic_collective collective;
    bool md; /* TRAFFIC_MULTICAST: with the parameters of the molecular-dynamics benchmark */
    uint32_t nodes;
    /* TRAFFIC_FIXED: destination, by node; TRAFFIC_NOBODY: the node sends nothing */
    uint32_t *to;
    uint32_t number; /* TRAFFIC_PERMUTATION: selects one of the seed's permutations */
    uint32_t hot;    /* TRAFFIC_HOTSPOT: the hot node */
    /* TRAFFIC_HOTSPOT: fraction of the messages to the hot node, in units of 2^-32 */
    uint32_t share;
};

/**
 * traffic_pattern_parse - parse @text for a network of 2 or more nodes: "uniform",
 * "transpose", "reversal", "complement", "tornado", "neighbour", "permutation[:NUMBER]",
 * "alltoall", "hotspot[:NODE[:FRACTION]]", "file:PATH", "multicast", "md", "reduce", "barrier" or
 * "allreduce". A node is a number or a name in the network's file.
 * Errors: -EINVAL, -ENOMEM, or an error of reading the file, with one line in @error.
 */
int traffic_pattern_parse(struct traffic_pattern *ret, const char *text,
                          const struct topo_graph *graph, char *error, size_t error_bytes);

void traffic_pattern_release(struct traffic_pattern *pattern);

/**
 * traffic_pattern_draw - draw a TRAFFIC_FIXED pattern for a TRAFFIC_PERMUTATION, uniformly among
 * the permutations in which no node sends to itself. The caller releases it. The result depends
 * only on the arguments. Errors: -ENOMEM.
 */
int traffic_pattern_draw(struct traffic_pattern *ret, const struct traffic_pattern *pattern,
                         uint64_t seed);

/** traffic_other - draw a node other than @self, uniformly. */
static inline uint32_t traffic_other(struct traffic_random *random, uint32_t nodes, uint32_t self)
{
    uint32_t node = traffic_random_below(random, nodes - 1);

    return node + (node >= self);
}

/**
 * traffic_hot_or_other - draw a destination: with probability pattern->share the hot node,
 * otherwise any node except @self.
 */
static inline uint32_t traffic_hot_or_other(const struct traffic_pattern *pattern,
                                            struct traffic_random *random, uint32_t self)
{
    if (self != pattern->hot && (uint32_t)traffic_random_next(random) < pattern->share)
        return pattern->hot;
    return traffic_other(random, pattern->nodes, self);
}

/** traffic_next_in_turn - return the node after @last, round robin, skipping @self. */
static inline uint32_t traffic_next_in_turn(uint32_t nodes, uint32_t self, uint32_t last)
{
    uint32_t node = last + 1 == nodes ? 0 : last + 1;

    if (node == self)
        node = node + 1 == nodes ? 0 : node + 1;
    return node;
}

#endif
