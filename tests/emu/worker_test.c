/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker_test.c - the thread of a worker: it sleeps while its devices wait, and wakes when a device
 * is signalled or the time of a device has come; and the windows of workers in simulated time. The
 * linker wraps sched_yield(), so that a test can count the yields.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emu/util/now.h"
#include "emu/util/wait.h"
#include "emu/worker/windows.h"
#include "emu/worker/worker.h"
#include "tests/test.h"

#define HANG_MS 60000                /* a hang, not a slow host */
#define REST_PS UINT64_C(1000000000) /* 1 ms */
#define ROUNDS  TEST_TRIALS(2000u)
#define ROW     130u /* devices: several words of bits */

/* A device that counts its steps. Its worker owns all but the atomics. */
struct counter {
    struct emu_dev dev;
    uint64_t max_sleep_ps;   /* how long it can do without being stepped; EMU_NEVER */
    struct counter *peer;    /* signalled for every event here; NULL: none */
    _Atomic uint32_t events; /* events received */
    _Atomic uint32_t woke;   /* steps right after a sleep */
    _Atomic uint32_t early;  /* timed: steps after a sleep but before the due time */
    uint64_t due_ps;         /* timed: the due time */
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
        atomic_fetch_add(&c->events, 1);
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

/* Wait until *count is at least @least. */
static bool reaches(_Atomic uint32_t *count, uint32_t least)
{
    uint32_t looks = 0;

    for (; atomic_load(count) < least && looks < HANG_MS * 50; looks++)
        usleep(20);
    return atomic_load(count) >= least;
}

static void sleep__timed_device_is_stepped_on_time(void)
{
    static const enum emu_clock_mode modes[] = {EMU_CLOCK_RAW, EMU_CLOCK_REAL};

    for (uint32_t i = 0; i < 2; i++) {
        struct counter c = {0};
        struct emu_worker *worker = worker_with(&c, modes[i], REST_PS);
        struct emu_thread *thread;

        emu_dev_signal_remote(&c.dev, EMU_EVENT_DATA, 1);
        CU_ASSERT_EQUAL_FATAL(emu_thread_start(&thread, worker, NULL, "worker-test"), 0);
        CU_ASSERT_TRUE(reaches(&c.woke, 20)); /* it does not stay awake until then */
        emu_thread_stop(thread);
        CU_ASSERT_EQUAL(atomic_load(&c.events), 1);
        CU_ASSERT_EQUAL(atomic_load(&c.early), 0);
        emu_worker_destroy(worker);
    }
}

/* A row of devices, each of which signals the next; @back: the previous one. */
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
    while (!atomic_load(&c[last].events) && passes < 2 * ROW) {
        emu_worker_pass(worker);
        passes++;
    }
    for (uint32_t i = 0; i < ROW; i++)
        CU_ASSERT_EQUAL(atomic_load(&c[i].events), 1);
    emu_worker_destroy(worker);
    return passes;
}

static void pass__later_device_is_stepped_in_the_same_pass(void)
{
    CU_ASSERT_EQUAL(passes_through(false), 1);
    CU_ASSERT_EQUAL(passes_through(true), (ROW + 1) / 2); /* two rounds per pass */
}

/*
 * The first device is signalled while the worker sleeps, while it is about to sleep, or at a random
 * time. Then the first device signals the second. The workers count as oversubscribed, so that they
 * sleep after a few yields: on a loaded host a yield takes milliseconds.
 */
static void sleep__signalled_device_is_stepped(void)
{
    static const uint64_t poll_next[] = {EMU_NEVER, REST_PS * 10 * HANG_MS};
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < 2; i++) {
        struct counter c[2] = {0};
        struct emu_worker *worker[2];
        struct emu_thread *thread[2];

        for (uint32_t w = 0; w < 2; w++) {
            worker[w] = worker_with(&c[w], EMU_CLOCK_RAW, poll_next[i]);
            atomic_store(&worker[w]->oversubscribed, 1);
        }
        c[0].peer = &c[1];
        for (uint32_t w = 0; w < 2; w++)
            CU_ASSERT_EQUAL_FATAL(emu_thread_start(&thread[w], worker[w], NULL, "worker-test"), 0);
        for (uint32_t n = 1; n <= ROUNDS; n++) {
            if (test_random(&random) % 2)
                usleep((useconds_t)(test_random(&random) % 300));
            else
                CU_ASSERT_TRUE_FATAL(reaches(&worker[0]->asleep, 1));
            emu_dev_signal_remote(&c[0].dev, EMU_EVENT_DATA, 1);
            CU_ASSERT_TRUE_FATAL(reaches(&c[1].events, n));
        }
        for (uint32_t w = 0; w < 2; w++) {
            emu_thread_stop(thread[w]);
            CU_ASSERT_EQUAL(atomic_load(&c[w].events), ROUNDS);
            emu_worker_destroy(worker[w]);
        }
    }
}

