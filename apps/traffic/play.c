/* SPDX-License-Identifier: BSD-3-Clause */
/* play.c - the driver of a GOAL file: it runs until all operations are complete. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "apps/base/amount.h"
#include "apps/traffic/goal/player.h"
#include "apps/traffic/internal.h"
#include "nic/engine/engine.h"

/*
 * A slice is the simulated time between two reads of the counters: the time so far divided by
 * SLICE_PART, but at least SLICE_LEAST_PS and at most SLICE_MOST_PS.
 */
#define SLICE_PART     64u
#define SLICE_LEAST_PS UINT64_C(1000000)  /* 1 us */
#define SLICE_MOST_PS  UINT64_C(20000000) /* 20 us */

#define TEXT_BYTES 480u /* size of the description of the ranks that cannot continue */

/* Report why the operations cannot end, and return the error. */
static int fail_standstill(struct traffic_run *run, const struct goal_player *player)
{
    uint64_t left = player->goal->ops - goal_player_done(player);
    char text[TEXT_BYTES];
    uint32_t ranks = goal_player_stuck(player, text, sizeof text);
    int err = goal_player_agree(player, !left, run->error, run->error_bytes);

    if (err)
        return err;
    if (!left)
        return traffic_run_wrong(run, -EPROTO, "the network does not become empty");
    return traffic_run_wrong(run, -EPROTO, "%llu of %u operation%s at %u rank%s cannot end: %s",
                             (unsigned long long)left, player->goal->ops,
                             plural_s(player->goal->ops), ranks, plural_s(ranks), text);
}

/* --- standstill --------------------------------------------------------------------- */

/* The last time at which goal_player_moved() had changed, and its value at that time. */
struct quiet {
    uint64_t since_ps, moved;
};

/*
 * Return the time after which a segment of a rank must have moved, even if packets are sent again
 * after the longest backoff. With faults, each packet may be lost as often as the profile allows.
 */
static uint64_t quiet_limit_ps(const struct traffic_run *run)
{
    const struct emu_profile *profile = &run->config->fabric.profile;
    uint64_t once_ps = profile->reply_timeout_ps + (profile->retry_ps << ENGINE_DOUBLINGS);
    uint64_t times = run->faults && profile->retry_limit > 2 ? profile->retry_limit : 2;

    return once_ps < EMU_LAST_PS / times ? once_ps * times : EMU_LAST_PS;
}

/*
 * Return whether no operation can end any more. In a network with acknowledgments, adapters repeat
 * a barrier's conditional as long as a rank is missing, so the network is not idle then.
 */
static bool is_still(const struct traffic_run *run, const struct goal_player *player,
                     struct quiet *quiet)
{
    bool moves = !emu_profile_acknowledged(player->profile) || traffic_faults_will_revert(run) ||
                 goal_player_moved(player) != quiet->moved;

    if (fabric_idle(run->fabric))
        return !traffic_faults_will_revert(run);
    if (!moves && run->now_ps - quiet->since_ps < quiet_limit_ps(run))
        return false;
    *quiet = (struct quiet){run->now_ps, goal_player_moved(player)};
    return !moves && goal_player_rests(player);
}

/* --- the run ------------------------------------------------------------------------ */

/* Advance by a slice, or to the next event if that is later. */
static int advance(struct traffic_run *run, const struct goal_player *player)
{
    uint64_t next_ps = fabric_next_ps(run->fabric), slice_ps = run->now_ps / SLICE_PART;
    int err;

    slice_ps = slice_ps > SLICE_LEAST_PS ? slice_ps : SLICE_LEAST_PS;
    run->now_ps += slice_ps < SLICE_MOST_PS ? slice_ps : SLICE_MOST_PS;
    if (next_ps != EMU_NEVER && next_ps > run->now_ps)
        run->now_ps = next_ps;
    if (run->now_ps > EMU_LAST_PS)
        return traffic_run_wrong(run, -EINVAL,
                                 "the operations take more than 53 days, the limit of simulated "
                                 "time");
    err = traffic_faults_advance(run);
    return err ? err : goal_player_check(player, run->error, run->error_bytes);
}

