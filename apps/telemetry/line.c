/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line.c - a snapshot as a line of JSON: docs/telemetry.md.
 *
 * A row is a list of numbers with a fixed order. Rows that have not changed since the reader's
 * previous sample are omitted.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/links.h"
#include "apps/telemetry/aggregate.h"
#include "apps/telemetry/internal.h"
#include "nic/fabemu.h"

const char *const telemetry_link_names[TELEMETRY_LINKS] = {
    [TELEMETRY_UP] = "up",
    [TELEMETRY_TESTING] = "testing",
    [TELEMETRY_OUT] = "out",
    [TELEMETRY_DOWN] = "down",
};

const char *const telemetry_kind_names[TELEMETRY_KINDS] = {
    [TELEMETRY_NOTHING] = "nothing", [TELEMETRY_SEND] = "send",
    [TELEMETRY_RECEIVE] = "receive", [TELEMETRY_PUT] = "put",
    [TELEMETRY_GET] = "get",         [TELEMETRY_ATOMIC] = "atomic",
    [TELEMETRY_BARRIER] = "barrier", [TELEMETRY_BROADCAST] = "broadcast",
    [TELEMETRY_REDUCE] = "reduce",   [TELEMETRY_ALLREDUCE] = "allreduce",
    [TELEMETRY_WINDOW] = "window",
};

enum telemetry_kind telemetry_kind_of(uint8_t emu_kind)
{
    static const enum telemetry_kind kinds[EMU_KINDS] = {
        [EMU_MULTICAST] = TELEMETRY_BROADCAST,
        [EMU_REDUCE] = TELEMETRY_REDUCE,
        [EMU_ALLREDUCE] = TELEMETRY_ALLREDUCE,
        [EMU_BARRIER] = TELEMETRY_BARRIER,
    };

    return emu_kind < EMU_KINDS ? kinds[emu_kind] : TELEMETRY_NOTHING;
}

