/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker_test.c - a worker's thread by itself: it sleeps whatever its devices wait for, and comes
 * back when one is told something or its time has come.
 */
#include <unistd.h>

#include "emu/worker/worker.h"
#include "tests/test.h"

#define HANG_MS 60000                /* a hang, not a slow host */
#define REST_PS UINT64_C(1000000000) /* 1 ms */
#define ROUNDS  2000

/* A device that counts its steps. All but the atomics is its worker's. */
struct counter {
    struct emu_dev dev;
    uint64_t rest_ps;       /* what it says it can do without being stepped; EMU_NEVER */
    struct counter *peer;   /* told of every event that came here; NULL: nobody */
    _Atomic uint32_t told;  /* events that came */
    _Atomic uint32_t woke;  /* steps right after a sleep */
    _Atomic uint32_t early; /* timed: steps after a sleep, before the time it was for */
    uint64_t due_ps;        /* timed: that time */
};

static uint32_t counter_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct counter *c = (struct counter *)dev;
    uint64_t events = emu_dev_take(dev, EMU_EVENT_DATA);

    if (dev->worker->woke)
        atomic_fetch_add(&c->woke, 1);
    if (dev->timed && dev->worker->woke && !events && until_ps < c->due_ps)
        atomic_fetch_add(&c->early, 1);
    if (events) {
        atomic_fetch_add(&c->told, 1);
        if (c->peer)
            emu_dev_signal(&c->peer->dev, dev->worker, EMU_EVENT_DATA, 1);
    }
    if (!dev->timed)
        emu_dev_rest(dev, c->rest_ps);
    else if (c->rest_ps != EMU_NEVER)
        dev->next_ps = c->due_ps = until_ps + c->rest_ps;
    return events != 0;
}

static struct emu_worker *worker_with(struct counter *c, enum emu_clock_mode mode, uint64_t rest_ps)
{
    struct emu_clock clock = {.mode = mode};
    struct emu_worker *worker;

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, 1, &clock, NULL), 0);
    emu_dev_init(&c->dev, worker, counter_step);
    c->rest_ps = rest_ps;
    return worker;
}

/* Until *count is @least. */
static bool comes(_Atomic uint32_t *count, uint32_t least)
{
    uint32_t looks = 0;

    for (; atomic_load(count) < least && looks < HANG_MS * 50; looks++)
        usleep(20);
    return atomic_load(count) >= least;
}

static void sleep__who_waits_for_a_time_is_stepped_when_it_has_come(void)
{
    static const enum emu_clock_mode modes[] = {EMU_CLOCK_RAW, EMU_CLOCK_REAL};

    for (uint32_t i = 0; i < 2; i++) {
        struct counter c = {0};
        struct emu_worker *worker = worker_with(&c, modes[i], REST_PS);
        struct emu_thread *thread;

        emu_dev_signal_far(&c.dev, EMU_EVENT_DATA, 1);
        CU_ASSERT_EQUAL_FATAL(emu_thread_start(&thread, worker, "worker-test"), 0);
        CU_ASSERT_TRUE(comes(&c.woke, 20)); /* it does not stay awake until then */
        emu_thread_stop(thread);
        CU_ASSERT_EQUAL(atomic_load(&c.told), 1);
        CU_ASSERT_EQUAL(atomic_load(&c.early), 0);
        emu_worker_destroy(worker);
    }
}

/* The first is told when it sleeps, or is about to, and at random moments; and tells the second. */
static void sleep__who_is_told_something_is_stepped(void)
{
    static const uint64_t rests[] = {EMU_NEVER, REST_PS * 10 * HANG_MS};
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < 2; i++) {
        struct counter c[2] = {0};
        struct emu_worker *worker[2];
        struct emu_thread *thread[2];

        for (uint32_t w = 0; w < 2; w++)
            worker[w] = worker_with(&c[w], EMU_CLOCK_RAW, rests[i]);
        c[0].peer = &c[1];
        for (uint32_t w = 0; w < 2; w++)
            CU_ASSERT_EQUAL_FATAL(emu_thread_start(&thread[w], worker[w], "worker-test"), 0);
        for (uint32_t n = 1; n <= ROUNDS; n++) {
            if (test_random(&random) % 2)
                usleep((useconds_t)(test_random(&random) % 300));
            else
                CU_ASSERT_TRUE_FATAL(comes(&worker[0]->asleep, 1));
            emu_dev_signal_far(&c[0].dev, EMU_EVENT_DATA, 1);
            CU_ASSERT_TRUE_FATAL(comes(&c[1].told, n));
        }
        for (uint32_t w = 0; w < 2; w++) {
            emu_thread_stop(thread[w]);
            CU_ASSERT_EQUAL(atomic_load(&c[w].told), ROUNDS);
            emu_worker_destroy(worker[w]);
        }
    }
}

int main(void)
{
    static const struct test_case cases[] = {
        {"sleep__who_waits_for_a_time_is_stepped_when_it_has_come",
         sleep__who_waits_for_a_time_is_stepped_when_it_has_come},
        {"sleep__who_is_told_something_is_stepped", sleep__who_is_told_something_is_stepped},
        {NULL, NULL},
    };

    return test_run("worker", cases);
}
