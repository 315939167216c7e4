/* SPDX-License-Identifier: BSD-3-Clause */
/* combine.c - the arithmetic of reductions: a loop per operation and type, vectorised by -O3. */
#include "emu/util/combine.h"

#include <assert.h>
#include <string.h>

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

/*
 * On x86-64, each loop is compiled twice, and the dynamic loader picks one for the processor. This
 * makes sums of floats 40 % faster. Builds with ThreadSanitizer have one version, because the
 * loader picks before ThreadSanitizer is initialised.
 */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define BEST_OF_CPU __attribute__((target_clones("avx2", "default")))
#else
#define BEST_OF_CPU
#endif

/* Elements are copied in and out because payloads are not aligned. */
#define CELL(OP, TYPE, T, STEP)                                                                \
    BEST_OF_CPU static void combine_##OP##_##TYPE(void *restrict acc, const void *restrict in, \
                                                  size_t count)                                \
    {                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                   \
            T a, b;                                                                            \
            memcpy(&a, (char *)acc + i * sizeof a, sizeof a);                                  \
            memcpy(&b, (const char *)in + i * sizeof b, sizeof b);                             \
            STEP;                                                                              \
            memcpy((char *)acc + i * sizeof a, &a, sizeof a);                                  \
        }                                                                                      \
    }
#include "emu/util/combine.def"

typedef void combine_fn(void *restrict acc, const void *restrict in, size_t count);

static combine_fn *const combine_loop[EMU_OPS][EMU_TYPES] = {
#define CELL(OP, TYPE, T, STEP) [EMU_##OP][EMU_##TYPE] = combine_##OP##_##TYPE,
#include "emu/util/combine.def"
};

/* The logarithms of sizes are stored, so that no segment needs a division. */
#define LOG2(BYTES)      \
    ((BYTES) == 1    ? 0 \
     : (BYTES) == 2  ? 1 \
     : (BYTES) == 4  ? 2 \
     : (BYTES) == 8  ? 3 \
     : (BYTES) == 16 ? 4 \
                     : 5)

static const uint8_t combine_log2[EMU_TYPES] = {
#define ELEMENT(TYPE, T) [EMU_##TYPE] = LOG2(sizeof(T)),
#include "emu/util/combine.def"
};
#define ELEMENT(TYPE, T) static_assert(sizeof(T) == 1u << LOG2(sizeof(T)), "a power of two");
#include "emu/util/combine.def"

size_t emu_type_bytes(unsigned type)
{
    return type < EMU_TYPES ? (size_t)1 << combine_log2[type] : 0;
}

const uint8_t emu_combine_bytes[EMU_OPS][EMU_TYPES] = {
#define CELL(OP, TYPE, T, STEP) [EMU_##OP][EMU_##TYPE] = sizeof(T),
#include "emu/util/combine.def"
};

const char *emu_op_name(unsigned op)
{
#define NAME(OP) [EMU_##OP] = #OP
    static const char *const names[EMU_OPS] = {NAME(SUM),  NAME(MIN),  NAME(MAX),    NAME(PROD),
                                               NAME(LAND), NAME(LOR),  NAME(LXOR),   NAME(BAND),
                                               NAME(BOR),  NAME(BXOR), NAME(MINLOC), NAME(MAXLOC)};
#undef NAME

    return op < EMU_OPS ? names[op] : NULL;
}

const char *emu_type_name(unsigned type)
{
    static const char *const names[EMU_TYPES] = {
#define ELEMENT(TYPE, T) [EMU_##TYPE] = #TYPE,
#include "emu/util/combine.def"
    };

    return type < EMU_TYPES ? names[type] : NULL;
}

bool emu_combine_fold(unsigned op, unsigned type, void *acc, const void *in, size_t bytes)
{
    if (!emu_combine_ok(op, type))
        return false;
    combine_loop[op][type](acc, in, bytes >> combine_log2[type]);
    return true;
}

#define RELATION(TYPE, T, VALUE)                                         \
    static unsigned relation_##TYPE(const void *left, const void *right) \
    {                                                                    \
        T a, b;                                                          \
        memcpy(&a, left, sizeof a);                                      \
        memcpy(&b, right, sizeof b);                                     \
        return VALUE;                                                    \
    }
#include "emu/util/combine.def"

typedef unsigned relation_fn(const void *left, const void *right);

static relation_fn *const combine_relation[EMU_TYPES] = {
#define RELATION(TYPE, T, VALUE) [EMU_##TYPE] = relation_##TYPE,
#include "emu/util/combine.def"
};

unsigned emu_combine_relation(unsigned type, const void *a, const void *b)
{
    return type < EMU_TYPES && combine_relation[type] ? combine_relation[type](a, b) : 0;
}
