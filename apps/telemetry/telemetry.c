/* SPDX-License-Identifier: BSD-3-Clause */
/* telemetry.c - samples all counters of a fabric and records their changes. */
#include "apps/telemetry/telemetry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/links.h"
#include "apps/manager/manager.h"
#include "apps/telemetry/aggregate.h"
#include "apps/telemetry/internal.h"
#include "emu/util/count.h"

static const struct telemetry_process no_process = {.rank = -1};
static const struct telemetry_wait no_wait = {.other = -1, .group = -1};

int telemetry_tables_create(struct telemetry_table ret[TELEMETRY_TABLES], uint32_t directions,
                            uint32_t switches, uint32_t nodes)
{
    const struct fabric_counters *const counters[TELEMETRY_TABLES] = {&fabric_direction_counters,
                                                                      &fabric_switch_counters,
                                                                      &fabric_node_counters};
    const uint32_t rows[TELEMETRY_TABLES] = {directions, switches, nodes};
    bool ok = true;

    for (int k = 0; k < TELEMETRY_TABLES; k++) {
        ret[k] = (struct telemetry_table){.counters = counters[k], .rows = rows[k]};
        ret[k].value = calloc(rows[k] * counters[k]->count + 1, sizeof *ret[k].value);
        ret[k].changed = calloc((size_t)rows[k] + 1, sizeof *ret[k].changed);
        ok = ok && ret[k].value && ret[k].changed;
    }
    return ok ? 0 : -ENOMEM;
}

void telemetry_tables_free(struct telemetry_table table[TELEMETRY_TABLES])
{
    for (int k = 0; k < TELEMETRY_TABLES; k++) {
        free(table[k].changed);
        free(table[k].value);
    }
}

int telemetry_create(struct telemetry **ret, const struct telemetry_source *source)
{
    const struct topo_graph *graph = source->config->graph;
    uint32_t cables = fabric_cable_count(source->fabric);
    struct telemetry *t = calloc(1, sizeof *t);

    if (!t)
        return -ENOMEM;
    t->source = *source;
    t->cable = calloc(cables + 1u, sizeof *t->cable);
    t->node = calloc(graph->nodes, sizeof *t->node);
    t->finished = calloc(TELEMETRY_FINISHED, sizeof *t->finished);
    if (telemetry_tables_create(t->table, 2 * cables, graph->switches, graph->nodes) ||
        (source->hosts &&
         telemetry_tables_create(t->remote, 2 * cables, graph->switches, graph->nodes)) ||
        !t->finished || !t->cable || !t->node) {
        telemetry_destroy(t);
        return -ENOMEM;
    }
    for (uint32_t n = 0; n < graph->nodes; n++) {
        t->node[n].who = no_process;
        t->node[n].waits = no_wait;
        /* skip completions from before the sampler was created */
        fabric_finished_from(source->fabric, n, &t->node[n].finished);
    }
    *ret = t;
    return 0;
}

void telemetry_destroy(struct telemetry *t)
{
    if (!t)
        return;
    text_buf_free(&t->body.text);
    telemetry_aggregate_destroy(t->aggregate);
    telemetry_tables_free(t->remote);
    free(t->finished);
    free(t->node);
    free(t->cable);
    telemetry_tables_free(t->table);
    free(t);
}

int telemetry_aggregate(struct telemetry *t)
{
    int err = t->aggregate ? 0
                           : telemetry_aggregate_create(&t->aggregate, t, TELEMETRY_AGGREGATE_FROM,
                                                        TELEMETRY_AGGREGATE_MOST);

    return err ? err : t->aggregate != NULL;
}

uint64_t telemetry_samples(const struct telemetry *t)
{
    return t->samples;
}

struct telemetry_cable telemetry_cable_at(const struct manager *manager, uint32_t cable)
{
    static const enum telemetry_link states[] = {
        [MANAGER_UP] = TELEMETRY_UP,          [MANAGER_LOST] = TELEMETRY_DOWN,
        [MANAGER_BEGINS] = TELEMETRY_TESTING, [MANAGER_QUERIES] = TELEMETRY_TESTING,
        [MANAGER_TESTS] = TELEMETRY_TESTING,  [MANAGER_BACKOFF] = TELEMETRY_OUT,
        [MANAGER_ISOLATED] = TELEMETRY_OUT,   [MANAGER_SWAPPED] = TELEMETRY_OUT,
    };

