/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.c - group tables: built by the manager, published by RCU.
 */
#include "switch/internal.h"

#include <errno.h>
#include <stdlib.h>

size_t switch_group_bytes(uint64_t ports, enum emu_combine_order order)
{
    size_t kept = order == EMU_COMBINE_PORT ? (size_t)__builtin_popcountll(ports) : 0;

    return sizeof(struct switch_group) + EMU_WINDOW * kept * sizeof(uint32_t);
}

int switch_group_create(struct switch_group **ret, uint32_t id, uint64_t ports, int up,
                        enum emu_combine_order order)
{
    struct switch_group *group = calloc(1, switch_group_bytes(ports, order));

    if (!group)
        return -ENOMEM;
    group->id = id;
    group->ports = ports;
    group->up = (int8_t)up;
    group->width = (uint8_t)__builtin_popcountll(ports);
    group->in_order = order == EMU_COMBINE_PORT;
    *ret = group;
    return 0;
}

void switch_group_destroy(struct switch_group *group, struct emu_pool_cache *cache)
{
    if (!group)
        return;
    for (uint32_t i = 0; i < EMU_WINDOW; i++) {
        struct switch_state *state = &group->state[i];
        uint64_t have = state->active && group->in_order ? state->have : 0;

        if (state->active && !group->in_order)
            emu_pool_drop(cache, state->buf);
        for (; have; have &= have - 1)
            emu_pool_drop(cache, *switch_group_kept(group, i, __builtin_ctzll(have)));
    }
    for (; group->first != group->last; group->first++)
        emu_pool_drop(cache, group->result[group->first % EMU_WINDOW].entry.buf);
    free(group);
}

struct switch_group *switch_group_of(const struct switch_dev *sw, uint32_t id)
{
    const struct switch_groups *groups =
        atomic_load_explicit(&sw->groups, memory_order_acquire); /* G1 pairs with G2 */
    uint32_t slot = id % SWITCH_GROUPS_MAX;
    struct switch_group *group;

    if (!groups || slot >= groups->count)
        return NULL;
    group = atomic_load_explicit(&groups->group[slot], memory_order_relaxed); /* seen with the table */
    return group && group->id == id ? group : NULL;
}

int switch_groups_set(struct switch_dev *sw, struct switch_group *group, void **old)
{
    struct switch_groups *was = atomic_load_explicit(&sw->groups, memory_order_relaxed);
    uint32_t slot = group->id % SWITCH_GROUPS_MAX;
    uint32_t count = was ? was->count : 0;
    struct switch_groups *now;

    if (slot >= count)
        count = slot + 1;
    now = calloc(1, sizeof(*now) + count * sizeof(struct switch_group *));
    if (!now)
        return -ENOMEM;
    now->count = count;
    for (uint32_t i = 0; was && i < was->count; i++)
        atomic_init(&now->group[i], atomic_load_explicit(&was->group[i], memory_order_relaxed));
    atomic_init(&now->group[slot], group);
    atomic_store_explicit(&sw->groups, now, memory_order_release); /* G2 */
    *old = was;
    return 0;
}

void switch_groups_clear(struct switch_dev *sw, uint32_t id)
{
    struct switch_groups *groups = atomic_load_explicit(&sw->groups, memory_order_relaxed);

    if (groups && id % SWITCH_GROUPS_MAX < groups->count)
        atomic_store_explicit(&groups->group[id % SWITCH_GROUPS_MAX], NULL, memory_order_relaxed);
}
