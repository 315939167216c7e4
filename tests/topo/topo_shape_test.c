/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo_shape_test.c - networks of any shape: routes against their definition, deadlocks, missing
 * links.
 */
#include <errno.h>
#include <string.h>

#include "tests/test.h"
#include "tests/fixtures/graphs.h"

#define SWITCHES_MAX 40

/* A network under construction, as a topology file. */
struct net {
    uint32_t switches, nodes;
    uint32_t ports[SWITCHES_MAX];     /* ports in use, by switch */
    uint32_t links[SWITCHES_MAX * 8]; /* links in use, by node */
    char *text[SWITCHES_MAX];         /* lines of its cables, by switch */
};

static void net_line(struct net *net, uint32_t sw, const char *remote, uint32_t number,
                     uint32_t remote_port)
{
    char line[64];

    snprintf(line, sizeof line, "[%u] \"%s%u\"[%u]\n", net->ports[sw] + 1, remote, number,
             remote_port);
    net->text[sw] = realloc(net->text[sw], (net->text[sw] ? strlen(net->text[sw]) : 0) + 64);
    if (!net->ports[sw]++)
        net->text[sw][0] = '\0';
    strcat(net->text[sw], line);
}

static void net_cable(struct net *net, uint32_t a, uint32_t b)
{
    uint32_t a_port = net->ports[a] + 1;

    net_line(net, a, "S", b, net->ports[b] + 1);
    net_line(net, b, "S", a, a_port);
}

static void net_node(struct net *net, uint32_t node, uint32_t sw)
{
    net_line(net, sw, "H", node, ++net->links[node]);
    if (node >= net->nodes)
        net->nodes = node + 1;
}

/* The topology file; @level: of each switch, or NULL. */
static char *net_text(const struct net *net, const uint32_t *level)
{
    char *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    for (uint32_t s = 0; s < net->switches; s++) {
        if (level)
            fprintf(to, "level=%u\n", level[s]);
        fprintf(to, "Switch %u \"S%u\"\n%s\n", net->ports[s] ? net->ports[s] : 1, s,
                net->text[s] ? net->text[s] : "");
    }
    for (uint32_t n = 0; n < net->nodes; n++)
        fprintf(to, "Ca %u \"H%u\"\n", net->links[n], n);
    fclose(to);
    return text;
}

static int net_read(struct topo_graph **ret, const struct net *net, const uint32_t *level,
                    char *error, size_t error_bytes)
{
    char *text = net_text(net, level);
    int err = topo_read(ret, "net", text, strlen(text), error, error_bytes);

    free(text);
    return err;
}

static void net_free(struct net *net)
{
    for (uint32_t s = 0; s < net->switches; s++)
        free(net->text[s]);
}

static struct topo_graph *net_graph(const struct net *net, const uint32_t *level)
{
    struct topo_graph *graph = NULL;
    char error[1280];

    if (net_read(&graph, net, level, error, sizeof error)) {
        printf("%s\n", error);
        CU_FAIL_FATAL("a good network was refused");
    }
    return graph;
}

/* A random connected network with nodes anywhere. */
static void net_random(struct net *net, uint64_t *random)
{
    *net = (struct net){.switches = 2 + (uint32_t)(test_random(random) % (SWITCHES_MAX - 2))};
    for (uint32_t s = 1; s < net->switches; s++)
        net_cable(net, s, (uint32_t)(test_random(random) % s));
    for (uint32_t more = (uint32_t)(test_random(random) % (2 * net->switches)); more; more--) {
        uint32_t a = (uint32_t)(test_random(random) % net->switches);
        uint32_t b = (uint32_t)(test_random(random) % net->switches);

        if (a != b && net->ports[a] < 40 && net->ports[b] < 40)
            net_cable(net, a, b);
    }
    uint32_t nodes = 2 + (uint32_t)(test_random(random) % 60);
    for (uint32_t n = 0; n < nodes; n++)
        for (uint32_t links = test_random(random) % 4 ? 1 : 1 + test_random(random) % 4; links;
             links--) {
            uint32_t sw = (uint32_t)(test_random(random) % net->switches);

            while (net->ports[sw] == 60)
                sw = (sw + 1) % net->switches;
            net_node(net, n, sw);
        }
}

