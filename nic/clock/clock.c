/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - functions of the C library that read a clock, sleep, or wait for a limited time, for
 * preloading. Before the process attaches to a fabric with simulated time, after it has detached,
 * and for clocks of CPU time, they do what the C library does.
 *
 * A thread that waits for a file descriptor, a condition variable or a semaphore waits for
 * something outside the fabric, so it sleeps by the host's clock. If the wait reaches its time
 * limit, the local time advances to the end of the wait.
 */
#include "nic/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static _Atomic(const struct fabemu_clock *) followed;

PUBLIC fabemu_clock_follow_fn fabemu_clock_follow;

/* A forked child is not attached. */
static void forget(void)
{
    atomic_store_explicit(&followed, NULL, memory_order_release);
}

PUBLIC void fabemu_clock_follow(const struct fabemu_clock *clock)
{
    static atomic_bool prepared;

    if (!atomic_exchange_explicit(&prepared, true, memory_order_relaxed))
        pthread_atfork(NULL, NULL, forget);
    atomic_store_explicit(&followed, clock, memory_order_release);
}

static const struct fabemu_clock *clock_followed(void)
{
    return atomic_load_explicit(&followed, memory_order_acquire);
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

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

static uint64_t sum_ns(uint64_t a, uint64_t b)
{
    return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

static bool is_duration(const struct timespec *ts)
{
    return ts->tv_sec >= 0 && ts->tv_nsec >= 0 && ts->tv_nsec < 1000000000;
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
        fabemu_clock_original(&cache, "clock_nanosleep");
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

/* --- waits for a limited time ------------------------------------------------------------ */

/* A wait that ends at the latest at @end, a time of CLOCK_MONOTONIC. */
struct limited {
    bool simulated; /* the time is simulated */
    struct timespec end;
};

/* A wait of at most @ns begins now. 0: it has no limit, or does not wait. */
static struct limited limited_begin(uint64_t ns)
{
    struct limited limited = {0};

    limited.simulated = ns && simulated_time(CLOCK_MONOTONIC, &limited.end);
    if (limited.simulated)
        limited.end = timespec_of(sum_ns(ns_of(&limited.end), ns));
    return limited;
}

/* Advance the local time to @when, a time of @id, because a wait until then is over. */
static void reach(clockid_t id, const struct timespec *when)
{
    struct timespec now;

    if (is_duration(when) && simulated_time(id, &now) && ns_of(when) > ns_of(&now))
        simulated_sleep(ns_of(when) - ns_of(&now));
}

/* The wait has ended because its time is over. */
static void limited_over(const struct limited *limited)
{
    if (limited->simulated)
        reach(CLOCK_MONOTONIC, &limited->end);
}

/* Return the duration of @ts; 0: it has no limit, or is no duration. */
static uint64_t ns_of_timeout(const struct timespec *ts)
{
    return ts && is_duration(ts) ? ns_of(ts) : 0;
}

/* Return the time-out to pass to the C library: 0 if the wait is only a sleep in simulated time. */
static const struct timespec *timeout_of(const struct limited *limited, bool waits_for_none,
                                         const struct timespec *timeout)
{
    static const struct timespec none;

    return limited->simulated && waits_for_none ? &none : timeout;
}

PUBLIC int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    static _Atomic(void *) cache;
    int (*function)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) =
        fabemu_clock_original(&cache, "ppoll");
    struct limited limited = limited_begin(ns_of_timeout(timeout));
    int ready = function(fds, count, timeout_of(&limited, !count, timeout), mask);

    if (!ready)
        limited_over(&limited);
    return ready;
}

PUBLIC int poll(struct pollfd *fds, nfds_t count, int ms)
{
    const struct timespec timeout = {ms / 1000, ms % 1000 * 1000000L};

    return ppoll(fds, count, ms < 0 ? NULL : &timeout, NULL);
}

PUBLIC int pselect(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict except,
                   const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
    static _Atomic(void *) cache;
    int (*function)(int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *) =
        fabemu_clock_original(&cache, "pselect");
    struct limited limited = limited_begin(ns_of_timeout(timeout));
    int ready = function(count, in, out, except,
                         timeout_of(&limited, !in && !out && !except, timeout), mask);

    if (!ready)
        limited_over(&limited);
    return ready;
}

/* Unlike that of Linux, this function leaves the remaining time unchanged, as POSIX permits. */
PUBLIC int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict except,
                  struct timeval *restrict timeout)
{
    struct timespec limit;

