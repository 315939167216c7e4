/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_lost_test.c - segments that the network drops: the two processes, or the group, get an error,
 * and nothing hangs.
 *
 * One thread steps the adapters and a fake fabric whose routes are cut and restored.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/fixtures/host/parts.h"
#include "tests/fixtures/host/team.h"

#define BIG 100000u

/* Two or more adapters with a short limit for silent peers. */
static void hasty_open(struct peers *w, uint32_t nodes, bool shuffle)
{
    setenv("FABEMU_PEER_TIMEOUT_MS", "30", 1);
    peers_open_on(w, nodes, shuffle, true);
    unsetenv("FABEMU_PEER_TIMEOUT_MS");
    for (uint32_t i = 0; i < nodes; i++) {
        w->fab[i]->watch_ns = 0;
        w->fab[i]->watch_gap_ns = 2000000;
    }
}

static void cut(struct peers *w, uint32_t a, uint32_t b, bool to, bool back)
{
    fake_cut(w->fake, a, b, to);
    fake_cut(w->fake, b, a, back);
}

static void connect_peers(struct peers *w, uint32_t a, uint32_t b)
{
    struct fabemu_req req[2];
    char byte[2];

    peers_recv(w, b, a, 999, 0, &byte[0], 1, &req[0]);
    peers_recv(w, a, b, 999, 0, &byte[1], 1, &req[1]);
    peers_inject(w, a, b, 999, "x", 1);
    peers_inject(w, b, a, 999, "x", 1);
    CU_ASSERT_TRUE_FATAL(fake_finish(w->fake, req, 2));
    CU_ASSERT_TRUE(req[0].status == 0 && req[1].status == 0);
    fake_quiet(w->fake);
}

static void pump_until_over(struct peers *w, struct fabemu_req *req, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        while (fabemu_req_status(&req[i]) == FABEMU_PENDING)
            fake_pump(w->fake);
}

/* Exchange a message in each direction, retrying after errors. Returns the number of errors. */
static uint32_t exchange(struct peers *w, uint32_t a, uint32_t b)
{
    uint32_t failed = 0, v = 5, got = 0;

    for (uint32_t turn = 0; turn < 2; turn++) {
        uint32_t from = turn ? b : a, to_node = turn ? a : b;
        struct fabemu_req req[2];

        for (;; failed++) {
            peers_recv(w, to_node, from, 4242 + turn, 0, &got, 4, &req[0]);
            peers_send(w, from, to_node, 4242 + turn, &v, 4, &req[1]);
            pump_until_over(w, &req[1], 1);
            while (req[1].status == 0 && fabemu_req_status(&req[0]) == FABEMU_PENDING)
                fake_pump(w->fake);
            if (req[1].status == 0 && req[0].status == 0)
                break;
            CU_ASSERT_TRUE_FATAL(failed < 10);
            fabemu_cancel(w->queue[to_node], &req[0]);
        }
        CU_ASSERT_EQUAL(got, 5);
    }
    return failed;
}

/* --- pairs -------------------------------------------------------------------------- */

/*
 * Operations posted while the route is cut end, too; once it is restored, the two communicate
 * again.
 */
static void fails_until_mended(struct peers *w)
{
    struct fabemu_req send, recv;
    uint64_t out = 0, in;

    peers_send(w, 0, 1, 3, &out, 8, &send);
    peers_recv(w, 1, 0, 3, 0, &in, 8, &recv);
    pump_until_over(w, &send, 1);
    pump_until_over(w, &recv, 1);
    CU_ASSERT_EQUAL(send.status, -EHOSTUNREACH);
    CU_ASSERT_EQUAL(recv.status, -EHOSTUNREACH);
    cut(w, 0, 1, false, false);
    exchange(w, 0, 1);
}

/*
 * All operations in which one process waits for the other end if the route is cut in one direction
 * or both.
 */
static void dropped__ends_all_operations_on_both_sides(void)
{
    static uint8_t memory[2][BIG], out[BIG], in[8][BIG];
    uint64_t one = 1, old = 0;

    for (unsigned ways = 1; ways < 4; ways++) {
        struct peers w;
        struct fabemu_req req[2][7];
        uint64_t key[2];

        hasty_open(&w, 2, true);
        connect_peers(&w, 0, 1);
        for (uint32_t i = 0; i < 2; i++) {
            fabemu_register(w.fab[i], memory[i], BIG, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE,
                            &key[i]);
            peers_recv(&w, i, !i, 1, 0, in[4 * i], BIG, &req[i][0]);
            peers_recv(&w, i, !i, 2, 0, in[4 * i + 1], BIG, &req[i][1]);
        }
        for (uint32_t i = 0; i < 2; i++) {
            /* in both directions; the second is longer than the part that is cut below */
            memset(&req[i][2], 0, 5 * sizeof req[i][2]);
            /* announces itself, and nobody receives */
            peers_send(&w, i, !i, 77, out, BIG, &req[i][2]);
            fabemu_put(w.fab[i], !i, key[!i], 0, out, BIG, &req[i][3]);
            fabemu_get(w.fab[i], !i, key[!i], 0, in[4 * i + 2], BIG, &req[i][4]);
        }
        for (int k = 0; k < 3; k++)
            fake_pump(w.fake);
        cut(&w, 0, 1, ways & 1, ways & 2);
        for (uint32_t i = 0; i < 2; i++) {
            struct fabemu_atomic add = {.node = !i,
                                        .key = key[!i],
                                        .op = FABEMU_ATOMIC_ADD,
                                        .type = FABEMU_U64,
                                        .operand = &one,
                                        .result = &old};

            fabemu_atomic(w.fab[i], &add, &req[i][5]);
            peers_send(&w, i, !i, 78, out, 8, &req[i][6]);
        }
        pump_until_over(&w, req[0], 7);
        pump_until_over(&w, req[1], 7);
        for (uint32_t i = 0; i < 2; i++)
            for (unsigned k = 0; k < 3; k++)
                CU_ASSERT_EQUAL(req[i][k].status, -EHOSTUNREACH);
        CU_ASSERT_TRUE(w.fab[0]->counts.given_up + w.fab[1]->counts.given_up > 0);
        CU_ASSERT_EQUAL(w.fab[0]->counts.malformed + w.fab[1]->counts.malformed, 0);
        CU_ASSERT_EQUAL(w.fab[0]->served + w.fab[1]->served, 0);

        fails_until_mended(&w);
        peers_close(&w);
    }
}

