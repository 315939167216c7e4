/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.h - the making of routes: ways (route.c), then tables (table.c). Inside topo/ only.
 */
#ifndef TOPO_ROUTE_H
#define TOPO_ROUTE_H

#include "topo/graph.h"

#define ROUTE_HERE emu_port(EMU_PORTS_MAX - 1) /* instead of a set: it is plugged in here */
#define ROUTE_FAR  UINT16_MAX                  /* a distance: there is no way */

/* Nodes that are plugged into the same switches. */
struct cluster {
    uint32_t sw[TOPO_NODE_LINKS_MAX]; /* ascending, each once */
    uint32_t switches;
    uint32_t seats; /* nodes */
    uint32_t next;  /* cluster with the same first switch, or TOPO_NONE */
};

struct clusters {
    struct cluster *at;
    uint32_t count;
    uint32_t *where; /* by node: cluster << TOPO_SEAT_BITS | seat */
};

/**
 * clusters_find - put the nodes into clusters, in the order of their first nodes. Errors: -ENOMEM.
 */
int clusters_find(struct clusters *ret, const struct topo_graph *graph);
void clusters_free(struct clusters *clusters);

/* A cable to a switch, seen from the other one. */
struct way {
    uint32_t sw;
    uint32_t port; /* here */
};

/* The cables of all switches, by the order in which ways are found. */
struct ways {
    uint32_t *order; /* switches by level, ascending */
    struct way *way; /* of switch s: down from first[2 * s], up from first[2 * s + 1] */
    uint32_t *first; /* 2 * switches + 1 */
    emu_ports *down; /* by switch: ports down, those to nodes included */
    uint16_t *hops;  /* by switch: to the cluster at hand, ROUTE_FAR if there is no way */
};

/** ways_new - sort the cables by @level of their ends. Errors: -ENOMEM. */
int ways_new(struct ways *ret, const struct topo_graph *graph, const uint32_t *level);
void ways_free(struct ways *ways);

/**
 * ways_find - shortest ways to a cluster, first down as far as that leads, then up.
 * @sets: where the candidates of switch s go, at s * @stride; or NULL.
 */
void ways_find(const struct ways *ways, const struct topo_graph *graph, const struct cluster *to,
               emu_ports *sets, size_t stride);

/**
 * tables_make - routes from the candidates of every switch for every cluster.
 * @sets: of switch s for cluster c, at s * clusters->count + c.
 * Errors: -ENOMEM, -E2BIG.
 */
int tables_make(struct topo_graph *graph, const struct clusters *clusters, const struct ways *ways,
                const emu_ports *sets);

#endif
