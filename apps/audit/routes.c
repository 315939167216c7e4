/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * routes.c - check that the routing tables of switches lead to every destination.
 *
 * From each switch with nodes, all routes to each destination are followed through the tables. The
 * *candidates* of a switch are the ports that its table permits. Each switch on the way must have a
 * candidate, the cables must be in use, and the routes must end at the destination. If the first
 * switch has no candidate, a search over the cables finds out whether any route leads up and then
 * down to the destination. If none does, because links are out of use, the table is right.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "apps/fabric/internal.h"
#include "emu/dev/dev.h"

enum route_state {
    ROUTE_UNKNOWN,
    ROUTE_FOLLOWED, /* being followed: a route that comes back to the switch is a cycle */
    ROUTE_ARRIVES,  /* all routes from the switch reach the destination */
    ROUTE_WRONG     /* some routes do not reach it; this has been reported */
};

struct routes_audit {
    const struct fabric *fabric;
    const struct topo_graph *graph; /* the network without cables that are out of use */
    struct fabric_audit *audit;
    uint32_t to;    /* the destination that is checked now */
    uint32_t *from; /* the switches with nodes */
    uint32_t from_count;
    uint8_t *state;  /* by switch: enum route_state */
    uint32_t *queue; /* switches whose neighbours the search has to visit */
    uint8_t *seen;   /* by switch: 0: not reached; 1: reached by cables upwards only; 2: reached by
                      * a route with a cable downwards */
};

static bool route_wrong(const struct routes_audit *a, uint32_t s, uint32_t port, const char *wrong)
{
    const struct fabric_place place = {.fabric = a->fabric,
                                       .at = FABRIC_AT_SWITCH,
                                       .number = s,
                                       .port = port};

    fabric_found(a->audit, &place, "the table's route to node %u %s", a->to, wrong);
    return false;
}

static bool route_arrives(const struct routes_audit *a, uint32_t s);

/* Return the table in force at a switch; for a switch on another host, the planned one. */
static const struct topo_route *route_now(const struct routes_audit *a, uint32_t s)
{
    return a->fabric->sw[s] ? switch_route_now(a->fabric->sw[s]) : &a->graph->sw[s].route;
}

/* Follow the routes of switch @s that begin at @port. Returns whether all reach the destination. */
static bool route_by(const struct routes_audit *a, uint32_t s, uint32_t port)
{
    const struct topo_end *end;

    if (port >= a->graph->ports || a->graph->sw[s].end[port].kind == TOPO_END_NONE)
        return route_wrong(a, s, port, "uses a port without a cable in use");
    end = &a->graph->sw[s].end[port];
    if (end->kind == TOPO_END_NODE)
        return end->id == a->to || route_wrong(a, s, port, "ends at another node");
    if (a->state[end->id] == ROUTE_FOLLOWED)
        return route_wrong(a, s, port, "goes in a cycle");
    if (a->state[end->id] != ROUTE_UNKNOWN)
        return a->state[end->id] == ROUTE_ARRIVES;
    if (!emu_ports_any(topo_route_ports(route_now(a, end->id), a->to)))
        return route_wrong(a, s, port, "ends at the next switch, which has no route");
    return route_arrives(a, end->id);
}

/* Call route_by() for all candidates of @s. Recurses at most as deep as the longest route. */
static bool route_arrives(const struct routes_audit *a, uint32_t s)
{
    emu_ports ports = topo_route_ports(route_now(a, s), a->to);
    bool arrives = true;

    a->state[s] = ROUTE_FOLLOWED;
    emu_each_port (port, ports)
        arrives &= route_by(a, s, port);
    a->state[s] = arrives ? ROUTE_ARRIVES : ROUTE_WRONG;
    return arrives;
}

/* Return whether any route leads up and then down from switch @from to the destination. */
static bool route_exists(const struct routes_audit *a, uint32_t from)
{
    const struct topo_graph *graph = a->graph;
    uint32_t count = 1;

    memset(a->seen, 0, graph->switches);
    a->queue[0] = from;
    a->seen[from] = 1;
    for (uint32_t i = 0; i < count; i++) { /* a switch is queued again if seen changes to 1 */
        uint32_t s = a->queue[i];

        for (uint32_t port = 0; port < graph->ports; port++) {
            const struct topo_end *end = &graph->sw[s].end[port];
            bool up;

            if (end->kind == TOPO_END_NODE && end->id == a->to)
                return true;
            if (end->kind != TOPO_END_SWITCH)
                continue;
            up = graph->sw[end->id].level > graph->sw[s].level;
            if ((up && a->seen[s] != 1) || a->seen[end->id] == 1 || (a->seen[end->id] && !up))
                continue;
            a->seen[end->id] = up ? 1 : 2;
            a->queue[count++] = end->id;
        }
    }
    return false;
}

static void routes_to(const struct routes_audit *a)
{
    memset(a->state, ROUTE_UNKNOWN, a->graph->switches);
    for (uint32_t i = 0; i < a->from_count; i++) {
        uint32_t s = a->from[i];

        if (a->state[s] != ROUTE_UNKNOWN)
            continue;
        if (emu_ports_any(topo_route_ports(route_now(a, s), a->to)))
            route_arrives(a, s);
        else if (route_exists(a, s))
            route_wrong(a, s, EMU_NO_PORT, "is missing");
        else
            a->audit->partitioned++;
    }
    a->audit->routes += a->from_count;
}

static void find_from(struct routes_audit *a)
{
    const struct topo_graph *graph = a->graph;

    memset(a->seen, 0, graph->switches);
    for (uint32_t n = 0; n < graph->nodes; n++)
        for (uint32_t i = 0; i < graph->node[n].links; i++) {
            uint32_t s = graph->node[n].link[i].sw;

            if (s == TOPO_NONE || a->seen[s])
                continue;
            a->seen[s] = 1;
            a->from[a->from_count++] = s;
        }
}

int fabric_audit_routes(const struct fabric *fabric, struct fabric_audit *audit)
{
    const struct topo_graph *graph = fabric->links.routed;
    struct routes_audit a = {.fabric = fabric, .graph = graph, .audit = audit};
    int err = -ENOMEM;

    a.state = malloc(graph->switches);
    a.seen = malloc(graph->switches);
    a.queue = malloc(2 * (size_t)graph->switches * sizeof *a.queue);
    a.from = malloc(graph->switches * sizeof *a.from);
    if (a.state && a.seen && a.queue && a.from) {
        err = 0;
        find_from(&a);
        for (a.to = 0; a.to < graph->nodes; a.to++)
            routes_to(&a);
    }
    free(a.from);
    free(a.queue);
    free(a.seen);
    free(a.state);
    return err;
}
