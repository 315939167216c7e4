/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h - a ring of descriptors with a single producer and a single consumer.
 *
 * A ring is one direction of a cable. It carries segments, or the credits of the opposite
 * direction. Each slot has its own full flag, so the two sides share nothing but slots. Each side
 * keeps its index private. Moving a segment moves the one cache line of its slot. A ring of four
 * slots occupies two cache lines.
 *
 * Rejected: shared head and tail indexes. Each side would use two more cache lines. These are
 * rarely in the cache, because a simulated switch is stepped only once in a while.
 * Rejected: waiting when the ring is full. A full ring is back-pressure, and the caller decides
 * what to do.
 */
#ifndef EMU_RING_H
#define EMU_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "emu/buffer/sparse.h"
#include "emu/packet/packet.h"
#include "emu/packet/seg.h"
#include "emu/util/clock.h"

/* A descriptor of a segment: its header, and the index of the pool buffer with its payload. */
struct emu_entry {
    union {
        struct {
            uint64_t time_ps : 63; /* when the head arrives at the input of the remote device */
            /* in a ring: the slot is full; unused elsewhere */
            uint64_t full : 1;
        };
        _Atomic uint64_t stamp; /* both fields, to be loaded and stored at once */
    };
    union {
        struct emu_hdr hdr;
        struct emu_packet_hdr packet; /* on cables with channels */
    };
    uint32_t buf; /* index of the pool buffer with the payload, or EMU_NO_BUF */
    union {
        uint32_t born_ns; /* when the segment was posted, low 32 bits; used only in reports */
        uint32_t crc;     /* cables with channels: CRC-32 of the packet, in its last segment */
        /* simulated nodes: a value of the sender's choice, which the network does not change */
        uint32_t note;
    };
};
static_assert(sizeof(struct emu_entry) == 32, "two descriptors per cache line");

/* Credits on their way back to the sender. */
struct emu_credit {
    union {
        struct {
            uint64_t time_ps : 63; /* when the credits arrive */
            uint64_t full : 1;     /* as in an entry */
        };
        _Atomic uint64_t stamp; /* as in an entry */
    };
    uint32_t count;
    uint32_t channel; /* cables with channels: the channel; else 0 */
};
static_assert(sizeof(struct emu_credit) == 16, "the credits of a small cable share a cache line");

#define EMU_RING_FULL ((uint64_t)1 << 63) /* the bit `full` in a stamp */

/*
 * In the ring of a fused cable (emu_link_join_fused()), the stamp of an empty slot says when the
 * slot's credit arrives: 1 + that time, or 0 if it is not known.
 */

/* Return the size of the memory of a ring's slots. Used only by EMU_RING(). */
static inline size_t emu_slots_bytes(uint32_t slots, size_t slot_bytes)
{
    size_t bytes = EMU_LINE; /* at least a whole line: two entries */

    while (bytes < slots * slot_bytes)
        bytes *= 2;
    return bytes;
}

/*
 * EMU_RING - define a ring of TYPE, a struct that begins with a stamp:
 *
 * struct NAME_end - one side of a ring, the producer's or the consumer's; private to that side.
 * NAME_bytes      - return the size of the memory of a ring with @slots slots. Pure.
 * NAME_create     - make an empty ring with at least @slots slots (rounded up to a power of two).
 *                   Returns false if there is no memory. Thread: any, before the ends are in use.
 * NAME_destroy    - free a ring; the argument is either of its ends. Both must be unused.
 * NAME_rebase     - subtract @by_ps from all times. Thread: any, while both sides are stopped.
 * NAME_slot       - return the current slot of a side. Thread: that side.
 * NAME_next       - return the current slot of a side, and advance. Thread: that side.
 *
 * For the producer, wait-free:
 * NAME_has_slot   - return whether the current slot is empty. R1 pairs with R4: a producer that
 *                   sees an empty slot knows that the consumer has finished reading it. On a cable
 *                   without channels a sender does not check, because its credit stands for an
 *                   empty slot.
 * NAME_publish    - publish @slot, whose fields except the stamp are filled. R2 pairs with R3.
 *
 * For the consumer, wait-free:
 * NAME_front      - return the oldest entry, or NULL. It is valid until NAME_skip(). R3 pairs with
 *                   R2: a consumer that sees that the slot is full sees the entry.
 * NAME_skip       - remove the oldest entry. R4 pairs with R1.
 */
