/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.h - payload buffers of segments, with reference counts.
 *
 * A payload stays in one buffer from the edge where it enters to the edges
 * where it leaves; descriptors name it by index. A multicast holds one
 * reference a copy. Each worker takes from and gives to its own cache, a
 * stack of indexes, and trades chains of EMU_POOL_CHAIN buffers with the shared
 * depot. Rejected: free buffers that name the next one. Who takes several waits
 * for each one's line to know the next, and cannot fetch them ahead.
 */
#ifndef EMU_POOL_H
#define EMU_POOL_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/packet/seg.h"

#define EMU_POOL_CHAIN 64u
#define EMU_POOL_LATE  64u /* references that are dropped late, at most */

/* The header in it is not used: it travels with the descriptor. */
struct emu_buf {
    alignas(EMU_LINE) struct emu_seg seg;
};

struct emu_pool {
    /* Written once, at creation. */
    struct emu_buf *buf;     /* bufs of them; memory is taken from the host at first use */
    _Atomic uint16_t *refs;  /* per buffer: references beyond the first */
    uint32_t *note;          /* per buffer, while it is held: its holders', emu_pool_note() */
    _Atomic uint32_t *chain; /* per buffer that heads a chain in the depot: next chain */
    uint32_t bufs;
    bool alone; /* there is one worker */

    alignas(EMU_LINE) _Atomic uint64_t depot; /* first chain (low half: index + 1), a tag above */
    alignas(EMU_LINE) _Atomic uint32_t fresh; /* buffers never handed out start here */
};

/* One worker's buffers; no other thread touches it. */
struct emu_pool_cache {
    struct emu_pool *pool;
    uint32_t count;                    /* of those in `free`, below 2 * EMU_POOL_CHAIN */
    uint32_t free[2 * EMU_POOL_CHAIN]; /* what was given last is taken first */
    uint32_t late[EMU_POOL_LATE]; /* emu_pool_drop_late(): none between two steps of a device */
    uint32_t lates;
};

/** emu_pool_create - a pool of @bufs buffers, reserved, not touched. NULL without address space. */
struct emu_pool *emu_pool_create(uint32_t bufs);
void emu_pool_destroy(struct emu_pool *pool);
void emu_pool_cache_init(struct emu_pool_cache *cache, struct emu_pool *pool);

/**
 * emu_pool_out - references that are out, of all buffers, by the pool's own accounts: what its
 * holders have must add up to it.
 * @cached: free buffers in all caches of the pool together.
 * Thread: any, while nobody takes, shares or drops.
 */
uint64_t emu_pool_out(const struct emu_pool *pool, uint32_t cached);

/** emu_pool_refill - fetch a chain from the depot; false: the pool is exhausted. */
bool emu_pool_refill(struct emu_pool_cache *cache);
/** emu_pool_spill - give a chain of two back to the depot: what was given to us longest ago. */
void emu_pool_spill(struct emu_pool_cache *cache);

static inline struct emu_seg *emu_pool_seg(struct emu_pool *pool, uint32_t buf)
{
    return &pool->buf[buf].seg;
}

/** emu_pool_payload - the segment with the payload in @buf; NULL for EMU_NO_BUF: there is none. */
static inline struct emu_seg *emu_pool_payload(struct emu_pool *pool, uint32_t buf)
{
    return buf != EMU_NO_BUF ? emu_pool_seg(pool, buf) : NULL;
}

/*
 * A word that goes with a buffer for as long as it is held. The link engine keeps there when the
 * segment was posted. Who copies a buffer copies it, too.
 */
static inline uint32_t *emu_pool_note(struct emu_pool *pool, uint32_t buf)
{
    return &pool->note[buf];
}

/* The payload of a buffer. */
static inline uint8_t *emu_pool_bytes(struct emu_pool *pool, uint32_t buf)
{
    return pool->buf[buf].seg.payload;
}

