/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nodes.h - nodes inside the fabric that load it as fast as it takes segments.
 */
#ifndef APPS_BENCH_NODES_H
#define APPS_BENCH_NODES_H

#include "apps/fabric/fabric.h"

struct bench_node;

/* What each node sends, without end. */
struct bench_traffic {
    uint32_t within; /* to the opposite node of its block of so many; 0: to any, drawn */
    uint32_t run;    /* segments in a row to one destination */
    uint32_t bytes;  /* payload of each */
};

struct bench_nodes {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    uint32_t nodes;
    struct bench_traffic traffic;
    uint64_t seed;
    struct bench_node **node;
};

/** bench_nodes_init - before fabric_start(). Errors: -ENOMEM. */
int bench_nodes_init(struct bench_nodes *all, uint32_t nodes, const struct bench_traffic *traffic,
                     uint64_t seed);
/** bench_nodes_free - after fabric_stop(). */
void bench_nodes_free(struct bench_nodes *all);

#endif
