/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * partition.c - put the switches in order, and assign equal sections of the order to workers.
 *
 * Each switch has a position among the nodes. Switches that have the same nodes below are spread
 * evenly over these nodes. So each switch is near to the switches below it and to its share of the
 * switches above it, and few cables lead from one section to another.
 */
#include <stdlib.h>

#include "emu/util/random.h"
#include "topo/graph.h"

struct position {
    uint32_t sw;
    uint32_t level;
    uint32_t first; /* the nodes below are [first, first + span) */
    uint32_t span;
    uint64_t at; /* position, as the number of a node */
};

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int position_by_span(const void *left, const void *right)
{
    const struct position *a = left, *b = right;
    int order = compare(a->level, b->level);

    order = order ? order : compare(a->first, b->first);
    order = order ? order : compare(a->span, b->span);
    return order ? order : compare(a->sw, b->sw);
}

static int position_by_position(const void *left, const void *right)
{
    const struct position *a = left, *b = right;
    int order = compare(a->at, b->at);

    order = order ? order : compare(a->level, b->level);
    return order ? order : compare(a->sw, b->sw);
}

static void positions_spread(struct position *position, uint32_t count)
{
    for (uint32_t from = 0, to; from < count; from = to) {
        const struct position *p = &position[from];

        for (to = from; to < count; to++)
            if (position[to].level != p->level || position[to].first != p->first ||
                position[to].span != p->span)
                break;
        for (uint32_t i = from; i < to; i++)
            position[i].at = p->first + (uint64_t)p->span * (i - from) / (to - from);
    }
}

static void positions_sort(const struct topo_graph *graph, struct position *position)
{
    for (uint32_t s = 0; s < graph->switches; s++)
        position[s] = (struct position){
            .sw = s,
            .level = graph->sw[s].level,
            .first = graph->sw[s].low,
            .span = graph->sw[s].low > graph->sw[s].high ? 0
                                                         : graph->sw[s].high + 1 - graph->sw[s].low,
        };
    qsort(position, graph->switches, sizeof *position, position_by_span);
    positions_spread(position, graph->switches);
    qsort(position, graph->switches, sizeof *position, position_by_position);
}

uint32_t *topo_order(const struct topo_graph *graph)
{
    struct position *position = malloc(graph->switches * sizeof *position);
    uint32_t *order = position ? malloc(graph->switches * sizeof *order) : NULL;

    if (order) {
        positions_sort(graph, position);
        for (uint32_t i = 0; i < graph->switches; i++)
            order[i] = position[i].sw;
    }
    free(position);
    return order;
}

void topo_partition_of_host(const struct topo_graph *graph, const uint32_t *host_of, uint32_t host,
                            uint32_t workers, uint32_t *worker_of)
{
    uint32_t *order = topo_order(graph);
    uint32_t count = 0, done = 0;

    for (uint32_t s = 0; s < graph->switches; s++)
        count += !host_of || host_of[s] == host;
    for (uint32_t i = 0; i < graph->switches; i++) {
        uint32_t s = order ? order[i] : i; /* no memory for an order: use the switches' numbers */

        if (host_of && host_of[s] != host)
            worker_of[s] = TOPO_NONE;
        else
            worker_of[s] = (uint32_t)((uint64_t)done++ * workers / count);
    }
    free(order);
}

void topo_partition(const struct topo_graph *graph, uint32_t workers, uint32_t *worker_of)
{
    topo_partition_of_host(graph, NULL, 0, workers, worker_of);
}

#define CROSSINGS_SEGMENTS 100000u
#define CROSSINGS_SEED     1u

static uint32_t crossings_below(uint64_t *state, uint32_t count)
{
    return (uint32_t)((emu_splitmix(state) >> 32) * count >> 32);
}

void topo_partition_crossings(const struct topo_graph *graph, const uint32_t *worker_of,
                              struct topo_crossings *ret)
{
    uint64_t state = CROSSINGS_SEED;

    *ret = (struct topo_crossings){.segments = CROSSINGS_SEGMENTS};
    for (uint32_t i = 0; i < CROSSINGS_SEGMENTS; i++) {
        uint32_t src = crossings_below(&state, graph->nodes);
        uint32_t dst = crossings_below(&state, graph->nodes);
        uint32_t sw = graph->node[src].link[0].sw;

        while (sw != TOPO_NONE) {
            emu_ports ports = topo_route_ports(&graph->sw[sw].route, dst);
            uint32_t paths = emu_ports_count(ports);
            const struct topo_end *end =
                paths ? &graph->sw[sw].end[emu_ports_nth(ports, crossings_below(&state, paths))]
                      : NULL;

            if (!end || end->kind != TOPO_END_SWITCH)
                break;
            ret->cables++;
            ret->others += worker_of[sw] != worker_of[end->id];
            sw = end->id;
        }
    }
}
