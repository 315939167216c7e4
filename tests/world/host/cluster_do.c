/* SPDX-License-Identifier: BSD-3-Clause */
/* cluster_do.c - see cluster.h: all that adapters can do. */
#include <stdatomic.h>
#include <string.h>

#include "tests/test.h"
#include "tests/world/bytes.h"
#include "tests/world/host/cluster.h"

void cluster_messages(struct cluster *w)
{
    enum { MANY = 16 };
    static const size_t sizes[] = {0, 100, 5000, CLUSTER_BYTES};
    struct fabemu_req *send = calloc(CLUSTER_NODES * MANY, sizeof *send);
    struct fabemu_req *recv = calloc(CLUSTER_NODES * MANY, sizeof *recv);
    uint8_t *out = malloc(CLUSTER_NODES * MANY * CLUSTER_BYTES);
    uint8_t *in = malloc(CLUSTER_NODES * MANY * CLUSTER_BYTES);
    bool good = true;

    for (uint32_t k = 0; k < MANY; k++) {
        for (uint32_t n = 0; n < w->nodes; n++) {
            uint32_t i = n * MANY + k, next = (n + 1) % w->nodes;
            struct fabemu_iov from = {.base = out + i * CLUSTER_BYTES, .bytes = sizes[k % 4]};
            struct fabemu_iov into = {.base = in + i * CLUSTER_BYTES, .bytes = CLUSTER_BYTES};
            struct fabemu_dest dest = {.node = next, .queue = 1};

            bytes_fill(from.base, from.bytes, i);
            fabemu_recv(w->queue[next], n, 0, 0, &into, 1, &recv[i]);
            fabemu_send(w->queue[n], &dest, &from, 1, &send[i]);
            cluster_pump(w);
        }
    }
    CU_ASSERT_TRUE_FATAL(cluster_finish(w, send, w->nodes * MANY) &&
                         cluster_finish(w, recv, w->nodes * MANY));
    for (uint32_t i = 0; i < w->nodes * MANY; i++)
        good = good && send[i].status == 0 && recv[i].status == 0 &&
               recv[i].bytes == sizes[i % MANY % 4] &&
               bytes_filled(in + i * CLUSTER_BYTES, recv[i].bytes, i);
    CU_ASSERT_TRUE(good);
    free(send);
    free(recv);
    free(out);
    free(in);
}

void cluster_memory(struct cluster *w)
{
    enum { MANY = 40 };
    static _Atomic uint64_t word;
    static uint8_t memory[CLUSTER_BYTES], mine[CLUSTER_NODES][CLUSTER_BYTES], back[CLUSTER_BYTES];
    static struct fabemu_req req[CLUSTER_NODES][MANY];
    uint64_t key[2], one = 1, sum = 0;
    static uint64_t old[CLUSTER_NODES][MANY];

    memset(req, 0, sizeof req);
    atomic_store(&word, 0);
    fabemu_register(w->fab[0], &word, 8, FABEMU_REMOTE_ATOMIC, &key[0]);
    fabemu_register(w->fab[0], memory, CLUSTER_BYTES, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE,
                    &key[1]);
    for (uint32_t k = 0; k < MANY; k++) {
        for (uint32_t n = 0; n < w->nodes; n++) {
            struct fabemu_atomic add = {.node = 0,
                                        .key = key[0],
                                        .type = FABEMU_U64,
                                        .operand = &one,
                                        .result = &old[n][k]};

            fabemu_atomic(w->fab[n], &add, &req[n][k]);
            atomic_fetch_add(&word, 0); /* the process has a say, too */
            cluster_pump(w);
        }
    }
    CU_ASSERT_TRUE_FATAL(cluster_finish(w, req[0], w->nodes * MANY) &&
                         adapters_all_are(req[0], w->nodes * MANY, 0));
    CU_ASSERT_EQUAL(atomic_load(&word), w->nodes * MANY);
    for (uint32_t i = 0; i < w->nodes * MANY; i++)
        sum += old[i / MANY][i % MANY];
    CU_ASSERT_EQUAL(sum, (uint64_t)w->nodes * MANY * (w->nodes * MANY - 1) / 2); /* all different */
    for (uint32_t n = 1; n < w->nodes; n++) {
        bytes_fill(mine[n], CLUSTER_BYTES, n);
        fabemu_put(w->fab[n], 0, key[1], 0, mine[n], CLUSTER_BYTES, &req[0][0]);
        CU_ASSERT_TRUE_FATAL(cluster_finish(w, req[0], 1) && !req[0][0].status);
        fabemu_get(w->fab[n], 0, key[1], 0, back, CLUSTER_BYTES, &req[0][0]);
        CU_ASSERT_TRUE_FATAL(cluster_finish(w, req[0], 1) && !req[0][0].status);
        CU_ASSERT_TRUE(bytes_filled(back, CLUSTER_BYTES, n));
    }
    fabemu_unregister(w->fab[0], key[0]);
    fabemu_unregister(w->fab[0], key[1]);
}

