/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - functions that read a clock or sleep, which replace those of the C library when
 * preloaded. Before the process attaches to a fabric with simulated time, after it has detached,
 * and for clocks of CPU time, they do what the C library does.
 */
#include "nic/clock/simulated.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <threads.h>
#include <unistd.h>

#define HOLDERS_TRIES 10000u /* maximum number of naps of await_holders(), each 0.1 ms or more */

static _Atomic(const struct fabemu_clock *) followed;
static atomic_uint holders;   /* calls of functions of *followed that have not returned */
static atomic_bool has_timer; /* the process has set a timer, perhaps before it attached */

PUBLIC fabemu_clock_follow_fn fabemu_clock_follow;

/* A forked child is not attached, and has no timer of its parent. */
static void forget(void)
{
    atomic_store_explicit(&has_timer, false, memory_order_relaxed);
    atomic_store_explicit(&followed, NULL, memory_order_relaxed);
    atomic_store_explicit(&holders, 0, memory_order_relaxed); /* the child has no other threads */
    tsc_follow(false);
}

/*
 * Wait until no thread uses the clock that was followed, because the caller may free that clock.
 * The wait has a limit, because a signal handler that calls exit() may have interrupted such a use.
 */
static void await_holders(void)
{
    static const struct timespec nap = {.tv_nsec = 100000};

    for (unsigned i = 0; i < HOLDERS_TRIES; i++) {
        if (!atomic_load_explicit(&holders, memory_order_seq_cst)) /* B1, B4 */
            return;
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, NULL);
    }
}

PUBLIC void fabemu_clock_follow(const struct fabemu_clock *clock)
{
    static atomic_bool prepared;

    if (!atomic_exchange_explicit(&prepared, true, memory_order_relaxed))
        pthread_atfork(NULL, NULL, forget);
    atomic_store_explicit(&followed, clock, memory_order_seq_cst); /* B1 */
    if (!clock)
        await_holders();
    if (clock && atomic_load_explicit(&has_timer, memory_order_relaxed))
        clock->note_timer(clock->ctx);
    tsc_follow(clock);
}

/*
 * Return the clock that the process follows, for one call of its functions. Then call
 * clock_release(). NULL: there is none, and nothing to release.
 */
static const struct fabemu_clock *clock_hold(void)
{
    const struct fabemu_clock *clock;

    if (!atomic_load_explicit(&followed, memory_order_relaxed))
        return NULL;
    atomic_fetch_add_explicit(&holders, 1, memory_order_seq_cst);  /* B2 */
    clock = atomic_load_explicit(&followed, memory_order_seq_cst); /* B2 */
    if (!clock)
        atomic_fetch_sub_explicit(&holders, 1, memory_order_relaxed);
    return clock;
}

static void clock_release(void)
{
    atomic_fetch_sub_explicit(&holders, 1, memory_order_release); /* B3 */
}

static bool is_wall_time(clockid_t id)
{
    return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_MONOTONIC ||
           id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW || id == CLOCK_BOOTTIME ||
           id == CLOCK_TAI;
}

bool simulated_time(clockid_t id, struct timespec *ret)
{
    const struct fabemu_clock *clock = is_wall_time(id) ? clock_hold() : NULL;
    bool read;

    if (!clock)
        return false;
    read = clock->read(clock->ctx, id, ret);
    clock_release();
    return read;
}

bool simulated_sleep(uint64_t ns)
{
    const struct fabemu_clock *clock = clock_hold();
    bool slept;

    if (!clock)
        return false;
    slept = clock->sleep(clock->ctx, ns);
    clock_release();
    return slept;
}

void note_host_sleep(void)
{
    const struct fabemu_clock *clock = clock_hold();

    if (!clock)
        return;
    clock->note_sleep(clock->ctx);
    clock_release();
}

void note_host_timer(void)
{
    const struct fabemu_clock *clock;

    atomic_store_explicit(&has_timer, true, memory_order_relaxed);
    clock = clock_hold();
    if (!clock)
        return;
    clock->note_timer(clock->ctx);
    clock_release();
}

bool host_time(clockid_t id, const struct timespec *when, clockid_t host, struct timespec *ret)
{
    static _Atomic(void *) cache;
    int (*function)(clockid_t, struct timespec *) = fabemu_clock_original(&cache, "clock_gettime");
    struct timespec now;
    uint64_t ns;

    *ret = *when;
    if (!is_duration(when) || !simulated_time(id, &now))
        return false;
    ns = ns_of(when) > ns_of(&now) ? ns_of(when) - ns_of(&now) : 0;
    function(host, &now);
    *ret = timespec_of(sum_ns(ns, ns_of(&now)));
    return true;
}

