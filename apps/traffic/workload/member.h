/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * member.h - a member of a group; for workload/coll.c and workload/exchange.c only.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_MEMBER_H
#define APPS_TRAFFIC_WORKLOAD_MEMBER_H

#include "apps/traffic/workload/coll.h"

enum traffic_member_wrong { RIGHT, WRONG_SEGMENT, WRONG_RESULT, NO_BUFFER };

struct traffic_exchange;

struct traffic_member {
    struct traffic_base base;

    alignas(EMU_LINE) struct traffic_coll *all;
    struct traffic_group *group; /* NULL: none */
    struct traffic_worker *worker;
    struct traffic_exchange *exchange; /* collectives by messages; else NULL */
    uint64_t weight;
    uint64_t op;     /* operation being sent; by messages: being executed */
    uint64_t part;   /* its next segment to send */
    uint64_t got_op; /* operation being received */
    uint64_t got_part;
    uint64_t got;      /* all numbers below this one were received */
    uint64_t *seen_ps; /* NULL: segments arrive in order. Else a ring by number, from `got` on: when
                           each segment was in memory; 0: not yet */
    uint64_t last_ps;  /* time of the latest result of the operation being received */
    uint64_t *freed_ps; /* by number: when its result was consumed; NULL: not needed */
    uint64_t digest;
    uint64_t noise_phase_ps;
    uint32_t node;
    enum traffic_member_wrong wrong;
    uint64_t wrong_op;
};

/** traffic_member_awake - the first time at @at_ps or later when its program has the core. Pure. */
static inline uint64_t traffic_member_awake(const struct traffic_member *member, uint64_t at_ps)
{
    return traffic_noise_after(&member->all->plan.noise, member->noise_phase_ps, at_ps);
}

/** traffic_member_post_ps - when its program may post operation member->op. Pure. */
uint64_t traffic_member_post_ps(const struct traffic_member *member);

/**
 * traffic_member_value - element @element of the sum of the contributions of @members members, with
 * the sum of weights @weights, to operation @op. Pure.
 */
uint64_t traffic_member_value(uint64_t op, uint64_t element, uint64_t members, uint64_t weights);

/** traffic_member_log - log that the member has had the result of operation @op since @at_ps. */
void traffic_member_log(struct traffic_member *member, uint64_t op, uint64_t at_ps);

/* workload/exchange.c, for a member whose collectives go by messages: */

/** traffic_exchange_step - emu_step_fn. */
uint32_t traffic_exchange_step(struct emu_dev *dev, uint64_t until_ps);

/** traffic_exchange_join - make @member number @rank of its group. Errors: -ENOMEM. */
int traffic_exchange_join(struct traffic_member *member, uint32_t rank);

/** traffic_exchange_bytes - memory of one. Pure. */
uint64_t traffic_exchange_bytes(void);

#endif
