/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_fabric_test.c - adapters on a real fabric with acknowledgments: all that they can do, over
 * cables that lose, double, delay and damage; and what becomes of it when a node is cut off.
 *
 * One thread steps the fabric's workers and the adapters in turn, except where said.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/fabric_internal.h"
#include "emu/fault.h"
#include "emu/worker.h"
#include "nic/engine_internal.h"
#include "nic/group.h"
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
};

struct world {
    struct topo_graph *graph;
    struct fabric *fabric;
    uint32_t nodes;
    uint32_t seats;
    uint64_t random;
    bool threads;
    struct fabemu *fab[NODES_MAX];
    struct fabemu_queue *queue[NODES_MAX];
    struct fabemu_group *group[NODES_MAX];
    uint32_t id; /* of the group */
};

static void world_attach(struct world *w, uint32_t node)
{
    struct fabemu_info info = {.fabric = "test", .node = node, .nodes = w->nodes,
                               .seat = ++w->seats, .acknowledged = true};
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

static void world_group(struct world *w)
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

static void world_open(struct world *w, const struct setting *set)
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
    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&config.profile, "qsnet3", error, sizeof error), 0);
    if (set->set)
        CU_ASSERT_EQUAL_FATAL(emu_profile_set(&config.profile, set->set, error, sizeof error), 0);
    config.graph = w->graph;
    config.seed = test_random(&w->random);
    CU_ASSERT_EQUAL_FATAL(fabric_start(&w->fabric, &config, error, sizeof error), 0);
    w->nodes = w->graph->nodes;
    CU_ASSERT_TRUE_FATAL(w->nodes <= NODES_MAX);
    for (uint32_t n = 0; n < w->nodes && !set->threads; n++)
        w->fabric->engine[n]->timeout_ps = IMPATIENCE_PS; /* nobody has to wait for a processor */
    for (uint32_t n = 0; n < w->nodes; n++)
        world_attach(w, n);
    world_group(w);
}

static void world_close(struct world *w)
{
    for (uint32_t n = 0; n < w->nodes; n++) {
        CU_ASSERT_EQUAL(w->fab[n]->counts.malformed, 0);
        CU_ASSERT_EQUAL(w->fab[n]->counts.out_of_window, 0);
        nic_thread_stop(w->fab[n]->thread);
        fabemu_group_leave(w->group[n]);
        nic_close(w->fab[n]);
    }
    fabric_stop(w->fabric);
    topo_free(w->graph);
}

/* One round of all that moves. */
static void pump(struct world *w)
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
    if (!moved)
        sched_yield(); /* a time-out is what comes next */
}

/* Until all are complete; false after 20 s, on whatever host. */
static bool finish(struct world *w, struct fabemu_req *req, uint32_t count)
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

static bool all_are(const struct fabemu_req *req, uint32_t count, int status)
{
    for (uint32_t i = 0; i < count; i++)
        if (req[i].status != status)
            return false;
    return true;
}

/* --- what can be done ----------------------------------------------------------------------- */

static void fill(uint8_t *at, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

static bool filled(const uint8_t *at, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (uint8_t)(seed * 31 + i * 7 + (i >> 8)))
            return false;
    return true;
}

/* Messages of all sizes to the next node, in order. */
static void do_messages(struct world *w)
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
static void do_memory(struct world *w)
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
static void do_broadcasts(struct world *w)
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

static void do_collectives(struct world *w)
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

static void all_of_it(const struct setting *set)
{
    struct world w;

    world_open(&w, set);
    do_messages(&w);
    do_memory(&w);
    do_broadcasts(&w);
    do_collectives(&w);
    for (uint32_t n = 0; n < w.nodes; n++) {
        CU_ASSERT_EQUAL(w.fab[n]->counts.given_up, 0);
        CU_ASSERT_EQUAL(w.fab[n]->counts.late, 0);
    }
    world_close(&w);
}

static void adapters__do_all_they_can_over_good_cables(void)
{
    static const struct setting sets[] = {{.topo = "kary:4,1"}, {.topo = "kary:2,3"},
                                          {.topo = "kary:2,2", .set = "barrier=tree"}};

    for (unsigned i = 0; i < 3; i++)
        all_of_it(&sets[i]);
}

