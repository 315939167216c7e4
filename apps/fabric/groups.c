/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * groups.c - collective groups: plan a group's tree, reserve buffers and combine states for it,
 * publish its parts in switches and engines, and remove all this with the last member.
 *
 * The low bits of a collective address are a slot of the table of groups. The bits above are a
 * *generation*, a number that changes with each new address. A *state* stores one operation in
 * progress in a combine unit. A group reserves one state for each sequence number of its *window*
 * (emu/packet/seg.h). If the profile field broadcast_trees is above 1, a group has *extra trees*,
 * which its broadcasts use in turn. Each is stored as a group with an address of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"
#include "apps/fabric/fabric.h"
#include "apps/fabric/internal.h"
#include "apps/base/message.h"
#include "emu/util/bits.h"

static uint32_t group_slots(const struct fabric *fabric)
{
    return emu_profile_group_slots(&fabric->config.profile);
}

/*
 * Return the next free slot, round robin, so that a freed slot is reused as late as possible. The
 * slots of the group's extra trees follow this slot.
 */
static int64_t group_slot(struct fabric *fabric)
{
    uint32_t step = group_slots(fabric);

    if (fabric->groups >= fabric->slots / 2 && fabric->slots < FABRIC_GROUPS_MAX)
        fabric->slots *= 2;
    for (uint32_t i = step; i <= fabric->slots; i += step) {
        uint32_t slot = (fabric->last_slot + i) % fabric->slots;

        if (!fabric->group[slot])
            return slot;
    }
    return -1;
}

int64_t fabric_group_slot_of(struct fabric *fabric, uint32_t id)
{
    uint32_t slot = id % FABRIC_GROUPS_MAX;

    while (slot >= fabric->slots)
        fabric->slots *= 2;
    return fabric->group[slot] ? -1 : (int64_t)slot;
}

struct fabric_group *fabric_group_at(const struct fabric *fabric, uint32_t id)
{
    struct fabric_group *group = fabric->group[id % FABRIC_GROUPS_MAX];

    return group && group->id == id ? group : NULL;
}

uint32_t fabric_group_number(const struct fabric *fabric, const struct fabric_group *group)
{
    return group->id % group_slots(fabric);
}

struct fabric_group *fabric_group_tree(const struct fabric *fabric,
                                       const struct fabric_group *group, uint32_t tree)
{
    return tree < group_slots(fabric) ? fabric_group_at(fabric, group->id + tree) : NULL;
}

void fabric_groups_sweep(struct fabric *fabric)
{
    struct fabric_group *gone = fabric->retired;

    fabric->retired = NULL;
    while (gone) {
        struct fabric_group *next = gone->next;

        fabric_group_free(fabric, gone);
        gone = next;
    }
}

void fabric_group_free(struct fabric *fabric, struct fabric_group *group)
{
    if (!group)
        return;
    if (!fabric_members_free(fabric, group)) {
        group->next = fabric->retired;
        fabric->retired = group;
        return;
    }
    fabric->spare_bufs += group->bufs;
    fabric_switch_groups_free(fabric, group->part, group->tree.count);
    free(group->engines);
    topo_tree_release(&group->tree);
    free(group);
}

int fabric_group_enter(struct fabric *fabric, struct fabric_group *group, uint32_t slot, int err)
{
    if (err) {
        fabric_group_free(fabric, group);
        return err;
    }
    fabric->group[slot] = group;
    fabric->groups++;
    return 0;
}

/* Publish the group in all devices that need it or, on failure, in none. */
static int group_publish(struct fabric *fabric, struct fabric_group *group)
{
    int err = fabric_switch_groups_publish(fabric, group->id, &group->tree, group->part);

    if (err || !group->engines)
        return err;
    err = fabric_members_publish(group);
    if (err)
        fabric_switch_groups_withdraw(fabric, group->id, &group->tree);
    return err;
}

/* Return the maximum number of buffers that a group's partial results use in one switch. */
static uint64_t group_bufs(const struct fabric *fabric, uint32_t window,
                           const struct topo_tree_switch *at)
{
    bool in_order = fabric->config.profile.combine_order == EMU_COMBINE_PORT;

    return (uint64_t)window *
           (in_order ? emu_ports_count(at->ports) : fabric->config.profile.combine_units);
}

