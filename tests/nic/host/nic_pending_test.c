/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_pending_test.c - how an adapter reports its pending operations to the fabric, and how the
 * fabric checks the report.
 *
 * Adapters on a fake fabric; the test chooses the times of the scans.
 */
#include <string.h>

#include "emu/hostif/pending.h"
#include "emu/util/combine.h"
#include "emu/util/now.h"
#include "tests/test.h"
#include "tests/fixtures/host/parts.h"
#include "tests/fixtures/host/peers.h"

#include "nic/host/base/lock.h"
#include "nic/host/progress/progress.h"

#define NODES 4u
#define S_NS  UINT64_C(1000000000)
#define LONG  100000u /* bytes: a message that announces itself first */

static uint8_t memory[LONG];
static uint64_t base_ns; /* what the test calls second 0 */

static uint64_t at(uint64_t s)
{
    return base_ns + s * S_NS;
}

/* The report of the adapter of @node, after a scan at @now_ns. */
static struct emu_pending scan(struct peers *w, uint32_t node, uint64_t now_ns)
{
    struct emu_pending ret;

    nic_lock(w->fab[node]);
    nic_pending_publish(w->fab[node], now_ns);
    nic_unlock(w->fab[node]);
    CU_ASSERT_TRUE_FATAL(
        emu_pending_read(&ret, &w->fab[node]->hostif.shared->pending, NODES, now_ns));
    return ret;
}

static void group_open(struct peers *w, struct fabemu_group *group[NODES])
{
    uint32_t node[NODES] = {0, 1, 2, 3};

    fake_group(w->fake, 7, node, NODES);
    for (uint32_t i = 0; i < NODES; i++)
        CU_ASSERT_EQUAL_FATAL(fabemu_group_join(w->fab[i], 7, NODES, &group[i]), 0);
}

/* --- point-to-point operations ------------------------------------------------------ */

/* The age of a receive counts from the first scan that found it. */
static void receive__is_shown_until_it_matches(void)
{
    struct peers w;
    struct emu_pending pending;
    struct fabemu_req recv, send;

    peers_open(&w, NODES, false);
    CU_ASSERT_EQUAL(scan(&w, 1, at(10)).receive.kind, EMU_PENDING_NOTHING);
    peers_recv(&w, 1, 0, 5, 0, memory, 64, &recv);
    CU_ASSERT_EQUAL(scan(&w, 1, at(11)).receive.since_ns, at(11));
    pending = scan(&w, 1, at(14));
    CU_ASSERT_EQUAL(pending.receive.kind, EMU_PENDING_RECEIVE);
    CU_ASSERT_EQUAL(pending.receive.state, EMU_PENDING_UNMATCHED);
    CU_ASSERT_EQUAL(pending.receive.since_ns, at(11));
    CU_ASSERT_EQUAL(pending.receive.node, 0);
    CU_ASSERT_EQUAL(pending.receive.tag, 5);
    CU_ASSERT_EQUAL(pending.receive.bytes, 64);
    CU_ASSERT_EQUAL(pending.quiet_ns, at(11));
    peers_send(&w, 0, 1, 5, memory, 64, &send);
    CU_ASSERT_TRUE(fake_finish(w.fake, &recv, 1));
    pending = scan(&w, 1, at(15));
    CU_ASSERT_EQUAL(pending.receive.kind, EMU_PENDING_NOTHING);
    CU_ASSERT_EQUAL(pending.quiet_ns, at(15));
    peers_close(&w);
}

/* A request is reused: the new operation has no age yet. */
static void receive__age_restarts_in_a_reused_request(void)
{
    struct peers w;
    struct fabemu_req recv, send;

    peers_open(&w, NODES, false);
    for (uint64_t s = 20; s < 25; s++) {
        peers_recv(&w, 1, 0, s, 0, memory, 64, &recv);
        CU_ASSERT_EQUAL(scan(&w, 1, at(s)).receive.since_ns, at(s));
        peers_send(&w, 0, 1, s, memory, 64, &send);
        CU_ASSERT_TRUE(fake_finish(w.fake, &recv, 1));
    }
    peers_close(&w);
}

