/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_test.c - messages: matching, order, sizes.
 *
 * One thread steps the adapters and a fake fabric alternately.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "tests/test.h"
#include "tests/fixtures/host/peers.h"

#define BIG (1u << 20)

/* --- matching ----------------------------------------------------------------------- */

static void inject__delivers_tag_data_and_source(void)
{
    struct peers w;
    struct fabemu_req req;
    char buf[16] = {0};

    peers_open(&w, 3, false);
    peers_recv(&w, 1, FABEMU_ANY_NODE, 7, 0, buf, sizeof buf, &req);
    peers_inject(&w, 2, 1, 7, "hello", 6);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    CU_ASSERT_EQUAL(req.status, 0);
    CU_ASSERT_EQUAL(req.src_node, 2);
    CU_ASSERT_EQUAL(req.src_queue, 1);
    CU_ASSERT_EQUAL(req.tag, 7);
    CU_ASSERT_EQUAL(req.data, ~UINT64_C(7));
    CU_ASSERT_EQUAL(req.bytes, 6);
    CU_ASSERT_STRING_EQUAL(buf, "hello");
    CU_ASSERT_TRUE(peers_clean(w.fab[1]));
    peers_close(&w);
}

static void recv__matches_node_tag_and_ignore_bits(void)
{
    struct peers w;
    struct fabemu_req req[4];
    uint32_t got[4] = {0};

    peers_open(&w, 3, false);
    peers_recv(&w, 0, 2, 0x10, 0, &got[0], 4, &req[0]);
    peers_recv(&w, 0, FABEMU_ANY_NODE, 0x20, 0xf, &got[1], 4, &req[1]);
    peers_recv(&w, 0, 1, 0, ~UINT64_C(0), &got[2], 4, &req[2]);
    peers_recv(&w, 0, FABEMU_ANY_NODE, 0, ~UINT64_C(0), &got[3], 4, &req[3]);
    /* 0x10 of node 1: only the third receive matches, then the fourth */
    for (uint32_t v = 1; v <= 2; v++)
        peers_inject(&w, 1, 0, 0x10, &v, 4);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(req[0].status, FABEMU_PENDING);
    CU_ASSERT_EQUAL(req[1].status, FABEMU_PENDING);
    CU_ASSERT_EQUAL(got[2], 1);
    CU_ASSERT_EQUAL(got[3], 2);
    peers_inject(&w, 2, 0, 0x2a, &(uint32_t){3}, 4);
    peers_inject(&w, 2, 0, 0x10, &(uint32_t){4}, 4);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 4));
    CU_ASSERT_EQUAL(got[1], 3);
    CU_ASSERT_EQUAL(req[1].tag, 0x2a);
    CU_ASSERT_EQUAL(got[0], 4);
    peers_close(&w);
}

/*
 * Where requested, queues of a node are distinguished as sources, whether the message or the
 * receive came first.
 */
static void recv_from__matches_the_senders_queue(void)
{
    struct fabemu_source of_2 = {.node = 0, .queue = 2};
    struct fabemu_message *claim = NULL;
    struct fabemu_dest dest = peers_to(1, 0, 0);
    struct fabemu_queue *other;
    struct fabemu_req req[2];
    struct peers w;
    uint32_t got[2];

    peers_open(&w, 2, false);
    CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(w.fab[0], 2, &other), 0);
    for (unsigned late = 0; late < 2; late++) {
        uint32_t bytes = late ? 9000 : 4; /* the second time it announces itself first */
        uint8_t *buf = calloc(2, bytes);
        struct fabemu_iov iov[2] = {{buf, bytes}, {buf + bytes, bytes}};
        struct fabemu_req send[2] = {0};

        memset(req, 0, sizeof req);
        buf[bytes] = 1;
        CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &iov[0], 1, &send[0]), 0);
        if (late)
            fake_quiet(w.fake);
        struct fabemu_iov in[2] = {{&got[0], 4}, {&got[1], 4}};

        CU_ASSERT_EQUAL(fabemu_recv_from(w.queue[1], of_2, 0, 0, &in[1], 1, &req[1]), 0);
        CU_ASSERT_EQUAL(fabemu_probe_from(w.queue[1], of_2, 0, 0, &claim, &req[0]), -ENOMSG);
        fake_quiet(w.fake);
        CU_ASSERT_EQUAL(req[1].status, FABEMU_PENDING);
        CU_ASSERT_EQUAL(fabemu_send(other, &dest, &iov[1], 1, &send[1]), 0);
        CU_ASSERT_TRUE(fake_finish(w.fake, &req[1], 1));
        CU_ASSERT_EQUAL(got[1], 1);
        CU_ASSERT_EQUAL(req[1].src_queue, 2);
        CU_ASSERT_EQUAL(fabemu_recv(w.queue[1], 0, 0, 0, &in[0], 1, &req[0]), 0);
        CU_ASSERT_TRUE(fake_finish(w.fake, req, 1) && fake_finish(w.fake, send, 2));
        CU_ASSERT_EQUAL(got[0], 0);
        CU_ASSERT_EQUAL(req[0].src_queue, 1);
        free(buf);
    }
    peers_close(&w);
}

