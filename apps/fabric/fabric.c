/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c - assembles a graph into switches, cables and workers.
 *
 * The manager's operations on the running fabric stand in fabric/nodes.c
 * (processes come and go) and fabric/groups.c (collective trees).
 */
#include "apps/fabric/fabric.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "apps/fabric/internal.h"
#include "emu/random.h"
#include "emu/worker/rcu.h"

#define FABRIC_AUTO_WORKERS_MAX 8u
#define FABRIC_WINDOW_SWITCHES  16u /* clock virtual: a worker has no fewer */
/* for nodes inside the fabric, if they send payload at all */
#define FABRIC_LOCAL_BUFS  (1u << 20)
#define FABRIC_SLOTS_LEAST 1024u /* collective addresses that are used by turns */

/*
 * A quarter of the cores steps the fabric; the rest is for the processes that use it. In simulated
 * time there are none, but a window must be worth the meeting after it.
 */
static uint32_t fabric_auto_workers(const struct fabric_config *config)
{
    uint32_t cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t most = config->graph->switches;
    uint32_t workers = cores / 4;

    if (config->clock == EMU_CLOCK_VIRTUAL) {
        workers = cores;
        most /= FABRIC_WINDOW_SWITCHES;
    }
    if (workers > most)
        workers = most;
    if (workers > FABRIC_AUTO_WORKERS_MAX)
        workers = FABRIC_AUTO_WORKERS_MAX;
    return workers ? workers : 1;
}

static uint32_t fabric_worker_count(const struct fabric_config *config)
{
    uint32_t switches = config->graph->switches;

    if (config->threads == FABRIC_THREADS_AUTO)
        return fabric_auto_workers(config);
    if (config->threads == FABRIC_THREADS_DEVICE || config->threads > switches)
        return switches;
    return config->threads;
}

/*
 * Buffers: what all switches, edges and workers' caches can hold at once.
 * Beyond these the pool has FABRIC_GROUP_BUFS for partial results, which groups
 * set aside when they are made. Reserved, not touched: memory follows use.
 */
static uint64_t fabric_bufs(const struct fabric_config *config, uint32_t workers)
{
    const struct topo_graph *graph = config->graph;

    uint64_t bufs = (uint64_t)(workers + 1) * 3 * EMU_POOL_CHAIN;

    if (fabric_acknowledged(config))
        for (uint32_t n = 0; n < graph->nodes; n++)
            bufs += engine_bufs(graph->node[n].links, &config->profile);
    if (fabric_has_units(config))
        bufs += (uint64_t)graph->switches * engine_bufs(1, &config->profile);
    if (config->local_nodes) /* they send as long as there are buffers */
        return bufs + FABRIC_LOCAL_BUFS;
    return bufs +
           (uint64_t)graph->switches *
               switch_segments(fabric_switch_ports(config), &config->profile) +
           (uint64_t)graph->nodes * EMU_EDGE_BATCH;
}

/*
 * The profile as the clock runs it: where threads may have to wait for a core, time-outs are
 * longer.
 */
static struct emu_profile fabric_profile(const struct fabric_config *config)
{
    struct emu_profile profile = config->profile;

    if (config->clock == EMU_CLOCK_RAW)
        profile = emu_profile_for_raw(&config->profile);
    if (config->clock != EMU_CLOCK_VIRTUAL && profile.reply_timeout_ps < EMU_PATIENCE_PS)
        profile.reply_timeout_ps = EMU_PATIENCE_PS;
    return profile;
}

/* Room for the edges of all nodes whose switch worker @w steps. */
static int fabric_make_lists(struct fabric *fabric, uint32_t w, const uint32_t *worker_of)
{
    const struct topo_graph *graph = fabric->config.graph;
    uint32_t edges = 0;

    for (uint32_t n = 0; n < graph->nodes; n++)
        edges += worker_of[fabric_node_link(graph, n)->sw] == w;
    for (uint32_t i = 0; i < 2; i++) {
        struct emu_edge_list *list = calloc(1, sizeof *list + edges * sizeof(struct emu_edge *));

        if (!list)
            return -ENOMEM;
        fabric->list[2 * w + i] = list;
    }
    return 0;
}

