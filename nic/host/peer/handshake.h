/* SPDX-License-Identifier: BSD-3-Clause */
/* handshake.h - handshake: send, repeat and receive hellos; epochs. Lock: held. */
#ifndef NIC_HANDSHAKE_H
#define NIC_HANDSHAKE_H

#include "nic/host/base/peer.h"

/**
 * nic_peer_connect_again - repeat unanswered hellos. A peer that does not answer within the bound
 * is unreachable.
 */
void nic_peer_connect_again(struct fabemu *fab);
/** nic_peer_hello - a hello arrived from the node of @peer. */
void nic_peer_hello(struct fabemu *fab, struct nic_peer *peer, const struct nic_wire_hello *hello);
/** nic_peer_opened - the process there knows us. */
void nic_peer_opened(struct fabemu *fab, struct nic_peer *peer);
/**
 * nic_peer_partitioned - the fabric reports that no route leads to the node: end all operations
 * with it.
 */
void nic_peer_partitioned(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_given_up - the network dropped @seg, a segment of ours to @peer, for good. */
void nic_peer_given_up(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

/* A segment that was dropped for good, as reported by the fabric. */
struct nic_drop {
    struct nic_peer *from, *to; /* one of them may be this process */
    /* the incarnations that it was between; 0: unknown */
    uint64_t from_incarnation, to_incarnation;
    uint64_t at_ns;  /* the segment was sent before this time */
    const char *why; /* one line */
};

/** nic_peer_dropped - the fabric reports such a drop. */
void nic_peer_dropped(struct fabemu *fab, const struct nic_drop *loss);

/* Interval between the first two hellos; it doubles up to the second value. */
#define NIC_HELLO_FIRST_NS 1000000u
#define NIC_HELLO_LAST_NS  50000000u

/** nic_peer_send_hello - send a hello. @want: ask for an answer. */
void nic_peer_send_hello(struct fabemu *fab, struct nic_peer *peer, bool want);
/**
 * nic_peer_connect - start a handshake with the process at the node, or check that it still
 * answers.
 */
void nic_peer_connect(struct fabemu *fab, struct nic_peer *peer);
/**
 * nic_peer_unknown - a segment arrived from a process that does not know us, or that we do not
 * know.
 */
void nic_peer_unknown(struct fabemu *fab, struct nic_peer *peer);
/**
 * nic_peer_probe - check that the node can be reached. With acknowledgments the network reports if
 * not.
 */
void nic_peer_probe(struct fabemu *fab, struct nic_peer *peer);

#endif
