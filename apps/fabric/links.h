/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - the cables of a running fabric, what goes wrong on them and where is combined, and what
 * follows: tables and trees made anew, what waits carried, who is told.
 */
#ifndef APPS_FABRIC_LINKS_H
#define APPS_FABRIC_LINKS_H

#include "apps/fabric/fabric.h"

struct emu_fault_hit;
struct emu_faults;

/* A cable of the network: two links, one each way. */
struct fabric_cable {
    struct topo_at at; /* its end at a switch; of two, that of the lower number, then port */
    uint8_t kind;      /* of the other end: TOPO_END_NODE or TOPO_END_SWITCH */
    union {
        struct topo_at far; /* of a switch */
        struct {
            uint32_t node;
            uint32_t link; /* of the node's */
        };
    };
};

/** fabric_cable_count - how many there are; they are numbered from 0. */
uint32_t fabric_cable_count(const struct fabric *fabric);

/** fabric_cable - cable @i of them. */
const struct fabric_cable *fabric_cable(const struct fabric *fabric, uint32_t i);

/**
 * fabric_cable_at, fabric_cable_of - the cable at a switch's port, or at a node's link; TOPO_NONE:
 * nothing is plugged in there, or there is no such port.
 */
uint32_t fabric_cable_at(const struct fabric *fabric, uint32_t sw, uint32_t port);
uint32_t fabric_cable_of(const struct fabric *fabric, uint32_t node, uint32_t link);

/**
 * fabric_has_links - can its links go down? What is lost with them is mended where packets are
 * acknowledged, or cables have link-level retry; else by nothing.
 */
bool fabric_has_links(const struct fabric *fabric);

/**
 * fabric_can_reroute - can new tables be published while traffic runs? What is under way where they
 * have no way on is sent again where packets are acknowledged, and else carried (fabric_carry()).
 */
bool fabric_can_reroute(const struct fabric *fabric);

/**
 * fabric_link_set - the cable loses its signal, or has it again: both ends know at @now_ps. What is
 * on the wire is lost. Tables stay as they are: fabric_reroute(). @fault: whose doing it is,
 * for the log; 0: nobody's. @hit: packets under way on it, which are lost. Errors: -ENOMEM;
 * -ENOTSUP, not fabric_can_fail().
 * Thread: manager, between fabric_hold() and fabric_go().
 */
int fabric_link_set(struct fabric *fabric, uint32_t cable, bool up, uint32_t fault, uint64_t now_ps,
                    uint32_t *hit);

/**
 * fabric_link_quiet - has all of its past left a cable that is down? Then it may come up again.
 * Thread: as above.
 */
bool fabric_link_quiet(const struct fabric *fabric, uint32_t cable);

/** fabric_link_is_out - is the cable not in use, as fabric_link_set() had it last? */
bool fabric_link_is_out(const struct fabric *fabric, uint32_t cable);

/** fabric_cable_is_routed - do the tables in force know it? */
bool fabric_cable_is_routed(const struct fabric *fabric, uint32_t cable);

/**
 * fabric_cable_try - send @packets pseudo-random ones each way of a cable that is not in use, to
 * the ends that are here: how many arrive with an error, or do not, the worse way.
 * Thread: manager; it holds the workers itself.
 */
uint32_t fabric_cable_try(struct fabric *fabric, uint32_t cable, uint32_t packets);

/**
 * fabric_traps - unicasts that switch @sw had no way for, so far: refused where packets are
 * acknowledged, else held. @to: where the last of them was to go. Thread: manager.
 */
uint64_t fabric_traps(const struct fabric *fabric, uint32_t sw, uint32_t *to);

/** fabric_isolates - does the profile say trap=isolate? */
bool fabric_isolates(const struct fabric *fabric);

/**
 * fabric_node_alone - no link of the node has been up for too long: what its adapter has to send is
 * given up, and its process is told; what others have to send to it has few tries (engine_cut()).
 * Thread: as above.
 */
void fabric_node_alone(struct fabric *fabric, uint32_t node, uint64_t now_ps);

/**
 * fabric_cut_off - the network has been in pieces for too long: what adapters have to send to
 * groups that can have no tree, and if @parted to nodes that the tables have no way to, has few
 * tries. Without acknowledgments it waits. Returns whether there is any such. Thread: manager; it
 * holds the workers itself.
 */
bool fabric_cut_off(struct fabric *fabric, bool parted);

/**
 * fabric_node_linked - is a link of the node in use? All processes can see it (EMU_SEAT_NO_LINK),
 * so that an error can say so. Thread: manager.
 */
void fabric_node_linked(struct fabric *fabric, uint32_t node, bool linked);

/**
 * fabric_can_fail - can anything be made to go wrong on the cable? Without acknowledgments on those
 * between switches only: a node's cable leads to its process.
 */
bool fabric_can_fail(const struct fabric *fabric, uint32_t cable);

/**
 * fabric_faults - what goes wrong on the cable, on its way from (@out) or to its first end.
 * NULL: there is no memory, or nothing can. Thread: as above.
 */
