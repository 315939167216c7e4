/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resync.c - bring a host that rejoins up to date: copy the state of the network into its new
 * *replica* (the fabric object of one host, hosts.h), and let the other hosts discard their state
 * of the host's former devices.
 *
 * The new replica cannot plan the existing trees again, because a plan depends on how many trees
 * passed through each switch when it was made. So it gets a copy of each group. The former
 * processes of the host have left all groups. The partial results in its adapters and combine units
 * are lost, so groups that combined there have failed (fabric_groups_through()).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/internal.h"
#include "emu/util/bits.h"

/* number of incarnations that are written before held workers may run for a moment */
#define INCARNATIONS_PER_HOLD 16384u

void fabric_group_each(const struct fabric *fabric,
                       void (*each)(void *ctx, const struct fabric_group_copy *group), void *ctx)
{
    for (uint32_t g = 0; g < fabric->slots; g++) {
        const struct fabric_group *group = fabric->group[g];

        if (group)
            each(ctx, &(struct fabric_group_copy){.id = group->id,
                                                  .combines = group->combines,
                                                  .failed = group->failed,
                                                  .treeless = group->treeless,
                                                  .partitioned = group->partitioned,
                                                  .sources = group->sources,
                                                  .count = group->count,
                                                  .nodes = group->node,
                                                  .tree = group->tree});
    }
}

/* Return whether each port of the tree at this switch leads to a node or to another switch. */
static bool ports_lead_on(const struct topo_graph *graph, const struct topo_tree_switch *at)
{
    bool lead = true;

    emu_each_port (p, at->ports)
        lead = lead && graph->sw[at->sw].end[p].kind != TOPO_END_NONE;
    return lead;
}

/*
 * Return whether a tree can have the part @at: it has ports, all of them exist, and `up` is -1 or
 * one of them, with a cable to another switch.
 */
static bool tree_switch_is_sane(const struct topo_graph *graph, const struct topo_tree_switch *at)
{
    return at->sw < graph->switches && at->up < (int)graph->ports && at->up >= -1 &&
           emu_ports_any(at->ports) && !emu_ports_any(at->ports & ~emu_ports_below(graph->ports)) &&
           (at->up < 0 || (emu_ports_has(at->ports, (uint32_t)at->up) &&
                           graph->sw[at->sw].end[at->up].kind == TOPO_END_SWITCH)) &&
           ports_lead_on(graph, at);
}

/*
 * Check all cables of the tree between this switch and other ones. Each must be in the tree at both
 * ends, and lead up from exactly one end. @of: by switch, its part of the tree; NULL: it has none.
 */
static bool cables_lead_up(const struct topo_graph *graph, const struct topo_tree_switch *const *of,
                           const struct topo_tree_switch *at)
{
    bool good = true;

    emu_each_port (p, at->ports) {
        const struct topo_end *end = &graph->sw[at->sw].end[p];
        const struct topo_tree_switch *far = end->kind == TOPO_END_SWITCH ? of[end->id] : NULL;

        if (end->kind == TOPO_END_SWITCH)
            good = good && far && emu_ports_has(far->ports, end->port) &&
                   (at->up == (int)p) != (far->up == (int)end->port);
    }
    return good;
}

/* Return whether the way up from this switch ends at the root. If not, it is a cycle. */
static bool reaches_root(const struct topo_graph *graph, const struct topo_tree_switch *const *of,
                         const struct topo_tree_switch *at, uint32_t count)
{
    for (; at->up >= 0 && count; count--)
        at = of[graph->sw[at->sw].end[at->up].id];
    return count;
}

/*
 * Return whether the switches form a tree: a multicast in a cycle would never end. The caller has
 * checked each switch by tree_switch_is_sane().
 */
