/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_share_test.c - shared receive queues of the adapter, and ranges of queues */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic/host/rx/queue.h"
#include "tests/test.h"
#include "tests/fixtures/host/peers.h"

#define BIG   (1u << 20)
#define FIRST 300u /* number of the first queue that shares */

static const struct fabemu_source anywhere = {FABEMU_ANY_NODE, FABEMU_ANY_QUEUE};

static void send(struct peers *w, uint16_t queue, const void *buf, size_t bytes, uint64_t tag,
                 struct fabemu_req *req)
{
    const struct fabemu_dest dest = {.node = 1, .queue = queue, .tag = tag};
    const struct fabemu_iov iov = {.base = (void *)(uintptr_t)buf, .bytes = bytes};

    *req = (struct fabemu_req){0};
    CU_ASSERT_EQUAL(fabemu_send(w->queue[0], &dest, &iov, 1, req), 0);
}

static void receive(struct fabemu_queue *queue, void *buf, size_t bytes, struct fabemu_req *req)
{
    const struct fabemu_iov iov = {.base = buf, .bytes = bytes};

    *req = (struct fabemu_req){0};
    CU_ASSERT_EQUAL(fabemu_recv_from(queue, anywhere, 0, UINT64_MAX, &iov, 1, req), 0);
}

/* Open queues of node 1 that share. */
static void sharing_open(struct peers *w, unsigned count, struct fabemu_queue **queue,
                         struct fabemu_queue **shared)
{
    CU_ASSERT_EQUAL_FATAL(fabemu_queue_open_shared(w->fab[1], shared), 0);
    for (unsigned i = 0; i < count; i++) {
        CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(w->fab[1], (uint16_t)(FIRST + i), &queue[i]), 0);
        CU_ASSERT_EQUAL_FATAL(fabemu_queue_share(queue[i], *shared), 0);
    }
}

/* Messages to a queue that was not open match in order once it shares, the first at once. */
static void share__matches_messages_that_arrived_before(void)
{
    static const size_t bytes[] = {100, BIG, 5000, BIG};
    struct fabemu_req sent[4], got[4];
    struct fabemu_queue *queue, *shared;
    unsigned char *out = malloc(BIG), *in = malloc(BIG);
    struct peers w;

    peers_open(&w, 2, false);
    bytes_fill(out, BIG, 1);
    for (unsigned i = 0; i < 4; i++)
        send(&w, FIRST, out, bytes[i], i, &sent[i]);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].parked, 4);
    CU_ASSERT_EQUAL_FATAL(fabemu_queue_open_shared(w.fab[1], &shared), 0);
    for (unsigned i = 0; i < 2; i++)
        receive(shared, in, BIG, &got[i]);
    CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(w.fab[1], FIRST, &queue), 0);
    CU_ASSERT_EQUAL(fabemu_queue_share(queue, shared), 0);
    CU_ASSERT_TRUE(fake_finish(w.fake, got, 2));
    for (unsigned i = 2; i < 4; i++) {
        receive(shared, in, BIG, &got[i]);
        CU_ASSERT_TRUE(fake_finish(w.fake, &got[i], 1));
    }
    CU_ASSERT_TRUE(fake_finish(w.fake, sent, 4));
    for (unsigned i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(got[i].status, 0);
        CU_ASSERT_EQUAL(got[i].tag, i);
        CU_ASSERT_EQUAL(got[i].bytes, bytes[i]);
        CU_ASSERT_EQUAL(got[i].queue, FIRST);
    }
    CU_ASSERT(bytes_filled(in, BIG, 1));
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].parked, 0);
    CU_ASSERT_TRUE(peers_clean(w.fab[1]));
    peers_close(&w);
    free(in);
    free(out);
}

/* The close cancels the receive that its long message has matched, and drops its other messages. */
static void close__affects_only_its_own_messages(void)
{
    struct fabemu_req sent[4], got[3];
    struct fabemu_queue *queue[2], *shared;
    unsigned char *out = calloc(1, BIG), *in[3];
    struct peers w;

    peers_open(&w, 2, false);
    sharing_open(&w, 2, queue, &shared);
    for (unsigned i = 0; i < 3; i++)
        in[i] = malloc(BIG);
    receive(shared, in[0], BIG, &got[0]);
    receive(shared, in[1], BIG, &got[1]);
    send(&w, FIRST, out, BIG, 0, &sent[0]);
    send(&w, FIRST + 1, out, BIG, 1, &sent[1]);
    send(&w, FIRST, out, 10, 2, &sent[2]);
    send(&w, FIRST + 1, out, 10, 3, &sent[3]);
    for (unsigned i = 0; i < 8 && fabemu_req_status(&got[0]) == FABEMU_PENDING; i++)
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(fabemu_req_status(&got[0]), FABEMU_PENDING); /* it has matched by now */
    CU_ASSERT_EQUAL(got[0].queue, FIRST);
    fabemu_queue_close(queue[0]);
    CU_ASSERT_EQUAL(fabemu_req_status(&got[0]), -ECANCELED);
    CU_ASSERT_TRUE(fake_finish(w.fake, &got[1], 1));
    CU_ASSERT_EQUAL(got[1].status, 0);
    CU_ASSERT_EQUAL(got[1].tag, 1);
    receive(shared, in[2], BIG, &got[2]);
    CU_ASSERT_TRUE(fake_finish(w.fake, &got[2], 1));
    CU_ASSERT_EQUAL(got[2].tag, 3);
    CU_ASSERT_TRUE(fake_finish(w.fake, sent, 4));
    CU_ASSERT_EQUAL(sent[0].status, -ECANCELED);
    CU_ASSERT_EQUAL(sent[1].status, 0);
    peers_close(&w);
    for (unsigned i = 0; i < 3; i++)
        free(in[i]);
    free(out);
}

