/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c - segments of groups that come.
 */
#include "nic/host/group/receive.h"

#include "nic/host/base/wire.h"
#include "nic/host/group/break.h"
#include "nic/host/group/broadcast.h"
#include "nic/host/group/send.h"
#include "nic/host/group/stream.h"

/* A multicast that is not of the stream. */
static void broadcast_receive(struct fabemu *fab, const struct emu_seg *seg)
{
    if (!fab->transport.has_engine || seg->hdr.op > NIC_MULTICAST_PROBE)
        fab->counts.malformed++;
    else if (seg->hdr.op >= NIC_MULTICAST_BROKEN)
        nic_group_news(fab, seg);
    else
        nic_broadcast_receive(fab, seg);
}

/* Is a token due? A member that waits for a window to open is on the list already. */
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
        nic_group_news_delivered(fab, seg);
        return;
    }
    g = nic_broadcast_delivered(fab, seg);
    if (g)
        nic_group_send(g);
}
