/* SPDX-License-Identifier: BSD-3-Clause */
/* counters.c - the counters of a fabric: descriptors, samples of its parts, and totals. */
#include "apps/fabric/counters.h"

#include <assert.h>

#include "apps/fabric/internal.h"
#include "apps/fabric/sample.h"
#include "emu/util/count.h"
#include "emu/util/now.h"
#include "emu/util/random.h"

static const struct fabric_counter of_direction[] = {
#define DIRECTION(name, kind, shown, text, help) {#name, FABRIC_##kind, help},
#include "apps/fabric/counters.def"
};

static const struct fabric_counter of_switch[] = {
#define SWITCH(name, kind, shown, text, help) {#name, FABRIC_##kind, help},
#include "apps/fabric/counters.def"
};

static const struct fabric_counter of_node[] = {
#define NODE(name, kind, shown, text, help) {#name, FABRIC_##kind, help},
#include "apps/fabric/counters.def"
};

static_assert(FABRIC_DIRECTION_COUNTERS <= FABRIC_COUNTERS_MOST &&
                  FABRIC_SWITCH_COUNTERS <= FABRIC_COUNTERS_MOST &&
                  FABRIC_NODE_COUNTERS <= FABRIC_COUNTERS_MOST,
              "an array of FABRIC_COUNTERS_MOST holds the counters of any part");

const struct fabric_counters fabric_direction_counters = {"port", of_direction,
                                                          FABRIC_DIRECTION_COUNTERS};
const struct fabric_counters fabric_switch_counters = {"switch", of_switch, FABRIC_SWITCH_COUNTERS};
const struct fabric_counters fabric_node_counters = {"node", of_node, FABRIC_NODE_COUNTERS};

void fabric_counters_add(const struct fabric_counters *counters, uint64_t *sum,
                         const uint64_t *value)
{
    for (size_t i = 0; i < counters->count; i++)
        sum[i] += value[i];
}

void fabric_counters_idle(const struct fabric_counters *counters, uint64_t *value)
{
    for (size_t i = 0; i < counters->count; i++)
        if (counters->counter[i].kind == FABRIC_GAUGE)
            value[i] = 0;
}

static const char *const totals[] = {
#define TOTAL(name, section, shown, text) #name,
#define DROP(name, text)                  "dropped_" #name,
#define KEPT(name)                        #name,
#include "apps/fabric/counters.def"
#define REPORTED(name) #name,
#include "nic/engine/counts.def"
#define REPLAY(name)     #name,
#define INTAKE(name)     #name,
#define UNREPORTED(name) #name,
#include "switch/common/retries.def"
};

void fabric_counters_each(void (*print)(void *ctx, const char *part, const char *name), void *ctx)
{
    const struct fabric_counters *const parts[] = {&fabric_direction_counters,
                                                   &fabric_switch_counters, &fabric_node_counters};

    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++)
        print(ctx, "total", totals[i]);
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
        for (size_t i = 0; i < parts[p]->count; i++)
            print(ctx, parts[p]->part, parts[p]->counter[i].name);
}

/* --- samples ------------------------------------------------------------------------ */

static void sent_by(struct fabric_direction_sample *ret, const struct emu_port_counts *counts)
{
    ret->segments = emu_count_read(&counts->segments);
    ret->stalls = emu_count_read(&counts->stalls);
}

static bool direction_of_switch(const struct fabric *fabric, const struct topo_at *at,
                                struct fabric_direction_sample *ret)
{
    struct switch_dev *sw = fabric->sw[at->sw];

    if (!sw)
        return false;
    sent_by(ret, &switch_tx(sw, at->port)->counts);
    ret->queue = switch_queued(sw, at->port);
    return true;
}

/* Return the number of filled slots, or 0 if the process has written implausible indexes. */
static uint32_t ring_holds(_Atomic uint32_t *tail, _Atomic uint32_t *head)
{
    uint32_t holds = atomic_load_explicit(tail, memory_order_relaxed) -
                     atomic_load_explicit(head, memory_order_relaxed);

    return holds <= EMU_HOSTIF_SLOTS ? holds : 0;
}

