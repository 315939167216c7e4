/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange.c - barriers and all-reduces by messages, as on networks that do not execute
 * collectives.
 *
 * A program is a list of steps that a member executes in order. A step sends a message, or waits
 * for one. The profile says how long a step occupies the processor (host_send_ps, host_recv_ps,
 * host_word_ps). The adapters and the network take their usual time. A message carries a *slot*
 * number, which selects the step of the receiver that waits for it. Each of its segments also
 * carries 32 bits of the sum, whatever the length of the message is.
 *
 * Dissemination: K is the radix, usually 2. In round r of a barrier, rank i sends to the ranks i +
 * d and waits for the ranks i - d, where d is K^r, 2 K^r, … (K - 1) K^r. In round r of an
 * all-reduce, a rank exchanges messages with the ranks whose number to the base K differs from its
 * own only in digit r (K = 2: recursive doubling). Tree: messages go up a tree to the first member,
 * and the result comes down again. The tree is binomial, or each member has K children. Source:
 * Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988; Thakur,
 * Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005.
 */
#include <errno.h>
#include <stdlib.h>

#include "apps/traffic/workload/member.h"

#define ROUNDS_MAX 32u
#define SLOT_DOWN  ROUNDS_MAX /* slot of the message that comes down a tree */
#define SLOTS_MAX  256u       /* the header has 8 bits for the slot */

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

/* A message of an operation at its receiver. */
struct inbox {
    uint64_t at_ps;    /* when its latest segment so far was in memory */
    uint64_t segments; /* how many of its segments have arrived */
    uint32_t sum;
};

struct traffic_exchange {
    uint32_t steps;
    uint32_t slots;
    uint32_t at;       /* the next step */
    bool begun;        /* member->op is being executed; otherwise the program waits to post it */
    uint64_t sent;     /* number of segments of the current message that were sent */
    bool posted;       /* the processor has posted the current message */
    uint64_t ready_ps; /* when the program reaches the next step */
    uint32_t sum;
    struct step *step;
    /* by operation % 2 and slot; two are enough, because peers are at most one operation ahead */
    struct inbox *inbox[2];
};

/* --- programs ----------------------------------------------------------------------- */

static void add_step(struct traffic_member *member, enum step_what what, uint32_t peer,
                     uint32_t slot)
{
    struct traffic_exchange *ex = member->exchange;

    ex->step[ex->steps++] = (struct step){what, member->group->node[peer], slot};
}

static uint32_t radix_of(const struct traffic_coll_plan *plan)
{
    return plan->radix ? plan->radix : 2;
}

/*
 * Plan the rounds of dissemination. In each round a rank exchanges messages with radix - 1 other
 * ranks; in the last round there may be fewer.
 */
static void plan_rounds(struct traffic_member *member, uint32_t rank)
{
    const struct traffic_coll_plan *plan = &member->all->plan;
    uint64_t radix = radix_of(plan);
    uint32_t slot = 0;

    for (uint64_t far = 1; far < plan->members; far *= radix, slot += (uint32_t)radix - 1) {
        uint64_t ranks = (plan->members + far - 1) / far, digit = rank / far % radix;

        ranks = ranks < radix ? ranks : radix;
        for (uint64_t j = 1; j < ranks; j++) {
            uint64_t to = plan->what == TRAFFIC_ALLREDUCE
                              ? rank + ((digit + j) % ranks) * far - digit * far
                              : (rank + j * far) % plan->members;
            add_step(member, STEP_SEND, (uint32_t)to, slot + (uint32_t)j - 1);
        }
        for (uint64_t j = 1; j < ranks; j++)
            add_step(member, STEP_ADD, rank, slot + (uint32_t)j - 1);
    }
}

static void plan_binomial(struct traffic_member *member, uint32_t rank)
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

