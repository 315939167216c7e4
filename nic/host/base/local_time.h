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

/* The fences order accesses for signal handlers only, which run in the same thread. */
static inline void nic_sim_count_section(struct fabemu *fab, uint32_t change)
{
    uint32_t sections;

    if (!nic_sim_is_owner(fab))
        return;
    sections = atomic_load_explicit(&fab->sim.sections, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&fab->sim.sections, sections + change, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

/**
 * nic_sim_enter, nic_sim_leave - begin or end a section of the owner's code: it is about to take a
 * lock of the adapter (`lock` or `sim.turn`), holds it, or counts the time of a call. A signal
 * handler of the program that interrupts the section must not take a lock of the adapter, wait in
 * simulated time, or count a call. These functions do nothing in other threads.
 */
static inline void nic_sim_enter(struct fabemu *fab)
{
    nic_sim_count_section(fab, 1);
}

static inline void nic_sim_leave(struct fabemu *fab)
{
    nic_sim_count_section(fab, UINT32_MAX);
}

/**
 * nic_sim_may_enter - return whether the calling thread is the owner and in no such section. The
 * owner calls the functions for the program outside of these sections, so false means there that
 * another thread calls, or a signal handler that has interrupted a section.
 */
static inline bool nic_sim_may_enter(const struct fabemu *fab)
{
    return nic_sim_is_owner(fab) && !atomic_load_explicit(&fab->sim.sections, memory_order_relaxed);
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
