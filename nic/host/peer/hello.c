/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello.c - saying hello.
 *
 * Before the first request two processes exchange hellos (one round trip): a node may have been
 * given to another process, whose numbers begin anew, and only who knows the other's can take its
 * segments.
 */
#include "emu/util/now.h"
#include "nic/host/peer/hello.h"

#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/tx/answer.h"

/* Hellos at once to who has not asked: it is to be told of another epoch, once. */
#define ANSWER_AHEAD_STRANGER 4u

void nic_peer_say_hello(struct fabemu *fab, struct nic_peer *peer, bool want)
{
    struct nic_wire_hello hello = {.what = NIC_HELLO,
                                   .want = want,
                                   .life = fab->life,
                                   .known = peer->life,
                                   .epoch = peer->epoch};

    if (nic_peer_is_there(fab, peer) && nic_answer(fab, peer, &hello, sizeof hello))
        peer->hello_pending = nic_reports_on(fab, peer->node);
}

void nic_peer_connect(struct fabemu *fab, struct nic_peer *peer)
{
    uint64_t now = emu_now_ns();

    if (emu_listed(&peer->connect))
        return;
    peer->hello_gap_ns = NIC_HELLO_FIRST_NS;
    peer->hello_ns = now + peer->hello_gap_ns;
    peer->hello_began_ns = now;
    peer->hello_away_ns = 0;
    peer->hello_at = fab->edge.up_tail; /* or later, if there is no room */
    peer->hello_taken = emu_hostif_nic_taken(&fab->edge);
    emu_list_add(&fab->connecting, &peer->connect);
    nic_peer_say_hello(fab, peer, true);
}

void nic_peer_unknown(struct fabemu *fab, struct nic_peer *peer)
{
    fab->counts.stranger++;
    if (nic_peer_may_answer(&peer->debt_ns, ANSWER_AHEAD_STRANGER))
        nic_peer_say_hello(fab, peer, false);
}

void fabemu_greet(struct fabemu *fab, uint32_t node)
{
    if (nic_gone(fab) || node >= fab->info.nodes || node == fab->info.node)
        return;
    nic_lock(fab);
    nic_peer_connect(fab, nic_peer(fab, node));
    nic_unlock(fab);
}

void nic_peer_hello_delivered(struct nic_peer *peer)
{
    peer->hello_pending = false;
}

void nic_peer_probe(struct fabemu *fab, struct nic_peer *peer)
{
    if (!peer->hello_pending && !emu_listed(&peer->connect) && peer->node != fab->info.node)
        nic_peer_say_hello(fab, peer, true);
}
