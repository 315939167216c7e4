/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc.c - checksums by tables, or by instructions where the processor has them.
 *
 * The CRC-32 instruction takes three cycles, but one can start in each cycle. Therefore data are
 * divided into independent lanes, 1 KB into four and shorter data into three. To combine the lanes,
 * each lane's checksum is *advanced* over the lanes that follow it: it is multiplied (carry-less)
 * by a constant, and the CRC-32 instruction reduces the product.
 *
 * With VPCLMULQDQ, data are folded in four registers of 64 bytes: multiplications advance the
 * registers by 256 bytes, then the next 256 bytes are added. At the end the first three registers
 * are advanced to the position of the fourth and added to it, all at once and not one after the
 * other, because a chain of dependent steps would take longer. In the same way the four lanes of 16
 * bytes of this register are combined.
 * Sources: Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction", Intel
 * 2011, and "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
 */
#include "emu/packet/crc.h"

#include <string.h>

#include "emu/packet/crc_tables.h"

static uint32_t crc32_byte(uint32_t crc, uint8_t byte)
{
    return crc >> 8 ^ crc32_table[0][(crc ^ byte) & 255];
}

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

/* Return the carry-less product of @crc and @by, not reduced. */
CRC32_TARGET static inline __m128i crc32_times(uint64_t crc, uint32_t by)
{
    return _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128(by), 0);
}

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

/* Process four pieces, each as a lane, and combine all four in one step. */
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
    for (; bytes >= 3 * CRC32_LANE; data += 3 * CRC32_LANE, bytes -= 3 * CRC32_LANE)
        wide = crc32_lanes(wide, data);
    for (; bytes >= 8; data += 8, bytes -= 8)
        wide = _mm_crc32_u64(wide, crc32_word(data));
    crc = (uint32_t)wide;
    for (; bytes; data++, bytes--)
        crc = _mm_crc32_u8(crc, *data);
    return crc;
}

CRC32_TARGET static uint32_t crc32_pieces_lanes(uint32_t crc, const void *const piece[],
                                                size_t pieces)
{
    size_t i = 0;

    for (; i + 4 <= pieces; i += 4)
        crc = (uint32_t)crc32_four(crc, piece + i);
    for (; i < pieces; i++)
        crc = crc32_instructions(crc, piece[i], EMU_CRC_PIECE);
    return crc;
}

#define CRC32_WIDE_TARGET __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))

/* Advance each 16 bytes of @at by the constant @by, and add @data to them. */
CRC32_WIDE_TARGET static inline __m512i crc32_fold(__m512i at, __m512i by, __m512i data)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(at, by, 0x00),
                                     _mm512_clmulepi64_epi128(at, by, 0x11), data, 0x96);
}

CRC32_WIDE_TARGET static inline __m512i crc32_fold_by(uint32_t low, uint32_t high)
{
    return _mm512_broadcast_i32x4(_mm_set_epi64x(high, low));
}

/* Reduce the 64 bytes of @at to 16, by advancing its first three lanes to the fourth. */
CRC32_WIDE_TARGET static inline __m128i crc32_lane(__m512i at)
{
    const __m512i by = _mm512_set_epi64(0, 0, CRC32_FOLD_16_HIGH, CRC32_FOLD_16_LOW,
                                        CRC32_FOLD_32_HIGH, CRC32_FOLD_32_LOW, CRC32_FOLD_48_HIGH,
                                        CRC32_FOLD_48_LOW);
    __m512i lanes = crc32_fold(at, by, _mm512_maskz_mov_epi64(0xc0, at));
    __m256i two =
        _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64(lanes, 1));

    return _mm_xor_si128(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
}

/*
 * Return the checksum of data with checksum @crc that are followed by the 256 bytes in @at. @crc is
 * added last, so that the processor can work on consecutive segments at the same time.
 */
CRC32_WIDE_TARGET static inline uint64_t crc32_last(uint64_t crc, const __m512i at[4])
{
    __m512i sum = crc32_fold(at[2], crc32_fold_by(CRC32_FOLD_64_LOW, CRC32_FOLD_64_HIGH), at[3]);
    __m128i lane;

    sum = crc32_fold(at[1], crc32_fold_by(CRC32_FOLD_128_LOW, CRC32_FOLD_128_HIGH), sum);
    sum = crc32_fold(at[0], crc32_fold_by(CRC32_FOLD_192_LOW, CRC32_FOLD_192_HIGH), sum);
    lane = crc32_lane(sum);
    return _mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(lane)),
                         (uint64_t)(_mm_extract_epi64(lane, 1) ^
                                    _mm_cvtsi128_si64(crc32_times(crc, CRC32_BY256))));
}

