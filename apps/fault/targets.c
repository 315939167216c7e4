/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * targets.c - list the targets of a fault, which are cables, switches or nodes of a network.
 *
 * All candidates are listed in the order of their numbers. Random targets are drawn from this list
 * so that they stay in this order.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"
#include "apps/fault/internal.h"
#include "emu/util/nearest.h"
#include "emu/util/random.h"

struct find {
    const struct fault *fault;
    const struct topo_graph *graph;
    struct fault_targets targets;
    uint32_t capacity;
    bool out_of_memory;
    char *error;
    size_t error_bytes;
};

static const char *name_of(const struct find *f)
{
    return fault_name(f->fault->kind);
}

static void add(struct find *f, uint32_t id, uint32_t port, enum fault_direction direction)
{
    struct fault_targets *all = &f->targets;

    if (all->count == f->capacity) {
        uint32_t capacity = f->capacity ? 2 * f->capacity : 64;
        struct fault_target *bigger = realloc(all->target, capacity * sizeof *bigger);

        f->out_of_memory |= !bigger;
        if (!bigger)
            return;
        all->target = bigger;
        f->capacity = capacity;
    }
    all->target[all->count++] = (struct fault_target){id, port, direction};
}

/* --- lists ------------------------------------------------------------------------ */

/*
 * Return whether @sw lists its cable to @end. Only the switch at the lower end of a cable lists it,
 * so each cable is listed once. Cables to nodes are listed only if @with_nodes is true.
 */
static bool lists_cable(const struct topo_graph *graph, uint32_t sw, const struct topo_end *end,
                        bool with_nodes)
{
    if (end->kind == TOPO_END_NODE)
        return with_nodes;
    return end->kind == TOPO_END_SWITCH && graph->sw[end->id].level > graph->sw[sw].level;
}

/* Add the cables up from a switch and, if @with_nodes is true, those to its nodes. */
static void add_up(struct find *f, uint32_t sw, bool with_nodes)
{
    for (uint32_t port = 0; port < f->graph->ports; port++)
        if (lists_cable(f->graph, sw, &f->graph->sw[sw].end[port], with_nodes))
            add(f, sw, port, FAULT_BOTH);
}

static void add_cables(struct find *f, bool with_nodes)
{
    for (uint32_t sw = 0; sw < f->graph->switches; sw++)
        add_up(f, sw, with_nodes);
}

static void add_switch(struct find *f, uint32_t sw)
{
    if (fault_domain(f->fault->kind) == FAULT_OF_SWITCHES) {
        add(f, sw, 0, FAULT_BOTH);
        return;
    }
    for (uint32_t port = 0; port < f->graph->ports; port++)
        if (f->graph->sw[sw].end[port].kind != TOPO_END_NONE)
            add(f, sw, port, FAULT_BOTH);
}

static uint32_t top_level(const struct topo_graph *graph)
{
    uint32_t level = 0;

    for (uint32_t sw = 0; sw < graph->switches; sw++)
        if (graph->sw[sw].level > level)
            level = graph->sw[sw].level;
    return level;
}

/* --- named targets -------------------------------------------------------------------- */

static int no_switch(const struct find *f, uint32_t sw)
{
    return invalid(f, "%s: no switch %u; %s has switches 0 to %u", name_of(f), sw, f->graph->spec,
                   f->graph->switches - 1);
}

/* Add the cable at the port of @sw that users call @number. */
static void add_port(struct find *f, uint32_t sw, uint32_t number, enum fault_direction direction)
{
    for (uint32_t port = 0; port < f->graph->ports; port++)
        if (f->graph->sw[sw].end[port].kind != TOPO_END_NONE &&
            topo_switch_port(f->graph, sw, port) == number)
            add(f, sw, port, direction);
}

/* Add the cable at the port of @node that users call @number; EMU_FAULT_ANY: all of its cables. */
static void add_links(struct find *f, uint32_t node, uint32_t number,
                      enum fault_direction direction)
{
    /* The direction is seen from the switch: a segment that leaves the node enters the switch. */
    static const enum fault_direction at_switch[] = {
        [FAULT_BOTH] = FAULT_BOTH, [FAULT_OUT] = FAULT_IN, [FAULT_IN] = FAULT_OUT};

    for (uint32_t i = 0; i < f->graph->node[node].links; i++) {
        const struct topo_link *link = &f->graph->node[node].link[i];

        if (link->sw != TOPO_NONE &&
            (number == EMU_FAULT_ANY || number == topo_node_port(f->graph, node, i)))
            add(f, link->sw, link->port, at_switch[direction]);
    }
}

