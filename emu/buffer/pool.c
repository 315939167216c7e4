/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.c - the depot: the free buffers that all workers share.
 *
 * The depot is a Treiber stack of *chains* of EMU_POOL_CHAIN buffers. The first buffer of a chain
 * holds the indexes of all buffers in it. A tag in the upper half of the stack's head prevents ABA
 * errors. A new pool only reserves address space: the kernel allocates a page when it is first
 * written.
 */
#include "emu/buffer/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emu/util/alloc.h"

/* Return the size of the pool's arrays. Each of these has one element per buffer. */
static size_t pool_bytes(const struct emu_pool *pool)
{
    return pool->bufs *
           (sizeof *pool->buf + sizeof *pool->note + sizeof *pool->chain + sizeof *pool->refs);
}

struct emu_pool *emu_pool_create(uint32_t bufs)
{
    struct emu_pool *pool = emu_zeros(sizeof *pool);
    void *at;

    if (!pool)
        return NULL;
    pool->bufs = (bufs + EMU_POOL_CHAIN - 1) / EMU_POOL_CHAIN * EMU_POOL_CHAIN;
    at = mmap(NULL, pool_bytes(pool), PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        free(pool);
        return NULL;
    }
    pool->buf = at;
    pool->note = (uint32_t *)(pool->buf + pool->bufs);
    pool->chain = (_Atomic uint32_t *)(pool->note + pool->bufs);
    pool->refs = (_Atomic uint16_t *)(pool->chain + pool->bufs);
    return pool;
}

void emu_pool_destroy(struct emu_pool *pool)
{
    if (!pool)
        return;
    munmap(pool->buf, pool_bytes(pool));
    free(pool);
}

void emu_pool_cache_init(struct emu_pool_cache *cache, struct emu_pool *pool)
{
    cache->pool = pool;
    cache->count = 0;
    cache->late_count = 0;
}

/* Uses relaxed loads, because the caller has synchronised with all threads that used the pool. */
uint64_t emu_pool_out(const struct emu_pool *pool, uint32_t cached)
{
    uint32_t fresh = atomic_load_explicit(&pool->fresh, memory_order_relaxed);
    uint32_t chain = (uint32_t)atomic_load_explicit(&pool->depot, memory_order_relaxed);
    uint64_t out = (uint64_t)fresh - cached;

    for (; chain; chain = atomic_load_explicit(&pool->chain[chain - 1], memory_order_relaxed))
        out -= EMU_POOL_CHAIN;
    for (uint32_t buf = 0; buf < fresh; buf++)
        out += atomic_load_explicit(&pool->refs[buf], memory_order_relaxed);
    return out;
}

/*
 * Take a chain from the depot. Return its first buffer, or EMU_NO_BUF if there is none. D1 pairs
 * with D2: a worker that takes a chain sees the indexes in it. Lock-free: if an exchange fails,
 * another worker has made progress.
 */
static uint32_t pool_depot_pop(struct emu_pool *pool)
{
    uint64_t old = atomic_load_explicit(&pool->depot, memory_order_acquire); /* D1 pairs with D2 */
    uint64_t new;
    uint32_t head;

    do {
        if (!(uint32_t)old)
            return EMU_NO_BUF;
        head = (uint32_t)old - 1;
        new = (old & ~(uint64_t)UINT32_MAX) + ((uint64_t)1 << 32);
        new |= atomic_load_explicit(&pool->chain[head], memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&pool->depot, &old, new, memory_order_acquire,
                                                    memory_order_acquire));
    return head;
}

static void pool_depot_push(struct emu_pool *pool, uint32_t head)
{
    uint64_t old = atomic_load_explicit(&pool->depot, memory_order_relaxed);
    uint64_t new;

    do {
        atomic_store_explicit(&pool->chain[head], (uint32_t)old, memory_order_relaxed);
        new = (old & ~(uint64_t)UINT32_MAX) + ((uint64_t)1 << 32);
        new |= head + 1;
    } while (!atomic_compare_exchange_weak_explicit(&pool->depot, &old, new,
                                                    memory_order_release, /* D2 pairs with D1 */
                                                    memory_order_relaxed));
}

/* Take a chain of buffers that were never used. Return the first buffer, or EMU_NO_BUF. */
static uint32_t pool_fresh_chain(struct emu_pool *pool)
{
    uint32_t at = atomic_load_explicit(&pool->fresh, memory_order_relaxed);

    do {
        if (at == pool->bufs)
            return EMU_NO_BUF;
    } while (!atomic_compare_exchange_weak_explicit(&pool->fresh, &at, at + EMU_POOL_CHAIN,
                                                    memory_order_relaxed, memory_order_relaxed));
    return at;
}

static_assert(EMU_POOL_CHAIN * sizeof(uint32_t) <= sizeof(struct emu_buf),
              "a buffer can contain the indexes of a chain");

bool emu_pool_refill(struct emu_pool_cache *cache)
{
    struct emu_pool *pool = cache->pool;
    uint32_t head = pool_depot_pop(pool);

    if (head != EMU_NO_BUF) {
        memcpy(cache->free, &pool->buf[head], EMU_POOL_CHAIN * sizeof cache->free[0]);
    } else {
        head = pool_fresh_chain(pool);
        if (head == EMU_NO_BUF)
            return false;
        for (uint32_t i = 0; i < EMU_POOL_CHAIN; i++)
            cache->free[EMU_POOL_CHAIN - 1 - i] = head + i;
    }
    cache->count = EMU_POOL_CHAIN;
    return true;
}

void emu_pool_spill(struct emu_pool_cache *cache)
{
    uint32_t head = cache->free[0];

    memcpy(&cache->pool->buf[head], cache->free, EMU_POOL_CHAIN * sizeof cache->free[0]);
    cache->count -= EMU_POOL_CHAIN;
    memcpy(cache->free, cache->free + EMU_POOL_CHAIN, cache->count * sizeof cache->free[0]);
    pool_depot_push(cache->pool, head);
}
