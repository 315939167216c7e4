/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_world.h - hosts behind engines, and bad cables between these: two engines back to back, or
 * a whole fabric.
 *
 * What host n sends as its i-th segment is drawn by a function, so a receiver knows what every
 * segment must look like; it marks each that came. Nothing is kept but these marks.
 */
#ifndef TESTS_ENGINE_WORLD_H
#define TESTS_ENGINE_WORLD_H

#include <string.h>

#include "apps/fabric/internal.h"
#include "emu/worker/windows.h"
#include "emu/worker/worker.h"
#include "nic/engine/internal.h"
#include "switch/channel/channel.h"
#include "tests/test.h"

#define HOSTS_MAX   16u
#define WORKERS_MAX 3u

struct world;

/* A segment to send. */
struct post {
    uint64_t ready_ps; /* no earlier; never less than the one's before */
    uint32_t dst;      /* unicast: a node; multicast: a group, 0: that of all */
    uint8_t kind;
    uint8_t len;
    bool hollow; /* no payload: only its length */
};

struct host {
    alignas(EMU_LINE) struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    struct world *world;
    uint32_t node;
    bool deaf;           /* takes nothing */
    uint64_t wake_ps;    /* timed: no longer deaf from then on */
    uint64_t posts;      /* to send in all */
    uint64_t sent;
    uint8_t *marks;      /* [source][its post]: how often it came here */
    uint8_t *failures;   /* by own posts: how often it was told as failed */
    uint64_t digest;
    uint64_t last_ps;    /* time of the last that came */
    _Atomic uint64_t got;
    _Atomic uint64_t failed;
    _Atomic uint64_t wrong; /* not as it was sent */
};

typedef void (*draw_fn)(const struct world *w, uint32_t node, uint64_t i, struct post *ret);

/* How a world is made. What is 0 or NULL has the meaning that it says. */
struct setting {
    enum emu_clock_mode clock;
    const char *topo;   /* NULL: two engines back to back */
    uint32_t workers;   /* 0: one */
    uint32_t links;     /* back to back; 0: one */
    const char *set;    /* "NAME=VALUE ...": what differs from qsnet3 */
    uint32_t first_seq; /* back to back */
    bool no_group;      /* back to back: the engines know none */
    struct emu_fault_rates faults;
    bool only_one_bad;  /* back to back: faults on the cables to host 1's engine only */
    draw_fn draw;       /* NULL: draw_mixed */
    uint64_t posts;     /* of each host */
};

struct world {
    struct setting set;
    struct emu_profile profile;
    struct emu_clock clock;
    struct topo_graph *graph;
    struct fabric *fabric; /* NULL: back to back */
    struct fabric_node_ops ops;
    struct emu_pool *pool;
    struct emu_worker *worker[WORKERS_MAX];
    struct emu_thread *thread[WORKERS_MAX];
    struct emu_windows *windows;
    uint32_t hosts;
    struct engine *engine[HOSTS_MAX];
    struct engine_group *member[HOSTS_MAX]; /* back to back: of the group */
    struct host *host[HOSTS_MAX];
    struct emu_faults engine_faults[HOSTS_MAX][ENGINE_LINKS_MAX]; /* at the engine, of its links */
    struct emu_faults *switch_faults; /* [switch][port] */
    uint32_t group;
    uint64_t seed;
    uint64_t now_ps; /* virtual: up to where world_advance() has come */
    uint64_t base_ps; /* when hosts begin; less when the clock has been turned back */
};

/* --- what is sent ------------------------------------------------------------------------ */

static inline uint64_t draw_number(uint64_t seed, uint32_t node, uint64_t i)
{
    uint64_t state = seed ^ (uint64_t)(node + 1) << 56 ^ i * 0x9e3779b97f4a7c15u;

    return test_random(&state);
}

