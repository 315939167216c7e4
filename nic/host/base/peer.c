/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.c - the table of peers
 *
 * The rate of answers to hellos (handshake.c) and disconnect queries (disconnect.c) is limited. The
 * network does not drop segments that a process does not read. So without the limit, a process that
 * sends many hellos and reads no answers could block everything else that this adapter sends.
 */
#include "nic/host/base/peer.h"

#include <errno.h>
#include <stdio.h>

#include "emu/util/now.h"
#include "nic/host/base/base.h"

/* minimum average interval between answers to a peer; peers repeat hellos at this interval */
#define ANSWER_GAP_NS 50000000u

int nic_node_check(const struct fabemu *fab, uint32_t node)
{
    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    if (node >= fab->info.nodes)
        return nic_fail(-EHOSTUNREACH, "there is no node %u: the fabric has %u nodes", node,
                        fab->info.nodes);
    return 0;
}

struct nic_peer *nic_peer(struct fabemu *fab, uint32_t node)
{
    struct nic_peer *peer = &fab->peers[node];

    if (!peer->sendq.next) {
        emu_list_init(&peer->sendq);
        peer->node = node;
        peer->first = emu_incarnation_first(emu_hostif_nic_incarnation(&fab->hostif, node));
        peer->vacated = peer->first > 1;
    }
    return peer;
}

bool nic_peer_is_there(const struct fabemu *fab, const struct nic_peer *peer)
{
    uint64_t word = emu_hostif_nic_incarnation(&fab->hostif, peer->node);

    return emu_incarnation_attached(word) && emu_incarnation_first(word) == peer->first;
}

bool nic_incarnation_is_last(const struct fabemu *fab, uint32_t node, uint64_t incarnation)
{
    uint64_t word = emu_hostif_nic_incarnation(&fab->hostif, node);

    return !incarnation ||
           incarnation == emu_incarnation_first(word) - !emu_incarnation_attached(word);
}

bool nic_peer_is_new(const struct fabemu *fab, const struct nic_peer *peer)
{
    return !emu_hostif_nic_incarnation(&fab->hostif, peer->node);
}

/* A missing answer does no harm: the peer repeats its query, or we send a hello later. */
bool nic_peer_may_answer(const struct fabemu *fab, uint64_t *debt_ns, uint32_t ahead)
{
    uint64_t now = nic_now_ns(fab);

    if (*debt_ns > now + (uint64_t)ahead * ANSWER_GAP_NS)
        return false;
    *debt_ns = (*debt_ns > now ? *debt_ns : now) + ANSWER_GAP_NS;
    return true;
}

/* Segments may overtake each other, so ignore an acknowledgment that is older than the last one. */
void nic_peer_ack(struct nic_peer *peer, const struct nic_wire_head *head)
{
    if (head->ack - peer->tx_acked <= peer->tx_seq - peer->tx_acked)
        peer->tx_acked = head->ack;
    if (head->consumed - peer->tx_consumed <= peer->tx_eager - peer->tx_consumed)
        peer->tx_consumed = head->consumed;
}

/*
 * Relaxed, because these are counters. They increase before the operation completes (N3, N4), so a
 * caller that sees its operation fail also sees the increase.
 */
void nic_peer_count_break(struct fabemu *fab, uint32_t node)
{
    if (node >= fab->info.nodes)
        return;
    atomic_fetch_add_explicit(&fab->peers[node].breaks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&fab->breaks, 1, memory_order_relaxed);
}

static const struct nic_peer *peer_at(const struct fabemu *fab, uint32_t node)
{
    return &fab->peers[node < fab->info.nodes ? node : 0];
}

uint64_t fabemu_breaks(const struct fabemu *fab, uint32_t node)
{
    return atomic_load_explicit(node == FABEMU_ANY_NODE ? &fab->breaks
                                                        : &peer_at(fab, node)->breaks,
                                memory_order_relaxed);
}

/* Relaxed, because these are counters. */
void nic_peer_count_drop(struct fabemu *fab, uint32_t node)
{
    atomic_fetch_add_explicit(&fab->peers[node].drops, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&fab->drops, 1, memory_order_relaxed);
}

uint64_t fabemu_drops(const struct fabemu *fab, uint32_t node)
{
    return atomic_load_explicit(node == FABEMU_ANY_NODE ? &fab->drops : &peer_at(fab, node)->drops,
                                memory_order_relaxed);
}

static void peer_why_silent(const struct fabemu *fab, const struct nic_peer *peer, char *text,
                            size_t bytes)
{
    unsigned long long silence_ms = fab->hello_limit_ns / 1000000;
    unsigned long long away_ms = peer->broke_away_ns / 1000000;
    char away[48] = "";

    if (away_ms > silence_ms / 8)
        snprintf(away, sizeof away, ", and %llu ms without a core", away_ms);
    snprintf(text, bytes, "node %u has been silent for %llu ms (is its process stopped?)%s",
             peer->node, silence_ms, away);
}

void nic_peer_why(const struct fabemu *fab, uint32_t node, char *text, size_t bytes)
{
    if (emu_hostif_nic_incarnation(&fab->hostif, fab->info.node) & EMU_INCARNATION_NO_LINK)
        snprintf(text, bytes, "node %u, this one, has no link in use", fab->info.node);
    else if (emu_hostif_nic_incarnation(&fab->hostif, node) & EMU_INCARNATION_NO_LINK)
        snprintf(text, bytes, "node %u has no link in use", node);
    else if (fab->peers[node].broke == NIC_BROKE_GIVEN_UP)
        snprintf(text, bytes, "the network dropped a segment to node %u for good", node);
    else if (fab->peers[node].broke == NIC_BROKE_DROP && fab->peers[node].lost)
        snprintf(text, bytes, "%s", fab->peers[node].lost);
    else if (fab->peers[node].broke == NIC_BROKE_PARTITIONED)
        snprintf(text, bytes, "no route leads to node %u", node);
    else if (fab->peers[node].broke == NIC_BROKE_NOTIFIED)
        snprintf(text, bytes, "the network dropped a segment from node %u for good", node);
    else if (fab->peers[node].broke == NIC_BROKE_SILENT)
        peer_why_silent(fab, &fab->peers[node], text, bytes);
    else if (fab->peers[node].first >
             emu_incarnation_first(emu_hostif_nic_incarnation(&fab->hostif, node)))
        /* the process has disconnected */
        snprintf(text, bytes, "the process of node %u has left", node);
    else
        snprintf(text, bytes, "node %u does not answer, or cannot be reached", node);
}

/* Name the node on stderr, because MPI libraries report only that an operation failed. */
void nic_peer_report(struct fabemu *fab, uint32_t node)
{
    struct nic_peer *peer = node < fab->info.nodes ? &fab->peers[node] : NULL;
    uint64_t word = peer ? emu_hostif_nic_incarnation(&fab->hostif, node) : 0;
    char why[NIC_WHY_BYTES];

    if (!peer || !peer->broke || peer->reported || fab->leaving)
        return;
    if (!emu_incarnation_attached(word) || emu_incarnation_first(word) != peer->first)
        return; /* the process has ended, which the fabric reports */
    peer->reported = true;
    nic_peer_why(fab, node, why, sizeof why);
    fprintf(stderr, "fabemu: %s: pending operations of node %u with node %u fail\n", why,
            fab->info.node, node);
}
