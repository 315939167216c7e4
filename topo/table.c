/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table.c - makes routing tables from the candidate ports of each switch for each *cluster*. A
 * cluster is a set of nodes that are plugged into the same switches. A table is regular or general
 * (struct topo_route).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/ports.h"
#include "emu/util/random.h"
#include "topo/route.h"

/*
 * A regular table has a block for each range of nodes with the same ports. A table of up to this
 * many blocks is always accepted. A larger one must be smaller than a general table.
 */
#define BLOCKS_MAX 512

/* Consecutive nodes, from `from` to `to` - 1, that are in one cluster. */
struct run {
    uint32_t from;
    uint32_t to;
    uint32_t cluster;
};

/* An entry of the hash table of sets in the current general table. */
struct known {
    emu_ports set;
    uint32_t index; /* of the set in the table */
    uint32_t table; /* number of the table; an entry of an earlier table counts as empty */
};

struct tables {
    struct topo_graph *graph;
    const struct clusters *clusters;
    const struct paths *paths;
    const emu_ports *found; /* candidate ports by switch and cluster */
    struct run *run;
    uint32_t runs;

    emu_ports *set; /* the sets of all switches */
    size_t sets, sets_room;
    uint16_t *set_of; /* the set_of[] of all general tables, one after the other */
    size_t set_ofs, set_ofs_room;
    size_t *sets_at;   /* by switch: index of its first set in set[] */
    size_t *set_of_at; /* by switch: index in set_of[]; SIZE_MAX: its table is regular */

    struct known *known;
    uint32_t known_mask;
    uint32_t table; /* number of the current general table */
};

/* Make space for @more elements of @size bytes behind the @used elements of an array. */
static int grow(void **array, size_t *room, size_t used, size_t more, size_t size)
{
    if (used + more <= *room)
        return 0;
    size_t want = 2 * (used + more) + 64;
    void *bigger = realloc(*array, want * size);

    if (!bigger)
        return -ENOMEM;
    *array = bigger;
    *room = want;
    return 0;
}

static emu_ports own_ports(const struct topo_graph *graph, uint32_t s, uint32_t n)
{
    const struct topo_node *node = &graph->node[n];
    emu_ports ports = EMU_NO_PORTS;

    for (uint32_t i = 0; i < node->links; i++)
        if (node->link[i].sw == s)
            ports |= emu_port(node->link[i].port);
    return ports;
}

static emu_ports found_at(const struct tables *t, uint32_t s, uint32_t cluster)
{
    return t->found[(size_t)s * t->clusters->count + cluster];
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The regular table that a switch could have. */
struct shape {
    bool fits;
    uint32_t low, high; /* the nodes below are low to high; low > high: there are none */
    uint32_t stride;    /* size of a block; 0: no boundary between two sets was found so far */
    emu_ports elsewhere;
    bool any_elsewhere;
};

static void shape_above(struct shape *shape, emu_ports set)
{
    if (shape->any_elsewhere && !emu_ports_equal(set, shape->elsewhere))
        shape->fits = false;
    shape->elsewhere = set;
    shape->any_elsewhere = true;
}

/*
 * Add a run of nodes below the switch. @changes: the set of the run differs from the set of the
 * node before it. @each: each node of the run has its own set.
 */
static void shape_below(struct shape *shape, const struct run *run, bool changes, bool each)
{
    if (shape->low > shape->high)
        shape->low = run->from;
    else if (run->from != shape->high + 1)
        shape->fits = false;
    if (changes)
        shape->stride = gcd(shape->stride, run->from - shape->low);
    if (each && run->to - run->from > 1)
        shape->stride = 1;
    shape->high = run->to - 1;
}

static struct shape shape_of(const struct tables *t, uint32_t s)
{
    struct shape shape = {.fits = true, .low = 1};
    emu_ports last = EMU_NO_PORTS;

    for (uint32_t r = 0; r < t->runs; r++) {
        const struct run *run = &t->run[r];
        emu_ports set = found_at(t, s, run->cluster);
        bool here = emu_ports_equal(set, ROUTE_HERE);

        if (here || emu_ports_any(set & t->paths->down[s]))
            shape_below(&shape, run, here || !emu_ports_equal(set, last), here);
        else
            shape_above(&shape, set);
        last = set;
    }
    uint32_t span = shape.high + 1 - shape.low;
    if (shape.low > shape.high)
        span = 0;
    else if (!shape.stride)
        shape.stride = span;
    else if (shape.high + 1 < t->graph->nodes)
        shape.stride = gcd(shape.stride, span);
    if (!shape.stride)
        shape.stride = 1;

    uint32_t blocks = (span + shape.stride - 1) / shape.stride;
    if (blocks > BLOCKS_MAX && 4 * blocks > t->clusters->count)
        shape.fits = false;
    return shape;
}

static int make_regular(struct tables *t, uint32_t s, const struct shape *shape)
{
    struct topo_route *route = &t->graph->sw[s].route;
    uint32_t span = shape->low > shape->high ? 0 : shape->high + 1 - shape->low;
    uint32_t blocks = (span + shape->stride - 1) / shape->stride;

    if (grow((void **)&t->set, &t->sets_room, t->sets, blocks, sizeof *t->set))
        return -ENOMEM;
    *route = (struct topo_route){
        .first = span ? shape->low : 0,
        .span = span,
        .stride = shape->stride,
        .elsewhere = shape->elsewhere,
    };
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t n = shape->low + i * shape->stride;
        emu_ports set = found_at(t, s, t->clusters->where[n] >> TOPO_MEMBER_BITS);

        t->set[t->sets + i] = emu_ports_equal(set, ROUTE_HERE) ? own_ports(t->graph, s, n) : set;
    }
    t->sets += blocks;
    return 0;
}

