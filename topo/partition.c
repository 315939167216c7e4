/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * partition.c - which worker steps which switch, and the line of switches that this is cut from.
 *
 * Every switch gets a position among the nodes: those that span the same nodes
 * are spread evenly over them. So each has near it the switches below it and
 * its share of those above, and equal cuts along the line part few cables.
 */
#include <stdlib.h>

#include "emu/util/random.h"
#include "topo/graph.h"

struct place {
    uint32_t sw;
    uint32_t level;
    uint32_t first; /* nodes below: [first, first + span) */
    uint32_t span;
    uint64_t at; /* position among the nodes */
};

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int place_by_span(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    int order = compare(a->level, b->level);

    order = order ? order : compare(a->first, b->first);
    order = order ? order : compare(a->span, b->span);
    return order ? order : compare(a->sw, b->sw);
}

static int place_by_position(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    int order = compare(a->at, b->at);

    order = order ? order : compare(a->level, b->level);
    return order ? order : compare(a->sw, b->sw);
}

/* Spread switches that span the same nodes, neighbours in @place, over them. */
static void place_spread(struct place *place, uint32_t count)
{
    for (uint32_t from = 0, to; from < count; from = to) {
        const struct place *p = &place[from];

        for (to = from; to < count; to++)
            if (place[to].level != p->level || place[to].first != p->first ||
                place[to].span != p->span)
                break;
        for (uint32_t i = from; i < to; i++)
            place[i].at = p->first + (uint64_t)p->span * (i - from) / (to - from);
    }
}

static void place_in_line(const struct topo_graph *graph, struct place *place)
{
    for (uint32_t s = 0; s < graph->switches; s++)
        place[s] = (struct place){
            .sw = s,
            .level = graph->sw[s].level,
            .first = graph->sw[s].low,
            .span = graph->sw[s].low > graph->sw[s].high ? 0
                                                         : graph->sw[s].high + 1 - graph->sw[s].low,
        };
    qsort(place, graph->switches, sizeof *place, place_by_span);
    place_spread(place, graph->switches);
    qsort(place, graph->switches, sizeof *place, place_by_position);
}

uint32_t *topo_line(const struct topo_graph *graph)
{
    struct place *place = malloc(graph->switches * sizeof *place);
    uint32_t *line = place ? malloc(graph->switches * sizeof *line) : NULL;

    if (line) {
        place_in_line(graph, place);
        for (uint32_t i = 0; i < graph->switches; i++)
            line[i] = place[i].sw;
    }
    free(place);
    return line;
}

void topo_partition_part(const struct topo_graph *graph, const uint32_t *host_of, uint32_t host,
                         uint32_t workers, uint32_t *worker_of)
{
    uint32_t *line = topo_line(graph);
    uint32_t count = 0, done = 0;

    for (uint32_t s = 0; s < graph->switches; s++)
        count += !host_of || host_of[s] == host;
    for (uint32_t i = 0; i < graph->switches; i++) {
        uint32_t s = line ? line[i] : i; /* without memory by number: as even, less local */

        if (host_of && host_of[s] != host)
            worker_of[s] = TOPO_NONE;
        else
            worker_of[s] = (uint32_t)((uint64_t)done++ * workers / count);
    }
    free(line);
}

void topo_partition(const struct topo_graph *graph, uint32_t workers, uint32_t *worker_of)
{
    topo_partition_part(graph, NULL, 0, workers, worker_of);
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
            uint32_t ways = emu_ports_count(ports);
            const struct topo_end *end =
                ways ? &graph->sw[sw].end[emu_ports_nth(ports, crossings_below(&state, ways))]
                     : NULL;

            if (!end || end->kind != TOPO_END_SWITCH)
                break;
            ret->cables++;
            ret->others += worker_of[sw] != worker_of[end->id];
            sw = end->id;
        }
    }
}
