/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drops_test.c - unrecoverable drops, in networks without retransmission: failed combine units,
 * corrupted partial results, segments without buffer space. The affected pairs and groups are
 * reported once.
 *
 * Workers do not run: the test steps them, and sets the time of the manager's checks.
 */
#include <errno.h>
#include <string.h>

#include "apps/manager/manager.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "emu/util/combine.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define NODES    4u
#define FLOOD    (EMU_HOSTIF_SLOTS + 1000u) /* more than a process's ring holds */
#define BOUND_PS UINT64_C(2000000000000)
#define BEGIN_PS UINT64_C(5000000000000)

struct fixture {
    struct hostifs w;
    struct fabric_drop loss[64];
    uint32_t losses;
};

static void fixture_open(struct fixture *r, const char *profile, const char *set)
{
    struct fabric_config config = {.threads = 1, .seed = 1, .start_stopped = true};

    memset(r, 0, sizeof *r);
    fixture_profile(&config.profile, profile, set);
    hostifs_open(&r->w, "kary:2,2", &config);
    CU_ASSERT_EQUAL_FATAL(r->w.nodes, NODES);
}

static void settle(struct fixture *r)
{
    for (uint32_t pass = 0; pass < 1000; pass++)
        fixture_fabric_pass(r->w.fabric);
}

/* Run the manager's check at @at_ps, and take all reported drops. */
static void check(struct fixture *r, uint64_t at_ps)
{
    r->losses = 0;
    fabric_drops_find(r->w.fabric, at_ps, BOUND_PS);
    while (r->losses < 64 && fabric_drop_take(r->w.fabric, &r->loss[r->losses]))
        r->losses++;
    settle(r);
}

static bool found(const struct fixture *r, enum fabric_drop_kind what, uint32_t sw, uint32_t group)
{
    for (uint32_t i = 0; i < r->losses; i++)
        if (r->loss[i].what == what && r->loss[i].sw == sw && r->loss[i].group == group)
            return true;
    return false;
}

static struct fabric_totals totals_of(const struct fixture *r)
{
    struct fabric_totals ret;

    fabric_totals_read(r->w.fabric, &ret);
    return ret;
}

/* An all-reduce of one number, or a barrier; returns false if there is no space. */
static bool contribute(struct fixture *r, uint32_t node, uint32_t group, uint32_t seq, bool barrier)
{
    struct emu_hdr hdr = {.dst = group, .src = node, .seq = seq, .kind = EMU_BARRIER};
    int32_t one = 1;

    if (!barrier) {
        hdr.kind = EMU_ALLREDUCE;
        hdr.len = sizeof one;
        hdr.op = EMU_SUM;
        hdr.type = EMU_I32;
    }
    return hostifs_post(&r->w, node, &hdr, &one);
}

/* All nodes contribute; returns how many of them get a result. */
static uint32_t operate(struct fixture *r, uint32_t group, uint32_t seq, int32_t *sum)
{
    struct emu_seg seg;
    uint32_t got = 0;

    for (uint32_t node = 0; node < NODES; node++)
        CU_ASSERT_TRUE(contribute(r, node, group, seq, false));
    settle(r);
    for (uint32_t node = 0; node < NODES; node++)
        while (hostifs_take(&r->w, node, &seg))
            if (seg.hdr.dst == group && seg.hdr.seq == seq) {
                memcpy(sum, seg.payload, sizeof *sum);
                got++;
            }
    return got;
}

static uint32_t top_of(const struct fixture *r, uint32_t group)
{
    return fabric_group_at(r->w.fabric, group)->tree.switches[0].sw;
}

static void stall(struct fixture *r, uint32_t sw, bool stalled)
{
    fabric_pause(r->w.fabric);
    CU_ASSERT_PTR_NOT_NULL_FATAL(fabric_combine_faults(r->w.fabric, sw));
    CU_ASSERT_EQUAL(fabric_combine_stall(r->w.fabric, sw, stalled, 0), 0);
    fabric_resume(r->w.fabric);
}

static void fixture_close(struct fixture *r)
{
    CU_ASSERT_TRUE(fixture_fabric_holds(r->w.fabric, 0));
    hostifs_close(&r->w);
}

/* Send a message of node 0 across the network; returns true if it arrives. */
static bool message_passes(struct fixture *r)
{
    struct emu_hdr hdr = {.dst = NODES - 1, .kind = EMU_UNICAST, .len = 8};
    uint64_t payload = 42;
    struct emu_seg seg;

    CU_ASSERT_TRUE(hostifs_post(&r->w, 0, &hdr, &payload));
    settle(r);
    while (hostifs_take(&r->w, NODES - 1, &seg))
        if (seg.hdr.kind == EMU_UNICAST)
            return true;
    return false;
}