/* What an adapter counts with its peers, its groups and itself begins at @first. Nothing was said yet. */
static void adapter_begins_at(struct world *w, uint32_t node, uint32_t first)
{
    struct fabemu *fab = w->fab[node];
    struct fabemu_group *g = w->group[node];

    for (uint32_t n = 0; n < w->nodes; n++) {
        struct nic_peer *peer = nic_peer(fab, n);

        peer->tx_seq = peer->tx_acked = peer->tx_eager = peer->tx_eaten = first;
        peer->rx_next = peer->rx_told = peer->rx_eaten = peer->rx_eaten_told = first;
        peer->epoch = first;
    }
    g->cur = g->issued = g->done = first / EMU_HALF;
    g->posted = g->bound = g->cur * (EMU_HALF - 1);
    fab->steps = fab->polls = fab->broken_count = first;
}

/* Generations of the ids of all operations that are not under way, as many as there are places for now. */
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

static void adapters__go_on_where_numbers_wrap(void)
{
    static const struct setting sets[] = {
        {.topo = "kary:2,2", .first = UINT32_MAX - 100, .bad = 2000},
        {.topo = "kary:4,1", .first = UINT32_MAX - 300, .set = "barrier=tree"},
        {.topo = "kary:2,2", .first = UINT32_MAX - 200, .set = "combining=switch"}};
    struct world w;

    for (uint32_t i = 0; i < 3; i++) {
        uint32_t first = sets[i].first;

        world_open(&w, &sets[i]);
        for (uint32_t n = 0; n < w.nodes; n++)
            adapter_begins_at(&w, n, first);
        for (uint32_t round = 0; round < 4; round++) {
            do_messages(&w);
            do_memory(&w);
            do_collectives(&w);
            for (uint32_t n = 0; n < w.nodes && !round; n++)
                ids_begin_at(w.fab[n], 0xffd);
        }
        do_broadcasts(&w);
        for (uint32_t n = 0; n < w.nodes; n++) { /* all have wrapped */
            uint32_t next = (n + 1) % w.nodes;
            const struct nic_peer *to = nic_peer(w.fab[n], next), *from = nic_peer(w.fab[next], n);

            CU_ASSERT_TRUE(to->tx_seq < first && to->tx_eager < first && to->tx_acked < first);
            CU_ASSERT_TRUE(from->rx_next < first && from->rx_eaten < first);
            CU_ASSERT_TRUE(w.fab[n]->edge.up_tail < first && w.fab[n]->edge.down_head < first);
            CU_ASSERT_TRUE(w.group[n]->done > UINT32_MAX / EMU_HALF);
            CU_ASSERT_TRUE(w.fabric->engine[n]->flow[(n + 1) % w.nodes].next > UINT32_MAX - first);
            CU_ASSERT_TRUE(ids_wrapped(w.fab[n], 0xffd));
            CU_ASSERT_TRUE(w.fab[n]->steps < first);
        }
        CU_ASSERT_TRUE(w.id / FABRIC_GROUPS_MAX > FABRIC_GENERATIONS - 400);
        world_close(&w);
    }
}

static void adapters__do_all_they_can_over_bad_cables(void)
{
    static const struct setting sets[] = {{.topo = "kary:4,1", .bad = 10000},
                                          {.topo = "kary:2,2", .bad = 5000, .set = "barrier=tree"}};

    for (unsigned i = 0; i < 2; i++)
        all_of_it(&sets[i]);
}

static void adapters__do_all_they_can_with_threads(void)
{
    static const struct setting set = {.topo = "kary:4,1", .threads = true, .bad = 500};

    all_of_it(&set);
}

/* --- cut off ------------------------------------------------------------------------------------ */

/* The faults that stand where @node's cable ends, at both ends: in the order of fabric_fault_cables(). */
static void cut_node(struct world *w, uint32_t node, bool cut)
{
    const struct topo_graph *graph = w->graph;
    const struct topo_link *at = fabric_node_link(graph, node);
    uint32_t i = 0, lost = cut ? EMU_FAULT_UNIT : 0;

    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t p = 0; p < graph->ports; p++)
            if (graph->sw[s].end[p].kind != TOPO_END_NONE) {
                if (s == at->sw && p == at->port)
                    w->fabric->faults[i].rates.lost = lost;
                i++;
            }
    w->fabric->faults[i + node].rates.lost = lost;
}

