/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * place.c - a worker goes to the core of who sends: see place.h.
 */
#include "emu/worker/place.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

void emu_place_move(uint32_t core)
{
    cpu_set_t all, one;

    if (!core || core > CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) ||
        !CPU_ISSET(core - 1, &all))
        return;
    CPU_ZERO(&one);
    CPU_SET(core - 1, &one);
    if (sched_setaffinity(0, sizeof one, &one))
        return;
    /* It is there now, and may go again; to any core, if its own were taken away meanwhile. */
    if (sched_setaffinity(0, sizeof all, &all)) {
        memset(&all, 0xff, sizeof all);
        sched_setaffinity(0, sizeof all, &all);
    }
}

uint32_t emu_place_cores(void)
{
    cpu_set_t all;

    if (sched_getaffinity(0, sizeof all, &all))
        return (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    return (uint32_t)CPU_COUNT(&all);
}
