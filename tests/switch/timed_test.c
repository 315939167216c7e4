/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed_test.c - switches in simulated time: exact times, fairness, ties, and invariants that hold
 * at every moment, under each buffer policy.
 */
#include <errno.h>

#include "emu/util/combine.h"
#include "switch/input/slots.h"
#include "tests/test.h"
#include "tests/fixtures/switch/trial.h"

#define HOP_PS  110000u /* oq2004: delay of a cable and a switch */
#define WIRE_PS 204800u /* time of a full segment on the wire */

static const char *const policies[] = {"buffers=xpoint", "buffers=input_xpoint", "buffers=input"};
#define POLICIES 3u
#define SLOTTED  2u /* the policy with time slots */

static struct emu_hdr whole_to(uint32_t dst)
{
    return (struct emu_hdr){.kind = EMU_UNICAST, .dst = dst, .len = EMU_PAYLOAD_BYTES};
}

static uint64_t slot_from(uint64_t at_ps)
{
    return (at_ps + WIRE_PS - 1) / WIRE_PS * WIRE_PS;
}

/* --- exact times -------------------------------------------------------------------- */

static void times__a_segment_takes_a_cable_and_a_switch_each_hop(void)
{
    for (uint32_t policy = 0; policy < POLICIES; policy++) {
        uint64_t ready_ps = 1000007, at_ps = ready_ps;
        struct sim w;

        sim_open(&w, "kary:2,2", policies[policy]);
        sim_post(&w, 0, ready_ps, whole_to(3));
        CU_ASSERT_TRUE(sim_drain(&w, 1u << 30));
        for (uint32_t cable = 0; cable < 4; cable++) {
            if (policy == SLOTTED && cable)
                at_ps = slot_from(at_ps);
            at_ps += HOP_PS;
        }
        CU_ASSERT_EQUAL_FATAL(w.node[3]->gots, 1);
        CU_ASSERT_EQUAL(w.node[3]->got[0].at_ps, at_ps);
        CU_ASSERT_TRUE(sim_holds(&w));
        sim_close(&w);
    }
}

static void times__a_wire_carries_one_segment_after_the_other(void)
{
    static const uint8_t lens[] = {0, 8, 240, 100};
    uint64_t at_ps = 500000;
    struct sim w;

    sim_open(&w, "kary:2,1", "buffers=xpoint");
    for (uint32_t i = 0; i < 4; i++)
        sim_post(&w, 0, at_ps, (struct emu_hdr){.dst = 1, .len = lens[i]});
    CU_ASSERT_TRUE(sim_drain(&w, 1u << 30));
    for (uint32_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(w.node[1]->got[i].at_ps, at_ps + 2 * HOP_PS);
        at_ps += (EMU_HDR_BYTES + lens[i]) * UINT64_C(800);
    }
    sim_close(&w);
}

/*
 * One credit per cable: the next segment leaves when it returns, 110 ns after its slot became free.
 */
static void times__a_segment_waits_for_its_credit(void)
{
    static const char *const sets[] = {"xpoint_slots=1", "xpoint_slots=1 credit=counter",
                                       "buffers=input_xpoint input_slots=1 xpoint_slots=4"};

    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct sim w;

        sim_open(&w, "kary:2,1", sets[i]);
        w.node[1]->service_ps = 1000000;
        for (uint32_t n = 0; n < 3; n++)
            sim_post(&w, 0, 0, whole_to(1));
        CU_ASSERT_TRUE(sim_drain(&w, 1u << 30));
        /*
         * The second segment crosses its first cable with the credit that the first one returned
         * when it left. Its second cable's credit returns when the node has taken the first
         * segment.
         */
        CU_ASSERT_EQUAL(w.node[1]->got[0].at_ps, 2 * HOP_PS);
        CU_ASSERT_EQUAL(w.node[1]->got[1].at_ps, 2 * HOP_PS + 1000000 + 2 * HOP_PS);
        CU_ASSERT_EQUAL(w.node[1]->got[2].at_ps, 2 * (2 * HOP_PS + 1000000) + 2 * HOP_PS);
        CU_ASSERT_TRUE(sim_holds(&w));
        sim_close(&w);
    }
}

