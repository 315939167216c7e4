/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rx.c - receive entries from another host. An entry that the counts of its cable (cable.c) allow
 * goes to our switch (the switch on this host to which the cable leads). Its times are converted to
 * our clock. If no pool buffer is free, the entry's record waits here.
 */
#include "emu/hostlink/device.h"

#include <string.h>

#include "emu/hostlink/entry.h"

/* 10 ms; an entry that is due later than this gets the current time */
#define CABLE_AHEAD_PS UINT64_C(10000000000)

static inline bool cable_may_rx(const struct hostlink_cable *cable)
{
    if (cable->channels) {
        uint32_t in_ring = cable->ends.tx.data.at - cable->emptied_at;

        return in_ring + cable->emptied + cable->waiting < cable->slots;
    }
    return cable->open[0] + (int64_t)cable->waiting < cable->credits + (int64_t)cable->depth;
}

/*
 * Convert the time of an entry from the sender's clock to ours. The result is at least the current
 * time, and at least the time of the previous entry.
 */
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

/* Convert all times in an entry to our clock. Return the time when the entry arrives. */
static uint64_t cable_translate(struct hostlink_cable *cable, struct emu_entry *entry,
                                uint32_t note, uint64_t at_ps)
{
    const struct emu_hostlink *link = cable->peer->link;
    uint64_t back_ns = 0 - (uint64_t)hostlink_offset_at(&cable->peer->offset, link->now_ns) -
                       link->dev.worker->clock.origin_ns;

    if (!cable->channels)
        entry->born_ns = hostlink_born_ns(entry->born_ns, back_ns);
    if (entry->buf != EMU_NO_BUF)
        *emu_pool_note(link->dev.worker->cache.pool, entry->buf) = hostlink_born_ns(note, back_ns);
    return cable_time_ps(cable, at_ps);
}

/*
 * Return the memory for the next entry: a slot of the ring to our switch, or of the queue if our
 * switch has no credits. If the ring has no free slot, return @other, from which emu_tx_send() then
 * copies the entry.
 */
static inline struct emu_entry *cable_slot(struct hostlink_cable *cable, struct emu_entry *other)
{
    struct emu_entry *slot;

    if (cable->depth && !cable->ends.tx.credits)
        return hostlink_queued(cable, cable->queued);
    slot = emu_tx_slot(&cable->ends.tx);
    return slot ? slot : other;
}

static inline void cable_publish(struct hostlink_cable *cable, struct emu_entry *slot,
                                 struct emu_entry *other, uint64_t time_ps)
{
    if (cable->depth && !cable->ends.tx.credits) {
        slot->time_ps = time_ps;
        cable->queued++;
        return;
    }
    if (slot == other) {
        other->time_ps = time_ps;
        emu_tx_send(&cable->ends.tx, other);
    } else {
        emu_tx_publish(&cable->ends.tx, time_ps);
    }
    hostlink_set_touched(cable);
}

/* Deliver an entry to our switch or its queue. Return false if no pool buffer is free. */
static inline __attribute__((always_inline)) bool cable_deliver(
    struct hostlink_cable *cable, const struct emu_hostlink_record *record,
    struct emu_pool_cache *cache, bool channels, bool timed)
{
    uint32_t buf = record->has_buf ? emu_pool_take(cache) : EMU_NO_BUF;
    struct emu_entry other, *slot;
    uint64_t time_ps = 0;

    if (record->has_buf && buf == EMU_NO_BUF)
        return false;
    slot = cable_slot(cable, &other);
    hostlink_entry_of(record, cache->pool, buf, slot);
    if (timed)
        time_ps = cable_translate(cable, slot, record->note, record->at_ps);
    if (hostlink_is_segment(&record->entry.hdr, channels))
        cable->open[channels ? record->entry.packet.channel % EMU_VCS : 0]++;
    cable_publish(cable, slot, &other, time_ps);
    return true;
}

static uint8_t *room_at(const struct hostlink_room *room, uint32_t n)
{
    return room->record + n * (size_t)EMU_HOSTLINK_ENTRY_MOST;
}

/*
 * Store a record until a pool buffer is free. There is a slot for each entry that may be received.
 */
static void cable_wait(struct hostlink_cable *cable, const uint8_t *from, uint32_t bytes)
{
    struct hostlink_peer *peer = cable->peer;
    struct hostlink_room *room = &peer->room;

    memcpy(room_at(room, room->put), from, bytes);
    room->put = (room->put + 1) % room->slots;
    room->count++;
    cable->waiting++;
    emu_count(&peer->counts.waited, 1);
}

