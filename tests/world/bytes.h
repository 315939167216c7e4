/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bytes.h - bytes that follow from a key alone: who checks them needs no copy. Nothing here needs
 * CUnit.
 */
#ifndef TESTS_WORLD_BYTES_H
#define TESTS_WORLD_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** bytes_below - the next random number below @below, from @state. */
uint32_t bytes_below(uint64_t *state, uint32_t below);

/** bytes_fill - the @count bytes of @key. The first of them are those of any smaller count. */
void bytes_fill(void *at, size_t count, uint64_t key);

/** bytes_filled - are these the @count bytes of @key? */
bool bytes_filled(const void *at, size_t count, uint64_t key);

#endif
