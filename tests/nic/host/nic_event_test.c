/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_event_test.c - counted events: which completions they count, which operations they start, and
 * how they end.
 *
 * One thread steps the adapters and a fake fabric alternately, except where noted.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/hostif/calls.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/trace.h"
#include "tests/test.h"
#include "tests/fixtures/host/team.h"

static struct fabemu_event *event_open(struct peers *w, uint32_t node, struct fabemu_event *event)
{
    CU_ASSERT_EQUAL_FATAL(fabemu_event_open(w->fab[node], event), 0);
    return event;
}

static uint64_t expose(struct peers *w, uint32_t node, void *at, size_t bytes)
{
    uint64_t key = 0;

    CU_ASSERT_EQUAL_FATAL(fabemu_register(w->fab[node], at, bytes,
                                          FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE |
                                              FABEMU_REMOTE_ATOMIC,
                                          &key),
                          0);
    return key;
}

/* --- counting ----------------------------------------------------------------------- */

static void event__counts_completions_of_all_kinds(void)
{
    struct peers w;
    struct fabemu_event done;
    struct fabemu_req req[5] = {{0}};
    static uint8_t memory[5000], mine[5000], in[8];
    uint64_t key, one = 1;

    peers_open(&w, 2, true);
    key = expose(&w, 1, memory, sizeof memory);
    event_open(&w, 0, &done);
    for (unsigned i = 0; i < 5; i++)
        req[i].event = &done;
    struct fabemu_atomic add = {.node = 1, .key = key, .type = FABEMU_U64, .operand = &one};
    struct fabemu_iov iov = {.base = in, .bytes = 8};
    struct fabemu_dest dest = peers_to(1, 3, 0);
    fabemu_put(w.fab[0], 1, key, 8, mine, 4000, &req[0]);
    fabemu_get(w.fab[0], 1, key, 0, mine, 10, &req[1]);
    fabemu_atomic(w.fab[0], &add, &req[2]);
    fabemu_recv(w.queue[0], 1, 7, 0, &iov, 1, &req[3]);
    fabemu_send(w.queue[0], &dest, &iov, 1, &req[4]);
    peers_inject(&w, 1, 0, 7, "12345678", 8);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 5));
    CU_ASSERT_EQUAL(fabemu_event_count(&done), 5);
    CU_ASSERT_EQUAL(done.status, 0);
    CU_ASSERT_EQUAL(fabemu_event_add(&done, 10), 0);
    CU_ASSERT_EQUAL(fabemu_event_count(&done), 15);
    CU_ASSERT_EQUAL(fabemu_event_wait(&done, 15), 0);
    fabemu_event_close(&done);
    peers_close(&w);
}

/* Each put counts when all of it has arrived, and each atomic that may write. */
static void region__counts_what_peers_write(void)
{
    struct peers w;
    struct fabemu_event event;
    static uint8_t memory[300000];
    uint64_t key, one = 1, old;

    peers_open(&w, 3, true);
    key = expose(&w, 1, memory, sizeof memory);
    event_open(&w, 1, &event);
    CU_ASSERT_EQUAL(fabemu_register_event(w.fab[1], key, FABEMU_REMOTE_WRITE, &event), 0);
    CU_ASSERT_EQUAL(fabemu_register_event(w.fab[1], key ^ 1 << 21, FABEMU_REMOTE_WRITE, &event),
                    -ENOENT);
    for (unsigned i = 0; i < 6; i++) {
        static const size_t sizes[] = {0, 1, 192, 193, 300000};
        struct fabemu_req req = {0};
        struct fabemu_atomic what = {
            .node = 1, .key = key, .type = FABEMU_U64, .operand = &one, .result = &old};

        if (i < 5)
            fabemu_put(w.fab[i % 2 * 2], 1, key, 0, memory, sizes[i], &req);
        else
            fabemu_atomic(w.fab[0], &what, &req);
        CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1) && req.status == 0);
        CU_ASSERT_EQUAL(fabemu_event_count(&event), i + 1);
    }
    struct fabemu_req req[3] = {{0}}; /* these write nothing */
    struct fabemu_atomic fetch = {
        .node = 1, .key = key, .op = FABEMU_ATOMIC_FETCH, .type = FABEMU_U64, .result = &old};
    fabemu_atomic(w.fab[0], &fetch, &req[0]);
    fabemu_get(w.fab[0], 1, key, 0, &old, 8, &req[1]);
    fabemu_put(w.fab[0], 1, key, 299999, memory, 2, &req[2]);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 3));
    CU_ASSERT_EQUAL(fabemu_event_count(&event), 6);
    fabemu_register_event(w.fab[1], key, FABEMU_REMOTE_WRITE, NULL);
    memset(&req[0], 0, sizeof req[0]);
    fabemu_put(w.fab[0], 1, key, 0, memory, 1, &req[0]);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 1));
    CU_ASSERT_EQUAL(fabemu_event_count(&event), 6);
    fabemu_event_close(&event);
    peers_close(&w);
}