static int run_operations(struct traffic_run *run, struct goal_player *player)
{
    uint64_t all = player->goal->ops, done;
    struct quiet quiet = {0, 0};
    char text[TEXT_BYTES];
    int err = 0;

    traffic_run_begin(run);
    goal_player_begin(player);
    while (!err && ((done = goal_player_done(player)) < all || !fabric_idle(run->fabric))) {
        if (is_still(run, player, &quiet))
            return fail_standstill(run, player);
        err = advance(run, player);
        if (!err)
            err = traffic_run_progress(run, (double)done / (double)all);
    }
    if (!err && goal_player_stuck(player, text, sizeof text))
        err = traffic_run_wrong(run, -EPROTO, "messages were not received: %s", text);
    return err ? err : goal_player_agree(player, true, run->error, run->error_bytes);
}

/* --- results ------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static struct traffic_range range_of(uint64_t *value, uint32_t count)
{
    qsort(value, count, sizeof value[0], compare);
    return (struct traffic_range){value[0], value[count / 2], value[count - 1]};
}

/* Store the ranges of the ranks' times. @value: a buffer for two numbers per rank. */
static void take_times(struct traffic_run *run, const struct goal_player *player, uint64_t *value)
{
    struct traffic_goal *ret = &run->result->goal;
    uint64_t *blocked = value + player->goal->ranks;
    uint32_t count = 0;

    for (uint32_t r = 0; r < player->goal->ranks; r++) {
        struct goal_times times = goal_player_times(player, r);

        if (!player->goal->rank[r].ops)
            continue;
        value[count] = times.finish_ps;
        blocked[count++] = times.blocked_ps;
    }
    if (!count)
        return;
    ret->finish_ps = range_of(value, count);
    ret->blocked_ps = range_of(blocked, count);
}

static int take_results(struct traffic_run *run, const struct goal_player *player)
{
    struct traffic_result *result = run->result;
    uint64_t *value = calloc(player->nodes, 2 * sizeof value[0]), received;
    struct traffic_stats *latency = player->worker[0] ? &player->worker[0]->latency : NULL;

    if (!value)
        return traffic_run_wrong(run, -ENOMEM, "out of memory");
    goal_player_totals(player, value, &result->segments, &received);
    traffic_hosts_digest(run, value, player->nodes);
    take_times(run, player, value);
    free(value);
    for (uint32_t w = 0; w < player->workers; w++) {
        const struct goal_worker *worker = player->worker[w];

        if (!worker)
            continue;
        result->goal.messages += worker->messages;
        result->goal.bytes += worker->bytes;
        if (latency && latency != &worker->latency)
            traffic_stats_add(latency, &worker->latency);
        else
            latency = &player->worker[w]->latency;
    }
    traffic_latency_of(&result->latency, latency);
    if (result->segments == received || run->faults)
        return 0;
    return traffic_run_wrong(run, -EPROTO, "nodes sent %llu segment%s, but %llu arrived",
                             (unsigned long long)result->segments, plural_s(result->segments),
                             (unsigned long long)received);
}

static int build(struct traffic_run *run, struct goal_player *player)
{
    const struct traffic_config *config = run->config;
    const struct goal *goal = config->goal;
    uint32_t nodes = config->fabric.graph->nodes;

    if (goal->ranks > nodes)
        return traffic_run_wrong(run, -EINVAL,
                                 "the file has %u ranks, and the network has %u nodes: choose a "
                                 "larger network",
                                 goal->ranks, nodes);
    if (config->hosts)
        return traffic_run_wrong(run, -EINVAL, "a GOAL file needs a network on one host");
    run->result->bytes = 0;
    run->result->goal = (struct traffic_goal){.ranks = goal->ranks,
                                              .operations = goal->ops,
                                              .collectives = goal->colls};
    if (goal_player_init(player, goal, nodes, &config->fabric.profile))
        return traffic_run_wrong(run, -ENOMEM, "out of memory");
    int err = traffic_run_start(run, &player->ops, goal_player_bytes(player), 0);

    return err ? err : goal_coll_groups(player, run->fabric, run->error, run->error_bytes);
}

int traffic_run_goal(struct traffic_run *run)
{
    struct goal_player player = {.nodes = 0};
    int err = build(run, &player);

    if (!err)
        err = run_operations(run, &player);
    if (!err)
        err = take_results(run, &player);
    if (!err)
        err = traffic_run_check(run);
    traffic_run_stop(run);
    goal_player_free(&player);
    return err;
}
