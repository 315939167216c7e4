/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_test.c - rings and pools: bounds, order, two concurrent threads.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "emu/buffer/pool.h"
#include "emu/buffer/ring.h"
#include "tests/test.h"

static struct emu_entry entry_of(uint64_t n)
{
    return (struct emu_entry){.time_ps = n, .hdr = {.seq = (uint32_t)n}, .buf = (uint32_t)~n};
}

struct ring {
    struct emu_ring_end in, out;
};

/* A ring whose indexes are about to wrap. */
static struct ring ring_at(uint32_t slots, uint32_t index)
{
    struct ring ring = {.in = {.at = 0}};

    CU_ASSERT_TRUE_FATAL(emu_ring_create(&ring.in, &ring.out, slots));
    ring.in.at = ring.out.at = index;
    return ring;
}

static bool ring_push(struct ring *ring, const struct emu_entry *entry)
{
    if (!emu_ring_has_slot(&ring->in))
        return false;
    emu_ring_put(&ring->in, entry);
    return true;
}

static bool ring_pop(struct ring *ring, struct emu_entry *ret)
{
    const struct emu_entry *front = emu_ring_front(&ring->out);

    if (!front)
        return false;
    *ret = *front;
    emu_ring_skip(&ring->out);
    return true;
}

/* A full ring refuses a push, changes nothing, and accepts again after one pop. */
static void ring_push__refuses_when_full(void)
{
    struct ring ring = ring_at(4, UINT32_MAX - 1); /* indexes wrap mid-test */
    struct emu_entry entry = entry_of(0);

    for (uint64_t i = 0; i < 4; i++) {
        entry = entry_of(i);
        CU_ASSERT_TRUE(ring_push(&ring, &entry));
    }
    entry = entry_of(99);
    CU_ASSERT_FALSE(ring_push(&ring, &entry));
    CU_ASSERT_TRUE(ring_pop(&ring, &entry));
    CU_ASSERT_EQUAL(entry.time_ps, 0);
    entry = entry_of(4);
    CU_ASSERT_TRUE(ring_push(&ring, &entry));
    for (uint64_t i = 1; i < 5; i++) {
        CU_ASSERT_TRUE(ring_pop(&ring, &entry));
        CU_ASSERT_EQUAL(entry.time_ps, i);
        CU_ASSERT_EQUAL(entry.buf, (uint32_t)~i);
    }
    CU_ASSERT_FALSE(ring_pop(&ring, &entry));
    emu_ring_destroy(&ring.in);
}

/* An entry comes out unchanged, whatever `full` holds, with the largest possible time. */
static void ring_front__returns_the_pushed_entry(void)
{
    struct ring ring = ring_at(1, 0);
    struct emu_entry entry = {
        .time_ps = EMU_RING_FULL - 1,
        .full = 1,
        .hdr = {.dst = 1, .src = 2, .seq = 3, .kind = 4, .len = 5, .op = 6, .type = 7},
        .buf = EMU_NO_BUF,
        .born_ns = UINT32_MAX};
    struct emu_entry popped;

    CU_ASSERT_TRUE(ring_push(&ring, &entry));
    CU_ASSERT_EQUAL(emu_ring_front(&ring.out)->time_ps, EMU_RING_FULL - 1);
    CU_ASSERT_TRUE(ring_pop(&ring, &popped));
    CU_ASSERT_EQUAL(memcmp(&popped, &entry, sizeof entry), 0);
    emu_ring_destroy(&ring.in);
}

#define TWO_ITEMS 200000u

static void *ring_producer(void *arg)
{
    struct ring *ring = arg;
    uint64_t random = test_seed();

    for (uint64_t i = 0; i < TWO_ITEMS;) {
        uint64_t burst = test_random(&random) % 8 + 1;

        while (burst-- && i < TWO_ITEMS) {
            struct emu_entry entry = entry_of(i);

            if (!ring_push(ring, &entry))
                break;
            i++;
        }
        sched_yield();
    }
    return NULL;
}