/* Outputs serve their rows in rotation, whatever the order of arrival. */
static void times__rows_are_served_in_turn(void)
{
    static const uint32_t order[] = {3, 1, 2, 3, 1};
    struct sim w;

    sim_open(&w, "kary:4,1", "buffers=xpoint");
    sim_post(&w, 3, 0, whole_to(0));
    sim_post(&w, 3, 0, whole_to(0));
    sim_post(&w, 2, 1, whole_to(0));
    sim_post(&w, 1, 2, whole_to(0));
    sim_post(&w, 1, 2, whole_to(0));
    CU_ASSERT_TRUE(sim_drain(&w, 1u << 30));
    for (uint32_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(w.node[0]->got[i].hdr.src, order[i]);
        CU_ASSERT_EQUAL(w.node[0]->got[i].at_ps, i * WIRE_PS + 2 * HOP_PS);
    }
    sim_close(&w);
}

/*
 * A unit waits for the whole segment, then takes 16 ns and 4 ns per word for each contribution, one
 * after the other; a leaf's partial result crosses the crossbar to the root.
 */
static void times__a_combine_unit_takes_its_time(void)
{
    static const struct {
        uint32_t units, members;
        uint32_t works; /* operations of a unit, in sequence: 20 ns each */
    } cases[] = {{1, 2, 2}, {1, 4, 4}, {2, 2, 3}, {2, 4, 5}, {5, 2, 3}, {5, 4, 5}, {3, 4, 4}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t group;
        char set[64];
        struct sim w;

        snprintf(set, sizeof set, "combine_units=%u", cases[i].units);
        sim_open(&w, "kary:4,1", set);
        group = fixture_group_of_first(w.fabric, cases[i].members);
        for (uint32_t n = 0; n < cases[i].members; n++)
            sim_post(&w, n, 0,
                     (struct emu_hdr){.kind = EMU_ALLREDUCE,
                                      .dst = group,
                                      .len = 8,
                                      .op = EMU_SUM,
                                      .type = EMU_I64});
        CU_ASSERT_TRUE(sim_drain(&w, 1u << 30));
        for (uint32_t n = 0; n < cases[i].members; n++) {
            CU_ASSERT_EQUAL_FATAL(w.node[n]->gots, 1);
            CU_ASSERT_EQUAL(w.node[n]->got[0].at_ps,
                            HOP_PS + 24 * 800 + cases[i].works * 20000 + HOP_PS);
        }
        CU_ASSERT_TRUE(sim_holds(&w));
        sim_close(&w);
    }
}

/* --- fairness ----------------------------------------------------------------------- */

/*
 * Saturated outputs with simultaneous arrivals: each of k inputs with segments for one output is
 * served once in every k service times (of the wire, or of the credit's round trip with a single
 * credit), so none is ever more than one ahead of another.
 */
static void fairness__inputs_of_an_output_alternate(void)
{
    static const char *const slots[] = {"", " xpoint_slots=1 input_slots=2"};

    for (uint32_t i = 0; i < POLICIES * 2 * 6; i++) {
        uint32_t inputs = 2 + i / (2 * POLICIES), each = 40, count[8] = {0};
        uint64_t last_ps[8] = {0}, longest_ps = 0;
        char set[80];
        struct sim w;

        snprintf(set, sizeof set, "%s%s", policies[i % POLICIES], slots[i / POLICIES % 2]);
        sim_open(&w, "kary:8,1", set);
        for (uint32_t n = 1; n <= inputs; n++)
            for (uint32_t s = 0; s < each; s++)
                sim_post(&w, n, 0, whole_to(0));
        CU_ASSERT_TRUE(sim_drain(&w, 1u << 30));
        CU_ASSERT_EQUAL_FATAL(w.node[0]->gots, inputs * each);
        for (uint32_t s = 0; s < inputs * each; s++) {
            const struct sim_got *got = &w.node[0]->got[s];
            uint32_t n = got->hdr.src;

            if (count[n]++ && got->at_ps - last_ps[n] > longest_ps)
                longest_ps = got->at_ps - last_ps[n];
            last_ps[n] = got->at_ps;
            for (uint32_t other = 1; other <= inputs; other++)
                CU_ASSERT_TRUE(count[n] <= count[other] + 1);
        }
        CU_ASSERT_EQUAL(longest_ps,
                        inputs * (emu_profile_credits(&w.profile) > 1 ? WIRE_PS : 2 * HOP_PS));
        sim_close(&w);
    }
}

