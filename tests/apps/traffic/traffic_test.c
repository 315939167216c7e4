/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_test.c - synthetic traffic through whole fabrics on clock virtual.
 *
 * FABEMU_SEED replays the random configurations; FABEMU_TRAFFIC_SHOW prints each before it runs.
 */
#include "apps/audit/audit.h"
#include "tests/test.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "apps/traffic/workload/relay.h"
#include "apps/traffic/run.h"
#include "apps/traffic/workload/worker.h"
#include "apps/traffic/workload/coll.h"
#include "tests/apps/traffic/draw.h"

static bool run(struct traffic_result *result, const struct traffic_config *config)
{
    char error[640] = "";
    int err = traffic_run(result, config, error, sizeof error);

    if (err)
        printf("%s\n", error);
    CU_ASSERT(!err || error[0]);
    return err == 0;
}

static struct traffic_result run_and_release(struct traffic_config *config)
{
    struct traffic_result result;

    CU_ASSERT(run(&result, config));
    traffic_pattern_release(&config->pattern);
    return result;
}

/* --- latency without load ----------------------------------------------------------- */

static const struct {
    const char *topo;
    uint32_t switches;
} distances[] = {{"kary:4,1", 1}, {"kary:2,2", 3}, {"kary:2,3", 5}, {"kary:2,4", 7}};

/*
 * The OQ paper's times: 1300 ns, a cable of 20 ns before and after each switch of 90 ns, the wire,
 * 1300 ns.
 */
static uint64_t zero_load_ps(uint32_t switches, uint64_t wire_ps)
{
    return 2600000 + (switches + 1) * 20000 + switches * 90000 + wire_ps;
}

static void all_take(const char *topo, uint64_t bytes, uint64_t want_ps)
{
    struct traffic_config config = draw_config_of(topo, "complement");

    config.sources = (struct traffic_sources){TRAFFIC_SPREAD_FIRST, 1};
    config.fixed_gaps = true;
    config.load = TRAFFIC_LOAD_UNIT / 200;
    config.bytes = bytes;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT(result.latency.messages > 20);
    CU_ASSERT_EQUAL(result.latency.least_ps, want_ps);
    CU_ASSERT_EQUAL(result.latency.mean_ps, want_ps);
    CU_ASSERT_EQUAL(result.latency.most_ps, want_ps);
}

static void traffic_run__zero_load_latency_is_exact(void)
{
    for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++) {
        all_take(distances[i].topo, 240, zero_load_ps(distances[i].switches, 256 * 800));
        all_take(distances[i].topo, 0, zero_load_ps(distances[i].switches, 16 * 800));
        all_take(distances[i].topo, 1000, zero_load_ps(distances[i].switches, 1080 * 800));
    }
    CU_ASSERT_EQUAL(zero_load_ps(3, 204800), 3154800);
    CU_ASSERT_EQUAL(zero_load_ps(7, 204800), 3594800);
}

/* Each switch copies while it forwards: copies arrive as fast as a single message. */
static void traffic_run__multicast_takes_no_longer_than_a_message(void)
{
    struct traffic_config config = draw_config_of("kary:2,3", "multicast");

    config.sources = (struct traffic_sources){TRAFFIC_SPREAD_FIRST, 1};
    config.load = TRAFFIC_LOAD_UNIT / 200;
    config.fixed_gaps = true;
    config.fanout = 7;
    config.law = TRAFFIC_DISTRIBUTION_FIXED;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT_EQUAL(result.latency.least_ps, zero_load_ps(1, 204800));
    CU_ASSERT_EQUAL(result.latency.most_ps, zero_load_ps(5, 204800));
    CU_ASSERT_EQUAL(result.completion.least_ps, zero_load_ps(5, 204800));
    CU_ASSERT_EQUAL(result.completion.most_ps, zero_load_ps(5, 204800));
    CU_ASSERT_EQUAL(result.latency.messages, 7 * result.completion.messages);
    CU_ASSERT_EQUAL(result.hops, 13 * result.segments); /* 7 to nodes, 6 between the 7 switches */
}

/*
 * A source with exclusive links is an M/D/1 queue: at load r a message waits r / (2 - 2r) wire
 * times. r is the load that was drawn, so that a run with few messages is not taken for one with
 * short queues.
 */
static void traffic_run__waiting_agrees_with_queueing_theory(void)
{
    const double loads[] = {0.2, 0.5, 0.8};

    for (uint32_t i = 0; i < TEST_ALONE(3u); i++) {
        struct traffic_config config = draw_config_of("kary:4,1", "neighbour");
        config.load = (uint64_t)(loads[i] * TRAFFIC_LOAD_UNIT);
        config.fabric.seed = test_seed() + i;
        config.warmup_ps = 100000000;
        config.measure_ps = 4000000000;
        struct traffic_result result = run_and_release(&config);
        double load = result.offered;
        double want_ps = (double)zero_load_ps(1, 204800) + 204800 * load / (2 - 2 * load);
        double off_ps = (double)result.latency.mean_ps - want_ps;
        CU_ASSERT_DOUBLE_EQUAL(load, loads[i], 0.03);
        CU_ASSERT(off_ps < 3 * result.latency.mean_ci95_ps);
        CU_ASSERT(off_ps > -3 * result.latency.mean_ci95_ps);
        CU_ASSERT(result.latency.mean_ci95_ps < 100000);
        CU_ASSERT_EQUAL(result.latency.least_ps, zero_load_ps(1, 204800));
    }
}