/* One segment is dropped, the rest arrive: the receiver misses one, and gets an error at once. */
static void dropped__one_segment_breaks_the_pair(void)
{
    struct peers w;
    struct fabemu_req recv[3], send;
    uint32_t v = 1, got[3] = {0};
    uint32_t epoch;

    for (unsigned shuffle = 0; shuffle < 2; shuffle++) {
        peers_open_on(&w, 2, shuffle, true);
        connect_peers(&w, 0, 1);
        epoch = w.fab[0]->peers[1].epoch;
        for (uint32_t i = 0; i < 2; i++)
            peers_recv(&w, 1, 0, i, 0, &got[i], 4, &recv[i]);
        peers_recv(&w, 1, FABEMU_ANY_NODE, 0, UINT64_MAX, &got[2], 4, &recv[2]);
        peers_send(&w, 0, 1, 0, &v, 4, &send); /* complete, but lost */
        CU_ASSERT_EQUAL(send.status, 0);
        fake_cut(w.fake, 0, 1, true);
        fake_step(w.fake);
        fake_cut(w.fake, 0, 1, false);
        peers_inject(&w, 0, 1, 1, &v, 4);
        CU_ASSERT_TRUE(fake_finish(w.fake, recv, 2));
        CU_ASSERT_EQUAL(recv[0].status, -EHOSTUNREACH);
        CU_ASSERT_EQUAL(recv[1].status, -EHOSTUNREACH);
        CU_ASSERT_EQUAL(recv[2].status, FABEMU_PENDING);
        CU_ASSERT_EQUAL(w.fab[0]->peers[1].epoch, epoch + 1);
        CU_ASSERT_EQUAL(w.fab[1]->peers[0].epoch, epoch + 1);
        CU_ASSERT_EQUAL(w.fab[0]->counts.given_up, 1);

        /*
         * Node 0 had no operation in progress: its next one reports the error, and only that one.
         */
        peers_send(&w, 0, 1, 7, &v, 4, &send);
        CU_ASSERT_EQUAL(send.status, -EHOSTUNREACH);
        peers_inject(&w, 0, 1, 8, &v, 4);
        CU_ASSERT_TRUE(fake_finish(w.fake, &recv[2], 1));
        CU_ASSERT_TRUE(recv[2].status == 0 && recv[2].tag == 8 && got[2] == 1);
        CU_ASSERT_EQUAL(exchange(&w, 0, 1), 0);
        peers_close(&w);
    }
}

/*
 * If no operation failed because of a break, the next operation of any kind reports it, on either
 * side.
 */
static void dropped__is_reported_by_the_next_operation(void)
{
    for (unsigned kind = 0; kind < 6; kind++) {
        struct peers w;
        struct fabemu_req req = {0};
        struct fabemu_dest dest = peers_to(kind % 2, 1, 0);
        uint32_t me = !(kind % 2), v = 3;

        peers_open_on(&w, 2, false, true);
        connect_peers(&w, 0, 1);
        fake_cut(w.fake, 0, 1, true);
        peers_inject(&w, 0, 1, 1, &v, 4);
        fake_step(w.fake);
        fake_cut(w.fake, 0, 1, false);
        fake_quiet(w.fake);
        CU_ASSERT_TRUE(w.fab[0]->peers[1].open && w.fab[0]->peers[1].unreported_incarnation);
        CU_ASSERT_TRUE(w.fab[1]->peers[0].incarnation && w.fab[1]->peers[0].unreported_incarnation);
        if (kind < 2) {
            CU_ASSERT_EQUAL(fabemu_inject(w.queue[me], &dest, &v, 4), -EHOSTUNREACH);
        } else if (kind < 4) {
            peers_recv(&w, me, !me, 1, 0, &v, 4, &req);
        } else {
            fabemu_put(w.fab[me], !me, 1, 0, &v, 4, &req);
        }
        CU_ASSERT_EQUAL(req.status, kind < 2 ? 0 : -EHOSTUNREACH);
        CU_ASSERT_FALSE(w.fab[me]->peers[!me].unreported_incarnation);
        peers_inject(&w, me, !me, 2, &v, 4);
        peers_close(&w);
    }
}

static void count_loss(struct fabemu_queue *queue, const struct fabemu_req *failed, void *arg)
{
    char why[96];

    fabemu_req_why(queue->fab, failed, why, sizeof why);
    CU_ASSERT_TRUE(failed->status == -EHOSTUNREACH && strstr(why, "node 1"));
    ++*(unsigned *)arg;
}

/* The owner of a queue is told of a loss that no operation reports, and only then. */
static void dropped__is_reported_to_the_queue(void)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        struct peers w;
        struct fabemu_req req = {0};
        unsigned losses = 0, others = 0;
        struct fabemu_queue *other;
        uint32_t v = 3;

        hasty_open(&w, 2, false);
        CU_ASSERT_EQUAL(fabemu_queue_open(w.fab[0], 5, &other), 0);
        fabemu_queue_on_loss(other, count_loss, &others);
        fabemu_queue_on_loss(w.queue[0], count_loss, &losses);
        connect_peers(&w, 0, 1);
        fake_cut(w.fake, 0, 1, true);
        peers_inject(&w, 0, 1, 1, &v, 4);
        peers_inject(&w, 0, 1, 1, &v, 4);
        fake_step(w.fake);
        fake_cut(w.fake, 0, 1, false);
        fake_quiet(w.fake);
        CU_ASSERT_TRUE(w.fab[0]->peers[1].unreported_incarnation);
        if (kind == 1)
            fabemu_queue_on_loss(w.queue[0], NULL, NULL);
        if (kind == 2) { /* this operation reports it */
            peers_recv(&w, 0, 1, 1, 0, &v, 4, &req);
            CU_ASSERT_EQUAL(req.status, -EHOSTUNREACH);
        }
        if (kind == 3)
            fabemu_queue_close(w.queue[0]);
        for (uint64_t end = emu_now_ns() + 20000000; emu_now_ns() < end;)
            fake_pump(w.fake);
        CU_ASSERT_TRUE(losses == (kind == 0) && others == 0);
        CU_ASSERT_EQUAL(w.fab[0]->peers[1].unreported_incarnation != 0, kind == 1 || kind == 3);
        if (kind == 3)
            CU_ASSERT_EQUAL(fabemu_queue_open(w.fab[0], 1, &w.queue[0]), 0);
        peers_close(&w);
    }
}

/*
 * Both sides lose a segment at the same time; or one loses two before the peer knows of the first.
 */
static void dropped__on_both_sides_ends_in_one_epoch(void)
{
    for (unsigned round = 0; round < 40; round++) {
        struct peers w;
        uint32_t v = 3, times = 1 + round % 3;

        peers_open_on(&w, 2, true, true);
        w.random += round;
        connect_peers(&w, 0, 1);
        for (uint32_t k = 0; k < times; k++) {
            uint32_t from = (uint32_t)(test_random(&w.random) % 3);

            cut(&w, 0, 1, true, true);
            for (uint32_t i = 0; i < 2; i++) {
                struct fabemu_dest dest = peers_to(!i, 1, 0);

                if (from != i) /* both, or one of them */
                    fabemu_inject(w.queue[i], &dest, &v, 4);
            }
            for (uint32_t n = (uint32_t)(test_random(&w.random) % 4); n; n--)
                fake_pump(w.fake);
            cut(&w, 0, 1, false, false);
            for (uint32_t n = (uint32_t)(test_random(&w.random) % 4); n; n--)
                fake_pump(w.fake);
        }
        fake_quiet(w.fake);
        exchange(&w, 0, 1);
        CU_ASSERT_EQUAL(w.fab[0]->peers[1].epoch, w.fab[1]->peers[0].epoch);
        peers_close(&w);
    }
}

