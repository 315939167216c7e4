/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fused_test.c - a fused cable behaves as one with a separate credit ring: after any sequence of
 * operations on both, both report the same and nothing is lost.
 *
 * There are no threads: the test acts for both devices of both cables and sets the time.
 */
#include <stdlib.h>

#include "emu/link/link.h"
#include "emu/worker/worker.h"
#include "tests/test.h"

enum { PLAIN, FUSED, KINDS };

struct cable {
    struct emu_tx tx;
    struct emu_rx rx;
    struct emu_slow slow;
};

/* A fused and a separate cable between the same devices. */
struct pair {
    struct emu_worker *worker;
    struct emu_pool *pool;
    struct emu_dev near, remote;
    struct emu_profile profile;
    struct cable cable[KINDS];
    uint32_t credits; /* of each cable */
    uint32_t sent, arrived, held;
    uint64_t now_ps, paid_ps;
    uint64_t random;
};

static uint32_t step(struct emu_dev *dev, uint64_t until_ps)
{
    (void)dev, (void)until_ps;
    return 0;
}

static void pair_open(struct pair *p, uint32_t credits, uint64_t seed)
{
    struct emu_clock clock = {.mode = EMU_CLOCK_REAL};
    char error[128];

    *p = (struct pair){.credits = credits, .random = seed, .now_ps = EMU_REBASE_PS};
    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&p->profile, "oq2004", error, sizeof error), 0);
    CU_ASSERT_FATAL((p->pool = emu_pool_create(64)) != NULL);
    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&p->worker, 2, &clock, p->pool), 0);
    emu_dev_init(&p->near, p->worker, step);
    emu_dev_init(&p->remote, p->worker, step);
    CU_ASSERT_TRUE_FATAL(p->near.timed);
    CU_ASSERT_EQUAL_FATAL(emu_link_join(&p->cable[PLAIN].tx, &p->near, 0, &p->cable[PLAIN].rx,
                                        &p->remote, 0, credits, &p->profile),
                          0);
    CU_ASSERT_EQUAL_FATAL(emu_link_join_fused(&p->cable[FUSED].tx, &p->near, 1, &p->cable[FUSED].rx,
                                              &p->remote, 1, credits, &p->profile),
                          0);
}

static void pair_close(struct pair *p)
{
    for (unsigned k = 0; k < KINDS; k++)
        emu_link_unjoin(&p->cable[k].tx);
    emu_worker_destroy(p->worker);
    emu_pool_destroy(p->pool);
}

/*
 * Send a segment as soon as allowed. Returns false if neither cable has a credit. @parts:
 * cut-through, the check and the send are two steps.
 */
static bool pair_send(struct pair *p, bool parts)
{
    struct emu_entry entry = {.hdr = {.len = (uint16_t)test_draw(&p->random, 0, 256)},
                              .buf = EMU_NO_BUF,
                              .note = p->sent};
    /* The segment was delayed, and its credit may be delayed with it. */
    uint64_t ready_ps = p->now_ps + test_draw(&p->random, 0, 1) * test_draw(&p->random, 0, 500000);
    uint64_t at_ps[KINDS];

    for (unsigned k = 0; k < KINDS; k++)
        at_ps[k] = emu_tx_earliest_ps(&p->cable[k].tx, ready_ps);
    CU_ASSERT_EQUAL(at_ps[FUSED], at_ps[PLAIN]);
    if (parts)
        CU_ASSERT_EQUAL_FATAL(emu_link_unfuse(&p->cable[FUSED].rx), 0);
    if (at_ps[FUSED] == EMU_NEVER || at_ps[PLAIN] == EMU_NEVER)
        return false;
    for (unsigned k = 0; k < KINDS; k++)
        emu_tx_depart_notify(&p->cable[k].tx, &p->near, &p->profile, &entry, at_ps[k]);
    p->sent++;
    return true;
}

