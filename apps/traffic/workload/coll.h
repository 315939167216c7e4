/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.h - nodes that take part in reductions and barriers, in simulated time (clock virtual).
 * Segments carry real data, and every result is checked.
 *
 * Every member of a group takes part in every operation of the group. It may begin late, by a
 * random delay (the skew). The segments of an operation get the next sequence numbers of the
 * group's stream (emu/packet/seg.h). Unlike the adapter library, a member uses no tokens to limit
 * how far it runs ahead. It sends the segment with number s when it knows that number s -
 * EMU_WINDOW is complete. A member knows this because it has the result. In a reduction only the
 * root has results, so the driver (the thread that runs the traffic) announces to all members how
 * many results the root has.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_COLL_H
#define APPS_TRAFFIC_WORKLOAD_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/fabric/fabric.h"
#include "apps/traffic/workload/pattern.h"
#include "apps/traffic/workload/worker.h"
#include "emu/util/random.h"

/*
 * Noise: the operating system of a node periodically takes the core away from the program.
 *
 * In every period the operating system uses the core for length_ps. At time 0 each node is at a
 * random point of its period, which is drawn from the seed. While the program does not have the
 * core, it neither posts operations nor processes results. Adapters and switches continue. Source:
 * Petrini, Kerbyson, Pakin, "The case of the missing supercomputer performance", SC'03; Hoefler,
 * Schneider, Lumsdaine, "Characterizing the influence of system noise", SC'10.
 */
struct traffic_noise {
    uint64_t period_ps;
    uint64_t length_ps; /* less than the period; 0: no noise */
};

/** traffic_noise_phase - return how far @node is into its period at time 0. Pure. */
static inline uint64_t traffic_noise_phase(const struct traffic_noise *noise, uint64_t seed,
                                           uint64_t node)
{
    uint64_t draw = emu_mix(emu_mix(seed + UINT64_C(0x3c6ef372fe94f82b)) + node);

    return (uint64_t)((unsigned __int128)noise->period_ps * draw >> 64);
}

/**
 * traffic_noise_after - return the earliest time, not before @at_ps, at which the program runs.
 * Pure.
 */
static inline uint64_t traffic_noise_after(const struct traffic_noise *noise, uint64_t phase_ps,
                                           uint64_t at_ps)
{
    if (!noise->length_ps)
        return at_ps;
    uint64_t into_ps = (at_ps + phase_ps) % noise->period_ps;

    return into_ps < noise->length_ps ? at_ps + (noise->length_ps - into_ps) : at_ps;
}

struct traffic_member;

/* The implementation of a collective. */
enum traffic_by {
    TRAFFIC_BY_HARDWARE,      /* the switches' combine units, or the adapters */
    TRAFFIC_BY_DISSEMINATION, /* messages between programs: workload/exchange.c */
    TRAFFIC_BY_TREE           /* messages between programs: workload/exchange.c */
};

#define TRAFFIC_RADIX_MAX 16u

struct traffic_coll_plan {
    const struct emu_profile *profile;
    enum traffic_collective what;
    enum traffic_by by;
    /*
     * Collectives by messages. Dissemination: after each round, a contribution has reached `radix`
     * times as many members as before; 0 means 2. Tree: the maximum number of children of a member;
     * 0 means a binomial tree. At most TRAFFIC_RADIX_MAX.
     */
    uint32_t radix;
    /*
     * number of processes at each node; 0 means 1. One of them is the member of the group: the
     * others pass their vectors to it, and get the result from it
     */
    uint32_t processes;
    struct traffic_noise noise; /* noise of all nodes */
    uint64_t bytes;             /* size of the vector, a multiple of 8; 0 for a barrier */
    uint64_t operations;        /* number of operations of each group */
    /* time between two posts; 0: an operation is posted when the previous one is complete */
    uint64_t interval_ps;
    /* longest random delay of a member's post; at most interval_ps, unless that is 0 */
    uint64_t skew_ps;
    uint32_t groups;
    uint32_t members; /* members of each group; groups do not overlap */
    /* members are drawn at random; otherwise group g has the g-th block of nodes */
    bool at_random;
    /*
     * number of servers. The other nodes that are in no group write to them (storage.h). 0: these
     * nodes send nothing
     */
    uint32_t servers;
    uint64_t seed;
};

