/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stalls.h - find out why a run has stalled: which operations of processes are pending, which
 * contributions to a collective are missing, and which links have something to send but do not
 * send.
 *
 * A *contribution* is one member's operand of a collective. The segments of a group's collectives
 * are numbered. Each member sends one contribution to each of these segments. On the coordinator of
 * several hosts, functions that need held workers let the workers run during queries.
 */
#ifndef APPS_FABRIC_STALLS_H
#define APPS_FABRIC_STALLS_H

#include "apps/fabric/fabric.h"

struct emu_mismatch;
struct emu_pending;

/**
 * fabric_pending - read and check which operations the process at @node reports as pending
 * (emu/hostif/pending.h). A process on another host may only report a mismatch between members of
 * one of its groups. False: there is no process, or no report yet. Thread: manager.
 */
bool fabric_pending(const struct fabric *fabric, uint32_t node, struct emu_pending *ret);

/* The state of one member's contribution to one segment of a group. */
struct fabric_contribution {
    uint32_t node; /* the member */
    bool known;    /* the group has a tree that includes the member */
    bool arrived;
    /* switch at which it has arrived or should arrive; TOPO_NONE: the node's adapter */
    uint32_t sw;
    uint32_t port; /* port of that switch */
};

/* The contributions to one segment of a group that have arrived at one switch or node. */
struct fabric_arrived {
    uint32_t at; /* the switch; if adapters combine, the node */
    /*
     * at a switch: the ports at which contributions have arrived; at a node: port 0 stands for its
     * own contribution
     */
    emu_ports ports;
};

/**
 * fabric_arrived - find the contributions to segment @seq of group @id that have arrived where this
 * host combines them. Writes at most @max switches or nodes to @ret; returns how many it wrote.
 * Thread: as fabric_contributions().
 */
uint32_t fabric_arrived(const struct fabric *fabric, uint32_t id, uint32_t seq,
                        struct fabric_arrived *ret, uint32_t max);

/**
 * fabric_arrived_is_on - return whether @at, which may not exist, is a switch or node on @host that
 * combines contributions to group @id. Only this host may report on contributions that have arrived
 * there.
 */
bool fabric_arrived_is_on(const struct fabric *fabric, uint32_t id, uint32_t at, uint32_t host);

/**
 * fabric_contributions - find out for each member whether its contribution to segment @seq of group
 * @id has arrived. Writes at most @max members to @ret; returns how many it wrote. Thread: manager,
 * between fabric_pause() and fabric_resume().
 */
uint32_t fabric_contributions(struct fabric *fabric, uint32_t id, uint32_t seq,
                              struct fabric_contribution *ret, uint32_t max);

/* A partial result that has left one switch of a group's tree and has not arrived at the next. */
struct fabric_gap {
    uint32_t from;     /* switch that has sent it */
    uint32_t sw, port; /* switch and port at which it has not arrived */
};

/**
 * fabric_gaps - find partial results of segment @seq of group @id that one switch has sent and the
 * next has not received. Writes at most @max; returns their number. Thread: manager, workers held.
 */
uint32_t fabric_gaps(struct fabric *fabric, uint32_t id, uint32_t seq, struct fabric_gap *ret,
                     uint32_t max);

/**
 * fabric_mismatch - return two contributions to one collective of group @id that disagree, for
 * example in operation or length. NULL: none. Valid until fabric_resume() or the next call of this
 * function. Thread: as fabric_contributions().
 */
const struct emu_mismatch *fabric_mismatch(struct fabric *fabric, uint32_t id);

/**
 * fabric_has_group - return whether @host has, or had, a member or a switch of the tree of group
 * @id, or the group was freed while a report on it was under way. Only such a host may report on
 * the group's collectives.
 */
bool fabric_has_group(const struct fabric *fabric, uint32_t id, uint32_t host);

/**
 * fabric_mismatch_names - return whether both contributions of a mismatch come from members of
 * group @id, or from devices that combine for it. All fields may be forged.
 */
bool fabric_mismatch_names(const struct fabric *fabric, uint32_t id,
                           const struct emu_mismatch *mismatch);

enum fabric_wait {
    FABRIC_WAITS_CREDIT,  /* the sender has no credit because the receiver has no space */
    FABRIC_WAITS_PROCESS, /* the host interface is full because its process reads no segments */
    FABRIC_WAITS_PORT,    /* the port has a segment and a credit for it, and does not send */
    FABRIC_WAITS_REPLY    /* packets were sent, and no reply has arrived */
};

/* A link that waits, and has sent nothing for at least a second. */
struct fabric_stall {
    uint32_t node; /* the node at one end; TOPO_NONE: the link is between two switches */
    uint32_t sw;   /* the switch at one end; TOPO_NONE: the node's adapter is at this end */
    uint32_t port; /* port of the switch, or number of the node's link */
    enum fabric_wait wait;
    uint64_t since_ns; /* emu_now_ns() at the last sample at which it had sent new segments */
};

/**
 * fabric_stall_is_on - return whether a stall is possible, and whether @host may report it: its
 * node or, if it has none, its switch must be on @host. A switch beside a node must be the one at
 * the node's link. All fields may be forged.
 */
bool fabric_stall_is_on(const struct fabric *fabric, const struct fabric_stall *stall,
                        uint32_t host);

/**
 * fabric_stalls_sample - record for each link whether it has sent since the last sample. Call about
 * once a second. Errors: -ENOMEM. Thread: manager.
 */
int fabric_stalls_sample(struct fabric *fabric, uint64_t now_ns);

/**
 * fabric_stalls - find the links that wait and have sent nothing for a second. Writes at most @max
 * to @ret; returns how many there are. Thread: as fabric_contributions().
 */
uint32_t fabric_stalls(struct fabric *fabric, uint64_t now_ns, struct fabric_stall *ret,
                       uint32_t max);

#endif
