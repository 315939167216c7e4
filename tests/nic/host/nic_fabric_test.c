/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_fabric_test.c - adapters on a real fabric with acknowledgments: all operations, over cables
 * that lose, duplicate, delay and corrupt, and the effects of a node that is cut off.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "nic/engine/internal.h"
#include "apps/fabric/links.h"
#include "tests/test.h"
#include "tests/fixtures/host/cluster.h"
#include "tests/fixtures/host/parts.h"

static void all_of_it(const struct cluster_config *set)
{
    struct cluster w;

    cluster_open(&w, set);
    cluster_messages(&w);
    cluster_memory(&w);
    cluster_broadcasts(&w);
    cluster_collectives(&w);
    for (uint32_t n = 0; n < w.nodes; n++) {
        CU_ASSERT_EQUAL(w.fab[n]->counts.given_up, 0);
        CU_ASSERT_EQUAL(w.fab[n]->counts.late, 0);
    }
    cluster_close(&w);
}

static void adapters__all_operations_over_good_cables(void)
{
    static const struct cluster_config sets[] = {{.topo = "kary:4,1"},
                                                 {.topo = "kary:2,3"},
                                                 {.topo = "kary:2,2", .set = "barrier=tree"}};

    for (unsigned i = 0; i < 3; i++)
        all_of_it(&sets[i]);
}

/*
 * Start the adapter's counters for its peers, its groups and itself at @first. Nothing has been
 * sent yet.
 */
static void adapter_begins_at(struct cluster *w, uint32_t node, uint32_t first)
{
    struct fabemu *fab = w->fab[node];
    struct fabemu_group *g = w->group[node];

    for (uint32_t n = 0; n < w->nodes; n++) {
        struct nic_peer *peer = nic_peer(fab, n);

        peer->tx_seq = peer->tx_acked = peer->tx_eager = peer->tx_consumed = first;
        peer->rx_next = peer->rx_acked = peer->rx_consumed = peer->rx_consumed_acked = first;
        peer->epoch = first;
    }
    g->cur = g->issued = g->done = first / (EMU_WINDOW / 2);
    g->posted = g->bound = g->cur * ((EMU_WINDOW / 2) - 1);
    fab->steps = fab->polls = fab->broken_count = first;
}

/* Set the generation of all operation ids that are not in use. */
static void ids_begin_at(struct fabemu *fab, uint32_t generation)
{
    for (uint32_t i = 1; i < fab->slot_count; i++)
        if (!fab->slots[i].op)
            fab->slots[i].generation = generation & 0xfff;
}

static bool ids_wrapped(const struct fabemu *fab, uint32_t generation)
{
    bool wrapped = false;

    for (uint32_t i = 1; i < fab->slot_count; i++)
        wrapped = wrapped || fab->slots[i].generation < generation;
    return wrapped;
}

