/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_open.c - the driver of open loops: warm-up, measurement, drain.
 *
 * Sources go on until all messages that were born in the measurement have been
 * delivered, so that these see the load to their end; then sources stop, the
 * network runs empty, and every segment that was sent must have come out. Past
 * saturation the run ends with the measurement.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/report.h"
#include "apps/traffic_inside.h"
#include "apps/traffic_node.h"
#include "emu/seg.h"

#define SLICE_PS      UINT64_C(20000000) /* virtual time between two looks at the nodes: 20 us */
#define PARTS_IN_SLICE 256               /* the same if nodes keep tables: segments a node */
#define DRAIN_PHASES  10                 /* times warm-up and measurement, that a drain may take */
#define SETS_DEFAULT  1024 /* of a source, as far as there are collective addresses */
#define FANOUT_DEFAULT 4

struct open_run {
    struct traffic_run *run;
    struct traffic_nodes nodes;
    struct traffic_sets sets;
    bool *sends;
    struct traffic_pending multicasts; /* that are not complete */
    struct traffic_stats *completion;
    struct traffic_stats *total;       /* of all workers, once it is asked for */
    uint64_t slice_ps;
    uint64_t end_ps;                   /* of the measurement */
    uint64_t measured;                 /* messages born in it */
    struct traffic_counts counts;      /* of messages, at the end of the last batch */
    double offered[TRAFFIC_BATCHES];
    double accepted[TRAFFIC_BATCHES];
    double growth[TRAFFIC_BATCHES];    /* in the drain, of the batches since */
};

/* --- time ------------------------------------------------------------------------- */

/* Copies that arrived: which multicasts are complete? */
static int take_logs(struct open_run *open)
{
    struct traffic_nodes *nodes = &open->nodes;
    int err = 0;

    for (uint32_t w = 0; w < nodes->workers && !err; w++) {
        struct traffic_log *log = nodes->worker[w] ? &nodes->worker[w]->log : NULL;
        if (!log || !log->count)
            continue;
        err = traffic_pending_room(&open->multicasts, log->count);
        for (uint32_t i = 0; i < log->count && !err; i++) {
            uint64_t last_ps;
            if (traffic_pending_arrive(&open->multicasts, &log->part[i], &last_ps))
                traffic_stats_latency(open->completion, log->part[i].birth_ps, last_ps);
        }
        log->count = 0;
    }
    return err;
}

static void tell(const struct open_run *open)
{
    const struct traffic_config *config = open->run->config;
    double done = (double)open->run->now_ps / (double)open->end_ps;

    if (config->progress)
        config->progress(config->context, done < 1 ? done : 1);
}

/* Everything up to @until_ps happens. */
static int advance(struct open_run *open, uint64_t until_ps)
{
    struct traffic_run *run = open->run;
    int err = 0;

    while (!err && run->now_ps < until_ps) {
        uint64_t left_ps = until_ps - run->now_ps;
        err = traffic_nodes_room(&open->nodes, open->slice_ps);
        if (err)
            break;
        run->now_ps += left_ps < open->slice_ps ? left_ps : open->slice_ps;
        fabric_advance(run->fabric, run->now_ps);
        err = take_logs(open);
        tell(open);
    }
    if (err)
        return traffic_run_wrong(run, err, "out of memory");
    return 0;
}

/* --- phases -------------------------------------------------------------------------- */

/* A count of messages as a fraction of what the sources' links can carry in a batch. */
static double part_of_links(const struct open_run *open, double messages)
{
    double links = (double)open->nodes.plan.phase.batch_ps * open->run->result->senders;

    return messages * (double)open->nodes.message_wire_ps / links;
}

/* Batch @i, of the measurement or of the drain: how much more waits at its end? */
static int advance_batch(struct open_run *open, uint32_t i)
{
    struct traffic_counts before = open->counts;
    int err = advance(open, open->run->now_ps + open->nodes.plan.phase.batch_ps);

    if (err)
        return err;
    open->counts = traffic_nodes_count(&open->nodes, open->run->now_ps - 1);
    open->growth[i] = part_of_links(open, (double)(open->counts.waiting - before.waiting));
    return 0;
}

