/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_run.h - one run of transport_node.h's nodes over a fabric with bad cables: started, run
 * until nothing is left under way, checked.
 */
#ifndef TESTS_WORLD_TRANSPORT_RUN_H
#define TESTS_WORLD_TRANSPORT_RUN_H

#include <stdio.h>

#include "apps/fabric/fabric.h"
#include "emu/fault/fault.h"
#include "tests/world/engine/transport_node.h"

#define TRANSPORT_SETS_MAX 16u
#define TRANSPORT_NOBODY   UINT32_MAX

struct transport_config {
    const char *topo;
    enum emu_clock_mode clock; /* virtual or raw */
    uint32_t threads;          /* as fabric_config.threads */
    uint64_t seed;
    uint64_t packets; /* messages of all nodes together; each is a packet, or several */
    struct transport_sizes sizes;
    uint32_t groups;               /* of random members; at most TRANSPORT_GROUPS_MAX */
    struct emu_fault_rates faults; /* of every cable, each way */
    uint32_t deaf;                 /* nothing reaches its engine; TRANSPORT_NOBODY */
    bool may_fail; /* segments may be given up, if their sender is told: very bad cables */
    /* called between two looks, with virtual time, or the host's in ps; NULL: nothing is */
    void (*between)(void *ctx, struct fabric *fabric, uint64_t now_ps);
    void *ctx;
    const char *set[TRANSPORT_SETS_MAX]; /* "NAME=VALUE": what differs from profile qsnet3 */
    uint32_t sets;
};

struct transport_result {
    struct transport_counts counts;
    struct fabric_transport transport;
    struct {
        uint64_t lost, damaged, twice, late;
    } injected; /* faults, on all cables, replies too */
    uint32_t nodes;
    uint32_t threads; /* as they were */
    uint64_t switch_timeouts;
    uint64_t content; /* digests: transport_node.h */
    uint64_t order;
    uint64_t now_ps; /* virtual: when all was over */
    double wall_s;
    char wrong[512]; /* one line, when it went wrong */
};

/**
 * transport_run - run to the end.
 * Errors: -EINVAL, -ENOMEM, ...: it cannot be run. -EPROTO: a property does not hold. Both with
 * ret->wrong.
 */
int transport_run(struct transport_result *ret, const struct transport_config *config);

/**
 * transport_mix - everything but clock and packets at random, from @seed: networks, faults, sizes.
 */
void transport_mix(struct transport_config *config, uint64_t seed);

/** transport_command - the line that does the same again: of transport_soak. */
void transport_command(FILE *to, const struct transport_config *config);

#endif