static void adapters__work_across_number_wrap(void)
{
    static const struct cluster_config sets[] = {
        {.topo = "kary:2,2", .first = UINT32_MAX - 100, .bad = 2000, .set = "packet_bytes=1024"},
        {.topo = "kary:4,1", .first = UINT32_MAX - 300, .set = "barrier=tree packet_bytes=1024"},
        {.topo = "kary:2,2",
         .first = UINT32_MAX - 200,
         .set = "combining=switch packet_bytes=1024"},
    };
    struct cluster w;

    for (uint32_t i = 0; i < 3; i++) {
        uint32_t first = sets[i].first;

        cluster_open(&w, &sets[i]);
        for (uint32_t n = 0; n < w.nodes; n++)
            adapter_begins_at(&w, n, first);
        for (uint32_t round = 0; round < 4; round++) {
            cluster_messages(&w);
            cluster_memory(&w);
            cluster_collectives(&w);
            for (uint32_t n = 0; n < w.nodes && !round; n++)
                ids_begin_at(w.fab[n], 0xffd);
        }
        cluster_broadcasts(&w);
        for (uint32_t n = 0; n < w.nodes; n++) { /* all counters have wrapped */
            uint32_t next = (n + 1) % w.nodes;
            const struct nic_peer *to = nic_peer(w.fab[n], next), *from = nic_peer(w.fab[next], n);

            CU_ASSERT_TRUE(to->tx_seq < first && to->tx_eager < first && to->tx_acked < first);
            CU_ASSERT_TRUE(from->rx_next < first && from->rx_consumed < first);
            CU_ASSERT_TRUE(w.fab[n]->hostif.up_tail < first && w.fab[n]->hostif.down_head < first);
            CU_ASSERT_TRUE(w.group[n]->done > UINT32_MAX / (EMU_WINDOW / 2));
            CU_ASSERT_TRUE(fabric_engine(w.fabric, n)->send.flow[(n + 1) % w.nodes].next >
                           UINT32_MAX - first);
            CU_ASSERT_TRUE(ids_wrapped(w.fab[n], 0xffd));
            CU_ASSERT_TRUE(w.fab[n]->steps < first);
        }
        CU_ASSERT_TRUE(w.id / FABRIC_GROUPS_MAX > FABRIC_GENERATIONS - 400);
        cluster_close(&w);
    }
}

static void adapters__all_operations_over_faulty_cables(void)
{
    static const struct cluster_config sets[] = {
        {.topo = "kary:4,1", .bad = 10000, .set = "packet_bytes=1024"},
        {.topo = "kary:2,2", .bad = 5000, .set = "barrier=tree packet_bytes=1024"},
        {.topo = "kary:2,2", .bad = 1000}};

    for (unsigned i = 0; i < sizeof sets / sizeof sets[0]; i++)
        all_of_it(&sets[i]);
}

/* Processes are notified of few segments ahead of the replies to them. */
static void adapters__all_operations_with_a_core_each(void)
{
    static const struct cluster_config sets[] = {
        {.topo = "kary:4,1", .alone = true},
        {.topo = "kary:2,2", .bad = 5000, .set = "packet_bytes=1024", .alone = true}};

    all_of_it(&sets[0]);
    all_of_it(&sets[1]);
}

/* Rounds until a short message has arrived, while its reply is still on the way back. */
static uint32_t rounds_of_a_message(bool alone)
{
    const struct cluster_config set = {.topo = "kary:4,1", .alone = alone};
    struct fabemu_dest dest = {.node = 1, .queue = 1};
    struct fabemu_req send = {0}, recv = {0};
    uint32_t rounds = 0, v = 7, got = 0;
    struct fabemu_iov from = {.base = &v, .bytes = 4}, into = {.base = &got, .bytes = 4};
    struct cluster w;

    cluster_open(&w, &set);
    if (!alone)
        atomic_store(&w.fabric->worker[0]->oversubscribed, 1);
    cluster_messages(&w);
    fabemu_recv(w.queue[1], 0, 0, 0, &into, 1, &recv);
    fabemu_send(w.queue[0], &dest, &from, 1, &send);
    for (; recv.status == FABEMU_PENDING && rounds < 1000; rounds++)
        cluster_pump(&w);
    CU_ASSERT_TRUE(cluster_finish(&w, &send, 1) && recv.status == 0 && got == 7);
    cluster_close(&w);
    return rounds;
}

static void adapters__are_notified_before_the_reply_with_a_core_each(void)
{
    CU_ASSERT_TRUE(rounds_of_a_message(true) < rounds_of_a_message(false));
}

/* How many steps @polls polls of node 0's adapter make. */
static uint32_t steps_of(struct cluster *w, uint32_t polls)
{
    uint32_t before = w->fab[0]->steps;

    while (polls--)
        fabemu_progress(w->fab[0]);
    return w->fab[0]->steps - before;
}

