/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.c - compute routes for any cables.
 *
 * A switch that has a node below it sends segments for this node down, by every port with which a
 * shortest path down begins. Every other switch sends them up, by every port with which a shortest
 * path begins. So a segment that has come down never goes up again, although a table looks only at
 * its destination. A segment waits for higher switches on the way up, and for lower switches on the
 * way down, so waits cannot form a cycle.
 */
#include "topo/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/ports.h"

/* --- clusters: nodes with the same switches, which all other switches treat alike ----- */

/* Return a cluster with the switches of @node in ascending order, without repetitions. */
static struct cluster cluster_of(const struct topo_node *node)
{
    struct cluster key = {.members = 1, .next = TOPO_NONE};

    for (uint32_t i = 0; i < node->links; i++) {
        uint32_t sw = node->link[i].sw;
        uint32_t at = key.switches;

        if (sw == TOPO_NONE)
            continue; /* topo_without() removed the cable */
        while (at && key.sw[at - 1] > sw)
            at--;
        if (at && key.sw[at - 1] == sw)
            continue;
        memmove(&key.sw[at + 1], &key.sw[at], (key.switches - at) * sizeof key.sw[0]);
        key.sw[at] = sw;
        key.switches++;
    }
    return key;
}

/*
 * Find or add the cluster with the switches of @key, and count a member. @head: the list of
 * clusters with the same first switch.
 */
static uint32_t cluster_number(struct clusters *clusters, uint32_t *head, const struct cluster *key)
{
    for (uint32_t c = *head; c != TOPO_NONE; c = clusters->at[c].next) {
        struct cluster *at = &clusters->at[c];

        if (at->switches == key->switches &&
            memcmp(at->sw, key->sw, key->switches * sizeof key->sw[0]) == 0) {
            at->members++;
            return c;
        }
    }
    clusters->at[clusters->count] = *key;
    clusters->at[clusters->count].next = *head;
    *head = clusters->count;
    return clusters->count++;
}

int clusters_find(struct clusters *ret, const struct topo_graph *graph)
{
    /* lists of clusters by their first switch; in the last element, nodes without a cable */
    uint32_t *head = malloc((graph->switches + 1) * sizeof *head);

    *ret = (struct clusters){
        .at = malloc(graph->nodes * sizeof *ret->at),
        .where = malloc(graph->nodes * sizeof *ret->where),
    };
    if (!head || !ret->at || !ret->where) {
        free(head);
        clusters_free(ret);
        return -ENOMEM;
    }
    memset(head, 0xff, (graph->switches + 1) * sizeof *head);
    for (uint32_t n = 0; n < graph->nodes; n++) {
        struct cluster key = cluster_of(&graph->node[n]);
        uint32_t c = cluster_number(ret, &head[key.switches ? key.sw[0] : graph->switches], &key);

        ret->where[n] = c << TOPO_MEMBER_BITS;
        if (key.switches)
            ret->where[n] |= ret->at[c].members - 1;
    }
    free(head);
    return 0;
}

void clusters_free(struct clusters *clusters)
{
    free(clusters->at);
    free(clusters->where);
}

/* --- paths ---------------------------------------------------------------------------- */

/* Sort switches by level, and by number at equal levels. */
static int sort_by_level(struct paths *paths, const uint32_t *level, uint32_t switches)
{
    uint32_t most = 0;

    for (uint32_t s = 0; s < switches; s++)
        most = level[s] > most ? level[s] : most;
    uint32_t *at = calloc((size_t)most + 2, sizeof *at);

    if (!at)
        return -ENOMEM;
    for (uint32_t s = 0; s < switches; s++)
        at[level[s] + 1]++;
    for (uint32_t l = 0; l < most; l++)
        at[l + 1] += at[l];
    for (uint32_t s = 0; s < switches; s++)
        paths->order[at[level[s]]++] = s;
    free(at);
    return 0;
}

/* List the cables of switch @s in one direction. Returns how many there are. */
static uint32_t cables_list(const struct topo_graph *graph, const uint32_t *level, uint32_t s,
                            bool up, struct cable *to)
{
    uint32_t count = 0;

    for (uint32_t port = 0; port < graph->ports; port++) {
        const struct topo_end *end = &graph->sw[s].end[port];

        if (end->kind == TOPO_END_SWITCH && level[end->id] != level[s] &&
            (level[end->id] > level[s]) == up)
            to[count++] = (struct cable){.sw = end->id, .port = port};
    }
    return count;
}

