/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker_test.c - a worker's thread by itself: it sleeps whatever its devices wait for, and comes
 * back when one is told something or its time has come; and a worker's window in simulated time.
 */
#include <unistd.h>

#include "emu/worker/worker.h"
#include "tests/test.h"

#define HANG_MS 60000                /* a hang, not a slow host */
#define REST_PS UINT64_C(1000000000) /* 1 ms */
#define ROUNDS  TEST_TRIALS(2000u)
#define ROW     130u /* devices: several words of bits */

/* A device that counts its steps. All but the atomics is its worker's. */
struct counter {
    struct emu_dev dev;
    uint64_t max_sleep_ps;  /* what it says it can do without being stepped; EMU_NEVER */
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
        emu_dev_poll_within(dev, c->max_sleep_ps);
    else if (c->max_sleep_ps != EMU_NEVER)
        dev->next_ps = c->due_ps = until_ps + c->max_sleep_ps;
    return events != 0;
}

static struct emu_worker *worker_with(struct counter *c, enum emu_clock_mode mode,
                                      uint64_t max_sleep_ps)
{
    struct emu_clock clock = {.mode = mode};
    struct emu_worker *worker;

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, 1, &clock, NULL), 0);
    emu_dev_init(&c->dev, worker, counter_step);
    c->max_sleep_ps = max_sleep_ps;
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

        emu_dev_signal_remote(&c.dev, EMU_EVENT_DATA, 1);
        CU_ASSERT_EQUAL_FATAL(emu_thread_start(&thread, worker, "worker-test"), 0);
        CU_ASSERT_TRUE(comes(&c.woke, 20)); /* it does not stay awake until then */
        emu_thread_stop(thread);
        CU_ASSERT_EQUAL(atomic_load(&c.told), 1);
        CU_ASSERT_EQUAL(atomic_load(&c.early), 0);
        emu_worker_destroy(worker);
    }
}

/* Devices in a row, each of which tells the next one; @back: the one before it. */
static uint32_t passes_through(bool back)
{
    struct emu_clock clock = {.mode = EMU_CLOCK_RAW};
    struct counter c[ROW] = {0};
    struct emu_worker *worker;
    uint32_t passes = 0, last = back ? 0 : ROW - 1;

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, ROW, &clock, NULL), 0);
    for (uint32_t i = 0; i < ROW; i++) {
        emu_dev_init(&c[i].dev, worker, counter_step);
        c[i].max_sleep_ps = EMU_NEVER;
        if (i != last)
            c[i].peer = back ? &c[i - 1] : &c[i + 1];
    }
    emu_dev_signal_remote(&c[ROW - 1 - last].dev, EMU_EVENT_DATA, 1);
    while (!atomic_load(&c[last].told) && passes < 2 * ROW) {
        emu_worker_pass(worker);
        passes++;
    }
    for (uint32_t i = 0; i < ROW; i++)
        CU_ASSERT_EQUAL(atomic_load(&c[i].told), 1);
    emu_worker_destroy(worker);
    return passes;
}

static void pass__who_is_behind_is_stepped_in_the_same(void)
{
    CU_ASSERT_EQUAL(passes_through(false), 1);
    CU_ASSERT_EQUAL(passes_through(true), (ROW + 1) / 2); /* bounded: there are two rounds */
}

/* The first is told when it sleeps, or is about to, and at random moments; and tells the second. */
static void sleep__who_is_reported_something_is_stepped(void)
{
    static const uint64_t poll_next[] = {EMU_NEVER, REST_PS * 10 * HANG_MS};
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < 2; i++) {
        struct counter c[2] = {0};
        struct emu_worker *worker[2];
        struct emu_thread *thread[2];

        for (uint32_t w = 0; w < 2; w++)
            worker[w] = worker_with(&c[w], EMU_CLOCK_RAW, poll_next[i]);
        c[0].peer = &c[1];
        for (uint32_t w = 0; w < 2; w++)
            CU_ASSERT_EQUAL_FATAL(emu_thread_start(&thread[w], worker[w], "worker-test"), 0);
        for (uint32_t n = 1; n <= ROUNDS; n++) {
            if (test_random(&random) % 2)
                usleep((useconds_t)(test_random(&random) % 300));
            else
                CU_ASSERT_TRUE_FATAL(comes(&worker[0]->asleep, 1));
            emu_dev_signal_remote(&c[0].dev, EMU_EVENT_DATA, 1);
            CU_ASSERT_TRUE_FATAL(comes(&c[1].told, n));
        }
        for (uint32_t w = 0; w < 2; w++) {
            emu_thread_stop(thread[w]);
            CU_ASSERT_EQUAL(atomic_load(&c[w].told), ROUNDS);
            emu_worker_destroy(worker[w]);
        }
    }
}

/* --- windows ------------------------------------------------------------------------ */

/* A device that notes when it is stepped, and what was asked for before. */
struct noter {
    struct emu_dev dev;
    uint32_t *steps;  /* of all devices, so far */
    uint32_t place;   /* its own step is so many-th; 0: not yet */
    uint32_t fetched; /* calls so far */
    bool wrong;       /* a call after its step, or not in their order */
};

