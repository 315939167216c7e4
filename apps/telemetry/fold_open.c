/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fold_open.c - a folded network of which some blocks are open: what is in them is told one by one,
 * all else as it is while nothing is open. So it costs what is open, not what there is.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/links.h"
#include "apps/telemetry/fold.h"

/* What it is made of, and with. */
struct maker {
    struct telemetry_fold *fold;
    const struct telemetry_fold *plain;
    const struct telemetry *t;
    uint32_t *sw, *node; /* by plain group: its number in the fold, or that of the next of it */
    struct telemetry_key *key; /* of cables; and, by cables + their number, of plain trunks */
    uint32_t keys;
};

/* --- blocks ------------------------------------------------------------------------- */

static int note_open(struct telemetry_fold *fold, const struct telemetry_fold *plain,
                     const uint32_t *block, size_t count)
{
    fold->blocks = plain->blocks;
    fold->is_open = calloc(plain->blocks, sizeof *fold->is_open);
    if (!fold->is_open)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        if (block[i] >= plain->blocks)
            return -ENOENT;
        fold->is_open[block[i]] = true;
    }
    return 0;
}

/* --- groups ------------------------------------------------------------------------- */

/* Those that are open become as many as they are. Returns how many there are then. */
static uint32_t number_groups(const struct telemetry_fold *fold,
                              const struct telemetry_group *group, uint32_t groups, uint32_t *at)
{
    uint32_t all = 0;

    for (uint32_t g = 0; g < groups; g++) {
        at[g] = all;
        all += fold->is_open[group[g].block] ? group[g].count : 1;
    }
    return all;
}

/* The next group of @plain, by its number; what it is stands in the fold already if that is. */
static uint32_t next_of(const struct telemetry_fold *fold, const struct telemetry_group *plain,
                        uint32_t *at)
{
    return fold->is_open[plain->block] ? (*at)++ : *at;
}

/* Switch or node @number, with nodes @low to @high below it. Returns its group in the fold. */
static uint32_t place(const struct telemetry_fold *fold, struct telemetry_group *groups,
                      const struct telemetry_group *plain, uint32_t *next, uint32_t number,
                      uint32_t low, uint32_t high)
{
    uint32_t at = next_of(fold, plain, next);

    groups[at] = *plain;
    if (fold->is_open[plain->block]) {
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

        m->fold->of_sw[s] = place(m->fold, m->fold->sw_group, &m->plain->sw_group[g], &m->sw[g], s,
                                  graph->sw[s].low, graph->sw[s].high);
    }
}

static void place_nodes(struct maker *m)
{
    for (uint32_t n = 0; n < m->t->source.config->graph->nodes; n++) {
        uint32_t g = m->plain->of_node[n];

        m->fold->of_node[n] =
            place(m->fold, m->fold->node_group, &m->plain->node_group[g], &m->node[g], n, n, n);
    }
    for (uint32_t g = 0; g < m->fold->switches; g++) {
        struct telemetry_group *group = &m->fold->sw_group[g];
        bool any = group->low <= group->high;

        group->from = any ? m->fold->of_node[group->low] : 0;
        group->to = any ? m->fold->of_node[group->high] : 0;
    }
}

/* --- trunks ------------------------------------------------------------------------- */

static bool is_open(const struct maker *m, const struct telemetry_trunk *plain)
{
    const struct telemetry_group *near = &m->plain->sw_group[plain->sw];
    const struct telemetry_group *far = plain->is_node ? &m->plain->node_group[plain->far]
                                                       : &m->plain->sw_group[plain->far];

    return m->fold->is_open[near->block] || m->fold->is_open[far->block];
}

/* A plain trunk stays one; the cables of one at an open block are sorted anew. */
static bool sort_keys(struct maker *m)
{
    const struct fabric *fabric = m->t->source.fabric;
    uint32_t cables = fabric_cable_count(fabric), keys = 0;
    bool turned;

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
        m->key[m->keys] = telemetry_key_of_cable(m->fold, fabric_cable(fabric, i), &turned);
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
        m->fold->trunks += is_next(m, i);
}

/* One more of its cables, which is member @at. */
static void trunk_add(struct maker *m, struct telemetry_trunk *trunk, uint32_t cable, uint32_t at)
{
    struct telemetry_member *member = &m->fold->member[at];
    bool first = !trunk->count++;

    member->cable = cable;
    telemetry_key_of_cable(m->fold, fabric_cable(m->t->source.fabric, cable), &member->turned);
    trunk->first = first ? at : trunk->first;
    trunk->cable = first ? cable : TELEMETRY_MANY;
    trunk->turned = member->turned;
    trunk->plain = TELEMETRY_MANY;
}

