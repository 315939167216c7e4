/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * real.c - clock real: how many nodes one core keeps on time.
 *
 * All nodes of a tree send whole segments at one rate to nodes drawn at random, each by its own
 * times; the thread steps the fabric for a while, and looks how late it is in the end. What it
 * cannot do in time adds up: where it keeps time it is late by a pass or two. The greatest rate at
 * which that is so is looked for by halves, and told as so many nodes at the full rate of a link.
 * Late by less than 1 in 50 of the time that was looked at is on time: a neighbour may take the
 * core for a moment, for which a rate that is not kept is tried once more. In turns with it, the
 * loop of bare/virtual.c does the same. Several workers have threads, and a fabric is made for each
 * rate: what nodes send, from when on, and when they look how late all is, they know from the
 * beginning.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bare/virtual.h"
#include "apps/bench/hops.h"
#include "apps/bench/internal.h"
#include "apps/traffic/worker.h"
#include "emu/link/link.h"
#include "emu/now.h"
#include "emu/random.h"
#include "emu/worker/worker.h"

#define REAL_NODES    64
#define REAL_LATE     50 /* of the time, 1 in so many */
#define REAL_STEPS    10 /* halves: of a link's rate, to 1 in 1024 */
#define REAL_TRIES    2
#define REAL_START_PS UINT64_C(20000000000) /* of a fabric with threads, until nodes send */

struct real_fabric;

struct real_node {
    struct traffic_base base;
    struct real_fabric *all;
    uint64_t birth_ps; /* of the next segment: it is ready to leave */
    uint64_t random;
    uint64_t late_ps; /* of what has come, the latest since it was last asked */
    uint64_t sent, taken;
    uint32_t node;
};

struct real_fabric {
    struct fabric_config config;
    struct topo_graph *graph;
    struct fabric_node_ops ops;
    struct fabric *fabric;
    struct real_node **node;
    uint64_t gap_ps;  /* between segments of a node; 0: none sends yet */
    uint64_t look_ps; /* from when on nodes note how late they are */
};

/* --- nodes -------------------------------------------------------------------------------- */

static void node_deliver(void *context, const struct emu_entry *entry)
{
    struct real_node *node = context;
    uint64_t now_ps = node->base.dev.worker->now_ps, late_ps = now_ps - entry->time_ps;

    node->taken++;
    if (late_ps > node->late_ps && now_ps >= node->all->look_ps)
        node->late_ps = late_ps;
}

static uint64_t node_send(struct real_node *node, uint64_t until_ps)
{
    uint32_t nodes = node->all->config.graph->nodes;
    uint64_t depart_ps;

    while ((depart_ps = emu_tx_earliest_ps(&node->base.tx, node->birth_ps)) <= until_ps) {
        struct emu_entry entry = {.hdr = {.src = node->node,
                                          .kind = EMU_UNICAST,
                                          .len = EMU_PAYLOAD_BYTES},
                                  .buf = EMU_NO_BUF};

        entry.hdr.dst = (uint32_t)((emu_xorshift(&node->random) >> 32) * nodes >> 32);
        emu_tx_depart(&node->base.tx, &entry, depart_ps);
        node->birth_ps += node->all->gap_ps;
        node->sent++;
    }
    emu_tx_flush(&node->base.tx);
    return depart_ps;
}

static uint32_t node_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct real_node *node = (struct real_node *)dev;
    uint64_t credit_ps = node->base.tx.profile->credit_ps;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    uint64_t arrive_ps = traffic_take(&node->base.rx, credit_ps, until_ps, node, node_deliver);
    uint64_t depart_ps = node_send(node, until_ps);
    dev->next_ps = arrive_ps < depart_ps ? arrive_ps : depart_ps;
    emu_dev_wants(dev, depart_ps == EMU_NEVER);
    return 0;
}

/* The nodes' times are a part of a gap apart. */
static uint64_t node_birth(const struct real_fabric *all, uint32_t n, uint64_t start_ps)
{
    return start_ps + all->gap_ps * n / all->config.graph->nodes;
}

static int node_create(void *ctx, uint32_t n, struct emu_worker *worker, struct emu_dev **dev,
                       struct emu_tx **tx, struct emu_rx **rx)
{
    struct real_fabric *all = ctx;
    struct real_node *node = traffic_base_new(sizeof *node, worker, node_step, dev, tx, rx);

