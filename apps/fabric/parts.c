/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parts.c - a group's parts in the switches of its tree: made, published, taken out, freed.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/worker/rcu.h"

struct switch_group **fabric_parts_create(struct fabric *fabric, uint32_t id,
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
    fabric_parts_free(fabric, part, tree->count);
    return NULL;
}

void fabric_parts_free(struct fabric *fabric, struct switch_group **part, uint32_t count)
{
    for (uint32_t i = 0; part && i < count; i++)
        if (part[i])
            switch_group_destroy(part[i], fabric->config.graph->ports, &fabric->cache);
    free(part);
}

static void parts_clear(struct fabric *fabric, uint32_t id, const struct topo_tree *tree,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (fabric->sw[tree->switches[i].sw])
            switch_groups_clear(fabric->sw[tree->switches[i].sw], id);
    emu_rcu_wait();
}

void fabric_parts_withdraw(struct fabric *fabric, uint32_t id, const struct topo_tree *tree)
{
    parts_clear(fabric, id, tree, tree->count);
}

/* Old tables are freed once no worker reads them. */
int fabric_parts_publish(struct fabric *fabric, uint32_t id, const struct topo_tree *tree,
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
        parts_clear(fabric, id, tree, done);
    else
        emu_rcu_wait();
    for (uint32_t i = 0; i < done; i++)
        free(old[i]);
    free(old);
    return err;
}
