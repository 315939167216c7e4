/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.h - a fabric of crosspoint switches, mostly on clock raw, that a test steps pass by pass,
 * with a probe at each node.
 *
 * It owns the network, the fabric and the probes. Time goes on when the test steps the one worker
 * (emu_worker_pass); between passes it may look into every ring and switch. Whether anything is
 * lost or leaks is for the test to ask: fabric_check(), fabric_check_bufs().
 */
#ifndef TESTS_WORLD_BENCH_H
#define TESTS_WORLD_BENCH_H

#include "tests/world/fabric.h"

#define BENCH_NODES 64

/* A node that sends what the test hands it and notes what arrives. */
struct probe {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    uint32_t node;
    bool deaf; /* takes nothing: the network backs up */
    uint32_t sent;
    uint32_t got;
    uint32_t got_from[BENCH_NODES];
    uint32_t last_seq[BENCH_NODES]; /* 1 + the newest, by source */
    uint32_t out_of_order;
    uint64_t last_ps[BENCH_NODES]; /* the time of the newest, by source */
    double number;                 /* the first one of the newest payload */
};

struct bench {
    struct topo_graph *graph;
    struct fabric *fabric;
    struct emu_worker *worker;
    struct probe *probe[BENCH_NODES];
    struct fabric_node_ops ops;
};

/** bench_profile - oq2004 with cables of @slots credits. */
struct emu_profile bench_profile(enum emu_credit_policy credit, uint32_t slots);

/** bench_start_on - the network @spec of such a profile, on a clock; bench_start: on clock raw. */
void bench_start_on(struct bench *b, enum emu_clock_mode clock, const char *spec,
                    const struct emu_profile *profile);
void bench_start(struct bench *b, const char *spec, const struct emu_profile *profile);

/** bench_open - the same of bench_profile(). */
void bench_open(struct bench *b, const char *spec, enum emu_credit_policy credit, uint32_t slots);

/** bench_close - whatever is under way. */
void bench_close(struct bench *b);

/** probe_room - is a credit there for one more segment? */
bool probe_room(struct bench *b, uint32_t node);

/** probe_put - send one segment. There is room. */
void probe_put(struct bench *b, uint32_t node, struct emu_entry *entry);

/** probe_send - send one segment, numbered, with a buffer, if a credit is there. */
bool probe_send(struct bench *b, uint32_t node, const struct emu_hdr *hdr);

#endif