#define UNREACHABLE 100000u

/*
 * The definition of routes, computed by brute force: distances downwards, then shortest distances.
 */
struct slow {
    uint32_t down[SWITCHES_MAX * 8];
    uint32_t any[SWITCHES_MAX * 8];
};

static uint64_t slow_step(const struct topo_graph *graph, uint32_t s, bool up, const uint32_t *dist,
                          uint32_t *least)
{
    uint64_t set = 0;

    *least = UNREACHABLE;
    for (uint32_t port = 0; port < graph->ports; port++) {
        const struct topo_end *end = &graph->sw[s].end[port];

        if (end->kind != TOPO_END_SWITCH || (graph->sw[end->id].level > graph->sw[s].level) != up ||
            dist[end->id] >= UNREACHABLE)
            continue;
        if (dist[end->id] + 1 < *least) {
            *least = dist[end->id] + 1;
            set = 0;
        }
        if (dist[end->id] + 1 == *least)
            set |= UINT64_C(1) << port;
    }
    return set;
}

static void slow_distances(struct slow *slow, const struct topo_graph *graph, uint32_t dst)
{
    for (uint32_t s = 0; s < graph->switches; s++)
        slow->down[s] = slow->any[s] = UNREACHABLE;
    for (uint32_t i = 0; i < graph->node[dst].links; i++)
        if (graph->node[dst].link[i].sw != TOPO_NONE)
            slow->down[graph->node[dst].link[i].sw] = 0;
    for (uint32_t round = 0; round < graph->levels; round++)
        for (uint32_t s = 0; s < graph->switches; s++)
            if (slow->down[s])
                slow_step(graph, s, false, slow->down, &slow->down[s]);
    for (uint32_t s = 0; s < graph->switches; s++)
        slow->any[s] = slow->down[s];
    for (uint32_t round = 0; round < graph->levels; round++)
        for (uint32_t s = 0; s < graph->switches; s++)
            if (slow->down[s] == UNREACHABLE)
                slow_step(graph, s, true, slow->any, &slow->any[s]);
}

static uint64_t slow_ports(const struct slow *slow, const struct topo_graph *graph, uint32_t s,
                           uint32_t dst)
{
    uint64_t own = 0;
    uint32_t least;

    for (uint32_t i = 0; i < graph->node[dst].links; i++)
        if (graph->node[dst].link[i].sw == s)
            own |= UINT64_C(1) << graph->node[dst].link[i].port;
    if (own)
        return own;
    return slow_step(graph, s, slow->down[s] == UNREACHABLE,
                     slow->down[s] == UNREACHABLE ? slow->any : slow->down, &least);
}

/*
 * Returns the route tables that differ from the definition, and in *parted the pairs without a
 * route.
 */
static uint32_t wrong_tables(const struct topo_graph *graph, uint64_t *unreachable)
{
    uint32_t wrong = 0, longest = 0;
    struct slow slow;
    bool has_nodes[SWITCHES_MAX * 8] = {false};

    *unreachable = 0;
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t port = 0; port < graph->ports; port++)
            has_nodes[s] = has_nodes[s] || graph->sw[s].end[port].kind == TOPO_END_NODE;
    for (uint32_t dst = 0; dst < graph->nodes; dst++) {
        slow_distances(&slow, graph, dst);
        for (uint32_t s = 0; s < graph->switches; s++) {
            wrong += topo_route_ports(&graph->sw[s].route, dst) != slow_ports(&slow, graph, s, dst);
            wrong += topo_below(graph, s, dst) != (slow.down[s] != UNREACHABLE);
            if (slow.down[s] != UNREACHABLE)
                wrong += dst < graph->sw[s].low || dst > graph->sw[s].high;
            if (has_nodes[s] && slow.any[s] == UNREACHABLE)
                ++*unreachable;
            else if (has_nodes[s] && slow.any[s] + 1 > longest)
                longest = slow.any[s] + 1;
        }
    }
    return wrong + (longest != graph->longest);
}

