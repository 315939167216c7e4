/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.h - nodes that take part in reductions and barriers inside the
 * fabric, on clock virtual. The payload is real and every result is checked.
 *
 * The members of a group post an operation at the same time. Its segments
 * take the next numbers of the group's stream (emu/packet/seg.h). There are no
 * tokens: a member sends number s when it knows that s - EMU_WINDOW is done,
 * from its own results, or in a reduce from what the root tells through the
 * driver.
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
 * Noise: the operating system of a node takes the core away from the program, now and then.
 *
 * Of every period it has the core for a while, on each node from another time on, drawn by the
 * seed. Meanwhile the program neither posts anything nor takes what has come; adapters and switches
 * go on.
 * Source: Petrini, Kerbyson, Pakin, "The case of the missing supercomputer performance", SC'03;
 * Hoefler, Schneider, Lumsdaine, "Characterizing the influence of system noise", SC'10.
 */
struct traffic_noise {
    uint64_t period_ps;
    uint64_t length_ps; /* less than the period; 0: there is none */
};

/** traffic_noise_phase - how far into a period @node is at time 0. Pure. */
static inline uint64_t traffic_noise_phase(const struct traffic_noise *noise, uint64_t seed,
                                           uint64_t node)
{
    uint64_t draw = emu_mix(emu_mix(seed + UINT64_C(0x3c6ef372fe94f82b)) + node);

    return (uint64_t)((unsigned __int128)noise->period_ps * draw >> 64);
}

/** traffic_noise_after - the first time from @at_ps on at which the program has the core. Pure. */
static inline uint64_t traffic_noise_after(const struct traffic_noise *noise, uint64_t phase_ps,
                                           uint64_t at_ps)
{
    if (!noise->length_ps)
        return at_ps;
    uint64_t into_ps = (at_ps + phase_ps) % noise->period_ps;

    return into_ps < noise->length_ps ? at_ps + (noise->length_ps - into_ps) : at_ps;
}

struct traffic_member;

/* Who does a collective. */
enum traffic_by {
    TRAFFIC_BY_HARDWARE,      /* the switches' combine units, or the adapters */
    TRAFFIC_BY_DISSEMINATION, /* the members' programs, by messages: workload/exchange.c */
    TRAFFIC_BY_TREE
};

struct traffic_coll_plan {
    const struct emu_profile *profile;
    enum traffic_collective what;
    enum traffic_by by;
    struct traffic_noise noise; /* at all nodes */
    uint64_t bytes;             /* of the vector, a multiple of 8; a barrier has none */
    uint64_t operations;        /* of each group */
    uint64_t interval_ps;       /* from post to post; 0: when the one before is complete */
    uint64_t skew_ps; /* a member posts by up to so much later, drawn for each operation; at most
                         interval_ps, if there is one */
    uint32_t groups;
    uint32_t members; /* of each group: no node is in two */
    bool at_random;   /* nodes are drawn; else group g has the g-th block of them */
    uint64_t seed;
};

/* What the members of a group share. The driver writes it while the workers stand still. */
struct traffic_group {
    uint32_t id;          /* collective address */
    const uint32_t *node; /* its members; the first is the root of a reduce */
    uint64_t sum;         /* of the members' weights */
    uint64_t posted;      /* operations */
    uint64_t done;        /* of them, complete at all receivers, and the driver knows */
    uint64_t done_ps;     /* when the last of these was */
    uint64_t post_ps;     /* of the newest, if there is no interval */
    uint64_t announced;   /* reduce: segments that the root has, and all know */
    uint64_t *freed_ps;   /* reduce, by number: when all knew; NULL: fewer than a window */
};

struct traffic_coll {
    struct fabric_node_ops ops; /* for fabric_config.local_nodes */
    struct traffic_coll_plan plan;
    uint32_t nodes;
    struct traffic_times times;
    uint64_t segments; /* of an operation */
    bool windowed;     /* more segments than a window in all */
    uint32_t *at;      /* node numbers: groups * members of them */
    struct traffic_group *group;
    struct traffic_member **member; /* by node; NULL: on another host */
    /* parts of the logs: src is the group, birth_ps the operation */
    struct traffic_workers workers;
};

/**
 * traffic_coll_init - before fabric_start().
 * Errors: -ENOMEM; then traffic_coll_free() still wants to be called.
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

/* --- the driver's, while the workers stand still ------------------------------------ */

/**
 * traffic_coll_post - one more operation of group @g; nothing of it happens before @at_ps, up to
 * which nothing has happened yet.
 */
void traffic_coll_post(struct traffic_coll *all, uint32_t g, uint64_t at_ps);

/**
 * traffic_coll_roots - reduce: by group, the segments that its root has, if that is here; else 0.
 */
void traffic_coll_roots(const struct traffic_coll *all, uint64_t *got);

/**
 * traffic_coll_announce - what roots of reduces have by @now_ps, @got by group, becomes known to
 * all that are here. Returns true if that was news.
 */
bool traffic_coll_announce(struct traffic_coll *all, const uint64_t *got, uint64_t now_ps);

/**
 * traffic_coll_post_ps - when operation @op of group @g was posted, by the first at the earliest.
 * Pure.
 */
uint64_t traffic_coll_post_ps(const struct traffic_coll *all, uint32_t g, uint64_t op);

/** traffic_coll_last_ps - when the last one who contributes has posted it. Pure. */
uint64_t traffic_coll_last_ps(const struct traffic_coll *all, uint32_t g, uint64_t op);

/** traffic_coll_receivers - members at which a result arrives. Pure. */
uint32_t traffic_coll_receivers(const struct traffic_coll_plan *plan);

/**
 * traffic_coll_totals - so far, of the nodes that are here: by node, the digest of its results, and
 * 0 of others; segments that they sent.
 */
void traffic_coll_totals(const struct traffic_coll *all, uint64_t *digest, uint64_t *sent);

/**
 * traffic_coll_lacks - the first node of this host that has not completed all operations at which
 * it receives a result; the number of nodes: there is none. Pure.
 */
uint32_t traffic_coll_lacks(const struct traffic_coll *all);

/** traffic_coll_check - were all results right so far? Errors: -EPROTO with one line in @error. */
int traffic_coll_check(const struct traffic_coll *all, char *error, size_t error_bytes);

/** traffic_coll_bytes - memory that it takes, about. @slice_ps: as traffic_coll_groups(). Pure. */
uint64_t traffic_coll_bytes(uint32_t nodes, const struct traffic_coll_plan *plan,
                            uint64_t slice_ps);

#endif