/* --- stuck units ---------------------------------------------------------------------- */

/* Barriers of every node until the switches are full of them. */
static void flood(struct fixture *r, uint32_t group)
{
    for (uint32_t seq = 0; seq < EMU_WINDOW; seq++)
        for (uint32_t node = 0; node < NODES; node++)
            contribute(r, node, group, seq, true);
    settle(r);
}

/* While the unit is out of service a new group has a tree without it, or cannot be created. */
static void new_groups_avoid(struct fixture *r, uint32_t sw, bool top)
{
    uint32_t nodes[NODES], group;
    char error[256];
    int32_t sum = 0;

    if (top) {
        group = fixture_group_of_first(r->w.fabric, NODES);
        CU_ASSERT_NOT_EQUAL(top_of(r, group), sw);
        CU_ASSERT_EQUAL(operate(r, group, 0, &sum), NODES);
        fixture_group_end(r->w.fabric, group);
        return;
    }
    CU_ASSERT_EQUAL(fabric_group_create(r->w.fabric, nodes, fixture_nodes(nodes, NODES), &group,
                                        error, sizeof error),
                    -ENOSPC);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "out of service"));
}

/* The fault is cleared: the unit serves new groups, without state of the failed group @was. */
static void unit_returns(struct fixture *r, uint32_t sw, uint32_t was)
{
    int32_t sum = 0;

    stall(r, sw, false);
    check(r, BEGIN_PS + 21 * BOUND_PS);
    CU_ASSERT_TRUE(r->losses == 1 && found(r, FABRIC_UNIT_BACK, sw, 0));
    fixture_group_end(r->w.fabric, was);
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t group = fixture_group_of_first(r->w.fabric, NODES);

        CU_ASSERT_EQUAL(operate(r, group, round, &sum), NODES);
        CU_ASSERT_EQUAL(sum, (int32_t)NODES);
    }
}

static void unit_leaves(const char *profile, const char *set, bool top)
{
    struct fixture r;
    uint32_t group, sw;
    int32_t sum = 0;

    fixture_open(&r, profile, set);
    group = fixture_group_of_first(r.w.fabric, NODES);
    sw = top ? top_of(&r, group) : r.w.graph->node[0].link[0].sw;
    CU_ASSERT_EQUAL(operate(&r, group, 0, &sum), NODES);
    stall(&r, sw, true);
    check(&r, BEGIN_PS);
    check(&r, BEGIN_PS + 10 * BOUND_PS); /* the unit is idle, and no group waits */
    CU_ASSERT_EQUAL(r.losses, 0);
    flood(&r, group);
    check(&r, BEGIN_PS + 11 * BOUND_PS);
    check(&r, BEGIN_PS + 11 * BOUND_PS + BOUND_PS / 2);
    CU_ASSERT_EQUAL(r.losses, 0);
    check(&r, BEGIN_PS + 12 * BOUND_PS);
    CU_ASSERT_EQUAL(r.losses, 2);
    CU_ASSERT_TRUE(found(&r, FABRIC_UNIT_STUCK, sw, group));
    CU_ASSERT_TRUE(found(&r, FABRIC_UNIT_OUT, sw, 0));
    CU_ASSERT_TRUE(totals_of(&r).dropped_at_broken_units > 0);
    CU_ASSERT_TRUE(totals_of(&r).dropped >= totals_of(&r).dropped_at_broken_units);
    CU_ASSERT_EQUAL(switch_combine_waiting(r.w.fabric->sw[sw], NULL, NULL), 0);
    CU_ASSERT_TRUE(message_passes(&r));
    check(&r, BEGIN_PS + 20 * BOUND_PS);
    CU_ASSERT_EQUAL(r.losses, 0); /* it is reported once */

    new_groups_avoid(&r, sw, top);
    unit_returns(&r, sw, group);
    fixture_close(&r);
}

