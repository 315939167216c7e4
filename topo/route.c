/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.c - routes for any cables: up, then down, and as short as that allows.
 *
 * A switch that has the node below sends down, by every port that begins a
 * shortest way down; any other sends up, by every port that begins a shortest way.
 * So what has come down stays down, tables need no more than the destination, and
 * waiting goes from lower to higher on the way up and back on the way down: no cycle.
 */
#include "topo/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/ports.h"

/* Switches by level, ascending, and by number among equals. */
static int sort_by_level(struct ways *ways, const uint32_t *level, uint32_t switches)
{
    uint32_t most = 0;

    for (uint32_t s = 0; s < switches; s++)
        most = level[s] > most ? level[s] : most;
    uint32_t *at = calloc((size_t)most + 2, sizeof *at);

    if (!at)
        return -ENOMEM;
    for (uint32_t s = 0; s < switches; s++)
        at[level[s] + 1]++;
    for (uint32_t l = 0; l < most; l++)
        at[l + 1] += at[l];
    for (uint32_t s = 0; s < switches; s++)
        ways->order[at[level[s]]++] = s;
    free(at);
    return 0;
}

/* The cables of switch @s that lead down, or up. */
static uint32_t ways_list(const struct topo_graph *graph, const uint32_t *level, uint32_t s,
                          bool up, struct way *to)
{
    uint32_t count = 0;

    for (uint32_t port = 0; port < graph->ports; port++) {
        const struct topo_end *end = &graph->sw[s].end[port];

        if (end->kind == TOPO_END_SWITCH && level[end->id] != level[s] &&
            (level[end->id] > level[s]) == up)
            to[count++] = (struct way){.sw = end->id, .port = port};
    }
    return count;
}

static emu_ports ports_down(const struct topo_graph *graph, uint32_t s, const struct way *way,
                            uint32_t count)
{
    emu_ports down = EMU_NO_PORTS;

    for (uint32_t port = 0; port < graph->ports; port++)
        if (graph->sw[s].end[port].kind == TOPO_END_NODE)
            down |= emu_port(port);
    for (uint32_t i = 0; i < count; i++)
        down |= emu_port(way[i].port);
    return down;
}

int ways_new(struct ways *ret, const struct topo_graph *graph, const uint32_t *level)
{
    uint32_t switches = graph->switches;
    uint32_t used = 0;

    *ret = (struct ways){
        .order = malloc(switches * sizeof *ret->order),
        .way = malloc((size_t)switches * graph->ports * sizeof *ret->way),
        .first = malloc((2 * (size_t)switches + 1) * sizeof *ret->first),
        .down = malloc(switches * sizeof *ret->down),
        .hops = malloc(switches * sizeof *ret->hops),
    };
    if (!ret->order || !ret->way || !ret->first || !ret->down || !ret->hops ||
        sort_by_level(ret, level, switches)) {
        ways_free(ret);
        return -ENOMEM;
    }
    for (uint32_t s = 0; s < switches; s++) {
        ret->first[2 * s] = used;
        used += ways_list(graph, level, s, false, &ret->way[used]);
        ret->first[2 * s + 1] = used;
        ret->down[s] = ports_down(graph, s, &ret->way[ret->first[2 * s]], used - ret->first[2 * s]);
        used += ways_list(graph, level, s, true, &ret->way[used]);
    }
    ret->first[2 * switches] = used;
    return 0;
}

void ways_free(struct ways *ways)
{
    free(ways->order);
    free(ways->way);
    free(ways->first);
    free(ways->down);
    free(ways->hops);
}

/* The ports of @way[from..to) that begin a shortest way on; *hops: how long it is from here. */
static emu_ports shortest(const struct ways *ways, uint32_t from, uint32_t to, uint16_t *hops)
{
    uint16_t least = ROUTE_FAR;
    emu_ports set = EMU_NO_PORTS;

    for (; from < to; from++) {
        const struct way *way = &ways->way[from];
        uint16_t on = ways->hops[way->sw];

        if (on < least) {
            least = on;
            set = EMU_NO_PORTS;
        }
        if (on == least && on < ROUTE_FAR - 1)
            set |= emu_port(way->port);
    }
    *hops = emu_ports_any(set) ? (uint16_t)(least + 1) : ROUTE_FAR;
    return set;
}

void ways_find(const struct ways *ways, const struct topo_graph *graph, const struct cluster *to,
               emu_ports *sets, size_t stride)
{
    memset(ways->hops, 0xff, graph->switches * sizeof ways->hops[0]);
    for (uint32_t i = 0; i < to->switches; i++)
        ways->hops[to->sw[i]] = 0;

    for (uint32_t i = 0; i < graph->switches; i++) { /* down */
        uint32_t s = ways->order[i];
        emu_ports set = ROUTE_HERE;

        if (ways->hops[s])
            set = shortest(ways, ways->first[2 * s], ways->first[2 * s + 1], &ways->hops[s]);
        if (sets)
            sets[s * stride] = set;
    }
    for (uint32_t i = graph->switches; i--;) { /* up */
        uint32_t s = ways->order[i];

        if (ways->hops[s] != ROUTE_FAR)
            continue;
        emu_ports set =
            shortest(ways, ways->first[2 * s + 1], ways->first[2 * s + 2], &ways->hops[s]);
        if (sets)
            sets[s * stride] = set;
    }
}