/* A long send waits for its receive; a short one is delivered as unexpected. */
static void send__waits_for_its_receive(void)
{
    struct peers w;
    struct emu_pending pending;
    struct fabemu_req recv, send;

    peers_open(&w, NODES, false);
    peers_inject(&w, 0, 1, 3, memory, 8);
    peers_send(&w, 0, 1, 9, memory, LONG, &send);
    scan(&w, 0, at(30));
    fake_quiet(w.fake);
    pending = scan(&w, 0, at(32));
    CU_ASSERT_EQUAL(pending.send.kind, EMU_PENDING_SEND);
    CU_ASSERT_EQUAL(pending.send.state, EMU_PENDING_UNMATCHED);
    CU_ASSERT_EQUAL(pending.send.since_ns, at(30));
    CU_ASSERT_EQUAL(pending.send.node, 1);
    CU_ASSERT_EQUAL(pending.send.tag, 9);
    CU_ASSERT_EQUAL(pending.send.bytes, LONG);
    pending = scan(&w, 1, at(32));
    CU_ASSERT_EQUAL(pending.unexpected, 2);
    CU_ASSERT_EQUAL(pending.early.node, 0);
    CU_ASSERT_EQUAL(pending.early.tag, 3);
    peers_recv(&w, 1, 0, 9, 0, memory, LONG, &recv);
    CU_ASSERT_TRUE(fake_finish(w.fake, &recv, 1));
    CU_ASSERT_TRUE(fake_finish(w.fake, &send, 1));
    CU_ASSERT_EQUAL(scan(&w, 0, at(33)).send.kind, EMU_PENDING_NOTHING);
    peers_close(&w);
}

/*
 * In an MPI process, the receive of the reply to a synchronous send counts as that send, even if an
 * older receive is pending.
 */
static void synchronous_send__is_shown_until_its_reply(void)
{
    struct peers w;
    struct emu_pending pending;
    struct fabemu_req older, reply;

    peers_open(&w, NODES, false);
    peers_recv(&w, 0, 1, 4, 0, memory, 8, &older);
    scan(&w, 0, at(30));
    peers_recv(&w, 0, 1, EMU_PENDING_SYNC_REPLY + 9, 0, memory, 0, &reply);
    pending = scan(&w, 0, at(31));
    CU_ASSERT_EQUAL(pending.send.kind, EMU_PENDING_NOTHING); /* it is not an MPI process */
    w.fab[0]->rank = 0;
    pending = scan(&w, 0, at(32));
    CU_ASSERT_EQUAL(pending.send.kind, EMU_PENDING_SEND);
    CU_ASSERT_EQUAL(pending.send.state, EMU_PENDING_UNMATCHED);
    CU_ASSERT_EQUAL(pending.send.since_ns, at(31));
    CU_ASSERT_EQUAL(pending.send.node, 1);
    CU_ASSERT_EQUAL(pending.send.tag, EMU_PENDING_SYNC + 9);
    CU_ASSERT_EQUAL(pending.send.bytes, EMU_PENDING_SIZE_UNKNOWN);
    CU_ASSERT_EQUAL(pending.receive.tag, 4);
    peers_inject(&w, 1, 0, EMU_PENDING_SYNC_REPLY + 9, memory, 0);
    CU_ASSERT_TRUE(fake_finish(w.fake, &reply, 1));
    CU_ASSERT_EQUAL(scan(&w, 0, at(33)).send.kind, EMU_PENDING_NOTHING);
    peers_close(&w);
}

/* Probes that find nothing are shown with the age of the first one, until a probe succeeds. */
static void probe__is_shown_until_it_succeeds(void)
{
    struct peers w;
    struct emu_pending pending;
    struct fabemu_req req = {.incarnation = 0};

    peers_open(&w, NODES, false);
    CU_ASSERT_EQUAL(fabemu_probe(w.queue[0], 1, 8, 0, NULL, &req), -ENOMSG);
    pending = scan(&w, 0, at(30));
    CU_ASSERT_EQUAL(pending.receive.kind, EMU_PENDING_PROBE);
    CU_ASSERT_EQUAL(pending.receive.since_ns, at(30));
    CU_ASSERT_EQUAL(pending.quiet_ns, at(30)); /* something has begun */
    CU_ASSERT_EQUAL(scan(&w, 0, at(31)).receive.kind, EMU_PENDING_NOTHING); /* no probe since */
    CU_ASSERT_EQUAL(fabemu_probe(w.queue[0], 1, 9, 1, NULL, &req), -ENOMSG);
    pending = scan(&w, 0, at(32));
    CU_ASSERT_EQUAL(pending.receive.since_ns, at(30));
    CU_ASSERT_EQUAL(pending.receive.node, 1);
    CU_ASSERT_EQUAL(pending.receive.tag, 9);
    CU_ASSERT_EQUAL(pending.receive.ignore, 1);
    CU_ASSERT_EQUAL(pending.quiet_ns, at(30)); /* a program may repeat a failing probe */
    peers_inject(&w, 1, 0, 8, memory, 8);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(fabemu_probe(w.queue[0], 1, 7, 0, NULL, &req), -ENOMSG);
    CU_ASSERT_EQUAL(fabemu_probe(w.queue[0], 1, 8, 0, NULL, &req), 0);
    CU_ASSERT_EQUAL(scan(&w, 0, at(33)).receive.kind, EMU_PENDING_NOTHING);
    peers_close(&w);
}