static uint32_t set_hash(emu_ports set)
{
    uint64_t hash = 0;

    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++)
        hash = emu_spread(hash ^ emu_ports_word(set, w));
    return (uint32_t)(hash >> 32);
}

/* Find or add a set of the current general table. @first: number of the table's first set. */
static uint32_t set_index(struct tables *t, size_t first, emu_ports set)
{
    uint32_t at = set_hash(set) & t->known_mask;

    while (t->known[at].table == t->table) {
        if (emu_ports_equal(t->known[at].set, set))
            return t->known[at].index;
        at = (at + 1) & t->known_mask;
    }
    t->known[at] = (struct known){set, (uint32_t)(t->sets - first), t->table};
    t->set[t->sets++] = set;
    return t->known[at].index;
}

/* For each cluster that is plugged into switch @s, add one set per member. */
static void make_members(struct tables *t, uint32_t s, uint16_t *set_of)
{
    size_t first = t->sets_at[s];

    for (uint32_t port = 0; port < t->graph->ports; port++) {
        const struct topo_end *end = &t->graph->sw[s].end[port];

        if (end->kind != TOPO_END_NODE)
            continue;
        uint32_t cluster = t->clusters->where[end->id] >> TOPO_MEMBER_BITS;
        uint32_t member = t->clusters->where[end->id] & ((1u << TOPO_MEMBER_BITS) - 1);

        if (!(set_of[cluster] & TOPO_PER_MEMBER)) {
            set_of[cluster] = (uint16_t)(TOPO_PER_MEMBER | (t->sets - first));
            t->sets += t->clusters->at[cluster].members;
        }
        t->set[first + (set_of[cluster] & ~TOPO_PER_MEMBER) + member] =
            own_ports(t->graph, s, end->id);
    }
}

static int make_general(struct tables *t, uint32_t s)
{
    uint32_t clusters = t->clusters->count;
    size_t most = (size_t)clusters + TOPO_PORTS_MAX;
    size_t first = t->sets_at[s];

    if (grow((void **)&t->set, &t->sets_room, t->sets, most, sizeof *t->set) ||
        grow((void **)&t->set_of, &t->set_ofs_room, t->set_ofs, clusters, sizeof *t->set_of))
        return -ENOMEM;
    uint16_t *set_of = &t->set_of[t->set_ofs];

    memset(set_of, 0, clusters * sizeof *set_of);
    t->set_of_at[s] = t->set_ofs;
    t->set_ofs += clusters;
    t->table++;
    make_members(t, s, set_of);
    for (uint32_t c = 0; c < clusters; c++) {
        if (emu_ports_equal(found_at(t, s, c), ROUTE_HERE))
            continue;
        uint32_t index = set_index(t, first, found_at(t, s, c));

        if (index >= TOPO_PER_MEMBER)
            return -E2BIG;
        set_of[c] = (uint16_t)index;
    }
    t->graph->sw[s].route =
        (struct topo_route){.stride = 1, .set_count = (uint32_t)(t->sets - first)};
    return 0;
}

