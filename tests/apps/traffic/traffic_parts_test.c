/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_parts_test.c - the parts of synthetic traffic that need no fabric: random numbers,
 * patterns, destination sets, statistics, decisions about phases.
 */
#include "tests/test.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "apps/traffic/workload/pending.h"
#include "apps/traffic/workload/relay.h"
#include "apps/traffic/workload/stats.h"
#include "apps/traffic/workload/worker.h"
#include "apps/traffic/workload/pattern.h"
#include "apps/traffic/workload/phases.h"
#include "apps/traffic/workload/random.h"
#include "apps/traffic/workload/sets.h"
#include "emu/packet/packet.h"

/* Within 5 standard errors of the expected value: one false alarm in a million runs. */
static bool near(double got, double want, double error)
{
    bool good = fabs(got - want) <= 5 * error;

    if (!good)
        printf("got %.8f, want %.8f +- %.8f\n", got, want, error);
    return good;
}

/* --- random numbers ----------------------------------------------------------------- */

#define DRAWS 2000000

static void traffic_exp_init__table_is_minus_ln(void)
{
    struct traffic_exp table;
    double worst = 0;

    traffic_exp_init(&table);
    for (int i = 0; i <= 256; i++) {
        double want = -log(0.5 + i / 512.0) * 4294967296.0;
        double off = fabs(want - (double)table.minus_ln[i]);
        worst = off > worst ? off : worst;
    }
    CU_ASSERT(worst <= 0.51);
}

/* For u of every magnitude. */
static void traffic_exp_of__is_minus_ln(void)
{
    uint64_t seed = test_seed();
    struct traffic_exp table;
    double worst = 0;

    traffic_exp_init(&table);
    for (int i = 0; i < 500000; i++) {
        uint64_t u = test_random(&seed) >> (i % 64);
        double want = -log((double)(u | 1) / 18446744073709551616.0);
        double off = fabs(want - (double)traffic_exp_of(&table, u) / 4294967296.0);
        worst = off > worst ? off : worst;
    }
    CU_ASSERT(worst < 2.5e-6);
    CU_ASSERT(traffic_exp_of(&table, UINT64_MAX) < 2);
    CU_ASSERT(traffic_exp_of(&table, 0) == traffic_exp_of(&table, 1));
}

static void traffic_exp_ps__has_mean_variance_and_tail(void)
{
    const uint64_t mean_ps = 220215;
    struct traffic_random random;
    struct traffic_exp table;
    double sum = 0, squares = 0;
    double above[5] = {0};

    traffic_exp_init(&table);
    traffic_random_init(&random, test_seed(), 7, TRAFFIC_STREAM_GAPS);
    for (int i = 0; i < DRAWS; i++) {
        double gap = (double)traffic_exp_ps(&table, &random, mean_ps) / (double)mean_ps;
        sum += gap;
        squares += gap * gap;
        for (int k = 0; k < 5; k++)
            above[k] += gap > 2 * k + 1;
    }
    CU_ASSERT(near(sum / DRAWS, 1, 1 / sqrt(DRAWS)));
    CU_ASSERT(near(squares / DRAWS, 2, sqrt(20.0 / DRAWS)));
    for (int k = 0; k < 5; k++) {
        double want = exp(-2 * k - 1);
        CU_ASSERT(near(above[k] / DRAWS, want, sqrt(want * (1 - want) / DRAWS)));
    }
}

/* The digests of runs depend on these bits: a change would alter results on every host. */
static void traffic_random__bits_never_change(void)
{
    struct traffic_random random;
    struct traffic_exp table;
    uint64_t sum = 0;

    traffic_exp_init(&table);
    traffic_random_init(&random, 1, 0, TRAFFIC_STREAM_GAPS);
    for (int i = 0; i < 1000; i++)
        sum += traffic_exp_ps(&table, &random, 1000000);
    CU_ASSERT_EQUAL(sum, 988677988);
    CU_ASSERT_EQUAL(random.state, 0x564ca9d684a65192u);
}

static void traffic_random_init__streams_differ(void)
{
    struct traffic_random random[64];

    for (uint32_t i = 0; i < 64; i++)
        traffic_random_init(&random[i], i / 32, i / 4 % 8, (enum traffic_stream)(i % 4));
    for (uint32_t i = 0; i < 64; i++)
        for (uint32_t j = 0; j < i; j++)
            CU_ASSERT(random[i].state != random[j].state);
}

static void traffic_random_below__is_even(void)
{
    struct traffic_random random;
    uint32_t count[7] = {0};

    traffic_random_init(&random, test_seed(), 1, TRAFFIC_STREAM_PICKS);
    for (int i = 0; i < 700000; i++)
        count[traffic_random_below(&random, 7)]++;
    for (int i = 0; i < 7; i++)
        CU_ASSERT(near(count[i], 100000, sqrt(100000.0 * 6 / 7)));
}

/* --- messages on the wire ----------------------------------------------------------- */

static uint64_t packet_by_hand(uint32_t payload)
{
    uint64_t wire = 0;

    for (uint32_t i = 0; payload && i < emu_packet_segments(payload); i++)
        wire += emu_packet_wire_bytes(payload, i);
    return wire;
}

