/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - faults as users write them: one line of text each, a file of them is a schedule.
 *
 *     at=1s for=100ms every=1s link-down random     # another cable each time
 *
 * Pure functions: text to struct fault and back, whether a fault can be injected into a network,
 * and which cables, switches or nodes it acts on. docs/faults.md has the grammar.
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
#define FAULT_TEXT_BYTES  1024                          /* for the text of fault_print() */
#define FAULT_ERROR_BYTES 640                           /* for an error line */
#define FAULT_TIME_MAX_PS UINT64_C(1000000000000000000) /* 1000000s */
#define FAULT_FACTOR_ONE  1000                          /* factors are in thousandths */

enum fault_kind {
#define KIND(id, ...) FAULT_##id,
#include "apps/fault/kinds.def"
    FAULT_KINDS
};

/* The kind of target that a kind of fault acts on. */
enum fault_domain { FAULT_OF_LINKS, FAULT_OF_SWITCHES, FAULT_OF_NODES };

/* Which of a cable's directions, seen from the switch or node that is named. */
enum fault_direction { FAULT_BOTH, FAULT_OUT, FAULT_IN };

enum fault_place {
    FAULT_AT_LINK,      /* .port */
    FAULT_AT_NODE_LINK, /* .link */
    FAULT_AT_LEVEL,     /* .level: its switches, or the cables up from them */
    FAULT_AT_SWITCH,    /* .sw: it, or all of its cables */
    FAULT_AT_NODES,     /* .nodes */
    /* .name: the name or the identity of a switch or a node in the network's file */
    FAULT_AT_NAMED_SWITCH,
    FAULT_AT_NAMED_NODE,
    FAULT_AT_NAMED_LINK, /* .named */
    FAULT_AT_ALL,        /* all of the domain */
    FAULT_AT_TOP,        /* .some: random top switches; they, or all of their cables */
    FAULT_AT_RANDOM /* .some: random targets of the domain; for links: those between switches */
};

/* The node's links, or one of them. */
struct fault_node_link {
    uint32_t node;
    uint32_t link; /* or EMU_FAULT_ANY */
    enum fault_direction direction;
};

struct fault_port {
    uint32_t sw;
    uint32_t port;
    enum fault_direction direction;
};

/* A cable of a switch or a node, by the name and the port number in the network's file. */
struct fault_named_link {
    char name[TOPO_NAME_MAX + 1];
    uint32_t port; /* or EMU_FAULT_ANY: all cables of a node */
    enum fault_direction direction;
};

/* A number of targets, or a share of them, but at least one. */
struct fault_some {
    uint32_t count; /* 0: the share applies */
    uint32_t share; /* of EMU_FAULT_ONE */
};

/* A set of nodes: ranges in order, with gaps between them. */
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
        struct fault_some some;
        char name[TOPO_NAME_MAX + 1];
        struct fault_named_link named;
    };
};

/* The nth collective of a kind, seen in the fabric. */
struct fault_event {
    uint32_t kind;  /* enum emu_kind */
    uint32_t group; /* or EMU_FAULT_ANY: the first group that reaches the number */
    uint64_t nth;   /* from 1; 0: no event */
};

struct fault_when {
    struct fault_event on;
    uint64_t at_ps;    /* from the start, or from the event */
    uint64_t for_ps;   /* duration; 0: permanent */
    uint64_t every_ps; /* interval at which it begins again; 0: once */
};

/* Time that a node loses to its operating system in each period. */
struct fault_noise {
    uint64_t period_ps, length_ps;
};

struct fault_flap {
    uint64_t down_ps, up_ps; /* alternating, down first */
};

struct fault {
    enum fault_kind kind;
    struct fault_where where;
    struct fault_when when;
    union {
        /* bit-errors, loss, duplicate, delay, credit-loss, credit-forge, combine-flip */
        struct emu_fault_rule rule;
        struct fault_flap flap;   /* link-flap */
        uint32_t factor;          /* slow-link: of FAULT_FACTOR_ONE, and above it */
        uint32_t share;           /* node-slow: of EMU_FAULT_ONE, the time left to the node */
        struct fault_noise noise; /* noise */
    };
};

/** fault_name, fault_about - a kind's name in the text, and its effect. Pure. */
const char *fault_name(enum fault_kind kind);
const char *fault_about(enum fault_kind kind);

/** fault_hits_are - what the hits of a fault of this kind count: "packets hit". Pure. */
const char *fault_hits_are(enum fault_kind kind);

/**
 * fault_packet_name, fault_segment_name - name of an enum emu_fault_packet of a cable, and of an
 * enum emu_kind, in the text; "?": none. Pure.
 */
const char *fault_packet_name(enum emu_fault_packet packet);
const char *fault_segment_name(unsigned kind);

/** fault_domain - the kind of target that a kind of fault acts on. Pure. */
enum fault_domain fault_domain(enum fault_kind kind);

/**
 * fault_has_rule - is the effect described by fault->rule: on entries or credits of cables, or on
 * contributions to combine units? Pure.
 */
bool fault_has_rule(enum fault_kind kind);