/* Gets and fetching atomics are reads; the region and the queue that they name count them. */
static void region_and_queue__count_reads_and_writes(void)
{
    static uint8_t memory[300000];
    struct peers w;
    struct fabemu_event region[2], queue[2];
    uint64_t key, one = 1, old;
    struct fabemu_atomic add = {.node = 1, .type = FABEMU_U64, .operand = &one};

    peers_open(&w, 2, true);
    add.key = key = expose(&w, 1, memory, sizeof memory);
    for (unsigned i = 0; i < 2; i++) {
        unsigned access = i ? FABEMU_REMOTE_WRITE : FABEMU_REMOTE_READ;

        fabemu_register_event(w.fab[1], key, access, event_open(&w, 1, &region[i]));
        CU_ASSERT_EQUAL(fabemu_queue_event(w.queue[1], access, event_open(&w, 1, &queue[i])), 0);
    }
    CU_ASSERT_EQUAL(fabemu_queue_event(w.queue[1], 0, &queue[0]), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_queue_event(w.queue[1], FABEMU_REMOTE_ATOMIC, &queue[0]), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_queue_event(w.queue[0], FABEMU_REMOTE_READ, &queue[0]), -EINVAL);
    for (unsigned i = 0; i < 9; i++) {
        struct fabemu_req req = {.targets_queue = i != 3 && i != 8,
                                 .target_queue = i == 2 ? 4711 : fabemu_queue_id(w.queue[1])};

        add.result = i == 5 ? &old : NULL;
        if (i < 4) /* the last two name no open queue */
            fabemu_put(w.fab[0], 1, key, 0, memory, i == 1 ? sizeof memory : i, &req);
        else if (i < 6)
            fabemu_atomic(w.fab[0], &add, &req);
        else
            fabemu_get(w.fab[0], 1, key, 0, memory, i == 6 ? 0 : sizeof memory, &req);
        CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1) && req.status == 0);
    }
    CU_ASSERT_EQUAL(fabemu_event_count(&region[0]), 4); /* three gets, one atomic */
    CU_ASSERT_EQUAL(fabemu_event_count(&region[1]), 6); /* four puts, two atomics */
    CU_ASSERT_EQUAL(fabemu_event_count(&queue[0]), 3);
    CU_ASSERT_EQUAL(fabemu_event_count(&queue[1]), 3);
    for (unsigned i = 0; i < 2; i++) {
        fabemu_event_close(&region[i]);
        fabemu_event_close(&queue[i]);
    }
    struct fabemu_req req = {.targets_queue = true, .target_queue = fabemu_queue_id(w.queue[1])};
    fabemu_put(w.fab[0], 1, key, 0, memory, 8, &req); /* the closed events count nothing */
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1) && req.status == 0);
    CU_ASSERT_EQUAL(fabemu_event_count(&region[1]), 6);
    peers_close(&w);
}

/* --- arming ------------------------------------------------------------------------- */

/* Armed operations start in order of thresholds, equal ones in post order, late ones at once. */
static void armed__start_when_their_count_is_reached(void)
{
    static const uint64_t thresholds[] = {5, 2, 9, 2, 0, 7, 5, 100};
    struct peers w;
    struct fabemu_event event;
    struct fabemu_req req[9] = {{0}}, recv;
    uint32_t order[] = {4, 1, 3, 0, 6, 5, 2};
    uint64_t v[9], got;

    peers_open(&w, 2, true);
    event_open(&w, 0, &event);
    for (uint64_t i = 0; i < 8; i++) {
        struct fabemu_iov iov = {.base = &v[i], .bytes = 8};
        struct fabemu_dest dest = peers_to(1, 3, 0);

        req[i].after = &event;
        req[i].threshold = thresholds[i];
        v[i] = 555; /* the value is read when the operation starts */
        CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &iov, 1, &req[i]), 0);
        v[i] = i;
    }
    for (uint64_t count = 1; count <= 10; count++) {
        fabemu_event_add(&event, 1);
        fake_quiet(w.fake);
        for (uint32_t i = 0; i < 8; i++)
            CU_ASSERT_EQUAL(fabemu_req_status(&req[i]) != FABEMU_PENDING, thresholds[i] <= count);
    }
    for (uint32_t i = 0; i < 7; i++) {
        peers_recv(&w, 1, 0, 3, 0, &got, 8, &recv);
        CU_ASSERT_TRUE(fake_finish(w.fake, &recv, 1));
        CU_ASSERT_EQUAL(got, order[i]);
    }
    CU_ASSERT_EQUAL(fabemu_abort(w.fab[0], &req[7]), -ECANCELED);
    fabemu_event_add(&event, 1000);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(fabemu_probe(w.queue[1], 0, 3, 0, NULL, &recv), -ENOMSG);
    fabemu_event_close(&event);
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/*
 * An armed receive takes no message before it starts. Then it takes one that has arrived, or a
 * later one. If its queue has closed meanwhile, it ends.
 */
