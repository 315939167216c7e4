/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kind.h - the channel switch as a kind of switch: the functions of its struct switch_kind.
 */
#ifndef SWITCH_CHANNEL_KIND_H
#define SWITCH_CHANNEL_KIND_H

#include "switch/channel/channel.h"

/*
 * link.c: the link at @port goes down, or comes up again. Down: packets that wait for it take
 * another way or get a NACK, and packets that have come by it in part are given up. Returns packets
 * that were sent by it and had no reply yet.
 */
uint32_t switch_channel_link(struct switch_channels *ch, uint32_t port, bool up, uint64_t at_ps);

/* link.c: stick, ready and waiting. */
void switch_channels_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);
bool switch_channels_ready(const struct switch_dev *sw, uint32_t port);
uint32_t switch_channels_waiting(struct switch_dev *sw, uint32_t port,
                                 void (*tell)(void *ctx, const struct emu_entry *entry), void *ctx);

/*
 * timed.c: outputs were given something to send outside of a step. All events up to @at_ps have
 * happened, so they act after that.
 */
void switch_channel_schedule_news(struct switch_channels *ch, uint64_t at_ps);

/* raw.c, timed.c: emu_step_fn of each clock. */
uint32_t switch_step_channels_raw(struct emu_dev *dev, uint64_t until_ps);
uint32_t switch_step_channels(struct emu_dev *dev, uint64_t until_ps);

/* check.c: check, check_cable, check_out and bufs. */
void switch_channels_check(struct switch_dev *sw, uint64_t now_ps, const struct emu_found *found);
const char *switch_channels_check_out(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                                      const struct emu_faults *faults);
const char *switch_channels_check_cable(struct switch_dev *sw, uint32_t port,
                                        const struct emu_vcs *vcs, const uint32_t *promised);
uint32_t switch_channels_bufs(struct switch_dev *sw);

/* kind.c: the kind, for the list in switch.c. */
extern const struct switch_kind switch_channel_kind;

#endif
