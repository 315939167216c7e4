/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_peer_test.c - put and get, peers that attach and exit, hostile input, threads.
 *
 * One thread steps the adapters and a fake fabric alternately, except where noted.
 */
#include <json-c/json.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "emu/util/json.h"
#include "emu/util/now.h"
#include "nic/host/control/control.h"
#include "tests/test.h"
#include "tests/fixtures/host/peers.h"

#define BIG  (1u << 20)
#define LONG (8u * EMU_HOSTIF_SLOTS * EMU_SEG_BYTES) /* bytes: eight rings full */

/* --- put and get -------------------------------------------------------------------- */

static void put_get__move_memory(void)
{
    static const size_t sizes[] = {0, 1, 192, 193, 5000, 300000};
    uint8_t *mine = malloc(BIG), *theirs = malloc(BIG);
    struct peers w;
    uint64_t key;

    peers_open(&w, 2, true);
    CU_ASSERT_EQUAL(fabemu_register(w.fab[1], theirs, BIG, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE,
                                    &key),
                    0);
    for (unsigned i = 0; i < 6; i++) {
        struct fabemu_req req = {0};
        uint64_t offset = 1000 * i + 3;

        bytes_fill(mine, sizes[i], i);
        CU_ASSERT_EQUAL(fabemu_put(w.fab[0], 1, key, offset, mine, sizes[i], &req), 0);
        CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
        CU_ASSERT_EQUAL(req.status, 0);
        CU_ASSERT_TRUE(bytes_filled(theirs + offset, sizes[i], i));
        memset(mine, 0, sizes[i] + 1);
        CU_ASSERT_EQUAL(fabemu_get(w.fab[0], 1, key, offset, mine, sizes[i], &req), 0);
        CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
        CU_ASSERT_EQUAL(req.status, 0);
        CU_ASSERT_TRUE(bytes_filled(mine, sizes[i], i));
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
    free(mine);
    free(theirs);
}

static void put_get__refuse_missing_permissions(void)
{
    static uint8_t mine[4000], theirs[4000];
    struct peers w;
    uint64_t read, write;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[1], theirs, 1000, FABEMU_REMOTE_READ, &read);
    fabemu_register(w.fab[1], theirs, 1000, FABEMU_REMOTE_WRITE, &write);
    const struct {
        bool put;
        uint64_t key, offset;
        size_t bytes;
        int status;
    } c[] = {
        {true, read, 0, 10, -EACCES},
        {true, read, 0, 500, -EACCES},
        {false, write, 0, 10, -EACCES},
        {true, write, 995, 6, -EACCES},
        {true, write, 1001, 0, -EACCES},
        {true, write, 600, 401, -EACCES},
        {true, write, UINT64_MAX, 2, -EACCES},
        {false, read, UINT64_MAX - 3, 300, -EACCES},
        {false, read ^ 1 << 20, 0, 1, -EACCES},
        {false, 12345678, 0, 1, -EACCES},
        {true, write, 600, 400, 0},
        {false, read, 999, 1, 0},
    };
    for (unsigned i = 0; i < sizeof c / sizeof *c; i++) {
        struct fabemu_req req = {0};

        if (c[i].put)
            fabemu_put(w.fab[0], 1, c[i].key, c[i].offset, mine, c[i].bytes, &req);
        else
            fabemu_get(w.fab[0], 1, c[i].key, c[i].offset, mine, c[i].bytes, &req);
        CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
        CU_ASSERT_EQUAL(req.status, c[i].status);
    }
    CU_ASSERT_EQUAL(fabemu_unregister(w.fab[1], write), 0);
    CU_ASSERT_EQUAL(fabemu_unregister(w.fab[1], write), -ENOENT);
    peers_close(&w);
}

static void unregister__ends_transfers_in_progress(void)
{
    uint8_t *mine = calloc(1, LONG), *theirs = calloc(1, LONG);
    struct peers w;
    struct fabemu_req req[2] = {{0}};
    uint64_t key;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[1], theirs, LONG, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE, &key);
    fabemu_put(w.fab[0], 1, key, 0, mine, LONG, &req[0]);
    fabemu_get(w.fab[0], 1, key, 0, mine, LONG, &req[1]);
    for (int i = 0; i < 6; i++)
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(req[0].status, FABEMU_PENDING);
    CU_ASSERT_EQUAL(fabemu_unregister(w.fab[1], key), 0);
    memset(theirs, 0x55, LONG);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    CU_ASSERT_EQUAL(req[0].status, -EACCES);
    CU_ASSERT_EQUAL(req[1].status, -EACCES);
    fake_quiet(w.fake);
    CU_ASSERT_TRUE(theirs[0] == 0x55 && memcmp(theirs, theirs + 1, LONG - 1) == 0);
    peers_close(&w);
    free(mine);
    free(theirs);
}

/* The id of a transfer that ended is reused while its data is still in flight. */
static void get__ignores_data_of_an_older_one(void)
{
    static uint8_t old[200000], new[3000], mine[2][200000];
    struct peers w;
    struct fabemu_req req[2] = {{0}};
    uint64_t key[2];

    peers_open(&w, 2, true);
    fabemu_register(w.fab[1], old, sizeof old, FABEMU_REMOTE_READ, &key[0]);
    fabemu_register(w.fab[1], new, sizeof new, FABEMU_REMOTE_READ, &key[1]);
    memset(old, 0x11, sizeof old);
    for (unsigned i = 0; i < 50; i++) {
        uint32_t id;

        memset(new, 0x20 + (int)i, sizeof new);
        fabemu_get(w.fab[0], 1, key[0], 0, mine[0], sizeof old, &req[0]);
        id = nic_op_of(&req[0])->id;
        for (int k = 0; k < 10; k++)
            fake_pump(w.fake);
        nic_lock(w.fab[0]); /* as when the peer reports it */
        if (req[0].status == FABEMU_PENDING)
            nic_op_end(w.fab[0], nic_op_of(&req[0]), -ECANCELED);
        nic_unlock(w.fab[0]);
        fabemu_get(w.fab[0], 1, key[1], 0, mine[1], sizeof new, &req[1]);
        CU_ASSERT_EQUAL(nic_op_of(&req[1])->id & 0xfffff, id & 0xfffff);
        CU_ASSERT_TRUE(fake_finish(w.fake, &req[1], 1));
        CU_ASSERT_EQUAL(memcmp(new, mine[1], sizeof new), 0);
        fake_quiet(w.fake);
    }
    CU_ASSERT_TRUE(w.fab[0]->counts.stale > 0);
    peers_close(&w);
}

