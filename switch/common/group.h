/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.h - what a switch knows of a group: its ports, and partial results.
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
 * What one unit has of one state. Its inputs are numbered like the switch's
 * rows: ports, and for the root of several units the leaves' rows.
 */
struct switch_part {
    emu_ports have;   /* inputs that have contributed */
    uint64_t done_ps; /* complete: since when */
    uint32_t buf;     /* the partial result; by arrival from the first contribution on */
    uint16_t next;    /* complete: the state of the unit's next result of this group */
    bool passed;      /* complete; stays so until the state is */
    bool queued;      /* its result waits for room in the unit's row */
};

/*
 * The results of one group that wait at one unit, by state; first and last mean something if there
 * is one.
 */
struct switch_results {
    uint16_t first;
    uint16_t last;
    bool some;
    bool pending; /* the group's id stands in the unit's list */
    bool failed;  /* the unit has found a state of the group damaged: it takes nothing of it */
};

/* The state of (group, sequence number): a line, where the switch has one unit. */
struct switch_state {
    emu_ports have; /* ports that have contributed, at any unit */
    /* where the result will go; 0: that is not settled. Not active: of the last result */
    emu_ports outs;
    struct emu_hdr hdr; /* of the first contribution: the others must agree */
    uint32_t born_ns;   /* of the contribution that came first */
    bool active;
    /* hdr has been written: of the operation under way, or of the last one where none is */
    bool used;
    /*
     * Units in whose part a bit has flipped since it was written, where the profile has them keep
     * parity: the next one that reads a part of the state finds it.
     */
    uint16_t flipped;
    struct switch_part part[]; /* units */
};
static_assert(EMU_PORT_WORDS > 1 ||
                  sizeof(struct switch_state) + sizeof(struct switch_part) == EMU_LINE,
              "a line");
static_assert(EMU_UNITS_MAX <= 16, "a bit of flipped for each unit");

/*
 * The worker of the switch owns all but the first eight fields, from the moment
 * the group is published until the grace period after it was taken out.
 */
struct switch_group {
    uint32_t id;     /* collective address: slot in the table below, generation above */
    emu_ports ports; /* of the tree, at this switch */
    int16_t up;      /* port towards the top switch, -1 at the top */
    uint8_t width;   /* ports set */
    uint8_t units;   /* of the switch; 0: the group is for multicasts only, and the rest is empty */
    bool in_order;   /* combine in port order: contributions are kept until all are there */
    uint32_t window; /* states; a power of two */
    uint32_t state_bytes;
    uint8_t *states;                /* window of them: switch_group_state() */
    struct switch_results *results; /* units */
    uint32_t *kept;                 /* in port order: buffers, [state][input] */
    struct emu_clash *clash;        /* of contributions here */
};

static inline struct switch_state *switch_group_state(const struct switch_group *group, uint32_t i)
{
    return (struct switch_state *)(void *)(group->states + (size_t)i * group->state_bytes);
}

static inline struct switch_part *switch_group_part(const struct switch_group *group, uint32_t i,
                                                    uint32_t u)
{
    return &switch_group_state(group, i)->part[u];
}

/*
 * In port order: the contributions to state @i, of ports and of the leaves' rows. @ports: of the
 * switch.
 */
static inline struct emu_kept switch_group_kept(const struct switch_group *group, uint32_t i,
                                                uint32_t ports)
{
    emu_ports all = group->ports | emu_ports_range(ports, group->units - 1u);

    return (struct emu_kept){.buf = &group->kept[i * emu_kept_slots(all)], .all = all};
}

#endif