static void connect__dropped_is_unreachable_at_once(void)
{
    struct peers w;
    struct fabemu_req req[2];
    struct fabemu_dest dest = peers_to(1, 1, 0);
    uint32_t v = 3;
    int err;

    peers_open_on(&w, 3, false, true); /* the limit is 10 s: the network knows sooner */
    fake_cut(w.fake, 0, 1, true);
    peers_send(&w, 0, 1, 1, &v, 4, &req[0]);
    w.fab[0]->watch_ns = 0;
    peers_recv(&w, 0, 1, 1, 0, &v, 4, &req[1]);
    pump_until_over(&w, req, 2);
    CU_ASSERT_EQUAL(req[0].status, -EHOSTUNREACH);
    CU_ASSERT_EQUAL(req[1].status, -EHOSTUNREACH);
    while ((err = fabemu_inject(w.queue[0], &dest, &v, 4)) == -EAGAIN)
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(err, -EHOSTUNREACH);
    fake_cut(w.fake, 0, 1, false);
    exchange(&w, 0, 1);
    exchange(&w, 0, 2);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed + w.fab[0]->counts.stale, 0);
    peers_close(&w);
}

/* While the network has a hello in flight, the adapter sends no second one. */
static void connect__is_left_to_the_network(void)
{
    struct peers w;
    struct nic_peer *peer;
    uint32_t before;

    peers_open_on(&w, 2, false, true);
    peer = nic_peer(w.fab[0], 1);
    nic_lock(w.fab[0]);
    nic_peer_connect(w.fab[0], peer);
    before = w.fab[0]->hostif.up_tail;
    for (int i = 0; i < 5; i++) {
        peer->hello_ns = w.fab[0]->hello_scan_ns = 0;
        nic_peer_connect_again(w.fab[0]);
    }
    CU_ASSERT_EQUAL(w.fab[0]->hostif.up_tail, before);
    peer->hello_pending = false; /* no process is attached there: now the adapter must repeat it */
    peer->hello_ns = w.fab[0]->hello_scan_ns = 0;
    nic_peer_connect_again(w.fab[0]);
    CU_ASSERT_EQUAL(w.fab[0]->hostif.up_tail, before + 1);
    nic_unlock(w.fab[0]);
    fake_quiet(w.fake);
    CU_ASSERT_TRUE(peer->open);
    CU_ASSERT_FALSE(peer->hello_pending);
    peers_close(&w);
}

/* A pair breaks, and then one of the two is replaced. */
static void dropped__and_then_a_successor(void)
{
    struct peers w;
    uint32_t v = 3;

    for (uint32_t gone = 0; gone < 2; gone++) {
        peers_open_on(&w, 2, true, true);
        for (uint32_t round = 0; round < 5; round++) {
            connect_peers(&w, 0, 1);
            fake_cut(w.fake, 0, 1, true);
            peers_inject(&w, 0, 1, 1, &v, 4);
            fake_step(w.fake);
            fake_cut(w.fake, 0, 1, false);
            for (uint32_t n = (uint32_t)(test_random(&w.random) % 6); n; n--)
                fake_pump(w.fake);
            fake_detach(w.fake, gone);
            nic_lock(w.fab[!gone]); /* as the fabric reports */
            nic_peer_check_all(w.fab[!gone]);
            nic_unlock(w.fab[!gone]);
            w.fab[gone] = fake_attach(w.fake, gone);
            fabemu_queue_open(w.fab[gone], 1, &w.queue[gone]);
            fake_quiet(w.fake);
            exchange(&w, 0, 1);
        }
        peers_close(&w);
    }
}

/* Forged segment number @i. Returns false if an honest peer may send it. */
static bool draw_word(struct peers *w, uint32_t i, struct emu_seg *seg)
{
    uint64_t r = test_random(&w->random);

    for (unsigned k = 0; k < sizeof *seg; k += 8)
        memcpy((uint8_t *)seg + k, &(uint64_t){test_random(&w->random)}, 8);
    seg->hdr.src = r % 4 ? 0 : 1;
    seg->hdr.dst = r / 4 % 4 ? 1 : seg->hdr.dst;
    seg->hdr.kind |= r / 16 % 2 ? EMU_FAILED : EMU_NOTIFY;
    if (r / 32 % 4)
        seg->hdr.kind &= EMU_FAILED | EMU_NOTIFY | 7;
    if (r / 128 % 4)
        seg->hdr.len %= EMU_PAYLOAD_BYTES + 1;
    seg->payload[0] = (uint8_t)(r / 512 % NIC_HELLO);
    if (seg->hdr.kind == (EMU_UNICAST | EMU_NOTIFY) && seg->hdr.src == 1)
        return false; /* a valid one, which other tests cover */
    if (seg->payload[0] != NIC_DATA)
        return true;
    if (i % 2 == 0) /* a 16-bit check may match by chance */
        return false;
    memcpy(seg->payload + 2, &(uint16_t){(uint16_t)~w->fab[0]->peers[1].tx_check}, 2);
    return true;
}

/* Notices of another epoch, of another process, and a hello with an older state. */
static void inject_words_that_are_over(struct peers *w)
{
    uint32_t epoch = w->fab[0]->peers[1].epoch;
    struct emu_seg seg = {.hdr = {.dst = 1, .kind = EMU_UNICAST | EMU_FAILED}};
    struct nic_wire_head head = {.what = NIC_EAGER, .check = w->fab[0]->peers[1].tx_check ^ 1};
    struct nic_wire_hello hello = {.what = NIC_HELLO,
                                   .incarnation = w->fab[0]->incarnation,
                                   .epoch = epoch};

    memcpy(seg.payload, &head, sizeof head);
    seg.hdr.len = sizeof head;
    fake_inject(w->fake, 0, &seg);
    memcpy(seg.payload, &hello, sizeof hello);
    seg.hdr.len = sizeof hello;
    fake_inject(w->fake, 0, &seg);
    hello.known = w->fab[1]->incarnation;
    hello.epoch--;
    memcpy(seg.payload, &hello, sizeof hello);
    fake_inject(w->fake, 0, &seg);
    fake_quiet(w->fake);
}

