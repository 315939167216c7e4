/* SPDX-License-Identifier: BSD-3-Clause */
/* serve.h - execute puts, gets and atomics of peers on registered memory. Lock: held. */
#ifndef NIC_SERVE_H
#define NIC_SERVE_H

#include "nic/host/base/op.h"
#include "nic/host/base/peer.h"

/* Handle a request that has arrived. */
void nic_memory_put(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_memory_put_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
/** nic_memory_put_done - end the put that @op serves, because all its bytes have arrived. */
void nic_memory_put_done(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);
void nic_memory_get(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_memory_atomic(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

/* --- batch.c --- */
void nic_batch_begin(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_batch_more(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

#endif
