/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.h - registered memory.
 *
 * The key of a region consists of a table index and 43 random bits. So a peer can only access
 * regions whose key it was given. The key of a symmetric region consists of NIC_KEY_SYMMETRIC and
 * 63 bits on which the group's members have agreed (group/coll.c). The application may also choose
 * a key, which can be any number. The application owns the memory.
 * Lock: held, except for nic_region_check().
 */
#ifndef NIC_REGION_H
#define NIC_REGION_H

#include "nic/host/base/op.h"

/* set in the keys of symmetric regions; a key that the program chose may have it, too */
#define NIC_KEY_SYMMETRIC (UINT64_C(1) << 63)

struct nic_region {
    uint64_t key;
    struct fabemu_iov piece[NIC_IOVS];
    unsigned pieces;
    uint64_t bytes; /* of all pieces */
    /* the offset by which a peer names the first byte: 0, or with FABEMU_BY_ADDRESS its address */
    uint64_t origin;
    unsigned access;
    bool chosen;              /* the application has chosen the key */
    bool traps;               /* FABEMU_TRAPS: test whether pages are mapped */
    bool by_parts;            /* FABEMU_BY_PARTS: the next two fields describe the memory */
    struct fabemu_iov *parts; /* memory that peers may access; they do not overlap */
    size_t part_count;
    struct nic_access_events events;
    struct fabemu_group *group;   /* the group of a symmetric region; else NULL */
    struct nic_region *symmetric; /* next in fab->symmetric */
};

/** nic_region_find - return the region with this key, or NULL. */
struct nic_region *nic_region_find(struct fabemu *fab, uint64_t key);
/** nic_region_check - check that memory can be registered. Errors: -EINVAL, -EFAULT. Lock: none. */
int nic_region_check(const void *addr, size_t bytes, unsigned access);
/**
 * nic_region_add - register a copy of @init. Unless the region is symmetric or has a chosen key,
 * this function chooses its key. Errors: -ENOMEM, -ENOSPC, -EEXIST.
 */
int nic_region_add(struct fabemu *fab, const struct nic_region *init, struct nic_region **ret);
/** nic_region_drop - unregister the region, and end peers' transfers to or from it. */
void nic_region_drop(struct fabemu *fab, struct nic_region *region);
void nic_region_release(struct fabemu *fab);
/** nic_region_forget_event - let no region count in @event any more, because it closes. */
void nic_region_forget_event(struct fabemu *fab, struct fabemu_event *event);

/** nic_region_parts_hold - nic_region_holds() for a region of parts. Pure. */
bool nic_region_parts_hold(const struct nic_region *region, uint64_t offset, uint64_t bytes);

/** nic_region_holds - return whether the @bytes at a peer's @offset lie inside the region. Pure. */
static inline bool nic_region_holds(const struct nic_region *region, uint64_t offset,
                                    uint64_t bytes)
{
    /* an offset below the origin wraps around and is then too large */
    uint64_t at = offset - region->origin;

    if (region->by_parts)
        return nic_region_parts_hold(region, offset, bytes);
    return at <= region->bytes && bytes <= region->bytes - at;
}

/**
 * nic_region_iov - store in @to the pieces of memory that the @bytes at a peer's @offset of the
 * region occupy. Returns the number of pieces, at least 1. Pure.
 */
unsigned nic_region_iov(const struct nic_region *region, uint64_t offset, uint64_t bytes,
                        struct fabemu_iov to[NIC_IOVS]);

#endif
