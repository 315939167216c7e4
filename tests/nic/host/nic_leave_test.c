/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_leave_test.c - orderly disconnects: completed operations are delivered, the remaining
 * processes are notified, and their next operation reaches the successor.
 *
 * One thread steps the adapters and a fake fabric alternately, except where noted.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/fixtures/host/peers.h"

#define LONG 100000u

#define PATIENCE_NS UINT64_C(20000000000) /* a repeated query takes milliseconds */

/* The leaving process's part of a round. Returns true when it has finished. */
static bool leave_step(struct peers *w, uint32_t node)
{
    bool done;

    nic_lock(w->fab[node]);
    done = nic_leave_step(w->fab[node]);
    nic_unlock(w->fab[node]);
    return done;
}

static void leave_begin(struct peers *w, uint32_t node)
{
    nic_lock(w->fab[node]);
    nic_leave_begin(w->fab[node]);
    nic_unlock(w->fab[node]);
}

/* Pump until @node has disconnected from all. Returns false if it does not get there. */
static bool leave(struct peers *w, uint32_t node)
{
    uint64_t end = emu_now_ns() + PATIENCE_NS;
    bool done = false;

    leave_begin(w, node);
    while (!done && emu_now_ns() < end) {
        fake_pump(w->fake);
        done = leave_step(w, node);
    }
    return done;
}

static void pump_until_over(struct peers *w, struct fabemu_req *req, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        while (fabemu_req_status(&req[i]) == FABEMU_PENDING)
            fake_pump(w->fake);
}

static void come(struct peers *w, uint32_t node)
{
    w->fab[node] = fake_attach(w->fake, node);
    fabemu_queue_open(w->fab[node], 1, &w->queue[node]);
}

static void hasty_open(struct peers *w, uint32_t nodes, bool shuffle, bool acknowledged)
{
    setenv("FABEMU_PEER_TIMEOUT_MS", "30", 1);
    peers_open_on(w, nodes, shuffle, acknowledged);
    unsetenv("FABEMU_PEER_TIMEOUT_MS");
}

static void connect_peers(struct peers *w, uint32_t a, uint32_t b)
{
    peers_inject(w, a, b, 999, "x", 1);
    peers_inject(w, b, a, 999, "x", 1);
    fake_quiet(w->fake);
}

/* The first message went to a process that had left without a notification. */
static void leave__next_messages_go_to_the_successor(void)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        struct peers w;
        struct fabemu_req recv[2], send[2];
        uint32_t v[2] = {1001, 1002}, got[2] = {0};

        peers_open_on(&w, 2, kind & 1, kind & 2);
        connect_peers(&w, 0, 1);
        CU_ASSERT_TRUE_FATAL(leave(&w, 1));
        fake_detach(w.fake, 1);
        come(&w, 1);
        for (uint32_t i = 0; i < 2; i++)
            peers_recv(&w, 1, 0, 3 + i, 0, &got[i], 4, &recv[i]);
        for (uint32_t i = 0; i < 2; i++)
            peers_send(&w, 0, 1, 3 + i, &v[i], 4, &send[i]);
        CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, recv, 2) && fake_finish(w.fake, send, 2));
        for (uint32_t i = 0; i < 2; i++)
            CU_ASSERT_TRUE(send[i].status == 0 && recv[i].status == 0 && got[i] == v[i]);
        peers_close(&w);
    }
}

static void leave__without_a_successor_is_unreachable(void)
{
    struct peers w;
    struct fabemu_req req[2];
    struct fabemu_dest dest = peers_to(1, 1, 0);
    uint32_t v = 3;
    int err;

    hasty_open(&w, 2, false, false);
    connect_peers(&w, 0, 1);
    CU_ASSERT_TRUE_FATAL(leave(&w, 1));
    fake_detach(w.fake, 1);
    peers_send(&w, 0, 1, 1, &v, 4, &req[0]);
    peers_recv(&w, 0, 1, 1, 0, &v, 4, &req[1]);
    pump_until_over(&w, req, 2);
    CU_ASSERT_TRUE(req[0].status == -EHOSTUNREACH && req[1].status == -EHOSTUNREACH);
    while ((err = fabemu_inject(w.queue[0], &dest, &v, 4)) == -EAGAIN)
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(err, -EHOSTUNREACH);
    peers_close(&w);
}

/* Messages of all kinds that completed: the fabric has none of their segments yet. */
static void leave__waits_for_completed_messages(void)
{
    static uint8_t out[LONG], in[3][LONG];
    static const uint32_t bytes[3] = {100, 8000, LONG};

    bytes_fill(out, LONG, 5);
    for (unsigned kind = 0; kind < 4; kind++) {
        struct peers w;
        struct fabemu_req recv[3], send[3];

        peers_open_on(&w, 2, kind & 1, kind & 2);
        connect_peers(&w, 0, 1);
        for (uint32_t i = 0; i < 3; i++) {
            memset(in[i], 0, LONG);
            peers_recv(&w, 1, 0, i, 0, in[i], LONG, &recv[i]);
            peers_send(&w, 0, 1, i, out, bytes[i], &send[i]);
        }
        pump_until_over(&w, &send[2], 1); /* its data may still be in flight */
        CU_ASSERT_TRUE_FATAL(leave(&w, 0));
        fake_detach(w.fake, 0);
        for (uint32_t i = 0; i < 3; i++) { /* all data arrived */
            CU_ASSERT_TRUE(send[i].status == 0 && recv[i].status == 0);
            CU_ASSERT_TRUE(recv[i].bytes == bytes[i] && bytes_filled(in[i], bytes[i], 5));
        }
        peers_close(&w);
    }
}

