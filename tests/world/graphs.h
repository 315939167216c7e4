/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graphs.h - what tests of graphs share: graphs, walks, and what is wrong with a tree. All that is
 * made is the caller's to free.
 */
#ifndef TESTS_WORLD_GRAPHS_H
#define TESTS_WORLD_GRAPHS_H

#include "topo/topo.h"

/** graph_of - a network that must be a good one. */
struct topo_graph *graph_of(const char *spec);
/* What a specification makes. */
struct graph_size {
    const char *spec, *canonical;
    uint32_t nodes, switches, ports, levels;
    uint32_t longest; /* way from node to node, in switches */
};
/** graph_counts - is each of these networks as large as its row says, and a good one? */
void graph_counts(const struct graph_size *rows, size_t count);
/**
 * graph_passes - does topo_check() find nothing? It says a line if, and only if, it finds
 * something.
 */
bool graph_passes(const struct topo_graph *graph);

/** graph_walk_from - switches from @sw on to @dst, by any candidate at each of them; 0: lost. */
uint32_t graph_walk_from(const struct topo_graph *graph, uint32_t sw, uint32_t dst,
                         uint64_t *random);
/** graph_walk - the same, from the first link of @src. */
uint32_t graph_walk(const struct topo_graph *graph, uint32_t src, uint32_t dst, uint64_t *random);

/** graph_members - all nodes, a random set of @count of them first, in random order. */
uint32_t *graph_members(const struct topo_graph *graph, uint32_t count, uint64_t *random);

/** graph_tree_at - where the tree uses switch @sw; NULL: it does not. */
const struct topo_tree_switch *graph_tree_at(const struct topo_tree *tree, uint32_t sw);
/**
 * graph_tree_faults - what is wrong with a tree of these members. Every switch climbs to the top,
 * so the tree is connected; with one cable less than switches it has no cycle. Only `up` leads up.
 */
uint32_t graph_tree_faults(const struct topo_graph *graph, const struct topo_tree *tree,
                           const uint32_t *members, uint32_t count);

#endif
