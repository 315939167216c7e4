/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table.h - a table that is indexed by collective address (the address of a group). The manager
 * (the thread that controls the fabric) publishes it to a device by RCU. A slot changes in place.
 * If the table must grow, a larger one replaces it. Different addresses may use the same slot one
 * after the other, so each object in the table must contain its address.
 */
#ifndef EMU_TABLE_H
#define EMU_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define EMU_TABLE_SLOTS 65536u /* the low bits of an address select its slot */

struct emu_table {
    uint32_t count;
    _Atomic(void *) at[]; /* by slot */
};

/** emu_table_at - return the object in the slot of @id, or NULL. Thread: any RCU reader. */
static inline void *emu_table_at(const _Atomic(struct emu_table *) *table, uint32_t id)
{
    const struct emu_table *now =
        atomic_load_explicit(table, memory_order_acquire); /* G1: docs/ORDERING.md */
    uint32_t slot = id % EMU_TABLE_SLOTS;

    if (!now || slot >= now->count)
        return NULL;
    return atomic_load_explicit(&now->at[slot], memory_order_acquire); /* G3 */
}

/**
 * emu_table_set - put @what into the slot of @id. @old: gets memory that the caller must free after
 * emu_rcu_wait(), or NULL. Errors: -ENOMEM. Thread: the manager.
 */
int emu_table_set(_Atomic(struct emu_table *) *table, uint32_t id, void *what, void **old);

/**
 * emu_table_clear - empty the slot of @id. The caller may free its object after emu_rcu_wait().
 * Thread: the manager.
 */
void emu_table_clear(_Atomic(struct emu_table *) *table, uint32_t id);

/** emu_table_taken - return the number of used slots. Thread: the manager. */
uint32_t emu_table_taken(const _Atomic(struct emu_table *) *table);

/** emu_table_free - free the table but not its objects. Thread: any, with the workers stopped. */
void emu_table_free(_Atomic(struct emu_table *) *table);

#endif
