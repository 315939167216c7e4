/* SPDX-License-Identifier: BSD-3-Clause */
/* scan.c - scan periodically for links with too many errors, stuck ports, and lost routes. */
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/manager/internal.h"
#include "emu/util/clock.h"

#define SCAN_LEAST 100u /* minimum number of packets for an error rate */
/* standard deviations; a link with the permitted rate exceeds these about once in 1000 scans */
#define SCAN_CERTAIN 3.0

/*
 * Return whether the error rate is above the limit of @most errors in MANAGER_ERRORS_OF packets. To
 * compare the rates is not enough. For example, two errors in 150 packets are more than 1 %, but a
 * link with an error rate of one in 500 has two errors in every thirtieth scan of 150 packets. So
 * the number of errors must be significantly above the number that the limit allows.
 */
static bool rate_exceeds(uint64_t errors, uint64_t packets, uint32_t most)
{
    double may = (double)packets * most / MANAGER_ERRORS_OF, more = (double)errors - may;

    return more > 0 && more * more > SCAN_CERTAIN * SCAN_CERTAIN * may;
}

/*
 * Return whether a direction of link @i has too many errors; @errors, @packets: its counts. Packets
 * are counted over several scans until there are SCAN_LEAST; then counting restarts.
 */
static bool link_has_errors(struct manager *m, uint32_t i, uint64_t *errors, uint64_t *packets)
{
    struct link *link = &m->link[i];
    uint32_t most = manager_link_most(m, i);

    for (uint32_t out = 0; out < 2; out++) {
        bool counted = link->seen[out] != MANAGER_UNCOUNTED;

        manager_link_counts(m, i, out, packets, errors);
        *packets -= link->seen[out];
        *errors -= link->errors[out];
        if (counted && *packets < SCAN_LEAST)
            continue;
        link->seen[out] += *packets;
        link->errors[out] += *errors;
        if (counted && rate_exceeds(*errors, *packets, most))
            return true;
    }
    return false;
}

static void links_check(struct manager *m)
{
    for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++) {
        uint64_t errors, packets;
        uint32_t hit;

        if (m->link[i].state != MANAGER_UP)
            continue;
        if (link_has_errors(m, i, &errors, &packets) && !manager_link_out(m, i, 0, &hit)) {
            m->link[i].signal_ps = m->now_ps;
            manager_link_plan(m, &m->link[i], MANAGER_BACKOFF, m->config.again_ps);
            manager_notify(m, (struct manager_event){.what = MANAGER_EVENT_OUT,
                                                     .cable = i,
                                                     .errors = errors,
                                                     .packets = packets});
        }
    }
}

/*
 * Return the state of the port that sends in a direction. If it is on another host, return the
 * state at the last scan.
 */
static struct fabric_port port_seen(struct manager *m, uint32_t i, bool out)
{
    if (!m->remote.port || fabric_cable_ends_here(m->fabric, i, !out))
        return fabric_port_sample(m->fabric, i, out, manager_device_ps(m));
    return m->remote.port[2 * i + out];
}

/*
 * Return the time since which a port has been able to send at each scan, but has sent nothing.
 * EMU_NEVER: it sends, it has nothing that it can send, or its device was not stepped since the
 * last scan. A port that waits for space at the receiver is not stuck, no matter how long it waits.
 * A port that sends occasionally is not stuck either, because it serves all of its queues. The
 * delay of a late scan does not count, because the port's device may be late, too.
 */
static uint64_t port_check(struct manager *m, uint32_t i, bool out)
{
    const struct fabric_port port = port_seen(m, i, out);
    uint64_t *since_ps = &m->link[i].port[out].since_ps;

    if (*since_ps != EMU_NEVER)
        *since_ps += m->now_ps - m->scan_ps;
    if (!port.ready || port.sent != m->link[i].port[out].sent)
        *since_ps = EMU_NEVER;
    if (port.ready && !port.idle && *since_ps == EMU_NEVER)
        *since_ps = m->now_ps;
    m->link[i].port[out].sent = port.sent;
    return port.idle ? EMU_NEVER : *since_ps;
}

