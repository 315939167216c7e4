/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_leave_test.c - processes leave in good order: what had completed is there, those who stay
 * know, and their next operation is with who comes next.
 *
 * One thread steps the adapters and a fake fabric in turn, except where said.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/fixtures/host/peers.h"

#define LONG 100000u

#define PATIENCE_NS UINT64_C(20000000000) /* for what takes milliseconds: a question is repeated */

/* The leaver's part of a round of @w. Returns true: all is said and done. */
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

/* Pump until @node has taken its leave of all. False: it does not get there. */
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

static void meet(struct peers *w, uint32_t a, uint32_t b)
{
    peers_inject(w, a, b, 999, "x", 1);
    peers_inject(w, b, a, 999, "x", 1);
    fake_quiet(w->fake);
}

/* The first of them went to who had left, and nobody said so. */
static void leave__next_messages_go_to_the_successor(void)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        struct peers w;
        struct fabemu_req recv[2], send[2];
        uint32_t v[2] = {1001, 1002}, got[2] = {0};

        peers_open_on(&w, 2, kind & 1, kind & 2);
        meet(&w, 0, 1);
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

static void leave__nobody_after_is_unreachable(void)
{
    struct peers w;
    struct fabemu_req req[2];
    struct fabemu_dest dest = peers_to(1, 1, 0);
    uint32_t v = 3;
    int err;

    hasty_open(&w, 2, false, false);
    meet(&w, 0, 1);
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

/* All kinds of messages that had completed: the fabric has none of their segments yet. */
static void leave__waits_for_what_had_completed(void)
{
    static uint8_t out[LONG], in[3][LONG];
    static const uint32_t bytes[3] = {100, 8000, LONG};

    bytes_fill(out, LONG, 5);
    for (unsigned kind = 0; kind < 4; kind++) {
        struct peers w;
        struct fabemu_req recv[3], send[3];

        peers_open_on(&w, 2, kind & 1, kind & 2);
        meet(&w, 0, 1);
        for (uint32_t i = 0; i < 3; i++) {
            memset(in[i], 0, LONG);
            peers_recv(&w, 1, 0, i, 0, in[i], LONG, &recv[i]);
            peers_send(&w, 0, 1, i, out, bytes[i], &send[i]);
        }
        pump_until_over(&w, &send[2], 1); /* its data may still be on its way */
        CU_ASSERT_TRUE_FATAL(leave(&w, 0));
        fake_detach(w.fake, 0);
        for (uint32_t i = 0; i < 3; i++) { /* all of it is there */
            CU_ASSERT_TRUE(send[i].status == 0 && recv[i].status == 0);
            CU_ASSERT_TRUE(recv[i].bytes == bytes[i] && bytes_filled(in[i], bytes[i], 5));
        }
        peers_close(&w);
    }
}

/* What others say until they hear of it is taken; what they begin then is not for it. */
static void leave__takes_what_was_said_to_it(void)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        struct peers w;
        struct fabemu_req send[40], later;
        uint32_t v = 3, before;

        peers_open_on(&w, 2, kind & 1, kind & 2);
        meet(&w, 0, 1);
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
        peers_send(&w, 0, 1, 7, &v, 4, &later); /* it is still there, and says no more */
        fake_quiet(w.fake);
        CU_ASSERT_EQUAL(later.status, FABEMU_PENDING);
        fake_detach(w.fake, 1);
        come(&w, 1);
        pump_until_over(&w, &later, 1);
        CU_ASSERT_EQUAL(later.status, 0);
        peers_close(&w);
    }
}

/* Why @req has failed is that the process of node 1 has left. */
static void says_it_has_left(const struct peers *w, const struct fabemu_req *req)
{
    char why[96];

    fabemu_req_why(w->fab[0], req, why, sizeof why);
    CU_ASSERT_PTR_NOT_NULL(strstr(why, "process of node 1 has left"));
}

