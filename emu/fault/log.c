/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - a ring of fault hits. */
#include "emu/fault/log.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "emu/buffer/pool.h"
#include "emu/util/alloc.h"
#include "emu/util/count.h"

#define LOG_HITS 4096u /* a power of two */

struct emu_fault_log {
    alignas(EMU_LINE) _Atomic uint64_t put; /* hits appended so far */
    _Atomic uint64_t missed;
    alignas(EMU_LINE) _Atomic uint64_t taken;
    struct emu_fault_hit hit[LOG_HITS];
};

struct emu_fault_log *emu_fault_log_create(void)
{
    return emu_zeros(sizeof(struct emu_fault_log));
}

void emu_fault_log_destroy(struct emu_fault_log *log)
{
    free(log);
}

void emu_fault_log_put(struct emu_fault_log *log, const struct emu_fault_hit *hit)
{
    uint64_t put;

    if (!log)
        return;
    put = atomic_load_explicit(&log->put, memory_order_relaxed);
    /* J4 pairs with J3 */
    if (put - atomic_load_explicit(&log->taken, memory_order_acquire) == LOG_HITS) {
        emu_count(&log->missed, 1);
        return;
    }
    log->hit[put % LOG_HITS] = *hit;
    atomic_store_explicit(&log->put, put + 1, memory_order_release); /* J1 pairs with J2 */
}

bool emu_fault_log_take(struct emu_fault_log *log, struct emu_fault_hit *ret)
{
    uint64_t taken = atomic_load_explicit(&log->taken, memory_order_relaxed);

    if (atomic_load_explicit(&log->put, memory_order_acquire) == taken) /* J2 pairs with J1 */
        return false;
    *ret = log->hit[taken % LOG_HITS];
    atomic_store_explicit(&log->taken, taken + 1, memory_order_release); /* J3 pairs with J4 */
    return true;
}

uint64_t emu_fault_log_missed(const struct emu_fault_log *log)
{
    return emu_count_read(&log->missed);
}
