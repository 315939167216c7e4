/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange.c - barriers and all-reduces by messages, as on networks without collectives.
 *
 * A program is a list of steps that a member executes in order: send a message, or wait for one.
 * Steps take no time, which is the best case for software; the adapters and the network take their
 * usual time. A message carries a *slot* number, which selects the step of the receiver that waits
 * for it, and 32 bits of the sum, whatever its length.
 *
 * Dissemination: in round r, rank i sends to rank i + 2^r and waits for rank i - 2^r. An all-reduce
 * exchanges with the rank that differs in bit r instead (recursive doubling).
 * Tree: messages go up a binomial tree to the first member, and the result comes down again.
 * Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988; Thakur,
 * Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/traffic/workload/member.h"

#define ROUNDS_MAX 32u
#define SLOT_DOWN  ROUNDS_MAX /* the message down the tree */
#define SLOTS      (ROUNDS_MAX + 1)
#define STEPS_MAX  (2 * ROUNDS_MAX + 1)

enum step_what {
    STEP_SEND, /* send the sum so far */
    STEP_ADD,  /* wait for a partial sum, and add it */
    STEP_SET   /* wait for the result, and replace the sum by it */
};

struct step {
    enum step_what what;
    uint32_t node; /* STEP_SEND: the receiver */
    uint32_t slot;
};

/* The messages of one operation, by slot. */
struct inbox {
    uint64_t at_ps[SLOTS]; /* when the message was in memory; 0: it has not arrived */
    uint32_t sum[SLOTS];
};

struct traffic_exchange {
    struct step step[STEPS_MAX];
    uint32_t steps;
    uint32_t at;       /* the next step */
    bool begun;        /* member->op is being executed; otherwise the program waits to post it */
    uint64_t ready_ps; /* when the program reaches the next step */
    uint32_t sum;
    struct inbox inbox[2]; /* by operation % 2, because peers are at most one operation ahead */
};

/* --- programs ----------------------------------------------------------------------- */

static void add_step(struct traffic_member *member, enum step_what what, uint32_t peer,
                     uint32_t slot)
{
    struct traffic_exchange *ex = member->exchange;

    ex->step[ex->steps++] = (struct step){what, member->group->node[peer], slot};
}

static void plan_rounds(struct traffic_member *member, uint32_t rank)
{
    const struct traffic_coll_plan *plan = &member->all->plan;

    for (uint32_t r = 0; (uint64_t)1 << r < plan->members; r++) {
        uint32_t to = plan->what == TRAFFIC_ALLREDUCE
                          ? rank ^ 1u << r
                          : (uint32_t)((rank + ((uint64_t)1 << r)) % plan->members);
        add_step(member, STEP_SEND, to, r);
        add_step(member, STEP_ADD, rank, r);
    }
}

static void plan_tree(struct traffic_member *member, uint32_t rank)
{
    uint64_t members = member->all->plan.members;
    uint32_t r = 0;

    for (; (uint64_t)1 << r < members && !(rank >> r & 1); r++)
        if (rank + ((uint64_t)1 << r) < members)
            add_step(member, STEP_ADD, rank, r);
    if (rank) {
        add_step(member, STEP_SEND, rank - (1u << r), r);
        add_step(member, STEP_SET, rank, SLOT_DOWN);
    }
    while (r--)
        if (rank + ((uint64_t)1 << r) < members)
            add_step(member, STEP_SEND, rank + (1u << r), SLOT_DOWN);
}

int traffic_exchange_join(struct traffic_member *member, uint32_t rank)
{
    member->exchange = calloc(1, sizeof *member->exchange);
    if (!member->exchange)
        return -ENOMEM;
    if (member->all->plan.by == TRAFFIC_BY_TREE)
        plan_tree(member, rank);
    else
        plan_rounds(member, rank);
    return 0;
}

uint64_t traffic_exchange_bytes(void)
{
    return sizeof(struct traffic_exchange);
}

/* --- steps -------------------------------------------------------------------------- */

static void put_message(struct traffic_member *member, const struct step *step, uint64_t depart_ps)
{
    const struct traffic_coll_plan *plan = &member->all->plan;
    struct emu_entry entry = {
        .hdr = {.dst = step->node,
                .src = member->node,
                .seq = (uint32_t)member->op,
                .kind = EMU_UNICAST,
                .len = (uint8_t)plan->bytes,
                .op = (uint8_t)step->slot},
        .buf = EMU_NO_BUF,
        .note = member->exchange->sum,
    };

    emu_tx_depart(&member->base.tx, &entry, depart_ps);
}

