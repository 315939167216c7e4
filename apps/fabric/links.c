/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.c - the cables of a fabric: their list, their faults, taking links down and up, and routes
 * that avoid links.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/fabric/internal.h"
#include "emu/dev/rcu.h"
#include "emu/util/bits.h"
#include "emu/util/random.h"

/* --- the list of cables ------------------------------------------------------------- */

bool fabric_cable_from(const struct topo_graph *graph, uint32_t sw, uint32_t port,
                       struct fabric_cable *ret)
{
    const struct topo_end *end = &graph->sw[sw].end[port];

    *ret = (struct fabric_cable){.at = {sw, port}, .kind = end->kind};
    if (end->kind == TOPO_END_NODE) {
        ret->node = end->id;
        ret->link = end->port;
        return true;
    }
    ret->peer = (struct topo_at){end->id, end->port};
    return end->kind == TOPO_END_SWITCH && (sw < end->id || (sw == end->id && port < end->port));
}

int fabric_make_cables(struct fabric *fabric)
{
    const struct topo_graph *graph = fabric->config.graph;
    size_t ends = (size_t)graph->switches * graph->ports;

    fabric->links.cable = calloc(ends, sizeof *fabric->links.cable);
    fabric->links.at = malloc(ends * sizeof *fabric->links.at);
    if (!fabric->links.cable || !fabric->links.at)
        return -ENOMEM;
    for (size_t i = 0; i < ends; i++)
        fabric->links.at[i] = TOPO_NONE;
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t p = 0; p < graph->ports; p++) {
            struct fabric_cable *cable = &fabric->links.cable[fabric->links.count];

            if (!fabric_cable_from(graph, s, p, cable))
                continue;
            fabric->links.at[s * graph->ports + p] = fabric->links.count;
            if (cable->kind == TOPO_END_SWITCH)
                fabric->links.at[cable->peer.sw * graph->ports + cable->peer.port] =
                    fabric->links.count;
            fabric->links.count++;
        }
    fabric->links.faults = calloc(2 * (size_t)fabric->links.count, sizeof(struct emu_faults *));
    fabric->links.slow = calloc(2 * (size_t)fabric->links.count, sizeof(struct emu_slow *));
    fabric->links.out = calloc(fabric->links.count + 1u, sizeof *fabric->links.out);
    fabric->links.log = calloc(fabric->workers, sizeof(struct emu_fault_log *));
    fabric->combine = calloc(fabric_combine_slots(graph), sizeof *fabric->combine);
    if (!fabric->combine || !fabric->links.faults || !fabric->links.slow || !fabric->links.out ||
        !fabric->links.log)
        return -ENOMEM;
    return fabric_make_crossings(fabric);
}

uint32_t fabric_cable_count(const struct fabric *fabric)
{
    return fabric->links.count;
}

const struct fabric_cable *fabric_cable(const struct fabric *fabric, uint32_t i)
{
    return &fabric->links.cable[i];
}

uint32_t fabric_cable_at(const struct fabric *fabric, uint32_t sw, uint32_t port)
{
    const struct topo_graph *graph = fabric->config.graph;

    return sw < graph->switches && port < graph->ports ? fabric->links.at[sw * graph->ports + port]
                                                       : TOPO_NONE;
}

uint32_t fabric_cable_of(const struct fabric *fabric, uint32_t node, uint32_t link)
{
    const struct topo_graph *graph = fabric->config.graph;
    const struct topo_link *at;

    if (node >= graph->nodes || link >= graph->node[node].links)
        return TOPO_NONE;
    at = &graph->node[node].link[link];
    return at->sw == TOPO_NONE ? TOPO_NONE : fabric_cable_at(fabric, at->sw, at->port);
}

const struct topo_graph *fabric_graph(const struct fabric *fabric)
{
    return fabric->config.graph;
}

/* --- faults ------------------------------------------------------------------------- */

bool fabric_cable_ends_here(const struct fabric *fabric, uint32_t i, bool out)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];

    if (!out)
        return fabric_has_switch(&fabric->config, cable->at.sw);
    if (cable->kind == TOPO_END_SWITCH)
        return fabric_has_switch(&fabric->config, cable->peer.sw);
    return fabric_has_node(&fabric->config, cable->node);
}