/* Notices that the network may not send, or that are about operations that have ended. */
static void receive__rejects_impossible_notices(void)
{
    struct peers w;
    struct emu_seg seg;
    struct fabemu_req recv;
    uint32_t epoch, v;

    for (unsigned acknowledged = 0; acknowledged < 2; acknowledged++) {
        peers_open_on(&w, 2, false, acknowledged);
        connect_peers(&w, 0, 1);
        peers_recv(&w, 0, 1, 1, 0, &v, 4, &recv);
        epoch = w.fab[0]->peers[1].epoch;
        for (uint32_t i = 0; i < 20000; i++) {
            if (!draw_word(&w, i, &seg))
                continue;
            while (!fake_inject(w.fake, 0, &seg))
                fabemu_progress(w.fab[0]);
            fabemu_progress(w.fab[0]);
        }
        CU_ASSERT_TRUE(w.fab[0]->counts.malformed > 1000);
        CU_ASSERT_EQUAL(w.fab[0]->counts.given_up > 0, acknowledged);

        inject_words_that_are_over(&w);
        CU_ASSERT_EQUAL(recv.status, FABEMU_PENDING);
        CU_ASSERT_EQUAL(w.fab[0]->peers[1].epoch, epoch);
        CU_ASSERT_EQUAL(exchange(&w, 0, 1), 0);
        fabemu_cancel(w.queue[0], &recv);
        peers_close(&w);
    }
}

/*
 * The peer has no operation in progress, and its cable returns much later: it still gets the error.
 */
static void dropped__is_reported_when_the_route_is_restored(void)
{
    struct peers w;
    uint32_t v = 3;

    hasty_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    cut(&w, 0, 1, true, true);
    peers_inject(&w, 0, 1, 1, &v, 4);
    while (!w.fab[0]->peers[1].must_notify || emu_listed(&w.fab[0]->peers[1].connect))
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].epoch, 0);
    cut(&w, 0, 1, false, false);
    while (w.fab[1]->peers[0].epoch != 1 || !w.fab[0]->peers[1].open)
        fake_pump(w.fake);
    CU_ASSERT_TRUE(w.fab[1]->peers[0].unreported_incarnation);
    peers_close(&w);
}

/*
 * A process that was stopped for longer than the limit fails at its peers; when it runs again they
 * reconnect.
 */
static void peer__silent_reconnects(void)
{
    struct peers w;
    struct fabemu_req req = {0};
    static uint8_t out[BIG];

    hasty_open(&w, 2, false);
    connect_peers(&w, 0, 1);
    peers_send(&w, 0, 1, 1, out, BIG, &req);
    while (fabemu_req_status(&req) == FABEMU_PENDING) { /* node 1 is stopped */
        fake_step(w.fake);
        fabemu_progress(w.fab[0]);
    }
    CU_ASSERT_EQUAL(req.status, -EHOSTUNREACH);
    fake_quiet(w.fake);
    exchange(&w, 0, 1);
    CU_ASSERT_EQUAL(w.fab[0]->peers[1].epoch, w.fab[1]->peers[0].epoch);
    peers_close(&w);
}

/*
 * On a slow network the answer to a hello may be behind a long message of the same process: the
 * arriving parts of that show that the process is alive.
 */
static void peer__sending_data_is_not_silent(void)
{
    static uint8_t out[BIG], in[BIG];
    struct fabemu_req req[2] = {0};
    struct nic_peer *peer;
    struct peers w;

    peers_open(&w, 2, false);
    peer = &w.fab[0]->peers[1];
    connect_peers(&w, 0, 1);
    peers_recv(&w, 0, 1, 1, 0, in, BIG, &req[0]);
    peers_send(&w, 1, 0, 1, out, BIG, &req[1]);
    for (uint32_t i = 0; i < 2; i++) { /* it is announced and requested, */
        fabemu_progress(w.fab[1 - i]);
        fake_step(w.fake);
    }
    fabemu_progress(w.fab[1]); /* and sent, */
    nic_peer_connect(w.fab[0], peer);
    CU_ASSERT_TRUE(emu_listed(&peer->connect));
    fake_step(w.fake);
    fabemu_progress(w.fab[0]); /* and arrives before the process there has seen the hello */
    CU_ASSERT_FALSE(emu_listed(&peer->connect));
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    CU_ASSERT_TRUE(req[0].status == 0 && req[1].status == 0);
    peers_close(&w);
}

/* A hello that is queued behind our own segments cannot be answered yet. */
static void hello__queued_does_not_count_as_silence(void)
{
    static uint8_t out[BIG], in[BIG];
    struct fabemu_req req[2] = {0};
    struct nic_peer *peer;
    struct peers w;

    peers_open(&w, 2, false);
    peer = &w.fab[0]->peers[1];
    connect_peers(&w, 0, 1);
    peers_recv(&w, 1, 0, 1, 0, in, BIG, &req[0]);
    peers_send(&w, 0, 1, 1, out, BIG, &req[1]);
    for (uint32_t i = 0; i < 2; i++) { /* it is announced and requested, */
        fabemu_progress(w.fab[i]);
        fake_step(w.fake);
    }
    fabemu_progress(w.fab[0]); /* and sent; */
    nic_peer_connect(w.fab[0], peer);
    peer->hello_began_ns = 1; /* this was long ago, */
    fake_step(w.fake);        /* and the fabric takes it only now */
    w.fab[0]->hello_scan_ns = emu_now_ns();
    fabemu_progress(w.fab[0]);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[1]), FABEMU_PENDING);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    CU_ASSERT_TRUE(req[0].status == 0 && req[1].status == 0);
    peers_close(&w);
}

/* Two connected adapters; the first sends a hello to the second. Returns the first one's peer. */
static struct nic_peer *hello_begin(struct peers *w)
{
    struct nic_peer *peer;

    peers_open(w, 2, false);
    peer = &w->fab[0]->peers[1];
    connect_peers(w, 0, 1);
    nic_peer_connect(w->fab[0], peer);
    return peer;
}

/*
 * A process that had no core for longer than the limit cannot conclude that its peers were silent.
 */
static void hello__of_a_stopped_process_does_not_count_as_silence(void)
{
    struct peers w;
    struct nic_peer *peer = hello_begin(&w);

    peer->hello_began_ns = w.fab[0]->hello_scan_ns = 1; /* it has not checked since */
    w.fab[0]->hello_away_ns = 1;
    nic_peer_connect_again(w.fab[0]);
    CU_ASSERT_TRUE(emu_listed(&peer->connect) && !peer->unanswered);
    peer->hello_began_ns = 1; /* it has checked again and again */
    w.fab[0]->hello_scan_ns = emu_now_ns();
    nic_peer_connect_again(w.fab[0]);
    CU_ASSERT_TRUE(!emu_listed(&peer->connect) && peer->unanswered);
    peers_close(&w);
}

#define SECOND_NS UINT64_C(1000000000)