static void armed__receives_are_posted_when_they_start(void)
{
    struct peers w;
    struct fabemu_event event;
    struct fabemu_queue *other;
    struct fabemu_req req[5] = {{0}}, plain;
    uint64_t got[5] = {0}, first = 0;

    peers_open(&w, 2, true);
    CU_ASSERT_EQUAL(fabemu_queue_open(w.fab[0], 77, &other), 0);
    event_open(&w, 0, &event);
    for (uint32_t i = 0; i < 5; i++) {
        struct fabemu_iov iov = {.base = &got[i], .bytes = 8};

        req[i].after = &event;
        req[i].threshold = i + 1;
        CU_ASSERT_EQUAL(fabemu_recv(i == 3 ? other : w.queue[0], i % 2 ? 1 : FABEMU_ANY_NODE, 7, 0,
                                    &iov, 1, &req[i]),
                        0);
    }
    peers_recv(&w, 0, 1, 7, 0, &first, 8, &plain);
    for (uint64_t i = 10; i < 12; i++)
        peers_inject(&w, 1, 0, 7, &i, 8);
    CU_ASSERT_TRUE(fake_finish(w.fake, &plain, 1));
    fake_quiet(w.fake);
    CU_ASSERT(first == 10 && fabemu_req_status(&req[0]) == FABEMU_PENDING);
    CU_ASSERT_EQUAL(fabemu_cancel(w.queue[0], &req[0]), -ENOENT);
    fabemu_queue_close(other);
    fabemu_event_add(&event, 4);
    CU_ASSERT(fabemu_req_status(&req[0]) == 0 && got[0] == 11);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[3]), -ECANCELED);
    for (uint64_t i = 20; i < 22; i++)
        peers_inject(&w, 1, 0, 7, &i, 8);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 4));
    CU_ASSERT(got[1] == 20 && got[2] == 21 && got[3] == 0);
    CU_ASSERT_EQUAL(fabemu_disarm(w.fab[0], &req[4]), 0);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[4]), -ECANCELED);
    fabemu_event_close(&event);
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/* A token circulates by armed puts only: nothing is posted after the start. */
static void armed__circulate_a_token(void)
{
    enum { NODES = 5, ROUNDS = 40 };
    struct peers w;
    struct fabemu_event event[NODES];
    struct fabemu_req *req = calloc(NODES * ROUNDS, sizeof *req), first = {0};
    uint8_t cell[NODES];
    uint64_t key[NODES];

    peers_open(&w, NODES, true);
    for (uint32_t i = 0; i < NODES; i++) {
        key[i] = expose(&w, i, &cell[i], 1);
        fabemu_register_event(w.fab[i], key[i], FABEMU_REMOTE_WRITE, event_open(&w, i, &event[i]));
    }
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t next = (i + 1) % NODES;

        for (uint32_t r = 0; r < ROUNDS; r++) {
            struct fabemu_req *put = &req[i * ROUNDS + r];

            put->after = &event[i];
            put->threshold = r + 1;
            CU_ASSERT_EQUAL(fabemu_put(w.fab[i], next, key[next], 0, &cell[i], 1, put), 0);
        }
    }
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(fabemu_event_count(&event[0]), 0);
    fabemu_put(w.fab[NODES - 1], 0, key[0], 0, "!", 1, &first);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, NODES * ROUNDS));
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(fabemu_event_count(&event[0]), ROUNDS + 1);
    for (uint32_t i = 0; i < NODES; i++) {
        CU_ASSERT_EQUAL(cell[i], '!');
        CU_ASSERT_TRUE(peers_clean(w.fab[i]));
        fabemu_event_close(&event[i]);
    }
    peers_close(&w);
    free(req);
}

/* Each operation completes at once and starts the next one, in a loop, not by recursion. */
static void armed__long_chains_do_not_recurse(void)
{
    enum { MANY = 200000 };
    struct peers w;
    struct fabemu_event event;
    struct fabemu_req *req = calloc(MANY, sizeof *req);

    peers_open(&w, 1, false);
    event_open(&w, 0, &event);
    for (uint64_t i = 0; i < MANY; i++) {
        req[i].event = &event;
        CU_ASSERT_EQUAL(fabemu_event_when(&event, i + 1, &req[i]), 0);
    }
    CU_ASSERT_EQUAL(fabemu_event_count(&event), 0);
    fabemu_event_add(&event, 1);
    CU_ASSERT_EQUAL(fabemu_event_count(&event), MANY + 1);
    CU_ASSERT_EQUAL(req[MANY - 1].status, 0);
    fabemu_event_close(&event);
    peers_close(&w);
    free(req);
}

