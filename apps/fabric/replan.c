/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replan.c - trees of groups that have lost a link grow anew, while their collectives are under
 * way.
 *
 * The old tree's tables are taken out everywhere before the new ones go in: were there switches
 * with the one and switches with the other, a packet might come to a member twice, or go in a
 * circle. Between the two a packet to the group gets a NACK and its adapter sends it again, so that
 * operations go on where they were. The tree of adapters, and what they have combined, stays.
 * Source: QsNet III §V (the broadcast tree moves when its top fails).
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"

/* Is every cable of the tree in the network? */
static bool tree_whole(const struct topo_tree *tree, const struct topo_graph *graph)
{
    for (uint32_t i = 0; i < tree->count; i++)
        emu_each_bit (port, tree->switches[i].ports)
            if (graph->sw[tree->switches[i].sw].end[port].kind == TOPO_END_NONE)
                return false;
    return true;
}

/* A tree for those that have not left. */
static int tree_plan(const struct fabric *fabric, const struct fabric_group *group,
                     struct topo_tree *tree)
{
    uint32_t *nodes = malloc(group->count * sizeof *nodes);
    uint32_t count = 0;
    int err;

    if (!nodes)
        return -ENOMEM;
    for (uint32_t i = 0; i < group->count; i++)
        if (group->node[i] != TOPO_NONE)
            nodes[count++] = group->node[i];
    err = topo_tree_build(tree, fabric->links.routed, nodes, count, fabric->tree_load);
    free(nodes);
    return err;
}

/* Members send to the group by the link that is in the tree now. */
static void members_relink(struct fabric *fabric, const struct fabric_group *group,
                           const struct topo_tree *tree, uint64_t now_ps)
{
    fabric_hold(fabric);
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t node = group->node[i];
        uint32_t link = node == TOPO_NONE ? TOPO_NONE
                                          : topo_tree_link(tree, fabric->links.routed, node);

        if (link == TOPO_NONE)
            continue;
        engine_group_relink(fabric_engine(fabric, node), group->id, link,
                            fabric_soon_ps(fabric, now_ps));
        fabric_wake(fabric, engine_emu_dev(fabric_engine(fabric, node)), now_ps);
    }
    fabric_go(fabric);
}

static bool group_replan(struct fabric *fabric, struct fabric_group *group, uint64_t now_ps)
{
    struct topo_tree tree = {0}, gone = group->tree;
    struct switch_group **part, **gone_part = group->part;

    if (fabric_has_units(&fabric->config) && group->combines)
        return false; /* what its units have combined lies in the old tree */
    if (tree_plan(fabric, group, &tree))
        return false;
    part = fabric_parts_create(fabric, group->id, &tree, 0); /* adapters combine */
    if (!part) {
        topo_tree_release(&tree);
        return false;
    }
    fabric_parts_withdraw(fabric, group->id, &gone);
    members_relink(fabric, group, &tree, now_ps);
    topo_tree_charge(&gone, fabric->tree_load, -1);
    topo_tree_charge(&tree, fabric->tree_load, 1);
    group->tree = tree;
    group->part = part;
    fabric_parts_free(fabric, gone_part, gone.count);
    topo_tree_release(&gone);
    return !fabric_parts_publish(fabric, group->id, &tree, part);
}

void fabric_groups_replan(struct fabric *fabric, uint64_t now_ps,
                          void (*treeless)(void *ctx, uint32_t group), void *ctx)
{
    for (uint32_t g = 0; g < fabric->slots; g++) {
        struct fabric_group *group = fabric->group[g];
        bool was;

        if (!group)
            continue;
        was = group->treeless;
        group->treeless = !tree_whole(&group->tree, fabric->links.routed) &&
                          !group_replan(fabric, group, now_ps);
        if (group->treeless && !was)
            treeless(ctx, group->id);
    }
}