/*
 * A poll steps the adapter if a segment has arrived, or if an operation is pending that may need a
 * step without one. Other polls do so only now and then, to check the clock.
 */
static void polls__step_only_when_needed(void)
{
    const struct cluster_config set = {.topo = "kary:4,1", .members = 2};
    struct fabemu_dest dest = {.node = 0, .queue = 1};
    struct fabemu_req send[2] = {0}, recv = {0};
    uint32_t v = 7, got = 0;
    struct fabemu_iov from = {.base = &v, .bytes = 4}, into = {.base = &got, .bytes = 4};
    struct cluster w;

    cluster_open(&w, &set);
    fabemu_recv(w.queue[0], 1, 0, 0, &into, 1, &recv);
    fabemu_send(w.queue[1], &dest, &from, 1, &send[0]);
    CU_ASSERT_TRUE(cluster_finish(&w, send, 1) && cluster_finish(&w, &recv, 1) && got == 7);
    for (uint32_t round = 0; round < 1000; round++)
        cluster_pump(&w);
    CU_ASSERT_TRUE(steps_of(&w, 6400) >= 100);
    CU_ASSERT_TRUE(steps_of(&w, 6400) < 400); /* hellos may be due meanwhile */
    got = 0;
    fabemu_recv(w.queue[0], 1, 0, 0, &into, 1, &recv);
    fabemu_send(w.queue[1], &dest, &from, 1, &send[0]);
    for (uint32_t round = 0; round < 1000; round++) {
        fabemu_progress(w.fab[1]);
        fixture_fabric_pass(w.fabric);
    }
    CU_ASSERT_TRUE(fabemu_progress(w.fab[0]) && recv.status == 0 && got == 7);
    dest.node = 3; /* an absent node: hellos are repeated */
    fabemu_send(w.queue[0], &dest, &from, 1, &send[1]);
    CU_ASSERT_EQUAL(send[1].status, FABEMU_PENDING);
    CU_ASSERT_EQUAL(steps_of(&w, 640), 640);
    cluster_close(&w);
}

static void adapters__all_operations_with_threads(void)
{
    static const struct cluster_config set = {.topo = "kary:4,1", .threads = true, .bad = 500};

    all_of_it(&set);
}

/* --- nodes cut off ------------------------------------------------------------------ */

/* Set or clear faults at both ends of @node's cable. */
static void set_node_cut(struct cluster *w, uint32_t node, bool cut)
{
    uint32_t cable = fabric_cable_of(w->fabric, node, 0), lost = cut ? EMU_FAULT_UNIT : 0;

    fabric_faults(w->fabric, cable, false)->rates.lost = lost;
    fabric_faults(w->fabric, cable, true)->rates.lost = lost;
}

/* Node 0 sends to @remote, whose cable works again, until a message arrives. */
static void reconnect(struct cluster *w, uint32_t remote)
{
    static uint8_t out[8], in[8]; /* short ones wait for no receive */
    struct fabemu_iov from = {.base = out, .bytes = 8}, into = {.base = in, .bytes = 8};
    struct fabemu_dest dest = {.node = remote, .queue = 1};

    for (bool met = false; !met;) {
        struct fabemu_req recv = {0}, send = {0};

        fabemu_recv(w->queue[remote], 0, 0, 0, &into, 1, &recv);
        fabemu_send(w->queue[0], &dest, &from, 1, &send);
        CU_ASSERT_TRUE_FATAL(cluster_finish(w, &send, 1));
        if (!send.status) {
            CU_ASSERT_TRUE_FATAL(cluster_finish(w, &recv, 1));
        }
        met = !send.status && !recv.status;
        fabemu_abort(w->fab[remote], &recv);
    }
}

