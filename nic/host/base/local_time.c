/* SPDX-License-Identifier: BSD-3-Clause */
/* local_time.c - clock virtual: the local time of this process. */
#include "nic/host/base/local_time.h"

#include "nic/host/base/base.h"

void nic_turn_take(struct fabemu *fab)
{
    nic_sim_enter(fab);
    pthread_mutex_lock(&fab->sim.turn);
}

bool nic_turn_try(struct fabemu *fab)
{
    nic_sim_enter(fab);
    if (!pthread_mutex_trylock(&fab->sim.turn))
        return true;
    nic_sim_leave(fab);
    return false;
}

void nic_turn_release(struct fabemu *fab)
{
    pthread_mutex_unlock(&fab->sim.turn);
    nic_sim_leave(fab);
}

void nic_await(struct fabemu *fab, uint64_t until_ps)
{
    while (!emu_hostif_nic_await(&fab->hostif, until_ps))
        if (nic_is_defunct(fab))
            return;
}

void nic_outside_ends(struct fabemu *fab)
{
    if (!nic_was_outside(fab) || !nic_turn_try(fab))
        return;
    nic_await(fab, nic_local_ps(fab));
    nic_turn_release(fab);
}
