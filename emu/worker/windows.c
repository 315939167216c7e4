/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.c - how workers agree on the next window of simulated time, and how they wait for it.
 *
 * The last worker to finish a window opens the next window. The driver (the thread that advances
 * the clock) opens the first window of each advance. When simulated time has reached the end of the
 * advance, the workers *pause*. A worker that waits for a window spins, and then sleeps on a futex.
 */
#include "emu/worker/windows.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emu/dev/outbox.h"
#include "emu/dev/affinity.h"
#include "emu/util/alloc.h"
#include "emu/util/spawn.h"
#include "emu/util/wait.h"
#include "emu/worker/worker.h"

/*
 * If each worker has a core, a worker that waits for a window makes this many CPU pauses before it
 * sleeps. These pauses take 40 us, about as long as sleeping and waking. A worker does not yield:
 * if other programs are busy, a yield takes milliseconds, but a woken thread runs sooner.
 */
#define WINDOW_SPINS 2000u

#define WINDOW_IDLE EMU_NEVER
#define WINDOW_STOP (EMU_NEVER - 1)

/* Other threads write `asleep`, so each worker has its own cache line. */
struct window_worker {
    alignas(EMU_LINE) _Atomic uint32_t asleep; /* futex; 1: wake this worker when a window opens */
    struct emu_windows *windows;
    struct emu_worker *worker;
    pthread_t thread;
    bool started;
};

struct emu_windows {
    /* Written once. */
    uint32_t workers;
    bool oversubscribed; /* workers outnumber cores, so the awaited worker may need this core */
    uint64_t lookahead_ps;
    struct emu_windows_hosts hosts; /* agree is NULL if there are no other hosts */
    struct window_worker *at;       /* by worker */

    /* Written by the driver while the workers pause: the end of the current advance. */
    uint64_t limit_ps;

    /* Both fields are in one cache line, because each worker that finishes a window writes both. */
    alignas(EMU_LINE) _Atomic uint64_t next_ps; /* time of the earliest event of all workers */
    _Atomic uint32_t arrived;                   /* workers that have finished the window */

    /*
     * Written by the thread that opens a window or pause, which then increments `number`. Window or
     * pause n uses until_ps[n % 2]. There are two elements because a slow worker may still read the
     * element of a pause while the driver writes the element of the next window. The element of the
     * pause is written again only after all workers have finished that window.
     */
    alignas(EMU_LINE) _Atomic uint64_t number; /* windows and pauses published so far */
    uint64_t until_ps[2]; /* end of the window; WINDOW_IDLE: a pause; WINDOW_STOP: threads end */
    uint64_t count;       /* windows published so far */
};

