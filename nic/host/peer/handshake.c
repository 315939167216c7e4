/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.c - handshake of two processes: send, repeat and receive hellos; epochs.
 *
 * Before their first request two processes exchange hellos, which takes one round trip. This is
 * necessary because a node may get a new process, whose request numbers start at 0 again. So a
 * process accepts segments only from an incarnation that it knows.
 *
 * The pair's streams of requests break when the network drops one of their segments for good. Then
 * the pair starts its next *epoch*. Each epoch has another check value, so late segments of earlier
 * epochs are refused like segments of unknown processes. If both processes start an epoch at the
 * same time, or one of them starts two epochs, they use the later epoch.
 */
#include "nic/host/peer/handshake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/now.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/peer/failure.h"
#include "nic/host/rx/queue.h"
#include "nic/host/tx/answer.h"

/*
 * maximum number of answers to hellos in a burst; a process repeats its hellos quickly when it
 * begins a handshake
 */
#define ANSWER_AHEAD 16u

/*
 * maximum number of hellos in a burst that answers other segments; their sender does not know this
 * process or its epoch
 */
#define ANSWER_AHEAD_STRANGER 4u

/*
 * How long to wait for the fabric's report of a drop after a hello of a later epoch: as long as the
 * longest interval between two hellos.
 */
#define REPORT_LATE_NS 50000000u

void nic_peer_send_hello(struct fabemu *fab, struct nic_peer *peer, bool want)
{
    struct nic_wire_hello hello = {.what = NIC_HELLO,
                                   .want = want,
                                   .incarnation = fab->incarnation,
                                   .known = peer->incarnation,
                                   .epoch = peer->epoch};

    if (nic_peer_is_there(fab, peer) && nic_answer(fab, peer, &hello, sizeof hello))
        peer->hello_pending = nic_reports_on(fab, peer->node);
}

void nic_peer_connect(struct fabemu *fab, struct nic_peer *peer)
{
    uint64_t now = nic_now_ns(fab);

    if (emu_listed(&peer->connect))
        return;
    peer->hello_gap_ns = NIC_HELLO_FIRST_NS;
    peer->hello_ns = now + peer->hello_gap_ns;
    peer->hello_began_ns = now;
    peer->hello_away_ns = 0;
    peer->hello_at = fab->hostif.up_tail; /* or at a later position, if the ring is full now */
    peer->hello_taken = emu_hostif_nic_taken(&fab->hostif);
    emu_list_add(&fab->connecting, &peer->connect);
    nic_peer_send_hello(fab, peer, true);
}

void nic_peer_unknown(struct fabemu *fab, struct nic_peer *peer)
{
    fab->counts.wrong_incarnation++;
    if (nic_peer_may_answer(fab, &peer->debt_ns, ANSWER_AHEAD_STRANGER))
        nic_peer_send_hello(fab, peer, false);
}

void fabemu_ping(struct fabemu *fab, uint32_t node)
{
    if (nic_is_defunct(fab) || node >= fab->info.nodes || node == fab->info.node)
        return;
    nic_lock(fab);
    nic_peer_connect(fab, nic_peer(fab, node));
    nic_unlock(fab);
}

void nic_peer_probe(struct fabemu *fab, struct nic_peer *peer)
{
    if (!peer->hello_pending && !emu_listed(&peer->connect) && peer->node != fab->info.node)
        nic_peer_send_hello(fab, peer, true);
}

/*
 * Handle a peer that has not answered, for the reason @broke. If we have exchanged hellos with its
 * process, the process may be stopped or unreachable. Then end all operations; the two processes
 * may handshake again. If we have exchanged none, the process may just be busy. Then end the
 * requests to it, but end the receives from it only if the node has no process, or no route leads
 * there.
 */
