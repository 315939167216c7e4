/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_open.c - the driver of open loops: warm-up, measurement, drain.
 *
 * Sources go on until all messages that were born in the measurement have been
 * delivered, so that these see the load to their end; past saturation they do
 * not. A run that names no phases measures again, twice as long, until it finds
 * the traffic steady. In the end nothing more is sent, the network runs empty,
 * and every segment that was sent must have come out.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/traffic_inside.h"
#include "apps/traffic_node.h"
#include "emu/packet.h"
#include "emu/seg.h"

#define DRAIN_PHASES  10                 /* times warm-up and measurement, that a drain may take */
#define SETS_DEFAULT  1024 /* of a source, as far as there are collective addresses */
#define FANOUT_DEFAULT 4
#define DOUBLINGS     16 /* of a packet's rest, at most: nic/engine_internal.h */

struct open_run {
    struct traffic_run *run;
    struct traffic_nodes nodes;
    struct traffic_sets sets;
    struct traffic_pattern drawn;      /* TRAFFIC_PERMUTATION: whoever sends to whom */
    const struct traffic_pattern *pattern;
    bool *sends;                       /* by node */
    uint8_t *links;                    /* by node, as traffic_plan.links */
    uint64_t all_links;                /* of the senders */
    struct traffic_pending multicasts; /* that are not complete */
    struct traffic_stats *completion;
    struct traffic_stats *total;       /* of all workers, once it is asked for */
    uint64_t longest_ps;               /* latency without load over the longest route */
    uint64_t end_ps;                   /* of the measurement */
    bool given;                        /* the phases are: measure once */
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