static int fabric_make_workers(struct fabric *fabric, const uint32_t *worker_of)
{
    const struct topo_graph *graph = fabric->config.graph;

    for (uint32_t w = 0; w < fabric->workers; w++) {
        uint32_t devs = 0;
        int err;

        for (uint32_t s = 0; s < graph->switches; s++)
            devs += worker_of[s] == w ? 1 + fabric_has_units(&fabric->config) : 0;
        for (uint32_t n = 0; n < graph->nodes; n++)
            if (worker_of[fabric_node_link(graph, n)->sw] == w)
                devs += (fabric->config.local_nodes != NULL) + fabric_acknowledged(&fabric->config);
        err = emu_worker_create(&fabric->worker[w], devs, &fabric->clock, fabric->pool);
        if (err)
            return err;
        fabric->worker[w]->index = w;
        err = fabric_make_lists(fabric, w, worker_of);
        if (err)
            return err;
    }
    return 0;
}

static int fabric_make_switches(struct fabric *fabric, const uint32_t *worker_of)
{
    const struct topo_graph *graph = fabric->config.graph;

    for (uint32_t s = 0; s < graph->switches; s++) {
        int err = switch_create(&fabric->sw[s], fabric->worker[worker_of[s]],
                                fabric_switch_ports(&fabric->config), &graph->sw[s].route,
                                &fabric->config.profile, emu_spread(fabric->config.seed) + s + 1);

        if (err)
            return err;
    }
    return 0;
}

/* A node inside the fabric: a local cable each way. */
static int fabric_plug_local(struct fabric *fabric, uint32_t n)
{
    const struct fabric_node_ops *ops = fabric->config.local_nodes;
    struct fabric_host host = fabric_host(fabric, n);
    struct emu_dev *dev;
    struct emu_tx *tx;
    struct emu_rx *rx;
    int err;

    err = ops->create(ops->ctx, n, host.dev->worker, &dev, &tx, &rx);
    if (err)
        return err;
    err = emu_link_join(tx, dev, 0, host.rx, host.dev, host.port, host.credits, host.profile);
    if (err)
        return err;
    fabric->local[n] = rx;
    return emu_link_join(host.tx, host.dev, host.port, rx, dev, 0, host.credits, host.inward);
}

static int fabric_plug_node(struct fabric *fabric, uint32_t n)
{
    struct fabric_host host;
    int err = fabric_acknowledged(&fabric->config) ? fabric_plug_engine(fabric, n) : 0;

    if (err)
        return err;
    if (fabric->config.local_nodes)
        return fabric_plug_local(fabric, n);
    host = fabric_host(fabric, n);
    return emu_link_edge(host.tx, host.rx, host.dev, host.port, host.credits, host.profile);
}

static int fabric_plug_switch(struct fabric *fabric, uint32_t s)
{
    const struct topo_graph *graph = fabric->config.graph;
    const struct emu_profile *profile = &fabric->config.profile;
    uint32_t credits = fabric_acknowledged(&fabric->config) ? EMU_VC_SLOTS
                                                            : emu_profile_credits(profile);
    int err = 0;

    for (uint32_t p = 0; !err && p < graph->ports; p++) {
        const struct topo_end *end = &graph->sw[s].end[p];
        struct switch_dev *far;

        if (end->kind != TOPO_END_SWITCH)
            continue;
        far = fabric->sw[end->id];
        err = emu_link_join(switch_tx(fabric->sw[s], p), switch_emu_dev(fabric->sw[s]), (uint8_t)p,
                            switch_rx(far, end->port), switch_emu_dev(far), end->port, credits,
                            profile);
    }
    return err;
}

static int fabric_plug(struct fabric *fabric)
{
    const struct topo_graph *graph = fabric->config.graph;
    int err = 0;

    for (uint32_t s = 0; !err && s < graph->switches; s++)
        err = fabric_plug_switch(fabric, s);
    for (uint32_t n = 0; !err && n < graph->nodes; n++)
        err = fabric_plug_node(fabric, n);
    return err ? err : fabric_plug_units(fabric);
}

