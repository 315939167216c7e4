/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node.h - open-loop traffic in simulated time: nodes send at random times and measure arrivals.
 *
 * A message is *born* when its source generates it. The queue of a source is unlimited but takes no
 * memory, because the source draws the next message only when it has sent the previous one. The
 * birth of that message may then be in the past. To count the waiting messages, the driver draws
 * the same times again.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_NODE_H
#define APPS_TRAFFIC_WORKLOAD_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/fabric/fabric.h"
#include "apps/traffic/workload/pattern.h"
#include "apps/traffic/workload/pending.h"
#include "apps/traffic/workload/relay.h"
#include "apps/traffic/workload/sets.h"
#include "apps/traffic/workload/worker.h"

struct traffic_node;

/* The plan of all nodes. The driver writes it; nodes only read it. */
struct traffic_plan {
    const struct emu_profile *profile;
    const struct traffic_pattern *pattern;
    const struct traffic_sets *sets; /* TRAFFIC_MULTICAST: the destination sets; otherwise NULL */
    /* by node: number of its links if it sends; 0: it sends nothing */
    const uint8_t *links;
    uint32_t links_most; /* maximum number of links of a node */
    uint64_t seed;
    uint64_t bytes;  /* payload of a message */
    uint64_t gap_ps; /* mean time between births at a source with one link */
    struct traffic_phase phase;
    uint64_t window_ps; /* length of a window in the series of delivered bytes; 0: no series */
    uint32_t windows;   /* number of these windows; the first one begins with the run */
    bool poisson;       /* exponential gaps; otherwise constant gaps */
    /* switches copy multicasts; otherwise nodes forward unicast messages in a tree */
    bool hardware;
    uint32_t arity;   /* arity of that tree, see traffic_tree_next() */
    bool completions; /* log every delivery, for the completion times of multicasts */
};

struct traffic_nodes {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    struct traffic_plan plan;
    struct traffic_exp exp;
    uint64_t stop_ps;  /* messages born then or later are not sent; 0: no message is sent */
    uint64_t slice_ps; /* longest simulated time between two calls of the driver */
    /* mean time between births at a source, by its number of links */
    uint64_t gap_ps[TOPO_NODE_LINKS_MAX + 1];
    uint64_t message_wire_ps;  /* wire time of a message, headers included */
    uint64_t message_stats_ps; /* wire time as the statistics count it, see traffic_wire_ps() */
    struct traffic_times times;
    uint64_t *share; /* by fanout: 2^32 / fanout, the weight of a copy */
    uint32_t nodes;
    uint32_t segments;          /* number of segments of a message */
    uint8_t last_bytes;         /* payload of a message's last segment */
    bool relays;                /* receivers forward multicasts in a tree */
    struct traffic_node **node; /* NULL: on another host */
    struct traffic_workers workers;
};

/**
 * traffic_nodes_init - call before fabric_start().
 * @plan: copied; its pointers are borrowed until traffic_nodes_free().
 * Errors: -ENOMEM; traffic_nodes_free() must be called even then.
 */
int traffic_nodes_init(struct traffic_nodes *all, uint32_t nodes, const struct traffic_plan *plan);

/** traffic_nodes_free - call after fabric_stop(). */
void traffic_nodes_free(struct traffic_nodes *all);

/** traffic_nodes_bytes - estimate the memory of the nodes, their tables and logs. Pure. */
uint64_t traffic_nodes_bytes(const struct traffic_nodes *all);

/* --- for the driver, while the workers are stopped; for the nodes of this host ------ */

/** traffic_nodes_begin - draw the first messages. The destination sets must have addresses. */
void traffic_nodes_begin(struct traffic_nodes *all);

/** traffic_nodes_measure - reset the statistics, and measure @phase from now on. */
void traffic_nodes_measure(struct traffic_nodes *all, const struct traffic_phase *phase);

/** traffic_nodes_reserve - grow tables and logs for the next slice. Errors: -ENOMEM. */
int traffic_nodes_reserve(struct traffic_nodes *all);

/**
 * traffic_nodes_stop - do not send messages that are born at @stop_ps or later. If @stop_ps is 0,
 * send no further message, and abandon the waiting messages. @now_ps: all events up to this time
 * have happened.
 */
void traffic_nodes_stop(struct traffic_nodes *all, uint64_t stop_ps, uint64_t now_ps);

/* Counts of the messages of all sources, up to a time. */
struct traffic_counts {
    uint64_t born;
    int64_t waiting;  /* messages not sent yet, without those that the adapter delays */
    uint64_t relayed; /* copies that nodes still have to forward, each weighted by 2^32 / fanout */
};

/**
 * traffic_nodes_count - count the messages born up to @now_ps. @now_ps must not decrease between
 * calls.
 */
struct traffic_counts traffic_nodes_count(struct traffic_nodes *all, uint64_t now_ps);

/** traffic_nodes_digests - set @by_node to the digests of all deliveries so far. */
void traffic_nodes_digests(const struct traffic_nodes *all, uint64_t *by_node);

/* Segments at the nodes so far. */
struct traffic_segments {
    uint64_t sent;
    /*
     * number of arrivals that the sent segments must cause: one per segment or, for a multicast,
     * one per receiver
     */
    uint64_t awaited;
    uint64_t received;
};
struct traffic_segments traffic_nodes_segments(const struct traffic_nodes *all);

/**
 * traffic_nodes_stuck - return a node that still waits for a credit, or traffic_nodes.nodes if
 * there is none. Call it after traffic_nodes_stop(0), when the network is empty.
 */
uint32_t traffic_nodes_stuck(const struct traffic_nodes *all);

/** traffic_nodes_invalid - return whether a node has dropped a segment that no source can send. */
bool traffic_nodes_invalid(const struct traffic_nodes *all);

/** traffic_nodes_lost - return whether a table or a log has overflowed, which would be a bug. */
bool traffic_nodes_lost(const struct traffic_nodes *all);

#endif
