/* SPDX-License-Identifier: BSD-3-Clause */
/* combine.h - the arithmetic of reductions, for combine units and adapters. */
#ifndef EMU_COMBINE_H
#define EMU_COMBINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Operations. Their numbers are part of the wire format. */
enum emu_op {
    EMU_SUM,
    EMU_MIN,
    EMU_MAX,
    EMU_PROD,
    EMU_LAND, /* logical: the result is 0 or 1 */
    EMU_LOR,
    EMU_LXOR,
    EMU_BAND, /* bitwise: integers only */
    EMU_BOR,
    EMU_BXOR,
    EMU_MINLOC, /* pairs only: the smaller value wins or, if both are equal, the smaller index */
    EMU_MAXLOC,
    EMU_OPS
};

/* Types of elements, in this host's C representation. Their numbers are part of the wire format. */
enum emu_type {
    EMU_I8,
    EMU_U8,
    EMU_I16,
    EMU_U16,
    EMU_I32,
    EMU_U32,
    EMU_I64,
    EMU_U64,
    EMU_F32,
    EMU_F64,
    EMU_F32_I32,  /* struct { float; int }, MPI_FLOAT_INT */
    EMU_F64_I32,  /* struct { double; int }, MPI_DOUBLE_INT, 16 bytes */
    EMU_I64_I32,  /* struct { long; int }, MPI_LONG_INT, 16 bytes */
    EMU_I32_I32,  /* struct { int; int }, MPI_2INT, MPI_2INTEGER */
    EMU_I16_I32,  /* struct { short; int }, MPI_SHORT_INT, 8 bytes */
    EMU_F128_I32, /* struct { long double; int }, MPI_LONG_DOUBLE_INT, 32 bytes */
    EMU_F32_F32,  /* struct { float; float }, MPI_2REAL */
    EMU_F64_F64,  /* struct { double; double }, MPI_2DOUBLE_PRECISION */
    EMU_F128,     /* long double, which has 80 bits on x86; 16 bytes */
    /* complex numbers: no MIN and MAX */
    EMU_F32_COMPLEX,
    EMU_F64_COMPLEX,
    EMU_F128_COMPLEX,
    EMU_I128,
    EMU_U128,
    EMU_TYPES
};

/* The result of comparing two elements. The values are bits, so that a number can hold a set. */
enum emu_relation {
    EMU_LESS = 1,
    EMU_EQUAL = 2,
    EMU_GREATER = 4,
    EMU_UNORDERED = 8 /* an element is not a number, or they are different complex numbers */
};

/** emu_type_bytes - return the size of an element in bytes; 0 for an unknown type. Pure. */
size_t emu_type_bytes(unsigned type);

/* Bytes of an element, a power of two; 0 if the operation does not apply to the type. */
extern const uint8_t emu_combine_bytes[EMU_OPS][EMU_TYPES];

/** emu_combine_ok - return whether @op applies to @type. Unknown values do not apply. Pure. */
static inline bool emu_combine_ok(unsigned op, unsigned type)
{
    return op < EMU_OPS && type < EMU_TYPES && emu_combine_bytes[op][type];
}

/**
 * emu_combine_takes - return whether @bytes bytes are a whole number of elements, at least one, and
 * @op applies to @type. Pure.
 */
static inline bool emu_combine_takes(unsigned op, unsigned type, size_t bytes)
{
    return emu_combine_ok(op, type) && bytes && !(bytes & (emu_combine_bytes[op][type] - 1u));
}

/**
 * emu_combine_fold - compute acc[i] = acc[i] op in[i] for all elements in @bytes bytes.
 * @acc, @in: whole elements, @bytes each; any alignment; must not overlap.
 * Returns false and changes nothing if @op does not apply to @type. Integers wrap as two's
 * complement. Floating-point operands are not swapped (acc op in), so the same order of calls gives
 * the same bits. Padding inside pair types is undefined. Thread: any; pure.
 * Source: output-queued routers §2, "Reduction".
 */
bool emu_combine_fold(unsigned op, unsigned type, void *acc, const void *in, size_t bytes);

/** emu_op_name, emu_type_name - return the name in this file without EMU_; NULL: unknown. Pure. */
const char *emu_op_name(unsigned op);
const char *emu_type_name(unsigned type);

/**
 * emu_combine_relation - compare two elements by value: 0.0 equals -0.0. Returns an enum
 * emu_relation; 0 if @type is unknown or a type of pairs. @a, @b: any alignment. Thread: any; pure.
 */
unsigned emu_combine_relation(unsigned type, const void *a, const void *b);

#endif