/* Packet by packet, as an adapter forms them from segments posted at one time. */
static uint64_t message_by_hand(const struct emu_profile *profile, uint64_t bytes)
{
    uint64_t wire = 0;
    uint32_t packet = 0; /* payload of the packet being formed */

    for (uint64_t segments = traffic_segments_of(bytes); segments; segments--) {
        uint32_t len = (uint32_t)(bytes < EMU_PAYLOAD_BYTES ? bytes : EMU_PAYLOAD_BYTES);
        uint32_t one = EMU_HDR_BYTES + len;
        if (emu_packet_segments(one) == 1 || packet + one > profile->packet_bytes) {
            wire += packet_by_hand(packet);
            packet = 0;
        }
        packet += one;
        bytes -= len;
    }
    return (wire + packet_by_hand(packet)) * profile->link_ps_per_byte;
}

static void traffic_message_wire_ps__counts_packets(void)
{
    static const uint64_t wire_bytes[][2] = {
        {0, 32},     {8, 40},          {224, 256},       {225, 261},
        {240, 276},  {241, 276 + 33},  {464, 276 + 256}, {465, 276 + 245},
        {960, 1056}, {961, 1056 + 33}, {1920, 2112},
    };
    struct emu_profile profile;
    uint64_t seed = test_seed();
    char error[128];

    CU_ASSERT_EQUAL(emu_profile_load(&profile, "qsnet3", error, sizeof error), 0);
    profile.transport = EMU_TRANSPORT_NONE;
    CU_ASSERT_EQUAL(traffic_message_wire_ps(&profile, 1000), 1080 * 400);
    profile.transport = EMU_TRANSPORT_ACKNOWLEDGED;
    for (size_t i = 0; i < sizeof wire_bytes / sizeof wire_bytes[0]; i++)
        CU_ASSERT_EQUAL(traffic_message_wire_ps(&profile, wire_bytes[i][0]),
                        400 * wire_bytes[i][1]);
    for (int i = 0; i < 2000; i++) {
        uint64_t bytes = test_random(&seed) % 20000;
        profile.packet_bytes = 256 + (uint32_t)(test_random(&seed) % 3841);
        CU_ASSERT_EQUAL(traffic_message_wire_ps(&profile, bytes), message_by_hand(&profile, bytes));
    }
}

/* --- patterns ----------------------------------------------------------------------- */

static struct traffic_pattern pattern_of(const char *text, uint32_t nodes)
{
    const struct topo_graph graph = {.spec = "net", .nodes = nodes};
    struct traffic_pattern pattern;
    char error[512] = "";

    if (traffic_pattern_parse(&pattern, text, &graph, error, sizeof error)) {
        printf("%s\n", error);
        CU_FAIL_FATAL("a good pattern was refused");
    }
    return pattern;
}

static bool sends(const char *text, uint32_t nodes, const uint32_t *want)
{
    struct traffic_pattern pattern = pattern_of(text, nodes);
    bool good = pattern.kind == TRAFFIC_FIXED;

    for (uint32_t n = 0; good && n < nodes; n++)
        good = pattern.to[n] == want[n];
    traffic_pattern_release(&pattern);
    return good;
}

#define SENDS(text, ...)                                                        \
    CU_ASSERT(sends(text, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), \
                    (uint32_t[]){__VA_ARGS__}))
#define NO TRAFFIC_NOBODY

static void traffic_pattern_parse__fixed_destinations(void)
{
    SENDS("complement", 7, 6, 5, 4, 3, 2, 1, 0);
    SENDS("complement", 4, 3, NO, 1, 0);
    SENDS("reversal", NO, 4, NO, 6, 1, NO, 3, NO);
    SENDS("transpose", NO, 4, 8, 12, 1, NO, 9, 13, 2, 6, NO, 14, 3, 7, 11, NO);
    SENDS("tornado", 3, 4, 5, 6, 7, 0, 1, 2);
    SENDS("tornado", 2, 3, 4, 0, 1);
    SENDS("neighbour", 1, 2, 3, 0);
}

static bool refuses(const char *text, uint32_t nodes, const char *word)
{
    const struct topo_graph graph = {.spec = "net", .nodes = nodes};
    struct traffic_pattern pattern;
    char error[512] = "";
    bool good = traffic_pattern_parse(&pattern, text, &graph, error, sizeof error) &&
                strstr(error, word) && !strchr(error, '\n') && !pattern.to;

    if (!good)
        printf("'%s': '%s'\n", text, error);
    return good;
}

static void traffic_pattern_parse__errors_name_the_valid_values(void)
{
    CU_ASSERT(refuses("", 16, "uniform, transpose"));
    CU_ASSERT(refuses("uniforms", 16, "no pattern 'uniforms'"));
    CU_ASSERT(refuses("transpose", 32, "power of four"));
    CU_ASSERT(refuses("transpose", 48, "not 48"));
    CU_ASSERT(refuses("reversal", 48, "power of two"));
    CU_ASSERT(refuses("hotspot:16", 16, "no node 16; net has nodes 0 to 15"));
    CU_ASSERT(refuses("hotspot:0:1.5", 16, "from 0 to 1"));
    CU_ASSERT(refuses("hotspot:0:", 16, "hotspot:NODE:FRACTION"));
    CU_ASSERT(refuses("hotspot:", 16, "hotspot:NODE:FRACTION"));
    CU_ASSERT(refuses("hotspot:0:nan", 16, "hotspot:NODE:FRACTION"));
    CU_ASSERT(refuses("hotspot:-1", 16, "no node -1"));
    CU_ASSERT(refuses("hotspot:0:0x1", 16, "hotspot:NODE:FRACTION"));
    CU_ASSERT(refuses("permutation:", 16, "permutation:NUMBER"));
    CU_ASSERT(refuses("permutation:0", 16, "1 or more"));
    CU_ASSERT(refuses("permutation:4294967296", 16, "1 or more"));
    CU_ASSERT(refuses("permutation:-1", 16, "permutation:NUMBER"));
    CU_ASSERT(refuses("permutation:1x", 16, "permutation:NUMBER"));
    CU_ASSERT(refuses("permutations", 16, "no pattern 'permutations'"));
    CU_ASSERT(refuses("file:/no/such/file", 16, "/no/such/file"));
    CU_ASSERT(refuses("file:/tmp", 16, "Is a directory"));
    CU_ASSERT(refuses("file:/dev/zero", 16, "File too large"));
}