/* A NULL buffer with bytes is refused by every call, and nothing is posted. */
static void calls__refuse_buffers_at_address_0(void)
{
    struct fabemu_iov iov[2] = {{"", 1}, {NULL, 8}}, empty = {NULL, 0};
    struct fabemu_dest dest = peers_to(1, 0, 0);
    struct fabemu_group *group;
    struct fabemu_req req = {0};
    struct peers w;
    uint64_t key;

    peers_open_on(&w, 2, false, true);
    fake_group(w.fake, 5, (const uint32_t[]){0, 1}, 2);
    CU_ASSERT_EQUAL_FATAL(fabemu_group_join(w.fab[0], 5, 2, &group), 0);
    CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, iov, 2, &req), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_inject(w.queue[0], &dest, NULL, 1), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_recv(w.queue[0], 1, 0, 0, iov, 2, &req), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_put(w.fab[0], 1, 0, 0, NULL, 1, &req), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_get(w.fab[0], 1, 0, 0, NULL, 1u << 20, &req), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_putv(w.fab[0], 1, 0, 0, iov, 2, &req), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_register(w.fab[0], NULL, 1, FABEMU_REMOTE_READ, &key), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_register_symmetric(group, NULL, 1, FABEMU_REMOTE_READ, &key, &req),
                    -EFAULT);
    CU_ASSERT_EQUAL(fabemu_broadcast_put(group, 0, 0, NULL, 1, &req), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_broadcast(group, NULL, 1, 0, &req), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_reduce(group, NULL, &key, 1, FABEMU_SUM, FABEMU_U64, 0, &req), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_reduce(group, &key, NULL, 1, FABEMU_SUM, FABEMU_U64, 0, &req), -EFAULT);
    CU_ASSERT_EQUAL(fabemu_allreduce(group, &key, NULL, 1, FABEMU_SUM, FABEMU_U64, &req), -EFAULT);
    CU_ASSERT_EQUAL(req.status, 0);
    /* an empty buffer may be NULL */
    CU_ASSERT_EQUAL(fabemu_recv(w.queue[1], 0, 0, 0, &empty, 1, &req), 0);
    /* they are not connected yet */
    CU_ASSERT_EQUAL(fabemu_inject(w.queue[0], &dest, NULL, 0), -EAGAIN);
    peers_inject(&w, 0, 1, 0, NULL, 0);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    fabemu_group_leave(group);
    peers_close(&w);
}

/* Every length around the capacity of a segment, with completion data of up to 32 bits and more. */
static void send__of_every_length_delivers_its_data(void)
{
    static const uint64_t data[] = {0, 1, UINT32_MAX, UINT64_C(1) << 32, UINT64_MAX};
    uint8_t out[260], in[260];
    struct peers w;

    peers_open(&w, 2, false);
    for (unsigned i = 0; i < 250 * 5; i++) {
        size_t bytes = i / 5;
        struct fabemu_dest dest = peers_to(1, i, data[i % 5]);
        struct fabemu_iov iov = {out, bytes};
        struct fabemu_req send = {0}, recv;
        bool unexpected = i % 3 == 0;

        bytes_fill(out, bytes, i);
        memset(in, 0xa5, sizeof in);
        dest.delivered = i % 7 == 0;
        if (!unexpected)
            peers_recv(&w, 1, 0, i, 0, in, bytes, &recv);
        CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &iov, 1, &send), 0);
        fake_quiet(w.fake);
        if (unexpected)
            peers_recv(&w, 1, 0, i, 0, in, bytes, &recv);
        CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &recv, 1) && fake_finish(w.fake, &send, 1));
        CU_ASSERT_EQUAL(recv.status, 0);
        CU_ASSERT_EQUAL(recv.bytes, bytes);
        CU_ASSERT_EQUAL(recv.data, data[i % 5]);
        CU_ASSERT_TRUE(bytes_filled(in, bytes, i) && in[bytes] == 0xa5);
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/* Lengths below the header or above the maximum are counted and dropped. */
static void receive__of_short_messages_checks_their_length(void)
{
    static const uint8_t lengths[] = {16, 31, 32, 224, 225, 240};
    struct fabemu_req recv;
    struct peers w;
    uint8_t in[240];

    peers_open(&w, 2, false);
    peers_inject(&w, 1, 0, 99, "x", 1); /* they are connected */
    fake_quiet(w.fake);
    peers_recv(&w, 0, 1, 7, 0, in, sizeof in, &recv);
    for (uint32_t i = 0; i < sizeof lengths; i++) {
        bool right = lengths[i] >= 32 && lengths[i] <= 224;
        uint64_t malformed = w.fab[0]->counts.malformed;
        struct nic_wire_short wire = {.head = {.what = NIC_SHORT,
                                               .queue = 1,
                                               .check = w.fab[0]->peers[1].rx_check},
                                      .src_queue = 1,
                                      .tag = 7};
        struct emu_seg seg = {
            .hdr = {.src = 1, .seq = w.fab[0]->peers[1].rx_next, .len = lengths[i]}};

        memcpy(seg.payload, &wire, sizeof wire);
        CU_ASSERT_TRUE(fake_inject(w.fake, 0, &seg));
        fabemu_progress(w.fab[0]);
        CU_ASSERT_EQUAL(w.fab[0]->counts.malformed - malformed, !right);
        CU_ASSERT_EQUAL(fabemu_req_status(&recv) != FABEMU_PENDING, right);
        if (right) {
            CU_ASSERT_EQUAL(recv.bytes, lengths[i] - 32u);
            peers_recv(&w, 0, 1, 7, 0, in, sizeof in, &recv);
        }
    }
    peers_close(&w);
}

