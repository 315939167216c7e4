/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stalls.h - what stands still in a running fabric, and what it waits for.
 */
#ifndef APPS_FABRIC_STALLS_H
#define APPS_FABRIC_STALLS_H

#include "apps/fabric/fabric.h"

struct emu_clash;
struct emu_pending;

/*
 * On several hosts the governor's fabric tells of all: it asks the others, and lets its workers go
 * while it does.
 */

/**
 * fabric_pending - what the process at @node says it has pending, checked (emu/hostif/pending.h).
 * False: nobody is there, or it has not said anything yet. Thread: manager.
 */
bool fabric_pending(const struct fabric *fabric, uint32_t node, struct emu_pending *ret);

/* A member's contribution to one segment of a group's stream. */
struct fabric_part {
    uint32_t node;
    bool known; /* the group has a tree, and the member is in it: */
    bool came;
    uint32_t sw;   /* where it comes, or is missing; TOPO_NONE: at the node's adapter */
    uint32_t port; /* of that switch */
};

/* What has come of such a segment to where it is combined. */
struct fabric_came {
    uint32_t at; /* a switch; where adapters combine, a node */
    /* at a switch: the ports whose contributions have arrived; at a node: port 0 for its own */
    emu_ports ports;
};

/**
 * fabric_came - what has come of segment @seq of group @id, on this host alone. Returns the count
 * of switches or nodes, writes at most @max. Thread: as fabric_parts().
 */
uint32_t fabric_came(const struct fabric *fabric, uint32_t id, uint32_t seq,
                     struct fabric_came *ret, uint32_t max);

/**
 * fabric_parts - where the members' contributions to segment @seq of group @id are. Returns their
 * count, writes at most @max. Thread: manager, between fabric_hold() and fabric_go().
 */
uint32_t fabric_parts(struct fabric *fabric, uint32_t id, uint32_t seq, struct fabric_part *ret,
                      uint32_t max);

/* A partial result that has left one switch of a group's tree and has not come to the next. */
struct fabric_gap {
    uint32_t from;     /* switch */
    uint32_t sw, port; /* where it is missing */
};

/**
 * fabric_gaps - partial results for segment @seq of group @id that are between two switches.
 * Returns their count, writes at most @max. Thread: as fabric_parts().
 */
uint32_t fabric_gaps(struct fabric *fabric, uint32_t id, uint32_t seq, struct fabric_gap *ret,
                     uint32_t max);

/**
 * fabric_clash - two contributions to a collective of group @id that did not agree on what it is;
 * NULL: there were none. Good until fabric_go(), and until it is asked again. Thread: as
 * fabric_parts().
 */
const struct emu_clash *fabric_clash(struct fabric *fabric, uint32_t id);

enum fabric_wait {
    FABRIC_WAITS_CREDIT,  /* the far end has no room */
    FABRIC_WAITS_PROCESS, /* the edge is full: the process does not take its segments */
    FABRIC_WAITS_PORT,    /* the port has something to send, and room for it, and does not */
    FABRIC_WAITS_REPLY    /* packets were sent, and nothing has come back */
};

/* A link that has something to send, or that it waits for, and has not moved. */
struct fabric_stall {
    uint32_t node; /* whose link it is; TOPO_NONE: a switch's */
    uint32_t sw;   /* the switch at one end of it; TOPO_NONE: the node's adapter is */
    uint32_t port; /* of the switch, or number of the node's link */
    enum fabric_wait wait;
    uint64_t since_ns;
};

/**
 * fabric_stalls_look - note how far each link is: a stall is what has not moved since. Call about
 * once a second. Errors: -ENOMEM. Thread: manager.
 */
int fabric_stalls_look(struct fabric *fabric, uint64_t now_ns);

/**
 * fabric_stalls - links that wait, and have not moved for a second. Returns their count, writes at
 * most @max. Thread: as fabric_parts().
 */
uint32_t fabric_stalls(struct fabric *fabric, uint64_t now_ns, struct fabric_stall *ret,
                       uint32_t max);

#endif
