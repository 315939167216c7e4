/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oversub.h - decide when the fabric's only worker yields its core, and on which core it runs,
 * while more threads than cores are busy (oversubscription).
 *
 * After a yield, all other threads of the core run before the worker runs again. A process *owes a
 * reply* from the time when the worker notifies it until it posts (hostif->owes). If a process that
 * owes a reply may need the worker's core, the worker yields. Otherwise the other threads of this
 * core compute, sleep or begin something new, and no traffic in flight waits for them. Then the
 * worker keeps its core if one of these events may come before a yield would return:
 * - A process on another core may reply. Without this rule, with 7 ranks on the worker's core and 9
 * on the other, a reply often came just after the worker had yielded, and waited until all 7 had
 * run. All-reduces of 16 ranks took 45 us instead of 28.
 * - A device is due within 2 us (plus 0.5 us for reading the clock and polling). Without this rule,
 * a link engine that was to repeat a network conditional 1 us later repeated it only after all
 * other threads had run. Barriers of 8 ranks took 20 us instead of 14.
 *
 * The worker counts as one thread of its core. So that it does not migrate back and forth, it
 * migrates only to a core with at least two fewer posting processes. The scheduler would balance
 * the cores, too, but takes a tenth of a second.
 *
 * A fabric with several workers does none of this, because another worker may need the core.
 *
 * Processes report their cores themselves. False reports can do two kinds of harm. First, a process
 * may owe a reply, claim to be on another core, and never post. Then the worker waits for 5 us
 * after a *pass* (an iteration of its loop) that moved segments. It waits after each of the first 8
 * such passes, and then after one in 16, until a segment comes during a wait. Second, two or more
 * processes can make the worker migrate once in EMU_OVERSUB_SLICES of its time slices. (A *time
 * slice* of the worker begins when it has its core again after another thread ran.)
 *
 * Thread: the worker.
 */
#ifndef EMU_OVERSUB_H
#define EMU_OVERSUB_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* How long to wait for a reply from another core: long enough for two processes to run there. */
#define EMU_OVERSUB_ANSWER_NS 5000u
#define EMU_OVERSUB_MISSES    8u   /* this many waits without a reply are allowed in a row */
#define EMU_OVERSUB_SKIPS     15u  /* then this many waits are skipped before each further one */
#define EMU_OVERSUB_SLICES    256u /* time slices between two checks of the core: a few ms */

struct emu_worker;

/**
 * emu_oversub_best_core - return the core in @usable with the fewest processes, if it has at least
 * two fewer than @own. Otherwise, or if @own is not in 1 to CPU_SETSIZE, return @own. Cores are
 * numbered from 1. @on: processes by core, indexed from 0. Pure.
 */
uint32_t emu_oversub_best_core(const uint16_t on[CPU_SETSIZE], const cpu_set_t *usable,
                               uint32_t own);

/**
 * emu_oversub_pass_moved - note that a pass has moved segments.
 * emu_oversub_pass_idle - note that a pass has moved none. The first such call after
 * emu_oversub_pass_moved() decides whether and how long the worker keeps its core.
 */
void emu_oversub_pass_moved(struct emu_worker *worker);
void emu_oversub_pass_idle(struct emu_worker *worker);

/** emu_oversub_keeps_core - return whether the worker is to keep its core instead of yielding. */
bool emu_oversub_keeps_core(struct emu_worker *worker);

/**
 * emu_oversub_pick_core - return the best core for a worker on @own, given the processes that have
 * posted since the last call. Returns @own if one of them receives a stream (dev/affinity.h).
 */
uint32_t emu_oversub_pick_core(struct emu_worker *worker, uint32_t own);

/**
 * emu_oversub_slice_begins - note that the worker has its core again after another thread ran.
 * After every EMU_OVERSUB_SLICES calls, the worker migrates to its best core.
 */
void emu_oversub_slice_begins(struct emu_worker *worker);

#endif
