/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.c - simulated time: segment-hops per second of the wall's.
 *
 * Uniform traffic on 256 nodes, as `fabemu traffic` runs it: sources, sinks and
 * statistics are in the figure. With two workers each has a core of its own if
 * the host has two; their gain over one is a row of its own, taken from samples
 * in turns, because hosts have phases.
 */
#include "apps/bench/virtual.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/bare/virtual.h"
#include "emu/worker/place.h"

#define VIRTUAL_SEED 1
#define WARMUP_PS    20000000

/* Node 0 to one other, and nobody else. */
static int pair_pattern(struct traffic_pattern *ret, uint32_t nodes, uint32_t to)
{
    *ret = (struct traffic_pattern){.kind = TRAFFIC_FIXED,
                                    .nodes = nodes,
                                    .to = malloc(nodes * sizeof ret->to[0])};
    if (!ret->to)
        return -ENOMEM;
    for (uint32_t n = 0; n < nodes; n++)
        ret->to[n] = n ? TRAFFIC_NOBODY : to;
    return 0;
}

bool bench_virtual_run(struct traffic_result *ret, const struct bench_virtual_case *what,
                       const struct bench_virtual_how *how, char *error, size_t error_bytes)
{
    struct traffic_config config = {
        .load = (uint64_t)(what->load * TRAFFIC_LOAD_UNIT),
        .bytes = what->bytes,
        .warmup_ps = how->warmup_ps,
        .measure_ps = how->measure_ps,
        .fabric = {.name = "bench", .threads = how->workers, .seed = how->seed},
    };
    struct topo_graph *graph = NULL;

    snprintf(error, error_bytes, "out of memory");
    int err = emu_profile_load(&config.fabric.profile, what->profile, error, error_bytes);
    config.fabric.profile.transport = what->acknowledged ? EMU_TRANSPORT_ACKNOWLEDGED
                                                         : EMU_TRANSPORT_NONE;
    if (!err)
        err = topo_parse(&graph, what->topo, error, error_bytes);
    config.fabric.graph = graph;
    if (!err)
        err = what->pattern ? traffic_pattern_parse(&config.pattern, what->pattern, graph->nodes,
                                                    error, error_bytes)
                            : pair_pattern(&config.pattern, graph->nodes, what->to);
    if (!err)
        err = traffic_run(ret, &config, error, error_bytes);
    traffic_pattern_release(&config.pattern);
    topo_free(graph);
    return !err;
}

double bench_virtual_mhops(const struct traffic_result *result)
{
    return (double)result->hops / result->wall_s / 1e6;
}

struct json_object *bench_virtual_conditions(const struct bench_virtual_case *what,
                                             const char *workers)
{
    struct json_object *own = json_object_new_object();
    char text[32];

    snprintf(text, sizeof text, "%.1f", what->load);
    json_object_object_add(own, "topo", json_object_new_string(what->topo));
    json_object_object_add(own, "clock", json_object_new_string("virtual"));
    json_object_object_add(own, "profile", json_object_new_string(what->profile));
    json_object_object_add(own, "load", json_object_new_double_s(what->load, text));
    json_object_object_add(own, "message_bytes", json_object_new_int((int)what->bytes));
    json_object_object_add(own, "workers", json_object_new_string(workers));
    snprintf(text, sizeof text, "0 to %u", what->to);
    json_object_object_add(own, "traffic",
                           json_object_new_string(what->pattern ? what->pattern : text));
    return own;
}

/* The rows of a case; and of a large network. */
enum {
    ALONE,
    GAIN,
    MOST,
    LARGE,
    OVER,
    BARE,
    OF_BARE,
    ORDERED,
    OF_ORDERED,
    BARE_GAIN,
    BARE_OVER,
    ORDERED_OVER
};
static const struct virtual_kind {
    const char *suffix; /* of the row's name */
    const char *unit;
    const char *workers;
    enum bench_goal goal;
    double target;
} kinds[] = {
    [ALONE] = {"", "Mhops/s", "1", BENCH_AT_LEAST, 25}, /* virtual_rows() */
    [GAIN] = {".gain2", "times", "2 against 1", BENCH_AT_LEAST, 1.9},
    [MOST] = {".most2", "times", "1 and 1 in another process against 1", BENCH_NO_GOAL, 0},
    [LARGE] = {"", "Mhops/s", "1", BENCH_NO_GOAL, 0},
    [OVER] = {" over 256", "x", "1", BENCH_AT_MOST, 2},
    [BARE] = {".bare", "Mhops/s", "no worker, a loop", BENCH_NO_GOAL, 0},
    [OF_BARE] = {" of bare", "x", "1", BENCH_NO_GOAL, 0},
    [ORDERED] = {".bare.ordered", "Mhops/s", "no worker, a loop", BENCH_NO_GOAL, 0},
    [OF_ORDERED] = {" of bare.ordered", "x", "1", BENCH_NO_GOAL, 0},
    [BARE_GAIN] = {".bare.gain2", "times", "no workers, 2 loops against 1", BENCH_NO_GOAL, 0},
    [BARE_OVER] = {".bare over 256", "x", "no worker, a loop", BENCH_NO_GOAL, 0},
    [ORDERED_OVER] = {".bare.ordered over 256", "x", "no worker, a loop", BENCH_NO_GOAL, 0},
};

