/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * teams.c - collectives of groups, and the creation and end of groups.
 *
 * A message announces a broadcast put to each member, which checks and answers it as for a put.
 * These messages belong to pairs and continue when the team is lost: then they report that nothing
 * was delivered.
 */
#include "tests/chaos/node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu/util/now.h"
#include "emu/util/random.h"
#include "tests/fixtures/bytes.h"

#define PATIENCE_NS \
    UINT64_C(20000000000) /* for a network that has no tree, or no states, for the moment */

static uint8_t *cast_slot(const struct chaos_node *node, const struct chaos_member *team,
                          uint32_t root, uint32_t place)
{
    (void)node;
    return team->memory + ((size_t)root * CHAOS_PUTS + place % CHAOS_PUTS) * CHAOS_CAST_MAX;
}

static size_t cast_bytes(const struct chaos_node *node)
{
    return (size_t)node->plan.nodes * CHAOS_PUTS * CHAOS_CAST_MAX;
}

/* --- creating and leaving teams ----------------------------------------------------- */

static bool may_fail(const struct chaos_node *node, const struct chaos_member *team)
{
    return chaos_team_may_fail(&node->plan, team->members);
}

/*
 * Open the team's group. A network that has lost links may have no tree for a while, or no combine
 * states.
 */
static int team_open(struct chaos_node *node, uint32_t t)
{
    struct chaos_member *team = &node->team[t];
    uint32_t nodes[CHAOS_NODES], count = 0, rounds = 0;
    uint64_t end_ns = emu_now_ns() + PATIENCE_NS;
    char key[FABEMU_GROUP_KEY + 1];
    int err;

    for (uint64_t left = team->members; left; left &= left - 1)
        nodes[count++] = (uint32_t)__builtin_ctzll(left);
    snprintf(key, sizeof key, "team %u of era %u", t, team->era);
    do {
        err = fabemu_group_open(node->fab, key, nodes, count, team->era % 3 == 0, &team->group);
        for (uint32_t i = 0; err && i < 100; i++)
            chaos_idle(node, &rounds);
    } while ((err == -EHOSTUNREACH || err == -ENOSPC) && !may_fail(node, team) &&
             emu_now_ns() < end_ns);
    return err;
}

static void team_register(struct chaos_node *node, struct chaos_member *team)
{
    struct fabemu_req req = {0};
    int err;

    team->memory = malloc(cast_bytes(node));
    if (!team->memory)
        chaos_wrong(node, "there is no memory");
    chaos_poison(team->memory, cast_bytes(node));
    err = fabemu_register_symmetric(team->group, team->memory, cast_bytes(node),
                                    FABEMU_REMOTE_WRITE, &team->key, &req);
    if (!err)
        err = fabemu_wait(node->fab, &req);
    if (!err)
        return;
    if (err != -EPIPE || !may_fail(node, team))
        chaos_wrong(node, "team %" PRIx64 " cannot register memory: %s", team->members,
                    strerror(-err));
    team->lost = true;
}

static void team_join(struct chaos_node *node, uint32_t t)
{
    struct chaos_member *team = &node->team[t];
    int err = team_open(node, t);

    if (err && !may_fail(node, team))
        chaos_wrong(node, "there is no group for team %" PRIx64 ": %s (%s)", team->members,
                    strerror(-err), fabemu_error());
    if (!err && team->members & atomic_load(&node->board->dead)) {
        /* the group may have a successor as a member, which is in no team */
        fabemu_group_leave(team->group);
        team->group = NULL;
        err = -EHOSTUNREACH;
    }
    team->lost = err != 0;
    if (!err && node->plan.words)
        team_register(node, team);
}

void chaos_teams_leave(struct chaos_node *node)
{
    for (uint32_t t = 0; t < node->plan.teams; t++) {
        struct chaos_member *team = &node->team[t];

        if (team->group)
            fabemu_group_leave(team->group);
        free(team->memory);
        memset(team, 0, sizeof *team);
    }
}

