/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open.c - the driver of open loops: warm-up, measurement, drain.
 *
 * Sources send until all messages that were born in the measurement are delivered, so that these
 * messages meet the full load until the end. A saturated run does not wait for them. If the user
 * has not set the phases, the run repeats the measurement, each time twice as long, until the
 * traffic is steady. At the end the sources stop, the network empties, and every sent segment must
 * have arrived.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/traffic/open.h"
#include "nic/engine/engine.h"

#define IMPOSSIBLE "another host has sent or logged an impossible message"
#define COUNT_MOST (UINT64_C(1) << 62)
/* added by each host to a count that may be negative, so that the sum over all hosts is not */
#define COUNT_BIAS   (UINT64_C(1) << 55)
#define DRAIN_PHASES 10 /* longest drain, as a multiple of warm-up + measurement */
/*
 * The longest simulated time that a run waits, after the last fault, until links are in use again.
 * The limit is high, because the manager doubles its pause after each failed test of a link, and
 * segments may have no other route.
 */
#define RECOVERY_MOST_PS UINT64_C(200000000000)

/* --- sums over all hosts ------------------------------------------------------------ */

static struct traffic_counts count_all(struct open_run *open)
{
    struct traffic_counts counts = traffic_nodes_count(&open->nodes, open->run->now_ps);
    uint64_t hosts = open->run->config->hosts ? open->run->config->hosts->fabric.count : 1;
    uint64_t sums[] = {counts.born, (uint64_t)counts.waiting + COUNT_BIAS, counts.relayed};

    traffic_hosts_sum(open->run, sums, sizeof sums / sizeof sums[0]);
    counts = (struct traffic_counts){.born = sums[0], .relayed = sums[2]};
    counts.waiting = (int64_t)(sums[1] - hosts * COUNT_BIAS + (sums[2] >> 32));
    /* reject magnitudes of 2^62 and more, so that differences of two counts do not overflow */
    open->invalid |= (uint64_t)counts.waiting + COUNT_MOST >= 2 * COUNT_MOST;
    if (open->invalid)
        counts.waiting = 0;
    return counts;
}

static struct traffic_segments segments_all(struct open_run *open)
{
    struct traffic_segments segments = traffic_nodes_segments(&open->nodes);
    uint64_t sums[] = {segments.sent, segments.awaited, segments.received};

    traffic_hosts_sum(open->run, sums, sizeof sums / sizeof sums[0]);
    return (struct traffic_segments){.sent = sums[0], .awaited = sums[1], .received = sums[2]};
}

static int digest_all(struct open_run *open)
{
    uint64_t *by_node = calloc(open->nodes.nodes, sizeof by_node[0]);

    if (!by_node)
        return traffic_run_wrong(open->run, -ENOMEM, "out of memory");
    traffic_nodes_digests(&open->nodes, by_node);
    traffic_hosts_digest(open->run, by_node, open->nodes.nodes);
    free(by_node);
    return 0;
}

/* --- time --------------------------------------------------------------------------- */

/*
 * Return an upper bound on the number of incomplete multicasts. A multicast is incomplete while
 * only some of its copies have arrived. The bound is the number of messages that the senders' links
 * can have sent up to now, minus the number of complete multicasts.
 */
static uint64_t multicasts_most(const struct open_run *open)
{
    uint64_t sent = open->all_links * (open->run->now_ps / open->nodes.message_wire_ps + 1);

    return sent > open->complete ? sent - open->complete : 0;
}

/* Record arrivals of copies, and find the multicasts that are now complete. */
static int take_parts(struct open_run *open, const struct traffic_part *part, size_t count)
{
    int err = traffic_pending_reserve(&open->multicasts, count, multicasts_most(open));

    for (size_t i = 0; i < count && !err; i++) {
        uint64_t last_ps;
        if (!traffic_pending_arrive(&open->multicasts, &part[i], &last_ps))
            continue;
        traffic_stats_latency(open->completion, part[i].birth_ps, last_ps);
        open->complete++;
    }
    open->invalid |= open->multicasts.full;
    return err;
}

static void take_others(void *ctx, const struct traffic_part *part, size_t count)
{
    const struct traffic_sets *sets;
    struct open_run *open = ctx;

    sets = open->nodes.plan.sets;
    for (size_t i = 0; i < count; i++)
        open->invalid |= part[i].src >= open->nodes.nodes || !part[i].of ||
                         part[i].at_ps < part[i].birth_ps || part[i].at_ps > EMU_LAST_PS ||
                         (sets && part[i].of > sets->fanout_max);
    if (!open->invalid && take_parts(open, part, count))
        open->no_memory = true;
}

