/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inject.c - which fault is due, and what it does to each of its targets.
 */
#include "apps/inject/inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/inject/internal.h"
#include "apps/say.h"
#include "emu/random.h"

/* --- what a kind does to a target --------------------------------------------------- */

/* The cable loses its signal, if no other fault has seen to that, or has it again. */
static int cable_dark(struct injector *in, struct injection *f, uint32_t cable, bool dark)
{
    uint32_t was = in->dark[cable];
    uint32_t hit;
    int err;

    in->dark[cable] = dark ? was + 1 : was - 1;
    if (was && in->dark[cable])
        return 0;
    err = manager_signal(in->manager, cable, !dark, f->id, in->now_ps, &hit);
    f->past += hit;
    return err;
}

static int link_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                     bool on)
{
    return cable_dark(in, f, fabric_cable_at(in->fabric, at->id, at->port), on);
}

static int switch_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                       bool on)
{
    int err = 0;

    for (uint32_t p = 0; !err && p < in->graph->ports; p++) {
        uint32_t cable = fabric_cable_at(in->fabric, at->id, p);

        /* without acknowledgments the cables of nodes stay as they are */
        if (cable != TOPO_NONE && fabric_can_fail(in->fabric, cable))
            err = cable_dark(in, f, cable, on);
    }
    return err;
}

/* For a moment its links have no signal. */
static int adapter_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                        bool on)
{
    int err = 0;

    for (uint32_t l = 0; on && !err && l < in->graph->node[at->id].links; l++) {
        uint32_t cable = fabric_cable_of(in->fabric, at->id, l);

        if (cable == TOPO_NONE)
            continue;
        err = cable_dark(in, f, cable, true);
        if (!err)
            err = cable_dark(in, f, cable, false);
    }
    return err;
}

static int flip_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                     bool on)
{
    struct emu_faults *faults;
    int err = 0;

    fabric_hold(in->fabric);
    faults = fabric_combine_faults(in->fabric, at->id);
    if (!faults)
        err = -ENOMEM;
    else if (on)
        err = emu_faults_add(faults, &f->fault.rule, f->id, emu_mix(f->seed ^ at->id));
    else
        f->past += emu_faults_remove(faults, f->id);
    fabric_go(in->fabric);
    return err;
}

/* Of several faults of one kind the last to end ends it. */
static bool others_do(const struct injector *in, const struct injection *f,
                      const struct fault_target *at)
{
    for (uint32_t i = 0; i < in->count; i++) {
        const struct injection *other = &in->injection[i];

        for (uint32_t t = 0; other != f && other->on && other->fault.kind == f->fault.kind &&
                             t < other->targets.count;
             t++)
            if (other->targets.target[t].id == at->id)
                return true;
    }
    return false;
}

/* What has waited is hit, once it goes on. */
static int stall_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                      bool on)
{
    int err = 0;

    fabric_hold(in->fabric);
    if (!fabric_combine_faults(in->fabric, at->id)) /* of which the log knows the switch */
        err = -ENOMEM;
    if (!err && !on)
        f->past += fabric_combine_waiting(in->fabric, at->id, f->id, in->now_ps);
    if (!err && !others_do(in, f, at))
        err = fabric_combine_stall(in->fabric, at->id, on, in->now_ps);
    fabric_go(in->fabric);
    return err;
}

/* Groups that are refused meanwhile are hit. */
static int exhaust_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                        bool on)
{
    uint64_t refused = fabric_combine_refused(in->fabric, at->id);

    f->past += on ? 0 - refused : refused;
    if (!others_do(in, f, at))
        fabric_combine_exhaust(in->fabric, at->id, on);
    return 0;
}

static int process_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                        bool on)
{
    bool kill = f->fault.kind == FAULT_NODE_KILL;

    if (on || !kill)
        in->config.process(in->config.ctx, at->id,
                           kill ? INJECT_KILL
                           : on ? INJECT_FREEZE
                                : INJECT_GO_ON);
    return 0;
}