void chaos_teams_turn(struct chaos_node *node, uint32_t era)
{
    if (era >= CHAOS_ERAS)
        chaos_wrong(node, "a run has at most %u steps", CHAOS_ERAS * CHAOS_ERA);
    chaos_teams_leave(node);
    for (uint32_t t = 0; t < node->plan.teams; t++) {
        node->team[t].era = era;
        node->team[t].members = chaos_team(&node->plan, t, era);
        if (chaos_is_in(node->team[t].members, node->me))
            team_join(node, t);
    }
}

/* --- reductions --------------------------------------------------------------------- */

/*
 * The types and operations that are drawn; every contribution is small enough to be exact in any
 * type.
 */
enum sort { SORT_U64, SORT_I32, SORT_U8, SORT_F64, SORT_PAIR, SORTS };
static const struct {
    unsigned type;
    size_t bytes;
} sorts[SORTS] = {
    {FABEMU_U64, 8}, {FABEMU_I32, 4}, {FABEMU_U8, 1}, {FABEMU_F64, 8}, {FABEMU_I32_I32, 8}};
static const unsigned whole_ops[] = {FABEMU_SUM,  FABEMU_MIN,  FABEMU_MAX,  FABEMU_PROD,
                                     FABEMU_LAND, FABEMU_LXOR, FABEMU_BAND, FABEMU_BXOR};
static const unsigned real_ops[] = {FABEMU_SUM, FABEMU_MIN, FABEMU_MAX};
static const unsigned pair_ops[] = {FABEMU_MINLOC, FABEMU_MAXLOC};

static enum sort sort_of(const struct chaos_op *op)
{
    return (enum sort)(op->random % SORTS);
}

static unsigned fold_of(const struct chaos_op *op)
{
    uint64_t random = op->random >> 16;

    switch (sort_of(op)) {
    case SORT_F64:
        return real_ops[random % 3];
    case SORT_PAIR:
        return pair_ops[random % 2];
    default:
        return whole_ops[random % 8];
    }
}

static uint32_t count_of(const struct chaos_op *op)
{
    uint32_t count = op->bytes / (uint32_t)sorts[sort_of(op)].bytes;

    return count > CHAOS_COUNT ? CHAOS_COUNT : count ? count : 1;
}

/* Element @i of member @m: a few bits, so that minima, products and pairs often coincide. */
static int64_t value_of(const struct chaos_op *op, uint32_t m, uint32_t i)
{
    return (int64_t)(emu_splitmix_at(op->random, (uint64_t)m << 32 | i) >> 56);
}

static int64_t folded(unsigned fold, int64_t a, int64_t b)
{
    switch (fold) {
    case FABEMU_SUM:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case FABEMU_MIN:
    case FABEMU_MINLOC:
        return a < b ? a : b;
    case FABEMU_MAX:
    case FABEMU_MAXLOC:
        return a > b ? a : b;
    case FABEMU_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case FABEMU_LAND:
        return a && b;
    case FABEMU_LXOR:
        return !a != !b;
    case FABEMU_BAND:
        return a & b;
    default:
        return a ^ b;
    }
}

/* Element @i of the result; of a pair, with the number of the first member that has the value. */
static int64_t result_of(const struct chaos_op *op, uint64_t members, uint32_t i, uint32_t *who)
{
    int64_t all = 0;

    *who = CHAOS_NODES;
    for (uint64_t left = members; left; left &= left - 1) {
        uint32_t m = (uint32_t)__builtin_ctzll(left);
        int64_t mine = value_of(op, m, i);
        int64_t next = left == members ? mine : folded(fold_of(op), all, mine);

        if (*who == CHAOS_NODES || next != all)
            *who = m;
        all = next;
    }
    return all;
}

static void value_put(enum sort sort, void *at, uint32_t i, int64_t value, uint32_t who)
{
    const int32_t pair[2] = {(int32_t)value, (int32_t)who};
    double real = (double)value;
    int32_t word = (int32_t)value;
    uint8_t byte = (uint8_t)value;
    const void *const from[SORTS] = {&value, &word, &byte, &real, pair};

    memcpy((char *)at + i * sorts[sort].bytes, from[sort], sorts[sort].bytes);
}

