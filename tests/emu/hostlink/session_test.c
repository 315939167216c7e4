/* SPDX-License-Identifier: BSD-3-Clause */
/* session_test.c - records between two hosts arrive whatever the wire does. */
#include "emu/hostlink/session/session.h"

#include <errno.h>
#include <string.h>

#include "emu/util/count.h"
#include "tests/test.h"
#include "tests/fixtures/hostlink/talk.h"
#include "tests/fixtures/fixture.h"

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

/* Exactly the records that were sent arrived. */
static bool all_arrived(const struct talk *talk)
{
    return !talk->end[0].wrong && !talk->end[1].wrong && talk->end[0].got == talk->end[1].limit &&
           talk->end[1].got == talk->end[0].limit;
}

static void begin(struct talk *talk, const struct talk_config *config, uint64_t seed)
{
    talk_create(talk, config, seed);
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(talk_start(talk, i), 0);
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
    CU_ASSERT(all_arrived(&talk));
    for (uint32_t i = 0; i < 2; i++) {
        const struct emu_session_counts *counts = talk_counts(&talk, i);

        CU_ASSERT_EQUAL(emu_count_read(&counts->sent_again), 0);
        CU_ASSERT_EQUAL(emu_count_read(&counts->doubles), 0);
        CU_ASSERT_EQUAL(emu_count_read(&counts->incarnations), 1);
        CU_ASSERT(emu_session_rtt_ns(talk.end[i].session) > 0);
    }
    talk_destroy(&talk);
}

/*
 * The seed draws the faults: loss, duplicates, corruption, reordering, a full send queue, and a
 * device that is slow to release frames.
 */
static void records__arrive_over_bad_wires(void)
{
    uint64_t state = test_seed();

    for (uint32_t run = 0; run < TEST_ALONE(100u); run++) {
        struct talk_config config = {.keyed = run % 3 == 0 && !emu_auth_missing(),
                                     .window = 64u << test_draw(&state, 0, 2),
                                     .frame_bytes = run % 2 ? 1514 : 4000};
        uint64_t seed = test_random(&state);
        struct talk talk;

        begin(&talk, &config, seed);
        for (uint32_t i = 0; i < 2; i++)
            *wire_faults(talk.wire, i) =
                (struct wire_faults){.lost = (uint32_t)test_draw(&state, 0, 100000),
                                     .duplicated = (uint32_t)test_draw(&state, 0, 50000),
                                     .damaged = (uint32_t)test_draw(&state, 0, 50000),
                                     .delay_ns = test_draw(&state, 0, 100000),
                                     .jitter_ns = test_draw(&state, 0, 1) * MS,
                                     .each_ns = test_draw(&state, 0, 2000),
                                     .queue = (uint32_t)test_draw(&state, 0, 40),
                                     .hold_ns = test_draw(&state, 0, 1) * 300000};
        limit(&talk, 1000);
        if (!talk_until_done(&talk, 60 * S) || !all_arrived(&talk)) {
            printf("run %u\n", run);
            CU_FAIL("records are missing, or wrong");
        }
        talk_destroy(&talk);
    }
}

static uint64_t sum(const struct talk *talk, size_t offset)
{
    return fixture_counter(talk_counts(talk, 0), offset) +
           fixture_counter(talk_counts(talk, 1), offset);
}
#define SUM(talk, field) sum(talk, offsetof(struct emu_session_counts, field))

static void expect_incarnation(const struct talk *talk, uint32_t end, uint64_t incarnation)
{
    CU_ASSERT_EQUAL(emu_session_incarnation(talk->end[end].session), incarnation);
}

/* All records arrived over a good wire, in the @incarnation-th incarnation of both. */
static void expect_done(struct talk *talk, uint64_t incarnation)
{
    CU_ASSERT(talk_until_done(talk, 10 * S));
    CU_ASSERT(all_arrived(talk));
    expect_incarnation(talk, 0, incarnation);
    expect_incarnation(talk, 1, incarnation);
}

