/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leave.c - disconnect an adapter from all its peers.
 *
 * An operation completes when its buffer may be reused. Its segments may then still be in the up
 * ring (to the fabric), in the network, or in the receiver's reorder buffer. So a process that
 * detaches sends a query (NIC_DISCONNECT_ASK) to each peer, and each peer answers once it has
 * received everything (peer/disconnect.c). Then no data of a completed operation is lost, even if
 * another process attaches to the node next.
 *
 * The process repeats the query until it is answered; queries and answers may overtake each other.
 * A process that detaches also waits until its peers have confirmed all its queries, so that none
 * of them arrives at an empty node. Both processes of a pair may detach at the same time. After a
 * peer has answered this process, two kinds of the peer's segments may still be on the way here:
 * more answers and, if the peer detaches too, queries that it repeated before our answer reached
 * it. NIC_DISCONNECT_DONE contains the number of these queries. This process waits for the segments
 * for at most fab->farewell_limit_ns. The fabric counts a segment that arrives later as dropped,
 * but these segments carry no data.
 */
#include "nic/host/api/open.h"

#include <stdio.h>

#include "emu/util/now.h"
#include "emu/util/wait.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/peer/disconnect.h"
#include "nic/host/peer/failure.h"
#include "nic/host/progress/progress.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/bulk.h"

#define DISCONNECT_FIRST_NS 1000000u
#define DISCONNECT_LAST_NS  50000000u
/* at most this many lines on stderr; one further line says how many were left out */
#define LINES_MAX 4u

static bool peer_is_connected(const struct fabemu *fab, const struct nic_peer *peer)
{
    return peer->sendq.next && peer->incarnation && peer->node != fab->info.node;
}

static bool peer_answers_arrived(const struct nic_peer *peer)
{
    return peer->queries_sent == peer->queries_confirmed &&
           (int16_t)(peer->answers_received - peer->answers_announced) >= 0;
}

/*
 * Return whether all queries of the peer have arrived. A peer that detaches at the same time sends
 * us their number: in its answer or, after it has our answer, in NIC_DISCONNECT_DONE.
 */
static bool peer_queries_arrived(const struct nic_peer *peer)
{
    if (!peer->queries_ended)
        return peer->queries_received == 0;
    return (int16_t)(peer->queries_received - peer->queries_total) >= 0 &&
           (peer->done_received || !peer->done_announced);
}

/* Return whether the fabric says that the peer cannot reach us, so that waiting is useless. */
static bool peer_is_cut_off(const struct fabemu *fab, const struct nic_peer *peer)
{
    uint64_t words = emu_hostif_nic_incarnation(&fab->hostif, peer->node) |
                     emu_hostif_nic_incarnation(&fab->hostif, fab->info.node);

    return peer->broke == NIC_BROKE_PARTITIONED || words & EMU_INCARNATION_NO_LINK;
}

/*
 * Return whether to wait for more segments of a peer that needs nothing more from us. Its answers
 * may still be in flight, and so may queries that it repeated before our answer reached it. If this
 * process detached now, the fabric would count these segments as dropped at a node without a
 * process. Returns false if the peer has sent no such segment, or cannot reach us.
 */
static bool peer_may_send_more(const struct fabemu *fab, const struct nic_peer *peer)
{
    bool answers = (peer->answers_received || peer->queries_received) &&
                   !peer_answers_arrived(peer);
    uint64_t since = answers || peer->queries_ended ? fab->disconnect_began_ns
                                                    : peer->disconnect_at_ns;

    return (answers || !peer_queries_arrived(peer)) &&
           !nic_disconnect_since(fab, since, fab->farewell_limit_ns) && !peer_is_cut_off(fab, peer);
}

/*
 * Return whether this process and the peer have received everything from each other. Before a peer
 * answers our query, it confirms each long message that it has received by a FIN segment. If the
 * answer has overtaken a FIN, we wait for that FIN.
 */
static bool peer_is_done(const struct fabemu *fab, const struct nic_peer *peer)
{
    return !peer_is_connected(fab, peer) ||
           (peer->answered_disconnect && peer->rx_next == peer->requests_total &&
            !nic_op_any(fab, peer->node, nic_bulk_awaits_fin));
}

/* Return whether data for the peer is not in the up ring yet, so a query could not count it. */
static bool peer_has_unsent(const struct fabemu *fab, const struct nic_peer *peer)
{
    if (!emu_list_empty(&peer->sendq))
        return true;
    emu_each_listed (const struct nic_op, op, &fab->bulk, post.link)
        if (op->node == peer->node)
            return true;
    return false;
}

/*
 * Return whether the peer has confirmed everything that was sent to it. Then no data is lost even
 * if the peer never answers.
 */
static bool peer_has_all(const struct fabemu *fab, const struct nic_peer *peer)
{
    return peer->tx_seq == peer->tx_acked && !peer_has_unsent(fab, peer);
}

