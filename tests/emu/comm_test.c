/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm_test.c - the communication statistics of a process: size classes, and the sampling of
 * collectives that are timed and reported.
 */
#include <stdlib.h>
#include <string.h>

#include "emu/hostif/hostif.h"
#include "tests/test.h"

#define NODES 131u /* odd, and more than two words of bits */

/* Each size falls into the first class whose bound is not below it. */
static void size__has_its_class(void)
{
    CU_ASSERT_EQUAL(emu_comm_size(0), 0);
    for (uint32_t size = 1; size < EMU_COMM_SIZES; size++) {
        uint64_t most = emu_comm_size_most(size), before = emu_comm_size_most(size - 1);

        CU_ASSERT_EQUAL(emu_comm_size(most), size);
        CU_ASSERT_EQUAL(emu_comm_size(before + 1), size);
        CU_ASSERT_EQUAL(emu_comm_size(before), size - 1);
    }
    CU_ASSERT_EQUAL(emu_comm_size(UINT64_MAX), EMU_COMM_SIZES - 1);
}

/*
 * A reported collective is also timed. The weights of both samples add up to about the number of
 * collectives.
 */
static void sample__weights_add_up_to_all(void)
{
    for (uint32_t bits = 6; bits <= 20; bits++) {
        uint32_t count = UINT32_C(1) << bits, reports = 0;
        double timed = 0, reported = 0;

        for (uint32_t n = 0; n < count; n++) {
            struct emu_comm_draw draw = emu_comm_draw(n);

            if (draw.timed)
                timed += 1u << draw.weight_bits;
            if (draw.report_bits == EMU_COMM_UNREPORTED)
                continue;
            CU_ASSERT_TRUE(draw.timed);
            reported += 1u << draw.report_bits;
            reports++;
        }
        CU_ASSERT_TRUE(timed > 0.95 * count && timed < 1.05 * count);
        CU_ASSERT_TRUE(reported > 0.7 * count && reported < 1.4 * count);
        CU_ASSERT_TRUE(reports < EMU_COMM_REPORTED + bits * EMU_COMM_REPORTED);
    }
}

/*
 * A periodic pattern in the program, one collective in 2^k, is sampled at the same rate as others.
 */
static void sample__is_not_periodic(void)
{
    for (uint32_t period = 2; period <= 64; period *= 2) {
        uint32_t drawn[64] = {0}, all = 0;

        for (uint32_t n = EMU_COMM_TIMED; n < 1u << 18; n++) {
            bool timed = emu_comm_draw(n).timed;

            drawn[n % period] += timed;
            all += timed;
        }
        for (uint32_t at = 0; at < period; at++)
            CU_ASSERT_TRUE(drawn[at] * period > all / 2 && drawn[at] * period < all * 2);
    }
}

static void sent__counts_by_peer(void)
{
    struct emu_hostif_shared *shared =
        aligned_alloc(EMU_LINE, (emu_hostif_bytes(NODES) + 63) / 64 * 64);
    static const uint32_t to[] = {0, 63, 64, 130, 64};

    memset(shared, 0, emu_hostif_bytes(NODES));
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++)
        emu_hostif_sent(shared, NODES, to[i], 10 + i);
    for (uint32_t node = 0; node < NODES; node++) {
        const struct emu_comm_peer *peer = emu_hostif_peer(shared, NODES, node);
        uint64_t messages = 0, bytes = 0;
        bool seen = emu_count_read(&emu_hostif_peers(shared, NODES)[node / 64]) >> node % 64 & 1;

        for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
            messages += to[i] == node;
            bytes += to[i] == node ? 10 + i : 0;
        }
        CU_ASSERT_EQUAL(emu_count_read(&peer->messages), messages);
        CU_ASSERT_EQUAL(emu_count_read(&peer->bytes), bytes);
        CU_ASSERT_EQUAL(seen, messages != 0);
        CU_ASSERT_EQUAL(emu_count_read((_Atomic uint64_t *)&shared->incarnations[node]), 0);
    }
    CU_ASSERT_EQUAL((uintptr_t)emu_hostif_peer(shared, NODES, 0) % sizeof(struct emu_comm_peer), 0);
    CU_ASSERT_TRUE((uint8_t *)&emu_hostif_peers(shared, NODES)[(NODES + 63) / 64] <=
                   (uint8_t *)shared + emu_hostif_bytes(NODES));
    free(shared);
}

static const struct test_case cases[] = {
    CASE(size__has_its_class),
    CASE(sample__weights_add_up_to_all),
    CASE(sample__is_not_periodic),
    CASE(sent__counts_by_peer),
    {0},
};

int main(void)
{
    return test_run("comm", cases);
}
