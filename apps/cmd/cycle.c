/* SPDX-License-Identifier: BSD-3-Clause */
/* cycle.c - depth-first search for a cycle, without recursion. */
#include "apps/cmd/cycle.h"

#include <stdlib.h>
#include <string.h>

void cycle_add(struct cycle_graph *graph, uint32_t from, uint32_t to)
{
    if (graph->edges == graph->capacity) {
        uint32_t capacity = graph->capacity ? 2 * graph->capacity : 64;
        struct cycle_edge *edge = realloc(graph->edge, capacity * sizeof *edge);

        if (!edge)
            return;
        graph->edge = edge;
        graph->capacity = capacity;
    }
    graph->edge[graph->edges++] = (struct cycle_edge){from, to};
    if (from >= graph->vertices)
        graph->vertices = from + 1;
    if (to >= graph->vertices)
        graph->vertices = to + 1;
}

static int by_from(const void *a, const void *b)
{
    const struct cycle_edge *x = a, *y = b;

    return x->from != y->from ? (x->from < y->from ? -1 : 1) : (x->to > y->to) - (x->to < y->to);
}

struct vertex {
    uint32_t next, end; /* index range of its edges that were not followed yet */
    uint32_t place;     /* 1 + index of the vertex in the path; 0: it is not in the path */
    bool done;          /* no cycle can be reached from this vertex */
};

/*
 * Search from @first. @path: gets the vertices from @first to the current one. @length: gets their
 * number; 0: there is no cycle. Returns the index in @path at which the cycle begins.
 */
static uint32_t search(const struct cycle_graph *graph, struct vertex *vertex, uint32_t first,
                       uint32_t *path, uint32_t *length)
{
    path[0] = first;
    *length = 1;
    vertex[first].place = 1;
    while (*length) {
        struct vertex *at = &vertex[path[*length - 1]];

        if (at->next == at->end) {
            at->place = 0;
            at->done = true;
            --*length;
            continue;
        }
        uint32_t to = graph->edge[at->next++].to;
        if (vertex[to].place)
            return vertex[to].place - 1;
        if (vertex[to].done)
            continue;
        path[(*length)++] = to;
        vertex[to].place = *length;
    }
    return 0;
}

uint32_t cycle_find(struct cycle_graph *graph, uint32_t **ret)
{
    struct vertex *vertex = calloc(graph->vertices + 1u, sizeof *vertex);
    uint32_t *path = malloc((graph->vertices + 1u) * sizeof *path);
    uint32_t from = 0, length = 0;

    if (graph->edges)
        qsort(graph->edge, graph->edges, sizeof *graph->edge, by_from);
    for (uint32_t e = 0; vertex && e < graph->edges; e++) {
        struct vertex *at = &vertex[graph->edge[e].from];

        if (!at->end)
            at->next = e;
        at->end = e + 1;
    }
    for (uint32_t v = 0; vertex && path && !length && v < graph->vertices; v++)
        if (!vertex[v].done)
            from = search(graph, vertex, v, path, &length);
    if (length > from)
        memmove(path, path + from, (length - from) * sizeof *path);
    else
        length = from = 0;
    free(vertex);
    if (length) {
        *ret = path;
    } else {
        *ret = NULL;
        free(path);
    }
    return length - from;
}

void cycle_release(struct cycle_graph *graph)
{
    free(graph->edge);
    *graph = (struct cycle_graph){0};
}
