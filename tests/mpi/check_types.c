/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_types.c - inputs and expected results for every type and operation.
 *
 * Every order of combining gives the same bits: sums of whole numbers that cannot overflow the type
 * (nor a float's 24 bits), products of ones with one 2 and one 3 among the ranks, and few distinct
 * values for the location operations, so that ties occur.
 */
#include "check.h"

#include <complex.h>
#include <limits.h>
#include <stdlib.h>

#define BIT(op) (1u << (op))
#define NUMBERS (BIT(OP_MAX) | BIT(OP_MIN) | BIT(OP_SUM) | BIT(OP_PROD))
#define TRUTHS  (BIT(OP_LAND) | BIT(OP_LOR) | BIT(OP_LXOR))
#define BITS    (BIT(OP_BAND) | BIT(OP_BOR) | BIT(OP_BXOR))
#define ALL     (NUMBERS | TRUTHS | BITS)
#define RINGS   (BIT(OP_SUM) | BIT(OP_PROD))
#define PLACES  (BIT(OP_MINLOC) | BIT(OP_MAXLOC))

uint64_t check_mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a + 0x9e3779b97f4a7c15u * (b + 1) + 0xd1b54a32d192ed03u * (c + 1);

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* For element @i: a value of this rank, and one that all ranks draw equally. */
static uint64_t own(const struct draw *d, size_t i)
{
    return check_mix(d->key, i, (uint64_t)d->rank);
}

static uint64_t shared(const struct draw *d, size_t i)
{
    return check_mix(~d->key, i, 0);
}

/* ±1 from most ranks, ±2 and ±3 from one each, occasionally a 0. */
static int factor(const struct draw *d, size_t i)
{
    const uint64_t all = shared(d, i);
    const uint64_t size = (uint64_t)d->size, rank = (uint64_t)d->rank;
    int value = 1;

    if (rank == all % size)
        value = (all >> 32) % 16 == 0 ? 0 : 3;
    else if (rank == (all >> 16) % size)
        value = 2;
    return own(d, i) & 1 ? -value : value;
}

/* True or false, such that both results occur over all ranks. */
static bool truth(const struct draw *d, size_t i)
{
    const uint64_t all = shared(d, i);
    const bool odd_one = (all >> 32 & 1) && (uint64_t)d->rank == all % (uint64_t)d->size;

    switch (d->op) {
    case OP_LAND:
        return !odd_one;
    case OP_LOR:
        return odd_one;
    default:
        return own(d, i) & 1;
    }
}

/* An integer input; the caller cuts it to @bits. @weak: Open MPI compares it with a wrong sign. */
static uint64_t int_value(const struct draw *d, size_t i, unsigned bits, bool is_signed, bool weak)
{
    const uint64_t h = own(d, i);
    const uint64_t max = UINT64_MAX >> (64 - bits + is_signed);
    const uint64_t limit = max / ((uint64_t)d->size + 1);

    switch (d->op) {
    case OP_SUM:
        return is_signed ? h % (2 * limit + 1) - limit : h % (limit + 1);
    case OP_PROD:
        return (uint64_t)(is_signed ? factor(d, i) : abs(factor(d, i)));
    case OP_LAND:
    case OP_LOR:
    case OP_LXOR:
        return truth(d, i) ? UINT64_C(1) << (h >> 8) % bits : 0; /* any bit makes it true */
    case OP_BAND:
        return h | check_mix(h, 1, i) | check_mix(h, 2, i);
    case OP_BOR:
        return h & check_mix(h, 1, i) & check_mix(h, 2, i);
    default:
        return weak && !d->strict ? h >> 1 : h;
    }
}

static double real_value(const struct draw *d, size_t i)
{
    const uint64_t h = own(d, i);

    switch (d->op) {
    case OP_SUM:
        return (double)(int)(h % 2001) - 1000.0;
    case OP_PROD:
        return factor(d, i);
    default:
        return (double)(int32_t)h / 1024.0;
    }
}

static double _Complex complex_value(const struct draw *d, size_t i)
{
    static const double units[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    const uint64_t h = own(d, i);

    if (d->op == OP_SUM)
        return CMPLX((double)(int)(h % 201) - 100, (double)(int)(h / 256 % 201) - 100);
    return CMPLX(units[h >> 8 & 3][0], units[h >> 8 & 3][1]) * (double)factor(d, i);
}

/* The operations on two elements of a type. */
#define FOLD_CASE(name, acc, value) \
    case name:                      \
        acc = value;                \
        break;
#define FOLD_NUMBERS(acc, in)                   \
    FOLD_CASE(OP_MAX, acc, in > acc ? in : acc) \
    FOLD_CASE(OP_MIN, acc, in < acc ? in : acc) \
    FOLD_CASE(OP_SUM, acc, acc + in)            \
    FOLD_CASE(OP_PROD, acc, acc *in)
#define FOLD_TRUTHS(acc, in)          \
    FOLD_CASE(OP_LAND, acc, acc &&in) \
    FOLD_CASE(OP_LOR, acc, acc || in) \
    FOLD_CASE(OP_LXOR, acc, !acc != !in)
#define FOLD_BITS(acc, in)           \
    FOLD_CASE(OP_BAND, acc, acc &in) \
    FOLD_CASE(OP_BOR, acc, acc | in) \
    FOLD_CASE(OP_BXOR, acc, acc ^ in)
#define FOLD_BY(op, cases)     \
    switch (op) {              \
        cases default : break; \
    }
#define FOLD_INT(acc, in, op) \
    FOLD_BY(op, FOLD_NUMBERS(acc, in) FOLD_TRUTHS(acc, in) FOLD_BITS(acc, in))
#define FOLD_TRUTH(acc, in, op)   FOLD_BY(op, FOLD_TRUTHS(acc, in))
#define FOLD_REAL(acc, in, op)    FOLD_BY(op, FOLD_NUMBERS(acc, in))
#define FOLD_COMPLEX(acc, in, op) acc = op == OP_SUM ? acc + in : acc * in;
#define FOLD_PAIR(acc, in, op)                                             \
    if ((op == OP_MINLOC ? in.value < acc.value : in.value > acc.value) || \
        (in.value == acc.value && in.index < acc.index))                   \
        acc = in;

/* The three functions of a type. @VALUE: an expression for element i of draw d. */
#define FUNCTIONS(mpi, ctype, VALUE, FOLD, SAME)                                        \
    static void fill_##mpi(void *buf, size_t count, const struct draw *d)               \
    {                                                                                   \
        ctype *x = buf;                                                                 \
        for (size_t i = 0; i < count; i++)                                              \
            x[i] = VALUE;                                                               \
    }                                                                                   \
    static void fold_##mpi(void *buf, const void *from, size_t count, enum check_op op) \
    {                                                                                   \
        ctype *acc = buf;                                                               \
        const ctype *in = from;                                                         \
        for (size_t i = 0; i < count; i++) {                                            \
            FOLD(acc[i], in[i], op)                                                     \
        }                                                                               \
    }                                                                                   \
    static size_t differs_##mpi(const void *p, const void *q, size_t count)             \
    {                                                                                   \
        const ctype *a = p, *b = q;                                                     \
        size_t i = 0;                                                                   \
        while (i < count && SAME(a[i], b[i]))                                           \
            i++;                                                                        \
        return i;                                                                       \
    }

#define SAME_VALUE(a, b) ((a) == (b))
#define SAME_PAIR(a, b)  ((a).value == (b).value && (a).index == (b).index)

#define INT(mpi, ctype, ops)                                                               \
    FUNCTIONS(mpi, ctype,                                                                  \
              (ctype)int_value(d, i, sizeof(ctype) * CHAR_BIT, (ctype)-1 < (ctype)1,       \
                               MPI_##mpi == MPI_UNSIGNED_LONG || MPI_##mpi == MPI_OFFSET), \
              FOLD_INT, SAME_VALUE)
#define TRUTH(mpi, ctype) FUNCTIONS(mpi, ctype, truth(d, i), FOLD_TRUTH, SAME_VALUE)
#define REAL(mpi, ctype)  FUNCTIONS(mpi, ctype, (ctype)real_value(d, i), FOLD_REAL, SAME_VALUE)
#define COMPLEX(mpi, ctype) \
    FUNCTIONS(mpi, ctype, (ctype)complex_value(d, i), FOLD_COMPLEX, SAME_VALUE)
#define PAIR(mpi, vtype, itype)                                       \
    struct pair_##mpi {                                               \
        vtype value;                                                  \
        itype index;                                                  \
    };                                                                \
    FUNCTIONS(mpi, struct pair_##mpi,                                 \
              ((struct pair_##mpi){(vtype)((int)(own(d, i) % 5) - 2), \
                                   (itype)(own(d, i) / 8 % 1000)}),   \
              FOLD_PAIR, SAME_PAIR)
#include "check_types.def"

#define ROW(mpi, ctype, ops) \
    {"MPI_" #mpi, MPI_##mpi, sizeof(ctype), ops, fill_##mpi, fold_##mpi, differs_##mpi},
const struct check_type check_types[] = {
#define INT(mpi, ctype, ops)    ROW(mpi, ctype, ops)
#define TRUTH(mpi, ctype)       ROW(mpi, ctype, TRUTHS)
#define REAL(mpi, ctype)        ROW(mpi, ctype, NUMBERS)
#define COMPLEX(mpi, ctype)     ROW(mpi, ctype, RINGS)
#define PAIR(mpi, vtype, itype) ROW(mpi, struct pair_##mpi, PLACES)
#include "check_types.def"
};
const size_t check_types_count = sizeof check_types / sizeof check_types[0];

static const struct {
    const char *name;
    MPI_Op mpi;
} ops[OPS] = {
    [OP_MAX] = {"MPI_MAX", MPI_MAX},          [OP_MIN] = {"MPI_MIN", MPI_MIN},
    [OP_SUM] = {"MPI_SUM", MPI_SUM},          [OP_PROD] = {"MPI_PROD", MPI_PROD},
    [OP_LAND] = {"MPI_LAND", MPI_LAND},       [OP_LOR] = {"MPI_LOR", MPI_LOR},
    [OP_LXOR] = {"MPI_LXOR", MPI_LXOR},       [OP_BAND] = {"MPI_BAND", MPI_BAND},
    [OP_BOR] = {"MPI_BOR", MPI_BOR},          [OP_BXOR] = {"MPI_BXOR", MPI_BXOR},
    [OP_MINLOC] = {"MPI_MINLOC", MPI_MINLOC}, [OP_MAXLOC] = {"MPI_MAXLOC", MPI_MAXLOC},
};

const char *check_op_name(enum check_op op)
{
    return ops[op].name;
}

MPI_Op check_op_mpi(enum check_op op)
{
    return ops[op].mpi;
}