/** fault_at_once - is the fault momentary (a reset, a kill), so that it is never reverted? Pure. */
bool fault_at_once(enum fault_kind kind);

/**
 * fault_example - write the text of a fault of @kind at @where ("link=3:5"), with usual values
 * for the keys that the kind needs. fault_parse() checks whether the kind takes such a place.
 * @lasts: duration ("3s"), ignored if the fault is a moment; "": until it is cleared.
 * Returns false if it does not fit into @text.
 */
bool fault_example(enum fault_kind kind, const char *where, const char *lasts, char *text,
                   size_t text_bytes);

/**
 * fault_parse - read one fault. @ret: written only on success; texts of equal meaning give equal
 * bytes. @error: one line for the user: the error and its cure. Errors: -EINVAL.
 */
int fault_parse(struct fault *ret, const char *text, char *error, size_t error_bytes);

/** fault_print - write the canonical text, for fault_parse(). @text: of FAULT_TEXT_BYTES. */
void fault_print(const struct fault *fault, char *text);

/** fault_print_time - write a time, such as "1.5ms". @text: of 32 bytes. Returns it. */
char *fault_print_time(uint64_t ps, char *text);

/**
 * fault_slurp - read a whole file of at most 16 MB, without its byte-order mark; also used for
 * other files. The caller frees @text, also on failure. A pipe may be silent for five seconds.
 * Errors: of read(), negative; -EFBIG; -ETIMEDOUT; -ENOMEM. fault_slurp_why() - the error's text.
 */
int fault_slurp(const char *name, char **text, size_t *bytes);
const char *fault_slurp_why(int err);

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
 * fault_schedule_text - read a schedule: one fault per line, # begins a comment.
 * @name: for messages. @error: names the line.
 * Errors: -EINVAL; -E2BIG, too many faults; -ENOMEM.
 */
int fault_schedule_text(struct fault_schedule *ret, const char *name, const char *text,
                        size_t bytes, char *error, size_t error_bytes);

/**
 * fault_schedule_read - the same for a file or a scenario.
 * @what: the name of a scenario, or of a file, which contains a '/' or a '.'.
 * Errors: as fault_schedule_text(); -ENOENT, no such scenario; -EIO, the file cannot be read.
 */
int fault_schedule_read(struct fault_schedule *ret, const char *what, char *error,
                        size_t error_bytes);

void fault_schedule_release(struct fault_schedule *schedule);

/* A built-in schedule. It names no particular device, so it fits most networks. */
struct fault_scenario {
    const char *name;
    const char *about;
    const char *text; /* lines */
};

/** fault_scenario_at - scenario @i, from 0; NULL after the last. */
const struct fault_scenario *fault_scenario_at(size_t i);

/** fault_scenario_find - the scenario of that name, or NULL. */
const struct fault_scenario *fault_scenario_find(const char *name);

/* --- a fault and a network -------------------------------------------------------- */

/* The network that faults are checked against. */
struct fault_network {
    const struct topo_graph *graph;
    const struct emu_profile *profile;
    enum emu_clock_mode clock; /* on clock virtual, nodes have no processes */
};

/**
 * fault_check - can the fault be injected into the network? Refuses a fault without any effect
 * there, or that could not be applied with some seed: the answer is the same for all seeds.
 * @text: on failure the error and its cure; else a note on this fault with this profile, or "".
 * Errors: -EINVAL, the network lacks a device that the fault names; -ENOTSUP, its profile or clock
 * lacks a property that the fault needs; -ENOMEM.
 */
int fault_check(const struct fault *fault, const struct fault_network *network, char *text,
                size_t text_bytes);

/* One cable, seen from a switch, one switch, or one node, by the fault's domain. */
struct fault_target {
    uint32_t id;                    /* switch, or node */
    uint32_t port;                  /* of links: of that switch */
    enum fault_direction direction; /* of links */
};

struct fault_targets {
    uint32_t among; /* number of candidates for a random choice; else count */
    uint32_t count; /* at least 1 */
    struct fault_target *target;
};

/**
 * fault_targets_find - list the targets that a fault names, in the order of the network.
 * @seed: for random targets, see fault_seed(). The same seed gives the same targets.
 * @error: as of fault_check().
 * Errors: -EINVAL, the network lacks them; -ENOMEM.
 */
int fault_targets_find(struct fault_targets *ret, const struct fault *fault,
                       const struct topo_graph *graph, uint64_t seed, char *error,
                       size_t error_bytes);

/**
 * fault_affected_find - the targets to which a fault is applied: for a partition the cables between
 * its nodes and all others; else as fault_targets_find(). @ret may have no targets.
 */
int fault_affected_find(struct fault_targets *ret, const struct fault *fault,
                        const struct topo_graph *graph, uint64_t seed, char *error,
                        size_t error_bytes);

void fault_targets_release(struct fault_targets *targets);

/** fault_targets_drawn - are the targets random? Pure. */
bool fault_targets_drawn(const struct fault *fault);

/**
 * fault_seed - the seed of a fault's targets. @seed: of the run; @number: of the fault in its
 * schedule; @time: how often it has begun before. Pure.
 */
uint64_t fault_seed(uint64_t seed, uint32_t number, uint64_t time);

#endif
