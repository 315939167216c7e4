/* SPDX-License-Identifier: BSD-3-Clause */
/* broadcast.h - broadcast puts: send and receive their segments. Lock: held. */
#ifndef NIC_BROADCAST_H
#define NIC_BROADCAST_H

#include "nic/host/base/op.h"
#include "nic/host/group/group.h"
#include "nic/host/rx/region.h"

/* Segments of a group's broadcast puts that this member may have in flight; at most 64. */
#define NIC_BROADCAST_WINDOW 64u

struct nic_broadcast_put {
    struct nic_op op;
    uint64_t key, offset;
    struct fabemu_group *group;
    /* bit n % 64: segment n was delivered; for the 64 segments that begin with `base` */
    uint64_t acked;
    uint32_t sent; /* segments sent */
    uint32_t base; /* all segments before this one were delivered */
} __attribute__((may_alias));
NIC_OP_KIND(nic_broadcast_put_of, struct nic_broadcast_put, op);

/**
 * nic_broadcast_region - return this member's part of the group's region @key. NULL: there is none
 * that contains these bytes and may be written.
 */
struct nic_region *nic_broadcast_region(struct fabemu *fab, uint32_t group, uint64_t key,
                                        uint64_t offset, uint64_t bytes);
/**
 * nic_broadcast_write - write bytes of a put to this member's part of the region.
 * @last: whether these bytes are the last of the put.
 */
void nic_broadcast_write(struct fabemu *fab, struct nic_region *region, uint64_t offset,
                         const void *from, size_t bytes, bool last);
/** nic_broadcast_send - send up to @most segments. Returns the number sent. */
uint32_t nic_broadcast_send(struct fabemu_group *g, uint32_t most);
/** nic_broadcast_due - return whether a segment waits only for space in the ring to the fabric. */
bool nic_broadcast_due(const struct fabemu_group *g);
/**
 * nic_broadcast_delivered - handle the report that all members have received a segment of ours.
 * Returns the group, which may be able to send more now, or NULL.
 */
struct fabemu_group *nic_broadcast_delivered(struct fabemu *fab, const struct emu_seg *seg);
void nic_broadcast_receive(struct fabemu *fab, const struct emu_seg *seg);
/**
 * nic_broadcast_abandon - stop counting the put's segments as in flight, because the put is about
 * to end. Later reports on them are stale.
 */
void nic_broadcast_abandon(struct nic_broadcast_put *put);

#endif
