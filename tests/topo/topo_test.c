/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo_test.c - graphs, routes, collective trees, partitions.
 */
#include <errno.h>
#include <string.h>

#include "tests/test.h"
#include "tests/fixtures/graphs.h"

/* Trees of every shape that is small enough to check all pairs. */
static const char *const small_trees[] = {
    "kary:2,1", "kary:60,1", "kary:2,2", "kary:3,3",  "kary:2,5",
    "kary:4,2", "kary:4,4",  "kary:5,3", "kary:16,2",
};
#define SMALL_TREES (sizeof small_trees / sizeof small_trees[0])

static bool refuses(const char *spec, int want_err, const char *want_error)
{
    struct topo_graph *graph = NULL;
    char error[200] = "";
    int err = topo_parse(&graph, spec, error, sizeof error);
    bool as_wanted = err == want_err && !graph && strcmp(error, want_error) == 0;

    if (!as_wanted)
        printf("'%s': %d, %s\n", spec, err, error);
    topo_free(graph);
    return as_wanted;
}

#define WANT "want kary:K,N, for example kary:4,2 (16 nodes)"
#define WANT_ANY \
    "want kary:K,N, qsnet:N, clos:radix=R,levels=L, or a file (./NAME); see fabemu topo --help"

/* Every spec is refused, and the error quotes it and names the valid values. */
static void refuses_all(const char *const *specs, int want_err, const char *want)
{
    char error[200];

    for (; *specs; specs++) {
        snprintf(error, sizeof error, "bad topology '%s': %s", *specs, want);
        CU_ASSERT(refuses(*specs, want_err, error));
    }
}

static void topo_parse__errors_name_the_valid_values(void)
{
    static const char *const kary[] = {"kary:4", "kary:", "kary:,2", "kary:4,", "kary:a,b", NULL};
    static const char *const other[] = {"", "k", "ring:4,2", "KARY:4,2", NULL};
    static const char *const similar[] = {"kray:4,2", "kary4,2", " kary:4,2", NULL};

    refuses_all(kary, -EINVAL, WANT);
    refuses_all(other, -EINVAL, WANT_ANY);
    refuses_all(similar, -EINVAL, WANT_ANY "; did you mean 'kary'?");
    CU_ASSERT(refuses(".", -EINVAL,
                      "bad topology '.': the name of a file must contain a '/', as in ./NAME, or "
                      "end in .topo, .txt or .net"));
}

static void topo_parse__refuses_signs_and_spaces(void)
{
    static const char *const kary[] = {"kary:-4,2", "kary:4,-2", "kary:+4,2", "kary: 4,2", NULL};

    refuses_all(kary, -EINVAL, WANT);
}

static void topo_parse__refuses_trailing_junk(void)
{
    static const char *const kary[] = {"kary:4,2x", "kary:4,2,1", "kary:4,2 ", NULL};

    refuses_all(kary, -EINVAL, WANT);
    CU_ASSERT(refuses("kary:4,2\n", -EINVAL, "bad topology 'kary:4,2?': " WANT));
}

static void topo_parse__refuses_impossible_radixes(void)
{
    static const char *const small[] = {"kary:0,2", "kary:1,2", "kary:4,0", NULL};
    static const char *const ports[] = {"kary:127,2", "kary:253,1", "kary:4294967298,2", NULL};
    static const char *const nodes[] = {"kary:16,6", "kary:2,21", "kary:2,18446744073709551617",
                                        NULL};

    refuses_all(small, -EINVAL,
                "K must be at least 2, and N at least 1, as in kary:4,2 (16 nodes)");
    refuses_all(ports, -EINVAL, "K is too large: a switch has 2K ports (K if N is 1), at most 252");
    CU_ASSERT(refuses("kary:31,2", -EOVERFLOW,
                      "bad topology 'kary:31,2': switches of 62 ports need the program "
                      "fabemu-wide, which is not installed: build it with -Dwide=enabled"));
    CU_ASSERT(refuses("kary:252,1", -EOVERFLOW,
                      "bad topology 'kary:252,1': switches of 252 ports need the program "
                      "fabemu-wide, which is not installed: build it with -Dwide=enabled"));
    refuses_all(nodes, -E2BIG, "too large: K to the power of N is at most 1048576 nodes");
}

