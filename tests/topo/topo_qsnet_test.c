/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo_qsnet_test.c - QsNet III networks against the paper's Table I, and folded Clos networks.
 */
#include <errno.h>
#include <string.h>

#include "emu/util/bits.h"
#include "tests/test.h"
#include "tests/fixtures/graphs.h"

/* Candidates of switch @sw towards @dst that lead to switches from..to, or to the node itself. */
static uint32_t candidates(const struct topo_graph *graph, uint32_t sw, uint32_t dst, uint32_t from,
                           uint32_t to)
{
    uint32_t count = 0;

    emu_each_bit (port, topo_route_ports(&graph->sw[sw].route, dst)) {
        const struct topo_end *end = &graph->sw[sw].end[port];

        count += end->kind == TOPO_END_NODE ? end->id == dst : end->id >= from && end->id <= to;
    }
    return count;
}

static uint32_t all_candidates(const struct topo_graph *graph, uint32_t sw, uint32_t dst)
{
    return (uint32_t)__builtin_popcountll(topo_route_ports(&graph->sw[sw].route, dst));
}

static bool refuses(const char *spec, int want_err, const char *want)
{
    struct topo_graph *graph = NULL;
    char error[1280] = "";
    int err = topo_parse(&graph, spec, error, sizeof error);
    bool as_wanted = err == want_err && !graph && strstr(error, want);

    if (!as_wanted)
        printf("'%s': %d, %s\n", spec, err, error);
    topo_free(graph);
    return as_wanted;
}

static uint64_t node_cables(const struct topo_graph *graph)
{
    uint64_t cables = 0;

    for (uint32_t n = 0; n < graph->nodes; n++)
        cables += graph->node[n].links;
    return cables;
}

#define NODES_MOST TEST_ALONE(20000u)

/*
 * Table I, row by row. Its last row gives 32576 cables; 16384 to nodes and 128 from each of 128
 * chassis make 32768, as in every other row, so that is a misprint.
 */
static void topo_qsnet__is_built_as_table_1_says(void)
{
    static const struct {
        uint32_t nodes, node_chassis, cables, top_chassis;
        uint32_t routers; /* counted by hand: 16 per node chassis, plus those of the top switches */
    } rows[] = {
        {128, 1, 128, 0, 16},
        {256, 2, 384, 0, 32},
        {512, 4, 1024, 2, 64 + 16},
        {640, 5, 1280, 3, 80 + 22},
        {1024, 8, 2048, 4, 128 + 32},
        {2048, 16, 4096, 8, 256 + 64},
        {4096, 32, 8192, 16, 512 + 128},
        {8192, 64, 16384, 64, 2048},
        {16384, 128, 32768, 128, 4096},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && rows[i].nodes <= NODES_MOST; i++) {
        char spec[32];

        snprintf(spec, sizeof spec, "qsnet:%u", rows[i].nodes);
        struct topo_graph *graph = graph_of(spec);
        CU_ASSERT_STRING_EQUAL(graph->spec, spec);
        CU_ASSERT_EQUAL(graph->nodes, rows[i].nodes);
        CU_ASSERT_EQUAL(graph->parts.node_chassis, rows[i].node_chassis);
        CU_ASSERT_EQUAL(graph->parts.top_chassis, rows[i].top_chassis);
        CU_ASSERT_EQUAL(node_cables(graph) + graph->parts.top_cables, rows[i].cables);
        CU_ASSERT_EQUAL(graph->switches, rows[i].routers);
        CU_ASSERT_EQUAL(graph->ports, 32);
        CU_ASSERT(graph_passes(graph));
        topo_free(graph);
    }
}

