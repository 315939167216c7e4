/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timed_world.h - a fabric in simulated time whose nodes send what a test has
 * written down for them, and write down what arrives and when.
 */
#ifndef TESTS_TIMED_WORLD_H
#define TESTS_TIMED_WORLD_H

#include <string.h>

#include "apps/fabric/fabric.h"
#include "apps/fabric/internal.h"
#include "emu/combine.h"
#include "emu/worker/worker.h"
#include "switch/input/slots.h"
#include "tests/test.h"

#define NODES_MAX 64

/* A segment to send, and one that came. */
struct post {
    uint64_t ready_ps; /* no earlier: credits and the wire may make it later */
    struct emu_hdr hdr;
    uint64_t seed;     /* of its payload */
};

struct got {
    uint64_t at_ps; /* the time of its entry */
    struct emu_hdr hdr;
    uint8_t payload[EMU_PAYLOAD_BYTES];
};

struct player {
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    const struct emu_profile *profile;
    uint32_t node;
    struct post *post; /* in the order of sending */
    uint32_t posts, posts_room, sent;
    struct got *got;
    uint32_t gots, gots_room;
    uint64_t service_ps; /* it takes no more than one segment in such a time: the network backs up */
    uint64_t busy_ps;    /* until then */
};

struct world {
    struct topo_graph *graph;
    struct emu_profile profile;
    struct fabric_node_ops ops;
    struct fabric *fabric;
    struct player *player[NODES_MAX];
    uint64_t now_ps;
};

/* The payload that a node sends: small numbers, so that no sum of them overflows or is rounded. */
static inline void payload_fill(const struct emu_hdr *hdr, uint64_t seed, uint8_t *bytes)
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

static inline void player_take(struct player *p, const struct emu_entry *entry)
{
    struct emu_pool_cache *cache = &p->dev.worker->cache;
    struct got *got;

    if (p->gots == p->gots_room) {
        p->gots_room = p->gots_room ? 2 * p->gots_room : 64;
        p->got = realloc(p->got, p->gots_room * sizeof(*p->got));
    }
    got = &p->got[p->gots++];
    memset(got, 0, sizeof(*got));
    got->at_ps = entry->time_ps;
    got->hdr = entry->hdr;
    if (entry->buf != EMU_NO_BUF)
        memcpy(got->payload, emu_pool_bytes(cache->pool, entry->buf), entry->hdr.len);
    emu_pool_drop(cache, entry->buf);
    p->busy_ps = (entry->time_ps > p->busy_ps ? entry->time_ps : p->busy_ps) + p->service_ps;
    emu_rx_skip(&p->rx);
    emu_rx_done(&p->rx, 1);
    p->rx.owed = 1;
    emu_rx_pay(&p->rx, p->busy_ps + p->profile->credit_ps);
}

static inline void player_send(struct player *p, const struct post *post, uint64_t at_ps)
{
    struct emu_pool_cache *cache = &p->dev.worker->cache;
    struct emu_entry entry = {.hdr = post->hdr, .buf = EMU_NO_BUF};

    if (post->hdr.len) {
        entry.buf = emu_pool_take(cache);
        assert(entry.buf != EMU_NO_BUF);
        payload_fill(&post->hdr, post->seed, emu_pool_bytes(cache->pool, entry.buf));
    }
    entry.hdr.src = p->node;
    emu_tx_depart(&p->tx, &entry, at_ps);
}

static inline uint32_t player_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct player *p = (struct player *)dev;
    const struct emu_entry *entry;
    uint32_t moved = 0;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    for (; (entry = emu_rx_front(&p->rx, until_ps)); moved++)
        player_take(p, entry);
    dev->next_ps = emu_rx_front_ps(&p->rx, until_ps);
    for (; p->sent < p->posts; moved++) {
        uint64_t at_ps = emu_tx_earliest_ps(&p->tx, p->post[p->sent].ready_ps);

        if (at_ps > until_ps) {
            dev->next_ps = at_ps < dev->next_ps ? at_ps : dev->next_ps;
            break;
        }
        player_send(p, &p->post[p->sent++], at_ps);
    }
    emu_tx_flush(&p->tx);
    return moved;
}

static inline int player_create(void *ctx, uint32_t node, struct emu_worker *worker,
                                struct emu_dev **dev, struct emu_tx **tx, struct emu_rx **rx)
{
    struct world *w = ctx;
    size_t bytes = (sizeof(struct player) + EMU_LINE - 1) / EMU_LINE * EMU_LINE;
    struct player *p = aligned_alloc(EMU_LINE, bytes);