/* The error line of a long text is shortened and still ends with the valid values. */
static void topo_parse__shortens_long_text(void)
{
    char spec[1000], error[160], tiny[8];
    struct topo_graph *graph = NULL;

    memset(spec, '7', sizeof spec);
    memcpy(spec, "kary:", 5);
    spec[sizeof spec - 1] = '\0';
    CU_ASSERT_EQUAL(topo_parse(&graph, spec, error, sizeof error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "777...': " WANT));
    CU_ASSERT_EQUAL(topo_parse(&graph, spec, tiny, sizeof tiny), -EINVAL);
    CU_ASSERT_STRING_EQUAL(tiny, "bad top");
    CU_ASSERT_EQUAL(topo_parse(&graph, spec, NULL, 0), -EINVAL);
    CU_ASSERT_PTR_NULL(graph);
}

static void topo_parse__counts_what_it_builds(void)
{
    static const struct graph_size rows[] = {
        {"kary:4,2", "kary:4,2", 16, 8, 8, 2, 3},
        {"kary:016,02", "kary:16,2", 256, 32, 32, 2, 3}, /* the OQ paper's two networks */
        {"kary:4,4", "kary:4,4", 256, 256, 8, 4, 7},
        {"kary:8,1", "kary:8,1", 8, 1, 8, 1, 1},
        {"kary:60,1", "kary:60,1", 60, 1, 60, 1, 1},
        {"kary:30,2", "kary:30,2", 900, 60, 60, 2, 3},
        {"kary:16,4", "kary:16,4", 65536, 16384, 32, 4, 7},
    };

    graph_counts(rows, sizeof rows / sizeof rows[0]);
}

static void digits_of(uint32_t w, uint32_t k, uint32_t digit[8])
{
    for (int i = 0; i < 8; i++, w /= k)
        digit[i] = w % k;
}

/* Is child port @up cabled to parent port @down? By the definition, digit by digit. */
static bool cabled_by_rule(uint32_t k, uint32_t level, uint32_t child, uint32_t up, uint32_t parent,
                           uint32_t down)
{
    uint32_t c[8], p[8];

    digits_of(child, k, c);
    digits_of(parent, k, p);
    for (uint32_t i = 0; i < 8; i++)
        if (i != level && c[i] != p[i])
            return false;
    return up == k + p[level] && down == c[level];
}

static void topo_parse__cables_as_numbered(void)
{
    const uint32_t k = 3, n = 4, row = 27;
    struct topo_graph *graph = graph_of("kary:3,4");
    uint32_t bad = 0;

    for (uint32_t p = 0; p < graph->nodes; p++)
        bad += graph->node[p].link[0].sw != p / k || graph->node[p].link[0].port != p % k;
    for (uint32_t s = 0; s < graph->switches; s++) {
        uint32_t level = s / row;

        bad += graph->sw[s].level != level;
        for (uint32_t port = k; port < 2 * k; port++) {
            const struct topo_end *end = &graph->sw[s].end[port];

            if (level == n - 1)
                bad += end->kind != TOPO_END_NONE;
            else
                bad += end->kind != TOPO_END_SWITCH || end->id / row != level + 1 ||
                       !cabled_by_rule(k, level, s % row, port, end->id % row, end->port);
        }
    }
    CU_ASSERT_EQUAL(bad, 0);
    topo_free(graph);
}

static void topo_parse__memory_is_linear_in_nodes(void)
{
    static const char *const specs[] = {"kary:16,2", "kary:16,3", "kary:16,4"};

    for (size_t i = 0; i < 3; i++) {
        struct topo_graph *graph = graph_of(specs[i]);
        size_t node_level_bytes = graph->bytes / graph->nodes / graph->levels;

        CU_ASSERT(node_level_bytes >= 16 && node_level_bytes <= 48);
        topo_free(graph);
    }
}