/* Collectives, words, conditionals and broadcast puts can wait for events as well. */
static void armed__may_be_group_operations(void)
{
    struct team t;
    struct fabemu_event event[3];
    struct fabemu_req req[3][6] = {{{0}}};
    uint64_t memory[3][2] = {{0}}, in[3] = {1, 2, 4}, sum[3] = {0}, key;
    void *const at[3] = {memory[0], memory[1], memory[2]};

    team_open(&t, 3, true);
    key = team_register(&t, at, sizeof memory[0]);
    for (uint32_t i = 0; i < 3; i++) {
        event_open(&t.w, i, &event[i]);
        for (unsigned k = 0; k < 6; k++) {
            req[i][k].after = req[i][k].event = &event[i];
            req[i][k].threshold = 1 + k; /* each after the previous one */
        }
        fabemu_barrier(t.group[i], &req[i][0]);
        fabemu_group_set(t.group[i], 3, 1 + i, &req[i][1]);
        fabemu_group_test(t.group[i], 3, 1, FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL, &req[i][2]);
        fabemu_allreduce(t.group[i], &in[i], &sum[i], 1, FABEMU_SUM, FABEMU_U64, &req[i][3]);
        if (i == 1)
            fabemu_broadcast_put(t.group[i], key, 8, &sum[1], 8, &req[i][4]);
        else
            fabemu_group_test(t.group[i], 3, 1, FABEMU_TEST_REACHED, &req[i][4]);
        fabemu_barrier(t.group[i], &req[i][5]);
    }
    fake_quiet(t.w.fake);
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(fabemu_event_count(&event[i]), 0);
        CU_ASSERT_EQUAL(fake_word(t.w.fake, t.id, i, 3), 0);
    }
    for (uint32_t i = 0; i < 3; i++)
        fabemu_event_add(&event[i], 1);
    CU_ASSERT_TRUE(fake_finish(t.w.fake, req[0], 18));
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(fabemu_event_count(&event[i]), 7);
        CU_ASSERT_EQUAL(event[i].status, 0);
        CU_ASSERT_EQUAL(fake_word(t.w.fake, t.id, i, 3), 1 + i);
        CU_ASSERT_TRUE(sum[i] == 7 && memory[i][1] == 7);
        fabemu_event_close(&event[i]);
    }
    CU_ASSERT_TRUE(team_clean(&t));
    team_close(&t);
}

/* --- failures and closing ----------------------------------------------------------- */

static void event__fails_with_the_operations_it_counts(void)
{
    struct peers w;
    struct fabemu_event first, second;
    struct fabemu_req bad = {0}, chain = {0}, when = {0}, late = {0};
    uint64_t key, word = 0;

    peers_open(&w, 2, true);
    key = expose(&w, 1, &word, 8);
    event_open(&w, 0, &first);
    event_open(&w, 0, &second);
    bad.event = &first;
    chain = (struct fabemu_req){.after = &first, .threshold = 1, .event = &second};
    fabemu_put(w.fab[0], 1, key, 0, "12345678", 8, &chain);
    fabemu_event_when(&second, 1, &when);
    fabemu_put(w.fab[0], 1, key, 1, &word, 8, &bad); /* beyond the end */
    CU_ASSERT_TRUE(fake_finish(w.fake, &when, 1));
    CU_ASSERT_EQUAL(bad.status, -EACCES);
    CU_ASSERT_EQUAL(chain.status, -EACCES);
    CU_ASSERT_EQUAL(when.status, -EACCES);
    CU_ASSERT_EQUAL(second.status, -EACCES);
    CU_ASSERT_EQUAL(fabemu_event_count(&second), 0);
    CU_ASSERT_EQUAL(fabemu_event_wait(&first, 1), -EACCES);
    late.after = &second;
    CU_ASSERT_EQUAL(fabemu_get(w.fab[0], 1, key, 0, &word, 8, &late), 0);
    CU_ASSERT_EQUAL(late.status, -EACCES);
    CU_ASSERT_EQUAL(word, 0);
    fabemu_event_close(&first);
    fabemu_event_close(&second);
    peers_close(&w);
}

