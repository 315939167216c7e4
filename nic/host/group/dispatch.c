/* SPDX-License-Identifier: BSD-3-Clause */
/* dispatch.c - send the segments of groups, and dispatch the segments that arrive for groups */
#include "nic/host/group/group.h"

#include "nic/host/base/wire.h"
#include "nic/host/group/break.h"
#include "nic/host/group/broadcast.h"
#include "nic/host/group/stream.h"
#include "nic/host/group/word.h"

/* --- sending ------------------------------------------------------------------------ */

/* Notify all other members that the group is broken. Returns the number of segments sent. */
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
        left = g->sending || g->issued < g->cur || !emu_list_empty(&g->unsent) ||
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

/* --- receiving ---------------------------------------------------------------------- */

static void broadcast_receive(struct fabemu *fab, const struct emu_seg *seg)
{
    if (!fab->transport.has_engine || seg->hdr.op > NIC_MULTICAST_PROBE)
        fab->counts.malformed++;
    else if (seg->hdr.op >= NIC_MULTICAST_BROKEN)
        nic_group_receive_alarm(fab, seg);
    else
        nic_broadcast_receive(fab, seg);
}

/*
 * Put the group into fab->busy if a token (stream.c) is due. A group that waits until members may
 * send in its next half window is already in this list.
 */
static void group_token(struct fabemu *fab, struct fabemu_group *g)
{
    if (g->joined && !g->broken && g->issued < g->cur && !emu_listed(&g->busy))
        emu_list_add(&fab->busy, &g->busy);
}

uint32_t nic_group_receive_run(struct fabemu *fab, const struct emu_seg *seg, uint32_t most)
{
    uint8_t kind = seg->hdr.kind;
    struct fabemu_group *g;
    uint32_t run;

    if (kind != EMU_ALLREDUCE && kind != EMU_REDUCE &&
        (seg->hdr.kind != EMU_MULTICAST || seg->hdr.op != NIC_MULTICAST_STREAM))
        return 0;
    g = nic_group_find(fab, seg->hdr.dst);
    if (!g || g->broken)
        return 0;
    run = nic_stream_receive_run(g, seg, most);
    if (run)
        group_token(fab, g);
    return run;
}

void nic_group_receive(struct fabemu *fab, const struct emu_seg *seg)
{
    struct fabemu_group *g;

    if ((seg->hdr.kind & ~EMU_NOTIFY) == EMU_MULTICAST && seg->hdr.op != NIC_MULTICAST_STREAM) {
        broadcast_receive(fab, seg);
        return;
    }
    g = nic_group_find(fab, seg->hdr.dst);
    if (!g && nic_group_may_be_early(&seg->hdr))
        g = nic_group_early(fab, seg->hdr.dst);
    if (!g || g->broken) {
        fab->counts.late++;
        return;
    }
    nic_stream_receive(g, seg);
    group_token(fab, g);
}

void nic_group_notice(struct fabemu *fab, const struct emu_seg *seg)
{
    struct fabemu_group *g;

    if (seg->hdr.op >= NIC_MULTICAST_BROKEN) {
        nic_group_alarm_delivered(fab, seg);
        return;
    }
    g = nic_broadcast_delivered(fab, seg);
    if (g)
        nic_group_send(g);
}
