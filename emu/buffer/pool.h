/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.h - payload buffers of segments, with reference counts.
 *
 * A payload stays in one buffer from the host interface where it enters to those where it leaves;
 * descriptors name it by index. A multicast holds one reference per copy. Each worker has its own
 * cache, a stack of free indexes, and exchanges chains of EMU_POOL_CHAIN buffers with the shared
 * depot. Rejected: a linked list of free buffers. Taking several would wait for each one's line to
 * know the next, and could not prefetch them.
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
#define EMU_POOL_LATE  64u /* references to be dropped late, at most */

/* Its header is unused: the header travels with the descriptor. */
struct emu_buf {
    alignas(EMU_LINE) struct emu_seg seg;
};

struct emu_pool {
    /* Written once, at creation. */
    struct emu_buf *buf;     /* bufs elements; pages are allocated at first use */
    _Atomic uint16_t *refs;  /* per buffer: references beyond the first */
    uint32_t *note;          /* per buffer in use: emu_pool_note() */
    _Atomic uint32_t *chain; /* per buffer that heads a chain in the depot: next chain */
    uint32_t bufs;
    bool alone; /* there is only one worker */

    alignas(EMU_LINE) _Atomic uint64_t depot; /* first chain (low half: index + 1), tag above */
    alignas(EMU_LINE) _Atomic uint32_t fresh; /* buffers from here on were never handed out */
};

/* The free buffers of one worker, used by its thread only. */
struct emu_pool_cache {
    struct emu_pool *pool;
    uint32_t count;                    /* elements of `free`, below 2 * EMU_POOL_CHAIN */
    uint32_t free[2 * EMU_POOL_CHAIN]; /* a stack */
    uint32_t late[EMU_POOL_LATE];      /* emu_pool_drop_late(); empty between steps */
    uint32_t lates;
};

/**
 * emu_pool_create - a pool of @bufs buffers, reserved but not touched. NULL without address space.
 */
struct emu_pool *emu_pool_create(uint32_t bufs);
void emu_pool_destroy(struct emu_pool *pool);
void emu_pool_cache_init(struct emu_pool_cache *cache, struct emu_pool *pool);

/**
 * emu_pool_out - references in use, as counted by the pool. A check compares them with what the
 * holders have. @cached: free buffers in all caches of the pool. Thread: any, while no thread uses
 * the pool.
 */
uint64_t emu_pool_out(const struct emu_pool *pool, uint32_t cached);

/** emu_pool_refill - fetch a chain from the depot. False: the pool is exhausted. */
bool emu_pool_refill(struct emu_pool_cache *cache);
/** emu_pool_spill - return the older of two chains to the depot. */
void emu_pool_spill(struct emu_pool_cache *cache);

static inline struct emu_seg *emu_pool_seg(struct emu_pool *pool, uint32_t buf)
{
    return &pool->buf[buf].seg;
}

/** emu_pool_payload - the segment in @buf; NULL for EMU_NO_BUF. */
static inline struct emu_seg *emu_pool_payload(struct emu_pool *pool, uint32_t buf)
{
    return buf != EMU_NO_BUF ? emu_pool_seg(pool, buf) : NULL;
}

/* A word that stays with a buffer while it is used: the time of posting. Copied with it. */
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
 * emu_pool_take - a buffer with one reference; EMU_NO_BUF: try again later. Thread: the cache's.
 */
static inline uint32_t emu_pool_take(struct emu_pool_cache *cache)
{
    if (!cache->count && !emu_pool_refill(cache))
        return EMU_NO_BUF;
    return cache->free[--cache->count];
}

/**
 * emu_pool_alone - is there only one reference? Then its holder may write. Thread: a holder. L1:
 * the other holders' last reads are done.
 */
static inline bool emu_pool_alone(struct emu_pool *pool, uint32_t buf)
{
    return !atomic_load_explicit(&pool->refs[buf], memory_order_acquire); /* L1 */
}

/**
 * emu_pool_share - add @more references, for the copies of a multicast. Thread: a holder. A sole
 * holder needs no locked instruction, which takes 5 ns: nobody else can change the count.
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
 * emu_pool_drop - drop one reference; the last one frees the buffer. L1 pairs with itself: the
 * thread that frees it has seen the other holders' last reads done. A count of zero needs no locked
 * instruction, since there is no other holder.
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
 * emu_pool_drop_alone - drop a reference that is not the last, if there is only one worker, so that
 * no locked instruction is needed: that would wait for all earlier stores. For buffers that only
 * workers hold. False: use emu_pool_drop().
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

/** emu_pool_drop_lates - drop what emu_pool_drop_late() collected, at the end of a step. */
static inline void emu_pool_drop_lates(struct emu_pool_cache *cache)
{
    while (cache->lates)
        emu_pool_drop(cache, cache->late[--cache->lates]);
}

/**
 * emu_pool_drop_late - drop a reference by the end of this step. For buffers that only workers
 * hold. A locked instruction waits for all earlier stores: 90 ns after a payload has been written.
 * So a step drops its references together, when the stores are mostly done.
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
