/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo.h - graphs of nodes, switches and cables; routes; collective trees.
 *
 * Pure functions on data: no threads, no clocks. A graph does not change once it is built and may
 * then be read by any thread.
 */
#ifndef TOPO_TOPO_H
#define TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "emu/util/ports.h"

#define TOPO_NONE           UINT32_MAX
#define TOPO_NODE_LINKS_MAX 4
#define TOPO_NODES_MAX      1048576
#define TOPO_SPEC_BYTES     256

/*
 * Most ports of a switch: in this program (some numbers of a set are for combine units), and in the
 * program for large switches (emu/util/ports.h).
 */
#define TOPO_PORTS_WIDE 252
#if EMU_PORT_WORDS == 1
#define TOPO_PORTS_MAX 60
#else
#define TOPO_PORTS_MAX TOPO_PORTS_WIDE
#endif

enum topo_end_kind {
    TOPO_END_NONE, /* no cable */
    TOPO_END_NODE,
    TOPO_END_SWITCH
};

/* The other end of a port's cable. */
struct topo_end {
    uint8_t kind;   /* enum topo_end_kind */
    uint8_t port;   /* port of the switch, or link of the node */
    uint8_t number; /* of this port in the file; 0: no file */
    uint8_t rate;   /* of the cable, the same at both ends: topo_rate_ps(); 0: unknown */
    uint32_t id;    /* node or switch */
};

#define TOPO_MEMBER_BITS 8      /* nodes with the same switches: fewer than 256 */
#define TOPO_PER_MEMBER  0x8000 /* in set_of[]: one set per member from there on */

/*
 * The routing table of a switch: a set of candidate ports for each destination, in one of two
 * forms.
 *
 * Regular: destinations [first, first + span) are below the switch, in blocks of stride nodes. Each
 * block has a set. All other destinations have the set `elsewhere`, the up ports.
 *
 * General (span is 0, set_of is not NULL): nodes with the same switches are a cluster and share a
 * set. Only in those switches themselves each node has a set of its own, found by its index in the
 * cluster.
 */
struct topo_route {
    uint32_t first;  /* node */
    uint32_t span;   /* nodes; a multiple of stride, or up to the last node */
    uint32_t stride; /* nodes per block, at least 1 */
    /* switches that a path up to here has chosen among, in all; at least 1 */
    uint32_t spread;
    uint32_t set_count;  /* general: number of sets */
    emu_ports elsewhere; /* candidate ports; 0: unreachable, or the general form */
    /* one per block, or those that set_of[] names; switches may share them */
    emu_ports *sets;
    const uint16_t
        *set_of; /* general, by cluster: index into sets; TOPO_PER_MEMBER: first of many */
    /* general, by node: its cluster << TOPO_MEMBER_BITS | index in it */
    const uint32_t *where;
};

struct topo_switch {
    uint32_t level; /* cables lead up to higher levels, never to the same */
    /* nodes below are within low to high, inclusive; none: low > high */
    uint32_t low, high;
    uint32_t ports;       /* including unused ones, from the file; 0: no file */
    struct topo_end *end; /* graph->ports elements */
    struct topo_route route;
};

/* Where a link of a node is plugged in. */
struct topo_link {
    uint32_t sw; /* TOPO_NONE: removed by topo_without() */
    uint8_t port;
    uint8_t number; /* of the adapter's port in the file; 0: no file */
};

struct topo_node {
    uint8_t links; /* 1 to TOPO_NODE_LINKS_MAX */
    uint8_t ports; /* of its adapter in the file; 0: no file */
    struct topo_link link[TOPO_NODE_LINKS_MAX];
};

/* How the levels were found. */
enum topo_up {
    TOPO_UP_KNOWN,    /* by the generator or the file */
    TOPO_UP_DISTANCE, /* guesses of topo_find_levels(), docs/topo.md */
    TOPO_UP_FLIPPED,
    TOPO_UP_ANY,
    TOPO_UP_MIDDLE
};

