/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_bytes.h - bytes that follow from a key alone: who checks them needs no copy.
 */
#ifndef TESTS_TRANSPORT_BYTES_H
#define TESTS_TRANSPORT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "emu/random.h"

#define TRANSPORT_GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* The next number below @below, from @state. */
static inline uint32_t transport_below(uint64_t *state, uint32_t below)
{
    return (uint32_t)((emu_mix(*state += TRANSPORT_GOLDEN) >> 32) * below >> 32);
}

static inline void transport_fill(uint64_t key, uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at < count; at += 8) {
        uint64_t word = emu_mix(key += TRANSPORT_GOLDEN);

        memcpy(bytes + at, &word, count - at < 8 ? count - at : 8);
    }
}

static inline bool transport_same(uint64_t key, const uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at < count; at += 8) {
        uint64_t word = emu_mix(key += TRANSPORT_GOLDEN);

        if (memcmp(bytes + at, &word, count - at < 8 ? count - at : 8))
            return false;
    }
    return true;
}

#endif
