/* SPDX-License-Identifier: BSD-3-Clause */
/* draw.c - see draw.h. */
#include "tests/apps/traffic/draw.h"

#include <string.h>

#include "apps/traffic/workload/relay.h"
#include "tests/test.h"

static struct topo_graph *graph;

/* A basic configuration; the graph stays until the next call. */
struct traffic_config draw_config_of(const char *topo, const char *pattern)
{
    struct traffic_config config = {.bytes = 240,
                                    .groups = 1,
                                    .operations = 10,
                                    .load = TRAFFIC_LOAD_UNIT / 2};
    char error[512];

    topo_free(graph);
    graph = NULL;
    if (topo_parse(&graph, topo, error, sizeof error) ||
        emu_profile_load(&config.fabric.profile, "oq2004", error, sizeof error) ||
        traffic_pattern_parse(&config.pattern, pattern, graph, error, sizeof error)) {
        printf("%s\n", error);
        CU_FAIL_FATAL("a good configuration was refused");
    }
    config.fabric.graph = graph;
    config.fabric.threads = 1;
    config.fabric.seed = 1;
    return config;
}

struct traffic_config draw_acknowledged_of(const char *topo, const char *pattern)
{
    struct traffic_config config = draw_config_of(topo, pattern);
    char error[256];

    CU_ASSERT_EQUAL_FATAL(emu_profile_load(&config.fabric.profile, "qsnet3", error, sizeof error),
                          0);
    CU_ASSERT_EQUAL_FATAL(config.fabric.profile.transport, EMU_TRANSPORT_ACKNOWLEDGED);
    return config;
}

static const char *one_of(uint64_t *seed, const char *const *names, size_t count)
{
    return names[test_random(seed) % count];
}
#define ONE_OF(seed, names) one_of(seed, names, sizeof names / sizeof((names)[0]))

void draw_profile(uint64_t *seed, struct emu_profile *profile)
{
    profile->link_ps_per_byte = test_draw(seed, 1, 3) * 300;
    profile->channel_ps = test_draw(seed, 0, 40) * 1000;
    profile->switch_ps = test_draw(seed, 1, 100) * 1000 + test_draw(seed, 0, 999);
    profile->credit_ps = test_draw(seed, 1, 150) * 1000;
    uint64_t adapters = test_random(seed) % 4 ? 1000 : 20; /* or faster than the switches */
    profile->nic_send_ps = test_draw(seed, 0, adapters) * 1000;
    profile->nic_recv_ps = test_draw(seed, 0, adapters) * 1000;
    profile->xpoint_slots = (uint32_t)test_draw(seed, 1, 8);
    profile->light_slots = (uint32_t)test_draw(seed, 1, 4);
    profile->combine_units = (uint32_t)test_draw(seed, 1, 3);
    profile->credit = test_random(seed) % 2 ? EMU_CREDIT_ROW : EMU_CREDIT_COUNTER;
    profile->choice = (enum emu_choice)(test_random(seed) % EMU_CHOICES_COUNT);
    profile->combine_order = test_random(seed) % 2 ? EMU_COMBINE_ARRIVAL : EMU_COMBINE_PORT;
}

/* Random times of collectives, and their size; only barriers are empty. */
static void any_times(uint64_t *seed, struct traffic_config *config)
{
    config->interval_ps = test_random(seed) % 2 ? test_draw(seed, 1, 4000) * 1000 : 0;
    config->skew_ps = test_draw(seed, 0, config->interval_ps ? config->interval_ps : 5000000);
    if (config->pattern.kind == TRAFFIC_COLLECTIVE)
        config->bytes += config->pattern.collective != TRAFFIC_BARRIER && !config->bytes;
}

struct traffic_config draw_config(uint64_t *seed, const char **topo, const char **pattern)
{
    static const char *const topos[] = {"kary:4,2", "kary:2,2", "kary:4,2", "kary:2,4"};
    static const char *const patterns[] = {"uniform",       "transpose", "reversal",
                                           "complement",    "tornado",   "neighbour",
                                           "permutation:3", "alltoall",  "multicast",
                                           "hotspot:1:0.3", "multicast", "md",
                                           "reduce",        "barrier",   "allreduce"};
    static const uint32_t trees[] = {TRAFFIC_TREE_FLAT, TRAFFIC_TREE_BINOMIAL, 1, 2};
    *topo = ONE_OF(seed, topos);
    *pattern = ONE_OF(seed, patterns);
    struct traffic_config config = draw_config_of(*topo, *pattern);

