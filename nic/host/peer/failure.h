/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure.h - a process is gone, or the pair's streams broke: end all operations with it. Lock:
 * held.
 */
#ifndef NIC_FAILURE_H
#define NIC_FAILURE_H

#include "nic/host/base/op.h"
#include "nic/host/base/peer.h"

/**
 * nic_peer_departed - incarnations below @first are gone from the node of @peer: end all operations
 * with them. @goodbye: the process had disconnected.
 */
void nic_peer_departed(struct fabemu *fab, struct nic_peer *peer, uint64_t first, bool goodbye);
/** nic_peer_fail_queue - end the queued requests. */
void nic_peer_fail_queue(struct fabemu *fab, struct nic_peer *peer, int status);
/** nic_peer_break - the pair's streams break, as the peer or the network reports. */
void nic_peer_break(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_break_off - the same, but we must notify the peer. */
void nic_peer_break_off(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_cancel - end queued requests to a peer to which nothing has been sent. */
void nic_peer_cancel(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_check_all - a process is gone: check all peers. */
void nic_peer_check_all(struct fabemu *fab);
void nic_peer_release(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_refuses - slow path of nic_peer_begin(), for a peer that may be gone. */
int nic_peer_refuses(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);

/**
 * nic_peer_request - start and queue the request @op; connect to the peer if needed. If
 * nic_peer_begin() refuses it, it ends with -EHOSTUNREACH.
 */
void nic_peer_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);

/** nic_peer_check - check whether the process at the node has changed. */
static inline void nic_peer_check(struct fabemu *fab, struct nic_peer *peer)
{
    uint64_t first = emu_incarnation_first(emu_hostif_nic_incarnation(&fab->hostif, peer->node));

    if (first > peer->first)
        nic_peer_departed(fab, peer, first, false);
}

/**
 * nic_peer_begin - start @op: sets op->incarnation to the incarnation that it is with.
 * Errors: -EHOSTUNREACH: the incarnation that it names is not there, or data sent before was lost
 * and no operation has reported that.
 */
static inline int nic_peer_begin(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    uint64_t word = emu_hostif_nic_incarnation(&fab->hostif, peer->node);

    if (peer->unreported_incarnation || !emu_incarnation_attached(word) ||
        emu_incarnation_first(word) != peer->first || (op->named && op->incarnation != peer->first))
        return nic_peer_refuses(fab, peer, op);
    op->incarnation = peer->first;
    return 0;
}

#endif
