/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manager.c - publishes new tables after links have changed, reroutes segments in flight, handles
 * partitioned nodes, and schedules all work of the manager. links.c brings links up and takes them
 * out; scan.c has the periodic scans.
 *
 * On several hosts there is one manager, at the coordinator. It has the state of all links, queries
 * other hosts about the ends of links there, and lets these hosts execute its decisions
 * (apps/fabric/hosts.h). It never calls other hosts while workers are held, because workers carry
 * the calls.
 */
#include "apps/manager/manager.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/manager/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/util/clock.h"
#include "emu/util/count.h"

struct manager_config manager_defaults(void)
{
    return (struct manager_config){.reroute = true,
                                   .reaction_ps = 50000000,
                                   .step_ps = 10000000,
                                   .test_packets = 10000,
                                   .again_ps = 1000000000,
                                   .no_link_ps = 1000000000000,
                                   .scan_ps = 100000000000,
                                   .stuck_ps = 1000000000000,
                                   .in_flight_ps = 20000000,
                                   .in_flight_last_ps = 20480000000,
                                   .errors_inside = 10000,
                                   .errors_node = 100000};
}

void manager_notify(struct manager *m, struct manager_event event)
{
    event.at_ps = m->now_ps;
    event.links_out = m->out;
    if (m->config.event)
        m->config.event(m->config.ctx, &event);
}

uint64_t manager_device_ps(const struct manager *m)
{
    return fabric_is_virtual(m->fabric) ? m->now_ps : fabric_now_ps(m->fabric);
}

void manager_tables_plan(struct manager *m)
{
    if (!m->config.reroute || m->tables_ps != EMU_NEVER)
        return;
    m->since_ps = m->now_ps;
    m->tables_ps = m->now_ps + m->config.reaction_ps;
}

void manager_in_flight_plan(struct manager *m, uint64_t gap_ps)
{
    m->gap_ps = gap_ps;
    m->in_flight_ps = m->out && fabric_needs_replans(m->fabric) ? m->now_ps + gap_ps : EMU_NEVER;
}

/* --- rerouting in flight -------------------------------------------------------------- */

static void group_treeless(void *ctx, uint32_t group)
{
    manager_notify(ctx, (struct manager_event){.what = MANAGER_EVENT_TREELESS,
                                               .cable = TOPO_NONE,
                                               .group = group});
}

/* Reroute segments in flight by the tables in force, unless new tables are due. */
static void in_flight_step(struct manager *m)
{
    uint64_t longer_ps = 2 * m->gap_ps;
    uint64_t rerouted = 0;
    bool barred = false;

    for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++)
        barred = barred || m->link[i].barred;
    fabric_assume_reachable(m->fabric, barred);
    if (m->tables_ps == EMU_NEVER) {
        fabric_pause(m->fabric);
        for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++)
            if (m->link[i].state != MANAGER_UP)
                rerouted += fabric_reroute_in_flight(m->fabric, i, manager_device_ps(m));
        fabric_resume(m->fabric);
        emu_sum(&rerouted, fabric_reroute_in_flight_remote(m->fabric));
    }
    if (fabric_replans_pending(m->fabric))
        fabric_replan(m->fabric, manager_device_ps(m), group_treeless, m);
    emu_sum(&m->rerouted, rerouted);
    if (rerouted || fabric_replans_pending(m->fabric) || m->tables_ps != EMU_NEVER)
        longer_ps = m->config.in_flight_ps;
    manager_in_flight_plan(m, longer_ps < m->config.in_flight_last_ps
                                  ? longer_ps
                                  : m->config.in_flight_last_ps);
}

/* --- partitioned nodes ---------------------------------------------------------------- */

/*
 * Postpone the end of a wait for links, *@at_ps, if a link is in its bring-up or new tables are
 * due: a late manager may find in the same step that the wait has ended and that the signal of a
 * link has returned. Returns whether it was postponed.
 */
static bool postpone(const struct manager *m, uint64_t *at_ps)
{
    bool coming = m->tables_ps != EMU_NEVER;

    for (uint32_t i = 0; !coming && i < fabric_cable_count(m->fabric); i++)
        coming = manager_link_comes_up(m, i);
    if (coming)
        *at_ps = m->now_ps + m->config.step_ps;
    return coming;
}

static void partitioned_report(struct manager *m)
{
    manager_notify(m, (struct manager_event){.what = MANAGER_EVENT_PARTITIONED,
                                             .cable = TOPO_NONE,
                                             .partitioned = m->partitioned});
}

/* Drop segments between partitioned pairs, repeatedly, because processes may post more of them. */
static void partitioned_step(struct manager *m)
{
    if (postpone(m, &m->partitioned_ps))
        return;
    m->drop_unreachable = true;
    fabric_drop_unreachable(m->fabric, true);
    partitioned_report(m);
    m->partitioned_ps = m->now_ps + m->config.no_link_ps;
}

