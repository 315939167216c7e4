/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.c - what an adapter knows of another: is it the same process as before,
 * which of its requests were dispatched, how far it has got with ours.
 *
 * Before the first request two processes exchange hellos (one round trip): a node may have been given to
 * another process, whose numbers begin anew, and only who knows the other's can take its segments.
 * Which process is there the fabric writes into each edge (emu_seat_word()), so a hello of one that
 * is gone is known however it was overtaken, nobody hails an empty node, and all that was with a process
 * ends as soon as anybody here looks: when an operation begins, and in each step after somebody has gone
 * (emu_edge_nic_endings()). What is begun then is with the next one; no news can come too late.
 *
 * The same hello asks whether a process still answers: about once a second of
 * each that something here waits for. Of those whom only a receive waits for
 * silence is no proof, they have been asked for nothing; but with
 * acknowledgments the network tells whether they can be reached.
 *
 * A pair breaks when the network gives up a segment of it, whatever that carried:
 * then their numbers have a hole, or an answer is missing that somebody waits
 * for. Whose segment it was ends all that is under way with the other, begins the
 * next epoch, and hails until it is answered; who hears of a later epoch does the
 * same. Checks are of an epoch, so what is late of the one before is a stranger's.
 * Two that broke at once, or one twice, agree on the later epoch.
 *
 * Who asks more often than any honest process does is not answered each time (nic_peer_may_answer()): the network
 * loses nothing, so answers that somebody does not take would stand in the way of all others of this adapter.
 */
#include "nic/host/adapter.h"

#include <stdlib.h>
#include <string.h>

#define HAIL_FIRST_NS 1000000u
#define HAIL_LAST_NS 50000000u
#define HAIL_VACANT_NS 1000000000u /* for a successor of one that is gone */
#define ANSWER_GAP_NS HAIL_LAST_NS /* hellos that answer: in the long run no more often than an honest process asks, */
#define ANSWER_AHEAD 16u           /* and so many at once: who hails anew asks more often at first */
#define ANSWER_AHEAD_STRANGER 4u   /* of them for who has not asked; it is to be told of another epoch, once */

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
        emu_list_init(&peer->sendq);
        peer->node = node;
        peer->first = emu_seat_first(emu_edge_nic_seat(&fab->edge, node));
        peer->missed = peer->first > 1;
    }
    return peer;
}

/* Is there somebody whom we have met or may meet? One that has said goodbye is not. */
static bool peer_is_there(const struct fabemu *fab, const struct nic_peer *peer)
{
    uint64_t word = emu_edge_nic_seat(&fab->edge, peer->node);

    return emu_seat_attached(word) && emu_seat_first(word) == peer->first;
}

static void peer_say_hello(struct fabemu *fab, struct nic_peer *peer, bool want)
{
    struct nic_wire_hello hello = {.what = NIC_HELLO, .want = want, .life = fab->life,
                                   .known = peer->life, .epoch = peer->epoch};

    if (peer_is_there(fab, peer) && nic_answer(fab, peer, &hello, sizeof hello))
        peer->greeted = fab->info.acknowledged && peer->node != fab->info.node;
}

/* Who is not answered asks again, or is hailed from here. */
bool nic_peer_may_answer(uint64_t *debt_ns, uint32_t ahead)
{
    uint64_t now = nic_now_ns();

    if (*debt_ns > now + (uint64_t)ahead * ANSWER_GAP_NS)
        return false;
    *debt_ns = (*debt_ns > now ? *debt_ns : now) + ANSWER_GAP_NS;
    return true;
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

    if (emu_listed(&peer->hail))
        return;
    peer->hail_gap_ns = HAIL_FIRST_NS;
    peer->hail_ns = now + peer->hail_gap_ns;
    peer->hail_began_ns = now;
    emu_list_add(&fab->hailing, &peer->hail);
    peer_say_hello(fab, peer, true);
}

/* End all that is queued: it is for the process that is there now, or was until now. */
static void peer_fail_queue(struct fabemu *fab, struct nic_peer *peer, int status)
{
    while (!emu_list_empty(&peer->sendq))
        nic_op_end(fab, emu_list_entry(peer->sendq.next, struct nic_op, link), status);
    emu_list_del(&peer->ready);
}

/* Does anything but an operation wait for the process there? */
static bool peer_is_awaited(const struct nic_peer *peer)
{
    if (!peer->sendq.next)
        return false;
    if (!peer->open)
        return peer->broke;
    return peer->filling || peer->earlies ||
           (!emu_list_empty(&peer->sendq) && !nic_peer_window(peer));
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
    emu_list_del(&peer->ready);
    peer->life = 0;
    peer->missed = true;
    peer->open = false;
    peer->parted = false;
    peer->tx_seq = peer->tx_acked = peer->tx_eager = peer->tx_eaten = 0;
    peer->rx_next = peer->rx_told = peer->rx_eaten = peer->rx_eaten_told = 0;
}

