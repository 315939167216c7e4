/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bye.h - disconnect: answer the queries of a process that detaches, and receive the answers to
 * ours. Lock: held.
 */
#ifndef NIC_BYE_H
#define NIC_BYE_H

#include "nic/host/base/peer.h"

/** nic_leave_receive - a NIC_BYE arrived. @known: with the check of the pair. */
void nic_leave_receive(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg,
                       bool known);
/** nic_bye_say - send @bye. False: no space now. */
bool nic_bye_say(struct fabemu *fab, struct nic_peer *peer, struct nic_wire_bye *bye);

#endif
