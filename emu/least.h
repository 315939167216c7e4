/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * least.h - the least loaded of several.
 */
#ifndef EMU_LEAST_H
#define EMU_LEAST_H

#include "emu/bits.h"

/**
 * emu_least - those of @from for which @load() says least; all of them, where several have the
 * same. Pure.
 * @load: of @of, the load of one: a constant, so that it is inlined.
 */
static inline __attribute__((always_inline)) uint64_t emu_least(
    uint64_t from, uint32_t (*load)(const void *of, uint32_t one), const void *of)
{
    uint32_t least = UINT32_MAX;
    uint64_t best = 0;

    emu_each_bit (one, from) {
        uint32_t its = load(of, one);

        if (its < least) {
            least = its;
            best = 0;
        }
        best |= (uint64_t)(its == least) << one;
    }
    return best;
}

#endif
