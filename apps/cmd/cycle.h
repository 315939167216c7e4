/* SPDX-License-Identifier: BSD-3-Clause */
/* cycle.h - find a cycle in a directed graph, such as processes that wait for each other. */
#ifndef APPS_CMD_CYCLE_H
#define APPS_CMD_CYCLE_H

#include <stdbool.h>
#include <stdint.h>

/* A directed graph. All fields 0: a graph without edges. Owned by one thread. */
struct cycle_graph {
    struct cycle_edge {
        uint32_t from, to;
    } * edge;
    uint32_t edges, capacity;
    uint32_t vertices; /* 1 + the largest number of a vertex */
};

/** cycle_add - add an edge. Vertices are numbers below 2^31. Adds nothing if there is no memory. */
void cycle_add(struct cycle_graph *graph, uint32_t from, uint32_t to);

/**
 * cycle_find - find a cycle: a list of vertices in which each has an edge to the next one, and the
 * last has an edge to the first. Sorts the edges, and then takes time proportional to their number.
 * @ret: the vertices, which the caller frees; NULL: there is no cycle, or no memory.
 * Returns the number of vertices in the cycle.
 */
uint32_t cycle_find(struct cycle_graph *graph, uint32_t **ret);

void cycle_release(struct cycle_graph *graph);

#endif
