/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * retry_test.c - cables between switches without channels that lose, corrupt, duplicate and delay
 * segments, and go down: with and without link-level retry.
 */
#include <string.h>

#include "tests/test.h"
#include "apps/fabric/links.h"
#include "tests/fixtures/hostifs.h"
#include "tests/fixtures/switch/trial.h"

#define FOREVER_PS (UINT64_C(1) << 44)

/* Apply @rates to every cable end that supports faults. */
static void fault_all(struct fabric *fabric, const struct emu_fault_rates *rates)
{
    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++)
        for (uint32_t out = 0; out < 2; out++)
            if (fabric_can_fail(fabric, i))
                fabric_faults(fabric, i, out)->rates = *rates;
}

static bool link_set(struct fabric *fabric, uint32_t cable, bool up, uint64_t now_ps)
{
    uint32_t hit;

    return !fabric_link_set(fabric, cable, up, 0, now_ps, &hit);
}

static struct switch_retries retries_of(const struct fabric *fabric)
{
    struct switch_retries sum = {0};

    for (uint32_t s = 0; s < fabric->config.graph->switches; s++)
        switch_retries_add(fabric->sw[s], &sum);
    return sum;
}

/* A trial with link-level retry, on a network with cables between switches. */
static struct trial retry_draw(uint64_t *seed, enum emu_buffers buffers)
{
    static const char *const specs[] = {"kary:2,3", "kary:4,2", "kary:3,2"};
    struct trial t = trial_draw(test_random(seed), buffers);

    t.spec = specs[test_draw(seed, 0, 2)];
    t.profile.link_retry = EMU_LINK_RETRY_GO_BACK_N;
    return t;
}

/* A few faults of each kind, or many of one. */
static struct emu_fault_rates rates_draw(uint64_t *seed)
{
    struct emu_fault_rates rates = fixture_faults((uint32_t)test_draw(seed, 100, 50000));
    uint32_t much = (uint32_t)test_draw(seed, 10000, 200000);

    switch (test_draw(seed, 0, 5)) {
    case 0:
        return (struct emu_fault_rates){.lost = much};
    case 1:
        return (struct emu_fault_rates){.head = much / 2, .payload = much / 2};
    case 2:
        return (struct emu_fault_rates){.duplicated = much, .late_ps = 500000};
    case 3:
        return (struct emu_fault_rates){.late = much, .late_ps = test_draw(seed, 1, 3000000)};
    default:
        return rates;
    }
}

/* --- without faults ----------------------------------------------------------------- */

static uint64_t digest_of(struct trial t, enum emu_link_retry retry,
                          const struct emu_fault_rates *rates, uint32_t workers, uint64_t cut)
{
    uint64_t random = t.seed, digest;
    struct sim w;

    t.profile.link_retry = retry;
    trial_open(&t, &w, workers);
    fault_all(w.fabric, rates);
    sim_advance(&w, 0);
    while (!fabric_idle(w.fabric) && w.now_ps < FOREVER_PS)
        sim_advance(&w, cut ? w.now_ps + test_draw(&random, 1, cut) : FOREVER_PS);
    if (!trial_arrived(&t, &w)) {
        trial_print(&t);
        CU_FAIL("not everything has arrived");
    }
    digest = sim_digest(&w);
    sim_close(&w);
    return digest;
}

static void retry__costs_no_time_without_faults(void)
{
    static const struct emu_fault_rates none;
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < 9; i++) {
        struct trial t = retry_draw(&seed, (enum emu_buffers)(i % 3));

        CU_ASSERT_EQUAL(digest_of(t, EMU_LINK_RETRY_NONE, &none, 1, 0),
                        digest_of(t, EMU_LINK_RETRY_GO_BACK_N, &none, 1, 0));
    }
}

/* --- with faults -------------------------------------------------------------------- */

static void repair(enum emu_buffers buffers)
{
    uint64_t seed = test_seed() + buffers;
    struct switch_retries all = {0};

    for (uint32_t i = 0; i < 30; i++) {
        struct trial t = retry_draw(&seed, buffers);
        struct emu_fault_rates rates = rates_draw(&seed);
        struct switch_retries one;
        bool right = true;
        struct sim w;

        trial_open(&t, &w, 1);
        fault_all(w.fabric, &rates);
        for (uint32_t moment = 0; moment < 40; moment++) {
            sim_advance(&w, w.now_ps + test_draw(&seed, 1, 1000000));
            right &= sim_holds(&w);
        }
        right &= sim_drain(&w, FOREVER_PS);
        right &= sim_holds(&w) && trial_arrived(&t, &w);
        one = retries_of(w.fabric);
        right &= !one.lost;
        all.again += one.again;
        all.asked += one.asked;
        all.timeouts += one.timeouts;
        all.doubles += one.doubles;
        if (!right) {
            trial_print(&t);
            printf("lost %u head %u payload %u twice %u late %u %llu\n", rates.lost, rates.head,
                   rates.payload, rates.duplicated, rates.late, (unsigned long long)rates.late_ps);
        }
        CU_ASSERT_TRUE_FATAL(right);
        sim_close(&w);
    }
    CU_ASSERT_TRUE(all.again && all.asked && all.timeouts && all.doubles);
}

