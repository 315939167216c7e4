/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node.h - nodes inside the fabric that send messages at random times
 * and measure those that arrive: open-loop traffic on clock virtual.
 *
 * The queue of a source has no end and takes no memory: the next message is
 * drawn when the one before has been sent, and its birth may then lie in the
 * past. How many wait is found by drawing the same times once more.
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

/* What all nodes do. The driver's; nodes only read it. */
struct traffic_plan {
    const struct emu_profile *profile;
    const struct traffic_pattern *pattern;
    const struct traffic_sets *sets; /* TRAFFIC_MULTICAST: else NULL */
    /* by node: of a sender, into the network; 0: it sends nothing */
    const uint8_t *links;
    uint32_t links_most; /* of any node */
    uint64_t seed;
    uint64_t bytes; /* payload of a message */
    /* mean time between births at a source of one link; of n links: a part of n */
    uint64_t gap_ps;
    struct traffic_phase phase;
    uint64_t window_ps; /* of the series of what is delivered; 0: none is kept */
    uint32_t windows;   /* from the start of the run on */
    bool poisson;       /* gaps are exponential; else all the same */
    bool hardware;      /* multicasts are copied by the switches; else a message a destination, */
    uint32_t arity;     /* in a tree of this: traffic_tree_next() */
    bool completions;   /* log every delivery: when is a whole multicast there? */
};

struct traffic_nodes {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    struct traffic_plan plan;
    struct traffic_exp exp;
    uint64_t stop_ps;  /* what is born then or later is not sent; 0: nothing is */
    uint64_t slice_ps; /* the driver looks at the nodes at least so often */
    uint64_t gap_ps[TOPO_NODE_LINKS_MAX + 1]; /* by the source's links */
    uint64_t message_wire_ps;  /* what a message takes of the wire, headers included */
    uint64_t message_stats_ps; /* what the accumulators count for it: see traffic_wire_ps() */
    struct traffic_times times;
    uint64_t *share; /* by fanout: 2^32 / fanout; what a copy counts */
    uint32_t nodes;
    uint32_t segments;          /* of a message */
    uint8_t last_bytes;         /* payload of the last of them */
    bool relays;                /* those who have a multicast pass it on */
    struct traffic_node **node; /* NULL: on another host */
    struct traffic_workers workers;
};

/**
 * traffic_nodes_init - before fabric_start().
 * @plan: copied; what it points to is borrowed until traffic_nodes_free().
 * Errors: -ENOMEM; then traffic_nodes_free() still wants to be called.
 */
int traffic_nodes_init(struct traffic_nodes *all, uint32_t nodes, const struct traffic_plan *plan);

/** traffic_nodes_free - after fabric_stop(). */
void traffic_nodes_free(struct traffic_nodes *all);

/** traffic_nodes_bytes - memory that they take, about, tables and logs included. Pure. */
uint64_t traffic_nodes_bytes(const struct traffic_nodes *all);

/*
 * What follows is for the driver, while the workers stand still. On several hosts it is all about
 * the nodes that are here.
 */

/** traffic_nodes_begin - draw the first messages. The destination sets have their addresses. */
void traffic_nodes_begin(struct traffic_nodes *all);

/** traffic_nodes_measure - what is born, or arrives, in @phase counts; forget what was counted. */
void traffic_nodes_measure(struct traffic_nodes *all, const struct traffic_phase *phase);

/**
 * traffic_nodes_room - make room for what can arrive in the next slice.
 * Errors: -ENOMEM.
 */
int traffic_nodes_room(struct traffic_nodes *all);

/**
 * traffic_nodes_stop - send nothing more that is born at @stop_ps or later; 0: nothing at all, and
 * messages that wait stay where they are. No source wakes for what it does not send.
 * @now_ps: up to where everything has happened.
 */
void traffic_nodes_stop(struct traffic_nodes *all, uint64_t stop_ps, uint64_t now_ps);

/* Messages of all sources, up to a time. */
struct traffic_counts {
    uint64_t born;
    int64_t waiting;  /* of them, through the adapter and not whole on the wire yet */
    uint64_t relayed; /* copies that nodes are to pass on, each a part: in units of 2^-32 */
};

/**
 * traffic_nodes_count - count what was born before @now_ps, which is no less than in the call
 * before.
 */
struct traffic_counts traffic_nodes_count(struct traffic_nodes *all, uint64_t now_ps);

/** traffic_nodes_digests - of each node: of all its deliveries so far. */
void traffic_nodes_digests(const struct traffic_nodes *all, uint64_t *by_node);

/* Segments at the nodes so far. */
struct traffic_segments {
    uint64_t sent;
    uint64_t awaited; /* copies that are to come of them, each */
    uint64_t received;
};
struct traffic_segments traffic_nodes_segments(const struct traffic_nodes *all);

/**
 * traffic_nodes_stuck - after traffic_nodes_stop(0), and the network is empty: a node that was
 * waiting for a credit and was told of none, or traffic_nodes.nodes.
 */
uint32_t traffic_nodes_stuck(const struct traffic_nodes *all);

/** traffic_nodes_strange - has a segment come that no source can have sent? It was dropped. */
bool traffic_nodes_strange(const struct traffic_nodes *all);

/** traffic_nodes_lost - did a table or a log overflow? It never should. */
bool traffic_nodes_lost(const struct traffic_nodes *all);

#endif