/* A way of a cable. */
struct way {
    uint32_t cable;
    bool out; /* from its first end */
};

/* What leaves the target's port, or comes to it. */
static struct way way_of(const struct injector *in, const struct fault_target *at, bool leaves)
{
    uint32_t cable = fabric_cable_at(in->fabric, at->id, at->port);
    const struct fabric_cable *ends = fabric_cable(in->fabric, cable);
    bool first = ends->at.sw == at->id && ends->at.port == at->port;

    return (struct way){cable, first == leaves};
}

/* Where rules cannot stand, as on cables to nodes without acknowledgments, it is left out. */
static int rule_stand(struct injector *in, struct injection *f, struct way way,
                      const struct emu_fault_rule *rule)
{
    struct emu_faults *faults;

    if (!fabric_can_fail(in->fabric, way.cable))
        return 0;
    faults = fabric_faults(in->fabric, way.cable, way.out);
    return faults ? emu_faults_add(faults, rule, f->id,
                                   emu_mix(f->seed ^ ((uint64_t)way.cable << 1 | way.out)))
                  : -ENOMEM;
}

static void rule_remove(struct injector *in, struct injection *f, uint32_t cable)
{
    for (uint32_t out = 0; out < 2; out++)
        if (fabric_faults_of(in->fabric, cable, out)) /* the other way may have none */
            f->past += emu_faults_remove(fabric_faults(in->fabric, cable, out), f->id);
}

static int rule_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                     bool on)
{
    int err = 0;

    fabric_hold(in->fabric);
    if (!on)
        rule_remove(in, f, fabric_cable_at(in->fabric, at->id, at->port));
    if (on && at->way != FAULT_IN)
        err = rule_stand(in, f, way_of(in, at, true), &f->fault.rule);
    if (on && !err && at->way != FAULT_OUT)
        err = rule_stand(in, f, way_of(in, at, false), &f->fault.rule);
    fabric_go(in->fabric);
    return err;
}

/* Does @turn to each way that the target has. Workers are held meanwhile. */
static int ways_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                     bool on,
                     int (*turn)(struct injector *in, struct injection *f, struct way way, bool on))
{
    int err = 0;

    if (!fabric_can_fail(in->fabric, fabric_cable_at(in->fabric, at->id, at->port)))
        return 0;
    fabric_hold(in->fabric);
    if (at->way != FAULT_IN)
        err = turn(in, f, way_of(in, at, true), on);
    if (!err && at->way != FAULT_OUT)
        err = turn(in, f, way_of(in, at, false), on);
    fabric_go(in->fabric);
    return err;
}

/* What has waited is hit, once it goes on. */
static int way_stick(struct injector *in, struct injection *f, struct way way, bool on)
{
    uint32_t *stuck = &in->stuck[2 * way.cable + way.out];

    if (!fabric_faults(in->fabric, way.cable, way.out)) /* of which the log knows the cable */
        return -ENOMEM;
    if (!on)
        f->past += fabric_port_waiting(in->fabric, way.cable, way.out, f->id, in->now_ps);
    *stuck += on ? 1 : UINT32_MAX;
    if (*stuck == on)
        fabric_port_stick(in->fabric, way.cable, way.out, on, in->now_ps);
    return 0;
}

static int stick_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                      bool on)
{
    return ways_turn(in, f, at, on, way_stick);
}

/* Does the fault make this way slow now? */
static bool way_is_slowed(const struct injector *in, const struct injection *f, struct way way)
{
    for (uint32_t i = 0; f->on && f->fault.kind == FAULT_SLOW_LINK && i < f->targets.count; i++) {
        const struct fault_target *at = &f->targets.target[i];
        struct way leaves = way_of(in, at, true);

        if (leaves.cable == way.cable &&
            (at->way == FAULT_BOTH || (at->way == FAULT_OUT) == (leaves.out == way.out)))
            return true;
    }
    return false;
}

