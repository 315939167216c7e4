/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stalls.c - what stands still: what processes say they have pending, where a collective's
 * contributions are, links that do not move.
 *
 * Of processes nothing is believed but what emu_pending_read() has checked. The rest is looked up
 * in switches, adapters and cables while the workers stand still.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/combiner.h"
#include "emu/now.h"

#define STALL_NS 1000000000u /* a link that has moved since is not called standing */

bool fabric_pending(const struct fabric *fabric, uint32_t node, struct emu_pending *ret)
{
    struct emu_edge *edge = fabric->edge[node];

    return edge && emu_pending_read(ret, &edge->shared->pending, edge->nodes, emu_now_ns());
}

/* --- contributions to a collective -------------------------------------------------- */

/* With acknowledgments: at the member's adapter. */
static void part_at_adapter(const struct fabric_group *group, uint32_t seq,
                            struct fabric_part *part)
{
    for (uint32_t i = 0; i < group->engines->count && !part->known; i++) {
        if (group->engines->at[i].number != part->node || !group->engines->at[i].group)
            continue;
        part->known = true;
        part->came = engine_group_came(group->engines->at[i].group, seq);
    }
}

/* Without acknowledgments: at the switch where the member's link is in the tree. */
static void part_at_switch(const struct fabric *fabric, const struct fabric_group *group,
                           uint32_t seq, struct fabric_part *part)
{
    const struct topo_graph *graph = fabric->links.routed;
    uint32_t link = group->treeless ? TOPO_NONE : topo_tree_link(&group->tree, graph, part->node);

    part->known = link != TOPO_NONE &&
                  fabric->sw[graph->node[part->node].link[link].sw]; /* else another host knows */
    if (!part->known)
        return;
    part->sw = graph->node[part->node].link[link].sw;
    part->port = graph->node[part->node].link[link].port;
    for (uint32_t i = 0; i < group->tree.count; i++)
        if (group->tree.switches[i].sw == part->sw && group->part[i])
            part->came = switch_group_came(group->part[i], seq) >> part->port & 1;
}

uint32_t fabric_parts(const struct fabric *fabric, uint32_t id, uint32_t seq,
                      struct fabric_part *ret, uint32_t max)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);
    uint32_t count = 0;

    for (uint32_t i = 0; group && i < group->count && count < max; i++) {
        struct fabric_part *part = &ret[count];

        if (group->node[i] == TOPO_NONE)
            continue;
        *part = (struct fabric_part){.node = group->node[i], .sw = TOPO_NONE};
        if (group->engines)
            part_at_adapter(group, seq, part);
        else
            part_at_switch(fabric, group, seq, part);
        count++;
    }
    return count;
}

/* The part of switch @sw in the group's tree; NULL: it has none. */
static const struct switch_group *part_of(const struct fabric_group *group, uint32_t sw, int8_t *up)
{
    for (uint32_t i = 0; i < group->tree.count; i++) {
        *up = group->tree.switches[i].up;
        if (group->tree.switches[i].sw == sw)
            return group->part[i];
    }
    return NULL;
}

/* Has switch @sw all that comes from below, so that its part is on its way up? */
static bool part_is_up(const struct fabric_group *group, uint32_t sw, uint32_t seq)
{
    int8_t up;
    const struct switch_group *part = part_of(group, sw, &up);

    return part && up >= 0 &&
           (switch_group_came(part, seq) | emu_bit((uint32_t)up)) == switch_group_ports(part);
}

uint32_t fabric_gaps(const struct fabric *fabric, uint32_t id, uint32_t seq, struct fabric_gap *ret,
                     uint32_t max)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);
    uint32_t count = 0;

    for (uint32_t i = 0; group && !group->engines && i < group->tree.count; i++) {
        const struct topo_tree_switch *at = &group->tree.switches[i];
        uint64_t up = at->up < 0 ? 0 : emu_bit((uint32_t)at->up);

        if (!group->part[i])
            continue;
        emu_each_bit (p, at->ports & ~up & ~switch_group_came(group->part[i], seq)) {
            const struct topo_end *end = &fabric->links.routed->sw[at->sw].end[p];

            if (end->kind != TOPO_END_SWITCH || !part_is_up(group, end->id, seq))
                continue;
            if (count < max)
                ret[count] = (struct fabric_gap){.from = end->id, .sw = at->sw, .port = p};
            count++;
        }
    }
    return count;
}

const struct emu_clash *fabric_clash(const struct fabric *fabric, uint32_t id)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);
    const struct emu_clash *clash = NULL;

    for (uint32_t i = 0; group && !clash && i < group->tree.count; i++)
        if (group->part[i])
            clash = switch_group_clash(group->part[i]);
    for (uint32_t i = 0; group && group->engines && !clash && i < group->engines->count; i++)
        if (group->engines->at[i].group)
            clash = engine_group_clash(group->engines->at[i].group);
    return clash;
}

/* --- links -------------------------------------------------------------------------- */

/* How far a link was at the last look, and since when. */
struct fabric_moved {
    uint64_t segments;
    uint64_t since_ns;
};

/*
 * Links are numbered: those that leave switches, by switch and port; then those that leave nodes'
 * adapters; then what goes to each node's process, and what comes from it.
 */
static uint32_t moved_of_node(const struct topo_graph *graph, uint32_t node)
{
    return graph->switches * graph->ports + node * (TOPO_NODE_LINKS_MAX + 2);
}

static uint32_t moved_count(const struct topo_graph *graph)
{
    return moved_of_node(graph, graph->nodes);
}