/*
 * Messages that were sent before the notification are received; operations started after it are not
 * for the old process.
 */
static void leave__receives_earlier_messages(void)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        struct peers w;
        struct fabemu_req send[40], later;
        uint32_t v = 3, before;

        peers_open_on(&w, 2, kind & 1, kind & 2);
        connect_peers(&w, 0, 1);
        leave_begin(&w, 1);
        leave_step(&w, 1);
        for (uint32_t i = 0; i < 40; i++)
            peers_send(&w, 0, 1, 1, &v, 4, &send[i]);
        before = w.fab[0]->peers[1].tx_seq;
        CU_ASSERT_TRUE_FATAL(leave(&w, 1));
        CU_ASSERT_EQUAL(w.fab[1]->peers[0].rx_next, before);
        CU_ASSERT_TRUE(fake_finish(w.fake, send, 40));
        for (uint32_t i = 0; i < 40; i++)
            CU_ASSERT_EQUAL(send[i].status, 0);
        peers_send(&w, 0, 1, 7, &v, 4, &later); /* it is still attached, but sends nothing more */
        fake_quiet(w.fake);
        CU_ASSERT_EQUAL(later.status, FABEMU_PENDING);
        fake_detach(w.fake, 1);
        come(&w, 1);
        pump_until_over(&w, &later, 1);
        CU_ASSERT_EQUAL(later.status, 0);
        peers_close(&w);
    }
}

/* Check that @req failed because the process of node 1 has left. */
static void check_reason_left(const struct peers *w, const struct fabemu_req *req)
{
    char why[96];

    fabemu_req_why(w->fab[0], req, why, sizeof why);
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "process of node 1 has left"));
}

/* Operations in progress with it end on both sides, messages that were only offered included. */
static void leave__ends_operations_in_progress(void)
{
    static uint8_t out[LONG], in[LONG], memory[LONG];
    struct peers w;
    struct fabemu_req req[4], offer;
    uint64_t key;

    peers_open(&w, 2, true);
    connect_peers(&w, 0, 1);
    fabemu_register(w.fab[1], memory, LONG, FABEMU_REMOTE_READ, &key);
    peers_recv(&w, 0, 1, 1, 0, in, 8, &req[0]);               /* never sent */
    peers_send(&w, 0, 1, 2, out, LONG, &req[1]);              /* never received */
    peers_recv(&w, 0, FABEMU_ANY_NODE, 1, 0, in, 8, &req[2]); /* from anybody */
    peers_send(&w, 1, 0, 4, out, LONG, &offer);
    fake_quiet(w.fake);
    CU_ASSERT_TRUE_FATAL(leave(&w, 1));
    CU_ASSERT_TRUE(req[0].status == -EHOSTUNREACH && req[1].status == -EHOSTUNREACH);
    check_reason_left(&w, &req[0]); /* it is still attached: it has disconnected */
    check_reason_left(&w, &req[1]);
    CU_ASSERT_EQUAL(req[2].status, FABEMU_PENDING);
    peers_recv(&w, 0, FABEMU_ANY_NODE, 4, 0, in, LONG, &req[3]);
    fake_detach(w.fake, 1);
    CU_ASSERT_EQUAL(offer.status, -ECANCELED);
    CU_ASSERT_EQUAL(req[3].status, FABEMU_PENDING); /* its offer has disappeared as well */
    fabemu_cancel(w.queue[0], &req[2]);
    fabemu_cancel(w.queue[0], &req[3]);
    peers_close(&w);
}

/* The offer of a predecessor that died keeps its position: nothing is received in its place. */
static void leave__keeps_the_position_of_lost_messages(void)
{
    static uint8_t out[LONG], in[LONG];
    struct fabemu_req offer, recv;
    struct peers w;

    peers_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    peers_send(&w, 1, 0, 4, out, LONG, &offer);
    fake_quiet(w.fake);
    fake_detach(w.fake, 1);
    come(&w, 1);
    peers_inject(&w, 1, 0, 4, "new", 3);
    fake_quiet(w.fake);
    CU_ASSERT_TRUE_FATAL(leave(&w, 1));
    fake_detach(w.fake, 1);
    peers_recv(&w, 0, 1, 4, 0, in, LONG, &recv);
    CU_ASSERT_EQUAL(recv.status, -EHOSTUNREACH);
    peers_recv(&w, 0, 1, 4, 0, in, LONG, &recv);
    CU_ASSERT_TRUE(recv.status == 0 && recv.bytes == 3);
    peers_close(&w);
}

static void leave__all_at_once(void)
{
    for (unsigned kind = 0; kind < 8; kind++) {
        struct peers w;
        uint64_t end = emu_now_ns() + PATIENCE_NS;
        bool done = false;
        uint32_t v = 3;

        peers_open_on(&w, 4, kind & 1, kind & 2);
        for (uint32_t i = 0; i < 4; i++)
            for (uint32_t k = 0; k < 4; k++)
                if (i != k)
                    peers_inject(&w, i, k, 1, &v, 4);
        if (kind & 4)
            fake_quiet(w.fake);
        for (uint32_t i = 0; i < 4; i++)
            leave_begin(&w, i);
        while (!done && emu_now_ns() < end) {
            fake_pump(w.fake);
            done = true;
            for (uint32_t i = 0; i < 4; i++)
                done = leave_step(&w, i) && done;
        }
        CU_ASSERT_TRUE(done);
        for (uint32_t i = 0; i < 4; i++)
            CU_ASSERT_EQUAL(w.fab[i]->counts.malformed, 0);
        peers_close(&w);
    }
}

