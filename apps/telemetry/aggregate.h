/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate.h - a large network as one of few parts, for who looks at all of it: docs/telemetry.md.
 *
 * Switches of a level whose nodes are in the same block, and nodes of a block, are a part, and all
 * cables between two parts are one. Counters are sums. So a line has a size that is bounded, in the
 * same format.
 */
#ifndef APPS_TELEMETRY_AGGREGATE_H
#define APPS_TELEMETRY_AGGREGATE_H

#include "apps/fabric/links.h"
#include "apps/telemetry/internal.h"

#define TELEMETRY_AGGREGATE_FROM 16384u /* cables: a network with more is folded, */
#define TELEMETRY_AGGREGATE_MOST 4096u  /* into as many as there are, but no more */
#define TELEMETRY_OPEN_MOST      16384u /* switches, nodes or trunks of one with open blocks */

#define TELEMETRY_MANY UINT32_MAX /* in place of a number: it is more than one */

/* Some switches of a level, or some nodes: a part. */
struct telemetry_group {
    uint32_t count;
    uint32_t number;    /* of the one that it is; TELEMETRY_MANY */
    uint32_t level;     /* of switches */
    uint32_t low, high; /* of the nodes, or of those below, by number; low > high: there are none */
    uint32_t from, to;  /* groups of switches: the groups of these two nodes */
    uint32_t block;     /* that it is opened with */
    uint32_t plain;     /* the group that it is, or is in, while nothing is open */
};

/* All cables between two of them. */
struct telemetry_trunk {
    uint32_t sw;   /* the first end's group */
    bool is_node;  /* the other end is a group of nodes; */
    uint32_t peer; /* its group */
    uint32_t port; /* so many trunks come before it at @sw */
    uint32_t count;
    uint32_t cable; /* the one that it is; TELEMETRY_MANY */
    bool reversed;  /* that one's first end is @peer */
    uint32_t plain; /* the same trunk while nothing is open; TELEMETRY_MANY: there is none */
    uint32_t first; /* its first cable; if it is not plain, that member, which the others follow */
    uint32_t wrong; /* so many are not up: */
    struct telemetry_noted noted;
};

/* A cable of a trunk. */
struct telemetry_member {
    uint32_t cable;
    bool reversed; /* its first end is the trunk's other one */
};

/*
 * A block is what is opened together: nodes of a group with the switches that have none but these
 * below them; or a group of switches above more than one block.
 */
struct telemetry_aggregate {
    uint32_t switches, nodes, trunks; /* groups of them */
    struct telemetry_group *sw_group, *node_group;
    struct telemetry_trunk *trunk;
    uint32_t blocks;
    bool *is_open; /* by block; NULL: all are folded */
    /* by number: group, or trunk. With open blocks they are NULL, once it is made */
    uint32_t *of_sw, *of_node, *of_cable;
    bool *reversed;                        /* by cable: its first end is the trunk's other one */
    struct telemetry_member *member;       /* with open blocks: of trunks that are not plain */
    struct telemetry_direction *direction; /* two a trunk */
    struct telemetry_switch *sw;
    struct telemetry_node *node;
    uint64_t sample; /* that these are of */
    struct telemetry_tail tail;
};

/**
 * telemetry_aggregate_create - of a network with more than @from cables, into @most groups and
 * trunks, if that can be. *ret NULL: it has no more. Errors: -ENOMEM.
 */
int telemetry_aggregate_create(struct telemetry_aggregate **ret, const struct telemetry *t,
                               uint32_t from, uint32_t most);

/** telemetry_aggregate_sample - what is so at the last look. Cost: an addition for each counter. */
void telemetry_aggregate_sample(struct telemetry_aggregate *aggregate, const struct telemetry *t);

/* What tells trunks apart, by the groups that they join. */
struct telemetry_key {
    uint64_t high, low;
    uint32_t number; /* of what is sorted by it */
};

int telemetry_key_order(const void *a, const void *b);
bool telemetry_key_is_same(const struct telemetry_key *a, const struct telemetry_key *b);

/** telemetry_key_of_cable - *turned: its first end is the trunk's other one. */
struct telemetry_key telemetry_key_of_cable(const struct telemetry_aggregate *aggregate,
                                            const struct fabric_cable *cable, bool *reversed);

/**
 * telemetry_aggregate_reserve_groups - for what groups are. telemetry_aggregate_reserve() - for
 * what trunks are, and both have counted. False: there is no memory. telemetry_aggregate_ports -
 * numbers each group's trunks.
 */
bool telemetry_aggregate_reserve_groups(struct telemetry_aggregate *aggregate);
bool telemetry_aggregate_reserve(struct telemetry_aggregate *aggregate);
void telemetry_aggregate_ports(struct telemetry_aggregate *aggregate);

/* Of many: the sum, and of states the one that is furthest from being in use. */
void telemetry_add_direction(struct telemetry_direction *sum,
                             const struct telemetry_direction *direction);
void telemetry_add_cable(struct telemetry_trunk *sum, const struct telemetry_noted *cable);

/**
 * telemetry_open_sample - the same of a fold with open blocks, of which @plain, looked at before,
 * is that without. Cost: some instructions a group and trunk, and an addition for each counter of
 * what is open.
 */
void telemetry_open_sample(struct telemetry_aggregate *aggregate,
                           const struct telemetry_aggregate *plain, const struct telemetry *t);

#endif
