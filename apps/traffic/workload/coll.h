/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.h - nodes that take part in reductions and barriers, in simulated time (clock virtual). The
 * payload is real and every result is checked.
 *
 * Every member of a group takes part in every operation of the group; it may begin late, by a
 * random skew. The segments of an operation take the next sequence numbers of the group's stream
 * (emu/packet/seg.h). Unlike the adapter library, a member uses no tokens to limit how far it runs
 * ahead. It sends number s when it knows that number s - EMU_WINDOW is complete. It knows this from
 * its own results or, in a reduction, from the root's, which the driver announces to all.
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
 * In every period the operating system has the core for length_ps. The phase of each node is drawn
 * from the seed. Without the core, the program neither posts operations nor takes results; adapters
 * and switches continue.
 * Source: Petrini, Kerbyson, Pakin, "The case of the missing supercomputer performance", SC'03;
 * Hoefler, Schneider, Lumsdaine, "Characterizing the influence of system noise", SC'10.
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

/** traffic_noise_after - return the first time from @at_ps on when the program runs. Pure. */
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
     * by messages: how many times as many members a round reaches, or the most children of a member
     * of a tree; at most TRAFFIC_RADIX_MAX. 0: rounds of 2, or a binomial tree
     */
    uint32_t radix;
    /* processes of a node: all but one give it their vectors and take the result; 0 means 1 */
    uint32_t processes;
    struct traffic_noise noise; /* noise of all nodes */
    uint64_t bytes;             /* size of the vector, a multiple of 8; 0 for a barrier */
    uint64_t operations;        /* number of operations of each group */
    /* time from post to post; 0: post when the last operation is complete */
    uint64_t interval_ps;
    /* maximum of the random delay of a member's post; <= interval_ps, unless interval_ps is 0 */
    uint64_t skew_ps;
    uint32_t groups;
    uint32_t members; /* members of each group; groups do not overlap */
    bool at_random;   /* members are drawn; otherwise group g has the g-th block of nodes */
    /* number of nodes to which the other nodes in no group write (storage.h); 0: none writes */
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
    uint64_t done_ps;     /* when the latest of these became complete */
    uint64_t post_ps;     /* time of the latest post, if there is no interval */
    uint64_t announced;   /* reduction: number of the root's result segments that members know of */
    /*
     * in a reduction, for each sequence number modulo EMU_WINDOW, when the members knew that it was
     * complete. NULL: no reduction, or all operations fit into a window
     */
    uint64_t *freed_ps;
};

/* Traffic of a file system beside the groups: workload/storage.h. */
struct traffic_storage {
    const uint32_t *server; /* plan.servers node numbers */
    bool stopped;           /* the clients must stop writing; set by the driver */
};

struct traffic_coll {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    struct traffic_coll_plan plan;
    uint32_t nodes;
    struct traffic_times times;
    uint64_t segments; /* number of segments of an operation */
    bool windowed;     /* all operations together have more segments than a window */
    uint32_t *at;      /* all node numbers; the groups have consecutive parts of it */
    struct traffic_storage storage;
    struct traffic_group *group;
    struct traffic_member **member; /* by node; NULL: on another host */
    struct traffic_workers workers; /* in logs, src is the group, birth_ps the operation's number */
};

/** traffic_coll_init - call before fabric_start(). Free it even after an error. Errors: -ENOMEM. */
int traffic_coll_init(struct traffic_coll *all, uint32_t nodes,
                      const struct traffic_coll_plan *plan);

/** traffic_coll_free - call after fabric_stop(). */
void traffic_coll_free(struct traffic_coll *all);

/**
 * traffic_coll_groups - make the groups in the fabric, and allocate logs for the completions of
 * @slice_ps, the time between two reads of the logs.
 * Errors: as fabric_group_create(), with one line in @error.
 */
int traffic_coll_groups(struct traffic_coll *all, struct fabric *fabric, uint64_t slice_ps,
                        char *error, size_t error_bytes);

/* --- for the driver, while the workers are stopped ---------------------------------- */

/** traffic_coll_post - post an operation of group @g at @at_ps, after all events so far. */
void traffic_coll_post(struct traffic_coll *all, uint32_t g, uint64_t at_ps);

/**
 * traffic_coll_roots - set @got, for each group, to the number of result segments that its root
 * has; 0 if the root is on another host.
 */
void traffic_coll_roots(const struct traffic_coll *all, uint64_t *got);

/**
 * traffic_coll_announce - inform the members on this host that the root of group g has @got[g]
 * result segments at @now_ps. For reductions. Returns whether a count has changed.
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
