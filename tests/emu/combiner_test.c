/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combiner_test.c - how contributions are combined: which buffer receives the result, in which
 * order operands are applied, and where the result is sent.
 */
#include "emu/buffer/combiner.h"
#include "tests/test.h"

#include <string.h>

#define BUFS 256

/* A pool and its only cache. */
struct bufs {
    struct emu_pool *pool;
    struct emu_pool_cache cache;
};

static void bufs_open(struct bufs *b)
{
    b->pool = emu_pool_create(BUFS);
    CU_ASSERT_PTR_NOT_NULL_FATAL(b->pool);
    emu_pool_cache_init(&b->cache, b->pool);
}

/* Check that every reference was returned. */
static void bufs_close(struct bufs *b)
{
    emu_pool_drop_all_late(&b->cache);
    CU_ASSERT_EQUAL(emu_pool_out(b->pool, b->cache.count), 0);
    emu_pool_destroy(b->pool);
}

/*
 * A contribution of one 64-bit number. @bare: it has a length but no payload; its source is
 * recorded here.
 */
static uint32_t contribution(struct bufs *b, uint64_t value, bool bare)
{
    uint32_t buf = emu_pool_take(&b->cache);
    struct emu_seg *seg;

    CU_ASSERT_NOT_EQUAL_FATAL(buf, EMU_NO_BUF);
    seg = emu_pool_seg(b->pool, buf);
    seg->hdr = (struct emu_hdr){.kind = EMU_ALLREDUCE,
                                .len = sizeof value,
                                .op = EMU_SUM,
                                .type = EMU_U64};
    seg->hdr.src = bare;
    memcpy(seg->payload, &value, sizeof value);
    *emu_pool_note(b->pool, buf) = (uint32_t)value;
    return buf;
}

static bool has_payload(struct emu_pool *pool, uint32_t buf)
{
    return !emu_pool_seg(pool, buf)->hdr.src;
}

static uint64_t value_of(struct bufs *b, uint32_t buf)
{
    uint64_t value;

    memcpy(&value, emu_pool_bytes(b->pool, buf), sizeof value);
    return value;
}

static const struct emu_hdr sum = {.kind = EMU_ALLREDUCE, .len = 8, .op = EMU_SUM, .type = EMU_U64};
static const struct emu_hdr least = {.kind = EMU_ALLREDUCE,
                                     .len = 8,
                                     .op = EMU_MIN,
                                     .type = EMU_F64};

/*
 * A buffer is copied, note included, only if it has another holder. The other holder's buffer stays
 * unchanged.
 */
static void own__copies_a_shared_buffer(void)
{
    struct bufs b;
    uint32_t buf, own;

    bufs_open(&b);
    buf = contribution(&b, 7, false);
    CU_ASSERT_EQUAL(emu_combiner_own(&b.cache, buf, 8), buf);
    emu_pool_share(b.pool, buf, 1);
    own = emu_combiner_own(&b.cache, buf, 8);
    CU_ASSERT_NOT_EQUAL(own, buf);
    CU_ASSERT_TRUE(emu_pool_alone(b.pool, own) && !emu_pool_alone(b.pool, buf));
    emu_pool_drop_all_late(&b.cache);
    CU_ASSERT_TRUE(emu_pool_alone(b.pool, buf));
    CU_ASSERT_EQUAL(value_of(&b, own), 7);
    CU_ASSERT_EQUAL(*emu_pool_note(b.pool, own), 7);
    emu_combiner_fold(&b.cache, &sum, own, contribution(&b, 5, false), has_payload);
    CU_ASSERT_EQUAL(value_of(&b, own), 12);
    CU_ASSERT_EQUAL(value_of(&b, buf), 7);
    emu_pool_drop(&b.cache, own);
    emu_pool_drop(&b.cache, buf);
    bufs_close(&b);
}

/* A contribution without payload is counted but not combined; its buffer reference is dropped. */
static void fold__skips_contributions_without_payload(void)
{
    struct bufs b;
    uint32_t acc;

    bufs_open(&b);
    acc = contribution(&b, 7, false);
    emu_combiner_fold(&b.cache, &sum, acc, contribution(&b, 5, true), has_payload);
    CU_ASSERT_EQUAL(value_of(&b, acc), 7);
    emu_combiner_fold(&b.cache, &sum, acc, contribution(&b, 1, false), has_payload);
    CU_ASSERT_EQUAL(value_of(&b, acc), 8);
    emu_pool_drop(&b.cache, acc);
    bufs_close(&b);
}

/*
 * The lower input is the left operand in whatever order inputs arrive: the minimum of 0.0 and -0.0
 * is the right operand.
 */