/** topo_up_name, topo_up_text - @up for programs ("middle") and for people. Pure. */
const char *topo_up_name(enum topo_up up);
const char *topo_up_text(enum topo_up up);

/* What a QsNet III network is built from, and what was ignored in a file. */
struct topo_parts {
    uint32_t node_chassis; /* 0: chassis are unknown */
    uint32_t top_chassis;
    uint32_t top_switches; /* in the paper's sense: several may share a router */
    uint32_t top_cables;   /* between chassis */
    uint32_t backplane;    /* links inside chassis, which are no cables */
    uint32_t left_out;     /* devices that are neither nodes nor switches */
    uint32_t loops;        /* cables from a switch to itself */
};

/*
 * Names of a switch or node in a file. The texts are UTF-8 of at most TOPO_NAME_MAX bytes without
 * control characters; each is an offset in label_text.
 */
struct topo_label {
    /* unique, for people: the host, else the title, else the identity: file_label.c */
    uint32_t name;
    uint32_t id;    /* the identity: "H-0002c903000e0b72" */
    uint32_t title; /* the device's description, "node01 HCA-1"; may be "" */
    uint64_t guid;  /* 0: not in the file */
};

#define TOPO_NAME_MAX 63

struct topo_graph {
    /* canonical SPEC, such as "kary:4,2"; or the end of a file's name */
    char spec[TOPO_SPEC_BYTES];
    uint32_t nodes;
    uint32_t switches;
    uint32_t ports; /* external ports of each switch */
    uint32_t levels;
    uint32_t longest; /* switches on the longest route */
    enum topo_up up;
    struct topo_switch *sw; /* `switches` elements */
    struct topo_node *node; /* `nodes` elements */
    struct topo_parts parts;
    /* switches, then nodes; one allocation with the texts. NULL: the network is not from a file */
    const struct topo_label *label;
    const char *label_text;
    size_t label_bytes; /* of that allocation */
    void *slab;         /* allocation of the graph and the arrays above */
    void *routes;       /* sets and tables made later */
    size_t bytes;       /* memory in total */
};

/**
 * topo_parse - build the network that a SPEC names: docs/topo.md lists them.
 * @spec: "kary:K,N", "qsnet:N...", "clos:..."; or a file in ibnetdiscover's format, if it has a '/'
 * or ends in .topo, .txt or .net.
 * @error: on failure, one line for the user: what is wrong with the SPEC and what would be right.
 * Generated networks are free of deadlock by construction; a file is checked (topo_check()).
 * Errors: -EINVAL, the SPEC or the file is wrong; -ENOMEM; -E2BIG, too large; -EIO, the file cannot
 * be read; -EHOSTUNREACH, nodes without a route; -EDEADLK; -EOVERFLOW, switches with more ports
 * than TOPO_PORTS_MAX, and no more than TOPO_PORTS_WIDE.
 * Source: output-queued routers §2.2; Petrini and Vanneschi, k-ary n-trees; QsNet III §V.
 */
int topo_parse(struct topo_graph **ret, const char *spec, char *error, size_t error_bytes);

/** topo_machine - the machine that a SPEC's kind is named after ("qsnet3"), or NULL. Pure. */
const char *topo_machine(const char *spec);

/**
 * topo_read - build a network from @text in ibnetdiscover's format.
 * @name: of the file, for messages and graph->spec. Errors: as topo_parse(), with the line if
 * known.
 */
int topo_read(struct topo_graph **ret, const char *name, const char *text, size_t bytes,
              char *error, size_t error_bytes);

/** topo_write - write a network so that topo_read() returns the same graph. Errors: -EIO. */
int topo_write(const struct topo_graph *graph, FILE *to);

/**
 * topo_label_name - the name of switch @i, or, from graph->switches on, of a node; NULL: no file.
 */
static inline const char *topo_label_name(const struct topo_graph *graph, uint32_t i)
{
    return graph->label ? graph->label_text + graph->label[i].name : NULL;
}