/**
 * emu_pool_take - a buffer with one reference, or EMU_NO_BUF: try again later. Thread: the cache's.
 */
static inline uint32_t emu_pool_take(struct emu_pool_cache *cache)
{
    if (!cache->count && !emu_pool_refill(cache))
        return EMU_NO_BUF;
    return cache->free[--cache->count];
}

/**
 * emu_pool_alone - does nobody else hold it? Then the holder may write. Thread: a holder.
 * L1: the others' last reads are done.
 */
static inline bool emu_pool_alone(struct emu_pool *pool, uint32_t buf)
{
    return !atomic_load_explicit(&pool->refs[buf], memory_order_acquire); /* L1 */
}

/**
 * emu_pool_share - add @more references, for the copies of a multicast. Thread: a holder.
 * Where the caller's is the only one nobody else can change their number meanwhile: no locked
 * instruction, which takes 5 ns.
 */
static inline void emu_pool_share(struct emu_pool *pool, uint32_t buf, unsigned more)
{
    if (buf == EMU_NO_BUF || !more)
        return;
    if (emu_pool_alone(pool, buf))
        atomic_store_explicit(&pool->refs[buf], (uint16_t)more, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&pool->refs[buf], (uint16_t)more, memory_order_relaxed);
}

/**
 * emu_pool_drop - drop one reference; the last one frees the buffer.
 * L1 pairs with itself: the one who frees has seen the other holders' last reads done.
 * A zero can be read without a locked instruction: no one else holds the buffer then.
 */
static inline void emu_pool_drop(struct emu_pool_cache *cache, uint32_t buf)
{
    struct emu_pool *pool = cache->pool;

    if (buf == EMU_NO_BUF)
        return;
    if (atomic_load_explicit(&pool->refs[buf], memory_order_acquire)) {
        if (atomic_fetch_sub_explicit(&pool->refs[buf], 1, memory_order_acq_rel)) /* L1 */
            return;
        atomic_store_explicit(&pool->refs[buf], 0, memory_order_relaxed);
    }
    cache->free[cache->count++] = buf;
    if (cache->count == 2 * EMU_POOL_CHAIN)
        emu_pool_spill(cache);
}

/**
 * emu_pool_drop_alone - drop one reference to a buffer that none but workers hold, all of them. If
 * there is one worker, nobody else can change their number meanwhile: no locked instruction, which
 * waits for all stores before it. False: it has to be dropped in the other way.
 */
static inline bool emu_pool_drop_alone(struct emu_pool_cache *cache, uint32_t buf)
{
    struct emu_pool *pool = cache->pool;
    uint16_t refs = atomic_load_explicit(&pool->refs[buf], memory_order_acquire); /* L1 */

    if (!pool->alone || !refs)
        return false;
    atomic_store_explicit(&pool->refs[buf], (uint16_t)(refs - 1), memory_order_release); /* L1 */
    return true;
}

/** emu_pool_drop_lates - drop what is to be dropped late. At the end of a step. */
static inline void emu_pool_drop_lates(struct emu_pool_cache *cache)
{
    while (cache->lates)
        emu_pool_drop(cache, cache->late[--cache->lates]);
}

/**
 * emu_pool_drop_late - drop one reference to a buffer that none but workers hold, when the step
 * ends at the latest. What workers have together takes a locked instruction, which waits for all
 * stores before it: 90 ns after a payload has been written. So those of a step are dropped
 * together, when the stores are mostly done.
 */
static inline void emu_pool_drop_late(struct emu_pool_cache *cache, uint32_t buf)
{
    if (buf == EMU_NO_BUF || emu_pool_drop_alone(cache, buf))
        return;
    if (emu_pool_alone(cache->pool, buf)) {
        emu_pool_drop(cache, buf);
        return;
    }
    if (cache->lates == EMU_POOL_LATE)
        emu_pool_drop_lates(cache);
    cache->late[cache->lates++] = buf;
}

#endif
