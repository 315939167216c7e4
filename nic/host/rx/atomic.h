/* SPDX-License-Identifier: BSD-3-Clause */
/* atomic.h - the operations of atomics, and how they are applied to memory of this process */
#ifndef NIC_ATOMIC_H
#define NIC_ATOMIC_H

#include "nic/fabemu.h"

struct nic_atomic {
    unsigned op;             /* enum fabemu_atomic_op */
    unsigned type;           /* enum fabemu_type to which @op applies */
    size_t bytes;            /* size of all elements */
    size_t done;             /* size of the elements that were changed */
    const uint8_t *operands; /* any alignment; the values to compare with follow them */
    uint8_t *before;         /* receives the previous values; any alignment */
};

/**
 * nic_atomic_operands - return how many arrays a request with @op contains. 0: none; 1: operands;
 * 2: operands and values to compare with. Pure.
 */
unsigned nic_atomic_operands(unsigned op);
/**
 * nic_atomic_fits - return whether @piece consists of whole elements with the necessary alignment.
 * Pure.
 */
bool nic_atomic_fits(unsigned type, const struct fabemu_iov *piece);
/**
 * nic_atomic_apply - change the next elements, which are in @piece; nic_atomic_fits() must hold for
 * @piece. The change of a word (see atomic.c) is sequentially consistent. Lock: held. Only the
 * lock protects elements that are not words.
 */
void nic_atomic_apply(struct nic_atomic *atomic, const struct fabemu_iov *piece);
/**
 * nic_atomic_fold - change the elements in @piece, of at most NIC_MORE_BYTES, with @operands. @op
 * has no values to compare with, and nic_atomic_fits() must hold for @piece. Lock: held. Only the
 * lock makes the change atomic.
 */
void nic_atomic_fold(unsigned op, unsigned type, const uint8_t *operands,
                     const struct fabemu_iov *piece);

#endif