/* Sizes between the rows: the rules that the paper states in words. */
static void topo_qsnet__follows_the_rules_between_the_rows(void)
{
    static const struct {
        const char *spec;
        uint32_t routers, node_chassis, top_chassis, cables, longest;
    } rows[] = {
        {"qsnet:16", 1, 1, 0, 16, 1},
        {"qsnet:32", 1, 1, 0, 32, 1},     /* a router with all links to nodes */
        {"qsnet:33", 3 + 8, 1, 0, 33, 3}, /* cards without a cable are left out */
        {"qsnet:64", 4 + 8, 1, 0, 64, 3},
        {"qsnet:200", 13 + 16, 2, 0, 200 + 128, 4},
        {"qsnet:384", 48 + 13, 3, 2, 384 + 384, 5}, /* 10 x 3-way */
        {"qsnet:1280", 160 + 43, 10, 6, 2560, 5},   /* 3 x 10-way */
        {"qsnet:2176", 272 + 128, 17, 16, 4352, 5}, /* 1 x 17-way */
        {"qsnet:4097", 513 + 8 * 33 + 8 * 80, 33, 64, 4097 + 33 * 128, 7},
        {"qsnet:512,tops=64", 64 + 8, 4, 1, 512 + 256, 5},
        {"qsnet:256,tops=32", 32, 2, 0, 256 + 32, 4},
        {"qsnet:16384,tops=16", 2048 + 256, 128, 16, 16384 + 128 * 16, 7},
        {"qsnet:64,links=2", 16, 1, 0, 128, 3},
        {"qsnet:128,rails=2", 32, 2, 0, 256, 3},
        {"qsnet:512,rails=2", 160, 8, 4, 2048, 5},
        {"qsnet:512,links=2", 160, 8, 4, 2048, 5},
        {"qsnet:128,links=2,apart=chassis", 32, 2, 0, 384, 3}, /* a link to each chassis */
        {"qsnet:300,links=2,apart=chassis", 2 * (8 + 8 + 3) + 6 * 8 + 26, 6, 4, 600 + 768, 5},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct topo_graph *graph = graph_of(rows[i].spec);

        CU_ASSERT_STRING_EQUAL(graph->spec, rows[i].spec);
        CU_ASSERT_EQUAL(graph->switches, rows[i].routers);
        CU_ASSERT_EQUAL(graph->parts.node_chassis, rows[i].node_chassis);
        CU_ASSERT_EQUAL(graph->parts.top_chassis, rows[i].top_chassis);
        CU_ASSERT_EQUAL(node_cables(graph) + graph->parts.top_cables, rows[i].cables);
        CU_ASSERT_EQUAL(graph->longest, rows[i].longest);
        CU_ASSERT(graph_passes(graph));
        topo_free(graph);
    }
}

/*
 * All nodes exist, with all their links, and every pair has a route whichever candidates are
 * chosen.
 */
static void topo_qsnet__joins_all_pairs_at_any_size(void)
{
    static const char *const options[] = {
        "", ",links=2", ",rails=2", ",links=2,apart=router", ",links=2,apart=chassis", ",links=4",
    };
    uint64_t random = test_seed();

    for (uint32_t round = 0; round < TEST_TRIALS(60u); round++) {
        uint32_t nodes = 2 + (uint32_t)(test_random(&random) % (round % 3 ? 300 : 1500));
        uint32_t lost = 0;
        char spec[64];

        snprintf(spec, sizeof spec, "qsnet:%u%s", nodes, options[round % 6]);
        struct topo_graph *graph = graph_of(spec);
        CU_ASSERT(graph_passes(graph));
        for (uint32_t i = 0; i < TEST_ALONE(20000u); i++) {
            uint32_t src = (uint32_t)(test_random(&random) % nodes);
            uint32_t dst = (uint32_t)(test_random(&random) % nodes);
            uint32_t link = (uint32_t)(test_random(&random) % graph->node[src].links);
            uint32_t hops = graph_walk_from(graph, graph->node[src].link[link].sw, dst, &random);

            lost += hops < 1 || hops > graph->longest;
        }
        CU_ASSERT_EQUAL(lost, 0);
        topo_free(graph);
    }
}