/* Of several faults the slowest counts. */
static int way_slow(struct injector *in, struct injection *f, struct way way, bool on)
{
    static const struct emu_fault_rule passes = {.what = EMU_FAULT_SLOW,
                                                 .rate = EMU_FAULT_ONE,
                                                 .aim = {EMU_FAULT_ENTRIES, EMU_FAULT_KINDS,
                                                         EMU_FAULT_ANY, EMU_FAULT_ANY,
                                                         EMU_FAULT_ANY}};
    uint32_t factor = FAULT_FACTOR_ONE;
    int err;

    for (uint32_t i = 0; i < in->count; i++) {
        const struct injection *other = &in->injection[i];

        if (way_is_slowed(in, other, way) && other->fault.factor > factor)
            factor = other->fault.factor;
    }
    err = fabric_wire_slow(in->fabric, way.cable, way.out, factor);
    if (!on)
        rule_remove(in, f, way.cable);
    return err || !on ? err : rule_stand(in, f, way, &passes);
}

static int slow_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                     bool on)
{
    return ways_turn(in, f, at, on, way_slow);
}

/* What each kind does to one target, and takes back. NULL: nothing here does it. */
static int (*const turns[FAULT_KINDS])(struct injector *in, struct injection *f,
                                       const struct fault_target *at, bool on) = {
    [FAULT_LINK_DOWN] = link_turn,          [FAULT_LINK_FLAP] = link_turn,
    [FAULT_BIT_ERRORS] = rule_turn,         [FAULT_LOSS] = rule_turn,
    [FAULT_DUPLICATE] = rule_turn,          [FAULT_DELAY] = rule_turn,
    [FAULT_CREDIT_LOSS] = rule_turn,        [FAULT_CREDIT_FORGE] = rule_turn,
    [FAULT_STUCK_PORT] = stick_turn,        [FAULT_SLOW_LINK] = slow_turn,
    [FAULT_COMBINE_STALL] = stall_turn,     [FAULT_COMBINE_FLIP] = flip_turn,
    [FAULT_COMBINE_EXHAUST] = exhaust_turn, [FAULT_SWITCH_CRASH] = switch_turn,
    [FAULT_ADAPTER_RESET] = adapter_turn,   [FAULT_NODE_FREEZE] = process_turn,
    [FAULT_NODE_SLOW] = process_turn,       [FAULT_NODE_KILL] = process_turn,
    [FAULT_NOISE] = process_turn,           [FAULT_PARTITION] = link_turn,
};

/* --- turns -------------------------------------------------------------------------- */

/* How long it does, and how long it does not, in turn; false: it does all the time. */
static bool duty_of(const struct fault *fault, uint64_t *on_ps, uint64_t *off_ps)
{
    switch (fault->kind) {
    case FAULT_LINK_FLAP:
        *on_ps = fault->flap.down_ps;
        *off_ps = fault->flap.up_ps;
        return true;
    case FAULT_NOISE:
        *on_ps = fault->noise.length_ps;
        *off_ps = fault->noise.period_ps - fault->noise.length_ps;
        return true;
    case FAULT_NODE_SLOW:
        *off_ps = SLOW_PERIOD_PS / EMU_FAULT_ONE * fault->share;
        *on_ps = SLOW_PERIOD_PS - *off_ps;
        return true;
    default:
        return false;
    }
}

/* Those that it was done to, and no others, have it taken back. */
static int turn_off(struct injector *in, struct injection *f)
{
    int err = 0;

    for (uint32_t i = 0; i < f->turned; i++) {
        int one = turns[f->fault.kind](in, f, &f->targets.target[i], false);

        err = err ? err : one;
    }
    f->turned = 0;
    f->on = false;
    return err;
}

/* All of its targets, or none. */
static int turn_all(struct injector *in, struct injection *f, bool on)
{
    int err = 0;

    if (f->on == on)
        return 0;
    if (!on)
        return turn_off(in, f);
    f->on = true;
    while (!err && f->turned < f->targets.count)
        err = turns[f->fault.kind](in, f, &f->targets.target[f->turned++], true);
    if (err) {
        f->turned--; /* that one was not done */
        turn_off(in, f);
    }
    return err;
}

