/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.c - if an operation of this process waits for a peer, check regularly that the peer still
 * answers.
 *
 * The hello of peer/handshake.c serves as a keepalive: it is sent about once a second to each such
 * peer. If only a receive waits for a peer, the peer may be silent for any time, because this
 * process has sent it no request. With acknowledgments the network still reports whether such a
 * peer can be reached.
 */
#include "emu/util/now.h"
#include "nic/host/progress/progress.h"

#include "nic/host/base/base.h"
#include "nic/host/base/op.h"
#include "nic/host/group/break.h"
#include "nic/host/peer/failure.h"
#include "nic/host/peer/handshake.h"
#include "nic/host/rx/queue.h"

/*
 * With acknowledgments: send a hello to each node from which a receive is posted, so that the
 * network reports whether the node can be reached.
 */
static void queue_probe(struct fabemu *fab)
{
    for (uint32_t id = 0; id < NIC_QUEUES; id++) {
        struct fabemu_queue *queue = fab->queues[id];

        if (!queue)
            continue;
        emu_each_listed (const struct nic_op, op, &queue->posted, post.link)
            if (op->node != FABEMU_ANY_NODE)
                nic_peer_probe(fab, nic_peer(fab, op->node));
    }
}

/* Return whether this process waits for the peer, apart from operations in fab->slots. */
static bool peer_is_awaited(const struct nic_peer *peer)
{
    if (!peer->sendq.next)
        return false;
    if (!peer->open)
        return peer->must_notify;
    return peer->filling || peer->batch.left || peer->earlies ||
           (!emu_list_empty(&peer->sendq) && !nic_peer_window(peer));
}

void nic_watch(struct fabemu *fab)
{
    uint64_t now = nic_now_ns(fab);

    if (now < fab->watch_ns)
        return;
    fab->watch_ns = now + fab->watch_gap_ns;
    for (uint32_t i = 1; i < fab->slot_count; i++) {
        const struct nic_op *op = fab->slots[i].op;

        if (op && op->state == NIC_OP_WAITING && op->node < fab->info.nodes)
            nic_peer_connect(fab, nic_peer(fab, op->node));
    }
    if (fab->transport.reports_delivery) /* without such reports, no probe is needed */
        queue_probe(fab);
    nic_group_watch(fab);
    for (uint32_t node = 0; node < fab->info.nodes; node++)
        if (peer_is_awaited(&fab->peers[node]))
            nic_peer_connect(fab, &fab->peers[node]);
    nic_peer_report_losses(fab, now);
    nic_pending_publish(fab, nic_now_ns(fab));
}