/* 640 nodes: 80 routers in chassis, then 22 of 6 x 5-way top switches, the last of 2 x 5-way. */
static void topo_qsnet__top_switches_of_one_router_are_one_choice(void)
{
    struct topo_graph *graph = graph_of("qsnet:640");
    uint32_t bad = 0;

    for (uint32_t top = 80; top < 102; top++)
        for (uint32_t dst = 0; dst < 640; dst++) {
            uint32_t upper = 40 + dst / 128 * 8; /* the upper routers of the node's chassis */
            uint32_t want = top < 101 ? 6 : 2;

            bad += candidates(graph, top, dst, upper, upper + 7) != want;
            bad += all_candidates(graph, top, dst) != want;
        }
    for (uint32_t upper = 40; upper < 80; upper++)
        for (uint32_t dst = 0; dst < 640; dst++) {
            bool own = dst / 128 == (upper - 40) / 8;
            uint32_t lower = dst / 16;

            if (own) /* two backplane links */
                bad += candidates(graph, upper, dst, lower, lower) != 2 ||
                       all_candidates(graph, upper, dst) != 2;
            else
                bad += candidates(graph, upper, dst, 80, 101) != 16;
        }
    for (uint32_t lower = 0; lower < 40; lower++)
        for (uint32_t dst = 0; dst < 640; dst++)
            bad += all_candidates(graph, lower, dst) != (dst / 16 == lower ? 1 : 16);
    CU_ASSERT_EQUAL(bad, 0);
    topo_free(graph);
}

/*
 * A route up chooses among 8 upper routers, then among 4 top routers, with two links or four to
 * each.
 */
static void topo_qsnet__routes_up_spread_over_switches(void)
{
    static const struct {
        const char *spec;
        uint32_t spread[3];
    } cases[] = {
        {"qsnet:1024", {1, 8, 32}}, {"qsnet:512,links=2", {1, 8, 32}}, {"qsnet:256", {1, 8, 8}},
        {"kary:4,3", {1, 4, 16}},   {"qsnet:16", {1, 1, 1}},
    };

    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct topo_graph *graph = graph_of(cases[i].spec);

        for (uint32_t s = 0; s < graph->switches; s++)
            CU_ASSERT_EQUAL(graph->sw[s].route.spread, cases[i].spread[graph->sw[s].level]);
        topo_free(graph);
    }
}

/*
 * Two chassis: link j of one is link j of the other, and their upper routers are cabled to each
 * other.
 */
static void topo_qsnet__two_chassis_need_no_top(void)
{
    struct topo_graph *graph = graph_of("qsnet:256");
    uint32_t bad = 0;

    for (uint32_t u = 16; u < 24; u++)
        for (uint32_t port = 16; port < 32; port++) {
            const struct topo_end *end = &graph->sw[u].end[port];

            bad += end->kind != TOPO_END_SWITCH || end->id != u + 8 || end->port != port;
        }
    for (uint32_t dst = 0; dst < 256; dst++) {
        bad += candidates(graph, 16, dst, dst < 128 ? 0 : 24, dst < 128 ? 7 : 24) !=
               (dst < 128 ? 2 : 16);
        bad += candidates(graph, 24, dst, dst < 128 ? 16 : 8, dst < 128 ? 16 : 15) !=
               (dst < 128 ? 16 : 2);
    }
    CU_ASSERT_EQUAL(bad, 0);
    topo_free(graph);
}

/*
 * Figure 4: the choice among the links into a node is made where the routes diverge, or by the
 * adapter.
 */
static void topo_qsnet__links_into_a_node_are_a_choice(void)
{
    struct topo_graph *one = graph_of("qsnet:64,links=2");
    struct topo_graph *routers = graph_of("qsnet:64,links=2,apart=router");
    struct topo_graph *chassis = graph_of("qsnet:256,links=2,apart=chassis");
    struct topo_graph *rails = graph_of("qsnet:256,rails=2");
    uint32_t bad = 0;

    for (uint32_t n = 0; n < 64; n++) {
        const struct topo_link *link = one->node[n].link;

        bad += link[0].sw != link[1].sw || all_candidates(one, link[0].sw, n) != 2;
        link = routers->node[n].link;
        bad += link[0].sw + 1 != link[1].sw || all_candidates(routers, link[0].sw, n) != 1;
        bad += candidates(routers, 8, n, link[0].sw, link[1].sw) != 4; /* two links to each */
    }
    for (uint32_t n = 0; n < 256; n++) {
        const struct topo_link *link = chassis->node[n].link;
        uint32_t here = link[0].sw / 8, there = link[1].sw / 8;

        bad += there != here + 1;
        /* the upper routers of each chassis have one of the links */
        for (uint32_t c = 0; c < 4; c++)
            bad += all_candidates(chassis, 32 + 8 * c, n) != (c == here || c == there ? 2 : 16);
        bad += candidates(chassis, 64, n, 32 + 8 * here, 39 + 8 * there) != 16; /* a top router */
        link = rails->node[n].link;
        bad += link[0].sw >= 32 || link[1].sw != link[0].sw + 32;
        for (uint32_t s = 0; s < 64; s++) { /* routes stay within their rail */
            uint32_t first = s / 32 * 32;
            bad += candidates(rails, s, n, first, first + 31) != all_candidates(rails, s, n);
        }
    }
    CU_ASSERT_EQUAL(bad, 0);
    CU_ASSERT(graph_passes(one) && graph_passes(routers));
    CU_ASSERT(graph_passes(chassis) && graph_passes(rails));
    topo_free(one);
    topo_free(routers);
    topo_free(chassis);
    topo_free(rails);
}

