/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.c - one operation on one word of memory that others may change meanwhile.
 *
 * Always by compare and exchange, whatever the operation: one form for all, and somebody gets on in
 * each round. Sequentially consistent: what it is mixed with is not ours to know.
 */
#include "nic/host/rx/atomic.h"

#include <stdbool.h>
#include <string.h>

#include "emu/util/combine.h"
#include "nic/fabemu.h"

typedef uint32_t __attribute__((may_alias)) word32;
typedef uint64_t __attribute__((may_alias)) word64;

bool fabemu_atomic_ok(unsigned op, unsigned type)
{
    if (op >= FABEMU_ATOMIC_OPS)
        return false;
    switch (type) {
    case FABEMU_I32:
    case FABEMU_U32:
    case FABEMU_I64:
    case FABEMU_U64:
        return true;
    case FABEMU_F64:
        return op == FABEMU_ATOMIC_ADD || op >= FABEMU_ATOMIC_SWAP;
    default:
        return false;
    }
}

static uint64_t add_f64(uint64_t word, uint64_t operand)
{
    double sum, more;

    memcpy(&sum, &word, sizeof sum);
    memcpy(&more, &operand, sizeof more);
    sum += more;
    memcpy(&word, &sum, sizeof word);
    return word;
}

static bool is_less(unsigned type, uint64_t a, uint64_t b)
{
    switch (type) {
    case FABEMU_I32:
        return (int32_t)(uint32_t)a < (int32_t)(uint32_t)b;
    case FABEMU_I64:
        return (int64_t)a < (int64_t)b;
    default:
        return a < b;
    }
}

/* What becomes of @word. Values of 32 bits: the upper half of the result means nothing. */
static uint64_t atomic_after(unsigned op, unsigned type, uint64_t word, uint64_t operand)
{
    switch (op) {
    case FABEMU_ATOMIC_ADD:
        return type == FABEMU_F64 ? add_f64(word, operand) : word + operand;
    case FABEMU_ATOMIC_AND:
        return word & operand;
    case FABEMU_ATOMIC_OR:
        return word | operand;
    case FABEMU_ATOMIC_XOR:
        return word ^ operand;
    case FABEMU_ATOMIC_MIN:
        return is_less(type, operand, word) ? operand : word;
    case FABEMU_ATOMIC_MAX:
        return is_less(type, word, operand) ? operand : word;
    default:
        return operand;
    }
}

/* Does @word stay as it is, and is not to be written? */
static bool is_read(unsigned op, uint64_t word, uint64_t compare)
{
    return op == FABEMU_ATOMIC_FETCH || (op == FABEMU_ATOMIC_CAS && word != compare);
}

static uint32_t atomic32(unsigned op, unsigned type, word32 *at, uint32_t operand, uint32_t compare)
{
    uint32_t word = __atomic_load_n(at, __ATOMIC_SEQ_CST);

    while (!is_read(op, word, compare) &&
           !__atomic_compare_exchange_n(at, &word, (uint32_t)atomic_after(op, type, word, operand),
                                        false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    return word;
}

static uint64_t atomic64(unsigned op, unsigned type, word64 *at, uint64_t operand, uint64_t compare)
{
    uint64_t word = __atomic_load_n(at, __ATOMIC_SEQ_CST);

    while (!is_read(op, word, compare) &&
           !__atomic_compare_exchange_n(at, &word, atomic_after(op, type, word, operand), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    return word;
}

/* A value of 32 bits lies in the first bytes of the words that are handed around. */
uint64_t nic_atomic(unsigned op, unsigned type, void *at, uint64_t operand, uint64_t compare)
{
    uint32_t half[2];
    uint64_t ret = 0;

    if (emu_type_bytes(type) == sizeof(uint64_t))
        return atomic64(op, type, at, operand, compare);
    memcpy(&half[0], &operand, sizeof half[0]);
    memcpy(&half[1], &compare, sizeof half[1]);
    half[0] = atomic32(op, type, at, half[0], half[1]);
    memcpy(&ret, &half[0], sizeof half[0]);
    return ret;
}
