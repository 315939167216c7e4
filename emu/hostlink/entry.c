/* SPDX-License-Identifier: BSD-3-Clause */
/* entry.c - see entry.h. */
#include "emu/hostlink/entry.h"

#include <string.h>

#include "emu/link/sane.h"

bool hostlink_is_segment(const struct emu_hdr *hdr, bool channels)
{
    return !channels || hdr->kind == EMU_PACKET_HEAD || hdr->kind == EMU_PACKET_CONT;
}

void hostlink_entry_record(const struct emu_entry *entry, struct emu_pool *pool, bool channels,
                           struct emu_hostlink_record *ret)
{
    const struct emu_seg *seg;

    ret->kind = EMU_HOSTLINK_ENTRY;
    ret->entry.hdr = entry->hdr;
    ret->entry.crc = entry->crc;
    ret->at_ps = entry->time_ps;
    if (entry->buf == EMU_NO_BUF)
        return;
    seg = emu_pool_seg(pool, entry->buf);
    ret->has_buf = true;
    ret->payload = seg->payload;
    ret->payload_bytes = entry->hdr.len;
    if (channels) {
        ret->own_hdr = (const uint8_t *)&seg->hdr;
        ret->note = *emu_pool_note(pool, entry->buf);
        ret->payload_bytes = seg->hdr.len < EMU_PAYLOAD_BYTES ? seg->hdr.len : EMU_PAYLOAD_BYTES;
    }
}

/* Of a cable without channels: is there a payload where there must be one, and as long? */
static bool payload_is_sane(const struct emu_hostlink_record *record, bool inside)
{
    const struct emu_hdr *hdr = &record->entry.hdr;

    if (!record->has_buf)
        return !hdr->len || (inside && hdr->kind <= EMU_MULTICAST);
    return hdr->len && !record->own_hdr && record->payload_bytes == hdr->len;
}

bool hostlink_entry_is_sane(const struct emu_hostlink_record *record,
                            const struct emu_profile *profile, uint32_t nodes, bool inside)
{
    const struct emu_hdr *hdr = &record->entry.hdr;

    if (!emu_profile_acknowledged(profile))
        return payload_is_sane(record, inside) && emu_hdr_is_sane(hdr, profile, nodes);
    if (hdr->kind < EMU_PACKET_HEAD || hdr->kind > EMU_PACKET_NACK ||
        record->entry.packet.channel >= EMU_VCS)
        return false;
    if (!record->has_buf)
        return true;
    return record->own_hdr && hostlink_is_segment(hdr, true);
}

struct emu_entry hostlink_entry_of(const struct emu_hostlink_record *record, struct emu_pool *pool,
                                   uint32_t buf)
{
    struct emu_entry entry = {.hdr = record->entry.hdr, .buf = buf, .crc = record->entry.crc};
    struct emu_seg *seg;

    entry.time_ps = record->at_ps & ~EMU_RING_FULL;
    if (buf == EMU_NO_BUF)
        return entry;
    seg = emu_pool_seg(pool, buf);
    memcpy(seg->payload, record->payload, record->payload_bytes);
    if (record->own_hdr)
        memcpy(&seg->hdr, record->own_hdr, EMU_HDR_BYTES);
    if (record->own_hdr && seg->hdr.len > record->payload_bytes) /* not what was there before */
        memset(seg->payload + record->payload_bytes, 0, EMU_PAYLOAD_BYTES - record->payload_bytes);
    *emu_pool_note(pool, buf) = record->note;
    return entry;
}
