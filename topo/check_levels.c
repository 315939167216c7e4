/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_levels.c - proof by levels, for regular tables: one look at each port set.
 *
 * Every choice goes down if the node is below and up if not. Levels are finite,
 * so no path has a cycle, and a path can end only at its node; and who waits on
 * the way up waits for something higher, on the way down for something lower, so
 * nothing waits in a ring. That holds for all pairs.
 */
#include "emu/util/ports.h"
#include "topo/check.h"

/* To the one node [first, first + span), or to a lower switch that spans them all. */
static bool leads_down(const struct topo_graph *graph, uint32_t s, uint32_t port, uint32_t first,
                       uint32_t span)
{
    const struct topo_end *end = &graph->sw[s].end[port];

    if (end->kind == TOPO_END_NODE)
        return end->id == first && span == 1;
    if (end->kind != TOPO_END_SWITCH || graph->sw[end->id].level >= graph->sw[s].level)
        return false;
    const struct topo_route *below = &graph->sw[end->id].route;
    return first >= below->first && (uint64_t)first + span <= (uint64_t)below->first + below->span;
}

static bool leads_up(const struct topo_graph *graph, uint32_t s, uint32_t port)
{
    const struct topo_end *end = &graph->sw[s].end[port];

    return end->kind == TOPO_END_SWITCH && graph->sw[end->id].level > graph->sw[s].level;
}

static int check_blocks(const struct check *c, uint32_t s)
{
    const struct topo_graph *graph = c->graph;
    const struct topo_route *route = &graph->sw[s].route;

    for (uint32_t at = 0; at < route->span; at += route->stride) {
        uint32_t left = route->span - at;
        uint32_t first = route->first + at;
        emu_ports set = route->sets[at / route->stride];

        if (!emu_ports_any(set))
            return check_fail(c, "switch %u: no ports to node %u", s, first);
        emu_each_port (port, set)
            if (!leads_down(graph, s, port, first, left < route->stride ? left : route->stride))
                return check_fail(c, "switch %u port %u: no way down to node %u", s, port, first);
    }
    return 0;
}

int check_levels(struct check *c)
{
    const struct topo_graph *graph = c->graph;

    for (uint32_t s = 0; s < graph->switches; s++) {
        const struct topo_route *route = &graph->sw[s].route;
        int err = check_blocks(c, s);

        if (err)
            return err;
        if (route->span == graph->nodes)
            continue; /* nothing is elsewhere */
        if (!emu_ports_any(route->elsewhere))
            return check_fail(c, "switch %u: no ports to nodes not below", s);
        emu_each_port (port, route->elsewhere)
            if (!leads_up(graph, s, port))
                return check_fail(c, "switch %u port %u: does not lead up", s, port);
    }
    return 0;
}
