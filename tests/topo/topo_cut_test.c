/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * topo_cut_test.c - networks partitioned over several hosts: every switch has a host, shares are
 * fair, and for small networks no fair cut crosses fewer cables.
 */
#include <errno.h>
#include <string.h>

#include "tests/test.h"
#include "tests/fixtures/graphs.h"

#define SWITCHES_MOST 4096

static const char *const networks[] = {
    "kary:2,1",
    "kary:2,2",
    "kary:4,2",
    "kary:2,4",
    "kary:3,3",
    "kary:4,3",
    "kary:16,2",
    "qsnet:16",
    "qsnet:128",
    "qsnet:300",
    "qsnet:64,links=2",
    "qsnet:200,links=2,apart=router",
    "qsnet:1024",
    "qsnet:64,rails=2",
    "clos:radix=8,levels=2",
    "clos:radix=8,levels=3,over=3",
    "clos:down=6x4,up=2,cables=2",
};
#define NETWORKS (sizeof networks / sizeof networks[0])

/* A cut, with the properties required of every cut. */
struct cut {
    struct topo_graph *graph;
    uint32_t hosts;
    const uint32_t *share; /* shares of the hosts; NULL: equal */
    uint32_t shares;
    uint32_t host_of[SWITCHES_MOST];
    uint32_t switches[TOPO_HOSTS_MAX];
    uint32_t nodes[TOPO_HOSTS_MAX];
    uint32_t between[TOPO_HOSTS_MAX * TOPO_HOSTS_MAX];
    uint32_t crossing;
};

static uint32_t share_of(const struct cut *c, uint32_t host)
{
    return c->share ? c->share[host] : 1;
}

static uint32_t most_nodes(const struct topo_graph *graph)
{
    uint32_t nodes[SWITCHES_MOST] = {0}, most = 0;

    for (uint32_t n = 0; n < graph->nodes; n++)
        nodes[topo_first_link(graph, n)->sw]++;
    for (uint32_t s = 0; s < graph->switches; s++)
        most = nodes[s] > most ? nodes[s] : most;
    return most;
}

static uint32_t switches_with_nodes(const struct topo_graph *graph)
{
    bool has[SWITCHES_MOST] = {false};
    uint32_t count = 0;

    for (uint32_t n = 0; n < graph->nodes; n++) {
        uint32_t s = topo_first_link(graph, n)->sw;

        count += !has[s];
        has[s] = true;
    }
    return count;
}

static void count_parts(struct cut *c)
{
    memset(c->switches, 0, sizeof c->switches);
    memset(c->nodes, 0, sizeof c->nodes);
    for (uint32_t s = 0; s < c->graph->switches; s++)
        c->switches[c->host_of[s]]++;
    for (uint32_t n = 0; n < c->graph->nodes; n++)
        c->nodes[c->host_of[topo_first_link(c->graph, n)->sw]]++;
}

/* Each host has its share of the nodes, to within @most. */
static bool nodes_fair(const struct cut *c, uint32_t most)
{
    for (uint32_t h = 0; h < c->hosts; h++) {
        int64_t off = (int64_t)c->nodes[h] * c->shares - (int64_t)c->graph->nodes * share_of(c, h);

        if (off > (int64_t)most * c->shares || -off > (int64_t)most * c->shares)
            return false;
    }
    return true;
}

static bool switches_fair(const struct cut *c)
{
    for (uint32_t h = 0; h < c->hosts; h++) {
        int64_t off = (int64_t)c->switches[h] * c->shares -
                      (int64_t)c->graph->switches * share_of(c, h);

        if (!c->switches[h] || off >= 2 * (int64_t)c->shares || -off >= 2 * (int64_t)c->shares)
            return false;
    }
    return true;
}

