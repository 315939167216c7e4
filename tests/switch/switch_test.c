/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch_test.c - credits, choice and order inside switches, one pass at a time.
 */
#include <string.h>

#include "switch/crosspoint/counter.h"
#include "switch/input/fifo.h"
#include "switch/input/slots.h"
#include "switch/policy/policy.h"
#include "tests/test.h"
#include "tests/fixtures/switch/bench.h"

/* --- credit conservation ------------------------------------------------------------ */

/* Plain counter policy: segments that row @r holds, copies of one counted once. */
static uint32_t copies_taken(struct switch_dev *sw, uint32_t r)
{
    const struct switch_crossbar *bar = switch_crossbar_of(sw);
    const struct switch_copies *copies = switch_copies_of(sw);
    uint32_t taken = 0;

    for (uint32_t o = 0; o < bar->rows; o++) {
        uint32_t slot = switch_xpoint(bar, r, o)->first;

        for (uint32_t left = *switch_count(bar, r, o); left; left--, slot = bar->store.next[slot])
            taken += !copies->of[slot];
    }
    for (uint32_t i = 0; i < EMU_XPOINT_MAX; i++)
        taken += copies->left[r][i] != 0;
    return taken;
}

/* Slots of row @r in use, as the credit policy counts them. */
static uint32_t row_taken(struct switch_dev *sw, uint32_t r)
{
    const struct switch_crossbar *bar = switch_crossbar_of(sw);
    uint32_t fullest = 0;

    if (sw->kind == &switch_fifo_kind)
        return switch_fifos_of(sw)->in.fifo[r].queued;
    if (sw->kind == &switch_counter_kind)
        return copies_taken(sw, r);
    for (uint32_t o = 0; o < bar->rows; o++)
        fullest = *switch_count(bar, r, o) > fullest ? *switch_count(bar, r, o) : fullest;
    return fullest;
}

/*
 * Between passes, every credit of a link is at its sender, on the wire, in a row, or being
 * returned.
 */
static uint32_t credits_of(const struct emu_tx *tx, struct switch_dev *to, uint32_t port)
{
    const struct emu_rx *rx = switch_rx(to, port);

    return (uint32_t)emu_link_credits(rx) + (tx->data.at - rx->data.at) + row_taken(to, port) +
           rx->owed;
}

static uint32_t leaking_links(struct bench *b, uint32_t slots)
{
    uint32_t leaks = 0;

    for (uint32_t n = 0; n < b->graph->nodes; n++) {
        const struct topo_link *at = &b->graph->node[n].link[0];

        leaks += credits_of(&b->probe[n]->tx, b->fabric->sw[at->sw], at->port) != slots;
    }
    for (uint32_t s = 0; s < b->graph->switches; s++)
        for (uint32_t p = 0; p < b->graph->ports; p++) {
            const struct topo_end *end = &b->graph->sw[s].end[p];

            if (end->kind == TOPO_END_SWITCH)
                leaks += credits_of(switch_tx(b->fabric->sw[s], p), b->fabric->sw[end->id],
                                    end->port) != slots;
        }
    return leaks;
}

static uint64_t all_sent(const struct bench *b)
{
    uint64_t sum = 0;

    for (uint32_t n = 0; n < b->graph->nodes; n++)
        sum += b->probe[n]->sent;
    return sum;
}

static uint64_t all_got(const struct bench *b)
{
    uint64_t sum = 0;

    for (uint32_t n = 0; n < b->graph->nodes; n++)
        sum += b->probe[n]->got;
    return sum;
}

