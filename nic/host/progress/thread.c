/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.c - the adapter's thread: steps the adapter when no thread of the application does.
 *
 * Every 10 ms (NIC_SLEEP_NS) it checks whether a thread of the application polls. If none does, it
 * steps the adapter until there is nothing to do, and then sleeps until the fabric wakes it. It
 * takes over earlier after fabemu_block(), and after fabemu_hand_over() when a segment arrives.
 * With --threads device it always steps, even if the application polls. This is not the default,
 * because on a host with few cores every message would wait for a thread switch.
 */
#include "nic/host/progress/progress.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/util/wait.h"
#include "nic/host/base/base.h"

#define THREAD_SPINS 20u /* steps without success before the thread sleeps */

struct nic_thread {
    struct fabemu *fab;
    pthread_t id;
    _Atomic bool stop;
};

static bool thread_stops(struct nic_thread *t)
{
    return atomic_load_explicit(&t->stop, memory_order_relaxed);
}

/* Step the adapter until there is nothing to do, then sleep until a segment arrives. */
static void thread_serve(struct nic_thread *t)
{
    struct fabemu *fab = t->fab;
    unsigned idle = 0;

    while (idle <= THREAD_SPINS) {
        if (nic_poll(fab)) {
            idle = 0;
            if (thread_stops(t))
                return;
        } else {
            emu_wait_round(idle++, false); /* spin */
        }
    }
    nic_sleep(fab, atomic_load_explicit(&fab->seen_tail, memory_order_acquire)); /* N2 */
}

static uint32_t polls_of(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->polls, memory_order_relaxed);
}

static void *thread_main(void *argument)
{
    struct nic_thread *t = argument;
    struct fabemu *fab = t->fab;
    struct emu_hostif_shared *shared = fab->hostif.shared;
    uint32_t seen = 0;

    while (!thread_stops(t)) {
        if (shared->device_threads || polls_of(fab) == seen) {
            thread_serve(t);
            continue;
        }
        seen = polls_of(fab);
        if (emu_hostif_nic_stand_by(shared, NIC_SLEEP_NS))
            seen = polls_of(fab); /* the application has left the adapter to this thread */
    }
    return NULL;
}

void fabemu_hand_over(struct fabemu *fab)
{
    if (!nic_is_defunct(fab))
        emu_hostif_nic_hand_over(fab->hostif.shared);
}

void fabemu_block(struct fabemu *fab)
{
    if (nic_is_defunct(fab))
        return;
    emu_hostif_nic_hand_over(fab->hostif.shared);
    emu_hostif_nic_wake(fab->hostif.shared);
}

int nic_thread_start(struct nic_thread **ret, struct fabemu *fab)
{
    struct nic_thread *t = calloc(1, sizeof *t);
    int err;

    if (!t)
        return -ENOMEM;
    t->fab = fab;
    err = nic_spawn(&t->id, thread_main, t);
    if (err)
        free(t);
    else
        *ret = t;
    return err;
}

void nic_thread_stop(struct nic_thread *t)
{
    if (!t)
        return;
    atomic_store_explicit(&t->stop, true, memory_order_relaxed);
    /* if the thread is just falling asleep, it sleeps for at most NIC_SLEEP_NS */
    emu_hostif_nic_wake(t->fab->hostif.shared);
    pthread_join(t->id, NULL);
    free(t);
}