/* With the flag "delivered", a send completes when the message is in the receiver's memory. */
static void send__delivered_completes_after_delivery(void)
{
    static const size_t sizes[] = {0, 1, 192, 193, 5000, 8192};
    static uint8_t out[8192], in[8192];
    struct peers w;

    peers_open(&w, 2, true);
    for (unsigned i = 0; i < 60; i++) {
        size_t bytes = sizes[i % 6];
        struct fabemu_iov iov = {out, bytes};
        struct fabemu_dest dest = {.node = 1, .queue = 1, .delivered = true, .tag = i};
        struct fabemu_req req = {0}, recv;

        bytes_fill(out, bytes, i);
        if (i % 4 == 0)
            peers_recv(&w, 1, 0, i, 0, in, sizeof in, &recv);
        CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &iov, 1, &req), 0);
        CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &req, 1));
        CU_ASSERT_EQUAL(req.status, 0);
        if (i % 4)
            peers_recv(&w, 1, 0, i, 0, in, sizeof in, &recv);
        CU_ASSERT_EQUAL(recv.status, 0); /* without a step in between */
        CU_ASSERT_EQUAL(recv.bytes, bytes);
        CU_ASSERT_TRUE(bytes_filled(in, bytes, i));
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/*
 * Short, eager, rendezvous and unexpected messages in any mixture match in the order in which they
 * were sent.
 */
static void send__keeps_order_however_segments_travel(void)
{
    enum { COUNT = 600 };
    static const size_t sizes[] = {8, 192, 193, 1000, 8192, 8193, 20000};
    struct peers w;
    struct fabemu_req *send = calloc(COUNT, sizeof *send), *recv = calloc(COUNT, sizeof *recv);
    uint8_t *out = malloc(20000 * COUNT), *in = malloc(20000 * COUNT);
    uint32_t posted = 0;

    peers_open(&w, 2, true);
    for (uint32_t i = 0; i < COUNT; i++) {
        size_t bytes = sizes[test_random(&w.random) % 7];
        uint8_t *buf = out + 20000 * i;

        bytes_fill(buf, bytes, i);
        memcpy(buf, &i, 4);
        peers_send(&w, 0, 1, 5, buf, bytes, &send[i]);
        if (test_random(&w.random) % 4 == 0)
            fake_pump(w.fake);
        for (uint32_t more = test_random(&w.random) % 3; more && posted < COUNT; more--, posted++)
            peers_recv(&w, 1, 0, 5, 0, in + 20000 * posted, 20000, &recv[posted]);
    }
    fake_quiet(w.fake);
    for (; posted < COUNT; posted++)
        peers_recv(&w, 1, 0, 5, 0, in + 20000 * posted, 20000, &recv[posted]);
    CU_ASSERT_TRUE(fake_finish(w.fake, send, COUNT));
    CU_ASSERT_TRUE(fake_finish(w.fake, recv, COUNT));
    for (uint32_t i = 0; i < COUNT; i++) {
        CU_ASSERT_EQUAL(recv[i].status, 0);
        if (memcmp(in + 20000 * i, out + 20000 * i, recv[i].bytes))
            CU_FAIL("wrong message");
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
    free(send);
    free(recv);
    free(out);
    free(in);
}

/*
 * When a send has completed, the program may inform the receiver, which then reads the data. Open
 * MPI's one-sided flush relies on this.
 */
static void send__completed_is_not_overtaken(void)
{
    static const size_t sizes[] = {192, 193, 8192, 8193, 16384, 65536, 300000};
    static uint8_t out[300000], in[300000];
    struct peers w;

    peers_open(&w, 2, true);
    for (unsigned i = 0; i < 140; i++) {
        struct fabemu_req send, recv[2];
        char token;

        bytes_fill(out, sizes[i % 7], i);
        peers_recv(&w, 1, 0, 1, 0, in, sizes[i % 7], &recv[0]);
        peers_recv(&w, 1, 0, 2, 0, &token, 1, &recv[1]);
        peers_send(&w, 0, 1, 1, out, sizes[i % 7], &send);
        CU_ASSERT_TRUE(fake_finish(w.fake, &send, 1));
        peers_inject(&w, 0, 1, 2, "", 1);
        CU_ASSERT_TRUE(fake_finish(w.fake, &recv[1], 1));
        CU_ASSERT_EQUAL(recv[0].status, 0);
        CU_ASSERT_TRUE(bytes_filled(in, sizes[i % 7], i));
        CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &recv[0], 1)); /* its buffer may be reused */
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/* The sender gets an error and neither waits nor continues; segments in flight are harmless. */
static void send__ends_when_its_receive_is_dropped(void)
{
    static uint8_t out[BIG], in[BIG];
    struct peers w;
    unsigned cut = 0;

    peers_open(&w, 2, true);
    bytes_fill(out, BIG, 1);
    for (unsigned i = 0; i < 40; i++) {
        struct fabemu_req req[2];

        peers_recv(&w, 1, 0, i, 0, in, BIG, &req[0]);
        peers_send(&w, 0, 1, i, out, BIG, &req[1]);
        while (nic_op_of(&req[0])->state == NIC_OP_POSTED)
            fake_pump(w.fake);
        for (uint64_t rounds = test_random(&w.random) % 100; rounds; rounds--)
            fake_pump(w.fake);
        if (i % 2)
            fabemu_abort(w.fab[1], &req[0]);
        else
            fabemu_queue_close(w.queue[1]);
        CU_ASSERT_NOT_EQUAL(fabemu_req_status(&req[0]), FABEMU_PENDING);
        memset(in, 0xee, BIG);
        CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &req[1], 1));
        if (i % 2 == 0) {
            CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(w.fab[1], 1, &w.queue[1]), 0);
        }
        fake_quiet(w.fake);
        CU_ASSERT_EQUAL(in[0], 0xee);
        CU_ASSERT_EQUAL(in[BIG - 1], 0xee);
        if (req[1].status != -ECANCELED) /* unless all of it had arrived */
            CU_ASSERT_EQUAL(req[1].status, 0);
        cut += req[1].status == -ECANCELED;
    }
    CU_ASSERT_TRUE(cut > 0);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed + w.fab[1]->counts.malformed, 0);
    peers_close(&w);
}

