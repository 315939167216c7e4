/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cycle.h - find a cycle in a directed graph: processes that wait for each other.
 */
#ifndef APPS_CMD_CYCLE_H
#define APPS_CMD_CYCLE_H

#include <stdbool.h>
#include <stdint.h>

/* Owned by one thread. Zeroed: a graph without edges. */
struct cycle_graph {
    struct cycle_hostif {
        uint32_t from, to;
    } * hostif;
    uint32_t hostifs, capacity;
    uint32_t vertices; /* 1 + the largest number of a vertex */
};

/** cycle_add - add an edge. Vertices are numbers below 2^31. Without memory nothing is added. */
void cycle_add(struct cycle_graph *graph, uint32_t from, uint32_t to);

/**
 * cycle_find - find vertices of which each has an edge to the next one, and the last one to the
 * first. Sorts the edges, then takes time proportional to their number.
 * @ret: the vertices, freed by the caller; NULL: there is no cycle, or no memory.
 * Returns the number of vertices in the cycle.
 */
uint32_t cycle_find(struct cycle_graph *graph, uint32_t **ret);

void cycle_release(struct cycle_graph *graph);

#endif
