/* SPDX-License-Identifier: BSD-3-Clause */
/* finished.c - write and read records of finished collectives and messages. */
#include "emu/hostif/finished.h"

void emu_finished_write(struct emu_finished_shared *to, const struct emu_finished *from)
{
    uint64_t count = atomic_load_explicit(&to->count, memory_order_relaxed);
    const uint64_t words[EMU_FINISHED_WORDS] = {
        from->first,
        from->began_ns,
        from->ended_ns,
        from->bytes,
        from->group | (uint64_t)from->root << 32,
        from->kind | (uint64_t)from->op << 8 | (uint64_t)from->type << 16 |
            (uint64_t)from->report_bits << 24 | (uint64_t)from->members << 32,
    };

    for (uint32_t i = 0; i < EMU_FINISHED_WORDS; i++)
        atomic_store_explicit(&to->word[count % EMU_FINISHED_SLOTS][i], words[i],
                              memory_order_release);                    /* F3 pairs with F4 */
    atomic_store_explicit(&to->count, count + 1, memory_order_release); /* F1 pairs with F2 */
}

/* Copy entry @n. Returns false if it has been overwritten. */
static bool entry_copy(struct emu_finished *ret, struct emu_finished_shared *from, uint64_t n)
{
    uint64_t word[EMU_FINISHED_WORDS];

    for (uint32_t i = 0; i < EMU_FINISHED_WORDS; i++)
        word[i] = atomic_load_explicit(&from->word[n % EMU_FINISHED_SLOTS][i],
                                       memory_order_acquire); /* F4 pairs with F3 */
    *ret = (struct emu_finished){.first = word[0],
                                 .began_ns = word[1],
                                 .ended_ns = word[2],
                                 .bytes = word[3],
                                 .group = (uint32_t)word[4],
                                 .root = (uint32_t)(word[4] >> 32),
                                 .kind = (uint8_t)word[5],
                                 .op = (uint8_t)(word[5] >> 8),
                                 .type = (uint8_t)(word[5] >> 16),
                                 .report_bits = (uint8_t)(word[5] >> 24),
                                 .members = (uint16_t)(word[5] >> 32)};
    return atomic_load_explicit(&from->count, memory_order_relaxed) - n < EMU_FINISHED_SLOTS;
}

static bool entry_check(const struct emu_finished *entry, uint64_t now_ns)
{
    return entry->began_ns <= entry->ended_ns && entry->ended_ns <= now_ns &&
           entry->kind >= EMU_MULTICAST && entry->kind < EMU_FINISHED_KINDS;
}

uint32_t emu_finished_read(struct emu_finished *ret, struct emu_finished_shared *from, uint64_t *at,
                           uint64_t (*now_ns)(void), uint64_t *missed)
{
    uint64_t end = atomic_load_explicit(&from->count, memory_order_acquire); /* F2 pairs with F1 */
    uint64_t begin = *at, first = begin;
    uint32_t count = 0;

    /* skip overwritten entries; this test also works if a faulty writer has decreased the count */
    if (end - begin >= EMU_FINISHED_SLOTS)
        first = end >= EMU_FINISHED_SLOTS ? end - EMU_FINISHED_SLOTS + 1 : 0;
    for (uint64_t n = first; n != end; n++)
        if (entry_copy(&ret[count], from, n) && entry_check(&ret[count], now_ns()))
            count++;
    *missed += end > begin ? end - begin - count : 0;
    *at = end;
    return count;
}
