/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - functions of the C library that read a clock or sleep, for preloading. Before the
 * process attaches to a fabric with simulated time, after it has detached, and for clocks of CPU
 * time, they do what the C library does.
 */
#include "nic/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static _Atomic(const struct fabemu_clock *) followed;

PUBLIC fabemu_clock_follow_fn fabemu_clock_follow;

PUBLIC void fabemu_clock_follow(const struct fabemu_clock *clock)
{
    atomic_store_explicit(&followed, clock, memory_order_release);
}

static const struct fabemu_clock *clock_followed(void)
{
    return atomic_load_explicit(&followed, memory_order_acquire);
}

/* Return the C library's function @name. @cache: keeps it. */
static void *original(_Atomic(void *) *cache, const char *name)
{
    void *function = atomic_load_explicit(cache, memory_order_relaxed);

    if (!function) {
        function = dlsym(RTLD_NEXT, name);
        atomic_store_explicit(cache, function, memory_order_relaxed);
    }
    return function;
}

static bool is_wall_time(clockid_t id)
{
    return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_MONOTONIC ||
           id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW || id == CLOCK_BOOTTIME ||
           id == CLOCK_TAI;
}

static bool simulated_time(clockid_t id, struct timespec *ret)
{
    const struct fabemu_clock *clock = is_wall_time(id) ? clock_followed() : NULL;

    return clock && clock->read(clock->ctx, id, ret);
}

static bool simulated_sleep(uint64_t ns)
{
    const struct fabemu_clock *clock = clock_followed();

    return clock && clock->sleep(clock->ctx, ns);
}

/* Times after the year 2500 count as the last one that fits. */
static uint64_t ns_of(const struct timespec *ts)
{
    if ((uint64_t)ts->tv_sec >= UINT64_MAX / 1000000000u)
        return UINT64_MAX;
    return (uint64_t)ts->tv_sec * 1000000000u + (uint64_t)ts->tv_nsec;
}

static bool is_duration(const struct timespec *ts)
{
    return ts->tv_sec >= 0 && ts->tv_nsec >= 0 && ts->tv_nsec < 1000000000;
}

PUBLIC int clock_gettime(clockid_t id, struct timespec *ret)
{
    static _Atomic(void *) cache;
    int (*function)(clockid_t, struct timespec *) = original(&cache, "clock_gettime");

    return simulated_time(id, ret) ? 0 : function(id, ret);
}

PUBLIC int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    static _Atomic(void *) cache;
    int (*function)(struct timeval *, void *) = original(&cache, "gettimeofday");
    struct timespec ts;

    if (!simulated_time(CLOCK_REALTIME, &ts))
        return function(ret, zone);
    *ret = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
    return 0;
}

PUBLIC time_t time(time_t *ret)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    if (ret)
        *ret = ts.tv_sec;
    return ts.tv_sec;
}

PUBLIC int clock_nanosleep(clockid_t id, int flags, const struct timespec *when,
                           struct timespec *left)
{
    static _Atomic(void *) cache;
    int (*function)(clockid_t, int, const struct timespec *, struct timespec *) =
        original(&cache, "clock_nanosleep");
    struct timespec now = {0};
    uint64_t ns;

    if (!is_wall_time(id) || !is_duration(when))
        return function(id, flags, when, left);
    if (flags & TIMER_ABSTIME && !simulated_time(id, &now))
        return function(id, flags, when, left);
    ns = ns_of(when) > ns_of(&now) ? ns_of(when) - ns_of(&now) : 0;
    return simulated_sleep(ns) ? 0 : function(id, flags, when, left);
}

PUBLIC int nanosleep(const struct timespec *duration, struct timespec *left)
{
    int err = clock_nanosleep(CLOCK_REALTIME, 0, duration, left);

    if (!err)
        return 0;
    errno = err;
    return -1;
}

PUBLIC int usleep(useconds_t us)
{
    const struct timespec duration = {.tv_sec = (time_t)(us / 1000000u),
                                      .tv_nsec = (long)(us % 1000000u) * 1000};

    return nanosleep(&duration, NULL);
}

PUBLIC unsigned sleep(unsigned seconds)
{
    const struct timespec duration = {.tv_sec = (time_t)seconds};
    struct timespec left = {0};

    return nanosleep(&duration, &left) ? (unsigned)left.tv_sec + (left.tv_nsec > 0) : 0;
}