/*
 * If new tables leave @partitioned pairs without a route, plan to drop their segments after
 * config.no_link_ps. With acknowledgments, adapters give up their packets instead.
 */
static void partitioned_plan(struct manager *m, uint64_t partitioned)
{
    m->partitioned = partitioned;
    if (!partitioned) {
        m->partitioned_ps = EMU_NEVER;
        m->drop_unreachable = false;
        fabric_drop_unreachable(m->fabric, false);
    } else if (m->partitioned_ps == EMU_NEVER && m->config.no_link_ps != EMU_NEVER &&
               fabric_can_reroute_in_flight(m->fabric)) {
        m->partitioned_ps = m->now_ps + m->config.no_link_ps;
    }
}

/* --- tables ------------------------------------------------------------------------- */

/*
 * Plan the next fabric_cut_off(). Until then adapters retry, because links may be in use again
 * soon.
 */
static void cut_off_plan(struct manager *m)
{
    bool waits = m->out && m->config.no_link_ps != EMU_NEVER;

    m->cut_off_ps = waits ? m->now_ps + m->config.no_link_ps : EMU_NEVER;
}

static void cut_off_step(struct manager *m)
{
    if (postpone(m, &m->cut_off_ps))
        return;
    m->cut_off_ps = EMU_NEVER;
    if (fabric_cut_off(m->fabric, m->partitioned))
        /* repeat it, because a destination may be reachable for a while in between */
        cut_off_plan(m);
}

static int tables_make(struct manager *m)
{
    uint64_t partitioned;
    int err;

    if (m->drop_unreachable) /* also report the segments that were dropped since the last report */
        partitioned_report(m);
    err =
        fabric_reroute(m->fabric, m->routed, manager_device_ps(m), &partitioned, group_treeless, m);
    if (err) {
        m->tables_ps = m->now_ps + m->config.again_ps;
        return err;
    }
    m->tables_ps = EMU_NEVER;
    partitioned_plan(m, partitioned);
    cut_off_plan(m);
    manager_notify(m, (struct manager_event){.what = MANAGER_EVENT_TABLES,
                                             .cable = TOPO_NONE,
                                             .took_ps = m->now_ps - m->since_ps,
                                             .partitioned = partitioned});
    return 0;
}

/* --- the manager -------------------------------------------------------------------- */

static int remote_create(struct manager *m)
{
    uint32_t directions = 2 * fabric_cable_count(m->fabric),
             switches = fabric_graph(m->fabric)->switches;
    struct fabric_scan_result *remote = &m->remote;

    if (!fabric_has_remote(m->fabric))
        return 0;
    remote->packets = calloc(directions + 1u, sizeof *remote->packets);
    remote->errors = calloc(directions + 1u, sizeof *remote->errors);
    remote->port = calloc(directions + 1u, sizeof *remote->port);
    remote->trapped = calloc(switches, sizeof *remote->trapped);
    remote->trapped_to = calloc(switches, sizeof *remote->trapped_to);
    m->test = calloc(directions / 2 + 1u, sizeof *m->test);
    return m->test && remote->packets && remote->errors && remote->port && remote->trapped &&
                   remote->trapped_to
               ? 0
               : -ENOMEM;
}

int manager_create(struct manager **ret, struct fabric *fabric, const struct manager_config *config)
{
    uint32_t cables = fabric_cable_count(fabric);
    struct manager *m;

    if (!fabric_can_reroute(fabric))
        return -ENOTSUP;
    m = calloc(1, sizeof *m);
    if (!m)
        return -ENOMEM;
    m->fabric = fabric;
    m->config = *config;
    m->links_ps = m->tables_ps = m->no_link_ps = m->in_flight_ps = m->partitioned_ps =
        m->cut_off_ps = EMU_NEVER;
    m->nodes = fabric_graph(fabric)->nodes;
    m->no_link = malloc(m->nodes * sizeof *m->no_link);
    m->trapped = calloc(fabric_graph(fabric)->switches, sizeof *m->trapped);
    m->scan_ps = config->scan_ps;
    m->link = calloc(cables, sizeof *m->link);
    m->routed = calloc(cables, sizeof *m->routed);
    if (remote_create(m) || !m->link || !m->routed || !m->no_link || !m->trapped) {
        manager_destroy(m);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < cables; i++) {
        m->link[i] = (struct link){.state = MANAGER_UP,
                                   .due_ps = EMU_NEVER,
                                   .peer = fabric_cable(fabric, i)->peer};
        m->routed[i] = true;
        manager_link_begin(m, i);
    }
    for (uint32_t n = 0; n < m->nodes; n++)
        m->no_link[n] = EMU_NEVER;
    *ret = m;
    return 0;
}

void manager_destroy(struct manager *m)
{
    if (!m)
        return;
    free(m->test);
    free(m->remote.packets);
    free(m->remote.errors);
    free(m->remote.port);
    free(m->remote.trapped);
    free(m->remote.trapped_to);
    free(m->no_link);
    free(m->trapped);
    free(m->routed);
    free(m->link);
    free(m);
}