/*
 * The session learns how far frames are reordered, and then sends hardly any frame again without
 * need.
 */
static void reordering__is_not_taken_for_loss(void)
{
    const struct talk_config config = {.window = 256};
    uint64_t sent, again;
    struct talk talk;

    begin(&talk, &config, test_seed());
    for (uint32_t i = 0; i < 2; i++) {
        wire_faults(talk.wire, i)->jitter_ns = MS;
        wire_faults(talk.wire, i)->each_ns = 2000;
    }
    limit(&talk, 20000);
    expect_done(&talk, 1);
    sent = SUM(&talk, frames_sent);
    again = SUM(&talk, sent_again);
    limit(&talk, 60000);
    expect_done(&talk, 1);
    CU_ASSERT(SUM(&talk, out_of_order) > SUM(&talk, frames_sent) / 8);
    CU_ASSERT(SUM(&talk, sent_again) - again < (SUM(&talk, frames_sent) - sent) / 50);
    talk_destroy(&talk);
}

/* A wire that reorders and loses takes hardly longer than one that only reorders. */
static void loss__under_reordering_is_repaired_soon(void)
{
    const struct talk_config config = {.window = 256};
    uint64_t took_ns[2];
    struct talk talk;

    for (uint32_t run = 0; run < 2; run++) {
        begin(&talk, &config, test_seed());
        for (uint32_t i = 0; i < 2; i++)
            *wire_faults(talk.wire, i) = (struct wire_faults){.lost = run * 10000,
                                                              .jitter_ns = MS,
                                                              .delay_ns = 10000,
                                                              .each_ns = 2000};
        limit(&talk, 40000);
        took_ns[run] = talk.now_ns;
        expect_done(&talk, 1);
        took_ns[run] = talk.now_ns - took_ns[run];
        talk_destroy(&talk);
    }
    CU_ASSERT(took_ns[1] < 4 * took_ns[0]);
}

/* Lost frames are sent again, and hardly any others. */
static void loss__is_detected_by_later_frames(void)
{
    const struct talk_config config = {.window = 256};
    struct talk talk;

    begin(&talk, &config, test_seed());
    for (uint32_t i = 0; i < 2; i++) {
        wire_faults(talk.wire, i)->lost = 10000;
        wire_faults(talk.wire, i)->each_ns = 1000;
    }
    limit(&talk, 20000);
    expect_done(&talk, 1);
    CU_ASSERT(SUM(&talk, sent_again) > SUM(&talk, frames_sent) / 500);
    CU_ASSERT(SUM(&talk, sent_again) < SUM(&talk, frames_sent) / 50);
    CU_ASSERT(SUM(&talk, timeouts) < SUM(&talk, sent_again) / 4);
    talk_destroy(&talk);
}

/* Frame numbers wrap under loss. */
static void numbers__wrap(void)
{
    const struct talk_config config = {.window = 128};
    uint64_t state = test_seed();

    for (uint32_t run = 0; run < TEST_ALONE(20u); run++) {
        struct talk talk;

        talk_create(&talk, &config, test_random(&state));
        for (uint32_t i = 0; i < 2; i++) {
            talk.end[i].config.first_seq = UINT32_MAX - (uint32_t)test_draw(&state, 0, 200);
            wire_faults(talk.wire, i)->lost = 50000;
            wire_faults(talk.wire, i)->jitter_ns = 100000;
            CU_ASSERT_EQUAL(talk_start(&talk, i), 0);
        }
        limit(&talk, 3000);
        expect_done(&talk, 1);
        CU_ASSERT(emu_count_read(&talk_counts(&talk, 0)->frames_received) > 400);
        talk_destroy(&talk);
    }
}

