/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c - a fabric of 256 nodes inside this process: the time to start
 * it, and what it costs when nothing moves.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "apps/bench/hops.h"
#include "apps/bench/internal.h"
#include "apps/run/report.h"
#include "emu/now.h"

#define NODES256 "kary:4,4"

/* Samples in seconds go by the wall, from the SPEC to running workers. */
static int start_sample(struct bench_samples *samples, char *error, size_t error_bytes)
{
    struct fabric_config config;
    struct topo_graph *graph = NULL;
    struct fabric *fabric = NULL;
    uint64_t start_ns = emu_now_ns();

    int err = bench_config(&config, &graph, "oq2004", NODES256, error, error_bytes);
    if (!err)
        err = fabric_start(&fabric, &config, error, error_bytes);
    if (!err)
        bench_sample(samples, (double)(emu_now_ns() - start_ns) / 1e6);
    fabric_stop(fabric);
    topo_free(graph);
    return err;
}

static struct json_object *nodes256_conditions(enum emu_clock_mode clock)
{
    struct json_object *own = json_object_new_object();

    json_object_object_add(own, "topo", json_object_new_string(NODES256));
    json_object_object_add(own, "clock", json_object_new_string(emu_clock_name(clock)));
    return own;
}

void bench_start256(struct bench *bench, int unused)
{
    struct bench_samples samples = {.count = 0};
    unsigned repeat = bench_repeat(bench, 9, 3);
    char error[256];
    int err = 0;

    (void)unused;
    for (unsigned i = 0; i < repeat && !err; i++) {
        bench_progress(bench, "start256", i / (double)repeat);
        err = start_sample(&samples, error, sizeof error);
    }
    bench_row(bench, &(struct bench_row){.name = "start256",
                                         .unit = "ms",
                                         .samples = &samples,
                                         .conditions = nodes256_conditions(EMU_CLOCK_RAW),
                                         .error = err ? error : NULL,
                                         .goal = BENCH_AT_MOST,
                                         .target = 1000});
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
        fabric_seat_close(&seat); /* nobody maps it: the processes sleep */
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
        uint64_t start_ns = emu_now_ns();
        uint64_t start_us = process_cpu_us();
        fabric_tick(fabric, cut, 8);
        usleep(sample_us);
        uint64_t used_us = process_cpu_us() - start_us;
        uint64_t wall_ns = emu_now_ns() - start_ns;
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
    struct bench_samples samples = {.count = 0};
    struct topo_graph *graph = NULL;
    struct fabric *fabric = NULL;
    struct fabric_config config;
    char error[256];

    raise_descriptor_limit();
    int err = bench_config(&config, &graph, "oq2004", NODES256, error, sizeof error);
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
