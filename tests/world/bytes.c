/* SPDX-License-Identifier: BSD-3-Clause */
/* bytes.c - see bytes.h. */
#include "tests/world/bytes.h"

#include <string.h>

#include "emu/util/random.h"

uint32_t bytes_below(uint64_t *state, uint32_t below)
{
    return (uint32_t)((emu_splitmix(state) >> 32) * below >> 32);
}

void bytes_fill(void *at, size_t count, uint64_t key)
{
    uint8_t *bytes = at;

    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = emu_splitmix(&key);

        memcpy(bytes + i, &word, count - i < 8 ? count - i : 8);
    }
}

bool bytes_filled(const void *at, size_t count, uint64_t key)
{
    const uint8_t *bytes = at;

    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = emu_splitmix(&key);

        if (memcmp(bytes + i, &word, count - i < 8 ? count - i : 8))
            return false;
    }
    return true;
}