/* Shared by the members of a group. The driver writes it while the workers are stopped. */
struct traffic_group {
    uint32_t id;          /* collective address */
    const uint32_t *node; /* its members; the first is the root of a reduce */
    uint64_t sum;         /* sum of its members' weights (coll.c) */
    uint64_t posted;      /* number of operations posted */
    uint64_t done;        /* number of operations that are complete at all receivers */
    uint64_t done_ps;     /* when the latest of the complete operations became complete */
    uint64_t post_ps;     /* time of the latest post, if there is no interval */
    /* reduction: number of result segments of the root that were announced to the members */
    uint64_t announced;
    /*
     * reduction: for each sequence number modulo EMU_WINDOW, when the members learned that it was
     * complete. NULL: no reduction, or all operations together fit into a window
     */
    uint64_t *freed_ps;
};

/* Traffic of a file system, at the nodes that are in no group: workload/storage.h. */
struct traffic_storage {
    const uint32_t *server; /* node numbers of the plan.servers servers */
    bool stopped;           /* the clients must stop writing; set by the driver */
};

struct traffic_coll {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    struct traffic_coll_plan plan;
    uint32_t nodes;
    struct traffic_times times;
    uint64_t segments; /* number of segments of an operation */
    bool windowed;     /* all operations of a group together have more segments than a window */
    uint32_t *at;      /* all node numbers; each group is a consecutive part of this array */
    struct traffic_storage storage;
    struct traffic_group *group;
    struct traffic_member **member; /* by node; NULL: on another host */
    /* in their logs, `src` holds the group, and `birth_ps` the number of the operation */
    struct traffic_workers workers;
};

/**
 * traffic_coll_init - call before fabric_start(). Call traffic_coll_free() even after an error.
 * Errors: -ENOMEM.
 */
int traffic_coll_init(struct traffic_coll *all, uint32_t nodes,
                      const struct traffic_coll_plan *plan);

/** traffic_coll_free - call after fabric_stop(). */
void traffic_coll_free(struct traffic_coll *all);

/**
 * traffic_coll_groups - make the groups in the fabric, and allocate logs of completed operations.
 * @slice_ps: time between two reads of the logs. Errors: as fabric_group_create(), with one line in
 * @error.
 */
int traffic_coll_groups(struct traffic_coll *all, struct fabric *fabric, uint64_t slice_ps,
                        char *error, size_t error_bytes);

/* --- for the driver, while the workers are stopped ---------------------------------- */

/**
 * traffic_coll_post - post the next operation of group @g at @at_ps, which must be later than all
 * events so far.
 */
void traffic_coll_post(struct traffic_coll *all, uint32_t g, uint64_t at_ps);

/**
 * traffic_coll_roots - set @got[g], for each group g, to the number of result segments that its
 * root has received; 0 if the root is on another host.
 */
void traffic_coll_roots(const struct traffic_coll *all, uint64_t *got);

/**
 * traffic_coll_announce - in a reduction, inform the members on this host that the root of group g
 * has @got[g] result segments at @now_ps. Returns whether a count has changed.
 */
bool traffic_coll_announce(struct traffic_coll *all, const uint64_t *got, uint64_t now_ps);

/** traffic_coll_post_ps - return when operation @op of group @g was posted, without skew. Pure. */
uint64_t traffic_coll_post_ps(const struct traffic_coll *all, uint32_t g, uint64_t op);

/** traffic_coll_last_ps - return when the last contributing member has posted @op. Pure. */
uint64_t traffic_coll_last_ps(const struct traffic_coll *all, uint32_t g, uint64_t op);

/** traffic_coll_receivers - return the number of members that receive a result. Pure. */
uint32_t traffic_coll_receivers(const struct traffic_coll_plan *plan);

/**
 * traffic_coll_totals - set @digest, for each node, to the digest of its results so far (0 for
 * nodes of other hosts), and *@sent to the number of segments that nodes of this host have sent.
 */
void traffic_coll_totals(const struct traffic_coll *all, uint64_t *digest, uint64_t *sent);

/**
 * traffic_coll_unfinished - return the first node of this host that lacks the result of some
 * operation, or the number of nodes if there is none. Pure.
 */
uint32_t traffic_coll_unfinished(const struct traffic_coll *all);

/** traffic_coll_check - check all results so far. Errors: -EPROTO, with one line in @error. */
int traffic_coll_check(const struct traffic_coll *all, char *error, size_t error_bytes);

/** traffic_coll_bytes - estimate the memory in use. @slice_ps: see traffic_coll_groups(). Pure. */
uint64_t traffic_coll_bytes(uint32_t nodes, const struct traffic_coll_plan *plan,
                            uint64_t slice_ps);

#endif