/*
 * Segments that arrive at the same time choose in a random order: with policy first_free the first
 * one gets the lowest port up. Three of four ports compete; the tolerance is 5 standard deviations.
 */
static void fairness__first_choice_is_random(void)
{
    const uint32_t rounds = 900;

    for (uint32_t policy = 0; policy < POLICIES; policy++) {
        struct switch_dev *top;
        char set[64];
        struct sim w;

        snprintf(set, sizeof set, "%s choice=first_free", policies[policy]);
        sim_open(&w, "kary:4,2", set);
        for (uint32_t n = 0; n < 3; n++)
            for (uint32_t i = 0; i < rounds; i++)
                sim_post(&w, n, i * UINT64_C(2) * WIRE_PS, whole_to(4 * (n + 1)));
        CU_ASSERT_TRUE(sim_drain(&w, UINT64_C(1) << 40));
        top = w.fabric->sw[w.graph->sw[0].end[4].id];
        for (uint32_t n = 0; n < 3; n++) { /* port n + 1 leads to node n's destination */
            uint64_t first =
                emu_count_read(&switch_crossbar_of(top)->out[n + 1].tx.counts.segments);

            CU_ASSERT_TRUE(first > rounds / 3 - 71 && first < rounds / 3 + 71);
        }
        sim_close(&w);
    }
}

/*
 * Eight nodes of two switches saturate one node of a third switch through whichever port up is
 * free. No source gets ahead of another by more than the credits of its cable, and none waits
 * longer than one round of all sources on each of the four ports up.
 */
static void fairness__sources_behind_adaptive_routes_get_equal_shares(void)
{
    const uint32_t each = 200, sources = 8;

    for (uint32_t policy = 0; policy < POLICIES; policy++) {
        uint64_t last_ps[8] = {0}, longest_ps = 0;
        uint32_t count[8] = {0}, ahead = 0;
        struct sim w;

        sim_open(&w, "kary:4,2", policies[policy]);
        for (uint32_t n = 0; n < sources; n++)
            for (uint32_t s = 0; s < each; s++)
                sim_post(&w, n, 0, whole_to(8));
        CU_ASSERT_TRUE(sim_drain(&w, UINT64_C(1) << 40));
        /* near the end some sources have finished */
        for (uint32_t s = 0; s < sources * (each - 16); s++) {
            const struct sim_got *got = &w.node[8]->got[s];
            uint32_t src = got->hdr.src;

            if (count[src]++ && got->at_ps - last_ps[src] > longest_ps)
                longest_ps = got->at_ps - last_ps[src];
            last_ps[src] = got->at_ps;
            for (uint32_t n = 0; n < sources; n++)
                if (count[src] > count[n] + ahead)
                    ahead = count[src] - count[n];
        }
        CU_ASSERT_TRUE(ahead <= emu_profile_credits(&w.profile));
        CU_ASSERT_TRUE(longest_ps <= 4 * sources * WIRE_PS);
        sim_close(&w);
    }
}

/* --- windows ------------------------------------------------------------------------ */

/* Results by which two runs are compared. */
struct outcome {
    uint64_t digest;
    struct fabric_totals totals;
};

/* How the driver cuts time into windows: one window, one per event, random, or tiny. */
enum cut { CUT_ONCE, CUT_EVENTS, CUT_RANDOM, CUT_TINY, CUTS };

static uint64_t cut_next(enum cut cut, struct sim *w, uint64_t *random)
{
    switch (cut) {
    case CUT_EVENTS:
        return fabric_next_ps(w->fabric);
    case CUT_RANDOM:
        return w->now_ps + test_draw(random, 1, 3000000);
    case CUT_TINY:
        return fabric_next_ps(w->fabric) + test_draw(random, 0, 30000);
    default:
        return UINT64_C(1) << 40;
    }
}

static struct outcome outcome_of(struct trial t, uint32_t workers, enum cut cut)
{
    uint64_t random = t.seed ^ cut;
    struct outcome outcome;
    struct sim w;

