/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo_kit.h - what tests of graphs share: graphs, walks, and what is wrong with a tree.
 */
#ifndef TESTS_TOPO_KIT_H
#define TESTS_TOPO_KIT_H

#include <errno.h>
#include <string.h>

#include "tests/test.h"
#include "topo/topo.h"

static inline struct topo_graph *graph_of(const char *spec)
{
    struct topo_graph *graph = NULL;
    char error[1280] = "";

    if (topo_parse(&graph, spec, error, sizeof(error))) {
        printf("%s\n", error);
        CU_FAIL_FATAL("a good topology was refused");
    }
    return graph;
}

static inline bool check_passes(const struct topo_graph *graph)
{
    char error[1280] = "";
    int err = topo_check(graph, NULL, error, sizeof(error));

    CU_ASSERT_EQUAL(err != 0, error[0] != '\0');
    CU_ASSERT_PTR_NULL(strchr(error, '\n'));
    return err == 0;
}

/* Switches from @sw on to @dst, by any candidate at each of them; 0: lost. */
static inline uint32_t walk_from(const struct topo_graph *graph, uint32_t sw, uint32_t dst,
                                 uint64_t *random)
{
    for (uint32_t hops = 1; hops < 2 * graph->levels; hops++) {
        uint64_t set = topo_route_ports(&graph->sw[sw].route, dst);

        if (!set)
            return 0;
        uint64_t skip = test_random(random) % (uint64_t)__builtin_popcountll(set);
        for (; skip; skip--)
            set &= set - 1;
        const struct topo_end *end = &graph->sw[sw].end[__builtin_ctzll(set)];
        if (end->kind == TOPO_END_NODE)
            return end->id == dst ? hops : 0;
        sw = end->id;
    }
    return 0;
}

/* The same, from the first link of @src. */
static inline uint32_t walk(const struct topo_graph *graph, uint32_t src, uint32_t dst,
                            uint64_t *random)
{
    return walk_from(graph, graph->node[src].link[0].sw, dst, random);
}

/* A random set of @count nodes, in random order. */
static inline uint32_t *members_of(const struct topo_graph *graph, uint32_t count, uint64_t *random)
{
    uint32_t *node = calloc(graph->nodes, sizeof(*node));

    for (uint32_t i = 0; i < graph->nodes; i++)
        node[i] = i;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = i + (uint32_t)(test_random(random) % (graph->nodes - i));
        uint32_t was = node[i];

        node[i] = node[j];
        node[j] = was;
    }
    return node;
}

static inline const struct topo_tree_switch *tree_at(const struct topo_tree *tree, uint32_t sw)
{
    for (uint32_t i = 0; i < tree->count; i++)
        if (tree->switches[i].sw == sw)
            return &tree->switches[i];
    return NULL;
}

/* Follow up ports from @at: does the top come within the graph's levels? */
static inline bool climbs_to_top(const struct topo_graph *graph, const struct topo_tree *tree,
                                 const struct topo_tree_switch *at)
{
    for (uint32_t level = 0; at && level < graph->levels; level++) {
        if (at->up < 0)
            return at == &tree->switches[0];
        at = tree_at(tree, graph->sw[at->sw].end[at->up].id);
    }
    return false;
}

/*
 * Faults of the tree. Every switch climbs to the top, so the tree is connected;
 * with one cable less than switches it has no cycle. Only `up` leads up.
 */
static inline uint32_t tree_faults(const struct topo_graph *graph, const struct topo_tree *tree,
                                   const uint32_t *members, uint32_t count)
{
    uint32_t faults = 0, cable_ends = 0, leaves = 0;
    uint8_t *is_leaf = calloc(graph->nodes, 1);

    for (uint32_t i = 0; i < tree->count; i++) {
        const struct topo_tree_switch *at = &tree->switches[i];

        faults += at != tree_at(tree, at->sw);              /* a switch stands there once */
        faults += __builtin_popcountll(at->ports) < 2;      /* no dangling switch */
        faults += (at->up < 0) != (i == 0);
        faults += at->up >= 0 && !(at->ports >> at->up & 1);
        faults += !climbs_to_top(graph, tree, at);
        for (uint64_t set = at->ports; set; set &= set - 1) {
            const struct topo_end *end = &graph->sw[at->sw].end[__builtin_ctzll(set)];

            if (end->kind == TOPO_END_NODE) {
                faults += is_leaf[end->id]++;
                leaves++;
                continue;
            }
            const struct topo_tree_switch *far = tree_at(tree, end->id);
            faults += end->kind != TOPO_END_SWITCH || !far || !(far->ports >> end->port & 1);
            faults += (graph->sw[end->id].level > graph->sw[at->sw].level) !=
                      (at->up == __builtin_ctzll(set));
            cable_ends++;
        }
    }
    faults += cable_ends != 2 * (tree->count - 1);
    faults += leaves != count;
    for (uint32_t i = 0; i < count; i++)
        faults += !is_leaf[members[i]];
    free(is_leaf);
    return faults;
}

#endif