static void topo_route_ports__agrees_with_the_definition(void)
{
    uint64_t random = test_seed(), unreachable;

    for (uint32_t round = 0; round < 150; round++) {
        struct net net;

        net_random(&net, &random);
        struct topo_graph *graph = net_graph(&net, NULL);
        CU_ASSERT_EQUAL(wrong_tables(graph, &unreachable), 0);
        CU_ASSERT_EQUAL(unreachable, 0);
        CU_ASSERT(graph_passes(graph));
        net_free(&net);
        topo_free(graph);
    }
}

/*
 * A tree from a file with the same cables gets the same routes as from the generator, in the same
 * form.
 */
static void topo_route_ports__file_and_generator_agree(void)
{
    static const char *const specs[] = {"kary:2,1", "kary:60,1", "kary:2,2", "kary:3,3", "kary:2,5",
                                        "kary:4,2", "kary:4,4",  "kary:5,3", "kary:16,2"};

    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct topo_graph *graph = graph_of(specs[i]), *other = NULL;
        struct topo_at none = {0, 0};
        uint64_t unreachable;
        uint32_t bad = 0;

        CU_ASSERT_EQUAL_FATAL(topo_without(&other, graph, &none, 0, &unreachable), 0);
        CU_ASSERT(other->levels == graph->levels && other->longest == graph->longest);
        for (uint32_t s = 0; s < graph->switches; s++) {
            const struct topo_route *a = &graph->sw[s].route, *b = &other->sw[s].route;

            bad += a->first != b->first || a->span != b->span || a->stride != b->stride;
            bad += a->elsewhere != b->elsewhere || a->set_of || b->set_of;
            bad += graph->sw[s].low != other->sw[s].low || graph->sw[s].high != other->sw[s].high;
            for (uint32_t block = 0; !bad && block < a->span / a->stride; block++)
                bad += a->sets[block] != b->sets[block];
        }
        CU_ASSERT_EQUAL(bad, 0);
        topo_free(graph);
        topo_free(other);
    }
}

/*
 * With randomly numbered nodes no table is regular; each gives the same routes as a regular table.
 */
static void topo_route_ports__two_forms_agree(void)
{
    struct topo_graph *graph = graph_of("kary:4,3");
    uint64_t random = test_seed();
    uint32_t *order = graph_members(graph, 64, &random), general = 0, bad = 0;
    struct topo_graph *other = NULL;
    char error[1280], *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    for (uint32_t n = 0; n < 64; n++) /* listed first, in another order */
        fprintf(to, "Ca 1 \"H-%016llx\"\n", 0x0003000000000000ull + order[n]);
    topo_write(graph, to);
    fclose(to);
    CU_ASSERT_EQUAL_FATAL(topo_read(&other, "net", text, bytes, error, sizeof error), 0);
    for (uint32_t s = 0; s < graph->switches; s++) {
        general += other->sw[s].route.set_of != NULL;
        for (uint32_t n = 0; n < 64; n++)
            bad += topo_route_ports(&other->sw[s].route, n) !=
                   topo_route_ports(&graph->sw[s].route, order[n]);
    }
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT(general > graph->switches / 2);
    free(text);
    free(order);
    topo_free(graph);
    topo_free(other);
}

/* A ring: switch s is cabled to s + 1, with one node each. */
static struct net net_ring(uint32_t switches)
{
    struct net net = {.switches = switches};

    for (uint32_t s = 0; s < switches; s++)
        net_cable(&net, s, (s + 1) % switches);
    for (uint32_t s = 0; s < switches; s++)
        net_node(&net, s, s);
    return net;
}

static struct net net_torus(uint32_t side)
{
    struct net net = {.switches = side * side};

    for (uint32_t s = 0; s < side * side; s++) {
        net_cable(&net, s, s / side * side + (s + 1) % side);
        net_cable(&net, s, (s + side) % (side * side));
        net_node(&net, 2 * s, s);
        net_node(&net, 2 * s + 1, s);
    }
    return net;
}

