/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fold.c - a large network as one of few parts.
 */
#include "apps/telemetry/fold.h"

#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/links.h"

/* --- groups ------------------------------------------------------------------------- */

int telemetry_key_order(const void *a, const void *b)
{
    const struct telemetry_key *one = a, *other = b;

    if (one->high != other->high)
        return one->high < other->high ? -1 : 1;
    if (one->low != other->low)
        return one->low < other->low ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

bool telemetry_key_is_same(const struct telemetry_key *a, const struct telemetry_key *b)
{
    return a->high == b->high && a->low == b->low;
}

/* In their order: @of becomes the group's number. Returns how many groups there are. */
static uint32_t number_groups(struct telemetry_key *key, uint32_t count, uint32_t *of)
{
    uint32_t groups = 0;

    qsort(key, count, sizeof *key, telemetry_key_order);
    for (uint32_t i = 0; i < count; i++) {
        groups += !i || !telemetry_key_is_same(&key[i], &key[i - 1]);
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
static struct telemetry_key key_of_switch(const struct topo_graph *graph, uint32_t s,
                                          uint32_t block)
{
    const struct topo_switch *sw = &graph->sw[s];
    uint64_t span = span_of(sw);

    if (!span)
        return (struct telemetry_key){sw->level, UINT64_MAX, s};
    if (span <= block)
        return (struct telemetry_key){sw->level, sw->low / block, s};
    return (struct telemetry_key){(uint64_t)sw->level << 32 | span, UINT64_C(1) << 32 | sw->low, s};
}

static uint32_t group_switches(struct telemetry_fold *fold, const struct topo_graph *graph,
                               uint32_t block, struct telemetry_key *key)
{
    for (uint32_t s = 0; s < graph->switches; s++)
        key[s] = key_of_switch(graph, s, block);
    return number_groups(key, graph->switches, fold->of_sw);
}

/* Nodes are with those whose first link is plugged into the same group. */
static uint32_t group_nodes(struct telemetry_fold *fold, const struct topo_graph *graph,
                            struct telemetry_key *key)
{
    for (uint32_t n = 0; n < graph->nodes; n++) {
        uint32_t sw = graph->node[n].link[0].sw;

        key[n] = (struct telemetry_key){0, sw == TOPO_NONE ? UINT64_MAX : fold->of_sw[sw], n};
    }
    return number_groups(key, graph->nodes, fold->of_node);
}

/* The lower group of switches first, as cables have it. */
struct telemetry_key telemetry_key_of_cable(const struct telemetry_fold *fold,
                                            const struct fabric_cable *cable, bool *turned)
{
    uint32_t near = fold->of_sw[cable->at.sw];
    bool is_node = cable->kind == TOPO_END_NODE;
    uint32_t far = is_node ? fold->of_node[cable->node] : fold->of_sw[cable->far.sw];

    *turned = !is_node && far < near;
    if (*turned)
        return (struct telemetry_key){.high = far, .low = UINT64_C(1) << 32 | near};
    return (struct telemetry_key){.high = near, .low = (uint64_t)!is_node << 32 | far};
}

static uint32_t group_cables(struct telemetry_fold *fold, const struct fabric *fabric,
                             struct telemetry_key *key)
{
    uint32_t cables = fabric_cable_count(fabric);

    for (uint32_t i = 0; i < cables; i++) {
        key[i] = telemetry_key_of_cable(fold, fabric_cable(fabric, i), &fold->turned[i]);
        key[i].number = i;
    }
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

/* Blocks of more and more nodes, until there are no more than @most groups, and of trunks. */
static void fold_as_needed(struct telemetry_fold *fold, const struct telemetry *t, uint32_t most,
                           struct telemetry_key *key)
{
    const struct topo_graph *graph = t->source.config->graph;

    for (uint32_t block = next_block(graph, 1);; block = next_block(graph, block)) {
        fold->switches = group_switches(fold, graph, block, key);
        fold->nodes = group_nodes(fold, graph, key);
        if (block < graph->nodes && (fold->switches > most || fold->nodes > most))
            continue;
        fold->trunks = group_cables(fold, t->source.fabric, key);
        if (block >= graph->nodes || fold->trunks <= most)
            return;
    }
}

/* --- what they are ------------------------------------------------------------------ */

/* One more: @number. */
static void group_add(struct telemetry_group *group, uint32_t number, uint32_t low, uint32_t high)
{
    bool first = !group->count++;

    group->number = first ? number : TELEMETRY_MANY;
    if (low > high)
        return;
    if (first || group->low > group->high || low < group->low)
        group->low = low;
    if (first || high > group->high)
        group->high = high;
}

/* Switches with the nodes below them; each group of others for itself, behind all these. */
static void number_blocks(struct telemetry_fold *fold)
{
    fold->blocks = fold->nodes;
    for (uint32_t g = 0; g < fold->switches; g++) {
        struct telemetry_group *group = &fold->sw_group[g];
        bool any = group->low <= group->high;

        group->from = any ? fold->of_node[group->low] : 0;
        group->to = any ? fold->of_node[group->high] : 0;
        group->block = any && group->from == group->to ? group->from : fold->blocks++;
    }
}

static void describe_groups(struct telemetry_fold *fold, const struct topo_graph *graph)
{
    for (uint32_t g = 0; g < fold->switches; g++)
        fold->sw_group[g] = (struct telemetry_group){.plain = g, .low = 1}; /* none so far */
    for (uint32_t s = 0; s < graph->switches; s++) {
        struct telemetry_group *group = &fold->sw_group[fold->of_sw[s]];

        group->level = graph->sw[s].level;
        group_add(group, s, graph->sw[s].low, graph->sw[s].high);
    }
    for (uint32_t g = 0; g < fold->nodes; g++)
        fold->node_group[g] = (struct telemetry_group){.plain = g, .block = g};
    for (uint32_t n = 0; n < graph->nodes; n++)
        group_add(&fold->node_group[fold->of_node[n]], n, n, n);
    number_blocks(fold);
}

static void describe_trunks(struct telemetry_fold *fold, const struct fabric *fabric)
{
    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++) {
        const struct fabric_cable *cable = fabric_cable(fabric, i);
        struct telemetry_trunk *trunk = &fold->trunk[fold->of_cable[i]];
        uint32_t near = fold->of_sw[cable->at.sw];

        trunk->is_node = cable->kind == TOPO_END_NODE;
        trunk->far = trunk->is_node ? fold->of_node[cable->node] : fold->of_sw[cable->far.sw];
        trunk->sw = fold->turned[i] ? trunk->far : near;
        trunk->far = fold->turned[i] ? near : trunk->far;
        trunk->first = trunk->count ? trunk->first : i;
        trunk->cable = trunk->count++ ? TELEMETRY_MANY : i;
        trunk->turned = fold->turned[i];
        trunk->plain = fold->of_cable[i];
    }
    telemetry_fold_ports(fold);
}

void telemetry_fold_ports(struct telemetry_fold *fold)
{
    uint32_t ports = 0;

    for (uint32_t k = 0; k < fold->trunks; k++) { /* those of a group follow one another */
        ports = k && fold->trunk[k].sw == fold->trunk[k - 1].sw ? ports + 1 : 0;
        fold->trunk[k].port = ports;
    }
}

bool telemetry_fold_group_room(struct telemetry_fold *fold)
{
    fold->sw_group = calloc(fold->switches, sizeof *fold->sw_group);
    fold->node_group = calloc(fold->nodes, sizeof *fold->node_group);
    return fold->sw_group && fold->node_group;
}

bool telemetry_fold_room(struct telemetry_fold *fold)
{
    fold->trunk = calloc(fold->trunks, sizeof *fold->trunk);
    fold->way = calloc(2 * (size_t)fold->trunks, sizeof *fold->way);
    fold->sw = calloc(fold->switches, sizeof *fold->sw);
    fold->node = calloc(fold->nodes, sizeof *fold->node);
    return fold->trunk && fold->way && fold->sw && fold->node;
}

int telemetry_fold_create(struct telemetry_fold **ret, const struct telemetry *t, uint32_t from,
                          uint32_t most)
{
    const struct topo_graph *graph = t->source.config->graph;
    uint32_t cables = fabric_cable_count(t->source.fabric);
    struct telemetry_fold *fold;
    struct telemetry_key *key;
    bool room;

    *ret = NULL;
    if (cables <= from)
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
        fold_as_needed(fold, t, most, key);
        room = telemetry_fold_group_room(fold) && telemetry_fold_room(fold);
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
    free(fold->member);
    free(fold->turned);
    free(fold->of_cable);
    free(fold->of_node);
    free(fold->of_sw);
    free(fold->trunk);
    free(fold->node_group);
    free(fold->sw_group);
    free(fold->is_open);
    free(fold);
}

/* --- what they have counted --------------------------------------------------------- */

void telemetry_add_way(struct telemetry_way *sum, const struct telemetry_way *way)
{
    fabric_counters_add(&fabric_way_counters, sum->now.value, way->now.value);
    if (way->changed > sum->changed)
        sum->changed = way->changed;
}

void telemetry_add_cable(struct telemetry_trunk *sum, const struct telemetry_noted *cable)
{
    sum->wrong += cable->now.state != TELEMETRY_UP;
    sum->noted.now.outs += cable->now.outs;
    if (cable->now.state > sum->noted.now.state)
        sum->noted.now.state = cable->now.state;
    if (cable->changed > sum->noted.changed)
        sum->noted.changed = cable->changed;
}

static void fold_ways(struct telemetry_fold *fold, const struct telemetry *t)
{
    for (uint32_t i = 0; i < 2 * fold->trunks; i++)
        fold->way[i].now = (struct fabric_way_sample){0};
    for (uint32_t i = 0; i < 2 * fabric_cable_count(t->source.fabric); i++) {
        uint32_t out = i % 2 ^ fold->turned[i / 2];

        telemetry_add_way(&fold->way[2 * fold->of_cable[i / 2] + out], &t->way[i]);
    }
}

static void fold_states(struct telemetry_fold *fold, const struct telemetry *t)
{
    for (uint32_t k = 0; k < fold->trunks; k++) {
        fold->trunk[k].wrong = 0;
        fold->trunk[k].noted.now = (struct telemetry_cable){TELEMETRY_UP, 0};
    }
    for (uint32_t i = 0; i < fabric_cable_count(t->source.fabric); i++)
        telemetry_add_cable(&fold->trunk[fold->of_cable[i]], &t->cable[i]);
}

static void fold_switches(struct telemetry_fold *fold, const struct telemetry *t)
{
    for (uint32_t g = 0; g < fold->switches; g++)
        fold->sw[g].now = (struct fabric_switch_sample){0};
    for (uint32_t s = 0; s < t->source.config->graph->switches; s++) {
        struct telemetry_switch *sum = &fold->sw[fold->of_sw[s]];

        fabric_counters_add(&fabric_switch_counters, sum->now.value, t->sw[s].now.value);
        if (t->sw[s].changed > sum->changed)
            sum->changed = t->sw[s].changed;
    }
}

static void fold_nodes(struct telemetry_fold *fold, const struct telemetry *t)
{
    for (uint32_t g = 0; g < fold->nodes; g++)
        fold->node[g].now = (struct fabric_node_sample){0};
    for (uint32_t n = 0; n < t->source.config->graph->nodes; n++) {
        struct telemetry_node *sum = &fold->node[fold->of_node[n]];

        fabric_counters_add(&fabric_node_counters, sum->now.value, t->node[n].now.value);
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
