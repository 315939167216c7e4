/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_virtual.c - simulated time: segment-hops per second of the wall's.
 *
 * Uniform traffic on 256 nodes, as `fabemu traffic` runs it: sources, sinks and
 * statistics are in the figure. With two workers each has a core of its own if
 * the host has two; their gain over one is a row of its own, taken from samples
 * in turns, because hosts have phases.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/bench_internal.h"
#include "apps/traffic_run.h"

#define VIRTUAL_SEED 1

struct virtual_case {
    const char *name;
    const char *topo;
    double load;
};

/* One run. Returns millions of hops per second, or a negative number with the reason in @error. */
static double virtual_run(const struct bench *bench, const struct virtual_case *what,
                          uint32_t workers, char *error, size_t error_bytes)
{
    struct traffic_config config = {
        .load = (uint64_t)(what->load * TRAFFIC_LOAD_UNIT),
        .warmup_ps = 20000000,
        .measure_ps = bench->quick ? 200000000 : 1000000000,
        .fabric = { .name = "bench", .threads = workers, .seed = VIRTUAL_SEED },
    };
    struct traffic_result result;
    struct topo_graph *graph = NULL;

    int err = emu_profile_load(&config.fabric.profile, "oq2004", error, error_bytes);
    if (!err)
        err = topo_parse(&graph, what->topo, error, error_bytes);
    if (!err) {
        config.fabric.graph = graph;
        err = traffic_pattern_parse(&config.pattern, "uniform", graph->nodes, error, error_bytes);
    }
    config.bytes = EMU_PAYLOAD_BYTES;
    if (!err)
        err = traffic_run(&result, &config, error, error_bytes);
    traffic_pattern_release(&config.pattern);
    topo_free(graph);
    return err ? -1 : (double)result.hops / result.wall_s / 1e6;
}

static struct json_object *virtual_conditions(const struct virtual_case *what, const char *workers)
{
    struct json_object *own = json_object_new_object();
    char load[16];

    snprintf(load, sizeof load, "%.1f", what->load);
    json_object_object_add(own, "topo", json_object_new_string(what->topo));
    json_object_object_add(own, "clock", json_object_new_string("virtual"));
    json_object_object_add(own, "traffic", json_object_new_string("uniform"));
    json_object_object_add(own, "load", json_object_new_double_s(what->load, load));
    json_object_object_add(own, "workers", json_object_new_string(workers));
    return own;
}

static void virtual_rows(struct bench *bench, const struct virtual_case *what)
{
    struct bench_samples one = { .count = 0 }, gain = { .count = 0 };
    bool two_cores = sysconf(_SC_NPROCESSORS_ONLN) >= 2;
    char error[256] = "";
    char name[64];

    for (unsigned left = bench_repeat(bench, 9, 3); left && !*error; left--) {
        double alone = virtual_run(bench, what, 1, error, sizeof error);
        double both = two_cores && alone > 0 ? virtual_run(bench, what, 2, error, sizeof error) : 0;

        bench_sample(&one, alone);
        bench_sample(&gain, both / alone);
    }
    snprintf(name, sizeof name, "virtual.%s", what->name);
    bench_row(bench, &(struct bench_row){ .name = name,
                                          .unit = "Mhops/s",
                                          .samples = &one,
                                          .conditions = virtual_conditions(what, "1"),
                                          .error = *error ? error : NULL,
                                          .goal = BENCH_AT_LEAST,
                                          .target = 10 });
    if (!two_cores)
        return;
    snprintf(name, sizeof name, "virtual.%s.gain2", what->name);
    bench_row(bench, &(struct bench_row){ .name = name,
                                          .unit = "times",
                                          .samples = &gain,
                                          .conditions = virtual_conditions(what, "2 against 1"),
                                          .error = *error ? error : NULL,
                                          .goal = BENCH_AT_LEAST,
                                          .target = 1.6 });
}

void bench_virtual(struct bench *bench, int unused)
{
    static const struct virtual_case cases[] = {
        { "ports8.load0.5", "kary:4,4", 0.5 },
        { "ports8.load0.9", "kary:4,4", 0.9 },
        { "ports32.load0.5", "kary:16,2", 0.5 },
        { "ports32.load0.9", "kary:16,2", 0.9 },
    };

    (void)unused;
    for (unsigned i = 0; i < 4; i++) {
        bench_progress(bench, "virtual", i / 4.0);
        virtual_rows(bench, &cases[i]);
    }
}