/* A target that serves as many long transfers as it can refuses for now, not for ever. */
static void put_get__wait_their_turn(void)
{
    static uint8_t memory[2][9000], mine[2][9000];
    struct peers w;
    struct fabemu_req req[2] = {{0}};
    uint64_t key[2];

    peers_open(&w, 2, true);
    bytes_fill(memory[0], 9000, 1);
    bytes_fill(mine[1], 9000, 2);
    fabemu_register(w.fab[1], memory[0], 9000, FABEMU_REMOTE_READ, &key[0]);
    fabemu_register(w.fab[1], memory[1], 9000, FABEMU_REMOTE_WRITE, &key[1]);
    w.fab[1]->served = NIC_SERVED_MAX;
    fabemu_get(w.fab[0], 1, key[0], 0, mine[0], 9000, &req[0]);
    fabemu_put(w.fab[0], 1, key[1], 0, mine[1], 9000, &req[1]);
    for (int i = 0; i < 100; i++)
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(req[0].status, FABEMU_PENDING);
    CU_ASSERT_EQUAL(req[1].status, FABEMU_PENDING);
    w.fab[1]->served = 0;
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    CU_ASSERT_TRUE(req[0].status == 0 && bytes_filled(mine[0], 9000, 1));
    CU_ASSERT_TRUE(req[1].status == 0 && bytes_filled(memory[1], 9000, 2));
    peers_close(&w);
}

/* Answers that peers wait for are kept however many there are; acknowledgments are repeated. */
static void answers__needed_are_not_dropped(void)
{
    enum { SENDS = 3 * NIC_ORDER_WINDOW };
    struct peers w;
    struct fabemu_req get = {0}, *send = calloc(SENDS, sizeof *send);
    uint8_t memory[100], mine[100];
    struct emu_list *full;
    uint64_t key;

    peers_open(&w, 2, false);
    bytes_fill(memory, 100, 1);
    fabemu_register(w.fab[1], memory, 100, FABEMU_REMOTE_READ, &key);
    peers_inject(&w, 0, 1, 5, "x", 1);
    fake_quiet(w.fake);
    for (uint32_t i = 0; i < SENDS; i++)
        peers_send(&w, 0, 1, 3, memory, 8, &send[i]);
    fabemu_get(w.fab[0], 1, key, 0, mine, 100, &get);
    w.fab[0]->watch_ns = 0;
    w.fab[0]->watch_gap_ns = 1000000;
    for (int i = 0; i < 8; i++) { /* node 1 receives, and has no space to answer */
        struct nic_wire_hello hello = {.what = NIC_HELLO, .incarnation = w.fab[1]->incarnation};

        w.fab[1]->ctl_count = NIC_CTL_MAX;
        fake_step(w.fake);
        nic_lock(w.fab[1]);
        full = &w.fab[1]->ctls;
        if (emu_list_empty(full)) {
            while (nic_claim(w.fab[1], 0)) /* garbage that fills the ring */
                ;
            w.fab[1]->ctl_count = NIC_CTL_MAX - 1;
            nic_answer(w.fab[1], nic_peer(w.fab[1], 0), &hello, sizeof hello);
        }
        nic_receive(w.fab[1]);
        nic_unlock(w.fab[1]);
    }
    CU_ASSERT_TRUE(w.fab[1]->counts.refused > 0);
    w.fab[1]->ctl_count = 1;
    CU_ASSERT_TRUE(fake_finish(w.fake, &get, 1));
    CU_ASSERT_TRUE(get.status == 0 && bytes_filled(mine, 100, 1));
    CU_ASSERT_TRUE(fake_finish(w.fake, send, SENDS));
    peers_close(&w);
    free(send);
}

/* --- failure of processes ----------------------------------------------------------- */

static void queue_close__cancels_and_frees_the_sender(void)
{
    static uint8_t out[LONG / 2], in[3][LONG / 2]; /* more than a process takes at a time */
    struct peers w;
    struct fabemu_req send[4], recv[3];

    peers_open(&w, 2, false);
    peers_recv(&w, 1, 0, 1, 0, in[0], sizeof in[0], &recv[0]); /* will be in progress */
    peers_recv(&w, 1, 0, 9, 0, in[1], sizeof in[1], &recv[1]); /* never matches */
    peers_send(&w, 0, 1, 1, out, sizeof out, &send[0]);
    peers_send(&w, 0, 1, 2, out, sizeof out, &send[1]); /* unexpected, at the sender */
    peers_send(&w, 0, 1, 3, out, 8000, &send[2]);       /* unexpected, at the receiver */
    for (int i = 0; i < 6; i++)
        fake_pump(w.fake);
    fabemu_queue_close(w.queue[1]);
    CU_ASSERT_EQUAL(recv[0].status, -ECANCELED);
    CU_ASSERT_EQUAL(recv[1].status, -ECANCELED);
    memset(in[0], 0x55, sizeof in[0]);
    CU_ASSERT_TRUE(fake_finish(w.fake, send, 3));
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(in[0][0], 0x55);
    CU_ASSERT_EQUAL(memcmp(in[0], in[0] + 1, sizeof in[0] - 1), 0);

    /* A message that arrives before the queue is opened again is dropped. */
    uint64_t closed = w.fab[1]->counts.closed;

    peers_send(&w, 0, 1, 4, out, 10, &send[3]);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(w.fab[1]->counts.closed, closed + 1);
    CU_ASSERT_EQUAL(fabemu_queue_open(w.fab[1], 1, &w.queue[1]), 0);
    peers_send(&w, 0, 1, 5, out, 10, &send[3]);
    peers_recv(&w, 1, 0, 0, UINT64_MAX, in[2], 10, &recv[2]);
    CU_ASSERT_TRUE(fake_finish(w.fake, &recv[2], 1));
    CU_ASSERT_TRUE(recv[2].status == 0 && recv[2].tag == 5);
    CU_ASSERT_EQUAL(w.fab[1]->peers[0].parked, 0);
    peers_close(&w);
}