static void one_is_cut_off(const char *topo)
{
    const struct setting set = {.topo = topo, .set = "retry_limit=4"};
    static uint8_t out[BYTES], in[4][BYTES];
    struct fabemu_iov iov = {.base = out, .bytes = BYTES};
    struct fabemu_dest dest = {.queue = 1};
    struct fabemu_req recv[2] = {{0}}, send[2] = {{0}}, get = {0}, add = {0}, fine[2] = {{0}};
    uint64_t key, one = 1;
    struct world w;

    world_open(&w, &set);
    uint32_t far = w.nodes - 1;
    fabemu_register(w.fab[far], out, BYTES, FABEMU_REMOTE_READ | FABEMU_REMOTE_ATOMIC, &key);
    do_messages(&w); /* they know each other */
    cut_node(&w, far, true);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t me = i ? far : 0, other = i ? 0 : far;
        struct fabemu_iov into = {.base = in[i], .bytes = BYTES};

        dest.node = other;
        fabemu_recv(w.queue[me], other, 0, 0, &into, 1, &recv[i]);
        if (!i) /* node far only waits: nothing of its own can fail */
            fabemu_send(w.queue[me], &dest, &iov, 1, &send[i]);
    }
    struct fabemu_atomic what = {.node = far, .key = key, .type = FABEMU_U64, .operand = &one};
    fabemu_get(w.fab[0], far, key, 0, in[2], 1000, &get);
    fabemu_atomic(w.fab[0], &what, &add);
    CU_ASSERT_TRUE_FATAL(finish(&w, recv, 2) && finish(&w, send, 1) && finish(&w, &get, 1) &&
                         finish(&w, &add, 1));
    CU_ASSERT_TRUE(all_are(recv, 2, -EHOSTUNREACH) && send[0].status == -EHOSTUNREACH &&
                   get.status == -EHOSTUNREACH && add.status == -EHOSTUNREACH);

    /* The others are not touched. What is posted now fails; and when the cable is mended they meet. */
    struct fabemu_iov into = {.base = in[3], .bytes = BYTES};
    dest.node = 1;
    fabemu_recv(w.queue[1], 0, 5, 0, &into, 1, &fine[0]);
    dest.tag = 5;
    fabemu_send(w.queue[0], &dest, &iov, 1, &fine[1]);
    CU_ASSERT_TRUE(finish(&w, fine, 2) && all_are(fine, 2, 0));
    dest = (struct fabemu_dest){.node = far, .queue = 1};
    memset(send, 0, sizeof send);
    fabemu_send(w.queue[0], &dest, &iov, 1, &send[0]);
    CU_ASSERT_TRUE(finish(&w, send, 1) && send[0].status == -EHOSTUNREACH);
    cut_node(&w, far, false);
    for (bool met = false; !met;) {
        struct fabemu_req again[2] = {{0}};

        into = iov = (struct fabemu_iov){.base = in[0], .bytes = 8}; /* waits for no receive */
        fabemu_recv(w.queue[far], 0, 0, 0, &into, 1, &again[0]);
        fabemu_send(w.queue[0], &dest, &iov, 1, &again[1]);
        CU_ASSERT_TRUE_FATAL(finish(&w, &again[1], 1));
        if (!again[1].status) {
            CU_ASSERT_TRUE_FATAL(finish(&w, again, 1));
        }
        met = !again[1].status && !again[0].status;
        fabemu_abort(w.fab[far], &again[0]);
    }
    world_close(&w);
}

static void node__that_is_cut_off_is_missed_and_meets_again(void)
{
    one_is_cut_off("kary:4,1");
    one_is_cut_off("kary:2,2");
}

