/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sample.c - samples of the counters of the parts of a running fabric.
 */
#include "apps/fabric/sample.h"

#include "apps/fabric/internal.h"
#include "emu/util/now.h"

static void sent_by(struct fabric_way_sample *ret, const struct emu_port_counts *counts)
{
    ret->segments = emu_count_read(&counts->segments);
    ret->stalls = emu_count_read(&counts->stalls);
}

static bool way_of_switch(const struct fabric *fabric, const struct topo_at *at,
                          struct fabric_way_sample *ret)
{
    struct switch_dev *sw = fabric->sw[at->sw];

    if (!sw)
        return false;
    sent_by(ret, &switch_tx(sw, at->port)->counts);
    ret->queue = switch_queued(sw, at->port);
    return true;
}

/* The process writes at least one of the two numbers: an impossible difference counts as 0. */
static uint32_t ring_holds(_Atomic uint32_t *tail, _Atomic uint32_t *head)
{
    uint32_t holds = atomic_load_explicit(tail, memory_order_relaxed) -
                     atomic_load_explicit(head, memory_order_relaxed);

    return holds <= EMU_HOSTIF_SLOTS ? holds : 0;
}

static uint32_t node_posted(const struct fabric *fabric, uint32_t node)
{
    const struct emu_hostif *edge = fabric->edge[node];

    return edge ? ring_holds(&edge->shared->up_tail, &edge->shared->up_head) : 0;
}

/* From a node to @at: by its adapter's link, or straight from its process. */
static bool way_of_node(const struct fabric *fabric, const struct fabric_cable *cable,
                        struct fabric_way_sample *ret)
{
    struct engine *engine = fabric_engine(fabric, cable->node);

    if (engine) {
        sent_by(ret, &engine_tx(engine, cable->link)->counts);
        return true;
    }
    if (fabric_has_engines(&fabric->config) || !fabric->sw[cable->at.sw])
        return false;
    ret->segments =
        emu_count_read(&switch_rx(fabric->sw[cable->at.sw], cable->at.port)->counts.segments);
    ret->queue = node_posted(fabric, cable->node);
    return true;
}

bool fabric_sample_way(const struct fabric *fabric, uint32_t i, bool out,
                       struct fabric_way_sample *ret)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];
    const struct emu_faults *faults = fabric->links.faults[2 * i + out];

    *ret = (struct fabric_way_sample){.errors = faults ? emu_faults_errors(faults) : 0};
    if (out)
        return way_of_switch(fabric, &cable->at, ret);
    return cable->kind == TOPO_END_SWITCH ? way_of_switch(fabric, &cable->far, ret)
                                          : way_of_node(fabric, cable, ret);
}

bool fabric_sample_switch(const struct fabric *fabric, uint32_t s, struct fabric_switch_sample *ret)
{
    struct engine *unit = fabric_unit(fabric, s);
    const struct switch_counts *counts;

    if (!fabric->sw[s])
        return false;
    counts = switch_counts(fabric->sw[s]);
    *ret = (struct fabric_switch_sample){.states = fabric->states[s]};
#define SWITCH_FROM(name, count) ret->name += emu_count_read(&counts->count);
#include "apps/fabric/counters.def"
    if (unit) {
        const struct engine_counts *of_unit = engine_counts(unit);

#define UNIT_FROM(name, count) ret->name += emu_count_read(&of_unit->count);
#include "apps/fabric/counters.def"
    }
    return true;
}

bool fabric_sample_node(const struct fabric *fabric, uint32_t node, struct fabric_node_sample *ret)
{
    const struct emu_hostif *edge = fabric->edge[node];
    struct engine *engine = fabric_engine(fabric, node);
    struct fabric_host host;

    if (!fabric_has_node(&fabric->config, node))
        return false;
    host = fabric_host(fabric, node);
    /* Drops are counted at once, segments when their burst ends: drops can be ahead. */
    uint64_t dropped = emu_count_read(&host.tx->counts.dropped);
    uint64_t segments = emu_count_read(&host.tx->counts.segments);
    *ret = (struct fabric_node_sample){
        .sent = emu_count_read(&host.rx->counts.segments),
        .delivered = segments > dropped ? segments - dropped : 0,
        .contributions = engine ? emu_count_read(&engine_counts(engine)->contributions) : 0,
        .posted = node_posted(fabric, node),
        .untaken = edge ? ring_holds(&edge->shared->down_tail, &edge->shared->down_head) : 0};
    return true;
}

void fabric_finished_from(const struct fabric *fabric, uint32_t node,
                          struct fabric_finished_at *ret)
{
    const struct emu_hostif *edge = fabric->edge[node];

    *ret = (struct fabric_finished_at){.seat = 0};
    if (edge)
        *ret =
            (struct fabric_finished_at){.seat = fabric->seat[node] & ~EMU_SEAT_NO_LINK,
                                        .next = atomic_load_explicit(&edge->shared->finished.count,
                                                                     memory_order_relaxed)};
}

/* Of a process that is another one than @at is of, from its beginning. */
static void begin_anew(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at)
{
    uint64_t seat = fabric->seat[node] & ~EMU_SEAT_NO_LINK;

    if (at->seat != seat)
        *at = (struct fabric_finished_at){.seat = seat};
}

/* What is new in @ring of the process at @node, which is there. */
static uint32_t read_ring(const struct fabric *fabric, uint32_t node,
                          struct emu_finished_shared *ring, struct fabric_finished_at *at,
                          struct emu_finished *ret, uint64_t *missed)
{
    begin_anew(fabric, node, at);
    return emu_finished_read(ret, ring, &at->next, emu_now_ns, missed);
}

uint32_t fabric_finished(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at,
                         struct emu_finished *ret, uint64_t *missed)
{
    const struct emu_hostif *edge = fabric->edge[node];

    return edge ? read_ring(fabric, node, &edge->shared->finished, at, ret, missed) : 0;
}

uint32_t fabric_drawn(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at,
                      struct emu_finished *ret, uint64_t *missed)
{
    const struct emu_hostif *edge = fabric->edge[node];

    return edge ? read_ring(fabric, node, &edge->shared->drawn, at, ret, missed) : 0;
}
