/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.c - plan collective trees.
 *
 * A tree goes up to a switch that has all members below, then down to each member. So a segment on
 * a tree never goes up again after it has come down. The tree grows member by member. The path from
 * the root down to a new member begins with switches of the tree. The switches after the last of
 * these are added. So the tree stays connected and free of cycles, even in a graph with several
 * paths down.
 */
#include "topo/topo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/ports.h"

/* A tree under construction. */
struct grow {
    const struct topo_graph *graph;
    const uint32_t *load;
    const uint32_t *members;
    uint32_t members_count;
    struct topo_tree_switch *switches;
    uint32_t count;
    uint32_t *index; /* by switch of the graph: 1 + its index in switches[]; 0: not in the tree */
};

/* Return the lowest port in @set with the least loaded neighbour; -1 if @set is empty. */
static int least_loaded(const struct grow *g, uint32_t sw, emu_ports set)
{
    uint32_t least = 0;
    int best = -1;

    emu_each_port (port, set) {
        const struct topo_end *end = &g->graph->sw[sw].end[port];
        uint32_t load = end->kind == TOPO_END_SWITCH ? g->load[end->id] : 0;

        if (best < 0 || load < least) {
            best = (int)port;
            least = load;
        }
    }
    return best;
}

/*
 * Return the candidate port to @dst with the least loaded neighbour, or -1. If several links lead
 * to this neighbour, the trees through @sw take them in turn.
 */
static int grow_port(const struct grow *g, uint32_t sw, uint32_t dst)
{
    const struct topo_end *end = g->graph->sw[sw].end;
    emu_ports set = topo_route_ports(&g->graph->sw[sw].route, dst), same = EMU_NO_PORTS;
    int best = least_loaded(g, sw, set);

    if (best < 0)
        return best;
    emu_each_port (port, set)
        same |= emu_port_if(port, end[port].kind == end[best].kind && end[port].id == end[best].id);
    return (int)emu_ports_nth(same, g->load[sw] % emu_ports_count(same));
}

/* Return a member that is not below @sw, or TOPO_NONE. */
static uint32_t not_below(const struct grow *g, uint32_t sw)
{
    for (uint32_t i = 0; i < g->members_count; i++)
        if (!topo_below(g->graph, sw, g->members[i]))
            return g->members[i];
    return TOPO_NONE;
}

static emu_ports ports_up(const struct topo_graph *graph, uint32_t sw)
{
    const struct topo_switch *from = &graph->sw[sw];
    emu_ports up = EMU_NO_PORTS;

    for (uint32_t port = 0; port < graph->ports; port++)
        if (from->end[port].kind == TOPO_END_SWITCH &&
            graph->sw[from->end[port].id].level > from->level)
            up |= emu_port(port);
    return up;
}

/* A switch on the climb. */
struct step {
    uint32_t sw;
    emu_ports best; /* untried candidate ports to a member that is not below */
    emu_ports rest; /* other untried ports up, which are used after `best` */
};

/* Returns true if the climb ends at @sw, which has all members below. Else begins @step there. */
static bool climb_onto(const struct grow *g, struct step *step, uint32_t sw)
{
    uint32_t missing = not_below(g, sw);

    if (missing == TOPO_NONE)
        return true;
    emu_ports up = ports_up(g->graph, sw);
    step->sw = sw;
    step->best = topo_route_ports(&g->graph->sw[sw].route, missing) & up;
    step->rest = up & ~step->best;
    return false;
}

/* Return the port to the least loaded untried parent, or -1. The parent then counts as tried. */
static int climb_port(const struct grow *g, struct step *step)
{
    emu_ports *set = emu_ports_any(step->best) ? &step->best : &step->rest;
    int best = least_loaded(g, step->sw, *set);

    if (best >= 0)
        *set &= ~emu_port((uint32_t)best);
    return best;
}

/*
 * Climb from @sw to a switch that has all members below, and return it; TOPO_NONE: there is none.
 * The search is greedy, with backtracking.
 * @step: one element per level of the graph. @seen: by switch: whether the climb has visited it.
 */
static uint32_t grow_climb(const struct grow *g, uint32_t sw, struct step *step, bool *seen)
{
    uint32_t depth = 0;

    if (seen[sw])
        return TOPO_NONE;
    seen[sw] = true;
    if (climb_onto(g, &step[depth++], sw))
        return sw;
    while (depth) {
        int port = climb_port(g, &step[depth - 1]);

        if (port < 0) {
            depth--;
            continue;
        }
        sw = g->graph->sw[step[depth - 1].sw].end[port].id;
        if (seen[sw])
            continue;
        seen[sw] = true;
        if (climb_onto(g, &step[depth++], sw))
            return sw;
    }
    return TOPO_NONE;
}

