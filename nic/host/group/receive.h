/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.h - segments of groups that come, and the network's word on ours.
 *
 * Owner: nothing of its own. Lock: held. Callers: nic/host/progress/receive.c.
 */
#ifndef NIC_GROUP_RECEIVE_H
#define NIC_GROUP_RECEIVE_H

#include "nic/host/base/adapter.h"

void nic_group_receive(struct fabemu *fab, const struct emu_seg *seg);
/**
 * nic_group_receive_run - several at once, and popped: see nic_stream_receive_run(), which asks
 * more. @seg: the down ring's first.
 */
uint32_t nic_group_receive_run(struct fabemu *fab, const struct emu_seg *seg, uint32_t most);
/** nic_group_notice - all members have a segment of ours that is not of the stream. */
void nic_group_notice(struct fabemu *fab, const struct emu_seg *seg);

#endif
