/* SPDX-License-Identifier: BSD-3-Clause */
/* labels.c - see labels.h. */
#include "apps/traffic/goal/labels.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "apps/traffic/goal/goal.h"
#include "emu/util/random.h"

#define SLOTS_LEAST 64u

static uint64_t hash_of(struct goal_word word)
{
    uint64_t hash = word.bytes, part;

    for (uint32_t at = 0; at < word.bytes; at += sizeof part) {
        uint32_t left = word.bytes - at;

        part = 0;
        memcpy(&part, word.text + at, left < sizeof part ? left : sizeof part);
        hash = emu_mix(hash ^ part);
    }
    return hash;
}

static bool is_same(struct goal_word a, struct goal_word b)
{
    return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
}

/* Return the slot with @word, or the free slot in which it belongs. */
static struct goal_label *slot_of(const struct goal_labels *labels, struct goal_word word)
{
    for (uint64_t at = hash_of(word);; at++) {
        struct goal_label *slot = &labels->slot[at & (labels->slots - 1)];

        if (slot->rank != labels->rank || is_same(slot->word, word))
            return slot;
    }
}

static int grow(struct goal_labels *labels)
{
    struct goal_labels more = *labels;

    more.slots = labels->slots ? 2 * labels->slots : SLOTS_LEAST;
    more.slot = calloc(more.slots, sizeof more.slot[0]);
    if (!more.slot)
        return -ENOMEM;
    for (uint32_t i = 0; i < labels->slots; i++)
        if (labels->slot[i].rank == labels->rank)
            *slot_of(&more, labels->slot[i].word) = labels->slot[i];
    free(labels->slot);
    *labels = more;
    return 0;
}

void goal_labels_begin(struct goal_labels *labels)
{
    labels->used = 0;
    labels->rank++;
}

int goal_labels_add(struct goal_labels *labels, struct goal_word word, uint32_t op)
{
    if (2 * labels->used >= labels->slots && grow(labels))
        return -ENOMEM;
    struct goal_label *slot = slot_of(labels, word);

    if (slot->rank == labels->rank)
        return -EEXIST;
    *slot = (struct goal_label){word, op, labels->rank};
    labels->used++;
    return 0;
}

uint32_t goal_labels_find(const struct goal_labels *labels, struct goal_word word)
{
    const struct goal_label *slot = labels->slots ? slot_of(labels, word) : NULL;

    return slot && slot->rank == labels->rank ? slot->op : GOAL_NONE;
}

void goal_labels_release(struct goal_labels *labels)
{
    free(labels->slot);
    *labels = (struct goal_labels){.slots = 0};
}
