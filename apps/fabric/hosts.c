/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.c - a network on several hosts: the devices and cables on this host, the cables to other
 * hosts, and the cables to lost hosts.
 *
 * A *crossing* is a cable with one end on this host and one on another host. Its end here is joined
 * to a host link instead of the remote device, and the device here works as on any cable. Only an
 * audit has to distinguish crossings (emu_rx.beyond). It recounts credits, and half of the credit
 * counters of a crossing are on the other host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/internal.h"
#include "emu/fault/fault.h"
#include "emu/util/bits.h"

uint32_t fabric_switch_host(const struct fabric_config *config, uint32_t sw)
{
    return config->hosts ? config->hosts->of[sw] : 0;
}

uint32_t fabric_node_host(const struct fabric_config *config, uint32_t node)
{
    return fabric_switch_host(config, topo_first_link(config->graph, node)->sw);
}

bool fabric_node_is_here(const struct fabric *fabric, uint32_t node)
{
    return fabric_has_node(&fabric->config, node);
}

uint32_t fabric_own_switches(const struct fabric_config *config)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < config->graph->switches; s++)
        count += fabric_has_switch(config, s);
    return count;
}

uint32_t fabric_own_nodes(const struct fabric_config *config)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < config->graph->nodes; n++)
        count += fabric_has_node(config, n);
    return count;
}

/* Find the hosts of the first end (@near) and of the second end (@far) of a cable. */
static void cable_hosts(const struct fabric_config *config, const struct fabric_cable *cable,
                        uint32_t *near, uint32_t *far)
{
    *near = fabric_switch_host(config, cable->at.sw);
    *far = cable->kind == TOPO_END_SWITCH ? fabric_switch_host(config, cable->peer.sw)
                                          : fabric_node_host(config, cable->node);
}

uint32_t fabric_direction_host(const struct fabric *fabric, uint32_t direction, bool sends)
{
    uint32_t near, far;

    cable_hosts(&fabric->config, &fabric->links.cable[direction / 2], &near, &far);
    return (direction % 2 != 0) == sends ? near : far;
}

/*
 * Return the host of the remote end of a crossing; TOPO_NONE: the cable is no crossing of this
 * host.
 */
static uint32_t crossing_host(const struct fabric_config *config, const struct fabric_cable *cable)
{
    uint32_t near, far;

    cable_hosts(config, cable, &near, &far);
    if (near == far || (near != config->hosts->self && far != config->hosts->self))
        return TOPO_NONE;
    return near == config->hosts->self ? far : near;
}

/*
 * Count the cables between this host and @host. If @host is TOPO_NONE, count the cables between
 * this host and all others; if @all is set, count all cables between any two hosts.
 */
static uint32_t crossings_count(const struct fabric_config *config, uint32_t host, bool all)
{
    const struct topo_graph *graph = config->graph;
    struct fabric_cable cable;
    uint32_t near, far, count = 0;

    for (uint32_t s = 0; config->hosts && s < graph->switches; s++)
        for (uint32_t p = 0; p < graph->ports; p++) {
            if (!fabric_cable_from(graph, s, p, &cable))
                continue;
            cable_hosts(config, &cable, &near, &far);
            count += near != far &&
                     (all || ((near == config->hosts->self || far == config->hosts->self) &&
                              (host == TOPO_NONE || near == host || far == host)));
        }
    return count;
}

uint32_t fabric_crossings(const struct fabric_config *config, uint32_t host)
{
    return crossings_count(config, host, false);
}

uint32_t fabric_crossings_all(const struct fabric_config *config)
{
    return crossings_count(config, TOPO_NONE, true);
}

uint32_t fabric_crossings_by(const struct fabric *fabric, uint32_t a, uint32_t b, uint32_t number,
                             uint32_t of, bool *noted)
{
    uint32_t with = 0, count = 0;

    for (uint32_t i = 0; fabric->config.hosts && i < fabric->links.count; i++) {
        uint32_t near, far;

        cable_hosts(&fabric->config, &fabric->links.cable[i], &near, &far);
        if (near == far || (near != a && far != a) ||
            (b != TOPO_NONE && ((near != b && far != b) || with++ % of != number)))
            continue;
        noted[i] = true;
        count++;
    }
    return count;
}

