/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault_network_test.c - faults on networks: the targets of a fault, targets that do not exist, the
 * scenarios.
 */
#include <errno.h>
#include <string.h>

#include "apps/fault/fault.h"
#include "tests/test.h"
#include "tests/fixtures/graphs.h"
#include "tests/fixtures/parsed.h"
#include "tests/fixtures/fixture.h"

static struct fault_targets found(const struct topo_graph *graph, const char *text, uint64_t seed)
{
    struct fault fault = parsed(text);
    struct fault_targets targets = {0};
    char error[FAULT_ERROR_BYTES] = "";

    if (fault_targets_find(&targets, &fault, graph, seed, error, sizeof error)) {
        printf("%s: %s\n", text, error);
        CU_FAIL_FATAL("a place that is there was not found");
    }
    return targets;
}

static bool same(const struct fault_targets *a, const struct fault_targets *b)
{
    return a->count == b->count && a->among == b->among &&
           memcmp(a->target, b->target, a->count * sizeof a->target[0]) == 0;
}

/* --- targets ------------------------------------------------------------------------------ */

/* kary:4,2: 16 nodes; switches 0 to 3 below with nodes at ports 0 to 3, ports 4 to 7 lead up. */
static void targets__of_each_place(void)
{
    static const struct {
        const char *text;
        uint32_t count, among;
    } rows[] = {
        {"link-down link=0:1", 1, 1},      {"link-down link=n5", 1, 1},
        {"link-down link=any", 32, 32},    {"link-down level=0", 16, 16},
        {"link-down switch=2", 8, 8},      {"link-down switch=6", 4, 4},
        {"link-down top", 4, 4},           {"link-down top=3", 12, 4},
        {"link-down random", 1, 16},       {"link-down random=16", 16, 16},
        {"link-down random=50%", 8, 16},   {"link-down random=1%", 1, 16},
        {"switch-crash switch=2", 1, 1},   {"switch-crash switch=any", 8, 8},
        {"switch-crash level=1", 4, 4},    {"switch-crash top=2", 2, 4},
        {"switch-crash random=3", 3, 8},   {"node-kill node=3", 1, 1},
        {"node-kill nodes=1-3,9", 4, 4},   {"node-kill node=any", 16, 16},
        {"node-kill random=100%", 16, 16}, {"node-kill random=7", 7, 16},
    };
    struct topo_graph *graph = graph_of("kary:4,2");

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fault_targets targets = found(graph, rows[i].text, i);

        if (targets.count != rows[i].count || targets.among != rows[i].among)
            printf("\n%s: %u of %u\n", rows[i].text, targets.count, targets.among);
        CU_ASSERT_EQUAL(targets.count, rows[i].count);
        CU_ASSERT_EQUAL(targets.among, rows[i].among);
        for (uint32_t t = 1; t < targets.count; t++) { /* in order, none twice */
            const struct fault_target *at = &targets.target[t];
            CU_ASSERT(at[-1].id < at->id || (at[-1].id == at->id && at[-1].port < at->port));
        }
        fault_targets_release(&targets);
    }
    topo_free(graph);
}

/* Directions are the switch's: a node's output is an input of the switch. */
static void targets__of_a_node_are_seen_from_its_switch(void)
{
    static const struct {
        const char *text;
        enum fault_direction direction;
    } rows[] = {{"link-down link=n6", FAULT_BOTH},
                {"link-down link=n6>", FAULT_IN},
                {"link-down link=n6<", FAULT_OUT},
                {"link-down link=1:2>", FAULT_OUT},
                {"link-down link=1:2<", FAULT_IN}};
    struct topo_graph *graph = graph_of("kary:4,2");

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fault_targets targets = found(graph, rows[i].text, 1);
        CU_ASSERT_EQUAL(targets.target[0].id, 1);
        CU_ASSERT_EQUAL(targets.target[0].port, 2);
        CU_ASSERT_EQUAL(targets.target[0].direction, rows[i].direction);
        fault_targets_release(&targets);
    }
    topo_free(graph);
}