PUBLIC int clock_gettime(clockid_t id, struct timespec *ret)
{
    static _Atomic(void *) cache;
    int (*function)(clockid_t, struct timespec *) = fabemu_clock_original(&cache, "clock_gettime");

    return simulated_time(id, ret) ? 0 : function(id, ret);
}

PUBLIC int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    static _Atomic(void *) cache;
    int (*function)(struct timeval *, void *) = fabemu_clock_original(&cache, "gettimeofday");
    struct timespec ts;

    if (!simulated_time(CLOCK_REALTIME, &ts))
        return function(ret, zone);
    if (zone)
        function(ret, zone); /* the time zone is not simulated */
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

PUBLIC int timespec_get(struct timespec *ret, int base)
{
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, ret) ? base : 0;
}

/* The times in *@ret are CPU times. The returned time is wall time since an arbitrary moment. */
PUBLIC clock_t times(struct tms *ret)
{
    static _Atomic(void *) cache;
    clock_t (*function)(struct tms *) = fabemu_clock_original(&cache, "times");
    struct timespec now;

    if (function(ret) == (clock_t)-1)
        return -1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * sysconf(_SC_CLK_TCK) + now.tv_nsec / (1000000000 / sysconf(_SC_CLK_TCK));
}

/* Sleep by the host's clock, because this thread cannot advance the local time. */
static int host_sleep(clockid_t id, int flags, const struct timespec *when, struct timespec *left)
{
    static _Atomic(void *) cache;
    int (*function)(clockid_t, int, const struct timespec *, struct timespec *) =
        fabemu_clock_original(&cache, "clock_nanosleep");
    struct timespec deadline = *when;

    if (is_wall_time(id) && is_duration(when)) /* otherwise the call fails at once */
        note_host_sleep();
    if (flags & TIMER_ABSTIME)
        host_time(id, when, id, &deadline);
    return function(id, flags, &deadline, left);
}

PUBLIC int clock_nanosleep(clockid_t id, int flags, const struct timespec *when,
                           struct timespec *left)
{
    struct timespec now = {0};
    uint64_t ns;

    if (!is_wall_time(id) || !is_duration(when))
        return host_sleep(id, flags, when, left);
    if (flags & TIMER_ABSTIME && !simulated_time(id, &now))
        return host_sleep(id, flags, when, left);
    ns = ns_of(when) > ns_of(&now) ? ns_of(when) - ns_of(&now) : 0;
    return simulated_sleep(ns) ? 0 : host_sleep(id, flags, when, left);
}

PUBLIC int nanosleep(const struct timespec *duration, struct timespec *left)
{
    int err = clock_nanosleep(CLOCK_REALTIME, 0, duration, left);

    if (!err)
        return 0;
    errno = err;
    return -1;
}

PUBLIC int thrd_sleep(const struct timespec *duration, struct timespec *left)
{
    int err = clock_nanosleep(CLOCK_REALTIME, 0, duration, left);

    return !err ? 0 : err == EINTR ? -1 : -2;
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

static long of_error(int err)
{
    if (!err)
        return 0;
    errno = err;
    return -1;
}

/*
 * Programs may read the clock or sleep by a system call. Every argument fits into a long. The
 * manual lists the calls that are replaced.
 */
PUBLIC long syscall(long number, ...)
{
    static _Atomic(void *) cache;
    long (*function)(long, ...) = fabemu_clock_original(&cache, "syscall");
    long a[6];
    va_list args;

    va_start(args, number);
    for (size_t i = 0; i < sizeof a / sizeof a[0]; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    switch (number) {
#ifdef SYS_time /* some machines have none of these three calls */
    case SYS_time:
        return time((time_t *)a[0]);
    case SYS_select:
        return select((int)a[0], (fd_set *)a[1], (fd_set *)a[2], (fd_set *)a[3],
                      (struct timeval *)a[4]);
    case SYS_poll:
        return poll((struct pollfd *)a[0], (unsigned)a[1], (int)a[2]);
#endif
    case SYS_clock_gettime:
        return clock_gettime((clockid_t)a[0], (struct timespec *)a[1]);
    case SYS_gettimeofday:
        return gettimeofday((struct timeval *)a[0], (void *)a[1]);
    case SYS_nanosleep:
        return nanosleep((const struct timespec *)a[0], (struct timespec *)a[1]);
    case SYS_clock_nanosleep:
        return of_error(clock_nanosleep((clockid_t)a[0], (int)a[1], (const struct timespec *)a[2],
                                        (struct timespec *)a[3]));
    default:
        return function(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
}
