/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.c - what an adapter knows of another: is it the same process as before,
 * which of its requests were dispatched, how far it has got with ours.
 *
 * Before the first request two processes exchange hellos (one round trip), for
 * two reasons: a segment to a node where nobody is attached is lost without a
 * word, and a node may be given to another process whose numbers begin anew.
 * Lives are seats, which only grow, so of two hellos the later is known however
 * they were overtaken.
 *
 * The same hello asks whether a process is still there: about once a second of
 * each that something here waits for. Any answer will do; a successor's says
 * that the other is gone, and so does silence. Of those whom only a receive waits
 * for silence is no proof, they have been asked for nothing; but with
 * acknowledgments the network tells whether they can be reached.
 *
 * A pair breaks when the network gives up a segment of it, whatever that carried:
 * then their numbers have a hole, or an answer is missing that somebody waits
 * for. Whose segment it was ends all that is under way with the other, begins the
 * next epoch, and hails until it is answered; who hears of a later epoch does the
 * same. Checks are of an epoch, so what is late of the one before is a stranger's.
 * Two that broke at once, or one twice, agree on the later epoch.
 */
#include "nic/adapter.h"

#include <stdlib.h>
#include <string.h>

#define HAIL_FIRST_NS 1000000u
#define HAIL_LAST_NS 50000000u
#define HAIL_DEAD_NS 1000000000u /* for a successor of one that is known to be dead */

int nic_node_check(const struct fabemu *fab, uint32_t node)
{
    if (nic_gone(fab))
        return nic_fail_gone();
    if (node >= fab->info.nodes)
        return nic_fail(-EHOSTUNREACH, "there is no node %u: the fabric has %u", node,
                        fab->info.nodes);
    return 0;
}

struct nic_peer *nic_peer(struct fabemu *fab, uint32_t node)
{
    struct nic_peer *peer = &fab->peers[node];

    if (!peer->sendq.next) {
        nic_list_init(&peer->sendq);
        peer->node = node;
    }
    return peer;
}

static void peer_say_hello(struct fabemu *fab, struct nic_peer *peer, bool want)
{
    struct nic_wire_hello hello = {.what = NIC_HELLO, .want = want, .life = fab->life,
                                   .known = peer->life, .epoch = peer->epoch};

    if (nic_answer(fab, peer, &hello, sizeof hello))
        peer->greeted = fab->info.acknowledged && peer->node != fab->info.node;
}

static void peer_ack(struct fabemu *fab, struct nic_peer *peer)
{
    uint32_t told = peer->rx_told, eaten_told = peer->rx_eaten_told;
    struct nic_wire_head head = nic_head(peer, NIC_ACK, 0);

    if (nic_answer(fab, peer, &head, sizeof head))
        return;
    peer->rx_told = told;
    peer->rx_eaten_told = eaten_told;
}

void nic_peer_hail(struct fabemu *fab, struct nic_peer *peer)
{
    uint64_t now = nic_now_ns();

    if (nic_listed(&peer->hail))
        return;
    peer->hail_gap_ns = HAIL_FIRST_NS;
    peer->hail_ns = now + peer->hail_gap_ns;
    peer->hail_end_ns = now + (peer->dead && fab->hail_limit_ns > HAIL_DEAD_NS
                                   ? HAIL_DEAD_NS : fab->hail_limit_ns);
    nic_list_add(&fab->hailing, &peer->hail);
    peer_say_hello(fab, peer, true);
}

static void peer_fail_queue(struct fabemu *fab, struct nic_peer *peer, int status)
{
    while (!nic_list_empty(&peer->sendq))
        nic_op_end(fab, nic_entry(peer->sendq.next, struct nic_op, link), status);
    nic_list_del(&peer->ready);
}

/* Does anything but an operation wait for the process there? */
static bool peer_is_awaited(const struct nic_peer *peer)
{
    if (!peer->sendq.next)
        return false;
    if (!peer->open)
        return peer->broke;
    return peer->filling || peer->earlies ||
           (!nic_list_empty(&peer->sendq) && !nic_peer_window(peer));
}

void nic_peer_watch(struct fabemu *fab)
{
    uint64_t now = nic_now_ns();

    if (now < fab->watch_ns)
        return;
    fab->watch_ns = now + fab->watch_gap_ns;
    for (uint32_t i = 1; i < fab->slot_count; i++) {
        const struct nic_op *op = fab->slots[i].op;

        if (op && op->state == NIC_OP_WAITING && op->node < fab->info.nodes)
            nic_peer_hail(fab, nic_peer(fab, op->node));
    }
    if (fab->info.acknowledged) /* elsewhere a process that lives is always heard */
        nic_queue_probe(fab);
    nic_group_watch(fab);
    for (uint32_t node = 0; node < fab->info.nodes; node++)
        if (peer_is_awaited(&fab->peers[node]))
            nic_peer_hail(fab, &fab->peers[node]);
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
    nic_op_fail_all(fab, peer->node, NULL, -EHOSTUNREACH);
    early_drop_all(fab, peer);
    peer->life = 0;
    peer->open = false;
    peer->tx_seq = peer->tx_acked = peer->tx_eager = peer->tx_eaten = 0;
    peer->rx_next = peer->rx_told = peer->rx_eaten = peer->rx_eaten_told = 0;
}