/*
 * The wait for a lock at node 1 is shown with the age of its first sample, until another process
 * has the lock. The attempts to acquire it are no progress, neither here nor at node 1.
 */
static void lock__is_shown_and_its_attempts_are_no_progress(void)
{
    struct fabemu_awaited awaited = {.action = FABEMU_ACTION_UNLOCK,
                                     .node = 2,
                                     .target = 1,
                                     .checks = 1};
    const struct fabemu_awaited wrong = {.action = FABEMU_ACTIONS};
    struct peers w;
    struct emu_pending pending;
    static uint64_t word;
    uint64_t key, one = 1, quiet_ns;

    peers_open(&w, NODES, false);
    CU_ASSERT_EQUAL(fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_ATOMIC, &key), 0);
    quiet_ns = scan(&w, 1, at(30)).quiet_ns;
    for (uint64_t s = 30; s < 34; s++) {
        const struct fabemu_atomic add = {
            .node = 1, .key = key, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64, .operand = &one};
        struct fabemu_req req = {.incarnation = 0};

        CU_ASSERT_EQUAL_FATAL(fabemu_atomic(w.fab[0], &add, &req), 0);
        CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
        fabemu_awaits(w.fab[0], &awaited);
        pending = scan(&w, 0, at(s));
        CU_ASSERT_EQUAL(pending.receive.kind, EMU_PENDING_UNLOCK);
        CU_ASSERT_EQUAL(pending.receive.since_ns, at(30));
        CU_ASSERT_EQUAL(pending.receive.node, 2);
        CU_ASSERT_EQUAL(pending.receive.tag, 1);
        CU_ASSERT_EQUAL(pending.quiet_ns, at(30)); /* something has begun */
        CU_ASSERT_EQUAL(scan(&w, 1, at(s + 1)).quiet_ns, quiet_ns);
    }
    awaited.node = 3;
    awaited.checks = 0;
    fabemu_awaits(w.fab[0], &awaited);
    fabemu_awaits(w.fab[0], &wrong);
    pending = scan(&w, 0, at(35));
    CU_ASSERT_EQUAL(pending.receive.node, 3);
    CU_ASSERT_EQUAL(pending.receive.since_ns, at(35));
    CU_ASSERT_EQUAL(pending.quiet_ns, at(35)); /* another process has got the lock */
    fabemu_awaits(w.fab[0], NULL);
    CU_ASSERT_EQUAL(scan(&w, 0, at(36)).receive.kind, EMU_PENDING_NOTHING);
    peers_close(&w);
}

/* A message of Open MPI's collectives, which arrived first, does not hide one of the program. */
static void unexpected__of_open_mpi_count_only_alone(void)
{
    struct peers w;
    struct emu_pending pending;

    peers_open(&w, NODES, false);
    peers_inject(&w, 2, 1, EMU_PENDING_INTERNAL + 8, memory, 8);
    fake_quiet(w.fake);
    pending = scan(&w, 1, at(34));
    CU_ASSERT_EQUAL(pending.unexpected, 1);
    CU_ASSERT_EQUAL(pending.early.tag, EMU_PENDING_INTERNAL + 8);
    peers_inject(&w, 0, 1, 3, memory, 8);
    peers_inject(&w, 2, 1, EMU_PENDING_INTERNAL + 8, memory, 8);
    fake_quiet(w.fake);
    pending = scan(&w, 1, at(35));
    CU_ASSERT_EQUAL(pending.unexpected, 1);
    CU_ASSERT_EQUAL(pending.early.tag, 3);
    CU_ASSERT_EQUAL(pending.early.node, 0);
    peers_close(&w);
}

