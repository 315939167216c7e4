/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reply.h - ACK and NACK on their way back, packets that are given up, and time-outs.
 *
 * A reply closes the channel of the output that it came by. When all copies of a packet have their
 * replies, one reply goes back: ACK, or NACK if any of them was a NACK. That frees the channel of
 * the input. Then the channels that were closed are granted to packets that wait.
 *
 * An open channel on which nothing was sent for profile->reply_timeout_ps has lost its packet, or
 * the reply: it is closed, and counts as a NACK. Time passes in ticks of an eighth of that, and all
 * channels are checked once a tick, so a packet costs no timer. A late reply finds another tag, or
 * a closed channel.
 *
 * A packet that has waited as long for a channel gets a NACK: packets of a higher priority, to a
 * node that never answers, may take all channels of an output again and again. The packet would
 * hold its slots for good, and with them all other packets of its sender.
 *
 * A copy whose last segment was not sent when its packet is given up gets no reply: its channel is
 * closed at once, and the next head on the channel tells the far end. A copy that was sent to its
 * end keeps its channel until the reply comes, which then counts for no packet.
 *
 * Clock raw has no time of its own: ticks are the host's. A switch with an open channel is stepped
 * once a tick at least, because a sender that waits for its slots cannot send to wake it.
 */
#ifndef SWITCH_CHANNEL_REPLY_H
#define SWITCH_CHANNEL_REPLY_H

#include "switch/channel/transmit.h"

/* A reply came to port @p. */
void switch_channel_replied(struct switch_channels *ch, uint32_t p,
                            const struct emu_packet_hdr *reply, uint64_t at_ps);

/*
 * Copy @w has its reply, or counts as refused (@nack). Its channel is closed in port->vcs already.
 */
void switch_channel_settle(struct switch_channels *ch, uint32_t w, bool nack, uint64_t at_ps);

/* All copies of the packet @v have their replies: answer it. */
void switch_channel_answer(struct switch_channels *ch, uint32_t v);

/* Forget the packet @v: the sender has done so. */
void switch_channel_give_up(struct switch_channels *ch, uint32_t v, uint64_t at_ps);

/*
 * The copy of @v that waits for a channel of output @o, and cannot get one, counts as refused. A
 * unicast packet that may take several outputs is refused only when it can take none.
 */
void switch_channel_refuse(struct switch_channels *ch, uint32_t v, uint32_t o, uint64_t at_ps);

/* A tick has passed: end what has waited too long. Returns true if any channel is open. */
bool switch_channel_check_timeouts(struct switch_channels *ch, uint64_t at_ps);

#endif
