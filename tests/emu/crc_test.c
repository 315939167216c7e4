/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc_test.c - both checksums against a shift register, the processor's instructions against the
 * tables, and header checksums derived from others.
 */
#include "emu/packet/packet.h"

#include <string.h>

#include "tests/test.h"

#define BYTES 4200 /* a packet and more */

/* One bit after the other, low bit first: the definition of a CRC. */
static uint32_t shift_register(uint32_t crc, uint32_t poly, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? poly : 0);
    }
    return crc;
}

static void fill(uint8_t *data, size_t bytes, uint64_t *state)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)test_random(state);
}

static void crc32__is_castagnolis(void)
{
    static const char check[] = "123456789";
    static const uint8_t zeros[32],
        ones[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

    CU_ASSERT_EQUAL(emu_crc32(0, check, 9), 0xe3069283);  /* the catalogues' check value */
    CU_ASSERT_EQUAL(emu_crc32(0, zeros, 32), 0x8a9136aa); /* RFC 3720, B.4 */
    CU_ASSERT_EQUAL(emu_crc32(0, ones, 32), 0x62a8ab43);
    CU_ASSERT_EQUAL(emu_crc32(0, check, 0), 0);
    CU_ASSERT_EQUAL(emu_crc32_tables(0, check, 9), 0xe3069283);
}

/* How many of the two implementations give another result than @sum. */
static uint32_t count_differing(uint32_t sum, uint32_t crc, const uint8_t *data, size_t bytes)
{
    return (emu_crc32(crc, data, bytes) != sum) + (emu_crc32_tables(crc, data, bytes) != sum);
}

/* Every length up to more than four pieces, and longer ones at every alignment in a cache line. */
static void crc32__is_the_same_in_both_implementations(void)
{
    uint64_t state = test_seed();
    static uint8_t data[BYTES];
    uint32_t wrong = 0;

    fill(data, BYTES, &state);
    for (size_t bytes = 0; bytes <= 1100; bytes++) {
        uint32_t before = (uint32_t)test_random(&state);
        const uint8_t *at = data + test_random(&state) % 64;

        wrong +=
            count_differing(~shift_register(~before, 0x82f63b78, at, bytes), before, at, bytes);
    }
    for (size_t from = 0; from < 64; from++) {
        size_t bytes = (size_t)test_draw(&state, 1024, BYTES - 64);
        uint32_t before = ~(uint32_t)from;

        wrong += count_differing(emu_crc32_tables(before, data + from, bytes), before, data + from,
                                 bytes);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

/* Pieces in any order and at any alignment give the checksum of the same bytes in a row. */
static void crc32__is_the_same_of_pieces(void)
{
    uint64_t state = test_seed() + 2;
    static uint8_t data[BYTES], row[16 * EMU_CRC_PIECE];
    uint32_t wrong = 0;

    fill(data, BYTES, &state);
    for (int i = 0; i < 1000; i++) {
        size_t pieces = test_random(&state) % 17;
        uint32_t before = (uint32_t)test_random(&state), sum;
        const void *piece[16];

        for (size_t k = 0; k < pieces; k++) {
            piece[k] = data + test_random(&state) % (BYTES - EMU_CRC_PIECE);
            memcpy(row + k * EMU_CRC_PIECE, piece[k], EMU_CRC_PIECE);
        }
        sum = emu_crc32_tables(before, row, pieces * EMU_CRC_PIECE);
        wrong += emu_crc32_pieces(before, piece, pieces) != sum;
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void crc32__continues_from_a_partial_sum(void)
{
    uint64_t state = test_seed() + 1;
    static uint8_t data[BYTES];
    uint32_t wrong = 0;

    fill(data, BYTES, &state);
    for (int i = 0; i < 1000; i++) {
        size_t bytes = test_random(&state) % (BYTES + 1);
        size_t first = test_random(&state) % (bytes + 1);
        uint32_t crc = emu_crc32(emu_crc32(0, data, first), data + first, bytes - first);

        wrong += crc != emu_crc32(0, data, bytes);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

/* Every flipped bit is detected, in each lane. */
static void crc32__detects_every_flipped_bit(void)
{
    uint64_t state = test_seed() + 2;
    uint8_t data[256];
    uint32_t unseen = 0;

    fill(data, sizeof data, &state);
    uint32_t crc = emu_crc32(0, data, sizeof data);
    for (unsigned bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        unseen += emu_crc32(0, data, sizeof data) == crc;
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    CU_ASSERT_EQUAL(unseen, 0);
}

static void crc16__is_a_shift_register(void)
{
    uint64_t state = test_seed() + 3;
    uint32_t wrong = 0;

    for (int i = 0; i < 10000; i++) {
        uint64_t word = test_random(&state);
        unsigned bytes = (unsigned)i % 9;
        uint8_t data[8];

        for (int b = 0; b < 8; b++)
            data[b] = (uint8_t)(word >> 8 * b);
        wrong += emu_crc16(word, bytes) != (uint16_t)~shift_register(0, 0x8408, data, bytes);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(emu_crc16(0, 6), 0xffff); /* all zeros is not a valid header */
}

/*
 * The change that the index of a continuation, or its being the last one, makes to the checksum is
 * the same for all headers.
 */
static void cont__is_derived_from_another(void)
{
    for (uint32_t first = 0; first < EMU_VCS * EMU_PRIORITIES; first++) {
        struct emu_cont cont = {.channel = (uint8_t)(first % EMU_VCS),
                                .priority = (uint8_t)(first / EMU_VCS)};
        uint32_t word = emu_cont_pack(&cont);

        for (uint32_t i = 0; i < 2 * EMU_INDEXES; i++) {
            uint32_t bits = i / 2 << EMU_CONT_INDEX | (i % 2 ? EMU_CONT_LAST : 0);

            cont.index = (uint8_t)(i / 2);
            cont.last = i % 2;
            CU_ASSERT_EQUAL(word ^ emu_cont_other(bits), emu_cont_pack(&cont));
        }
    }
}

int main(void)
{
    static const struct test_case cases[] = {
        {"crc32__is_castagnolis", crc32__is_castagnolis},
        {"crc32__is_the_same_in_both_implementations", crc32__is_the_same_in_both_implementations},
        {"crc32__is_the_same_of_pieces", crc32__is_the_same_of_pieces},
        {"crc32__continues_from_a_partial_sum", crc32__continues_from_a_partial_sum},
        {"crc32__detects_every_flipped_bit", crc32__detects_every_flipped_bit},
        {"crc16__is_a_shift_register", crc16__is_a_shift_register},
        {"cont__is_derived_from_another", cont__is_derived_from_another},
        {NULL, NULL},
    };

    return test_run("crc", cases);
}
