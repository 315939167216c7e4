/* SPDX-License-Identifier: BSD-3-Clause */
/* tap.c - fill the rings of a capture. */
#include "emu/link/tap.h"

#include <stdlib.h>
#include <string.h>

#include "emu/link/link.h"
#include "emu/link/tap_area.h"

/* A record that is not in the ring yet. */
struct tap_note {
    uint32_t iface;
    uint64_t time;
    struct emu_tap_head head;
    const void *hdr; /* EMU_HDR_BYTES of header; NULL: only `head` is recorded */
    /* for a head or continuation of a packet: header of the segment that it carries; else NULL */
    const struct emu_hdr *own;
    const uint8_t *payload;
    uint32_t payload_bytes;
};

/* --- ends --------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const struct emu_tap_end *x = a, *y = b;

    return (x->end > y->end) - (x->end < y->end);
}

void emu_taps_sort(struct emu_taps *taps)
{
    qsort(taps->end, taps->ends, sizeof taps->end[0], by_address);
}

static struct emu_tap_end *taps_find(struct emu_taps *taps, const void *end)
{
    struct emu_tap_end key = {.end = end};

    return taps ? bsearch(&key, taps->end, taps->ends, sizeof key, by_address) : NULL;
}

/* --- the ring ----------------------------------------------------------------------- */

/*
 * Return the slot for the next record. If the ring is full, count a missed record and return NULL.
 * P4 pairs with P3: the reader has finished reading the records below `taken`, so they may be
 * overwritten. If the reader wrote an impossible number to `taken`, the ring counts as full.
 */
static struct emu_tap_record *taps_slot(struct emu_taps *taps, struct emu_tap_iface *iface)
{
    emu_count(&iface->seen, 1);
    if (taps->put - taps->taken >= taps->slots)
        taps->taken = atomic_load_explicit(&taps->ring->taken, memory_order_acquire); /* P4: P3 */
    if (taps->put - taps->taken >= taps->slots) {
        emu_count(&iface->missed, 1);
        return NULL;
    }
    return &taps->ring->record[taps->put & (taps->slots - 1)];
}

static uint8_t *append(uint8_t *to, const void *from, uint32_t bytes)
{
    memcpy(to, from, bytes);
    return to + bytes;
}

static void taps_note(struct emu_taps *taps, const struct tap_note *note)
{
    uint32_t most = taps->filter.snap_bytes;
    uint32_t kept = note->payload_bytes < most ? note->payload_bytes : most;
    struct emu_tap_iface *iface = &taps->iface[note->iface];
    struct emu_tap_record *record = taps_slot(taps, iface);
    uint8_t *to;

    if (!record)
        return;
    record->time = note->time;
    record->iface = note->iface;
    record->missed = emu_count_read(&iface->missed);
    to = append(record->data, &note->head, sizeof note->head);
    if (note->hdr)
        to = append(to, note->hdr, EMU_HDR_BYTES);
    if (note->own)
        to = append(to, note->own, EMU_HDR_BYTES);
    if (kept)
        to = append(to, note->payload, kept);
    record->bytes = (uint16_t)(to - record->data);
    record->whole = (uint16_t)(record->bytes + note->payload_bytes - kept);
    atomic_store_explicit(&taps->ring->put, ++taps->put, memory_order_release); /* P1: P2 */
}

/* --- building records --------------------------------------------------------------- */

static bool taps_want(const struct emu_taps *taps, enum emu_tap_what what)
{
    return taps->filter.what >> what & 1;
}

/* Clock raw has no simulated times, so records show the current time. */
static uint64_t taps_time(const struct emu_taps *taps, const struct emu_dev *dev, uint64_t at_ps)
{
    switch (taps->clock) {
    case EMU_CLOCK_VIRTUAL:
        return at_ps;
    case EMU_CLOCK_REAL:
        return dev->worker->clock.origin_ns + at_ps / 1000u;
    default:
        return emu_now_ns();
    }
}

static uint64_t before_ps(uint64_t at_ps, uint64_t by_ps)
{
    return at_ps > by_ps ? at_ps - by_ps : 0;
}