/* One remaining node starts to leave, makes a step, or exits. */
static bool leaver_step(struct peers *w, uint32_t node, bool *leaving, uint64_t *random)
{
    if (!*leaving) {
        *leaving = test_draw(random, 0, 9) == 0;
        if (*leaving)
            leave_begin(w, node);
        fabemu_progress(w->fab[node]);
        return false;
    }
    fabemu_progress(w->fab[node]);
    if (test_draw(random, 0, 3) == 0)
        w->fab[node]->disconnect_ns = 0; /* time passes: it queries again */
    if (!leave_step(w, node))
        return false;
    fake_detach(w->fake, node);
    w->fab[node] = NULL;
    return true;
}

/*
 * All leave at random times, however slow the others and the fabric are: no segment between them,
 * not even a query that was answered before, finds its target absent. The time limit is off, since
 * this program may be off the core for any time.
 */
static void leave__sends_nothing_to_absent_processes(void)
{
    uint64_t random = test_seed();

    for (unsigned kind = 0; kind < 4 * TEST_ALONE(40); kind++) {
        struct peers w;
        bool leaving[4] = {false};
        uint32_t left = 4, v = 3;
        uint64_t end = emu_now_ns() + PATIENCE_NS;

        peers_open_on(&w, 4, kind & 1, kind & 2);
        for (uint32_t i = 0; i < 4; i++) {
            w.fab[i]->farewell_limit_ns = UINT64_MAX;
            for (uint32_t k = 0; k < 4; k++)
                if (i != k)
                    peers_inject(&w, i, k, 1, &v, 4);
        }
        fake_quiet(w.fake);
        fake_slow(w.fake);
        while (left && emu_now_ns() < end) {
            uint32_t node = (uint32_t)test_draw(&random, 0, 4);

            if (node == 4)
                fake_step(w.fake);
            else if (w.fab[node])
                left -= leaver_step(&w, node, &leaving[node], &random);
        }
        while (fake_step(w.fake))
            ;
        CU_ASSERT_EQUAL(left, 0);
        CU_ASSERT_EQUAL(fake_dropped(w.fake), 0);
        peers_close(&w);
    }
}

/*
 * The answer of @from to @node's query @number, with the count @sent of its requests, overtakes all
 * other segments.
 */
static void answer_disconnect(struct peers *w, uint32_t from, uint32_t node, uint16_t number,
                              uint32_t sent)
{
    struct nic_wire_disconnect bye = {.head = {.what = NIC_DISCONNECT,
                                               .check = w->fab[node]->peers[from].rx_check},
                                      .incarnation = w->fab[from]->incarnation,
                                      .kind = NIC_DISCONNECT_ANSWER,
                                      .queries_received = number,
                                      .answers_sent = number,
                                      .sent = sent};
    struct emu_seg seg = {.hdr = {.dst = node, .src = from, .len = sizeof bye}};

    memcpy(seg.payload, &bye, sizeof bye);
    CU_ASSERT_TRUE(fake_inject(w->fake, node, &seg));
    fabemu_progress(w->fab[node]);
}

static void leave__receives_segments_overtaken_by_the_answer(void)
{
    struct peers w;
    uint32_t v = 3;

    peers_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    leave_begin(&w, 1);
    leave_step(&w, 1);
    fake_step(w.fake); /* the query is in the ring of node 0 */
    CU_ASSERT_TRUE(nic_in_fabric(w.fab[1]));
    peers_inject(&w, 0, 1, 1, &v, 4);
    answer_disconnect(&w, 0, 1, 1, w.fab[0]->peers[1].tx_seq);
    CU_ASSERT_TRUE(w.fab[1]->peers[0].answered_disconnect);
    CU_ASSERT_FALSE(leave_step(&w, 1));
    CU_ASSERT_EQUAL(nic_leave(w.fab[1], 1000000), 1); /* the answer reports a missing segment */
    fake_step(w.fake);
    fabemu_progress(w.fab[1]);
    CU_ASSERT_TRUE(leave_step(&w, 1));
    peers_close(&w);
}

/*
 * The peer's answer overtakes its FIN for a long message, or for an empty one whose send waits for
 * delivery. The send does not fail.
 */
static void leave__receives_confirmations_overtaken_by_the_answer(void)
{
    static uint8_t out[9000], in[9000];

    bytes_fill(out, sizeof out, 7);
    for (unsigned kind = 0; kind < 2; kind++) {
        const struct fabemu_iov iov = {.base = out, .bytes = kind ? 0 : sizeof out};
        struct fabemu_dest dest = peers_to(0, 1, 1);
        struct fabemu_req send = {0}, recv;
        struct peers w;

        peers_open(&w, 2, false);
        connect_peers(&w, 0, 1);
        peers_recv(&w, 0, 1, 1, 0, in, sizeof in, &recv);
        dest.delivered = true;
        CU_ASSERT_EQUAL_FATAL(fabemu_send(w.queue[1], &dest, &iov, 1, &send), 0);
        while (!nic_bulk_awaits_fin(nic_op_of(&send))) {
            fake_step(w.fake);
            fabemu_progress(w.fab[0]);
            fabemu_progress(w.fab[1]);
        }
        leave_begin(&w, 1);
        leave_step(&w, 1);
        fake_step(w.fake); /* data and query are in the ring of node 0 */
        CU_ASSERT_TRUE(nic_in_fabric(w.fab[1]));
        answer_disconnect(&w, 0, 1, 1, w.fab[0]->peers[1].tx_seq);
        CU_ASSERT_TRUE(w.fab[1]->peers[0].answered_disconnect);
        CU_ASSERT_FALSE(leave_step(&w, 1));
        fake_quiet(w.fake);
        CU_ASSERT_EQUAL(fabemu_req_status(&recv), 0);
        CU_ASSERT_EQUAL(fabemu_req_status(&send), 0);
        CU_ASSERT_TRUE(leave_step(&w, 1));
        peers_close(&w);
    }
}

