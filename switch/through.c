/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * through.c - clock raw: segments that come from a process and go no further than this switch.
 *
 * Raw has no time. A segment that finds its outputs free leaves in the pass in which it came; if all
 * of them lead to processes too, its payload need not lie anywhere in between: it is copied from the
 * one's memory to the others'. A contribution to a reduction is folded into what is there from where
 * it lies. Routing, credits, room and counters are those of any segment; whatever has to wait goes
 * the usual way, through a buffer and a crosspoint.
 *
 * The sender may change its payload while we copy it: it harms nobody but itself, for the header was
 * read once, and nothing in a payload is ever followed.
 */
#include "switch/internal.h"

/* Does every one of @outs lead to a process, and has room now? */
static bool through_fits(struct switch_dev *sw, uint64_t outs)
{
    for (; outs; outs &= outs - 1) {
        uint32_t o = (uint32_t)__builtin_ctzll(outs);

        if (!emu_tx_lends(&sw->out[o].tx) || !switch_is_open(sw, o))
            return false;
    }
    return true;
}

static bool through_copy(struct switch_dev *sw, uint64_t outs, const struct emu_hdr *hdr,
                         const struct emu_seg *seg)
{
    if (!outs || !through_fits(sw, outs))
        return false;
    if (outs & (outs - 1))
        emu_count(&sw->counts.multicasts, 1);
    for (; outs; outs &= outs - 1) {
        uint32_t o = (uint32_t)__builtin_ctzll(outs);

        switch_pass(sw, o);
        emu_tx_put(&sw->out[o].tx, hdr, hdr->len ? seg : NULL);
    }
    return true;
}

static bool through_collective(struct switch_dev *sw, uint32_t r, const struct emu_hdr *hdr,
                               const struct emu_seg *seg)
{
    const struct switch_group *group = switch_group_of(sw, hdr->dst);
    uint64_t outs = switch_collective_outs(sw, group, r, hdr);
    uint32_t o = outs ? (uint32_t)__builtin_ctzll(outs) : 0;

    if (o < sw->ports)
        return through_copy(sw, outs, hdr, seg);
    return !*switch_count(sw, r, o) && switch_unit_add(sw, group, o - sw->ports, r, hdr, seg);
}

bool switch_through(struct switch_dev *sw, uint32_t r, const struct emu_hdr *hdr,
                    const struct emu_seg *seg)
{
    bool through;

    if (hdr->kind == EMU_UNICAST) {
        uint64_t outs = topo_route_ports(sw->route, hdr->dst);

        through = !(outs & (outs - 1)) && through_copy(sw, outs, hdr, seg);
    } else {
        through = through_collective(sw, r, hdr, seg);
    }
    sw->row[r].arrived += through;
    sw->unsettled |= (uint64_t)through << r;
    return through;
}
