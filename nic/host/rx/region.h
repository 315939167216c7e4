/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.h - registered memory.
 *
 * A key is a table index and 43 random bits, so a peer reaches only what it was told of; or
 * NIC_KEY_SYMMETRIC and 63 bits that a group's members have agreed on (group/symmetric.c).
 *
 * Owner: the table (`regions`) and the list of groups' (`symmetric`). The memory is the
 * application's. Lock: held, but for nic_region_check(). Callers: serve.c, receive.c, groups,
 * events.
 */
#ifndef NIC_REGION_H
#define NIC_REGION_H

#include "nic/host/base/adapter.h"

#define NIC_KEY_SYMMETRIC (UINT64_C(1) << 63) /* in the keys of groups' regions, and in no others */

struct nic_region {
    uint64_t key;
    uint8_t *base;
    uint64_t bytes;
    uint64_t origin; /* peers' offset of the first byte: 0; FABEMU_BY_ADDRESS: its address */
    unsigned access;
    struct fabemu_event *event;   /* counts what is written here, or NULL */
    struct fabemu_group *group;   /* symmetric: whose; else NULL */
    struct nic_region *symmetric; /* the next one of fab->symmetric */
};

/** nic_region_find - the region of that key, or NULL. */
struct nic_region *nic_region_find(struct fabemu *fab, uint64_t key);
/** nic_region_check - can these be registered? Errors: -EINVAL, -EFAULT. Lock: none. */
int nic_region_check(const void *addr, size_t bytes, unsigned access);
/**
 * nic_region_add - a copy of @init, which gets a key here unless it is a group's. Errors: -ENOMEM,
 * -ENOSPC.
 */
int nic_region_add(struct fabemu *fab, const struct nic_region *init, struct nic_region **ret);
/** nic_region_drop - no more. Transfers there end. */
void nic_region_drop(struct fabemu *fab, struct nic_region *region);
/** nic_region_written - something of a peer's was written there as a whole. */
void nic_region_written(struct fabemu *fab, struct nic_region *region);
/** nic_region_forget_event - @event closes: no region counts there any more. */
void nic_region_forget_event(struct fabemu *fab, const struct fabemu_event *event);

/** nic_region_holds - do @bytes at a peer's @offset lie in the region? Pure. */
static inline bool nic_region_holds(const struct nic_region *region, uint64_t offset,
                                    uint64_t bytes)
{
    uint64_t at = offset - region->origin; /* below the origin: wraps around, beyond the end */

    return at <= region->bytes && bytes <= region->bytes - at;
}

/** nic_region_at - the byte at a peer's @offset, which lies in the region. Pure. */
static inline uint8_t *nic_region_at(const struct nic_region *region, uint64_t offset)
{
    return region->base + (offset - region->origin);
}

#endif