/* Random unicasts and multicasts under load; checks every link after every pass. */
static void conserve(const char *spec, const struct emu_profile *profile)
{
    uint32_t slots = profile->raw_xpoint_slots;
    struct bench b;
    uint64_t random = test_seed() ^ slots;
    uint32_t leaks = 0, group, cast = 0;

    bench_start(&b, spec, profile);
    group = fixture_group_of_first(b.fabric, b.graph->nodes);
    for (uint32_t pass = 0; pass < 1500; pass++) {
        b.probe[0]->deaf = pass % 300 > 200; /* the network backs up from time to time */
        for (uint32_t i = 0; i < b.graph->nodes; i++) {
            uint32_t src = (uint32_t)(test_random(&random) % b.graph->nodes);
            bool many = test_random(&random) % 16 == 0;
            struct emu_hdr hdr = {.kind = many ? EMU_MULTICAST : EMU_UNICAST,
                                  .dst = many ? group
                                              : (uint32_t)(test_random(&random) % b.graph->nodes)};

            if (probe_send(&b, src, &hdr))
                cast += many;
        }
        emu_worker_pass(b.worker);
        leaks += leaking_links(&b, slots);
    }
    b.probe[0]->deaf = false;
    emu_dev_again(&b.probe[0]->dev);
    for (uint32_t pass = 0; pass < 5000 && !emu_worker_quiet(b.worker); pass++)
        emu_worker_pass(b.worker);
    CU_ASSERT_EQUAL(leaks, 0);
    CU_ASSERT_EQUAL(leaking_links(&b, slots), 0);
    CU_ASSERT_TRUE(cast > 0);
    CU_ASSERT_EQUAL(all_got(&b), all_sent(&b) - cast + (uint64_t)cast * (b.graph->nodes - 1));
    bench_close(&b);
}

static void conserve_credits(const char *spec, enum emu_credit_policy credit, uint32_t slots)
{
    struct emu_profile profile = bench_profile(credit, slots);

    conserve(spec, &profile);
}

static void credits__are_conserved_by_the_row_guarantee(void)
{
    conserve_credits("kary:4,2", EMU_CREDIT_ROW, 4);
    conserve_credits("kary:2,3", EMU_CREDIT_ROW, 2);
    conserve_credits("kary:8,1", EMU_CREDIT_ROW, 16);
    conserve_credits("kary:4,2", EMU_CREDIT_ROW, 64);
}

static void credits__are_conserved_by_the_plain_counter(void)
{
    conserve_credits("kary:4,2", EMU_CREDIT_COUNTER, 4);
    conserve_credits("kary:2,3", EMU_CREDIT_COUNTER, 2);
}

/* Input queues with crosspoints of one or two slots: all traffic passes, multicasts included. */
static void credits__are_conserved_by_input_buffers(void)
{
    static const struct {
        const char *spec;
        uint32_t slots, xpoint_slots;
    } cases[] = {{"kary:4,2", 8, 1}, {"kary:2,3", 2, 2}, {"kary:8,1", 16, 1}, {"kary:2,3", 1, 1}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct emu_profile profile = bench_profile(EMU_CREDIT_ROW, cases[i].slots);

        profile.buffers = EMU_BUFFERS_INPUT_XPOINT;
        profile.xpoint_slots = cases[i].xpoint_slots;
        conserve(cases[i].spec, &profile);
    }
}

/* The purpose of the row guarantee: one blocked output does not use up the whole link's credits. */
static void credits__row_guarantee_protects_other_outputs(void)
{
    struct bench b;
    struct emu_hdr hdr = {.dst = 1};

    bench_open(&b, "kary:4,1", EMU_CREDIT_ROW, 4);
    b.probe[1]->deaf = true;
    for (uint32_t i = 0; i < 6; i++) {
        /* 4 fill the wire to the blocked node, 2 wait at the crosspoint */
        CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
        emu_worker_pass(b.worker);
    }
    for (uint32_t i = 0; i < 100; i++) {
        hdr.dst = 2 + i % 2;
        CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
        emu_worker_pass(b.worker);
        emu_worker_pass(b.worker);
    }
    CU_ASSERT_EQUAL(b.probe[2]->got + b.probe[3]->got, 100);
    CU_ASSERT_EQUAL(b.probe[1]->got, 0);
    b.probe[1]->deaf = false;
    emu_dev_again(&b.probe[1]->dev);
    for (uint32_t i = 0; i < 10; i++)
        emu_worker_pass(b.worker);
    CU_ASSERT_EQUAL(b.probe[1]->got, 6);
    bench_close(&b);
}

/*
 * On clock real: node @n posts a segment for node 1 now, and the switch takes it. Returns the time
 * of the post.
 */
static uint64_t post_now(struct bench *b, uint32_t n)
{
    struct emu_entry entry = {.hdr = {.dst = 1}, .buf = EMU_NO_BUF};

    CU_ASSERT_TRUE_FATAL(probe_has_credit(b, n));
    entry.time_ps = emu_clock_now(&b->fabric->clock);
    probe_put(b, n, &entry);
    emu_worker_pass(b->worker);
    return entry.time_ps;
}

