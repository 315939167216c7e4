/* SPDX-License-Identifier: BSD-3-Clause */
/* region.c - registered memory: its table, and the calls on it */
#include "nic/host/rx/region.h"

#include <errno.h>
#include <stdlib.h>

#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/base/peer.h"
#include "nic/host/tx/answer.h"

#define KEY_INDEX_BITS 20
#define KEY_INDEX_MASK ((1u << KEY_INDEX_BITS) - 1)

static int regions_grow(struct fabemu *fab)
{
    uint32_t count = fab->region_count ? fab->region_count * 2 : 16;
    struct nic_region **regions;

    if (count > 1u << KEY_INDEX_BITS)
        return -ENOSPC;
    regions = realloc(fab->regions, count * sizeof(struct nic_region *));
    if (!regions)
        return -ENOMEM;
    for (uint32_t i = fab->region_count; i < count; i++)
        regions[i] = NULL;
    fab->regions = regions;
    fab->region_count = count;
    return 0;
}

/* Enter the region into the table, and set its key. Errors: -ENOMEM, -ENOSPC. */
static int region_place(struct fabemu *fab, struct nic_region *region, uint64_t random)
{
    uint32_t index = 0;
    int err = 0;

    while (index < fab->region_count && fab->regions[index])
        index++;
    if (index == fab->region_count)
        err = regions_grow(fab);
    if (err)
        return err;
    region->key = (random << KEY_INDEX_BITS | index) & ~NIC_KEY_SYMMETRIC;
    fab->regions[index] = region;
    return 0;
}

int nic_region_add(struct fabemu *fab, const struct nic_region *init, struct nic_region **ret)
{
    struct nic_region *region = malloc(sizeof *region);
    int err = 0;

    assert(fab->locked);
    if (!region)
        return -ENOMEM;
    *region = *init;
    if (region->group) {
        region->symmetric = fab->symmetric;
        fab->symmetric = region;
    } else {
        err = region_place(fab, region, nic_random());
    }
    if (err)
        free(region);
    else
        *ret = region;
    return err;
}

/* Symmetric regions are few, so a linear search is enough. */
struct nic_region *nic_region_find(struct fabemu *fab, uint64_t key)
{
    uint32_t index = (uint32_t)key & KEY_INDEX_MASK;
    struct nic_region *region;

    if (key & NIC_KEY_SYMMETRIC) {
        for (region = fab->symmetric; region && region->key != key;)
            region = region->symmetric;
        return region;
    }
    region = index < fab->region_count ? fab->regions[index] : NULL;
    return region && region->key == key ? region : NULL;
}

/* End the transfers of peers to or from the region, and notify the peers. */
static void region_fail(struct fabemu *fab, const struct nic_region *region, int status)
{
    for (uint32_t i = 1; i < fab->slot_count; i++) {
        struct nic_op *op = fab->slots[i].op;

        if (!op || !nic_op_traits(op)->serves || nic_serve_of(op)->region != region)
            continue;
        nic_fin(fab, nic_peer(fab, op->node), op->remote, status);
        nic_op_end(fab, op, status);
    }
}

void nic_region_drop(struct fabemu *fab, struct nic_region *region)
{
    struct nic_region **at = &fab->symmetric;

    region_fail(fab, region, -EACCES);
    if (region->group) {
        while (*at != region)
            at = &(*at)->symmetric;
        *at = region->symmetric;
    } else {
        fab->regions[region->key & KEY_INDEX_MASK] = NULL;
    }
    free(region);
}

void nic_region_written(struct fabemu *fab, struct nic_region *region)
{
    if (region->event)
        nic_event_counts(fab, region->event, 1, 0);
}

void nic_region_forget_event(struct fabemu *fab, const struct fabemu_event *event)
{
    for (uint32_t i = 0; i < fab->region_count; i++)
        if (fab->regions[i] && fab->regions[i]->event == event)
            fab->regions[i]->event = NULL;
    for (struct nic_region *at = fab->symmetric; at; at = at->symmetric)
        if (at->event == event)
            at->event = NULL;
}

int nic_region_check(const void *addr, size_t bytes, unsigned access)
{
    if (access & ~(FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE | FABEMU_REMOTE_ATOMIC) ||
        (uintptr_t)addr + bytes < bytes)
        return nic_fail(-EINVAL, "invalid access flags or address range");
    /* SIZE_MAX stands for all memory */
    return bytes == SIZE_MAX ? 0 : nic_buffer_check(addr, bytes);
}

/* --- the calls ---------------------------------------------------------------------- */

int fabemu_register(struct fabemu *fab, void *addr, size_t bytes, unsigned access, uint64_t *key)
{
    struct nic_region *region, init = {.base = addr,
                                       .bytes = bytes,
                                       .origin = access & FABEMU_BY_ADDRESS ? (uintptr_t)addr : 0,
                                       .access = access & ~FABEMU_BY_ADDRESS};
    int err = nic_region_check(addr, bytes, init.access);

    if (err)
        return err;
    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_lock(fab);
    err = nic_region_add(fab, &init, &region);
    if (!err)
        *key = region->key;
    nic_unlock(fab);
    return err;
}

int fabemu_unregister(struct fabemu *fab, uint64_t key)
{
    struct nic_region *region;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_lock(fab);
    region = nic_region_find(fab, key);
    if (region)
        nic_region_drop(fab, region);
    nic_unlock(fab);
    return region ? 0 : nic_fail(-ENOENT, "no such key");
}

int fabemu_register_event(struct fabemu *fab, uint64_t key, struct fabemu_event *event)
{
    const struct fabemu_req named = {.event = event};
    struct nic_region *region;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    if (nic_event_check(fab, &named))
        return -EINVAL;
    nic_lock(fab);
    region = nic_region_find(fab, key);
    if (region)
        region->event = event;
    nic_unlock(fab);
    return region ? 0 : nic_fail(-ENOENT, "no such key");
}
