/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - the cables of a running fabric, faults on them and in combining, and the reactions: new
 * routing tables and trees, rerouting in flight, and the list of unrecoverable drops.
 */
#ifndef APPS_FABRIC_LINKS_H
#define APPS_FABRIC_LINKS_H

#include "apps/fabric/fabric.h"

struct emu_fault_hit;
struct emu_faults;

/* A cable of the network: two links, one for each direction. */
struct fabric_cable {
    struct topo_at at; /* first end, at a switch; between switches: lower switch, then port */
    uint8_t kind;      /* of the second end: TOPO_END_NODE or TOPO_END_SWITCH */
    union {
        struct topo_at peer; /* second end at a switch */
        struct {
            uint32_t node; /* second end at a node */
            uint32_t link; /* number of the node's link */
        };
    };
};

/** fabric_cable_count - number of cables; they are numbered from 0. */
uint32_t fabric_cable_count(const struct fabric *fabric);

const struct fabric_cable *fabric_cable(const struct fabric *fabric, uint32_t i);

/** fabric_cable_at, fabric_cable_of - the cable at a switch's port, a node's link; or TOPO_NONE. */
uint32_t fabric_cable_at(const struct fabric *fabric, uint32_t sw, uint32_t port);
uint32_t fabric_cable_of(const struct fabric *fabric, uint32_t node, uint32_t link);

/** fabric_has_links - can links go down? Needs acknowledgments, or link-level retry on cables. */
bool fabric_has_links(const struct fabric *fabric);

/**
 * fabric_can_reroute - can new tables be published while traffic runs? Packets for which they leave
 * no route are retransmitted if packets are acknowledged, else rerouted in flight
 * (fabric_reroute_in_flight()).
 */
bool fabric_can_reroute(const struct fabric *fabric);

/**
 * fabric_link_set - take a cable's link down or up at @now_ps; both ends notice. Packets on the
 * wire are lost. Does not change routing tables: fabric_reroute(). @fault: the fault that did this,
 * for the log; 0: none. @hit: number of packets lost on the wire. Errors: -ENOMEM; -ENOTSUP, not
 * fabric_can_fail(). Thread: manager, between fabric_pause() and fabric_resume().
 */
int fabric_link_set(struct fabric *fabric, uint32_t cable, bool up, uint32_t fault, uint64_t now_ps,
                    uint32_t *hit);

/** fabric_link_quiet - have all old packets left a cable that is down? Thread: as above. */
bool fabric_link_quiet(const struct fabric *fabric, uint32_t cable);

/** fabric_link_is_out - is the cable out of use since the last fabric_link_set()? */
bool fabric_link_is_out(const struct fabric *fabric, uint32_t cable);

/** fabric_cable_is_routed - do the tables in force use the cable? */
bool fabric_cable_is_routed(const struct fabric *fabric, uint32_t cable);

/**
 * fabric_cable_try - send @packets pseudo-random test packets in each direction of a cable out of
 * use that ends here. Returns the errors and losses of the worse direction. Thread: manager; it
 * holds the workers itself.
 */
uint32_t fabric_cable_try(struct fabric *fabric, uint32_t cable, uint32_t packets);

/**
 * fabric_traps - number of unicasts so far for which switch @sw had no route. It refuses them if
 * packets are acknowledged, else holds them. @to: destination of the last one. Thread: manager.
 */
uint64_t fabric_traps(const struct fabric *fabric, uint32_t sw, uint32_t *to);

/** fabric_isolates - does the profile have trap=isolate? */
bool fabric_isolates(const struct fabric *fabric);

/**
 * fabric_node_no_link - all links of the node have been down for too long. Its adapter gives up its
 * packets, which its process notices; other adapters retry packets to it only a few times
 * (engine_cut()). Thread: manager, between fabric_pause() and fabric_resume().
 */
void fabric_node_no_link(struct fabric *fabric, uint32_t node, uint64_t now_ps);