static int measure(struct open_run *open)
{
    int err = advance(open, open->nodes.plan.phase.start_ps);

    if (err)
        return err;
    open->counts = traffic_nodes_count(&open->nodes, open->run->now_ps - 1);
    for (uint32_t i = 0; i < TRAFFIC_BATCHES && !err; i++) {
        uint64_t born = open->counts.born;
        err = advance_batch(open, i);
        open->offered[i] = part_of_links(open, (double)(open->counts.born - born));
        open->measured += open->counts.born - born;
    }
    open->run->result->backlog = open->counts.waiting;
    return err;
}

static void merge(struct open_run *open)
{
    traffic_stats_init(open->total, &open->nodes.plan.phase);
    for (uint32_t w = 0; w < open->nodes.workers; w++)
        if (open->nodes.worker[w])
            traffic_stats_add(open->total, &open->nodes.worker[w]->stats);
}

/* Throughput is known when the measurement ends: what is delivered in it has been. */
static void throughput(struct open_run *open)
{
    struct traffic_result *result = open->run->result;
    double batch_ps = (double)open->nodes.plan.phase.batch_ps;
    double wire_ps = 0;

    merge(open);
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++) {
        const struct traffic_batch *batch = &open->total->batch[i];
        open->accepted[i] = (double)batch->share_ps / 1024 / (batch_ps * result->senders);
        wire_ps += (double)batch->wire_ps;
    }
    result->offered = traffic_mean_of(open->offered).mean;
    result->accepted = traffic_mean_of(open->accepted);
    result->delivered = wire_ps / (batch_ps * TRAFFIC_BATCHES * open->nodes.nodes);
    result->saturated = traffic_saturated(open->offered, open->accepted, open->growth);
}

/* Measured messages that are delivered: multicasts, if all of their copies are. */
static uint64_t delivered(const struct open_run *open)
{
    uint64_t messages = 0;

    if (open->nodes.plan.sets)
        return open->completion->messages;
    for (uint32_t w = 0; w < open->nodes.workers; w++)
        messages += open->nodes.worker[w] ? open->nodes.worker[w]->stats.messages : 0;
    return messages;
}

/*
 * Until all that was measured is there. A network that takes less than it is offered may have room
 * for a measurement and only then push back: the sources' backlog shows it as the drain goes on.
 */
static int drain(struct open_run *open)
{
    struct traffic_run *run = open->run;
    struct traffic_result *result = run->result;
    uint64_t limit_ps = DRAIN_PHASES * open->end_ps;
    int err = 0;

    for (uint32_t i = 0; !err && !result->saturated && delivered(open) < open->measured; i++) {
        err = advance_batch(open, i % TRAFFIC_BATCHES);
        if (i % TRAFFIC_BATCHES == TRAFFIC_BATCHES - 1)
            result->saturated = traffic_saturated(open->offered, open->accepted, open->growth);
        result->saturated |= run->now_ps >= limit_ps;
    }
    result->undelivered = open->measured - delivered(open);
    return err;
}

/* Sources stop and the network runs empty: is everything there? */
static int empty(struct open_run *open)
{
    struct traffic_run *run = open->run;
    uint64_t limit_ps = run->now_ps + DRAIN_PHASES * open->end_ps;
    struct traffic_segments segments;
    int err = 0;

    open->nodes.plan.stop_ps = run->now_ps;
    while (!err && !fabric_idle(run->fabric) && run->now_ps < limit_ps)
        err = advance(open, run->now_ps + open->slice_ps);
    segments = traffic_nodes_segments(&open->nodes);
    if (!err && fabric_idle(run->fabric) && segments.received != segments.awaited)
        err = traffic_run_wrong(run, -EPROTO, "%llu segments were to arrive, and %llu have",
                                (unsigned long long)segments.awaited,
                                (unsigned long long)segments.received);
    return err;
}