/* To a node where nobody is the network brings hellos all the same: they are said again until one comes. */
static void node__that_attaches_late_is_met(void)
{
    const struct setting set = {.topo = "kary:4,1"};
    uint32_t v = 7, got = 0;
    struct fabemu_iov from = {.base = &v, .bytes = 4}, into = {.base = &got, .bytes = 4};
    struct fabemu_dest dest = {.node = 3, .queue = 1};
    struct fabemu_req send = {0}, recv = {0};
    struct fabemu *early;
    struct world w;

    world_open(&w, &set);
    fabemu_group_leave(w.group[3]);
    nic_close(w.fab[3]);
    fabric_detach(w.fabric, 3);
    early = w.fab[3] = w.fab[2]; /* steps twice */
    fabemu_send(w.queue[0], &dest, &from, 1, &send);
    for (uint64_t end = nic_now_ns() + 20000000; nic_now_ns() < end;)
        pump(&w);
    CU_ASSERT_EQUAL(send.status, FABEMU_PENDING);
    world_attach(&w, 3);
    CU_ASSERT_PTR_NOT_EQUAL(w.fab[3], early);
    CU_ASSERT_EQUAL(fabemu_group_join(w.fab[3], 1000, 1, &w.group[3]), 0);
    fabemu_recv(w.queue[3], 0, 0, 0, &into, 1, &recv);
    CU_ASSERT_TRUE_FATAL(finish(&w, &send, 1) && finish(&w, &recv, 1));
    CU_ASSERT_TRUE(send.status == 0 && recv.status == 0 && got == 7);
    world_close(&w);
}

/* All members learn of it while the cable is cut: those on either side, who sends and who only waits. */
static void group__breaks_where_a_member_is_cut_off(void)
{
    for (unsigned kind = 0; kind < 5; kind++) {
        const struct setting set = {.topo = "kary:4,1", .set = "retry_limit=3"};
        struct fabemu_req req[NODES_MAX] = {{0}}, symmetric[NODES_MAX] = {{0}};
        struct fabemu_req later[NODES_MAX] = {{0}};
        uint64_t v[NODES_MAX] = {0}, key[NODES_MAX];
        uint32_t far = kind % 2 ? 3 : 0;
        struct world w;

        world_open(&w, &set);
        for (uint32_t n = 0; n < w.nodes; n++)
            fabemu_register_symmetric(w.group[n], &v[n], 8, FABEMU_REMOTE_WRITE, &key[n],
                                      &symmetric[n]);
        CU_ASSERT_TRUE_FATAL(finish(&w, symmetric, w.nodes) && all_are(symmetric, w.nodes, 0));
        cut_node(&w, far, true);
        for (uint32_t n = 0; n < w.nodes; n++) {
            if (kind == 0)
                fabemu_allreduce(w.group[n], &v[n], &v[n], 1, FABEMU_SUM, FABEMU_U64, &req[n]);
            else if (kind == 1)
                fabemu_broadcast(w.group[n], &v[n], 8, 0, &req[n]);
            else if (kind == 2 && n == 0)
                fabemu_broadcast_put(w.group[0], key[0], 0, "12345678", 8, &req[0]);
            else if (kind == 2)
                fabemu_group_test(w.group[n], 0, 1, FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL, &req[n]);
            else if (kind == 3)
                fabemu_reduce(w.group[n], &v[n], &v[n], 1, FABEMU_SUM, FABEMU_U64, 0, &req[n]);
            fabemu_barrier(w.group[n], &later[n]);
        }
        CU_ASSERT_TRUE_FATAL(finish(&w, req, w.nodes) && finish(&w, later, w.nodes));
        CU_ASSERT_TRUE(all_are(later, w.nodes, -EPIPE));
        cut_node(&w, far, false);
        do_messages(&w); /* pairs are not broken by a group */
        world_close(&w);
    }
}

/* --- what waits ------------------------------------------------------------------------------ */

#define WAITERS 700u /* more than an adapter has packets, and places for conditionals */
#define REACHED_UNTIL (FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL)

/* Node @node posts that many, none of which can be true before others do something. */
static void post_waiters(struct world *w, uint32_t node, bool tests, struct fabemu_req *req)
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
        pump(w);
}

static uint32_t count_pending(const struct fabemu_req *req)
{
    uint32_t pending = 0;

    for (uint32_t i = 0; i < WAITERS; i++)
        pending += fabemu_req_status(&req[i]) == FABEMU_PENDING;
    return pending;
}

/*
 * However many operations wait, those that they wait for go through: messages of the same process,
 * and its own words, which it sets last.
 */