/**
 * fabric_cut_off - the network has been partitioned for too long: limit adapters to few retries of
 * packets to groups without a tree and, if @partitioned, to nodes without a route. Does nothing
 * without acknowledgments. Returns whether there are such groups or nodes. Thread: manager; it
 * holds the workers itself.
 */
bool fabric_cut_off(struct fabric *fabric, bool partitioned);

/**
 * fabric_node_linked - publish to all processes, for their error messages, whether a link of the
 * node is in use (EMU_INCARNATION_NO_LINK). Thread: manager.
 */
void fabric_node_linked(struct fabric *fabric, uint32_t node, bool linked);

/**
 * fabric_can_fail - can faults be injected on the cable? Without acknowledgments only on cables
 * between switches, since a node's cable is the host interface of its process.
 */
bool fabric_can_fail(const struct fabric *fabric, uint32_t cable);

/**
 * fabric_faults - the faults of the direction of a cable from (@out) or to its first end, created
 * if needed. NULL: out of memory, or it cannot fail here. Thread: manager, workers held.
 */
struct emu_faults *fabric_faults(struct fabric *fabric, uint32_t cable, bool out);

/** fabric_faults_of - the same if they were created, else NULL. */
const struct emu_faults *fabric_faults_of(const struct fabric *fabric, uint32_t cable, bool out);

/**
 * fabric_port_stick - stop or (not @stuck) restart sending at the port that feeds the direction of
 * the cable from (@out) or to its first end. Loses nothing and notifies nobody. The cable must be
 * fabric_can_fail(). Thread: manager, workers held.
 */
void fabric_port_stick(struct fabric *fabric, uint32_t cable, bool out, bool stuck,
                       uint64_t now_ps);

/**
 * fabric_port_waiting - number of entries that wait at that port: segments at a switch; at an
 * adapter packets that no other link can take. Unless @fault is 0, each is logged as hit by it.
 * Thread: manager, workers held.
 */
uint32_t fabric_port_waiting(const struct fabric *fabric, uint32_t cable, bool out, uint32_t fault,
                             uint64_t now_ps);

/** fabric_combiners - number of switches that combine, or else of adapters that do; 0: none do. */
uint32_t fabric_combiners(const struct fabric *fabric);

/**
 * fabric_combine_faults - fault rules about contributions to combiner @i (emu_faults_fold()),
 * created if needed. NULL: out of memory, or it is on another host. fabric_combine_faults_of() -
 * the same if they were created, else NULL. The log identifies combiner @i as cable
 * 2 * fabric_cable_count() + @i. Thread: manager, workers held.
 */
struct emu_faults *fabric_combine_faults(struct fabric *fabric, uint32_t i);
bool fabric_combiner_is_here(const struct fabric *fabric, uint32_t i); /* on this host */
const struct emu_faults *fabric_combine_faults_of(const struct fabric *fabric, uint32_t i);

/**
 * fabric_combine_stall - stop or (not @stalled) restart the combine units of switch @sw.
 * Errors: -ENOMEM. Thread: manager, workers held.
 */
int fabric_combine_stall(struct fabric *fabric, uint32_t sw, bool stalled, uint64_t now_ps);

/* An unrecoverable drop, where nothing is retransmitted, or a combine unit's change of state. */
enum fabric_drop_kind {
    FABRIC_LOST_SEGMENT,  /* a unicast overran the receiving buffer of a cable */
    FABRIC_LOST_OF_GROUP, /* the same, a segment of a group: the group has failed */
    FABRIC_UNIT_DAMAGED,  /* a combine unit found a damaged partial result: a group has failed */
    FABRIC_UNIT_GAVE_UP,  /* a combine unit gave up a packet: a group has failed */
    FABRIC_LEFT_GAVE_UP,  /* the adapter of a node that left a group gave up: the group failed */
    FABRIC_UNIT_STUCK,    /* a combine unit is out of service: a group has failed */
    FABRIC_UNIT_OUT,      /* a combine unit was taken out of service */
    FABRIC_UNIT_BACK      /* a combine unit works again and is back in service, empty */
};