static int fabric_run_workers(struct fabric *fabric)
{
    if (fabric->config.clock == EMU_CLOCK_VIRTUAL)
        return emu_windows_create(&fabric->windows, fabric->worker, fabric->workers,
                                  emu_profile_lookahead_ps(&fabric->config.profile));
    for (uint32_t w = 0; w < fabric->workers && !fabric->config.start_stopped; w++) {
        char name[16];
        int err;

        snprintf(name, sizeof name, "fab-worker-%u", w % 10000);
        err = emu_thread_start(&fabric->thread[w], fabric->worker[w], name);
        if (err)
            return err;
    }
    return 0;
}

static int fabric_alloc(struct fabric *fabric)
{
    const struct topo_graph *graph = fabric->config.graph;
    uint64_t bufs;

    fabric->worker = calloc(fabric->workers, sizeof(struct emu_worker *));
    fabric->thread = calloc(fabric->workers, sizeof(struct emu_thread *));
    fabric->list = calloc(2 * fabric->workers, sizeof(struct emu_edge_list *));
    fabric->sw = calloc(graph->switches, sizeof(struct switch_dev *));
    fabric->engine = calloc(graph->nodes, sizeof(struct engine *));
    fabric->edge = calloc(graph->nodes, sizeof(struct emu_edge *));
    fabric->seat = calloc(graph->nodes, sizeof(uint64_t));
    fabric->local = calloc(graph->nodes, sizeof(struct emu_rx *));
    fabric->tree_load = calloc(graph->switches, sizeof *fabric->tree_load);
    fabric->states = calloc(graph->switches, sizeof *fabric->states);
    fabric->group = calloc(FABRIC_GROUPS_MAX, sizeof(struct fabric_group *));
    fabric->spare_bufs = FABRIC_GROUP_BUFS;
    bufs = fabric_bufs(&fabric->config, fabric->workers) + FABRIC_GROUP_BUFS;
    if (bufs >= EMU_NO_BUF)
        return -EFBIG;
    fabric->pool = emu_pool_create((uint32_t)bufs);
    if (!fabric->worker || !fabric->thread || !fabric->list || !fabric->sw || !fabric->engine ||
        !fabric->edge || !fabric->seat || !fabric->local || !fabric->tree_load || !fabric->states ||
        !fabric->group || !fabric->pool)
        return -ENOMEM;
    emu_pool_cache_init(&fabric->cache, fabric->pool);
    return 0;
}

static int fabric_build(struct fabric *fabric)
{
    uint32_t *worker_of = calloc(fabric->config.graph->switches, sizeof *worker_of);
    int err = worker_of ? fabric_alloc(fabric) : -ENOMEM;

    if (!err) {
        topo_partition(fabric->config.graph, fabric->workers, worker_of);
        err = fabric_make_workers(fabric, worker_of);
    }
    if (!err)
        err = fabric_make_switches(fabric, worker_of);
    if (!err)
        err = fabric_plug(fabric);
    if (!err)
        err = fabric_fault_cables(fabric);
    if (!err)
        err = fabric_run_workers(fabric);
    free(worker_of);
    return err;
}

/* Has each node a link, and no more than its adapter? */
static int check_links(const struct fabric_config *config, char *error, size_t error_bytes)
{
    for (uint32_t n = 0; n < config->graph->nodes; n++) {
        const struct topo_node *node = &config->graph->node[n];
        uint32_t cut = 0;

        for (uint32_t i = 0; i < node->links; i++)
            cut += node->link[i].sw == TOPO_NONE;
        if (cut == node->links) {
            snprintf(error, error_bytes, "node %u has no link into the network", n);
            return -EINVAL;
        }
        if (node->links > 1 && !fabric_acknowledged(config)) {
            snprintf(error, error_bytes,
                     "node %u has %u links into the network; without acknowledgments an adapter "
                     "has one: use transport=acknowledged (profile qsnet3), or a network with "
                     "links=1 and rails=1",
                     n, node->links);
            return -EINVAL;
        }
    }
    return 0;
}

/* Can the edges of processes be made at all? They are files, in memory. */
static int check_files(const struct fabric_config *config, char *error, size_t error_bytes)
{
    size_t edge_bytes = emu_edge_bytes(config->graph->nodes);
    struct rlimit most;

    if (config->local_nodes || getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur >= edge_bytes)
        return 0;
    snprintf(error, error_bytes,
             "a file can have %llu bytes here, and what a process attaches by takes "
             "%zu: raise the limit of file sizes (ulimit -f)",
             (unsigned long long)most.rlim_cur, edge_bytes);
    return -EFBIG;
}

