/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cores.c - what more workers bring: 1, 2, 4, ... of them, as many as there are cores for.
 *
 * Each has a thread, which the scheduler places, and nobody else has work. A round takes all counts
 * one after the other, and what a count brings is the median of the rounds' ratios to one worker.
 * Time is the wall's. Clock raw and simulated time move as many hops as they can; clock real is
 * asked how many nodes it keeps on time (real.c). What as many processes with a worker each bring,
 * which share nothing but the machine, is the most that so many workers can.
 */
#include <stdio.h>
#include <stdlib.h>

#include "apps/bench/hops.h"
#include "apps/bench/internal.h"
#include "apps/bench/virtual.h"
#include "emu/worker/place.h"

#define CORES_COUNTS 8 /* of workers: up to 128 */
#define CORES_MOST   (1u << (CORES_COUNTS - 1))
#define WARMUP_PS    10000000u

/* One of the clocks: what it moves with so many workers. A negative number: @error says why. */
struct cores_case {
    const char *name, *unit, *topo, *clock, *traffic;
    uint64_t measure_ps; /* simulated */
    double (*run)(const struct cores_case *what, uint32_t workers, uint64_t run_ns, char *error,
                  size_t error_bytes);
    void (*twin)(const void *what); /* the same by one worker, for longer; NULL: not measured */
};

struct cores_samples {
    struct bench_samples moved, over, most;
};

static double raw_run(const struct cores_case *what, uint32_t workers, uint64_t run_ns, char *error,
                      size_t error_bytes)
{
    const struct bench_hops_case hops = {"oq2004", false, what->topo, what->traffic, {0, 1, 240}};

    return bench_threads_mhops(&hops, workers, run_ns, error, error_bytes);
}

static void raw_twin(const void *what)
{
    char error[256];

    raw_run(what, 1, BENCH_TWIN_NS, error, sizeof error);
}

static double virtual_mhops(const struct cores_case *what, uint32_t workers, uint64_t measure_ps,
                            char *error, size_t error_bytes)
{
    const struct bench_virtual_case run = {
        .topo = what->topo, .profile = "oq2004", .pattern = "uniform", .bytes = 240, .load = 0.5};
    const struct bench_virtual_how how = {WARMUP_PS, measure_ps, workers, 1};
    struct traffic_result result;

    return bench_virtual_run(&result, &run, &how, error, error_bytes) ? bench_virtual_mhops(&result)
                                                                      : -1;
}

static double virtual_run(const struct cores_case *what, uint32_t workers, uint64_t run_ns,
                          char *error, size_t error_bytes)
{
    (void)run_ns; /* it is simulated time that ends it */
    return virtual_mhops(what, workers, what->measure_ps, error, error_bytes);
}

static void virtual_twin(const void *what)
{
    char error[256];

    virtual_mhops(what, 1, UINT64_MAX / 4, error, sizeof error);
}

static double real_run(const struct cores_case *what, uint32_t workers, uint64_t run_ns,
                       char *error, size_t error_bytes)
{
    (void)what;
    (void)error;
    (void)error_bytes;
    return bench_real_nodes(workers, run_ns); /* which may be none: others had the cores */
}

/* What one worker does while others do it, so that there are @workers of them; times that. */
static double beside_run(const struct cores_case *what, uint32_t workers, uint64_t run_ns,
                         char *error, size_t error_bytes)
{
    pid_t twin[CORES_MOST];
    double value;

    for (uint32_t i = 1; i < workers; i++)
        twin[i] = bench_twin_begin(what->twin, what);
    value = what->run(what, 1, run_ns, error, error_bytes);
    for (uint32_t i = 1; i < workers; i++)
        if (!bench_twin_end(twin[i], error, error_bytes))
            value = -1;
    return value * workers;
}

enum cores_row { CORES_MOVED, CORES_OVER, CORES_BESIDE };

