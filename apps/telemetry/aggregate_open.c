/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate_open.c - aggregation with open blocks (aggregate.h): each device in an open block is a
 * group of its own. A *trunk* is all cables between two groups. The counters of all other groups
 * and trunks are copied from the aggregation without open blocks, so that counters of single
 * devices and cables are read only where blocks are open.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/links.h"
#include "apps/telemetry/aggregate.h"

struct builder {
    struct telemetry_aggregate *aggregate;
    const struct telemetry_aggregate *closed;
    const struct telemetry *t;
    /*
     * by group of `closed`: number of the corresponding new group. If the block of the group is
     * open, each of its devices gets a new group; then this is the number for the next device
     */
    uint32_t *sw, *node;
    /*
     * key.number is the number of a cable or, for trunk k of `closed`, k + the number of all cables
     */
    struct telemetry_key *key;
    uint32_t keys;
};

/* --- blocks ------------------------------------------------------------------------- */

static int note_open(struct telemetry_aggregate *aggregate,
                     const struct telemetry_aggregate *closed, const uint32_t *block, size_t count)
{
    aggregate->blocks = closed->blocks;
    aggregate->is_open = calloc(closed->blocks, sizeof *aggregate->is_open);
    if (!aggregate->is_open)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        if (block[i] >= closed->blocks)
            return -ENOENT;
        aggregate->is_open[block[i]] = true;
    }
    return 0;
}

/* --- groups ------------------------------------------------------------------------- */

/*
 * Number the new groups: each device of an open block becomes a group. Returns the number of
 * groups.
 */
static uint32_t number_groups(const struct telemetry_aggregate *aggregate,
                              const struct telemetry_group *group, uint32_t groups, uint32_t *at)
{
    uint32_t all = 0;

    for (uint32_t g = 0; g < groups; g++) {
        at[g] = all;
        all += aggregate->is_open[group[g].block] ? group[g].count : 1;
    }
    return all;
}

/* Add switch or node @number, with the nodes @low to @high below it. Returns its group. */
static uint32_t add_device(const struct telemetry_aggregate *aggregate,
                           struct telemetry_group *groups, const struct telemetry_group *closed,
                           uint32_t *next, uint32_t number, uint32_t low, uint32_t high)
{
    uint32_t at = *next;

    groups[at] = *closed;
    if (aggregate->is_open[closed->block]) {
        groups[at].count = 1;
        groups[at].number = number;
        groups[at].low = low;
        groups[at].high = high;
        (*next)++;
    }
    return at;
}

static void add_switches(struct builder *b)
{
    const struct topo_graph *graph = b->t->source.config->graph;

    for (uint32_t s = 0; s < graph->switches; s++) {
        uint32_t g = b->closed->of_sw[s];

        b->aggregate->of_sw[s] = add_device(b->aggregate, b->aggregate->sw_group,
                                            &b->closed->sw_group[g], &b->sw[g], s, graph->sw[s].low,
                                            graph->sw[s].high);
    }
}

static void add_nodes(struct builder *b)
{
    for (uint32_t n = 0; n < b->t->source.config->graph->nodes; n++) {
        uint32_t g = b->closed->of_node[n];

        b->aggregate->of_node[n] = add_device(b->aggregate, b->aggregate->node_group,
                                              &b->closed->node_group[g], &b->node[g], n, n, n);
    }
    for (uint32_t g = 0; g < b->aggregate->switches; g++) {
        struct telemetry_group *group = &b->aggregate->sw_group[g];
        bool any = group->low <= group->high;

        group->from = any ? b->aggregate->of_node[group->low] : 0;
        group->to = any ? b->aggregate->of_node[group->high] : 0;
    }
}

/* --- trunks ------------------------------------------------------------------------- */

static bool is_open(const struct builder *b, const struct telemetry_trunk *closed)
{
    const struct telemetry_group *near = &b->closed->sw_group[closed->sw];
    const struct telemetry_group *peer = closed->is_node ? &b->closed->node_group[closed->peer]
                                                         : &b->closed->sw_group[closed->peer];

    return b->aggregate->is_open[near->block] || b->aggregate->is_open[peer->block];
}