    if (!manager)
        return (struct telemetry_cable){TELEMETRY_UP, 0};
    return (struct telemetry_cable){states[manager_link_state(manager, cable)],
                                    manager_link_outs(manager, cable)};
}

static void store(struct telemetry *t, int kind, uint32_t row, const uint64_t *now)
{
    struct telemetry_table *table = &t->table[kind];
    size_t bytes = table->counters->count * sizeof *now;

    if (memcmp(now, telemetry_values(table, row), bytes) == 0)
        return;
    memcpy(telemetry_values(table, row), now, bytes);
    table->changed[row] = t->samples;
}

/* Return the sums of the counters that other hosts have sent for a row. */
static uint64_t *remote_values(const struct telemetry *t, int kind, uint32_t row)
{
    return telemetry_values(&t->remote[kind], row);
}

static void sample_cables(struct telemetry *t)
{
    uint32_t cables = fabric_cable_count(t->source.fabric);

    for (uint32_t i = 0; i < 2 * cables; i++) {
        struct fabric_direction_sample now;

        /*
         * if the sending end is on another host, `now` has only the errors that this host has
         * counted
         */
        fabric_sample_direction(t->source.fabric, i / 2, i % 2, &now);
        if (t->source.hosts)
            fabric_counters_add(&fabric_direction_counters, now.value,
                                remote_values(t, TELEMETRY_DIRECTIONS, i));
        store(t, TELEMETRY_DIRECTIONS, i, now.value);
    }
    for (uint32_t i = 0; t->source.link && i < cables; i++) {
        struct telemetry_cable now = {0};

        t->source.link(t->source.ctx, i, &now);
        if (now.state != t->cable[i].now.state || now.outs != t->cable[i].now.outs)
            t->cable[i] = (struct telemetry_cable_entry){now, t->samples};
    }
}

static void sample_switch(struct telemetry *t, uint32_t s)
{
    struct fabric_switch_sample now;

    if (fabric_sample_switch(t->source.fabric, s, &now))
        store(t, TELEMETRY_SWITCHES, s, now.value);
    else if (t->source.hosts)
        store(t, TELEMETRY_SWITCHES, s, remote_values(t, TELEMETRY_SWITCHES, s));
}

static void sample_process(struct telemetry *t, uint32_t n)
{
    struct telemetry_node *node = &t->node[n];
    struct telemetry_process who = no_process;
    struct telemetry_wait waits = no_wait;

    t->source.node(t->source.ctx, n, &who, &waits);
    if (who.pid != node->who.pid || who.rank != node->who.rank ||
        strcmp(who.command, node->who.command) != 0) {
        node->who = who;
        node->who_changed = t->samples;
    }
    if (waits.kind != node->waits.kind || waits.other != node->waits.other ||
        waits.group != node->waits.group || waits.bytes != node->waits.bytes ||
        waits.since_ns != node->waits.since_ns) {
        node->waits = waits;
        node->waits_changed = t->samples;
    }
}

static void sample_node(struct telemetry *t, uint32_t n)
{
    struct fabric_node_sample now, before;

    if (t->source.node)
        sample_process(t, n);
    if (!fabric_sample_node(t->source.fabric, n, &now)) {
        if (!t->source.hosts)
            return;
        memcpy(now.value, remote_values(t, TELEMETRY_NODES, n), sizeof now.value);
    }
    memcpy(before.value, telemetry_values(&t->table[TELEMETRY_NODES], n), sizeof before.value);
    /*
     * `delivered` is a difference of two counters that are read one after the other, so it may fall
     */
    if (now.delivered < before.delivered)
        now.delivered = before.delivered;
    store(t, TELEMETRY_NODES, n, now.value);
}