/*
 * With fewer top switches than routers in a stage, some upper routers have no uplink: no route uses
 * these.
 */
static void topo_qsnet__avoids_upper_routers_without_uplinks(void)
{
    struct topo_graph *graph = graph_of("qsnet:512,tops=4");
    uint32_t bad = 0;

    for (uint32_t lower = 0; lower < 32; lower++)
        for (uint32_t dst = 0; dst < 512; dst++) {
            bool own = dst / 128 == lower / 8;
            uint32_t want = dst / 16 == lower ? 1 : own ? 16 : 8;

            bad += all_candidates(graph, lower, dst) != want;
        }
    CU_ASSERT_EQUAL(bad, 0);
    topo_free(graph);
}

static void topo_qsnet__trees_span_any_members(void)
{
    static const char *const specs[] = {
        "qsnet:200",
        "qsnet:640",
        "qsnet:300,links=2,apart=chassis",
        "qsnet:256,rails=2",
        "qsnet:512,tops=4",
        "clos:down=6x8x4,up=4x4,cables=2x1",
        "clos:radix=12,levels=2,over=3",
    };
    uint64_t random = test_seed();

    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct topo_graph *graph = graph_of(specs[i]);
        uint32_t *load = calloc(graph->switches, sizeof *load);

        for (uint32_t round = 0; round < 60; round++) {
            uint32_t count = 2 + (uint32_t)(test_random(&random) % (round % 3 ? 40 : 150));
            count = count > graph->nodes ? graph->nodes : count;
            uint32_t *members = graph_members(graph, count, &random);
            struct topo_tree tree;

            CU_ASSERT_EQUAL_FATAL(topo_tree_build(&tree, graph, members, count, load), 0);
            CU_ASSERT_EQUAL(graph_tree_faults(graph, &tree, members, count), 0);
            for (uint32_t m = 0; m < count; m++)
                CU_ASSERT(topo_tree_link(&tree, graph, members[m]) < graph->node[members[m]].links);
            topo_tree_charge(&tree, load, 1);
            topo_tree_release(&tree);
            free(members);
        }
        free(load);
        topo_free(graph);
    }
}

/* Groups of all nodes on two rails: each rail carries half of the trees. */
static void topo_qsnet__trees_are_spread_over_rails(void)
{
    struct topo_graph *graph = graph_of("qsnet:128,rails=2");
    uint32_t *load = calloc(graph->switches, sizeof *load);
    uint32_t members[128], in_first = 0;

    for (uint32_t n = 0; n < 128; n++)
        members[n] = n;
    for (uint32_t i = 0; i < 32; i++) {
        struct topo_tree tree;

        CU_ASSERT_EQUAL_FATAL(topo_tree_build(&tree, graph, members, 128, load), 0);
        in_first += tree.switches[0].sw < 16;
        topo_tree_charge(&tree, load, 1);
        topo_tree_release(&tree);
    }
    CU_ASSERT_EQUAL(in_first, 16);
    free(load);
    topo_free(graph);
}