static void topo_find_levels__routes_rings_and_tori(void)
{
    uint64_t unreachable;

    for (uint32_t size = 3; size < 9; size++) {
        struct net net = net_ring(size);
        struct topo_graph *graph = net_graph(&net, NULL);

        CU_ASSERT_EQUAL(wrong_tables(graph, &unreachable), 0);
        CU_ASSERT(graph->longest <= size);
        net_free(&net);
        topo_free(graph);
    }
    for (uint32_t side = 2; side < 7; side++) {
        struct net net = net_torus(side);
        struct topo_graph *graph = net_graph(&net, NULL);

        CU_ASSERT_EQUAL(wrong_tables(graph, &unreachable), 0);
        net_free(&net);
        topo_free(graph);
    }
}

/*
 * Leaves 4 to 11 have 6 nodes each, spines 0 to 3 one service node each. All four spines carry
 * traffic between leaves; nodes on spines reach each other through one leaf, which is the top.
 */
static void topo_find_levels__spines_with_nodes_stay_spines(void)
{
    struct net net = {.switches = 12};
    uint32_t bad = 0;

    for (uint32_t spine = 0; spine < 4; spine++)
        net_node(&net, spine, spine);
    for (uint32_t leaf = 4; leaf < 12; leaf++) {
        for (uint32_t spine = 0; spine < 4; spine++)
            net_cable(&net, leaf, spine);
        for (uint32_t n = 0; n < 6; n++)
            net_node(&net, 4 + (leaf - 4) * 6 + n, leaf);
    }
    struct topo_graph *graph = net_graph(&net, NULL);
    for (uint32_t s = 0; s < 12; s++)
        bad += graph->sw[s].level != (s < 4 ? 1 : s > 4 ? 0 : 2);
    for (uint32_t dst = 4; dst < graph->nodes; dst++)
        for (uint32_t leaf = 4; leaf < 12; leaf++)
            bad += __builtin_popcountll(topo_route_ports(&graph->sw[leaf].route, dst)) !=
                   (4 + (leaf - 4) * 6 <= dst && dst < 10 + (leaf - 4) * 6 ? 1 : 4);
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT_EQUAL(graph->longest, 3);
    CU_ASSERT_EQUAL(graph->up, TOPO_UP_TURNED);
    net_free(&net);
    topo_free(graph);
}

/*
 * The same with three levels, and nodes on the core switches of a 3-ary 3-tree: no route grows
 * longer.
 */
static void topo_find_levels__nodes_on_cores_reach_each_other(void)
{
    struct topo_graph *tree = graph_of("kary:3,3"), *graph = NULL;
    char error[1280], *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    uint64_t unreachable;

    for (uint32_t s = 0; s < tree->switches; s++) {
        fprintf(to, "Switch 6 \"S%u\"\n", s);
        for (uint32_t port = 0; port < tree->ports; port++) {
            const struct topo_end *end = &tree->sw[s].end[port];

            if (end->kind == TOPO_END_SWITCH)
                fprintf(to, "[%u] \"S%u\"[%u]\n", port + 1, end->id, end->port + 1u);
            else if (end->kind == TOPO_END_NODE)
                fprintf(to, "[%u] \"H%u\"[1]\n", port + 1, end->id);
            else if (port == 5)
                fprintf(to, "[6] \"C%u\"[1]\n", s);
        }
    }
    for (uint32_t n = 0; n < tree->nodes; n++)
        fprintf(to, "Ca 1 \"H%u\"\n", n);
    for (uint32_t s = 18; s < 27; s++)
        fprintf(to, "Ca 1 \"C%u\"\n", s);
    fclose(to);
    CU_ASSERT_EQUAL_FATAL(topo_read(&graph, "net", text, bytes, error, sizeof error), 0);
    CU_ASSERT_EQUAL(graph->longest, 5);
    CU_ASSERT_EQUAL(wrong_tables(graph, &unreachable), 0);
    for (uint32_t src = 0; src < 27; src++)
        for (uint32_t dst = 0; dst < 27; dst++)
            CU_ASSERT_EQUAL(topo_hops(graph, src, dst), topo_hops(tree, src, dst));
    free(text);
    topo_free(tree);
    topo_free(graph);
}