/* Time without a core, as the fabric counts it, is not silence; other time is. */
static void hello__without_a_core_does_not_count_as_silence(void)
{
    struct emu_hostif_shared *shared;
    uint64_t now_ns, limit_ns;
    struct peers w;
    struct nic_peer *peer = hello_begin(&w);
    char why[128];

    shared = w.fab[0]->hostif.shared;
    limit_ns = w.fab[0]->hello_limit_ns;
    now_ns = emu_now_ns();
    peer->hello_began_ns = now_ns - 3 * limit_ns / 2; /* beyond the limit, */
    w.fab[0]->hello_scan_ns = now_ns;
    w.fab[0]->hello_away_ns = peer->hello_began_ns;
    atomic_store(&shared->starved_ns, limit_ns); /* but part of that time does not count */
    nic_peer_connect_again(w.fab[0]);
    CU_ASSERT_TRUE(emu_listed(&peer->connect) && !peer->unanswered);
    peer->hello_began_ns = emu_now_ns() - limit_ns;
    w.fab[0]->hello_scan_ns = emu_now_ns();
    nic_peer_connect_again(w.fab[0]);
    CU_ASSERT_TRUE(!emu_listed(&peer->connect) && peer->unanswered);
    nic_peer_why(w.fab[0], 1, why, sizeof why);
    CU_ASSERT_PTR_NOT_NULL(strstr(why, " without a core"));
    peers_close(&w);
}

/*
 * The fabric's manager has not counted for a long time, so it had no core itself: that time does
 * not count.
 */
static void hello__without_a_running_manager_does_not_count_as_silence(void)
{
    struct peers w;
    struct nic_peer *peer = hello_begin(&w);

    peer->hello_began_ns = emu_now_ns() - w.fab[0]->hello_limit_ns;
    w.fab[0]->hello_scan_ns = emu_now_ns();
    w.fab[0]->hello_away_ns = peer->hello_began_ns;
    atomic_store(&w.fab[0]->hostif.shared->counted_ns, peer->hello_began_ns - SECOND_NS * 4);
    nic_peer_connect_again(w.fab[0]);
    CU_ASSERT_TRUE(emu_listed(&peer->connect) && !peer->unanswered);
    peers_close(&w);
}

/* A message in flight from node 0 to node 1 is dropped. */
static void give_up_one(struct peers *w)
{
    uint32_t v = 3;

    fake_cut(w->fake, 0, 1, true);
    peers_inject(w, 0, 1, 1, &v, 4);
    fake_step(w->fake);
    fake_cut(w->fake, 0, 1, false);
    fake_quiet(w->fake);
}

/* Both sides count a drop and report its cause; no other node does. */
static void dropped__is_counted_and_explained(void)
{
    static const char *const whys[] = {"the network dropped a segment to node 1 for good",
                                       "the network dropped a segment from node 0 for good"};
    struct peers w;
    struct fabemu_req req[2];
    char why[96];
    uint32_t v;

    peers_open_on(&w, 3, false, true);
    connect_peers(&w, 0, 1);
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(fabemu_breaks(w.fab[i], FABEMU_ANY_NODE), 0);
        peers_recv(&w, i, !i, 7, 0, &v, 4, &req[i]);
    }
    give_up_one(&w);
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(req[i].status, -EHOSTUNREACH);
        fabemu_req_why(w.fab[i], &req[i], why, sizeof why);
        CU_ASSERT_STRING_EQUAL(why, whys[i]);
        CU_ASSERT(fabemu_breaks(w.fab[i], !i) > 0);
        CU_ASSERT_EQUAL(fabemu_breaks(w.fab[i], !i), fabemu_breaks(w.fab[i], FABEMU_ANY_NODE));
        CU_ASSERT_EQUAL(fabemu_breaks(w.fab[i], 2), 0);
    }
    CU_ASSERT_EQUAL(fabemu_breaks(w.fab[2], FABEMU_ANY_NODE), 0);
    CU_ASSERT_FALSE(fabemu_node_why(w.fab[0], 1, why, sizeof why));
    peers_close(&w);
}

/* --- reports of the fabric ------------------------------------------------------------ */

#define LOST "switch 0:2 -> switch 2:0 lost a segment of node 0's to node 1 (overrun)"

/*
 * Report to node @at that a segment of node 0 to node 1, between these processes, was lost before
 * @at_ns.
 */
static void report_lost_of(struct peers *w, uint32_t at, uint64_t from_incarnation,
                           uint64_t to_incarnation, uint64_t at_ns)
{
    struct fabemu *fab = w->fab[at];

    nic_lock(fab);
    nic_peer_dropped(fab, &(struct nic_drop){.from = nic_peer(fab, 0),
                                             .to = nic_peer(fab, 1),
                                             .from_incarnation = from_incarnation,
                                             .to_incarnation = to_incarnation,
                                             .at_ns = at_ns,
                                             .why = LOST});
    nic_unlock(fab);
}

/* The same for unknown processes. */
static void report_lost(struct peers *w, uint32_t at, uint64_t at_ns)
{
    report_lost_of(w, at, 0, 0, at_ns);
}

static void lost_in_order(uint32_t first, bool hello_between)
{
    struct peers w;
    struct fabemu_req req[2];
    uint64_t at_ns;
    char why[96];
    uint32_t v;

    peers_open_on(&w, 3, false, false);
    connect_peers(&w, 0, 1);
    connect_peers(&w, 0, 2);
    for (uint32_t i = 0; i < 2; i++)
        peers_recv(&w, i, !i, 7, 0, &v, 4, &req[i]);
    at_ns = emu_now_ns();
    report_lost(&w, first, at_ns);
    CU_ASSERT_EQUAL(req[first].status, -EHOSTUNREACH);
    for (uint32_t i = 0; hello_between && i < 100; i++)
        fake_pump(w.fake);
    report_lost(&w, !first, at_ns);
    report_lost(&w, 2, at_ns);
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(req[i].status, -EHOSTUNREACH);
        fabemu_req_why(w.fab[i], &req[i], why, sizeof why);
        CU_ASSERT_STRING_EQUAL(why, LOST);
    }
    fake_quiet(w.fake);
    /* a late report: the operations in progress belong to the next epoch */
    report_lost(&w, first, at_ns);
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(fabemu_breaks(w.fab[i], FABEMU_ANY_NODE) > 0, i < 2);
        CU_ASSERT(fabemu_drops(w.fab[i], 0) > 0 && fabemu_drops(w.fab[i], 1) > 0);
        CU_ASSERT_EQUAL(fabemu_drops(w.fab[i], 2), 0);
        CU_ASSERT_TRUE(fabemu_drop_why(w.fab[i], 1, why, sizeof why));
        CU_ASSERT_FALSE(fabemu_drop_why(w.fab[i], 2, why, sizeof why));
    }
    exchange(&w, 0, 1);
    exchange(&w, 0, 2);
    CU_ASSERT_EQUAL(w.fab[0]->peers[1].epoch, 1);
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].epoch, 1);
    peers_close(&w);
}

/*
 * In any order of the reports to the two sides and the peer's hello, the pair breaks once and the
 * cause is reported.
 */
static void lost__breaks_a_pair_once_and_reports_where(void)
{
    for (uint32_t i = 0; i < 4; i++)
        lost_in_order(i % 2, i / 2);
}

