/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.h - events of a switch, the earliest first.
 *
 * At most one event an input or an output, so at most 64. A sorted ring: what
 * becomes due at once goes to the front, what waits for the wire mostly to the
 * end, and little has to move. Equal times keep the order of their ranks.
 */
#ifndef SWITCH_ORDER_H
#define SWITCH_ORDER_H

#include <stdint.h>

#define ORDER_SLOTS 64u /* at most */

struct switch_event {
    uint64_t at_ps;
    uint32_t rank; /* among events at the same time */
    uint32_t port; /* row or output */
};

struct switch_order {
    uint32_t first; /* free-running */
    uint32_t end;   /* one past the last */
    uint32_t mask;  /* slots - 1; slots is a power of two */
    struct switch_event *event;
};

static inline struct switch_event *order_at(const struct switch_order *order, uint32_t i)
{
    return &order->event[i & order->mask];
}

/** order_empty - is there no event? */
static inline bool order_empty(const struct switch_order *order)
{
    return order->first == order->end;
}

/** order_next_ps - the time of the earliest event; EMU_NEVER if there is none. */
static inline uint64_t order_next_ps(const struct switch_order *order)
{
    return order_empty(order) ? EMU_NEVER : order_at(order, order->first)->at_ps;
}

static inline bool order_before(const struct switch_event *a, const struct switch_event *b)
{
    return a->at_ps < b->at_ps || (a->at_ps == b->at_ps && a->rank < b->rank);
}

/** order_add - add an event. There is room: one a port. */
static inline void order_add(struct switch_order *order, uint64_t at_ps, uint32_t rank,
                             uint32_t port)
{
    struct switch_event event = {.at_ps = at_ps, .rank = rank, .port = port};
    uint32_t at = order->end;

    if (order->first != at && order_before(&event, order_at(order, order->first))) {
        *order_at(order, --order->first) = event;
        return;
    }
    for (; at != order->first && order_before(&event, order_at(order, at - 1)); at--)
        *order_at(order, at) = *order_at(order, at - 1);
    *order_at(order, at) = event;
    order->end++;
}

/** order_take - take the earliest event. There is one. */
static inline struct switch_event order_take(struct switch_order *order)
{
    return *order_at(order, order->first++);
}

/** order_drop - take the event of @port, if there is one. */
static inline void order_drop(struct switch_order *order, uint32_t port)
{
    uint32_t at = order->first;

    while (at != order->end && order_at(order, at)->port != port)
        at++;
    if (at == order->end)
        return;
    for (order->end--; at != order->end; at++)
        *order_at(order, at) = *order_at(order, at + 1);
}

#endif
