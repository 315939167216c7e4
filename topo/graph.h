/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.h - what a generator builds a graph from. Inside topo/ only.
 */
#ifndef TOPO_GRAPH_H
#define TOPO_GRAPH_H

#include "topo/topo.h"

#define TOPO_NODES_MAX 1048576

/* What a graph needs room for. */
struct topo_size {
    uint32_t nodes;
    uint32_t switches;
    uint32_t ports;  /* a switch */
    uint32_t levels;
    uint32_t sets;   /* port sets of all routes together; switches may share them */
};

/**
 * topo_graph_new - a graph with nothing plugged in and all routes empty.
 * @sets: where the port sets lie, for the generator to hand to its routes.
 *
 * One allocation. Returns NULL when there is no memory.
 */
struct topo_graph *topo_graph_new(const struct topo_size *size, uint64_t **sets);

/** topo_plug_node - plug @node into a free port. */
void topo_plug_node(struct topo_graph *graph, uint32_t node, uint32_t sw, uint32_t port);

/** topo_plug_cable - plug a cable between two free ports of two switches. */
void topo_plug_cable(struct topo_graph *graph, uint32_t a, uint32_t a_port, uint32_t b,
                     uint32_t b_port);

/**
 * topo_kary - the k-ary n-tree; its limits are checked here.
 * @why: on failure, what is wrong with @k and @n: constant text.
 *
 * Errors: as topo_parse().
 */
int topo_kary(struct topo_graph **ret, uint32_t k, uint32_t n, const char **why);

#endif
