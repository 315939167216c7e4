/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_run.c - see transport_run.h.
 *
 * Clock virtual runs until nothing is left to happen. On clock raw threads run until what was sent
 * has come; then they end, and this one goes on by hand: there it can see when the engines are
 * idle, and it steps the switches also when nobody sends to them, until they have forgotten every
 * packet that was given up. Then every buffer must be back, on either clock.
 */
#include "tests/world/engine/transport_run.h"
#include "apps/audit/audit.h"
#include "apps/fabric/links.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emu/util/now.h"
#include "tests/world/fabric.h"

#define RUN_SLICE_PS   UINT64_C(20000000)       /* virtual: between two looks: 20 us */
#define RUN_STILL_PS   UINT64_C(60000000000000) /* virtual: so long nothing comes: 60 s */
#define RUN_CHECK_EACH 8u                       /* virtual: so many looks: what must hold then */
#define RUN_STILL_S    60.0                     /* raw: the same */
#define RUN_NAP_NS     500000                   /* raw: between two looks */

struct run {
    const struct transport_config *config;
    struct transport_result *result;
    struct topo_graph *graph;
    struct fabric *fabric;
    struct emu_faults *deaf; /* one a link of that node */
    struct emu_thread **thread;
    struct transport_nodes nodes;
};

__attribute__((format(printf, 3, 4))) static int run_wrong(struct run *run, int err,
                                                           const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(run->result->wrong, sizeof run->result->wrong, format, args);
    va_end(args);
    return err;
}

static double run_now_s(void)
{
    return (double)emu_now_ns() * 1e-9;
}

/* --- made --------------------------------------------------------------------------- */

/* Members of group @g: each node with one chance in two, and at least three. */
static int run_members(struct transport_plan *plan, uint32_t g)
{
    uint64_t state = plan->seed * 31 + g;
    uint64_t *members = calloc(plan->nodes / 64 + 1, sizeof *members);

    if (!members)
        return -ENOMEM;
    plan->members[g] = members;
    for (uint32_t n = 0; plan->members_count[g] < 3 || n < plan->nodes; n++) {
        uint32_t node = n % plan->nodes;

        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (state >> 63 || members[node / 64] >> node % 64 & 1)
            continue;
        members[node / 64] |= (uint64_t)1 << node % 64;
        plan->members_count[g]++;
    }
    return 0;
}

static int run_profile(struct run *run, struct emu_profile *profile)
{
    char error[256];
    int err = emu_profile_load(profile, "qsnet3", error, sizeof error);

    profile->transport = EMU_TRANSPORT_ACKNOWLEDGED;
    for (uint32_t i = 0; !err && i < run->config->sets; i++)
        err = emu_profile_set(profile, run->config->set[i], error, sizeof error);
    return err ? run_wrong(run, err, "%s", error) : 0;
}

static int run_nodes(struct run *run, const struct emu_profile *profile)
{
    const struct transport_config *config = run->config;
    struct transport_plan plan = {.seed = config->seed,
                                  .sizes = config->sizes,
                                  .nodes = run->graph->nodes,
                                  .groups = config->groups,
                                  .credit_ps = profile->credit_ps,
                                  .deaf = config->deaf,
                                  .may_fail = config->may_fail || config->deaf != TRANSPORT_NOBODY};
    int err = 0;

    if (plan.nodes < 3)
        return run_wrong(run, -EINVAL, "%s has %u nodes; this needs 3 or more", config->topo,
                         plan.nodes);
    if (config->deaf != TRANSPORT_NOBODY && config->deaf >= plan.nodes)
        return run_wrong(run, -EINVAL, "there is no node %u in %s: it has %u", config->deaf,
                         config->topo, plan.nodes);
    plan.messages = (config->packets + plan.nodes - 1) / plan.nodes;
    for (uint32_t g = 0; !err && g < plan.groups; g++)
        err = run_members(&plan, g);
    if (!err)
        err = transport_nodes_init(&run->nodes, &plan);
    return err ? run_wrong(run, err, "%s", strerror(-err)) : 0;
}

