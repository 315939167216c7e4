/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sever.c - cables that lead nowhere any more, in a network that sends nothing around them.
 *
 * Where nothing is acknowledged, what was sent over a cable whose far host is lost is gone, and
 * tables stay as they are: a switch takes any of the candidates that it has. So whoever may send by
 * such a cable is told that no way leads there, since one of its segments will be lost, and nobody
 * would know which. What may go by it is found backwards from the cables, destination by
 * destination.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/bits.h"

static bool *strands_to(const struct fabric *fabric, uint32_t node)
{
    return fabric->links.strands + (size_t)node * fabric->config.graph->switches;
}

/* May what is at switch @sw for @to be lost, as far as is known? */
static bool switch_strands(const struct fabric *fabric, uint32_t sw, uint32_t to)
{
    const struct topo_switch *at = &fabric->config.graph->sw[sw];
    const bool *strands = strands_to(fabric, to);

    emu_each_bit (port, topo_route_ports(&at->route, to)) {
        uint32_t cable = fabric_cable_at(fabric, sw, port);

        if ((cable != TOPO_NONE && fabric->links.severed[cable]) ||
            (at->end[port].kind == TOPO_END_SWITCH && strands[at->end[port].id]))
            return true;
    }
    return false;
}

/* Until a look finds no more: after as many as a way has switches. */
static void node_strands(struct fabric *fabric, uint32_t to)
{
    bool *strands = strands_to(fabric, to), more = true;

    while (more) {
        more = false;
        for (uint32_t s = 0; s < fabric->config.graph->switches; s++)
            if (!strands[s] && switch_strands(fabric, s, to))
                strands[s] = more = true;
    }
}

int fabric_sever(struct fabric *fabric, const bool *lost)
{
    const struct topo_graph *graph = fabric->config.graph;
    struct fabric_links *links = &fabric->links;

    if (!links->severed)
        links->severed = calloc(links->count + 1u, sizeof *links->severed);
    if (!links->strands)
        links->strands = calloc((size_t)graph->nodes * graph->switches, sizeof *links->strands);
    if (!links->severed || !links->strands)
        return -ENOMEM;
    for (uint32_t i = 0; i < links->count; i++)
        links->severed[i] = links->severed[i] || lost[i];
    for (uint32_t n = 0; n < graph->nodes; n++)
        node_strands(fabric, n);
    return 0;
}

bool fabric_strands(const struct fabric *fabric, uint32_t from, uint32_t to)
{
    const struct topo_graph *graph = fabric->config.graph;

    if (!fabric->links.strands)
        return false;
    for (uint32_t l = 0; l < graph->node[from].links; l++) {
        uint32_t cable = fabric_cable_of(fabric, from, l), sw = graph->node[from].link[l].sw;

        if (sw != TOPO_NONE && (fabric->links.severed[cable] || strands_to(fabric, to)[sw]))
            return true;
    }
    return false;
}

bool fabric_group_is_severed(const struct fabric *fabric, uint32_t id)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);

    for (uint32_t i = 0; fabric->links.severed && group && i < group->tree.count; i++)
        emu_each_bit (port, group->tree.switches[i].ports) {
            uint32_t cable = fabric_cable_at(fabric, group->tree.switches[i].sw, port);

            if (cable != TOPO_NONE && fabric->links.severed[cable])
                return true;
        }
    return false;
}

void fabric_free_severed(struct fabric *fabric)
{
    free(fabric->links.severed);
    free(fabric->links.strands);
}