/* Outputs that have a segment and await a credit. */
static uint64_t stalled_of(struct switch_dev *sw)
{
    return sw->kind == &switch_slots_kind
               ? switch_slots_of(sw)->stalled
               : switch_timing_of(switch_crosspoints_of(sw))->agenda.stalled;
}

/*
 * Clock real: a worker that was off its core returns a credit with an old time. A segment that
 * arrived after that time must not leave before its own arrival.
 */
static void credits__late_ones_send_nothing_early(void)
{
    static const char *const sets[] = {"buffers=xpoint", "buffers=input_xpoint", "buffers=input"};

    for (uint32_t i = 0; i < 3; i++) {
        struct emu_profile profile = bench_profile(EMU_CREDIT_ROW, 4);
        uint64_t first_ps, second_ps;
        char error[256];
        struct bench b;

        CU_ASSERT_EQUAL_FATAL(emu_profile_set(&profile, sets[i], error, sizeof error), 0);
        profile.xpoint_slots = 4;
        bench_start_on(&b, EMU_CLOCK_REAL, "kary:4,1", &profile);
        b.probe[1]->deaf = true;
        for (uint32_t k = 0; k < 4 || !stalled_of(b.fabric->sw[0]); k++)
            first_ps = post_now(&b, 0);
        second_ps = post_now(&b, 2); /* much later than the credits' time */
        CU_ASSERT_TRUE(second_ps > first_ps);
        b.probe[1]->rx.owed = 2;
        emu_rx_pay(&b.probe[1]->rx, b.probe[1]->rx.owner, first_ps + 1);
        emu_worker_pass(b.worker);
        b.probe[1]->deaf = false;
        for (uint32_t k = 0; k < 1000 && !b.probe[1]->got_from[2]; k++) {
            emu_dev_again(&b.probe[1]->dev);
            emu_worker_pass(b.worker);
        }
        CU_ASSERT_EQUAL_FATAL(b.probe[1]->got_from[2], 1);
        CU_ASSERT_TRUE(b.probe[1]->last_ps[2] >= second_ps + profile.channel_ps);
        bench_close(&b);
    }
}

/*
 * Under the plain counter a multicast with one stuck copy keeps its credit until that copy has
 * left.
 */
static void credits__multicast_is_paid_after_the_last_copy(void)
{
    struct bench b;
    struct emu_hdr hdr = {.kind = EMU_MULTICAST};
    struct emu_hdr fill = {.dst = 1};

    bench_open(&b, "kary:4,1", EMU_CREDIT_COUNTER, 2);
    hdr.dst = fixture_group_of_first(b.fabric, 4);
    b.probe[1]->deaf = true;
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT_TRUE(probe_send(&b, 2, &fill)); /* the blocked node's wire is full */
        emu_worker_pass(b.worker);
    }
    CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
    CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
    for (uint32_t i = 0; i < 5; i++)
        emu_worker_pass(b.worker);
    CU_ASSERT_EQUAL(b.probe[2]->got, 2);
    CU_ASSERT_EQUAL(b.probe[3]->got, 2);
    CU_ASSERT_FALSE(probe_send(&b, 0, &hdr)); /* no credit: the copies to node 1 have not left */
    b.probe[1]->deaf = false;
    emu_dev_again(&b.probe[1]->dev);
    for (uint32_t i = 0; i < 5; i++)
        emu_worker_pass(b.worker);
    CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
    bench_close(&b);
}

/* --- arbitration and choice --------------------------------------------------------- */

/* Under symmetric load on one output, all inputs get the same service. */
static void arbitration__serves_all_inputs_alike(void)
{
    struct bench b;
    struct emu_hdr hdr = {.dst = 0};
    uint32_t least = UINT32_MAX, most = 0;

    bench_open(&b, "kary:8,1", EMU_CREDIT_ROW, 4);
    for (uint32_t pass = 0; pass < 2000; pass++) {
        for (uint32_t src = 1; src < 8; src++)
            while (probe_send(&b, src, &hdr))
                ;
        emu_worker_pass(b.worker);
    }
    for (uint32_t src = 1; src < 8; src++) {
        uint32_t got = b.probe[0]->got_from[src];

        least = got < least ? got : least;
        most = got > most ? got : most;
    }
    CU_ASSERT_TRUE(least > 0);
    CU_ASSERT_TRUE(most - least <= 16); /* the capacity of rows and wires */
    CU_ASSERT_EQUAL(b.probe[0]->out_of_order, 0);
    bench_close(&b);
}

