/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo.h - graphs of nodes, switches and cables; routes; collective trees. A graph does not change
 * once it is built, and may then be read by any thread.
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
 * Maximum number of ports of a switch: TOPO_PORTS_WIDE in fabemu-wide, the program for large
 * switches, and TOPO_PORTS_MAX in this program (emu/util/ports.h). Sets of ports can also contain
 * combine units.
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
    uint8_t kind; /* enum topo_end_kind */
    uint8_t port; /* port of the switch, or link of the node */
    /* number in the file of the port whose other end this is, unlike `port`; 0: no file */
    uint8_t number;
    uint8_t rate; /* rate of the cable, for topo_rate_ps(); 0: unknown */
    uint32_t id;  /* node or switch */
};

#define TOPO_MEMBER_BITS 8      /* bits of a node's index in its cluster; see struct topo_route */
#define TOPO_PER_MEMBER  0x8000 /* flag in set_of[] */

/*
 * The routing table of a switch: a set of candidate ports for each destination. It has two forms.
 *
 * Regular: destinations [first, first + span) are below the switch, in blocks of `stride` nodes.
 * Each block has a set. All other destinations have the set `elsewhere`, which contains ports up.
 *
 * General (span is 0, set_of is not NULL): nodes that are plugged into the same switches are a
 * *cluster*, of fewer than 256 nodes, and share a set. Only in these switches themselves, each node
 * has a set of its own, which is found by the node's index in the cluster.
 */
struct topo_route {
    uint32_t first;      /* node */
    uint32_t span;       /* nodes; a multiple of stride, unless the range ends with the last node */
    uint32_t stride;     /* nodes per block, at least 1 */
    uint32_t spread;     /* number of upward paths from a bottom switch to this level; not 0 */
    uint32_t set_count;  /* general: number of sets */
    uint32_t nodes;      /* general: elements of where[]; other nodes have no route */
    emu_ports elsewhere; /* empty: other nodes are unreachable, or the table is general */
    emu_ports *sets;     /* regular: by block; general: by set_of[]. Switches may share sets */
    /* general, by cluster: index of its set; with TOPO_PER_MEMBER, index of its first node's set */
    const uint16_t *set_of;
    /* general, by node: cluster << TOPO_MEMBER_BITS | index in the cluster */
    const uint32_t *where;
};

struct topo_switch {
    uint32_t level;       /* a cable joins switches of different levels */
    uint32_t low, high;   /* range of nodes that contains all nodes below; low > high: none */
    uint32_t ports;       /* number of ports in the file, with unused ones; 0: no file */
    struct topo_end *end; /* graph->ports elements */
    struct topo_route route;
};

/* Where a link of a node is plugged in. */
struct topo_link {
    uint32_t sw; /* TOPO_NONE: removed by topo_without() */
    uint8_t port;
    uint8_t number; /* number of the adapter's port in the file; 0: no file */
};

struct topo_node {
    uint8_t links; /* 1 to TOPO_NODE_LINKS_MAX */
    uint8_t ports; /* number of ports of its adapter in the file; 0: no file */
    struct topo_link link[TOPO_NODE_LINKS_MAX];
};

/* How the levels of a graph were found. */
enum topo_up {
    TOPO_UP_KNOWN, /* the generator or the file gave them */
    /* guesses of topo_find_levels(), see docs/topo.md: in which direction "up" is */
    TOPO_UP_DISTANCE, /* away from the switches with many nodes */
    TOPO_UP_TURNED,   /* the same, except that one of these switches is at the top */
    TOPO_UP_ANY,      /* away from all nodes */
    TOPO_UP_MIDDLE    /* towards one switch in the middle */
};

/** topo_up_name, topo_up_text - return a name for programs ("middle") and a text for people. */
const char *topo_up_name(enum topo_up up);
const char *topo_up_text(enum topo_up up);

