/* SPDX-License-Identifier: BSD-3-Clause */
/* crowd.c - oversubscription: when a worker yields, and its affinity. See crowd.h. */
#include "emu/worker/crowd.h"

#include "emu/hostif/fabric/fabric.h"
#include "emu/util/now.h"
#include "emu/worker/worker.h"

#define CROWD_SOON_PS 2000000u /* a device due sooner is served before yielding */

enum owed {
    OWED_BY_NOBODY,
    OWED_FROM_ELSEWHERE, /* by processes on other cores only */
    OWED_FROM_HERE       /* by a process that may wait for this core */
};

/* 1 + its number; 0: unknown. */
static uint32_t own_core(void)
{
    return (uint32_t)sched_getcpu() + 1;
}

static bool is_crowded(const struct emu_worker *worker)
{
    return atomic_load_explicit(&worker->crowded, memory_order_relaxed);
}

/* Which processes owe a reply? A process owes one from its notification until it posts. */
static enum owed crowd_owed(const struct emu_worker *worker)
{
    const struct emu_hostif_list *list =
        atomic_load_explicit(&worker->edges, memory_order_acquire); /* E1 */
    uint32_t own = own_core();
    bool away = false;

    for (uint32_t i = 0; list && i < list->count; i++) {
        uint32_t core = list->edge[i]->owes;

        if (core == own || core == EMU_HOSTIF_ANYWHERE)
            return OWED_FROM_HERE;
        away |= core != 0;
    }
    return away ? OWED_FROM_ELSEWHERE : OWED_BY_NOBODY;
}

/* Is the next reply worth waiting for? Only rarely if none came lately. */
static bool crowd_may_hear(struct emu_crowd *crowd)
{
    if (crowd->in_vain < EMU_CROWD_IN_VAIN ||
        crowd->in_vain >= EMU_CROWD_IN_VAIN + EMU_CROWD_UNHEARD)
        return true;
    crowd->in_vain++;
    return false;
}

void emu_crowd_still(struct emu_worker *worker)
{
    struct emu_crowd *crowd = &worker->crowd;
    enum owed owed;

    if (crowd->asked)
        return;
    crowd->asked = true;
    if (!is_crowded(worker))
        return;
    owed = crowd_owed(worker);
    if (owed == OWED_FROM_HERE)
        return;
    crowd->answer = owed == OWED_FROM_ELSEWHERE && crowd_may_hear(crowd);
    if (crowd->answer)
        crowd->wait_ns = emu_now_ns() + EMU_CROWD_ANSWER_NS;
    else if (worker->rest_ps <= CROWD_SOON_PS)
        crowd->wait_ns = emu_now_ns() + (worker->rest_ps + CROWD_SOON_PS / 4) / 1000u;
}

void emu_crowd_moved(struct emu_worker *worker)
{
    struct emu_crowd *crowd = &worker->crowd;

    if (crowd->wait_ns && crowd->answer)
        crowd->in_vain = 0;
    crowd->wait_ns = 0;
    crowd->asked = false;
}

bool emu_crowd_waits(struct emu_worker *worker)
{
    struct emu_crowd *crowd = &worker->crowd;

    if (crowd->wait_ns && emu_now_ns() >= crowd->wait_ns) {
        crowd->wait_ns = 0;
        if (crowd->answer)
            crowd->in_vain = crowd->in_vain < EMU_CROWD_IN_VAIN ? crowd->in_vain + 1
                                                                : EMU_CROWD_IN_VAIN;
    }
    return crowd->wait_ns;
}

/* --- affinity ----------------------------------------------------------------------- */

/*
 * Count into @on, by core, the processes that posted since the last check. False: one of them is
 * sending a stream, which decides the worker's core by itself (place.h).
 */
static bool crowd_count(struct emu_worker *worker, uint16_t on[CPU_SETSIZE])
{
    const struct emu_hostif_list *list =
        atomic_load_explicit(&worker->edges, memory_order_acquire); /* E1 */
    bool streams = false;

    for (uint32_t i = 0; list && i < list->count; i++) {
        struct emu_hostif *edge = list->edge[i];
        uint32_t core = atomic_load_explicit(&edge->shared->post_core, memory_order_relaxed);

        if (!edge->posted)
            continue;
        edge->posted = false;
        streams |= edge->streams;
        if (core && core <= CPU_SETSIZE)
            on[core - 1]++;
    }
    return !streams;
}

uint32_t emu_crowd_core(const uint16_t on[CPU_SETSIZE], const cpu_set_t *usable, uint32_t own)
{
    uint32_t least = own;

    if (!own || own > CPU_SETSIZE)
        return own;
    for (uint32_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, usable) && on[i] < on[least - 1])
            least = i + 1;
    return on[own - 1] >= on[least - 1] + 2 ? least : own;
}

uint32_t emu_crowd_look(struct emu_worker *worker, uint32_t own)
{
    uint16_t on[CPU_SETSIZE] = {0};
    cpu_set_t usable;

    if (!crowd_count(worker, on) || sched_getaffinity(0, sizeof usable, &usable))
        return own;
    return emu_crowd_core(on, &usable, own);
}

void emu_crowd_turn(struct emu_worker *worker)
{
    uint32_t own, core;

    if (!is_crowded(worker) || ++worker->crowd.turns < EMU_CROWD_TURNS)
        return;
    worker->crowd.turns = 0;
    own = own_core();
    core = emu_crowd_look(worker, own);
    if (core != own)
        emu_place_move(core);
}
