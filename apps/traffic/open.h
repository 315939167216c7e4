/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h - an open-loop run, in which sources send whether or not the network keeps up. Only open.c
 * and open_build.c include it. A message is *born* when its source generates it.
 */
#ifndef APPS_TRAFFIC_OPEN_H
#define APPS_TRAFFIC_OPEN_H

#include "apps/traffic/internal.h"
#include "apps/traffic/workload/node.h"

struct open_run {
    struct traffic_run *run;
    struct traffic_nodes nodes;
    struct traffic_sets sets;
    struct traffic_pattern drawn; /* TRAFFIC_PERMUTATION: the permutation that was drawn */
    const struct traffic_pattern *pattern;
    bool *sends;                       /* by node: it is a sender */
    uint8_t *links;                    /* by node, as traffic_plan.links */
    uint64_t all_links;                /* number of links of all senders */
    struct traffic_pending multicasts; /* incomplete multicasts */
    uint64_t complete;                 /* number of complete multicasts */
    struct traffic_stats *completion;
    struct traffic_stats *total; /* sum over all workers and hosts, computed by merge() */
    struct traffic_stats *other; /* buffer for another host's statistics */
    bool no_memory;              /* memory was missing for the log of another host */
    bool invalid;                /* another host has sent or logged an impossible message */
    /* latency of a message on the longest route without other traffic */
    uint64_t longest_ps;
    uint64_t end_ps;              /* end of the measurement */
    bool given;                   /* the user has set the phases, so measure only once */
    uint64_t measured;            /* messages born in the measurement */
    struct traffic_counts counts; /* message counts at the end of the latest batch */
    double offered[TRAFFIC_BATCHES];
    double accepted[TRAFFIC_BATCHES];
    double growth[TRAFFIC_BATCHES]; /* growth of the backlog, by batch; a ring during the drain */
};

/*
 * open_build.c: return the number of links into the network of all nodes, or of the senders if
 * @sends is not NULL. @ret: set to the number of links of each node (0: no sender); may be NULL.
 */
uint64_t traffic_open_links(const struct topo_graph *graph, const bool *sends, uint8_t *ret);

/* open_build.c: choose senders, destinations and phases; build the fabric, its nodes and groups. */
int traffic_open_build(struct open_run *open);

#endif