uint32_t fabric_own_cables(const struct fabric *fabric, uint32_t *crossing)
{
    const struct fabric_config *config = &fabric->config;
    uint32_t count = 0;

    *crossing = 0;
    for (uint32_t i = 0; i < fabric->links.count; i++) {
        const struct fabric_cable *cable = &fabric->links.cable[i];

        if (!fabric_has_switch(config, cable->at.sw))
            continue;
        count++;
        *crossing += config->hosts && crossing_host(config, cable) != TOPO_NONE;
    }
    return count;
}

int fabric_make_crossings(struct fabric *fabric)
{
    const struct fabric_config *config = &fabric->config;
    uint32_t with[TOPO_HOSTS_MAX] = {0};

    if (!config->hosts)
        return 0;
    fabric->links.crossing =
        calloc(fabric_crossings(config, TOPO_NONE) + 1u, sizeof *fabric->links.crossing);
    if (!fabric->links.crossing)
        return -ENOMEM;
    for (uint32_t i = 0; i < fabric->links.count; i++) {
        uint32_t host = crossing_host(config, &fabric->links.cable[i]);

        if (host != TOPO_NONE)
            fabric->links.crossing[fabric->links.crossings++] =
                (struct fabric_crossing){.cable = i, .host = host, .number = with[host]++};
    }
    return 0;
}

/* --- host links --------------------------------------------------------------------- */

uint32_t fabric_host_links(const struct fabric_config *config, uint32_t w, uint32_t workers)
{
    uint32_t devices = config->hosts && config->hosts->ops ? config->hosts->ops->devices : 0;

    return devices / workers + (w < devices % workers);
}

int fabric_make_host_links(struct fabric *fabric)
{
    const struct fabric_hosts *hosts = fabric->config.hosts;
    int err = 0;

    if (!hosts || !hosts->ops)
        return 0;
    fabric->has_host_links = true;
    for (uint32_t i = 0; !err && i < hosts->ops->devices; i++)
        err = hosts->ops->create(hosts->ctx, i, fabric->worker[i % fabric->workers]);
    return err;
}

void fabric_free_host_links(struct fabric *fabric)
{
    if (fabric->has_host_links && fabric->config.hosts->ops->destroy)
        fabric->config.hosts->ops->destroy(fabric->config.hosts->ctx);
}

uint32_t fabric_crossing_segments(const struct fabric_config *config)
{
    const struct fabric_crossing_ops *ops = config->hosts ? config->hosts->ops : NULL;

    if (fabric_has_engines(config))
        return emu_vc_ring(&config->profile);
    return emu_profile_credits(&config->profile) + (ops ? ops->depth : 0);
}

static struct fabric_crossing_end end_at_switch(const struct fabric *fabric,
                                                const struct topo_at *at)
{
    struct switch_dev *sw = fabric->sw[at->sw];

    return (struct fabric_crossing_end){.dev = switch_emu_dev(sw),
                                        .tx = switch_tx(sw, at->port),
                                        .rx = switch_rx(sw, at->port),
                                        .port = (uint8_t)at->port};
}

/* @beyond: receives the number of the remote device; nodes are numbered after switches. */
static struct fabric_crossing_end end_here(const struct fabric *fabric,
                                           const struct fabric_cable *cable, uint32_t *beyond)
{
    uint32_t switches = fabric->config.graph->switches;
    struct engine *engine;

    if (fabric->sw[cable->at.sw]) {
        *beyond = cable->kind == TOPO_END_SWITCH ? cable->peer.sw : switches + cable->node;
        return end_at_switch(fabric, &cable->at);
    }
    *beyond = cable->at.sw;
    if (cable->kind == TOPO_END_SWITCH)
        return end_at_switch(fabric, &cable->peer);
    engine = fabric_engine(fabric, cable->node);
    return (struct fabric_crossing_end){.dev = engine_emu_dev(engine),
                                        .tx = engine_tx(engine, cable->link),
                                        .rx = engine_rx(engine, cable->link),
                                        .port = (uint8_t)cable->link};
}

/*
 * Add an intake to the end of a crossing if the crossing has link-level retry. The host links on
 * both hosts then have the replay buffers. Faults take effect in the intake, so no entry is lost
 * between the hosts. In simulated time crossings have neither faults nor retry.
 */
static int end_retry(const struct fabric *fabric, const struct fabric_crossing *crossing,
                     struct fabric_crossing_end *end)
{
    const struct fabric_cable *cable = &fabric->links.cable[crossing->cable];
    const struct topo_at *at = fabric->sw[cable->at.sw] ? &cable->at : &cable->peer;

    if (!fabric_retries(fabric) || fabric_is_virtual(fabric) || cable->kind != TOPO_END_SWITCH)
        return 0;
    end->intake = switch_retry_end(fabric->sw[at->sw], at->port);
    return end->intake ? 0 : -ENOMEM;
}

