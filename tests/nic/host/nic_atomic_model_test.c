/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_atomic_model_test.c - every operation on every type, with one element and with many, compared
 * with a model, over fabrics that reorder, lose, duplicate and corrupt segments.
 *
 * The model computes what the manual page fi_atomic(3) of libfabric says. One thread steps a fake
 * fabric, or a real one's workers, and the adapters.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/combine.h"
#include "tests/test.h"
#include "tests/fixtures/host/cluster.h"
#include "tests/fixtures/host/peers.h"

#define ARRAY_BYTES 184u /* most bytes of one atomic */
#define GUARD       64u  /* bytes around the array that must stay unchanged */
#define BATCH       6u   /* atomics in flight */

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

/* --- the model ------------------------------------------------------------------------ */

#define IS(OP, STEP)         \
    case FABEMU_ATOMIC_##OP: \
        STEP;                \
        break;

#define ORDERED                   \
    IS(MIN, if (b < a) a = b)     \
    IS(MAX, if (b > a) a = b)     \
    IS(CAS_LE, if (c <= a) a = b) \
    IS(CAS_LT, if (c < a) a = b)  \
    IS(CAS_GE, if (c >= a) a = b) \
    IS(CAS_GT, if (c > a) a = b)

#define BITS(T)             \
    IS(AND, a = (T)(a & b)) \
    IS(OR, a = (T)(a | b))  \
    IS(XOR, a = (T)(a ^ b)) \
    IS(MSWAP, a = (T)((b & c) | (a & ~c)))

/* Change one element. Returns false if the operation does not apply to the type. */
#define MODEL(NAME, T, WIDE, ...)                                                                  \
    static bool model_##NAME(unsigned op, void *element, const void *operand, const void *compare) \
    {                                                                                              \
        T a, b, c;                                                                                 \
        memcpy(&a, element, sizeof a);                                                             \
        memcpy(&b, operand, sizeof b);                                                             \
        memcpy(&c, compare, sizeof c);                                                             \
        switch (op) {                                                                              \
            IS(ADD, a = (T)((WIDE)a + (WIDE)b))                                                    \
            IS(PROD, a = (T)((WIDE)a * (WIDE)b))                                                   \
            IS(LOR, a = (T)(a || b))                                                               \
            IS(LAND, a = (T)(a && b))                                                              \
            IS(LXOR, a = (T)((a && !b) || (!a && b)))                                              \
            IS(SWAP, a = b)                                                                        \
            IS(FETCH, )                                                                            \
            IS(CAS_EQ, if (c == a) a = b)                                                          \
            IS(CAS_NE, if (c != a) a = b)                                                          \
            __VA_ARGS__                                                                            \
        default:                                                                                   \
            return false;                                                                          \
        }                                                                                          \
        memcpy(element, &a, sizeof a);                                                             \
        return true;                                                                               \
    }

MODEL(i8, int8_t, uint32_t, ORDERED BITS(int8_t))
MODEL(u8, uint8_t, uint32_t, ORDERED BITS(uint8_t))
MODEL(i16, int16_t, uint32_t, ORDERED BITS(int16_t))
MODEL(u16, uint16_t, uint32_t, ORDERED BITS(uint16_t))
MODEL(i32, int32_t, uint32_t, ORDERED BITS(int32_t))
MODEL(u32, uint32_t, uint32_t, ORDERED BITS(uint32_t))
MODEL(i64, int64_t, uint64_t, ORDERED BITS(int64_t))
MODEL(u64, uint64_t, uint64_t, ORDERED BITS(uint64_t))
MODEL(i128, int128, uint128, ORDERED BITS(int128))
MODEL(u128, uint128, uint128, ORDERED BITS(uint128))
MODEL(f32, float, float, ORDERED)
MODEL(f64, double, double, ORDERED)
MODEL(f128, long double, long double, ORDERED)
MODEL(c32, float _Complex, float _Complex, )
MODEL(c64, double _Complex, double _Complex, )
MODEL(c128, long double _Complex, long double _Complex, )