static int take_logs(struct open_run *open)
{
    struct traffic_nodes *nodes = &open->nodes;
    int err = 0;

    if (!nodes->plan.completions)
        return 0;
    err = traffic_hosts_logs(open->run, &nodes->workers, take_others, open);
    if (err || open->no_memory)
        return -ENOMEM;
    return open->invalid ? traffic_run_wrong(open->run, -EPROTO, IMPOSSIBLE) : 0;
}

static int advance(struct open_run *open, uint64_t until_ps)
{
    struct traffic_run *run = open->run;
    int err = 0;

    while (!err && run->now_ps < until_ps) {
        uint64_t left_ps = until_ps - run->now_ps;
        err = traffic_nodes_reserve(&open->nodes);
        if (err)
            break;
        run->now_ps += left_ps < open->nodes.slice_ps ? left_ps : open->nodes.slice_ps;
        err = traffic_faults_advance(run);
        if (!err)
            err = take_logs(open);
        if (!err)
            err = traffic_run_progress(run, (double)run->now_ps / (double)open->end_ps);
    }
    if (err == -ENOMEM)
        return traffic_run_wrong(run, err, "out of memory");
    return err;
}

/* --- phases ------------------------------------------------------------------------- */

/*
 * Convert a count of messages to a fraction of the number that the sources' links can send in a
 * batch.
 */
static double part_of_links(const struct open_run *open, double messages)
{
    double links = (double)open->nodes.plan.phase.batch_ps * (double)open->all_links;

    return messages * (double)open->nodes.message_wire_ps / links;
}

/* Run batch @i, and record the growth of the backlog: the messages that wait in the sources. */
static int advance_batch(struct open_run *open, uint32_t i)
{
    struct traffic_counts before = open->counts;
    int err = advance(open, open->run->now_ps + open->nodes.plan.phase.batch_ps);

    if (err)
        return err;
    open->counts = count_all(open);
    open->growth[i] = part_of_links(open, (double)(open->counts.waiting - before.waiting));
    return 0;
}

static int measure(struct open_run *open)
{
    int err = advance(open, open->nodes.plan.phase.start_ps);

    if (err)
        return err;
    open->measured = 0;
    open->counts = count_all(open);
    for (uint32_t i = 0; i < TRAFFIC_BATCHES && !err; i++) {
        uint64_t born = open->counts.born;
        err = advance_batch(open, i);
        open->offered[i] = part_of_links(open, (double)(open->counts.born - born));
        open->measured += open->counts.born - born;
    }
    open->run->result->backlog = open->counts.waiting;
    return err;
}

static void add_stats(void *ctx, uint32_t host, const void *stats, size_t bytes)
{
    struct open_run *open = ctx;

    (void)host;
    if (bytes != sizeof *open->other)
        return; /* the next superstep (hosts.h) detects the error */
    memcpy(open->other, stats, bytes);
    traffic_stats_add(open->total, open->other);
}

static void merge(struct open_run *open)
{
    const struct traffic_workers *workers = &open->nodes.workers;

    traffic_stats_init(open->total, &open->nodes.plan.phase);
    for (uint32_t w = 0; w < workers->count; w++)
        if (workers->at[w])
            traffic_stats_add(open->total, &workers->at[w]->stats);
    traffic_hosts_gather(open->run, open->total, sizeof *open->total, add_stats, open);
}

/*
 * Return whether the warm-up is too short to fill the queues. Then their growth during the
 * measurement would look like saturation.
 */
static bool warmup_too_short(const struct open_run *open)
{
    return open->nodes.plan.phase.start_ps < open->longest_ps;
}

/* Compute messages per second by sender: mean, minimum and maximum. */
static int by_source(struct open_run *open)
{
    const struct traffic_nodes *nodes = &open->nodes;
    uint64_t *from_all = calloc(nodes->nodes, sizeof from_all[0]);
    struct traffic_rates *rates = &open->run->result->from;
    double measure_s = (double)nodes->plan.phase.measure_ps / 1e12;
    double unit = 1024 * (double)nodes->message_stats_ps * measure_s;
    uint64_t least = UINT64_MAX, most = 0;
    double all = 0;

    if (!from_all)
        return traffic_run_wrong(open->run, -ENOMEM, "out of memory");
    for (uint32_t n = 0; n < nodes->nodes; n++)
        from_all[n] = traffic_workers_from(&nodes->workers, n);
    traffic_hosts_sum(open->run, from_all, nodes->nodes);
    for (uint32_t n = 0; n < nodes->nodes; n++) {
        if (!open->links[n])
            continue;
        uint64_t from = from_all[n];
        least = from < least ? from : least;
        most = from > most ? from : most;
        all += (double)from;
    }
    rates->mean = all / unit / open->run->result->senders;
    rates->least = (double)least / unit;
    rates->most = (double)most / unit;
    free(from_all);
    return 0;
}

