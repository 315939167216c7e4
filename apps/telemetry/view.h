/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * view.h - a fabric as the lines of telemetry tell of it (docs/telemetry.md): what a reader keeps.
 *
 * Lines may come from a file of somebody else's: nothing in them is believed but what fits the
 * shape. Owned by one thread.
 */
#ifndef APPS_TELEMETRY_VIEW_H
#define APPS_TELEMETRY_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/fabric/counters.h"

struct json_object;

/* Counters of the whole fabric, by the names that they have in a line. */
struct telemetry_totals {
#define TOTAL(name, section, shown, text) uint64_t name;
#define DERIVED(name, value, shown, text) uint64_t name;
#include "apps/fabric/counters.def"
};

#define TELEMETRY_COLLECTIVES 4u /* barrier, broadcast, reduce, allreduce */
extern const char *const telemetry_collectives[TELEMETRY_COLLECTIVES];

/* Fields as in docs/telemetry.md. */
struct telemetry_view_cable {
    uint32_t sw, port;
    bool to_switch;
    uint32_t peer, peer_port, lane;
    uint32_t state; /* of view->link_states */
    uint64_t outs;
    struct fabric_direction_sample direction[2]; /* to the first end, from it */
};

struct telemetry_view_switch {
    uint32_t level, position;
    int64_t low, high;
    struct fabric_switch_sample now;
};

struct telemetry_view_node {
    struct fabric_node_sample now;
    int64_t pid; /* 0: nobody is there */
    int64_t rank;
    char command[16];
    uint32_t waits; /* of view->wait_kinds */
    int64_t waits_other, waits_group;
    uint64_t waits_bytes, waits_since; /* ns, or ps, as `at` */
};

#define TELEMETRY_VIEW_FINISHED 256u /* collectives that a view remembers */

struct telemetry_view_finished {
    int64_t group;
    uint64_t number;
    uint32_t kind;           /* of view->wait_kinds */
    uint64_t bytes, members; /* members 0: there is none here */
    uint64_t began, ended;
};

struct telemetry_view {
    /* The shape; NULL: none has come yet. */
    struct json_object *shape;
    const char *name, *topo, *profile, *clock; /* of it */
    bool is_virtual;                           /* times are simulated ps */
    uint32_t nodes, switches, cables;
    uint64_t link_bytes_per_s;
    struct json_object *link_states, *wait_kinds; /* of it */

    /* What is so now. */
    uint64_t sample; /* 0: no snapshot has come yet */
    uint64_t at;     /* ns; virtual: ps */
    uint64_t skipped;
    struct telemetry_totals totals;
    struct {
        uint64_t network, elsewhere;
    } collectives[TELEMETRY_COLLECTIVES];
    struct telemetry_view_cable *cable;
    struct telemetry_view_switch *sw;
    struct telemetry_view_node *node;
    struct telemetry_view_finished *finished; /* TELEMETRY_VIEW_FINISHED, in no order */
    uint64_t finished_count, finished_missed;
};

/**
 * telemetry_view_take - one line; it stays the caller's. Returns 1, it was a shape or a snapshot,
 * and the view is as it says; 0, it is about something else. Errors: -ENOMEM; -EPROTO, it is not as
 * docs/telemetry.md has it, or comes before its shape. A shape begins a view anew.
 */
int telemetry_view_take(struct telemetry_view *view, struct json_object *line);

/** telemetry_view_release - free what it holds; it is empty then. */
void telemetry_view_release(struct telemetry_view *view);

/**
 * telemetry_view_settings - what options have set in the profile, as text: @before, then
 * "FIELD=VALUE, …"; "" if nothing is set.
 */
void telemetry_view_settings(const struct telemetry_view *view, const char *before, char *ret,
                             size_t ret_bytes);

/**
 * telemetry_view_link - the name of a cable's state. telemetry_view_kind() - of what a collective
 * is, or what is waited for. telemetry_view_wait() - what a node waits for.
 */
const char *telemetry_view_link(const struct telemetry_view *view, uint32_t cable);
const char *telemetry_view_kind(const struct telemetry_view *view, uint32_t kind);
const char *telemetry_view_wait(const struct telemetry_view *view, uint32_t node);

/** telemetry_view_copy - @to, which is released, becomes what @from is. Errors: -ENOMEM. */
int telemetry_view_copy(struct telemetry_view *to, const struct telemetry_view *from);

/** telemetry_view_s - seconds since the fabric's start, of the last snapshot. */
double telemetry_view_s(const struct telemetry_view *view);

/**
 * telemetry_view_read - subscribe to fabric @name and take its shape and first snapshot. Errors:
 * with one line in @error.
 */
int telemetry_view_read(struct telemetry_view *view, const char *name, char *error,
                        size_t error_bytes);

struct text_buf;

/**
 * telemetry_view_name - what the network's file calls a switch, or a node; NULL: there is no file.
 * The view's.
 */
const char *telemetry_view_name(const struct telemetry_view *view, bool node, uint32_t number);

/**
 * telemetry_view_guid - a device's GUID in the network's file, "0x0002c903000e0b72"; NULL: none.
 */
const char *telemetry_view_guid(const struct telemetry_view *view, bool node, uint32_t number);

/* Whose names metrics have. Only with those of node_exporter there is more than of ports. */
enum telemetry_names { TELEMETRY_NODE_EXPORTER, TELEMETRY_INFINIBAND_EXPORTER };

/** telemetry_names_of - as people write it: "node_exporter". False: it is none. Pure. */
bool telemetry_names_of(const char *text, enum telemetry_names *ret);

/**
 * telemetry_metrics - in place of what is in @text: all of @view in Prometheus' text format, which
 * docs/telemetry.md lists. A view without a snapshot has none.
 */
void telemetry_metrics(const struct telemetry_view *view, enum telemetry_names names,
                       struct text_buf *text);

#endif