/* To any other host, and through switches to itself; lengths of all kinds, a third of them whole segments, at full speed. */
static inline void draw_mixed(const struct world *w, uint32_t node, uint64_t i, struct post *ret)
{
    uint64_t number = draw_number(w->seed, node, i);

    *ret = (struct post){.kind = EMU_UNICAST, .len = EMU_PAYLOAD_BYTES};
    ret->dst = (node + 1 + (uint32_t)(number >> 40) % (w->hosts - !w->fabric)) % w->hosts;
    if (number % 3)
        ret->len = (uint8_t)(number / 3 % (EMU_PAYLOAD_BYTES + 1));
    if (number / 1024 % 16 == 0) {
        ret->kind = EMU_MULTICAST;
        ret->dst = 0;
    }
}

/* Whole segments to the next host. */
static inline void draw_whole(const struct world *w, uint32_t node, uint64_t i, struct post *ret)
{
    (void)i;
    *ret = (struct post){.dst = (node + 1) % w->hosts, .kind = EMU_UNICAST,
                         .len = EMU_PAYLOAD_BYTES};
}

static inline struct emu_hdr post_hdr(const struct world *w, uint32_t node, uint64_t i,
                                      const struct post *post)
{
    bool to_all = post->kind != EMU_UNICAST && !post->dst;

    return (struct emu_hdr){.dst = to_all ? w->group : post->dst, .src = node,
                            .seq = (uint32_t)i, .kind = post->kind, .len = post->len,
                            .op = (uint8_t)(i * 7), .type = (uint8_t)(i * 11)};
}

static inline void post_payload(const struct world *w, uint32_t node, uint64_t i,
                                const struct post *post, uint8_t *bytes)
{
    uint64_t word = 0;

    for (uint32_t b = 0; b < post->len; b++) {
        if (b % 8 == 0)
            word = draw_number(w->seed + 1 + b, node, i);
        bytes[b] = (uint8_t)(word >> b % 8 * 8);
    }
}

/* --- hosts ------------------------------------------------------------------------------------ */

static inline void host_mix(struct host *h, uint64_t number)
{
    h->digest = (h->digest ^ number) * UINT64_C(0x100000001b3);
}

static inline uint8_t *host_mark(const struct host *h, uint32_t src, uint64_t i)
{
    return &h->marks[src * h->world->set.posts + i];
}

/* Is this segment as its source drew it? Then it is marked. */
static inline bool host_check(struct host *h, const struct emu_entry *entry)
{
    struct world *w = h->world;
    struct emu_pool *pool = h->dev.worker->cache.pool;
    bool failed = entry->hdr.kind & EMU_FAILED;
    uint32_t src = entry->hdr.src;
    uint64_t i = entry->hdr.seq;
    uint8_t want[EMU_PAYLOAD_BYTES];
    struct emu_hdr hdr;
    struct post post;

    if (src >= w->hosts || i >= w->host[src]->posts || (failed && src != h->node))
        return false;
    w->set.draw(w, src, i, &post);
    hdr = post_hdr(w, src, i, &post);
    hdr.kind |= failed ? EMU_FAILED : 0;
    if (memcmp(&hdr, &entry->hdr, sizeof(hdr)) ||
        (post.kind == EMU_UNICAST && !failed && post.dst != h->node) ||
        (entry->buf == EMU_NO_BUF) != (post.hollow || !post.len) ||
        entry->born_ns != (uint32_t)(i * 3 + 1))
        return false;
    if (entry->buf != EMU_NO_BUF) {
        post_payload(w, src, i, &post, want);
        if (memcmp(want, emu_pool_bytes(pool, entry->buf), post.len))
            return false;
    }
    ++*(failed ? &h->failures[i] : host_mark(h, src, i));
    emu_count(failed ? &h->failed : &h->got, 1);
    return true;
}

static inline uint32_t host_take(struct host *h, uint64_t until_ps)
{
    const struct emu_entry *entry;
    uint32_t taken = 0;

    while (!h->deaf && (h->dev.timed || taken < 64) && (entry = emu_rx_front(&h->rx, until_ps))) {
        uint64_t at_ps = entry->time_ps > h->wake_ps ? entry->time_ps : h->wake_ps;

        if (!host_check(h, entry))
            emu_count(&h->wrong, 1);
        host_mix(h, at_ps);
        host_mix(h, (uint64_t)entry->hdr.seq << 16 | entry->hdr.src << 8 | entry->hdr.kind);
        h->last_ps = at_ps;
        emu_pool_drop(&h->dev.worker->cache, entry->buf);
        emu_rx_skip(&h->rx);
        taken++;
        if (h->dev.timed) {
            h->rx.owed = 1;
            emu_rx_pay(&h->rx, at_ps + h->world->profile.credit_ps);
        }
    }
    if (taken)
        emu_rx_done(&h->rx, taken);
    if (taken && !h->dev.timed) {
        h->rx.owed += taken;
        emu_rx_pay(&h->rx, 0);
    }
    return taken;
}

