/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * up.h - claim slots for segments in the up ring (to the fabric), or in the loop to this process.
 *
 * Every segment into the fabric gets its slot here. If this process has set words of a group
 * (fabemu_group_set()), these are sent first, so that no later segment overtakes them. Lock: held.
 */
#ifndef NIC_UP_H
#define NIC_UP_H

#include "nic/host/base/adapter.h"

#define NIC_WORD_MEMORY EMU_WORDS /* the entry of nic_words.value that is the range in memory */

/* The words of a group, with the values that this member has set last, and its range in memory. */
struct nic_words {
    struct emu_list setting; /* entry in fab->setting, while unset is not 0 */
    uint32_t group;          /* id of the group */
    uint32_t unset;          /* one bit per entry: it was not sent to the link engine yet */
    uint64_t value[EMU_WORDS + 1];
};

/** nic_word_set - send entry @word to the link engine, now or as soon as there is space. */
void nic_word_set(struct fabemu *fab, struct nic_words *words, uint32_t word);
/** nic_word_flush - send the words that were not sent yet. Returns false if there is no space. */
bool nic_word_flush(struct fabemu *fab);
/** nic_loop_claim - return a slot for a segment to this process; NULL: no space or memory. */
struct emu_seg *nic_loop_claim(struct fabemu *fab);

/** nic_claim_up - return a slot in the up ring, or NULL if there is no space. */
static inline struct emu_seg *nic_claim_up(struct fabemu *fab)
{
    if (!emu_list_empty(&fab->setting) && !nic_word_flush(fab))
        return NULL;
    return emu_hostif_nic_claim(&fab->hostif, fab->now_ps + fab->send_ps);
}

/**
 * nic_hdr - return the header of a segment to @node, except seq and len. It contains the lowest 8
 * bits of both incarnations, so that the fabric can name the two processes if it drops the segment
 * for good.
 */
static inline struct emu_hdr_words nic_hdr(const struct fabemu *fab, uint32_t node)
{
    uint8_t theirs = (uint8_t)emu_incarnation_first(emu_hostif_nic_incarnation(&fab->hostif, node));

    return (struct emu_hdr_words){.ends = emu_hdr_from(node, fab->info.node),
                                  .fields = emu_hdr_fields(EMU_UNICAST, 0, theirs,
                                                           (uint8_t)fab->incarnation)};
}

/** nic_claim_to - return a slot for a segment to @node, without a header; NULL: no space. */
static inline struct emu_seg *nic_claim_to(struct fabemu *fab, uint32_t node)
{
    return node == fab->info.node ? nic_loop_claim(fab) : nic_claim_up(fab);
}

/** nic_claim - return a slot for a segment to @node, with a nic_hdr() header; NULL: no space. */
static inline struct emu_seg *nic_claim(struct fabemu *fab, uint32_t node)
{
    struct emu_seg *seg = nic_claim_to(fab, node);

    if (seg)
        emu_hdr_store(&seg->hdr, nic_hdr(fab, node));
    return seg;
}

/** nic_bulk_room - return whether the up ring has space that is not reserved for short segments. */
static inline bool nic_bulk_room(struct fabemu *fab)
{
    return emu_hostif_nic_has_room(&fab->hostif, NIC_RING_RESERVE);
}

#endif