/* Sort the new trunks: the trunks between closed blocks, and the cables of all other trunks. */
static bool sort_keys(struct builder *b)
{
    const struct fabric *fabric = b->t->source.fabric;
    uint32_t cables = fabric_cable_count(fabric), keys = 0;
    bool reversed;

    for (uint32_t k = 0; k < b->closed->trunks; k++)
        keys += is_open(b, &b->closed->trunk[k]) ? b->closed->trunk[k].count : 1;
    b->key = calloc(keys, sizeof *b->key);
    if (!b->key)
        return false;
    for (uint32_t i = 0; i < cables; i++) {
        uint32_t k = b->closed->of_cable[i];
        bool open = is_open(b, &b->closed->trunk[k]);

        if (!open && b->closed->trunk[k].first != i)
            continue;
        b->key[b->keys] = telemetry_key_of_cable(b->aggregate, fabric_cable(fabric, i), &reversed);
        b->key[b->keys++].number = open ? i : cables + k;
    }
    qsort(b->key, b->keys, sizeof *b->key, telemetry_key_order);
    return true;
}

static bool starts_trunk(const struct builder *b, uint32_t i)
{
    return !i || !telemetry_key_is_same(&b->key[i], &b->key[i - 1]);
}

static void count_trunks(struct builder *b)
{
    for (uint32_t i = 0; i < b->keys; i++)
        b->aggregate->trunks += starts_trunk(b, i);
}

static void trunk_add(struct builder *b, struct telemetry_trunk *trunk, uint32_t cable, uint32_t at)
{
    struct telemetry_member *member = &b->aggregate->member[at];
    bool first = !trunk->count++;

    member->cable = cable;
    telemetry_key_of_cable(b->aggregate, fabric_cable(b->t->source.fabric, cable),
                           &member->reversed);
    trunk->first = first ? at : trunk->first;
    trunk->cable = first ? cable : TELEMETRY_MANY;
    trunk->reversed = member->reversed;
    trunk->closed = TELEMETRY_MANY;
}

static void add_trunks(struct builder *b)
{
    uint32_t cables = fabric_cable_count(b->t->source.fabric), k = UINT32_MAX;

    for (uint32_t i = 0; i < b->keys; i++) {
        const struct telemetry_key *key = &b->key[i];
        struct telemetry_trunk *trunk;

        k += starts_trunk(b, i);
        trunk = &b->aggregate->trunk[k];
        if (key->number >= cables)
            *trunk = b->closed->trunk[key->number - cables];
        else
            trunk_add(b, trunk, key->number, i);
        trunk->sw = (uint32_t)key->high;
        trunk->is_node = !(key->low >> 32);
        trunk->peer = (uint32_t)key->low;
    }
    telemetry_aggregate_ports(b->aggregate);
}

/* --- the aggregation ---------------------------------------------------------------- */

static int builder_alloc(struct builder *b)
{
    const struct topo_graph *graph = b->t->source.config->graph;

    b->sw = calloc(b->closed->switches, sizeof *b->sw);
    b->node = calloc(b->closed->nodes, sizeof *b->node);
    b->aggregate->of_sw = calloc(graph->switches, sizeof *b->aggregate->of_sw);
    b->aggregate->of_node = calloc(graph->nodes, sizeof *b->aggregate->of_node);
    return b->sw && b->node && b->aggregate->of_sw && b->aggregate->of_node ? 0 : -ENOMEM;
}