/* In a k-ary n-tree the most significant digit in which the nodes differ gives the hops. */
static uint32_t hops_by_rule(const struct topo_graph *graph, uint32_t src, uint32_t dst)
{
    uint32_t k = graph->levels == 1 ? graph->ports : graph->ports / 2;
    uint32_t level = 0;

    for (src /= k, dst /= k; src != dst; src /= k, dst /= k)
        level++;
    return 2 * level + 1;
}

static void topo_route_ports__any_choice_arrives(void)
{
    uint64_t random = test_seed();

    for (size_t i = 0; i < SMALL_TREES; i++) {
        struct topo_graph *graph = graph_of(small_trees[i]);
        uint32_t lost = 0, long_way = 0;

        for (uint32_t src = 0; src < graph->nodes; src++)
            for (uint32_t dst = 0; dst < graph->nodes; dst++) {
                uint32_t hops = topo_hops(graph, src, dst);

                lost += graph_walk(graph, src, dst, &random) != hops;
                long_way += hops != hops_by_rule(graph, src, dst);
            }
        CU_ASSERT_EQUAL(lost, 0);
        CU_ASSERT_EQUAL(long_way, 0);
        topo_free(graph);
    }
}

static void topo_check__accepts_every_tree(void)
{
    for (size_t i = 0; i < SMALL_TREES; i++) {
        struct topo_graph *graph = graph_of(small_trees[i]);

        CU_ASSERT(graph_passes(graph));
        topo_free(graph);
    }
}

/* Break one field, see the graph refused, restore the field. */
#define REFUSED_WITH(field, value)            \
    do {                                      \
        uint64_t was = (field);               \
        (field) = (value);                    \
        CU_ASSERT_FALSE(graph_passes(graph)); \
        (field) = was;                        \
    } while (0)

static void topo_check__refuses_bad_cabling(void)
{
    struct topo_graph *graph = graph_of("kary:4,3");
    struct topo_end *up = &graph->sw[5].end[6], *down = &graph->sw[5].end[1];

    REFUSED_WITH(up->kind, TOPO_END_NONE);
    REFUSED_WITH(up->kind, TOPO_END_NODE);
    REFUSED_WITH(up->kind, 9);
    REFUSED_WITH(up->port, up->port + 1);
    REFUSED_WITH(up->port, 8);
    REFUSED_WITH(up->id, graph->switches);
    REFUSED_WITH(up->id, up->id + 1);
    REFUSED_WITH(down->id, down->id + 1);
    REFUSED_WITH(down->id, graph->nodes);
    REFUSED_WITH(graph->node[7].link[0].sw, 2);
    REFUSED_WITH(graph->node[7].link[0].sw, graph->switches);
    REFUSED_WITH(graph->node[7].link[0].port, 8);
    CU_ASSERT(graph_passes(graph));
    topo_free(graph);
}

static void topo_check__refuses_bad_routes(void)
{
    struct topo_graph *graph = graph_of("kary:4,3");
    struct topo_switch *middle = &graph->sw[16 + 3];
    struct topo_route *route = &middle->route, *leaf = &graph->sw[3].route;
    uint64_t sets[] = {1, 2, 4, 8};

    route->sets = sets;            /* its own copy: the other switches' sets stay intact */
    REFUSED_WITH(leaf->stride, 4); /* one port, four nodes */
    REFUSED_WITH(route->first, route->first + 4);
    REFUSED_WITH(route->first, graph->nodes);
    REFUSED_WITH(route->span, 0); /* nodes below would be routed up for ever */
    REFUSED_WITH(route->span, route->span + 1);
    REFUSED_WITH(route->stride, 0);
    REFUSED_WITH(route->stride, 8);
    REFUSED_WITH(route->sets[2], 0);
    REFUSED_WITH(route->sets[2], 1 << 1); /* down, but to other nodes */
    REFUSED_WITH(route->sets[2], 1 << 5); /* up and down for ever */
    REFUSED_WITH(route->sets[2], 1 << 8);
    REFUSED_WITH(route->elsewhere, 0);
    REFUSED_WITH(route->elsewhere, 1 << 0);
    REFUSED_WITH(route->elsewhere, 1 << 8);
    REFUSED_WITH(middle->level, 3);
    REFUSED_WITH(middle->level, 0);
    CU_ASSERT(graph_passes(graph));
    topo_free(graph);
}