static void cut(struct cut *c, const uint32_t *share)
{
    char error[160] = "";

    c->share = share;
    c->shares = 0;
    for (uint32_t h = 0; h < c->hosts; h++)
        c->shares += share_of(c, h);
    CU_ASSERT_FATAL(c->graph->switches <= SWITCHES_MOST);
    memset(c->host_of, 0xff, sizeof c->host_of);
    CU_ASSERT_EQUAL_FATAL(topo_cut(c->graph, c->hosts, share, c->host_of, error, sizeof error), 0);
    for (uint32_t s = 0; s < c->graph->switches; s++)
        CU_ASSERT_FATAL(c->host_of[s] < c->hosts);
    count_parts(c);
    c->crossing = topo_cut_cables(c->graph, c->host_of, c->hosts, c->between);
}

/*
 * Is the smallest share at least one switch with nodes? Each host gets one of these, at the expense
 * of the others.
 */
static bool all_can_have_nodes(const struct cut *c)
{
    uint32_t leaves = switches_with_nodes(c->graph);

    for (uint32_t h = 0; h < c->hosts; h++)
        if (leaves * share_of(c, h) < c->shares)
            return false;
    return true;
}

/* --- all cuts ----------------------------------------------------------------------- */

static void holds(struct cut *c)
{
    uint32_t again[SWITCHES_MOST], sum = 0;
    char error[160];

    for (uint32_t h = 0; h < c->hosts; h++) {
        CU_ASSERT(c->switches[h] > 0);
        CU_ASSERT_EQUAL(c->between[h * c->hosts + h], 0);
        for (uint32_t g = 0; g < c->hosts; g++) {
            CU_ASSERT_EQUAL(c->between[h * c->hosts + g], c->between[g * c->hosts + h]);
            sum += c->between[h * c->hosts + g];
        }
    }
    CU_ASSERT_EQUAL(sum, 2 * c->crossing);
    CU_ASSERT_EQUAL(topo_cut_cables(c->graph, c->host_of, c->hosts, NULL), c->crossing);
    CU_ASSERT_EQUAL(topo_cut(c->graph, c->hosts, c->share, again, error, sizeof error), 0);
    CU_ASSERT_EQUAL(memcmp(again, c->host_of, c->graph->switches * sizeof again[0]), 0);
    if (all_can_have_nodes(c) && !nodes_fair(c, most_nodes(c->graph))) {
        printf("%s on %u hosts: unfair\n", c->graph->spec, c->hosts);
        CU_FAIL("nodes are shared fairly");
    }
}

static void topo_cut__places_every_switch_and_shares_nodes(void)
{
    static const uint32_t shares[] = {1, 2, 3, 1, 5, 1, 2, 1};
    static struct cut c;

    for (size_t i = 0; i < NETWORKS; i++) {
        c.graph = graph_of(networks[i]);
        for (c.hosts = 1; c.hosts <= 8 && c.hosts <= c.graph->switches; c.hosts++) {
            cut(&c, NULL);
            holds(&c);
            CU_ASSERT(c.hosts > 1 || c.crossing == 0);
            cut(&c, shares);
            holds(&c);
        }
        topo_free(c.graph);
    }
}