/* Everything arrives in order and whole, for any burst sizes. */
static void ring__keeps_order_between_two_threads(void)
{
    struct ring ring = ring_at(16, UINT32_MAX - 1000);
    uint64_t random = test_seed() + 1;
    uint64_t wrong = 0;
    pthread_t producer;

    CU_ASSERT_EQUAL_FATAL(pthread_create(&producer, NULL, ring_producer, &ring), 0);
    for (uint64_t i = 0; i < TWO_ITEMS;) {
        uint64_t burst = test_random(&random) % 8 + 1;
        const struct emu_entry *front;

        while (burst-- && (front = emu_ring_front(&ring.out))) {
            wrong += front->time_ps != i || front->buf != (uint32_t)~i;
            emu_ring_skip(&ring.out);
            i++;
        }
        sched_yield();
    }
    pthread_join(producer, NULL);
    CU_ASSERT_EQUAL(wrong, 0);
    emu_ring_destroy(&ring.in);
}

#define CABLE_CREDITS 16u

/* A cable: segments in one direction, their credits in the other. */
struct cable {
    struct ring ring;
    struct emu_credit_end back, paid; /* the producer's, the consumer's */
    uint64_t random;
};

/* Spends one credit per segment and never checks the ring for space. */
static void *cable_producer(void *arg)
{
    struct cable *cable = arg;
    uint32_t credits = CABLE_CREDITS;

    for (uint64_t i = 0; i < TWO_ITEMS;) {
        const struct emu_credit *back;

        while ((back = emu_credit_front(&cable->back))) {
            credits += back->count;
            emu_credit_skip(&cable->back);
        }
        for (; credits && i < TWO_ITEMS; credits--, i++) {
            struct emu_entry entry = entry_of(i);

            emu_ring_put(&cable->ring.in, &entry);
        }
        sched_yield();
    }
    return NULL;
}

/* Takes all available segments and returns their credits in one batch. */
static uint64_t cable_consume(struct cable *cable)
{
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < TWO_ITEMS;) {
        uint64_t burst = test_random(&cable->random) % CABLE_CREDITS + 1;
        const struct emu_entry *front;
        uint32_t owed = 0;

        for (; burst && (front = emu_ring_front(&cable->ring.out)); burst--, owed++, i++) {
            wrong += front->time_ps != i || front->buf != (uint32_t)~i;
            emu_ring_skip(&cable->ring.out);
        }
        if (owed)
            emu_credit_put(&cable->paid, owed, 0, i);
        else
            sched_yield();
    }
    return wrong;
}

/* Credits alone keep the producer from overwriting entries. */
static void ring__credits_alone_keep_order(void)
{
    struct cable cable = {.ring = ring_at(CABLE_CREDITS, UINT32_MAX - 1000), .random = test_seed()};
    pthread_t producer;

    CU_ASSERT_TRUE_FATAL(emu_credit_create(&cable.paid, &cable.back, CABLE_CREDITS));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&producer, NULL, cable_producer, &cable), 0);
    CU_ASSERT_EQUAL(cable_consume(&cable), 0);
    pthread_join(producer, NULL);
    emu_ring_destroy(&cable.ring.in);
    emu_credit_destroy(&cable.paid);
}

/* An exhausted pool reports it, and hands out every buffer once. */
static void pool_take__hands_out_each_buffer_once(void)
{
    struct emu_pool *pool = emu_pool_create(3 * EMU_POOL_CHAIN);
    struct emu_pool_cache cache;
    uint8_t seen[3 * EMU_POOL_CHAIN] = {0};
    uint32_t buf;
    unsigned count = 0, twice = 0;

    emu_pool_cache_init(&cache, pool);
    while ((buf = emu_pool_take(&cache)) != EMU_NO_BUF) {
        twice += seen[buf]++;
        count++;
    }
    CU_ASSERT_EQUAL(count, 3 * EMU_POOL_CHAIN);
    CU_ASSERT_EQUAL(twice, 0);
    for (uint32_t i = 0; i < count; i++)
        emu_pool_drop(&cache, i);
    for (uint32_t i = 0; i < count; i++)
        CU_ASSERT_NOT_EQUAL(emu_pool_take(&cache), EMU_NO_BUF);
    CU_ASSERT_EQUAL(emu_pool_take(&cache), EMU_NO_BUF);
    emu_pool_destroy(pool);
}

