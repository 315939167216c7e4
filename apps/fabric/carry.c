/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * carry.c - reroute in flight: with link-level retry, segments that wait for a link that is down
 * leave by another route.
 *
 * Without end-to-end acknowledgments nobody retransmits a segment that a switch has taken. So each
 * segment that a switch holds for a link that is down must leave by another route, exactly once.
 * The manager reads it out of the switch over the management network, which is out of band as in
 * QsNet III, and asks the remote end what has arrived, so that nothing is delivered twice. Then:
 *
 * (1) The remote switch gets the segment, if the tables in force route it through there, or if it
 *     belongs to a group whose tree uses this link: the management network replaces the cable. The
 *     switch has space, since a credit was spent for the segment.
 * (2) Else the switch that holds the segment gets it back, at the port of the dead link, and sends
 *     it by another port as its tables say now; upwards only if it was travelling upwards. This
 *     spends a credit of the dead link's opposite direction, so there is space. One credit is left
 *     for segments of (1), which travel downwards and must not wait for segments that travel
 *     upwards; and the link comes up again only when these have left (switch_is_clear()). So no
 *     cycle of waits can form. (If inputs have a FIFO, buffers=input_xpoint, segments of (1) queue
 *     behind them all the same.)
 * (3) Else the segment waits for other tables, or for the link.
 *
 * A segment without any route to its destination waits, too, up to a bound of the manager's. Then
 * it is dropped (fabric_part()): the processes are notified, and nothing else should wait behind
 * it.
 *
 * On several hosts each host does this for the cables that end there. Segments on a cable between
 * two hosts wait at the receiving host, in the replay buffer of the host link (1). Giving one back
 * (2) means to send it home through the remote switch, as if that switch had sent it; this takes at
 * most the space of the home switch less one segment. There it arrives as a rerouted one:
 *
 * (4) A segment that neither end can forward in up-then-down order is given to the switch here, if
 *     that can forward it at all: it was sent home. Before the link comes up none waits here.
 *
 * Segments of (1) stay in order. Segments of (2) may be overtaken, like any traffic with several
 * routes.
 */
#include "apps/fabric/internal.h"

/* One direction of a cable. */
struct carry {
    struct fabric *fabric;
    struct topo_at from, to;
    bool crosses; /* @from is on another host */
    /* outputs allowed for its segments at either switch: after a hop down only downwards */
    emu_ports from_ports, to_ports;
};

static struct carry carry_along(struct fabric *fabric, const struct topo_at *from,
                                const struct topo_at *to)
{
    const struct topo_graph *graph = fabric->config.graph;
    emu_ports ups = fabric_switch_ups(graph, from->sw);
    bool falls = !emu_ports_has(ups, from->port);
    emu_ports all = emu_ports_below(EMU_PORTS_MAX);

    return (struct carry){.fabric = fabric,
                          .from = *from,
                          .to = *to,
                          .from_ports = falls ? ~ups : all,
                          .to_ports = falls ? ~fabric_switch_ups(graph, to->sw) : all};
}

/* A segment without a route to its destination waits, or is dropped. */
static enum emu_carried carry_parted(const struct carry *carry)
{
    if (!carry->fabric->links.parting)
        return EMU_CARRIED_WAITS;
    carry->fabric->links.parted++;
    return EMU_CARRIED_AWAY;
}

/* The group's old tree remains as long as it has no other. */
static enum emu_carried carry_group(const struct carry *carry, uint32_t id)
{
    const struct fabric_group *group = fabric_group_at(carry->fabric, id);

    return group && group->parted && !carry->fabric->links.eased ? carry_parted(carry)
                                                                 : EMU_CARRIED_OVER;
}

/* Outputs of a switch for unicasts to @dst in the tables in force. */
static emu_ports carry_onward(const struct carry *carry, uint32_t sw, uint32_t dst)
{
    return topo_route_ports(&carry->fabric->links.routed->sw[sw].route, dst);
}

/* Case (4). */
static enum emu_carried carry_rest(const struct carry *carry, uint32_t dst)
{
    bool on = carry->fabric->links.eased || emu_ports_any(carry_onward(carry, carry->to.sw, dst));

    return carry->crosses && on ? EMU_CARRIED_OVER : EMU_CARRIED_WAITS;
}

static enum emu_carried carry_how(void *ctx, const struct emu_entry *entry)
{
    const struct carry *carry = ctx;
    const struct emu_hdr *hdr = &entry->hdr;

