/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - the words of a group that are in this process's memory. Lock: held. */
#ifndef NIC_MEMORY_H
#define NIC_MEMORY_H

#include "nic/host/group/group.h"

/** nic_memory_count - return how many words of the group are in this process's memory. */
static inline uint32_t nic_memory_count(const struct fabemu_group *g)
{
    return (uint32_t)(g->words.value[NIC_WORD_MEMORY] >> 32);
}

/** nic_memory_word - read word @at of the group's memory; 0: it is not there. */
static inline uint64_t nic_memory_word(const struct fabemu_group *g, uint32_t at)
{
    const struct emu_hostif_shared *shared = g->fab->hostif.shared;
    uint32_t first = (uint32_t)g->words.value[NIC_WORD_MEMORY];

    if (at >= nic_memory_count(g))
        return 0;
    return atomic_load_explicit(&shared->memory[first + at], memory_order_acquire);
}

#endif
