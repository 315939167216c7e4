/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * relay.h - multicasts that nodes execute without the help of switches: each node that has the
 * message sends copies of it to other nodes. This file contains the tree along which copies are
 * sent, and a node's queue of messages to forward.
 *
 * Each node of a destination set has a *position* in the tree: the source has 0, and the
 * destinations have 1, 2, ... in the order of the set. A node that has received the whole message
 * sends it to its children, one after the other. A queue grows only while the workers are stopped,
 * so that a step allocates no memory.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_RELAY_H
#define APPS_TRAFFIC_WORKLOAD_RELAY_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define TRAFFIC_TREE_BINOMIAL 0u
#define TRAFFIC_TREE_FLAT     UINT32_MAX /* the source sends all copies */

/**
 * traffic_tree_next - return the child of @position that follows @child, or the first child if
 * @child is 0. Returns 0 if there is no further child. @arity: maximum number of children of a
 * position, or TRAFFIC_TREE_*. @last: the last position of the tree. Pure.
 *
 * In a binomial tree, step i doubles the number of nodes with the message, from 2^i to 2^(i+1).
 */
static inline uint32_t traffic_tree_next(uint32_t arity, uint32_t position, uint32_t child,
                                         uint32_t last)
{
    uint64_t next;

    if (arity == TRAFFIC_TREE_BINOMIAL) {
        unsigned bits = position ? 32u - (unsigned)__builtin_clz(position) : 0;
        next = position + (child ? 2 * (uint64_t)(child - position) : (uint64_t)1 << bits);
    } else {
        uint64_t first = (uint64_t)arity * position + 1;
        next = child ? (uint64_t)child + 1 : first;
        if (next - first >= arity)
            return 0;
    }
    return next <= last ? (uint32_t)next : 0;
}

/* A message that a node forwards. */
struct traffic_relay_item {
    uint64_t birth_ps;
    uint64_t ready_ps; /* when its last segment arrived */
    uint32_t set;
    uint32_t position; /* position of this node in the tree */
    uint32_t child;    /* position of the next receiver */
};

/* A first-in first-out queue. */
struct traffic_relay {
    struct traffic_relay_item *item; /* ring of mask + 1 items */
    uint32_t mask;
    uint32_t at; /* index of the first item */
    uint32_t count;
    uint32_t left; /* number of segments of the first item's current copy that are left to send */
    /*
     * copies that are left to send. Each adds 2^32 / (number of destinations of its message), so
     * 2^32 stands for a whole multicast
     */
    uint64_t waiting;
    bool full; /* an item was lost because there was no space */
};

static inline struct traffic_relay_item *traffic_relay_front(struct traffic_relay *relay)
{
    return relay->count ? &relay->item[relay->at & relay->mask] : NULL;
}

static inline void traffic_relay_add(struct traffic_relay *relay,
                                     const struct traffic_relay_item *item)
{
    relay->full |= !relay->item || relay->count > relay->mask;
    if (!relay->full)
        relay->item[(relay->at + relay->count++) & relay->mask] = *item;
}

static inline void traffic_relay_skip(struct traffic_relay *relay)
{
    relay->at++;
    relay->count--;
}

/**
 * traffic_relay_reserve - make room for @more items. Call it while the workers are stopped. Errors:
 * -ENOMEM.
 */
static inline int traffic_relay_reserve(struct traffic_relay *relay, uint32_t more)
{
    uint64_t wanted = (uint64_t)relay->count + more;
    uint64_t capacity = relay->item ? (uint64_t)relay->mask + 1 : 64;
    struct traffic_relay_item *item;

    if (relay->item && capacity >= wanted)
        return 0;
    while (capacity < wanted)
        capacity *= 2;
    item = capacity <= UINT32_MAX ? malloc(capacity * sizeof item[0]) : NULL;
    if (!item)
        return -ENOMEM;
    for (uint32_t i = 0; i < relay->count; i++)
        item[i] = relay->item[(relay->at + i) & relay->mask];
    free(relay->item);
    relay->item = item;
    relay->mask = (uint32_t)(capacity - 1);
    relay->at = 0;
    return 0;
}

static inline void traffic_relay_release(struct traffic_relay *relay)
{
    free(relay->item);
    relay->item = NULL;
}

#endif
