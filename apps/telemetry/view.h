/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * view.h - a *view* is the state of a fabric that a reader rebuilds from lines of telemetry
 * (docs/telemetry.md). The first line is the *shape*, which describes the network; the others are
 * snapshots of its counters.
 *
 * Lines may come from an untrusted file, so each value is checked against the shape. Thread: one at
 * a time.
 */
#ifndef APPS_TELEMETRY_VIEW_H
#define APPS_TELEMETRY_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/fabric/counters.h"

struct json_object;

/* Counters of the whole fabric, named as in a line. */
struct telemetry_totals {
#define TOTAL(name, section, shown, text) uint64_t name;
#define DERIVED(name, value, shown, text) uint64_t name;
#include "apps/fabric/counters.def"
};

#define TELEMETRY_COLLECTIVES 11u /* number of values of enum fabemu_coll */
extern const char *const telemetry_collectives[TELEMETRY_COLLECTIVES];

/* Fields as in docs/telemetry.md. */
struct telemetry_view_cable {
    uint32_t sw, port;
    bool to_switch;
    uint32_t peer, peer_port, lane;
    uint32_t state; /* index in view->link_states */
    uint64_t outs;
    struct fabric_direction_sample direction[2]; /* to the first end, from the first end */
};

struct telemetry_view_switch {
    uint32_t level, position;
    int64_t low, high;
    struct fabric_switch_sample now;
};

struct telemetry_view_node {
    struct fabric_node_sample now;
    int64_t pid; /* 0: no process */
    int64_t rank;
    char command[16];
    uint32_t waits; /* index in view->wait_kinds */
    int64_t waits_other, waits_group;
    uint64_t waits_since; /* in the unit of telemetry_view.at */
};

#define TELEMETRY_VIEW_FINISHED 256u /* number of recent collectives that a view keeps */

struct telemetry_view_finished {
    int64_t group;
    uint64_t number;
    uint32_t kind;           /* index in view->wait_kinds */
    uint64_t bytes, members; /* members 0: unused entry */
    uint64_t began, ended;
};

struct telemetry_view {
    /* The next fields come from the shape. */
    struct json_object *shape;                 /* NULL: none received yet */
    const char *name, *topo, *profile, *clock; /* borrowed from shape */
    bool is_virtual;                           /* times are in ps of simulated time */
    uint32_t nodes, switches, cables;
    uint64_t link_bytes_per_s;
    struct json_object *link_states, *wait_kinds; /* borrowed from shape */

    /* The next fields come from snapshots. */
    uint64_t sample; /* 0: no snapshot received yet */
    uint64_t at;     /* time of the last snapshot, in ns (clock virtual: ps) */
    uint64_t skipped;
    struct telemetry_totals totals;
    struct {
        uint64_t network, elsewhere;
    } collectives[TELEMETRY_COLLECTIVES];
    struct telemetry_view_cable *cable;
    struct telemetry_view_switch *sw;
    struct telemetry_view_node *node;
    struct telemetry_view_finished *finished; /* ring of TELEMETRY_VIEW_FINISHED entries */
    uint32_t finished_next;                   /* index of the oldest, or of an unused entry */
    uint64_t finished_count, finished_missed;
};

/**
 * telemetry_view_take - apply one line to the view; a shape resets it. The caller keeps @line.
 * Returns 1 if the line was a shape or a snapshot; 0 for any other line. Errors: -ENOMEM; -EPROTO
 * if the line does not conform to docs/telemetry.md or comes before a shape; -EMSGSIZE if the
 * fabric reports that the snapshot is too large.
 */
int telemetry_view_take(struct telemetry_view *view, struct json_object *line);

/** telemetry_view_release - empty the view and free its memory. */
void telemetry_view_release(struct telemetry_view *view);

/**
 * telemetry_view_settings - write @before, followed by the fields of the profile that the user has
 * set by options: "FIELD=VALUE, …". Write "" if there are none.
 */
void telemetry_view_settings(const struct telemetry_view *view, const char *before, char *ret,
                             size_t ret_bytes);

/**
 * telemetry_view_link - return the name of a cable's state.
 * telemetry_view_kind() - return the name of an operation; @kind: index in view->wait_kinds.
 * telemetry_view_wait() - return the name of a node's pending operation.
 */
const char *telemetry_view_link(const struct telemetry_view *view, uint32_t cable);
const char *telemetry_view_kind(const struct telemetry_view *view, uint32_t kind);
const char *telemetry_view_wait(const struct telemetry_view *view, uint32_t node);

/** telemetry_view_copy - release the contents of @to, and copy @from to @to. Errors: -ENOMEM. */
int telemetry_view_copy(struct telemetry_view *to, const struct telemetry_view *from);

/** telemetry_view_s - return the time of the last snapshot in seconds since the fabric's start. */
double telemetry_view_s(const struct telemetry_view *view);

struct conn;

/**
 * telemetry_view_subscribe - request a snapshot every @every_ms from fabric @name over @conn.
 * Errors: as conn_query(); -EPROTO, the fabric refuses; with one line in @error.
 */
int telemetry_view_subscribe(struct conn *conn, const char *name, unsigned every_ms, char *error,
                             size_t error_bytes);

/**
 * telemetry_view_read - subscribe to fabric @name and read its shape and first snapshot. On an
 * error @error has one line for the user.
 */
int telemetry_view_read(struct telemetry_view *view, const char *name, char *error,
                        size_t error_bytes);

struct text_buf;

/**
 * telemetry_view_name - return the name of a switch or node in the network's file, or NULL if the
 * network is not from a file. The view owns the string.
 */
const char *telemetry_view_name(const struct telemetry_view *view, bool node, uint32_t number);

/**
 * telemetry_view_guid - return a device's GUID in the network's file, for example
 * "0x0002c903000e0b72"; NULL: none.
 */
const char *telemetry_view_guid(const struct telemetry_view *view, bool node, uint32_t number);

/*
 * The exporter from which metrics take their names. With INFINIBAND_EXPORTER there are only metrics
 * of ports.
 */
enum telemetry_names { TELEMETRY_NODE_EXPORTER, TELEMETRY_INFINIBAND_EXPORTER };

/** telemetry_names_of - parse an exporter's name. Returns false if it is unknown. Pure. */
bool telemetry_names_of(const char *text, enum telemetry_names *ret);

/**
 * telemetry_metrics - replace the contents of @text by all metrics of @view (docs/telemetry.md) in
 * Prometheus' text format. @text is empty if @view has no snapshot.
 */
void telemetry_metrics(const struct telemetry_view *view, enum telemetry_names names,
                       struct text_buf *text);

#endif