static void kept__combines_in_order_of_inputs(void)
{
    uint64_t zero = 0, minus = UINT64_C(1) << 63, all = emu_bit(3) | emu_bit(17) | emu_bit(63);

    for (int turn = 0; turn < 2; turn++) {
        uint32_t slot[3], acc;
        struct emu_kept kept = {.buf = slot, .all = all};
        struct bufs b;

        bufs_open(&b);
        CU_ASSERT_EQUAL_FATAL(emu_kept_slots(all), 3);
        *emu_kept_at(kept, 63) = contribution(&b, turn ? zero : minus, false);
        *emu_kept_at(kept, 3) = contribution(&b, turn ? minus : zero, false);
        acc = emu_kept_fold(&b.cache, &least, kept, emu_bit(3) | emu_bit(63), has_payload);
        CU_ASSERT_EQUAL(acc, slot[0]);
        CU_ASSERT_EQUAL(value_of(&b, acc), turn ? zero : minus);
        emu_pool_drop(&b.cache, acc);
        bufs_close(&b);
    }
}

/* In ordered mode the first sender may still hold its buffer, so the result goes to a new one. */
static void kept__writes_into_a_new_buffer(void)
{
    uint32_t slot[2], acc;
    struct emu_kept kept = {.buf = slot, .all = emu_bits_below(2)};
    struct bufs b;

    bufs_open(&b);
    slot[0] = contribution(&b, 1, false);
    slot[1] = contribution(&b, 2, false);
    emu_pool_share(b.pool, slot[0], 1);
    acc = emu_kept_fold(&b.cache, &sum, kept, emu_bits_below(2), has_payload);
    CU_ASSERT_NOT_EQUAL(acc, slot[0]);
    CU_ASSERT_EQUAL(value_of(&b, acc), 3);
    CU_ASSERT_EQUAL(value_of(&b, slot[0]), 1);
    emu_pool_drop(&b.cache, acc);
    emu_pool_drop(&b.cache, slot[0]);
    bufs_close(&b);
}

static bool has_buffer(struct emu_pool *pool, uint32_t buf)
{
    (void)pool;
    return buf != EMU_NO_BUF;
}

/* Without a buffer for a contribution that has no payload, nothing is written or dropped. */
static void kept__may_have_no_buffers(void)
{
    uint32_t slot[3] = {EMU_NO_BUF, EMU_NO_BUF, EMU_NO_BUF};
    struct emu_kept kept = {.buf = slot, .all = emu_bits_below(3)};
    struct bufs b;

    bufs_open(&b);
    CU_ASSERT_EQUAL(emu_kept_fold(&b.cache, &sum, kept, emu_bits_below(3), has_buffer), EMU_NO_BUF);
    bufs_close(&b);
}

/* Uses inputs 0 to 3. */
static void outs__select_the_ports_of_the_result(void)
{
    uint64_t all = emu_bits_below(4), up = emu_bit(2), everyone = emu_bit(40);

    for (uint64_t have = 0; have <= all; have++) {
        uint64_t missing = all & ~have;
        bool one = missing && !emu_bits_several(missing);

        CU_ASSERT_EQUAL(emu_combiner_outs(EMU_REDUCE, all, have, up, everyone), one ? missing : 0);
        CU_ASSERT_EQUAL(emu_combiner_outs(EMU_REDUCE, all, have, 0, everyone), one ? missing : 0);
        CU_ASSERT_EQUAL(emu_combiner_outs(EMU_BARRIER, all, have, up, everyone),
                        missing == up ? up : 0);
        CU_ASSERT_EQUAL(emu_combiner_outs(EMU_ALLREDUCE, all, have, 0, everyone),
                        missing ? 0 : everyone);
    }
}

static void agrees__compares_the_operation_only(void)
{
    struct emu_hdr a = {.dst = 1, .src = 2, .seq = 3, .kind = EMU_REDUCE, .len = 8, .op = EMU_SUM},
                   b = a;

    b.dst = b.src = 9;
    CU_ASSERT_TRUE(emu_combiner_agrees(&a, &b));
    b.seq++;
    CU_ASSERT_FALSE(emu_combiner_agrees(&a, &b));
    b = a;
    b.len = 16;
    CU_ASSERT_FALSE(emu_combiner_agrees(&a, &b));
    b = a;
    b.type = EMU_U64;
    CU_ASSERT_FALSE(emu_combiner_agrees(&a, &b));
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(own__copies_a_shared_buffer),         CASE(fold__skips_contributions_without_payload),
        CASE(kept__combines_in_order_of_inputs),   CASE(kept__writes_into_a_new_buffer),
        CASE(kept__may_have_no_buffers),           CASE(outs__select_the_ports_of_the_result),
        CASE(agrees__compares_the_operation_only), {NULL, NULL},
    };

    return test_run("combiner", cases);
}
