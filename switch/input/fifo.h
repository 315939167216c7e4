/* SPDX-License-Identifier: BSD-3-Clause */
/* fifo.h - the router of input/fifo.c: a FIFO at each input, in front of crosspoints. */
#ifndef SWITCH_FIFO_H
#define SWITCH_FIFO_H

#include "switch/crosspoint/crosspoint.h"
#include "switch/input/input.h"

/* Owned by the switch's worker. */
struct switch_fifos {
    struct switch_inputs in;
    emu_ports nonempty; /* inputs whose FIFO is not empty */
};

struct switch_fifo_raw {
    struct switch_crosspoints_raw raw;
    struct switch_fifos fifos;
};

struct switch_fifo_timed {
    struct switch_crosspoints_timed timed;
    struct switch_fifos fifos;
};

/* Return the FIFOs, on either clock. Code that runs per segment is compiled for each clock. */
static inline struct switch_fifos *switch_fifos_of(struct switch_dev *sw)
{
    return sw->dev.timed ? &((struct switch_fifo_timed *)sw)->fifos
                         : &((struct switch_fifo_raw *)sw)->fifos;
}

/* The kind, for the list in switch.c. */
extern const struct switch_kind switch_fifo_kind;

#endif
