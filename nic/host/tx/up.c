/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * up.c - claim slots in the ring to the fabric, or in the loop to this process; send the values of
 * a group's words (nic/host/group/word.c says what these are).
 */
#include "nic/host/tx/up.h"

#include <stdlib.h>
#include <string.h>

#include "emu/util/bits.h"

/*
 * Segments from this process to itself bypass the fabric: they go through a ring in this process's
 * memory, with the same protocol.
 */
struct emu_seg *nic_loop_claim(struct fabemu *fab)
{
    struct nic_loop *loop = fab->loop;

    if (!loop) {
        loop = fab->loop = malloc(sizeof *loop);
        if (!loop)
            return NULL;
        loop->head = loop->tail = 0;
    }
    if (loop->tail - loop->head == NIC_LOOP_SLOTS)
        return NULL;
    return &loop->seg[loop->tail++ % NIC_LOOP_SLOTS];
}

/* --- a group's words ---------------------------------------------------------------- */

/* This function must not call nic_claim_up(), which calls it to send the words first. */
static bool word_send(struct fabemu *fab, const struct nic_words *words, uint32_t word)
{
    struct emu_word set = {.value = words->value[word], .word = word};
    struct emu_seg *seg = emu_hostif_nic_claim(&fab->hostif, fab->now_ps + fab->send_ps);

    if (!seg)
        return false;
    seg->hdr = (struct emu_hdr){.dst = words->group,
                                .src = fab->info.node,
                                .kind = EMU_SET,
                                .len = sizeof set};
    memcpy(seg->payload, &set, sizeof set);
    return true;
}

bool nic_word_flush(struct fabemu *fab)
{
    while (!emu_list_empty(&fab->setting)) {
        struct nic_words *words = emu_list_entry(fab->setting.next, struct nic_words, setting);

        for (; words->unset; words->unset &= words->unset - 1)
            if (!word_send(fab, words, emu_bits_first(words->unset)))
                return false;
        emu_list_del(&words->setting);
    }
    return true;
}

void nic_word_set(struct fabemu *fab, struct nic_words *words, uint32_t word)
{
    words->unset |= 1u << word;
    if (!emu_listed(&words->setting))
        emu_list_add(&fab->setting, &words->setting);
    nic_word_flush(fab);
}