static const char *file_with(const char *text)
{
    static char name[64];
    snprintf(name, sizeof name, "file:/tmp/traffic-pattern.%d", (int)getpid());
    FILE *file = fopen(name + 5, "w");

    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
    return name;
}

static void traffic_pattern_parse__reads_files(void)
{
    SENDS(file_with("3\n2\n1\n0\n"), 3, 2, 1, 0);
    SENDS(file_with("# who to whom\n\n 1 # first\r\n0\n"), 1, 0, NO, NO);
    SENDS(file_with("3 0\n0 3\n1 1"), 3, NO, NO, 0);
    CU_ASSERT(refuses(file_with(""), 4, "no destinations"));
    CU_ASSERT(refuses(file_with("0\n1\n2\n3\n\n0\n"), 4, "line 6: the file has more destinations"));
    CU_ASSERT(refuses(file_with("0 9\n"), 4, "line 1: there is no node 9"));
    CU_ASSERT(refuses(file_with("0 1\n0 2\n"), 4, "line 2: node 0 has a destination"));
    CU_ASSERT(refuses(file_with("0 1\n#\n2 1\n"), 4, "line 3: node 1 is the destination of"));
    CU_ASSERT(refuses(file_with("0 1\n2\n"), 4, "line 2: some lines"));
    CU_ASSERT(refuses(file_with("0 1 2\n"), 4, "line 1: a line must have"));
    CU_ASSERT(refuses(file_with("one\n"), 4, "line 1: there is no node one"));
    CU_ASSERT(refuses(file_with("1x\n"), 4, "line 1: there is no node 1x"));
    char text[5000] = "1\n#";
    memset(text + 3, '-', 4093);
    strcpy(text + 3 + 4093, "\n2\n"); /* 4094 characters and a newline: they fit */
    SENDS(file_with(text), 1, 2, NO);
    strcpy(text + 3 + 4093, "-\n2\n");
    CU_ASSERT(refuses(file_with(text), 4, "line 2: the line is too long"));
    unlink(file_with("") + 5);
}

/*
 * The destinations of a random permutation, as digits; checks that it is one, without fixed points.
 */
static uint32_t drawn(const char *text, uint32_t nodes, uint64_t seed)
{
    struct traffic_pattern asked = pattern_of(text, nodes), pattern;
    uint32_t digits = 0, seen = 0;

    CU_ASSERT_EQUAL(asked.kind, TRAFFIC_PERMUTATION);
    CU_ASSERT_EQUAL_FATAL(traffic_pattern_draw(&pattern, &asked, seed), 0);
    CU_ASSERT_EQUAL(pattern.kind, TRAFFIC_FIXED);
    for (uint32_t n = 0; n < nodes; n++) {
        CU_ASSERT_NOT_EQUAL(pattern.to[n], n);
        seen |= 1u << pattern.to[n];
        digits = 10 * digits + pattern.to[n];
    }
    CU_ASSERT_EQUAL(seen, (1u << nodes) - 1);
    traffic_pattern_release(&pattern);
    traffic_pattern_release(&asked);
    return digits;
}

static void traffic_pattern_draw__favours_none(void)
{
    static const uint32_t all[] = {1032, 1230, 1302, 2301, 2310, 3012, 3201, 3210, 2031};
    uint32_t count[9] = {0};
    uint64_t seed = test_seed();

    for (int i = 0; i < 9000; i++) {
        uint32_t got = drawn("permutation", 4, seed + (uint64_t)i);
        for (int k = 0; k < 9; k++)
            count[k] += got == all[k];
    }
    for (int k = 0; k < 9; k++)
        CU_ASSERT(near(count[k], 1000, sqrt(1000 * 8 / 9.0)));
    CU_ASSERT_EQUAL(drawn("permutation", 8, 1), drawn("permutation:1", 8, 1));
    CU_ASSERT_NOT_EQUAL(drawn("permutation:2", 8, 1), drawn("permutation:1", 8, 1));
    CU_ASSERT_NOT_EQUAL(drawn("permutation", 8, 2), drawn("permutation:1", 8, 1));
    CU_ASSERT_EQUAL(drawn("permutation:4294967295", 2, 1), 10);
}

static void traffic_other__is_never_oneself_and_even(void)
{
    struct traffic_random random;
    uint32_t count[5] = {0};

    traffic_random_init(&random, test_seed(), 3, TRAFFIC_STREAM_PICKS);
    for (int i = 0; i < 400000; i++)
        count[traffic_other(&random, 5, 3)]++;
    for (uint32_t n = 0; n < 5; n++)
        CU_ASSERT(near(count[n], n == 3 ? 0 : 100000, n == 3 ? 0 : sqrt(75000.0)));
}