static bool copy_is_tree(const struct topo_graph *graph, const struct topo_tree *tree)
{
    const struct topo_tree_switch **of = calloc(graph->switches, sizeof(struct topo_tree_switch *));
    bool sane = of;
    uint32_t roots = 0;

    for (uint32_t i = 0; sane && i < tree->count; i++) {
        const struct topo_tree_switch *at = &tree->switches[i];

        roots += at->up < 0;
        sane = !of[at->sw];
        of[at->sw] = at;
    }
    for (uint32_t i = 0; sane && i < tree->count; i++)
        sane = cables_lead_up(graph, of, &tree->switches[i]);
    for (uint32_t i = 0; sane && i < tree->count; i++)
        sane = reaches_root(graph, of, &tree->switches[i], tree->count);
    free(of);
    return sane && roots == 1;
}

/* Return whether the copied group is possible in this network, and has no member on this host. */
static bool copy_is_sane(const struct fabric *fabric, const struct fabric_group_copy *copy)
{
    const struct topo_graph *graph = fabric->config.graph;
    bool sane = copy->count && copy->count <= graph->nodes && copy->sources <= graph->nodes &&
                copy->tree.count && copy->tree.count <= graph->switches;

    for (uint32_t i = 0; sane && i < copy->count; i++)
        sane = (copy->nodes[i] & ~FABRIC_LEFT) < graph->nodes &&
               (copy->nodes[i] & FABRIC_LEFT || !fabric_node_is_here(fabric, copy->nodes[i]));
    for (uint32_t i = 0; sane && i < copy->tree.count; i++)
        sane = tree_switch_is_sane(graph, &copy->tree.switches[i]);
    return sane && copy_is_tree(graph, &copy->tree) &&
           fabric_units_can(fabric, copy->combines, &copy->tree);
}

/* Return false if the copy is an extra tree of a group that does not exist on this host. */
static bool copy_is_of_group(const struct fabric *fabric, const struct fabric_group *copy)
{
    uint32_t number = fabric_group_number(fabric, copy);
    const struct fabric_group *group = fabric_group_at(fabric, copy->id - number);

    return !number || (group && !copy->combines && copy->count == group->count &&
                       memcmp(copy->node, group->node, copy->count * sizeof copy->node[0]) == 0);
}

static int copy_tree(struct topo_tree *to, const struct topo_tree *from)
{
    to->switches = malloc(from->count * sizeof *to->switches);
    if (!to->switches)
        return -ENOMEM;
    memcpy(to->switches, from->switches, from->count * sizeof *to->switches);
    to->count = from->count;
    return 0;
}

/*
 * Publish the copied group in the switches. The engines on this host get no part of the group. No
 * engine of an adapter needs one, because no member is on this host. No engine of a combine unit
 * needs one, because all groups that combined in these engines have failed.
 */
static int copy_install(struct fabric *fabric, struct fabric_group *group)
{
    uint32_t units = group->combines && fabric_has_units(&fabric->config) ? group->tree.count : 0;
    uint32_t count = group->count + units, combine_units;
    int err;

    combine_units = group->combines && fabric_has_states(&fabric->config)
                        ? fabric->config.profile.combine_units
                        : 0;
    group->part = fabric_switch_groups_create(fabric, group->id, &group->tree, combine_units);
    if (fabric_has_engines(&fabric->config) && !fabric_group_number(fabric, group)) {
        group->engines = calloc(1, sizeof *group->engines + count * sizeof group->engines->at[0]);
        if (!group->engines)
            return -ENOMEM;
        group->engines->count = count;
        for (uint32_t i = 0; i < count; i++)
            group->engines->at[i].number = i < group->count
                                               ? group->node[i] & ~FABRIC_LEFT
                                               : fabric->config.graph->nodes +
                                                     group->tree.switches[i - group->count].sw;
    }
    if (!group->part)
        return -ENOMEM;
    err = fabric_group_set_aside(fabric, group);
    if (err)
        return err;
    err = fabric_switch_groups_publish(fabric, group->id, &group->tree, group->part);
    if (err)
        fabric_group_unreserve(fabric, group);
    return err;
}

