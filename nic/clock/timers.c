/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timers.c - functions of the C library that set timers, for preloading. Timers measure the host's
 * time, and the report of the run says so. An absolute time is translated to the host's clock, so
 * that the timer runs for the duration that the program expects. Timers of CPU time are neither
 * reported nor translated.
 */
#include "nic/clock/simulated.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

/*
 * Return the clock of a timer that expires at @when. A time of more than 10^9 s is one of
 * CLOCK_REALTIME, because CLOCK_MONOTONIC begins when the host starts. If a timer of
 * CLOCK_MONOTONIC has such a time nevertheless, it expires decades later, whichever clock this
 * function returns.
 */
static clockid_t clock_of(const struct timespec *when)
{
    return when->tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

/* Return the setting to pass to the C library instead of @set. It may be stored in *@host. */
static const struct itimerspec *host_setting(bool absolute, const struct itimerspec *set,
                                             struct itimerspec *host)
{
    clockid_t id;

    if (!set || (!set->it_value.tv_sec && !set->it_value.tv_nsec))
        return set;
    note_host_timer();
    if (!absolute)
        return set;
    *host = *set;
    id = clock_of(&set->it_value);
    host_time(id, &set->it_value, id, &host->it_value);
    return host;
}

/*
 * The identifiers of timers of CPU time, plus 1; 0: free. If a program has more of these timers,
 * the others are treated as timers of wall time.
 */
static atomic_uintptr_t cpu_timers[64];

/* Replace @old by @new in the list. Returns false if @old is not in it. */
static bool cpu_timers_replace(uintptr_t old, uintptr_t new)
{
    for (size_t i = 0; i < sizeof cpu_timers / sizeof cpu_timers[0]; i++) {
        uintptr_t expected = old;

        if (atomic_compare_exchange_strong_explicit(&cpu_timers[i], &expected, new,
                                                    memory_order_relaxed, memory_order_relaxed))
            return true;
    }
    return false;
}

static bool is_cpu_timer(timer_t timer)
{
    return cpu_timers_replace((uintptr_t)timer + 1, (uintptr_t)timer + 1);
}

/* The id of the CPU time of another process or thread is negative. */
static bool is_cpu_time(clockid_t id)
{
    return id == CLOCK_PROCESS_CPUTIME_ID || id == CLOCK_THREAD_CPUTIME_ID || id < 0;
}

PUBLIC int timer_create(clockid_t id, struct sigevent *restrict event, timer_t *restrict ret)
{
    static _Atomic(void *) cache;
    int (*function)(clockid_t, struct sigevent *, timer_t *) =
        fabemu_clock_original(&cache, "timer_create");
    int err = function(id, event, ret);

    if (err)
        return err;
    cpu_timers_replace((uintptr_t)*ret + 1, 0); /* the parent process may have used this id */
    if (is_cpu_time(id))
        cpu_timers_replace(0, (uintptr_t)*ret + 1);
    return 0;
}

PUBLIC int timer_delete(timer_t timer)
{
    static _Atomic(void *) cache;
    int (*function)(timer_t) = fabemu_clock_original(&cache, "timer_delete");

    cpu_timers_replace((uintptr_t)timer + 1, 0);
    return function(timer);
}

PUBLIC int timer_settime(timer_t timer, int flags, const struct itimerspec *set,
                         struct itimerspec *before)
{
    static _Atomic(void *) cache;
    int (*function)(timer_t, int, const struct itimerspec *, struct itimerspec *) =
        fabemu_clock_original(&cache, "timer_settime");
    struct itimerspec host;

    if (is_cpu_timer(timer))
        return function(timer, flags, set, before);
    return function(timer, flags, host_setting(flags & TIMER_ABSTIME, set, &host), before);
}

PUBLIC int timerfd_settime(int fd, int flags, const struct itimerspec *set,
                           struct itimerspec *before)
{
    static _Atomic(void *) cache;
    int (*function)(int, int, const struct itimerspec *, struct itimerspec *) =
        fabemu_clock_original(&cache, "timerfd_settime");
    struct itimerspec host;

    return function(fd, flags, host_setting(flags & TFD_TIMER_ABSTIME, set, &host), before);
}

/* ITIMER_VIRTUAL and ITIMER_PROF measure CPU time, so they are not noted. */
PUBLIC int setitimer(__itimer_which_t which, const struct itimerval *set, struct itimerval *before)
{
    static _Atomic(void *) cache;
    int (*function)(__itimer_which_t, const struct itimerval *, struct itimerval *) =
        fabemu_clock_original(&cache, "setitimer");

    if (which == ITIMER_REAL && set && (set->it_value.tv_sec || set->it_value.tv_usec))
        note_host_timer();
    return function(which, set, before);
}

PUBLIC unsigned alarm(unsigned seconds)
{
    static _Atomic(void *) cache;
    unsigned (*function)(unsigned) = fabemu_clock_original(&cache, "alarm");

    if (seconds)
        note_host_timer();
    return function(seconds);
}

PUBLIC useconds_t ualarm(useconds_t us, useconds_t interval)
{
    static _Atomic(void *) cache;
    useconds_t (*function)(useconds_t, useconds_t) = fabemu_clock_original(&cache, "ualarm");

    if (us)
        note_host_timer();
    return function(us, interval);
}