static bool group_is_wide(const struct fabric_group *group)
{
    return group->id & EMU_GROUP_WIDE;
}

/*
 * Return the part of @whole that all groups of this kind may use together: half of it if they have
 * a wide window, else all of it.
 */
static uint64_t group_share(const struct fabric_group *group, uint64_t whole)
{
    return group_is_wide(group) ? whole / 2 : whole;
}

static uint64_t group_bufs_all(const struct fabric *fabric, const struct fabric_group *group)
{
    const struct topo_tree *tree = &group->tree;
    uint64_t units = fabric_has_units(&fabric->config) ? tree->count : 0, bufs = 0;

    if (!fabric_has_states(&fabric->config))
        return (group->count + units) * engine_group_bufs(group->id);
    for (uint32_t i = 0; i < tree->count; i++)
        bufs += group_bufs(fabric, emu_window(group->id), &tree->switches[i]);
    return bufs;
}

/* Count the load of @tree, which the group is about to use, and add its hosts to group->hosts. */
static void group_charge(struct fabric *fabric, struct fabric_group *group,
                         const struct topo_tree *tree)
{
    topo_tree_charge(tree, fabric->tree_load, 1);
    for (uint32_t i = 0; i < tree->count; i++)
        group->hosts |= emu_bit(fabric_switch_host(&fabric->config, tree->switches[i].sw));
}

int fabric_group_set_aside(struct fabric *fabric, struct fabric_group *group)
{
    const struct topo_tree *tree = &group->tree;
    uint64_t bufs = group->combines ? group_bufs_all(fabric, group) : 0;

    if (bufs > fabric->spare_bufs || (group->combines && fabric->combining == FABRIC_COMBINING_MAX))
        return -ENOSPC;
    for (uint32_t i = 0; i < group->count; i++)
        group->hosts |= emu_bit(fabric_node_host(&fabric->config, group->node[i] & ~FABRIC_LEFT));
    group_charge(fabric, group, tree);
    if (!group->combines)
        return 0;
    group->bufs = bufs;
    fabric->spare_bufs -= bufs;
    fabric->combining++;
    for (uint32_t i = 0; fabric_has_states(&fabric->config) && i < tree->count; i++)
        fabric->states[tree->switches[i].sw] += emu_window(group->id);
    return 0;
}

/* Check that there are states and buffers for the group's partial results, and reserve them. */
static int group_reserve(struct fabric *fabric, struct fabric_group *group, char *error,
                         size_t error_bytes)
{
    const struct topo_tree *tree = &group->tree;
    bool in_switch = fabric_has_states(&fabric->config);
    uint32_t window = emu_window(group->id);
    uint32_t states = fabric->config.profile.combine_states;
    uint64_t bufs = group->combines ? group_bufs_all(fabric, group) : 0;
    const struct topo_tree_switch *exhausted;

    if (!group->combines)
        return fabric_group_set_aside(fabric, group);
    if (fabric->combining == FABRIC_COMBINING_MAX)
        return fail(-ENOSPC, error, error_bytes,
                    "no more groups for barriers and reductions can be made: there are %u already",
                    FABRIC_COMBINING_MAX);
    exhausted = fabric_combine_exhausted(fabric, tree);
    if (exhausted)
        return fail(-ENOSPC, error, error_bytes,
                    "a fault makes switch %u refuse combine states to new groups", exhausted->sw);
    if (fabric_combine_is_out(fabric, tree))
        return fail(-ENOSPC, error, error_bytes,
                    "in every possible tree of the group, a combine unit is out of service");
    for (uint32_t i = 0; in_switch && i < tree->count; i++) {
        uint32_t sw = tree->switches[i].sw;

        if (fabric->states[sw] + window > group_share(group, states))
            return fail(-ENOSPC, error, error_bytes,
                        "no combine state is left in switch %u%s: it has room for %u partial "
                        "result%s (profile field combine_states)",
                        sw, group_is_wide(group) ? " for groups with a wide window" : "", states,
                        plural_s(states));
    }
    if (FABRIC_GROUP_BUFS - fabric->spare_bufs + bufs > group_share(group, FABRIC_GROUP_BUFS))
        return fail(-ENOSPC, error, error_bytes,
                    "no buffers are left for the group's partial results%s",
                    group_is_wide(group) ? " with a wide window" : "");
    return fabric_group_set_aside(fabric, group);
}