/* Take the oldest segment and hold it. Returns false if both cables are empty. */
static bool pair_take(struct pair *p)
{
    uint64_t at_ps[KINDS];

    for (unsigned k = 0; k < KINDS; k++)
        at_ps[k] = emu_rx_front_ps(&p->cable[k].rx, EMU_NEVER);
    CU_ASSERT_EQUAL(at_ps[FUSED], at_ps[PLAIN]);
    if (at_ps[FUSED] == EMU_NEVER || at_ps[PLAIN] == EMU_NEVER)
        return false;
    for (unsigned k = 0; k < KINDS; k++) {
        struct emu_rx *rx = &p->cable[k].rx;

        CU_ASSERT_EQUAL(emu_rx_arrived(rx, EMU_NEVER)->note, p->arrived);
        emu_rx_skip(rx);
        emu_rx_done(rx, 1);
    }
    p->now_ps = at_ps[PLAIN] > p->now_ps ? at_ps[PLAIN] : p->now_ps;
    p->arrived++;
    p->held++;
    return true;
}

/* Return the credits of some held segments. */
static void pair_pay(struct pair *p)
{
    uint32_t count = (uint32_t)test_draw(&p->random, 1, p->held);

    p->paid_ps = p->now_ps > p->paid_ps ? p->now_ps : p->paid_ps;
    for (unsigned k = 0; k < KINDS; k++) {
        p->cable[k].rx.owed += count;
        emu_rx_pay(&p->cable[k].rx, &p->remote, p->paid_ps + p->profile.credit_ps);
    }
    p->held -= count;
}

static void pair_rebase(struct pair *p)
{
    uint64_t by_ps = test_draw(&p->random, 0, p->now_ps / 2);

    for (unsigned k = 0; k < KINDS; k++) {
        emu_tx_rebase(&p->cable[k].tx, by_ps);
        emu_rx_rebase(&p->cable[k].rx, by_ps);
    }
    p->now_ps -= by_ps;
    p->paid_ps = emu_rebased_ps(p->paid_ps, by_ps);
}

/* Change the cable as a manager would while all workers are stopped. */
static void pair_reconfigure(struct pair *p)
{
    uint32_t factor = (uint32_t)test_draw(&p->random, 0, 1) ? 1000 : 3700;
    bool stuck = !emu_tx_is_stuck(&p->cable[PLAIN].tx);
    uint64_t what = test_draw(&p->random, 0, 3);

    if (what == 0)
        pair_rebase(p);
    for (unsigned k = 0; k < KINDS; k++) {
        struct cable *c = &p->cable[k];

        if (what == 1)
            emu_tx_slow(&c->tx, &c->slow, factor);
        else if (what == 2)
            emu_tx_stick(&c->tx, stuck, p->now_ps);
        else if (what == 3) /* the sender is not subscribed to credits */
            c->tx.tapped = c->rx.tapped = !c->tx.tapped;
    }
}

static void pair_check(struct pair *p)
{
    for (unsigned k = 0; k < KINDS; k++) {
        const char *wrong = emu_link_check(&p->cable[k].rx, p->held, p->credits);

        CU_ASSERT_PTR_NULL(wrong);
        CU_ASSERT_EQUAL(emu_link_credits(&p->cable[k].rx) + p->sent - p->arrived + p->held,
                        p->credits);
    }
    CU_ASSERT_EQUAL(emu_tx_has_credit(&p->cable[FUSED].tx), emu_tx_has_credit(&p->cable[PLAIN].tx));
}

static void pair_walk(struct pair *p, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        uint64_t what = test_draw(&p->random, 0, 99);

        p->now_ps += test_draw(&p->random, 0, 300000);
        if (what < 45)
            pair_send(p, false);
        else if (what < 75)
            pair_take(p);
        else if (what < 95 && p->held)
            pair_pay(p);
        else if (what >= 97)
            pair_reconfigure(p);
        pair_check(p);
    }
}