    trial_open(&t, &w, workers);
    sim_advance(&w, 0);
    while (!fabric_idle(w.fabric) && w.now_ps < UINT64_C(1) << 40)
        sim_advance(&w, cut_next(cut, &w, &random));
    CU_ASSERT_TRUE(trial_arrived(&t, &w));
    outcome.digest = sim_digest(&w);
    fabric_totals_read(w.fabric, &outcome.totals);
    outcome.totals.worst_lag_ns = 0; /* not meaningful on clock virtual */
    sim_close(&w);
    return outcome;
}

static void windows__do_not_change_results(void)
{
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < TEST_TRIALS(4u) * POLICIES; i++) {
        struct trial t = trial_draw(test_random(&seed), (enum emu_buffers)(i % POLICIES));
        struct outcome once = outcome_of(t, 1, CUT_ONCE);

        for (uint32_t workers = 1; workers <= 3; workers++)
            for (enum cut cut = CUT_EVENTS; cut < CUTS; cut++) {
                struct outcome other = outcome_of(t, workers, cut);

                if (once.digest == other.digest &&
                    !memcmp(&once.totals, &other.totals, sizeof once.totals))
                    continue;
                trial_print(&t);
                printf("cut %d, %u workers: digest %d hops %d stalls %llu %llu\n", cut, workers,
                       once.digest == other.digest, once.totals.hops == other.totals.hops,
                       (unsigned long long)once.totals.credit_stalls,
                       (unsigned long long)other.totals.credit_stalls);
                CU_FAIL("a run depends on how time was cut");
            }
    }
}

/* --- conservation ------------------------------------------------------------------- */

/* Checked at random moments; at the end nothing is left: no deadlock, no loss. */
static void conserve(enum emu_buffers buffers)
{
    uint64_t seed = test_seed() + buffers;

    for (uint32_t i = 0; i < TEST_ALONE(40u); i++) {
        struct trial t = trial_draw(test_random(&seed), buffers);
        uint64_t random = t.seed;
        bool right = true;
        struct sim w;

        trial_open(&t, &w, 1);
        for (uint32_t moment = 0; moment < 40; moment++) {
            sim_advance(&w, w.now_ps + test_draw(&random, 1, 1000000));
            right &= sim_holds(&w);
        }
        right &= sim_drain(&w, UINT64_C(1) << 40);
        right &= sim_holds(&w) && trial_arrived(&t, &w);
        if (!right)
            trial_print(&t);
        CU_ASSERT_TRUE(right);
        sim_close(&w);
    }
}

static void conservation__holds_with_crosspoint_buffers(void)
{
    conserve(EMU_BUFFERS_XPOINT);
}

static void conservation__holds_with_input_and_crosspoint_buffers(void)
{
    conserve(EMU_BUFFERS_INPUT_XPOINT);
}

static void conservation__holds_with_input_buffers(void)
{
    conserve(EMU_BUFFERS_INPUT);
}

/* --- reductions and barriers -------------------------------------------------------- */

/* Payloads of all results of a trial, in the order of nodes and operations. */
static uint64_t results_digest(const struct trial *t, const struct sim *w)
{
    uint64_t digest = 0;

    for (uint32_t n = 0; n < w->graph->nodes; n++)
        for (uint32_t op = 0; op < t->ops; op++)
            for (uint32_t i = 0; i < w->node[n]->gots; i++) {
                const struct sim_got *got = &w->node[n]->got[i];

                if (got->hdr.kind < EMU_REDUCE || got->hdr.seq != op)
                    continue;
                for (uint32_t b = 0; b < got->hdr.len; b++)
                    digest = fixture_digest(digest, got->payload[b]);
            }
    return digest;
}

/*
 * Rounded sums: with combining in port order the bits do not depend on the order of arrival;
 * otherwise they do.
 */