/* The process detaches: the operations are cancelled, and events count that. */
static void event__may_be_armed_when_its_process_ends(void)
{
    struct peers w;
    struct fabemu_event event, tolerant;
    struct fabemu_req armed[2] = {{0}}, recv = {0};
    uint64_t word = 0;
    struct fabemu_iov iov = {.base = &word, .bytes = 8};

    peers_open(&w, 2, false);
    event_open(&w, 0, &event);
    CU_ASSERT_EQUAL(fabemu_event_open_tolerant(w.fab[0], &tolerant, NULL), 0);
    armed[0] = (struct fabemu_req){.after = &event, .threshold = 1, .event = &tolerant};
    armed[1] = (struct fabemu_req){.after = &tolerant, .threshold = 9, .event = &tolerant};
    recv.event = &tolerant;
    for (unsigned i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(fabemu_put(w.fab[0], 1, 1, 0, &word, 8, &armed[i]), 0);
    CU_ASSERT_EQUAL(fabemu_recv(w.queue[0], 1, 7, 0, &iov, 1, &recv), 0);
    peers_close(&w);
    CU_ASSERT(armed[0].status == -ECANCELED && armed[1].status == -ECANCELED);
    CU_ASSERT(recv.status == -ECANCELED && tolerant.failures == 3);
}

static void event_close__cancels_armed_operations(void)
{
    struct peers w;
    struct fabemu_event event, other, self;
    struct fabemu_req armed = {0}, next = {0}, loop[2] = {{0}};
    uint64_t word = 0, key, five = 5;

    peers_open(&w, 2, false);
    key = expose(&w, 0, &word, 8);
    event_open(&w, 0, &event);
    event_open(&w, 0, &other);
    fabemu_register_event(w.fab[0], key, FABEMU_REMOTE_WRITE, &event);
    armed = (struct fabemu_req){.after = &event, .threshold = 1, .event = &other};
    CU_ASSERT_EQUAL(fabemu_put(w.fab[0], 1, 1, 0, &word, 8, &armed), 0);
    CU_ASSERT_EQUAL(fabemu_event_when(&other, 1, &next), 0);
    fabemu_event_close(&event);
    CU_ASSERT_EQUAL(armed.status, -ECANCELED);
    CU_ASSERT_EQUAL(next.status, -ECANCELED);
    memset(&event, 0xee, sizeof event);
    struct fabemu_atomic set = {
        .node = 0, .key = key, .op = FABEMU_ATOMIC_SWAP, .type = FABEMU_U64, .operand = &five};
    memset(&armed, 0, sizeof armed);
    CU_ASSERT_EQUAL(fabemu_atomic(w.fab[1], &set, &armed), 0);
    CU_ASSERT_TRUE(fake_finish(w.fake, &armed, 1));
    CU_ASSERT_EQUAL(word, 5); /* the region no longer refers to it */
    fabemu_event_close(&other);

    event_open(&w, 0, &self); /* an operation armed on it counts there as well */
    for (int i = 0; i < 2; i++) {
        loop[i].event = &self;
        fabemu_event_when(&self, 1, &loop[i]);
    }
    fabemu_event_close(&self);
    CU_ASSERT_TRUE(loop[0].status == -ECANCELED && loop[1].status == -ECANCELED);
    memset(&self, 0xee, sizeof self);
    fake_quiet(w.fake);
    peers_close(&w);
}

/* An adapter that closes first; an event of another adapter; receives. */
static void event__belongs_to_one_adapter(void)
{
    struct peers w;
    struct fabemu_event event;
    struct fabemu_req armed = {0}, req = {0};
    struct fabemu_group *group;
    struct fabemu_iov iov = {0};
    uint64_t key, v = 0;

    peers_open(&w, 2, false);
    event_open(&w, 1, &event);
    req.event = &event;
    key = expose(&w, 0, &v, 8);
    CU_ASSERT_EQUAL(fabemu_register_event(w.fab[0], key, FABEMU_REMOTE_WRITE, &event), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_put(w.fab[0], 1, 1, 0, &v, 8, &req), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_recv(w.queue[0], 1, 0, 0, &iov, 1, &req), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_group_join(w.fab[0], 5, 1, &group), 0);
    CU_ASSERT_EQUAL(fabemu_barrier(group, &req), -EINVAL);
    req = (struct fabemu_req){.after = &event};
    CU_ASSERT_EQUAL(fabemu_put(w.fab[0], 1, 1, 0, &v, 8, &req), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_recv(w.queue[0], 1, 0, 0, &iov, 1, &req), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_register_symmetric(group, &v, 8, 0, &key, &req), -EINVAL);
    fabemu_group_leave(group);
    armed = (struct fabemu_req){.after = &event, .threshold = 1, .event = &event};
    CU_ASSERT_EQUAL(fabemu_put(w.fab[1], 0, 1, 0, &v, 8, &armed), 0);
    fake_detach(w.fake, 1);
    CU_ASSERT_EQUAL(armed.status, -ECANCELED);
    peers_close(&w);
}

/* --- barriers by a tree of adapters ------------------------------------------------- */

#define TREE       13
#define TREE_WIDTH 3
#define EPOCHS     30

/*
 * QsNet III §IV-A: each adapter counts its own process and arrivals from its children; when all are
 * there it notifies its parent. The root's count starts the way down. All is armed beforehand, so
 * the processes only announce their arrival and wait.
 */
struct tree {
    struct peers w;
    struct fabemu_event up[TREE], down[TREE];
    uint64_t arrivals[TREE], done[TREE]; /* words that peers write */
    uint64_t up_key[TREE], down_key[TREE];
    struct fabemu_req notify[TREE][EPOCHS], release[TREE][EPOCHS];
};

static uint32_t tree_children(uint32_t i)
{
    uint32_t children = 0;

    for (uint32_t c = TREE_WIDTH * i + 1; c <= TREE_WIDTH * i + TREE_WIDTH && c < TREE; c++)
        children++;
    return children;
}

static void tree_arm(struct tree *t, uint32_t i, uint64_t epoch)
{
    static const uint64_t one = 1;
    struct fabemu_req *notify = &t->notify[i][epoch - 1], *release = &t->release[i][epoch - 1];
    uint32_t parent = (i - 1) / TREE_WIDTH;

    notify->after = &t->up[i];
    notify->threshold = epoch * (1 + tree_children(i));
    if (i) {
        struct fabemu_atomic add = {.node = parent,
                                    .key = t->up_key[parent],
                                    .type = FABEMU_U64,
                                    .operand = &one};

        CU_ASSERT_EQUAL(fabemu_atomic(t->w.fab[i], &add, notify), 0);
    } else {
        notify->event = &t->down[0];
        CU_ASSERT_EQUAL(fabemu_event_when(&t->up[0], notify->threshold, notify), 0);
    }
    for (uint32_t k = 0; k < tree_children(i); k++) { /* one request per child, by index */
        uint32_t child = TREE_WIDTH * i + 1 + k;

        release = &t->release[child][epoch - 1];
        release->after = &t->down[i];
        release->threshold = epoch;
        CU_ASSERT_EQUAL(fabemu_put(t->w.fab[i], child, t->down_key[child], 0, NULL, 0, release), 0);
    }
}

static void events__form_a_barrier_tree(void)
{
    struct tree *t = calloc(1, sizeof *t);
    uint64_t at[TREE] = {0}, least;
    bool early = false;

    peers_open(&t->w, TREE, true);
    for (uint32_t i = 0; i < TREE; i++) {
        t->up_key[i] = expose(&t->w, i, &t->arrivals[i], 8);
        t->down_key[i] = expose(&t->w, i, &t->done[i], 8);
        fabemu_register_event(t->w.fab[i], t->up_key[i], FABEMU_REMOTE_WRITE,
                              event_open(&t->w, i, &t->up[i]));
        fabemu_register_event(t->w.fab[i], t->down_key[i], FABEMU_REMOTE_WRITE,
                              event_open(&t->w, i, &t->down[i]));
    }
    for (uint32_t i = 0; i < TREE; i++)
        for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++)
            tree_arm(t, i, epoch);
    do { /* a released process may arrive for the next barrier */
        uint32_t i = (uint32_t)(test_random(&t->w.random) % TREE);

        if (at[i] < EPOCHS && fabemu_event_count(&t->down[i]) == at[i]) {
            at[i]++;
            fabemu_event_add(&t->up[i], 1);
        }
        if (test_random(&t->w.random) % 2)
            fake_pump(t->w.fake);
        least = EPOCHS;
        for (uint32_t k = 0; k < TREE; k++)
            least = at[k] < least ? at[k] : least;
        for (uint32_t k = 0; k < TREE; k++)
            early = early || fabemu_event_count(&t->down[k]) > least;
    } while (least < EPOCHS);
    CU_ASSERT_FALSE(early);
    for (uint32_t i = 0; i < TREE; i++) {
        struct fabemu_req req = {0};

        fabemu_event_when(&t->down[i], EPOCHS, &req);
        CU_ASSERT_TRUE_FATAL(fake_finish(t->w.fake, &req, 1));
        CU_ASSERT_EQUAL(req.status, 0);
    }
    for (uint32_t i = 0; i < TREE; i++) {
        CU_ASSERT_TRUE(fake_finish(t->w.fake, t->notify[i], EPOCHS));
        CU_ASSERT_TRUE(!i || fake_finish(t->w.fake, t->release[i], EPOCHS));
    }
    for (uint32_t i = 0; i < TREE; i++) {
        CU_ASSERT_EQUAL(t->arrivals[i], EPOCHS * tree_children(i));
        CU_ASSERT_TRUE(peers_clean(t->w.fab[i]));
        fabemu_event_close(&t->up[i]);
        fabemu_event_close(&t->down[i]);
    }
    peers_close(&t->w);
    free(t);
}

