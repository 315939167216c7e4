/* SPDX-License-Identifier: BSD-3-Clause */
/* aggregate.c - aggregation of a large network into groups and trunks. */
#include "apps/telemetry/aggregate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/*
 * Sort @key, and set @of[i] to the group (or trunk) of device (or cable) i. Returns the number of
 * groups.
 */
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

/*
 * Return the sort key of switch @s. Switches of one level form a group if they are above the same
 * nodes. Small switches, which are above at most @block nodes, form larger groups: node numbers are
 * divided into ranges of @block, and all small switches of one level whose first node is in the
 * same range form a group.
 */
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

static uint32_t group_switches(struct telemetry_aggregate *aggregate,
                               const struct topo_graph *graph, uint32_t block,
                               struct telemetry_key *key)
{
    for (uint32_t s = 0; s < graph->switches; s++)
        key[s] = key_of_switch(graph, s, block);
    return number_groups(key, graph->switches, aggregate->of_sw);
}

/* Group nodes by the group of the switch at their first link. */
static uint32_t group_nodes(struct telemetry_aggregate *aggregate, const struct topo_graph *graph,
                            struct telemetry_key *key)
{
    for (uint32_t n = 0; n < graph->nodes; n++) {
        uint32_t sw = graph->node[n].link[0].sw;

        key[n] = (struct telemetry_key){0, sw == TOPO_NONE ? UINT64_MAX : aggregate->of_sw[sw], n};
    }
    return number_groups(key, graph->nodes, aggregate->of_node);
}

/*
 * The first end of a trunk is at a group of switches, not at a group of nodes. If both ends are at
 * groups of switches, the first end is at the group with the lower number. *@reversed: whether the
 * first end of the cable is at the second end of the trunk.
 */
struct telemetry_key telemetry_key_of_cable(const struct telemetry_aggregate *aggregate,
                                            const struct fabric_cable *cable, bool *reversed)
{
    uint32_t near = aggregate->of_sw[cable->at.sw];
    bool is_node = cable->kind == TOPO_END_NODE;
    uint32_t peer = is_node ? aggregate->of_node[cable->node] : aggregate->of_sw[cable->peer.sw];

    *reversed = !is_node && peer < near;
    if (*reversed)
        return (struct telemetry_key){.high = peer, .low = UINT64_C(1) << 32 | near};
    return (struct telemetry_key){.high = near, .low = (uint64_t)!is_node << 32 | peer};
}

static uint32_t group_cables(struct telemetry_aggregate *aggregate, const struct fabric *fabric,
                             struct telemetry_key *key)
{
    uint32_t cables = fabric_cable_count(fabric);

    for (uint32_t i = 0; i < cables; i++) {
        key[i] =
            telemetry_key_of_cable(aggregate, fabric_cable(fabric, i), &aggregate->reversed[i]);
        key[i].number = i;
    }
    return number_groups(key, cables, aggregate->of_cable);
}

/*
 * Return the smallest number greater than @block such that a switch has this many nodes below it;
 * if there is none, the number of all nodes.
 */
static uint32_t next_block(const struct topo_graph *graph, uint32_t block)
{
    uint32_t ret = graph->nodes;

    for (uint32_t s = 0; s < graph->switches; s++)
        if (span_of(&graph->sw[s]) > block && span_of(&graph->sw[s]) < ret)
            ret = span_of(&graph->sw[s]);
    return ret;
}

/*
 * Try larger and larger blocks until there are at most @most trunks, and at most @most groups of
 * each kind.
 */
static void aggregate_as_needed(struct telemetry_aggregate *aggregate, const struct telemetry *t,
                                uint32_t most, struct telemetry_key *key)
{
    const struct topo_graph *graph = t->source.config->graph;

    for (uint32_t block = next_block(graph, 1);; block = next_block(graph, block)) {
        aggregate->switches = group_switches(aggregate, graph, block, key);
        aggregate->nodes = group_nodes(aggregate, graph, key);
        if (block < graph->nodes && (aggregate->switches > most || aggregate->nodes > most))
            continue;
        aggregate->trunks = group_cables(aggregate, t->source.fabric, key);
        if (block >= graph->nodes || aggregate->trunks <= most)
            return;
    }
}

/* --- groups and trunks -------------------------------------------------------------- */

/* Add device @number: a switch above the nodes @low to @high, or the node @low. */
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

/*
 * Assign groups to blocks. Each group of nodes is a block. A group of switches belongs to the block
 * of the nodes below it; if there are several such blocks, it is a block of its own.
 */
