/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h - single-producer single-consumer ring of descriptors.
 *
 * One ring is one direction of one cable: segments one way, or the credits
 * for them the other way. A slot says itself whether it is full, so the two
 * sides share nothing but the slots: a segment moves with the one line that it
 * lies in, and a ring of four slots is two lines. Each side keeps its own place
 * in an end of its own.
 * Rejected: shared head and tail indexes. They cost each side two lines more,
 * and a simulated switch touches its lines only once in a while.
 * Rejected: blocking when full. Full is back-pressure; the caller decides.
 */
#ifndef EMU_RING_H
#define EMU_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/packet/packet.h"
#include "emu/link/seg.h"

/* A descriptor: the header travels with it, the payload stays in a pool buffer. */
struct emu_entry {
    uint64_t time_ps : 63; /* when the head of the segment is at the far end */
    uint64_t full : 1;     /* in a ring: written, and not yet taken; elsewhere without meaning */
    union {
        struct emu_hdr hdr;
        struct emu_packet_hdr packet; /* on cables with channels */
    };
    uint32_t buf;     /* pool buffer with the payload, or EMU_NO_BUF */
    uint32_t born_ns; /* when the adapter posted it, low 32 bits: only a report rests on them */
};
static_assert(sizeof(struct emu_entry) == 32, "two descriptors a line");

/* Credits on their way back. */
struct emu_credit {
    uint64_t time_ps : 63; /* when they are at the far end */
    uint64_t full : 1;     /* as in an entry */
    uint32_t count;
    uint32_t channel; /* cables with channels: of which; else 0 */
};
static_assert(sizeof(struct emu_credit) == 16, "those of a small cable share a line");

#define EMU_RING_FULL ((uint64_t)1 << 63) /* emu_entry.full, emu_credit.full, in its word */

/* One side's view of a ring; nobody else reads it. */
struct emu_ring_end {
    struct emu_entry *slot;
    uint32_t at;   /* entries pushed, or skipped, so far; free-running */
    uint32_t mask; /* slots - 1; slots is a power of two */
};

/* The same of a ring of credits. */
struct emu_credit_end {
    struct emu_credit *slot;
    uint32_t at;
    uint32_t mask;
};

/**
 * emu_ring_create - a ring with at least @slots slots (rounded up to a power of two), empty.
 * Returns false without memory. Thread: any, before the ends are shared out.
 */
bool emu_ring_create(struct emu_ring_end *producer, struct emu_ring_end *consumer, uint32_t slots);

/** emu_ring_destroy - by either end, once neither is used any more. */
void emu_ring_destroy(struct emu_ring_end *end);

/** emu_ring_bytes - memory that a ring of @slots slots takes. Pure. */
size_t emu_ring_bytes(uint32_t slots);

/** emu_credit_ring_create, emu_credit_ring_destroy, emu_credit_ring_bytes - the same for a ring of credits. */
bool emu_credit_ring_create(struct emu_credit_end *producer, struct emu_credit_end *consumer,
                        uint32_t slots);
void emu_credit_ring_destroy(struct emu_credit_end *end);
size_t emu_credit_ring_bytes(uint32_t slots);

/** emu_ring_turn_back, emu_credit_ring_turn_back - all times in it, less @by_ps. While both sides stand still. */
void emu_ring_turn_back(struct emu_ring_end *end, uint64_t by_ps);
void emu_credit_ring_turn_back(struct emu_credit_end *end, uint64_t by_ps);

/* The word of an entry that says whether it is full. */
static inline uint64_t *emu_ring_word(struct emu_entry *entry)
{
    return (uint64_t *)(void *)entry;
}

/**
 * emu_ring_put - copy one entry into a ring that has room, as the caller knows: on a cable a credit
 * says so, and came from the consumer after it had skipped the slot. Thread: producer. Wait-free.
 *
 * R2 pairs with R3: who sees the slot full sees the entry.
 */
static inline void emu_ring_put(struct emu_ring_end *end, const struct emu_entry *entry)
{
    struct emu_entry *slot = &end->slot[end->at++ & end->mask];

    __builtin_memcpy(&slot->hdr, &entry->hdr, sizeof(*slot) - offsetof(struct emu_entry, hdr));
    __atomic_store_n(emu_ring_word(slot), entry->time_ps | EMU_RING_FULL, __ATOMIC_RELEASE); /* R2 */
}

/**
 * emu_ring_push - copy one entry in. False when the ring is full, and then nothing changed.
 * Thread: producer. Wait-free.
 *
 * R1 pairs with R4: a slot that is not full has been read by the consumer, so we may overwrite.
 */
static inline bool emu_ring_push(struct emu_ring_end *end, const struct emu_entry *entry)
{
    struct emu_entry *slot = &end->slot[end->at & end->mask];

    if (__atomic_load_n(emu_ring_word(slot), __ATOMIC_ACQUIRE) & EMU_RING_FULL) /* R1 */
        return false;
    emu_ring_put(end, entry);
    return true;
}

/** emu_ring_front - the oldest entry, or NULL. Good until emu_ring_skip(). Thread: consumer. */
static inline const struct emu_entry *emu_ring_front(const struct emu_ring_end *end)
{
    struct emu_entry *slot = &end->slot[end->at & end->mask];

    if (__atomic_load_n(emu_ring_word(slot), __ATOMIC_ACQUIRE) & EMU_RING_FULL) /* R3 */
        return slot;
    return NULL;
}

/** emu_ring_skip - done with the front entry: its room is the producer's. Thread: consumer. */
static inline void emu_ring_skip(struct emu_ring_end *end)
{
    __atomic_store_n(emu_ring_word(&end->slot[end->at++ & end->mask]), 0, __ATOMIC_RELEASE); /* R4 */
}

/**
 * emu_credit_put - send @count credits that are at the far end at @at_ps. There is a slot for each
 * credit of the cable. Thread: producer. R2, as of an entry.
 */
static inline void emu_credit_put(struct emu_credit_end *end, uint32_t count, uint32_t channel,
                                  uint64_t at_ps)
{
    struct emu_credit *slot = &end->slot[end->at++ & end->mask];

    slot->count = count;
    slot->channel = channel;
    __atomic_store_n((uint64_t *)(void *)slot, at_ps | EMU_RING_FULL, __ATOMIC_RELEASE); /* R2 */
}

/** emu_credit_front - the credits that were sent first, or NULL. Thread: consumer. R3. */
static inline const struct emu_credit *emu_credit_front(const struct emu_credit_end *end)
{
    struct emu_credit *slot = &end->slot[end->at & end->mask];

    if (__atomic_load_n((uint64_t *)(void *)slot, __ATOMIC_ACQUIRE) & EMU_RING_FULL) /* R3 */
        return slot;
    return NULL;
}

/** emu_credit_skip - done with them. Thread: consumer. R4. */
static inline void emu_credit_skip(struct emu_credit_end *end)
{
    __atomic_store_n((uint64_t *)(void *)&end->slot[end->at++ & end->mask], 0,
                     __ATOMIC_RELEASE); /* R4 */
}

#endif
