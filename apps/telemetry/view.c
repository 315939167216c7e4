/* SPDX-License-Identifier: BSD-3-Clause */
/* view.c - rebuilds the state of a fabric from lines of telemetry. */
#include "apps/telemetry/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/message.h"
#include "apps/control/conn.h"
#include "apps/control/paths.h"
#include "apps/telemetry/filter.h"
#include "emu/util/json.h"
#include "emu/util/now.h"
#include "topo/topo.h"

/*
 * maximum number of switches, and also of cables, in a *shape*, the line that describes the network
 */
#define PARTS_MOST 16777216u
/*
 * minimum number of columns in a row of counters: the number of a device or cable direction, and
 * one counter
 */
#define COUNTERS_COLUMNS 2u

const char *const telemetry_collectives[TELEMETRY_COLLECTIVES] = {
    "barrier", "broadcast", "reduce", "allreduce", "allgather", "reduce_scatter",
    "gather",  "scatter",   "scan",   "alltoall",  "neighbor"};

/* --- rows --------------------------------------------------------------------------- */

/* A row is an element of a list, and itself a list of numbers. */
struct row {
    struct json_object *list;
};

/* Get row @i of @list. Returns false if it is not a list of @columns or more elements. */
static bool row_at(struct json_object *list, size_t i, size_t columns, struct row *ret)
{
    ret->list = emu_json_at(list, i);
    return json_object_is_type(ret->list, json_type_array) && emu_json_count(ret->list) >= columns;
}

static int64_t column(const struct row *row, size_t i)
{
    return json_object_get_int64(emu_json_at(row->list, i));
}

/* Return a number of a row. A negative value is invalid and becomes 0. */
static uint64_t count(const struct row *row, size_t i)
{
    int64_t number = column(row, i);

    return number > 0 ? (uint64_t)number : 0;
}

/* Find list @name in @line; an absent list is empty. Returns false if the value is no list. */
static bool list_of(struct json_object *line, const char *name, struct json_object **ret,
                    size_t *length)
{
    bool there = json_object_object_get_ex(line, name, ret) && *ret;

    *length = 0;
    if (!there)
        return true;
    if (!json_object_is_type(*ret, json_type_array))
        return false;
    *length = emu_json_count(*ret);
    return true;
}

/* --- the shape ---------------------------------------------------------------------- */

void telemetry_view_release(struct telemetry_view *view)
{
    json_object_put(view->shape);
    free(view->cable);
    free(view->sw);
    free(view->node);
    free(view->finished);
    *view = (struct telemetry_view){0};
}

static int take_cables(struct telemetry_view *view, struct json_object *list)
{
    for (uint32_t i = 0; i < view->cables; i++) {
        struct telemetry_view_cable *cable = &view->cable[i];
        struct row row;

        if (!row_at(list, i, 6, &row))
            return -EPROTO;
        *cable = (struct telemetry_view_cable){.sw = (uint32_t)count(&row, 0),
                                               .port = (uint32_t)count(&row, 1),
                                               .to_switch = column(&row, 2) == 1,
                                               .peer = (uint32_t)count(&row, 3),
                                               .peer_port = (uint32_t)count(&row, 4),
                                               .lane = (uint32_t)count(&row, 5)};
        if (cable->sw >= view->switches ||
            cable->peer >= (cable->to_switch ? view->switches : view->nodes))
            return -EPROTO;
    }
    return 0;
}

static int take_switches(struct telemetry_view *view, struct json_object *list)
{
    for (uint32_t i = 0; i < view->switches; i++) {
        struct row row;

        if (!row_at(list, i, 4, &row))
            return -EPROTO;
        view->sw[i] = (struct telemetry_view_switch){.level = (uint32_t)count(&row, 0),
                                                     .position = (uint32_t)count(&row, 1),
                                                     .low = column(&row, 2),
                                                     .high = column(&row, 3)};
    }
    return 0;
}

static int take_parts(struct telemetry_view *view, struct json_object *line)
{
    struct json_object *cables, *switches;
    size_t cable_count, switch_count;
    int64_t nodes = emu_json_number(line, "nodes", 0);

    if (!list_of(line, "cables", &cables, &cable_count) ||
        !list_of(line, "switches", &switches, &switch_count) || nodes < 1 ||
        nodes > TOPO_NODES_MAX || cable_count > PARTS_MOST || switch_count > PARTS_MOST)
        return -EPROTO;
    view->nodes = (uint32_t)nodes;
    view->cables = (uint32_t)cable_count;
    view->switches = (uint32_t)switch_count;
    view->node = calloc(view->nodes, sizeof *view->node);
    view->cable = calloc(cable_count + 1, sizeof *view->cable);
    view->sw = calloc(switch_count + 1, sizeof *view->sw);
    view->finished = calloc(TELEMETRY_VIEW_FINISHED, sizeof *view->finished);
    if (!view->node || !view->cable || !view->sw || !view->finished)
        return -ENOMEM;
    for (uint32_t n = 0; n < view->nodes; n++)
        view->node[n].rank = view->node[n].waits_other = view->node[n].waits_group = -1;
    return take_switches(view, switches) ? -EPROTO : take_cables(view, cables);
}

