/* SPDX-License-Identifier: BSD-3-Clause */
/* around_test.c - what is written around the caches is what would have been written. */
#include "emu/edge/around.h"

#include <stdalign.h>
#include <string.h>

#include "tests/test.h"

#define GUARD 64u

/* Header, first 8 bytes and the rest, from any place, and nothing beside the segment. */
static void around__writes_the_segment_and_nothing_else(void)
{
    alignas(EMU_LINE) struct emu_seg to[3], want[3];
    uint8_t from[EMU_PAYLOAD_BYTES + GUARD];
    const uint64_t first = UINT64_C(0x0123456789abcdef);
    const struct emu_hdr hdr = {.dst = 3, .src = 5, .seq = 7, .len = EMU_PAYLOAD_BYTES, .op = 9};

    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    for (size_t offset = 0; offset < GUARD; offset++) {
        memset(to, 0xee, sizeof to);
        memcpy(want, to, sizeof want);
        want[1].hdr = hdr;
        memcpy(want[1].payload, &first, sizeof first);
        memcpy(want[1].payload + 8, from + offset, EMU_PAYLOAD_BYTES - 8);
        emu_around_write(&to[1], emu_hdr_words(&hdr), &first, from + offset);
        emu_around_end();
        CU_ASSERT_EQUAL(memcmp(to, want, sizeof to), 0);
    }
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(around__writes_the_segment_and_nothing_else),
        {NULL, NULL},
    };

    return test_run("around", cases);
}
