/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - what a switch knows of a group: its ports, and partial results.
 */
#ifndef SWITCH_GROUP_H
#define SWITCH_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/profile.h"
#include "emu/ring.h"
#include "switch/switch.h"

/* One partial result: the state of (group, sequence number). */
struct switch_state {
    uint64_t have;      /* ports that have contributed */
    struct emu_hdr hdr; /* of the first contribution: the others must agree */
    uint32_t buf;       /* by arrival: the partial result */
    uint32_t born_ns;   /* of the contribution that came first */
    bool active;
};

/* A result on its way into the crossbar. */
struct switch_result {
    uint64_t outs;
    struct emu_entry entry;
};

/*
 * The worker of the switch owns all but the first five fields, from the moment
 * the group is published until the grace period after it was taken out.
 */
struct switch_group {
    uint32_t id;    /* collective address: slot in the table below, generation above */
    uint64_t ports; /* of the tree, at this switch */
    int8_t up;      /* port towards the top switch, -1 at the top */
    uint8_t width;  /* ports set */
    bool in_order;  /* combine in port order: contributions are kept until all are there */
    bool pending;   /* its id stands in the switch's results.group */
    uint32_t first; /* results: oldest and one past the newest, free-running */
    uint32_t last;
    struct switch_state state[EMU_WINDOW];
    struct switch_result result[EMU_WINDOW];
    uint32_t kept[]; /* in port order: buffers, [state][rank of the port] */
};

/* In port order: where state @i keeps the buffer of the contribution from @port. */
static inline uint32_t *switch_group_kept(struct switch_group *group, uint32_t i, int port)
{
    uint64_t below = group->ports & (((uint64_t)1 << port) - 1);

    return &group->kept[i * group->width + (uint32_t)__builtin_popcountll(below)];
}

/* The table that the manager publishes; entries are only ever taken out of it. */
struct switch_groups {
    uint32_t count;
    _Atomic(struct switch_group *) group[]; /* by slot; NULL: not through this switch */
};

/* Groups with results to send: each id at most once. */
struct switch_results {
    uint32_t first; /* free-running */
    uint32_t last;
    uint32_t group[SWITCH_GROUPS_MAX];
};

#endif
