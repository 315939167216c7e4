/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello.h - saying hello: asking the process at a node to meet us, or whether it is still there.
 *
 * Owner: the list of peers that we are connecting to (`connecting`), a peer's `hello_pending` and
 * times. Lock: held. Callers: who has something to send or waits for somebody.
 */
#ifndef NIC_HELLO_H
#define NIC_HELLO_H

#include "nic/host/base/peer.h"

#define NIC_HELLO_FIRST_NS 1000000u  /* from the first hello to the second; then twice as long, */
#define NIC_HELLO_LAST_NS  50000000u /* until so long */

/** nic_peer_say_hello - @want: it is to answer. */
void nic_peer_say_hello(struct fabemu *fab, struct nic_peer *peer, bool want);
/** nic_peer_connect - ask the process there to meet us. */
void nic_peer_connect(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_unknown - a segment of a process that does not know us, or that we do not know. */
void nic_peer_unknown(struct fabemu *fab, struct nic_peer *peer);
/** nic_peer_hello_delivered - the network has brought a hello of ours to the node of @peer. */
void nic_peer_hello_delivered(struct nic_peer *peer);
/** nic_peer_probe - can the node be reached? With acknowledgments the network tells if not. */
void nic_peer_probe(struct fabemu *fab, struct nic_peer *peer);

#endif
