/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - the proof that a graph is sound: first that it is one at all.
 */
#include "topo/check.h"

#include <errno.h>
#include <stdarg.h>

#define LOOKUPS_MAX (UINT64_C(1) << 28) /* beyond these, levels prove what listing would */

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
    char name[80];

    topo_name_node(graph, n, name);
    if (node->links < 1 || node->links > TOPO_NODE_LINKS_MAX)
        return check_fail(c, "%s: %u links, want 1 to %d", name, node->links, TOPO_NODE_LINKS_MAX);
    for (uint32_t i = 0; i < node->links; i++) {
        const struct topo_link *link = &node->link[i];

        if (link->sw == TOPO_NONE)
            continue; /* cut */
        if (link->sw >= graph->switches || link->port >= graph->ports)
            return check_fail(c, "%s: no switch %u port %u", name, link->sw, link->port);
        const struct topo_end *end = &graph->sw[link->sw].end[link->port];
        if (end->kind != TOPO_END_NODE || end->id != n || end->port != i)
            return check_fail(c, "%s: not what is plugged into switch %u port %u", name, link->sw,
                              link->port);
        c->what.cables++;
    }
    return 0;
}

/* Whatever is plugged in here says so too. */
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
    char name[80], far[80];

    if (!ends_agree(graph, s, port))
        return check_fail(c, "%s port %u: the far end does not agree on the cable",
                          topo_name_switch(graph, s, name), topo_port_number(graph, s, port));
    if (end->kind == TOPO_END_SWITCH && graph->sw[end->id].level == graph->sw[s].level)
        return check_fail(c,
                          "%s port %u: a cable to %s, which has the same level, %u: one must be "
                          "higher",
                          topo_name_switch(graph, s, name), topo_port_number(graph, s, port),
                          topo_name_switch(graph, end->id, far), graph->sw[s].level);
    c->what.cables += end->kind == TOPO_END_SWITCH && end->id > s;
    return 0;
}

/* Are the tables such that they can be looked at? */
static int check_route(struct check *c, uint32_t s)
{
    const struct topo_graph *graph = c->graph;
    const struct topo_route *route = &graph->sw[s].route;
    uint32_t sets = route->set_count;
    char name[80];

    topo_name_switch(graph, s, name);
    if (graph->sw[s].level >= graph->levels)
        return check_fail(c, "%s: level %u of %u", name, graph->sw[s].level, graph->levels);
    if (!route->spread)
        return check_fail(c, "%s: a route that spreads over nothing", name);
    if (!route->set_of) {
        uint64_t beyond = (uint64_t)route->first + route->span;

        if (!route->stride || beyond > graph->nodes ||
            (route->span % route->stride && beyond < graph->nodes))
            return check_fail(c, "%s: the route's range is not one of nodes", name);
        sets = (route->span + route->stride - 1) / route->stride;
    } else if (route->span || emu_ports_any(route->elsewhere)) {
        return check_fail(c, "%s: a route of two forms", name);
    }
    for (uint32_t i = 0; i <= sets; i++) {
        emu_ports set = i < sets ? route->sets[i] : route->elsewhere;

        if (emu_ports_any(set & ~emu_ports_below(graph->ports)))
            return check_fail(c, "%s: a route by ports that it has not", name);
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
        return check_fail(&c, "%u ports a switch: at most %d", graph->ports, TOPO_PORTS_MAX);
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