static void reduced(struct chaos_node *node, struct chaos_task *task)
{
    const struct chaos_op *op = task->op;
    const struct chaos_member *team = &node->team[task->team];
    enum sort sort = sort_of(op);
    bool mine = op->kind == CHAOS_ALLREDUCE || op->from == node->me;

    for (uint32_t i = 0; mine && !team->lost && i < count_of(op); i++) {
        uint32_t who;
        int64_t want = result_of(op, team->members, i, &who);
        uint8_t right[8];

        value_put(sort, right, 0, want, who);
        if (memcmp(task->buf + i * sorts[sort].bytes, right, sorts[sort].bytes))
            chaos_wrong(node,
                        "reduction %u (kind %u, operation %u, type %u) of team %" PRIx64
                        ": place %u of %u is not %" PRId64,
                        task->index, op->kind, fold_of(op), sorts[sort].type, team->members, i,
                        count_of(op), want);
    }
    if (mine && !team->lost)
        chaos_begun(node, team->members, "a reduction");
    chaos_check(node, task, NULL, 0, 0);
    chaos_over(node, task);
}

static int reduce_post(struct chaos_node *node, struct chaos_task *task)
{
    const struct chaos_op *op = task->op;
    struct fabemu_group *group = node->team[op->to].group;
    enum sort sort = sort_of(op);
    uint32_t count = count_of(op);

    for (uint32_t i = 0; i < count; i++)
        value_put(sort, task->buf, i, value_of(op, node->me, i), node->me);
    if (op->kind == CHAOS_ALLREDUCE)
        return fabemu_allreduce(group, task->buf, task->buf, count, fold_of(op), sorts[sort].type,
                                &task->req);
    return fabemu_reduce(group, task->buf, op->from == node->me ? task->buf : NULL, count,
                         fold_of(op), sorts[sort].type, op->from, &task->req);
}

/* --- other options ------------------------------------------------------------------ */

static void barrier_over(struct chaos_node *node, struct chaos_task *task)
{
    if (!node->team[task->team].lost)
        chaos_begun(node, node->team[task->team].members,
                    task->op->kind == CHAOS_QUERY ? "a conditional" : "a barrier");
    chaos_over(node, task);
}

static void broadcast_arrived(struct chaos_node *node, struct chaos_task *task)
{
    if (!node->team[task->team].lost)
        chaos_check(node, task, task->buf, task->bytes, task->op->random);
    chaos_over(node, task);
}

/* All set a word to a growing number; the root tests until all have. */
static int query_post(struct chaos_node *node, struct chaos_task *task)
{
    uint32_t word = (uint32_t)(task->op->random % FABEMU_WORDS);
    uint64_t value = (uint64_t)node->step * CHAOS_OPS + task->index + 1;
    struct fabemu_group *group = node->team[task->team].group;
    int err = fabemu_group_set(group, word, value, NULL);

    if (err || task->op->from != node->me)
        return err;
    return fabemu_group_test(group, word, value, FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL,
                             &task->req);
}

/* --- broadcast puts ----------------------------------------------------------------- */

static void cast_answered(struct chaos_node *node, struct chaos_task *task)
{
    chaos_over(node, task);
}

static void cast_announced(struct chaos_node *node, struct chaos_task *task)
{
    task->then = cast_answered;
    chaos_receive(node, task, task->peer, chaos_tag(node, CHAOS_SEEN, task->index), NULL, 0);
}

/* Check a broadcast put: the data arrived if @there, and nothing else was written. */
static void cast_check(struct chaos_node *node, struct chaos_task *task, bool there)
{
    const struct chaos_op *op = task->op;
    struct chaos_member *team = &node->team[op->to];
    uint32_t place = team->casts[op->from]++;
    uint8_t *slot, *other;

    if (!there || team->lost || !team->memory)
        return;
    slot = cast_slot(node, team, op->from, place);
    other = cast_slot(node, team, op->from, place + 1);
    chaos_check(node, task, slot, op->bytes, op->random);
    if (!chaos_poisoned(slot + op->bytes, CHAOS_CAST_MAX - op->bytes))
        chaos_wrong(node, "broadcast put %u of node %u wrote behind its place", task->index,
                    op->from);
    if (!chaos_poisoned(other, CHAOS_CAST_MAX))
        chaos_wrong(node, "something of node %u wrote once more where a broadcast put had been",
                    op->from);
    chaos_poison(slot, op->bytes);
}

