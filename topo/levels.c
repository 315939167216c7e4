/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * levels.c - find which direction is up in a network whose file does not give the levels.
 *
 * Four guesses are compared. A guess gives each switch a *height*; of two switches of equal height,
 * the switch with the larger number counts as higher. Levels are then counted from the lowest
 * switches up, so that a cable never joins equal levels. The best guess leaves the fewest pairs
 * without a route. If several guesses leave equally few, the best of these has the smallest sum of
 * distances. If that is equal, too, the best one has the most candidate ports.
 *
 * 1. The height is the distance from switches with many nodes (leaves). A spine with a few nodes
 *    (often service nodes) does not count as a leaf.
 * 2. As guess 1, but the heights of one leaf and of all switches above it are inverted, so that
 *    this leaf is at the top. Then nodes on different spines have routes, too, and no path is
 *    longer than in guess 1.
 * 3. The height is the distance from any switch with nodes.
 * 4. The nearer a switch is to a central switch, the higher it is. This gives routes between all
 *    switches that cables connect.
 *
 * Source: Schroeder et al., Autonet, for guess 4 and numbers as a tie-break.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "topo/route.h"

#define MANY_SHARE  4  /* many nodes: at least a quarter of the largest number at a switch */
#define LEAVES_SEEN 64 /* leaves that are tried for inversion */

/* Quality of the routes that a guess gives. */
struct quality {
    /* pairs of a switch with nodes and a cluster (route.h) that have no route */
    uint64_t unreachable;
    uint64_t hops;    /* sum of the distances of all other pairs */
    uint64_t choices; /* sum over all pairs of the number of candidate ports at the switch */
    bool flat;        /* some cable joins switches of equal height */
};

struct guess {
    const struct topo_graph *graph;
    const struct clusters *clusters;
    uint32_t *nodes;  /* by switch: number of links of nodes */
    uint32_t *height; /* by switch: the guess */
    uint32_t *level;  /* by switch: the resulting level */
    uint32_t *queue;
    emu_ports *sets;
};

/*
 * Set height[] by a breadth-first search from the first @count switches of the queue, whose heights
 * are set; all other heights must be TOPO_NONE. Returns the number of switches in the queue, which
 * then has all switches that were reached.
 */
static uint32_t spread(struct guess *g, uint32_t *height, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = g->queue[i];

        for (uint32_t port = 0; port < g->graph->ports; port++) {
            const struct topo_end *end = &g->graph->sw[s].end[port];

            if (end->kind != TOPO_END_SWITCH || height[end->id] != TOPO_NONE)
                continue;
            height[end->id] = height[s] + 1;
            g->queue[count++] = end->id;
        }
    }
    return count;
}

/* Make guess 1 or 3: heights are distances from the switches with @least nodes or more. */
static void guess_distance(struct guess *g, uint32_t least)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < g->graph->switches; s++) {
        g->height[s] = g->nodes[s] >= least ? 0 : TOPO_NONE;
        if (!g->height[s])
            g->queue[count++] = s;
    }
    spread(g, g->height, count);
    for (uint32_t s = 0; s < g->graph->switches; s++)
        if (g->height[s] == TOPO_NONE)
            g->height[s] = 0; /* not connected to a switch with so many nodes */
}

/* Put @from and all switches above it into the queue. Returns their number. */
static uint32_t above(struct guess *g, uint32_t from)
{
    uint32_t *seen = g->level; /* level[] is unused until levels are counted */
    uint32_t count = 0;

    memset(seen, 0, g->graph->switches * sizeof *seen);
    seen[from] = 1;
    g->queue[count++] = from;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t port = 0; port < g->graph->ports; port++) {
            const struct topo_end *end = &g->graph->sw[g->queue[i]].end[port];

            if (end->kind != TOPO_END_SWITCH || seen[end->id] ||
                g->height[end->id] <= g->height[g->queue[i]])
                continue;
            seen[end->id] = 1;
            g->queue[count++] = end->id;
        }
    return count;
}

