/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.h - what the timed steps share (timed.c, slots.c): arrivals in order,
 * credits with their times, and the books that Little's law checks.
 */
#ifndef SWITCH_EVENTS_H
#define SWITCH_EVENTS_H

#include "switch/internal.h"

/* Everything that is held now has been so until @at_ps. Before that changes. */
static inline void switch_little(struct switch_dev *sw, uint64_t at_ps)
{
    struct switch_little *little = &sw->little;

    little->area_ps += little->held * (at_ps - little->last_ps);
    little->last_ps = at_ps;
}

/* What row @r owes as of @at_ps goes back to its sender. */
static inline void switch_pay(struct switch_dev *sw, uint32_t r, uint64_t at_ps)
{
    if (r < sw->ports && sw->row[r].rx.owed)
        emu_rx_pay(&sw->row[r].rx, at_ps + sw->profile->credit_ps);
}

/* Something that was due at @due_ps happens at @now_ps. */
static inline void switch_lag(struct switch_dev *sw, uint64_t due_ps, uint64_t now_ps)
{
    _Atomic uint64_t *worst = &sw->dev.worker->worst_lag_ps;

    if (now_ps - due_ps > atomic_load_explicit(worst, memory_order_relaxed))
        atomic_store_explicit(worst, now_ps - due_ps, memory_order_relaxed);
}

/*
 * The front segment of row @r: an event of this step if it arrives by @until_ps, else remembered.
 * Returns when it arrives, if that is later.
 */
static inline uint64_t switch_look(struct switch_dev *sw, struct emu_order *arrivals,
                                   uint32_t r, uint64_t until_ps)
{
    struct emu_rx *rx = &sw->row[r].rx;
    uint64_t at_ps = emu_rx_front_ps(rx, until_ps);

    if (at_ps <= until_ps) {
        emu_order_add(arrivals, at_ps, r);
        return EMU_NEVER;
    }
    sw->arriving |= (uint64_t)(at_ps != EMU_NEVER) << r;
    return at_ps;
}

/* Ports that something arrived at. Returns the earliest arrival after @until_ps. */
static inline uint64_t switch_look_all(struct switch_dev *sw, struct emu_order *arrivals,
                                       uint64_t until_ps)
{
    uint64_t rows = emu_dev_take(&sw->dev, EMU_EVENT_DATA) | sw->arriving;
    uint64_t later_ps = EMU_NEVER;

    sw->arriving = 0;
    emu_each_bit(r, rows) {
        uint64_t next_ps;

        emu_rx_begin(&sw->row[r].rx);
        next_ps = switch_look(sw, arrivals, r, until_ps);
        later_ps = next_ps < later_ps ? next_ps : later_ps;
    }
    return later_ps;
}

#endif