/* What is under way with it ends, on both sides; messages that it had offered only, too. */
static void leave__ends_what_is_under_way(void)
{
    static uint8_t out[LONG], in[LONG], memory[LONG];
    struct peers w;
    struct fabemu_req req[4], offer;
    uint64_t key;

    peers_open(&w, 2, true);
    meet(&w, 0, 1);
    fabemu_register(w.fab[1], memory, LONG, FABEMU_REMOTE_READ, &key);
    peers_recv(&w, 0, 1, 1, 0, in, 8, &req[0]);               /* never sent */
    peers_send(&w, 0, 1, 2, out, LONG, &req[1]);              /* never received */
    peers_recv(&w, 0, FABEMU_ANY_NODE, 1, 0, in, 8, &req[2]); /* from anybody */
    peers_send(&w, 1, 0, 4, out, LONG, &offer);
    fake_quiet(w.fake);
    CU_ASSERT_TRUE_FATAL(leave(&w, 1));
    CU_ASSERT_TRUE(req[0].status == -EHOSTUNREACH && req[1].status == -EHOSTUNREACH);
    says_it_has_left(&w, &req[0]); /* its seat is still taken: it has said goodbye */
    says_it_has_left(&w, &req[1]);
    CU_ASSERT_EQUAL(req[2].status, FABEMU_PENDING);
    peers_recv(&w, 0, FABEMU_ANY_NODE, 4, 0, in, LONG, &req[3]);
    fake_detach(w.fake, 1);
    CU_ASSERT_EQUAL(offer.status, -ECANCELED);
    CU_ASSERT_EQUAL(req[3].status, FABEMU_PENDING); /* the offer is gone with it */
    fabemu_cancel(w.queue[0], &req[2]);
    fabemu_cancel(w.queue[0], &req[3]);
    peers_close(&w);
}

/* What its predecessor offered, which died, keeps its place: nothing is received instead of it. */
static void leave__takes_no_lost_ones_place(void)
{
    static uint8_t out[LONG], in[LONG];
    struct fabemu_req offer, recv;
    struct peers w;

    peers_open(&w, 2, false);
    meet(&w, 0, 1);
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

/* One of the nodes that are left is about to leave, or takes a step, or is gone. */
static bool crowd_step(struct peers *w, uint32_t node, bool *leaving, uint64_t *random)
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
        w->fab[node]->disconnect_ns = 0; /* time passes: it asks again */
    if (!leave_step(w, node))
        return false;
    fake_detach(w->fake, node);
    w->fab[node] = NULL;
    return true;
}

/*
 * All leave, each when it likes, however slow the others and the fabric are: nothing that they say
 * to each other, not even a question that was answered before, finds nobody there. The bound of
 * that is off: it is of the clock, and this program may not run for as long as it is.
 */
static void leave__says_nothing_to_who_has_left(void)
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
                left -= crowd_step(&w, node, &leaving[node], &random);
        }
        while (fake_step(w.fake))
            ;
        CU_ASSERT_EQUAL(left, 0);
        CU_ASSERT_EQUAL(fake_dropped(w.fake), 0);
        peers_close(&w);
    }
}

/*
 * The answer of @from to question @number of @node, that it has sent @sent requests, overtakes all
 * else.
 */
static void answer_disconnect(struct peers *w, uint32_t from, uint32_t node, uint16_t number,
                              uint32_t sent)
{
    struct nic_wire_disconnect bye = {.head = {.what = NIC_DISCONNECT,
                                               .check = w->fab[node]->peers[from].rx_check},
                                      .incarnation = w->fab[from]->incarnation,
                                      .kind = NIC_DISCONNECT_ANSWER,
                                      .came = number,
                                      .given = number,
                                      .sent = sent};
    struct emu_seg seg = {.hdr = {.dst = node, .src = from, .len = sizeof bye}};

    memcpy(seg.payload, &bye, sizeof bye);
    CU_ASSERT_TRUE(fake_inject(w->fake, node, &seg));
    fabemu_progress(w->fab[node]);
}