void telemetry_view_settings(const struct telemetry_view *view, const char *before, char *ret,
                             size_t ret_bytes)
{
    struct json_object *origin = json_object_object_get(view->shape, "origin");
    struct json_object *settings = json_object_object_get(origin, "settings");
    size_t used = 0;

    *ret = '\0';
    if (!json_object_is_type(settings, json_type_object))
        return;
    json_object_object_foreach(settings, field, value)
    {
        used += (size_t)snprintf(ret + used, ret_bytes - used, "%s%s=%s", used ? ", " : before,
                                 field, json_object_get_string(value));
        if (used >= ret_bytes)
            return;
    }
}

static int take_shape(struct telemetry_view *view, struct json_object *line)
{
    size_t states, kinds;
    int err;

    telemetry_view_release(view);
    view->shape = json_object_get(line);
    view->name = emu_json_text(line, "name", "");
    view->topo = emu_json_text(line, "topo", "");
    view->profile = emu_json_text(line, "profile", "");
    view->clock = emu_json_text(line, "clock", "");
    view->is_virtual = strcmp(view->clock, "virtual") == 0;
    view->link_bytes_per_s = (uint64_t)emu_json_number(line, "link_bytes_per_s", 0);
    err = list_of(line, "link_states", &view->link_states, &states) &&
                  list_of(line, "wait_kinds", &view->wait_kinds, &kinds) && states && kinds
              ? take_parts(view, line)
              : -EPROTO;
    if (err)
        telemetry_view_release(view);
    return err;
}

/* --- snapshots ---------------------------------------------------------------------- */

/*
 * Read the counters of a row. An older fabric may have fewer counters; the missing ones become 0.
 * Always returns true.
 */
static bool take_counters(const struct row *row, const struct fabric_counters *counters,
                          uint64_t *value)
{
    for (size_t i = 0; i < counters->count; i++)
        value[i] = count(row, 1 + i);
    return true;
}

static bool take_link(struct telemetry_view *view, const struct row *row)
{
    uint64_t i = count(row, 0);

    return i < 2 * (uint64_t)view->cables &&
           take_counters(row, &fabric_direction_counters,
                         view->cable[i / 2].direction[i % 2].value);
}

static bool take_state(struct telemetry_view *view, const struct row *row)
{
    uint64_t i = count(row, 0), state = count(row, 1);

    if (i >= view->cables || state >= emu_json_count(view->link_states))
        return false;
    view->cable[i].state = (uint32_t)state;
    view->cable[i].outs = count(row, 2);
    return true;
}

static bool take_switch(struct telemetry_view *view, const struct row *row)
{
    uint64_t i = count(row, 0);

    return i < view->switches && take_counters(row, &fabric_switch_counters, view->sw[i].now.value);
}

static bool take_node(struct telemetry_view *view, const struct row *row)
{
    uint64_t i = count(row, 0);

    return i < view->nodes && take_counters(row, &fabric_node_counters, view->node[i].now.value);
}

static bool take_wait(struct telemetry_view *view, const struct row *row)
{
    uint64_t i = count(row, 0), kind = count(row, 1);

    if (i >= view->nodes || kind >= emu_json_count(view->wait_kinds))
        return false;
    view->node[i].waits = (uint32_t)kind;
    view->node[i].waits_other = column(row, 2);
    view->node[i].waits_group = column(row, 3);
    view->node[i].waits_since = count(row, 5);
    return true;
}

/* Return the entry of a collective, or the oldest entry in its place. */
static struct telemetry_view_finished *finished_entry(struct telemetry_view *view, int64_t group,
                                                      uint64_t number)
{
    struct telemetry_view_finished *at;

    for (uint32_t i = 0; i < TELEMETRY_VIEW_FINISHED; i++) {
        at = &view->finished[i];
        if (at->members && at->group == group && at->number == number)
            return at;
    }
    at = &view->finished[view->finished_next];
    view->finished_next = (view->finished_next + 1) % TELEMETRY_VIEW_FINISHED;
    return at;
}

