/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transmit.h - switch allocation, and the wire: an output sends a reply or a segment.
 *
 * An output sends replies first, because they are short, and there is at most one for each packet
 * that has arrived. Then it serves the highest priority that has a segment with a credit. Within a
 * priority it serves inputs round robin. So a packet of a higher priority waits for one segment at
 * most. A broadcast packet has a *copy* at each of its outputs. When all copies have sent a
 * segment, its slot is free and its credit returns.
 * Source: QsNet III §IV-B.
 */
#ifndef SWITCH_CHANNEL_TRANSMIT_H
#define SWITCH_CHANNEL_TRANSMIT_H

#include "switch/channel/allocate.h"
#include "switch/channel/buffer.h"

/* Return the second header word of the reply, on channel @c of an input, to packet @in. */
static inline uint64_t switch_channel_reply_rest(const struct switch_channel_in *in, uint32_t c,
                                                 bool nack)
{
    return (struct emu_packet_hdr){.tag = in->tag,
                                   .wire = EMU_REPLY_BYTES - 1,
                                   .channel = (uint8_t)c,
                                   .last = 1,
                                   .kind = nack ? EMU_PACKET_NACK : EMU_PACKET_ACK}
        .rest;
}

/* Clock raw: return whether nothing waits at output @o and its cable's ring has a free slot. */
static inline bool switch_channel_is_open(const struct switch_channels *ch, uint32_t o)
{
    const struct emu_tx *tx = &ch->port[o].tx;

    return !emu_ports_has(ch->queued | ch->sw.stuck, o) && tx->shape == EMU_LINK_LOCAL &&
           emu_tx_has_slot(tx);
}

/*
 * Clock raw: send the reply to the packet @v. Returns false if it has to wait; then nothing has
 * changed.
 */
static inline bool switch_channel_send_reply_now(struct switch_channels *ch, uint32_t v)
{
    uint32_t p = v / EMU_VCS, c = v % EMU_VCS;
    struct switch_channel_in *in = &ch->in[v];
    struct emu_entry *slot;

    if (!switch_channel_is_open(ch, p))
        return false;
    in->state = CHANNEL_CLOSED;
    slot = emu_tx_slot(&ch->port[p].tx);
    slot->packet.head = 0;
    slot->packet.rest = switch_channel_reply_rest(in, c, in->nack);
    slot->buf = EMU_NO_BUF;
    slot->crc = 0;
    emu_tx_publish(&ch->port[p].tx, 0);
    ch->news |= emu_port(p);
    return true;
}

/* Send a reply or a segment through output @o. Returns false if it may send none now. */
bool switch_channel_transmit(struct switch_channels *ch, uint32_t o, uint64_t at_ps);

/* Stop copy @w, which sends no more segments, and free the slots that were promised to it. */
void switch_channel_stop_copy(struct switch_channels *ch, uint32_t w);

#endif
