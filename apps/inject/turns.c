/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turns.c - what each kind of fault does to one of its targets, and takes back; and what it has
 * hit.
 */
#include <errno.h>

#include "apps/inject/internal.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "emu/util/random.h"

/*
 * One more fault holds what @faults counts for, or one fewer. Returns whether it is the first that
 * does, or the last that did.
 */
static bool hold(uint32_t *faults, bool on)
{
    *faults += on ? 1 : UINT32_MAX;
    return *faults == on;
}

/* The cable loses its signal, if no other fault has seen to that, or has it again. */
static int cable_dark(struct injector *in, struct injection *f, uint32_t cable, bool dark)
{
    uint32_t hit;
    int err;

    if (!hold(&in->dark[cable], dark))
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

    if (!fabric_combiner_is_here(in->fabric, at->id))
        return 0;
    faults = fabric_combine_faults(in->fabric, at->id);
    if (!faults)
        err = -ENOMEM;
    else if (on)
        err = emu_faults_add(faults, &f->fault.rule, f->id, emu_mix(f->seed ^ at->id));
    else
        f->past += emu_faults_remove(faults, f->id);
    return err;
}

/* What has waited is hit, once it goes on. */
static int stall_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                      bool on)
{
    int err = 0;

    if (fabric_combiner_is_here(in->fabric, at->id) &&
        !fabric_combine_faults(in->fabric, at->id)) /* of which the log knows the switch */
        err = -ENOMEM;
    if (!err && !on)
        f->past += fabric_combine_waiting(in->fabric, at->id, f->id, in->now_ps);
    if (!err && hold(&in->stalled[at->id], on)) {
        err = fabric_combine_stall(in->fabric, at->id, on, in->now_ps);
        if (err && on) /* it was not done, and is not taken back */
            hold(&in->stalled[at->id], false);
    }
    return err;
}

/* Groups that are refused meanwhile are hit. */
static int exhaust_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                        bool on)
{
    uint64_t refused = fabric_combine_refused(in->fabric, at->id);

    f->past += on ? 0 - refused : refused;
    if (hold(&in->exhausted[at->id], on))
        fabric_combine_exhaust(in->fabric, at->id, on);
    return 0;
}

/* One that is held is stopped by each fault anew: its node may have another process by then. */
static int process_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                        bool on)
{
    if (f->fault.kind == FAULT_NODE_KILL) {
        if (on)
            in->config.process(in->config.ctx, at->id, INJECT_KILL);
        return 0;
    }
    if (hold(&in->still[at->id], on) || on)
        in->config.process(in->config.ctx, at->id, on ? INJECT_FREEZE : INJECT_GO_ON);
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

static int rule_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                     bool on)
{
    int err = 0;

    if (!on)
        rule_remove(in, f, fabric_cable_at(in->fabric, at->id, at->port));
    if (on && at->way != FAULT_IN)
        err = rule_stand(in, f, way_of(in, at, true), &f->fault.rule);
    if (on && !err && at->way != FAULT_OUT)
        err = rule_stand(in, f, way_of(in, at, false), &f->fault.rule);
    return err;
}

/* Does @turn to each way that the target has. */
static int ways_turn(struct injector *in, struct injection *f, const struct fault_target *at,
                     bool on,
                     int (*turn)(struct injector *in, struct injection *f, struct way way, bool on))
{
    int err = 0;

    if (!fabric_can_fail(in->fabric, fabric_cable_at(in->fabric, at->id, at->port)))
        return 0;
    if (at->way != FAULT_IN)
        err = turn(in, f, way_of(in, at, true), on);
    if (!err && at->way != FAULT_OUT)
        err = turn(in, f, way_of(in, at, false), on);
    return err;
}

/* Does what waits at its port wait for the fault alone? Else the manager sees to it. */
static bool way_waits(const struct injector *in, struct way way)
{
    return fabric_can_fail(in->fabric, way.cable) && !fabric_link_is_out(in->fabric, way.cable);
}

/* What has waited is hit, once it goes on. */
static int way_stick(struct injector *in, struct injection *f, struct way way, bool on)
{
    if (fabric_cable_ends_here(in->fabric, way.cable, way.out) &&
        !fabric_faults(in->fabric, way.cable, way.out)) /* of which the log knows the cable */
        return -ENOMEM;
    if (!on && way_waits(in, way))
        f->past += fabric_port_waiting(in->fabric, way.cable, way.out, f->id, in->now_ps);
    if (hold(&in->stuck[2 * way.cable + way.out], on))
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

const inject_turn_fn inject_turns[FAULT_KINDS] = {
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

bool inject_is_of_others(enum fault_kind kind)
{
    return inject_turns[kind] == process_turn || inject_turns[kind] == link_turn ||
           inject_turns[kind] == switch_turn || inject_turns[kind] == adapter_turn;
}

/* --- what it has hit ---------------------------------------------------------------- */

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

        if (at->way != (leaves ? FAULT_IN : FAULT_OUT) && way_waits(in, way))
            waiting += fabric_port_waiting(in->fabric, way.cable, way.out, 0, in->now_ps);
    }
    return waiting;
}

/* While it is at work. */
static uint64_t waiting_of(const struct injector *in, const struct injection *f)
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

/* Of the ways of a target that are the cable's. */
static void target_taken_out(struct injector *in, struct injection *f,
                             const struct fault_target *at, uint32_t cable)
{
    for (uint32_t leaves = 0; leaves < 2; leaves++) {
        struct way way = way_of(in, at, leaves);

        if (way.cable == cable && at->way != (leaves ? FAULT_IN : FAULT_OUT))
            f->past += fabric_port_waiting(in->fabric, cable, way.out, f->id, in->now_ps);
    }
}

void injector_taken_out(struct injector *in, uint32_t cable, uint64_t now_ps)
{
    in->now_ps = now_ps;
    fabric_hold(in->fabric);
    for (uint32_t i = 0; i < in->count; i++) {
        struct injection *f = &in->injection[i];

        for (uint32_t t = 0; f->on && f->fault.kind == FAULT_STUCK_PORT && t < f->targets.count;
             t++)
            target_taken_out(in, f, &f->targets.target[t], cable);
    }
    fabric_go(in->fabric);
    if (in->config.far)
        in->config.far->taken_out(in->config.far->ctx, cable);
}

uint64_t inject_hits(const struct injector *in, const struct injection *f)
{
    uint64_t hits = f->past + waiting_of(in, f);

    if (!f->on && !f->waits) /* it has no rules in force */
        return hits;
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