/* Return when a segment that arrives at entry->time_ps departed: the inverse of emu_tx_depart(). */
static uint64_t depart_ps(const struct emu_tx *tx, const struct emu_entry *entry, bool packets)
{
    const struct emu_profile *profile = tx->profile;
    uint64_t flight_ps = profile->channel_ps;
    uint32_t bytes = packets ? entry->packet.wire + 1u : EMU_HDR_BYTES + (uint32_t)entry->hdr.len;

    flight_ps += tx->kind == EMU_LINK_HOSTIF
                     ? emu_wire_ps(profile, &entry->hdr) + profile->nic_recv_ps
                     : profile->switch_ps;
    if (tx->slow && tx->kind == EMU_LINK_LOCAL)
        flight_ps += emu_tx_late_ps(tx, bytes);
    return before_ps(entry->time_ps, flight_ps);
}

static struct tap_note note_of(const struct emu_taps *taps, enum emu_tap_what what, uint32_t iface,
                               const struct emu_dev *dev, uint64_t at_ps)
{
    return (struct tap_note){.iface = iface,
                             .time = taps_time(taps, dev, at_ps),
                             .head = {.version = EMU_TAP_VERSION, .what = (uint8_t)what}};
}

static bool wants_segment(const struct emu_taps *taps, const struct emu_hdr *hdr)
{
    return taps_want(taps, EMU_TAP_SEGMENT) &&
           emu_fault_aimed(&taps->filter.aim, EMU_FAULT_HEAD, hdr);
}

static const struct emu_seg *payload_of(const struct emu_dev *dev, const struct emu_entry *entry)
{
    return emu_pool_payload(dev->worker->cache.pool, entry->buf);
}

/* @at_ps: when the segment departs. @head: its flags, number and note are copied to the record. */
static void tap_segment(struct emu_taps *taps, uint32_t iface, const struct emu_dev *dev,
                        uint64_t at_ps, const struct emu_hdr *hdr, const struct emu_seg *payload,
                        struct emu_tap_head head)
{
    struct tap_note note;

    if (!wants_segment(taps, hdr))
        return;
    note = note_of(taps, EMU_TAP_SEGMENT, iface, dev, at_ps);
    note.head.flags = head.flags;
    note.head.number = head.number;
    note.head.note = head.note;
    note.hdr = hdr;
    if (payload) {
        note.payload = payload->payload;
        note.payload_bytes = hdr->len < EMU_PAYLOAD_BYTES ? hdr->len : EMU_PAYLOAD_BYTES;
    }
    taps_note(taps, &note);
}

static void tap_packet(struct emu_taps *taps, uint32_t iface, const struct emu_dev *dev,
                       const struct emu_entry *entry, uint64_t at_ps)
{
    enum emu_fault_packet part = emu_fault_packet_of(entry->packet.kind);
    bool reply = part & (EMU_FAULT_ACK | EMU_FAULT_NACK);
    const struct emu_seg *own = reply ? NULL : payload_of(dev, entry);
    enum emu_tap_what what = reply ? EMU_TAP_REPLY : EMU_TAP_PACKET;
    struct tap_note note;

    if (!taps_want(taps, what) || !(taps->filter.aim.packets & part) ||
        (!reply && !emu_fault_aimed(&taps->filter.aim, part, own ? &own->hdr : NULL)))
        return;
    note = note_of(taps, what, iface, dev, at_ps);
    note.head.note = entry->crc;
    note.hdr = &entry->packet;
    if (own) {
        note.head.flags = EMU_TAP_CARRIES;
        note.own = &own->hdr;
        note.payload = own->payload;
        note.payload_bytes = own->hdr.len < EMU_PAYLOAD_BYTES ? own->hdr.len : EMU_PAYLOAD_BYTES;
    }
    taps_note(taps, &note);
}

/* --- calls from links --------------------------------------------------------------- */