/** topo_switch_name, topo_node_name - the same for a switch or a node. */
static inline const char *topo_switch_name(const struct topo_graph *graph, uint32_t sw)
{
    return topo_label_name(graph, sw);
}

static inline const char *topo_node_name(const struct topo_graph *graph, uint32_t node)
{
    return topo_label_name(graph, graph->switches + node);
}

#define TOPO_SHOWN_BYTES 96

/** topo_show_switch, topo_show_node - for people: "switch 3" or "switch 3 (leaf1)", in @text. */
const char *topo_show_switch(const struct topo_graph *graph, uint32_t sw,
                             char text[static TOPO_SHOWN_BYTES]);
const char *topo_show_node(const struct topo_graph *graph, uint32_t node,
                           char text[static TOPO_SHOWN_BYTES]);

#define TOPO_CABLE_BYTES (2 * TOPO_NAME_MAX + 16)

/** topo_show_cable - a cable's ends in the file: " (leaf1:5, node01:1)", or "". In @text. */
const char *topo_show_cable(const struct topo_graph *graph, uint32_t sw, uint32_t port,
                            char text[static TOPO_CABLE_BYTES]);

/** topo_find_switch, topo_find_node - find by name or identity; TOPO_NONE: none. Cost: linear. */
uint32_t topo_find_switch(const struct topo_graph *graph, const char *name, size_t length);
uint32_t topo_find_node(const struct topo_graph *graph, const char *name, size_t length);

/* --- rates of cables (rate.c) ------------------------------------------------------- */

#define TOPO_RATES 46 /* rates of cables, including unknown */

/** topo_rate_scan - the rate named @text ("4xFDR", "2xhdr"); 0: none. Pure. */
uint8_t topo_rate_scan(const char *text, size_t length);

/** topo_rate_name - the name of @rate. Returns @text. Pure. */
const char *topo_rate_name(uint8_t rate, char text[static 16]);

/**
 * topo_rate_ps - ps per byte of data, rounded: the line rate less its coding (8b/10b up to QDR,
 * 64b/66b from FDR on). 0: unknown. Pure.
 * Source: InfiniBand Architecture Specification, volume 1, "Link Width" and "Link Speed".
 */
uint32_t topo_rate_ps(uint8_t rate);

/* Rates of a network's cables. */
struct topo_rates {
    uint32_t cables[TOPO_RATES]; /* by rate */
    uint8_t fastest;             /* 0: all rates are unknown */
};

/** topo_rates - count the cables by rate. Pure. */
void topo_rates(const struct topo_graph *graph, struct topo_rates *ret);

/**
 * topo_spec_for_nodes - the SPEC of a tree for @nodes nodes: two levels while the radix allows (k
 * up to 16), then more levels of k = 16. Errors: -EINVAL with one line in @error.
 */
int topo_spec_for_nodes(uint32_t nodes, char *spec, size_t spec_bytes, char *error,
                        size_t error_bytes);

void topo_free(struct topo_graph *graph);

/* topo_route_ports() of the general form. */
static inline emu_ports topo_route_lookup(const struct topo_route *route, uint32_t dst)
{
    uint32_t where = route->where[dst];
    uint32_t set = route->set_of[where >> TOPO_MEMBER_BITS];

    if (set & TOPO_PER_MEMBER)
        set = (set & ~(uint32_t)TOPO_PER_MEMBER) + (where & ((1u << TOPO_MEMBER_BITS) - 1));
    return route->sets[set];
}

/*
 * The block of node first + @off. Most strides are powers of two; always dividing would make a hop
 * on clock raw take 5 % longer.
 */
static inline uint32_t topo_route_block(const struct topo_route *route, uint32_t off)
{
    return emu_bits_several(route->stride) ? off / route->stride
                                           : off >> emu_bits_first(route->stride);
}

