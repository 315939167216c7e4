/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric_comm_test.c - communication statistics of all processes: sums over present and past
 * processes, and wait times derived from the reports of all members of a collective.
 *
 * The test writes what a process's library would. Workers do not run.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/comm.h"
#include "emu/util/now.h"
#include "tests/test.h"
#include "tests/fixtures/hostifs.h"

#define NODES   4u
#define GROUP   7u
#define MEMBERS 3u

static void open_stopped(struct hostifs *e)
{
    struct fabric_config config = {.threads = 1, .seed = 1, .start_stopped = true};

    memset(e, 0, sizeof *e);
    fixture_profile(&config.profile, "oq2004", NULL);
    hostifs_open(e, "kary:2,2", &config);
}

static void sends(struct hostifs *e, uint32_t from, uint32_t to, uint64_t bytes)
{
    emu_hostif_sent(e->nic[from].shared, NODES, to, bytes);
}

/* The pairs are exactly these, in order. */
static void check_pairs(struct hostifs *e, const struct fabric_pair *pair, uint32_t count)
{
    struct fabric_comm comm;

    CU_ASSERT_EQUAL_FATAL(fabric_comm_read(e->fabric, &comm), 0);
    CU_ASSERT_EQUAL_FATAL(comm.pairs, count);
    for (uint32_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(comm.pair[i].from, pair[i].from);
        CU_ASSERT_EQUAL(comm.pair[i].to, pair[i].to);
        CU_ASSERT_EQUAL(comm.pair[i].messages, pair[i].messages);
        CU_ASSERT_EQUAL(comm.pair[i].bytes, pair[i].bytes);
    }
    CU_ASSERT_EQUAL(comm.more_messages, 0);
    fabric_comm_free(&comm);
}

/* A process's messages stay in the sums when it detaches, and its successor's are added. */
static void pairs__are_of_all_incarnations(void)
{
    struct hostifs e;

    open_stopped(&e);
    check_pairs(&e, NULL, 0);
    sends(&e, 1, 3, 100);
    sends(&e, 1, 0, 10);
    sends(&e, 1, 3, 1);
    sends(&e, 2, 2, 0);
    check_pairs(&e, (struct fabric_pair[]){{1, 0, 1, 10}, {1, 3, 2, 101}, {2, 2, 1, 0}}, 3);
    hostifs_detach(&e, 1);
    check_pairs(&e, (struct fabric_pair[]){{1, 0, 1, 10}, {1, 3, 2, 101}, {2, 2, 1, 0}}, 3);
    hostifs_attach(&e, 1);
    sends(&e, 1, 2, 5);
    sends(&e, 1, 3, 1000);
    check_pairs(&e,
                (struct fabric_pair[]){{1, 0, 1, 10}, {1, 2, 1, 5}, {1, 3, 3, 1101}, {2, 2, 1, 0}},
                4);
    hostifs_detach(&e, 1);
    check_pairs(&e,
                (struct fabric_pair[]){{1, 0, 1, 10}, {1, 2, 1, 5}, {1, 3, 3, 1101}, {2, 2, 1, 0}},
                4);
    hostifs_close(&e);
}

/* A forged count cannot make a sum wrap around to a number that looks right. */
static void sums__of_forged_counts_do_not_wrap(void)
{
    struct fabric_comm comm;
    struct hostifs e;

    open_stopped(&e);
    sends(&e, 1, 3, UINT64_MAX - 1);
    hostifs_detach(&e, 1);
    hostifs_attach(&e, 1);
    sends(&e, 1, 3, 100);
    check_pairs(&e, (struct fabric_pair[]){{1, 3, 2, UINT64_MAX}}, 1);
    for (uint32_t i = 0; i < 2; i++) {
        emu_count(&e.nic[1].shared->comm.cell[0][0][0].calls, UINT64_MAX / 3 * 2);
        emu_count(&e.nic[1].shared->comm.traps, UINT64_MAX / 3 * 2);
        hostifs_detach(&e, 1);
        hostifs_attach(&e, 1);
    }
    CU_ASSERT_EQUAL_FATAL(fabric_comm_read(e.fabric, &comm), 0);
    CU_ASSERT_EQUAL(comm.cell[0][0][0].calls, UINT64_MAX);
    CU_ASSERT_EQUAL(comm.memory.traps, UINT64_MAX);
    fabric_comm_free(&comm);
    hostifs_close(&e);
}

