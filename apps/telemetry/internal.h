/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h - the state of a sampler. Only files of apps/telemetry/ and tests include it. */
#ifndef APPS_TELEMETRY_INTERNAL_H
#define APPS_TELEMETRY_INTERNAL_H

#include "apps/fabric/sample.h"
#include "apps/telemetry/telemetry.h"

/*
 * Tables of counters. In TELEMETRY_DIRECTIONS, rows 2i and 2i + 1 are the directions of cable i to
 * and from its first end.
 */
enum { TELEMETRY_DIRECTIONS, TELEMETRY_SWITCHES, TELEMETRY_NODES, TELEMETRY_TABLES };

struct telemetry_table {
    const struct fabric_counters *counters;
    uint32_t rows;
    uint64_t *value;   /* counters->count values per row */
    uint64_t *changed; /* by row: number of the last sample in which it changed; 0: never */
};

static inline uint64_t *telemetry_values(const struct telemetry_table *table, uint64_t row)
{
    return table->value + row * table->counters->count;
}

/**
 * telemetry_tables_create - allocate zeroed tables. The caller frees them, even after an error.
 * Errors: -ENOMEM.
 */
int telemetry_tables_create(struct telemetry_table ret[TELEMETRY_TABLES], uint32_t directions,
                            uint32_t switches, uint32_t nodes);
void telemetry_tables_free(struct telemetry_table table[TELEMETRY_TABLES]);

struct telemetry_cable_entry {
    struct telemetry_cable now;
    uint64_t changed; /* number of the last sample in which `now` changed; 0: never */
};

struct telemetry_node {
    struct telemetry_process who;
    uint64_t who_changed;
    struct telemetry_wait waits;
    uint64_t waits_changed;
    struct fabric_finished_at finished;
};

#define TELEMETRY_FINISHED 256u /* number of recent collectives that a sampler keeps */

/* A collective. Each member reports a collective after finishing it. */
struct telemetry_finished {
    /* began_ns: when the first member began; ended_ns: when the last member ended */
    struct emu_finished now;
    uint32_t members; /* number of members that have reported it; 0: the entry is unused */
    uint64_t changed;
    uint32_t host;  /* the host that reported it first */
    uint64_t added; /* number of entries that were added before it */
};

/*
 * The body of a line, which all readers share. The first fields of the line differ between readers.
 */
struct telemetry_body {
    struct text_buf text;
    /* the fields "sample" and "since" of the line; sample 0: there is no line */
    uint64_t sample, since;
};

struct fabric_cable;
struct telemetry_aggregate;

struct telemetry {
    struct telemetry_source source;
    uint64_t samples; /* number of samples taken */
    uint64_t at;      /* time from source.origin to the last sample, in ns (clock virtual: ps) */
    struct fabric_totals totals;
    struct telemetry_table table[TELEMETRY_TABLES];
    /* Sums of the counters that other hosts have sent, if source.hosts is set. */
    struct telemetry_table remote[TELEMETRY_TABLES];
    struct fabric_totals remote_totals;
    struct telemetry_cable_entry *cable;
    struct telemetry_node *node;
    /*
     * TELEMETRY_FINISHED entries. If all are used, a new collective replaces the oldest one of the
     * host that has the most entries, so that no host can use up the space for the others.
     */
    struct telemetry_finished *finished;
    uint64_t finished_added; /* number of entries that were added */
    uint32_t finished_last;  /* index of the last entry that was found */
    /* number of completions: one per member and collective */
    uint64_t finished_count;
    /* number of completions overwritten before they were read */
    uint64_t finished_missed;
    struct telemetry_body body;            /* body of the last line */
    struct telemetry_aggregate *aggregate; /* NULL: not requested, or the network is not large */
};

/*
 * telemetry.c: record that a further @members members have finished a collective, for sample
 * @sample. @host: the host that has reported it.
 */
void telemetry_finished_note(struct telemetry *t, uint32_t host, const struct emu_finished *one,
                             uint32_t members, uint64_t sample);

/*
 * shape.c: telemetry_shape_begin() writes the fields of a shape before the lists of devices.
 * telemetry_shape_names() writes a list of names. telemetry_shape_lane() returns the number of
 * cables before @cable that join the same two devices.
 */
void telemetry_shape_begin(const struct telemetry *t, uint64_t every_ns, uint32_t nodes,
                           struct text_buf *text);
void telemetry_shape_names(struct text_buf *text, const char *field, const char *const *names,
                           size_t count);
int64_t telemetry_shape_lane(const struct fabric *fabric, const struct fabric_cable *cable);

/* line.c: write "NAME":[ */
void telemetry_list_begin(struct text_buf *text, const char *name);

/* line.c: names of the states and operations that lines contain as numbers. */
extern const char *const telemetry_link_names[TELEMETRY_LINKS];
extern const char *const telemetry_kind_names[TELEMETRY_KINDS];

#endif
