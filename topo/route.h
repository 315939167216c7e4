/* SPDX-License-Identifier: BSD-3-Clause */
/* route.h - computing routes: paths (route.c), then tables (table.c). Inside topo/ only. */
#ifndef TOPO_ROUTE_H
#define TOPO_ROUTE_H

#include "topo/graph.h"

#define ROUTE_HERE        emu_port(EMU_PORTS_MAX - 1) /* in place of a set: plugged in here */
#define ROUTE_UNREACHABLE UINT16_MAX                  /* a distance: no path */

/* Nodes with the same switches. */
struct cluster {
    uint32_t sw[TOPO_NODE_LINKS_MAX]; /* ascending, each once */
    uint32_t switches;
    uint32_t members; /* nodes */
    uint32_t next;    /* cluster with the same first switch, or TOPO_NONE */
};

struct clusters {
    struct cluster *at;
    uint32_t count;
    uint32_t *where; /* by node: cluster << TOPO_MEMBER_BITS | index in it */
};

/** clusters_find - group nodes into clusters, ordered by their first nodes. Errors: -ENOMEM. */
int clusters_find(struct clusters *ret, const struct topo_graph *graph);
void clusters_free(struct clusters *clusters);

/* A cable of a switch. */
struct cable {
    uint32_t sw;
    uint32_t port; /* on this side */
};

/* The cables of all switches, sorted for finding paths. */
struct paths {
    uint32_t *order;     /* switches by level, ascending */
    struct cable *cable; /* of switch s: down from first[2 * s], up from first[2 * s + 1] */
    uint32_t *first;     /* 2 * switches + 1 elements */
    emu_ports *down;     /* by switch: ports down, those to nodes included */
    uint16_t *hops;      /* by switch: to the current cluster; ROUTE_UNREACHABLE: no path */
};

/** topo_paths_new - sort the cables by @level of their ends. Errors: -ENOMEM. */
int topo_paths_new(struct paths *ret, const struct topo_graph *graph, const uint32_t *level);
void topo_paths_free(struct paths *paths);

/** topo_paths_find - shortest paths to a cluster. @sets: NULL, or candidates at s * @stride. */
void topo_paths_find(const struct paths *paths, const struct topo_graph *graph,
                     const struct cluster *to, emu_ports *sets, size_t stride);

/**
 * tables_make - make routes from candidates. @sets: of switch s for cluster c at s *
 * clusters->count + c. Errors: -ENOMEM, -E2BIG.
 */
int tables_make(struct topo_graph *graph, const struct clusters *clusters,
                const struct paths *paths, const emu_ports *sets);

#endif