static void peer_connect_failed(struct fabemu *fab, struct nic_peer *peer, enum nic_broke broke)
{
    bool unreachable = broke != NIC_BROKE_SILENT;

    emu_list_del(&peer->connect);
    peer->unanswered = true;
    peer->broke = broke;
    peer->broke_away_ns = peer->hello_away_ns;
    if (peer->incarnation) {
        nic_peer_break_off(fab, peer);
        return;
    }
    nic_peer_fail_queue(fab, peer, -EHOSTUNREACH);
    if (unreachable || peer->vacated || nic_peer_is_new(fab, peer))
        nic_queue_fail_older(fab, peer->node, UINT64_MAX, false);
    peer->vacated |= unreachable;
}

/*
 * Return how long to repeat hellos before the peer counts as unreachable. If the node has no
 * process, its next process should attach soon. After that it gets the usual time to answer.
 */
static uint64_t hello_limit_ns(const struct fabemu *fab, const struct nic_peer *peer)
{
    uint64_t word = emu_hostif_nic_incarnation(&fab->hostif, peer->node);
    bool vacant = word && !emu_incarnation_attached(word);

    return vacant && fab->hello_limit_ns > fab->successor_limit_ns ? fab->successor_limit_ns
                                                                   : fab->hello_limit_ns;
}

/*
 * In the up ring, thousands of segments may be in front of the first hello. While the fabric is
 * still taking these, the peer is not silent.
 */
static void hello_restart_if_taken(struct fabemu *fab, struct nic_peer *peer, uint64_t now)
{
    uint32_t taken = emu_hostif_nic_taken(&fab->hostif);

    if (taken == peer->hello_taken || (int32_t)(peer->hello_at - peer->hello_taken) < 0)
        return;
    peer->hello_taken = taken;
    peer->hello_began_ns = now;
}

/*
 * Return how much of the time since the last scan does not count as silence of the peers. It is the
 * longer of two times. The first is the time in which this process did not run, by its own clock;
 * it may have been stopped. The second is the time in which processes or the fabric had no core, as
 * counted by the fabric's manager. A part of each time counts as silence, so the wait ends. Of the
 * first time, an eighth of the bound counts for each late scan. emu_starved_ns() itself leaves out
 * a part of the second time. The manager may later report a time that this function has already
 * excluded by this process's own clock. So that no time is excluded twice, the result is at most
 * the time since the last scan that excluded any.
 */
static uint64_t hello_away_ns(struct fabemu *fab, uint64_t now)
{
    uint64_t stopped_ns = now - fab->hello_scan_ns;
    uint64_t starved_ns = emu_hostif_nic_starved(&fab->hostif, now), away_ns = 0;

    if (starved_ns > fab->hello_starved_ns) {
        away_ns = starved_ns - fab->hello_starved_ns;
        fab->hello_starved_ns = starved_ns;
    }
    if (stopped_ns > fab->hello_limit_ns / 4 && stopped_ns - fab->hello_limit_ns / 8 > away_ns)
        away_ns = stopped_ns - fab->hello_limit_ns / 8;
    if (away_ns > now - fab->hello_away_ns)
        away_ns = now - fab->hello_away_ns;
    if (away_ns)
        fab->hello_away_ns = now;
    return away_ns;
}

/* Subtract @away_ns from the time for which the peer has not answered. */
static void hello_exclude(struct nic_peer *peer, uint64_t now, uint64_t away_ns)
{
    uint64_t most_ns = now - peer->hello_began_ns;

    away_ns = away_ns < most_ns ? away_ns : most_ns;
    peer->hello_began_ns += away_ns;
    peer->hello_away_ns += away_ns;
}

static void peer_hello_again(struct fabemu *fab, struct nic_peer *peer, uint64_t now)
{
    hello_restart_if_taken(fab, peer, now);
    if (now - peer->hello_began_ns >= hello_limit_ns(fab, peer)) {
        peer_connect_failed(fab, peer, NIC_BROKE_SILENT);
        return;
    }
    if (now < peer->hello_ns || !nic_peer_is_there(fab, peer))
        return;
    if (peer->hello_gap_ns < NIC_HELLO_LAST_NS)
        peer->hello_gap_ns *= 2;
    peer->hello_ns = now + peer->hello_gap_ns;
    if (!peer->hello_pending) /* if a hello is in flight, the network itself repeats it */
        nic_peer_send_hello(fab, peer, true);
}

