/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stalls_test.c - stall diagnosis: where a collective's contributions are, which of them mismatch,
 * and links that do not move.
 *
 * Workers do not run: the test steps them.
 */
#include <string.h>

#include "emu/util/combine.h"
#include "apps/fabric/links.h"
#include "apps/fabric/stalls.h"
#include "emu/buffer/combiner.h"
#include "emu/util/now.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define NODES 4u
#define S_NS  UINT64_C(1000000000)

static void open_stopped_on(struct hostifs *w, const char *profile, enum emu_clock_mode clock,
                            uint32_t threads)
{
    struct fabric_config config = {.threads = threads,
                                   .seed = 1,
                                   .clock = clock,
                                   .start_stopped = true};

    fixture_profile(&config.profile, profile, NULL);
    hostifs_open(w, "kary:2,2", &config);
    CU_ASSERT_EQUAL_FATAL(w->nodes, NODES);
}

static void open_stopped(struct hostifs *w, const char *profile, uint32_t threads)
{
    open_stopped_on(w, profile, EMU_CLOCK_RAW, threads);
}

static void post(struct hostifs *w, uint32_t node, uint32_t group, uint8_t kind, uint8_t len)
{
    uint8_t payload[EMU_PAYLOAD_BYTES] = {0};
    struct emu_hdr hdr = {
        .dst = group, .src = node, .kind = kind, .len = len, .op = EMU_SUM, .type = EMU_I32};

    if (kind == EMU_BARRIER)
        hdr.op = hdr.type = 0;
    CU_ASSERT_TRUE_FATAL(hostifs_post(w, node, &hdr, payload));
}

static void settle(struct hostifs *w)
{
    for (uint32_t pass = 0; pass < 1000; pass++)
        fixture_fabric_pass(w->fabric);
}

/* A conditional waits between two queries by the host's clock: passes alone do not end that. */
static bool settle_until_taken(struct hostifs *w, uint32_t node, struct emu_seg *seg)
{
    uint64_t end_ns = emu_now_ns() + 20 * S_NS;

    while (emu_now_ns() < end_ns) {
        settle(w);
        if (hostifs_take(w, node, seg))
            return true;
    }
    return false;
}

/* --- contributions ------------------------------------------------------------------ */

static void parts_name_the_missing(const char *profile, bool at_switch)
{
    struct hostifs w;
    struct fabric_contribution part[NODES];
    struct emu_seg seg;
    uint32_t group;

    open_stopped(&w, profile, 1);
    group = fixture_group_of_first(w.fabric, NODES);
    for (uint32_t node = 0; node < 3; node++)
        post(&w, node, group, EMU_BARRIER, 0);
    settle(&w);
    CU_ASSERT_EQUAL_FATAL(fabric_contributions(w.fabric, group, 0, part, NODES), NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        CU_ASSERT_EQUAL(part[i].node, i);
        CU_ASSERT_TRUE(part[i].known);
        CU_ASSERT_EQUAL(part[i].arrived, i < 3);
        CU_ASSERT_EQUAL(part[i].sw, at_switch ? w.graph->node[i].link[0].sw : TOPO_NONE);
    }
    CU_ASSERT_PTR_NULL(fabric_mismatch(w.fabric, group));
    post(&w, 3, group, EMU_BARRIER, 0);
    CU_ASSERT_TRUE(settle_until_taken(&w, 0, &seg));
    CU_ASSERT_EQUAL_FATAL(fabric_contributions(w.fabric, group, 0, part, NODES), NODES);
    CU_ASSERT_TRUE(part[3].arrived);
    hostifs_close(&w);
}

static void contributions__name_the_missing(void)
{
    parts_name_the_missing("oq2004", true);
    parts_name_the_missing("qsnet3", false);
}

/* Four bytes from one member, eight from the other. */
static void check_mismatch_kept(const char *profile)
{
    struct hostifs w;
    const struct emu_mismatch *mismatch;
    uint32_t group;

    open_stopped(&w, profile, 1);
    group = fixture_group_of_first(w.fabric, NODES);
    post(&w, 0, group, EMU_ALLREDUCE, 4);
    settle(&w);
    CU_ASSERT_PTR_NULL(fabric_mismatch(w.fabric, group));
    for (uint32_t node = 1; node < NODES; node++)
        post(&w, node, group, EMU_ALLREDUCE, 8);
    settle(&w);
    mismatch = fabric_mismatch(w.fabric, group);
    CU_ASSERT_PTR_NOT_NULL_FATAL(mismatch);
    CU_ASSERT_EQUAL(mismatch->first.len + mismatch->other.len, 12);
    CU_ASSERT_EQUAL(mismatch->first.kind, EMU_ALLREDUCE);
    CU_ASSERT_EQUAL(mismatch->first.len == 4 ? mismatch->first.src : mismatch->other.src, 0);
    hostifs_close(&w);
}

static void mismatch__is_kept(void)
{
    check_mismatch_kept("oq2004");
    check_mismatch_kept("qsnet3");
}