/* Make guess 2 for the leaf with the most switches above it: invert its and their heights. */
static void guess_inverted(struct guess *g, uint32_t least)
{
    uint32_t best = 0, best_count = 0, seen = 0, most = 0;

    guess_distance(g, least);
    for (uint32_t s = 0; s < g->graph->switches; s++) {
        most = g->height[s] > most ? g->height[s] : most;
        if (g->height[s] || seen++ >= LEAVES_SEEN)
            continue;
        uint32_t count = above(g, s);
        if (count > best_count) {
            best = s;
            best_count = count;
        }
    }
    best_count = above(g, best);
    for (uint32_t i = 0; i < best_count; i++)
        g->height[g->queue[i]] = 2 * most - g->height[g->queue[i]];
}

static uint32_t farthest(struct guess *g, uint32_t from)
{
    memset(g->level, 0xff, g->graph->switches * sizeof *g->level);
    g->level[from] = 0;
    g->queue[0] = from;
    return g->queue[spread(g, g->level, 1) - 1];
}

/* Return a switch half way along a longest path, which begins at the switch farthest from @from. */
static uint32_t middle(struct guess *g, uint32_t from)
{
    uint32_t end = farthest(g, farthest(g, from));

    for (uint32_t left = g->level[end] / 2; left; left--)
        for (uint32_t port = 0; port < g->graph->ports; port++) {
            const struct topo_end *back = &g->graph->sw[end].end[port];

            if (back->kind == TOPO_END_SWITCH && g->level[back->id] + 1 == g->level[end]) {
                end = back->id;
                break;
            }
        }
    return end;
}

/* Make guess 4. Each connected part of the network has its own central switch. */
static void guess_middle(struct guess *g)
{
    uint32_t switches = g->graph->switches;

    memset(g->height, 0xff, switches * sizeof *g->height);
    for (uint32_t s = 0; s < switches; s++) {
        if (g->height[s] != TOPO_NONE)
            continue;
        uint32_t root = middle(g, s);

        g->height[root] = 0;
        g->queue[0] = root;
        uint32_t count = spread(g, g->height, 1);
        for (uint32_t i = 0; i < count; i++)
            g->height[g->queue[i]] = switches - g->height[g->queue[i]];
    }
}

static bool is_above(const struct guess *g, uint32_t a, uint32_t b)
{
    return g->height[a] != g->height[b] ? g->height[a] > g->height[b] : a > b;
}

/*
 * Count levels from below: the level of a switch is one more than the highest level below it. A
 * switch is counted after all switches below it. @left: scratch space, by switch: ports down to
 * switches that were not counted yet. Returns quality.flat.
 */
static bool count_levels(struct guess *g, uint32_t *left)
{
    uint32_t count = 0;
    bool flat = false;

    for (uint32_t s = 0; s < g->graph->switches; s++) {
        left[s] = g->level[s] = 0;
        for (uint32_t port = 0; port < g->graph->ports; port++) {
            const struct topo_end *end = &g->graph->sw[s].end[port];

            if (end->kind != TOPO_END_SWITCH)
                continue;
            left[s] += is_above(g, s, end->id);
            flat = flat || g->height[s] == g->height[end->id];
        }
        if (!left[s])
            g->queue[count++] = s;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t s = g->queue[i];

        for (uint32_t port = 0; port < g->graph->ports; port++) {
            const struct topo_end *end = &g->graph->sw[s].end[port];

            if (end->kind != TOPO_END_SWITCH || !is_above(g, end->id, s))
                continue;
            if (g->level[end->id] <= g->level[s])
                g->level[end->id] = g->level[s] + 1;
            if (!--left[end->id])
                g->queue[count++] = end->id;
        }
    }
    return flat;
}

static int evaluate(struct guess *g, struct quality *quality)
{
    struct paths paths;
    int err;

    *quality = (struct quality){.flat = count_levels(g, g->queue + g->graph->switches)};
    err = topo_paths_new(&paths, g->graph, g->level);
    if (err)
        return err;
    for (uint32_t c = 0; c < g->clusters->count; c++) {
        topo_paths_find(&paths, g->graph, &g->clusters->at[c], g->sets, 1);
        for (uint32_t s = 0; s < g->graph->switches; s++) {
            if (!g->nodes[s])
                continue;
            if (paths.hops[s] == ROUTE_UNREACHABLE)
                quality->unreachable++;
            else
                quality->hops += paths.hops[s];
            quality->choices += emu_ports_count(g->sets[s]);
        }
    }
    topo_paths_free(&paths);
    return 0;
}