static void send__waits_for_a_peer_and_gives_up(void)
{
    struct peers w;
    struct fabemu_req req, recv;
    struct fabemu_dest dest = peers_to(1, 0, 0);
    uint32_t v = 6, got = 0;
    int err;

    setenv("FABEMU_PEER_TIMEOUT_MS", "30", 1);
    peers_open(&w, 2, false);
    unsetenv("FABEMU_PEER_TIMEOUT_MS");
    fake_detach(w.fake, 1);
    peers_send(&w, 0, 1, 1, &v, 4, &req);
    while (fabemu_req_status(&req) == FABEMU_PENDING)
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(req.status, -EHOSTUNREACH);
    while ((err = fabemu_inject(w.queue[0], &dest, &v, 4)) == -EAGAIN)
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(err, -EHOSTUNREACH);
    CU_ASSERT_EQUAL(fake_dropped(w.fake), 0); /* no hello reaches an empty node */

    /* A process that attaches in time gets the message. */
    w.fab[0]->hello_limit_ns = UINT64_C(20000000000);
    peers_send(&w, 0, 1, 1, &v, 4, &req);
    fake_quiet(w.fake);
    w.fab[1] = fake_attach(w.fake, 1);
    fabemu_queue_open(w.fab[1], 1, &w.queue[1]);
    peers_recv(&w, 1, 0, 1, 0, &got, 4, &recv);
    while (fabemu_req_status(&recv) == FABEMU_PENDING)
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(got, 6);
    CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &(struct fabemu_dest){.node = 2}, NULL, 0, &req),
                    -EHOSTUNREACH);
    peers_close(&w);
}

/* A receive alone sends hellos, too. If a process attaches in time, the receive stays. */
static void receive__from_an_empty_node_ends(void)
{
    for (unsigned arrives = 0; arrives < 2; arrives++) {
        struct peers w = {.fake = fake_open(2, test_seed(), false)};
        struct fabemu_req req;
        uint32_t v = 7, got = 0;

        w.fab[0] = fake_attach(w.fake, 0);
        fabemu_queue_open(w.fab[0], 1, &w.queue[0]);
        w.fab[0]->hello_limit_ns = arrives ? UINT64_C(20000000000) : 20000000;
        peers_recv(&w, 0, 1, 1, 0, &got, 4, &req);
        if (arrives) {
            fake_quiet(w.fake);
            w.fab[1] = fake_attach(w.fake, 1);
            fabemu_queue_open(w.fab[1], 1, &w.queue[1]);
            peers_inject(&w, 1, 0, 1, &v, 4);
        }
        while (fabemu_req_status(&req) == FABEMU_PENDING)
            fake_pump(w.fake);
        CU_ASSERT_EQUAL(req.status, arrives ? 0 : -EHOSTUNREACH);
        CU_ASSERT_EQUAL(got, arrives ? v : 0);
        CU_ASSERT_EQUAL(fake_dropped(w.fake), 0);
        peers_close(&w);
    }
}

/* A bound that is off does not replace a short one. */
static void send__respects_its_bounds(void)
{
    for (unsigned off = 0; off < 2; off++) {
        struct peers w;
        struct fabemu_req req;
        uint64_t until;
        uint32_t v = 6;

        peers_open(&w, 2, false);
        w.fab[0]->hello_limit_ns = w.fab[0]->successor_limit_ns = off ? UINT64_MAX : 1000000;
        fake_detach(w.fake, 1);
        peers_send(&w, 0, 1, 1, &v, 4, &req);
        until = off ? emu_now_ns() + 50000000 : UINT64_MAX;
        while (fabemu_req_status(&req) == FABEMU_PENDING && emu_now_ns() < until)
            fake_pump(w.fake);
        CU_ASSERT_EQUAL(fabemu_req_status(&req), off ? FABEMU_PENDING : -EHOSTUNREACH);
        if (!off) {
            char why[96];

            fabemu_req_why(w.fab[0], &req, why, sizeof why);
            CU_ASSERT_PTR_NOT_NULL(strstr(why, "node 1"));
        }
        peers_close(&w);
    }
}

static void count_done(struct fabemu_req *req)
{
    ++*(int *)req->context;
}

/* An aborted operation ends at once, its memory is left alone, and no process waits for it. */
static void abort__ends_operations_in_progress(void)
{
    static uint8_t out[BIG], in[4][BIG];
    struct peers w;
    struct fabemu_req req[6], peers[2];
    uint64_t key;
    int dones = 0;

    peers_open(&w, 2, true);
    fabemu_register(w.fab[1], in[3], sizeof in[3], FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE, &key);
    peers_inject(&w, 0, 1, 5, "x", 1);
    peers_inject(&w, 1, 0, 5, "x", 1);
    fake_quiet(w.fake);
    peers_recv(&w, 1, 0, 1, 0, in[0], sizeof in[0], &peers[0]);
    peers_send(&w, 0, 1, 1, out, sizeof out, &req[0]); /* streams */
    peers_send(&w, 0, 1, 2, out, sizeof out, &req[1]); /* announces itself, in vain */
    memset(&req[2], 0, sizeof req[2]);
    memset(&req[3], 0, sizeof req[3]);
    fabemu_put(w.fab[0], 1, key, 0, out, sizeof out, &req[2]);
    fabemu_get(w.fab[0], 1, key, 0, in[1], sizeof in[1], &req[3]);
    peers_recv(&w, 0, FABEMU_ANY_NODE, 7, 0, in[2], 8, &req[4]);
    peers_send(&w, 0, 1, 3, out, 8000, &req[5]); /* partly in the ring */
    while (nic_op_of(&req[0])->state != NIC_OP_STREAM)
        fake_pump(w.fake);
    for (int i = 0; i < 6; i++) {
        req[i].done = count_done;
        req[i].context = &dones;
    }
    for (int i = 0; i < 5; i++)
        CU_ASSERT_EQUAL(fabemu_abort(w.fab[0], &req[i]), -ECANCELED);
    CU_ASSERT_EQUAL(dones, 5);
    while (fabemu_req_status(&req[5]) == FABEMU_PENDING &&
           nic_op_of(&req[5])->state == NIC_OP_EAGER)
        fake_pump(w.fake);
    CU_ASSERT_EQUAL(fabemu_abort(w.fab[0], &req[5]), 0);
    memset(in[1], 0x55, sizeof in[1]);
    CU_ASSERT_TRUE(fake_finish(w.fake, peers, 1));
    CU_ASSERT_EQUAL(peers[0].status, -ECANCELED);
    peers_recv(&w, 1, 0, 2, 0, in[0], sizeof in[0], &peers[1]);
    CU_ASSERT_TRUE(fake_finish(w.fake, &peers[1], 1));
    CU_ASSERT_EQUAL(peers[1].status, -ECANCELED);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(w.fab[1]->served, 0);
    CU_ASSERT_TRUE(in[1][0] == 0x55 && memcmp(in[1], in[1] + 1, sizeof in[1] - 1) == 0);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed + w.fab[1]->counts.malformed, 0);
    peers_close(&w);
}