/* Everything arrived below the root; only the switch of the missing member is stepped. */
static void gaps__are_between_switches(void)
{
    struct hostifs w;
    struct fabric_gap gap;
    struct emu_dev *dev;
    uint32_t group, leaf;

    open_stopped(&w, "oq2004", FABRIC_THREADS_DEVICE);
    group = fixture_group_of_first(w.fabric, NODES);
    leaf = w.graph->node[0].link[0].sw;
    dev = switch_emu_dev(w.fabric->sw[leaf]);
    for (uint32_t node = 0; node < 2; node++) {
        CU_ASSERT_EQUAL_FATAL(w.graph->node[node].link[0].sw, leaf);
        post(&w, node, group, EMU_BARRIER, 0);
    }
    for (uint32_t pass = 0; pass < 100; pass++)
        emu_worker_pass(dev->worker);
    CU_ASSERT_EQUAL_FATAL(fabric_gaps(w.fabric, group, 0, &gap, 1), 1);
    CU_ASSERT_EQUAL(gap.from, leaf);
    CU_ASSERT_NOT_EQUAL(gap.sw, leaf);
    CU_ASSERT_EQUAL(w.graph->sw[gap.sw].end[gap.port].id, leaf);
    settle(&w);
    CU_ASSERT_EQUAL(fabric_gaps(w.fabric, group, 0, &gap, 1), 0);
    hostifs_close(&w);
}

/* --- links -------------------------------------------------------------------------- */

/* Exactly the ports of a stuck cable are named. */
static void check_port_named(const char *profile, uint32_t node)
{
    struct hostifs w;
    struct fabric_stall stall[64];
    struct emu_hdr hdr = {.dst = 0, .kind = EMU_UNICAST, .len = 8};
    uint64_t payload = 0;
    uint32_t cable;

    open_stopped(&w, profile, 1);
    cable = node == TOPO_NONE ? fabric_cable_at(w.fabric, 2, 0)
                              : fabric_cable_of(w.fabric, node, 0);
    for (uint32_t out = 0; out < 2; out++)
        fabric_port_stick(w.fabric, cable, out, true, 0);
    for (hdr.src = 2; hdr.src < 4; hdr.src++)
        for (uint32_t i = 0; i < 2; i++) {
            CU_ASSERT_TRUE_FATAL(hostifs_post(&w, hdr.src, &hdr, &payload));
            settle(&w);
        }
    fabric_stalls_sample(w.fabric, 10 * S_NS);
    fabric_stalls_sample(w.fabric, 12 * S_NS);
    CU_ASSERT_EQUAL_FATAL(fabric_stalls(w.fabric, 12 * S_NS, stall, 64), 1);
    CU_ASSERT_EQUAL(stall[0].wait, FABRIC_WAITS_PORT);
    CU_ASSERT_EQUAL(stall[0].node, node);
    if (node == TOPO_NONE)
        CU_ASSERT(stall[0].sw == 2 && stall[0].port == 0);
    hostifs_close(&w);
}

static void stalls__name_stuck_ports(void)
{
    check_port_named("oq2004", TOPO_NONE);
    check_port_named("qsnet3", 2);
}

/* Node 3 takes nothing. Its ring fills, and the links that lead to it wait. */
static void check_waits_named(enum emu_clock_mode clock)
{
    struct hostifs w;
    struct fabric_stall stall[64];
    struct emu_hdr hdr = {.dst = 3, .kind = EMU_UNICAST, .len = 8};
    uint64_t payload = 0;
    uint32_t count, process = 0, credit = 0;

    open_stopped_on(&w, "oq2004", clock, 1);
    CU_ASSERT_EQUAL(fabric_stalls(w.fabric, S_NS, stall, 64), 0); /* no earlier sample */
    for (uint32_t round = 0; round < EMU_HOSTIF_SLOTS + 2000; round++) {
        hdr.src = round % 3;
        hostifs_post(&w, hdr.src, &hdr, &payload);
        fixture_fabric_pass(w.fabric);
    }
    settle(&w);
    CU_ASSERT_EQUAL(fabric_stalls_sample(w.fabric, 10 * S_NS), 0);
    CU_ASSERT_EQUAL(fabric_stalls(w.fabric, 10 * S_NS, stall, 64), 0); /* may have moved */
    CU_ASSERT_EQUAL(fabric_stalls_sample(w.fabric, 12 * S_NS), 0);
    count = fabric_stalls(w.fabric, 12 * S_NS, stall, 64);
    for (uint32_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(stall[i].since_ns, 10 * S_NS);
        process += stall[i].wait == FABRIC_WAITS_PROCESS && stall[i].node == 3;
        credit += stall[i].wait == FABRIC_WAITS_CREDIT && stall[i].sw != TOPO_NONE &&
                  stall[i].node == TOPO_NONE;
    }
    CU_ASSERT_EQUAL(process, 1);
    CU_ASSERT_TRUE(credit > 0);
    hostifs_close(&w);
}

static void stalls__name_waiting_links(void)
{
    check_waits_named(EMU_CLOCK_RAW);
    check_waits_named(EMU_CLOCK_REAL);
}

static const struct test_case cases[] = {
    CASE(contributions__name_the_missing), CASE(mismatch__is_kept),
    CASE(gaps__are_between_switches),      CASE(stalls__name_waiting_links),
    CASE(stalls__name_stuck_ports),        {0},
};

int main(void)
{
    return test_run("stalls", cases);
}