#define COVERAGE_RUNS   TEST_TRIALS(100u)
#define COVERAGE_MISSES (COVERAGE_RUNS / 10u + 10u) /* 6 standard deviations of 100 runs */

/* With automatic phases, 93 to 96 of 100 intervals cover the true mean at this load. */
static void traffic_run__interval_holds_the_mean(void)
{
    const double want_ps = (double)zero_load_ps(1, 204800) + 204800 * 0.8 / (2 - 1.6);
    uint32_t held = 0;

    for (uint64_t i = 0; i < COVERAGE_RUNS; i++) {
        struct traffic_config config = draw_config_of("kary:4,1", "neighbour");
        config.load = TRAFFIC_LOAD_UNIT / 10 * 8;
        config.fabric.seed = test_seed() + i;
        struct traffic_result result = run_and_release(&config);
        CU_ASSERT(!result.saturated);
        held += fabs((double)result.latency.mean_ps - want_ps) <= result.latency.mean_ci95_ps;
    }
    CU_ASSERT(held + COVERAGE_MISSES >= COVERAGE_RUNS);
    if (held + COVERAGE_MISSES < COVERAGE_RUNS)
        printf("%u of %u intervals hold the mean\n", held, COVERAGE_RUNS);
}

/* A run without given phases measures until it has detected saturation. */
static void traffic_run__finds_slow_saturation(void)
{
    for (uint64_t i = 0; i < TEST_ALONE(3u); i++) {
        struct traffic_config config = draw_config_of("kary:4,2", "uniform");
        config.load = TRAFFIC_LOAD_UNIT / 100 * 92;
        config.fabric.seed = test_seed() + i;
        struct traffic_result result = run_and_release(&config);
        CU_ASSERT(result.saturated);
        CU_ASSERT(!result.steady);
    }
}

/* Queues that are still filling are not saturated, but not steady either. */
static void traffic_run__phases_may_be_shorter_than_a_latency(void)
{
    struct traffic_config config = draw_config_of("kary:2,6", "uniform");

    config.load = TRAFFIC_LOAD_UNIT / 10;
    config.warmup_ps = 100000;
    config.measure_ps = 1000000;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT(!result.saturated);
    CU_ASSERT_EQUAL(result.undelivered, 0);
    CU_ASSERT_EQUAL(result.accepted.mean, 0);
    CU_ASSERT(result.latency.messages > 0);
    config = draw_config_of("kary:4,2", "uniform");
    config.load = TRAFFIC_LOAD_UNIT * 3 / 2;
    config.warmup_ps = 1000000;
    config.measure_ps = 60000000;
    result = run_and_release(&config);
    CU_ASSERT(!result.steady);
}

/* The next message of a source is an hour away: nothing waits for it, and no time overflows. */
static void traffic_run__rare_messages_end_with_the_measurement(void)
{
    struct traffic_config config = draw_config_of("kary:2,1", "uniform");

    config.bytes = 172938225;
    config.load = 1;
    config.fabric.profile.link_ps_per_byte = 100;
    config.warmup_ps = 1000;
    config.measure_ps = 300000000000;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT(result.offered == 0 && result.accepted.mean == 0 && !result.saturated);
    CU_ASSERT(result.virtual_ps < result.measure_ps + 100000000);
}

static bool stop_at_once(void *context, double done)
{
    CU_ASSERT(done >= 0 && done <= 1);
    ++*(int *)context;
    return false;
}

static void traffic_run__ends_on_request(void)
{
    static const char *const patterns[] = {"uniform", "barrier"};

    for (int i = 0; i < 2; i++) {
        struct traffic_config config = draw_config_of("kary:4,2", patterns[i]);
        struct traffic_result result;
        char error[640];
        int reported = 0;
        config.progress = stop_at_once;
        config.context = &reported;
        CU_ASSERT_EQUAL(traffic_run(&result, &config, error, sizeof error), -EINTR);
        CU_ASSERT_EQUAL(reported, 1);
    }
}

static bool close_reader(void *context, double done)
{
    int *fd = context;

    (void)done;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return true;
}

/* The reader of the snapshots closes its end of the pipe after the shape. */
static void traffic_run__fails_if_the_last_snapshot_is_lost(void)
{
    static const char *const patterns[] = {"uniform", "barrier"};

    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 2; i++) {
        struct traffic_config config = draw_config_of("kary:2,2", patterns[i]);
        struct traffic_result result;
        char error[640] = "";
        int fds[2];

        CU_ASSERT_EQUAL_FATAL(pipe(fds), 0);
        config.snapshots.out = fdopen(fds[1], "w");
        setvbuf(config.snapshots.out, NULL, _IONBF, 0);
        config.snapshots.every_ps = UINT64_C(1) << 60; /* only the last snapshot becomes due */
        config.progress = close_reader;
        config.context = &fds[0];
        CU_ASSERT_EQUAL(traffic_run(&result, &config, error, sizeof error), -EIO);
        CU_ASSERT_PTR_NOT_NULL(strstr(error, "snapshots of --telemetry"));
        fclose(config.snapshots.out);
    }
    signal(SIGPIPE, SIG_DFL);
}

/* --- conservation and ends ---------------------------------------------------------- */