static bool sums(const struct traffic_member *member)
{
    return member->all->plan.what == TRAFFIC_ALLREDUCE;
}

/* Begin the next operation when the program has the core (coll.h). False: none was posted. */
static bool operation_begin(struct traffic_member *member)
{
    struct traffic_exchange *ex = member->exchange;

    if (ex->begun || member->op == member->group->posted)
        return ex->begun;
    uint64_t post_ps = traffic_member_post_ps(member);
    ex->ready_ps = traffic_member_awake(member, post_ps > ex->ready_ps ? post_ps : ex->ready_ps);
    ex->sum = sums(member) ? (uint32_t)traffic_member_value(member->op, 0, 1, member->weight) : 0;
    ex->at = 0;
    ex->begun = true;
    return true;
}

static void operation_end(struct traffic_member *member)
{
    const struct traffic_coll *all = member->all;
    struct traffic_exchange *ex = member->exchange;
    uint32_t want =
        (uint32_t)traffic_member_value(member->op, 0, all->plan.members, member->group->sum);

    if (sums(member) && ex->sum != want) {
        member->wrong = WRONG_RESULT;
        member->wrong_op = member->op;
        return;
    }
    traffic_member_log(member, member->op, ex->ready_ps);
    member->op++;
    ex->begun = false;
}

/* Take the message of @step when the program has the core. Returns false if it has not arrived. */
static bool step_wait(struct traffic_member *member, const struct step *step)
{
    struct traffic_exchange *ex = member->exchange;
    struct inbox *inbox = &ex->inbox[member->op % 2];
    uint64_t at_ps = inbox->at_ps[step->slot];

    if (!at_ps)
        return false;
    inbox->at_ps[step->slot] = 0;
    ex->ready_ps = traffic_member_awake(member, at_ps > ex->ready_ps ? at_ps : ex->ready_ps);
    ex->sum = inbox->sum[step->slot] + (step->what == STEP_ADD ? ex->sum : 0);
    return true;
}

/* Run all steps that are possible by @until_ps. Returns the time of the next step, or EMU_NEVER. */
static uint64_t exchange_run(struct traffic_member *member, uint64_t until_ps)
{
    struct traffic_exchange *ex = member->exchange;
    uint64_t next_ps = EMU_NEVER;
    bool sent = false;

    while (!member->wrong && operation_begin(member)) {
        const struct step *step = &ex->step[ex->at];

        if (ex->at == ex->steps) {
            operation_end(member);
            continue;
        }
        if (step->what == STEP_SEND) {
            next_ps =
                emu_tx_earliest_ps(&member->base.tx, ex->ready_ps + member->all->times.send_ps);
            if (next_ps > until_ps)
                break;
            put_message(member, step, next_ps);
            sent = true;
        } else if (!step_wait(member, step)) {
            next_ps = EMU_NEVER;
            break;
        }
        next_ps = EMU_NEVER;
        ex->at++;
    }
    if (sent)
        emu_tx_flush(&member->base.tx);
    return next_ps;
}

static inline void exchange_deliver(void *context, const struct emu_entry *entry)
{
    struct traffic_member *member = context;
    const struct traffic_coll *all = member->all;
    uint64_t at_ps = traffic_memory_ps(&all->times, all->plan.profile, entry);
    uint32_t ahead = entry->hdr.seq - (uint32_t)member->op;
    struct inbox *inbox = member->exchange ? &member->exchange->inbox[entry->hdr.seq % 2] : NULL;

    if (!inbox || ahead > 1 || entry->hdr.op >= SLOTS || inbox->at_ps[entry->hdr.op]) {
        member->wrong = WRONG_SEGMENT;
        member->wrong_op = member->op;
        return;
    }
    inbox->at_ps[entry->hdr.op] = at_ps;
    inbox->sum[entry->hdr.op] = entry->note;
    member->digest = traffic_digest(member->digest, entry->hdr.src,
                                    (member->op + ahead) * SLOTS + entry->hdr.op, at_ps);
}

static uint64_t exchange_send(struct traffic_member *member, uint64_t until_ps)
{
    return member->exchange ? exchange_run(member, until_ps) : EMU_NEVER;
}

uint32_t traffic_exchange_step(struct emu_dev *dev, uint64_t until_ps)
{
    return traffic_member_step(dev, until_ps, exchange_deliver, exchange_send);
}
