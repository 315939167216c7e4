/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.h - the interface between libfabemu and libfabemu-clock, the library that `fabemu run
 * --clock virtual` preloads into programs. libfabemu-clock replaces functions of the C library that
 * read a clock or sleep. In a process that is attached to a fabric with simulated time, they use
 * the process's local time.
 */
#ifndef NIC_CLOCK_H
#define NIC_CLOCK_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* The simulated clock of an attached process. All functions may be called by any thread. */
struct fabemu_clock {
    /* If simulated time has begun, set *@ret and return true. @id: a clock of wall time. */
    bool (*read)(void *ctx, clockid_t id, struct timespec *ret);
    /* Advance the local time by @ns. Returns false if the calling thread must sleep itself. */
    bool (*sleep)(void *ctx, uint64_t ns);
    /* Note that the calling thread sleeps, or sets a timer, by the host's clock. */
    void (*note_sleep)(void *ctx);
    void (*note_timer)(void *ctx);
    void *ctx;
};

#define FABEMU_CLOCK_FOLLOW "fabemu_clock_follow"

/**
 * fabemu_clock_follow - use @clock, which stays the caller's. NULL: use the host's clocks again. In
 * this case, return when no thread is in a function of the previous clock, or after a second.
 */
typedef void fabemu_clock_follow_fn(const struct fabemu_clock *clock);

/**
 * fabemu_clock_original - return the original of function @name, which the caller's library
 * replaces. The original is in a library that was loaded later, such as the C library. @cache:
 * keeps the result for the next call; NULL at first. Thread: any.
 */
static inline void *fabemu_clock_original(_Atomic(void *) *cache, const char *name)
{
    void *function = atomic_load_explicit(cache, memory_order_relaxed);

    if (!function) {
        function = dlsym(RTLD_NEXT, name);
        atomic_store_explicit(cache, function, memory_order_relaxed);
    }
    return function;
}

#endif
