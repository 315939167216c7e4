/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cut.c - assign switches to hosts.
 *
 * The first assignment follows the order of the switches that partition.c makes. Each host in turn
 * gets switches with nodes until it has its share of the nodes. A switch without nodes goes to the
 * host of the switch before it. For a tree whose switches are numbered along its branches this is
 * optimal. In other networks the numbers may say nothing about locality. So a second assignment
 * uses an order that follows the cables, unless there are more than CUT_GROWN switches.
 *
 * Each of the two assignments is improved by exchanges: two switches with equally many nodes swap
 * their hosts, or a switch without nodes moves to another host. An exchange is kept if then fewer
 * cables connect different hosts, or if equally many cables are spread more evenly over the pairs
 * of hosts. The better result is taken.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/graph.h"

#define CUT_ROUNDS 16u  /* limit of rounds of exchanges */
#define CUT_EVEN   256u /* with more switches, exchanges are tried only if they reduce `crossing` */
#define CUT_GROWN  4096u /* with more switches, no second order is built */

struct cut {
    const struct topo_graph *graph;
    uint32_t hosts;
    uint64_t shares; /* sum of the shares of all hosts */
    uint32_t *order;
    uint32_t *nodes;        /* by switch: number of its nodes */
    uint32_t *begin;        /* by switch: index of its first neighbour in remote[] */
    uint32_t *remote;       /* neighbours of all switches, one per cable */
    uint32_t *to;           /* by switch and host: number of cables from the switch to the host */
    uint32_t *between;      /* by pair of hosts, in both orders: number of cables */
    uint32_t *has;          /* by host: number of its switches */
    uint32_t *least, *most; /* by host: limits of the number of its switches */
    uint32_t *host_of;
    uint64_t crossing; /* number of cables between different hosts */
    uint64_t uneven;   /* sum of squares of between[] */
};

/* --- neighbours --------------------------------------------------------------------- */

/*
 * Return the neighbour of switch @s at a port, or TOPO_NONE. A node is on the host of the switch at
 * its first link. So the node's other cables count as cables to that switch.
 */
static uint32_t cut_remote(const struct topo_graph *graph, uint32_t s, uint32_t port)
{
    const struct topo_end *end = &graph->sw[s].end[port];
    uint32_t remote = TOPO_NONE;

    if (end->kind == TOPO_END_SWITCH)
        remote = end->id;
    else if (end->kind == TOPO_END_NODE)
        remote = topo_first_link(graph, end->id)->sw;
    return remote == s ? TOPO_NONE : remote;
}

uint32_t topo_cut_cables(const struct topo_graph *graph, const uint32_t *host_of, uint32_t hosts,
                         uint32_t *between)
{
    uint32_t count = 0;

    for (uint32_t i = 0; between && i < hosts * hosts; i++)
        between[i] = 0;
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t p = 0; p < graph->ports; p++) {
            uint32_t remote = cut_remote(graph, s, p);
            bool node = graph->sw[s].end[p].kind == TOPO_END_NODE;

            if (remote == TOPO_NONE || host_of[s] == host_of[remote] || (!node && remote < s))
                continue; /* count a cable between switches once */
            count++;
            if (!between)
                continue;
            between[host_of[s] * hosts + host_of[remote]]++;
            between[host_of[remote] * hosts + host_of[s]]++;
        }
    return count;
}

/* Call @fn for both directions of each cable whose ends may be on different hosts. */
static void cut_each_remote(const struct cut *c,
                            void (*fn)(const struct cut *c, uint32_t, uint32_t))
{
    for (uint32_t s = 0; s < c->graph->switches; s++)
        for (uint32_t p = 0; p < c->graph->ports; p++) {
            uint32_t remote = cut_remote(c->graph, s, p);

            if (remote == TOPO_NONE)
                continue;
            fn(c, s, remote);
            if (c->graph->sw[s].end[p].kind == TOPO_END_NODE)
                fn(c, remote, s);
        }
}

static void cut_count(const struct cut *c, uint32_t s, uint32_t remote)
{
    (void)remote;
    c->begin[s + 1]++;
}

/* The calls for switch @s advance begin[s] to the beginning of the next switch's list. */
static void cut_list(const struct cut *c, uint32_t s, uint32_t remote)
{
    c->remote[c->begin[s]++] = remote;
}

