/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_nodes.h - nodes inside the fabric that load it with uniform traffic.
 */
#ifndef APPS_BENCH_NODES_H
#define APPS_BENCH_NODES_H

#include "apps/fabric.h"

struct bench_node;

struct bench_nodes {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    uint32_t nodes;
    bool complement; /* all segments of a node go to the opposite one; else uniform */
    uint64_t seed;
    struct bench_node **node;
};

int bench_nodes_init(struct bench_nodes *all, uint32_t nodes, bool complement, uint64_t seed);
/** bench_nodes_free - after fabric_stop(). */
void bench_nodes_free(struct bench_nodes *all);

#endif
