/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure.h - end all operations with a peer because its process has ended, or because the network
 * dropped one of the pair's segments for good. Such a drop *breaks* the pair's streams of requests.
 * Lock: held.
 */
#ifndef NIC_FAILURE_H
#define NIC_FAILURE_H

#include "nic/host/base/op.h"
#include "nic/host/base/peer.h"

/**
 * nic_peer_departed - end all operations with the incarnations of the peer's node before @first,
 * because these have ended. @disconnected: the last of these processes has disconnected.
 */
void nic_peer_departed(struct fabemu *fab, struct nic_peer *peer, uint64_t first,
                       bool disconnected);
/**
 * nic_peer_report_losses - call the functions of fabemu_queue_on_loss() for losses that happened at
 * least fab->watch_gap_ns before @now and that no operation has reported.
 */
void nic_peer_report_losses(struct fabemu *fab, uint64_t now);
/** nic_peer_fail_queue - end the queued requests with @status. */
void nic_peer_fail_queue(struct fabemu *fab, struct nic_peer *peer, int status);
/** nic_peer_break - end all operations with the peer, because it or the network reports a drop. */
void nic_peer_break(struct fabemu *fab, struct nic_peer *peer);
/**
 * nic_peer_break_off - as nic_peer_break(), for the process that notices the drop first: also start
 * the next epoch, and notify the peer of it.
 */
void nic_peer_break_off(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_cancel - cancel the requests to a peer that is not open, and stop connecting to it. */
void nic_peer_cancel(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_check_all - end the operations with all processes that have ended. */
void nic_peer_check_all(struct fabemu *fab);
void nic_peer_release(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_refuses - slow path of nic_peer_begin(), for a peer whose process may have ended. */
int nic_peer_refuses(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);

/**
 * nic_peer_request - start and queue the request @op, and connect to the peer if needed. If
 * nic_peer_begin() returns an error, @op ends with -EHOSTUNREACH.
 */
void nic_peer_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);

/** nic_peer_check - end the operations with the node's process if the process has ended. */
static inline void nic_peer_check(struct fabemu *fab, struct nic_peer *peer)
{
    uint64_t first = emu_incarnation_first(emu_hostif_nic_incarnation(&fab->hostif, peer->node));

    if (first > peer->first)
        nic_peer_departed(fab, peer, first, false);
}

/**
 * nic_peer_begin - set op->incarnation to the incarnation with which the operation takes place.
 * Errors: -EHOSTUNREACH: the incarnation that @op names has ended, or data sent to the peer earlier
 * was lost and no operation has reported that yet.
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