static int cut_neighbours(struct cut *c)
{
    const struct topo_graph *graph = c->graph;

    cut_each_remote(c, cut_count);
    for (uint32_t s = 0; s < graph->switches; s++)
        c->begin[s + 1] += c->begin[s];
    c->remote = malloc((c->begin[graph->switches] + 1u) * sizeof *c->remote);
    if (!c->remote)
        return -ENOMEM;
    cut_each_remote(c, cut_list);
    for (uint32_t s = graph->switches; s; s--)
        c->begin[s] = c->begin[s - 1];
    c->begin[0] = 0;
    for (uint32_t n = 0; n < graph->nodes; n++)
        c->nodes[topo_first_link(graph, n)->sw]++;
    return 0;
}

/* --- the first assignment ----------------------------------------------------------- */

/* Assign the switches with nodes. */
static void cut_leaves(const struct cut *c, const uint32_t *share)
{
    uint32_t left = 0, host = 0;
    uint64_t nodes = 0, shares = share ? share[0] : 1;

    for (uint32_t s = 0; s < c->graph->switches; s++)
        left += c->nodes[s] > 0;
    for (uint32_t i = 0; i < c->graph->switches; i++) {
        uint32_t s = c->order[i];
        uint64_t with = nodes + c->nodes[s], want;

        if (!c->nodes[s])
            continue;
        c->host_of[s] = host;
        nodes = with;
        left--;
        if (host + 1 == c->hosts)
            continue;
        /* continue with this host if the next switch brings it nearer to its share, and if enough
         * switches remain for the other hosts */
        want = c->graph->nodes * shares;
        with = 0;
        for (uint32_t next = i + 1; !with && next < c->graph->switches; next++)
            with = c->nodes[c->order[next]];
        if (left >= c->hosts - host && (2 * nodes + with) * c->shares <= 2 * want)
            continue;
        host++;
        shares += share ? share[host] : 1;
    }
}

static void cut_others(const struct cut *c)
{
    uint32_t host = 0;

    for (uint32_t i = 0; i < c->graph->switches; i++) {
        uint32_t s = c->order[i];

        if (c->nodes[s])
            host = c->host_of[s];
        else
            c->host_of[s] = host;
    }
}

static void cut_bounds(const struct cut *c, const uint32_t *share)
{
    for (uint32_t h = 0; h < c->hosts; h++) {
        uint64_t ideal = (uint64_t)c->graph->switches * (share ? share[h] : 1);
        uint32_t least = (uint32_t)(ideal / c->shares);

        c->least[h] = least > 2 ? least - 1 : 1;
        c->most[h] = (uint32_t)((ideal + c->shares - 1) / c->shares) + 1;
    }
}

static void cut_count_all(struct cut *c)
{
    memset(c->has, 0, c->hosts * sizeof *c->has);
    memset(c->to, 0, (size_t)c->graph->switches * c->hosts * sizeof *c->to);
    c->uneven = 0;
    for (uint32_t s = 0; s < c->graph->switches; s++) {
        c->has[c->host_of[s]]++;
        for (uint32_t i = c->begin[s]; i < c->begin[s + 1]; i++)
            c->to[(size_t)s * c->hosts + c->host_of[c->remote[i]]]++;
    }
    c->crossing = topo_cut_cables(c->graph, c->host_of, c->hosts, c->between);
    for (uint32_t i = 0; i < c->hosts * c->hosts; i++)
        c->uneven += (uint64_t)c->between[i] * c->between[i];
}

/* --- exchanges ---------------------------------------------------------------------- */

/* Add a cable between two hosts (@more: 1), or remove one (-1). */
static void cut_between(struct cut *c, uint32_t a, uint32_t b, int more)
{
    uint32_t *one = &c->between[a * c->hosts + b], *other = &c->between[b * c->hosts + a];

    if (a == b)
        return;
    c->uneven -= 2 * (uint64_t)*one * *one;
    *one += (uint32_t)more;
    *other = *one;
    c->uneven += 2 * (uint64_t)*one * *one;
    c->crossing += (uint64_t)(int64_t)more;
}

static void cut_move(struct cut *c, uint32_t s, uint32_t host)
{
    uint32_t from = c->host_of[s];

    for (uint32_t i = c->begin[s]; i < c->begin[s + 1]; i++) {
        uint32_t remote = c->remote[i];

        cut_between(c, from, c->host_of[remote], -1);
        cut_between(c, host, c->host_of[remote], 1);
        c->to[(size_t)remote * c->hosts + from]--;
        c->to[(size_t)remote * c->hosts + host]++;
    }
    c->has[from]--;
    c->has[host]++;
    c->host_of[s] = host;
}

/* Return how many fewer cables cross if @s moves to @host. */
static int64_t cut_gain(const struct cut *c, uint32_t s, uint32_t host)
{
    const uint32_t *to = &c->to[(size_t)s * c->hosts];

    return (int64_t)to[host] - to[c->host_of[s]];
}

