/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.h - shared by switches on timed clocks: the loop over a step's events, the agenda of the
 * outputs, and the sums for Little's law. The switch's worker owns all of it.
 */
#ifndef SWITCH_EVENTS_H
#define SWITCH_EVENTS_H

#include "emu/dev/order.h"
#include "switch/common/base.h"

/* The two sides of Little's law, counted independently. */
struct switch_little {
    uint64_t held;      /* segments in the switch now; each copy counts */
    uint64_t last_ps;   /* time of its last change */
    uint64_t area_ps;   /* integral of `held` over time */
    uint64_t waited_ps; /* sum over departed segments of departure minus arrival */
};

static_assert(TOPO_PORTS_MAX <= (int)SWITCH_ROWS_MAX, "a step's arrivals have room for all ports");

/* The scheduled actions of the outputs. */
struct switch_agenda {
    emu_ports due;         /* outputs that are scheduled */
    emu_ports stalled;     /* outputs with a segment that wait for EMU_EVENT_CREDIT */
    struct emu_order acts; /* times of the outputs in `due` */
};

/*
 * events.c: an agenda of @outs outputs; false: no memory. The caller frees acts.event in any case.
 */
bool switch_agenda_init(struct switch_agenda *agenda, uint32_t outs);
size_t switch_agenda_bytes(uint32_t outs);

/* Rebase the time *@at_ps by @by_ps. */
static inline void switch_rebase_time(uint64_t *at_ps, uint64_t by_ps)
{
    *at_ps = emu_rebased_ps(*at_ps, by_ps);
}

/*
 * events.c: check `held`, and on clock virtual Little's law as of @now_ps. @held, @waited_ps:
 * segments that were counted in the switch, and the sum of their waits. Returns an error, or NULL.
 */
const char *switch_little_check(const struct switch_dev *sw, const struct switch_little *little,
                                uint64_t now_ps, uint64_t held, uint64_t waited_ps);

/* Integrate `held` up to @at_ps. Call it before `held` changes. */
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

/* Schedule output @o, which was not scheduled, at @at_ps. */
static inline void switch_agenda_add(struct switch_agenda *agenda, uint32_t o, uint64_t at_ps)
{
    agenda->due |= emu_port(o);
    emu_order_add(&agenda->acts, at_ps, o);
}

/* Take the next scheduled output; there must be one. */
static inline struct emu_order_event switch_agenda_take(struct switch_agenda *agenda)
{
    struct emu_order_event event = emu_order_take(&agenda->acts);

    agenda->due &= ~emu_port((uint32_t)event.port);
    return event;
}

/* Callbacks of switch_events_run(), which passes on @own. Times may be EMU_NEVER. */
struct switch_events {
    /* Add arrivals up to @until_ps to @arrivals. Returns the time of the earliest later one. */
    uint64_t (*begin)(struct switch_dev *sw, struct emu_order *arrivals, uint64_t until_ps);
    /* The time of the next scheduled action. */
    uint64_t (*next_ps)(const struct switch_dev *sw);
    /*
     * Take the earliest of @arrivals and process it. Add the next arrival of the same port, or
     * return its time if that is after @until_ps.
     */
    uint64_t (*arrive)(struct switch_dev *sw, struct emu_order *arrivals, uint64_t until_ps,
                       const void *own);
    /* Do the action scheduled at next_ps(). Returns the number of entries moved. */
    uint32_t (*act)(struct switch_dev *sw, const void *own);
};

/*
 * One step: process all events up to @until_ps in the order of their times; at the same time,
 * arrivals come first. Always inlined with constant @events, so that there are no indirect calls.
 * @own: NULL, or constants of a kind that shares its events with others. Returns entries moved.
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
        emu_dev_lag(&sw->dev, first_ps, until_ps); /* the earliest event lags most */
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
