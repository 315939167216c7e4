/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.c - how workers agree on the next window, and how they wait for it.
 *
 * The last worker to finish a window opens the next one; the driver opens the
 * first of each advance. A worker that waits spins, yields, and then sleeps,
 * like every other (wait.h).
 */
#include "emu/worker/windows.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "emu/dev/outbox.h"
#include "emu/dev/place.h"
#include "emu/util/alloc.h"
#include "emu/util/spawn.h"
#include "emu/util/wait.h"
#include "emu/worker/worker.h"

/*
 * Pauses before a worker that waits for the others yields, where each has a core: some 10 us, more
 * than their parts of a window mostly differ by. A yield to nobody takes 0.4 to 1.2 us, and what is
 * done after it is slower, too (a fresh look at page tables): of two workers each needed 20.0 us
 * for its part of a window, and 18.5 with this many.
 */
#define WINDOW_SPINS 500u

#define WINDOW_REST EMU_NEVER
#define WINDOW_STOP (EMU_NEVER - 1)

/* What one worker says to the others; a line of its own. */
struct window_worker {
    alignas(EMU_LINE) _Atomic uint32_t asleep; /* 1: ring its bell when a window opens */
    struct emu_windows *windows;
    struct emu_worker *worker;
    pthread_t thread;
    bool started;
};

struct emu_windows {
    /* Written once. */
    uint32_t workers;
    bool oversubscribed; /* more workers than cores: do not spin for one that needs this core */
    uint64_t lookahead_ps;
    struct emu_windows_hosts hosts; /* agree NULL: this one is alone */
    struct window_worker *at;       /* by worker */

    /* The driver's, while the workers rest. */
    uint64_t limit_ps;

    /* One line, which a worker that has finished the window takes once. */
    alignas(EMU_LINE) _Atomic uint64_t next_ps; /* when something is to be done next, of them all */
    _Atomic uint32_t arrived;                   /* workers that have finished */

    /*
     * Written by who opens a window: before `turn`, which publishes it. There are two, used
     * alternately. A worker may still read that there is a rest while the driver writes the
     * window after it; the window after that cannot open before all workers have arrived.
     */
    alignas(EMU_LINE) _Atomic uint64_t turn; /* windows and rests so far */
    uint64_t until_ps[2];                    /* of the window, or WINDOW_REST, WINDOW_STOP */
    uint64_t count;                          /* windows so far */
};

