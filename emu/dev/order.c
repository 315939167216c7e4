/* SPDX-License-Identifier: BSD-3-Clause */
/* order.c - order simultaneous events, and move events within their array. */
#include "emu/dev/order.h"

#include <string.h>

/* Return the rank of an event: its port or, with by_rank, a pseudo-random number. */
static uint64_t order_rank(const struct emu_order *order, uint64_t at_ps, uint64_t port)
{
    return order->by_rank ? emu_order_tie_rank(at_ps, port) : port;
}

/* Return whether an event of @port comes before @other, which has the same time. */
static bool order_outranks(const struct emu_order *order, uint64_t port,
                           const struct emu_order_event *other)
{
    return order_rank(order, other->at_ps, port) < order_rank(order, other->at_ps, other->port);
}

void emu_order_put(struct emu_order *order, struct emu_order_event *at, uint64_t at_ps,
                   uint32_t port)
{
    for (; at != order->first && at_ps == at[-1].at_ps && order_outranks(order, port, at - 1); at--)
        *at = at[-1];
    *at = (struct emu_order_event){.at_ps = at_ps, .port = port};
}

/* Move the events to the middle of the array. */
static void order_centre(struct emu_order *order)
{
    size_t events = (size_t)(order->end - order->first) + 1; /* including the sentinel */
    size_t room = (size_t)(order->last - order->event) + 1;
    struct emu_order_event *first = order->event + (room - events) / 2;

    memmove(first, order->first, events * sizeof *first);
    order->first = first;
    order->end = first + events - 1;
}

void emu_order_add_else(struct emu_order *order, uint64_t at_ps, uint32_t port)
{
    if (order->first == order->event || order->end == order->last)
        order_centre(order);
    if (at_ps < order->first->at_ps ||
        (at_ps == order->first->at_ps && order_outranks(order, port, order->first)))
        *--order->first = (struct emu_order_event){.at_ps = at_ps, .port = port};
    else
        emu_order_insert(order, at_ps, port);
}
