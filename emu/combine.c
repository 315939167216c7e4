/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine.c - the arithmetic of reductions: one loop for each operation and type.
 *
 * The loops are plain, for the compiler to vectorise (gcc: from -O3 on).
 */
#include "emu/combine.h"

#include <string.h>

/* What lies in a segment's payload is not aligned: elements are copied in and out. */
#define CELL(OP, TYPE, T, STEP)                                                 \
    static void combine_##OP##_##TYPE(void *restrict acc,                       \
                                      const void *restrict in, size_t count)    \
    {                                                                           \
        for (size_t i = 0; i < count; i++) {                                    \
            T a, b;                                                             \
            memcpy(&a, (char *)acc + i * sizeof(a), sizeof(a));                 \
            memcpy(&b, (const char *)in + i * sizeof(b), sizeof(b));            \
            STEP;                                                               \
            memcpy((char *)acc + i * sizeof(a), &a, sizeof(a));                 \
        }                                                                       \
    }
#include "emu/combine.def"

typedef void combine_fn(void *restrict acc, const void *restrict in, size_t count);

static combine_fn *const combine_loop[EMU_OPS][EMU_TYPES] = {
#define CELL(OP, TYPE, T, STEP) [EMU_##OP][EMU_##TYPE] = combine_##OP##_##TYPE,
#include "emu/combine.def"
};

static const uint8_t combine_bytes[EMU_TYPES] = {
#define ELEMENT(TYPE, T) [EMU_##TYPE] = sizeof(T),
#include "emu/combine.def"
};

size_t emu_type_bytes(unsigned type)
{
    return type < EMU_TYPES ? combine_bytes[type] : 0;
}

bool emu_combine_ok(unsigned op, unsigned type)
{
    return op < EMU_OPS && type < EMU_TYPES && combine_loop[op][type];
}

void emu_combine(unsigned op, unsigned type, void *acc, const void *in, size_t count)
{
    combine_loop[op][type](acc, in, count);
}
