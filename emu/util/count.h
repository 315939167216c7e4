/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * count.h - counters with one writer, readable by any thread. One writer needs no locked
 * instruction. All accesses are relaxed, because a counter never orders other accesses.
 */
#ifndef EMU_COUNT_H
#define EMU_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

/** emu_count - add @n to a counter. Thread: the counter's only writer. */
static inline void emu_count(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t old = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, old + n, memory_order_relaxed);
}

/** emu_count_read - return a recent value of a counter. Thread: any. */
static inline uint64_t emu_count_read(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif
