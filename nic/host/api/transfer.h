/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.h - puts, gets and atomics of ours.
 *
 * Owner: nothing of its own; the operations are the requests'. Lock: nic_memory_result() wants it
 * held, the check none. Callers: receive.c; calls that transfer.
 */
#ifndef NIC_TRANSFER_H
#define NIC_TRANSFER_H

#include "nic/host/base/peer.h"

/** nic_memory_result - an atomic of ours is done. */
void nic_memory_result(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
/** nic_transfer_check - can one operation move so much? Errors: -EMSGSIZE. Lock: none. */
int nic_transfer_check(uint64_t bytes);

#endif
