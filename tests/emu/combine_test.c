/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine_test.c - compares reductions with a simple model.
 *
 * The model reads one element at a time, computes in 128-bit integers or in the element's own
 * arithmetic, and compares values only, never the padding of pairs.
 */
#include "emu/util/combine.h"
#include "tests/test.h"

#include <math.h>
#include <stdalign.h>
#include <string.h>

#define MOST          31 /* elements */
#define ELEMENT_BYTES 32 /* bytes of the largest type */

enum kind { INTEGER, REAL, PAIR };

/* The layout of each type as the header states it, repeated here on purpose. */
static const struct {
    enum kind kind;
    size_t bytes;
    size_t index_at; /* pairs: offset of the index */
    char value;      /* i: signed, u: unsigned, f: floating point */
    char index;
    size_t value_bytes;
} types[EMU_TYPES] = {
    [EMU_I8] = {INTEGER, 1, 0, 'i', 0, 1},      [EMU_U8] = {INTEGER, 1, 0, 'u', 0, 1},
    [EMU_I16] = {INTEGER, 2, 0, 'i', 0, 2},     [EMU_U16] = {INTEGER, 2, 0, 'u', 0, 2},
    [EMU_I32] = {INTEGER, 4, 0, 'i', 0, 4},     [EMU_U32] = {INTEGER, 4, 0, 'u', 0, 4},
    [EMU_I64] = {INTEGER, 8, 0, 'i', 0, 8},     [EMU_U64] = {INTEGER, 8, 0, 'u', 0, 8},
    [EMU_F32] = {REAL, 4, 0, 'f', 0, 4},        [EMU_F64] = {REAL, 8, 0, 'f', 0, 8},
    [EMU_F32_I32] = {PAIR, 8, 4, 'f', 'i', 4},  [EMU_F64_I32] = {PAIR, 16, 8, 'f', 'i', 8},
    [EMU_I64_I32] = {PAIR, 16, 8, 'i', 'i', 8}, [EMU_I32_I32] = {PAIR, 8, 4, 'i', 'i', 4},
    [EMU_I16_I32] = {PAIR, 8, 4, 'i', 'i', 2},  [EMU_F128_I32] = {PAIR, 32, 16, 'f', 'i', 16},
    [EMU_F32_F32] = {PAIR, 8, 4, 'f', 'f', 4},  [EMU_F64_F64] = {PAIR, 16, 8, 'f', 'f', 8},
};

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

/* A scalar read from its bytes: integers in i, floating point in f. */
struct scalar {
    int128 i;
    long double f;
};

static struct scalar scalar_get(char class, size_t bytes, const uint8_t *from)
{
    struct scalar s = {0, 0};
    uint64_t bits = 0;
    double f64;
    float f32;

    if (class != 'f') {
        memcpy(&bits, from, bytes);
        s.i = bits;
        if (class == 'i' && bits >> (8 * bytes - 1))
            s.i -= (int128)1 << (8 * bytes);
    } else if (bytes == 4) {
        memcpy(&f32, from, bytes);
        s.f = f32;
    } else if (bytes == 8) {
        memcpy(&f64, from, bytes);
        s.f = f64;
    } else {
        memcpy(&s.f, from, bytes);
    }
    return s;
}

static void scalar_put(char class, size_t bytes, uint8_t *to, struct scalar s)
{
    uint64_t bits = (uint64_t)s.i;
    double f64 = (double)s.f;
    float f32 = (float)s.f;

    if (class != 'f')
        memcpy(to, &bits, bytes); /* the low bytes: wraps */
    else
        memcpy(to, bytes == 4 ? (void *)&f32 : bytes == 8 ? (void *)&f64 : (void *)&s.f, bytes);
}

static int128 model_integer(unsigned op, int128 a, int128 b)
{
    switch (op) {
    case EMU_SUM:
        return a + b;
    case EMU_MIN:
        return b < a ? b : a;
    case EMU_MAX:
        return b > a ? b : a;
    case EMU_PROD:
        return (int128)((uint128)a * (uint128)b);
    case EMU_LAND:
        return a != 0 && b != 0;
    case EMU_LOR:
        return a != 0 || b != 0;
    case EMU_LXOR:
        return (a != 0) + (b != 0) == 1;
    case EMU_BAND:
        return a & b;
    case EMU_BOR:
        return a | b;
    default:
        return a ^ b;
    }
}

