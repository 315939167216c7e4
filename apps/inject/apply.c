/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * apply.c - apply each kind of fault to one of its targets, and revert it.
 *
 * The functions set_*() apply the fault @f at the target @at or, if @on is false, revert it. Rules
 * count most hits while they are in force. The functions add all other hits to f->past.
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

/* --- links of cables ---------------------------------------------------------------- */

/*
 * Take a cable's link down with the first fault on it, and up when the last one is reverted. If it
 * cannot be taken down, the fault is not counted.
 */
static int cable_set(struct injector *in, struct injection *f, uint32_t cable, bool down)
{
    uint32_t hit;
    int err;

    if (!count_fault(&in->link_down[cable], down))
        return 0;
    err = manager_signal(in->manager, cable, !down, f->id, in->now_ps, &hit);
    if (err && down)
        count_fault(&in->link_down[cable], false);
    f->past += hit;
    return err;
}

static int set_link_down(struct injector *in, struct injection *f, const struct fault_target *at,
                         bool on)
{
    return cable_set(in, f, fabric_cable_at(in->fabric, at->id, at->port), on);
}

/* Take the cables of the switch's first @ports ports down or up. After an error all stay up. */
static int ports_set(struct injector *in, struct injection *f, uint32_t sw, uint32_t ports,
                     bool down)
{
    int err = 0;

    for (uint32_t p = 0; !err && p < ports; p++) {
        uint32_t cable = fabric_cable_at(in->fabric, sw, p);

        /* without acknowledgments the cables of nodes cannot fail */
        if (cable != TOPO_NONE && fabric_can_fail(in->fabric, cable))
            err = cable_set(in, f, cable, down);
        if (err && down)
            ports_set(in, f, sw, p, false);
    }
    return err;
}

static int set_switch_crash(struct injector *in, struct injection *f, const struct fault_target *at,
                            bool on)
{
    return ports_set(in, f, at->id, in->graph->ports, on);
}

/* Take the adapter's links down and, immediately, up again. */
static int set_adapter_reset(struct injector *in, struct injection *f,
                             const struct fault_target *at, bool on)
{
    int err = 0;

    (void)on;
    for (uint32_t l = 0; !err && l < in->graph->node[at->id].links; l++) {
        uint32_t cable = fabric_cable_of(in->fabric, at->id, l);

        if (cable == TOPO_NONE)
            continue;
        err = cable_set(in, f, cable, true);
        if (!err)
            err = cable_set(in, f, cable, false);
    }
    return err;
}

/* --- combine units ------------------------------------------------------------------ */

static int set_combine_flip(struct injector *in, struct injection *f, const struct fault_target *at,
                            bool on)
{
    struct emu_faults *faults;

    if (!fabric_combiner_is_here(in->fabric, at->id))
        return 0;
    faults = fabric_combine_faults(in->fabric, at->id);
    if (!faults)
        return -ENOMEM;
    if (on)
        return emu_faults_add(faults, &f->fault.rule, f->id, emu_mix(f->seed ^ at->id));
    f->past += emu_faults_remove(faults, f->id);
    return 0;
}

/* Stop or restart the units. When they restart, count as hits the entries that wait there. */
static int set_combine_stall(struct injector *in, struct injection *f,
                             const struct fault_target *at, bool on)
{
    int err;

    /* this creates the log to which fabric_combine_waiting() writes hits */
    if (fabric_combiner_is_here(in->fabric, at->id) && !fabric_combine_faults(in->fabric, at->id))
        return -ENOMEM;
    if (!on)
        f->past += fabric_combine_waiting(in->fabric, at->id, f->id, in->now_ps);
    if (!count_fault(&in->stalled[at->id], on))
        return 0;
    err = fabric_combine_stall(in->fabric, at->id, on, in->now_ps);
    if (err && on) /* it is not applied, so the caller will not revert it */
        count_fault(&in->stalled[at->id], false);
    return err;
}

static uint64_t waiting_combine_stall(const struct injector *in, const struct fault_target *at)
{
    return fabric_combine_waiting(in->fabric, at->id, 0, in->now_ps);
}

/*
 * Groups that the switch refuses while the fault is applied count as hits: those refused until it
 * is reverted, minus those refused before it was applied.
 */
static int set_combine_exhaust(struct injector *in, struct injection *f,
                               const struct fault_target *at, bool on)
{
    uint64_t refused = fabric_combine_refused(in->fabric, at->id);

    f->past += on ? 0 - refused : refused;
    if (count_fault(&in->exhausted[at->id], on))
        fabric_combine_exhaust(in->fabric, at->id, on);
    return 0;
}