static const struct {
    unsigned type;
    size_t bytes;
    char class;       /* i: integer, f: floating point, c: complex */
    size_t part;      /* bytes of a number in it */
    size_t alignment; /* that the adapter demands */
    bool (*model)(unsigned op, void *element, const void *operand, const void *compare);
} types[] = {
    {FABEMU_I8, 1, 'i', 1, 1, model_i8},
    {FABEMU_U8, 1, 'i', 1, 1, model_u8},
    {FABEMU_I16, 2, 'i', 2, 2, model_i16},
    {FABEMU_U16, 2, 'i', 2, 2, model_u16},
    {FABEMU_I32, 4, 'i', 4, 4, model_i32},
    {FABEMU_U32, 4, 'i', 4, 4, model_u32},
    {FABEMU_I64, 8, 'i', 8, 8, model_i64},
    {FABEMU_U64, 8, 'i', 8, 8, model_u64},
    {FABEMU_I128, 16, 'i', 16, 1, model_i128},
    {FABEMU_U128, 16, 'i', 16, 1, model_u128},
    {FABEMU_F32, 4, 'f', 4, 4, model_f32},
    {FABEMU_F64, 8, 'f', 8, 8, model_f64},
    {FABEMU_F128, 16, 'f', 16, 1, model_f128},
    {FABEMU_F32_COMPLEX, 8, 'c', 4, 1, model_c32},
    {FABEMU_F64_COMPLEX, 16, 'c', 8, 1, model_c64},
    {FABEMU_F128_COMPLEX, 32, 'c', 16, 1, model_c128},
};
#define TYPES (sizeof types / sizeof types[0])

/* Apply an operation, and its exact comparison of bits, which is not in libfabric. */
static bool model(unsigned op, unsigned t, uint8_t *element, const uint8_t *operand,
                  const uint8_t *compare)
{
    if (op != FABEMU_ATOMIC_CAS)
        return types[t].model(op, element, operand, compare);
    if (types[t].bytes <= 8 && !memcmp(element, compare, types[t].bytes))
        memcpy(element, operand, types[t].bytes);
    return types[t].bytes <= 8;
}

static void part_draw(unsigned t, uint8_t *to, uint64_t *random)
{
    uint64_t r = test_random(random);
    long double f128 = (long double)(int)(r % 7) - 3;
    int128 integer = (int128)(r % 7) - 3;

    if (types[t].class == 'f' && r % 11 < 2)
        f128 = r % 11 ? (long double)NAN : -0.0L;
    if (r >> 62 == 0)
        integer = (int128)(((uint128)test_random(random) << 64) | r);
    double f64 = (double)f128;
    float f32 = (float)f128;

    if (types[t].class == 'i')
        memcpy(to, &integer, types[t].part);
    else
        memcpy(to,
               types[t].part == 4   ? (void *)&f32
               : types[t].part == 8 ? (void *)&f64
                                    : &f128,
               types[t].part);
}

static void draw(unsigned t, uint8_t *to, size_t count, uint64_t *random)
{
    for (size_t i = 0; i < count * types[t].bytes; i += types[t].part)
        part_draw(t, to + i, random);
}

/* Compare all but the six unused bytes of long doubles. */
static bool same(unsigned t, const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t part = types[t].part, bytes = types[t].class != 'i' && part == 16 ? 10 : part;

    for (size_t i = 0; i < count * types[t].bytes; i += part)
        if (memcmp(a + i, b + i, bytes))
            return false;
    return true;
}

/* --- fabrics -------------------------------------------------------------------------- */

struct setting {
    const char *profile; /* NULL: a fake fabric */
    bool shuffle;
    uint32_t bad; /* faults of each kind per million entries */
};

struct setup {
    const struct setting *set;
    struct peers peers;
    struct cluster cluster;
    struct fabemu *from, *at;
    uint64_t random;
};

static void setup_open(struct setup *w, const struct setting *set)
{
    memset(w, 0, sizeof *w);
    w->set = set;
    w->random = test_seed();
    if (!set->profile) {
        peers_open(&w->peers, 2, set->shuffle);
        w->from = w->peers.fab[0];
        w->at = w->peers.fab[1];
        return;
    }
    cluster_open(&w->cluster, &(struct cluster_config){.topo = "kary:2,1",
                                                       .profile = set->profile,
                                                       .bad = set->bad});
    w->from = w->cluster.fab[0];
    w->at = w->cluster.fab[1];
}