static void tell(const struct injector *in, const struct injection *f, bool begins)
{
    if (in->config.event)
        in->config.event(in->config.ctx, &(struct inject_event){.id = f->id,
                                                                .fault = &f->fault,
                                                                .begins = begins,
                                                                .at_ps = in->now_ps,
                                                                .targets = f->targets.count});
}

/*
 * The next of times that are @every_ps apart, after @last_ps. Those that the host has missed are
 * left out: were they made up for, the ones that are due meanwhile would be missed, too.
 */
static uint64_t next_ps(const struct injector *in, uint64_t last_ps, uint64_t every_ps)
{
    uint64_t at_ps = last_ps + every_ps;

    return at_ps <= in->now_ps ? at_ps + (in->now_ps - at_ps) / every_ps * every_ps + every_ps
                               : at_ps;
}

/* A cable that nothing can be made to go wrong on does not lose its signal. */
static int signals_can(const struct injector *in, const struct fault *fault,
                       const struct fault_targets *targets, char *error, size_t error_bytes)
{
    for (uint32_t i = 0; turns[fault->kind] == link_turn && i < targets->count; i++) {
        const struct fault_target *at = &targets->target[i];

        if (!fabric_can_fail(in->fabric, fabric_cable_at(in->fabric, at->id, at->port)))
            return fail(-ENOTSUP, error, error_bytes,
                        "%s: it would take the cable at switch %u, port %u, which leads to a node: "
                        "without acknowledgments nothing can go wrong there",
                        fault_name(fault->kind), at->id, at->port);
    }
    return 0;
}

static int injection_begin(struct injector *in, struct injection *f)
{
    uint64_t on_ps, off_ps;
    char error[FAULT_ERROR_BYTES];
    int err;

    fault_targets_release(&f->targets);
    f->seed = fault_seed(in->config.seed, f->number, f->times);
    err = inject_targets(&f->targets, &f->fault, in->graph, f->seed, error, sizeof error);
    if (!err)
        err = signals_can(in, &f->fault, &f->targets, error, sizeof error);
    if (err)
        return err;
    f->active = true;
    f->times++;
    f->end_ps = f->fault.when.for_ps ? f->begin_ps + f->fault.when.for_ps : EMU_NEVER;
    f->turn_ps = duty_of(&f->fault, &on_ps, &off_ps) ? f->begin_ps + on_ps : EMU_NEVER;
    f->begin_ps = f->fault.when.every_ps ? next_ps(in, f->begin_ps, f->fault.when.every_ps)
                                         : EMU_NEVER;
    tell(in, f, true);
    err = turn_all(in, f, true);
    if (fault_at_once(f->fault.kind)) {
        f->active = f->on = false;
        f->turned = 0;
        f->end_ps = EMU_NEVER;
    }
    return err;
}

static int injection_end(struct injector *in, struct injection *f)
{
    int err = turn_all(in, f, false);

    f->active = false;
    f->end_ps = f->turn_ps = EMU_NEVER;
    tell(in, f, false);
    return err;
}

static int injection_turn(struct injector *in, struct injection *f)
{
    uint64_t on_ps, off_ps;

    if (!duty_of(&f->fault, &on_ps, &off_ps))
        return 0;
    f->turn_ps += f->on ? off_ps : on_ps;
    if (f->turn_ps + on_ps + off_ps <= in->now_ps)
        f->turn_ps = next_ps(in, f->turn_ps, on_ps + off_ps); /* whole turns were missed */
    return turn_all(in, f, !f->on);
}

static uint64_t injection_due_ps(const struct injection *f)
{
    uint64_t due_ps = f->begin_ps;

    due_ps = f->end_ps < due_ps ? f->end_ps : due_ps;
    return f->turn_ps < due_ps ? f->turn_ps : due_ps;
}