/* The query of @from, which leaves, overtakes all other segments on the way to @node. */
static void query_disconnect(struct peers *w, uint32_t from, uint32_t node)
{
    struct nic_peer *peer = &w->fab[from]->peers[node];
    struct nic_wire_disconnect ask = {.head = {.what = NIC_DISCONNECT,
                                               .check = w->fab[node]->peers[from].rx_check},
                                      .incarnation = w->fab[from]->incarnation,
                                      .kind = NIC_DISCONNECT_ASK,
                                      .queries_sent = ++peer->queries_sent,
                                      .sent = peer->tx_seq};
    struct emu_seg seg = {.hdr = {.dst = node, .src = from, .len = sizeof ask}};

    memcpy(seg.payload, &ask, sizeof ask);
    CU_ASSERT_TRUE(fake_inject(w->fake, node, &seg));
    fabemu_progress(w->fab[node]);
}

/*
 * The process sees a peer's accesses to its memory and leaves. Its query overtakes the results of
 * these accesses. They succeed.
 */
static void leave__completes_accesses_whose_results_the_query_overtakes(void)
{
    static uint8_t memory[LONG], mine[LONG];
    const uint64_t one = 1;
    uint64_t key, before = 0;
    struct fabemu_req req[4] = {0};
    struct peers w;

    peers_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    memset(memory, 0, sizeof memory);
    fabemu_register(w.fab[1], memory, LONG, FABEMU_REMOTE_WRITE | FABEMU_REMOTE_READ, &key);
    const struct fabemu_atomic add = {.node = 1,
                                      .key = key,
                                      .op = FABEMU_ATOMIC_ADD,
                                      .type = FABEMU_U64,
                                      .operand = &one,
                                      .result = &before};

    CU_ASSERT_EQUAL(fabemu_put(w.fab[0], 1, key, 16, "put", 4, &req[0]), 0);
    CU_ASSERT_EQUAL(fabemu_put(w.fab[0], 1, key, 32, "", 0, &req[1]), 0);
    CU_ASSERT_EQUAL(fabemu_get(w.fab[0], 1, key, 0, mine, LONG, &req[2]), 0);
    CU_ASSERT_EQUAL(fabemu_atomic(w.fab[0], &add, &req[3]), 0);
    fake_step(w.fake); /* the requests are in the ring of node 1 */
    leave_begin(&w, 1);
    query_disconnect(&w, 1, 0);
    for (uint32_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(fabemu_req_status(&req[i]), FABEMU_PENDING);
    CU_ASSERT_TRUE(leave(&w, 1));
    for (uint32_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(fabemu_req_status(&req[i]), 0);
    CU_ASSERT_STRING_EQUAL((const char *)memory + 16, "put");
    CU_ASSERT_EQUAL(memory[0], 1);
    peers_close(&w);
}

/* A process has queried twice. One answer suffices, but it must be there for the other one. */
static void leave__receives_the_answer_to_its_last_query(void)
{
    struct peers w;
    uint32_t sent;

    peers_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    sent = w.fab[0]->peers[1].tx_seq;
    leave_begin(&w, 1);
    for (uint32_t i = 0; i < 2; i++) {
        w.fab[1]->disconnect_ns = 0; /* the repetition is due */
        leave_step(&w, 1);
    }
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].queries_sent, 2);
    fake_step(w.fake);
    CU_ASSERT_TRUE(nic_in_fabric(w.fab[1]));
    answer_disconnect(&w, 0, 1, 1, sent);
    CU_ASSERT_TRUE(w.fab[1]->peers[0].answered_disconnect);
    CU_ASSERT_FALSE(leave_step(&w, 1));
    CU_ASSERT_EQUAL(nic_leave(w.fab[1], 1000000), 0); /* nothing is missing: no warning */
    answer_disconnect(&w, 0, 1, 2, sent);
    fake_step(w.fake);
    CU_ASSERT_TRUE(leave_step(&w, 1));
    peers_close(&w);
}

/* The same without any route to it: it waits no longer. */
static void leave__does_not_wait_without_a_route(void)
{
    for (unsigned why = 0; why < 3; why++) {
        struct peers w;
        struct nic_peer *peer;

        peers_open(&w, 2, false);
        connect_peers(&w, 0, 1);
        peer = nic_peer(w.fab[1], 0);
        leave_begin(&w, 1);
        for (uint32_t i = 0; i < 2; i++) {
            w.fab[1]->disconnect_ns = 0;
            leave_step(&w, 1);
        }
        fake_step(w.fake);
        answer_disconnect(&w, 0, 1, 1, w.fab[0]->peers[1].tx_seq);
        leave_step(&w, 1);
        fake_step(w.fake); /* all its segments are in the fabric */
        CU_ASSERT_FALSE(leave_step(&w, 1));
        if (why)
            w.fab[1]->hostif.shared->incarnations[why - 1] |= EMU_INCARNATION_NO_LINK;
        else
            peer->broke = NIC_BROKE_PARTITIONED;
        CU_ASSERT_TRUE(leave_step(&w, 1));
        peers_close(&w);
    }
}