static void virtual_row(struct bench *bench, const struct bench_virtual_case *what,
                        const struct virtual_kind *kind, const struct bench_samples *samples,
                        const char *error)
{
    char name[64];

    snprintf(name, sizeof name, "virtual.%s%s", what->name, kind->suffix);
    bench_row(bench,
              &(struct bench_row){.name = name,
                                  .unit = kind->unit,
                                  .samples = samples,
                                  .conditions = bench_virtual_conditions(what, kind->workers),
                                  .error = error,
                                  .goal = kind->goal,
                                  .target = kind->target});
}

static void twin_run(const void *what)
{
    const struct bench_virtual_how how = {WARMUP_PS, UINT64_MAX / 4, 1, VIRTUAL_SEED};
    struct traffic_result result;
    char error[256];

    bench_virtual_run(&result, what, &how, error, sizeof error);
}

/* A run while another process makes the same. */
static bool run_beside(struct traffic_result *ret, const struct bench_virtual_case *what,
                       const struct bench_virtual_how *how, char *error, size_t error_bytes)
{
    pid_t twin = bench_twin_begin(twin_run, what);
    bool good = bench_virtual_run(ret, what, how, error, error_bytes);

    return bench_twin_end(twin, error, error_bytes) && good;
}

static bool bare_run(double *mhops, const struct bench_virtual_case *what,
                     const struct bench_virtual_how *how, bool ordered, char *error,
                     size_t error_bytes)
{
    *mhops = bench_virtual_bare(what, how, ordered);
    if (*mhops > 0)
        return true;
    snprintf(error, error_bytes, "no memory or thread for the bare loop");
    return false;
}

static void virtual_rows(struct bench *bench, const struct bench_virtual_case *what)
{
    struct bench_samples one = {.count = 0}, gain = {.count = 0}, most = {.count = 0};
    struct bench_samples bare = {.count = 0}, of_bare = {.count = 0}, bare_gain = {.count = 0};
    bool two_cores = emu_place_cores() >= 2;
    struct bench_virtual_how how[2] = {
        {WARMUP_PS, bench->quick ? 200000000 : 1000000000, 1, VIRTUAL_SEED},
    };
    struct traffic_result alone, both, beside;
    struct bench_samples ordered = {.count = 0}, of_ordered = {.count = 0};
    double loop, loops;
    struct virtual_kind one_worker = kinds[ALONE];
    bool good = true;
    char error[256];

    if (what->load > 0.5) /* longer queues are more work a hop */
        one_worker.target = 20;
    how[1] = how[0];
    how[1].workers = 2;
    for (unsigned left = bench_repeat(bench, 9, 3); left && good; left--) {
        good = bench_virtual_run(&alone, what, &how[0], error, sizeof error);
        if (good)
            bench_sample(&one, bench_virtual_mhops(&alone));
        if (good)
            good = bare_run(&loop, what, &how[0], false, error, sizeof error) &&
                   bare_run(&loops, what, &how[0], true, error, sizeof error);
        if (good) {
            bench_sample(&bare, loop);
            bench_sample(&of_bare, bench_virtual_mhops(&alone) / loop);
            bench_sample(&ordered, loops);
            bench_sample(&of_ordered, bench_virtual_mhops(&alone) / loops);
        }
        if (good && two_cores)
            good = bare_run(&loops, what, &how[1], false, error, sizeof error);
        if (good && two_cores)
            good = bench_virtual_run(&both, what, &how[1], error, sizeof error);
        if (good && two_cores)
            good = run_beside(&beside, what, &how[0], error, sizeof error);
        if (!good || !two_cores)
            continue;
        bench_sample(&bare_gain, loops / loop);
        bench_sample(&gain, bench_virtual_mhops(&both) / bench_virtual_mhops(&alone));
        bench_sample(&most, 2 * bench_virtual_mhops(&beside) / bench_virtual_mhops(&alone));
    }
    virtual_row(bench, what, &one_worker, &one, good ? NULL : error);
    virtual_row(bench, what, &kinds[BARE], &bare, good ? NULL : error);
    virtual_row(bench, what, &kinds[OF_BARE], &of_bare, good ? NULL : error);
    virtual_row(bench, what, &kinds[ORDERED], &ordered, good ? NULL : error);
    virtual_row(bench, what, &kinds[OF_ORDERED], &of_ordered, good ? NULL : error);
    if (two_cores) {
        virtual_row(bench, what, &kinds[GAIN], &gain, good ? NULL : error);
        virtual_row(bench, what, &kinds[MOST], &most, good ? NULL : error);
        virtual_row(bench, what, &kinds[BARE_GAIN], &bare_gain, good ? NULL : error);
    }
}

