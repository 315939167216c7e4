/* SPDX-License-Identifier: BSD-3-Clause */
/* open_build.c - builds an open loop: senders, destination sets, phases, nodes, groups. */
#include <errno.h>
#include <stdlib.h>

#include "apps/traffic/open.h"
#include "emu/packet/packet.h"
#include "emu/packet/seg.h"

/* default number of sets of a source, if there are enough collective addresses */
#define SETS_DEFAULT   1024
#define FANOUT_DEFAULT 4 /* default mean number of destinations of a set */

uint64_t traffic_open_links(const struct topo_graph *graph, const bool *sends, uint8_t *ret)
{
    uint64_t all = 0;

    for (uint32_t n = 0; n < graph->nodes; n++) {
        const struct topo_node *node = &graph->node[n];
        uint8_t links = 0;
        for (uint32_t i = 0; i < node->links && (!sends || sends[n]); i++)
            links += node->link[i].sw != TOPO_NONE;
        if (ret)
            ret[n] = links;
        all += links;
    }
    return all;
}

static int choose_senders(struct open_run *open)
{
    const struct traffic_config *config = open->run->config;
    struct traffic_sources sources = config->sources;
    uint32_t nodes = config->fabric.graph->nodes;
    uint32_t senders = 0;

    if (config->pattern.md && !sources.count)
        sources = (struct traffic_sources){.spread = TRAFFIC_SPREAD_RANDOM,
                                           .count = nodes < 16 ? 1 : nodes / 16};
    if (sources.count > nodes)
        return traffic_run_wrong(open->run, -EINVAL, "%u sources are more than the %u nodes",
                                 sources.count, nodes);
    open->sends = malloc(nodes * sizeof open->sends[0]);
    open->links = malloc(nodes * sizeof open->links[0]);
    if (!open->sends || !open->links)
        return traffic_run_wrong(open->run, -ENOMEM, "out of memory");
    traffic_sources_choose(&sources, config->fabric.seed, nodes, open->sends);
    for (uint32_t n = 0; n < nodes; n++) {
        if (open->pattern->kind == TRAFFIC_FIXED && open->pattern->to[n] == TRAFFIC_NOBODY)
            open->sends[n] = false;
        senders += open->sends[n];
    }
    open->all_links = traffic_open_links(config->fabric.graph, open->sends, open->links);
    open->run->result->senders = senders;
    if (!senders)
        return traffic_run_wrong(open->run, -EINVAL, "no node sends anything in this pattern");
    return 0;
}

static int draw_sets(struct open_run *open)
{
    const struct traffic_config *config = open->run->config;
    uint32_t nodes = config->fabric.graph->nodes;
    uint32_t senders = open->run->result->senders;
    uint32_t sets = config->sets;
    double fanout = config->fanout > 0 ? config->fanout : config->pattern.md ? 16 : FANOUT_DEFAULT;

    if (!sets && senders <= FABRIC_GROUPS_MAX)
        sets = FABRIC_GROUPS_MAX / senders < SETS_DEFAULT ? FABRIC_GROUPS_MAX / senders
                                                          : SETS_DEFAULT;
    if (!sets)
        sets = 1;
    if ((uint64_t)sets * senders > FABRIC_GROUPS_MAX)
        return traffic_run_wrong(open->run, -EINVAL,
                                 "%u sources with %u destination sets each: a fabric has %u "
                                 "collective addresses; choose fewer --sets or --sources",
                                 senders, sets, FABRIC_GROUPS_MAX);
    struct traffic_sets_config draw = {
        .nodes = nodes,
        .sends = open->sends,
        .fanout = config->fanout > 0 || fanout <= nodes / 2.0 ? fanout : nodes / 2.0,
        .law = config->law,
        .per_source = sets,
        .seed = config->fabric.seed,
    };
    return traffic_sets_draw(&open->sets, &draw, open->run->error, open->run->error_bytes);
}

static uint64_t longest_ps(const struct traffic_config *config, uint64_t wire_ps)
{
    const struct emu_profile *profile = &config->fabric.profile;
    uint64_t switches = config->fabric.graph->longest;

    return profile->nic_send_ps + profile->nic_recv_ps + switches * profile->switch_ps +
           (switches + 1) * profile->channel_ps + wire_ps;
}

static void plan_phases(struct open_run *open, struct traffic_plan *plan)
{
    const struct traffic_config *config = open->run->config;
    uint64_t wire_ps = traffic_message_wire_ps(plan->profile, plan->bytes);
    struct traffic_scale scale = {.load = config->load,
                                  .longest_ps = longest_ps(config, wire_ps),
                                  .wire_ps = wire_ps,
                                  .links = open->all_links};
    uint64_t warmup_ps, measure_ps;

    traffic_phases_choose(&warmup_ps, &measure_ps, &scale);
    if (config->warmup_ps)
        warmup_ps = config->warmup_ps;
    if (config->measure_ps)
        measure_ps = config->measure_ps;
    unsigned __int128 gap_ps = (unsigned __int128)wire_ps * TRAFFIC_LOAD_UNIT / config->load;
    plan->gap_ps = gap_ps < UINT64_MAX ? (uint64_t)gap_ps : UINT64_MAX;
    plan->phase = traffic_phase_of(warmup_ps, measure_ps);
    open->end_ps = plan->phase.start_ps + plan->phase.measure_ps;
    open->longest_ps = scale.longest_ps;
    open->given = config->warmup_ps || config->measure_ps;
}