static struct emu_comm_cell *cell_of(struct hostifs *e, uint32_t node)
{
    return &e->nic[node].shared->comm.cell[EMU_COMM_NETWORK][EMU_BARRIER - EMU_MULTICAST][0];
}

static void counters__are_summed_up(void)
{
    struct hostifs e;
    struct fabric_comm comm;
    const struct fabric_comm_cell *sum =
        &comm.cell[EMU_COMM_NETWORK][EMU_BARRIER - EMU_MULTICAST][0];

    open_stopped(&e);
    emu_comm_called(cell_of(&e, 0), 0);
    emu_comm_timed(cell_of(&e, 0), 50, 0);
    emu_comm_called(cell_of(&e, 3), 0);
    emu_comm_timed(cell_of(&e, 3), 20, 4);
    hostifs_detach(&e, 0);
    CU_ASSERT_EQUAL_FATAL(fabric_comm_read(e.fabric, &comm), 0);
    CU_ASSERT_EQUAL(sum->calls, 2);
    CU_ASSERT_EQUAL(sum->ns, 50 + (20 << 4));
    CU_ASSERT_EQUAL(sum->longest_ns, 50);
    fabric_comm_free(&comm);
    hostifs_close(&e);
}

/* --- reports of members ------------------------------------------------------------- */

/* Member @node started and finished so many ns after @at_ns. */
struct part {
    uint32_t node;
    uint64_t began, ended;
};

static void report(struct hostifs *e, uint8_t kind, uint64_t first, uint64_t at_ns,
                   uint8_t report_bits, const struct part *part)
{
    const struct emu_finished one = {.first = first,
                                     .began_ns = at_ns + part->began,
                                     .ended_ns = at_ns + part->ended,
                                     .bytes = kind == EMU_BARRIER ? 0 : 8,
                                     .group = GROUP,
                                     .root = 1,
                                     .members = MEMBERS,
                                     .kind = kind,
                                     .report_bits = report_bits};

    emu_finished_write(&e->nic[part->node].shared->drawn, &one);
}

/*
 * Check how the time in one collective @kind is split, from the reports of all members. The sample
 * has weight two.
 */
static void check_split(uint8_t kind, const struct part part[MEMBERS], uint64_t wait_ns,
                        uint64_t wait_most_ns, uint64_t network_ns, uint64_t network_most_ns)
{
    uint64_t at_ns = emu_now_ns() - 1000000;
    const struct fabric_comm_sum *reported;
    struct fabric_comm comm;
    struct hostifs e;

    open_stopped(&e);
    for (uint32_t i = 0; i < MEMBERS; i++)
        report(&e, kind, 1, at_ns, 1, &part[i]);
    report(&e, kind, 2, at_ns, 0, &part[0]); /* not all members have finished that one */
    CU_ASSERT_EQUAL_FATAL(fabric_comm_read(e.fabric, &comm), 0);
    reported = &comm.sampled[kind - EMU_MULTICAST][emu_comm_size(kind == EMU_BARRIER ? 0 : 8)];
    CU_ASSERT_EQUAL(reported->calls, MEMBERS);
    CU_ASSERT_EQUAL((uint64_t)reported->weight, 2 * MEMBERS);
    CU_ASSERT_EQUAL((uint64_t)reported->wait_ns, 2 * wait_ns);
    CU_ASSERT_EQUAL((uint64_t)reported->network_ns, 2 * network_ns);
    CU_ASSERT_EQUAL(reported->wait_most_ns, wait_most_ns);
    CU_ASSERT_EQUAL(reported->network_most_ns, network_most_ns);
    CU_ASSERT_EQUAL(comm.unreported, 1);
    fabric_comm_free(&comm);
    hostifs_close(&e);
}

static void reported__is_split_by_the_last_member(void)
{
    static const struct part part[MEMBERS] = {{0, 0, 530}, {1, 100, 520}, {2, 500, 540}};

    check_split(EMU_BARRIER, part, 500 + 400, 500, 30 + 20 + 40, 40);
    check_split(EMU_ALLREDUCE, part, 500 + 400, 500, 30 + 20 + 40, 40);
}

/* In a reduction only the root waits; in a broadcast all others wait for the root. */
static void reported__depends_on_the_root(void)
{
    static const struct part early[MEMBERS] = {{0, 0, 10}, {1, 100, 520}, {2, 500, 507}};

    check_split(EMU_REDUCE, early, 400, 400, 10 + 20 + 7, 20);

    static const struct part late[MEMBERS] = {{0, 0, 130}, {1, 100, 104}, {2, 500, 501}};

    check_split(EMU_MULTICAST, late, 100, 100, 30 + 4 + 1, 30);
}

