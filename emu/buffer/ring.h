/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h - single-producer single-consumer ring of descriptors.
 *
 * One ring is one direction of one cable: segments one way, or the credits
 * for them the other way. A slot says itself whether it is full, so the two
 * sides share nothing but the slots: a segment moves with the one line that it
 * lies in, and a ring of four slots is two lines. Each side keeps its own index
 * in an end of its own.
 * Rejected: shared head and tail indexes. They cost each side two lines more,
 * and a simulated switch touches its lines only once in a while.
 * Rejected: blocking when full. Full is back-pressure; the caller decides.
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

/* A descriptor: the header travels with it, the payload stays in a pool buffer. */
struct emu_entry {
    union {
        struct {
            uint64_t time_ps : 63; /* when the head of the segment is at the far end */
            /* in a ring: written, and not yet taken; elsewhere without meaning */
            uint64_t full : 1;
        };
        _Atomic uint64_t stamp; /* both, as the two sides of a ring see them */
    };
    union {
        struct emu_hdr hdr;
        struct emu_packet_hdr packet; /* on cables with channels */
    };
    uint32_t buf; /* pool buffer with the payload, or EMU_NO_BUF */
    union {
        uint32_t born_ns; /* when the adapter posted it, low 32 bits: only a report rests on them */
        uint32_t crc;     /* on cables with channels: a packet's CRC-32, with its last segment */
        uint32_t note;    /* between nodes inside the fabric: their own; the network carries it */
    };
};
static_assert(sizeof(struct emu_entry) == 32, "two descriptors a line");

/* Credits on their way back. */
struct emu_credit {
    union {
        struct {
            uint64_t time_ps : 63; /* when they are at the far end */
            uint64_t full : 1;     /* as in an entry */
        };
        _Atomic uint64_t stamp; /* as in an entry */
    };
    uint32_t count;
    uint32_t channel; /* cables with channels: of which; else 0 */
};
static_assert(sizeof(struct emu_credit) == 16, "those of a small cable share a line");

#define EMU_RING_FULL ((uint64_t)1 << 63) /* `full` in a stamp */

/*
 * Where the credits of a cable lie in the slots that they stand for (emu_link_join_fused()), the
 * stamp of an empty slot is a credit: 1 more than its time; 0 as long as there is none.
 */

/* Memory of a ring's slots: for EMU_RING() alone. */
static inline size_t emu_slots_bytes(uint32_t slots, size_t slot_bytes)
{
    size_t bytes = EMU_LINE; /* two slots at the least: a whole line */

    while (bytes < slots * slot_bytes)
        bytes *= 2;
    return bytes;
}

/*
 * EMU_RING - a ring of TYPE, which begins with a stamp:
 *
 * struct NAME_end - one side's view of a ring; nobody else reads it.
 * NAME_bytes      - memory that a ring of @slots slots takes. Pure.
 * NAME_create     - a ring with at least @slots slots (rounded up to a power of two), empty.
 *                   Returns false without memory. Thread: any, before the ends are shared out.
 * NAME_destroy    - by either end, once neither is used any more.
 * NAME_rebase     - all times in it, less @by_ps. Thread: any, while both sides stand still.
 * NAME_slot       - the slot at which a side is. NAME_next: the same, and on to the next one.
 *                   Thread: that side.
 *
 * The producer's, wait-free:
 * NAME_has_slot   - may its slot be filled? R1 pairs with R4: a slot that is not full has been read
 *                   by the consumer. On a cable a credit says so, and nobody looks.
 * NAME_show       - @slot is filled, but for its stamp; now it is the consumer's. R2 pairs with R3.
 *
 * The consumer's, wait-free:
 * NAME_front      - the oldest entry, or NULL; good until NAME_skip(). R3 pairs with R2: who sees
 *                   the slot full sees the entry.
 * NAME_skip       - done with the front entry: its room is the producer's. R4 pairs with R1.
 */