static bool is_better(const struct quality *a, const struct quality *b)
{
    if (a->unreachable != b->unreachable)
        return a->unreachable < b->unreachable;
    return a->hops != b->hops ? a->hops < b->hops : a->choices > b->choices;
}

/* Try the guesses. If guess 1 gives all routes and no cable joins equal heights, it is enough. */
static int guess_all(struct guess *g, uint32_t *best_level, enum topo_up *up)
{
    size_t bytes = g->graph->switches * sizeof *g->level;
    struct quality best = {0}, quality;
    uint32_t many = 0;

    for (uint32_t s = 0; s < g->graph->switches; s++)
        many = g->nodes[s] > many ? g->nodes[s] : many;
    many = (many + MANY_SHARE - 1) / MANY_SHARE;
    for (enum topo_up guess = TOPO_UP_DISTANCE; guess <= TOPO_UP_MIDDLE; guess++) {
        if (guess == TOPO_UP_TURNED)
            guess_inverted(g, many);
        else if (guess == TOPO_UP_MIDDLE)
            guess_middle(g);
        else
            guess_distance(g, guess == TOPO_UP_ANY ? 1 : many);
        int err = evaluate(g, &quality);
        if (err)
            return err;
        if (guess == TOPO_UP_DISTANCE || is_better(&quality, &best)) {
            best = quality;
            *up = guess;
            memcpy(best_level, g->level, bytes);
        }
        if (guess == TOPO_UP_DISTANCE && !quality.unreachable && !quality.flat)
            break;
    }
    return 0;
}

static void count_nodes(struct guess *g)
{
    for (uint32_t n = 0; n < g->graph->nodes; n++)
        for (uint32_t i = 0; i < g->graph->node[n].links; i++)
            g->nodes[g->graph->node[n].link[i].sw]++;
}

static const struct {
    const char *name, *text;
} up_names[] = {
    [TOPO_UP_KNOWN] = {"known", "as the file says"},
    [TOPO_UP_DISTANCE] = {"distance", "away from the switches with many nodes"},
    [TOPO_UP_TURNED] = {"turned",
                        "away from the switches with many nodes, except one, which is at the top"},
    [TOPO_UP_ANY] = {"any", "away from all nodes"},
    [TOPO_UP_MIDDLE] = {"middle", "towards one switch in the middle"},
};

const char *topo_up_name(enum topo_up up)
{
    return up_names[up].name;
}

const char *topo_up_text(enum topo_up up)
{
    return up_names[up].text;
}

int topo_find_levels(struct topo_graph *graph)
{
    uint32_t switches = graph->switches;
    struct clusters clusters;
    struct guess g = {.graph = graph, .clusters = &clusters};
    int err = clusters_find(&clusters, graph);

    if (err)
        return err;
    if ((uint64_t)switches * clusters.count > TOPO_ROUTES_MAX) {
        clusters_free(&clusters); /* topo_route_graph() will fail for the same reason */
        return 0;
    }
    err = -ENOMEM;
    g.nodes = calloc(switches, sizeof *g.nodes);
    g.height = malloc(switches * sizeof *g.height);
    g.level = malloc(switches * sizeof *g.level);
    g.queue = malloc(2 * (size_t)switches * sizeof *g.queue);
    g.sets = malloc(switches * sizeof *g.sets);
    uint32_t *best = malloc(switches * sizeof *best);
    if (g.nodes && g.height && g.level && g.queue && g.sets && best) {
        count_nodes(&g);
        err = guess_all(&g, best, &graph->up);
    }
    for (uint32_t s = 0; !err && s < switches; s++)
        graph->sw[s].level = best[s];
    free(best);
    free(g.sets);
    free(g.queue);
    free(g.level);
    free(g.height);
    free(g.nodes);
    clusters_free(&clusters);
    return err;
}