/* A double holds the exact sum or product of two floats to within one rounding. */
static long double model_real(unsigned op, double a, double b)
{
    switch (op) {
    case EMU_SUM:
        return a + b;
    case EMU_PROD:
        return a * b;
    case EMU_MIN:
        return a < b ? a : b;
    default:
        return a > b ? a : b;
    }
}

static int order(struct scalar a, struct scalar b)
{
    return (a.i > b.i || a.f > b.f) - (a.i < b.i || a.f < b.f);
}

/* acc = acc op in, for one element. */
static void model_element(unsigned op, unsigned type, uint8_t *acc, const uint8_t *in)
{
    char value = types[type].value, index = types[type].index;
    size_t bytes = types[type].value_bytes, at = types[type].index_at;
    struct scalar a = scalar_get(value, bytes, acc), b = scalar_get(value, bytes, in);

    if (types[type].kind == PAIR) {
        size_t index_bytes = bytes == 8 && index == 'f' ? 8 : 4;
        struct scalar a_at = scalar_get(index, index_bytes, acc + at);
        struct scalar b_at = scalar_get(index, index_bytes, in + at);
        int in_leads = op == EMU_MINLOC ? order(a, b) : order(b, a);

        if (in_leads > 0)
            scalar_put(value, bytes, acc, b);
        if (in_leads > 0 || (in_leads == 0 && order(b_at, a_at) < 0))
            scalar_put(index, index_bytes, acc + at, b_at);
        return;
    }
    if (types[type].kind == INTEGER)
        a.i = model_integer(op, a.i, b.i);
    else
        a.f = model_real(op, (double)a.f, (double)b.f);
    scalar_put(value, bytes, acc, a);
}

/* Values that often coincide, and the extremes of every width. */
static struct scalar scalar_random(uint64_t *random)
{
    uint64_t bits = test_random(random);
    int small = (int)(test_random(random) % 5) - 2;

    switch (test_random(random) % 4) {
    case 0:
        return (struct scalar){small, small};
    case 1:
        return (struct scalar){(int128)1 << (bits % 65), ldexpl(1, (int)(bits % 65))};
    case 2:
        return (struct scalar){((int128)1 << (bits % 65)) - 1, -ldexpl(1, (int)(bits % 65))};
    default:
        return (struct scalar){(int64_t)bits, (int64_t)bits / 1048576.0L};
    }
}

static void elements_random(unsigned type, uint8_t *to, size_t count, uint64_t *random)
{
    size_t bytes = types[type].value_bytes;

    memset(to, 0, count * types[type].bytes);
    for (size_t i = 0; i < count; i++, to += types[type].bytes) {
        scalar_put(types[type].value, bytes, to, scalar_random(random));
        if (types[type].kind == PAIR)
            scalar_put(types[type].index, bytes == 8 && types[type].index == 'f' ? 8 : 4,
                       to + types[type].index_at, scalar_random(random));
    }
}

/* Bytes of a scalar that carry its value: a long double has six unused bytes. */
static size_t value_bytes(size_t bytes)
{
    return bytes == 16 ? 10 : bytes;
}

static bool elements_equal(unsigned type, const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t bytes = types[type].value_bytes, at = types[type].index_at;
    size_t index_bytes = bytes == 8 && types[type].index == 'f' ? 8 : 4;

    for (size_t i = 0; i < count; i++, a += types[type].bytes, b += types[type].bytes)
        if (memcmp(a, b, value_bytes(bytes)) ||
            (types[type].kind == PAIR && memcmp(a + at, b + at, index_bytes)))
            return false;
    return true;
}

static bool agrees_with_model(unsigned op, unsigned type, size_t count, size_t skew,
                              uint64_t *random)
{
    alignas(64) uint8_t acc[MOST * ELEMENT_BYTES + 64], in[MOST * ELEMENT_BYTES + 64];
    uint8_t want[MOST * ELEMENT_BYTES], in_was[MOST * ELEMENT_BYTES];
    size_t bytes = count * types[type].bytes, in_skew = skew ? 17 - skew : 0;

    memset(acc, 0xa5, sizeof acc);
    elements_random(type, acc + skew, count, random);
    elements_random(type, in + in_skew, count, random);
    memcpy(want, acc + skew, bytes);
    memcpy(in_was, in + in_skew, bytes);
    for (size_t i = 0; i < count; i++)
        model_element(op, type, want + i * types[type].bytes, in_was + i * types[type].bytes);

    emu_combine_fold(op, type, acc + skew, in + in_skew, bytes);

    bool around = acc[skew + bytes] == 0xa5 && (!skew || acc[skew - 1] == 0xa5);
    return around && memcmp(in + in_skew, in_was, bytes) == 0 &&
           elements_equal(type, acc + skew, want, count);
}