static uint32_t noter_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct noter *n = (struct noter *)dev;

    (void)until_ps;
    n->wrong |= n->place || !emu_dev_take(dev, EMU_EVENT_DATA);
    n->place = ++*n->steps;
    dev->next_ps = EMU_NEVER;
    return 0;
}

/* What it keeps is its own: nobody else's is given to it. */
static uint64_t noter_fetch(const struct emu_dev *dev, enum emu_fetch what, uint64_t kept)
{
    struct noter *n = (struct noter *)(uintptr_t)dev;

    n->wrong |= n->place || n->fetched != (uint32_t)what ||
                kept != (what ? (uint64_t)dev->index << 8 | (what - 1) : 0) ||
                emu_dev_signalled(dev, EMU_EVENT_DATA) != 1;
    n->fetched++;
    return (uint64_t)dev->index << 8 | what;
}

/* Each that is told something is stepped once, in their order, whether looked ahead at or not. */
static void window__steps_in_order_and_samples_ahead(void)
{
    static const uint32_t devs[] = {1, 64, 1023, 1024, 1025, 3000};
    static struct noter n[3000];
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < 6 * 8; i++) {
        struct emu_clock clock = {.mode = EMU_CLOCK_VIRTUAL};
        uint32_t count = devs[i / 8], of = 1u << i % 8, steps = 0, told = 0, ahead = 0;
        struct emu_worker *worker;

        CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, count, &clock, NULL), 0);
        for (uint32_t d = 0; d < count; d++) {
            n[d] = (struct noter){.steps = &steps};
            emu_dev_init(&n[d].dev, worker, noter_step);
            n[d].dev.fetch = d % 7 ? noter_fetch : NULL;
        }
        for (uint32_t d = 0; d < count; d++)
            if (test_random(&random) % of == 0)
                emu_dev_signal(&n[d].dev, worker, EMU_EVENT_DATA, 1);
        for (uint32_t d = 0; d < count; d++)
            n[d].fetched = worker->signalled.near[d / 64] >> d % 64 & 1 ? 0 : EMU_FETCHES;
        CU_ASSERT_EQUAL(emu_worker_window(worker, 1000), EMU_NEVER);
        for (uint32_t d = 0; d < count; d++) {
            if (!n[d].place)
                continue;
            CU_ASSERT_EQUAL(n[d].place, ++told);
            CU_ASSERT_FALSE(n[d].wrong);
            ahead += n[d].fetched;
        }
        CU_ASSERT_EQUAL(steps, told);
        CU_ASSERT_TRUE(count >= 1024 ? ahead > told || told < 8 : ahead == 0);
        CU_ASSERT_EQUAL(emu_worker_window(worker, 2000), EMU_NEVER); /* nobody is stepped again */
        CU_ASSERT_EQUAL(steps, told);
        emu_worker_destroy(worker);
    }
}

/* What it was told of credits in its last step. All of it is its worker's. */
struct debtor {
    struct emu_dev dev;
    uint32_t steps;
    uint64_t credits;
};

static uint32_t debtor_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct debtor *d = (struct debtor *)dev;

    (void)until_ps;
    d->steps++;
    d->credits = emu_dev_take(dev, EMU_EVENT_CREDIT);
    return 0;
}

/* A credit that nobody waits for steps nobody; who is stepped is told of all that came before. */
static void credit__steps_who_wants_it(void)
{
    struct emu_clock clock = {.mode = EMU_CLOCK_REAL};
    struct debtor d = {.steps = 0};
    struct emu_worker *worker;

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, 1, &clock, NULL), 0);
    emu_dev_init(&d.dev, worker, debtor_step);
    emu_signal_credit(worker, d.dev.index, worker, 63); /* at first it wants all */
    emu_worker_pass(worker);
    CU_ASSERT_EQUAL(d.steps, 1);
    CU_ASSERT_EQUAL(d.credits, emu_bit(63));
    emu_dev_wants(&d.dev, emu_bit(5));
    emu_signal_credit(worker, d.dev.index, worker, 63);
    CU_ASSERT_TRUE(emu_worker_quiet(worker));
    emu_worker_pass(worker);
    CU_ASSERT_EQUAL(d.steps, 1);
    emu_signal_credit(worker, d.dev.index, worker, 5);
    CU_ASSERT_FALSE(emu_worker_quiet(worker));
    emu_worker_pass(worker);
    CU_ASSERT_EQUAL(d.steps, 2);
    CU_ASSERT_EQUAL(d.credits, emu_bit(63) | emu_bit(5));
    emu_signal_credit(worker, d.dev.index, NULL, 63); /* from elsewhere, who cannot know */
    emu_worker_pass(worker);
    CU_ASSERT_EQUAL(d.steps, 3);
    emu_worker_destroy(worker);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"sleep__who_waits_for_a_time_is_stepped_when_it_has_come",
         sleep__who_waits_for_a_time_is_stepped_when_it_has_come},
        {"sleep__who_is_reported_something_is_stepped",
         sleep__who_is_reported_something_is_stepped},
        {"pass__who_is_behind_is_stepped_in_the_same", pass__who_is_behind_is_stepped_in_the_same},
        {"credit__steps_who_wants_it", credit__steps_who_wants_it},
        {"window__steps_in_order_and_samples_ahead", window__steps_in_order_and_samples_ahead},
        {NULL, NULL},
    };

    return test_run("worker", cases);
}