/* Return whether @c is better than an assignment with these values of `crossing` and `uneven`. */
static bool cut_is_better(const struct cut *c, uint64_t crossing, uint64_t uneven)
{
    return c->crossing < crossing || (c->crossing == crossing && c->uneven < uneven);
}

static bool cut_may_gain(const struct cut *c, int64_t gain)
{
    return gain > 0 || (gain == 0 && c->graph->switches <= CUT_EVEN);
}

/* Move switch @s to another host if that is better and the switch has no nodes. */
static bool cut_try_move(struct cut *c, uint32_t s)
{
    uint64_t crossing = c->crossing, uneven = c->uneven;
    uint32_t from = c->host_of[s];

    if (c->nodes[s] || c->has[from] <= c->least[from])
        return false;
    for (uint32_t h = 0; h < c->hosts; h++) {
        if (h == from || c->has[h] >= c->most[h] || !cut_may_gain(c, cut_gain(c, s, h)))
            continue;
        cut_move(c, s, h);
        if (cut_is_better(c, crossing, uneven))
            return true;
        cut_move(c, s, from);
    }
    return false;
}

/* Swap the hosts of @a and @b if that is better and they have equally many nodes. */
static bool cut_try_swap(struct cut *c, uint32_t a, uint32_t b)
{
    uint64_t crossing = c->crossing, uneven = c->uneven;
    uint32_t at_a = c->host_of[a], at_b = c->host_of[b];

    if (at_a == at_b || c->nodes[a] != c->nodes[b] ||
        !cut_may_gain(c, cut_gain(c, a, at_b) + cut_gain(c, b, at_a)))
        return false;
    cut_move(c, a, at_b);
    cut_move(c, b, at_a);
    if (cut_is_better(c, crossing, uneven))
        return true;
    cut_move(c, b, at_b);
    cut_move(c, a, at_a);
    return false;
}

static bool cut_may_leave(const struct cut *c, uint32_t s)
{
    if (c->graph->switches <= CUT_EVEN)
        return true;
    for (uint32_t h = 0; h < c->hosts; h++)
        if (cut_gain(c, s, h) > 0)
            return true;
    return false;
}

static void cut_improve(struct cut *c)
{
    bool better = true;

    for (uint32_t round = 0; better && round < CUT_ROUNDS; round++) {
        better = false;
        for (uint32_t s = 0; s < c->graph->switches; s++) {
            if (!cut_may_leave(c, s))
                continue;
            better |= cut_try_move(c, s);
            for (uint32_t t = 0; t < c->graph->switches; t++)
                better |= cut_try_swap(c, s, t);
        }
    }
}

/* --- balance of switches ------------------------------------------------------------ */

/* Return the switch without nodes whose move from host @from to @to is best, or TOPO_NONE. */
static uint32_t cut_cheapest(const struct cut *c, uint32_t from, uint32_t to)
{
    uint32_t best = TOPO_NONE;

    for (uint32_t s = 0; s < c->graph->switches; s++)
        if (c->host_of[s] == from && !c->nodes[s] &&
            (best == TOPO_NONE || cut_gain(c, s, to) > cut_gain(c, best, to)))
            best = s;
    return best;
}

static int64_t cut_above(const struct cut *c, uint32_t h, const uint32_t *bound)
{
    return (int64_t)c->has[h] - bound[h];
}

/*
 * Find the host with the fewest switches compared with its `least`. If it has fewer than `least`,
 * move a switch without nodes to it from a host with more than `least`. Otherwise, if it has fewer
 * than `most`, move one from a host with more than `most`. Returns false if none was moved.
 */
static bool cut_balance(struct cut *c)
{
    uint32_t poor = 0;
    int64_t most = 0;
    uint32_t best = TOPO_NONE;
    bool needed;

    for (uint32_t h = 1; h < c->hosts; h++)
        if (cut_above(c, h, c->least) < cut_above(c, poor, c->least))
            poor = h;
    needed = cut_above(c, poor, c->least) < 0;
    if (!needed && cut_above(c, poor, c->most) >= 0)
        return false;
    for (uint32_t h = 0; h < c->hosts; h++) {
        int64_t above = cut_above(c, h, needed ? c->least : c->most);
        uint32_t s = h != poor && above > most ? cut_cheapest(c, h, poor) : TOPO_NONE;

        if (s == TOPO_NONE)
            continue;
        most = above;
        best = s;
    }
    if (best != TOPO_NONE)
        cut_move(c, best, poor);
    return best != TOPO_NONE;
}

/* --- an order along the cables ------------------------------------------------------ */

