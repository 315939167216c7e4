/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leave.h - an adapter parts from all that it has met.
 *
 * Owner: `leaving` and the times of asking. Lock: nic_leave() takes it, the others want it held.
 * Callers: attach.c, and tests.
 */
#ifndef NIC_LEAVE_H
#define NIC_LEAVE_H

#include "nic/host/base/adapter.h"

/**
 * nic_leave - take leave of all peers that were met. When this returns they have everything
 * whose operation has completed.
 * @limit_ns: at most so long. Returns the number of peers that may lack something of ours, or whose
 * last data has not come; each has its line on stderr. Lock: none.
 */
uint32_t nic_leave(struct fabemu *fab, uint64_t limit_ns);
/** nic_leave_begin - from now on nothing new begins. */
void nic_leave_begin(struct fabemu *fab);
/** nic_leave_step - ask who has not answered; is all said and done? */
bool nic_leave_step(struct fabemu *fab);

#endif
