/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outbox_test.c - items between workers on clock virtual arrive complete, in order and on time,
 * whether or not an outbox has space for them. Between two advances of the clock all items are on
 * their cables.
 */
#include "emu/dev/outbox.h"
#include "emu/link/link.h"
#include "emu/util/alloc.h"
#include "emu/worker/windows.h"
#include "emu/worker/worker.h"
#include "tests/test.h"

#define WORKERS  3u
#define CREDITS  32u
#define HOP_PS   110000u
#define ADVANCES TEST_TRIALS(400u)

/* A device with a cable to and from each of the others, on a worker of its own. */
struct talker {
    struct emu_dev dev;
    struct emu_profile profile;
    struct emu_tx tx[WORKERS];
    struct emu_rx rx[WORKERS];
    uint32_t left[WORKERS]; /* to send */
    uint32_t sent[WORKERS], taken[WORKERS];
    uint64_t later;           /* ports at which a known segment arrives later */
    uint64_t random, send_ps; /* next time to send; EMU_NEVER: done */
    uint64_t before_ps;       /* end of its last step */
    uint32_t wrong, most;     /* wrong: segments received in error; most: longest burst */
};

struct talk {
    struct emu_clock clock;
    struct emu_pool *pool;
    struct emu_worker *worker[WORKERS];
    struct emu_windows *windows;
    struct talker *talker[WORKERS];
};

/* Send what is left for @to, as far as credits allow. */
static void talker_sends(struct talker *t, uint32_t to, uint64_t ready_ps)
{
    while (t->left[to]) {
        struct emu_entry entry = {.hdr = {.seq = t->sent[to]}, .buf = EMU_NO_BUF};
        uint64_t at_ps = emu_tx_earliest_ps(&t->tx[to], ready_ps);

        if (at_ps == EMU_NEVER)
            return;
        t->left[to]--;
        t->sent[to]++;
        emu_tx_depart_notify(&t->tx[to], &t->dev, t->tx[to].profile, &entry, at_ps);
    }
}

/* Take all segments up to @until_ps. Returns the time of the next one. */
static uint64_t talker_takes(struct talker *t, uint32_t from, uint64_t until_ps)
{
    struct emu_rx *rx = &t->rx[from];
    const struct emu_entry *entry;

    while ((entry = emu_rx_front(rx, until_ps))) {
        uint64_t at_ps = entry->time_ps;

        t->wrong += entry->hdr.seq != t->taken[from]++ || at_ps <= t->before_ps;
        emu_rx_skip(rx);
        emu_rx_done(rx, 1);
        rx->owed++;
        emu_rx_pay(rx, &t->dev, at_ps + HOP_PS);
    }
    return emu_rx_next_ps(rx);
}

/* Polls only signalled ports and ports with a known later arrival. */
static uint32_t talker_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct talker *t = (struct talker *)dev;
    uint64_t data = emu_dev_take(dev, EMU_EVENT_DATA) | t->later, next_ps = EMU_NEVER, wants = 0;

    t->later = 0;
    emu_each_bit (from, data) {
        uint64_t at_ps = talker_takes(t, from, until_ps);

        t->later |= (uint64_t)(at_ps != EMU_NEVER) << from;
        next_ps = at_ps < next_ps ? at_ps : next_ps;
    }
    emu_each_bit (to, emu_dev_take(dev, EMU_EVENT_CREDIT))
        talker_sends(t, to, t->before_ps + 1);
    for (; t->send_ps <= until_ps; t->send_ps += 1 + emu_xorshift(&t->random) % (4 * HOP_PS))
        for (uint32_t to = 0; to < WORKERS; to++)
            if (t->tx[to].kind == EMU_LINK_LOCAL && !t->left[to]) {
                t->left[to] = (uint32_t)(emu_xorshift(&t->random) % (t->most + 1));
                talker_sends(t, to, t->send_ps);
            }
    for (uint32_t to = 0; to < WORKERS; to++)
        wants |= (uint64_t)(t->left[to] != 0) << to;
    emu_dev_wants(dev, wants);
    t->before_ps = until_ps;
    dev->next_ps = next_ps < t->send_ps ? next_ps : t->send_ps;
    return 1;
}

static struct talker *talker_open(struct emu_worker *worker, uint64_t seed, uint32_t most)
{
    struct talker *t = emu_zeros(sizeof *t);

    CU_ASSERT_FATAL(t != NULL);
    emu_dev_init(&t->dev, worker, talker_step);
    t->profile = (struct emu_profile){.channel_ps = HOP_PS / 2,
                                      .switch_ps = HOP_PS / 2,
                                      .credit_ps = HOP_PS,
                                      .link_ps_per_byte = 1};
    t->random = emu_spread(seed);
    t->most = most;
    t->send_ps = HOP_PS;
    emu_dev_wake(&t->dev, t->send_ps);
    return t;
}

