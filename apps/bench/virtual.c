/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.c - measures how many segments leave switches in simulated time, per second of real time.
 *
 * The traffic is uniform, and runs as in `fabemu traffic`, so that the work of sources, sinks and
 * statistics is included. The bound is loop.c in the same network at the same load. Rows with
 * several workers have no bound.
 */
#include <stdio.h>
#include <string.h>

#include "apps/bench/internal.h"
#include "apps/traffic/run.h"
#include "emu/dev/affinity.h"

#define SEED          1
#define WARMUP_PS     20000000u
#define MESSAGE_BYTES 240u

struct virtual_case {
    const char *name;
    const char *topo;
    double load;            /* load of each node's link */
    uint32_t workers;       /* each on a core of its own */
    uint64_t measure_ps[2]; /* simulated time of a sample: normal, quick */
};

static bool virtual_sample(double *mhops, const struct virtual_case *what, bool quick,
                           struct topo_graph *graph, char *error, size_t error_bytes)
{
    struct traffic_config config = {
        .load = (uint64_t)(what->load * TRAFFIC_LOAD_UNIT),
        .bytes = MESSAGE_BYTES,
        .warmup_ps = WARMUP_PS,
        .measure_ps = what->measure_ps[quick],
        .fabric = {.name = "bench", .threads = what->workers, .seed = SEED, .graph = graph},
    };
    struct traffic_result result;

    int err = emu_profile_load(&config.fabric.profile, "oq2004", error, error_bytes);
    if (!err)
        err = traffic_pattern_parse(&config.pattern, "uniform", graph, error, error_bytes);
    if (!err)
        err = traffic_run(&result, &config, error, error_bytes);
    if (!err)
        *mhops = (double)result.hops / result.wall_s / 1e6;
    traffic_pattern_release(&config.pattern);
    return !err;
}

static struct json_object *virtual_conditions(const struct virtual_case *what)
{
    struct json_object *own = json_object_new_object();
    char load[32];

    snprintf(load, sizeof load, "%.1f", what->load);
    json_object_object_add(own, "topo", json_object_new_string(what->topo));
    json_object_object_add(own, "clock", json_object_new_string("virtual"));
    json_object_object_add(own, "traffic", json_object_new_string("uniform"));
    json_object_object_add(own, "load", json_object_new_double_s(what->load, load));
    json_object_object_add(own, "message_bytes", json_object_new_int(MESSAGE_BYTES));
    json_object_object_add(own, "workers", json_object_new_int((int)what->workers));
    return own;
}

static void virtual_row(struct bench *bench, const struct virtual_case *what)
{
    struct bench_samples samples = {.count = 0}, bound = {.count = 0};
    struct topo_graph *graph = NULL;
    struct bench_loop *loop = NULL;
    char error[256] = "out of memory";
    double mhops;

    bool good = topo_parse(&graph, what->topo, error, sizeof error) == 0;
    if (good && what->workers == 1) {
        loop = bench_loop_open(&(struct bench_loop_config){.graph = graph, .load = what->load});
        good = loop;
    }
    if (loop)
        bench_loop_mhops(loop, bench_sample_ns(bench)); /* warm-up */
    for (unsigned left = bench_repeat(bench, 9, 3); good && left; left--) {
        good = virtual_sample(&mhops, what, bench->quick, graph, error, sizeof error);
        if (good)
            bench_sample(&samples, mhops);
        if (good && loop)
            bench_sample(&bound, bench_loop_mhops(loop, bench_sample_ns(bench)));
    }
    bench_row(bench, &(struct bench_row){.name = what->name,
                                         .unit = "Mhops/s",
                                         .samples = &samples,
                                         .bound = loop ? &bound : NULL,
                                         .conditions = virtual_conditions(what),
                                         .error = good ? NULL : error});
    bench_loop_close(loop);
    topo_free(graph);
}

void bench_virtual(struct bench *bench, int unused)
{
    static const struct virtual_case cases[] = {
        {"virtual.nodes256.load0.5", "kary:4,4", 0.5, 1, {1000000000, 200000000}},
        {"virtual.nodes256.load0.5.workers2", "kary:4,4", 0.5, 2, {1000000000, 200000000}},
        {"virtual.nodes256.load0.9", "kary:4,4", 0.9, 1, {1000000000, 200000000}},
        {"virtual.nodes4096.load0.5", "kary:4,6", 0.5, 1, {20000000, 20000000}},
    };

    (void)unused;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (cases[i].workers <= emu_affinity_cores())
            virtual_row(bench, &cases[i]);
}
