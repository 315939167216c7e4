/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.h - payload buffers of segments, with reference counts.
 *
 * A payload stays in one buffer from the host interface where it enters the network to the host
 * interfaces where it leaves. The descriptors in the rings contain the index of the buffer. A
 * multicast has one reference per copy. Each worker has a cache of its own, which is a stack of
 * free indexes. The worker exchanges *chains* of EMU_POOL_CHAIN buffers with the *depot*, which all
 * workers share.
 *
 * Rejected: a linked list of free buffers. To take several, a worker would have to wait for the
 * cache line of each one to find the next, and could not prefetch them.
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
#define EMU_POOL_LATE  64u /* maximum number of references that emu_pool_drop_late() collects */

/* A buffer. On cables without channels its header is unused: the descriptor has the header. */
struct emu_buf {
    alignas(EMU_LINE) struct emu_seg seg;
};

struct emu_pool {
    /* Written once, at creation. */
    /* array of `bufs` elements; the kernel allocates a page at its first use */
    struct emu_buf *buf;
    _Atomic uint16_t *refs; /* by buffer: number of references beyond the first */
    /* by buffer: its note (emu_pool_note()); valid while the buffer is used */
    uint32_t *note;
    _Atomic uint32_t *chain; /* for the first buffer of a chain in the depot: the next chain */
    uint32_t bufs;
    bool alone; /* the fabric has only one worker */

    /* first chain's index + 1 in the lower half (0: none), a tag in the upper half */
    alignas(EMU_LINE) _Atomic uint64_t depot;
    alignas(EMU_LINE) _Atomic uint32_t fresh; /* this buffer and all later ones were never used */
};

/* The free buffers of one worker. Only its thread uses them. */
struct emu_pool_cache {
    struct emu_pool *pool;
    uint32_t count;                    /* number of elements in `free`, below 2 * EMU_POOL_CHAIN */
    uint32_t free[2 * EMU_POOL_CHAIN]; /* a stack of buffer indexes */
    /* references to be dropped by emu_pool_drop_all_late(); none between steps */
    uint32_t late[EMU_POOL_LATE];
    uint32_t late_count;
};

/** emu_pool_create - make a pool of @bufs buffers. Returns NULL if there is no address space. */
struct emu_pool *emu_pool_create(uint32_t bufs);
void emu_pool_destroy(struct emu_pool *pool);
void emu_pool_cache_init(struct emu_pool_cache *cache, struct emu_pool *pool);

/**
 * emu_pool_out - return the number of references in use, as the pool counts them. A check compares
 * it with the references in all rings and devices. @cached: free buffers in all caches of the pool.
 * Thread: any, while no thread uses the pool.
 */
uint64_t emu_pool_out(const struct emu_pool *pool, uint32_t cached);

/** emu_pool_refill - fetch a chain from the depot. Returns false if the pool is exhausted. */
bool emu_pool_refill(struct emu_pool_cache *cache);
/** emu_pool_spill - return the older one of the two chains in a full cache to the depot. */
void emu_pool_spill(struct emu_pool_cache *cache);

static inline struct emu_seg *emu_pool_seg(struct emu_pool *pool, uint32_t buf)
{
    return &pool->buf[buf].seg;
}

/** emu_pool_payload - return the segment in @buf; NULL for EMU_NO_BUF. */
static inline struct emu_seg *emu_pool_payload(struct emu_pool *pool, uint32_t buf)
{
    return buf != EMU_NO_BUF ? emu_pool_seg(pool, buf) : NULL;
}

/*
 * Return a pointer to the note of a buffer: the time at which its segment was posted. A copy of a
 * buffer gets a copy of the note.
 */
static inline uint32_t *emu_pool_note(struct emu_pool *pool, uint32_t buf)
{
    return &pool->note[buf];
}

static inline uint8_t *emu_pool_bytes(struct emu_pool *pool, uint32_t buf)
{
    return pool->buf[buf].seg.payload;
}

/** emu_pool_take - get a buffer with one reference, or EMU_NO_BUF. Thread: the owner of @cache. */
static inline uint32_t emu_pool_take(struct emu_pool_cache *cache)
{
    if (!cache->count && !emu_pool_refill(cache))
        return EMU_NO_BUF;
    return cache->free[--cache->count];
}

/**
 * emu_pool_alone - return whether the caller's reference is the only one, so that the caller may
 * write the buffer. Thread: any that has a reference. L1: all reads by earlier holders have
 * finished.
 */
static inline bool emu_pool_alone(struct emu_pool *pool, uint32_t buf)
{
    return !atomic_load_explicit(&pool->refs[buf], memory_order_acquire); /* L1 */
}

/**
 * emu_pool_share - add @more references, for the copies of a multicast. If the caller has the only
 * reference, no other thread can change the count, so this function saves the 5 ns of an atomic
 * read-modify-write instruction. Thread: any that has a reference.
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
 * emu_pool_drop - drop one reference. The last one frees the buffer. L1 pairs with itself: the
 * thread that frees the buffer knows that all reads by other holders have finished. If there is no
 * other holder, no locked instruction is needed.
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
 * emu_pool_drop_alone - drop a reference without a locked instruction, which would wait for all
 * earlier stores. Only for buffers to which only workers have references. Returns false if this is
 * the last reference, or if there are several workers. Then the caller must use emu_pool_drop().
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

/** emu_pool_drop_all_late - drop the references from emu_pool_drop_late(), at the end of a step. */
static inline void emu_pool_drop_all_late(struct emu_pool_cache *cache)
{
    while (cache->late_count)
        emu_pool_drop(cache, cache->late[--cache->late_count]);
}

/**
 * emu_pool_drop_late - drop a reference at the end of this step at the latest. Only for buffers to
 * which only workers have references. A locked instruction waits for all earlier stores, which
 * takes 90 ns after a payload was written. Therefore a step drops its references together, when
 * most stores have finished.
 */
static inline void emu_pool_drop_late(struct emu_pool_cache *cache, uint32_t buf)
{
    if (buf == EMU_NO_BUF || emu_pool_drop_alone(cache, buf))
        return;
    if (emu_pool_alone(cache->pool, buf)) {
        emu_pool_drop(cache, buf);
        return;
    }
    if (cache->late_count == EMU_POOL_LATE)
        emu_pool_drop_all_late(cache);
    cache->late[cache->late_count++] = buf;
}

#endif
