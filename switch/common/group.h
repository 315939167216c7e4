/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - a switch's state of a group: its ports, and partial results.
 */
#ifndef SWITCH_GROUP_H
#define SWITCH_GROUP_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/util/bits.h"
#include "emu/buffer/combiner.h"
#include "emu/packet/profile.h"
#include "emu/buffer/ring.h"
#include "switch/common/device.h"

/*
 * One unit's part of one state. Its inputs are numbered like the switch's rows: ports, and for the
 * root of several units the leaves' rows.
 */
struct switch_partial {
    emu_ports have;   /* inputs that have contributed */
    uint64_t done_ps; /* time of completion */
    uint32_t buf;     /* partial result; when combining by arrival, set by the first contribution */
    uint16_t next;    /* if queued: the state of the group's next result at the unit */
    bool passed;      /* this part is complete; stays true until the whole state is complete */
    bool queued;      /* its result waits for space in the unit's row */
};

/* The queued results of one group at one unit, by state; first and last are valid if `some`. */
struct switch_results {
    uint16_t first;
    uint16_t last;
    bool some;
    bool pending; /* the group's id is in the unit's list */
    bool failed;  /* the unit found a state of the group damaged, and drops its contributions */
};

/* The state of (group, sequence number): one cache line if the switch has one unit. */
struct switch_state {
    emu_ports have; /* ports that have contributed, at any unit */
    /* output ports of the result, empty while undecided; not active: of the previous result */
    emu_ports outs;
    struct emu_hdr hdr; /* of the first contribution: the others must match */
    uint32_t born_ns;   /* of the first contribution */
    bool active;        /* an operation is in progress */
    bool used;          /* hdr is valid: of the operation in progress, or of the last one */
    /* units with parity: set of units in whose part a bit was flipped; the next read finds it */
    uint16_t flipped;
    struct switch_partial part[]; /* units */
};
static_assert(EMU_PORT_WORDS > 1 ||
                  sizeof(struct switch_state) + sizeof(struct switch_partial) == EMU_LINE,
              "one cache line");
static_assert(EMU_UNITS_MAX <= 16, "a bit of flipped for each unit");

/*
 * The first eight fields are constant. The switch's worker owns the others from the publication of
 * the group to the end of the grace period after its removal.
 */
struct switch_group {
    uint32_t id;     /* collective address: slot in the table (low bits), generation (high bits) */
    emu_ports ports; /* the tree's ports at this switch */
    int16_t up;      /* port towards the top switch, -1 at the top */
    uint8_t width;   /* number of ports */
    uint8_t units;   /* of the switch; 0: for multicasts only, and the rest is empty */
    bool in_order;   /* combine in port order: contributions are kept until all have come */
    uint32_t window; /* number of states; a power of two */
    uint32_t state_bytes;
    uint8_t *states;                /* `window` states: switch_group_state() */
    struct switch_results *results; /* by unit */
    uint32_t *kept;                 /* in_order: buffers, [state][input] */
    struct emu_mismatch *mismatch;  /* first mismatch of contributions here */
};

static inline struct switch_state *switch_group_state(const struct switch_group *group, uint32_t i)
{
    return (struct switch_state *)(void *)(group->states + (size_t)i * group->state_bytes);
}

static inline struct switch_partial *switch_group_partial(const struct switch_group *group,
                                                          uint32_t i, uint32_t u)
{
    return &switch_group_state(group, i)->part[u];
}

/* in_order: contributions to state @i, of ports and leaves' rows. @ports: number, of the switch. */
static inline struct emu_kept switch_group_kept(const struct switch_group *group, uint32_t i,
                                                uint32_t ports)
{
    emu_ports all = group->ports | emu_ports_range(ports, group->units - 1u);

    return (struct emu_kept){.buf = &group->kept[i * emu_kept_slots(all)], .all = all};
}

#endif
