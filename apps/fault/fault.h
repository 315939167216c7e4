/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - faults as users write them, one per line of text. A file of such lines is a *schedule*.
 *
 *     at=1s for=100ms every=1s link-down random     # another cable each time
 *
 * Pure functions: they convert text to a struct fault and back, check whether a fault can be
 * injected into a network, and find its *targets*, the cables, switches or nodes that it acts on.
 * docs/faults.md has the grammar.
 */
#ifndef APPS_FAULT_FAULT_H
#define APPS_FAULT_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/packet/profile.h"
#include "emu/packet/rule.h"
#include "emu/util/clock.h"
#include "topo/topo.h"

#define FAULT_RANGES_MAX  32
#define FAULT_TEXT_BYTES  1024                          /* size for a text of fault_print() */
#define FAULT_ERROR_BYTES 640                           /* size for an error line */
#define FAULT_TIME_MAX_PS UINT64_C(1000000000000000000) /* 1000000s */
#define FAULT_FACTOR_ONE  1000                          /* factors are in thousandths */

enum fault_kind {
#define KIND(id, ...) FAULT_##id,
#include "apps/fault/kinds.def"
    FAULT_KINDS
};

/* The domain of a kind of fault: the kind of target that it acts on. */
enum fault_domain { FAULT_OF_LINKS, FAULT_OF_SWITCHES, FAULT_OF_NODES };

/* Directions of a cable that a fault acts on, seen from the switch or the node that it names. */
enum fault_direction { FAULT_BOTH, FAULT_OUT, FAULT_IN };

/* How a fault names its targets, and the field of struct fault_where that has the details. */
enum fault_place {
    FAULT_AT_LINK,      /* .port: the cable at a port of a switch */
    FAULT_AT_NODE_LINK, /* .link: links of a node */
    FAULT_AT_LEVEL,     /* .level: its switches or, for a fault of links, the cables up from them */
    FAULT_AT_SWITCH,    /* .sw: the switch or, for a fault of links, all of its cables */
    FAULT_AT_NODES,     /* .nodes: a set of nodes */
    FAULT_AT_NAMED_SWITCH, /* .name: the name or the identity of a switch in the network's file */
    FAULT_AT_NAMED_LINK,   /* .named: a cable, by a name in the network's file */
    FAULT_AT_ALL,          /* all targets of the domain */
    FAULT_AT_TOP,          /* .random: random top switches or, for a fault of links, their cables */
    FAULT_AT_RANDOM /* .random: random targets of the domain; for links: those between switches */
};

/* One link of a node, or all of them. */
struct fault_node_link {
    uint32_t node;
    uint32_t link; /* EMU_FAULT_ANY: all */
    enum fault_direction direction;
};

/* The cable at a port of a switch. */
struct fault_port {
    uint32_t sw;
    uint32_t port;
    enum fault_direction direction;
};

/* A cable of a switch or a node, by the name and the port number in the network's file. */
struct fault_named_link {
    char name[TOPO_NAME_MAX + 1];
    uint32_t port; /* EMU_FAULT_ANY: all cables of a node */
    enum fault_direction direction;
};

/* How many random targets to draw: a number, or a share of the candidates, but at least one. */
struct fault_random {
    uint32_t count; /* 0: use the share */
    uint32_t share; /* in units of 1 / EMU_FAULT_ONE */
};

/* A set of nodes: ascending ranges that neither overlap nor touch. */
struct fault_nodes {
    uint32_t ranges;
    struct fault_range {
        uint32_t first, last;
    } range[FAULT_RANGES_MAX];
};

struct fault_where {
    enum fault_place place;
    union {
        struct fault_port port;
        struct fault_node_link link;
        uint32_t level;
        uint32_t sw;
        struct fault_nodes nodes;
        struct fault_random random;
        char name[TOPO_NAME_MAX + 1];
        struct fault_named_link named;
    };
};

/* An event at which a fault begins: the fabric has executed the nth collective of a kind. */
struct fault_event {
    uint32_t kind;  /* enum emu_kind */
    uint32_t group; /* group whose collectives are counted; EMU_FAULT_ANY: any that reaches n */
    uint64_t nth;   /* n, from 1; 0: the fault waits for no event */
};