/* Rows share the available slots; a row that does not need its share leaves it to the others. */
static void arbitration__shares_the_free_slots(void)
{
    static const uint32_t sent[4] = {0, 12, 12, 2};
    static const uint8_t left[4] = {0, 9, 9, 0}; /* of 8 slots: 3 each, and both of the third */
    struct emu_hdr hdr = {.dst = 0};
    struct switch_crossbar *bar;
    struct bench b;

    bench_open(&b, "kary:4,1", EMU_CREDIT_ROW, 16);
    bar = switch_crossbar_of(b.fabric->sw[0]);
    bar->out[0].tx.credits = 0;
    for (uint32_t src = 1; src < 4; src++)
        for (uint32_t i = 0; i < sent[src]; i++)
            CU_ASSERT_TRUE(probe_send(&b, src, &hdr));
    emu_worker_pass(b.worker);
    emu_worker_pass(b.worker);
    CU_ASSERT_EQUAL(bar->out[0].queued, 26);
    bar->out[0].tx.credits = 8;
    bar->runnable |= emu_bit(0);
    emu_dev_again(&bar->sw.dev);
    emu_worker_pass(b.worker);
    CU_ASSERT_EQUAL(bar->out[0].queued, 18);
    for (uint32_t src = 1; src < 4; src++)
        CU_ASSERT_EQUAL(*switch_count(bar, src, 0), left[src]);
    CU_ASSERT_EQUAL(bar->out[0].waiting, emu_bit(1) | emu_bit(2));
    bench_close(&b);
}

/* The port up is chosen per packet: the traffic of one pair uses every port up. */
static void choice__spreads_one_pair_over_all_up_ports(void)
{
    static const enum emu_choice choices[] = {EMU_CHOICE_NEXT_FREE, EMU_CHOICE_RANDOM};

    for (size_t c = 0; c < sizeof choices / sizeof choices[0]; c++) {
        struct emu_profile profile = bench_profile(EMU_CREDIT_ROW, 4);
        struct emu_hdr hdr = {.dst = 15};
        struct bench b;

        profile.choice = choices[c];
        bench_start(&b, "kary:4,2", &profile);
        for (uint32_t i = 0; i < 400; i++) {
            CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
            for (uint32_t p = 0; p < 6; p++)
                emu_worker_pass(b.worker);
        }
        CU_ASSERT_EQUAL(b.probe[15]->got, 400);
        for (uint32_t up = 4; up < 8; up++) {
            uint64_t sent = emu_count_read(&switch_tx(b.fabric->sw[0], up)->counts.segments);

            CU_ASSERT_TRUE(sent > 50);
        }
        bench_close(&b);
    }
}

/* A blocked port up is avoided while another is free. */
static void choice__avoids_a_loaded_port(void)
{
    struct bench b;
    struct emu_hdr hdr = {.dst = 3};
    struct switch_crossbar *leaf;

    bench_open(&b, "kary:2,2", EMU_CREDIT_ROW, 4);
    leaf = switch_crossbar_of(b.fabric->sw[0]);
    leaf->out[2].tx.credits = 0; /* port up 2 cannot send */
    for (uint32_t i = 0; i < 200; i++) {
        CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
        for (uint32_t p = 0; p < 6; p++)
            emu_worker_pass(b.worker);
    }
    CU_ASSERT_TRUE(b.probe[3]->got >= 198);
    CU_ASSERT_TRUE(leaf->out[2].queued <= 2);
    bench_close(&b);
}

/*
 * The least loaded port is cached between segments. A segment with only one possible output loads
 * that port in between, and the next choices take this into account.
 */
static void choice__accounts_for_segments_in_between(void)
{
    const struct emu_hdr any = {.dst = 15}, fixed = {.dst = 14};
    uint64_t sets[16] = {[14] = emu_bit(5), [15] = emu_bits_below(4) << 4};
    const struct topo_route route = {.span = 16, .stride = 1, .spread = 1, .sets = sets};
    struct switch_crossbar *leaf;
    struct bench b;

    bench_open(&b, "kary:4,2", EMU_CREDIT_ROW, 16);
    leaf = switch_crossbar_of(b.fabric->sw[0]);
    switch_reroute(b.fabric->sw[0], &route);
    for (uint32_t up = 4; up < 8; up++)
        leaf->out[up].tx.credits = 0;
    for (uint32_t i = 0; i < 8; i++) /* one segment to each, to 4, to 5 */
        CU_ASSERT_TRUE(probe_send(&b, 0, i == 5 ? &fixed : &any));
    emu_worker_pass(b.worker);
    emu_worker_pass(b.worker);
    for (uint32_t up = 4; up < 8; up++)
        CU_ASSERT_EQUAL(leaf->out[up].queued, 2);
    bench_close(&b);
}