static void unit__stuck_leaves_service(void)
{
    static const char *const sets[] = {NULL,
                                       "link_retry=go_back_n",
                                       "combine_units=3",
                                       "combine_order=port",
                                       "credit=counter",
                                       "buffers=input_xpoint"};

    for (uint32_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        for (uint32_t top = 0; top < 2; top++)
            unit_leaves("oq2004", sets[i], top);
}

/* A group without operations in progress loses nothing: it gets another root. */
static void group__idle_moves_to_another_root(void)
{
    struct fixture r;
    uint32_t group[3], top, busy = 0;
    int32_t sum = 0;

    fixture_open(&r, "oq2004", NULL);
    for (uint32_t i = 0; i < 3; i++)
        group[i] = fixture_group_of_first(r.w.fabric, NODES);
    top = top_of(&r, group[0]);
    CU_ASSERT_EQUAL_FATAL(top_of(&r, group[2]), top); /* roots are assigned in rotation */
    for (uint32_t seq = 0; seq < 5; seq++)
        for (uint32_t i = 0; i < 3; i++)
            CU_ASSERT_EQUAL(operate(&r, group[i], seq, &sum), NODES);
    stall(&r, top, true);
    for (uint32_t node = 0; node < NODES; node++)
        contribute(&r, node, group[busy], 5, true);
    settle(&r);
    check(&r, BEGIN_PS);
    check(&r, BEGIN_PS + BOUND_PS);
    CU_ASSERT_EQUAL(r.losses, 2);
    CU_ASSERT_TRUE(found(&r, FABRIC_UNIT_STUCK, top, group[busy]));
    CU_ASSERT_TRUE(r.losses == 2 && r.loss[1].what == FABRIC_UNIT_OUT && r.loss[1].moved == 1);
    CU_ASSERT_NOT_EQUAL(top_of(&r, group[2]), top);
    for (uint32_t i = 1; i < 3; i++)
        for (uint32_t seq = 5; seq < 20; seq++) {
            CU_ASSERT_EQUAL(operate(&r, group[i], seq, &sum), NODES);
            CU_ASSERT_EQUAL(sum, (int32_t)NODES);
        }
    CU_ASSERT_EQUAL(operate(&r, group[busy], 6, &sum), 0);
    fixture_close(&r);
}

/* Run everything the manager has to do within a simulated second. */
static void manage(struct fixture *r, struct manager *manager, uint64_t *now_ps)
{
    uint64_t end_ps = *now_ps + UINT64_C(1000000000000);

    while (manager_due_ps(manager) <= end_ps) {
        if (manager_due_ps(manager) > *now_ps)
            *now_ps = manager_due_ps(manager);
        CU_ASSERT_EQUAL_FATAL(manager_step(manager, *now_ps), 0);
        fixture_fabric_pass(r->w.fabric);
    }
    *now_ps = end_ps;
}

/* Its tree has lost a link, and the only other one uses a unit that is out of service. */
static void group__gets_another_tree_once_the_unit_is_back(void)
{
    struct manager_config config = manager_defaults();
    uint64_t now_ps = BEGIN_PS;
    struct manager *manager;
    uint32_t group[2], top[2], hit, port;
    int32_t sum = 0;
    struct fixture r;

    fixture_open(&r, "oq2004", "link_retry=go_back_n");
    CU_ASSERT_EQUAL_FATAL(manager_create(&manager, r.w.fabric, &config), 0);
    for (uint32_t i = 0; i < 2; i++) {
        group[i] = fixture_group_of_first(r.w.fabric, NODES);
        top[i] = top_of(&r, group[i]);
    }
    CU_ASSERT_NOT_EQUAL_FATAL(top[0], top[1]); /* roots are assigned in rotation */
    stall(&r, top[1], true);
    CU_ASSERT_EQUAL(operate(&r, group[1], 0, &sum), 0);
    check(&r, BEGIN_PS);
    check(&r, BEGIN_PS + BOUND_PS);
    CU_ASSERT_TRUE(found(&r, FABRIC_UNIT_OUT, top[1], 0));

    port = (uint32_t)__builtin_ctzll(fabric_group_at(r.w.fabric, group[0])->tree.switches[0].ports);
    CU_ASSERT_EQUAL(manager_signal(manager, fabric_cable_at(r.w.fabric, top[0], port), false, 0,
                                   now_ps, &hit),
                    0);
    manage(&r, manager, &now_ps);
    CU_ASSERT_EQUAL(top_of(&r, group[0]), top[0]);
    stall(&r, top[1], false);
    manage(&r, manager, &now_ps);
    CU_ASSERT_EQUAL(top_of(&r, group[0]), top[1]);
    CU_ASSERT_EQUAL(operate(&r, group[0], 0, &sum), NODES);
    CU_ASSERT_EQUAL(sum, (int32_t)NODES);
    manager_destroy(manager);
    fixture_close(&r);
}

/* A slow unit is not stuck; with the bound off, not even a stopped one is. */
static void unit__slow_stays_in_service(void)
{
    struct fixture r;
    uint32_t group, top;
    int32_t sum = 0;

    fixture_open(&r, "oq2004", NULL);
    group = fixture_group_of_first(r.w.fabric, NODES);
    top = top_of(&r, group);
    for (uint32_t seq = 0; seq < 4; seq++) {
        stall(&r, top, true);
        CU_ASSERT_EQUAL(operate(&r, group, seq, &sum), 0);
        check(&r, BEGIN_PS + 2 * seq * BOUND_PS);
        check(&r, BEGIN_PS + 2 * seq * BOUND_PS + BOUND_PS - 1);
        CU_ASSERT_EQUAL(r.losses, 0);
        stall(&r, top, false);
        settle(&r);
        check(&r, BEGIN_PS + 2 * seq * BOUND_PS + BOUND_PS);
        CU_ASSERT_EQUAL(r.losses, 0);
    }
    stall(&r, top, true);
    CU_ASSERT_EQUAL(operate(&r, group, 4, &sum), 0);
    for (uint32_t i = 0; i < 3; i++)
        fabric_drops_find(r.w.fabric, BEGIN_PS + (20 + i) * BOUND_PS, EMU_NEVER);
    CU_ASSERT_FALSE(fabric_drop_take(r.w.fabric, &r.loss[0]));
    fixture_close(&r);
}

/* --- corrupted partial results ---------------------------------------------------------- */

static void flip(struct fixture *r, uint32_t sw, uint64_t nth)
{
    struct emu_fault_rule rule = {.what = EMU_FAULT_FLIP_PAYLOAD,
                                  .rate = EMU_FAULT_ONE,
                                  .nth = nth,
                                  .aim = {.packets = EMU_FAULT_ENTRIES,
                                          .kinds = EMU_FAULT_KINDS,
                                          .src = EMU_FAULT_ANY,
                                          .dst = EMU_FAULT_ANY,
                                          .group = EMU_FAULT_ANY}};
    struct emu_faults *faults;

    fabric_pause(r->w.fabric);
    faults = fabric_combine_faults(r->w.fabric, sw);
    CU_ASSERT_PTR_NOT_NULL_FATAL(faults);
    CU_ASSERT_EQUAL(emu_faults_add(faults, &rule, 1, 1), 0);
    fabric_resume(r->w.fabric);
}

/* The @nth contribution to the switch leaves a flipped bit in the state. */
static void corrupt_state(const char *profile, const char *set, bool top, uint64_t nth)
{
    struct fixture r;
    uint32_t group, other, sw;
    int32_t sum = 0;

    fixture_open(&r, profile, set);
    group = fixture_group_of_first(r.w.fabric, NODES);
    other = fixture_group_of_first(r.w.fabric, NODES);
    sw = top ? top_of(&r, group) : r.w.graph->node[0].link[0].sw;
    CU_ASSERT_EQUAL(operate(&r, group, 0, &sum), NODES);
    check(&r, BEGIN_PS);
    flip(&r, sw, nth);
    CU_ASSERT_EQUAL(operate(&r, group, 1, &sum), 0);
    CU_ASSERT_EQUAL(totals_of(&r).states_damaged, 1);
    check(&r, BEGIN_PS + 1);
    CU_ASSERT_TRUE(r.losses == 1 && found(&r, FABRIC_UNIT_DAMAGED, sw, group));
    CU_ASSERT_EQUAL(operate(&r, other, 0, &sum), NODES); /* other groups are not affected */
    CU_ASSERT_EQUAL(sum, (int32_t)NODES);
    CU_ASSERT_EQUAL(operate(&r, group, 2, &sum), 0); /* and the group stays failed */
    check(&r, BEGIN_PS + 2);
    CU_ASSERT_EQUAL(r.losses, 0);
    fixture_group_end(r.w.fabric, group);
    fixture_close(&r);
}

/*
 * Corruption is detected at every contribution, including the last one, whether or not other
 * contributions wait for their turn in the order.
 */
static void state__corrupted_is_detected_when_read(void)
{
    static const char *const sets[] = {NULL,
                                       "combine_order=port",
                                       "combine_units=3",
                                       "combine_units=3 combine_order=port",
                                       "link_retry=go_back_n",
                                       "buffers=input_xpoint"};

    for (uint32_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        for (uint64_t nth = 1; nth <= 2; nth++) {
            corrupt_state("oq2004", sets[i], true, nth);
            corrupt_state("oq2004", sets[i], false, nth);
        }
    for (uint64_t nth = 1; nth <= 2; nth++) {
        corrupt_state("qsnet3", "combining=switch", true, nth);
        corrupt_state("qsnet3", "combining=switch combine_order=port", true, nth);
    }
}

static void state__without_parity_corrupts_the_result(void)
{
    static const char *const sets[] = {"combine_check=none", "combine_check=none combine_units=3"};

    for (uint32_t i = 0; i < 2; i++) {
        struct fixture r;
        uint32_t group;
        int32_t sum = 0;

        fixture_open(&r, "oq2004", sets[i]);
        group = fixture_group_of_first(r.w.fabric, NODES);
        flip(&r, top_of(&r, group), 1);
        CU_ASSERT_EQUAL(operate(&r, group, 0, &sum), NODES);
        CU_ASSERT_NOT_EQUAL(sum, (int32_t)NODES);
        check(&r, BEGIN_PS);
        CU_ASSERT_EQUAL(r.losses, 0);
        fixture_close(&r);
    }
}

/* --- segments without space --------------------------------------------------------------- */

/* Change the credits of the cable from node 0's switch upwards to two. Returns the switch. */
static uint32_t forge(struct fixture *r)
{
    struct emu_fault_rule rule = {.what = EMU_FAULT_DUPLICATE,
                                  .rate = EMU_FAULT_ONE,
                                  .aim = {.packets = EMU_FAULT_CREDIT,
                                          .kinds = EMU_FAULT_KINDS,
                                          .src = EMU_FAULT_ANY,
                                          .dst = EMU_FAULT_ANY,
                                          .group = EMU_FAULT_ANY}};
    uint32_t leaf = r->w.graph->node[0].link[0].sw;

    fabric_pause(r->w.fabric);
    for (uint32_t p = 0; p < r->w.graph->ports; p++) {
        uint32_t i = fabric_cable_at(r->w.fabric, leaf, p);
        const struct fabric_cable *cable = i == TOPO_NONE ? NULL : fabric_cable(r->w.fabric, i);

        if (!cable || cable->kind != TOPO_END_SWITCH)
            continue;
        struct emu_faults *faults =
            fabric_faults(r->w.fabric, i, cable->at.sw == leaf && cable->at.port == p);
        CU_ASSERT_PTR_NOT_NULL_FATAL(faults);
        CU_ASSERT_EQUAL(emu_faults_add(faults, &rule, 1, 1), 0);
    }
    fabric_resume(r->w.fabric);
    return leaf;
}

/* Nodes 0 and 1 send to node @to, which takes nothing, until all buffers are full. */
static void congest(struct fixture *r, uint32_t to)
{
    struct emu_hdr hdr = {.dst = to, .kind = EMU_UNICAST, .len = 8};
    uint64_t payload = 0;

    for (uint32_t i = 0; i < FLOOD; i++) {
        hdr.src = i % 2;
        hostifs_post(&r->w, hdr.src, &hdr, &payload);
        fixture_fabric_pass(r->w.fabric);
    }
    settle(r);
}

/* Returns the number of pairs that are reported, each once. */
static uint32_t pairs_of(const struct fixture *r, uint32_t leaf, uint32_t to)
{
    bool pair[2] = {false};

    for (uint32_t i = 0; i < r->losses; i++) {
        const struct fabric_cable *cable = fabric_cable(r->w.fabric, r->loss[i].cable);
        uint32_t sender = r->loss[i].out ? cable->at.sw : cable->peer.sw;

        CU_ASSERT_EQUAL(r->loss[i].what, FABRIC_LOST_SEGMENT);
        CU_ASSERT_EQUAL(sender, leaf);
        CU_ASSERT_EQUAL(r->loss[i].to, to);
        CU_ASSERT_TRUE_FATAL(r->loss[i].from < 2);
        pair[r->loss[i].from] = true;
    }
    return (uint32_t)pair[0] + pair[1];
}

static void segment__dropped_is_reported_with_its_cable(void)
{
    struct fixture r;
    struct emu_seg seg;
    uint32_t leaf;

    fixture_open(&r, "oq2004", NULL);
    leaf = forge(&r);
    check(&r, BEGIN_PS);
    CU_ASSERT_EQUAL(r.losses, 0);
    congest(&r, 2);
    CU_ASSERT_TRUE_FATAL(totals_of(&r).dropped_overrun > 0);
    CU_ASSERT_EQUAL(totals_of(&r).dropped_overrun, totals_of(&r).retries.overrun);
    CU_ASSERT_EQUAL(totals_of(&r).dropped_malformed, 0);
    check(&r, BEGIN_PS + 1);
    CU_ASSERT_EQUAL(r.losses, 2); /* two pairs, on however many cables they dropped segments */
    CU_ASSERT_EQUAL(pairs_of(&r, leaf, 2), 2);
    check(&r, BEGIN_PS + 2);
    CU_ASSERT_EQUAL(r.losses, 0);
    while (hostifs_take(&r.w, 2, &seg))
        settle(&r);
    hostifs_close(&r.w);
}

/* A group fails, and is reported once whatever else of it is dropped. */
static void segment__of_a_group_fails_the_group(void)
{
    struct fixture r;
    uint32_t group;
    struct emu_hdr hdr = {.kind = EMU_MULTICAST, .len = 8};
    uint64_t payload = 0;

    fixture_open(&r, "oq2004", NULL);
    hdr.dst = group = fixture_group_of_first(r.w.fabric, NODES);
    forge(&r);
    for (uint32_t i = 0; i < FLOOD; i++) {
        hdr.src = i % 2;
        hostifs_post(&r.w, hdr.src, &hdr, &payload);
        fixture_fabric_pass(r.w.fabric);
    }
    settle(&r);
    CU_ASSERT_TRUE_FATAL(totals_of(&r).dropped_overrun > 0);
    CU_ASSERT_EQUAL(totals_of(&r).dropped_overrun, totals_of(&r).retries.overrun);
    CU_ASSERT_EQUAL(totals_of(&r).dropped_malformed, 0);
    check(&r, BEGIN_PS);
    CU_ASSERT_EQUAL_FATAL(r.losses, 1);
    CU_ASSERT_EQUAL(r.loss[0].what, FABRIC_LOST_OF_GROUP);
    CU_ASSERT_EQUAL(r.loss[0].group, group);
    check(&r, BEGIN_PS + 1);
    CU_ASSERT_EQUAL(r.losses, 0);
    hostifs_close(&r.w);
}

/*
 * Node 0 has its third process, and segments of the second are still in flight. A segment
 * identifies its process by the lowest byte of the incarnation, whatever a process writes there.
 */
static void segment__is_reported_with_its_processes(void)
{
    static const uint8_t incarnation_bytes[] = {3, 2, 0,
                                                4}; /* the last two processes never existed */
    struct fixture r;
    struct emu_hdr hdr = {.dst = 2, .kind = EMU_UNICAST, .len = 8, .op = 1};
    uint64_t payload = 0;
    uint32_t seen = 0;

    fixture_open(&r, "oq2004", NULL);
    forge(&r);
    for (uint32_t i = 0; i < 2; i++) {
        hostifs_detach(&r.w, 0);
        hostifs_attach(&r.w, 0);
    }
    for (uint32_t i = 0; i < FLOOD; i++) {
        hdr.type = incarnation_bytes[i % 4];
        hostifs_post(&r.w, 0, &hdr, &payload);
        fixture_fabric_pass(r.w.fabric);
    }
    settle(&r);
    check(&r, BEGIN_PS);
    for (uint32_t i = 0; i < r.losses; i++) {
        CU_ASSERT_EQUAL(r.loss[i].to_incarnation, 1);
        CU_ASSERT(r.loss[i].from_incarnation == 3 || r.loss[i].from_incarnation == 2 ||
                  !r.loss[i].from_incarnation);
        seen |= 1u << r.loss[i].from_incarnation;
    }
    CU_ASSERT_EQUAL(seen, 1u << 3 | 1u << 2 | 1u << 0);
    hostifs_close(&r.w);
}

/* --- many drops --------------------------------------------------------------------------- */

/* The next report is about this pair. Returns how many more drops it stands for. */
static uint32_t take(struct fixture *r, uint32_t from, uint32_t to)
{
    struct fabric_drop loss;

    CU_ASSERT_TRUE_FATAL(fabric_drop_take(r->w.fabric, &loss));
    CU_ASSERT_EQUAL(loss.from, from);
    CU_ASSERT_EQUAL(loss.to, to);
    CU_ASSERT_NOT_EQUAL(loss.found_ns, 0);
    return loss.more;
}

/* Let reports name any incarnation of a node's process. */
static void incarnations_have_passed(struct fixture *r)
{
    for (uint32_t n = 0; n < NODES; n++)
        r->w.fabric->incarnation[n] = emu_incarnation_state(UINT32_MAX, true);
}

static void report(struct fixture *r, uint32_t from, uint32_t to, uint64_t from_incarnation)
{
    fabric_drop_receive(r->w.fabric, 0,
                        &(struct fabric_drop){.what = FABRIC_LOST_SEGMENT,
                                              .from = from,
                                              .to = to,
                                              .from_incarnation = from_incarnation});
}

static void pair__dropping_on_several_cables_is_reported_once(void)
{
    struct fixture r;
    struct fabric_drop loss;

    fixture_open(&r, "oq2004", NULL);
    incarnations_have_passed(&r);
    for (uint32_t i = 0; i < 3; i++) {
        report(&r, 0, 2, 1);
        report(&r, 2, 0, 1);
    }
    report(&r, 0, 2, 2); /* another process */
    report(&r, NODES, 2, 1);
    report(&r, 0, NODES, 1); /* no such nodes */
    CU_ASSERT_EQUAL(fabric_drops_left(r.w.fabric), 3);
    CU_ASSERT_EQUAL(take(&r, 0, 2), 2);
    report(&r, 0, 2, 1); /* the earlier report was taken */
    CU_ASSERT_EQUAL(take(&r, 2, 0), 2);
    CU_ASSERT_EQUAL(take(&r, 0, 2), 0);
    CU_ASSERT_EQUAL(take(&r, 0, 2), 0);
    CU_ASSERT_FALSE(fabric_drop_take(r.w.fabric, &loss));
    fixture_close(&r);
}

/* Another host reports a forged number of further losses. The sum does not wrap around. */
static void pair__forged_number_of_losses_does_not_wrap(void)
{
    struct fixture r;

    fixture_open(&r, "oq2004", NULL);
    incarnations_have_passed(&r);
    report(&r, 0, 2, 1);
    report(&r, 0, 2, 1);
    fabric_drop_receive(r.w.fabric, 0,
                        &(struct fabric_drop){.what = FABRIC_LOST_SEGMENT,
                                              .to = 2,
                                              .from_incarnation = 1,
                                              .more = UINT32_MAX});
    CU_ASSERT_EQUAL(take(&r, 0, 2), UINT32_MAX);
    fixture_close(&r);
}

/* A slow reader gets the reports in order, and the list stays short. */
static void drops__are_reported_in_order(void)
{
    struct fixture r;
    struct fabric_drop loss;
    uint64_t reported = 0, taken = 0;

    fixture_open(&r, "oq2004", NULL);
    incarnations_have_passed(&r);
    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < 40; i++)
            report(&r, 0, 2, ++reported); /* each of another process: none is merged */
        for (uint32_t i = 0; i < 39; i++) {
            CU_ASSERT_TRUE_FATAL(fabric_drop_take(r.w.fabric, &loss));
            CU_ASSERT_EQUAL(loss.from_incarnation, ++taken);
        }
    }
    CU_ASSERT_EQUAL(fabric_drops_left(r.w.fabric), reported - taken);
    CU_ASSERT_TRUE(r.w.fabric->drops.most <= 1024);
    while (fabric_drop_take(r.w.fabric, &loss))
        CU_ASSERT_EQUAL(loss.from_incarnation, ++taken);
    CU_ASSERT_EQUAL(taken, reported);
    fixture_close(&r);
}