/* At fixed intervals the links are busy all the time, and nothing ever waits. */
static void traffic_run__complement_at_full_load_loses_nothing(void)
{
    struct traffic_config config = draw_config_of("kary:4,2", "complement");

    config.load = TRAFFIC_LOAD_UNIT;
    config.fixed_gaps = true;
    config.measure_ps = 60000000;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT(!result.saturated);
    CU_ASSERT_EQUAL(result.undelivered, 0);
    CU_ASSERT(result.accepted.mean > 0.999 && result.accepted.mean < 1.001);
    CU_ASSERT(result.offered > 0.999 && result.offered < 1.001);
    config = draw_config_of("kary:4,2", "complement");
    config.load = TRAFFIC_LOAD_UNIT;
    config.measure_ps = 60000000;
    result = run_and_release(&config);
    CU_ASSERT(result.accepted.mean > 0.9 && result.accepted.mean < 1);
}

static void traffic_run__ends_past_saturation(void)
{
    struct traffic_config config = draw_config_of("kary:4,2", "uniform");

    config.load = TRAFFIC_LOAD_UNIT * 3 / 2;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT(result.saturated);
    CU_ASSERT(result.undelivered > 0 && result.backlog > 0);
    CU_ASSERT(result.offered > 1.4 && result.accepted.mean < 1);
    uint64_t ran_ps = result.virtual_ps - result.warmup_ps - result.measure_ps;
    CU_ASSERT(ran_ps < 100000000); /* it drains the network, not the queues of the sources */
    config = draw_config_of("kary:4,2", "hotspot:3:0.5");
    result = run_and_release(&config);
    CU_ASSERT(result.saturated);
    config = draw_config_of("kary:4,2", "uniform");
    result = run_and_release(&config);
    CU_ASSERT(!result.saturated);
    CU_ASSERT_EQUAL(result.undelivered, 0);
}

/* One message per destination uses the source's link fanout times. */
static void traffic_run__multicast_by_messages_saturates_earlier(void)
{
    struct traffic_result result[2];

    for (int i = 0; i < 2; i++) {
        struct traffic_config config = draw_config_of("kary:8,1", "multicast");
        config.load = TRAFFIC_LOAD_UNIT * 3 / 10;
        config.sources = (struct traffic_sources){TRAFFIC_SPREAD_FIRST, 2};
        config.by_messages = i;
        config.arity = TRAFFIC_TREE_FLAT;
        result[i] = run_and_release(&config);
        CU_ASSERT(result[i].fanout > 3.5 && result[i].fanout < 4.5);
    }
    CU_ASSERT(!result[0].saturated && result[1].saturated);
    CU_ASSERT(result[0].accepted.mean > 0.28 && result[0].accepted.mean < 0.32);
    CU_ASSERT(result[1].accepted.mean > 0.2 && result[1].accepted.mean < 0.28);
    CU_ASSERT(result[0].latency.mean_ps < result[1].latency.mean_ps);
}

/*
 * Chain: each node gets it one whole latency after its predecessor; flat tree: one wire time later.
 */
static void traffic_run__trees_forward_received_messages(void)
{
    static const struct {
        uint32_t arity;
        uint64_t latencies, wires;
    } trees[] = {
        {TRAFFIC_TREE_FLAT, 1, 2}, {1, 3, 0}, {TRAFFIC_TREE_BINOMIAL, 2, 0}, {2, 2, 0}, {3, 1, 2},
    };

    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++) {
        struct traffic_config config = draw_config_of("kary:4,1", "multicast");
        config.sources = (struct traffic_sources){TRAFFIC_SPREAD_FIRST, 1};
        config.load = TRAFFIC_LOAD_UNIT / 200;
        config.fixed_gaps = true;
        config.fanout = 3;
        config.law = TRAFFIC_DISTRIBUTION_FIXED;
        config.sets = 7;
        config.by_messages = true;
        config.arity = trees[i].arity;
        for (config.bytes = 240; config.bytes < 1000; config.bytes += 241) {
            struct traffic_result result = run_and_release(&config);
            uint64_t wire_ps = traffic_message_wire_ps(&config.fabric.profile, config.bytes);
            uint64_t want_ps = trees[i].latencies * zero_load_ps(1, wire_ps) +
                               trees[i].wires * wire_ps;
            CU_ASSERT_EQUAL(result.completion.least_ps, want_ps);
            CU_ASSERT_EQUAL(result.completion.most_ps, want_ps);
            CU_ASSERT_EQUAL(result.latency.least_ps, zero_load_ps(1, wire_ps));
            CU_ASSERT_EQUAL(result.latency.messages, 3 * result.completion.messages);
        }
    }
}

/* If switches are slower than adapters, a message is forwarded before a switch would route it. */
static void traffic_run__trees_forward_before_a_switch_would(void)
{
    for (uint64_t i = 0; i < 9; i++) {
        struct traffic_config config = draw_config_of("kary:4,1", "multicast");
        struct emu_profile *profile = &config.fabric.profile;
        uint64_t slower_ps = profile->nic_send_ps + profile->nic_recv_ps - i / 3 * 14000;
        profile->nic_send_ps = profile->nic_recv_ps = i / 3 * 7000;
        config.sources = (struct traffic_sources){TRAFFIC_SPREAD_FIRST, 1};
        config.load = TRAFFIC_LOAD_UNIT / 200;
        config.fixed_gaps = true;
        config.fanout = 3;
        config.law = TRAFFIC_DISTRIBUTION_FIXED;
        config.by_messages = true;
        config.arity = 1;
        config.bytes = i % 3 * 80;
        struct traffic_result result = run_and_release(&config);
        uint64_t hop_ps = zero_load_ps(1, traffic_message_wire_ps(profile, config.bytes)) -
                          slower_ps;
        CU_ASSERT_EQUAL(result.latency.least_ps, hop_ps);
        CU_ASSERT_EQUAL(result.completion.least_ps, 3 * hop_ps);
        CU_ASSERT_EQUAL(result.completion.most_ps, 3 * hop_ps);
    }
}