static void one_is_cut_off(const char *topo)
{
    const struct cluster_config set = {.topo = topo, .set = "retry_limit=4"};
    static uint8_t out[CLUSTER_BYTES], in[4][CLUSTER_BYTES];
    struct fabemu_iov iov = {.base = out, .bytes = CLUSTER_BYTES};
    struct fabemu_dest dest = {.queue = 1};
    struct fabemu_req recv[2] = {{0}}, send[2] = {{0}}, get = {0}, add = {0}, fine[2] = {{0}};
    uint64_t key, one = 1;
    struct cluster w;

    cluster_open(&w, &set);
    uint32_t remote = w.nodes - 1;
    fabemu_register(w.fab[remote], out, CLUSTER_BYTES, FABEMU_REMOTE_READ | FABEMU_REMOTE_ATOMIC,
                    &key);
    cluster_messages(&w); /* they are connected */
    set_node_cut(&w, remote, true);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t me = i ? remote : 0, other = i ? 0 : remote;
        struct fabemu_iov into = {.base = in[i], .bytes = CLUSTER_BYTES};

        dest.node = other;
        fabemu_recv(w.queue[me], other, 0, 0, &into, 1, &recv[i]);
        if (!i) /* node far only waits: none of its own operations can fail */
            fabemu_send(w.queue[me], &dest, &iov, 1, &send[i]);
    }
    struct fabemu_atomic what = {.node = remote, .key = key, .type = FABEMU_U64, .operand = &one};
    fabemu_get(w.fab[0], remote, key, 0, in[2], 1000, &get);
    fabemu_atomic(w.fab[0], &what, &add);
    CU_ASSERT_TRUE_FATAL(cluster_finish(&w, recv, 2) && cluster_finish(&w, send, 1) &&
                         cluster_finish(&w, &get, 1) && cluster_finish(&w, &add, 1));
    CU_ASSERT_TRUE(adapters_all_are(recv, 2, -EHOSTUNREACH) && send[0].status == -EHOSTUNREACH &&
                   get.status == -EHOSTUNREACH && add.status == -EHOSTUNREACH);

    /*
     * The other nodes are not affected. New operations fail; when the cable works again they
     * reconnect.
     */
    struct fabemu_iov into = {.base = in[3], .bytes = CLUSTER_BYTES};
    dest.node = 1;
    fabemu_recv(w.queue[1], 0, 5, 0, &into, 1, &fine[0]);
    dest.tag = 5;
    fabemu_send(w.queue[0], &dest, &iov, 1, &fine[1]);
    CU_ASSERT_TRUE(cluster_finish(&w, fine, 2) && adapters_all_are(fine, 2, 0));
    dest = (struct fabemu_dest){.node = remote, .queue = 1};
    memset(send, 0, sizeof send);
    fabemu_send(w.queue[0], &dest, &iov, 1, &send[0]);
    CU_ASSERT_TRUE(cluster_finish(&w, send, 1) && send[0].status == -EHOSTUNREACH);
    set_node_cut(&w, remote, false);
    reconnect(&w, remote);
    cluster_close(&w);
}

static void node__cut_off_fails_and_reconnects(void)
{
    one_is_cut_off("kary:4,1");
    one_is_cut_off("kary:2,2");
}

/* Write @count full segments to @dst into the ring of @node, bypassing the adapter. */
static void post_segments(struct cluster *w, uint32_t node, uint32_t dst, uint32_t count)
{
    nic_lock(w->fab[node]);
    for (uint32_t i = 0; i < count; i++) {
        struct emu_seg *seg = nic_claim(w->fab[node], dst);

        CU_ASSERT_PTR_NOT_NULL_FATAL(seg);
        seg->hdr.len = EMU_PAYLOAD_BYTES;
        memset(seg->payload, 0, EMU_PAYLOAD_BYTES);
    }
    nic_unlock(w->fab[node]);
}

/*
 * Two processes' segments share no packet: a notice about a shared one would only go to the first
 * process.
 */
