/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * member.h - a member of a group, or a node that belongs to no group. Only coll.c, exchange.c and
 * storage.c include it.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_MEMBER_H
#define APPS_TRAFFIC_WORKLOAD_MEMBER_H

#include "apps/traffic/workload/coll.h"

enum traffic_member_wrong { RIGHT, WRONG_SEGMENT, WRONG_RESULT, NO_BUFFER };

/* The role of a node in no group: workload/storage.c. */
enum traffic_role { TRAFFIC_NO_ROLE, TRAFFIC_SERVER, TRAFFIC_CLIENT };

struct traffic_exchange;

struct traffic_member {
    struct traffic_base base;

    alignas(EMU_LINE) struct traffic_coll *all;
    struct traffic_group *group; /* NULL: the node is in no group */
    struct traffic_worker *worker;
    struct traffic_exchange *exchange; /* state of collectives by messages; otherwise NULL */
    uint64_t weight;                   /* see the head of coll.c */
    /*
     * number of the operation to send or, in collectives by messages, to execute; for a client:
     * number of the client
     */
    uint64_t op;
    uint64_t part;     /* next segment of `op` to send; for a client: segments sent */
    uint64_t got_op;   /* number of the operation whose results are being received */
    uint64_t got_part; /* next segment of `got_op` to receive; for a server: segments received */
    uint64_t got;      /* the results of all sequence numbers below this one were received */
    /*
     * for each sequence number modulo EMU_WINDOW, when its segment was in memory; 0: the segment
     * has not arrived. NULL: there are no link engines, so segments arrive in order
     */
    uint64_t *seen_ps;
    uint64_t taken_ps; /* when the program finished the latest result that it has processed */
    uint64_t last_ps;  /* when the latest segment of `got_op` was in memory */
    /*
     * for each sequence number modulo EMU_WINDOW, when the member consumed its result. NULL: this
     * is a reduction, or all operations together fit into a window
     */
    uint64_t *freed_ps;
    uint64_t digest;
    uint64_t noise_phase_ps;
    uint32_t node;
    enum traffic_role role;
    enum traffic_member_wrong wrong; /* the first error */
    uint64_t wrong_op;               /* operation with that error */
};

/**
 * traffic_member_awake - return the earliest time, not before @at_ps, at which the program runs.
 * Pure.
 */
static inline uint64_t traffic_member_awake(const struct traffic_member *member, uint64_t at_ps)
{
    return traffic_noise_after(&member->all->plan.noise, member->noise_phase_ps, at_ps);
}

/**
 * traffic_member_step - execute a step of a member: receive arrived entries, and then send.
 * @deliver: called for each entry that has arrived by @until_ps.
 * @send: sends entries that may leave by @until_ps. Returns the next time to call it, or EMU_NEVER.
 * Inline, so that the compiler can inline both functions.
 */
static inline uint32_t traffic_member_step(struct emu_dev *dev, uint64_t until_ps,
                                           void (*deliver)(void *context,
                                                           const struct emu_entry *entry),
                                           uint64_t (*send)(struct traffic_member *member,
                                                            uint64_t until_ps))
{
    struct traffic_member *member = (struct traffic_member *)dev;
    uint64_t arrive_ps;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    arrive_ps = traffic_take(&member->base.rx, member->base.tx.profile->credit_ps, until_ps, member,
                             deliver);
    dev->next_ps = send(member, until_ps);
    if (arrive_ps < dev->next_ps)
        dev->next_ps = arrive_ps;
    return 0;
}

/** traffic_member_post_ps - return when the member's program may post operation @op. Pure. */
uint64_t traffic_member_post_ps(const struct traffic_member *member, uint64_t op);

/** traffic_member_combine_ps - return how long a processor takes to combine two vectors. Pure. */
static inline uint64_t traffic_member_combine_ps(const struct traffic_member *member)
{
    const struct traffic_coll_plan *plan = &member->all->plan;

    return plan->bytes / 8 * plan->profile->host_word_ps;
}

/**
 * traffic_member_gather_ps - return the time in which a node's first process gets and combines the
 * contributions of the node's other processes, one after the other. Pure.
 */
static inline uint64_t traffic_member_gather_ps(const struct traffic_member *member)
{
    const struct traffic_coll_plan *plan = &member->all->plan;

    return (plan->processes > 1 ? plan->processes - 1 : 0) *
           (plan->profile->share_ps + traffic_member_combine_ps(member));
}

/**
 * traffic_member_spread_ps - return the time in which the other processes of a node get the result,
 * all at the same time. Pure.
 */
static inline uint64_t traffic_member_spread_ps(const struct traffic_member *member)
{
    return member->all->plan.processes > 1 ? member->all->plan.profile->share_ps : 0;
}

/**
 * traffic_member_value - return element @element of the sum of the contributions of @members
 * members to operation @op. @weights: the sum of these members' weights. Pure.
 */
uint64_t traffic_member_value(uint64_t op, uint64_t element, uint64_t members, uint64_t weights);

/** traffic_member_log - log that the member received the result of operation @op at @at_ps. */
void traffic_member_log(struct traffic_member *member, uint64_t op, uint64_t at_ps);

/* --- workload/exchange.c: for a member of collectives by messages ------------------- */

/** traffic_exchange_step - the member's step function. */
uint32_t traffic_exchange_step(struct emu_dev *dev, uint64_t until_ps);

/** traffic_exchange_join - add @member to its group, with rank @rank. Errors: -ENOMEM. */
int traffic_exchange_join(struct traffic_member *member, uint32_t rank);

/** traffic_exchange_bytes - return the memory of a member's struct traffic_exchange. Pure. */
uint64_t traffic_exchange_bytes(const struct traffic_coll_plan *plan);

#endif