/* Take a link with a stuck port out. Like a link with errors, it is tested again periodically. */
static void link_out_stuck(struct manager *m, uint32_t i)
{
    uint64_t in_ps = m->link[i].port[0].since_ps, out_ps = m->link[i].port[1].since_ps;
    uint32_t hit;

    manager_notify(m, (struct manager_event){.what = MANAGER_EVENT_STUCK,
                                             .cable = i,
                                             .took_ps = m->now_ps -
                                                        (in_ps < out_ps ? in_ps : out_ps)});
    m->link[i].stuck = false;
    if (manager_link_out(m, i, 0, &hit))
        return;
    m->link[i].signal_ps = m->now_ps;
    manager_link_plan(m, &m->link[i], MANAGER_BACKOFF, m->config.again_ps);
}

static void ports_check(struct manager *m)
{
    if (m->config.stuck_ps == EMU_NEVER)
        return;
    fabric_pause(m->fabric);
    for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++) {
        if (m->link[i].state != MANAGER_UP || !fabric_can_fail(m->fabric, i))
            continue;
        for (uint32_t out = 0; out < 2; out++) {
            uint64_t since_ps = port_check(m, i, out);

            if (since_ps != EMU_NEVER && m->now_ps - since_ps >= m->config.stuck_ps)
                m->link[i].stuck = true;
        }
    }
    fabric_resume(m->fabric);
    for (uint32_t i = 0; i < fabric_cable_count(m->fabric); i++)
        if (m->link[i].stuck)
            link_out_stuck(m, i);
}

static bool switch_has_nodes(const struct manager *m, uint32_t sw)
{
    for (uint32_t p = 0; p < fabric_graph(m->fabric)->ports; p++) {
        uint32_t i = fabric_cable_at(m->fabric, sw, p);

        if (i != TOPO_NONE && fabric_cable(m->fabric, i)->kind == TOPO_END_NODE)
            return true;
    }
    return false;
}

/*
 * Isolate a switch: take all its links out, so that it gets no more packets for which it has no
 * route. Returns the number of links taken out: 0 if the switch has nodes, which would lose their
 * links; if no link of the switch is out, because then another switch has lost the route; or if the
 * switch is already isolated.
 */
static uint32_t switch_isolate(struct manager *m, uint32_t sw)
{
    uint32_t isolated = 0, others, hit;

    if (manager_count_out(m, sw, &others) || !others || switch_has_nodes(m, sw))
        return 0;
    for (uint32_t p = 0; p < fabric_graph(m->fabric)->ports; p++) {
        uint32_t i = fabric_cable_at(m->fabric, sw, p);

        if (i == TOPO_NONE || m->link[i].state != MANAGER_UP || manager_link_out(m, i, 0, &hit))
            continue;
        m->link[i].state = MANAGER_ISOLATED;
        m->link[i].isolated = true;
        isolated++;
    }
    return isolated;
}

static uint64_t switch_traps(const struct manager *m, uint32_t s, uint32_t *to)
{
    uint64_t trapped = fabric_traps(m->fabric, s, to);

    if (!m->remote.trapped || !m->remote.trapped[s])
        return trapped; /* the switch is on this host, or had a route for all packets */
    *to = m->remote.trapped_to[s];
    return m->remote.trapped[s];
}

static void traps_check(struct manager *m)
{
    for (uint32_t s = 0; s < fabric_graph(m->fabric)->switches; s++) {
        struct manager_event event = {.what = MANAGER_EVENT_TRAP, .cable = TOPO_NONE, .sw = s};
        uint64_t trapped = switch_traps(m, s, &event.to);

        event.trapped = trapped - m->trapped[s];
        m->trapped[s] = trapped;
        if (!event.trapped)
            continue;
        event.isolated = fabric_isolates(m->fabric) ? switch_isolate(m, s) : 0;
        manager_notify(m, event);
    }
}

void manager_scan(struct manager *m)
{
    if (m->remote.packets)
        fabric_scan_remote(m->fabric, &m->remote);
    if (fabric_has_links(m->fabric))
        links_check(m);
    ports_check(m);
    traps_check(m);
    m->scan_ps = m->now_ps + m->config.scan_ps;
}