static void leave__takes_what_the_answer_overtook(void)
{
    struct peers w;
    uint32_t v = 3;

    peers_open(&w, 2, false);
    meet(&w, 0, 1);
    leave_begin(&w, 1);
    leave_step(&w, 1);
    fake_step(w.fake); /* the question lies in the ring of node 0 */
    CU_ASSERT_TRUE(nic_in_fabric(w.fab[1]));
    peers_inject(&w, 0, 1, 1, &v, 4);
    answer_disconnect(&w, 0, 1, 1, w.fab[0]->peers[1].tx_seq);
    CU_ASSERT_TRUE(w.fab[1]->peers[0].answered_disconnect);
    CU_ASSERT_FALSE(leave_step(&w, 1));
    CU_ASSERT_EQUAL(nic_leave(w.fab[1], 1000000), 1); /* says that it lacks something */
    fake_step(w.fake);
    fabemu_progress(w.fab[1]);
    CU_ASSERT_TRUE(leave_step(&w, 1));
    peers_close(&w);
}

/* The word that the other has all of a long message: the send does not fail that has arrived. */
static void leave__takes_the_word_that_the_answer_overtook(void)
{
    static uint8_t out[9000], in[9000];
    struct fabemu_req send, recv;
    struct peers w;

    peers_open(&w, 2, false);
    meet(&w, 0, 1);
    bytes_fill(out, sizeof out, 7);
    peers_recv(&w, 0, 1, 1, 0, in, sizeof in, &recv);
    peers_send(&w, 1, 0, 1, out, sizeof out, &send);
    while (!nic_bulk_awaits_fin(nic_op_of(&send))) {
        fake_step(w.fake);
        fabemu_progress(w.fab[0]);
        fabemu_progress(w.fab[1]);
    }
    leave_begin(&w, 1);
    leave_step(&w, 1);
    fake_step(w.fake); /* data and question lie in the ring of node 0 */
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

/* It has asked twice; the first answer says all that it needs, and the second would find nobody. */
static void leave__takes_the_answer_to_its_last_question(void)
{
    struct peers w;
    uint32_t sent;

    peers_open(&w, 2, false);
    meet(&w, 0, 1);
    sent = w.fab[0]->peers[1].tx_seq;
    leave_begin(&w, 1);
    for (uint32_t i = 0; i < 2; i++) {
        w.fab[1]->disconnect_ns = 0; /* it is time */
        leave_step(&w, 1);
    }
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].queries_sent, 2);
    fake_step(w.fake);
    CU_ASSERT_TRUE(nic_in_fabric(w.fab[1]));
    answer_disconnect(&w, 0, 1, 1, sent);
    CU_ASSERT_TRUE(w.fab[1]->peers[0].answered_disconnect);
    CU_ASSERT_FALSE(leave_step(&w, 1));
    CU_ASSERT_EQUAL(nic_leave(w.fab[1], 1000000), 0); /* nothing is lacking: it says nothing */
    answer_disconnect(&w, 0, 1, 2, sent);
    fake_step(w.fake);
    CU_ASSERT_TRUE(leave_step(&w, 1));
    peers_close(&w);
}

/* The same, and no way leads there any more: nothing more is waited for. */
static void leave__does_not_wait_where_nothing_can_come(void)
{
    for (unsigned why = 0; why < 3; why++) {
        struct peers w;
        struct nic_peer *peer;

        peers_open(&w, 2, false);
        meet(&w, 0, 1);
        peer = nic_peer(w.fab[1], 0);
        leave_begin(&w, 1);
        for (uint32_t i = 0; i < 2; i++) {
            w.fab[1]->disconnect_ns = 0;
            leave_step(&w, 1);
        }
        fake_step(w.fake);
        answer_disconnect(&w, 0, 1, 1, w.fab[0]->peers[1].tx_seq);
        leave_step(&w, 1);
        fake_step(w.fake); /* all that it says is in the fabric */
        CU_ASSERT_FALSE(leave_step(&w, 1));
        if (why)
            w.fab[1]->hostif.shared->incarnations[why - 1] |= EMU_INCARNATION_NO_LINK;
        else
            peer->broke = NIC_BROKE_PARTITIONED;
        CU_ASSERT_TRUE(leave_step(&w, 1));
        peers_close(&w);
    }
}

