/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.c - see sim.h. */
#include "tests/world/switch/sim.h"

#include <assert.h>
#include <string.h>

#include "emu/util/combine.h"
#include "tests/test.h"

void sim_payload(const struct emu_hdr *hdr, uint64_t seed, uint8_t *bytes)
{
    for (uint32_t i = 0; i < hdr->len; i++)
        bytes[i] = (uint8_t)(test_random(&seed) >> 56);
    for (uint32_t i = 0; hdr->type == EMU_I64 && i + 8 <= hdr->len; i += 8) {
        int64_t number = (int64_t)(test_random(&seed) >> 40);

        memcpy(bytes + i, &number, 8);
    }
    for (uint32_t i = 0; hdr->type == EMU_F64 && i + 8 <= hdr->len; i += 8) { /* sums are rounded */
        double number = 1.0 / (double)(1 + (test_random(&seed) >> 50)) * (i % 16 ? 1e-9 : 1e9);

        memcpy(bytes + i, &number, 8);
    }
}

static void node_take(struct sim_node *p, const struct emu_entry *entry)
{
    struct emu_pool_cache *cache = &p->dev.worker->cache;
    struct sim_got *got;

    p->got = world_room(p->got, p->gots, &p->gots_room, sizeof *p->got);
    got = &p->got[p->gots++];
    memset(got, 0, sizeof *got);
    got->at_ps = entry->time_ps;
    got->hdr = entry->hdr;
    if (entry->buf != EMU_NO_BUF)
        memcpy(got->payload, emu_pool_bytes(cache->pool, entry->buf), entry->hdr.len);
    emu_pool_drop(cache, entry->buf);
    p->busy_ps = (entry->time_ps > p->busy_ps ? entry->time_ps : p->busy_ps) + p->service_ps;
    emu_rx_skip(&p->rx);
    emu_rx_done(&p->rx, 1);
    p->rx.owed = 1;
    emu_rx_pay(&p->rx, p->rx.owner, p->busy_ps + p->profile->credit_ps);
}

static void node_send(struct sim_node *p, const struct sim_post *post, uint64_t at_ps)
{
    struct emu_pool_cache *cache = &p->dev.worker->cache;
    struct emu_entry entry = {.hdr = post->hdr, .buf = EMU_NO_BUF};

    if (post->hdr.len) {
        entry.buf = emu_pool_take(cache);
        assert(entry.buf != EMU_NO_BUF);
        sim_payload(&post->hdr, post->seed, emu_pool_bytes(cache->pool, entry.buf));
    }
    entry.hdr.src = p->node;
    emu_tx_depart(&p->tx, &entry, at_ps);
}

static uint32_t node_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct sim_node *p = (struct sim_node *)dev;
    const struct emu_entry *entry;
    uint32_t moved = 0;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    for (; (entry = emu_rx_front(&p->rx, until_ps)); moved++)
        node_take(p, entry);
    dev->next_ps = emu_rx_front_ps(&p->rx, until_ps);
    for (; p->sent < p->posts; moved++) {
        uint64_t at_ps = emu_tx_earliest_ps(&p->tx, p->post[p->sent].ready_ps);

        if (at_ps > until_ps) {
            dev->next_ps = at_ps < dev->next_ps ? at_ps : dev->next_ps;
            break;
        }
        node_send(p, &p->post[p->sent++], at_ps);
    }
    emu_tx_flush(&p->tx);
    return moved;
}

static int node_create(void *ctx, uint32_t node, struct emu_worker *worker, struct emu_dev **dev,
                       struct emu_tx **tx, struct emu_rx **rx)
{
    struct sim *w = ctx;
    struct sim_node *p = world_zeros(sizeof *p);

    emu_dev_init(&p->dev, worker, node_step);
    p->node = node;
    p->profile = &w->profile;
    w->node[node] = p;
    *dev = &p->dev;
    *tx = &p->tx;
    *rx = &p->rx;
    return 0;
}

void sim_start(struct sim *w, const char *spec, const struct emu_profile *profile, uint32_t workers)
{
    struct fabric_config config = {.clock = EMU_CLOCK_VIRTUAL,
                                   .threads = workers,
                                   .seed = test_seed(),
                                   .local_nodes = &w->ops,
                                   .profile = *profile};

    memset(w, 0, sizeof *w);
    w->profile = *profile;
    w->ops = (struct fabric_node_ops){.create = node_create, .ctx = w};
    w->fabric = world_fabric_start(&w->graph, spec, SIM_NODES, &config);
}

void sim_open(struct sim *w, const char *spec, const char *set)
{
    struct emu_profile profile;

    world_profile(&profile, "oq2004", set);
    sim_start(w, spec, &profile, 1);
}

void sim_close(struct sim *w)
{
    uint32_t nodes = w->graph->nodes;

    fabric_stop(w->fabric);
    for (uint32_t n = 0; n < nodes; n++) {
        emu_link_unjoin(&w->node[n]->tx);
        free(w->node[n]->post);
        free(w->node[n]->got);
        free(w->node[n]);
    }
    topo_free(w->graph);
}

struct sim_post *sim_post(struct sim *w, uint32_t src, uint64_t ready_ps, struct emu_hdr hdr)
{
    struct sim_node *p = w->node[src];
    struct sim_post *post;

    p->post = world_room(p->post, p->posts, &p->posts_room, sizeof *p->post);
    post = &p->post[p->posts++];
    if (w->now_ps && ready_ps <= w->now_ps) /* that has happened */
        ready_ps = w->now_ps + 1;
    *post = (struct sim_post){.ready_ps = ready_ps, .hdr = hdr};
    emu_dev_wake(&p->dev, ready_ps);
    return post;
}

void sim_advance(struct sim *w, uint64_t until_ps)
{
    fabric_advance(w->fabric, until_ps);
    w->now_ps = until_ps;
}

bool sim_drain(struct sim *w, uint64_t limit_ps)
{
    sim_advance(w, w->now_ps); /* the fabric learns what it was asked to do meanwhile */
    while (!fabric_idle(w->fabric) && fabric_next_ps(w->fabric) < limit_ps)
        sim_advance(w, fabric_next_ps(w->fabric));
    return fabric_idle(w->fabric);
}

uint64_t sim_digest(const struct sim *w)
{
    uint64_t digest = 0;

    for (uint32_t n = 0; n < w->graph->nodes; n++)
        for (uint32_t i = 0; i < w->node[n]->gots; i++) {
            const uint8_t *bytes = (const uint8_t *)&w->node[n]->got[i];

            for (size_t b = 0; b < sizeof(struct sim_got); b++)
                digest = world_digest(digest, bytes[b]);
        }
    return digest;
}
