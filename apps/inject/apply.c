/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * apply.c - how each kind of fault is applied to one of its targets, and reverted.
 */
#include <errno.h>

#include "apps/inject/internal.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "emu/util/random.h"

/*
 * Add or remove one active fault on a target. Returns true when the count leaves or reaches zero:
 * only then does the target change state.
 */
static bool count_fault(uint32_t *faults, bool on)
{
    *faults += on ? 1 : UINT32_MAX;
    return *faults == on;
}

/* --- signals of cables -------------------------------------------------------------- */

/* The cable loses its signal with the first fault on it, and has it again after the last one. */
static int cable_signal(struct injector *in, struct injection *f, uint32_t cable, bool lost)
{
    uint32_t hit;
    int err;

    if (!count_fault(&in->dark[cable], lost))
        return 0;
    err = manager_signal(in->manager, cable, !lost, f->id, in->now_ps, &hit);
    f->past += hit;
    return err;
}

static int apply_link_down(struct injector *in, struct injection *f, const struct fault_target *at)
{
    return cable_signal(in, f, fabric_cable_at(in->fabric, at->id, at->port), true);
}

static int revert_link_down(struct injector *in, struct injection *f, const struct fault_target *at)
{
    return cable_signal(in, f, fabric_cable_at(in->fabric, at->id, at->port), false);
}

static int switch_signals(struct injector *in, struct injection *f, uint32_t sw, bool lost)
{
    int err = 0;

    for (uint32_t p = 0; !err && p < in->graph->ports; p++) {
        uint32_t cable = fabric_cable_at(in->fabric, sw, p);

        /* without acknowledgments the cables of nodes stay as they are */
        if (cable != TOPO_NONE && fabric_can_fail(in->fabric, cable))
            err = cable_signal(in, f, cable, lost);
    }
    return err;
}

static int apply_switch_crash(struct injector *in, struct injection *f,
                              const struct fault_target *at)
{
    return switch_signals(in, f, at->id, true);
}

static int revert_switch_crash(struct injector *in, struct injection *f,
                               const struct fault_target *at)
{
    return switch_signals(in, f, at->id, false);
}

/* The adapter's links have no signal for a moment. */
static int apply_adapter_reset(struct injector *in, struct injection *f,
                               const struct fault_target *at)
{
    int err = 0;

    for (uint32_t l = 0; !err && l < in->graph->node[at->id].links; l++) {
        uint32_t cable = fabric_cable_of(in->fabric, at->id, l);

        if (cable == TOPO_NONE)
            continue;
        err = cable_signal(in, f, cable, true);
        if (!err)
            err = cable_signal(in, f, cable, false);
    }
    return err;
}

/* --- combine units ------------------------------------------------------------------ */

static int apply_combine_flip(struct injector *in, struct injection *f,
                              const struct fault_target *at)
{
    struct emu_faults *faults;

    if (!fabric_combiner_is_here(in->fabric, at->id))
        return 0;
    faults = fabric_combine_faults(in->fabric, at->id);
    return faults ? emu_faults_add(faults, &f->fault.rule, f->id, emu_mix(f->seed ^ at->id))
                  : -ENOMEM;
}

static int revert_combine_flip(struct injector *in, struct injection *f,
                               const struct fault_target *at)
{
    struct emu_faults *faults;

    if (!fabric_combiner_is_here(in->fabric, at->id))
        return 0;
    faults = fabric_combine_faults(in->fabric, at->id);
    if (!faults)
        return -ENOMEM;
    f->past += emu_faults_remove(faults, f->id);
    return 0;
}

/* The log learns the switch from fabric_combine_faults(). */
static int combine_log(struct injector *in, uint32_t sw)
{
    return fabric_combiner_is_here(in->fabric, sw) && !fabric_combine_faults(in->fabric, sw)
               ? -ENOMEM
               : 0;
}

