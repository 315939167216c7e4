/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * closed.c - the driver of closed loops: reductions and barriers of groups of nodes.
 *
 * The driver, the thread that runs the traffic, reads the members' logs after every slice (SLICE_PS
 * of virtual time) that has events. It posts a group's next operation when all receivers have the
 * result of the previous one, or at fixed intervals. Members begin it later by skew and noise
 * (workload/coll.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "apps/base/amount.h"
#include "apps/traffic/workload/coll.h"
#include "apps/traffic/workload/storage.h"
#include "apps/fabric/links.h"
#include "apps/traffic/internal.h"

#define SLICE_PS UINT64_C(1000000) /* 1 us */
/* latest time at which an operation may be posted; 1000 s are left for its events */
#define TIME_MOST_PS (EMU_LAST_PS - UINT64_C(1000000000000000))

#define IMPOSSIBLE_LOG "another host has logged an impossible result"

struct closed_run {
    struct traffic_run *run;
    struct traffic_coll coll;
    struct traffic_pending operations; /* incomplete operations */
    /* here a batch (stats.h) is a number of consecutive operations, not a period */
    struct traffic_stats *latency;
    uint64_t completed; /* number of complete operations of all groups */
    uint64_t *got;      /* reduce: for each group, number of result segments at its root */
    const char *wrong;  /* text of an error in the logs, or of missing memory; NULL: none */
};

/*
 * Return whether it is possible that an operation was complete at @last_ps. The logs of other hosts
 * are not trusted: they could contain an operation that was not posted, or that completes too
 * early.
 */
static bool end_is_sane(const struct closed_run *closed, const struct traffic_part *part,
                        uint64_t last_ps)
{
    const struct traffic_coll *coll = &closed->coll;
    const struct traffic_group *group = &coll->group[part->src];

    return group->done < group->posted && last_ps <= EMU_LAST_PS &&
           last_ps >= traffic_coll_last_ps(coll, part->src, part->birth_ps);
}

/*
 * Return the number of posted operations that are not complete. Valid logs contain only these
 * operations, so the table of incomplete operations never needs more entries.
 */
static uint64_t incomplete_operations(const struct closed_run *closed)
{
    uint64_t posted = 0;

    for (uint32_t g = 0; g < closed->coll.plan.groups; g++)
        posted += closed->coll.group[g].posted;
    return posted - closed->completed;
}

/*
 * Process entries of the logs. Each entry (@part) says that an operation is complete at one
 * receiver. Find the operations that are now complete at all receivers.
 */
static void take_parts(void *ctx, const struct traffic_part *part, size_t count)
{
    struct closed_run *closed = ctx;
    struct traffic_coll *coll = &closed->coll;

    if (closed->wrong ||
        traffic_pending_reserve(&closed->operations, count, incomplete_operations(closed))) {
        closed->wrong = closed->wrong ? closed->wrong : "out of memory";
        return;
    }
    for (size_t i = 0; i < count; i++, part++) {
        struct traffic_group *group = &coll->group[part->src % coll->plan.groups];
        uint64_t last_ps;

        if (part->src >= coll->plan.groups || part->birth_ps >= group->posted ||
            part->of != traffic_coll_receivers(&coll->plan)) {
            closed->wrong = IMPOSSIBLE_LOG;
            return;
        }
        bool whole = traffic_pending_arrive(&closed->operations, part, &last_ps);

        if (!whole && !closed->operations.full)
            continue;
        if (!whole || !end_is_sane(closed, part, last_ps)) {
            closed->wrong = IMPOSSIBLE_LOG;
            return;
        }
        traffic_stats_record(closed->latency, part->birth_ps,
                             last_ps - traffic_coll_last_ps(coll, part->src, part->birth_ps));
        group->done++;
        group->done_ps = last_ps > group->done_ps ? last_ps : group->done_ps;
        closed->completed++;
    }
}

static int take_logs(struct closed_run *closed)
{
    const struct traffic_workers *workers = &closed->coll.workers;

    for (uint32_t w = 0; w < workers->count; w++)
        if (workers->at[w] && workers->at[w]->log.full)
            closed->wrong = "the log of completions of a worker overflowed";
    if (traffic_hosts_logs(closed->run, &closed->coll.workers, take_parts, closed))
        closed->wrong = "out of memory";
    return closed->wrong ? traffic_run_wrong(closed->run, -EPROTO, "%s", closed->wrong) : 0;
}

/*
 * Post the operations that are due before the next slice ends. Sets *@posted if there are any.
 * Errors: -EINVAL, simulated time is over.
 */
static int post_due(struct closed_run *closed, bool *posted)
{
    const struct traffic_coll_plan *plan = &closed->coll.plan;
    uint64_t now_ps = closed->run->now_ps;

    for (uint32_t g = 0; g < plan->groups; g++) {
        struct traffic_group *group = &closed->coll.group[g];
        while (group->posted < plan->operations) {
            /* the events at now_ps have happened, so an operation cannot be posted then */
            uint64_t next_ps = now_ps + (now_ps > 0);
            uint64_t at_ps = group->done_ps > next_ps ? group->done_ps : next_ps;
            if (plan->interval_ps)
                at_ps = group->posted * plan->interval_ps;
            if (plan->interval_ps ? at_ps > now_ps + SLICE_PS : group->done < group->posted)
                break;
            if (at_ps > TIME_MOST_PS)
                return traffic_run_wrong(closed->run, -EINVAL,
                                         "the operations take more than 53 days, the limit of "
                                         "simulated time");
            traffic_coll_post(&closed->coll, g, at_ps);
            *posted = true;
        }
    }
    return 0;
}

/* Return whether operations are posted at fixed intervals, and some are not posted yet. */
static bool has_posts_left(const struct closed_run *closed)
{
    const struct traffic_coll_plan *plan = &closed->coll.plan;

    for (uint32_t g = 0; g < plan->groups; g++)
        if (closed->coll.group[g].posted < plan->operations)
            return plan->interval_ps > 0;
    return false;
}

/*
 * Return the end of the next slice that is not empty: it contains an event, or the driver posts an
 * operation after it.
 */
static uint64_t next_slice_ps(const struct closed_run *closed)
{
    const struct traffic_coll_plan *plan = &closed->coll.plan;
    uint64_t least_ps = closed->run->now_ps + SLICE_PS;
    uint64_t next_ps = fabric_next_ps(closed->run->fabric);

    for (uint32_t g = 0; plan->interval_ps && g < plan->groups; g++) {
        uint64_t post_ps = closed->coll.group[g].posted * plan->interval_ps;
        if (closed->coll.group[g].posted < plan->operations && post_ps - SLICE_PS < next_ps)
            next_ps = post_ps - SLICE_PS;
    }
    if (next_ps <= least_ps || next_ps == EMU_NEVER)
        return least_ps;
    return (next_ps + SLICE_PS - 1) / SLICE_PS * SLICE_PS;
}

static int closed_empty(struct traffic_run *run, uint64_t waiting, uint64_t all)
{
    struct fabric_drop loss;
    char why[96] = "the network is empty";

    fabric_drops_find(run->fabric, run->now_ps, EMU_NEVER);
    while (fabric_drop_take(run->fabric, &loss))
        if (loss.what == FABRIC_UNIT_DAMAGED)
            snprintf(why, sizeof why,
                     "the combine unit of switch %u found a parity error in a partial result",
                     loss.sw);
    return traffic_run_wrong(run, -EPROTO, "%s and %llu of %llu operation%s %s not complete", why,
                             (unsigned long long)waiting, (unsigned long long)all, plural_s(all),
                             waiting == 1 ? "is" : "are");
}

/* Return whether got[] is possible: no count has decreased or exceeds the posted segments. */
static bool roots_are_sane(const struct closed_run *closed)
{
    const struct traffic_coll *coll = &closed->coll;

    for (uint32_t g = 0; g < coll->plan.groups; g++)
        if (closed->got[g] < coll->group[g].announced ||
            closed->got[g] > coll->group[g].posted * coll->segments)
            return false;
    return true;
}

/* Announce how many result segments the roots have. *@moved: whether a count has changed. */
static int announce(struct closed_run *closed, bool *moved)
{
    struct traffic_run *run = closed->run;
    const struct traffic_coll *coll = &closed->coll;
    int err;

    *moved = false;
    /*
     * Other collectives need no announcement, because all members get the result. Return an error
     * now, because after an error the network looks empty.
     */
    if (coll->plan.what != TRAFFIC_REDUCE)
        return traffic_hosts_error(run);
    traffic_coll_roots(coll, closed->got);
    traffic_hosts_sum(run, closed->got, coll->plan.groups);
    err = traffic_hosts_error(run);
    if (err)
        return err;
    if (!roots_are_sane(closed))
        return traffic_run_wrong(run, -EPROTO, IMPOSSIBLE_LOG);
    *moved = traffic_coll_announce(&closed->coll, closed->got, run->now_ps);
    return 0;
}

/* Check the nodes of this host directly, because the logs of other hosts are not trusted. */
static int check_here(struct closed_run *closed)
{
    uint32_t node = traffic_coll_unfinished(&closed->coll);

    if (node == closed->coll.nodes)
        return 0;
    return traffic_run_wrong(closed->run, -EPROTO,
                             "another host has logged operations as complete that node %u has not "
                             "completed",
                             node);
}

/* Compute the digest of all results and the number of segments that members sent, on all hosts. */
static int take_totals(struct closed_run *closed)
{
    struct traffic_run *run = closed->run;
    uint64_t *by_node = calloc(closed->coll.nodes, sizeof by_node[0]), storage[2];

    if (!by_node)
        return traffic_run_wrong(run, -ENOMEM, "out of memory");
    traffic_storage_totals(&closed->coll, &storage[0], &storage[1]);
    traffic_hosts_sum(run, storage, 2);
    if (traffic_hosts_error(run)) {
        free(by_node);
        return traffic_hosts_error(run);
    }
    run->result->storage_bytes = storage[1] * EMU_PAYLOAD_BYTES;
    traffic_coll_totals(&closed->coll, by_node, &run->result->segments);
    traffic_hosts_digest(run, by_node, closed->coll.nodes);
    traffic_hosts_sum(run, &run->result->segments, 1);
    free(by_node);
    if (storage[0] != storage[1])
        return traffic_run_wrong(run, -EPROTO,
                                 "clients have sent %llu segments, and servers have received %llu",
                                 (unsigned long long)storage[0], (unsigned long long)storage[1]);
    return 0;
}

static int run_operations(struct closed_run *closed)
{
    struct traffic_run *run = closed->run;
    uint64_t all = closed->coll.plan.operations * closed->coll.plan.groups;
    bool moved = false;
    int err;

    traffic_run_begin(run);
    err = post_due(closed, &moved);
    while (!err && closed->completed < all) {
        run->now_ps = next_slice_ps(closed);
        err = traffic_faults_advance(run);
        if (!err)
            err = traffic_coll_check(&closed->coll, run->error, run->error_bytes);
        if (!err)
            err = take_logs(closed);
        if (err)
            break;
        bool idle = fabric_idle(run->fabric);

        err = announce(closed, &moved);
        if (!err)
            err = post_due(closed, &moved);
        if (err)
            break;
        if (idle && !moved && closed->completed < all && !has_posts_left(closed) &&
            !traffic_faults_will_revert(run))
            err = closed_empty(run, all - closed->completed, all);
        if (!err)
            err = traffic_run_progress(run, (double)closed->completed / (double)all);
    }
    closed->coll.storage.stopped = true;
    /* After the last segment of a reduction, credits are still in flight. Wait for them. */
    while (!err && !fabric_idle(run->fabric)) {
        run->now_ps += SLICE_PS;
        err = traffic_faults_advance(run);
        if (!err) /* another host may never become idle, so let the user interrupt the wait */
            err = traffic_run_progress(run, 1);
    }
    if (!err)
        err = check_here(closed);
    if (!err)
        err = take_totals(closed);
    return err ? err : traffic_run_check(run);
}

static int check_plan(struct traffic_run *run, const struct traffic_coll_plan *plan)
{
    uint32_t nodes = run->config->fabric.graph->nodes;

    if (plan->members < 2) /* the user gave no --group-size, because it must be at least 2 */
        return traffic_run_wrong(run, -EINVAL,
                                 "--groups %u: a group needs 2 or more nodes, so a network of %u "
                                 "nodes has space for at most %u group%s",
                                 plan->groups, nodes, nodes / 2, plural_s(nodes / 2));
    if ((uint64_t)plan->groups * plan->members > nodes)
        return traffic_run_wrong(run, -EINVAL,
                                 "%u group%s of %u nodes: the network has %u nodes, and a node is "
                                 "in at most one group",
                                 plan->groups, plural_s(plan->groups), plan->members, nodes);
    if (plan->servers && (uint64_t)plan->groups * plan->members + plan->servers >= nodes)
        return traffic_run_wrong(run, -EINVAL,
                                 "--storage %u: %u of %u nodes are in no group, and a file system "
                                 "needs these servers and at least one client: choose a smaller "
                                 "--group-size",
                                 plan->servers, nodes - plan->groups * plan->members, nodes);
    if ((run->config->tclass || run->config->storage_tclass) &&
        !emu_profile_acknowledged(plan->profile))
        return traffic_run_wrong(run, -EINVAL,
                                 "traffic classes need a network with acknowledgments, such as "
                                 "--profile qsnet3");
    if (plan->interval_ps && plan->operations > TIME_MOST_PS / plan->interval_ps)
        return traffic_run_wrong(run, -EINVAL,
                                 "%llu operations, one every %llu ns, take more than 53 days of "
                                 "simulated time",
                                 (unsigned long long)plan->operations,
                                 (unsigned long long)plan->interval_ps / 1000);
    if (plan->by != TRAFFIC_BY_HARDWARE && plan->what == TRAFFIC_REDUCE)
        return traffic_run_wrong(run, -EINVAL,
                                 "a reduce by messages is not supported: use --collective hardware "
                                 "or --pattern allreduce");
    if (plan->by == TRAFFIC_BY_DISSEMINATION && plan->what == TRAFFIC_ALLREDUCE &&
        ((plan->members & (plan->members - 1)) || (plan->radix & (plan->radix - 1))))
        return traffic_run_wrong(run, -EINVAL,
                                 "an all-reduce by dissemination needs powers of two, not %u "
                                 "members in rounds of %u: use --collective tree",
                                 plan->members, plan->radix ? plan->radix : 2);
    if (plan->interval_ps && plan->skew_ps > plan->interval_ps)
        return traffic_run_wrong(
            run, -EINVAL,
            "a skew of %llu ns with an interval of %llu ns: members would post "
            "operations out of order; choose a longer --interval, or 0",
            (unsigned long long)plan->skew_ps / 1000, (unsigned long long)plan->interval_ps / 1000);
    return 0;
}

/* Set the traffic classes of the members of groups and of the other nodes. */
static void set_tclasses(struct closed_run *closed)
{
    const struct traffic_config *config = closed->run->config;
    const struct traffic_coll *coll = &closed->coll;

    for (uint32_t i = 0; i < coll->nodes; i++)
        fabric_set_tclass(closed->run->fabric, coll->at[i],
                          i < coll->plan.groups * coll->plan.members ? config->tclass
                                                                     : config->storage_tclass);
}

static int build(struct closed_run *closed)
{
    struct traffic_run *run = closed->run;
    const struct traffic_config *config = run->config;
    struct traffic_result *result = run->result;
    uint32_t nodes = config->fabric.graph->nodes;
    struct traffic_coll_plan plan = {
        .profile = &config->fabric.profile,
        .what = config->pattern.collective,
        .by = config->by,
        .radix = config->radix,
        .processes = config->processes,
        .noise = config->noise,
        .bytes = config->pattern.collective == TRAFFIC_BARRIER ? 0 : (config->bytes + 7) / 8 * 8,
        .operations = config->operations,
        .interval_ps = config->interval_ps,
        .skew_ps = config->skew_ps,
        .groups = config->groups,
        .members = config->members ? config->members : nodes / config->groups,
        .at_random = config->at_random,
        .servers = config->servers,
        .seed = config->fabric.seed,
    };
    struct traffic_phase phase = traffic_phase_of(0, plan.operations);
    int err = check_plan(run, &plan);

    if (err)
        return err;
    result->collective = true;
    result->groups = plan.groups;
    result->members = plan.members;
    result->servers = plan.servers;
    result->bytes = plan.bytes;
    closed->latency = calloc(1, sizeof *closed->latency);
    closed->got = calloc(plan.groups, sizeof closed->got[0]);
    if (!closed->latency || !closed->got || traffic_coll_init(&closed->coll, nodes, &plan))
        return traffic_run_wrong(run, -ENOMEM, "out of memory");
    traffic_stats_init(closed->latency, &phase);
    err = traffic_run_start(run, &closed->coll.ops, traffic_coll_bytes(nodes, &plan, SLICE_PS), 0);
    if (!err)
        err =
            traffic_coll_groups(&closed->coll, run->fabric, SLICE_PS, run->error, run->error_bytes);
    if (!err)
        set_tclasses(closed);
    return err;
}

int traffic_run_closed(struct traffic_run *run)
{
    struct closed_run closed = {.run = run};
    int err = build(&closed);

    if (!err)
        err = run_operations(&closed);
    if (!err)
        traffic_latency_of(&run->result->latency, closed.latency);
    traffic_run_stop(run);
    traffic_coll_free(&closed.coll);
    traffic_pending_release(&closed.operations);
    free(closed.latency);
    free(closed.got);
    return err;
}
