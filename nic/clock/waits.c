/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waits.c - functions of the C library that wait for a limited time, for preloading.
 *
 * A thread that waits for a file descriptor, a lock, a signal or the like waits for something
 * outside the fabric, so it sleeps by the host's clock. If the wait reaches its time limit, the
 * local time advances to the end of the wait.
 */
#include "nic/clock/simulated.h"

#include <errno.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <threads.h>

/* --- waits for a duration ---------------------------------------------------------------- */

/* A wait that ends at the latest at @end, a time of CLOCK_MONOTONIC. */
struct limited {
    bool simulated; /* the time is simulated */
    struct timespec end;
};

/* Return the duration @ts in ns. Returns 0 if @ts is NULL, which means no limit, or is invalid. */
static uint64_t ns_of_timeout(const struct timespec *ts)
{
    return ts && is_duration(ts) ? ns_of(ts) : 0;
}

/* A wait of at most @timeout begins now. */
static struct limited limited_begin(const struct timespec *timeout)
{
    struct limited limited = {0};
    uint64_t ns = ns_of_timeout(timeout);

    limited.simulated = ns && simulated_time(CLOCK_MONOTONIC, &limited.end);
    if (limited.simulated)
        limited.end = timespec_of(sum_ns(ns_of(&limited.end), ns));
    return limited;
}

/* Advance the local time to @when, a time of clock @id, because a wait until then is over. */
static void reach(clockid_t id, const struct timespec *when)
{
    struct timespec now;

    if (is_duration(when) && simulated_time(id, &now) && ns_of(when) > ns_of(&now))
        simulated_sleep(ns_of(when) - ns_of(&now));
}

/* If @ready is 0, the wait has ended because its time is over. Returns @ready. */
static int limited_end(const struct limited *limited, int ready)
{
    if (!ready && limited->simulated)
        reach(CLOCK_MONOTONIC, &limited->end);
    return ready;
}

/*
 * Sleep for @timeout in simulated time. Returns false if that is not possible, or if @timeout is 0
 * or no limit. Then the caller must call the C library's function.
 */
static bool only_sleeps(const struct timespec *timeout)
{
    uint64_t ns = ns_of_timeout(timeout);

    if (!ns || simulated_sleep(ns))
        return ns;
    note_host_sleep();
    return false;
}

PUBLIC int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    static _Atomic(void *) cache;
    int (*function)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) =
        fabemu_clock_original(&cache, "ppoll");
    struct limited limited;

    if (!count && !mask && only_sleeps(timeout)) /* with a mask, a signal may end the wait */
        return 0;
    limited = limited_begin(timeout);
    return limited_end(&limited, function(fds, count, timeout, mask));
}

static struct timespec timespec_of_ms(int ms)
{
    return (struct timespec){ms / 1000, ms % 1000 * 1000000L};
}

PUBLIC int poll(struct pollfd *fds, nfds_t count, int ms)
{
    const struct timespec timeout = timespec_of_ms(ms);

    return ppoll(fds, count, ms < 0 ? NULL : &timeout, NULL);
}

/* Programs that are compiled with _FORTIFY_SOURCE call these instead of poll() and ppoll(). */
int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t bytes);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                const sigset_t *mask, size_t bytes);
void __chk_fail(void) __attribute__((noreturn)); /* the C library's function ends the process */

PUBLIC int __poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t bytes)
{
    if (bytes / sizeof *fds < count)
        __chk_fail();
    return poll(fds, count, ms);
}

PUBLIC int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                       const sigset_t *mask, size_t bytes)
{
    if (bytes / sizeof *fds < count)
        __chk_fail();
    return ppoll(fds, count, timeout, mask);
}

PUBLIC int pselect(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict except,
                   const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
    static _Atomic(void *) cache;
    int (*function)(int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *) =
        fabemu_clock_original(&cache, "pselect");
    struct limited limited;

    if (!in && !out && !except && !mask && only_sleeps(timeout))
        return 0;
    limited = limited_begin(timeout);
    return limited_end(&limited, function(count, in, out, except, timeout, mask));
}

/* In simulated time, replace the remaining time in *@left, which the C library has measured. */
static void remaining(const struct limited *limited, struct timeval *left)
{
    int err = errno; /* the caller needs it if a signal has ended the wait */
    struct timespec now;
    uint64_t ns;

    if (limited->simulated && simulated_time(CLOCK_MONOTONIC, &now)) {
        ns = ns_of(&limited->end) > ns_of(&now) ? ns_of(&limited->end) - ns_of(&now) : 0;
        now = timespec_of(ns);
        *left = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    }
    errno = err;
}

