/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engines.c - the link engines of a network with acknowledgments. Each node has one, between its
 * host interface and its cables. With combining=switch each switch has one as its combine unit, a
 * *unit engine*. This is an addition to QsNet III, which combines in its adapters.
 *
 * A unit engine is a link engine without a process, on a port of its own. It receives contributions
 * as packets, combines them, and sends the result as a packet. It retransmits this packet until it
 * gets an acknowledgment. So no contribution is lost between switches or counted twice. A group
 * combines in the tree of the unit engines of its switches; without unit engines, in a tree of its
 * members' adapters (engine/tree.c). As destinations, unit engines are numbered after the nodes.
 * Source: output-queued routers §2 (a unit is attached to an output and feeds back into an input).
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/util/bits.h"

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
                                                                          : ENGINE_HOSTIF_CREDITS,
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

void fabric_set_tclass(struct fabric *fabric, uint32_t node, uint8_t tclass)
{
    struct engine *engine = fabric_engine(fabric, node);

    if (engine)
        engine_set_tclass(engine, tclass);
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

uint32_t fabric_switch_ports(const struct fabric_config *config)
{
    return config->graph->ports + fabric_has_units(config);
}

uint32_t fabric_engine_numbers(const struct fabric_config *config)
{
    return config->graph->nodes + (fabric_has_units(config) ? config->graph->switches : 0);
}

/*
 * For each port of switch @s, set the number of the unit engine of the switch to which the port
 * leads.
 */
static void unit_neighbours(const struct fabric *fabric, uint32_t s)
{
    const struct topo_graph *graph = fabric->config.graph;
    uint32_t *at = &fabric->engines.units[(size_t)s * fabric_switch_ports(&fabric->config)];

    for (uint32_t p = 0; p < graph->ports; p++)
        if (graph->sw[s].end[p].kind == TOPO_END_SWITCH)
            at[p] = graph->nodes + graph->sw[s].end[p].id;
    at[graph->ports] = graph->nodes + s;
    switch_units(fabric->sw[s], graph->nodes, graph->ports, at);
}

static int unit_create(struct fabric *fabric, uint32_t s)
{
    const struct emu_profile *profile = &fabric->config.profile;
    struct switch_dev *sw = fabric->sw[s];
    uint8_t port = (uint8_t)fabric->config.graph->ports;
    struct engine_config config = {.profile = profile,
                                   .node = fabric->config.graph->nodes + s,
                                   .nodes = fabric_engine_numbers(&fabric->config),
                                   .links = 1,
                                   .seed = fabric->config.seed,
                                   .first_seq = fabric->config.first};
    struct engine *unit;
    int err = engine_create(&unit, switch_emu_dev(sw)->worker, &config);

    if (err)
        return err;
    fabric->engines.at[config.node] = unit;
    err = fabric_join_engine(unit, 0, sw, port, profile);
    if (!err)
        err = emu_link_hostif(engine_tx(unit, ENGINE_HOST), engine_rx(unit, ENGINE_HOST),
                              engine_emu_dev(unit), ENGINE_HOST, ENGINE_HOSTIF_CREDITS,
                              engine_host_profile(unit));
    return err;
}

int fabric_plug_units(struct fabric *fabric)
{
    const struct topo_graph *graph = fabric->config.graph;
    int err = 0;

    if (!fabric_has_units(&fabric->config))
        return 0;
    fabric->engines.units = calloc((size_t)graph->switches * fabric_switch_ports(&fabric->config),
                                   sizeof *fabric->engines.units);
    if (!fabric->engines.units)
        return -ENOMEM;
    for (uint32_t s = 0; !err && s < graph->switches; s++) {
        if (!fabric->sw[s])
            continue;
        unit_neighbours(fabric, s);
        err = unit_create(fabric, s);
    }
    return err;
}

int fabric_unit_group(const struct fabric *fabric, const struct fabric_group *group,
                      const struct topo_tree_switch *at, struct engine_group **ret)
{
    const struct topo_graph *graph = fabric->config.graph;
    const struct topo_end *end = graph->sw[at->sw].end;
    uint32_t child[TOPO_PORTS_MAX];
    struct engine_group_config config = {
        .id = group->id,
        .trees = 1,
        .combines = true,
        .unit = true,
        .in_order = fabric->config.profile.combine_order == EMU_COMBINE_PORT,
        .parent = at->up < 0 ? ENGINE_NO_NODE : graph->nodes + end[at->up].id,
        .child = child,
    };

    emu_each_port (p, at->ports) {
        if ((int)p == at->up)
            continue;
        child[config.children++] = end[p].kind == TOPO_END_NODE ? end[p].id
                                                                : graph->nodes + end[p].id;
    }
    return engine_group_create(ret, &config);
}
