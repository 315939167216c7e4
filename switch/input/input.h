/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * input.h - inputs with a buffer of their own: a credit is a slot in it. Two routers have them:
 * fifo.c, fifos before crosspoints, and slots.c, virtual output queues and fifos of multicasts.
 *
 * All of it is the switch's worker's.
 */
#ifndef SWITCH_INPUT_H
#define SWITCH_INPUT_H

#include "switch/common/crossbar.h"

/* The fifo of an input. */
struct switch_fifo {
    struct switch_list list;
    uint32_t queued; /* segments in it */
};

/* The fifos of all inputs; their segments are in the crossbar's store. */
struct switch_inputs {
    struct switch_fifo *fifo; /* ports */
    /* like the store's slots: outputs that a segment of a fifo still goes to */
    emu_ports *outs;
};

/* input.c: false: there is no memory. Freed by switch_inputs_free() in any case. */
bool switch_inputs_init(struct switch_inputs *in, uint32_t ports, uint32_t slots);
void switch_inputs_free(struct switch_inputs *in);
size_t switch_inputs_bytes(uint32_t ports, uint32_t slots);

/* input.c: a segment for @outs, at the end of the fifo of @r. It has room: its credit says so. */
void switch_inputs_append(struct switch_inputs *in, struct switch_crossbar *bar, uint32_t r,
                          emu_ports outs, const struct emu_entry *entry);

/* input.c: not queued: its slot is free again. */
void switch_inputs_drop(struct switch_crossbar *bar, uint32_t r, const struct emu_entry *entry);

/*
 * input.c: who is where in the fifo of @r: adds to the segments held, and to how long they have
 * waited. Returns NULL, or what is wrong.
 */
const char *switch_inputs_check(const struct switch_inputs *in, const struct switch_crossbar *bar,
                                uint32_t r, uint64_t now_ps, uint64_t *held, uint64_t *waited_ps);

/* input.c: pool buffers that the fifos hold: references. */
uint32_t switch_inputs_bufs(const struct switch_inputs *in, const struct switch_crossbar *bar);

/*
 * The first segment of the fifo of @r has left: its slot is free. Returns its slot: see
 * switch_remove().
 */
static inline uint32_t switch_inputs_leave(struct switch_inputs *in, struct switch_crossbar *bar,
                                           uint32_t r)
{
    struct switch_fifo *fifo = &in->fifo[r];

    fifo->queued--;
    bar->row[r].rx.owed++;
    return switch_remove(&bar->store, &fifo->list);
}

#endif
