/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * disconnect.c - disconnect two processes: answer the query (NIC_DISCONNECT_ASK) of a peer that
 * detaches, and receive the answers to our queries.
 *
 * A process answers a query when three conditions hold. It has dispatched all requests that the
 * query counts. It has received all bulk data that it fetches. And it has the results of its own
 * puts, gets and atomics whose requests and data have been sent. The answer contains the number of
 * requests that it has sent itself, so that the process that detaches can wait for these, too.
 * After its answer it sends requests only to the node's next incarnation. It keeps the answer to
 * the last process that disconnected, and repeats the answer if that process repeats its query.
 */
#include "nic/host/peer/disconnect.h"

#include "emu/util/now.h"
#include "nic/host/base/base.h"
#include "nic/host/base/op.h"
#include "nic/host/peer/failure.h"
#include "nic/host/peer/handshake.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/bulk.h"

/*
 * Burst of answers to a process with which we have no handshake. It exceeds the number of queries
 * that such a process sends in 10 s, because the process waits until its last query is answered.
 */
#define DISCONNECT_AHEAD 256u

/*
 * Return whether @op waits only for DATA, a FIN or a RESULT. The query may have overtaken this
 * segment, and the process that detaches may already have seen the effect of the operation in its
 * memory. So the operation must not fail because of the query.
 */
static bool op_awaits_peer(const struct nic_op *op)
{
    if (op->state != NIC_OP_WAITING)
        return false;
    switch (op->kind) {
    case NIC_OP_RECV:
    case NIC_OP_GET:
    case NIC_OP_ATOMIC:
    case NIC_OP_BATCH: /* waits only when all its segments were sent */
        return true;
    case NIC_OP_PUT:
        return op->moved == op->bytes;
    default:
        return nic_bulk_awaits_fin(op);
    }
}

bool nic_disconnect_send(struct fabemu *fab, struct nic_peer *peer,
                         struct nic_wire_disconnect *disconnect)
{
    disconnect->incarnation = fab->incarnation;
    disconnect->queries_sent = peer->queries_sent;
    return nic_answer(fab, peer, disconnect, sizeof *disconnect);
}

static bool disconnect_send_answer(struct fabemu *fab, struct nic_peer *peer,
                                   struct nic_wire_disconnect *disconnect)
{
    disconnect->queries_received = peer->queries_received;
    disconnect->done = peer->done_sent;
    disconnect->answers_sent = (uint16_t)(peer->answers_sent + 1);
    if (!nic_disconnect_send(fab, peer, disconnect))
        return false;
    peer->answers_sent++;
    return true;
}

/*
 * Answer the query of a peer that detaches. If requests that the query counts have not arrived yet,
 * send nothing: the peer repeats the query later.
 */
static void disconnect_answer(struct fabemu *fab, struct nic_peer *peer,
                              const struct nic_wire_disconnect *ask)
{
    struct nic_wire_disconnect disconnect = {.head = nic_head(peer, NIC_DISCONNECT, 0),
                                             .sent = peer->tx_seq,
                                             .kind = NIC_DISCONNECT_ANSWER};

    if (peer->rx_next != ask->sent || nic_op_any(fab, peer->node, op_awaits_peer) ||
        !disconnect_send_answer(fab, peer, &disconnect))
        return;
    peer->disconnect_tx = peer->tx_check;
    peer->disconnect_rx = peer->rx_check;
    peer->disconnect_sent = peer->tx_seq;
    peer->disconnect_at_ns = nic_disconnect_now_ns(fab);
    nic_peer_departed(fab, peer, peer->incarnation + 1, true);
}

/*
 * Handle a query whose check is not the pair's current one: it was answered earlier, or its sender
 * is unknown.
 */
static void disconnect_answer_again(struct fabemu *fab, struct nic_peer *peer,
                                    const struct nic_wire_disconnect *ask)
{
    struct nic_wire_disconnect disconnect = {.head = {.what = NIC_DISCONNECT}};

    nic_peer_check(fab, peer);
    if (!nic_peer_may_answer(fab, &peer->disconnect_debt_ns, DISCONNECT_AHEAD))
        return;
    if (peer->disconnect_rx && ask->head.check == peer->disconnect_rx) {
        disconnect.kind = NIC_DISCONNECT_ANSWER;
        disconnect.head.check = peer->disconnect_tx;
        disconnect.sent = peer->disconnect_sent;
        disconnect_send_answer(fab, peer, &disconnect);
    } else if (peer->incarnation) { /* the pair's epoch has changed, or the peer has ended */
        nic_peer_unknown(fab, peer);
    } else { /* the peer's hello may still arrive, but it is too late for a handshake */
        fab->counts.wrong_incarnation++;
        disconnect.kind = NIC_DISCONNECT_UNKNOWN;
        disconnect.head.check = ask->head.check;
        if (!disconnect_send_answer(fab, peer, &disconnect) || ask->incarnation != peer->first)
            return;
        peer->disconnect_at_ns = nic_disconnect_now_ns(fab);
        nic_peer_departed(fab, peer, ask->incarnation + 1, true);
    }
}