struct emu_faults *fabric_faults(struct fabric *fabric, uint32_t cable, bool out);

/** fabric_faults_of - the same, where anything was made to go wrong on it; else NULL. */
const struct emu_faults *fabric_faults_of(const struct fabric *fabric, uint32_t cable, bool out);

/**
 * fabric_port_stick - the port that sends on the cable from (@out) or to its first end sends
 * nothing from now on; not @stuck: it goes on. Nobody is told, and nothing is lost. Of a cable that
 * fabric_can_fail(). Thread: as above.
 */
void fabric_port_stick(struct fabric *fabric, uint32_t cable, bool out, bool stuck,
                       uint64_t now_ps);

/**
 * fabric_port_waiting - what waits at that port: segments at a switch, packets at an adapter that
 * has no other link for them. Each is logged as hit by @fault; 0: none is. Thread: as above.
 */
uint32_t fabric_port_waiting(const struct fabric *fabric, uint32_t cable, bool out, uint32_t fault,
                             uint64_t now_ps);

/**
 * fabric_combiners - so many combine: all switches; or, where these do not, all nodes' adapters. 0:
 * nothing does.
 */
uint32_t fabric_combiners(const struct fabric *fabric);

/**
 * fabric_combine_faults - rules about contributions that combiner @i folds: emu_faults_fold().
 * NULL: there is no memory. fabric_combine_faults_of(): the same, where there were any; else NULL.
 * In the log its cable is 2 * fabric_cable_count() + @i. Thread: as above.
 */
struct emu_faults *fabric_combine_faults(struct fabric *fabric, uint32_t i);
bool fabric_combiner_is_here(const struct fabric *fabric, uint32_t i); /* else on another host */
const struct emu_faults *fabric_combine_faults_of(const struct fabric *fabric, uint32_t i);

/**
 * fabric_combine_stall - the combine units of switch @sw stand still; not @stalled: they go on.
 * Errors: -ENOMEM. Thread: as above.
 */
int fabric_combine_stall(struct fabric *fabric, uint32_t sw, bool stalled, uint64_t now_ps);

/* What is lost for good where nothing is sent again, and what became of who waited for it. */
enum fabric_lost {
    FABRIC_LOST_SEGMENT,  /* a unicast found no room at the far end of a cable; */
    FABRIC_LOST_OF_GROUP, /* a group's: it has failed */
    FABRIC_UNIT_DAMAGED, /* a combine unit has found a partial result damaged: a group has failed */
    FABRIC_UNIT_GAVE_UP, /* a combine unit had to give up what it sent: a group has failed */
    FABRIC_LEFT_GAVE_UP, /* of a node that has left its group: the group has failed */
    FABRIC_UNIT_STUCK,   /* a combine unit is out of service: a group has failed */
    FABRIC_UNIT_OUT,     /* the same: it has just been taken out of service */
    FABRIC_UNIT_BACK     /* it does something again, and is back in service, empty */
};

struct fabric_loss {
    enum fabric_lost what;
    uint32_t cable; /* of a segment; and which way: from its first end? */
    bool out;
    uint32_t sw;       /* of a unit */
    uint32_t from, to; /* FABRIC_LOST_SEGMENT: nodes; FABRIC_LEFT_GAVE_UP: @from has left */
    uint64_t from_seat, to_seat; /* of the processes there whose it was; 0: not known */
    uint32_t group;              /* that has failed */
    uint32_t moved;              /* FABRIC_UNIT_OUT: groups that have other trees now */
    uint32_t more;               /* FABRIC_LOST_SEGMENT: so many more of the same two processes */
    uint64_t found_ns; /* emu_now_ns() when the last of them was found, before which it happened */
};

/**
 * fabric_losses_look - look for such losses. Combine units of switches for which
 * something has waited for @bound_ps, and that have done nothing, are taken out of service. To be
 * called a few times in @bound_ps, which is EMU_NEVER if they may stand still without limit.
 * fabric_loss_take - what was found, one after the other, each once; false: that was all.
 * fabric_losses_left() - so many are found and not taken.
 * A group that has failed stays failed: its members are to leave it.
 * Thread: manager, workers run.
 */
void fabric_losses_look(struct fabric *fabric, uint64_t now_ps, uint64_t bound_ps);
bool fabric_loss_take(struct fabric *fabric, struct fabric_loss *ret);
uint32_t fabric_losses_left(const struct fabric *fabric);

/**
 * fabric_combine_waiting - what waits at them: contributions; results, where units are link
 * engines. Each is logged as hit by @fault; 0: none is. Thread: as above.
 */
uint32_t fabric_combine_waiting(const struct fabric *fabric, uint32_t sw, uint32_t fault,
                                uint64_t now_ps);

/**
 * fabric_combine_exhaust - no group that is made from now on finds states in switch @sw: it is
 * refused as if all were taken. Those that are have theirs, set aside for them.
 * fabric_combine_refused(): so many groups were.
 */
void fabric_combine_exhaust(struct fabric *fabric, uint32_t sw, bool exhausted);
uint64_t fabric_combine_refused(const struct fabric *fabric, uint32_t sw);