/*
 * Reports of a process that detaches before others report are kept; two reports of one node do not
 * make a collective.
 */
static void reported__waits_for_all_members(void)
{
    static const struct part part[MEMBERS] = {{0, 0, 30}, {1, 10, 20}, {2, 5, 40}};
    uint64_t at_ns = emu_now_ns() - 1000000;
    const struct fabric_comm_sum *reported;
    struct fabric_comm comm;
    struct hostifs e;

    open_stopped(&e);
    reported = &comm.sampled[EMU_BARRIER - EMU_MULTICAST][0];
    report(&e, EMU_BARRIER, 1, at_ns - 500, 0, &part[0]); /* an earlier group with this address */
    report(&e, EMU_BARRIER, 1, at_ns, 0, &part[0]);
    hostifs_detach(&e, 0);
    report(&e, EMU_BARRIER, 1, at_ns, 0, &part[1]);
    CU_ASSERT_EQUAL_FATAL(fabric_comm_read(e.fabric, &comm), 0);
    CU_ASSERT_EQUAL(reported->calls, 0);
    fabric_comm_free(&comm);
    report(&e, EMU_BARRIER, 1, at_ns, 0, &part[2]);
    CU_ASSERT_EQUAL_FATAL(fabric_comm_read(e.fabric, &comm), 0);
    CU_ASSERT_EQUAL(reported->calls, MEMBERS);
    CU_ASSERT_EQUAL((uint64_t)reported->wait_ns, 10 + 5);
    CU_ASSERT_EQUAL(comm.unreported, 1);
    fabric_comm_free(&comm);
    hostifs_close(&e);
}

/* While segments pass, the ring is read before it is full; without segments no collective ends. */
static void tick__reads_in_time(void)
{
    enum { ROUNDS = 3, EACH = EMU_FINISHED_SLOTS / 2 };
    uint64_t at_ns = emu_now_ns() - 1000000;
    struct fabric_comm comm;
    struct hostifs e;

    open_stopped(&e);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t node = 0; node < MEMBERS; node++) {
            const struct part part = {node, 0, 30};

            for (uint32_t i = 0; i < EACH; i++)
                report(&e, EMU_BARRIER, round * EACH + i, at_ns, 0, &part);
            emu_count(node ? &e.fabric->hostif[node]->delivered : &e.fabric->hostif[node]->sent, 1);
        }
        fabric_comm_tick(e.fabric);
    }
    CU_ASSERT_EQUAL_FATAL(fabric_comm_read(e.fabric, &comm), 0);
    CU_ASSERT_EQUAL(comm.sampled[EMU_BARRIER - EMU_MULTICAST][0].calls, ROUNDS * EACH * MEMBERS);
    CU_ASSERT_EQUAL(comm.unreported, 0);
    fabric_comm_free(&comm);
    hostifs_close(&e);
}

/* Reports that no other member completes are bounded, and counted. */
static void reported__is_bounded(void)
{
    struct comm_samples reported = {0};
    struct emu_finished one = {.group = GROUP, .members = 2, .kind = EMU_BARRIER};
    uint64_t count;

    comm_samples_open(&reported, 2);
    count = 3 * (uint64_t)reported.most;
    for (uint64_t n = 0; n < count; n++) {
        one.first = n;
        comm_samples_add(&reported, 0, &one);
    }
    CU_ASSERT_TRUE(reported.capacity <= 2 * reported.most);
    CU_ASSERT_EQUAL(reported.unreported + reported.count, count);
    for (uint32_t node = 0; node < 2; node++) /* it still works */
        comm_samples_add(&reported, node, &one);
    comm_samples_settle(&reported);
    CU_ASSERT_EQUAL(reported.sum[EMU_BARRIER - EMU_MULTICAST][0].calls, 2);
    comm_samples_free(&reported);
}

static const struct test_case cases[] = {
    CASE(pairs__are_of_all_incarnations),
    CASE(sums__of_forged_counts_do_not_wrap),
    CASE(counters__are_summed_up),
    CASE(reported__is_split_by_the_last_member),
    CASE(reported__depends_on_the_root),
    CASE(reported__waits_for_all_members),
    CASE(tick__reads_in_time),
    CASE(reported__is_bounded),
    {0},
};

int main(void)
{
    return test_run("fabric_comm", cases);
}