void nic_peer_connect_again(struct fabemu *fab)
{
    uint64_t now = nic_now_ns(fab), away_ns;
    struct emu_list *at = fab->connecting.next, *next;

    if (now < fab->hello_scan_ns)
        return;
    away_ns = hello_away_ns(fab, now);
    fab->hello_scan_ns = now + NIC_HELLO_FIRST_NS;
    for (; at != &fab->connecting; at = next) {
        struct nic_peer *peer = emu_list_entry(at, struct nic_peer, connect);

        next = at->next;
        hello_exclude(peer, now, away_ns);
        peer_hello_again(fab, peer, now);
    }
}

static bool epoch_before(uint32_t epoch, uint32_t than)
{
    return (int32_t)(epoch - than) < 0;
}

/*
 * Return whether @seg, which the network reports, has the checks of the pair's current epoch. The
 * network may also report segments of this node's previous process.
 */
static bool peer_is_current(const struct fabemu *fab, const struct nic_peer *peer,
                            const struct emu_seg *seg)
{
    struct nic_wire_hello hello;
    struct nic_wire_data data;
    struct nic_wire_head head;

    switch (seg->payload[0]) {
    case NIC_HELLO:
        memcpy(&hello, seg->payload, sizeof hello);
        return seg->hdr.len == sizeof hello && hello.incarnation == fab->incarnation &&
               hello.known == peer->incarnation && hello.epoch == peer->epoch;
    case NIC_DATA:
        memcpy(&data, seg->payload, sizeof data);
        return peer->incarnation && seg->hdr.len > sizeof data &&
               data.check == (uint16_t)peer->tx_check;
    default:
        memcpy(&head, seg->payload, sizeof head);
        return peer->incarnation && seg->hdr.len >= sizeof head && head.check == peer->tx_check;
    }
}

void nic_peer_given_up(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    if (seg->hdr.len && seg->payload[0] == NIC_HELLO)
        peer->hello_pending = false;
    if (!seg->hdr.len || !peer_is_current(fab, peer, seg))
        return;               /* the operations that waited for the segment have already ended */
    if (!peer->incarnation) { /* there was no handshake yet, and the peer is unreachable */
        peer_connect_failed(fab, peer, NIC_BROKE_GIVEN_UP);
        return;
    }
    peer->broke = NIC_BROKE_GIVEN_UP;
    nic_peer_break_off(fab, peer);
    emu_list_del(&peer->connect);
    nic_peer_connect(fab, peer);
}

/* Record the drop for fabemu_drops(), because third processes may wait for @peer. */
static void peer_record_drop(struct fabemu *fab, struct nic_peer *peer, uint64_t incarnation,
                             const char *why)
{
    char *lost = strdup(why);

    if (lost) {
        free(peer->lost);
        peer->lost = lost;
        peer->drop_incarnation = incarnation;
    }
    nic_peer_count_drop(fab, peer->node);
}

/*
 * The fabric reports a drop to both processes of the pair. The segment was sent before loss->at_ns.
 * If we have broken the pair's streams since then, the segment belonged to an earlier epoch, and
 * only the peer must still end its operations. A hello needs no action, because it is repeated. If
 * another process has replaced one of the two, no operation waits for the replaced process any
 * more.
 */
void nic_peer_dropped(struct fabemu *fab, const struct nic_drop *loss)
{
    struct nic_peer *from = loss->from, *to = loss->to;
    struct nic_peer *peer = from->node == fab->info.node ? to : from;

    if (!nic_incarnation_is_last(fab, from->node, loss->from_incarnation) ||
        !nic_incarnation_is_last(fab, to->node, loss->to_incarnation))
        return;
    nic_peer_check(fab, peer);
    peer_record_drop(fab, from, loss->from_incarnation, loss->why);
    peer_record_drop(fab, to, loss->to_incarnation, loss->why);
    if (from->node != fab->info.node && to->node != fab->info.node)
        return;
    if (peer->broke_ns >= loss->at_ns) {
        peer->broke = NIC_BROKE_DROP;
    } else if (peer->incarnation) {
        peer->broke = NIC_BROKE_DROP;
        nic_peer_break_off(fab, peer);
        emu_list_del(&peer->connect);
        nic_peer_connect(fab, peer);
    }
}

