/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bypass.h - clock raw: a packet that has to wait for nothing skips the input's buffer.
 */
#ifndef SWITCH_CHANNEL_BYPASS_H
#define SWITCH_CHANNEL_BYPASS_H

#include "switch/channel/transmit.h"

/* The next segment of the packet @v goes on at once. False: it has to wait; nothing has changed. */
bool switch_channel_bypass_segment(struct switch_channels *ch, uint32_t v,
                                   const struct emu_entry *entry);

/*
 * Entries that have come to port @p go on at once, as long as nothing is in the way and they are
 * what mostly comes next; at most @most. Returns how many.
 */
uint32_t switch_channel_bypass(struct switch_channels *ch, uint32_t p, uint32_t most);

#endif
