/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay_test.c - link-level retry on clock real, where the remote end answers only while its
 * thread is on a core: late replies cause no retransmission, lost segments do.
 *
 * There are no threads: the test steps both ends of a cable and sets the time.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "emu/retry/replay.h"
#include "emu/worker/worker.h"
#include "tests/test.h"

#define CREDITS 8u
#define MS      UINT64_C(1000000000) /* ps */
#define US      UINT64_C(1000000)

/* Both ends, of two devices of one worker. */
struct cable {
    struct emu_worker *worker;
    struct emu_pool *pool;
    struct emu_dev near, remote;
    struct emu_tx tx;
    struct emu_rx rx;
    struct emu_replay replay;
    struct emu_intake intake;
    struct emu_faults faults;
    struct emu_profile profile;
    uint64_t now_ps;
    uint32_t sent, arrived;
};

static uint32_t step(struct emu_dev *dev, uint64_t until_ps)
{
    (void)dev, (void)until_ps;
    return 0;
}

static void cable_open(struct cable *c, uint64_t link_ps_per_byte)
{
    struct emu_clock clock = {.mode = EMU_CLOCK_REAL};
    char error[128];

    *c = (struct cable){.sent = 0};
    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&c->profile, "oq2004", error, sizeof error), 0);
    c->profile.link_ps_per_byte = link_ps_per_byte;
    CU_ASSERT_FATAL((c->pool = emu_pool_create(64)) != NULL);
    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&c->worker, 2, &clock, c->pool), 0);
    emu_dev_init(&c->near, c->worker, step);
    emu_dev_init(&c->remote, c->worker, step);
    CU_ASSERT_EQUAL_FATAL(emu_retry_join(&c->replay, &c->tx, &c->near, 0, &c->intake, &c->rx,
                                         &c->remote, 0, CREDITS, &c->profile),
                          0);
}

static void cable_close(struct cable *c)
{
    emu_ring_destroy(&c->tx.data);
    emu_credit_destroy(&c->tx.credit);
    emu_replay_free(&c->replay);
    emu_intake_free(&c->intake);
    emu_worker_destroy(c->worker);
    emu_pool_destroy(c->pool);
}

/* Sends as many as there are credits for. */
static void near_sends(struct cable *c)
{
    struct emu_entry entry = {.hdr = {.kind = EMU_UNICAST}, .buf = EMU_NO_BUF};
    uint64_t at_ps;

    while ((at_ps = emu_tx_earliest_ps(&c->tx, c->now_ps)) != EMU_NEVER) {
        entry.hdr.seq = c->sent++;
        emu_tx_depart(&c->tx, &entry, at_ps);
    }
}

/* The near end's thread is on the core again after @later_ps. */
static void near_passes(struct cable *c, uint64_t later_ps)
{
    c->now_ps += later_ps;
    emu_replay_run(&c->replay, c->now_ps);
}

static void remote_passes(struct cable *c)
{
    const struct emu_entry *entry;

    emu_intake_take(&c->intake, c->now_ps);
    while ((entry = emu_rx_front(&c->rx, c->now_ps))) {
        CU_ASSERT_EQUAL(entry->hdr.seq, c->arrived);
        c->arrived++;
        c->rx.owed++;
        emu_ring_skip(&c->rx.data);
    }
    if (c->rx.owed)
        emu_rx_pay(&c->rx, &c->remote, c->now_ps + c->profile.credit_ps);
    emu_intake_give(&c->intake);
}

static uint64_t again(const struct cable *c)
{
    return emu_count_read(&c->replay.counts.again);
}

/* The near end's thread was away for many time-outs, and its segments became ready long ago. */
static void timeout__starts_when_the_segment_is_visible(void)
{
    struct cable c;

    cable_open(&c, 800);
    for (uint32_t i = 0; i < 20; i++) {
        near_sends(&c);
        near_passes(&c, 100 * MS);
        remote_passes(&c);
        near_passes(&c, US); /* the replies arrive */
    }
    CU_ASSERT_EQUAL(c.sent, 20 * CREDITS);
    CU_ASSERT_EQUAL(c.arrived, c.sent);
    CU_ASSERT_EQUAL(emu_count_read(&c.replay.counts.timeouts), 0);
    CU_ASSERT_EQUAL(again(&c), 0);
    cable_close(&c);
}

/*
 * The remote thread is late each time by more than the minimum time-out: the time-out adapts. On a
 * slow link both the minimum and the delay are longer.
 */