static void has_a_new_process(bool alone)
{
    /* more packets than channels, and a packet with space left */
    enum { FIRST = 4 * 40 + 1, SECOND = 2 };
    struct cluster w;

    cluster_open(&w, &(struct cluster_config){.topo = "kary:4,1",
                                              .set = "retry_limit=2 packet_bytes=1024",
                                              .alone = alone});
    const struct engine *e = fabric_engine(w.fabric, 0);
    cluster_messages(&w);
    set_node_cut(&w, 1, true);
    /* All channels stay in use until this test frees them. */
    emu_rto_init(&fabric_engine(w.fabric, 0)->rto, 10000 * ADAPTERS_HASTE_PS);
    post_segments(&w, 0, 1, FIRST);
    for (uint32_t i = 0; i < 10; i++)
        cluster_pump(&w);
    uint16_t forming = e->send.forming;
    CU_ASSERT_TRUE(forming != ENGINE_NONE && e->send.packet[forming].count == 1);
    fabemu_group_leave(w.group[0]);
    nic_close(w.fab[0]);
    fabric_detach(w.fabric, 0);
    cluster_attach(&w, 0);
    CU_ASSERT_EQUAL(fabemu_group_join(w.fab[0], 1000, 1, &w.group[0]), 0);
    post_segments(&w, 0, 1, SECOND);
    for (uint32_t i = 0; i < 10; i++)
        cluster_pump(&w);
    CU_ASSERT_EQUAL(e->send.packet[forming].count, 1);
    emu_rto_init(&fabric_engine(w.fabric, 0)->rto, ADAPTERS_HASTE_PS);
    for (uint32_t i = 0; i < e->send.packets; i++)
        if (e->send.packet[i].state == ENGINE_AWAITING)
            e->send.packet[i].due_ps = e->now_ps;
    for (uint64_t end = emu_now_ns() + UINT64_C(20000000000);
         emu_now_ns() < end && !engine_idle(e);)
        cluster_pump(&w);
    cluster_pump(&w);
    CU_ASSERT_EQUAL(w.fab[0]->counts.given_up, SECOND);
    cluster_close(&w);
}

static void node__new_process_gets_its_own_notices(void)
{
    has_a_new_process(false);
    has_a_new_process(true);
}

/*
 * The network delivers no hello to a node without a process: they are repeated until one arrives.
 */
static void node__attached_late_is_connected(void)
{
    const struct cluster_config set = {.topo = "kary:4,1"};
    uint32_t v = 7, got = 0;
    struct fabemu_iov from = {.base = &v, .bytes = 4}, into = {.base = &got, .bytes = 4};
    struct fabemu_dest dest = {.node = 3, .queue = 1};
    struct fabemu_req send = {0}, recv = {0};
    struct fabemu *early;
    struct cluster w;

    cluster_open(&w, &set);
    fabemu_group_leave(w.group[3]);
    nic_close(w.fab[3]);
    fabric_detach(w.fabric, 3);
    early = w.fab[3] = w.fab[2]; /* steps twice */
    fabemu_send(w.queue[0], &dest, &from, 1, &send);
    for (uint64_t end = emu_now_ns() + 20000000; emu_now_ns() < end;)
        cluster_pump(&w);
    CU_ASSERT_EQUAL(send.status, FABEMU_PENDING);
    cluster_attach(&w, 3);
    CU_ASSERT_PTR_NOT_EQUAL(w.fab[3], early);
    CU_ASSERT_EQUAL(fabemu_group_join(w.fab[3], 1000, 1, &w.group[3]), 0);
    fabemu_recv(w.queue[3], 0, 0, 0, &into, 1, &recv);
    CU_ASSERT_TRUE_FATAL(cluster_finish(&w, &send, 1) && cluster_finish(&w, &recv, 1));
    CU_ASSERT_TRUE(send.status == 0 && recv.status == 0 && got == 7);
    cluster_close(&w);
}

