/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gone.h - a process is gone, or the pair's streams broke off: all that was with it ends.
 *
 * Owner: a peer's `first`, `unreported_seat`, `must_notify`. Lock: held. Callers: who begins an
 * operation, who hears of an end.
 */
#ifndef NIC_GONE_H
#define NIC_GONE_H

#include "nic/host/base/op.h"
#include "nic/host/base/peer.h"

/**
 * nic_peer_departed - all with a lower seat than @first are gone from the node of @peer: what was
 * with them ends.
 */
void nic_peer_departed(struct fabemu *fab, struct nic_peer *peer, uint64_t first, bool goodbye);
/** nic_peer_fail_queue - end what is queued: it is for who is there now, or was until now. */
void nic_peer_fail_queue(struct fabemu *fab, struct nic_peer *peer, int status);
/** nic_peer_break - the pair's streams break off here, as the other side or the network says. */
void nic_peer_break(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_break_off - the same, and it is for us to tell the other side. */
void nic_peer_break_off(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_cancel - end what is queued for it, of which nothing has been sent. */
void nic_peer_cancel(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_look_all - somebody is gone: look at all that we know. */
void nic_peer_look_all(struct fabemu *fab);
void nic_peer_release(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_refuses - the rest of nic_peer_begin(), for a peer that is not known to be there. */
int nic_peer_refuses(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);

/**
 * nic_peer_request - @op, a request, begins and is queued; connects to the peer if need be. If
 * nic_peer_begin() refuses it, it ends with -EHOSTUNREACH.
 */
void nic_peer_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);

/** nic_peer_look - see who is at the node. */
static inline void nic_peer_look(struct fabemu *fab, struct nic_peer *peer)
{
    uint64_t first = emu_seat_first(emu_hostif_nic_seat(&fab->edge, peer->node));

    if (first > peer->first)
        nic_peer_departed(fab, peer, first, false);
}

/**
 * nic_peer_begin - @op begins: with which process is it? Sets op->seat.
 * Errors: -EHOSTUNREACH, with the one that it names, which is not there; or something was lost and
 * nobody told.
 */
static inline int nic_peer_begin(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    uint64_t word = emu_hostif_nic_seat(&fab->edge, peer->node);

    if (peer->unreported_seat || !emu_seat_attached(word) || emu_seat_first(word) != peer->first ||
        (op->named && op->seat != peer->first))
        return nic_peer_refuses(fab, peer, op);
    op->seat = peer->first;
    return 0;
}

#endif