/* Plan a tree in which the children of rank i are the ranks radix * i + 1 to radix * i + radix. */
static void plan_tree(struct traffic_member *member, uint32_t rank)
{
    uint64_t radix = member->all->plan.radix, first = radix * rank + 1;
    uint64_t end = member->all->plan.members;

    end = first + radix < end ? first + radix : end;
    for (uint64_t child = first; child < end; child++)
        add_step(member, STEP_ADD, rank, (uint32_t)(child - first));
    if (rank) {
        add_step(member, STEP_SEND, (uint32_t)((rank - 1) / radix), (uint32_t)((rank - 1) % radix));
        add_step(member, STEP_SET, rank, SLOT_DOWN);
    }
    for (uint64_t child = first; child < end; child++)
        add_step(member, STEP_SEND, (uint32_t)child, SLOT_DOWN);
}

/*
 * Return the number of slots of a program. A program with n slots has at most 2 n + 2 steps.
 */
static uint32_t slots_of(const struct traffic_coll_plan *plan)
{
    uint32_t slots = 0;

    if (plan->by == TRAFFIC_BY_TREE)
        return SLOT_DOWN + 1;
    for (uint64_t far = 1; far < plan->members; far *= radix_of(plan))
        slots += radix_of(plan) - 1;
    return slots;
}
static_assert(8 * (TRAFFIC_RADIX_MAX - 1) < SLOTS_MAX, "2^32 members have 8 rounds of radix 16");

uint64_t traffic_exchange_bytes(const struct traffic_coll_plan *plan)
{
    uint64_t slots = slots_of(plan);

    return sizeof(struct traffic_exchange) + 2 * slots * sizeof(struct inbox) +
           (2 * slots + 2) * sizeof(struct step);
}

int traffic_exchange_join(struct traffic_member *member, uint32_t rank)
{
    const struct traffic_coll_plan *plan = &member->all->plan;
    struct traffic_exchange *ex = calloc(1, traffic_exchange_bytes(plan));

    member->exchange = ex;
    if (!ex)
        return -ENOMEM;
    ex->slots = slots_of(plan);
    ex->inbox[0] = (struct inbox *)(ex + 1);
    ex->inbox[1] = ex->inbox[0] + ex->slots;
    ex->step = (struct step *)(ex->inbox[1] + ex->slots);
    if (plan->by != TRAFFIC_BY_TREE)
        plan_rounds(member, rank);
    else if (plan->radix)
        plan_tree(member, rank);
    else
        plan_binomial(member, rank);
    return 0;
}

/* --- steps -------------------------------------------------------------------------- */

static bool sums(const struct traffic_member *member)
{
    return member->all->plan.what == TRAFFIC_ALLREDUCE;
}

/*
 * Return the earliest time, not before ready_ps + @busy_ps, at which the program has the core
 * (coll.h).
 */
static uint64_t ready_after(const struct traffic_member *member, uint64_t busy_ps)
{
    return traffic_member_awake(member, member->exchange->ready_ps + busy_ps);
}

static void put_segment(struct traffic_member *member, const struct step *step, uint64_t depart_ps)
{
    const struct traffic_coll *all = member->all;
    uint64_t left = all->plan.bytes - member->exchange->sent * EMU_PAYLOAD_BYTES;
    struct emu_entry entry = {
        .hdr = {.dst = step->node,
                .src = member->node,
                .seq = (uint32_t)member->op,
                .kind = EMU_UNICAST,
                .len = (uint8_t)(left < EMU_PAYLOAD_BYTES ? left : EMU_PAYLOAD_BYTES),
                .op = (uint8_t)step->slot},
        .buf = EMU_NO_BUF,
        .note = member->exchange->sum,
    };

    traffic_depart(&member->base, &entry, depart_ps);
}

/*
 * Begin the next operation, when the other processes of the node have contributed. Returns false if
 * no operation was posted.
 */
static bool operation_begin(struct traffic_member *member)
{
    struct traffic_exchange *ex = member->exchange;

    if (ex->begun || member->op == member->group->posted)
        return ex->begun;
    uint64_t post_ps = traffic_member_post_ps(member, member->op);
    ex->ready_ps = traffic_member_awake(member, post_ps > ex->ready_ps ? post_ps : ex->ready_ps);
    ex->ready_ps = ready_after(member, traffic_member_gather_ps(member));
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
    traffic_member_log(member, member->op, ex->ready_ps + traffic_member_spread_ps(member));
    member->op++;
    ex->begun = false;
}

