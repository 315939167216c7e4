/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * admit.c - a segment enters: route, then the crosspoints of its row.
 *
 * The crossbar is crossed once, whatever the number of copies (§2, Multicast).
 */
#include "switch/internal.h"

/* Plain counter: a place to count the copies of a multicast. There is one a credit. */
static uint8_t queue_copies(struct switch_row *row, unsigned copies)
{
    uint8_t i = 0;

    while (row->copies[i])
        i++;
    row->copies[i] = (uint8_t)copies;
    return (uint8_t)(i + 1);
}

/* Copies of a multicast that go to processes at once need the buffer no longer. Returns the other outputs. */
static uint64_t queue_lend(struct switch_dev *sw, uint64_t outs, const struct emu_entry *entry)
{
    const struct emu_seg *payload = emu_pool_payload(sw->dev.worker->cache.pool, entry->buf);
    uint64_t left = outs;

    emu_each_bit(o, outs) {
        struct emu_tx *tx = &sw->out[o].tx;

        if (o < sw->ports && emu_tx_lends(tx) && switch_passes(sw, o)) {
            emu_tx_put(tx, &entry->hdr, payload);
            left &= ~emu_bit(o);
        }
    }
    return left;
}

/* A segment for several outputs. Returns those that it still has to go to, each with a reference. */
static uint64_t queue_multicast(struct switch_dev *sw, uint32_t row, uint64_t outs,
                                const struct emu_entry *entry, uint8_t *copy_of)
{
    struct emu_pool_cache *cache = &sw->dev.worker->cache;
    unsigned copies;

    emu_count(&sw->counts.multicasts, 1);
    outs = queue_lend(sw, outs, entry);
    copies = (unsigned)__builtin_popcountll(outs);
    if (!copies)
        emu_pool_drop(cache, entry->buf);
    else if (copies > 1)
        emu_pool_share(cache->pool, entry->buf, copies - 1);
    if (sw->by_copy && row < sw->ports)
        *copy_of = queue_copies(&sw->row[row], copies);
    return outs;
}

void switch_queue(struct switch_dev *sw, uint32_t row, uint64_t outs,
                  const struct emu_entry *entry)
{
    uint8_t copy_of = 0;

    if (emu_bits_several(outs))
        outs = queue_multicast(sw, row, outs, entry, &copy_of);
    emu_each_bit(o, outs) {
        uint32_t slot;

        if (switch_passes(sw, o)) {
            emu_tx_send(&sw->out[o].tx, entry);
            continue;
        }
        slot = switch_put(sw, row, o, entry);
        if (sw->by_copy)
            sw->link[slot].copy_of = copy_of;
    }
}

/* Not queued: takes no room. */
static void admit_drop(struct switch_dev *sw, uint32_t row, const struct switch_group *group,
                       const struct emu_entry *entry)
{
    switch_count_drop(sw, group, &entry->hdr);
    emu_pool_drop(&sw->dev.worker->cache, entry->buf);
    if (sw->by_copy)
        sw->row[row].rx.owed++;
}

static inline void admit_collective(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry)
{
    const struct switch_group *group = switch_group_of(sw, entry->hdr.dst);
    uint64_t outs = switch_collective_outs(sw, group, row, &entry->hdr);
    uint32_t o;

    if (!outs) {
        admit_drop(sw, row, group, entry);
        return;
    }
    o = emu_bits_first(outs);
    if (o >= sw->ports && sw->through && !*switch_count(sw, row, o))
        switch_unit_fold(sw, group, o - sw->ports, row, entry);
    else
        switch_queue(sw, row, outs, entry);
}

static inline void admit_unicast(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry)
{
    uint64_t outs = topo_route_ports(sw->route, entry->hdr.dst);
    uint32_t o, slot;

    if (!outs) {
        admit_drop(sw, row, NULL, entry);
        return;
    }
    o = emu_bits_several(outs) ? switch_choose(sw, outs) : emu_bits_first(outs);
    if (switch_passes(sw, o)) {
        emu_tx_send(&sw->out[o].tx, entry);
        return;
    }
    slot = switch_put(sw, row, o, entry);
    if (sw->by_copy)
        sw->link[slot].copy_of = 0;
}

/* Source: output-queued routers §2; FACTS A, "Two readings of the credit counter". */
void switch_enter(struct switch_dev *sw, uint32_t r, const struct emu_entry *entry)
{
    if (entry->hdr.kind == EMU_UNICAST)
        admit_unicast(sw, r, entry);
    else
        admit_collective(sw, r, entry);
}

void switch_admit(struct switch_dev *sw, uint32_t r, const struct emu_entry *entry)
{
    struct switch_row *row = &sw->row[r];
    uint8_t fullest = row->fullest;

    switch_enter(sw, r, entry);
    if (sw->by_row && sw->dev.timed) /* room that it does not take is free at once */
        row->rx.owed += 1u + fullest - row->fullest;
    row->arrived++;
    sw->unsettled |= emu_bit(r);
}

uint32_t switch_row_holds(const struct switch_dev *sw, uint32_t r)
{
    const struct switch_row *row = &sw->row[r];
    uint32_t holds = 0;

    if (sw->by_row)
        return row->fullest;
    if (!sw->by_copy)
        return switch_input_holds(sw, r);
    for (uint32_t o = 0; o < sw->rows; o++) {
        uint32_t slot = switch_xpoint(sw, r, o)->first;

        for (uint32_t left = *switch_count(sw, r, o); left; left--) {
            holds += !sw->link[slot].copy_of;
            slot = sw->link[slot].next;
        }
    }
    for (uint32_t i = 0; i < EMU_XPOINT_MAX; i++)
        holds += row->copies[i] != 0;
    return holds;
}
