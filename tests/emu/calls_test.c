/* SPDX-License-Identifier: BSD-3-Clause */
/* calls_test.c - store and read the calls of a recording. */
#include "emu/hostif/calls.h"

#include <stdlib.h>
#include <string.h>

#include "emu/util/random.h"
#include "tests/test.h"

#define CALLS 5000u

static struct emu_call call_at_random(uint64_t *random)
{
    static const uint64_t bytes[] = {0, 1, 8, 127, 128, 1 << 20, UINT64_MAX};
    static const uint32_t nodes[] = {0, 1, 127, 65535, EMU_CALL_NO_NODE};

    return (struct emu_call){
        .kind = (enum emu_call_kind)(emu_splitmix(random) % EMU_CALL_KINDS),
        .node = nodes[emu_splitmix(random) % (sizeof nodes / sizeof *nodes)],
        .bytes = bytes[emu_splitmix(random) % (sizeof bytes / sizeof *bytes)],
        .ns = emu_splitmix(random) >> emu_splitmix(random) % 64,
    };
}

static void calls__are_read_as_they_were_stored(void)
{
    static uint8_t stored[CALLS * EMU_CALL_BYTES];
    uint64_t random = 1, again = random;
    struct emu_calls put = {0}, get = {0};
    size_t bytes = 0, at = 0;

    for (uint32_t i = 0; i < CALLS; i++) {
        const struct emu_call call = call_at_random(&random);
        size_t used = emu_call_put(&put, &call, stored + bytes);

        CU_ASSERT_TRUE(used >= 2 && used <= EMU_CALL_BYTES);
        bytes += used;
    }
    for (uint32_t i = 0; i < CALLS; i++) {
        const struct emu_call call = call_at_random(&again);
        struct emu_call read;
        size_t used = emu_call_get(&get, stored + at, bytes - at, &read);

        /* a call that is cut off is none */
        for (size_t cut = 0; cut < used; cut++) {
            struct emu_calls before = get;

            CU_ASSERT_EQUAL(emu_call_get(&before, stored + at, cut, &read), 0);
        }
        CU_ASSERT_EQUAL(emu_call_get(&get, stored + at, bytes - at, &read), used);
        CU_ASSERT_TRUE(read.kind == call.kind && read.node == call.node &&
                       read.bytes == call.bytes && read.ns == call.ns);
        at += used;
    }
    CU_ASSERT_EQUAL(at, bytes);
}

/* Random bytes are read without an access beyond their end, and their calls have valid fields. */
static void calls__of_random_bytes_are_valid_or_refused(void)
{
    uint64_t random = 2;

    for (uint32_t i = 0; i < 20000; i++) {
        size_t bytes = emu_splitmix(&random) % 64;
        uint8_t *data = malloc(bytes + !bytes); /* of this size, for the address sanitizer */
        struct emu_calls calls = {0};
        struct emu_call call;
        char text[24];

        for (size_t b = 0; b < bytes; b++)
            data[b] = (uint8_t)(emu_splitmix(&random) % 4 ? emu_splitmix(&random) & 0x9f
                                                          : emu_splitmix(&random));
        for (size_t at = 0, used; (used = emu_call_get(&calls, data + at, bytes - at, &call));
             at += used) {
            CU_ASSERT_TRUE(at + used <= bytes && call.kind < EMU_CALL_KINDS);
            emu_call_text(&call, text, sizeof text);
        }
        free(data);
    }
}

static void calls__have_a_text(void)
{
    const struct emu_call send = {.kind = EMU_CALL_SEND, .node = 2, .bytes = 8};
    const struct emu_call any = {.kind = EMU_CALL_RECEIVE, .node = EMU_CALL_NO_NODE};
    const struct emu_call barrier = {.kind = EMU_CALL_BARRIER, .node = EMU_CALL_NO_NODE};
    char text[64];

    emu_call_text(&send, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "a send of 8 bytes to node 2");
    emu_call_text(&any, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "a receive of 0 bytes from any node");
    emu_call_text(&barrier, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, "a barrier");
    emu_call_text(&send, text, 10);
    CU_ASSERT_STRING_EQUAL(text, "a send of");
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(calls__are_read_as_they_were_stored),
        CASE(calls__of_random_bytes_are_valid_or_refused),
        CASE(calls__have_a_text),
        {0},
    };

    return test_run("calls", cases);
}
