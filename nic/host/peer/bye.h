/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bye.h - goodbyes that come: the questions of who leaves, and the answers to ours.
 *
 * Owner: a peer's fields of parting. Lock: held. Callers: receive.c; leave.c for what both say.
 */
#ifndef NIC_BYE_H
#define NIC_BYE_H

#include "nic/host/base/peer.h"

/** nic_leave_receive - a NIC_BYE came. @known: under the check of the pair. */
void nic_leave_receive(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg,
                       bool known);
/** nic_bye_say - send @bye. False: there is no room now. */
bool nic_bye_say(struct fabemu *fab, struct nic_peer *peer, struct nic_wire_bye *bye);

#endif
