/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.h - clock virtual: workers move through simulated time in windows.
 *
 * A window begins at the time of the next event and is as long as the lookahead: the least time in
 * which one device can act on another (emu_profile_lookahead_ps()). So within a window each device
 * can be stepped alone, through all of its events in order of time, and everything that it sends
 * arrives in a later window. The times at which windows begin do not affect the results, because a
 * device handles its events in the order of their times only.
 *
 * The *driver*, the thread that advances the clock, steps the devices of worker 0. Each other
 * worker has its own thread. Before a window opens, all workers have finished the previous one.
 * Between calls of emu_windows_advance() all workers are stopped, and the driver may read and
 * change every device.
 */
#ifndef EMU_WINDOWS_H
#define EMU_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

struct emu_windows;
struct emu_worker;

/*
 * Other hosts that step the same windows (emu/hostlink/virtual.h). One thread calls agree() while
 * all workers of this host are stopped: between two windows, and when the driver asks for the time
 * of the next event. agree() exchanges the entries that hosts sent to each other in the window, and
 * lowers *next_ps from the time of this host's next event to that of the next event of all hosts.
 * It sets *next_ps to EMU_NEVER if the other hosts are gone. All hosts call it equally often,
 * because they all open the same windows.
 */
struct emu_windows_hosts {
    void (*agree)(void *ctx, uint64_t *next_ps);
    void *ctx;
};

/**
 * emu_windows_create - create a virtual clock for @workers workers, at time 0, and start the
 * threads of all workers but the first.
 * @lookahead_ps: at least 1. @worker: borrowed. @hosts: may be NULL.
 * Errors: -ENOMEM; -EAGAIN: the system permits no further thread.
 */
int emu_windows_create(struct emu_windows **ret, struct emu_worker **worker, uint32_t workers,
                       uint64_t lookahead_ps, const struct emu_windows_hosts *hosts);

/** emu_windows_destroy - end the threads. The caller still owns the workers. Thread: the driver. */
void emu_windows_destroy(struct emu_windows *windows);

/**
 * emu_windows_advance - step all devices through their events up to and including @until_ps.
 * Thread: the driver.
 */
void emu_windows_advance(struct emu_windows *windows, uint64_t until_ps);

/**
 * emu_windows_next_ps - return the time of the next event on any host, or EMU_NEVER if there is
 * none up to EMU_LAST_PS. Thread: the driver.
 */
uint64_t emu_windows_next_ps(struct emu_windows *windows);

/** emu_windows_count - return the number of windows so far. Thread: the driver. */
uint64_t emu_windows_count(const struct emu_windows *windows);

#endif
