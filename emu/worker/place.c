/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * place.c - a worker goes to the core of who sends: see place.h.
 */
#include "emu/worker/place.h"

#include <sched.h>

void emu_place_move(uint32_t core)
{
    cpu_set_t all, one;

    if (!core || core > CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) ||
        !CPU_ISSET(core - 1, &all))
        return;
    CPU_ZERO(&one);
    CPU_SET(core - 1, &one);
    if (!sched_setaffinity(0, sizeof one, &one)) /* it is there now, */
        sched_setaffinity(0, sizeof all, &all);  /* and may go again */
}