/* A group's failure is reported before drops of pairs, which are in order and limited in number. */
static void drops__of_a_group_come_first(void)
{
    struct fixture r;
    struct fabric_drop loss;
    uint32_t reported = 0;

    fixture_open(&r, "oq2004", NULL);
    incarnations_have_passed(&r);
    for (uint64_t i = 1; i <= FABRIC_DROPS_MOST + 10; i++) {
        if (i % 1000 == 0)
            fabric_drop_receive(r.w.fabric, 0,
                                &(struct fabric_drop){.what = FABRIC_LOST_OF_GROUP,
                                                      .from = (uint32_t)i / 1000 % 2,
                                                      .from_incarnation = i});
        report(&r, 0, 2, i);
    }
    for (uint64_t i = 1000; i <= FABRIC_DROPS_MOST; i += 1000) {
        CU_ASSERT_TRUE_FATAL(fabric_drop_take(r.w.fabric, &loss));
        CU_ASSERT_TRUE(loss.what == FABRIC_LOST_OF_GROUP && loss.from_incarnation == i);
    }
    while (fabric_drop_take(r.w.fabric, &loss))
        CU_ASSERT_TRUE(loss.what == FABRIC_LOST_SEGMENT && loss.from_incarnation == ++reported);
    CU_ASSERT_TRUE(reported > FABRIC_DROPS_MOST - 100 && reported <= FABRIC_DROPS_MOST);
    fixture_close(&r);
}