    draw_profile(seed, &config.fabric.profile);
    config.fabric.seed = test_random(seed);
    config.load = test_draw(seed, 5, 150) * (TRAFFIC_LOAD_UNIT / 100);
    config.fixed_gaps = test_random(seed) % 4 == 0;
    config.bytes = test_random(seed) % 2 ? 240 : test_draw(seed, 0, 1500);
    config.warmup_ps = 3000000;
    config.measure_ps = 12000000;
    config.fanout = config.pattern.md || graph->nodes < 8 ? 1.5 : 3;
    config.law = (enum traffic_distribution)(test_random(seed) % 3);
    config.sets = (uint32_t)test_draw(seed, 1, 20);
    config.by_messages = test_random(seed) % 2;
    config.arity = trees[test_random(seed) % 4];
    config.groups = (uint32_t)test_draw(seed, 1, 2);
    config.at_random = test_random(seed) % 2;
    any_times(seed, &config);
    return config;
}

/* The same with acknowledgments. Every profile here has the slots that broadcasts need. */
struct traffic_config draw_acknowledged(uint64_t *seed, const char **topo, const char **pattern)
{
    static const char *const topos[] = {"qsnet:8", "qsnet:40", "qsnet:8,links=2,rails=2",
                                        "qsnet:20,links=2", "kary:2,3"};
    static const char *const patterns[] = {"uniform",  "complement", "permutation:2", "neighbour",
                                           "alltoall", "multicast",  "multicast",     "tornado",
                                           "reduce",   "allreduce",  "barrier",       "barrier"};
    static const uint32_t trees[] = {TRAFFIC_TREE_FLAT, TRAFFIC_TREE_BINOMIAL, 3, 2};
    *topo = ONE_OF(seed, topos);
    *pattern = ONE_OF(seed, patterns);
    struct traffic_config config = draw_acknowledged_of(*topo, *pattern);
    struct emu_profile *profile = &config.fabric.profile;

    draw_profile(seed, profile);
    profile->routing = (enum emu_routing)(test_random(seed) % 3);
    profile->channels = (uint32_t)test_draw(seed, 1, 32);
    profile->pool_slots = (uint32_t)test_draw(seed, 17, 32);
    profile->light_pending = (uint32_t)test_draw(seed, 1, profile->channels);
    profile->packet_bytes = (uint32_t)test_draw(seed, 256, 4096);
    config.fabric.seed = test_random(seed);
    config.load = test_draw(seed, 5, 150) * (TRAFFIC_LOAD_UNIT / 100);
    config.fixed_gaps = test_random(seed) % 4 == 0;
    config.bytes = test_random(seed) % 2 ? test_draw(seed, 0, 240) : test_draw(seed, 0, 2500);
    config.warmup_ps = 3000000;
    config.measure_ps = 6000000;
    config.fanout = 3;
    config.sets = (uint32_t)test_draw(seed, 1, 20);
    config.by_messages = test_random(seed) % 2;
    config.arity = trees[test_random(seed) % 4];
    profile->barrier = (enum emu_barrier_by)(test_random(seed) % 2);
    profile->tree_width = (uint32_t)test_draw(seed, 1, 16);
    config.groups = (uint32_t)test_draw(seed, 1, 2);
    config.operations = test_draw(seed, 1, 20);
    any_times(seed, &config);
    return config;
}

bool draw_same_result(const struct traffic_result *a, const struct traffic_result *b)
{
    return a->digest == b->digest && a->hops == b->hops && a->virtual_ps == b->virtual_ps &&
           a->segments == b->segments && a->offered == b->offered &&
           a->accepted.mean == b->accepted.mean && a->accepted.ci95 == b->accepted.ci95 &&
           a->backlog == b->backlog && a->saturated == b->saturated && a->steady == b->steady &&
           memcmp(&a->from, &b->from, sizeof a->from) == 0 &&
           memcmp(&a->latency, &b->latency, sizeof a->latency) == 0 &&
           memcmp(&a->completion, &b->completion, sizeof a->completion) == 0;
}

void draw_end(void)
{
    topo_free(graph);
    graph = NULL;
}
