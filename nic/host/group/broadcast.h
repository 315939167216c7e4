/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * broadcast.h - segments of broadcast puts, sent and received.
 *
 * Owner: a group's broadcast puts under way (`broadcasts`, `broadcast_out`). Lock: held. Callers:
 * dispatch.c; who aborts.
 */
#ifndef NIC_BROADCAST_H
#define NIC_BROADCAST_H

#include "nic/host/base/op.h"
#include "nic/host/group/group.h"
#include "nic/host/rx/region.h"

/* So many segments of a group's broadcast puts may be on their way; at most 64. */
#define NIC_BROADCAST_WINDOW 64u

/* A broadcast put. */
struct nic_broadcast_put {
    struct nic_op op;
    uint64_t key, offset;
    struct fabemu_group *group;
    uint64_t acked; /* segments that all have, of the 64 from base on: by number modulo 64 */
    uint32_t sent;  /* segments */
    uint32_t base;  /* of them, all before this one are told */
} __attribute__((may_alias));
NIC_OP_KIND(nic_broadcast_put_of, struct nic_broadcast_put, op);

/**
 * nic_broadcast_region - where these bytes lie here, or NULL: in no region of the group's, or in
 * one that was unregistered.
 */
struct nic_region *nic_broadcast_region(struct fabemu *fab, uint32_t group, uint64_t key,
                                        uint64_t offset, uint64_t bytes);
/** nic_broadcast_write - into this process's copy. @last: of the put. */
void nic_broadcast_write(struct fabemu *fab, struct nic_region *region, uint64_t offset,
                         const void *from, size_t bytes, bool last);
/** nic_broadcast_send - up to @most segments of broadcast puts. */
uint32_t nic_broadcast_send(struct fabemu_group *g, uint32_t most);
/** nic_broadcast_due - is there a segment that only waits for room in the up ring? */
bool nic_broadcast_due(const struct fabemu_group *g);
/**
 * nic_broadcast_delivered - all members have a segment of ours. Returns the group, which may have
 * more to send now; or NULL.
 */
struct fabemu_group *nic_broadcast_delivered(struct fabemu *fab, const struct emu_seg *seg);
/** nic_broadcast_receive - a segment of another member's. */
void nic_broadcast_receive(struct fabemu *fab, const struct emu_seg *seg);
/** nic_broadcast_abandon - @put is about to end; answers to its segments are stale from now on. */
void nic_broadcast_abandon(struct nic_broadcast_put *put);

#endif