    if (!timeout)
        return pselect(count, in, out, except, NULL, NULL);
    limit = (struct timespec){timeout->tv_sec + timeout->tv_usec / 1000000,
                              timeout->tv_usec % 1000000 * 1000};
    return pselect(count, in, out, except, &limit, NULL);
}

PUBLIC int epoll_pwait(int epoll, struct epoll_event *events, int most, int ms,
                       const sigset_t *mask)
{
    static _Atomic(void *) cache;
    int (*function)(int, struct epoll_event *, int, int, const sigset_t *) =
        fabemu_clock_original(&cache, "epoll_pwait");
    struct limited limited = limited_begin(ms > 0 ? (uint64_t)ms * 1000000u : 0);
    int ready = function(epoll, events, most, ms, mask);

    if (!ready)
        limited_over(&limited);
    return ready;
}

PUBLIC int epoll_wait(int epoll, struct epoll_event *events, int most, int ms)
{
    return epoll_pwait(epoll, events, most, ms, NULL);
}

/*
 * Translate @when, a time of the simulated clock @id, to the host's monotonic clock. Returns the
 * host's clock to use with *@ret, which is @when itself if the process has no simulated time.
 */
static clockid_t host_deadline(clockid_t id, const struct timespec *when, struct timespec *ret)
{
    static _Atomic(void *) cache;
    int (*host)(clockid_t, struct timespec *) = fabemu_clock_original(&cache, "clock_gettime");
    struct timespec now;
    uint64_t ns;

    *ret = *when;
    if (!is_duration(when) || !simulated_time(id, &now))
        return id;
    ns = ns_of(when) > ns_of(&now) ? ns_of(when) - ns_of(&now) : 0;
    host(CLOCK_MONOTONIC, &now);
    *ret = timespec_of(sum_ns(ns, ns_of(&now)));
    return CLOCK_MONOTONIC;
}

PUBLIC int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id,
                                  const struct timespec *when)
{
    static _Atomic(void *) cache;
    int (*function)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *) =
        fabemu_clock_original(&cache, "pthread_cond_clockwait");
    struct timespec deadline;
    clockid_t host = host_deadline(id, when, &deadline);
    int err = function(cond, mutex, host, &deadline);

    if (err == ETIMEDOUT)
        reach(id, when);
    return err;
}

/*
 * The clock of a condition variable is not known here. Only CLOCK_REALTIME has such late times,
 * because CLOCK_MONOTONIC begins when the host starts.
 */
static clockid_t clock_of(const struct timespec *when)
{
    return when->tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

PUBLIC int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict when)
{
    return pthread_cond_clockwait(cond, mutex, clock_of(when), when);
}

PUBLIC int sem_clockwait(sem_t *restrict sem, clockid_t id, const struct timespec *restrict when)
{
    static _Atomic(void *) cache;
    int (*function)(sem_t *, clockid_t, const struct timespec *) =
        fabemu_clock_original(&cache, "sem_clockwait");
    struct timespec deadline;
    clockid_t host = host_deadline(id, when, &deadline);
    int result = function(sem, host, &deadline);

    if (result && errno == ETIMEDOUT) {
        reach(id, when);
        errno = ETIMEDOUT;
    }
    return result;
}

PUBLIC int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict when)
{
    return sem_clockwait(sem, CLOCK_REALTIME, when);
}
