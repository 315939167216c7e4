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

/*
 * What one unit has of one state. Its inputs are numbered like the switch's
 * rows: ports, and for the root of several units the leaves' rows.
 */
struct switch_part {
    uint64_t have;            /* inputs that have contributed */
    uint64_t outs;            /* complete: where the result goes */
    uint64_t done_ps;         /* complete: since when */
    struct switch_part *next; /* complete: next of the unit's results of this group */
    uint32_t buf;             /* the partial result; by arrival from the first contribution on */
    uint16_t state;           /* its number in the window */
    bool passed;              /* complete; stays so until the state is */
    bool queued;              /* its result waits for room in the unit's row */
};

/* The results of one group that wait at one unit. */
struct switch_results {
    struct switch_part *first;
    struct switch_part *last;
    bool pending; /* the group's id stands in the unit's list */
};

/* The state of (group, sequence number). */
struct switch_state {
    uint64_t have;      /* ports that have contributed, at any unit */
    uint64_t outs;      /* active: where the result will go; 0: that is not settled */
    struct emu_hdr hdr; /* of the first contribution: the others must agree */
    uint32_t born_ns;   /* of the contribution that came first */
    bool active;
    bool used;          /* hdr is that of this state, or of the last before it */
};

/*
 * The worker of the switch owns all but the first six fields, from the moment
 * the group is published until the grace period after it was taken out.
 */
struct switch_group {
    uint32_t id;    /* collective address: slot in the table below, generation above */
    uint64_t ports; /* of the tree, at this switch */
    int8_t up;      /* port towards the top switch, -1 at the top */
    uint8_t width;  /* ports set */
    uint8_t units;  /* of the switch; 0: the group is for multicasts only, and the rest is empty */
    bool in_order;  /* combine in port order: contributions are kept until all are there */
    struct switch_state *state; /* EMU_WINDOW */
    struct switch_part *part;   /* EMU_WINDOW x units */
    struct switch_results *results; /* units */
    uint32_t *kept;             /* in port order: buffers, [state][input] */
};

static inline struct switch_part *switch_group_part(const struct switch_group *group, uint32_t i,
                                                    uint32_t u)
{
    return &group->part[i * group->units + u];
}

/* In port order: where state @i keeps the buffer from @input (a port, or ports + leaf). */
static inline uint32_t *switch_group_kept(const struct switch_group *group, uint32_t i,
                                          uint32_t ports, uint32_t input)
{
    uint64_t below = group->ports & (((uint64_t)1 << input) - 1);
    uint32_t at = input < ports ? (uint32_t)__builtin_popcountll(below)
                                : group->width + input - ports;

    return &group->kept[i * (group->width + group->units - 1u) + at];
}

#endif
