/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.h - statistics of the communication of all processes so far: collectives by kind and size,
 * and messages by pair of nodes. Processes count in their host interfaces (emu/hostif/comm.h). The
 * fabric saves the counts of a process when it detaches.
 *
 * Only pairs of nodes between which messages were sent are stored. At most FABRIC_PAIRS_MOST pairs
 * are kept for processes that have ended. If the pairs of a process would exceed this, all its
 * messages are counted in one sum.
 *
 * Processes and other hosts may forge their counts. Sums never wrap around: see emu_sum().
 *
 * Thread: manager. The coordinator of several hosts adds up the statistics of all hosts. These lack
 * only the times of sampled collectives whose members are on several hosts, because no host gets
 * all of their reports.
 */
#ifndef APPS_FABRIC_COMM_H
#define APPS_FABRIC_COMM_H

#include "apps/fabric/fabric.h"
#include "emu/hostif/comm.h"
#include "emu/hostif/finished.h"

/* Sums over the collectives that were sampled at random and reported by all of their members. */
struct fabric_comm_sum {
    uint64_t calls; /* sampled calls, one for each member of a collective */
    double weight;  /* estimated number of all calls, sampled or not */
    /*
     * Estimates for all these calls: the time from a member's call until all members that it waits
     * for have arrived, and the time from then until the member's call returns.
     */
    double wait_ns, network_ns;
    uint64_t wait_most_ns, network_most_ns; /* longest times of a single call */
};

/** comm_count_of - round a sum, and limit it to 2^63, because reports may be forged. Pure. */
static inline uint64_t comm_count_of(double sum)
{
    return sum < 0x1p63 ? (uint64_t)(sum + 0.5) : UINT64_C(1) << 63;
}

/* One member's report of a sampled collective. */
struct comm_sample {
    struct emu_finished one;
    uint32_t node; /* the member's node */
};

/* Reports of sampled collectives, and the sums over the collectives that are complete. */
struct comm_samples {
    struct comm_sample *entry; /* reports of collectives that other members may still report */
    uint32_t count, capacity;  /* number of elements of `entry`: used, allocated */
    uint32_t most;             /* from this `capacity` on, the array does not grow */
    /*
     * number of reports that no sum includes. Reasons: reports of other members came too late or
     * never; the process overwrote the report before it was read; or there was no memory
     */
    uint64_t unreported;
    struct fabric_comm_sum sum[EMU_COMM_KINDS][EMU_COMM_SIZES];
};

/**
 * comm_samples_open - set the limit of reports for @nodes nodes. The caller has zeroed @samples.
 */
void comm_samples_open(struct comm_samples *samples, uint32_t nodes);
void comm_samples_free(struct comm_samples *samples);

/** comm_samples_add - add the report of one collective by @node. */
void comm_samples_add(struct comm_samples *samples, uint32_t node, const struct emu_finished *one);

/** comm_samples_settle - add to the sums all collectives that every member has reported. */
void comm_samples_settle(struct comm_samples *samples);

#define FABRIC_PAIRS_MOST (1u << 20)

/* Messages from one node to another. */
struct fabric_pair {
    uint32_t from, to;
    uint64_t messages, bytes;
};

/* The sum of a struct emu_comm_cell over all processes. */
struct fabric_comm_cell {
    uint64_t calls, bytes, ns, longest_ns;
};

/* Accesses of peers to memory of processes. */
struct fabric_comm_memory {
    uint64_t translated, traps;
    uint32_t node;             /* the node whose process has counted the last trap */
    struct emu_comm_trap last; /* the last trap at this node; valid if there are traps */
};

struct fabric_comm {
    struct fabric_comm_memory memory;
    struct fabric_comm_cell cell[EMU_COMM_WHERES][EMU_COMM_KINDS][EMU_COMM_SIZES];
    struct fabric_comm_sum sampled[EMU_COMM_KINDS][EMU_COMM_SIZES];
    uint64_t unreported; /* reports that no sum includes */
    uint32_t nodes;
    struct fabric_pair *pair; /* this host's pairs, sorted by nodes; then those of other hosts */
    uint32_t pairs;
    uint64_t more_messages, more_bytes; /* sums over pairs that are not kept */
};

/**
 * fabric_comm_read - read all counters into @ret, which fabric_comm_free() frees. Errors: -ENOMEM;
 * then all counters are 0.
 */
int fabric_comm_read(struct fabric *fabric, struct fabric_comm *ret);
void fabric_comm_free(struct fabric_comm *comm);

/**
 * fabric_comm_tick - read the processes' reports. Call it about once a second, or else processes
 * overwrite reports that were not read.
 */
void fabric_comm_tick(struct fabric *fabric);

/**
 * fabric_comm_leaves - save counters and reports of @node. Call it before its host interface is
 * freed.
 */
void fabric_comm_leaves(struct fabric *fabric, uint32_t node);

/** fabric_comm_stop - free all saved counters and reports. */
void fabric_comm_stop(struct fabric *fabric);

#endif
