/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.h - clock virtual: workers move through simulated time in windows.
 *
 * A window begins at the earliest time at which anything happens and is as long as the lookahead:
 * the least time in which one device can act on another (emu_profile_lookahead_ps()). So within a
 * window each device can be stepped alone, through all of its events in order of time, and whatever
 * it sends belongs to a later window. Idle time is skipped. The starts of windows do not affect the
 * result: a device's events are ordered by their times only.
 *
 * The thread that drives the clock steps worker 0; each other worker has its own thread. They meet
 * between windows. Between calls of emu_windows_advance() all are stopped, and the driver may read
 * and change every device.
 */
#ifndef EMU_WINDOWS_H
#define EMU_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

struct emu_windows;
struct emu_worker;

/*
 * Other hosts that go through the same windows (emu/hostlink/virtual.h). agree() is called by one
 * thread while all workers of this host are stopped: between two windows, and when the driver asks
 * for the next time. It exchanges with the other hosts what was sent in the window, and lowers
 * *next_ps from this host's earliest time to that of all hosts; EMU_NEVER if the others are gone.
 * All hosts call it equally often, since all drive their windows alike.
 */
struct emu_windows_hosts {
    void (*agree)(void *ctx, uint64_t *next_ps);
    void *ctx;
};

/**
 * emu_windows_create - a clock for @workers workers, at time 0. Starts the threads of all but the
 * first.
 * @lookahead_ps: at least 1. @worker: borrowed. @hosts: may be NULL.
 * Errors: -ENOMEM, -EAGAIN (threads).
 */
int emu_windows_create(struct emu_windows **ret, struct emu_worker **worker, uint32_t workers,
                       uint64_t lookahead_ps, const struct emu_windows_hosts *hosts);

/** emu_windows_destroy - end the threads; the workers stay. Thread: the driver. */
void emu_windows_destroy(struct emu_windows *windows);

/**
 * emu_windows_advance - run through everything up to and including @until_ps. Thread: the driver.
 */
void emu_windows_advance(struct emu_windows *windows, uint64_t until_ps);

/** emu_windows_next_ps - next event on any host; EMU_NEVER: none by EMU_LAST_PS. Driver only. */
uint64_t emu_windows_next_ps(struct emu_windows *windows);

/** emu_windows_count - windows so far. Thread: the driver. */
uint64_t emu_windows_count(const struct emu_windows *windows);

#endif