/* Forwarding nodes have queues as well: their growth is saturation, and nothing is lost. */
static void traffic_run__trees_saturate(void)
{
    struct traffic_config config = draw_config_of("kary:4,2", "multicast");

    config.by_messages = true;
    config.arity = 2;
    config.load = TRAFFIC_LOAD_UNIT * 4 / 10;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT(result.saturated && result.backlog > 0 && result.undelivered > 0);
    CU_ASSERT(result.accepted.mean > 0.2 && result.accepted.mean < 0.26);
}

/* --- sources ------------------------------------------------------------------------ */

/* Two senders into one node share its link; a third has exclusive links. */
static void traffic_run__reports_sources_separately(void)
{
    struct traffic_config config = draw_config_of("kary:4,1", "neighbour");
    struct traffic_result result;

    config.load = 2 * TRAFFIC_LOAD_UNIT;
    config.fixed_gaps = true;
    config.measure_ps = 204800 * 1000;
    config.warmup_ps = 20000000;
    result = run_and_release(&config);
    CU_ASSERT_DOUBLE_EQUAL(result.from.least, 1e12 / 204800, 1e4);
    CU_ASSERT_DOUBLE_EQUAL(result.from.most, 1e12 / 204800, 1e4);
    config = draw_config_of("kary:4,1", "hotspot:0:1");
    config.load = 2 * TRAFFIC_LOAD_UNIT;
    config.measure_ps = 204800 * 1000;
    config.warmup_ps = 20000000;
    result = run_and_release(&config);
    CU_ASSERT(result.from.least < 0.4e12 / 204800);
    CU_ASSERT(result.from.most > 0.6e12 / 204800);
    CU_ASSERT_DOUBLE_EQUAL(result.from.mean * 204800 / 1e12, result.accepted.mean, 1e-9);
}

/* --- with acknowledgments ----------------------------------------------------------- */

/* Without load a packet's latency depends only on its bytes, however few its last segment has. */
static void check_acknowledged_latency(const char *topo, uint32_t switches, uint64_t bytes)
{
    struct traffic_config config = draw_acknowledged_of(topo, "complement");
    const struct emu_profile *profile = &config.fabric.profile;

    config.sources = (struct traffic_sources){TRAFFIC_SPREAD_FIRST, 1};
    config.fixed_gaps = true;
    config.load = TRAFFIC_LOAD_UNIT / 20;
    config.bytes = bytes;
    config.measure_ps = 100000000;
    struct traffic_result result = run_and_release(&config);
    uint64_t want_ps = profile->nic_send_ps + profile->nic_recv_ps +
                       (switches + 1) * profile->channel_ps + switches * profile->switch_ps +
                       traffic_message_wire_ps(profile, bytes);
    CU_ASSERT(result.latency.messages >= 3);
    CU_ASSERT_EQUAL(result.latency.least_ps, want_ps);
    CU_ASSERT_EQUAL(result.latency.most_ps, want_ps);
}

static void traffic_run__zero_load_latency_is_exact_with_packets(void)
{
    for (uint64_t bytes = 0; bytes < 3000; bytes += 239 * (12 / TEST_ALONE(12u))) {
        check_acknowledged_latency("qsnet:32", 1, bytes);
        check_acknowledged_latency("qsnet:34", 3, bytes);
        check_acknowledged_latency("qsnet:34,rails=2", 3, bytes <= 960 ? bytes : 0);
    }
}

/* A link's whole capacity in one direction is payload, except for packet and segment overhead. */
static void traffic_run__a_pair_fills_its_links(void)
{
    static const char *const topos[] = {"qsnet:32", "qsnet:32,rails=2"};

    for (int i = 0; i < 2; i++) {
        struct traffic_config config = draw_acknowledged_of(topos[i], "complement");
        config.sources = (struct traffic_sources){TRAFFIC_SPREAD_FIRST, 1};
        config.load = 2 * TRAFFIC_LOAD_UNIT;
        config.bytes = 960;
        config.warmup_ps = 20000000;
        config.measure_ps = 100000000;
        struct traffic_result result = run_and_release(&config);
        CU_ASSERT(result.saturated);
        CU_ASSERT_DOUBLE_EQUAL(result.accepted.mean, 1, 0.015); /* about 240 packets on a link */
        CU_ASSERT_DOUBLE_EQUAL(result.from.mean * 960, (i + 1) * 2.5e9 * 960 / 1056, 3e7);
    }
}