/* A node that is plugged into switch @s, or TOPO_NONE. */
static uint32_t node_at(const struct topo_graph *graph, uint32_t s)
{
    for (uint32_t port = 0; port < graph->ports; port++)
        if (graph->sw[s].end[port].kind == TOPO_END_NODE)
            return graph->sw[s].end[port].id;
    return TOPO_NONE;
}

/* How far it is to cluster @c from switches with nodes, and from where there is no way. */
static void note_hops(struct topo_graph *graph, const struct ways *ways,
                      const struct clusters *clusters, uint32_t c, const uint32_t *a_node,
                      struct topo_gap *gap)
{
    for (uint32_t s = 0; s < graph->switches; s++) {
        if (a_node[s] == TOPO_NONE)
            continue;
        if (ways->hops[s] == ROUTE_FAR) {
            if (!gap->pairs) {
                gap->src = a_node[s];
                for (gap->dst = 0; clusters->where[gap->dst] >> TOPO_SEAT_BITS != c;)
                    gap->dst++;
            }
            gap->pairs += clusters->at[c].seats;
        } else if (ways->hops[s] >= graph->longest) {
            graph->longest = ways->hops[s] + 1u;
        }
    }
}

/* Candidates of every switch for every cluster, then tables. */
static int route_clusters(struct topo_graph *graph, const struct clusters *clusters,
                          const struct ways *ways, struct topo_gap *gap)
{
    uint32_t *a_node = malloc(graph->switches * sizeof *a_node);
    emu_ports *sets = malloc((size_t)graph->switches * clusters->count * sizeof *sets);
    int err = -ENOMEM;

    if (a_node && sets) {
        for (uint32_t s = 0; s < graph->switches; s++)
            a_node[s] = node_at(graph, s);
        for (uint32_t c = 0; c < clusters->count; c++) {
            ways_find(ways, graph, &clusters->at[c], sets + c, clusters->count);
            note_hops(graph, ways, clusters, c, a_node, gap);
        }
        err = tables_make(graph, clusters, ways, sets);
    }
    free(a_node);
    free(sets);
    return err;
}

/* Different switches of @way[from..to): cables to one lie anywhere among them. */
static uint32_t count_switches(const struct ways *ways, uint32_t from, uint32_t to)
{
    uint32_t count = 0;

    for (uint32_t i = from; i < to; i++) {
        uint32_t j = from;

        while (ways->way[j].sw != ways->way[i].sw)
            j++;
        count += j == i;
    }
    return count;
}

/* From below to above, how many switches the ways up have chosen among. */
static void note_spreads(struct topo_graph *graph, const struct ways *ways)
{
    for (uint32_t s = 0; s < graph->switches; s++)
        graph->sw[s].route.spread = 1;
    for (uint32_t i = 0; i < graph->switches; i++) {
        uint32_t s = ways->order[i], up = ways->first[2 * s + 1], end = ways->first[2 * s + 2];
        uint64_t above = (uint64_t)graph->sw[s].route.spread * count_switches(ways, up, end);

        for (uint32_t j = up; j < end; j++) {
            uint32_t *spread = &graph->sw[ways->way[j].sw].route.spread;

            if (above > *spread)
                *spread = above < TOPO_NODES_MAX ? (uint32_t)above : TOPO_NODES_MAX;
        }
    }
}

static int find_ways(struct ways *ret, struct topo_graph *graph)
{
    uint32_t *level = malloc(graph->switches * sizeof *level);
    int err = -ENOMEM;

    if (!level)
        return err;
    graph->levels = 0;
    for (uint32_t s = 0; s < graph->switches; s++) {
        level[s] = graph->sw[s].level;
        if (level[s] >= graph->levels)
            graph->levels = level[s] + 1;
    }
    err = ways_new(ret, graph, level);
    free(level);
    return err;
}

int topo_route_graph(struct topo_graph *graph, struct topo_gap *gap, const char **why)
{
    struct clusters clusters;
    struct ways ways;
    int err;

    *why = "not enough memory";
    *gap = (struct topo_gap){0};
    graph->longest = 0;
    err = clusters_find(&clusters, graph);
    if (err)
        return err;
    if ((uint64_t)graph->switches * clusters.count > TOPO_ROUTES_MAX) {
        *why = "too large: switches times sorts of destinations (nodes on different switches) is "
               "at most 67108864";
        err = -E2BIG;
        goto free_clusters;
    }
    err = find_ways(&ways, graph);
    if (err)
        goto free_clusters;
    err = route_clusters(graph, &clusters, &ways, gap);
    if (err == -E2BIG)
        *why = "too irregular: a switch has more than 32000 different sets of ports to send by";
    note_spreads(graph, &ways);
    ways_free(&ways);

free_clusters:
    clusters_free(&clusters);
    return err;
}