/*
 * A queue with a message of @bytes, delivered or only announced, is closed before anybody receives
 * it. Whether or not the queue was ever opened, the sender either got a completion or gets an
 * error.
 */
static int status_after_close(bool opened, bool delivered, size_t bytes, uint32_t pumps)
{
    static uint8_t out[BIG];
    struct fabemu_dest dest = {.node = 1, .queue = 256, .delivered = delivered};
    struct fabemu_iov iov = {.base = out, .bytes = bytes};
    struct fabemu_queue *queue;
    struct fabemu_req req = {0};
    struct peers w;

    peers_open(&w, 2, false);
    peers_inject(&w, 0, 1, 999, "x", 1); /* they are connected */
    fake_quiet(w.fake);
    if (opened)
        CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(w.fab[1], 256, &queue), 0);
    CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &iov, 1, &req), 0);
    for (; pumps; pumps--)
        fake_pump(w.fake);
    if (opened)
        fabemu_queue_close(queue);
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[1], 1, &queue), 0); /* drops its messages */
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed + w.fab[1]->counts.malformed, 0);
    peers_close(&w);
    return req.status;
}

static void send__fails_when_its_queue_is_closed(void)
{
    for (unsigned i = 0; i < 4; i++) {
        bool opened = i & 1, delivered = i & 2;

        CU_ASSERT_EQUAL(status_after_close(opened, delivered, BIG, 20), -ECANCELED);
        CU_ASSERT_EQUAL(status_after_close(opened, delivered, 8000, 20), 0); /* it was delivered */
        CU_ASSERT_EQUAL(status_after_close(opened, delivered, 100, 20), 0);
    }
}

/* Its first segment has arrived, and its queue is closed: the rest is dropped. */
static void send__is_not_delivered_when_its_rest_is_dropped(void)
{
    static uint8_t out[8000], in[8000];
    struct fabemu_dest dest = peers_to(1, 5, 0);
    struct fabemu_iov iov = {.base = out, .bytes = sizeof out};

    dest.delivered = true;
    for (unsigned i = 0; i < 3; i++) {
        bool posted = i == 1, claims = i == 2;
        struct fabemu_req req = {0}, recv = {0};
        struct fabemu_message *claim;
        struct peers w;

        peers_open(&w, 2, false);
        if (posted)
            peers_recv(&w, 1, 0, 5, 0, in, sizeof in, &recv);
        CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &iov, 1, &req), 0);
        while (!w.fab[1]->peers[0].filling)
            fake_pump(w.fake);
        if (claims)
            CU_ASSERT_EQUAL(fabemu_probe(w.queue[1], 0, 5, 0, &claim, &recv), 0);
        fabemu_queue_close(w.queue[1]);
        CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
        CU_ASSERT_EQUAL(req.status, -ECANCELED);
        CU_ASSERT_EQUAL(w.fab[0]->counts.malformed + w.fab[1]->counts.malformed, 0);
        peers_close(&w);
    }
}

/* A message of node 1 to node 0 with any content. */
static void send_fin(struct peers *w, uint32_t id, int32_t status)
{
    struct nic_wire_fin fin = {.head = {.what = NIC_FIN, .check = w->fab[0]->peers[1].rx_check},
                               .id = id,
                               .status = status};
    struct emu_seg seg = {.hdr = {.dst = 0, .src = 1, .len = sizeof fin}};

    memcpy(seg.payload, &fin, sizeof fin);
    CU_ASSERT_TRUE(fake_inject(w->fake, 0, &seg));
    fabemu_progress(w->fab[0]);
}

/* A receiver that confirms data before it was sent, or sends garbage, is not believed. */
static void send__rejects_early_confirmations(void)
{
    static uint8_t out[20000], in[20000];
    struct fabemu_req send, recv;
    struct peers w;

    peers_open(&w, 2, false);
    bytes_fill(out, sizeof out, 4);
    peers_send(&w, 0, 1, 1, out, sizeof out, &send);
    fake_quiet(w.fake);
    /* waits for the request for its data */
    CU_ASSERT_EQUAL(nic_op_of(&send)->state, NIC_OP_WAITING);
    send_fin(&w, nic_op_of(&send)->id, 0);
    send_fin(&w, nic_op_of(&send)->id, 5);
    send_fin(&w, nic_op_of(&send)->id, -5000);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, 3);
    send_fin(&w, nic_op_of(&send)->id + 1, 0);
    CU_ASSERT_EQUAL(w.fab[0]->counts.stale, 1);
    CU_ASSERT_EQUAL(fabemu_req_status(&send), FABEMU_PENDING);
    peers_recv(&w, 1, 0, 1, 0, in, sizeof in, &recv);
    CU_ASSERT_TRUE(fake_finish(w.fake, &recv, 1) && fake_finish(w.fake, &send, 1));
    CU_ASSERT_EQUAL(send.status, 0);
    CU_ASSERT_TRUE(bytes_filled(in, sizeof in, 4));
    peers_close(&w);
}