/*
 * With input buffers, a segment chooses its output when it leaves the buffer, among crosspoints
 * with space. A segment blocked behind two full crosspoints takes the first one that becomes free.
 */
static void choice__of_an_input_buffer_waits_for_space(void)
{
    struct emu_profile profile = bench_profile(EMU_CREDIT_ROW, 8);
    struct emu_hdr hdr = {.dst = 3};
    struct switch_crossbar *leaf;
    struct bench b;

    profile.buffers = EMU_BUFFERS_INPUT_XPOINT;
    profile.xpoint_slots = 1;
    bench_start(&b, "kary:2,2", &profile);
    leaf = switch_crossbar_of(b.fabric->sw[0]);
    leaf->out[2].tx.credits = leaf->out[3].tx.credits = 0; /* ports up 2 and 3 are blocked */
    for (uint32_t i = 0; i < 8; i++)
        CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
    for (uint32_t p = 0; p < 6; p++)
        emu_worker_pass(b.worker);
    CU_ASSERT_EQUAL(leaf->out[2].queued, 1);
    CU_ASSERT_EQUAL(leaf->out[3].queued, 1);
    CU_ASSERT_EQUAL(row_taken(b.fabric->sw[0], 0), 6);
    leaf->out[3].tx.credits = 8; /* port up 3 is free again */
    emu_dev_signal(&leaf->sw.dev, b.worker, EMU_EVENT_CREDIT, emu_bit(3));
    for (uint32_t p = 0; p < 40; p++)
        emu_worker_pass(b.worker);
    CU_ASSERT_EQUAL(b.probe[3]->got, 7);
    CU_ASSERT_EQUAL(leaf->out[2].queued, 1);
    CU_ASSERT_EQUAL(row_taken(b.fabric->sw[0], 0), 0);
    bench_close(&b);
}

/* The default number of credits is what a switch can hold and rings have space for. */
static void credits__default_fits_the_network(void)
{
    static const struct {
        const char *spec;
        uint32_t asked, slots;
    } cases[] = {{"kary:4,3", 0, 64},  {"kary:4,3", 5, 5},   {"kary:15,2", 0, 64},
                 {"kary:8,3", 0, 32},  {"kary:16,2", 0, 32}, {"kary:10,3", 0, 16},
                 {"kary:31,1", 0, 32}, {"kary:10,3", 64, 64}};

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fabric_config config = {.clock = EMU_CLOCK_RAW};
        struct topo_graph *graph = NULL;
        char error[256];

        config.profile = bench_profile(EMU_CREDIT_ROW, cases[i].asked);
        CU_ASSERT_EQUAL_FATAL(topo_parse(&graph, cases[i].spec, error, sizeof error), 0);
        config.graph = graph;
        CU_ASSERT_EQUAL(fabric_profile_on(&config).xpoint_slots, cases[i].slots);
        config.clock = EMU_CLOCK_VIRTUAL;
        CU_ASSERT_EQUAL(fabric_profile_on(&config).xpoint_slots, config.profile.xpoint_slots);
        topo_free(graph);
    }
}

/* With an input buffer or link-level retry, the default has other limits. */
static void credits__default_fits_the_switch(void)
{
    struct fabric_config config = {.clock = EMU_CLOCK_RAW};
    struct topo_graph *graph = NULL;
    char error[256];

    config.profile = bench_profile(EMU_CREDIT_ROW, 0);
    config.profile.buffers = EMU_BUFFERS_INPUT_XPOINT;
    config.profile.xpoint_slots = 32;
    CU_ASSERT_EQUAL_FATAL(topo_parse(&graph, "kary:44,1", error, sizeof error), 0);
    config.graph = graph;
    CU_ASSERT_EQUAL(fabric_profile_on(&config).input_slots, 16);
    CU_ASSERT_EQUAL(fabric_check_config(&config, error, sizeof error), 0);
    topo_free(graph);

    config.profile = bench_profile(EMU_CREDIT_ROW, 0);
    config.profile.link_retry = EMU_LINK_RETRY_GO_BACK_N;
    CU_ASSERT_EQUAL_FATAL(topo_parse(&graph, "kary:4,3", error, sizeof error), 0);
    config.graph = graph;
    CU_ASSERT_EQUAL(fabric_profile_on(&config).xpoint_slots, EMU_RAW_SLOTS);
    topo_free(graph);
}