static void number_blocks(struct telemetry_aggregate *aggregate)
{
    aggregate->blocks = aggregate->nodes;
    for (uint32_t g = 0; g < aggregate->switches; g++) {
        struct telemetry_group *group = &aggregate->sw_group[g];
        bool any = group->low <= group->high;

        group->from = any ? aggregate->of_node[group->low] : 0;
        group->to = any ? aggregate->of_node[group->high] : 0;
        group->block = any && group->from == group->to ? group->from : aggregate->blocks++;
    }
}

static void describe_groups(struct telemetry_aggregate *aggregate, const struct topo_graph *graph)
{
    for (uint32_t g = 0; g < aggregate->switches; g++)
        aggregate->sw_group[g] =
            /* low > high: it contains no nodes yet */
            (struct telemetry_group){.closed = g, .low = 1};
    for (uint32_t s = 0; s < graph->switches; s++) {
        struct telemetry_group *group = &aggregate->sw_group[aggregate->of_sw[s]];

        group->level = graph->sw[s].level;
        group_add(group, s, graph->sw[s].low, graph->sw[s].high);
    }
    for (uint32_t g = 0; g < aggregate->nodes; g++)
        aggregate->node_group[g] = (struct telemetry_group){.closed = g, .block = g};
    for (uint32_t n = 0; n < graph->nodes; n++)
        group_add(&aggregate->node_group[aggregate->of_node[n]], n, n, n);
    number_blocks(aggregate);
}

static void describe_trunks(struct telemetry_aggregate *aggregate, const struct fabric *fabric)
{
    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++) {
        const struct fabric_cable *cable = fabric_cable(fabric, i);
        struct telemetry_trunk *trunk = &aggregate->trunk[aggregate->of_cable[i]];
        uint32_t near = aggregate->of_sw[cable->at.sw];

        trunk->is_node = cable->kind == TOPO_END_NODE;
        trunk->peer = trunk->is_node ? aggregate->of_node[cable->node]
                                     : aggregate->of_sw[cable->peer.sw];
        trunk->sw = aggregate->reversed[i] ? trunk->peer : near;
        trunk->peer = aggregate->reversed[i] ? near : trunk->peer;
        trunk->first = trunk->count ? trunk->first : i;
        trunk->cable = trunk->count++ ? TELEMETRY_MANY : i;
        trunk->reversed = aggregate->reversed[i];
        trunk->closed = aggregate->of_cable[i];
    }
    telemetry_aggregate_ports(aggregate);
}

void telemetry_aggregate_ports(struct telemetry_aggregate *aggregate)
{
    uint32_t ports = 0;

    for (uint32_t k = 0; k < aggregate->trunks; k++) { /* trunks are sorted by their first ends */
        ports = k && aggregate->trunk[k].sw == aggregate->trunk[k - 1].sw ? ports + 1 : 0;
        aggregate->trunk[k].port = ports;
    }
}

bool telemetry_aggregate_alloc_groups(struct telemetry_aggregate *aggregate)
{
    aggregate->sw_group = calloc(aggregate->switches, sizeof *aggregate->sw_group);
    aggregate->node_group = calloc(aggregate->nodes, sizeof *aggregate->node_group);
    return aggregate->sw_group && aggregate->node_group;
}

bool telemetry_aggregate_alloc_trunks(struct telemetry_aggregate *aggregate)
{
    aggregate->trunk = calloc(aggregate->trunks, sizeof *aggregate->trunk);
    return !telemetry_tables_create(aggregate->table, 2 * aggregate->trunks, aggregate->switches,
                                    aggregate->nodes) &&
           aggregate->trunk;
}

int telemetry_aggregate_create(struct telemetry_aggregate **ret, const struct telemetry *t,
                               uint32_t from, uint32_t most)
{
    const struct topo_graph *graph = t->source.config->graph;
    uint32_t cables = fabric_cable_count(t->source.fabric);
    struct telemetry_aggregate *aggregate;
    struct telemetry_key *key;
    bool ok;

    *ret = NULL;
    if (cables <= from)
        return 0;
    aggregate = calloc(1, sizeof *aggregate);
    key = calloc((size_t)cables + graph->switches + graph->nodes, sizeof *key);
    ok = aggregate && key &&
         (aggregate->of_sw = calloc(graph->switches, sizeof *aggregate->of_sw)) &&
         (aggregate->of_node = calloc(graph->nodes, sizeof *aggregate->of_node)) &&
         (aggregate->of_cable = calloc(cables, sizeof *aggregate->of_cable)) &&
         (aggregate->reversed = calloc(cables, sizeof *aggregate->reversed));
    if (ok) {
        aggregate_as_needed(aggregate, t, most, key);
        ok = telemetry_aggregate_alloc_groups(aggregate) &&
             telemetry_aggregate_alloc_trunks(aggregate);
    }
    free(key);
    if (!ok) {
        telemetry_aggregate_destroy(aggregate);
        return -ENOMEM;
    }
    describe_groups(aggregate, graph);
    describe_trunks(aggregate, t->source.fabric);
    *ret = aggregate;
    return 0;
}