static void traffic_hot_or_other__gives_the_fraction(void)
{
    struct traffic_pattern pattern = pattern_of("hotspot:2:0.25", 5);
    struct traffic_random random;
    uint32_t hot = 0, own = 0;

    traffic_random_init(&random, test_seed(), 1, TRAFFIC_STREAM_PICKS);
    for (int i = 0; i < 400000; i++) {
        hot += traffic_hot_or_other(&pattern, &random, 1) == 2;
        own += traffic_hot_or_other(&pattern, &random, 2) == 2;
    }
    double want = 0.25 + 0.75 / 4;
    CU_ASSERT(near(hot, 400000 * want, sqrt(400000 * want * (1 - want))));
    CU_ASSERT_EQUAL(own, 0);
    pattern = pattern_of("hotspot", 5);
    CU_ASSERT_EQUAL(pattern.hot, 0);
    CU_ASSERT(near(pattern.share / 4294967296.0, 0.1, 1e-9));
    pattern = pattern_of("hotspot:4:1", 5);
    CU_ASSERT_EQUAL(traffic_hot_or_other(&pattern, &random, 0), 4);
}

static void traffic_next_in_turn__begins_after_oneself(void)
{
    uint32_t at = 2;

    at = traffic_next_in_turn(4, 2, at);
    CU_ASSERT_EQUAL(at, 3);
    at = traffic_next_in_turn(4, 2, at);
    CU_ASSERT_EQUAL(at, 0);
    at = traffic_next_in_turn(4, 2, at);
    CU_ASSERT_EQUAL(at, 1);
    CU_ASSERT_EQUAL(traffic_next_in_turn(4, 2, at), 3);
    CU_ASSERT_EQUAL(traffic_next_in_turn(4, 0, 3), 1);
    CU_ASSERT_EQUAL(traffic_next_in_turn(4, 3, 2), 0);
    CU_ASSERT_EQUAL(traffic_next_in_turn(2, 1, 0), 0);
}

/* --- sources and sets --------------------------------------------------------------- */

static void traffic_sources_choose__spreads(void)
{
    struct traffic_sources sources = {.count = 0};
    bool chosen[10];

    traffic_sources_choose(&sources, 1, 10, chosen);
    for (int n = 0; n < 10; n++)
        CU_ASSERT(chosen[n]);
    CU_ASSERT(traffic_sources_parse(&sources, "4"));
    traffic_sources_choose(&sources, 1, 10, chosen);
    CU_ASSERT(chosen[0] && chosen[2] && chosen[5] && chosen[7]);
    CU_ASSERT(traffic_sources_parse(&sources, "first:2"));
    traffic_sources_choose(&sources, 1, 10, chosen);
    CU_ASSERT(chosen[0] && chosen[1] && !chosen[2] && !chosen[9]);
    CU_ASSERT(!traffic_sources_parse(&sources, "last:2"));
    CU_ASSERT(!traffic_sources_parse(&sources, "0"));
    CU_ASSERT(!traffic_sources_parse(&sources, "first:"));
    CU_ASSERT(!traffic_sources_parse(&sources, "3x"));
}

static void traffic_sources_choose__draws_as_many(void)
{
    struct traffic_sources sources;
    uint32_t times[10] = {0};

    CU_ASSERT(traffic_sources_parse(&sources, "random:3"));
    for (uint64_t seed = 0; seed < 20000; seed++) {
        bool chosen[10];
        uint32_t count = 0;
        traffic_sources_choose(&sources, test_seed() + seed, 10, chosen);
        for (int n = 0; n < 10; n++) {
            count += chosen[n];
            times[n] += chosen[n];
        }
        CU_ASSERT_EQUAL(count, 3);
    }
    for (int n = 0; n < 10; n++)
        CU_ASSERT(near(times[n], 6000, sqrt(20000 * 0.3 * 0.7)));
}

/* Draws sets and checks each; returns the mean fanout. */
static double sets_mean(enum traffic_distribution law, double fanout, uint32_t nodes,
                        double *deviation)
{
    bool all[64];
    struct traffic_sets_config config = {.nodes = nodes,
                                         .sends = all,
                                         .fanout = fanout,
                                         .law = law,
                                         .per_source = 20000 / nodes,
                                         .seed = test_seed()};
    struct traffic_sets sets;
    double squares = 0;
    char error[256] = "";

    memset(all, 1, sizeof all);
    if (traffic_sets_draw(&sets, &config, error, sizeof error)) {
        printf("%s\n", error);
        CU_FAIL_FATAL("good sets were refused");
    }
    for (uint32_t set = 0; set < sets.count; set++) {
        uint64_t seen = 1ull << sets.source[set];
        uint32_t count = traffic_sets_fanout(&sets, set);
        CU_ASSERT_EQUAL(sets.source[set], set / config.per_source);
        CU_ASSERT(count >= 1 && count <= nodes - 1 && count <= sets.fanout_max);
        for (uint32_t i = sets.first[set]; i < sets.first[set + 1]; i++) {
            CU_ASSERT(!(seen >> sets.member[i] & 1) && sets.member[i] < nodes);
            seen |= 1ull << sets.member[i];
        }
        squares += (count - fanout) * (count - fanout);
    }
    double mean = (double)sets.first[sets.count] / sets.count;
    *deviation = sqrt(squares / sets.count);
    traffic_sets_release(&sets);
    return mean;
}

