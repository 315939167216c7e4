/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_fabric_world.h - adapters on a real fabric on clock raw, and all that they can do.
 *
 * One thread steps the fabric's workers and the adapters in turn, except where said.
 */
#ifndef TESTS_NIC_FABRIC_WORLD_H
#define TESTS_NIC_FABRIC_WORLD_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/fabric/internal.h"
#include "emu/fault.h"
#include "emu/worker/worker.h"
#include "nic/engine/internal.h"
#include "tests/nic/host/parts.h"
#include "tests/test.h"

#define NODES_MAX 8
#define BYTES 20000u
#define IMPATIENCE_PS UINT64_C(2000000000)

struct setting {
    const char *topo;
    const char *set;     /* a field of the profile, or NULL */
    uint32_t bad;        /* of so many entries of a million, each kind of fault */
    bool threads;        /* the fabric's worker and the adapters' are threads */
    uint32_t first;      /* where numbers begin */
    const char *profile; /* NULL: qsnet3 */
    uint32_t members;    /* nodes that have adapters: the first; 0: all */
};

struct world {
    struct topo_graph *graph;
    struct fabric *fabric;
    uint32_t nodes;
    uint32_t seats;
    uint64_t random;
    bool threads;
    bool bad_company;    /* others send what is no message */
    void (*also)(struct world *w); /* in each round; NULL: nothing */
    struct fabemu *fab[NODES_MAX];
    struct fabemu_queue *queue[NODES_MAX];
    struct fabemu_group *group[NODES_MAX];
    uint32_t id; /* of the group */
};

static inline void world_attach(struct world *w, uint32_t node)
{
    struct fabemu_info info = {.fabric = "test", .node = node, .nodes = w->graph->nodes,
                               .seat = ++w->seats,
                               .acknowledged = w->fabric->engine[node] != NULL};
    struct fabric_seat seat;

    CU_ASSERT_EQUAL_FATAL(fabric_attach(w->fabric, node, &seat), 0);
    CU_ASSERT_EQUAL_FATAL(nic_open(&w->fab[node], seat.memfd, seat.bell, &info), 0);
    close(seat.memfd);
    w->fab[node]->watch_ns = 0; /* look after others often */
    w->fab[node]->watch_gap_ns = 5000000;
    CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(w->fab[node], 1, &w->queue[node]), 0);
    if (w->threads) {
        CU_ASSERT_EQUAL_FATAL(nic_thread_start(&w->fab[node]->thread, w->fab[node]), 0);
    }
}

static inline void world_group(struct world *w)
{
    uint32_t nodes[NODES_MAX];
    char error[256];

    for (uint32_t n = 0; n < w->nodes; n++)
        nodes[n] = n;
    CU_ASSERT_EQUAL_FATAL(fabric_group_create(w->fabric, nodes, w->nodes, &w->id, error,
                                              sizeof error), 0);
    for (uint32_t n = 0; n < w->nodes; n++)
        CU_ASSERT_EQUAL_FATAL(fabemu_group_join(w->fab[n], w->id, w->nodes, &w->group[n]), 0);
}

static inline void world_open(struct world *w, const struct setting *set)
{
    struct emu_fault_rates rates = {.lost = set->bad, .head = set->bad, .payload = set->bad,
                                    .twice = set->bad, .late = set->bad};
    struct fabric_config config = {.clock = EMU_CLOCK_RAW, .threads = 1, .faults = &rates,
                                   .start_stopped = !set->threads, .first = set->first};
    char error[256];

    memset(w, 0, sizeof *w);
    w->random = test_seed();
    w->threads = set->threads;
    CU_ASSERT_EQUAL_FATAL(topo_parse(&w->graph, set->topo, error, sizeof error), 0);
    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&config.profile, set->profile ? set->profile : "qsnet3",
                                           error, sizeof error), 0);
    if (set->set)
        CU_ASSERT_EQUAL_FATAL(emu_profile_set(&config.profile, set->set, error, sizeof error), 0);
    config.graph = w->graph;
    config.seed = test_random(&w->random);
    CU_ASSERT_EQUAL_FATAL(fabric_start(&w->fabric, &config, error, sizeof error), 0);
    w->nodes = set->members ? set->members : w->graph->nodes;
    CU_ASSERT_TRUE_FATAL(w->nodes <= NODES_MAX);
    for (uint32_t n = 0; n < w->nodes && !set->threads && w->fabric->engine[n]; n++)
        w->fabric->engine[n]->timeout_ps = IMPATIENCE_PS; /* nobody has to wait for a processor */
    for (uint32_t n = 0; n < w->nodes; n++)
        world_attach(w, n);
    world_group(w);
}

