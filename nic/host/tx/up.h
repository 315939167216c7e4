/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * up.h - slots for segments: of the up ring, and of the loop to this process itself.
 *
 * Every segment into the fabric takes its slot here. What a group's member has set goes first, so
 * that nothing that it says afterwards overtakes that.
 *
 * Owner: the up ring's end here, the loop, the list of words to set. Lock: held. Callers: all that
 * send.
 */
#ifndef NIC_UP_H
#define NIC_UP_H

#include "nic/host/base/adapter.h"

/* A group's words, as this member has set them last. Part of the group. */
struct nic_words {
    struct emu_list setting; /* in fab->setting: some of unset */
    uint32_t group;          /* id */
    uint32_t unset;          /* a bit a word: its value is not in the adapter yet */
    uint64_t value[EMU_WORDS];
};

/**
 * nic_word_set - word @word has its value: it goes to the adapter now, or before all else when
 * there is room.
 */
void nic_word_set(struct fabemu *fab, struct nic_words *words, uint32_t word);
/** nic_word_flush - what was set goes before all else. False: no room for all of it. */
bool nic_word_flush(struct fabemu *fab);
/** nic_loop_claim - a slot for a segment to this process itself; NULL: no room, or no memory. */
struct emu_seg *nic_loop_claim(struct fabemu *fab);

/** nic_claim_up - the up ring's slot for a segment into the fabric; NULL: no room. */
static inline struct emu_seg *nic_claim_up(struct fabemu *fab)
{
    if (!emu_list_empty(&fab->setting) && !nic_word_flush(fab))
        return NULL;
    return emu_hostif_nic_claim(&fab->edge, fab->now_ps + fab->send_ps);
}

/**
 * nic_hdr - of a segment to @node, all but seq and len. It says which processes it is between: the
 * fabric tells whose it was if it is lost for good.
 */
static inline struct emu_hdr_words nic_hdr(const struct fabemu *fab, uint32_t node)
{
    uint8_t theirs = (uint8_t)emu_seat_first(emu_hostif_nic_seat(&fab->edge, node));

    return (struct emu_hdr_words){.whom = emu_hdr_from(node, fab->info.node),
                                  .says = emu_hdr_says(EMU_UNICAST, 0, theirs, (uint8_t)fab->life)};
}

/** nic_claim_to - a slot for a segment to @node, without its header; NULL: no room. */
static inline struct emu_seg *nic_claim_to(struct fabemu *fab, uint32_t node)
{
    return node == fab->info.node ? nic_loop_claim(fab) : nic_claim_up(fab);
}

/** nic_claim - the same with the header that nic_hdr() says. */
static inline struct emu_seg *nic_claim(struct fabemu *fab, uint32_t node)
{
    struct emu_seg *seg = nic_claim_to(fab, node);

    if (seg)
        emu_hdr_store(&seg->hdr, nic_hdr(fab, node));
    return seg;
}

/** nic_bulk_room - is there room in the up ring beyond what is kept for small things? */
static inline bool nic_bulk_room(struct fabemu *fab)
{
    struct emu_hostif_nic *edge = &fab->edge;

    if (edge->up_tail - edge->up_head < EMU_HOSTIF_SLOTS - NIC_RING_RESERVE)
        return true;
    edge->up_head = atomic_load_explicit(&edge->shared->up_head, memory_order_acquire); /* Y1 */
    return edge->up_tail - edge->up_head < EMU_HOSTIF_SLOTS - NIC_RING_RESERVE;
}

#endif