static int run_groups(struct run *run)
{
    struct transport_plan *plan = &run->nodes.plan;
    uint32_t *nodes = calloc(plan->nodes, sizeof *nodes);
    char error[256] = "no memory";
    int err = nodes ? 0 : -ENOMEM;

    for (uint32_t g = 0; !err && g < plan->groups; g++) {
        uint32_t count = 0;

        for (uint32_t n = 0; n < plan->nodes; n++)
            if (plan->members[g][n / 64] >> n % 64 & 1)
                nodes[count++] = n;
        err = fabric_multicast_create(run->fabric, nodes, count, count, &plan->group[g], error,
                                      sizeof error);
    }
    free(nodes);
    return err ? run_wrong(run, err, "%s", error) : 0;
}

/* All that the cables bring to a node's engine is lost. */
static int run_deafen(struct run *run)
{
    const struct emu_fault_rates all = {.lost = EMU_FAULT_UNIT};
    uint32_t n = run->config->deaf;
    const struct topo_node *node = &run->graph->node[n];

    run->deaf = calloc(node->links, sizeof *run->deaf);
    if (!run->deaf)
        return run_wrong(run, -ENOMEM, "no memory");
    for (uint32_t i = 0; i < node->links; i++) {
        emu_faults_init(&run->deaf[i], &all, i);
        if (node->link[i].sw != TOPO_NONE)
            engine_faults(fabric_engine(run->fabric, n), i, &run->deaf[i]);
    }
    return 0;
}

static int run_open(struct run *run)
{
    const struct transport_config *config = run->config;
    struct fabric_config fabric = {.name = "transport",
                                   .clock = config->clock,
                                   .threads = config->threads,
                                   .seed = config->seed,
                                   .start_stopped = true};
    const struct emu_fault_rates *rates = &config->faults;
    char error[256];
    int err = topo_parse(&run->graph, config->topo, error, sizeof error);

    if (err)
        return run_wrong(run, err, "%s", error);
    err = run_profile(run, &fabric.profile);
    if (!err)
        err = run_nodes(run, &fabric.profile);
    if (err)
        return err;
    if (rates->lost + rates->head + rates->payload + rates->twice + rates->late)
        fabric.faults = rates;
    fabric.graph = run->graph;
    fabric.local_nodes = &run->nodes.ops;
    err = fabric_start(&run->fabric, &fabric, error, sizeof error);
    if (err)
        return run_wrong(run, err, "%s", error);
    run->thread = calloc(run->fabric->workers, sizeof(struct emu_thread *));
    err = run->thread ? run_groups(run) : run_wrong(run, -ENOMEM, "no memory");
    if (!err && config->deaf != TRANSPORT_NOBODY)
        err = run_deafen(run);
    if (!err)
        transport_nodes_begin(&run->nodes);
    return err;
}

static void run_close(struct run *run)
{
    fabric_stop(run->fabric);
    transport_nodes_free(&run->nodes);
    for (uint32_t g = 0; g < TRANSPORT_GROUPS_MAX; g++)
        free(run->nodes.plan.members[g]);
    free(run->thread);
    free(run->deaf);
    topo_free(run->graph);
}

/* --- what is left ------------------------------------------------------------------- */

static void run_between(const struct run *run, uint64_t now_ps)
{
    if (run->config->between)
        run->config->between(run->config->ctx, run->fabric, now_ps);
}

static bool run_idle(const struct run *run)
{
    for (uint32_t n = 0; n < run->graph->nodes; n++)
        if (!engine_idle(fabric_engine(run->fabric, n)))
            return false;
    return true;
}

static int run_stands_still(struct run *run)
{
    struct transport_counts counts = transport_nodes_count(&run->nodes);

    return run_wrong(run, -EPROTO,
                     "it stands still: %llu segments of %llu came, %llu were given "
                     "up, %u nodes have more to send",
                     (unsigned long long)counts.came, (unsigned long long)counts.awaited,
                     (unsigned long long)counts.failed, counts.sending);
}

/* --- run: clock virtual ------------------------------------------------------------- */

/*
 * When something happens next. EMU_NEVER: never. Where all that is left waits behind ports that are
 * stuck nothing is due, but who is called between two looks may have to see that it stays so.
 */
static uint64_t run_next_ps(const struct run *run)
{
    uint64_t next_ps = fabric_next_ps(run->fabric);

    return next_ps == EMU_NEVER && run->config->between && !run_idle(run) ? run->result->now_ps
                                                                          : next_ps;
}