/* A word of one that left before is overtaken by its successor's question. */
static void leave__counts_no_words_of_the_one_before(void)
{
    struct nic_wire_disconnect bye = {.head = {.what = NIC_DISCONNECT},
                                      .queries_sent = 9,
                                      .kind = NIC_DISCONNECT_DONE};
    struct emu_seg seg = {.hdr = {.dst = 0, .src = 1, .len = sizeof bye}};
    struct nic_peer *peer;
    struct peers w;
    uint64_t stranger;

    peers_open(&w, 2, false);
    meet(&w, 0, 1);
    peer = nic_peer(w.fab[0], 1);
    leave_begin(&w, 1);
    leave_step(&w, 1);
    fake_step(w.fake);
    fabemu_progress(w.fab[0]); /* it answers */
    CU_ASSERT_EQUAL(peer->queries_received, 1);
    CU_ASSERT_EQUAL(peer->replies, 1);
    stranger = w.fab[0]->counts.stranger;
    bye.incarnation = w.fab[1]->incarnation - 1;
    memcpy(seg.payload, &bye, sizeof bye);
    CU_ASSERT_TRUE(fake_inject(w.fake, 0, &seg));
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(peer->queries_incarnation, w.fab[1]->incarnation);
    CU_ASSERT_EQUAL(peer->queries_received, 1);
    CU_ASSERT_EQUAL(peer->replies, 1);
    CU_ASSERT_FALSE(peer->queries_ended);
    CU_ASSERT_EQUAL(w.fab[0]->counts.stranger, stranger + 1);
    peers_close(&w);
}

#define WATCH_NS   UINT64_C(50000000) /* after so long one looks after another, */
#define STOPPED_NS (3 * WATCH_NS)

/* Node 0 is stopped for so long; others go on to fill its ring, and node 1 leaves. */
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

/* All that has completed is there, however long it takes the other to take it. */
static void leave__waits_for_one_that_stands_still(void)
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
            meet(&w, 0, n);
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

/* It holds as many messages as it may for a queue that nobody opens, and the senders stand. */
static void leave__is_not_held_up_by_a_queue_that_nobody_opens(void)
{
    enum { MANY = NIC_PARKED_MAX / 2 + 1500 };
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
        CU_ASSERT_EQUAL(w.fab[2]->parked, NIC_PARKED_MAX);
        CU_ASSERT_TRUE(w.fab[2]->peers[0].earlies || w.fab[2]->peers[1].earlies);
        CU_ASSERT_TRUE_FATAL(leave(&w, 2));
        CU_ASSERT_EQUAL(nic_leave(w.fab[2], 1), 0); /* says nothing */
        for (uint32_t n = 0; n < 2; n++)
            for (uint32_t i = 0; i < MANY; i++) {
                CU_ASSERT_TRUE(send[n][i].status == 0 || send[n][i].status == -EHOSTUNREACH);
                failed += send[n][i].status != 0;
            }
        CU_ASSERT_TRUE(failed >= 2 * MANY / 4); /* the long ones: nobody has fetched them */
        CU_ASSERT_EQUAL(w.fab[2]->counts.refused, 0);
        peers_close(&w);
    }
}

/* Who does not answer is named, and not waited for much longer than promised. */
static void leave__says_whom_it_did_not_hear(void)
{
    struct peers w;
    uint32_t v = 3;

    peers_open(&w, 3, false);
    meet(&w, 0, 1);
    meet(&w, 0, 2);
    peers_inject(&w, 0, 1, 1, &v, 4);                 /* nobody steps: it stays in the ring */
    CU_ASSERT_EQUAL(nic_leave(w.fab[0], 5000000), 1); /* the other one confirmed all, as it spoke */
    CU_ASSERT_TRUE(leave(&w, 0));
    CU_ASSERT_EQUAL(nic_leave(w.fab[0], 5000000), 0);
    peers_close(&w);
}

#define FAREWELL_NS UINT64_C(100000000)

/*
 * Who is stopped and has confirmed all that was sent to it, if anything was, cannot lack anything:
 * it is waited for as long as an answer alone is worth, which is a second where nobody says
 * otherwise, not as long as one that has not confirmed, for ever here, and nobody is warned of it.
 */
