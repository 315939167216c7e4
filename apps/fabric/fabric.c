/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.c - build a fabric from a network graph: workers, switches, nodes and cables. */
#include "apps/base/amount.h"
#include "apps/fabric/fabric.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/taps.h"
#include "apps/fabric/internal.h"
#include "apps/fabric/comm.h"
#include "apps/base/message.h"
#include "emu/util/random.h"
#include "emu/dev/outbox.h"
#include "emu/dev/rcu.h"

#define FABRIC_SLOTS_LEAST 1024u /* initial number of slots for collective addresses */

/* Create both lists of host interfaces of a worker, with space for all nodes at its switches. */
static int fabric_make_lists(struct fabric *fabric, uint32_t w, const uint32_t *worker_of)
{
    const struct topo_graph *graph = fabric->config.graph;
    uint32_t hostifs = 0;

    for (uint32_t n = 0; n < graph->nodes; n++)
        hostifs += worker_of[topo_first_link(graph, n)->sw] == w;
    for (uint32_t i = 0; i < 2; i++) {
        struct emu_hostif_list *list =
            calloc(1, sizeof *list + hostifs * sizeof(struct emu_hostif *));

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
        uint32_t devs = fabric_host_links(&fabric->config, w, fabric->workers);
        int err;

        for (uint32_t s = 0; s < graph->switches; s++)
            devs += worker_of[s] == w ? 1 + fabric_has_units(&fabric->config) : 0;
        for (uint32_t n = 0; n < graph->nodes; n++)
            if (worker_of[topo_first_link(graph, n)->sw] == w)
                devs += (fabric->config.local_nodes != NULL) + fabric_has_engines(&fabric->config);
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

emu_ports fabric_switch_ups(const struct topo_graph *graph, uint32_t s)
{
    emu_ports ports = EMU_NO_PORTS;

    for (uint32_t p = 0; p < graph->ports; p++) {
        const struct topo_end *end = &graph->sw[s].end[p];

        if (end->kind == TOPO_END_SWITCH && graph->sw[end->id].level > graph->sw[s].level)
            ports |= emu_port(p);
    }
    return ports;
}

static int fabric_make_switches(struct fabric *fabric, const uint32_t *worker_of)
{
    const struct topo_graph *graph = fabric->config.graph;

    for (uint32_t s = 0; s < graph->switches; s++) {
        int err;

        if (worker_of[s] == TOPO_NONE)
            continue; /* on another host */
        err = switch_create(&fabric->sw[s], fabric->worker[worker_of[s]],
                            fabric_switch_ports(&fabric->config), &graph->sw[s].route,
                            &fabric->config.profile, emu_spread(fabric->config.seed) + s + 1);
        if (err)
            return err;
        switch_ups(fabric->sw[s], fabric_switch_ups(graph, s));
    }
    return 0;
}

/* Create a node inside the fabric and join it by a local cable in each direction. */
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
    int err = fabric_has_engines(&fabric->config) ? fabric_plug_engine(fabric, n) : 0;

    if (err)
        return err;
    if (fabric->config.local_nodes)
        return fabric_plug_local(fabric, n);
    host = fabric_host(fabric, n);
    return emu_link_hostif(host.tx, host.rx, host.dev, host.port, host.credits, host.profile);
}

/* Join one direction of a cable that has no link-level retry, between two switches of this host. */
static int fabric_plug_cable(const struct fabric *fabric, struct switch_dev *sw, uint32_t port,
                             struct switch_dev *far, uint8_t far_port)
{
    const struct emu_profile *profile = &fabric->config.profile;
    bool channels = fabric_has_engines(&fabric->config);
    uint32_t credits = fabric_cable_credits(&fabric->config);
    struct emu_dev *from = switch_emu_dev(sw), *to = switch_emu_dev(far);
    struct emu_tx *tx = switch_tx(sw, port);
    struct emu_rx *rx = switch_rx(far, far_port);
    int err;

    if (from->timed && from->worker == to->worker && !channels)
        return emu_link_join_fused(tx, from, (uint8_t)port, rx, to, far_port, credits, profile);
    err = emu_link_join(tx, from, (uint8_t)port, rx, to, far_port, credits, profile);
    return err ? err : emu_link_cross_worker(tx, rx);
}

static int fabric_plug_switch(struct fabric *fabric, uint32_t s)
{
    const struct topo_graph *graph = fabric->config.graph;
    const struct emu_profile *profile = &fabric->config.profile;
    int err = 0;

    for (uint32_t p = 0; !err && p < graph->ports; p++) {
        const struct topo_end *end = &graph->sw[s].end[p];
        struct switch_dev *far;

        if (end->kind != TOPO_END_SWITCH || !fabric->sw[end->id])
            continue;
        far = fabric->sw[end->id];
        if (emu_profile_retries(profile)) {
            err = switch_join_retry(fabric->sw[s], p, far, end->port);
            continue;
        }
        err = fabric_plug_cable(fabric, fabric->sw[s], p, far, end->port);
    }
    return err;
}

static int fabric_plug(struct fabric *fabric)
{
    const struct topo_graph *graph = fabric->config.graph;
    int err = 0;

    for (uint32_t s = 0; !err && s < graph->switches; s++)
        if (fabric->sw[s])
            err = fabric_plug_switch(fabric, s);
    for (uint32_t n = 0; !err && n < graph->nodes; n++)
        if (fabric_has_node(&fabric->config, n))
            err = fabric_plug_node(fabric, n);
    if (!err)
        err = fabric_plug_crossings(fabric);
    for (uint32_t w = 0; !err && w < fabric->workers; w++)
        err = emu_outbox_open(fabric->worker[w]);
    return err ? err : fabric_plug_units(fabric);
}

static int fabric_alloc(struct fabric *fabric)
{
    const struct topo_graph *graph = fabric->config.graph;

    fabric->worker = calloc(fabric->workers, sizeof(struct emu_worker *));
    fabric->list = calloc(2 * fabric->workers, sizeof(struct emu_hostif_list *));
    fabric->sw = calloc(graph->switches, sizeof(struct switch_dev *));
    fabric->hostif = calloc(graph->nodes, sizeof(struct emu_hostif *));
    fabric->mcast_buf = calloc(graph->switches, sizeof(struct emu_mcast_buf *));
    fabric->incarnation = calloc(graph->nodes, sizeof(uint64_t));
    fabric->tree_load = calloc(graph->switches, sizeof *fabric->tree_load);
    fabric->local = calloc(graph->nodes, sizeof(struct emu_rx *));
    fabric->states = calloc(graph->switches, sizeof *fabric->states);
    fabric->group = calloc(FABRIC_GROUPS_MAX, sizeof(struct fabric_group *));
    return fabric->worker && fabric->list && fabric->sw && fabric->hostif && fabric->mcast_buf &&
                   fabric->incarnation && fabric->tree_load && fabric->local && fabric->states &&
                   fabric->group
               ? fabric_engines_create(fabric)
               : -ENOMEM;
}

static int fabric_make_pool(struct fabric *fabric)
{
    uint64_t bufs = fabric_bufs(&fabric->config, fabric->workers) +
                    (fabric->config.hosts ? 2u : 1u) * FABRIC_GROUP_BUFS;

    if (bufs >= EMU_NO_BUF)
        return -EFBIG;
    fabric->pool = emu_pool_create((uint32_t)bufs);
    if (!fabric->pool)
        return -ENOMEM;
    fabric->pool->alone = fabric->workers == 1;
    fabric->spare_bufs = FABRIC_GROUP_BUFS;
    emu_pool_cache_init(&fabric->cache, fabric->pool);
    return 0;
}

/* Create the workers, the switches and the host links. Nothing is joined yet. */
static int fabric_make_devices(struct fabric *fabric)
{
    const struct fabric_hosts *hosts = fabric->config.hosts;
    uint32_t *worker_of = calloc(fabric->config.graph->switches, sizeof *worker_of);
    int err = worker_of ? 0 : -ENOMEM;

    if (!err) {
        topo_partition_of_host(fabric->config.graph, hosts ? hosts->of : NULL,
                               hosts ? hosts->self : 0, fabric->workers, worker_of);
        err = fabric_make_workers(fabric, worker_of);
    }
    if (!err)
        err = fabric_make_switches(fabric, worker_of);
    if (!err)
        err = fabric_make_host_links(fabric);
    free(worker_of);
    return err;
}

static int fabric_build(struct fabric *fabric)
{
    static int (*const steps[])(struct fabric *) = {fabric_alloc,        fabric_make_pool,
                                                    fabric_make_cables,  fabric_make_devices,
                                                    fabric_plug,         fabric_rate_cables,
                                                    fabric_fault_cables, fabric_drive_start};
    int err = 0;

    for (size_t i = 0; !err && i < sizeof steps / sizeof steps[0]; i++)
        err = steps[i](fabric);
    return err;
}

static int build_failed(const struct fabric_config *config, int err, char *error,
                        size_t error_bytes)
{
    const char *limit = err == -EMFILE ? "open files (ulimit -n)" : "processes (ulimit -u)";

    if (err == -EAGAIN || err == -EMFILE)
        return fail(err, error, error_bytes,
                    "cannot start %u thread%s: %s; use --threads N with a smaller N, or raise "
                    "the limit on %s",
                    fabric_worker_count(config), plural_s(fabric_worker_count(config)),
                    strerror(-err), limit);
    return fail(err, error, error_bytes, "cannot build the fabric: %s; try a smaller --topo%s",
                strerror(-err), err == -ENOMEM ? ", or raise the limit of memory (ulimit -v)" : "");
}

int fabric_start(struct fabric **ret, const struct fabric_config *config, char *error,
                 size_t error_bytes)
{
    struct fabric *fabric;
    int err = fabric_check_config(config, error, error_bytes);

    if (err)
        return err;
    fabric = calloc(1, sizeof *fabric);
    if (!fabric)
        return build_failed(config, -ENOMEM, error, error_bytes);
    fabric->config = *config;
    fabric->config.bounds = emu_bounds_filled(config->bounds);
    fabric->links.routed = config->graph;
    fabric->config.profile = fabric->inward = fabric_profile_on(config);
    fabric->inward.switch_ps = emu_profile_node_ps(&fabric->config.profile);
    fabric->workers = fabric_worker_count(config);
    fabric->slots = FABRIC_SLOTS_LEAST;
    fabric_clock_start(fabric);
    fabric_drive_choose(fabric);
    fabric->generation = config->first % FABRIC_GENERATIONS;
    fabric->hostifs = config->first;
    err = fabric_build(fabric);
    if (err) {
        fabric_stop(fabric);
        return build_failed(config, err, error, error_bytes);
    }
    *ret = fabric;
    return 0;
}

static void fabric_free_tables(struct fabric *fabric)
{
    void *const tables[] = {
        fabric->worker,      fabric->list,  fabric->sw,        fabric->hostif,
        fabric->incarnation, fabric->group, fabric->tree_load, fabric->local,
        fabric->states,      fabric->moved, fabric->mcast_buf,
    };

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        free(tables[i]);
}

void fabric_stop(struct fabric *fabric)
{
    if (!fabric)
        return;
    fabric_drive_stop(fabric);
    fabric->stopped = true;
    fabric_capture_stop(fabric);
    for (uint32_t g = 0; fabric->group && g < fabric->slots; g++)
        fabric_group_free(fabric, fabric->group[g]);
    fabric_groups_sweep(fabric);
    fabric_comm_stop(fabric);
    for (uint32_t n = 0; fabric->hostif && n < fabric->config.graph->nodes; n++)
        emu_hostif_destroy(fabric->hostif[n], &fabric->cache);
    for (uint32_t s = 0; fabric->mcast_buf && s < fabric->config.graph->switches; s++)
        emu_mcast_buf_drop(fabric->mcast_buf[s]);
    fabric_free_cables(fabric);
    fabric_engines_destroy(fabric);
    for (uint32_t s = 0; fabric->sw && s < fabric->config.graph->switches; s++)
        switch_destroy(fabric->sw[s]);
    fabric_free_host_links(fabric);
    for (uint32_t w = 0; fabric->worker && w < fabric->workers; w++)
        emu_worker_destroy(fabric->worker[w]);
    emu_pool_destroy(fabric->pool);
    for (uint32_t i = 0; fabric->list && i < 2 * fabric->workers; i++)
        free(fabric->list[i]);
    fabric_free_tables(fabric);
    free(fabric);
}

struct emu_worker *fabric_worker(struct fabric *fabric, uint32_t i)
{
    return fabric->worker[i];
}

uint32_t fabric_threads(const struct fabric *fabric)
{
    return fabric->workers;
}