static int find_port(struct find *f)
{
    const struct fault_port *at = &f->fault->where.port;
    char shown[TOPO_SHOWN_BYTES];

    if (at->sw >= f->graph->switches)
        return no_switch(f, at->sw);
    if (!f->graph->label && at->port >= f->graph->ports)
        return invalid(f, "link=%u:%u: no port %u; switches of %s have ports 0 to %u", at->sw,
                       at->port, at->port, f->graph->spec, f->graph->ports - 1);
    add_port(f, at->sw, at->port, at->direction);
    if (!f->targets.count && !f->out_of_memory)
        return invalid(f,
                       "link=%u:%u: no cable is plugged in there; name a port of %s with a cable",
                       at->sw, at->port, topo_show_switch(f->graph, at->sw, shown));
    return 0;
}

static int find_node_link(struct find *f)
{
    const struct fault_node_link *at = &f->fault->where.link;
    char shown[TOPO_SHOWN_BYTES];

    if (at->node >= f->graph->nodes)
        return invalid(f, "link=n%u: %s has nodes 0 to %u", at->node, f->graph->spec,
                       f->graph->nodes - 1);
    uint32_t links = f->graph->node[at->node].links;
    add_links(f, at->node, at->link, at->direction);
    if (f->targets.count || f->out_of_memory)
        return 0;
    if (at->link == EMU_FAULT_ANY)
        return invalid(f, "link=n%u: no cable is left there; name another node", at->node);
    return invalid(f, "link=n%u:%u: no link %u; %s has %u link%s, %s", at->node, at->link, at->link,
                   topo_show_node(f->graph, at->node, shown), links, plural_s(links),
                   f->graph->label ? "numbered as in the network's file" : "counted from 0");
}

static int find_level(struct find *f)
{
    uint32_t level = f->fault->where.level, top = top_level(f->graph);
    bool links = fault_domain(f->fault->kind) == FAULT_OF_LINKS;

    for (uint32_t sw = 0; sw < f->graph->switches; sw++) {
        if (f->graph->sw[sw].level != level)
            continue;
        if (links)
            add_up(f, sw, false);
        else
            add_switch(f, sw);
    }
    if (f->targets.count || f->out_of_memory)
        return 0;
    if (links && !top)
        return invalid(
            f, "level=%u: %s has no cables between switches; link=nN is the cable of node N", level,
            f->graph->spec);
    return invalid(f, "level=%u: %s has %s levels 0 to %u", level, f->graph->spec,
                   links ? "cables up from" : "switches of", links ? top - 1 : top);
}

static int find_nodes(struct find *f)
{
    const struct fault_nodes *nodes = &f->fault->where.nodes;
    uint32_t last = nodes->range[nodes->ranges - 1].last;

    if (last >= f->graph->nodes)
        return invalid(f, "%s: no node %u; %s has nodes 0 to %u", name_of(f), last, f->graph->spec,
                       f->graph->nodes - 1);
    for (uint32_t i = 0; i < nodes->ranges; i++)
        for (uint32_t node = nodes->range[i].first; node <= nodes->range[i].last; node++)
            add(f, node, 0, FAULT_BOTH);
    return 0;
}

/*
 * Report that no device of @kind has this @name. The first @count labels of the graph are the names
 * of all such devices.
 */
static int no_name(const struct find *f, const char *key, const char *name, const char *kind,
                   uint32_t count)
{
    struct nearest nearest = nearest_to(name);

    for (uint32_t i = 0; f->graph->label && i < count; i++)
        nearest_try(&nearest, topo_label_name(f->graph, i));
    return invalid(f, "%s=%s: %s has no %s of that name%s%s", key, name, f->graph->spec, kind,
                   f->graph->label ? "" : ", only numbers, since it has no file",
                   nearest_question(&nearest, "").text);
}

static int find_named_switch(struct find *f)
{
    const char *name = f->fault->where.name;
    uint32_t id = topo_find_switch(f->graph, name, strlen(name));

    if (id == TOPO_NONE)
        return no_name(f, "switch", name, "switch", f->graph->switches);
    add_switch(f, id);
    return 0;
}

