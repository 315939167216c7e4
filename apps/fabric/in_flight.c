/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * in_flight.c - reroute in flight: with link-level retry, if segments wait for a link that is down,
 * the manager moves them to another route.
 *
 * Without end-to-end acknowledgments nobody retransmits a segment that a switch has taken. So each
 * segment that a switch holds for a link that is down must leave by another route, exactly once.
 * The manager reads it out of the switch over the management network, which is separate from the
 * data network, as in QsNet III. It also reads from the remote end of the link which segments have
 * arrived there, so that none is delivered twice. Then one of these rules applies:
 *
 * (1) If the tables in force route the segment through the remote switch, or if it belongs to a
 * group whose tree uses this link, the manager gives it to the remote switch. The management
 * network thus replaces the cable. The remote switch has space, because a credit was spent for
 * the segment.
 * (2) Otherwise the manager gives the segment back to the switch that holds it, as an arrival at
 * the port of the dead link. The switch sends it out of another port, which its present tables
 * allow. This port leads upwards only if the segment was travelling upwards. Each segment that is
 * given back spends a credit of the dead link's opposite direction, so the switch has space. One
 * credit always remains for segments of rule (1), which travel downwards and must not wait for
 * segments that travel upwards. The link comes up again only after all segments that were given
 * back have left (switch_is_clear()). So no cycle of waits can form. (With buffers=input_xpoint
 * there is a FIFO at each input, and in it segments of rule (1) do queue behind segments of rule
 * (2).)
 * (3) If neither switch has a route for the segment, it waits for new tables, or for the link.
 *
 * A segment whose source cannot reach its destination at all also waits, until the manager decides
 * to drop it (fabric_drop_unreachable()), because other segments wait behind it. By then the
 * processes have been notified.
 *
 * On several hosts each host does this for the cables that end there. Segments on a cable between
 * two hosts wait at the receiving host, in the replay buffer of its host link. Rule (1) gives them
 * to the receiving switch. Rule (2) sends them back to the sending host through the receiving
 * switch, as if that switch had sent them. Such segments may fill the space of the sending switch
 * except for one segment. For segments that come back to the sending host in this way there is one
 * more rule:
 *
 * (4) If neither switch can forward such a segment in up-then-down order, the manager gives it to
 * the switch to which it came back, provided that this switch has any route for it. The link comes
 * up only when no such segment waits there.
 *
 * Segments of rule (1) stay in order. Segments of rule (2) may be overtaken, as always if there are
 * several routes.
 */
#include "apps/fabric/internal.h"

/* One direction of a cable that is down. */
struct reroute {
    struct fabric *fabric;
    struct topo_at from, to; /* sending and receiving switch */
    bool crosses;            /* @from is on another host */
    /*
     * possible outputs for the segments at each switch: only downward ones if this direction leads
     * down
     */
    emu_ports from_ports, to_ports;
};

static struct reroute reroute_along(struct fabric *fabric, const struct topo_at *from,
                                    const struct topo_at *to)
{
    const struct topo_graph *graph = fabric->config.graph;
    emu_ports ups = fabric_switch_ups(graph, from->sw);
    bool falls = !emu_ports_has(ups, from->port);
    emu_ports all = emu_ports_below(EMU_PORTS_MAX);

    return (struct reroute){.fabric = fabric,
                            .from = *from,
                            .to = *to,
                            .from_ports = falls ? ~ups : all,
                            .to_ports = falls ? ~fabric_switch_ups(graph, to->sw) : all};
}

static enum emu_reroute_fate reroute_unreachable(const struct reroute *reroute)
{
    if (!reroute->fabric->links.drop_unreachable)
        return EMU_REROUTE_WAITS;
    reroute->fabric->links.partitioned++;
    return EMU_REROUTE_DONE;
}

/*
 * Decide about a segment of a group. It continues on the old tree, which the group keeps until it
 * gets a new one. If some members cannot reach each other, the segment waits or is dropped instead.
 */
static enum emu_reroute_fate reroute_group(const struct reroute *reroute, uint32_t id)
{
    const struct fabric_group *group = fabric_group_at(reroute->fabric, id);

    return group && group->partitioned && !reroute->fabric->links.assume_reachable
               ? reroute_unreachable(reroute)
               : EMU_REROUTE_FORWARD;
}

static emu_ports reroute_onward(const struct reroute *reroute, uint32_t sw, uint32_t dst)
{
    return topo_route_ports(&reroute->fabric->links.routed->sw[sw].route, dst);
}

/* Decide about a unicast to which rule (1) and rule (2) do not apply: rule (4) or (3). */
static enum emu_reroute_fate reroute_others(const struct reroute *reroute, uint32_t dst)
{
    bool on = reroute->fabric->links.assume_reachable ||
              emu_ports_any(reroute_onward(reroute, reroute->to.sw, dst));

    return reroute->crosses && on ? EMU_REROUTE_FORWARD : EMU_REROUTE_WAITS;
}

static enum emu_reroute_fate reroute_how(void *ctx, const struct emu_entry *entry)
{
    const struct reroute *reroute = ctx;
    const struct emu_hdr *hdr = &entry->hdr;