/*
 * A forked child calls into a library whose adapter belongs to its parent: nothing hangs or
 * happens.
 */
static void forked__calls_return_at_once(void)
{
    struct peers w;
    struct fabemu_req req = {0};
    struct fabemu_queue *queue;
    struct fabemu_group *group;
    uint64_t key;
    char why[80];

    peers_open(&w, 2, false);
    atomic_store(&w.fab[0]->defunct, true);
    pthread_mutex_lock(&w.fab[0]->lock); /* as a thread of the parent may have */
    CU_ASSERT_EQUAL(fabemu_queue_open(w.fab[0], 9, &queue), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_queue_open_any(w.fab[0], 1, &queue), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &(struct fabemu_dest){.node = 1}, NULL, 0, &req),
                    -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_recv(w.queue[0], 1, 0, 0, NULL, 0, &req), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_probe(w.queue[0], 1, 0, 0, NULL, &req), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_cancel(w.queue[0], &req), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_abort(w.fab[0], &req), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_register(w.fab[0], &w, 1, FABEMU_REMOTE_READ, &key), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_unregister(w.fab[0], 1), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_put(w.fab[0], 1, 1, 0, &w, 1, &req), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_group_join(w.fab[0], 1, 2, &group), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_inject(w.queue[0], &(struct fabemu_dest){.node = 1}, NULL, 0),
                    -ENOTCONN);
    CU_ASSERT_FALSE(fabemu_drop_why(w.fab[0], 1, why, sizeof why));
    CU_ASSERT_EQUAL(fabemu_progress(w.fab[0]), 0);
    CU_ASSERT_EQUAL(fabemu_outside(w.fab[0], "why"), -ENOTCONN);
    CU_ASSERT_EQUAL(fabemu_set_tclass(w.fab[0], FABEMU_TCLASS_BULK), -ENOTCONN);
    w.fab[0]->simulated = true;
    fabemu_await_time(w.fab[0]);
    CU_ASSERT_EQUAL(atomic_load(&w.fab[0]->hostif.shared->sim.ready), 0);
    w.fab[0]->simulated = false;
    fabemu_queue_close(w.queue[0]);
    pthread_mutex_unlock(&w.fab[0]->lock);
    peers_close(&w);
}

/* Read a request from a process, and answer it with @text. */
static void control_answer(int fd, struct emu_json_buf *in, const char *text,
                           const struct emu_json_fds *fds)
{
    struct emu_json_buf out = {.bytes = 0};
    char *line = NULL;
    size_t bytes;

    while (!emu_json_take(in, 4096, &line, &bytes) && emu_json_read(in, fd, NULL, 0) > 0)
        ;
    free(line);
    CU_ASSERT_EQUAL(emu_json_put_line(&out, text, strlen(text), 4096), 0);
    CU_ASSERT_TRUE(emu_json_send(&out, fd, out.bytes, fds, 0) > 0);
    emu_json_free(&out);
}

/* A fabric that attaches a process, and refuses its first request. */
static void *refuser_main(void *argument)
{
    const struct emu_json_fds passed = {.fd = {eventfd(0, 0), eventfd(0, 0), -1}};
    struct emu_json_buf in = {.bytes = 0};
    int fd = accept(*(int *)argument, NULL, NULL);

    control_answer(fd, &in, "{\"ok\":true,\"node\":0,\"nodes\":2}", &passed);
    control_answer(fd, &in, "{\"ok\":false,\"errno\":22,\"error\":\"no\"}", NULL);
    control_answer(fd, &in, "{\"ok\":true}", NULL);
    emu_json_free(&in);
    close(passed.fd[0]);
    close(passed.fd[1]);
    close(fd);
    return NULL;
}

static void no_event(struct fabemu *fab, const char *name, struct json_object *object)
{
    (void)fab, (void)name, (void)object;
}

/* A control socket at which a thread of the test plays the fabric. */
struct played {
    struct sockaddr_un at;
    int listener;
    pthread_t thread;
};

static void played_begin(struct played *played, void *(*main)(void *listener))
{
    played->at = (struct sockaddr_un){.sun_family = AF_UNIX};
    played->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(played->at.sun_path, sizeof played->at.sun_path, "/tmp/nic_peer.%d", (int)getpid());
    unlink(played->at.sun_path);
    CU_ASSERT_EQUAL_FATAL(bind(played->listener, (struct sockaddr *)&played->at, sizeof played->at),
                          0);
    CU_ASSERT_EQUAL_FATAL(listen(played->listener, 1), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&played->thread, NULL, main, &played->listener), 0);
}

static void played_end(struct played *played)
{
    pthread_join(played->thread, NULL);
    close(played->listener);
    unlink(played->at.sun_path);
}

