/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.h - what all processes of a fabric have communicated: collectives by kind and size, messages
 * by pair of nodes. Read from the edges (emu/edge/comm.h), those that are gone too.
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
#include "apps/fabric/told.h"

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