static void recv__truncates_and_reports_the_length(void)
{
    static const size_t sizes[] = {100, 5000, 100000};
    static const size_t rooms[] = {0, 40, 210};
    static uint8_t out[100000], in[300];
    struct peers w;

    peers_open(&w, 2, true);
    bytes_fill(out, sizeof out, 1);
    for (unsigned i = 0; i < 18; i++) {
        size_t bytes = sizes[i % 3], room = rooms[i / 3 % 3];
        struct fabemu_req req[2];

        if (room > bytes)
            continue;
        memset(in, 0xee, sizeof in);
        if (i < 9)
            peers_recv(&w, 1, 0, i, 0, in, room, &req[0]);
        peers_send(&w, 0, 1, i, out, bytes, &req[1]);
        if (i >= 9) {
            fake_quiet(w.fake);
            peers_recv(&w, 1, 0, i, 0, in, room, &req[0]);
        }
        CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
        CU_ASSERT_EQUAL(req[0].status, -EMSGSIZE);
        CU_ASSERT_EQUAL(req[1].status, 0);
        CU_ASSERT_EQUAL(req[0].bytes, bytes);
        CU_ASSERT_TRUE(bytes_filled(in, room, 1));
        CU_ASSERT_EQUAL(in[room], 0xee);
    }
    peers_close(&w);
}

static void probe__finds_claims_and_discards(void)
{
    static uint8_t out[50000], in[50000];
    struct peers w;
    struct fabemu_req req = {0}, send[3], recv[3] = {0};
    struct fabemu_message *claim[2];

    peers_open(&w, 2, true);
    bytes_fill(out, sizeof out, 9);
    CU_ASSERT_EQUAL(fabemu_probe(w.queue[1], 0, 3, 0, NULL, &req), -ENOMSG);
    peers_send(&w, 0, 1, 3, out, 50000, &send[0]);
    peers_send(&w, 0, 1, 3, out, 100, &send[1]);
    peers_send(&w, 0, 1, 3, out, 3000, &send[2]);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(fabemu_probe(w.queue[1], 0, 3, 0, NULL, &req), 0);
    CU_ASSERT_EQUAL(req.bytes, 50000);
    CU_ASSERT_EQUAL(fabemu_probe(w.queue[1], 0, 3, 0, &claim[0], &req), 0);
    CU_ASSERT_EQUAL(fabemu_probe(w.queue[1], FABEMU_ANY_NODE, 3, 0, &claim[1], &req), 0);
    CU_ASSERT_EQUAL(req.bytes, 100);
    peers_recv(&w, 1, 0, 3, 0, in, sizeof in, &recv[2]); /* not the claimed ones */
    CU_ASSERT_TRUE(fake_finish(w.fake, &recv[2], 1));
    CU_ASSERT_EQUAL(recv[2].bytes, 3000);
    struct fabemu_iov iov = {.base = in, .bytes = sizeof in};
    CU_ASSERT_EQUAL(fabemu_recv_claimed(w.queue[1], claim[0], &iov, 1, &recv[0]), 0);
    CU_ASSERT_EQUAL(fabemu_recv_claimed(w.queue[1], claim[1], NULL, 0, &recv[1]), 0);
    CU_ASSERT_TRUE(fake_finish(w.fake, recv, 2));
    CU_ASSERT_TRUE(fake_finish(w.fake, send, 3));
    CU_ASSERT_EQUAL(recv[1].status, 0);
    CU_ASSERT_EQUAL(recv[0].status, 0);
    CU_ASSERT_TRUE(bytes_filled(in, 50000, 9));
    peers_close(&w);
}

static void cancel__only_unmatched_receives(void)
{
    struct peers w;
    struct fabemu_req req[2];
    uint32_t got = 0;

    peers_open(&w, 2, false);
    peers_recv(&w, 1, 0, 1, 0, &got, 4, &req[0]);
    peers_recv(&w, 1, 0, 1, 0, &got, 4, &req[1]);
    CU_ASSERT_EQUAL(fabemu_cancel(w.queue[1], &req[0]), 0);
    CU_ASSERT_EQUAL(req[0].status, -ECANCELED);
    CU_ASSERT_EQUAL(fabemu_cancel(w.queue[1], &req[0]), -ENOENT);
    peers_inject(&w, 0, 1, 1, &(uint32_t){5}, 4);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req[1], 1));
    CU_ASSERT_EQUAL(got, 5);
    CU_ASSERT_EQUAL(fabemu_cancel(w.queue[1], &req[1]), -ENOENT);
    peers_close(&w);
}

/*
 * Every size around a limit, in one to four pieces, posted before or after; also to the node
 * itself.
 */