/* After it has ended, the root tells all others whether it was delivered; each answers. */
static void cast_over(struct chaos_node *node, struct chaos_task *task)
{
    const struct chaos_op *op = task->op;
    uint64_t members = chaos_team(&node->plan, op->to, node->step / CHAOS_ERA);
    bool there = !node->team[op->to].lost;

    cast_check(node, task, there);
    for (uint64_t left = members; left; left &= left - 1) {
        uint32_t m = (uint32_t)__builtin_ctzll(left);
        struct chaos_task *announce;

        if (m == node->me || chaos_is_in(node->lost, m))
            continue;
        announce = chaos_task(node, task->index, 0);
        announce->peer = m;
        announce->word = there;
        announce->then = cast_announced;
        chaos_send(node, announce, m, chaos_tag(node, CHAOS_DONE, task->index), &announce->word, 8);
    }
    chaos_over(node, task);
}

static void cast_heard(struct chaos_node *node, struct chaos_task *task)
{
    cast_check(node, task, task->word);
    task->then = cast_answered;
    chaos_send(node, task, task->peer, chaos_tag(node, CHAOS_SEEN, task->index), NULL, 0);
}

static void cast(struct chaos_node *node, uint32_t index)
{
    const struct chaos_op *op = &node->op[index];
    struct chaos_member *team = &node->team[op->to];
    struct chaos_task *task;

    if (op->from != node->me) {
        if (chaos_is_in(node->lost, op->from))
            return;
        task = chaos_task(node, index, 0);
        task->peer = op->from;
        task->then = cast_heard;
        chaos_receive(node, task, op->from, chaos_tag(node, CHAOS_DONE, index), &task->word, 8);
        return;
    }
    task = chaos_task(node, index, op->bytes);
    task->team = op->to;
    task->then = cast_over;
    if (team->lost) {
        chaos_posted(task, 0); /* as if it had completed */
        return;
    }
    bytes_fill(task->buf, op->bytes, op->random);
    chaos_posted(task, fabemu_broadcast_put(team->group, team->key,
                                            (uint64_t)(cast_slot(node, team, node->me,
                                                                 team->casts[node->me]) -
                                                       team->memory),
                                            task->buf, op->bytes, &task->req));
}

/* --- tables ------------------------------------------------------------------------- */

static int post(struct chaos_node *node, struct chaos_task *task)
{
    const struct chaos_op *op = task->op;
    struct fabemu_group *group = node->team[op->to].group;

    switch (op->kind) {
    case CHAOS_BARRIER:
        task->then = barrier_over;
        return fabemu_barrier(group, &task->req);
    case CHAOS_BROADCAST:
        task->then = broadcast_arrived;
        if (op->from == node->me)
            bytes_fill(task->buf, op->bytes, op->random);
        return fabemu_broadcast(group, task->buf, op->bytes, op->from, &task->req);
    case CHAOS_QUERY:
        task->then = op->from == node->me ? barrier_over : chaos_over;
        return query_post(node, task);
    default:
        task->then = reduced;
        return reduce_post(node, task);
    }
}

void chaos_team_op(struct chaos_node *node, uint32_t index)
{
    const struct chaos_op *op = &node->op[index];
    bool reduces = op->kind == CHAOS_REDUCE || op->kind == CHAOS_ALLREDUCE;
    struct chaos_task *task;

    if (!chaos_is_in(node->team[op->to].members, node->me))
        return;
    if (op->kind == CHAOS_CAST) {
        cast(node, index);
        return;
    }
    if (node->team[op->to].lost)
        return;
    task = chaos_task(node, index, reduces ? count_of(op) * sorts[sort_of(op)].bytes : op->bytes);
    task->team = op->to;
    task->lasting = true;
    chaos_posted(task, post(node, task));
}