int fabric_group_restore(struct fabric *fabric, const struct fabric_group_copy *copy)
{
    const struct fabric_group_plan plan = {.nodes = copy->nodes,
                                           .count = copy->count,
                                           .sources = copy->sources,
                                           .combines = copy->combines,
                                           .id = copy->id};
    int64_t slot = copy_is_sane(fabric, copy) ? fabric_group_slot_of(fabric, copy->id) : -1;
    struct fabric_group *group;
    int err;

    if (slot < 0)
        return -EINVAL;
    group = fabric_group_new(fabric, &plan, (uint32_t)slot);
    if (!group)
        return -ENOMEM;
    for (uint32_t i = 0; i < group->count; i++)
        group->members -= group->node[i] >> 31;
    group->failed = copy->failed;
    group->treeless = copy->treeless;
    group->partitioned = copy->partitioned;
    err = group->members && copy_is_of_group(fabric, group) ? copy_tree(&group->tree, &copy->tree)
                                                            : -EINVAL;
    if (!err)
        err = copy_install(fabric, group);
    return fabric_group_enter(fabric, group, (uint32_t)slot, err);
}

bool fabric_engine_number_is_on(const struct fabric *fabric, uint32_t number, uint32_t host)
{
    uint32_t nodes = fabric->config.graph->nodes;

    if (number >= nodes + fabric->config.graph->switches)
        return false;
    return (number < nodes ? fabric_node_host(&fabric->config, number)
                           : fabric_switch_host(&fabric->config, number - nodes)) == host;
}

static bool group_combines_on(const struct fabric *fabric, const struct fabric_group *group,
                              uint32_t host)
{
    const struct fabric_group_engines *engines = group->engines;

    for (uint32_t i = 0; engines && i < engines->count; i++)
        if (fabric_engine_number_is_on(fabric, engines->at[i].number, host))
            return true;
    return false;
}

uint32_t fabric_groups_through(const struct fabric *fabric, uint32_t host, uint32_t *groups,
                               uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t g = 0; g < fabric->slots; g++) {
        const struct fabric_group *group = fabric->group[g];

        if (!group || group->failed || !group->combines || !group_combines_on(fabric, group, host))
            continue;
        if (count < max)
            groups[count] = group->id;
        count++;
    }
    return count;
}

/* Tell all engines on this host the incarnation of engine @n. Returns the number of engines. */
static uint32_t engine_incarnation_publish(struct fabric *fabric, uint32_t n, uint32_t incarnation,
                                           uint64_t now_ps)
{
    uint32_t written = 0;

    for (uint32_t e = 0; e < fabric->engines.count; e++) {
        struct engine *engine = fabric->engines.at[e];

        if (!engine)
            continue;
        engine_set_incarnation(engine, n, incarnation, fabric_soon_ps(fabric, now_ps));
        written++;
    }
    return written;
}

/*
 * Write the new incarnation of each engine on @host into each engine on this host: one write per
 * pair of engines. After INCARNATIONS_PER_HOLD or more writes, let the workers run for a moment.
 * Until an engine has the new incarnation, it refuses packets of the new devices, and these devices
 * retransmit them.
 */
void fabric_host_incarnation(struct fabric *fabric, uint32_t host, uint32_t incarnation)
{
    uint32_t n = 0;

    while (n < fabric->engines.count) {
        uint64_t now_ps = fabric_now_ps(fabric);
        uint32_t written = 0;

        fabric_pause(fabric);
        for (; n < fabric->engines.count && written < INCARNATIONS_PER_HOLD; n++)
            if (fabric_engine_number_is_on(fabric, n, host))
                written += engine_incarnation_publish(fabric, n, incarnation, now_ps);
        for (uint32_t e = 0; written && e < fabric->engines.count; e++)
            if (fabric->engines.at[e])
                fabric_wake(fabric, engine_emu_dev(fabric->engines.at[e]), now_ps);
        fabric_resume(fabric);
    }
}

int fabric_node_restore(struct fabric *fabric, uint32_t node, uint64_t word)
{
    if (node >= fabric->config.graph->nodes ||
        (fabric_node_is_here(fabric, node) &&
         (fabric->hostif[node] || emu_incarnation_attached(word))))
        return -EINVAL;
    fabric_incarnation_publish(fabric, node, word);
    return 0;
}

uint64_t fabric_node_word(const struct fabric *fabric, uint32_t node)
{
    return fabric->incarnation[node];
}
