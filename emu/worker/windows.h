/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.h - clock virtual: workers move through simulated time in windows.
 *
 * A window begins at the earliest time at which anything happens anywhere and
 * is as long as the lookahead: the least time in which one device can act on
 * another (emu_profile_lookahead_ps()). So in a window every device can be
 * stepped alone, through all of its events in time order, and whatever it sends
 * belongs to a later window. Idle time is jumped over. Where windows begin
 * changes nothing: the order of a device's events is by their times alone.
 *
 * One worker is stepped by the thread that drives the clock (worker 0), each
 * other one by a thread of its own. Between windows they meet; between calls of
 * emu_windows_advance() all of them stand still, and the driver may look at
 * every device and change what it likes.
 */
#ifndef EMU_WINDOWS_H
#define EMU_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

struct emu_windows;
struct emu_worker;

/*
 * Other hosts, that go through the same windows (emu/hostlink/virtual.h). agree() is called between
 * two windows, and when the driver asks for the next one, while all workers of this host stand
 * still, by whichever of their threads: what was sent to other hosts goes, what they sent has come
 * when it returns, and *next_ps is then the earliest time at which anything happens on any host, as
 * it was of this one; EMU_NEVER if the others are gone. All hosts ask equally often, since all
 * drive their windows alike.
 */
struct emu_windows_hosts {
    void (*agree)(void *ctx, uint64_t *next_ps);
    void *ctx;
};

/**
 * emu_windows_create - a clock for @workers workers, at time 0; starts the threads of all but the
 * first.
 * @lookahead_ps: at least 1. @worker: borrowed. @hosts: the others; NULL: this one is alone.
 * Errors: -ENOMEM, -EAGAIN (threads).
 */
int emu_windows_create(struct emu_windows **ret, struct emu_worker **worker, uint32_t workers,
                       uint64_t lookahead_ps, const struct emu_windows_hosts *hosts);

/** emu_windows_destroy - end the threads; the workers stay. Thread: the driver. */
void emu_windows_destroy(struct emu_windows *windows);

/**
 * emu_windows_advance - run until everything up to @until_ps (included) has happened.
 * Thread: the driver.
 */
void emu_windows_advance(struct emu_windows *windows, uint64_t until_ps);

/**
 * emu_windows_next_ps - when something happens next, on any host; EMU_NEVER: nothing will by
 * EMU_LAST_PS. Thread: the driver.
 */
uint64_t emu_windows_next_ps(struct emu_windows *windows);

/** emu_windows_count - windows so far. Thread: the driver. */
uint64_t emu_windows_count(const struct emu_windows *windows);

#endif
