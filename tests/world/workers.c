/* SPDX-License-Identifier: BSD-3-Clause */
/* workers.c - see world.h: what needs no CUnit. */
#include "tests/world/world.h"

#include <stdlib.h>

void *world_room(void *list, uint32_t count, uint32_t *room, size_t bytes)
{
    if (count < *room)
        return list;
    *room = *room ? 2 * *room : 64;
    list = realloc(list, *room * bytes);
    if (!list)
        abort();
    return list;
}

struct emu_fault_rates world_faults(uint32_t each)
{
    return (struct emu_fault_rates){.lost = each,
                                    .head = each,
                                    .payload = each,
                                    .twice = each,
                                    .late = each,
                                    .late_ps = 2000000};
}

uint64_t world_counters(const void *world, uint32_t count,
                        const void *(*counts)(const void *world, uint32_t i), size_t offset)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += world_counter(counts(world, i), offset);
    return sum;
}

void world_threads_stop(struct emu_thread **thread, struct emu_worker *const *worker,
                        uint32_t workers)
{
    for (uint32_t i = 0; i < workers; i++) {
        emu_thread_stop(thread[i]);
        thread[i] = NULL;
        atomic_store(&worker[i]->stop, 0);
    }
}

uint32_t world_bufs_held(const struct emu_pool *pool, struct emu_worker *const *worker,
                         uint32_t workers)
{
    uint32_t held = atomic_load(&pool->fresh);

    for (uint32_t i = 0; i < workers; i++)
        held -= worker[i]->cache.count;
    for (uint32_t at = (uint32_t)atomic_load(&pool->depot); at;
         at = atomic_load(&pool->chain[at - 1]))
        held -= EMU_POOL_CHAIN;
    return held;
}
