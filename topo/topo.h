/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo.h - graphs of nodes, switches and cables; routes; collective trees.
 *
 * Pure functions on data: no threads, no clocks. A graph does not change once
 * it is built and may then be read by any thread.
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
 * The most ports of a switch: in this program (some numbers of a set are for combine units), and in
 * the program for large switches (emu/util/ports.h).
 */
#define TOPO_PORTS_WIDE 252
#if EMU_PORT_WORDS == 1
#define TOPO_PORTS_MAX 60
#else
#define TOPO_PORTS_MAX TOPO_PORTS_WIDE
#endif

enum topo_end_kind {
    TOPO_END_NONE, /* nothing plugged in */
    TOPO_END_NODE,
    TOPO_END_SWITCH
};

/* What sits at the far end of a port. */
struct topo_end {
    uint8_t kind;   /* enum topo_end_kind */
    uint8_t port;   /* far port when the far end is a switch, the node's link when it is a node */
    uint8_t number; /* of this port, as a file calls it; 0: there is no file */
    uint8_t rate;   /* of the cable, the same at both ends: topo_rate_ps(); 0: not known */
    uint32_t id;    /* node or switch */
};

#define TOPO_SEAT_BITS 8      /* nodes plugged into the same switches: fewer than 256 */
#define TOPO_SEATED    0x8000 /* in set_of[]: one set a seat, from there on */

/*
 * How a switch finds its way: to each destination a set of candidate ports, a bit vector. A table
 * has one of two forms, whichever fits the network.
 *
 * Regular: destinations [first, first + span) lie below the switch, in blocks of stride nodes. Each
 * block has a set. All other destinations have the set `elsewhere`, the up ports.
 *
 * General (span is 0, set_of is not NULL): nodes that are plugged into the same switches are a
 * cluster, and share a set. Only in those switches themselves has each of the nodes a set of its
 * own, found by its seat in the cluster.
 */
struct topo_route {
    uint32_t first;  /* nodes */
    uint32_t span;   /* nodes; a multiple of stride, or up to the last node */
    uint32_t stride; /* nodes a block, at least 1 */
    /* switches that one way up from a node to here chooses among, in all; 1 */
    uint32_t spread;
    uint32_t set_count;  /* general: of sets */
    emu_ports elsewhere; /* candidate ports; 0: unreachable, or the general form */
    /* a set a block, or those that set_of[] names; switches may share them */
    emu_ports *sets;
    const uint16_t *set_of; /* general, by cluster: index into sets, TOPO_SEATED: plus the seat */
    /* general, by node: its cluster << TOPO_SEAT_BITS, and its seat there */
    const uint32_t *where;
};

struct topo_switch {
    uint32_t level; /* up is where this is greater: a cable never joins equal levels */
    /* the nodes below lie within low to high, both included; none: low > high */
    uint32_t low, high;
    uint32_t ports;       /* with those that have no cable, as a file says; 0: there is no file */
    struct topo_end *end; /* graph->ports of them */
    struct topo_route route;
};

/* Where a link of a node is plugged in. */
struct topo_link {
    uint32_t sw; /* TOPO_NONE: cut, see topo_without() */
    uint8_t port;
    uint8_t number; /* of the adapter's port, as a file calls it; 0: there is no file */
};

struct topo_node {
    uint8_t links; /* 1 to TOPO_NODE_LINKS_MAX */
    uint8_t ports; /* of its adapter, as a file says; 0: there is no file */
    struct topo_link link[TOPO_NODE_LINKS_MAX];
};

/* How it came to be known which way is up. */
enum topo_up {
    TOPO_UP_KNOWN,    /* a generator, or the file, said so */
    TOPO_UP_DISTANCE, /* guesses of topo_find_levels(), docs/topo.md */
    TOPO_UP_TURNED,
    TOPO_UP_ANY,
    TOPO_UP_MIDDLE
};

