/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * answer.h - small answers to a peer: at once, or first of all when there is room.
 *
 * Owner: the answers that wait (`ctls`). Lock: held. Callers: handlers of what peers ask, hellos,
 * goodbyes.
 */
#ifndef NIC_ANSWER_H
#define NIC_ANSWER_H

#include "nic/host/base/peer.h"

#define NIC_CTL_MAX (1u << 16) /* hellos and acknowledgments that wait for room */

/* An answer that waits for room in the up ring. */
struct nic_ctl {
    struct emu_list link;
    uint32_t dst;
    uint8_t len;
    uint8_t payload[48];
};

/**
 * nic_answer - send a small answer, now or when there is room. False: dropped (NIC_HELLO, NIC_ACK;
 * others only without memory).
 */
bool nic_answer(struct fabemu *fab, struct nic_peer *peer, void *payload, size_t bytes);
/** nic_answers_send - those that wait. Returns segments. */
uint32_t nic_answers_send(struct fabemu *fab);
/** nic_fin - the peer's transfer @id is over. */
void nic_fin(struct fabemu *fab, struct nic_peer *peer, uint32_t id, int status);
/** nic_cts - the peer's transfer @id may send @bytes to our transfer @to. */
void nic_cts(struct fabemu *fab, struct nic_peer *peer, uint32_t id, uint32_t to, uint64_t bytes);
/** nic_ack - acknowledge by itself. */
void nic_ack(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_ack_if_due - acknowledge by itself when much is unacknowledged. */
void nic_peer_ack_if_due(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_consumed - a charged message of @bytes was taken, which came under @check. */
void nic_peer_consumed(struct fabemu *fab, struct nic_peer *peer, uint32_t check, uint64_t bytes);

/** nic_head - begin of every answer and request; acknowledges. */
static inline struct nic_wire_head nic_head(struct nic_peer *peer, enum nic_what what,
                                            uint16_t queue)
{
    peer->rx_acked = peer->rx_next;
    peer->rx_consumed_acked = peer->rx_consumed;
    return (struct nic_wire_head){.what = (uint8_t)what,
                                  .queue = queue,
                                  .check = peer->tx_check,
                                  .ack = peer->rx_next,
                                  .consumed = peer->rx_consumed};
}

#endif