/*
 * The pair's streams break off here. Completions say it; where there are none, the
 * next operation does: what was sent and had completed may not have arrived.
 */
static void peer_break(struct fabemu *fab, struct nic_peer *peer)
{
    uint64_t life = peer->life;
    uint32_t before = fab->completions;

    peer_fail_queue(fab, peer, -EHOSTUNREACH);
    peer_forget(fab, peer);
    nic_queue_passed(fab, peer->node, UINT64_MAX);
    peer->unsaid = fab->leaving || fab->completions == before ? life : 0;
}

/* Who goes without a goodbye may not have what it has not confirmed. */
void nic_peer_passed(struct fabemu *fab, struct nic_peer *peer, uint64_t first, bool goodbye)
{
    uint64_t life = peer->life ? peer->life : peer->unsaid;
    bool lost = peer->unsaid || (peer->life && !goodbye && peer->tx_seq != peer->tx_acked);
    bool hailed = emu_listed(&peer->hail);
    uint32_t before = fab->completions;

    peer->first = first;
    peer->debt_ns = 0;
    emu_list_del(&peer->hail);
    peer_fail_queue(fab, peer, -EHOSTUNREACH);
    peer_forget(fab, peer);
    nic_queue_passed(fab, peer->node, first);
    peer->broke = false; /* nobody is there to be told */
    peer->unsaid = lost && fab->completions == before ? life : 0;
    if (hailed)
        nic_peer_hail(fab, peer); /* the next one */
}

void nic_peer_look_all(struct fabemu *fab)
{
    fab->endings = emu_edge_nic_endings(&fab->edge);
    for (uint32_t node = 0; node < fab->info.nodes; node++)
        if (fab->peers[node].sendq.next)
            nic_peer_look(fab, &fab->peers[node]);
}

int nic_peer_refuses(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    nic_peer_look(fab, peer);
    if (peer->unsaid && (!op->named || op->seat == peer->unsaid)) {
        peer->unsaid = 0;
        return nic_fail(-EHOSTUNREACH, "what was sent to node %u before may be lost", peer->node);
    }
    if (op->named && (op->seat != peer->first || !peer_is_there(fab, peer)))
        return nic_fail(-EHOSTUNREACH, "process %llu of node %u has left or died",
                        (unsigned long long)op->seat, peer->node);
    op->seat = peer->first;
    return 0;
}

/* The same as nic_peer_given_up(), and it is for us to tell. */
static void peer_break_off(struct fabemu *fab, struct nic_peer *peer)
{
    peer_break(fab, peer);
    peer->epoch++;
    peer->broke = true;
}

/*
 * Nobody answers. One that is there may be stopped, or the network does not get there (@cut): the two may
 * meet again. One that we have not met, nor another before it, may be busy with others: receives wait.
 */
static void peer_hail_over(struct fabemu *fab, struct nic_peer *peer, bool cut)
{
    emu_list_del(&peer->hail);
    peer->unanswered = true;
    if (peer->life) {
        peer_break_off(fab, peer);
        return;
    }
    peer_fail_queue(fab, peer, -EHOSTUNREACH);
    if (cut || peer->missed)
        nic_queue_passed(fab, peer->node, UINT64_MAX);
    peer->missed |= cut;
}

/* How long to hail. Who comes after one that is gone comes soon, or is there and gets its time to answer. */
static uint64_t hail_limit_ns(const struct fabemu *fab, const struct nic_peer *peer)
{
    uint64_t word = emu_edge_nic_seat(&fab->edge, peer->node);
    bool vacant = word && !emu_seat_attached(word);

    return vacant && fab->hail_limit_ns > HAIL_VACANT_NS ? HAIL_VACANT_NS : fab->hail_limit_ns;
}

static void peer_rehail(struct fabemu *fab, struct nic_peer *peer, uint64_t now)
{
    if (now - peer->hail_began_ns >= hail_limit_ns(fab, peer)) {
        peer_hail_over(fab, peer, false);
        return;
    }
    if (now < peer->hail_ns || !peer_is_there(fab, peer))
        return;
    if (peer->hail_gap_ns < HAIL_LAST_NS)
        peer->hail_gap_ns *= 2;
    peer->hail_ns = now + peer->hail_gap_ns;
    if (!peer->greeted) /* the network repeats it for us */
        peer_say_hello(fab, peer, true);
}