/* One side gets no report at all: the peer's hello contains it, a little later. */
static void lost__is_reported_by_hello_too(void)
{
    struct peers w;
    struct fabemu_req req;
    uint32_t v;

    peers_open_on(&w, 2, false, false);
    connect_peers(&w, 0, 1);
    peers_recv(&w, 1, 0, 7, 0, &v, 4, &req);
    report_lost(&w, 0, emu_now_ns());
    while (fabemu_req_status(&req) == FABEMU_PENDING)
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(req.status, -EHOSTUNREACH);
    exchange(&w, 0, 1);
    peers_close(&w);
}

/* Before the two have connected nothing breaks: a lost hello is repeated. */
static void lost__before_connecting_has_no_effect(void)
{
    struct peers w;

    peers_open_on(&w, 2, false, false);
    for (uint32_t i = 0; i < 2; i++)
        report_lost(&w, i, emu_now_ns());
    CU_ASSERT_EQUAL(fabemu_breaks(w.fab[0], FABEMU_ANY_NODE), 0);
    exchange(&w, 0, 1);
    peers_close(&w);
}

/*
 * A loss of a process that has a successor does not break the successor's pairs, and is not
 * reported by it.
 */
static void lost__does_not_affect_a_successor(void)
{
    struct peers w;
    uint64_t was, is, incarnation;
    char why[96];

    peers_open_on(&w, 3, false, false);
    connect_peers(&w, 0, 1);
    connect_peers(&w, 0, 2);
    was = w.fab[0]->incarnation;
    incarnation = w.fab[1]->incarnation;
    report_lost_of(&w, 2, was, incarnation, emu_now_ns());
    CU_ASSERT_EQUAL(fabemu_drops(w.fab[2], 0), 1);
    CU_ASSERT_TRUE(fabemu_drop_why(w.fab[2], 0, why, sizeof why));
    fake_detach(w.fake, 0);
    CU_ASSERT_TRUE(fabemu_drop_why(w.fab[2], 0, why, sizeof why)); /* no process is there yet */
    for (uint32_t i = 1; i < 3; i++) {                             /* as the fabric reports */
        nic_lock(w.fab[i]);
        nic_peer_check_all(w.fab[i]);
        nic_unlock(w.fab[i]);
    }
    w.fab[0] = fake_attach(w.fake, 0);
    fabemu_queue_open(w.fab[0], 1, &w.queue[0]);
    is = w.fab[0]->incarnation;
    CU_ASSERT_NOT_EQUAL(is, was);
    CU_ASSERT_FALSE(fabemu_drop_why(w.fab[2], 0, why, sizeof why));
    CU_ASSERT_TRUE(fabemu_drop_why(w.fab[2], 1, why, sizeof why));
    exchange(&w, 0, 1);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t breaks = fabemu_breaks(w.fab[i], FABEMU_ANY_NODE);
        uint64_t drops = fabemu_drops(w.fab[i], FABEMU_ANY_NODE);

        /* it was in flight for a long time */
        report_lost_of(&w, i, was, incarnation, emu_now_ns());
        CU_ASSERT_EQUAL(fabemu_breaks(w.fab[i], FABEMU_ANY_NODE), breaks);
        CU_ASSERT_EQUAL(fabemu_drops(w.fab[i], FABEMU_ANY_NODE), drops);
        CU_ASSERT_FALSE(fabemu_drop_why(w.fab[i], 0, why, sizeof why));
        report_lost_of(&w, i, is, incarnation, emu_now_ns());
        CU_ASSERT_EQUAL(fabemu_breaks(w.fab[i], FABEMU_ANY_NODE), breaks + (i < 2));
        CU_ASSERT_TRUE(fabemu_drop_why(w.fab[i], 0, why, sizeof why));
    }
    exchange(&w, 0, 1);
    peers_close(&w);
}

/* --- probing -------------------------------------------------------------------------- */

/* No operation is in progress with the node, so only a query can detect that it is unreachable. */
static void ping__detects_a_node_that_is_cut_off(void)
{
    struct peers w;

    peers_open_on(&w, 2, false, true);
    connect_peers(&w, 0, 1);
    fabemu_ping(w.fab[0], 1);
    fabemu_ping(w.fab[0], 0); /* the node itself */
    fabemu_ping(w.fab[0], 77);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(fabemu_breaks(w.fab[0], FABEMU_ANY_NODE), 0);
    fake_cut(w.fake, 0, 1, true);
    fabemu_ping(w.fab[0], 1);
    fake_step(w.fake);
    fake_cut(w.fake, 0, 1, false);
    fake_quiet(w.fake);
    CU_ASSERT(fabemu_breaks(w.fab[0], 1) > 0);
    peers_close(&w);
}

/* A message that arrived before a break and is received after it counts for its own epoch. */
static void message__of_an_earlier_epoch_is_not_charged(void)
{
    static uint8_t out[8000], in[8000];
    struct peers w;
    struct fabemu_req req[40], recv;

    peers_open_on(&w, 2, false, true);
    connect_peers(&w, 0, 1);
    for (uint32_t i = 0; i < 30; i++)
        peers_send(&w, 0, 1, 1, out, sizeof out, &req[i]);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 30));
    fake_quiet(w.fake);
    give_up_one(&w);
    exchange(&w, 0, 1);
    for (uint32_t i = 0; i < 30; i++) {
        peers_recv(&w, 1, 0, 1, 0, in, sizeof in, &recv);
        CU_ASSERT_TRUE(recv.status == 0 && recv.bytes == sizeof out);
    }
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].rx_consumed, 0);
    for (uint32_t i = 0; i < 40; i++) {
        peers_send(&w, 0, 1, 1, out, sizeof out, &req[i]);
        peers_recv(&w, 1, 0, 1, 0, in, sizeof in, &recv);
        CU_ASSERT_TRUE(fake_finish(w.fake, &recv, 1) && recv.status == 0);
    }
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].rx_consumed, 40 * sizeof out);
    CU_ASSERT_TRUE(w.fab[0]->peers[1].tx_eager - w.fab[0]->peers[1].tx_consumed < NIC_EAGER_WINDOW);
    peers_close(&w);
}