static inline void world_close(struct world *w)
{
    for (uint32_t n = 0; n < w->nodes; n++) {
        CU_ASSERT_TRUE(w->bad_company || !w->fab[n]->counts.malformed);
        CU_ASSERT_TRUE(w->bad_company || !w->fab[n]->counts.out_of_window);
        nic_thread_stop(w->fab[n]->thread);
        fabemu_group_leave(w->group[n]);
        nic_close(w->fab[n]);
    }
    fabric_stop(w->fabric);
    topo_free(w->graph);
}

/* One round of all that moves. */
static inline void pump(struct world *w)
{
    uint32_t moved = 0;

    if (w->threads) {
        sched_yield();
        return;
    }
    for (uint32_t i = 0; i < w->fabric->workers; i++)
        moved += emu_worker_pass(fabric_worker(w->fabric, i));
    for (uint32_t n = 0; n < w->nodes; n++)
        moved += fabemu_progress(w->fab[n]);
    if (w->also)
        w->also(w);
    if (!moved)
        sched_yield(); /* a time-out is what comes next */
}

/* Until all are complete; false after 20 s, on whatever host. */
static inline bool finish(struct world *w, struct fabemu_req *req, uint32_t count)
{
    uint64_t end = nic_now_ns() + UINT64_C(20000000000);

    for (uint32_t i = 0; i < count; i++)
        while (fabemu_req_status(&req[i]) == FABEMU_PENDING) {
            pump(w);
            if (nic_now_ns() > end)
                return false;
        }
    return true;
}

static inline bool all_are(const struct fabemu_req *req, uint32_t count, int status)
{
    for (uint32_t i = 0; i < count; i++)
        if (req[i].status != status)
            return false;
    return true;
}

/* --- what can be done ----------------------------------------------------------------------- */

static inline void fill(uint8_t *at, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static inline bool filled(const uint8_t *at, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (uint8_t)(seed * 31 + i * 7 + (i >> 8)))
            return false;
    return true;
}

/* Messages of all sizes to the next node, in order. */
static inline void do_messages(struct world *w)
{
    enum { MANY = 16 };
    static const size_t sizes[] = {0, 100, 5000, BYTES};
    struct fabemu_req *send = calloc(NODES_MAX * MANY, sizeof *send);
    struct fabemu_req *recv = calloc(NODES_MAX * MANY, sizeof *recv);
    uint8_t *out = malloc(NODES_MAX * MANY * BYTES), *in = malloc(NODES_MAX * MANY * BYTES);
    bool good = true;

    for (uint32_t k = 0; k < MANY; k++) {
        for (uint32_t n = 0; n < w->nodes; n++) {
            uint32_t i = n * MANY + k, next = (n + 1) % w->nodes;
            struct fabemu_iov from = {.base = out + i * BYTES, .bytes = sizes[k % 4]};
            struct fabemu_iov into = {.base = in + i * BYTES, .bytes = BYTES};
            struct fabemu_dest dest = {.node = next, .queue = 1};

            fill(from.base, from.bytes, i);
            fabemu_recv(w->queue[next], n, 0, 0, &into, 1, &recv[i]);
            fabemu_send(w->queue[n], &dest, &from, 1, &send[i]);
            pump(w);
        }
    }
    CU_ASSERT_TRUE_FATAL(finish(w, send, w->nodes * MANY) && finish(w, recv, w->nodes * MANY));
    for (uint32_t i = 0; i < w->nodes * MANY; i++)
        good = good && send[i].status == 0 && recv[i].status == 0 &&
               recv[i].bytes == sizes[i % MANY % 4] && filled(in + i * BYTES, recv[i].bytes, i);
    CU_ASSERT_TRUE(good);
    free(send);
    free(recv);
    free(out);
    free(in);
}