void nic_peer_rehail(struct fabemu *fab)
{
    uint64_t now = nic_now_ns();
    struct emu_list *at = fab->hailing.next, *next;

    if (now < fab->hail_scan_ns)
        return;
    fab->hail_scan_ns = now + HAIL_FIRST_NS;
    for (; at != &fab->hailing; at = next) {
        next = at->next;
        peer_rehail(fab, emu_list_entry(at, struct nic_peer, hail), now);
    }
}

static bool epoch_before(uint32_t epoch, uint32_t than)
{
    return (int32_t)(epoch - than) < 0;
}

/* Is it of what the two are to each other now? The network may tell us of hellos of the process before us. */
static bool peer_is_current(const struct fabemu *fab, const struct nic_peer *peer,
                            const struct emu_seg *seg)
{
    struct nic_wire_hello hello;
    struct nic_wire_data data;
    struct nic_wire_head head;

    switch (seg->payload[0]) {
    case NIC_HELLO:
        memcpy(&hello, seg->payload, sizeof hello);
        return seg->hdr.len == sizeof hello && hello.life == fab->life &&
               hello.known == peer->life && hello.epoch == peer->epoch;
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
    if (!seg->hdr.len || !peer_is_current(fab, peer, seg))
        return; /* all has ended that waited for it */
    if (!peer->life) { /* we do not know it, and do not get there */
        peer_hail_over(fab, peer, true);
        return;
    }
    peer_break_off(fab, peer);
    emu_list_del(&peer->hail);
    nic_peer_hail(fab, peer);
}

void nic_peer_told(struct nic_peer *peer)
{
    peer->greeted = false;
}

void nic_peer_probe(struct fabemu *fab, struct nic_peer *peer)
{
    if (!peer->greeted && !emu_listed(&peer->hail) && peer->node != fab->info.node)
        peer_say_hello(fab, peer, true);
}

void nic_peer_opened(struct fabemu *fab, struct nic_peer *peer)
{
    peer->open = true;
    peer->unanswered = false;
    if (peer->broke) { /* what it sent until it knew was a stranger's: nobody is to wait for that */
        peer->broke = false;
        nic_queue_passed(fab, peer->node, UINT64_MAX);
    }
    emu_list_del(&peer->hail);
    if (!emu_list_empty(&peer->sendq) && !emu_listed(&peer->ready))
        emu_list_add(&fab->ready, &peer->ready);
}

/* The process there says which epoch of the pair it is in. */
static void peer_learn(struct fabemu *fab, struct nic_peer *peer,
                       const struct nic_wire_hello *hello)
{
    bool later = epoch_before(peer->epoch, hello->epoch);

    if (peer->life && later)
        peer_break(fab, peer);
    if (later)
        peer->epoch = hello->epoch;
    if (peer->life)
        return;
    peer->life = hello->life;
    peer->missed = false;
    peer->tx_check = nic_check(fab->life, peer->life, peer->epoch);
    peer->rx_check = nic_check(peer->life, fab->life, peer->epoch);
}

void nic_peer_hello(struct fabemu *fab, struct nic_peer *peer, const struct nic_wire_hello *hello)
{
    bool knows;

    nic_peer_look(fab, peer);
    if (hello->life != peer->first) {
        fab->counts.stranger++; /* overtaken by its end or its goodbye */
        return;
    }
    if (fab->leaving && !peer->life)
        return; /* it is too late to meet */
    peer_learn(fab, peer, hello);
    knows = hello->known == fab->life && hello->epoch == peer->epoch;
    if (knows)
        nic_peer_opened(fab, peer);
    if ((hello->want || (!knows && emu_listed(&peer->hail))) && nic_peer_may_answer(&peer->debt_ns, ANSWER_AHEAD))
        peer_say_hello(fab, peer, !peer->open && emu_listed(&peer->hail));
    if (hello->want && peer->open &&
        (peer->rx_next != peer->rx_told || peer->rx_eaten != peer->rx_eaten_told))
        peer_ack(fab, peer); /* it may be what it waits for */
}

void nic_peer_stranger(struct fabemu *fab, struct nic_peer *peer)
{
    fab->counts.stranger++;
    if (nic_peer_may_answer(&peer->debt_ns, ANSWER_AHEAD_STRANGER))
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

void nic_peer_cancel(struct fabemu *fab, struct nic_peer *peer)
{
    peer_fail_queue(fab, peer, -ECANCELED);
    emu_list_del(&peer->hail);
}

void nic_peer_release(struct fabemu *fab, struct nic_peer *peer)
{
    if (!peer->sendq.next)
        return; /* never touched */
    peer_fail_queue(fab, peer, -ECANCELED);
    early_drop_all(fab, peer);
    free(peer->early);
}