/* The caller frees the reply, so it must not get one that is freed already. */
static void control__returns_no_reply_that_refuses(void)
{
    struct json_object *reply = NULL;
    struct nic_control *control;
    struct emu_hostif_fds fds;
    struct fabemu_info info;
    struct played played;

    played_begin(&played, refuser_main);
    CU_ASSERT_EQUAL_FATAL(nic_control_attach(&control, played.at.sun_path,
                                             &(struct nic_job){.rank = 0}, &info, &fds),
                          0);
    CU_ASSERT_EQUAL_FATAL(nic_control_watch(control, NULL, no_event), 0);
    CU_ASSERT_EQUAL(nic_control_request(control, json_object_new_object(), &reply), -EINVAL);
    CU_ASSERT_PTR_NULL(reply);
    nic_control_detach(control, 0);
    played_end(&played);
    close(fds.memory);
    close(fds.bell);
}

/* A fabric that waits for other hosts when a process attaches, and does not reply. */
static void *waiter_main(void *argument)
{
    static const char wait[] = "{\"event\":\"wait\",\"limit_ms\":50}\n"
                               "{\"event\":\"wait\",\"limit_ms\":100000}\n";
    struct emu_json_buf in = {.bytes = 0};
    int fd = accept(*(int *)argument, NULL, NULL);
    struct json_object *line = NULL;

    while (!emu_json_next(&in, 65536, SIZE_MAX, &line))
        if (emu_json_read(&in, fd, NULL, 0) <= 0)
            break;
    CU_ASSERT_TRUE(emu_json_true(line, "wait"));
    json_object_put(line);
    CU_ASSERT_EQUAL(write(fd, wait, strlen(wait)), (ssize_t)strlen(wait));
    while (emu_json_read(&in, fd, NULL, 0) > 0)
        ;
    emu_json_free(&in);
    close(fd);
    return NULL;
}

/*
 * Slow hosts may delay the reply to "attach" beyond the library's own time limit, so the library
 * uses the limit that the fabric sends first, and ignores the event when it is repeated.
 */
static void control__waits_as_long_as_the_fabric_says_first(void)
{
    struct nic_control *control;
    struct emu_hostif_fds fds;
    struct fabemu_info info;
    struct played played;
    int64_t began_ms = emu_now_ms();

    played_begin(&played, waiter_main);
    CU_ASSERT_EQUAL(nic_control_attach(&control, played.at.sun_path, &(struct nic_job){.rank = 0},
                                       &info, &fds),
                    -ETIMEDOUT);
    CU_ASSERT_TRUE(emu_now_ms() - began_ms >= 50);
    played_end(&played);
}

static void pump_until_over(struct peers *w, struct fabemu_req *req, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        while (fabemu_req_status(&req[i]) == FABEMU_PENDING)
            fake_pump(w->fake);
}

/*
 * Every operation that waits for a process that exited without disconnecting, with and without a
 * successor.
 */
static void peer__exited_is_detected(void)
{
    enum { MANY = NIC_ORDER_WINDOW + 100 };
    static uint8_t memory[100000], out[100000], in[8000];
    struct fabemu_req *many = calloc(MANY, sizeof *many);

    for (unsigned successor = 0; successor < 2; successor++) {
        struct peers w;
        struct fabemu_req req[5] = {{0}};
        uint64_t key;

        peers_open(&w, 2, false);
        fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE,
                        &key);
        peers_inject(&w, 0, 1, 5, "x", 1);
        peers_recv(&w, 0, 1, 2, 0, in, sizeof in, &req[4]);
        fake_quiet(w.fake);
        peers_send(&w, 1, 0, 2, out, sizeof in, &req[3]); /* more segments than are sent at once */
        fake_step(w.fake);
        fabemu_progress(w.fab[0]);
        CU_ASSERT_TRUE(w.fab[0]->peers[1].filling);
        peers_send(&w, 0, 1, 1, out, sizeof out, &req[0]);
        fabemu_put(w.fab[0], 1, key, 0, out, sizeof out, &req[1]);
        fabemu_get(w.fab[0], 1, key, 0, in, 100, &req[2]);
        for (uint32_t i = 0; i < MANY; i++) /* the last ones wait for an acknowledgment */
            peers_send(&w, 0, 1, 3, out, 8, &many[i]);
        fake_detach(w.fake, 1);
        if (successor)
            w.fab[1] = fake_attach(w.fake, 1);
        w.fab[0]->watch_ns = 0;
        w.fab[0]->hello_limit_ns = successor ? UINT64_C(20000000000) : 20000000;
        pump_until_over(&w, req, 5);
        pump_until_over(&w, many, MANY);
        for (int i = 0; i < 5; i++)
            CU_ASSERT_EQUAL(req[i].status, i == 3 ? -ECANCELED : -EHOSTUNREACH);
        CU_ASSERT_EQUAL(many[MANY - 1].status, -EHOSTUNREACH);
        peers_close(&w);
    }
    free(many);
}

/* A process that is attached but does not serve us yet is queried, answers, and is waited for. */
static void peer__slow_is_waited_for(void)
{
    static uint8_t out[100000], in[100000];
    struct peers w;
    struct fabemu_req req[2];

    peers_open(&w, 2, true);
    peers_send(&w, 0, 1, 1, out, sizeof out, &req[0]);
    fake_quiet(w.fake);
    for (unsigned i = 0; i < 20; i++) {
        w.fab[0]->watch_ns = 0;
        while (!emu_listed(&w.fab[0]->peers[1].connect))
            fake_pump(w.fake);
        while (emu_listed(&w.fab[0]->peers[1].connect))
            fake_pump(w.fake);
    }
    CU_ASSERT_EQUAL(req[0].status, FABEMU_PENDING);
    peers_recv(&w, 1, 0, 1, 0, in, sizeof in, &req[1]);
    pump_until_over(&w, req, 2);
    CU_ASSERT_EQUAL(req[0].status, 0);
    CU_ASSERT_EQUAL(req[1].status, 0);
    peers_close(&w);
}