/*
 * The pair's streams break off here. Completions say it; where there are none, the
 * next operation does: what was sent and had completed may not have arrived.
 */
static void peer_break(struct fabemu *fab, struct nic_peer *peer)
{
    uint32_t before = fab->completions;

    peer_fail_queue(fab, peer, -EHOSTUNREACH);
    peer_forget(fab, peer);
    nic_queue_node_died(fab, peer->node);
    peer->unsaid = fab->completions == before;
    peer->dead = true;
}

/* Did the process @life come before @than? No, if one of them is not known. */
static bool life_before(uint32_t life, uint32_t than)
{
    return life && than && (int32_t)(life - than) < 0;
}

/* What is hailed and was never met may be a successor: then the hail decides, and soon. */
void nic_peer_died(struct fabemu *fab, uint32_t node, uint32_t life)
{
    struct nic_peer *peer = nic_peer(fab, node);
    uint64_t end = nic_now_ns() + HAIL_DEAD_NS;

    if (life && !life_before(life, peer->life_min))
        peer->life_min = life + 1 ? life + 1 : 1;
    if (life_before(life, peer->life))
        return; /* its successor has greeted us */
    if (life)
        peer->broke = peer->unsaid = false; /* nobody is there to be told, and this says more */
    peer->dead = true;
    if (!peer->life && nic_listed(&peer->hail)) {
        if (end < peer->hail_end_ns)
            peer->hail_end_ns = end;
    } else {
        nic_list_del(&peer->hail);
        peer_fail_queue(fab, peer, -EHOSTUNREACH);
    }
    peer_forget(fab, peer);
    nic_queue_node_died(fab, node);
}

/* The same, and it is for us to tell. */
static void peer_break_off(struct fabemu *fab, struct nic_peer *peer)
{
    peer_break(fab, peer);
    peer->epoch++;
    peer->broke = true;
}

/*
 * Nobody there answers. @cut: because the network does not get there. With acknowledgments that may
 * be so although it lives: then the two may meet again, when the network lets them.
 */
static void peer_hail_over(struct fabemu *fab, struct nic_peer *peer, bool cut)
{
    nic_list_del(&peer->hail);
    peer->unanswered = true;
    if (peer->life && fab->info.acknowledged)
        peer_break_off(fab, peer);
    else if (peer->life || peer->dead || cut)
        nic_peer_died(fab, peer->node, peer->life);
    else
        peer_fail_queue(fab, peer, -EHOSTUNREACH);
}

void nic_peer_rehail(struct fabemu *fab)
{
    uint64_t now = nic_now_ns();
    struct nic_list *at = fab->hailing.next, *next;

    if (now < fab->hail_scan_ns)
        return;
    fab->hail_scan_ns = now + HAIL_FIRST_NS;
    for (; at != &fab->hailing; at = next) {
        struct nic_peer *peer = nic_entry(at, struct nic_peer, hail);

        next = at->next;
        if (now >= peer->hail_end_ns) {
            peer_hail_over(fab, peer, false);
        } else if (now >= peer->hail_ns) {
            if (peer->hail_gap_ns < HAIL_LAST_NS)
                peer->hail_gap_ns *= 2;
            peer->hail_ns = now + peer->hail_gap_ns;
            if (!peer->greeted) /* the network repeats it for us */
                peer_say_hello(fab, peer, true);
        }
    }
}

static bool epoch_before(uint32_t epoch, uint32_t than)
{
    return (int32_t)(epoch - than) < 0;
}

/* Is it of what the two are to each other now? */
static bool peer_is_current(const struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_hello hello;
    struct nic_wire_data data;
    struct nic_wire_head head;

    switch (seg->payload[0]) {
    case NIC_HELLO:
        memcpy(&hello, seg->payload, sizeof hello);
        return seg->hdr.len == sizeof hello && hello.known == peer->life &&
               hello.epoch == peer->epoch;
    case NIC_DATA:
        memcpy(&data, seg->payload, sizeof data);
        return peer->life && seg->hdr.len > sizeof data && data.check == (uint16_t)peer->tx_check;
    default:
        memcpy(&head, seg->payload, sizeof head);
        return peer->life && seg->hdr.len >= sizeof head && head.check == peer->tx_check;
    }
}

