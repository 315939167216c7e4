/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * entry.h - an entry of a ring as a record, and as the bytes of one: what a cable carries to
 * another host, whatever the clock. Times are the sender's as they stand; who has another clock
 * translates them.
 *
 * All of it is done for each segment, so it is here and not behind a call: what becomes of a record
 * stays in registers, and is never read in larger pieces than it was just written in, for which the
 * processor would wait longer than all the rest takes.
 */
#ifndef EMU_HOSTLINK_ENTRY_H
#define EMU_HOSTLINK_ENTRY_H

#include <string.h>

#include "emu/buffer/pool.h"
#include "emu/hostlink/wire.h"
#include "emu/packet/packet.h"
#include "emu/packet/profile.h"
#include "emu/packet/sane.h"

/* Where the fields of an entry are, behind the head: its first 8 bytes, as a number. */
enum hostlink_entry_place {
    ENTRY_FLAGS = 8, /* bits of the head */
    ENTRY_LENGTH = 16,
    ENTRY_CABLE = 32,
    ENTRY_TIME = 8, /* bytes of the record */
    ENTRY_HDR = 16,
    ENTRY_CRC = 32,
    ENTRY_NOTE = 36
};
static_assert(ENTRY_NOTE + 4 == EMU_HOSTLINK_ENTRY_BYTES, "the fields fill it");

enum hostlink_entry_flags {
    ENTRY_BUF = 1, /* it has a buffer, whose payload follows */
    ENTRY_OWN = 2  /* and before it the header that lies there */
};

/**
 * hostlink_is_segment - is it a segment, which a credit comes back for? On cables with channels
 * replies are none. Pure.
 */
static inline bool hostlink_is_segment(const struct emu_hdr *hdr, bool channels)
{
    return !channels || hdr->kind == EMU_PACKET_HEAD || hdr->kind == EMU_PACKET_CONT;
}

/* --- written ------------------------------------------------------------------------ */

/**
 * hostlink_entry_record - @entry as a record of @cable, in *ret: its payload, if it has one, stays
 * in @pool's buffer. On cables with channels the adapter's own header is payload, too: if it was
 * damaged on its way here its length is not what it was, and the far adapter is to find that, by
 * the packet's checksum.
 */
static inline void hostlink_entry_record(const struct emu_entry *entry, struct emu_pool *pool,
                                         bool channels, uint32_t cable,
                                         struct emu_hostlink_record *ret)
{
    const struct emu_seg *seg = emu_pool_payload(pool, entry->buf);

    ret->kind = EMU_HOSTLINK_ENTRY;
    ret->channel = 0;
    ret->cable = cable;
    ret->entry.hdr = entry->hdr;
    ret->entry.crc = entry->crc;
    ret->at_ps = entry->time_ps;
    ret->has_buf = seg;
    ret->own_hdr = NULL;
    ret->note = 0;
    ret->payload = seg ? seg->payload : NULL;
    ret->payload_bytes = seg ? entry->hdr.len : 0;
    if (!seg || !channels)
        return;
    ret->own_hdr = (const uint8_t *)&seg->hdr;
    ret->note = *emu_pool_note(pool, entry->buf);
    ret->payload_bytes = seg->hdr.len < EMU_PAYLOAD_BYTES ? seg->hdr.len : EMU_PAYLOAD_BYTES;
}

/** hostlink_entry_bytes - of a record that is an entry. Pure. */
static inline uint32_t hostlink_entry_bytes(const struct emu_hostlink_record *record)
{
    uint32_t own = record->own_hdr ? EMU_HDR_BYTES : 0;

    return EMU_HOSTLINK_ENTRY_BYTES + (record->has_buf ? own + record->payload_bytes : 0);
}

/** hostlink_entry_write - writes these bytes at @to. */
static inline void hostlink_entry_write(uint8_t *to, const struct emu_hostlink_record *record)
{
    uint64_t flags = (record->has_buf ? ENTRY_BUF : 0) | (record->own_hdr ? ENTRY_OWN : 0);
    uint64_t head = EMU_HOSTLINK_ENTRY | (record->has_buf ? flags << ENTRY_FLAGS : 0) |
                    (uint64_t)record->cable << ENTRY_CABLE;

    if (record->has_buf)
        head |= (uint64_t)record->payload_bytes << ENTRY_LENGTH;
    memcpy(to, &head, sizeof head);
    memcpy(to + ENTRY_TIME, &record->at_ps, sizeof record->at_ps);
    memcpy(to + ENTRY_HDR, &record->entry.hdr, EMU_HDR_BYTES);
    memcpy(to + ENTRY_CRC, &record->entry.crc, sizeof record->entry.crc);
    memcpy(to + ENTRY_NOTE, &record->note, sizeof record->note);
    if (!record->has_buf)
        return;
    to += EMU_HOSTLINK_ENTRY_BYTES;
    if (record->own_hdr) {
        memcpy(to, record->own_hdr, EMU_HDR_BYTES);
        to += EMU_HDR_BYTES;
    }
    if (record->payload_bytes)
        emu_copy(to, record->payload, record->payload_bytes);
}

/* --- read --------------------------------------------------------------------------- */

/** hostlink_entry_cable - of which cable an entry is; UINT32_MAX: there is something else. */
static inline uint32_t hostlink_entry_cable(const uint8_t *from, uint32_t bytes)
{
    uint64_t head;

    if (bytes < EMU_HOSTLINK_ENTRY_BYTES)
        return UINT32_MAX;
    memcpy(&head, from, sizeof head);
    return (uint8_t)head == EMU_HOSTLINK_ENTRY ? (uint32_t)(head >> ENTRY_CABLE) : UINT32_MAX;
}

