/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd.h - a worker that shares its core with those it serves: when it gives the core up, and
 * where it runs.
 *
 * Where threads outnumber cores a yield costs a turn of all others on the core. A process owes an
 * answer from when it was told of something until it posts (edge->owes). If none that owes one may
 * need the worker's core, those on that core compute, or sleep, or post something new, and nothing
 * that is under way waits for them. So the worker keeps its core for what comes sooner than they
 * would have given it back:
 * - what processes on other cores owe. Else, with 7 ranks beside the worker and 9 on the other
 *   core, it came just after each turn of the worker, and lay there for a round of all 7: 16 ranks'
 *   all-reduces took 45 us, not 28;
 * - what a device does soon of itself: within 2 us, and half of one more for the clock and for who
 *   polls. Else a conditional that was asked while the last process came was asked again after a
 *   round of all, for a rest of 1 us: 8 ranks' barriers took 20 us, not 14.
 *
 * A worker runs as often as any of those it serves, so it counts as one of its core's: it moves to
 * a core that has at least two fewer of those who post. The scheduler evens out the cores in the
 * end, but that takes it a tenth of a second.
 *
 * All of this is for one worker alone: of several, another may need the core. What processes say of
 * their cores is believed as far as that: one that owes, says that it is elsewhere and does not
 * answer has the worker wait for 5 us, 8 times and then once in 16, and anew whenever something
 * moved meanwhile; two or more that lie have it move once in EMU_CROWD_TURNS turns.
 * Thread: the worker's own.
 */
#ifndef EMU_CROWD_H
#define EMU_CROWD_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* So long the next answer of processes on other cores is waited for: as long as two of them take
 * their turns there. 12 us is no better. */
#define EMU_CROWD_ANSWER_NS 5000u
#define EMU_CROWD_IN_VAIN   8u   /* if none came so many times in a row, */
#define EMU_CROWD_UNHEARD   15u  /* not the next so many times, and then once */
#define EMU_CROWD_TURNS     256u /* between two looks at who is where: some milliseconds */

struct emu_worker;

/**
 * emu_crowd_core - where a worker belongs that is on @own: its core, or the one in @usable that has
 * the fewest of those it serves, if these are at least two fewer. Cores count from 1; a worker that
 * is on none of 1 to CPU_SETSIZE stays.
 * @on: by core, from 0: how many are there. Pure.
 */
uint32_t emu_crowd_core(const uint16_t on[CPU_SETSIZE], const cpu_set_t *usable, uint32_t own);

/** emu_crowd_moved, emu_crowd_still - in a pass something moved, or nothing. */
void emu_crowd_moved(struct emu_worker *worker);
void emu_crowd_still(struct emu_worker *worker);

/** emu_crowd_waits - is the core to be kept for now? */
bool emu_crowd_waits(struct emu_worker *worker);

/**
 * emu_crowd_look - the core where the worker on @own belongs, by what has posted since the last
 * look; @own if one of these streams.
 */
uint32_t emu_crowd_look(struct emu_worker *worker, uint32_t own);

/** emu_crowd_turn - the worker has had its core again after another thread. */
void emu_crowd_turn(struct emu_worker *worker);

#endif