/* Packet numbers never wrap: at the last one the incarnation ends and the next begins. */
static void packets__last_number_ends_the_incarnation(void)
{
    const struct talk_config config = {.keyed = !emu_auth_missing()};
    struct talk talk;

    talk_create(&talk, &config, test_seed());
    talk.end[0].config.first_packet = UINT64_MAX - 3000;
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(talk_start(&talk, i), 0);
    limit(&talk, UINT64_MAX);
    while (emu_session_incarnation(talk.end[0].session) < 4 && talk.now_ns < 40 * S)
        talk_step(&talk);
    limit(&talk, 10000);
    expect_done(&talk, 4);
    talk_destroy(&talk);
}

/*
 * A late host connects within two round trips; it does not wait for the peer's next periodic
 * greeting.
 */
static void start__late_host_connects_at_once(void)
{
    const struct talk_config config = {.silent_ns = 100 * MS};
    struct talk talk;
    char why[128];

    for (uint32_t first = 0; first < 2; first++) {
        talk_create(&talk, &config, test_seed() + first);
        limit(&talk, 10);
        CU_ASSERT_EQUAL(talk_start(&talk, first), 0);
        talk_for(&talk, 3210 * MS);
        CU_ASSERT_EQUAL(emu_session_state(talk.end[first].session), EMU_SESSION_CONNECTING);
        CU_ASSERT_PTR_NULL(emu_session_room(talk.end[first].session, 1));
        emu_session_why(talk.end[first].session, why, sizeof why);
        CU_ASSERT_STRING_EQUAL(why, "no frame has arrived from the other host");
        CU_ASSERT_EQUAL(talk_start(&talk, !first), 0);
        CU_ASSERT(talk_until_done(&talk, MS));
        CU_ASSERT(all_arrived(&talk));
        talk_destroy(&talk);
    }
}

/*
 * Two hosts on a machine that was suspended for longer than the silence limit keep their session. A
 * host that disappeared is still detected, even if its peer is slow.
 */
static void suspended(uint64_t silent_ns)
{
    const struct talk_config config = {.silent_ns = silent_ns};
    struct talk talk;
    uint32_t steps = 0;

    begin(&talk, &config, test_seed());
    limit(&talk, 0);
    talk_for(&talk, 50 * MS);
    expect_incarnation(&talk, 0, 1);
    talk.now_ns += 10 * silent_ns;
    emu_session_step(talk.end[0].session, talk.now_ns);
    talk_for(&talk, 3 * silent_ns);
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(emu_session_state(talk.end[i].session), EMU_SESSION_UP);
        expect_incarnation(&talk, i, 1);
    }
    talk_stop(&talk, 1);
    for (; emu_session_state(talk.end[0].session) == EMU_SESSION_UP && steps < 100; steps++) {
        talk.now_ns += silent_ns * 2 / 5;
        emu_session_step(talk.end[0].session, talk.now_ns);
    }
    CU_ASSERT_EQUAL(steps, 8); /* each step counts for an eighth */
    talk_destroy(&talk);
}

static void suspended__does_not_count_as_silence(void)
{
    suspended(100 * MS);
    suspended(5 * S);
}

/*
 * A restarted host ends its old incarnation at the peer at once, although the peer hears frames all
 * the time.
 */