/* Does the profile suit the clock and the nodes, and do the nodes suit their adapters? */
static int fabric_check_config(const struct fabric_config *config, char *error, size_t error_bytes)
{
    struct emu_profile profile = fabric_profile(config);

    int err = check_links(config, error, error_bytes);

    if (!err)
        err = check_files(config, error, error_bytes);
    if (err)
        return err;
    if (config->clock == EMU_CLOCK_VIRTUAL && !emu_profile_lookahead_ps(&profile)) {
        snprintf(error, error_bytes,
                 "clock virtual needs credit_ps, and channel_ps + switch_ps, "
                 "above 0");
        return -EINVAL;
    }
    if (!switch_has_clock(&profile, config->clock != EMU_CLOCK_RAW)) {
        snprintf(error, error_bytes,
                 "buffers=input has an arbiter that works in time slots, and "
                 "clock raw has no time: use real or virtual, or buffers=xpoint");
        return -EINVAL;
    }
    if (fabric_switch_ports(config) + profile.combine_units > SWITCH_ROWS_MAX ||
        switch_segments(fabric_switch_ports(config), &profile) > SWITCH_SEGMENTS_MAX) {
        snprintf(error, error_bytes,
                 "a switch of %u ports and %u combine units would hold %u "
                 "segments; it can have %u ports and units, and hold %u: lower "
                 "combine_units, xpoint_slots, raw_xpoint_slots or input_slots",
                 config->graph->ports, profile.combine_units,
                 switch_segments(fabric_switch_ports(config), &profile), SWITCH_ROWS_MAX,
                 SWITCH_SEGMENTS_MAX);
        return -EINVAL;
    }
    if (fabric_acknowledged(config) && fabric_engine_numbers(config) > ENGINE_NODES_MAX) {
        snprintf(error, error_bytes,
                 "with transport=acknowledged a network can have %u nodes, and "
                 "with combining=switch as many nodes and switches together",
                 ENGINE_NODES_MAX);
        return -EINVAL;
    }
    if (fabric_acknowledged(config) && emu_vc_slots(&profile) > EMU_VC_SLOTS) {
        snprintf(error, error_bytes,
                 "channels=%u and pool_slots=%u are too many for a link: with %u "
                 "channels it can have %u slots in its pool",
                 profile.channels, profile.pool_slots, profile.channels,
                 EMU_VC_SLOTS - (emu_vc_slots(&profile) - profile.pool_slots));
        return -EINVAL;
    }
    if (fabric_has_units(config) && fabric_switch_ports(config) > TOPO_PORTS_MAX) {
        snprintf(error, error_bytes,
                 "combining=switch takes a port of each switch: they can have %u, "
                 "and these have %u",
                 TOPO_PORTS_MAX - 1, config->graph->ports);
        return -EINVAL;
    }
    if (!config->local_nodes && emu_profile_credits(&profile) > EMU_XPOINT_MAX) {
        snprintf(error, error_bytes,
                 "input_slots=%u is for networks without processes; with them "
                 "it can be 1 to %u",
                 profile.input_slots, EMU_XPOINT_MAX);
        return -EINVAL;
    }
    return 0;
}

int fabric_start(struct fabric **ret, const struct fabric_config *config, char *error,
                 size_t error_bytes)
{
    struct fabric *fabric;
    int err = fabric_check_config(config, error, error_bytes);

    if (err)
        return err;
    err = -ENOMEM;
    fabric = calloc(1, sizeof *fabric);
    if (!fabric)
        goto failed;
    fabric->config = *config;
    fabric->config.profile = fabric->inward = fabric_profile(config);
    fabric->inward.switch_ps = emu_profile_node_ps(&fabric->config.profile);
    fabric->workers = fabric_worker_count(config);
    fabric->slots = FABRIC_SLOTS_LEAST;
    fabric_clock_start(fabric);
    fabric->generation = config->first % FABRIC_GENERATIONS;
    fabric->edges = config->first;
    err = fabric_build(fabric);
    if (err) {
        fabric_stop(fabric);
        goto failed;
    }
    *ret = fabric;
    return 0;

failed:
    if (err == -EAGAIN)
        snprintf(
            error, error_bytes,
            "cannot start %u threads: %s; use --threads N with a smaller N, or raise the limit of "
            "processes (ulimit -u)",
            fabric_worker_count(config), strerror(-err));
    else if (err == -EMFILE)
        snprintf(error, error_bytes,
                 "cannot start %u threads: %s; use --threads N with a smaller N, or "
                 "raise the limit of open files (ulimit -n)",
                 fabric_worker_count(config), strerror(-err));
    else
        snprintf(error, error_bytes, "cannot build the fabric: %s; try a smaller --topo%s",
                 strerror(-err),
                 err == -ENOMEM ? ", or raise the limit of memory (ulimit -v)" : "");
    return err;
}

