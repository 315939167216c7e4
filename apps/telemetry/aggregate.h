/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate.h - aggregation of a large network, so that the lines about it have a bounded size.
 * They have the same format as lines about a network that is not aggregated (docs/telemetry.md).
 *
 * A *group* is a set of switches of one level that are above the same nodes, or a set of nodes. A
 * *trunk* is all cables between two groups. Counters are summed over a group or trunk. A *block* is
 * a set of groups that a reader opens together, to see their devices one by one: a group of nodes
 * with the switches that reach only these nodes, or one group of higher switches. An aggregation is
 * *closed* if no block is open. All readers share the closed aggregation.
 */
#ifndef APPS_TELEMETRY_AGGREGATE_H
#define APPS_TELEMETRY_AGGREGATE_H

#include "apps/fabric/links.h"
#include "apps/telemetry/internal.h"

#define TELEMETRY_AGGREGATE_FROM 16384u /* only networks with more cables are aggregated */
/*
 * Limits of the number of switch groups, of node groups, and of trunks. The first one is for
 * aggregations without open blocks, the second one for aggregations with open blocks.
 */
#define TELEMETRY_AGGREGATE_MOST 4096u
#define TELEMETRY_OPEN_MOST      16384u

/* stands for the number of a device (or cable) if there are several */
#define TELEMETRY_MANY UINT32_MAX

struct telemetry_group {
    uint32_t count;
    uint32_t number; /* number of the only device, or TELEMETRY_MANY */
    uint32_t level;  /* level of the switches */
    /* lowest and highest node in the group or below its switches; low > high: there is none */
    uint32_t low, high;
    uint32_t from, to; /* for switches: the node groups with the nodes `low` and `high` */
    uint32_t block;
    /* the group in the closed aggregation that is equal to this group or contains it */
    uint32_t closed;
};

struct telemetry_trunk {
    uint32_t sw;     /* group of switches at the first end */
    bool is_node;    /* the second end is a group of nodes */
    uint32_t peer;   /* group at the second end */
    uint32_t port;   /* index among the trunks whose first end is @sw */
    uint32_t count;  /* number of cables */
    uint32_t cable;  /* number of the only cable, or TELEMETRY_MANY */
    bool reversed;   /* the first end of that cable is in @peer */
    uint32_t closed; /* the same trunk in the closed aggregation; TELEMETRY_MANY: none */
    /* its first cable; if `closed` is TELEMETRY_MANY, index of its first entry in member[] */
    uint32_t first;
    uint32_t down; /* number of cables that are not up */
    struct telemetry_cable_entry state;
};

struct telemetry_member {
    uint32_t cable;
    bool reversed; /* the cable's first end is at the trunk's second end */
};

struct telemetry_aggregate {
    uint32_t switches, nodes, trunks; /* number of switch groups, node groups and trunks */
    struct telemetry_group *sw_group, *node_group;
    struct telemetry_trunk *trunk;
    uint32_t blocks;
    bool *is_open; /* by block; NULL: this is the closed aggregation */
    /*
     * The group of each switch and of each node, and the trunk of each cable; NULL if blocks are
     * open.
     */
    uint32_t *of_sw, *of_node, *of_cable;
    bool *reversed; /* by cable: its first end is at the trunk's second end */
    /* with open blocks: the cables of those trunks that the closed aggregation does not have */
    struct telemetry_member *member;
    struct telemetry_table table[TELEMETRY_TABLES]; /* sums of counters, by trunk and by group */
    /* number of the sample whose sums are in `table` */
    uint64_t sample;
    struct telemetry_body body;
};

/**
 * telemetry_aggregate_create - aggregate a network with more than @from cables into at most @most
 * groups of each kind and @most trunks, if possible. Sets *ret to NULL if the network has no more
 * than @from cables. Errors: -ENOMEM.
 */
int telemetry_aggregate_create(struct telemetry_aggregate **ret, const struct telemetry *t,
                               uint32_t from, uint32_t most);

/** telemetry_aggregate_sample - sum up the last sample. Cost: one addition per counter. */
void telemetry_aggregate_sample(struct telemetry_aggregate *aggregate, const struct telemetry *t);

/* Sort key of a device or cable. All members of a group or trunk have the same high and low. */
struct telemetry_key {
    uint64_t high, low;
    uint32_t number; /* number of the device or cable */
};

int telemetry_key_order(const void *a, const void *b);
bool telemetry_key_is_same(const struct telemetry_key *a, const struct telemetry_key *b);

/**
 * telemetry_key_of_cable - return the sort key of a cable, without the number. *reversed: whether
 * the cable's first end is at the trunk's second end.
 */
struct telemetry_key telemetry_key_of_cable(const struct telemetry_aggregate *aggregate,
                                            const struct fabric_cable *cable, bool *reversed);

/**
 * telemetry_aggregate_alloc_groups - allocate the groups.
 * telemetry_aggregate_alloc_trunks - allocate the trunks and all counters. Both return false if
 * there is no memory.
 * telemetry_aggregate_ports - set the port of each trunk.
 */
bool telemetry_aggregate_alloc_groups(struct telemetry_aggregate *aggregate);
bool telemetry_aggregate_alloc_trunks(struct telemetry_aggregate *aggregate);
void telemetry_aggregate_ports(struct telemetry_aggregate *aggregate);

/**
 * telemetry_trunk_clear - set the counters of trunk @k to 0.
 * telemetry_trunk_add - add the counters of cable @i to them. The state of a trunk is that state of
 * its cables which comes last in enum telemetry_link.
 */
void telemetry_trunk_clear(struct telemetry_aggregate *aggregate, uint32_t k);
void telemetry_trunk_add(struct telemetry_aggregate *aggregate, uint32_t k,
                         const struct telemetry *t, uint32_t i, bool reversed);

/**
 * telemetry_open_sample - sum up the last sample in an aggregation with open blocks. Call
 * telemetry_aggregate_sample() for @closed first. Cost: some instructions per group and trunk, and
 * one addition per counter in open blocks.
 */
void telemetry_open_sample(struct telemetry_aggregate *aggregate,
                           const struct telemetry_aggregate *closed, const struct telemetry *t);

#endif