/* All add to one word of node 0's; whatever is sent again, each once. Then puts and gets. */
static inline void do_memory(struct world *w)
{
    enum { MANY = 40 };
    static _Atomic uint64_t word;
    static uint8_t memory[BYTES], mine[NODES_MAX][BYTES], back[BYTES];
    static struct fabemu_req req[NODES_MAX][MANY];
    uint64_t key[2], one = 1, sum = 0;
    static uint64_t old[NODES_MAX][MANY];

    memset(req, 0, sizeof req);
    atomic_store(&word, 0);
    fabemu_register(w->fab[0], &word, 8, FABEMU_REMOTE_ATOMIC, &key[0]);
    fabemu_register(w->fab[0], memory, BYTES, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE, &key[1]);
    for (uint32_t k = 0; k < MANY; k++) {
        for (uint32_t n = 0; n < w->nodes; n++) {
            struct fabemu_atomic add = {.node = 0, .key = key[0], .type = FABEMU_U64,
                                        .operand = &one, .result = &old[n][k]};

            fabemu_atomic(w->fab[n], &add, &req[n][k]);
            atomic_fetch_add(&word, 0); /* the process has a say, too */
            pump(w);
        }
    }
    CU_ASSERT_TRUE_FATAL(finish(w, req[0], w->nodes * MANY) && all_are(req[0], w->nodes * MANY, 0));
    CU_ASSERT_EQUAL(atomic_load(&word), w->nodes * MANY);
    for (uint32_t i = 0; i < w->nodes * MANY; i++)
        sum += old[i / MANY][i % MANY];
    CU_ASSERT_EQUAL(sum, (uint64_t)w->nodes * MANY * (w->nodes * MANY - 1) / 2); /* all different */
    for (uint32_t n = 1; n < w->nodes; n++) {
        fill(mine[n], BYTES, n);
        fabemu_put(w->fab[n], 0, key[1], 0, mine[n], BYTES, &req[0][0]);
        CU_ASSERT_TRUE_FATAL(finish(w, req[0], 1) && !req[0][0].status);
        fabemu_get(w->fab[n], 0, key[1], 0, back, BYTES, &req[0][0]);
        CU_ASSERT_TRUE_FATAL(finish(w, req[0], 1) && !req[0][0].status);
        CU_ASSERT_TRUE(filled(back, BYTES, n));
    }
    fabemu_unregister(w->fab[0], key[0]);
    fabemu_unregister(w->fab[0], key[1]);
}