    memset(p, 0, bytes);
    emu_dev_init(&p->dev, worker, player_step);
    p->node = node;
    p->profile = &w->profile;
    w->player[node] = p;
    *dev = &p->dev;
    *tx = &p->tx;
    *rx = &p->rx;
    return 0;
}

/* "NAME=VALUE NAME=VALUE": what differs from oq2004. */
static inline void world_profile(struct emu_profile *profile, const char *set)
{
    char text[256], error[512], *save = NULL;

    CU_ASSERT_EQUAL_FATAL(emu_profile_load(profile, "oq2004", error, sizeof(error)), 0);
    snprintf(text, sizeof(text), "%s", set);
    for (char *at = strtok_r(text, " ", &save); at; at = strtok_r(NULL, " ", &save))
        CU_ASSERT_EQUAL_FATAL(emu_profile_set(profile, at, error, sizeof(error)), 0);
}

static inline void world_start(struct world *w, const char *spec, const struct emu_profile *profile,
                               uint32_t workers)
{
    struct fabric_config config = {.clock = EMU_CLOCK_VIRTUAL, .threads = workers};
    char error[256];

    memset(w, 0, sizeof(*w));
    CU_ASSERT_EQUAL_FATAL(topo_parse(&w->graph, spec, error, sizeof(error)), 0);
    CU_ASSERT_TRUE_FATAL(w->graph->nodes <= NODES_MAX);
    w->profile = *profile;
    w->ops = (struct fabric_node_ops){.create = player_create, .ctx = w};
    config.graph = w->graph;
    config.profile = *profile;
    config.seed = test_seed();
    config.local_nodes = &w->ops;
    CU_ASSERT_EQUAL_FATAL(fabric_start(&w->fabric, &config, error, sizeof(error)), 0);
}

static inline void world_open(struct world *w, const char *spec, const char *set)
{
    struct emu_profile profile;

    world_profile(&profile, set);
    world_start(w, spec, &profile, 1);
}

static inline void world_close(struct world *w)
{
    uint32_t nodes = w->graph->nodes;

    fabric_stop(w->fabric);
    for (uint32_t n = 0; n < nodes; n++) {
        emu_link_unjoin(&w->player[n]->tx);
        free(w->player[n]->post);
        free(w->player[n]->got);
        free(w->player[n]);
    }
    topo_free(w->graph);
}

/* Node @src sends a segment, after all that it was given before. */
static inline struct post *world_post(struct world *w, uint32_t src, uint64_t ready_ps,
                                      struct emu_hdr hdr)
{
    struct player *p = w->player[src];
    struct post *post;

    if (p->posts == p->posts_room) {
        p->posts_room = p->posts_room ? 2 * p->posts_room : 64;
        p->post = realloc(p->post, p->posts_room * sizeof(*p->post));
    }
    post = &p->post[p->posts++];
    if (w->now_ps && ready_ps <= w->now_ps) /* that has happened */
        ready_ps = w->now_ps + 1;
    *post = (struct post){.ready_ps = ready_ps, .hdr = hdr};
    emu_dev_wake(&p->dev, ready_ps);
    return post;
}

static inline void world_advance(struct world *w, uint64_t until_ps)
{
    fabric_advance(w->fabric, until_ps);
    w->now_ps = until_ps;
}

/* Everything that fabric_check() knows holds now. */
static inline bool world_holds(struct world *w)
{
    char error[256];

    if (!fabric_check(w->fabric, w->now_ps, error, sizeof(error)))
        return true;
    printf("%s\n", error);
    return false;
}

/* Until nothing is left to happen. False: it takes longer than @limit_ps. */
static inline bool world_drain(struct world *w, uint64_t limit_ps)
{
    world_advance(w, w->now_ps); /* the fabric learns what it was asked to do meanwhile */
    while (!fabric_idle(w->fabric) && fabric_next_ps(w->fabric) < limit_ps)
        world_advance(w, fabric_next_ps(w->fabric));
    return fabric_idle(w->fabric);
}

/* Of everything that arrived anywhere, and when. */
static inline uint64_t world_digest(const struct world *w)
{
    uint64_t digest = 0;

    for (uint32_t n = 0; n < w->graph->nodes; n++)
        for (uint32_t i = 0; i < w->player[n]->gots; i++) {
            const uint8_t *bytes = (const uint8_t *)&w->player[n]->got[i];

            for (size_t b = 0; b < sizeof(struct got); b++)
                digest = (digest ^ bytes[b]) * UINT64_C(0x100000001b3);
        }
    return digest;
}

#endif