/**
 * topo_route_ports - candidate output ports towards node @dst, 0 if none: every port that begins a
 * shortest path to any of the node's links. Paths go up, then down, and down as soon as the node is
 * below. Inline: the switch's hot path.
 */
static inline emu_ports topo_route_ports(const struct topo_route *route, uint32_t dst)
{
    uint32_t off = dst - route->first; /* below first it wraps to a large number */

    if (off < route->span)
        return route->sets[topo_route_block(route, off)];
    /* in this order, so that regular tables read no more */
    if (emu_ports_any(route->elsewhere) || !route->set_of)
        return route->elsewhere;
    return topo_route_lookup(route, dst);
}

/* The extent of a check. */
struct topo_checked {
    uint64_t cables;   /* to nodes and between switches */
    uint64_t routes;   /* pairs of a switch and a destination */
    uint64_t channels; /* directions of cables between switches */
    uint64_t waits;    /* pairs of channels: a segment may hold one and wait for the other */
    /* too large to list waits; checked that all routes go up, then down */
    bool by_levels;
};

/**
 * topo_check - verify a graph: cables agree at both ends; from every node every route arrives,
 * whichever candidates are chosen; and nothing can deadlock.
 *
 * Deadlock: a segment that arrived on one channel (a direction of a cable) and wants another waits
 * with the first one's buffer for the second one's. The graph of those waits must have no cycle:
 * waits of routes (every candidate), of multicasts and results (any tree that topo_tree_build() may
 * build), of contributions (they end at the next combine unit, which is a sink). A cycle is named.
 * @what: the extent of the check, or NULL.
 * Cost: switches x nodes lookups and switches x clusters x ports steps: below 1 s for 16384 nodes.
 * Beyond 2^28 lookups, if all routes are regular, levels prove it with one check of each port set.
 * Errors: -EINVAL, -EDEADLK, -ENOMEM with one line in @error.
 * Source: Dally and Seitz, deadlock-free routing; here with candidates, multicast and combining.
 */
int topo_check(const struct topo_graph *graph, struct topo_checked *what, char *error,
               size_t error_bytes);

/** topo_below - does the route from switch @sw to node @node only go down? */
static inline bool topo_below(const struct topo_graph *graph, uint32_t sw, uint32_t node)
{
    const struct topo_switch *at = &graph->sw[sw];
    emu_ports ports = topo_route_ports(&at->route, node);

    if (!emu_ports_any(ports))
        return false;
    const struct topo_end *end = &at->end[emu_ports_first(ports)];
    return end->kind == TOPO_END_NODE || graph->sw[end->id].level < at->level;
}

/* One end of a cable. */
struct topo_at {
    uint32_t sw;
    uint32_t port;
};

/**
 * topo_without - copy the network without some cables: levels stay, routes are recomputed.
 * @cut: one end of each cable, at a switch.
 * @unreachable: gets the number of pairs of a switch with nodes and a destination without a route.
 * Errors: -EINVAL, an end has no cable; -ENOMEM; -E2BIG.
 */
int topo_without(struct topo_graph **ret, const struct topo_graph *graph, const struct topo_at *cut,
                 uint32_t count, uint64_t *unreachable);

/** topo_hops - switches on the path from @src's first link to @dst; 0: no path. */
uint32_t topo_hops(const struct topo_graph *graph, uint32_t src, uint32_t dst);

/* One switch of a collective tree. */
struct topo_tree_switch {
    uint32_t sw;
    int16_t up;      /* port towards the root; -1 at the root */
    emu_ports ports; /* all ports of the tree at this switch, up included */
};

/* A collective tree: undirected; switches[0] is the root. */
struct topo_tree {
    uint32_t count;
    struct topo_tree_switch *switches;
};

