/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * list.h - the two kinds of lists of an engine. Its worker is their only user. Neither allocates
 * memory.
 *
 * struct engine_list: a list of objects of one array (packets, incoming packets). An object is in
 * one list at a time, and can be removed from the middle of the list. The links are 16-bit indexes
 * in a separate array, 4 bytes per object, so that a walk along a list touches few cache lines.
 * ENGINE_NONE is no index.
 *
 * struct engine_queue: a first-in, first-out queue of other objects (conditionals, results of
 * collectives). The link is the first member of an object, which does not record its queue.
 */
#ifndef NIC_ENGINE_LIST_H
#define NIC_ENGINE_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- by index ----------------------------------------------------------------------- */

#define ENGINE_NONE UINT16_MAX

struct engine_join {
    uint16_t next;
    uint16_t prev;
};

struct engine_list {
    uint16_t first; /* ENGINE_NONE: empty */
    uint16_t last;
};

static inline void engine_list_init(struct engine_list *list)
{
    *list = (struct engine_list){ENGINE_NONE, ENGINE_NONE};
}

static inline bool engine_list_empty(const struct engine_list *list)
{
    return list->first == ENGINE_NONE;
}

/* Insert @i behind @prev, or at the front if @prev is ENGINE_NONE. */
static inline void engine_list_insert(struct engine_list *list, struct engine_join *join,
                                      uint16_t prev, uint16_t i)
{
    uint16_t next = prev == ENGINE_NONE ? list->first : join[prev].next;

    join[i] = (struct engine_join){.next = next, .prev = prev};
    *(prev == ENGINE_NONE ? &list->first : &join[prev].next) = i;
    *(next == ENGINE_NONE ? &list->last : &join[next].prev) = i;
}

static inline void engine_list_add(struct engine_list *list, struct engine_join *join, uint16_t i)
{
    engine_list_insert(list, join, list->last, i);
}

static inline void engine_list_drop(struct engine_list *list, struct engine_join *join, uint16_t i)
{
    uint16_t next = join[i].next, prev = join[i].prev;

    *(prev == ENGINE_NONE ? &list->first : &join[prev].next) = next;
    *(next == ENGINE_NONE ? &list->last : &join[next].prev) = prev;
}

/* --- by pointer, first in, first out ------------------------------------------------ */

struct engine_queued {
    struct engine_queued *next; /* NULL: last */
};

struct engine_queue {
    struct engine_queued *first; /* NULL: empty */
    struct engine_queued *last;  /* undefined if empty */
};

static inline bool engine_queue_empty(const struct engine_queue *queue)
{
    return !queue->first;
}

static inline void engine_queue_add(struct engine_queue *queue, struct engine_queued *at)
{
    at->next = NULL;
    *(queue->first ? &queue->last->next : &queue->first) = at;
    queue->last = at;
}

static inline void engine_queue_push(struct engine_queue *queue, struct engine_queued *at)
{
    if (!queue->first)
        queue->last = at;
    at->next = queue->first;
    queue->first = at;
}

/* Remove and return the first object. The queue must not be empty. */
static inline struct engine_queued *engine_queue_pop(struct engine_queue *queue)
{
    struct engine_queued *at = queue->first;

    assert(at);
    queue->first = at->next;
    return at;
}

#endif
