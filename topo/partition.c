/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * partition.c - which worker steps which switch.
 *
 * Every switch gets a position among the nodes: those that span the same nodes
 * are spread evenly over them. So each has near it the switches below it and
 * its share of those above, and equal cuts along the line part few cables.
 */
#include "topo/topo.h"

#include <stdlib.h>

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

void topo_partition(const struct topo_graph *graph, uint32_t workers, uint32_t *worker_of)
{
    uint32_t count = graph->switches;
    struct place *place = malloc(count * sizeof *place);

    if (place)
        place_in_line(graph, place);
    for (uint32_t i = 0; i < count; i++) /* without memory by number: as even, less local */
        worker_of[place ? place[i].sw : i] = (uint32_t)((uint64_t)i * workers / count);
    free(place);
}