/* However many losses of pairs host 1 reports, those of host 2 get space. */
static void drops__of_each_host_have_space(void)
{
    static const uint32_t of[] = {1, 2, 0, 0};
    static const struct fabric_hosts hosts = {.count = 3, .of = of};
    struct fabric_drop loss = {.what = FABRIC_LOST_SEGMENT, .to = 2};
    struct fixture r;

    fixture_open(&r, "oq2004", NULL);
    incarnations_have_passed(&r);
    r.w.fabric->config.hosts = &hosts;
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t taken = 0;

        for (uint32_t host = 1; host <= 2; host++) {
            for (loss.cable = 0; fabric_direction_host(r.w.fabric, 2 * loss.cable, false) != host;)
                loss.cable++;
            for (uint64_t i = 0; i < (host == 1 ? FABRIC_DROPS_MOST : 1); i++) {
                loss.from_incarnation = i + 1;
                fabric_drop_receive(r.w.fabric, host, &loss);
            }
        }
        CU_ASSERT_EQUAL(fabric_drops_left(r.w.fabric), FABRIC_DROPS_MOST / 2 + 1);
        while (fabric_drop_take(r.w.fabric, &loss))
            taken += fabric_direction_host(r.w.fabric, 2 * loss.cable, false) == 2;
        CU_ASSERT_EQUAL(taken, 1);
    }
    CU_ASSERT_EQUAL(fabric_drops_refused(r.w.fabric), 0);
    r.w.fabric->config.hosts = NULL;
    fixture_close(&r);
}

