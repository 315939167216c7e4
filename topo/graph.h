/* SPDX-License-Identifier: BSD-3-Clause */
/* graph.h - functions that generators build a graph with. Inside topo/ only. */
#ifndef TOPO_GRAPH_H
#define TOPO_GRAPH_H

#include "topo/topo.h"

#define TOPO_ERROR_BYTES 320 /* for one line with the reason, without the SPEC */

/* A macro's value as a string literal. */
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

/* Sizes of a graph. */
struct topo_size {
    uint32_t nodes;
    uint32_t switches;
    uint32_t ports;  /* per switch */
    uint32_t levels; /* 0: unknown, topo_route_graph() counts them */
    uint32_t sets;   /* port sets of all routes; switches may share them */
};

/**
 * topo_graph_new - a graph without cables and with empty routes, in one allocation. NULL: no
 * memory. @sets: gets the array of port sets for the generator's routes; may be NULL.
 */
struct topo_graph *topo_graph_new(const struct topo_size *size, emu_ports **sets);

/**
 * topo_ports_fit - can this program's port sets hold @ports ports? Errors: -EOVERFLOW, @why is set.
 */
int topo_ports_fit(uint32_t ports, char *why, size_t why_bytes);

/** topo_plug_node - plug the next link of @node into a free port. */
void topo_plug_node(struct topo_graph *graph, uint32_t node, uint32_t sw, uint32_t port);

/** topo_plug_cable - connect free ports of two switches. */
void topo_plug_cable(struct topo_graph *graph, uint32_t a, uint32_t a_port, uint32_t b,
                     uint32_t b_port);

/* Pairs of a switch with nodes and a destination without a route. */
struct topo_gap {
    uint64_t pairs;
    uint32_t src; /* nodes of the first pair */
    uint32_t dst;
};

/**
 * topo_route_graph - compute all routes from cables and levels: the shortest of those that go up,
 * then down, and down as soon as they can. Every port that begins one is a candidate. So a segment
 * that has come down never goes up again, and routes are free of deadlock. Also sets levels,
 * longest, and every switch's low and high.
 * @gap: pairs without a route.
 * Cost: switches x clusters x ports steps, and 8 bytes for each switch and cluster meanwhile.
 * Errors: -ENOMEM; -E2BIG with constant text in *why: beyond TOPO_ROUTES_MAX, or too irregular.
 * Source: Schroeder et al., Autonet (up-star, down-star routes).
 */
int topo_route_graph(struct topo_graph *graph, struct topo_gap *gap, const char **why);

/* switches x clusters: 512 MB while routes are computed */
#if EMU_PORT_WORDS == 1
#define TOPO_ROUTES_MAX 67108864
#else
#define TOPO_ROUTES_MAX 16777216
#endif

/**
 * topo_find_levels - find levels for any cables: by the distance from nodes or, if that leaves
 * pairs without routes or makes paths longer than necessary, from a central switch. A disconnected
 * network gets levels, too; topo_route_graph() reports it. Errors: -ENOMEM.
 */
int topo_find_levels(struct topo_graph *graph);

/** topo_port_number - a port's number in a message: from 0, or as in the file. */
uint32_t topo_port_number(const struct topo_graph *graph, uint32_t sw, uint32_t port);

/*
 * A generator builds a graph from @args, the SPEC after its colon. @why: gets one line on failure.
 */
typedef int topo_generator(struct topo_graph **ret, const char *args, char *why, size_t why_bytes);

topo_generator topo_kary;  /* "4,2" */
topo_generator topo_qsnet; /* "1024,links=2" */
topo_generator topo_clos;  /* "down=16x32,up=16" */

/** topo_build - compute routes and check that none is missing. Frees @graph on failure. */
int topo_build(struct topo_graph **ret, struct topo_graph *graph, char *why, size_t why_bytes);

/** topo_load - topo_read() of the file @name. */
int topo_load(struct topo_graph **ret, const char *name, char *error, size_t error_bytes);

/** topo_order - all switches, those with much mutual traffic close together. NULL: no memory. */
uint32_t *topo_order(const struct topo_graph *graph);

/* --- parsing SPECs: numbers, names and commas (spec.c) ------------------------------ */

/** topo_scan_number - scan digits at *@at and advance it; large numbers become UINT32_MAX. */
bool topo_scan_number(const char **at, uint32_t *ret);

/** topo_scan_word - scan @word at *@at and advance it. */
bool topo_scan_word(const char **at, const char *word);

#endif
