/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - all waiting: the one strategy, and what a worker sleeps on.
 *
 * Whoever has nothing to do spins a little, then yields a while, then sleeps
 * and is woken only because it said that it sleeps. Where each thread has a
 * core it spins for about as long as to sleep and be woken would take. When
 * threads outnumber cores, a spinning thread holds up the one that it waits
 * for: the bounds are small on purpose. Yields are few there, too: Linux may
 * schedule sessions as groups (sched_autogroup), and then a yield does not give
 * the core to a fabric or a peer that is in another one. 8 ranks, 12 workers, 2
 * cores, the same work in two sessions: 7.2 s with 200 yields, 3.7 with 20; and
 * 2.6 with either in one.
 *
 * A worker sleeps in epoll, not on a futex: the bells of its edges are written
 * by processes that may not share a page with each other, and a worker has as
 * many edges as nodes. Bells are edge-triggered and never read, so nothing that
 * a process does to its descriptor can block the worker.
 */
#ifndef EMU_WAIT_H
#define EMU_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#define EMU_WAIT_SPINS                 20u    /* rounds with a pause, and then more, up to */
#define EMU_WAIT_SPINS_MOST            1000u  /* so many, as long as they take no longer than */
#define EMU_WAIT_SPIN_NS               20000u /* this: about what to sleep and be woken costs */
#define EMU_WAIT_SPINS_OVERSUBSCRIBED  2u     /* where threads outnumber cores: so many at all */
#define EMU_WAIT_YIELDS                200u   /* then rounds with a yield; then sleep */
#define EMU_WAIT_YIELDS_OVERSUBSCRIBED 20u    /* the same where threads outnumber cores */
/* Between two yields who looks for what nobody tells of may do so for so long: as two changes of a
 * thread, and what a process asks in between, take twice. */
#define EMU_WAIT_LOOK_NS 5000u

enum emu_wait_next {
    EMU_WAIT_AGAIN, /* look again */
    EMU_WAIT_SLEEP  /* nothing for long: sleep if you can */
};

/**
 * emu_wait_round - wait a little.
 * @rounds:  the caller's count of empty rounds in a row.
 * @oversubscribed: threads outnumber cores: who is waited for may need this very core.
 */
enum emu_wait_next emu_wait_round(unsigned rounds, bool oversubscribed);

/**
 * emu_wait_spin - a pause, for who knows that it is worth more of them before the first round.
 * False: this thread's last yield that was timed gave its core to another one, which may want it.
 */
bool emu_wait_spin(void);

/** emu_wait_yield - let another thread run. */
void emu_wait_yield(void);

/**
 * emu_wait_time_all - time all yields of this thread, not one in some. It pays for who asks
 * afterwards.
 */
void emu_wait_time_all(void);

/** emu_wait_may_look - has this thread had its core since its last yield for a moment only? */
bool emu_wait_may_look(void);

/** emu_wait_was_away - did this thread's last yield that was timed give its core to another one? */
bool emu_wait_was_away(void);

struct emu_waiter; /* what one worker sleeps on */

/** emu_waiter_create - Errors: -EMFILE, -ENOMEM. */
int emu_waiter_create(struct emu_waiter **ret);
void emu_waiter_destroy(struct emu_waiter *waiter);

/** emu_waiter_add, emu_waiter_remove - let the eventfd @bell wake the sleeper. Thread: any. */
int emu_waiter_add(struct emu_waiter *waiter, int bell);
void emu_waiter_remove(struct emu_waiter *waiter, int bell);

/** emu_waiter_ring - wake the sleeper. Thread: any. */
void emu_waiter_ring(struct emu_waiter *waiter);

/**
 * emu_waiter_sleep - until someone rings, or @timeout_ns passed (UINT64_MAX: no limit). Thread: the
 * worker.
 */
void emu_waiter_sleep(struct emu_waiter *waiter, uint64_t timeout_ns);

#endif
