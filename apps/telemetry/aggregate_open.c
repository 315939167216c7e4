/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aggregate_open.c - a folded network of which some blocks are open: what is in them is told one by
 * one, all else as it is while nothing is open. So it costs what is open, not what there is.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/links.h"
#include "apps/telemetry/aggregate.h"

/* What it is made of, and with. */
struct maker {
    struct telemetry_aggregate *aggregate;
    const struct telemetry_aggregate *plain;
    const struct telemetry *t;
    uint32_t *sw, *node; /* by plain group: its number in the fold, or that of the next of it */
    struct telemetry_key *key; /* of cables; and, by cables + their number, of plain trunks */
    uint32_t keys;
};

/* --- blocks ------------------------------------------------------------------------- */

static int note_open(struct telemetry_aggregate *aggregate, const struct telemetry_aggregate *plain,
                     const uint32_t *block, size_t count)
{
    aggregate->blocks = plain->blocks;
    aggregate->is_open = calloc(plain->blocks, sizeof *aggregate->is_open);
    if (!aggregate->is_open)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        if (block[i] >= plain->blocks)
            return -ENOENT;
        aggregate->is_open[block[i]] = true;
    }
    return 0;
}

/* --- groups ------------------------------------------------------------------------- */

/* Those that are open become as many as they are. Returns how many there are then. */
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

/* The next group of @plain, by its number; what it is stands in the fold already if that is. */
static uint32_t next_of(const struct telemetry_aggregate *aggregate,
                        const struct telemetry_group *plain, uint32_t *at)
{
    return aggregate->is_open[plain->block] ? (*at)++ : *at;
}

/* Switch or node @number, with nodes @low to @high below it. Returns its group in the fold. */
static uint32_t place(const struct telemetry_aggregate *aggregate, struct telemetry_group *groups,
                      const struct telemetry_group *plain, uint32_t *next, uint32_t number,
                      uint32_t low, uint32_t high)
{
    uint32_t at = next_of(aggregate, plain, next);

    groups[at] = *plain;
    if (aggregate->is_open[plain->block]) {
        groups[at].count = 1;
        groups[at].number = number;
        groups[at].low = low;
        groups[at].high = high;
    }
    return at;
}

static void place_switches(struct maker *m)
{
    const struct topo_graph *graph = m->t->source.config->graph;

    for (uint32_t s = 0; s < graph->switches; s++) {
        uint32_t g = m->plain->of_sw[s];

        m->aggregate->of_sw[s] = place(m->aggregate, m->aggregate->sw_group, &m->plain->sw_group[g],
                                       &m->sw[g], s, graph->sw[s].low, graph->sw[s].high);
    }
}

static void place_nodes(struct maker *m)
{
    for (uint32_t n = 0; n < m->t->source.config->graph->nodes; n++) {
        uint32_t g = m->plain->of_node[n];

        m->aggregate->of_node[n] = place(m->aggregate, m->aggregate->node_group,
                                         &m->plain->node_group[g], &m->node[g], n, n, n);
    }
    for (uint32_t g = 0; g < m->aggregate->switches; g++) {
        struct telemetry_group *group = &m->aggregate->sw_group[g];
        bool any = group->low <= group->high;

        group->from = any ? m->aggregate->of_node[group->low] : 0;
        group->to = any ? m->aggregate->of_node[group->high] : 0;
    }
}

/* --- trunks ------------------------------------------------------------------------- */

static bool is_open(const struct maker *m, const struct telemetry_trunk *plain)
{
    const struct telemetry_group *near = &m->plain->sw_group[plain->sw];
    const struct telemetry_group *peer = plain->is_node ? &m->plain->node_group[plain->peer]
                                                        : &m->plain->sw_group[plain->peer];

    return m->aggregate->is_open[near->block] || m->aggregate->is_open[peer->block];
}

/* A plain trunk stays one; the cables of one at an open block are sorted anew. */
static bool sort_keys(struct maker *m)
{
    const struct fabric *fabric = m->t->source.fabric;
    uint32_t cables = fabric_cable_count(fabric), keys = 0;
    bool reversed;

    for (uint32_t k = 0; k < m->plain->trunks; k++)
        keys += is_open(m, &m->plain->trunk[k]) ? m->plain->trunk[k].count : 1;
    m->key = calloc(keys, sizeof *m->key);
    if (!m->key)
        return false;
    for (uint32_t i = 0; i < cables; i++) {
        uint32_t k = m->plain->of_cable[i];
        bool open = is_open(m, &m->plain->trunk[k]);

        if (!open && m->plain->trunk[k].first != i)
            continue;
        m->key[m->keys] = telemetry_key_of_cable(m->aggregate, fabric_cable(fabric, i), &reversed);
        m->key[m->keys++].number = open ? i : cables + k;
    }
    qsort(m->key, m->keys, sizeof *m->key, telemetry_key_order);
    return true;
}

static bool is_next(const struct maker *m, uint32_t i)
{
    return !i || !telemetry_key_is_same(&m->key[i], &m->key[i - 1]);
}

static void count_trunks(struct maker *m)
{
    for (uint32_t i = 0; i < m->keys; i++)
        m->aggregate->trunks += is_next(m, i);
}

/* One more of its cables, which is member @at. */
static void trunk_add(struct maker *m, struct telemetry_trunk *trunk, uint32_t cable, uint32_t at)
{
    struct telemetry_member *member = &m->aggregate->member[at];
    bool first = !trunk->count++;

    member->cable = cable;
    telemetry_key_of_cable(m->aggregate, fabric_cable(m->t->source.fabric, cable),
                           &member->reversed);
    trunk->first = first ? at : trunk->first;
    trunk->cable = first ? cable : TELEMETRY_MANY;
    trunk->reversed = member->reversed;
    trunk->plain = TELEMETRY_MANY;
}