/* Node 0 tests until all have set a word: which they do one after the other. */
static void tests_until_all_have_set(struct cluster *w)
{
    struct fabemu_req test = {0};

    fabemu_group_test(w->group[0], 2, 1, FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL, &test);
    for (uint32_t n = 0; n < w->nodes; n++) {
        CU_ASSERT_EQUAL(fabemu_req_status(&test), FABEMU_PENDING);
        fabemu_group_set(w->group[n], 2, 1, NULL);
        for (int i = 0; i < 5; i++)
            cluster_pump(w);
    }
    CU_ASSERT_TRUE_FATAL(cluster_finish(w, &test, 1) && test.status == 0);
}

void cluster_broadcasts(struct cluster *w)
{
    static uint8_t memory[CLUSTER_NODES][CLUSTER_NODES][CLUSTER_BYTES],
        src[CLUSTER_NODES][CLUSTER_BYTES];
    static uint64_t done[CLUSTER_NODES];
    struct fabemu_req req[CLUSTER_NODES] = {{0}}, test = {0}, put = {0};
    struct fabemu_event event[CLUSTER_NODES];
    uint64_t key[2][CLUSTER_NODES], last = 1;
    bool good = true;

    memset(done, 0, sizeof done);
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t n = 0; n < w->nodes; n++)
            fabemu_register_symmetric(w->group[n], k ? (void *)&done[n] : (void *)memory[n],
                                      k ? 8 : sizeof memory[n], FABEMU_REMOTE_WRITE, &key[k][n],
                                      &req[n]);
        CU_ASSERT_TRUE_FATAL(cluster_finish(w, req, w->nodes) &&
                             adapters_all_are(req, w->nodes, 0));
        CU_ASSERT_TRUE(key[k][0] == key[k][w->nodes - 1]);
    }
    for (uint32_t n = 0; n < w->nodes; n++) {
        fabemu_event_open(w->fab[n], &event[n]);
        fabemu_register_event(w->fab[n], key[1][n], &event[n]);
        bytes_fill(src[n], CLUSTER_BYTES, n);
        fabemu_broadcast_put(w->group[n], key[0][n], n * CLUSTER_BYTES, src[n], CLUSTER_BYTES,
                             &req[n]);
    }
    CU_ASSERT_TRUE_FATAL(cluster_finish(w, req, w->nodes) && adapters_all_are(req, w->nodes, 0));
    tests_until_all_have_set(w);
    fabemu_broadcast_put(w->group[0], key[1][0], 0, &last, 8, &put);
    CU_ASSERT_TRUE_FATAL(cluster_finish(w, &put, 1) && put.status == 0);
    for (uint32_t n = 0; n < w->nodes; n++) { /* what came before the done word is there */
        memset(&req[n], 0, sizeof req[n]);
        fabemu_event_when(&event[n], 1, &req[n]);
    }
    CU_ASSERT_TRUE_FATAL(cluster_finish(w, req, w->nodes) && adapters_all_are(req, w->nodes, 0));
    for (uint32_t n = 0; n < w->nodes; n++) {
        good = good && done[n] == 1;
        for (uint32_t from = 0; from < w->nodes; from++)
            good = good && bytes_filled(memory[n][from], CLUSTER_BYTES, from);
        fabemu_event_close(&event[n]);
        fabemu_unregister(w->fab[n], key[0][n]);
        fabemu_unregister(w->fab[n], key[1][n]);
    }
    CU_ASSERT_TRUE(good);
    fabemu_group_set(w->group[0], 2, 5, NULL);
    fabemu_group_test(w->group[0], 2, 1, FABEMU_TEST_EQUAL, &test);
    CU_ASSERT_TRUE_FATAL(cluster_finish(w, &test, 1) && test.status == -EAGAIN);
}

void cluster_collectives(struct cluster *w)
{
    enum { MANY = 40 }; /* four segments each: beyond a window of the stream */
    static struct fabemu_req req[CLUSTER_NODES][3 * MANY];
    static uint64_t sum[CLUSTER_NODES][MANY], cast[CLUSTER_NODES][MANY][40];
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
            cluster_pump(w);
        }
    }
    for (uint32_t n = 0; n < w->nodes; n++) {
        CU_ASSERT_TRUE_FATAL(cluster_finish(w, req[n], 3 * MANY));
        CU_ASSERT_TRUE(adapters_all_are(req[n], 3 * MANY, 0));
        for (uint64_t k = 0; k < MANY; k++) {
            good = good && sum[n][k] == w->nodes * k + w->nodes * (w->nodes - 1) / 2;
            for (uint64_t i = 0; i < 40; i++)
                good = good && cast[n][k][i] == k + i;
        }
    }
    CU_ASSERT_TRUE(good);
}
