/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replan.c - plan new trees for groups whose tree has lost a link, while collectives are under way.
 *
 * With acknowledgments, the old tree's tables are removed from all switches before the new ones are
 * published. If some switches had the old tables and some the new ones, a packet might reach a
 * member twice, or travel in a cycle. Between the two steps a packet to the group gets a NACK, and
 * its adapter retransmits it, so that operations continue. The tree of adapters does not change,
 * and the adapters keep their partial results.
 *
 * Without acknowledgments nothing is retransmitted, and partial results are in the switches.
 * Therefore operations under way finish on the old tree, where the management network replaces the
 * lost link (in_flight.c). The tree changes while the workers are held and no switch has segments
 * or partial results of the group. A group that is never idle keeps its tree, and is slow. On
 * several hosts no host can see all of the group's switches, so all groups keep their trees. With
 * link-level retry these groups continue like groups that are never idle. Without link-level retry,
 * the manager takes a link out of use only if a port was stuck. Segments of groups then still use
 * this port (switch_crossbar_link()).
 *
 * Source: QsNet III §V (the broadcast tree moves when its top fails).
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "apps/fabric/sample.h"

static bool tree_whole(const struct topo_tree *tree, const struct topo_graph *graph)
{
    for (uint32_t i = 0; i < tree->count; i++)
        emu_each_port (port, tree->switches[i].ports)
            if (graph->sw[tree->switches[i].sw].end[port].kind == TOPO_END_NONE)
                return false;
    return true;
}

static bool both_reach(const struct fabric *fabric, uint32_t a, uint32_t b)
{
    return fabric_reaches(fabric, a, b) && fabric_reaches(fabric, b, a);
}

static uint32_t member_first(const struct fabric_group *group)
{
    uint32_t i = 0;

    while (group->node[i] & FABRIC_LEFT)
        i++;
    return group->node[i];
}

/*
 * Return whether @node has left the group, but is still reachable, so that a tree can include it.
 */
static bool left_in_reach(const struct fabric *fabric, const struct fabric_group *group,
                          uint32_t node)
{
    return (node & FABRIC_LEFT) && both_reach(fabric, member_first(group), node & ~FABRIC_LEFT);
}

/* Plan a tree for the members and, if @with_left is true, for reachable nodes that have left. */
static int tree_over(const struct fabric *fabric, const struct fabric_group *group, bool with_left,
                     struct topo_tree *tree)
{
    uint32_t *nodes = malloc(group->count * sizeof *nodes);
    uint32_t count = 0;
    int err;

    if (!nodes)
        return -ENOMEM;
    for (uint32_t i = 0; i < group->count; i++)
        if (!(group->node[i] & FABRIC_LEFT) ||
            (with_left && left_in_reach(fabric, group, group->node[i])))
            nodes[count++] = group->node[i] & ~FABRIC_LEFT;
    err = topo_tree_build(tree, fabric->links.routed, nodes, count, fabric->tree_load);
    free(nodes);
    return err;
}

/*
 * Plan a tree for the members, and for reachable nodes that have left. The tree includes these
 * nodes because switches accept packets of a group only at ports of its tree, and a member may
 * leave as soon as it has posted its contribution. Packets of this contribution may then still be
 * under way, or be sent again.
 */
static int tree_plan(const struct fabric *fabric, const struct fabric_group *group,
                     struct topo_tree *tree)
{
    int err = tree_over(fabric, group, true, tree);

    return err == -EHOSTUNREACH ? tree_over(fabric, group, false, tree) : err;
}

/* Return whether a node that has left is reachable again, but the tree does not include it. */
static bool tree_misses(const struct fabric *fabric, const struct fabric_group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (left_in_reach(fabric, group, group->node[i]) &&
            topo_tree_link(&group->tree, fabric->links.routed, group->node[i] & ~FABRIC_LEFT) ==
                TOPO_NONE)
            return true;
    return false;
}

