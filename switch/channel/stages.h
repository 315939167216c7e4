/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stages.h - what the stages of the channel switch offer each other, and its struct switch_kind.
 */
#ifndef SWITCH_CHANNEL_STAGES_H
#define SWITCH_CHANNEL_STAGES_H

#include "switch/channel/transmit.h"

/* --- arrival.c, bypass.c ------------------------------------------------------------ */

/* Take the next entry of port @p that has come by @until_ps; false: there is none. */
static inline bool switch_channel_take(struct switch_channels *ch, uint32_t p, uint64_t until_ps,
                                       struct emu_entry *entry, enum emu_fate *fate)
{
    struct switch_channel_port *port = &ch->port[p];

    return emu_rx_take(&port->rx, port->faults, &ch->sw.dev.worker->cache, until_ps, entry, fate);
}

/* Process @entry, which came to port @p at @at_ps. Consumes its buffer reference. */
void switch_channel_arrive(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                           enum emu_fate fate, uint64_t at_ps);

/* Clock raw: send the next segment of the packet @v. False: it has to wait; nothing changed. */
bool switch_channel_bypass_segment(struct switch_channels *ch, uint32_t v,
                                   const struct emu_entry *entry);

/*
 * Clock raw: forward up to @most entries that have come to port @p, until one has to wait or needs
 * more than the short path. Returns how many.
 */
uint32_t switch_channel_bypass(struct switch_channels *ch, uint32_t p, uint32_t most);

/* --- route.c ------------------------------------------------------------------------ */

/* In the first step: find the ports that have cables, and which of these lead to one device. */
void switch_channel_find_cables(struct switch_channels *ch);

/* Update `onward` of all inputs after `up` has changed. */
void switch_channel_update_onward(struct switch_channels *ch);

/*
 * The outputs of the packet @v, whose head is @head: any one of them for a unicast, all of them for
 * a broadcast. Empty: no output leads on.
 */
emu_ports switch_channel_route(struct switch_channels *ch, uint32_t v, const struct emu_head *head);

/* --- reply.c ------------------------------------------------------------------------ */

/* Process a reply that came to port @p. */
void switch_channel_replied(struct switch_channels *ch, uint32_t p,
                            const struct emu_packet_hdr *reply, uint64_t at_ps);

/* Copy @w has its reply, or counts as refused (@nack). port->vcs has closed its channel already. */
void switch_channel_settle(struct switch_channels *ch, uint32_t w, bool nack, uint64_t at_ps);

/* Send the reply to the packet @v, whose copies all have replies. */
void switch_channel_answer(struct switch_channels *ch, uint32_t v);

/* Forget the packet @v, as its sender has. */
void switch_channel_give_up(struct switch_channels *ch, uint32_t v, uint64_t at_ps);

/*
 * The copy of @v that waits for a channel of output @o cannot get one and counts as refused. A
 * unicast packet that may take several outputs is refused when none is left.
 */
void switch_channel_refuse(struct switch_channels *ch, uint32_t v, uint32_t o, uint64_t at_ps);

/* A tick has passed: close channels and refuse packets that timed out. True: a channel is open. */
bool switch_channel_check_timeouts(struct switch_channels *ch, uint64_t at_ps);

/* --- link.c ------------------------------------------------------------------------- */

/*
 * The link at @port goes down, or comes up again. Down: packets that wait for it take another
 * output or get a NACK, and packets that came in by it are given up. Returns the packets that were
 * sent by it and had no reply yet.
 */
uint32_t switch_channel_link(struct switch_channels *ch, uint32_t port, bool up, uint64_t at_ps);

/* stick, ready and waiting of a struct switch_kind. */
void switch_channels_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);
bool switch_channels_ready(const struct switch_dev *sw, uint32_t port);
uint32_t switch_channels_waiting(struct switch_dev *sw, uint32_t port,
                                 void (*report)(void *ctx, const struct emu_entry *entry),
                                 void *ctx);

/* --- raw.c, timed.c ----------------------------------------------------------------- */

/*
 * timed.c: schedule outputs that were given requests outside of a step, after @at_ps: all events up
 * to then have happened.
 */
void switch_channel_schedule_news(struct switch_channels *ch, uint64_t at_ps);

/* emu_step_fn of each clock. */
uint32_t switch_step_channels_raw(struct emu_dev *dev, uint64_t until_ps);
uint32_t switch_step_channels(struct emu_dev *dev, uint64_t until_ps);

/* --- check.c, kind.c ---------------------------------------------------------------- */

/* check, check_cable, check_out and bufs of a struct switch_kind. */
void switch_channels_check(struct switch_dev *sw, uint64_t now_ps, const struct emu_found *found);
const char *switch_channels_check_out(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                                      const struct emu_faults *faults);
const char *switch_channels_check_cable(struct switch_dev *sw, uint32_t port,
                                        const struct emu_vcs *vcs, const uint32_t *promised);
uint32_t switch_channels_bufs(struct switch_dev *sw);

/* The kind, for the list in switch.c. */
extern const struct switch_kind switch_channel_kind;

#endif
