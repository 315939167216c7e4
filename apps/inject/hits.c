/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hits.c - count the hits of faults, and observe the events that faults wait for (on=allreduce:3).
 *
 * A waiting fault installs rules that only count the segments of its event. The first rule whose
 * count reaches the number in on= writes an entry to the fault log, and the fault begins. For
 * combined operations the rules are in all combiners, and count the first contribution to each
 * segment. For multicasts and conditionals they are on all cables. A *combiner* is a switch with
 * combine units or, if no switch has any, an adapter.
 */
#include <errno.h>

#include "apps/inject/internal.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "emu/packet/kind.h"

/* Return the hits that are not in f->past yet, such as entries that wait at a stuck port. */
static uint64_t waiting_of(const struct injector *in, const struct injection *f)
{
    const struct inject_kind *kind = inject_kind(f);
    uint64_t waiting = 0;

    if (!f->on || !kind->waiting)
        return 0;
    fabric_pause(in->fabric);
    for (uint32_t i = 0; i < f->targets.count; i++)
        waiting += kind->waiting(in, &f->targets.target[i]);
    fabric_resume(in->fabric);
    return waiting;
}

/* Count as hits the entries that wait for the cable in the directions that the target names. */
static void target_taken_out(struct injector *in, struct injection *f,
                             const struct fault_target *at, uint32_t cable)
{
    for (uint32_t leaves = 0; leaves < 2; leaves++) {
        struct inject_direction direction = inject_direction_of(in, at, leaves);

        if (direction.cable == cable && at->direction != (leaves ? FAULT_IN : FAULT_OUT))
            f->past += fabric_port_waiting(in->fabric, cable, direction.out, f->id, in->now_ps);
    }
}

void injector_taken_out(struct injector *in, uint32_t cable, uint64_t now_ps)
{
    in->now_ps = now_ps;
    fabric_pause(in->fabric);
    for (uint32_t i = 0; i < in->count; i++) {
        struct injection *f = &in->injection[i];

        for (uint32_t t = 0; f->on && inject_kind(f)->stops_ports && t < f->targets.count; t++)
            target_taken_out(in, f, &f->targets.target[t], cable);
    }
    fabric_resume(in->fabric);
    if (in->config.remote)
        in->config.remote->taken_out(in->config.remote->ctx, cable);
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

static bool is_combined(const struct fault *fault)
{
    return emu_kind_traits(fault->when.on.kind)->folds;
}

static int watch(struct emu_faults *faults, const struct injection *f)
{
    const struct fault_event *on = &f->fault.when.on;
    const struct emu_fault_rule rule = {.what = EMU_FAULT_SEE,
                                        .rate = EMU_FAULT_ONE,
                                        .aim = {.packets = EMU_FAULT_HEAD,
                                                .kinds = UINT32_C(1) << on->kind,
                                                .src = EMU_FAULT_ANY,
                                                .dst = EMU_FAULT_ANY,
                                                .group = on->group},
                                        .nth = on->nth};

    return faults ? emu_faults_add(faults, &rule, f->id, 0) : -ENOMEM;
}

int inject_watch(struct injector *in, struct injection *f)
{
    uint32_t cables = is_combined(&f->fault) ? 0 : fabric_cable_count(in->fabric);
    uint32_t combiners = is_combined(&f->fault) ? fabric_combiners(in->fabric) : 0;
    int err = 0;

    f->waits = true;
    fabric_pause(in->fabric);
    for (uint32_t i = 0; !err && i < combiners; i++)
        if (fabric_combiner_is_here(in->fabric, i))
            err = watch(fabric_combine_faults(in->fabric, i), f);
    for (uint32_t i = 0; !err && i < 2 * cables; i++)
        if (fabric_can_fail(in->fabric, i / 2) && fabric_cable_ends_here(in->fabric, i / 2, i % 2))
            err = watch(fabric_faults(in->fabric, i / 2, i % 2), f);
    fabric_resume(in->fabric);
    if (!err)
        err = inject_elsewhere(in, f, INJECT_WATCH, 0);
    if (err)
        inject_unwatch(in, f);
    return err;
}

void inject_unwatch(struct injector *in, struct injection *f)
{
    f->waits = f->saw = false;
    fabric_pause(in->fabric);
    for (uint32_t i = 0; i < fabric_combiners(in->fabric); i++)
        if (fabric_combine_faults_of(in->fabric, i))
            emu_faults_remove(fabric_combine_faults(in->fabric, i), f->id);
    for (uint32_t i = 0; i < 2 * fabric_cable_count(in->fabric); i++)
        if (fabric_faults_of(in->fabric, i / 2, i % 2))
            emu_faults_remove(fabric_faults(in->fabric, i / 2, i % 2), f->id);
    fabric_resume(in->fabric);
    inject_elsewhere(in, f, INJECT_UNWATCH, 0); /* ignore errors: only a lost host causes one */
}

/*
 * On clock real an entry of the log has the fabric's time, not the manager's. The time at= of the
 * fault then counts from @now_ps instead.
 */
bool injector_observe(struct injector *in, const struct emu_fault_hit *hit, uint64_t now_ps)
{
    bool manager_time = fabric_is_virtual(in->fabric) || !fabric_has_time(in->fabric);
    struct injection *f;
    uint64_t at_ps;

    if (hit->link_down || hit->what != EMU_FAULT_SEE)
        return false;
    f = inject_find(in, hit->fault);
    if (!f || !f->waits)
        return true;
    at_ps = (manager_time ? hit->at_ps : now_ps) + f->fault.when.at_ps;
    if (at_ps < now_ps)
        at_ps = now_ps;
    if (at_ps < f->begin_ps)
        f->begin_ps = at_ps;
    f->saw = true;
    return true;
}

bool injector_waits(const struct injector *in)
{
    for (uint32_t i = 0; i < in->count; i++)
        if (in->injection[i].waits)
            return true;
    return false;
}