/* Tell each member's engine by which link it now sends to the group: its link in the new tree. */
static void members_relink(struct fabric *fabric, const struct fabric_group *group,
                           const struct topo_tree *tree, uint64_t now_ps)
{
    uint32_t number = fabric_group_number(fabric, group);

    fabric_pause(fabric);
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t node = group->node[i] & ~FABRIC_LEFT;
        uint32_t link = topo_tree_link(tree, fabric->links.routed, node);

        if (link == TOPO_NONE || !fabric_engine(fabric, node))
            continue;
        engine_group_relink(fabric_engine(fabric, node), group->id - number, number, link,
                            fabric_soon_ps(fabric, now_ps));
        fabric_wake(fabric, engine_emu_dev(fabric_engine(fabric, node)), now_ps);
    }
    fabric_resume(fabric);
}

/* Result of planning a new tree for a group. */
enum replanned {
    REPLANNED,    /* the group has the new tree */
    REPLAN_KEPT,  /* the group keeps its tree, which still works */
    REPLAN_LATER, /* switches of the old tree have segments or results of the group: try again */
    REPLAN_NEVER  /* no other tree is possible now */
};

/* Give the group a new tree and new parts in switches, and free the old ones. */
static void group_set_tree(struct fabric *fabric, struct fabric_group *group,
                           const struct topo_tree *tree, struct switch_group **part)
{
    fabric_switch_groups_free(fabric, group->part, group->tree.count);
    topo_tree_release(&group->tree);
    group->tree = *tree;
    group->part = part;
}

/* Change the tree of a group that does not combine in switches, while workers run. */
static enum replanned group_replace_tree(struct fabric *fabric, struct fabric_group *group,
                                         const struct topo_tree *tree, struct switch_group **part,
                                         uint64_t now_ps)
{
    fabric_switch_groups_withdraw(fabric, group->id, &group->tree);
    members_relink(fabric, group, tree, now_ps);
    fabric_group_reserve_for(fabric, group, tree);
    group_set_tree(fabric, group, tree, part);
    return fabric_switch_groups_publish(fabric, group->id, &group->tree, part) ? REPLAN_NEVER
                                                                               : REPLANNED;
}

/* Return whether no switch of the group's tree has segments or partial results of the group. */
static bool group_is_quiet(const struct fabric *fabric, const struct fabric_group *group)
{
    for (uint32_t i = 0; i < group->tree.count; i++)
        if (!switch_group_is_idle(group->part[i]) ||
            switch_holds(fabric->sw[group->tree.switches[i].sw], group->id))
            return false;
    return true;
}

/* Change the tree while workers are held. Segments not yet taken by a switch use the new tree. */
static enum replanned group_move(struct fabric *fabric, struct fabric_group *group,
                                 const struct topo_tree *tree, struct switch_group **part)
{
    fabric_switch_groups_withdraw(fabric, group->id, &group->tree);
    if (!fabric_switch_groups_publish(fabric, group->id, tree, part)) {
        if (fabric_group_reserve_for(fabric, group, tree)) {
            group_set_tree(fabric, group, tree, part);
            return REPLANNED;
        }
        fabric_switch_groups_withdraw(fabric, group->id, tree);
    }
    /* the switches need no memory for this: their tables still have an entry for the group */
    fabric_switch_groups_publish(fabric, group->id, &group->tree, group->part);
    return REPLAN_NEVER;
}

/* Move a group to @tree. On success the group owns @tree; otherwise this releases it. */
static enum replanned group_to_tree(struct fabric *fabric, struct fabric_group *group,
                                    struct topo_tree *tree, uint64_t now_ps)
{
    bool states = fabric_has_states(&fabric->config);
    uint32_t units = states && group->combines ? fabric->config.profile.combine_units : 0;
    enum replanned how = REPLAN_NEVER;
    struct switch_group **part;

    if (group->combines && fabric_combine_is_out(fabric, tree)) {
        topo_tree_release(tree);
        return REPLAN_NEVER;
    }
    part = fabric_switch_groups_create(fabric, group->id, tree, units);
    if (part)
        how = states ? group_move(fabric, group, tree, part)
                     : group_replace_tree(fabric, group, tree, part, now_ps);
    if (how != REPLANNED && group->part != part) {
        fabric_switch_groups_free(fabric, part, tree->count);
        topo_tree_release(tree);
    }
    return how;
}

/*
 * Return whether the fabric has taken all segments that were posted by nodes that have left the
 * group.
 */
