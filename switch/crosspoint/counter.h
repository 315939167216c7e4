/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.h - switches in which a credit stands for a segment, not for its copies: the credit
 * returns when the last copy has left (counter.c).
 */
#ifndef SWITCH_COUNTER_H
#define SWITCH_COUNTER_H

#include "switch/crosspoint/crosspoint.h"

/* Counts of the copies of multicasts that have not left yet. Owned by the switch's worker. */
struct switch_copies {
    /* by input port: counters, each of the copies of one multicast that are still here; 0: the
       counter is free. A port needs at most one counter per credit. */
    uint8_t (*left)[EMU_XPOINT_MAX];
    /* by slot of the store: 0, or 1 + the index of its segment's counter in left[input port] */
    uint16_t *of;
};

struct switch_counter_raw {
    struct switch_crosspoints_raw raw;
    struct switch_copies copies;
};

struct switch_counter_timed {
    struct switch_crosspoints_timed timed;
    struct switch_copies copies;
};

/* Return the counts, on either clock. Code that runs per segment is compiled for each clock. */
static inline struct switch_copies *switch_copies_of(struct switch_dev *sw)
{
    return sw->dev.timed ? &((struct switch_counter_timed *)sw)->copies
                         : &((struct switch_counter_raw *)sw)->copies;
}

/* The kind, for the list in switch.c. */
extern const struct switch_kind switch_counter_kind;

#endif
