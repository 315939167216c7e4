/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h - single-producer single-consumer ring of descriptors.
 *
 * One ring is one direction of one cable: segments one way, or the credits
 * for them the other way. A producer writes any number of entries and shows
 * them at once; a consumer reads any number and gives the room back at once.
 * Rejected: blocking when full. Full is back-pressure; the caller decides.
 */
#ifndef EMU_RING_H
#define EMU_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/seg.h"

/* A descriptor: the header travels with it, the payload stays in a pool buffer. */
struct emu_entry {
    uint64_t time_ps; /* when the head of the segment, or the credit, is at the far end */
    struct emu_hdr hdr;
    uint32_t buf; /* pool buffer with the payload, or EMU_NO_BUF */
    union {
        uint32_t born_ns; /* data: when the adapter posted it, low 32 bits */
        uint32_t credits; /* credit ring: how many come back */
    };
};
static_assert(sizeof(struct emu_entry) == 32, "two descriptors a line");

struct emu_ring {
    /* Written by the producer; the consumer reads tail. */
    alignas(EMU_LINE) _Atomic uint32_t tail; /* entries shown, free-running */
    uint32_t filled;                         /* entries written: shown, or about to be */
    uint32_t head_seen;                      /* copy of head: lags, never leads */

    /* Written by the consumer; the producer reads head. */
    alignas(EMU_LINE) _Atomic uint32_t head; /* entries given back, free-running */
    uint32_t taken;                          /* entries read: given back, or about to be */
    uint32_t tail_seen;                      /* copy of tail: lags, never leads */

    /* Written once, before either thread starts. */
    alignas(EMU_LINE) uint32_t mask; /* slots - 1; slots is a power of two */
    struct emu_entry *entry;
};
static_assert(offsetof(struct emu_ring, head) == EMU_LINE, "one writer per line");

/**
 * emu_ring_create - a ring with at least @slots slots (rounded up to a power of two).
 * Returns NULL without memory. Thread: any, before the ring is shared.
 */
struct emu_ring *emu_ring_create(uint32_t slots);
void emu_ring_destroy(struct emu_ring *ring);

/** emu_ring_bytes - memory that a ring of @slots slots takes. Pure. */
size_t emu_ring_bytes(uint32_t slots);

/**
 * emu_ring_fill - the next free slot to write, or NULL when the ring is full.
 * The entry is not shown before emu_ring_show(). Thread: producer. Wait-free.
 *
 * R1 pairs with R4: a head past a slot means that the consumer has finished
 * with it, so we may overwrite. A stale head_seen can refuse, never overwrite:
 * it is refreshed only when it says full.
 */
static inline struct emu_entry *emu_ring_fill(struct emu_ring *ring)
{
    uint32_t at = ring->filled;

    if (at - ring->head_seen > ring->mask) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire); /* R1 */
        if (at - ring->head_seen > ring->mask)
            return NULL;
    }
    ring->filled = at + 1;
    return &ring->entry[at & ring->mask];
}

/** emu_ring_show - show all written entries. Once a burst. Thread: producer. R2 pairs with R3: who sees tail sees the entries. */
static inline void emu_ring_show(struct emu_ring *ring)
{
    atomic_store_explicit(&ring->tail, ring->filled, memory_order_release); /* R2 */
}

/**
 * emu_ring_front - the oldest entry not yet skipped, or NULL. Thread: consumer.
 * R3 pairs with R2; tail is read only when the copy says empty.
 */
static inline const struct emu_entry *emu_ring_front(struct emu_ring *ring)
{
    if (ring->taken == ring->tail_seen) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire); /* R3 */
        if (ring->taken == ring->tail_seen)
            return NULL;
    }
    return &ring->entry[ring->taken & ring->mask];
}

/** emu_ring_skip - done with the front entry. Thread: consumer. */
static inline void emu_ring_skip(struct emu_ring *ring)
{
    ring->taken++;
}

/** emu_ring_give_back - give the room of all skipped entries back. Once a burst. Thread: consumer. R4 pairs with R1. */
static inline void emu_ring_give_back(struct emu_ring *ring)
{
    atomic_store_explicit(&ring->head, ring->taken, memory_order_release); /* R4 */
}

/** emu_ring_push - write and show one entry; false when full, and then nothing changed. */
static inline bool emu_ring_push(struct emu_ring *ring, const struct emu_entry *entry)
{
    struct emu_entry *slot = emu_ring_fill(ring);

    if (!slot)
        return false;
    *slot = *entry;
    emu_ring_show(ring);
    return true;
}

/** emu_ring_pop - copy out the oldest entry and give its room back; false when empty. */
static inline bool emu_ring_pop(struct emu_ring *ring, struct emu_entry *ret)
{
    const struct emu_entry *front = emu_ring_front(ring);

    if (!front)
        return false;
    *ret = *front;
    emu_ring_skip(ring);
    emu_ring_give_back(ring);
    return true;
}

#endif
