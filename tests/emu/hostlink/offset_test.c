/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offset_test.c - the estimated offset of two hosts' clocks is right within its stated error, for
 * any queueing delay.
 */
#include "emu/hostlink/offset.h"
#include "tests/test.h"

#define EVERY_NS 50000000u
#define ROUNDS   400u

/* Two clocks: the remote one starts `ahead_ns` ahead of ours and runs faster by `drift_ppb`. */
struct clocks {
    uint64_t now_ns; /* the local clock */
    uint64_t begun_ns;
    uint64_t ahead_ns;
    int64_t drift_ppb;
    uint64_t random;
    struct hostlink_offset offset;
};

static uint64_t their_ns(const struct clocks *c, uint64_t ours_ns)
{
    int64_t since_ns = (int64_t)(ours_ns - c->begun_ns);

    return ours_ns + c->ahead_ns + (uint64_t)(since_ns / 1000 * c->drift_ppb / 1000000);
}

/* Delay of one direction: at least @least_ns, sometimes much more. */
static uint64_t direction_ns(struct clocks *c, uint64_t least_ns)
{
    uint64_t draw = test_random(&c->random);

    return least_ns + draw % 2000 + (draw >> 32) % 4 * ((draw >> 40) % 500000);
}

/* A timestamp is sent and the remote host's is returned. */
static void round_trip(struct clocks *c, uint64_t there_least_ns, uint64_t back_least_ns)
{
    uint64_t sent_ns = c->now_ns, there_ns = sent_ns + direction_ns(c, there_least_ns);
    uint64_t left_ns = there_ns + test_random(&c->random) % 100000;

    c->now_ns = left_ns + direction_ns(c, back_least_ns);
    hostlink_offset_sample(&c->offset, their_ns(c, left_ns), sent_ns, their_ns(c, there_ns),
                           c->now_ns);
}

static void clocks_begin(struct clocks *c, uint64_t ahead_ns, int64_t drift_ppb, uint64_t seed)
{
    *c = (struct clocks){.ahead_ns = ahead_ns, .drift_ppb = drift_ppb, .random = seed};
    c->now_ns = c->begun_ns = 1 + test_random(&c->random) % (UINT64_C(1) << 50);
    hostlink_offset_reset(&c->offset);
}

static uint64_t apart(uint64_t a, uint64_t b)
{
    int64_t d = (int64_t)(a - b);

    return (uint64_t)(d < 0 ? -d : d);
}

static void clocks_run(struct clocks *c, uint64_t there_ns, uint64_t back_ns)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t true_ns, error_ns;

        c->now_ns += EVERY_NS;
        round_trip(c, there_ns, back_ns);
        true_ns = their_ns(c, c->now_ns) - c->now_ns;
        error_ns = atomic_load(&c->offset.error_ns);
        CU_ASSERT_TRUE_FATAL(atomic_load(&c->offset.known));
        /* each clock is rounded to 1 ns */
        CU_ASSERT_TRUE(apart((uint64_t)atomic_load(&c->offset.offset_ns), true_ns) <= error_ns + 3);
        CU_ASSERT_TRUE(apart((uint64_t)hostlink_offset_at(&c->offset, c->now_ns + EVERY_NS),
                             true_ns) <= error_ns + EVERY_NS / 5000);
    }
}

static void offset__is_right_within_its_error(void)
{
    static const uint64_t ahead_ns[] = {0, 1, UINT64_C(1) << 40, 0 - (UINT64_C(1) << 50),
                                        UINT64_C(1) << 63};
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < 40; i++) {
        struct clocks c;
        uint64_t draw = test_random(&random);

        clocks_begin(&c, ahead_ns[i % 5], (int64_t)(draw % 60001) - 30000, draw);
        clocks_run(&c, 1000 + (draw >> 20) % 20000, 1000 + (draw >> 40) % 20000);
    }
}

/* The drift of clocks with different rates is estimated within its stated error. */
static void drift__is_estimated(void)
{
    struct clocks c;

    clocks_begin(&c, 12345, 25000, test_seed()); /* 25 ppm: 25 us per second */
    clocks_run(&c, 5000, 5000);
    CU_ASSERT_TRUE(c.offset.unsure < 1e-4); /* below the error without an estimate */
    CU_ASSERT_TRUE((double)apart((uint64_t)atomic_load(&c.offset.drift_ppb), 25000) <=
                   c.offset.unsure * 1e9 + 1);
}

/* Impossible timestamps are ignored: the estimate does not change. */
static void times__impossible_ones_are_ignored(void)
{
    struct clocks c;
    int64_t known_ns;

    clocks_begin(&c, 1000000, 0, test_seed());
    hostlink_offset_sample(&c.offset, 5, 0, 0, c.now_ns); /* a query: no time to answer yet */
    CU_ASSERT_FALSE(atomic_load(&c.offset.known));
    hostlink_offset_sample(&c.offset, 5, c.now_ns + 1, 3, c.now_ns); /* sent in the future */
    hostlink_offset_sample(&c.offset, 3, c.now_ns - 1, 5, c.now_ns); /* before it was sent */
    hostlink_offset_sample(&c.offset, 1000, c.now_ns - 100, 1,
                           c.now_ns); /* longer than the round trip */
    CU_ASSERT_FALSE(atomic_load(&c.offset.known));
    CU_ASSERT_EQUAL(hostlink_offset_at(&c.offset, c.now_ns), 0);
    clocks_run(&c, 1000, 1000);
    known_ns = hostlink_offset_at(&c.offset, c.now_ns);
    for (uint32_t i = 0; i < 1000; i++)
        hostlink_offset_sample(&c.offset, test_random(&c.random), test_random(&c.random),
                               test_random(&c.random), c.now_ns);
    CU_ASSERT_EQUAL(hostlink_offset_at(&c.offset, c.now_ns), known_ns);
    hostlink_offset_reset(&c.offset);
    CU_ASSERT_FALSE(atomic_load(&c.offset.known));
}

int main(void)
{
    static const struct test_case cases[] = {CASE(offset__is_right_within_its_error),
                                             CASE(drift__is_estimated),
                                             CASE(times__impossible_ones_are_ignored),
                                             {NULL, NULL}};

    return test_run("offset", cases);
}
