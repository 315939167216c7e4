/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c - the table of groups */
#include "nic/host/group/group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "nic/host/base/base.h"
#include "nic/host/base/op.h"
#include "nic/host/rx/queue.h"
#include "nic/host/rx/region.h"

struct fabemu_group *nic_group_make(struct fabemu *fab, uint32_t id)
{
    uint32_t window = emu_window(id);
    struct fabemu_group *g =
        calloc(1, sizeof *g + window * (sizeof(struct nic_coll *) + sizeof(bool)));

    if (!g)
        return NULL;
    g->fab = fab;
    g->id = g->words.group = id;
    g->lost = g->gave_up = g->broke_off = g->partitioned = FABEMU_ANY_NODE;
    g->window = window;
    g->owner = (struct nic_coll **)(g + 1);
    g->reorder_used = (bool *)(g->owner + window);
    emu_list_init(&g->ops);
    emu_list_init(&g->unsent);
    emu_list_init(&g->in_engine);
    emu_list_init(&g->again);
    emu_list_init(&g->broadcasts);
    g->next = fab->groups[id % NIC_GROUP_BUCKETS];
    fab->groups[id % NIC_GROUP_BUCKETS] = g;
    return g;
}

/* Write into @text why the group broke, in a line that names a node, switch or cable. */
static void group_explain(const struct fabemu_group *g, char *text, size_t bytes)
{
    uint32_t own = g->fab->info.node;

    if (g->has_why)
        snprintf(text, bytes, "%s", g->why);
    else if (g->lost != FABEMU_ANY_NODE)
        snprintf(text, bytes, "the member of its group on node %u died", g->lost);
    else if (g->partitioned != FABEMU_ANY_NODE)
        snprintf(text, bytes, "no route leads to node %u", g->partitioned);
    else if (g->gave_up != FABEMU_ANY_NODE)
        snprintf(text, bytes, "the network dropped a segment of node %u%s to its group for good",
                 g->gave_up, g->gave_up == own ? ", this one," : "");
    else if (g->broke_off == own)
        snprintf(text, bytes, "node %u, this one, has broken its group", own);
    else if (g->broke_off != FABEMU_ANY_NODE)
        snprintf(text, bytes, "the member of its group on node %u has left it or met an error",
                 g->broke_off);
    else
        snprintf(text, bytes, "node %u, this one, was told that a member of its group is gone",
                 own);
}

int nic_group_status(struct fabemu_group *g)
{
    if (g->broken)
        group_explain(g, g->fab->broken_why, sizeof g->fab->broken_why);
    return g->broken;
}

static void ops_end(struct fabemu *fab, struct emu_list *ops, int status)
{
    while (!emu_list_empty(ops))
        nic_op_end(fab, emu_list_entry(ops->next, struct nic_op, post.link), status);
}

void nic_group_end_ops(struct fabemu_group *g, int status)
{
    ops_end(g->fab, &g->unsent, status);
    ops_end(g->fab, &g->in_engine, status);
    ops_end(g->fab, &g->again, status);
    ops_end(g->fab, &g->broadcasts, status);
    g->broadcast_out = 0;
}

static void regions_release(struct fabemu_group *g)
{
    struct nic_region *next;

    for (struct nic_region *at = g->fab->symmetric; at; at = next) {
        next = at->symmetric;
        if (at->group == g)
            nic_region_drop(g->fab, at);
    }
}

/* Release the group's queues. They stay open, and if the group is broken they stay broken. */
static void queues_release(const struct fabemu_group *g)
{
    emu_each_listed (struct fabemu_queue, queue, &g->fab->opened, opened)
        if (queue->group == g)
            queue->group = NULL;
}

static void group_unmake(struct fabemu_group *g)
{
    struct fabemu_group **at = &g->fab->groups[g->id % NIC_GROUP_BUCKETS];

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    emu_list_del(&g->busy);
    emu_list_del(&g->words.setting);
    emu_list_del(&g->backing_off);
    nic_group_end_ops(g, -ECANCELED);
    regions_release(g);
    queues_release(g);
    free(g->reorder_buf);
    free(g);
}

void nic_group_remember_broken(struct fabemu *fab, uint32_t id)
{
    fab->broken_ids[fab->broken_count++ % NIC_BROKEN_GROUPS] = id;
}

void nic_group_leave(struct fabemu_group *g)
{
    if (g->broken)
        nic_group_remember_broken(g->fab, g->id);
    group_unmake(g);
}

void nic_group_drop_early(struct fabemu_group *g)
{
    g->fab->early_groups--;
    group_unmake(g);
}

uint32_t fabemu_group_dead_node(const struct fabemu_group *group)
{
    return group->lost;
}

uint32_t fabemu_group_gave_up(const struct fabemu_group *group)
{
    return group->gave_up;
}

uint32_t fabemu_group_broke_off(const struct fabemu_group *group)
{
    return group->broke_off;
}

bool fabemu_group_why(const struct fabemu_group *group, char *text, size_t bytes)
{
    if (!atomic_load_explicit(&group->has_why, memory_order_acquire)) /* N8 */
        return false;
    snprintf(text, bytes, "%s", group->why);
    return true;
}

static uint32_t broken_kept(const struct fabemu *fab)
{
    return fab->broken_count < NIC_BROKEN_GROUPS ? fab->broken_count : NIC_BROKEN_GROUPS;
}

void nic_group_forget_broken(struct fabemu *fab, uint32_t id)
{
    for (uint32_t i = 0; i < broken_kept(fab); i++)
        if (fab->broken_ids[i] == id)
            fab->broken_ids[i] = UINT32_MAX; /* no group has this id */
}

static bool group_was_broken(const struct fabemu *fab, uint32_t id)
{
    for (uint32_t i = 0; i < broken_kept(fab); i++)
        if (fab->broken_ids[i] == id)
            return true;
    return false;
}

struct fabemu_group *nic_group_early(struct fabemu *fab, uint32_t id)
{
    struct fabemu_group *g = NULL;

    if (fab->early_groups < NIC_EARLY_GROUPS_MAX && !group_was_broken(fab, id))
        g = nic_group_make(fab, id);
    if (g)
        fab->early_groups++;
    return g;
}

int nic_group_check(const struct fabemu_group *g, const struct fabemu_req *req)
{
    if (nic_is_defunct(g->fab))
        return nic_fail_defunct();
    if (!g->fab->transport.has_engine)
        return nic_fail(-EOPNOTSUPP, "the fabric has no acknowledgments (use profile qsnet3)");
    return req ? nic_event_check(g->fab, req) : 0;
}

void nic_group_release(struct fabemu *fab)
{
    for (uint32_t i = 0; i < NIC_GROUP_BUCKETS; i++)
        while (fab->groups[i])
            group_unmake(fab->groups[i]);
}
