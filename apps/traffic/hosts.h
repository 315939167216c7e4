/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - a run on several hosts: each has its part of the fabric and of the nodes, and all do
 * the same at the same simulated times.
 *
 * Every host runs the whole driver. What it decides by are sums over all hosts, or what all of them
 * know, so all decide alike; none waits for another one's decision. Whatever one tells the others
 * it tells in a superstep (emu/hostlink/barrier.h), and all hosts come to each of them in the same
 * order. On one host all of this does nothing.
 *
 * Once a host is lost, or has ended, nothing comes of it any more: sums are those of this host
 * alone, simulated time stands still, and traffic_hosts_error() says so. Whoever sums up need not
 * look; whoever goes on for longer must.
 */
#ifndef APPS_TRAFFIC_HOSTS_H
#define APPS_TRAFFIC_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#include "apps/fabric/fabric.h"
#include "apps/fabric/hosts.h"
#include "apps/traffic/workload/worker.h"
#include "emu/hostlink/barrier.h"
#include "emu/hostlink/virtual.h"

struct traffic_run;

/* The hosts of a run, or of several, one after the other. */
struct traffic_hosts {
    struct emu_barrier *barrier; /* all have met */
    struct emu_virtual *link;    /* of the fabric that runs; NULL: none does */
    const struct topo_graph *graph;
    const uint32_t *of;         /* by switch: which host has it */
    struct fabric_hosts fabric; /* for fabric_config.hosts */
    struct fabric_crossing_ops ops;
};

/**
 * traffic_hosts_init - @barrier, @graph and @of (by switch) are borrowed as long as @hosts is used.
 */
void traffic_hosts_init(struct traffic_hosts *hosts, struct emu_barrier *barrier,
                        const struct topo_graph *graph, const uint32_t *of);

/**
 * traffic_hosts_error - 0, or what ended the hosts' common run, with the run's line about it.
 */
int traffic_hosts_error(struct traffic_run *run);

/**
 * traffic_hosts_gather - all hosts give each other bytes; each other host's are handed to @each.
 */
void traffic_hosts_gather(struct traffic_run *run, const void *mine, size_t bytes,
                          void (*each)(void *ctx, uint32_t host, const void *its, size_t bytes),
                          void *ctx);

/** traffic_hosts_sum - each word becomes the sum of all hosts' at its place, modulo 2^64. */
void traffic_hosts_sum(struct traffic_run *run, uint64_t *words, size_t count);

/**
 * traffic_hosts_merge - a word a node, which the node's host alone knows: all know them all then.
 */
void traffic_hosts_merge(struct traffic_run *run, uint64_t *by_node);

/**
 * traffic_hosts_logs - all that nodes have logged, here and on all other hosts, is handed to @take,
 * in some pieces, and forgotten. Errors: -ENOMEM, not all of it is.
 */
int traffic_hosts_logs(struct traffic_run *run, struct traffic_workers *workers,
                       void (*take)(void *ctx, const struct traffic_part *part, size_t count),
                       void *ctx);

/** traffic_hosts_begin - a run begins. Errors: -EINVAL, another host was given other traffic. */
int traffic_hosts_begin(struct traffic_run *run);

/** traffic_hosts_of_node - which host has it. */
uint32_t traffic_hosts_of_node(const struct traffic_hosts *hosts, uint32_t node);

#endif
