/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * records.c - the records of a host link (emu/hostlink/wire.h): arbitrary bytes in a frame.
 *
 * The input's first byte is the number of cables; the rest are a frame's records.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/hostlink/wire.h"
#include "emu/packet/packet.h"
#include "tests/fuzz/fuzz.h"

/* Check that @length bytes at @at are in the record, which begins at @from. */
static void lies_within(const uint8_t *from, uint32_t bytes, const uint8_t *at, uint32_t length)
{
    fuzz_must(!length || (at >= from && length <= bytes && at - from <= (long)(bytes - length)),
              "pointers of a record lead into the record");
}

static void look_at(const uint8_t *from, uint32_t bytes, const struct emu_hostlink_record *record)
{
    if (record->kind == EMU_HOSTLINK_CONTROL || record->kind == EMU_HOSTLINK_STEP) {
        lies_within(from, bytes, record->bytes, record->length);
    } else if (record->kind == EMU_HOSTLINK_ENTRY) {
        fuzz_must(record->payload_bytes <= EMU_PAYLOAD_BYTES, "a payload fits into a buffer");
        fuzz_must(record->has_buf || (!record->payload_bytes && !record->own_hdr),
                  "an entry without a buffer has no payload and no second header");
        lies_within(from, bytes, record->payload, record->payload_bytes);
        lies_within(from, bytes, record->own_hdr, record->own_hdr ? EMU_HDR_BYTES : 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint32_t cables = bytes ? data[0] : 0;
    uint8_t again[EMU_HOSTLINK_RECORD_BYTES];
    struct emu_hostlink_record record;
    uint32_t got;

    if (!bytes)
        return 0;
    for (data++, bytes--; (got = emu_hostlink_parse(data, (uint32_t)bytes, cables, &record));
         data += got, bytes -= got) {
        fuzz_must(got <= bytes && got <= sizeof again, "a record ends in its frame");
        fuzz_must(record.cable < (cables ? cables : 1), "the cable of a record exists");
        look_at(data, got, &record);
        fuzz_must(emu_hostlink_bytes(&record) == got,
                  "emu_hostlink_bytes() is the length of the parsed record");
        emu_hostlink_write(again, &record);
        fuzz_must(!memcmp(again, data, got), "a record that is parsed and written is unchanged");
    }
    return 0;
}