/* Broadcast puts of all members at once, then the barrier of the paper: words, a conditional, a done word. */
static inline void do_broadcasts(struct world *w)
{
    static uint8_t memory[NODES_MAX][NODES_MAX][BYTES], src[NODES_MAX][BYTES];
    static uint64_t done[NODES_MAX];
    struct fabemu_req req[NODES_MAX] = {{0}}, test = {0}, put = {0};
    struct fabemu_event event[NODES_MAX];
    uint64_t key[2][NODES_MAX], last = 1;
    bool good = true;

    memset(done, 0, sizeof done);
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t n = 0; n < w->nodes; n++)
            fabemu_register_symmetric(w->group[n], k ? (void *)&done[n] : (void *)memory[n],
                                      k ? 8 : sizeof memory[n], FABEMU_REMOTE_WRITE, &key[k][n],
                                      &req[n]);
        CU_ASSERT_TRUE_FATAL(finish(w, req, w->nodes) && all_are(req, w->nodes, 0));
        CU_ASSERT_TRUE(key[k][0] == key[k][w->nodes - 1]);
    }
    for (uint32_t n = 0; n < w->nodes; n++) {
        fabemu_event_open(w->fab[n], &event[n]);
        fabemu_register_event(w->fab[n], key[1][n], &event[n]);
        fill(src[n], BYTES, n);
        fabemu_broadcast_put(w->group[n], key[0][n], n * BYTES, src[n], BYTES, &req[n]);
    }
    CU_ASSERT_TRUE_FATAL(finish(w, req, w->nodes) && all_are(req, w->nodes, 0));
    fabemu_group_test(w->group[0], 2, 1, FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL, &test);
    for (uint32_t n = 0; n < w->nodes; n++) {
        CU_ASSERT_EQUAL(fabemu_req_status(&test), FABEMU_PENDING);
        fabemu_group_set(w->group[n], 2, 1, NULL);
        for (int i = 0; i < 5; i++)
            pump(w);
    }
    CU_ASSERT_TRUE_FATAL(finish(w, &test, 1) && test.status == 0);
    fabemu_broadcast_put(w->group[0], key[1][0], 0, &last, 8, &put);
    CU_ASSERT_TRUE_FATAL(finish(w, &put, 1) && put.status == 0);
    for (uint32_t n = 0; n < w->nodes; n++) { /* what came before the done word is there */
        memset(&req[n], 0, sizeof req[n]);
        fabemu_event_when(&event[n], 1, &req[n]);
    }
    CU_ASSERT_TRUE_FATAL(finish(w, req, w->nodes) && all_are(req, w->nodes, 0));
    for (uint32_t n = 0; n < w->nodes; n++) {
        good = good && done[n] == 1;
        for (uint32_t from = 0; from < w->nodes; from++)
            good = good && filled(memory[n][from], BYTES, from);
        fabemu_event_close(&event[n]);
        fabemu_unregister(w->fab[n], key[0][n]);
        fabemu_unregister(w->fab[n], key[1][n]);
    }
    CU_ASSERT_TRUE(good);
    memset(&test, 0, sizeof test);
    fabemu_group_set(w->group[0], 2, 5, NULL);
    fabemu_group_test(w->group[0], 2, 1, FABEMU_TEST_EQUAL, &test);
    CU_ASSERT_TRUE_FATAL(finish(w, &test, 1) && test.status == -EAGAIN);
}

static inline void do_collectives(struct world *w)
{
    enum { MANY = 40 }; /* four segments each: beyond a window of the stream */
    static struct fabemu_req req[NODES_MAX][3 * MANY];
    static uint64_t sum[NODES_MAX][MANY], cast[NODES_MAX][MANY][40];
    bool good = true;

    memset(req, 0, sizeof req);
    for (uint64_t k = 0; k < MANY; k++) {
        for (uint32_t n = 0; n < w->nodes; n++) {
            sum[n][k] = n + k;
            for (uint64_t i = 0; i < 40; i++)
                cast[n][k][i] = n == k % w->nodes ? k + i : 0;
            fabemu_allreduce(w->group[n], &sum[n][k], &sum[n][k], 1, FABEMU_SUM, FABEMU_U64,
                             &req[n][3 * k]);
            fabemu_broadcast(w->group[n], cast[n][k], sizeof cast[n][k], (uint32_t)k % w->nodes,
                             &req[n][3 * k + 1]);
            fabemu_barrier(w->group[n], &req[n][3 * k + 2]);
            pump(w);
        }
    }
    for (uint32_t n = 0; n < w->nodes; n++) {
        CU_ASSERT_TRUE_FATAL(finish(w, req[n], 3 * MANY));
        CU_ASSERT_TRUE(all_are(req[n], 3 * MANY, 0));
        for (uint64_t k = 0; k < MANY; k++) {
            good = good && sum[n][k] == w->nodes * k + w->nodes * (w->nodes - 1) / 2;
            for (uint64_t i = 0; i < 40; i++)
                good = good && cast[n][k][i] == k + i;
        }
    }
    CU_ASSERT_TRUE(good);
}

#endif