    if (hdr->kind != EMU_UNICAST)
        return carry_group(carry, hdr->dst);
    if (!carry->fabric->links.eased && !fabric_reaches(carry->fabric, hdr->src, hdr->dst))
        return carry_parted(carry);
    if (emu_ports_any(carry_onward(carry, carry->to.sw, hdr->dst) & carry->to_ports))
        return EMU_CARRIED_OVER;
    if (emu_ports_any(carry_onward(carry, carry->from.sw, hdr->dst) & carry->from_ports))
        return EMU_CARRIED_BACK;
    return carry_rest(carry, hdr->dst);
}

/* Reroute segments that wait at @from. Returns how many. */
static uint32_t carry_way(struct fabric *fabric, const struct topo_at *from,
                          const struct topo_at *to, uint64_t now_ps)
{
    struct switch_dev *near = fabric->sw[from->sw], *far = fabric->sw[to->sw];
    struct carry carry = carry_along(fabric, from, to);
    uint32_t left = switch_carry(NULL, near, from->port, far, to->port,
                                 (struct emu_carry){.most = FABRIC_CARRY_MOST,
                                                    .at_ps = fabric_soon_ps(fabric, now_ps),
                                                    .may = carry_how,
                                                    .ctx = &carry});

    if (left) {
        fabric_wake(fabric, switch_emu_dev(near), now_ps);
        fabric_wake(fabric, switch_emu_dev(far), now_ps);
    }
    return left;
}

/* Reroute segments that came from another host and wait for the switch @to. Returns how many. */
static uint32_t carry_in(struct fabric *fabric, struct emu_replay *replay,
                         const struct topo_at *from, const struct topo_at *to, uint64_t now_ps)
{
    struct switch_dev *here = fabric->sw[to->sw];
    uint32_t depth = fabric_crossing_segments(&fabric->config) -
                     emu_profile_credits(&fabric->config.profile);
    struct carry carry = carry_along(fabric, from, to);
    uint32_t left;

    carry.crosses = true;
    left = switch_carry(replay, NULL, 0, here, to->port,
                        (struct emu_carry){.depth = depth,
                                           .most = FABRIC_CARRY_MOST,
                                           .at_ps = fabric_soon_ps(fabric, now_ps),
                                           .may = carry_how,
                                           .ctx = &carry});
    if (left) {
        fabric_wake(fabric, switch_emu_dev(here), now_ps);
        fabric_wake(fabric, replay->wire.owner, now_ps);
    }
    return left;
}

uint32_t fabric_carry_all(struct fabric *fabric, uint64_t now_ps)
{
    uint32_t carried = 0;

    if (!fabric_can_carry(fabric)) /* a coordinator can ask for it by error */
        return 0;
    fabric_hold(fabric);
    for (uint32_t i = 0; i < fabric->links.count; i++)
        if (fabric->links.out[i])
            carried += fabric_carry(fabric, i, now_ps);
    fabric_go(fabric);
    return carried;
}

uint32_t fabric_carry_far(struct fabric *fabric)
{
    struct fabric_carried carried = {.segments = 0};

    if (fabric->mirror && fabric_can_carry(fabric))
        fabric->mirror->carry(fabric->mirror->ctx, fabric->links.eased, fabric->links.parting,
                              &carried);
    fabric->links.parted += carried.parted;
    return carried.segments;
}

bool fabric_can_carry(const struct fabric *fabric)
{
    return emu_profile_retries(&fabric->config.profile);
}

bool fabric_must_tend(const struct fabric *fabric)
{
    return fabric_has_states(&fabric->config);
}

uint32_t fabric_carry(struct fabric *fabric, uint32_t i, uint64_t now_ps)
{
    const struct fabric_cable *cable = &fabric->links.cable[i];
    bool out = !fabric_cable_ends_here(fabric, i, false);
    const struct emu_faults *faults = fabric->links.faults[2 * i + out];
    struct emu_replay *replay;

    if (cable->kind != TOPO_END_SWITCH || !faults || !faults->down)
        return 0;
    replay = fabric_crossing_replay(fabric, i);
    if (replay)
        return out ? carry_in(fabric, replay, &cable->at, &cable->far, now_ps)
                   : carry_in(fabric, replay, &cable->far, &cable->at, now_ps);
    return carry_way(fabric, &cable->at, &cable->far, now_ps) +
           carry_way(fabric, &cable->far, &cable->at, now_ps);
}

void fabric_part(struct fabric *fabric, bool drops)
{
    fabric->links.parting = drops;
}

void fabric_ease(struct fabric *fabric, bool eases)
{
    fabric->links.eased = eases;
}

uint64_t fabric_parted(const struct fabric *fabric)
{
    return fabric->links.parted;
}