/* Climb from the first member; its links are tried in the order of load, then of number. */
static uint32_t grow_top(const struct grow *g, struct step *step, bool *seen)
{
    const struct topo_node *node = &g->graph->node[g->members[0]];
    uint32_t tried = 0;
    uint32_t top = TOPO_NONE;

    for (uint32_t i = 0; i < node->links && top == TOPO_NONE; i++) {
        int best = -1;

        for (int l = 0; l < node->links; l++)
            if (!(tried >> l & 1) && node->link[l].sw != TOPO_NONE &&
                (best < 0 || g->load[node->link[l].sw] < g->load[node->link[best].sw]))
                best = l;
        if (best < 0)
            break;
        tried |= 1u << best;
        top = grow_climb(g, node->link[best].sw, step, seen);
    }
    return top;
}

static void grow_add(struct grow *g, uint32_t sw, int up, emu_ports ports)
{
    g->switches[g->count] = (struct topo_tree_switch){.sw = sw, .up = (int16_t)up, .ports = ports};
    g->index[sw] = ++g->count;
}

/* Return the last switch of the tree on the path from the root to @dst; TOPO_NONE: no path. */
static uint32_t grow_join(const struct grow *g, uint32_t dst)
{
    uint32_t sw = g->switches[0].sw;
    uint32_t join = TOPO_NONE;

    for (uint32_t level = 0; level < g->graph->levels; level++) {
        int port = grow_port(g, sw, dst);

        if (port < 0)
            break;
        if (g->index[sw])
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
        return -EHOSTUNREACH;
    for (;;) {
        int port = grow_port(g, sw, dst);
        const struct topo_end *end = &g->graph->sw[sw].end[port];
        struct topo_tree_switch *from = &g->switches[g->index[sw] - 1];

        if (emu_ports_has(from->ports, port))
            return -EINVAL; /* the member is repeated */
        from->ports |= emu_port(port);
        if (end->kind == TOPO_END_NODE)
            return 0;
        grow_add(g, end->id, end->port, emu_port(end->port));
        sw = end->id;
    }
}

/*
 * Remove switches from the top of the tree that have only one port in the tree. In a damaged
 * network, the climb may end at a higher switch than necessary: it may not visit a lower switch
 * that has all members below. Then the switches of the tree above this lower switch have nothing to
 * combine or copy.
 */
static void drop_idle_tops(struct grow *g)
{
    uint32_t idle = 0;

    while (emu_ports_count(g->switches[idle].ports) == 1) {
        /* the next switch down, which was added right after this one */
        struct topo_tree_switch *next = &g->switches[++idle];

        next->ports &= ~emu_port((uint32_t)next->up);
        next->up = -1;
    }
    g->count -= idle;
    memmove(g->switches, g->switches + idle, g->count * sizeof *g->switches);
}

static int grow_tree(struct grow *g, struct step *step, bool *seen)
{
    for (uint32_t i = 0; i < g->members_count; i++)
        if (g->members[i] >= g->graph->nodes)
            return -EINVAL;

    uint32_t top = grow_top(g, step, seen);
    if (top == TOPO_NONE)
        return -EHOSTUNREACH;
    grow_add(g, top, -1, EMU_NO_PORTS);
    for (uint32_t i = 0; i < g->members_count; i++) {
        int err = grow_member(g, g->members[i]);
        if (err)
            return err;
    }
    drop_idle_tops(g);
    return 0;
}

int topo_tree_build(struct topo_tree *tree, const struct topo_graph *graph, const uint32_t *members,
                    uint32_t count, const uint32_t *load)
{
    struct grow g = {.graph = graph, .load = load, .members = members, .members_count = count};
    int err = -ENOMEM;

    if (count < 2)
        return -EINVAL;
    g.index = calloc(graph->switches, sizeof *g.index);
    g.switches = malloc(graph->switches * sizeof *g.switches);
    struct step *step = malloc(graph->levels * sizeof *step);
    bool *seen = calloc(graph->switches, sizeof *seen);
    if (g.index && g.switches && step && seen)
        err = grow_tree(&g, step, seen);
    free(seen);
    free(step);
    free(g.index);
    if (err) {
        free(g.switches);
        return err;
    }
    struct topo_tree_switch *fit = realloc(g.switches, g.count * sizeof *fit);
    tree->switches = fit ? fit : g.switches;
    tree->count = g.count;
    return 0;
}

uint32_t topo_tree_link(const struct topo_tree *tree, const struct topo_graph *graph, uint32_t node)
{
    const struct topo_node *at = &graph->node[node];

    for (uint32_t i = 0; i < tree->count; i++)
        for (uint32_t l = 0; l < at->links; l++)
            if (at->link[l].sw == tree->switches[i].sw &&
                emu_ports_has(tree->switches[i].ports, at->link[l].port))
                return l;
    return TOPO_NONE;
}

void topo_tree_charge(const struct topo_tree *tree, uint32_t *load, int delta)
{
    for (uint32_t i = 0; i < tree->count; i++)
        load[tree->switches[i].sw] += (uint32_t)delta;
}

void topo_tree_release(struct topo_tree *tree)
{
    free(tree->switches);
    *tree = (struct topo_tree){0};
}
