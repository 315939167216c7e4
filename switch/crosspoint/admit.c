/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * admit.c - a segment enters: route, then the crosspoints of its row.
 *
 * The crossbar is crossed once, whatever the number of copies (§2, Multicast).
 */
#include "switch/crosspoint/combine.h"
#include "switch/crosspoint/through.h"

/* Plain counter: counts the copies of a multicast. Returns 1 + the index of the counter. */
static uint8_t queue_copies(uint8_t left[EMU_XPOINT_MAX], unsigned copies)
{
    uint8_t i = 0;

    while (left[i])
        i++;
    left[i] = (uint8_t)copies;
    return (uint8_t)(i + 1);
}

/*
 * Copies of a multicast that go to processes at once need the buffer no longer. Returns the other
 * outputs.
 */
static uint64_t queue_copy_out(struct switch_crosspoints *xp, uint64_t outs,
                               const struct emu_entry *entry)
{
    const struct emu_seg *payload = emu_pool_payload(switch_cache(xp)->pool, entry->buf);
    uint64_t left = outs;

    emu_each_bit (o, outs) {
        struct emu_tx *tx = &xp->bar.out[o].tx;

        if (o < xp->bar.sw.ports && emu_tx_copies_out(tx) && switch_passes(xp, o)) {
            emu_tx_put(tx, &entry->hdr, payload);
            left &= ~emu_bit(o);
        }
    }
    return left;
}

/* A segment for several outputs. Returns those that it still goes to, each with a reference. */
static uint64_t queue_multicast(struct switch_crosspoints *xp, uint32_t row, uint64_t outs,
                                const struct emu_entry *entry, uint8_t *copy_of)
{
    struct emu_pool_cache *cache = switch_cache(xp);
    unsigned copies;

    emu_count(&xp->bar.sw.counts.multicasts, 1);
    outs = queue_copy_out(xp, outs, entry);
    copies = (unsigned)__builtin_popcountll(outs);
    if (!copies)
        emu_pool_drop(cache, entry->buf);
    else if (copies > 1)
        emu_pool_share(cache->pool, entry->buf, copies - 1);
    if (xp->copies && row < xp->bar.sw.ports)
        *copy_of = queue_copies(xp->copies->left[row], copies);
    return outs;
}

void switch_queue(struct switch_crosspoints *xp, uint32_t row, uint64_t outs,
                  const struct emu_entry *entry)
{
    uint8_t copy_of = 0;

    if (emu_bits_several(outs))
        outs = queue_multicast(xp, row, outs, entry, &copy_of);
    emu_each_bit (o, outs) {
        uint32_t slot;

        if (switch_passes(xp, o)) {
            emu_tx_send(&xp->bar.out[o].tx, entry);
            continue;
        }
        slot = switch_put(xp, row, o, entry);
        if (xp->copies)
            xp->copies->of[slot] = copy_of;
    }
}

/* Not queued: takes no room. */
static void admit_drop(struct switch_crosspoints *xp, uint32_t row,
                       const struct switch_group *group, const struct emu_entry *entry)
{
    switch_count_drop(&xp->bar.sw, group, &entry->hdr);
    emu_pool_drop(switch_cache(xp), entry->buf);
    if (xp->copies)
        xp->bar.row[row].rx.owed++;
}

/* @folds: a contribution that nothing waits before is folded at once. */
static inline void admit_collective(struct switch_crosspoints *xp, uint32_t row,
                                    const struct emu_entry *entry, bool folds)
{
    const struct switch_group *group = switch_group_of(&xp->bar.sw, entry->hdr.dst);
    uint64_t outs = switch_collective_outs(xp, group, row, &entry->hdr);
    uint32_t o;

    if (!outs) {
        admit_drop(xp, row, group, entry);
        return;
    }
    o = emu_bits_first(outs);
    if (folds && o >= xp->bar.sw.ports && !*switch_count(&xp->bar, row, o) &&
        !switch_units_stalled(xp))
        switch_unit_fold(xp, group, o - xp->bar.sw.ports, row, entry);
    else
        switch_queue(xp, row, outs, entry);
}

static inline __attribute__((always_inline)) void admit_unicast(struct switch_crosspoints *xp,
                                                                uint32_t row,
                                                                const struct emu_entry *entry)
{
    uint64_t outs = topo_route_ports(switch_route(&xp->bar.sw), entry->hdr.dst);
    uint32_t o, slot;

    if (!outs) {
        admit_drop(xp, row, NULL, entry);
        return;
    }
    o = emu_bits_several(outs) ? switch_choose(&xp->bar, outs) : emu_bits_first(outs);
    if (switch_passes(xp, o)) {
        emu_tx_send(&xp->bar.out[o].tx, entry);
        return;
    }
    slot = switch_put(xp, row, o, entry);
    if (xp->copies)
        xp->copies->of[slot] = 0;
}

/* Always inlined with @folds a constant. */
static inline __attribute__((always_inline)) void admit_enter(struct switch_crosspoints *xp,
                                                              uint32_t r,
                                                              const struct emu_entry *entry,
                                                              bool folds)
{
    if (entry->hdr.kind == EMU_UNICAST)
        admit_unicast(xp, r, entry);
    else
        admit_collective(xp, r, entry, folds);
}

void switch_enter(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry)
{
    admit_enter(xp, r, entry, true);
}

/* Contributions stop at their unit's crosspoint. */
static __attribute__((noinline)) void admit_stops(struct switch_crosspoints *xp, uint32_t r,
                                                  const struct emu_entry *entry)
{
    admit_enter(xp, r, entry, false);
}

/*
 * Source: output-queued routers §2. The two readings of its credit counter: docs/ARCHITECTURE.md,
 * section 4.
 */
void switch_admit_settling(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry)
{
    switch_enter(xp, r, entry);
    switch_row_of(xp)->settling[r].arrived++;
}

/* Room that it does not take is free at once. */
void switch_admit_level(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry)
{
    const struct switch_level *level = &switch_timing_of(xp)->level[r];
    uint8_t fullest = level->fullest;

    admit_stops(xp, r, entry);
    xp->bar.row[r].rx.owed += 1u + fullest - level->fullest;
}

void switch_admit_copies(struct switch_crosspoints *xp, uint32_t r, const struct emu_entry *entry)
{
    admit_stops(xp, r, entry);
}