/* A worker has something to do at @at_ps. */
static void windows_next(struct emu_windows *windows, uint64_t at_ps)
{
    uint64_t next_ps = atomic_load_explicit(&windows->next_ps, memory_order_relaxed);

    while (at_ps < next_ps &&
           !atomic_compare_exchange_weak_explicit(&windows->next_ps, &next_ps, at_ps,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

/* V2 pairs with V1: who sees the turn sees the window. V4 with V3: as W4 with W5 in worker.c. */
static void windows_turn(struct emu_windows *windows, uint64_t until_ps)
{
    uint64_t turn = atomic_load_explicit(&windows->turn, memory_order_relaxed) + 1;

    windows->until_ps[turn % 2] = until_ps;
    atomic_exchange_explicit(&windows->turn, turn, memory_order_seq_cst); /* V2, V4 */
    for (uint32_t i = 0; i < windows->workers; i++) {
        struct window_worker *at = &windows->at[i];

        if (atomic_load_explicit(&at->asleep, memory_order_seq_cst) && /* V4 */
            atomic_exchange_explicit(&at->asleep, 0, memory_order_seq_cst))
            emu_waiter_ring(at->worker->waiter);
    }
}

/* When something happens next, here and on all other hosts. All workers have arrived. */
static uint64_t windows_agree(struct emu_windows *windows)
{
    uint64_t next_ps = atomic_load_explicit(&windows->next_ps, memory_order_relaxed); /* V5 */

    if (windows->hosts.agree)
        windows->hosts.agree(windows->hosts.ctx, &next_ps);
    return next_ps;
}

/* Open the window that begins at @from_ps, or let everybody rest. All workers have arrived. */
static void windows_open(struct emu_windows *windows, uint64_t from_ps)
{
    uint64_t until_ps = WINDOW_REST;

    if (from_ps <= windows->limit_ps && from_ps != EMU_NEVER) {
        until_ps = from_ps + windows->lookahead_ps - 1;
        if (until_ps > windows->limit_ps)
            until_ps = windows->limit_ps;
        windows->count++;
        atomic_store_explicit(&windows->next_ps, EMU_NEVER, memory_order_relaxed);
    }
    windows_turn(windows, until_ps);
}

/* V3: say that we sleep, look once more, and only then sleep. */
static void windows_sleep(struct emu_windows *windows, struct window_worker *at, uint64_t seen)
{
    atomic_exchange_explicit(&at->asleep, 1, memory_order_seq_cst); /* V3 */
    if (atomic_load_explicit(&windows->turn, memory_order_seq_cst) == seen)
        emu_waiter_sleep(at->worker->waiter, UINT64_MAX);
    atomic_exchange_explicit(&at->asleep, 0, memory_order_seq_cst);
}

/* Wait for a turn after *seen, and say what it opened. */
static uint64_t windows_wait(struct emu_windows *windows, struct window_worker *at, uint64_t *seen)
{
    unsigned rounds = 0, spins = windows->oversubscribed ? 0 : WINDOW_SPINS;
    uint64_t turn;

    while ((turn = atomic_load_explicit(&windows->turn, memory_order_acquire)) == *seen) /* V1 */
        if (spins)
            spins = emu_wait_spin() ? spins - 1 : 0;
        else if (emu_wait_round(rounds++, windows->oversubscribed) == EMU_WAIT_SLEEP)
            windows_sleep(windows, at, *seen);
    *seen = turn;
    return windows->until_ps[turn % 2];
}

/*
 * Step the window that is open, and meet the others.
 * V5 pairs with itself: the last to arrive sees what all have said and written.
 */
static void windows_step(struct emu_windows *windows, struct window_worker *at, uint64_t until_ps)
{
    windows_next(windows, emu_worker_window(at->worker, until_ps));
    if (atomic_fetch_add_explicit(&windows->arrived, 1, memory_order_acq_rel) + 1 == /* V5 */
        windows->workers) {
        atomic_store_explicit(&windows->arrived, 0, memory_order_relaxed);
        windows_open(windows, windows_agree(windows));
    }
}

static void *windows_thread(void *arg)
{
    struct window_worker *at = arg;
    uint64_t seen = 0;
    uint64_t until_ps;

    while ((until_ps = windows_wait(at->windows, at, &seen)) != WINDOW_STOP)
        if (until_ps != WINDOW_REST)
            windows_step(at->windows, at, until_ps);
    return NULL;
}

void emu_windows_advance(struct emu_windows *windows, uint64_t until_ps)
{
    struct window_worker *own = &windows->at[0];
    uint64_t seen = atomic_load_explicit(&windows->turn, memory_order_relaxed);
    uint64_t from_ps = emu_windows_next_ps(windows);
    uint64_t window_ps;

    if (until_ps > EMU_LAST_PS)
        until_ps = EMU_LAST_PS;
    if (from_ps > until_ps)
        return; /* between two rests every worker takes part in a window: see until_ps[] */
    windows->limit_ps = until_ps;
    windows_open(windows, from_ps);
    while ((window_ps = windows_wait(windows, own, &seen)) != WINDOW_REST)
        windows_step(windows, own, window_ps);
    for (uint32_t i = 0; i < windows->workers; i++) /* O2: V5 */
        emu_outbox_settle(windows->at[i].worker);
}

uint64_t emu_windows_next_ps(struct emu_windows *windows)
{
    uint64_t next_ps;

    for (uint32_t i = 0; i < windows->workers; i++) /* what the driver wants of its devices */
        windows_next(windows, emu_worker_due_ps(windows->at[i].worker));
    next_ps = windows_agree(windows);
    return next_ps <= EMU_LAST_PS ? next_ps : EMU_NEVER;
}

uint64_t emu_windows_count(const struct emu_windows *windows)
{
    return windows->count;
}

/* Threads for all workers but the first, which is the driver's. */
static int windows_start(struct emu_windows *windows)
{
    int err = 0;

    for (uint32_t i = 1; !err && i < windows->workers; i++) {
        struct window_worker *at = &windows->at[i];
        char name[24];

        snprintf(name, sizeof name, "fab-worker-%u", i % 10000);
        err = emu_spawn(&at->thread, name, windows_thread, at);
        at->started = !err;
    }
    return err;
}

int emu_windows_create(struct emu_windows **ret, struct emu_worker **worker, uint32_t workers,
                       uint64_t lookahead_ps, const struct emu_windows_hosts *hosts)
{
    struct emu_windows *windows = emu_zeros(sizeof *windows);
    int err;

    if (!windows)
        return -ENOMEM;
    windows->workers = workers;
    windows->lookahead_ps = lookahead_ps;
    windows->next_ps = EMU_NEVER;
    if (hosts)
        windows->hosts = *hosts;
    windows->oversubscribed = workers > emu_place_cores();
    windows->at = emu_zeros(workers * sizeof *windows->at);
    for (uint32_t i = 0; windows->at && i < workers; i++)
        windows->at[i] = (struct window_worker){.windows = windows, .worker = worker[i]};
    err = windows->at ? windows_start(windows) : -ENOMEM;
    if (err)
        emu_windows_destroy(windows);
    else
        *ret = windows;
    return err;
}

void emu_windows_destroy(struct emu_windows *windows)
{
    if (!windows)
        return;
    if (windows->at)
        windows_turn(windows, WINDOW_STOP);
    for (uint32_t i = 1; windows->at && i < windows->workers; i++)
        if (windows->at[i].started)
            pthread_join(windows->at[i].thread, NULL);
    free(windows->at);
    free(windows);
}
