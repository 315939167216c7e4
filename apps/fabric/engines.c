/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engines.c - what stands between a node and its switch where packets are acknowledged.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/bits.h"
#include "emu/random.h"

struct fabric_host fabric_host(const struct fabric *fabric, uint32_t node)
{
    const struct topo_link *at = fabric_node_link(fabric->config.graph, node);
    struct engine *engine = fabric->engine[node];
    struct switch_dev *sw = fabric->sw[at->sw];

    if (engine)
        return (struct fabric_host){.dev = engine_emu_dev(engine),
                                    .tx = engine_tx(engine, ENGINE_HOST),
                                    .rx = engine_rx(engine, ENGINE_HOST),
                                    .port = ENGINE_HOST,
                                    .credits = fabric->config.local_nodes ? ENGINE_LOCAL_CREDITS
                                                                          : ENGINE_EDGE_CREDITS,
                                    .profile = engine_host_profile(engine),
                                    .inward = engine_host_profile(engine)};
    return (struct fabric_host){.dev = switch_emu_dev(sw),
                                .tx = switch_tx(sw, at->port),
                                .rx = switch_rx(sw, at->port),
                                .port = at->port,
                                .credits = emu_profile_credits(&fabric->config.profile),
                                .profile = &fabric->config.profile,
                                .inward = &fabric->inward};
}

int fabric_join_engine(struct engine *engine, uint8_t link, struct switch_dev *sw, uint8_t port,
                       const struct emu_profile *profile)
{
    struct emu_dev *sw_dev = switch_emu_dev(sw), *dev = engine_emu_dev(engine);
    int err = emu_link_join(engine_tx(engine, link), dev, link, switch_rx(sw, port), sw_dev, port,
                            EMU_VC_SLOTS, profile);

    return err ? err
               : emu_link_join(switch_tx(sw, port), sw_dev, port, engine_rx(engine, link), dev,
                               link, EMU_VC_SLOTS, profile);
}

int fabric_plug_engine(struct fabric *fabric, uint32_t n)
{
    const struct topo_graph *graph = fabric->config.graph;
    const struct topo_node *node = &graph->node[n];
    struct switch_dev *sw = fabric->sw[fabric_node_link(graph, n)->sw];
    struct engine_config config = {.profile = &fabric->config.profile,
                                   .node = n,
                                   .nodes = fabric_engine_numbers(&fabric->config),
                                   .links = node->links,
                                   .seed = fabric->config.seed,
                                   .first_seq = fabric->config.first};
    struct engine *engine;
    int err;

    for (uint32_t i = 0; i < node->links; i++)
        if (node->link[i].sw == TOPO_NONE)
            config.cut |= emu_bit(i);
    err = engine_create(&engine, switch_emu_dev(sw)->worker, &config);
    if (err)
        return err;
    fabric->engine[n] = engine;
    for (uint8_t i = 0; !err && i < node->links; i++)
        if (node->link[i].sw != TOPO_NONE)
            err = fabric_join_engine(engine, i, fabric->sw[node->link[i].sw], node->link[i].port,
                                     &fabric->config.profile);
    return err;
}

const char *fabric_check_engine(const struct fabric *fabric, uint32_t n)
{
    const struct topo_node *node = &fabric->config.graph->node[n];
    const char *wrong = engine_check(fabric->engine[n]);

    for (uint32_t i = 0; !wrong && i < node->links; i++)
        if (node->link[i].sw != TOPO_NONE)
            wrong = switch_check_cable(fabric->sw[node->link[i].sw], node->link[i].port,
                                       engine_vcs(fabric->engine[n], i), NULL);
    return wrong;
}

/* --- faults ------------------------------------------------------------------------- */

/* Those of the next direction of a cable: the seed and the order of the cables decide. */
static struct emu_faults *faults_next(struct fabric *fabric)
{
    struct emu_faults *faults = &fabric->faults[fabric->faulty++];

    emu_faults_init(faults, fabric->config.faults,
                    emu_spread(fabric->config.seed + fabric->faulty));
    return faults;
}

int fabric_fault_cables(struct fabric *fabric)
{
    const struct topo_graph *graph = fabric->config.graph;
    uint64_t most = (uint64_t)graph->switches * graph->ports;

    if (!fabric->config.faults || !fabric_acknowledged(&fabric->config))
        return 0;
    for (uint32_t n = 0; n < graph->nodes; n++)
        most += graph->node[n].links;
    fabric->faults = calloc(most, sizeof *fabric->faults);
    if (!fabric->faults)
        return -ENOMEM;
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t p = 0; p < graph->ports; p++)
            if (graph->sw[s].end[p].kind != TOPO_END_NONE)
                switch_faults(fabric->sw[s], p, faults_next(fabric));
    for (uint32_t n = 0; n < graph->nodes; n++)
        for (uint32_t i = 0; i < graph->node[n].links; i++)
            if (graph->node[n].link[i].sw != TOPO_NONE)
                engine_faults(fabric->engine[n], i, faults_next(fabric));
    return 0;
}

void fabric_unfault_cables(struct fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->faulty; i++)
        emu_faults_drop(&fabric->faults[i], &fabric->cache);
    free(fabric->faults);
}