static void topo_read__refuses_disconnected_networks(void)
{
    struct net net = {.switches = 3};
    struct topo_graph *graph = NULL;
    const uint32_t level[] = {1, 0, 1};
    char error[1280];

    net_node(&net, 0, 0);
    net_node(&net, 1, 2);
    net_cable(&net, 0, 1);
    CU_ASSERT_EQUAL(net_read(&graph, &net, NULL, error, sizeof error), -EHOSTUNREACH);
    CU_ASSERT_STRING_EQUAL(
        error, "net: no cables join node 1 (H1) and node 0 (H0): the network is in pieces");
    net_cable(&net, 1, 2);
    CU_ASSERT_EQUAL(net_read(&graph, &net, level, error, sizeof error), -EHOSTUNREACH);
    CU_ASSERT_STRING_EQUAL(
        error, "net: no route joins node 1 (H1) and node 0 (H0): routes go up, then down, "
               "and with these levels none does");
    CU_ASSERT_PTR_NULL(graph);
    CU_ASSERT_EQUAL(net_read(&graph, &net, NULL, error, sizeof error), 0);
    net_free(&net);
    topo_free(graph);
}

/* Set every table to the node's own port and one port for all other nodes. */
static void overrule(struct topo_graph *graph, uint64_t *own, const uint32_t *port)
{
    for (uint32_t s = 0; s < graph->switches; s++) {
        own[s] = UINT64_C(1) << graph->node[s].link[0].port;
        graph->sw[s].route = (struct topo_route){
            .first = s,
            .span = 1,
            .stride = 1,
            .spread = 1,
            .sets = &own[s],
            .elsewhere = UINT64_C(1) << port[s],
        };
    }
}

/* All routes go round in one direction: each arrives, but four segments can block each other. */
static void topo_check__names_the_cycle_of_a_deadlock(void)
{
    struct net net = net_ring(4);
    struct topo_graph *graph = net_graph(&net, NULL);
    const uint32_t clockwise[] = {0, 1, 1, 1}; /* as net_ring() cables them */
    uint64_t own[4];
    char error[1280] = "";

    overrule(graph, own, clockwise);
    for (uint32_t src = 0; src < 4; src++)
        for (uint32_t dst = 0; dst < 4; dst++) {
            uint32_t sw = src, hops = 0;

            while (sw != dst && hops++ < 4)
                sw = graph->sw[sw].end[clockwise[sw]].id;
            CU_ASSERT_EQUAL(hops, (dst + 4 - src) % 4);
        }
    CU_ASSERT_EQUAL(topo_check(graph, NULL, error, sizeof error), -EDEADLK);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "deadlock: "));
    const char *ring = strstr(error, "\"S");
    CU_ASSERT_PTR_NOT_NULL_FATAL(ring);
    uint32_t shown = 0;
    for (const char *p = ring; p; p = strstr(p + 1, "\"S"))
        shown++;
    CU_ASSERT_EQUAL(shown, 5); /* four channels, and the first again */
    CU_ASSERT_EQUAL(strncmp(ring, error + strlen(error) - 6, 6), 0);
    free((void *)graph->label);
    graph->label = NULL;
    CU_ASSERT_EQUAL(topo_check(graph, NULL, error, sizeof error), -EDEADLK);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "(switch:port): "));
    CU_ASSERT_PTR_NOT_NULL(strstr(error, " -> 2:1"));
    net_free(&net);
    topo_free(graph);
}

/* Routes that loop for ever also form a cycle. */
static void topo_check__names_a_route_that_never_arrives(void)
{
    struct net net = net_ring(3);
    struct topo_graph *graph = net_graph(&net, NULL);
    char error[1280] = "";
    uint32_t to_1 = 0, to_0 = 0;
    uint64_t own[3];

    for (uint32_t port = 0; port < graph->ports; port++) {
        if (graph->sw[0].end[port].kind == TOPO_END_SWITCH && graph->sw[0].end[port].id == 1)
            to_1 = port;
        if (graph->sw[1].end[port].kind == TOPO_END_SWITCH && graph->sw[1].end[port].id == 0)
            to_0 = port;
    }
    overrule(graph, own, (const uint32_t[]){to_1, to_0, 0});
    CU_ASSERT_EQUAL(topo_check(graph, NULL, error, sizeof error), -EDEADLK);
    net_free(&net);
    topo_free(graph);
}