/* The first of what it does at its next time: an end comes before a beginning. */
static int injection_step(struct injector *in, struct injection *f)
{
    uint64_t due_ps = injection_due_ps(f);

    if (f->end_ps == due_ps)
        return injection_end(in, f);
    if (f->begin_ps != due_ps)
        return injection_turn(in, f);
    return f->active ? injection_end(in, f) : injection_begin(in, f);
}

/* --- the injector ------------------------------------------------------------------- */

int injector_create(struct injector **ret, struct fabric *fabric, const struct topo_graph *graph,
                    struct manager *manager, const struct inject_config *config)
{
    struct injector *in = calloc(1, sizeof *in);

    if (!in)
        return -ENOMEM;
    in->dark = calloc(fabric_cable_count(fabric) + 1u, sizeof *in->dark);
    in->stuck = calloc(2u * fabric_cable_count(fabric) + 1u, sizeof *in->stuck);
    if (!in->dark || !in->stuck) {
        injector_destroy(in);
        return -ENOMEM;
    }
    in->fabric = fabric;
    in->graph = graph;
    in->manager = manager;
    in->config = *config;
    in->look_ps = EMU_NEVER;
    *ret = in;
    return 0;
}

void injector_destroy(struct injector *in)
{
    if (!in)
        return;
    for (uint32_t i = 0; i < in->count; i++)
        fault_targets_release(&in->injection[i].targets);
    free(in->injection);
    free(in->stuck);
    free(in->dark);
    free(in);
}

/* What a kind needs to be done. */
enum need {
    NEED_MENDING, /* what sends again what is lost */
    NEED_CABLES,  /* cables that faults can stand on: any profile has some */
    NEED_CREDITS, /* the same, and credits that nothing sends again */
    NEED_TIME,    /* the same, and a byte takes time */
    NEED_UNITS,   /* switches that combine: fault_check() */
    NEED_PROCESSES
};

static enum need need_of(enum fault_kind kind)
{
    if (turns[kind] == process_turn)
        return NEED_PROCESSES;
    if (kind == FAULT_SLOW_LINK)
        return NEED_TIME;
    if (kind == FAULT_CREDIT_LOSS || kind == FAULT_CREDIT_FORGE)
        return NEED_CREDITS;
    if (kind == FAULT_COMBINE_STALL || kind == FAULT_COMBINE_FLIP || kind == FAULT_COMBINE_EXHAUST)
        return NEED_UNITS;
    return kind == FAULT_STUCK_PORT ? NEED_CABLES : NEED_MENDING;
}

/* Can it be done here, and has the network what it names? */
static int injector_can(const struct injector *in, const struct fault *fault, char *error,
                        size_t error_bytes)
{
    enum need need = need_of(fault->kind);
    struct fault_targets targets = {.count = 0};
    int err;

    if (!turns[fault->kind])
        return fail(-ENOTSUP, error, error_bytes, "%s is not built yet", fault_name(fault->kind));
    if (fault->when.on.nth && inject_can_see(in, fault, error, error_bytes))
        return -ENOTSUP;
    if (need == NEED_MENDING && !in->manager)
        return fail(
            -ENOTSUP, error, error_bytes,
            "%s: this profile acknowledges nothing, so nothing would mend what is lost: use "
            "profile qsnet3, transport=acknowledged or link_retry=go_back_n",
            fault_name(fault->kind));
    if (need == NEED_UNITS && !fabric_combiners(in->fabric))
        return fail(-ENOTSUP, error, error_bytes,
                    "%s: these switches have no combine units: use buffers=xpoint or input_xpoint",
                    fault_name(fault->kind));
    if (need == NEED_PROCESSES && !in->config.process)
        return fail(-ENOTSUP, error, error_bytes, "%s befalls processes, and here nodes have none",
                    fault_name(fault->kind));
    if (need == NEED_TIME && !fabric_has_time(in->fabric))
        return fail(
            -ENOTSUP, error, error_bytes,
            "%s: on clock raw a byte takes no time, so nothing can take longer: use --clock "
            "real, or fabemu traffic",
            fault_name(fault->kind));
    if (need == NEED_CREDITS && fabric_retries(in->fabric))
        return fail(-ENOTSUP, error, error_bytes,
                    "%s: with link-level retry credits go with what is checked and sent again, so "
                    "that none is lost or made on a cable: use link_retry=none",
                    fault_name(fault->kind));
    err = inject_targets(&targets, fault, in->graph, 0, error, error_bytes);
    if (!err && !inject_befalls(in, fault->kind, &targets))
        err = fail(-ENOTSUP, error, error_bytes,
                   "%s: without acknowledgments nothing goes wrong on a node's cable: name cables "
                   "between switches, switches without nodes, or take profile qsnet3",
                   fault_name(fault->kind));
    if (!err)
        err = signals_can(in, fault, &targets, error, error_bytes);
    fault_targets_release(&targets);
    return err;
}

