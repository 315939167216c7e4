/* SPDX-License-Identifier: BSD-3-Clause */
/* route.h - routes are computed as paths (route.c), then as tables (table.c). Inside topo/ only. */
#ifndef TOPO_ROUTE_H
#define TOPO_ROUTE_H

#include "topo/graph.h"

/*
 * Stands for the candidate ports of a switch for a cluster whose nodes are plugged into that
 * switch. tables_make() replaces it with the ports to each node.
 */
#define ROUTE_HERE        emu_port(EMU_PORTS_MAX - 1)
#define ROUTE_UNREACHABLE UINT16_MAX /* instead of a distance: there is no path */

/* A cluster: all nodes that are plugged into the same switches. */
struct cluster {
    uint32_t sw[TOPO_NODE_LINKS_MAX]; /* in ascending order, without repetitions */
    uint32_t switches;
    uint32_t members; /* number of nodes in the cluster */
    uint32_t next;    /* next cluster with the same first switch, or TOPO_NONE */
};

struct clusters {
    struct cluster *at;
    uint32_t count;
    uint32_t *where; /* by node: its cluster << TOPO_MEMBER_BITS | its index in the cluster */
};

/** clusters_find - group nodes into clusters, ordered by their first nodes. Errors: -ENOMEM. */
int clusters_find(struct clusters *ret, const struct topo_graph *graph);
void clusters_free(struct clusters *clusters);

/* A cable in the list of one of its switches. */
struct cable {
    uint32_t sw;   /* the other switch */
    uint32_t port; /* port of the switch that has the list */
};

/* The cables of all switches, sorted for the search for shortest paths. */
struct paths {
    uint32_t *order;     /* switches by level, ascending */
    struct cable *cable; /* by switch: its cables down, then its cables up */
    uint32_t *first; /* index of the first cable of switch s: down in [2 * s], up in [2 * s + 1] */
    emu_ports *down; /* by switch: ports down, including those to nodes */
    uint16_t *hops;  /* by switch: distance to the current cluster, or ROUTE_UNREACHABLE */
};

/** topo_paths_new - list the cables of all switches. @level: by switch. Errors: -ENOMEM. */
int topo_paths_new(struct paths *ret, const struct topo_graph *graph, const uint32_t *level);
void topo_paths_free(struct paths *paths);

/**
 * topo_paths_find - find the shortest paths from all switches to cluster @to. Sets paths->hops[].
 * @sets: gets the candidate ports of switch s in element s * @stride; may be NULL.
 */
void topo_paths_find(const struct paths *paths, const struct topo_graph *graph,
                     const struct cluster *to, emu_ports *sets, size_t stride);

/**
 * tables_make - make routing tables from candidate ports. @sets: element s * clusters->count + c
 * has the ports of switch s for cluster c. Errors: -ENOMEM, -E2BIG.
 */
int tables_make(struct topo_graph *graph, const struct clusters *clusters,
                const struct paths *paths, const emu_ports *sets);

#endif