/* Return cable_may_rx(), after collecting the credits of our switch if necessary. */
static inline bool cable_allows(struct hostlink_cable *cable)
{
    if (cable->ends.tx.credits && cable_may_rx(cable))
        return true;
    hostlink_cable_collect(cable);
    return cable_may_rx(cable);
}

/* Receive an entry, whose record begins at @from. Return false if it is invalid or not allowed. */
static inline __attribute__((always_inline)) bool cable_rx_entry(
    struct hostlink_cable *cable, const struct emu_hostlink_record *record, const uint8_t *from,
    uint32_t bytes, bool channels, bool timed)
{
    struct hostlink_peer *peer = cable->peer;
    struct emu_hostlink *link = peer->link;

    if (!hostlink_entry_is_sane(record, cable->profile, link->config.nodes, false)) {
        emu_count(&peer->counts.bad, 1);
        return false;
    }
    if (!cable_allows(cable)) {
        emu_count(&peer->counts.overrun, 1);
        return false;
    }
    if (!peer->room.count &&
        cable_deliver(cable, record, &link->dev.worker->cache, channels, timed))
        emu_count(&peer->counts.entries_received, 1);
    else
        cable_wait(cable, from, bytes);
    return true;
}

/*
 * A batch of entries of the most common kind: unicast segments with a payload, on a cable without
 * channels, on clock raw. Many of them often arrive in a row on one cable. Therefore the state of
 * the cable is loaded once, and stored after the last entry.
 */
struct cable_batch {
    struct emu_pool_cache *cache;
    struct emu_ring_end ring; /* copy of the ring to our switch; `at` advances with the batch */
    uint64_t head;            /* the head of each record in the batch, but with length 0 */
    uint32_t nodes;
    uint32_t room; /* entries for which our switch has credits, so that they go to its ring */
    uint32_t may;  /* entries that the counts allow; those beyond `room` go to the queue */
};

#define BATCH_LENGTH ((uint64_t)UINT16_MAX << ENTRY_LENGTH)

/*
 * Begin a batch. Return false if entries must be received one by one, because the cable is of
 * another kind or entries wait for buffers.
 */
static bool batch_begin(struct cable_batch *batch, struct hostlink_cable *cable)
{
    struct hostlink_peer *peer = cable->peer;
    const struct emu_tx *tx = &cable->ends.tx;
    int64_t left;

    if (cable->channels || peer->link->dev.timed || peer->room.count || !emu_tx_slot(tx))
        return false;
    if (!tx->credits)
        hostlink_cable_collect(cable);
    left = cable->credits + (int64_t)cable->depth - cable->open[0]; /* as in cable_may_rx() */
    batch->cache = &peer->link->dev.worker->cache;
    batch->ring = tx->data;
    batch->head = EMU_HOSTLINK_ENTRY | (uint64_t)ENTRY_BUF << ENTRY_FLAGS |
                  (uint64_t)cable->number << ENTRY_CABLE;
    batch->nodes = peer->link->config.nodes;
    batch->may = (uint32_t)(left > 0 ? left : 0);
    batch->room = tx->credits < batch->may ? tx->credits : batch->may;
    return batch->may;
}

/*
 * Receive the entry at @from into @slot. Return its number of bytes; 0: cable_entry() must handle
 * the entry, because it is of another kind or no buffer is free.
 */
static inline uint32_t batch_entry(const struct cable_batch *batch, const uint8_t *from,
                                   uint32_t bytes, struct emu_entry *slot)
{
    struct emu_pool_cache *cache = batch->cache;
    uint32_t payload, whole;
    struct emu_hdr hdr;
    uint64_t head;

    if (bytes < EMU_HOSTLINK_ENTRY_BYTES)
        return 0;
    memcpy(&head, from, sizeof head);
    memcpy(&hdr, from + ENTRY_HDR, sizeof hdr);
    payload = (uint16_t)(head >> ENTRY_LENGTH);
    whole = EMU_HOSTLINK_ENTRY_BYTES + payload;
    if ((head & ~BATCH_LENGTH) != batch->head || bytes < whole || hdr.kind != EMU_UNICAST ||
        hdr.dst >= batch->nodes || hdr.src >= batch->nodes || hdr.len != payload || !payload ||
        payload > EMU_PAYLOAD_BYTES)
        return 0;
    slot->buf = emu_pool_take(cache);
    if (slot->buf == EMU_NO_BUF)
        return 0;
    slot->hdr = hdr;
    memcpy(&slot->crc, from + ENTRY_CRC, sizeof slot->crc);
    emu_copy(emu_pool_bytes(cache->pool, slot->buf), from + EMU_HOSTLINK_ENTRY_BYTES, payload);
    return whole;
}

