/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c - change a table of groups, free it, and count its used slots. */
#include "emu/util/table.h"

#include <errno.h>
#include <stdlib.h>

#define TABLE_LEAST 64u /* slots of the first table */

int emu_table_set(_Atomic(struct emu_table *) *table, uint32_t id, void *what, void **old)
{
    struct emu_table *was = atomic_load_explicit(table, memory_order_relaxed);
    uint32_t slot = id % EMU_TABLE_SLOTS;
    uint32_t count = was ? was->count : TABLE_LEAST;
    struct emu_table *now;

    *old = NULL;
    if (was && slot < count) {
        atomic_store_explicit(&was->at[slot], what, memory_order_release); /* G4 */
        return 0;
    }
    while (count <= slot)
        count *= 2;
    now = calloc(1, sizeof *now + count * sizeof now->at[0]);
    if (!now)
        return -ENOMEM;
    now->count = count;
    for (uint32_t i = 0; was && i < was->count; i++)
        atomic_init(&now->at[i], atomic_load_explicit(&was->at[i], memory_order_relaxed));
    atomic_init(&now->at[slot], what);
    atomic_store_explicit(table, now, memory_order_release); /* G2 */
    *old = was;
    return 0;
}

void emu_table_clear(_Atomic(struct emu_table *) *table, uint32_t id)
{
    struct emu_table *now = atomic_load_explicit(table, memory_order_relaxed);

    if (now && id % EMU_TABLE_SLOTS < now->count)
        atomic_store_explicit(&now->at[id % EMU_TABLE_SLOTS], NULL, memory_order_relaxed);
}

uint32_t emu_table_taken(const _Atomic(struct emu_table *) *table)
{
    const struct emu_table *now = atomic_load_explicit(table, memory_order_relaxed);
    uint32_t taken = 0;

    for (uint32_t slot = 0; now && slot < now->count; slot++)
        taken += atomic_load_explicit(&now->at[slot], memory_order_relaxed) != NULL;
    return taken;
}

void emu_table_free(_Atomic(struct emu_table *) *table)
{
    free(atomic_load_explicit(table, memory_order_relaxed));
}