/* Send the next one. False: no buffer. */
static inline bool host_post(struct host *h, const struct post *post, uint64_t at_ps)
{
    struct emu_pool_cache *cache = &h->dev.worker->cache;
    struct emu_entry entry = {.hdr = post_hdr(h->world, h->node, h->sent, post), .buf = EMU_NO_BUF,
                              .born_ns = (uint32_t)(h->sent * 3 + 1)};

    if (post->len && !post->hollow) {
        entry.buf = emu_pool_take(cache);
        if (entry.buf == EMU_NO_BUF)
            return false;
        post_payload(h->world, h->node, h->sent, post, emu_pool_bytes(cache->pool, entry.buf));
    }
    if (h->dev.timed)
        emu_tx_depart(&h->tx, &entry, at_ps);
    else
        emu_tx_send(&h->tx, &entry);
    h->sent++;
    return true;
}

static inline uint32_t host_send(struct host *h, uint64_t until_ps, uint64_t *next_ps)
{
    struct world *w = h->world;
    uint32_t sent = 0;
    struct post post;

    if (!h->dev.timed)
        emu_tx_take_credits(&h->tx);
    for (; h->sent < h->posts && (h->dev.timed || sent < 64); sent++) {
        uint64_t at_ps = 0;

        w->set.draw(w, h->node, h->sent, &post);
        if (h->dev.timed)
            at_ps = emu_tx_earliest_ps(&h->tx, post.ready_ps);
        if (h->dev.timed ? at_ps > until_ps : !emu_tx_room(&h->tx)) {
            *next_ps = at_ps;
            break;
        }
        if (!host_post(h, &post, at_ps))
            break;
    }
    if (!h->dev.timed && sent == 64)
        emu_dev_again(&h->dev);
    emu_tx_flush(&h->tx);
    return sent;
}

static inline uint32_t host_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct host *h = (struct host *)dev;
    uint64_t next_ps = EMU_NEVER, front_ps;
    uint32_t moved;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    if (dev->timed && h->deaf && until_ps >= h->wake_ps)
        h->deaf = false;
    moved = host_take(h, until_ps);
    if (!dev->timed && moved == 64)
        emu_dev_again(dev);
    moved += host_send(h, until_ps, &next_ps);
    front_ps = h->deaf ? h->wake_ps : emu_rx_next_ps(&h->rx);
    dev->next_ps = !dev->timed ? EMU_NEVER : front_ps < next_ps ? front_ps : next_ps;
    return moved;
}

static inline struct host *host_create(struct world *w, uint32_t node, struct emu_worker *worker)
{
    size_t bytes = (sizeof(struct host) + EMU_LINE - 1) / EMU_LINE * EMU_LINE;
    struct host *h = aligned_alloc(EMU_LINE, bytes);

    memset(h, 0, bytes);
    emu_dev_init(&h->dev, worker, host_step);
    h->world = w;
    h->node = node;
    h->posts = w->set.posts;
    h->marks = calloc(HOSTS_MAX * h->posts + 1, 1);
    h->failures = calloc(h->posts + 1, 1);
    w->host[node] = h;
    return h;
}

/* --- back to back ------------------------------------------------------------------------------ */