static int apply_combine_stall(struct injector *in, struct injection *f,
                               const struct fault_target *at)
{
    int err = combine_log(in, at->id);

    (void)f;
    if (err || !count_fault(&in->stalled[at->id], true))
        return err;
    err = fabric_combine_stall(in->fabric, at->id, true, in->now_ps);
    if (err) /* it was not applied, and is not reverted */
        count_fault(&in->stalled[at->id], false);
    return err;
}

/* Entries that have waited are hit when the units go on. */
static int revert_combine_stall(struct injector *in, struct injection *f,
                                const struct fault_target *at)
{
    int err = combine_log(in, at->id);

    if (err)
        return err;
    f->past += fabric_combine_waiting(in->fabric, at->id, f->id, in->now_ps);
    return count_fault(&in->stalled[at->id], false)
               ? fabric_combine_stall(in->fabric, at->id, false, in->now_ps)
               : 0;
}

static uint64_t waiting_combine_stall(const struct injector *in, const struct fault_target *at)
{
    return fabric_combine_waiting(in->fabric, at->id, 0, in->now_ps);
}

/* Groups that are refused during the fault are hit: all since its start less those before it. */
static int apply_combine_exhaust(struct injector *in, struct injection *f,
                                 const struct fault_target *at)
{
    f->past -= fabric_combine_refused(in->fabric, at->id);
    if (count_fault(&in->exhausted[at->id], true))
        fabric_combine_exhaust(in->fabric, at->id, true);
    return 0;
}

static int revert_combine_exhaust(struct injector *in, struct injection *f,
                                  const struct fault_target *at)
{
    f->past += fabric_combine_refused(in->fabric, at->id);
    if (count_fault(&in->exhausted[at->id], false))
        fabric_combine_exhaust(in->fabric, at->id, false);
    return 0;
}

static uint64_t waiting_combine_exhaust(const struct injector *in, const struct fault_target *at)
{
    return fabric_combine_refused(in->fabric, at->id);
}

/* --- processes ---------------------------------------------------------------------- */

/* Each fault stops the process, even a stopped one: the node may have another process by then. */
static int apply_process_stop(struct injector *in, struct injection *f,
                              const struct fault_target *at)
{
    (void)f;
    count_fault(&in->still[at->id], true);
    in->config.process(in->config.ctx, at->id, INJECT_FREEZE);
    return 0;
}

static int revert_process_stop(struct injector *in, struct injection *f,
                               const struct fault_target *at)
{
    (void)f;
    if (count_fault(&in->still[at->id], false))
        in->config.process(in->config.ctx, at->id, INJECT_GO_ON);
    return 0;
}

static int apply_process_kill(struct injector *in, struct injection *f,
                              const struct fault_target *at)
{
    (void)f;
    in->config.process(in->config.ctx, at->id, INJECT_KILL);
    return 0;
}

/* --- rules on cables ---------------------------------------------------------------- */

struct inject_way inject_way_of(const struct injector *in, const struct fault_target *at,
                                bool leaves)
{
    uint32_t cable = fabric_cable_at(in->fabric, at->id, at->port);
    const struct fabric_cable *ends = fabric_cable(in->fabric, cable);
    bool first = ends->at.sw == at->id && ends->at.port == at->port;

    return (struct inject_way){cable, first == leaves};
}