static void place_trunks(struct maker *m)
{
    uint32_t cables = fabric_cable_count(m->t->source.fabric), k = UINT32_MAX;

    for (uint32_t i = 0; i < m->keys; i++) {
        const struct telemetry_key *key = &m->key[i];
        struct telemetry_trunk *trunk;

        k += is_next(m, i);
        trunk = &m->aggregate->trunk[k];
        if (key->number >= cables)
            *trunk = m->plain->trunk[key->number - cables];
        else
            trunk_add(m, trunk, key->number, i);
        trunk->sw = (uint32_t)key->high;
        trunk->is_node = !(key->low >> 32);
        trunk->peer = (uint32_t)key->low;
    }
    telemetry_aggregate_ports(m->aggregate);
}

/* --- the whole ---------------------------------------------------------------------- */

static int maker_room(struct maker *m)
{
    const struct topo_graph *graph = m->t->source.config->graph;

    m->sw = calloc(m->plain->switches, sizeof *m->sw);
    m->node = calloc(m->plain->nodes, sizeof *m->node);
    m->aggregate->of_sw = calloc(graph->switches, sizeof *m->aggregate->of_sw);
    m->aggregate->of_node = calloc(graph->nodes, sizeof *m->aggregate->of_node);
    return m->sw && m->node && m->aggregate->of_sw && m->aggregate->of_node ? 0 : -ENOMEM;
}

/* Groups, and then what joins them. */
static int make(struct maker *m)
{
    struct telemetry_aggregate *aggregate = m->aggregate;
    int err = maker_room(m);

    if (err)
        return err;
    aggregate->switches = number_groups(aggregate, m->plain->sw_group, m->plain->switches, m->sw);
    aggregate->nodes = number_groups(aggregate, m->plain->node_group, m->plain->nodes, m->node);
    if (aggregate->switches > TELEMETRY_OPEN_MOST || aggregate->nodes > TELEMETRY_OPEN_MOST)
        return -E2BIG;
    if (!telemetry_aggregate_reserve_groups(aggregate))
        return -ENOMEM;
    place_switches(m);
    place_nodes(m);
    if (!sort_keys(m))
        return -ENOMEM;
    count_trunks(m);
    if (aggregate->trunks > TELEMETRY_OPEN_MOST)
        return -E2BIG;
    aggregate->member = calloc(m->keys, sizeof *aggregate->member);
    if (!aggregate->member || !telemetry_aggregate_reserve(aggregate))
        return -ENOMEM;
    place_trunks(m);
    return 0;
}

int telemetry_open(struct telemetry_aggregate **ret, const struct telemetry *t,
                   const uint32_t *block, size_t count)
{
    struct maker m = {.aggregate = calloc(1, sizeof *m.aggregate), .plain = t->aggregate, .t = t};
    int err = m.aggregate ? note_open(m.aggregate, t->aggregate, block, count) : -ENOMEM;

    if (!err)
        err = make(&m);
    free(m.key);
    free(m.node);
    free(m.sw);
    if (err) {
        telemetry_aggregate_destroy(m.aggregate);
        return err;
    }
    free(m.aggregate->of_sw);
    free(m.aggregate->of_node);
    m.aggregate->of_sw = m.aggregate->of_node = NULL;
    *ret = m.aggregate;
    return 0;
}

/* --- what they have counted --------------------------------------------------------- */

static void sample_trunk(struct telemetry_aggregate *aggregate, uint32_t k,
                         const struct telemetry *t)
{
    struct telemetry_trunk *trunk = &aggregate->trunk[k];
    struct telemetry_direction *direction = &aggregate->direction[2 * (size_t)k];

    direction[0].now = direction[1].now = (struct fabric_direction_sample){0};
    trunk->wrong = 0;
    trunk->noted.now = (struct telemetry_cable){TELEMETRY_UP, 0};
    for (uint32_t i = trunk->first; i < trunk->first + trunk->count; i++) {
        const struct telemetry_member *member = &aggregate->member[i];
        const struct telemetry_direction *of = &t->direction[2 * (size_t)member->cable];

        telemetry_add_direction(&direction[0], &of[member->reversed]);
        telemetry_add_direction(&direction[1], &of[!member->reversed]);
        telemetry_add_cable(trunk, &t->cable[member->cable]);
    }
}

void telemetry_open_sample(struct telemetry_aggregate *aggregate,
                           const struct telemetry_aggregate *plain, const struct telemetry *t)
{
    if (aggregate->sample == t->samples)
        return;
    for (uint32_t k = 0; k < aggregate->trunks; k++) {
        struct telemetry_trunk *trunk = &aggregate->trunk[k];

        if (trunk->plain == TELEMETRY_MANY) {
            sample_trunk(aggregate, k, t);
            continue;
        }
        aggregate->direction[2 * k] = plain->direction[2 * trunk->plain];
        aggregate->direction[2 * k + 1] = plain->direction[2 * trunk->plain + 1];
        trunk->wrong = plain->trunk[trunk->plain].wrong;
        trunk->noted = plain->trunk[trunk->plain].noted;
    }
    for (uint32_t g = 0; g < aggregate->switches; g++) {
        const struct telemetry_group *group = &aggregate->sw_group[g];

        aggregate->sw[g] = group->number == TELEMETRY_MANY ? plain->sw[group->plain]
                                                           : t->sw[group->number];
    }
    for (uint32_t g = 0; g < aggregate->nodes; g++) {
        const struct telemetry_group *group = &aggregate->node_group[g];

        aggregate->node[g] = group->number == TELEMETRY_MANY ? plain->node[group->plain]
                                                             : t->node[group->number];
    }
    aggregate->sample = t->samples;
}