struct fault_when {
    struct fault_event on;
    uint64_t at_ps;    /* when it begins, counted from the start or, with `on`, from the event */
    uint64_t for_ps;   /* duration; 0: permanent */
    uint64_t every_ps; /* interval at which it begins again; 0: it begins once */
};

/* The node loses @length_ps of each @period_ps to its operating system. */
struct fault_noise {
    uint64_t period_ps, length_ps;
};

/* The link is alternately down and up, first down. */
struct fault_flap {
    uint64_t down_ps, up_ps;
};

struct fault {
    enum fault_kind kind;
    struct fault_where where;
    struct fault_when when;
    union {
        /* bit-errors, loss, duplicate, delay, credit-loss, credit-forge, combine-flip */
        struct emu_fault_rule rule;
        struct fault_flap flap; /* link-flap */
        uint32_t factor;        /* slow-link: in units of 1 / FAULT_FACTOR_ONE; above 1 */
        uint32_t share; /* node-slow: share of the time in which the process runs, in units of 1 /
                         * EMU_FAULT_ONE */
        struct fault_noise noise; /* noise */
    };
};

/** fault_name, fault_about - return a kind's name in the text, and its effect. Pure. */
const char *fault_name(enum fault_kind kind);
const char *fault_about(enum fault_kind kind);

/**
 * fault_needs_repair - return whether this kind of fault is possible only if the fabric retransmits
 * lost segments: with acknowledged packets or link-level retry. Pure.
 */
bool fault_needs_repair(enum fault_kind kind);

/**
 * fault_hits_are - return a name for the hits of this kind of fault, such as "packets hit".
 * @packets: the profile has packets, so faults hit packets instead of segments. Pure.
 */
const char *fault_hits_are(enum fault_kind kind, bool packets);

/**
 * fault_packet_name - return the name of a kind of packet on a cable, as in the text of a fault, or
 * "?" if it has none.
 * fault_segment_name() - return the name of an enum emu_kind. Pure.
 */
const char *fault_packet_name(enum emu_fault_packet packet);
const char *fault_segment_name(unsigned kind);

/** fault_domain - return the kind of target that a kind of fault acts on. Pure. */
enum fault_domain fault_domain(enum fault_kind kind);

/**
 * fault_has_rule - return whether fault->rule describes the effect of this kind of fault, on
 * entries or credits of cables, or on contributions to combine units. Pure.
 */
bool fault_has_rule(enum fault_kind kind);

/** fault_at_once - return whether this kind is momentary (a kill), and so never reverted. Pure. */
bool fault_at_once(enum fault_kind kind);

/**
 * fault_example - write the text of a fault of @kind at @where ("link=3:5"), with usual values for
 * the keys that the kind needs. fault_parse() checks whether such a fault can be at @where.
 * @lasts: its duration ("3s"), ignored if the kind is momentary; "": it lasts until it is cleared.
 * Returns false if the text does not fit into @text.
 */
bool fault_example(enum fault_kind kind, const char *where, const char *lasts, char *text,
                   size_t text_bytes);

/**
 * fault_parse - read one fault. @ret: written only on success; texts with the same meaning give the
 * same bytes. @graph: the network that has the names of nodes in the text; NULL: only their numbers
 * are accepted. @error: receives one line with the error and how to correct it. Errors: -EINVAL.
 */
int fault_parse(struct fault *ret, const char *text, const struct topo_graph *graph, char *error,
                size_t error_bytes);

/**
 * fault_print - write the canonical text of a fault into the FAULT_TEXT_BYTES bytes at @text.
 * @graph: its network, for the names of nodes; NULL: write their numbers. fault_parse() reads the
 * text as the same fault.
 */
void fault_print(const struct fault *fault, const struct topo_graph *graph, char *text);

/** fault_print_time - write a time, such as "1.5ms", into the 32 bytes at @text. Returns @text. */
char *fault_print_time(uint64_t ps, char *text);

/* --- a schedule: many faults ------------------------------------------------------ */

/* A fault and the number of its line, from 1. */
struct fault_line {
    uint32_t number;
    struct fault fault;
};

struct fault_schedule {
    uint32_t count; /* at least 1 */
    struct fault_line *line;
};

/**
 * fault_schedule_text - read a schedule, which has one fault per line; # begins a comment.
 * @name: its name in messages. @graph: as for fault_parse().
 * @error: receives one line that names the line of the error.
 * Errors: -EINVAL; -E2BIG, too many faults; -ENOMEM.
 */
