/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * groups.c - check that the trees of groups are trees, that devices have them in their tables, and
 * that the reservations of groups add up.
 *
 * The tree of switches is read from the tables of the switches. Each edge must exist at both ends
 * and use a cable that is in use. A tree of N switches must have N - 1 edges. From each switch the
 * ports upwards must lead to the top. Then the edges connect all switches without a cycle. Each
 * member must be a leaf exactly once. With acknowledgments, the link engines that combine
 * contributions for a group (those of its members, or of switches) must form a tree, too.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "apps/fabric/internal.h"
#include "emu/dev/dev.h"

struct group_place {
    uint32_t in;     /* serial number of the group to which the fields belong; if it is not
                      * groups_audit.serial, the fields are left from an earlier group */
    uint32_t up;     /* the parent switch or engine; TOPO_NONE: none */
    uint32_t at;     /* for an engine: its index in group->engines->at */
    emu_ports ports; /* for a switch: its ports of the tree */
};

struct groups_audit {
    const struct fabric *fabric;
    struct fabric_audit *audit;
    const struct fabric_group *group; /* the group that is checked now */
    uint32_t serial;                  /* serial number of this group, from 1 */
    struct group_place *sw;           /* by switch */
    struct group_place *engine;       /* by engine number: nodes, then units of switches */
    uint32_t *leaves;                 /* by node: serial number of the last group with this leaf */
    uint32_t *groups;                 /* by switch: groups that its table should have */
    uint32_t *states;                 /* by switch: states that should be reserved there */
    uint64_t bufs;                    /* buffers that groups have reserved */
};

