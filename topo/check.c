/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c - verify a graph: cables and tables, then that all routes arrive without deadlocks. */
#include "topo/check.h"

#include <errno.h>
#include <stdarg.h>

/* if more lookups are needed and all tables are regular, the check uses the levels */
#define LOOKUPS_MAX (UINT64_C(1) << 28)

int check_fail(const struct check *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(c->error, c->error_bytes, format, args);
    va_end(args);
    return -EINVAL;
}

static int check_node(struct check *c, uint32_t n)
{
    const struct topo_graph *graph = c->graph;
    const struct topo_node *node = &graph->node[n];
    char name[TOPO_SHOWN_BYTES];

    topo_show_node(graph, n, name);
    if (node->links < 1 || node->links > TOPO_NODE_LINKS_MAX)
        return check_fail(c, "%s has %u links; want 1 to %d", name, node->links,
                          TOPO_NODE_LINKS_MAX);
    for (uint32_t i = 0; i < node->links; i++) {
        const struct topo_link *link = &node->link[i];

        if (link->sw == TOPO_NONE)
            continue; /* topo_without() removed the cable */
        if (link->sw >= graph->switches || link->port >= graph->ports)
            return check_fail(c,
                              "%s: its cable leads to port %u of switch %u, which does not exist",
                              name, link->port, link->sw);
        const struct topo_end *end = &graph->sw[link->sw].end[link->port];
        if (end->kind != TOPO_END_NODE || end->id != n || end->port != i)
            return check_fail(c, "%s: its cable does not match switch %u port %u", name, link->sw,
                              topo_switch_port(graph, link->sw, link->port));
        c->what.cables++;
    }
    return 0;
}

/* Return whether the remote end of the cable names this end. */
static bool ends_agree(const struct topo_graph *graph, uint32_t s, uint32_t port)
{
    const struct topo_end *end = &graph->sw[s].end[port];

    if (end->kind == TOPO_END_NONE)
        return true;
    if (end->kind == TOPO_END_NODE && end->id < graph->nodes &&
        end->port < graph->node[end->id].links) {
        const struct topo_link *link = &graph->node[end->id].link[end->port];
        return link->sw == s && link->port == port;
    }
    if (end->kind == TOPO_END_SWITCH && end->id < graph->switches && end->port < graph->ports) {
        const struct topo_end *back = &graph->sw[end->id].end[end->port];
        return back->kind == TOPO_END_SWITCH && back->id == s && back->port == port;
    }
    return false;
}

static int check_end(struct check *c, uint32_t s, uint32_t port)
{
    const struct topo_graph *graph = c->graph;
    const struct topo_end *end = &graph->sw[s].end[port];
    char name[TOPO_SHOWN_BYTES], remote[TOPO_SHOWN_BYTES];

    if (!ends_agree(graph, s, port))
        return check_fail(c, "%s port %u: the remote end of the cable does not match",
                          topo_show_switch(graph, s, name), topo_switch_port(graph, s, port));
    if (end->kind == TOPO_END_SWITCH && graph->sw[end->id].level == graph->sw[s].level)
        return check_fail(c,
                          "%s port %u: the cable leads to %s of the same level, %u: one must be "
                          "higher",
                          topo_show_switch(graph, s, name), topo_switch_port(graph, s, port),
                          topo_show_switch(graph, end->id, remote), graph->sw[s].level);
    c->what.cables += end->kind == TOPO_END_SWITCH && end->id > s;
    return 0;
}

static int check_route(struct check *c, uint32_t s)
{
    const struct topo_graph *graph = c->graph;
    const struct topo_route *route = &graph->sw[s].route;
    uint32_t sets = route->set_count;
    char name[TOPO_SHOWN_BYTES];

    topo_show_switch(graph, s, name);
    if (graph->sw[s].level >= graph->levels)
        return check_fail(c, "%s: its level is %u; want less than %u", name, graph->sw[s].level,
                          graph->levels);
    if (!route->spread)
        return check_fail(c, "%s: the route's spread is 0", name);
    if (!route->set_of) {
        uint64_t beyond = (uint64_t)route->first + route->span;

        if (!route->stride || beyond > graph->nodes ||
            (route->span % route->stride && beyond < graph->nodes))
            return check_fail(c, "%s: the route's range of nodes is invalid", name);
        sets = (route->span + route->stride - 1) / route->stride;
    } else if (route->span || emu_ports_any(route->elsewhere)) {
        return check_fail(c, "%s: the route mixes the regular and the general form", name);
    }
    for (uint32_t i = 0; i <= sets; i++) {
        emu_ports set = i < sets ? route->sets[i] : route->elsewhere;

        if (emu_ports_any(set & ~emu_ports_below(graph->ports)))
            return check_fail(c, "%s: the route uses ports that the switch does not have", name);
    }
    return 0;
}

/*
 * --- levels ---------------------------------------------------------------------------
 *
 * These functions check a network with regular tables: every candidate port must lead down if the
 * node is below, and else up. The number of levels is finite, so no path has a cycle, and a path
 * can end only at its node. There is no cycle of waits either, because a segment waits for a higher
 * switch on the way up, and for a lower switch on the way down.
 */

/*
 * Return whether a port leads to a lower switch with the @span nodes from @first on or, if @span is
 * 1, to node @first.
 */
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
            return check_fail(c, "switch %u has no ports to node %u", s, first);
        emu_each_port (port, set)
            if (!leads_down(graph, s, port, first, left < route->stride ? left : route->stride))
                return check_fail(c, "switch %u port %u does not lead down to node %u", s, port,
                                  first);
    }
    return 0;
}

static int check_levels(const struct check *c)
{
    const struct topo_graph *graph = c->graph;

    for (uint32_t s = 0; s < graph->switches; s++) {
        const struct topo_route *route = &graph->sw[s].route;
        int err = check_blocks(c, s);

        if (err)
            return err;
        if (route->span == graph->nodes)
            continue; /* all nodes are below */
        if (!emu_ports_any(route->elsewhere))
            return check_fail(c, "switch %u has no ports to nodes that are not below", s);
        emu_each_port (port, route->elsewhere)
            if (!leads_up(graph, s, port))
                return check_fail(c, "switch %u port %u does not lead up", s, port);
    }
    return 0;
}

static bool all_regular(const struct topo_graph *graph)
{
    for (uint32_t s = 0; s < graph->switches; s++)
        if (graph->sw[s].route.set_of)
            return false;
    return true;
}

int topo_check(const struct topo_graph *graph, struct topo_checked *what, char *error,
               size_t error_bytes)
{
    struct check c = {.graph = graph, .error = error, .error_bytes = error_bytes};
    int err = 0;

    if (!graph->ports || graph->ports > TOPO_PORTS_MAX)
        return check_fail(&c, "a switch has %u ports; want 1 to %d", graph->ports, TOPO_PORTS_MAX);
    for (uint32_t n = 0; n < graph->nodes && !err; n++)
        err = check_node(&c, n);
    for (uint32_t s = 0; s < graph->switches && !err; s++)
        for (uint32_t port = 0; port < graph->ports && !err; port++)
            err = check_end(&c, s, port);
    for (uint32_t s = 0; s < graph->switches && !err; s++)
        err = check_route(&c, s);
    if (err)
        return err;

    c.what.routes = (uint64_t)graph->switches * graph->nodes;
    c.what.by_levels = c.what.routes > LOOKUPS_MAX && all_regular(graph);
    err = c.what.by_levels ? check_levels(&c) : check_waits(&c);
    if (!err && what)
        *what = c.what;
    return err;
}