static uint32_t node_posted(const struct fabric *fabric, uint32_t node)
{
    const struct emu_hostif *hostif = fabric->hostif[node];

    return hostif ? ring_holds(&hostif->shared->up_tail, &hostif->shared->up_head) : 0;
}

/*
 * Sample the direction from a node to its switch. With engines, sample the sending end at the
 * node's engine. Without engines, sample the receiving end at the switch.
 */
static bool direction_of_node(const struct fabric *fabric, const struct fabric_cable *cable,
                              struct fabric_direction_sample *ret)
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

bool fabric_sample_direction(const struct fabric *fabric, uint32_t i, bool out,
                             struct fabric_direction_sample *ret)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];
    const struct emu_faults *faults = fabric->links.faults[2 * i + out];

    *ret = (struct fabric_direction_sample){.errors = faults ? emu_faults_errors(faults) : 0};
    if (out)
        return direction_of_switch(fabric, &cable->at, ret);
    return cable->kind == TOPO_END_SWITCH ? direction_of_switch(fabric, &cable->peer, ret)
                                          : direction_of_node(fabric, cable, ret);
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
    const struct emu_hostif *hostif = fabric->hostif[node];
    struct engine *engine = fabric_engine(fabric, node);
    struct fabric_host host;

    if (!fabric_has_node(&fabric->config, node))
        return false;
    host = fabric_host(fabric, node);
    /* this may exceed the count of segments, which is updated only at the end of a burst */
    uint64_t dropped = emu_count_read(&host.tx->counts.dropped);
    uint64_t segments = emu_count_read(&host.tx->counts.segments);
    *ret = (struct fabric_node_sample){
        .sent = emu_count_read(&host.rx->counts.segments),
        .delivered = segments > dropped ? segments - dropped : 0,
        .contributions = engine ? emu_count_read(&engine_counts(engine)->contributions) : 0,
        .posted = node_posted(fabric, node),
        .untaken = hostif ? ring_holds(&hostif->shared->down_tail, &hostif->shared->down_head) : 0};
    return true;
}

void fabric_finished_from(const struct fabric *fabric, uint32_t node,
                          struct fabric_finished_at *ret)
{
    const struct emu_hostif *hostif = fabric->hostif[node];

    *ret = (struct fabric_finished_at){.incarnation = 0};
    if (hostif)
        *ret = (struct fabric_finished_at){
            .incarnation = fabric->incarnation[node] & ~EMU_INCARNATION_NO_LINK,
            .next = atomic_load_explicit(&hostif->shared->finished.count, memory_order_relaxed)};
}

/*
 * Return the limit of reported times in simulated time. It is the end of simulated time, because
 * the local time of a process may be later than the time that the fabric has reached.
 */
static uint64_t last_simulated_ns(void)
{
    return EMU_LAST_PS / 1000u;
}

/*
 * Read the new entries of a ring. If the node has another process than at the last call, start at
 * the ring's first entry.
 */
static uint32_t read_ring(const struct fabric *fabric, uint32_t node,
                          struct emu_finished_shared *ring, struct fabric_finished_at *at,
                          struct emu_finished *ret, uint64_t *missed)
{
    uint64_t incarnation = fabric->incarnation[node] & ~EMU_INCARNATION_NO_LINK;

    if (at->incarnation != incarnation)
        *at = (struct fabric_finished_at){.incarnation = incarnation};
    return emu_finished_read(ret, ring, &at->next,
                             fabric_is_virtual(fabric) ? last_simulated_ns : emu_now_ns, missed);
}

uint32_t fabric_finished(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at,
                         struct emu_finished *ret, uint64_t *missed)
{
    const struct emu_hostif *hostif = fabric->hostif[node];

    return hostif ? read_ring(fabric, node, &hostif->shared->finished, at, ret, missed) : 0;
}