static emu_ports ports_down(const struct topo_graph *graph, uint32_t s, const struct cable *cable,
                            uint32_t count)
{
    emu_ports down = EMU_NO_PORTS;

    for (uint32_t port = 0; port < graph->ports; port++)
        if (graph->sw[s].end[port].kind == TOPO_END_NODE)
            down |= emu_port(port);
    for (uint32_t i = 0; i < count; i++)
        down |= emu_port(cable[i].port);
    return down;
}

int topo_paths_new(struct paths *ret, const struct topo_graph *graph, const uint32_t *level)
{
    uint32_t switches = graph->switches;
    uint32_t used = 0;

    *ret = (struct paths){
        .order = malloc(switches * sizeof *ret->order),
        .cable = malloc((size_t)switches * graph->ports * sizeof *ret->cable),
        .first = malloc((2 * (size_t)switches + 1) * sizeof *ret->first),
        .down = malloc(switches * sizeof *ret->down),
        .hops = malloc(switches * sizeof *ret->hops),
    };
    if (!ret->order || !ret->cable || !ret->first || !ret->down || !ret->hops ||
        sort_by_level(ret, level, switches)) {
        topo_paths_free(ret);
        return -ENOMEM;
    }
    for (uint32_t s = 0; s < switches; s++) {
        ret->first[2 * s] = used;
        used += cables_list(graph, level, s, false, &ret->cable[used]);
        ret->first[2 * s + 1] = used;
        ret->down[s] =
            ports_down(graph, s, &ret->cable[ret->first[2 * s]], used - ret->first[2 * s]);
        used += cables_list(graph, level, s, true, &ret->cable[used]);
    }
    ret->first[2 * switches] = used;
    return 0;
}

void topo_paths_free(struct paths *paths)
{
    free(paths->order);
    free(paths->cable);
    free(paths->first);
    free(paths->down);
    free(paths->hops);
}

/*
 * Return the ports of paths->cable[from..to) with which a shortest path begins. @hops: gets the
 * length of this path; ROUTE_UNREACHABLE if there is none.
 */
static emu_ports shortest(const struct paths *paths, uint32_t from, uint32_t to, uint16_t *hops)
{
    uint16_t least = ROUTE_UNREACHABLE;
    emu_ports set = EMU_NO_PORTS;

    for (; from < to; from++) {
        const struct cable *cable = &paths->cable[from];
        uint16_t on = paths->hops[cable->sw];

        if (on < least) {
            least = on;
            set = EMU_NO_PORTS;
        }
        if (on == least && on < ROUTE_UNREACHABLE - 1)
            set |= emu_port(cable->port);
    }
    *hops = emu_ports_any(set) ? (uint16_t)(least + 1) : ROUTE_UNREACHABLE;
    return set;
}

void topo_paths_find(const struct paths *paths, const struct topo_graph *graph,
                     const struct cluster *to, emu_ports *sets, size_t stride)
{
    memset(paths->hops, 0xff, graph->switches * sizeof paths->hops[0]);
    for (uint32_t i = 0; i < to->switches; i++)
        paths->hops[to->sw[i]] = 0;

    for (uint32_t i = 0; i < graph->switches; i++) { /* find the paths down */
        uint32_t s = paths->order[i];
        emu_ports set = ROUTE_HERE;

        if (paths->hops[s])
            set = shortest(paths, paths->first[2 * s], paths->first[2 * s + 1], &paths->hops[s]);
        if (sets)
            sets[s * stride] = set;
    }
    for (uint32_t i = graph->switches; i--;) { /* find the paths up */
        uint32_t s = paths->order[i];

        if (paths->hops[s] != ROUTE_UNREACHABLE)
            continue;
        emu_ports set =
            shortest(paths, paths->first[2 * s + 1], paths->first[2 * s + 2], &paths->hops[s]);
        if (sets)
            sets[s * stride] = set;
    }
}

static uint32_t node_at(const struct topo_graph *graph, uint32_t s)
{
    for (uint32_t port = 0; port < graph->ports; port++)
        if (graph->sw[s].end[port].kind == TOPO_END_NODE)
            return graph->sw[s].end[port].id;
    return TOPO_NONE;
}

/*
 * Update graph->longest by the longest path to cluster @c, and @gap by the switches that have nodes
 * but no path to the cluster. @a_node: for each switch, one of its nodes or TOPO_NONE.
 */
