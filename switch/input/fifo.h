/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fifo.h - the router of input/fifo.c: a fifo at each input, and crosspoints behind it. Its worker's.
 */
#ifndef SWITCH_FIFO_H
#define SWITCH_FIFO_H

#include "switch/crosspoint/crosspoint.h"
#include "switch/input/input.h"

struct switch_fifos {
    struct switch_crosspoints xp; /* they have no credits of their own: those of the inputs stand for places here */
    struct switch_inputs in;
};

static inline struct switch_fifos *switch_fifos_of(struct switch_crosspoints *xp)
{
    return (struct switch_fifos *)xp;
}

#endif