/* --- routing policies --------------------------------------------------------------- */

/* The profile and the table of policies use the same names in the same order. */
static void policy__has_the_name_that_the_profile_uses(void)
{
    for (uint32_t i = 0; i < EMU_CHOICES_COUNT; i++) {
        struct emu_profile profile = bench_profile(EMU_CREDIT_ROW, 4);
        char set[64], error[256];

        profile.choice = EMU_CHOICES_COUNT;
        snprintf(set, sizeof set, "choice=%s", route_policies[i]->name);
        CU_ASSERT_EQUAL(emu_profile_set(&profile, set, error, sizeof error), 0);
        CU_ASSERT_EQUAL(profile.choice, i);
        CU_ASSERT_TRUE(strlen(route_policies[i]->source) > 0);
    }
}

static uint32_t highest_load(const struct switch_dev *sw, uint32_t output)
{
    (void)sw;
    return EMU_PORTS_MAX - output;
}

static uint32_t highest_pick(struct route_state *state, emu_ports best)
{
    (void)state;
    return emu_ports_first(best);
}

/*
 * A metric other than queue length is evaluated for all candidates, not just for lightly loaded
 * ones.
 */
static void policy__with_its_own_metric_avoids_links_that_are_down(void)
{
    static const struct route_policy highest = {.name = "highest",
                                                .metric = highest_load,
                                                .pick = highest_pick,
                                                .source = "a test"};
    emu_ports ups = emu_ports_below(8) & ~emu_ports_below(4);
    struct switch_dev *leaf;
    struct bench b;

    bench_open(&b, "kary:4,2", EMU_CREDIT_ROW, 4);
    leaf = b.fabric->sw[0];
    leaf->policy = &highest;
    CU_ASSERT_EQUAL(route_choose(leaf, ups, ups), 7);
    CU_ASSERT_EQUAL(route_choose(leaf, ups, emu_port(5)), 7);
    switch_crossbar_of(leaf)->out[7].queued |= SWITCH_OUT_DOWN;
    CU_ASSERT_EQUAL(route_choose(leaf, ups, ups), 6);
    switch_crossbar_of(leaf)->out[7].queued &= ~SWITCH_OUT_DOWN;
    bench_close(&b);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"credits__are_conserved_by_the_row_guarantee",
         credits__are_conserved_by_the_row_guarantee},
        {"credits__are_conserved_by_the_plain_counter",
         credits__are_conserved_by_the_plain_counter},
        {"credits__are_conserved_by_input_buffers", credits__are_conserved_by_input_buffers},
        {"credits__default_fits_the_network", credits__default_fits_the_network},
        {"credits__default_fits_the_switch", credits__default_fits_the_switch},
        {"credits__late_ones_send_nothing_early", credits__late_ones_send_nothing_early},
        {"credits__row_guarantee_protects_other_outputs",
         credits__row_guarantee_protects_other_outputs},
        {"credits__multicast_is_paid_after_the_last_copy",
         credits__multicast_is_paid_after_the_last_copy},
        {"arbitration__serves_all_inputs_alike", arbitration__serves_all_inputs_alike},
        {"arbitration__shares_the_free_slots", arbitration__shares_the_free_slots},
        {"choice__spreads_one_pair_over_all_up_ports", choice__spreads_one_pair_over_all_up_ports},
        {"choice__avoids_a_loaded_port", choice__avoids_a_loaded_port},
        {"choice__accounts_for_segments_in_between", choice__accounts_for_segments_in_between},
        {"choice__of_an_input_buffer_waits_for_space", choice__of_an_input_buffer_waits_for_space},
        {"policy__has_the_name_that_the_profile_uses", policy__has_the_name_that_the_profile_uses},
        {"policy__with_its_own_metric_avoids_links_that_are_down",
         policy__with_its_own_metric_avoids_links_that_are_down},
        {NULL, NULL},
    };

    return test_run("switch", cases);
}