static void topo_spec_for_nodes__finds_the_least_radix(void)
{
    static const struct {
        uint32_t nodes;
        const char *spec;
    } rows[] = {
        {1, "kary:2,2"},     {4, "kary:2,2"},      {5, "kary:3,2"},        {16, "kary:4,2"},
        {17, "kary:5,2"},    {256, "kary:16,2"},   {257, "kary:16,3"},     {4096, "kary:16,3"},
        {4097, "kary:16,4"}, {65536, "kary:16,4"}, {1048576, "kary:16,5"},
    };
    char spec[64], error[160];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CU_ASSERT_EQUAL(topo_spec_for_nodes(rows[i].nodes, spec, sizeof spec, error, sizeof error),
                        0);
        CU_ASSERT_STRING_EQUAL(spec, rows[i].spec);
    }
}

static void topo_spec_for_nodes__refuses_none_and_too_many(void)
{
    char spec[64], error[160];

    CU_ASSERT_EQUAL(topo_spec_for_nodes(0, spec, sizeof spec, error, sizeof error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error, "there is no topology for 0 nodes: want 1 to 1048576");
    CU_ASSERT_EQUAL(topo_spec_for_nodes(1048577, spec, sizeof spec, error, sizeof error), -EINVAL);
    CU_ASSERT_EQUAL(topo_spec_for_nodes(UINT32_MAX, spec, sizeof spec, error, sizeof error),
                    -EINVAL);
    CU_ASSERT_EQUAL(topo_spec_for_nodes(16, spec, 8, error, sizeof error), -EINVAL);
}

static void topo_tree_build__spans_any_members(void)
{
    uint64_t random = test_seed();

    for (size_t i = 0; i < SMALL_TREES; i++) {
        struct topo_graph *graph = graph_of(small_trees[i]);
        uint32_t *load = calloc(graph->switches, sizeof *load);

        for (uint32_t round = 0; round < 60; round++) {
            uint32_t most = round % 3 ? graph->nodes : 4; /* small sets often */
            uint32_t count = 2 + (uint32_t)(test_random(&random) % (most - 1));

            count = count > graph->nodes ? graph->nodes : count;
            uint32_t *members = graph_members(graph, count, &random);
            struct topo_tree tree;
            CU_ASSERT_EQUAL_FATAL(topo_tree_build(&tree, graph, members, count, load), 0);
            CU_ASSERT_EQUAL(graph_tree_faults(graph, &tree, members, count), 0);
            topo_tree_charge(&tree, load, 1);
            topo_tree_release(&tree);
            free(members);
        }
        free(load);
        topo_free(graph);
    }
}

/* The root is the lowest possible switch, so a tree has few switches. */
static void topo_tree_build__climbs_no_higher_than_needed(void)
{
    struct topo_graph *graph = graph_of("kary:4,4");
    uint32_t *load = calloc(graph->switches, sizeof *load);
    static const struct {
        uint32_t members[2], level, switches;
    } rows[] = {
        {{8, 9}, 0, 1},
        {{9, 12}, 1, 3},
        {{16, 0}, 2, 5},
        {{0, 255}, 3, 7},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct topo_tree tree;

        CU_ASSERT_EQUAL_FATAL(topo_tree_build(&tree, graph, rows[i].members, 2, load), 0);
        CU_ASSERT_EQUAL(graph->sw[tree.switches[0].sw].level, rows[i].level);
        CU_ASSERT_EQUAL(tree.count, rows[i].switches);
        for (uint32_t j = 1; j < tree.count; j++) /* equal loads: the lowest port up */
            CU_ASSERT_EQUAL(tree.switches[j].up, 4);
        topo_tree_release(&tree);
    }
    free(load);
    topo_free(graph);
}

static void topo_tree_build__refuses_bad_members(void)
{
    struct topo_graph *graph = graph_of("kary:4,2");
    uint32_t *load = calloc(graph->switches, sizeof *load);
    struct topo_tree tree;

    CU_ASSERT_EQUAL(topo_tree_build(&tree, graph, NULL, 0, load), -EINVAL);
    CU_ASSERT_EQUAL(topo_tree_build(&tree, graph, (uint32_t[]){3}, 1, load), -EINVAL);
    CU_ASSERT_EQUAL(topo_tree_build(&tree, graph, (uint32_t[]){3, 16}, 2, load), -EINVAL);
    CU_ASSERT_EQUAL(topo_tree_build(&tree, graph, (uint32_t[]){UINT32_MAX, 3}, 2, load), -EINVAL);
    CU_ASSERT_EQUAL(topo_tree_build(&tree, graph, (uint32_t[]){3, 3}, 2, load), -EINVAL);
    CU_ASSERT_EQUAL(topo_tree_build(&tree, graph, (uint32_t[]){3, 9, 3}, 3, load), -EINVAL);
    free(load);
    topo_free(graph);
}

/* Switch 0 has lost its links up: members below it and elsewhere cannot be joined. */
static void topo_tree_build__refuses_the_unreachable(void)
{
    static const struct topo_at cut[] = {{0, 4}, {0, 5}, {0, 6}, {0, 7}};
    struct topo_graph *whole = graph_of("kary:4,2"), *graph = NULL;
    uint32_t *load = calloc(whole->switches, sizeof *load);
    uint64_t unreachable = 0;
    struct topo_tree tree;

    CU_ASSERT_EQUAL_FATAL(topo_without(&graph, whole, cut, 4, &unreachable), 0);
    /* nodes that switch 0 cannot reach, and its own nodes from the others */
    CU_ASSERT_EQUAL(unreachable, 12 + 3 * 4);
    CU_ASSERT_EQUAL(topo_tree_build(&tree, graph, (uint32_t[]){0, 9}, 2, load), -EHOSTUNREACH);
    CU_ASSERT_EQUAL(topo_tree_build(&tree, graph, (uint32_t[]){0, 1}, 2, load), 0);
    topo_tree_release(&tree);
    free(load);
    topo_free(graph);
    topo_free(whole);
}

/* Add a cable that no generator makes. */
static void cable(struct topo_graph *graph, uint32_t a, uint8_t a_port, uint32_t b, uint8_t b_port)
{
    graph->sw[a].end[a_port] = (struct topo_end){.kind = TOPO_END_SWITCH, .port = b_port, .id = b};
    graph->sw[b].end[b_port] = (struct topo_end){.kind = TOPO_END_SWITCH, .port = a_port, .id = a};
}

/*
 * kary:4,2 becomes two leaves with four cables each to one top switch: four equal links down to
 * every node, of which a tree may use only one.
 */
static void topo_tree_build__uses_one_of_several_links_down(void)
{
    struct topo_graph *graph = graph_of("kary:4,2");
    uint64_t sets[] = {0x0f, 0xf0};
    uint32_t load[3] = {0};
    struct topo_tree tree;

    graph->nodes = 8;
    graph->switches = 3;
    graph->sw[2].level = 1;
    graph->sw[2].route = (struct topo_route){.span = 8, .stride = 4, .spread = 1, .sets = sets};
    for (uint8_t i = 0; i < 4; i++) {
        cable(graph, 0, 4 + i, 2, i);
        cable(graph, 1, 4 + i, 2, 4 + i);
    }
    CU_ASSERT_FATAL(graph_passes(graph));

    const uint32_t members[] = {6, 0, 1, 4, 5, 3};
    CU_ASSERT_EQUAL_FATAL(topo_tree_build(&tree, graph, members, 6, load), 0);
    CU_ASSERT_EQUAL(graph_tree_faults(graph, &tree, members, 6), 0);
    CU_ASSERT_EQUAL(tree.count, 3);
    topo_tree_release(&tree);
    topo_free(graph);
}

static void topo_tree_build__same_input_same_tree(void)
{
    struct topo_graph *graph = graph_of("kary:4,3");
    uint64_t random = test_seed();
    uint32_t *load = calloc(graph->switches, sizeof *load);
    uint32_t *members = graph_members(graph, 20, &random);
    struct topo_tree one, two;

    CU_ASSERT_EQUAL_FATAL(topo_tree_build(&one, graph, members, 20, load), 0);
    CU_ASSERT_EQUAL_FATAL(topo_tree_build(&two, graph, members, 20, load), 0);
    CU_ASSERT_EQUAL_FATAL(one.count, two.count);
    for (uint32_t i = 0; i < one.count; i++) {
        CU_ASSERT_EQUAL(one.switches[i].sw, two.switches[i].sw);
        CU_ASSERT_EQUAL(one.switches[i].up, two.switches[i].up);
        CU_ASSERT_EQUAL(one.switches[i].ports, two.switches[i].ports);
    }
    topo_tree_release(&one);
    topo_tree_release(&two);
    free(members);
    free(load);
    topo_free(graph);
}

static uint32_t top_load_spread(const struct topo_graph *graph, const uint32_t *load)
{
    uint32_t least = UINT32_MAX, most = 0;

    for (uint32_t s = 0; s < graph->switches; s++)
        if (graph->sw[s].level == graph->levels - 1) {
            least = load[s] < least ? load[s] : least;
            most = load[s] > most ? load[s] : most;
        }
    return most - least;
}

static void topo_tree_build__spreads_over_the_tops(void)
{
    static const char *const specs[] = {"kary:4,2", "kary:4,3", "kary:2,5", "kary:16,2"};

    for (size_t i = 0; i < 4; i++) {
        struct topo_graph *graph = graph_of(specs[i]);
        uint32_t *load = calloc(graph->switches, sizeof *load);
        uint32_t *members = calloc(graph->nodes, sizeof *members);
        uint32_t uneven = 0;

        for (uint32_t n = 0; n < graph->nodes; n++)
            members[n] = n;
        for (uint32_t trees = 0; trees < 70; trees++) {
            struct topo_tree tree;

            CU_ASSERT_EQUAL_FATAL(topo_tree_build(&tree, graph, members, graph->nodes, load), 0);
            topo_tree_charge(&tree, load, 1);
            topo_tree_release(&tree);
            uneven += top_load_spread(graph, load) > 1;
        }
        CU_ASSERT_EQUAL(uneven, 0);
        free(members);
        free(load);
        topo_free(graph);
    }
}

static void topo_tree_release__reverts_charge(void)
{
    struct topo_graph *graph = graph_of("kary:4,2");
    uint32_t load[8] = {0};
    struct topo_tree tree;

    CU_ASSERT_EQUAL_FATAL(topo_tree_build(&tree, graph, (uint32_t[]){1, 15}, 2, load), 0);
    topo_tree_charge(&tree, load, 1);
    CU_ASSERT_EQUAL(load[0] + load[3], 2);
    CU_ASSERT_EQUAL(load[tree.switches[0].sw], 1);
    topo_tree_charge(&tree, load, -1);
    for (uint32_t s = 0; s < 8; s++)
        CU_ASSERT_EQUAL(load[s], 0);
    topo_tree_release(&tree);
    topo_tree_release(&tree); /* a second time: no effect */
    topo_free(graph);
}

/*
 * With one worker no cable crosses; with a worker per switch every cable does; other counts lie in
 * between.
 */
static void topo_partition__crossings_are_no_more_than_cables(void)
{
    static const char *const specs[] = {"kary:4,3", "qsnet:128", "clos:radix=8,levels=3"};
    char error[256];

    for (unsigned i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct topo_crossings got[3];
        struct topo_graph *graph;
        uint32_t *worker_of;

        CU_ASSERT_EQUAL_FATAL(topo_parse(&graph, specs[i], error, sizeof error), 0);
        worker_of = calloc(graph->switches, sizeof *worker_of);
        for (unsigned k = 0; k < 3; k++) {
            topo_partition(graph, k == 0 ? 1 : k == 1 ? 4 : graph->switches, worker_of);
            topo_partition_crossings(graph, worker_of, &got[k]);
        }
        CU_ASSERT_TRUE(got[0].segments > 0 && got[0].cables > got[0].segments);
        CU_ASSERT_TRUE(got[0].cables < got[0].segments * graph->longest);
        CU_ASSERT_EQUAL(got[0].others, 0);
        CU_ASSERT_TRUE(got[1].others > 0 && got[1].others < got[1].cables);
        CU_ASSERT_EQUAL(got[2].others, got[2].cables);
        CU_ASSERT_EQUAL(got[2].cables, got[0].cables);
        free(worker_of);
        topo_free(graph);
    }
}

static void topo_partition__sizes_differ_by_one_at_most(void)
{
    for (size_t i = 0; i < SMALL_TREES; i++) {
        struct topo_graph *graph = graph_of(small_trees[i]);
        uint32_t *worker_of = calloc(graph->switches, sizeof *worker_of);

        for (uint32_t workers = 1; workers <= graph->switches + 2; workers++) {
            uint32_t *size = calloc(workers, sizeof *size);
            uint32_t bad = 0;

            topo_partition(graph, workers, worker_of);
            for (uint32_t s = 0; s < graph->switches; s++) {
                CU_ASSERT_FATAL(worker_of[s] < workers);
                size[worker_of[s]]++;
            }
            for (uint32_t w = 0; w < workers; w++)
                bad += size[w] < graph->switches / workers ||
                       size[w] > (graph->switches + workers - 1) / workers;
            CU_ASSERT_EQUAL(bad, 0);
            free(size);
        }
        free(worker_of);
        topo_free(graph);
    }
}

/* Cables between switches of one worker, in percent of all cables between switches. */
static uint32_t local_percent(const char *spec, uint32_t workers)
{
    struct topo_graph *graph = graph_of(spec);
    uint32_t *worker_of = calloc(graph->switches, sizeof *worker_of);
    uint32_t cables = 0, local = 0;

    topo_partition(graph, workers, worker_of);
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t port = 0; port < graph->ports; port++) {
            const struct topo_end *end = &graph->sw[s].end[port];

            cables += end->kind == TOPO_END_SWITCH;
            local += end->kind == TOPO_END_SWITCH && worker_of[s] == worker_of[end->id];
        }
    free(worker_of);
    topo_free(graph);
    return cables ? local * 100 / cables : 100;
}

