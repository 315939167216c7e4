/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.c - creation of rings; what runs per segment is inline in ring.h.
 */
#include "emu/ring.h"

#include <stdlib.h>
#include <string.h>

static uint32_t ring_slots(uint32_t slots)
{
    uint32_t n = 1;

    while (n < slots)
        n *= 2;
    return n;
}

size_t emu_ring_bytes(uint32_t slots)
{
    size_t bytes = sizeof(struct emu_ring) + ring_slots(slots) * sizeof(struct emu_entry);

    return (bytes + EMU_LINE - 1) / EMU_LINE * EMU_LINE;
}

struct emu_ring *emu_ring_create(uint32_t slots)
{
    size_t bytes = emu_ring_bytes(slots);
    struct emu_ring *ring = aligned_alloc(EMU_LINE, bytes);

    if (!ring)
        return NULL;
    memset(ring, 0, bytes);
    ring->mask = ring_slots(slots) - 1;
    ring->entry = (struct emu_entry *)(ring + 1);
    return ring;
}

void emu_ring_destroy(struct emu_ring *ring)
{
    free(ring);
}