static void emu_combine_fold__agrees_with_the_model(void)
{
    static const size_t counts[] = {0, 1, 7, MOST};
    uint64_t random = test_seed();

    for (unsigned op = 0; op < EMU_OPS; op++)
        for (unsigned type = 0; type < EMU_TYPES; type++) {
            uint32_t wrong = 0;

            if (!emu_combine_ok(op, type))
                continue;
            for (size_t skew = 0; skew < 16; skew++)
                for (size_t c = 0; c < 4; c++)
                    for (int round = 0; round < 8; round++)
                        wrong += !agrees_with_model(op, type, counts[c], skew, &random);
            if (wrong)
                printf("op %u type %u: %u wrong\n", op, type, wrong);
            CU_ASSERT_EQUAL(wrong, 0);
        }
}

static void emu_combine_ok__follows_mpi(void)
{
    for (unsigned op = 0; op < EMU_OPS; op++)
        for (unsigned type = 0; type < EMU_TYPES; type++) {
            bool arithmetic = op <= EMU_PROD, loc = op == EMU_MINLOC || op == EMU_MAXLOC;
            bool want = types[type].kind == INTEGER ? !loc
                        : types[type].kind == REAL  ? arithmetic
                                                    : loc;

            CU_ASSERT_EQUAL(emu_combine_ok(op, type), want);
        }
}

static void emu_combine_ok__refuses_the_unknown(void)
{
    CU_ASSERT_FALSE(emu_combine_ok(EMU_OPS, EMU_I32));
    CU_ASSERT_FALSE(emu_combine_ok(EMU_SUM, EMU_TYPES));
    CU_ASSERT_FALSE(emu_combine_ok(255, 255));
    CU_ASSERT_FALSE(emu_combine_ok(UINT32_MAX, UINT32_MAX));
}

/*
 * For every value that a header can carry, and some more: only operations and types in the table
 * have an effect.
 */
static void emu_combine_fold__refuses_what_is_not_in_the_table(void)
{
    const unsigned remote[] = {256, 65536, UINT32_MAX};
    uint8_t acc[ELEMENT_BYTES], in[sizeof acc], was[sizeof acc];
    uint32_t wrong = 0;

    memset(in, 3, sizeof in);
    memset(was, 0xa5, sizeof was);
    for (unsigned op = 0; op < 256; op++)
        for (unsigned type = 0; type < 256; type++) {
            memcpy(acc, was, sizeof acc);
            wrong += emu_combine_fold(op, type, acc, in, sizeof acc) != emu_combine_ok(op, type);
            wrong += !emu_combine_ok(op, type) && memcmp(acc, was, sizeof acc) != 0;
        }
    for (unsigned i = 0; i < sizeof remote / sizeof remote[0]; i++)
        wrong += emu_combine_fold(remote[i], EMU_I32, acc, in, sizeof acc) ||
                 emu_combine_fold(EMU_SUM, remote[i], acc, in, sizeof acc);
    CU_ASSERT_EQUAL(wrong, 0);
}

/* A payload is one or more whole elements. */
static void emu_combine_takes__whole_elements_only(void)
{
    for (unsigned op = 0; op < EMU_OPS + 1; op++)
        for (unsigned type = 0; type < EMU_TYPES + 1; type++)
            for (size_t bytes = 0; bytes < 100; bytes++)
                CU_ASSERT_EQUAL(emu_combine_takes(op, type, bytes),
                                emu_combine_ok(op, type) && bytes &&
                                    bytes % types[type].bytes == 0);
}

static void emu_type_bytes__agrees_with_sizeof(void)
{
    for (unsigned type = 0; type < EMU_TYPES; type++)
        CU_ASSERT_EQUAL(emu_type_bytes(type), types[type].bytes);
    CU_ASSERT_EQUAL(emu_type_bytes(EMU_TYPES), 0);
    CU_ASSERT_EQUAL(emu_type_bytes(UINT32_MAX), 0);
}