/**
 * topo_up_name, topo_up_text - the name of @up for programs ("middle"), and its text for people.
 * Pure.
 */
const char *topo_up_name(enum topo_up up);
const char *topo_up_text(enum topo_up up);

/* What a network is built from, where more is known of it than switches and cables (QsNet III). */
struct topo_parts {
    uint32_t node_chassis; /* 0: nothing is known of chassis */
    uint32_t top_chassis;
    uint32_t top_switches; /* the paper's: several may share a router */
    uint32_t top_cables;   /* between chassis */
    uint32_t backplane;    /* links inside chassis: no cables */
    uint32_t left_out;     /* devices of a file that are neither nodes nor switches */
    uint32_t loops;        /* cables of a file from a switch to itself, left out */
};

/*
 * What a file says of a switch or a node. The texts are clean: UTF-8 of at most TOPO_NAME_MAX bytes
 * without control characters. Each is an offset in label_text.
 */
struct topo_label {
    uint32_t name;  /* for people, unique: the host if only one device has it, else the title if it
                       is unique, else the identity */
    uint32_t id;    /* the identity: "H-0002c903000e0b72" */
    uint32_t title; /* the device's description, "node01 HCA-1"; "": the file has none */
    uint64_t guid;  /* 0: the file has none */
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
    struct topo_switch *sw; /* switches of them */
    struct topo_node *node; /* nodes of them */
    struct topo_parts parts;
    /*
     * by switch, then by node; in one piece of memory with the texts. NULL: the network is not from
     * a file
     */
    const struct topo_label *label;
    const char *label_text;
    size_t label_bytes; /* of that memory */
    void *slab;         /* what the graph and the arrays above lie in */
    void *routes;       /* sets and tables that were not there when the slab was made */
    size_t bytes;       /* memory that all of it takes */
};

/**
 * topo_parse - build the network that a SPEC names: docs/topo.md lists them.
 * @spec: "kary:K,N", "qsnet:N...", "clos:..."; or a file in the format of ibnetdiscover, if it has
 *         a '/' or ends in .topo, .txt or .net.
 * @error: on failure, one line for the user that says what is wrong with the
 *         SPEC and what would be right.
 *
 * What comes from a generator is free of deadlock by construction; a file is checked
 * (topo_check()).
 * Errors: -EINVAL, the SPEC or the file is wrong; -ENOMEM; -E2BIG, beyond what can be addressed;
 *         -EIO, the file cannot be read; -EHOSTUNREACH, nodes that no route joins; -EDEADLK;
 *         -EOVERFLOW, switches with more ports than TOPO_PORTS_MAX, and no more than
 *         TOPO_PORTS_WIDE.
 * Source: output-queued routers §2.2; Petrini and Vanneschi, k-ary n-trees; QsNet III §V.
 */
int topo_parse(struct topo_graph **ret, const char *spec, char *error, size_t error_bytes);

/** topo_machine - the machine after which a SPEC's kind is named ("qsnet3"), or NULL. Pure. */
const char *topo_machine(const char *spec);

/**
 * topo_read - build the network that @text describes, in the format of ibnetdiscover.
 * @name: of the file, for messages and for graph->spec.
 *
 * Errors: as topo_parse(); the line names the text's line where there is one.
 */
int topo_read(struct topo_graph **ret, const char *name, const char *text, size_t bytes,
              char *error, size_t error_bytes);

/**
 * topo_write - write a network as topo_read() reads it: the same graph comes back.
 * Errors: -EIO.
 */
int topo_write(const struct topo_graph *graph, FILE *to);

/**
 * topo_label_name - the name of switch @i, or, from graph->switches on, of a node, from the
 * network's file. NULL: there is no file.
 */
static inline const char *topo_label_name(const struct topo_graph *graph, uint32_t i)
{
    return graph->label ? graph->label_text + graph->label[i].name : NULL;
}

