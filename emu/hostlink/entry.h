/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * entry.h - convert a ring entry (a segment or reply) to a record and to bytes, and back. Times in
 * a record are on the sender's clock; a receiver with another clock converts them.
 *
 * All functions run once per segment. They are inline so that a record stays in registers.
 * Otherwise it would be written in small pieces and read in larger ones. Such a read waits for the
 * stores (failed store forwarding), which would take longer than the rest of the function.
 */
#ifndef EMU_HOSTLINK_ENTRY_H
#define EMU_HOSTLINK_ENTRY_H

#include <string.h>

#include "emu/buffer/pool.h"
#include "emu/hostlink/wire.h"
#include "emu/packet/packet.h"
#include "emu/packet/profile.h"
#include "emu/packet/sane.h"

/* Positions of an entry's fields. The first 8 bytes, the *head*, are read as one number. */
enum hostlink_entry_place {
    ENTRY_FLAGS = 8, /* bit numbers in the head */
    ENTRY_LENGTH = 16,
    ENTRY_CABLE = 32,
    ENTRY_TIME = 8, /* byte offsets in the record */
    ENTRY_HDR = 16,
    ENTRY_CRC = 32,
    ENTRY_NOTE = 36
};
static_assert(ENTRY_NOTE + 4 == EMU_HOSTLINK_ENTRY_BYTES, "the note is the last field");

enum hostlink_entry_flags {
    ENTRY_BUF = 1, /* the entry has a pool buffer, so a payload follows, perhaps of 0 bytes */
    ENTRY_OWN = 2  /* the segment header in that buffer is sent before the payload */
};

/**
 * hostlink_is_segment - return whether the entry with header @hdr is a segment, which needs a
 * credit. On cables with channels it may also be a reply, which needs none. Pure.
 */
static inline bool hostlink_is_segment(const struct emu_hdr *hdr, bool channels)
{
    return !channels || hdr->kind == EMU_PACKET_HEAD || hdr->kind == EMU_PACKET_CONT;
}

/* --- writing ------------------------------------------------------------------------ */

/**
 * hostlink_entry_record - fill *@ret with the record of @entry on @cable. The record points to the
 * payload in @pool's buffer. On cables with channels it also points to the segment header in the
 * buffer. That header is sent as it is, even if a fault on an earlier cable has changed the length
 * in it: the remote adapter detects the change by the packet's checksum.
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

/** hostlink_entry_bytes - return the number of bytes of an entry's record on the wire. Pure. */
static inline uint32_t hostlink_entry_bytes(const struct emu_hostlink_record *record)
{
    uint32_t own = record->own_hdr ? EMU_HDR_BYTES : 0;

    return EMU_HOSTLINK_ENTRY_BYTES + (record->has_buf ? own + record->payload_bytes : 0);
}

/** hostlink_entry_write - write an entry's record to the hostlink_entry_bytes() bytes at @to. */
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

/* --- reading ------------------------------------------------------------------------ */

/** hostlink_entry_cable - return the cable of the entry at @from; UINT32_MAX: it is no entry. */
static inline uint32_t hostlink_entry_cable(const uint8_t *from, uint32_t bytes)
{
    uint64_t head;

    if (bytes < EMU_HOSTLINK_ENTRY_BYTES)
        return UINT32_MAX;
    memcpy(&head, from, sizeof head);
    return (uint8_t)head == EMU_HOSTLINK_ENTRY ? (uint32_t)(head >> ENTRY_CABLE) : UINT32_MAX;
}

/** hostlink_entry_parse - do emu_hostlink_parse() for an entry. Returns 0 for other records. */
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

/*
 * For cables without channels, return whether the record has a payload if the header requires one,
 * and whether the payload has the length in the header.
 */
static inline bool hostlink_payload_is_sane(const struct emu_hostlink_record *record, bool inside)
{
    const struct emu_hdr *hdr = &record->entry.hdr;

    if (!record->has_buf)
        return !hdr->len || (inside && hdr->kind <= EMU_MULTICAST);
    return hdr->len && !record->own_hdr && record->payload_bytes == hdr->len;
}

/*
 * For cables with channels, return whether
 * - the record contains the segment header of a segment's buffer,
 * - the payload is as long as that header says, and
 * - the packet has at least one byte on the wire after its header, as fault.c requires.
 *
 * The other fields of the header are not checked, because faults on earlier cables may have changed
 * them. The remote adapter checks them after the packet's CRC-32 (engine_seg_is_sane()).
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
 * hostlink_entry_is_sane - return whether this entry may be on a cable of @profile. Pure.
 * @nodes: number of nodes in the network.
 * @inside: the nodes are simulated inside the fabric. They may omit payloads, which no switch
 * reads.
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
 * hostlink_entry_of - fill *@ret, except for its time, from a valid record
 * (hostlink_entry_is_sane()).
 * @buf: a buffer of @pool, into which the payload is copied; EMU_NO_BUF if the entry has none.
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