static int make_runs(struct tables *t)
{
    const uint32_t *where = t->clusters->where;

    t->run = malloc(t->graph->nodes * sizeof *t->run);
    if (!t->run)
        return -ENOMEM;
    for (uint32_t n = 0; n < t->graph->nodes; n++) {
        uint32_t cluster = where[n] >> TOPO_MEMBER_BITS;

        if (!t->runs || t->run[t->runs - 1].cluster != cluster)
            t->run[t->runs++] = (struct run){.from = n, .cluster = cluster};
        t->run[t->runs - 1].to = n + 1;
    }
    return 0;
}

static int make_known(struct tables *t)
{
    uint32_t size = 64;

    while (size < 2 * t->clusters->count)
        size *= 2;
    t->known = calloc(size, sizeof *t->known);
    t->known_mask = size - 1;
    return t->known ? 0 : -ENOMEM;
}

/* Copy all tables into one allocation, which belongs to the graph. */
static int tables_keep(struct tables *t)
{
    struct topo_graph *graph = t->graph;
    size_t where = t->set_ofs ? graph->nodes : 0;
    size_t bytes = t->sets * sizeof *t->set + where * sizeof(uint32_t) +
                   t->set_ofs * sizeof *t->set_of;
    emu_ports *set = malloc(bytes + 1);

    if (!set)
        return -ENOMEM;
    uint32_t *wheres = (uint32_t *)(set + t->sets);
    uint16_t *set_of = (uint16_t *)(wheres + where);

    if (t->sets) /* there is no set if no switch has a path to a node */
        memcpy(set, t->set, t->sets * sizeof *set);
    if (where) {
        memcpy(wheres, t->clusters->where, where * sizeof *wheres);
        memcpy(set_of, t->set_of, t->set_ofs * sizeof *set_of);
    }
    for (uint32_t s = 0; s < graph->switches; s++) {
        struct topo_route *route = &graph->sw[s].route;

        route->sets = set + t->sets_at[s];
        if (t->set_of_at[s] != SIZE_MAX) {
            route->set_of = set_of + t->set_of_at[s];
            route->where = wheres;
            route->nodes = graph->nodes;
        }
    }
    free(graph->routes);
    graph->routes = set;
    graph->bytes += bytes;
    return 0;
}

static int make_all(struct tables *t)
{
    for (uint32_t s = 0; s < t->graph->switches; s++) {
        struct shape shape = shape_of(t, s);
        int err;

        t->graph->sw[s].low = shape.low;
        t->graph->sw[s].high = shape.high;
        t->sets_at[s] = t->sets;
        t->set_of_at[s] = SIZE_MAX;
        err = shape.fits ? make_regular(t, s, &shape) : make_general(t, s);
        if (err)
            return err;
    }
    return tables_keep(t);
}

int tables_make(struct topo_graph *graph, const struct clusters *clusters,
                const struct paths *paths, const emu_ports *sets)
{
    struct tables t = {.graph = graph, .clusters = clusters, .paths = paths, .found = sets};
    int err = -ENOMEM;

    t.sets_at = malloc(graph->switches * sizeof *t.sets_at);
    t.set_of_at = malloc(graph->switches * sizeof *t.set_of_at);
    if (t.sets_at && t.set_of_at && !make_runs(&t) && !make_known(&t))
        err = make_all(&t);
    free(t.known);
    free(t.set_of_at);
    free(t.sets_at);
    free(t.set_of);
    free(t.set);
    free(t.run);
    return err;
}
