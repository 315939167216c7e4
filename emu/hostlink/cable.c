/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cable.c - a cable to another host: what goes, what comes, and the accounts of both.
 *
 * In a life of the session, of each channel (0 where a cable has none): what our switch has sent
 * and was not paid for (unpaid), and what the far switch still has of an earlier life (old), are
 * together what the far device has given to its switch and was not paid for (open), and what is on
 * its way.
 */
#include "emu/hostlink/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/link/intake.h"
#include "emu/link/sane.h"

#define CABLE_AHEAD_PS UINT64_C(10000000000) /* 10 ms: no entry is that far ahead of its time */

/* --- joined, checked ---------------------------------------------------------------- */

static uint32_t cable_slots(uint32_t credits, bool channels)
{
    return channels ? 2 * EMU_VC_SLOTS : credits + EMU_INTAKE_FORGED;
}

/* There is room for as many more entries to wait. */
static int room_grow(struct hostlink_room *room, uint32_t more)
{
    uint8_t *record = realloc(room->record, (room->slots + more) * (size_t)EMU_HOSTLINK_ENTRY_MOST);

    if (!record)
        return -ENOMEM;
    room->record = record;
    room->slots += more;
    return 0;
}

int emu_hostlink_join(struct emu_hostlink *link, uint32_t peer, uint32_t number, struct emu_tx *tx,
                      struct emu_rx *rx, struct emu_dev *dev, uint8_t port, uint32_t credits,
                      const struct emu_profile *profile)
{
    struct hostlink_cable *cable = &link->peer[peer].cable[number];
    uint8_t bit = (uint8_t)(hostlink_number(cable->peer, number) % 64);
    bool channels = emu_profile_acknowledged(profile);
    uint32_t slots = cable_slots(credits, channels);
    int err = room_grow(&cable->peer->room, slots);

    if (!err)
        err = emu_link_join(tx, dev, port, &cable->ends.rx, &link->dev, bit, slots, profile);
    if (err)
        return err;
    err = emu_link_join(&cable->ends.tx, &link->dev, bit, rx, dev, port, slots, profile);
    if (err) {
        emu_link_unjoin(tx);
        return err;
    }
    if (!channels)
        tx->credits = cable->ends.tx.credits = credits;
    cable->slots = slots;
    cable->credits = credits;
    cable->channels = channels;
    cable->profile = profile;
    return 0;
}

const char *emu_hostlink_check(const struct emu_hostlink *link, uint32_t peer, uint32_t number)
{
    const struct hostlink_cable *cable = &link->peer[peer].cable[number];
    const struct emu_rx *rx = &cable->ends.rx;

    if (!cable->slots)
        return NULL;
    if (cable->channels)
        return emu_link_check_segments(rx);
    if ((int64_t)cable->ends.tx.credits + cable->open[0] != cable->credits)
        return "the credits of a cable from another host do not add up";
    return emu_link_check(rx, (uint32_t)cable->unpaid[0], cable->credits);
}

/* --- what goes ---------------------------------------------------------------------- */

/* Is it a segment, which a credit comes back for? On cables with channels replies are none. */
static bool cable_is_segment(const struct hostlink_cable *cable, const struct emu_hdr *hdr)
{
    return !cable->channels || hdr->kind == EMU_PACKET_HEAD || hdr->kind == EMU_PACKET_CONT;
}

static uint32_t cable_channel(const struct hostlink_cable *cable, const struct emu_entry *entry)
{
    return cable->channels ? entry->packet.channel % EMU_VCS : 0;
}

/* Would the far host's accounts allow one more? */
static bool cable_may_send(const struct hostlink_cable *cable)
{
    if (cable->channels)
        return cable->under_way < cable->slots;
    return cable->unpaid[0] + (int64_t)cable->old[0] < cable->credits;
}

/*
 * When the adapter posted a segment, as the clocks of both hosts have it: from the low bits of
 * one's fabric time to those of its monotonic clock, and from there to the other's. 0: it was not
 * said.
 */