/* The load is relative to all links: with two of them a node sends twice as much. */
static void traffic_run__load_is_relative_to_all_links(void)
{
    struct traffic_config config = draw_acknowledged_of("qsnet:8,rails=2", "uniform");

    config.load = TRAFFIC_LOAD_UNIT / 2;
    config.bytes = 960;
    config.measure_ps = 200000000;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT(!result.saturated);
    CU_ASSERT_DOUBLE_EQUAL(result.offered, 0.5, 0.02);
    CU_ASSERT_DOUBLE_EQUAL(result.accepted.mean, 0.5, 0.02);
    CU_ASSERT_DOUBLE_EQUAL(result.delivered, result.accepted.mean, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(result.from.mean * 1056 * 400 / 1e12, 2 * result.accepted.mean, 1e-9);
}

/* The switches copy: all destinations get it at the time of one. */
static void traffic_run__broadcast_takes_no_longer_than_a_packet(void)
{
    struct traffic_config config = draw_acknowledged_of("qsnet:40", "multicast");
    struct emu_profile *profile = &config.fabric.profile;

    profile->switch_ps = 3000;
    config.sources = (struct traffic_sources){TRAFFIC_SPREAD_FIRST, 1};
    config.load = TRAFFIC_LOAD_UNIT / 200;
    config.fixed_gaps = true;
    config.fanout = 39;
    config.law = TRAFFIC_DISTRIBUTION_FIXED;
    config.sets = 1;
    config.bytes = 960;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT_EQUAL(result.completion.most_ps,
                    600000 + 4 * 20000 + 3 * 3000 + traffic_message_wire_ps(profile, 960));
    CU_ASSERT_EQUAL(result.latency.messages, 39 * result.completion.messages);
}

/* A node sends broadcasts all the time to all others. Returns their number per second. */
static double broadcast_rate(const char *topo, uint32_t trees)
{
    struct traffic_config config = draw_acknowledged_of(topo, "multicast");

    config.fabric.profile.broadcast_trees = trees;
    config.sources = (struct traffic_sources){TRAFFIC_SPREAD_FIRST, 1};
    config.load = 2 * TRAFFIC_LOAD_UNIT;
    config.fixed_gaps = true;
    config.fanout = 19;
    config.law = TRAFFIC_DISTRIBUTION_FIXED;
    config.sets = 1;
    config.bytes = 960;
    config.warmup_ps = 5000000;
    config.measure_ps = 20000000;
    return run_and_release(&config).from.mean;
}

/* One tree has one link of each node; several trees have all links. */
static void traffic_run__broadcast_uses_as_many_links_as_trees(void)
{
    static const struct {
        const char *topo;
        uint32_t trees;
        double times; /* rate, divided by that of one tree */
    } rows[] = {{"qsnet:20,links=2", 2, 2}, {"qsnet:20,links=2", 8, 2},
                {"qsnet:20,links=4", 4, 4}, {"qsnet:20,links=2,apart=router", 2, 2},
                {"qsnet:20,rails=2", 2, 2}, {"qsnet:20", 4, 1}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double one = broadcast_rate(rows[i].topo, 1);

        CU_ASSERT(one > 2.2e6);
        CU_ASSERT_DOUBLE_EQUAL(broadcast_rate(rows[i].topo, rows[i].trees) / one, rows[i].times,
                               0.03 * rows[i].times);
    }
}

/* --- collectives -------------------------------------------------------------------- */

/* The run checks results: a wrong one is an error of the run. */
static void check_collective(const char *pattern, uint32_t groups, uint64_t bytes,
                             uint64_t operations, uint64_t interval_ps)
{
    struct traffic_config config = draw_config_of("kary:4,2", pattern);

    config.groups = groups;
    config.bytes = bytes;
    config.operations = operations;
    config.interval_ps = interval_ps;
    config.at_random = groups > 1;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT_EQUAL(result.latency.messages, operations * groups);
    CU_ASSERT_EQUAL(result.groups, groups);
    CU_ASSERT_EQUAL(result.members, 16 / groups);
    CU_ASSERT(result.latency.least_ps >= zero_load_ps(1, (16 + bytes) * 800 > 204800 ? 0 : 12800));
}

static void traffic_run__collectives_are_right(void)
{
    static const char *const patterns[] = {"reduce", "allreduce", "barrier"};

    for (int i = 0; i < 3; i++) {
        check_collective(patterns[i], 1, 8, 20, 0);
        check_collective(patterns[i], 4, 8, 20, 0);
        check_collective(patterns[i], 1, 8, 600, 0);      /* more numbers than a window has */
        check_collective(patterns[i], 1, 8, 600, 200000); /* many at a time */
        check_collective(patterns[i], 2, 80000, 3, 0);    /* an operation longer than a window */
        check_collective(patterns[i], 3, 1234, 20, 1);    /* as fast as the window allows */
    }
}

static void traffic_run__refuses_impossible_groups(void)
{
    struct traffic_config config = draw_config_of("kary:4,2", "reduce");
    struct traffic_result result;
    char error[640];

    config.groups = 3;
    config.members = 6;
    CU_ASSERT_EQUAL(traffic_run(&result, &config, error, sizeof error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "the network has 16 nodes"));
    config.groups = 16;
    config.members = 0;
    CU_ASSERT_EQUAL(traffic_run(&result, &config, error, sizeof error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "space for at most 8 groups"));
}

/*
 * Results overtake each other where packets do; an operation ends when its last result has arrived.
 */
static void traffic_run__collectives_of_adapters_are_right(void)
{
    static const char *const patterns[] = {"reduce", "allreduce", "barrier"};

    for (int i = 0; i < 6; i++) {
        struct traffic_config config = draw_acknowledged_of("qsnet:40", patterns[i % 3]);
        config.fabric.profile.barrier = i < 3 ? EMU_BARRIER_BY_CONDITIONAL : EMU_BARRIER_BY_TREE;
        config.fabric.profile.combine_order = i < 3 ? EMU_COMBINE_ARRIVAL : EMU_COMBINE_PORT;
        config.groups = 2;
        config.at_random = true;
        config.operations = i % 3 == 2 ? 300 : TEST_TRIALS(60u); /* more than a window */
        config.interval_ps = 200000;
        config.bytes = i % 3 == 2 ? 0 : 1000;
        struct traffic_result result = run_and_release(&config);
        CU_ASSERT_EQUAL(result.latency.messages, 2 * config.operations);
        config = draw_acknowledged_of("qsnet:9", patterns[i % 3]);
        config.bytes = i % 3 == 2 ? 0 : 66000; /* an operation longer than a window */
        config.operations = 2;
        result = run_and_release(&config);
        CU_ASSERT_EQUAL(result.latency.messages, 2);
    }
}

/*
 * QsNet III: polled barriers suit processes that arrive at the same time, trees of adapters those
 * that arrive at widely varying times. Latency counts from the last arrival.
 */
static void traffic_run__barriers_suit_their_arrivals(void)
{
    uint64_t mean_ps[2][2];

    for (int late = 0; late < 2; late++)
        for (int tree = 0; tree < 2; tree++) {
            struct traffic_config config = draw_acknowledged_of("qsnet:64", "barrier");
            config.fabric.profile.barrier = tree ? EMU_BARRIER_BY_TREE : EMU_BARRIER_BY_CONDITIONAL;
            config.skew_ps = late ? 20000000 : 0;
            config.operations = 40;
            config.bytes = 0;
            struct traffic_result result = run_and_release(&config);
            CU_ASSERT_EQUAL(result.latency.messages, 40);
            mean_ps[late][tree] = result.latency.mean_ps;
        }
    CU_ASSERT(mean_ps[0][0] < mean_ps[0][1]);
    CU_ASSERT(mean_ps[1][0] > 2 * mean_ps[1][1]);
    CU_ASSERT(mean_ps[1][1] <= mean_ps[0][1]); /* the last member finds all others arrived */
}

/*
 * QsNet III: small packets of a high priority suffer less from large transfers such as those of a
 * file system. Of 96 nodes, 32 form a group, and the others write to the servers.
 */
static double beside_storage(const char *pattern, uint32_t servers, uint8_t members, uint8_t others)
{
    struct traffic_config config = draw_acknowledged_of("qsnet:96", pattern);

    config.members = 32;
    config.at_random = true;
    config.operations = 5;
    config.bytes = strcmp(pattern, "barrier") == 0 ? 0 : 3840;
    config.servers = servers;
    config.tclass = members;
    config.storage_tclass = others;
    struct traffic_result result = run_and_release(&config);
    CU_ASSERT_EQUAL(result.latency.messages, 5);
    CU_ASSERT_EQUAL(result.storage_bytes > 0, servers > 0);
    return result.latency.mean_ps;
}

static void traffic_run__priorities_protect_collectives(void)
{
    enum { BULK = EMU_TCLASS_BULK, LATENCY = EMU_TCLASS_LATENCY };
    double alone = beside_storage("barrier", 0, 0, 0);
    double no_priorities = beside_storage("barrier", 4, BULK, BULK);
    double short_first = beside_storage("barrier", 4, 0, 0);

    CU_ASSERT(alone <= short_first && short_first < 1.3 * alone);
    CU_ASSERT(no_priorities > 3 * short_first);
    alone = beside_storage("allreduce", 0, 0, 0);
    short_first = beside_storage("allreduce", 4, 0, 0);
    CU_ASSERT(short_first > 3 * alone);
    CU_ASSERT(beside_storage("allreduce", 4, 0, BULK) < short_first * 2 / 3);
    CU_ASSERT(beside_storage("allreduce", 4, LATENCY, 0) < short_first * 2 / 3);
}

static void traffic_run__storage_is_the_same_for_any_number_of_workers(void)
{
    static const uint32_t threads[] = {1, 2, 3, FABRIC_THREADS_DEVICE};
    struct traffic_result result[4];

    for (int t = 0; t < 4; t++) {
        struct traffic_config config = draw_acknowledged_of("qsnet:24", "allreduce");
        config.members = 10;
        config.at_random = true;
        config.servers = 2;
        config.bytes = 600;
        config.tclass = EMU_TCLASS_LATENCY;
        config.storage_tclass = EMU_TCLASS_BULK;
        config.fabric.threads = threads[t];
        result[t] = run_and_release(&config);
        CU_ASSERT(draw_same_result(&result[t], &result[0]));
        CU_ASSERT_EQUAL(result[t].storage_bytes, result[0].storage_bytes);
    }
}

static void traffic_run__refuses_storage_without_clients(void)
{
    struct traffic_config config = draw_acknowledged_of("qsnet:16", "barrier");
    struct traffic_result result;
    char error[640];

    config.members = 12;
    config.servers = 4;
    CU_ASSERT_EQUAL(traffic_run(&result, &config, error, sizeof error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "4 of 16 nodes"));
    config.servers = 3;
    CU_ASSERT(run(&result, &config));
    config = draw_config_of("kary:4,2", "barrier");
    config.tclass = EMU_TCLASS_BULK;
    CU_ASSERT_EQUAL(traffic_run(&result, &config, error, sizeof error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "--profile qsnet3"));
}

static void traffic_run__refuses_a_skew_longer_than_the_interval(void)
{
    struct traffic_config config = draw_config_of("kary:4,2", "barrier");
    struct traffic_result result;
    char error[640];

    config.interval_ps = 1000000;
    config.skew_ps = 1001000;
    CU_ASSERT_EQUAL(traffic_run(&result, &config, error, sizeof error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "a skew of 1001 ns"));
}

/* --- the same for any number of workers --------------------------------------------- */

/* --- independence of windows -------------------------------------------------------- */

#define OPERATIONS 1000
#define LOG_PS     UINT64_C(25000000) /* the logs have space for all of them */

/* All operations are posted at the start; steps of up to @step_ps cut the windows short. */
static uint64_t digest_in_steps(const struct fabric_config *fabric_config,
                                const struct traffic_coll_plan *plan, uint64_t step_ps,
                                uint64_t *seed)
{
    struct fabric_config config = *fabric_config;
    struct traffic_coll coll;
    struct fabric *fabric = NULL;
    uint64_t now_ps = 0, completions = 0;
    char error[256] = "";

    CU_ASSERT_EQUAL_FATAL(traffic_coll_init(&coll, config.graph->nodes, plan), 0);
    config.local_nodes = &coll.ops;
    CU_ASSERT_EQUAL_FATAL(fabric_start(&fabric, &config, error, sizeof error), 0);
    CU_ASSERT_EQUAL(traffic_coll_groups(&coll, fabric, LOG_PS, error, sizeof error), 0);
    for (uint64_t op = 0; op < OPERATIONS; op++)
        for (uint32_t g = 0; g < plan->groups; g++)
            traffic_coll_post(&coll, g, op * plan->interval_ps);
    while (!fabric_idle(fabric)) {
        uint64_t next_ps = fabric_next_ps(fabric);
        now_ps = next_ps + (step_ps ? test_draw(seed, 0, step_ps) : UINT64_C(1000000000000));
        fabric_advance(fabric, now_ps);
    }
    for (uint32_t w = 0; w < coll.workers.count; w++)
        completions += coll.workers.at[w] ? coll.workers.at[w]->log.count : 0;
    CU_ASSERT_EQUAL(completions, (uint64_t)OPERATIONS * plan->groups * plan->members);
    CU_ASSERT_EQUAL(traffic_coll_check(&coll, error, sizeof error), 0);
    CU_ASSERT_EQUAL(fabric_check(fabric, now_ps, error, sizeof error), 0);
    uint64_t by_node[32], sent, digest = TRAFFIC_DIGEST_START;
    CU_ASSERT_FATAL(config.graph->nodes <= 32);
    traffic_coll_totals(&coll, by_node, &sent);
    for (uint32_t n = 0; n < config.graph->nodes; n++)
        digest = traffic_digest(digest, n, by_node[n], 0);
    fabric_stop(fabric);
    traffic_coll_free(&coll);
    return digest;
}

static void traffic_coll_post__does_not_depend_on_windows(void)
{
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < TEST_ALONE(10u); i++) {
        uint64_t began = seed;
        struct traffic_config config = draw_config_of("kary:4,2", "allreduce");
        struct emu_profile *profile = &config.fabric.profile;
        draw_profile(&seed, profile);
        if (test_random(&seed) % 2) { /* memory is written before the node sees the segment */
            profile->nic_send_ps = profile->nic_recv_ps = 0;
            profile->switch_ps = test_draw(&seed, 1, 20000000);
            profile->credit_ps = test_draw(&seed, 1, 30000000);
            profile->buffers = EMU_BUFFERS_INPUT_XPOINT;
            profile->input_slots = 255;
        }
        struct traffic_coll_plan plan = {
            .profile = profile,
            .what = test_random(&seed) % 3 ? TRAFFIC_ALLREDUCE : TRAFFIC_BARRIER,
            .operations = OPERATIONS,
            .interval_ps = test_draw(&seed, 1, 60) * 1000,
            .groups = 3,
            .members = 5,
            .at_random = true,
            .seed = test_random(&seed),
        };
        plan.bytes = plan.what == TRAFFIC_BARRIER ? 0 : 8;
        config.fabric.clock = EMU_CLOCK_VIRTUAL;
        uint64_t whole = digest_in_steps(&config.fabric, &plan, 0, &seed);
        for (uint64_t step_ps = 1000; step_ps < 100000000; step_ps *= 300) {
            bool same = digest_in_steps(&config.fabric, &plan, step_ps, &seed) == whole;
            CU_ASSERT(same);
            if (!same)
                printf("profile %u, alone with FABEMU_SEED=%llu: steps of %llu ps\n", i,
                       (unsigned long long)began, (unsigned long long)step_ps);
        }
    }
}

