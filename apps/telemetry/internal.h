/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - what a sampler remembers of its last look. For apps/telemetry/ alone.
 */
#ifndef APPS_TELEMETRY_INTERNAL_H
#define APPS_TELEMETRY_INTERNAL_H

#include "apps/fabric/sample.h"
#include "apps/telemetry/telemetry.h"

/* Each with the look in which it has changed last; 0: never. */
struct telemetry_direction {
    struct fabric_direction_sample now;
    uint64_t changed;
};

struct telemetry_noted {
    struct telemetry_cable now;
    uint64_t changed;
};

struct telemetry_switch {
    struct fabric_switch_sample now;
    uint64_t changed;
};

struct telemetry_node {
    struct fabric_node_sample now;
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

/* What other hosts have counted of their parts, as they have told: part.c's. */
struct telemetry_remote {
    struct fabric_direction_sample *direction; /* by way: of what both its ends' hosts count */
    struct fabric_switch_sample *sw;
    struct fabric_node_sample *node;
    struct fabric_totals totals;
};

/* A line but for its beginning: readers of the same looks share it. */
struct telemetry_tail {
    struct text_buf text;
    uint64_t sample, since;
};

struct fabric_cable;
struct telemetry_aggregate;

struct telemetry {
    struct telemetry_source source;
    struct telemetry_remote *remote; /* NULL: there are no others, or they tell somebody else */
    uint64_t samples;
    uint64_t at; /* of the last one, from source.origin on */
    struct fabric_totals totals;
    struct telemetry_direction *direction; /* two a cable: to its first end, from it */
    struct telemetry_noted *cable;
    struct telemetry_switch *sw;
    struct telemetry_node *node;
    struct telemetry_finished *finished; /* where its group and number fall; older ones give way */
    uint64_t finished_count;             /* by all members of all */
    uint64_t finished_missed;
    struct telemetry_tail tail; /* of the last line */
    struct telemetry_aggregate
        *aggregate; /* NULL: nobody has asked for it, or it is no large network */
};

/* telemetry.c: @members of a collective have finished it, known from look @sample on. */
void telemetry_finished_note(struct telemetry *t, const struct emu_finished *one, uint32_t members,
                             uint64_t sample);

/* part.c: t->far. Errors: -ENOMEM. The others add what it has to what is here. */
int telemetry_remote_create(struct telemetry *t);
void telemetry_remote_free(struct telemetry *t);
void telemetry_remote_totals(const struct telemetry *t, struct fabric_totals *sum);

/*
 * shape.c: how the line begins, up to what is in the network; a list of names; so many cables
 * before that one join the same two.
 */
void telemetry_shape_begin(const struct telemetry *t, uint64_t every_ns, uint32_t nodes,
                           struct text_buf *text);
void telemetry_shape_names(struct text_buf *text, const char *field, const char *const *names,
                           size_t count);
int64_t telemetry_shape_lane(const struct fabric *fabric, const struct fabric_cable *cable);

/* line.c: names of what is told by number. */
extern const char *const telemetry_link_names[TELEMETRY_LINKS];
extern const char *const telemetry_kind_names[TELEMETRY_KINDS];

#endif
