/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fold.c - a large network as one of few parts.
 */
#include "apps/telemetry/fold.h"

#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/links.h"

/* --- groups ------------------------------------------------------------------------- */

/* What tells switches, or cables, of different groups apart. */
struct key {
    uint64_t high, low;
    uint32_t number; /* of the switch or cable */
};

static int key_order(const void *a, const void *b)
{
    const struct key *one = a, *other = b;

    if (one->high != other->high)
        return one->high < other->high ? -1 : 1;
    if (one->low != other->low)
        return one->low < other->low ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

static bool is_same(const struct key *a, const struct key *b)
{
    return a->high == b->high && a->low == b->low;
}

/* In their order: @of becomes the group's number. Returns how many groups there are. */
static uint32_t number_groups(struct key *key, uint32_t count, uint32_t *of)
{
    uint32_t groups = 0;

    qsort(key, count, sizeof *key, key_order);
    for (uint32_t i = 0; i < count; i++) {
        groups += !i || !is_same(&key[i], &key[i - 1]);
        of[key[i].number] = groups - 1;
    }
    return groups;
}

static uint32_t span_of(const struct topo_switch *sw)
{
    return sw->low <= sw->high ? sw->high - sw->low + 1 : 0;
}

/* With few nodes below it, a switch is with those of the same block; else with those above the
 * same nodes. */
static struct key key_of_switch(const struct topo_graph *graph, uint32_t s, uint32_t block)
{
    const struct topo_switch *sw = &graph->sw[s];
    uint64_t span = span_of(sw);

    if (!span)
        return (struct key){sw->level, UINT64_MAX, s};
    if (span <= block)
        return (struct key){sw->level, sw->low / block, s};
    return (struct key){(uint64_t)sw->level << 32 | span, UINT64_C(1) << 32 | sw->low, s};
}

static uint32_t group_switches(struct telemetry_fold *fold, const struct topo_graph *graph,
                               uint32_t block, struct key *key)
{
    for (uint32_t s = 0; s < graph->switches; s++)
        key[s] = key_of_switch(graph, s, block);
    return number_groups(key, graph->switches, fold->of_sw);
}

/* Nodes are with those whose first link is plugged into the same group. */
static uint32_t group_nodes(struct telemetry_fold *fold, const struct topo_graph *graph,
                            struct key *key)
{
    for (uint32_t n = 0; n < graph->nodes; n++) {
        uint32_t sw = graph->node[n].link[0].sw;

        key[n] = (struct key){0, sw == TOPO_NONE ? UINT64_MAX : fold->of_sw[sw], n};
    }
    return number_groups(key, graph->nodes, fold->of_node);
}

/* The lower group of switches first, as cables have it. */
static struct key key_of_cable(struct telemetry_fold *fold, const struct fabric_cable *cable,
                               uint32_t i)
{
    uint32_t near = fold->of_sw[cable->at.sw];
    bool is_node = cable->kind == TOPO_END_NODE;
    uint32_t far = is_node ? fold->of_node[cable->node] : fold->of_sw[cable->far.sw];

    fold->turned[i] = !is_node && far < near;
    if (fold->turned[i])
        return (struct key){far, UINT64_C(1) << 32 | near, i};
    return (struct key){near, (uint64_t)!is_node << 32 | far, i};
}

static uint32_t group_cables(struct telemetry_fold *fold, const struct fabric *fabric,
                             struct key *key)
{
    uint32_t cables = fabric_cable_count(fabric);

    for (uint32_t i = 0; i < cables; i++)
        key[i] = key_of_cable(fold, fabric_cable(fabric, i), i);
    return number_groups(key, cables, fold->of_cable);
}

/* As many nodes as are below some switch, the next number of them; or all. */
static uint32_t next_block(const struct topo_graph *graph, uint32_t block)
{
    uint32_t ret = graph->nodes;

    for (uint32_t s = 0; s < graph->switches; s++)
        if (span_of(&graph->sw[s]) > block && span_of(&graph->sw[s]) < ret)
            ret = span_of(&graph->sw[s]);
    return ret;
}

/* Blocks of more and more nodes, until there are few groups, and few cables between them. */
static void fold_as_needed(struct telemetry_fold *fold, const struct fabric *fabric,
                           const struct topo_graph *graph, struct key *key)
{
    for (uint32_t block = next_block(graph, 1);; block = next_block(graph, block)) {
        fold->switches = group_switches(fold, graph, block, key);
        fold->nodes = group_nodes(fold, graph, key);
        if (block < graph->nodes &&
            (fold->switches > TELEMETRY_FOLD_MOST || fold->nodes > TELEMETRY_FOLD_MOST))
            continue;
        fold->trunks = group_cables(fold, fabric, key);
        if (block >= graph->nodes || fold->trunks <= TELEMETRY_FOLD_MOST)
            return;
    }
}

/* --- what they are ------------------------------------------------------------------ */

static void group_add(struct telemetry_group *group, uint32_t low, uint32_t high)
{
    bool first = !group->count++;

    if (low > high)
        return;
    if (first || group->low > group->high || low < group->low)
        group->low = low;
    if (first || high > group->high)
        group->high = high;
}

static void describe_groups(struct telemetry_fold *fold, const struct topo_graph *graph)
{
    for (uint32_t g = 0; g < fold->switches; g++)
        fold->sw_group[g].low = 1; /* none so far */
    for (uint32_t s = 0; s < graph->switches; s++) {
        struct telemetry_group *group = &fold->sw_group[fold->of_sw[s]];

        group->level = graph->sw[s].level;
        group_add(group, graph->sw[s].low, graph->sw[s].high);
    }
    for (uint32_t n = 0; n < graph->nodes; n++)
        group_add(&fold->node_group[fold->of_node[n]], n, n);
}

static void describe_trunks(struct telemetry_fold *fold, const struct fabric *fabric)
{
    uint32_t ports = 0;

    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++) {
        const struct fabric_cable *cable = fabric_cable(fabric, i);
        struct telemetry_trunk *trunk = &fold->trunk[fold->of_cable[i]];
        uint32_t near = fold->of_sw[cable->at.sw];

        trunk->is_node = cable->kind == TOPO_END_NODE;
        trunk->far = trunk->is_node ? fold->of_node[cable->node] : fold->of_sw[cable->far.sw];
        trunk->sw = fold->turned[i] ? trunk->far : near;
        trunk->far = fold->turned[i] ? near : trunk->far;
        trunk->count++;
    }
    for (uint32_t k = 0; k < fold->trunks; k++) { /* those of a group follow one another */
        ports = k && fold->trunk[k].sw == fold->trunk[k - 1].sw ? ports + 1 : 0;
        fold->trunk[k].port = ports;
    }
}

