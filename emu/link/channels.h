/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channels.h - a cable with virtual channels (emu/packet/packet.h): its rings, departures and
 * credits. The free buffer slots of the receiver are counted elsewhere (emu/packet/vc.h).
 */
#ifndef EMU_LINK_CHANNELS_H
#define EMU_LINK_CHANNELS_H

#include "emu/link/link.h"

#define EMU_VC_SLOTS     128u /* slots of the rings, unless the profile needs more */
#define EMU_VC_SLOTS_MAX (2 * EMU_VC_SLOTS)

/**
 * emu_vc_slots - return how many ring slots may be in use at once: one per buffer slot of the
 * receiver, and two per channel for replies. A channel needs two if a reply was sent just before
 * the other end gave up the packet and used the channel for the next packet. Pure.
 */
static inline uint32_t emu_vc_slots(const struct emu_profile *profile)
{
    return 3 * profile->channels + profile->pool_slots;
}

/**
 * emu_vc_ring - return the number of slots of the rings. There are more than emu_vc_slots(),
 * because faults may forge credits. Pure.
 */
static inline uint32_t emu_vc_ring(const struct emu_profile *profile)
{
    return emu_vc_slots(profile) < EMU_VC_SLOTS ? EMU_VC_SLOTS : EMU_VC_SLOTS_MAX;
}

/** emu_tx_has_slot - return whether the ring's next slot is empty. A reply needs no credit. */
static inline bool emu_tx_has_slot(const struct emu_tx *tx)
{
    return emu_ring_has_slot(&tx->data);
}

/**
 * emu_tx_depart_packet - timed: put a segment or reply on the wire. Its first byte leaves at
 * @depart_ps, which is not before tx->busy_ps. The caller has checked that there is a slot and,
 * for a segment, a credit.
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

/** emu_rx_put_credits - return @count credits of @channel without signalling the sender. */
static inline void emu_rx_put_credits(struct emu_rx *rx, uint32_t count, uint32_t channel,
                                      uint64_t arrive_ps)
{
    emu_rx_note(rx, count, channel, arrive_ps);
    emu_credit_put(&rx->credit, count, channel, arrive_ps);
}

/** emu_rx_pay_channel - timed: return one credit of @channel and signal the sender. */
static inline void emu_rx_pay_channel(struct emu_rx *rx, uint32_t channel, uint64_t arrive_ps)
{
    if (__builtin_expect(rx->cross_worker, 0)) {
        emu_rx_pay_cross_worker(rx, 1, channel, arrive_ps);
        return;
    }
    emu_rx_put_credits(rx, 1, channel, arrive_ps);
    emu_dev_expect(rx->owner, arrive_ps);
    emu_rx_notify(rx, rx->owner->worker);
}

#endif
