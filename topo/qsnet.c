/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qsnet.c - networks of QsNet III, from 2 to 16384 nodes.
 *
 * A router, which is one switch of the graph, has 32 ports. A chassis for nodes has two stages: 8
 * lower routers with 16 links to nodes each, and 8 upper routers with 16 links out of the chassis
 * each. Its backplane has two links between each lower and each upper router. N such chassis need
 * 128 top switches of N ports. Link j of every chassis goes to top switch j:
 *
 *   N = 1        no top switches. Up to 32 links to nodes need only one router and no chassis.
 *   N = 2        no top switches: link j goes to link j of the other chassis.
 *   3 to 32      one router contains 32 / N top switches, for example 6 of 5 ports or 3 of 10. The
 *                router has one link to a given chassis for each top switch in it. Routing may
 *                choose any of these ports.
 *   33 to 128    a chassis like those for nodes contains 2 top switches of 64 ports, or one of 128.
 *
 * Routers that would have no cable are omitted. Source: QsNet III §V, Table I, Figures 3 to 5.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "topo/graph.h"

#define RADIX 32
#define HALF  16 /* ports of a router in each of the two directions */
#define STAGE 8  /* routers of a stage of a chassis */
#define PAIR  2  /* links between a lower and an upper router of the same chassis */
/* a chassis has this many links to nodes, and as many out of it; the paper uses this name */
#define M           128
#define CHASSIS_MAX 128
#define CARDS       8 /* number of routers in one chassis, if these routers contain top switches */

#define WANT                                                                           \
    "want qsnet:N with N from 2 to 16384 nodes, then any of links=1|2|4, rails=1..4, " \
    "apart=router|chassis, tops=1..128; for example qsnet:1024,links=2"

enum apart { APART_NOT, APART_ROUTER, APART_CHASSIS };

struct qsnet {
    uint32_t nodes;
    uint32_t links; /* links of a node to each network */
    uint32_t rails; /* number of networks */
    uint32_t tops;  /* number of top switches: M, or fewer if the network is oversubscribed */
    enum apart apart;

    uint32_t chassis;
    uint32_t lowers; /* lower routers, which have nodes, per network */
    /* lower routers of the last chassis; APART_CHASSIS: of each of the last `links` chassis */
    uint32_t last_lowers;
    bool has_uppers;
    /* number of top switches that one router contains; 0 if chassis contain them, or none exist */
    uint32_t per_router;
    /* number of top switches that one chassis contains; 0 if routers contain them, or none exist */
    uint32_t per_chassis;
    uint32_t top_lowers; /* lower routers of a top switch that is a chassis or half a chassis */
    uint32_t switches;   /* switches per network */
};

/* One network under construction. The numbers belong to its first switch of each kind. */
struct rail {
    struct topo_graph *graph;
    const struct qsnet *q;
    uint32_t lower;
    uint32_t upper;
    uint32_t top;
    uint32_t top_upper;
};

static int qsnet_options(struct qsnet *q, const char *at)
{
    *q = (struct qsnet){.links = 1, .rails = 1, .tops = M};
    if (!topo_scan_number(&at, &q->nodes))
        return -EINVAL;
    while (*at) {
        bool right;

        if (topo_scan_word(&at, ",links="))
            right = topo_scan_number(&at, &q->links);
        else if (topo_scan_word(&at, ",rails="))
            right = topo_scan_number(&at, &q->rails);
        else if (topo_scan_word(&at, ",tops="))
            right = topo_scan_number(&at, &q->tops);
        else if ((right = topo_scan_word(&at, ",apart=router")))
            q->apart = APART_ROUTER;
        else if ((right = topo_scan_word(&at, ",apart=chassis")))
            q->apart = APART_CHASSIS;
        if (!right)
            return -EINVAL;
    }
    return 0;
}

static const char *qsnet_wrong(const struct qsnet *q)
{
    if (q->nodes < 2 || q->nodes > M * CHASSIS_MAX)
        return WANT;
    if (q->links != 1 && q->links != 2 && q->links != 4)
        return "links must be 1, 2 or 4: a router's 16 links to nodes are divided evenly";
    if (q->rails < 1 || q->rails > TOPO_NODE_LINKS_MAX || q->links * q->rails > TOPO_NODE_LINKS_MAX)
        return "a node has at most 4 links in all: links times rails";
    if (q->apart && q->links == 1)
        return "apart needs several links into one network: add links=2";
    if (q->tops < 1 || q->tops > M)
        return "tops must be 1 to 128: 128 top switches give full bandwidth, 64 give half of it";
    if (q->nodes * q->links > M * CHASSIS_MAX)
        return "too large: nodes times links must be at most 16384, because a network has at most "
               "128 chassis with 128 links to nodes each";
    return NULL;
}

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/*
 * Size the lower stage. With APART_CHASSIS, each link of a node leads to a different chassis. The
 * chassis to which the same nodes are connected are called a *row*. Otherwise, a row is one
 * chassis.
 */