static void send_hello(struct peers *w, uint32_t at, uint32_t from, uint64_t incarnation,
                       uint64_t known)
{
    struct nic_wire_hello hello = {.what = NIC_HELLO, .incarnation = incarnation, .known = known};
    struct emu_seg seg = {
        .hdr = {.dst = at, .src = from, .len = sizeof hello, .kind = EMU_UNICAST},
    };

    memcpy(seg.payload, &hello, sizeof hello);
    CU_ASSERT_TRUE(fake_inject(w->fake, at, &seg));
    fabemu_progress(w->fab[at]);
}

static void news(struct peers *w, uint32_t at)
{
    nic_lock(w->fab[at]);
    nic_peer_check_all(w->fab[at]);
    nic_unlock(w->fab[at]);
}

/*
 * Reports of a death and hellos arrive on two paths at any time: only the current process counts.
 */
static void peer__successor_survives_old_reports(void)
{
    struct peers w;
    struct nic_peer *peer;
    struct fabemu_req req;
    uint64_t first, second;
    uint32_t got = 0;

    peers_open(&w, 2, false);
    peer = &w.fab[0]->peers[1];
    peers_inject(&w, 0, 1, 5, "x", 1);
    fake_quiet(w.fake);
    first = w.fab[1]->incarnation;
    news(&w, 0);
    /* it is alive: further reports are ignored */
    CU_ASSERT_TRUE(peer->incarnation == first && peer->open);
    fake_detach(w.fake, 1);
    news(&w, 0);
    CU_ASSERT_TRUE(!peer->incarnation && peer->first == first + 1);
    send_hello(&w, 0, 1, first, w.fab[0]->incarnation); /* in flight when the process died */
    CU_ASSERT_EQUAL(peer->incarnation, 0);
    CU_ASSERT_EQUAL(fabemu_inject(w.queue[0], &(struct fabemu_dest){.node = 1, .queue = 1}, "y", 1),
                    -EHOSTUNREACH); /* 'x' was not confirmed: one operation reports it */
    w.fab[1] = fake_attach(w.fake, 1);
    second = w.fab[1]->incarnation;
    CU_ASSERT_EQUAL(second, first + 1);
    fabemu_queue_open(w.fab[1], 1, &w.queue[1]);

    /* This side must connect: the new process only receives. A receive may be posted before. */
    peers_recv(&w, 0, 1, 6, 0, &got, 4, &req);
    peers_inject(&w, 0, 1, 5, "y", 1);
    fake_quiet(w.fake);
    CU_ASSERT_TRUE(peer->open && peer->incarnation == second);
    news(&w, 0); /* of the first one's death, late */
    send_hello(&w, 0, 1, first, w.fab[0]->incarnation);
    CU_ASSERT_TRUE(peer->open && peer->incarnation == second);
    CU_ASSERT_EQUAL(w.fab[0]->counts.wrong_incarnation, 2);
    peers_inject(&w, 1, 0, 6, &(uint32_t){8}, 4);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    CU_ASSERT_EQUAL(got, 8);
    peers_close(&w);
}

static void node_died__ends_operations_that_wait_for_it(void)
{
    static uint8_t out[100000], in[100000];
    struct peers w;
    struct fabemu_req req[4];
    uint64_t key;

    peers_open(&w, 3, true);
    fabemu_register(w.fab[1], out, sizeof out, FABEMU_REMOTE_READ, &key);
    peers_inject(&w, 1, 0, 5, "x", 1);
    fake_quiet(w.fake);
    peers_recv(&w, 0, 1, 1, 0, in, 10, &req[0]);
    peers_send(&w, 0, 1, 1, out, sizeof out, &req[1]);
    memset(&req[2], 0, sizeof req[2]);
    fabemu_get(w.fab[0], 1, key, 0, in, sizeof in, &req[2]);
    peers_recv(&w, 0, FABEMU_ANY_NODE, 1, 0, in, 10, &req[3]);
    for (int i = 0; i < 4; i++)
        fake_pump(w.fake);
    fake_detach(w.fake, 1);
    news(&w, 0);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(req[i].status, -EHOSTUNREACH);
    CU_ASSERT_EQUAL(req[3].status, FABEMU_PENDING);
    w.fab[0]->hello_limit_ns = 20000000; /* new operations ask for a successor */
    peers_recv(&w, 0, 1, 1, 0, in, 10, &req[0]);
    peers_send(&w, 0, 1, 1, out, 10, &req[1]);
    CU_ASSERT_EQUAL(req[0].status, FABEMU_PENDING);
    pump_until_over(&w, req, 2);
    CU_ASSERT_EQUAL(req[0].status, -EHOSTUNREACH);
    CU_ASSERT_EQUAL(req[1].status, -EHOSTUNREACH);
    CU_ASSERT_EQUAL(fabemu_inject(w.queue[0], &(struct fabemu_dest){.node = 1}, "", 0),
                    -EHOSTUNREACH);
    peers_recv(&w, 0, 1, 5, 0, in, 10, &req[0]); /* messages that had arrived are still there */
    CU_ASSERT_EQUAL(req[0].status, 0);
    fabemu_cancel(w.queue[0], &req[3]);
    peers_close(&w);
}

/*
 * A process dies when only the first part of its message, or only the RTS, has arrived. The receive
 * of this message fails. A short message that the process sent later goes to the next receive.
 */