static void retry__repairs_faults_with_crosspoint_buffers(void)
{
    repair(EMU_BUFFERS_XPOINT);
}

static void retry__repairs_faults_with_input_and_crosspoint_buffers(void)
{
    repair(EMU_BUFFERS_INPUT_XPOINT);
}

static void retry__repairs_faults_with_input_buffers(void)
{
    repair(EMU_BUFFERS_INPUT);
}

/* A run depends only on its seed, not on the workers or on how time is cut into windows. */
static void retry__does_not_depend_on_workers_or_windows(void)
{
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < 6; i++) {
        struct trial t = retry_draw(&seed, (enum emu_buffers)(i % 3));
        struct emu_fault_rates rates = rates_draw(&seed);
        uint64_t once = digest_of(t, EMU_LINK_RETRY_GO_BACK_N, &rates, 1, 0);

        CU_ASSERT_EQUAL(digest_of(t, EMU_LINK_RETRY_GO_BACK_N, &rates, 1, 300000), once);
        CU_ASSERT_EQUAL(digest_of(t, EMU_LINK_RETRY_GO_BACK_N, &rates, 2, i % 2 * 3000000), once);
    }
}

/* On a cable with a long delay, the sender waits for slots in the replay ring. */
static void retry__works_on_long_cables(void)
{
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < 6; i++) {
        struct trial t = retry_draw(&seed, (enum emu_buffers)(i % 3));
        struct emu_fault_rates rates = rates_draw(&seed);

        t.posts = 20;
        t.profile.channel_ps = i % 2 ? 5000000 : 20000;
        t.profile.credit_ps = i % 2 ? 110000 : 7000000;
        CU_ASSERT_EQUAL(digest_of(t, EMU_LINK_RETRY_GO_BACK_N, &rates, 1, 0),
                        digest_of(t, EMU_LINK_RETRY_GO_BACK_N, &rates, 2, 100000));
    }
}

/* --- links -------------------------------------------------------------------------- */

/* Cables go down and come back while faults occur: nothing is lost or duplicated. */
static void links__keep_their_segments_while_down(void)
{
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < TEST_TRIALS(20u); i++) {
        struct trial t = retry_draw(&seed, (enum emu_buffers)(i % 2));
        struct emu_fault_rates rates = rates_draw(&seed);
        bool right = true;
        struct sim w;

        trial_open(&t, &w, (uint32_t)test_draw(&seed, 1, 2));
        if (i % 4)
            fault_all(w.fabric, &rates);
        for (uint32_t moment = 0; moment < 60; moment++) {
            uint32_t cable = (uint32_t)test_draw(&seed, 0, fabric_cable_count(w.fabric) - 1);

            sim_advance(&w, w.now_ps + test_draw(&seed, 1, 1000000));
            if (fabric_can_fail(w.fabric, cable))
                right &= link_set(w.fabric, cable, test_draw(&seed, 0, 1), w.now_ps);
            right &= sim_holds(&w);
        }
        for (uint32_t c = 0; c < fabric_cable_count(w.fabric); c++)
            if (fabric_can_fail(w.fabric, c))
                right &= link_set(w.fabric, c, true, w.now_ps);
        right &= sim_drain(&w, w.now_ps + FOREVER_PS);
        right &= sim_holds(&w) && trial_arrived(&t, &w);
        if (!right)
            trial_print(&t);
        CU_ASSERT_TRUE_FATAL(right);
        sim_close(&w);
    }
}

/*
 * Among several routes, those with links up are chosen; segments already at a link that is down
 * wait.
 */