static int find_named_link(struct find *f)
{
    const struct fault_named_link *at = &f->fault->where.named;
    uint32_t sw = topo_find_switch(f->graph, at->name, strlen(at->name));
    uint32_t node = topo_find_node(f->graph, at->name, strlen(at->name));
    char port[16] = "";

    if (sw == TOPO_NONE && node == TOPO_NONE)
        return no_name(f, "link", at->name, "switch or node", f->graph->switches + f->graph->nodes);
    if (sw != TOPO_NONE && at->port == EMU_FAULT_ANY)
        return invalid(f,
                       "link=%s is a switch; name one of its ports, link=%s:PORT, or all of its "
                       "cables, switch=%s",
                       at->name, at->name, at->name);
    if (at->port != EMU_FAULT_ANY)
        snprintf(port, sizeof port, ":%u", at->port);
    if (sw != TOPO_NONE)
        add_port(f, sw, at->port, at->direction);
    else
        add_links(f, node, at->port, at->direction);
    if (!f->targets.count && !f->out_of_memory)
        return invalid(
            f,
            "link=%s%s: no cable is plugged in there; ports are numbered as in the network's file",
            at->name, port);
    return 0;
}

static int find_all(struct find *f)
{
    uint32_t many = f->graph->nodes;

    if (fault_domain(f->fault->kind) == FAULT_OF_LINKS) {
        add_cables(f, true);
        return 0;
    }
    if (fault_domain(f->fault->kind) == FAULT_OF_SWITCHES)
        many = f->graph->switches;
    for (uint32_t i = 0; i < many; i++)
        add(f, i, 0, FAULT_BOTH);
    return 0;
}

/* --- random targets ------------------------------------------------------------------- */

/* Keep a random set of the wanted number of candidates. All such sets are equally likely. */
static int draw(struct find *f, uint64_t seed, const char *what)
{
    const struct fault_random *some = &f->fault->where.random;
    uint32_t all = f->targets.count, kept = 0;
    uint32_t want = some->count;

    if (!want)
        want = (uint32_t)((uint64_t)all * some->share / EMU_FAULT_ONE);
    if (!want)
        want = 1;
    if (!all)
        return invalid(f, "%s: %s has no %s; link=nN is the cable of node N", name_of(f),
                       f->graph->spec, what);
    if (want > all)
        return invalid(f, "%s: %u %s wanted, but %s has only %u", name_of(f), want, what,
                       f->graph->spec, all);
    for (uint32_t i = 0; i < all; i++)
        if (emu_splitmix(&seed) % (all - i) < want - kept)
            f->targets.target[kept++] = f->targets.target[i];
    f->targets.among = all;
    f->targets.count = kept;
    return 0;
}

static int draw_top(struct find *f, uint64_t seed)
{
    uint32_t level = top_level(f->graph), kept;
    struct fault_target *tops;

    for (uint32_t sw = 0; sw < f->graph->switches; sw++)
        if (f->graph->sw[sw].level == level)
            add(f, sw, 0, FAULT_BOTH);
    if (f->out_of_memory)
        return 0;
    int err = draw(f, seed, "top switches");
    if (err || fault_domain(f->fault->kind) == FAULT_OF_SWITCHES)
        return err;
    tops = f->targets.target;
    kept = f->targets.count;
    f->targets.target = NULL;
    f->targets.count = f->capacity = 0;
    for (uint32_t i = 0; i < kept; i++)
        add_switch(f, tops[i].id);
    free(tops);
    return 0;
}

static int draw_any(struct find *f, uint64_t seed)
{
    static const char *const names[] = {[FAULT_OF_LINKS] = "cables between switches",
                                        [FAULT_OF_SWITCHES] = "switches",
                                        [FAULT_OF_NODES] = "nodes"};
    enum fault_domain domain = fault_domain(f->fault->kind);

    if (domain == FAULT_OF_LINKS)
        add_cables(f, false);
    else
        find_all(f);
    return f->out_of_memory ? 0 : draw(f, seed, names[domain]);
}

static int find_place(struct find *f, uint64_t seed)
{
    const struct fault_where *where = &f->fault->where;

    switch (where->place) {
    case FAULT_AT_LINK:
        return find_port(f);
    case FAULT_AT_NODE_LINK:
        return find_node_link(f);
    case FAULT_AT_LEVEL:
        return find_level(f);
    case FAULT_AT_SWITCH:
        if (where->sw >= f->graph->switches)
            return no_switch(f, where->sw);
        add_switch(f, where->sw);
        return 0;
    case FAULT_AT_NODES:
        return find_nodes(f);
    case FAULT_AT_NAMED_SWITCH:
        return find_named_switch(f);
    case FAULT_AT_NAMED_LINK:
        return find_named_link(f);
    case FAULT_AT_TOP:
        return draw_top(f, seed);
    case FAULT_AT_RANDOM:
        return draw_any(f, seed);
    case FAULT_AT_ALL:
        break;
    }
    return find_all(f);
}

