/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oversub.c - how long the only worker of a fabric keeps its core, and which core it uses, while
 * more threads than cores are busy. A process *owes* a reply if it has received segments and has
 * not posted since.
 */
#include "emu/worker/oversub.h"

#include "emu/hostif/fabric/fabric.h"
#include "emu/util/now.h"
#include "emu/worker/worker.h"

#define OVERSUB_SOON_PS 2000000u /* the worker does not yield if a device is due sooner */

enum owed {
    OWED_BY_NOBODY,
    OWED_FROM_ELSEWHERE, /* owed only by processes on other cores */
    OWED_FROM_HERE       /* owed by a process that may wait for this core */
};

/* Cores are numbered from 1; 0: unknown. */
static uint32_t own_core(void)
{
    return (uint32_t)sched_getcpu() + 1;
}

static bool is_sole_oversubscribed(const struct emu_worker *worker)
{
    return atomic_load_explicit(&worker->sole_oversubscribed, memory_order_relaxed);
}

static enum owed oversub_owed(const struct emu_worker *worker)
{
    const struct emu_hostif_list *list =
        atomic_load_explicit(&worker->hostifs, memory_order_acquire); /* E1 */
    uint32_t own = own_core();
    bool away = false;

    for (uint32_t i = 0; list && i < list->count; i++) {
        uint32_t core = list->hostif[i]->owes;

        if (core == own || core == EMU_HOSTIF_ANYWHERE)
            return OWED_FROM_HERE;
        away |= core != 0;
    }
    return away ? OWED_FROM_ELSEWHERE : OWED_BY_NOBODY;
}

/* After EMU_OVERSUB_MISSES waits without a reply, allow only one wait in EMU_OVERSUB_SKIPS + 1. */
static bool oversub_may_wait(struct emu_oversub *oversub)
{
    if (oversub->misses < EMU_OVERSUB_MISSES ||
        oversub->misses >= EMU_OVERSUB_MISSES + EMU_OVERSUB_SKIPS)
        return true;
    oversub->misses++;
    return false;
}

void emu_oversub_pass_idle(struct emu_worker *worker)
{
    struct emu_oversub *oversub = &worker->oversub;
    enum owed owed;

    if (oversub->decided)
        return;
    oversub->decided = true;
    if (!is_sole_oversubscribed(worker))
        return;
    owed = oversub_owed(worker);
    if (owed == OWED_FROM_HERE)
        return;
    oversub->answer = owed == OWED_FROM_ELSEWHERE && oversub_may_wait(oversub);
    if (oversub->answer)
        oversub->wait_ns = emu_now_ns() + EMU_OVERSUB_ANSWER_NS;
    else if (worker->max_sleep_ps <= OVERSUB_SOON_PS)
        oversub->wait_ns = emu_now_ns() + (worker->max_sleep_ps + OVERSUB_SOON_PS / 4) / 1000u;
}

void emu_oversub_pass_moved(struct emu_worker *worker)
{
    struct emu_oversub *oversub = &worker->oversub;

    if (oversub->wait_ns && oversub->answer)
        oversub->misses = 0;
    oversub->wait_ns = 0;
    oversub->decided = false;
}

bool emu_oversub_keeps_core(struct emu_worker *worker)
{
    struct emu_oversub *oversub = &worker->oversub;

    if (oversub->wait_ns && emu_now_ns() >= oversub->wait_ns) {
        oversub->wait_ns = 0;
        if (oversub->answer)
            oversub->misses = oversub->misses < EMU_OVERSUB_MISSES ? oversub->misses + 1
                                                                   : EMU_OVERSUB_MISSES;
    }
    return oversub->wait_ns;
}

/* --- affinity ----------------------------------------------------------------------- */

/*
 * Count into @on, by core, the processes that posted since the last check. Return false if one of
 * them receives a stream, because its sender then determines the worker's core (affinity.h).
 */
static bool oversub_count(struct emu_worker *worker, uint16_t on[CPU_SETSIZE])
{
    const struct emu_hostif_list *list =
        atomic_load_explicit(&worker->hostifs, memory_order_acquire); /* E1 */
    bool streams = false;

    for (uint32_t i = 0; list && i < list->count; i++) {
        struct emu_hostif *hostif = list->hostif[i];
        uint32_t core = atomic_load_explicit(&hostif->shared->post_core, memory_order_relaxed);

        if (!hostif->posted)
            continue;
        hostif->posted = false;
        streams |= hostif->streams;
        if (core && core <= CPU_SETSIZE)
            on[core - 1]++;
    }
    return !streams;
}

uint32_t emu_oversub_best_core(const uint16_t on[CPU_SETSIZE], const cpu_set_t *usable,
                               uint32_t own)
{
    uint32_t least = own;

    if (!own || own > CPU_SETSIZE)
        return own;
    for (uint32_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, usable) && on[i] < on[least - 1])
            least = i + 1;
    return on[own - 1] >= on[least - 1] + 2 ? least : own;
}

uint32_t emu_oversub_pick_core(struct emu_worker *worker, uint32_t own)
{
    uint16_t on[CPU_SETSIZE] = {0};
    cpu_set_t usable;

    if (!oversub_count(worker, on) || sched_getaffinity(0, sizeof usable, &usable))
        return own;
    return emu_oversub_best_core(on, &usable, own);
}

void emu_oversub_slice_begins(struct emu_worker *worker)
{
    uint32_t own, core;

    if (!is_sole_oversubscribed(worker) || ++worker->oversub.turns < EMU_OVERSUB_SLICES)
        return;
    worker->oversub.turns = 0;
    own = own_core();
    core = emu_oversub_pick_core(worker, own);
    if (core != own)
        emu_affinity_migrate(core);
}
