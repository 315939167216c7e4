/* SPDX-License-Identifier: BSD-3-Clause */
/* answer.c - send short answers to peers; queued answers are sent before all other segments */
#include "nic/host/tx/answer.h"

#include <stdlib.h>
#include <string.h>

#include "nic/host/tx/up.h"

static bool answer_now(struct fabemu *fab, uint32_t dst, const void *payload, uint8_t len)
{
    struct emu_seg *seg = nic_claim(fab, dst);

    if (!seg)
        return false;
    seg->hdr.len = len;
    emu_copy(seg->payload, payload, len);
    if (seg->payload[0] == NIC_HELLO && nic_reports_on(fab, dst))
        seg->hdr.kind |= EMU_NOTIFY; /* the report clears peer->hello_pending */
    return true;
}

/*
 * Return whether this answer may be dropped if many are waiting. Hellos, acknowledgments and
 * disconnects may be dropped, because they are repeated. Peers wait for all other answers; the
 * number of these is limited, because each belongs to a request.
 */
static bool answer_may_drop(const uint8_t *payload)
{
    return payload[0] == NIC_HELLO || payload[0] == NIC_ACK || payload[0] == NIC_DISCONNECT;
}

bool nic_answer(struct fabemu *fab, struct nic_peer *peer, void *payload, size_t bytes)
{
    bool may_drop = answer_may_drop(payload);
    struct nic_ctl *ctl;

    if (emu_list_empty(&fab->ctls) && answer_now(fab, peer->node, payload, (uint8_t)bytes))
        return true;
    if (may_drop && fab->ctl_count >= NIC_CTL_MAX) {
        fab->counts.refused++;
        return false;
    }
    if (!emu_list_empty(&fab->ctl_free)) {
        ctl = emu_list_entry(fab->ctl_free.next, struct nic_ctl, link);
        emu_list_del(&ctl->link);
    } else {
        ctl = calloc(1, sizeof *ctl);
        if (!ctl) {
            fab->counts.refused++;
            return false;
        }
    }
    ctl->dst = peer->node;
    ctl->len = (uint8_t)bytes;
    memcpy(ctl->payload, payload, bytes);
    emu_list_add(&fab->ctls, &ctl->link);
    fab->ctl_count += may_drop;
    return true;
}

uint32_t nic_answers_send(struct fabemu *fab)
{
    uint32_t sent = 0;

    while (!emu_list_empty(&fab->ctls)) {
        struct nic_ctl *ctl = emu_list_entry(fab->ctls.next, struct nic_ctl, link);

        if (!answer_now(fab, ctl->dst, ctl->payload, ctl->len))
            break;
        emu_list_del(&ctl->link);
        emu_list_add(&fab->ctl_free, &ctl->link);
        fab->ctl_count -= answer_may_drop(ctl->payload);
        sent++;
    }
    return sent;
}

/* --- kinds of answers --------------------------------------------------------------- */

void nic_fin(struct fabemu *fab, struct nic_peer *peer, uint32_t id, int status)
{
    struct nic_wire_fin fin = {.head = nic_head(peer, NIC_FIN, 0), .id = id, .status = status};

    nic_answer(fab, peer, &fin, sizeof fin);
}

void nic_cts(struct fabemu *fab, struct nic_peer *peer, uint32_t id, uint32_t to, uint64_t bytes)
{
    struct nic_wire_cts cts = {.head = nic_head(peer, NIC_CTS, 0),
                               .id = id,
                               .to = to,
                               .bytes = bytes};

    nic_answer(fab, peer, &cts, sizeof cts);
}

void nic_ack(struct fabemu *fab, struct nic_peer *peer)
{
    uint32_t acked = peer->rx_acked, consumed_acked = peer->rx_consumed_acked;
    struct nic_wire_head head = nic_head(peer, NIC_ACK, 0);

    if (nic_answer(fab, peer, &head, sizeof head))
        return;
    peer->rx_acked = acked;
    peer->rx_consumed_acked = consumed_acked;
}

void nic_peer_ack_if_due(struct fabemu *fab, struct nic_peer *peer)
{
    if (peer->rx_next - peer->rx_acked >= NIC_ORDER_WINDOW / 4 ||
        peer->rx_consumed - peer->rx_consumed_acked >= NIC_EAGER_WINDOW / 4)
        nic_ack(fab, peer);
}

void nic_peer_consumed(struct fabemu *fab, struct nic_peer *peer, uint32_t check, uint64_t bytes)
{
    if (bytes <= NIC_INLINE_BYTES || !nic_peer_check_is_current(peer, check))
        return;
    peer->rx_consumed += (uint32_t)bytes;
    nic_peer_ack_if_due(fab, peer);
}
