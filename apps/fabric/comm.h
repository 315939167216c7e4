/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.h - what all processes of a fabric have communicated: collectives by kind and size, messages
 * by pair of nodes. Read from the edges (emu/hostif/comm.h), those that are gone too.
 *
 * The pairs are sparse: a node has as many as it has sent to. At most FABRIC_PAIRS_MOST are kept of
 * processes that are gone; what further ones have sent is counted together.
 *
 * Thread: manager. On several hosts who governs knows all; of a collective with members on several
 * it is not known who came last.
 */
#ifndef APPS_FABRIC_COMM_H
#define APPS_FABRIC_COMM_H

#include "apps/fabric/fabric.h"
#include "emu/hostif/comm.h"
#include "emu/hostif/finished.h"

/*
 * Collectives of which all members have told: how long each waited for the last, and how long it
 * took from then on. Members tell one by one, and are read one after the other; what is not
 * complete waits for the rest. Thread: the manager.
 */

/* What was told of some collectives by all of their members: emu/hostif/comm.h says of which. */
struct fabric_told {
    uint64_t calls;    /* of the members of those */
    double weight;     /* calls that these stand for, and so for these sums: */
    double wait_ns;    /* until the last of those had come that a member waits for, */
    double network_ns; /* and from then on */
    uint64_t wait_most_ns, network_most_ns; /* of one call */
};

/** told_whole - a sum as a whole number; what processes make up may be too large for one. Pure. */
static inline uint64_t told_whole(double sum)
{
    return sum < 0x1p63 ? (uint64_t)(sum + 0.5) : UINT64_C(1) << 63;
}

/* What one member told. */
struct told_entry {
    struct emu_finished one;
    uint32_t node;
};

struct told {
    struct told_entry *entry; /* not complete, and not looked at */
    uint32_t count, room, most;
    uint64_t untold; /* entries of collectives of which not all members told, or not in time */
    struct fabric_told sum[EMU_COMM_KINDS][EMU_COMM_SIZES];
};

/** told_open - for a fabric of so many nodes. @told: zeros, before. */
void told_open(struct told *told, uint32_t nodes);
void told_free(struct told *told);

/** told_add - @node has told of one. */
void told_add(struct told *told, uint32_t node, const struct emu_finished *one);

/** told_settle - add up what is complete. */
void told_settle(struct told *told);

/* --- all of it ---------------------------------------------------------------------- */

#define FABRIC_PAIRS_MOST (1u << 20)

/* Messages from one node to another. */
struct fabric_pair {
    uint32_t from, to;
    uint64_t messages, bytes;
};

/* A struct emu_comm_cell, of all processes. */
struct fabric_comm_cell {
    uint64_t calls, bytes, ns, longest_ns;
};

struct fabric_comm {
    struct fabric_comm_cell cell[EMU_COMM_WHERES][EMU_COMM_KINDS][EMU_COMM_SIZES];
    struct fabric_told told[EMU_COMM_KINDS][EMU_COMM_SIZES];
    uint64_t untold;          /* struct told */
    uint32_t nodes;           /* of the network */
    struct fabric_pair *pair; /* by nodes; those of other hosts behind */
    uint32_t pairs;
    uint64_t more_messages, more_bytes; /* between pairs that are not kept */
};

/** fabric_comm_read - up to now. @ret: fabric_comm_free() it. Errors: -ENOMEM; it is zeros then. */
int fabric_comm_read(struct fabric *fabric, struct fabric_comm *ret);
void fabric_comm_free(struct fabric_comm *comm);

/** fabric_comm_tick - take what is told of collectives; once a second or so, or some is missed. */
void fabric_comm_tick(struct fabric *fabric);

/** fabric_comm_leaves - the same of @node, whose edge is about to go, and keep what it counted. */
void fabric_comm_leaves(struct fabric *fabric, uint32_t node);

void fabric_comm_stop(struct fabric *fabric);

#endif
