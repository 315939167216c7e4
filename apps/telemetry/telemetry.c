/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * telemetry.c - looks at all that a fabric counts, and notes what has changed.
 */
#include "apps/telemetry/telemetry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/links.h"
#include "apps/manager/manager.h"
#include "apps/telemetry/aggregate.h"
#include "apps/telemetry/internal.h"

static const struct telemetry_process nobody = {.rank = -1};
static const struct telemetry_wait for_nothing = {.other = -1, .group = -1};

int telemetry_create(struct telemetry **ret, const struct telemetry_source *source)
{
    const struct topo_graph *graph = source->config->graph;
    uint32_t cables = fabric_cable_count(source->fabric);
    struct telemetry *t = calloc(1, sizeof *t);

    if (!t)
        return -ENOMEM;
    t->source = *source;
    t->direction = calloc(2 * (size_t)cables + 1, sizeof *t->direction);
    t->cable = calloc(cables + 1u, sizeof *t->cable);
    t->sw = calloc(graph->switches, sizeof *t->sw);
    t->node = calloc(graph->nodes, sizeof *t->node);
    t->finished = calloc(TELEMETRY_FINISHED, sizeof *t->finished);
    if ((source->hosts && telemetry_remote_create(t)) || !t->finished || !t->direction ||
        !t->cable || !t->sw || !t->node) {
        telemetry_destroy(t);
        return -ENOMEM;
    }
    for (uint32_t n = 0; n < graph->nodes; n++) {
        t->node[n].who = nobody;
        t->node[n].waits = for_nothing;
        fabric_finished_from(source->fabric, n, &t->node[n].finished); /* not what was before */
    }
    *ret = t;
    return 0;
}

void telemetry_destroy(struct telemetry *t)
{
    if (!t)
        return;
    text_buf_free(&t->tail.text);
    telemetry_aggregate_destroy(t->aggregate);
    telemetry_remote_free(t);
    free(t->finished);
    free(t->node);
    free(t->sw);
    free(t->cable);
    free(t->direction);
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

/* A counter that is made of two, read one after the other, may seem to have gone back. */
static void grow(uint64_t *now, uint64_t before)
{
    *now = *now > before ? *now : before;
}

static void sample_direction(struct telemetry *t, uint32_t i)
{
    struct telemetry_direction *direction = &t->direction[i];
    struct fabric_direction_sample now;

    fabric_sample_direction(t->source.fabric, i / 2, i % 2,
                            &now); /* if it is far, only its errors */
    if (t->remote)
        fabric_counters_add(&fabric_direction_counters, now.value, t->remote->direction[i].value);
    if (memcmp(&now, &direction->now, sizeof now) == 0)
        return;
    direction->now = now;
    direction->changed = t->samples;
}

static void look_at_cables(struct telemetry *t)
{
    uint32_t cables = fabric_cable_count(t->source.fabric);

    for (uint32_t i = 0; i < 2 * cables; i++)
        sample_direction(t, i);
    for (uint32_t i = 0; t->source.link && i < cables; i++) {
        struct telemetry_cable now = {0};

        t->source.link(t->source.ctx, i, &now);
        if (now.state != t->cable[i].now.state || now.outs != t->cable[i].now.outs)
            t->cable[i] = (struct telemetry_noted){now, t->samples};
    }
}

static void sample_switch(struct telemetry *t, uint32_t s)
{
    struct telemetry_switch *sw = &t->sw[s];
    struct fabric_switch_sample now;

    if (!fabric_sample_switch(t->source.fabric, s, &now)) {
        if (!t->remote)
            return;
        now = t->remote->sw[s];
    }
    if (memcmp(&now, &sw->now, sizeof now) == 0)
        return;
    sw->now = now;
    sw->changed = t->samples;
}

static void sample_process(struct telemetry *t, uint32_t n)
{
    struct telemetry_node *node = &t->node[n];
    struct telemetry_process who = nobody;
    struct telemetry_wait waits = for_nothing;

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
    struct telemetry_node *node = &t->node[n];
    struct fabric_node_sample now;

    if (t->source.node)
        sample_process(t, n);
    if (!fabric_sample_node(t->source.fabric, n, &now)) {
        if (!t->remote)
            return;
        now = t->remote->node[n];
    }
    grow(&now.delivered, node->now.delivered);
    if (memcmp(&now, &node->now, sizeof now) == 0)
        return;
    node->now = now;
    node->changed = t->samples;
}

/* Members of one collective tell of it one by one, in several looks. */
void telemetry_finished_note(struct telemetry *t, const struct emu_finished *one, uint32_t members,
                             uint64_t sample)
{
    uint64_t place = one->first * UINT64_C(31) + one->group * UINT64_C(17);
    struct telemetry_finished *at = &t->finished[place % TELEMETRY_FINISHED];

    at->changed = sample;
    if (!at->members || at->now.group != one->group || at->now.first != one->first) {
        at->now = *one;
        at->members = members;
        return;
    }
    at->members += members;
    if (one->began_ns < at->now.began_ns)
        at->now.began_ns = one->began_ns;
    if (one->ended_ns > at->now.ended_ns)
        at->now.ended_ns = one->ended_ns;
}

/* @sample: that it belongs to. */
static void sample_finished(struct telemetry *t, uint32_t n, uint64_t sample)
{
    struct emu_finished ring[EMU_FINISHED_SLOTS];
    uint64_t missed = 0;
    uint32_t count = fabric_finished(t->source.fabric, n, &t->node[n].finished, ring, &missed);

    for (uint32_t i = 0; i < count; i++) {
        if (ring[i].kind >= EMU_KINDS) /* a message */
            continue;
        telemetry_finished_note(t, &ring[i], 1, sample);
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
    look_at_cables(t);
    for (uint32_t s = 0; s < graph->switches; s++)
        sample_switch(t, s);
    for (uint32_t n = 0; n < graph->nodes; n++) {
        sample_node(t, n);
        sample_finished(t, n, t->samples);
    }
    fabric_totals_here(t->source.fabric, &t->totals);
    if (t->remote)
        telemetry_remote_totals(t, &t->totals);
}
