/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channels.h - a cable with channels (emu/packet/packet.h), whose ends keep their own accounts of
 * slots (emu/packet/vc.h): its rings, what is sent and what goes back.
 */
#ifndef EMU_LINK_CHANNELS_H
#define EMU_LINK_CHANNELS_H

#include "emu/link/link.h"

#define EMU_VC_SLOTS     128u /* of such a cable's rings: so many, or twice as many */
#define EMU_VC_SLOTS_MAX (2 * EMU_VC_SLOTS)

/**
 * emu_vc_slots - ring slots that may be in use: one for the segment in each buffer slot, one for a
 * reply on each channel, and for each channel one more that was sent just before its packet was
 * given up at the far end. Pure.
 */
static inline uint32_t emu_vc_slots(const struct emu_profile *profile)
{
    return 3 * profile->channels + profile->pool_slots;
}

/** emu_vc_ring - slots of those rings: some more, for faults may forge credits. Pure. */
static inline uint32_t emu_vc_ring(const struct emu_profile *profile)
{
    return emu_vc_slots(profile) < EMU_VC_SLOTS ? EMU_VC_SLOTS : EMU_VC_SLOTS_MAX;
}

/**
 * emu_tx_has_slot - has the far end emptied the ring's next slot? Replies take it without a credit.
 */
static inline bool emu_tx_has_slot(const struct emu_tx *tx)
{
    return emu_ring_has_slot(&tx->data);
}

/**
 * emu_tx_depart_packet - timed: put a segment or a reply on the wire; its head leaves at
 * @depart_ps, no earlier than tx->busy_ps. The caller has seen to the room.
 */
static inline void emu_tx_depart_packet(struct emu_tx *tx, struct emu_entry *entry,
                                        uint64_t depart_ps)
{
    const struct emu_profile *profile = tx->profile;

    tx->busy_ps = depart_ps + (entry->packet.wire + 1u) * profile->link_ps_per_byte;
    entry->time_ps = depart_ps + profile->channel_ps + profile->switch_ps;
    if (__builtin_expect(tx->slow, 0))
        entry->time_ps += emu_tx_late_ps(tx, entry->packet.wire + 1u);
    emu_dev_expect(tx->owner, entry->time_ps);
    emu_tx_send(tx, entry);
}

/**
 * emu_rx_put_credits - @count segments of @channel have left the receiver: their credits. The
 * sender is to be told.
 */
static inline void emu_rx_put_credits(struct emu_rx *rx, uint32_t count, uint32_t channel,
                                      uint64_t arrive_ps)
{
    emu_rx_note(rx, count, channel, arrive_ps);
    emu_credit_put(&rx->credit, count, channel, arrive_ps);
}

/** emu_rx_pay_channel - timed: a credit of @channel goes back, and the sender is told. */
static inline void emu_rx_pay_channel(struct emu_rx *rx, uint32_t channel, uint64_t arrive_ps)
{
    if (__builtin_expect(rx->apart, 0)) {
        emu_rx_pay_apart(rx, 1, channel, arrive_ps);
        return;
    }
    emu_rx_put_credits(rx, 1, channel, arrive_ps);
    emu_dev_expect(rx->owner, arrive_ps);
    emu_rx_tell(rx, rx->owner->worker);
}

#endif