static int plug_crossing(struct fabric *fabric, const struct fabric_crossing *crossing)
{
    const struct fabric_hosts *hosts = fabric->config.hosts;
    const struct emu_profile *profile = &fabric->config.profile;
    uint32_t beyond, credits = fabric_cable_credits(&fabric->config);
    struct fabric_crossing_end end =
        end_here(fabric, &fabric->links.cable[crossing->cable], &beyond);
    int err = end_retry(fabric, crossing, &end);

    if (!err)
        err = hosts->ops->join(hosts->ctx, crossing, &end, credits, profile);
    if (!err)
        end.rx->beyond = 1 + beyond;
    return err;
}

int fabric_plug_crossings(struct fabric *fabric)
{
    int err = 0;

    for (uint32_t i = 0; !err && i < fabric->links.crossings; i++)
        err = plug_crossing(fabric, &fabric->links.crossing[i]);
    return err;
}

/* --- queries to other hosts ------------------------------------------------------------ */

bool fabric_has_remote(const struct fabric *fabric)
{
    return fabric->mirror;
}

void fabric_node_no_link_publish(const struct fabric *fabric, uint32_t node)
{
    if (fabric->mirror)
        fabric->mirror->no_link(fabric->mirror->ctx, node);
}

static const struct fabric_crossing *crossing_of(const struct fabric *fabric, uint32_t cable)
{
    for (uint32_t i = 0; i < fabric->links.crossings; i++)
        if (fabric->links.crossing[i].cable == cable)
            return &fabric->links.crossing[i];
    return NULL;
}

static struct emu_replay *replay_of(const struct fabric *fabric,
                                    const struct fabric_crossing *crossing)
{
    const struct fabric_hosts *hosts = fabric->config.hosts;

    return hosts->ops->replay ? hosts->ops->replay(hosts->ctx, crossing) : NULL;
}

struct emu_replay *fabric_crossing_replay(const struct fabric *fabric, uint32_t cable)
{
    const struct fabric_crossing *crossing = crossing_of(fabric, cable);

    return crossing ? replay_of(fabric, crossing) : NULL;
}

void fabric_crossings_count(const struct fabric *fabric, struct switch_retries *sum)
{
    for (uint32_t i = 0; i < fabric->links.crossings; i++) {
        const struct emu_replay *replay = replay_of(fabric, &fabric->links.crossing[i]);

        if (!replay)
            continue;
#define REPLAY(name) sum->name += emu_count_read(&replay->counts.name);
#include "switch/common/retries.def"
    }
}

void fabric_link_past(const struct fabric *fabric, uint32_t cable, struct fabric_past *ret)
{
    const struct fabric_crossing *crossing = crossing_of(fabric, cable);
    const struct fabric_hosts *hosts = fabric->config.hosts;

    *ret = (struct fabric_past){.quiet = fabric_link_quiet(fabric, cable),
                                .crosses = crossing != NULL};
    if (crossing && hosts->ops->passed &&
        !hosts->ops->passed(hosts->ctx, crossing, &ret->sent, &ret->arrived))
        ret->quiet = false;
}

int fabric_test_remote(struct fabric *fabric, struct fabric_test *tests, uint32_t count,
                       uint32_t packets)
{
    struct fabric_past *here;

    for (uint32_t i = 0; i < count; i++) {
        tests[i].errors = 0;
        tests[i].quiet = true;
    }
    if (!fabric->mirror || !count)
        return 0;
    here = calloc(count, sizeof *here);
    if (!here)
        return -ENOMEM;
    fabric_pause(fabric);
    for (uint32_t i = 0; i < count; i++)
        fabric_link_past(fabric, tests[i].cable, &here[i]);
    fabric_resume(fabric);
    fabric->mirror->test(fabric->mirror->ctx, tests, here, count, packets);
    free(here);
    return 0;
}

void fabric_scan_remote(const struct fabric *fabric, struct fabric_scan_result *ret)
{
    memset(ret->port, 0, 2 * (size_t)fabric->links.count * sizeof *ret->port);
    fabric->mirror->scan(fabric->mirror->ctx, ret);
}

