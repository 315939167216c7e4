/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simulated.h - functions that all files of libfabemu-clock use. Any thread may call them.
 */
#ifndef CLOCK_SIMULATED_H
#define CLOCK_SIMULATED_H

#include "nic/clock.h"

#define PUBLIC __attribute__((visibility("default")))

/* Return UINT64_MAX for a time that is too late for a uint64_t (after the year 2554). */
static inline uint64_t ns_of(const struct timespec *ts)
{
    if ((uint64_t)ts->tv_sec >= UINT64_MAX / 1000000000u)
        return UINT64_MAX;
    return (uint64_t)ts->tv_sec * 1000000000u + (uint64_t)ts->tv_nsec;
}

static inline struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

static inline uint64_t sum_ns(uint64_t a, uint64_t b)
{
    return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

static inline bool is_duration(const struct timespec *ts)
{
    return ts->tv_sec >= 0 && ts->tv_nsec >= 0 && ts->tv_nsec < 1000000000;
}

/** simulated_time - if @id is simulated now, set *@ret to its time and return true. */
bool simulated_time(clockid_t id, struct timespec *ret);

/** simulated_sleep - advance the local time by @ns. Returns false if the caller must sleep. */
bool simulated_sleep(uint64_t ns);

/**
 * note_host_sleep, note_host_timer - note that the calling thread sleeps, or sets a timer, by the
 * host's clock.
 */
void note_host_sleep(void);
void note_host_timer(void);

/**
 * host_time - translate @when, a time of the simulated clock @id, to the clock @host of the host.
 * Returns false if @id is not simulated now; then *@ret is @when.
 */
bool host_time(clockid_t id, const struct timespec *when, clockid_t host, struct timespec *ret);

/**
 * tsc_follow - with --tsc: choose what the instructions RDTSC and RDTSCP read. @simulated: the
 * simulated time; otherwise the host's counter. This applies to the calling thread and to threads
 * that it starts later.
 */
void tsc_follow(bool simulated);

#endif