/* All members get the error while the cable is cut: on both sides, senders and waiters. */
static void group__breaks_when_a_member_is_cut_off(void)
{
    for (unsigned kind = 0; kind < 5; kind++) {
        const struct cluster_config set = {.topo = "kary:4,1", .set = "retry_limit=3"};
        struct fabemu_req req[CLUSTER_NODES] = {{0}}, symmetric[CLUSTER_NODES] = {{0}};
        struct fabemu_req later[CLUSTER_NODES] = {{0}};
        uint64_t v[CLUSTER_NODES] = {0}, key[CLUSTER_NODES];
        uint32_t remote = kind % 2 ? 3 : 0;
        struct cluster w;

        cluster_open(&w, &set);
        for (uint32_t n = 0; n < w.nodes; n++)
            fabemu_register_symmetric(w.group[n], &v[n], 8, FABEMU_REMOTE_WRITE, &key[n],
                                      &symmetric[n]);
        CU_ASSERT_TRUE_FATAL(cluster_finish(&w, symmetric, w.nodes) &&
                             adapters_all_are(symmetric, w.nodes, 0));
        set_node_cut(&w, remote, true);
        for (uint32_t n = 0; n < w.nodes; n++) {
            if (kind == 0)
                fabemu_allreduce(w.group[n], &v[n], &v[n], 1, FABEMU_SUM, FABEMU_U64, &req[n]);
            else if (kind == 1)
                fabemu_broadcast(w.group[n], &v[n], 8, 0, &req[n]);
            else if (kind == 2 && n == 0)
                fabemu_broadcast_put(w.group[0], key[0], 0, "12345678", 8, &req[0]);
            else if (kind == 2)
                fabemu_group_test(w.group[n], 0, 1, FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL,
                                  &req[n]);
            else if (kind == 3)
                fabemu_reduce(w.group[n], &v[n], &v[n], 1, FABEMU_SUM, FABEMU_U64, 0, &req[n]);
            fabemu_barrier(w.group[n], &later[n]);
        }
        CU_ASSERT_TRUE_FATAL(cluster_finish(&w, req, w.nodes) &&
                             cluster_finish(&w, later, w.nodes));
        CU_ASSERT_TRUE(adapters_all_are(later, w.nodes, -EPIPE));
        set_node_cut(&w, remote, false);
        cluster_messages(&w); /* a broken group does not break pairs */
        cluster_close(&w);
    }
}

/* --- waiting operations ------------------------------------------------------------- */

#define WAITERS       700u /* more than an adapter has packets, and slots for conditionals */
#define REACHED_UNTIL (FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL)

/* Node @node posts that many operations, none of which can complete before other nodes act. */
static void post_waiters(struct cluster *w, uint32_t node, bool tests, struct fabemu_req *req)
{
    memset(req, 0, WAITERS * sizeof *req);
    for (uint32_t i = 0; i < WAITERS; i++) {
        if (tests)
            fabemu_group_test(w->group[node], i % FABEMU_WORDS, 1 + i / FABEMU_WORDS, REACHED_UNTIL,
                              &req[i]);
        else
            fabemu_barrier(w->group[node], &req[i]);
    }
    for (uint32_t i = 0; i < 300; i++)
        cluster_pump(w);
}

static uint32_t count_pending(const struct fabemu_req *req)
{
    uint32_t pending = 0;

    for (uint32_t i = 0; i < WAITERS; i++)
        pending += fabemu_req_status(&req[i]) == FABEMU_PENDING;
    return pending;
}

/*
 * Any number of conditionals and broadcasts may wait. They block neither messages of the same
 * process nor the words for which they wait.
 */
