/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_clock.c - the host's clock and waits for this library, even if libfabemu-clock is preloaded
 * and programs see simulated time. The linker binds all calls in this library to these functions.
 */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))

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

HIDDEN int clock_gettime(clockid_t id, struct timespec *ret)
{
    static _Atomic(void *) cache;
    int (*function)(clockid_t, struct timespec *) = original(&cache, "clock_gettime");

    return function(id, ret);
}

HIDDEN int poll(struct pollfd *fds, nfds_t count, int ms)
{
    static _Atomic(void *) cache;
    int (*function)(struct pollfd *, nfds_t, int) = original(&cache, "poll");

    return function(fds, count, ms);
}

/*
 * @cond: made by nic_cond_init(). Not with ThreadSanitizer, which must see that the wait releases
 * the mutex.
 */
#ifndef __SANITIZE_THREAD__
HIDDEN int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict until)
{
    static _Atomic(void *) cache;
    int (*function)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *) =
        original(&cache, "pthread_cond_clockwait");

    return function(cond, mutex, CLOCK_MONOTONIC, until);
}
#endif
