/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.h - switches with the plain counter: counter.c.
 */
#ifndef SWITCH_COUNTER_H
#define SWITCH_COUNTER_H

#include "switch/crosspoint/crosspoint.h"

/* Unsent copies of multicasts. Owned by the switch's worker. */
struct switch_copies {
    uint8_t (*left)[EMU_XPOINT_MAX]; /* by port: counters of copies left, one per credit */
    uint16_t *of; /* by slot of the store: 1 + index of its counter in its row's `left`, or 0 */
};

struct switch_counter_raw {
    struct switch_crosspoints_raw raw;
    struct switch_copies copies;
};

struct switch_counter_timed {
    struct switch_crosspoints_timed timed;
    struct switch_copies copies;
};

/* Do not call this per segment: the per-segment code is built for one clock. */
static inline struct switch_copies *switch_copies_of(struct switch_dev *sw)
{
    return sw->dev.timed ? &((struct switch_counter_timed *)sw)->copies
                         : &((struct switch_counter_raw *)sw)->copies;
}

/* The kind, for the list in switch.c. */
extern const struct switch_kind switch_counter_kind;

#endif
