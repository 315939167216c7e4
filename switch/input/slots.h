/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slots.h - the router of input/slots.c: an input-queued switch with a central arbiter. The
 * switch's worker owns all data.
 *
 * The crossbar's queues are virtual output queues of unicasts; multicasts wait in the inputs'
 * FIFOs. Time is divided into slots, each as long as a full segment takes on the wire.
 */
#ifndef SWITCH_SLOTS_H
#define SWITCH_SLOTS_H

#include "switch/input/input.h"

/* The arbiter's state for one input. */
struct switch_arbiter {
    uint32_t last;      /* the output that was served last, for round robin */
    uint64_t head_slot; /* time slot in which the first multicast of the FIFO became first */
};

struct switch_slots {
    struct switch_crossbar bar;
    struct switch_inputs in;
    struct switch_arbiter *arbiter; /* one for each port */
    /* outputs that have a segment and wait for a credit (EMU_EVENT_CREDIT) */
    emu_ports stalled;
    emu_ports counted;  /* outputs whose current stall has been counted */
    uint64_t length_ps; /* length of a time slot */
    /* when the arbiter runs next; EMU_NEVER: no segment can leave */
    uint64_t next_ps;
    uint64_t from_ps; /* time slots before this are over */
};

/* The segment that an input sends in one time slot. */
struct switch_sends {
    emu_ports outs; /* outputs through which the segment leaves; empty: the input sends nothing */
    bool multicast; /* true: the first segment of its FIFO; false: a unicast, through one output */
};

/* arbiter.c: match free outputs @outs with inputs in time slot @slot. @sends: result, by row. */
void switch_match(struct switch_slots *sw, uint64_t slot, emu_ports outs,
                  struct switch_sends *sends);

static inline struct switch_slots *switch_slots_of(struct switch_dev *sw)
{
    return (struct switch_slots *)sw;
}

/* The kind, for the list in switch.c. */
extern const struct switch_kind switch_slots_kind;

#endif