/* Engine n and its host on worker n, as far as there are so many: hosts on the last. */
static inline void pair_node(struct world *w, uint32_t n)
{
    uint32_t workers = w->set.workers;
    struct emu_worker *at = w->worker[n % workers];
    struct host *h = host_create(w, n, w->worker[workers == 3 ? 2 : n % workers]);
    struct engine_config config = {.profile = &w->profile, .node = n, .nodes = w->hosts,
                                   .links = w->set.links, .seed = w->seed,
                                   .first_seq = w->set.first_seq};
    struct engine *e;

    CU_ASSERT_EQUAL_FATAL(engine_create(&w->engine[n], at, &config), 0);
    e = w->engine[n];
    CU_ASSERT_EQUAL_FATAL(emu_link_join(&h->tx, &h->dev, 0, engine_rx(e, ENGINE_HOST),
                                        engine_emu_dev(e), ENGINE_HOST, ENGINE_LOCAL_CREDITS,
                                        engine_host_profile(e)),
                          0);
    CU_ASSERT_EQUAL_FATAL(emu_link_join(engine_tx(e, ENGINE_HOST), engine_emu_dev(e), ENGINE_HOST,
                                        &h->rx, &h->dev, 0, ENGINE_LOCAL_CREDITS,
                                        engine_host_profile(e)),
                          0);
}

static inline void pair_group(struct world *w, uint32_t n)
{
    const struct engine_group_config config = {.id = w->group, .sources = w->hosts,
                                               .parent = ENGINE_NO_NODE};
    void *old;

    CU_ASSERT_EQUAL_FATAL(engine_group_create(&w->member[n], &config), 0);
    CU_ASSERT_EQUAL_FATAL(engine_groups_set(w->engine[n], w->member[n], &old), 0);
    free(old);
}

static inline void pair_cables(struct world *w)
{
    for (uint8_t l = 0; l < w->set.links; l++)
        for (uint32_t n = 0; n < w->hosts; n++) {
            struct engine *from = w->engine[n], *to = w->engine[1 - n];

            CU_ASSERT_EQUAL_FATAL(emu_link_join(engine_tx(from, l), engine_emu_dev(from), l,
                                                engine_rx(to, l), engine_emu_dev(to), l,
                                                EMU_CHANNEL_SLOTS, &w->profile),
                                  0);
            emu_faults_init(&w->engine_faults[1 - n][l], &w->set.faults,
                            w->seed + n * 64 + l + 1000);
            if (!w->set.only_one_bad || n == 0)
                engine_faults(to, l, &w->engine_faults[1 - n][l]);
        }
}

static inline void pair_open(struct world *w)
{
    w->clock.mode = w->set.clock;
    w->hosts = 2;
    w->group = 0x70005u;
    w->pool = emu_pool_create(1u << 16);
    CU_ASSERT_PTR_NOT_NULL_FATAL(w->pool);
    atomic_store(&w->pool->depot, (uint64_t)(UINT32_MAX - 1) << 32); /* its tag wraps */
    for (uint32_t i = 0; i < w->set.workers; i++)
        CU_ASSERT_EQUAL_FATAL(emu_worker_create(&w->worker[i], 4, &w->clock, w->pool), 0);
    for (uint32_t n = 0; n < w->hosts; n++)
        pair_node(w, n);
    for (uint32_t n = 0; n < w->hosts && !w->set.no_group; n++)
        pair_group(w, n);
    pair_cables(w);
    if (w->set.clock == EMU_CLOCK_VIRTUAL)
        CU_ASSERT_EQUAL_FATAL(emu_windows_create(&w->windows, w->worker, w->set.workers,
                                                 emu_profile_lookahead_ps(&w->profile)),
                              0);
}

static inline void pair_close(struct world *w)
{
    emu_windows_destroy(w->windows);
    for (uint32_t n = 0; n < w->hosts; n++) {
        engine_destroy(w->engine[n]);
        engine_group_destroy(w->member[n], &w->worker[0]->cache, true);
    }
    for (uint32_t i = 0; i < w->set.workers; i++)
        emu_worker_destroy(w->worker[i]);
    emu_pool_destroy(w->pool);
}

/* --- a fabric ------------------------------------------------------------------------------------- */

static inline int fabric_host_create(void *ctx, uint32_t node, struct emu_worker *worker,
                                     struct emu_dev **dev, struct emu_tx **tx, struct emu_rx **rx)
{
    struct host *h = host_create(ctx, node, worker);

    *dev = &h->dev;
    *tx = &h->tx;
    *rx = &h->rx;
    return 0;
}

