/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leave.c - an adapter parts from all that it has met.
 *
 * An operation completes when its buffer may be used again; then its segments may still be in the
 * up ring, in the network, or kept for their turn at the other end. So a process that detaches
 * waits until they have arrived. It asks each peer (NIC_BYE_ASK), which answers once it has all
 * (bye.c).
 *
 * So nothing that had completed on either side is lost, whoever is given the node next. The
 * question is said again until it is answered: one may overtake another. Whoever leaves takes the
 * answers to all its questions as well, so that nothing comes for an empty node. Both may leave at
 * once: a process that has answered needs nothing more from the other. Its answers to us may still
 * be on their way then, and questions that it asked again before our answer came: it says how many
 * (NIC_BYE_DONE). These are waited for as long as an answer alone is worth
 * (fab->farewell_limit_ns); what comes later is counted as dropped, and carries nothing.
 */
#include "nic/host/api/leave.h"

#include <stdio.h>

#include "emu/util/now.h"
#include "emu/util/wait.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/peer/bye.h"
#include "nic/host/peer/gone.h"
#include "nic/host/progress/receive.h"
#include "nic/host/progress/step.h"
#include "nic/host/progress/wait.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/bulk.h"

#define BYE_FIRST_NS 1000000u
#define BYE_LAST_NS  50000000u
#define LINES_MAX    4u /* lines on stderr; the last one counts the rest */

static bool peer_is_met(const struct fabemu *fab, const struct nic_peer *peer)
{
    return peer->sendq.next && peer->life && peer->node != fab->info.node;
}

/* Have all answers come that there will be to our questions? */
static bool peer_gave_all(const struct nic_peer *peer)
{
    return peer->asked == peer->came && (int16_t)(peer->answers - peer->given) >= 0;
}

/*
 * And all its questions? Where it leaves, too, it says how many there are: with its answer to us,
 * or once it has ours.
 */
static bool peer_asked_all(const struct nic_peer *peer)
{
    if (!peer->asks_told)
        return peer->asks == 0;
    return (int16_t)(peer->asks - peer->asks_all) >= 0 && (peer->done_came || !peer->done_told);
}

/* Does no way lead from it to here, as the fabric says? Then a moment brings nothing of it. */
static bool peer_is_cut_off(const struct fabemu *fab, const struct nic_peer *peer)
{
    uint64_t words = emu_hostif_nic_seat(&fab->edge, peer->node) |
                     emu_hostif_nic_seat(&fab->edge, fab->info.node);

    return peer->broke == NIC_BROKE_PARTED || words & EMU_SEAT_NO_LINK;
}

/*
 * It leaves at the same time and has our answer, which is all that matters. But its own answers may
 * be on their way, or questions that it had asked again before ours came, and what finds nobody
 * here is counted as dropped: worth a moment, even if it is gone. Not so one that has said nothing,
 * or of which nothing can come.
 */
static bool peer_says_more(const struct fabemu *fab, const struct nic_peer *peer, uint64_t now)
{
    bool answers = (peer->answers || peer->asks) && !peer_gave_all(peer);
    uint64_t since = answers || peer->asks_told ? fab->bye_began_ns : peer->bye_at_ns;

    return (answers || !peer_asked_all(peer)) && now - since < fab->farewell_limit_ns &&
           !peer_is_cut_off(fab, peer);
}

/*
 * Has it all of ours, and we all of its? Once it has answered it has said of each send that it has
 * all of it. A word that the answer has overtaken still comes, and ends the send with success.
 */
static bool peer_is_done(const struct fabemu *fab, const struct nic_peer *peer)
{
    return !peer_is_met(fab, peer) || (peer->answered_bye && peer->rx_next == peer->last &&
                                       !nic_op_any(fab, peer->node, nic_bulk_awaits_word));
}

/* Is anything on its way out to it that the question could not count yet? */
static bool peer_gets_more(const struct fabemu *fab, const struct nic_peer *peer)
{
    if (!emu_list_empty(&peer->sendq))
        return true;
    for (const struct emu_list *at = fab->bulk.next; at != &fab->bulk; at = at->next)
        if (emu_list_entry(at, struct nic_op, post.link)->node == peer->node)
            return true;
    return false;
}

/*
 * Has it confirmed all that was sent to it? Then nothing of ours can be lost, whether it answers or
 * not.
 */
static bool peer_has_all(const struct fabemu *fab, const struct nic_peer *peer)
{
    return peer->tx_seq == peer->tx_acked && !peer_gets_more(fab, peer);
}

static void bye_ask(struct fabemu *fab, struct nic_peer *peer)
{
    struct nic_wire_bye bye = {.head = nic_head(peer, NIC_BYE, 0),
                               .sent = peer->tx_seq,
                               .kind = NIC_BYE_ASK};

    peer->asked++;
    if (!nic_bye_say(fab, peer, &bye))
        peer->asked--; /* the next time */
}