/* A segment of a predecessor is overtaken by its successor's query. */
static void leave__ignores_segments_of_a_predecessor(void)
{
    struct nic_wire_disconnect bye = {.head = {.what = NIC_DISCONNECT},
                                      .queries_sent = 9,
                                      .kind = NIC_DISCONNECT_DONE};
    struct emu_seg seg = {.hdr = {.dst = 0, .src = 1, .len = sizeof bye}};
    struct nic_peer *peer;
    struct peers w;
    uint64_t stranger;

    peers_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    peer = nic_peer(w.fab[0], 1);
    leave_begin(&w, 1);
    leave_step(&w, 1);
    fake_step(w.fake);
    fabemu_progress(w.fab[0]); /* it answers */
    CU_ASSERT_EQUAL(peer->queries_received, 1);
    CU_ASSERT_EQUAL(peer->answers_sent, 1);
    stranger = w.fab[0]->counts.wrong_incarnation;
    bye.incarnation = w.fab[1]->incarnation - 1;
    memcpy(seg.payload, &bye, sizeof bye);
    CU_ASSERT_TRUE(fake_inject(w.fake, 0, &seg));
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(peer->queries_incarnation, w.fab[1]->incarnation);
    CU_ASSERT_EQUAL(peer->queries_received, 1);
    CU_ASSERT_EQUAL(peer->answers_sent, 1);
    CU_ASSERT_FALSE(peer->queries_ended);
    CU_ASSERT_EQUAL(w.fab[0]->counts.wrong_incarnation, stranger + 1);
    peers_close(&w);
}

#define WATCH_NS   UINT64_C(50000000) /* after this time a process checks on its peer, */
#define STOPPED_NS (3 * WATCH_NS)

/* Stop node 0 for so long that the others fill its ring, and node 1 leaves. */
static void stand_still(struct peers *w)
{
    uint64_t end = emu_now_ns() + STOPPED_NS;
    bool done = false;

    for (uint32_t n = 1; n < 4; n++) {
        w->fab[n]->watch_ns = 0;
        w->fab[n]->watch_gap_ns = WATCH_NS;
    }
    leave_begin(w, 1);
    while (emu_now_ns() < end) {
        fake_step(w->fake);
        for (uint32_t n = 1; n < 4; n++)
            fabemu_progress(w->fab[n]);
        done = leave_step(w, 1) || done;
    }
    CU_ASSERT_FALSE(done);
}

/* All completed messages arrive, however long the peer takes to receive them. */
static void leave__waits_for_a_stopped_process(void)
{
    enum { MANY = 200, FLOOD = 3 * NIC_ORDER_WINDOW };
    static struct fabemu_req send[MANY], recv[MANY], flood[2][FLOOD];
    static uint8_t out[8000], in[MANY][8000];

    bytes_fill(out, sizeof out, 7);
    for (unsigned kind = 0; kind < 4; kind += 3) {
        struct peers w;
        uint32_t arrived = 0;

        peers_open_on(&w, 4, kind & 1, kind & 2);
        for (uint32_t n = 1; n < 4; n++)
            connect_peers(&w, 0, n);
        memset(in, 0, sizeof in);
        for (uint32_t i = 0; i < FLOOD; i++)
            for (uint32_t n = 0; n < 2; n++)
                peers_send(&w, 2 + n, 0, 1, out, 4, &flood[n][i]);
        for (uint32_t i = 0; i < MANY; i++) {
            peers_recv(&w, 0, 1, 2 + i, 0, in[i], sizeof in[i], &recv[i]);
            /* 8: not all at once */
            peers_send(&w, 1, 0, 2 + i, out, i % (kind ? 8 : 64) ? i : sizeof out, &send[i]);
        }
        stand_still(&w);
        CU_ASSERT_TRUE_FATAL(leave(&w, 1));
        fake_detach(w.fake, 1);
        for (uint32_t i = 0; i < MANY; i++) {
            arrived += recv[i].status == 0 && bytes_filled(in[i], recv[i].bytes, 7);
            CU_ASSERT_EQUAL(recv[i].status == 0, send[i].status == 0);
        }
        CU_ASSERT_EQUAL(arrived, MANY);
        CU_ASSERT_TRUE(fake_finish(w.fake, flood[0], FLOOD) &&
                       fake_finish(w.fake, flood[1], FLOOD));
        peers_close(&w);
    }
}

/*
 * The process holds as many messages as it may for a queue that nobody opens, and the senders are
 * blocked.
 */
