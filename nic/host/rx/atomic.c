/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.c - the operations of atomics, and how they are applied to memory of this process.
 *
 * An element of at most 8 bytes that is not a complex number is a word. Words are changed by a loop
 * of compare and exchange. The loop is sequentially consistent, because the library does not know
 * how the program uses the word. Other elements are read and written under the adapter's lock,
 * which protects them only from other atomics that this adapter executes.
 */
#include "nic/host/rx/atomic.h"

#include <string.h>

#include "emu/util/combine.h"
#include "nic/host/base/wire.h"

#define ELEMENT_MOST 32 /* bytes of the largest element */

struct atomic_op {
    uint8_t operands; /* nic_atomic_operands() */
    /* an enum emu_op that applies to the same types, and computes the new value unless
       element_after() does */
    uint8_t like;
    /* bits of enum emu_relation: write the operand if the value to compare with has one of these
       relations to the element; 0: the operation does not compare values */
    uint8_t when;
};

static const struct atomic_op ops[FABEMU_ATOMIC_OPS] = {
    [FABEMU_ATOMIC_ADD] = {1, EMU_SUM, 0},
    [FABEMU_ATOMIC_AND] = {1, EMU_BAND, 0},
    [FABEMU_ATOMIC_OR] = {1, EMU_BOR, 0},
    [FABEMU_ATOMIC_XOR] = {1, EMU_BXOR, 0},
    [FABEMU_ATOMIC_MIN] = {1, EMU_MIN, 0},
    [FABEMU_ATOMIC_MAX] = {1, EMU_MAX, 0},
    [FABEMU_ATOMIC_SWAP] = {1, EMU_SUM, 0},
    [FABEMU_ATOMIC_CAS] = {2, EMU_SUM, 0},
    [FABEMU_ATOMIC_FETCH] = {0, EMU_SUM, 0},
    [FABEMU_ATOMIC_PROD] = {1, EMU_PROD, 0},
    [FABEMU_ATOMIC_LAND] = {1, EMU_LAND, 0},
    [FABEMU_ATOMIC_LOR] = {1, EMU_LOR, 0},
    [FABEMU_ATOMIC_LXOR] = {1, EMU_LXOR, 0},
    [FABEMU_ATOMIC_CAS_EQ] = {2, EMU_SUM, EMU_EQUAL},
    [FABEMU_ATOMIC_CAS_NE] = {2, EMU_SUM, EMU_LESS | EMU_GREATER | EMU_UNORDERED},
    [FABEMU_ATOMIC_CAS_LE] = {2, EMU_MIN, EMU_LESS | EMU_EQUAL},
    [FABEMU_ATOMIC_CAS_LT] = {2, EMU_MIN, EMU_LESS},
    [FABEMU_ATOMIC_CAS_GE] = {2, EMU_MIN, EMU_GREATER | EMU_EQUAL},
    [FABEMU_ATOMIC_CAS_GT] = {2, EMU_MIN, EMU_GREATER},
    [FABEMU_ATOMIC_MSWAP] = {2, EMU_BAND, 0},
};

unsigned nic_atomic_operands(unsigned op)
{
    return op < FABEMU_ATOMIC_OPS ? ops[op].operands : 0;
}

/*
 * Return the size of an element, a power of two. Returns 0 for pairs, the only types to which
 * EMU_SUM does not apply.
 */
static size_t element_bytes(unsigned type)
{
    return emu_combine_bytes[EMU_SUM][type];
}

size_t fabemu_atomic_most(unsigned op, unsigned type)
{
    if (op >= FABEMU_ATOMIC_OPS || !emu_combine_ok(ops[op].like, type))
        return 0;
    if (op == FABEMU_ATOMIC_CAS && element_bytes(type) > sizeof(uint64_t))
        /* CAS compares bits, and equal values of a long double may differ in unused bits */
        return 0;
    return NIC_ATOMIC_BYTES >> (__builtin_ctzl(element_bytes(type)) + (ops[op].operands > 1));
}

/* Return whether an element is a word. EMU_MIN applies to all numbers that are not complex. */
static bool is_word(unsigned type)
{
    return emu_combine_ok(EMU_MIN, type) && element_bytes(type) <= sizeof(uint64_t);
}

