/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * break.c - break a group, notify its members, and probe the members during long waits.
 *
 * With acknowledgments a group breaks when the network drops one of its segments for good. The
 * sender of that segment notifies the other members by an alarm, which it repeats until all have
 * received it. A member that only waits sends no segments, so it would not learn that others cannot
 * be reached. Therefore about once a second one of the waiting members sends a probe: a multicast
 * that all members must acknowledge. A member that receives a probe delays its own.
 */
#include "nic/host/group/break.h"

#include <errno.h>
#include <stdio.h>

#include "emu/util/now.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/base/wire.h"
#include "nic/host/group/broadcast.h"
#include "nic/host/group/group.h"
#include "nic/host/group/stream.h"
#include "nic/host/group/word.h"
#include "nic/host/rx/queue.h"

static void group_break(struct fabemu_group *g)
{
    int status;

    g->broken = -EPIPE;
    status = nic_group_status(g);
    nic_stream_break(g);
    nic_group_end_ops(g, status);
    emu_each_listed (struct fabemu_queue, queue, &g->fab->opened, opened)
        if (queue->group == g && !queue->broken)
            nic_queue_break(queue);
}

void nic_group_broken(struct fabemu *fab, uint32_t id, uint32_t node)
{
    struct fabemu_group *g = nic_group_find(fab, id);

    if (!g) /* the reporting member has joined before this process */
        g = nic_group_early(fab, id);
    if (!g)
        return;
    if (!g->broken)
        g->gave_up = node;
    group_break(g);
}

/* Keep only the first reason. N7 pairs with N8: a thread that sees has_why sees all of why. */
static void group_set_why(struct fabemu_group *g, const char *why)
{
    if (atomic_load_explicit(&g->has_why, memory_order_relaxed))
        return;
    snprintf(g->why, sizeof g->why, "%s", why);
    atomic_store_explicit(&g->has_why, true, memory_order_release); /* N7 */
}

void nic_group_over(struct fabemu *fab, uint32_t id, const struct nic_group_end *end)
{
    struct fabemu_group *g = nic_group_find(fab, id);

    if (g && g->lost == FABEMU_ANY_NODE)
        g->lost = end->dead;
    if (g && !g->broken) {
        g->broke_off = end->by;
        g->partitioned = end->partitioned;
    }
    if (g && *end->why)
        group_set_why(g, end->why);
    if (g && (g->joined || g->joining)) {
        group_break(g);
        return;
    }
    nic_group_remember_broken(fab, id);
    if (g)
        nic_group_drop_early(g);
}

/* --- the network dropped a segment for good ----------------------------------------- */

/* Return whether the operation that @seg names by its id is pending. */
static bool op_needs(struct fabemu *fab, const struct fabemu_group *g, const struct emu_seg *seg)
{
    struct nic_op *op = nic_op_find(fab, seg->hdr.seq, FABEMU_ANY_NODE);

    if (!op)
        return false;
    return op->kind == NIC_OP_BROADCAST ? nic_broadcast_put_of(op)->group == g
                                        : nic_condition_of(op)->group == g;
}

/* Return whether a pending operation needs @seg. No operation needs an alarm. */
static bool group_needs(struct fabemu_group *g, uint8_t kind, const struct emu_seg *seg)
{
    if (kind == EMU_SET)
        /* the link engine did not get the word, so conditionals would give wrong results */
        return true;
    if (kind == EMU_TEST)
        return op_needs(g->fab, g, seg);
    if (kind != EMU_MULTICAST || seg->hdr.op == NIC_MULTICAST_STREAM)
        return nic_stream_needs(g, seg);
    if (seg->hdr.op == NIC_MULTICAST_PROBE)
        return g->probing;
    return seg->hdr.op < NIC_MULTICAST_BROKEN && op_needs(g->fab, g, seg);
}