/*
 * The buffers normally stay reserved until the group is freed, because packets of it may still be
 * under way. But several hosts free a group at different times, so one host could refuse a new
 * group that the others accept. Therefore the buffers are released here if there are several hosts.
 * The pool then has twice as many buffers, to have some for the packets under way.
 */
void fabric_group_unreserve(struct fabric *fabric, struct fabric_group *group)
{
    const struct topo_tree *tree = &group->tree;

    if (fabric->config.hosts) {
        fabric->spare_bufs += group->bufs;
        group->bufs = 0;
    }
    topo_tree_charge(tree, fabric->tree_load, -1);
    if (!group->combines)
        return;
    fabric->combining--;
    for (uint32_t i = 0; fabric_has_states(&fabric->config) && i < tree->count; i++)
        fabric->states[tree->switches[i].sw] -= emu_window(group->id);
}

static int group_parts(struct fabric *fabric, struct fabric_group *group)
{
    bool combines = group->combines && fabric_has_states(&fabric->config);
    uint32_t units = combines ? fabric->config.profile.combine_units : 0;

    group->part = fabric_switch_groups_create(fabric, group->id, &group->tree, units);
    if (!group->part)
        return -ENOMEM;
    if (!fabric_has_engines(&fabric->config) || fabric_group_number(fabric, group))
        return 0;
    return fabric_members_create(fabric, group);
}

/* Add (@sign 1) or subtract (@sign -1) the group's states at the switches of @tree. */
static void states_add(struct fabric *fabric, const struct fabric_group *group,
                       const struct topo_tree *tree, int32_t sign)
{
    for (uint32_t i = 0; i < tree->count; i++)
        fabric->states[tree->switches[i].sw] += (uint32_t)sign * emu_window(group->id);
}

/*
 * Move the reserved states and buffers to the tree @to. Returns false if not enough are left there;
 * then nothing has changed.
 */
static bool states_reserve_for(struct fabric *fabric, struct fabric_group *group,
                               const struct topo_tree *to)
{
    uint32_t window = emu_window(group->id);
    uint64_t bufs = 0;
    bool capacity = true;

    states_add(fabric, group, &group->tree, -1);
    for (uint32_t i = 0; i < to->count; i++) {
        bufs += group_bufs(fabric, window, &to->switches[i]);
        capacity &= fabric->states[to->switches[i].sw] + window <=
                    fabric->config.profile.combine_states;
    }
    if (!capacity || fabric->spare_bufs + group->bufs < bufs) {
        states_add(fabric, group, &group->tree, 1);
        return false;
    }
    states_add(fabric, group, to, 1);
    fabric->spare_bufs += group->bufs - bufs;
    group->bufs = bufs;
    return true;
}

bool fabric_group_reserve_for(struct fabric *fabric, struct fabric_group *group,
                              const struct topo_tree *to)
{
    if (group->combines && fabric_has_states(&fabric->config) &&
        !states_reserve_for(fabric, group, to))
        return false;
    topo_tree_charge(&group->tree, fabric->tree_load, -1);
    group_charge(fabric, group, to);
    return true;
}

/* Create a group with address @id. NULL: out of memory. */
static struct fabric_group *group_alloc(const struct fabric_group_plan *plan, uint32_t id)
{
    struct fabric_group *group = calloc(1, sizeof *group + plan->count * sizeof group->node[0]);

    if (!group)
        return NULL;
    group->id = id;
    group->combines = plan->combines;
    group->sources = plan->sources;
    group->count = group->members = plan->count;
    memcpy(group->node, plan->nodes, plan->count * sizeof group->node[0]);
    return group;
}

struct fabric_group *fabric_group_new(struct fabric *fabric, const struct fabric_group_plan *plan,
                                      uint32_t slot)
{
    uint32_t id = plan->id;

    /* changed even if memory runs out, so that last_slot is equal on all hosts */
    fabric->last_slot = slot - slot % group_slots(fabric);
    fabric->generation = (fabric->generation + 1) % FABRIC_GENERATIONS;
    if (id == TOPO_NONE)
        id = (plan->wide ? EMU_GROUP_WIDE : 0) | (fabric->generation * FABRIC_GROUPS_MAX + slot);
    return group_alloc(plan, id);
}