void nic_peer_given_up(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    if (seg->hdr.len && seg->payload[0] == NIC_HELLO)
        peer->greeted = false;
    if (!seg->hdr.len || !peer_is_current(peer, seg))
        return; /* all has ended that waited for it */
    if (!peer->life) { /* we do not know it, and do not get there */
        peer_hail_over(fab, peer, true);
        return;
    }
    peer_break_off(fab, peer);
    nic_list_del(&peer->hail);
    nic_peer_hail(fab, peer);
}

void nic_peer_told(struct nic_peer *peer)
{
    peer->greeted = false;
}

void nic_peer_probe(struct fabemu *fab, struct nic_peer *peer)
{
    if (!peer->greeted && !nic_listed(&peer->hail) && peer->node != fab->info.node)
        peer_say_hello(fab, peer, true);
}

void nic_peer_opened(struct fabemu *fab, struct nic_peer *peer)
{
    peer->open = true;
    peer->unanswered = false;
    if (peer->broke) { /* what it sent until it knew was a stranger's: nobody is to wait for that */
        peer->broke = false;
        nic_queue_node_died(fab, peer->node);
    }
    nic_list_del(&peer->hail);
    if (!nic_list_empty(&peer->sendq) && !nic_listed(&peer->ready))
        nic_list_add(&fab->ready, &peer->ready);
}

/* The process there says who it is, and which epoch of the pair it is in. */
static void peer_learn(struct fabemu *fab, struct nic_peer *peer,
                       const struct nic_wire_hello *hello)
{
    bool later = epoch_before(peer->epoch, hello->epoch);

    if (peer->life && hello->life != peer->life) { /* replaced: what was meant for the other is over */
        if (peer->open)
            peer_fail_queue(fab, peer, -EHOSTUNREACH);
        peer_forget(fab, peer);
    } else if (peer->life && later) {
        peer_break(fab, peer);
    }
    if (later)
        peer->epoch = hello->epoch;
    if (peer->life)
        return;
    peer->life = hello->life;
    peer->tx_check = nic_check(fab->life, peer->life, peer->epoch);
    peer->rx_check = nic_check(peer->life, fab->life, peer->epoch);
    peer->dead = false;
}

void nic_peer_hello(struct fabemu *fab, struct nic_peer *peer, const struct nic_wire_hello *hello)
{
    bool knows;

    if (life_before(hello->life, peer->life_min) || life_before(hello->life, peer->life)) {
        fab->counts.stranger++; /* overtaken by the news of its end, or by its successor */
        return;
    }
    peer_learn(fab, peer, hello);
    knows = hello->known == fab->life && hello->epoch == peer->epoch;
    if (knows)
        nic_peer_opened(fab, peer);
    if (hello->want || (!knows && nic_listed(&peer->hail)))
        peer_say_hello(fab, peer, !peer->open && nic_listed(&peer->hail));
    if (hello->want && peer->open &&
        (peer->rx_next != peer->rx_told || peer->rx_eaten != peer->rx_eaten_told))
        peer_ack(fab, peer); /* it may be what it waits for */
}

void nic_peer_stranger(struct fabemu *fab, struct nic_peer *peer)
{
    fab->counts.stranger++;
    peer_say_hello(fab, peer, false);
}

/* Acknowledgments may overtake each other: an older one says nothing new. */
void nic_peer_ack(struct nic_peer *peer, const struct nic_wire_head *head)
{
    if (head->ack - peer->tx_acked <= peer->tx_seq - peer->tx_acked)
        peer->tx_acked = head->ack;
    if (head->eaten - peer->tx_eaten <= peer->tx_eager - peer->tx_eaten)
        peer->tx_eaten = head->eaten;
}

void nic_peer_eaten(struct fabemu *fab, struct nic_peer *peer, uint32_t check, uint64_t bytes)
{
    if (bytes <= NIC_INLINE_BYTES || !nic_peer_is(peer, check))
        return;
    peer->rx_eaten += (uint32_t)bytes;
    nic_peer_tell(fab, peer);
}

void nic_peer_tell(struct fabemu *fab, struct nic_peer *peer)
{
    if (peer->rx_next - peer->rx_told >= NIC_ORDER_WINDOW / 4 ||
        peer->rx_eaten - peer->rx_eaten_told >= NIC_EAGER_WINDOW / 4)
        peer_ack(fab, peer);
}

void nic_peer_release(struct fabemu *fab, struct nic_peer *peer)
{
    if (!peer->sendq.next)
        return; /* never touched */
    peer_fail_queue(fab, peer, -ECANCELED);
    early_drop_all(fab, peer);
    free(peer->early);
}
