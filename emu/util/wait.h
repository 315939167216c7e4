/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - how all threads wait, and what a worker sleeps on.
 *
 * A thread without work spins a little, then yields for a while, then sleeps. Other threads wake it
 * only if it has announced its sleep. If each thread has a core, a thread spins for about as long
 * as sleeping and waking takes. If threads outnumber cores, a spinning thread delays the one for
 * which it waits, so it spins less. In this case it also yields less often. The reason is that
 * Linux may schedule each session as a group (sched_autogroup). Then a yield does not give the core
 * to a fabric or peer in another session. For example, 8 ranks and 12 workers in two sessions on 2
 * cores took 7.2 s with 200 yields and 3.7 s with 20. In one session the same work took 2.6 s with
 * either.
 *
 * A worker sleeps in epoll, not on a futex, because it must wait for several processes at once:
 * each of them has a *bell* (an eventfd) of its own, and no memory that others may write. The bells
 * of processes are edge-triggered and never read, so nothing that a process does to its descriptor
 * can block the worker.
 */
#ifndef EMU_WAIT_H
#define EMU_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Limits of a wait, in rounds of emu_wait_round(). If each thread has a core, a thread spins for
 * EMU_WAIT_SPINS rounds, and then on until EMU_WAIT_SPINS_MOST rounds or EMU_WAIT_SPIN_NS have
 * passed, which is about what sleeping and waking costs. It then yields for EMU_WAIT_YIELDS rounds,
 * then sleeps. If threads outnumber cores, it spins and yields only for the _OVERSUBSCRIBED rounds.
 */
#define EMU_WAIT_SPINS                 20u
#define EMU_WAIT_SPINS_MOST            1000u
#define EMU_WAIT_SPIN_NS               20000u
#define EMU_WAIT_SPINS_OVERSUBSCRIBED  2u
#define EMU_WAIT_YIELDS                200u
#define EMU_WAIT_YIELDS_OVERSUBSCRIBED 20u
/*
 * How long a thread may poll between two yields: twice the time of two context switches and of the
 * work of a process between them.
 */
#define EMU_WAIT_POLL_NS 5000u

enum emu_wait_next {
    EMU_WAIT_AGAIN, /* check again */
    EMU_WAIT_SLEEP  /* sleep if possible */
};

/**
 * emu_wait_round - wait a little: spin or yield. Returns EMU_WAIT_SLEEP if the caller should sleep
 * instead.
 * @rounds: empty rounds in a row, counted by the caller.
 * @oversubscribed: threads outnumber cores, so the awaited thread may need this core.
 */
enum emu_wait_next emu_wait_round(unsigned rounds, bool oversubscribed);

/**
 * emu_wait_spin - pause once, for callers that spin before their first emu_wait_round(). Returns
 * false if this thread's last timed yield gave its core to another thread, which may need it again.
 */
bool emu_wait_spin(void);

/** emu_wait_yield - let another thread run. */
void emu_wait_yield(void);

/** emu_wait_time_all - time all yields of this thread, for emu_wait_was_away(). */
void emu_wait_time_all(void);

/**
 * emu_wait_may_poll - return whether less than EMU_WAIT_POLL_NS have passed since this thread's
 * last timed yield.
 */
bool emu_wait_may_poll(void);

/**
 * emu_wait_was_away - return whether this thread's last timed yield gave its core to another
 * thread.
 */
bool emu_wait_was_away(void);

struct emu_waiter; /* what a worker sleeps on */

/** emu_waiter_create - make an object on which a worker can sleep. Errors: -EMFILE, -ENOMEM. */
int emu_waiter_create(struct emu_waiter **ret);
void emu_waiter_destroy(struct emu_waiter *waiter);

/**
 * emu_waiter_add, emu_waiter_remove - let the eventfd @bell wake the sleeper, or no longer. Thread:
 * any.
 */
int emu_waiter_add(struct emu_waiter *waiter, int bell);
void emu_waiter_remove(struct emu_waiter *waiter, int bell);

/** emu_waiter_ring - wake the sleeper. Thread: any. */
void emu_waiter_ring(struct emu_waiter *waiter);

/**
 * emu_waiter_sleep - sleep until a bell rings or @timeout_ns have passed (UINT64_MAX: no limit).
 * Thread: the worker.
 */
void emu_waiter_sleep(struct emu_waiter *waiter, uint64_t timeout_ns);

#endif
