/* SPDX-License-Identifier: BSD-3-Clause */
/* session_test.c - what two hosts say to each other arrives, whatever the wire does. */
#include "emu/hostlink/session.h"

#include <errno.h>
#include <string.h>

#include "emu/count.h"
#include "tests/test.h"
#include "tests/world/hostlink/talk.h"

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

/* All that was put in came, and nothing else. */
static bool all_right(const struct talk *talk)
{
    return !talk->end[0].wrong && !talk->end[1].wrong && talk->end[0].got == talk->end[1].limit &&
           talk->end[1].got == talk->end[0].limit;
}

static void begin(struct talk *talk, const struct talk_config *config, uint64_t seed)
{
    talk_create(talk, config, seed);
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(talk_come(talk, i), 0);
}

static void limit(struct talk *talk, uint64_t records)
{
    talk->end[0].limit = talk->end[1].limit = records;
}

static void records__arrive_over_a_good_wire(void)
{
    const struct talk_config config = {.keyed = false};
    struct talk talk;

    begin(&talk, &config, test_seed());
    limit(&talk, 2000);
    CU_ASSERT(talk_until_done(&talk, S));
    CU_ASSERT(all_right(&talk));
    for (uint32_t i = 0; i < 2; i++) {
        const struct emu_session_counts *counts = talk_counts(&talk, i);

        CU_ASSERT_EQUAL(emu_count_read(&counts->sent_again), 0);
        CU_ASSERT_EQUAL(emu_count_read(&counts->doubles), 0);
        CU_ASSERT_EQUAL(emu_count_read(&counts->lives), 1);
        CU_ASSERT(emu_session_trip_ns(talk.end[i].session) > 0);
    }
    talk_destroy(&talk);
}

/* Loss, doubles, damage, frames that overtake others, a full send queue, a device that is slow to
 * give frames back: drawn anew for each seed. */
static void records__arrive_over_bad_wires(void)
{
    uint64_t state = test_seed();

    for (uint32_t run = 0; run < 100; run++) {
        struct talk_config config = {.keyed = run % 3 == 0 && !emu_session_key_missing(),
                                     .window = 64u << test_draw(&state, 0, 2),
                                     .frame_bytes = run % 2 ? 1514 : 4000};
        uint64_t seed = test_random(&state);
        struct talk talk;

        begin(&talk, &config, seed);
        for (uint32_t i = 0; i < 2; i++)
            *wire_faults(talk.wire, i) =
                (struct wire_faults){.lost = (uint32_t)test_draw(&state, 0, 100000),
                                     .twice = (uint32_t)test_draw(&state, 0, 50000),
                                     .damaged = (uint32_t)test_draw(&state, 0, 50000),
                                     .delay_ns = test_draw(&state, 0, 100000),
                                     .jitter_ns = test_draw(&state, 0, 1) * MS,
                                     .each_ns = test_draw(&state, 0, 2000),
                                     .queue = (uint32_t)test_draw(&state, 0, 40),
                                     .hold_ns = test_draw(&state, 0, 1) * 300000};
        limit(&talk, 1000);
        if (!talk_until_done(&talk, 60 * S) || !all_right(&talk)) {
            printf("run %u\n", run);
            CU_FAIL("records are missing, or wrong");
        }
        talk_destroy(&talk);
    }
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(records__arrive_over_a_good_wire),
        CASE(records__arrive_over_bad_wires),
        {NULL, NULL},
    };

    return test_run("session", cases);
}
