/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure.c - end all operations with a peer because its process has ended, or because the pair's
 * streams broke.
 *
 * The fabric writes the current incarnation of each node into every host interface
 * (emu_incarnation_state()). The adapter uses this for three purposes. It recognises late hellos
 * (handshake.c) from processes that have ended. It sends no hello to a node without a process. And
 * it ends the operations with a process when the process has ended. It checks for this when an
 * operation starts, when a hello, a disconnect query or the report of a lost segment arrives, and
 * in the first step after the end of any process (emu_hostif_nic_endings()). Operations that start
 * later take place with the node's next process.
 *
 * If the network drops a segment between two processes for good, both are stuck. The receiver would
 * wait forever for the request with the missing number. Or, if the segment was an answer, the
 * sender of the request would wait forever for it.
 * We say that the pair's *streams* (the numbered requests in both directions) break. The sender of
 * the segment ends all operations with the peer, starts the next epoch, and sends hellos until the
 * peer answers. A process that receives a hello of a later epoch ends its operations with the peer,
 * too (handshake.c).
 */
#include "nic/host/peer/failure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/now.h"
#include "nic/host/base/base.h"
#include "nic/host/peer/handshake.h"
#include "nic/host/rx/message.h"
#include "nic/host/rx/queue.h"
#include "nic/host/tx/request.h"

void nic_peer_fail_queue(struct fabemu *fab, struct nic_peer *peer, int status)
{
    while (!emu_list_empty(&peer->sendq))
        nic_op_end(fab, emu_list_entry(peer->sendq.next, struct nic_op, post.link), status);
    emu_list_del(&peer->ready);
}

static void early_drop_all(struct fabemu *fab, struct nic_peer *peer)
{
    for (uint32_t i = 0; peer->earlies && i < NIC_ORDER_WINDOW; i++) {
        struct nic_early *early = peer->early[i];

        if (!early)
            continue;
        peer->early[i] = NULL;
        peer->earlies--;
        early->next = fab->early_free;
        fab->early_free = early;
    }
}

/* End all operations with the node's process and reset the counters of the pair. */
static void peer_forget(struct fabemu *fab, struct nic_peer *peer)
{
    nic_message_break(fab, peer, -EHOSTUNREACH);
    peer->batch = (struct nic_batch){0};
    nic_op_fail_all(fab, peer->node, -EHOSTUNREACH);
    early_drop_all(fab, peer);
    emu_list_del(&peer->ready);
    peer->incarnation = 0;
    peer->vacated = true;
    peer->open = false;
    peer->answered_disconnect = false;
    if (peer->senders) /* request numbers begin again */
        memset(peer->senders, 0, NIC_ORDER_WINDOW * sizeof *peer->senders);
    peer->tx_seq = peer->tx_acked = peer->tx_eager = peer->tx_consumed = 0;
    peer->rx_next = peer->rx_acked = peer->rx_consumed = peer->rx_consumed_acked = 0;
}

/* Mark each queue that may have lost a message whose send is complete. */
static void senders_mark(struct fabemu *fab, const struct nic_peer *peer)
{
    for (uint32_t seq = peer->tx_acked; peer->senders && seq != peer->tx_seq; seq++) {
        const struct nic_sender *sender = &peer->senders[seq % NIC_ORDER_WINDOW];

        if (sender->queue && sender->seq == seq && fab->queues[sender->queue - 1])
            fab->queues[sender->queue - 1]->lost_to = peer->node;
    }
}

/* Report a loss to the owner of @queue, unless a failed operation has reported it already. */
static void queue_report_loss(struct fabemu *fab, struct fabemu_queue *queue, uint64_t incarnation)
{
    struct fabemu_req failed = {.status = -EHOSTUNREACH};
    struct nic_op *op = nic_op_of(&failed);

    if (incarnation && queue->lost) {
        op->node = queue->lost_to;
        op->incarnation = incarnation;
        nic_peer_count_break(fab, op->node);
        nic_peer_report(fab, op->node);
        fab->completions++;
        queue->lost(queue, &failed, queue->lost_arg);
    }
    queue->lost_to = FABEMU_ANY_NODE;
}