static int run_virtual(struct run *run)
{
    uint64_t moved = 0, moved_ps = 0, next_ps;
    uint32_t slices = 0;
    char error[256];

    while ((next_ps = run_next_ps(run)) != EMU_NEVER) {
        struct transport_counts counts;

        run->result->now_ps = next_ps + RUN_SLICE_PS;
        fabric_advance(run->fabric, run->result->now_ps);
        run_between(run, run->result->now_ps);
        counts = transport_nodes_count(&run->nodes);
        if (counts.wrong)
            return 0;
        if (counts.came + counts.failed != moved) {
            moved = counts.came + counts.failed;
            moved_ps = next_ps;
            if (slices++ % RUN_CHECK_EACH == 0 &&
                fabric_check(run->fabric, run->result->now_ps, error, sizeof error))
                return run_wrong(run, -EPROTO, "under way: %s", error);
        } else if (next_ps - moved_ps > RUN_STILL_PS) {
            return run_stands_still(run);
        }
    }
    return 0;
}

/* --- run: clock raw ----------------------------------------------------------------- */

static int run_threads(struct run *run)
{
    struct timespec nap = {.tv_nsec = RUN_NAP_NS};
    uint64_t moved = 0;
    double moved_s = run_now_s();
    int err = 0;

    run_between(run, emu_now_ns() * 1000u);
    for (uint32_t w = 0; !err && w < run->fabric->workers; w++)
        err = emu_thread_start(&run->thread[w], fabric_worker(run->fabric, w), "transport");
    for (uint32_t w = 0; w < run->fabric->workers; w++)
        run->fabric->drive.thread[w] = run->thread[w]; /* the manager may hold them */
    while (!err) {
        struct transport_counts counts = transport_nodes_count(&run->nodes);

        if (counts.wrong || (!counts.sending && counts.came + counts.failed >= counts.awaited))
            break;
        if (counts.came + counts.failed != moved) {
            moved = counts.came + counts.failed;
            moved_s = run_now_s();
        } else if (run_now_s() - moved_s > RUN_STILL_S) {
            break; /* run_by_hand() finds out whether it goes on */
        }
        nanosleep(&nap, NULL);
        run_between(run, emu_now_ns() * 1000u);
    }
    memset(run->fabric->drive.thread, 0, run->fabric->workers * sizeof *run->thread);
    world_threads_stop(run->thread, run->fabric->worker, run->fabric->workers);
    return err ? run_wrong(run, err, "cannot start threads: %s", strerror(-err)) : 0;
}

/* Until the engines are idle and no switch holds anything. */
static int run_by_hand(struct run *run)
{
    struct fabric *fabric = run->fabric;
    struct timespec nap = {.tv_nsec = RUN_NAP_NS / 16}; /* a time-out is what comes next */
    uint64_t was = 0;
    double moved_s = run_now_s();

    for (;;) {
        struct transport_counts counts;

        for (uint32_t s = 0; s < run->graph->switches; s++)
            emu_dev_again(switch_emu_dev(fabric->sw[s]));
        run_between(run, emu_now_ns() * 1000u);
        if (world_fabric_pass(fabric))
            continue;
        counts = transport_nodes_count(&run->nodes);
        if (counts.wrong ||
            (!counts.sending && run_idle(run) && !world_fabric_bufs_held(run->fabric)))
            return 0;
        if (counts.came + counts.failed != was) {
            was = counts.came + counts.failed;
            moved_s = run_now_s();
        } else if (run_now_s() - moved_s > RUN_STILL_S) {
            return run_idle(run) ? 0 : run_stands_still(run); /* 0: run_check() counts buffers */
        }
        nanosleep(&nap, NULL);
    }
}

/* --- checked ------------------------------------------------------------------------ */

static void run_totals(struct run *run)
{
    struct transport_result *result = run->result;
    struct fabric *fabric = run->fabric;
    struct fabric_totals totals;

    fabric_totals_read(fabric, &totals);
    result->transport = totals.transport;
    result->counts = transport_nodes_count(&run->nodes);
    result->content = transport_nodes_content(&run->nodes);
    result->order = transport_nodes_order(&run->nodes);
    result->threads = fabric->workers;
    for (uint32_t i = 0; i < 2 * fabric->links.count; i++) {
        const struct emu_faults *faults = fabric->links.faults[i];

        if (!faults)
            continue;
        result->injected.lost += emu_count_read(&faults->counts.lost);
        result->injected.damaged += emu_count_read(&faults->counts.damaged);
        result->injected.twice += emu_count_read(&faults->counts.twice);
        result->injected.late += emu_count_read(&faults->counts.late);
    }
    for (uint32_t s = 0; s < run->graph->switches; s++)
        result->switch_timeouts += emu_count_read(&switch_counts(fabric->sw[s])->timeouts);
}