static void traffic_sets_draw__has_the_mean_of_each_law(void)
{
    const double root = sqrt(20000);
    double deviation;

    CU_ASSERT(near(sets_mean(TRAFFIC_DISTRIBUTION_FIXED, 4, 8, &deviation), 4, 0));
    CU_ASSERT(near(sets_mean(TRAFFIC_DISTRIBUTION_FIXED, 2.25, 8, &deviation), 2.25, 0.45 / root));
    CU_ASSERT(near(sets_mean(TRAFFIC_DISTRIBUTION_UNIFORM, 4, 8, &deviation), 4, 2.0 / root));
    CU_ASSERT(near(deviation, 2, 0.01));
    CU_ASSERT(near(sets_mean(TRAFFIC_DISTRIBUTION_UNIFORM, 8.3, 64, &deviation), 8.3, 4.6 / root));
    CU_ASSERT(near(sets_mean(TRAFFIC_DISTRIBUTION_BINOMIAL, 4, 8, &deviation), 4, 1.3 / root));
    CU_ASSERT(near(deviation, sqrt(7 * 4 / 7.0 * 3 / 7.0), 0.01));
    CU_ASSERT(near(sets_mean(TRAFFIC_DISTRIBUTION_BINOMIAL, 1.5, 64, &deviation), 1.5, 1.0 / root));
    CU_ASSERT(near(sets_mean(TRAFFIC_DISTRIBUTION_BINOMIAL, 1, 64, &deviation), 1, 0));
    CU_ASSERT(near(sets_mean(TRAFFIC_DISTRIBUTION_BINOMIAL, 63, 64, &deviation), 63, 0));
}

/* Every node is in a set as often as any other, and as often first. */
static void traffic_sets_draw__favours_nobody(void)
{
    bool all[8] = {true};
    struct traffic_sets_config config = {.nodes = 8,
                                         .sends = all,
                                         .fanout = 3,
                                         .law = TRAFFIC_DISTRIBUTION_FIXED,
                                         .per_source = 50000,
                                         .seed = test_seed()};
    uint32_t in[8] = {0}, first[8] = {0};
    struct traffic_sets sets;
    char error[256];

    CU_ASSERT_EQUAL_FATAL(traffic_sets_draw(&sets, &config, error, sizeof error), 0);
    CU_ASSERT_EQUAL(sets.count, 50000);
    for (uint32_t set = 0; set < sets.count; set++) {
        first[sets.member[sets.first[set]]]++;
        for (uint32_t i = sets.first[set]; i < sets.first[set + 1]; i++)
            in[sets.member[i]]++;
    }
    for (int n = 1; n < 8; n++) {
        CU_ASSERT(near(in[n], 150000.0 / 7, sqrt(50000 * 3 / 7.0 * 4 / 7.0)));
        CU_ASSERT(near(first[n], 50000.0 / 7, sqrt(50000 / 7.0 * 6 / 7.0)));
    }
    traffic_sets_release(&sets);
}

static void traffic_sets_draw__refuses_impossible_fanouts(void)
{
    bool all[8] = {true};
    struct traffic_sets_config config = {.nodes = 8, .sends = all, .per_source = 1};
    struct traffic_sets sets;
    char error[256];

    config.fanout = 4.5;
    CU_ASSERT_EQUAL(traffic_sets_draw(&sets, &config, error, sizeof error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "from 1 to 4"));
    config.law = TRAFFIC_DISTRIBUTION_BINOMIAL;
    CU_ASSERT_EQUAL(traffic_sets_draw(&sets, &config, error, sizeof error), 0);
    traffic_sets_release(&sets);
    config.fanout = 7.5;
    CU_ASSERT_EQUAL(traffic_sets_draw(&sets, &config, error, sizeof error), -EINVAL);
    config.fanout = 0.5;
    CU_ASSERT_EQUAL(traffic_sets_draw(&sets, &config, error, sizeof error), -EINVAL);
}

/* --- message parts ------------------------------------------------------------------ */

/*
 * Compared with a list: messages of up to 5 parts in any order; the table always has the least
 * possible size.
 */
/* Each node but the root is the child of an earlier one; returns the depth. */
static uint32_t tree_depth(uint32_t arity, uint32_t last)
{
    uint32_t depth[301] = {0}, deepest = 0;
    bool reached[301] = {true};

    for (uint32_t position = 0; position <= last; position++) {
        uint32_t before = position;
        CU_ASSERT(reached[position]);
        deepest = depth[position] > deepest ? depth[position] : deepest;
        for (uint32_t child = 0; (child = traffic_tree_next(arity, position, child, last));) {
            CU_ASSERT_FATAL(child > before && child <= last && !reached[child]);
            reached[child] = true;
            depth[child] = depth[position] + 1;
            before = child;
        }
    }
    return deepest;
}

static void traffic_tree_next__reaches_each_once(void)
{
    static const uint32_t arities[] = {TRAFFIC_TREE_BINOMIAL, 1, 2, 3, 8, 65536, TRAFFIC_TREE_FLAT};

    for (size_t i = 0; i < sizeof arities / sizeof arities[0]; i++)
        for (uint32_t last = 1; last <= 300; last += 1 + last / 10)
            tree_depth(arities[i], last);
    CU_ASSERT_EQUAL(tree_depth(TRAFFIC_TREE_BINOMIAL, 255), 8);
    /* 2^8 is a direct child of the root */
    CU_ASSERT_EQUAL(tree_depth(TRAFFIC_TREE_BINOMIAL, 256), 8);
    CU_ASSERT_EQUAL(tree_depth(1, 300), 300);
    CU_ASSERT_EQUAL(tree_depth(4, 84), 3);
    CU_ASSERT_EQUAL(tree_depth(4, 85), 4);
    CU_ASSERT_EQUAL(tree_depth(TRAFFIC_TREE_FLAT, 300), 1);
    CU_ASSERT_EQUAL(traffic_tree_next(65536, UINT32_MAX - 1, 0, UINT32_MAX), 0);
    CU_ASSERT_EQUAL(traffic_tree_next(0, UINT32_MAX - 1, 0, UINT32_MAX), 0);
}