/**
 * hostlink_entry_parse - emu_hostlink_parse() of an entry; 0 also where there is something else.
 */
static inline uint32_t hostlink_entry_parse(const uint8_t *from, uint32_t bytes, uint32_t cables,
                                            struct emu_hostlink_record *ret)
{
    uint32_t flags, payload, own, whole, cable;
    uint64_t head;

    if (bytes < EMU_HOSTLINK_ENTRY_BYTES)
        return 0;
    memcpy(&head, from, sizeof head);
    flags = (uint8_t)(head >> ENTRY_FLAGS);
    payload = (uint16_t)(head >> ENTRY_LENGTH);
    cable = (uint32_t)(head >> ENTRY_CABLE);
    own = flags & ENTRY_OWN ? EMU_HDR_BYTES : 0;
    whole = EMU_HOSTLINK_ENTRY_BYTES + own + payload;
    memcpy(&ret->note, from + ENTRY_NOTE, sizeof ret->note);
    if ((uint8_t)head != EMU_HOSTLINK_ENTRY || cable >= cables || bytes < whole ||
        payload > EMU_PAYLOAD_BYTES || flags & ~(uint32_t)(ENTRY_BUF | ENTRY_OWN) ||
        (!(flags & ENTRY_BUF) && (flags | payload | ret->note)))
        return 0;
    ret->kind = EMU_HOSTLINK_ENTRY;
    ret->channel = 0;
    ret->cable = cable;
    memcpy(&ret->at_ps, from + ENTRY_TIME, sizeof ret->at_ps);
    memcpy(&ret->entry.hdr, from + ENTRY_HDR, EMU_HDR_BYTES);
    memcpy(&ret->entry.crc, from + ENTRY_CRC, sizeof ret->entry.crc);
    ret->entry.buf = EMU_NO_BUF;
    ret->entry.time_ps = 0;
    ret->has_buf = flags & ENTRY_BUF;
    ret->own_hdr = own ? from + EMU_HOSTLINK_ENTRY_BYTES : NULL;
    ret->payload = ret->has_buf ? from + EMU_HOSTLINK_ENTRY_BYTES + own : NULL;
    ret->payload_bytes = payload;
    return whole;
}

/* Of a cable without channels: is there a payload where there must be one, and as long? */
static inline bool hostlink_payload_is_sane(const struct emu_hostlink_record *record, bool inside)
{
    const struct emu_hdr *hdr = &record->entry.hdr;

    if (!record->has_buf)
        return !hdr->len || (inside && hdr->kind <= EMU_MULTICAST);
    return hdr->len && !record->own_hdr && record->payload_bytes == hdr->len;
}

/*
 * On a cable with channels: does the payload follow the header of the carried segment, does it have
 * the length that this header gives, and is there room for it on the wire? Faults on earlier cables
 * may have damaged the header, so its other fields are not checked here. The far adapter checks
 * them after the packet's CRC-32 (engine_seg_is_sane()).
 */
static inline bool hostlink_own_is_sane(const struct emu_hostlink_record *record)
{
    const struct emu_packet_hdr *packet = &record->entry.packet;
    uint32_t before = packet->kind == EMU_PACKET_HEAD ? EMU_HEAD_BYTES : EMU_CONT_BYTES, len;

    if (!record->own_hdr || !hostlink_is_segment(&record->entry.hdr, true) || packet->wire < before)
        return false;
    len = record->own_hdr[offsetof(struct emu_hdr, len)];
    return record->payload_bytes == (len < EMU_PAYLOAD_BYTES ? len : EMU_PAYLOAD_BYTES);
}

/**
 * hostlink_entry_is_sane - can such an entry be on a cable of @profile? Pure.
 * @nodes: of the network. @inside: they are inside the fabric, and need not send what no switch
 *         reads of a payload.
 */
static inline bool hostlink_entry_is_sane(const struct emu_hostlink_record *record,
                                          const struct emu_profile *profile, uint32_t nodes,
                                          bool inside)
{
    const struct emu_packet_hdr *packet = &record->entry.packet;
    const struct emu_hdr *hdr = &record->entry.hdr;

    if (!emu_profile_acknowledged(profile))
        return hostlink_payload_is_sane(record, inside) && hdr->src < nodes &&
               emu_hdr_is_sane(hdr, profile, nodes);
    if (packet->kind < EMU_PACKET_HEAD || packet->kind > EMU_PACKET_NACK ||
        packet->channel >= profile->channels || packet->last > 1)
        return false;
    return !record->has_buf || hostlink_own_is_sane(record);
}

/**
 * hostlink_entry_of - the entry of a record that is sane, in *ret, but for its time; @buf: a buffer
 * of @pool, which gets what lies in the record's, or EMU_NO_BUF.
 */
static inline void hostlink_entry_of(const struct emu_hostlink_record *record,
                                     struct emu_pool *pool, uint32_t buf, struct emu_entry *ret)
{
    struct emu_seg *seg;

    ret->hdr = record->entry.hdr;
    ret->buf = buf;
    ret->crc = record->entry.crc;
    if (buf == EMU_NO_BUF)
        return;
    seg = emu_pool_seg(pool, buf);
    emu_copy(seg->payload, record->payload, record->payload_bytes);
    if (record->own_hdr)
        memcpy(&seg->hdr, record->own_hdr, EMU_HDR_BYTES);
    *emu_pool_note(pool, buf) = record->note;
}

#endif
