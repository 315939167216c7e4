/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts.c - see hosts.h: how it is made and taken apart, and how time goes on. */
#include "tests/world/engine/hosts.h"

#include <string.h>

#include "nic/engine/internal.h"
#include "switch/channel/channel.h"
#include "tests/test.h"

/* --- back to back ------------------------------------------------------------------- */

/* Engine n and its host on worker n, as far as there are so many: hosts on the last. */
static void pair_node(struct hosts *w, uint32_t n)
{
    uint32_t workers = w->set.workers;
    struct emu_worker *at = w->worker[n % workers];
    struct host *h = hosts_host(w, n, w->worker[workers == 3 ? 2 : n % workers]);
    struct engine_config config = {.profile = &w->profile,
                                   .node = n,
                                   .nodes = w->hosts,
                                   .links = w->set.links,
                                   .seed = w->seed,
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

static void pair_group(struct hosts *w, uint32_t n)
{
    const struct engine_group_config config = {.id = w->group,
                                               .sources = w->hosts,
                                               .parent = ENGINE_NO_NODE};
    void *old;

    CU_ASSERT_EQUAL_FATAL(engine_group_create(&w->member[n], &config), 0);
    CU_ASSERT_EQUAL_FATAL(engine_groups_set(w->engine[n], w->member[n], &old), 0);
    free(old);
}

static void pair_cables(struct hosts *w)
{
    for (uint8_t l = 0; l < w->set.links; l++)
        for (uint32_t n = 0; n < w->hosts; n++) {
            struct engine *from = w->engine[n], *to = w->engine[1 - n];

            CU_ASSERT_EQUAL_FATAL(emu_link_join(engine_tx(from, l), engine_emu_dev(from), l,
                                                engine_rx(to, l), engine_emu_dev(to), l,
                                                emu_vc_ring(&w->profile), &w->profile),
                                  0);
            emu_faults_init(&w->engine_faults[1 - n][l], &w->set.faults,
                            w->seed + n * 64 + l + 1000);
            if (!w->set.only_one_bad || n == 0)
                engine_faults(to, l, &w->engine_faults[1 - n][l]);
        }
}

static void pair_open(struct hosts *w)
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
                                                 emu_profile_lookahead_ps(&w->profile), NULL),
                              0);
}

static void pair_close(struct hosts *w)
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

/* --- a fabric ----------------------------------------------------------------------- */

static int fabric_host_create(void *ctx, uint32_t node, struct emu_worker *worker,
                              struct emu_dev **dev, struct emu_tx **tx, struct emu_rx **rx)
{
    struct host *h = hosts_host(ctx, node, worker);

    *dev = &h->dev;
    *tx = &h->tx;
    *rx = &h->rx;
    return 0;
}

static void fabric_cables(struct hosts *w)
{
    uint32_t ports = w->graph->ports;

    w->switch_faults = calloc(w->graph->switches * ports, sizeof *w->switch_faults);
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
        engine_faults(fabric_engine(w->fabric, n), 0, &w->engine_faults[n][0]);
    }
}

static void fabric_open(struct hosts *w)
{
    struct fabric_config config = {.clock = w->set.clock,
                                   .threads = w->set.workers,
                                   .profile = w->profile,
                                   .seed = w->seed,
                                   .start_stopped = true,
                                   .local_nodes = &w->ops};
    uint32_t nodes[HOSTS_MAX];

    w->ops = (struct fabric_node_ops){.create = fabric_host_create, .ctx = w};
    w->fabric = world_fabric_start(&w->graph, w->set.topo, HOSTS_MAX, &config);
    w->hosts = w->graph->nodes;
    w->set.workers = fabric_threads(w->fabric);
    CU_ASSERT_TRUE_FATAL(w->set.workers <= HOSTS_WORKERS);
    for (uint32_t i = 0; i < w->set.workers; i++)
        w->worker[i] = w->fabric->worker[i];
    for (uint32_t n = 0; n < w->hosts; n++)
        w->engine[n] = fabric_engine(w->fabric, n);
    w->windows = fabric_is_virtual(w->fabric) ? w->fabric->drive.windows : NULL;
    w->pool = w->fabric->pool;
    fabric_cables(w);
    w->group = world_multicast(w->fabric, nodes, world_nodes(nodes, w->hosts));
}

static void fabric_close(struct hosts *w)
{
    fabric_stop(w->fabric);
    topo_free(w->graph);
    free(w->switch_faults);
}

/* --- either ------------------------------------------------------------------------- */

void hosts_begin(struct hosts *w, const struct hosts_config *set)
{
    memset(w, 0, sizeof *w);
    w->set = *set;
    w->set.workers += !set->workers;
    w->set.links += !set->links;
    w->set.draw = set->draw ? set->draw : hosts_draw_mixed;
    w->seed = test_seed();
    world_profile(&w->profile, "qsnet3", set->set);
    if (set->topo)
        fabric_open(w);
    else
        pair_open(w);
    for (uint32_t n = 0; n < w->hosts; n++) {
        emu_dev_again(&w->host[n]->dev);
        emu_dev_wake(&w->host[n]->dev, 0);
    }
}

void hosts_threads(struct hosts *w)
{
    for (uint32_t i = 0; i < w->set.workers; i++)
        CU_ASSERT_EQUAL_FATAL(emu_thread_start(&w->thread[i], w->worker[i], "engine-test"), 0);
}

void hosts_threads_stop(struct hosts *w)
{
    world_threads_stop(w->thread, w->worker, w->set.workers);
}

void hosts_end(struct hosts *w)
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

struct engine_flow *hosts_flow(const struct hosts *w, uint32_t n, uint32_t group)
{
    return &engine_group_of(w->engine[n], group)->flow;
}

void hosts_advance(struct hosts *w, uint64_t until_ps)
{
    emu_windows_advance(w->windows, until_ps);
    w->now_ps = until_ps;
}

void hosts_rebase(struct hosts *w, uint64_t by_ps)
{
    for (uint32_t n = 0; n < w->hosts; n++) {
        struct host *h = w->host[n];

        emu_tx_rebase(&h->tx, by_ps);
        emu_rx_rebase(&h->rx, by_ps);
        h->wake_ps = emu_rebased_ps(h->wake_ps, by_ps);
        if (!w->fabric)
            engine_rebase(w->engine[n], by_ps);
    }
    for (uint32_t i = 0; i < w->set.workers && !w->fabric; i++)
        emu_worker_rebase(w->worker[i], by_ps);
    if (w->fabric)
        fabric_clock_rebase(w->fabric, by_ps);
    w->now_ps -= by_ps;
    w->base_ps -= by_ps;
    for (uint32_t i = 0; i < w->set.workers; i++)
        for (uint32_t d = 0; d < w->worker[i]->devs; d++)
            emu_dev_wake(w->worker[i]->dev[d], w->now_ps + 1);
}

void hosts_run(struct hosts *w, uint64_t limit_ps)
{
    uint64_t next_ps;

    while ((next_ps = emu_windows_next_ps(w->windows)) <= limit_ps && next_ps != EMU_NEVER)
        hosts_advance(w, next_ps + 1000000 < limit_ps ? next_ps + 1000000 : limit_ps);
}

bool hosts_step(struct hosts *w, uint64_t awaited, uint32_t passes)
{
    while (passes--) {
        for (uint32_t i = 0; i < w->set.workers; i++)
            emu_worker_pass(w->worker[i]);
        if (hosts_settled(w) == awaited && hosts_idle(w))
            return true;
    }
    return false;
}