static void send__carries_all_sizes_and_pieces(void)
{
    static const uint32_t sizes[] = {0,   1,    191,  192,  193,  415,   416,   417,    639, 640,
                                     641, 4096, 8191, 8192, 8193, 65536, 65537, 200001, BIG};
    uint8_t *out = malloc(BIG), *in = malloc(BIG + 1);
    struct peers w;

    peers_open(&w, 2, true);
    for (unsigned i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
        uint32_t bytes = sizes[i / 4], left[2] = {bytes, BIG}, dst = i % 2;
        struct fabemu_iov iov[2][4];
        struct fabemu_req req[2] = {{0}};
        struct fabemu_dest dest = peers_to(dst, i, 0);

        bytes_fill(out, bytes, i);
        memset(in, 0xee, BIG + 1);
        for (unsigned k = 0; k < 4; k++) {
            for (unsigned side = 0; side < 2; side++) {
                uint32_t part = k == 3 ? left[side]
                                       : (uint32_t)(test_random(&w.random) % (left[side] + 1));

                if (test_random(&w.random) % 3)
                    part = part < 300 ? part : part % 300;
                if (k == 3)
                    part = left[side];
                iov[side][k].base = (side ? in + BIG : out + bytes) - left[side];
                iov[side][k].bytes = part;
                left[side] -= part;
            }
        }
        if (i & 2)
            fabemu_recv(w.queue[dst], 0, i, 0, iov[1], 4, &req[1]);
        CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, iov[0], 4, &req[0]), 0);
        if (!(i & 2)) {
            fake_quiet(w.fake);
            fabemu_recv(w.queue[dst], 0, i, 0, iov[1], 4, &req[1]);
        }
        CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
        CU_ASSERT_EQUAL(req[1].bytes, bytes);
        CU_ASSERT_TRUE(bytes_filled(in, bytes, i));
        CU_ASSERT_EQUAL(in[bytes], 0xee);
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
    free(out);
    free(in);
}

/* Separate pieces get their bytes, and the memory between them is unchanged. */
static void recv__into_separate_pieces(void)
{
    static const uint32_t at[] = {200000, 0, 90001}, parts[] = {1001, 70003, 50007};
    uint32_t bytes = parts[0] + parts[1] + parts[2], got = 0;
    uint8_t *out = malloc(bytes), *in = malloc(bytes), *memory = malloc(BIG);
    struct fabemu_req req[2] = {{0}};
    struct fabemu_iov iov[3];
    struct peers w;

    peers_open(&w, 2, false);
    bytes_fill(out, bytes, 3);
    memset(memory, 0xee, BIG);
    for (unsigned k = 0; k < 3; k++)
        iov[k] = (struct fabemu_iov){.base = memory + at[k], .bytes = parts[k]};
    fabemu_recv(w.queue[1], 0, 7, 0, iov, 3, &req[1]);
    peers_send(&w, 0, 1, 7, out, bytes, &req[0]);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    for (unsigned k = 0; k < 3; k++) {
        memcpy(in + got, memory + at[k], parts[k]);
        memset(memory + at[k], 0xee, parts[k]);
        got += parts[k];
    }
    CU_ASSERT_TRUE(bytes_filled(in, bytes, 3));
    CU_ASSERT_TRUE(memory[0] == 0xee && memcmp(memory, memory + 1, BIG - 1) == 0); /* all of it */
    peers_close(&w);
    free(memory);
    free(out);
    free(in);
}

/*
 * A sender runs far ahead of the application: windows close, eager messages fall back to
 * rendezvous, nothing is lost.
 */
static void send__survives_a_receiver_that_does_not_poll(void)
{
    enum { COUNT = 5000 };
    struct peers w;
    struct fabemu_req last, recv, *send = calloc(COUNT, sizeof *send);
    uint8_t *out = malloc(4000), *in = malloc(4000);
    uint64_t v;

    peers_open(&w, 2, true);
    bytes_fill(out, 4000, 3);
    for (uint64_t i = 0; i < COUNT; i++) {
        peers_inject(&w, 0, 1, 1, &i, 8);
        peers_send(&w, 0, 1, 2, out, 1000 + i % 3000, &send[i]);
        fake_pump(w.fake);
        CU_ASSERT_TRUE(w.fab[0]->peers[1].tx_eager - w.fab[0]->peers[1].tx_consumed <=
                       NIC_EAGER_WINDOW);
    }
    peers_recv(&w, 1, 0, 9, 0, &v, 8, &last);
    peers_inject(&w, 0, 1, 9, &(uint64_t){77}, 8);
    CU_ASSERT_TRUE(fake_finish(w.fake, &last, 1));
    CU_ASSERT_EQUAL(v, 77);
    for (uint64_t i = 0; i < COUNT; i++) {
        peers_recv(&w, 1, 0, 2, 0, in, 4000, &recv);
        CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &recv, 1));
        CU_ASSERT_TRUE(recv.bytes == 1000 + i % 3000 && bytes_filled(in, recv.bytes, 3));
        peers_recv(&w, 1, 0, 1, 0, &v, 8, &recv);
        CU_ASSERT_TRUE(fake_finish(w.fake, &recv, 1) && v == i);
    }
    CU_ASSERT_TRUE(fake_finish(w.fake, send, COUNT));
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
    free(send);
    free(out);
    free(in);
}

/*
 * More messages than may be held for a queue that is not open: the senders wait, and nothing is
 * lost.
 */
