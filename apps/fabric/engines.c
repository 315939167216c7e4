/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engines.c - what stands between a node and its switch where packets are acknowledged.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/bits.h"

struct fabric_host fabric_host(const struct fabric *fabric, uint32_t node)
{
    const struct topo_link *at = topo_first_link(fabric->config.graph, node);
    struct engine *engine = fabric_engine(fabric, node);
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

int fabric_engines_create(struct fabric *fabric)
{
    if (!fabric_has_engines(&fabric->config))
        return 0;
    fabric->engines.count = fabric_engine_numbers(&fabric->config);
    fabric->engines.at = calloc(fabric->engines.count, sizeof(struct engine *));
    return fabric->engines.at ? 0 : -ENOMEM;
}

void fabric_engines_destroy(struct fabric *fabric)
{
    for (uint32_t i = 0; fabric->engines.at && i < fabric->engines.count; i++)
        engine_destroy(fabric->engines.at[i]);
    free(fabric->engines.at);
    free(fabric->engines.units);
}

int fabric_join_engine(struct engine *engine, uint8_t link, struct switch_dev *sw, uint8_t port,
                       const struct emu_profile *profile)
{
    struct emu_dev *sw_dev = switch_emu_dev(sw), *dev = engine_emu_dev(engine);
    int err = emu_link_join(engine_tx(engine, link), dev, link, switch_rx(sw, port), sw_dev, port,
                            emu_vc_ring(profile), profile);

    return err ? err
               : emu_link_join(switch_tx(sw, port), sw_dev, port, engine_rx(engine, link), dev,
                               link, emu_vc_ring(profile), profile);
}

int fabric_plug_engine(struct fabric *fabric, uint32_t n)
{
    const struct topo_graph *graph = fabric->config.graph;
    const struct topo_node *node = &graph->node[n];
    struct switch_dev *sw = fabric->sw[topo_first_link(graph, n)->sw];
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
    fabric->engines.at[n] = engine;
    for (uint8_t i = 0; !err && i < node->links; i++)
        if (node->link[i].sw != TOPO_NONE && fabric->sw[node->link[i].sw])
            err = fabric_join_engine(engine, i, fabric->sw[node->link[i].sw], node->link[i].port,
                                     &fabric->config.profile);
    return err;
}
