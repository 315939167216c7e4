/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - memory of this process that its link engine can read. A process allocates words of 8
 * bytes in it, and may choose some of them for each of its groups.
 *
 * It is a part of the host interface, which this process and the fabric have mapped. So the engine
 * answers a conditional by a load, while this process computes.
 * Source: QsNet III §IV-A: an address of a conditional is held in adapter memory for speed.
 */
#include "nic/host/group/memory.h"

#include <errno.h>
#include <string.h>

#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"

static_assert(FABEMU_MEMORY_WORDS == EMU_MEMORY_WORDS, "same number");

static bool words_free(const struct fabemu *fab, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        if (fab->words_used[i / 64] >> i % 64 & 1)
            return false;
    return true;
}

static void words_mark(struct fabemu *fab, size_t first, size_t count, bool used)
{
    for (size_t i = first; i < first + count; i++)
        fab->words_used[i / 64] = (fab->words_used[i / 64] & ~(UINT64_C(1) << i % 64)) |
                                  (uint64_t)used << i % 64;
}

/*
 * Return the process's memory. The fabric reads it by atomic loads; a program need not use atomics.
 */
static uint64_t *words_of(const struct fabemu *fab)
{
    return (uint64_t *)(void *)fab->hostif.shared->memory;
}

/*
 * Return the number of the first of @count words at @at. Returns EMU_MEMORY_WORDS if the words are
 * not all in the process's memory.
 */
static size_t words_at(const struct fabemu *fab, const uint64_t *at, size_t count)
{
    uintptr_t offset = (uintptr_t)at - (uintptr_t)words_of(fab);

    if (offset % sizeof *at || offset / sizeof *at >= EMU_MEMORY_WORDS ||
        count > EMU_MEMORY_WORDS - offset / sizeof *at)
        return EMU_MEMORY_WORDS;
    return offset / sizeof *at;
}

int fabemu_words_alloc(struct fabemu *fab, size_t count, uint64_t **ret)
{
    size_t first = 0;

    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    if (!count || count > EMU_MEMORY_WORDS)
        return nic_fail(-EINVAL, "an adapter has %u words of memory", EMU_MEMORY_WORDS);
    nic_lock(fab);
    while (first + count <= EMU_MEMORY_WORDS && !words_free(fab, first, count))
        first++;
    if (first + count <= EMU_MEMORY_WORDS)
        words_mark(fab, first, count, true);
    nic_unlock(fab);
    if (first + count > EMU_MEMORY_WORDS)
        return nic_fail(-ENOSPC, "the adapter's memory does not have %zu free words in a row",
                        count);
    *ret = words_of(fab) + first;
    memset(*ret, 0, count * sizeof **ret);
    return 0;
}

void fabemu_words_free(struct fabemu *fab, uint64_t *words, size_t count)
{
    size_t first = words_at(fab, words, count);

    if (nic_is_defunct(fab) || first == EMU_MEMORY_WORDS)
        return;
    nic_lock(fab);
    words_mark(fab, first, count, false);
    nic_unlock(fab);
}

int fabemu_group_memory(struct fabemu_group *g, const uint64_t *words, size_t count)
{
    struct fabemu *fab = g->fab;
    size_t first = count ? words_at(fab, words, count) : 0;
    int err = nic_group_check(g, NULL);

    if (!err && first == EMU_MEMORY_WORDS)
        err = nic_fail(-EINVAL, "these words are not in the adapter's memory");
    if (err)
        return err;
    nic_lock(fab);
    g->words.value[NIC_WORD_MEMORY] = first | (uint64_t)count << 32;
    if (g->members > 1 && !g->broken)
        nic_word_set(fab, &g->words, NIC_WORD_MEMORY);
    nic_unlock(fab);
    return 0;
}
