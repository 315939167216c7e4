/* SPDX-License-Identifier: BSD-3-Clause */
/* local_time.h - clock virtual: the local time of this process (emu/hostif/simtime.h). */
#ifndef NIC_LOCAL_TIME_H
#define NIC_LOCAL_TIME_H

#include "nic/host/base/adapter.h"

/** nic_sim_is_owner - return whether the calling thread is the one whose calls take time. */
static inline bool nic_sim_is_owner(const struct fabemu *fab)
{
    return fab->simulated && pthread_equal(pthread_self(), fab->sim.owner);
}

/**
 * nic_locking, nic_unlocked - the calling thread is about to take a lock of the adapter (`lock` or
 * `sim.turn`); it has released the lock, or has not got it.
 */
static inline void nic_locking(struct fabemu *fab)
{
    if (nic_sim_is_owner(fab))
        atomic_fetch_add_explicit(&fab->sim.owner_locks, 1, memory_order_relaxed);
}

static inline void nic_unlocked(struct fabemu *fab)
{
    if (nic_sim_is_owner(fab))
        atomic_fetch_sub_explicit(&fab->sim.owner_locks, 1, memory_order_relaxed);
}

/**
 * nic_owner_has_lock - return whether the owner, which calls this, holds a lock of the adapter or is
 * about to take one. In a function that must not be called with a lock this means that a signal
 * handler of the program has interrupted another call of this library.
 */
static inline bool nic_owner_has_lock(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->sim.owner_locks, memory_order_relaxed);
}

/**
 * nic_turn_take, nic_turn_try, nic_turn_release - take or release sim.turn. nic_turn_try() returns
 * false if another thread, or the code that a signal handler has interrupted, holds it.
 */
void nic_turn_take(struct fabemu *fab);
bool nic_turn_try(struct fabemu *fab);
void nic_turn_release(struct fabemu *fab);

static inline uint64_t nic_local_ps(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->hostif.shared->sim.now_ps, memory_order_relaxed);
}

/** nic_spend - advance the local time by @ps. Another thread may end a wait at the same time. */
static inline void nic_spend(struct fabemu *fab, uint64_t ps)
{
    atomic_fetch_add_explicit(&fab->hostif.shared->sim.now_ps, ps, memory_order_release); /* Z1 */
}

/** nic_was_outside - return whether this process slept outside the fabric since its last wait. */
static inline bool nic_was_outside(const struct fabemu *fab)
{
    return fab->simulated &&
           atomic_load_explicit(&fab->hostif.shared->sim.outside, memory_order_relaxed);
}

/**
 * nic_await - wait until the fabric has simulated all events up to @until_ps, or until a segment
 * arrives. Lock: sim.turn.
 */
void nic_await(struct fabemu *fab, uint64_t until_ps);

/**
 * nic_outside_ends - if this process slept outside the fabric, advance the local time to the time
 * that the fabric has reached. Does nothing if another thread polls, because that thread then does
 * the same. Lock: not held.
 */
void nic_outside_ends(struct fabemu *fab);

#endif
