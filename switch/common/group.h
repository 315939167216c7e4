/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - the data of a group in a switch: the ports of its tree, and partial results.
 *
 * A *contribution* is a segment with the operand of one member, or a result from another switch or
 * unit. The contributions with one sequence number of a group are combined in a *state*. If the
 * switch has several combine units, each has its part of the state. The units then form a tree of
 * *leaves*, which take the contributions of some ports each, and one *root*, which combines the
 * results of the leaves (crosspoint/combine.c).
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
 * The part of one state that one unit has. Inputs have the numbers of the switch's rows (base.h):
 * first the ports. If there are several units, the root also has an input for each leaf.
 */
struct switch_partial {
    emu_ports have;   /* inputs that have contributed */
    uint64_t done_ps; /* when the part was complete */
    /* buffer of the operands combined so far; with in_order, only of the result */
    uint32_t buf;
    uint16_t next; /* if queued: index of the state with the group's next result at the unit */
    bool passed;   /* this part is complete; stays true until the whole state is complete */
    bool queued;   /* the result of this part waits for space in the unit's row */
};

/* The results of a group that wait at one unit: a list of states, which is empty if not `some`. */
struct switch_results {
    uint16_t first;
    uint16_t last;
    bool some;
    bool pending; /* the group's id is in the unit's list of groups */
    /* the unit has found a state of the group damaged, and drops the group's contributions */
    bool failed;
};

/* The state of one sequence number of a group. It is one cache line if the switch has one unit. */
struct switch_state {
    emu_ports have; /* ports that have contributed, at any unit */
    /*
     * output ports of the result (if not active, of the last result); empty until they are decided
     */
    emu_ports outs;
    struct emu_hdr hdr; /* header of the first contribution; the others must match it */
    uint32_t born_ns;   /* when the first contribution was posted, in ns */
    bool active;        /* an operation is in progress */
    /* hdr is valid; if no operation is in progress, it is the header of the last one */
    bool used;
    /* set of units in whose part a fault has flipped a bit; empty if units do not check parity */
    uint16_t flipped;
    struct switch_partial part[]; /* one for each unit */
};
static_assert(EMU_PORT_WORDS > 1 ||
                  sizeof(struct switch_state) + sizeof(struct switch_partial) == EMU_LINE,
              "a state of one unit is one cache line");
static_assert(EMU_UNITS_MAX <= 16, "`flipped` has a bit for each unit");

/*
 * The fields are constant. The switch's worker owns the memory behind the pointers, from the
 * publication of the group to the end of the RCU grace period after its removal.
 */
struct switch_group {
    uint32_t id;     /* collective address: slot in the table (low bits), generation (high bits) */
    emu_ports ports; /* the tree's ports at this switch */
    int16_t up;      /* port towards the top switch; -1: this is the top switch */
    uint8_t width;   /* number of ports */
    /* combine units of the switch; 0: for multicasts only, and the fields below are empty */
    uint8_t units;
    /* combine in the order of ports: contributions are kept until all have arrived */
    bool in_order;
    uint32_t window; /* number of states; a power of two */
    uint32_t state_bytes;
    uint8_t *states;                /* see switch_group_state() */
    struct switch_results *results; /* by unit */
    uint32_t *kept;                 /* in_order: buffers of contributions, [state][input] */
    struct emu_mismatch *mismatch;  /* the first mismatch of contributions here */
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

/*
 * With in_order: return the kept contributions to state @i. @ports: the switch's number of ports.
 */
static inline struct emu_kept switch_group_kept(const struct switch_group *group, uint32_t i,
                                                uint32_t ports)
{
    emu_ports all = group->ports | emu_ports_range(ports, group->units - 1u);

    return (struct emu_kept){.buf = &group->kept[i * emu_kept_slots(all)], .all = all};
}

#endif