static void traffic_relay_reserve__keeps_the_order(void)
{
    struct traffic_relay relay = {.count = 0};
    struct traffic_relay_item item = {.set = 0};
    uint32_t first = 0;

    for (uint32_t round = 0; round < 10; round++) {
        CU_ASSERT_EQUAL_FATAL(traffic_relay_reserve(&relay, 100), 0);
        for (uint32_t i = 0; i < 100; i++, item.set++)
            traffic_relay_add(&relay, &item);
        for (uint32_t i = 0; i < 70; i++, first++) {
            CU_ASSERT_EQUAL(traffic_relay_front(&relay)->set, first);
            traffic_relay_skip(&relay);
        }
    }
    CU_ASSERT(!relay.full && relay.count == 300);
    while (relay.count <= relay.mask)
        traffic_relay_add(&relay, &item);
    traffic_relay_add(&relay, &item);
    CU_ASSERT(relay.full && relay.count == relay.mask + 1 &&
              traffic_relay_front(&relay)->set == first);
    traffic_relay_release(&relay);
}

static void traffic_pending_arrive__finds_the_last(void)
{
    struct {
        uint64_t birth_ps, last_ps;
        uint32_t src, of, left;
    } open[300];
    struct traffic_pending pending = {.used = 0};
    uint64_t seed = test_seed();
    uint32_t count = 0;

    for (int i = 0; i < 200000; i++) {
        uint32_t at = (uint32_t)(test_random(&seed) % 300);
        uint64_t time_ps = test_random(&seed) % 1000000, last_ps = 0;
        if (at >= count) {
            at = count++;
            open[at].birth_ps = test_random(&seed) % 50;
            open[at].src = (uint32_t)i;
            open[at].of = open[at].left = (uint32_t)(test_random(&seed) % 5 + 1);
            open[at].last_ps = 0;
            CU_ASSERT_EQUAL(traffic_pending_reserve(&pending, 1, UINT64_MAX), 0);
        }
        struct traffic_part part = {open[at].birth_ps, time_ps, open[at].src, open[at].of};
        bool whole = traffic_pending_arrive(&pending, &part, &last_ps);
        open[at].last_ps = time_ps > open[at].last_ps ? time_ps : open[at].last_ps;
        CU_ASSERT_EQUAL(whole, --open[at].left == 0);
        if (!whole)
            continue;
        CU_ASSERT_EQUAL(last_ps, open[at].last_ps);
        open[at] = open[--count];
    }
    CU_ASSERT_EQUAL(pending.used, count);
    CU_ASSERT(pending.mask + 1 <= 1024);
    CU_ASSERT(!pending.full);
    traffic_pending_release(&pending);
}

/* --- statistics --------------------------------------------------------------------- */

static void traffic_bucket_of__is_within_half_a_percent(void)
{
    uint64_t seed = test_seed();
    uint32_t last = 0;

    for (uint64_t value = 0; value < 100000; value++) {
        uint32_t bucket = traffic_bucket_of(value);
        CU_ASSERT(bucket == last || bucket == last + 1);
        last = bucket;
    }
    for (int i = 0; i < 200000; i++) {
        uint64_t value = test_random(&seed) >> (i % 64);
        uint64_t middle = traffic_bucket_middle(traffic_bucket_of(value));
        double off = fabs((double)value - (double)middle);
        CU_ASSERT(traffic_bucket_of(value) < TRAFFIC_BUCKETS);
        CU_ASSERT(off <= (double)value / 256);
    }
    CU_ASSERT_EQUAL(traffic_bucket_of(UINT64_MAX), TRAFFIC_BUCKETS - 1);
}

static void traffic_batch_at__cuts_exactly(void)
{
    uint64_t seed = test_seed();

    for (int i = 0; i < 2000; i++) {
        struct traffic_phase phase = traffic_phase_of(0, 1 + (test_random(&seed) >> (20 + i % 40)));
        uint32_t batch = (uint32_t)(test_random(&seed) % TRAFFIC_BATCHES);
        CU_ASSERT_EQUAL(traffic_batch_at(&phase, batch * phase.batch_ps), batch);
        CU_ASSERT_EQUAL(traffic_batch_at(&phase, (batch + 1) * phase.batch_ps - 1), batch);
        CU_ASSERT_EQUAL(traffic_batch_at(&phase, phase.measure_ps - 1), TRAFFIC_BATCHES - 1);
    }
}

static void traffic_latency_of__mean_is_exact_and_percentiles_near(void)
{
    struct traffic_stats *stats = malloc(2 * sizeof *stats);
    struct traffic_phase phase = traffic_phase_of(1000, 30000);
    struct traffic_latency latency;

    traffic_stats_init(&stats[0], &phase);
    traffic_stats_init(&stats[1], &phase);
    for (uint64_t i = 0; i < 30000; i++) /* latencies 1000000 to 1029999, in two accumulators */
        traffic_stats_latency(&stats[i % 2], 1000 + i, 1000 + i + 1000000 + i * 7919 % 30000);
    traffic_stats_latency(&stats[0], 999, 5); /* before and after the window: not measured */
    traffic_stats_latency(&stats[0], 31000, 90000);
    traffic_stats_add(&stats[0], &stats[1]);
    traffic_latency_of(&latency, &stats[0]);
    CU_ASSERT_EQUAL(latency.messages, 30000);
    CU_ASSERT_EQUAL(latency.mean_ps, 1015000); /* 1014999.5 */
    CU_ASSERT_EQUAL(latency.least_ps, 1000000);
    CU_ASSERT_EQUAL(latency.most_ps, 1029999);
    CU_ASSERT(fabs((double)latency.median_ps / 1015000 - 1) < 0.005);
    CU_ASSERT(fabs((double)latency.p99_ps / 1029700 - 1) < 0.005);
    CU_ASSERT(latency.mean_ci95_ps > 0);
    traffic_stats_init(&stats[0], &phase);
    traffic_latency_of(&latency, &stats[0]);
    CU_ASSERT(latency.messages == 0 && latency.mean_ci95_ps < 0);
    free(stats);
}