/** topo_switch_name, topo_node_name - the same for a switch, and for a node. */
static inline const char *topo_switch_name(const struct topo_graph *graph, uint32_t sw)
{
    return topo_label_name(graph, sw);
}

static inline const char *topo_node_name(const struct topo_graph *graph, uint32_t node)
{
    return topo_label_name(graph, graph->switches + node);
}

#define TOPO_SHOWN_BYTES 96

/**
 * topo_show_switch, topo_show_node - a switch or a node for people, in @text: "switch 3", or
 * "switch 3 (leaf1)" if a file names it. Returns @text.
 */
const char *topo_show_switch(const struct topo_graph *graph, uint32_t sw,
                             char text[static TOPO_SHOWN_BYTES]);
const char *topo_show_node(const struct topo_graph *graph, uint32_t node,
                           char text[static TOPO_SHOWN_BYTES]);

#define TOPO_CABLE_BYTES (2 * TOPO_NAME_MAX + 16)

/**
 * topo_show_cable - the two ends of the cable at a port, as the network's file calls them, in
 * @text: " (leaf1:5, node01:1)". "": there is no file. Returns @text.
 */
const char *topo_show_cable(const struct topo_graph *graph, uint32_t sw, uint32_t port,
                            char text[static TOPO_CABLE_BYTES]);

/**
 * topo_find_switch, topo_find_node - the switch or node with this name or identity; TOPO_NONE:
 * there is none. Cost: linear.
 */
uint32_t topo_find_switch(const struct topo_graph *graph, const char *name, size_t length);
uint32_t topo_find_node(const struct topo_graph *graph, const char *name, size_t length);

/* --- rates of cables (rate.c) ------------------------------------------------------- */

#define TOPO_RATES 46 /* kinds of cable rates, "not known" included */

/** topo_rate_scan - the rate with the name @text ("4xFDR", "2xhdr"); 0: none. Pure. */
uint8_t topo_rate_scan(const char *text, size_t length);

/** topo_rate_name - the name of @rate, in @text. Returns @text. Pure. */
const char *topo_rate_name(uint8_t rate, char text[static 16]);

/**
 * topo_rate_ps - picoseconds that a byte of data takes, rounded to whole ones: the line rate less
 * its coding (8b/10b up to QDR, 64b/66b from FDR on). 0: not known. Pure.
 * Source: InfiniBand Architecture Specification, volume 1, "Link Width" and "Link Speed".
 */
uint32_t topo_rate_ps(uint8_t rate);

/* The rates of a network's cables. */
struct topo_rates {
    uint32_t cables[TOPO_RATES]; /* by rate */
    uint8_t fastest;             /* 0: no cable's rate is known */
};

/** topo_rates - count the cables by rate. Pure. */
void topo_rates(const struct topo_graph *graph, struct topo_rates *ret);

/**
 * topo_spec_for_nodes - the SPEC of a tree with room for @nodes nodes.
 * Two levels as long as the radix allows (k up to 16), then more levels of
 * k = 16. Errors: -EINVAL with one line in @error.
 */
int topo_spec_for_nodes(uint32_t nodes, char *spec, size_t spec_bytes, char *error,
                        size_t error_bytes);

void topo_free(struct topo_graph *graph);

/* The general form of topo_route_ports(). */
static inline emu_ports topo_route_lookup(const struct topo_route *route, uint32_t dst)
{
    uint32_t where = route->where[dst];
    uint32_t set = route->set_of[where >> TOPO_SEAT_BITS];

    if (set & TOPO_SEATED)
        set = (set & ~(uint32_t)TOPO_SEATED) + (where & ((1u << TOPO_SEAT_BITS) - 1));
    return route->sets[set];
}

/*
 * In which block is node first + @off? Strides are powers of two as a rule; a division would make
 * a hop on clock raw take 5 % longer.
 */
static inline uint32_t topo_route_block(const struct topo_route *route, uint32_t off)
{
    return emu_bits_several(route->stride) ? off / route->stride
                                           : off >> emu_bits_first(route->stride);
}

