/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - the cables of a running fabric, faults on cables and in combine units, and reactions to
 * faults: new routing tables and trees, rerouting in flight, and the search for drops that no
 * retransmission repairs.
 *
 * A *direction* of a cable is given by @cable and @out. If @out is true, it leads from the cable's
 * first end to the second one, otherwise from the second to the first. A cable is *out of use*
 * after fabric_link_set() has taken its link down. A *combiner* combines contributions to
 * collectives. It consists of the combine units of a switch or, if no switch has units, it is an
 * adapter.
 */
#ifndef APPS_FABRIC_LINKS_H
#define APPS_FABRIC_LINKS_H

#include "apps/fabric/fabric.h"

struct emu_fault_hit;
struct emu_faults;

/* A cable of the network: two links, one for each direction. */
struct fabric_cable {
    /*
     * first end. It is at a switch; if both ends are, it has the lower switch number or, at the
     * same switch, the lower port
     */
    struct topo_at at;
    uint8_t kind; /* kind of the second end: TOPO_END_NODE or TOPO_END_SWITCH */
    union {
        struct topo_at peer; /* second end at a switch */
        struct {
            uint32_t node; /* second end at a node */
            uint32_t link; /* number of the node's link */
        };
    };
};

/** fabric_cable_count - return the number of cables. Cables are numbered from 0. */
uint32_t fabric_cable_count(const struct fabric *fabric);

const struct fabric_cable *fabric_cable(const struct fabric *fabric, uint32_t i);

/**
 * fabric_cable_at - return the cable at a port of a switch; TOPO_NONE: none.
 * fabric_cable_of() - return the cable at a link of a node; TOPO_NONE: none.
 */
uint32_t fabric_cable_at(const struct fabric *fabric, uint32_t sw, uint32_t port);
uint32_t fabric_cable_of(const struct fabric *fabric, uint32_t node, uint32_t link);

/**
 * fabric_has_links - return whether links can lose their signal. This requires acknowledgments or
 * link-level retry, which send lost packets again.
 */
bool fabric_has_links(const struct fabric *fabric);

/**
 * fabric_can_reroute - return whether new tables can be published while traffic runs. With
 * acknowledgments, the sources then retransmit the packets under way that have no route in the new
 * tables. Otherwise fabric_reroute_in_flight() reroutes them.
 */
bool fabric_can_reroute(const struct fabric *fabric);

/**
 * fabric_link_set - take a cable's link down or up at @now_ps, at both ends. Packets on the wire
 * are lost if fabric_has_links(). Routing tables do not change until fabric_reroute(). @fault: the
 * fault that did this, for the log; 0: none. @hit: receives the number of packets lost on the wire.
 * Errors: -ENOMEM; -ENOTSUP, fabric_can_fail() or fabric_can_reroute() is false. Thread: manager,
 * between fabric_pause() and fabric_resume().
 */
int fabric_link_set(struct fabric *fabric, uint32_t cable, bool up, uint32_t fault, uint64_t now_ps,
                    uint32_t *hit);

/**
 * fabric_link_quiet - return whether a cable that is down has no old packets left, on the wire or
 * in the buffers of its ends. Checks only the ends on this host. Thread: manager, between
 * fabric_pause() and fabric_resume().
 */
bool fabric_link_quiet(const struct fabric *fabric, uint32_t cable);

/** fabric_link_is_out - return whether the last fabric_link_set() took the cable out of use. */
bool fabric_link_is_out(const struct fabric *fabric, uint32_t cable);

/** fabric_cable_is_routed - return whether the routing tables in force use the cable. */
bool fabric_cable_is_routed(const struct fabric *fabric, uint32_t cable);

/**
 * fabric_cable_try - test a cable that is out of use. In each direction whose receiving end is on
 * this host, simulate @packets test packets, which the faults of the cable hit at random. Returns
 * the number of errors and losses in the worse direction. Thread: manager; holds the workers
 * itself.
 */
uint32_t fabric_cable_try(struct fabric *fabric, uint32_t cable, uint32_t packets);

/**
 * fabric_traps - return the number of unicasts so far for which switch @sw had no route. With
 * acknowledgments the switch sends NACKs for such unicasts; otherwise they wait in the switch. @to:
 * receives the destination of the last one. Thread: manager.
 */
uint64_t fabric_traps(const struct fabric *fabric, uint32_t sw, uint32_t *to);

/** fabric_isolates - return whether the profile has trap=isolate. */
bool fabric_isolates(const struct fabric *fabric);