void nic_group_given_up(struct fabemu *fab, const struct emu_seg *seg)
{
    uint8_t kind = seg->hdr.kind & (uint8_t) ~(EMU_FAILED | EMU_NOTIFY);
    struct fabemu_group *g = nic_group_find(fab, seg->hdr.dst);

    if (!g || !g->joined) {
        fab->counts.late++;
        return;
    }
    if (kind == EMU_MULTICAST && seg->hdr.op == NIC_MULTICAST_BROKEN && g->alarm == NIC_ALARM_SENT)
        g->alarm = NIC_ALARM_LOST;
    if (g->broken || !group_needs(g, kind, seg))
        return;
    g->gave_up = fab->info.node;
    group_break(g);
    g->alarm = NIC_ALARM_DUE;
    nic_group_send(g);
}

void fabemu_group_break(struct fabemu_group *group)
{
    struct fabemu *fab = group->fab;
    bool breaks;

    if (nic_is_defunct(fab))
        return;
    nic_lock(fab);
    breaks = !group->broken;
    if (breaks) {
        group->broke_off = fab->info.node;
        group_break(group);
        group->alarm = fab->transport.reports_delivery ? NIC_ALARM_DUE : NIC_ALARM_NONE;
        nic_group_send(group);
    }
    nic_unlock(fab);
    if (breaks && !fab->transport.reports_delivery)
        nic_group_request_break(group);
}

/* --- probes of members that only wait ----------------------------------------------- */

/*
 * Set the time of the next probe, because this member has sent or received one. It is one to two
 * intervals from now, at random, so that members do not all probe at the same time.
 */
static void group_probed(struct fabemu_group *g)
{
    uint64_t gap = g->fab->watch_gap_ns;

    g->probe_ns = nic_now_ns(g->fab) + gap + nic_random_of(g->fab) % (gap + 1);
}

static void group_probe(struct fabemu_group *g)
{
    struct emu_seg *seg;

    if (g->probing || nic_now_ns(g->fab) < g->probe_ns ||
        (emu_list_empty(&g->ops) && emu_list_empty(&g->in_engine) && emu_list_empty(&g->again)))
        return;
    seg = nic_group_claim(g, EMU_MULTICAST | EMU_NOTIFY, 0);
    if (!seg)
        return;
    seg->hdr.op = NIC_MULTICAST_PROBE;
    g->probing = true;
    group_probed(g);
}

void nic_group_watch(struct fabemu *fab)
{
    if (!fab->transport.reports_delivery)
        return; /* the network would not report whether a probe was delivered */
    for (uint32_t i = 0; i < NIC_GROUP_BUCKETS; i++) {
        for (struct fabemu_group *g = fab->groups[i]; g; g = g->next) {
            if (g->alarm == NIC_ALARM_LOST) {
                g->alarm = NIC_ALARM_DUE;
                nic_group_send(g);
            }
            if (!g->broken && g->members > 1)
                group_probe(g);
        }
    }
}

/* --- alarms and probes of other members --------------------------------------------- */

void nic_group_alarm_delivered(struct fabemu *fab, const struct emu_seg *seg)
{
    struct fabemu_group *g = nic_group_find(fab, seg->hdr.dst);

    if (g && seg->hdr.op == NIC_MULTICAST_BROKEN && g->alarm == NIC_ALARM_SENT)
        g->alarm = NIC_ALARM_NONE;
    else if (g && seg->hdr.op == NIC_MULTICAST_PROBE && g->probing)
        g->probing = false;
    else if (g)
        fab->counts.malformed++;
    else
        fab->counts.late++;
}

void nic_group_receive_alarm(struct fabemu *fab, const struct emu_seg *seg)
{
    struct fabemu_group *g = nic_group_find(fab, seg->hdr.dst);

    if (seg->hdr.op == NIC_MULTICAST_BROKEN)
        nic_group_broken(fab, seg->hdr.dst, seg->hdr.src);
    else if (g)
        group_probed(g);
}
