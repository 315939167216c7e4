/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ack.c - what acknowledgments cost on clock raw: the router with virtual
 * channels beside the crosspoint switch.
 *
 * Both carry the same traffic with the same profile, in turns, a sample each,
 * so that a drift of the machine hits both alike; a ratio or a difference is
 * the median of the rounds'. A hop is a segment that leaves a switch, with its
 * share of everything else: of its packet's reply, and of the adapters' work at
 * both ends. The split takes that apart by how far packets go: what is the same
 * over 1 switch and over 5 is the ends', the rest the switches'.
 */
#include <stdio.h>
#include <string.h>

#include "apps/bench/ack/bare.h"
#include "apps/bench/hops.h"
#include "apps/bench/internal.h"

#define PROFILE "qsnet3"
#define NEAR    1 /* switches on the way */
#define FAR     5

enum { NONE, ACK, TRANSPORTS };

/* --- fabrics in turns --------------------------------------------------------------- */

/* Open all, and let their queues fill. 0, or an error with its line; close all in any case. */
static int open_all(const struct bench *bench, struct bench_hops *hops,
                    const struct bench_hops_case *cases, unsigned count, char *error,
                    size_t error_bytes)
{
    int err = 0;

    memset(hops, 0, count * sizeof *hops);
    for (unsigned i = 0; i < count && !err; i++) {
        err = bench_hops_open(&hops[i], &cases[i], 0, error, error_bytes);
        if (!err)
            bench_hops_step(&hops[i], bench_sample_ns(bench));
        hops[i].cpu_ns = hops[i].wall_ns = 0;
    }
    return err;
}

static void close_all(struct bench_hops *hops, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        bench_hops_close(&hops[i]);
}

static const char *wrong_of_all(struct bench_hops *hops, unsigned count)
{
    const char *wrong = NULL;

    for (unsigned i = 0; i < count && !wrong; i++)
        wrong = bench_hops_wrong(&hops[i]);
    return wrong;
}

static struct json_object *conditions_of(const struct bench_hops *hops,
                                         const struct bench_hops_case *what, double packet)
{
    struct json_object *own = bench_hops_conditions(hops, what);
    char segments[16];

    snprintf(segments, sizeof segments, "%.1f", packet);
    json_object_object_add(own, "profile", json_object_new_string(what->profile));
    json_object_object_add(own, "transport",
                           json_object_new_string(what->acknowledged ? "acknowledged" : "none"));
    if (what->acknowledged)
        json_object_object_add(own, "segments_a_packet",
                               json_object_new_double_s(packet, segments));
    return own;
}

/* --- hops: acknowledged beside not -------------------------------------------------- */

struct pair_results {
    struct bench_samples mhops[TRANSPORTS];
    struct bench_samples times;
    struct bench_samples added_ns;
    double packet;
};

static void pair_rows(struct bench *bench, const char *name, const struct bench_hops *hops,
                      const struct bench_hops_case *cases, const struct pair_results *results,
                      const char *error)
{
    static const char *const who[TRANSPORTS] = {[NONE] = "none", [ACK] = "ack"};
    struct bench_row row = {.unit = "Mhops/s", .error = error};
    char text[96];

    row.name = text;
    for (int i = 0; i < TRANSPORTS; i++) {
        snprintf(text, sizeof text, "ack.hops.%s.%s", name, who[i]);
        row.samples = &results->mhops[i];
        row.conditions = error ? NULL : conditions_of(&hops[i], &cases[i], results->packet);
        bench_row(bench, &row);
    }
    if (error)
        return;
    snprintf(text, sizeof text, "ack.hops.%s none/ack", name);
    row.unit = "x";
    row.samples = &results->times;
    row.conditions = NULL;
    bench_row(bench, &row);
    snprintf(text, sizeof text, "ack.hops.%s.added", name);
    row.unit = "ns";
    row.samples = &results->added_ns;
    bench_row(bench, &row);
}

/* @what: of the acknowledged one; the other differs in nothing else. */
static void pair(struct bench *bench, const char *name, const struct bench_hops_case *what)
{
    struct bench_hops_case cases[TRANSPORTS] = {*what, *what};
    struct bench_hops hops[TRANSPORTS];
    struct pair_results results = {.packet = 0};
    const char *wrong = NULL;
    char error[256];

    cases[NONE].acknowledged = false;
    if (open_all(bench, hops, cases, TRANSPORTS, error, sizeof error))
        wrong = error;
    for (unsigned left = wrong ? 0 : bench_repeat(bench, 9, 3); left; left--) {
        struct bench_hops_sample none = bench_hops_step(&hops[NONE], bench_sample_ns(bench));
        struct bench_hops_sample ack = bench_hops_step(&hops[ACK], bench_sample_ns(bench));

        bench_sample(&results.mhops[NONE], 1e3 / none.hop_ns);
        bench_sample(&results.mhops[ACK], 1e3 / ack.hop_ns);
        bench_sample(&results.times, ack.hop_ns / none.hop_ns);
        bench_sample(&results.added_ns, ack.hop_ns - none.hop_ns);
        results.packet = ack.packet;
    }
    if (!wrong)
        wrong = wrong_of_all(hops, TRANSPORTS);
    pair_rows(bench, name, hops, cases, &results, wrong);
    close_all(hops, TRANSPORTS);
}

