/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * members.c - the *parts* of a group, which are its tables in devices. Each switch of the group's
 * tree has a part. With acknowledgments the adapter of each member also has a part. This part
 * contains the member's link in the tree of switches, and its position in the tree of adapters.
 *
 * The tree of adapters divides the members, sorted by node number, into contiguous subtrees. Nodes
 * with similar numbers are close to each other in the network, so most edges of the tree connect
 * nodes at one switch. Source: QsNet III §IV-A.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/dev/rcu.h"

/* A member's position in the tree of adapters. */
struct member {
    uint32_t node;
    /* number of a node or of a unit engine; ENGINE_NO_NODE: this member is the root */
    uint32_t parent;
    uint32_t children;
    uint32_t child[EMU_TREE_WIDTH_MAX];
};

static int by_node(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    return x->node < y->node ? -1 : x->node > y->node;
}

/*
 * Make a tree of @count members. The first member is the root. The rest is divided into at most
 * @width equal ranges; each becomes a subtree, whose root is a child of the first member. The loop
 * continues with the last range instead of recursing, because a tree of width 1 is deep.
 */
static void tree_grow(struct member *member, uint32_t count, uint32_t width)
{
    uint32_t rest = count - 1;
    struct member *child = member + 1;

    while (rest) {
        uint32_t part = (rest + width - member->children - 1) / (width - member->children);

        child->parent = member->node;
        member->child[member->children++] = child->node;
        if (part == rest) {
            member = child++;
            rest--;
            continue;
        }
        tree_grow(child, part, width);
        child += part;
        rest -= part;
    }
}

/* limit of members in a tree of width 1, in which each result passes through all members */
#define CHAIN_MOST 64u

/*
 * Return the width of a group's tree of adapters. A short operation is fastest in a wide tree,
 * which has few levels. But with long vectors the parent's link is the bottleneck, because it
 * carries the contributions of all children. So for a wide window the tree has the smaller
 * vector_tree_width of the profile, and its adapters work as a pipeline.
 */
static uint32_t tree_width(const struct fabric *fabric, const struct fabric_group *group)
{
    const struct emu_profile *profile = &fabric->config.profile;
    uint32_t width = profile->vector_tree_width;

    if (emu_window(group->id) == EMU_WINDOW)
        return profile->tree_width;
    return width == 1 && group->count > CHAIN_MOST ? 2 : width;
}

static int member_create(const struct fabric *fabric, const struct fabric_group *group,
                         const struct member *member, struct engine_group **ret)
{
    struct engine_group_config config = {
        .id = group->id,
        .combines = group->combines,
        .sources = group->sources + (group->combines && fabric_has_units(&fabric->config)),
        .in_order = fabric->config.profile.combine_order == EMU_COMBINE_PORT,
        .parent = member->parent,
        .by_link = fabric_has_units(&fabric->config),
        .children = member->children,
        .child = member->child,
    };

    for (const struct fabric_group *at = group; at;
         at = fabric_group_tree(fabric, group, config.trees))
        config.link[config.trees++] = topo_tree_link(&at->tree, fabric->links.routed, member->node);
    return engine_group_create(ret, &config);
}

/* Make the unit engine of each member's switch the member's parent. */
static void tree_below_units(const struct fabric *fabric, const struct fabric_group *group,
                             struct member *member)
{
    const struct topo_graph *graph = fabric->links.routed;

    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t link = topo_tree_link(&group->tree, graph, member[i].node);

        member[i].parent = graph->nodes + graph->node[member[i].node].link[link].sw;
    }
}

static int members_create(const struct fabric *fabric, struct fabric_group *group,
                          const struct member *member)
{
    int err = 0;

    for (uint32_t i = 0; !err && i < group->count; i++) {
        group->engines->at[i].number = member[i].node;
        group->engines->at[i].incarnation =
            emu_incarnation_first(fabric->incarnation[member[i].node]);
        group->engines->at[i].engine = fabric_engine(fabric, member[i].node);
        if (!group->engines->at[i].engine)
            continue; /* on another host */
        err = member_create(fabric, group, &member[i], &group->engines->at[i].group);
    }
    return err;
}

static int units_create(const struct fabric *fabric, struct fabric_group *group)
{
    int err = 0;

    for (uint32_t i = group->count; !err && i < group->engines->count; i++) {
        const struct topo_tree_switch *at = &group->tree.switches[i - group->count];

        group->engines->at[i].number = fabric->config.graph->nodes + at->sw;
        group->engines->at[i].engine = fabric_unit(fabric, at->sw);
        if (!group->engines->at[i].engine)
            continue;
        err = fabric_unit_group(fabric, group, at, &group->engines->at[i].group);
    }
    return err;
}