/* A shared buffer is free only after its last holder dropped it. */
static void pool_drop__frees_at_the_last_reference(void)
{
    struct emu_pool *pool = emu_pool_create(EMU_POOL_CHAIN);
    struct emu_pool_cache cache;
    uint32_t buf;

    emu_pool_cache_init(&cache, pool);
    buf = emu_pool_take(&cache);
    emu_pool_share(pool, buf, 2);
    emu_pool_drop(&cache, buf);
    emu_pool_drop(&cache, buf);
    CU_ASSERT_EQUAL(cache.count, EMU_POOL_CHAIN - 1);
    emu_pool_drop(&cache, buf);
    CU_ASSERT_EQUAL(cache.count, EMU_POOL_CHAIN);
    CU_ASSERT_EQUAL(emu_pool_take(&cache), buf);
    emu_pool_destroy(pool);
}

/* With one worker, drops need no lock, but the last reference needs the normal drop. */
static void pool_drop_alone__leaves_the_last_reference(void)
{
    struct emu_pool *pool = emu_pool_create(EMU_POOL_CHAIN);
    struct emu_pool_cache cache;
    uint32_t buf;

    emu_pool_cache_init(&cache, pool);
    buf = emu_pool_take(&cache);
    emu_pool_share(pool, buf, 2);
    CU_ASSERT_FALSE(emu_pool_drop_alone(&cache, buf)); /* there may be several holders */
    pool->alone = true;
    CU_ASSERT_TRUE(emu_pool_drop_alone(&cache, buf));
    CU_ASSERT_TRUE(emu_pool_drop_alone(&cache, buf));
    CU_ASSERT_FALSE(emu_pool_drop_alone(&cache, buf));
    CU_ASSERT_EQUAL(emu_pool_out(pool, cache.count), 1);
    emu_pool_drop(&cache, buf);
    CU_ASSERT_EQUAL(emu_pool_out(pool, cache.count), 0);
    emu_pool_destroy(pool);
}

/*
 * Buffers with other holders are dropped together, at the end or when the list is full. The last
 * reference is dropped at once, since nobody waits for it.
 */
static void pool_drop_late__drops_together(void)
{
    struct emu_pool *pool = emu_pool_create(EMU_POOL_CHAIN);
    struct emu_pool_cache cache;
    uint32_t buf;

    emu_pool_cache_init(&cache, pool);
    buf = emu_pool_take(&cache);
    emu_pool_share(pool, buf, EMU_POOL_LATE + 1);
    for (uint32_t i = 0; i < EMU_POOL_LATE; i++)
        emu_pool_drop_late(&cache, buf);
    CU_ASSERT_EQUAL(emu_pool_out(pool, cache.count), EMU_POOL_LATE + 2);
    emu_pool_drop_late(&cache, buf);
    CU_ASSERT_EQUAL(emu_pool_out(pool, cache.count), 2);
    emu_pool_drop_all_late(&cache);
    CU_ASSERT_EQUAL(emu_pool_out(pool, cache.count), 1);
    emu_pool_drop_late(&cache, EMU_NO_BUF);
    emu_pool_drop_late(&cache, buf);
    CU_ASSERT_EQUAL(emu_pool_out(pool, cache.count), 0);
    CU_ASSERT_EQUAL(emu_pool_take(&cache), buf);
    emu_pool_destroy(pool);
}

