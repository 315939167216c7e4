/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * now.h - the time, for limits on waiting, and what was waited.
 */
#ifndef APPS_NOW_H
#define APPS_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline int64_t now_ms(void)
{
    return (int64_t)(now_ns() / 1000000u);
}

#endif
