/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - what must hold in a whole fabric while its workers stand still.
 */
#include <errno.h>
#include <stdio.h>

#include "apps/fabric/internal.h"

/* --- pool buffers: the pool's accounts against its holders' ------------------------- */

static uint64_t group_held(const struct fabric *fabric, const struct fabric_group *group)
{
    uint64_t held = 0;

    for (uint32_t i = 0; i < group->tree.count; i++)
        held += switch_group_bufs(group->part[i], fabric->config.graph->ports);
    for (uint32_t i = 0; group->member && i < group->knowing; i++)
        held += group->member[i].group ? engine_group_held(group->member[i].group) : 0;
    return held;
}

static uint64_t node_held(const struct fabric *fabric, uint32_t n)
{
    uint64_t held = 0;

    if (fabric->engine[n])
        held += engine_held(fabric->engine[n]);
    if (fabric->edge[n])
        held += emu_edge_bufs(fabric->edge[n]);
    if (fabric->local[n])
        held += emu_link_bufs(fabric->local[n]);
    return held;
}

static uint64_t fabric_held(struct fabric *fabric)
{
    const struct topo_graph *graph = fabric->config.graph;
    uint64_t held = 0;

    for (uint32_t s = 0; s < graph->switches; s++) {
        held += switch_bufs(fabric->sw[s]);
        held += fabric->unit ? engine_held(fabric->unit[s]) : 0;
    }
    for (uint32_t n = 0; n < graph->nodes; n++)
        held += node_held(fabric, n);
    for (uint32_t i = 0; i < fabric->faulty; i++)
        held += emu_faults_bufs(&fabric->faults[i]);
    for (uint32_t g = 0; g < fabric->slots; g++)
        held += fabric->group[g] ? group_held(fabric, fabric->group[g]) : 0;
    for (const struct fabric_group *group = fabric->gone; group; group = group->next)
        held += group_held(fabric, group);
    return held;
}

uint64_t fabric_bufs_out(const struct fabric *fabric)
{
    uint32_t cached = fabric->cache.count;

    for (uint32_t w = 0; w < fabric->workers; w++)
        cached += fabric->worker[w]->cache.count;
    return emu_pool_out(fabric->pool, cached);
}

int fabric_check_bufs(struct fabric *fabric, char *error, size_t error_bytes)
{
    uint64_t out = fabric_bufs_out(fabric), held = fabric_held(fabric);

    if (out == held)
        return 0;
    snprintf(error, error_bytes, "buffers: %llu references are out, and %llu have holders",
             (unsigned long long)out, (unsigned long long)held);
    return -EPROTO;
}

/* --- segments, credits, time -------------------------------------------------------- */

static int check_failed(const char *wrong, const char *where, uint32_t number, uint64_t now_ps,
                        char *error, size_t error_bytes)
{
    snprintf(error, error_bytes, "at %llu ps, %s %u: %s", (unsigned long long)now_ps, where, number,
             wrong);
    return -EPROTO;
}

int fabric_check(struct fabric *fabric, uint64_t now_ps, char *error, size_t error_bytes)
{
    const struct topo_graph *graph = fabric->config.graph;
    const char *wrong;

    for (uint32_t s = 0; s < graph->switches; s++) {
        wrong = switch_check(fabric->sw[s], now_ps);
        if (!wrong)
            wrong = fabric_check_unit(fabric, s);
        if (wrong)
            return check_failed(wrong, "switch", s, now_ps, error, error_bytes);
    }
    for (uint32_t n = 0; n < graph->nodes; n++) {
        wrong = fabric->local[n]
                    ? emu_link_check(fabric->local[n], 0, fabric_host(fabric, n).credits)
                    : NULL;
        if (!wrong && fabric->engine[n])
            wrong = fabric_check_engine(fabric, n);
        if (wrong)
            return check_failed(wrong, "node", n, now_ps, error, error_bytes);
    }
    return fabric_check_bufs(fabric, error, error_bytes);
}