/* --- collectives -------------------------------------------------------------------- */

static void barrier__is_shown_by_its_number(void)
{
    struct peers w;
    struct fabemu_group *group[NODES];
    struct fabemu_req req[NODES] = {0};
    struct emu_pending pending;

    peers_open(&w, NODES, false);
    group_open(&w, group);
    fabemu_group_name(group[0], "of\ntests");
    for (uint32_t i = 0; i < NODES; i++)
        CU_ASSERT_EQUAL(fabemu_barrier(group[i], &req[i]), 0);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, NODES));
    CU_ASSERT_EQUAL(fabemu_barrier(group[0], &req[0]), 0);
    fake_quiet(w.fake);
    scan(&w, 0, at(40));
    pending = scan(&w, 0, at(43));
    CU_ASSERT_EQUAL(pending.groups, 1);
    CU_ASSERT_EQUAL(pending.group[0].id, 7);
    CU_ASSERT_EQUAL(pending.group[0].begun, 2);
    CU_ASSERT_EQUAL(pending.group[0].number, 2);
    CU_ASSERT_EQUAL(pending.group[0].since_ns, at(40));
    CU_ASSERT_EQUAL(pending.group[0].what.kind, EMU_BARRIER);
    CU_ASSERT_EQUAL(pending.group[0].sent, 1);
    CU_ASSERT_STRING_EQUAL(pending.group[0].name, "of?tests");
    pending = scan(&w, 3, at(43));
    CU_ASSERT_EQUAL(pending.group[0].begun, 1);
    CU_ASSERT_EQUAL(pending.group[0].since_ns, 0);
    for (uint32_t i = 1; i < NODES; i++)
        CU_ASSERT_EQUAL(fabemu_barrier(group[i], &req[i]), 0);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, NODES));
    CU_ASSERT_EQUAL(scan(&w, 0, at(44)).group[0].since_ns, 0);
    for (uint32_t i = 0; i < NODES; i++)
        fabemu_group_leave(group[i]);
    peers_close(&w);
}

/* Two members broadcast in the same collective: each is shown the other at once. */
static void broadcast__of_two_roots_is_a_mismatch(void)
{
    struct peers w;
    struct fabemu_group *group[NODES];
    struct fabemu_req req[NODES] = {0};
    struct emu_pending pending;
    uint64_t word[NODES] = {0};

    peers_open(&w, NODES, false);
    group_open(&w, group);
    for (uint32_t i = 0; i < NODES; i++)
        CU_ASSERT_EQUAL(fabemu_broadcast(group[i], &word[i], 8, i == 3 ? 3 : 0, &req[i]), 0);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, NODES));
    fake_quiet(w.fake);
    CU_ASSERT_TRUE_FATAL(
        emu_pending_read(&pending, &w.fab[3]->hostif.shared->pending, NODES, UINT64_MAX));
    CU_ASSERT_EQUAL(pending.mismatch.group, 7);
    CU_ASSERT_EQUAL(pending.mismatch.number, 1);
    CU_ASSERT_EQUAL(pending.mismatch.node, 0);
    CU_ASSERT_EQUAL(pending.mismatch.mine.kind, EMU_MULTICAST);
    CU_ASSERT_EQUAL(pending.mismatch.mine.root, 3);
    CU_ASSERT_EQUAL(pending.mismatch.other.root, 0);
    for (uint32_t i = 0; i < NODES; i++)
        fabemu_group_leave(group[i]);
    peers_close(&w);
}

/* --- validation --------------------------------------------------------------------- */

static bool what_is_sane(const struct emu_pending_what *what)
{
    return what->kind < EMU_KINDS && what->kind >= EMU_MULTICAST &&
           what->call <= EMU_HOSTIF_COLLS &&
           (what->root < NODES || what->root == EMU_PENDING_ANY) &&
           (what->kind == EMU_MULTICAST || what->kind == EMU_BARRIER ||
            emu_combine_ok(what->op, what->type));
}

static bool op_is_sane(const struct emu_pending_op *op, uint64_t now_ns)
{
    return op->kind < EMU_PENDING_KINDS &&
           (!op->kind || (op->state < EMU_PENDING_STATES && op->since_ns <= now_ns &&
                          (op->node < NODES || op->node == EMU_PENDING_ANY)));
}