/* The parts of a QsNet III network, and how many devices and cables of a file were ignored. */
struct topo_parts {
    uint32_t node_chassis; /* 0: this is no QsNet III network */
    uint32_t top_chassis;
    uint32_t top_switches; /* top switches in the paper's sense; several may share a router */
    uint32_t top_cables;   /* cables between chassis */
    uint32_t backplane;    /* links inside chassis, which need no cables */
    uint32_t left_out;     /* devices in the file that are neither nodes nor switches */
    uint32_t loops;        /* cables in the file from a switch to itself */
    uint32_t rate_unknown; /* cables in the file whose rate is not known */
    char rate[16];         /* the first such rate */
};

/*
 * Names of a switch or node in a file. The texts are UTF-8 without control characters, of at most
 * TOPO_NAME_MAX bytes. Each field except guid is the offset of a text in label_text.
 */
struct topo_label {
    uint32_t name;  /* unique name for people: host, title or identity; see file_label.c */
    uint32_t id;    /* the identity: "H-0002c903000e0b72" */
    uint32_t title; /* the device's description, "node01 HCA-1"; may be "" */
    uint64_t guid;  /* 0: not in the file */
};

#define TOPO_NAME_MAX 63

struct topo_graph {
    /* canonical SPEC, such as "kary:4,2", or the last characters of the file's name */
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
    const struct topo_label *label; /* of switches, then of nodes; NULL: not from a file */
    const char *label_text;         /* in the same allocation as the labels */
    size_t label_bytes;             /* size of this allocation */
    void *slab;   /* allocation that contains the graph, nodes, switches and ends */
    void *routes; /* allocation of the sets and tables that topo_route_graph() made, or NULL */
    size_t bytes; /* total size of these allocations */
};

/**
 * topo_parse - build the network that @spec names. `fabemu topo --help` lists all SPECs.
 * @spec: "kary:K,N", "qsnet:N..." or "clos:..."; or the name of a file in ibnetdiscover's format,
 * which contains a '/' or ends in .topo, .txt or .net.
 * @error: on failure, gets one line for the user that explains the error and gives a correct form.
 * Generated networks are free of deadlock by construction. A network from a file is checked by
 * topo_check(). Errors: -EINVAL, the SPEC or the file is wrong; -ENOMEM; -E2BIG, too large; -EIO,
 * the file cannot be read; -EHOSTUNREACH, there are nodes without a route; -EDEADLK, segments could
 * deadlock; -EOVERFLOW, a switch has too many ports for this program, but not for fabemu-wide.
 * Source: output-queued routers §2.2; Petrini and Vanneschi, k-ary n-trees; QsNet III §V.
 */
int topo_parse(struct topo_graph **ret, const char *spec, char *error, size_t error_bytes);

/** topo_machine - return the machine ("qsnet3") whose networks @spec describes, or NULL. Pure. */
const char *topo_machine(const char *spec);

/**
 * topo_read - build a network from @text in ibnetdiscover's format.
 * @name: the file's name, for messages and graph->spec. Errors: as topo_parse().
 */
int topo_read(struct topo_graph **ret, const char *name, const char *text, size_t bytes,
              char *error, size_t error_bytes);

/** topo_write - write a network so that topo_read() returns the same graph. Errors: -EIO. */
int topo_write(const struct topo_graph *graph, FILE *to);

/** topo_label_name - name of switch @i, or of node @i - graph->switches. NULL: not from a file. */
static inline const char *topo_label_name(const struct topo_graph *graph, uint32_t i)
{
    return graph->label ? graph->label_text + graph->label[i].name : NULL;
}

/** topo_switch_name, topo_node_name - name in the file. NULL: not from a file. */
static inline const char *topo_switch_name(const struct topo_graph *graph, uint32_t sw)
{
    return topo_label_name(graph, sw);
}

static inline const char *topo_node_name(const struct topo_graph *graph, uint32_t node)
{
    return topo_label_name(graph, graph->switches + node);
}

#define TOPO_SHOWN_BYTES 96

/** topo_show_switch, topo_show_node - return @text, with "switch 3" or "switch 3 (leaf1)". */
const char *topo_show_switch(const struct topo_graph *graph, uint32_t sw,
                             char text[static TOPO_SHOWN_BYTES]);
const char *topo_show_node(const struct topo_graph *graph, uint32_t node,
                           char text[static TOPO_SHOWN_BYTES]);

