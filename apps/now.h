/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * now.h - the time, for limits on waiting.
 */
#ifndef APPS_NOW_H
#define APPS_NOW_H

#include <stdint.h>
#include <time.h>

static inline int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

#endif
