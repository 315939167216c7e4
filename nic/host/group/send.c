/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - a group's turn: all that it has to send.
 */
#include "nic/host/group/send.h"

#include "nic/host/base/wire.h"
#include "nic/host/group/broadcast.h"
#include "nic/host/group/condition.h"
#include "nic/host/group/stream.h"

/* To all the others: nothing more will come of this group. */
static uint32_t alarm_send(struct fabemu_group *g)
{
    struct emu_seg *seg = nic_group_claim(g, EMU_MULTICAST | EMU_NOTIFY, 0);

    if (!seg)
        return 0;
    seg->hdr.op = NIC_MULTICAST_BROKEN;
    g->alarm = NIC_ALARM_SENT;
    return 1;
}

uint32_t nic_group_send(struct fabemu_group *g)
{
    uint32_t sent;
    bool left;

    if (g->broken) {
        sent = g->alarm == NIC_ALARM_DUE ? alarm_send(g) : 0;
        left = g->alarm == NIC_ALARM_DUE;
    } else {
        sent = nic_condition_send(g) + nic_stream_send(g) + nic_broadcast_send(g, NIC_GROUP_BURST);
        left = g->sending || g->issued < g->cur || !emu_list_empty(&g->asking) ||
               nic_broadcast_due(g);
    }
    if (!left)
        emu_list_del(&g->busy);
    else if (!emu_listed(&g->busy))
        emu_list_add(&g->fab->busy, &g->busy);
    return sent;
}

void nic_group_start(struct fabemu_group *g, struct nic_coll *c)
{
    nic_stream_add(g, c);
    nic_group_send(g);
}

uint32_t nic_group_transmit(struct fabemu *fab)
{
    struct emu_list *at = fab->busy.next, *next;
    uint32_t sent = 0;

    for (; at != &fab->busy; at = next) {
        next = at->next;
        sent += nic_group_send(emu_list_entry(at, struct fabemu_group, busy));
    }
    return sent;
}