/* Lower next_ps to @at_ps, if @at_ps is earlier. */
static void windows_lower_next(struct emu_windows *windows, uint64_t at_ps)
{
    uint64_t next_ps = atomic_load_explicit(&windows->next_ps, memory_order_relaxed);

    while (at_ps < next_ps &&
           !atomic_compare_exchange_weak_explicit(&windows->next_ps, &next_ps, at_ps,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

/*
 * Publish the next window or pause. V2 pairs with V1: a worker that sees the new number also sees
 * the window's end. V4 pairs with V3: either this thread sees that a worker is about to sleep and
 * wakes it, or the worker sees the new number.
 */
static void windows_publish(struct emu_windows *windows, uint64_t until_ps)
{
    uint64_t number = atomic_load_explicit(&windows->number, memory_order_relaxed) + 1;

    windows->until_ps[number % 2] = until_ps;
    atomic_exchange_explicit(&windows->number, number, memory_order_seq_cst); /* V2, V4 */
    for (uint32_t i = 0; i < windows->workers; i++) {
        struct window_worker *at = &windows->at[i];

        if (atomic_load_explicit(&at->asleep, memory_order_seq_cst) && /* V4 */
            atomic_exchange_explicit(&at->asleep, 0, memory_order_seq_cst))
            syscall(SYS_futex, &at->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

/* Return the time of the next event on all hosts. All workers have finished the window. */
static uint64_t windows_agree(struct emu_windows *windows)
{
    uint64_t next_ps = atomic_load_explicit(&windows->next_ps, memory_order_relaxed); /* V5 */

    if (windows->hosts.agree)
        windows->hosts.agree(windows->hosts.ctx, &next_ps);
    return next_ps;
}

/* Open the window that begins at @from_ps, or a pause if this is after the end of the advance. */
static void windows_open(struct emu_windows *windows, uint64_t from_ps)
{
    uint64_t until_ps = WINDOW_IDLE;

    if (from_ps <= windows->limit_ps && from_ps != EMU_NEVER) {
        until_ps = from_ps + windows->lookahead_ps - 1;
        if (until_ps > windows->limit_ps)
            until_ps = windows->limit_ps;
        windows->count++;
        atomic_store_explicit(&windows->next_ps, EMU_NEVER, memory_order_relaxed);
    }
    windows_publish(windows, until_ps);
}

/*
 * V3: the worker announces its sleep, checks `number` once more, and only then sleeps. If the
 * publisher has set `asleep` to 0 meanwhile, FUTEX_WAIT returns at once.
 */
static void windows_sleep(struct emu_windows *windows, struct window_worker *at, uint64_t seen)
{
    atomic_exchange_explicit(&at->asleep, 1, memory_order_seq_cst); /* V3 */
    if (atomic_load_explicit(&windows->number, memory_order_seq_cst) == seen)
        syscall(SYS_futex, &at->asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    atomic_exchange_explicit(&at->asleep, 0, memory_order_seq_cst);
}

/* Wait for a window or pause after number *@seen, and return its element of until_ps[]. */
static uint64_t windows_wait(struct emu_windows *windows, struct window_worker *at, uint64_t *seen)
{
    unsigned spins = windows->oversubscribed ? 0 : WINDOW_SPINS;
    uint64_t number;

    while ((number = atomic_load_explicit(&windows->number, memory_order_acquire)) ==
           *seen) /* V1 */
        if (spins) {
            emu_wait_spin();
            spins--;
        } else {
            windows_sleep(windows, at, *seen);
        }
    *seen = number;
    return windows->until_ps[number % 2];
}

/* V5 pairs with itself: the last worker to finish the window sees all that the others wrote. */
static void windows_step(struct emu_windows *windows, struct window_worker *at, uint64_t until_ps)
{
    windows_lower_next(windows, emu_worker_window(at->worker, until_ps));
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
        if (until_ps != WINDOW_IDLE)
            windows_step(at->windows, at, until_ps);
    return NULL;
}

void emu_windows_advance(struct emu_windows *windows, uint64_t until_ps)
{
    struct window_worker *own = &windows->at[0];
    uint64_t seen = atomic_load_explicit(&windows->number, memory_order_relaxed);
    uint64_t from_ps = emu_windows_next_ps(windows);
    uint64_t window_ps;

    if (until_ps > EMU_LAST_PS)
        until_ps = EMU_LAST_PS;
    if (from_ps > until_ps)
        return; /* do not publish a pause: until_ps[] has no element for a second pause in a row */
    windows->limit_ps = until_ps;
    windows_open(windows, from_ps);
    while ((window_ps = windows_wait(windows, own, &seen)) != WINDOW_IDLE)
        windows_step(windows, own, window_ps);
    for (uint32_t i = 0; i < windows->workers; i++) /* O2 pairs with V5 */
        emu_outbox_settle(windows->at[i].worker);
}

uint64_t emu_windows_next_ps(struct emu_windows *windows)
{
    uint64_t next_ps;

    /* the driver may have woken devices by emu_dev_wake() */
    for (uint32_t i = 0; i < windows->workers; i++)
        windows_lower_next(windows, emu_worker_due_ps(windows->at[i].worker));
    next_ps = windows_agree(windows);
    return next_ps <= EMU_LAST_PS ? next_ps : EMU_NEVER;
}

uint64_t emu_windows_count(const struct emu_windows *windows)
{
    return windows->count;
}

/* Start the threads of all workers except the first, which the driver steps. */
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
    windows->oversubscribed = workers > emu_affinity_cores();
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
        windows_publish(windows, WINDOW_STOP);
    for (uint32_t i = 1; windows->at && i < windows->workers; i++)
        if (windows->at[i].started)
            pthread_join(windows->at[i].thread, NULL);
    free(windows->at);
    free(windows);
}
