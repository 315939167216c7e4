/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hits.c - how many entries a fault has hit.
 */
#include "apps/inject/internal.h"
#include "apps/fabric/links.h"

/* Entries that wait, at this moment, at targets that the active fault has stopped. */
static uint64_t waiting_of(const struct injector *in, const struct injection *f)
{
    const struct inject_kind *kind = inject_kind(f);
    uint64_t waiting = 0;

    if (!f->on || !kind->waiting)
        return 0;
    fabric_hold(in->fabric);
    for (uint32_t i = 0; i < f->targets.count; i++)
        waiting += kind->waiting(in, &f->targets.target[i]);
    fabric_go(in->fabric);
    return waiting;
}

/* Count the entries that wait at the ways of a target that are ways of the cable. */
static void target_taken_out(struct injector *in, struct injection *f,
                             const struct fault_target *at, uint32_t cable)
{
    for (uint32_t leaves = 0; leaves < 2; leaves++) {
        struct inject_way way = inject_way_of(in, at, leaves);

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

        for (uint32_t t = 0; f->on && inject_kind(f)->stops_ports && t < f->targets.count; t++)
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
