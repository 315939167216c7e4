/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meet.h - two processes meet: hellos that come, hellos of ours that nobody answers, epochs.
 *
 * Owner: a peer's `life`, `open`, `epoch`, the checks. Lock: held. Callers: receive.c, and the step
 * for hellos.
 */
#ifndef NIC_MEET_H
#define NIC_MEET_H

#include "nic/host/base/peer.h"

/**
 * nic_peer_connect_again - repeat hellos that were not answered. A peer that does not answer within
 * the limit is unreachable.
 */
void nic_peer_connect_again(struct fabemu *fab);
/** nic_peer_hello - a hello came from the node of @peer. */
void nic_peer_hello(struct fabemu *fab, struct nic_peer *peer, const struct nic_wire_hello *hello);
/** nic_peer_opened - the process there knows us. */
void nic_peer_opened(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_parted - the fabric says that no way leads to its node: all that is with it ends. */
void nic_peer_parted(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_given_up - the network gave @seg up, a segment of ours to @peer. */
void nic_peer_given_up(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

/* What the fabric says of a segment that was lost, and that nobody sends again. */
struct nic_loss {
    struct nic_peer *from, *to;  /* one of which may be this process */
    uint64_t from_seat, to_seat; /* of the processes that it was between; 0: not known */
    uint64_t at_ns;              /* it was some time before that */
    const char *why;             /* one line */
};

/** nic_peer_lost - it has said so. */
void nic_peer_lost(struct fabemu *fab, const struct nic_loss *loss);

#endif
