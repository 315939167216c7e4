/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c - plugging cables; what runs per segment is inline in link.h.
 */
#include "emu/link.h"

#include <errno.h>

int emu_link_join(struct emu_tx *tx, struct emu_dev *from, uint8_t from_port, struct emu_rx *rx,
                  struct emu_dev *to, uint8_t to_port, uint32_t credits,
                  const struct emu_profile *profile)
{
    struct emu_ring *data = emu_ring_create(credits);
    struct emu_ring *credit = emu_ring_create(credits);

    if (!data || !credit) {
        emu_ring_destroy(data);
        emu_ring_destroy(credit);
        return -ENOMEM;
    }
    tx->kind = EMU_LINK_LOCAL;
    tx->owner = from;
    tx->peer = to;
    tx->peer_port = to_port;
    tx->data = data;
    tx->credit = credit;
    tx->credits = credits;
    tx->profile = profile;
    rx->kind = EMU_LINK_LOCAL;
    rx->tx = tx;
    rx->owner = to;
    rx->port = to_port;
    rx->peer = from;
    rx->peer_port = from_port;
    rx->data = data;
    rx->credit = credit;
    return 0;
}

void emu_link_unjoin(struct emu_tx *tx)
{
    if (tx->kind != EMU_LINK_LOCAL)
        return;
    emu_ring_destroy(tx->data);
    emu_ring_destroy(tx->credit);
    tx->kind = EMU_LINK_NONE;
}

void emu_link_edge(struct emu_tx *tx, struct emu_rx *rx, struct emu_dev *dev, uint8_t port,
                   uint32_t credits, const struct emu_profile *profile)
{
    tx->kind = EMU_LINK_EDGE;
    tx->owner = dev;
    tx->profile = profile;
    rx->kind = EMU_LINK_EDGE;
    emu_credits_add(&rx->credits, credits, 0);
    rx->owner = dev;
    rx->port = port;
}

void emu_tx_drop(struct emu_tx *tx, const struct emu_entry *entry)
{
    emu_count(&tx->counts.dropped, 1);
    emu_pool_drop(&tx->owner->worker->cache, entry->buf);
}