void nic_leave_begin(struct fabemu *fab)
{
    assert(fab->locked);
    fab->leaving = true;
    fab->bye_gap_ns = BYE_FIRST_NS;
    fab->bye_ns = 0;
    fab->bye_began_ns = emu_now_ns();
    for (uint32_t node = 0; node < fab->info.nodes; node++) {
        struct nic_peer *peer = &fab->peers[node];

        if (peer->sendq.next && !peer->open)
            nic_peer_cancel(fab, peer);
    }
    nic_receive_resume(fab); /* nothing waits for a queue to be opened any more */
}

bool nic_leave_step(struct fabemu *fab)
{
    uint64_t now = emu_now_ns();
    bool ask = now >= fab->bye_ns, done = true;

    assert(fab->locked && fab->leaving);
    for (uint32_t node = 0; node < fab->info.nodes; node++) {
        struct nic_peer *peer = &fab->peers[node];

        done = done && !peer_says_more(fab, peer, now);
        if (peer_is_done(fab, peer))
            continue;
        /*
         * A peer that has confirmed all that was sent to it can only have something left to say.
         * It is asked for a shorter time: a stopped process is not to keep a program from ending.
         */
        done = done && !peer->answered_bye && peer_has_all(fab, peer) &&
               now - fab->bye_began_ns >= fab->farewell_limit_ns;
        if (ask && !peer->answered_bye && !peer_gets_more(fab, peer))
            bye_ask(fab, peer);
    }
    if (ask) {
        fab->bye_ns = now + fab->bye_gap_ns;
        if (fab->bye_gap_ns < BYE_LAST_NS)
            fab->bye_gap_ns *= 2;
    }
    return done && nic_in_fabric(fab);
}

/* It has answered, so it has all of ours; but what it had sent until then has not come. */
static bool peer_is_unread(const struct fabemu *fab, const struct nic_peer *peer)
{
    return peer_is_met(fab, peer) && peer->answered_bye && peer->rx_next != peer->last;
}

/* Somebody there may lack something: it has not answered, or the network gave up. */
static bool peer_is_unheard(const struct fabemu *fab, const struct nic_peer *peer)
{
    bool silent = peer_is_met(fab, peer) && !peer->answered_bye;

    return peer->sendq.next &&
           ((silent && !peer_has_all(fab, peer)) || peer->unreported_seat == peer->first);
}

static uint32_t leave_tell(const struct fabemu *fab, uint64_t limit_ns)
{
    unsigned long long ms = limit_ns / 1000000u;
    uint32_t amiss = 0;

    for (uint32_t node = 0; node < fab->info.nodes; node++) {
        bool unread = peer_is_unread(fab, &fab->peers[node]);

        if ((!unread && !peer_is_unheard(fab, &fab->peers[node])) || amiss++ >= LINES_MAX)
            continue;
        if (unread)
            fprintf(
                stderr,
                "fabemu: node %u leaves, and has not had in %llu ms all that node %u sent to it; "
                "some may be lost\n",
                fab->info.node, ms, node);
        else
            fprintf(stderr,
                    "fabemu: node %u leaves, and node %u has not confirmed in %llu ms that it has "
                    "all that was sent to it; some may be lost\n",
                    fab->info.node, node, ms);
    }
    if (amiss > LINES_MAX)
        fprintf(stderr, "fabemu: node %u leaves, and the same holds for %u more nodes\n",
                fab->info.node, amiss - LINES_MAX);
    return amiss;
}

/* Has the bound passed? Time without a core does not count. */
static bool leave_is_over(const struct fabemu *fab, uint64_t began_ns, uint64_t starved_ns,
                          uint64_t limit_ns)
{
    uint64_t now_ns = emu_now_ns(), passed_ns = now_ns - began_ns;
    uint64_t starved_now_ns = emu_hostif_nic_starved(&fab->edge, now_ns);

    starved_ns = starved_now_ns > starved_ns ? starved_now_ns - starved_ns : 0;
    return passed_ns > starved_ns && passed_ns - starved_ns >= limit_ns;
}

uint32_t nic_leave(struct fabemu *fab, uint64_t limit_ns)
{
    uint64_t began = emu_now_ns(), starved = emu_hostif_nic_starved(&fab->edge, began);
    uint32_t amiss, moved, seen;
    unsigned idle = 0;
    bool done = false;

    if (nic_gone(fab))
        return 0;
    nic_lock(fab);
    nic_leave_begin(fab);
    nic_unlock(fab);
    while (!done && !leave_is_over(fab, began, starved, limit_ns)) {
        nic_lock(fab);
        moved = nic_step(fab);
        done = nic_leave_step(fab);
        seen = fab->edge.down_head;
        nic_unlock(fab);
        idle = moved ? 0 : idle + 1;
        if (!done && !moved && emu_wait_round(idle, true) == EMU_WAIT_SLEEP)
            nic_sleep(fab, seen);
    }
    nic_lock(fab);
    amiss = leave_tell(fab, limit_ns);
    nic_unlock(fab);
    return amiss;
}
