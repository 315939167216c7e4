/* SPDX-License-Identifier: BSD-3-Clause */
/* admit.c - put an arrived segment at its crosspoints, or send it immediately. */
#include "switch/crosspoint/admit.h"

/*
 * For each output that leads to a process with space, write a copy into the process's ring. Returns
 * the other outputs.
 */
static emu_ports queue_copy_out(struct switch_crosspoints *xp, emu_ports outs,
                                const struct emu_entry *entry)
{
    const struct emu_seg *payload = emu_pool_payload(switch_cache(xp)->pool, entry->buf);
    emu_ports open = EMU_NO_PORTS;

    emu_each_port (o, outs)
        if (o < xp->bar.sw.ports && emu_tx_copies_out(&xp->bar.out[o].tx) && switch_is_open(xp, o))
            open |= emu_port(o);
    switch_put_out(xp, open, &entry->hdr, payload);
    return outs & ~open;
}

/*
 * Write copies of a multicast into the rings of processes that have space. Returns the other
 * outputs in @outs. @entry then has a reference to its buffer for each of them.
 */
static emu_ports queue_multicast(struct switch_crosspoints *xp, uint32_t row, emu_ports outs,
                                 const struct emu_entry *entry, uint8_t *share)
{
    struct emu_pool_cache *cache = switch_cache(xp);
    uint32_t copies;

    emu_count(&xp->bar.sw.counts.multicasts, 1);
    outs = queue_copy_out(xp, outs, entry);
    copies = emu_ports_count(outs);
    if (!copies)
        emu_pool_drop(cache, entry->buf);
    else if (copies > 1)
        emu_pool_share(cache->pool, entry->buf, copies - 1);
    if (xp->access->share && row < xp->bar.sw.ports)
        *share = xp->access->share(xp, row, copies);
    return outs;
}

void switch_queue(struct switch_crosspoints *xp, uint32_t row, emu_ports outs,
                  const struct emu_entry *entry)
{
    uint8_t share = 0;

    if (emu_ports_several(outs))
        outs = queue_multicast(xp, row, outs, entry, &share);
    emu_each_port (o, outs) {
        if (switch_passes(xp, o))
            emu_tx_send(&xp->bar.out[o].tx, entry);
        else
            xp->access->put(xp, row, o, entry, share);
    }
}

void switch_enter(struct switch_crosspoints *xp, uint32_t row, const struct emu_entry *entry)
{
    switch_admit(xp, row, entry, true, switch_enter_put);
}
