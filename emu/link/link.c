/* SPDX-License-Identifier: BSD-3-Clause */
/* link.c - connect cables, and run the slow paths of link.h. */
#include "emu/link/link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "emu/dev/outbox.h"

static void link_ends(struct emu_tx *tx, struct emu_dev *from, uint8_t from_port, struct emu_rx *rx,
                      struct emu_dev *to, uint8_t to_port, const struct emu_profile *profile)
{
    tx->kind = EMU_LINK_LOCAL;
    tx->owner = from;
    tx->remote = to->worker;
    tx->peer = (struct emu_peer){.index = to->index, .port = to_port};
    tx->profile = profile;
    rx->kind = EMU_LINK_LOCAL;
    rx->tx = tx;
    rx->owner = to;
    rx->port = to_port;
    rx->remote = from->worker;
    rx->peer = (struct emu_peer){.index = from->index, .port = from_port};
}

int emu_link_join(struct emu_tx *tx, struct emu_dev *from, uint8_t from_port, struct emu_rx *rx,
                  struct emu_dev *to, uint8_t to_port, uint32_t credits,
                  const struct emu_profile *profile)
{
    if (!emu_ring_create(&tx->data, &rx->data, credits))
        return -ENOMEM;
    if (!emu_credit_create(&rx->credit, &tx->credit, credits)) {
        emu_ring_destroy(&tx->data);
        return -ENOMEM;
    }
    link_ends(tx, from, from_port, rx, to, to_port, profile);
    tx->credits = credits;
    return 0;
}

int emu_link_join_fused(struct emu_tx *tx, struct emu_dev *from, uint8_t from_port,
                        struct emu_rx *rx, struct emu_dev *to, uint8_t to_port, uint32_t credits,
                        const struct emu_profile *profile)
{
    assert(from->timed && from->worker == to->worker);
    if (!emu_ring_create(&tx->data, &rx->data, credits))
        return -ENOMEM;
    for (rx->credit.at = 0; rx->credit.at < credits; rx->credit.at++)
        emu_ring_grant(&rx->data, rx->credit.at, 0);
    link_ends(tx, from, from_port, rx, to, to_port, profile);
    tx->fused = rx->fused = true;
    return 0;
}

int emu_link_unfuse(struct emu_rx *rx)
{
    struct emu_tx *tx = rx->tx;
    struct emu_credit_end back, owed;

    if (!rx->fused)
        return 0;
    if (!emu_credit_create(&owed, &back, tx->data.mask + 1))
        return -ENOMEM;
    for (uint32_t at = tx->data.at; at != rx->credit.at; at++) {
        struct emu_entry *slot = &tx->data.slot[at & tx->data.mask];

        emu_credit_put(&owed, 1, 0, slot->stamp - 1);
        slot->stamp = 0;
    }
    tx->credit = back;
    /* take a credit, because the next departure may already be planned: emu_tx_earliest_ps() */
    emu_tx_next_credit(tx);
    rx->credit = owed;
    tx->fused = rx->fused = false;
    return 0;
}

int emu_link_cross_worker(struct emu_tx *tx, struct emu_rx *rx)
{
    int err = emu_outbox_join(tx->remote, rx->remote);

    if (err)
        return err == -ENOTSUP ? 0 : err;
    tx->cross_worker = rx->cross_worker = true;
    tx->peer.number = (uint16_t)tx->remote->index;
    rx->peer.number = (uint16_t)rx->remote->index;
    return 0;
}

void emu_link_unjoin(struct emu_tx *tx)
{
    if (tx->kind != EMU_LINK_LOCAL)
        return;
    emu_ring_destroy(&tx->data);
    if (!tx->fused)
        emu_credit_destroy(&tx->credit);
    tx->kind = EMU_LINK_NONE;
    tx->cross_worker = tx->fused = false;
}

int emu_link_hostif(struct emu_tx *tx, struct emu_rx *rx, struct emu_dev *dev, uint8_t port,
                    uint32_t credits, const struct emu_profile *profile)
{
    rx->credits = calloc(1, sizeof *rx->credits);
    if (!rx->credits)
        return -ENOMEM;
    emu_credits_add(rx->credits, credits, 0);
    tx->kind = EMU_LINK_HOSTIF;
    tx->owner = dev;
    tx->profile = profile;
    rx->kind = EMU_LINK_HOSTIF;
    rx->owner = dev;
    rx->port = port;
    return 0;
}

