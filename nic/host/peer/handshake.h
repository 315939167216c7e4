/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.h - handshake of two processes: send, repeat and receive hellos. The pair's *epoch*
 * changes when the network has dropped one of its segments for good. Lock: held.
 */
#ifndef NIC_HANDSHAKE_H
#define NIC_HANDSHAKE_H

#include "nic/host/base/peer.h"

/**
 * nic_peer_connect_again - repeat unanswered hellos. If a peer does not answer within the bound,
 * end the operations with it.
 */
void nic_peer_connect_again(struct fabemu *fab);
/** nic_peer_hello - handle a hello that arrived from the node of @peer. */
void nic_peer_hello(struct fabemu *fab, struct nic_peer *peer, const struct nic_wire_hello *hello);
/**
 * nic_peer_opened - note that the peer's process knows us: from now on requests may be sent to it.
 */
void nic_peer_opened(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_partitioned - end all operations with the node, because no route leads there. */
void nic_peer_partitioned(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_given_up - handle the report that the network dropped our segment @seg to @peer. */
void nic_peer_given_up(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg);

/* A segment that was dropped for good, as the fabric reports it. */
struct nic_drop {
    struct nic_peer *from, *to; /* sender and receiver; one of them may be this process */
    /* incarnations of the sender and the receiver; 0: unknown */
    uint64_t from_incarnation, to_incarnation;
    uint64_t at_ns;  /* the segment was sent before this time */
    const char *why; /* one line that names the cause */
};

/** nic_peer_dropped - handle the fabric's report of the drop @loss. */
void nic_peer_dropped(struct fabemu *fab, const struct nic_drop *loss);

/* Interval between the first two hellos; it doubles until it reaches NIC_HELLO_LAST_NS. */
#define NIC_HELLO_FIRST_NS 1000000u
#define NIC_HELLO_LAST_NS  50000000u

/** nic_peer_send_hello - send a hello. @want: whether the peer must answer it. */
void nic_peer_send_hello(struct fabemu *fab, struct nic_peer *peer, bool want);
/** nic_peer_connect - start a handshake with the node's process, or check that it still answers. */
void nic_peer_connect(struct fabemu *fab, struct nic_peer *peer);
/**
 * nic_peer_unknown - send a hello as the answer to a segment that has a wrong check, within the
 * rate limit.
 */
void nic_peer_unknown(struct fabemu *fab, struct nic_peer *peer);
/**
 * nic_peer_probe - send a hello to check that the node can be reached. Needs acknowledgments, with
 * which the network reports that a node cannot be reached.
 */
void nic_peer_probe(struct fabemu *fab, struct nic_peer *peer);

#endif
