/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.h - what the time in an entry means.
 */
#ifndef EMU_CLOCK_H
#define EMU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define EMU_NEVER UINT64_MAX /* ps: no event is due */

enum emu_clock_mode {
    EMU_CLOCK_RAW,    /* times are ignored: as fast as the host can */
    EMU_CLOCK_REAL,   /* nothing arrives before its time on the host's monotonic clock */
    EMU_CLOCK_VIRTUAL /* simulated time: windows.h */
};

struct emu_clock {
    enum emu_clock_mode mode;
    uint64_t origin_ns; /* CLOCK_MONOTONIC at time 0 */
};

/* Host time since @origin_ns, in ps. */
static inline uint64_t emu_host_ps(uint64_t origin_ns)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ((uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec - origin_ns) * 1000u;
}

/**
 * emu_clock_now - the time up to which devices may step, in ps; 0 in raw. Not for clock virtual.
 * Thread: any.
 */
static inline uint64_t emu_clock_now(const struct emu_clock *clock)
{
    return clock->mode == EMU_CLOCK_RAW ? 0 : emu_host_ps(clock->origin_ns);
}

#endif
