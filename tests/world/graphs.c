/* SPDX-License-Identifier: BSD-3-Clause */
/* graphs.c - see graphs.h. */
#include "tests/world/graphs.h"

#include <string.h>

#include "emu/util/bits.h"
#include "tests/test.h"

struct topo_graph *graph_of(const char *spec)
{
    struct topo_graph *graph = NULL;
    char error[1280] = "";

    if (topo_parse(&graph, spec, error, sizeof error)) {
        printf("%s\n", error);
        CU_FAIL_FATAL("a good topology was refused");
    }
    return graph;
}

bool graph_passes(const struct topo_graph *graph)
{
    char error[1280] = "";
    int err = topo_check(graph, NULL, error, sizeof error);

    CU_ASSERT_EQUAL(err != 0, error[0] != '\0');
    CU_ASSERT_PTR_NULL(strchr(error, '\n'));
    return err == 0;
}

void graph_counts(const struct graph_size *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct topo_graph *graph = graph_of(rows[i].spec);

        CU_ASSERT_STRING_EQUAL(graph->spec, rows[i].canonical);
        CU_ASSERT_EQUAL(graph->nodes, rows[i].nodes);
        CU_ASSERT_EQUAL(graph->switches, rows[i].switches);
        CU_ASSERT_EQUAL(graph->ports, rows[i].ports);
        CU_ASSERT_EQUAL(graph->levels, rows[i].levels);
        CU_ASSERT_EQUAL(graph->longest, rows[i].longest);
        CU_ASSERT(graph_passes(graph));
        topo_free(graph);
    }
}

uint32_t graph_walk_from(const struct topo_graph *graph, uint32_t sw, uint32_t dst,
                         uint64_t *random)
{
    for (uint32_t hops = 1; hops < 2 * graph->levels; hops++) {
        uint64_t set = topo_route_ports(&graph->sw[sw].route, dst);

        if (!set)
            return 0;
        uint32_t pick = (uint32_t)(test_random(random) % (uint64_t)__builtin_popcountll(set));
        const struct topo_end *end = &graph->sw[sw].end[emu_bits_nth(set, pick)];
        if (end->kind == TOPO_END_NODE)
            return end->id == dst ? hops : 0;
        sw = end->id;
    }
    return 0;
}

uint32_t graph_walk(const struct topo_graph *graph, uint32_t src, uint32_t dst, uint64_t *random)
{
    return graph_walk_from(graph, graph->node[src].link[0].sw, dst, random);
}

uint32_t *graph_members(const struct topo_graph *graph, uint32_t count, uint64_t *random)
{
    uint32_t *node = calloc(graph->nodes, sizeof *node);

    for (uint32_t i = 0; i < graph->nodes; i++)
        node[i] = i;
    test_shuffle(random, node, graph->nodes, count);
    return node;
}

const struct topo_tree_switch *graph_tree_at(const struct topo_tree *tree, uint32_t sw)
{
    for (uint32_t i = 0; i < tree->count; i++)
        if (tree->switches[i].sw == sw)
            return &tree->switches[i];
    return NULL;
}

/* Follow up ports from @at: does the top come within the graph's levels? */
static bool climbs_to_top(const struct topo_graph *graph, const struct topo_tree *tree,
                          const struct topo_tree_switch *at)
{
    for (uint32_t level = 0; at && level < graph->levels; level++) {
        if (at->up < 0)
            return at == &tree->switches[0];
        at = graph_tree_at(tree, graph->sw[at->sw].end[at->up].id);
    }
    return false;
}

uint32_t graph_tree_faults(const struct topo_graph *graph, const struct topo_tree *tree,
                           const uint32_t *members, uint32_t count)
{
    uint32_t faults = 0, cable_ends = 0, leaves = 0;
    uint8_t *is_leaf = calloc(graph->nodes, 1);

    for (uint32_t i = 0; i < tree->count; i++) {
        const struct topo_tree_switch *at = &tree->switches[i];

        faults += at != graph_tree_at(tree, at->sw); /* a switch stands there once */
        faults += !emu_bits_several(at->ports);      /* no dangling switch */
        faults += (at->up < 0) != (i == 0);
        faults += at->up >= 0 && !(at->ports >> at->up & 1);
        faults += !climbs_to_top(graph, tree, at);
        emu_each_bit (port, at->ports) {
            const struct topo_end *end = &graph->sw[at->sw].end[port];

            if (end->kind == TOPO_END_NODE) {
                faults += is_leaf[end->id]++;
                leaves++;
                continue;
            }
            const struct topo_tree_switch *far = graph_tree_at(tree, end->id);
            faults += end->kind != TOPO_END_SWITCH || !far || !(far->ports >> end->port & 1);
            faults += (graph->sw[end->id].level > graph->sw[at->sw].level) != (at->up == (int)port);
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
