/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * units.c - combine units in the switches of a network with acknowledgments (combining=switch):
 * an addition to QsNet III, which combines in its adapters.
 *
 * A unit is a link engine on a port of its own, to which no process ever attaches: it takes
 * contributions as packets, combines them, and sends on the result as a packet of its own, again
 * until it is acknowledged. So nothing is lost or counted twice between two switches either. The
 * units of a group's tree of switches make the tree that its adapters make otherwise
 * (engine/tree.c). Numbers of units, as destinations, follow those of the nodes.
 * Source: output-queued routers §2 (a unit hangs on an output and feeds back into an input).
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/bits.h"

uint32_t fabric_switch_ports(const struct fabric_config *config)
{
    return config->graph->ports + fabric_has_units(config);
}

uint32_t fabric_engine_numbers(const struct fabric_config *config)
{
    return config->graph->nodes + (fabric_has_units(config) ? config->graph->switches : 0);
}

/* Which units the ports of switch @s lead to. */
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
        err = emu_link_edge(engine_tx(unit, ENGINE_HOST), engine_rx(unit, ENGINE_HOST),
                            engine_emu_dev(unit), ENGINE_HOST, ENGINE_EDGE_CREDITS,
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

/* --- a group's ---------------------------------------------------------------------- */

int fabric_unit_group(const struct fabric *fabric, const struct fabric_group *group,
                      const struct topo_tree_switch *at, struct engine_group **ret)
{
    const struct topo_graph *graph = fabric->config.graph;
    const struct topo_end *end = graph->sw[at->sw].end;
    uint32_t child[TOPO_PORTS_MAX];
    struct engine_group_config config = {
        .id = group->id,
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
