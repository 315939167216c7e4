/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counters.h - the counters of the *parts* of a network, which are each direction of a cable, each
 * switch and each node. counters.def lists the counters and says what each of them counts.
 *
 * A sample of a part has its counters by name, and as an array in the order of counters.def, for
 * code that treats all counters alike. Thread: any.
 */
#ifndef APPS_FABRIC_COUNTERS_H
#define APPS_FABRIC_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

enum {
#define DIRECTION(name, kind, shown, text, help) FABRIC_DIRECTION_##name,
#include "apps/fabric/counters.def"
    FABRIC_DIRECTION_COUNTERS
};

enum {
#define SWITCH(name, kind, shown, text, help) FABRIC_SWITCH_##name,
#include "apps/fabric/counters.def"
    FABRIC_SWITCH_COUNTERS
};

enum {
#define NODE(name, kind, shown, text, help) FABRIC_NODE_##name,
#include "apps/fabric/counters.def"
    FABRIC_NODE_COUNTERS
};

struct fabric_direction_sample {
    union {
        struct {
#define DIRECTION(name, kind, shown, text, help) uint64_t name;
#include "apps/fabric/counters.def"
        };
        uint64_t value[FABRIC_DIRECTION_COUNTERS];
    };
};

struct fabric_switch_sample {
    union {
        struct {
#define SWITCH(name, kind, shown, text, help) uint64_t name;
#include "apps/fabric/counters.def"
        };
        uint64_t value[FABRIC_SWITCH_COUNTERS];
    };
};

struct fabric_node_sample {
    union {
        struct {
#define NODE(name, kind, shown, text, help) uint64_t name;
#include "apps/fabric/counters.def"
        };
        uint64_t value[FABRIC_NODE_COUNTERS];
    };
};

enum fabric_counter_kind {
    FABRIC_CUMULATIVE, /* a count since the start */
    /* a count since the start: the sum of the counts at both ends of the direction */
    FABRIC_CUMULATIVE_AT_BOTH_ENDS,
    FABRIC_GAUGE, /* a current number, which may decrease */
};

struct fabric_counter {
    const char *name;
    enum fabric_counter_kind kind;
    const char *help; /* help text of the metric; NULL: metrics.c has its name and help text */
};

/* The counters of one kind of part, in the order of counters.def. */
struct fabric_counters {
    const char *part; /* the kind of part in names of metrics: "port", "switch" or "node" */
    const struct fabric_counter *counter;
    size_t count;
};

extern const struct fabric_counters fabric_direction_counters;
extern const struct fabric_counters fabric_switch_counters;
extern const struct fabric_counters fabric_node_counters;

#define FABRIC_COUNTERS_MOST 16 /* limit of the number of counters of one part */

/** fabric_counters_add - add a sample, @value, to @sum; both are in the order of @counters. */
void fabric_counters_add(const struct fabric_counters *counters, uint64_t *sum,
                         const uint64_t *value);

/** fabric_counters_idle - set the counters of a sample that are FABRIC_GAUGE to 0. */
void fabric_counters_idle(const struct fabric_counters *counters, uint64_t *value);

/**
 * fabric_counters_each - call @print for each counter, in the order in which hosts send counters to
 * each other without names: the counters of the whole fabric, then those of its parts.
 */
void fabric_counters_each(void (*print)(void *ctx, const char *part, const char *name), void *ctx);

#endif