/* Every sent segment arrives, and every credit returns. */
static void pair_drain(struct pair *p)
{
    while (pair_take(p))
        ;
    while (p->held)
        pair_pay(p);
    pair_check(p);
    CU_ASSERT_EQUAL(p->arrived, p->sent);
    CU_ASSERT_EQUAL(emu_link_credits(&p->cable[FUSED].rx), p->credits);
}

static void fused__behaves_as_with_a_credit_ring(void)
{
    uint64_t seed = test_seed();

    for (uint32_t credits = 1; credits <= 17; credits++) {
        struct pair p;

        pair_open(&p, credits, test_random(&seed));
        pair_walk(&p, 2000);
        pair_drain(&p);
        CU_ASSERT_TRUE(p.sent > 10);
        pair_close(&p);
    }
}

/* Spend all credits, including those in flight, each as soon as allowed. */
static void pair_spend(struct pair *p)
{
    while (pair_send(p, false))
        pair_check(p);
}

/* Unfuse as an intake does for a fault, with any segments or credits in flight. */
static void fused__may_be_unfused_at_any_moment(void)
{
    uint64_t seed = test_seed() + 1;

    for (uint32_t i = 0; i < 200; i++) {
        struct pair p;

        pair_open(&p, 1 + i % 9, test_random(&seed));
        pair_walk(&p, (uint32_t)test_draw(&p.random, 0, 60));
        if (i % 8 < 4 && p.held)
            pair_pay(&p);
        if (i % 2)
            pair_send(&p, true);
        else
            CU_ASSERT_EQUAL_FATAL(emu_link_unfuse(&p.cable[FUSED].rx), 0);
        CU_ASSERT_EQUAL(p.cable[FUSED].tx.shape, p.cable[PLAIN].tx.shape);
        CU_ASSERT_EQUAL(p.cable[FUSED].rx.shape, p.cable[PLAIN].rx.shape);
        pair_check(&p);
        CU_ASSERT_EQUAL(emu_link_unfuse(&p.cable[FUSED].rx), 0); /* unfusing again has no effect */
        if (i % 4 < 2)
            pair_spend(&p);
        pair_walk(&p, 200);
        pair_drain(&p);
        pair_close(&p);
    }
}

/* Both ends have 32-bit counters, which wrap. */
static void fused__counters_wrap(void)
{
    uint64_t seed = test_seed() + 2;
    struct pair p;

    pair_open(&p, 4, test_random(&seed));
    for (unsigned k = 0; k < KINDS; k++) {
        struct cable *c = &p.cable[k];
        uint32_t to_go = 40; /* a multiple of the slots */

        c->tx.data.at = c->rx.data.at = -to_go;
        if (k == FUSED)
            c->rx.credit.at = p.credits - to_go;
        else
            c->tx.credit.at = c->rx.credit.at = -to_go;
    }
    pair_walk(&p, 2000);
    pair_drain(&p);
    CU_ASSERT_TRUE(p.cable[FUSED].tx.data.at < 2000); /* it has wrapped */
    pair_close(&p);
}

/* A sender that is idle while credits return finds all of them afterwards. */
static void fused__never_exceeds_its_credits(void)
{
    struct pair p;

    pair_open(&p, 3, 1);
    for (uint32_t i = 0; i < 3; i++)
        CU_ASSERT_TRUE(pair_send(&p, false));
    CU_ASSERT_FALSE(pair_send(&p, false));
    CU_ASSERT_FALSE(emu_tx_has_credit(&p.cable[FUSED].tx));
    CU_ASSERT_TRUE(pair_take(&p));
    CU_ASSERT_FALSE(pair_send(&p, false)); /* taking a segment does not return its credit */
    pair_pay(&p);
    CU_ASSERT_TRUE(pair_send(&p, false));
    CU_ASSERT_FALSE(pair_send(&p, false));
    pair_drain(&p);
    pair_close(&p);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(fused__behaves_as_with_a_credit_ring),
        CASE(fused__may_be_unfused_at_any_moment),
        CASE(fused__counters_wrap),
        CASE(fused__never_exceeds_its_credits),
        {NULL, NULL},
    };

    return test_run("fused", cases);
}