__attribute__((format(printf, 4, 5))) static void wrong_at(const struct groups_audit *a, uint32_t s,
                                                           uint32_t port, const char *format, ...)
{
    const struct fabric_place place = {
        .fabric = a->fabric, .at = FABRIC_AT_SWITCH, .number = s, .port = port, .group = a->group};
    char what[FABRIC_FINDING_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    fabric_found(a->audit, &place, "%s", what);
}

static void wrong_engine(const struct groups_audit *a, uint32_t number, const char *wrong)
{
    struct fabric_place place = {.fabric = a->fabric, .group = a->group};

    fabric_place_engine(&place, number);
    fabric_found(a->audit, &place, "%s", wrong);
}

/* --- the tree of switches ----------------------------------------------------------- */

/* Read the tree from the switches' tables or, for a switch on another host, from the plan. */
static bool tree_read(const struct groups_audit *a)
{
    const struct topo_graph *graph = a->fabric->config.graph;
    const struct topo_tree *tree = &a->group->tree;
    bool all = true;

    for (uint32_t i = 0; i < tree->count; i++) {
        uint32_t s = tree->switches[i].sw;
        struct switch_group_entry entry = {tree->switches[i].ports, tree->switches[i].up};

        if (a->fabric->sw[s] && !switch_group_entry(a->fabric->sw[s], a->group->id, &entry)) {
            wrong_at(a, s, EMU_NO_PORT, "the group is not in its table");
            all = false;
            continue;
        }
        a->sw[s] = (struct group_place){.in = a->serial, .up = TOPO_NONE, .ports = entry.ports};
        if (entry.up >= 0 && graph->sw[s].end[entry.up].kind == TOPO_END_SWITCH)
            a->sw[s].up = graph->sw[s].end[entry.up].id;
        emu_each_port (port, tree->switches[i].ports & ~entry.ports)
            wrong_at(a, s, port, "an edge of the tree is missing here");
        if (tree->switches[i].up != entry.up)
            wrong_at(a, s, EMU_NO_PORT, "it has the wrong port towards the top");
    }
    return all;
}

/* Return whether groups keep their tree when one of its cables goes out of use; see replan.c. */
static bool groups_keep_trees(const struct fabric_config *config)
{
    return config->hosts && !fabric_has_engines(config);
}

/* Check the edge of the tree at a port of switch @s. Returns 1 if it leads to a switch, else 0. */
static uint32_t tree_edge(const struct groups_audit *a, uint32_t s, uint32_t port)
{
    const struct topo_graph *graph = a->fabric->config.graph;
    const struct topo_end *end = &graph->sw[s].end[port];

    if (port >= graph->ports || end->kind == TOPO_END_NONE) {
        wrong_at(a, s, port, "an edge of the tree has no cable");
        return 0;
    }
    if (a->fabric->links.routed->sw[s].end[port].kind == TOPO_END_NONE &&
        !groups_keep_trees(&a->fabric->config))
        wrong_at(a, s, port, "an edge of the tree uses a cable that is out of use");
    if (end->kind == TOPO_END_NODE) {
        if (a->leaves[end->id] == a->serial)
            wrong_at(a, s, port, "node %u is a leaf of the tree twice", end->id);
        a->leaves[end->id] = a->serial;
        return 0;
    }
    if (a->sw[end->id].in != a->serial || !emu_ports_has(a->sw[end->id].ports, end->port))
        wrong_at(a, s, port, "an edge of the tree is missing at its remote end");
    return 1;
}

static bool is_here(const struct groups_audit *a, uint32_t number)
{
    uint32_t nodes = a->fabric->config.graph->nodes;

    return number < nodes ? fabric_has_node(&a->fabric->config, number)
                          : fabric_has_switch(&a->fabric->config, number - nodes);
}

/* Return whether following the parents from @at leads to the top of a tree of @count devices. */
static bool leads_up(const struct groups_audit *a, const struct group_place *place, uint32_t at,
                     uint32_t count)
{
    for (; count; count--) {
        if (place == a->engine && !is_here(a, at))
            return true; /* another host checks the rest */
        if (place[at].in != a->serial)
            return false;
        if (place[at].up == TOPO_NONE)
            return true;
        at = place[at].up;
    }
    return false; /* a cycle */
}

static void tree_shape(const struct groups_audit *a)
{
    const struct topo_tree *tree = &a->group->tree;
    uint32_t ends = 0, tops = 0;

    for (uint32_t i = 0; i < tree->count; i++) {
        uint32_t s = tree->switches[i].sw;

        emu_each_port (port, a->sw[s].ports)
            ends += tree_edge(a, s, port);
        tops += a->sw[s].up == TOPO_NONE;
        if (!leads_up(a, a->sw, s, tree->count))
            wrong_at(a, s, EMU_NO_PORT, "its path up the tree does not reach the top");
    }
    if (tops != 1)
        wrong_at(a, tree->switches[0].sw, EMU_NO_PORT, "the tree has %u tops", tops);
    if (ends != 2 * (tree->count - 1))
        wrong_at(a, tree->switches[0].sw, EMU_NO_PORT,
                 "the tree of %u switches has %u ends of edges", tree->count, ends);
}

static void tree_leaves(const struct groups_audit *a)
{
    for (uint32_t i = 0; i < a->group->count; i++) {
        uint32_t node = a->group->node[i];

        if (!(node & FABRIC_LEFT) && a->leaves[node] != a->serial)
            wrong_engine(a, node, "a member is not a leaf of the tree");
    }
}

static void audit_tree(const struct groups_audit *a)
{
    if (!tree_read(a))
        return; /* this error would cause further ones */
    tree_shape(a);
    tree_leaves(a);
}

/* --- the tree of combiners: link engines of nodes, or units of switches ---------------- */

static void combining_read(const struct groups_audit *a)
{
    const struct fabric_group_engines *engines = a->group->engines;

    for (uint32_t i = 0; i < engines->count; i++) {
        uint32_t number = engines->at[i].number;
        uint32_t up;

        if (!engines->at[i].group)
            continue;
        up = engine_group_parent(engines->at[i].group);
        if (!engine_knows_group(engines->at[i].engine, engines->at[i].group))
            wrong_engine(a, number, "the group is not in its adapter's table");
        a->engine[number] = (struct group_place){.in = a->serial,
                                                 .up = up == ENGINE_NO_NODE ? TOPO_NONE : up,
                                                 .at = i};
    }
}

static void audit_combining(const struct groups_audit *a)
{
    const struct fabric_group_engines *engines = a->group->engines;
    uint32_t tops = 0, children = 0, here = 0;

    combining_read(a);
    if (!a->group->combines)
        return;
    for (uint32_t i = 0; i < engines->count; i++) {
        uint32_t number = engines->at[i].number;
        uint32_t up = a->engine[number].up;

        if (!engines->at[i].group)
            continue;
        here++;
        children += engine_group_children(engines->at[i].group);
        tops += up == TOPO_NONE;
        if (!leads_up(a, a->engine, number, engines->count))
            wrong_engine(a, number, "its path up the tree of combiners does not reach the top");
        else if (up != TOPO_NONE && a->engine[up].in == a->serial &&
                 !engine_group_has_child(engines->at[a->engine[up].at].group, number))
            wrong_engine(a, number, "its parent in the tree of combiners does not know it");
    }
    if (here == engines->count && (tops != 1 || children != engines->count - 1))
        wrong_engine(a, engines->at[0].number, "the combiners of the group are not a tree");
}

/* --- all groups --------------------------------------------------------------------- */

/* Add the group to the sums that audit_reservations() compares. */
static void expect_reservations(const struct groups_audit *a)
{
    const struct topo_tree *tree = &a->group->tree;

    for (uint32_t i = 0; i < tree->count; i++) {
        a->groups[tree->switches[i].sw]++;
        if (a->group->combines)
            a->states[tree->switches[i].sw] += emu_window(a->group->id);
    }
}

static void audit_group(struct groups_audit *a, const struct fabric_group *group)
{
    a->group = group;
    a->serial++;
    a->audit->groups += !fabric_group_number(a->fabric, group);
    a->audit->treeless += group->treeless;
    expect_reservations(a);
    if (!group->treeless)
        audit_tree(a);
    if (group->engines)
        audit_combining(a);
    a->bufs += group->bufs;
    a->group = NULL;
}

static void audit_reservations(struct groups_audit *a)
{
    const struct fabric *fabric = a->fabric;

    for (const struct fabric_group *gone = fabric->retired; gone; gone = gone->next)
        a->bufs += gone->bufs;
    for (uint32_t s = 0; s < fabric->config.graph->switches; s++) {
        uint32_t has = fabric->sw[s] ? switch_groups_count(fabric->sw[s]) : a->groups[s];
        uint32_t load = fabric->tree_load[s] - (fabric->combine[s].out ? FABRIC_OUT_LOAD : 0);

        if (load != a->groups[s])
            wrong_at(a, s, EMU_NO_PORT, "its load is %u trees, but there are %u", load,
                     a->groups[s]);
        if (has > a->groups[s] || (has < a->groups[s] && !a->audit->treeless))
            wrong_at(a, s, EMU_NO_PORT, "its table has %u groups instead of %u", has, a->groups[s]);
        if (fabric_has_states(&fabric->config) && fabric->states[s] != a->states[s])
            wrong_at(a, s, EMU_NO_PORT, "%u combine states are reserved, but groups have %u",
                     fabric->states[s], a->states[s]);
    }
    if (fabric->spare_bufs + a->bufs != FABRIC_GROUP_BUFS)
        fabric_found(a->audit, &(struct fabric_place){.fabric = fabric},
                     "buffers reserved for groups have leaked");
}

int fabric_audit_groups(const struct fabric *fabric, struct fabric_audit *audit)
{
    const struct topo_graph *graph = fabric->config.graph;
    struct groups_audit a = {.fabric = fabric, .audit = audit};
    int err = -ENOMEM;

    a.sw = calloc(graph->switches, sizeof *a.sw);
    a.engine = calloc((size_t)graph->nodes + graph->switches, sizeof *a.engine);
    a.leaves = calloc(graph->nodes, sizeof *a.leaves);
    a.groups = calloc(graph->switches, sizeof *a.groups);
    a.states = calloc(graph->switches, sizeof *a.states);
    if (a.sw && a.engine && a.leaves && a.groups && a.states) {
        err = 0;
        for (uint32_t g = 0; g < fabric->slots; g++)
            if (fabric->group[g])
                audit_group(&a, fabric->group[g]);
        audit_reservations(&a);
    }
    free(a.states);
    free(a.groups);
    free(a.leaves);
    free(a.engine);
    free(a.sw);
    return err;
}