#define EMU_RING(NAME, TYPE)                                                                     \
    struct NAME##_end {                                                                          \
        struct TYPE *slot;                                                                       \
        uint32_t at;   /* slots filled, or emptied, so far; free-running */                      \
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
    static inline void NAME##_show(struct TYPE *slot, uint64_t time_ps)                          \
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

EMU_RING(emu_ring, emu_entry)    /* segments, and replies on cables with channels */
EMU_RING(emu_credit, emu_credit) /* credits */

/** emu_ring_after - the slot after the one at which a side is. Thread: that side. */
static inline const struct emu_entry *emu_ring_after(const struct emu_ring_end *end)
{
    return &end->slot[(end->at + 1) & end->mask];
}

/** emu_ring_fill - @slot, which is empty, says what @entry does, and @time_ps. Thread: producer. */
static inline void emu_ring_fill(struct emu_entry *slot, const struct emu_entry *entry,
                                 uint64_t time_ps)
{
    slot->hdr = entry->hdr; /* in the pieces in which an entry was made, or can be registers */
    slot->buf = entry->buf;
    slot->born_ns = entry->born_ns;
    emu_ring_show(slot, time_ps);
}

/** emu_ring_put_at - emu_ring_put() of an entry that is to say @time_ps there. */
static inline void emu_ring_put_at(struct emu_ring_end *end, const struct emu_entry *entry,
                                   uint64_t time_ps)
{
    emu_ring_fill(emu_ring_next(end), entry, time_ps);
}

/**
 * emu_ring_put - copy one entry into a ring that has room, as the caller knows: by
 * emu_ring_has_slot(), or on a cable by a credit, which came from the consumer after it had skipped
 * the slot.
 * Thread: producer. Wait-free.
 */
static inline void emu_ring_put(struct emu_ring_end *end, const struct emu_entry *entry)
{
    emu_ring_put_at(end, entry, entry->time_ps);
}

/**
 * emu_ring_credit_ps - fused: when the credit for the producer's next slot is there; EMU_NEVER: it
 * is not known. R1 pairs with R5: who sees it knows that the slot has been read.
 */
static inline uint64_t emu_ring_credit_ps(const struct emu_ring_end *end)
{
    const struct emu_entry *slot = emu_ring_slot(end);
    uint64_t stamp = atomic_load_explicit(&slot->stamp, memory_order_acquire); /* R1 */

    return stamp - 1 < EMU_RING_FULL - 1 ? stamp - 1 : EMU_NEVER;
}

/**
 * emu_ring_grant - fused: the credit for the @at th slot, which has been emptied, is at the far end
 * at @at_ps. Thread: consumer. Wait-free.
 */
static inline void emu_ring_grant(const struct emu_ring_end *end, uint32_t at, uint64_t at_ps)
{
    struct emu_entry *slot = &end->slot[at & end->mask];

    atomic_store_explicit(&slot->stamp, at_ps + 1, memory_order_release); /* R5 */
}

/** emu_credit_fill - @slot, which is empty, has these credits. Thread: producer. */
static inline void emu_credit_fill(struct emu_credit *slot, uint32_t count, uint32_t channel,
                                   uint64_t at_ps)
{
    slot->count = count;
    slot->channel = channel;
    emu_credit_show(slot, at_ps);
}

/**
 * emu_credit_put - send @count credits that are at the far end at @at_ps. There is a slot for each
 * credit of the cable. Thread: producer. Wait-free.
 */
static inline void emu_credit_put(struct emu_credit_end *end, uint32_t count, uint32_t channel,
                                  uint64_t at_ps)
{
    emu_credit_fill(emu_credit_next(end), count, channel, at_ps);
}

/**
 * emu_credit_sum - credits that are in a ring, put by @producer and not yet taken by @consumer.
 * Thread: any, while both sides stand still.
 */
static inline uint32_t emu_credit_sum(const struct emu_credit_end *producer,
                                      const struct emu_credit_end *consumer)
{
    uint32_t sum = 0;

    for (uint32_t at = consumer->at; at != producer->at; at++)
        sum += consumer->slot[at & consumer->mask].count;
    return sum;
}

#endif
