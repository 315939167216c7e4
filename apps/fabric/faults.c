/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.c - faults of devices: ports that stop sending; slow wires; combiners that stop, that make
 * errors, or that refuse states to new groups.
 *
 * A *combiner* combines contributions: it is the combine units of a switch or, if no switch has
 * units, an adapter. A *unit engine* is a combine unit that is a link engine.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/util/now.h"

/* --- ports and wires ---------------------------------------------------------------- */

/* The sending end of one direction of a cable; both pointers are NULL if it is on another host. */
struct sender {
    struct switch_dev *sw;
    struct engine *engine;
    uint32_t port;
};

static struct sender sender_of(const struct fabric *fabric, uint32_t i, bool out)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];

    if (out)
        return (struct sender){.sw = fabric->sw[cable->at.sw], .port = cable->at.port};
    if (cable->kind == TOPO_END_SWITCH)
        return (struct sender){.sw = fabric->sw[cable->peer.sw], .port = cable->peer.port};
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

/*
 * A port that is ready and does not send may be stuck. But on a busy host it is also possible that
 * its worker waits for a core. So this function wakes the device, and the next sample sets
 * port.idle if no worker has stepped the device by then.
 */
struct fabric_port fabric_port_sample(struct fabric *fabric, uint32_t i, bool out, uint64_t now_ps)
{
    const struct sender at = sender_of(fabric, i, out);
    struct fabric_port port = {.ready = false};
    const struct emu_tx *tx;
    struct emu_dev *dev;

    if (!at.engine && !at.sw)
        return port; /* on another host */
    dev = at.engine ? engine_emu_dev(at.engine) : switch_emu_dev(at.sw);
    tx = at.engine ? engine_tx(at.engine, at.port) : switch_tx(at.sw, at.port);
    port.ready = at.engine ? engine_is_ready(at.engine, at.port) : switch_is_ready(at.sw, at.port);
    port.idle = !fabric_is_virtual(fabric) && emu_dev_is_signalled(dev);
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
    void (*note)(void *, const struct emu_entry *) = w.faults && fault ? waiting_note : NULL;

    if (!at.engine && !at.sw)
        return 0;
    return at.engine ? engine_waiting(at.engine, at.port, note, &w)
                     : switch_waiting(at.sw, at.port, note, &w);
}

bool fabric_retries(const struct fabric *fabric)
{
    return !fabric_has_engines(&fabric->config) && emu_profile_retries(&fabric->config.profile);
}

bool fabric_has_time(const struct fabric *fabric)
{
    return fabric->config.clock != EMU_CLOCK_RAW;
}

/*
 * Return how slow a cable is; 1000 stands for the profile's rate. Round down, because
 * emu_slow_set() rounds up.
 */
static uint32_t cable_factor(const struct fabric *fabric, uint32_t i)
{
    const struct topo_at *at = &fabric->links.cable[i].at;
    const struct fabric_config *config = &fabric->config;
    uint64_t cable_ps = topo_rate_ps(config->graph->sw[at->sw].end[at->port].rate);

    if (!config->link_rates || cable_ps <= config->profile.link_ps_per_byte)
        return 1000; /* also if the cable's rate is unknown: then cable_ps is 0 */
    return (uint32_t)(1000 * cable_ps / config->profile.link_ps_per_byte);
}

/* Slow the wire from a node without an engine: a device inside the fabric, or a host interface. */
static void node_slow(const struct fabric *fabric, const struct fabric_cable *cable,
                      struct emu_slow *slow, uint32_t factor)
{
    const struct emu_rx *rx = switch_rx(fabric->sw[cable->at.sw], cable->at.port);

    if (rx->kind == EMU_LINK_LOCAL)
        emu_tx_slow(rx->tx, slow, factor);
    else
        /* the host interface gets the new rate from fabric_slow_node() */
        emu_slow_set(slow, &fabric->config.profile, factor);
}

int fabric_wire_slow(struct fabric *fabric, uint32_t i, bool out, uint32_t factor)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];
    const struct sender at = sender_of(fabric, i, out);
    struct emu_slow **slow = &fabric->links.slow[2 * i + out];

    if (!at.engine && !at.sw && !(cable->kind == TOPO_END_NODE && fabric->sw[cable->at.sw]))
        return 0; /* on another host */
    if (!*slow)
        *slow = calloc(1, sizeof **slow);
    if (!*slow)
        return -ENOMEM;
    factor = (uint32_t)((uint64_t)factor * cable_factor(fabric, i) / 1000);
    if (at.engine)
        engine_slow(at.engine, at.port, *slow, factor);
    else if (at.sw)
        switch_slow(at.sw, at.port, *slow, factor);
    else
        node_slow(fabric, cable, *slow, factor);
    return 0;
}

int fabric_rate_cables(struct fabric *fabric)
{
    int err = 0;

    for (uint32_t i = 0; fabric_has_time(fabric) && !err && i < fabric->links.count; i++)
        for (uint32_t out = 0; !err && out < 2; out++)
            if (cable_factor(fabric, i) != 1000)
                err = fabric_wire_slow(fabric, i, out, 1000);
    return err;
}

const struct emu_slow *fabric_slow_node(const struct fabric *fabric, uint32_t node)
{
    if (fabric_engine(fabric, node))
        return NULL; /* the wire begins at the engine; the host interface is only memory */
    return fabric->links.slow[2 * fabric_cable_of(fabric, node, 0)];
}

void fabric_free_ports(struct fabric *fabric)
{
    for (uint32_t i = 0; fabric->links.slow && i < 2 * fabric->links.count; i++)
        free(fabric->links.slow[i]);
    free(fabric->links.slow);
}

/* --- combiners ---------------------------------------------------------------------- */

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

uint32_t fabric_combiner_host(const struct fabric *fabric, uint32_t i)
{
    return adapters_combine(fabric) ? fabric_node_host(&fabric->config, i)
                                    : fabric_switch_host(&fabric->config, i);
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
        fabric_drops_unit_back(fabric, sw);
        fabric_replan_treeless(fabric);
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

struct waiting_units {
    const struct emu_faults *faults; /* faults whose log gets the hits; NULL: only count the hits */
    uint32_t fault;
    uint64_t at_ps;
};

static void unit_note(void *ctx, const struct emu_hdr *hdr)
{
    const struct waiting_units *w = ctx;
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
    struct waiting_units w = {.faults = fault ? fabric->combine[sw].faults : NULL,
                              .fault = fault,
                              .at_ps = fabric_hit_ps(fabric, now_ps)};
    void (*note)(void *, const struct emu_hdr *) = w.faults ? unit_note : NULL;
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