static void setup_close(struct setup *w)
{
    if (w->set->profile) {
        cluster_close(&w->cluster);
        return;
    }
    CU_ASSERT_TRUE(peers_clean(w->from) && peers_clean(w->at));
    peers_close(&w->peers);
}

static void finish(struct setup *w, struct fabemu_req *req, uint32_t count)
{
    CU_ASSERT_TRUE_FATAL(w->set->profile ? cluster_finish(&w->cluster, req, count)
                                         : fake_finish(w->peers.fake, req, count));
}

/* --- tests ---------------------------------------------------------------------------- */

struct batch {
    struct fabemu_req req[BATCH];
    unsigned op[BATCH];
    size_t count;
    bool fetches[BATCH];
    uint8_t operand[BATCH][ARRAY_BYTES], compare[BATCH][ARRAY_BYTES];
    uint8_t before[BATCH][ARRAY_BYTES + GUARD];
};

/* Post the first @op of a batch, and other operations after it. */
static void batch_post(struct setup *w, struct batch *b, unsigned t, unsigned op, uint64_t key,
                       const uint8_t *memory)
{
    memset(b->req, 0, sizeof b->req);
    memset(b->before, 0xdd, sizeof b->before);
    for (unsigned i = 0; i < BATCH; i++) {
        do
            b->op[i] = i ? (unsigned)(test_random(&w->random) % FABEMU_ATOMIC_OPS) : op;
        while (fabemu_atomic_most(b->op[i], types[t].type) < b->count);
        b->fetches[i] = test_random(&w->random) % 3;
        draw(t, b->operand[i], b->count, &w->random);
        draw(t, b->compare[i], b->count, &w->random);
        if (test_random(&w->random) % 2)
            memcpy(b->compare[i], memory, b->count * types[t].bytes);
        struct fabemu_atomic what = {.node = 1,
                                     .key = key,
                                     .offset = GUARD,
                                     .op = b->op[i],
                                     .type = types[t].type,
                                     .operand = b->operand[i],
                                     .compare = b->compare[i],
                                     .result = b->fetches[i] ? b->before[i] : NULL};

        bool one = b->count == 1 && types[t].bytes <= 8;

        CU_ASSERT_EQUAL(one ? fabemu_atomic(w->from, &what, &b->req[i])
                            : fabemu_atomic_array(w->from, &what, b->count, &b->req[i]),
                        0);
    }
}

/* Compare results with the model: the array was @was before the batch. */
static bool batch_agrees(const struct batch *b, unsigned t, uint8_t *was, const uint8_t *is)
{
    size_t bytes = types[t].bytes, all = b->count * bytes;
    bool good = true;

    for (unsigned i = 0; i < BATCH; i++) {
        good = good && fabemu_req_status(&b->req[i]) == 0 &&
               (b->fetches[i] ? same(t, b->before[i], was, b->count) : b->before[i][0] == 0xdd) &&
               b->before[i][all] == 0xdd;
        for (size_t at = 0; at < all; at += bytes)
            good = model(b->op[i], t, was + at, b->operand[i] + at, b->compare[i] + at) && good;
    }
    return good && same(t, was, is, b->count);
}

static bool bytes_are(const uint8_t *at, size_t bytes, uint8_t value)
{
    return at[0] == value && !memcmp(at, at + 1, bytes - 1);
}

/* Batches on arrays of @count elements, in one piece of memory or in two. */
static bool agrees(struct setup *w, unsigned t, unsigned op, size_t count)
{
    static alignas(64) uint8_t memory[GUARD + ARRAY_BYTES + GUARD], was[ARRAY_BYTES];
    size_t all = count * types[t].bytes, first = GUARD + count / 2 * types[t].bytes;
    bool pieces = test_random(&w->random) % 2;
    struct fabemu_iov iov[2] = {{memory, pieces ? first : sizeof memory},
                                {memory + first, pieces ? sizeof memory - first : 0}};
    struct batch *b = malloc(sizeof *b);
    uint64_t key;
    bool good;

    memset(memory, 0xee, sizeof memory);
    draw(t, memory + GUARD, count, &w->random);
    memcpy(was, memory + GUARD, all);
    CU_ASSERT_EQUAL_FATAL(fabemu_registerv(w->at, iov, 2, FABEMU_REMOTE_ATOMIC, &key), 0);
    b->count = count;
    batch_post(w, b, t, op, key, was);
    finish(w, b->req, BATCH);
    good = batch_agrees(b, t, was, memory + GUARD) && bytes_are(memory, GUARD, 0xee) &&
           bytes_are(memory + GUARD + all, GUARD, 0xee);
    fabemu_unregister(w->at, key);
    free(b);
    return good;
}

