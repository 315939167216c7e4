/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.h - nodes that take part in reductions and barriers, on clock virtual. The payload is real
 * and every result is checked.
 *
 * The members of a group post an operation at the same time. Its segments take the next sequence
 * numbers of the group's stream (emu/packet/seg.h). There are no tokens: a member sends number s
 * when it knows that s - EMU_WINDOW is done, from its own results, or in a reduce from the root's
 * results, which the driver passes on.
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
 * In every period it has the core for length_ps; the phase of each node is drawn from the seed.
 * Meanwhile the program neither posts operations nor takes results; adapters and switches continue.
 * Source: Petrini, Kerbyson, Pakin, "The case of the missing supercomputer performance", SC'03;
 * Hoefler, Schneider, Lumsdaine, "Characterizing the influence of system noise", SC'10.
 */
struct traffic_noise {
    uint64_t period_ps;
    uint64_t length_ps; /* less than the period; 0: no noise */
};

/** traffic_noise_phase - how far into a period @node is at time 0. Pure. */
static inline uint64_t traffic_noise_phase(const struct traffic_noise *noise, uint64_t seed,
                                           uint64_t node)
{
    uint64_t draw = emu_mix(emu_mix(seed + UINT64_C(0x3c6ef372fe94f82b)) + node);

    return (uint64_t)((unsigned __int128)noise->period_ps * draw >> 64);
}

/** traffic_noise_after - the first time at @at_ps or later when the program has the core. Pure. */
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
    TRAFFIC_BY_DISSEMINATION, /* messages of the members' programs: workload/exchange.c */
    TRAFFIC_BY_TREE           /* the same */
};

struct traffic_coll_plan {
    const struct emu_profile *profile;
    enum traffic_collective what;
    enum traffic_by by;
    struct traffic_noise noise; /* at all nodes */
    uint64_t bytes;             /* of the vector, a multiple of 8; a barrier has none */
    uint64_t operations;        /* of each group */
    uint64_t interval_ps;       /* from post to post; 0: post when the previous one is complete */
    uint64_t skew_ps;           /* most delay of a member's post, drawn for each operation; at most
                         interval_ps, if that is not 0 */
    uint32_t groups;
    uint32_t members; /* of each group; groups do not overlap */
    bool at_random;   /* members are drawn; else group g has the g-th block of nodes */
    uint64_t seed;
};

/* Shared by the members of a group. The driver writes it while the workers are stopped. */
struct traffic_group {
    uint32_t id;          /* collective address */
    const uint32_t *node; /* its members; the first is the root of a reduce */
    uint64_t sum;         /* of the members' weights */
    uint64_t posted;      /* operations posted */
    uint64_t done;        /* operations known to be complete at all receivers */
    uint64_t done_ps;     /* completion of the last of these */
    uint64_t post_ps;     /* post of the newest operation, if there is no interval */
    uint64_t announced;   /* reduce: segments at the root, as all members know */
    uint64_t *freed_ps;   /* reduce, by number: when all knew; NULL: fewer than a window */
};

struct traffic_coll {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    struct traffic_coll_plan plan;
    uint32_t nodes;
    struct traffic_times times;
    uint64_t segments; /* of an operation */
    bool windowed;     /* all operations together have more segments than a window */
    uint32_t *at;      /* groups * members node numbers */
    struct traffic_group *group;
    struct traffic_member **member; /* by node; NULL: on another host */
    struct traffic_workers workers; /* in their logs, src is the group, birth_ps the operation */
};

/**
 * traffic_coll_init - before fabric_start(). Errors: -ENOMEM; call traffic_coll_free() even then.
 */
int traffic_coll_init(struct traffic_coll *all, uint32_t nodes,
                      const struct traffic_coll_plan *plan);

/** traffic_coll_free - after fabric_stop(). */
void traffic_coll_free(struct traffic_coll *all);

/**
 * traffic_coll_groups - make the groups in the fabric, and logs for slices of @slice_ps.
 * Errors: as fabric_group_create(), with one line in @error.
 */
int traffic_coll_groups(struct traffic_coll *all, struct fabric *fabric, uint64_t slice_ps,
                        char *error, size_t error_bytes);

/* --- for the driver, while the workers are stopped ---------------------------------- */

/** traffic_coll_post - post one more operation of group @g at @at_ps, which is in the future. */
void traffic_coll_post(struct traffic_coll *all, uint32_t g, uint64_t at_ps);

/** traffic_coll_roots - reduce: by group, the segments at its root; 0: it is on another host. */
void traffic_coll_roots(const struct traffic_coll *all, uint64_t *got);

/**
 * traffic_coll_announce - tell the members on this host that the roots of reduces have @got
 * segments, by group, at @now_ps. Returns true if a count has changed.
 */
bool traffic_coll_announce(struct traffic_coll *all, const uint64_t *got, uint64_t now_ps);

/** traffic_coll_post_ps - when operation @op of group @g was posted, without skew. Pure. */
uint64_t traffic_coll_post_ps(const struct traffic_coll *all, uint32_t g, uint64_t op);

/** traffic_coll_last_ps - when the last contributing member posted it. Pure. */
uint64_t traffic_coll_last_ps(const struct traffic_coll *all, uint32_t g, uint64_t op);

/** traffic_coll_receivers - number of members at which a result arrives. Pure. */
uint32_t traffic_coll_receivers(const struct traffic_coll_plan *plan);

/**
 * traffic_coll_totals - @digest: by node, of its results so far; 0 for nodes of other hosts.
 * @sent: segments sent by the nodes of this host.
 */
void traffic_coll_totals(const struct traffic_coll *all, uint64_t *digest, uint64_t *sent);

/**
 * traffic_coll_unfinished - the first node of this host that has not received the results of all
 * operations; the number of nodes: none. Pure.
 */
uint32_t traffic_coll_unfinished(const struct traffic_coll *all);

/** traffic_coll_check - were all results correct so far? Errors: -EPROTO, one line in @error. */
int traffic_coll_check(const struct traffic_coll *all, char *error, size_t error_bytes);

/** traffic_coll_bytes - approximate memory. @slice_ps: as traffic_coll_groups(). Pure. */
uint64_t traffic_coll_bytes(uint32_t nodes, const struct traffic_coll_plan *plan,
                            uint64_t slice_ps);

#endif
