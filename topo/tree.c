/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.c - collective trees.
 *
 * A tree grows member by member: the way from the top down to a member joins
 * the tree at the last of its switches that is in the tree already, and from
 * there on every switch is new. So the tree stays connected and free of cycles
 * even where a graph offers several ways down.
 */
#include "topo/topo.h"

#include <errno.h>
#include <stdlib.h>

/* A tree under construction. */
struct grow {
    const struct topo_graph *graph;
    const uint32_t *load;
    struct topo_tree_switch *switches;
    uint32_t count;
    uint32_t *place; /* per switch of the graph: 1 + its index in switches, 0: not there */
};

/* The port towards @dst with the least loaded far end, the lowest of equals; -1: no way. */
static int grow_port(const struct grow *g, uint32_t sw, uint32_t dst)
{
    const struct topo_switch *from = &g->graph->sw[sw];
    uint64_t set = topo_route_ports(&from->route, dst);
    uint32_t least = 0;
    int best = -1;

    for (; set; set &= set - 1) {
        int port = __builtin_ctzll(set);
        const struct topo_end *end = &from->end[port];
        uint32_t load = end->kind == TOPO_END_SWITCH ? g->load[end->id] : 0;

        if (best < 0 || load < least) {
            best = port;
            least = load;
        }
    }
    return best;
}

static bool is_below(const struct topo_graph *graph, uint32_t sw, uint32_t node)
{
    const struct topo_route *route = &graph->sw[sw].route;

    return node - route->first < route->span;
}

/* Climb from @sw to a switch that spans the nodes @low to @high; TOPO_NONE: no way. */
static uint32_t grow_climb(const struct grow *g, uint32_t sw, uint32_t low, uint32_t high)
{
    for (uint32_t level = 0; level < g->graph->levels; level++) {
        bool low_below = is_below(g->graph, sw, low);

        if (low_below && is_below(g->graph, sw, high))
            return sw;
        int port = grow_port(g, sw, low_below ? high : low);
        if (port < 0 || g->graph->sw[sw].end[port].kind != TOPO_END_SWITCH)
            break;
        sw = g->graph->sw[sw].end[port].id;
    }
    return TOPO_NONE;
}

static void grow_add(struct grow *g, uint32_t sw, int up, uint64_t ports)
{
    g->switches[g->count] =
        (struct topo_tree_switch){ .sw = sw, .up = (int8_t)up, .ports = ports };
    g->place[sw] = ++g->count;
}

/* Where the way from the top to @dst leaves the tree; TOPO_NONE: there is no way. */
static uint32_t grow_join(const struct grow *g, uint32_t dst)
{
    uint32_t sw = g->switches[0].sw;
    uint32_t join = TOPO_NONE;

    for (uint32_t level = 0; level < g->graph->levels; level++) {
        int port = grow_port(g, sw, dst);

        if (port < 0)
            break;
        if (g->place[sw])
            join = sw;
        const struct topo_end *end = &g->graph->sw[sw].end[port];
        if (end->kind == TOPO_END_NODE)
            return join;
        sw = end->id;
    }
    return TOPO_NONE;
}

static int grow_member(struct grow *g, uint32_t dst)
{
    uint32_t sw = grow_join(g, dst);

    if (sw == TOPO_NONE)
        return -EINVAL; /* unreachable */
    for (;;) {
        int port = grow_port(g, sw, dst);
        const struct topo_end *end = &g->graph->sw[sw].end[port];
        struct topo_tree_switch *from = &g->switches[g->place[sw] - 1];

        if (from->ports & UINT64_C(1) << port)
            return -EINVAL; /* repeated */
        from->ports |= UINT64_C(1) << port;
        if (end->kind == TOPO_END_NODE)
            return 0;
        grow_add(g, end->id, end->port, UINT64_C(1) << end->port);
        sw = end->id;
    }
}

static int grow_tree(struct grow *g, const uint32_t *members, uint32_t count)
{
    uint32_t low = UINT32_MAX, high = 0;

    for (uint32_t i = 0; i < count; i++) {
        low = members[i] < low ? members[i] : low;
        high = members[i] > high ? members[i] : high;
    }
    if (high >= g->graph->nodes)
        return -EINVAL;

    uint32_t top = grow_climb(g, g->graph->node[members[0]].sw, low, high);
    if (top == TOPO_NONE)
        return -EINVAL;
    grow_add(g, top, -1, 0);
    for (uint32_t i = 0; i < count; i++) {
        int err = grow_member(g, members[i]);
        if (err)
            return err;
    }
    return 0;
}

int topo_tree_build(struct topo_tree *tree, const struct topo_graph *graph,
                    const uint32_t *members, uint32_t count, const uint32_t *load)
{
    size_t most = (size_t)count * graph->levels; /* a path of its own for each member */
    struct grow g = { .graph = graph, .load = load };
    int err = -ENOMEM;

    if (count < 2)
        return -EINVAL;
    if (most > graph->switches)
        most = graph->switches;
    g.place = calloc(graph->switches, sizeof(*g.place));
    if (!g.place)
        return err;
    g.switches = malloc(most * sizeof(*g.switches));
    if (!g.switches)
        goto free_place;
    err = grow_tree(&g, members, count);
    if (err)
        goto free_switches;
    struct topo_tree_switch *fit = realloc(g.switches, g.count * sizeof(*fit));
    tree->switches = fit ? fit : g.switches;
    tree->count = g.count;
    goto free_place;

free_switches:
    free(g.switches);
free_place:
    free(g.place);
    return err;
}

void topo_tree_charge(const struct topo_tree *tree, uint32_t *load, int delta)
{
    for (uint32_t i = 0; i < tree->count; i++)
        load[tree->switches[i].sw] += (uint32_t)delta;
}

void topo_tree_release(struct topo_tree *tree)
{
    free(tree->switches);
    *tree = (struct topo_tree){ 0 };
}
