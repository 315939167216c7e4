/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.h - a group's turn: all that it has to send.
 *
 * Owner: the list of groups that have something to send (`busy`). Lock: held. Callers: calls on
 * groups, break.c, receive.c, the step.
 */
#ifndef NIC_GROUP_SEND_H
#define NIC_GROUP_SEND_H

#include "nic/host/group/group.h"

/** nic_group_send - what can be sent of all that the group has. Returns segments. */
uint32_t nic_group_send(struct fabemu_group *g);
/** nic_group_start - @c takes the next numbers of the stream; sends what can be sent. */
void nic_group_start(struct fabemu_group *g, struct nic_coll *c);
/** nic_group_transmit - each group that has something to send. Returns segments. */
uint32_t nic_group_transmit(struct fabemu *fab);

#endif
