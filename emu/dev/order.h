/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.h - events of a device, the earliest first.
 *
 * At most one event a port (a row, an output, a link). A sorted run in an array with room
 * on both sides: what becomes due at once goes to the front, what waits for the
 * wire mostly to the end, and little has to move. Behind the last stands one
 * that never comes. Who is first at one and the same time is for order.c to say.
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
    uint64_t port; /* whose it is */
};

struct emu_order {
    struct emu_order_event *first;
    struct emu_order_event *end;   /* one past the last */
    struct emu_order_event *event; /* EMU_ORDER_ROOM(events at most) */
    struct emu_order_event *last;  /* of these */
    bool by_turn;                  /* ties: see order.c */
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
    order->last = event + EMU_ORDER_ROOM(events) - 1;
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
    return emu_hash(time ^ port << 57 ^ port >> 7);
}

/*
 * order.c: emu_order_add() where there is no room on the side where it is needed, or the earliest
 * event is at the same time.
 */
void emu_order_add_else(struct emu_order *order, uint64_t at_ps, uint32_t port);

/* order.c: put an event at @at, or before those in front of it that are at the same time. */
void emu_order_put(struct emu_order *order, struct emu_order_event *at, uint64_t at_ps,
                   uint32_t port);

/* Put an event behind the first one, where it belongs. There is room. */
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
 * emu_order_add - add an event. There is room: one a port. What is seldom is called at the very
 * end: so no register is saved for it.
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
