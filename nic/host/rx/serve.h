/* SPDX-License-Identifier: BSD-3-Clause */
/* serve.h - execute puts, gets and atomics of peers on registered memory. Lock: held. */
#ifndef NIC_SERVE_H
#define NIC_SERVE_H

#include "nic/host/base/op.h"
#include "nic/host/base/peer.h"
#include "nic/host/rx/region.h"

/* Handle a request that has arrived. */
void nic_memory_put(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_memory_put_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
/** nic_memory_put_done - end the put that @op serves, because all its bytes have arrived. */
void nic_memory_put_done(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);
void nic_memory_get(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_memory_atomic(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

/** nic_request_count - count a complete request in the events of its region, and of its queue. */
void nic_request_count(struct fabemu *fab, const struct nic_region *region, unsigned region_access,
                       const struct nic_wire_head *head, unsigned queue_access);
/**
 * nic_atomic_allowed - return whether the region permits the atomic. FABEMU_REMOTE_ATOMIC permits
 * every one. Otherwise changing an element needs FABEMU_REMOTE_WRITE, and returning its value needs
 * FABEMU_REMOTE_READ. Pure.
 */
bool nic_atomic_allowed(const struct nic_region *region, unsigned op, bool fetch);

/* --- batch.c --- */
void nic_batch_begin(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_batch_more(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

#endif