static int throughput(struct open_run *open)
{
    const struct traffic_nodes *nodes = &open->nodes;
    struct traffic_result *result = open->run->result;
    double batch_ps = (double)nodes->plan.phase.batch_ps;
    double factor = (double)nodes->message_wire_ps / (double)nodes->message_stats_ps;
    double wire_ps = 0;
    int err;

    merge(open);
    for (uint32_t i = 0; i < TRAFFIC_BATCHES; i++) {
        const struct traffic_batch *batch = &open->total->batch[i];
        open->accepted[i] = (double)batch->share_ps * factor / 1024 /
                            (batch_ps * (double)open->all_links);
        wire_ps += (double)batch->wire_ps * factor;
    }
    err = by_source(open);
    result->offered = traffic_mean_of(open->offered).mean;
    result->accepted = traffic_mean_of(open->accepted);
    result->delivered = wire_ps /
                        (batch_ps * TRAFFIC_BATCHES *
                         (double)traffic_open_links(open->run->config->fabric.graph, NULL, NULL));
    result->saturated = !warmup_too_short(open) &&
                        traffic_saturated(open->offered, open->accepted, open->growth);
    return err;
}

/*
 * Return the number of measured messages that are delivered. A multicast counts when it is
 * complete.
 */
static uint64_t delivered(struct open_run *open)
{
    const struct traffic_workers *workers = &open->nodes.workers;
    uint64_t messages = 0;

    if (open->nodes.plan.sets)
        return open->completion->messages;
    for (uint32_t w = 0; w < workers->count; w++)
        messages += workers->at[w] ? workers->at[w]->stats.messages : 0;
    traffic_hosts_sum(open->run, &messages, 1);
    return messages;
}

/*
 * Run until all measured messages are delivered. The backlog may begin to grow only now: an
 * overloaded network may have enough buffers for all excess traffic of the measurement.
 */
static int drain(struct open_run *open)
{
    struct traffic_run *run = open->run;
    struct traffic_result *result = run->result;
    uint64_t limit_ps = DRAIN_PHASES *
                        (open->end_ps + (warmup_too_short(open) ? open->longest_ps : 0));
    int err = 0;

    for (uint32_t i = 0; !err && !result->saturated && delivered(open) < open->measured; i++) {
        err = advance_batch(open, i % TRAFFIC_BATCHES);
        if (i % TRAFFIC_BATCHES == TRAFFIC_BATCHES - 1 && !warmup_too_short(open))
            result->saturated = traffic_saturated(open->offered, open->accepted, open->growth);
        result->saturated |= run->now_ps >= limit_ps;
    }
    return err;
}

static int measure_once(struct open_run *open)
{
    struct traffic_result *result = open->run->result;
    double growth[TRAFFIC_BATCHES], latency[TRAFFIC_BATCHES];
    uint64_t arrived;

    result->warmup_ps = open->nodes.plan.phase.start_ps;
    result->measure_ps = open->nodes.plan.phase.measure_ps;
    int err = measure(open);
    if (err)
        return err;
    memcpy(growth, open->growth, sizeof growth); /* the drain overwrites it */
    err = throughput(open);
    if (!err && !result->saturated)
        err = drain(open);
    if (err)
        return err;
    arrived = delivered(open);
    result->undelivered = arrived < open->measured ? open->measured - arrived : 0;
    merge(open);
    traffic_latency_of(&result->latency, open->total);
    traffic_latency_of(&result->completion, open->completion);
    if (open->total->messages)
        traffic_batch_latencies(open->total, latency);
    result->steady = !result->saturated &&
                     (!open->total->messages || traffic_steady(latency, growth));
    return traffic_hosts_error(open->run);
}

/* Begin the next measurement after longest_ps, when messages of the previous one have arrived. */
static void begin_again(struct open_run *open, uint64_t measure_ps)
{
    struct traffic_phase phase = traffic_phase_of(open->run->now_ps + open->longest_ps, measure_ps);

    open->end_ps = phase.start_ps + phase.measure_ps;
    traffic_nodes_measure(&open->nodes, &phase);
    traffic_stats_init(open->completion, &phase);
}

/*
 * Measure until the traffic is steady. A measurement in which queues were still filling serves as
 * the warm-up of the next one, which is twice as long.
 */
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