static uint64_t waiting_combine_exhaust(const struct injector *in, const struct fault_target *at)
{
    return fabric_combine_refused(in->fabric, at->id);
}

/* --- processes ---------------------------------------------------------------------- */

/*
 * Stop the process even if another fault has stopped the node's process before, because another
 * process may have attached to the node since then. The process continues when the last fault is
 * reverted.
 */
static int set_process_stop(struct injector *in, struct injection *f, const struct fault_target *at,
                            bool on)
{
    bool last = count_fault(&in->stopped[at->id], on);

    if (on)
        f->past += in->config.process(in->config.ctx, at->id, INJECT_FREEZE);
    else if (last)
        in->config.process(in->config.ctx, at->id, INJECT_GO_ON);
    return 0;
}

static int set_process_kill(struct injector *in, struct injection *f, const struct fault_target *at,
                            bool on)
{
    (void)on;
    f->past += in->config.process(in->config.ctx, at->id, INJECT_KILL);
    return 0;
}

/* --- rules on cables ---------------------------------------------------------------- */

struct inject_direction inject_direction_of(const struct injector *in,
                                            const struct fault_target *at, bool leaves)
{
    uint32_t cable = fabric_cable_at(in->fabric, at->id, at->port);
    const struct fabric_cable *ends = fabric_cable(in->fabric, cable);
    bool first = ends->at.sw == at->id && ends->at.port == at->port;

    return (struct inject_direction){cable, first == leaves};
}

static int rule_add(struct injector *in, struct injection *f, struct inject_direction direction,
                    const struct emu_fault_rule *rule)
{
    struct emu_faults *faults;

    if (!fabric_cable_ends_here(in->fabric, direction.cable, direction.out))
        return 0;
    faults = fabric_faults(in->fabric, direction.cable, direction.out);
    return faults
               ? emu_faults_add(faults, rule, f->id,
                                emu_mix(f->seed ^ ((uint64_t)direction.cable << 1 | direction.out)))
               : -ENOMEM;
}

static void rule_remove(struct injector *in, struct injection *f, struct inject_direction direction)
{
    if (fabric_faults_of(in->fabric, direction.cable, direction.out)) /* NULL: it has no rules */
        f->past +=
            emu_faults_remove(fabric_faults(in->fabric, direction.cable, direction.out), f->id);
}

static int rule_set(struct injector *in, struct injection *f, struct inject_direction direction,
                    bool on)
{
    if (on)
        return rule_add(in, f, direction, &f->fault.rule);
    rule_remove(in, f, direction);
    return 0;
}

/* --- ports and wires ---------------------------------------------------------------- */

/*
 * Return whether entries wait at the port only because a fault has stopped it. If the cable is out
 * of use, injector_taken_out() has counted them.
 */
static bool direction_waits(const struct injector *in, struct inject_direction direction)
{
    return fabric_can_fail(in->fabric, direction.cable) &&
           !fabric_link_is_out(in->fabric, direction.cable);
}

/* Stop or restart a port. When it restarts, count as hits the entries that wait there. */
static int stick_direction(struct injector *in, struct injection *f,
                           struct inject_direction direction, bool on)
{
    /* this creates the log to which fabric_port_waiting() writes hits */
    if (fabric_cable_ends_here(in->fabric, direction.cable, direction.out) &&
        !fabric_faults(in->fabric, direction.cable, direction.out))
        return -ENOMEM;
    if (!on && direction_waits(in, direction))
        f->past +=
            fabric_port_waiting(in->fabric, direction.cable, direction.out, f->id, in->now_ps);
    if (count_fault(&in->stuck[2 * direction.cable + direction.out], on))
        fabric_port_stick(in->fabric, direction.cable, direction.out, on, in->now_ps);
    return 0;
}

static uint64_t waiting_stuck_port(const struct injector *in, const struct fault_target *at)
{
    uint64_t waiting = 0;

    for (uint32_t leaves = 0; leaves < 2; leaves++) {
        struct inject_direction direction = inject_direction_of(in, at, leaves);

        if (at->direction != (leaves ? FAULT_IN : FAULT_OUT) && direction_waits(in, direction))
            waiting +=
                fabric_port_waiting(in->fabric, direction.cable, direction.out, 0, in->now_ps);
    }
    return waiting;
}

