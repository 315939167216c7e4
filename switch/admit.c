/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * admit.c - a segment enters: route, then the crosspoints of its row.
 *
 * The crossbar is crossed once, whatever the number of copies (§2, Multicast).
 */
#include "switch/internal.h"

/* Put a segment at one crosspoint. Its row was promised the room. */
static inline size_t queue_one(struct switch_dev *sw, uint32_t row, uint32_t out,
                               const struct emu_entry *entry)
{
    size_t at = switch_at(sw, row, out);
    struct switch_out *to = &sw->out[out];
    uint8_t count = sw->count[at];
    size_t slot = switch_slot(sw, row, out, sw->head[at] + count);

    assert(count < sw->xpoint_slots);
    sw->slot[slot] = *entry;
    sw->count[at] = (uint8_t)(count + 1);
    to->waiting |= (uint64_t)1 << row;
    sw->runnable |= (uint64_t)1 << out;
    to->queued++;
    sw->light &= ~((uint64_t)(to->queued >= sw->light_slots) << out);
    return slot;
}

/* Plain counter: a place to count the copies of a multicast. There is one a credit. */
static uint8_t queue_copies(struct switch_row *row, unsigned copies)
{
    uint8_t i = 0;

    while (row->copies[i])
        i++;
    row->copies[i] = (uint8_t)copies;
    return (uint8_t)(i + 1);
}

void switch_queue(struct switch_dev *sw, uint32_t row, uint64_t outs,
                  const struct emu_entry *entry)
{
    unsigned copies = (unsigned)__builtin_popcountll(outs);
    uint8_t copy_of = 0;

    if (copies > 1) {
        emu_pool_share(sw->dev.worker->cache.pool, entry->buf, copies - 1);
        emu_count(&sw->counts.multicasts, 1);
        if (!switch_by_row(sw) && row < sw->ports)
            copy_of = queue_copies(&sw->row[row], copies);
    }
    for (; outs; outs &= outs - 1) {
        size_t slot = queue_one(sw, row, (uint32_t)__builtin_ctzll(outs), entry);

        sw->copy_of[slot] = copy_of;
    }
}

/* Not queued: takes no room, so its credit goes back at once. */
static void admit_drop(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry)
{
    emu_count(&sw->counts.bad, 1);
    emu_pool_drop(&sw->dev.worker->cache, entry->buf);
    if (!switch_by_row(sw))
        sw->row[row].rx.owed++;
}

/*
 * Collective kinds: the tag says what happens at the group's ports (§2.1).
 * The result of an all-reduce comes down from the tree's top: from there on it
 * is a multicast.
 */
static void admit_collective(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry)
{
    const struct switch_group *group = switch_group_of(sw, entry->hdr.dst);
    uint64_t from = (uint64_t)1 << row;

    if (!group || !(group->ports & from))
        admit_drop(sw, row, entry);
    else if (entry->hdr.kind == EMU_MULTICAST)
        switch_queue(sw, row, group->ports & ~from, entry);
    else if (entry->hdr.kind != EMU_REDUCE && (int)row == group->up)
        switch_queue(sw, row, group->ports & ~from, entry);
    else
        switch_queue(sw, row, (uint64_t)1 << sw->ports, entry);
}

void switch_admit(struct switch_dev *sw, uint32_t row, const struct emu_entry *entry)
{
    uint64_t outs;

    sw->row[row].arrived++;
    sw->unsettled |= (uint64_t)1 << row;
    if (entry->hdr.kind != EMU_UNICAST) {
        admit_collective(sw, row, entry);
        return;
    }
    outs = topo_route_ports(sw->route, entry->hdr.dst);
    if (!outs) {
        admit_drop(sw, row, entry);
        return;
    }
    if (outs & (outs - 1))
        outs = (uint64_t)1 << switch_choose(sw, outs);
    sw->copy_of[queue_one(sw, row, (uint32_t)__builtin_ctzll(outs), entry)] = 0;
}
