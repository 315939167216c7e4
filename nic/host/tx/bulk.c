/* SPDX-License-Identifier: BSD-3-Clause */
/* bulk.c - send the data of transfers that receivers have accepted, round robin in short bursts */
#include "nic/host/tx/bulk.h"

#include <errno.h>
#include <string.h>

#include "nic/host/base/peer.h"
#include "nic/host/base/trap.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/up.h"

#define NIC_BULK_BURST 32u /* segments per transfer and burst */

void nic_stream(struct fabemu *fab, struct nic_op *op)
{
    assert(op->state == NIC_OP_WAITING);
    if (op->kind != NIC_OP_SEND) /* a send was counted with its first segment */
        nic_peer_sent(fab, nic_peer(fab, op->node), op->bytes);
    emu_list_del(&op->post.link);
    op->state = NIC_OP_STREAM;
    emu_list_add(&fab->bulk, &op->post.link);
}

/* Without an id the operation is complete now. Otherwise the receiver sends a FIN for the id. */
void nic_send_end(struct fabemu *fab, struct nic_op *op)
{
    if (!op->id) {
        nic_op_end(fab, op, 0);
        return;
    }
    emu_list_del(&op->post.link);
    op->state = NIC_OP_WAITING;
}

static void stream_end(struct fabemu *fab, struct nic_op *op)
{
    emu_hostif_nic_streamed(&fab->hostif);
    if (!nic_op_traits(op)->serves) {
        nic_send_end(fab, op);
        return;
    }
    /* a served get ends here: the peer counts the bytes that arrive, and needs no FIN */
    if (nic_serve_of(op)->sent)
        nic_serve_of(op)->sent(fab, nic_serve_of(op));
    nic_op_end(fab, op, 0);
}

static struct nic_wire_data stream_data(struct fabemu *fab, const struct nic_op *op)
{
    return (struct nic_wire_data){.what = NIC_DATA,
                                  .check = (uint16_t)nic_peer(fab, op->node)->tx_check,
                                  .id = op->remote};
}

/* Return the header of the next piece of @op, which has @len bytes. @hdr: from nic_hdr(). */
static inline struct emu_hdr_words piece_hdr(struct emu_hdr_words hdr, const struct nic_op *op,
                                             uint8_t len)
{
    hdr.fields |= emu_hdr_fields(0, len, 0, 0) | (uint32_t)(op->moved / NIC_DATA_BYTES);
    return hdr;
}

static uint32_t stream_send(struct fabemu *fab, struct nic_op *op)
{
    const struct nic_wire_data data = stream_data(fab, op);
    struct emu_hdr_words hdr;
    uint32_t sent = 0;

    if (op->bytes - op->moved >= (uint64_t)EMU_STREAM_SEGS * NIC_DATA_BYTES)
        emu_hostif_nic_stream(&fab->hostif);
    hdr = nic_hdr(fab, op->node);
    while (sent < NIC_BULK_BURST && op->moved < op->bytes && nic_bulk_room(fab)) {
        struct emu_seg *seg = nic_claim_to(fab, op->node);
        uint64_t left = op->bytes - op->moved;
        uint64_t n = left < NIC_DATA_BYTES ? left : NIC_DATA_BYTES;

        if (!seg)
            break;
        emu_hdr_store(&seg->hdr, piece_hdr(hdr, op, (uint8_t)(sizeof data + n)));
        memcpy(seg->payload, &data, sizeof data);
        if (op->iovs == 1)
            emu_copy(seg->payload + sizeof data, (const uint8_t *)op->iov[0].base + op->moved, n);
        else
            nic_op_read(op, seg->payload + sizeof data, n);
        op->moved += n;
        sent++;
    }
    return sent;
}

/* Return whether memory of the next burst of a served get is not mapped. Then the get has ended. */
static bool stream_traps(struct fabemu *fab, struct nic_op *op)
{
    uint64_t left = op->bytes - op->moved, burst = (uint64_t)NIC_BULK_BURST * NIC_DATA_BYTES;
    uint32_t remote = op->remote;

    if (!nic_trap_ends(fab, op, op->moved, left < burst ? left : burst))
        return false;
    nic_fin(fab, nic_peer(fab, op->node), remote, -EFAULT);
    return true;
}

uint32_t nic_bulk_send(struct fabemu *fab)
{
    uint32_t sent = 0;

    for (uint32_t n = 1; n && sent < EMU_HOSTIF_SLOTS && !emu_list_empty(&fab->bulk); sent += n) {
        struct nic_op *op = emu_list_entry(fab->bulk.next, struct nic_op, post.link);

        if (op->traps && stream_traps(fab, op))
            continue;
        n = stream_send(fab, op);
        /* the fabric forwards these segments while we write the next burst */
        emu_hostif_nic_publish(&fab->hostif);
        if (op->moved == op->bytes) {
            stream_end(fab, op);
        } else {
            emu_list_del(&op->post.link);
            emu_list_add(&fab->bulk, &op->post.link);
        }
    }
    return sent;
}
