/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h - the fabric's clock: raw, real or virtual. Real and virtual are called timed clocks. */
#ifndef EMU_CLOCK_H
#define EMU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/util/now.h"

#define EMU_NEVER UINT64_MAX /* ps: no event is due */

/*
 * An entry of a ring has 63 bits for a time, which are enough for 106 days. So clock real is
 * *rebased* whenever it reaches EMU_REBASE_PS: the thread that controls the fabric stops the
 * workers, and subtracts EMU_REBASE_BY_PS (13 days) from the clock and from all stored times
 * (apps/fabric/drive.c). Times before the new zero become 0. While no process is attached, the
 * clock is not rebased, and no segment moves. When the first process attaches, the missed rebases
 * are made up for. Clock virtual ends at EMU_LAST_PS, 53 days.
 *
 * Processes are not stopped for a rebase. So times in a host interface belong to a clock that is
 * never rebased, modulo 2^64, and are compared by their difference.
 */
/* A multiple of 2^32 ns, so that emu_entry.born_ns, the low 32 bits of a time, stays valid. */
#define EMU_REBASE_BY_PS ((uint64_t)1000 << 50)
#define EMU_REBASE_PS    (2 * EMU_REBASE_BY_PS)
#define EMU_LAST_PS      ((uint64_t)1 << 62)

enum emu_clock_mode {
    EMU_CLOCK_RAW,    /* times are ignored, and everything happens as soon as possible */
    EMU_CLOCK_REAL,   /* no event happens before its time on the host's monotonic clock */
    EMU_CLOCK_VIRTUAL /* simulated time: emu/worker/windows.h */
};

/** emu_clock_name - return the clock's name as users write it. Pure. */
static inline const char *emu_clock_name(enum emu_clock_mode mode)
{
    static const char *const names[] = {
        [EMU_CLOCK_RAW] = "raw", [EMU_CLOCK_REAL] = "real", [EMU_CLOCK_VIRTUAL] = "virtual"};

    return names[mode];
}

struct emu_clock {
    enum emu_clock_mode mode;
    uint64_t origin_ns;  /* value of CLOCK_MONOTONIC at time 0 */
    uint64_t rebased_ps; /* sum of all rebases, modulo 2^64 */
};

/** emu_earlier - return the earlier of two times, which have the same unit. Pure. */
static inline uint64_t emu_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Return time @at_ps after a rebase by @by_ps. */
static inline uint64_t emu_rebased_ps(uint64_t at_ps, uint64_t by_ps)
{
    if (at_ps == EMU_NEVER)
        return EMU_NEVER;
    return at_ps > by_ps ? at_ps - by_ps : 0;
}

/** emu_clock_rebase - subtract @by_ps, a multiple of 1000. Thread: the clock's owner. */
static inline void emu_clock_rebase(struct emu_clock *clock, uint64_t by_ps)
{
    clock->origin_ns += by_ps / 1000u;
    clock->rebased_ps += by_ps;
}

/* Return the host's time since @origin_ns, in ps, modulo 2^64. */
static inline uint64_t emu_host_ps(uint64_t origin_ns)
{
    return (emu_now_ns() - origin_ns) * 1000u;
}

/**
 * emu_clock_now - return the time in ps up to which devices are to be stepped; clock raw: 0. Not
 * for clock virtual. Thread: any.
 */
static inline uint64_t emu_clock_now(const struct emu_clock *clock)
{
    return clock->mode == EMU_CLOCK_RAW ? 0 : emu_host_ps(clock->origin_ns);
}

#endif