static void leave__ignores_a_queue_that_is_never_opened(void)
{
    enum { MANY = NIC_PARKED_MAX + 1500 };
    static struct fabemu_req send[2][MANY];
    static uint8_t out[LONG];
    static const uint32_t bytes[4] = {4, 1000, 8, LONG};

    for (unsigned kind = 0; kind < 4; kind++) {
        struct peers w;
        uint32_t failed = 0;

        peers_open_on(&w, 3, kind & 1, kind & 2);
        memset(send, 0, sizeof send);
        for (uint32_t n = 0; n < 2; n++)
            for (uint32_t i = 0; i < MANY; i++) {
                struct fabemu_iov iov = {.base = out, .bytes = bytes[i % 4]};
                struct fabemu_dest dest = {.node = 2,
                                           .queue = 5,
                                           .tag = i,
                                           .delivered = i % 3 == 0};

                CU_ASSERT_EQUAL(fabemu_send(w.queue[n], &dest, &iov, 1, &send[n][i]), 0);
            }
        fake_quiet(w.fake);
        for (uint32_t n = 0; n < 2; n++)
            CU_ASSERT_TRUE(w.fab[2]->peers[n].parked == NIC_PARKED_MAX &&
                           w.fab[2]->peers[n].earlies);
        CU_ASSERT_TRUE_FATAL(leave(&w, 2));
        CU_ASSERT_EQUAL(nic_leave(w.fab[2], 1), 0); /* no warning */
        for (uint32_t n = 0; n < 2; n++)
            for (uint32_t i = 0; i < MANY; i++) {
                CU_ASSERT_TRUE(send[n][i].status == 0 || send[n][i].status == -EHOSTUNREACH);
                failed += send[n][i].status != 0;
            }
        CU_ASSERT_TRUE(failed >= 2 * MANY / 4); /* the long ones were not fetched */
        CU_ASSERT_EQUAL(w.fab[2]->counts.refused, 0);
        peers_close(&w);
    }
}

/* A process that does not answer is named, and not waited for much longer than the bound. */
static void leave__names_silent_processes(void)
{
    struct peers w;
    uint32_t v = 3;

    peers_open(&w, 3, false);
    connect_peers(&w, 0, 1);
    connect_peers(&w, 0, 2);
    /* nobody steps it: the message stays in the ring */
    peers_inject(&w, 0, 1, 1, &v, 4);
    CU_ASSERT_EQUAL(nic_leave(w.fab[0], 5000000), 1); /* its peer has confirmed everything */
    CU_ASSERT_TRUE(leave(&w, 0));
    CU_ASSERT_EQUAL(nic_leave(w.fab[0], 5000000), 0);
    peers_close(&w);
}

#define FAREWELL_NS UINT64_C(100000000)

/*
 * A stopped process that has confirmed everything lacks no data. The leaving process waits for its
 * answer only for the bound `farewell`, and prints no warning. In this test it waits without limit
 * for a process that has not confirmed everything.
 */
static void leave__waits_briefly_for_a_process_that_misses_nothing(void)
{
    for (unsigned sent = 0; sent < 2; sent++) {
        struct peers w;
        uint32_t v = 3;
        uint64_t before;

        peers_open(&w, 2, false);
        if (sent)
            peers_inject(&w, 0, 1, 1, &v, 4);
        fake_quiet(w.fake);
        peers_inject(&w, 1, 0, 1, &v, 4); /* confirms all it received */
        fake_step(w.fake);
        fabemu_progress(w.fab[0]);
        CU_ASSERT_EQUAL(w.fab[0]->farewell_limit_ns, UINT64_C(1000000000));
        w.fab[0]->farewell_limit_ns = FAREWELL_NS;
        before = emu_now_ns();
        fake_start(w.fake);
        CU_ASSERT_EQUAL(nic_leave(w.fab[0], UINT64_MAX), 0); /* the other process makes no step */
        fake_stop(w.fake);
        /* it may have had something to send */
        CU_ASSERT_TRUE(emu_now_ns() - before >= FAREWELL_NS);
        peers_close(&w);
    }
}

/*
 * The same with other bounds: a short one; none, so that the bound of the whole disconnect applies;
 * and a short one while the processes have no core. Time without a core does not count.
 */
static void leave__respects_its_bounds(void)
{
    enum { SHORT, NONE, STARVED, BOUNDS };

    for (unsigned bound = 0; bound < BOUNDS; bound++) {
        struct peers w;
        uint32_t v = 3;

        peers_open(&w, 2, false);
        fake_quiet(w.fake);
        peers_inject(&w, 1, 0, 1, &v, 4);
        fake_step(w.fake);
        fabemu_progress(w.fab[0]);
        w.fab[0]->farewell_limit_ns = bound == NONE ? UINT64_MAX : 1000000;
        leave_begin(&w, 0);
        uint64_t began_ns = emu_now_ns();
        bool done = false;

        for (uint64_t end = began_ns + (bound != SHORT ? 50000000 : PATIENCE_NS);
             !done && emu_now_ns() < end;) {
            fake_step(w.fake);    /* the other process makes no step */
            if (bound == STARVED) /* 1 s too much, in case this test itself loses its core */
                atomic_store(&w.fab[0]->hostif.shared->starved_ns,
                             emu_now_ns() - began_ns + 1000000000);
            done = leave_step(&w, 0);
        }
        CU_ASSERT_EQUAL(done, bound == SHORT);
        peers_close(&w);
    }
}

/*
 * The peer has answered that it has everything, but its own earlier segments are still in flight.
 * The leaving process waits for them.
 */
static void leave__waits_for_segments_in_flight(void)
{
    struct peers w;
    struct nic_peer *peer;
    uint32_t v = 3;

    peers_open(&w, 2, false);
    peers_inject(&w, 1, 0, 1, &v, 4);
    fake_quiet(w.fake);
    peer = nic_peer(w.fab[0], 1);
    CU_ASSERT_EQUAL_FATAL(peer->tx_seq, peer->tx_acked);
    leave_begin(&w, 0);
    w.fab[0]->disconnect_ns = UINT64_MAX; /* the query is sent and answered */
    w.fab[0]->disconnect_began_ns = emu_now_ns() - PATIENCE_NS;
    CU_ASSERT_TRUE(leave_step(&w, 0)); /* a process that has not answered yet will not */
    peer->answered_disconnect = true;
    peer->requests_total = peer->rx_next + 1;
    CU_ASSERT_FALSE(leave_step(&w, 0));
    peer->requests_total = peer->rx_next;
    CU_ASSERT_TRUE(leave_step(&w, 0));
    peers_close(&w);
}