static void targets__of_several_links_are_each_of_them(void)
{
    struct topo_graph *graph = graph_of("qsnet:64,links=2");
    struct fault_targets both = found(graph, "link-down link=n9", 1);
    struct fault_targets one = found(graph, "link-down link=n9:1", 1);

    CU_ASSERT_EQUAL_FATAL(both.count, 2);
    CU_ASSERT_EQUAL(one.count, 1);
    CU_ASSERT_EQUAL(both.target[1].id, one.target[0].id);
    CU_ASSERT_EQUAL(both.target[1].port, one.target[0].port);
    fault_targets_release(&both);
    fault_targets_release(&one);
    topo_free(graph);
}

/* Every cable is listed once, at one of its ends. */
static void targets__of_all_links_have_no_cable_twice(void)
{
    static const char *const specs[] = {"kary:3,3", "qsnet:100", "clos:radix=8,levels=3"};

    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct topo_graph *graph = graph_of(specs[i]);
        struct fault_targets all = found(graph, "link-down link=any", 1);
        uint32_t ends = 0, seen = 0;

        for (uint32_t sw = 0; sw < graph->switches; sw++)
            for (uint32_t port = 0; port < graph->ports; port++)
                ends += graph->sw[sw].end[port].kind != TOPO_END_NONE;
        for (uint32_t t = 0; t < all.count; t++)
            seen += graph->sw[all.target[t].id].end[all.target[t].port].kind == TOPO_END_NODE ? 1
                                                                                              : 2;
        CU_ASSERT_EQUAL(seen, ends);
        fault_targets_release(&all);
        topo_free(graph);
    }
}

static void targets__depend_only_on_the_seed(void)
{
    struct topo_graph *graph = graph_of("kary:4,3");
    uint32_t others = 0;

    for (uint64_t seed = 0; seed < 100; seed++) {
        struct fault_targets a = found(graph, "link-down random=4", fault_seed(7, 0, seed));
        struct fault_targets b = found(graph, "link-down random=4", fault_seed(7, 0, seed));
        struct fault_targets c = found(graph, "link-down random=4", fault_seed(7, 1, seed));

        CU_ASSERT(same(&a, &b));
        others += !same(&a, &c);
        fault_targets_release(&a);
        fault_targets_release(&b);
        fault_targets_release(&c);
    }
    CU_ASSERT(others > 95);
    topo_free(graph);
}

/* 16 cables, 8000 draws of 4: each about 2000 times, with a standard deviation of 39. */
static void targets__are_equally_likely(void)
{
    struct topo_graph *graph = graph_of("kary:4,2");
    uint64_t random = test_seed();
    uint32_t drawn[4][8] = {{0}};

    for (uint32_t i = 0; i < 8000; i++) {
        struct fault_targets t = found(graph, "link-down random=4", test_random(&random));

        for (uint32_t k = 0; k < t.count; k++)
            drawn[t.target[k].id][t.target[k].port]++;
        fault_targets_release(&t);
    }
    for (uint32_t sw = 0; sw < 4; sw++)
        for (uint32_t port = 0; port < 8; port++)
            CU_ASSERT(port < 4 ? !drawn[sw][port]
                               : drawn[sw][port] > 1750 && drawn[sw][port] < 2250);
    topo_free(graph);
}

/* --- missing targets ---------------------------------------------------------------------- */

struct odd {
    const char *spec, *profile, *set, *text;
    /* parts of the error; wrong NULL: no error, "": a note with right in it */
    const char *wrong, *right;
};