static void cores_row(struct bench *bench, const struct cores_case *what, uint32_t workers,
                      enum cores_row which, const struct bench_samples *samples, const char *error)
{
    static const struct {
        const char *name, *over, *says;
    } kinds[] = {
        [CORES_MOVED] = {"workers", "", "%u"},
        [CORES_OVER] = {"workers", " over 1", "%u against 1"},
        [CORES_BESIDE] = {"most", " over 1", "1 in each of %u processes, against 1 alone"},
    };
    struct json_object *own = json_object_new_object();
    char name[64], text[64];

    snprintf(name, sizeof name, "cores.%s.%s%u%s", what->name, kinds[which].name, workers,
             kinds[which].over);
    snprintf(text, sizeof text, kinds[which].says, workers);
    json_object_object_add(own, "topo", json_object_new_string(what->topo));
    json_object_object_add(own, "clock", json_object_new_string(what->clock));
    json_object_object_add(own, "traffic", json_object_new_string(what->traffic));
    json_object_object_add(own, "workers", json_object_new_string(text));
    bench_row(bench, &(struct bench_row){.name = name,
                                         .unit = which == CORES_MOVED ? what->unit : "x",
                                         .samples = samples,
                                         .conditions = own,
                                         .error = error});
}

/* A round of one count. @alone: what one worker moved in it. */
static bool cores_take(struct cores_samples *samples, const struct cores_case *what,
                       uint32_t workers, double *alone, uint64_t run_ns, char *error,
                       size_t error_bytes)
{
    double value = what->run(what, workers, run_ns, error, error_bytes);

    if (value < 0)
        return false;
    bench_sample(&samples->moved, value);
    if (workers == 1)
        *alone = value;
    if (workers == 1 || *alone <= 0)
        return true;
    bench_sample(&samples->over, value / *alone);
    if (!what->twin)
        return true;
    value = beside_run(what, workers, run_ns, error, error_bytes);
    bench_sample(&samples->most, value / *alone);
    return value > 0;
}

static void cores_rows(struct bench *bench, const struct cores_case *what, unsigned counts)
{
    struct cores_samples *samples = calloc(CORES_COUNTS, sizeof *samples);
    char error[256] = "no memory";
    const char *wrong = samples ? NULL : error;
    double alone = 0;

    for (unsigned left = bench_repeat(bench, 5, 2); !wrong && left; left--)
        for (unsigned i = 0; !wrong && i < counts; i++)
            if (!cores_take(&samples[i], what, 1u << i, &alone, bench_sample_ns(bench), error,
                            sizeof error))
                wrong = error;
    for (unsigned i = 0; samples && i < counts; i++) {
        cores_row(bench, what, 1u << i, CORES_MOVED, &samples[i].moved, wrong);
        if (i)
            cores_row(bench, what, 1u << i, CORES_OVER, &samples[i].over, wrong);
        if (i && what->twin)
            cores_row(bench, what, 1u << i, CORES_BESIDE, &samples[i].most, wrong);
    }
    free(samples);
}

void bench_cores(struct bench *bench, int unused)
{
    static const struct cores_case cases[] = {
        {"raw", "Mhops/s", "kary:8,3", "raw", "uniform", 0, raw_run, raw_twin},
        {"virtual.nodes256", "Mhops/s", "kary:4,4", "virtual", "uniform, load 0.5", 200000000,
         virtual_run, virtual_twin},
        {"virtual.nodes4096", "Mhops/s", "kary:4,6", "virtual", "uniform, load 0.5", 20000000,
         virtual_run, virtual_twin},
        {"real", "nodes", BENCH_REAL_TOPO, "real", "uniform", 0, real_run, NULL},
    };
    unsigned counts = 1;

    (void)unused;
    while (counts < CORES_COUNTS && 1u << counts <= emu_place_cores())
        counts++;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench_progress(bench, "cores", i / 4.0);
        cores_rows(bench, &cases[i], counts);
    }
}
