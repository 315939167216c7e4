/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * disconnect.h - disconnect two processes: answer the query (NIC_DISCONNECT_ASK) of a peer that
 * detaches, and receive the answers to our queries. Lock: held.
 */
#ifndef NIC_DISCONNECT_H
#define NIC_DISCONNECT_H

#include "nic/host/base/peer.h"

/**
 * nic_disconnect_now_ns - return the time by the clock of all limits on disconnecting. On clock
 * virtual it is nic_now_ns(). On clocks raw and real, the time in which processes of this host or
 * the fabric had no core is subtracted. Then the clock may go back a little, because part of the
 * subtracted time is an estimate (emu_hostif_nic_starved()).
 */
static inline uint64_t nic_disconnect_now_ns(const struct fabemu *fab)
{
    uint64_t now_ns = nic_now_ns(fab);

    return fab->simulated ? now_ns : now_ns - emu_hostif_nic_starved(&fab->hostif, now_ns);
}

/** nic_disconnect_since - return whether @limit_ns have passed since @began_ns of this clock. */
static inline bool nic_disconnect_since(const struct fabemu *fab, uint64_t began_ns,
                                        uint64_t limit_ns)
{
    uint64_t now_ns = nic_disconnect_now_ns(fab);

    return now_ns >= began_ns && now_ns - began_ns >= limit_ns;
}

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
