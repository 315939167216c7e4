/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_node.h - nodes inside the fabric that send segments with real payload to each other and
 * to groups, and know of every segment whether it came, how often, and whether each bit is right.
 *
 * A *stream* is what one node sends to one destination, a node or a group; its segments are
 * numbered. All that can be known of a segment follows from the seed, its stream and its number, so
 * a receiver needs no list of what was sent; and from its length, which its sender draws and the
 * segment itself vouches for. A receiver keeps a bit for each number. Some segments ask that their
 * sender be told when they are there (EMU_NOTIFY); each that asked must be told once, or have
 * failed.
 */
#ifndef TESTS_WORLD_TRANSPORT_NODE_H
#define TESTS_WORLD_TRANSPORT_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/fabric/fabric.h"

#define TRANSPORT_GROUPS_MAX 16u
#define TRANSPORT_SIZES_MAX  8u

struct transport_node;

/* Bytes of a message: one of these ranges, each as likely. */
struct transport_sizes {
    uint32_t count;
    struct {
        uint32_t least, most;
    } range[TRANSPORT_SIZES_MAX];
};

/* What all nodes do. The driver's; nodes only read it. */
struct transport_plan {
    uint64_t seed;
    uint64_t messages; /* of each node; consecutive ones go to different destinations */
    struct transport_sizes sizes;
    uint32_t nodes;
    uint32_t groups;
    uint32_t group[TRANSPORT_GROUPS_MAX];    /* addresses */
    uint64_t *members[TRANSPORT_GROUPS_MAX]; /* a bit a node */
    uint32_t members_count[TRANSPORT_GROUPS_MAX];
    uint64_t credit_ps;
    bool may_fail; /* segments may be told as failed, and then need not come */
    uint32_t deaf; /* what this node sends, or is sent, fails; UINT32_MAX: there is none */
};

struct transport_nodes {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    struct transport_plan plan;
    struct transport_node **node;
};

/**
 * transport_nodes_init - before fabric_start(). @plan: copied. Errors: -ENOMEM; free it then, too.
 */
int transport_nodes_init(struct transport_nodes *all, const struct transport_plan *plan);

/** transport_nodes_free - after fabric_stop(). */
void transport_nodes_free(struct transport_nodes *all);

/* What follows is for the driver; what is not marked, while the workers stand still. */

/** transport_nodes_begin - the groups have their addresses: from now on nodes send. */
void transport_nodes_begin(struct transport_nodes *all);

/* Sums over all nodes, in segments. */
struct transport_counts {
    uint64_t sent;
    uint64_t awaited; /* copies that are to come of those sent */
    uint64_t asked;   /* of those sent: to be told when they are there */
    uint64_t came;
    uint64_t told;     /* to their sender: it is there */
    uint64_t failed;   /* told as given up, to their sender; */
    uint64_t innocent; /* of them, those that do not concern the deaf node */
    uint64_t wrong;    /* violations; transport_nodes_wrong() tells the first */
    uint32_t sending;  /* nodes that have not sent everything */
};

/** transport_nodes_count - as the workers have it by now. Thread: the driver, at any time. */
struct transport_counts transport_nodes_count(const struct transport_nodes *all);

/** transport_nodes_wrong - the first violation that a node saw, or NULL. */
const char *transport_nodes_wrong(const struct transport_nodes *all);

/**
 * transport_nodes_missing - everything is over: a segment that did not come and was not told as
 * failed. True: there is one, and @line says which.
 */
bool transport_nodes_missing(const struct transport_nodes *all, char *line, size_t line_bytes);

/** transport_nodes_content - of what came, wherever it came: the same on every clock. */
uint64_t transport_nodes_content(const struct transport_nodes *all);

/** transport_nodes_order - of what came, in which order and, on clock virtual, when. */
uint64_t transport_nodes_order(const struct transport_nodes *all);

#endif