/*
 * Routes that go down and up again are valid if they form no cycle: a line whose middle is lowest.
 */
static void topo_check__accepts_routes_without_a_cycle(void)
{
    struct net net = {.switches = 3};

    net_cable(&net, 0, 1);
    net_cable(&net, 1, 2);
    for (uint32_t s = 0; s < 3; s++)
        net_node(&net, s, s);
    struct topo_graph *graph = net_graph(&net, NULL);
    uint64_t own[3], middle[3];
    struct topo_checked what;
    char error[1280] = "";

    overrule(graph, own, (const uint32_t[]){0, 0, 0});
    middle[0] = 1u << 0, middle[1] = own[1], middle[2] = 1u << 1;
    graph->sw[1].route = (struct topo_route){.span = 3, .stride = 1, .spread = 1, .sets = middle};
    graph->sw[0].level = graph->sw[2].level = 1;
    graph->sw[1].level = 0;
    graph->levels = 2;
    CU_ASSERT_EQUAL(topo_check(graph, &what, error, sizeof error), 0);
    CU_ASSERT_EQUAL(what.channels, 4);
    CU_ASSERT_EQUAL(what.waits, 2);
    CU_ASSERT_EQUAL(what.cables, 5);
    net_free(&net);
    topo_free(graph);
}

/* The error text lists only the start of a long cycle. */
static void topo_check__shortens_long_cycles(void)
{
    struct net net = net_ring(30);
    struct topo_graph *graph = net_graph(&net, NULL);
    uint32_t port[30];
    uint64_t own[30];
    char error[1280] = "", tiny[16];

    for (uint32_t s = 0; s < 30; s++)
        for (uint32_t p = 0; p < 2; p++)
            if (graph->sw[s].end[p].id == (s + 1) % 30)
                port[s] = p;
    overrule(graph, own, port);
    CU_ASSERT_EQUAL(topo_check(graph, NULL, error, sizeof error), -EDEADLK);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "(22 more) -> "));
    CU_ASSERT_EQUAL(topo_check(graph, NULL, tiny, sizeof tiny), -EDEADLK);
    CU_ASSERT_STRING_EQUAL(tiny, "deadlock: segme");
    net_free(&net);
    topo_free(graph);
}

/* Cut random cables, between switches and to nodes with several links. */
static struct topo_graph *damaged(const struct topo_graph *graph, uint32_t count, uint64_t *random,
                                  uint64_t *unreachable)
{
    struct topo_at *cut = calloc(count, sizeof *cut);
    uint8_t *gone = calloc((size_t)graph->switches * graph->ports, 1);
    struct topo_graph *ret = NULL;

    for (uint32_t i = 0; i < count; i++) {
        const struct topo_end *end;

        do {
            cut[i].sw = (uint32_t)(test_random(random) % graph->switches);
            cut[i].port = (uint32_t)(test_random(random) % graph->ports);
            end = &graph->sw[cut[i].sw].end[cut[i].port];
        } while (end->kind == TOPO_END_NONE || gone[cut[i].sw * graph->ports + cut[i].port] ||
                 (end->kind == TOPO_END_NODE && graph->node[end->id].links < 2));
        gone[cut[i].sw * graph->ports + cut[i].port] = 1;
        if (end->kind == TOPO_END_SWITCH)
            gone[end->id * graph->ports + end->port] = 1;
    }
    CU_ASSERT_EQUAL_FATAL(topo_without(&ret, graph, cut, count, unreachable), 0);
    free(gone);
    free(cut);
    return ret;
}

/* Does any switch have all members below it? Checks every switch. */
static bool any_spans(const struct topo_graph *graph, const uint32_t *members, uint32_t count)
{
    for (uint32_t s = 0; s < graph->switches; s++) {
        uint32_t below = 0;

        while (below < count && topo_below(graph, s, members[below]))
            below++;
        if (below == count)
            return true;
    }
    return false;
}