#define ROW(text, ...)                             \
    text_row(text, (const int64_t[]){__VA_ARGS__}, \
             sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

void telemetry_list_begin(struct text_buf *text, const char *name)
{
    text_field(text, name);
    text_puts(text, "[");
}

/* A row is [number, counter, …]. */
static void put_counters(struct text_buf *text, const char *name,
                         const struct telemetry_table *table, uint64_t since)
{
    size_t count = table->counters->count;

    telemetry_list_begin(text, name);
    for (uint32_t i = 0; i < table->rows; i++) {
        int64_t row[1 + FABRIC_COUNTERS_MOST] = {i};

        if (table->changed[i] <= since)
            continue;
        memcpy(row + 1, telemetry_values(table, i), count * sizeof *row);
        text_row(text, row, 1 + count);
    }
    text_puts(text, "]");
}

static void put_states(const struct telemetry *t, uint64_t since, struct text_buf *text)
{
    telemetry_list_begin(text, "states");
    for (uint32_t i = 0; i < fabric_cable_count(t->source.fabric); i++)
        if (t->cable[i].changed > since)
            ROW(text, i, t->cable[i].now.state, (int64_t)t->cable[i].now.outs);
    text_puts(text, "]");
}

static void put_trunk_states(const struct telemetry_aggregate *aggregate, uint64_t since,
                             struct text_buf *text)
{
    telemetry_list_begin(text, "states");
    for (uint32_t k = 0; k < aggregate->trunks; k++) {
        const struct telemetry_trunk *trunk = &aggregate->trunk[k];

        if (trunk->state.changed > since)
            ROW(text, k, trunk->state.now.state, (int64_t)trunk->state.now.outs, trunk->down);
    }
    text_puts(text, "]");
}

/* Return the node of row @n, or NULL if the row is about a group of several nodes. */
static const struct telemetry_node *node_at(const struct telemetry *t,
                                            const struct telemetry_aggregate *aggregate, uint32_t n)
{
    uint32_t number = aggregate ? aggregate->node_group[n].number : n;

    return number == TELEMETRY_MANY ? NULL : &t->node[number];
}

static void put_process(uint32_t n, const struct telemetry_process *who, struct text_buf *text)
{
    text_comma(text);
    text_puts(text, "{");
    text_field_number(text, "node", n);
    text_field_number(text, "pid", (uint64_t)who->pid);
    if (who->rank >= 0)
        text_field_number(text, "rank", (uint64_t)who->rank);
    if (who->pid)
        text_field_string(text, "command", who->command);
    text_puts(text, "}");
}

static void put_processes(const struct telemetry *t, const struct telemetry_aggregate *aggregate,
                          uint32_t nodes, uint64_t since, struct text_buf *text)
{
    telemetry_list_begin(text, "processes");
    for (uint32_t n = 0; n < nodes; n++) {
        const struct telemetry_node *node = node_at(t, aggregate, n);

        if (node && node->who_changed > since)
            put_process(n, &node->who, text);
    }
    text_puts(text, "]");
}

/*
 * Return the time since the origin, in the unit of t->at. @at_ns: a time that a process has
 * reported.
 */
static int64_t since_origin(const struct telemetry *t, uint64_t at_ns)
{
    uint64_t at = t->source.config->clock == EMU_CLOCK_VIRTUAL ? at_ns * 1000u : at_ns;

    return at > t->source.origin ? (int64_t)(at - t->source.origin) : 0;
}

static void put_waits(const struct telemetry *t, const struct telemetry_aggregate *aggregate,
                      uint32_t nodes, uint64_t since, struct text_buf *text)
{
    telemetry_list_begin(text, "waits");
    for (uint32_t n = 0; n < nodes; n++) {
        const struct telemetry_node *node = node_at(t, aggregate, n);

        if (node && node->waits_changed > since)
            ROW(text, n, node->waits.kind, node->waits.other, node->waits.group,
                (int64_t)node->waits.bytes, since_origin(t, node->waits.since_ns));
    }
    text_puts(text, "]");
}

static void put_totals(const struct telemetry *t, struct text_buf *text)
{
    const struct fabric_totals *totals = &t->totals;

    text_field(text, "totals");
    text_puts(text, "{");
#define TOTAL(name, section, shown, label) text_field_number(text, #name, totals->name);
#define DERIVED(name, value, shown, label) text_field_number(text, #name, value);
#include "apps/fabric/counters.def"
    text_puts(text, "}");
}

static void put_collectives(const struct telemetry *t, struct text_buf *text)
{
    telemetry_list_begin(text, "collectives");
    for (int c = 0; c < FABEMU_COLLS; c++) {
        uint64_t elsewhere = 0;

        for (int w = 0; w < FABEMU_WHYS; w++)
            elsewhere += t->totals.elsewhere[c][w];
        ROW(text, (int64_t)t->totals.in_network[c], (int64_t)elsewhere);
    }
    text_puts(text, "]");
}

/* The oldest entry comes first. */
static int by_age(const void *a, const void *b)
{
    const struct telemetry_finished *const *x = a, *const *y = b;

    return ((*x)->added > (*y)->added) - ((*x)->added < (*y)->added);
}

static void put_finished(const struct telemetry *t, uint64_t since, struct text_buf *text)
{
    const struct telemetry_finished *entry[TELEMETRY_FINISHED];

    text_field_number(text, "finished_count", t->finished_count);
    text_field_number(text, "finished_missed", t->finished_missed);
    telemetry_list_begin(text, "finished");
    for (uint32_t i = 0; i < TELEMETRY_FINISHED; i++)
        entry[i] = &t->finished[i];
    qsort(entry, TELEMETRY_FINISHED, sizeof *entry, by_age);
    for (uint32_t i = 0; i < TELEMETRY_FINISHED; i++) {
        const struct telemetry_finished *at = entry[i];

        if (at->changed > since)
            ROW(text, at->now.group, (int64_t)at->now.first, telemetry_kind_of(at->now.kind),
                (int64_t)at->now.bytes, at->members, since_origin(t, at->now.began_ns),
                since_origin(t, at->now.ended_ns));
    }
    text_puts(text, "]");
}

static void body_write(struct telemetry *t, const struct telemetry_aggregate *aggregate,
                       struct telemetry_body *body, uint64_t since)
{
    struct text_buf *text = &body->text;
    bool is_virtual = t->source.config->clock == EMU_CLOCK_VIRTUAL;
    const struct telemetry_table *table = aggregate ? aggregate->table : t->table;
    uint32_t nodes = table[TELEMETRY_NODES].rows;

    text_buf_clear(text);
    text_puts(text, ",");
    text_field_number(text, "sample", t->samples);
    text_field_number(text, "since", since);
    text_field_number(text, is_virtual ? "at_ps" : "at_ns", t->at);
    put_totals(t, text);
    put_collectives(t, text);
    put_counters(text, "links", &table[TELEMETRY_DIRECTIONS], since);
    if (aggregate)
        put_trunk_states(aggregate, since, text);
    else
        put_states(t, since, text);
    put_counters(text, "switches", &table[TELEMETRY_SWITCHES], since);
    put_counters(text, "nodes", &table[TELEMETRY_NODES], since);
    put_processes(t, aggregate, nodes, since, text);
    put_waits(t, aggregate, nodes, since, text);
    put_finished(t, since, text);
    text_puts(text, "}");
    body->sample = t->samples;
    body->since = since;
}

static void line_write(struct telemetry *t, const struct telemetry_aggregate *aggregate,
                       struct telemetry_body *body, uint64_t since, uint64_t skipped,
                       struct text_buf *text)
{
    if (body->sample != t->samples || body->since != since || body->text.failed)
        body_write(t, aggregate, body, since);
    text_buf_clear(text);
    text_puts(text, "{");
    text_field_string(text, "event", "telemetry");
    text_field_number(text, "skipped", skipped);
    text_put(text, body->text.at, body->text.bytes);
    text->failed = text->failed || body->text.failed;
}

void telemetry_line(struct telemetry *t, uint64_t since, uint64_t skipped, struct text_buf *text)
{
    line_write(t, NULL, &t->body, since, skipped, text);
}

void telemetry_aggregate_put_line(struct telemetry *t, struct telemetry_aggregate *open,
                                  uint64_t since, uint64_t skipped, struct text_buf *text)
{
    struct telemetry_aggregate *aggregate = open ? open : t->aggregate;

    telemetry_aggregate_sample(t->aggregate, t);
    if (open)
        telemetry_open_sample(open, t->aggregate, t);
    line_write(t, aggregate, &aggregate->body, since, skipped, text);
}