static void send__waits_when_no_more_can_be_held(void)
{
    enum { COUNT = NIC_PARKED_MAX + 3 * NIC_ORDER_WINDOW };
    struct peers w;
    struct fabemu_queue *late;
    struct fabemu_req recv, *send = calloc(COUNT, sizeof *send);
    uint32_t *v = malloc(COUNT * sizeof *v), got, done = 0;
    uint8_t *out = malloc(20000), *in = malloc(20000);
    struct fabemu_dest dest = {.node = 1, .queue = 7};

    peers_open(&w, 2, true);
    for (uint32_t i = 0; i < COUNT; i++) {
        bool big = i % 100 == 99; /* a message that announces itself first */
        struct fabemu_iov iov = {.base = big ? (void *)out : (void *)&v[i],
                                 .bytes = big ? 20000 : 4};

        v[i] = i;
        CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &iov, 1, &send[i]), 0);
    }
    fake_quiet(w.fake);
    for (uint32_t i = 0; i < COUNT; i++)
        done += fabemu_req_status(&send[i]) != FABEMU_PENDING;
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].parked, NIC_PARKED_MAX);
    CU_ASSERT_TRUE(done < NIC_PARKED_MAX + NIC_ORDER_WINDOW);
    CU_ASSERT_EQUAL(fabemu_queue_open(w.fab[1], 7, &late), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct fabemu_iov iov = {.base = in, .bytes = 20000};

        memset(&recv, 0, sizeof recv);
        fabemu_recv(late, 0, 0, 0, &iov, 1, &recv);
        CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &recv, 1));
        memcpy(&got, in, 4);
        CU_ASSERT_TRUE(i % 100 == 99 ? recv.bytes == 20000 : recv.bytes == 4 && got == i);
    }
    CU_ASSERT_TRUE(fake_finish(w.fake, send, COUNT));
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].parked, 0);
    peers_close(&w);
    free(send);
    free(v);
    free(out);
    free(in);
}

/* A node that sends too many messages to a queue that nobody opens does not hold up another. */
static void send__is_not_held_up_by_another_node(void)
{
    enum { COUNT = NIC_PARKED_MAX + NIC_ORDER_WINDOW };
    struct peers w;
    struct fabemu_req recv, other[2], *send = calloc(COUNT, sizeof *send);
    struct fabemu_dest dest = {.node = 1, .queue = 7};
    uint32_t v = 5, got = 0;

    peers_open(&w, 3, true);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct fabemu_iov iov = {.base = &v, .bytes = 4};

        CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &iov, 1, &send[i]), 0);
    }
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].parked, NIC_PARKED_MAX);
    dest.queue = 8; /* not open either */
    memset(other, 0, sizeof other);
    CU_ASSERT_EQUAL(fabemu_send(w.queue[2], &dest, &(struct fabemu_iov){&v, 4}, 1, &other[0]), 0);
    peers_send(&w, 2, 1, 3, &v, 4, &other[1]);
    peers_recv(&w, 1, 2, 3, 0, &got, 4, &recv);
    CU_ASSERT_TRUE(fake_finish(w.fake, &recv, 1) && fake_finish(w.fake, other, 2));
    CU_ASSERT_TRUE(recv.status == 0 && got == 5);
    peers_close(&w);
    free(send);
}

static void queue_open_any__starts_empty_and_rotates(void)
{
    struct peers w;
    static uint8_t large[100000];
    struct fabemu_queue *queue[3];
    struct fabemu_req req = {0}, sends[3] = {{0}};
    struct fabemu_iov iov[3] = {{large, 1}, {large, 1000}, {large, sizeof large}};
    struct fabemu_dest dest = {.node = 1, .delivered = true};
    uint16_t first;

    peers_open(&w, 2, false);
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[1], 1, &queue[0]), 0);
    first = dest.queue = fabemu_queue_id(queue[0]);
    fabemu_queue_close(queue[0]);
    while (fabemu_inject(w.queue[0], &dest, "x", 1) == -EAGAIN)
        fake_pump(w.fake);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].parked, 0); /* the next owner must not receive it */
    for (unsigned i = 0; i < 3; i++) /* so senders that wait for the receiver must not wait */
        CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &iov[i], 1, &sends[i]), 0);
    CU_ASSERT_TRUE(fake_finish(w.fake, sends, 3));
    for (unsigned i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(sends[i].status, -ECANCELED);
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[1], 1, &queue[1]), 0);
    CU_ASSERT_NOT_EQUAL(fabemu_queue_id(queue[1]), first);
    w.fab[1]->queue_any = first; /* as after a round of all numbers */
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[1], 1, &queue[2]), 0);
    CU_ASSERT_EQUAL(fabemu_queue_id(queue[2]), first);
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].parked, 0);
    CU_ASSERT_EQUAL(fabemu_probe(queue[2], FABEMU_ANY_NODE, 0, UINT64_MAX, NULL, &req), -ENOMSG);
    peers_close(&w);
}

/* The id is even, and of a pair of which neither is open. */
static void queue_open_any__opens_the_first_of_a_free_pair(void)
{
    struct peers w;
    struct fabemu_queue *queue[4];
    struct fabemu_req req = {0};
    struct fabemu_dest dest = {.node = 1};
    uint16_t first;

    peers_open(&w, 2, false);
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[1], 1, &queue[0]), 0);
    first = fabemu_queue_id(queue[0]);
    CU_ASSERT_EQUAL(first % 2, 0);
    CU_ASSERT_EQUAL(fabemu_queue_open(w.fab[1], first + 1u, &queue[1]), 0);
    fabemu_queue_close(queue[0]);
    w.fab[1]->queue_any = first; /* the other queue of the pair is open */
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[1], 1, &queue[2]), 0);
    CU_ASSERT_EQUAL(fabemu_queue_id(queue[2]), first + 2);
    fabemu_queue_close(queue[1]);
    dest.queue = first + 1u; /* a message for the previous owner is dropped */
    while (fabemu_inject(w.queue[0], &dest, "x", 1) == -EAGAIN)
        fake_pump(w.fake);
    fake_quiet(w.fake);
    w.fab[1]->queue_any = first;
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[1], 2, queue), 0);
    CU_ASSERT_EQUAL(fabemu_queue_id(queue[0]), first);
    CU_ASSERT_EQUAL(fabemu_probe(queue[1], FABEMU_ANY_NODE, 0, UINT64_MAX, NULL, &req), -ENOMSG);
    w.fab[1]->queue_any = 65532; /* the last pair; 65534 and 65535 are left out */
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[1], 1, &queue[3]), 0);
    CU_ASSERT_EQUAL(fabemu_queue_id(queue[3]), 65532);
    CU_ASSERT_EQUAL(w.fab[1]->queue_any, 256);
    peers_close(&w);
}