static const struct setting settings[] = {
    {.shuffle = false},
    {.shuffle = true},
    {.profile = "oq2004"},
    {.profile = "qsnet3"},
    {.profile = "qsnet3", .bad = 2000},
};

static void atomic__agrees_with_the_model(void)
{
    uint8_t zero[32] = {0}, element[32] = {0};

    test_each_setting (s, sizeof settings / sizeof settings[0]) {
        struct setup *w = malloc(sizeof *w);

        setup_open(w, &settings[s]);
        for (unsigned t = 0; t < TYPES; t++)
            for (unsigned op = 0; op < FABEMU_ATOMIC_OPS; op++) {
                size_t most = fabemu_atomic_most(op, types[t].type);

                CU_ASSERT_EQUAL(most != 0, model(op, t, element, zero, zero));
                CU_ASSERT_EQUAL(most != 0, fabemu_atomic_ok(op, types[t].type));
                if (!most)
                    continue;
                CU_ASSERT_TRUE(agrees(w, t, op, 1));
                CU_ASSERT_TRUE(agrees(w, t, op, most < 2 ? most : 2));
                CU_ASSERT_TRUE(agrees(w, t, op, most));
            }
        setup_close(w);
        free(w);
    }
}

/* An array with one element that is not aligned, or not in one piece, is not changed at all. */
static void atomic__changes_all_elements_or_none(void)
{
    struct setup *w = malloc(sizeof *w);
    alignas(16) uint8_t memory[ARRAY_BYTES + 16], was[sizeof memory], operand[64] = {0};

    setup_open(w, &settings[0]);
    for (unsigned t = 0; t < TYPES; t++) {
        size_t bytes = types[t].bytes;
        struct fabemu_iov iov[2] = {{memory, bytes + bytes / 2}, {memory + bytes + bytes / 2, 40}};
        struct fabemu_req req = {0};
        uint64_t key, cut;
        struct fabemu_atomic what = {.node = 1,
                                     .op = FABEMU_ATOMIC_SWAP,
                                     .type = types[t].type,
                                     .operand = operand,
                                     .offset = 1};

        memset(memory, 0xee, sizeof memory);
        memcpy(was, memory, sizeof was);
        fabemu_register(w->at, memory, sizeof memory, FABEMU_REMOTE_ATOMIC, &key);
        what.key = key;
        CU_ASSERT_EQUAL(fabemu_atomic_array(w->from, &what, 2, &req), 0);
        finish(w, &req, 1);
        CU_ASSERT_EQUAL(req.status, types[t].alignment > 1 ? -EINVAL : 0);
        CU_ASSERT_EQUAL(memcmp(was, memory, sizeof was) == 0, types[t].alignment > 1);
        fabemu_unregister(w->at, key);
        if (bytes == 1)
            continue;
        memcpy(memory, was, sizeof memory);
        fabemu_registerv(w->at, iov, 2, FABEMU_REMOTE_ATOMIC, &cut);
        what.key = cut;
        what.offset = 0;
        CU_ASSERT_EQUAL(fabemu_atomic_array(w->from, &what, 2, &req), 0);
        finish(w, &req, 1);
        CU_ASSERT_EQUAL(req.status, -EINVAL);
        CU_ASSERT_TRUE(!memcmp(was, memory, sizeof was));
        fabemu_unregister(w->at, cut);
    }
    setup_close(w);
    free(w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(atomic__agrees_with_the_model),
        CASE(atomic__changes_all_elements_or_none),
        {0},
    };

    return test_run("nic_atomic_model", cases);
}
