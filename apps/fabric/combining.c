/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combining.c - what goes wrong where switches combine: units that stand still or flip bits, states
 * that are all taken.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/util/now.h"

/* Do adapters combine instead of switches? */
static bool adapters_combine(const struct fabric *fabric)
{
    return fabric_has_engines(&fabric->config) && !fabric_has_units(&fabric->config);
}

bool fabric_switches_combine(const struct fabric *fabric)
{
    return fabric_has_units(&fabric->config) || switch_combines(&fabric->config.profile);
}

uint32_t fabric_combiners(const struct fabric *fabric)
{
    if (adapters_combine(fabric))
        return fabric->config.graph->nodes;
    return fabric_switches_combine(fabric) ? fabric->config.graph->switches : 0;
}

struct emu_faults *fabric_combine_faults(struct fabric *fabric, uint32_t i)
{
    static const struct emu_fault_rates none;
    struct emu_faults **at = &fabric->combine[i].faults;
    struct engine *engine = adapters_combine(fabric) ? fabric_engine(fabric, i)
                                                     : fabric_unit(fabric, i);
    struct emu_dev *dev = engine ? engine_emu_dev(engine) : NULL;

    if (!engine && !adapters_combine(fabric) && fabric->sw[i])
        dev = switch_emu_dev(fabric->sw[i]);
    if (*at || !dev)
        return *at;
    *at = fabric_faults_create(fabric, dev->worker->index, &none, i, 2 * fabric->links.count + i);
    if (!*at)
        return NULL;
    if (engine) {
        engine_combine_faults(engine, *at);
    } else if (switch_combine_faults(fabric->sw[i], *at)) {
        free(*at);
        *at = NULL;
    }
    return *at;
}

bool fabric_combiner_is_here(const struct fabric *fabric, uint32_t i)
{
    return adapters_combine(fabric) ? fabric_has_node(&fabric->config, i)
                                    : fabric_has_switch(&fabric->config, i);
}

const struct emu_faults *fabric_combine_faults_of(const struct fabric *fabric, uint32_t i)
{
    return fabric->combine[i].faults;
}

int fabric_combine_stall(struct fabric *fabric, uint32_t sw, bool stalled, uint64_t now_ps)
{
    uint64_t then_ps = fabric_is_virtual(fabric) ? now_ps + 1 : fabric_now_ps(fabric);
    struct engine *unit = fabric_unit(fabric, sw);
    int err = 0;

    if (!fabric->sw[sw]) {
        if (!stalled && fabric->combine[sw].out)
            fabric_combine_out(fabric, sw, false, now_ps);
        return 0;
    }
    if (unit)
        engine_combine_stall(unit, stalled, then_ps);
    else
        err = switch_combine_stall(fabric->sw[sw], stalled, then_ps);
    if (!stalled && fabric->combine[sw].out) {
        fabric_combine_out(fabric, sw, false, now_ps);
        fabric_losses_unit_back(fabric, sw);
        fabric_regrow_treeless(fabric);
    }
    fabric_wake(fabric, unit ? engine_emu_dev(unit) : switch_emu_dev(fabric->sw[sw]), now_ps);
    return err;
}

void fabric_combine_out(struct fabric *fabric, uint32_t sw, bool out, uint64_t now_ps)
{
    uint64_t then_ps = fabric_is_virtual(fabric) ? now_ps + 1 : fabric_now_ps(fabric);
    struct fabric_combine *units = &fabric->combine[sw];
    struct engine *unit = fabric_unit(fabric, sw);

    units->held = out ? fabric_combine_waiting(fabric, sw, 0, now_ps) : 0;
    units->out = out;
    units->waits = false;
    fabric->tree_load[sw] += out ? FABRIC_OUT_LOAD : 0 - FABRIC_OUT_LOAD;
    if (!fabric->sw[sw])
        return; /* another host changes the devices */
    if (unit)
        engine_combine_out(unit, out, then_ps);
    else
        switch_combine_out(fabric->sw[sw], out, then_ps);
    fabric_wake(fabric, unit ? engine_emu_dev(unit) : switch_emu_dev(fabric->sw[sw]), now_ps);
}

bool fabric_combine_is_out(const struct fabric *fabric, const struct topo_tree *tree)
{
    for (uint32_t i = 0; i < tree->count; i++)
        if (fabric->combine[tree->switches[i].sw].out)
            return true;
    return false;
}

/* Logs waiting contributions as hit by a fault. */
struct waiting {
    const struct emu_faults *faults; /* NULL: they are only counted */
    uint32_t fault;
    uint64_t at_ps;
};

static void waiting_note(void *ctx, const struct emu_hdr *hdr)
{
    const struct waiting *w = ctx;
    struct emu_fault_hit hit = {.at_ps = w->at_ps,
                                .fault = w->fault,
                                .cable = w->faults->name,
                                .what = EMU_FAULT_STICK,
                                .packet = EMU_FAULT_HEAD,
                                .known = true,
                                .hdr = *hdr};

    emu_fault_log_put(w->faults->log, &hit);
}

uint32_t fabric_combine_waiting(const struct fabric *fabric, uint32_t sw, uint32_t fault,
                                uint64_t now_ps)
{
    struct waiting w = {.faults = fault ? fabric->combine[sw].faults : NULL,
                        .fault = fault,
                        .at_ps = fabric_hit_ps(fabric, now_ps)};
    void (*note)(void *, const struct emu_hdr *) = w.faults ? waiting_note : NULL;
    struct engine *unit = fabric_unit(fabric, sw);

    if (!fabric->sw[sw])
        return 0;
    return fabric->combine[sw].held + (unit ? engine_combine_waiting(unit, note, &w)
                                            : switch_combine_waiting(fabric->sw[sw], note, &w));
}

void fabric_combine_exhaust(struct fabric *fabric, uint32_t sw, bool exhausted)
{
    fabric->combine[sw].exhausted = exhausted;
}

uint64_t fabric_combine_refused(const struct fabric *fabric, uint32_t sw)
{
    return fabric->combine[sw].refused;
}

const struct topo_tree_switch *fabric_combine_exhausted(struct fabric *fabric,
                                                        const struct topo_tree *tree)
{
    for (uint32_t i = 0; i < tree->count; i++)
        if (fabric->combine[tree->switches[i].sw].exhausted) {
            fabric->combine[tree->switches[i].sw].refused++;
            return &tree->switches[i];
        }
    return NULL;
}

void fabric_free_combine(struct fabric *fabric)
{
    for (uint32_t i = 0; fabric->combine && i < fabric_combine_slots(fabric->config.graph); i++) {
        if (fabric->combine[i].faults)
            emu_faults_drop(fabric->combine[i].faults, &fabric->cache);
        free(fabric->combine[i].faults);
    }
    free(fabric->combine);
}