/* --- windows ------------------------------------------------------------------------ */

/* A device that records when it is stepped and which prefetches preceded the step. */
struct noter {
    struct emu_dev dev;
    uint32_t *steps;  /* of all devices, so far */
    uint32_t place;   /* order of its own step; 0: not yet */
    uint32_t fetched; /* calls so far */
    bool wrong;       /* a call after its step, or out of order */
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

/* A prefetch must pass this device its own state. */
static uint64_t noter_fetch(const struct emu_dev *dev, enum emu_fetch what, uint64_t kept)
{
    struct noter *n = (struct noter *)(uintptr_t)dev;

    n->wrong |= n->place || n->fetched != (uint32_t)what ||
                kept != (what ? (uint64_t)dev->index << 8 | (what - 1) : 0) ||
                emu_dev_signalled(dev, EMU_EVENT_DATA) != 1;
    n->fetched++;
    return (uint64_t)dev->index << 8 | what;
}

/* Each signalled device is stepped once and in order, with or without prefetch. */
static void window__steps_in_order_and_prefetches(void)
{
    static const uint32_t devs[] = {1, 64, 1023, 1024, 1025, 3000};
    static struct noter n[3000];
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < 6 * 8; i++) {
        struct emu_clock clock = {.mode = EMU_CLOCK_VIRTUAL};
        uint32_t count = devs[i / 8], of = 1u << i % 8, steps = 0, stepped = 0, ahead = 0;
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
            CU_ASSERT_EQUAL(n[d].place, ++stepped);
            CU_ASSERT_FALSE(n[d].wrong);
            ahead += n[d].fetched;
        }
        CU_ASSERT_EQUAL(steps, stepped);
        CU_ASSERT_TRUE(count >= 1024 ? ahead > stepped || stepped < 8 : ahead == 0);
        CU_ASSERT_EQUAL(emu_worker_window(worker, 2000), EMU_NEVER); /* none is left */
        CU_ASSERT_EQUAL(steps, stepped);
        emu_worker_destroy(worker);
    }
}

/* Credits signalled in its last step. Owned by its worker. */
struct credit_user {
    struct emu_dev dev;
    uint32_t steps;
    uint64_t credits;
};

static uint32_t debtor_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct credit_user *d = (struct credit_user *)dev;

    (void)until_ps;
    d->steps++;
    d->credits = emu_dev_take(dev, EMU_EVENT_CREDIT);
    return 0;
}

/* A credit that no device waits for causes no step; a stepped device sees all earlier credits. */
static void credit__steps_only_a_waiting_device(void)
{
    struct emu_clock clock = {.mode = EMU_CLOCK_REAL};
    struct credit_user d = {.steps = 0};
    struct emu_worker *worker;

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker, 1, &clock, NULL), 0);
    emu_dev_init(&d.dev, worker, debtor_step);
    emu_signal_credit(worker, d.dev.index, worker, 63); /* at first it waits for all ports */
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
    emu_signal_credit(worker, d.dev.index, NULL, 63); /* from another worker */
    emu_worker_pass(worker);
    CU_ASSERT_EQUAL(d.steps, 3);
    emu_worker_destroy(worker);
}

/* --- windows of two workers -------------------------------------------------------------- */

static _Atomic uint32_t yields;

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    return __real_sched_yield();
}

static bool read_task(const char *task, const char *name, char *text, int bytes)
{
    char path[64];
    FILE *file;
    bool ok;

    snprintf(path, sizeof path, "/proc/self/task/%.16s/%s", task, name);
    file = fopen(path, "re");
    ok = file && fgets(text, bytes, file);
    if (file)
        fclose(file);
    return ok;
}