static void topo_cut__refuses_more_hosts_than_switches(void)
{
    struct topo_graph *graph = graph_of("kary:2,2");
    struct topo_graph *large = graph_of("kary:16,2");
    uint32_t host_of[32];
    char error[160];

    CU_ASSERT_EQUAL(topo_cut(graph, 5, NULL, host_of, error, sizeof error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error, "5 hosts are too many for 4 switches: each must have one");
    CU_ASSERT_EQUAL(topo_cut(graph, 0, NULL, host_of, error, sizeof error), -EINVAL);
    CU_ASSERT_EQUAL(topo_cut(large, 65, NULL, host_of, error, sizeof error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error, "65 hosts are too many: a fabric can have at most 64");
    topo_free(large);
    topo_free(graph);
}

/* --- the best cut ------------------------------------------------------------------- */

struct best {
    struct cut c;
    uint32_t leaf; /* most nodes on one switch */
    uint32_t least;
};

/* Try all fair cuts of switches @s and above; those below are fixed. */
static void try_all(struct best *b, uint32_t s, uint32_t used)
{
    struct cut *c = &b->c;

    if (s == c->graph->switches) {
        count_parts(c);
        if (switches_fair(c) && nodes_fair(c, b->leaf)) {
            uint32_t crossing = topo_cut_cables(c->graph, c->host_of, c->hosts, NULL);
            b->least = crossing < b->least ? crossing : b->least;
        }
        return;
    }
    /* hosts are interchangeable: assign new ones in order */
    for (uint32_t h = 0; h < c->hosts && h <= used; h++) {
        c->host_of[s] = h;
        try_all(b, s + 1, used + (h == used));
    }
}

static uint32_t least_crossing(const struct cut *c)
{
    static struct best b;

    b.c = *c;
    b.least = UINT32_MAX;
    b.leaf = most_nodes(c->graph);
    try_all(&b, 0, 0);
    return b.least;
}

static void is_best(struct cut *c)
{
    uint32_t least;

    cut(c, NULL);
    least = least_crossing(c);
    if (c->crossing > least)
        printf("%s on %u hosts: %u cables cross, and %u need\n", c->graph->spec, c->hosts,
               c->crossing, least);
    CU_ASSERT(switches_fair(c));
    CU_ASSERT_EQUAL(c->crossing, least);
}

static void topo_cut__crosses_the_fewest_cables(void)
{
    static const struct {
        const char *spec;
        uint32_t hosts;
    } rows[] = {
        {"kary:2,2", 2},
        {"kary:2,2", 3},
        {"kary:2,2", 4},
        {"kary:3,2", 2},
        {"kary:3,2", 3},
        {"kary:4,2", 2},
        {"kary:4,2", 3},
        {"kary:4,2", 4},
        {"kary:2,3", 2},
        {"kary:2,3", 3},
        {"kary:2,3", 4},
        {"qsnet:40,links=2", 2},
        {"clos:radix=4,levels=2", 2},
        {"clos:down=6x4,up=2,cables=2", 2},
        {"clos:down=6x4,up=2,cables=2", 3},
    };
    static struct cut c;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        c.graph = graph_of(rows[i].spec);
        c.hosts = rows[i].hosts;
        if (c.graph->switches <= 12)
            is_best(&c);
        topo_free(c.graph);
    }
}

/*
 * A K-ary tree on K hosts: each top switch keeps one of its K cables local, and each pair of hosts
 * gets the same number.
 */
static void topo_cut__halves_trees_at_the_top(void)
{
    static const struct {
        const char *spec;
        uint32_t k, tops;
    } rows[] = {{"kary:2,4", 2, 8},  {"kary:2,6", 2, 32}, {"kary:3,3", 3, 9}, {"kary:4,3", 4, 16},
                {"kary:5,3", 5, 25}, {"kary:8,2", 8, 8},  {"kary:4,4", 4, 64}};
    static struct cut c;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t k = rows[i].k;

        c.graph = graph_of(rows[i].spec);
        c.hosts = k;
        cut(&c, NULL);
        CU_ASSERT_EQUAL(c.crossing, (k - 1) * rows[i].tops);
        for (uint32_t h = 0; h < k * k; h++)
            CU_ASSERT_EQUAL(c.between[h], h / k == h % k ? 0 : 2 * rows[i].tops / k);
        topo_free(c.graph);
    }
}

/* --- files -------------------------------------------------------------------------- */