static int run_phases(struct open_run *open)
{
    struct traffic_run *run = open->run;
    struct traffic_result *result = run->result;
    int err;

    traffic_nodes_begin(&open->nodes);
    traffic_run_begin(run);
    err = measure(open);
    if (err)
        return err;
    throughput(open);
    result->undelivered = open->measured - delivered(open);
    if (!result->saturated)
        err = drain(open);
    if (!err && !result->saturated)
        err = empty(open);
    if (!err)
        err = traffic_run_check(run);
    if (!err && traffic_nodes_lost(&open->nodes))
        err = traffic_run_wrong(run, -EPROTO, "a table of arrivals overflowed");
    if (err)
        return err;
    merge(open);
    traffic_latency_of(&result->latency, open->total);
    traffic_latency_of(&result->completion, open->completion);
    result->digest = traffic_nodes_digest(&open->nodes);
    result->segments = traffic_nodes_segments(&open->nodes).sent;
    return 0;
}

/* --- building ---------------------------------------------------------------------------- */

static int choose_senders(struct open_run *open)
{
    const struct traffic_config *config = open->run->config;
    struct traffic_sources sources = config->sources;
    uint32_t nodes = config->fabric.graph->nodes;
    uint32_t senders = 0;

    if (config->pattern.md && !sources.count)
        sources = (struct traffic_sources){ .spread = TRAFFIC_SPREAD_RANDOM,
                                            .count = nodes < 16 ? 1 : nodes / 16 };
    if (sources.count > nodes)
        return traffic_run_wrong(open->run, -EINVAL, "%u sources: there are %u nodes",
                                 sources.count, nodes);
    open->sends = malloc(nodes * sizeof open->sends[0]);
    if (!open->sends)
        return traffic_run_wrong(open->run, -ENOMEM, "out of memory");
    traffic_sources_choose(&sources, config->fabric.seed, nodes, open->sends);
    for (uint32_t n = 0; n < nodes; n++) {
        if (config->pattern.kind == TRAFFIC_FIXED && config->pattern.to[n] == TRAFFIC_NOBODY)
            open->sends[n] = false;
        senders += open->sends[n];
    }
    open->run->result->senders = senders;
    if (!senders)
        return traffic_run_wrong(open->run, -EINVAL, "by this pattern no node sends anything");
    return 0;
}

static int draw_sets(struct open_run *open)
{
    const struct traffic_config *config = open->run->config;
    uint32_t nodes = config->fabric.graph->nodes;
    uint32_t senders = open->run->result->senders;
    uint32_t sets = config->sets;
    double fanout = config->fanout > 0 ? config->fanout
                    : config->pattern.md ? 16
                                         : FANOUT_DEFAULT;

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
    int err = traffic_sets_draw(&open->sets, &draw, open->run->error, open->run->error_bytes);
    if (!err && open->sets.fanout_max > UINT16_MAX)
        err = traffic_run_wrong(open->run, -EINVAL, "a multicast to %u nodes: the most is %u",
                                open->sets.fanout_max, UINT16_MAX);
    return err;
}

static uint64_t longest_ps(const struct traffic_config *config, uint64_t wire_ps)
{
    const struct emu_profile *profile = &config->fabric.profile;
    uint64_t switches = report_longest_route(config->fabric.graph);

    return profile->nic_send_ps + profile->nic_recv_ps + switches * profile->switch_ps +
           (switches + 1) * profile->channel_ps + wire_ps;
}

static void plan_phases(struct open_run *open, struct traffic_plan *plan)
{
    const struct traffic_config *config = open->run->config;
    struct traffic_result *result = open->run->result;
    uint64_t wire_ps = traffic_message_wire_ps(plan->profile, plan->bytes);
    struct traffic_scale scale = { .load = config->load,
                                   .longest_ps = longest_ps(config, wire_ps),
                                   .wire_ps = wire_ps,
                                   .senders = result->senders };
    uint64_t warmup_ps, measure_ps;

    traffic_phases_choose(&warmup_ps, &measure_ps, &scale);
    if (config->warmup_ps)
        warmup_ps = config->warmup_ps;
    if (config->measure_ps)
        measure_ps = config->measure_ps;
    plan->phase = traffic_phase_of(warmup_ps, measure_ps);
    plan->gap_ps = (uint64_t)((unsigned __int128)wire_ps * TRAFFIC_LOAD_UNIT / config->load);
    open->end_ps = plan->phase.start_ps + plan->phase.measure_ps;
    result->warmup_ps = plan->phase.start_ps;
    result->measure_ps = plan->phase.measure_ps;
}