static void node_died__later_messages_do_not_replace_lost_ones(void)
{
    static const size_t lost[] = {NIC_EAGER_LIMIT, NIC_EAGER_LIMIT + 1, BIG};
    static uint8_t out[BIG], in[BIG];

    for (unsigned i = 0; i < 3 * 2; i++) {
        bool probed = i % 2;
        struct fabemu_message *claim = NULL;
        struct fabemu_iov into = {.base = in, .bytes = sizeof in};
        struct fabemu_req send, recv[2];
        struct peers w;

        peers_open(&w, 2, false);
        peers_recv(&w, 0, 1, 1, 0, in, 1, &recv[0]);
        peers_inject(&w, 1, 0, 1, "x", 1);
        CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, recv, 1)); /* they are connected */
        peers_send(&w, 1, 0, 7, out, lost[i / 2], &send);
        if (lost[i / 2] > NIC_EAGER_LIMIT)
            peers_inject(&w, 1, 0, 7, "late", 4);
        for (int k = 0; k < 3; k++)
            fake_pump(w.fake);
        CU_ASSERT_EQUAL(send.status, FABEMU_PENDING);
        fake_detach(w.fake, 1);
        news(&w, 0);
        if (probed) {
            CU_ASSERT_EQUAL_FATAL(fabemu_probe(w.queue[0], 1, 7, 0, &claim, &recv[0]), 0);
            CU_ASSERT_EQUAL(recv[0].bytes, lost[i / 2]);
            memset(recv, 0, sizeof recv);
            CU_ASSERT_EQUAL(fabemu_recv_claimed(w.queue[0], claim, &into, 1, &recv[0]), 0);
        } else {
            peers_recv(&w, 0, 1, 7, 0, in, sizeof in, &recv[0]);
        }
        CU_ASSERT_EQUAL(recv[0].status, -EHOSTUNREACH);
        if (lost[i / 2] > NIC_EAGER_LIMIT) {
            peers_recv(&w, 0, 1, 7, 0, in, sizeof in, &recv[1]);
            CU_ASSERT_TRUE(recv[1].status == 0 && recv[1].bytes == 4);
        }
        peers_close(&w);
    }
}

/*
 * A new process at a node starts with new streams, whichever side sends first. Operations that name
 * it do not get an error because of its predecessor.
 */
static void peer__replaced_processes_reconnect(void)
{
    struct peers w;
    struct fabemu_req recv;
    uint32_t got;

    peers_open(&w, 2, true);
    for (uint32_t round = 0; round < 6; round++) {
        uint32_t first = round % 2, n = 1 + round * 3;

        for (uint32_t v = 0; v < n; v++) {
            for (uint32_t turn = 0; turn < 2; turn++) {
                uint32_t from = first ^ turn;
                struct fabemu_iov into = {.base = &got, .bytes = 4};
                struct fabemu_dest dest = peers_to(!from, 0, 0);

                dest.incarnation = fabemu_info(w.fab[!from])->incarnation;
                recv = (struct fabemu_req){.incarnation = fabemu_info(w.fab[from])->incarnation};
                CU_ASSERT_EQUAL(fabemu_recv(w.queue[!from], from, 0, 0, &into, 1, &recv), 0);
                while (fabemu_inject(w.queue[from], &dest, &v, 4))
                    fake_pump(w.fake);
                CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &recv, 1));
                CU_ASSERT_TRUE(recv.status == 0 && got == v);
                CU_ASSERT_TRUE(recv.src_node == from &&
                               recv.src_incarnation == w.fab[from]->incarnation);
            }
        }
        fake_quiet(w.fake);
        fake_detach(w.fake, 1);
        w.fab[1] = fake_attach(w.fake, 1);
        fabemu_queue_open(w.fab[1], 1, &w.queue[1]);
    }
    peers_close(&w);
}

/* --- hostile input ------------------------------------------------------------------ */

/* Inject @seg as node 1, again and again. Returns how many segments node 0 answered with. */
static uint32_t answers_to(struct peers *w, const struct emu_seg *seg, uint32_t count)
{
    uint32_t before = w->fab[0]->hostif.up_tail;

    for (; count; count--) {
        CU_ASSERT_TRUE(fake_inject(w->fake, 0, seg));
        fabemu_progress(w->fab[0]);
    }
    CU_ASSERT_TRUE(emu_list_empty(&w->fab[0]->ctls));
    return w->fab[0]->hostif.up_tail - before;
}

/*
 * The network loses nothing, so answers to a peer that does not read would fill it, and our own
 * ring.
 */
static void hello__many_have_few_answers(void)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        struct peers w;
        struct nic_wire_hello hello = {.what = NIC_HELLO, .want = 1};
        struct nic_wire_head ack = {.what = NIC_ACK, .check = 4711}; /* a stranger's */
        struct nic_wire_disconnect bye = {.head = {.what = NIC_DISCONNECT, .check = 4711}};
        static const uint8_t len[] = {sizeof hello, sizeof ack, sizeof bye};
        struct emu_seg seg = {.hdr = {.src = 1, .len = len[kind]}};
        struct fabemu_req send, recv;
        uint32_t answers, v = 7, got = 0;

        peers_open(&w, 2, false);
        hello.incarnation = fabemu_info(w.fab[1])->incarnation;
        bye.incarnation = hello.incarnation - 1; /* its predecessor's, late */
        memcpy(seg.payload,
               kind == 0   ? (void *)&hello
               : kind == 1 ? (void *)&ack
                           : &bye,
               len[kind]);
        answers = answers_to(&w, &seg, 5000);
        CU_ASSERT_TRUE(answers >= 1 && answers < 500);
        peers_recv(&w, 0, 1, 1, 0, &got, 4, &recv); /* the attached process still connects */
        peers_send(&w, 1, 0, 1, &v, 4, &send);
        pump_until_over(&w, &recv, 1);
        CU_ASSERT_TRUE(recv.status == 0 && got == v);
        fake_detach(w.fake, 1);
        w.fab[1] = fake_attach(w.fake, 1);
        fabemu_queue_open(w.fab[1], 1, &w.queue[1]);
        peers_recv(&w, 0, FABEMU_ANY_NODE, 2, 0, &got, 4, &recv);
        peers_send(&w, 1, 0, 2, &v, 4, &send); /* and its successor at once */
        CU_ASSERT_TRUE(fake_finish(w.fake, &recv, 1));
        peers_close(&w);
    }
}