static void reduction__port_order_gives_the_same_bits(void)
{
    static const uint32_t units[] = {1, 2, 5};
    uint32_t differ = 0;

    for (uint32_t i = 0; i < 12; i++) {
        uint64_t digest[2][2];

        for (uint32_t run = 0; run < 4; run++) {
            enum emu_combine_order order = (enum emu_combine_order)(run / 2);
            struct trial t = {.seed = test_seed() + i, .spread = test_seed() * 7 + i + run % 2};
            struct sim w;

            t.spec = i % 2 ? "kary:4,2" : "kary:8,1";
            fixture_profile(&t.profile, "oq2004",
                            i % 4 < 2 ? "" : "buffers=input_xpoint xpoint_slots=1");
            t.profile.combine_units = units[i % 3];
            t.profile.combine_order = order;
            t.posts = 20;
            t.ops = 40;
            t.grid_ps = 1;
            t.type = EMU_F64;
            trial_open(&t, &w, 1);
            CU_ASSERT_TRUE(sim_drain(&w, UINT64_C(1) << 40));
            CU_ASSERT_TRUE(trial_arrived(&t, &w) && sim_holds(&w));
            digest[order][run % 2] = results_digest(&t, &w);
            sim_close(&w);
        }
        CU_ASSERT_EQUAL(digest[EMU_COMBINE_PORT][0], digest[EMU_COMBINE_PORT][1]);
        differ += digest[EMU_COMBINE_ARRIVAL][0] != digest[EMU_COMBINE_ARRIVAL][1];
    }
    CU_ASSERT_TRUE(differ > 0); /* else the chosen numbers prove nothing */
}

static void barrier__releases_no_member_before_the_last(void)
{
    static const uint32_t units[] = {1, 2, 5};
    uint64_t random = test_seed();

    for (uint32_t i = 0; i < 12; i++) {
        uint64_t last_ps = 0;
        uint32_t group;
        char set[64];
        struct sim w;

        snprintf(set, sizeof set, "%s combine_units=%u", policies[i % 2], units[i % 3]);
        sim_open(&w, "kary:4,2", set);
        group = fixture_group_of_first(w.fabric, 16);
        for (uint32_t n = 0; n < 16; n++) {
            uint64_t ready_ps = test_draw(&random, 0, 5000000);

            last_ps = ready_ps > last_ps ? ready_ps : last_ps;
            sim_post(&w, n, ready_ps, (struct emu_hdr){.kind = EMU_BARRIER, .dst = group});
        }
        CU_ASSERT_TRUE(sim_drain(&w, UINT64_C(1) << 40));
        for (uint32_t n = 0; n < 16; n++) {
            CU_ASSERT_EQUAL_FATAL(w.node[n]->gots, 1);
            CU_ASSERT_TRUE(w.node[n]->got[0].at_ps >= last_ps + 4 * HOP_PS);
        }
        sim_close(&w);
    }
}

/* --- buffer policies ---------------------------------------------------------------- */

/* Is this fabric refused with an error line that contains @why? */
static bool refused(const char *spec, const char *set, enum emu_clock_mode clock, const char *why)
{
    struct fabric_config config = {.clock = clock, .threads = 1, .start_stopped = true};
    struct fabric *fabric = NULL;
    struct topo_graph *graph;
    char error[256] = "";

    config.graph = graph = fixture_graph(spec, UINT32_MAX);
    fixture_profile(&config.profile, "oq2004", set);
    if (!fabric_start(&fabric, &config, error, sizeof error))
        fabric_stop(fabric);
    topo_free(graph);
    return !fabric && strstr(error, why);
}

static void policies__report_unsupported_configurations(void)
{
    uint32_t nodes[] = {0, 1}, group;
    char error[256] = "";
    struct sim w;

    CU_ASSERT_TRUE(refused("kary:2,2", "buffers=input", EMU_CLOCK_RAW, "time slots"));
    CU_ASSERT_TRUE(refused("kary:2,2", "buffers=input input_slots=65", EMU_CLOCK_REAL, "1 to 64"));
    CU_ASSERT_TRUE(
        refused("kary:2,2", "buffers=input_xpoint input_slots=65", EMU_CLOCK_RAW, "1 to 64"));
    CU_ASSERT_FALSE(refused("kary:2,2", "buffers=input_xpoint input_slots=16", EMU_CLOCK_RAW, ""));
    CU_ASSERT_TRUE(refused("kary:30,2", "combine_units=5", EMU_CLOCK_RAW, "64 ports and units"));
    CU_ASSERT_FALSE(refused("kary:30,2", "combine_units=3", EMU_CLOCK_RAW, ""));
    sim_open(&w, "kary:2,1", "buffers=input");
    CU_ASSERT_EQUAL(fabric_group_create(w.fabric, nodes, 2, &group, error, sizeof error), -ENOTSUP);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "no combine units"));
    CU_ASSERT_EQUAL(fabric_multicast_create(w.fabric, nodes, 2, 2, &group, error, sizeof error), 0);
    sim_close(&w);
}