bool nic_atomic_fits(unsigned type, const struct fabemu_iov *piece)
{
    size_t part = element_bytes(type) - 1;

    return !(piece->bytes & part) && (!is_word(type) || !((uintptr_t)piece->base & part));
}

/* The next operand, and the next value to compare with. */
static const uint8_t *next_operand(const struct nic_atomic *a)
{
    return a->operands + a->done;
}

static const uint8_t *next_compare(const struct nic_atomic *a)
{
    return a->operands + a->bytes + a->done;
}

/*
 * @after holds the operand. Keep those of its bits that are set in @mask; take the other bits from
 * @element.
 */
static void mask_bits(uint8_t *after, const uint8_t *mask, const uint8_t *element, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        after[i] = (uint8_t)((after[i] & mask[i]) | (element[i] & ~mask[i]));
}

/*
 * Compute the new value of @element. Returns false if the operation does not write it. The operand
 * is the first argument of emu_combine_fold(), so that MIN and MAX keep the element unless the
 * operand is less or greater.
 */
static inline bool element_after(const struct nic_atomic *a, size_t bytes, const void *element,
                                 void *after)
{
    const struct atomic_op *op = &ops[a->op];

    if (a->op == FABEMU_ATOMIC_FETCH)
        return false;
    memcpy(after, next_operand(a), bytes);
    if (a->op == FABEMU_ATOMIC_SWAP)
        return true;
    if (a->op == FABEMU_ATOMIC_CAS)
        return memcmp(element, next_compare(a), bytes) == 0;
    if (op->when)
        return op->when & emu_combine_relation(a->type, next_compare(a), element);
    if (a->op == FABEMU_ATOMIC_MSWAP)
        mask_bits(after, next_compare(a), element, bytes);
    else
        emu_combine_fold(op->like, a->type, after, element, bytes);
    return true;
}

#define WORD(BITS)                                                                         \
    typedef uint##BITS##_t __attribute__((may_alias)) word##BITS;                          \
    static void change##BITS(const struct nic_atomic *a, void *at)                         \
    {                                                                                      \
        word##BITS *word = at;                                                             \
        uint##BITS##_t before = __atomic_load_n(word, __ATOMIC_SEQ_CST), after;            \
                                                                                           \
        while (element_after(a, sizeof before, &before, &after) &&                         \
               !__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_SEQ_CST, \
                                            __ATOMIC_SEQ_CST))                             \
            ;                                                                              \
        memcpy(a->before + a->done, &before, sizeof before);                               \
    }
WORD(8)
WORD(16)
WORD(32)
WORD(64)
#undef WORD

static void change_locked(const struct nic_atomic *a, void *at)
{
    size_t bytes = element_bytes(a->type);
    uint8_t *before = a->before + a->done;
    uint8_t after[ELEMENT_MOST];

    memcpy(before, at, bytes);
    if (element_after(a, bytes, before, after))
        memcpy(at, after, bytes);
}

void nic_atomic_apply(struct nic_atomic *atomic, const struct fabemu_iov *piece)
{
    static void (*const changes[])(const struct nic_atomic *a, void *at) = {
        [1] = change8, [2] = change16, [4] = change32, [8] = change64};
    size_t bytes = element_bytes(atomic->type);
    void (*change)(const struct nic_atomic *a, void *at) = is_word(atomic->type) ? changes[bytes]
                                                                                 : change_locked;

    for (size_t at = 0; at < piece->bytes; at += bytes, atomic->done += bytes)
        change(atomic, (uint8_t *)piece->base + at);
}

void nic_atomic_fold(unsigned op, unsigned type, const uint8_t *operands,
                     const struct fabemu_iov *piece)
{
    uint8_t after[NIC_MORE_BYTES];

    assert(piece->bytes <= sizeof after);
    memcpy(after, operands, piece->bytes);
    if (op != FABEMU_ATOMIC_SWAP)
        emu_combine_fold(ops[op].like, type, after, piece->base, piece->bytes);
    memcpy(piece->base, after, piece->bytes);
}
