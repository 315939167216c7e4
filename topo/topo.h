/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo.h - graphs of nodes, switches and cables; routes; collective trees.
 *
 * Pure functions on data: no threads, no clocks. A graph does not change once
 * it is built and may then be read by any thread.
 */
#ifndef TOPO_TOPO_H
#define TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPO_NONE UINT32_MAX
#define TOPO_PORTS_MAX 60 /* external ports of a switch: leaves bits for combine units */

enum topo_end_kind {
    TOPO_END_NONE, /* nothing plugged in */
    TOPO_END_NODE,
    TOPO_END_SWITCH
};

/* What sits at the far end of a port. */
struct topo_end {
    uint8_t kind;  /* enum topo_end_kind */
    uint8_t port;  /* far port, when the far end is a switch */
    uint32_t id;   /* node or switch */
};

/*
 * How a switch finds its way: destinations [first, first + span) lie below it,
 * in blocks of stride nodes, one port set a block; every other destination has
 * the set `elsewhere` (all up ports). A set is a bit vector of candidate ports.
 */
struct topo_route {
    uint32_t first;     /* nodes */
    uint32_t span;      /* nodes; a multiple of stride */
    uint32_t stride;    /* nodes a block, at least 1 */
    uint64_t elsewhere; /* candidate ports; 0: unreachable */
    uint64_t *sets;     /* span / stride of them; switches may share them */
};

struct topo_switch {
    uint32_t level;       /* 0 next to the nodes */
    struct topo_end *end; /* graph->ports of them */
    struct topo_route route;
};

struct topo_node {
    uint32_t sw;  /* the switch it is plugged into */
    uint8_t port; /* and the port there */
};

struct topo_graph {
    char spec[64];     /* canonical SPEC, such as "kary:4,2" */
    uint32_t nodes;
    uint32_t switches;
    uint32_t ports;    /* external ports of each switch */
    uint32_t levels;
    struct topo_switch *sw;  /* switches of them */
    struct topo_node *node;  /* nodes of them */
    void *slab;              /* what the arrays above lie in */
    size_t bytes;            /* memory that the graph takes */
};

/**
 * topo_parse - build the graph that a SPEC names.
 * @spec:  "kary:k,n": a k-ary n-tree (k^n nodes; n levels of k^(n-1) switches,
 *         ports 0..k-1 down, k..2k-1 up; the top level's up ports are empty,
 *         and a tree of one level has none).
 * @error: on failure, one line for the user that says what is wrong with the
 *         SPEC and what would be right.
 *
 * Errors: -EINVAL, the SPEC is wrong; -ENOMEM; -E2BIG, beyond what can be addressed.
 * Source: output-queued routers §2.2; Petrini and Vanneschi, k-ary n-trees.
 */
int topo_parse(struct topo_graph **ret, const char *spec, char *error, size_t error_bytes);

/**
 * topo_spec_for_nodes - the SPEC of a tree with room for @nodes nodes.
 * Two levels as long as the radix allows (k up to 16), then more levels of
 * k = 16. Errors: -EINVAL with one line in @error.
 */
int topo_spec_for_nodes(uint32_t nodes, char *spec, size_t spec_bytes, char *error,
                        size_t error_bytes);

void topo_free(struct topo_graph *graph);

/**
 * topo_route_ports - candidate output ports towards node @dst, 0 if none.
 *
 * Inline: the switch's hot path.
 */
static inline uint64_t topo_route_ports(const struct topo_route *route, uint32_t dst)
{
    uint32_t off = dst - route->first; /* wraps to a large number when below first */

    if (off >= route->span)
        return route->elsewhere;
    return route->sets[route->stride == 1 ? off : off / route->stride];
}

/**
 * topo_check - verify a graph: cables symmetric, every route reaches its node
 * without a cycle, whichever candidates are chosen on the way.
 *
 * Cost:   one look at each port and each port set.
 * Errors: -EINVAL with one line in @error.
 */
int topo_check(const struct topo_graph *graph, char *error, size_t error_bytes);

/** topo_hops - switches on the path between two nodes by the lowest candidates, 0 if none. */
uint32_t topo_hops(const struct topo_graph *graph, uint32_t src, uint32_t dst);

/* One switch of a collective tree. */
struct topo_tree_switch {
    uint32_t sw;
    int8_t up;      /* port towards the tree's top switch, -1 at the top itself */
    uint64_t ports; /* every port of the tree at this switch, up included */
};

/* A collective tree: undirected; switches[0] is the top. */
struct topo_tree {
    uint32_t count;
    struct topo_tree_switch *switches;
};

/**
 * topo_tree_build - the paper's buildTree (§2.1), its traps mended: climb from
 * the first member's switch to one that spans all members, by the least loaded
 * parent, then descend to the members; both ends of every tree edge are set once.
 * @members: node ids, distinct, at least 2.
 * @load:    per switch, trees through it; read only: see topo_tree_charge().
 *
 * Errors: -EINVAL, a member is out of range, repeated or unreachable; -ENOMEM.
 * Ties among equally loaded parents go to the lowest port: same input, same tree.
 */
int topo_tree_build(struct topo_tree *tree, const struct topo_graph *graph,
                    const uint32_t *members, uint32_t count, const uint32_t *load);

/** topo_tree_charge - add @delta (+1 or -1) to the load of each switch of the tree. */
void topo_tree_charge(const struct topo_tree *tree, uint32_t *load, int delta);

void topo_tree_release(struct topo_tree *tree);

/**
 * topo_partition - which of @workers workers steps each switch, by locality:
 * switches that exchange most traffic share a worker; sizes differ by one at most.
 * @workers:   at least 1; those beyond the number of switches get none.
 * @worker_of: graph->switches of them, written.
 */
void topo_partition(const struct topo_graph *graph, uint32_t workers, uint32_t *worker_of);

#endif
