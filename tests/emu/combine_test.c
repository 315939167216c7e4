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

enum kind { INTEGER, REAL, COMPLEX, PAIR };

/* The layout of each type as the header states it, repeated here on purpose. */
static const struct {
    enum kind kind;
    size_t bytes;
    size_t index_at; /* pairs: offset of the index; complex numbers: of the imaginary part */
    char value;      /* i: signed, u: unsigned, f: floating point */
    char index;
    size_t value_bytes;
} types[EMU_TYPES] = {
    [EMU_I8] = {INTEGER, 1, 0, 'i', 0, 1},
    [EMU_U8] = {INTEGER, 1, 0, 'u', 0, 1},
    [EMU_I16] = {INTEGER, 2, 0, 'i', 0, 2},
    [EMU_U16] = {INTEGER, 2, 0, 'u', 0, 2},
    [EMU_I32] = {INTEGER, 4, 0, 'i', 0, 4},
    [EMU_U32] = {INTEGER, 4, 0, 'u', 0, 4},
    [EMU_I64] = {INTEGER, 8, 0, 'i', 0, 8},
    [EMU_U64] = {INTEGER, 8, 0, 'u', 0, 8},
    [EMU_F32] = {REAL, 4, 0, 'f', 0, 4},
    [EMU_F64] = {REAL, 8, 0, 'f', 0, 8},
    [EMU_F32_I32] = {PAIR, 8, 4, 'f', 'i', 4},
    [EMU_F64_I32] = {PAIR, 16, 8, 'f', 'i', 8},
    [EMU_I64_I32] = {PAIR, 16, 8, 'i', 'i', 8},
    [EMU_I32_I32] = {PAIR, 8, 4, 'i', 'i', 4},
    [EMU_I16_I32] = {PAIR, 8, 4, 'i', 'i', 2},
    [EMU_F128_I32] = {PAIR, 32, 16, 'f', 'i', 16},
    [EMU_F32_F32] = {PAIR, 8, 4, 'f', 'f', 4},
    [EMU_F64_F64] = {PAIR, 16, 8, 'f', 'f', 8},
    [EMU_F128] = {REAL, 16, 0, 'f', 0, 16},
    [EMU_F32_COMPLEX] = {COMPLEX, 8, 4, 'f', 'f', 4},
    [EMU_F64_COMPLEX] = {COMPLEX, 16, 8, 'f', 'f', 8},
    [EMU_F128_COMPLEX] = {COMPLEX, 32, 16, 'f', 'f', 16},
    [EMU_I128] = {INTEGER, 16, 0, 'i', 0, 16},
    [EMU_U128] = {INTEGER, 16, 0, 'u', 0, 16},
};

static bool has_two(unsigned type)
{
    return types[type].kind == PAIR || types[type].kind == COMPLEX;
}

static size_t index_bytes(unsigned type)
{
    return types[type].index == 'f' ? types[type].value_bytes : 4;
}

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
    uint128 bits = 0;
    double f64;
    float f32;

    if (class != 'f') {
        memcpy(&bits, from, bytes);
        s.i = (int128)bits;
        if (class == 'i' && bytes < 16 && bits >> (8 * bytes - 1))
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
    uint128 bits = (uint128)s.i;
    double f64 = (double)s.f;
    float f32 = (float)s.f;

    if (class != 'f')
        memcpy(to, &bits, bytes); /* the low bytes: wraps */
    else
        memcpy(to, bytes == 4 ? (void *)&f32 : bytes == 8 ? (void *)&f64 : (void *)&s.f, bytes);
}

static bool integer_is_less(unsigned type, int128 a, int128 b)
{
    return type == EMU_U128 ? (uint128)a < (uint128)b : a < b;
}

