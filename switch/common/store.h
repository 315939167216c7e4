/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store.h - the segments that a switch holds: one pool of slots, and queues, which are linked lists
 * of slots. The switch's worker owns all data.
 *
 * The slot that was freed last is used first, so that a switch that holds few segments touches
 * little memory.
 */
#ifndef SWITCH_STORE_H
#define SWITCH_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/buffer/ring.h"
#include "switch/common/device.h"

#if EMU_PORT_WORDS == 1
typedef uint16_t switch_slot;
#define SWITCH_NO_SLOT UINT16_MAX
#else
typedef uint32_t switch_slot;
#define SWITCH_NO_SLOT UINT32_MAX
#endif

/* A queue: the slots of its oldest and its latest segment, which are invalid if it is empty. */
struct switch_list {
    switch_slot first;
    switch_slot last;
};

static_assert(SWITCH_SEGMENTS_MAX <= SWITCH_NO_SLOT, "each slot has a number");

struct switch_store {
    struct emu_entry *slot; /* one for each segment that the switch can hold */
    /* for each slot: the next slot in its queue, or in the list of free slots */
    switch_slot *next;
    uint32_t free;  /* first of the list of freed slots; SWITCH_NO_SLOT: none */
    uint32_t fresh; /* this slot and all later slots were never used */
};

/* store.c: initialize an empty store. False: no memory. Call switch_store_free() in either case. */
bool switch_store_init(struct switch_store *store, uint32_t slots);
void switch_store_free(struct switch_store *store);
size_t switch_store_bytes(uint32_t slots);

void switch_store_rebase(struct switch_store *store, uint64_t by_ps);

/*
 * store.c: check that each slot is free or is one of the @held slots in queues. Returns an error or
 * NULL.
 */
const char *switch_store_check(const struct switch_store *store, uint64_t held);

/* store.c: return how many pool buffers the @count segments of a queue refer to. */
uint32_t switch_store_bufs(const struct switch_store *store, const struct switch_list *queue,
                           uint32_t count);

/* store.c: return whether one of the @count segments of a queue belongs to group @id. */
bool switch_store_holds(const struct switch_store *store, const struct switch_list *queue,
                        uint32_t count, uint32_t id);

/* Take a free slot. There must be one. */
static inline uint32_t switch_slot_take(struct switch_store *store)
{
    uint32_t slot = store->free;

    if (slot == SWITCH_NO_SLOT)
        return store->fresh++;
    store->free = store->next[slot];
    return slot;
}

/* Prefetch the cache lines of the slot that will be taken next; see emu_fetch_fn. */
static inline void switch_slot_fetch(const struct switch_store *store)
{
    uint32_t slot = store->free == SWITCH_NO_SLOT ? store->fresh : store->free;

    emu_fetch_line(&store->slot[slot]);
    emu_fetch_line(&store->next[slot]);
}

/*
 * Append a segment to a queue of @count segments. Returns its slot. A branch on whether the queue
 * is empty would often be mispredicted, and a hop would take 3 to 4 % longer (clock raw, uniform
 * traffic). So there is no branch, and the empty asm statements keep the compiler from making one.
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
 * Remove the oldest segment of a queue, which must not be empty. Returns its slot, which is free
 * but stays readable until the next segment is appended to any queue of the switch.
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
