/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node.h - nodes that send messages at random times and measure arrivals: open-loop traffic on
 * clock virtual.
 *
 * The queue of a source is unlimited and takes no memory: the next message is drawn when the
 * previous one has been sent, and its birth may then be in the past. The number of waiting messages
 * is found by drawing the same times again.
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
    const struct traffic_sets *sets; /* TRAFFIC_MULTICAST; else NULL */
    const uint8_t *links;            /* by node: links of a sender; 0: it sends nothing */
    uint32_t links_most;             /* of any node */
    uint64_t seed;
    uint64_t bytes;  /* payload of a message */
    uint64_t gap_ps; /* mean time between births at a source with one link */
    struct traffic_phase phase;
    uint64_t window_ps; /* of the series of delivered bytes; 0: no series */
    uint32_t windows;   /* of the series, from the start of the run on */
    bool poisson;       /* exponential gaps; else constant */
    bool hardware;      /* switches copy multicasts; else unicast messages in a tree */
    uint32_t arity;     /* of that tree: traffic_tree_next() */
    bool completions;   /* log every delivery, for the completion times of multicasts */
};

struct traffic_nodes {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    struct traffic_plan plan;
    struct traffic_exp exp;
    uint64_t stop_ps;  /* messages born then or later are not sent; 0: none is sent */
    uint64_t slice_ps; /* most time between two calls of the driver */
    uint64_t gap_ps[TOPO_NODE_LINKS_MAX + 1]; /* by the source's links */
    uint64_t message_wire_ps;                 /* wire time of a message, headers included */
    uint64_t message_stats_ps; /* its wire time in the accumulators: see traffic_wire_ps() */
    struct traffic_times times;
    uint64_t *share; /* by fanout: 2^32 / fanout, the weight of a copy */
    uint32_t nodes;
    uint32_t segments;          /* of a message */
    uint8_t last_bytes;         /* payload of its last segment */
    bool relays;                /* receivers forward multicasts in a tree */
    struct traffic_node **node; /* NULL: on another host */
    struct traffic_workers workers;
};

/**
 * traffic_nodes_init - before fabric_start().
 * @plan: copied; its pointers are borrowed until traffic_nodes_free().
 * Errors: -ENOMEM; call traffic_nodes_free() even then.
 */
int traffic_nodes_init(struct traffic_nodes *all, uint32_t nodes, const struct traffic_plan *plan);

/** traffic_nodes_free - after fabric_stop(). */
void traffic_nodes_free(struct traffic_nodes *all);

/** traffic_nodes_bytes - approximate memory, with tables and logs. Pure. */
uint64_t traffic_nodes_bytes(const struct traffic_nodes *all);

/* --- for the driver, while the workers are stopped; about the nodes of this host ---- */

/** traffic_nodes_begin - draw the first messages. The destination sets must have addresses. */
void traffic_nodes_begin(struct traffic_nodes *all);

/** traffic_nodes_measure - reset the statistics; count births and arrivals in @phase. */
void traffic_nodes_measure(struct traffic_nodes *all, const struct traffic_phase *phase);

/** traffic_nodes_reserve - grow tables and logs for the next slice. Errors: -ENOMEM. */
int traffic_nodes_reserve(struct traffic_nodes *all);

/**
 * traffic_nodes_stop - do not send messages born at @stop_ps or later; 0: none at all, and waiting
 * messages are abandoned. @now_ps: all events up to then have happened.
 */
void traffic_nodes_stop(struct traffic_nodes *all, uint64_t stop_ps, uint64_t now_ps);

/* Messages of all sources, up to a time. */
struct traffic_counts {
    uint64_t born;
    int64_t waiting;  /* past the adapter's delay, but not completely on the wire yet */
    uint64_t relayed; /* copies that nodes will forward, weighted, in units of 2^-32 */
};

/** traffic_nodes_count - count up to @now_ps, which must not decrease from call to call. */
struct traffic_counts traffic_nodes_count(struct traffic_nodes *all, uint64_t now_ps);

/** traffic_nodes_digests - by node: the digest of all its deliveries so far. */
void traffic_nodes_digests(const struct traffic_nodes *all, uint64_t *by_node);

/* Segments at the nodes so far. */
struct traffic_segments {
    uint64_t sent;
    uint64_t awaited; /* copies that must arrive for the sent ones */
    uint64_t received;
};
struct traffic_segments traffic_nodes_segments(const struct traffic_nodes *all);

/**
 * traffic_nodes_stuck - after traffic_nodes_stop(0), when the network is empty: a node that still
 * waits for a credit, or traffic_nodes.nodes.
 */
uint32_t traffic_nodes_stuck(const struct traffic_nodes *all);

/** traffic_nodes_invalid - was a segment dropped that no source can have sent? */
bool traffic_nodes_invalid(const struct traffic_nodes *all);

/** traffic_nodes_lost - did a table or a log overflow? That would be a bug. */
bool traffic_nodes_lost(const struct traffic_nodes *all);

#endif