static void leave__waits_a_moment_for_who_lacks_nothing(void)
{
    for (unsigned sent = 0; sent < 2; sent++) {
        struct peers w;
        uint32_t v = 3;
        uint64_t before;

        peers_open(&w, 2, false);
        if (sent)
            peers_inject(&w, 0, 1, 1, &v, 4);
        fake_quiet(w.fake);
        peers_inject(&w, 1, 0, 1, &v, 4); /* confirms what it has */
        fake_step(w.fake);
        fabemu_progress(w.fab[0]);
        CU_ASSERT_EQUAL(w.fab[0]->farewell_limit_ns, UINT64_C(1000000000));
        w.fab[0]->farewell_limit_ns = FAREWELL_NS;
        before = emu_now_ns();
        fake_start(w.fake);
        CU_ASSERT_EQUAL(nic_leave(w.fab[0], UINT64_MAX), 0); /* nobody steps the other */
        fake_stop(w.fake);
        /* it may have had something to say */
        CU_ASSERT_TRUE(emu_now_ns() - before >= FAREWELL_NS);
        peers_close(&w);
    }
}

/*
 * The same with other bounds: short, and none, and then it is the bound of all leaving that ends.
 */
static void leave__waits_as_long_as_the_bounds_say(void)
{
    for (unsigned off = 0; off < 2; off++) {
        struct peers w;
        uint32_t v = 3;

        peers_open(&w, 2, false);
        fake_quiet(w.fake);
        peers_inject(&w, 1, 0, 1, &v, 4);
        fake_step(w.fake);
        fabemu_progress(w.fab[0]);
        w.fab[0]->farewell_limit_ns = off ? UINT64_MAX : 1000000;
        leave_begin(&w, 0);
        bool done = false;

        for (uint64_t end = emu_now_ns() + (off ? 50000000 : PATIENCE_NS);
             !done && emu_now_ns() < end;) {
            fake_step(w.fake); /* nobody steps the other */
            done = leave_step(&w, 0);
        }
        CU_ASSERT_EQUAL(done, !off);
        peers_close(&w);
    }
}

/*
 * It has answered that it has all, and what it had sent itself is known to be on its way: that is
 * waited for.
 */
static void leave__waits_for_what_was_said_to_it_before(void)
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
    w.fab[0]->disconnect_ns = UINT64_MAX; /* the question is asked and answered */
    w.fab[0]->disconnect_began_ns = emu_now_ns() - PATIENCE_NS;
    CU_ASSERT_TRUE(leave_step(&w, 0)); /* who has not answered so far will not */
    peer->answered_disconnect = true;
    peer->last = peer->rx_next + 1;
    CU_ASSERT_FALSE(leave_step(&w, 0));
    peer->last = peer->rx_next;
    CU_ASSERT_TRUE(leave_step(&w, 0));
    peers_close(&w);
}

/* A question may overtake the hello that it is the end of: it is too late to meet then. */
static void leave__before_the_other_has_met_it(void)
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
    CU_ASSERT_EQUAL(peer->incarnation, 0); /* its hello came, too */
    peers_close(&w);
}

/* --- names -------------------------------------------------------------------------- */

static void incarnation__names_a_process_and_no_other(void)
{
    static uint64_t word;
    struct peers w;
    struct fabemu_iov iov = {.base = &word, .bytes = 8};
    struct fabemu_dest dest = peers_to(1, 1, 0);
    uint64_t key, one = 1, old;

    peers_open(&w, 2, false);
    meet(&w, 0, 1);
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

/* What begins is not hit by the end of the one before, which it is the first to see. */
static void incarnation__first_operation_after_a_death_goes_on(void)
{
    static uint64_t word;
    struct peers w;
    struct fabemu_req req = {0};
    struct fabemu_atomic add = {.node = 1,
                                .op = FABEMU_ATOMIC_ADD,
                                .type = FABEMU_U64,
                                .operand = &(uint64_t){7}};

    peers_open(&w, 2, false);
    meet(&w, 0, 1);
    fake_detach(w.fake, 1);
    come(&w, 1);
    fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_ATOMIC, &add.key);
    req.incarnation = fabemu_info(w.fab[1])->incarnation;
    fabemu_atomic(w.fab[0], &add, &req);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    CU_ASSERT_TRUE(req.status == 0 && word == 7);
    peers_close(&w);
}

