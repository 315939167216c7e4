/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * input.h - fifos of inputs, where a credit stands for a slot. Two routers have them: fifo.c, fifos
 * before crosspoints, and slots.c, virtual output queues and fifos of multicasts. The switch's
 * worker owns all of it.
 */
#ifndef SWITCH_INPUT_H
#define SWITCH_INPUT_H

#include "switch/common/crossbar.h"

struct switch_fifo {
    struct switch_list list;
    uint32_t queued; /* segments in it */
};

/* The fifos of all inputs; their segments are in the crossbar's store. */
struct switch_inputs {
    struct switch_fifo *fifo; /* ports */
    emu_ports *outs;          /* by slot of the store: outputs left for the segment */
};

/* input.c: false: no memory; switch_inputs_free() in any case. */
bool switch_inputs_init(struct switch_inputs *in, uint32_t ports, uint32_t slots);
void switch_inputs_free(struct switch_inputs *in);
size_t switch_inputs_bytes(uint32_t ports, uint32_t slots);

/* input.c: append a segment for @outs to the fifo of @r. Its credit guarantees space. */
void switch_inputs_append(struct switch_inputs *in, struct switch_crossbar *bar, uint32_t r,
                          emu_ports outs, const struct emu_entry *entry);

/* input.c: count and drop a segment that was not queued, and owe its credit. */
void switch_inputs_drop(struct switch_crossbar *bar, uint32_t r, const struct emu_entry *entry);

/* input.c: part of a kind's check_row(): check the fifo of @r. */
const char *switch_inputs_check(const struct switch_inputs *in, const struct switch_crossbar *bar,
                                uint32_t r, uint64_t now_ps, uint64_t *held, uint64_t *waited_ps);

/* input.c: references to pool buffers in the fifos. */
uint32_t switch_inputs_bufs(const struct switch_inputs *in, const struct switch_crossbar *bar);

/*
 * The first segment of the fifo of @r has left: owe its credit. Returns its slot: switch_remove().
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