static void restart__ends_the_old_incarnation(void)
{
    uint64_t state = test_seed();

    for (uint32_t run = 0; run < TEST_ALONE(20u); run++) {
        struct talk_config config = {.keyed = run % 2 && !emu_auth_missing()};
        struct talk talk;

        begin(&talk, &config, test_random(&state));
        limit(&talk, UINT64_MAX);
        talk_for(&talk, MS);
        expect_incarnation(&talk, 0, 1);
        for (uint64_t incarnation = 1; incarnation <= 5; incarnation++) {
            for (uint32_t i = 0; i < 2; i++) {
                wire_faults(talk.wire, i)->lost = (uint32_t)test_draw(&state, 0, 200000);
                wire_faults(talk.wire, i)->jitter_ns = 200000;
            }
            talk_for(&talk, test_draw(&state, 0, 3 * MS));
            talk_stop(&talk, 1);
            if (test_draw(&state, 0, 1))
                talk_for(&talk, test_draw(&state, 0, MS));
            CU_ASSERT_EQUAL(talk_start(&talk, 1), 0);
        }
        wire_faults(talk.wire, 0)->lost = wire_faults(talk.wire, 1)->lost = 0;
        limit(&talk, 0);
        talk_for(&talk, 2 * S);
        CU_ASSERT(talk_is_up(&talk));
        for (uint32_t i = 0; i < 2; i++)
            talk.end[i].limit = talk.end[i].put + 500;
        CU_ASSERT(talk_until_done(&talk, S));
        CU_ASSERT(all_arrived(&talk));
        CU_ASSERT(emu_session_incarnation(talk.end[0].session) > 1);
        CU_ASSERT(emu_session_incarnation(talk.end[1].session) < 4); /* of its last start */
        talk_destroy(&talk);
    }
}

/* Both restart again and again, at random times, over a bad wire: in the end they connect. */
static void restart__both_at_random_times_connect(void)
{
    uint64_t state = test_seed();

    for (uint32_t run = 0; run < TEST_ALONE(50u); run++) {
        struct talk_config config = {.silent_ns = run % 2 ? 50 * MS : 0};
        struct talk talk;

        begin(&talk, &config, test_random(&state));
        limit(&talk, 1000);
        for (uint32_t i = 0; i < 2; i++)
            *wire_faults(talk.wire, i) =
                (struct wire_faults){.lost = 200000,
                                     .duplicated = 100000,
                                     .jitter_ns = test_draw(&state, 0, 40) * MS};
        for (uint32_t i = 0; i < 10; i++) {
            uint32_t end = (uint32_t)test_draw(&state, 0, 1);

            talk_for(&talk, test_draw(&state, 0, 60 * MS));
            talk_stop(&talk, end);
            CU_ASSERT_EQUAL(talk_start(&talk, end), 0);
        }
        for (uint32_t i = 0; i < 2; i++)
            *wire_faults(talk.wire, i) = (struct wire_faults){.delay_ns = 1000};
        CU_ASSERT(talk_until_done(&talk, 10 * S));
        CU_ASSERT(all_arrived(&talk));
        talk_destroy(&talk);
    }
}

/* Without records for a long time, keep-alive frames hold the session up. */
static void silence__without_records_keeps_the_session(void)
{
    const struct talk_config config = {.silent_ns = 20 * MS};
    struct talk talk;

    begin(&talk, &config, test_seed());
    for (uint32_t i = 0; i < 2; i++)
        wire_faults(talk.wire, i)->lost = 100000; /* 8 in a row are hardly ever lost */
    talk_for(&talk, S);
    limit(&talk, 100);
    expect_done(&talk, 1);
    CU_ASSERT(SUM(&talk, frames_sent) < 2 * 8 * 55);
    talk_destroy(&talk);
}

/* A wire cut for less than the silence limit loses nothing, and traffic resumes soon. */
static void cut__short_loses_nothing(void)
{
    const struct talk_config config = {.silent_ns = 5 * S, .window = 256};
    struct talk talk;

    begin(&talk, &config, test_seed());
    limit(&talk, 50000);
    for (uint32_t i = 0; i < 2; i++)
        wire_faults(talk.wire, i)->each_ns = 1000;
    talk_for(&talk, MS);
    wire_cut(talk.wire, talk.now_ns + 2 * S);
    talk_for(&talk, 2 * S);
    CU_ASSERT(talk_is_up(&talk));
    CU_ASSERT(!talk_until_done(&talk, 1)); /* it was cut in mid-transfer */
    expect_done(&talk, 1);
    CU_ASSERT(SUM(&talk, timeouts) < 2 * 40); /* it retried with backoff */
    talk_destroy(&talk);
}

