/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.c - functions that all kinds of runs share: they check the memory, start and stop the fabric,
 * and check and add up the results.
 */
#include "apps/traffic/run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "apps/base/amount.h"
#include "apps/traffic/internal.h"
#include "emu/util/now.h"
#include "emu/util/pages.h"

/* Return the wall time in seconds since began_ns, and set began_ns to now. */
static double lap_s(struct traffic_run *run)
{
    uint64_t now_ns = emu_now_ns();
    double passed = (double)(now_ns - run->began_ns) / 1e9;

    run->began_ns = now_ns;
    return passed;
}

int traffic_run_wrong(struct traffic_run *run, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(run->error, run->error_bytes, format, args);
    va_end(args);
    if (run->config->hosts)
        emu_barrier_fail(run->config->hosts->barrier, run->error);
    return err;
}

/* Return how many bytes the kernel can allocate without swapping; UINT64_MAX: unknown. */
static uint64_t memory_available(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;
    char line[256];
    bool found = false;

    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    if (file)
        fclose(file);
    return found ? kib * 1024 : UINT64_MAX;
}

/* Return the smallest memory.max (cgroup v2) of this process's cgroup and its ancestors. */
static uint64_t memory_limit(void)
{
    char path[4096 + 64] = "/sys/fs/cgroup";
    size_t root = strlen(path);
    uint64_t least = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[4096];

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "0::%4094[^\n]", path + root) == 1)
            break;
    if (file)
        fclose(file);
    for (char *end; (end = strrchr(path, '/')) >= path + root - strlen("/cgroup"); *end = '\0') {
        size_t length = strlen(path);
        unsigned long long most;
        strcat(path, "/memory.max");
        file = fopen(path, "re");
        path[length] = '\0';
        if (file && fscanf(file, "%llu", &most) == 1 && most < least)
            least = most;
        if (file)
            fclose(file);
    }
    return least;
}

static int check_memory(struct traffic_run *run, const struct fabric_config *fabric,
                        uint64_t own_bytes, uint64_t group_bytes)
{
    struct fabric_bytes bytes;
    uint64_t available = memory_available();
    uint64_t limit = memory_limit();

    available = available < limit ? available : limit;
    fabric_bytes(fabric, &bytes);
    uint64_t all = bytes.total + own_bytes + group_bytes;
    run->bytes = all;
    if (all <= available)
        return 0;
    return traffic_run_wrong(run, -ENOMEM,
                             "%s needs %.1f GiB of memory, but %.1f GiB are available; choose %s",
                             fabric->graph->spec, (double)all / (1u << 30),
                             (double)available / (1u << 30),
                             all - group_bytes <= available ? "fewer --sets or --sources"
                                                            : "a smaller network");
}

int traffic_run_start(struct traffic_run *run, const struct fabric_node_ops *ops,
                      uint64_t own_bytes, uint64_t group_bytes)
{
    int err;

    run->built = run->config->fabric;
    run->built.clock = EMU_CLOCK_VIRTUAL;
    run->built.local_nodes = ops;
    if (run->config->hosts)
        run->built.hosts = &run->config->hosts->fabric;
    run->began_ns = emu_now_ns();
    err = check_memory(run, &run->built, own_bytes, group_bytes);
    if (!err) {
        /* with an allowance for the overhead of malloc() */
        bool huge = emu_pages_begin(run->bytes + run->bytes / 4);

        err = fabric_start(&run->fabric, &run->built, run->error, run->error_bytes);
        if (huge)
            emu_pages_end();
    }
    if (!err && run->config->capture)
        err = capture_begin(&run->capture, run->fabric, run->built.graph, run->config->capture,
                            run->error, run->error_bytes);
    if (!err)
        err = traffic_faults_start(run);
    return err ? err : traffic_snapshots_start(run);
}

void traffic_run_stop(struct traffic_run *run)
{
    traffic_snapshots_stop(run);
    traffic_faults_stop(run);
    capture_end(run->capture, run->fabric);
    fabric_stop(run->fabric);
}

int traffic_run_progress(struct traffic_run *run, double done)
{
    const struct traffic_config *config = run->config;

    run->done = done;
    if (!config->progress || config->progress(config->context, done < 1 ? done : 1))
        return 0;
    return traffic_run_interrupted(run);
}

int traffic_run_interrupted(struct traffic_run *run)
{
    return traffic_run_wrong(run, -EINTR, "interrupted after %s of simulated time",
                             duration_of_ns((double)run->now_ps / 1000).text);
}

void traffic_run_begin(struct traffic_run *run)
{
    run->result->build_s = lap_s(run);
}

int traffic_run_check(struct traffic_run *run)
{
    struct traffic_result *result = run->result;
    struct fabric_totals totals;
    int err;

    result->wall_s = lap_s(run);
    fabric_totals_read(run->fabric, &totals);
    uint64_t sums[] = {totals.hops, fabric_threads(run->fabric), run->bytes, totals.dropped};

    traffic_hosts_sum(run, sums, sizeof sums / sizeof sums[0]);
    result->hops = sums[0];
    result->threads = (uint32_t)sums[1];
    result->bytes_per_node = sums[2] / run->config->fabric.graph->nodes;
    result->hosts = run->config->hosts ? run->config->hosts->fabric.count : 1;
    result->windows = fabric_windows(run->fabric);
    result->virtual_ps = run->now_ps;
    traffic_faults_result(run);
    err = traffic_hosts_error(run);
    if (err)
        return err;
    if (sums[3] && !run->faults) /* with faults, duplicates and late segments are dropped */
        return traffic_run_wrong(run, -EPROTO, "the fabric dropped %llu segment%s",
                                 (unsigned long long)sums[3], plural_s(sums[3]));
    err = traffic_snapshots_end(run);
    if (!err)
        err = fabric_check(run->fabric, run->now_ps, run->error, run->error_bytes);
    if (!err) /* this sum is a barrier: after it, the checks of all hosts have passed */
        traffic_hosts_sum(run, sums, 1);
    return err ? err : traffic_hosts_error(run);
}

void traffic_result_release(struct traffic_result *result)
{
    free(result->series.bytes);
    result->series = (struct traffic_series){.windows = 0};
}

int traffic_run(struct traffic_result *ret, const struct traffic_config *config, char *error,
                size_t error_bytes)
{
    struct traffic_run run = {.config = config,
                              .result = ret,
                              .error = error,
                              .error_bytes = error_bytes};

    *ret = (struct traffic_result){.bytes = config->bytes};
    int err = traffic_hosts_begin(&run);
    if (!err && config->goal)
        err = traffic_run_goal(&run);
    else if (!err && config->pattern.kind == TRAFFIC_COLLECTIVE)
        err = traffic_run_closed(&run);
    else if (!err)
        err = traffic_run_open(&run);
    if (err)
        traffic_result_release(ret);
    if (err && config->hosts)
        /* no effect if the barrier has failed already */
        emu_barrier_fail(config->hosts->barrier, error);
    return err;
}
