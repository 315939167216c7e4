/* SPDX-License-Identifier: BSD-3-Clause */
/* pending.c - see pending.h. The table is never more than half full. */
#include "apps/traffic/workload/pending.h"

#include <errno.h>
#include <stdlib.h>

#include "apps/traffic/workload/random.h"

#define SLOTS_MIN 64u
#define SLOTS_MAX (1u << 28)

static uint32_t home_of(const struct traffic_pending *pending, uint32_t src, uint64_t birth_ps)
{
    return (uint32_t)emu_mix(birth_ps ^ (uint64_t)src << 40) & pending->mask;
}

/* Return the slot of the message (src, birth), or the free slot for it. */
static struct traffic_slot *find(struct traffic_pending *pending, uint32_t src, uint64_t birth_ps)
{
    uint32_t at = home_of(pending, src, birth_ps);

    while (pending->slot[at].left &&
           (pending->slot[at].birth_ps != birth_ps || pending->slot[at].src != src))
        at = (at + 1) & pending->mask;
    return &pending->slot[at];
}

/*
 * Free a slot. If a search would then no longer find a later entry, move that entry into the slot.
 */
static void slot_free(struct traffic_pending *pending, struct traffic_slot *slot)
{
    uint32_t hole = (uint32_t)(slot - pending->slot);
    uint32_t at = hole;

    pending->used--;
    for (;;) {
        pending->slot[hole].left = 0;
        do {
            at = (at + 1) & pending->mask;
            if (!pending->slot[at].left)
                return;
            slot = &pending->slot[at];
        } while (((at - home_of(pending, slot->src, slot->birth_ps)) & pending->mask) <
                 ((at - hole) & pending->mask));
        pending->slot[hole] = *slot;
        hole = at;
    }
}

int traffic_pending_reserve(struct traffic_pending *pending, size_t more, uint64_t most)
{
    struct traffic_pending old = *pending;
    uint32_t slots = old.slot ? old.mask + 1 : SLOTS_MIN;
    uint64_t left = most > old.used ? most - old.used : 0;
    uint64_t wanted = 2 * (old.used + (more < left ? more : left));

    pending->most = most;
    if (wanted > SLOTS_MAX)
        return -ENOMEM;
    while (slots < wanted)
        slots *= 2;
    if (old.slot && slots == old.mask + 1)
        return 0;
    pending->slot = calloc(slots, sizeof pending->slot[0]);
    if (!pending->slot) {
        *pending = old;
        return -ENOMEM;
    }
    pending->mask = slots - 1;
    for (uint32_t i = 0; old.slot && i <= old.mask; i++)
        if (old.slot[i].left)
            *find(pending, old.slot[i].src, old.slot[i].birth_ps) = old.slot[i];
    free(old.slot);
    return 0;
}

bool traffic_pending_arrive(struct traffic_pending *pending, const struct traffic_part *part,
                            uint64_t *last_ps)
{
    struct traffic_slot *slot = find(pending, part->src, part->birth_ps);

    if (!slot->left) {
        if (pending->used > pending->mask / 2 || pending->used >= pending->most) {
            pending->full = true;
            return false;
        }
        pending->used++;
        *slot =
            (struct traffic_slot){.birth_ps = part->birth_ps, .src = part->src, .left = part->of};
    }
    if (part->at_ps > slot->last_ps)
        slot->last_ps = part->at_ps;
    if (--slot->left)
        return false;
    *last_ps = slot->last_ps;
    slot_free(pending, slot);
    return true;
}

void traffic_pending_release(struct traffic_pending *pending)
{
    free(pending->slot);
    *pending = (struct traffic_pending){.used = 0};
}

int traffic_log_init(struct traffic_log *log, uint32_t capacity)
{
    *log = (struct traffic_log){.capacity = capacity};
    log->part = malloc((capacity ? capacity : 1) * sizeof log->part[0]);
    return log->part ? 0 : -ENOMEM;
}

void traffic_log_release(struct traffic_log *log)
{
    free(log->part);
    *log = (struct traffic_log){.count = 0};
}