/* Return the receiving end of a direction of the cable, which must be on this host. */
static struct emu_rx *cable_rx(const struct fabric *fabric, uint32_t i, bool out)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];

    if (!out)
        return switch_rx(fabric->sw[cable->at.sw], cable->at.port);
    if (cable->kind == TOPO_END_SWITCH)
        return switch_rx(fabric->sw[cable->peer.sw], cable->peer.port);
    return engine_rx(fabric_engine(fabric, cable->node), cable->link);
}

struct emu_faults *fabric_faults_create(struct fabric *fabric, uint32_t worker,
                                        const struct emu_fault_rates *rates, uint64_t seed,
                                        uint32_t name)
{
    struct emu_fault_log **log = &fabric->links.log[worker];
    struct emu_faults *faults;

    if (!*log)
        *log = emu_fault_log_create();
    faults = *log ? malloc(sizeof *faults) : NULL;
    if (!faults)
        return NULL;
    emu_faults_init(faults, rates, emu_spread(fabric->config.seed + seed));
    faults->log = *log;
    faults->name = name;
    return faults;
}

bool fabric_hit_take(struct fabric *fabric, struct emu_fault_hit *ret)
{
    for (uint32_t w = 0; w < fabric->workers; w++)
        if (fabric->links.log[w] && emu_fault_log_take(fabric->links.log[w], ret))
            return true;
    return false;
}

uint64_t fabric_hits_missed(const struct fabric *fabric)
{
    uint64_t missed = 0;

    for (uint32_t w = 0; w < fabric->workers; w++)
        missed += fabric->links.log[w] ? emu_fault_log_missed(fabric->links.log[w]) : 0;
    return missed;
}

/* Install @faults at the receiving end. Errors: -ENOMEM. */
static int cable_fault(struct fabric *fabric, uint32_t i, bool out, struct emu_faults *faults)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];

    if (!out)
        return switch_faults(fabric->sw[cable->at.sw], cable->at.port, faults);
    if (cable->kind == TOPO_END_SWITCH)
        return switch_faults(fabric->sw[cable->peer.sw], cable->peer.port, faults);
    engine_faults(fabric_engine(fabric, cable->node), cable->link, faults);
    return 0;
}

bool fabric_can_fail(const struct fabric *fabric, uint32_t i)
{
    return fabric_has_engines(&fabric->config) || fabric->links.cable[i].kind == TOPO_END_SWITCH;
}

struct emu_faults *fabric_faults(struct fabric *fabric, uint32_t i, bool out)
{
    struct emu_faults **at = &fabric->links.faults[2 * i + out];
    static const struct emu_fault_rates none;
    const struct emu_fault_rates *rates = fabric->config.faults ? fabric->config.faults : &none;

    if (*at || !fabric_can_fail(fabric, i) || !fabric_cable_ends_here(fabric, i, out))
        return *at;
    *at = fabric_faults_create(fabric, cable_rx(fabric, i, out)->owner->worker->index, rates,
                               2 * i + out, 2 * i + out);
    if (!*at)
        return NULL;
    fabric->links.faulty = true;
    if (cable_fault(fabric, i, out, *at)) {
        free(*at);
        *at = NULL;
    }
    return *at;
}

const struct emu_faults *fabric_faults_of(const struct fabric *fabric, uint32_t i, bool out)
{
    return fabric->links.faults[2 * i + out];
}

bool fabric_is_faulty(const struct fabric *fabric)
{
    return fabric->links.faulty;
}

void fabric_expect_faults(struct fabric *fabric)
{
    fabric->links.faulty = true;
}

/* If a port is stuck, it cannot send test packets, so all of them count as lost. */
uint32_t fabric_cable_try(struct fabric *fabric, uint32_t i, uint32_t packets)
{
    uint32_t worst = 0;

    fabric_pause(fabric);
    for (uint32_t out = 0; out < 2; out++) {
        struct emu_faults *faults = fabric_faults(fabric, i, out);
        uint32_t errors = faults ? emu_faults_try(faults, packets) : 0;

        if (fabric_port_is_stuck(fabric, i, out))
            errors = packets;
        worst = errors > worst ? errors : worst;
    }
    fabric_resume(fabric);
    return worst;
}

