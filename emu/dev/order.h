/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.h - a device's events, the earliest first.
 *
 * At most one event per port (a row, an output, a link). A sorted run in an array with space on
 * both sides: an event due immediately goes to the front, one that waits for the wire mostly near
 * the end, so few events move. A sentinel with time EMU_NEVER follows the last. order.c orders
 * simultaneous events.
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
    uint64_t port; /* of the event */
};

struct emu_order {
    struct emu_order_event *first;
    struct emu_order_event *end;   /* one past the last: the sentinel */
    struct emu_order_event *event; /* the array: EMU_ORDER_ROOM(events at most) */
    struct emu_order_event *last;  /* last element of the array */
    bool by_rank;                  /* rank simultaneous events by emu_order_tie_rank() */
};

#define EMU_ORDER_ROOM(events) (3 * (events) + 2)

/** emu_order_init - an empty order for @events events. @event: EMU_ORDER_ROOM(@events) of them. */
static inline void emu_order_init(struct emu_order *order, struct emu_order_event *event,
                                  uint32_t events, bool by_rank)
{
    order->event = event;
    order->last = event + EMU_ORDER_ROOM(events) - 1;
    order->by_rank = by_rank;
    order->first = order->end = event + events;
    order->end->at_ps = EMU_NEVER;
}

/** emu_order_next_ps - time of the earliest event; EMU_NEVER if there is none. */
static inline uint64_t emu_order_next_ps(const struct emu_order *order)
{
    return order->first->at_ps;
}

/**
 * emu_order_tie_rank - rank of @port among ports that compete at @time; the lowest goes first. A
 * hash of both, so that in any set of ports each is first equally often. Pure.
 */
static inline uint64_t emu_order_tie_rank(uint64_t time, uint64_t port)
{
    return emu_hash(time ^ port << 57 ^ port >> 7);
}

/* Slow path of emu_order_add(): no space on that side, or simultaneous with the earliest. */
void emu_order_add_else(struct emu_order *order, uint64_t at_ps, uint32_t port);

/* Put an event at @at, or before simultaneous events in front of it that rank lower. */
void emu_order_put(struct emu_order *order, struct emu_order_event *at, uint64_t at_ps,
                   uint32_t port);

/* Insert an event that is not the first. There is space. */
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

/** emu_order_add - add an event, at most one per port. The rare case is a tail call: fast. */
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

/** emu_order_take - remove the earliest event. There is one. */
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

/** emu_order_rebase - subtract @by_ps from all times. */
static inline void emu_order_rebase(struct emu_order *order, uint64_t by_ps)
{
    for (struct emu_order_event *at = order->first; at != order->end; at++)
        at->at_ps = emu_rebased_ps(at->at_ps, by_ps);
}

#endif