/* --- the same for any number of workers: whole runs --------------------------------- */

typedef struct traffic_config any_fn(uint64_t *seed, const char **topo, const char **pattern);

static void same_for_any_number_of_workers(uint32_t count, any_fn *any)
{
    static const uint32_t threads[] = {1, 2, 3, FABRIC_THREADS_DEVICE};
    uint64_t seed = test_seed();

    for (uint32_t i = 0; i < count; i++) {
        uint64_t began = seed;
        struct traffic_result result[4];
        const char *topo, *pattern;
        struct traffic_config config = any(&seed, &topo, &pattern);

        if (getenv("FABEMU_TRAFFIC_SHOW"))
            printf("%u: FABEMU_SEED=%llu %s %s bytes %llu load %llu\n", i,
                   (unsigned long long)began, topo, pattern, (unsigned long long)config.bytes,
                   (unsigned long long)config.load);
        bool good = true;
        for (int t = 0; t < 4; t++) {
            config.fabric.threads = threads[t];
            good &= run(&result[t], &config) && draw_same_result(&result[t], &result[0]);
        }
        traffic_pattern_release(&config.pattern);
        CU_ASSERT(good);
        if (!good)
            printf("configuration %u, alone with FABEMU_SEED=%llu: %s %s\n", i,
                   (unsigned long long)began, topo, pattern);
    }
}

