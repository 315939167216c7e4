/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.h - events of a switch, the earliest first.
 *
 * At most one event an input or an output. A sorted run in an array with room
 * on both sides: what becomes due at once goes to the front, what waits for the
 * wire mostly to the end, and little has to move. Behind the last stands one
 * that never comes. Who is first at one and the same time is for order_rank()
 * to say.
 */
#ifndef SWITCH_ORDER_H
#define SWITCH_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "emu/clock.h"

struct switch_event {
    uint64_t at_ps;
    uint64_t port; /* row or output */
};

struct switch_order {
    struct switch_event *first;
    struct switch_event *end;   /* one past the last */
    struct switch_event *event; /* ORDER_ROOM(events at most) */
    uint32_t room;
    bool by_turn; /* ties: see order_rank() */
};

#define ORDER_ROOM(events) (3 * (events) + 2)

/** order_init - an empty order of at most @events events. @event: ORDER_ROOM(@events), the caller's. */
static inline void order_init(struct switch_order *order, struct switch_event *event,
                              uint32_t events, bool by_turn)
{
    order->event = event;
    order->room = ORDER_ROOM(events);
    order->by_turn = by_turn;
    order->first = order->end = event + events;
    order->end->at_ps = EMU_NEVER;
}

/** order_next_ps - the time of the earliest event; EMU_NEVER if there is none. */
static inline uint64_t order_next_ps(const struct switch_order *order)
{
    return order->first->at_ps;
}

/**
 * order_turn - who is first of several that compete at the same @time: the lowest. Drawn by time
 * and port, so that of any set of ports each is first as often as any other. Pure.
 */
static inline uint64_t order_turn(uint64_t time, uint64_t port)
{
    uint64_t turn = (time ^ port << 57) * 0x9e3779b97f4a7c15u;

    turn = (turn ^ turn >> 32) * 0xd6e8feb86659fd93u;
    return turn ^ turn >> 32;
}

/*
 * Who is first among events at the same time: the lower port, or, for those
 * that compete, in a turn that the time itself draws.
 */
static inline uint64_t order_rank(const struct switch_order *order,
                                  const struct switch_event *event)
{
    return order->by_turn ? order_turn(event->at_ps, event->port) : event->port;
}

static inline bool order_before(const struct switch_order *order, const struct switch_event *a,
                                const struct switch_event *b)
{
    if (__builtin_expect(a->at_ps != b->at_ps, 1)) /* most are not at the same time */
        return a->at_ps < b->at_ps;
    return order_rank(order, a) < order_rank(order, b);
}

/* One side is used up: back to the middle. */
static inline void order_centre(struct switch_order *order)
{
    size_t events = (size_t)(order->end - order->first) + 1; /* and the one that never comes */
    struct switch_event *first = order->event + (order->room - events) / 2;

    memmove(first, order->first, events * sizeof(*first));
    order->first = first;
    order->end = first + events - 1;
}

/** order_add - add an event. There is room: one a port. */
static inline void order_add(struct switch_order *order, uint64_t at_ps, uint32_t port)
{
    struct switch_event event = {.at_ps = at_ps, .port = port};
    struct switch_event *at;

    if (order->first == order->event || order->end + 1 == order->event + order->room)
        order_centre(order);
    if (order_before(order, &event, order->first)) {
        *--order->first = event;
        return;
    }
    at = order->end++;
    *order->end = *at;
    for (; at != order->first && order_before(order, &event, at - 1); at--)
        *at = at[-1];
    *at = event;
}

/** order_take - take the earliest event. There is one. */
static inline struct switch_event order_take(struct switch_order *order)
{
    return *order->first++;
}

/** order_drop - take the event of @port, if there is one. */
static inline void order_drop(struct switch_order *order, uint32_t port)
{
    struct switch_event *at = order->first;

    while (at != order->end && at->port != port)
        at++;
    if (at == order->end)
        return;
    memmove(at, at + 1, (size_t)(order->end - at) * sizeof(*at));
    order->end--;
}

#endif
