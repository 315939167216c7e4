/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end.h - the end of receives and queues, and of what is in them.
 *
 * Owner: nothing of its own. Lock: held. Callers: who hears that a process is gone, who cancels,
 * who closes.
 */
#ifndef NIC_END_H
#define NIC_END_H

#include "nic/host/rx/queue.h"

/** nic_receive_abandon - cancel a receive; what of its message is on its way goes nowhere. */
void nic_receive_abandon(struct fabemu *fab, struct nic_recv *recv);
/**
 * nic_queue_passed - those of @node with a lower seat than @first are gone: fail receives that are
 * with them. Messages that they had offered are broken: in their place nothing is received that
 * came after them. @withdrawn: who left in good order took them back.
 */
void nic_queue_passed(struct fabemu *fab, uint32_t node, uint64_t first, bool withdrawn);
/** nic_queue_free - with all that is in it. */
void nic_queue_free(struct fabemu_queue *queue);
void nic_queue_release(struct fabemu *fab);

#endif
