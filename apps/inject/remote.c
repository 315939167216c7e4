/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote.c - apply faults to a network on several hosts.
 *
 * Only the coordinator's injector has the schedule. When it applies or reverts a fault, it calls
 * the injectors of all other hosts, which apply or revert the fault at the targets on their host.
 * All hosts find the same targets, because the call has the seed. Faults that the manager applies
 * (links down) or the daemon (processes) need no calls, because manager and daemon act on other
 * hosts themselves. Each host counts and logs its hits; the coordinator fetches them.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/inject/internal.h"
#include "apps/base/message.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "emu/util/bits.h"

int inject_elsewhere(const struct injector *in, const struct injection *f, enum inject_action what,
                     uint32_t only)
{
    const struct inject_remote *remote = in->config.remote;
    bool watches = what == INJECT_WATCH || what == INJECT_UNWATCH;

    if (!remote || (!watches && inject_is_by_others(f->fault.kind)))
        return 0;
    return remote->call(remote->ctx, &(struct inject_call){.what = what,
                                                           .id = f->id,
                                                           .fault = &f->fault,
                                                           .seed = f->seed,
                                                           .only = only});
}

int injector_reapply(const struct injector *in, uint32_t host)
{
    int err = 0;

    for (uint32_t i = 0; i < in->count; i++) {
        const struct injection *f = &in->injection[i];

        if (!err && f->waits)
            err = inject_elsewhere(in, f, INJECT_WATCH, host);
        if (!err && f->on)
            err = inject_elsewhere(in, f, INJECT_ON, host);
    }
    return err;
}

/* --- hosts with hits ---------------------------------------------------------------------- */

/* Return the hosts at the two ends of the cable; none if @cable is TOPO_NONE. */
static uint64_t hosts_of_cable(const struct injector *in, uint32_t cable)
{
    if (cable == TOPO_NONE)
        return 0;
    return emu_bit(fabric_direction_host(in->fabric, 2 * cable, true)) |
           emu_bit(fabric_direction_host(in->fabric, 2 * cable, false));
}

static uint64_t hosts_of_switch(const struct injector *in, const struct injection *f, uint32_t sw)
{
    uint64_t hosts = emu_bit(fabric_switch_host(fabric_config_of(in->fabric), sw));

    for (uint32_t p = 0; inject_kind(f)->on_links && p < in->graph->ports; p++)
        hosts |= hosts_of_cable(in, fabric_cable_at(in->fabric, sw, p));
    return hosts;
}

static uint64_t hosts_of_node(const struct injector *in, uint32_t node)
{
    uint64_t hosts = 0;

    for (uint32_t l = 0; l < in->graph->node[node].links; l++)
        hosts |= hosts_of_cable(in, fabric_cable_of(in->fabric, node, l));
    return hosts;
}

uint64_t inject_target_hosts(const struct injector *in, const struct injection *f)
{
    uint64_t hosts = 0;

    for (uint32_t i = 0; i < f->targets.count; i++) {
        const struct fault_target *at = &f->targets.target[i];

        if (fault_domain(f->fault.kind) == FAULT_OF_SWITCHES)
            hosts |= hosts_of_switch(in, f, at->id);
        else if (fault_domain(f->fault.kind) == FAULT_OF_NODES && f->fault.kind != FAULT_PARTITION)
            hosts |= hosts_of_node(in, at->id);
        else /* the targets of a partition are cables, too */
            hosts |= hosts_of_cable(in, fabric_cable_at(in->fabric, at->id, at->port));
    }
    return hosts;
}

/*
 * Only hosts with a device at a target count hits. All hosts observe the event of a fault that
 * waits, and may have had a random target when the fault began before.
 */
uint64_t inject_hosts(const struct injection *f)
{
    return f->waits || fault_targets_drawn(&f->fault) ? UINT64_MAX : f->hosts;
}

bool injector_may_hit(const struct injector *in, uint32_t id, uint32_t host)
{
    const struct injection *f = inject_find(in, id);

    return f && inject_hosts(f) >> host & 1;
}

/* --- calls of the coordinator ------------------------------------------------------------- */

static int begin_here(struct injector *in, struct injection *f, const struct inject_call *call)
{
    char error[FAULT_ERROR_BYTES];
    /* the fault is still applied here if an earlier call failed on another host */
    int err = inject_set_here(in, f, false);

    if (err)
        return err;
    f->fault = *call->fault;
    fault_targets_release(&f->targets);
    f->targets = (struct fault_targets){.count = 0};
    f->seed = call->seed;
    err = fault_affected_find(&f->targets, &f->fault, in->graph, f->seed, error, sizeof error);
    if (!err)
        fault_targets_limit(&f->targets, &f->fault, &in->config.network);
    return err ? err : inject_set_here(in, f, true);
}

/*
 * Observe the event of a fault, because the coordinator has requested it. While the fault is
 * applied, keep the stored copy of the fault, because the fault must be reverted at the targets to
 * which it was applied.
 */
static int watch_here(struct injector *in, struct injection *f, const struct inject_call *call)
{
    if (f->waits)
        inject_unwatch(in, f);
    if (!f->on)
        f->fault = *call->fault;
    return inject_watch(in, f);
}

/* Check a call of the coordinator, which may be faulty. Errors: -EINVAL; as fault_check(). */
static int check_call(const struct injector *in, const struct inject_call *call)
{
    bool sets = call->what == INJECT_ON || call->what == INJECT_OFF;
    char error[FAULT_ERROR_BYTES];

    if (!call->id || call->id == UINT32_MAX || (sets && inject_is_by_others(call->fault->kind)))
        return -EINVAL;
    if (call->what != INJECT_ON && call->what != INJECT_WATCH)
        return 0;
    return fault_check(call->fault, &in->config.network, error, sizeof error);
}

int injector_apply_call(struct injector *in, const struct inject_call *call, uint64_t now_ps)
{
    int err = check_call(in, call);
    struct injection *f;

    if (err)
        return err;
    f = inject_find(in, call->id);
    if (!f)
        f = inject_list(in, call->id, call->fault);
    if (!f)
        return -ENOMEM;
    in->now_ps = now_ps;
    switch (call->what) {
    case INJECT_ON:
        return begin_here(in, f, call);
    case INJECT_OFF:
        return inject_set_here(in, f, false);
    case INJECT_WATCH:
        return watch_here(in, f, call);
    case INJECT_UNWATCH:
        inject_unwatch(in, f);
        return 0;
    }
    return -EINVAL;
}