void emu_link_free_hostif(struct emu_rx *rx)
{
    if (rx->kind == EMU_LINK_HOSTIF)
        free(rx->credits);
    rx->kind = EMU_LINK_NONE;
}

void emu_slow_set(struct emu_slow *slow, const struct emu_profile *own, uint32_t factor)
{
    slow->own = own;
    slow->profile = *own;
    slow->profile.link_ps_per_byte = (own->link_ps_per_byte * factor + 999) / 1000;
}

void emu_tx_slow(struct emu_tx *tx, struct emu_slow *slow, uint32_t factor)
{
    assert(tx->owner->timed); /* clock raw has no time per byte */
    emu_slow_set(slow, slow->own ? slow->own : tx->profile, factor);
    tx->slow = factor != 1000;
    tx->profile = tx->slow ? &slow->profile : slow->own;
}

void emu_tx_stick(struct emu_tx *tx, bool stuck, uint64_t at_ps)
{
    if (!stuck) {
        tx->busy_ps = tx->credit_ps > at_ps ? tx->credit_ps : at_ps;
        return;
    }
    /* while busy_ps is EMU_NEVER, credit_ps keeps the time until which the wire is busy */
    if (tx->credit_ps < tx->busy_ps)
        tx->credit_ps = tx->busy_ps;
    tx->busy_ps = EMU_NEVER;
}

uint64_t emu_tx_late_ps(const struct emu_tx *tx, uint64_t bytes)
{
    const struct emu_slow *slow = (const struct emu_slow *)tx->profile;

    return (slow->profile.link_ps_per_byte - slow->own->link_ps_per_byte) * bytes;
}

/* Send a segment through the outbox or, if that is full, by the ring and a signal. */
static void send_cross_worker(struct emu_tx *tx, const struct emu_entry *entry)
{
    tx->credits--;
    if (emu_outbox_entry(tx->owner->worker, &tx->peer, emu_ring_slot(&tx->data), entry)) {
        emu_ring_next(&tx->data);
        return;
    }
    emu_ring_put(&tx->data, entry);
    emu_tx_notify(tx, tx->owner->worker);
}

void emu_rx_pay_cross_worker(struct emu_rx *rx, uint32_t count, uint32_t channel,
                             uint64_t arrive_ps)
{
    struct emu_credit credit = {.time_ps = arrive_ps, .count = count, .channel = channel};

    emu_rx_note(rx, count, channel, arrive_ps);
    emu_dev_expect(rx->owner, arrive_ps);
    if (emu_outbox_credit(rx->owner->worker, &rx->peer, emu_credit_slot(&rx->credit), &credit)) {
        emu_credit_next(&rx->credit);
        return;
    }
    emu_credit_put(&rx->credit, count, channel, arrive_ps);
    emu_rx_notify(rx, rx->owner->worker);
}

void emu_tx_send_else(struct emu_tx *tx, const struct emu_entry *entry)
{
    if (tx->tapped)
        emu_tap_sent(tx, entry);
    if (tx->cross_worker) {
        send_cross_worker(tx, entry);
    } else if (tx->kind == EMU_LINK_LOCAL) {
        emu_ring_put(&tx->data, entry); /* each credit has a slot */
        tx->credits -= !tx->fused;
    } else if (tx->plug.plugged) {
        emu_hostif_send(tx->plug.plugged, entry);
    } else {
        emu_tx_drop(tx, entry);
    }
}

void emu_tx_depart_else(struct emu_tx *tx, const struct emu_entry *entry, uint64_t depart_ps)
{
    const struct emu_profile *profile = tx->profile;
    uint64_t wire_ps = emu_wire_ps(profile, &entry->hdr);
    struct emu_entry sent = *entry;

    tx->busy_ps = depart_ps + wire_ps;
    sent.time_ps =
        depart_ps + profile->channel_ps +
        (tx->kind == EMU_LINK_HOSTIF ? wire_ps + profile->nic_recv_ps : profile->switch_ps);
    if (tx->slow && tx->kind == EMU_LINK_LOCAL)
        sent.time_ps += emu_tx_late_ps(tx, EMU_HDR_BYTES + entry->hdr.len);
    emu_dev_expect(tx->owner, sent.time_ps);
    emu_tx_send(tx, &sent);
}

