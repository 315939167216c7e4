/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - what a sampler remembers of its last look. For apps/telemetry/ alone.
 */
#ifndef APPS_TELEMETRY_INTERNAL_H
#define APPS_TELEMETRY_INTERNAL_H

#include "apps/fabric/look/sample.h"
#include "apps/telemetry/telemetry.h"

/* Each with the look in which it has changed last; 0: never. */
struct telemetry_way {
    struct fabric_way now;
    uint64_t changed;
};

struct telemetry_noted {
    struct telemetry_cable now;
    uint64_t changed;
};

struct telemetry_switch {
    struct fabric_combined now;
    uint64_t changed;
};

struct telemetry_node {
    struct fabric_passed now;
    uint64_t changed;
    struct telemetry_process who;
    uint64_t who_changed;
    struct telemetry_wait waits;
    uint64_t waits_changed;
    struct fabric_finished_at finished;
};

#define TELEMETRY_FINISHED 256u /* of the last collectives, so many are remembered */

/* A collective, by those of its members that have finished it. */
struct telemetry_finished {
    struct emu_finished now; /* began_ns: of the first of them; ended_ns: of the last */
    uint32_t members;
    uint64_t changed;
};

struct telemetry {
    struct telemetry_source source;
    uint64_t looks;
    uint64_t at; /* of the last one, from source.origin on */
    struct fabric_totals totals;
    struct telemetry_way *way; /* two a cable: to its first end, from it */
    struct telemetry_noted *cable;
    struct telemetry_switch *sw;
    struct telemetry_node *node;
    struct telemetry_finished *finished; /* where its group and number fall; older ones give way */
    uint64_t finished_count;             /* by all members of all */
    uint64_t finished_missed;

    /* The last line that was written, but for its beginning: readers of the same looks share it. */
    struct telemetry_text tail;
    uint64_t tail_look, tail_since;
};

/* line.c: names of what is told by number. */
extern const char *const telemetry_link_names[TELEMETRY_LINKS];
extern const char *const telemetry_kind_names[TELEMETRY_KINDS];

#endif
