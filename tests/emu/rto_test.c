/* SPDX-License-Identifier: BSD-3-Clause */
/* rto_test.c - the retransmission time-out, within its bounds whatever it is told. */
#include "emu/packet/profile.h"
#include "emu/packet/rto.h"

#include "tests/test.h"

#define US UINT64_C(1000000) /* in ps */
#define MS (1000 * US)

static struct emu_rto between(uint64_t least_ps, uint64_t most_ps)
{
    struct emu_rto rto;

    emu_rto_init(&rto, most_ps);
    emu_rto_adapt(&rto, least_ps);
    return rto;
}

/* In simulated time the profile's number holds, whatever comes. */
static void timeout__that_does_not_adapt_stays(void)
{
    struct emu_rto rto;

    emu_rto_init(&rto, MS);
    emu_rto_sample(&rto, US);
    emu_rto_late(&rto);
    for (uint32_t tries = 0; tries < 70; tries++)
        CU_ASSERT_EQUAL(emu_rto_ps(&rto, tries), MS);
    rto = between(MS, MS);
    emu_rto_sample(&rto, US);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 1), MS);
    rto = between(100 * MS, MS); /* the bound is below the least */
    emu_rto_sample(&rto, US);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 1), MS);
}

/* Before anything is known it is the longest; short trips bring it to the least. */
static void timeout__follows_round_trips(void)
{
    struct emu_rto rto = between(5 * MS, 100 * MS);

    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 1), 100 * MS);
    emu_rto_sample(&rto, US);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 1), 5 * MS);
    for (int i = 0; i < 100; i++)
        emu_rto_sample(&rto, 20 * MS);
    CU_ASSERT(emu_rto_ps(&rto, 1) > 20 * MS && emu_rto_ps(&rto, 1) < 22 * MS);
    emu_rto_sample(&rto, 0);
    CU_ASSERT(emu_rto_ps(&rto, 1) > 30 * MS); /* trips differ now */
    for (int i = 0; i < 100; i++)
        emu_rto_sample(&rto, 0);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 1), 5 * MS);
}

/* Each try waits twice as long as the one before, and a late reply is a hint for all packets. */
static void timeout__doubles_until_the_longest(void)
{
    struct emu_rto rto = between(5 * MS, 100 * MS);
    const uint64_t by_tries[] = {5, 5, 10, 20, 40, 80, 100, 100};

    emu_rto_sample(&rto, US);
    for (uint32_t tries = 0; tries < 8; tries++)
        CU_ASSERT_EQUAL(emu_rto_ps(&rto, tries), by_tries[tries] * MS);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, UINT32_MAX), 100 * MS);
    emu_rto_late(&rto);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 1), 10 * MS);
    for (int i = 0; i < 10; i++)
        emu_rto_late(&rto);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 1), 100 * MS);
    emu_rto_sample(&rto, US);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 1), 5 * MS);
}

/* Numbers near the end of their range, and trips at random: never out of its bounds. */
static void timeout__stays_in_its_bounds(void)
{
    const uint64_t longest_ps = UINT64_C(86400000) * 1000 * MS / 1000; /* a day */
    uint64_t seed = test_seed();

    for (int run = 0; run < 100; run++) {
        uint64_t least_ps = 1 + test_random(&seed) % (10 * MS);
        uint64_t most_ps = least_ps + test_random(&seed) % longest_ps;
        struct emu_rto rto = between(least_ps, most_ps);

        for (int i = 0; i < 1000; i++) {
            uint32_t tries = (uint32_t)test_random(&seed) >> test_random(&seed) % 32;
            uint64_t now_ps = emu_rto_ps(&rto, tries);

            CU_ASSERT(now_ps >= least_ps && now_ps <= most_ps);
            if (test_random(&seed) % 8)
                emu_rto_sample(&rto, test_random(&seed) >> test_random(&seed) % 64);
            else
                emu_rto_late(&rto);
        }
    }
}

/*
 * On clock real a reply waits for packets before it: those of a few links, with all their channels.
 * Elsewhere nothing waits for bytes, and a fast link's are no matter.
 */
static void timeout__is_no_shorter_than_full_links_take(void)
{
    struct emu_profile slow;
    uint64_t full_ps, real_ps;
    char error[128];

    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&slow, "qsnet3", error, sizeof error), 0);
    CU_ASSERT_EQUAL(emu_profile_on(&slow, EMU_CLOCK_REAL).reply_timeout_ps, EMU_PATIENCE_PS);
    slow.link_ps_per_byte = US;
    full_ps = slow.channels * slow.packet_bytes * US;
    real_ps = emu_profile_on(&slow, EMU_CLOCK_REAL).reply_timeout_ps;
    CU_ASSERT_TRUE(real_ps > 8 * full_ps && real_ps <= 1000 * MS);
    CU_ASSERT_EQUAL(emu_profile_on(&slow, EMU_CLOCK_RAW).reply_timeout_ps, EMU_PATIENCE_PS);
    CU_ASSERT_EQUAL(emu_profile_on(&slow, EMU_CLOCK_VIRTUAL).reply_timeout_ps,
                    slow.reply_timeout_ps);
    slow.packet_bytes = 4096;
    CU_ASSERT_EQUAL(emu_profile_on(&slow, EMU_CLOCK_REAL).reply_timeout_ps, 1000 * MS);
    slow.reply_timeout_ps = EMU_REPLY_NEVER_PS;
    CU_ASSERT_EQUAL(emu_profile_on(&slow, EMU_CLOCK_REAL).reply_timeout_ps, EMU_REPLY_NEVER_PS);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(timeout__that_does_not_adapt_stays),          CASE(timeout__follows_round_trips),
        CASE(timeout__doubles_until_the_longest),          CASE(timeout__stays_in_its_bounds),
        CASE(timeout__is_no_shorter_than_full_links_take), {NULL, NULL},
    };

    return test_run("rto", cases);
}