static void waiting__lets_pass_what_it_waits_for(void)
{
    static const char *const sets[] = {"barrier=conditional", "barrier=tree", "channels=1"};
    static struct fabemu_req req[NODES_MAX][WAITERS];
    struct world w;

    for (uint32_t i = 0; i < 6; i++) {
        bool tests = i % 2;

        world_open(&w, &(struct setting){.topo = "kary:2,2", .set = sets[i / 2]});
        post_waiters(&w, 0, tests, req[0]);
        CU_ASSERT_EQUAL(count_pending(req[0]), WAITERS);
        do_messages(&w);
        for (uint32_t n = 1; n < w.nodes; n++)
            post_waiters(&w, n, tests, req[n]);
        for (uint32_t n = w.nodes; n-- > 0 && tests;)
            for (uint32_t word = 0; word < FABEMU_WORDS; word++)
                fabemu_group_set(w.group[n], word, 1 + WAITERS / FABEMU_WORDS, NULL);
        for (uint32_t n = 0; n < w.nodes; n++)
            CU_ASSERT_TRUE_FATAL(finish(&w, req[n], WAITERS) && all_are(req[n], WAITERS, 0));
        world_close(&w);
    }
}

static uint32_t asks_used(const struct world *w, uint32_t node)
{
    const struct engine_asks *asks = &w->fabric->engine[node]->asks;
    uint32_t used = 0;

    for (uint32_t i = 0; i < ENGINE_ASKS; i++)
        used += asks->place[i].used;
    return used;
}

/* Step until the adapter of @node has no conditional; false after 20 s. */
static bool forgets(struct world *w, uint32_t node)
{
    uint64_t end = nic_now_ns() + UINT64_C(20000000000);

    while (asks_used(w, node)) {
        pump(w);
        if (nic_now_ns() > end)
            return false;
    }
    return true;
}

/* What is aborted is taken back from the network, which has places for others again. */
static void waiting__can_be_taken_back(void)
{
    static struct fabemu_req req[WAITERS];
    struct world w;

    world_open(&w, &(struct setting){.topo = "kary:2,2"});
    post_waiters(&w, 0, true, req);
    CU_ASSERT_EQUAL(asks_used(&w, 0), ENGINE_ASKS);
    for (uint32_t i = 0; i < WAITERS; i++)
        while (fabemu_req_status(&req[i]) == FABEMU_PENDING) {
            nic_lock(w.fab[0]); /* fabemu_abort() would wait for a fabric that this thread steps */
            if (nic_word_take_back(nic_op_of(&req[i])))
                nic_op_end(w.fab[0], nic_op_of(&req[i]), -ECANCELED);
            nic_unlock(w.fab[0]);
            pump(&w);
        }
    CU_ASSERT_TRUE(all_are(req, WAITERS, -ECANCELED));
    CU_ASSERT_TRUE(forgets(&w, 0));
    do_broadcasts(&w);
    world_close(&w);
}

/*
 * A process dies while all places of its adapter are taken by conditionals, and other members of its
 * group stay. Its successor hears nothing of them, has all the places, and a group of its own.
 */
static void waiting__ends_with_its_process(void)
{
    static struct fabemu_req req[WAITERS];
    struct world w;

    for (uint32_t tests = 0; tests < 2; tests++) {
        world_open(&w, &(struct setting){.topo = "kary:2,2", .set = "barrier=conditional"});
        post_waiters(&w, 0, tests, req);
        nic_close(w.fab[0]);
        fabric_detach(w.fabric, 0);
        world_attach(&w, 0);
        CU_ASSERT_TRUE(forgets(&w, 0));
        do_messages(&w);
        CU_ASSERT_EQUAL(w.fab[0]->counts.stale, 0);
        for (uint32_t n = 1; n < w.nodes; n++)
            fabemu_group_leave(w.group[n]);
        for (uint32_t n = 1; n < w.nodes; n++) /* as the daemon does, when its process says so */
            fabric_group_leave(w.fabric, w.id, n);
        world_group(&w);
        do_broadcasts(&w);
        do_collectives(&w);
        world_close(&w);
    }
}

#define CASE(fn) {#fn, fn}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(adapters__do_all_they_can_over_good_cables),
        CASE(adapters__do_all_they_can_over_bad_cables),
        CASE(adapters__go_on_where_numbers_wrap),
        CASE(adapters__do_all_they_can_with_threads),
        CASE(node__that_is_cut_off_is_missed_and_meets_again),
        CASE(node__that_attaches_late_is_met),
        CASE(group__breaks_where_a_member_is_cut_off),
        CASE(waiting__lets_pass_what_it_waits_for),
        CASE(waiting__can_be_taken_back),
        CASE(waiting__ends_with_its_process),
        {0},
    };

    return test_run("nic_fabric", cases);
}