static const char *const damage_specs[] = {
    "kary:4,3",
    "kary:2,5",
    "qsnet:200",
    "qsnet:300",
    "clos:down=4x6x4,up=4x4,cables=2x1",
    "qsnet:100,links=2,apart=router",
    "qsnet:64,rails=2",
    "clos:down=8x8,up=8",
};
#define DAMAGES (sizeof damage_specs / sizeof damage_specs[0])

static void topo_without__keeps_the_remaining_routes(void)
{
    uint64_t random = test_seed();

    for (size_t i = 0; i < DAMAGES; i++) {
        struct topo_graph *whole = graph_of(damage_specs[i]);

        for (uint32_t round = 0; round < 4; round++) {
            uint64_t unreachable, want_unreachable;
            struct topo_graph *graph =
                damaged(whole, 1 + (uint32_t)(test_random(&random) % 20), &random, &unreachable);
            char error[1280];

            CU_ASSERT_EQUAL(wrong_tables(graph, &want_unreachable), 0);
            CU_ASSERT_EQUAL(unreachable, want_unreachable);
            int err = topo_check(graph, NULL, error, sizeof error);
            CU_ASSERT_EQUAL(err, unreachable ? -EINVAL : 0);
            if (unreachable)
                CU_ASSERT_PTR_NOT_NULL(strstr(error, "has no route to"));
            for (uint32_t s = 0; s < graph->switches; s++)
                if (graph->sw[s].route.set_of) /* not one of the regular form */
                    for (uint32_t bit = 0; bit < 16; bit++)
                        CU_ASSERT_EQUAL(topo_route_ports(&graph->sw[s].route,
                                                         graph->nodes + (1u << bit) - 1),
                                        0);
            topo_free(graph);
        }
        topo_free(whole);
    }
}

/* All cables between switches are cut, and no node is left: no tables are needed. */
static void topo_without__may_leave_no_link(void)
{
    struct topo_graph *whole = graph_of("kary:2,1"), *graph = NULL;
    const struct topo_at all[] = {{0, 0}, {0, 1}};
    uint64_t unreachable;

    CU_ASSERT_EQUAL_FATAL(topo_without(&graph, whole, all, 2, &unreachable), 0);
    CU_ASSERT_EQUAL(unreachable, 0); /* of a switch with nodes: there is none */
    for (uint32_t node = 0; node < 2; node++)
        CU_ASSERT_EQUAL(topo_route_ports(&graph->sw[0].route, node), 0);
    topo_free(graph);
    topo_free(whole);
}

static void topo_without__refuses_cables_that_do_not_exist(void)
{
    struct topo_graph *whole = graph_of("kary:4,2"), *graph = NULL;
    uint64_t unreachable;

    CU_ASSERT_EQUAL(topo_without(&graph, whole, &(struct topo_at){8, 0}, 1, &unreachable), -EINVAL);
    CU_ASSERT_EQUAL(topo_without(&graph, whole, &(struct topo_at){0, 8}, 1, &unreachable), -EINVAL);
    CU_ASSERT_EQUAL(topo_without(&graph, whole, &(struct topo_at){7, 4}, 1, &unreachable), -EINVAL);
    struct topo_at twice[] = {{0, 4}, {0, 4}};
    CU_ASSERT_EQUAL(topo_without(&graph, whole, twice, 2, &unreachable), -EINVAL);
    CU_ASSERT_PTR_NULL(graph);
    topo_free(whole);
}