/* Like select() of Linux, this function sets *@timeout to the remaining time. */
PUBLIC int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict except,
                  struct timeval *restrict timeout)
{
    static _Atomic(void *) cache;
    int (*function)(int, fd_set *, fd_set *, fd_set *, struct timeval *) =
        fabemu_clock_original(&cache, "select");
    struct limited limited;
    struct timespec limit;
    int ready;

    if (!timeout)
        return function(count, in, out, except, NULL);
    limit = (struct timespec){timeout->tv_sec + timeout->tv_usec / 1000000,
                              timeout->tv_usec % 1000000 * 1000};
    if (!in && !out && !except && only_sleeps(&limit)) {
        *timeout = (struct timeval){0};
        return 0;
    }
    limited = limited_begin(&limit);
    ready = limited_end(&limited, function(count, in, out, except, timeout));
    remaining(&limited, timeout);
    return ready;
}

PUBLIC int epoll_pwait2(int epoll, struct epoll_event *events, int most,
                        const struct timespec *timeout, const sigset_t *mask)
{
    static _Atomic(void *) cache;
    int (*function)(int, struct epoll_event *, int, const struct timespec *, const sigset_t *) =
        fabemu_clock_original(&cache, "epoll_pwait2");
    struct limited limited = limited_begin(timeout);

    return limited_end(&limited, function(epoll, events, most, timeout, mask));
}

PUBLIC int epoll_pwait(int epoll, struct epoll_event *events, int most, int ms,
                       const sigset_t *mask)
{
    static _Atomic(void *) cache;
    int (*function)(int, struct epoll_event *, int, int, const sigset_t *) =
        fabemu_clock_original(&cache, "epoll_pwait");
    const struct timespec timeout = timespec_of_ms(ms);
    struct limited limited = limited_begin(&timeout);

    return limited_end(&limited, function(epoll, events, most, ms, mask));
}

PUBLIC int epoll_wait(int epoll, struct epoll_event *events, int most, int ms)
{
    return epoll_pwait(epoll, events, most, ms, NULL);
}

PUBLIC int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
                        const struct timespec *restrict timeout)
{
    static _Atomic(void *) cache;
    int (*function)(const sigset_t *, siginfo_t *, const struct timespec *) =
        fabemu_clock_original(&cache, "sigtimedwait");
    struct limited limited = limited_begin(timeout);
    int signal = function(set, info, timeout);

    if (signal < 0 && errno == EAGAIN) {
        limited_end(&limited, 0);
        errno = EAGAIN;
    }
    return signal;
}

/* --- waits until a time ------------------------------------------------------------------ */

/*
 * Translate @when, a time of the simulated clock @id, to the host's monotonic clock. Returns the
 * host's clock to use with *@ret, which is @when itself if the process has no simulated time.
 */
static clockid_t host_deadline(clockid_t id, const struct timespec *when, struct timespec *ret)
{
    return host_time(id, when, CLOCK_MONOTONIC, ret) ? CLOCK_MONOTONIC : id;
}

/* A wait until @when has ended with @err, an error number or 0. Returns @err. */
static int until_end(int err, clockid_t id, const struct timespec *when)
{
    if (err == ETIMEDOUT)
        reach(id, when);
    return err;
}

/* Do as until_end(), for a function that returns a negative number and sets errno. */
static int until_end_errno(int result, clockid_t id, const struct timespec *when)
{
    if (result < 0)
        errno = until_end(errno, id, when);
    return result;
}

/* Translate an error number to a result of <threads.h>. */
static int thrd_result(int err)
{
    return !err ? thrd_success : err == ETIMEDOUT ? thrd_timedout : thrd_error;
}

PUBLIC int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t id,
                                  const struct timespec *when)
{
    static _Atomic(void *) cache;
    int (*function)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *) =
        fabemu_clock_original(&cache, "pthread_cond_clockwait");
    struct timespec deadline;
    clockid_t host = host_deadline(id, when, &deadline);

    return until_end(function(cond, mutex, host, &deadline), id, when);
}

/* Return the clock that pthread_condattr_setclock() chose for @cond. glibc keeps it in one bit. */
static clockid_t clock_of_cond(pthread_cond_t *cond)
{
    unsigned flags = __atomic_load_n(&cond->__data.__wrefs, __ATOMIC_RELAXED);

    return flags & 2u ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

PUBLIC int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict when)
{
    return pthread_cond_clockwait(cond, mutex, clock_of_cond(cond), when);
}

