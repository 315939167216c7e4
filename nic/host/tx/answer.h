/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * answer.h - send short answers to peers; queued answers are sent before other segments. Lock:
 * held.
 */
#ifndef NIC_ANSWER_H
#define NIC_ANSWER_H

#include "nic/host/base/peer.h"

#define NIC_CTL_MAX (1u << 16) /* at most this many hellos, acknowledgments and disconnects wait */

/* An answer that waits for space in the ring to the fabric. */
struct nic_ctl {
    struct emu_list link;
    uint32_t dst;
    uint8_t len;
    /* the longest answer is the result of an atomic */
    uint8_t payload[sizeof(struct nic_wire_result) + NIC_ATOMIC_BYTES];
};

/**
 * nic_answer - send a short answer now, or queue it. Returns false if the answer was dropped,
 * because there is no memory or NIC_CTL_MAX is reached.
 */
bool nic_answer(struct fabemu *fab, struct nic_peer *peer, void *payload, size_t bytes);
/** nic_answers_send - send queued answers. Returns the number of segments sent. */
uint32_t nic_answers_send(struct fabemu *fab);
/** nic_fin - notify the peer that its transfer @id has ended with @status. */
void nic_fin(struct fabemu *fab, struct nic_peer *peer, uint32_t id, int status);
/** nic_cts - notify the peer that its transfer @id may send @bytes to our transfer @to. */
void nic_cts(struct fabemu *fab, struct nic_peer *peer, uint32_t id, uint32_t to, uint64_t bytes);
void nic_ack(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_ack_if_due - call nic_ack() if a quarter of a window is not acknowledged. */
void nic_peer_ack_if_due(struct fabemu *fab, struct nic_peer *peer);
/**
 * nic_peer_consumed - note that the application has received a message of @bytes that arrived with
 * @check. If it is longer than NIC_INLINE_BYTES, the next segment to the peer acknowledges its
 * bytes.
 */
void nic_peer_consumed(struct fabemu *fab, struct nic_peer *peer, uint32_t check, uint64_t bytes);

/** nic_head - make the head of an answer or request. It acknowledges all that has arrived. */
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
