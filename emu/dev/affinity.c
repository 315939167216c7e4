/* SPDX-License-Identifier: BSD-3-Clause */
/* affinity.c - move a worker to the core of a sender. */
#include "emu/dev/affinity.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

/*
 * Let this thread use the cores in @all again. If @all was its whole cpuset, clear the affinity, so
 * that the thread may also use cores that are added to the cpuset later. Setting @all fails if all
 * of these cores have been taken from the cpuset meanwhile.
 */
static void affinity_unbind(const cpu_set_t *all)
{
    cpu_set_t every, now;

    memset(&every, 0xff, sizeof every);
    if (sched_setaffinity(0, sizeof every, &every) || sched_getaffinity(0, sizeof now, &now) ||
        !CPU_EQUAL(&now, all))
        sched_setaffinity(0, sizeof *all, all);
}

void emu_affinity_migrate(uint32_t core)
{
    cpu_set_t all, one;

    if (!core || core > CPU_SETSIZE || sched_getaffinity(0, sizeof all, &all) ||
        !CPU_ISSET(core - 1, &all))
        return;
    CPU_ZERO(&one);
    CPU_SET(core - 1, &one);
    if (!sched_setaffinity(0, sizeof one, &one))
        affinity_unbind(&all);
}

uint32_t emu_affinity_cores(void)
{
    cpu_set_t all;

    if (sched_getaffinity(0, sizeof all, &all))
        return (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    return (uint32_t)CPU_COUNT(&all);
}