/* A cache that overflows returns the oldest buffers: the latest are in the core's cache. */
static void pool_drop__keeps_the_latest_buffers(void)
{
    struct emu_pool *pool = emu_pool_create(2 * EMU_POOL_CHAIN);
    uint32_t held[2 * EMU_POOL_CHAIN], buf;
    uint8_t seen[EMU_POOL_CHAIN] = {0};
    struct emu_pool_cache cache;

    emu_pool_cache_init(&cache, pool);
    for (uint32_t i = 0; i < 2 * EMU_POOL_CHAIN; i++)
        held[i] = emu_pool_take(&cache);
    for (uint32_t i = 0; i < 2 * EMU_POOL_CHAIN; i++)
        emu_pool_drop(&cache, held[i]);
    CU_ASSERT_EQUAL(emu_pool_out(pool, cache.count), 0);
    for (uint32_t i = 2 * EMU_POOL_CHAIN; i-- > EMU_POOL_CHAIN;)
        CU_ASSERT_EQUAL(emu_pool_take(&cache), held[i]);
    while ((buf = emu_pool_take(&cache)) != EMU_NO_BUF)
        for (uint32_t i = 0; i < EMU_POOL_CHAIN; i++)
            seen[i] += held[i] == buf;
    for (uint32_t i = 0; i < EMU_POOL_CHAIN; i++)
        CU_ASSERT_EQUAL(seen[i], 1);
    emu_pool_destroy(pool);
}

#define POOL_ROUNDS 20000
#define POOL_HELD   150

struct pool_worker {
    struct emu_pool *pool;
    uint64_t random;
    unsigned mismatches;
};

static uint64_t *pool_mark(struct emu_pool *pool, uint32_t buf)
{
    return (void *)emu_pool_bytes(pool, buf);
}

/* Take, mark, check and drop: two holders of one buffer would see each other's marks. */
static void *pool_churn(void *arg)
{
    struct pool_worker *me = arg;
    struct emu_pool_cache cache;
    uint32_t held[POOL_HELD];
    unsigned count = 0;

    emu_pool_cache_init(&cache, me->pool);
    for (unsigned i = 0; i < POOL_ROUNDS; i++) {
        if (count < POOL_HELD && (test_random(&me->random) & 1 || !count)) {
            uint32_t buf = emu_pool_take(&cache);

            if (buf == EMU_NO_BUF)
                continue;
            *pool_mark(me->pool, buf) = (uintptr_t)me;
            held[count++] = buf;
        } else if (count) {
            uint32_t at = (uint32_t)(test_random(&me->random) % count);

            me->mismatches += *pool_mark(me->pool, held[at]) != (uintptr_t)me;
            emu_pool_drop(&cache, held[at]);
            held[at] = held[--count];
        }
    }
    while (count)
        emu_pool_drop(&cache, held[--count]);
    return NULL;
}

static void pool__never_gives_one_buffer_to_two_workers(void)
{
    struct emu_pool *pool = emu_pool_create(8 * EMU_POOL_CHAIN);
    struct pool_worker worker[4];
    pthread_t thread[4];

    for (unsigned i = 0; i < 4; i++) {
        worker[i] = (struct pool_worker){.pool = pool, .random = test_seed() + i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, pool_churn, &worker[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        CU_ASSERT_EQUAL(worker[i].mismatches, 0);
    }
    emu_pool_destroy(pool);
}

int main(void)
{
    static const struct test_case cases[] = {
        {"ring_push__refuses_when_full", ring_push__refuses_when_full},
        {"ring_front__returns_the_pushed_entry", ring_front__returns_the_pushed_entry},
        {"ring__keeps_order_between_two_threads", ring__keeps_order_between_two_threads},
        {"ring__credits_alone_keep_order", ring__credits_alone_keep_order},
        {"pool_take__hands_out_each_buffer_once", pool_take__hands_out_each_buffer_once},
        {"pool_drop__frees_at_the_last_reference", pool_drop__frees_at_the_last_reference},
        {"pool_drop__keeps_the_latest_buffers", pool_drop__keeps_the_latest_buffers},
        {"pool_drop_alone__leaves_the_last_reference", pool_drop_alone__leaves_the_last_reference},
        {"pool_drop_late__drops_together", pool_drop_late__drops_together},
        {"pool__never_gives_one_buffer_to_two_workers",
         pool__never_gives_one_buffer_to_two_workers},
        {NULL, NULL},
    };

    return test_run("ring", cases);
}