    if (hdr->kind != EMU_UNICAST)
        return reroute_group(reroute, hdr->dst);
    if (!reroute->fabric->links.assume_reachable &&
        !fabric_reaches(reroute->fabric, hdr->src, hdr->dst))
        return reroute_unreachable(reroute);
    if (emu_ports_any(reroute_onward(reroute, reroute->to.sw, hdr->dst) & reroute->to_ports))
        return EMU_REROUTE_FORWARD;
    if (emu_ports_any(reroute_onward(reroute, reroute->from.sw, hdr->dst) & reroute->from_ports))
        return EMU_REROUTE_BACK;
    return reroute_others(reroute, hdr->dst);
}

/* Reroute segments that switch @from holds for the cable to @to. Returns their number. */
static uint32_t reroute_direction(struct fabric *fabric, const struct topo_at *from,
                                  const struct topo_at *to, uint64_t now_ps)
{
    struct switch_dev *near = fabric->sw[from->sw], *far = fabric->sw[to->sw];
    struct reroute reroute = reroute_along(fabric, from, to);
    uint32_t left =
        switch_reroute_in_flight(NULL, near, from->port, far, to->port,
                                 (struct emu_reroute){.most = FABRIC_REROUTE_IN_FLIGHT_MOST,
                                                      .at_ps = fabric_soon_ps(fabric, now_ps),
                                                      .may = reroute_how,
                                                      .ctx = &reroute});

    if (left) {
        fabric_wake(fabric, switch_emu_dev(near), now_ps);
        fabric_wake(fabric, switch_emu_dev(far), now_ps);
    }
    return left;
}

/*
 * Reroute segments that came from another host and wait for the switch @to. Returns their number.
 */
static uint32_t reroute_received(struct fabric *fabric, struct emu_replay *replay,
                                 const struct topo_at *from, const struct topo_at *to,
                                 uint64_t now_ps)
{
    struct switch_dev *here = fabric->sw[to->sw];
    uint32_t depth = fabric_crossing_segments(&fabric->config) -
                     emu_profile_credits(&fabric->config.profile);
    struct reroute reroute = reroute_along(fabric, from, to);
    uint32_t left;

    reroute.crosses = true;
    left = switch_reroute_in_flight(replay, NULL, 0, here, to->port,
                                    (struct emu_reroute){.depth = depth,
                                                         .most = FABRIC_REROUTE_IN_FLIGHT_MOST,
                                                         .at_ps = fabric_soon_ps(fabric, now_ps),
                                                         .may = reroute_how,
                                                         .ctx = &reroute});
    if (left) {
        fabric_wake(fabric, switch_emu_dev(here), now_ps);
        fabric_wake(fabric, replay->wire.owner, now_ps);
    }
    return left;
}

uint32_t fabric_reroute_in_flight_all(struct fabric *fabric, uint64_t now_ps)
{
    uint32_t rerouted = 0;

    if (!fabric_can_reroute_in_flight(fabric)) /* only a faulty coordinator requests this */
        return 0;
    fabric_pause(fabric);
    for (uint32_t i = 0; i < fabric->links.count; i++)
        if (fabric->links.out[i])
            rerouted += fabric_reroute_in_flight(fabric, i, now_ps);
    fabric_resume(fabric);
    return rerouted;
}

uint64_t fabric_reroute_in_flight_remote(struct fabric *fabric)
{
    struct fabric_rerouted rerouted = {.segments = 0};

    if (fabric->mirror && fabric_can_reroute_in_flight(fabric))
        fabric->mirror->reroute_in_flight(fabric->mirror->ctx, fabric->links.assume_reachable,
                                          fabric->links.drop_unreachable, &rerouted);
    emu_sum(&fabric->links.partitioned, rerouted.partitioned);
    return rerouted.segments;
}

bool fabric_can_reroute_in_flight(const struct fabric *fabric)
{
    return emu_profile_retries(&fabric->config.profile);
}

bool fabric_needs_replans(const struct fabric *fabric)
{
    return fabric_has_states(&fabric->config);
}

uint32_t fabric_reroute_in_flight(struct fabric *fabric, uint32_t i, uint64_t now_ps)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];
    bool out = !fabric_cable_ends_here(fabric, i, false);
    const struct emu_faults *faults = fabric->links.faults[2 * i + out];
    struct emu_replay *replay;

    if (cable->kind != TOPO_END_SWITCH || !faults || !faults->down)
        return 0;
    replay = fabric_crossing_replay(fabric, i);
    if (replay)
        return out ? reroute_received(fabric, replay, &cable->at, &cable->peer, now_ps)
                   : reroute_received(fabric, replay, &cable->peer, &cable->at, now_ps);
    if (!fabric->sw[cable->at.sw] || !fabric->sw[cable->peer.sw])
        return 0; /* a host link without link-level retry keeps no segments */
    return reroute_direction(fabric, &cable->at, &cable->peer, now_ps) +
           reroute_direction(fabric, &cable->peer, &cable->at, now_ps);
}

void fabric_drop_unreachable(struct fabric *fabric, bool drops)
{
    fabric->links.drop_unreachable = drops;
}

void fabric_assume_reachable(struct fabric *fabric, bool reachable)
{
    fabric->links.assume_reachable = reachable;
}

uint64_t fabric_dropped_unreachable(const struct fabric *fabric)
{
    return fabric->links.partitioned;
}