/* When the shared queue closes first, the others receive their messages themselves. */
static void shared_queue__may_close_first(void)
{
    struct fabemu_req sent, got[2];
    struct fabemu_queue *queue, *shared;
    struct peers w;
    char in[16];

    peers_open(&w, 2, false);
    sharing_open(&w, 1, &queue, &shared);
    receive(shared, in, sizeof in, &got[0]);
    fabemu_queue_close(shared);
    CU_ASSERT_EQUAL(fabemu_req_status(&got[0]), -ECANCELED);
    send(&w, FIRST, "again", 6, 7, &sent);
    receive(queue, in, sizeof in, &got[1]);
    CU_ASSERT_TRUE(fake_finish(w.fake, &got[1], 1));
    CU_ASSERT_EQUAL(got[1].tag, 7);
    CU_ASSERT_STRING_EQUAL(in, "again");
    peers_close(&w);
}

static void share__refuses_invalid_queues(void)
{
    const struct fabemu_dest dest = {.node = 1, .queue = FIRST};
    const struct fabemu_iov iov = {0};
    struct fabemu_req req = {0}, waiting;
    struct fabemu_queue *queue, *plain, *shared, *other;
    struct peers w;

    peers_open(&w, 2, false);
    sharing_open(&w, 1, &queue, &shared);
    CU_ASSERT_EQUAL(fabemu_queue_open_shared(w.fab[1], &other), 0);
    CU_ASSERT_EQUAL(fabemu_queue_open(w.fab[1], 400, &plain), 0);
    CU_ASSERT_EQUAL(fabemu_queue_share(queue, other), -EINVAL); /* shares one */
    CU_ASSERT_EQUAL(fabemu_queue_share(plain, queue), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_queue_share(shared, other), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_queue_share(w.queue[0], shared), -EINVAL); /* of another adapter */
    receive(plain, NULL, 0, &waiting);
    CU_ASSERT_EQUAL(fabemu_queue_share(plain, shared), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_recv_from(queue, anywhere, 0, 0, &iov, 1, &req), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_send(shared, &dest, &iov, 1, &req), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_inject(shared, &dest, "x", 1), -EINVAL);
    peers_close(&w);
}

static void shared_queues__are_limited(void)
{
    struct fabemu_queue *queue[2], *shared;
    struct peers w;

    peers_open(&w, 2, false);
    for (unsigned i = NIC_NUMBERS; i < NIC_QUEUES; i++)
        CU_ASSERT_EQUAL_FATAL(fabemu_queue_open_shared(w.fab[1], &queue[i % 2]), 0);
    CU_ASSERT_EQUAL(fabemu_queue_open_shared(w.fab[1], &shared), -ENOSPC);
    fabemu_queue_close(queue[0]);
    CU_ASSERT_EQUAL(fabemu_queue_open_shared(w.fab[1], &shared), 0);
    peers_close(&w);
}

/* A range has no open queue in it, and starts at an even number. */
static void queue_open_any__opens_a_range(void)
{
    struct fabemu_queue *queue[6], *odd;
    struct peers w;

    peers_open(&w, 2, false);
    CU_ASSERT_EQUAL(fabemu_queue_open(w.fab[1], 259, &odd), 0);
    CU_ASSERT_EQUAL_FATAL(fabemu_queue_open_any(w.fab[1], 5, queue), 0);
    for (unsigned i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(fabemu_queue_id(queue[i]), 260 + i);
    CU_ASSERT_EQUAL(w.fab[1]->queue_any, 266);
    w.fab[1]->queue_any = 65530; /* there is no space behind it */
    CU_ASSERT_EQUAL_FATAL(fabemu_queue_open_any(w.fab[1], 6, queue), 0);
    CU_ASSERT_EQUAL(fabemu_queue_id(queue[0]), 266);
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[1], 0, queue), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[1], 65536, queue), -EADDRINUSE);
    peers_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(share__matches_messages_that_arrived_before),
        CASE(close__affects_only_its_own_messages),
        CASE(shared_queue__may_close_first),
        CASE(share__refuses_invalid_queues),
        CASE(shared_queues__are_limited),
        CASE(queue_open_any__opens_a_range),
        {0},
    };

    return test_run("nic_share", cases);
}
