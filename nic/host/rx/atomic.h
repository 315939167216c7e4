/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.h - one operation on one word of memory that others may change meanwhile.
 *
 * Owner: nothing. Lock: none. Callers: serve.c.
 */
#ifndef NIC_ATOMIC_H
#define NIC_ATOMIC_H

#include <stdint.h>

/** nic_atomic - apply @op to the word at @at, aligned; returns its value before. */
uint64_t nic_atomic(unsigned op, unsigned type, void *at, uint64_t operand, uint64_t compare);

#endif
