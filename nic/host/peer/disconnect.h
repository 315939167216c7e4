/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * disconnect.h - disconnect two processes: answer the query (NIC_DISCONNECT_ASK) of a peer that
 * detaches, and receive the answers to our queries. Lock: held.
 */
#ifndef NIC_DISCONNECT_H
#define NIC_DISCONNECT_H

#include "nic/host/base/peer.h"

/**
 * nic_leave_receive - handle a NIC_DISCONNECT that arrived.
 * @known: whether the segment's `check` belongs to the pair's current processes and epoch.
 */
void nic_leave_receive(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg,
                       bool known);
/** nic_disconnect_send - send @disconnect. Returns false if there is no space now. */
bool nic_disconnect_send(struct fabemu *fab, struct nic_peer *peer,
                         struct nic_wire_disconnect *disconnect);

#endif