/* A host cannot report losses of processes that never existed, nor the return of a unit at work. */
static void loss__impossible_is_refused(void)
{
    struct fabric_drop loss = {.what = FABRIC_LOST_SEGMENT, .to = 2, .to_incarnation = 1};
    struct fixture r;

    fixture_open(&r, "oq2004", NULL);
    fabric_drop_receive(r.w.fabric, 0, &loss);
    loss.to_incarnation = 2;
    fabric_drop_receive(r.w.fabric, 0, &loss);
    loss.to_incarnation = 0;
    loss.from_incarnation = UINT64_MAX;
    fabric_drop_receive(r.w.fabric, 0, &loss);
    loss.what = FABRIC_LEFT_GAVE_UP;
    fabric_drop_receive(r.w.fabric, 0, &loss);
    loss = (struct fabric_drop){.what = FABRIC_UNIT_BACK, .moved = 7};
    fabric_drop_receive(r.w.fabric, 0, &loss);
    CU_ASSERT_EQUAL(fabric_drops_refused(r.w.fabric), 4);
    r.w.fabric->combine[0].returns = true;
    fabric_drop_receive(r.w.fabric, 0, &loss);
    fabric_drop_receive(r.w.fabric, 0, &loss); /* only once */
    CU_ASSERT_EQUAL(fabric_drops_refused(r.w.fabric), 5);
    CU_ASSERT_EQUAL(fabric_drops_left(r.w.fabric), 2);
    CU_ASSERT_TRUE(fabric_drop_take(r.w.fabric, &loss));
    CU_ASSERT_EQUAL(loss.what, FABRIC_UNIT_BACK);
    CU_ASSERT_EQUAL(loss.moved, 0);
    fixture_close(&r);
}