static bool take_finished(struct telemetry_view *view, const struct row *row)
{
    uint64_t group = count(row, 0), number = count(row, 1), kind = count(row, 2);

    if (kind >= emu_json_count(view->wait_kinds))
        return false;
    *finished_entry(view, (int64_t)group, number) =
        (struct telemetry_view_finished){.group = (int64_t)group,
                                         .number = number,
                                         .kind = (uint32_t)kind,
                                         .bytes = count(row, 3),
                                         .members = count(row, 4),
                                         .began = count(row, 5),
                                         .ended = count(row, 6)};
    return true;
}

static bool take_processes(struct telemetry_view *view, struct json_object *line)
{
    struct json_object *list;
    size_t length;

    if (!list_of(line, "processes", &list, &length))
        return false;
    for (size_t i = 0; i < length; i++) {
        struct json_object *one = emu_json_at(list, i);
        int64_t n = json_object_is_type(one, json_type_object) ? emu_json_number(one, "node", -1)
                                                               : -1;

        if (n < 0 || n >= view->nodes)
            return false;
        view->node[n].pid = emu_json_number(one, "pid", 0);
        view->node[n].rank = emu_json_number(one, "rank", -1);
        snprintf(view->node[n].command, sizeof view->node[n].command, "%s",
                 emu_json_text(one, "command", ""));
    }
    return true;
}

static uint64_t number_of(struct json_object *totals, const char *name)
{
    return (uint64_t)emu_json_number(totals, name, 0);
}

static bool take_totals(struct telemetry_view *view, struct json_object *line)
{
    struct json_object *totals = json_object_object_get(line, "totals"), *list;
    size_t length;

    if (!json_object_is_type(totals, json_type_object) ||
        !list_of(line, "collectives", &list, &length) || length < TELEMETRY_COLLECTIVES)
        return false;
#define TAKE(name)                        view->totals.name = number_of(totals, #name);
#define TOTAL(name, section, shown, text) TAKE(name)
#define DERIVED(name, value, shown, text) TAKE(name)
#include "apps/fabric/counters.def"
#undef TAKE
    for (size_t i = 0; i < TELEMETRY_COLLECTIVES; i++) {
        struct row row;

        if (!row_at(list, i, 2, &row))
            return false;
        view->collectives[i].network = count(&row, 0);
        view->collectives[i].elsewhere = count(&row, 1);
    }
    return true;
}

static const struct {
    const char *name;
    size_t columns;
    bool (*take)(struct telemetry_view *view, const struct row *row);
} lists[] = {
    {"links", COUNTERS_COLUMNS, take_link},
    {"states", 3, take_state},
    {"switches", COUNTERS_COLUMNS, take_switch},
    {"nodes", COUNTERS_COLUMNS, take_node},
    {"waits", 6, take_wait},
    {"finished", 7, take_finished},
};

static int take_snapshot(struct telemetry_view *view, struct json_object *line)
{
    struct row row;

    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        struct json_object *list;
        size_t length;

        if (!list_of(line, lists[l].name, &list, &length))
            return -EPROTO;
        for (size_t i = 0; i < length; i++)
            if (!row_at(list, i, lists[l].columns, &row) || !lists[l].take(view, &row))
                return -EPROTO;
    }
    if (!take_processes(view, line) || !take_totals(view, line))
        return -EPROTO;
    view->sample = (uint64_t)emu_json_number(line, "sample", 1);
    view->finished_count = (uint64_t)emu_json_number(line, "finished_count", 0);
    view->finished_missed = (uint64_t)emu_json_number(line, "finished_missed", 0);
    view->skipped += (uint64_t)emu_json_number(line, "skipped", 0);
    view->at = (uint64_t)emu_json_number(line, view->is_virtual ? "at_ps" : "at_ns", 0);
    return 0;
}

int telemetry_view_take(struct telemetry_view *view, struct json_object *line)
{
    const char *event;
    int err;

    emu_json_no_controls(line);
    event = emu_json_text(line, "event", "");
    if (json_object_object_get_ex(line, "ok", NULL) && !emu_json_true(line, "ok"))
        return -EMSGSIZE; /* the fabric sends this instead of a snapshot that is too large */
    if (strcmp(event, "telemetry_shape") == 0)
        err = take_shape(view, line);
    else if (strcmp(event, "telemetry") == 0)
        err = view->shape ? take_snapshot(view, line) : -EPROTO;
    else
        return 0;
    return err ? err : 1;
}

/* --- queries ------------------------------------------------------------------------ */

const char *telemetry_view_link(const struct telemetry_view *view, uint32_t cable)
{
    const char *name =
        json_object_get_string(emu_json_at(view->link_states, view->cable[cable].state));

    return name ? name : "";
}