/* --- threads ------------------------------------------------------------------------ */

struct passer {
    struct peers *w;
    uint32_t me;
    struct fabemu_event *event;
    uint64_t key;  /* of the next process's word */
    uint8_t *word; /* the own word: the event says that it was written */
};

static void *run_passer(void *argument)
{
    struct passer *p = argument;

    for (uint64_t i = 1; i <= 200; i++) {
        struct fabemu_req req = {0};
        uint8_t v = (uint8_t)i;

        if (p->me == 0 && (fabemu_put(p->w->fab[0], 1, p->key, 0, &v, 1, &req) ||
                           fabemu_wait(p->w->fab[0], &req)))
            abort();
        if (fabemu_event_wait(p->event, i) || *p->word != v)
            abort();
        memset(&req, 0, sizeof req);
        if (p->me == 1 && (fabemu_put(p->w->fab[1], 0, p->key, 0, &v, 1, &req) ||
                           fabemu_wait(p->w->fab[1], &req)))
            abort();
    }
    return NULL;
}

/*
 * Two processes wait for events, asleep or awake; a process that sees the count also sees the data.
 */
static void event_wait__works_from_threads(void)
{
    struct peers w;
    struct fabemu_event event[2];
    struct passer passer[2];
    pthread_t thread[2];
    static uint8_t word[2];
    uint64_t key[2];

    peers_open(&w, 2, false);
    for (uint32_t i = 0; i < 2; i++) {
        key[i] = expose(&w, i, &word[i], 1);
        fabemu_register_event(w.fab[i], key[i], FABEMU_REMOTE_WRITE, event_open(&w, i, &event[i]));
        CU_ASSERT_EQUAL_FATAL(nic_thread_start(&w.fab[i]->thread, w.fab[i]), 0);
    }
    fake_start(w.fake);
    for (uint32_t i = 0; i < 2; i++) {
        passer[i] =
            (struct passer){.w = &w, .me = i, .event = &event[i], .key = key[!i], .word = &word[i]};
        pthread_create(&thread[i], NULL, run_passer, &passer[i]);
    }
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    fake_stop(w.fake);
    for (uint32_t i = 0; i < 2; i++) {
        nic_thread_stop(w.fab[i]->thread);
        fabemu_event_close(&event[i]);
    }
    peers_close(&w);
}