/**
 * topo_route_ports - candidate output ports towards node @dst, 0 if none.
 *
 * Every port that begins a shortest way to any of the node's links is one: ways go up and then
 * down, and down as soon as the node is below. Inline: the switch's hot path.
 */
static inline emu_ports topo_route_ports(const struct topo_route *route, uint32_t dst)
{
    uint32_t off = dst - route->first; /* wraps to a large number when below first */

    if (off < route->span)
        return route->sets[topo_route_block(route, off)];
    /* in this order: regular tables look no further */
    if (emu_ports_any(route->elsewhere) || !route->set_of)
        return route->elsewhere;
    return topo_route_lookup(route, dst);
}

/* What a check has looked at. */
struct topo_checked {
    uint64_t cables;   /* to nodes and between switches: both ends agree */
    uint64_t routes;   /* pairs of a switch and a destination */
    uint64_t channels; /* directions of cables between switches */
    uint64_t waits;    /* pairs of channels of which a segment may hold one and want the other */
    /* too large to list the waits: all routes go up and then down, so no cycle */
    bool by_levels;
};

/**
 * topo_check - verify a graph: cables agree at both ends; from every node every route
 * arrives, whichever candidates are chosen on the way; and nothing can deadlock.
 *
 * Deadlock: a segment that came by one channel (a direction of a cable) and wants another waits
 * with the first one's buffer for the second one's. The graph of those waits must have no cycle:
 * of routes (every candidate), of multicasts and results (any tree that topo_tree_build() may
 * build), of contributions (they end at the next combine unit, which is a sink). A cycle is named.
 * @what: what was checked, or NULL.
 *
 * Cost:   switches x nodes look-ups and switches x clusters x ports steps: below 1 s for 16384
 *         nodes. Beyond 2^28 look-ups, if all routes are regular, levels prove it: one look at
 *         each port and each port set.
 * Errors: -EINVAL, -EDEADLK, -ENOMEM with one line in @error.
 * Source: Dally and Seitz, deadlock-free routing; here with candidates, multicast and combining.
 */
int topo_check(const struct topo_graph *graph, struct topo_checked *what, char *error,
               size_t error_bytes);

/** topo_below - does the way from switch @sw to node @node lead down only? */
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
 * topo_without - the network without some cables: levels stay, routes are computed anew.
 * @cut:    one end of each cable, to a switch or to a node's link.
 * @parted: pairs of a switch with nodes and a destination that have no route any more, counted.
 *
 * Errors: -EINVAL, an end has no cable; -ENOMEM; -E2BIG.
 */
int topo_without(struct topo_graph **ret, const struct topo_graph *graph, const struct topo_at *cut,
                 uint32_t count, uint64_t *parted);

/** topo_hops - switches on the path from @src's first link to @dst, 0 if none. */
uint32_t topo_hops(const struct topo_graph *graph, uint32_t src, uint32_t dst);

/* One switch of a collective tree. */
struct topo_tree_switch {
    uint32_t sw;
    int16_t up;      /* port towards the tree's top switch, -1 at the top itself */
    emu_ports ports; /* every port of the tree at this switch, up included */
};

/* A collective tree: undirected; switches[0] is the top. */
struct topo_tree {
    uint32_t count;
    struct topo_tree_switch *switches;
};

/**
 * topo_tree_build - the paper's buildTree (§2.1), its traps mended: climb from
 * the first member's switch to one that spans all members, by the least loaded
 * parent, then descend to the members; both ends of every tree edge are set once.
 * A parent from which no switch that spans them can be reached is given up for the next one.
 * A member with several links is in the tree by one of them: topo_tree_link().
 * @members: node ids, distinct, at least 2.
 * @load:    per switch, trees through it; read only: see topo_tree_charge().
 *
 * Errors: -EINVAL, a member is out of range or repeated; -EHOSTUNREACH, no switch spans them all
 *         (in a damaged network); -ENOMEM.
 * Ties among equally loaded parents go to the lowest port: same input, same tree.
 */
