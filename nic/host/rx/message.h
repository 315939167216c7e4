/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.h - arriving messages: into the receive that waits for them, or kept.
 *
 * Owner: unexpected messages and their pools, a peer's message under way (`fill_*`). Lock: held.
 * Callers: receive.c with what came; calls that receive.
 */
#ifndef NIC_MESSAGE_H
#define NIC_MESSAGE_H

#include "nic/host/base/peer.h"
#include "nic/host/rx/queue.h"

/* No eager message is longer, whatever the sender's threshold. */
#define NIC_EAGER_LIMIT (64u << 10)

/* A request came; nic_message_eager() takes NIC_SHORT, too. */
void nic_message_eager(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_message_more(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_message_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

/** nic_message_take - let the receive @recv have @msg, which ends now or when all of it is here. */
void nic_message_take(struct fabemu *fab, struct fabemu_message *msg, struct nic_recv *recv);
/** nic_message_break - the sender of what is being filled has died. */
void nic_message_break(struct fabemu *fab, struct nic_peer *peer, int status);
void nic_message_drop(struct fabemu *fab, struct fabemu_message *msg);
void nic_message_release_pools(struct fabemu *fab);

#endif