static void waiting__does_not_block_its_dependencies(void)
{
    static const char *const sets[] = {"barrier=conditional", "barrier=tree", "channels=1"};
    static struct fabemu_req req[CLUSTER_NODES][WAITERS];
    struct cluster w;

    test_each_setting (i, 6) {
        bool tests = i % 2;

        cluster_open(&w, &(struct cluster_config){.topo = "kary:2,2", .set = sets[i / 2]});
        post_waiters(&w, 0, tests, req[0]);
        CU_ASSERT_EQUAL(count_pending(req[0]), WAITERS);
        cluster_messages(&w);
        for (uint32_t n = 1; n < w.nodes; n++)
            post_waiters(&w, n, tests, req[n]);
        for (uint32_t n = w.nodes; n-- > 0 && tests;)
            for (uint32_t word = 0; word < FABEMU_WORDS; word++)
                fabemu_group_set(w.group[n], word, 1 + WAITERS / FABEMU_WORDS, NULL);
        for (uint32_t n = 0; n < w.nodes; n++)
            CU_ASSERT_TRUE_FATAL(cluster_finish(&w, req[n], WAITERS) &&
                                 adapters_all_are(req[n], WAITERS, 0));
        cluster_close(&w);
    }
}

static uint32_t queries_used(const struct cluster *w, uint32_t node)
{
    const struct engine_queries *asks = &fabric_engine(w->fabric, node)->queries;
    uint32_t used = 0;

    for (uint32_t i = 0; i < ENGINE_QUERIES; i++)
        used += asks->slot[i].used;
    return used;
}

/* Step until the adapter of @node has no conditional; false after 20 s. */
static bool has_no_conditionals(struct cluster *w, uint32_t node)
{
    uint64_t end = emu_now_ns() + UINT64_C(20000000000);

    while (queries_used(w, node)) {
        cluster_pump(w);
        if (emu_now_ns() > end)
            return false;
    }
    return true;
}

static bool bufs_are_held(struct cluster *w)
{
    char error[256];

    if (!fabric_check_bufs(w->fabric, error, sizeof error))
        return true;
    printf("\n    %s\n    ", error);
    return false;
}

/*
 * While conditionals are repeated (in backoff, due, or in flight), every buffer has a holder. Every
 * second conditional is true at node 0, so that it is sent, and false at the other nodes.
 */
static void waiting__accounts_for_its_buffers(void)
{
    static struct fabemu_req req[WAITERS];
    bool held = true;
    struct cluster w;

    memset(req, 0, sizeof req);
    cluster_open(&w, &(struct cluster_config){.topo = "kary:2,2"});
    for (uint32_t word = 0; word < FABEMU_WORDS; word += 2)
        fabemu_group_set(w.group[0], word, 1, NULL);
    for (uint32_t i = 0; i < WAITERS; i++)
        fabemu_group_test(w.group[0], i % FABEMU_WORDS, 1, REACHED_UNTIL, &req[i]);
    for (uint32_t i = 0; i < 2000; i++) {
        cluster_pump(&w);
        held = held && bufs_are_held(&w);
    }
    CU_ASSERT_TRUE(held);
    CU_ASSERT_EQUAL(queries_used(&w, 0), ENGINE_QUERIES);
    CU_ASSERT_TRUE(fabric_engine(w.fabric, 0)->queries.backing_off > 0);
    for (uint32_t n = 0; n < w.nodes; n++)
        for (uint32_t word = 0; word < FABEMU_WORDS; word++)
            fabemu_group_set(w.group[n], word, 1, NULL);
    CU_ASSERT_TRUE_FATAL(cluster_finish(&w, req, WAITERS) && adapters_all_are(req, WAITERS, 0));
    CU_ASSERT_TRUE(bufs_are_held(&w));
    cluster_close(&w);
}