/*
 * Node 1 takes nothing for a long time. Its segments fill all credits of its cable and a crosspoint
 * of one slot. The next one stays at the head of the input queue and blocks the segment behind it,
 * whose own output is free. With crosspoint buffers only, that segment passes.
 */
static void input_xpoint__a_blocked_head_blocks_the_queue(void)
{
    static const char *const sets[] = {"xpoint_slots=4",
                                       "buffers=input_xpoint xpoint_slots=1 input_slots=4"};

    for (uint32_t i = 0; i < 2; i++) {
        struct sim w;

        sim_open(&w, "kary:4,1", sets[i]);
        w.node[1]->service_ps = 100000000;
        for (uint32_t s = 0; s < 4 + 1 + 1; s++)
            sim_post(&w, 0, 0, whole_to(1));
        sim_post(&w, 0, 0, whole_to(2));
        sim_advance(&w, 90000000);
        CU_ASSERT_EQUAL(w.node[2]->gots, i ? 0 : 1);
        CU_ASSERT_TRUE(sim_holds(&w));
        CU_ASSERT_TRUE(sim_drain(&w, UINT64_C(1) << 40));
        CU_ASSERT_EQUAL(w.node[2]->gots, 1);
        CU_ASSERT_EQUAL(w.node[1]->gots, 6);
        sim_close(&w);
    }
}

/* Each copy of a multicast leaves when it can; its buffer slot is freed with the last copy. */
static void input_buffers__copies_leave_apart_and_the_slot_with_the_last(void)
{
    for (uint32_t policy = 1; policy < POLICIES; policy++) {
        uint32_t nodes[] = {0, 1, 2, 3}, group;
        char set[80], error[256];
        struct sim w;

        snprintf(set, sizeof set, "%s xpoint_slots=1 input_slots=2", policies[policy]);
        sim_open(&w, "kary:4,1", set);
        CU_ASSERT_EQUAL_FATAL(fabric_multicast_create(w.fabric, nodes, 4, 4, &group, error,
                                                      sizeof error),
                              0);
        w.node[1]->service_ps = 100000000;
        for (uint32_t s = 0; s < 2 + 1; s++) /* the cable and its crosspoint from node 3 are full */
            sim_post(&w, 3, 0, whole_to(1));
        for (uint32_t s = 0; s < 4; s++)
            sim_post(&w, 0, 2000000, (struct emu_hdr){.kind = EMU_MULTICAST, .dst = group});
        sim_advance(&w, 90000000);
        /*
         * xpoint: one segment is at the crosspoints, the next waits at the head of the queue;
         * input: the first waits there. Their copies to other nodes have left, and the segments
         * behind them have not moved.
         */
        CU_ASSERT_EQUAL(w.node[2]->gots, policy == SLOTTED ? 1 : 2);
        CU_ASSERT_EQUAL(w.node[3]->gots, policy == SLOTTED ? 1 : 2);
        CU_ASSERT_EQUAL(w.node[0]->tx.credits, 0);
        CU_ASSERT_TRUE(sim_holds(&w));
        CU_ASSERT_TRUE(sim_drain(&w, UINT64_C(1) << 40));
        CU_ASSERT_EQUAL(w.node[2]->gots, 4);
        CU_ASSERT_EQUAL(w.node[1]->gots, 3 + 4);
        CU_ASSERT_TRUE(sim_holds(&w));
        sim_close(&w);
    }
}

/*
 * The arbiter's multicasts: with 8 inputs that always have multicasts, and outputs that always have
 * credits, none is at the head of its queue for more than 8 + 8 - 1 slots.
 */
