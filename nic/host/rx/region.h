/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.h - registered memory.
 *
 * A key is a table index and 43 random bits, so a peer can only access regions whose key it was
 * given; or NIC_KEY_SYMMETRIC and 63 bits that a group's members have agreed on (group/coll.c). The
 * application owns the memory. Lock: held, except for nic_region_check().
 */
#ifndef NIC_REGION_H
#define NIC_REGION_H

#include "nic/host/base/adapter.h"

#define NIC_KEY_SYMMETRIC (UINT64_C(1) << 63) /* set in keys of symmetric regions only */

struct nic_region {
    uint64_t key;
    uint8_t *base;
    uint64_t bytes;
    uint64_t origin; /* offset of the first byte: 0, or its address with FABEMU_BY_ADDRESS */
    unsigned access;
    struct fabemu_event *event;   /* counts peers' writes; may be NULL */
    struct fabemu_group *group;   /* symmetric region: its group; else NULL */
    struct nic_region *symmetric; /* next in fab->symmetric */
};

/** nic_region_find - the region with this key, or NULL. */
struct nic_region *nic_region_find(struct fabemu *fab, uint64_t key);
/** nic_region_check - can this memory be registered? Errors: -EINVAL, -EFAULT. Lock: none. */
int nic_region_check(const void *addr, size_t bytes, unsigned access);
/**
 * nic_region_add - register a copy of @init. It gets a key here, unless it is symmetric. Errors:
 * -ENOMEM, -ENOSPC.
 */
int nic_region_add(struct fabemu *fab, const struct nic_region *init, struct nic_region **ret);
/** nic_region_drop - unregister. Transfers there end. */
void nic_region_drop(struct fabemu *fab, struct nic_region *region);
/** nic_region_written - a peer's put or atomic is complete in the region: count it. */
void nic_region_written(struct fabemu *fab, struct nic_region *region);
/** nic_region_forget_event - @event closes: no region counts in it any more. */
void nic_region_forget_event(struct fabemu *fab, const struct fabemu_event *event);

/** nic_region_holds - are @bytes at a peer's @offset inside the region? Pure. */
static inline bool nic_region_holds(const struct nic_region *region, uint64_t offset,
                                    uint64_t bytes)
{
    /* an offset below the origin wraps around and is too large */
    uint64_t at = offset - region->origin;

    return at <= region->bytes && bytes <= region->bytes - at;
}

/** nic_region_at - the byte at a peer's @offset, which lies in the region. Pure. */
static inline uint8_t *nic_region_at(const struct nic_region *region, uint64_t offset)
{
    return region->base + (offset - region->origin);
}

#endif