/* Groups with one node at each router: each has the router's links to the upper stage to itself. */
static void topo_qsnet__trees_use_parallel_links_in_turn(void)
{
    struct topo_graph *graph = graph_of("qsnet:64");
    uint32_t *load = calloc(graph->switches, sizeof *load);
    emu_ports up[4] = {EMU_NO_PORTS};

    for (uint32_t i = 0; i < 16; i++) {
        uint32_t members[4] = {i, 16 + i, 32 + i, 48 + i};
        struct topo_tree tree;

        CU_ASSERT_EQUAL_FATAL(topo_tree_build(&tree, graph, members, 4, load), 0);
        CU_ASSERT_EQUAL_FATAL(tree.count, 5);
        for (uint32_t s = 1; s < 5; s++)
            up[s - 1] |= emu_port((uint32_t)tree.switches[s].up);
        topo_tree_charge(&tree, load, 1);
        topo_tree_release(&tree);
    }
    for (uint32_t s = 0; s < 4; s++)
        CU_ASSERT_EQUAL(emu_ports_count(up[s]), 16);
    free(load);
    topo_free(graph);
}

static void topo_qsnet__errors_name_the_valid_values(void)
{
    CU_ASSERT(refuses("qsnet:", -EINVAL, "bad topology 'qsnet:': want qsnet:N with N from 2 to"));
    CU_ASSERT(refuses("qsnet:x", -EINVAL, "want qsnet:N"));
    CU_ASSERT(refuses("qsnet:1", -EINVAL, "N from 2 to 16384"));
    CU_ASSERT(refuses("qsnet:16385", -EINVAL, "N from 2 to 16384"));
    CU_ASSERT(refuses("qsnet:4294967296", -EINVAL, "N from 2 to 16384"));
    CU_ASSERT(refuses("qsnet:64,", -EINVAL, "want qsnet:N"));
    CU_ASSERT(refuses("qsnet:64,links", -EINVAL, "want qsnet:N"));
    CU_ASSERT(refuses("qsnet:64,links=", -EINVAL, "want qsnet:N"));
    CU_ASSERT(refuses("qsnet:64,links=2x", -EINVAL, "want qsnet:N"));
    CU_ASSERT(refuses("qsnet:64,links=3", -EINVAL, "links must be 1, 2 or 4"));
    CU_ASSERT(refuses("qsnet:64,rails=0", -EINVAL, "at most 4 links"));
    CU_ASSERT(refuses("qsnet:64,links=2,rails=3", -EINVAL, "at most 4 links"));
    CU_ASSERT(refuses("qsnet:64,apart=router", -EINVAL, "add links=2"));
    CU_ASSERT(refuses("qsnet:64,links=2,apart=node", -EINVAL, "want qsnet:N"));
    CU_ASSERT(refuses("qsnet:512,tops=129", -EINVAL, "tops must be 1 to 128"));
    CU_ASSERT(refuses("qsnet:128,tops=64", -EINVAL, "no top switches"));
    CU_ASSERT(refuses("qsnet:16384,links=2", -EINVAL, "nodes times links must be at most 16384"));
}

static void topo_clos__counts_what_it_builds(void)
{
    static const struct graph_size rows[] = {
        {"clos:radix=36", "clos:down=18x36,up=18", 648, 54, 36, 2, 3},
        {"clos:radix=36,levels=2,over=2", "clos:down=24x36,up=12", 864, 48, 36, 2, 3},
        {"clos:radix=24,levels=3", "clos:down=12x12x24,up=12x12", 3456, 720, 24, 3, 5},
        {"clos:radix=8,levels=1", "clos:down=8", 8, 1, 8, 1, 1},
        {"clos:down=4x4,up=4", "clos:down=4x4,up=4", 16, 8, 8, 2, 3},
        {"clos:up=4,down=8x8,cables=2", "clos:down=8x8,up=4,cables=2", 32, 6, 12, 2, 3},
        {"clos:down=2x2x2x2x2,up=1x1x1x1", "clos:down=2x2x2x2x2,up=1x1x1x1", 32, 31, 3, 5, 9},
    };

    graph_counts(rows, sizeof rows / sizeof rows[0]);
}

