/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.c - memory for rings; what runs per segment is inline in ring.h.
 */
#include "emu/link/ring.h"

#include <string.h>

size_t emu_slots_bytes(uint32_t slots, size_t slot_bytes)
{
    size_t bytes = EMU_LINE; /* two slots at the least: a whole line */

    while (bytes < slots * slot_bytes)
        bytes *= 2;
    return bytes;
}

void *emu_slots_create(size_t bytes)
{
    void *slots = aligned_alloc(EMU_LINE, bytes);

    if (slots)
        memset(slots, 0, bytes);
    return slots;
}
