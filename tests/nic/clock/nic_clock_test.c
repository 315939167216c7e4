/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_clock_test.c - the C library's clocks and sleeps, as nic/clock/clock.c replaces them. */
#include "nic/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/test.h"

fabemu_clock_follow_fn fabemu_clock_follow;

static struct {
    time_t s;          /* the simulated time */
    uint64_t slept_ns; /* duration of the last sleep */
} simulated;

static bool reads(void *ctx, clockid_t id, struct timespec *ret)
{
    (void)ctx, (void)id;
    *ret = (struct timespec){.tv_sec = simulated.s};
    return true;
}

static bool sleeps(void *ctx, uint64_t ns)
{
    (void)ctx;
    simulated.slept_ns = ns;
    return true;
}

static const struct fabemu_clock simulated_clock = {.read = reads, .sleep = sleeps};

static void sleep__of_any_duration_is_simulated(void)
{
    static const struct {
        struct timespec duration;
        uint64_t ns;
    } sleeps_of[] = {
        {{0, 0}, 0},
        {{1, 5}, 1000000005},
        {{UINT64_MAX / 1000000000 - 1, 999999999}, UINT64_MAX / 1000000000 * 1000000000 - 1},
        {{UINT64_MAX / 1000000000, 999999999}, UINT64_MAX},
        {{INT64_MAX, 999999999}, UINT64_MAX},
    };

    fabemu_clock_follow(&simulated_clock);
    for (size_t i = 0; i < sizeof sleeps_of / sizeof sleeps_of[0]; i++) {
        CU_ASSERT_EQUAL(nanosleep(&sleeps_of[i].duration, NULL), 0);
        CU_ASSERT_EQUAL(simulated.slept_ns, sleeps_of[i].ns);
    }
    CU_ASSERT_EQUAL(sleep(UINT32_MAX), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, UINT64_C(1000000000) * UINT32_MAX);
    fabemu_clock_follow(NULL);
}

static void sleep__until_a_time_ends_then(void)
{
    const struct timespec past = {.tv_sec = 3}, soon = {.tv_sec = 12, .tv_nsec = 1},
                          never = {.tv_sec = INT64_MAX};

    simulated.s = 10;
    fabemu_clock_follow(&simulated_clock);
    CU_ASSERT_EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, NULL), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, 0);
    CU_ASSERT_EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &soon, NULL), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, 2000000001);
    CU_ASSERT_EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &never, NULL), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, UINT64_MAX - UINT64_C(10000000000));
    fabemu_clock_follow(NULL);
}

static void sleep__with_a_wrong_duration_fails(void)
{
    static const struct timespec wrong[] = {{-1, 0}, {0, -1}, {0, 1000000000}};

    fabemu_clock_follow(&simulated_clock);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        errno = 0;
        CU_ASSERT_EQUAL(nanosleep(&wrong[i], NULL), -1);
        CU_ASSERT_EQUAL(errno, EINVAL);
    }
    fabemu_clock_follow(NULL);
}

static void wait__for_nothing_is_a_sleep(void)
{
    simulated.s = 10;
    fabemu_clock_follow(&simulated_clock);
    CU_ASSERT_EQUAL(poll(NULL, 0, 5), 0);
    CU_ASSERT_EQUAL(simulated.slept_ns, 5000000);
    fabemu_clock_follow(NULL);
}

/* Post the semaphore after a while of the host's time. */
static void *post_later(void *sem)
{
    const struct timespec while_of_host = {.tv_nsec = 20000000};

    syscall(SYS_nanosleep, &while_of_host, NULL);
    sem_post(sem);
    return NULL;
}

static void wait__until_a_time_far_away_ends_by_the_event(void)
{
    const struct timespec never = {.tv_sec = INT64_MAX}, past = {.tv_sec = 3};
    pthread_t thread;
    sem_t sem;

    simulated.s = 10;
    fabemu_clock_follow(&simulated_clock);
    sem_init(&sem, 0, 0);
    pthread_create(&thread, NULL, post_later, &sem);
    CU_ASSERT_EQUAL(sem_timedwait(&sem, &never), 0);
    CU_ASSERT_EQUAL(sem_timedwait(&sem, &past), -1);
    CU_ASSERT_EQUAL(errno, ETIMEDOUT);
    pthread_join(thread, NULL);
    sem_destroy(&sem);
    fabemu_clock_follow(NULL);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(sleep__of_any_duration_is_simulated),
        CASE(sleep__until_a_time_ends_then),
        CASE(sleep__with_a_wrong_duration_fails),
        CASE(wait__for_nothing_is_a_sleep),
        CASE(wait__until_a_time_far_away_ends_by_the_event),
        {0},
    };

    return test_run("nic_clock", cases);
}