/* Some cables take no rules, such as those to nodes without acknowledgments: nothing is done. */
static int rule_add(struct injector *in, struct injection *f, struct inject_way way,
                    const struct emu_fault_rule *rule)
{
    struct emu_faults *faults;

    if (!fabric_can_fail(in->fabric, way.cable) ||
        !fabric_cable_ends_here(in->fabric, way.cable, way.out))
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

static int apply_rule(struct injector *in, struct injection *f, const struct fault_target *at)
{
    int err = 0;

    if (at->way != FAULT_IN)
        err = rule_add(in, f, inject_way_of(in, at, true), &f->fault.rule);
    if (!err && at->way != FAULT_OUT)
        err = rule_add(in, f, inject_way_of(in, at, false), &f->fault.rule);
    return err;
}

static int revert_rule(struct injector *in, struct injection *f, const struct fault_target *at)
{
    rule_remove(in, f, fabric_cable_at(in->fabric, at->id, at->port));
    return 0;
}

/* --- ports and wires ---------------------------------------------------------------- */

/* Call @act for each way of the cable that the target names. */
static int each_way(struct injector *in, struct injection *f, const struct fault_target *at,
                    int (*act)(struct injector *in, struct injection *f, struct inject_way way))
{
    int err = 0;

    if (!fabric_can_fail(in->fabric, fabric_cable_at(in->fabric, at->id, at->port)))
        return 0;
    if (at->way != FAULT_IN)
        err = act(in, f, inject_way_of(in, at, true));
    if (!err && at->way != FAULT_OUT)
        err = act(in, f, inject_way_of(in, at, false));
    return err;
}

/* Is the fault alone the reason why entries wait at the port? If not, the manager counts them. */
static bool way_waits(const struct injector *in, struct inject_way way)
{
    return fabric_can_fail(in->fabric, way.cable) && !fabric_link_is_out(in->fabric, way.cable);
}

/* The log learns the cable from fabric_faults(). */
static int way_log(struct injector *in, struct inject_way way)
{
    return fabric_cable_ends_here(in->fabric, way.cable, way.out) &&
                   !fabric_faults(in->fabric, way.cable, way.out)
               ? -ENOMEM
               : 0;
}

static int stick_way(struct injector *in, struct injection *f, struct inject_way way)
{
    int err = way_log(in, way);

    (void)f;
    if (!err && count_fault(&in->stuck[2 * way.cable + way.out], true))
        fabric_port_stick(in->fabric, way.cable, way.out, true, in->now_ps);
    return err;
}

/* Entries that have waited are hit when the port goes on. */
static int release_way(struct injector *in, struct injection *f, struct inject_way way)
{
    int err = way_log(in, way);

    if (err)
        return err;
    if (way_waits(in, way))
        f->past += fabric_port_waiting(in->fabric, way.cable, way.out, f->id, in->now_ps);
    if (count_fault(&in->stuck[2 * way.cable + way.out], false))
        fabric_port_stick(in->fabric, way.cable, way.out, false, in->now_ps);
    return 0;
}

static int apply_stuck_port(struct injector *in, struct injection *f, const struct fault_target *at)
{
    return each_way(in, f, at, stick_way);
}

static int revert_stuck_port(struct injector *in, struct injection *f,
                             const struct fault_target *at)
{
    return each_way(in, f, at, release_way);
}

static uint64_t waiting_stuck_port(const struct injector *in, const struct fault_target *at)
{
    uint64_t waiting = 0;

    for (uint32_t leaves = 0; leaves < 2; leaves++) {
        struct inject_way way = inject_way_of(in, at, leaves);

        if (at->way != (leaves ? FAULT_IN : FAULT_OUT) && way_waits(in, way))
            waiting += fabric_port_waiting(in->fabric, way.cable, way.out, 0, in->now_ps);
    }
    return waiting;
}

/* Is this fault active and does it slow this way? */
static bool way_is_slowed(const struct injector *in, const struct injection *f,
                          struct inject_way way)
{
    for (uint32_t i = 0; f->on && f->fault.kind == FAULT_SLOW_LINK && i < f->targets.count; i++) {
        const struct fault_target *at = &f->targets.target[i];
        struct inject_way leaves = inject_way_of(in, at, true);

        if (leaves.cable == way.cable &&
            (at->way == FAULT_BOTH || (at->way == FAULT_OUT) == (leaves.out == way.out)))
            return true;
    }
    return false;
}

/* Give the way the speed of the slowest of its active faults. */
static int way_speed(struct injector *in, struct inject_way way)
{
    uint32_t factor = FAULT_FACTOR_ONE;

    for (uint32_t i = 0; i < in->count; i++) {
        const struct injection *other = &in->injection[i];

        if (way_is_slowed(in, other, way) && other->fault.factor > factor)
            factor = other->fault.factor;
    }
    return fabric_wire_slow(in->fabric, way.cable, way.out, factor);
}

/* The rule counts the entries that pass. */
static int slow_way(struct injector *in, struct injection *f, struct inject_way way)
{
    static const struct emu_fault_rule passes = {.what = EMU_FAULT_SLOW,
                                                 .rate = EMU_FAULT_ONE,
                                                 .aim = {EMU_FAULT_ENTRIES, EMU_FAULT_KINDS,
                                                         EMU_FAULT_ANY, EMU_FAULT_ANY,
                                                         EMU_FAULT_ANY}};
    int err = way_speed(in, way);

    return err ? err : rule_add(in, f, way, &passes);
}

static int unslow_way(struct injector *in, struct injection *f, struct inject_way way)
{
    int err = way_speed(in, way);

    rule_remove(in, f, way.cable);
    return err;
}

static int apply_slow_link(struct injector *in, struct injection *f, const struct fault_target *at)
{
    return each_way(in, f, at, slow_way);
}

static int revert_slow_link(struct injector *in, struct injection *f, const struct fault_target *at)
{
    return each_way(in, f, at, unslow_way);
}

/* --- active and inactive in turn ---------------------------------------------------- */

static struct inject_duty duty_link_flap(const struct fault *fault)
{
    return (struct inject_duty){fault->flap.down_ps, fault->flap.up_ps};
}

static struct inject_duty duty_noise(const struct fault *fault)
{
    return (struct inject_duty){fault->noise.length_ps,
                                fault->noise.period_ps - fault->noise.length_ps};
}

static struct inject_duty duty_node_slow(const struct fault *fault)
{
    uint64_t off_ps = SLOW_PERIOD_PS / EMU_FAULT_ONE * fault->share;

    return (struct inject_duty){SLOW_PERIOD_PS - off_ps, off_ps};
}

/* --- the table ---------------------------------------------------------------------- */

#define RULE                                       \
    {                                              \
        .apply = apply_rule, .revert = revert_rule \
    }

static const struct inject_kind kinds[FAULT_KINDS] = {
    [FAULT_LINK_DOWN] = {apply_link_down, revert_link_down, .by_others = true},
    [FAULT_LINK_FLAP] = {apply_link_down, revert_link_down, .by_others = true,
                         .duty = duty_link_flap},
    [FAULT_BIT_ERRORS] = RULE,
    [FAULT_LOSS] = RULE,
    [FAULT_DUPLICATE] = RULE,
    [FAULT_DELAY] = RULE,
    [FAULT_CREDIT_LOSS] = RULE,
    [FAULT_CREDIT_FORGE] = RULE,
    [FAULT_STUCK_PORT] = {apply_stuck_port, revert_stuck_port, .waiting = waiting_stuck_port,
                          .stops_ports = true},
    [FAULT_SLOW_LINK] = {apply_slow_link, revert_slow_link},
    [FAULT_SWITCH_CRASH] = {apply_switch_crash, revert_switch_crash, .by_others = true},
    [FAULT_COMBINE_STALL] = {apply_combine_stall, revert_combine_stall,
                             .waiting = waiting_combine_stall},
    [FAULT_COMBINE_FLIP] = {apply_combine_flip, revert_combine_flip},
    [FAULT_COMBINE_EXHAUST] = {apply_combine_exhaust, revert_combine_exhaust,
                               .waiting = waiting_combine_exhaust},
    [FAULT_ADAPTER_RESET] = {apply_adapter_reset, .by_others = true},
    [FAULT_NODE_FREEZE] = {apply_process_stop, revert_process_stop, .by_others = true},
    [FAULT_NODE_SLOW] = {apply_process_stop, revert_process_stop, .by_others = true,
                         .duty = duty_node_slow},
    [FAULT_NODE_KILL] = {apply_process_kill, .by_others = true},
    [FAULT_NOISE] = {apply_process_stop, revert_process_stop, .by_others = true,
                     .duty = duty_noise},
    [FAULT_PARTITION] = {apply_link_down, revert_link_down, .by_others = true},
};

const struct inject_kind *inject_kind(const struct injection *f)
{
    return &kinds[f->fault.kind];
}

bool inject_is_by_others(enum fault_kind kind)
{
    return kinds[kind].by_others;
}