/* An aborted operation is withdrawn from the network, which frees its slot for others. */
static void waiting__can_be_aborted(void)
{
    static struct fabemu_req req[WAITERS];
    struct cluster w;

    cluster_open(&w, &(struct cluster_config){.topo = "kary:2,2"});
    post_waiters(&w, 0, true, req);
    CU_ASSERT_EQUAL(queries_used(&w, 0), ENGINE_QUERIES);
    for (uint32_t i = 0; i < WAITERS; i++)
        while (fabemu_req_status(&req[i]) == FABEMU_PENDING) {
            nic_lock(w.fab[0]); /* fabemu_abort() would wait for a fabric that this thread steps */
            if (nic_condition_take_back(nic_condition_of(nic_op_of(&req[i]))))
                nic_op_end(w.fab[0], nic_op_of(&req[i]), -ECANCELED);
            nic_unlock(w.fab[0]);
            cluster_pump(&w);
        }
    CU_ASSERT_TRUE(adapters_all_are(req, WAITERS, -ECANCELED));
    CU_ASSERT_TRUE(has_no_conditionals(&w, 0));
    cluster_broadcasts(&w);
    cluster_close(&w);
}

/*
 * A process dies while conditionals use all slots of its adapter, and the other members of its
 * group stay. Its successor receives nothing of them and has all the slots, and a group of its own.
 */
static void waiting__ends_with_its_process(void)
{
    static struct fabemu_req req[WAITERS];
    struct cluster w;

    for (uint32_t tests = 0; tests < 2; tests++) {
        cluster_open(&w,
                     &(struct cluster_config){.topo = "kary:2,2", .set = "barrier=conditional"});
        post_waiters(&w, 0, tests, req);
        nic_close(w.fab[0]);
        fabric_detach(w.fabric, 0);
        cluster_attach(&w, 0);
        CU_ASSERT_TRUE(has_no_conditionals(&w, 0));
        cluster_messages(&w);
        CU_ASSERT_EQUAL(w.fab[0]->counts.stale, 0);
        for (uint32_t n = 1; n < w.nodes; n++)
            fabemu_group_leave(w.group[n]);
        for (uint32_t n = 1; n < w.nodes; n++) /* as the daemon does when the process asks for it */
            fabric_group_leave(w.fabric, w.id, n);
        cluster_group(&w);
        cluster_broadcasts(&w);
        cluster_collectives(&w);
        cluster_close(&w);
    }
}

/* All processes see whether a node has a working link. */
static void node__without_a_link_is_reported(void)
{
    struct cluster w;
    char why[96];

    cluster_open(&w, &(struct cluster_config){.topo = "kary:2,2"});
    for (uint32_t linked = 0; linked < 2; linked++) {
        fabric_node_linked(w.fabric, 1, linked);
        for (uint32_t n = 0; n < w.nodes; n++) {
            CU_ASSERT_FALSE(fabemu_node_why(w.fab[n], 2, why, sizeof why));
            CU_ASSERT_EQUAL(fabemu_node_why(w.fab[n], 1, why, sizeof why), !linked);
            CU_ASSERT(linked || strcmp(why, "node 1 has no link in use") == 0);
        }
    }
    cluster_messages(&w); /* and the processes at the nodes are the same */
    cluster_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE_ALONE(adapters__all_operations_over_good_cables),
        CASE_ALONE(adapters__all_operations_over_faulty_cables),
        CASE_ALONE(adapters__work_across_number_wrap),
        CASE(adapters__all_operations_with_a_core_each),
        CASE(adapters__are_notified_before_the_reply_with_a_core_each),
        CASE(polls__step_only_when_needed),
        CASE(adapters__all_operations_with_threads),
        CASE(node__cut_off_fails_and_reconnects),
        CASE(node__new_process_gets_its_own_notices),
        CASE(node__attached_late_is_connected),
        CASE(group__breaks_when_a_member_is_cut_off),
        CASE_ALONE(waiting__does_not_block_its_dependencies),
        CASE_ALONE(waiting__accounts_for_its_buffers),
        CASE(waiting__can_be_aborted),
        CASE(waiting__ends_with_its_process),
        CASE(node__without_a_link_is_reported),
        {0},
    };

    return test_run("nic_fabric", cases);
}