/**
 * topo_tree_build - the paper's buildTree (§2.1), with its gaps closed: climb from the first
 * member's switch to one that spans all members, by the least loaded parent, then descend to the
 * members; both ends of every tree edge are set once. A parent from which no spanning switch can be
 * reached is abandoned for the next. A member with several links uses one: topo_tree_link().
 * @members: distinct nodes, at least 2. @load: per switch, trees through it; see
 * topo_tree_charge().
 * Errors: -EINVAL, a member is out of range or repeated; -EHOSTUNREACH, no switch spans them all
 * (in a damaged network); -ENOMEM.
 * Among equally loaded parents the lowest port is taken: same input, same tree.
 */
int topo_tree_build(struct topo_tree *tree, const struct topo_graph *graph, const uint32_t *members,
                    uint32_t count, const uint32_t *load);

/** topo_tree_link - the link by which @node is in the tree; TOPO_NONE: it is not. */
uint32_t topo_tree_link(const struct topo_tree *tree, const struct topo_graph *graph,
                        uint32_t node);

/** topo_tree_charge - add @delta (+1 or -1) to the load of each switch of the tree. */
void topo_tree_charge(const struct topo_tree *tree, uint32_t *load, int delta);

void topo_tree_release(struct topo_tree *tree);

/**
 * topo_partition - assign switches to @workers workers so that those with much mutual traffic share
 * a worker; numbers differ by one at most. @workers: at least 1; those beyond the number of
 * switches get none. @worker_of: gets graph->switches elements.
 */
void topo_partition(const struct topo_graph *graph, uint32_t workers, uint32_t *worker_of);

/** topo_partition_of_host - the same for the switches of @host (topo_cut()); others: TOPO_NONE. */
void topo_partition_of_host(const struct topo_graph *graph, const uint32_t *host_of, uint32_t host,
                            uint32_t workers, uint32_t *worker_of);

/* Statistics of segments between random nodes: */
struct topo_crossings {
    uint64_t segments; /* number of segments */
    uint64_t cables;   /* hops from switch to switch */
    uint64_t others;   /* of those, hops between workers */
};

/**
 * topo_partition_crossings - estimate a partition's cost: a cable between two workers moves cache
 * lines between cores. @worker_of: from topo_partition(). Pure.
 */
void topo_partition_crossings(const struct topo_graph *graph, const uint32_t *worker_of,
                              struct topo_crossings *ret);

/* --- several hosts share a network -------------------------------------------------- */

#define TOPO_HOSTS_MAX 64

/** topo_first_link - the first link not removed. Its switch's host and worker are the node's. */
static inline const struct topo_link *topo_first_link(const struct topo_graph *graph, uint32_t node)
{
    const struct topo_link *link = graph->node[node].link;

    while (link->sw == TOPO_NONE)
        link++;
    return link;
}

/**
 * topo_cut - assign the switches to @hosts hosts: each gets its share of the nodes, to within the
 * nodes of one switch, and of the switches, to within two if possible; few cables cross, and
 * similar numbers between any two hosts. Deterministic.
 * @share: by host, above 0: twice the share gets twice the nodes; NULL: equal shares.
 * @host_of: gets graph->switches elements.
 * A local search that stops where no exchange of two switches is better: optimal for regular trees,
 * good for others. Every host gets a switch, and one with nodes, even if that is more than its
 * share; if fewer switches have nodes than there are hosts, the first hosts get one each.
 * Cost: switches x hosts, and exchanges: below 1 s for 4096 switches.
 * Errors: -EINVAL, no host, or more than switches or TOPO_HOSTS_MAX, with one line in @error;
 * -ENOMEM.
 * Source: Kernighan and Lin, An efficient heuristic procedure for partitioning graphs.
 */
int topo_cut(const struct topo_graph *graph, uint32_t hosts, const uint32_t *share,
             uint32_t *host_of, char *error, size_t error_bytes);

/**
 * topo_cut_cables - count cables that cross between hosts. A node's cable crosses if its switch is
 * on another host than the node. @between: gets hosts x hosts counts, in both orders; may be NULL.
 */
uint32_t topo_cut_cables(const struct topo_graph *graph, const uint32_t *host_of, uint32_t hosts,
                         uint32_t *between);

#endif