/**
 * topo_switch_port, topo_node_port - return the number that users see in place of an index: the
 * number of the port in the network's file. Without a file: the index, which counts from 0.
 */
static inline uint32_t topo_switch_port(const struct topo_graph *graph, uint32_t sw, uint32_t port)
{
    return graph->label ? graph->sw[sw].end[port].number : port;
}

static inline uint32_t topo_node_port(const struct topo_graph *graph, uint32_t node, uint32_t link)
{
    return graph->label ? graph->node[node].link[link].number : link;
}

/** topo_end_port - return the number that users see for the port at which @end is plugged in. */
static inline uint32_t topo_end_port(const struct topo_graph *graph, const struct topo_end *end)
{
    return end->kind == TOPO_END_NODE ? topo_node_port(graph, end->id, end->port)
                                      : topo_switch_port(graph, end->id, end->port);
}

#define TOPO_CABLE_BYTES (2 * TOPO_NAME_MAX + 16)

/**
 * topo_show_cable - write both ends of a cable to @text, as the file names them, such as
 * " (leaf1:5, node01:1)", and return @text. The text is "" if the network is not from a file.
 */
const char *topo_show_cable(const struct topo_graph *graph, uint32_t sw, uint32_t port,
                            char text[static TOPO_CABLE_BYTES]);

/** topo_find_switch, topo_find_node - find by name or identity; TOPO_NONE: none. Cost: linear. */
uint32_t topo_find_switch(const struct topo_graph *graph, const char *name, size_t length);
uint32_t topo_find_node(const struct topo_graph *graph, const char *name, size_t length);

#define TOPO_NODE_ERROR_BYTES (TOPO_SPEC_BYTES + 256)

/**
 * topo_parse_node - find the node that a user means by @text: its number, name or identity.
 * Errors: -EINVAL, with a line in @error that names the nodes and, if there is one, a similar name.
 */
int topo_parse_node(uint32_t *ret, const struct topo_graph *graph, const char *text, char *error,
                    size_t error_bytes);

/* --- rates of cables (rate.c) ------------------------------------------------------- */

#define TOPO_RATES 46 /* number of rates of cables, including unknown */

/** topo_rate_scan - return the rate with the name @text ("4xFDR", "2xhdr"); 0: none. Pure. */
uint8_t topo_rate_scan(const char *text, size_t length);

/** topo_rate_name - write the name of @rate to @text, and return it. Pure. */
const char *topo_rate_name(uint8_t rate, char text[static 16]);

/**
 * topo_rate_ps - return the time per byte of data, in ps, rounded; 0: unknown. It includes the
 * line's coding (8b/10b up to QDR, 64b/66b from FDR10 on). Pure.
 * Source: InfiniBand Architecture Specification, volume 1, "Link Width" and "Link Speed".
 */
uint32_t topo_rate_ps(uint8_t rate);

struct topo_rates {
    uint32_t cables[TOPO_RATES]; /* number of cables, by rate */
    uint8_t fastest;             /* the fastest rate of a cable; 0: all rates are unknown */
};

/** topo_rates - count the cables by rate. Pure. */
void topo_rates(const struct topo_graph *graph, struct topo_rates *ret);

/**
 * topo_spec_for_nodes - write the SPEC of a k-ary n-tree for at least @nodes nodes: with two levels
 * and the least k if k <= 16 suffices, else with k = 16 and more levels. Errors: -EINVAL, with a
 * line in @error.
 */
int topo_spec_for_nodes(uint32_t nodes, char *spec, size_t spec_bytes, char *error,
                        size_t error_bytes);

void topo_free(struct topo_graph *graph);

/* Do topo_route_ports() for a table of the general form. */
static inline emu_ports topo_route_lookup(const struct topo_route *route, uint32_t dst)
{
    uint32_t where, set;

    if (dst >= route->nodes) /* a packet from another host may have any destination */
        return EMU_NO_PORTS;
    where = route->where[dst];
    set = route->set_of[where >> TOPO_MEMBER_BITS];
    if (set & TOPO_PER_MEMBER)
        set = (set & ~(uint32_t)TOPO_PER_MEMBER) + (where & ((1u << TOPO_MEMBER_BITS) - 1));
    return route->sets[set];
}