/* One value has no variance: the interval is empty, and every percentile is that value. */
static void traffic_latency_of__one_value_is_exact(void)
{
    struct traffic_stats *stats = malloc(sizeof *stats);
    struct traffic_phase phase = traffic_phase_of(0, 3000);
    struct traffic_latency latency;

    traffic_stats_init(stats, &phase);
    for (uint64_t i = 0; i < 3000; i++)
        traffic_stats_latency(stats, i, i + 3154800);
    traffic_latency_of(&latency, stats);
    CU_ASSERT(latency.mean_ps == 3154800 && latency.median_ps == 3154800);
    CU_ASSERT(latency.p99_ps == 3154800 && latency.mean_ci95_ps == 0);
    free(stats);
}

/* Batches whose latencies depend on the previous batch by the factor @memory. */
static double ci95_with(uint64_t *seed, double memory)
{
    struct traffic_stats *stats = malloc(sizeof *stats);
    struct traffic_phase phase = traffic_phase_of(0, 3000);
    struct traffic_latency latency;
    double value = 0;

    traffic_stats_init(stats, &phase);
    for (uint64_t i = 0; i < TRAFFIC_BATCHES; i++) {
        value = memory * value + (double)(test_random(seed) >> 11) / 9007199254740992.0 - 0.5;
        traffic_stats_latency(stats, 100 * i, 100 * i + 1000000 + (uint64_t)(1000 * (value + 100)));
    }
    traffic_latency_of(&latency, stats);
    free(stats);
    return latency.mean_ci95_ps;
}

static void traffic_latency_of__gives_no_interval_for_correlated_batches(void)
{
    uint64_t seed = test_seed();
    int unknown[3] = {0};

    for (int i = 0; i < 300; i++) {
        unknown[0] += ci95_with(&seed, 0) < 0;
        unknown[1] += ci95_with(&seed, 0.5) < 0;
        unknown[2] += ci95_with(&seed, 0.999) < 0;
    }
    CU_ASSERT(unknown[0] <= 3 && unknown[1] < 90 && unknown[2] > 150);
}

/* Normal batches: 95 of 100 intervals cover the mean. */
static void traffic_mean_of__covers(void)
{
    uint64_t seed = test_seed();
    uint32_t held = 0;

    for (int run = 0; run < 4000; run++) {
        double value[TRAFFIC_BATCHES];
        for (int i = 0; i < TRAFFIC_BATCHES; i++) {
            value[i] = -6;
            for (int k = 0; k < 12; k++)
                value[i] += (double)test_random(&seed) / 18446744073709551616.0;
        }
        struct traffic_mean mean = traffic_mean_of(value);
        held += fabs(mean.mean) <= mean.ci95;
    }
    CU_ASSERT(near(held, 3800, sqrt(4000 * 0.95 * 0.05)));
}

static void traffic_digest__depends_on_everything(void)
{
    uint64_t digest = traffic_digest(1, 2, 3, 4);

    CU_ASSERT(digest != traffic_digest(0, 2, 3, 4));
    CU_ASSERT(digest != traffic_digest(1, 1, 3, 4));
    CU_ASSERT(digest != traffic_digest(1, 2, 2, 4));
    CU_ASSERT(digest != traffic_digest(1, 2, 3, 5));
    CU_ASSERT(traffic_digest(traffic_digest(1, 2, 3, 4), 5, 6, 7) !=
              traffic_digest(traffic_digest(1, 5, 6, 7), 2, 3, 4));
}

/* --- phases ------------------------------------------------------------------------- */

static void traffic_phases_choose__grows_near_saturation(void)
{
    struct traffic_scale scale = {.longest_ps = 3154800, .wire_ps = 204800, .links = 256};
    uint64_t warm_ps[4], measure_ps[4];
    const uint64_t load[4] = {1000, 500000000, 950000000, 1500000000};

    for (int i = 0; i < 4; i++) {
        scale.load = load[i];
        traffic_phases_choose(&warm_ps[i], &measure_ps[i], &scale);
        CU_ASSERT(warm_ps[i] >= 20000000 && measure_ps[i] >= 200000000);
        CU_ASSERT(warm_ps[i] <= 20000000000 && measure_ps[i] <= 20000000000);
    }
    CU_ASSERT_EQUAL(measure_ps[0], 20000000000);
    CU_ASSERT_EQUAL(measure_ps[1], 200000000);
    CU_ASSERT(warm_ps[2] > 3 * warm_ps[1]);
    CU_ASSERT_EQUAL(warm_ps[3], warm_ps[1]);
}