/* A longer cut starts a new incarnation at both ends. */
static void cut__long_starts_a_new_incarnation(void)
{
    const struct talk_config config = {.silent_ns = 100 * MS};
    struct talk talk;

    for (uint32_t run = 0; run < 3; run++) {
        begin(&talk, &config, test_seed() + run);
        limit(&talk, 5000);
        for (uint32_t i = 0; i < 2; i++)
            wire_faults(talk.wire, i)->each_ns = 10000;
        talk_for(&talk, 3 * MS);
        if (run < 2)
            wire_faults(talk.wire, run)->lost = WIRE_UNIT; /* one direction only */
        else
            wire_cut(talk.wire, talk.now_ns + 300 * MS);
        talk_for(&talk, 250 * MS);
        CU_ASSERT(!talk_is_up(&talk));
        CU_ASSERT_EQUAL(wire_free(talk.wire, 0), 3 * 64 + 128);
        wire_faults(talk.wire, 0)->lost = wire_faults(talk.wire, 1)->lost = 0;
        expect_done(&talk, 2);
        talk_destroy(&talk);
    }
}

/* A full window accepts nothing more, whatever is lost, until the peer acknowledges some of it. */
static void window__full_accepts_nothing(void)
{
    const struct talk_config config = {.window = 64};
    struct talk talk;
    struct emu_session *session;
    uint32_t frames = 0;

    begin(&talk, &config, test_seed());
    talk_for(&talk, 20 * MS);
    wire_faults(talk.wire, 0)->lost = WIRE_UNIT;
    session = talk.end[0].session;
    while (emu_session_room(session, emu_session_record_max(session))) {
        emu_session_put(session, emu_session_record_max(session));
        frames++;
    }
    CU_ASSERT_EQUAL(frames, 64);
    CU_ASSERT_PTR_NULL(emu_session_room(session, 1));
    talk_for(&talk, 100 * MS);
    CU_ASSERT_PTR_NULL(emu_session_room(session, 1));
    wire_faults(talk.wire, 0)->lost = 0;
    talk_for(&talk, 300 * MS);
    CU_ASSERT_PTR_NOT_NULL(emu_session_room(session, emu_session_record_max(session)));
    talk_destroy(&talk);
}

/* Records sent together share frames, and a record that fits exactly is sent. */
static void records__share_frames(void)
{
    const struct talk_config config = {.frame_bytes = 512};
    struct talk talk;
    struct emu_session *session;
    uint64_t before;

    begin(&talk, &config, test_seed());
    talk_for(&talk, MS);
    session = talk.end[0].session;
    before = emu_count_read(&talk_counts(&talk, 0)->frames_sent);
    CU_ASSERT_EQUAL(emu_session_record_max(session), 512 - emu_frame_bytes(0));
    CU_ASSERT_PTR_NULL(emu_session_room(session, emu_session_record_max(session) + 1));
    for (uint32_t i = 0; i < emu_session_record_max(session); i++) {
        uint8_t *to = emu_session_room(session, 1);

        CU_ASSERT_PTR_NOT_NULL_FATAL(to);
        *to = 0;
        emu_session_put(session, 1);
    }
    emu_session_step(session, talk.now_ns);
    CU_ASSERT_EQUAL(emu_count_read(&talk_counts(&talk, 0)->frames_sent) - before, 1);
    talk_destroy(&talk);
}

/* Where frame and window sizes differ, both ends use the smaller. */
static void sizes__are_the_smaller_of_both(void)
{
    const struct talk_config config = {.window = 256, .frame_bytes = 4000};
    struct talk talk;

    talk_create(&talk, &config, test_seed());
    talk.end[0].config.port->frame_bytes = 1000;
    talk.end[1].config.window = 64;
    for (uint32_t i = 0; i < 2; i++) {
        wire_faults(talk.wire, i)->lost = 20000;
        CU_ASSERT_EQUAL(talk_start(&talk, i), 0);
    }
    limit(&talk, 3000);
    expect_done(&talk, 1);
    CU_ASSERT_EQUAL(emu_session_record_max(talk.end[1].session), 1000 - emu_frame_bytes(0));
    CU_ASSERT_EQUAL(SUM(&talk, beyond), 0);
    talk_destroy(&talk);
}

