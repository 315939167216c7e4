/* SPDX-License-Identifier: BSD-3-Clause */
/* rto_test.c - the retransmission time-out stays within its bounds for any input. */
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

/* In simulated time the profile's value is used, whatever the round trips. */
static void timeout__fixed_one_does_not_adapt(void)
{
    struct emu_rto rto;

    emu_rto_init(&rto, MS);
    emu_rto_sample(&rto, US);
    emu_rto_late(&rto);
    for (uint32_t late = 0; late < 70; late++)
        CU_ASSERT_EQUAL(emu_rto_ps(&rto, late), MS);
    rto = between(MS, MS);
    emu_rto_sample(&rto, US);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 0), MS);
    rto = between(100 * MS, MS); /* the upper bound is below the minimum */
    emu_rto_sample(&rto, US);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 0), MS);
}

/*
 * Before the first measurement the time-out is the maximum; short round trips bring it down to the
 * minimum.
 */
static void timeout__follows_round_trips(void)
{
    struct emu_rto rto = between(5 * MS, 100 * MS);

    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 0), 100 * MS);
    emu_rto_sample(&rto, US);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 0), 5 * MS);
    for (int i = 0; i < 100; i++)
        emu_rto_sample(&rto, 20 * MS);
    CU_ASSERT(emu_rto_ps(&rto, 0) > 20 * MS && emu_rto_ps(&rto, 0) < 22 * MS);
    emu_rto_sample(&rto, 0);
    CU_ASSERT(emu_rto_ps(&rto, 0) > 30 * MS); /* round trips vary now */
    for (int i = 0; i < 100; i++)
        emu_rto_sample(&rto, 0);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 0), 5 * MS);
}

/* Each time-out doubles that of the next try, and raises it for all packets. */
static void timeout__doubles_up_to_the_maximum(void)
{
    struct emu_rto rto = between(5 * MS, 100 * MS);
    const uint64_t by_late[] = {5, 10, 20, 40, 80, 100, 100};

    emu_rto_sample(&rto, US);
    for (uint32_t late = 0; late < 7; late++)
        CU_ASSERT_EQUAL(emu_rto_ps(&rto, late), by_late[late] * MS);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, UINT32_MAX), 100 * MS);
    emu_rto_late(&rto);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 0), 10 * MS);
    for (int i = 0; i < 10; i++)
        emu_rto_late(&rto);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 0), 100 * MS);
    emu_rto_sample(&rto, US);
    CU_ASSERT_EQUAL(emu_rto_ps(&rto, 0), 5 * MS);
}

/* Values near the end of their range, and random round trips: never outside the bounds. */
static void timeout__stays_in_its_bounds(void)
{
    const uint64_t longest_ps = UINT64_C(86400000) * 1000 * MS / 1000; /* a day */
    uint64_t seed = test_seed();

    for (int run = 0; run < 100; run++) {
        uint64_t least_ps = 1 + test_random(&seed) % (10 * MS);
        uint64_t most_ps = least_ps + test_random(&seed) % longest_ps;
        struct emu_rto rto = between(least_ps, most_ps);

        for (int i = 0; i < 1000; i++) {
            uint32_t late = (uint32_t)test_random(&seed) >> test_random(&seed) % 32;
            uint64_t now_ps = emu_rto_ps(&rto, late);

            CU_ASSERT(now_ps >= least_ps && now_ps <= most_ps);
            if (test_random(&seed) % 8)
                emu_rto_sample(&rto, test_random(&seed) >> test_random(&seed) % 64);
            else
                emu_rto_late(&rto);
        }
    }
}

/*
 * On clock real a reply may wait behind the packets of several full links with all their channels.
 * In other modes nothing waits for bytes, and on a fast link they do not matter.
 */
static void timeout__covers_the_queue_of_full_links(void)
{
    struct emu_profile slow;
    uint64_t full_ps, real_ps;
    char error[128];

    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&slow, "qsnet3", error, sizeof error), 0);
    CU_ASSERT_EQUAL(emu_profile_on(&slow, EMU_CLOCK_REAL).reply_timeout_ps, EMU_HOST_DELAY_PS);
    slow.link_ps_per_byte = US;
    full_ps = slow.channels * slow.packet_bytes * US;
    real_ps = emu_profile_on(&slow, EMU_CLOCK_REAL).reply_timeout_ps;
    CU_ASSERT_TRUE(real_ps > 8 * full_ps && real_ps <= 1000 * MS);
    CU_ASSERT_EQUAL(emu_profile_on(&slow, EMU_CLOCK_RAW).reply_timeout_ps, EMU_HOST_DELAY_PS);
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
        CASE(timeout__fixed_one_does_not_adapt),       CASE(timeout__follows_round_trips),
        CASE(timeout__doubles_up_to_the_maximum),      CASE(timeout__stays_in_its_bounds),
        CASE(timeout__covers_the_queue_of_full_links), {NULL, NULL},
    };

    return test_run("rto", cases);
}