/*
 * Return the block of node first + @off. Most strides are a power of two and allow a shift. With a
 * division, a segment takes 5 % longer through a switch on clock raw.
 */
static inline uint32_t topo_route_block(const struct topo_route *route, uint32_t off)
{
    return emu_bits_several(route->stride) ? off / route->stride
                                           : off >> emu_bits_first(route->stride);
}

/**
 * topo_route_ports - return the candidate output ports to node @dst: every port with which a
 * shortest path to any of the node's links begins. If there is no path, the set is empty. A path
 * goes up, then down, and goes down as soon as the node is below. Inline, because switches call it
 * for each segment.
 */
static inline emu_ports topo_route_ports(const struct topo_route *route, uint32_t dst)
{
    uint32_t off = dst - route->first; /* if @dst is below `first`, this wraps to a large number */

    if (off < route->span)
        return route->sets[topo_route_block(route, off)];
    /* `elsewhere` is tested first, so that a regular table needs no other field */
    if (emu_ports_any(route->elsewhere) || !route->set_of)
        return route->elsewhere;
    return topo_route_lookup(route, dst);
}

/* The extent of a check. */
struct topo_checked {
    uint64_t cables;   /* cables to nodes and between switches */
    uint64_t routes;   /* pairs of a switch and a destination node */
    uint64_t channels; /* directions of cables between switches */
    uint64_t waits;    /* pairs of channels of which the first may wait for the second */
    /* the waits were too many to list; instead, all routes were found to go up, then down */
    bool by_levels;
};

/**
 * topo_check - verify a graph. Both ends of each cable must agree. Every route from every node must
 * arrive, whichever candidates are chosen. Segments must not be able to deadlock: the graph of the
 * waits between channels (directions of cables) must have no cycle; see check_waits.c. Otherwise
 * the error text names a cycle.
 * @what: gets the extent of the check; may be NULL.
 * Cost: switches x nodes lookups and switches x clusters x ports steps: below 1 s for 16384 nodes.
 * If more than 2^28 lookups would be needed and all routes are regular, the check tests each set of
 * ports only once, because there is no cycle if all routes go up, then down.
 * Errors: -EINVAL, -EDEADLK, -ENOMEM with one line in @error.
 * Source: Dally and Seitz, deadlock-free routing; here with candidates, multicast and combining.
 */
int topo_check(const struct topo_graph *graph, struct topo_checked *what, char *error,
               size_t error_bytes);

/** topo_below - return whether the route from switch @sw to node @node only goes down. */
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
 * topo_without - copy the network without some cables. The levels stay, and all routes are computed
 * again.
 * @cut: one end of each cable to remove, at a switch.
 * @unreachable: gets the number of pairs that have no route. The first of a pair is a switch with
 * nodes, the second is a destination.
 * Errors: -EINVAL, an end has no cable; -ENOMEM; -E2BIG.
 */
int topo_without(struct topo_graph **ret, const struct topo_graph *graph, const struct topo_at *cut,
                 uint32_t count, uint64_t *unreachable);

/** topo_hops - return the number of switches on a path from @src's first link to @dst, or 0. */
uint32_t topo_hops(const struct topo_graph *graph, uint32_t src, uint32_t dst);

/* One switch of a collective tree. */
struct topo_tree_switch {
    uint32_t sw;
    int16_t up;      /* port towards the root; -1 at the root */
    emu_ports ports; /* all ports of the tree at this switch, including `up` */
};

/* A collective tree. switches[0] is the root. Segments may go in both directions of its cables. */
struct topo_tree {
    uint32_t count;
    struct topo_tree_switch *switches;
};

/**
 * topo_tree_build - plan a collective tree, as the paper's buildTree does (OQ §2.1). Climb from the
 * first member's switch, always by the least loaded parent, to a switch that has all members below.
 * Then descend to the members. Cases that the paper leaves open: the port at each end of an edge is
 * added once; if a parent leads to no switch with all members below, the next parent is tried;
 * among equally loaded parents the parent at the lowest port is taken, so that the same input gives
 * the same tree. If several links lead to the next switch or to the member, successive trees take
 * different links. A member with several links uses one of them: topo_tree_link().
 * @members: distinct nodes, at least 2. @load: by switch, its number of trees: topo_tree_charge().
 * Errors: -EINVAL, a member is out of range or repeated; -EHOSTUNREACH, no switch has all members
 * below (in a damaged network); -ENOMEM.
 */