static unsigned changes;

static void note_change(struct fabemu_event *event)
{
    (void)event;
    changes++;
}

static void add_one(struct fabemu_req *req)
{
    fabemu_event_change_in_done(req->context, FABEMU_EVENT_ADD, 1);
}

/* A failure is counted, and fails nothing; operations may count failures for their threshold. */
static void tolerant__counts_failures_separately(void)
{
    struct peers w;
    struct fabemu_event event, plain;
    struct fabemu_req req[4] = {{.threshold = 0}}, bad = {.event = &event};
    uint64_t sum;

    peers_open(&w, 2, true);
    changes = 0;
    event_open(&w, 0, &plain);
    CU_ASSERT_EQUAL(fabemu_event_open_tolerant(w.fab[0], &event, note_change), 0);
    CU_ASSERT_EQUAL(fabemu_event_change(&plain, FABEMU_EVENT_ADD_FAILURES, 1), -EINVAL);
    req[1].after_failures = req[2].after_failures = true;
    req[1].done = add_one;
    req[1].context = &plain;
    fabemu_event_when(&event, 1, &req[0]);
    fabemu_event_when(&event, 1, &req[1]);
    fabemu_event_when(&event, 4, &req[2]);
    fabemu_event_when(&plain, 1, &req[3]);
    fabemu_put(w.fab[0], 1, 12345, 0, &sum, 8, &bad);
    CU_ASSERT_TRUE(fake_finish(w.fake, &bad, 1) && bad.status == -EACCES);
    CU_ASSERT_EQUAL(fabemu_event_failures(&event), 1);
    CU_ASSERT_EQUAL(changes, 1);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[0]), FABEMU_PENDING);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[1]), 0);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[3]), 0); /* started by add_one() */
    fabemu_event_change(&event, FABEMU_EVENT_SET_FAILURES, 3);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[2]), FABEMU_PENDING);
    fabemu_event_change(&event, FABEMU_EVENT_SET, 1);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[0]), 0);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[2]), 0);
    fabemu_event_change(&event, FABEMU_EVENT_SET, 0);
    CU_ASSERT_EQUAL(fabemu_event_count(&event), 0);
    fabemu_event_when(&event, 1, &req[0]); /* the count was lowered, so it waits again */
    CU_ASSERT_EQUAL(fabemu_disarm(w.fab[0], &req[0]), 0);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[0]), -ECANCELED);
    CU_ASSERT_EQUAL(fabemu_disarm(w.fab[0], &req[0]), -ENOENT);
    fabemu_event_change(&event, FABEMU_EVENT_SET, UINT64_MAX); /* the sum does not wrap */
    fabemu_event_when(&event, UINT64_MAX, &req[2]);
    CU_ASSERT_EQUAL(fabemu_req_status(&req[2]), 0);
    fabemu_event_close(&event);
    fabemu_event_close(&plain);
    peers_close(&w);
}

