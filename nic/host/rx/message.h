/* SPDX-License-Identifier: BSD-3-Clause */
/* message.h - copy messages that arrive into the receives that match, or keep them. Lock: held. */
#ifndef NIC_MESSAGE_H
#define NIC_MESSAGE_H

#include "nic/host/base/peer.h"
#include "nic/host/rx/queue.h"

/* Largest eager message that is accepted, whatever the sender's threshold is. */
#define NIC_EAGER_LIMIT (64u << 10)

/* Handle a request that arrived. nic_message_eager() handles NIC_EAGER and NIC_SHORT. */
void nic_message_eager(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_message_more(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);
void nic_message_rts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

/** nic_message_describe - store in @req the properties of a message from this incarnation. */
void nic_message_describe(struct fabemu_req *req, uint32_t node, uint64_t incarnation,
                          const struct nic_wire_msg *wire);
/** nic_message_take - let @recv receive @msg, now or as soon as all of @msg has arrived. */
void nic_message_take(struct fabemu *fab, struct fabemu_message *msg, struct nic_recv *recv);
/** nic_message_break - end, with @status, the message from @peer whose rest will not arrive. */
void nic_message_break(struct fabemu *fab, struct nic_peer *peer, int status);
void nic_message_drop(struct fabemu *fab, struct fabemu_message *msg);
void nic_message_release_pools(struct fabemu *fab);

#endif