/* The lines of a tree of two pods, shuffled, so that switch numbers do not reveal the pods. */
static struct topo_graph *shuffled_pods(uint64_t *random)
{
    static const char *const device[] = {
        "Switch 8 \"a1\"\n[1] \"n1\"[1]\n[2] \"n2\"[1]\n[3] \"a3\"[1]\n[4] \"a4\"[1]\n",
        "Switch 8 \"a2\"\n[1] \"n3\"[1]\n[2] \"n4\"[1]\n[3] \"a3\"[2]\n[4] \"a4\"[2]\n",
        "Switch 8 \"a3\"\n[3] \"t1\"[1]\n",
        "Switch 8 \"a4\"\n[3] \"t2\"[1]\n",
        "Switch 8 \"b1\"\n[1] \"m1\"[1]\n[2] \"m2\"[1]\n[3] \"b3\"[1]\n[4] \"b4\"[1]\n",
        "Switch 8 \"b2\"\n[1] \"m3\"[1]\n[2] \"m4\"[1]\n[3] \"b3\"[2]\n[4] \"b4\"[2]\n",
        "Switch 8 \"b3\"\n[3] \"t1\"[2]\n",
        "Switch 8 \"b4\"\n[3] \"t2\"[2]\n",
        "Switch 8 \"t1\"\n",
        "Switch 8 \"t2\"\n",
        "Ca 1 \"n1\"\n",
        "Ca 1 \"n2\"\n",
        "Ca 1 \"n3\"\n",
        "Ca 1 \"n4\"\n",
        "Ca 1 \"m1\"\n",
        "Ca 1 \"m2\"\n",
        "Ca 1 \"m3\"\n",
        "Ca 1 \"m4\"\n",
    };
    enum { DEVICES = sizeof device / sizeof device[0] };
    struct topo_graph *graph = NULL;
    uint32_t order[DEVICES];
    char text[2048] = "", error[320] = "";

    for (uint32_t i = 0; i < DEVICES; i++)
        order[i] = i;
    test_shuffle(random, order, DEVICES, DEVICES);
    for (uint32_t i = 0; i < DEVICES; i++)
        strcat(text, device[order[i]]);
    CU_ASSERT_EQUAL_FATAL(topo_read(&graph, "pods", text, strlen(text), error, sizeof error), 0);
    return graph;
}

static void topo_cut__finds_pods_whatever_their_numbers(void)
{
    uint64_t random = test_seed();
    static struct cut c;

    c.hosts = 2;
    for (uint32_t i = 0; i < 50; i++) {
        c.graph = shuffled_pods(&random);
        is_best(&c);
        holds(&c);
        topo_free(c.graph);
    }
}

/* --- workers ------------------------------------------------------------------------ */

static void topo_partition__skips_switches_of_other_hosts(void)
{
    static struct cut c;
    uint32_t worker_of[SWITCHES_MOST], all[SWITCHES_MOST];

    c.graph = graph_of("kary:4,3");
    c.hosts = 3;
    cut(&c, NULL);
    for (uint32_t h = 0; h < c.hosts; h++) {
        uint32_t count[2] = {0};

        topo_partition_of_host(c.graph, c.host_of, h, 2, worker_of);
        for (uint32_t s = 0; s < c.graph->switches; s++) {
            CU_ASSERT_EQUAL(worker_of[s] == TOPO_NONE, c.host_of[s] != h);
            if (worker_of[s] != TOPO_NONE)
                count[worker_of[s]]++;
        }
        CU_ASSERT(count[0] - count[1] <= 1 || count[1] - count[0] <= 1);
    }
    topo_partition_of_host(c.graph, NULL, 0, 3, worker_of);
    topo_partition(c.graph, 3, all);
    CU_ASSERT_EQUAL(memcmp(all, worker_of, c.graph->switches * sizeof all[0]), 0);
    topo_free(c.graph);
}

int main(void)
{
    const struct test_case cases[] = {
        CASE(topo_cut__places_every_switch_and_shares_nodes),
        CASE(topo_cut__refuses_more_hosts_than_switches),
        CASE(topo_cut__crosses_the_fewest_cables),
        CASE(topo_cut__halves_trees_at_the_top),
        CASE(topo_cut__finds_pods_whatever_their_numbers),
        CASE(topo_partition__skips_switches_of_other_hosts),
        {NULL, NULL},
    };

    return test_run("topo_cut", cases);
}