static void timeout__adapts_to_a_late_remote_end(void)
{
    for (uint32_t slow = 0; slow < 2; slow++) {
        uint64_t learnt = 0;
        struct cable c;

        cable_open(&c, slow ? 1000000 : 800);
        for (uint32_t i = 0; i < 60; i++) {
            uint64_t late_ps = (slow ? 40 : 4) * MS + i % 3 * MS;

            near_sends(&c);
            for (uint64_t past_ps = 0; past_ps < late_ps; past_ps += MS / 4)
                near_passes(&c, MS / 4);
            remote_passes(&c);
            near_passes(&c, US);
            if (i == 20)
                learnt = again(&c);
        }
        CU_ASSERT_EQUAL(c.arrived, c.sent);
        CU_ASSERT_EQUAL(again(&c), learnt);
        CU_ASSERT_TRUE(learnt < c.sent / 4);
        cable_close(&c);
    }
}

/* A lost segment is sent again within the maximum time-out, also after the time-out has grown. */
static void timeout__expires_after_a_loss(void)
{
    struct cable c;
    uint64_t before, most_ps;

    cable_open(&c, 800);
    near_sends(&c);
    near_passes(&c, 10 * US);
    remote_passes(&c);
    near_passes(&c, 50 * MS); /* a long round trip */
    CU_ASSERT_EQUAL(c.arrived, CREDITS);
    emu_faults_init(&c.faults, &(struct emu_fault_rates){.lost = EMU_FAULT_UNIT}, 1);
    emu_intake_faults(&c.intake, &c.faults);
    near_sends(&c);
    near_passes(&c, 10 * US);
    remote_passes(&c);
    CU_ASSERT_EQUAL(c.arrived, CREDITS); /* all later ones are lost */
    c.faults.rates.lost = 0;
    before = again(&c);
    most_ps = c.now_ps + c.replay.rto.most_ps;
    while (c.arrived < c.sent && c.now_ps <= most_ps) {
        near_passes(&c, MS);
        remote_passes(&c);
    }
    CU_ASSERT_EQUAL(c.arrived, c.sent);
    CU_ASSERT_EQUAL(again(&c), before + CREDITS);
    emu_faults_drop(&c.faults, &c.worker->cache);
    cable_close(&c);
}

/* The link goes down while a round trip is measured: that measurement is discarded. */
static void timeout__learns_nothing_from_a_link_that_was_down(void)
{
    uint64_t first_ps;
    struct cable c;

    cable_open(&c, 800);
    near_sends(&c);
    near_passes(&c, 10 * US);
    first_ps = c.replay.rto.first_ps;
    emu_replay_link(&c.replay, false, c.now_ps);
    c.now_ps += 1000 * MS;
    emu_replay_link(&c.replay, true, c.now_ps);
    near_passes(&c, 10 * US); /* retransmission */
    CU_ASSERT_EQUAL(emu_count_read(&c.replay.counts.timeouts), 0);
    remote_passes(&c);
    near_passes(&c, 10 * US);
    CU_ASSERT_EQUAL(c.arrived, CREDITS);
    CU_ASSERT_EQUAL(c.replay.rto.first_ps, first_ps);
    CU_ASSERT_EQUAL(c.replay.rto.samples, 0);
    cable_close(&c);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* their allocators abort the process */
/* An intake for whose rings there is no memory can still be freed by its owner. */
static void intake__without_memory_can_be_freed(void)
{
    struct emu_intake intake = {.remote = NULL};
    struct emu_rx rx = {.kind = EMU_LINK_NONE};
    struct emu_tx tx = {.kind = EMU_LINK_NONE};
    struct rlimit usual, none;
    struct cable c;
    int err;

    cable_open(&c, 800);
    CU_ASSERT_EQUAL_FATAL(emu_link_join(&tx, &c.near, 1, &rx, &c.remote, 1, CREDITS, &c.profile),
                          0);
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_AS, &usual), 0);
    none = usual;
    none.rlim_cur = 0; /* no more than the process has already */
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_AS, &none), 0);
    err = emu_intake_insert(&intake, &rx, 1u << 16, &c.profile);
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_AS, &usual), 0);
    CU_ASSERT_EQUAL(err, -ENOMEM);
    emu_intake_free(&intake);
    emu_link_unjoin(&tx);
    cable_close(&c);
}
#endif

int main(void)
{
    static const struct test_case cases[] = {
        CASE(timeout__starts_when_the_segment_is_visible),
        CASE(timeout__adapts_to_a_late_remote_end),
        CASE(timeout__expires_after_a_loss),
        CASE(timeout__learns_nothing_from_a_link_that_was_down),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        CASE(intake__without_memory_can_be_freed),
#endif
        {NULL, NULL},
    };

    return test_run("replay", cases);
}