/* Hellos of old epochs, repeated and reordered, have no effect. */
static void hello__of_an_earlier_epoch_has_no_effect(void)
{
    struct peers w;
    struct nic_wire_hello hello;
    struct emu_seg seg = {.hdr = {.src = 1, .len = sizeof hello}};
    struct fabemu_req recv;
    uint32_t v = 3;

    peers_open_on(&w, 2, false, true);
    connect_peers(&w, 0, 1);
    for (uint32_t round = 0; round < 3; round++) {
        give_up_one(&w);
        exchange(&w, 0, 1);
    }
    CU_ASSERT_EQUAL(w.fab[0]->peers[1].epoch, 3);
    peers_recv(&w, 0, 1, 1, 0, &v, 4, &recv);
    for (uint32_t epoch = 0; epoch < 4; epoch++) {
        hello = (struct nic_wire_hello){.what = NIC_HELLO,
                                        .want = epoch % 2,
                                        .epoch = epoch,
                                        .incarnation = w.fab[1]->incarnation,
                                        .known = w.fab[0]->incarnation};
        memcpy(seg.payload, &hello, sizeof hello);
        CU_ASSERT_TRUE(fake_inject(w.fake, 0, &seg));
        fake_quiet(w.fake);
        CU_ASSERT_EQUAL(w.fab[0]->peers[1].epoch, 3);
        CU_ASSERT_TRUE(w.fab[0]->peers[1].open && w.fab[1]->peers[0].open);
    }
    CU_ASSERT_EQUAL(recv.status, FABEMU_PENDING);
    CU_ASSERT_EQUAL(exchange(&w, 0, 1), 0);
    fabemu_cancel(w.queue[0], &recv);
    peers_close(&w);
}

/* Wait until @send to @node ends: the receive that it waits for may have failed. */
static void receive_until_sent(struct peers *w, uint32_t node, struct fabemu_req *send)
{
    static uint8_t memory[40000];
    struct fabemu_req more;

    fake_quiet(w->fake);
    peers_recv(w, node, FABEMU_ANY_NODE, 5, 0, memory, sizeof memory, &more);
    while (fabemu_req_status(send) == FABEMU_PENDING) {
        fake_pump(w->fake);
        if (fabemu_req_status(&more) != FABEMU_PENDING)
            peers_recv(w, node, FABEMU_ANY_NODE, 5, 0, memory, sizeof memory, &more);
    }
    fabemu_abort(w->fab[node], &more);
}

/*
 * Routes are cut and restored at random under all kinds of traffic: all operations end, and
 * messages that arrive are right and in order.
 */
static void dropped__at_random_never_hangs(void)
{
    enum { MANY = 400 };
    static const size_t sizes[] = {4, 300, 9000, 40000};
    struct peers w;
    struct fabemu_req *send = calloc(MANY, sizeof *send), *recv = calloc(MANY, sizeof *recv);
    uint8_t *out = malloc(40000 * MANY), *in = malloc(40000 * MANY);
    uint32_t last[3] = {0}, lost = 0;

    hasty_open(&w, 3, true);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t from = i % 3, node = (from + 1) % 3;
        size_t bytes = sizes[test_random(&w.random) % 4];

        bytes_fill(out + 40000 * i, bytes, i);
        memcpy(out + 40000 * i, &i, 4);
        peers_recv(&w, node, from, 5, 0, in + 40000 * i, 40000, &recv[i]);
        peers_send(&w, from, node, 5, out + 40000 * i, bytes, &send[i]);
        if (test_random(&w.random) % 20 == 0)
            fake_cut(w.fake, from, node, true);
        if (test_random(&w.random) % 5 == 0)
            fake_cut(w.fake, from, node, false);
        for (uint32_t n = (uint32_t)(test_random(&w.random) % 20); n; n--)
            fake_pump(w.fake);
    }
    for (uint32_t a = 0; a < 3; a++)
        cut(&w, a, (a + 1) % 3, false, false);
    for (uint32_t i = 0; i < MANY; i++)
        receive_until_sent(&w, (i % 3 + 1) % 3, &send[i]);
    for (uint32_t i = 0; i < MANY; i++) { /* and in the other direction */
        uint32_t number;

        fabemu_cancel(w.queue[(i % 3 + 1) % 3], &recv[i]);
        lost += send[i].status != 0;
        if (recv[i].status)
            continue;
        memcpy(&number, in + 40000 * i, 4);
        CU_ASSERT_TRUE_FATAL(number < MANY && number % 3 == i % 3);
        CU_ASSERT_TRUE(number >= last[i % 3]);
        last[i % 3] = number + 1;
        CU_ASSERT_EQUAL(memcmp(in + 40000 * i, out + 40000 * number, recv[i].bytes), 0);
    }
    CU_ASSERT_TRUE(lost > 0);
    for (uint32_t a = 0; a < 3; a++) {
        CU_ASSERT_EQUAL(w.fab[a]->counts.malformed, 0);
        CU_ASSERT_EQUAL(w.fab[a]->served, 0);
        exchange(&w, a, (a + 1) % 3);
    }
    peers_close(&w);
    free(send);
    free(recv);
    free(out);
    free(in);
}

/* --- groups ------------------------------------------------------------------------- */

static void group__dropped_segment_breaks_it_for_all(void)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        struct team t;
        struct fabemu_req req[3] = {{0}}, later[3] = {{0}};
        uint64_t v[3] = {1, 2, 3};

        team_open(&t, 3, true);
        cut(&t.w, 1, 2, true, true);
        for (uint32_t i = 0; i < 3; i++) {
            if (kind == 0)
                fabemu_barrier(t.group[i], &req[i]);
            else if (kind == 1)
                fabemu_broadcast(t.group[i], &v[i], 8, 1, &req[i]);
            else if (kind == 2)
                fabemu_reduce(t.group[i], &v[i], &v[i], 1, FABEMU_SUM, FABEMU_U64, 2, &req[i]);
            else
                fabemu_allreduce(t.group[i], &v[i], &v[i], 1, FABEMU_SUM, FABEMU_U64, &req[i]);
            fabemu_barrier(t.group[i], &later[i]);
        }
        for (int i = 0; i < 100; i++)
            fake_pump(t.w.fake);
        CU_ASSERT_EQUAL(later[1].status, -EPIPE);
        CU_ASSERT_EQUAL(later[0].status, -EPIPE); /* reported by the others */
        cut(&t.w, 1, 2, false, false);
        for (uint32_t i = 0; i < 3; i++) { /* members that could not be notified detect it now */
            t.w.fab[i]->watch_ns = 0;
            t.w.fab[i]->watch_gap_ns = 1000000;
        }
        CU_ASSERT_TRUE(fake_finish(t.w.fake, later, 3));
        for (uint32_t i = 0; i < 3; i++) {
            CU_ASSERT_EQUAL(later[i].status, -EPIPE);
            fabemu_barrier(t.group[i], &req[i]);
            CU_ASSERT_EQUAL(req[i].status, -EPIPE);
            while (t.group[i]->alarm != NIC_ALARM_NONE)
                fake_pump(t.w.fake);
        }
        team_close(&t);
    }
}

/*
 * Members that only wait send no segment that could be dropped. They detect the cut by a probe,
 * which one of them sends for all.
 */