static uint32_t cable_born_ns(const struct hostlink_cable *cable, uint32_t born_ns, uint64_t by_ns)
{
    return cable->peer->link->dev.timed && born_ns ? born_ns + (uint32_t)by_ns : born_ns;
}

/*
 * The entry as a record: the payload stays where it is. On cables with channels the adapter's own
 * header is payload, too: if it was damaged on its way here its length is not what it was, and the
 * far adapter is to find that, by the packet's checksum.
 */
static struct emu_hostlink_record cable_record(const struct hostlink_cable *cable,
                                               const struct emu_entry *entry)
{
    const struct emu_dev *dev = cable->ends.rx.owner;
    struct emu_pool *pool = dev->worker->cache.pool;
    uint64_t origin_ns = dev->worker->clock.origin_ns;
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_ENTRY, .cable = cable->number};
    const struct emu_seg *seg;

    record.entry.hdr = entry->hdr;
    record.entry.crc = cable->channels ? entry->crc
                                       : cable_born_ns(cable, entry->born_ns, origin_ns);
    if (dev->timed)
        record.at_ps = entry->time_ps + origin_ns * 1000u;
    if (entry->buf == EMU_NO_BUF)
        return record;
    seg = emu_pool_seg(pool, entry->buf);
    record.has_buf = true;
    record.payload = seg->payload;
    record.payload_bytes = entry->hdr.len;
    if (cable->channels) {
        record.own_hdr = (const uint8_t *)&seg->hdr;
        record.note = cable_born_ns(cable, *emu_pool_note(pool, entry->buf), origin_ns);
        record.payload_bytes = seg->hdr.len < EMU_PAYLOAD_BYTES ? seg->hdr.len : EMU_PAYLOAD_BYTES;
    }
    return record;
}

/* False: the session has no room. */
static bool cable_send_one(struct hostlink_cable *cable, const struct emu_entry *entry)
{
    struct emu_hostlink_record record = cable_record(cable, entry);

    if (!hostlink_put(cable->peer, &record))
        return false;
    emu_pool_drop(&cable->ends.rx.owner->worker->cache, entry->buf);
    if (cable_is_segment(cable, &entry->hdr) && cable->unpaid[cable_channel(cable, entry)]++ < 0)
        cable->forged--;
    cable->under_way += cable->channels;
    return true;
}

enum hostlink_turn hostlink_cable_send(struct hostlink_cable *cable, uint32_t *left)
{
    struct emu_rx *rx = &cable->ends.rx;
    enum hostlink_turn how = HOSTLINK_TURN_MORE;
    const struct emu_entry *entry;
    uint32_t moved = 0;

    for (; *left && how == HOSTLINK_TURN_MORE; (*left)--) {
        entry = cable_may_send(cable) ? emu_rx_front(rx, EMU_NEVER) : NULL;
        if (!entry) {
            how = HOSTLINK_TURN_NONE;
            break;
        }
        if (!cable_send_one(cable, entry)) {
            how = HOSTLINK_TURN_FULL;
            break;
        }
        emu_rx_skip(rx);
        moved++;
    }
    if (moved) {
        emu_rx_done(rx, moved);
        emu_count(&cable->peer->counts.entries_sent, moved);
        cable->peer->moved_ns = cable->peer->link->now_ns;
    }
    return how;
}

/* --- credits to our switch ---------------------------------------------------------- */

/* When a credit that is given back now is at the switch. */
static uint64_t cable_credit_ps(const struct hostlink_cable *cable)
{
    const struct emu_hostlink *link = cable->peer->link;

    return link->dev.timed ? link->until_ps + cable->profile->credit_ps : 0;
}

static void cable_pay_switch(struct hostlink_cable *cable, uint32_t channel, uint32_t count)
{
    struct emu_rx *rx = &cable->ends.rx;
    uint64_t at_ps = cable_credit_ps(cable);

    if (!count)
        return;
    if (cable->channels) {
        while (count--)
            emu_rx_pay_channel(rx, channel, at_ps);
    } else {
        rx->owed = count;
        emu_rx_pay(rx, at_ps);
    }
}