/*
 * Return whether @s is a better next switch of the order than @than: it has more cables to the
 * switches that are already in the order or, if the numbers are equal, it has a lower level.
 */
static bool cut_is_next(const struct cut *c, const uint32_t *cables, uint32_t s, uint32_t than)
{
    if (than == TOPO_NONE || cables[s] != cables[than])
        return than == TOPO_NONE || cables[s] > cables[than];
    return c->graph->sw[s].level < c->graph->sw[than].level;
}

/* Replace c->order by one that follows the cables. Errors: -ENOMEM. */
static int cut_grow(struct cut *c)
{
    uint32_t switches = c->graph->switches;
    uint32_t *cables = calloc(switches, sizeof *cables);
    bool *there = calloc(switches, sizeof *there);

    for (uint32_t i = 0; cables && there && i < switches; i++) {
        uint32_t next = TOPO_NONE;

        for (uint32_t s = 0; s < switches; s++)
            if (!there[s] && cut_is_next(c, cables, s, next))
                next = s;
        there[next] = true;
        c->order[i] = next;
        for (uint32_t e = c->begin[next]; e < c->begin[next + 1]; e++)
            cables[c->remote[e]]++;
    }
    bool failed = !cables || !there;
    free(cables);
    free(there);
    return failed ? -ENOMEM : 0;
}

/* --- the whole search --------------------------------------------------------------- */

static int cut_alloc(struct cut *c)
{
    size_t switches = c->graph->switches;

    c->order = topo_order(c->graph);
    c->host_of = malloc(switches * sizeof *c->host_of);
    c->nodes = calloc(switches, sizeof *c->nodes);
    c->begin = calloc(switches + 1, sizeof *c->begin);
    c->to = calloc(switches * c->hosts, sizeof *c->to);
    c->between = calloc((size_t)c->hosts * c->hosts, sizeof *c->between);
    c->has = calloc(c->hosts, sizeof *c->has);
    c->least = calloc(c->hosts, sizeof *c->least);
    c->most = calloc(c->hosts, sizeof *c->most);
    return c->order && c->host_of && c->nodes && c->begin && c->to && c->between && c->has &&
                   c->least && c->most
               ? cut_neighbours(c)
               : -ENOMEM;
}

static void cut_free(struct cut *c)
{
    free(c->order);
    free(c->host_of);
    free(c->nodes);
    free(c->begin);
    free(c->remote);
    free(c->to);
    free(c->between);
    free(c->has);
    free(c->least);
    free(c->most);
}

/* Assign the switches by the current order, then improve the assignment by exchanges. */
static void cut_search(struct cut *c, const uint32_t *share)
{
    cut_leaves(c, share);
    cut_others(c);
    cut_count_all(c);
    while (cut_balance(c))
        continue;
    cut_improve(c);
}

static int cut_refuse(const struct topo_graph *graph, uint32_t hosts, char *error,
                      size_t error_bytes)
{
    if (hosts > TOPO_HOSTS_MAX)
        snprintf(error, error_bytes, "%u hosts are too many: a fabric can have at most %d", hosts,
                 TOPO_HOSTS_MAX);
    else if (!hosts)
        snprintf(error, error_bytes, "no host is left for the network");
    else
        snprintf(error, error_bytes, "%u hosts are too many for %u switch%s: each must have one",
                 hosts, graph->switches, graph->switches == 1 ? "" : "es");
    return -EINVAL;
}

int topo_cut(const struct topo_graph *graph, uint32_t hosts, const uint32_t *share,
             uint32_t *host_of, char *error, size_t error_bytes)
{
    struct cut c = {.graph = graph, .hosts = hosts};
    size_t bytes = graph->switches * sizeof *host_of;
    uint64_t crossing = 0, uneven = 0;
    int err;

    if (!hosts || hosts > TOPO_HOSTS_MAX || hosts > graph->switches)
        return cut_refuse(graph, hosts, error, error_bytes);
    for (uint32_t h = 0; h < hosts; h++)
        c.shares += share ? share[h] : 1;
    err = cut_alloc(&c);
    if (!err) {
        cut_bounds(&c, share);
        cut_search(&c, share);
        memcpy(host_of, c.host_of, bytes);
        crossing = c.crossing;
        uneven = c.uneven;
    }
    if (!err && hosts > 1 && graph->switches <= CUT_GROWN) {
        err = cut_grow(&c);
        if (!err) {
            cut_search(&c, share);
            if (cut_is_better(&c, crossing, uneven))
                memcpy(host_of, c.host_of, bytes);
        }
    }
    cut_free(&c);
    if (err)
        snprintf(error, error_bytes, "out of memory");
    return err;
}
