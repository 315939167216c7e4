/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * carry.c - links with link-level retry that are down: what waits for them goes another way.
 *
 * Where nothing is acknowledged from end to end, nobody sends again what a switch has taken. So
 * what it holds for a link that is down must leave by another way, each segment once. The manager
 * reads it out of the switch over the management network, which is out of band as QsNet III's is,
 * and it asks the far end what has come, so that nothing passes twice. Then
 *
 * (1) the far switch gets it, if it is on its way to there by the tables in force, or belongs to a
 *     group whose tree goes by this link: the management network stands in for the cable. Room is
 *     there, since a credit was spent for it.
 * (2) else the switch that holds it gets it back, by the port of the dead link, and sends it by
 *     another, as its tables say now; up only if it was on its way up. A credit of the dead link's
 *     other way is spent for it, so that there is room. One credit is left for what comes by (1),
 *     which is on its way down and must not wait for what goes up; and the link comes up again only
 *     when that has left (switch_is_clear()). So no cycle of waits can close. (Where inputs have a
 *     fifo, buffers=input_xpoint, what comes by (1) is behind it all the same.)
 * (3) else it waits, until there are other tables, or the link is back.
 *
 * What no way leads to where it is to go waits, too: for a bound of the manager's, and then it is
 * dropped (fabric_part()), for processes are told, and nothing else is to wait behind it.
 *
 * On several hosts each does it to the cables that end there. Of a cable between two of them what
 * goes one way waits at the host that it leads to, in the replay buffer of the host link (1). To
 * give it back (2) is to send it home by the far switch, as if that had sent it; it takes no more
 * than the room of the home switch but for one segment. There it comes as what is carried over:
 *
 * (4) what neither end leads on from as it should go, up and then down, is given to the switch here
 *     if that leads on at all: it was sent home. And before the link comes up nothing waits here.
 *
 * What comes in the right order by (1) stays in it. What is sent by (2) may be overtaken, as
 * anything may that has several ways to choose from.
 */
#include "apps/fabric/internal.h"

/* One way of a cable. */
struct carry {
    struct fabric *fabric;
    struct topo_at from, to;
    bool crosses; /* @from is on another host */
    /* ports of either switch by which what is under way here may go on: what falls goes down */
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

/* What no way leads to where it is to go waits, or is dropped. */
static enum emu_carried carry_parted(const struct carry *carry)
{
    if (!carry->fabric->links.parting)
        return EMU_CARRIED_WAITS;
    carry->fabric->links.parted++;
    return EMU_CARRIED_AWAY;
}

/* Its old tree is there as long as it has no other. */
static enum emu_carried carry_group(const struct carry *carry, uint32_t id)
{
    const struct fabric_group *group = fabric_group_at(carry->fabric, id);

    return group && group->parted && !carry->fabric->links.eased ? carry_parted(carry)
                                                                 : EMU_CARRIED_OVER;
}

/* Outputs of a switch by which a unicast to @dst may leave, as the tables in force have it. */
static emu_ports carry_onward(const struct carry *carry, uint32_t sw, uint32_t dst)
{
    return topo_route_ports(&carry->fabric->links.routed->sw[sw].route, dst);
}

/* (4): what neither end leads on from, as it should go. */
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

/* What waits at @from leaves. Returns segments. */
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

/* What has come from another host, and waits for the switch @to here. Returns segments. */
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

    if (!fabric_can_carry(fabric)) /* a coordinator that lies may ask all the same */
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