/*
 * Return the entry of a collective, or NULL. Members report collectives in the same order, so the
 * search begins after the last entry that was found.
 */
static struct telemetry_finished *finished_find(struct telemetry *t, const struct emu_finished *one)
{
    for (uint32_t i = 0; i < TELEMETRY_FINISHED; i++) {
        uint32_t n = (t->finished_last + 1 + i) % TELEMETRY_FINISHED;
        struct telemetry_finished *at = &t->finished[n];

        if (!at->members || at->now.group != one->group || at->now.first != one->first)
            continue;
        t->finished_last = n;
        return at;
    }
    return NULL;
}

/* Return an unused entry, or the oldest entry of the host that has the most; @host wins a tie. */
static struct telemetry_finished *finished_oldest(struct telemetry *t, uint32_t host)
{
    uint32_t held[TOPO_HOSTS_MAX] = {0}, most = host;
    struct telemetry_finished *oldest = NULL;

    for (uint32_t i = 0; i < TELEMETRY_FINISHED; i++) {
        if (!t->finished[i].members)
            return &t->finished[i];
        held[t->finished[i].host]++;
    }
    for (uint32_t h = 0; h < TOPO_HOSTS_MAX; h++)
        most = held[h] > held[most] ? h : most;
    for (uint32_t i = 0; i < TELEMETRY_FINISHED; i++)
        if (t->finished[i].host == most && (!oldest || t->finished[i].added < oldest->added))
            oldest = &t->finished[i];
    return oldest;
}

/* Add an entry, unless it would replace a younger one of the same host. */
static void finished_add(struct telemetry *t, uint32_t host, const struct emu_finished *one,
                         uint32_t members, uint64_t sample)
{
    struct telemetry_finished *at = finished_oldest(t, host);

    if (at->members && at->host == host && one->began_ns < at->now.began_ns)
        return;
    *at = (struct telemetry_finished){.now = *one,
                                      .members = members,
                                      .changed = sample,
                                      .host = host,
                                      .added = t->finished_added++};
}

void telemetry_finished_note(struct telemetry *t, uint32_t host, const struct emu_finished *one,
                             uint32_t members, uint64_t sample)
{
    struct telemetry_finished *at = finished_find(t, one);

    if (!at) {
        finished_add(t, host, one, members, sample);
        return;
    }
    at->changed = sample;
    emu_sum32(&at->members, members); /* another host may send any number */
    if (one->began_ns < at->now.began_ns)
        at->now.began_ns = one->began_ns;
    if (one->ended_ns > at->now.ended_ns)
        at->now.ended_ns = one->ended_ns;
}

static void sample_finished(struct telemetry *t, uint32_t n, uint64_t sample)
{
    struct emu_finished ring[EMU_FINISHED_SLOTS];
    uint64_t missed = 0;
    uint32_t count = fabric_finished(t->source.fabric, n, &t->node[n].finished, ring, &missed);

    for (uint32_t i = 0; i < count; i++) {
        if (ring[i].kind >= EMU_KINDS) /* this is a report of a message, not of a collective */
            continue;
        telemetry_finished_note(t, 0, &ring[i], 1, sample);
        t->finished_count++;
    }
    t->finished_count += missed;
    t->finished_missed += missed;
}

void telemetry_leaves(struct telemetry *t, uint32_t node)
{
    sample_finished(t, node, t->samples + 1);
}

void telemetry_sample(struct telemetry *t, uint64_t now)
{
    const struct topo_graph *graph = t->source.config->graph;

    t->samples++;
    t->at = now > t->source.origin ? now - t->source.origin : 0;
    sample_cables(t);
    for (uint32_t s = 0; s < graph->switches; s++)
        sample_switch(t, s);
    for (uint32_t n = 0; n < graph->nodes; n++) {
        sample_node(t, n);
        sample_finished(t, n, t->samples);
    }
    fabric_totals_here(t->source.fabric, &t->totals);
    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        emu_sum(&((uint64_t *)(void *)&t->totals)[i],
                ((const uint64_t *)(const void *)&t->remote_totals)[i]);
}
