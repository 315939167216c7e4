/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.h - what a generator builds a graph from. Inside topo/ only.
 */
#ifndef TOPO_GRAPH_H
#define TOPO_GRAPH_H

#include "topo/topo.h"

#define TOPO_ERROR_BYTES 320 /* room for a line that says why, without the SPEC */

/* A macro's number as a string literal. */
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

/* What a graph needs room for. */
struct topo_size {
    uint32_t nodes;
    uint32_t switches;
    uint32_t ports;  /* a switch */
    uint32_t levels; /* a generator that does not know leaves it 0: topo_route_graph() counts */
    uint32_t sets;   /* port sets of all routes together; switches may share them */
};

/**
 * topo_graph_new - a graph with nothing plugged in and all routes empty.
 * @sets: where the port sets lie, for the generator to hand to its routes; or NULL.
 *
 * One allocation. Returns NULL when there is no memory.
 */
struct topo_graph *topo_graph_new(const struct topo_size *size, emu_ports **sets);

/**
 * topo_ports_fit - can this program's sets of ports hold @ports ports? Errors: -EOVERFLOW, with one
 * line in @why.
 */
int topo_ports_fit(uint32_t ports, char *why, size_t why_bytes);

/** topo_plug_node - plug the next link of @node into a free port. */
void topo_plug_node(struct topo_graph *graph, uint32_t node, uint32_t sw, uint32_t port);

/** topo_plug_cable - plug a cable between two free ports of two switches. */
void topo_plug_cable(struct topo_graph *graph, uint32_t a, uint32_t a_port, uint32_t b,
                     uint32_t b_port);

/* Pairs of a switch with nodes and a destination that no route joins. */
struct topo_gap {
    uint64_t pairs;
    uint32_t src; /* nodes of the first pair */
    uint32_t dst;
};

/**
 * topo_route_graph - compute all routes from cables and levels: shortest of those that go up and
 * then down, and down as soon as they can; every port that begins one is a candidate. So a
 * segment that has come down never goes up again, and routes are free of deadlock.
 * Sets levels, longest, and every switch's low and high, too.
 * @gap: pairs without a route: they have no candidates.
 *
 * Cost:   switches x clusters x ports steps, and 8 bytes for each switch and cluster meanwhile.
 * Errors: -ENOMEM; -E2BIG with constant text in *why: beyond TOPO_ROUTES_MAX, or too irregular.
 * Source: Schroeder et al., Autonet (up-star, down-star routes).
 */
int topo_route_graph(struct topo_graph *graph, struct topo_gap *gap, const char **why);

/* switches x clusters: 512 MB while routes are made */
#if EMU_PORT_WORDS == 1
#define TOPO_ROUTES_MAX 67108864
#else
#define TOPO_ROUTES_MAX 16777216
#endif

/**
 * topo_find_levels - levels for cables of any shape: by the distance from the nodes, or, where
 * that parts nodes or makes ways longer than they need be, from one switch in the middle.
 * Errors: -ENOMEM. A network in pieces gets levels all the same: topo_route_graph() tells.
 */
int topo_find_levels(struct topo_graph *graph);

/**
 * topo_name_switch - what to call a switch in a message: its number, or its name in the file.
 * Returns @text.
 */
const char *topo_name_switch(const struct topo_graph *graph, uint32_t sw, char text[static 80]);
const char *topo_name_node(const struct topo_graph *graph, uint32_t node, char text[static 80]);

/** topo_port_number - a port's number in a message: from 0, or as the file has it. */
uint32_t topo_port_number(const struct topo_graph *graph, uint32_t sw, uint32_t port);

/* A generator: builds what @args, the SPEC behind its colon, says. In @why: room for one line. */
typedef int topo_generator(struct topo_graph **ret, const char *args, char *why, size_t why_bytes);

topo_generator topo_kary;  /* "4,2" */
topo_generator topo_qsnet; /* "1024,links=2" */
topo_generator topo_clos;  /* "down=16x32,up=16" */

/** topo_build - graph from a generator's cables: routes, and no gaps. Frees it on failure. */
int topo_build(struct topo_graph **ret, struct topo_graph *graph, char *why, size_t why_bytes);

/** topo_load - topo_read() of the file @name. */
int topo_load(struct topo_graph **ret, const char *name, char *error, size_t error_bytes);

/**
 * topo_line - all switches in an order in which those that exchange most traffic are near each
 * other. NULL: there is no memory; else the caller's to free.
 */
uint32_t *topo_line(const struct topo_graph *graph);

/* --- scan.c: SPECs are numbers, names and commas ------------------------------------ */

/** topo_scan_number - digits at *@at, which moves past them; too large becomes UINT32_MAX. */
bool topo_scan_number(const char **at, uint32_t *ret);

/** topo_scan_word - @word at *@at, which moves past it. */
bool topo_scan_word(const char **at, const char *word);

#endif