int injector_add(struct injector *in, const struct fault *fault, uint64_t from_ps, uint32_t *id,
                 char *error, size_t error_bytes)
{
    struct injection *all;
    int err = injector_can(in, fault, error, error_bytes);

    if (err)
        return err;
    all = realloc(in->injection, (in->count + 1) * sizeof *all);
    if (!all)
        return fail(-ENOMEM, error, error_bytes, "there is no memory for another fault");
    in->injection = all;
    all[in->count] = (struct injection){.id = in->count + 1,
                                        .number = in->count,
                                        .fault = *fault,
                                        .begin_ps = from_ps + fault->when.at_ps,
                                        .end_ps = EMU_NEVER,
                                        .turn_ps = EMU_NEVER};
    if (fault->when.on.nth) {
        all[in->count].begin_ps = EMU_NEVER;
        err = inject_watch(in, &all[in->count]);
        in->look_ps = 0;
    }
    if (err)
        return fail(err, error, error_bytes, "there is no memory to look out for on=");
    in->count++;
    *id = in->count;
    return 0;
}

int injector_add_all(struct injector *in, const struct fault_schedule *schedule, char *error,
                     size_t error_bytes)
{
    char why[FAULT_ERROR_BYTES];
    uint32_t id;

    for (uint32_t i = 0; i < schedule->count; i++) {
        int err =
            injector_add(in, &schedule->line[i].fault, in->config.origin_ps, &id, why, sizeof why);

        if (err)
            return fail(err, error, error_bytes, "line %u: %s", schedule->line[i].number, why);
    }
    return 0;
}

int injector_clear(struct injector *in, uint32_t id, uint64_t now_ps)
{
    struct injection *f;

    if (!id || id > in->count)
        return -ENOENT;
    f = &in->injection[id - 1];
    f->begin_ps = EMU_NEVER;
    in->now_ps = now_ps;
    if (f->waits)
        inject_unwatch(in, f);
    return f->active ? injection_end(in, f) : 0;
}

uint64_t injector_due_ps(const struct injector *in)
{
    uint64_t due_ps = in->look_ps;

    for (uint32_t i = 0; i < in->count; i++) {
        uint64_t at_ps = injection_due_ps(&in->injection[i]);

        due_ps = at_ps < due_ps ? at_ps : due_ps;
    }
    return due_ps;
}

bool injector_is_active(const struct injector *in)
{
    for (uint32_t i = 0; i < in->count; i++)
        if (in->injection[i].active)
            return true;
    return false;
}

bool injector_holds(const struct injector *in)
{
    for (uint32_t i = 0; i < in->count; i++)
        if (in->injection[i].active &&
            (in->injection[i].end_ps != EMU_NEVER || in->injection[i].turn_ps != EMU_NEVER))
            return true;
    return false;
}

/* The one that is due first; of several, the one that was added first. NULL: none is by @now_ps. */
static struct injection *injector_first(const struct injector *in, uint64_t now_ps)
{
    struct injection *first = NULL;