static void topo_partition__keeps_neighbours_together(void)
{
    CU_ASSERT_EQUAL(local_percent("kary:4,2", 1), 100);
    CU_ASSERT_EQUAL(local_percent("kary:4,2", 2), 50); /* the best that K(4,4) allows */
    CU_ASSERT_EQUAL(local_percent("kary:4,4", 4), 75); /* only the top level's cables are cut */
    CU_ASSERT(local_percent("kary:4,4", 5) >= 50);
    CU_ASSERT(local_percent("kary:16,3", 16) >= 50);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(topo_parse__errors_name_the_valid_values),
        CASE(topo_parse__refuses_signs_and_spaces),
        CASE(topo_parse__refuses_trailing_junk),
        CASE(topo_parse__refuses_impossible_radixes),
        CASE(topo_parse__shortens_long_text),
        CASE(topo_parse__counts_what_it_builds),
        CASE(topo_parse__cables_as_numbered),
        CASE(topo_parse__memory_is_linear_in_nodes),
        CASE(topo_route_ports__any_choice_arrives),
        CASE(topo_check__accepts_every_tree),
        CASE(topo_check__refuses_bad_cabling),
        CASE(topo_check__refuses_bad_routes),
        CASE(topo_spec_for_nodes__finds_the_least_radix),
        CASE(topo_spec_for_nodes__refuses_none_and_too_many),
        CASE(topo_tree_build__spans_any_members),
        CASE(topo_tree_build__climbs_no_higher_than_needed),
        CASE(topo_tree_build__refuses_bad_members),
        CASE(topo_tree_build__refuses_the_unreachable),
        CASE(topo_tree_build__uses_one_of_several_links_down),
        CASE(topo_tree_build__same_input_same_tree),
        CASE(topo_tree_build__spreads_over_the_tops),
        CASE(topo_tree_release__reverts_charge),
        CASE(topo_partition__sizes_differ_by_one_at_most),
        CASE(topo_partition__crossings_are_no_more_than_cables),
        CASE(topo_partition__keeps_neighbours_together),
        {NULL, NULL},
    };

    return test_run("topo", cases);
}