static void disconnect_query(struct fabemu *fab, struct nic_peer *peer)
{
    struct nic_wire_disconnect disconnect = {.head = nic_head(peer, NIC_DISCONNECT, 0),
                                             .sent = peer->tx_seq,
                                             .kind = NIC_DISCONNECT_ASK};

    peer->queries_sent++;
    if (!nic_disconnect_send(fab, peer, &disconnect))
        peer->queries_sent--; /* try again in the next round */
}

void nic_leave_begin(struct fabemu *fab)
{
    assert(fab->locked);
    fab->leaving = true;
    fab->disconnect_gap_ns = DISCONNECT_FIRST_NS;
    fab->disconnect_ns = 0;
    fab->disconnect_began_ns = nic_disconnect_now_ns(fab);
    for (uint32_t node = 0; node < fab->info.nodes; node++) {
        struct nic_peer *peer = &fab->peers[node];

        if (peer->sendq.next && !peer->open)
            nic_peer_cancel(fab, peer);
    }
    /* dispatch the requests that wait for a queue, because no queue will be opened */
    nic_receive_resume(fab);
}

bool nic_leave_step(struct fabemu *fab)
{
    uint64_t now = nic_now_ns(fab);
    bool ask = now >= fab->disconnect_ns, done = true;

    assert(fab->locked && fab->leaving);
    for (uint32_t node = 0; node < fab->info.nodes; node++) {
        struct nic_peer *peer = &fab->peers[node];

        done = done && !peer_may_send_more(fab, peer);
        if (peer_is_done(fab, peer))
            continue;
        /*
         * If the peer has confirmed everything, only data from the peer may be missing. Then wait
         * for a shorter time, so that a stopped peer does not delay the end of this program for
         * long.
         */
        done = done && !peer->answered_disconnect && peer_has_all(fab, peer) &&
               nic_disconnect_since(fab, fab->disconnect_began_ns, fab->farewell_limit_ns);
        if (ask && !peer->answered_disconnect && !peer_has_unsent(fab, peer))
            disconnect_query(fab, peer);
    }
    if (ask) {
        fab->disconnect_ns = now + fab->disconnect_gap_ns;
        if (fab->disconnect_gap_ns < DISCONNECT_LAST_NS)
            fab->disconnect_gap_ns *= 2;
    }
    return done && nic_in_fabric(fab);
}

/* Return whether the peer has received all of our data, but not all of its data has arrived. */
static bool peer_data_is_missing(const struct fabemu *fab, const struct nic_peer *peer)
{
    return peer_is_connected(fab, peer) && peer->answered_disconnect &&
           peer->rx_next != peer->requests_total;
}

/*
 * Return whether the peer may lack some of our data, because it has not answered or the network has
 * dropped a segment.
 */
static bool peer_is_unconfirmed(const struct fabemu *fab, const struct nic_peer *peer)
{
    bool silent = peer_is_connected(fab, peer) && !peer->answered_disconnect;

    return peer->sendq.next &&
           ((silent && !peer_has_all(fab, peer)) || peer->unreported_incarnation == peer->first);
}

static uint32_t leave_report(const struct fabemu *fab, uint64_t began_ns)
{
    unsigned long long ms = (nic_now_ns(fab) - began_ns) / 1000000u;
    uint32_t unconfirmed = 0;

    for (uint32_t node = 0; node < fab->info.nodes; node++) {
        bool unread = peer_data_is_missing(fab, &fab->peers[node]);

        if ((!unread && !peer_is_unconfirmed(fab, &fab->peers[node])) || unconfirmed++ >= LINES_MAX)
            continue;
        if (unread)
            fprintf(stderr,
                    "fabemu: node %u detaches and has not received everything that node %u sent "
                    "to it (waited %llu ms); data may be lost\n",
                    fab->info.node, node, ms);
        else
            fprintf(stderr,
                    "fabemu: node %u detaches and node %u has not confirmed that it received "
                    "everything (waited %llu ms); data may be lost\n",
                    fab->info.node, node, ms);
    }
    if (unconfirmed > LINES_MAX)
        fprintf(stderr, "fabemu: node %u detaches; data from or to %u more node%s may be lost\n",
                fab->info.node, unconfirmed - LINES_MAX, unconfirmed - LINES_MAX == 1 ? "" : "s");
    return unconfirmed;
}

uint32_t nic_leave(struct fabemu *fab, uint64_t limit_ns)
{
    uint64_t began = nic_now_ns(fab);
    uint32_t unconfirmed, moved, seen;
    unsigned idle = 0;
    bool done = false;

    if (nic_is_defunct(fab))
        return 0;
    nic_lock(fab);
    nic_leave_begin(fab);
    nic_unlock(fab);
    while (!done && !nic_disconnect_since(fab, fab->disconnect_began_ns, limit_ns)) {
        nic_lock(fab);
        moved = nic_step(fab);
        done = nic_leave_step(fab);
        seen = fab->hostif.down_head;
        nic_unlock(fab);
        idle = moved ? 0 : idle + 1;
        if (!done && !moved && emu_wait_round(idle, true) == EMU_WAIT_SLEEP)
            nic_sleep(fab, seen);
    }
    nic_lock(fab);
    unconfirmed = leave_report(fab, began);
    nic_unlock(fab);
    return unconfirmed;
}
