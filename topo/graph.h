/* SPDX-License-Identifier: BSD-3-Clause */
/* graph.h - functions by which generators build a graph. Inside topo/ only. */
#ifndef TOPO_GRAPH_H
#define TOPO_GRAPH_H

#include "topo/topo.h"

#define TOPO_ERROR_BYTES 320 /* size of one line that says what is wrong, without the SPEC */

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x) /* a macro's value as a string literal */

struct topo_size {
    uint32_t nodes;
    uint32_t switches;
    uint32_t ports;  /* per switch */
    uint32_t levels; /* 0: unknown; topo_route_graph() counts them */
    uint32_t sets;   /* port sets of all routes together; switches may share sets */
};

/**
 * topo_graph_new - make a graph without cables and with empty routes, in one allocation. NULL: no
 * memory. @sets: gets the array of port sets for the generator's routes; may be NULL.
 */
struct topo_graph *topo_graph_new(const struct topo_size *size, emu_ports **sets);

/**
 * topo_ports_fit - check that this program's port sets can contain @ports ports. Errors:
 * -EOVERFLOW, with one line in @why.
 */
int topo_ports_fit(uint32_t ports, char *why, size_t why_bytes);

/** topo_plug_node - plug the next link of @node into a free port. */
void topo_plug_node(struct topo_graph *graph, uint32_t node, uint32_t sw, uint32_t port);

/** topo_plug_cable - connect free ports of two switches. */
void topo_plug_cable(struct topo_graph *graph, uint32_t a, uint32_t a_port, uint32_t b,
                     uint32_t b_port);

/* Missing routes. */
struct topo_gap {
    /* number of pairs of a switch with nodes and a destination to which the switch has no route */
    uint64_t pairs;
    uint32_t src; /* a node at the switch of the first pair */
    uint32_t dst; /* the destination of the first pair */
};

/**
 * topo_route_graph - compute all routes from cables and levels. A route goes up, then down, and
 * goes down as soon as it can. The shortest of these routes are used, and every port at which one
 * of them begins is a candidate. Because a segment that has come down never goes up again, routes
 * are free of deadlock. Also sets levels, longest, and every switch's low and high.
 * @gap: gets the missing routes.
 * Cost: switches x clusters x ports steps, and temporarily 8 bytes of memory for each pair of a
 * switch and a cluster (the nodes with the same switches). Errors: -ENOMEM; -E2BIG, there are more
 * than TOPO_ROUTES_MAX pairs, or the network is too irregular. On failure *why is a constant text.
 * Source: Schroeder et al., Autonet (up-star, down-star routes).
 */
int topo_route_graph(struct topo_graph *graph, struct topo_gap *gap, const char **why);

/* Limit of the number of pairs of a switch and a cluster. */
#if EMU_PORT_WORDS == 1
#define TOPO_ROUTES_MAX 67108864
#else
#define TOPO_ROUTES_MAX 16777216
#endif

/**
 * topo_find_levels - find levels for any cables, by several guesses (levels.c). A network that is
 * not connected gets levels, too; topo_route_graph() reports the missing routes. Errors: -ENOMEM.
 */
int topo_find_levels(struct topo_graph *graph);

/* A generator builds a graph from @args, the SPEC after the colon. @why: gets a line on failure. */
typedef int topo_generator(struct topo_graph **ret, const char *args, char *why, size_t why_bytes);

topo_generator topo_kary;  /* "4,2" */
topo_generator topo_qsnet; /* "1024,links=2" */
topo_generator topo_clos;  /* "down=16x32,up=16" */

/**
 * topo_build - compute the routes of @graph and check that none is missing. Frees @graph on
 * failure. @graph may be NULL: no memory. @why: gets one line on failure.
 */
int topo_build(struct topo_graph **ret, struct topo_graph *graph, char *why, size_t why_bytes);

/** topo_load - do topo_read() with the text of the file @name. */
int topo_load(struct topo_graph **ret, const char *name, char *error, size_t error_bytes);

/**
 * topo_order - return an array of all switches in which switches with much mutual traffic are close
 * together. The caller frees it. NULL: no memory.
 */
uint32_t *topo_order(const struct topo_graph *graph);

/* --- parsing SPECs: numbers, names and commas (spec.c) ------------------------------ */

/**
 * topo_scan_number - scan digits at *@at and advance *@at behind them. Numbers above UINT32_MAX
 * become UINT32_MAX. Returns false if there is no digit.
 */
bool topo_scan_number(const char **at, uint32_t *ret);

/** topo_scan_word - if @word is at *@at, advance *@at behind it and return true. */
bool topo_scan_word(const char **at, const char *word);

#endif