static bool left_is_quiet(const struct fabric *fabric, const struct fabric_group *group)
{
    struct fabric_node_sample sample;

    for (uint32_t i = 0; i < group->count; i++)
        if (group->node[i] & FABRIC_LEFT &&
            fabric_sample_node(fabric, group->node[i] & ~FABRIC_LEFT, &sample) && sample.posted)
            return false;
    return true;
}

/*
 * Plan a tree that includes nodes that have left, and move the group to it. If that is not
 * possible, and there are no acknowledgments, try a tree without these nodes. This is safe, because
 * such a group moves only when it is idle. So no switch has segments of these nodes, and
 * left_is_quiet() checks that none of their posted segments waits in a host interface.
 */
static enum replanned group_try_trees(struct fabric *fabric, struct fabric_group *group,
                                      uint64_t now_ps)
{
    enum replanned how = REPLAN_NEVER;
    struct topo_tree tree = {0};

    if (!tree_plan(fabric, group, &tree))
        how = group_to_tree(fabric, group, &tree, now_ps);
    if (how == REPLAN_NEVER && group->members < group->count &&
        fabric_has_states(&fabric->config) && left_is_quiet(fabric, group) &&
        !tree_over(fabric, group, false, &tree))
        how = group_to_tree(fabric, group, &tree, now_ps);
    return how;
}

static enum replanned group_replan(struct fabric *fabric, struct fabric_group *group,
                                   uint64_t now_ps)
{
    enum replanned how = REPLAN_LATER;

    if (fabric_has_units(&fabric->config) && group->combines)
        return REPLAN_NEVER; /* its units have partial results in the old tree */
    if (fabric_has_engines(&fabric->config))
        return group_try_trees(fabric, group, now_ps);
    if (fabric->config.hosts)
        return REPLAN_KEPT;
    fabric_pause(fabric);
    if (group_is_quiet(fabric, group))
        how = group_try_trees(fabric, group, now_ps);
    fabric_resume(fabric);
    return how;
}

bool fabric_group_avoid_unit(struct fabric *fabric, struct fabric_group *group, uint64_t now_ps)
{
    return group_is_quiet(fabric, group) && group_try_trees(fabric, group, now_ps) == REPLANNED;
}

static bool group_is_partitioned(const struct fabric *fabric, const struct fabric_group *group)
{
    uint32_t first = member_first(group);

    for (uint32_t i = 0; i < group->count; i++)
        if (!(group->node[i] & FABRIC_LEFT) && !both_reach(fabric, first, group->node[i]))
            return true;
    return false;
}

/*
 * Plan a new tree for a group whose tree has lost a link, or does not include a node that has left
 * and is reachable.
 */
static enum replanned group_check_tree(struct fabric *fabric, struct fabric_group *group,
                                       uint64_t now_ps)
{
    enum replanned how;

    group->partitioned = group_is_partitioned(fabric, group);
    if (group->partitioned)
        return REPLAN_NEVER;
    how = group_replan(fabric, group, now_ps);
    fabric->links.replanned += how == REPLANNED;
    return how;
}

void fabric_replan(struct fabric *fabric, uint64_t now_ps,
                   void (*treeless)(void *ctx, uint32_t group), void *ctx)
{
    uint32_t later = 0;

    for (uint32_t g = 0; g < fabric->slots; g++) {
        struct fabric_group *group = fabric->group[g];
        enum replanned how = REPLANNED;
        bool was, whole;

        if (!group || group->failed)
            continue;
        was = group->treeless;
        group->partitioned = false;
        whole = tree_whole(&group->tree, fabric->links.routed);
        if (!whole || tree_misses(fabric, group))
            how = group_check_tree(fabric, group, now_ps);
        group->treeless = !whole && how == REPLAN_NEVER;
        later += how == REPLAN_LATER;
        if (group->treeless && !was && !fabric_group_number(fabric, group))
            treeless(ctx, group->id);
    }
    fabric->links.replans_pending = later;
}

void fabric_replan_treeless(struct fabric *fabric)
{
    for (uint32_t g = 0; g < fabric->slots; g++)
        fabric->links.replans_pending += fabric->group[g] && fabric->group[g]->treeless;
}

uint64_t fabric_replanned(const struct fabric *fabric)
{
    return fabric->links.replanned;
}

uint32_t fabric_replans_pending(const struct fabric *fabric)
{
    return fabric->links.replans_pending;
}