void fabric_stop(struct fabric *fabric)
{
    if (!fabric)
        return;
    emu_windows_destroy(fabric->windows);
    for (uint32_t w = 0; fabric->thread && w < fabric->workers; w++)
        emu_thread_stop(fabric->thread[w]);
    fabric->stopped = true;
    for (uint32_t g = 0; fabric->group && g < fabric->slots; g++)
        fabric_group_free(fabric, fabric->group[g]);
    fabric_groups_sweep(fabric);
    for (uint32_t n = 0; fabric->edge && n < fabric->config.graph->nodes; n++)
        emu_edge_destroy(fabric->edge[n], &fabric->cache);
    fabric_unfault_cables(fabric);
    fabric_free_units(fabric);
    for (uint32_t n = 0; fabric->engine && n < fabric->config.graph->nodes; n++)
        engine_destroy(fabric->engine[n]);
    for (uint32_t s = 0; fabric->sw && s < fabric->config.graph->switches; s++)
        switch_destroy(fabric->sw[s]);
    for (uint32_t w = 0; fabric->worker && w < fabric->workers; w++)
        emu_worker_destroy(fabric->worker[w]);
    emu_pool_destroy(fabric->pool);
    free(fabric->group);
    free(fabric->states);
    free(fabric->tree_load);
    free(fabric->local);
    free(fabric->edge);
    free(fabric->seat);
    free(fabric->engine);
    free(fabric->sw);
    for (uint32_t i = 0; fabric->list && i < 2 * fabric->workers; i++)
        free(fabric->list[i]);
    free(fabric->list);
    free(fabric->thread);
    free(fabric->worker);
    free(fabric);
}

void fabric_advance(struct fabric *fabric, uint64_t until_ps)
{
    emu_windows_advance(fabric->windows, until_ps);
}

uint64_t fabric_next_ps(struct fabric *fabric)
{
    return emu_windows_next_ps(fabric->windows);
}

struct emu_worker *fabric_worker(struct fabric *fabric, uint32_t i)
{
    return fabric->worker[i];
}

uint32_t fabric_threads(const struct fabric *fabric)
{
    return fabric->workers;
}

void fabric_bytes(const struct fabric_config *config, struct fabric_bytes *ret)
{
    const struct topo_graph *graph = config->graph;
    struct emu_profile profile = fabric_profile(config);
    uint64_t buf = sizeof(uint16_t) + 2 * sizeof(uint32_t); /* beside the payload itself */
    uint64_t nodes = graph->nodes * (sizeof(struct emu_edge *) + sizeof(struct engine *));

    ret->per_switch = switch_bytes(fabric_switch_ports(config), &profile) +
                      sizeof(struct switch_dev *) + sizeof(uint32_t) * 2;
    if (fabric_has_units(config))
        ret->per_switch += engine_bytes(1, &profile);
    for (uint32_t n = 0; fabric_acknowledged(config) && n < graph->nodes; n++)
        nodes += engine_bytes(graph->node[n].links, &profile);
    ret->per_attached_node = sizeof(struct emu_edge) + emu_edge_bytes(graph->nodes);
    ret->total = graph->switches * ret->per_switch + graph->bytes + nodes + sizeof(struct fabric) +
                 FABRIC_GROUPS_MAX * sizeof(struct fabric_group *) +
                 fabric_worker_count(config) * (sizeof(struct emu_worker) + EMU_POOL_CHAIN * buf);
    ret->per_idle_node = ret->total / graph->nodes;
}