static void links__down_are_not_chosen(void)
{
    struct emu_hdr hdr = {.dst = 3, .len = 8};
    uint32_t down;
    struct sim w;

    sim_open(&w, "kary:2,2", "link_retry=go_back_n");
    for (down = 0; fabric_cable(w.fabric, down)->kind != TOPO_END_SWITCH; down++)
        ;
    while (fabric_cable(w.fabric, down)->at.sw != w.graph->node[0].link[0].sw &&
           fabric_cable(w.fabric, down)->peer.sw != w.graph->node[0].link[0].sw)
        down++;
    sim_advance(&w, 1);
    CU_ASSERT_TRUE(link_set(w.fabric, down, false, w.now_ps));
    for (uint32_t i = 0; i < 200; i++)
        sim_post(&w, 0, 0, hdr);
    CU_ASSERT_TRUE(sim_drain(&w, FOREVER_PS));
    CU_ASSERT_EQUAL(w.node[3]->gots, 200);
    CU_ASSERT_TRUE(sim_holds(&w));
    sim_close(&w);
}

/* On one route all segments stay in order, checked by their numbers. */
static void links__keep_the_order(void)
{
    struct emu_fault_rates rates = fixture_faults(30000);
    uint32_t wrong = 0;
    struct sim w;

    sim_open(&w, "kary:2,2", "link_retry=go_back_n choice=first_free light_slots=65536");
    fault_all(w.fabric, &rates);
    for (uint32_t i = 0; i < 2000; i++)
        sim_post(&w, 0, 0, (struct emu_hdr){.dst = 3, .seq = i, .len = (uint8_t)(i % 240)});
    CU_ASSERT_TRUE(sim_drain(&w, FOREVER_PS));
    CU_ASSERT_EQUAL(w.node[3]->gots, 2000);
    for (uint32_t i = 0; i < w.node[3]->gots; i++)
        wrong += w.node[3]->got[i].hdr.seq != i;
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_TRUE(retries_of(w.fabric).again > 0);
    sim_close(&w);
}

/* --- without retry ------------------------------------------------------------------ */

/* Lost segments are counted and their credits return, so the network makes progress. */
static void faults__lose_segments_but_no_credits(void)
{
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < TEST_TRIALS(25u); i++) {
        struct trial t = retry_draw(&seed, (enum emu_buffers)(i % 3));
        struct emu_fault_rates rates = rates_draw(&seed);
        uint64_t got = 0, posted = 0;
        bool right = true;
        struct sim w;

        t.profile.link_retry = EMU_LINK_RETRY_NONE;
        sim_start(&w, t.spec, &t.profile, 1 + i % 2);
        fault_all(w.fabric, &rates);
        for (uint32_t n = 0; n < w.graph->nodes; n++)
            for (uint32_t k = 0; k < 100; k++, posted++)
                sim_post(&w, n, 0,
                         (struct emu_hdr){.dst = (uint32_t)test_draw(&seed, 0, w.graph->nodes - 1),
                                          .len = (uint8_t)test_draw(&seed, 0, 240)});
        for (uint32_t moment = 0; moment < 40; moment++) {
            sim_advance(&w, w.now_ps + test_draw(&seed, 1, 1000000));
            right &= sim_holds(&w);
        }
        right &= sim_drain(&w, FOREVER_PS) && sim_holds(&w);
        for (uint32_t n = 0; n < w.graph->nodes; n++)
            got += w.node[n]->gots;
        right &= got + retries_of(w.fabric).lost == posted;
        if (!right)
            trial_print(&t);
        CU_ASSERT_TRUE_FATAL(right);
        sim_close(&w);
    }
}

/* --- clock raw ---------------------------------------------------------------------- */

#define RAW_POSTS 400u /* by each node */

/* Toggle a random cable while workers run. */
static void raw_flap(struct hostifs *w, bool *down, uint64_t *random)
{
    uint32_t cable = (uint32_t)test_draw(random, 0, fabric_cable_count(w->fabric) - 1);

    if (!fabric_can_fail(w->fabric, cable))
        return;
    fabric_pause(w->fabric);
    down[cable] = !down[cable];
    CU_ASSERT_TRUE(link_set(w->fabric, cable, !down[cable], 0));
    CU_ASSERT_TRUE(fixture_fabric_holds(w->fabric, 0));
    fabric_resume(w->fabric);
}

static void raw_repair(struct hostifs *w, bool *down)
{
    fabric_pause(w->fabric);
    for (uint32_t i = 0; i < fabric_cable_count(w->fabric); i++)
        if (down[i])
            CU_ASSERT_TRUE(link_set(w->fabric, i, true, 0));
    fabric_resume(w->fabric);
}

/* Count the arrivals at all nodes, each once: @seen has a byte per segment. */
static uint32_t raw_drain(struct hostifs *w, uint8_t *seen, uint32_t *wrong)
{
    struct emu_seg seg;
    uint32_t got = 0;

    for (uint32_t n = 0; n < w->nodes; n++)
        for (; hostifs_take(w, n, &seg); got++) {
            uint64_t is;

            memcpy(&is, seg.payload, sizeof is);
            *wrong += seg.hdr.dst != n || is != seg.hdr.seq * UINT64_C(77) + seg.hdr.src ||
                      seen[seg.hdr.src * RAW_POSTS + seg.hdr.seq]++;
        }
    return got;
}

