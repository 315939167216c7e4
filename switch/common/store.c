/* SPDX-License-Identifier: BSD-3-Clause */
/* store.c - the pool of slots for segments. */
#include "switch/common/store.h"

#include <stdlib.h>

#include "emu/util/clock.h"
#include "switch/common/base.h"

size_t switch_store_bytes(uint32_t slots)
{
    return slots * (sizeof(struct emu_entry) + sizeof(switch_slot));
}

bool switch_store_init(struct switch_store *store, uint32_t slots)
{
    store->slot = emu_sparse_alloc(slots * sizeof *store->slot);
    store->next = emu_sparse_alloc(slots * sizeof *store->next);
    store->free = SWITCH_NO_SLOT;
    return store->slot && store->next;
}

void switch_store_free(struct switch_store *store)
{
    emu_sparse_free(store->next);
    emu_sparse_free(store->slot);
}

void switch_store_rebase(struct switch_store *store, uint64_t by_ps)
{
    for (uint32_t i = 0; i < store->fresh; i++)
        store->slot[i].time_ps = emu_rebased_ps(store->slot[i].time_ps, by_ps);
}

const char *switch_store_check(const struct switch_store *store, uint64_t held)
{
    uint32_t free = 0;

    for (uint32_t slot = store->free; slot != SWITCH_NO_SLOT && free <= store->fresh;
         slot = store->next[slot])
        free++;
    return free + held == store->fresh ? NULL : "slots for segments have leaked";
}

uint32_t switch_store_bufs(const struct switch_store *store, const struct switch_list *queue,
                           uint32_t count)
{
    uint32_t bufs = 0;

    for (uint32_t slot = queue->first; count--; slot = store->next[slot])
        bufs += store->slot[slot].buf != EMU_NO_BUF;
    return bufs;
}

bool switch_store_holds(const struct switch_store *store, const struct switch_list *queue,
                        uint32_t count, uint32_t id)
{
    for (uint32_t slot = queue->first; count; slot = store->next[slot], count--)
        if (emu_hdr_is_of(&store->slot[slot].hdr, id))
            return true;
    return false;
}
