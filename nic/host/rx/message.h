/* SPDX-License-Identifier: BSD-3-Clause */
/* message.h - arriving messages: copied into the receive that matches, or kept. Lock: held. */
#ifndef NIC_MESSAGE_H
#define NIC_MESSAGE_H

#include "nic/host/base/peer.h"
#include "nic/host/rx/queue.h"

/* Limit of eager messages, whatever the sender's threshold. */
#define NIC_EAGER_LIMIT (64u << 10)

/* A request arrived; nic_message_eager() also handles NIC_SHORT. */
void nic_message_eager(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_message_more(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_message_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

/** nic_message_take - @recv receives @msg and completes now, or when all of @msg has arrived. */
void nic_message_take(struct fabemu *fab, struct fabemu_message *msg, struct nic_recv *recv);
/** nic_message_break - the rest of the message that is arriving from @peer will not come. */
void nic_message_break(struct fabemu *fab, struct nic_peer *peer, int status);
void nic_message_drop(struct fabemu *fab, struct fabemu_message *msg);
void nic_message_release_pools(struct fabemu *fab);

#endif
