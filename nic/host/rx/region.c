/* SPDX-License-Identifier: BSD-3-Clause */
/* region.c - registered memory: its table, and the calls on it */
#include "nic/host/rx/region.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/base/peer.h"
#include "nic/host/base/trap.h"
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

static int chosen_order(const void *a, const void *b)
{
    uint64_t key_a = ((const struct nic_region *)a)->key;
    uint64_t key_b = ((const struct nic_region *)b)->key;

    return (key_a > key_b) - (key_a < key_b);
}

static struct nic_region *chosen_find(const struct fabemu *fab, uint64_t key)
{
    const struct nic_region wanted = {.key = key};
    struct nic_region **found = tfind(&wanted, &fab->chosen, chosen_order);

    return found ? *found : NULL;
}

static int region_add_chosen(struct fabemu *fab, struct nic_region *region)
{
    if (nic_region_find(fab, region->key))
        return -EEXIST;
    return tsearch(region, &fab->chosen, chosen_order) ? 0 : -ENOMEM;
}

/* Enter the region into the table, and set its key. Errors: -ENOMEM, -ENOSPC. */
static int region_place(struct fabemu *fab, struct nic_region *region)
{
    uint32_t index = 0;
    int err = 0;

    while (index < fab->region_count && fab->regions[index])
        index++;
    if (index == fab->region_count)
        err = regions_grow(fab);
    if (err)
        return err;
    do
        region->key = (nic_random() << KEY_INDEX_BITS | index) & ~NIC_KEY_SYMMETRIC;
    while (chosen_find(fab, region->key));
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
        err = region->chosen ? region_add_chosen(fab, region) : region_place(fab, region);
    }
    if (err)
        free(region);
    else
        *ret = region;
    return err;
}

/* Symmetric regions are few, so a linear search is enough. */
static struct nic_region *symmetric_find(const struct fabemu *fab, uint64_t key)
{
    struct nic_region *region = fab->symmetric;

    while (region && region->key != key)
        region = region->symmetric;
    return region;
}

struct nic_region *nic_region_find(struct fabemu *fab, uint64_t key)
{
    uint32_t index = (uint32_t)key & KEY_INDEX_MASK;
    struct nic_region *region;

    if (key & NIC_KEY_SYMMETRIC)
        region = symmetric_find(fab, key);
    else
        region = index < fab->region_count ? fab->regions[index] : NULL;
    return region && region->key == key ? region : chosen_find(fab, key);
}

/* Compute an address as an integer, because the region of all memory begins at address 0. */
static void *piece_at(const struct fabemu_iov *piece, uint64_t skip)
{
    return (void *)((uintptr_t)piece->base + skip);
}

unsigned nic_region_iov(const struct nic_region *region, uint64_t offset, uint64_t bytes,
                        struct fabemu_iov to[NIC_IOVS])
{
    uint64_t skip = offset - region->origin;
    unsigned count = 0;

    to[0] = (struct fabemu_iov){.base = piece_at(region->piece, skip), .bytes = bytes};
    if (region->pieces == 1)
        return 1;
    for (unsigned i = 0; i < region->pieces && bytes; i++) {
        const struct fabemu_iov *piece = &region->piece[i];
        uint64_t n = skip < piece->bytes ? piece->bytes - skip : 0;

        n = n < bytes ? n : bytes;
        if (n)
            to[count++] = (struct fabemu_iov){.base = piece_at(piece, skip), .bytes = n};
        bytes -= n;
        skip = n ? 0 : skip - piece->bytes;
    }
    return count ? count : 1;
}

static void region_free(void *region)
{
    free(((struct nic_region *)region)->parts);
    free(region);
}

/* Return the part that contains address @at, or the first that begins after it; NULL: none. */
static struct fabemu_iov *part_from(const struct nic_region *region, uint64_t at)
{
    struct fabemu_iov *found = NULL;

    for (size_t i = 0; i < region->part_count; i++) {
        struct fabemu_iov *part = &region->parts[i];

        if ((uintptr_t)part->base + part->bytes > at && (!found || part->base < found->base))
            found = part;
    }
    return found;
}

