/* SPDX-License-Identifier: BSD-3-Clause */
/* group.c - groups and the table of groups: built by the manager, published by RCU. */
#include "switch/common/base.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/util/alloc.h"

static size_t group_kept(emu_ports ports, uint32_t units, enum emu_combine_order order)
{
    return order == EMU_COMBINE_PORT ? emu_ports_count(ports) + units - 1u : 0;
}

size_t switch_multicast_bytes(void)
{
    return sizeof(struct switch_group);
}

static void group_free(struct switch_group *group)
{
    free(group->mismatch);
    free(group->kept);
    free(group->results);
    free(group->states);
    free(group);
}

int switch_group_create(struct switch_group **ret, uint32_t id, emu_ports ports, int up,
                        uint32_t units, enum emu_combine_order order)
{
    struct switch_group *group = calloc(1, sizeof *group);
    size_t kept;

    assert(emu_ports_any(ports) && units < SWITCH_ROWS_MAX);
    assert(up == -1 || (up >= 0 && up < TOPO_PORTS_MAX && emu_ports_has(ports, (uint32_t)up)));
    if (!group)
        return -ENOMEM;
    group->id = id;
    group->ports = ports;
    group->up = (int16_t)up;
    group->width = (uint8_t)emu_ports_count(ports);
    group->units = (uint8_t)units;
    group->in_order = order == EMU_COMBINE_PORT;
    group->window = emu_window(id);
    if (units) {
        kept = group_kept(ports, units, order);
        group->state_bytes =
            (uint32_t)(sizeof(struct switch_state) + units * sizeof(struct switch_partial));
        group->states = emu_zeros((size_t)group->window * group->state_bytes);
        group->kept = kept ? calloc(group->window * kept, sizeof *group->kept) : NULL;
        group->results = calloc(units, sizeof *group->results);
        group->mismatch = calloc(1, sizeof *group->mismatch);
        if (!group->states || !group->mismatch || !group->results || (kept && !group->kept)) {
            group_free(group);
            return -ENOMEM;
        }
    }
    *ret = group;
    return 0;
}

/* List in @buf the buffers (or EMU_NO_BUF) of unit @u's part of state @i. Returns how many. */
static uint32_t group_partial_holds(const struct switch_group *group, uint32_t ports, uint32_t i,
                                    uint32_t u, uint32_t buf[SWITCH_ROWS_MAX])
{
    const struct switch_partial *part = switch_group_partial(group, i, u);
    emu_ports have = part->passed ? EMU_NO_PORTS : part->have;
    uint32_t count = 0;

    if (part->queued || (emu_ports_any(have) && !group->in_order))
        buf[count++] = part->buf;
    if (part->queued || !group->in_order)
        return count;
    emu_each_port (input, have)
        buf[count++] = *emu_kept_at(switch_group_kept(group, i, ports), input);
    return count;
}

uint32_t switch_group_bufs(const struct switch_group *group, uint32_t ports)
{
    uint32_t buf[SWITCH_ROWS_MAX];
    uint32_t bufs = 0;

    for (uint32_t i = 0; i < group->window; i++)
        for (uint32_t u = 0; u < group->units; u++)
            for (uint32_t left = group_partial_holds(group, ports, i, u, buf); left--;)
                bufs += buf[left] != EMU_NO_BUF;
    return bufs;
}

/* Return whether each result that waits at unit @u is in the list of results exactly once. */
static bool group_results_complete(const struct switch_group *group, uint32_t u)
{
    const struct switch_results *results = &group->results[u];
    uint32_t queued = 0, linked = 0;

    for (uint32_t i = 0; i < group->window; i++)
        queued += switch_group_partial(group, i, u)->queued;
    for (uint32_t i = results->first; results->some && linked <= queued;
         i = switch_group_partial(group, i, u)->next) {
        linked += switch_group_partial(group, i, u)->queued;
        if (i == results->last || !switch_group_partial(group, i, u)->queued)
            break;
    }
    return linked == queued && results->pending == results->some;
}

static bool group_state_complete(const struct switch_group *group, uint32_t i)
{
    const struct switch_state *state = switch_group_state(group, i);
    emu_ports have = EMU_NO_PORTS;

    for (uint32_t u = 0; u < group->units; u++)
        have |= state->part[u].have;
    if (!state->active)
        return !emu_ports_any(have);
    return state->used && emu_ports_any(have) && emu_ports_any(state->have) &&
           !emu_ports_any(state->have & ~group->ports);
}

const char *switch_group_check(const struct switch_group *group)
{
    for (uint32_t u = 0; u < group->units; u++)
        if (!group_results_complete(group, u))
            return "a result has leaked: it waits, and nothing will send it";
    for (uint32_t i = 0; group->units && i < group->window; i++)
        if (!group_state_complete(group, i))
            return "a combine state has leaked";
    return NULL;
}

bool switch_group_entry(const struct switch_dev *sw, uint32_t id, struct switch_group_entry *ret)
{
    const struct switch_group *group = emu_table_at(&sw->groups, id);

    if (!group || group->id != id)
        return false;
    *ret = (struct switch_group_entry){.ports = group->ports, .up = group->up};
    return true;
}

uint32_t switch_groups_count(const struct switch_dev *sw)
{
    return emu_table_taken(&sw->groups);
}

bool switch_group_is_idle(const struct switch_group *group)
{
    for (uint32_t u = 0; u < group->units; u++)
        if (group->results[u].some)
            return false;
    for (uint32_t i = 0; group->units && i < group->window; i++)
        if (switch_group_state(group, i)->active)
            return false;
    return true;
}

emu_ports switch_group_arrived(const struct switch_group *group, uint32_t seq)
{
    const struct switch_state *state;

    if (!group->units)
        return EMU_NO_PORTS;
    state = switch_group_state(group, seq & (group->window - 1));
    if (!state->used || state->hdr.seq != seq)
        return EMU_NO_PORTS;
    return state->active ? state->have : group->ports;
}

bool switch_group_failed(const struct switch_group *group)
{
    for (uint32_t u = 0; u < group->units; u++)
        if (group->results[u].failed)
            return true;
    return false;
}

const struct emu_mismatch *switch_group_mismatch(const struct switch_group *group)
{
    return group->mismatch && group->mismatch->seen ? group->mismatch : NULL;
}

void switch_group_destroy(struct switch_group *group, uint32_t ports, struct emu_pool_cache *cache)
{
    uint32_t buf[SWITCH_ROWS_MAX];

    if (!group)
        return;
    for (uint32_t i = 0; i < group->window; i++)
        for (uint32_t u = 0; u < group->units; u++)
            for (uint32_t left = group_partial_holds(group, ports, i, u, buf); left--;)
                emu_pool_drop(cache, buf[left]);
    group_free(group);
}

int switch_groups_set(struct switch_dev *sw, struct switch_group *group, void **old)
{
    assert(!emu_ports_any(group->ports & ~emu_ports_below(sw->ports)));
    *old = NULL;
    if (!sw->kind->combines && group->units)
        return -ENOTSUP;
    return emu_table_set(&sw->groups, group->id, group, old);
}

void switch_groups_clear(struct switch_dev *sw, uint32_t id)
{
    emu_table_clear(&sw->groups, id);
}