static void traffic_run__digest_is_the_same_for_any_number_of_workers(void)
{
    same_for_any_number_of_workers(TEST_TRIALS(24u), draw_config);
}

static void traffic_run__acknowledged_digest_is_the_same_for_any_number_of_workers(void)
{
    same_for_any_number_of_workers(TEST_TRIALS(10u), draw_acknowledged);
}

/*
 * Adapters faster than switches: a segment forwarded by a node still arrives after the current
 * window.
 */
static void traffic_run__digest_is_the_same_with_instant_adapters(void)
{
    static const uint32_t threads[] = {1, 2, FABRIC_THREADS_DEVICE};
    struct traffic_result result[3];

    for (uint64_t bytes = 0; bytes < 600; bytes += 120) {
        for (int t = 0; t < 3; t++) {
            struct traffic_config config = draw_config_of("kary:2,3", "multicast");
            config.fabric.profile.nic_send_ps = config.fabric.profile.nic_recv_ps = 0;
            config.fabric.threads = threads[t];
            config.load = TRAFFIC_LOAD_UNIT / 10;
            config.fanout = 3;
            config.by_messages = true;
            config.arity = TRAFFIC_TREE_BINOMIAL;
            config.bytes = bytes;
            config.warmup_ps = 3000000;
            config.measure_ps = 12000000;
            result[t] = run_and_release(&config);
        }
        CU_ASSERT(draw_same_result(&result[1], &result[0]) &&
                  draw_same_result(&result[2], &result[0]));
    }
}

