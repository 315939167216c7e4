/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * virtual.h - a run of synthetic traffic in simulated time, as `fabemu traffic` does it.
 */
#ifndef APPS_BENCH_VIRTUAL_H
#define APPS_BENCH_VIRTUAL_H

#include <json-c/json.h>

#include "apps/bench/internal.h"
#include "apps/traffic/run.h"

struct bench_virtual_case {
    const char *name;
    const char *topo;
    const char *profile;
    bool acknowledged;   /* else segments go their way */
    const char *pattern; /* NULL: node 0 to node @to, and nobody else */
    uint32_t to;
    uint32_t bytes; /* payload of a message */
    double load;
};

struct bench_virtual_how {
    uint64_t warmup_ps;
    uint64_t measure_ps;
    uint32_t workers;
    uint64_t seed;
};

/** bench_virtual_run - one run. False: the reason is in @error. */
bool bench_virtual_run(struct traffic_result *ret, const struct bench_virtual_case *what,
                       const struct bench_virtual_how *how, char *error, size_t error_bytes);

/** bench_virtual_mhops - segments that left a switch, replies too, in millions a second. */
double bench_virtual_mhops(const struct traffic_result *result);

struct json_object *bench_virtual_conditions(const struct bench_virtual_case *what,
                                             const char *workers);

#endif