/* Let @host report that a segment of @group overran a buffer on that host. */
static void report_of_group(struct fixture *r, uint32_t host, uint32_t group)
{
    struct fabric_drop loss = {.what = FABRIC_LOST_OF_GROUP, .group = group};

    while (fabric_direction_host(r->w.fabric, 2 * loss.cable, false) != host)
        loss.cable++;
    fabric_drop_receive(r->w.fabric, host, &loss);
}

/* Three hosts, the second with nodes 0 and 1, the third with the others. */
static void loss__of_a_group_elsewhere_is_refused(void)
{
    static const uint32_t of[] = {1, 2, 0, 0};
    static const struct fabric_hosts hosts = {.count = 3, .of = of};
    const uint32_t nodes[] = {2, 3};
    uint32_t group, other;
    struct fabric_drop loss;
    char error[160];
    struct fixture r;

    fixture_open(&r, "oq2004", NULL);
    CU_ASSERT_EQUAL_FATAL(r.w.graph->switches, sizeof of / sizeof of[0]);
    r.w.fabric->config.hosts = &hosts;
    group = fixture_group_of_first(r.w.fabric, 2);
    CU_ASSERT_EQUAL(fabric_group_create(r.w.fabric, nodes, 2, &other, error, sizeof error), 0);
    report_of_group(&r, 2, group);
    report_of_group(&r, 1, other);
    CU_ASSERT_EQUAL(fabric_drops_refused(r.w.fabric), 2);
    CU_ASSERT_FALSE(fabric_drop_take(r.w.fabric, &loss));
    report_of_group(&r, 1, group);
    CU_ASSERT_EQUAL(fabric_drops_refused(r.w.fabric), 2);
    CU_ASSERT_TRUE(fabric_drop_take(r.w.fabric, &loss));
    CU_ASSERT_EQUAL(loss.group, group);
    r.w.fabric->config.hosts = NULL;
    fixture_close(&r);
}

static const struct test_case cases[] = {
    CASE(unit__stuck_leaves_service),
    CASE(group__idle_moves_to_another_root),
    CASE(group__gets_another_tree_once_the_unit_is_back),
    CASE(unit__slow_stays_in_service),
    CASE(state__corrupted_is_detected_when_read),
    CASE(state__without_parity_corrupts_the_result),
    CASE(segment__dropped_is_reported_with_its_cable),
    CASE(segment__of_a_group_fails_the_group),
    CASE(segment__is_reported_with_its_processes),
    CASE(pair__dropping_on_several_cables_is_reported_once),
    CASE(pair__forged_number_of_losses_does_not_wrap),
    CASE(drops__are_reported_in_order),
    CASE(drops__of_a_group_come_first),
    CASE(drops__of_each_host_have_space),
    CASE(loss__impossible_is_refused),
    CASE(loss__of_a_group_elsewhere_is_refused),
    {0},
};

int main(void)
{
    return test_run("unrecoverable", cases);
}
