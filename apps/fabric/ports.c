/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ports.c - sending ends that do not send as they should: stuck ports, and wires that are slow.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/now.h"

/* The sending end of a way of a cable: a switch's port, or an adapter's link. */
struct sender {
    struct switch_dev *sw;
    struct engine *engine; /* NULL: the switch is it, or, if that is NULL, it is on another host */
    uint32_t port;
};

static struct sender sender_of(const struct fabric *fabric, uint32_t i, bool out)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];

    if (out)
        return (struct sender){.sw = fabric->sw[cable->at.sw], .port = cable->at.port};
    if (cable->kind == TOPO_END_SWITCH)
        return (struct sender){.sw = fabric->sw[cable->far.sw], .port = cable->far.port};
    return (struct sender){.engine = fabric_engine(fabric, cable->node), .port = cable->link};
}

void fabric_port_stick(struct fabric *fabric, uint32_t i, bool out, bool stuck, uint64_t now_ps)
{
    const struct sender at = sender_of(fabric, i, out);
    uint64_t then_ps = fabric_is_virtual(fabric) ? now_ps + 1 : fabric_now_ps(fabric);

    if (!at.engine && !at.sw)
        return;
    if (at.engine)
        engine_stick(at.engine, at.port, stuck, then_ps);
    else
        switch_stick(at.sw, at.port, stuck, then_ps);
    fabric_wake(fabric, at.engine ? engine_emu_dev(at.engine) : switch_emu_dev(at.sw), now_ps);
}

bool fabric_port_is_stuck(const struct fabric *fabric, uint32_t i, bool out)
{
    const struct sender at = sender_of(fabric, i, out);

    if (at.engine)
        return emu_tx_is_stuck(engine_tx(at.engine, at.port));
    return at.sw && switch_is_stuck(at.sw, at.port);
}

/* A device that was not stepped since it was woken: on a busy host it waits for a core. */
struct fabric_port fabric_port_look(struct fabric *fabric, uint32_t i, bool out, uint64_t now_ps)
{
    const struct sender at = sender_of(fabric, i, out);
    struct fabric_port port = {.ready = false};
    const struct emu_tx *tx;
    struct emu_dev *dev;

    if (!at.engine && !at.sw)
        return port; /* it is on another host */
    dev = at.engine ? engine_emu_dev(at.engine) : switch_emu_dev(at.sw);
    tx = at.engine ? engine_tx(at.engine, at.port) : switch_tx(at.sw, at.port);
    port.ready = at.engine ? engine_is_ready(at.engine, at.port) : switch_is_ready(at.sw, at.port);
    port.idle = !fabric_is_virtual(fabric) && emu_dev_is_told(dev);
    port.sent = emu_count_read(&tx->counts.segments);
    if (port.ready)
        fabric_wake(fabric, dev, now_ps);
    return port;
}

uint64_t fabric_hit_ps(const struct fabric *fabric, uint64_t now_ps)
{
    if (fabric_is_virtual(fabric))
        return now_ps;
    return fabric_has_time(fabric) ? fabric_now_ps(fabric) : emu_now_ns() * 1000u;
}

/* What waits is hit by a fault. */
struct waiting {
    const struct emu_faults *faults;
    const struct emu_pool_cache *cache;
    uint32_t fault;
    uint64_t at_ps;
};

static void waiting_note(void *ctx, const struct emu_entry *entry)
{
    const struct waiting *w = ctx;

    emu_faults_note(w->faults, w->cache, entry, w->fault, EMU_FAULT_STICK, w->at_ps);
}

uint32_t fabric_port_waiting(const struct fabric *fabric, uint32_t i, bool out, uint32_t fault,
                             uint64_t now_ps)
{
    const struct sender at = sender_of(fabric, i, out);
    struct waiting w = {.faults = fabric->links.faults[2 * i + out],
                        .cache = &fabric->cache,
                        .fault = fault,
                        .at_ps = fabric_hit_ps(fabric, now_ps)};
    void (*tell)(void *, const struct emu_entry *) = w.faults && fault ? waiting_note : NULL;

    if (!at.engine && !at.sw)
        return 0;
    return at.engine ? engine_waiting(at.engine, at.port, tell, &w)
                     : switch_waiting(at.sw, at.port, tell, &w);
}

bool fabric_retries(const struct fabric *fabric)
{
    return !fabric_has_engines(&fabric->config) && emu_profile_retries(&fabric->config.profile);
}

bool fabric_has_time(const struct fabric *fabric)
{
    return fabric->config.clock != EMU_CLOCK_RAW;
}

int fabric_wire_slow(struct fabric *fabric, uint32_t i, bool out, uint32_t factor)
{
    const struct sender at = sender_of(fabric, i, out);
    struct emu_slow **slow = &fabric->links.slow[2 * i + out];

    if (!at.engine && !at.sw)
        return 0;
    if (!*slow)
        *slow = calloc(1, sizeof **slow);
    if (!*slow)
        return -ENOMEM;
    if (at.engine)
        engine_slow(at.engine, at.port, *slow, factor);
    else
        switch_slow(at.sw, at.port, *slow, factor);
    return 0;
}

void fabric_free_ports(struct fabric *fabric)
{
    for (uint32_t i = 0; fabric->links.slow && i < 2 * fabric->links.count; i++)
        free(fabric->links.slow[i]);
    free(fabric->links.slow);
}