/*
 * Plan the windows of the series of delivered bytes. They begin with the run and end with the
 * measurement.
 */
static int plan_series(struct open_run *open, struct traffic_plan *plan)
{
    uint64_t window_ps = open->run->config->window_ps;
    uint64_t windows = window_ps ? (open->end_ps + window_ps - 1) / window_ps : 0;

    if (window_ps && !open->run->config->measure_ps)
        return traffic_run_wrong(open->run, -EINVAL,
                                 "--series needs --measure, the length of the measurement");
    if (windows > TRAFFIC_WINDOWS_MOST)
        return traffic_run_wrong(open->run, -EINVAL,
                                 "--series %llu divides this run into %llu windows, and the limit "
                                 "is %u: choose a longer window",
                                 (unsigned long long)window_ps / 1000, (unsigned long long)windows,
                                 TRAFFIC_WINDOWS_MOST);
    plan->window_ps = window_ps;
    plan->windows = (uint32_t)windows;
    return 0;
}

static uint32_t links_most(const struct topo_graph *graph)
{
    uint32_t most = 1;

    for (uint32_t n = 0; n < graph->nodes; n++)
        most = graph->node[n].links > most ? graph->node[n].links : most;
    return most;
}

static int make_nodes(struct open_run *open)
{
    const struct traffic_config *config = open->run->config;
    bool multicast = config->pattern.kind == TRAFFIC_MULTICAST;
    struct traffic_plan plan = {
        .profile = &config->fabric.profile,
        .pattern = open->pattern,
        .sets = multicast ? &open->sets : NULL,
        .links = open->links,
        .links_most = links_most(config->fabric.graph),
        .seed = config->fabric.seed,
        .bytes = config->bytes,
        .poisson = !config->fixed_gaps,
        .hardware = multicast && !config->by_messages,
        .arity = config->arity,
        .completions = multicast,
    };

    plan_phases(open, &plan);
    int err = plan_series(open, &plan);
    if (err)
        return err;
    open->total = calloc(1, sizeof *open->total);
    open->other = calloc(1, sizeof *open->other);
    open->completion = calloc(1, sizeof *open->completion);
    if (!open->total || !open->other || !open->completion ||
        traffic_nodes_init(&open->nodes, config->fabric.graph->nodes, &plan))
        return traffic_run_wrong(open->run, -ENOMEM, "out of memory");
    traffic_stats_init(open->completion, &plan.phase);
    return 0;
}

/*
 * Return whether the switches can buffer a multicast. With acknowledgments a switch needs slots for
 * a whole packet; without them, it needs none.
 */
static bool fits_slots(const struct open_run *open)
{
    uint64_t bytes = open->run->config->bytes;
    uint32_t whole = EMU_HDR_BYTES +
                     (bytes < EMU_PAYLOAD_BYTES ? (uint32_t)bytes : EMU_PAYLOAD_BYTES);

    return !open->nodes.times.engines ||
           emu_packet_segments(whole) <= 1 + open->nodes.plan.profile->pool_slots;
}

/* Make a group for each destination set and its source, which is then part of the tree. */
static int make_groups(struct open_run *open)
{
    struct traffic_sets *sets = &open->sets;
    struct traffic_run *run = open->run;

    if (!fits_slots(open))
        return traffic_run_wrong(run, -EINVAL,
                                 "with pool_slots=0 a switch has too few slots for multicasts of "
                                 "this size: set pool_slots to 1 or more");
    uint32_t *nodes = malloc((sets->fanout_max + 1) * sizeof nodes[0]);
    int err = nodes ? 0 : traffic_run_wrong(run, -ENOMEM, "out of memory");

    for (uint32_t set = 0; set < sets->count && !err; set++) {
        uint32_t count = traffic_sets_fanout(sets, set);
        for (uint32_t i = 0; i < count; i++)
            nodes[i] = sets->member[sets->first[set] + i];
        nodes[count] = sets->source[set];
        err = fabric_multicast_create(run->fabric, nodes, count + 1, 1, &sets->group[set],
                                      run->error, run->error_bytes);
    }
    free(nodes);
    return err;
}

static uint64_t sets_bytes(const struct open_run *open)
{
    const struct traffic_sets *sets = &open->sets;

    if (!open->nodes.plan.hardware || !sets->count)
        return 0;
    return fabric_multicasts_bytes(&open->run->config->fabric, sets->count,
                                   sets->first[sets->count] + sets->count);
}

int traffic_open_build(struct open_run *open)
{
    const struct traffic_config *config = open->run->config;
    int err = 0;

    open->pattern = &config->pattern;
    if (config->pattern.kind == TRAFFIC_PERMUTATION) {
        if (traffic_pattern_draw(&open->drawn, &config->pattern, config->fabric.seed))
            return traffic_run_wrong(open->run, -ENOMEM, "out of memory");
        open->pattern = &open->drawn;
    }
    err = choose_senders(open);
    if (!err && config->pattern.kind == TRAFFIC_MULTICAST)
        err = draw_sets(open);
    if (!err)
        err = make_nodes(open);
    if (!err)
        err = traffic_run_start(open->run, &open->nodes.ops, traffic_nodes_bytes(&open->nodes),
                                sets_bytes(open));
    if (!err && open->nodes.plan.hardware)
        err = make_groups(open);
    if (open->sets.count) {
        open->run->result->multicast = true;
        open->run->result->fanout = (double)open->sets.first[open->sets.count] / open->sets.count;
        open->run->result->sets = open->sets.per_source;
    }
    return err;
}