static inline void fabric_cables(struct world *w)
{
    uint32_t ports = w->graph->ports;

    w->switch_faults = calloc(w->graph->switches * ports, sizeof(*w->switch_faults));
    for (uint32_t s = 0; s < w->graph->switches; s++)
        for (uint32_t p = 0; p < ports; p++) {
            struct emu_faults *faults = &w->switch_faults[s * ports + p];

            emu_faults_init(faults, &w->set.faults, w->seed + s * 64 + p + 5000);
            if (w->graph->sw[s].end[p].kind != TOPO_END_NONE)
                switch_faults(w->fabric->sw[s], p, faults);
        }
    for (uint32_t s = 0; s < w->graph->switches; s++)
        switch_channels_of(w->fabric->sw[s])->tick = UINT16_MAX - 3; /* ticks wrap */
    for (uint32_t n = 0; n < w->hosts; n++) {
        emu_faults_init(&w->engine_faults[n][0], &w->set.faults, w->seed + n + 1000);
        engine_faults(w->fabric->engine[n], 0, &w->engine_faults[n][0]);
    }
}

static inline void fabric_open(struct world *w)
{
    struct fabric_config config = {.clock = w->set.clock, .threads = w->set.workers,
                                   .profile = w->profile, .seed = w->seed, .start_stopped = true};
    uint32_t nodes[HOSTS_MAX];
    char error[256];

    CU_ASSERT_EQUAL_FATAL(topo_parse(&w->graph, w->set.topo, error, sizeof(error)), 0);
    CU_ASSERT_TRUE_FATAL(w->graph->nodes <= HOSTS_MAX);
    w->hosts = w->graph->nodes;
    w->ops = (struct fabric_node_ops){.create = fabric_host_create, .ctx = w};
    config.graph = w->graph;
    config.local_nodes = &w->ops;
    CU_ASSERT_EQUAL_FATAL(fabric_start(&w->fabric, &config, error, sizeof(error)), 0);
    w->set.workers = fabric_threads(w->fabric);
    CU_ASSERT_TRUE_FATAL(w->set.workers <= WORKERS_MAX);
    for (uint32_t i = 0; i < w->set.workers; i++)
        w->worker[i] = w->fabric->worker[i];
    for (uint32_t n = 0; n < w->hosts; n++) {
        w->engine[n] = w->fabric->engine[n];
        nodes[n] = n;
    }
    w->windows = w->fabric->windows;
    w->pool = w->fabric->pool;
    fabric_cables(w);
    CU_ASSERT_EQUAL_FATAL(fabric_multicast_create(w->fabric, nodes, w->hosts, w->hosts, &w->group, error,
                                                  sizeof(error)),
                          0);
}

static inline void fabric_close(struct world *w)
{
    fabric_stop(w->fabric);
    topo_free(w->graph);
    free(w->switch_faults);
}

/* --- made and taken apart ------------------------------------------------------------------- */

static inline void world_profile(struct emu_profile *profile, const char *set)
{
    char text[256], error[512], *save = NULL;

    CU_ASSERT_EQUAL_FATAL(emu_profile_load(profile, "qsnet3", error, sizeof(error)), 0);
    profile->transport = EMU_TRANSPORT_ACKNOWLEDGED;
    snprintf(text, sizeof(text), "%s", set ? set : "");
    for (char *at = strtok_r(text, " ", &save); at; at = strtok_r(NULL, " ", &save))
        CU_ASSERT_EQUAL_FATAL(emu_profile_set(profile, at, error, sizeof(error)), 0);
}

static inline void world_open(struct world *w, const struct setting *set)
{
    memset(w, 0, sizeof(*w));
    w->set = *set;
    w->set.workers += !set->workers;
    w->set.links += !set->links;
    w->set.draw = set->draw ? set->draw : draw_mixed;
    w->seed = test_seed();
    world_profile(&w->profile, set->set);
    if (set->topo)
        fabric_open(w);
    else
        pair_open(w);
    for (uint32_t n = 0; n < w->hosts; n++) {
        emu_dev_again(&w->host[n]->dev);
        emu_dev_wake(&w->host[n]->dev, 0);
    }
}