/* A query may overtake the hello of its own process: it is too late to connect then. */
static void leave__before_the_peer_has_connected(void)
{
    struct peers w;
    struct nic_peer *peer;
    struct fabemu_req req;
    struct emu_seg ask = {.hdr = {.dst = 0, .src = 1, .len = sizeof(struct nic_wire_disconnect)}};
    uint32_t v = 3;

    hasty_open(&w, 2, false, false);
    peer = nic_peer(w.fab[0], 1);
    peers_send(&w, 0, 1, 1, &v, 4, &req); /* says hello */

    struct nic_wire_disconnect bye = {.head = {.what = NIC_DISCONNECT, .check = 4711},
                                      .kind = NIC_DISCONNECT_ASK,
                                      .incarnation = w.fab[1]->incarnation};

    memcpy(ask.payload, &bye, sizeof bye);
    CU_ASSERT_TRUE(fake_inject(w.fake, 0, &ask));
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(peer->first, w.fab[1]->incarnation + 1);
    pump_until_over(&w, &req, 1);
    CU_ASSERT_EQUAL(req.status, -EHOSTUNREACH);
    CU_ASSERT_EQUAL(peer->incarnation, 0); /* its hello arrived, too */
    peers_close(&w);
}

/* --- incarnations ------------------------------------------------------------------- */

static void incarnation__identifies_one_process(void)
{
    static uint64_t word;
    struct peers w;
    struct fabemu_iov iov = {.base = &word, .bytes = 8};
    struct fabemu_dest dest = peers_to(1, 1, 0);
    uint64_t key, one = 1, old;

    peers_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    old = fabemu_info(w.fab[1])->incarnation;
    fake_detach(w.fake, 1);
    come(&w, 1);
    fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE, &key);
    CU_ASSERT_EQUAL(fabemu_info(w.fab[1])->incarnation, old + 1);
    for (uint64_t incarnation = old; incarnation <= old + 2; incarnation++) {
        struct fabemu_req req[4] = {{.incarnation = incarnation},
                                    {.incarnation = incarnation},
                                    {.incarnation = incarnation},
                                    {0}};
        struct fabemu_atomic add = {
            .node = 1, .key = key, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64, .operand = &one};
        int want = incarnation == old + 1 ? 0 : -EHOSTUNREACH;

        dest.incarnation = incarnation;
        fabemu_put(w.fab[0], 1, key, 0, &one, 8, &req[0]);
        fabemu_get(w.fab[0], 1, key, 0, &one, 8, &req[1]);
        fabemu_atomic(w.fab[0], &add, &req[2]);
        fabemu_send(w.queue[0], &dest, &iov, 1, &req[3]);
        if (want)
            for (int i = 0; i < 4; i++)
                CU_ASSERT_EQUAL(req[i].status, want); /* at once */
        CU_ASSERT_TRUE(fake_finish(w.fake, req, 4));
        for (int i = 0; i < 4; i++)
            CU_ASSERT_EQUAL(req[i].status, want);
        req[0] = (struct fabemu_req){.incarnation = incarnation};
        fabemu_recv(w.queue[0], 1, 4, 0, &iov, 1, &req[0]);
        CU_ASSERT_EQUAL(req[0].status, want ? want : FABEMU_PENDING);
        fabemu_cancel(w.queue[0], &req[0]);
    }
    peers_close(&w);
}

/*
 * A new operation does not fail because of its predecessor's death, even if it is the first to
 * detect it.
 */
static void incarnation__first_operation_after_a_death_continues(void)
{
    static uint64_t word;
    struct peers w;
    struct fabemu_req req = {0};
    struct fabemu_atomic add = {.node = 1,
                                .op = FABEMU_ATOMIC_ADD,
                                .type = FABEMU_U64,
                                .operand = &(uint64_t){7}};

    peers_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    fake_detach(w.fake, 1);
    come(&w, 1);
    fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_ATOMIC, &add.key);
    req.incarnation = fabemu_info(w.fab[1])->incarnation;
    fabemu_atomic(w.fab[0], &add, &req);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    CU_ASSERT_TRUE(req.status == 0 && word == 7);
    peers_close(&w);
}

/* Receives for the successor are posted before the death is reported, and stay. */
static void incarnation__named_receive_survives_an_older_death(void)
{
    struct peers w;
    struct fabemu_req req = {0}, any;
    struct fabemu_iov iov;
    uint32_t got = 0, other = 0;

    peers_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    peers_recv(&w, 0, 1, 5, 0, &other, 4, &any); /* matches the first one */
    fake_detach(w.fake, 1);
    come(&w, 1);
    iov = (struct fabemu_iov){.base = &got, .bytes = 4};
    req.incarnation = fabemu_info(w.fab[1])->incarnation;
    fabemu_recv(w.queue[0], 1, 4, 0, &iov, 1, &req);
    nic_lock(w.fab[0]);
    nic_peer_check_all(w.fab[0]);
    nic_unlock(w.fab[0]);
    CU_ASSERT_EQUAL(any.status, -EHOSTUNREACH);
    CU_ASSERT_EQUAL(req.status, FABEMU_PENDING);
    peers_inject(&w, 1, 0, 4, &(uint32_t){8}, 4);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    CU_ASSERT_TRUE(got == 8 && req.src_incarnation == req.incarnation);
    peers_close(&w);
}