static int make_nodes(struct open_run *open)
{
    const struct traffic_config *config = open->run->config;
    bool multicast = config->pattern.kind == TRAFFIC_MULTICAST;
    struct traffic_plan plan = {
        .profile = &config->fabric.profile,
        .pattern = &config->pattern,
        .sets = multicast ? &open->sets : NULL,
        .sends = open->sends,
        .seed = config->fabric.seed,
        .bytes = config->bytes,
        .stop_ps = UINT64_MAX,
        .poisson = !config->fixed_gaps,
        .hardware = multicast && !config->by_messages,
        .completions = multicast,
    };

    plan_phases(open, &plan);
    open->total = calloc(1, sizeof *open->total);
    open->completion = calloc(1, sizeof *open->completion);
    if (!open->total || !open->completion ||
        traffic_nodes_init(&open->nodes, config->fabric.graph->nodes, &plan))
        return traffic_run_wrong(open->run, -ENOMEM, "out of memory");
    traffic_stats_init(open->completion, &plan.phase);
    open->slice_ps = SLICE_PS;
    if (open->nodes.segments > 1 || plan.completions) {
        struct emu_hdr shortest = { .len = open->nodes.last_bytes };
        uint64_t slice_ps = PARTS_IN_SLICE * emu_wire_ps(plan.profile, &shortest);
        open->slice_ps = slice_ps < SLICE_PS ? slice_ps : SLICE_PS;
    }
    return 0;
}

/* A collective address for each destination set: its tree has the source as a member too. */
static int make_groups(struct open_run *open)
{
    struct traffic_sets *sets = &open->sets;
    struct traffic_run *run = open->run;
    uint32_t *nodes = malloc((sets->fanout_max + 1) * sizeof nodes[0]);
    int err = nodes ? 0 : traffic_run_wrong(run, -ENOMEM, "out of memory");

    for (uint32_t set = 0; set < sets->count && !err; set++) {
        uint32_t count = traffic_sets_fanout(sets, set);
        for (uint32_t i = 0; i < count; i++)
            nodes[i] = sets->member[sets->first[set] + i];
        nodes[count] = sets->source[set];
        err = fabric_multicast_create(run->fabric, nodes, count + 1, &sets->group[set], run->error,
                                      run->error_bytes);
    }
    free(nodes);
    return err;
}

static uint64_t own_bytes(const struct open_run *open)
{
    const struct traffic_sets *sets = &open->sets;
    uint64_t bytes = traffic_nodes_bytes(open->nodes.nodes, &open->nodes.plan);

    if (open->nodes.plan.hardware && sets->count)
        bytes += fabric_multicasts_bytes(open->run->config->fabric.graph, sets->count,
                                         sets->first[sets->count] + sets->count);
    return bytes;
}

static int build(struct open_run *open)
{
    const struct traffic_config *config = open->run->config;
    int err = choose_senders(open);

    if (!err && config->pattern.kind == TRAFFIC_MULTICAST)
        err = draw_sets(open);
    if (!err)
        err = make_nodes(open);
    if (!err)
        err = traffic_run_start(open->run, &open->nodes.ops, own_bytes(open));
    if (!err && open->nodes.plan.hardware)
        err = make_groups(open);
    if (open->sets.count) {
        open->run->result->multicast = true;
        open->run->result->fanout =
            (double)open->sets.first[open->sets.count] / open->sets.count;
    }
    return err;
}

int traffic_run_open(struct traffic_run *run)
{
    struct open_run open = { .run = run };
    int err = build(&open);

    if (!err)
        err = run_phases(&open);
    fabric_stop(run->fabric);
    traffic_nodes_free(&open.nodes);
    traffic_pending_release(&open.multicasts);
    traffic_sets_release(&open.sets);
    free(open.completion);
    free(open.total);
    free(open.sends);
    return err;
}
