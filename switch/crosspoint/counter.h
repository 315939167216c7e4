/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.h - the machines with the plain counter: counter.c. Their worker's.
 */
#ifndef SWITCH_COUNTER_H
#define SWITCH_COUNTER_H

#include "switch/crosspoint/crosspoint.h"

/* What a machine with the plain counter has besides. */
struct switch_copies {
    /* ports: copies of a multicast not yet sent; there is one a credit */
    uint8_t (*left)[EMU_XPOINT_MAX];
    uint16_t *of; /* like slot: 1 + index into its row's left, or 0 */
};

struct switch_counter_raw {
    struct switch_crosspoints_raw raw;
    struct switch_copies copies;
};

struct switch_counter_timed {
    struct switch_crosspoints_timed timed;
    struct switch_copies copies;
};

/* Not for a segment: its way knows the clock. */
static inline struct switch_copies *switch_copies_of(struct switch_dev *sw)
{
    return sw->dev.timed ? &((struct switch_counter_timed *)sw)->copies
                         : &((struct switch_counter_raw *)sw)->copies;
}

/* The kind, for the list in switch.c. */
extern const struct switch_kind switch_counter_kind;

#endif
