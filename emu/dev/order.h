/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.h - a device's events in the order of their times.
 *
 * There is at most one event per port (a row of crosspoints, an output, a link). The events are a
 * sorted part of an array, with free space before and after it. An event that is due immediately is
 * inserted at the front. An event that waits for the wire is usually inserted near the end.
 * Therefore only few events must be moved. A sentinel with time EMU_NEVER follows the last event.
 * order.c says how simultaneous events are ordered.
 */
#ifndef EMU_ORDER_H
#define EMU_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "emu/util/clock.h"
#include "emu/util/random.h"

struct emu_order_event {
    uint64_t at_ps;
    uint64_t port;
};

struct emu_order {
    struct emu_order_event *first;
    struct emu_order_event *end;   /* the sentinel, right after the last event */
    struct emu_order_event *event; /* the array, of EMU_ORDER_ROOM(most events) elements */
    struct emu_order_event *last;
    /* order simultaneous events by emu_order_tie_rank(), else by port */
    bool by_rank;
};

#define EMU_ORDER_ROOM(events) (3 * (events) + 2)

/**
 * emu_order_init - initialize @order without events. @event: an array of EMU_ORDER_ROOM(@events)
 * elements, for at most @events events.
 */
static inline void emu_order_init(struct emu_order *order, struct emu_order_event *event,
                                  uint32_t events, bool by_rank)
{
    order->event = event;
    order->last = event + EMU_ORDER_ROOM(events) - 1;
    order->by_rank = by_rank;
    order->first = order->end = event + events;
    order->end->at_ps = EMU_NEVER;
}

/** emu_order_next_ps - return the time of the earliest event; EMU_NEVER if there is none. */
static inline uint64_t emu_order_next_ps(const struct emu_order *order)
{
    return order->first->at_ps;
}

/**
 * emu_order_tie_rank - return the rank of @port among ports that compete at @time. The lowest rank
 * comes first. It is a hash of both, so that each port of any set is first equally often. Pure.
 */
static inline uint64_t emu_order_tie_rank(uint64_t time, uint64_t port)
{
    return emu_hash(time ^ port << 57 ^ port >> 7);
}

/*
 * The rare cases of emu_order_add(): the array has no free space at the end (front or back) at
 * which the event would be added, or the event is simultaneous with the earliest.
 */
void emu_order_add_else(struct emu_order *order, uint64_t at_ps, uint32_t port);

/*
 * Insert an event at @at or, if it outranks simultaneous events directly before @at, before these.
 */
void emu_order_put(struct emu_order *order, struct emu_order_event *at, uint64_t at_ps,
                   uint32_t port);

/* Insert an event that does not come first. There must be space after the last event. */
static inline void emu_order_insert(struct emu_order *order, uint64_t at_ps, uint32_t port)
{
    struct emu_order_event *at = order->end++;

    order->end->at_ps = EMU_NEVER;
    for (; at_ps < at[-1].at_ps; at--)
        *at = at[-1];
    if (__builtin_expect(at_ps == at[-1].at_ps, 0)) {
        emu_order_put(order, at, at_ps, port);
        return;
    }
    at->at_ps = at_ps;
    at->port = port;
}

/**
 * emu_order_add - add an event; a port may have only one. The rare cases are in a tail call, so
 * that the common case need not save registers.
 */
static inline void emu_order_add(struct emu_order *order, uint64_t at_ps, uint32_t port)
{
    bool leads = at_ps < order->first->at_ps;

    if (leads && __builtin_expect(order->first != order->event, 1))
        *--order->first = (struct emu_order_event){.at_ps = at_ps, .port = port};
    else if (!leads && __builtin_expect(order->end != order->last, 1) &&
             __builtin_expect(at_ps != order->first->at_ps, 1))
        emu_order_insert(order, at_ps, port);
    else
        emu_order_add_else(order, at_ps, port);
}

/** emu_order_take - remove the earliest event and return it. There must be one. */
static inline struct emu_order_event emu_order_take(struct emu_order *order)
{
    return *order->first++;
}

/** emu_order_drop - remove the event of @port, if there is one. */
static inline void emu_order_drop(struct emu_order *order, uint32_t port)
{
    struct emu_order_event *at = order->first;

    while (at != order->end && at->port != port)
        at++;
    if (at == order->end)
        return;
    memmove(at, at + 1, (size_t)(order->end - at) * sizeof *at);
    order->end--;
}

static inline void emu_order_rebase(struct emu_order *order, uint64_t by_ps)
{
    for (struct emu_order_event *at = order->first; at != order->end; at++)
        at->at_ps = emu_rebased_ps(at->at_ps, by_ps);
}

#endif
