/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store.h - the segments that a switch holds: one pool of slots, and queues that are lists in it.
 *
 * The slot freed last is used first, so a switch that holds few segments touches little memory. The
 * switch's worker owns all of it.
 */
#ifndef SWITCH_STORE_H
#define SWITCH_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/buffer/ring.h"
#include "switch/common/device.h"

/* The number of a slot. */
#if EMU_PORT_WORDS == 1
typedef uint16_t switch_slot;
#define SWITCH_NO_SLOT UINT16_MAX
#else
typedef uint32_t switch_slot;
#define SWITCH_NO_SLOT UINT32_MAX
#endif

/* The slots of a queue's oldest and latest segment; invalid while it is empty. */
struct switch_list {
    switch_slot first;
    switch_slot last;
};

static_assert(SWITCH_SEGMENTS_MAX <= SWITCH_NO_SLOT, "a number for each slot");

struct switch_store {
    struct emu_entry *slot; /* as many as the switch can hold segments */
    switch_slot *next;      /* by slot: the next slot in its queue, or in the list of free slots */
    uint32_t free;          /* head of the list of freed slots */
    uint32_t fresh;         /* slots from here on were never used */
};

/* store.c: init an empty store; false: no memory; switch_store_free() in any case. */
bool switch_store_init(struct switch_store *store, uint32_t slots);
void switch_store_free(struct switch_store *store);
size_t switch_store_bytes(uint32_t slots);

void switch_store_rebase(struct switch_store *store, uint64_t by_ps);

/* store.c: is each slot free or one of @held in queues? Returns an error, or NULL. */
const char *switch_store_check(const struct switch_store *store, uint64_t held);

/* store.c: references to pool buffers of a queue of @count segments. */
uint32_t switch_store_bufs(const struct switch_store *store, const struct switch_list *queue,
                           uint32_t count);

/* store.c: is a segment of group @id in a queue of @count segments? */
bool switch_store_holds(const struct switch_store *store, const struct switch_list *queue,
                        uint32_t count, uint32_t id);

/* Take a free slot; there must be one. */
static inline uint32_t switch_slot_take(struct switch_store *store)
{
    uint32_t slot = store->free;

    if (slot == SWITCH_NO_SLOT)
        return store->fresh++;
    store->free = store->next[slot];
    return slot;
}

/* Prefetch the cache lines of the slot that is taken next, see emu_fetch_fn. */
static inline void switch_slot_fetch(const struct switch_store *store)
{
    uint32_t slot = store->free == SWITCH_NO_SLOT ? store->fresh : store->free;

    emu_fetch_line(&store->slot[slot]);
    emu_fetch_line(&store->next[slot]);
}

/*
 * Append a segment to a queue of @count segments. Returns its slot. A branch on whether the queue
 * is empty would be mispredicted often, so there is none; the empty asm statements keep the
 * compiler from making one. With it, on clock raw, uniform traffic, a hop would take 3 to 4 %
 * longer.
 */
static inline uint32_t switch_append(struct switch_store *store, struct switch_list *queue,
                                     uint32_t count, const struct emu_entry *entry)
{
    uint32_t slot = switch_slot_take(store);
    switch_slot *behind = &store->next[queue->last], *link = &queue->first;

    store->slot[slot] = *entry;
    __asm__("" : "+r"(behind));
    link = count ? behind : link;
    __asm__("" : "+r"(link));
    *link = (switch_slot)slot;
    queue->last = (switch_slot)slot;
    return slot;
}

/*
 * Remove the oldest segment of a queue that is not empty. Returns its slot, which is free but stays
 * readable until the next segment is appended anywhere in the switch.
 */
static inline uint32_t switch_remove(struct switch_store *store, struct switch_list *queue)
{
    uint32_t slot = queue->first;

    queue->first = store->next[slot];
    store->next[slot] = (switch_slot)store->free;
    store->free = slot;
    return slot;
}

#endif
