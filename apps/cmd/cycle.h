/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cycle.h - a directed graph, and a cycle in it: processes that wait for each other.
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
    uint32_t hostifs, room;
    uint32_t vertices; /* above the largest number of a vertex */
};

/**
 * cycle_add - add an edge between two vertices, whose numbers are below 2^31. If there is no
 * memory, the graph stays as it is.
 */
void cycle_add(struct cycle_graph *graph, uint32_t from, uint32_t to);

/**
 * cycle_find - find vertices of which each has an edge to the next one, and the last one to the
 * first. Takes time proportional to the edges, after sorting them.
 * @ret: the vertices, to be freed by the caller; NULL: there is no cycle, or no memory.
 * Returns their number.
 */
uint32_t cycle_find(struct cycle_graph *graph, uint32_t **ret);

void cycle_release(struct cycle_graph *graph);

#endif