void telemetry_aggregate_destroy(struct telemetry_aggregate *aggregate)
{
    if (!aggregate)
        return;
    text_buf_free(&aggregate->body.text);
    telemetry_tables_free(aggregate->table);
    free(aggregate->member);
    free(aggregate->reversed);
    free(aggregate->of_cable);
    free(aggregate->of_node);
    free(aggregate->of_sw);
    free(aggregate->trunk);
    free(aggregate->node_group);
    free(aggregate->sw_group);
    free(aggregate->is_open);
    free(aggregate);
}

/* --- counters ----------------------------------------------------------------------- */

static void clear_rows(struct telemetry_table *table, uint64_t row, uint64_t rows)
{
    memset(telemetry_values(table, row), 0, rows * table->counters->count * sizeof *table->value);
}

static void add_row(struct telemetry_table *sum, uint64_t at, const struct telemetry_table *table,
                    uint64_t row)
{
    fabric_counters_add(sum->counters, telemetry_values(sum, at), telemetry_values(table, row));
    if (table->changed[row] > sum->changed[at])
        sum->changed[at] = table->changed[row];
}

void telemetry_trunk_clear(struct telemetry_aggregate *aggregate, uint32_t k)
{
    clear_rows(&aggregate->table[TELEMETRY_DIRECTIONS], UINT64_C(2) * k, 2);
    aggregate->trunk[k].down = 0;
    aggregate->trunk[k].state.now = (struct telemetry_cable){TELEMETRY_UP, 0};
}

void telemetry_trunk_add(struct telemetry_aggregate *aggregate, uint32_t k,
                         const struct telemetry *t, uint32_t i, bool reversed)
{
    const struct telemetry_cable_entry *cable = &t->cable[i];
    struct telemetry_table *directions = &aggregate->table[TELEMETRY_DIRECTIONS];
    struct telemetry_trunk *sum = &aggregate->trunk[k];

    add_row(directions, 2 * k, &t->table[TELEMETRY_DIRECTIONS], 2 * i + reversed);
    add_row(directions, 2 * k + 1, &t->table[TELEMETRY_DIRECTIONS], 2 * i + !reversed);
    sum->down += cable->now.state != TELEMETRY_UP;
    sum->state.now.outs += cable->now.outs;
    if (cable->now.state > sum->state.now.state)
        sum->state.now.state = cable->now.state;
    if (cable->changed > sum->state.changed)
        sum->state.changed = cable->changed;
}

static void sum_cables(struct telemetry_aggregate *aggregate, const struct telemetry *t)
{
    for (uint32_t k = 0; k < aggregate->trunks; k++)
        telemetry_trunk_clear(aggregate, k);
    for (uint32_t i = 0; i < fabric_cable_count(t->source.fabric); i++)
        telemetry_trunk_add(aggregate, aggregate->of_cable[i], t, i, aggregate->reversed[i]);
}

/* Sum up the counters of switches or nodes. @of: for each device, its group. */
static void sum_devices(struct telemetry_aggregate *aggregate, const struct telemetry *t, int kind,
                        const uint32_t *of)
{
    clear_rows(&aggregate->table[kind], 0, aggregate->table[kind].rows);
    for (uint32_t i = 0; i < t->table[kind].rows; i++)
        add_row(&aggregate->table[kind], of[i], &t->table[kind], i);
}

void telemetry_aggregate_sample(struct telemetry_aggregate *aggregate, const struct telemetry *t)
{
    if (aggregate->sample == t->samples)
        return;
    sum_cables(aggregate, t);
    sum_devices(aggregate, t, TELEMETRY_SWITCHES, aggregate->of_sw);
    sum_devices(aggregate, t, TELEMETRY_NODES, aggregate->of_node);
    aggregate->sample = t->samples;
}