static bool name_is_sane(const char *name)
{
    size_t length = strnlen(name, EMU_PENDING_NAME);

    for (size_t i = 0; i < length; i++)
        if (name[i] < ' ' || name[i] > '~')
            return false;
    return length < EMU_PENDING_NAME;
}

static bool group_is_sane(const struct emu_pending_group *group, uint64_t now_ns)
{
    return group->since_ns <= now_ns && name_is_sane(group->name) &&
           (!group->since_ns ||
            (what_is_sane(&group->what) && group->number && group->number <= group->begun));
}

static bool is_sane(const struct emu_pending *pending, uint64_t now_ns)
{
    const struct emu_pending_mismatch *mismatch = &pending->mismatch;
    bool sane = pending->groups <= EMU_PENDING_GROUPS && op_is_sane(&pending->send, now_ns) &&
                op_is_sane(&pending->receive, now_ns) && op_is_sane(&pending->early, now_ns) &&
                pending->quiet_ns <= now_ns && pending->written_ns <= now_ns;

    if (mismatch->node != EMU_PENDING_ANY)
        sane = sane && mismatch->node < NODES && what_is_sane(&mismatch->mine) &&
               what_is_sane(&mismatch->other) && name_is_sane(mismatch->name);
    for (uint32_t g = 0; sane && g < pending->groups; g++)
        sane = group_is_sane(&pending->group[g], now_ns);
    return sane;
}

static bool always(void)
{
    return true;
}

/* The program is asked in each scan, and no longer after it has taken its function away. */
static void finalizing__is_asked_in_each_scan(void)
{
    struct peers w;

    peers_open(&w, NODES, false);
    CU_ASSERT_EQUAL(scan(&w, 0, at(1)).finalizes, 0);
    fabemu_finalizing(w.fab[0], always);
    CU_ASSERT_EQUAL(scan(&w, 0, at(2)).finalizes, 1);
    CU_ASSERT_EQUAL(scan(&w, 1, at(2)).finalizes, 0);
    fabemu_finalizing(w.fab[0], NULL);
    CU_ASSERT_EQUAL(scan(&w, 0, at(3)).finalizes, 0);
    peers_close(&w);
}

/* A process may write anything into its report. */
static void read__rejects_invalid_reports(void)
{
    static struct emu_pending_shared shared;
    struct emu_pending pending;
    uint64_t random = test_seed();

    CU_ASSERT_FALSE(emu_pending_read(&pending, &shared, NODES, S_NS)); /* never written */
    for (uint32_t round = 0; round < 20000; round++) {
        uint64_t mask = round % 3 ? UINT64_C(0x0000000300000003) << test_random(&random) % 6
                                  : UINT64_MAX;

        for (size_t i = 0; i < EMU_PENDING_WORDS; i++)
            atomic_store_explicit(&shared.word[i], test_random(&random) & mask,
                                  memory_order_relaxed);
        atomic_store_explicit(&shared.sequence, 2 * round + 2, memory_order_relaxed);
        CU_ASSERT_TRUE_FATAL(emu_pending_read(&pending, &shared, NODES, S_NS));
        CU_ASSERT_TRUE_FATAL(is_sane(&pending, S_NS));
    }
    atomic_store_explicit(&shared.sequence, 3, memory_order_relaxed); /* it is being written */
    CU_ASSERT_FALSE(emu_pending_read(&pending, &shared, NODES, S_NS));
}

static const struct test_case cases[] = {
    CASE(receive__is_shown_until_it_matches),
    CASE(receive__age_restarts_in_a_reused_request),
    CASE(send__waits_for_its_receive),
    CASE(synchronous_send__is_shown_until_its_reply),
    CASE(probe__is_shown_until_it_succeeds),
    CASE(lock__is_shown_and_its_attempts_are_no_progress),
    CASE(unexpected__of_open_mpi_count_only_alone),
    CASE(barrier__is_shown_by_its_number),
    CASE(broadcast__of_two_roots_is_a_mismatch),
    CASE(finalizing__is_asked_in_each_scan),
    CASE(read__rejects_invalid_reports),
    {0},
};

int main(void)
{
    base_ns = emu_now_ns();
    return test_run("nic_pending", cases);
}