static void check_odd(const struct odd *row, enum emu_clock_mode clock)
{
    struct topo_graph *graph = graph_of(row->spec);
    struct emu_profile profile;
    struct fault fault = parsed(row->text);
    char text[FAULT_ERROR_BYTES] = "";

    fixture_profile(&profile, row->profile, row->set);
    struct fault_network network = {graph, &profile, clock};
    int err = fault_check(&fault, &network, text, sizeof text);
    if ((!row->wrong && *text) || (row->wrong && !strstr(text, row->wrong)) ||
        (row->right && !strstr(text, row->right)))
        printf("\n%s over %s: %s\n", row->text, row->spec, text);
    CU_ASSERT(row->wrong && *row->wrong ? err == -EINVAL || err == -ENOTSUP : !err);
    CU_ASSERT(row->wrong ? strstr(text, row->wrong) != NULL : !*text);
    CU_ASSERT(!row->right || strstr(text, row->right) != NULL);
    CU_ASSERT(strlen(text) < sizeof text - 1 && !strchr(text, '\n'));
    topo_free(graph);
}

static void fault_check__names_what_a_network_lacks(void)
{
    static const struct odd rows[] = {
        {"kary:4,2", "oq2004", NULL, "link-down link=8:0", "no switch 8", "switches 0 to 7"},
        {"kary:4,2", "oq2004", NULL, "link-down link=0:8", "no port 8", "ports 0 to 7"},
        {"kary:4,2", "oq2004", NULL, "link-down link=4:7", "no cable", "a port of switch 4"},
        {"kary:4,2", "oq2004", NULL, "link-down link=n16", "link=n16", "nodes 0 to 15"},
        {"kary:4,2", "oq2004", NULL, "link-down link=n0:1", "no link 1", "1 link, counted"},
        {"kary:4,2", "oq2004", NULL, "link-down level=1", "level=1", "levels 0 to 0"},
        {"kary:4,1", "oq2004", NULL, "link-down level=0", "no cables between", "link=nN"},
        {"kary:4,1", "oq2004", NULL, "link-down random", "no cables between", "link=nN"},
        {"kary:4,2", "oq2004", NULL, "link-down random=17", "17 cables", "only 16"},
        {"kary:4,2", "oq2004", NULL, "link-down switch=8", "no switch 8", "0 to 7"},
        {"kary:4,2", "oq2004", NULL, "switch-crash switch=8", "no switch 8", "0 to 7"},
        {"kary:4,2", "oq2004", NULL, "switch-crash level=2", "level=2", "levels 0 to 1"},
        {"kary:4,2", "oq2004", NULL, "switch-crash top=5", "5 top switches", "only 4"},
        {"kary:4,2", "oq2004", NULL, "node-kill node=16", "no node 16", "nodes 0 to 15"},
        {"kary:4,2", "oq2004", NULL, "node-kill nodes=3-16", "no node 16", "nodes 0 to 15"},
        {"qsnet:16", "qsnet3", NULL, "partition random=100%", "all nodes", "some of them"},
        {"kary:4,2", "oq2004", NULL, "loss link=any from=16", "from=16", "nodes 0 to 15"},
        {"kary:4,2", "oq2004", NULL, "loss link=any to=99", "to=99", "nodes 0 to 15"},
        {"kary:4,2", "oq2004", NULL, "partition nodes=0-15", "all nodes", "some of them"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_odd(&rows[i], EMU_CLOCK_RAW);
}

static void fault_check__names_what_a_profile_lacks(void)
{
    static const struct odd rows[] = {
        {"kary:4,2", "oq2004", NULL, "loss link=any packet=ack", "no acknowledgments", "qsnet3"},
        {"kary:4,2", "oq2004", NULL, "loss link=any kind=test", "conditionals", "qsnet3"},
        {"kary:4,2", "oq2004", NULL, "on=test:1 node-kill node=1", "conditionals", "qsnet3"},
        {"kary:4,2", "oq2004", NULL, "adapter-reset node=1", "adapters of profile", "node-kill"},
        {"qsnet:64", "qsnet3", NULL, "loss link=any kind=set", "crosses no cable", "another kind"},
        {"qsnet:64", "qsnet3", NULL, "combine-stall top", "adapters combine", "combining=switch"},
        {"qsnet:64", "qsnet3", NULL, "combine-flip top", "adapters combine", "combining=switch"},
        {"qsnet:64", "qsnet3", "combining=switch", "combine-flip top", NULL, NULL},
        {"qsnet:64", "qsnet3", NULL, "adapter-reset node=1", NULL, NULL},
        {"qsnet:64", "qsnet3", NULL, "on=test:1 loss link=any packet=ack kind=test", NULL, NULL},
        {"kary:4,2", "oq2004", NULL, "combine-exhaust top", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_odd(&rows[i], EMU_CLOCK_RAW);
}

/*
 * A fault without effect, or with damage that nothing repairs, is refused. The error says what
 * would work.
 */
static void fault_check__refuses_unusable_faults(void)
{
    static const char retry[] = "link_retry=go_back_n";
    static const struct odd rows[] = {
        {"kary:2,2", "oq2004", NULL, "link-down random", "acknowledges nothing", retry},
        {"kary:4,2", "oq2004", NULL, "loss link=any", "acknowledges nothing", "qsnet3"},
        {"kary:4,2", "oq2004", NULL, "switch-crash top", "acknowledges nothing", "qsnet3"},
        {"kary:4,2", "oq2004", NULL, "duplicate link=any", "acknowledges nothing", "qsnet3"},
        {"kary:4,2", "oq2004", NULL, "partition nodes=0-3", "acknowledges nothing", "qsnet3"},
        {"kary:4,2", "oq2004", retry, "link-down random", NULL, NULL},
        {"kary:4,2", "oq2004", retry, "link-down link=n0", "node's cable", "between switches"},
        {"kary:4,2", "oq2004", retry, "link-down switch=0", "leads to a node", NULL},
        {"kary:4,2", "oq2004", retry, "loss link=any", NULL, NULL},
        {"kary:4,2", "oq2004", retry, "credit-loss link=any", "link-level retry",
         "link_retry=none"},
        {"kary:4,2", "oq2004", retry, "switch-crash top", NULL, NULL},
        {"kary:4,2", "oq2004", retry, "switch-crash random", "node's cable", "without nodes"},
        {"kary:4,2", "oq2004", retry, "partition nodes=0-3", NULL, NULL},
        {"kary:4,2", "oq2004", retry, "partition nodes=0-2", "node's cable", NULL},
        {"kary:4,2", "oq2004", retry, "partition nodes=0-4", "leads to a node", NULL},
        {"kary:4,2", "oq2004", retry, "partition random=4", "leads to a node", NULL},
        {"kary:4,2", "qsnet3", NULL, "partition random=4", NULL, NULL},
        {"kary:4,2", "oq2004", "buffers=input", "combine-stall top", "no combine units", "xpoint"},
        {"kary:4,2", "oq2004", "buffers=input", "on=barrier:1 stuck-port random", "on=", "at="},
        {"kary:4,1", "oq2004", NULL, "on=multicast:1 node-kill node=1", "on=", "qsnet3"},
        {"kary:4,2", "oq2004", NULL, "slow-link random factor=2", "clock raw", "--clock real"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_odd(&rows[i], EMU_CLOCK_RAW);
}

static void fault_check__considers_the_clock(void)
{
    static const struct odd real[] = {
        {"kary:4,2", "oq2004", NULL, "slow-link random factor=2", NULL, NULL},
        {"kary:4,2", "oq2004", NULL, "node-kill node=1", NULL, NULL},
        {"kary:4,2", "oq2004", NULL, "combine-exhaust top", NULL, NULL},
    };
    static const struct odd virtual[] = {
        {"kary:4,2", "oq2004", NULL, "slow-link random factor=2", NULL, NULL},
        {"kary:4,2", "oq2004", NULL, "node-kill node=1", "not possible in", NULL},
        {"kary:4,2", "oq2004", NULL, "combine-exhaust top", "simulated time", "fabemu run"},
    };

    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        check_odd(&real[i], EMU_CLOCK_REAL);
        check_odd(&virtual[i], EMU_CLOCK_VIRTUAL);
    }
}

/* An accepted fault with a surprising effect has a note. */
static void fault_check__notes_unrepaired_damage(void)
{
    static const struct odd rows[] = {
        {"kary:4,2", "oq2004", NULL, "credit-loss link=any", "", "never returns"},
        {"kary:4,2", "oq2004", NULL, "credit-forge link=any", "", "not retransmitted"},
        {"qsnet:64", "qsnet3", NULL, "credit-forge link=any", "",
         "more than the receiver has space for"},
        {"kary:4,2", "oq2004", "combine_check=none", "combine-flip top", "", "without any error"},
        {"kary:4,2", "oq2004", NULL, "combine-flip top", NULL, NULL},
        {"qsnet:64", "qsnet3", NULL, "loss link=any", NULL, NULL},
        {"kary:4,2", "oq2004", NULL, "node-freeze node=1", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_odd(&rows[i], EMU_CLOCK_RAW);
}

/* --- scenarios ------------------------------------------------------------------------------ */

/* Each scenario is parsed, and some network has everything it names. */
static void scenarios__fit_a_network(void)
{
    struct topo_graph *graphs[] = {graph_of("kary:4,2"), graph_of("qsnet:256")};
    struct emu_profile profiles[2];
    const struct fault_scenario *scenario;

    fixture_profile(&profiles[0], "oq2004", NULL);
    fixture_profile(&profiles[1], "qsnet3", NULL);
    for (size_t i = 0; (scenario = fault_scenario_at(i)); i++) {
        struct fault_schedule schedule;
        char error[FAULT_ERROR_BYTES + 128];
        bool fits[2] = {true, true};

        CU_ASSERT_PTR_EQUAL(fault_scenario_find(scenario->name), scenario);
        CU_ASSERT(strlen(scenario->about) < 80 && !strpbrk(scenario->name, "./"));
        CU_ASSERT_EQUAL_FATAL(fault_schedule_read(&schedule, scenario->name, NULL, error,
                                                  sizeof error),
                              0);
        for (uint32_t k = 0; k < 2 * schedule.count; k++) {
            struct fault_network network = {graphs[k % 2], &profiles[k % 2], EMU_CLOCK_REAL};

            if (fault_check(&schedule.line[k / 2].fault, &network, error, sizeof error))
                fits[k % 2] = false;
        }
        CU_ASSERT(fits[0] || fits[1]);
        fault_schedule_release(&schedule);
    }
    CU_ASSERT_PTR_NULL(fault_scenario_find(""));
    CU_ASSERT_PTR_NULL(fault_scenario_find("flap "));
    topo_free(graphs[0]);
    topo_free(graphs[1]);
}

/* Each kind of fault has a scenario that shows it. */
static void scenarios__show_every_kind(void)
{
    const struct fault_scenario *scenario;
    uint32_t shown = 0;

    for (size_t i = 0; (scenario = fault_scenario_at(i)); i++) {
        struct fault_schedule schedule;
        char error[FAULT_ERROR_BYTES + 128];

        if (fault_schedule_read(&schedule, scenario->name, NULL, error, sizeof error))
            CU_FAIL_FATAL("a scenario was refused");
        for (uint32_t k = 0; k < schedule.count; k++)
            shown |= 1u << schedule.line[k].fault.kind;
        fault_schedule_release(&schedule);
    }
    CU_ASSERT_EQUAL(shown, (1u << FAULT_KINDS) - 1);
}

static const struct test_case cases[] = {
    CASE(targets__of_each_place),
    CASE(targets__of_a_node_are_seen_from_its_switch),
    CASE(targets__of_several_links_are_each_of_them),
    CASE(targets__of_all_links_have_no_cable_twice),
    CASE(targets__depend_only_on_the_seed),
    CASE(targets__are_equally_likely),
    CASE(fault_check__names_what_a_network_lacks),
    CASE(fault_check__names_what_a_profile_lacks),
    CASE(fault_check__refuses_unusable_faults),
    CASE(fault_check__considers_the_clock),
    CASE(fault_check__notes_unrepaired_damage),
    CASE(scenarios__fit_a_network),
    CASE(scenarios__show_every_kind),
    {NULL, NULL},
};

int main(void)
{
    return test_run("fault_network", cases);
}