/* Parallel cables to one upper switch are candidates beside those to the others. */
static void topo_clos__all_links_up_are_candidates(void)
{
    struct topo_graph *graph = graph_of("clos:down=6x12x8,up=4x6,cables=2x1");
    uint32_t bad = 0;

    CU_ASSERT_EQUAL(graph->nodes, 6 * 6 * 8);
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t dst = 0; dst < graph->nodes; dst++) {
            uint32_t level = graph->sw[s].level;
            bool below = graph->sw[s].low <= dst && dst <= graph->sw[s].high;
            uint32_t up = level == 0 ? 4 : 6, down = level == 1 ? 2 : 1;

            bad += all_candidates(graph, s, dst) != (below ? down : up);
        }
    CU_ASSERT_EQUAL(bad, 0);
    topo_free(graph);
}

static void topo_clos__errors_name_the_valid_values(void)
{
    CU_ASSERT(refuses("clos:", -EINVAL, "want clos:radix=R"));
    CU_ASSERT(refuses("clos:levels=2", -EINVAL, "want clos:radix=R"));
    CU_ASSERT(refuses("clos:radix=8,down=4x4", -EINVAL, "want clos:radix=R"));
    CU_ASSERT(refuses("clos:radix=253", -EINVAL, "radix must be 2 to 252"));
    CU_ASSERT(refuses("clos:radix=8,levels=0", -EINVAL, "levels must be 1 to 8"));
    CU_ASSERT(refuses("clos:radix=8,levels=9", -EINVAL, "levels must be 1 to 8"));
    CU_ASSERT(refuses("clos:radix=8,levels=4294967295", -EINVAL, "want clos:radix=R"));
    CU_ASSERT(refuses("clos:radix=8,over=5000000000", -EINVAL, "want clos:radix=R"));
    CU_ASSERT(refuses("clos:radix=7", -EINVAL, "radix must be even"));
    CU_ASSERT(refuses("clos:radix=8,over=2", -EINVAL, "a multiple of F + 1"));
    CU_ASSERT(refuses("clos:radix=9,levels=3,over=2", -EINVAL, "an even radix"));
    CU_ASSERT(
        refuses("clos:down=4x4", -EINVAL, "up must have one number for each level except the top"));
    CU_ASSERT(refuses("clos:down=4x4,up=4x4", -EINVAL,
                      "up must have one number for each level except the top"));
    CU_ASSERT(refuses("clos:down=4x4,up=4,cables=2x2", -EINVAL, "cables must have one number"));
    CU_ASSERT(refuses("clos:down=4x4,up=4,cables=3", -EINVAL, "cables must divide the ports"));
    CU_ASSERT(refuses("clos:down=200x4,up=53", -EINVAL, "at most 252 ports"));
    CU_ASSERT(refuses("clos:down=40x4,up=30", -EOVERFLOW, "need the program fabemu-wide"));
    CU_ASSERT(refuses("clos:down=4x0,up=4", -EINVAL, "at least 1"));
    CU_ASSERT(refuses("clos:down=4x,up=4", -EINVAL, "want clos"));
    CU_ASSERT(refuses("clos:down=4x4,up=4,", -EINVAL, "want clos"));
    CU_ASSERT(refuses("clos:radix=60,levels=8", -E2BIG, "too large"));
    CU_ASSERT(refuses("clos:radix=32,levels=4", -E2BIG, "too large"));
    CU_ASSERT(refuses("clos:down=1", -EINVAL, "at least 2 nodes"));
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(topo_qsnet__is_built_as_table_1_says),
        CASE(topo_qsnet__follows_the_rules_between_the_rows),
        CASE(topo_qsnet__joins_all_pairs_at_any_size),
        CASE(topo_qsnet__top_switches_of_one_router_are_one_choice),
        CASE(topo_qsnet__routes_up_spread_over_switches),
        CASE(topo_qsnet__two_chassis_need_no_top),
        CASE(topo_qsnet__links_into_a_node_are_a_choice),
        CASE(topo_qsnet__avoids_upper_routers_without_uplinks),
        CASE(topo_qsnet__trees_span_any_members),
        CASE(topo_qsnet__trees_are_spread_over_rails),
        CASE(topo_qsnet__trees_use_parallel_links_in_turn),
        CASE(topo_qsnet__errors_name_the_valid_values),
        CASE(topo_clos__counts_what_it_builds),
        CASE(topo_clos__all_links_up_are_candidates),
        CASE(topo_clos__errors_name_the_valid_values),
        {NULL, NULL},
    };

    return test_run("topo_qsnet", cases);
}