uint32_t hostlink_cable_sink(struct hostlink_cable *cable)
{
    struct emu_rx *rx = &cable->ends.rx;
    const struct emu_entry *entry;
    uint32_t moved = 0, segments = 0;

    while (moved < cable->slots && (entry = emu_rx_front(rx, EMU_NEVER))) {
        emu_pool_drop(&rx->owner->worker->cache, entry->buf);
        if (!cable->channels)
            segments++;
        else if (cable_is_segment(cable, &entry->hdr))
            cable_pay_switch(cable, cable_channel(cable, entry), 1);
        emu_rx_skip(rx);
        moved++;
    }
    if (moved) {
        emu_rx_done(rx, moved);
        emu_count(&cable->peer->counts.sunk, moved);
    }
    cable_pay_switch(cable, 0, segments);
    return moved;
}

/* Credits of a channel beyond those of what was sent: somebody forged them. */
static uint32_t cable_forged(int32_t unpaid)
{
    return unpaid < 0 ? (uint32_t)-unpaid : 0;
}

bool hostlink_cable_credit(struct hostlink_cable *cable, const struct emu_hostlink_record *record)
{
    uint32_t c = record->channel, count = record->count;
    uint32_t old = count < cable->old[c] ? count : cable->old[c];
    int64_t left = cable->unpaid[c] - (int64_t)(count - old);
    uint32_t forged = cable->forged - cable_forged(cable->unpaid[c]);

    if ((!cable->channels && c) || left < -(int64_t)(EMU_INTAKE_FORGED - forged))
        return false;
    count -= old;
    cable->old[c] -= old;
    cable->unpaid[c] = (int32_t)left;
    cable->forged = forged + cable_forged(cable->unpaid[c]);
    cable_pay_switch(cable, c, count);
    hostlink_stir(cable); /* it may have waited for the far end's room */
    return true;
}

bool hostlink_cable_taken(struct hostlink_cable *cable, uint32_t count)
{
    if (!cable->channels || count > cable->under_way)
        return false;
    cable->under_way -= count;
    hostlink_stir(cable);
    return true;
}

bool hostlink_cable_old(struct hostlink_cable *cable, const struct emu_hostlink_record *record)
{
    if (cable->old[record->channel] || (!cable->channels && record->channel) ||
        record->count > cable->slots)
        return false;
    cable->old[record->channel] = record->count;
    return true;
}

/* --- what comes --------------------------------------------------------------------- */

void hostlink_cable_collect(struct hostlink_cable *cable)
{
    struct emu_tx *tx = &cable->ends.tx;
    const struct emu_credit *back;

    while ((back = emu_credit_front(&tx->credit))) {
        uint32_t c = cable->channels ? back->channel % EMU_VCS : 0;

        tx->credits += back->count;
        cable->open[c] -= (int32_t)back->count;
        if (cable->announced >> c & 1) {
            cable->paid[c] += back->count;
            cable->pays |= 1u << c;
            hostlink_mark(cable->peer->owing, cable->number);
        }
        emu_credit_skip(&tx->credit);
    }
}

bool hostlink_cable_empty(struct hostlink_cable *cable)
{
    const struct emu_ring_end *data = &cable->ends.tx.data;

    while (cable->emptied_at != data->at &&
           !(atomic_load_explicit(&data->slot[cable->emptied_at & data->mask].stamp,
                                  memory_order_acquire) & /* R1 */
             EMU_RING_FULL)) {
        cable->emptied_at++;
        cable->emptied++;
    }
    return data->at - cable->emptied_at + cable->emptied >= cable->slots / 4;
}

bool hostlink_cable_pay(struct hostlink_cable *cable)
{
    struct hostlink_peer *peer = cable->peer;
    struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_CREDITS, .cable = cable->number};

    emu_each_bit (c, cable->pays) {
        record.channel = (uint8_t)c;
        record.count = cable->paid[c];
        if (!hostlink_put(peer, &record))
            return false;
        emu_count(&peer->counts.credits_sent, record.count);
        cable->paid[c] = 0;
        cable->pays &= ~(1u << c);
    }
    if (cable->emptied < cable->slots / 4)
        return true;
    record = (struct emu_hostlink_record){.kind = EMU_HOSTLINK_TAKEN,
                                          .cable = cable->number,
                                          .count = cable->emptied};
    if (!hostlink_put(peer, &record))
        return false;
    cable->emptied = 0;
    return true;
}