/*
 * Receive entries into the ring to our switch, while it has credits. Return how many, and add their
 * bytes to *@done.
 */
static uint32_t batch_to_switch(struct cable_batch *batch, const uint8_t *records, uint32_t bytes,
                                uint32_t *done)
{
    uint32_t moved = 0, whole;

    for (; moved < batch->room; moved++) {
        whole = batch_entry(batch, records + *done, bytes - *done, emu_ring_slot(&batch->ring));
        if (!whole)
            break;
        emu_ring_publish(emu_ring_next(&batch->ring), 0);
        *done += whole;
    }
    return moved;
}

/*
 * Receive entries into the queue, where they wait until our switch has credits. Return how many,
 * and add their bytes to *@done.
 */
static uint32_t batch_to_queue(const struct cable_batch *batch, struct hostlink_cable *cable,
                               const uint8_t *records, uint32_t bytes, uint32_t *done)
{
    uint32_t moved = 0, most = batch->may - batch->room, whole;

    for (; moved < most; moved++) {
        struct emu_entry *slot = hostlink_queued(cable, cable->queued);

        whole = batch_entry(batch, records + *done, bytes - *done, slot);
        if (!whole)
            break;
        slot->time_ps = 0;
        cable->queued++;
        *done += whole;
    }
    return moved;
}

/* Receive as many entries of the most common kind as possible. Return their number of bytes. */
static uint32_t cable_receive_batch(struct hostlink_cable *cable, const uint8_t *records,
                                    uint32_t bytes)
{
    uint32_t done = 0, moved, waits = 0;
    struct emu_tx *tx = &cable->ends.tx;
    struct cable_batch batch;

    if (!batch_begin(&batch, cable))
        return 0;
    moved = batch_to_switch(&batch, records, bytes, &done);
    if (moved == batch.room)
        waits = batch_to_queue(&batch, cable, records, bytes, &done);
    if (moved) {
        emu_tx_sent(tx, &batch.ring, moved);
        hostlink_set_touched(cable);
    }
    cable->open[0] += (int32_t)(moved + waits);
    emu_count(&cable->peer->counts.entries_received, moved + waits);
    return done;
}

/* Receive one entry of any kind. Return the size of its record; 0: the record is not an entry. */
static uint32_t cable_entry(struct hostlink_peer *peer, const struct hostlink_cable *cable,
                            const uint8_t *from, uint32_t bytes)
{
    bool timed = peer->link->dev.timed;
    struct emu_hostlink_record record;
    uint32_t whole = hostlink_entry_parse(from, bytes, peer->cables, &record);

    if (!whole)
        return 0;
    if (!cable->channels && !timed)
        peer->broken =
            !cable_rx_entry(&peer->cable[record.cable], &record, from, whole, false, false);
    else
        peer->broken = !cable_rx_entry(&peer->cable[record.cable], &record, from, whole,
                                       cable->channels, timed);
    return whole;
}

uint32_t hostlink_entries_rx(struct hostlink_peer *peer, const uint8_t *records, uint32_t bytes)
{
    uint32_t done = 0;

    while (!peer->broken) {
        uint32_t number = hostlink_entry_cable(records + done, bytes - done), more;

        if (number >= peer->cables || !peer->cable[number].slots)
            break;
        more = cable_receive_batch(&peer->cable[number], records + done, bytes - done);
        if (!more)
            more = cable_entry(peer, &peer->cable[number], records + done, bytes - done);
        if (!more)
            break;
        done += more;
    }
    if (done)
        peer->moved_ns = peer->link->now_ns;
    return done;
}

uint32_t hostlink_room_deliver(struct hostlink_peer *peer)
{
    struct hostlink_room *room = &peer->room;
    struct emu_hostlink_record record;
    uint32_t gone = 0;

    for (; room->count; gone++) {
        struct hostlink_cable *cable;

        emu_hostlink_parse(room_at(room, room->got), EMU_HOSTLINK_ENTRY_MOST, peer->cables,
                           &record);
        cable = &peer->cable[record.cable];
        if (!cable_deliver(cable, &record, &peer->link->dev.worker->cache, cable->channels,
                           peer->link->dev.timed))
            break;
        emu_count(&peer->counts.entries_received, 1);
        cable->waiting--;
        room->got = (room->got + 1) % room->slots;
        room->count--;
    }
    return gone;
}
