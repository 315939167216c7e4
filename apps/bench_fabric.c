/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_fabric.c - a fabric inside this process: segment-hops per second of one
 * core, the time to start 256 nodes, and what they cost when nothing moves.
 *
 * A hop is a segment that leaves a switch; routing, credits and counters are
 * on. Hops are counted per second of the stepping thread's own time, so that a
 * neighbour who takes the core for a while does not count; cpu_share says how
 * much of the wall's time that was. The nodes that send and take the segments
 * run on the same thread: their work is in the figure.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "apps/bench_internal.h"
#include "apps/bench_nodes.h"
#include "apps/fabric.h"
#include "apps/report.h"
#include "emu/edge.h"
#include "emu/worker.h"

#define LOOK_EVERY 16 /* passes between looks at the clock */
#define SEED       1
#define NODES256   "kary:4,4"

/* --- hops ---------------------------------------------------------------------- */

struct hops_case {
    const char *name;
    const char *topo;
    bool complement;
};

struct hops_fabric {
    struct fabric_config config;
    struct topo_graph *graph;
    struct bench_nodes nodes;
    struct fabric *fabric;
    uint64_t cpu_ns; /* of all samples */
    uint64_t wall_ns;
};

/* A fabric as `fabemu run` would make it; the caller frees the graph. */
static int user_config(struct fabric_config *ret, struct topo_graph **graph, const char *topo,
                       char *error, size_t error_bytes)
{
    *ret = (struct fabric_config){ .name = "bench", .clock = EMU_CLOCK_RAW, .seed = SEED };
    int err = emu_profile_load(&ret->profile, "oq2004", error, error_bytes);
    if (!err)
        err = topo_parse(graph, topo, error, error_bytes);
    ret->graph = *graph;
    return err;
}

static int hops_open(struct hops_fabric *hops, const struct hops_case *what, char *error,
                     size_t error_bytes)
{
    memset(hops, 0, sizeof *hops);
    int err = user_config(&hops->config, &hops->graph, what->topo, error, error_bytes);
    if (err)
        return err;
    err = bench_nodes_init(&hops->nodes, hops->graph->nodes, what->complement, SEED);
    if (err) {
        snprintf(error, error_bytes, "%s", strerror(-err));
        return err;
    }
    hops->config.threads = 1;
    hops->config.start_stopped = true;
    hops->config.local_nodes = &hops->nodes.ops;
    return fabric_start(&hops->fabric, &hops->config, error, error_bytes);
}

static void hops_close(struct hops_fabric *hops)
{
    fabric_stop(hops->fabric);
    bench_nodes_free(&hops->nodes);
    topo_free(hops->graph);
}

