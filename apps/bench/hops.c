/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hops.c - measures how many segments leave switches on clock raw, per second of one core.
 *
 * Routing, credits and counters are on. One thread runs the worker, which also steps the nodes that
 * send and receive the segments, so their work is included. The time is this thread's CPU time,
 * which stands still while another process has the core. The bound is loop.c in the same network
 * with the same traffic.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apps/bench/internal.h"
#include "apps/fabric/fabric.h"
#include "emu/util/alloc.h"
#include "emu/link/link.h"
#include "emu/util/now.h"
#include "emu/util/random.h"
#include "emu/worker/worker.h"

#define CLOCK_EVERY   16 /* passes between two reads of the clock */
#define SEED          1
#define NODE_BURST    64 /* maximum segments that a node sends or receives in one step */
#define PAYLOAD_BYTES 240

struct hops_case {
    const char *name;
    const char *topo;
    bool opposite; /* node i sends to node N-1-i; otherwise to a random node per segment */
};

/* --- nodes that send and receive as fast as their credits allow ---------------------- */

struct hops_nodes {
    struct fabric_node_ops ops;
    struct hops_node **node;
    uint32_t nodes;
    bool opposite;
};

struct hops_node {
    struct emu_dev dev; /* must be first */
    struct emu_tx tx;
    struct emu_rx rx;
    const struct hops_nodes *all;
    uint32_t node;
    uint64_t random;
};

static uint32_t node_receive(struct hops_node *node)
{
    const struct emu_entry *entry;
    uint32_t received = 0;

    for (; received < NODE_BURST && (entry = emu_rx_front(&node->rx, 0)); received++) {
        emu_pool_drop(&node->dev.worker->cache, entry->buf);
        emu_rx_skip(&node->rx);
    }
    if (received) {
        emu_rx_done(&node->rx, received);
        node->rx.owed += received;
        emu_rx_pay(&node->rx, &node->dev, 0);
    }
    return received;
}

static uint32_t node_destination(struct hops_node *node)
{
    uint32_t nodes = node->all->nodes;

    if (node->all->opposite)
        return nodes - 1 - node->node;
    return (uint32_t)((emu_xorshift(&node->random) >> 32) * nodes >> 32);
}

static uint32_t node_send(struct hops_node *node)
{
    uint32_t sent = 0;

    emu_tx_take_credits(&node->tx);
    for (; sent < NODE_BURST && emu_tx_room(&node->tx); sent++) {
        /*
         * Write the fields into the slot itself: building the entry elsewhere and copying it makes
         * the processor wait for its own narrow stores, which takes 9 % of a hop.
         */
        struct emu_entry *slot = emu_tx_slot(&node->tx);
        uint32_t buf = emu_pool_take(&node->dev.worker->cache);

        if (buf == EMU_NO_BUF)
            break;
        slot->hdr = (struct emu_hdr){.dst = node_destination(node),
                                     .src = node->node,
                                     .kind = EMU_UNICAST,
                                     .len = PAYLOAD_BYTES};
        slot->buf = buf;
        slot->note = 0;
        emu_tx_publish(&node->tx, 0);
    }
    emu_tx_flush(&node->tx);
    return sent;
}

static uint32_t node_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct hops_node *node = (struct hops_node *)dev;

    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    return node_receive(node) + node_send(node);
}

static int node_create(void *ctx, uint32_t n, struct emu_worker *worker, struct emu_dev **dev,
                       struct emu_tx **tx, struct emu_rx **rx)
{
    struct hops_nodes *all = ctx;
    struct hops_node *node = emu_zeros(sizeof *node);

    if (!node)
        return -ENOMEM;
    emu_dev_init(&node->dev, worker, node_step);
    emu_dev_again(&node->dev);
    node->all = all;
    node->node = n;
    node->random = emu_spread(SEED + n + 1);
    all->node[n] = node;
    *dev = &node->dev;
    *tx = &node->tx;
    *rx = &node->rx;
    return 0;
}

/* --- a fabric inside this process ----------------------------------------------------- */

struct hops {
    struct topo_graph *graph;
    struct hops_nodes nodes;
    struct fabric *fabric;
    struct bench_loop *loop;
};

