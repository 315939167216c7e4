/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * noise.h - the operating system of a node takes the core away from the program, now and then.
 *
 * Of every period it has the core for a while, on each node from another time on, drawn by the
 * seed. Meanwhile the program neither posts anything nor takes what has come; adapters and switches
 * go on.
 * Source: Petrini, Kerbyson, Pakin, "The case of the missing supercomputer performance", SC'03;
 * Hoefler, Schneider, Lumsdaine, "Characterizing the influence of system noise", SC'10.
 */
#ifndef APPS_TRAFFIC_NOISE_H
#define APPS_TRAFFIC_NOISE_H

#include <stdint.h>

#include "emu/random.h"

struct traffic_noise {
    uint64_t period_ps;
    uint64_t length_ps; /* less than the period; 0: there is none */
};

/** traffic_noise_phase - how far into a period @node is at time 0. Pure. */
static inline uint64_t traffic_noise_phase(const struct traffic_noise *noise, uint64_t seed,
                                           uint64_t node)
{
    uint64_t draw = emu_mix(emu_mix(seed + UINT64_C(0x3c6ef372fe94f82b)) + node);

    return (uint64_t)((unsigned __int128)noise->period_ps * draw >> 64);
}

/** traffic_noise_after - the first time from @at_ps on at which the program has the core. Pure. */
static inline uint64_t traffic_noise_after(const struct traffic_noise *noise, uint64_t phase_ps,
                                           uint64_t at_ps)
{
    if (!noise->length_ps)
        return at_ps;
    uint64_t into_ps = (at_ps + phase_ps) % noise->period_ps;

    return into_ps < noise->length_ps ? at_ps + (noise->length_ps - into_ps) : at_ps;
}

#endif
