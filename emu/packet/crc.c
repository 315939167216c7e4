/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc.c - tables for any processor, instructions where there are some.
 *
 * The instruction takes three cycles and can begin anew in each, so long data
 * are three lanes side by side. What a lane's checksum is behind the next lanes
 * is a product modulo the polynomial: a multiplication without carries, and the
 * instruction once more for the remainder.
 * Source: Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32
 * Instruction", Intel 2011.
 * Rejected: folding by 32 bytes (VPCLMULQDQ): on 256 bytes no faster, on fewer
 * processors.
 */
#include "emu/packet/crc.h"

#include <stdbool.h>
#include <string.h>

#include "emu/crc_tables.h"

static uint32_t crc32_byte(uint32_t crc, uint8_t byte)
{
    return crc >> 8 ^ crc32_table[0][(crc ^ byte) & 255];
}

/* Eight bytes at a time: each by the table for its distance from the end. */
static uint32_t crc32_tables(uint32_t crc, const uint8_t *data, size_t bytes)
{
    for (; bytes >= 8; data += 8, bytes -= 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
                              (uint32_t)data[3] << 24);

        crc = crc32_table[7][low & 255] ^ crc32_table[6][low >> 8 & 255] ^
              crc32_table[5][low >> 16 & 255] ^ crc32_table[4][low >> 24] ^
              crc32_table[3][data[4]] ^ crc32_table[2][data[5]] ^ crc32_table[1][data[6]] ^
              crc32_table[0][data[7]];
    }
    for (; bytes; data++, bytes--)
        crc = crc32_byte(crc, *data);
    return crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define CRC32_TARGET __attribute__((target("sse4.2,pclmul")))

static inline uint64_t crc32_word(const uint8_t *data)
{
    uint64_t word;

    memcpy(&word, data, sizeof word);
    return word;
}

/* @crc times @by: for the instruction to divide. */
CRC32_TARGET static inline __m128i crc32_times(uint64_t crc, uint32_t by)
{
    return _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128(by), 0);
}

/* Three lanes in a row. */
CRC32_TARGET static inline uint64_t crc32_lanes(uint64_t crc, const uint8_t *data)
{
    const uint8_t *second = data + CRC32_LANE, *third = second + CRC32_LANE;
    uint64_t crc2 = 0, crc3 = 0;
    __m128i moved;

    for (unsigned i = 0; i < CRC32_LANE; i += 8) {
        crc = _mm_crc32_u64(crc, crc32_word(data + i));
        crc2 = _mm_crc32_u64(crc2, crc32_word(second + i));
        if (i < CRC32_LANE - 8)
            crc3 = _mm_crc32_u64(crc3, crc32_word(third + i));
    }
    moved = _mm_xor_si128(crc32_times(crc, CRC32_BY2), crc32_times(crc2, CRC32_BY1));
    return _mm_crc32_u64(crc3,
                         crc32_word(third + CRC32_LANE - 8) ^ (uint64_t)_mm_cvtsi128_si64(moved));
}

CRC32_TARGET static uint32_t crc32_instructions(uint32_t crc, const uint8_t *data, size_t bytes)
{
    uint64_t wide = crc;

    for (; bytes >= 3 * CRC32_LANE; data += 3 * CRC32_LANE, bytes -= 3 * CRC32_LANE)
        wide = crc32_lanes(wide, data);
    for (; bytes >= 8; data += 8, bytes -= 8)
        wide = _mm_crc32_u64(wide, crc32_word(data));
    crc = (uint32_t)wide;
    for (; bytes; data++, bytes--)
        crc = _mm_crc32_u8(crc, *data);
    return crc;
}

static inline bool crc32_has_instructions(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}
#endif

uint32_t emu_crc32(uint32_t crc, const void *data, size_t bytes)
{
#if defined(__x86_64__)
    if (crc32_has_instructions())
        return ~crc32_instructions(~crc, data, bytes);
#endif
    return emu_crc32_by_tables(crc, data, bytes);
}

uint32_t emu_crc32_by_tables(uint32_t crc, const void *data, size_t bytes)
{
    return ~crc32_tables(~crc, data, bytes);
}