/* Step for @run_ns. Returns millions of hops per second. */
static double hops_step(struct hops_fabric *hops, uint64_t run_ns)
{
    struct emu_worker *worker = fabric_worker(hops->fabric, 0);
    uint64_t wall_ns = bench_clock_ns(CLOCK_MONOTONIC);
    uint64_t start_ns = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t now_ns = start_ns;
    struct fabric_totals before, after;

    fabric_totals_read(hops->fabric, &before);
    while (now_ns < start_ns + run_ns) {
        for (unsigned i = 0; i < LOOK_EVERY; i++)
            emu_worker_pass(worker);
        now_ns = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    fabric_totals_read(hops->fabric, &after);
    hops->cpu_ns += now_ns - start_ns;
    hops->wall_ns += bench_clock_ns(CLOCK_MONOTONIC) - wall_ns;
    return (double)(after.hops - before.hops) * 1e3 / (double)(now_ns - start_ns);
}

/* A figure counts only if the fabric did its work. */
static const char *hops_wrong(struct hops_fabric *hops)
{
    struct fabric_totals totals;

    fabric_totals_read(hops->fabric, &totals);
    if (totals.dropped)
        return "segments were dropped";
    if (!totals.delivered || totals.hops < totals.delivered)
        return "no segments were delivered";
    return NULL;
}

static struct json_object *hops_conditions(const struct hops_fabric *hops,
                                           const struct hops_case *what)
{
    struct json_object *own = json_object_new_object();
    char share[32];
    double part = hops->wall_ns ? (double)hops->cpu_ns / (double)hops->wall_ns : 0;

    snprintf(share, sizeof share, "%.2f", part);
    json_object_object_add(own, "topo", json_object_new_string(what->topo));
    json_object_object_add(own, "traffic",
                           json_object_new_string(what->complement ? "complement" : "uniform"));
    json_object_object_add(own, "workers", json_object_new_int(1));
    json_object_object_add(own, "cpu_share", json_object_new_double_s(part, share));
    return own;
}

static void hops_row(struct bench *bench, const struct hops_case *what)
{
    struct bench_samples samples = { .count = 0 };
    struct hops_fabric hops;
    char error[256];

    int err = hops_open(&hops, what, error, sizeof error);
    struct bench_row row = { .name = what->name,
                             .unit = "Mhops/s",
                             .samples = &samples,
                             .error = err ? error : NULL,
                             .goal = BENCH_AT_LEAST,
                             .target = 40 };
    if (!err) {
        hops_step(&hops, bench_sample_ns(bench)); /* warm-up: queues fill */
        hops.cpu_ns = hops.wall_ns = 0;
        for (unsigned left = bench_repeat(bench, 9, 3); left; left--)
            bench_sample(&samples, hops_step(&hops, bench_sample_ns(bench)));
        row.error = hops_wrong(&hops);
        row.conditions = hops_conditions(&hops, what);
    }
    bench_row(bench, &row);
    hops_close(&hops);
}

void bench_hops(struct bench *bench, int unused)
{
    static const struct hops_case cases[] = {
        { "hops.switch.uniform", "kary:16,1", false },
        { "hops.switch.complement", "kary:16,1", true },
        { "hops.tree.uniform", "kary:4,3", false },
        { "hops.tree.complement", "kary:4,3", true },
    };

    (void)unused;
    for (unsigned i = 0; i < 4; i++) {
        bench_progress(bench, "hops", i / 4.0);
        hops_row(bench, &cases[i]);
    }
}

/* --- 256 nodes --------------------------------------------------------------------- */

/* Samples in seconds go by the wall, from the SPEC to running workers. */
static int start_sample(struct bench_samples *samples, char *error, size_t error_bytes)
{
    struct fabric_config config;
    struct topo_graph *graph = NULL;
    struct fabric *fabric = NULL;
    uint64_t start_ns = bench_clock_ns(CLOCK_MONOTONIC);

    int err = user_config(&config, &graph, NODES256, error, error_bytes);
    if (!err)
        err = fabric_start(&fabric, &config, error, error_bytes);
    if (!err)
        bench_sample(samples, (double)(bench_clock_ns(CLOCK_MONOTONIC) - start_ns) / 1e6);
    fabric_stop(fabric);
    topo_free(graph);
    return err;
}

static struct json_object *nodes256_conditions(enum emu_clock_mode clock)
{
    struct json_object *own = json_object_new_object();

    json_object_object_add(own, "topo", json_object_new_string(NODES256));
    json_object_object_add(own, "clock", json_object_new_string(report_clock_name(clock)));
    return own;
}

void bench_start256(struct bench *bench, int unused)
{
    struct bench_samples samples = { .count = 0 };
    unsigned repeat = bench_repeat(bench, 9, 3);
    char error[256];
    int err = 0;

    (void)unused;
    for (unsigned i = 0; i < repeat && !err; i++) {
        bench_progress(bench, "start256", i / (double)repeat);
        err = start_sample(&samples, error, sizeof error);
    }
    bench_row(bench, &(struct bench_row){ .name = "start256",
                                          .unit = "ms",
                                          .samples = &samples,
                                          .conditions = nodes256_conditions(EMU_CLOCK_RAW),
                                          .error = err ? error : NULL,
                                          .goal = BENCH_AT_MOST,
                                          .target = 1000 });
}

/* A seat on every node, as if 256 processes had attached and fallen asleep. */
static int attach_all(struct fabric *fabric, uint32_t nodes, char *error, size_t error_bytes)
{
    for (uint32_t n = 0; n < nodes; n++) {
        struct fabric_seat seat;
        int err = fabric_attach(fabric, n, &seat);
        if (err) {
            snprintf(error, error_bytes, "node %u did not attach: %s", n, strerror(-err));
            return err;
        }
        close(seat.memfd); /* nobody maps it: the processes sleep */
        close(seat.bell);
    }
    return 0;
}

static uint64_t process_cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* One housekeeping tick a sample, as the daemon does once a second. */
static void idle_samples(const struct bench *bench, struct fabric *fabric,
                         struct bench_samples *samples)
{
    unsigned repeat = bench_repeat(bench, 4, 2);
    unsigned sample_us = bench->quick ? 250000u : 500000u;
    uint32_t cut[8];

    usleep(50000); /* workers fall asleep */
    for (unsigned i = 0; i < repeat; i++) {
        uint64_t start_ns = bench_clock_ns(CLOCK_MONOTONIC);
        uint64_t start_us = process_cpu_us();
        fabric_tick(fabric, cut, 8);
        usleep(sample_us);
        uint64_t used_us = process_cpu_us() - start_us;
        uint64_t wall_ns = bench_clock_ns(CLOCK_MONOTONIC) - start_ns;
        bench_sample(samples, (double)used_us * 1e5 / (double)wall_ns);
        bench_progress(bench, "idle256", (i + 1) / (double)repeat);
    }
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void bench_idle256(struct bench *bench, int clock)
{
    struct bench_samples samples = { .count = 0 };
    struct topo_graph *graph = NULL;
    struct fabric *fabric = NULL;
    struct fabric_config config;
    char error[256];

    raise_descriptor_limit();
    int err = user_config(&config, &graph, NODES256, error, sizeof error);
    config.clock = (enum emu_clock_mode)clock;
    if (!err)
        err = fabric_start(&fabric, &config, error, sizeof error);
    if (!err)
        err = attach_all(fabric, graph->nodes, error, sizeof error);
    if (!err)
        idle_samples(bench, fabric, &samples);
    struct json_object *own = nodes256_conditions(config.clock);
    json_object_object_add(own, "attached", json_object_new_int(256));
    bench_row(bench, &(struct bench_row){
                         .name = clock == EMU_CLOCK_REAL ? "idle256_real" : "idle256_raw",
                         .unit = "%",
                         .samples = &samples,
                         .conditions = own,
                         .error = err ? error : NULL,
                         .goal = BENCH_AT_MOST,
                         .target = 2,
                     });
    fabric_stop(fabric);
    topo_free(graph);
}