/* Draw a segment for node 0 that is invalid in all but some of its fields. */
static void draw_garbage(struct peers *w, struct emu_seg *seg)
{
    uint64_t r = test_random(&w->random);

    for (unsigned k = 0; k < sizeof *seg; k += 8)
        memcpy((uint8_t *)seg + k, &(uint64_t){test_random(&w->random)}, 8);
    /* the fabric sets the source, but the receiver must not rely on it */
    seg->hdr.src = r % 8 == 0 ? seg->hdr.src : 1;
    seg->hdr.dst = r % 8 == 1 ? seg->hdr.dst : 0;
    seg->hdr.kind = r / 8 % 4 ? (uint8_t)EMU_UNICAST : seg->hdr.kind % 8;
    if (r / 32 % 2)
        seg->hdr.seq = w->fab[0]->peers[1].rx_next + (uint32_t)(r / 64 % 40);
    seg->payload[0] = (uint8_t)(r / 4096 % (NIC_HELLO + 1));
    /* a hello states the sender's own incarnation, so it may be valid */
    if (seg->payload[0] == NIC_HELLO)
        memcpy(seg->payload + offsetof(struct nic_wire_hello, incarnation), &w->fab[1]->incarnation,
               8);
    else if (r / 65536 % 4) { /* a sender that knows the pair's secret */
        memcpy(seg->payload + 4, &w->fab[0]->peers[1].rx_check, 4);
        if (seg->payload[0] == NIC_DATA)
            memcpy(seg->payload + 2, &w->fab[0]->peers[1].rx_check, 2);
        if (r / (1 << 20) % 2)
            memset(seg->payload + 18, 0, 20); /* small numbers in ids and lengths */
    }
}

static void receive__counts_garbage_and_incarnations(void)
{
    static uint8_t memory[5000];
    struct peers w;
    struct fabemu_req recv[8], get = {0};
    uint64_t key;
    uint32_t v, got = 0;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[0], memory, sizeof memory, FABEMU_REMOTE_WRITE, &key);
    peers_inject(&w, 1, 0, 99, "x", 1); /* they are connected */
    peers_inject(&w, 0, 1, 99, "x", 1);
    fake_quiet(w.fake);
    for (unsigned i = 0; i < 8; i++)
        peers_recv(&w, 0, 1, 1000 + i, 0, memory, 100, &recv[i]);
    fabemu_get(w.fab[0], 1, 1, 0, memory, 5000, &get);
    for (uint32_t i = 0; i < 200000; i++) {
        struct emu_seg seg;

        draw_garbage(&w, &seg);
        while (!fake_inject(w.fake, 0, &seg))
            fabemu_progress(w.fab[0]);
        fabemu_progress(w.fab[0]);
        fake_step(w.fake);
        fabemu_progress(w.fab[1]);
    }
    CU_ASSERT_TRUE(w.fab[0]->counts.malformed > 1000);
    CU_ASSERT_TRUE(w.fab[0]->counts.wrong_incarnation > 100);
    CU_ASSERT_TRUE(w.fab[0]->counts.stale > 10);
    for (unsigned i = 0; i < 8; i++)
        fabemu_cancel(w.queue[0], &recv[i]);
    fake_quiet(w.fake);

    /* The two can still communicate after node 1's process is replaced. */
    fake_detach(w.fake, 1);
    w.fab[1] = fake_attach(w.fake, 1);
    fabemu_queue_open(w.fab[1], 1, &w.queue[1]);
    peers_recv(&w, 0, 1, 4242, 0, &got, 4, &recv[0]);
    v = 17;
    peers_inject(&w, 1, 0, 4242, &v, 4);
    CU_ASSERT_TRUE(fake_finish(w.fake, recv, 1));
    CU_ASSERT_EQUAL(got, 17);
    peers_close(&w);
}

/* --- threads ------------------------------------------------------------------------ */

struct pair {
    struct peers *w;
    uint32_t me;
    uint32_t tag;
};

static void *run_pingpong(void *argument)
{
    struct pair *p = argument;
    struct peers *w = p->w;
    uint32_t peer = !p->me;
    uint8_t *buf = malloc(30000);

    for (uint32_t i = 0; i < 300; i++) {
        struct fabemu_req send, recv;
        size_t bytes = i % 10 == 9 ? 30000 : i % 3 * 200;

        peers_recv(w, p->me, peer, p->tag, 0, buf, 30000, &recv);
        peers_send(w, p->me, peer, p->tag, buf, bytes, &send);
        if (fabemu_wait(w->fab[p->me], &send) || fabemu_wait(w->fab[p->me], &recv) ||
            recv.bytes != bytes)
            abort();
    }
    free(buf);
    return NULL;
}

/* Two threads per process and the adapters' own, all at once, including sleeping and waking. */
static void wait__works_from_many_threads(void)
{
    struct peers w;
    pthread_t thread[4];
    struct pair pair[4];

    peers_open(&w, 2, false);
    for (unsigned i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(nic_thread_start(&w.fab[i]->thread, w.fab[i]), 0);
    fake_start(w.fake);
    for (unsigned i = 0; i < 4; i++) {
        pair[i] = (struct pair){.w = &w, .me = i % 2, .tag = i / 2};
        pthread_create(&thread[i], NULL, run_pingpong, &pair[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    fake_stop(w.fake);
    for (unsigned i = 0; i < 2; i++)
        nic_thread_stop(w.fab[i]->thread);
    peers_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(put_get__move_memory),
        CASE(put_get__refuse_missing_permissions),
        CASE(unregister__ends_transfers_in_progress),
        CASE(get__ignores_data_of_an_older_one),
        CASE(put_get__wait_their_turn),
        CASE(answers__needed_are_not_dropped),
        CASE(queue_close__cancels_and_frees_the_sender),
        CASE(send__waits_for_a_peer_and_gives_up),
        CASE(receive__from_an_empty_node_ends),
        CASE(send__respects_its_bounds),
        CASE(abort__ends_operations_in_progress),
        CASE(forked__calls_return_at_once),
        CASE(control__returns_no_reply_that_refuses),
        CASE(control__waits_as_long_as_the_fabric_says_first),
        CASE(peer__exited_is_detected),
        CASE(peer__slow_is_waited_for),
        CASE(peer__successor_survives_old_reports),
        CASE(node_died__ends_operations_that_wait_for_it),
        CASE(node_died__later_messages_do_not_replace_lost_ones),
        CASE(peer__replaced_processes_reconnect),
        CASE(hello__many_have_few_answers),
        CASE(receive__counts_garbage_and_incarnations),
        CASE(wait__works_from_many_threads),
        {0},
    };

    return test_run("nic_peer", cases);
}