static bool fold_room(struct telemetry_fold *fold)
{
    fold->sw_group = calloc(fold->switches, sizeof *fold->sw_group);
    fold->node_group = calloc(fold->nodes, sizeof *fold->node_group);
    fold->trunk = calloc(fold->trunks, sizeof *fold->trunk);
    fold->way = calloc(2 * (size_t)fold->trunks, sizeof *fold->way);
    fold->sw = calloc(fold->switches, sizeof *fold->sw);
    fold->node = calloc(fold->nodes, sizeof *fold->node);
    return fold->sw_group && fold->node_group && fold->trunk && fold->way && fold->sw && fold->node;
}

int telemetry_fold_create(struct telemetry_fold **ret, const struct telemetry *t)
{
    const struct topo_graph *graph = t->source.config->graph;
    uint32_t cables = fabric_cable_count(t->source.fabric);
    struct telemetry_fold *fold;
    struct key *key;
    bool room;

    *ret = NULL;
    if (cables <= TELEMETRY_FOLD_FROM)
        return 0;
    fold = calloc(1, sizeof *fold);
    key = calloc((size_t)cables + graph->switches + graph->nodes, sizeof *key);
    room = fold && key;
    if (room) {
        fold->of_sw = calloc(graph->switches, sizeof *fold->of_sw);
        fold->of_node = calloc(graph->nodes, sizeof *fold->of_node);
        fold->of_cable = calloc(cables, sizeof *fold->of_cable);
        fold->turned = calloc(cables, sizeof *fold->turned);
        room = fold->of_sw && fold->of_node && fold->of_cable && fold->turned;
    }
    if (room) {
        fold_as_needed(fold, t->source.fabric, graph, key);
        room = fold_room(fold);
    }
    free(key);
    if (!room) {
        telemetry_fold_destroy(fold);
        return -ENOMEM;
    }
    describe_groups(fold, graph);
    describe_trunks(fold, t->source.fabric);
    *ret = fold;
    return 0;
}

