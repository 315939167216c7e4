/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.h - what machines on timed clocks share: the loop over a step's events, the outputs'
 * agenda, and the accounts that Little's law checks. All of it is the switch's worker's.
 */
#ifndef SWITCH_EVENTS_H
#define SWITCH_EVENTS_H

#include "emu/dev/order.h"
#include "switch/common/base.h"

/* What Little's law says must be equal, kept in two independent ways. */
struct switch_little {
    uint64_t held;      /* segments in the switch now, copies each */
    uint64_t last_ps;   /* when that last changed */
    uint64_t area_ps;   /* held, integrated over time */
    uint64_t waited_ps; /* by those that have left, each from its arrival to its departure */
};

static_assert(TOPO_PORTS_MAX <= (int)SWITCH_ROWS_MAX,
              "no port is beyond the rows that a step has room for");

/* What the outputs are about to do. */
struct switch_agenda {
    emu_ports due;         /* outputs that know when they will act */
    emu_ports stalled;     /* outputs with a segment and no credit on its way */
    struct emu_order acts; /* of the outputs in `due` */
};

/*
 * events.c: an agenda of @outs outputs; false: there is no memory. Its acts.event is freed in any
 * case.
 */
bool switch_agenda_init(struct switch_agenda *agenda, uint32_t outs);
size_t switch_agenda_bytes(uint32_t outs);

/* The clock is rebased by @by_ps: a time. */
static inline void switch_rebase_time(uint64_t *at_ps, uint64_t by_ps)
{
    *at_ps = emu_rebased_ps(*at_ps, by_ps);
}

/*
 * events.c: Little's law as of @now_ps, on clock virtual. @held, @waited_ps: segments in the
 * switch, counted, and how long they have waited. NULL, or what is wrong.
 */
const char *switch_little_check(const struct switch_dev *sw, const struct switch_little *little,
                                uint64_t now_ps, uint64_t held, uint64_t waited_ps);

/* Everything that is held now has been so until @at_ps. Before that changes. */
static inline void switch_little_until(struct switch_little *little, uint64_t at_ps)
{
    little->area_ps += little->held * (at_ps - little->last_ps);
    little->last_ps = at_ps;
}

/* A segment leaves at @at_ps. */
static inline void switch_little_leave(struct switch_little *little, const struct emu_entry *entry,
                                       uint64_t at_ps)
{
    little->held--;
    little->waited_ps += at_ps - entry->time_ps;
}

/* Output @o, which had nothing to do so far, will act at @at_ps. */
static inline void switch_agenda_add(struct switch_agenda *agenda, uint32_t o, uint64_t at_ps)
{
    agenda->due |= emu_port(o);
    emu_order_add(&agenda->acts, at_ps, o);
}

/* The output that acts next. There is one. */
static inline struct emu_order_event switch_agenda_take(struct switch_agenda *agenda)
{
    struct emu_order_event event = emu_order_take(&agenda->acts);

    agenda->due &= ~emu_port((uint32_t)event.port);
    return event;
}

/* What a machine on a timed clock does. @own: as given to switch_events_run(). */
struct switch_events {
    /*
     * What has come so far: adds what arrives by @until_ps. Returns the earliest later arrival;
     * EMU_NEVER.
     */
    uint64_t (*begin)(struct switch_dev *sw, struct emu_order *arrivals, uint64_t until_ps);
    /* When it does something of its own next; EMU_NEVER. */
    uint64_t (*next_ps)(const struct switch_dev *sw);
    /*
     * The earliest of @arrivals. Returns when the next one at its port comes, if that is after
     * @until_ps.
     */
    uint64_t (*arrive)(struct switch_dev *sw, struct emu_order *arrivals, uint64_t until_ps,
                       const void *own);
    /* What it does at next_ps(). Returns what counts as moved. */
    uint32_t (*act)(struct switch_dev *sw, const void *own);
};

/*
 * A step: everything that happens by @until_ps, in the order of its times; at one and the same time
 * what arrives comes first. Always inlined with @events a constant, so that none of them is called
 * by a pointer. @own: NULL, or constants of a machine that shares its events with others.
 */
static inline __attribute__((always_inline)) uint32_t switch_events_run(
    struct switch_dev *sw, uint64_t until_ps, const struct switch_events *events, const void *own)
{
    struct emu_order_event event[EMU_ORDER_ROOM(SWITCH_ROWS_MAX)];
    struct emu_order arrivals;
    uint64_t later_ps, first_ps;
    uint32_t moved = 0;

    emu_order_init(&arrivals, event, SWITCH_ROWS_MAX, true);
    later_ps = events->begin(sw, &arrivals, until_ps);
    first_ps = events->next_ps(sw);
    if (emu_order_next_ps(&arrivals) < first_ps)
        first_ps = emu_order_next_ps(&arrivals);
    if (first_ps <= until_ps)
        emu_dev_lag(&sw->dev, first_ps, until_ps); /* of all that happens now it is the latest */
    for (;;) {
        uint64_t own_ps = events->next_ps(sw);
        uint64_t arrive_ps = emu_order_next_ps(&arrivals);

        if (arrive_ps != EMU_NEVER && arrive_ps <= own_ps) {
            uint64_t next_ps = events->arrive(sw, &arrivals, until_ps, own);

            later_ps = next_ps < later_ps ? next_ps : later_ps;
            moved++;
        } else if (own_ps <= until_ps) {
            moved += events->act(sw, own);
        } else {
            sw->dev.next_ps = own_ps < later_ps ? own_ps : later_ps;
            return moved;
        }
    }
}

#endif