void emu_rx_pay_else(struct emu_rx *rx, struct emu_dev *dev, uint32_t owed, uint64_t arrive_ps)
{
    if (rx->cross_worker) {
        emu_rx_pay_cross_worker(rx, owed, 0, arrive_ps);
        return;
    }
    emu_rx_note(rx, owed, 0, arrive_ps);
    if (rx->fused) {
        emu_rx_pay_fused(rx, dev, owed, arrive_ps);
    } else if (rx->kind == EMU_LINK_LOCAL) {
        emu_rx_pay_local(rx, dev, owed, arrive_ps);
    } else {
        emu_credits_add(rx->credits, owed, arrive_ps);
        emu_dev_signal(dev, dev->worker, EMU_EVENT_DATA, emu_port_signal(rx->port));
    }
}

uint64_t emu_link_credits(const struct emu_rx *rx)
{
    if (rx->fused)
        return rx->credit.at - rx->tx->data.at; /* the credits granted minus the credits spent */
    return (uint64_t)rx->tx->credits + emu_credit_sum(&rx->credit, &rx->tx->credit);
}

const char *emu_link_check(const struct emu_rx *rx, uint32_t held, uint32_t credits)
{
    uint32_t flying = rx->tx->data.at - rx->data.at;
    uint64_t sum = emu_link_credits(rx) + flying + held + rx->owed;

    /* if the cable leads to another host, the credits are checked there */
    if (sum != credits && !rx->beyond)
        return emu_credits_wrong(sum, credits);
    return emu_link_check_segments(rx);
}

const char *emu_link_check_segments(const struct emu_rx *rx)
{
    const struct emu_tx *tx = rx->tx;
    uint64_t sent = emu_count_read(&tx->counts.segments) + tx->unnotified;

    if (sent == emu_count_read(&rx->counts.segments) + (tx->data.at - rx->data.at))
        return NULL;
    return "segments were lost or duplicated on the cable to here";
}

const char *emu_hostif_check(const struct emu_rx *rx, uint32_t held, uint32_t credits)
{
    uint64_t sum = (uint64_t)rx->credits->count + held + rx->owed;

    return sum == credits ? NULL : emu_credits_wrong(sum, credits);
}

void emu_tx_drop(struct emu_tx *tx, const struct emu_entry *entry)
{
    emu_count(&tx->counts.dropped, 1);
    emu_pool_drop(&tx->owner->worker->cache, entry->buf);
}

uint32_t emu_link_bufs(const struct emu_rx *rx)
{
    const struct emu_ring_end *data;
    uint32_t bufs = 0;

    if (rx->kind != EMU_LINK_LOCAL)
        return 0;
    data = &rx->tx->data;
    for (uint32_t at = rx->data.at; at != data->at; at++)
        bufs += data->slot[at & data->mask].buf != EMU_NO_BUF;
    return bufs;
}

bool emu_link_holds(const struct emu_rx *rx, uint32_t id)
{
    const struct emu_ring_end *data;

    if (rx->kind != EMU_LINK_LOCAL)
        return false;
    data = &rx->tx->data;
    for (uint32_t at = rx->data.at; at != data->at; at++)
        if (emu_hdr_is_of(&data->slot[at & data->mask].hdr, id))
            return true;
    return false;
}

void emu_tx_rebase(struct emu_tx *tx, uint64_t by_ps)
{
    tx->busy_ps = emu_rebased_ps(tx->busy_ps, by_ps);
    tx->credit_ps = emu_rebased_ps(tx->credit_ps, by_ps);
}

/* Subtract @by_ps from the times of segments, and of the credits in empty slots. */
static void rebase_fused(struct emu_ring_end *end, uint64_t by_ps)
{
    for (uint32_t i = 0; i <= end->mask; i++) {
        struct emu_entry *slot = &end->slot[i];

        if (slot->full)
            slot->time_ps = emu_rebased_ps(slot->time_ps, by_ps);
        else if (slot->stamp)
            emu_ring_grant(end, i, emu_rebased_ps(slot->stamp - 1, by_ps));
    }
}

void emu_rx_rebase(struct emu_rx *rx, uint64_t by_ps)
{
    if (rx->kind == EMU_LINK_HOSTIF) {
        for (uint32_t i = 0; i < EMU_XPOINT_MAX; i++)
            rx->credits->at_ps[i] = emu_rebased_ps(rx->credits->at_ps[i], by_ps);
        return;
    }
    if (rx->kind != EMU_LINK_LOCAL)
        return;
    if (rx->fused) {
        rebase_fused(&rx->data, by_ps);
        return;
    }
    emu_ring_rebase(&rx->data, by_ps);
    emu_credit_rebase(&rx->credit, by_ps);
}
