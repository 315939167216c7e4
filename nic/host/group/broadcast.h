/* SPDX-License-Identifier: BSD-3-Clause */
/* broadcast.h - segments of broadcast puts, sent and received. Lock: held. */
#ifndef NIC_BROADCAST_H
#define NIC_BROADCAST_H

#include "nic/host/base/op.h"
#include "nic/host/group/group.h"
#include "nic/host/rx/region.h"

/* Segments of a group's broadcast puts that may be in flight; at most 64. */
#define NIC_BROADCAST_WINDOW 64u

/* A broadcast put. */
struct nic_broadcast_put {
    struct nic_op op;
    uint64_t key, offset;
    struct fabemu_group *group;
    uint64_t acked; /* delivered segments among the 64 from base on, by number modulo 64 */
    uint32_t sent;  /* segments */
    uint32_t base;  /* all segments before this one are delivered */
} __attribute__((may_alias));
NIC_OP_KIND(nic_broadcast_put_of, struct nic_broadcast_put, op);

/**
 * nic_broadcast_region - the local region that contains these bytes; NULL if there is none in the
 * group (any more).
 */
struct nic_region *nic_broadcast_region(struct fabemu *fab, uint32_t group, uint64_t key,
                                        uint64_t offset, uint64_t bytes);
/** nic_broadcast_write - write into this process's copy. @last: the put's last segment. */
void nic_broadcast_write(struct fabemu *fab, struct nic_region *region, uint64_t offset,
                         const void *from, size_t bytes, bool last);
/** nic_broadcast_send - send up to @most segments. Returns how many. */
uint32_t nic_broadcast_send(struct fabemu_group *g, uint32_t most);
/** nic_broadcast_due - is there a segment that only waits for space in the up ring? */
bool nic_broadcast_due(const struct fabemu_group *g);
/**
 * nic_broadcast_delivered - all members have a segment of ours. Returns the group, which may be
 * able to send more now; or NULL.
 */
struct fabemu_group *nic_broadcast_delivered(struct fabemu *fab, const struct emu_seg *seg);
/** nic_broadcast_receive - another member's segment arrived. */
void nic_broadcast_receive(struct fabemu *fab, const struct emu_seg *seg);
/** nic_broadcast_abandon - @put is about to end: later reports on its segments are stale. */
void nic_broadcast_abandon(struct nic_broadcast_put *put);

#endif
