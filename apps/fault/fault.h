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
#define FAULT_TEXT_BYTES  1024                          /* room for what fault_print() writes */
#define FAULT_ERROR_BYTES 640                           /* room for a line about what is wrong */
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
enum fault_way { FAULT_BOTH, FAULT_OUT, FAULT_IN };

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
    enum fault_way way;
};

struct fault_port {
    uint32_t sw;
    uint32_t port;
    enum fault_way way;
};

/* A cable of a switch or a node, by the name and the port number in the network's file. */
struct fault_named_link {
    char name[TOPO_NAME_MAX + 1];
    uint32_t port; /* or EMU_FAULT_ANY: all cables of a node */
    enum fault_way way;
};

/* So many, or such a share of them, but at least one. */
struct fault_some {
    uint32_t count; /* 0: share counts */
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
    uint32_t group; /* or EMU_FAULT_ANY: of whichever group has so many first */
    uint64_t nth;   /* from 1; 0: no event */
};

struct fault_when {
    struct fault_event on;
    uint64_t at_ps;    /* from the start, or from the event */
    uint64_t for_ps;   /* then it is taken back; 0: it is not */
    uint64_t every_ps; /* it begins again; 0: it does not */
};

/* Of every period a node loses so long to its operating system. */
struct fault_noise {
    uint64_t period_ps, length_ps;
};

struct fault_flap {
    uint64_t down_ps, up_ps; /* in turn, down first */
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
        uint32_t share;           /* node-slow: of EMU_FAULT_ONE, what is left to the node */
        struct fault_noise noise; /* noise */
    };
};

/** fault_name, fault_about - a kind's name in the text, and what it does. Pure. */
const char *fault_name(enum fault_kind kind);
const char *fault_about(enum fault_kind kind);

/**
 * fault_packet_name, fault_segment_name - what the text calls an enum emu_fault_packet of a cable,
 * and an enum emu_kind; "?": nothing. Pure.
 */
const char *fault_packet_name(enum emu_fault_packet packet);
const char *fault_segment_name(unsigned kind);

/** fault_domain - the kind of target that a kind of fault acts on. Pure. */
enum fault_domain fault_domain(enum fault_kind kind);

/**
 * fault_has_rule - does fault->rule say what the fault does, to entries on its cables, to credits
 * there, or (combine-flip) to what a combine unit folds? Pure.
 */
bool fault_has_rule(enum fault_kind kind);

/**
 * fault_at_once - is the fault a moment (a reset, a kill), so that there is nothing to take back?
 * Pure.
 */
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
 * fault_parse - read one fault. @ret: written only on success; its bytes depend on what the text
 * means alone.
 * @error: one line for the user, what is wrong and what would be right.
 * Errors: -EINVAL.
 */
int fault_parse(struct fault *ret, const char *text, char *error, size_t error_bytes);

/**
 * fault_print - the fault's canonical text: fault_parse() makes the same fault of it.
 * @text: of FAULT_TEXT_BYTES.
 */
void fault_print(const struct fault *fault, char *text);

/** fault_print_time - a time as the text has it: "1.5ms". @text: of 32 bytes. Returns it. */
char *fault_print_time(uint64_t ps, char *text);

/* --- what other files of lines are read with, too ------------------------------------ */

/**
 * fault_slurp - the whole file, of 16 MB at most, without a byte-order mark. @text: the caller's to
 * free, on failure too. A pipe may be silent for five seconds.
 * Errors: of reading it, negative; -EFBIG; -ETIMEDOUT; -ENOMEM. fault_slurp_why() - in words.
 */
int fault_slurp(const char *name, char **text, size_t *bytes);
const char *fault_slurp_why(int err);

/* --- a schedule: many faults ------------------------------------------------------ */

/* A fault and the line of text that it stands in, from 1. */
struct fault_line {
    uint32_t number;
    struct fault fault;
};

struct fault_schedule {
    uint32_t count; /* at least 1 */
    struct fault_line *line;
};

/**
 * fault_schedule_text - read a schedule: a fault a line, # begins a comment.
 * @name: for messages. @error: names the line.
 * Errors: -EINVAL; -E2BIG, too many faults; -ENOMEM.
 */
int fault_schedule_text(struct fault_schedule *ret, const char *name, const char *text,
                        size_t bytes, char *error, size_t error_bytes);

/**
 * fault_schedule_read - the same, of a file or a scenario.
 * @what: the name of a scenario, or of a file, which has a '/' or a '.'.
 * Errors: as fault_schedule_text(); -ENOENT, no such scenario; -EIO, the file cannot be read.
 */
int fault_schedule_read(struct fault_schedule *ret, const char *what, char *error,
                        size_t error_bytes);

void fault_schedule_release(struct fault_schedule *schedule);

/* A schedule that is built in. It fits any network that has what it names. */
struct fault_scenario {
    const char *name;
    const char *about;
    const char *text; /* lines */
};

/** fault_scenario_at - the scenarios, in the order of a list; NULL behind the last. */
const struct fault_scenario *fault_scenario_at(size_t i);

/** fault_scenario_find - NULL: there is none of that name. */
const struct fault_scenario *fault_scenario_find(const char *name);

/* --- a fault and a network -------------------------------------------------------- */

/* What faults are checked against. */
struct fault_network {
    const struct topo_graph *graph;
    const struct emu_profile *profile;
    enum emu_clock_mode clock; /* on clock virtual, nodes have no processes */
};

/**
 * fault_check - can the fault be injected into the network? A fault that would have no effect there
 * is refused, and so is one that could not be applied with some seed: the answer is the same for
 * all seeds.
 * @text: on failure what is wrong and what would be right; else what to know of this fault over
 *        this profile, or "".
 * Errors: -EINVAL, the network does not have what the fault names; -ENOTSUP, its profile or clock
 * does not do what the fault needs; -ENOMEM.
 */
int fault_check(const struct fault *fault, const struct fault_network *network, char *text,
                size_t text_bytes);

/* One cable from a switch's end, one switch, or one node, by the fault's domain. */
struct fault_target {
    uint32_t id;        /* switch, or node */
    uint32_t port;      /* of links: of that switch */
    enum fault_way way; /* of links */
};

struct fault_targets {
    uint32_t among; /* so many could have been drawn; count, where none was */
    uint32_t count; /* at least 1 */
    struct fault_target *target;
};

/**
 * fault_targets_find - what a fault befalls in a network, in the order of the network.
 * @seed: of what is drawn: see fault_seed(). The same seed finds the same.
 * @error: as of fault_check().
 * Errors: -EINVAL, the network does not have it; -ENOMEM.
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

/** fault_targets_drawn - would another seed find others? Pure. */
bool fault_targets_drawn(const struct fault *fault);

/**
 * fault_seed - the seed of a fault's targets. @seed: of the run; @number: of the fault in its
 * schedule; @time: which time it begins, from 0. Pure.
 */
uint64_t fault_seed(uint64_t seed, uint32_t number, uint64_t time);

#endif