/*
 * A message that arrived is received whichever process is there now; a named receive selects by
 * sender.
 */
static void incarnation__of_the_sender_stays_with_the_message(void)
{
    struct peers w;
    struct fabemu_req req = {0};
    struct fabemu_iov iov;
    uint64_t first;
    uint32_t got = 0;

    peers_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    first = fabemu_info(w.fab[1])->incarnation;
    for (uint32_t v = 1; v <= 2; v++)
        peers_inject(&w, 1, 0, 4, &v, 4);
    CU_ASSERT_TRUE_FATAL(leave(&w, 1));
    fake_detach(w.fake, 1);
    come(&w, 1);
    peers_inject(&w, 1, 0, 4, &(uint32_t){3}, 4);
    fake_quiet(w.fake);
    iov = (struct fabemu_iov){.base = &got, .bytes = 4};
    req.incarnation = first + 1;
    fabemu_recv(w.queue[0], 1, 4, 0, &iov, 1, &req);
    CU_ASSERT_TRUE(req.status == 0 && got == 3 && req.src_incarnation == first + 1);
    req = (struct fabemu_req){.incarnation = first};
    fabemu_recv(w.queue[0], 1, 4, 0, &iov, 1, &req);
    CU_ASSERT_TRUE(req.status == 0 && got == 1 && req.src_incarnation == first);
    req = (struct fabemu_req){0};
    fabemu_recv(w.queue[0], 1, 4, 0, &iov, 1, &req);
    CU_ASSERT_TRUE(req.status == 0 && got == 2 && req.src_incarnation == first);
    peers_close(&w);
}

/*
 * The target refuses requests for now, because it serves as many as it can, and then ends. Their
 * repetitions do not pass to its successor.
 */
static void incarnation__transfer_does_not_pass_to_the_successor(void)
{
    static uint8_t memory[5000], mine[5000];
    struct peers w;
    struct fabemu_req req[2] = {{0}};
    uint64_t key;

    peers_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    fabemu_register(w.fab[1], memory, 5000, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE, &key);
    w.fab[1]->served = NIC_SERVED_MAX; /* it will be asked again */
    fabemu_get(w.fab[0], 1, key, 0, mine, 5000, &req[0]);
    fabemu_put(w.fab[0], 1, key, 0, mine, 5000, &req[1]);
    fake_step(w.fake);
    fabemu_progress(w.fab[1]);
    fake_step(w.fake); /* its refusal is in our ring */
    w.fab[1]->served = 0;
    fake_detach(w.fake, 1);
    come(&w, 1);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    CU_ASSERT_TRUE(req[0].status == -EHOSTUNREACH && req[1].status == -EHOSTUNREACH);
    peers_close(&w);
}

/* A hello of our predecessor returns to us: it is ignored. */
static void incarnation__returned_hello_of_a_predecessor_is_ignored(void)
{
    struct peers w;
    struct nic_wire_hello hello = {.what = NIC_HELLO};
    struct emu_seg seg = {
        .hdr = {.dst = 1, .src = 0, .len = sizeof hello, .kind = EMU_UNICAST | EMU_FAILED},
    };
    struct fabemu_req req;
    uint32_t v = 3;

    peers_open_on(&w, 2, false, true);
    fake_detach(w.fake, 0);
    come(&w, 0);
    hello.incarnation = fabemu_info(w.fab[0])->incarnation - 1;
    memcpy(seg.payload, &hello, sizeof hello);
    peers_send(&w, 0, 1, 1, &v, 4, &req); /* the same hello, but for the incarnation */
    CU_ASSERT_TRUE(fake_inject(w.fake, 0, &seg));
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(req.status, FABEMU_PENDING);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    CU_ASSERT_EQUAL(req.status, 0);
    peers_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(leave__next_messages_go_to_the_successor),
        CASE(leave__without_a_successor_is_unreachable),
        CASE(leave__waits_for_completed_messages),
        CASE(leave__receives_earlier_messages),
        CASE(leave__ends_operations_in_progress),
        CASE(leave__keeps_the_position_of_lost_messages),
        CASE(leave__all_at_once),
        CASE(leave__sends_nothing_to_absent_processes),
        CASE(leave__receives_segments_overtaken_by_the_answer),
        CASE(leave__receives_confirmations_overtaken_by_the_answer),
        CASE(leave__completes_accesses_whose_results_the_query_overtakes),
        CASE(leave__receives_the_answer_to_its_last_query),
        CASE(leave__does_not_wait_without_a_route),
        CASE(leave__ignores_segments_of_a_predecessor),
        CASE(leave__waits_for_a_stopped_process),
        CASE(leave__ignores_a_queue_that_is_never_opened),
        CASE(leave__names_silent_processes),
        CASE(leave__waits_briefly_for_a_process_that_misses_nothing),
        CASE(leave__respects_its_bounds),
        CASE(leave__waits_for_segments_in_flight),
        CASE(leave__before_the_peer_has_connected),
        CASE(incarnation__identifies_one_process),
        CASE(incarnation__first_operation_after_a_death_continues),
        CASE(incarnation__named_receive_survives_an_older_death),
        CASE(incarnation__of_the_sender_stays_with_the_message),
        CASE(incarnation__transfer_does_not_pass_to_the_successor),
        CASE(incarnation__returned_hello_of_a_predecessor_is_ignored),
        {0},
    };

    return test_run("nic_leave", cases);
}
