/* SPDX-License-Identifier: BSD-3-Clause */
/* bench.c - see bench.h. */
#include "tests/world/switch/bench.h"

#include <string.h>

#include "tests/test.h"

static uint32_t probe_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct probe *p = (struct probe *)dev;
    const struct emu_entry *entry;
    uint32_t taken = 0;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    while (!p->deaf && (entry = emu_rx_front(&p->rx, until_ps))) {
        uint32_t src = entry->hdr.src % BENCH_NODES;

        p->got_from[src]++;
        p->last_ps[src] = entry->time_ps;
        p->out_of_order += entry->hdr.seq < p->last_seq[src];
        p->last_seq[src] = entry->hdr.seq + 1;
        if (entry->buf != EMU_NO_BUF)
            memcpy(&p->number, emu_pool_bytes(dev->worker->cache.pool, entry->buf),
                   sizeof p->number);
        emu_pool_drop(&dev->worker->cache, entry->buf);
        emu_rx_skip(&p->rx);
        taken++;
    }
    if (taken) {
        emu_rx_done(&p->rx, taken);
        p->rx.owed += taken;
        emu_rx_pay(&p->rx, p->rx.owner, 0);
        p->got += taken;
    }
    return taken;
}

static int probe_create(void *ctx, uint32_t node, struct emu_worker *worker, struct emu_dev **dev,
                        struct emu_tx **tx, struct emu_rx **rx)
{
    struct bench *b = ctx;
    struct probe *p = world_zeros(sizeof *p);

    emu_dev_init(&p->dev, worker, probe_step);
    p->node = node;
    b->probe[node] = p;
    *dev = &p->dev;
    *tx = &p->tx;
    *rx = &p->rx;
    return 0;
}

void bench_start_on(struct bench *b, enum emu_clock_mode clock, const char *spec,
                    const struct emu_profile *profile)
{
    struct fabric_config config = {.clock = clock,
                                   .threads = 1,
                                   .start_stopped = true,
                                   .seed = test_seed(),
                                   .local_nodes = &b->ops,
                                   .profile = *profile};

    b->ops = (struct fabric_node_ops){.create = probe_create, .ctx = b};
    b->fabric = world_fabric_start(&b->graph, spec, BENCH_NODES, &config);
    b->worker = fabric_worker(b->fabric, 0);
}

void bench_start(struct bench *b, const char *spec, const struct emu_profile *profile)
{
    bench_start_on(b, EMU_CLOCK_RAW, spec, profile);
}

struct emu_profile bench_profile(enum emu_credit_policy credit, uint32_t slots)
{
    struct emu_profile profile;

    world_profile(&profile, "oq2004", NULL);
    profile.credit = credit;
    profile.raw_xpoint_slots = slots;
    profile.input_slots = slots;
    return profile;
}

void bench_open(struct bench *b, const char *spec, enum emu_credit_policy credit, uint32_t slots)
{
    struct emu_profile profile = bench_profile(credit, slots);

    bench_start(b, spec, &profile);
}

void bench_close(struct bench *b)
{
    uint32_t nodes = b->graph->nodes;

    fabric_stop(b->fabric);
    for (uint32_t n = 0; n < nodes; n++) {
        emu_link_unjoin(&b->probe[n]->tx);
        free(b->probe[n]);
    }
    topo_free(b->graph);
}

bool probe_room(struct bench *b, uint32_t node)
{
    emu_tx_take_credits(&b->probe[node]->tx);
    return emu_tx_room(&b->probe[node]->tx) > 0;
}

void probe_put(struct bench *b, uint32_t node, struct emu_entry *entry)
{
    struct emu_tx *tx = &b->probe[node]->tx;

    entry->hdr.src = node;
    emu_tx_send(tx, entry);
    emu_tx_flush(tx);
}

bool probe_send(struct bench *b, uint32_t node, const struct emu_hdr *hdr)
{
    struct emu_entry entry = {.hdr = *hdr};

    if (!probe_room(b, node))
        return false;
    entry.buf = emu_pool_take(&b->worker->cache);
    entry.hdr.seq = b->probe[node]->sent++;
    probe_put(b, node, &entry);
    return true;
}