/* While an end has no free frame, it waits and then continues. */
static void frames__exhausted_are_waited_for(void)
{
    const struct talk_config config = {.silent_ns = S};
    struct talk talk;

    for (uint32_t end = 0; end < 2; end++) {
        begin(&talk, &config, test_seed() + end);
        limit(&talk, 2000);
        talk_for(&talk, MS / 2);
        wire_reserve(talk.wire, end, end);
        talk_for(&talk, 200 * MS);
        CU_ASSERT(talk_is_up(&talk));
        wire_release(talk.wire, end);
        expect_done(&talk, 1);
        talk_destroy(&talk);
    }
}

/* A device keeps frames long after their time-out: a copy is retransmitted. */
static void frames__held_by_the_device_are_not_written(void)
{
    const struct talk_config config = {.frames = 1000};
    struct talk talk;

    begin(&talk, &config, test_seed());
    limit(&talk, 2000);
    for (uint32_t i = 0; i < 2; i++) {
        wire_faults(talk.wire, i)->hold_ns = 10 * MS;
        wire_faults(talk.wire, i)->lost = 50000;
    }
    expect_done(&talk, 1);
    CU_ASSERT(SUM(&talk, sent_again) > 0);
    talk_destroy(&talk);
}

static void config__invalid_is_refused(void)
{
    const struct talk_config config = {.window = 64};
    struct talk talk;
    struct emu_session_config *wrong = &talk.end[0].config;
    static const uint32_t windows[] = {0, 1, 32, 63, 65, 96, 8192, UINT32_MAX};

    talk_create(&talk, &config, test_seed());
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        wrong->window = windows[i];
        CU_ASSERT_EQUAL(talk_start(&talk, 0), -EINVAL);
    }
    wrong->window = 64;
    wrong->silent_ns = 0;
    CU_ASSERT_EQUAL(talk_start(&talk, 0), -EINVAL);
    wrong->silent_ns = UINT64_MAX;
    wrong->port->frame_bytes = 511;
    CU_ASSERT_EQUAL(talk_start(&talk, 0), -EINVAL);
    wrong->port->frame_bytes = 65536;
    CU_ASSERT_EQUAL(talk_start(&talk, 0), -EINVAL);
    wrong->port->frame_bytes = 512;
    wrong->peer = wrong->host;
    CU_ASSERT_EQUAL(talk_start(&talk, 0), -EINVAL);
    CU_ASSERT_PTR_NULL(talk.end[0].session);
    talk_destroy(&talk);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(records__arrive_over_a_good_wire),
        CASE(records__arrive_over_bad_wires),
        CASE(records__share_frames),
        CASE(reordering__is_not_taken_for_loss),
        CASE(loss__is_detected_by_later_frames),
        CASE(loss__under_reordering_is_repaired_soon),
        CASE(numbers__wrap),
        CASE(packets__last_number_ends_the_incarnation),
        CASE(start__late_host_connects_at_once),
        CASE(suspended__does_not_count_as_silence),
        CASE(restart__ends_the_old_incarnation),
        CASE(restart__both_at_random_times_connect),
        CASE(silence__without_records_keeps_the_session),
        CASE(cut__short_loses_nothing),
        CASE(cut__long_starts_a_new_incarnation),
        CASE(window__full_accepts_nothing),
        CASE(sizes__are_the_smaller_of_both),
        CASE(frames__exhausted_are_waited_for),
        CASE(frames__held_by_the_device_are_not_written),
        CASE(config__invalid_is_refused),
        {NULL, NULL},
    };

    return test_run("session", cases);
}
