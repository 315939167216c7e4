/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cut_through.h - clock raw: cut-through of segments that need not wait at a crosspoint. The
 * switch's worker only.
 */
#ifndef SWITCH_CUT_THROUGH_H
#define SWITCH_CUT_THROUGH_H

#include "switch/crosspoint/crosspoint.h"

/* cut_through.c: process the segments that a process sends by row @r. Returns segments taken. */
uint32_t switch_cut_through(struct switch_crosspoints_row *row, uint32_t r);

/*
 * cut_through.c: switch_is_open() for an output without a plain local cable. Its space is queried
 * once a pass, because that reads a process's memory.
 */
bool switch_is_open_else(struct switch_crosspoints *xp, uint32_t o);

/*
 * May the next segment for output @o skip its crosspoint? Raw has no time: a segment that finds
 * nothing waiting at its output, and a credit, would leave in the pass in which it came. Its row is
 * credited as if it had been queued.
 */
static inline bool switch_is_open(struct switch_crosspoints *xp, uint32_t o)
{
    const struct switch_out *out = &xp->bar.out[o];

    if (__builtin_expect(out->tx.shape != EMU_LINK_LOCAL, 0))
        return switch_is_open_else(xp, o);
    return out->tx.credits && !emu_ports_any(out->waiting) && !emu_ports_has(xp->shut, o);
}

/* Account for a segment that skips the queue of output @o, which is open; the caller sends it. */
static inline void switch_pass(struct switch_crosspoints *xp, uint32_t o)
{
    if (__builtin_expect(xp->bar.out[o].tx.shape != EMU_LINK_LOCAL, 0))
        switch_row_of(xp)->room[o]--;
    xp->bar.runnable |= emu_port(o); /* the pass notifies its receiver */
}

static inline bool switch_passes(struct switch_crosspoints *xp, uint32_t o)
{
    if (!switch_is_open(xp, o))
        return false;
    switch_pass(xp, o);
    return true;
}

/* Do all of @outs lead to processes, or to no device? */
static inline bool switch_copies_out(const struct switch_crosspoints *xp, emu_ports outs)
{
    emu_each_port (o, outs)
        if (o >= xp->bar.sw.ports || !emu_tx_copies_out(&xp->bar.out[o].tx))
            return false;
    return true;
}

/*
 * cut_through.c: write a segment for several @outs, which copy out and are open, once into their
 * shared multicast buffer. False: nothing was done; each process needs its own copy.
 */
bool switch_mcast_buf_put(struct switch_crosspoints *xp, emu_ports outs, const struct emu_hdr *hdr,
                          const struct emu_seg *payload);

/* Does a segment go to the shared multicast buffer? Only full ones, that is, all but a last one. */
static inline bool switch_fits_mcast_buf(const struct emu_hdr *hdr)
{
    return hdr->len == EMU_PAYLOAD_BYTES;
}

/* Send a segment to @outs, which copy out and are open. The caller keeps @payload, or NULL. */
static inline void switch_put_out(struct switch_crosspoints *xp, emu_ports outs,
                                  const struct emu_hdr *hdr, const struct emu_seg *payload)
{
    if (emu_ports_several(outs) && switch_fits_mcast_buf(hdr) &&
        switch_mcast_buf_put(xp, outs, hdr, payload))
        return;
    emu_each_port (o, outs) {
        switch_pass(xp, o);
        emu_tx_put(&xp->bar.out[o].tx, hdr, payload);
    }
}

/* switch_put_out() and count, if all of @outs are open. False: nothing was done. */
static inline bool switch_copy_out(struct switch_crosspoints *xp, emu_ports outs,
                                   const struct emu_hdr *hdr, const struct emu_seg *payload)
{
    emu_each_port (o, outs)
        if (!switch_is_open(xp, o))
            return false;
    if (emu_ports_several(outs))
        emu_count(&xp->bar.sw.counts.multicasts, 1);
    switch_put_out(xp, outs, hdr, payload);
    return true;
}

#endif
