/* SPDX-License-Identifier: BSD-3-Clause */
/* now.h - the host's clocks as integers. (clock.h is the fabric's clock.) */
#ifndef EMU_NOW_H
#define EMU_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t emu_time_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/** emu_now_ns - return the time of the monotonic clock, which all processes of a host share. */
static inline uint64_t emu_now_ns(void)
{
    return emu_time_ns(CLOCK_MONOTONIC);
}

/** emu_now_ms - return emu_now_ns() in ms. Thread: any. */
static inline int64_t emu_now_ms(void)
{
    return (int64_t)(emu_now_ns() / 1000000u);
}

#endif