int fault_targets_find(struct fault_targets *ret, const struct fault *fault,
                       const struct topo_graph *graph, uint64_t seed, char *error,
                       size_t error_bytes)
{
    struct find f = {.fault = fault, .graph = graph, .error = error, .error_bytes = error_bytes};
    int err = find_place(&f, seed);

    if (!err && f.out_of_memory)
        err = fail(-ENOMEM, error, error_bytes, "%s: out of memory", name_of(&f));
    if (err) {
        free(f.targets.target);
        return err;
    }
    if (!fault_targets_drawn(fault))
        f.targets.among = f.targets.count;
    *ret = f.targets;
    return 0;
}

void fault_targets_release(struct fault_targets *targets)
{
    free(targets->target);
    *targets = (struct fault_targets){0};
}

bool fault_targets_drawn(const struct fault *fault)
{
    return fault->where.place == FAULT_AT_TOP || fault->where.place == FAULT_AT_RANDOM;
}

uint64_t fault_seed(uint64_t seed, uint32_t number, uint64_t time)
{
    return emu_splitmix_at(emu_splitmix_at(seed, number), time);
}

/* --- cables between some nodes and all others ------------------------------------- */

/* Return whether a switch has nodes below it, and the fault names all of these nodes (@named). */
static bool switch_is_inside(const struct topo_graph *graph, uint32_t sw, const bool *named)
{
    bool any = false;

    for (uint32_t n = 0; n < graph->nodes; n++) {
        if (!topo_below(graph, sw, n))
            continue;
        if (!named[n])
            return false;
        any = true;
    }
    return any;
}

/*
 * Return whether the cable from switch @sw to @end connects the nodes that the fault names with the
 * others. This is true only at the lower end of the cable. @named: by node, whether the fault names
 * it; @inside: by switch, the result of switch_is_inside().
 */
static bool joins(const struct topo_graph *graph, uint32_t sw, const struct topo_end *end,
                  const bool *named, const bool *inside)
{
    if (end->kind == TOPO_END_NODE)
        return named[end->id] && !inside[sw];
    return end->kind == TOPO_END_SWITCH && inside[sw] && !inside[end->id] &&
           graph->sw[end->id].level > graph->sw[sw].level;
}

static int cables_find(struct fault_targets *ret, const struct topo_graph *graph, const bool *named,
                       const bool *inside)
{
    uint32_t count = 0;

    ret->target = calloc((size_t)graph->switches * graph->ports, sizeof *ret->target);
    if (!ret->target)
        return -ENOMEM;
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t p = 0; p < graph->ports; p++)
            if (joins(graph, s, &graph->sw[s].end[p], named, inside))
                ret->target[count++] = (struct fault_target){s, p, FAULT_BOTH};
    ret->count = ret->among = count;
    return 0;
}

/* List the cables between @nodes and all other nodes. Errors: -ENOMEM. */
static int partition_find(struct fault_targets *ret, const struct fault_targets *nodes,
                          const struct topo_graph *graph)
{
    bool *named = calloc(graph->nodes, sizeof *named);
    bool *inside = calloc(graph->switches, sizeof *inside);
    int err = named && inside ? 0 : -ENOMEM;

    for (uint32_t i = 0; !err && i < nodes->count; i++)
        named[nodes->target[i].id] = true;
    for (uint32_t s = 0; !err && s < graph->switches; s++)
        inside[s] = switch_is_inside(graph, s, named);
    if (!err)
        err = cables_find(ret, graph, named, inside);
    free(inside);
    free(named);
    return err;
}

int fault_affected_find(struct fault_targets *ret, const struct fault *fault,
                        const struct topo_graph *graph, uint64_t seed, char *error,
                        size_t error_bytes)
{
    struct fault_targets nodes = {.count = 0};
    int err;

    if (!fault_kind_row(fault->kind)->cuts)
        return fault_targets_find(ret, fault, graph, seed, error, error_bytes);
    err = fault_targets_find(&nodes, fault, graph, seed, error, error_bytes);
    if (!err)
        err = partition_find(ret, &nodes, graph);
    fault_targets_release(&nodes);
    return err;
}