/** fabric_retries - do cables between switches send again what was lost on them? */
bool fabric_retries(const struct fabric *fabric);

/**
 * fabric_wire_slow - where that is so, a byte takes @factor / 1000 times as long on that way of the
 * cable; 1000: as long as the profile says. Errors: -ENOMEM. Thread: as above.
 */
int fabric_wire_slow(struct fabric *fabric, uint32_t cable, bool out, uint32_t factor);

/* What the sending end of a way of a cable is about. */
struct fabric_port {
    bool ready; /* it has something that it could send now; not if it waits for room */
    bool idle;  /* its device has not been stepped since this was asked last: it proves nothing */
    uint64_t sent; /* in all */
};

/**
 * fabric_port_is_stuck - is it? fabric_port_look() - what is it about? Of a cable that
 * fabric_can_fail(), between fabric_hold() and fabric_go(). Thread: as above.
 */
bool fabric_port_is_stuck(const struct fabric *fabric, uint32_t cable, bool out);
struct fabric_port fabric_port_look(struct fabric *fabric, uint32_t cable, bool out,
                                    uint64_t now_ps);

/**
 * fabric_hit_take - the next of the entries that faults have hit, in the order of each worker's;
 * false: there is none. Hits are logged of rules (emu_faults_add()), and of cables that are down by
 * a fault with a number.
 */
bool fabric_hit_take(struct fabric *fabric, struct emu_fault_hit *ret);

/** fabric_hits_missed - hits that were not logged, since nobody took them in time. */
uint64_t fabric_hits_missed(const struct fabric *fabric);

/**
 * fabric_is_faulty - was anything made to go wrong on any cable? fabric_expect_faults(): it may be
 * from now on, on those of other hosts.
 */
bool fabric_is_faulty(const struct fabric *fabric);
void fabric_expect_faults(struct fabric *fabric);

/**
 * fabric_reroute - new tables in all switches, for the network without the cables of which @routed
 * says false, while traffic runs; and trees of groups that went by one of them grow anew.
 * @parted: pairs of a switch with nodes and a destination that no route joins now.
 * @treeless: called for each group that has lost its tree, and can have no other for now: its
 *            adapters try on until profile->retry_limit.
 * Errors, the old tables are in force: -ENOMEM, -E2BIG. Thread: manager.
 */
int fabric_reroute(struct fabric *fabric, const bool *routed, uint64_t now_ps, uint64_t *parted,
                   void (*treeless)(void *ctx, uint32_t group), void *ctx);

/** fabric_regrown - trees that lost a link, and that others have taken the place of, in all. */
uint64_t fabric_regrown(const struct fabric *fabric);

/**
 * fabric_ungrown - groups whose trees have a lost link, and will have others when nothing of them
 * is under way. fabric_regrow() - look whether it is so, as a part of fabric_reroute().
 * Thread: manager.
 */
uint32_t fabric_ungrown(const struct fabric *fabric);
void fabric_regrow(struct fabric *fabric, uint64_t now_ps,
                   void (*treeless)(void *ctx, uint32_t group), void *ctx);

#define FABRIC_CARRY_MOST 16u /* segments that fabric_carry() takes from each end of a link */

/**
 * fabric_can_carry - can what waits for a link that is down be carried another way?
 * fabric_must_tend() - is there more to be done for a link that is down than new tables, again and
 * again: fabric_carry(), fabric_regrow()?
 */
bool fabric_can_carry(const struct fabric *fabric);
bool fabric_must_tend(const struct fabric *fabric);

/**
 * fabric_carry - what switches hold for a link between them that is down leaves another way, as far
 * as there is one by the tables in force, some of it a call: carry.c. Returns segments that left.
 * Thread: manager, between fabric_hold() and fabric_go().
 */
uint32_t fabric_carry(struct fabric *fabric, uint32_t cable, uint64_t now_ps);

/**
 * fabric_carry_all - fabric_carry() of all cables that are out; fabric_carry_far() - on all other
 * hosts, if this one governs. Returns segments that left. Thread: manager, workers run.
 */
uint32_t fabric_carry_all(struct fabric *fabric, uint64_t now_ps);
uint32_t fabric_carry_far(struct fabric *fabric);

/**
 * fabric_reaches - does a way lead from node @from to node @to, by the tables in force?
 * Thread: manager.
 */
bool fabric_reaches(const struct fabric *fabric, uint32_t from, uint32_t to);

/**
 * fabric_part - what fabric_carry() finds that is for a node which its own cannot reach, or for a
 * group with members that cannot reach each other, is dropped from now on; not @drops: it waits, as
 * at first. fabric_parted() - segments that were dropped so. Thread: manager.
 */
void fabric_part(struct fabric *fabric, bool drops);
uint64_t fabric_parted(const struct fabric *fabric);

/**
 * fabric_ease - for now it is carried as if there were a way: a link that is to be up again waits
 * for what is before it (fabric_link_quiet()), which may wait for a way by that very link.
 * Thread: manager.
 */
void fabric_ease(struct fabric *fabric, bool eases);

#endif
