/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.h - what the down ring brings: checked, put in order, given to its handler.
 *
 * Owner: peers' early segments while they wait for their turn. Lock: held. Callers: the step; who
 * opens a queue, and who leaves.
 */
#ifndef NIC_RECEIVE_H
#define NIC_RECEIVE_H

#include "nic/host/base/adapter.h"

/** nic_receive - a bounded number of segments. Returns how many. */
uint32_t nic_receive(struct fabemu *fab);
/** nic_receive_resume - a queue was opened: requests that waited for that go on. */
void nic_receive_resume(struct fabemu *fab);

#endif
