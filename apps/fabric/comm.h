/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.h - communication of all processes so far: collectives by kind and size, messages by pair of
 * nodes. The counters are in the host interfaces (emu/hostif/comm.h), including past ones.
 *
 * Pairs are sparse: a node has one for each node that it has sent to. At most FABRIC_PAIRS_MOST are
 * kept for processes that have ended; messages of further pairs are counted in one sum.
 *
 * Thread: manager. On several hosts the coordinator knows all, except which member of a collective
 * with members on several hosts arrived last.
 */
#ifndef APPS_FABRIC_COMM_H
#define APPS_FABRIC_COMM_H

#include "apps/fabric/fabric.h"
#include "emu/hostif/comm.h"
#include "emu/hostif/finished.h"

/* Sums over sampled collectives (emu/hostif/comm.h) that all of their members have reported. */
struct fabric_comm_sum {
    uint64_t calls;    /* of members */
    double weight;     /* calls that the sampled calls stand for; the sums below are weighted so */
    double wait_ns;    /* from a member's call until the last member that it waits for arrived */
    double network_ns; /* from then until its call returned */
    uint64_t wait_most_ns, network_most_ns; /* maximum of one call */
};

/** comm_count_of - a sum as an integer, limited since false reports may make it too large. Pure. */
static inline uint64_t comm_count_of(double sum)
{
    return sum < 0x1p63 ? (uint64_t)(sum + 0.5) : UINT64_C(1) << 63;
}

/* Report of one member. */
struct comm_sample {
    struct emu_finished one;
    uint32_t node;
};

struct comm_samples {
    struct comm_sample *entry; /* not yet added up: other members may still report */
    uint32_t count, capacity, most;
    uint64_t unreported; /* entries dropped since other members did not report, or not in time */
    struct fabric_comm_sum sum[EMU_COMM_KINDS][EMU_COMM_SIZES];
};

/** comm_samples_open - set the limit for a fabric of @nodes nodes. @samples: zeros, before. */
void comm_samples_open(struct comm_samples *samples, uint32_t nodes);
void comm_samples_free(struct comm_samples *samples);

/** comm_samples_add - add the report of one collective by @node. */
void comm_samples_add(struct comm_samples *samples, uint32_t node, const struct emu_finished *one);

/** comm_samples_settle - add up the collectives that all members have reported. */
void comm_samples_settle(struct comm_samples *samples);

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
    struct fabric_comm_sum sampled[EMU_COMM_KINDS][EMU_COMM_SIZES];
    uint64_t unreported;      /* reports that are in no sum */
    uint32_t nodes;           /* of the network */
    struct fabric_pair *pair; /* sorted by nodes; pairs of other hosts follow */
    uint32_t pairs;
    uint64_t more_messages, more_bytes; /* between pairs that are not kept */
};

/** fabric_comm_read - read all counters; fabric_comm_free() frees. Errors: -ENOMEM, with zeros. */
int fabric_comm_read(struct fabric *fabric, struct fabric_comm *ret);
void fabric_comm_free(struct fabric_comm *comm);

/** fabric_comm_tick - read the processes' reports. Call about once a second, or some are missed. */
void fabric_comm_tick(struct fabric *fabric);

/** fabric_comm_leaves - save counters and reports of @node before its host interface is freed. */
void fabric_comm_leaves(struct fabric *fabric, uint32_t node);

void fabric_comm_stop(struct fabric *fabric);

#endif