/*
 * Receive the message of @step, when the program has the core. Returns false if the message has not
 * arrived.
 */
static bool step_wait(struct traffic_member *member, const struct step *step)
{
    struct traffic_exchange *ex = member->exchange;
    struct inbox *in = &ex->inbox[member->op % 2][step->slot];
    bool adds = step->what == STEP_ADD;

    if (in->segments < member->all->segments)
        return false;
    ex->ready_ps =
        traffic_member_awake(member, in->at_ps > ex->ready_ps ? in->at_ps : ex->ready_ps);
    ex->ready_ps = ready_after(member, member->all->plan.profile->host_recv_ps +
                                           (adds ? traffic_member_combine_ps(member) : 0));
    ex->sum = in->sum + (adds ? ex->sum : 0);
    *in = (struct inbox){.segments = 0};
    return true;
}

/*
 * Post the message of @step, and send its segments that may leave by @until_ps. Returns when the
 * next segment may leave; 0: the whole message has left.
 */
static uint64_t step_send(struct traffic_member *member, const struct step *step, uint64_t until_ps)
{
    struct traffic_exchange *ex = member->exchange;

    if (!ex->posted)
        ex->ready_ps = ready_after(member, member->all->plan.profile->host_send_ps);
    ex->posted = true;
    for (; ex->sent < member->all->segments; ex->sent++) {
        uint64_t next_ps =
            traffic_earliest_ps(&member->base, ex->ready_ps + member->all->times.send_ps);

        if (next_ps > until_ps)
            return next_ps;
        put_segment(member, step, next_ps);
    }
    ex->sent = 0;
    ex->posted = false;
    return 0;
}

/* Run all steps that are possible by @until_ps. Returns the time of the next step, or EMU_NEVER. */
static uint64_t exchange_run(struct traffic_member *member, uint64_t until_ps)
{
    struct traffic_exchange *ex = member->exchange;
    uint64_t next_ps = EMU_NEVER;

    while (!member->wrong && operation_begin(member)) {
        const struct step *step = &ex->step[ex->at];

        if (ex->at == ex->steps) {
            operation_end(member);
            continue;
        }
        if (step->what == STEP_SEND) {
            next_ps = step_send(member, step, until_ps);
            if (next_ps)
                break;
        } else if (!step_wait(member, step)) {
            next_ps = EMU_NEVER;
            break;
        }
        next_ps = EMU_NEVER;
        ex->at++;
    }
    emu_tx_flush(&member->base.tx);
    return next_ps;
}

static inline void exchange_deliver(void *context, const struct emu_entry *entry)
{
    struct traffic_member *member = context;
    const struct traffic_coll *all = member->all;
    const struct emu_hdr *hdr = &entry->hdr;
    const struct traffic_exchange *ex = member->exchange;
    uint64_t at_ps = traffic_memory_ps(&all->times, all->plan.profile, entry);
    uint32_t ahead = hdr->seq - (uint32_t)member->op;
    struct inbox *in = ex && hdr->op < ex->slots ? &ex->inbox[hdr->seq % 2][hdr->op] : NULL;

    emu_pool_drop(&member->base.dev.worker->cache, entry->buf); /* a payload of a malicious host */
    if (!in || ahead > 1 || in->segments == all->segments ||
        (in->segments && in->sum != entry->note)) {
        if (!member->wrong) {
            member->wrong = WRONG_SEGMENT;
            member->wrong_op = member->op;
        }
        return;
    }
    if (at_ps > in->at_ps)
        in->at_ps = at_ps;
    in->segments++;
    in->sum = entry->note;
    member->digest = traffic_digest(member->digest, hdr->src,
                                    (member->op + ahead) * (SLOT_DOWN + 1) + hdr->op, at_ps);
}

static uint64_t exchange_send(struct traffic_member *member, uint64_t until_ps)
{
    return member->exchange ? exchange_run(member, until_ps) : EMU_NEVER;
}

uint32_t traffic_exchange_step(struct emu_dev *dev, uint64_t until_ps)
{
    return traffic_member_step(dev, until_ps, exchange_deliver, exchange_send);
}