PUBLIC int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex,
                         const struct timespec *restrict when)
{
    return thrd_result(
        pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, when));
}

PUBLIC int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t id,
                                   const struct timespec *when)
{
    static _Atomic(void *) cache;
    int (*function)(pthread_mutex_t *, clockid_t, const struct timespec *) =
        fabemu_clock_original(&cache, "pthread_mutex_clocklock");
    struct timespec deadline;
    clockid_t host = host_deadline(id, when, &deadline);

    return until_end(function(mutex, host, &deadline), id, when);
}

PUBLIC int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex,
                                   const struct timespec *restrict when)
{
    return pthread_mutex_clocklock(mutex, CLOCK_REALTIME, when);
}

PUBLIC int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict when)
{
    return thrd_result(pthread_mutex_timedlock((pthread_mutex_t *)mutex, when));
}

PUBLIC int pthread_rwlock_clockrdlock(pthread_rwlock_t *lock, clockid_t id,
                                      const struct timespec *when)
{
    static _Atomic(void *) cache;
    int (*function)(pthread_rwlock_t *, clockid_t, const struct timespec *) =
        fabemu_clock_original(&cache, "pthread_rwlock_clockrdlock");
    struct timespec deadline;
    clockid_t host = host_deadline(id, when, &deadline);

    return until_end(function(lock, host, &deadline), id, when);
}

PUBLIC int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict lock,
                                      const struct timespec *restrict when)
{
    return pthread_rwlock_clockrdlock(lock, CLOCK_REALTIME, when);
}

PUBLIC int pthread_rwlock_clockwrlock(pthread_rwlock_t *lock, clockid_t id,
                                      const struct timespec *when)
{
    static _Atomic(void *) cache;
    int (*function)(pthread_rwlock_t *, clockid_t, const struct timespec *) =
        fabemu_clock_original(&cache, "pthread_rwlock_clockwrlock");
    struct timespec deadline;
    clockid_t host = host_deadline(id, when, &deadline);

    return until_end(function(lock, host, &deadline), id, when);
}

PUBLIC int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict lock,
                                      const struct timespec *restrict when)
{
    return pthread_rwlock_clockwrlock(lock, CLOCK_REALTIME, when);
}

PUBLIC int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t id,
                                const struct timespec *when)
{
    static _Atomic(void *) cache;
    int (*function)(pthread_t, void **, clockid_t, const struct timespec *) =
        fabemu_clock_original(&cache, "pthread_clockjoin_np");
    struct timespec deadline;
    clockid_t host = when ? host_deadline(id, when, &deadline) : id;

    return until_end(function(thread, result, host, when ? &deadline : NULL), id, when);
}

PUBLIC int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *when)
{
    return pthread_clockjoin_np(thread, result, CLOCK_REALTIME, when);
}

PUBLIC int sem_clockwait(sem_t *restrict sem, clockid_t id, const struct timespec *restrict when)
{
    static _Atomic(void *) cache;
    int (*function)(sem_t *, clockid_t, const struct timespec *) =
        fabemu_clock_original(&cache, "sem_clockwait");
    struct timespec deadline;
    clockid_t host = host_deadline(id, when, &deadline);

    return until_end_errno(function(sem, host, &deadline), id, when);
}

PUBLIC int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict when)
{
    return sem_clockwait(sem, CLOCK_REALTIME, when);
}

PUBLIC ssize_t mq_timedreceive(mqd_t queue, char *restrict to, size_t bytes,
                               unsigned *restrict priority, const struct timespec *restrict when)
{
    static _Atomic(void *) cache;
    ssize_t (*function)(mqd_t, char *, size_t, unsigned *, const struct timespec *) =
        fabemu_clock_original(&cache, "mq_timedreceive");
    struct timespec deadline;
    ssize_t received;

    host_time(CLOCK_REALTIME, when, CLOCK_REALTIME, &deadline);
    received = function(queue, to, bytes, priority, &deadline);
    until_end_errno(received < 0 ? -1 : 0, CLOCK_REALTIME, when);
    return received;
}

PUBLIC int mq_timedsend(mqd_t queue, const char *from, size_t bytes, unsigned priority,
                        const struct timespec *when)
{
    static _Atomic(void *) cache;
    int (*function)(mqd_t, const char *, size_t, unsigned, const struct timespec *) =
        fabemu_clock_original(&cache, "mq_timedsend");
    struct timespec deadline;

    host_time(CLOCK_REALTIME, when, CLOCK_REALTIME, &deadline);
    return until_end_errno(function(queue, from, bytes, priority, &deadline), CLOCK_REALTIME, when);
}