/*
 * Return whether to ignore this hello for now. Without acknowledgments the fabric reports each drop
 * and its cause to both processes. A hello of the next epoch may arrive before that report. The
 * peer repeats such a hello, and it is accepted after the report or after REPORT_LATE_NS.
 */
static bool hello_is_premature(struct fabemu *fab, struct nic_peer *peer,
                               const struct nic_wire_hello *hello)
{
    uint64_t now = nic_now_ns(fab);

    if (fab->transport.reports_delivery || !peer->incarnation ||
        !epoch_before(peer->epoch, hello->epoch))
        return false;
    if (peer->awaits_epoch != hello->epoch || !peer->awaits_ns) {
        peer->awaits_epoch = hello->epoch;
        peer->awaits_ns = now;
    }
    return now - peer->awaits_ns < REPORT_LATE_NS;
}

void nic_peer_partitioned(struct fabemu *fab, struct nic_peer *peer)
{
    peer_connect_failed(fab, peer, NIC_BROKE_PARTITIONED);
}

void nic_peer_opened(struct fabemu *fab, struct nic_peer *peer)
{
    if (peer->broke == NIC_BROKE_PARTITIONED)
        peer->broke = NIC_BROKE_NOT; /* the node can be reached again */
    peer->open = true;
    peer->unanswered = false;
    if (peer->must_notify) {
        /*
         * Until now the peer did not know the new epoch, so this process refused all messages that
         * the peer sent in the old one. Receives that were posted in this time may wait for such a
         * message, so they fail.
         */
        peer->must_notify = false;
        nic_queue_fail_older(fab, peer->node, UINT64_MAX, false);
    }
    emu_list_del(&peer->connect);
    if (!emu_list_empty(&peer->sendq) && !emu_listed(&peer->ready))
        emu_list_add(&fab->ready, &peer->ready);
}

/* Adopt the epoch of the pair and the peer's incarnation from its hello, if they are new. */
static void peer_learn(struct fabemu *fab, struct nic_peer *peer,
                       const struct nic_wire_hello *hello)
{
    bool later = epoch_before(peer->epoch, hello->epoch);

    if (peer->incarnation && later) {
        peer->broke = NIC_BROKE_NOTIFIED;
        nic_peer_break(fab, peer);
    }
    if (later)
        peer->epoch = hello->epoch;
    if (peer->incarnation)
        return;
    peer->incarnation = hello->incarnation;
    peer->vacated = false;
    peer->tx_check = nic_check(fab->incarnation, peer->incarnation, peer->epoch);
    peer->rx_check = nic_check(peer->incarnation, fab->incarnation, peer->epoch);
}

void nic_peer_hello(struct fabemu *fab, struct nic_peer *peer, const struct nic_wire_hello *hello)
{
    bool knows;

    nic_peer_check(fab, peer);
    if (hello->incarnation != peer->first) {
        fab->counts.wrong_incarnation++; /* the sender of the hello has ended or disconnected */
        return;
    }
    if (hello_is_premature(fab, peer, hello))
        return;
    if (fab->leaving && !peer->incarnation)
        return; /* this process detaches, so it is too late for a handshake */
    peer_learn(fab, peer, hello);
    knows = hello->known == fab->incarnation && hello->epoch == peer->epoch;
    if (knows)
        nic_peer_opened(fab, peer);
    if ((hello->want || (!knows && emu_listed(&peer->connect))) &&
        nic_peer_may_answer(fab, &peer->debt_ns, ANSWER_AHEAD))
        nic_peer_send_hello(fab, peer, !peer->open && emu_listed(&peer->connect));
    if (hello->want && peer->open &&
        (peer->rx_next != peer->rx_acked || peer->rx_consumed != peer->rx_consumed_acked))
        nic_ack(fab, peer); /* the peer may wait for these acknowledgments */
}