#define EMU_RING(NAME, TYPE)                                                                     \
    struct NAME##_end {                                                                          \
        struct TYPE *slot;                                                                       \
        uint32_t at;   /* slots filled or emptied, free-running */                               \
        uint32_t mask; /* slots - 1; slots is a power of two */                                  \
    };                                                                                           \
                                                                                                 \
    static inline size_t NAME##_bytes(uint32_t slots)                                            \
    {                                                                                            \
        return emu_slots_bytes(slots, sizeof(struct TYPE));                                      \
    }                                                                                            \
                                                                                                 \
    static inline bool NAME##_create(struct NAME##_end *producer, struct NAME##_end *consumer,   \
                                     uint32_t slots)                                             \
    {                                                                                            \
        size_t bytes = NAME##_bytes(slots);                                                      \
        struct TYPE *slot = emu_sparse_alloc(bytes);                                             \
                                                                                                 \
        if (!slot)                                                                               \
            return false;                                                                        \
        *producer = *consumer =                                                                  \
            (struct NAME##_end){.slot = slot, .mask = (uint32_t)(bytes / sizeof *slot) - 1};     \
        return true;                                                                             \
    }                                                                                            \
                                                                                                 \
    static inline void NAME##_destroy(struct NAME##_end *end)                                    \
    {                                                                                            \
        emu_sparse_free(end->slot);                                                              \
        end->slot = NULL;                                                                        \
    }                                                                                            \
                                                                                                 \
    static inline void NAME##_rebase(struct NAME##_end *end, uint64_t by_ps)                     \
    {                                                                                            \
        for (uint32_t i = 0; i <= end->mask; i++)                                                \
            end->slot[i].time_ps = emu_rebased_ps(end->slot[i].time_ps, by_ps);                  \
    }                                                                                            \
                                                                                                 \
    static inline struct TYPE *NAME##_slot(const struct NAME##_end *end)                         \
    {                                                                                            \
        return &end->slot[end->at & end->mask];                                                  \
    }                                                                                            \
                                                                                                 \
    static inline struct TYPE *NAME##_next(struct NAME##_end *end)                               \
    {                                                                                            \
        return &end->slot[end->at++ & end->mask];                                                \
    }                                                                                            \
                                                                                                 \
    static inline bool NAME##_has_slot(const struct NAME##_end *end)                             \
    {                                                                                            \
        return !(atomic_load_explicit(&NAME##_slot(end)->stamp, memory_order_acquire) & /* R1 */ \
                 EMU_RING_FULL);                                                                 \
    }                                                                                            \
                                                                                                 \
    static inline void NAME##_publish(struct TYPE *slot, uint64_t time_ps)                       \
    {                                                                                            \
        atomic_store_explicit(&slot->stamp, time_ps | EMU_RING_FULL,                             \
                              memory_order_release); /* R2 */                                    \
    }                                                                                            \
                                                                                                 \
    static inline const struct TYPE *NAME##_front(const struct NAME##_end *end)                  \
    {                                                                                            \
        struct TYPE *slot = NAME##_slot(end);                                                    \
                                                                                                 \
        if (!slot)                                                                               \
            __builtin_unreachable();                                                             \
        if (atomic_load_explicit(&slot->stamp, memory_order_acquire) & EMU_RING_FULL) /* R3 */   \
            return slot;                                                                         \
        return NULL;                                                                             \
    }                                                                                            \
                                                                                                 \
    static inline void NAME##_skip(struct NAME##_end *end)                                       \
    {                                                                                            \
        atomic_store_explicit(&NAME##_next(end)->stamp, 0, memory_order_release); /* R4 */       \
    }

EMU_RING(emu_ring, emu_entry) /* segments, and replies on cables with channels */
EMU_RING(emu_credit, emu_credit)

/** emu_ring_after - return the slot after a side's current one. Thread: that side. */
static inline const struct emu_entry *emu_ring_after(const struct emu_ring_end *end)
{
    return &end->slot[(end->at + 1) & end->mask];
}

/** emu_ring_fill - fill the empty @slot with @entry, but with time @time_ps. Thread: producer. */
static inline void emu_ring_fill(struct emu_entry *slot, const struct emu_entry *entry,
                                 uint64_t time_ps)
{
    /* copy the pieces in which entries are written, so that the loads can use store forwarding */
    slot->hdr = entry->hdr;
    slot->buf = entry->buf;
    slot->born_ns = entry->born_ns;
    emu_ring_publish(slot, time_ps);
}

/** emu_ring_put_at - do emu_ring_put(), but with time @time_ps. */
static inline void emu_ring_put_at(struct emu_ring_end *end, const struct emu_entry *entry,
                                   uint64_t time_ps)
{
    emu_ring_fill(emu_ring_next(end), entry, time_ps);
}

/**
 * emu_ring_put - copy an entry into a ring. The ring must have an empty slot: emu_ring_has_slot()
 * has returned true, or the producer has a credit, which the consumer sends after it has emptied a
 * slot. Thread: producer. Wait-free.
 */
static inline void emu_ring_put(struct emu_ring_end *end, const struct emu_entry *entry)
{
    emu_ring_put_at(end, entry, entry->time_ps);
}

/**
 * emu_ring_credit_ps - fused: return when the credit for the producer's current slot arrives;
 * EMU_NEVER: not known. R1 pairs with R5: a producer that sees the credit knows that the consumer
 * has read the slot.
 */
static inline uint64_t emu_ring_credit_ps(const struct emu_ring_end *end)
{
    const struct emu_entry *slot = emu_ring_slot(end);
    uint64_t stamp = atomic_load_explicit(&slot->stamp, memory_order_acquire); /* R1 */

    return stamp - 1 < EMU_RING_FULL - 1 ? stamp - 1 : EMU_NEVER;
}

/**
 * emu_ring_grant - fused: give the credit of slot @at back to the producer; it arrives at @at_ps.
 * Thread: consumer.
 */
static inline void emu_ring_grant(const struct emu_ring_end *end, uint32_t at, uint64_t at_ps)
{
    struct emu_entry *slot = &end->slot[at & end->mask];

    atomic_store_explicit(&slot->stamp, at_ps + 1, memory_order_release); /* R5 */
}

/** emu_credit_fill - fill the empty @slot. Thread: producer. */
static inline void emu_credit_fill(struct emu_credit *slot, uint32_t count, uint32_t channel,
                                   uint64_t at_ps)
{
    slot->count = count;
    slot->channel = channel;
    emu_credit_publish(slot, at_ps);
}

/**
 * emu_credit_put - send @count credits that arrive at @at_ps. The ring must have an empty slot.
 * Thread: producer.
 */
static inline void emu_credit_put(struct emu_credit_end *end, uint32_t count, uint32_t channel,
                                  uint64_t at_ps)
{
    emu_credit_fill(emu_credit_next(end), count, channel, at_ps);
}

/** emu_credit_sum - return the credits in a ring. Thread: any, while both sides are stopped. */
static inline uint32_t emu_credit_sum(const struct emu_credit_end *producer,
                                      const struct emu_credit_end *consumer)
{
    uint32_t sum = 0;

    for (uint32_t at = consumer->at; at != producer->at; at++)
        sum += consumer->slot[at & consumer->mask].count;
    return sum;
}

#endif
