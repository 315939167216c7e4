/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * members.c - what the adapters of a group's members know of it: the link by which they are
 * in its tree of switches, and their place in its tree of adapters.
 *
 * The tree of adapters is made over the members in the order of their numbers, each part of that
 * order a subtree: nodes with numbers near each other are near each other in the network, so most
 * of its edges stay below one switch. Source: QsNet III §IV-A.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/worker/rcu.h"

/* A member, by node. */
struct place {
    uint32_t node;
    uint32_t parent; /* node */
    uint32_t children;
    uint32_t child[EMU_TREE_WIDTH_MAX];
};

static int by_node(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return x->node < y->node ? -1 : x->node > y->node;
}

/*
 * The first of @count places is the parent of the first of each of at most @width equal parts of
 * the rest. The loop goes on with the last part instead of recursing, since a tree of width 1 is as
 * deep as it has members.
 */
static void tree_grow(struct place *place, uint32_t count, uint32_t width)
{
    uint32_t rest = count - 1;
    struct place *child = place + 1;

    while (rest) {
        uint32_t part = (rest + width - place->children - 1) / (width - place->children);

        child->parent = place->node;
        place->child[place->children++] = child->node;
        if (part == rest) {
            place = child++;
            rest--;
            continue;
        }
        tree_grow(child, part, width);
        child += part;
        rest -= part;
    }
}

static int member_create(const struct fabric *fabric, const struct fabric_group *group,
                         const struct place *place, struct fabric_member *ret)
{
    const struct engine_group_config config = {
        .id = group->id,
        .link = topo_tree_link(&group->tree, fabric->config.graph, place->node),
        .combines = group->combines,
        .sources = group->sources + (group->combines && fabric_has_units(&fabric->config)),
        .in_order = fabric->config.profile.combine_order == EMU_COMBINE_PORT,
        .parent = place->parent,
        .by_link = fabric_has_units(&fabric->config),
        .children = place->children,
        .child = place->child,
    };

    ret->engine = fabric->engine[place->node];
    return engine_group_create(&ret->group, &config);
}

/* Members, below the units of their switches. */
static void tree_below_units(const struct fabric *fabric, const struct fabric_group *group,
                             struct place *place)
{
    const struct topo_graph *graph = fabric->config.graph;

    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t link = topo_tree_link(&group->tree, graph, place[i].node);

        place[i].parent = graph->nodes + graph->node[place[i].node].link[link].sw;
    }
}

static int units_create(const struct fabric *fabric, struct fabric_group *group)
{
    int err = 0;

    for (uint32_t i = group->count; !err && i < group->knowing; i++) {
        const struct topo_tree_switch *at = &group->tree.switches[i - group->count];

        group->member[i].engine = fabric->unit[at->sw];
        err = fabric_unit_group(fabric, group, at, &group->member[i].group);
    }
    return err;
}

int fabric_members_create(const struct fabric *fabric, struct fabric_group *group)
{
    bool units = group->combines && fabric_has_units(&fabric->config);
    struct place *place = calloc(group->count, sizeof *place);
    int err = 0;

    group->knowing = group->count + (units ? group->tree.count : 0);
    group->member = calloc(group->knowing, sizeof *group->member);
    if (!place || !group->member) {
        free(place);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < group->count; i++)
        place[i] = (struct place){.node = group->node[i], .parent = ENGINE_NO_NODE};
    qsort(place, group->count, sizeof *place, by_node);
    if (units)
        tree_below_units(fabric, group, place);
    else if (group->combines)
        tree_grow(place, group->count, fabric->config.profile.tree_width);
    for (uint32_t i = 0; !err && i < group->count; i++)
        err = member_create(fabric, group, &place[i], &group->member[i]);
    free(place);
    return err ? err : units_create(fabric, group);
}

int fabric_members_publish(struct fabric_group *group)
{
    void **old = calloc(group->knowing, sizeof(void *));
    int err = old ? 0 : -ENOMEM;

    for (uint32_t i = 0; !err && i < group->knowing; i++)
        err = engine_groups_set(group->member[i].engine, group->member[i].group, &old[i]);
    if (err)
        fabric_members_withdraw(group);
    emu_rcu_wait();
    for (uint32_t i = 0; old && i < group->knowing; i++)
        free(old[i]);
    free(old);
    return err;
}

void fabric_members_withdraw(const struct fabric_group *group)
{
    for (uint32_t i = 0; i < group->knowing; i++)
        engine_groups_clear(group->member[i].engine, group->id);
}

bool fabric_members_free(struct fabric *fabric, struct fabric_group *group)
{
    bool all = true;

    for (uint32_t i = 0; group->member && i < group->knowing; i++) {
        if (engine_group_destroy(group->member[i].group, &fabric->cache, fabric->stopped))
            group->member[i].group = NULL;
        else
            all = false;
    }
    return all;
}
