/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h - a run of an open loop; for open.c and open_build.c only.
 */
#ifndef APPS_TRAFFIC_OPEN_H
#define APPS_TRAFFIC_OPEN_H

#include "apps/traffic/internal.h"
#include "apps/traffic/workload/node.h"

struct open_run {
    struct traffic_run *run;
    struct traffic_nodes nodes;
    struct traffic_sets sets;
    struct traffic_pattern drawn; /* TRAFFIC_PERMUTATION: the drawn permutation */
    const struct traffic_pattern *pattern;
    bool *sends;                       /* by node */
    uint8_t *links;                    /* by node, as traffic_plan.links */
    uint64_t all_links;                /* of the senders */
    struct traffic_pending multicasts; /* incomplete multicasts */
    uint64_t complete;                 /* number of complete multicasts */
    struct traffic_stats *completion;
    struct traffic_stats *total;  /* of all workers and hosts: merge() */
    struct traffic_stats *other;  /* buffer for another host's */
    bool no_memory;               /* for the logs of other hosts */
    bool invalid;                 /* another host has logged an impossible message */
    uint64_t longest_ps;          /* latency without load over the longest route */
    uint64_t end_ps;              /* of the measurement */
    bool given;                   /* phases are given: measure once */
    uint64_t measured;            /* messages born in the measurement */
    struct traffic_counts counts; /* at the end of the last batch */
    double offered[TRAFFIC_BATCHES];
    double accepted[TRAFFIC_BATCHES];
    double growth[TRAFFIC_BATCHES]; /* in the drain: of the latest batches */
};

/*
 * open_build.c: number of links into the network, of all nodes (@sends: NULL) or of the senders;
 * @ret: by node, 0 for the others; may be NULL.
 */
uint64_t traffic_open_links(const struct topo_graph *graph, const bool *sends, uint8_t *ret);

/* open_build.c: choose senders, destinations and phases; build the fabric, its nodes and groups. */
int traffic_open_build(struct open_run *open);

#endif