    for (uint32_t w = 0; w < nodes->workers.count && !err; w++) {
        struct traffic_log *log = nodes->workers.at[w] ? &nodes->workers.at[w]->log : NULL;
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

/* Everything up to @until_ps happens. */
static int advance(struct open_run *open, uint64_t until_ps)
{
    struct traffic_run *run = open->run;
    int err = 0;

    while (!err && run->now_ps < until_ps) {
        uint64_t left_ps = until_ps - run->now_ps;
        err = traffic_nodes_room(&open->nodes);
        if (err)
            break;
        run->now_ps += left_ps < open->nodes.slice_ps ? left_ps : open->nodes.slice_ps;
        fabric_advance(run->fabric, run->now_ps);
        err = take_logs(open);
        if (!err)
            err = traffic_run_tell(run, (double)run->now_ps / (double)open->end_ps);
    }
    if (err == -ENOMEM)
        return traffic_run_wrong(run, err, "out of memory");
    return err;
}

/* --- phases -------------------------------------------------------------------------- */

/* A count of messages as a fraction of what the sources' links can carry in a batch. */
static double part_of_links(const struct open_run *open, double messages)
{
    double links = (double)open->nodes.plan.phase.batch_ps * (double)open->all_links;

    return messages * (double)open->nodes.message_wire_ps / links;
}

/* Batch @i, of the measurement or of the drain: how much more waits at its end? */
static int advance_batch(struct open_run *open, uint32_t i)
{
    struct traffic_counts before = open->counts;
    int err = advance(open, open->run->now_ps + open->nodes.plan.phase.batch_ps);

    if (err)
        return err;
    open->counts = traffic_nodes_count(&open->nodes, open->run->now_ps);
    open->growth[i] = part_of_links(open, (double)(open->counts.waiting - before.waiting));
    return 0;
}

static int measure(struct open_run *open)
{
    int err = advance(open, open->nodes.plan.phase.start_ps);

    if (err)
        return err;
    open->measured = 0;
    open->counts = traffic_nodes_count(&open->nodes, open->run->now_ps);
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
    const struct traffic_workers *workers = &open->nodes.workers;

    traffic_stats_init(open->total, &open->nodes.plan.phase);
    for (uint32_t w = 0; w < workers->count; w++)
        if (workers->at[w])
            traffic_stats_add(open->total, &workers->at[w]->stats);
}

/* Queues have not been filled once: what is not accepted yet says nothing. */
static bool too_cold(const struct open_run *open)
{
    return open->nodes.plan.phase.start_ps < open->longest_ps;
}

/* Links into the network: of all nodes, or of those that send; @ret: by node, 0 for the others. */
static uint64_t links_of(const struct topo_graph *graph, const bool *sends, uint8_t *ret)
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

/* Messages a second: of all senders the mean, the least and the most. */
static void by_source(struct open_run *open)
{
    const struct traffic_nodes *nodes = &open->nodes;
    struct traffic_rates *rates = &open->run->result->from;
    double measure_s = (double)nodes->plan.phase.measure_ps / 1e12;
    double unit = 1024 * (double)nodes->message_stats_ps * measure_s;
    uint64_t least = UINT64_MAX, most = 0;
    double all = 0;

    for (uint32_t n = 0; n < nodes->nodes; n++) {
        if (!open->links[n])
            continue;
        uint64_t from = traffic_workers_from(&nodes->workers, n);
        least = from < least ? from : least;
        most = from > most ? from : most;
        all += (double)from;
    }
    rates->mean = all / unit / open->run->result->senders;
    rates->least = (double)least / unit;
    rates->most = (double)most / unit;
}

/*
 * Throughput is known when the measurement ends: what is delivered in it has been; but with a
 * switch slower than an adapter, a segment can be in memory before its head would have been
 * through another switch, which is when the node looks at it.
 */
static int throughput(struct open_run *open)
{
    const struct traffic_nodes *nodes = &open->nodes;
    const struct emu_profile *profile = nodes->plan.profile;
    struct traffic_result *result = open->run->result;
    double batch_ps = (double)nodes->plan.phase.batch_ps;
    double factor = (double)nodes->message_wire_ps / (double)nodes->message_stats_ps;
    double wire_ps = 0;
    int err = 0;

    if (profile->nic_recv_ps + traffic_wire_ps(profile, nodes->last_bytes) < profile->switch_ps)
        err = advance(open, open->end_ps + profile->switch_ps);
    merge(open);
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++) {
        const struct traffic_batch *batch = &open->total->batch[i];
        open->accepted[i] =
            (double)batch->share_ps * factor / 1024 / (batch_ps * (double)open->all_links);
        wire_ps += (double)batch->wire_ps * factor;
    }
    by_source(open);
    result->offered = traffic_mean_of(open->offered).mean;
    result->accepted = traffic_mean_of(open->accepted);
    result->delivered =
        wire_ps / (batch_ps * TRAFFIC_BATCHES *
                   (double)links_of(open->run->config->fabric.graph, NULL, NULL));
    result->saturated =
        !too_cold(open) && traffic_saturated(open->offered, open->accepted, open->growth);
    return err;
}

/* Measured messages that are delivered: multicasts, if all of their copies are. */
static uint64_t delivered(const struct open_run *open)
{
    const struct traffic_workers *workers = &open->nodes.workers;
    uint64_t messages = 0;

    if (open->nodes.plan.sets)
        return open->completion->messages;
    for (uint32_t w = 0; w < workers->count; w++)
        messages += workers->at[w] ? workers->at[w]->stats.messages : 0;
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
    uint64_t limit_ps = DRAIN_PHASES * (open->end_ps + (too_cold(open) ? open->longest_ps : 0));
    int err = 0;

    for (uint32_t i = 0; !err && !result->saturated && delivered(open) < open->measured; i++) {
        err = advance_batch(open, i % TRAFFIC_BATCHES);
        if (i % TRAFFIC_BATCHES == TRAFFIC_BATCHES - 1 && !too_cold(open))
            result->saturated = traffic_saturated(open->offered, open->accepted, open->growth);
        result->saturated |= run->now_ps >= limit_ps;
    }
    return err;
}

/* One warm-up, one measurement, one drain. */
static int measure_once(struct open_run *open)
{
    struct traffic_result *result = open->run->result;
    double growth[TRAFFIC_BATCHES], latency[TRAFFIC_BATCHES];

    result->warmup_ps = open->nodes.plan.phase.start_ps;
    result->measure_ps = open->nodes.plan.phase.measure_ps;
    int err = measure(open);
    if (err)
        return err;
    memcpy(growth, open->growth, sizeof growth); /* a drain has its own */
    err = throughput(open);
    if (!err && !result->saturated)
        err = drain(open);
    if (err)
        return err;
    result->undelivered = open->measured - delivered(open);
    merge(open);
    traffic_latency_of(&result->latency, open->total);
    traffic_latency_of(&result->completion, open->completion);
    if (open->total->messages)
        traffic_batch_latencies(open->total, latency);
    result->steady = !result->saturated &&
                     (!open->total->messages || traffic_steady(latency, growth));
    return 0;
}

/* From now on, when nothing that counted before still arrives, and for @measure_ps. */
static void begin_again(struct open_run *open, uint64_t measure_ps)
{
    struct traffic_phase phase =
        traffic_phase_of(open->run->now_ps + open->longest_ps, measure_ps);

    open->end_ps = phase.start_ps + phase.measure_ps;
    traffic_nodes_measure(&open->nodes, &phase);
    traffic_stats_init(open->completion, &phase);
}

/* What was measured while queues still filled is warm-up for a measurement twice as long. */
static int measure_until_steady(struct open_run *open)
{
    const struct traffic_result *result = open->run->result;
    int err = measure_once(open);

    while (!err && !open->given && !result->steady && !result->saturated &&
           result->measure_ps < TRAFFIC_PHASE_MOST_PS) {
        uint64_t twice_ps = 2 * result->measure_ps;
        begin_again(open, twice_ps < TRAFFIC_PHASE_MOST_PS ? twice_ps : TRAFFIC_PHASE_MOST_PS);
        err = measure_once(open);
    }
    return err;
}

/* --- the end --------------------------------------------------------------------------- */

/* What is born before now is sent and arrives: it counts in the digest. */
static int finish_born(struct open_run *open)
{
    struct traffic_run *run = open->run;
    uint64_t limit_ps = run->now_ps + DRAIN_PHASES * open->end_ps;
    int err = 0;

    traffic_nodes_stop(&open->nodes, run->now_ps + 1, run->now_ps);
    while (!err && !fabric_idle(run->fabric) && run->now_ps < limit_ps)
        err = advance(open, run->now_ps + open->nodes.slice_ps);
    return err;
}

/*
 * When all that is inside has come, one after the other. With acknowledgments: when at least one
 * more has, though its packet may have to be sent again for want of a reply, after the longest rest.
 */
static uint64_t empty_limit_ps(const struct open_run *open, const struct traffic_segments *segments)
{
    const struct emu_profile *profile = open->nodes.plan.profile;
    uint64_t hops = open->run->config->fabric.graph->longest + 1u;
    uint64_t turn_ps = open->longest_ps + hops * profile->credit_ps;
    uint64_t limit_ps = open->run->now_ps + (segments->awaited - segments->received + 2) * turn_ps;

    if (open->nodes.times.engines)
        limit_ps += 2 * (profile->reply_timeout_ps + (profile->retry_ps << DOUBLINGS));
    return limit_ps;
}

/* No segment is sent any more. */
static int run_empty(struct open_run *open)
{
    struct traffic_run *run = open->run;
    struct traffic_segments segments = traffic_nodes_segments(&open->nodes);
    uint64_t limit_ps = empty_limit_ps(open, &segments);
    int err = 0;

    traffic_nodes_stop(&open->nodes, 0, run->now_ps);
    while (!err && !fabric_idle(run->fabric) && run->now_ps < limit_ps) {
        uint64_t received = segments.received;
        err = advance(open, run->now_ps + open->nodes.slice_ps);
        segments = traffic_nodes_segments(&open->nodes);
        if (open->nodes.times.engines && segments.received != received)
            limit_ps = empty_limit_ps(open, &segments);
    }
    if (err)
        return err;
    if (!fabric_idle(run->fabric))
        return traffic_run_wrong(run, -EPROTO, "the network does not run empty");
    if (segments.received != segments.awaited)
        return traffic_run_wrong(run, -EPROTO, "%llu segments were to arrive, and %llu have",
                                 (unsigned long long)segments.awaited,
                                 (unsigned long long)segments.received);
    uint32_t stuck = traffic_nodes_stuck(&open->nodes);
    if (stuck < open->nodes.nodes)
        return traffic_run_wrong(run, -EPROTO, "node %u waits for a credit that does not come",
                                 stuck);
    if (traffic_nodes_lost(&open->nodes))
        return traffic_run_wrong(run, -EPROTO, "a table of arrivals overflowed");
    return 0;
}

static int run_phases(struct open_run *open)
{
    struct traffic_run *run = open->run;
    struct traffic_result *result = run->result;

    traffic_nodes_begin(&open->nodes);
    traffic_run_begin(run);
    int err = measure_until_steady(open);
    if (!err && !result->saturated)
        err = finish_born(open);
    if (err)
        return err;
    result->digest = traffic_nodes_digest(&open->nodes);
    result->segments = traffic_nodes_segments(&open->nodes).sent;
    err = run_empty(open);
    return err ? err : traffic_run_check(run);
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
    open->links = malloc(nodes * sizeof open->links[0]);
    if (!open->sends || !open->links)
        return traffic_run_wrong(open->run, -ENOMEM, "out of memory");
    traffic_sources_choose(&sources, config->fabric.seed, nodes, open->sends);
    for (uint32_t n = 0; n < nodes; n++) {
        if (open->pattern->kind == TRAFFIC_FIXED && open->pattern->to[n] == TRAFFIC_NOBODY)
            open->sends[n] = false;
        senders += open->sends[n];
    }
    open->all_links = links_of(config->fabric.graph, open->sends, open->links);
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
    struct traffic_scale scale = { .load = config->load,
                                   .longest_ps = longest_ps(config, wire_ps),
                                   .wire_ps = wire_ps,
                                   .links = open->all_links };
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
    open->total = calloc(1, sizeof *open->total);
    open->completion = calloc(1, sizeof *open->completion);
    if (!open->total || !open->completion ||
        traffic_nodes_init(&open->nodes, config->fabric.graph->nodes, &plan))
        return traffic_run_wrong(open->run, -ENOMEM, "out of memory");
    traffic_stats_init(open->completion, &plan.phase);
    return 0;
}

/* A collective address for each destination set: its tree has the source as a member too. */
/* With acknowledgments a broadcast is sent only where there is room for all of its packet. */
static bool fits_places(const struct open_run *open)
{
    uint64_t bytes = open->run->config->bytes;
    uint32_t whole = EMU_HDR_BYTES + (bytes < EMU_PAYLOAD_BYTES ? (uint32_t)bytes : EMU_PAYLOAD_BYTES);

    return !open->nodes.times.engines ||
           emu_packet_segments(whole) <= 1 + open->nodes.plan.profile->pool_places;
}

static int make_groups(struct open_run *open)
{
    struct traffic_sets *sets = &open->sets;
    struct traffic_run *run = open->run;

    if (!fits_places(open))
        return traffic_run_wrong(run, -EINVAL, "with pool_places=0 no switch has room for a multicast "
                                               "of so many bytes: set pool_places to 1 or more");
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

static uint64_t sets_bytes(const struct open_run *open)
{
    const struct traffic_sets *sets = &open->sets;

    if (!open->nodes.plan.hardware || !sets->count)
        return 0;
    return fabric_multicasts_bytes(open->run->config->fabric.graph, sets->count,
                                   sets->first[sets->count] + sets->count);
}

static int build(struct open_run *open)
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
    free(open.links);
    free(open.sends);
    traffic_pattern_release(&open.drawn);
    return err;
}