/* An armed atomic reads its operands when it starts. */
static void armed__atomics_read_their_operands_late(void)
{
    struct peers w;
    struct fabemu_event event;
    struct fabemu_req req[2] = {{.threshold = 1}, {.threshold = 2}};
    uint64_t word = 5, operand = 0, compare = 0;
    struct fabemu_atomic what = {.node = 1, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64};

    peers_open(&w, 2, true);
    what.key = expose(&w, 1, &word, sizeof word);
    what.operand = &operand;
    req[0].after = req[1].after = event_open(&w, 0, &event);
    CU_ASSERT_EQUAL(fabemu_atomic(w.fab[0], &what, &req[0]), 0);
    what.op = FABEMU_ATOMIC_CAS;
    what.compare = &compare;
    CU_ASSERT_EQUAL(fabemu_atomic(w.fab[0], &what, &req[1]), 0);
    operand = 7;
    fabemu_event_add(&event, 1);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req[0], 1));
    CU_ASSERT_EQUAL(word, 12);
    compare = 12, operand = 1;
    fabemu_event_add(&event, 1);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req[1], 1));
    CU_ASSERT_EQUAL(word, 1);
    fabemu_event_close(&event);
    peers_close(&w);
}

/* Let the adapter trace what it posts. Returns the pipe that receives the trace. */
static int trace_open(struct fabemu *fab)
{
    int ends[2];

    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    CU_ASSERT_EQUAL_FATAL(nic_trace_open(&fab->sim.trace, ends[1]), 0);
    return ends[0];
}

/* Read the trace from @from. */
static void trace_end(struct fabemu *fab, int from, char *text, size_t bytes)
{
    ssize_t got;

    nic_lock(fab);
    nic_trace_close(fab, fab->sim.trace);
    fab->sim.trace = NULL;
    nic_unlock(fab);
    got = read(from, text, bytes - 1);
    text[got > 0 ? got : 0] = '\0';
    close(from);
}

/* GOAL has no operations that a count starts. */
static void armed__are_marked_in_a_trace(void)
{
    struct peers w;
    struct fabemu_event event;
    struct fabemu_req req[2] = {{0}};
    uint64_t out = 1, in;
    struct fabemu_iov from = {&out, 8}, to = {&in, 8};
    struct fabemu_dest dest = peers_to(1, 3, 0);
    char text[1024];
    int trace;

    peers_open(&w, 2, true);
    trace = trace_open(w.fab[0]);
    req[0].after = req[1].after = event_open(&w, 0, &event);
    req[0].threshold = req[1].threshold = 1;
    CU_ASSERT_EQUAL(fabemu_send(w.queue[0], &dest, &from, 1, &req[0]), 0);
    CU_ASSERT_EQUAL(fabemu_recv(w.queue[0], 1, 7, 0, &to, 1, &req[1]), 0);
    peers_inject(&w, 1, 0, 7, "12345678", 8);
    fabemu_event_add(&event, 1);
    CU_ASSERT_TRUE(fake_finish(w.fake, req, 2));
    trace_end(w.fab[0], trace, text, sizeof text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "o0: calc 0" EMU_TRACE_NOT));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "o1: calc 0" EMU_TRACE_NOT));
    CU_ASSERT_PTR_NULL(strstr(text, "o0: send"));
    CU_ASSERT_PTR_NULL(strstr(text, "o1: recv"));
    fabemu_event_close(&event);
    peers_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(event__counts_completions_of_all_kinds),
        CASE(region__counts_what_peers_write),
        CASE(region_and_queue__count_reads_and_writes),
        CASE(armed__start_when_their_count_is_reached),
        CASE(armed__receives_are_posted_when_they_start),
        CASE(armed__circulate_a_token),
        CASE(armed__long_chains_do_not_recurse),
        CASE(armed__may_be_group_operations),
        CASE(event__fails_with_the_operations_it_counts),
        CASE(tolerant__counts_failures_separately),
        CASE(armed__atomics_read_their_operands_late),
        CASE(armed__are_marked_in_a_trace),
        CASE(event_close__cancels_armed_operations),
        CASE(event__may_be_armed_when_its_process_ends),
        CASE(event__belongs_to_one_adapter),
        CASE(events__form_a_barrier_tree),
        CASE(event_wait__works_from_threads),
        {0},
    };

    return test_run("nic_event", cases);
}
