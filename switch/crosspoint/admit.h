/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * admit.h - a segment enters the switch: choose its outputs, then put it at the crosspoints of its
 * row. Used by the switch's worker only.
 *
 * A segment crosses the crossbar once, whatever the number of its copies.
 * Source: output-queued routers §2, Multicast.
 */
#ifndef SWITCH_ADMIT_H
#define SWITCH_ADMIT_H

#include "switch/crosspoint/combine.h"
#include "switch/crosspoint/cut_through.h"
#include "switch/policy/policy.h"

static inline bool admit_collective(struct switch_crosspoints *xp, uint32_t row,
                                    const struct emu_entry *entry, bool folds)
{
    const struct switch_group *group = switch_group_of(&xp->bar.sw, entry->hdr.dst);
    emu_ports outs = switch_collective_outs(xp, group, row, &entry->hdr);
    uint32_t o;

    if (!emu_ports_any(outs)) {
        switch_drop(xp, group, entry);
        return false;
    }
    o = emu_ports_first(outs);
    if (folds && o >= xp->bar.sw.ports && !*switch_count(&xp->bar, row, o) &&
        !switch_units_stalled(xp))
        switch_unit_fold(xp, group, o - xp->bar.sw.ports, row, entry);
    else
        switch_queue(xp, row, outs, entry);
    return true;
}

/* Route a unicast from @row, which has these @routes, and @put it. False: it was dropped. */
static inline __attribute__((always_inline)) bool switch_admit_unicast(
    struct switch_crosspoints *xp, uint32_t row, const struct switch_routes *routes,
    const struct emu_entry *entry, switch_put_fn put)
{
    emu_ports outs = switch_unicast_outs(&xp->bar, routes, entry->hdr.dst);
    uint32_t o;

    if (!emu_ports_any(outs)) {
        switch_drop(xp, NULL, entry);
        return false;
    }
    o = emu_ports_several(outs) ? route_choose(&xp->bar.sw, outs, xp->bar.light)
                                : emu_ports_first(outs);
    put(xp, row, o, entry, 0);
    return true;
}

/*
 * Let a segment enter through @row; the caller accounts for its credit. If @folds is set, a
 * contribution is combined immediately, unless an earlier one waits or the units are stalled.
 * Otherwise it waits at the crosspoint of its combine unit. False: the segment was dropped. Always
 * inlined with constant @folds and @put.
 */
static inline __attribute__((always_inline)) bool switch_admit(struct switch_crosspoints *xp,
                                                               uint32_t row,
                                                               const struct emu_entry *entry,
                                                               bool folds, switch_put_fn put)
{
    struct switch_routes routes;

    if (entry->hdr.kind != EMU_UNICAST)
        return admit_collective(xp, row, entry, folds);
    routes = switch_routes_of(&xp->bar, row);
    return switch_admit_unicast(xp, row, &routes, entry, put);
}

/*
 * On clock raw with the row guarantee (crosspoint.h): send the segment if output @o is open,
 * otherwise queue it.
 */
static inline void switch_enter_put(struct switch_crosspoints *xp, uint32_t row, uint32_t o,
                                    const struct emu_entry *entry, uint8_t share)
{
    if (switch_passes(xp, o))
        emu_tx_send(&xp->bar.out[o].tx, entry);
    else
        switch_put_raw(xp, row, o, entry, share);
}

#endif