bool fabric_units_can(const struct fabric *fabric, bool combines, const struct topo_tree *tree)
{
    bool can = true;

    if (!combines || !fabric_has_units(&fabric->config))
        return true;
    for (uint32_t i = 0; i < tree->count; i++)
        can &= emu_ports_count(tree->switches[i].ports) <=
               ENGINE_CHILDREN_MAX + (tree->switches[i].up >= 0);
    return can;
}

static int group_tree(const struct fabric *fabric, struct fabric_group *group, char *error,
                      size_t error_bytes)
{
    const struct topo_graph *graph = fabric->config.graph;
    int err = topo_tree_build(&group->tree, fabric->links.routed, group->node, group->count,
                              fabric->tree_load);

    if (err == -EINVAL)
        return fail(err, error, error_bytes,
                    "a group needs 2 or more distinct nodes, with numbers below %u", graph->nodes);
    if (err == -EHOSTUNREACH)
        return fail(err, error, error_bytes,
                    "no switch has downward routes to all %u nodes of the group", group->count);
    if (!err && !fabric_units_can(fabric, group->combines, &group->tree))
        return fail(-EINVAL, error, error_bytes,
                    "a combine unit takes contributions from at most %u ports",
                    ENGINE_CHILDREN_MAX);
    return err;
}

/* --- extra trees ---------------------------------------------------------------------- */

static int group_install(struct fabric *fabric, struct fabric_group *group, char *error,
                         size_t error_bytes);

static bool tree_equal(const struct topo_tree *a, const struct topo_tree *b)
{
    bool equal = a->count == b->count;

    for (uint32_t i = 0; equal && i < a->count; i++)
        equal = a->switches[i].sw == b->switches[i].sw &&
                !emu_ports_any(a->switches[i].ports ^ b->switches[i].ports);
    return equal;
}

/* Return whether one of the group's trees is equal to @tree. */
static bool group_has_tree(const struct fabric *fabric, const struct fabric_group *group,
                           const struct topo_tree *tree)
{
    const struct fabric_group *at = group;

    for (uint32_t t = 1; at; at = fabric_group_tree(fabric, group, t++))
        if (tree_equal(&at->tree, tree))
            return true;
    return false;
}

/* Mark in all trees that the member with index @at has left. */
static void trees_leave(const struct fabric *fabric, struct fabric_group *group, uint32_t at)
{
    struct fabric_group *extra;

    group->node[at] |= FABRIC_LEFT;
    for (uint32_t t = 1; (extra = fabric_group_tree(fabric, group, t)); t++) {
        extra->node[at] |= FABRIC_LEFT;
        extra->members--;
    }
}

/* Remove a group or an extra tree from the switches and from the table, and free it. */
static void tree_remove(struct fabric *fabric, struct fabric_group *group)
{
    fabric_switch_groups_withdraw(fabric, group->id, &group->tree);
    fabric_group_unreserve(fabric, group);
    fabric->group[group->id % FABRIC_GROUPS_MAX] = NULL;
    fabric->groups--;
    fabric_group_free(fabric, group);
}

static void trees_remove(struct fabric *fabric, const struct fabric_group *group)
{
    struct fabric_group *extra;

    for (uint32_t t = 1; (extra = fabric_group_tree(fabric, group, t)); t++)
        tree_remove(fabric, extra);
}

/*
 * Plan the group's extra trees. Each plan avoids the switches and links of the earlier trees,
 * because these count as load. The loop ends when the network has no other tree for these members.
 */
static int trees_create(struct fabric *fabric, const struct fabric_group *group, char *error,
                        size_t error_bytes)
{
    const struct fabric_group_plan plan = {.nodes = group->node,
                                           .count = group->count,
                                           .sources = group->sources};
    int err = 0;

    for (uint32_t t = 1; !err && t < fabric->config.profile.broadcast_trees; t++) {
        struct fabric_group *extra = group_alloc(&plan, group->id + t);

        if (!extra)
            return -ENOMEM;
        err = topo_tree_build(&extra->tree, fabric->links.routed, group->node, group->count,
                              fabric->tree_load);
        if (!err && group_has_tree(fabric, group, &extra->tree)) {
            fabric_group_free(fabric, extra);
            break;
        }
        if (!err && fabric_group_slot_of(fabric, extra->id) < 0)
            err = -EEXIST; /* possible only if another host sends wrong copies of groups */
        if (!err)
            err = group_install(fabric, extra, error, error_bytes);
        err = fabric_group_enter(fabric, extra, extra->id % FABRIC_GROUPS_MAX, err);
    }
    return err;
}

