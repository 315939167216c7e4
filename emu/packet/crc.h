/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc.h - the two checksums of a QsNet III packet: a CRC-16 of the header, computed at every hop,
 * and a CRC-32 of the payload, end to end. The paper (§IV-B) gives their widths, but not their
 * polynomials. We use CCITT's (0x1021) for the CRC-16, and Castagnoli's (0x1EDC6F41) for the
 * CRC-32, because processors have an instruction for it.
 */
#ifndef EMU_CRC_H
#define EMU_CRC_H

#include <stddef.h>
#include <stdint.h>

extern const uint16_t emu_crc16_table[8][256]; /* [number of bytes that follow][value of byte] */

/**
 * emu_crc16 - return the CRC-16 of the lowest @bytes bytes, at most 8, of @word, lowest byte first.
 * Pure. Inline, so that the loop is unrolled for a constant @bytes.
 */
static inline uint16_t emu_crc16(uint64_t word, unsigned bytes)
{
    uint16_t crc = 0;

    while (bytes--) {
        crc ^= emu_crc16_table[bytes][word & 255];
        word >>= 8;
    }
    return (uint16_t)~crc; /* inverted, so that a header of zeros is invalid */
}

/**
 * emu_crc32 - continue a CRC-32. @crc: the CRC-32 of the data before @data; 0: there is none. For
 * example, emu_crc32(emu_crc32(0, a, n), b, m) is the CRC-32 of a followed by b. Pure.
 */
uint32_t emu_crc32(uint32_t crc, const void *data, size_t bytes);

#define EMU_CRC_PIECE 256u

/**
 * emu_crc32_pieces - do emu_crc32() for data in @pieces separate pieces of EMU_CRC_PIECE bytes.
 * Pure.
 */
uint32_t emu_crc32_pieces(uint32_t crc, const void *const piece[], size_t pieces);

/** emu_crc32_tables - do emu_crc32() without the processor's instruction. Pure. */
uint32_t emu_crc32_tables(uint32_t crc, const void *data, size_t bytes);

#endif