/* Build the network. The caller must call hops_close() even after an error. */
static int hops_open(struct hops *hops, const struct hops_case *what, char *error,
                     size_t error_bytes)
{
    struct fabric_config config = {.name = "bench",
                                   .clock = EMU_CLOCK_RAW,
                                   .seed = SEED,
                                   .threads = 1,
                                   .start_stopped = true,
                                   .local_nodes = &hops->nodes.ops};

    *hops = (struct hops){.nodes = {.opposite = what->opposite}};
    int err = emu_profile_load(&config.profile, "oq2004", error, error_bytes);
    if (!err)
        err = topo_parse(&hops->graph, what->topo, error, error_bytes);
    if (err)
        return err;
    config.graph = hops->graph;
    hops->nodes.ops = (struct fabric_node_ops){.create = node_create, .ctx = &hops->nodes};
    hops->nodes.nodes = hops->graph->nodes;
    hops->nodes.node = calloc(hops->graph->nodes, sizeof(struct hops_node *));
    hops->loop = bench_loop_open(
        &(struct bench_loop_config){.graph = hops->graph, .opposite = what->opposite});
    if (!hops->nodes.node || !hops->loop) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    return fabric_start(&hops->fabric, &config, error, error_bytes);
}

static void hops_close(struct hops *hops)
{
    fabric_stop(hops->fabric);
    for (uint32_t n = 0; hops->nodes.node && n < hops->nodes.nodes; n++) {
        if (hops->nodes.node[n])
            emu_link_unjoin(&hops->nodes.node[n]->tx);
        free(hops->nodes.node[n]);
    }
    free(hops->nodes.node);
    bench_loop_close(hops->loop);
    topo_free(hops->graph);
}

/* Run for @run_ns of CPU time. Returns millions of hops per second of CPU time. */
static double hops_mhops(struct hops *hops, uint64_t run_ns)
{
    struct emu_worker *worker = fabric_worker(hops->fabric, 0);
    uint64_t start_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID), now_ns = start_ns;
    struct fabric_totals before, after;

    fabric_totals_read(hops->fabric, &before);
    while (now_ns < start_ns + run_ns) {
        for (unsigned i = 0; i < CLOCK_EVERY; i++)
            emu_worker_pass(worker);
        now_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    fabric_totals_read(hops->fabric, &after);
    return (double)(after.hops - before.hops) * 1e3 / (double)(now_ns - start_ns);
}

/* A row is valid only if the fabric has worked correctly. Returns NULL or an error. */
static const char *hops_error(struct hops *hops)
{
    struct fabric_totals totals;

    fabric_totals_read(hops->fabric, &totals);
    if (totals.dropped)
        return "segments were dropped";
    if (!totals.delivered || totals.hops < totals.delivered)
        return "no segments were delivered";
    return NULL;
}

/* --- rows ---------------------------------------------------------------------------- */

static void hops_row(struct bench *bench, const struct hops_case *what)
{
    struct bench_samples samples = {.count = 0}, bound = {.count = 0};
    struct json_object *own = json_object_new_object();
    uint64_t ns = bench_sample_ns(bench);
    struct hops hops;
    char text[256];

    int err = hops_open(&hops, what, text, sizeof text);
    const char *error = err ? text : NULL;
    if (!err) {
        hops_mhops(&hops, ns); /* warm-up: queues fill */
        bench_loop_mhops(hops.loop, ns);
        for (unsigned left = bench_repeat(bench, 9, 3); left; left--) {
            bench_sample(&samples, hops_mhops(&hops, ns));
            bench_sample(&bound, bench_loop_mhops(hops.loop, ns));
        }
        error = hops_error(&hops);
    }
    json_object_object_add(own, "topo", json_object_new_string(what->topo));
    json_object_object_add(own, "traffic",
                           json_object_new_string(what->opposite ? "complement" : "uniform"));
    json_object_object_add(own, "workers", json_object_new_int(1));
    bench_row(bench, &(struct bench_row){.name = what->name,
                                         .unit = "Mhops/s",
                                         .samples = &samples,
                                         .bound = &bound,
                                         .conditions = own,
                                         .error = error});
    hops_close(&hops);
}

void bench_hops(struct bench *bench, int unused)
{
    static const struct hops_case cases[] = {
        {"hops.switch.uniform", "kary:16,1", false},
        {"hops.switch.complement", "kary:16,1", true},
        {"hops.tree.uniform", "kary:4,3", false},
        {"hops.tree.complement", "kary:4,3", true},
    };

    (void)unused;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        hops_row(bench, &cases[i]);
}