/* Return whether the thread of the second worker sleeps in the kernel. */
static bool second_is_asleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool asleep = false;
    char text[256];

    CU_ASSERT_PTR_NOT_NULL_FATAL(tasks);
    for (const struct dirent *task; (task = readdir(tasks));)
        if (read_task(task->d_name, "comm", text, sizeof text) &&
            strcmp(text, "fab-worker-1\n") == 0)
            asleep = read_task(task->d_name, "stat", text, sizeof text) && strstr(text, ") S ");
    closedir(tasks);
    return asleep;
}

/* A device of the driver's worker. Its step ends when the other worker sleeps. */
static uint32_t long_step(struct emu_dev *dev, uint64_t until_ps)
{
    uint32_t looks = 0;

    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    dev->next_ps = EMU_NEVER;
    while (!second_is_asleep() && looks++ < HANG_MS * 50)
        usleep(20);
    CU_ASSERT_TRUE(looks < HANG_MS * 50);
    return 1;
}

/* If other programs keep the cores busy, a yield takes milliseconds. */
static void window__waiting_worker_sleeps_and_does_not_yield(void)
{
    struct counter second = {0};
    struct emu_dev first = {0};
    struct emu_worker *worker[2];
    struct emu_windows *windows;
    struct emu_clock clock = {.mode = EMU_CLOCK_VIRTUAL};

    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker[0], 1, &clock, NULL), 0);
    emu_dev_init(&first, worker[0], long_step);
    worker[1] = worker_with(&second, EMU_CLOCK_VIRTUAL, EMU_NEVER);
    CU_ASSERT_EQUAL_FATAL(emu_windows_create(&windows, worker, 2, REST_PS, NULL), 0);
    atomic_store(&yields, 0);
    for (uint32_t i = 1; i <= 20; i++) {
        emu_dev_wake(&first, i * REST_PS);
        emu_dev_signal(&second.dev, worker[1], EMU_EVENT_DATA, 1);
        emu_windows_advance(windows, i * REST_PS);
        CU_ASSERT_EQUAL(atomic_load(&second.events), i);
    }
    CU_ASSERT_EQUAL(atomic_load(&yields), 0);
    emu_windows_destroy(windows);
    emu_worker_destroy(worker[0]);
    emu_worker_destroy(worker[1]);
}

static void sleeps_for(struct emu_waiter *waiter, uint64_t timeout_ns)
{
    uint64_t began_ns = emu_now_ns();

    emu_waiter_sleep(waiter, timeout_ns);
    CU_ASSERT_TRUE(emu_now_ns() - began_ns >= timeout_ns);
}

static void *forbidden_main(void *argument)
{
    struct emu_waiter *waiter = argument;

    test_forbid(SYS_epoll_pwait2);
    sleeps_for(waiter, 20000000);
    emu_waiter_ring(waiter);
    emu_waiter_sleep(waiter, UINT64_MAX);
    sleeps_for(waiter, 20000000); /* a bell wakes only once */
    return NULL;
}

static void waiter__sleeps_without_epoll_pwait2(void)
{
    struct emu_waiter *waiter;
    pthread_t thread;

    CU_ASSERT_EQUAL_FATAL(emu_waiter_create(&waiter), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, forbidden_main, waiter), 0);
    pthread_join(thread, NULL);
    emu_waiter_destroy(waiter);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"window__waiting_worker_sleeps_and_does_not_yield",
         window__waiting_worker_sleeps_and_does_not_yield},
        {"waiter__sleeps_without_epoll_pwait2", waiter__sleeps_without_epoll_pwait2},
        {"sleep__timed_device_is_stepped_on_time", sleep__timed_device_is_stepped_on_time},
        {"sleep__signalled_device_is_stepped", sleep__signalled_device_is_stepped},
        {"pass__later_device_is_stepped_in_the_same_pass",
         pass__later_device_is_stepped_in_the_same_pass},
        {"credit__steps_only_a_waiting_device", credit__steps_only_a_waiting_device},
        {"window__steps_in_order_and_prefetches", window__steps_in_order_and_prefetches},
        {NULL, NULL},
    };

    return test_run("worker", cases);
}
