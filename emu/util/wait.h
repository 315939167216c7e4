/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - how all threads wait, and what a worker sleeps on.
 *
 * A thread without work spins a little, then yields a while, then sleeps; it is woken only if it
 * announced its sleep. If each thread has a core it spins for about as long as sleeping and waking
 * takes. If threads outnumber cores, a spinning thread delays the one that it waits for, so the
 * limits are small. Yields are few then, too: Linux may schedule sessions as groups
 * (sched_autogroup), and then a yield does not give the core to a fabric or peer of another
 * session. 8 ranks, 12 workers, 2 cores, the same work in two sessions: 7.2 s with 200 yields, 3.7
 * with 20; and 2.6 with either in one.
 *
 * A worker sleeps in epoll, not on a futex: the bells of its host interfaces are written by
 * processes that may not share a page with each other, and a worker has as many as nodes. Bells are
 * edge-triggered and never read, so nothing that a process does to its descriptor can block the
 * worker.
 */
#ifndef EMU_WAIT_H
#define EMU_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_WAIT_SPINS                 20u    /* rounds with a pause, then more, up to */
#define EMU_WAIT_SPINS_MOST            1000u  /* this many, unless they take longer than */
#define EMU_WAIT_SPIN_NS               20000u /* this: about the cost of sleeping and waking */
#define EMU_WAIT_SPINS_OVERSUBSCRIBED  2u /* all rounds with a pause, if threads outnumber cores */
#define EMU_WAIT_YIELDS                200u /* then rounds with a yield, then sleep */
#define EMU_WAIT_YIELDS_OVERSUBSCRIBED 20u  /* the same if threads outnumber cores */
/*
 * How long a thread may poll between two yields: as long as two context switches, and what a
 * process does in between, take twice.
 */
#define EMU_WAIT_POLL_NS 5000u

enum emu_wait_next {
    EMU_WAIT_AGAIN, /* check again */
    EMU_WAIT_SLEEP  /* sleep if possible */
};

/**
 * emu_wait_round - wait a little.
 * @rounds: empty rounds in a row, counted by the caller.
 * @oversubscribed: threads outnumber cores: the one that we wait for may need this core.
 */
enum emu_wait_next emu_wait_round(unsigned rounds, bool oversubscribed);

/**
 * emu_wait_spin - a pause, for callers that spin before their first round. False: this thread's
 * last timed yield gave its core to another thread, which may need it.
 */
bool emu_wait_spin(void);

/** emu_wait_yield - let another thread run. */
void emu_wait_yield(void);

/** emu_wait_time_all - time all yields of this thread, for emu_wait_was_away(). */
void emu_wait_time_all(void);

/** emu_wait_may_poll - has this thread had its core only for a moment since its last yield? */
bool emu_wait_may_poll(void);

/** emu_wait_was_away - did this thread's last timed yield give its core to another thread? */
bool emu_wait_was_away(void);

struct emu_waiter; /* what a worker sleeps on */

/** emu_waiter_create - Errors: -EMFILE, -ENOMEM. */
int emu_waiter_create(struct emu_waiter **ret);
void emu_waiter_destroy(struct emu_waiter *waiter);

/** emu_waiter_add, emu_waiter_remove - let the eventfd @bell wake the sleeper. Thread: any. */
int emu_waiter_add(struct emu_waiter *waiter, int bell);
void emu_waiter_remove(struct emu_waiter *waiter, int bell);

/** emu_waiter_ring - wake the sleeper. Thread: any. */
void emu_waiter_ring(struct emu_waiter *waiter);

/** emu_waiter_sleep - until a bell or @timeout_ns (UINT64_MAX: none). Thread: the worker. */
void emu_waiter_sleep(struct emu_waiter *waiter, uint64_t timeout_ns);

#endif