static void emu_combine_fold__integers_wrap(void)
{
    int32_t a = INT32_MAX, one = 1, low = INT32_MIN, minus = -1;
    int64_t a64 = INT64_MIN, minus64 = -1;
    uint16_t a16 = 65535, b16 = 65535;
    int8_t a8 = -128, b8 = -1;

    emu_combine_fold(EMU_SUM, EMU_I32, &a, &one, sizeof a);
    CU_ASSERT_EQUAL(a, INT32_MIN);
    emu_combine_fold(EMU_PROD, EMU_I32, &low, &minus, sizeof low);
    CU_ASSERT_EQUAL(low, INT32_MIN);
    emu_combine_fold(EMU_PROD, EMU_I64, &a64, &minus64, sizeof a64);
    CU_ASSERT_EQUAL(a64, INT64_MIN);
    emu_combine_fold(EMU_SUM, EMU_I64, &a64, &minus64, sizeof a64);
    CU_ASSERT_EQUAL(a64, INT64_MAX);
    /* promoted to int it would overflow */
    emu_combine_fold(EMU_PROD, EMU_U16, &a16, &b16, sizeof a16);
    CU_ASSERT_EQUAL(a16, 1);
    emu_combine_fold(EMU_SUM, EMU_I8, &a8, &b8, sizeof a8);
    CU_ASSERT_EQUAL(a8, 127);
}

static void emu_combine_fold__logic_gives_0_or_1(void)
{
    int32_t and = 6, or = 0, xor = 6, eight = 8;

    emu_combine_fold(EMU_LAND, EMU_I32, &and, &eight, sizeof and);
    emu_combine_fold(EMU_LOR, EMU_I32, & or, &eight, sizeof or);
    emu_combine_fold(EMU_LXOR, EMU_I32, &xor, &eight, sizeof xor);
    CU_ASSERT_EQUAL(and, 1);
    CU_ASSERT_EQUAL(or, 1);
    CU_ASSERT_EQUAL(xor, 0);
}

static void emu_combine_fold__ties_go_to_the_smaller_index(void)
{
    struct {
        double value;
        int index;
    } a = {2.5, 7}, b = {2.5, 3}, remote = {2.5, 9};

    emu_combine_fold(EMU_MINLOC, EMU_F64_I32, &a, &b, sizeof a);
    CU_ASSERT_EQUAL(a.index, 3);
    emu_combine_fold(EMU_MAXLOC, EMU_F64_I32, &a, &remote, sizeof a);
    CU_ASSERT_EQUAL(a.index, 3);
    emu_combine_fold(EMU_MAXLOC, EMU_F64_I32, &remote, &a, sizeof remote);
    CU_ASSERT_EQUAL(remote.index, 3);
    remote.value = 2.0;
    emu_combine_fold(EMU_MAXLOC, EMU_F64_I32, &remote, &b, sizeof remote);
    CU_ASSERT_EQUAL(remote.value, 2.5);
    CU_ASSERT_EQUAL(remote.index, 3);
}

/* Neither NaN nor signed zeros are totally ordered: a op b must be exactly (a < b ? a : b). */
static void emu_combine_fold__keeps_operand_order_of_floats(void)
{
    double nan_first[] = {NAN, 1, 0.0, -0.0}, other[] = {1, NAN, -0.0, 0.0};

    emu_combine_fold(EMU_MIN, EMU_F64, nan_first, other, sizeof nan_first);
    CU_ASSERT_EQUAL(nan_first[0], 1);
    CU_ASSERT(isnan(nan_first[1]));
    CU_ASSERT(signbit(nan_first[2]));
    CU_ASSERT_FALSE(signbit(nan_first[3]));

    struct {
        float value;
        int index;
    } pair[] = {{NAN, 1}, {0, 1}}, in[] = {{1, 0}, {-0.0f, 0}};
    emu_combine_fold(EMU_MINLOC, EMU_F32_I32, pair, in, sizeof pair);
    CU_ASSERT(isnan(pair[0].value));
    CU_ASSERT_EQUAL(pair[0].index, 1);
    CU_ASSERT_FALSE(signbit(pair[1].value)); /* equal values: the left one stays, */
    CU_ASSERT_EQUAL(pair[1].index, 0);       /* with the smaller index */
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(emu_combine_fold__agrees_with_the_model),
        CASE(emu_combine_ok__follows_mpi),
        CASE(emu_combine_ok__refuses_the_unknown),
        CASE(emu_combine_fold__refuses_what_is_not_in_the_table),
        CASE(emu_combine_takes__whole_elements_only),
        CASE(emu_type_bytes__agrees_with_sizeof),
        CASE(emu_combine_fold__integers_wrap),
        CASE(emu_combine_fold__logic_gives_0_or_1),
        CASE(emu_combine_fold__ties_go_to_the_smaller_index),
        CASE(emu_combine_fold__keeps_operand_order_of_floats),
        {NULL, NULL},
    };

    return test_run("combine", cases);
}
