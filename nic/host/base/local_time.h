/* SPDX-License-Identifier: BSD-3-Clause */
/* local_time.h - clock virtual: the local time of this process (emu/hostif/simtime.h). */
#ifndef NIC_LOCAL_TIME_H
#define NIC_LOCAL_TIME_H

#include "nic/host/base/adapter.h"

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