/* Another seed gives another run. */
static void traffic_run__digest_depends_on_the_seed(void)
{
    struct traffic_result result[3];

    for (uint64_t i = 0; i < 3; i++) {
        struct traffic_config config = draw_config_of("kary:2,2", "uniform");
        config.fabric.seed = 1 + i / 2;
        config.measure_ps = 20000000;
        result[i] = run_and_release(&config);
    }
    CU_ASSERT_EQUAL(result[0].digest, result[1].digest);
    CU_ASSERT_NOT_EQUAL(result[0].digest, result[2].digest);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"traffic_run__zero_load_latency_is_exact", traffic_run__zero_load_latency_is_exact},
        {"traffic_run__waiting_agrees_with_queueing_theory",
         traffic_run__waiting_agrees_with_queueing_theory},
        CASE_ALONE(traffic_run__interval_holds_the_mean),
        {"traffic_run__finds_slow_saturation", traffic_run__finds_slow_saturation},
        {"traffic_run__phases_may_be_shorter_than_a_latency",
         traffic_run__phases_may_be_shorter_than_a_latency},
        {"traffic_run__rare_messages_end_with_the_measurement",
         traffic_run__rare_messages_end_with_the_measurement},
        {"traffic_run__ends_on_request", traffic_run__ends_on_request},
        {"traffic_run__fails_if_the_last_snapshot_is_lost",
         traffic_run__fails_if_the_last_snapshot_is_lost},
        CASE_ALONE(traffic_coll_post__does_not_depend_on_windows),
        {"traffic_run__multicast_takes_no_longer_than_a_message",
         traffic_run__multicast_takes_no_longer_than_a_message},
        {"traffic_run__complement_at_full_load_loses_nothing",
         traffic_run__complement_at_full_load_loses_nothing},
        {"traffic_run__ends_past_saturation", traffic_run__ends_past_saturation},
        CASE_ALONE(traffic_run__multicast_by_messages_saturates_earlier),
        {"traffic_run__trees_forward_received_messages",
         traffic_run__trees_forward_received_messages},
        CASE_ALONE(traffic_run__trees_forward_before_a_switch_would),
        CASE_ALONE(traffic_run__trees_saturate),
        {"traffic_run__reports_sources_separately", traffic_run__reports_sources_separately},
        {"traffic_run__zero_load_latency_is_exact_with_packets",
         traffic_run__zero_load_latency_is_exact_with_packets},
        {"traffic_run__a_pair_fills_its_links", traffic_run__a_pair_fills_its_links},
        {"traffic_run__load_is_relative_to_all_links", traffic_run__load_is_relative_to_all_links},
        {"traffic_run__broadcast_takes_no_longer_than_a_packet",
         traffic_run__broadcast_takes_no_longer_than_a_packet},
        {"traffic_run__broadcast_uses_as_many_links_as_trees",
         traffic_run__broadcast_uses_as_many_links_as_trees},
        CASE_ALONE(traffic_run__collectives_are_right),
        CASE_ALONE(traffic_run__collectives_of_adapters_are_right),
        CASE_ALONE(traffic_run__barriers_suit_their_arrivals),
        {"traffic_run__priorities_protect_collectives",
         traffic_run__priorities_protect_collectives},
        {"traffic_run__storage_is_the_same_for_any_number_of_workers",
         traffic_run__storage_is_the_same_for_any_number_of_workers},
        {"traffic_run__refuses_storage_without_clients",
         traffic_run__refuses_storage_without_clients},
        {"traffic_run__refuses_a_skew_longer_than_the_interval",
         traffic_run__refuses_a_skew_longer_than_the_interval},
        {"traffic_run__refuses_impossible_groups", traffic_run__refuses_impossible_groups},
        {"traffic_run__digest_is_the_same_for_any_number_of_workers",
         traffic_run__digest_is_the_same_for_any_number_of_workers},
        {"traffic_run__acknowledged_digest_is_the_same_for_any_number_of_workers",
         traffic_run__acknowledged_digest_is_the_same_for_any_number_of_workers},
        {"traffic_run__digest_is_the_same_with_instant_adapters",
         traffic_run__digest_is_the_same_with_instant_adapters},
        {"traffic_run__digest_depends_on_the_seed", traffic_run__digest_depends_on_the_seed},
        {NULL, NULL},
    };
    int failed = test_run("traffic", cases);

    draw_end();
    return failed;
}
