/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads_test.c - two devices on two threads, joined by sockets, on clocks raw and real: each
 * wakes the other, and sleeps while idle.
 */
#include <string.h>
#include <unistd.h>

#include "tests/test.h"
#include "tests/fixtures/hostlink/duo.h"
#include "tests/fixtures/hostlink/lane.h"
#include "tests/fixtures/fixture.h"

#define HANG_CHECKS 600000u /* times 100 us: a hang, not a slow host */
#define ENTRIES     2000u
#define BURSTS      20u

static uint64_t seen(const struct duo *h)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < 2 * h->cables; i++)
        sum += atomic_load(&h->host[i / h->cables].end[i % h->cables].seen);
    return sum;
}

static bool is_up(const struct duo *h)
{
    for (uint32_t looks = 0; looks < HANG_CHECKS; looks++) {
        if (emu_hostlink_phase(h->host[0].link, 0) == EMU_HOSTLINK_UP &&
            emu_hostlink_phase(h->host[1].link, 0) == EMU_HOSTLINK_UP)
            return true;
        usleep(100);
    }
    return false;
}

static void threads_start(struct duo *h, struct emu_thread **thread)
{
    for (uint32_t host = 0; host < 2; host++)
        CU_ASSERT_EQUAL_FATAL(emu_thread_start(&thread[host], h->host[host].worker, NULL, "host"),
                              0);
    CU_ASSERT_TRUE_FATAL(is_up(h));
}

static void threads_stop(struct duo *h, struct emu_thread **thread)
{
    struct emu_worker *worker[2] = {h->host[0].worker, h->host[1].worker};

    fixture_threads_stop(thread, worker, 2);
}

/*
 * All ends of both hosts send @entries more, and are signalled. Both threads are stopped meanwhile.
 */
static void more(struct duo *h, struct emu_thread **thread, uint64_t entries)
{
    emu_threads_pause(thread, 2);
    for (uint32_t i = 0; i < 2 * h->cables; i++) {
        struct duo_end *end = &h->host[i / h->cables].end[i % h->cables];

        end->limit += entries;
        emu_dev_signal_remote(&end->dev, EMU_EVENT_CREDIT, 1);
    }
    emu_threads_resume(thread, 2);
}

static bool all_arrive(const struct duo *h, uint64_t entries)
{
    for (uint32_t looks = 0; looks < HANG_CHECKS && seen(h) < entries; looks++)
        usleep(100);
    return seen(h) >= entries;
}

/*
 * Bursts with sleeps between them. A thread that is not woken when a frame arrives, or when a full
 * socket accepts frames again, hangs here.
 */
static void threads__wake_each_other(enum emu_clock_mode mode, uint32_t kind)
{
    struct emu_thread *thread[2];
    uint64_t random = test_seed();
    struct duo h;

    duo_open(&h, &(struct duo_config){.kind = (enum duo_kind)kind,
                                      .mode = mode,
                                      .cables = 5,
                                      .depth = mode == EMU_CLOCK_RAW ? 40 : 0,
                                      .threads = true,
                                      .seed = test_seed()});
    threads_start(&h, thread);
    for (uint32_t burst = 1; burst <= BURSTS; burst++) {
        more(&h, thread, ENTRIES / BURSTS);
        if (burst % 2) /* packets may exceed the remaining limit */
            CU_ASSERT_TRUE_FATAL(all_arrive(&h, (uint64_t)burst * 2 * 5 * (ENTRIES / BURSTS)));
        usleep((useconds_t)(test_random(&random) % 3000));
    }
    CU_ASSERT_TRUE(all_arrive(&h, (uint64_t)2 * 5 * ENTRIES));
    if (mode == EMU_CLOCK_REAL) {
        struct emu_hostlink_clock clock = emu_hostlink_clock(h.host[0].link, 0);

        for (uint32_t looks = 0; looks < HANG_CHECKS && !clock.known; looks++) {
            usleep(100);
            clock = emu_hostlink_clock(h.host[0].link, 0);
        }
        CU_ASSERT_TRUE(clock.known);
    }
    threads_stop(&h, thread);
    CU_ASSERT_EQUAL(duo_wrong(&h), 0);
    for (uint32_t host = 0; host < 2; host++) {
        CU_ASSERT_EQUAL(emu_count_read(&duo_counts(&h, host)->cuts), 0);
        if (mode == EMU_CLOCK_REAL) { /* both hosts share one clock: the offset is 0 */
            const struct emu_hostlink_clock clock = emu_hostlink_clock(h.host[host].link, 0);

            CU_ASSERT_TRUE(!clock.known || (uint64_t)llabs(clock.offset_ns) <= clock.error_ns + 2);
        }
    }
    duo_close(&h);
}

static void threads__on_clock_raw(void)
{
    for (uint32_t kind = 0; kind < 3; kind++)
        threads__wake_each_other(EMU_CLOCK_RAW, kind);
}

static void threads__on_clock_real(void)
{
    for (uint32_t kind = 0; kind < 3; kind++)
        threads__wake_each_other(EMU_CLOCK_REAL, kind);
}

/*
 * An idle host link does not keep its worker awake: for each frame sent or received, keep-alive
 * included, the worker takes at most the passes that any waiter takes before it sleeps (wait.h),
 * plus some.
 */
static void threads__sleep_while_idle(void)
{
    const struct emu_hostlink_port_counts *counts;
    const struct emu_session_counts *session;
    uint64_t arrived, wakes, receives;
    struct emu_thread *thread[2];
    struct duo h;

    duo_open(&h, &(struct duo_config){.cables = 2, .threads = true, .seed = test_seed()});
    threads_start(&h, thread);
    counts = emu_hostlink_port_counts(h.host[0].link);
    session = emu_session_counts(emu_hostlink_session(h.host[0].link, 0));
    arrived = emu_count_read(&counts->frames);
    for (uint32_t looks = 0; looks < HANG_CHECKS && emu_count_read(&counts->frames) < arrived + 5;
         looks++)
        usleep(100);
    threads_stop(&h, thread);
    wakes = emu_count_read(&counts->frames) + emu_count_read(&session->frames_sent) + 10;
    receives = lane_receives(h.lane, 0);
    CU_ASSERT_TRUE(emu_count_read(&counts->frames) >= arrived + 5);
    CU_ASSERT_TRUE(receives <= wakes * 4 * (EMU_WAIT_SPINS + EMU_WAIT_YIELDS));
    duo_close(&h);
}

int main(void)
{
    static const struct test_case cases[] = {CASE(threads__on_clock_raw),
                                             CASE(threads__on_clock_real),
                                             CASE(threads__sleep_while_idle),
                                             {NULL, NULL}};

    return test_run("threads", cases);
}
