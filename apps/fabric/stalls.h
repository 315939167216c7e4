/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stalls.h - diagnosis of stalls: pending operations, missing contributions, links that do not
 * move.
 *
 * The coordinator's functions query the other hosts, too, and let the workers run meanwhile.
 */
#ifndef APPS_FABRIC_STALLS_H
#define APPS_FABRIC_STALLS_H

#include "apps/fabric/fabric.h"

struct emu_mismatch;
struct emu_pending;

/**
 * fabric_pending - read and check which operations the process at @node reports as pending
 * (emu/hostif/pending.h). False: there is no process, or no report yet. Thread: manager.
 */
bool fabric_pending(const struct fabric *fabric, uint32_t node, struct emu_pending *ret);

/* A member's contribution to one segment of a group's stream. */
struct fabric_contribution {
    uint32_t node;
    bool known; /* the group has a tree that includes the member */
    bool arrived;
    uint32_t sw;   /* where it has arrived, or is missing; TOPO_NONE: the node's adapter */
    uint32_t port; /* of that switch */
};

/* Contributions to such a segment that have arrived where they are combined. */
struct fabric_arrived {
    uint32_t at; /* a switch; if adapters combine, a node */
    /* at a switch: the ports whose contributions have arrived; at a node: port 0 for its own */
    emu_ports ports;
};

/**
 * fabric_arrived - contributions to segment @seq of group @id that have arrived on this host.
 * Writes at most @max switches or nodes; returns how many. Thread: as fabric_contributions().
 */
uint32_t fabric_arrived(const struct fabric *fabric, uint32_t id, uint32_t seq,
                        struct fabric_arrived *ret, uint32_t max);

/**
 * fabric_contributions - locate the members' contributions to segment @seq of group @id. Writes at
 * most @max; returns how many. Thread: manager, between fabric_pause() and fabric_resume().
 */
uint32_t fabric_contributions(struct fabric *fabric, uint32_t id, uint32_t seq,
                              struct fabric_contribution *ret, uint32_t max);

/* A partial result that has left one switch of a group's tree and has not arrived at the next. */
struct fabric_gap {
    uint32_t from;     /* switch */
    uint32_t sw, port; /* where it is missing */
};

/**
 * fabric_gaps - partial results for segment @seq of group @id that are missing between two
 * switches. Writes at most @max; returns how many there are. Thread: as fabric_contributions().
 */
uint32_t fabric_gaps(struct fabric *fabric, uint32_t id, uint32_t seq, struct fabric_gap *ret,
                     uint32_t max);

/**
 * fabric_mismatch - a mismatch: two contributions to one collective of group @id with different
 * parameters. NULL: none. Valid until fabric_resume() or the next call. Thread: as
 * fabric_contributions().
 */
const struct emu_mismatch *fabric_mismatch(struct fabric *fabric, uint32_t id);

enum fabric_wait {
    FABRIC_WAITS_CREDIT,  /* the receiver has no space */
    FABRIC_WAITS_PROCESS, /* the host interface is full: its process takes no segments */
    FABRIC_WAITS_PORT,    /* the port has something to send, and space for it, and does not send */
    FABRIC_WAITS_REPLY    /* packets were sent, and no reply has arrived */
};

/* A link that has something to send, or waits for a reply, and has not moved. */
struct fabric_stall {
    uint32_t node; /* the link is this node's; TOPO_NONE: a switch's */
    uint32_t sw;   /* the switch at one end; TOPO_NONE: the node's adapter is at it */
    uint32_t port; /* of the switch, or number of the node's link */
    enum fabric_wait wait;
    uint64_t since_ns;
};

/**
 * fabric_stalls_sample - sample each link, about once a second. Errors: -ENOMEM. Thread: manager.
 * */
int fabric_stalls_sample(struct fabric *fabric, uint64_t now_ns);

/**
 * fabric_stalls - links that wait and have not moved for a second. Writes at most @max; returns how
 * many there are. Thread: as fabric_contributions().
 */
uint32_t fabric_stalls(struct fabric *fabric, uint64_t now_ns, struct fabric_stall *ret,
                       uint32_t max);

#endif