static int128 model_integer(unsigned op, unsigned type, int128 a, int128 b)
{
    switch (op) {
    case EMU_SUM:
        return (int128)((uint128)a + (uint128)b);
    case EMU_MIN:
        return integer_is_less(type, b, a) ? b : a;
    case EMU_MAX:
        return integer_is_less(type, a, b) ? b : a;
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

static bool model_logical(unsigned op, bool a, bool b)
{
    return op == EMU_LAND ? a && b : op == EMU_LOR ? a || b : a != b;
}

/* A double holds the exact sum or product of two floats to within one rounding. */
static long double model_real(unsigned op, unsigned type, long double a, long double b)
{
    bool wide = type == EMU_F128;

    switch (op) {
    case EMU_SUM:
        return wide ? a + b : (double)a + (double)b;
    case EMU_PROD:
        return wide ? a * b : (double)a * (double)b;
    case EMU_MIN:
        return a < b ? a : b;
    case EMU_MAX:
        return a > b ? a : b;
    default:
        return model_logical(op, a != 0, b != 0);
    }
}

/* The parts are small integers, so that all results are exact. */
static void model_complex(unsigned op, unsigned type, uint8_t *acc, const uint8_t *in)
{
    size_t bytes = types[type].value_bytes, at = types[type].index_at;
    long double a = scalar_get('f', bytes, acc).f, a_i = scalar_get('f', bytes, acc + at).f;
    long double b = scalar_get('f', bytes, in).f, b_i = scalar_get('f', bytes, in + at).f;
    struct scalar real = {0, model_logical(op, a != 0 || a_i != 0, b != 0 || b_i != 0)};
    struct scalar imaginary = {0, 0};

    if (op == EMU_SUM) {
        real.f = a + b;
        imaginary.f = a_i + b_i;
    } else if (op == EMU_PROD) {
        real.f = a * b - a_i * b_i;
        imaginary.f = a * b_i + a_i * b;
    }
    scalar_put('f', bytes, acc, real);
    scalar_put('f', bytes, acc + at, imaginary);
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

    if (types[type].kind == COMPLEX) {
        model_complex(op, type, acc, in);
        return;
    }
    if (types[type].kind == PAIR) {
        struct scalar a_at = scalar_get(index, index_bytes(type), acc + at);
        struct scalar b_at = scalar_get(index, index_bytes(type), in + at);
        int in_leads = op == EMU_MINLOC ? order(a, b) : order(b, a);

        if (in_leads > 0)
            scalar_put(value, bytes, acc, b);
        if (in_leads > 0 || (in_leads == 0 && order(b_at, a_at) < 0))
            scalar_put(index, index_bytes(type), acc + at, b_at);
        return;
    }
    if (types[type].kind == INTEGER)
        a.i = model_integer(op, type, a.i, b.i);
    else
        a.f = model_real(op, type, a.f, b.f);
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

/* A value, or a part of a complex number: a small integer. */
static struct scalar part_random(unsigned type, uint64_t *random)
{
    int small = (int)(test_random(random) % 5) - 2;

    return types[type].kind == COMPLEX ? (struct scalar){0, small} : scalar_random(random);
}

static void elements_random(unsigned type, uint8_t *to, size_t count, uint64_t *random)
{
    size_t bytes = types[type].value_bytes;

    memset(to, 0, count * types[type].bytes);
    for (size_t i = 0; i < count; i++, to += types[type].bytes) {
        scalar_put(types[type].value, bytes, to, part_random(type, random));
        if (has_two(type))
            scalar_put(types[type].index, index_bytes(type), to + types[type].index_at,
                       part_random(type, random));
    }
}

/* Bytes of a scalar that carry its value: a long double has six unused bytes. */
static size_t value_bytes(unsigned type)
{
    size_t bytes = types[type].value_bytes;

    return bytes == 16 && types[type].value == 'f' ? 10 : bytes;
}

static bool elements_equal(unsigned type, const uint8_t *a, const uint8_t *b, size_t count)
{
    size_t at = types[type].index_at;
    size_t second = types[type].index == 'f' ? value_bytes(type) : 4;

    for (size_t i = 0; i < count; i++, a += types[type].bytes, b += types[type].bytes)
        if (memcmp(a, b, value_bytes(type)) || (has_two(type) && memcmp(a + at, b + at, second)))
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

/* As MPI defines it; and logical operations on all numbers, as libfabric defines it. */
static void emu_combine_ok__follows_mpi_and_libfabric(void)
{
    static const uint32_t ordered = 1 << EMU_MIN | 1 << EMU_MAX;
    static const uint32_t any = 1 << EMU_SUM | 1 << EMU_PROD | 1 << EMU_LAND | 1 << EMU_LOR |
                                1 << EMU_LXOR;
    static const uint32_t bits = 1 << EMU_BAND | 1 << EMU_BOR | 1 << EMU_BXOR;
    static const uint32_t want[] = {[INTEGER] = any | ordered | bits,
                                    [REAL] = any | ordered,
                                    [COMPLEX] = any,
                                    [PAIR] = 1 << EMU_MINLOC | 1 << EMU_MAXLOC};

    for (unsigned op = 0; op < EMU_OPS; op++)
        for (unsigned type = 0; type < EMU_TYPES; type++)
            CU_ASSERT_EQUAL(emu_combine_ok(op, type), want[types[type].kind] >> op & 1);
}

static unsigned relation(unsigned type, long double a, long double b)
{
    uint8_t left[ELEMENT_BYTES + 1] = {0}, right[ELEMENT_BYTES + 1] = {0};
    char value = types[type].value;
    size_t bytes = types[type].value_bytes;

    scalar_put(value, bytes, left + 1, (struct scalar){value == 'f' ? 0 : (int128)a, a});
    scalar_put(value, bytes, right + 1, (struct scalar){value == 'f' ? 0 : (int128)b, b});
    return emu_combine_relation(type, left + 1, right + 1);
}

static void emu_combine_relation__compares_values(void)
{
    for (unsigned type = 0; type < EMU_TYPES + 1; type++) {
        bool pair = type == EMU_TYPES || types[type].kind == PAIR;
        bool complex = !pair && types[type].kind == COMPLEX;

        if (pair) {
            CU_ASSERT_EQUAL(emu_combine_relation(type, "", ""), 0);
            continue;
        }
        CU_ASSERT_EQUAL(relation(type, 3, 3), EMU_EQUAL);
        CU_ASSERT_EQUAL(relation(type, 2, 3), complex ? EMU_UNORDERED : EMU_LESS);
        CU_ASSERT_EQUAL(relation(type, 3, 2), complex ? EMU_UNORDERED : EMU_GREATER);
        if (types[type].value == 'i')
            CU_ASSERT_EQUAL(relation(type, -1, 1), EMU_LESS);
        if (types[type].value != 'f')
            continue;
        CU_ASSERT_EQUAL(relation(type, 0.0L, -0.0L), EMU_EQUAL);
        CU_ASSERT_EQUAL(relation(type, (long double)NAN, 1), EMU_UNORDERED);
        CU_ASSERT_EQUAL(relation(type, (long double)NAN, (long double)NAN), EMU_UNORDERED);
    }
    uint64_t top[2][2] = {{0, UINT64_C(1) << 63}, {1, 0}};

    CU_ASSERT_EQUAL(emu_combine_relation(EMU_I128, top[0], top[1]), EMU_LESS);
    CU_ASSERT_EQUAL(emu_combine_relation(EMU_U128, top[0], top[1]), EMU_GREATER);
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
        CASE(emu_combine_ok__follows_mpi_and_libfabric),
        CASE(emu_combine_relation__compares_values),
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
