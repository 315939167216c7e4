/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.h - a run of an open loop, for open.c and open_build.c only.
 */
#ifndef APPS_TRAFFIC_OPEN_H
#define APPS_TRAFFIC_OPEN_H

#include "apps/traffic/inside.h"
#include "apps/traffic/workload/node.h"

struct open_run {
    struct traffic_run *run;
    struct traffic_nodes nodes;
    struct traffic_sets sets;
    struct traffic_pattern drawn; /* TRAFFIC_PERMUTATION: whoever sends to whom */
    const struct traffic_pattern *pattern;
    bool *sends;                       /* by node */
    uint8_t *links;                    /* by node, as traffic_plan.links */
    uint64_t all_links;                /* of the senders */
    struct traffic_pending multicasts; /* that are not complete */
    struct traffic_stats *completion;
    struct traffic_stats *total;  /* of all workers, once it is asked for */
    struct traffic_stats *other;  /* several hosts: another one's */
    bool no_memory;               /* for what other hosts have logged */
    bool strange;                 /* another host has logged an impossible message */
    uint64_t longest_ps;          /* latency without load over the longest route */
    uint64_t end_ps;              /* of the measurement */
    bool given;                   /* the phases are: measure once */
    uint64_t measured;            /* messages born in it */
    struct traffic_counts counts; /* of messages, at the end of the last batch */
    double offered[TRAFFIC_BATCHES];
    double accepted[TRAFFIC_BATCHES];
    double growth[TRAFFIC_BATCHES]; /* in the drain, of the batches since */
};

/*
 * open_build.c: links into the network: of all nodes, or of those that send; @ret: by
 * node, 0 for the others.
 */
uint64_t traffic_open_links(const struct topo_graph *graph, const bool *sends, uint8_t *ret);

/* open_build.c: who sends what to whom, the fabric, its nodes and groups. */
int traffic_open_build(struct open_run *open);

#endif