static int take_series(struct open_run *open)
{
    const struct traffic_workers *workers = &open->nodes.workers;
    struct traffic_series *series = &open->run->result->series;

    if (!workers->windows)
        return 0;
    series->window_ps = workers->window_ps;
    series->windows = workers->windows;
    series->bytes = calloc(series->windows, sizeof series->bytes[0]);
    if (!series->bytes)
        return traffic_run_wrong(open->run, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < series->windows; i++)
        series->bytes[i] = traffic_workers_window(workers, i);
    traffic_hosts_sum(open->run, series->bytes, series->windows);
    return 0;
}

/* --- the end of a run --------------------------------------------------------------- */

/* Return whether the network is empty, and the manager neither tests links nor computes tables. */
static bool run_idle(const struct traffic_run *run)
{
    return fabric_idle(run->fabric) && !traffic_faults_busy(run);
}

/* Stop the sources, and run until all messages born so far have arrived and are in the digest. */
static int finish_born(struct open_run *open)
{
    struct traffic_run *run = open->run;
    uint64_t limit_ps = run->now_ps + DRAIN_PHASES * open->end_ps;
    int err = traffic_faults_revert(run);

    traffic_nodes_stop(&open->nodes, run->now_ps + 1, run->now_ps);
    while (!err && !run_idle(run) && run->now_ps < limit_ps)
        err = advance(open, run->now_ps + open->nodes.slice_ps);
    return err;
}

/*
 * Return the time by which the network must be empty, even if each segment leaves only when the one
 * before it has arrived. With acknowledgments, return the time by which at least one more segment
 * must have arrived, even if it is sent again after the longest backoff.
 */
static uint64_t empty_limit_ps(const struct open_run *open, const struct traffic_segments *segments)
{
    const struct emu_profile *profile = open->nodes.plan.profile;
    uint64_t hops = open->run->config->fabric.graph->longest + 1u;
    uint64_t segment_ps = open->longest_ps + hops * profile->credit_ps;
    uint64_t limit_ps = open->run->now_ps +
                        (segments->awaited - segments->received + 2) * segment_ps;

    if (open->nodes.times.engines)
        limit_ps += 2 * (profile->reply_timeout_ps + (profile->retry_ps << ENGINE_DOUBLINGS));
    return limit_ps;
}

static int run_empty(struct open_run *open)
{
    struct traffic_run *run = open->run;
    struct traffic_segments segments = segments_all(open);
    uint64_t limit_ps = empty_limit_ps(open, &segments),
             recovery_until_ps = run->now_ps + RECOVERY_MOST_PS;
    /* finish_born() does this, too, but a saturated run skips it */
    int err = traffic_faults_revert(run);

    traffic_nodes_stop(&open->nodes, 0, run->now_ps);
    while (!err && !run_idle(run) && run->now_ps < limit_ps) {
        uint64_t received = segments.received;
        err = advance(open, run->now_ps + open->nodes.slice_ps);
        segments = segments_all(open);
        if (open->nodes.times.engines && segments.received != received)
            limit_ps = empty_limit_ps(open, &segments);
        if (traffic_faults_busy(run) && run->now_ps < recovery_until_ps)
            /* segments may wait for a link that is being tested */
            limit_ps = empty_limit_ps(open, &segments);
    }
    if (err)
        return err;
    if (open->invalid || traffic_nodes_invalid(&open->nodes))
        return traffic_run_wrong(run, -EPROTO, IMPOSSIBLE);
    if (!fabric_idle(run->fabric))
        return traffic_run_wrong(run, -EPROTO, "the network does not become empty");
    if (segments.received != segments.awaited)
        return traffic_run_wrong(run, -EPROTO, "%llu segments should have arrived, but %llu have",
                                 (unsigned long long)segments.awaited,
                                 (unsigned long long)segments.received);
    uint32_t stuck = traffic_nodes_stuck(&open->nodes);
    if (stuck < open->nodes.nodes)
        return traffic_run_wrong(run, -EPROTO, "node %u waits for a credit that does not come",
                                 stuck);
    if (traffic_nodes_lost(&open->nodes))
        return traffic_run_wrong(run, -EPROTO, "a table of messages, a queue or a log overflowed");
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
    err = digest_all(open);
    if (err)
        return err;
    result->segments = segments_all(open).sent;
    err = take_series(open);
    if (!err)
        err = run_empty(open);
    return err ? err : traffic_run_check(run);
}

int traffic_run_open(struct traffic_run *run)
{
    struct open_run open = {.run = run};
    int err = traffic_open_build(&open);

    if (!err)
        err = run_phases(&open);
    traffic_run_stop(run);
    traffic_nodes_free(&open.nodes);
    traffic_pending_release(&open.multicasts);
    traffic_sets_release(&open.sets);
    free(open.completion);
    free(open.total);
    free(open.other);
    free(open.links);
    free(open.sends);
    traffic_pattern_release(&open.drawn);
    return err;
}