static int build(struct builder *b)
{
    struct telemetry_aggregate *aggregate = b->aggregate;
    int err = builder_alloc(b);

    if (err)
        return err;
    aggregate->switches = number_groups(aggregate, b->closed->sw_group, b->closed->switches, b->sw);
    aggregate->nodes = number_groups(aggregate, b->closed->node_group, b->closed->nodes, b->node);
    if (aggregate->switches > TELEMETRY_OPEN_MOST || aggregate->nodes > TELEMETRY_OPEN_MOST)
        return -E2BIG;
    if (!telemetry_aggregate_alloc_groups(aggregate))
        return -ENOMEM;
    add_switches(b);
    add_nodes(b);
    if (!sort_keys(b))
        return -ENOMEM;
    count_trunks(b);
    if (aggregate->trunks > TELEMETRY_OPEN_MOST)
        return -E2BIG;
    aggregate->member = calloc(b->keys, sizeof *aggregate->member);
    if (!aggregate->member || !telemetry_aggregate_alloc_trunks(aggregate))
        return -ENOMEM;
    add_trunks(b);
    return 0;
}

int telemetry_open(struct telemetry_aggregate **ret, const struct telemetry *t,
                   const uint32_t *block, size_t count)
{
    struct builder b = {.aggregate = calloc(1, sizeof *b.aggregate),
                        .closed = t->aggregate,
                        .t = t};
    int err = b.aggregate ? note_open(b.aggregate, t->aggregate, block, count) : -ENOMEM;

    if (!err)
        err = build(&b);
    free(b.key);
    free(b.node);
    free(b.sw);
    if (err) {
        telemetry_aggregate_destroy(b.aggregate);
        return err;
    }
    free(b.aggregate->of_sw);
    free(b.aggregate->of_node);
    b.aggregate->of_sw = b.aggregate->of_node = NULL;
    *ret = b.aggregate;
    return 0;
}

/* --- counters ----------------------------------------------------------------------- */

static void sample_trunk(struct telemetry_aggregate *aggregate, uint32_t k,
                         const struct telemetry *t)
{
    const struct telemetry_member *member = &aggregate->member[aggregate->trunk[k].first];

    telemetry_trunk_clear(aggregate, k);
    for (uint32_t i = 0; i < aggregate->trunk[k].count; i++)
        telemetry_trunk_add(aggregate, k, t, member[i].cable, member[i].reversed);
}

static void copy_row(struct telemetry_table *to, uint64_t at, const struct telemetry_table *from,
                     uint64_t row)
{
    memcpy(telemetry_values(to, at), telemetry_values(from, row),
           to->counters->count * sizeof *to->value);
    to->changed[at] = from->changed[row];
}

static void copy_groups(struct telemetry_aggregate *aggregate, int kind,
                        const struct telemetry_group *group,
                        const struct telemetry_aggregate *closed, const struct telemetry *t)
{
    for (uint32_t g = 0; g < aggregate->table[kind].rows; g++) {
        if (group[g].number == TELEMETRY_MANY)
            copy_row(&aggregate->table[kind], g, &closed->table[kind], group[g].closed);
        else
            copy_row(&aggregate->table[kind], g, &t->table[kind], group[g].number);
    }
}

void telemetry_open_sample(struct telemetry_aggregate *aggregate,
                           const struct telemetry_aggregate *closed, const struct telemetry *t)
{
    if (aggregate->sample == t->samples)
        return;
    for (uint32_t k = 0; k < aggregate->trunks; k++) {
        struct telemetry_trunk *trunk = &aggregate->trunk[k];

        if (trunk->closed == TELEMETRY_MANY) {
            sample_trunk(aggregate, k, t);
            continue;
        }
        for (uint32_t out = 0; out < 2; out++)
            copy_row(&aggregate->table[TELEMETRY_DIRECTIONS], 2 * k + out,
                     &closed->table[TELEMETRY_DIRECTIONS], 2 * trunk->closed + out);
        trunk->down = closed->trunk[trunk->closed].down;
        trunk->state = closed->trunk[trunk->closed].state;
    }
    copy_groups(aggregate, TELEMETRY_SWITCHES, aggregate->sw_group, closed, t);
    copy_groups(aggregate, TELEMETRY_NODES, aggregate->node_group, closed, t);
    aggregate->sample = t->samples;
}