static bool direction_is_slowed(const struct injector *in, const struct injection *f,
                                struct inject_direction direction)
{
    for (uint32_t i = 0; f->on && f->fault.kind == FAULT_SLOW_LINK && i < f->targets.count; i++) {
        const struct fault_target *at = &f->targets.target[i];
        struct inject_direction leaves = inject_direction_of(in, at, true);

        if (leaves.cable == direction.cable &&
            (at->direction == FAULT_BOTH ||
             (at->direction == FAULT_OUT) == (leaves.out == direction.out)))
            return true;
    }
    return false;
}

/*
 * If several faults slow this direction, only the largest factor applies. A rule counts arriving
 * entries as hits.
 */
static int slow_direction(struct injector *in, struct injection *f,
                          struct inject_direction direction, bool on)
{
    static const struct emu_fault_rule all_entries = {.what = EMU_FAULT_SLOW,
                                                      .rate = EMU_FAULT_ONE,
                                                      .aim = {EMU_FAULT_ENTRIES, EMU_FAULT_KINDS,
                                                              EMU_FAULT_ANY, EMU_FAULT_ANY,
                                                              EMU_FAULT_ANY}};
    uint32_t factor = FAULT_FACTOR_ONE;
    int err;

    for (uint32_t i = 0; i < in->count; i++) {
        const struct injection *other = &in->injection[i];

        if ((on || other != f) && direction_is_slowed(in, other, direction) &&
            other->fault.factor > factor)
            factor = other->fault.factor;
    }
    err = on ? rule_add(in, f, direction, &all_entries) : 0;
    if (!err)
        err = fabric_wire_slow(in->fabric, direction.cable, direction.out, factor);
    if (err || !on)
        rule_remove(in, f, direction);
    return err;
}

/* --- duty cycles -------------------------------------------------------------------- */

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

static const struct inject_kind kinds[FAULT_KINDS] = {
    [FAULT_LINK_DOWN] = {set_link_down, .by_others = true, .on_links = true},
    [FAULT_LINK_FLAP] = {set_link_down, .by_others = true, .on_links = true,
                         .duty = duty_link_flap},
    [FAULT_BIT_ERRORS] = {.set_direction = rule_set},
    [FAULT_LOSS] = {.set_direction = rule_set},
    [FAULT_DUPLICATE] = {.set_direction = rule_set},
    [FAULT_DELAY] = {.set_direction = rule_set},
    [FAULT_CREDIT_LOSS] = {.set_direction = rule_set},
    [FAULT_CREDIT_FORGE] = {.set_direction = rule_set},
    [FAULT_STUCK_PORT] = {.set_direction = stick_direction,
                          .waiting = waiting_stuck_port,
                          .stops_ports = true},
    [FAULT_SLOW_LINK] = {.set_direction = slow_direction},
    [FAULT_SWITCH_CRASH] = {set_switch_crash, .by_others = true, .on_links = true},
    [FAULT_COMBINE_STALL] = {set_combine_stall, .waiting = waiting_combine_stall},
    [FAULT_COMBINE_FLIP] = {set_combine_flip},
    [FAULT_COMBINE_EXHAUST] = {set_combine_exhaust, .waiting = waiting_combine_exhaust},
    [FAULT_ADAPTER_RESET] = {set_adapter_reset, .by_others = true},
    [FAULT_NODE_FREEZE] = {set_process_stop, .by_others = true},
    [FAULT_NODE_SLOW] = {set_process_stop, .by_others = true, .duty = duty_node_slow},
    [FAULT_NODE_KILL] = {set_process_kill, .by_others = true},
    [FAULT_NOISE] = {set_process_stop, .by_others = true, .duty = duty_noise},
    [FAULT_PARTITION] = {set_link_down, .by_others = true, .on_links = true},
};

const struct inject_kind *inject_kind(const struct injection *f)
{
    return &kinds[f->fault.kind];
}

int inject_set(struct injector *in, struct injection *f, const struct fault_target *at, bool on)
{
    const struct inject_kind *kind = inject_kind(f);
    bool leaves = at->direction != FAULT_IN;
    int err = 0;

    if (kind->set)
        return kind->set(in, f, at, on);
    if (!fabric_can_fail(in->fabric, fabric_cable_at(in->fabric, at->id, at->port)))
        return 0;
    if (leaves)
        err = kind->set_direction(in, f, inject_direction_of(in, at, true), on);
    if (err || at->direction == FAULT_OUT)
        return err;
    err = kind->set_direction(in, f, inject_direction_of(in, at, false), on);
    if (err && on && leaves)
        kind->set_direction(in, f, inject_direction_of(in, at, true), false);
    return err;
}

bool inject_is_by_others(enum fault_kind kind)
{
    return kinds[kind].by_others;
}
