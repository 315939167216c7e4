/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.c - creation of rings; what runs per segment is inline in ring.h.
 */
#include "emu/link/ring.h"

#include <stdlib.h>
#include <string.h>

#include "emu/clock.h"

static uint32_t ring_slots(uint32_t slots)
{
    uint32_t n = 2; /* a whole line */

    while (n < slots)
        n *= 2;
    return n;
}

size_t emu_ring_bytes(uint32_t slots)
{
    return ring_slots(slots) * sizeof(struct emu_entry);
}

bool emu_ring_create(struct emu_ring_end *producer, struct emu_ring_end *consumer, uint32_t slots)
{
    struct emu_entry *slot = aligned_alloc(EMU_LINE, emu_ring_bytes(slots));

    if (!slot)
        return false;
    memset(slot, 0, emu_ring_bytes(slots));
    *producer = *consumer =
        (struct emu_ring_end){.slot = slot, .mask = ring_slots(slots) - 1};
    return true;
}

void emu_ring_destroy(struct emu_ring_end *end)
{
    free(end->slot);
    end->slot = NULL;
}

static uint32_t credits_slots(uint32_t slots)
{
    uint32_t n = EMU_LINE / sizeof(struct emu_credit); /* a whole line */

    while (n < slots)
        n *= 2;
    return n;
}

size_t emu_credit_ring_bytes(uint32_t slots)
{
    return credits_slots(slots) * sizeof(struct emu_credit);
}

bool emu_credit_ring_create(struct emu_credit_end *producer, struct emu_credit_end *consumer,
                        uint32_t slots)
{
    struct emu_credit *slot = aligned_alloc(EMU_LINE, emu_credit_ring_bytes(slots));

    if (!slot)
        return false;
    memset(slot, 0, emu_credit_ring_bytes(slots));
    *producer = *consumer =
        (struct emu_credit_end){.slot = slot, .mask = credits_slots(slots) - 1};
    return true;
}

void emu_credit_ring_destroy(struct emu_credit_end *end)
{
    free(end->slot);
    end->slot = NULL;
}

void emu_ring_turn_back(struct emu_ring_end *end, uint64_t by_ps)
{
    for (uint32_t i = 0; i <= end->mask; i++)
        end->slot[i].time_ps = emu_turned_ps(end->slot[i].time_ps, by_ps);
}

void emu_credit_ring_turn_back(struct emu_credit_end *end, uint64_t by_ps)
{
    for (uint32_t i = 0; i <= end->mask; i++)
        end->slot[i].time_ps = emu_turned_ps(end->slot[i].time_ps, by_ps);
}