/* Growth @early in the first half and @late in the second, with noise. */
static bool saturated(uint64_t *seed, double early, double late)
{
    double offered[TRAFFIC_BATCHES], accepted[TRAFFIC_BATCHES], growth[TRAFFIC_BATCHES];

    for (int i = 0; i < TRAFFIC_BATCHES; i++) {
        double noise = (double)test_random(seed) / 18446744073709551616.0 * 0.02 - 0.01;
        growth[i] = (i < TRAFFIC_BATCHES / 2 ? early : late) + noise;
        offered[i] = 0.9 + noise;
        accepted[i] = offered[i] - growth[i];
    }
    return traffic_saturated(offered, accepted, growth);
}

static void traffic_saturated__needs_growth_to_the_end(void)
{
    uint64_t seed = test_seed();
    uint32_t false_alarms = 0;

    for (int i = 0; i < 200; i++) {
        CU_ASSERT(saturated(&seed, 0.05, 0.05));
        CU_ASSERT(saturated(&seed, 0.01, 0.02));
        CU_ASSERT(!saturated(&seed, 0.05, -0.05));
        false_alarms += saturated(&seed, 0, 0) + saturated(&seed, 0.05, 0);
    }
    CU_ASSERT(false_alarms < 40); /* 400 tries at 2.5 % each */
}

/* Noise of 1 around 100, and a slope over all batches. */
static bool steady(uint64_t *seed, double slope, double grows)
{
    double latency[TRAFFIC_BATCHES], growth[TRAFFIC_BATCHES];

    for (int i = 0; i < TRAFFIC_BATCHES; i++) {
        double noise = (double)test_random(seed) / 18446744073709551616.0 * 2 - 1;
        latency[i] = 100 + noise + slope * i / TRAFFIC_BATCHES;
        growth[i] = grows + noise / 10;
    }
    return traffic_steady(latency, growth);
}

static void traffic_steady__is_without_drift(void)
{
    uint64_t seed = test_seed();
    int wrong = 0;

    for (int i = 0; i < 300; i++) {
        CU_ASSERT(!steady(&seed, 10, 0));
        CU_ASSERT(!steady(&seed, -10, 0));
        CU_ASSERT(!steady(&seed, 0, 0.1));
        wrong += !steady(&seed, 0, -0.1);
        wrong += !steady(&seed, 0, 0);
    }
    CU_ASSERT(wrong < 30);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"traffic_exp_init__table_is_minus_ln", traffic_exp_init__table_is_minus_ln},
        {"traffic_exp_of__is_minus_ln", traffic_exp_of__is_minus_ln},
        {"traffic_exp_ps__has_mean_variance_and_tail", traffic_exp_ps__has_mean_variance_and_tail},
        {"traffic_random__bits_never_change", traffic_random__bits_never_change},
        {"traffic_random_init__streams_differ", traffic_random_init__streams_differ},
        {"traffic_random_below__is_even", traffic_random_below__is_even},
        {"traffic_pattern_parse__fixed_destinations", traffic_pattern_parse__fixed_destinations},
        {"traffic_pattern_parse__errors_name_the_valid_values",
         traffic_pattern_parse__errors_name_the_valid_values},
        {"traffic_pattern_parse__reads_files", traffic_pattern_parse__reads_files},
        {"traffic_pattern_draw__favours_none", traffic_pattern_draw__favours_none},
        {"traffic_message_wire_ps__counts_packets", traffic_message_wire_ps__counts_packets},
        {"traffic_tree_next__reaches_each_once", traffic_tree_next__reaches_each_once},
        {"traffic_relay_reserve__keeps_the_order", traffic_relay_reserve__keeps_the_order},
        {"traffic_other__is_never_oneself_and_even", traffic_other__is_never_oneself_and_even},
        {"traffic_hot_or_other__gives_the_fraction", traffic_hot_or_other__gives_the_fraction},
        {"traffic_next_in_turn__begins_after_oneself", traffic_next_in_turn__begins_after_oneself},
        {"traffic_sources_choose__spreads", traffic_sources_choose__spreads},
        {"traffic_sources_choose__draws_as_many", traffic_sources_choose__draws_as_many},
        {"traffic_sets_draw__has_the_mean_of_each_law",
         traffic_sets_draw__has_the_mean_of_each_law},
        {"traffic_sets_draw__favours_nobody", traffic_sets_draw__favours_nobody},
        {"traffic_sets_draw__refuses_impossible_fanouts",
         traffic_sets_draw__refuses_impossible_fanouts},
        {"traffic_pending_arrive__finds_the_last", traffic_pending_arrive__finds_the_last},
        {"traffic_bucket_of__is_within_half_a_percent",
         traffic_bucket_of__is_within_half_a_percent},
        {"traffic_batch_at__cuts_exactly", traffic_batch_at__cuts_exactly},
        {"traffic_latency_of__mean_is_exact_and_percentiles_near",
         traffic_latency_of__mean_is_exact_and_percentiles_near},
        {"traffic_latency_of__one_value_is_exact", traffic_latency_of__one_value_is_exact},
        {"traffic_latency_of__gives_no_interval_for_correlated_batches",
         traffic_latency_of__gives_no_interval_for_correlated_batches},
        {"traffic_mean_of__covers", traffic_mean_of__covers},
        {"traffic_digest__depends_on_everything", traffic_digest__depends_on_everything},
        {"traffic_phases_choose__grows_near_saturation",
         traffic_phases_choose__grows_near_saturation},
        {"traffic_saturated__needs_growth_to_the_end", traffic_saturated__needs_growth_to_the_end},
        {"traffic_steady__is_without_drift", traffic_steady__is_without_drift},
        {NULL, NULL},
    };

    return test_run("traffic_parts", cases);
}
