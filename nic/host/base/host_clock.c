/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_clock.c - the host's clock and waits for this library, even if libfabemu-clock is preloaded
 * and programs see simulated time. The linker binds all calls in this library to these functions.
 */
#include <poll.h>
#include <pthread.h>
#include <time.h>

#include "nic/clock.h"

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN int clock_gettime(clockid_t id, struct timespec *ret)
{
    static _Atomic(void *) cache;
    int (*function)(clockid_t, struct timespec *) = fabemu_clock_original(&cache, "clock_gettime");

    return function(id, ret);
}

HIDDEN int poll(struct pollfd *fds, nfds_t count, int ms)
{
    static _Atomic(void *) cache;
    int (*function)(struct pollfd *, nfds_t, int) = fabemu_clock_original(&cache, "poll");

    return function(fds, count, ms);
}

/*
 * @cond: made by nic_cond_init(). With ThreadSanitizer this function is left out, because
 * ThreadSanitizer must see that the wait releases the mutex.
 */
#ifndef __SANITIZE_THREAD__
HIDDEN int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict until)
{
    static _Atomic(void *) cache;
    int (*function)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *) =
        fabemu_clock_original(&cache, "pthread_cond_clockwait");

    return function(cond, mutex, CLOCK_MONOTONIC, until);
}
#endif