/* Everything that came in vain, or should have come. */
static int run_check(struct run *run)
{
    const struct transport_config *config = run->config;
    const struct transport_result *result = run->result;
    const char *wrong = transport_nodes_wrong(&run->nodes);
    char line[384];

    if (wrong)
        return run_wrong(run, -EPROTO, "%s (%llu violations in all)", wrong,
                         (unsigned long long)result->counts.wrong);
    if (transport_nodes_missing(&run->nodes, line, sizeof line))
        return run_wrong(run, -EPROTO, "%s", line);
    if (result->counts.failed != result->transport.lost)
        return run_wrong(run, -EPROTO, "engines gave %llu segments up, and nodes were told of %llu",
                         (unsigned long long)result->transport.lost,
                         (unsigned long long)result->counts.failed);
    if (result->transport.packets < config->packets)
        return run_wrong(run, -EPROTO, "%llu messages went in %llu packets",
                         (unsigned long long)config->packets,
                         (unsigned long long)result->transport.packets);
    if (!fabric_is_faulty(run->fabric) && config->clock == EMU_CLOCK_VIRTUAL && !config->may_fail &&
        config->deaf == TRANSPORT_NOBODY && result->transport.timeouts)
        return run_wrong(run, -EPROTO,
                         "everything came, but only after %llu time-outs, and "
                         "nothing was lost: somebody waited in a circle",
                         (unsigned long long)result->transport.timeouts);
    if (!run_idle(run))
        return run_wrong(run, -EPROTO, "everything came, but an engine is not idle");
    if (world_fabric_bufs_held(run->fabric))
        return run_wrong(run, -EPROTO, "%u buffers are lost", world_fabric_bufs_held(run->fabric));
    if (fabric_check(run->fabric, result->now_ps, line, sizeof line))
        return run_wrong(run, -EPROTO, "%s", line);
    return 0;
}

int transport_run(struct transport_result *ret, const struct transport_config *config)
{
    struct run run = {.config = config, .result = ret};
    double began_s;
    int err;

    *ret = (struct transport_result){.nodes = 0};
    err = run_open(&run);
    ret->nodes = run.graph ? run.graph->nodes : 0;
    began_s = run_now_s();
    if (!err)
        err = config->clock == EMU_CLOCK_VIRTUAL ? run_virtual(&run) : run_threads(&run);
    if (!err && config->clock == EMU_CLOCK_RAW)
        err = run_by_hand(&run);
    if (run.fabric && run.nodes.node && ret->nodes)
        run_totals(&run);
    ret->wall_s = run_now_s() - began_s;
    if (!err)
        err = run_check(&run);
    run_close(&run);
    return err;
}

static double rate_of(uint32_t entries)
{
    return (double)entries / EMU_FAULT_UNIT;
}

void transport_command(FILE *to, const struct transport_config *config)
{
    const struct emu_fault_rates *faults = &config->faults;

    fprintf(to,
            "transport_soak --clock %s --packets %" PRIu64 " --topo %s --seed %" PRIu64
            " --threads %u --groups %u --loss %g --corrupt %g --double %g --late %g"
            " --late-ns %" PRIu64 " --sizes ",
            config->clock == EMU_CLOCK_RAW ? "raw" : "virtual", config->packets, config->topo,
            config->seed, config->threads, config->groups, rate_of(faults->lost),
            rate_of(faults->head + faults->payload), rate_of(faults->twice), rate_of(faults->late),
            faults->late_ps / 1000);
    for (uint32_t i = 0; i < config->sizes.count; i++)
        fprintf(to, "%s%u-%u", i ? "," : "", config->sizes.range[i].least,
                config->sizes.range[i].most);
    if (config->deaf != TRANSPORT_NOBODY)
        fprintf(to, " --deaf %u", config->deaf);
    if (config->may_fail)
        fprintf(to, " --may-fail");
    for (uint32_t i = 0; i < config->sets; i++)
        fprintf(to, " --set %s", config->set[i]);
    fprintf(to, "\n");
}
