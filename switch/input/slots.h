/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slots.h - the router of input/slots.c: an input-queued switch with a central arbiter. The
 * switch's worker owns all of it.
 *
 * The crossbar's queues are virtual output queues of unicasts; multicasts wait in the inputs'
 * fifos. Time is divided into slots of a whole segment's wire time.
 */
#ifndef SWITCH_SLOTS_H
#define SWITCH_SLOTS_H

#include "switch/input/input.h"

/* The arbiter's state of an input. */
struct switch_arbiter {
    uint32_t last;      /* output served last: round robin */
    uint64_t head_slot; /* time slot since which the fifo's first segment has been first */
};

struct switch_slots {
    struct switch_crossbar bar;
    struct switch_inputs in;
    struct switch_arbiter *arbiter; /* ports */
    emu_ports stalled;              /* outputs with a segment that wait for EMU_EVENT_CREDIT */
    emu_ports counted;              /* outputs whose stall has been counted */
    uint64_t length_ps;             /* of a time slot */
    uint64_t next_ps;               /* next run of the arbiter; EMU_NEVER: no segment can leave */
    uint64_t from_ps;               /* time slots before this are over */
};

/* The segments that a row sends in one time slot. */
struct switch_sends {
    emu_ports outs; /* empty: none */
    bool multicast; /* the first segment of its fifo; else a unicast, by one output */
};

/* arbiter.c: compute the match of time slot @slot, *@sends by row, of the free outputs @outs. */
void switch_match(struct switch_slots *sw, uint64_t slot, emu_ports outs,
                  struct switch_sends *sends);

static inline struct switch_slots *switch_slots_of(struct switch_dev *sw)
{
    return (struct switch_slots *)sw;
}

/* The kind, for the list in switch.c. */
extern const struct switch_kind switch_slots_kind;

#endif