static void qsnet_lower(struct qsnet *q)
{
    uint32_t in_row = q->apart == APART_CHASSIS ? q->links : 1;
    uint32_t per_row = M * in_row / q->links; /* nodes in a row */
    uint32_t rows = divide_up(q->nodes, per_row);
    uint32_t last = q->nodes - (rows - 1) * per_row;

    q->chassis = rows * in_row;
    if (q->apart == APART_ROUTER)
        q->last_lowers = divide_up(last, HALF) * q->links;
    else
        q->last_lowers = divide_up(last * q->links / in_row, HALF);
    if (q->chassis == 1 && q->apart == APART_NOT && q->nodes * q->links <= RADIX)
        q->last_lowers = 1; /* a single router, all of whose links lead to nodes */
    q->lowers = (rows - 1) * in_row * STAGE + in_row * q->last_lowers;
    q->has_uppers = q->lowers > 1;
}

static void qsnet_size(struct qsnet *q)
{
    qsnet_lower(q);
    q->switches = q->lowers + (q->has_uppers ? q->chassis * STAGE : 0);
    if (q->chassis > RADIX) {
        q->per_chassis = q->chassis > M / 2 ? 1 : 2;
        q->top_lowers = divide_up(q->chassis, HALF);
        q->switches += q->tops * q->top_lowers + divide_up(q->tops, q->per_chassis) * STAGE;
    } else if (q->chassis > 2) {
        q->per_router = RADIX / q->chassis;
        q->switches += divide_up(q->tops, q->per_router);
    }
}

static void set_level(const struct rail *rail, uint32_t from, uint32_t to, uint32_t level)
{
    for (uint32_t s = from; s < to; s++)
        rail->graph->sw[s].level = level;
}

static void plug_link(const struct rail *rail, uint32_t n, uint32_t link)
{
    const struct qsnet *q = rail->q;
    uint32_t port = n * q->links + link; /* number of the port among all ports to nodes */
    uint32_t lower = port / HALF;

    if (!q->has_uppers)
        lower = 0;
    else if (q->apart == APART_ROUTER) {
        lower = n / HALF * q->links + link;
        port = n;
    } else if (q->apart == APART_CHASSIS) {
        uint32_t row = n / M;
        uint32_t rows = q->chassis / q->links;
        uint32_t in_each = row + 1 < rows ? STAGE : q->last_lowers;

        lower = row * q->links * STAGE + link * in_each + n % M / HALF;
        port = n;
    }
    topo_plug_node(rail->graph, n, rail->lower + lower, port % (q->has_uppers ? HALF : RADIX));
}

static uint32_t lowers_of(const struct qsnet *q, uint32_t c)
{
    uint32_t in_row = q->apart == APART_CHASSIS ? q->links : 1;

    return c + in_row < q->chassis ? STAGE : q->last_lowers;
}

/* Connect @lowers lower routers to STAGE upper routers. @lower, @upper: the first ones. */
static void plug_backplane(struct rail *rail, uint32_t lower, uint32_t lowers, uint32_t upper)
{
    for (uint32_t l = 0; l < lowers; l++)
        for (uint32_t u = 0; u < STAGE; u++)
            for (uint32_t k = 0; k < PAIR; k++)
                topo_plug_cable(rail->graph, lower + l, HALF + PAIR * u + k, upper + u,
                                PAIR * l + k);
    rail->graph->parts.backplane += lowers * STAGE * PAIR;
}

/* Return where link @j out of chassis @c begins. The upper routers share these links evenly. */
static struct topo_at link_out(const struct rail *rail, uint32_t c, uint32_t j)
{
    uint32_t u = j * STAGE / rail->q->tops;
    uint32_t first = divide_up(u * rail->q->tops, STAGE);

    return (struct topo_at){rail->upper + c * STAGE + u, HALF + j - first};
}

/* Return the router and port of top switch @j to which chassis @c is connected. */
static struct topo_at port_at_top(const struct rail *rail, uint32_t j, uint32_t c)
{
    const struct qsnet *q = rail->q;

    if (!q->per_chassis)
        return (struct topo_at){rail->top + j / q->per_router, j % q->per_router * q->chassis + c};
    return (struct topo_at){rail->top + j * q->top_lowers + c / HALF, c % HALF};
}

