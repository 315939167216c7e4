/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.c - the graph itself: memory, plugs, paths, and the proof that it is sound.
 */
#include "topo/graph.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct topo_graph *topo_graph_new(const struct topo_size *size, uint64_t **sets)
{
    size_t ends = (size_t)size->switches * size->ports;
    size_t bytes = sizeof(struct topo_graph) + size->switches * sizeof(struct topo_switch) +
                   size->sets * sizeof(uint64_t) + ends * sizeof(struct topo_end) +
                   size->nodes * sizeof(struct topo_node);
    struct topo_graph *graph = calloc(1, bytes);

    if (!graph)
        return NULL;
    graph->nodes = size->nodes;
    graph->switches = size->switches;
    graph->ports = size->ports;
    graph->levels = size->levels;
    graph->slab = graph;
    graph->bytes = bytes;

    /* The strictest alignment first, so that no padding is needed. */
    graph->sw = (struct topo_switch *)(graph + 1);
    *sets = (uint64_t *)(graph->sw + size->switches);
    struct topo_end *end = (struct topo_end *)(*sets + size->sets);
    graph->node = (struct topo_node *)(end + ends);
    for (uint32_t s = 0; s < size->switches; s++) {
        graph->sw[s].end = end + (size_t)s * size->ports;
        graph->sw[s].route.stride = 1;
    }
    return graph;
}

void topo_free(struct topo_graph *graph)
{
    if (graph)
        free(graph->slab);
}

void topo_plug_node(struct topo_graph *graph, uint32_t node, uint32_t sw, uint32_t port)
{
    graph->node[node] = (struct topo_node){ .sw = sw, .port = (uint8_t)port };
    graph->sw[sw].end[port] = (struct topo_end){ .kind = TOPO_END_NODE, .id = node };
}

void topo_plug_cable(struct topo_graph *graph, uint32_t a, uint32_t a_port, uint32_t b,
                     uint32_t b_port)
{
    graph->sw[a].end[a_port] =
        (struct topo_end){ .kind = TOPO_END_SWITCH, .port = (uint8_t)b_port, .id = b };
    graph->sw[b].end[b_port] =
        (struct topo_end){ .kind = TOPO_END_SWITCH, .port = (uint8_t)a_port, .id = a };
}

uint32_t topo_hops(const struct topo_graph *graph, uint32_t src, uint32_t dst)
{
    uint32_t sw = graph->node[src].sw;

    for (uint32_t hops = 1; hops < 2 * graph->levels; hops++) {
        uint64_t ports = topo_route_ports(&graph->sw[sw].route, dst);

        if (!ports)
            break;
        const struct topo_end *end = &graph->sw[sw].end[__builtin_ctzll(ports)];
        if (end->kind == TOPO_END_NODE)
            return hops;
        sw = end->id;
    }
    return 0;
}

/* A check under way: the graph, and where the user's line goes. */
struct check {
    const struct topo_graph *graph;
    char *error;
    size_t error_bytes;
};

__attribute__((format(printf, 2, 3))) static int check_fail(const struct check *c,
                                                            const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(c->error, c->error_bytes, format, args);
    va_end(args);
    return -EINVAL;
}

static int check_node(const struct check *c, uint32_t n)
{
    const struct topo_graph *graph = c->graph;
    const struct topo_node *node = &graph->node[n];

    if (node->sw >= graph->switches || node->port >= graph->ports)
        return check_fail(c, "node %u: no switch %u port %u", n, node->sw, node->port);
    const struct topo_end *end = &graph->sw[node->sw].end[node->port];
    if (end->kind != TOPO_END_NODE || end->id != n)
        return check_fail(c, "node %u: not what is plugged into switch %u port %u", n, node->sw,
                          node->port);
    return 0;
}

/* Whatever is plugged in here says so too. */
static int check_end(const struct check *c, uint32_t s, uint32_t port)
{
    const struct topo_graph *graph = c->graph;
    const struct topo_end *end = &graph->sw[s].end[port];
    bool agree = false;

    if (end->kind == TOPO_END_NONE) {
        agree = true;
    } else if (end->kind == TOPO_END_NODE && end->id < graph->nodes) {
        agree = graph->node[end->id].sw == s && graph->node[end->id].port == port;
    } else if (end->kind == TOPO_END_SWITCH && end->id < graph->switches &&
               end->port < graph->ports) {
        const struct topo_end *back = &graph->sw[end->id].end[end->port];
        agree = back->kind == TOPO_END_SWITCH && back->id == s && back->port == port;
    }
    if (!agree)
        return check_fail(c, "switch %u port %u: the far end does not agree on the cable", s, port);
    return 0;
}

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
    return first >= below->first &&
           (uint64_t)first + span <= (uint64_t)below->first + below->span;
}

static bool leads_up(const struct topo_graph *graph, uint32_t s, uint32_t port)
{
    const struct topo_end *end = &graph->sw[s].end[port];

    return end->kind == TOPO_END_SWITCH && graph->sw[end->id].level > graph->sw[s].level;
}

/*
 * Every choice goes down if the node is below and up if not. Levels are finite,
 * so no path has a cycle, and a path can end only at its node. That holds for
 * all pairs at the cost of one look at each port set.
 */
static int check_route(const struct check *c, uint32_t s)
{
    const struct topo_graph *graph = c->graph;
    const struct topo_route *route = &graph->sw[s].route;

    if (graph->sw[s].level >= graph->levels)
        return check_fail(c, "switch %u: level %u of %u", s, graph->sw[s].level, graph->levels);
    if (!route->stride || route->span % route->stride ||
        (uint64_t)route->first + route->span > graph->nodes)
        return check_fail(c, "switch %u: the route's range is not one of nodes", s);

    for (uint32_t i = 0; i < route->span / route->stride; i++) {
        uint32_t first = route->first + i * route->stride;
        uint64_t set = route->sets[i];

        if (!set || set >> graph->ports)
            return check_fail(c, "switch %u: no ports, or unknown ones, to node %u", s, first);
        for (; set; set &= set - 1) {
            uint32_t port = (uint32_t)__builtin_ctzll(set);
            if (!leads_down(graph, s, port, first, route->stride))
                return check_fail(c, "switch %u port %u: no way down to node %u", s, port, first);
        }
    }

    if (route->span == graph->nodes)
        return 0; /* nothing is elsewhere */
    if (!route->elsewhere || route->elsewhere >> graph->ports)
        return check_fail(c, "switch %u: no ports, or unknown ones, to nodes not below", s);
    for (uint64_t set = route->elsewhere; set; set &= set - 1) {
        uint32_t port = (uint32_t)__builtin_ctzll(set);
        if (!leads_up(graph, s, port))
            return check_fail(c, "switch %u port %u: does not lead up", s, port);
    }
    return 0;
}

int topo_check(const struct topo_graph *graph, char *error, size_t error_bytes)
{
    struct check c = { .graph = graph, .error = error, .error_bytes = error_bytes };
    int err = 0;

    if (!graph->ports || graph->ports > TOPO_PORTS_MAX)
        return check_fail(&c, "%u ports a switch: at most %u", graph->ports, TOPO_PORTS_MAX);
    for (uint32_t n = 0; n < graph->nodes && !err; n++)
        err = check_node(&c, n);
    for (uint32_t s = 0; s < graph->switches && !err; s++)
        for (uint32_t port = 0; port < graph->ports && !err; port++)
            err = check_end(&c, s, port);
    for (uint32_t s = 0; s < graph->switches && !err; s++)
        err = check_route(&c, s);
    return err;
}
