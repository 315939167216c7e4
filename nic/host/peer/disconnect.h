/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * disconnect.h - disconnect: answer the queries of a process that detaches, and receive the answers
 * to ours. Lock: held.
 */
#ifndef NIC_DISCONNECT_H
#define NIC_DISCONNECT_H

#include "nic/host/base/peer.h"

/** nic_leave_receive - a NIC_DISCONNECT arrived. @known: with the check of the pair. */
void nic_leave_receive(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg,
                       bool known);
/** nic_disconnect_send - send @disconnect. False: no space now. */
bool nic_disconnect_send(struct fabemu *fab, struct nic_peer *peer,
                         struct nic_wire_disconnect *disconnect);

#endif