bool hostlink_cable_announce(struct hostlink_cable *cable)
{
    hostlink_cable_collect(cable);
    if (cable->channels) {
        hostlink_cable_empty(cable);
        if (cable->emptied_at != cable->ends.tx.data.at)
            return false; /* the switch will have it in its next pass */
        cable->emptied = 0;
    }
    for (uint32_t c = 0; c < EMU_VCS; c++) {
        struct emu_hostlink_record record = {.kind = EMU_HOSTLINK_OLD,
                                             .channel = (uint8_t)c,
                                             .cable = cable->number,
                                             .count = (uint32_t)cable->open[c]};

        if (cable->announced >> c & 1)
            continue;
        if (cable->open[c] > 0 && !hostlink_put(cable->peer, &record))
            return false;
        cable->announced |= 1u << c;
    }
    return true;
}

/* Does the account of what comes allow one more? */
static bool cable_may_come(struct hostlink_cable *cable)
{
    if (cable->channels) {
        uint32_t in_ring = cable->ends.tx.data.at - cable->emptied_at;

        return in_ring + cable->emptied + cable->waiting < cable->slots;
    }
    return cable->open[0] + (int64_t)cable->waiting < cable->credits;
}

/* Can such an entry be on such a cable? */
static bool cable_is_sane(const struct hostlink_cable *cable,
                          const struct emu_hostlink_record *record)
{
    const struct emu_hdr *hdr = &record->entry.hdr;

    if (!cable->channels)
        return !record->own_hdr && record->payload_bytes == hdr->len &&
               record->has_buf == (hdr->len != 0) &&
               emu_hdr_is_sane(hdr, cable->profile, cable->peer->link->config.nodes);
    if (hdr->kind < EMU_PACKET_HEAD || hdr->kind > EMU_PACKET_NACK ||
        record->entry.packet.channel >= EMU_VCS)
        return false;
    if (!record->has_buf)
        return true;
    return record->own_hdr && cable_is_segment(cable, hdr);
}

/* The sender's time of an entry, as ours: no earlier than now, nor than the one before it. */
static uint64_t cable_time_ps(struct hostlink_cable *cable, uint64_t at_ps)
{
    struct hostlink_peer *peer = cable->peer;
    const struct emu_hostlink *link = peer->link;
    uint64_t offset_ps = (uint64_t)hostlink_offset_at(&peer->offset, link->now_ns) * 1000u;
    uint64_t here_ps = at_ps - offset_ps - link->dev.worker->clock.origin_ns * 1000u;
    int64_t ahead_ps = (int64_t)(here_ps - link->until_ps);

    if (!peer->offset.best.good)
        ahead_ps = 0;
    if (ahead_ps < 0) {
        emu_count(&peer->counts.late, 1);
        ahead_ps = 0;
    } else if (ahead_ps > (int64_t)CABLE_AHEAD_PS) {
        emu_count(&peer->counts.ahead, 1);
        ahead_ps = 0;
    }
    here_ps = link->until_ps + (uint64_t)ahead_ps;
    if (here_ps > cable->last_ps)
        cable->last_ps = here_ps;
    return cable->last_ps;
}

