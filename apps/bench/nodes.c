/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nodes.c - nodes inside the fabric that send as fast as credits allow
 * and take what arrives: the load of the switch benchmarks.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/bench/nodes.h"
#include "emu/alloc.h"
#include "emu/link/link.h"
#include "emu/random.h"

#define NODE_BURST 64

struct bench_node {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    uint32_t node;
    uint32_t nodes;
    struct bench_traffic traffic;
    uint32_t dst;  /* of the last segment, or of all */
    uint32_t left; /* segments that go there, too */
    uint64_t random;
};

static uint32_t node_random(struct bench_node *node)
{
    return (uint32_t)(emu_xorshift(&node->random) >> 32);
}

static uint32_t node_take(struct bench_node *node)
{
    const struct emu_entry *entry;
    uint32_t taken = 0;

    for (; taken < NODE_BURST && (entry = emu_rx_front(&node->rx, 0)); taken++) {
        emu_pool_drop(&node->dev.worker->cache, entry->buf);
        emu_rx_skip(&node->rx);
    }
    if (taken) {
        emu_rx_done(&node->rx, taken);
        node->rx.owed += taken;
        emu_rx_pay(&node->rx, &node->dev, 0);
    }
    return taken;
}

/* The one at the same distance from the block's other end. */
static uint32_t node_opposite(uint32_t node, uint32_t within)
{
    uint32_t at = node % within;

    return node - at + within - 1 - at;
}

/* Where the next segment goes. */
static uint32_t node_aim(struct bench_node *node)
{
    if (!node->traffic.within && !node->left--) {
        node->left = node->traffic.run - 1;
        node->dst = (uint32_t)((uint64_t)node_random(node) * node->nodes >> 32);
    }
    return node->dst;
}

static uint32_t node_send(struct bench_node *node)
{
    uint32_t sent = 0;

    emu_tx_take_credits(&node->tx);
    for (; sent < NODE_BURST && emu_tx_room(&node->tx); sent++) {
        /*
         * Its cable is a plain local one. Made anywhere else, a segment would be copied in larger
         * pieces than it was just stored in, which the processor waits for: 9 % of a hop.
         */
        struct emu_entry *slot = emu_tx_slot(&node->tx);
        uint32_t buf = emu_pool_take(&node->dev.worker->cache);

        if (buf == EMU_NO_BUF)
            break;
        slot->hdr = (struct emu_hdr){.dst = node_aim(node),
                                     .src = node->node,
                                     .kind = EMU_UNICAST,
                                     .len = (uint8_t)node->traffic.bytes};
        slot->buf = buf;
        slot->note = 0;
        emu_tx_show(&node->tx, 0);
    }
    emu_tx_flush(&node->tx);
    return sent;
}

static uint32_t node_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct bench_node *node = (struct bench_node *)dev;

    (void)until_ps;
    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    return node_take(node) + node_send(node);
}

static int node_create(void *ctx, uint32_t n, struct emu_worker *worker, struct emu_dev **dev,
                       struct emu_tx **tx, struct emu_rx **rx)
{
    struct bench_nodes *all = ctx;
    struct bench_node *node = emu_zeros(sizeof *node);

    if (!node)
        return -ENOMEM;
    emu_dev_init(&node->dev, worker, node_step);
    emu_dev_again(&node->dev);
    node->node = n;
    node->nodes = all->nodes;
    node->traffic = all->traffic;
    if (node->traffic.within)
        node->dst = node_opposite(n, node->traffic.within);
    node->random = emu_spread(all->seed + n + 1);
    all->node[n] = node;
    *dev = &node->dev;
    *tx = &node->tx;
    *rx = &node->rx;
    return 0;
}

int bench_nodes_init(struct bench_nodes *all, uint32_t nodes, const struct bench_traffic *traffic,
                     uint64_t seed)
{
    all->traffic = *traffic;
    all->nodes = nodes;
    all->seed = seed;
    all->node = calloc(nodes, sizeof(struct bench_node *));
    all->ops = (struct fabric_node_ops){.create = node_create, .ctx = all};
    return all->node ? 0 : -ENOMEM;
}

void bench_nodes_free(struct bench_nodes *all)
{
    for (uint32_t n = 0; all->node && n < all->nodes; n++) {
        if (all->node[n])
            emu_link_unjoin(&all->node[n]->tx);
        free(all->node[n]);
    }
    free(all->node);
}