struct fabric_drop {
    enum fabric_drop_kind what;
    uint32_t cable;    /* of a segment, */
    bool out;          /* and its direction: from the cable's first end */
    uint32_t sw;       /* of a unit */
    uint32_t from, to; /* FABRIC_LOST_SEGMENT: nodes; FABRIC_LEFT_GAVE_UP: node @from has left */
    uint64_t from_incarnation, to_incarnation; /* incarnations of their processes; 0: unknown */
    uint32_t group;                            /* that has failed */
    uint32_t moved;    /* FABRIC_UNIT_OUT: groups that were moved to other trees */
    uint32_t more;     /* FABRIC_LOST_SEGMENT: further losses between the same processes */
    uint64_t found_ns; /* emu_now_ns() when the last of them was found, which is after the drop */
};

/**
 * fabric_drops_find - scan for such losses. Takes combine units of switches out of service that
 * have done nothing for @bound_ps while something waited for them; EMU_NEVER: no limit. Call this a
 * few times per @bound_ps. fabric_drop_take() - take the next loss that was found; false: none.
 * fabric_drops_left() - number of losses not yet taken. A failed group remains failed: its members
 * have to leave it. Thread: manager, workers run.
 */
void fabric_drops_find(struct fabric *fabric, uint64_t now_ps, uint64_t bound_ps);
bool fabric_drop_take(struct fabric *fabric, struct fabric_drop *ret);
uint32_t fabric_drops_left(const struct fabric *fabric);

/**
 * fabric_combine_waiting - number of contributions, or with unit engines of results, that wait at
 * the combine units of a switch. Unless @fault is 0, each is logged as hit by it. Thread: manager,
 * workers held.
 */
uint32_t fabric_combine_waiting(const struct fabric *fabric, uint32_t sw, uint32_t fault,
                                uint64_t now_ps);

/**
 * fabric_combine_exhaust - refuse combine states in switch @sw to new groups, as if all were taken;
 * existing groups keep theirs. fabric_combine_refused() - number of groups refused so.
 */
void fabric_combine_exhaust(struct fabric *fabric, uint32_t sw, bool exhausted);
uint64_t fabric_combine_refused(const struct fabric *fabric, uint32_t sw);

/** fabric_retries - do cables between switches have link-level retry? */
bool fabric_retries(const struct fabric *fabric);

/**
 * fabric_wire_slow - let a byte take @factor / 1000 times as long on that direction of the cable;
 * 1000: the profile's time. Errors: -ENOMEM. Thread: manager, workers held.
 */
int fabric_wire_slow(struct fabric *fabric, uint32_t cable, bool out, uint32_t factor);

/* State of the sending end of one direction of a cable. */
struct fabric_port {
    bool ready;    /* it could send now, and has space at the receiver */
    bool idle;     /* its device was not stepped since the last sample: `ready` proves nothing */
    uint64_t sent; /* segments since the start */
};

/**
 * fabric_port_is_stuck - is that port stuck? fabric_port_sample() - sample its state. The cable
 * must be fabric_can_fail(). Thread: manager, workers held.
 */
bool fabric_port_is_stuck(const struct fabric *fabric, uint32_t cable, bool out);
struct fabric_port fabric_port_sample(struct fabric *fabric, uint32_t cable, bool out,
                                      uint64_t now_ps);

/**
 * fabric_hit_take - take the next logged hit of a fault; the hits of each worker come in order.
 * False: none. Hits of rules (emu_faults_add()) and of links down by a numbered fault are logged.
 */
bool fabric_hit_take(struct fabric *fabric, struct emu_fault_hit *ret);