/* A close that only drops a reference does not ask the fabric to withdraw the announcement. */
static void queue_open_counted__stays_announced_until_the_last_close(void)
{
    struct peers w;
    struct fabemu_queue *queue;

    peers_open(&w, 2, false);
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(fabemu_queue_open_counted(w.fab[0], 9, &queue), 0);
    queue->announced = true;
    CU_ASSERT_PTR_NULL(w.fab[0]->control); /* a request would crash */
    fabemu_queue_close(queue);
    CU_ASSERT_TRUE(queue->announced);
    queue->announced = false;
    fabemu_queue_close(queue);
    CU_ASSERT_PTR_NULL(w.fab[0]->queues[9]);
    peers_close(&w);
}

/* Compute for @ns between two calls of fabemu_idle(). */
static void work(uint64_t ns)
{
    struct timespec ts;
    uint64_t begun = 0, ran = 0;

    for (bool first = true; first || ran - begun < ns; first = false) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        ran = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
        begun = first ? ran : begun;
    }
}

/* How often this thread has slept so far. */
static long slept(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* How often this thread slept in 800 calls, with @work_ns of work before each @every-th. */
static long slept_in_800(struct fabemu *fab, uint64_t work_ns, unsigned every)
{
    long before;

    fabemu_idle(fab, UINT_MAX);
    before = slept();
    for (unsigned i = 0; i < 800; i++) {
        if (work_ns && i % every == 0)
            work(work_ns);
        fabemu_idle(fab, UINT_MAX);
    }
    return slept() - before;
}

/*
 * A caller that does nothing but wait gives its core to all others by sleeping; a yield would only
 * serve its own session. A caller that works in between (MPI_Test in a loop; MPI_Iprobe, which
 * polls twice) is not delayed.
 */
static void idle__sleeps_when_its_caller_only_waits(void)
{
    struct peers w;

    peers_open(&w, 1, false);
    CU_ASSERT_TRUE(slept_in_800(w.fab[0], 0, 1) > 50);
    CU_ASSERT_TRUE(slept_in_800(w.fab[0], 5 * NIC_NAP_WORK_NS, 1) < 50);
    CU_ASSERT_TRUE(slept_in_800(w.fab[0], 5 * NIC_NAP_WORK_NS, 2) < 50);
    peers_close(&w);
}

/* How often this thread slept in 400 waits of @questions polls each. */
static long slept_in_waits(struct fabemu *fab, unsigned questions)
{
    long before = slept();

    for (unsigned i = 0; i < 400; i++) {
        fabemu_idle(fab, 0);
        for (unsigned n = 0; n < questions; n++)
            fabemu_idle(fab, UINT_MAX);
    }
    return slept() - before;
}

/* Waking up takes as long as a collective of a few kilobytes; a yield to the fabric does not. */
static void idle__sleeps_late_when_yields_reach_the_fabric(void)
{
    struct peers w;

    peers_open(&w, 1, false);
    CU_ASSERT_TRUE(slept_in_waits(w.fab[0], NIC_NAP_MISSES) < 50);
    w.fab[0]->other_session = true;
    CU_ASSERT_TRUE(slept_in_waits(w.fab[0], NIC_NAP_MISSES) > 400);
    peers_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(inject__delivers_tag_data_and_source),
        CASE(recv__matches_node_tag_and_ignore_bits),
        CASE(recv_from__matches_the_senders_queue),
        CASE(calls__refuse_buffers_at_address_0),
        CASE(send__of_every_length_delivers_its_data),
        CASE(receive__of_short_messages_checks_their_length),
        CASE(send__delivered_completes_after_delivery),
        CASE(send__keeps_order_however_segments_travel),
        CASE(send__completed_is_not_overtaken),
        CASE(send__ends_when_its_receive_is_dropped),
        CASE(send__fails_when_its_queue_is_closed),
        CASE(send__is_not_delivered_when_its_rest_is_dropped),
        CASE(send__rejects_early_confirmations),
        CASE(recv__truncates_and_reports_the_length),
        CASE(probe__finds_claims_and_discards),
        CASE(cancel__only_unmatched_receives),
        CASE(send__carries_all_sizes_and_pieces),
        CASE(recv__into_separate_pieces),
        CASE(send__survives_a_receiver_that_does_not_poll),
        CASE(send__waits_when_no_more_can_be_held),
        CASE(send__is_not_held_up_by_another_node),
        CASE(queue_open_any__starts_empty_and_rotates),
        CASE(queue_open_any__opens_the_first_of_a_free_pair),
        CASE(queue_open_counted__stays_announced_until_the_last_close),
        CASE(idle__sleeps_when_its_caller_only_waits),
        CASE(idle__sleeps_late_when_yields_reach_the_fabric),
        {0},
    };

    return test_run("nic", cases);
}