int fabric_fault_cables(struct fabric *fabric)
{
    if (!fabric->config.faults || !fabric_has_links(fabric))
        return 0;
    for (uint32_t i = 0; i < 2 * fabric->links.count; i++)
        if (fabric_can_fail(fabric, i / 2) && fabric_cable_ends_here(fabric, i / 2, i % 2) &&
            !fabric_faults(fabric, i / 2, i % 2))
            return -ENOMEM;
    return 0;
}

void fabric_free_cables(struct fabric *fabric)
{
    for (uint32_t i = 0; fabric->links.faults && i < 2 * fabric->links.count; i++) {
        if (!fabric->links.faults[i])
            continue;
        emu_faults_drop(fabric->links.faults[i], &fabric->cache);
        free(fabric->links.faults[i]);
    }
    for (uint32_t w = 0; fabric->links.log && w < fabric->workers; w++)
        emu_fault_log_destroy(fabric->links.log[w]);
    free(fabric->links.log);
    free(fabric->links.out);
    fabric_free_ports(fabric);
    fabric_free_combine(fabric);
    fabric_free_drops(fabric);
    fabric_free_severed(fabric);
    free(fabric->links.faults);
    free(fabric->links.at);
    free(fabric->links.crossing);
    free(fabric->links.cable);
    if (fabric->links.routed != fabric->config.graph)
        topo_free((struct topo_graph *)fabric->links.routed);
}

/* --- links up and down -------------------------------------------------------------- */

bool fabric_has_links(const struct fabric *fabric)
{
    return switch_links_are_lossless(&fabric->config.profile);
}

/* Stop or restart the host link that sends to port @at of a switch here, if there is one. */
static void crossing_set(struct fabric *fabric, const struct topo_at *at, bool up, uint64_t now_ps)
{
    struct emu_replay *replay =
        fabric_crossing_replay(fabric, fabric_cable_at(fabric, at->sw, at->port));

    if (!replay)
        return;
    emu_replay_link(replay, up, now_ps);
    fabric_wake(fabric, replay->wire.owner, now_ps);
}

/*
 * Take the link at a port of a switch up or down. Returns how many packets were lost on the wire.
 */
static uint32_t end_set(struct fabric *fabric, const struct topo_at *at, bool up, uint64_t now_ps)
{
    uint32_t hit;

    if (!fabric->sw[at->sw])
        return 0;
    crossing_set(fabric, at, up, now_ps);
    hit = switch_link(fabric->sw[at->sw], at->port, up, now_ps);
    fabric_wake(fabric, switch_emu_dev(fabric->sw[at->sw]), now_ps);
    return hit;
}

static uint32_t node_end_set(struct fabric *fabric, const struct fabric_cable *cable, bool up,
                             uint64_t now_ps)
{
    struct engine *engine = fabric_engine(fabric, cable->node);
    uint32_t hit;

    if (!engine)
        return 0;
    hit = engine_link_set(engine, cable->link, up, fabric_soon_ps(fabric, now_ps));
    fabric_wake(fabric, engine_emu_dev(engine), now_ps);
    return hit;
}

int fabric_link_set(struct fabric *fabric, uint32_t i, bool up, uint32_t fault, uint64_t now_ps,
                    uint32_t *hit)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];
    struct emu_faults *faults[2]; /* NULL: the receiving end is on another host */

    if (!fabric_can_fail(fabric, i) || !switch_supports_link_down(&fabric->config.profile))
        return -ENOTSUP; /* only a wrong message from another host can cause this */
    for (uint32_t out = 0; out < 2; out++) {
        faults[out] = fabric_faults(fabric, i, out);
        if (!faults[out] && fabric_cable_ends_here(fabric, i, out))
            return -ENOMEM;
    }
    for (uint32_t out = 0; out < 2; out++)
        if (faults[out] &&
            fabric_has_links(fabric)) { /* otherwise nothing is lost: ports only stop sending */
            faults[out]->down = !up;
            faults[out]->link_down = fault;
        }
    fabric->links.out[i] = !up;
    *hit = end_set(fabric, &cable->at, up, now_ps);
    *hit += cable->kind == TOPO_END_SWITCH ? end_set(fabric, &cable->peer, up, now_ps)
                                           : node_end_set(fabric, cable, up, now_ps);
    return 0;
}