/*
 * Reserve states and buffers for a group, create its extra trees, and publish it in all of its
 * devices. On an error nothing stays reserved or published.
 */
static int group_install(struct fabric *fabric, struct fabric_group *group, char *error,
                         size_t error_bytes)
{
    int err = group_reserve(fabric, group, error, error_bytes);

    if (err)
        return err;
    err = fabric_group_number(fabric, group) ? 0 : trees_create(fabric, group, error, error_bytes);
    if (!err)
        err = group_parts(fabric, group);
    if (!err)
        err = group_publish(fabric, group);
    if (!err)
        return 0;
    if (!fabric_group_number(fabric, group))
        trees_remove(fabric, group);
    fabric_group_unreserve(fabric, group);
    return err;
}

static int group_create(struct fabric *fabric, const struct fabric_group_plan *plan, uint32_t *ret,
                        char *error, size_t error_bytes)
{
    int64_t slot = plan->id == TOPO_NONE ? group_slot(fabric)
                                         : fabric_group_slot_of(fabric, plan->id);
    struct fabric_group *group;
    int err;

    fabric_groups_sweep(fabric);
    if (slot < 0)
        return fail(-ENOSPC, error, error_bytes, "all %u collective addresses are taken",
                    FABRIC_GROUPS_MAX / group_slots(fabric));
    if (slot % group_slots(fabric))
        return fail(-EINVAL, error, error_bytes, "the address is that of an extra tree");
    snprintf(error, error_bytes, "cannot make the group: out of memory");
    group = fabric_group_new(fabric, plan, (uint32_t)slot);
    if (!group)
        return -ENOMEM;
    err = group_tree(fabric, group, error, error_bytes);
    if (!err)
        err = group_install(fabric, group, error, error_bytes);
    if (!err)
        *ret = group->id;
    return fabric_group_enter(fabric, group, (uint32_t)slot, err);
}

static int combining_create(struct fabric *fabric, const struct fabric_group_call *call,
                            uint32_t *group, char *error, size_t error_bytes)
{
    if (fabric_has_states(&fabric->config) && !switch_combines(&fabric->config.profile))
        return fail(-ENOTSUP, error, error_bytes,
                    "switches with buffers=input have no combine units: their groups can only "
                    "multicast");
    if (fabric_has_engines(&fabric->config) && !fabric->config.profile.pool_slots)
        return fail(-ENOTSUP, error, error_bytes,
                    "with pool_slots=0 switches have no space for broadcasts of several "
                    "segments on the wire: set pool_slots to 1 or more");
    return group_create(fabric,
                        &(struct fabric_group_plan){.nodes = call->nodes,
                                                    .count = call->count,
                                                    .sources = call->count,
                                                    .combines = true,
                                                    .wide = call->wide,
                                                    .id = call->id},
                        group, error, error_bytes);
}

static void group_undo(struct fabric *fabric, uint32_t id)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);

    for (uint32_t i = group->count; i--;) /* the last one frees the group */
        fabric_group_leave(fabric, id, group->node[i]);
}

static int combining_create_all(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                                bool wide, uint32_t *id, char *error, size_t error_bytes)
{
    struct fabric_group_call call = {.nodes = nodes, .count = count, .wide = wide, .id = TOPO_NONE};
    int err = combining_create(fabric, &call, id, error, error_bytes);

    if (err || !fabric->mirror)
        return err;
    call.id = *id;
    err = fabric->mirror->group(fabric->mirror->ctx, &call, error, error_bytes);
    if (err)
        group_undo(fabric, *id);
    return err;
}

int fabric_group_create(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                        uint32_t *group, char *error, size_t error_bytes)
{
    return combining_create_all(fabric, nodes, count, false, group, error, error_bytes);
}

