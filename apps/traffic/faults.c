/* SPDX-License-Identifier: BSD-3-Clause */
/* faults.c - applies and reverts faults between windows of simulated time. */
#include "apps/traffic/internal.h"

#include "apps/fabric/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/inject/inject.h"
#include "emu/fault/log.h"
#include "emu/util/clock.h"

#define SCAN_PS 1000000u /* interval between two checks for the events of on= (inject.h) */

struct traffic_faults {
    struct manager *manager; /* NULL: this fabric cannot reroute */
    struct injector *injector;
    struct traffic_faults_seen seen;
};

/* Record a change, or replace the previous one if it has the same kind and time. */
static void note_change(struct traffic_faults_seen *seen, const struct manager_event *event)
{
    struct traffic_change change = {.at_ps = event->at_ps,
                                    .links_out = event->links_out,
                                    .tables = event->what == MANAGER_EVENT_TABLES};
    struct traffic_change *last = seen->changes ? &seen->change[seen->changes - 1] : NULL;

    if (last && last->at_ps == change.at_ps && last->tables == change.tables)
        *last = change;
    else if (seen->changes < TRAFFIC_CHANGES_MOST)
        seen->change[seen->changes++] = change;
}

static uint32_t links_between_switches(const struct fabric *fabric)
{
    uint32_t links = 0;

    for (uint32_t i = 0; i < fabric_cable_count(fabric); i++)
        links += fabric_cable(fabric, i)->kind == TOPO_END_SWITCH;
    return links;
}

static void on_manager(void *ctx, const struct manager_event *event)
{
    struct traffic_faults *f = ctx;
    struct traffic_faults_seen *seen = &f->seen;

    seen->lost += event->what == MANAGER_EVENT_LOST;
    seen->up += event->what == MANAGER_EVENT_UP;
    seen->out += event->what == MANAGER_EVENT_OUT || event->what == MANAGER_EVENT_STUCK;
    if (event->what == MANAGER_EVENT_STUCK)
        injector_taken_out(f->injector, event->cable, event->at_ps);
    if (event->what == MANAGER_EVENT_LOST || event->what == MANAGER_EVENT_UP ||
        event->what == MANAGER_EVENT_OUT || event->what == MANAGER_EVENT_STUCK ||
        event->what == MANAGER_EVENT_TABLES)
        note_change(seen, event);
    if (event->what != MANAGER_EVENT_TABLES)
        return;
    seen->tables++;
    if (event->took_ps > seen->recovery_ps)
        seen->recovery_ps = event->took_ps;
}

int traffic_faults_start(struct traffic_run *run)
{
    const struct traffic_config *config = run->config;
    struct manager_config manager = manager_defaults();
    struct inject_config inject = {.network = {.graph = config->fabric.graph,
                                               .profile = &config->fabric.profile,
                                               .clock = config->fabric.clock},
                                   .seed = config->fabric.seed,
                                   .scan_ps = SCAN_PS};
    struct traffic_faults *f;
    int err = 0;

    if (!config->faults)
        return 0;
    f = calloc(1, sizeof *f);
    if (!f)
        return traffic_run_wrong(run, -ENOMEM, "out of memory");
    run->faults = f;
    manager.event = on_manager;
    manager.ctx = f;
    if (fabric_can_reroute(run->fabric))
        err = manager_create(&f->manager, run->fabric, &manager);
    if (!err)
        err = injector_create(&f->injector, run->fabric, f->manager, &inject);
    if (err)
        return traffic_run_wrong(run, err, "out of memory");
    return injector_add_all(f->injector, config->faults, run->error, run->error_bytes);
}

const struct manager *traffic_faults_manager(const struct traffic_run *run)
{
    return run->faults ? run->faults->manager : NULL;
}

void traffic_faults_stop(struct traffic_run *run)
{
    if (!run->faults)
        return;
    injector_destroy(run->faults->injector);
    manager_destroy(run->faults->manager);
    free(run->faults);
    run->faults = NULL;
}

static int faults_step(struct traffic_run *run, uint64_t at_ps)
{
    struct traffic_faults *f = run->faults;
    struct emu_fault_hit hit;
    int err;

    while (fabric_hit_take(run->fabric, &hit))
        injector_observe(f->injector, &hit, at_ps);
    err = injector_step(f->injector, at_ps);
    if (!err && f->manager)
        err = manager_step(f->manager, at_ps);
    return err ? traffic_run_wrong(run, err, "a fault could not be applied: %s", strerror(-err))
               : 0;
}

static uint64_t faults_due_ps(const struct traffic_faults *f)
{
    uint64_t inject_ps = injector_due_ps(f->injector);
    uint64_t manager_ps = f->manager ? manager_due_ps(f->manager) : EMU_NEVER;

    return inject_ps < manager_ps ? inject_ps : manager_ps;
}

int traffic_faults_advance(struct traffic_run *run)
{
    uint64_t due_ps;
    int err = 0;

    while (run->faults && !err && (due_ps = faults_due_ps(run->faults)) <= run->now_ps) {
        err = traffic_snapshots_advance(run, due_ps);
        if (!err)
            err = faults_step(run, due_ps);
    }
    if (!err)
        err = traffic_snapshots_advance(run, run->now_ps);
    return err ? err : traffic_hosts_error(run);
}

int traffic_faults_revert(struct traffic_run *run)
{
    return run->faults ? injector_clear_all(run->faults->injector, run->now_ps) : 0;
}

bool traffic_faults_busy(const struct traffic_run *run)
{
    return run->faults && run->faults->manager && manager_is_busy(run->faults->manager);
}

bool traffic_faults_will_revert(const struct traffic_run *run)
{
    return run->faults && injector_will_revert(run->faults->injector);
}

void traffic_faults_result(struct traffic_run *run)
{
    struct traffic_faults *f = run->faults;

    if (!f)
        return;
    f->seen.all = injector_count(f->injector);
    for (uint32_t i = 0; i < f->seen.all; i++) {
        f->seen.hit += injector_at(f->injector, i).hits;
        f->seen.begun += injector_at(f->injector, i).times > 0;
    }
    f->seen.any = true;
    f->seen.links = links_between_switches(run->fabric);
    run->result->faults = f->seen;
}
