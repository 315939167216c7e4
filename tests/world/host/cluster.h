/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.h - adapters on a real fabric on clock raw, with a group of all of them, and all that
 * they can do.
 *
 * The world owns the network, the fabric, the adapters, their queues and the group. One thread
 * steps the fabric's workers and the adapters in turn (cluster_pump, cluster_finish), except where
 * said. When it is closed no adapter may have dropped anything, unless it was in bad company.
 */
#ifndef TESTS_WORLD_CLUSTER_H
#define TESTS_WORLD_CLUSTER_H

#include "tests/world/host/adapters.h"

#define CLUSTER_NODES 8u
#define CLUSTER_BYTES 20000u /* of one message, put or broadcast put, at most */

struct cluster_config {
    const char *topo;
    const char *set;     /* a field of the profile, or NULL */
    uint32_t bad;        /* of so many entries of a million, each kind of fault */
    bool threads;        /* the fabric's worker and the adapters' are threads */
    uint32_t first;      /* where numbers begin */
    const char *profile; /* NULL: qsnet3 */
    uint32_t members;    /* nodes that have adapters: the first; 0: all */
    bool alone;          /* as where each thread has a core, on whatever host */
};

struct cluster {
    struct topo_graph *graph;
    struct fabric *fabric;
    uint32_t nodes;
    uint32_t seats;
    uint64_t random;
    bool threads;
    bool alone;
    bool bad_company;                /* others send what is no message */
    void (*also)(struct cluster *w); /* in each round; NULL: nothing */
    struct fabemu *fab[CLUSTER_NODES];
    struct fabemu_queue *queue[CLUSTER_NODES];
    struct fabemu_group *group[CLUSTER_NODES];
    uint32_t id; /* of the group */
};

void cluster_open(struct cluster *w, const struct cluster_config *set);
void cluster_close(struct cluster *w);
/** cluster_attach - a process comes to @node. */
void cluster_attach(struct cluster *w, uint32_t node);
/** cluster_group - a group of all, which they join. */
void cluster_group(struct cluster *w);

/** cluster_pump - one round of all that moves. */
void cluster_pump(struct cluster *w);
/** cluster_finish - until all are complete; false after 20 s, on whatever host. */
bool cluster_finish(struct cluster *w, struct fabemu_req *req, uint32_t count);

/** cluster_messages - of all sizes to the next node, in order. */
void cluster_messages(struct cluster *w);
/**
 * cluster_memory - all add to one word of node 0's, each once whatever is sent again. Then puts and
 * gets.
 */
void cluster_memory(struct cluster *w);
/**
 * cluster_broadcasts - broadcast puts of all members at once, then the barrier of the paper: words,
 * a conditional, a done word.
 */
void cluster_broadcasts(struct cluster *w);
/** cluster_collectives - more of them than a window of the group's numbers, each checked. */
void cluster_collectives(struct cluster *w);

#endif
