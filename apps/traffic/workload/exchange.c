/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange.c - barriers and all-reduces that programs make of messages, as libraries do where the
 * network has no collectives.
 *
 * A program is a list of steps that a member goes through in order: it sends to one, or waits for
 * one. Steps take it no time, so software is shown at its best; the adapters' and the network's
 * time is theirs. A message says to which wait of its receiver it belongs (its slot), and carries
 * 32 bits of the sum, whatever its length.
 *
 * Dissemination: in round r everybody sends to who is 2^r further, and waits for who is 2^r behind.
 * An all-reduce exchanges with who differs in bit r instead (recursive doubling).
 * Tree: a binomial tree up to the first member and down again.
 * Source: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988; Thakur,
 * Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/traffic/workload/member.h"

#define ROUNDS_MAX 32u
#define SLOT_DOWN  ROUNDS_MAX /* what comes down the tree */
#define SLOTS      (ROUNDS_MAX + 1)
#define STEPS_MAX  (2 * ROUNDS_MAX + 1)

enum step_what {
    STEP_SEND, /* the sum so far */
    STEP_ADD,  /* wait for a part of the sum */
    STEP_SET   /* wait for the sum */
};

struct step {
    enum step_what what;
    uint32_t node; /* that it sends to */
    uint32_t slot;
};

/* Of one operation, by slot. A peer is one operation ahead at most: it needs our messages. */
struct inbox {
    uint64_t at_ps[SLOTS]; /* when it was in memory; 0: it was not */
    uint32_t sum[SLOTS];
};

struct traffic_exchange {
    struct step step[STEPS_MAX];
    uint32_t steps;
    uint32_t at;       /* the step that comes next */
    bool begun;        /* the operation is; else it may not have been posted */
    uint64_t ready_ps; /* when the program has come there */
    uint32_t sum;
    struct inbox inbox[2]; /* by operation, in turn */
};

/* --- programs ----------------------------------------------------------------------- */

static void add_step(struct traffic_member *member, enum step_what what, uint32_t peer,
                     uint32_t slot)
{
    struct traffic_exchange *ex = member->exchange;

    ex->step[ex->steps++] = (struct step){what, member->group->node[peer], slot};
}

static void plan_rounds(struct traffic_member *member, uint32_t place)
{
    const struct traffic_coll_plan *plan = &member->all->plan;

    for (uint32_t r = 0; (uint64_t)1 << r < plan->members; r++) {
        uint32_t to = plan->what == TRAFFIC_ALLREDUCE
                          ? place ^ 1u << r
                          : (uint32_t)((place + ((uint64_t)1 << r)) % plan->members);
        add_step(member, STEP_SEND, to, r);
        add_step(member, STEP_ADD, place, r);
    }
}

static void plan_tree(struct traffic_member *member, uint32_t place)
{
    uint64_t members = member->all->plan.members;
    uint32_t r = 0;

    for (; (uint64_t)1 << r < members && !(place >> r & 1); r++)
        if (place + ((uint64_t)1 << r) < members)
            add_step(member, STEP_ADD, place, r);
    if (place) {
        add_step(member, STEP_SEND, place - (1u << r), r);
        add_step(member, STEP_SET, place, SLOT_DOWN);
    }
    while (r--)
        if (place + ((uint64_t)1 << r) < members)
            add_step(member, STEP_SEND, place + (1u << r), SLOT_DOWN);
}

int traffic_exchange_join(struct traffic_member *member, uint32_t place)
{
    member->exchange = calloc(1, sizeof *member->exchange);
    if (!member->exchange)
        return -ENOMEM;
    if (member->all->plan.by == TRAFFIC_BY_TREE)
        plan_tree(member, place);
    else
        plan_rounds(member, place);
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

/* The next operation, if it is posted: the program comes to it when it has the core. */
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
    traffic_member_has(member, member->op, ex->ready_ps);
    member->op++;
    ex->begun = false;
}

/* Take what the program waits for, when it has the core. False: it is not there. */
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

/* All steps that can be taken by @until_ps. Says when the next can; EMU_NEVER: not known. */
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

uint32_t traffic_exchange_step(struct emu_dev *dev, uint64_t until_ps)
{
    struct traffic_member *member = (struct traffic_member *)dev;
    uint64_t arrive_ps;

    emu_dev_take(dev, EMU_EVENT_DATA);
    emu_dev_take(dev, EMU_EVENT_CREDIT);
    arrive_ps = traffic_take(&member->base.rx, member->base.tx.profile->credit_ps, until_ps, member,
                             exchange_deliver);
    dev->next_ps = member->exchange ? exchange_run(member, until_ps) : EMU_NEVER;
    if (arrive_ps < dev->next_ps)
        dev->next_ps = arrive_ps;
    return 0;
}