void nic_peer_report_losses(struct fabemu *fab, uint64_t now)
{
    for (uint32_t node = 0; node < fab->info.nodes; node++) {
        struct nic_peer *peer = &fab->peers[node];
        uint32_t before = fab->completions;

        if (!peer->senders || !peer->broke_ns || now - peer->broke_ns < fab->watch_gap_ns)
            continue;
        emu_each_listed (struct fabemu_queue, queue, &fab->opened, opened)
            if (queue->lost_to == node)
                queue_report_loss(fab, queue, peer->unreported_incarnation);
        if (fab->completions != before)
            peer->unreported_incarnation = 0;
    }
}

/*
 * End all operations, because the pair's streams break; their status reports the break. If no
 * operation was pending, the next operation must report it, because data of a completed send may be
 * lost.
 */
void nic_peer_break(struct fabemu *fab, struct nic_peer *peer)
{
    uint64_t incarnation = peer->incarnation;
    uint32_t before = fab->completions;

    peer->broke_ns = nic_now_ns(fab);
    nic_peer_count_break(fab, peer->node);
    senders_mark(fab, peer);
    nic_peer_fail_queue(fab, peer, -EHOSTUNREACH);
    peer_forget(fab, peer);
    nic_queue_fail_older(fab, peer->node, UINT64_MAX, false);
    peer->unreported_incarnation = fab->leaving || fab->completions == before ? incarnation : 0;
}

/* If the process ended without a disconnect, data that it has not acknowledged may be lost. */
void nic_peer_departed(struct fabemu *fab, struct nic_peer *peer, uint64_t first, bool disconnected)
{
    uint64_t incarnation = peer->incarnation ? peer->incarnation : peer->unreported_incarnation;
    bool lost = peer->unreported_incarnation ||
                (peer->incarnation && !disconnected && peer->tx_seq != peer->tx_acked);
    bool was_connecting = emu_listed(&peer->connect);
    uint32_t before = fab->completions;

    assert(first > peer->first);
    peer->first = first;
    peer->broke = NIC_BROKE_NOT;
    nic_peer_count_break(fab, peer->node);
    peer->debt_ns = 0;
    emu_list_del(&peer->connect);
    nic_peer_fail_queue(fab, peer, -EHOSTUNREACH);
    peer_forget(fab, peer);
    nic_queue_fail_older(fab, peer->node, first, disconnected);
    peer->must_notify = false; /* there is no process left to be notified */
    peer->unreported_incarnation = lost && fab->completions == before ? incarnation : 0;
    if (was_connecting)
        nic_peer_connect(fab, peer); /* connect to the node's next process */
}

void nic_peer_check_all(struct fabemu *fab)
{
    atomic_store_explicit(&fab->endings, emu_hostif_nic_endings(&fab->hostif),
                          memory_order_relaxed);
    for (uint32_t node = 0; node < fab->info.nodes; node++)
        if (fab->peers[node].sendq.next)
            nic_peer_check(fab, &fab->peers[node]);
}

int nic_peer_refuses(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    nic_peer_check(fab, peer);
    if (peer->unreported_incarnation &&
        (!op->named || op->incarnation == peer->unreported_incarnation)) {
        peer->unreported_incarnation = 0;
        return nic_fail(-EHOSTUNREACH, "data that was sent to node %u earlier may have been lost",
                        peer->node);
    }
    if (op->named && (op->incarnation != peer->first || !nic_peer_is_there(fab, peer)))
        return nic_fail(-EHOSTUNREACH, "process %llu of node %u has left or died",
                        (unsigned long long)op->incarnation, peer->node);
    op->incarnation = peer->first;
    return 0;
}

void nic_peer_request(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    if (nic_peer_begin(fab, peer, op)) {
        nic_op_end(fab, op, -EHOSTUNREACH);
        return;
    }
    nic_request(fab, peer, op);
    if (!peer->open)
        nic_peer_connect(fab, peer);
}

void nic_peer_break_off(struct fabemu *fab, struct nic_peer *peer)
{
    nic_peer_break(fab, peer);
    peer->epoch++;
    peer->must_notify = true;
}

void nic_peer_cancel(struct fabemu *fab, struct nic_peer *peer)
{
    nic_peer_fail_queue(fab, peer, -ECANCELED);
    emu_list_del(&peer->connect);
}

void nic_peer_release(struct fabemu *fab, struct nic_peer *peer)
{
    if (!peer->sendq.next)
        return; /* the peer was never used */
    nic_peer_fail_queue(fab, peer, -ECANCELED);
    early_drop_all(fab, peer);
    free(peer->early);
    free(peer->senders);
    free(peer->lost);
}
