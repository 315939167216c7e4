/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.c - see plan.h.
 */
#include "tests/chaos/plan.h"

#include "emu/util/random.h"
#include "tests/fixtures/bytes.h"

/* Character of a step: how often each kind is drawn, and the sizes of operations. */
struct mix {
    uint8_t often[CHAOS_KINDS];
    uint32_t most;   /* largest size in bytes */
    uint32_t a_node; /* average operations started by a node */
    bool to_one;     /* all with one node */
};

static const struct mix mixes[] = {
    {{6, 4, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 8192, 4, false},        /* some of everything */
    {{8, 8, 0, 0, 4, 2, 4, 0, 0, 0, 0, 0, 0}, 192, 8, false},         /* many short ones */
    {{4, 4, 4, 4, 0, 0, 0, 0, 1, 0, 1, 0, 1}, CHAOS_BYTES, 2, false}, /* few long ones */
    {{0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 2, 2}, 4096, 3, false},        /* collectives */
    {{0, 0, 0, 0, 0, 0, 0, 8, 0, 1, 4, 1, 0}, 64, 4, false},          /* short ones */
    {{4, 4, 4, 4, 2, 1, 4, 0, 0, 0, 0, 0, 0}, 16384, 3, true},        /* all with one */
    {{0, 0, 4, 4, 1, 1, 1, 0, 0, 0, 0, 0, 2}, CHAOS_BYTES, 2, false}, /* memory */
};
#define MIXES (sizeof mixes / sizeof mixes[0])

static uint64_t step_seed(const struct chaos_plan *plan, uint64_t step)
{
    return emu_mix(plan->seed + step * UINT64_C(0x9e3779b97f4a7c15));
}

static enum chaos_kind kind_of(const struct mix *mix, uint64_t *random)
{
    uint32_t all = 0, at;
    unsigned kind = 0;

    for (unsigned k = 0; k < CHAOS_KINDS; k++)
        all += mix->often[k];
    at = bytes_below(random, all);
    while (at >= mix->often[kind])
        at -= mix->often[kind++];
    return (enum chaos_kind)kind;
}

/* Half of them are short in every mix. */
static uint32_t bytes_of(const struct mix *mix, uint64_t *random)
{
    uint32_t most = bytes_below(random, 2) && mix->most > 256 ? 256 : mix->most;

    return bytes_below(random, most + 1);
}

static void op_draw(const struct chaos_plan *plan, const struct mix *mix, uint32_t one, uint32_t i,
                    uint64_t *random, struct chaos_op *op)
{
    op->kind = kind_of(mix, random);
    if (!plan->teams && op->kind >= CHAOS_BARRIER)
        op->kind = CHAOS_STREAM;
    if (!plan->words && (op->kind == CHAOS_QUERY || op->kind == CHAOS_CAST))
        op->kind = CHAOS_BROADCAST;
    op->bytes = bytes_of(mix, random);
    op->from = i % plan->nodes;
    op->to = mix->to_one ? one : bytes_below(random, plan->nodes);
    if (op->to == op->from)
        op->to = (op->from + 1 + bytes_below(random, plan->nodes - 1)) % plan->nodes;
    op->random = emu_splitmix(random);
    if (op->kind >= CHAOS_BARRIER)
        op->to = bytes_below(random, plan->teams);
}

/* A random member of a team, to be a root. */
static uint32_t member_draw(uint64_t members, uint64_t *random)
{
    uint32_t skip = bytes_below(random, (uint32_t)__builtin_popcountll(members));

    while (skip--)
        members &= members - 1;
    return (uint32_t)__builtin_ctzll(members);
}

uint32_t chaos_step(const struct chaos_plan *plan, uint32_t step, struct chaos_op *ret)
{
    uint64_t random = step_seed(plan, step);
    const struct mix *mix = &mixes[bytes_below(&random, MIXES)];
    uint32_t one = bytes_below(&random, plan->nodes);
    uint32_t count = mix->a_node * plan->nodes;
    bool cast[CHAOS_TEAMS] = {false};

    count = count > CHAOS_OPS ? CHAOS_OPS : count;
    for (uint32_t i = 0; i < count; i++) {
        struct chaos_op *op = &ret[i];

        op_draw(plan, mix, one, i, &random, op);
        if (op->kind < CHAOS_BARRIER)
            continue;
        op->from = member_draw(chaos_team(plan, op->to, step / CHAOS_ERA), &random);
        if (op->kind == CHAOS_CAST && cast[op->to])
            op->kind = CHAOS_BROADCAST; /* there is one slot for them per step and team */
        cast[op->to] = cast[op->to] || op->kind == CHAOS_CAST;
        if (op->kind == CHAOS_CAST && op->bytes > CHAOS_CAST_MAX)
            op->bytes = CHAOS_CAST_MAX;
    }
    return count;
}

uint64_t chaos_team(const struct chaos_plan *plan, uint32_t team, uint32_t era)
{
    uint64_t all = chaos_all(plan);
    uint64_t random = emu_mix(plan->seed ^ ((uint64_t)team << 32 | era) * 0x2545f4914f6cdd1du);
    uint64_t members;

    if (team == 0 && era % 2 == 0)
        return all;
    do
        members = emu_splitmix(&random) & all;
    while (!(members & (members - 1)));
    return members;
}

bool chaos_may_fail(const struct chaos_plan *plan, uint32_t a, uint32_t b)
{
    return chaos_is_in(plan->doomed, a) || chaos_is_in(plan->doomed, b) ||
           chaos_is_in(plan->parted, a) != chaos_is_in(plan->parted, b);
}

bool chaos_team_may_fail(const struct chaos_plan *plan, uint64_t members)
{
    return members & plan->doomed || (members & plan->parted && members & ~plan->parted);
}
