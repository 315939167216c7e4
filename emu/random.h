/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random.h - random numbers for what is no secret: the same bits on any host.
 */
#ifndef EMU_RANDOM_H
#define EMU_RANDOM_H

#include <stdint.h>

/** emu_mix - a number whose bits all depend on all of @z (splitmix64's mixer). Pure. */
static inline uint64_t emu_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/** emu_xorshift - the next of a stream; @state is not 0, and never will be. */
static inline uint64_t emu_xorshift(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