/* A valid tree is found exactly if some switch has all members below it. */
static void topo_tree_build__works_in_damaged_networks(void)
{
    uint64_t random = test_seed();
    uint32_t built = 0, refused = 0;

    for (size_t i = 0; i < DAMAGES; i++) {
        struct topo_graph *whole = graph_of(damage_specs[i]);

        for (uint32_t round = 0; round < 30; round++) {
            uint64_t unreachable;
            struct topo_graph *graph =
                damaged(whole, 1 + (uint32_t)(test_random(&random) % 40), &random, &unreachable);
            uint32_t *load = calloc(graph->switches, sizeof *load);
            uint32_t count = 2 + (uint32_t)(test_random(&random) % 12);
            uint32_t *members = graph_members(graph, count, &random);
            struct topo_tree tree;

            for (uint32_t s = 0; s < graph->switches; s++)
                load[s] = (uint32_t)(test_random(&random) % 4);
            int err = topo_tree_build(&tree, graph, members, count, load);
            /* a climb from the first member suffices: no route up is ever removed */
            bool reachable = false;
            if (!err) {
                CU_ASSERT_EQUAL(graph_tree_faults(graph, &tree, members, count), 0);
                topo_tree_release(&tree);
                reachable = true;
            }
            CU_ASSERT_EQUAL(reachable, any_spans(graph, members, count));
            CU_ASSERT(!err || err == -EHOSTUNREACH);
            built += !err;
            refused += err != 0;
            free(members);
            free(load);
            topo_free(graph);
        }
        topo_free(whole);
    }
    CU_ASSERT(built > 50);
    CU_ASSERT(refused > 0);
}

static void topo_tree_build__spans_members_of_any_network(void)
{
    uint64_t random = test_seed();

    for (uint32_t round = 0; round < 100; round++) {
        struct net net;

        net_random(&net, &random);
        struct topo_graph *graph = net_graph(&net, NULL);
        uint32_t *load = calloc(graph->switches, sizeof *load);
        for (uint32_t i = 0; i < 10; i++) {
            uint32_t count = 2 + (uint32_t)(test_random(&random) % (graph->nodes - 1));
            uint32_t *members = graph_members(graph, count, &random);
            struct topo_tree tree;
            int err = topo_tree_build(&tree, graph, members, count, load);

            CU_ASSERT_EQUAL(err == 0, any_spans(graph, members, count));
            if (!err) {
                CU_ASSERT_EQUAL(graph_tree_faults(graph, &tree, members, count), 0);
                topo_tree_charge(&tree, load, 1);
                topo_tree_release(&tree);
            }
            free(members);
        }
        net_free(&net);
        free(load);
        topo_free(graph);
    }
}

static void topo_partition__is_even_for_any_network(void)
{
    uint64_t random = test_seed();

    for (uint32_t round = 0; round < 50; round++) {
        uint32_t worker_of[SWITCHES_MAX], size[8] = {0};
        struct net net;

        net_random(&net, &random);
        struct topo_graph *graph = net_graph(&net, NULL);
        topo_partition(graph, 8, worker_of);
        for (uint32_t s = 0; s < graph->switches; s++) {
            CU_ASSERT_FATAL(worker_of[s] < 8);
            size[worker_of[s]]++;
        }
        for (uint32_t w = 0; w < 8; w++)
            CU_ASSERT(size[w] == graph->switches / 8 || size[w] == (graph->switches + 7) / 8);
        net_free(&net);
        topo_free(graph);
    }
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(topo_route_ports__agrees_with_the_definition),
        CASE(topo_route_ports__file_and_generator_agree),
        CASE(topo_route_ports__two_forms_agree),
        CASE(topo_find_levels__routes_rings_and_tori),
        CASE(topo_find_levels__spines_with_nodes_stay_spines),
        CASE(topo_find_levels__nodes_on_cores_reach_each_other),
        CASE(topo_read__refuses_disconnected_networks),
        CASE(topo_check__names_the_cycle_of_a_deadlock),
        CASE(topo_check__names_a_route_that_never_arrives),
        CASE(topo_check__accepts_routes_without_a_cycle),
        CASE(topo_check__shortens_long_cycles),
        CASE(topo_without__keeps_the_remaining_routes),
        CASE(topo_without__may_leave_no_link),
        CASE(topo_without__refuses_cables_that_do_not_exist),
        CASE(topo_tree_build__works_in_damaged_networks),
        CASE(topo_tree_build__spans_members_of_any_network),
        CASE(topo_partition__is_even_for_any_network),
        {NULL, NULL},
    };

    return test_run("topo_shape", cases);
}