static void note_hops(struct topo_graph *graph, const struct paths *paths,
                      const struct clusters *clusters, uint32_t c, const uint32_t *a_node,
                      struct topo_gap *gap)
{
    for (uint32_t s = 0; s < graph->switches; s++) {
        if (a_node[s] == TOPO_NONE)
            continue;
        if (paths->hops[s] == ROUTE_UNREACHABLE) {
            if (!gap->pairs) {
                gap->src = a_node[s];
                for (gap->dst = 0; clusters->where[gap->dst] >> TOPO_MEMBER_BITS != c;)
                    gap->dst++;
            }
            gap->pairs += clusters->at[c].members;
        } else if (paths->hops[s] >= graph->longest) {
            graph->longest = paths->hops[s] + 1u;
        }
    }
}

static int route_clusters(struct topo_graph *graph, const struct clusters *clusters,
                          const struct paths *paths, struct topo_gap *gap)
{
    uint32_t *a_node = malloc(graph->switches * sizeof *a_node);
    emu_ports *sets = malloc((size_t)graph->switches * clusters->count * sizeof *sets);
    int err = -ENOMEM;

    if (a_node && sets) {
        for (uint32_t s = 0; s < graph->switches; s++)
            a_node[s] = node_at(graph, s);
        for (uint32_t c = 0; c < clusters->count; c++) {
            topo_paths_find(paths, graph, &clusters->at[c], sets + c, clusters->count);
            note_hops(graph, paths, clusters, c, a_node, gap);
        }
        err = tables_make(graph, clusters, paths, sets);
    }
    free(a_node);
    free(sets);
    return err;
}

/* Return the number of different switches in paths->cable[from..to). */
static uint32_t count_switches(const struct paths *paths, uint32_t from, uint32_t to)
{
    uint32_t count = 0;

    for (uint32_t i = from; i < to; i++) {
        uint32_t j = from;

        while (paths->cable[j].sw != paths->cable[i].sw)
            j++;
        count += j == i;
    }
    return count;
}

static void note_spreads(struct topo_graph *graph, const struct paths *paths)
{
    for (uint32_t s = 0; s < graph->switches; s++)
        graph->sw[s].route.spread = 1;
    for (uint32_t i = 0; i < graph->switches; i++) {
        uint32_t s = paths->order[i], up = paths->first[2 * s + 1], end = paths->first[2 * s + 2];
        uint64_t above = (uint64_t)graph->sw[s].route.spread * count_switches(paths, up, end);

        for (uint32_t j = up; j < end; j++) {
            uint32_t *spread = &graph->sw[paths->cable[j].sw].route.spread;

            if (above > *spread)
                *spread = above < TOPO_NODES_MAX ? (uint32_t)above : TOPO_NODES_MAX;
        }
    }
}

static int find_paths(struct paths *ret, struct topo_graph *graph)
{
    uint32_t *level = malloc(graph->switches * sizeof *level);
    int err = -ENOMEM;

    if (!level)
        return err;
    graph->levels = 0;
    for (uint32_t s = 0; s < graph->switches; s++) {
        level[s] = graph->sw[s].level;
        if (level[s] >= graph->levels)
            graph->levels = level[s] + 1;
    }
    err = topo_paths_new(ret, graph, level);
    free(level);
    return err;
}

int topo_route_graph(struct topo_graph *graph, struct topo_gap *gap, const char **why)
{
    struct clusters clusters;
    struct paths paths;
    int err;

    *why = "not enough memory";
    *gap = (struct topo_gap){0};
    graph->longest = 0;
    err = clusters_find(&clusters, graph);
    if (err)
        return err;
    if ((uint64_t)graph->switches * clusters.count > TOPO_ROUTES_MAX) {
        *why = "too large: the number of switches times the number of clusters is at "
               "most " TEXT(TOPO_ROUTES_MAX) " (a cluster: all nodes with the same switches)";
        err = -E2BIG;
        goto free_clusters;
    }
    err = find_paths(&paths, graph);
    if (err)
        goto free_clusters;
    err = route_clusters(graph, &clusters, &paths, gap);
    if (err == -E2BIG)
        *why = "too irregular: a switch has more than 32000 different sets of output ports";
    note_spreads(graph, &paths);
    topo_paths_free(&paths);

free_clusters:
    clusters_free(&clusters);
    return err;
}