int fabric_group_create_wide(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                             uint32_t *group, char *error, size_t error_bytes)
{
    return combining_create_all(fabric, nodes, count, true, group, error, error_bytes);
}

int fabric_group_is(struct fabric *fabric, const struct fabric_group_call *call)
{
    char error[256];
    uint32_t id;

    return combining_create(fabric, call, &id, error, sizeof error);
}

uint64_t fabric_multicasts_bytes(const struct fabric_config *config, uint64_t groups,
                                 uint64_t members)
{
    const struct topo_graph *graph = config->graph;
    uint64_t devices = graph->switches + (fabric_has_engines(config) ? graph->nodes : 0u);
    uint64_t trees = emu_profile_group_slots(&config->profile);
    uint64_t member = sizeof(uint32_t) + (fabric_has_engines(config) ? engine_group_bytes(1) : 0u);
    uint64_t part = switch_multicast_bytes() + sizeof(struct switch_group *) +
                    sizeof(struct topo_tree_switch);
    uint64_t table = devices * groups * 2 * sizeof(struct switch_group *);
    /* an upper limit: as if each member had switches of its own */
    uint64_t parts = members * graph->levels * part;

    return trees * (table + parts + groups * sizeof(struct fabric_group)) + members * member;
}

int fabric_multicast_create(struct fabric *fabric, const uint32_t *nodes, uint32_t count,
                            uint32_t sources, uint32_t *group, char *error, size_t error_bytes)
{
    return group_create(fabric,
                        &(struct fabric_group_plan){
                            .nodes = nodes, .count = count, .sources = sources, .id = TOPO_NONE},
                        group, error, error_bytes);
}

uint32_t fabric_groups_left(const struct fabric *fabric, const uint32_t *nodes, uint32_t count)
{
    uint64_t left = FABRIC_COMBINING_MAX - fabric->combining;

    if (!fabric_has_states(&fabric->config)) {
        uint64_t by_bufs = fabric->spare_bufs / ((uint64_t)count * engine_group_bufs(0));

        return (uint32_t)(by_bufs < left ? by_bufs : left);
    }
    for (uint32_t i = 0; i < count; i++) { /* a tree includes the first switch of each member */
        uint32_t sw = topo_first_link(fabric->config.graph, nodes[i])->sw;
        uint64_t here = (fabric->config.profile.combine_states - fabric->states[sw]) / EMU_WINDOW;

        left = here < left ? here : left;
    }
    return (uint32_t)left;
}

int64_t fabric_group_find(const struct fabric_group *group, uint32_t node)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (group->node[i] == node)
            return i;
    return -1;
}

int fabric_group_leave(struct fabric *fabric, uint32_t id, uint32_t node)
{
    struct fabric_group *group = fabric_group_at(fabric, id);
    int64_t at = group && !(node & FABRIC_LEFT) ? fabric_group_find(group, node) : -1;

    if (at < 0 || fabric_group_number(fabric, group))
        return -ENOENT;
    if (fabric->mirror)
        fabric->mirror->leave(fabric->mirror->ctx, id, node);
    trees_leave(fabric, group, (uint32_t)at);
    if (--group->members) {
        fabric->drops.left = true;
        return 0;
    }
    if (group->engines)
        fabric_members_withdraw(group);
    trees_remove(fabric, group);
    tree_remove(fabric, group);
    return 0;
}

void fabric_node_leave(struct fabric *fabric, uint32_t node)
{
    uint32_t groups[FABRIC_COMBINING_MAX]; /* processes create only groups that can combine */
    uint32_t count = fabric_node_groups(fabric, node, groups, FABRIC_COMBINING_MAX);

    for (uint32_t g = 0; g < count && g < FABRIC_COMBINING_MAX; g++)
        fabric_group_leave(fabric, groups[g], node);
}

uint32_t fabric_node_groups(const struct fabric *fabric, uint32_t node, uint32_t *groups,
                            uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t g = 0; g < fabric->slots; g++) {
        if (!fabric->group[g] || fabric_group_number(fabric, fabric->group[g]) ||
            fabric_group_find(fabric->group[g], node) < 0)
            continue;
        if (count < max)
            groups[count] = fabric->group[g]->id;
        count++;
    }
    return count;
}