static inline void world_threads(struct world *w)
{
    for (uint32_t i = 0; i < w->set.workers; i++)
        CU_ASSERT_EQUAL_FATAL(emu_thread_start(&w->thread[i], w->worker[i], "engine-test"), 0);
}

static inline void world_stop_threads(struct world *w)
{
    for (uint32_t i = 0; i < w->set.workers; i++) {
        emu_thread_stop(w->thread[i]);
        w->thread[i] = NULL;
        atomic_store(&w->worker[i]->stop, 0);
    }
}

static inline void world_close(struct world *w)
{
    for (uint32_t n = 0; n < w->hosts; n++)
        emu_link_unjoin(&w->host[n]->tx);
    if (w->fabric)
        fabric_close(w);
    else
        pair_close(w);
    for (uint32_t n = 0; n < w->hosts; n++) {
        free(w->host[n]->marks);
        free(w->host[n]->failures);
        free(w->host[n]);
    }
}

/* --- run ---------------------------------------------------------------------------------------- */

static inline uint64_t host_count(const struct world *w, size_t offset)
{
    uint64_t sum = 0;

    for (uint32_t n = 0; n < w->hosts; n++)
        sum += emu_count_read(
            (const _Atomic uint64_t *)(const void *)((const uint8_t *)w->host[n] + offset));
    return sum;
}

/* Segments that came, or were told as failed. */
static inline uint64_t world_settled(const struct world *w)
{
    return host_count(w, offsetof(struct host, got)) + host_count(w, offsetof(struct host, failed));
}

/* As many as there have to be, if none of a group fails. */
static inline uint64_t world_awaited(const struct world *w)
{
    uint64_t sum = 0;
    struct post post;

    for (uint32_t n = 0; n < w->hosts; n++)
        for (uint64_t i = 0; i < w->host[n]->posts; i++) {
            w->set.draw(w, n, i, &post);
            sum += post.kind == EMU_MULTICAST ? w->hosts - 1 : 1;
        }
    return sum;
}

static inline uint64_t world_count(const struct world *w, size_t offset)
{
    uint64_t sum = 0;

    for (uint32_t n = 0; n < w->hosts; n++)
        sum += emu_count_read((const _Atomic uint64_t *)(const void *)((const uint8_t *)&w->engine[n]
                                                                           ->counts +
                                                                       offset));
    return sum;
}
#define COUNT(w, field) world_count(w, offsetof(struct engine_counts, field))

/* The numbers of what node @n sends to @group. */
static inline struct engine_flow *world_flow(const struct world *w, uint32_t n, uint32_t group)
{
    return &engine_group_of(w->engine[n], group)->flow;
}

/* Virtual. */
static inline void world_advance(struct world *w, uint64_t until_ps)
{
    emu_windows_advance(w->windows, until_ps);
    w->now_ps = until_ps;
}

/*
 * Virtual: turn the clock back, as a fabric on clock real does. Then everybody is stepped: what windows
 * know of times is of the clock before.
 */
static inline void world_turn_back(struct world *w, uint64_t by_ps)
{
    for (uint32_t n = 0; n < w->hosts; n++) {
        struct host *h = w->host[n];

        emu_tx_turn_back(&h->tx, by_ps);
        emu_rx_turn_back(&h->rx, by_ps);
        h->wake_ps = emu_turned_ps(h->wake_ps, by_ps);
        if (!w->fabric)
            engine_turn_back(w->engine[n], by_ps);
    }
    for (uint32_t i = 0; i < w->set.workers && !w->fabric; i++)
        emu_worker_turn_back(w->worker[i], by_ps);
    if (w->fabric)
        fabric_clock_turn_back(w->fabric, by_ps);
    w->now_ps -= by_ps;
    w->base_ps -= by_ps;
    for (uint32_t i = 0; i < w->set.workers; i++)
        for (uint32_t d = 0; d < w->worker[i]->devs; d++)
            emu_dev_wake(w->worker[i]->dev[d], w->now_ps + 1);
}

