/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * least.h - the least loaded of several.
 */
#ifndef EMU_LEAST_H
#define EMU_LEAST_H

#include "emu/util/ports.h"

/**
 * emu_least - those of @from for which @load() says least; all of them, where several have the
 * same. Pure.
 * @load: of @of, the load of one: a constant, so that it is inlined.
 */
static inline __attribute__((always_inline)) emu_ports emu_least(
    emu_ports from, uint32_t (*load)(const void *of, uint32_t one), const void *of)
{
    uint32_t least = UINT32_MAX;
    emu_ports best = EMU_NO_PORTS;

    emu_each_port (one, from) {
        uint32_t its = load(of, one);

        if (its < least) {
            least = its;
            best = EMU_NO_PORTS;
        }
        best |= emu_port_if(one, its == least);
    }
    return best;
}

#endif