/*
 * Reset the counts when the first disconnect segment of a later incarnation arrives. Returns false
 * if @incarnation is an earlier one, which does not wait for an answer any more.
 */
static bool disconnect_is_current(struct nic_peer *peer, uint64_t incarnation)
{
    if (incarnation <= peer->queries_incarnation)
        return incarnation == peer->queries_incarnation;
    peer->queries_incarnation = incarnation;
    peer->queries_received = peer->answers_sent = peer->queries_total = 0;
    peer->queries_ended = peer->done_announced = peer->done_received = false;
    return true;
}

/* Note that the peer sends no more queries, because it has our answer or has answered us. */
static void disconnect_note_last_query(struct nic_peer *peer,
                                       const struct nic_wire_disconnect *disconnect)
{
    peer->queries_ended = true;
    peer->queries_total = disconnect->queries_sent;
    peer->done_received |= disconnect->kind == NIC_DISCONNECT_DONE;
}

/*
 * Notify the peer, which has answered, that we send no more queries. If the peer detaches, too, it
 * waits for our last query. An answer of ours contains the same information, so after an answer no
 * notice is needed.
 */
static void disconnect_send_done(struct fabemu *fab, struct nic_peer *peer)
{
    struct nic_wire_disconnect disconnect = {.head = {.what = NIC_DISCONNECT,
                                                      .check = peer->tx_check},
                                             .kind = NIC_DISCONNECT_DONE};

    if (!peer->done_sent && !peer->answers_sent)
        peer->done_sent = nic_disconnect_send(fab, peer, &disconnect);
}

static void disconnect_count_answer(struct nic_peer *peer, const struct nic_wire_disconnect *answer)
{
    disconnect_note_last_query(peer, answer);
    peer->done_announced |= answer->done;
    peer->answers_received++;
    if ((int16_t)(answer->queries_received - peer->queries_confirmed) <= 0)
        return;
    peer->queries_confirmed = answer->queries_received;
    peer->answers_announced = answer->answers_sent;
}

static void disconnect_accept_answer(struct fabemu *fab, struct nic_peer *peer,
                                     const struct nic_wire_disconnect *answer, uint32_t last)
{
    if (!fab->leaving || last - peer->rx_next > NIC_ORDER_WINDOW) {
        fab->counts.malformed++;
        return;
    }
    disconnect_count_answer(peer, answer);
    peer->answered_disconnect = true;
    peer->requests_total = last;
    disconnect_send_done(fab, peer);
}

void nic_leave_receive(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg,
                       bool known)
{
    struct nic_wire_disconnect disconnect;

    if (!nic_wire_read(fab, seg, &disconnect, sizeof disconnect))
        return;
    if (disconnect.incarnation >
            emu_incarnation_first(emu_hostif_nic_incarnation(&fab->hostif, peer->node)) ||
        /* there is no such incarnation (yet or any more) */
        !disconnect_is_current(peer, disconnect.incarnation)) {
        fab->counts.wrong_incarnation++;
        return;
    }
    peer->queries_received += disconnect.kind == NIC_DISCONNECT_ASK;
    if (disconnect.kind == NIC_DISCONNECT_ASK && known)
        disconnect_answer(fab, peer, &disconnect);
    else if (disconnect.kind == NIC_DISCONNECT_ASK)
        disconnect_answer_again(fab, peer, &disconnect);
    else if (disconnect.kind == NIC_DISCONNECT_ANSWER && known)
        disconnect_accept_answer(fab, peer, &disconnect, disconnect.sent);
    else if (disconnect.kind == NIC_DISCONNECT_ANSWER && fab->leaving)
        /* the peer has already received our answer, or has detached since then */
        disconnect_count_answer(peer, &disconnect);
    else if (disconnect.kind == NIC_DISCONNECT_DONE)
        disconnect_note_last_query(peer, &disconnect);
    else if (disconnect.kind == NIC_DISCONNECT_UNKNOWN && peer->incarnation &&
             disconnect.head.check == peer->tx_check)
        disconnect_accept_answer(fab, peer, &disconnect, peer->rx_next);
    else
        fab->counts.wrong_incarnation++;
}
