/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cut_through.h - clock raw: cut-through of segments that need not wait at a crosspoint. Used by
 * the switch's worker only. An output is *open* if the next segment for it may skip its crosspoint.
 * An output *copies out* if it leads to a process: payloads are copied into the process's ring. An
 * output that leads to no device counts as one that copies out.
 */
#ifndef SWITCH_CUT_THROUGH_H
#define SWITCH_CUT_THROUGH_H

#include "switch/crosspoint/crosspoint.h"

/* cut_through.c: process the segments of the process at row @r. Returns how many. */
uint32_t switch_cut_through(struct switch_crosspoints_row *row, uint32_t r);

/*
 * cut_through.c: the slow path of switch_is_open(), for an output that is not a plain local cable.
 * The space at the output is queried only once a pass, because the query reads memory of a process.
 */
bool switch_is_open_else(struct switch_crosspoints *xp, uint32_t o);

/*
 * Return whether the next segment for output @o may skip its crosspoint. On clock raw nothing takes
 * time: a segment leaves in the pass in which it arrived if nothing waits at its output and there
 * is a credit. The sender gets its own credit back as if the segment had been queued.
 */
static inline bool switch_is_open(struct switch_crosspoints *xp, uint32_t o)
{
    const struct switch_out *out = &xp->bar.out[o];

    if (__builtin_expect(out->tx.shape != EMU_LINK_LOCAL, 0))
        return switch_is_open_else(xp, o);
    return out->tx.credits && !emu_ports_any(out->waiting) && !emu_ports_has(xp->shut, o);
}

/* Account for a segment that the caller sends through output @o, which must be open. */
static inline void switch_pass(struct switch_crosspoints *xp, uint32_t o)
{
    if (__builtin_expect(xp->bar.out[o].tx.shape != EMU_LINK_LOCAL, 0))
        switch_row_of(xp)->room[o]--;
    xp->bar.runnable |= emu_port(o); /* the pass notifies the receiver */
}

static inline bool switch_passes(struct switch_crosspoints *xp, uint32_t o)
{
    if (!switch_is_open(xp, o))
        return false;
    switch_pass(xp, o);
    return true;
}

static inline bool switch_copies_out(const struct switch_crosspoints *xp, emu_ports outs)
{
    emu_each_port (o, outs)
        if (o >= xp->bar.sw.ports || !emu_tx_copies_out(&xp->bar.out[o].tx))
            return false;
    return true;
}

/*
 * cut_through.c: write a segment once into the multicast buffer that the processes at @outs share.
 * There must be several outputs, which copy out and are open. False: nothing was done, and each
 * process needs a copy of its own.
 */
bool switch_mcast_buf_put(struct switch_crosspoints *xp, emu_ports outs, const struct emu_hdr *hdr,
                          const struct emu_seg *payload);

/*
 * Return whether a segment may go into the shared multicast buffer. Only full segments may; all
 * segments of a message except the last are full.
 */
static inline bool switch_fits_mcast_buf(const struct emu_hdr *hdr)
{
    return hdr->len == EMU_PAYLOAD_BYTES;
}

/* Send a segment to @outs, which copy out and are open. Borrows @payload, which may be NULL. */
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

/* If all of @outs are open, send a segment by switch_put_out() and count it. Else return false. */
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