int manager_signal(struct manager *m, uint32_t i, bool signal, uint32_t fault, uint64_t now_ps,
                   uint32_t *hit)
{
    struct link *link = &m->link[i];
    int err;

    m->now_ps = now_ps;
    *hit = 0;
    if (link->severed)
        link->link_down = !signal;
    if (signal == (link->state != MANAGER_LOST) || link->severed)
        return 0;
    if (signal) {
        link->signal_ps = now_ps;
        manager_link_plan(m, link, MANAGER_BEGINS, m->config.step_ps);
        return 0;
    }
    err = link->state == MANAGER_UP ? manager_link_out(m, i, fault, hit) : 0;
    if (err)
        return err;
    link->state = MANAGER_LOST;
    link->isolated = link->barred = false;
    link->due_ps = EMU_NEVER;
    manager_notify(m, (struct manager_event){.what = MANAGER_EVENT_LOST, .cable = i});
    return 0;
}

int manager_sever(struct manager *m, uint32_t i, uint64_t now_ps)
{
    bool link_down = m->link[i].state == MANAGER_LOST;
    uint32_t hit;
    int err;

    if (m->link[i].severed)
        return 0;
    err = manager_signal(m, i, false, 0, now_ps, &hit);
    m->link[i].severed = !err;
    m->link[i].link_down = link_down;
    return err;
}

void manager_rejoin(struct manager *m, uint32_t i, uint64_t now_ps)
{
    bool mends = m->link[i].severed;
    uint32_t hit;

    m->link[i].severed = false;
    if (mends && !m->link[i].link_down)
        manager_signal(m, i, true, 0, now_ps, &hit); /* cannot fail: it allocates nothing */
}

/*
 * The counters of the devices for which @is returns true restart at 0, so the counts of the last
 * scan are set to 0, too.
 */
void manager_resync(struct manager *m, bool (*is)(void *ctx, uint32_t sw, uint32_t node), void *ctx)
{
    for (uint32_t s = 0; m->remote.trapped && s < fabric_graph(m->fabric)->switches; s++)
        if (is(ctx, s, TOPO_NONE))
            m->remote.trapped[s] = m->trapped[s] = 0;
    for (uint32_t i = 0; m->remote.packets && i < fabric_cable_count(m->fabric); i++) {
        const struct fabric_cable *cable = fabric_cable(m->fabric, i);
        bool in = is(ctx, cable->at.sw, TOPO_NONE);
        bool out = cable->kind == TOPO_END_SWITCH ? is(ctx, cable->peer.sw, TOPO_NONE)
                                                  : is(ctx, TOPO_NONE, cable->node);

        if (in)
            m->remote.packets[2 * i] = m->remote.errors[2 * i] = 0;
        if (out)
            m->remote.packets[2 * i + 1] = m->remote.errors[2 * i + 1] = 0;
        if (in || out)
            manager_link_begin(m, i);
    }
}

void manager_plug(struct manager *m, uint32_t i, const struct topo_at *peer)
{
    m->link[i].peer = *peer;
}

uint64_t manager_due_ps(const struct manager *m)
{
    uint64_t at_ps = m->links_ps < m->tables_ps ? m->links_ps : m->tables_ps;

    at_ps = m->no_link_ps < at_ps ? m->no_link_ps : at_ps;
    at_ps = m->in_flight_ps < at_ps ? m->in_flight_ps : at_ps;
    at_ps = m->partitioned_ps < at_ps ? m->partitioned_ps : at_ps;
    at_ps = m->cut_off_ps < at_ps ? m->cut_off_ps : at_ps;
    return at_ps < m->scan_ps || !fabric_is_faulty(m->fabric) ? at_ps : m->scan_ps;
}

bool manager_is_busy(const struct manager *m)
{
    return m->links_ps != EMU_NEVER || m->tables_ps != EMU_NEVER;
}

int manager_step(struct manager *m, uint64_t now_ps)
{
    int err;

    m->now_ps = now_ps;
    if (m->links_ps <= now_ps)
        manager_links_step(m);
    if (m->no_link_ps <= now_ps)
        manager_nodes_step(m);
    if (m->cut_off_ps <= now_ps)
        cut_off_step(m);
    if (m->scan_ps <= now_ps && fabric_is_faulty(m->fabric))
        manager_scan(m);
    err = m->tables_ps <= now_ps ? tables_make(m) : 0;
    if (m->partitioned_ps <= now_ps)
        partitioned_step(m);
    if (m->in_flight_ps <= now_ps)
        in_flight_step(m);
    return err;
}

uint64_t manager_link_outs(const struct manager *m, uint32_t cable)
{
    return m->link[cable].outs;
}

enum manager_link manager_link_state(const struct manager *m, uint32_t cable)
{
    return m->link[cable].state;
}

uint64_t manager_rerouted(const struct manager *m)
{
    return m->rerouted;
}

uint32_t manager_links_out(const struct manager *m)
{
    return m->out;
}