/* Into the ring of our switch, with the payload in @buf, or EMU_NO_BUF. */
static void cable_deliver(struct hostlink_cable *cable, const struct emu_hostlink_record *record,
                          uint32_t buf)
{
    struct emu_hostlink *link = cable->peer->link;
    struct emu_tx *tx = &cable->ends.tx;
    struct emu_entry entry = {.hdr = record->entry.hdr, .buf = buf, .crc = record->entry.crc};
    uint64_t back_ns = 0 - (uint64_t)hostlink_offset_at(&cable->peer->offset, link->now_ns) -
                       link->dev.worker->clock.origin_ns;

    if (!cable->channels)
        entry.born_ns = cable_born_ns(cable, record->entry.born_ns, back_ns);
    if (link->dev.timed)
        entry.time_ps = cable_time_ps(cable, record->at_ps);
    if (buf != EMU_NO_BUF) {
        struct emu_pool *pool = link->dev.worker->cache.pool;
        struct emu_seg *seg = emu_pool_seg(pool, buf);

        memcpy(seg->payload, record->payload, record->payload_bytes);
        if (record->own_hdr)
            memcpy(&seg->hdr, record->own_hdr, EMU_HDR_BYTES);
        if (record->own_hdr && seg->hdr.len > record->payload_bytes) /* not what was there before */
            memset(seg->payload + record->payload_bytes, 0,
                   EMU_PAYLOAD_BYTES - record->payload_bytes);
        *emu_pool_note(pool, buf) = cable_born_ns(cable, record->note, back_ns);
    }
    if (cable_is_segment(cable, &entry.hdr))
        cable->open[cable_channel(cable, &entry)]++;
    emu_tx_send(tx, &entry);
    hostlink_mark(link->touched, hostlink_number(cable->peer, cable->number));
    emu_count(&cable->peer->counts.entries_received, 1);
}

/* False: it needs a buffer, and there is none. */
static bool cable_try(struct hostlink_cable *cable, const struct emu_hostlink_record *record)
{
    uint32_t buf = EMU_NO_BUF;

    if (record->has_buf) {
        buf = emu_pool_take(&cable->peer->link->dev.worker->cache);
        if (buf == EMU_NO_BUF)
            return false;
    }
    cable_deliver(cable, record, buf);
    return true;
}

static uint8_t *room_at(const struct hostlink_room *room, uint32_t n)
{
    return room->record + n * (size_t)EMU_HOSTLINK_ENTRY_MOST;
}

bool hostlink_cable_come(struct hostlink_cable *cable, const struct emu_hostlink_record *record,
                         const uint8_t *from, uint32_t bytes)
{
    struct hostlink_peer *peer = cable->peer;
    struct hostlink_room *room = &peer->room;

    if (!cable_is_sane(cable, record)) {
        emu_count(&peer->counts.bad, 1);
        return false;
    }
    hostlink_cable_collect(cable);
    if (!cable_may_come(cable)) {
        emu_count(&peer->counts.overrun, 1);
        return false;
    }
    peer->moved_ns = peer->link->now_ns;
    if (!room->count && cable_try(cable, record))
        return true;
    memcpy(room_at(room, room->put), from, bytes); /* a slot for each that the accounts allow */
    room->put = (room->put + 1) % room->slots;
    room->count++;
    cable->waiting++;
    emu_count(&peer->counts.waited, 1);
    return true;
}

uint32_t hostlink_room_go(struct hostlink_peer *peer)
{
    struct hostlink_room *room = &peer->room;
    struct emu_hostlink_record record;
    uint32_t gone = 0;

    for (; room->count; gone++) {
        emu_hostlink_parse(room_at(room, room->got), EMU_HOSTLINK_ENTRY_MOST, peer->cables,
                           &record);
        if (!cable_try(&peer->cable[record.cable], &record))
            break;
        peer->cable[record.cable].waiting--;
        room->got = (room->got + 1) % room->slots;
        room->count--;
    }
    return gone;
}

/* --- a life ends -------------------------------------------------------------------- */

void hostlink_cable_cut(struct hostlink_cable *cable)
{
    for (uint32_t c = 0; c < EMU_VCS; c++) {
        if (cable->unpaid[c] > 0) {
            cable_pay_switch(cable, c, (uint32_t)cable->unpaid[c]);
            cable->unpaid[c] = 0;
        }
        cable->old[c] = cable->paid[c] = 0;
    }
    cable->pays = 0;
    cable->under_way = cable->emptied = 0;
    cable->waiting = 0;
    cable->announced = 0;
}