int topo_tree_build(struct topo_tree *tree, const struct topo_graph *graph, const uint32_t *members,
                    uint32_t count, const uint32_t *load);

/** topo_tree_link - by which of its links @node is in the tree, TOPO_NONE: by none. */
uint32_t topo_tree_link(const struct topo_tree *tree, const struct topo_graph *graph,
                        uint32_t node);

/** topo_tree_charge - add @delta (+1 or -1) to the load of each switch of the tree. */
void topo_tree_charge(const struct topo_tree *tree, uint32_t *load, int delta);

void topo_tree_release(struct topo_tree *tree);

/**
 * topo_partition - which of @workers workers steps each switch, by locality:
 * switches that exchange most traffic share a worker; sizes differ by one at most.
 * @workers:   at least 1; those beyond the number of switches get none.
 * @worker_of: graph->switches of them, written.
 */
void topo_partition(const struct topo_graph *graph, uint32_t workers, uint32_t *worker_of);

/**
 * topo_partition_part - the same of the switches that @host has (topo_cut()): TOPO_NONE is written
 * for all others. @host_of: NULL: it has all.
 */
void topo_partition_part(const struct topo_graph *graph, const uint32_t *host_of, uint32_t host,
                         uint32_t workers, uint32_t *worker_of);

/* Of segments from nodes to nodes, both drawn at random: */
struct topo_crossings {
    uint64_t segments; /* how many */
    uint64_t cables;   /* that they took from switch to switch, */
    uint64_t others;   /* and of these, to a switch of another worker */
};

/**
 * topo_partition_crossings - what a partition costs: a cable between two workers is what one core
 * writes and another reads. @worker_of: as topo_partition() makes it. Ways are drawn, too. Pure.
 */
void topo_partition_crossings(const struct topo_graph *graph, const uint32_t *worker_of,
                              struct topo_crossings *ret);

/* --- several hosts share a network -------------------------------------------------- */

#define TOPO_HOSTS_MAX 64

/**
 * topo_first_link - the first link of a node that is not cut. The node is with the switch there: on
 * its host, and its worker's.
 */
static inline const struct topo_link *topo_first_link(const struct topo_graph *graph, uint32_t node)
{
    const struct topo_link *link = graph->node[node].link;

    while (link->sw == TOPO_NONE)
        link++;
    return link;
}

/**
 * topo_cut - spread the switches over @hosts hosts: each gets its share of the nodes, to within
 * the nodes of one switch, and its share of the switches, to within two where that can be; few
 * cables cross, and about as many between any two hosts. The same input is cut the same way.
 * @share:   by host, above 0: twice the share gets twice the nodes; NULL: all get as much.
 * @host_of: graph->switches of them, written.
 *
 * A search from a good beginning that stops where no exchange of two switches is better: of
 * regular trees the best, of others a good one. Every host gets a switch, and one with nodes, even
 * where that is more than its share; where fewer have nodes than there are hosts, the first hosts
 * get one each.
 * Cost:   switches x hosts, and exchanges: below 1 s for 4096 switches.
 * Errors: -EINVAL, more hosts than switches or than TOPO_HOSTS_MAX, or none, with one line in
 *         @error; -ENOMEM.
 * Source: Kernighan and Lin, An efficient heuristic procedure for partitioning graphs.
 */
int topo_cut(const struct topo_graph *graph, uint32_t hosts, const uint32_t *share,
             uint32_t *host_of, char *error, size_t error_bytes);

/**
 * topo_cut_cables - cables that cross from host to host. A node's cable crosses where it is plugged
 * into a switch on another host than the node is.
 * @between: hosts x hosts of them, written: by both hosts, in both orders; NULL.
 */
uint32_t topo_cut_cables(const struct topo_graph *graph, const uint32_t *host_of, uint32_t hosts,
                         uint32_t *between);

#endif