bool fabric_link_is_out(const struct fabric *fabric, uint32_t i)
{
    return fabric->links.out[i];
}

void fabric_link_publish(const struct fabric *fabric, uint32_t i, bool up, uint32_t fault)
{
    if (fabric->mirror)
        fabric->mirror->link(fabric->mirror->ctx, i, up, fault);
}

uint64_t fabric_traps(const struct fabric *fabric, uint32_t sw, uint32_t *to)
{
    const struct switch_counts *counts;

    *to = TOPO_NONE;
    if (!fabric->sw[sw])
        return 0;
    counts = switch_counts(fabric->sw[sw]);
    *to = atomic_load_explicit(&counts->trapped_dst, memory_order_relaxed);
    return emu_count_read(&counts->trapped);
}

const struct fabric_config *fabric_config_of(const struct fabric *fabric)
{
    return &fabric->config;
}

bool fabric_isolates(const struct fabric *fabric)
{
    return fabric->config.profile.trap == EMU_TRAP_ISOLATE;
}

void fabric_node_no_link(struct fabric *fabric, uint32_t node, uint64_t now_ps)
{
    struct engine *engine = fabric_engine(fabric, node);

    if (engine) {
        engine_give_up(engine, fabric_soon_ps(fabric, now_ps));
        fabric_wake(fabric, engine_emu_dev(engine), now_ps);
    }
    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++)
        if (n != node && fabric_engine(fabric, n))
            engine_cut(fabric_engine(fabric, n), node, false);
}

/* Return whether any link of @src begins a route to @dst. */
static bool node_reaches(const struct topo_graph *graph, uint32_t src, uint32_t dst)
{
    for (uint32_t l = 0; l < graph->node[src].links; l++) {
        uint32_t sw = graph->node[src].link[l].sw;

        if (sw != TOPO_NONE && emu_ports_any(topo_route_ports(&graph->sw[sw].route, dst)))
            return true;
    }
    return false;
}

static void node_cut_off(struct fabric *fabric, uint32_t src)
{
    const struct topo_graph *graph = fabric->links.routed;

    if (!fabric_engine(fabric, src))
        return;
    fabric_pause(fabric);
    for (uint32_t dst = 0; dst < graph->nodes; dst++)
        if (dst != src && !node_reaches(graph, src, dst))
            engine_cut(fabric_engine(fabric, src), dst, false);
    fabric_resume(fabric);
}

bool fabric_cut_off(struct fabric *fabric, bool partitioned)
{
    bool treeless = false;

    if (!fabric_has_engines(&fabric->config))
        return false;
    if (fabric->mirror)
        fabric->mirror->cut_off(fabric->mirror->ctx, partitioned);
    for (uint32_t n = 0; partitioned && n < fabric->config.graph->nodes; n++)
        node_cut_off(fabric, n);
    fabric_pause(fabric);
    for (uint32_t g = 0; g < fabric->slots; g++) {
        const struct fabric_group *group = fabric->group[g];

        if (!group || !group->treeless || fabric_group_number(fabric, group))
            continue;
        treeless = true;
        for (uint32_t i = 0; group->engines && i < group->engines->count; i++)
            if (group->engines->at[i].engine) /* NULL: on another host */
                engine_cut(group->engines->at[i].engine, group->id, true);
    }
    fabric_resume(fabric);
    return partitioned || treeless;
}

/* Return whether a switch has forwarded all segments that rerouting has put into it at port @at. */
static bool end_is_clear(const struct fabric *fabric, const struct topo_at *at)
{
    return !fabric->sw[at->sw] || switch_is_clear(fabric->sw[at->sw], at->port);
}