/* Virtual: until nothing is left to happen, or @limit_ps. */
static inline void world_run(struct world *w, uint64_t limit_ps)
{
    uint64_t next_ps;

    while ((next_ps = emu_windows_next_ps(w->windows)) <= limit_ps && next_ps != EMU_NEVER)
        world_advance(w, next_ps + 1000000 < limit_ps ? next_ps + 1000000 : limit_ps);
}

static inline bool world_idle(const struct world *w)
{
    for (uint32_t n = 0; n < w->hosts; n++)
        if (!engine_idle(w->engine[n]))
            return false;
    return true;
}

/* Raw, by hand: until all is settled and the engines are idle. False: not in so many passes. */
static inline bool world_step(struct world *w, uint64_t awaited, uint32_t passes)
{
    while (passes--) {
        for (uint32_t i = 0; i < w->set.workers; i++)
            emu_worker_pass(w->worker[i]);
        if (world_settled(w) == awaited && world_idle(w))
            return true;
    }
    return false;
}

/* How often post @i of @src is known of at @n, as it should be: settled once, everywhere. */
static inline bool world_once(const struct world *w, uint32_t src, uint64_t i)
{
    uint32_t failures = w->host[src]->failures[i];
    struct post post;
    uint64_t odd = 0;

    w->set.draw(w, src, i, &post);
    for (uint32_t n = 0; n < w->hosts; n++) {
        bool wanted = post.kind == EMU_MULTICAST ? n != src : n == post.dst;

        odd += *host_mark(w->host[n], src, i) + (wanted ? failures : 0) != wanted;
    }
    return !odd;
}

/* Each post came once, or was told as failed once, and all was right. */
static inline bool world_exactly_once(const struct world *w)
{
    uint64_t odd = host_count(w, offsetof(struct host, wrong));

    for (uint32_t n = 0; n < w->hosts; n++)
        for (uint64_t i = 0; i < w->host[n]->posts; i++)
            odd += !world_once(w, n, i);
    if (odd)
        printf("%llu segments were not settled exactly once and right\n", (unsigned long long)odd);
    return !odd;
}

/* Buffers that are in no cache and not in the depot. */
static inline uint32_t world_bufs_held(const struct world *w)
{
    uint32_t free = w->fabric ? w->fabric->cache.count : 0;

    for (uint32_t i = 0; i < w->set.workers; i++)
        free += w->worker[i]->cache.count;
    for (uint32_t at = (uint32_t)atomic_load(&w->pool->depot); at; at = w->pool->chain[at - 1])
        free += EMU_POOL_CHAIN;
    return w->pool->fresh - free;
}

/* What came late, or twice, and was not looked at. */
static inline void world_drop_held(struct world *w)
{
    struct emu_pool_cache *cache = &w->worker[0]->cache;

    for (uint32_t n = 0; n < w->hosts; n++)
        for (uint32_t l = 0; l < w->set.links; l++)
            emu_faults_drop(&w->engine_faults[n][l], cache);
    for (uint32_t f = 0; w->fabric && f < w->graph->switches * w->graph->ports; f++)
        emu_faults_drop(&w->switch_faults[f], cache);
}

/* Everything that fabric_check() knows holds now. */
static inline bool world_holds(struct world *w)
{
    char error[256];

    if (!w->fabric || !fabric_check(w->fabric, w->now_ps, error, sizeof(error)))
        return true;
    printf("%s\n", error);
    return false;
}

/*
 * No engine keeps anything, and every buffer is back: on clock raw, of those on stale channels of
 * switches only when somebody needs these. The threads have ended.
 */
static inline bool world_clean(struct world *w)
{
    bool raw_switches = w->fabric && w->set.clock == EMU_CLOCK_RAW;

    world_drop_held(w);
    if (!raw_switches && !world_holds(w))
        return false;
    if (!raw_switches && world_bufs_held(w)) {
        printf("%u buffers are lost\n", world_bufs_held(w));
        return false;
    }
    for (uint32_t n = 0; n < w->hosts; n++) {
        const char *wrong = engine_check(w->engine[n]);

        if (!wrong && !engine_idle(w->engine[n]))
            wrong = "an engine is not idle";
        if (wrong) {
            printf("node %u: %s\n", n, wrong);
            return false;
        }
    }
    return true;
}

#endif
