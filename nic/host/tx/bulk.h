/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk.h - send the data of transfers that the receivers have accepted, round robin in short
 * bursts. Lock: held.
 */
#ifndef NIC_BULK_H
#define NIC_BULK_H

#include "nic/host/tx/request.h"

/**
 * nic_stream - start to send the bytes of @op in NIC_DATA segments. op->remote is the peer's id of
 * the transfer.
 */
void nic_stream(struct fabemu *fab, struct nic_op *op);
/** nic_send_end - complete a message or put whose segments are sent, or let it await its FIN. */
void nic_send_end(struct fabemu *fab, struct nic_op *op);
/**
 * nic_bulk_awaits_fin - return whether @op is a send that only awaits the receiver's FIN. Pure. An
 * empty message that was announced by an RTS does not count: it completes with the CTS.
 */
static inline bool nic_bulk_awaits_fin(const struct nic_op *op)
{
    return op->kind == NIC_OP_SEND && op->state == NIC_OP_WAITING && op->moved == op->bytes &&
           (op->bytes || !nic_send_of((struct nic_op *)op)->matched);
}

/** nic_bulk_send - send a burst of each transfer. Returns the number of segments sent. */
uint32_t nic_bulk_send(struct fabemu *fab);

#endif
