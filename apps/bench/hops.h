/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hops.h - a fabric inside this process that is stepped for a while, and what moved in it.
 */
#ifndef APPS_BENCH_HOPS_H
#define APPS_BENCH_HOPS_H

#include <json-c/json.h>

#include "apps/bench/nodes.h"

struct bench_hops_case {
    const char *profile;
    bool acknowledged; /* else segments go their way */
    const char *topo;
    const char *says; /* of the traffic, for the conditions */
    struct bench_traffic traffic;
};

struct bench_hops {
    struct fabric_config config;
    struct topo_graph *graph;
    struct bench_nodes nodes;
    struct fabric *fabric;
    uint64_t cpu_ns; /* of all samples */
    uint64_t wall_ns;
};

/* What one sample saw. Times are the thread's own. */
struct bench_hops_sample {
    double hop_ns;     /* a segment's way out of a switch; replies are work, and do not count */
    double segment_ns; /* a segment's way from node to node, as the nodes cut them */
    double packet_ns;  /* acknowledged: a packet's */
    double packet;     /* acknowledged: segments of a packet on the wire */
};

/** bench_config - a fabric as `fabemu run` would make it. The caller frees the graph. */
int bench_config(struct fabric_config *ret, struct topo_graph **graph, const char *profile,
                 const char *topo, char *error, size_t error_bytes);

/**
 * bench_hops_open - nothing has moved yet. In any case bench_hops_close() wants to be called.
 * @workers: on threads of their own, which begin at once; 0: one, which the caller's thread steps.
 */
int bench_hops_open(struct bench_hops *hops, const struct bench_hops_case *what, uint32_t workers,
                    char *error, size_t error_bytes);
void bench_hops_close(struct bench_hops *hops);

/** bench_hops_step - step for @run_ns. For a fabric whose workers have no threads. */
struct bench_hops_sample bench_hops_step(struct bench_hops *hops, uint64_t run_ns);

/** bench_mhops - millions of hops a second for @ns, of a fabric whose workers have threads. */
double bench_mhops(const struct fabric *fabric, uint64_t ns);

/**
 * bench_threads_mhops - the same of @what's fabric by @workers that have threads, once its queues
 * are full, for @run_ns. A negative number: a line in @error says why.
 */
double bench_threads_mhops(const struct bench_hops_case *what, uint32_t workers, uint64_t run_ns,
                           char *error, size_t error_bytes);

/** bench_hops_wrong - a figure counts only if the fabric did its work. NULL, or what is wrong. */
const char *bench_hops_wrong(struct bench_hops *hops);

struct json_object *bench_hops_conditions(const struct bench_hops *hops,
                                          const struct bench_hops_case *what);

#endif
