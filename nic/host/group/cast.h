/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cast.h - segments of broadcast puts, sent and received.
 *
 * Owner: a group's broadcast puts under way (`casts`, `cast_out`). Lock: held. Callers: put.c; send.c and
 * receive.c of group/; who aborts.
 */
#ifndef NIC_CAST_H
#define NIC_CAST_H

#include "nic/host/group/group.h"
#include "nic/host/memory/region.h"
#include "nic/host/op/op.h"

#define NIC_CAST_WINDOW 64u /* segments of a group's broadcast puts that not all members have; at most 64 */

/* A broadcast put. */
struct nic_broadcast {
    struct nic_op op;
    uint64_t key, offset;
    struct fabemu_group *group;
    uint64_t told;  /* segments that all have, of the 64 from base on: by number modulo 64 */
    uint32_t sent;  /* segments */
    uint32_t base;  /* of them, all before this one are told */
} __attribute__((may_alias));
NIC_OP_FITS(struct nic_broadcast);

static inline struct nic_broadcast *nic_broadcast_of(struct nic_op *op)
{
    return emu_list_entry(op, struct nic_broadcast, op);
}

/**
 * nic_cast_region - where these bytes lie here, or NULL: in no region of the group's, or in one that was
 * unregistered.
 */
struct nic_region *nic_cast_region(struct fabemu *fab, uint32_t group, uint64_t key, uint64_t offset,
                                   uint64_t bytes);
/** nic_cast_write - into this process's copy. @last: of the put. */
void nic_cast_write(struct fabemu *fab, struct nic_region *region, uint64_t offset, const void *from,
                    size_t bytes, bool last);
/** nic_cast_send - up to @most segments of broadcast puts. */
uint32_t nic_cast_send(struct fabemu_group *g, uint32_t most);
/** nic_cast_due - is there a segment that only waits for room in the up ring? */
bool nic_cast_due(const struct fabemu_group *g);
/**
 * nic_cast_told - all members have a segment of ours. Returns the group, which may have more to send now; or
 * NULL.
 */
struct fabemu_group *nic_cast_told(struct fabemu *fab, const struct emu_seg *seg);
/** nic_cast_receive - a segment of another member's. */
void nic_cast_receive(struct fabemu *fab, const struct emu_seg *seg);
/** nic_cast_abandon - @put is about to end; answers to its segments are stale from now on. */
void nic_cast_abandon(struct nic_broadcast *put);

#endif