void fabric_scan(struct fabric *fabric, struct fabric_scan_result *ret)
{
    fabric_pause(fabric);
    for (uint32_t w = 0; w < 2 * fabric->links.count; w++) {
        const struct emu_faults *faults = fabric->links.faults[w];

        ret->packets[w] = faults ? emu_faults_seen(faults) : 0;
        ret->errors[w] = faults ? emu_faults_errors(faults) : 0;
        if (!fabric->links.out[w / 2] &&
            fabric_can_fail(fabric, w / 2)) /* only the sending end is sampled */
            ret->port[w] = fabric_port_sample(fabric, w / 2, w % 2, fabric_now_ps(fabric));
    }
    fabric_resume(fabric);
    for (uint32_t s = 0; s < fabric->config.graph->switches; s++)
        ret->trapped[s] = fabric_traps(fabric, s, &ret->trapped_to[s]);
}

/* --- severed cables -------------------------------------------------------------------- */

/*
 * Without acknowledgments, segments that are sent over a cable to a lost host are lost. The routing
 * tables of such a network do not change, and a switch still chooses among all candidate ports.
 * Therefore a destination counts as unreachable from a node if segments between them may use such a
 * cable. Otherwise some of these segments would be lost, and the receiver would not know which. For
 * each destination, the functions below search backwards from the severed cables and mark in
 * `uses_severed` the switches from which segments may use one.
 */

static bool *uses_severed_to(const struct fabric *fabric, uint32_t node)
{
    return fabric->links.uses_severed + (size_t)node * fabric->config.graph->switches;
}

/* Return whether a severed cable, or a switch marked so far, is on a route from @sw to @to. */
static bool switch_uses_severed(const struct fabric *fabric, uint32_t sw, uint32_t to)
{
    const struct topo_switch *at = &fabric->config.graph->sw[sw];
    const bool *uses_severed = uses_severed_to(fabric, to);

    emu_each_port (port, topo_route_ports(&at->route, to)) {
        uint32_t cable = fabric_cable_at(fabric, sw, port);

        if ((cable != TOPO_NONE && fabric->links.severed[cable]) ||
            (at->end[port].kind == TOPO_END_SWITCH && uses_severed[at->end[port].id]))
            return true;
    }
    return false;
}

/*
 * Repeat until no more switches are marked. This takes about as many iterations as a route has
 * switches.
 */
static void node_mark_severed(struct fabric *fabric, uint32_t to)
{
    bool *uses_severed = uses_severed_to(fabric, to), more = true;

    while (more) {
        more = false;
        for (uint32_t s = 0; s < fabric->config.graph->switches; s++)
            if (!uses_severed[s] && switch_uses_severed(fabric, s, to))
                uses_severed[s] = more = true;
    }
}

int fabric_sever(struct fabric *fabric, const bool *lost)
{
    const struct topo_graph *graph = fabric->config.graph;
    struct fabric_links *links = &fabric->links;

    if (!links->severed)
        links->severed = calloc(links->count + 1u, sizeof *links->severed);
    if (!links->uses_severed)
        links->uses_severed =
            calloc((size_t)graph->nodes * graph->switches, sizeof *links->uses_severed);
    if (!links->severed || !links->uses_severed)
        return -ENOMEM;
    for (uint32_t i = 0; i < links->count; i++)
        links->severed[i] = lost[i];
    memset(links->uses_severed, 0,
           (size_t)graph->nodes * graph->switches * sizeof *links->uses_severed);
    for (uint32_t n = 0; n < graph->nodes; n++)
        node_mark_severed(fabric, n);
    return 0;
}

bool fabric_uses_severed(const struct fabric *fabric, uint32_t from, uint32_t to)
{
    const struct topo_graph *graph = fabric->config.graph;

    if (!fabric->links.uses_severed)
        return false;
    for (uint32_t l = 0; l < graph->node[from].links; l++) {
        uint32_t cable = fabric_cable_of(fabric, from, l), sw = graph->node[from].link[l].sw;

        if (sw != TOPO_NONE && (fabric->links.severed[cable] || uses_severed_to(fabric, to)[sw]))
            return true;
    }
    return false;
}

bool fabric_group_is_severed(const struct fabric *fabric, uint32_t id)
{
    const struct fabric_group *group = fabric_group_at(fabric, id);

    for (uint32_t i = 0; fabric->links.severed && group && i < group->tree.count; i++)
        emu_each_port (port, group->tree.switches[i].ports) {
            uint32_t cable = fabric_cable_at(fabric, group->tree.switches[i].sw, port);

            if (cable != TOPO_NONE && fabric->links.severed[cable])
                return true;
        }
    return false;
}

void fabric_free_severed(struct fabric *fabric)
{
    free(fabric->links.severed);
    free(fabric->links.uses_severed);
}