static void input__no_multicast_waits_long_at_the_head(void)
{
    uint64_t random = test_seed(), longest = 0;
    struct switch_slots *sw;
    struct sim w;

    sim_open(&w, "kary:8,1", "buffers=input");
    sw = switch_slots_of(w.fabric->sw[0]);
    for (uint32_t i = 0; i < 8 * 40; i++) {
        uint32_t nodes[8] = {i % 8}, members = 1, group;

        for (uint32_t n = 0; n < 8; n++)
            if (n != i % 8 && (test_draw(&random, 0, 1) || (members == 1 && n >= 6)))
                nodes[members++] = n;
        group = fixture_multicast(w.fabric, nodes, members);
        for (uint32_t s = 0; s < 2; s++)
            sim_post(&w, i % 8, 0,
                     (struct emu_hdr){.kind = EMU_MULTICAST,
                                      .dst = group,
                                      .len = EMU_PAYLOAD_BYTES});
    }
    for (uint64_t slot = 1; slot < 200; slot++) {
        sim_advance(&w, slot * WIRE_PS);
        for (uint32_t r = 0; r < 8; r++)
            if (sw->in.fifo[r].queued && sw->arbiter[r].head_slot <= slot &&
                slot - sw->arbiter[r].head_slot + 1 > longest)
                longest = slot - sw->arbiter[r].head_slot + 1;
    }
    CU_ASSERT_TRUE(longest > 1 && longest < 8 + 8);
    CU_ASSERT_TRUE(sim_drain(&w, UINT64_C(1) << 40));
    CU_ASSERT_TRUE(sim_holds(&w));
    sim_close(&w);
}

/*
 * Virtual output queues with iSLIP have no head-of-line blocking: uniform traffic fills the wires.
 */
static void input__uniform_unicasts_fill_the_wires(void)
{
    const uint32_t each = 400;
    uint64_t random = test_seed(), end_ps = 0;
    struct sim w;

    sim_open(&w, "kary:8,1", "buffers=input input_slots=200");
    /* one permutation after the other: every wire has the same load */
    for (uint32_t s = 0; s < each; s++)
        for (uint32_t n = 0, turn = test_draw(&random, 0, 7); n < 8; n++)
            sim_post(&w, n, 0, whole_to((n + turn) % 8));
    CU_ASSERT_TRUE(sim_drain(&w, UINT64_C(1) << 40));
    for (uint32_t n = 0; n < 8; n++) {
        const struct sim_got *last = &w.node[n]->got[each - 1];

        end_ps = last->at_ps > end_ps ? last->at_ps : end_ps;
    }
    CU_ASSERT_TRUE(end_ps < (each + each / 10) * WIRE_PS);
    sim_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"times__a_segment_takes_a_cable_and_a_switch_each_hop",
         times__a_segment_takes_a_cable_and_a_switch_each_hop},
        {"times__a_wire_carries_one_segment_after_the_other",
         times__a_wire_carries_one_segment_after_the_other},
        {"times__a_segment_waits_for_its_credit", times__a_segment_waits_for_its_credit},
        {"times__rows_are_served_in_turn", times__rows_are_served_in_turn},
        {"times__a_combine_unit_takes_its_time", times__a_combine_unit_takes_its_time},
        {"fairness__inputs_of_an_output_alternate", fairness__inputs_of_an_output_alternate},
        {"fairness__first_choice_is_random", fairness__first_choice_is_random},
        {"fairness__sources_behind_adaptive_routes_get_equal_shares",
         fairness__sources_behind_adaptive_routes_get_equal_shares},
        {"windows__do_not_change_results", windows__do_not_change_results},
        {"conservation__holds_with_crosspoint_buffers",
         conservation__holds_with_crosspoint_buffers},
        {"conservation__holds_with_input_and_crosspoint_buffers",
         conservation__holds_with_input_and_crosspoint_buffers},
        {"conservation__holds_with_input_buffers", conservation__holds_with_input_buffers},
        {"reduction__port_order_gives_the_same_bits", reduction__port_order_gives_the_same_bits},
        {"barrier__releases_no_member_before_the_last",
         barrier__releases_no_member_before_the_last},
        {"policies__report_unsupported_configurations",
         policies__report_unsupported_configurations},
        {"input_xpoint__a_blocked_head_blocks_the_queue",
         input_xpoint__a_blocked_head_blocks_the_queue},
        {"input_buffers__copies_leave_apart_and_the_slot_with_the_last",
         input_buffers__copies_leave_apart_and_the_slot_with_the_last},
        {"input__no_multicast_waits_long_at_the_head", input__no_multicast_waits_long_at_the_head},
        {"input__uniform_unicasts_fill_the_wires", input__uniform_unicasts_fill_the_wires},
        {NULL, NULL},
    };

    return test_run("timed", cases);
}
