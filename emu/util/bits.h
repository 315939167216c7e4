/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bits.h - sets of up to 64 small numbers (ports, rows, channels, links) as the bits of a word. All
 * functions are pure, and most are one or two instructions.
 */
#ifndef EMU_BITS_H
#define EMU_BITS_H

#include <stdbool.h>
#include <stdint.h>

/** emu_bit - return the set of @n only; @n < 64. */
static inline uint64_t emu_bit(uint32_t n)
{
    return (uint64_t)1 << n;
}

/** emu_bits_below - return the set of all numbers below @n; @n <= 64. */
static inline uint64_t emu_bits_below(uint32_t n)
{
    return n >= 64 ? UINT64_MAX : emu_bit(n) - 1;
}

/** emu_bits_several - return whether @bits has more than one element. */
static inline bool emu_bits_several(uint64_t bits)
{
    return bits & (bits - 1);
}

/** emu_bits_first - return the least of @bits, which is not empty. */
static inline uint32_t emu_bits_first(uint64_t bits)
{
    return (uint32_t)__builtin_ctzll(bits);
}

/** emu_bits_last - return the greatest of @bits, which is not empty. */
static inline uint32_t emu_bits_last(uint64_t bits)
{
    return 63 - (uint32_t)__builtin_clzll(bits);
}

/** emu_bits_nth - return the element of @bits with exactly @n others below it. It must exist. */
static inline uint32_t emu_bits_nth(uint64_t bits, uint32_t n)
{
    while (n--)
        bits &= bits - 1;
    return emu_bits_first(bits);
}

/**
 * emu_bits_next - round robin: return the least element of @bits above @last, or else the least of
 * all. @bits is not empty.
 */
static inline uint32_t emu_bits_next(uint64_t bits, uint32_t last)
{
    uint64_t above = bits & (~UINT64_C(1) << last);

    return emu_bits_first(above ? above : bits);
}

/**
 * emu_each_bit - loop over each @i (declared here, uint32_t) of @bits, in order. @bits is evaluated
 * once; `break` and `continue` work.
 */
#define emu_each_bit(i, bits)                                \
    for (uint64_t i##_left = (bits); i##_left; i##_left = 0) \
        for (uint32_t i; i##_left && (i = emu_bits_first(i##_left), true); i##_left &= i##_left - 1)

#endif