/*
 * Return the entry of a device in @list of the shape, which has an entry for each switch and then
 * one for each node.
 */
static const char *text_of(const struct telemetry_view *view, const char *list, bool node,
                           uint32_t number)
{
    struct json_object *texts = json_object_object_get(view->shape, list);
    size_t at = (node ? view->switches : 0) + (size_t)number;

    if (at >= emu_json_count(texts))
        return NULL;
    return json_object_get_string(emu_json_at(texts, at));
}

const char *telemetry_view_name(const struct telemetry_view *view, bool node, uint32_t number)
{
    return text_of(view, "names", node, number);
}

const char *telemetry_view_guid(const struct telemetry_view *view, bool node, uint32_t number)
{
    const char *guid = text_of(view, "guids", node, number);

    return guid && *guid ? guid : NULL;
}

const char *telemetry_view_kind(const struct telemetry_view *view, uint32_t kind)
{
    const char *name = json_object_get_string(emu_json_at(view->wait_kinds, kind));

    return name ? name : "";
}

const char *telemetry_view_wait(const struct telemetry_view *view, uint32_t node)
{
    return telemetry_view_kind(view, view->node[node].waits);
}

static void *copy_of(const void *from, size_t bytes)
{
    void *to = malloc(bytes + 1);

    return to && bytes ? memcpy(to, from, bytes) : to;
}

int telemetry_view_copy(struct telemetry_view *to, const struct telemetry_view *from)
{
    telemetry_view_release(to);
    if (!from->shape)
        return 0;
    *to = *from;
    to->shape = json_object_get(from->shape);
    to->cable = copy_of(from->cable, from->cables * sizeof *from->cable);
    to->sw = copy_of(from->sw, from->switches * sizeof *from->sw);
    to->node = copy_of(from->node, from->nodes * sizeof *from->node);
    to->finished = copy_of(from->finished, TELEMETRY_VIEW_FINISHED * sizeof *from->finished);
    if (to->cable && to->sw && to->node && to->finished)
        return 0;
    telemetry_view_release(to);
    return -ENOMEM;
}

double telemetry_view_s(const struct telemetry_view *view)
{
    return (double)view->at * (view->is_virtual ? 1e-12 : 1e-9);
}

/* --- a running fabric ------------------------------------------------------------- */

/*
 * Read lines up to the first snapshot. If the fabric reports an error, its text is written to
 * @error.
 */
static int take_first_snapshot(struct telemetry_view *view, struct conn *conn, char *error,
                               size_t error_bytes)
{
    int64_t end_ms = emu_now_ms() + CONN_ANSWER_MS, left_ms;
    struct json_object *line;
    int err = 0;

    while (!err && !view->sample) {
        left_ms = end_ms - emu_now_ms();
        err = left_ms > 0 ? conn_wait(conn, &line, (int)left_ms) : -ETIMEDOUT;
        if (err)
            break;
        err = telemetry_view_take(view, line);
        err = err < 0 ? err : 0;
        if (err)
            snprintf(error, error_bytes, "%s", emu_json_text(line, "error", ""));
        json_object_put(line);
    }
    return err;
}

int telemetry_view_subscribe(struct conn *conn, const char *name, unsigned every_ms, char *error,
                             size_t error_bytes)
{
    struct json_object *request = query_request("subscribe"), *reply = NULL;
    int err;

    json_add_number(request, "telemetry", every_ms);
    err = conn_query(conn, request, &reply, CONN_ANSWER_MS);
    if (err)
        fail(err, error, error_bytes, "fabric '%s' does not send its counters (%s)", name,
             strerror(-err));
    else if (!emu_json_true(reply, "ok"))
        err = fail(-EPROTO, error, error_bytes, "fabric '%s': %s", name,
                   emu_json_text(reply, "error", "it refuses without giving a reason"));
    json_object_put(reply);
    return err;
}

int telemetry_view_read(struct telemetry_view *view, const char *name, char *error,
                        size_t error_bytes)
{
    struct conn conn;
    int fd, err = paths_connect(&fd, NULL, name, error, error_bytes);

    if (err)
        return err;
    *error = '\0';
    conn_open(&conn, fd, CONN_TELEMETRY_MAX);
    err = telemetry_view_subscribe(&conn, name, TELEMETRY_EVERY_LEAST_MS, error, error_bytes);
    if (!err)
        err = take_first_snapshot(view, &conn, error, error_bytes);
    conn_close(&conn);
    if (err && !*error)
        fail(err, error, error_bytes, "cannot read the counters of fabric '%s' (%s)", name,
             strerror(-err));
    return err;
}