/*
 * Return whether the host link of a crossing holds no segments for the switch here. They must
 * arrive before the link comes up. Some may have been sent back by the remote switch and have to
 * travel upwards, which the switch here permits only while the link is down.
 */
static bool crossing_is_clear(const struct fabric *fabric, uint32_t i)
{
    const struct emu_replay *replay = fabric_crossing_replay(fabric, i);

    return !replay || emu_replay_is_empty(replay);
}

bool fabric_link_quiet(const struct fabric *fabric, uint32_t i)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];

    for (uint32_t out = 0; fabric_has_links(fabric) && out < 2; out++)
        if (fabric_cable_ends_here(fabric, i, out) &&
            (emu_rx_next_ps(cable_rx(fabric, i, out)) != EMU_NEVER ||
             (fabric->links.faults[2 * i + out] && fabric->links.faults[2 * i + out]->held)))
            return false;
    if (!fabric_can_reroute_in_flight(fabric) || cable->kind != TOPO_END_SWITCH)
        return true;
    return end_is_clear(fabric, &cable->at) && end_is_clear(fabric, &cable->peer) &&
           crossing_is_clear(fabric, i);
}

bool fabric_can_reroute(const struct fabric *fabric)
{
    return switch_supports_link_down(&fabric->config.profile);
}

/* --- routing tables ----------------------------------------------------------------- */

/*
 * Make a graph of the network without the cables for which @routed is false. Parameters: as
 * fabric_reroute().
 */
static int graph_without(struct fabric *fabric, const bool *routed, const struct topo_graph **ret,
                         uint64_t *partitioned)
{
    struct topo_at *cut = calloc(fabric->links.count + 1u, sizeof *cut);
    struct topo_graph *graph = NULL;
    uint32_t count = 0;
    int err = cut ? 0 : -ENOMEM;

    *partitioned = 0;
    for (uint32_t i = 0; cut && i < fabric->links.count; i++)
        if (!routed[i])
            cut[count++] = fabric->links.cable[i].at;
    if (!err && count)
        err = topo_without(&graph, fabric->config.graph, cut, count, partitioned);
    *ret = count ? graph : fabric->config.graph;
    free(cut);
    return err;
}

bool fabric_cable_is_routed(const struct fabric *fabric, uint32_t i)
{
    const struct topo_at *at = &fabric->links.cable[i].at;

    return fabric->links.routed->sw[at->sw].end[at->port].kind != TOPO_END_NONE;
}

bool fabric_reaches(const struct fabric *fabric, uint32_t from, uint32_t to)
{
    return node_reaches(fabric->links.routed, from, to) && !fabric_uses_severed(fabric, from, to);
}

/* Let all other hosts call fabric_reroute() for the same cables. Errors: -ENOMEM. */
static int mirror_reroute(const struct fabric *fabric, const bool *routed)
{
    uint32_t *out, count = 0;

    if (!fabric->mirror)
        return 0;
    out = malloc(fabric->links.count * sizeof *out + 1u);
    if (!out)
        return -ENOMEM;
    for (uint32_t i = 0; i < fabric->links.count; i++)
        if (!routed[i])
            out[count++] = i;
    fabric->mirror->reroute(fabric->mirror->ctx, out, count);
    free(out);
    return 0;
}

int fabric_reroute(struct fabric *fabric, const bool *routed, uint64_t now_ps,
                   uint64_t *partitioned, void (*treeless)(void *ctx, uint32_t group), void *ctx)
{
    const struct topo_graph *old = fabric->links.routed, *next;
    int err = graph_without(fabric, routed, &next, partitioned);

    if (err)
        return err;
    err = mirror_reroute(fabric, routed);
    if (err) {
        if (next != fabric->config.graph)
            topo_free((struct topo_graph *)next);
        return err;
    }
    for (uint32_t s = 0; s < next->switches; s++)
        if (fabric->sw[s])
            switch_reroute(fabric->sw[s], &next->sw[s].route);
    fabric->links.routed = next;
    fabric_replan(fabric, now_ps, treeless, ctx);
    emu_rcu_wait();
    if (old != fabric->config.graph && old != next)
        topo_free((struct topo_graph *)old);
    return 0;
}
