/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * totals.c - the counters of the whole fabric: sums over its edges, switches and link engines, on
 * this host and on all hosts. counters.def lists them.
 */
#include "apps/fabric/internal.h"
#include "emu/util/count.h"

void fabric_totals_add_edge(struct fabric_totals *to, const struct emu_hostif *edge)
{
    const struct emu_hostif_stats *stats = &edge->shared->stats;

    to->sent += emu_count_read(&edge->sent);
    to->delivered += emu_count_read(&edge->delivered);
    to->dropped_malformed += emu_count_read(&edge->bad);
    to->dropped_nobody_attached += emu_count_read(&edge->dead);
    for (unsigned c = 0; c < EMU_HOSTIF_COLLS; c++) {
        to->in_network[c] += emu_count_read(&stats->in_network[c]);
        for (unsigned w = 0; w < EMU_HOSTIF_REASONS; w++)
            to->elsewhere[c][w] += emu_count_read(&stats->elsewhere[c][w]);
    }
}

/* Links of an adapter are ports of cables, like ports of switches. Its process is on no cable. */
static void totals_add_links(struct fabric_totals *to, struct engine *engine, uint32_t links)
{
    for (uint32_t i = 0; i < links; i++)
        to->credit_stalls += emu_count_read(&engine_tx(engine, i)->counts.stalls);
}

/* @hosts: it has a node inside the fabric. */
static void totals_add_engine(struct fabric_totals *to, struct engine *engine, bool hosts)
{
    const struct engine_counts *counts = engine_counts(engine);
    const struct emu_port_counts *out = &engine_tx(engine, ENGINE_HOST)->counts;
    struct fabric_transport *transport = &to->transport;

#define REPORTED(name) transport->name += emu_count_read(&counts->name);
#include "nic/engine/counts.def"
#define FROM_ENGINE(total, count) to->total += emu_count_read(&counts->count);
#include "apps/fabric/counters.def"
    to->dropped_nobody_attached += emu_count_read(&out->dropped);
    if (hosts) {
        to->delivered += emu_count_read(&out->segments);
        to->sent += emu_count_read(&engine_rx(engine, ENGINE_HOST)->counts.segments);
    }
}

/* @hosts: it has ports to nodes inside the fabric. */
static void totals_add_switch(struct fabric_totals *to, struct switch_dev *sw, uint32_t ports,
                              bool hosts, const struct topo_end *end)
{
    const struct switch_counts *counts = switch_counts(sw);

#define FROM_SWITCH(total, count) to->total += emu_count_read(&counts->count);
#include "apps/fabric/counters.def"
    switch_retries_add(sw, &to->retries);
    for (uint32_t p = 0; p < ports; p++) {
        const struct emu_port_counts *tx = &switch_tx(sw, p)->counts;

        to->hops += emu_count_read(&tx->segments);
        to->credit_stalls += emu_count_read(&tx->stalls);
        to->dropped_nobody_attached += emu_count_read(&tx->dropped);
        if (hosts && end[p].kind == TOPO_END_NODE) {
            to->delivered += emu_count_read(&tx->segments);
            to->sent += emu_count_read(&switch_rx(sw, p)->counts.segments);
        }
    }
}

void fabric_totals_here(const struct fabric *fabric, struct fabric_totals *ret)
{
    const struct topo_graph *graph = fabric->config.graph;
    uint64_t ideal_ns = fabric->past_ideal_ns;
    uint64_t actual_ns = fabric->past_actual_ns;
    uint64_t worst_ps = 0;

    *ret = fabric->past;
    for (uint32_t n = 0; n < graph->nodes; n++) {
        if (!fabric->edge[n])
            continue;
        fabric_totals_add_edge(ret, fabric->edge[n]);
        ideal_ns += emu_count_read(&fabric->edge[n]->times.ideal_ns);
        actual_ns += emu_count_read(&fabric->edge[n]->times.actual_ns);
    }
    for (uint32_t s = 0; s < graph->switches; s++)
        if (fabric->sw[s])
            totals_add_switch(ret, fabric->sw[s], graph->ports,
                              fabric->config.local_nodes && !fabric_has_engines(&fabric->config),
                              graph->sw[s].end);
    fabric_crossings_count(fabric, &ret->retries);
    for (uint32_t i = 0; i < fabric->engines.count; i++) {
        struct engine *engine = fabric->engines.at[i];
        bool is_node = i < graph->nodes;

        if (engine)
            totals_add_engine(ret, engine, fabric->config.local_nodes && is_node);
        if (engine && is_node)
            totals_add_links(ret, engine, graph->node[i].links);
    }
    for (uint32_t w = 0; w < fabric->workers; w++) {
        uint64_t lag_ps = emu_count_read(&fabric->worker[w]->worst_lag_ps);

        if (lag_ps > worst_ps)
            worst_ps = lag_ps;
    }
    ret->dropped_overrun += ret->retries.overrun;
    ret->dropped_groups_over += ret->transport.not_in_group;
    ret->dropped = ret->transport.lost + ret->transport.refused;
#define DROP(name, text) ret->dropped += ret->dropped_##name;
#include "apps/fabric/counters.def"
    ret->worst_lag_ns = fabric->config.clock == EMU_CLOCK_REAL ? worst_ps / 1000u : 0;
    ret->real_time_factor = actual_ns ? (double)ideal_ns / (double)actual_ns : 1.0;
}

void fabric_totals_read(struct fabric *fabric, struct fabric_totals *ret)
{
    fabric_totals_here(fabric, ret);
    if (fabric->mirror)
        fabric->mirror->totals(fabric->mirror->ctx, ret);
}