bool nic_region_parts_hold(const struct nic_region *region, uint64_t offset, uint64_t bytes)
{
    while (bytes) { /* an access may cover several parts without gaps between them */
        const struct fabemu_iov *part = part_from(region, offset);
        uint64_t left;

        if (!part || (uintptr_t)part->base > offset)
            return false;
        left = (uintptr_t)part->base + part->bytes - offset;
        left = left < bytes ? left : bytes;
        offset += left;
        bytes -= left;
    }
    return true;
}

/*
 * End the transfers of peers to or from the region, and notify the peers.
 * @part: NULL, or memory that is to be removed from the region: end only transfers that use it.
 */
static void region_fail(struct fabemu *fab, const struct nic_region *region,
                        const struct fabemu_iov *part, int status)
{
    for (uint32_t i = 1; i < fab->slot_count; i++) {
        struct nic_op *op = fab->slots[i].op;

        if (!op || !nic_op_traits(op)->serves || nic_serve_of(op)->region != region)
            continue;
        if (part && ((uintptr_t)op->iov[0].base >= (uintptr_t)part->base + part->bytes ||
                     (uintptr_t)op->iov[0].base + op->bytes <= (uintptr_t)part->base))
            continue;
        nic_fin(fab, nic_peer(fab, op->node), op->remote, status);
        nic_op_end(fab, op, status);
    }
}

void nic_region_drop(struct fabemu *fab, struct nic_region *region)
{
    struct nic_region **at = &fab->symmetric;

    region_fail(fab, region, NULL, -EACCES);
    if (region->group) {
        while (*at != region)
            at = &(*at)->symmetric;
        *at = region->symmetric;
    } else if (region->chosen) {
        tdelete(region, &fab->chosen, chosen_order);
    } else {
        fab->regions[region->key & KEY_INDEX_MASK] = NULL;
    }
    region_free(region);
}

/* Free all regions except symmetric ones, which groups have released already. */
void nic_region_release(struct fabemu *fab)
{
    for (uint32_t i = 0; i < fab->region_count; i++)
        if (fab->regions[i])
            region_free(fab->regions[i]);
    free(fab->regions);
    tdestroy(fab->chosen, region_free);
    fab->chosen = NULL;
}

/* Called for each node of the tree of regions with chosen keys. */
static void chosen_forget_event(const void *node, VISIT order, void *event)
{
    struct nic_region *region = *(struct nic_region *const *)node;

    if (order == postorder || order == leaf)
        nic_access_forget(&region->events, event);
}

void nic_region_forget_event(struct fabemu *fab, struct fabemu_event *event)
{
    for (uint32_t i = 0; i < fab->region_count; i++)
        if (fab->regions[i])
            nic_access_forget(&fab->regions[i]->events, event);
    for (struct nic_region *at = fab->symmetric; at; at = at->symmetric)
        nic_access_forget(&at->events, event);
    twalk_r(fab->chosen, chosen_forget_event, event);
}

int nic_region_check(const void *addr, size_t bytes, unsigned access)
{
    if (access & ~(FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE | FABEMU_REMOTE_ATOMIC) ||
        (uintptr_t)addr + bytes < bytes)
        return nic_fail(-EINVAL, "the access flags or the address range are invalid");
    /* SIZE_MAX stands for all memory */
    return bytes == SIZE_MAX ? 0 : nic_buffer_check(addr, bytes);
}

/* --- the calls ---------------------------------------------------------------------- */

/* Describe and check memory that the application registers. */
static int region_init(const struct fabemu_iov *iov, unsigned iovs, unsigned access,
                       struct nic_region *init)
{
    int err = iovs && iovs <= NIC_IOVS
                  ? 0
                  : nic_fail(-EINVAL, "a region has 1 to %d pieces, not %u", NIC_IOVS, iovs);