static void plug_out(struct rail *rail, uint32_t c)
{
    const struct qsnet *q = rail->q;

    for (uint32_t j = 0; j < q->tops; j++) {
        struct topo_at from = link_out(rail, c, j);
        struct topo_at to = q->chassis == 2 ? link_out(rail, 1, j) : port_at_top(rail, j, c);

        topo_plug_cable(rail->graph, from.sw, from.port, to.sw, to.port);
    }
    rail->graph->parts.top_cables += q->tops;
}

static void plug_top_chassis(struct rail *rail)
{
    const struct qsnet *q = rail->q;

    for (uint32_t x = 0; x * q->per_chassis < q->tops; x++) {
        uint32_t j = x * q->per_chassis;
        uint32_t here = j + q->per_chassis < q->tops ? q->per_chassis : q->tops - j;

        plug_backplane(rail, rail->top + j * q->top_lowers, here * q->top_lowers,
                       rail->top_upper + x * STAGE);
    }
}

static void qsnet_rail(struct topo_graph *graph, const struct qsnet *q, uint32_t r)
{
    struct rail rail = {.graph = graph, .q = q, .lower = r * q->switches};
    uint32_t end = rail.lower + q->switches;
    uint32_t lower = rail.lower;

    rail.upper = rail.lower + q->lowers;
    rail.top = rail.upper + (q->has_uppers ? q->chassis * STAGE : 0);
    rail.top_upper = q->per_chassis ? rail.top + q->tops * q->top_lowers : end;
    set_level(&rail, rail.upper, rail.top, 1);
    set_level(&rail, rail.top, rail.top_upper, 2);
    set_level(&rail, rail.top_upper, end, 3);

    for (uint32_t n = 0; n < q->nodes; n++)
        for (uint32_t link = 0; link < q->links; link++)
            plug_link(&rail, n, link);
    for (uint32_t c = 0; q->has_uppers && c < q->chassis; c++) {
        plug_backplane(&rail, lower, lowers_of(q, c), rail.upper + c * STAGE);
        lower += lowers_of(q, c);
    }
    for (uint32_t c = 0; q->chassis > 2 && c < q->chassis; c++)
        plug_out(&rail, c);
    if (q->chassis == 2) { /* one of the two chassis serves as the top */
        set_level(&rail, rail.upper + STAGE, rail.top, 2);
        plug_out(&rail, 0);
    }
    if (q->per_chassis)
        plug_top_chassis(&rail);
}

static void qsnet_parts(struct topo_parts *parts, const struct qsnet *q)
{
    parts->node_chassis = q->chassis * q->rails;
    if (q->chassis > 2)
        parts->top_switches = q->tops * q->rails;
    if (q->per_chassis)
        parts->top_chassis = divide_up(q->tops, q->per_chassis) * q->rails;
    else if (q->per_router)
        parts->top_chassis = divide_up(divide_up(q->tops, q->per_router), CARDS) * q->rails;
}

static void qsnet_name(char *spec, size_t bytes, const struct qsnet *q)
{
    static const char *const aparts[] = {"", ",apart=router", ",apart=chassis"};
    char links[24] = "", rails[24] = "", tops[24] = "";

    if (q->links > 1)
        snprintf(links, sizeof links, ",links=%u", q->links);
    if (q->rails > 1)
        snprintf(rails, sizeof rails, ",rails=%u", q->rails);
    if (q->tops < M)
        snprintf(tops, sizeof tops, ",tops=%u", q->tops);
    snprintf(spec, bytes, "qsnet:%u%s%s%s%s", q->nodes, links, aparts[q->apart], rails, tops);
}

int topo_qsnet(struct topo_graph **ret, const char *args, char *why, size_t why_bytes)
{
    struct qsnet q;
    const char *wrong = qsnet_options(&q, args) ? WANT : qsnet_wrong(&q);

    if (!wrong) {
        qsnet_size(&q);
        if (q.chassis > CHASSIS_MAX)
            wrong = "too large: it needs more than 128 chassis";
        else if (q.chassis == 1 && q.tops < M)
            wrong = "tops is for networks of several chassis: this one has no top switches";
    }
    if (wrong) {
        snprintf(why, why_bytes, "%s", wrong);
        return -EINVAL;
    }
    const struct topo_size size = {.nodes = q.nodes,
                                   .switches = q.switches * q.rails,
                                   .ports = RADIX};
    struct topo_graph *graph = topo_graph_new(&size, NULL);

    if (graph) {
        qsnet_name(graph->spec, sizeof graph->spec, &q);
        qsnet_parts(&graph->parts, &q);
        for (uint32_t r = 0; r < q.rails; r++)
            qsnet_rail(graph, &q, r);
    }
    return topo_build(ret, graph, why, why_bytes);
}
