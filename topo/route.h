/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.h - how routes are computed: first paths (route.c), then tables (table.c). Inside topo/
 * only.
 */
#ifndef TOPO_ROUTE_H
#define TOPO_ROUTE_H

#include "topo/graph.h"

/* in place of a set of ports: the cluster's nodes are plugged into this switch */
#define ROUTE_HERE        emu_port(EMU_PORTS_MAX - 1)
#define ROUTE_UNREACHABLE UINT16_MAX /* in place of a distance: there is no path */

/* A cluster: all nodes that are plugged into the same switches. */
struct cluster {
    uint32_t sw[TOPO_NODE_LINKS_MAX]; /* these switches, ascending, each once */
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

/* A cable, as one of its switches sees it. */
struct cable {
    uint32_t sw;
    uint32_t port; /* port of the switch that lists the cable */
};

/* The cables of all switches, sorted for the search for shortest paths. */
struct paths {
    uint32_t *order; /* switches by level, ascending */
    /* of switch s: cables down from first[2 * s] on, cables up from first[2 * s + 1] on */
    struct cable *cable;
    uint32_t *first; /* 2 * switches + 1 elements */
    emu_ports *down; /* by switch: ports down, including those to nodes */
    uint16_t *hops;  /* by switch: distance to the current cluster, or ROUTE_UNREACHABLE */
};

/**
 * topo_paths_new - sort the cables by the levels of their ends. @level: by switch. Errors: -ENOMEM.
 */
int topo_paths_new(struct paths *ret, const struct topo_graph *graph, const uint32_t *level);
void topo_paths_free(struct paths *paths);

/**
 * topo_paths_find - find the shortest paths from all switches to cluster @to: paths->hops[]. @sets:
 * NULL, or gets the candidate ports of switch s in element s * @stride.
 */
void topo_paths_find(const struct paths *paths, const struct topo_graph *graph,
                     const struct cluster *to, emu_ports *sets, size_t stride);

/**
 * tables_make - make routing tables from candidate ports. @sets: has those of switch s for cluster
 * c in element s * clusters->count + c. Errors: -ENOMEM, -E2BIG.
 */
int tables_make(struct topo_graph *graph, const struct clusters *clusters,
                const struct paths *paths, const emu_ports *sets);

#endif
