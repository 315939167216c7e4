/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oversub.h - oversubscription, when more threads than cores are busy: when the only worker yields
 * its core, and on which core it runs.
 *
 * After a yield all other threads of the core run first. A process owes a reply from its
 * notification until it posts (hostif->owes). If no process that owes a reply may need the worker's
 * core, the threads there compute, sleep or post something new, and nothing in flight waits for
 * them. So the worker keeps its core for events that come before the core would be free again:
 * - replies of processes on other cores. Otherwise, with 7 ranks on the worker's core and 9 on the
 *   other, a reply came just after each run of the worker and waited for all 7: all-reduces of 16
 *   ranks took 45 us, not 28;
 * - a device that is due within 2 us (plus 0.5 us for the clock and the poll). Otherwise a
 *   conditional queried just before the last process arrived was queried again only after all
 *   others had run, because of a delay of 1 us: barriers of 8 ranks took 20 us, not 14.
 *
 * A worker runs as often as any process, so it counts as a thread of its core. It migrates to a
 * core with at least two fewer posting processes. The scheduler would balance the cores, too, but
 * takes a tenth of a second.
 *
 * This is for one worker only: of several, another may need the core. The cores that processes
 * report are not trusted beyond that: a process that owes a reply, claims another core and never
 * replies makes the worker wait for 5 us, 8 times and then once in 16, and anew after each
 * progress; two or more that lie make it migrate once in EMU_OVERSUB_SLICES yields.
 * Thread: the worker's own.
 */
#ifndef EMU_OVERSUB_H
#define EMU_OVERSUB_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Wait for a reply from other cores as long as two processes run there. 12 us is no better. */
#define EMU_OVERSUB_ANSWER_NS 5000u
#define EMU_OVERSUB_MISSES    8u  /* after this many replies in a row did not come, */
#define EMU_OVERSUB_SKIPS     15u /* skip waiting this many times, then wait once */
/* yields between two checks of the affinity: some milliseconds */
#define EMU_OVERSUB_SLICES 256u

struct emu_worker;

/**
 * emu_oversub_best_core - the best core for a worker on @own: the core in @usable with the fewest
 * processes if it has at least two fewer, else @own. Cores count from 1; a worker on none of 1 to
 * CPU_SETSIZE stays. @on: processes by core, from 0. Pure.
 */
uint32_t emu_oversub_best_core(const uint16_t on[CPU_SETSIZE], const cpu_set_t *usable,
                               uint32_t own);

/** emu_oversub_pass_moved, emu_oversub_pass_idle - a pass moved segments, or none. */
void emu_oversub_pass_moved(struct emu_worker *worker);
void emu_oversub_pass_idle(struct emu_worker *worker);

/** emu_oversub_keeps_core - keep the core for now? */
bool emu_oversub_keeps_core(struct emu_worker *worker);

/** emu_oversub_pick_core - the best core for a worker on @own, which it keeps during a stream. */
uint32_t emu_oversub_pick_core(struct emu_worker *worker, uint32_t own);

/** emu_oversub_slice_begins - the worker has its core again after another thread. */
void emu_oversub_slice_begins(struct emu_worker *worker);

#endif