int topo_tree_build(struct topo_tree *tree, const struct topo_graph *graph, const uint32_t *members,
                    uint32_t count, const uint32_t *load);

/** topo_tree_link - return the link by which @node is in the tree; TOPO_NONE: it is not in it. */
uint32_t topo_tree_link(const struct topo_tree *tree, const struct topo_graph *graph,
                        uint32_t node);

/** topo_tree_charge - add @delta (+1 or -1) to the load of each switch of the tree. */
void topo_tree_charge(const struct topo_tree *tree, uint32_t *load, int delta);

void topo_tree_release(struct topo_tree *tree);

/**
 * topo_partition - assign switches to @workers workers so that switches with much mutual traffic
 * share a worker. The numbers of switches per worker differ by one at most.
 * @workers: at least 1; may exceed the number of switches. @worker_of: graph->switches elements.
 */
void topo_partition(const struct topo_graph *graph, uint32_t workers, uint32_t *worker_of);

/**
 * topo_partition_of_host - assign the switches of host @host (topo_cut()) to workers as
 * topo_partition() does. Switches of other hosts get TOPO_NONE.
 */
void topo_partition_of_host(const struct topo_graph *graph, const uint32_t *host_of, uint32_t host,
                            uint32_t workers, uint32_t *worker_of);

/* Statistics of segments between random nodes. */
struct topo_crossings {
    uint64_t segments; /* number of segments */
    uint64_t cables;   /* hops from switch to switch */
    uint64_t others;   /* those hops that lead from one worker to another */
};

/**
 * topo_partition_crossings - estimate the cost of a partition: each hop between two workers moves
 * cache lines between cores. @worker_of: from topo_partition(). Pure.
 */
void topo_partition_crossings(const struct topo_graph *graph, const uint32_t *worker_of,
                              struct topo_crossings *ret);

/* --- several hosts share a network -------------------------------------------------- */

#define TOPO_HOSTS_MAX 64

/**
 * topo_first_link - return the node's first link that was not removed. The node belongs to the same
 * host and worker as the switch of this link.
 */
static inline const struct topo_link *topo_first_link(const struct topo_graph *graph, uint32_t node)
{
    const struct topo_link *link = graph->node[node].link;

    while (link->sw == TOPO_NONE)
        link++;
    return link;
}

/**
 * topo_cut - assign the switches to @hosts hosts. Each host gets its share of the nodes, to within
 * the nodes of one switch, and its share of the switches, to within two switches if possible. Few
 * cables connect different hosts, and their number is similar for any two hosts. Deterministic.
 * @share: by host, above 0: a host with twice the share gets twice the nodes; NULL: equal shares.
 * @host_of: gets graph->switches elements.
 * Every host gets a switch with nodes, even if this is more than its share. If fewer switches have
 * nodes than there are hosts, the first hosts get one each, and the others a switch without nodes.
 * The search ends when no exchange of two switches is an improvement, or after 16 rounds. The
 * result is optimal for regular trees and good for other networks. Cost: below 1 s for 4096
 * switches.
 * Errors: -EINVAL with one line in @error: there is no host, or there are more hosts than
 * TOPO_HOSTS_MAX or than switches; -ENOMEM.
 * Source: Kernighan and Lin, An efficient heuristic procedure for partitioning graphs.
 */
int topo_cut(const struct topo_graph *graph, uint32_t hosts, const uint32_t *share,
             uint32_t *host_of, char *error, size_t error_bytes);

/**
 * topo_cut_cables - count the cables whose two ends are on different hosts. @between: gets the
 * number for each pair of hosts, in both orders: hosts x hosts elements; may be NULL.
 */
uint32_t topo_cut_cables(const struct topo_graph *graph, const uint32_t *host_of, uint32_t hosts,
                         uint32_t *between);

#endif
