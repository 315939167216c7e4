/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - a run on several hosts: each host has its own part of the fabric and of the nodes, and
 * all hosts advance through the same simulated times.
 *
 * Every host runs the whole driver (the thread that runs the traffic). It bases its decisions only
 * on sums over all hosts and on data that all hosts have. So all hosts make the same decisions, and
 * none waits for the decision of another. Hosts exchange data in supersteps
 * (emu/hostlink/barrier.h), and all hosts reach the same supersteps in the same order. In a run on
 * one host these functions do nothing.
 *
 * After a host is lost or has ended, sums cover this host alone, simulated time stops, and
 * traffic_hosts_error() returns the error. A caller that loops must check for it.
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

/* The hosts of one run, or of several runs one after the other. */
struct traffic_hosts {
    struct emu_barrier *barrier; /* borrowed; all hosts are connected */
    struct emu_virtual *link;    /* host link of the running fabric; NULL: no fabric runs */
    const struct topo_graph *graph;
    const uint32_t *of;         /* by switch: index of its host */
    struct fabric_hosts fabric; /* for fabric_config.hosts */
    struct fabric_crossing_ops ops;
};

/** traffic_hosts_init - borrows @barrier, @graph and @of while @hosts is used. */
void traffic_hosts_init(struct traffic_hosts *hosts, struct emu_barrier *barrier,
                        const struct topo_graph *graph, const uint32_t *of);

/**
 * traffic_hosts_error - return the error that has ended the run, or 0. Sets the run's error text.
 */
int traffic_hosts_error(struct traffic_run *run);

/** traffic_hosts_gather - send @mine to all hosts, and call @each with each other host's bytes. */
void traffic_hosts_gather(struct traffic_run *run, const void *mine, size_t bytes,
                          void (*each)(void *ctx, uint32_t host, const void *theirs, size_t bytes),
                          void *ctx);

/**
 * traffic_hosts_sum - replace each word by its sum over all hosts. If a sum does not fit in 64
 * bits, because a host lies, the run ends.
 */
void traffic_hosts_sum(struct traffic_run *run, uint64_t *words, size_t count);

/**
 * traffic_hosts_digest - combine the digests of all nodes into the result's digest. @by_node:
 * digests of this host's nodes; on return, of all nodes.
 */
void traffic_hosts_digest(struct traffic_run *run, uint64_t *by_node, uint32_t nodes);

/**
 * traffic_hosts_logs - pass the logs of all nodes on all hosts to @take, in several pieces, and
 * clear them. Errors: -ENOMEM; then @take has not received all entries.
 */
int traffic_hosts_logs(struct traffic_run *run, struct traffic_workers *workers,
                       void (*take)(void *ctx, const struct traffic_part *part, size_t count),
                       void *ctx);

/** traffic_hosts_begin - check that all hosts run the same traffic. Errors: -EINVAL. */
int traffic_hosts_begin(struct traffic_run *run);

/** traffic_hosts_of_node - return the host of @node. */
uint32_t traffic_hosts_of_node(const struct traffic_hosts *hosts, uint32_t node);

#endif