void telemetry_fold_destroy(struct telemetry_fold *fold)
{
    if (!fold)
        return;
    telemetry_text_free(&fold->tail.text);
    free(fold->node);
    free(fold->sw);
    free(fold->way);
    free(fold->turned);
    free(fold->of_cable);
    free(fold->of_node);
    free(fold->of_sw);
    free(fold->trunk);
    free(fold->node_group);
    free(fold->sw_group);
    free(fold);
}

/* --- what they have counted --------------------------------------------------------- */

static void fold_ways(struct telemetry_fold *fold, const struct telemetry *t)
{
    for (uint32_t i = 0; i < 2 * fold->trunks; i++)
        fold->way[i].now = (struct fabric_way){0};
    for (uint32_t i = 0; i < 2 * fabric_cable_count(t->source.fabric); i++) {
        uint32_t out = i % 2 ^ fold->turned[i / 2];
        struct telemetry_way *sum = &fold->way[2 * fold->of_cable[i / 2] + out];
        const struct fabric_way *way = &t->way[i].now;

        sum->now.segments += way->segments;
        sum->now.stalls += way->stalls;
        sum->now.errors += way->errors;
        sum->now.queue += way->queue;
        if (t->way[i].changed > sum->changed)
            sum->changed = t->way[i].changed;
    }
}

/* Of several the one that is furthest from being in use. */
static void fold_states(struct telemetry_fold *fold, const struct telemetry *t)
{
    for (uint32_t k = 0; k < fold->trunks; k++) {
        fold->trunk[k].wrong = 0;
        fold->trunk[k].noted.now = (struct telemetry_cable){TELEMETRY_UP, 0};
    }
    for (uint32_t i = 0; i < fabric_cable_count(t->source.fabric); i++) {
        struct telemetry_trunk *trunk = &fold->trunk[fold->of_cable[i]];
        const struct telemetry_cable *now = &t->cable[i].now;

        trunk->wrong += now->state != TELEMETRY_UP;
        trunk->noted.now.outs += now->outs;
        if (now->state > trunk->noted.now.state)
            trunk->noted.now.state = now->state;
        if (t->cable[i].changed > trunk->noted.changed)
            trunk->noted.changed = t->cable[i].changed;
    }
}

static void fold_switches(struct telemetry_fold *fold, const struct telemetry *t)
{
    for (uint32_t g = 0; g < fold->switches; g++)
        fold->sw[g].now = (struct fabric_combined){0};
    for (uint32_t s = 0; s < t->source.config->graph->switches; s++) {
        struct telemetry_switch *sum = &fold->sw[fold->of_sw[s]];
        const struct fabric_combined *now = &t->sw[s].now;

        sum->now.contributions += now->contributions;
        sum->now.results += now->results;
        sum->now.multicasts += now->multicasts;
        sum->now.states += now->states;
        if (t->sw[s].changed > sum->changed)
            sum->changed = t->sw[s].changed;
    }
}

static void fold_nodes(struct telemetry_fold *fold, const struct telemetry *t)
{
    for (uint32_t g = 0; g < fold->nodes; g++)
        fold->node[g].now = (struct fabric_passed){0};
    for (uint32_t n = 0; n < t->source.config->graph->nodes; n++) {
        struct telemetry_node *sum = &fold->node[fold->of_node[n]];
        const struct fabric_passed *now = &t->node[n].now;

        sum->now.sent += now->sent;
        sum->now.delivered += now->delivered;
        sum->now.posted += now->posted;
        sum->now.untaken += now->untaken;
        sum->now.contributions += now->contributions;
        if (t->node[n].changed > sum->changed)
            sum->changed = t->node[n].changed;
    }
}

void telemetry_fold_look(struct telemetry_fold *fold, const struct telemetry *t)
{
    if (fold->look == t->looks)
        return;
    fold_ways(fold, t);
    fold_states(fold, t);
    fold_switches(fold, t);
    fold_nodes(fold, t);
    fold->look = t->looks;
}
