/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.c - write and parse records (wire.h).
 *
 * A record begins with its head: kind (1 byte), channel or flags (1), length (2), cable (4). An
 * entry (entry.h) continues with its time (8 bytes), header (16), posting time or checksum (4), and
 * the note of its buffer (4). If a flag is set, the segment header from the buffer follows. The
 * payload comes last. A record with a count continues with the count (4 bytes) and zeros (4);
 * CREDIT_AT then has a time (8).
 */
#include "emu/hostlink/wire.h"

#include <string.h>

#include "emu/hostlink/entry.h"

static_assert(EMU_HOSTLINK_ENTRY_MOST <= EMU_HOSTLINK_RECORD_BYTES, "an entry is a record");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers need no conversion");

static uint64_t wire_get(const uint8_t *from, uint32_t bytes)
{
    uint64_t n = 0;

    memcpy(&n, from, bytes);
    return n;
}

static void wire_put(uint8_t *to, uint64_t n, uint32_t bytes)
{
    memcpy(to, &n, bytes);
}

/* --- writing ------------------------------------------------------------------------ */

uint32_t emu_hostlink_bytes(const struct emu_hostlink_record *record)
{
    switch (record->kind) {
    case EMU_HOSTLINK_ENTRY:
        return hostlink_entry_bytes(record);
    case EMU_HOSTLINK_READY:
        return EMU_HOSTLINK_HEAD_BYTES;
    case EMU_HOSTLINK_CONTROL:
    case EMU_HOSTLINK_STEP:
        return EMU_HOSTLINK_HEAD_BYTES + record->length;
    case EMU_HOSTLINK_CLOCK:
        return EMU_HOSTLINK_HEAD_BYTES + 24;
    case EMU_HOSTLINK_CREDIT_AT:
        return EMU_HOSTLINK_COUNT_BYTES + 8;
    default:
        return EMU_HOSTLINK_COUNT_BYTES;
    }
}

void emu_hostlink_write(uint8_t *to, const struct emu_hostlink_record *record)
{
    if (record->kind == EMU_HOSTLINK_ENTRY) {
        hostlink_entry_write(to, record);
        return;
    }
    memset(to, 0, EMU_HOSTLINK_HEAD_BYTES);
    to[0] = record->kind;
    wire_put(to + 4, record->cable, 4);
    switch (record->kind) {
    case EMU_HOSTLINK_READY:
        break;
    case EMU_HOSTLINK_STEP:
        to[1] = record->channel;
        /* fall through */
    case EMU_HOSTLINK_CONTROL:
        wire_put(to + 2, record->length, 2);
        if (record->length)
            memcpy(to + EMU_HOSTLINK_HEAD_BYTES, record->bytes, record->length);
        break;
    case EMU_HOSTLINK_CLOCK:
        wire_put(to + 8, record->sent_ns, 8);
        wire_put(to + 16, record->echo_ns, 8);
        wire_put(to + 24, record->received_ns, 8);
        break;
    case EMU_HOSTLINK_CREDIT_AT:
        wire_put(to + EMU_HOSTLINK_COUNT_BYTES, record->credit_ps, 8);
        /* fall through */
    default:
        to[1] = record->channel;
        wire_put(to + 8, record->count, 8);
    }
}

/* --- reading ------------------------------------------------------------------------ */

/*
 * The functions parse_...() return the number of bytes of the record, at most @bytes, or 0 if it is
 * malformed. The caller has checked that @bytes suffices for the head.
 */

static uint32_t parse_count(const uint8_t *from, uint32_t bytes, struct emu_hostlink_record *ret)
{
    bool timed = ret->kind == EMU_HOSTLINK_CREDIT_AT;
    uint32_t whole = EMU_HOSTLINK_COUNT_BYTES + (timed ? 8 : 0);
    uint64_t count;

    if (bytes < whole || wire_get(from + 2, 2))
        return 0;
    count = wire_get(from + EMU_HOSTLINK_HEAD_BYTES, 8);
    ret->channel = from[1];
    ret->count = (uint32_t)count;
    if (!count || count > UINT32_MAX || ret->channel >= EMU_VCS)
        return 0;
    if (ret->channel && ret->kind != EMU_HOSTLINK_CREDITS && ret->kind != EMU_HOSTLINK_OLD &&
        !timed)
        return 0;
    ret->credit_ps = timed ? wire_get(from + EMU_HOSTLINK_COUNT_BYTES, 8) : 0;
    return whole;
}

static uint32_t parse_bytes(const uint8_t *from, uint32_t bytes, struct emu_hostlink_record *ret)
{
    ret->channel = from[1];
    ret->length = (uint32_t)wire_get(from + 2, 2);
    ret->bytes = from + EMU_HOSTLINK_HEAD_BYTES;
    if (ret->channel >= (ret->kind == EMU_HOSTLINK_STEP ? EMU_STEPS : 1) ||
        ret->length > EMU_HOSTLINK_CONTROL_BYTES || bytes - EMU_HOSTLINK_HEAD_BYTES < ret->length)
        return 0;
    return EMU_HOSTLINK_HEAD_BYTES + ret->length;
}

static uint32_t parse_clock(const uint8_t *from, uint32_t bytes, struct emu_hostlink_record *ret)
{
    if (bytes < EMU_HOSTLINK_HEAD_BYTES + 24 || from[1] || wire_get(from + 2, 2))
        return 0;
    ret->sent_ns = wire_get(from + 8, 8);
    ret->echo_ns = wire_get(from + 16, 8);
    ret->received_ns = wire_get(from + 24, 8);
    return EMU_HOSTLINK_HEAD_BYTES + 24;
}

static bool parse_has_cable(uint8_t kind)
{
    return kind <= EMU_HOSTLINK_OLD || kind == EMU_HOSTLINK_CREDIT_AT;
}

uint32_t emu_hostlink_parse(const uint8_t *from, uint32_t bytes, uint32_t cables,
                            struct emu_hostlink_record *ret)
{
    struct emu_hostlink_record record = {.kind = 0};
    uint32_t whole;

    if (bytes < EMU_HOSTLINK_HEAD_BYTES)
        return 0;
    record.kind = from[0];
    record.cable = (uint32_t)wire_get(from + 4, 4);
    if (!record.kind || record.kind >= EMU_HOSTLINK_KINDS ||
        record.cable >= (parse_has_cable(record.kind) ? cables : 1))
        return 0;
    if (record.kind == EMU_HOSTLINK_ENTRY)
        return hostlink_entry_parse(from, bytes, cables, ret);
    if (record.kind == EMU_HOSTLINK_READY)
        whole = from[1] || wire_get(from + 2, 2) ? 0 : EMU_HOSTLINK_HEAD_BYTES;
    else if (record.kind == EMU_HOSTLINK_CONTROL || record.kind == EMU_HOSTLINK_STEP)
        whole = parse_bytes(from, bytes, &record);
    else if (record.kind == EMU_HOSTLINK_CLOCK)
        whole = parse_clock(from, bytes, &record);
    else
        whole = parse_count(from, bytes, &record);
    if (whole)
        *ret = record;
    return whole;
}