int fault_schedule_text(struct fault_schedule *ret, const char *name, const char *text,
                        size_t bytes, const struct topo_graph *graph, char *error,
                        size_t error_bytes);

/**
 * fault_schedule_read - read the schedule in a file, or a scenario.
 * @what: the name of a scenario, or that of a file, which must contain a '/' or a '.'.
 * @graph: as for fault_parse().
 * Errors: as fault_schedule_text(); -ENOENT, no such scenario; -EIO, the file cannot be read.
 */
int fault_schedule_read(struct fault_schedule *ret, const char *what,
                        const struct topo_graph *graph, char *error, size_t error_bytes);

void fault_schedule_release(struct fault_schedule *schedule);

/* A scenario: a built-in schedule. It names no particular device, so that it fits most networks. */
struct fault_scenario {
    const char *name;
    const char *about;
    const char *text; /* the lines of the schedule */
};

/** fault_scenario_at - return scenario @i, from 0; NULL after the last. */
const struct fault_scenario *fault_scenario_at(size_t i);

/** fault_scenario_find - return the scenario with this name, or NULL. */
const struct fault_scenario *fault_scenario_find(const char *name);

/**
 * fault_scenario_unknown - write the error that there is no scenario @name. Returns -ENOENT.
 * @or_file: a text that follows the list of the scenarios; "": none.
 */
int fault_scenario_unknown(const char *name, const char *or_file, char *error, size_t error_bytes);

/* --- a fault and a network -------------------------------------------------------- */

/* The network that faults are checked against. */
struct fault_network {
    const struct topo_graph *graph;
    const struct emu_profile *profile;
    enum emu_clock_mode clock; /* on clock virtual, no fault acts on processes or new groups */
};

/**
 * fault_check - check whether the fault can be injected into the network and has an effect there.
 * A fault with random targets is refused if it cannot be applied to some of its candidates, so that
 * the result does not depend on the seed.
 * @text: receives one line: on failure the error and how to correct it, else a note about this
 * fault with this profile, or "". Errors: -EINVAL, the network lacks a device that the fault names;
 * -ENOTSUP, its profile or clock lacks a property that the fault needs; -ENOMEM.
 */
int fault_check(const struct fault *fault, const struct fault_network *network, char *text,
                size_t text_bytes);

/* One target: depending on the domain a switch, a node, or the cable at a port of a switch. */
struct fault_target {
    uint32_t id;                    /* number of the switch or the node */
    uint32_t port;                  /* only for a cable: port of the switch */
    enum fault_direction direction; /* only for a cable: seen from the switch */
};

struct fault_targets {
    uint32_t among; /* number of candidates if the targets are random; else `count` */
    uint32_t count; /* at least 1 */
    struct fault_target *target;
};

/**
 * fault_targets_find - list the targets that a fault names, in the order of their numbers.
 * @seed: for random targets; the same seed gives the same targets (fault_seed()).
 * @error: receives one line, with the error and how to correct it.
 * Errors: -EINVAL, the network does not have the targets; -ENOMEM.
 */
int fault_targets_find(struct fault_targets *ret, const struct fault *fault,
                       const struct topo_graph *graph, uint64_t seed, char *error,
                       size_t error_bytes);

/**
 * fault_affected_find - list the targets to which a fault is applied. For a partition these are the
 * cables between the named nodes and all other nodes, and there may be none; for all other faults
 * they are those of fault_targets_find().
 */
int fault_affected_find(struct fault_targets *ret, const struct fault *fault,
                        const struct topo_graph *graph, uint64_t seed, char *error,
                        size_t error_bytes);

/**
 * fault_targets_limit - for a fault of cables, remove the cables that cannot fail in @network. The
 * targets stay if this would remove all of them: fault_check() refuses such a fault.
 */
void fault_targets_limit(struct fault_targets *targets, const struct fault *fault,
                         const struct fault_network *network);

void fault_targets_release(struct fault_targets *targets);

/** fault_targets_drawn - return whether the targets are random. Pure. */
bool fault_targets_drawn(const struct fault *fault);

/**
 * fault_seed - return the seed for a fault's random targets. @seed: the seed of the run. @number:
 * the number of the fault in its schedule, from 0. @time: how often it has begun before. Pure.
 */
uint64_t fault_seed(uint64_t seed, uint32_t number, uint64_t time);

#endif