/**
 * fabric_node_no_link - call when all links of a node have been down for too long. The node's
 * adapter gives up its packets, and its process gets errors. Other adapters retry packets to the
 * node only a few times (engine_cut()). Thread: manager, between fabric_pause() and
 * fabric_resume().
 */
void fabric_node_no_link(struct fabric *fabric, uint32_t node, uint64_t now_ps);

/**
 * fabric_cut_off - call when destinations have been unreachable for too long. From then on adapters
 * retry packets to groups without a tree only a few times. If @partitioned is true, the same holds
 * for packets to nodes without a route. Does nothing without acknowledgments. Returns true if
 * @partitioned or if some group has no tree. Thread: manager; holds the workers itself.
 */
bool fabric_cut_off(struct fabric *fabric, bool partitioned);

/**
 * fabric_node_linked - publish to all processes, for their error messages, whether a link of the
 * node is in use (EMU_INCARNATION_NO_LINK). Thread: manager.
 */
void fabric_node_linked(struct fabric *fabric, uint32_t node, bool linked);

/**
 * fabric_can_fail - return whether faults can be injected on the cable. Without acknowledgments,
 * only cables between switches can fail, because the cable of a node is a host interface.
 */
bool fabric_can_fail(const struct fabric *fabric, uint32_t cable);

/**
 * fabric_faults - return the faults of a direction; create them if needed. NULL: out of memory,
 * fabric_can_fail() is false, or the receiving end is on another host. Thread: manager, workers
 * held.
 */
struct emu_faults *fabric_faults(struct fabric *fabric, uint32_t cable, bool out);

/** fabric_faults_of - return the faults of a direction; NULL: fabric_faults() has created none. */
const struct emu_faults *fabric_faults_of(const struct fabric *fabric, uint32_t cable, bool out);

/**
 * fabric_port_stick - stop the port that sends in a direction of a cable or, if @stuck is false,
 * let it send again. A stuck port loses no segments, and no process is notified of it.
 * Requires fabric_can_fail(). Thread: manager, workers held.
 */
void fabric_port_stick(struct fabric *fabric, uint32_t cable, bool out, bool stuck,
                       uint64_t now_ps);

/**
 * fabric_port_waiting - return the number of entries that wait at the port that sends in a
 * direction of a cable. At a switch these are segments; at an adapter, packets that no other link
 * can take. Unless @fault is 0, log them as hit by this fault. Thread: manager, workers held.
 */
uint32_t fabric_port_waiting(const struct fabric *fabric, uint32_t cable, bool out, uint32_t fault,
                             uint64_t now_ps);

/** fabric_combiners - return how many combiners (switches or adapters) all hosts have. */
uint32_t fabric_combiners(const struct fabric *fabric);

/**
 * fabric_combine_faults - return the fault rules about contributions to combiner @i, a switch or a
 * node (emu_faults_fold()); create them if needed. NULL: out of memory, or the combiner is on
 * another host.
 * fabric_combine_faults_of() - return the rules, or NULL if none were created. The log identifies
 * combiner @i as cable 2 * fabric_cable_count() + @i. Thread: manager, workers held.
 */
struct emu_faults *fabric_combine_faults(struct fabric *fabric, uint32_t i);
uint32_t fabric_combiner_host(const struct fabric *fabric, uint32_t i);
bool fabric_combiner_is_here(const struct fabric *fabric, uint32_t i); /* on this host */
const struct emu_faults *fabric_combine_faults_of(const struct fabric *fabric, uint32_t i);

/**
 * fabric_combine_stall - stop the combine units of switch @sw or, if @stalled is false, restart
 * them. Errors: -ENOMEM. Thread: manager, workers held.
 */
int fabric_combine_stall(struct fabric *fabric, uint32_t sw, bool stalled, uint64_t now_ps);

/*
 * Kinds of losses. They include the events that a combine unit goes out of service or comes back.
 */
enum fabric_drop_kind {
    FABRIC_LOST_SEGMENT, /* a unicast overran the receiving buffer of a cable */
    /* a segment of a group overran the receiving buffer of a cable: the group has failed */
    FABRIC_LOST_OF_GROUP,
    FABRIC_UNIT_DAMAGED, /* a combine unit found a damaged partial result: a group has failed */
    FABRIC_UNIT_GAVE_UP, /* a combine unit gave up a packet: a group has failed */
    FABRIC_LEFT_GAVE_UP, /* an adapter gave up a packet of a group that its node has left */
    /* a group has failed, because a combine unit of its tree was taken out of service */
    FABRIC_UNIT_STUCK,
    FABRIC_UNIT_OUT, /* a combine unit was taken out of service */
    FABRIC_UNIT_BACK /* a combine unit works again and is back in service, empty */
};