/** fabric_hits_missed - hits that did not fit into the log, because nobody took earlier ones. */
uint64_t fabric_hits_missed(const struct fabric *fabric);

/** fabric_is_faulty - did a cable ever have faults? fabric_expect_faults() - let it be true. */
bool fabric_is_faulty(const struct fabric *fabric);
void fabric_expect_faults(struct fabric *fabric);

/**
 * fabric_reroute - while traffic runs, publish new tables in all switches for the network without
 * the cables for which @routed is false, and grow new trees for groups that used one of them.
 * @partitioned: number of pairs, a switch with nodes and a destination, that no route connects now.
 * @treeless: called for each group that lost its tree and can have no other now; its adapters
 *            retry up to profile->retry_limit.
 * Errors: -ENOMEM, -E2BIG; the old tables stay in force. Thread: manager.
 */
int fabric_reroute(struct fabric *fabric, const bool *routed, uint64_t now_ps,
                   uint64_t *partitioned, void (*treeless)(void *ctx, uint32_t group), void *ctx);

/** fabric_regrown - number of trees so far that lost a link and were replaced. */
uint64_t fabric_regrown(const struct fabric *fabric);

/**
 * fabric_ungrown - number of groups that keep a tree with a lost link until they are idle.
 * fabric_regrow() - replace the trees of groups that are idle now; fabric_reroute() does it too.
 * Thread: manager.
 */
uint32_t fabric_ungrown(const struct fabric *fabric);
void fabric_regrow(struct fabric *fabric, uint64_t now_ps,
                   void (*treeless)(void *ctx, uint32_t group), void *ctx);

#define FABRIC_REROUTE_IN_FLIGHT_MOST \
    16u /* segments that fabric_reroute_in_flight() takes from each end of a link */

/**
 * fabric_can_reroute_in_flight - can segments that wait for a link that is down be rerouted in
 * flight?
 * fabric_must_tend() - does a link that is down need repeated calls of fabric_reroute_in_flight()
 * and fabric_regrow(), besides new tables?
 */
bool fabric_can_reroute_in_flight(const struct fabric *fabric);
bool fabric_must_tend(const struct fabric *fabric);

/**
 * fabric_reroute_in_flight - reroute segments in flight (in_flight.c): segments that switches hold
 * for a link between them that is down leave by another route of the tables in force, some per
 * call. Returns the segments that left. Thread: manager, between fabric_pause() and
 * fabric_resume().
 */
uint32_t fabric_reroute_in_flight(struct fabric *fabric, uint32_t cable, uint64_t now_ps);

/**
 * fabric_reroute_in_flight_all - fabric_reroute_in_flight() for all cables that are out.
 * fabric_reroute_in_flight_remote() - the same on all other hosts, if this is the coordinator.
 * Thread: manager, workers run.
 */
uint32_t fabric_reroute_in_flight_all(struct fabric *fabric, uint64_t now_ps);
uint32_t fabric_reroute_in_flight_remote(struct fabric *fabric);

/** fabric_reaches - do the tables in force route from node @from to node @to? Thread: manager. */
bool fabric_reaches(const struct fabric *fabric, uint32_t from, uint32_t to);

/**
 * fabric_drop_unreachable - set whether fabric_reroute_in_flight() drops segments to a node that
 * their source cannot reach, and of groups whose members cannot reach each other. At first it lets
 * them wait.
 * fabric_dropped_unreachable() - number of segments dropped so. Thread: manager.
 */
void fabric_drop_unreachable(struct fabric *fabric, bool drops);
uint64_t fabric_dropped_unreachable(const struct fabric *fabric);

/**
 * fabric_ease - set whether fabric_reroute_in_flight() acts as if all destinations were reachable.
 * A link that is to come up waits until it has no old segments (fabric_link_quiet()), and these may
 * wait for a route over that very link. Thread: manager.
 */
void fabric_ease(struct fabric *fabric, bool eases);

#endif
