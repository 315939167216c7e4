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
 * through.c: switch_is_open() of an output that no plain local cable leaves by. What there is room
 * for is asked once in a pass, for it takes a look at a process's memory.
 */
bool switch_is_open_else(struct switch_crosspoints *xp, uint32_t o);

/*
 * Raw has no time, so a segment that finds nothing waiting at its output, and room beyond it, would
 * leave its crosspoint in the pass in which it came: it is not put there at all. Its row is
 * credited as if it had been. Is output @o open to the next one?
 */
static inline bool switch_is_open(struct switch_crosspoints *xp, uint32_t o)
{
    const struct switch_out *out = &xp->bar.out[o];

    if (__builtin_expect(out->tx.shape != EMU_LINK_LOCAL, 0))
        return switch_is_open_else(xp, o);
    return out->tx.credits && !emu_ports_any(out->waiting) && !emu_ports_has(xp->shut, o);
}

/* It is open, and one goes through: to be sent now. */
static inline void switch_pass(struct switch_crosspoints *xp, uint32_t o)
{
    if (__builtin_expect(xp->bar.out[o].tx.shape != EMU_LINK_LOCAL, 0))
        switch_row_of(xp)->room[o]--;
    xp->bar.runnable |= emu_port(o); /* its receiver is to be told */
}

static inline bool switch_passes(struct switch_crosspoints *xp, uint32_t o)
{
    if (!switch_is_open(xp, o))
        return false;
    switch_pass(xp, o);
    return true;
}

/* Do all of @outs lead to processes, or to nobody? */
static inline bool switch_copies_out(const struct switch_crosspoints *xp, emu_ports outs)
{
    emu_each_port (o, outs)
        if (o >= xp->bar.sw.ports || !emu_tx_copies_out(&xp->bar.out[o].tx))
            return false;
    return true;
}

/*
 * through.c: a segment for @outs, several that copy out and are open, is written once, where all
 * that are there can read it. False: nothing was done, each of them needs its copy.
 */
bool switch_shelve(struct switch_crosspoints *xp, emu_ports outs, const struct emu_hdr *hdr,
                   const struct emu_seg *payload);

/*
 * Is it put there? All but a stream's last segment is full; and nothing lies behind a payload then
 * that is not of it.
 */
static inline bool switch_shelves(const struct emu_hdr *hdr)
{
    return hdr->len == EMU_PAYLOAD_BYTES;
}

/*
 * Copies of a segment for @outs, which copy out and are open; the payload is the caller's, or NULL.
 */
static inline void switch_put_out(struct switch_crosspoints *xp, emu_ports outs,
                                  const struct emu_hdr *hdr, const struct emu_seg *payload)
{
    if (emu_ports_several(outs) && switch_shelves(hdr) && switch_shelve(xp, outs, hdr, payload))
        return;
    emu_each_port (o, outs) {
        switch_pass(xp, o);
        emu_tx_put(&xp->bar.out[o].tx, hdr, payload);
    }
}

/* The same for @outs, which copy out, if all of them are open. False: nothing was done. */
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