struct fabric_drop {
    enum fabric_drop_kind what;
    uint32_t cable; /* FABRIC_LOST_*: cable on which the segment was lost */
    bool out;       /* FABRIC_LOST_*: direction on this cable */
    uint32_t sw;    /* FABRIC_UNIT_*: switch of the unit */
    /*
     * FABRIC_LOST_SEGMENT: source and destination; FABRIC_LEFT_GAVE_UP: `from` is the node that has
     * left
     */
    uint32_t from, to;
    /* incarnations of the processes at these nodes; 0: unknown */
    uint64_t from_incarnation, to_incarnation;
    uint32_t group; /* group that has failed */
    uint32_t moved; /* FABRIC_UNIT_OUT: number of groups that were moved to other trees */
    /* FABRIC_LOST_SEGMENT: number of further losses between the same processes */
    uint32_t more;
    uint64_t found_ns; /* emu_now_ns() when a scan found the loss, or the last of these losses */
};

/**
 * fabric_drops_find - scan the devices for losses and queue them. If contributions have waited for
 * the combine units of a switch for @bound_ps, and the units have done nothing, take the units out
 * of service; if it is EMU_NEVER, leave them in service. Call this a few times per @bound_ps.
 * fabric_drop_take() - take the next loss from the queue; false: the queue is empty.
 * fabric_drops_left() - return the length of the queue. A failed group cannot recover: its members
 * have to leave it. Thread of these three: manager, while the workers run.
 * fabric_drop_host() - return the host whose device has found a loss. The nodes, switch and cable
 * of the loss must exist. Pure.
 */
void fabric_drops_find(struct fabric *fabric, uint64_t now_ps, uint64_t bound_ps);
bool fabric_drop_take(struct fabric *fabric, struct fabric_drop *ret);
uint32_t fabric_drops_left(const struct fabric *fabric);
uint32_t fabric_drop_host(const struct fabric *fabric, const struct fabric_drop *drop);

/**
 * fabric_combine_waiting - return the number of contributions that wait at the combine units of a
 * switch. If these units are link engines, return the number of results that wait. Unless @fault is
 * 0, log each of them as hit by this fault. Thread: manager, workers held.
 */
uint32_t fabric_combine_waiting(const struct fabric *fabric, uint32_t sw, uint32_t fault,
                                uint64_t now_ps);

/**
 * fabric_combine_exhaust - if @exhausted is true, refuse combine states in switch @sw to new groups
 * from now on, as if existing groups had reserved all of them; if it is false, end this. Existing
 * groups keep their states.
 * fabric_combine_refused() - return the number of groups that were refused for this reason.
 */
void fabric_combine_exhaust(struct fabric *fabric, uint32_t sw, bool exhausted);
uint64_t fabric_combine_refused(const struct fabric *fabric, uint32_t sw);

/** fabric_retries - return whether cables between switches have link-level retry. */
bool fabric_retries(const struct fabric *fabric);

/**
 * fabric_wire_slow - let a byte take @factor / 1000 times its normal time on a direction of a
 * cable. 1000 restores the normal time, which follows from the profile and, with
 * config.link_rates, from the cable's rate. Errors: -ENOMEM. Thread: manager, workers held.
 */
int fabric_wire_slow(struct fabric *fabric, uint32_t cable, bool out, uint32_t factor);

/* State of the sending end of one direction of a cable. */
struct fabric_port {
    bool ready;    /* the port has something to send and a credit for it */
    bool idle;     /* no worker has stepped its device since the last sample: ignore `ready` */
    uint64_t sent; /* segments since the start */
};

/**
 * fabric_port_is_stuck - return whether the port that sends in a direction is stuck.
 * fabric_port_sample() - sample this port. Both require fabric_can_fail(). Thread: manager, workers
 * held.
 */
bool fabric_port_is_stuck(const struct fabric *fabric, uint32_t cable, bool out);
struct fabric_port fabric_port_sample(struct fabric *fabric, uint32_t cable, bool out,
                                      uint64_t now_ps);

/**
 * fabric_hit_take - take the next hit of a fault from the logs; hits of the same worker are
 * returned in order. False: the logs are empty. The logs contain the hits of rules
 * (emu_faults_add()), and the losses on links that fabric_link_set() took down because of a fault.
 */