static void place_trunks(struct maker *m)
{
    uint32_t cables = fabric_cable_count(m->t->source.fabric), k = UINT32_MAX;

    for (uint32_t i = 0; i < m->keys; i++) {
        const struct telemetry_key *key = &m->key[i];
        struct telemetry_trunk *trunk;

        k += is_next(m, i);
        trunk = &m->fold->trunk[k];
        if (key->number >= cables)
            *trunk = m->plain->trunk[key->number - cables];
        else
            trunk_add(m, trunk, key->number, i);
        trunk->sw = (uint32_t)key->high;
        trunk->is_node = !(key->low >> 32);
        trunk->far = (uint32_t)key->low;
    }
    telemetry_fold_ports(m->fold);
}

/* --- the whole ---------------------------------------------------------------------- */

static int maker_room(struct maker *m)
{
    const struct topo_graph *graph = m->t->source.config->graph;

    m->sw = calloc(m->plain->switches, sizeof *m->sw);
    m->node = calloc(m->plain->nodes, sizeof *m->node);
    m->fold->of_sw = calloc(graph->switches, sizeof *m->fold->of_sw);
    m->fold->of_node = calloc(graph->nodes, sizeof *m->fold->of_node);
    return m->sw && m->node && m->fold->of_sw && m->fold->of_node ? 0 : -ENOMEM;
}

/* Groups, and then what joins them. */
static int make(struct maker *m)
{
    struct telemetry_fold *fold = m->fold;
    int err = maker_room(m);

    if (err)
        return err;
    fold->switches = number_groups(fold, m->plain->sw_group, m->plain->switches, m->sw);
    fold->nodes = number_groups(fold, m->plain->node_group, m->plain->nodes, m->node);
    if (fold->switches > TELEMETRY_OPEN_MOST || fold->nodes > TELEMETRY_OPEN_MOST)
        return -E2BIG;
    if (!telemetry_fold_group_room(fold))
        return -ENOMEM;
    place_switches(m);
    place_nodes(m);
    if (!sort_keys(m))
        return -ENOMEM;
    count_trunks(m);
    if (fold->trunks > TELEMETRY_OPEN_MOST)
        return -E2BIG;
    fold->member = calloc(m->keys, sizeof *fold->member);
    if (!fold->member || !telemetry_fold_room(fold))
        return -ENOMEM;
    place_trunks(m);
    return 0;
}

int telemetry_open(struct telemetry_fold **ret, const struct telemetry *t, const uint32_t *block,
                   size_t count)
{
    struct maker m = {.fold = calloc(1, sizeof *m.fold), .plain = t->fold, .t = t};
    int err = m.fold ? note_open(m.fold, t->fold, block, count) : -ENOMEM;

    if (!err)
        err = make(&m);
    free(m.key);
    free(m.node);
    free(m.sw);
    if (err) {
        telemetry_fold_destroy(m.fold);
        return err;
    }
    free(m.fold->of_sw);
    free(m.fold->of_node);
    m.fold->of_sw = m.fold->of_node = NULL;
    *ret = m.fold;
    return 0;
}

/* --- what they have counted --------------------------------------------------------- */

static void look_at_trunk(struct telemetry_fold *fold, uint32_t k, const struct telemetry *t)
{
    struct telemetry_trunk *trunk = &fold->trunk[k];
    struct telemetry_way *way = &fold->way[2 * (size_t)k];

    way[0].now = way[1].now = (struct fabric_way_sample){0};
    trunk->wrong = 0;
    trunk->noted.now = (struct telemetry_cable){TELEMETRY_UP, 0};
    for (uint32_t i = trunk->first; i < trunk->first + trunk->count; i++) {
        const struct telemetry_member *member = &fold->member[i];
        const struct telemetry_way *of = &t->way[2 * (size_t)member->cable];

        telemetry_add_way(&way[0], &of[member->turned]);
        telemetry_add_way(&way[1], &of[!member->turned]);
        telemetry_add_cable(trunk, &t->cable[member->cable]);
    }
}

void telemetry_open_look(struct telemetry_fold *fold, const struct telemetry_fold *plain,
                         const struct telemetry *t)
{
    if (fold->look == t->looks)
        return;
    for (uint32_t k = 0; k < fold->trunks; k++) {
        struct telemetry_trunk *trunk = &fold->trunk[k];

        if (trunk->plain == TELEMETRY_MANY) {
            look_at_trunk(fold, k, t);
            continue;
        }
        fold->way[2 * k] = plain->way[2 * trunk->plain];
        fold->way[2 * k + 1] = plain->way[2 * trunk->plain + 1];
        trunk->wrong = plain->trunk[trunk->plain].wrong;
        trunk->noted = plain->trunk[trunk->plain].noted;
    }
    for (uint32_t g = 0; g < fold->switches; g++) {
        const struct telemetry_group *group = &fold->sw_group[g];

        fold->sw[g] = group->number == TELEMETRY_MANY ? plain->sw[group->plain]
                                                      : t->sw[group->number];
    }
    for (uint32_t g = 0; g < fold->nodes; g++) {
        const struct telemetry_group *group = &fold->node_group[g];

        fold->node[g] = group->number == TELEMETRY_MANY ? plain->node[group->plain]
                                                        : t->node[group->number];
    }
    fold->look = t->looks;
}