void bench_ack_hops(struct bench *bench, int unused)
{
    static const struct {
        const char *name;
        struct bench_hops_case what;
    } cases[] = {
        {"switch.uniform", {PROFILE, true, "kary:16,1", "uniform", {0, 1, 240}}},
        {"switch.uniform4", {PROFILE, true, "kary:16,1", "uniform by 4", {0, 4, 240}}},
        {"switch.complement", {PROFILE, true, "kary:16,1", "complement", {16, 1, 240}}},
        {"tree.uniform", {PROFILE, true, "kary:4,3", "uniform", {0, 1, 240}}},
        {"tree.uniform4", {PROFILE, true, "kary:4,3", "uniform by 4", {0, 4, 240}}},
        {"tree.complement", {PROFILE, true, "kary:4,3", "complement", {64, 1, 240}}},
        {"tree.complement224", {PROFILE, true, "kary:4,3", "complement, 224", {64, 1, 224}}},
    };
    const unsigned count = sizeof cases / sizeof cases[0];

    (void)unused;
    for (unsigned i = 0; i < count; i++) {
        bench_progress(bench, "ack.hops", i / (double)count);
        pair(bench, cases[i].name, &cases[i].what);
    }
}

/* --- the split: by the way's length, and by the packet's ---------------------------- */

enum { NONE_NEAR, NONE_FAR, ONE_NEAR, ONE_FAR, MANY_NEAR, MANY_FAR, SPLITS };

/* What a switch, and what both ends, take of a sample's time. */
enum {
    SPLIT_NONE,
    SPLIT_SEGMENT,
    SPLIT_PACKET,
    SPLIT_ADDED1,
    SPLIT_ADDED5,
    SPLIT_ENDS_NONE,
    SPLIT_ENDS1,
    SPLIT_ENDS5,
    SPLIT_BARE_NONE,
    SPLIT_BARE1,
    SPLIT_BARE5,
    SPLIT_ROWS
};

static const struct {
    const char *name;
    const char *of;
} split_rows[SPLIT_ROWS] = {
    [SPLIT_NONE] = {"ack.split.none", "a segment, a crosspoint switch more"},
    [SPLIT_SEGMENT] = {"ack.split.segment", "a segment, a router with channels more"},
    [SPLIT_PACKET] = {"ack.split.packet", "its packet's channel and reply, the same"},
    [SPLIT_ADDED1] = {"ack.split.added1", "both, less none: packets of 1 segment"},
    [SPLIT_ADDED5] = {"ack.split.added5", "a segment and a fifth of the packet, less none"},
    [SPLIT_ENDS_NONE] = {"ack.split.ends.none", "both nodes, a segment"},
    [SPLIT_ENDS1] = {"ack.split.ends1", "nodes and adapters, a packet of 1 segment"},
    [SPLIT_ENDS5] = {"ack.split.ends5", "nodes and adapters, a packet of 5 segments"},
    [SPLIT_BARE_NONE] = {"ack.split.bare.none", "none, by a loop that does nothing else"},
    [SPLIT_BARE1] = {"ack.split.bare1", "added1, by a loop that does nothing else"},
    [SPLIT_BARE5] = {"ack.split.bare5", "added5, by a loop that does nothing else"},
};

static double a_switch(double near_ns, double far_ns)
{
    return (far_ns - near_ns) / (FAR - NEAR);
}

static void split_round(struct bench_samples *samples, const struct bench_hops_sample *got)
{
    double none_ns = a_switch(got[NONE_NEAR].segment_ns, got[NONE_FAR].segment_ns);
    double one_ns = a_switch(got[ONE_NEAR].packet_ns, got[ONE_FAR].packet_ns);
    double many_ns = a_switch(got[MANY_NEAR].packet_ns, got[MANY_FAR].packet_ns);
    double segment_ns = (many_ns - one_ns) / (got[MANY_FAR].packet - 1);
    double packet_ns = one_ns - segment_ns;

    bench_sample(&samples[SPLIT_NONE], none_ns);
    bench_sample(&samples[SPLIT_SEGMENT], segment_ns);
    bench_sample(&samples[SPLIT_PACKET], packet_ns);
    bench_sample(&samples[SPLIT_ADDED1], segment_ns + packet_ns - none_ns);
    bench_sample(&samples[SPLIT_ADDED5], segment_ns + packet_ns / 5 - none_ns);
    bench_sample(&samples[SPLIT_ENDS_NONE], got[NONE_NEAR].segment_ns - none_ns);
    bench_sample(&samples[SPLIT_ENDS1], got[ONE_NEAR].packet_ns - one_ns);
    bench_sample(&samples[SPLIT_ENDS5], got[MANY_NEAR].packet_ns - many_ns);
}

