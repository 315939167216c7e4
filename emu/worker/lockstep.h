/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lockstep.h - clock virtual with processes: simulated time advances together with the local times
 * of the attached processes (emu/hostif/simtime.h).
 *
 * One thread, the *driver*, steps worker 0 and opens the windows of simulated time (windows.h).
 * Before each window it reads which processes run and which wait. A window may contain only events
 * before the local time of each running process plus the lookahead. The driver therefore waits for
 * running processes, while these execute natively and in parallel.
 */
#ifndef EMU_LOCKSTEP_H
#define EMU_LOCKSTEP_H

#include <stdbool.h>
#include <stdint.h>

struct emu_hostif;
struct emu_lockstep;
struct emu_windows;
struct emu_worker;

/**
 * emu_lockstep_create - create the driver's state at time 0. @windows, @worker: borrowed. @date_s:
 * the processes' date at time 0, in seconds since 1970; 0: the host's date when time begins.
 * Errors: -ENOMEM.
 */
int emu_lockstep_create(struct emu_lockstep **ret, struct emu_windows *windows,
                        struct emu_worker **worker, uint32_t workers, uint64_t lookahead_ps,
                        uint32_t date_s);
void emu_lockstep_destroy(struct emu_lockstep *lockstep);

/**
 * emu_lockstep_pass - end the waits that are over, take posted segments, and simulate one window if
 * the processes allow it. Returns whether anything happened. Thread: the driver.
 */
bool emu_lockstep_pass(struct emu_lockstep *lockstep);

/**
 * emu_lockstep_idle - wait until a process begins to wait. Call this after a pass in which nothing
 * happened. *@rounds counts such passes in a row; the caller sets it to 0 after any other pass.
 * Thread: the driver.
 */
void emu_lockstep_idle(struct emu_lockstep *lockstep, unsigned *rounds);

/**
 * emu_lockstep_complete - note that all processes of the job have attached. Time begins as soon as
 * all of them are ready (emu_simtime.ready). Thread of this function and the next two: any, while
 * the driver is stopped.
 */
void emu_lockstep_complete(struct emu_lockstep *lockstep);

/** emu_lockstep_publish_base - tell a process when simulated time began, if it has. */
void emu_lockstep_publish_base(const struct emu_lockstep *lockstep, struct emu_hostif *hostif);

/**
 * emu_lockstep_set_alarm - do not advance time beyond @at_ps, and write to eventfd @fd, which is
 * borrowed, when time has reached it. Replaces the alarm that was set before. EMU_NEVER: no alarm.
 */
void emu_lockstep_set_alarm(struct emu_lockstep *lockstep, uint64_t at_ps, int fd);

/** emu_lockstep_reached_ps - return the time up to which all events are simulated. Thread: any. */
uint64_t emu_lockstep_reached_ps(const struct emu_lockstep *lockstep);

#endif
