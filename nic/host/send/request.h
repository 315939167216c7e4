/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.h - requests: numbered by peer, in post order, within the peer's window.
 *
 * Owner: peers' queues (`sendq`), the list of peers that have some (`ready`). Lock: held. Callers: what an
 * operation begins with; the step.
 */
#ifndef NIC_REQUEST_H
#define NIC_REQUEST_H

#include "nic/host/op/op.h"
#include "nic/host/peer/peer.h"

/** nic_request - queue a request and send what can be sent at once. */
void nic_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);
/** nic_request_now - send the first segment of a small message past the queue; false: it must wait. */
bool nic_request_now(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);
/** nic_requests_send - a burst of each peer that has some. Returns segments. */
uint32_t nic_requests_send(struct fabemu *fab);

#endif
