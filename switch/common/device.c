/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c - the functions of device.h. Most of them call the function with the same name in the
 * switch's struct switch_kind.
 */
#include "switch/common/device.h"

#include <stdlib.h>

#include "switch/common/base.h"
#include "switch/common/cables.h"

void switch_destroy(struct switch_dev *sw)
{
    if (!sw)
        return;
    sw->kind->destroy(sw);
    emu_table_free(&sw->groups);
    free(sw);
}

struct switch_dev *switch_of(struct emu_dev *dev, const struct switch_kind *kind)
{
    return dev->step == switch_impl_of(kind, dev->timed)->step ? (struct switch_dev *)dev : NULL;
}

struct emu_dev *switch_emu_dev(struct switch_dev *sw)
{
    return &sw->dev;
}

struct emu_tx *switch_tx(struct switch_dev *sw, uint32_t port)
{
    assert(port < sw->ports);
    return sw->kind->tx(sw, port);
}

struct emu_rx *switch_rx(struct switch_dev *sw, uint32_t port)
{
    assert(port < sw->ports);
    return sw->kind->rx(sw, port);
}

uint32_t switch_queued(const struct switch_dev *sw, uint32_t port)
{
    assert(port < sw->ports);
    return sw->kind->queued(sw, port) & ~SWITCH_OUT_DOWN;
}

void switch_reroute(struct switch_dev *sw, const struct topo_route *route)
{
    atomic_store_explicit(&sw->route, route, memory_order_release); /* G6 pairs with G5 in base.h */
}

const struct topo_route *switch_route_now(const struct switch_dev *sw)
{
    /* relaxed, because the calling thread has written it */
    return atomic_load_explicit(&sw->route, memory_order_relaxed);
}

void switch_ups(struct switch_dev *sw, emu_ports ports)
{
    sw->ups = ports;
    if (sw->kind->ups)
        sw->kind->ups(sw);
}

uint32_t switch_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps)
{
    assert(port < sw->ports);
    return sw->kind->link(sw, port, up, at_ps);
}

const struct switch_counts *switch_counts(const struct switch_dev *sw)
{
    return &sw->counts;
}

void switch_audit(struct switch_dev *sw, uint64_t now_ps, const struct emu_reporter *reporter)
{
    sw->kind->check(sw, now_ps, reporter);
}

const char *switch_check(struct switch_dev *sw, uint64_t now_ps)
{
    const char *first = NULL;

    switch_audit(sw, now_ps, &(struct emu_reporter){emu_report_first, &first});
    return first;
}

uint32_t switch_bufs(struct switch_dev *sw)
{
    return sw->kind->bufs(sw);
}

bool switch_holds(struct switch_dev *sw, uint32_t id)
{
    return sw->kind->holds(sw, id);
}

void switch_rebase(struct switch_dev *sw, uint64_t by_ps)
{
    sw->kind->rebase(sw, by_ps);
}

int switch_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults)
{
    assert(port < sw->ports);
    return sw->kind->faults(sw, port, faults);
}

void switch_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps)
{
    assert(port < sw->ports);
    sw->stuck = stuck ? sw->stuck | emu_port(port) : sw->stuck & ~emu_port(port);
    sw->kind->stick(sw, port, stuck, at_ps);
}

bool switch_is_stuck(const struct switch_dev *sw, uint32_t port)
{
    return emu_ports_has(sw->stuck, port);
}

bool switch_is_ready(const struct switch_dev *sw, uint32_t port)
{
    assert(port < sw->ports);
    return sw->kind->ready(sw, port);
}

uint32_t switch_waiting(struct switch_dev *sw, uint32_t port,
                        void (*report)(void *ctx, const struct emu_entry *entry), void *ctx)
{
    assert(port < sw->ports);
    return sw->kind->waiting(sw, port, report, ctx);
}

int switch_combine_faults(struct switch_dev *sw, struct emu_faults *faults)
{
    return sw->kind->combine_faults(sw, faults);
}

void switch_combine_out(struct switch_dev *sw, bool out, uint64_t at_ps)
{
    sw->kind->combine_out(sw, out, at_ps);
}

uint64_t switch_combine_taken(const struct switch_dev *sw)
{
    return sw->kind->combine_taken(sw);
}

int switch_combine_stall(struct switch_dev *sw, bool stalled, uint64_t at_ps)
{
    return sw->kind->combine_stall(sw, stalled, at_ps);
}

uint32_t switch_combine_waiting(struct switch_dev *sw,
                                void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx)
{
    return sw->kind->combine_waiting(sw, report, ctx);
}

void switch_slow(struct switch_dev *sw, uint32_t port, struct emu_slow *slow, uint32_t factor)
{
    assert(sw->dev.timed);
    if (sw->cables && emu_ports_has(sw->cables->out, port))
        emu_replay_slow(sw->cables->replay[port], slow, factor);
    else
        emu_tx_slow(switch_tx(sw, port), slow, factor);
}

void switch_units(struct switch_dev *sw, uint32_t first, uint32_t own, const uint32_t *at)
{
    assert(own < sw->ports);
    sw->kind->units(sw, first, own, at);
}

const char *switch_check_cable(struct switch_dev *sw, uint32_t port, const struct emu_vcs *vcs,
                               const uint32_t *promised)
{
    assert(port < sw->ports);
    return sw->kind->check_cable(sw, port, vcs, promised);
}

const char *switch_check_out(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                             const struct emu_faults *faults)
{
    assert(port < sw->ports);
    return sw->kind->check_out(sw, port, rx, faults);
}
