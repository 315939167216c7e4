/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.c - the adapter's thread: steps the adapter when no thread of the application does.
 *
 * Every 10 ms (NIC_SLEEP_NS) it checks whether a thread of the application polls. If none does, it
 * steps the adapter until there is nothing to do, and then sleeps until the fabric wakes it. With
 * --threads device it always steps, even if the application polls. This is not the default, because
 * on a host with few cores every message would wait for a thread switch.
 */
#include "nic/host/progress/progress.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/util/now.h"
#include "emu/util/wait.h"
#include "nic/host/base/base.h"

#define THREAD_SPINS 20u /* steps without success before the thread sleeps */

struct nic_thread {
    struct fabemu *fab;
    pthread_t id;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool stop; /* protected by lock */
};

/*
 * Sleep for @ns (0: not at all), but only until the thread must stop or fabemu_block() wakes it.
 * Returns whether the thread must stop.
 */
static bool thread_stops(struct nic_thread *t, uint64_t ns)
{
    bool stop;

    pthread_mutex_lock(&t->lock);
    if (ns && !t->stop) {
        struct timespec until = nic_until(ns);

        pthread_cond_timedwait(&t->stopped, &t->lock, &until);
    }
    stop = t->stop;
    pthread_mutex_unlock(&t->lock);
    return stop;
}

/* Step the adapter until there is nothing to do, then sleep until a segment arrives. */
static void thread_serve(struct nic_thread *t)
{
    struct fabemu *fab = t->fab;
    unsigned idle = 0;

    while (idle <= THREAD_SPINS) {
        if (nic_poll(fab)) {
            idle = 0;
            if (thread_stops(t, 0))
                return;
        } else {
            emu_wait_round(idle++, false); /* spin */
        }
    }
    nic_sleep(fab, atomic_load_explicit(&fab->seen_tail, memory_order_acquire)); /* N2 */
}

static void *thread_main(void *argument)
{
    struct nic_thread *t = argument;
    struct fabemu *fab = t->fab;
    bool always = fab->hostif.shared->device_threads;
    uint32_t seen = 0;

    while (!thread_stops(t, 0)) {
        uint32_t polls = atomic_load_explicit(&fab->polls, memory_order_relaxed);

        if (always || polls == seen || atomic_load_explicit(&fab->blocked, memory_order_relaxed)) {
            thread_serve(t);
        } else { /* the application polls */
            seen = polls;
            thread_stops(t, NIC_SLEEP_NS);
        }
    }
    return NULL;
}

void fabemu_block(struct fabemu *fab)
{
    struct nic_thread *t = fab->thread;

    if (nic_is_defunct(fab) || !t)
        return;
    pthread_mutex_lock(&t->lock);
    atomic_store_explicit(&fab->blocked, true, memory_order_relaxed);
    pthread_cond_signal(&t->stopped);
    pthread_mutex_unlock(&t->lock);
    /* wake the thread, which may be asleep in nic_sleep(): the application's polls have told the
       fabric not to wake it */
    emu_hostif_nic_wake(fab->hostif.shared);
}

static void thread_free(struct nic_thread *t)
{
    pthread_cond_destroy(&t->stopped);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

int nic_thread_start(struct nic_thread **ret, struct fabemu *fab)
{
    struct nic_thread *t = calloc(1, sizeof *t);
    int err;

    if (!t)
        return -ENOMEM;
    t->fab = fab;
    pthread_mutex_init(&t->lock, NULL);
    nic_cond_init(&t->stopped);
    err = nic_spawn(&t->id, thread_main, t);
    if (err)
        thread_free(t);
    else
        *ret = t;
    return err;
}

void nic_thread_stop(struct nic_thread *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_signal(&t->stopped);
    pthread_mutex_unlock(&t->lock);
    /* the thread may be asleep in nic_sleep(), for at most NIC_SLEEP_NS */
    emu_hostif_nic_wake(t->fab->hostif.shared);
    pthread_join(t->id, NULL);
    thread_free(t);
}