    *init = (struct nic_region){
        .access = access &
                  ~(FABEMU_BY_ADDRESS | FABEMU_CHOSEN_KEY | FABEMU_BY_PARTS | FABEMU_TRAPS),
        .traps = access & FABEMU_TRAPS,
        .chosen = access & FABEMU_CHOSEN_KEY,
        .by_parts = access & FABEMU_BY_PARTS,
        .pieces = iovs,
    };
    for (unsigned i = 0; i < iovs && !err; i++) {
        init->piece[i] = iov[i];
        err = nic_region_check(iov[i].base, iov[i].bytes, init->access);
        if (!err && __builtin_add_overflow(init->bytes, iov[i].bytes, &init->bytes))
            err = nic_fail(-EINVAL, "a region has at most SIZE_MAX bytes");
    }
    if (!err && init->traps && !nic_trap_works())
        err = nic_fail(-ENOTSUP, "FABEMU_TRAPS needs Linux 5.14 or later");
    if (!err && access & FABEMU_BY_ADDRESS)
        init->origin = (uintptr_t)iov[0].base;
    if (!err && init->by_parts) {
        if (init->bytes)
            return nic_fail(-EINVAL, "FABEMU_BY_PARTS needs a size of 0 bytes");
        init->piece[0] = (struct fabemu_iov){.base = NULL, .bytes = SIZE_MAX};
        init->pieces = 1;
    }
    return err;
}

int fabemu_registerv(struct fabemu *fab, const struct fabemu_iov *iov, unsigned iovs,
                     unsigned access, uint64_t *key)
{
    struct nic_region *region, init;
    int err = region_init(iov, iovs, access, &init);

    if (err)
        return err;
    if (init.chosen)
        init.key = *key;
    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_lock(fab);
    err = nic_region_add(fab, &init, &region);
    if (!err)
        *key = region->key;
    nic_unlock(fab);
    return err == -EEXIST ? nic_fail(err, "key 0x%llx is in use", (unsigned long long)*key) : err;
}

int fabemu_register(struct fabemu *fab, void *addr, size_t bytes, unsigned access, uint64_t *key)
{
    const struct fabemu_iov piece = {.base = addr, .bytes = bytes};

    return fabemu_registerv(fab, &piece, 1, access, key);
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
    return region ? 0 : nic_fail(-ENOENT, "no region has this key");
}

/* Find a region of parts. Returns NULL, with the error in @err, if @key names none. */
static struct nic_region *parts_find(struct fabemu *fab, uint64_t key, int *err)
{
    struct nic_region *region = nic_region_find(fab, key);

    if (region && region->by_parts)
        return region;
    *err = nic_fail(-ENOENT, "no region of parts has this key");
    return NULL;
}

static int part_add(struct nic_region *region, const struct fabemu_iov *part)
{
    struct fabemu_iov *next = part_from(region, (uintptr_t)part->base), *parts;

    if (next && (uintptr_t)next->base < (uintptr_t)part->base + part->bytes)
        return nic_fail(-EEXIST, "a part of this memory is in the region already");
    parts = realloc(region->parts, (region->part_count + 1) * sizeof *parts);
    if (!parts)
        return -ENOMEM;
    parts[region->part_count++] = *part;
    region->parts = parts;
    return 0;
}

int fabemu_region_add(struct fabemu *fab, uint64_t key, void *addr, size_t bytes)
{
    const struct fabemu_iov part = {.base = addr, .bytes = bytes};
    struct nic_region *region;
    int err = nic_region_check(addr, bytes, 0);

    if (!err && (!bytes || bytes == SIZE_MAX))
        err = nic_fail(-EINVAL, "a part of a region has 1 to SIZE_MAX - 1 bytes");
    if (err)
        return err;
    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_lock(fab);
    region = parts_find(fab, key, &err);
    if (region)
        err = part_add(region, &part);
    nic_unlock(fab);
    return err;
}

int fabemu_region_remove(struct fabemu *fab, uint64_t key, const void *addr)
{
    struct nic_region *region;
    struct fabemu_iov *part;
    int err = 0;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    nic_lock(fab);
    region = parts_find(fab, key, &err);
    part = region ? part_from(region, (uintptr_t)addr) : NULL;
    if (part && part->base == addr) {
        region_fail(fab, region, part, -EACCES);
        *part = region->parts[--region->part_count];
    } else if (region) {
        err = nic_fail(-ENOENT, "no part of the region begins there");
    }
    nic_unlock(fab);
    return err;
}

int fabemu_register_event(struct fabemu *fab, uint64_t key, unsigned access,
                          struct fabemu_event *event)
{
    const struct fabemu_req named = {.event = event};
    struct nic_region *region;
    int err;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    if (nic_event_check(fab, &named))
        return -EINVAL;
    nic_lock(fab);
    region = nic_region_find(fab, key);
    err = region ? nic_access_set(&region->events, access, event)
                 : nic_fail(-ENOENT, "no region has this key");
    nic_unlock(fab);
    return err;
}
