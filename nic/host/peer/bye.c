/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bye.c - disconnect: answer the queries of a process that detaches, and receive the answers to
 * ours.
 *
 * A process that receives NIC_BYE_ASK answers once it has dispatched all requests that the query
 * counts, has all bulk data that it fetches, and has the results of its own requests. The answer
 * counts its own requests, so that the process that detaches receives these, too. After its answer
 * it sends only to the node's next incarnation. The answer to the last process that disconnected is
 * kept and repeated when a query is repeated.
 */
#include "nic/host/peer/bye.h"

#include "emu/util/now.h"
#include "nic/host/base/base.h"
#include "nic/host/base/op.h"
#include "nic/host/peer/gone.h"
#include "nic/host/peer/meet.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/bulk.h"

/*
 * Burst of answers to a process without a handshake: more than its queries in 10 s, since it waits
 * for the last answer.
 */
#define BYE_AHEAD 256u

/*
 * Is @op a receive that waits for DATA, or a send that waits for a FIN? The FIN may be overtaken by
 * the disconnect.
 */
static bool op_awaits_peer(const struct nic_op *op)
{
    return (op->kind == NIC_OP_RECV && op->state == NIC_OP_WAITING) || nic_bulk_awaits_fin(op);
}

bool nic_bye_say(struct fabemu *fab, struct nic_peer *peer, struct nic_wire_bye *bye)
{
    bye->life = fab->life;
    bye->asked = peer->asked;
    return nic_answer(fab, peer, bye, sizeof *bye);
}

/* Send an answer. False: no space now. */
static bool bye_send_answer(struct fabemu *fab, struct nic_peer *peer, struct nic_wire_bye *bye)
{
    bye->came = peer->asks;
    bye->done = peer->done_said;
    bye->given = (uint16_t)(peer->replies + 1);
    if (!nic_bye_say(fab, peer, bye))
        return false;
    peer->replies++;
    return true;
}

/*
 * The peer detaches and says how many requests it has sent. If some have not arrived, it repeats
 * the query later.
 */
static void bye_answer(struct fabemu *fab, struct nic_peer *peer, const struct nic_wire_bye *ask)
{
    struct nic_wire_bye bye = {.head = nic_head(peer, NIC_BYE, 0),
                               .sent = peer->tx_seq,
                               .kind = NIC_BYE_ANSWER};

    if (peer->rx_next != ask->sent || nic_op_any(fab, peer->node, op_awaits_peer) ||
        !bye_send_answer(fab, peer, &bye))
        return;
    peer->bye_tx = peer->tx_check;
    peer->bye_rx = peer->rx_check;
    peer->bye_sent = peer->tx_seq;
    peer->bye_at_ns = emu_now_ns();
    nic_peer_departed(fab, peer, peer->life + 1, true);
}

/* A query with a check that is not the pair's: it was answered before, or its sender is unknown. */
static void bye_answer_again(struct fabemu *fab, struct nic_peer *peer,
                             const struct nic_wire_bye *ask)
{
    struct nic_wire_bye bye = {.head = {.what = NIC_BYE}};

    nic_peer_look(fab, peer);
    if (!nic_peer_may_answer(&peer->bye_debt_ns, BYE_AHEAD))
        return;
    if (peer->bye_rx && ask->head.check == peer->bye_rx) {
        bye.kind = NIC_BYE_ANSWER;
        bye.head.check = peer->bye_tx;
        bye.sent = peer->bye_sent;
        bye_send_answer(fab, peer, &bye);
    } else if (peer->life) { /* we are in another epoch, or the peer is gone */
        nic_peer_unknown(fab, peer);
    } else { /* its hello may still arrive, too late for a handshake */
        fab->counts.stranger++;
        bye.kind = NIC_BYE_UNKNOWN;
        bye.head.check = ask->head.check;
        if (!bye_send_answer(fab, peer, &bye) || ask->life != peer->first)
            return;
        peer->bye_at_ns = emu_now_ns();
        nic_peer_departed(fab, peer, ask->life + 1, true);
    }
}

/*
 * The first segment of a disconnect from a later incarnation resets the counts. False: @life is
 * older, and nobody waits for an answer any more.
 */
static bool bye_is_current(struct nic_peer *peer, uint64_t life)
{
    if (life <= peer->asks_life)
        return life == peer->asks_life;
    peer->asks_life = life;
    peer->asks = peer->replies = peer->asks_all = 0;
    peer->asks_told = peer->done_told = peer->done_came = false;
    return true;
}

/* The peer sends no more queries: it has our answer, or has answered us. */
static void bye_note_last_query(struct nic_peer *peer, const struct nic_wire_bye *bye)
{
    peer->asks_told = true;
    peer->asks_all = bye->asked;
    peer->done_came |= bye->kind == NIC_BYE_DONE;
}

/*
 * We have the peer's answer: notify it once that we send no more queries, because it may want to
 * detach, too, and then waits for our last query. A peer that has received an answer from us knows
 * already.
 */
static void bye_say_done(struct fabemu *fab, struct nic_peer *peer)
{
    struct nic_wire_bye bye = {.head = {.what = NIC_BYE, .check = peer->tx_check},
                               .kind = NIC_BYE_DONE};

    if (!peer->done_said && !peer->replies)
        peer->done_said = nic_bye_say(fab, peer, &bye);
}

static void bye_count_answer(struct nic_peer *peer, const struct nic_wire_bye *answer)
{
    bye_note_last_query(peer, answer);
    peer->done_told |= answer->done;
    peer->answers++;
    if ((int16_t)(answer->came - peer->came) <= 0)
        return;
    peer->came = answer->came;
    peer->given = answer->given;
}

static void bye_accept_answer(struct fabemu *fab, struct nic_peer *peer,
                              const struct nic_wire_bye *answer, uint32_t last)
{
    if (!fab->leaving || last - peer->rx_next > NIC_ORDER_WINDOW) {
        fab->counts.malformed++;
        return;
    }
    bye_count_answer(peer, answer);
    peer->answered_bye = true;
    peer->last = last;
    bye_say_done(fab, peer);
}

void nic_leave_receive(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg,
                       bool known)
{
    struct nic_wire_bye bye;

    if (!nic_wire_read(fab, seg, &bye, sizeof bye))
        return;
    if (bye.life > emu_seat_first(emu_hostif_nic_seat(&fab->edge, peer->node)) ||
        !bye_is_current(peer, bye.life)) { /* no such incarnation, yet or any more */
        fab->counts.stranger++;
        return;
    }
    peer->asks += bye.kind == NIC_BYE_ASK;
    if (bye.kind == NIC_BYE_ASK && known)
        bye_answer(fab, peer, &bye);
    else if (bye.kind == NIC_BYE_ASK)
        bye_answer_again(fab, peer, &bye);
    else if (bye.kind == NIC_BYE_ANSWER && known)
        bye_accept_answer(fab, peer, &bye, bye.sent);
    else if (bye.kind == NIC_BYE_ANSWER && fab->leaving)
        bye_count_answer(peer, &bye); /* it has our answer already, or has left since */
    else if (bye.kind == NIC_BYE_DONE)
        bye_note_last_query(peer, &bye);
    else if (bye.kind == NIC_BYE_UNKNOWN && peer->life && bye.head.check == peer->tx_check)
        bye_accept_answer(fab, peer, &bye, peer->rx_next);
    else
        fab->counts.stranger++;
}