/*
 * What a hop takes in a network whose switches fit into no cache, over one of 256 nodes as @small
 * is. The lines that a run touches first have been touched before either is measured.
 */
static void size_rows(struct bench *bench, const struct bench_virtual_case *small,
                      const struct bench_virtual_case *large, uint64_t measure_ps)
{
    struct bench_virtual_how how[2] = {{WARMUP_PS, 200000000, 1, VIRTUAL_SEED},
                                       {WARMUP_PS, measure_ps, 1, VIRTUAL_SEED}};
    struct bench_samples speed = {.count = 0}, over = {.count = 0}, bare_over = {.count = 0};
    struct traffic_result result[2];
    struct bench_samples ordered_over = {.count = 0};
    double loop[2], loops[2];
    bool good = true;
    char error[256];

    for (unsigned left = bench_repeat(bench, 5, 3); left && good; left--) {
        good = bench_virtual_run(&result[0], small, &how[0], error, sizeof error) &&
               bench_virtual_run(&result[1], large, &how[1], error, sizeof error) &&
               bare_run(&loop[0], small, &how[0], false, error, sizeof error) &&
               bare_run(&loop[1], large, &how[1], false, error, sizeof error) &&
               bare_run(&loops[0], small, &how[0], true, error, sizeof error) &&
               bare_run(&loops[1], large, &how[1], true, error, sizeof error);
        if (!good)
            break;
        bench_sample(&speed, bench_virtual_mhops(&result[1]));
        bench_sample(&over, bench_virtual_mhops(&result[0]) / bench_virtual_mhops(&result[1]));
        bench_sample(&bare_over, loop[0] / loop[1]);
        bench_sample(&ordered_over, loops[0] / loops[1]);
    }
    virtual_row(bench, large, &kinds[LARGE], &speed, good ? NULL : error);
    virtual_row(bench, large, &kinds[OVER], &over, good ? NULL : error);
    virtual_row(bench, large, &kinds[BARE_OVER], &bare_over, good ? NULL : error);
    virtual_row(bench, large, &kinds[ORDERED_OVER], &ordered_over, good ? NULL : error);
}

void bench_virtual(struct bench *bench, int unused)
{
    static const struct bench_virtual_case cases[] = {
        {"ports8.load0.5", "kary:4,4", "oq2004", false, "uniform", 0, 240, 0.5},
        {"ports8.load0.9", "kary:4,4", "oq2004", false, "uniform", 0, 240, 0.9},
        {"ports32.load0.5", "kary:16,2", "oq2004", false, "uniform", 0, 240, 0.5},
        {"ports32.load0.9", "kary:16,2", "oq2004", false, "uniform", 0, 240, 0.9},
    };

    static const struct bench_virtual_case large[] = {
        {"nodes4096", "kary:4,6", "oq2004", false, "uniform", 0, 240, 0.5},
        {"nodes65536", "kary:4,8", "oq2004", false, "uniform", 0, 240, 0.5},
    };

    (void)unused;
    for (unsigned i = 0; i < 4; i++) {
        bench_progress(bench, "virtual", i / 8.0);
        virtual_rows(bench, &cases[i]);
    }
    bench_progress(bench, "virtual", 0.5);
    size_rows(bench, &cases[0], &large[0], 20000000);
    bench_progress(bench, "virtual", 0.75);
    if (!bench->quick) /* it takes 2 GB, and half a minute */
        size_rows(bench, &cases[0], &large[1], 5000000);
}
