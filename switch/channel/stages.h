/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stages.h - functions that the files of the switch with channels share, and its struct
 * switch_kind.
 */
#ifndef SWITCH_CHANNEL_STAGES_H
#define SWITCH_CHANNEL_STAGES_H

#include "switch/channel/transmit.h"

/* --- arrival.c, bypass.c ------------------------------------------------------------ */

/* Take the next entry of port @p that has arrived by @until_ps. Returns false if there is none. */
static inline bool switch_channel_take(struct switch_channels *ch, uint32_t p, uint64_t until_ps,
                                       struct emu_entry *entry, enum emu_fate *fate)
{
    struct switch_channel_port *port = &ch->port[p];

    return emu_rx_take(&port->rx, port->faults, &ch->sw.dev.worker->cache, until_ps, entry, fate);
}

/* Process @entry, which arrived at port @p at @at_ps. Takes over its reference to a buffer. */
void switch_channel_arrive(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                           enum emu_fate fate, uint64_t at_ps);

/* Clock raw: send the next segment of packet @v without storing it. False: it must be stored. */
bool switch_channel_bypass_segment(struct switch_channels *ch, uint32_t v,
                                   const struct emu_entry *entry);

/*
 * Clock raw: forward up to @most entries that have arrived at port @p. Stops at the first one that
 * has to wait or that only arrival.c or reply.c can handle. Returns how many.
 */
uint32_t switch_channel_bypass(struct switch_channels *ch, uint32_t p, uint32_t most);

/* --- route.c ------------------------------------------------------------------------ */

/* Set `plugged`, and the `twins` of each output (route.c). Called in the first step. */
void switch_channel_find_cables(struct switch_channels *ch);

/* Update `onward` of all inputs, because `up` has changed. */
void switch_channel_update_onward(struct switch_channels *ch);

/*
 * Return the outputs of the packet @v, whose head is @head: a unicast takes any one of them, a
 * broadcast all. Empty: no output leads to its destination.
 */
emu_ports switch_channel_route(struct switch_channels *ch, uint32_t v, const struct emu_head *head);

/* --- reply.c ------------------------------------------------------------------------ */

void switch_channel_replied(struct switch_channels *ch, uint32_t p,
                            const struct emu_packet_hdr *reply, uint64_t at_ps);

/*
 * End copy @w, which has its reply or counts as refused (@nack). The caller has already closed its
 * channel in port->vcs.
 */
void switch_channel_settle(struct switch_channels *ch, uint32_t w, bool nack, uint64_t at_ps);

/* Send the reply to the packet @v, all copies of which have replies. */
void switch_channel_answer(struct switch_channels *ch, uint32_t v);

/* End the packet @v without a reply, because its sender has given it up. */
void switch_channel_give_up(struct switch_channels *ch, uint32_t v, uint64_t at_ps);

/*
 * Count the copy of @v that waits for output @o as refused, because it cannot get a channel there.
 * A unicast packet that may take several outputs is refused only when none of them is left.
 */
void switch_channel_refuse(struct switch_channels *ch, uint32_t v, uint32_t o, uint64_t at_ps);

/*
 * Close channels and refuse packets that have timed out. Called once per tick. Returns true if the
 * check must go on, because a channel is open or a packet waits.
 */
bool switch_channel_check_timeouts(struct switch_channels *ch, uint64_t at_ps);

/* --- link.c ------------------------------------------------------------------------- */

/*
 * Take the link at @port down, or up again. If it goes down, packets that wait for it take another
 * output or get a NACK, and packets that arrived over it end without a reply. Returns how many
 * packets were sent over the link and had no reply yet.
 */
uint32_t switch_channel_link(struct switch_channels *ch, uint32_t port, bool up, uint64_t at_ps);

/* stick(), ready() and waiting() of a struct switch_kind. */
void switch_channels_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);
bool switch_channels_ready(const struct switch_dev *sw, uint32_t port);
uint32_t switch_channels_waiting(struct switch_dev *sw, uint32_t port,
                                 void (*report)(void *ctx, const struct emu_entry *entry),
                                 void *ctx);

/* --- raw.c, timed.c ----------------------------------------------------------------- */

/*
 * timed.c: schedule outputs that received requests outside of a step. They act after @at_ps,
 * because all events up to that time have happened.
 */
void switch_channel_schedule_news(struct switch_channels *ch, uint64_t at_ps);

/* The step functions of each clock. */
uint32_t switch_step_channels_raw(struct emu_dev *dev, uint64_t until_ps);
uint32_t switch_step_channels(struct emu_dev *dev, uint64_t until_ps);

/* --- check.c, kind.c ---------------------------------------------------------------- */

/* check(), check_cable(), check_out() and bufs() of a struct switch_kind. */
void switch_channels_check(struct switch_dev *sw, uint64_t now_ps,
                           const struct emu_reporter *reporter);
const char *switch_channels_check_out(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                                      const struct emu_faults *faults);
const char *switch_channels_check_cable(struct switch_dev *sw, uint32_t port,
                                        const struct emu_vcs *vcs, const uint32_t *promised);
uint32_t switch_channels_bufs(struct switch_dev *sw);

/* The kind, for the list in switch.c. */
extern const struct switch_kind switch_channel_kind;

#endif
