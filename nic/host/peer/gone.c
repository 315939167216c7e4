/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gone.c - a process is gone, or the pair's streams broke off: all that was with it ends.
 *
 * Which process is at a node the fabric writes into each edge (emu_seat_state()), so a hello of one
 * that is gone is known however it was overtaken, nobody says hello to an empty node, and all that
 * was with a process ends as soon as anybody here looks: when an operation begins, and in each step
 * after somebody has gone (emu_hostif_nic_endings()). An operation that begins after that is with
 * the node's next process, so news of an end never comes too late.
 *
 * A pair breaks when the network gives up a segment of it, whatever that carried: then their
 * numbers have a hole, or an answer is missing that somebody waits for. The process whose segment
 * it was ends all that is under way with the other, begins the next epoch, and says hello until it
 * is answered. A process that hears of a later epoch does the same (meet.c).
 */
#include "nic/host/peer/gone.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/util/now.h"
#include "nic/host/base/base.h"
#include "nic/host/peer/hello.h"
#include "nic/host/rx/message.h"
#include "nic/host/rx/queue.h"
#include "nic/host/tx/request.h"

/*
 * End all queued operations: they were for the process that is at the node, or that has just left
 * it.
 */
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

/* The process that we knew there is no more. */
static void peer_forget(struct fabemu *fab, struct nic_peer *peer)
{
    nic_message_break(fab, peer, -EHOSTUNREACH);
    nic_op_fail_all(fab, peer->node, -EHOSTUNREACH);
    early_drop_all(fab, peer);
    emu_list_del(&peer->ready);
    peer->life = 0;
    peer->vacated = true;
    peer->open = false;
    peer->answered_bye = false;
    peer->tx_seq = peer->tx_acked = peer->tx_eager = peer->tx_consumed = 0;
    peer->rx_next = peer->rx_acked = peer->rx_consumed = peer->rx_consumed_acked = 0;
}

/*
 * The pair's streams break off here. Completions say it; where there are none, the
 * next operation does: what was sent and had completed may not have arrived.
 */
void nic_peer_break(struct fabemu *fab, struct nic_peer *peer)
{
    uint64_t life = peer->life;
    uint32_t before = fab->completions;

    peer->broke_ns = emu_now_ns();
    nic_peer_count_break(fab, peer->node);
    nic_peer_fail_queue(fab, peer, -EHOSTUNREACH);
    peer_forget(fab, peer);
    nic_queue_passed(fab, peer->node, UINT64_MAX, false);
    peer->unreported_seat = fab->leaving || fab->completions == before ? life : 0;
}

/* A process that ends without a goodbye may lack whatever it has not acknowledged. */
void nic_peer_departed(struct fabemu *fab, struct nic_peer *peer, uint64_t first, bool goodbye)
{
    uint64_t life = peer->life ? peer->life : peer->unreported_seat;
    bool lost = peer->unreported_seat || (peer->life && !goodbye && peer->tx_seq != peer->tx_acked);
    bool greeted = emu_listed(&peer->connect);
    uint32_t before = fab->completions;

    assert(first > peer->first);
    peer->first = first;
    peer->broke = NIC_BROKE_NOT;
    nic_peer_count_break(fab, peer->node);
    peer->debt_ns = 0;
    emu_list_del(&peer->connect);
    nic_peer_fail_queue(fab, peer, -EHOSTUNREACH);
    peer_forget(fab, peer);
    nic_queue_passed(fab, peer->node, first, goodbye);
    peer->must_notify = false; /* nobody is there to be told */
    peer->unreported_seat = lost && fab->completions == before ? life : 0;
    if (greeted)
        nic_peer_connect(fab, peer); /* the next one */
}

void nic_peer_look_all(struct fabemu *fab)
{
    atomic_store_explicit(&fab->endings, emu_hostif_nic_endings(&fab->edge), memory_order_relaxed);
    for (uint32_t node = 0; node < fab->info.nodes; node++)
        if (fab->peers[node].sendq.next)
            nic_peer_look(fab, &fab->peers[node]);
}

int nic_peer_refuses(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    nic_peer_look(fab, peer);
    if (peer->unreported_seat && (!op->named || op->seat == peer->unreported_seat)) {
        peer->unreported_seat = 0;
        return nic_fail(-EHOSTUNREACH, "what was sent to node %u before may be lost", peer->node);
    }
    if (op->named && (op->seat != peer->first || !nic_peer_is_there(fab, peer)))
        return nic_fail(-EHOSTUNREACH, "process %llu of node %u has left or died",
                        (unsigned long long)op->seat, peer->node);
    op->seat = peer->first;
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

/* The same as nic_peer_given_up(), and it is for us to tell. */
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
        return; /* never touched */
    nic_peer_fail_queue(fab, peer, -ECANCELED);
    early_drop_all(fab, peer);
    free(peer->early);
    free(peer->lost);
}
