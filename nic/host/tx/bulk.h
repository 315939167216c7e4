/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk.h - bulk data: transfers that the other side waits for, in short bursts in turn.
 *
 * Owner: the list of transfers that stream (`bulk`). Lock: held. Callers: who has a CTS or a get;
 * the step.
 */
#ifndef NIC_BULK_H
#define NIC_BULK_H

#include "nic/host/base/op.h"

/** nic_stream - let @op send DATA to the peer's transfer op->remote. */
void nic_stream(struct fabemu *fab, struct nic_op *op);
/**
 * nic_send_end - all of a message or put is sent: complete, unless the receiver is to say that it
 * has it all.
 */
void nic_send_end(struct fabemu *fab, struct nic_op *op);
/**
 * nic_bulk_awaits_word - is @op a send whose data is all out, and which its receiver's word that it
 * has all of it ends? Pure.
 */
static inline bool nic_bulk_awaits_word(const struct nic_op *op)
{
    return op->kind == NIC_OP_SEND && op->state == NIC_OP_WAITING && op->moved &&
           op->moved == op->bytes;
}

/** nic_bulk_send - a burst of each. Returns segments. */
uint32_t nic_bulk_send(struct fabemu *fab);

#endif
