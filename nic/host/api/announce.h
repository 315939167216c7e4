/* SPDX-License-Identifier: BSD-3-Clause */
/* announce.h - queues that other processes of the host can find by their numbers */
#ifndef NIC_ANNOUNCE_H
#define NIC_ANNOUNCE_H

struct fabemu_queue;

/** nic_queue_withdraw - undo fabemu_queue_announce(), if it was called. Lock: not held. */
void nic_queue_withdraw(struct fabemu_queue *queue);

#endif
