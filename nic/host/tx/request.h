/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.h - the queue of requests to each peer. Requests are numbered per peer, in the order in
 * which they were posted, and sent within the peer's window. Lock: held (base/lock.h).
 */
#ifndef NIC_REQUEST_H
#define NIC_REQUEST_H

#include "nic/host/base/op.h"
#include "nic/host/base/peer.h"

struct nic_send {
    struct nic_op op;
    struct nic_watched watched;
    uint64_t tag, data;
    uint16_t dst_queue, src_queue, mark;
    bool delivered; /* the send is complete only when the message is in the receiver's memory */
    bool matched;   /* the send is complete only when a receive has received the message */
    /* report the loss of the message to the owner of the queue even after the send has completed */
    bool reports_loss;
} __attribute__((may_alias));
NIC_OP_KIND(nic_send_of, struct nic_send, op);
static_assert(offsetof(struct nic_send, watched) == sizeof(struct nic_op), "nic_op_report()");

struct nic_access {
    struct nic_op op;
    uint64_t key, offset; /* the place in the peer's memory */
} __attribute__((may_alias));
NIC_OP_KIND(nic_access_of, struct nic_access, op);

struct nic_put {
    struct nic_access access;
    bool has_notice;
    struct fabemu_notice notice;
} __attribute__((may_alias));
NIC_OP_KIND(nic_put_of, struct nic_put, access.op);

struct nic_atomic_access {
    struct nic_access access;
    const void *operand, *compare; /* arrays of op.bytes each; NULL: the operation has none */
    uint64_t copy[2];              /* fabemu_atomic(): `operand` and `compare` point here */
    uint8_t what;                  /* enum fabemu_atomic_op */
    uint8_t type;                  /* enum fabemu_type */
} __attribute__((may_alias));
NIC_OP_KIND(nic_atomic_of, struct nic_atomic_access, access.op);

struct nic_batch_access {
    struct nic_access access; /* its `offset` is reused: bytes of the result; 0: no result */
    void *result;
    /* with fabemu_atomic_array(), the batch begins with these two */
    struct fabemu_record record;
    struct fabemu_stride stride;
} __attribute__((may_alias));
NIC_OP_KIND(nic_batch_of, struct nic_batch_access, access.op);

/**
 * nic_request - queue a request, and send as many of its segments as possible if the peer is open.
 * Higher layers call nic_peer_request() (peer/failure.h) instead.
 */
void nic_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op);
/**
 * nic_request_now - send a message of one segment without queueing it. Returns false if the queue
 * is not empty, the window is full, the peer is not open, or the ring has no space.
 */
bool nic_request_now(struct fabemu *fab, struct nic_peer *peer, struct nic_send *send);
/**
 * nic_sends_end - end the sends from queue @src with @status, except one whose segments are being
 * sent. A receiver that has asked for the data is notified.
 */
void nic_sends_end(struct fabemu *fab, uint16_t src, int status);
/**
 * nic_requests_send - send a burst to each peer with queued requests. Returns the number of
 * segments sent.
 */
uint32_t nic_requests_send(struct fabemu *fab);

#endif