/* Receives for the next one are posted before the death of this one is told, and stay. */
static void incarnation__named_receive_is_not_hit_by_an_older_death(void)
{
    struct peers w;
    struct fabemu_req req = {0}, any;
    struct fabemu_iov iov;
    uint32_t got = 0, other = 0;

    peers_open(&w, 2, false);
    meet(&w, 0, 1);
    peers_recv(&w, 0, 1, 5, 0, &other, 4, &any); /* with the first */
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

/* A message that has come is received whoever is there by then; a name asks for its sender's. */
static void incarnation__of_who_sent_stays_with_the_message(void)
{
    struct peers w;
    struct fabemu_req req = {0};
    struct fabemu_iov iov;
    uint64_t first;
    uint32_t got = 0;

    peers_open(&w, 2, false);
    meet(&w, 0, 1);
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
 * The process that was asked is gone while the request is on its way: not even a full target passes
 * it on.
 */
static void incarnation__transfer_does_not_pass_to_the_successor(void)
{
    static uint8_t memory[5000], mine[5000];
    struct peers w;
    struct fabemu_req req[2] = {{0}};
    uint64_t key;

    peers_open(&w, 2, false);
    meet(&w, 0, 1);
    fabemu_register(w.fab[1], memory, 5000, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE, &key);
    w.fab[1]->served = NIC_SERVED_MAX; /* it will be asked again */
    fabemu_get(w.fab[0], 1, key, 0, mine, 5000, &req[0]);
    fabemu_put(w.fab[0], 1, key, 0, mine, 5000, &req[1]);
    fake_step(w.fake);
    fabemu_progress(w.fab[1]);
    fake_step(w.fake); /* its refusal lies in our ring */
    w.fab[1]->served = 0;
    fake_detach(w.fake, 1);
    come(&w, 1);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    CU_ASSERT_TRUE(req[0].status == -EHOSTUNREACH && req[1].status == -EHOSTUNREACH);
    peers_close(&w);
}

/* A hello of the process before us comes back: it is not ours. */
static void incarnation__given_up_hello_of_another_incarnation_is_not_ours(void)
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
    peers_send(&w, 0, 1, 1, &v, 4, &req); /* a hello: the same hello, but for the life */
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
        CASE(leave__nobody_after_is_unreachable),
        CASE(leave__waits_for_what_had_completed),
        CASE(leave__takes_what_was_said_to_it),
        CASE(leave__ends_what_is_under_way),
        CASE(leave__takes_no_lost_ones_place),
        CASE(leave__all_at_once),
        CASE(leave__says_nothing_to_who_has_left),
        CASE(leave__takes_what_the_answer_overtook),
        CASE(leave__takes_the_word_that_the_answer_overtook),
        CASE(leave__takes_the_answer_to_its_last_question),
        CASE(leave__does_not_wait_where_nothing_can_come),
        CASE(leave__counts_no_words_of_the_one_before),
        CASE(leave__waits_for_one_that_stands_still),
        CASE(leave__is_not_held_up_by_a_queue_that_nobody_opens),
        CASE(leave__says_whom_it_did_not_hear),
        CASE(leave__waits_a_moment_for_who_lacks_nothing),
        CASE(leave__waits_as_long_as_the_bounds_say),
        CASE(leave__waits_for_what_was_said_to_it_before),
        CASE(leave__before_the_other_has_met_it),
        CASE(incarnation__names_a_process_and_no_other),
        CASE(incarnation__first_operation_after_a_death_goes_on),
        CASE(incarnation__named_receive_is_not_hit_by_an_older_death),
        CASE(incarnation__of_who_sent_stays_with_the_message),
        CASE(incarnation__transfer_does_not_pass_to_the_successor),
        CASE(incarnation__given_up_hello_of_another_incarnation_is_not_ours),
        {0},
    };

    return test_run("nic_leave", cases);
}