static void moved_note(struct fabric_moved *moved, uint64_t segments, uint64_t now_ns)
{
    if (moved->since_ns && moved->segments == segments)
        return;
    *moved = (struct fabric_moved){.segments = segments, .since_ns = now_ns};
}

static void node_look(struct fabric *fabric, uint32_t n, uint64_t now_ns)
{
    struct fabric_moved *moved = &fabric->moved[moved_of_node(fabric->config.graph, n)];
    const struct emu_edge *edge = fabric->edge[n];

    for (uint32_t i = 0; fabric_engine(fabric, n) && i < fabric->config.graph->node[n].links; i++)
        moved_note(&moved[i],
                   emu_count_read(&engine_tx(fabric_engine(fabric, n), i)->counts.segments),
                   now_ns);
    moved += TOPO_NODE_LINKS_MAX;
    if (!edge) {
        moved[0] = moved[1] = (struct fabric_moved){0};
        return;
    }
    moved_note(&moved[0], emu_count_read(&edge->delivered), now_ns);
    moved_note(&moved[1], emu_count_read(&edge->sent), now_ns);
}

int fabric_stalls_look(struct fabric *fabric, uint64_t now_ns)
{
    const struct topo_graph *graph = fabric->config.graph;

    if (!fabric->moved)
        fabric->moved = calloc(moved_count(graph), sizeof *fabric->moved);
    if (!fabric->moved)
        return -ENOMEM;
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t p = 0; fabric->sw[s] && p < graph->ports; p++)
            moved_note(&fabric->moved[s * graph->ports + p],
                       emu_count_read(&switch_tx(fabric->sw[s], p)->counts.segments), now_ns);
    for (uint32_t n = 0; n < graph->nodes; n++)
        node_look(fabric, n, now_ns);
    return 0;
}

/* Where stalls are listed. */
struct stalls {
    struct fabric_stall *at;
    uint32_t count, max;
    uint64_t now_ns;
};

static void stall_add(struct stalls *list, const struct fabric_moved *moved,
                      struct fabric_stall stall)
{
    if (!moved->since_ns || moved->since_ns + STALL_NS > list->now_ns)
        return;
    stall.since_ns = moved->since_ns;
    if (list->count < list->max)
        list->at[list->count] = stall;
    list->count++;
}

/*
 * Links of switches. Where channels are, replies say more than credits: engine_stalls(). But a port
 * may have all that it needs, and send nothing.
 */
static void switch_stalls(const struct fabric *fabric, uint32_t s, struct stalls *list)
{
    const struct topo_graph *graph = fabric->config.graph;

    for (uint32_t p = 0; p < graph->ports; p++) {
        struct emu_tx *tx = switch_tx(fabric->sw[s], p);
        struct fabric_stall stall = {.node = TOPO_NONE,
                                     .sw = s,
                                     .port = p,
                                     .wait = FABRIC_WAITS_PORT};

        if (tx->kind != EMU_LINK_LOCAL)
            continue;
        if (!fabric_has_engines(&fabric->config) && !tx->credits && !emu_credit_front(&tx->credit))
            stall.wait = FABRIC_WAITS_CREDIT;
        else if (!switch_is_ready(fabric->sw[s], p))
            continue;
        stall_add(list, &fabric->moved[s * graph->ports + p], stall);
    }
}

/* What goes to a process, and what comes from it. */
static void edge_stalls(const struct fabric *fabric, uint32_t n, struct stalls *list)
{
    const struct topo_link *at = topo_first_link(fabric->config.graph, n);
    const struct fabric_moved *moved =
        &fabric->moved[moved_of_node(fabric->config.graph, n) + TOPO_NODE_LINKS_MAX];
    const struct emu_edge *edge = fabric->edge[n];
    struct fabric_stall stall = {.node = n,
                                 .sw = fabric_has_engines(&fabric->config) ? TOPO_NONE : at->sw,
                                 .port = at->port,
                                 .wait = FABRIC_WAITS_PROCESS};

    if (atomic_load_explicit(&edge->stuck, memory_order_relaxed))
        stall_add(list, &moved[0], stall);
    stall.wait = FABRIC_WAITS_CREDIT;
    if (!edge->credits->count)
        stall_add(list, &moved[1], stall);
}

static void engine_stalls(const struct fabric *fabric, uint32_t n, struct stalls *list)
{
    const struct fabric_moved *moved = &fabric->moved[moved_of_node(fabric->config.graph, n)];

    for (uint32_t i = 0; i < fabric->config.graph->node[n].links; i++) {
        struct engine *engine = fabric_engine(fabric, n);
        struct fabric_stall stall = {.node = n,
                                     .sw = TOPO_NONE,
                                     .port = i,
                                     .wait = FABRIC_WAITS_PORT};

        if (!engine_is_ready(engine, i)) {
            if (!emu_vcs_pending(engine_vcs(engine, i)))
                continue;
            stall.wait = FABRIC_WAITS_REPLY;
        }
        stall_add(list, &moved[i], stall);
    }
}

uint32_t fabric_stalls(const struct fabric *fabric, uint64_t now_ns, struct fabric_stall *ret,
                       uint32_t max)
{
    const struct topo_graph *graph = fabric->config.graph;
    struct stalls list = {.at = ret, .max = max, .now_ns = now_ns};

    if (!fabric->moved)
        return 0;
    for (uint32_t s = 0; s < graph->switches; s++)
        if (fabric->sw[s])
            switch_stalls(fabric, s, &list);
    for (uint32_t n = 0; n < graph->nodes; n++) {
        if (fabric->edge[n])
            edge_stalls(fabric, n, &list);
        if (fabric_engine(fabric, n))
            engine_stalls(fabric, n, &list);
    }
    return list.count;
}
