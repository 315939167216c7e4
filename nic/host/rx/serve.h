/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve.h - puts, gets and atomics of peers, into and out of memory here.
 *
 * Owner: nothing of its own; what it serves with is the adapter's. Lock: held. Callers: receive.c.
 */
#ifndef NIC_SERVE_H
#define NIC_SERVE_H

#include "nic/host/base/op.h"
#include "nic/host/base/peer.h"

/* A request came. */
void nic_memory_put(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_memory_put_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
/** nic_memory_put_done - all bytes of the put that @op serves are here. */
void nic_memory_put_done(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);
void nic_memory_get(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_memory_atomic(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

#endif