/*
 * All nodes send over faulty cables, and @flaps times a cable goes down or comes back. Returns how
 * many segments arrived.
 */
static uint32_t raw_run(struct hostifs *w, uint32_t flaps, uint64_t *random)
{
    uint8_t *seen = calloc(w->nodes, RAW_POSTS);
    bool *down = calloc(fabric_cable_count(w->fabric), sizeof *down);
    uint32_t all = w->nodes * RAW_POSTS, got = 0, wrong = 0;

    for (uint32_t i = 0; i < all; i++) {
        uint32_t src = i % w->nodes, seq = i / w->nodes;
        uint64_t is = seq * UINT64_C(77) + src;
        struct emu_hdr hdr = {.dst = (uint32_t)test_draw(random, 0, w->nodes - 1),
                              .seq = seq,
                              .len = sizeof is};

        for (uint32_t looks = 0; !hostifs_post(w, src, &hdr, &is); looks++) {
            got += raw_drain(w, seen, &wrong);
            hostifs_pause(looks);
        }
        if (flaps && i % (all / flaps) == 0)
            raw_flap(w, down, random);
    }
    raw_repair(w, down);
    for (uint32_t i = 0; i < HOSTIFS_GIVE_UP && got + retries_of(w->fabric).lost < all; i++) {
        got += raw_drain(w, seen, &wrong);
        hostifs_pause(i);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    fabric_pause(w->fabric);
    CU_ASSERT_TRUE(fixture_fabric_holds(w->fabric, 0));
    fabric_resume(w->fabric);
    got += raw_drain(w, seen, &wrong);
    free(seen);
    free(down);
    return got;
}

static void raw_case(enum emu_link_retry retry, const char *set, uint32_t threads, uint32_t flaps,
                     struct emu_fault_rates rates, uint64_t *random)
{
    struct fabric_config config = {.clock = EMU_CLOCK_RAW,
                                   .threads = threads,
                                   .seed = test_random(random)};
    struct switch_retries is;
    struct hostifs w;
    uint32_t got;

    fixture_profile(&config.profile, "oq2004", set);
    config.profile.link_retry = retry;
    hostifs_open(&w, "kary:2,3", &config);
    fabric_pause(w.fabric);
    fault_all(w.fabric, &rates);
    fabric_resume(w.fabric);
    got = raw_run(&w, flaps, random);
    is = retries_of(w.fabric);
    CU_ASSERT_EQUAL(got + is.lost, w.nodes * RAW_POSTS);
    CU_ASSERT_EQUAL(!is.lost, retry == EMU_LINK_RETRY_GO_BACK_N);
    CU_ASSERT_EQUAL(is.again > 0, retry == EMU_LINK_RETRY_GO_BACK_N);
    hostifs_close(&w);
}

static void raw__nothing_is_lost_with_retry(void)
{
    static const char *const sets[] = {"credit=row", "credit=counter", "buffers=input_xpoint"};
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < TEST_TRIALS(12u); i++)
        raw_case(EMU_LINK_RETRY_GO_BACK_N, sets[i % 3], i % 4 ? i % 4 : FABRIC_THREADS_DEVICE,
                 i % 2 * 40, fixture_faults((uint32_t)test_draw(&random, 2000, 60000)), &random);
}

static void raw__losses_without_retry_are_counted(void)
{
    static const char *const sets[] = {"credit=row", "credit=counter", "buffers=input_xpoint"};
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < TEST_TRIALS(6u); i++)
        raw_case(EMU_LINK_RETRY_NONE, sets[i % 3], 1 + i / 3, i % 2 * 20, fixture_faults(10000),
                 &random);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE_ALONE(retry__costs_no_time_without_faults),
        CASE_ALONE(retry__repairs_faults_with_crosspoint_buffers),
        CASE_ALONE(retry__repairs_faults_with_input_and_crosspoint_buffers),
        CASE_ALONE(retry__repairs_faults_with_input_buffers),
        CASE(retry__does_not_depend_on_workers_or_windows),
        CASE(retry__works_on_long_cables),
        CASE(links__keep_their_segments_while_down),
        CASE(links__down_are_not_chosen),
        CASE(links__keep_the_order),
        CASE(faults__lose_segments_but_no_credits),
        CASE(raw__nothing_is_lost_with_retry),
        CASE(raw__losses_without_retry_are_counted),
        {NULL, NULL},
    };

    return test_run("retry", cases);
}