static void group__waiting_member_detects_a_cut(void)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        struct team t;
        struct fabemu_req req[4] = {{0}};
        uint64_t v = 0;

        team_open(&t, 4, false);
        for (uint32_t i = 0; i < 4; i++) {
            t.w.fab[i]->watch_gap_ns = 2000000;
            t.w.fab[i]->watch_ns = 0;
        }
        for (uint32_t i = 1; i < 4; i++) { /* member 0 does not join in */
            if (kind == 0)
                fabemu_broadcast(t.group[i], &v, 8, 0, &req[i]);
            else if (kind == 1)
                fabemu_barrier(t.group[i], &req[i]);
            else
                fabemu_group_test(t.group[i], 0, 1, FABEMU_TEST_EQUAL | FABEMU_TEST_UNTIL, &req[i]);
        }
        for (uint64_t end = emu_now_ns() + 10000000; emu_now_ns() < end;)
            fake_pump(t.w.fake);
        for (uint32_t i = 1; i < 4; i++)
            CU_ASSERT_EQUAL(req[i].status, FABEMU_PENDING);
        for (uint32_t i = 0; i < 4; i++) {
            cut(&t.w, i, 2, true, true);
            t.w.fab[i]->watch_ns = 0;
        }
        pump_until_over(&t.w, req + 1, 3);
        for (uint32_t i = 1; i < 4; i++)
            CU_ASSERT_EQUAL(req[i].status, -EPIPE);
        for (uint32_t i = 0; i < 4; i++)
            CU_ASSERT_EQUAL(t.w.fab[i]->counts.malformed, 0);
        team_close(&t);
    }
}

/* Each waiting member would probe, but one that received a probe pauses for a while. */
static void group__is_probed_by_one_for_all(void)
{
    struct team t;
    struct fabemu_req req[3] = {{0}};

    team_open(&t, 3, false);
    for (uint32_t i = 1; i < 3; i++)
        fabemu_barrier(t.group[i], &req[i]);
    for (uint32_t i = 0; i < 3; i++) {
        nic_lock(t.w.fab[i]);
        nic_group_watch(t.w.fab[i]);
        /* 0 does not wait, 2 has received the probe */
        CU_ASSERT_EQUAL(t.group[i]->probing, i == 1);
        nic_unlock(t.w.fab[i]);
        fake_quiet(t.w.fake);
        CU_ASSERT_FALSE(t.group[i]->probing);
    }
    t.group[2]->probe_ns = 0;
    nic_lock(t.w.fab[2]);
    nic_group_watch(t.w.fab[2]);
    CU_ASSERT_TRUE(t.group[2]->probing);
    nic_group_watch(t.w.fab[2]); /* one at a time */
    nic_unlock(t.w.fab[2]);
    fabemu_barrier(t.group[0], &req[0]);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, req, 3));
    fake_quiet(t.w.fake);
    CU_ASSERT_TRUE(team_clean(&t));
    team_close(&t);
}

/*
 * Notices of half windows that are complete everywhere, of removed groups, and of others' groups
 * break nothing.
 */
static void group__old_notices_do_not_break_it(void)
{
    enum { MANY = 600 };
    struct team t;
    struct fabemu_req *req = calloc(2 * MANY, sizeof *req), last[2] = {{0}};
    struct emu_seg seg = {.hdr = {.dst = 77, .kind = EMU_BARRIER | EMU_FAILED}};

    team_open(&t, 2, true);
    for (uint32_t i = 0; i < 2 * MANY; i++)
        fabemu_barrier(t.group[i % 2], &req[i]);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, req, 2 * MANY));
    for (uint32_t seq = 0; seq < 2 * (EMU_WINDOW / 2); seq++) {
        seg.hdr.seq = seq;
        CU_ASSERT_TRUE(fake_inject(t.w.fake, 0, &seg));
        fabemu_progress(t.w.fab[0]);
    }
    seg.hdr.dst = 78; /* not ours */
    fake_inject(t.w.fake, 0, &seg);
    seg.hdr = (struct emu_hdr){.dst = 77, .seq = 12345, .kind = EMU_TEST | EMU_FAILED};
    fake_inject(t.w.fake, 0, &seg);
    seg.hdr = (struct emu_hdr){.dst = 77,
                               .seq = 1,
                               .kind = EMU_MULTICAST | EMU_NOTIFY | EMU_FAILED,
                               .op = NIC_MULTICAST_LAST};
    fake_inject(t.w.fake, 0, &seg);
    seg.hdr = (struct emu_hdr){.dst = 77,
                               .kind = EMU_MULTICAST | EMU_NOTIFY | EMU_FAILED,
                               .op = NIC_MULTICAST_BROKEN};
    fake_inject(t.w.fake, 0, &seg);
    seg.hdr = (struct emu_hdr){.dst = 77,
                               .src = 1,
                               .kind = EMU_BARRIER | EMU_FAILED,
                               .seq = 5 * (EMU_WINDOW / 2)};
    fake_inject(t.w.fake, 0, &seg);
    fake_quiet(t.w.fake);
    for (uint32_t i = 0; i < 2; i++)
        fabemu_barrier(t.group[i], &last[i]);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, last, 2));
    CU_ASSERT_TRUE(last[0].status == 0 && last[1].status == 0);
    CU_ASSERT_EQUAL(t.w.fab[0]->counts.late, 1);
    CU_ASSERT_EQUAL(t.w.fab[0]->counts.stale, 2);
    CU_ASSERT_EQUAL(t.w.fab[0]->counts.malformed, 1);
    team_close(&t);
    free(req);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(dropped__ends_all_operations_on_both_sides),
        CASE(dropped__one_segment_breaks_the_pair),
        CASE(dropped__is_reported_by_the_next_operation),
        CASE(dropped__is_reported_to_the_queue),
        CASE(dropped__on_both_sides_ends_in_one_epoch),
        CASE(connect__dropped_is_unreachable_at_once),
        CASE(connect__is_left_to_the_network),
        CASE(dropped__and_then_a_successor),
        CASE(receive__rejects_impossible_notices),
        CASE(dropped__is_reported_when_the_route_is_restored),
        CASE(peer__silent_reconnects),
        CASE(peer__sending_data_is_not_silent),
        CASE(hello__queued_does_not_count_as_silence),
        CASE(hello__of_a_stopped_process_does_not_count_as_silence),
        CASE(hello__without_a_core_does_not_count_as_silence),
        CASE(hello__without_a_running_manager_does_not_count_as_silence),
        CASE(dropped__is_counted_and_explained),
        CASE(lost__breaks_a_pair_once_and_reports_where),
        CASE(lost__is_reported_by_hello_too),
        CASE(lost__before_connecting_has_no_effect),
        CASE(lost__does_not_affect_a_successor),
        CASE(ping__detects_a_node_that_is_cut_off),
        CASE(message__of_an_earlier_epoch_is_not_charged),
        CASE(hello__of_an_earlier_epoch_has_no_effect),
        CASE(dropped__at_random_never_hangs),
        CASE(group__dropped_segment_breaks_it_for_all),
        CASE(group__waiting_member_detects_a_cut),
        CASE(group__is_probed_by_one_for_all),
        CASE(group__old_notices_do_not_break_it),
        {0},
    };

    return test_run("nic_lost", cases);
}