/* The bare loops: without acknowledgments, packets of 1 segment, and of 5; near and far. */
enum { BARE_NONE_NEAR, BARE_NONE_FAR, BARE1_NEAR, BARE1_FAR, BARE5_NEAR, BARE5_FAR, BARES };

static bool bare_open_all(struct bare **bare)
{
    static const struct {
        uint32_t within, segments;
    } of[BARES] = {[BARE_NONE_NEAR] = {4, 0}, [BARE_NONE_FAR] = {64, 0}, [BARE1_NEAR] = {4, 1},
                   [BARE1_FAR] = {64, 1},     [BARE5_NEAR] = {4, 5},     [BARE5_FAR] = {64, 5}};
    bool good = true;

    for (int i = 0; i < BARES; i++) {
        bare[i] = bare_open(of[i].within, of[i].segments);
        good &= bare[i] != NULL;
    }
    return good;
}

/* False: in one of them nothing moves. */
static bool bare_round(struct bench_samples *samples, struct bare **bare, uint64_t sample_ns)
{
    double ns[BARES], none_ns;

    for (int i = 0; i < BARES; i++) {
        ns[i] = bare_step(bare[i], sample_ns);
        if (ns[i] <= 0)
            return false;
    }
    none_ns = a_switch(ns[BARE_NONE_NEAR], ns[BARE_NONE_FAR]);
    bench_sample(&samples[SPLIT_BARE_NONE], none_ns);
    bench_sample(&samples[SPLIT_BARE1], a_switch(ns[BARE1_NEAR], ns[BARE1_FAR]) - none_ns);
    bench_sample(&samples[SPLIT_BARE5], a_switch(ns[BARE5_NEAR], ns[BARE5_FAR]) - none_ns);
    return true;
}

static void split_print(struct bench *bench, const struct bench_samples *samples, const char *error)
{
    for (int i = 0; i < SPLIT_ROWS; i++) {
        struct json_object *own = json_object_new_object();

        json_object_object_add(own, "of", json_object_new_string(split_rows[i].of));
        json_object_object_add(own, "profile", json_object_new_string(PROFILE));
        json_object_object_add(own, "topo", json_object_new_string("kary:4,3"));
        json_object_object_add(own, "traffic",
                               json_object_new_string("to the opposite node of 4 and of 64"));
        bench_row(bench,
                  &(struct bench_row){.name = split_rows[i].name,
                                      .unit = "ns",
                                      .samples = &samples[i],
                                      .conditions = own,
                                      .error = error,
                                      .goal = i == SPLIT_ADDED5 ? BENCH_AT_MOST : BENCH_NO_GOAL,
                                      .target = 15});
    }
}

void bench_ack_split(struct bench *bench, int unused)
{
    static const struct bench_hops_case cases[SPLITS] = {
        [NONE_NEAR] = {PROFILE, false, "kary:4,3", "near", {4, 1, 240}},
        [NONE_FAR] = {PROFILE, false, "kary:4,3", "far", {64, 1, 240}},
        [ONE_NEAR] = {PROFILE, true, "kary:4,3", "near", {4, 1, 224}},
        [ONE_FAR] = {PROFILE, true, "kary:4,3", "far", {64, 1, 224}},
        [MANY_NEAR] = {PROFILE, true, "kary:4,3", "near", {4, 1, 240}},
        [MANY_FAR] = {PROFILE, true, "kary:4,3", "far", {64, 1, 240}},
    };
    struct bench_samples samples[SPLIT_ROWS] = {{.count = 0}};
    struct bench_hops_sample got[SPLITS];
    struct bench_hops hops[SPLITS];
    struct bare *bare[BARES];
    unsigned repeat = bench_repeat(bench, 9, 3);
    const char *wrong = bare_open_all(bare) ? NULL : "there is no memory";
    char error[256];

    (void)unused;
    if (open_all(bench, hops, cases, SPLITS, error, sizeof error))
        wrong = error;
    for (unsigned i = 0; i < repeat && !wrong; i++) {
        bench_progress(bench, "ack.split", i / (double)repeat);
        for (int s = 0; s < SPLITS; s++)
            got[s] = bench_hops_step(&hops[s], bench_sample_ns(bench));
        split_round(samples, got);
        if (!bare_round(samples, bare, bench_sample_ns(bench)))
            wrong = "a bare loop stands still";
    }
    if (!wrong)
        wrong = wrong_of_all(hops, SPLITS);
    split_print(bench, samples, wrong);
    close_all(hops, SPLITS);
    for (int i = 0; i < BARES; i++)
        bare_close(bare[i]);
}
