/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.h - events of a device, the earliest first.
 *
 * At most one event a port (a row, an output, a link). A sorted run in an array with room
 * on both sides: what becomes due at once goes to the front, what waits for the
 * wire mostly to the end, and little has to move. Behind the last stands one
 * that never comes. Who is first at one and the same time is for emu_order_rank()
 * to say.
 */
#ifndef EMU_ORDER_H
#define EMU_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "emu/clock.h"
#include "emu/random.h"

struct emu_order_event {
    uint64_t at_ps;
    uint64_t port; /* whose it is */
};

struct emu_order {
    struct emu_order_event *first;
    struct emu_order_event *end;   /* one past the last */
    struct emu_order_event *event; /* EMU_ORDER_ROOM(events at most) */
    uint32_t room;
    bool by_turn; /* ties: see emu_order_rank() */
};

#define EMU_ORDER_ROOM(events) (3 * (events) + 2)

/**
 * emu_order_init - an empty order, of @events events at most. @event: EMU_ORDER_ROOM(@events) of
 * them.
 */
static inline void emu_order_init(struct emu_order *order, struct emu_order_event *event,
                                  uint32_t events, bool by_turn)
{
    order->event = event;
    order->room = EMU_ORDER_ROOM(events);
    order->by_turn = by_turn;
    order->first = order->end = event + events;
    order->end->at_ps = EMU_NEVER;
}

/** emu_order_next_ps - the time of the earliest event; EMU_NEVER if there is none. */
static inline uint64_t emu_order_next_ps(const struct emu_order *order)
{
    return order->first->at_ps;
}

/**
 * emu_order_turn - a rank for port @port at @time: of several ports that compete, the one with
 * the lowest goes first. Drawn by time and port, so that of any set of ports each is first as
 * often as any other. Pure.
 */
static inline uint64_t emu_order_turn(uint64_t time, uint64_t port)
{
    return emu_hash(time ^ port << 57);
}

/*
 * Who is first among events at the same time: the lower port, or, for those
 * that compete, in a turn that the time itself draws.
 */
static inline uint64_t emu_order_rank(const struct emu_order *order,
                                      const struct emu_order_event *event)
{
    return order->by_turn ? emu_order_turn(event->at_ps, event->port) : event->port;
}

static inline bool emu_order_before(const struct emu_order *order, const struct emu_order_event *a,
                                    const struct emu_order_event *b)
{
    if (__builtin_expect(a->at_ps != b->at_ps, 1)) /* most are not at the same time */
        return a->at_ps < b->at_ps;
    return emu_order_rank(order, a) < emu_order_rank(order, b);
}

/* One side is used up: back to the middle. */
static inline void emu_order_centre(struct emu_order *order)
{
    size_t events = (size_t)(order->end - order->first) + 1; /* and the one that never comes */
    struct emu_order_event *first = order->event + (order->room - events) / 2;

    memmove(first, order->first, events * sizeof *first);
    order->first = first;
    order->end = first + events - 1;
}

/** emu_order_add - add an event. There is room: one a port. */
static inline void emu_order_add(struct emu_order *order, uint64_t at_ps, uint32_t port)
{
    struct emu_order_event event = {.at_ps = at_ps, .port = port};
    struct emu_order_event *at;

    if (order->first == order->event || order->end + 1 == order->event + order->room)
        emu_order_centre(order);
    if (emu_order_before(order, &event, order->first)) {
        *--order->first = event;
        return;
    }
    at = order->end++;
    *order->end = *at;
    for (; at != order->first && emu_order_before(order, &event, at - 1); at--)
        *at = at[-1];
    *at = event;
}

/** emu_order_take - take the earliest event. There is one. */
static inline struct emu_order_event emu_order_take(struct emu_order *order)
{
    return *order->first++;
}

/** emu_order_drop - take the event of @port, if there is one. */
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

/** emu_order_rebase - the clock is rebased by @by_ps. */
static inline void emu_order_rebase(struct emu_order *order, uint64_t by_ps)
{
    for (struct emu_order_event *at = order->first; at != order->end; at++)
        at->at_ps = emu_rebased_ps(at->at_ps, by_ps);
}

#endif
