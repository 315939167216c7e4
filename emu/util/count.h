/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * count.h - counters with one writer, readable by any thread. One writer needs no locked
 * instruction. All accesses are relaxed, because a counter never orders other accesses.
 */
#ifndef EMU_COUNT_H
#define EMU_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>
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

/**
 * emu_sum - add @n to a sum of counters that processes or other hosts may have forged. If the true
 * sum does not fit, the sum becomes UINT64_MAX and stays there.
 * emu_sum32 - do the same with a sum of 32 bits, which becomes UINT32_MAX.
 * emu_sum_is_known - return whether a sum has never become too large. Pure.
 */
static inline void emu_sum(uint64_t *sum, uint64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum))
        *sum = UINT64_MAX;
}

static inline void emu_sum32(uint32_t *sum, uint64_t n)
{
    *sum = n < UINT32_MAX - *sum ? *sum + (uint32_t)n : UINT32_MAX;
}

static inline bool emu_sum_is_known(uint64_t sum)
{
    return sum != UINT64_MAX;
}

#endif
