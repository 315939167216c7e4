/* SPDX-License-Identifier: BSD-3-Clause */
/* input.c - the FIFOs of inputs. */
#include "switch/input/input.h"

#include <stdlib.h>

size_t switch_inputs_bytes(uint32_t ports, uint32_t slots)
{
    return ports * sizeof(struct switch_fifo) + slots * sizeof(emu_ports);
}

bool switch_inputs_init(struct switch_inputs *in, uint32_t ports, uint32_t slots)
{
    in->fifo = calloc(ports, sizeof *in->fifo);
    in->outs = emu_sparse_alloc(slots * sizeof *in->outs);
    return in->fifo && in->outs;
}

void switch_inputs_free(struct switch_inputs *in)
{
    emu_sparse_free(in->outs);
    free(in->fifo);
}

void switch_inputs_drop(struct switch_crossbar *bar, uint32_t r, const struct emu_entry *entry)
{
    struct switch_dev *sw = &bar->sw;

    switch_count_drop(sw, switch_group_of(sw, entry->hdr.dst), &entry->hdr);
    emu_pool_drop(&sw->dev.worker->cache, entry->buf);
    bar->row[r].rx.owed++;
}

void switch_inputs_append(struct switch_inputs *in, struct switch_crossbar *bar, uint32_t r,
                          emu_ports outs, const struct emu_entry *entry)
{
    struct switch_fifo *fifo = &in->fifo[r];
    uint32_t slot = switch_append(&bar->store, &fifo->list, fifo->queued, entry);

    fifo->queued++;
    in->outs[slot] = outs;
    if (entry->hdr.kind == EMU_UNICAST || !emu_ports_several(outs))
        return;
    emu_pool_share(bar->sw.dev.worker->cache.pool, entry->buf, emu_ports_count(outs) - 1);
    emu_count(&bar->sw.counts.multicasts, 1);
}

const char *switch_inputs_check(const struct switch_inputs *in, const struct switch_crossbar *bar,
                                uint32_t r, uint64_t now_ps, uint64_t *held, uint64_t *waited_ps)
{
    const struct switch_fifo *fifo = &in->fifo[r];
    uint32_t slot = fifo->list.first;

    for (uint32_t left = fifo->queued; left; left--) {
        if (!emu_ports_any(in->outs[slot]))
            return "a segment of a fifo has no outputs left";
        *held += 1;
        *waited_ps += now_ps - bar->store.slot[slot].time_ps;
        slot = bar->store.next[slot];
    }
    return NULL;
}

/* Return how many references to pool buffers a FIFO holds: one for each copy that has not left. */
static uint32_t fifo_bufs(const struct switch_inputs *in, const struct switch_crossbar *bar,
                          uint32_t r)
{
    uint32_t slot = in->fifo[r].list.first, bufs = 0;

    for (uint32_t left = in->fifo[r].queued; left; left--, slot = bar->store.next[slot]) {
        bool copies = bar->store.slot[slot].hdr.kind != EMU_UNICAST;

        if (bar->store.slot[slot].buf != EMU_NO_BUF)
            bufs += copies ? emu_ports_count(in->outs[slot]) : 1;
    }
    return bufs;
}

uint32_t switch_inputs_bufs(const struct switch_inputs *in, const struct switch_crossbar *bar)
{
    uint32_t bufs = 0;

    for (uint32_t r = 0; r < bar->sw.ports; r++)
        bufs += fifo_bufs(in, bar, r);
    return bufs;
}
