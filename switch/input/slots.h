/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slots.h - the router of input/slots.c: an input-queued switch with a central arbiter. Its
 * worker's.
 *
 * The crossbar's queues are virtual output queues of unicasts; multicasts wait in the inputs'
 * fifos. Time is cut into slots of a whole segment's wire time.
 */
#ifndef SWITCH_SLOTS_H
#define SWITCH_SLOTS_H

#include "switch/input/input.h"

/* What the arbiter keeps of an input. */
struct switch_arbiter {
    uint32_t last; /* output served last, round robin */
    uint64_t
        head_slot; /* the time slot from which on the fifo's first segment has been its first */
};

struct switch_slots {
    struct switch_crossbar bar;
    struct switch_inputs in;
    struct switch_arbiter *arbiter; /* ports */
    emu_ports stalled;              /* outputs with a segment and no credit on its way */
    emu_ports counted;              /* outputs whose stall has been counted */
    uint64_t length_ps;             /* of a time slot */
    uint64_t next_ps; /* the arbiter works then; EMU_NEVER: nothing that waits can go */
    uint64_t from_ps; /* and no earlier than then: slots before it are over */
};

/* What a row sends in one time slot. */
struct switch_sends {
    emu_ports outs; /* 0: nothing */
    bool multicast; /* the first of its fifo; else a unicast, by one output */
};

/* arbiter.c: the match of time slot @slot, by row: outputs of @outs, none of them twice. */
void switch_match(struct switch_slots *sw, uint64_t slot, emu_ports outs,
                  struct switch_sends *sends);

static inline struct switch_slots *switch_slots_of(struct switch_dev *sw)
{
    return (struct switch_slots *)sw;
}

/* The kind, for the list in switch.c. */
extern const struct switch_kind switch_slots_kind;

#endif
