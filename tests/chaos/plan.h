/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.h - every node's operations in a chaos run, drawn from a seed: all nodes know the whole
 * plan, so each knows what it will receive, and what must be in its memory.
 *
 * A plan is a list of steps. A step is a list of operations between two nodes and within teams
 * (groups of nodes). Pure functions: the same seed gives the same plan in every process.
 */
#ifndef TESTS_CHAOS_PLAN_H
#define TESTS_CHAOS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define CHAOS_NODES    64u /* a set of nodes is one 64-bit word */
#define CHAOS_TEAMS    4u
#define CHAOS_OPS      192u   /* of a step */
#define CHAOS_BYTES    65536u /* of a message, put or get, at most */
#define CHAOS_COUNT    512u   /* elements of a reduction, at most */
#define CHAOS_ERA      24u    /* steps until new teams are drawn */
#define CHAOS_CAST_MAX 16384u /* bytes of a broadcast put */

enum chaos_kind {
    CHAOS_MESSAGE, /* matched by its tag, in any order */
    CHAOS_STREAM,  /* matched in order among all of the pair */
    CHAOS_PUT,     /* followed by a message that announces it, and an answer */
    CHAOS_GET,
    CHAOS_ADD,     /* to a word that only this pair uses */
    CHAOS_SWAP,    /* likewise */
    CHAOS_SHARE,   /* adds to a word that all nodes use */
    CHAOS_BARRIER, /* operations of teams from here on */
    CHAOS_BROADCAST,
    CHAOS_REDUCE,
    CHAOS_ALLREDUCE,
    CHAOS_QUERY, /* all set a word, and one waits until all have: a network conditional */
    CHAOS_CAST,  /* a broadcast put, and messages that announce it */
    CHAOS_KINDS
};

struct chaos_op {
    enum chaos_kind kind;
    uint32_t from; /* team: the root */
    uint32_t to;   /* team: its number */
    uint32_t bytes;
    uint64_t random; /* its data and random details */
};

struct chaos_plan {
    uint64_t seed;
    uint32_t nodes;
    uint32_t teams;
    bool words;      /* the fabric supports words and broadcast puts */
    bool cancels;    /* some messages are recalled, some receives cancelled: pairs.c */
    bool successors; /* a killed process may have a successor: successor.c */
    uint64_t doomed; /* nodes that may die, or be cut off from all others */
    uint64_t parted; /* nodes that may be partitioned from all others outside of this set */
};

/** chaos_is_in - is @node in this set of nodes? */
static inline bool chaos_is_in(uint64_t set, uint32_t node)
{
    return set >> node & 1;
}

/** chaos_all - the set of all nodes. */
static inline uint64_t chaos_all(const struct chaos_plan *plan)
{
    return plan->nodes == 64 ? UINT64_MAX : (UINT64_C(1) << plan->nodes) - 1;
}

/** chaos_doomed - the first node that may die; 0 where none may. */
static inline uint32_t chaos_doomed(const struct chaos_plan *plan)
{
    return plan->doomed ? (uint32_t)__builtin_ctzll(plan->doomed) : 0;
}

/** chaos_step - the operations of step @step. Returns their count, at most CHAOS_OPS. */
uint32_t chaos_step(const struct chaos_plan *plan, uint32_t step, struct chaos_op *ret);

/** chaos_team - the members of a team in an era; 2 or more. */
uint64_t chaos_team(const struct chaos_plan *plan, uint32_t team, uint32_t era);

/** chaos_may_fail - may operations between these two fail? */
bool chaos_may_fail(const struct chaos_plan *plan, uint32_t a, uint32_t b);

/** chaos_team_may_fail - may operations of these members fail? */
bool chaos_team_may_fail(const struct chaos_plan *plan, uint64_t members);

#endif
