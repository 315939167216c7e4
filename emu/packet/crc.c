/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc.c - checksums by tables or, where the processor has it, by the CRC-32 instruction.
 *
 * The instruction takes three cycles, but one can start in each cycle. Therefore four pieces are
 * processed together, each as an independent lane. To combine the lanes, each lane's checksum is
 * *advanced* over the lanes that follow it: it is multiplied (carry-less) by a constant, and the
 * CRC-32 instruction reduces the product.
 * Source: Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction", Intel
 * 2011.
 */
#include "emu/packet/crc.h"

#include <stdbool.h>
#include <string.h>

#include "emu/packet/crc_tables.h"

uint32_t emu_crc32_tables(uint32_t before, const void *from, size_t bytes)
{
    const uint8_t *data = from;
    uint32_t crc = ~before;

    for (; bytes >= 8; data += 8, bytes -= 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
                              (uint32_t)data[3] << 24);

        crc = crc32_table[7][low & 255] ^ crc32_table[6][low >> 8 & 255] ^
              crc32_table[5][low >> 16 & 255] ^ crc32_table[4][low >> 24] ^
              crc32_table[3][data[4]] ^ crc32_table[2][data[5]] ^ crc32_table[1][data[6]] ^
              crc32_table[0][data[7]];
    }
    for (; bytes; data++, bytes--)
        crc = crc >> 8 ^ crc32_table[0][(crc ^ *data) & 255];
    return ~crc;
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

/* Return the carry-less product of @crc and @by, not reduced. */
CRC32_TARGET static inline __m128i crc32_times(uint64_t crc, uint32_t by)
{
    return _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128(by), 0);
}

/* Process four pieces, each as a lane, and combine the four checksums in one step. */
CRC32_TARGET static inline uint64_t crc32_four(uint64_t crc, const void *const piece[4])
{
    const uint8_t *const a = piece[0], *const b = piece[1], *const c = piece[2],
                         *const d = piece[3];
    const unsigned last = EMU_CRC_PIECE - 8;
    uint64_t crc2 = 0, crc3 = 0, crc4 = 0;
    __m128i moved;

    for (unsigned i = 0; i < last; i += 8) {
        crc = _mm_crc32_u64(crc, crc32_word(a + i));
        crc2 = _mm_crc32_u64(crc2, crc32_word(b + i));
        crc3 = _mm_crc32_u64(crc3, crc32_word(c + i));
        crc4 = _mm_crc32_u64(crc4, crc32_word(d + i));
    }
    crc = _mm_crc32_u64(crc, crc32_word(a + last));
    crc2 = _mm_crc32_u64(crc2, crc32_word(b + last));
    crc3 = _mm_crc32_u64(crc3, crc32_word(c + last));
    moved =
        _mm_xor_si128(_mm_xor_si128(crc32_times(crc, CRC32_BY768), crc32_times(crc2, CRC32_BY512)),
                      crc32_times(crc3, CRC32_BY256));
    return _mm_crc32_u64(crc4, crc32_word(d + last) ^ (uint64_t)_mm_cvtsi128_si64(moved));
}

CRC32_TARGET static uint32_t crc32_instructions(uint32_t crc, const uint8_t *data, size_t bytes)
{
    uint64_t wide = crc;

    for (; bytes >= 4 * EMU_CRC_PIECE; data += 4 * EMU_CRC_PIECE, bytes -= 4 * EMU_CRC_PIECE) {
        const void *const piece[] = {data, data + EMU_CRC_PIECE, data + 2 * EMU_CRC_PIECE,
                                     data + 3 * EMU_CRC_PIECE};

        wide = crc32_four(wide, piece);
    }
    for (; bytes >= 8; data += 8, bytes -= 8)
        wide = _mm_crc32_u64(wide, crc32_word(data));
    crc = (uint32_t)wide;
    for (; bytes; data++, bytes--)
        crc = _mm_crc32_u8(crc, *data);
    return crc;
}

CRC32_TARGET static uint32_t crc32_pieces(uint32_t crc, const void *const piece[], size_t pieces)
{
    size_t i = 0;

    for (; i + 4 <= pieces; i += 4)
        crc = (uint32_t)crc32_four(crc, piece + i);
    for (; i < pieces; i++)
        crc = crc32_instructions(crc, piece[i], EMU_CRC_PIECE);
    return crc;
}

static inline bool has_instructions(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

#endif

uint32_t emu_crc32(uint32_t crc, const void *data, size_t bytes)
{
#if defined(__x86_64__)
    if (has_instructions())
        return ~crc32_instructions(~crc, data, bytes);
#endif
    return emu_crc32_tables(crc, data, bytes);
}

uint32_t emu_crc32_pieces(uint32_t crc, const void *const piece[], size_t pieces)
{
#if defined(__x86_64__)
    if (has_instructions())
        return ~crc32_pieces(~crc, piece, pieces);
#endif
    for (size_t i = 0; i < pieces; i++)
        crc = emu_crc32_tables(crc, piece[i], EMU_CRC_PIECE);
    return crc;
}