static void talk_open(struct talk *k, uint64_t seed, uint32_t most)
{
    *k = (struct talk){.clock = {.mode = EMU_CLOCK_VIRTUAL}};
    CU_ASSERT_FATAL((k->pool = emu_pool_create(64)) != NULL);
    for (uint32_t i = 0; i < WORKERS; i++) {
        CU_ASSERT_EQUAL_FATAL(emu_worker_create(&k->worker[i], 1, &k->clock, k->pool), 0);
        k->worker[i]->index = i;
        k->talker[i] = talker_open(k->worker[i], seed + i, most);
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        for (uint32_t j = 0; j < WORKERS; j++) {
            struct talker *a = k->talker[i], *b = k->talker[j];

            if (i == j)
                continue;
            CU_ASSERT_EQUAL_FATAL(emu_link_join(&a->tx[j], &a->dev, (uint8_t)j, &b->rx[i], &b->dev,
                                                (uint8_t)i, CREDITS, &a->profile),
                                  0);
            CU_ASSERT_EQUAL_FATAL(emu_link_cross_worker(&a->tx[j], &b->rx[i]), 0);
        }
    for (uint32_t i = 0; i < WORKERS; i++) {
        CU_ASSERT_EQUAL_FATAL(emu_outbox_open(k->worker[i]), 0);
        CU_ASSERT_EQUAL(k->talker[i]->tx[!i].shape, EMU_LINK_LOCAL | EMU_SHAPE_CROSS_WORKER);
        CU_ASSERT_TRUE(emu_tx_is_cable(&k->talker[i]->tx[!i]));
    }
    CU_ASSERT_EQUAL_FATAL(emu_windows_create(&k->windows, k->worker, WORKERS, HOP_PS, NULL), 0);
}

static void talk_close(struct talk *k)
{
    emu_windows_destroy(k->windows);
    for (uint32_t i = 0; i < WORKERS; i++) {
        for (uint32_t j = 0; j < WORKERS; j++)
            emu_link_unjoin(&k->talker[i]->tx[j]);
        emu_worker_destroy(k->worker[i]);
        free(k->talker[i]);
    }
    emu_pool_destroy(k->pool);
}

/* Between two advances all items are on the cables. */
static void talk_check(const struct talk *k)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        for (uint32_t j = 0; j < WORKERS; j++) {
            const struct emu_rx *rx = &k->talker[j]->rx[i];

            if (i != j)
                CU_ASSERT_PTR_NULL(emu_link_check(rx, 0, CREDITS));
            for (uint32_t at = rx->data.at; i != j && at != rx->tx->data.at; at++)
                CU_ASSERT_TRUE(rx->data.slot[at & rx->data.mask].full);
        }
}

/* As a manager does for a link that goes down: remove all segments in flight. */
static void talk_removes(struct talk *k)
{
    for (uint32_t i = 0; i < WORKERS; i++)
        for (uint32_t j = 0; j < WORKERS; j++)
            if (i != j)
                talker_takes(k->talker[j], i, EMU_NEVER);
}

static void talk_runs(uint32_t most, bool taken)
{
    uint64_t seed = test_seed() + most, random = seed, at_ps = 0;
    struct talk k;

    talk_open(&k, seed, most);
    for (uint32_t i = 0; i < ADVANCES; i++) {
        at_ps += emu_xorshift(&random) % (8 * HOP_PS);
        emu_windows_advance(k.windows, at_ps);
        talk_check(&k);
        if (taken && emu_xorshift(&random) % 2)
            talk_removes(&k);
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        k.talker[i]->send_ps = EMU_NEVER;
    emu_windows_advance(k.windows, at_ps + 1000 * HOP_PS);
    talk_check(&k);
    for (uint32_t i = 0; i < WORKERS; i++) {
        CU_ASSERT_EQUAL(k.talker[i]->wrong, 0);
        for (uint32_t j = 0; j < WORKERS; j++) {
            CU_ASSERT_EQUAL(k.talker[j]->taken[i], k.talker[i]->sent[j]);
            CU_ASSERT_EQUAL(k.talker[i]->left[j], 0);
            CU_ASSERT_TRUE(i == j || k.talker[i]->sent[j] > ADVANCES);
        }
    }
    talk_close(&k);
}

static void few__come_in_order_and_in_time(void)
{
    talk_runs(3, false);
}

/* Segments removed between two advances do not reappear. */
static void few__may_be_removed_between_advances(void)
{
    talk_runs(3, true);
}

/* An outbox has space for four items here: the others take the slow path. */
static void more_than_an_outbox_holds__come_in_order_and_in_time(void)
{
    talk_runs(2 * CREDITS, false);
    talk_runs(2 * CREDITS, true);
}

/* With one worker, or without windows, cables are unchanged. */
static void apart__only_with_several_workers(void)
{
    static const enum emu_clock_mode modes[] = {EMU_CLOCK_VIRTUAL, EMU_CLOCK_REAL, EMU_CLOCK_RAW};

    for (uint32_t i = 0; i < 3; i++) {
        struct emu_clock clock = {.mode = modes[i]};
        struct emu_worker *worker[2];
        struct talker *t[2];

        for (uint32_t j = 0; j < 2; j++) {
            CU_ASSERT_EQUAL_FATAL(emu_worker_create(&worker[j], 2, &clock, NULL), 0);
            worker[j]->index = i == 0 ? 0 : j;
        }
        for (uint32_t j = 0; j < 2; j++)
            t[j] = talker_open(worker[j], j, 1);
        CU_ASSERT_EQUAL_FATAL(emu_link_join(&t[0]->tx[1], &t[0]->dev, 1, &t[1]->rx[0], &t[1]->dev,
                                            0, CREDITS, &t[0]->profile),
                              0);
        CU_ASSERT_EQUAL(emu_link_cross_worker(&t[0]->tx[1], &t[1]->rx[0]), 0);
        CU_ASSERT_EQUAL(t[0]->tx[1].shape, EMU_LINK_LOCAL);
        CU_ASSERT_EQUAL(t[1]->rx[0].shape, EMU_LINK_LOCAL);
        emu_link_unjoin(&t[0]->tx[1]);
        for (uint32_t j = 0; j < 2; j++) {
            emu_worker_destroy(worker[j]);
            free(t[j]);
        }
    }
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(few__come_in_order_and_in_time),
        CASE(few__may_be_removed_between_advances),
        CASE(more_than_an_outbox_holds__come_in_order_and_in_time),
        CASE(apart__only_with_several_workers),
        {NULL, NULL},
    };

    return test_run("outbox", cases);
}
