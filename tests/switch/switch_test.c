/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switch_test.c - credits, choice and order inside switches, pass by pass.
 */
#include <string.h>

#include "switch/crosspoint/counter.h"
#include "switch/input/fifo.h"
#include "switch/input/slots.h"
#include "switch/policy/policy.h"
#include "tests/test.h"
#include "tests/fixtures/switch/bench.h"

/* --- credit conservation ------------------------------------------------------------ */

/* By the plain counter: segments that row @r holds, copies of one counted once. */
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

/* Room of a row that is taken, as the policy counts it. */
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
 * Between passes, every credit of a link is at its sender, on the wire, in a row, or on its way
 * back.
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

/* Random unicasts and multicasts under load; every link checked after every pass. */
static void conserve(const char *spec, const struct emu_profile *profile)
{
    uint32_t slots = profile->raw_xpoint_slots;
    struct bench b;
    uint64_t random = test_seed() ^ slots;
    uint32_t leaks = 0, group, cast = 0;

    bench_start(&b, spec, profile);
    group = fixture_group_of_first(b.fabric, b.graph->nodes);
    for (uint32_t pass = 0; pass < 1500; pass++) {
        b.probe[0]->deaf = pass % 300 > 200; /* now and then the network backs up */
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

/* Fifos at the inputs, crosspoints of one or two: everything gets through them, multicasts too. */
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

/* What the row guarantee is for: one blocked output does not take the whole link's credits. */
static void credits__row_guarantee_lets_others_pass_a_blocked_output(void)
{
    struct bench b;
    struct emu_hdr hdr = {.dst = 1};

    bench_open(&b, "kary:4,1", EMU_CREDIT_ROW, 4);
    b.probe[1]->deaf = true;
    for (uint32_t i = 0; i < 6; i++) {
        /* 4 fill the wire to the deaf node, 2 wait at the crosspoint */
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
 * On clock real: node @n posts a segment for node 1 now, and it is taken. Returns the time of its
 * post.
 */
static uint64_t post_now(struct bench *b, uint32_t n)
{
    struct emu_entry entry = {.hdr = {.dst = 1}, .buf = EMU_NO_BUF};

    CU_ASSERT_TRUE_FATAL(probe_room(b, n));
    entry.time_ps = emu_clock_now(&b->fabric->clock);
    probe_put(b, n, &entry);
    emu_worker_pass(b->worker);
    return entry.time_ps;
}

/* Outputs with a segment and no credit on its way. */
static uint64_t stalled_of(struct switch_dev *sw)
{
    return sw->kind == &switch_slots_kind
               ? switch_slots_of(sw)->stalled
               : switch_timing_of(switch_crosspoints_of(sw))->agenda.stalled;
}

/*
 * Clock real: a worker that waited for a core tells of a credit that is long past. What came to
 * wait for it since then does not leave before it came.
 */
static void credits__that_are_late_send_nothing_early(void)
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
        second_ps = post_now(&b, 2); /* later by far than the credits will be */
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
 * A multicast with one copy stuck keeps its credit under the plain counter until that copy has
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
        CU_ASSERT_TRUE(probe_send(&b, 2, &fill)); /* the deaf node's wire is full */
        emu_worker_pass(b.worker);
    }
    CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
    CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
    for (uint32_t i = 0; i < 5; i++)
        emu_worker_pass(b.worker);
    CU_ASSERT_EQUAL(b.probe[2]->got, 2);
    CU_ASSERT_EQUAL(b.probe[3]->got, 2);
    CU_ASSERT_FALSE(probe_send(&b, 0, &hdr)); /* no credit: node 1's copies have not left */
    b.probe[1]->deaf = false;
    emu_dev_again(&b.probe[1]->dev);
    for (uint32_t i = 0; i < 5; i++)
        emu_worker_pass(b.worker);
    CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
    bench_close(&b);
}

/* --- arbitration and choice --------------------------------------------------------- */

/* Under symmetrical load on one output, inputs are served alike. */
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
    CU_ASSERT_TRUE(most - least <= 16); /* what rows and wires can hold */
    CU_ASSERT_EQUAL(b.probe[0]->out_of_order, 0);
    bench_close(&b);
}

/* Rows have shares of what there is room for; what one does not want is for the others. */
static void arbitration__shares_what_there_is_room_for(void)
{
    static const uint32_t sent[4] = {0, 12, 12, 2};
    static const uint8_t left[4] = {0, 9, 9, 0}; /* of 8, 3 each, and both of the third */
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

/* The way up is chosen packet by packet: one pair's traffic uses every up port. */
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

/* A blocked way up is left alone while another is free. */
static void choice__avoids_a_loaded_port(void)
{
    struct bench b;
    struct emu_hdr hdr = {.dst = 3};
    struct switch_crossbar *leaf;

    bench_open(&b, "kary:2,2", EMU_CREDIT_ROW, 4);
    leaf = switch_crossbar_of(b.fabric->sw[0]);
    leaf->out[2].tx.credits = 0; /* up port 2 gets nothing away */
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
 * Who is least loaded is not found anew for each segment. One that has no choice loads an output in
 * between, and the next ones do without it.
 */
static void choice__knows_what_came_between(void)
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
    for (uint32_t i = 0; i < 8; i++) /* one to each, to 4, to 5 */
        CU_ASSERT_TRUE(probe_send(&b, 0, i == 5 ? &fixed : &any));
    emu_worker_pass(b.worker);
    emu_worker_pass(b.worker);
    for (uint32_t up = 4; up < 8; up++)
        CU_ASSERT_EQUAL(leaf->out[up].queued, 2);
    bench_close(&b);
}

/*
 * Buffers at inputs: a segment chooses when it leaves the buffer, among the crosspoints that have
 * room then. What waits behind two blocked ways goes by the one that is free first.
 */
static void choice__of_an_input_buffer_waits_for_room(void)
{
    struct emu_profile profile = bench_profile(EMU_CREDIT_ROW, 8);
    struct emu_hdr hdr = {.dst = 3};
    struct switch_crossbar *leaf;
    struct bench b;

    profile.buffers = EMU_BUFFERS_INPUT_XPOINT;
    profile.xpoint_slots = 1;
    bench_start(&b, "kary:2,2", &profile);
    leaf = switch_crossbar_of(b.fabric->sw[0]);
    leaf->out[2].tx.credits = leaf->out[3].tx.credits = 0; /* up ports 2 and 3 are blocked */
    for (uint32_t i = 0; i < 8; i++)
        CU_ASSERT_TRUE(probe_send(&b, 0, &hdr));
    for (uint32_t p = 0; p < 6; p++)
        emu_worker_pass(b.worker);
    CU_ASSERT_EQUAL(leaf->out[2].queued, 1);
    CU_ASSERT_EQUAL(leaf->out[3].queued, 1);
    CU_ASSERT_EQUAL(row_taken(b.fabric->sw[0], 0), 6);
    leaf->out[3].tx.credits = 8; /* port 3 is free again */
    emu_dev_signal(&leaf->sw.dev, b.worker, EMU_EVENT_CREDIT, emu_bit(3));
    for (uint32_t p = 0; p < 40; p++)
        emu_worker_pass(b.worker);
    CU_ASSERT_EQUAL(b.probe[3]->got, 7);
    CU_ASSERT_EQUAL(leaf->out[2].queued, 1);
    CU_ASSERT_EQUAL(row_taken(b.fabric->sw[0], 0), 0);
    bench_close(&b);
}

/* Where nobody says how many: what a switch can hold and rings have room for. */
static void credits__are_as_many_as_fit_the_network(void)
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

/* Where an input has a buffer too, or its cable sends again, other things have to fit. */
static void credits__are_as_many_as_fit_the_router(void)
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

/* The profile and the table of policies use the same names, in the same order. */
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

/* A metric other than the length of queues is asked for all candidates, lightly loaded or not. */
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
        {"credits__are_as_many_as_fit_the_network", credits__are_as_many_as_fit_the_network},
        {"credits__are_as_many_as_fit_the_router", credits__are_as_many_as_fit_the_router},
        {"credits__that_are_late_send_nothing_early", credits__that_are_late_send_nothing_early},
        {"credits__row_guarantee_lets_others_pass_a_blocked_output",
         credits__row_guarantee_lets_others_pass_a_blocked_output},
        {"credits__multicast_is_paid_after_the_last_copy",
         credits__multicast_is_paid_after_the_last_copy},
        {"arbitration__serves_all_inputs_alike", arbitration__serves_all_inputs_alike},
        {"arbitration__shares_what_there_is_room_for", arbitration__shares_what_there_is_room_for},
        {"choice__spreads_one_pair_over_all_up_ports", choice__spreads_one_pair_over_all_up_ports},
        {"choice__avoids_a_loaded_port", choice__avoids_a_loaded_port},
        {"choice__knows_what_came_between", choice__knows_what_came_between},
        {"choice__of_an_input_buffer_waits_for_room", choice__of_an_input_buffer_waits_for_room},
        {"policy__has_the_name_that_the_profile_uses", policy__has_the_name_that_the_profile_uses},
        {"policy__with_its_own_metric_avoids_links_that_are_down",
         policy__with_its_own_metric_avoids_links_that_are_down},
        {NULL, NULL},
    };

    return test_run("switch", cases);
}
