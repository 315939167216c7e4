/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dispatch.h - what a group sends in its turn, and which part of it an arriving segment is for.
 *
 * Owner: the list of groups that have something to send (`busy`). Lock: held. Callers: calls on
 * groups, break.c, the step; nic/host/progress/receive.c.
 */
#ifndef NIC_GROUP_DISPATCH_H
#define NIC_GROUP_DISPATCH_H

#include "nic/host/group/group.h"

/** nic_group_send - what can be sent of all that the group has. Returns segments. */
uint32_t nic_group_send(struct fabemu_group *g);
/** nic_group_start - @c takes the next numbers of the stream; sends what can be sent. */
void nic_group_start(struct fabemu_group *g, struct nic_coll *c);
/** nic_group_transmit - each group that has something to send. Returns segments. */
uint32_t nic_group_transmit(struct fabemu *fab);

void nic_group_receive(struct fabemu *fab, const struct emu_seg *seg);
/**
 * nic_group_receive_run - several at once, and popped: see nic_stream_receive_run(), which asks
 * more. @seg: the down ring's first.
 */
uint32_t nic_group_receive_run(struct fabemu *fab, const struct emu_seg *seg, uint32_t most);
/** nic_group_notice - all members have a segment of ours that is not of the stream. */
void nic_group_notice(struct fabemu *fab, const struct emu_seg *seg);

#endif