    if (!node)
        return -ENOMEM;
    all->node[n] = node;
    node->all = all;
    node->node = n;
    node->random = emu_spread(n + 1);
    node->birth_ps = all->gap_ps ? node_birth(all, n, REAL_START_PS) : EMU_NEVER;
    emu_dev_again(*dev);
    return 0;
}

/* --- a fabric of them ----------------------------------------------------------------------- */

static uint64_t real_gap_ps(const struct real_fabric *all, double load)
{
    return (uint64_t)((double)(EMU_SEG_BYTES * all->config.profile.link_ps_per_byte) / load);
}

/*
 * A fabric of which @workers have threads, whose nodes send at @load for @run_ns or more, and look
 * in the last quarter. 0 workers: one, which the caller steps, and nobody sends yet.
 */
static int real_open(struct real_fabric *all, uint32_t workers, double load, uint64_t run_ns,
                     char *error, size_t error_bytes)
{
    int err;

    memset(all, 0, sizeof *all);
    err = bench_config(&all->config, &all->graph, "oq2004", BENCH_REAL_TOPO, error, error_bytes);
    if (err)
        return err;
    all->node = calloc(all->graph->nodes, sizeof(struct real_node *));
    if (!all->node) {
        snprintf(error, error_bytes, "%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    if (workers) {
        all->gap_ps = real_gap_ps(all, load);
        all->look_ps = REAL_START_PS + (run_ns - run_ns / 4) * 1000u;
    }
    all->ops = (struct fabric_node_ops){.create = node_create, .ctx = all};
    all->config.clock = EMU_CLOCK_REAL;
    all->config.threads = workers ? workers : 1;
    all->config.start_stopped = !workers;
    all->config.local_nodes = &all->ops;
    return fabric_start(&all->fabric, &all->config, error, error_bytes);
}

static void real_close(struct real_fabric *all)
{
    fabric_stop(all->fabric);
    for (uint32_t n = 0; all->node && n < all->graph->nodes; n++) {
        if (all->node[n])
            emu_link_unjoin(&all->node[n]->base.tx);
        free(all->node[n]);
    }
    free(all->node);
    topo_free(all->graph);
}

/* All nodes begin to send at @load of their links' rate, from now on, a gap's part each apart. */
static void real_load(struct real_fabric *all, double load)
{
    uint64_t now_ps = emu_clock_now(&fabric_worker(all->fabric, 0)->clock);

    all->gap_ps = real_gap_ps(all, load);
    for (uint32_t n = 0; n < all->graph->nodes; n++) {
        all->node[n]->birth_ps = node_birth(all, n, now_ps);
        emu_dev_again(&all->node[n]->base.dev);
    }
}

/* Nobody sends any more; what is under way arrives. */
static void real_drain(struct real_fabric *all)
{
    uint64_t under_way;

    for (uint32_t n = 0; n < all->graph->nodes; n++)
        all->node[n]->birth_ps = EMU_NEVER;
    do {
        emu_worker_pass(fabric_worker(all->fabric, 0));
        under_way = 0;
        for (uint32_t n = 0; n < all->graph->nodes; n++)
            under_way += all->node[n]->sent - all->node[n]->taken;
    } while (under_way);
}

/* How late the latest was since the last call, in ns. */
static uint64_t real_late_ns(struct real_fabric *all)
{
    uint64_t late_ps = 0;

    for (uint32_t n = 0; n < all->graph->nodes; n++) {
        if (all->node[n]->late_ps > late_ps)
            late_ps = all->node[n]->late_ps;
        all->node[n]->late_ps = 0;
    }
    return late_ps / 1000u;
}

static void real_run(struct real_fabric *all, uint64_t run_ns)
{
    struct emu_worker *worker = fabric_worker(all->fabric, 0);

    for (uint64_t end_ns = emu_now_ns() + run_ns; emu_now_ns() < end_ns;)
        emu_worker_pass(worker);
}

/*
 * A fabric, or the bare loop, has nodes that send at @load for @run_ns. Returns how late the latest
 * was that came in the last quarter, in ns. *@mhops: meanwhile, millions of hops a second.
 */
typedef uint64_t (*real_try_fn)(void *of, double load, uint64_t run_ns, double *mhops);

static uint64_t fabric_try(void *of, double load, uint64_t run_ns, double *mhops)
{
    struct real_fabric *all = of;
    struct fabric_totals before, after;
    uint64_t late_ns;

    fabric_totals_read(all->fabric, &before);
    real_load(all, load);
    real_run(all, run_ns - run_ns / 4);
    real_late_ns(all);
    real_run(all, run_ns / 4);
    late_ns = real_late_ns(all);
    fabric_totals_read(all->fabric, &after);
    real_drain(all);
    *mhops = (double)(after.hops - before.hops) * 1e3 / (double)run_ns;
    return late_ns;
}

/* The same of workers that have threads: of so many, whose number is there. */
static uint64_t workers_try(void *of, double load, uint64_t run_ns, double *mhops)
{
    const uint32_t *workers = of;
    struct real_fabric all;
    char error[256];
    uint64_t late_ns = UINT64_MAX; /* no memory, or no threads: nothing is kept */

    if (!real_open(&all, *workers, load, run_ns, error, sizeof error)) {
        bench_mhops(all.fabric, REAL_START_PS / 1000u);
        *mhops = bench_mhops(all.fabric, run_ns);
        fabric_hold(all.fabric);
        if (*mhops > 0)
            late_ns = real_late_ns(&all);
        fabric_go(all.fabric);
    }
    real_close(&all);
    return late_ns;
}

static uint64_t bare_try(void *of, double load, uint64_t run_ns, double *mhops)
{
    return bare_real_try(of, load, run_ns, mhops);
}

/* The greatest load that is kept; 0: none. *@mhops: then. */
static double real_most(real_try_fn try, void *of, uint64_t run_ns, double *mhops)
{
    double most = 0, step = 0.5, tried;

    for (int left = REAL_STEPS; left; left--, step /= 2)
        for (int tries = REAL_TRIES; tries; tries--)
            if (try(of, most + step, run_ns, &tried) < run_ns / REAL_LATE) {
                most += step;
                *mhops = tried;
                break;
            }
    return most;
}

double bench_real_nodes(uint32_t workers, uint64_t run_ns)
{
    double mhops;

    return REAL_NODES * real_most(workers_try, &workers, run_ns, &mhops);
}

static void real_row(struct bench *bench, const char *name, const char *unit,
                     const struct bench_samples *samples, const char *error)
{
    struct json_object *own = json_object_new_object();

    json_object_object_add(own, "clock", json_object_new_string("real"));
    json_object_object_add(own, "topo", json_object_new_string(BENCH_REAL_TOPO));
    json_object_object_add(own, "traffic", json_object_new_string("uniform"));
    json_object_object_add(own, "workers", json_object_new_int(1));
    bench_row(bench, &(struct bench_row){.name = name,
                                         .unit = unit,
                                         .samples = samples,
                                         .conditions = own,
                                         .error = error});
}

/* Nodes and hops of a round, which may be none: others had the core. */
static double real_sample(struct bench *bench, real_try_fn try, void *of,
                          struct bench_samples *nodes, struct bench_samples *hops)
{
    double mhops = 0, load = real_most(try, of, bench_sample_ns(bench), &mhops);

    bench_sample(nodes, REAL_NODES * load);
    bench_sample(hops, mhops);
    return load;
}

void bench_real(struct bench *bench, int unused)
{
    struct bench_samples nodes = {.count = 0}, hops = {.count = 0}, of_bare = {.count = 0};
    struct bench_samples bare_nodes = {.count = 0}, bare_hops = {.count = 0};
    struct real_fabric all;
    char error[256];
    const char *wrong = real_open(&all, 0, 0, 0, error, sizeof error) ? error : NULL;
    struct bare_real *bare = bare_real_open(BENCH_REAL_TOPO);

    (void)unused;
    if (!wrong && !bare)
        wrong = "no memory for the bare loop";
    for (unsigned left = bench_repeat(bench, 5, 2); !wrong && left; left--) {
        double load = real_sample(bench, fabric_try, &all, &nodes, &hops);
        double most = real_sample(bench, bare_try, bare, &bare_nodes, &bare_hops);

        bench_sample(&of_bare, most > 0 ? load / most : 0);
    }
    real_close(&all);
    bare_real_close(bare);
    real_row(bench, "real.nodes", "nodes", &nodes, wrong);
    real_row(bench, "real.hops", "Mhops/s", &hops, wrong);
    real_row(bench, "real.nodes.bare", "nodes", &bare_nodes, wrong);
    real_row(bench, "real.hops.bare", "Mhops/s", &bare_hops, wrong);
    real_row(bench, "real.nodes of bare", "x", &of_bare, wrong);
}
