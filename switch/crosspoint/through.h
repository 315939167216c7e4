/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * through.h - clock raw: what does not stop at a crosspoint. The switch's worker only.
 */
#ifndef SWITCH_THROUGH_H
#define SWITCH_THROUGH_H

#include "switch/crosspoint/crosspoint.h"

/*
 * through.c: what a process has sent enters by row @r: all its way through this switch at once
 * where nothing is in the way. Returns segments taken.
 */
uint32_t switch_through(struct switch_crosspoints_row *row, uint32_t r);

/*
 * Raw has no time, so a segment that finds nothing waiting at its output, and room beyond it, would
 * leave its crosspoint in the pass in which it came: it is not put there at all. Its row is
 * credited as if it had been. Is output @o open to the next one?
 */
static inline bool switch_is_open(struct switch_crosspoints *xp, uint32_t o)
{
    struct switch_crosspoints_row *row = switch_row_of(xp); /* if anything is not shut */
    uint64_t bit = emu_bit(o);

    if (xp->shut & bit)
        return false;
    if (!(row->open & bit)) {
        row->open |= bit;
        row->room[o] = xp->bar.out[o].waiting ? 0 : emu_tx_room(&xp->bar.out[o].tx);
    }
    if (!row->room[o]) {
        xp->shut |= bit;
        return false;
    }
    return true;
}

/* It is open, and one goes through: to be sent now. */
static inline void switch_pass(struct switch_crosspoints *xp, uint32_t o)
{
    switch_row_of(xp)->room[o]--;
    xp->bar.runnable |= emu_bit(o); /* its receiver is to be told */
}

static inline bool switch_passes(struct switch_crosspoints *xp, uint32_t o)
{
    if (!switch_is_open(xp, o))
        return false;
    switch_pass(xp, o);
    return true;
}

/* Do all of @outs lead to processes, or to nobody? */
static inline bool switch_copies_out(const struct switch_crosspoints *xp, uint64_t outs)
{
    emu_each_bit (o, outs)
        if (o >= xp->bar.sw.ports || !emu_tx_copies_out(&xp->bar.out[o].tx))
            return false;
    return true;
}

/*
 * Copies of a segment for @outs, which copy out, if all of them are open; the payload is the
 * caller's, or NULL.
 * False: nothing was done.
 */
static inline bool switch_copy_out(struct switch_crosspoints *xp, uint64_t outs,
                                   const struct emu_hdr *hdr, const struct emu_seg *payload)
{
    emu_each_bit (o, outs)
        if (!switch_is_open(xp, o))
            return false;
    if (emu_bits_several(outs))
        emu_count(&xp->bar.sw.counts.multicasts, 1);
    emu_each_bit (o, outs) {
        switch_pass(xp, o);
        emu_tx_put(&xp->bar.out[o].tx, hdr, payload);
    }
    return true;
}

#endif