uint32_t fabric_drawn(const struct fabric *fabric, uint32_t node, struct fabric_finished_at *at,
                      struct emu_finished *ret, uint64_t *missed)
{
    const struct emu_hostif *hostif = fabric->hostif[node];

    return hostif ? read_ring(fabric, node, &hostif->shared->drawn, at, ret, missed) : 0;
}

/* --- totals ------------------------------------------------------------------------- */

/* Add a process's digest of its calls. The sum over processes does not depend on their order. */
static void totals_add_digest(struct fabric_totals *to, const struct emu_hostif *hostif)
{
    const struct emu_simtime *sim = &hostif->shared->sim;
    uint64_t digest = emu_count_read(&sim->digest);

    if (digest)
        to->digest += emu_mix(digest + hostif->node);
}

static void totals_add_calls(struct fabric_totals *to, const struct emu_simtime *sim,
                             uint64_t reached_ps)
{
    /* before a process detaches, it waits until the fabric has reached its finished_ps */
    uint64_t finished_ns = emu_earlier(emu_count_read(&sim->finished_ps), reached_ps) / 1000;

#define CALLS(class, name)                                          \
    emu_sum(&to->calls_##name, emu_count_read(&sim->calls[class])); \
    emu_sum(&to->waited_##name##_ns, emu_count_read(&sim->waited_ps[class]) / 1000)
    CALLS(EMU_CALLS_MESSAGE, message);
    CALLS(EMU_CALLS_COLLECTIVE, collective);
    CALLS(EMU_CALLS_ONE_SIDED, one_sided);
#undef CALLS
    if (finished_ns > to->finished_ns)
        to->finished_ns = finished_ns;
}

void fabric_totals_add_hostif(struct fabric_totals *to, const struct emu_hostif *hostif,
                              uint64_t reached_ps)
{
    const struct emu_hostif_stats *stats = &hostif->shared->stats;
    const struct emu_simtime *sim = &hostif->shared->sim;

    to->sent += emu_count_read(&hostif->sent);
    to->delivered += emu_count_read(&hostif->delivered);
    to->dropped_malformed += emu_count_read(&hostif->bad);
    to->dropped_nobody_attached += emu_count_read(&hostif->dead);
    to->late_posts += emu_count_read(&hostif->late_posts);
    to->outside_ns += emu_count_read(&hostif->outside_ns);
    totals_add_calls(to, sim, reached_ps);
    emu_sum(&to->computed_ns, emu_count_read(&sim->computed_ps) / 1000);
    totals_add_digest(to, hostif);
    to->differing += atomic_load_explicit(&sim->differs, memory_order_relaxed) != 0;
    for (unsigned c = 0; c < EMU_HOSTIF_COLLS; c++) {
        emu_sum(&to->in_network[c], emu_count_read(&stats->in_network[c]));
        for (unsigned w = 0; w < EMU_HOSTIF_REASONS; w++)
            emu_sum(&to->elsewhere[c][w], emu_count_read(&stats->elsewhere[c][w]));
    }
}

/* Add the counters of an adapter's ports to cables, but not of its port to the process. */
static void totals_add_links(struct fabric_totals *to, struct engine *engine, uint32_t links)
{
    for (uint32_t i = 0; i < links; i++)
        to->credit_stalls += emu_count_read(&engine_tx(engine, i)->counts.stalls);
}

/*
 * Add the counters of an engine. @hosts: the node is simulated, so no host interface counts its
 * segments; add them, too.
 */
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

/*
 * Add the counters of a switch. @hosts: its nodes are simulated, so no host interfaces count their
 * segments; add them, too.
 */
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
        if (!fabric->hostif[n])
            continue;
        fabric_totals_add_hostif(ret, fabric->hostif[n], fabric_reached_ps(fabric));
        ideal_ns += emu_count_read(&fabric->hostif[n]->times.ideal_ns);
        actual_ns += emu_count_read(&fabric->hostif[n]->times.actual_ns);
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
