/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * input.h - FIFOs at inputs. A credit is one slot of a FIFO. Two routers have them: fifo.c has
 * FIFOs in front of crosspoints, and slots.c has virtual output queues for unicasts and FIFOs for
 * multicasts. The switch's worker owns all data.
 */
#ifndef SWITCH_INPUT_H
#define SWITCH_INPUT_H

#include "switch/common/crossbar.h"

struct switch_fifo {
    struct switch_list list;
    uint32_t queued; /* segments in the FIFO */
};

/* The FIFOs of all inputs. Their segments are in the crossbar's store. */
struct switch_inputs {
    struct switch_fifo *fifo; /* one for each port */
    /* for each slot of the store: outputs through which the segment must still leave */
    emu_ports *outs;
};

/* input.c: initialize the FIFOs. False: no memory. Call switch_inputs_free() in either case. */
bool switch_inputs_init(struct switch_inputs *in, uint32_t ports, uint32_t slots);
void switch_inputs_free(struct switch_inputs *in);
size_t switch_inputs_bytes(uint32_t ports, uint32_t slots);

/* input.c: append a segment for @outs to the FIFO of input @r, which has space for it. */
void switch_inputs_append(struct switch_inputs *in, struct switch_crossbar *bar, uint32_t r,
                          emu_ports outs, const struct emu_entry *entry);

/*
 * input.c: count and drop a segment that was not queued. The input then owes the segment's credit.
 */
void switch_inputs_drop(struct switch_crossbar *bar, uint32_t r, const struct emu_entry *entry);

/* input.c: check the FIFO of input @r, for check_row() of a kind. */
const char *switch_inputs_check(const struct switch_inputs *in, const struct switch_crossbar *bar,
                                uint32_t r, uint64_t now_ps, uint64_t *held, uint64_t *waited_ps);

/* input.c: return how many references to pool buffers the FIFOs hold. */
uint32_t switch_inputs_bufs(const struct switch_inputs *in, const struct switch_crossbar *bar);

/*
 * Remove the first segment, which has left, from the FIFO of input @r. The input then owes the
 * segment's credit. Returns the segment's slot, as switch_remove() does.
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