void emu_tap_sent(const struct emu_tx *tx, const struct emu_entry *entry)
{
    struct emu_taps *taps = tx->owner->worker->taps;
    const struct emu_tap_end *end = taps_find(taps, tx);

    if (!end)
        return;
    if (end->packets)
        tap_packet(taps, end->sends, tx->owner, entry, depart_ps(tx, entry, true));
    else
        tap_segment(taps, end->sends, tx->owner, depart_ps(tx, entry, false), &entry->hdr,
                    payload_of(tx->owner, entry), (struct emu_tap_head){.note = entry->note});
}

void emu_tap_copied(const struct emu_tx *tx, const struct emu_hdr *hdr,
                    const struct emu_seg *payload)
{
    struct emu_taps *taps = tx->owner->worker->taps;
    const struct emu_tap_end *end = taps_find(taps, tx);

    if (end)
        tap_segment(taps, end->sends, tx->owner, 0, hdr, payload, (struct emu_tap_head){0});
}

void emu_tap_numbered(const struct emu_tx *tx, const struct emu_entry *entry, uint32_t number,
                      bool again, uint64_t there_ps)
{
    struct emu_taps *taps = tx->owner->worker->taps;
    const struct emu_tap_end *end = taps_find(taps, tx);
    uint64_t flight_ps = tx->profile->channel_ps + tx->profile->switch_ps;
    struct emu_tap_head head = {.flags = (uint8_t)(EMU_TAP_NUMBERED | (again ? EMU_TAP_AGAIN : 0)),
                                .number = number,
                                .note = entry->note};

    if (end)
        tap_segment(taps, end->sends, tx->owner, before_ps(there_ps, flight_ps), &entry->hdr,
                    payload_of(tx->owner, entry), head);
}

void emu_tap_took(const struct emu_rx *rx, const struct emu_entry *entry)
{
    struct emu_taps *taps = rx->owner->worker->taps;
    const struct emu_tap_end *end = taps_find(taps, rx);
    const struct emu_profile *profile = rx->plug.plugged->profile;

    if (end && end->takes != EMU_TAP_NOWHERE)
        tap_segment(taps, end->takes, rx->owner,
                    before_ps(entry->time_ps, profile->channel_ps + profile->switch_ps),
                    &entry->hdr, payload_of(rx->owner, entry),
                    (struct emu_tap_head){.note = entry->note});
}

void emu_tap_peeked(const struct emu_rx *rx, uint32_t hostif, uint32_t at,
                    const struct emu_hdr *hdr, const struct emu_seg *payload)
{
    struct emu_taps *taps = rx->owner->worker->taps;
    struct emu_tap_end *end = taps_find(taps, rx);
    uint64_t peeked = (uint64_t)hostif << 32 | at; /* not 0: emu_hostif.serial begins at 1 */

    if (!end || end->takes == EMU_TAP_NOWHERE || end->peeked == peeked)
        return;
    end->peeked = peeked;
    tap_segment(taps, end->takes, rx->owner, 0, hdr, hdr->len ? payload : NULL,
                (struct emu_tap_head){0});
}

/* Record credits or acknowledgments, which have no segment. */
static void tap_back(const struct emu_rx *rx, enum emu_tap_what what, uint32_t number,
                     uint32_t about, uint64_t there_ps)
{
    struct emu_taps *taps = rx->owner->worker->taps;
    const struct emu_tap_end *end = taps_find(taps, rx);
    struct tap_note note;

    if (!end || end->sends == EMU_TAP_NOWHERE || !taps_want(taps, what))
        return;
    note = note_of(taps, what, end->sends, rx->owner, before_ps(there_ps, taps->credit_ps));
    note.head.number = number;
    note.head.about = about;
    taps_note(taps, &note);
}

void emu_tap_credits(const struct emu_rx *rx, uint32_t count, uint32_t channel, uint64_t there_ps)
{
    tap_back(rx, EMU_TAP_CREDITS, count, channel, there_ps);
}

void emu_tap_answer(const struct emu_rx *rx, uint32_t number, uint32_t answer, uint64_t there_ps)
{
    tap_back(rx, EMU_TAP_ANSWER, number, answer, there_ps);
}
