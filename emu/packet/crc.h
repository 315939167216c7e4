/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc.h - the two checksums of a QsNet III packet: CRC-16 over a header, at every hop; CRC-32 over
 * the payload, end to end. The paper (§IV-B) gives their widths, not their polynomials: here
 * CCITT's (0x1021) and Castagnoli's (0x1EDC6F41), for which processors have an instruction.
 */
#ifndef EMU_CRC_H
#define EMU_CRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const uint16_t emu_crc16_table[8][256]; /* by a byte's distance from the end */

/**
 * emu_crc16 - of the @bytes (at most 8) low bytes of @word, low byte first. Pure. Inline, so that
 * the loop is unrolled for a constant @bytes.
 */
static inline uint16_t emu_crc16(uint64_t word, unsigned bytes)
{
    uint16_t crc = 0;

    while (bytes--) {
        crc ^= emu_crc16_table[bytes][word & 255];
        word >>= 8;
    }
    return (uint16_t)~crc; /* so that zeros are no valid header */
}

/**
 * emu_crc32 - of @bytes more bytes at @data, following @crc; begin with 0. Pure.
 * emu_crc32(emu_crc32(0, a, n), b, m) is that of a followed by b.
 */
uint32_t emu_crc32(uint32_t crc, const void *data, size_t bytes);

#define EMU_CRC_PIECE 256u

/**
 * emu_crc32_pieces - the same of @pieces separate pieces of EMU_CRC_PIECE bytes. Pure. Four take
 * 0.8 of the time of single calls.
 */
uint32_t emu_crc32_pieces(uint32_t crc, const void *const piece[], size_t pieces);

/* How it is computed, depending on the processor. */
enum emu_crc32_variant {
    EMU_CRC32_TABLES,
    EMU_CRC32_LANES, /* SSE 4.2 and PCLMULQDQ */
    EMU_CRC32_FOLD,  /* AVX-512 and VPCLMULQDQ */
    EMU_CRC32_VARIANTS
};

/** emu_crc32_has - does this processor support it? Pure. */
bool emu_crc32_has(enum emu_crc32_variant way);

/** emu_crc32_by, emu_crc32_pieces_by - compute it in one way that the processor supports. Pure. */
uint32_t emu_crc32_by(enum emu_crc32_variant way, uint32_t crc, const void *data, size_t bytes);
uint32_t emu_crc32_pieces_by(enum emu_crc32_variant way, uint32_t crc, const void *const piece[],
                             size_t pieces);

#endif
