/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drive.c - the drive of a fabric, which lets its workers run and holds them. On clocks raw and
 * real each worker is a free-running thread. On clock virtual all workers step together through
 * windows of simulated time. This file also starts and rebases the clock (emu/util/clock.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/util/now.h"
#include "emu/worker/lockstep.h"

static int threads_start(struct fabric *fabric)
{
    fabric->drive.thread = calloc(fabric->workers, sizeof(struct emu_thread *));
    if (!fabric->drive.thread)
        return -ENOMEM;
    for (uint32_t w = 0; w < fabric->workers && !fabric->config.start_stopped; w++) {
        char name[16];
        int err;

        snprintf(name, sizeof name, "fab-worker-%u", w % 10000);
        err = emu_thread_start(&fabric->drive.thread[w], fabric->worker[w], NULL, name);
        if (err)
            return err;
    }
    return 0;
}

static void threads_stop(struct fabric *fabric)
{
    for (uint32_t w = 0; fabric->drive.thread && w < fabric->workers; w++)
        emu_thread_stop(fabric->drive.thread[w]);
    free(fabric->drive.thread);
}

static void threads_pause(struct fabric *fabric)
{
    emu_threads_pause(fabric->drive.thread, fabric->workers);
}

static void threads_resume(struct fabric *fabric)
{
    emu_threads_resume(fabric->drive.thread, fabric->workers);
}

static void threads_wake(struct fabric *fabric, struct emu_dev *dev, uint64_t now_ps)
{
    (void)fabric;
    (void)now_ps;
    emu_dev_signal_remote(dev, EMU_EVENT_DATA, 0);
}

static const struct fabric_drive_kind by_threads = {
    .start = threads_start,
    .stop = threads_stop,
    .pause = threads_pause,
    .resume = threads_resume,
    .wake = threads_wake,
};

static int windows_start(struct fabric *fabric)
{
    const struct fabric_hosts *hosts = fabric->config.hosts;
    struct emu_windows_hosts others = {.agree = NULL};

    if (hosts && hosts->ops)
        others = (struct emu_windows_hosts){.agree = hosts->ops->agree, .ctx = hosts->ctx};
    return emu_windows_create(&fabric->drive.windows, fabric->worker, fabric->workers,
                              emu_profile_lookahead_ps(&fabric->config.profile), &others);
}

static void windows_stop(struct fabric *fabric)
{
    emu_windows_destroy(fabric->drive.windows);
}

/*
 * Do nothing. No worker runs between two calls of fabric_advance(), so the workers need not be
 * held.
 */
static void windows_still(struct fabric *fabric)
{
    (void)fabric;
}

static void windows_wake(struct fabric *fabric, struct emu_dev *dev, uint64_t now_ps)
{
    (void)fabric;
    emu_dev_wake(dev, now_ps + 1);
}

static const struct fabric_drive_kind by_windows = {
    .start = windows_start,
    .stop = windows_stop,
    .pause = windows_still,
    .resume = windows_still,
    .wake = windows_wake,
    .is_virtual = true,
};

static int lockstep_start(struct fabric *fabric)
{
    uint64_t lookahead_ps = emu_profile_lookahead_ps(&fabric->config.profile);
    int err = windows_start(fabric);

    if (!err)
        err = emu_lockstep_create(&fabric->drive.lockstep, fabric->drive.windows, fabric->worker,
                                  fabric->workers, lookahead_ps, fabric->config.date_s);
    if (err)
        return err;
    fabric->drive.thread = calloc(fabric->workers, sizeof(struct emu_thread *));
    if (!fabric->drive.thread)
        return -ENOMEM;
    if (fabric->config.start_stopped)
        return 0;
    /* emu_windows_create() has started the threads of the other workers */
    return emu_thread_start(&fabric->drive.thread[0], fabric->worker[0], fabric->drive.lockstep,
                            "fab-worker-0");
}

static void lockstep_stop(struct fabric *fabric)
{
    threads_stop(fabric);
    emu_lockstep_destroy(fabric->drive.lockstep);
    emu_windows_destroy(fabric->drive.windows);
}

static void lockstep_wake(struct fabric *fabric, struct emu_dev *dev, uint64_t now_ps)
{
    (void)now_ps;
    emu_dev_wake(dev, emu_lockstep_reached_ps(fabric->drive.lockstep) + 1);
}

static const struct fabric_drive_kind by_lockstep = {
    .start = lockstep_start,
    .stop = lockstep_stop,
    .pause = threads_pause,
    .resume = threads_resume,
    .wake = lockstep_wake,
    .is_virtual = true,
};

void fabric_publish_base(struct fabric *fabric, struct emu_hostif *hostif)
{
    if (!fabric->drive.lockstep)
        return;
    fabric_pause(fabric);
    emu_lockstep_publish_base(fabric->drive.lockstep, hostif);
    fabric_resume(fabric);
}

void fabric_expect(struct fabric *fabric, uint32_t processes)
{
    if (!fabric->drive.lockstep || fabric->attached < processes)
        return;
    fabric_pause(fabric);
    emu_lockstep_complete(fabric->drive.lockstep);
    fabric_resume(fabric);
}

void fabric_set_pid(struct fabric *fabric, uint32_t node, pid_t pid)
{
    if (!fabric->drive.lockstep)
        return;
    fabric_pause(fabric);
    fabric->hostif[node]->pid = pid;
    fabric_resume(fabric);
}

uint64_t fabric_reached_ps(const struct fabric *fabric)
{
    return fabric->drive.lockstep ? emu_lockstep_reached_ps(fabric->drive.lockstep) : 0;
}

uint64_t fabric_outside_ns(const struct fabric *fabric, uint32_t node)
{
    const struct emu_hostif *hostif = fabric->hostif[node];

    return hostif ? emu_count_read(&hostif->outside_ns) : 0;
}

uint32_t fabric_host_time(const struct fabric *fabric, uint32_t node)
{
    const uint32_t known = EMU_HOST_TIME_TIMERS | EMU_HOST_TIME_THREADS | EMU_HOST_TIME_CLOCKS;
    const struct emu_hostif *hostif = fabric->hostif[node];

    if (!hostif)
        return 0;
    return atomic_load_explicit(&hostif->shared->sim.host_time, memory_order_relaxed) & known;
}

uint64_t fabric_process_ps(const struct fabric *fabric)
{
    return fabric->drive.lockstep ? fabric_reached_ps(fabric) : emu_now_ns() * 1000u;
}

uint64_t fabric_process_ns(const struct fabric *fabric)
{
    return fabric_process_ps(fabric) / 1000u;
}

void fabric_set_alarm(struct fabric *fabric, uint64_t at_ps, int fd)
{
    fabric_pause(fabric);
    emu_lockstep_set_alarm(fabric->drive.lockstep, at_ps, fd);
    fabric_resume(fabric);
}

void fabric_advance(struct fabric *fabric, uint64_t until_ps)
{
    emu_windows_advance(fabric->drive.windows, until_ps);
}

uint64_t fabric_next_ps(struct fabric *fabric)
{
    return emu_windows_next_ps(fabric->drive.windows);
}

uint64_t fabric_windows(const struct fabric *fabric)
{
    return emu_windows_count(fabric->drive.windows);
}

void fabric_drive_choose(struct fabric *fabric)
{
    static const struct fabric_drive_kind *const kinds[] = {
        [EMU_CLOCK_RAW] = &by_threads,
        [EMU_CLOCK_REAL] = &by_threads,
        [EMU_CLOCK_VIRTUAL] = &by_windows,
    };

    fabric->drive.kind = kinds[fabric->config.clock];
    if (fabric->config.clock == EMU_CLOCK_VIRTUAL && !fabric->config.local_nodes)
        fabric->drive.kind = &by_lockstep;
}

int fabric_drive_start(struct fabric *fabric)
{
    return fabric->drive.kind->start(fabric);
}

void fabric_drive_stop(struct fabric *fabric)
{
    fabric->drive.kind->stop(fabric);
}

void fabric_pause(struct fabric *fabric)
{
    if (!fabric->drive.holds++)
        fabric->drive.kind->pause(fabric);
}

void fabric_resume(struct fabric *fabric)
{
    if (!--fabric->drive.holds)
        fabric->drive.kind->resume(fabric);
}

void fabric_wake(struct fabric *fabric, struct emu_dev *dev, uint64_t now_ps)
{
    fabric->drive.kind->wake(fabric, dev, now_ps);
}

bool fabric_is_virtual(const struct fabric *fabric)
{
    return fabric->drive.kind->is_virtual;
}

uint64_t fabric_soon_ps(const struct fabric *fabric, uint64_t now_ps)
{
    return fabric_is_virtual(fabric) ? now_ps + 1 : now_ps;
}

void fabric_clock_start(struct fabric *fabric)
{
    uint64_t start_ps = fabric->config.start_ps;
    uint64_t rebased_ps = start_ps / EMU_REBASE_BY_PS * EMU_REBASE_BY_PS;

    if (start_ps < EMU_REBASE_PS)
        rebased_ps = 0;
    fabric->clock = (struct emu_clock){.mode = fabric->config.clock,
                                       .rebased_ps = rebased_ps,
                                       .origin_ns = emu_now_ns() - (start_ps - rebased_ps) / 1000u};
}

/* The devices at the ends of a cable rebase the cable. Host interfaces are rebased here. */
void fabric_clock_rebase(struct fabric *fabric, uint64_t by_ps)
{
    const struct topo_graph *graph = fabric->config.graph;

    emu_clock_rebase(&fabric->clock, by_ps);
    for (uint32_t w = 0; w < fabric->workers; w++)
        emu_worker_rebase(fabric->worker[w], by_ps);
    for (uint32_t s = 0; s < graph->switches; s++)
        if (fabric->sw[s])
            switch_rebase(fabric->sw[s], by_ps);
    for (uint32_t i = 0; i < fabric->engines.count; i++)
        if (fabric->engines.at[i])
            engine_rebase(fabric->engines.at[i], by_ps);
    for (uint32_t n = 0; n < graph->nodes; n++)
        if (fabric->hostif[n])
            emu_hostif_rebase(fabric->hostif[n], by_ps);
    if (fabric->has_host_links && fabric->config.hosts->ops->rebase)
        fabric->config.hosts->ops->rebase(fabric->config.hosts->ctx, by_ps);
}

uint64_t fabric_now_ps(const struct fabric *fabric)
{
    return fabric->clock.mode == EMU_CLOCK_REAL ? emu_clock_now(&fabric->clock) : 0;
}

/* Compare nanoseconds, because picoseconds may have wrapped while no process was attached. */
static bool clock_needs_rebase(const struct fabric *fabric)
{
    return emu_now_ns() - fabric->clock.origin_ns >= EMU_REBASE_PS / 1000u;
}

void fabric_clock_tick(struct fabric *fabric)
{
    if (fabric->clock.mode != EMU_CLOCK_REAL || fabric->config.local_nodes ||
        !clock_needs_rebase(fabric))
        return;
    fabric_pause(fabric);
    while (clock_needs_rebase(fabric))
        fabric_clock_rebase(fabric, EMU_REBASE_BY_PS);
    fabric_resume(fabric);
}