CRC32_WIDE_TARGET static inline __m512i crc32_load(const uint8_t *data, unsigned i)
{
    return _mm512_loadu_si512(data + (size_t)i * 64);
}

CRC32_WIDE_TARGET static uint32_t crc32_segment(uint32_t crc, const uint8_t *data)
{
    __m512i at[4];

    for (unsigned i = 0; i < 4; i++)
        at[i] = crc32_load(data, i);
    return (uint32_t)crc32_last(crc, at);
}

/* Load 256 bytes that follow data with the checksum @crc. Each crc32_go_on() adds 256 more. */
CRC32_WIDE_TARGET static inline void crc32_begin(__m512i at[4], uint32_t crc, const uint8_t *data)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = crc32_load(data, i);
    at[0] = _mm512_xor_si512(at[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
}

CRC32_WIDE_TARGET static inline void crc32_go_on(__m512i at[4], const uint8_t *data)
{
    const __m512i by256 = crc32_fold_by(CRC32_FOLD_256_LOW, CRC32_FOLD_256_HIGH);

    for (unsigned i = 0; i < 4; i++)
        at[i] = crc32_fold(at[i], by256, crc32_load(data, i));
}

/* @bytes: a positive multiple of 256. */
CRC32_WIDE_TARGET static uint32_t crc32_wide(uint32_t crc, const uint8_t *data, size_t bytes)
{
    __m512i at[4];

    crc32_begin(at, crc, data);
    for (data += 256, bytes -= 256; bytes; data += 256, bytes -= 256)
        crc32_go_on(at, data);
    return (uint32_t)crc32_last(0, at);
}

/* @pieces: at least 1. */
CRC32_WIDE_TARGET static uint32_t crc32_pieces_folded(uint32_t crc, const void *const piece[],
                                                      size_t pieces)
{
    __m512i at[4];

    crc32_begin(at, crc, piece[0]);
    for (size_t i = 1; i < pieces; i++)
        crc32_go_on(at, piece[i]);
    return (uint32_t)crc32_last(0, at);
}

static uint32_t crc32_folded(uint32_t crc, const uint8_t *data, size_t bytes)
{
    size_t wide = bytes / 256 * 256;

    if (bytes < 256)
        return crc32_instructions(crc, data, bytes);
    if (bytes == 256)
        return crc32_segment(crc, data);
    return crc32_instructions(crc32_wide(crc, data, wide), data + wide, bytes - wide);
}

#endif

static inline enum emu_crc32_variant best_variant(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq")
                   ? EMU_CRC32_FOLD
                   : EMU_CRC32_LANES;
#endif
    return EMU_CRC32_TABLES;
}

static inline uint32_t crc32_row(enum emu_crc32_variant way, uint32_t crc, const uint8_t *data,
                                 size_t bytes)
{
#if defined(__x86_64__)
    if (way != EMU_CRC32_TABLES)
        return way == EMU_CRC32_FOLD ? crc32_folded(crc, data, bytes)
                                     : crc32_instructions(crc, data, bytes);
#endif
    (void)way;
    return crc32_tables(crc, data, bytes);
}

static inline uint32_t crc32_pieces(enum emu_crc32_variant way, uint32_t crc,
                                    const void *const piece[], size_t pieces)
{
#if defined(__x86_64__)
    if (way != EMU_CRC32_TABLES)
        return way == EMU_CRC32_FOLD ? crc32_pieces_folded(crc, piece, pieces)
                                     : crc32_pieces_lanes(crc, piece, pieces);
#endif
    (void)way;
    for (size_t i = 0; i < pieces; i++)
        crc = crc32_tables(crc, piece[i], EMU_CRC_PIECE);
    return crc;
}

uint32_t emu_crc32(uint32_t crc, const void *data, size_t bytes)
{
    return ~crc32_row(best_variant(), ~crc, data, bytes);
}

uint32_t emu_crc32_pieces(uint32_t crc, const void *const piece[], size_t pieces)
{
    return pieces ? ~crc32_pieces(best_variant(), ~crc, piece, pieces) : crc;
}

bool emu_crc32_has(enum emu_crc32_variant way)
{
    return way <= best_variant();
}

uint32_t emu_crc32_by(enum emu_crc32_variant way, uint32_t crc, const void *data, size_t bytes)
{
    return ~crc32_row(way, ~crc, data, bytes);
}

uint32_t emu_crc32_pieces_by(enum emu_crc32_variant way, uint32_t crc, const void *const piece[],
                             size_t pieces)
{
    return pieces ? ~crc32_pieces(way, ~crc, piece, pieces) : crc;
}
