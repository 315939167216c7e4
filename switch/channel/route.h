/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.h - route computation: the outputs that a packet may take.
 *
 * `plugged` are the outputs with a cable, `up` those of them whose link is up, and `twins` of an
 * output all outputs to the same device. `onward` of an input are the outputs that a packet from
 * there may take. A packet that came down by a link to a higher switch never goes up again,
 * whatever the tables say while they are being edited: routes that first go up and then down cannot
 * deadlock, whichever tables each switch has (allocate.h).
 * Source: QsNet III §III.
 */
#ifndef SWITCH_CHANNEL_ROUTE_H
#define SWITCH_CHANNEL_ROUTE_H

#include "switch/channel/channel.h"

/* The first step: which ports have cables, and which of these lead to the same device. */
void switch_channel_find_cables(struct switch_channels *ch);

/* The links that are up have changed: update `onward` of all inputs. */
void switch_channel_update_onward(struct switch_channels *ch);

/*
 * The outputs of the packet @v, whose head is @head: any one of them for a unicast, all of them for
 * a broadcast. Empty: the packet can go nowhere.
 */
emu_ports switch_channel_route(struct switch_channels *ch, uint32_t v, const struct emu_head *head);

#endif
