/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fold.h - a large network as one of few parts, for who looks at all of it: docs/telemetry.md.
 *
 * Switches of a level whose nodes are in the same block, and nodes of a block, are a part, and all
 * cables between two parts are one. Counters are sums. So a line has a size that is bounded, in the
 * same format.
 */
#ifndef APPS_TELEMETRY_FOLD_H
#define APPS_TELEMETRY_FOLD_H

#include "apps/telemetry/internal.h"

#define TELEMETRY_FOLD_FROM 16384u /* cables: a network with more is folded, */
#define TELEMETRY_FOLD_MOST 4096u  /* into as many as there are, but no more */

/* Some switches of a level, or some nodes. */
struct telemetry_group {
    uint32_t count;
    uint32_t level;     /* of switches */
    uint32_t low, high; /* of the nodes, or of those below, by number; low > high: there are none */
};

/* All cables between two of them. */
struct telemetry_trunk {
    uint32_t sw;   /* the first end's group */
    bool is_node;  /* the other end is a group of nodes; */
    uint32_t far;  /* its group */
    uint32_t port; /* so many trunks come before it at @sw */
    uint32_t count;
    uint32_t wrong; /* of them are not up: */
    struct telemetry_noted noted;
};

struct telemetry_fold {
    uint32_t switches, nodes, trunks; /* groups of them */
    struct telemetry_group *sw_group, *node_group;
    struct telemetry_trunk *trunk;
    uint32_t *of_sw, *of_node, *of_cable; /* by its number: group, or trunk */
    bool *turned;                         /* by cable: its first end is the trunk's other one */
    struct telemetry_way *way;            /* two a trunk */
    struct telemetry_switch *sw;
    struct telemetry_node *node;
    uint64_t look; /* that these are of */
    struct telemetry_tail tail;
};

/** telemetry_fold_create - *ret NULL: it is no large network. Errors: -ENOMEM. */
int telemetry_fold_create(struct telemetry_fold **ret, const struct telemetry *t);
void telemetry_fold_destroy(struct telemetry_fold *fold);

/** telemetry_fold_look - what is so at the last look. Cost: an addition for each counter. */
void telemetry_fold_look(struct telemetry_fold *fold, const struct telemetry *t);

#endif
