/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * events.h - for switches on timed clocks (real and virtual): the loop over the events of a step,
 * the agenda of scheduled outputs, and the sums for Little's law. The switch's worker owns all
 * data.
 */
#ifndef SWITCH_EVENTS_H
#define SWITCH_EVENTS_H

#include "emu/dev/order.h"
#include "switch/common/base.h"

/* The two sides of Little's law, area_ps and waited_ps, counted independently. */
struct switch_little {
    uint64_t held;      /* segments that are in the switch now; each copy counts */
    uint64_t last_ps;   /* when `held` last changed */
    uint64_t area_ps;   /* integral of `held` over time */
    uint64_t waited_ps; /* sum over all departed segments of departure minus arrival */
};

static_assert(TOPO_PORTS_MAX <= (int)SWITCH_ROWS_MAX, "every port can have an arrival in a step");

/* The outputs of a switch *act*: they send a segment, or begin or end work of a combine unit. */
struct switch_agenda {
    emu_ports due;     /* outputs that are scheduled to act */
    emu_ports stalled; /* outputs that have a segment and wait for a credit (EMU_EVENT_CREDIT) */
    struct emu_order acts; /* times of the outputs in `due` */
};

/*
 * events.c: initialize an agenda for @outs outputs. The caller always frees acts.event. False: no
 * memory.
 */
bool switch_agenda_init(struct switch_agenda *agenda, uint32_t outs);
size_t switch_agenda_bytes(uint32_t outs);

static inline void switch_rebase_time(uint64_t *at_ps, uint64_t by_ps)
{
    *at_ps = emu_rebased_ps(*at_ps, by_ps);
}

/*
 * events.c: check `held`, and on clock virtual Little's law at @now_ps. @held, @waited_ps: the
 * segments found in the switch by counting, and their waiting times. Returns an error, or NULL.
 */
const char *switch_little_check(const struct switch_dev *sw, const struct switch_little *little,
                                uint64_t now_ps, uint64_t held, uint64_t waited_ps);

/* Integrate `held` up to @at_ps. Call it before `held` changes. */
static inline void switch_little_until(struct switch_little *little, uint64_t at_ps)
{
    little->area_ps += little->held * (at_ps - little->last_ps);
    little->last_ps = at_ps;
}

/* Count a segment that leaves at @at_ps. */
static inline void switch_little_leave(struct switch_little *little, const struct emu_entry *entry,
                                       uint64_t at_ps)
{
    little->held--;
    little->waited_ps += at_ps - entry->time_ps;
}

/* Schedule output @o, which must not be scheduled yet, to act at @at_ps. */
static inline void switch_agenda_add(struct switch_agenda *agenda, uint32_t o, uint64_t at_ps)
{
    agenda->due |= emu_port(o);
    emu_order_add(&agenda->acts, at_ps, o);
}

/* Take the output that is scheduled next off the agenda. There must be one. */
static inline struct emu_order_event switch_agenda_take(struct switch_agenda *agenda)
{
    struct emu_order_event event = emu_order_take(&agenda->acts);

    agenda->due &= ~emu_port((uint32_t)event.port);
    return event;
}

/* Callbacks of switch_events_run(); @own is its argument. The times may be EMU_NEVER. */
struct switch_events {
    /* Add the arrivals up to @until_ps to @arrivals. Returns the time of the next arrival. */
    uint64_t (*begin)(struct switch_dev *sw, struct emu_order *arrivals, uint64_t until_ps);
    /* Return the time of the next scheduled action. */
    uint64_t (*next_ps)(const struct switch_dev *sw);
    /*
     * Take the earliest of @arrivals and process it. Add the next arrival at its port to @arrivals,
     * or return its time if it is after @until_ps.
     */
    uint64_t (*arrive)(struct switch_dev *sw, struct emu_order *arrivals, uint64_t until_ps,
                       const void *own);
    /* Do the action that is scheduled next. Returns the number of entries moved. */
    uint32_t (*act)(struct switch_dev *sw, const void *own);
};

/*
 * Do one step: process all events up to @until_ps in the order of their times. At equal times,
 * arrivals come before other actions. The function is always inlined with constant @events, so that
 * there are no indirect calls.
 * @own: passed to arrive() and act(). If several kinds of switches share these callbacks, the
 * constants of one kind; otherwise NULL.
 * Returns the number of entries moved.
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
        /* the earliest event is the furthest behind the host's clock */
        emu_dev_note_lag(&sw->dev, first_ps, until_ps);
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
