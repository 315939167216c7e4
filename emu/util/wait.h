/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - how all threads wait, and the object on which a worker sleeps.
 *
 * A thread without work spins a little, then yields for a while, then sleeps. Other threads wake it
 * only if it has announced its sleep. If each thread has a core, a thread spins for about as long
 * as sleeping and waking takes. If threads outnumber cores, a thread spins less, because the thread
 * for which it waits may need its core. It then also sleeps after fewer yields, because Linux may
 * schedule each session as a group (sched_autogroup), and a yield does not give the core to a
 * thread of another session. For example, 8 ranks and 12 workers in two sessions on 2 cores took
 * 7.2 s with up to 200 yields and 3.7 s with up to 20. In one session they took 2.6 s with either
 * limit.
 *
 * A worker sleeps in epoll, not on a futex, because it waits for several processes that share no
 * memory with each other. Each process has a *bell* of its own (an eventfd). The bells of processes
 * are edge-triggered and never read, so a process cannot block the worker by using its descriptor.
 * A worker that waits for other workers in a window of simulated time uses a futex (windows.c).
 */
#ifndef EMU_WAIT_H
#define EMU_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Limits of a wait, in rounds of emu_wait_round(). If each thread has a core, a thread spins for
 * EMU_WAIT_SPINS rounds without reading the clock. It continues to spin for EMU_WAIT_SPIN_NS, which
 * is about the cost of sleeping and waking, but for at most EMU_WAIT_SPINS_MOST rounds in all. It
 * then yields for EMU_WAIT_YIELDS rounds, then sleeps. If threads outnumber cores, it spins for
 * EMU_WAIT_SPINS_OVERSUBSCRIBED rounds, yields for EMU_WAIT_YIELDS_OVERSUBSCRIBED rounds, then
 * sleeps.
 */
#define EMU_WAIT_SPINS                 20u
#define EMU_WAIT_SPINS_MOST            1000u
#define EMU_WAIT_SPIN_NS               20000u
#define EMU_WAIT_SPINS_OVERSUBSCRIBED  2u
#define EMU_WAIT_YIELDS                200u
#define EMU_WAIT_YIELDS_OVERSUBSCRIBED 20u
/* How long a thread may poll between two yields. A yield to a process takes about half as long. */
#define EMU_WAIT_POLL_NS 5000u

enum emu_wait_next {
    EMU_WAIT_AGAIN, /* check again */
    EMU_WAIT_SLEEP  /* sleep if possible */
};

/**
 * emu_wait_round - spin or yield once, or return EMU_WAIT_SLEEP if the caller should sleep instead.
 * @rounds: rounds of this wait so far, counted by the caller.
 * @oversubscribed: threads outnumber cores, so the awaited thread may need this core.
 */
enum emu_wait_next emu_wait_round(unsigned rounds, bool oversubscribed);

/*
 * A thread measures how long some of its yields take, or all of them after emu_wait_time_all(). The
 * time of such a *timed* yield shows whether another thread has run on the core meanwhile.
 */

/** emu_wait_spin - pause the CPU once, for callers that spin and then sleep without a yield. */
void emu_wait_spin(void);

void emu_wait_yield(void);

void emu_wait_time_all(void);

/** emu_wait_may_poll - return whether the last timed yield ended less than EMU_WAIT_POLL_NS ago. */
bool emu_wait_may_poll(void);

/** emu_wait_was_preempted - return whether this thread's last timed yield gave away its core. */
bool emu_wait_was_preempted(void);

struct emu_waiter; /* a worker sleeps on it */

/** emu_waiter_create - make an object on which a worker can sleep. Errors: -EMFILE, -ENOMEM. */
int emu_waiter_create(struct emu_waiter **ret);
void emu_waiter_destroy(struct emu_waiter *waiter);

/**
 * emu_waiter_add - from now on, eventfd @bell wakes the sleeper. Errors: those of epoll_ctl().
 * emu_waiter_remove - undo emu_waiter_add(). Thread of both: any.
 */
int emu_waiter_add(struct emu_waiter *waiter, int bell);
void emu_waiter_remove(struct emu_waiter *waiter, int bell);

/** emu_waiter_ring - wake the sleeper. Thread: any. */
void emu_waiter_ring(struct emu_waiter *waiter);

/** emu_waiter_sleep - sleep until a bell rings or for @timeout_ns; UINT64_MAX: no limit. */
void emu_waiter_sleep(struct emu_waiter *waiter, uint64_t timeout_ns);

#endif
