/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h - pseudo-random numbers, with the same bits on any host. Not for secrets. */
#ifndef EMU_RANDOM_H
#define EMU_RANDOM_H

#include <stdint.h>

#define EMU_GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* 2^64 / the golden ratio */

/** emu_spread - spread neighbouring numbers over the upper bits: Fibonacci hashing. Pure. */
static inline uint64_t emu_spread(uint64_t n)
{
    return n * EMU_GOLDEN;
}

/** emu_mix - make each bit of the result depend on all bits of @z: splitmix64's mixer. Pure. */
static inline uint64_t emu_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/** emu_hash - mix @z at less cost, for hot paths: emu_spread() and one round. Pure. */
static inline uint64_t emu_hash(uint64_t z)
{
    z = emu_spread(z);
    z = (z ^ z >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return z ^ z >> 32;
}

/** emu_splitmix_at - return number @i (from 1) of splitmix64's stream for @seed. Pure. */
static inline uint64_t emu_splitmix_at(uint64_t seed, uint64_t i)
{
    return emu_mix(seed + emu_spread(i));
}

/** emu_splitmix - return the next number of splitmix64's stream; any state is valid. */
static inline uint64_t emu_splitmix(uint64_t *state)
{
    return emu_mix(*state += EMU_GOLDEN);
}

/** emu_xorshift - return the next number of xorshift64's stream; *@state must not be 0. */
static inline uint64_t emu_xorshift(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