bool fabric_hit_take(struct fabric *fabric, struct emu_fault_hit *ret);

/** fabric_hits_missed - return how many hits were lost because a log was full. */
uint64_t fabric_hits_missed(const struct fabric *fabric);

/** fabric_is_faulty - return whether a cable had faults, or fabric_expect_faults() was called. */
bool fabric_is_faulty(const struct fabric *fabric);
void fabric_expect_faults(struct fabric *fabric);

/**
 * fabric_reroute - while traffic runs, publish new routing tables in all switches for the network
 * without the cables for which @routed is false, and new trees for groups that used one of them.
 * @partitioned: receives the number of pairs without a route. A pair consists of a switch that has
 * nodes, and of a destination node.
 * @treeless: called for each group whose tree has lost a link, if no other tree is possible now.
 * Adapters retry the packets of such a group up to profile->retry_limit times. Errors: -ENOMEM;
 * -E2BIG, the new tables would exceed a limit of topo_route_graph(). On an error the old tables
 * stay in force. Thread: manager.
 */
int fabric_reroute(struct fabric *fabric, const bool *routed, uint64_t now_ps,
                   uint64_t *partitioned, void (*treeless)(void *ctx, uint32_t group), void *ctx);

/** fabric_replanned - return how many trees so far have lost a link and were replaced. */
uint64_t fabric_replanned(const struct fabric *fabric);

/**
 * fabric_replans_pending - return the number of groups that keep a tree with a lost link until they
 * are idle.
 * fabric_replan() - replace the trees of the pending groups that are idle now. fabric_reroute()
 * calls it. Thread: manager.
 */
uint32_t fabric_replans_pending(const struct fabric *fabric);
void fabric_replan(struct fabric *fabric, uint64_t now_ps,
                   void (*treeless)(void *ctx, uint32_t group), void *ctx);

/*
 * Maximum number of segments that one call of fabric_reroute_in_flight() takes from each end of a
 * link.
 */
#define FABRIC_REROUTE_IN_FLIGHT_MOST 16u

/**
 * fabric_can_reroute_in_flight - return whether segments that wait for a link that is down can be
 * rerouted in flight.
 * fabric_needs_replans() - return whether the manager must call fabric_reroute_in_flight() and
 * fabric_replan() repeatedly as long as any link is down, because new tables alone do not help the
 * segments and operations that are under way.
 */
bool fabric_can_reroute_in_flight(const struct fabric *fabric);
bool fabric_needs_replans(const struct fabric *fabric);

/**
 * fabric_reroute_in_flight - take segments that wait in switches for a cable that is down, and send
 * them by another route of the tables in force (in_flight.c). Moves at most
 * FABRIC_REROUTE_IN_FLIGHT_MOST per end and call. Returns how many segments it moved. Thread:
 * manager, between fabric_pause() and fabric_resume().
 */
uint32_t fabric_reroute_in_flight(struct fabric *fabric, uint32_t cable, uint64_t now_ps);

/**
 * fabric_reroute_in_flight_all - call fabric_reroute_in_flight() for all cables that are out of
 * use.
 * fabric_reroute_in_flight_remote() - let all other hosts call it, if this is the coordinator. Both
 * return how many segments were moved. Thread: manager, while the workers run.
 */
uint32_t fabric_reroute_in_flight_all(struct fabric *fabric, uint64_t now_ps);
uint64_t fabric_reroute_in_flight_remote(struct fabric *fabric);

/**
 * fabric_reaches - return whether the tables in force have a route from node @from to node @to that
 * avoids severed cables (fabric_sever()). Thread: manager.
 */
bool fabric_reaches(const struct fabric *fabric, uint32_t from, uint32_t to);

/**
 * fabric_drop_unreachable - set whether fabric_reroute_in_flight() drops segments whose source
 * cannot reach their destination, and segments of groups whose members cannot reach each other. By
 * default such segments wait.
 * fabric_dropped_unreachable() - return how many segments it has dropped. Thread: manager.
 */
void fabric_drop_unreachable(struct fabric *fabric, bool drops);
uint64_t fabric_dropped_unreachable(const struct fabric *fabric);

/**
 * fabric_assume_reachable - set whether fabric_reroute_in_flight() acts as if all destinations were
 * reachable. This breaks a deadlock: a link can come up only after its old segments have left
 * (fabric_link_quiet()), and these may wait for a route over the same link. Thread: manager.
 */
void fabric_assume_reachable(struct fabric *fabric, bool reachable);

#endif