int fabric_members_create(const struct fabric *fabric, struct fabric_group *group)
{
    bool units = group->combines && fabric_has_units(&fabric->config);
    uint32_t count = group->count + (units ? group->tree.count : 0);
    struct member *member = calloc(group->count, sizeof *member);
    int err;

    group->engines = calloc(1, sizeof *group->engines + count * sizeof group->engines->at[0]);
    if (!member || !group->engines) {
        free(member);
        return -ENOMEM;
    }
    group->engines->count = count;
    for (uint32_t i = 0; i < group->count; i++)
        member[i] = (struct member){.node = group->node[i], .parent = ENGINE_NO_NODE};
    qsort(member, group->count, sizeof *member, by_node);
    if (units)
        tree_below_units(fabric, group, member);
    else if (group->combines)
        tree_grow(member, group->count, tree_width(fabric, group));
    err = members_create(fabric, group, member);
    free(member);
    return err ? err : units_create(fabric, group);
}

int fabric_members_publish(const struct fabric_group *group)
{
    const struct fabric_group_engines *engines = group->engines;
    void **old = calloc(engines->count, sizeof(void *));
    int err = old ? 0 : -ENOMEM;

    for (uint32_t i = 0; !err && i < engines->count; i++)
        if (engines->at[i].engine)
            err = engine_groups_set(engines->at[i].engine, engines->at[i].group, &old[i]);
    if (err)
        fabric_members_withdraw(group);
    emu_rcu_wait();
    for (uint32_t i = 0; old && i < engines->count; i++)
        free(old[i]);
    free(old);
    return err;
}

void fabric_members_withdraw(const struct fabric_group *group)
{
    for (uint32_t i = 0; i < group->engines->count; i++)
        if (group->engines->at[i].engine)
            engine_groups_clear(group->engines->at[i].engine, group->id);
}

bool fabric_members_free(struct fabric *fabric, struct fabric_group *group)
{
    struct fabric_group_engines *engines = group->engines;
    bool all = true;

    for (uint32_t i = 0; engines && i < engines->count; i++) {
        if (engine_group_destroy(engines->at[i].group, &fabric->cache, fabric->stopped))
            engines->at[i].group = NULL;
        else
            all = false;
    }
    return all;
}

struct switch_group **fabric_switch_groups_create(struct fabric *fabric, uint32_t id,
                                                  const struct topo_tree *tree, uint32_t units)
{
    struct switch_group **part = calloc(tree->count, sizeof(struct switch_group *));
    int err = 0;

    for (uint32_t i = 0; part && !err && i < tree->count; i++)
        if (fabric->sw[tree->switches[i].sw])
            err = switch_group_create(&part[i], id, tree->switches[i].ports, tree->switches[i].up,
                                      units, fabric->config.profile.combine_order);
    if (!err)
        return part;
    fabric_switch_groups_free(fabric, part, tree->count);
    return NULL;
}

void fabric_switch_groups_free(struct fabric *fabric, struct switch_group **part, uint32_t count)
{
    for (uint32_t i = 0; part && i < count; i++)
        if (part[i])
            switch_group_destroy(part[i], fabric->config.graph->ports, &fabric->cache);
    free(part);
}

void fabric_switch_groups_withdraw(struct fabric *fabric, uint32_t id, const struct topo_tree *tree)
{
    for (uint32_t i = 0; i < tree->count; i++)
        if (fabric->sw[tree->switches[i].sw])
            switch_groups_clear(fabric->sw[tree->switches[i].sw], id);
    emu_rcu_wait();
}

/* Free the old tables only after emu_rcu_wait(), when no worker reads them any more. */
int fabric_switch_groups_publish(struct fabric *fabric, uint32_t id, const struct topo_tree *tree,
                                 struct switch_group **part)
{
    void **old = calloc(tree->count, sizeof(void *));
    int err = old ? 0 : -ENOMEM;
    uint32_t done = 0;

    while (!err && done < tree->count) {
        if (part[done])
            err = switch_groups_set(fabric->sw[tree->switches[done].sw], part[done], &old[done]);
        done += !err;
    }
    if (err)
        fabric_switch_groups_withdraw(fabric, id, tree);
    else
        emu_rcu_wait();
    for (uint32_t i = 0; i < done; i++)
        free(old[i]);
    free(old);
    return err;
}
