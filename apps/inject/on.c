/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * on.c - faults that wait until something is seen: on=allreduce:3.
 *
 * Rules that only count stand where it can be seen, and go into the log when the fault's number is
 * reached: at all that combines, for what is combined, where each segment of an operation is
 * counted once, by its first contribution; on all cables for multicasts and conditionals. Who has
 * counted as far first begins the fault. Where nobody waits, none of this exists.
 */
#include <errno.h>

#include "apps/inject/internal.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/base/say.h"
#include "emu/packet/kind.h"

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
    fabric_hold(in->fabric);
    for (uint32_t i = 0; !err && i < combiners; i++)
        if (fabric_combiner_is_here(in->fabric, i))
            err = watch(fabric_combine_faults(in->fabric, i), f);
    for (uint32_t i = 0; !err && i < 2 * cables; i++)
        if (fabric_can_fail(in->fabric, i / 2) && fabric_cable_ends_here(in->fabric, i / 2, i % 2))
            err = watch(fabric_faults(in->fabric, i / 2, i % 2), f);
    fabric_go(in->fabric);
    if (!err)
        err = inject_elsewhere(in, f, INJECT_WATCH);
    if (err)
        inject_unwatch(in, f);
    return err;
}

void inject_unwatch(struct injector *in, struct injection *f)
{
    f->waits = f->saw = false;
    fabric_hold(in->fabric);
    for (uint32_t i = 0; i < fabric_combiners(in->fabric); i++)
        if (fabric_combine_faults_of(in->fabric, i))
            emu_faults_remove(fabric_combine_faults(in->fabric, i), f->id);
    for (uint32_t i = 0; i < 2 * fabric_cable_count(in->fabric); i++)
        if (fabric_faults_of(in->fabric, i / 2, i % 2))
            emu_faults_remove(fabric_faults(in->fabric, i / 2, i % 2), f->id);
    fabric_go(in->fabric);
    inject_elsewhere(in, f, INJECT_UNWATCH); /* a host that cannot do it is lost */
}

/* On clock real hits have the fabric's time, which is not the manager's: it counts from now. */
bool injector_saw(struct injector *in, const struct emu_fault_hit *hit, uint64_t now_ps)
{
    bool manager_time = fabric_is_virtual(in->fabric) || !fabric_has_time(in->fabric);
    struct injection *f;
    uint64_t at_ps;

    if (hit->dark || hit->what != EMU_FAULT_SEE)
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