    for (uint32_t i = 0; i < in->count; i++) {
        struct injection *f = &in->injection[i];

        if (injection_due_ps(f) <= now_ps &&
            (!first || injection_due_ps(f) < injection_due_ps(first)))
            first = f;
    }
    return first;
}

int injector_step(struct injector *in, uint64_t now_ps)
{
    struct injection *f;

    in->now_ps = now_ps;
    for (uint32_t i = 0; i < in->count; i++)
        if (in->injection[i].saw)
            inject_unwatch(in, &in->injection[i]);
    if (in->look_ps <= now_ps)
        in->look_ps = injector_waits(in) ? now_ps + in->config.look_ps : EMU_NEVER;
    for (uint32_t left = STEP_MOST; left && (f = injector_first(in, now_ps)); left--) {
        int err = injection_step(in, f);

        if (err) {
            f->begin_ps = f->end_ps = f->turn_ps = EMU_NEVER;
            f->active = f->on;
            return err;
        }
    }
    return 0;
}

uint32_t injector_count(const struct injector *in)
{
    return in->count;
}

/* What waits at a port, or at combine units, that it has stopped; and groups refused for it. */
static uint64_t target_waiting(const struct injector *in, const struct injection *f,
                               const struct fault_target *at)
{
    uint64_t waiting = 0;

    if (f->fault.kind == FAULT_COMBINE_STALL)
        return fabric_combine_waiting(in->fabric, at->id, 0, in->now_ps);
    if (f->fault.kind == FAULT_COMBINE_EXHAUST)
        return fabric_combine_refused(in->fabric, at->id);
    for (uint32_t leaves = 0; leaves < 2; leaves++) {
        struct way way = way_of(in, at, leaves);

        if (at->way != (leaves ? FAULT_IN : FAULT_OUT) && fabric_can_fail(in->fabric, way.cable))
            waiting += fabric_port_waiting(in->fabric, way.cable, way.out, 0, in->now_ps);
    }
    return waiting;
}

/* While it is at work. */
static uint64_t injection_waiting(const struct injector *in, const struct injection *f)
{
    uint64_t waiting = 0;

    if (!f->on || (f->fault.kind != FAULT_STUCK_PORT && f->fault.kind != FAULT_COMBINE_STALL &&
                   f->fault.kind != FAULT_COMBINE_EXHAUST))
        return 0;
    fabric_hold(in->fabric);
    for (uint32_t i = 0; i < f->targets.count; i++)
        waiting += target_waiting(in, f, &f->targets.target[i]);
    fabric_go(in->fabric);
    return waiting;
}

/* Entries that it has hit: by its rules, or since they were on a cable that it took down. */
static uint64_t injection_hits(const struct injector *in, const struct injection *f)
{
    uint64_t hits = f->past + injection_waiting(in, f);

    for (uint32_t i = 0; i < 2 * fabric_cable_count(in->fabric); i++) {
        const struct emu_faults *faults = fabric_faults_of(in->fabric, i / 2, i % 2);

        if (faults)
            hits += emu_faults_hits(faults, f->id);
    }
    for (uint32_t i = 0; i < fabric_combiners(in->fabric); i++) {
        const struct emu_faults *faults = fabric_combine_faults_of(in->fabric, i);

        if (faults)
            hits += emu_faults_hits(faults, f->id);
    }
    return hits;
}

struct inject_state injector_at(const struct injector *in, uint32_t i)
{
    const struct injection *f = &in->injection[i];

    return (struct inject_state){.id = f->id,
                                 .fault = &f->fault,
                                 .times = f->times,
                                 .active = f->active,
                                 .over = injection_due_ps(f) == EMU_NEVER && !f->active &&
                                         !f->waits,
                                 .targets = f->targets.count,
                                 .hits = injection_hits(in, f),
                                 .next_ps = injection_due_ps(f)};
}
