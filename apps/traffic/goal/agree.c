/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * agree.c - check that the ranks of a group have started the same collectives in the same order.
 * Not every difference is seen while the operations are played. For example, the root of a
 * broadcast does not wait for the other ranks.
 */
#include <errno.h>

#include "apps/base/message.h"
#include "apps/traffic/goal/node.h"

/* Return the first operation of group @group that @rank has started; GOAL_NONE: there is none. */
static uint32_t first_of(const struct goal_player *player, uint32_t rank, uint32_t group)
{
    const struct goal *goal = player->goal;
    uint32_t first = goal->rank[rank].first_member;

    for (uint32_t m = first; m < first + goal->rank[rank].members; m++)
        if (goal->member[m].group == group)
            return player->stream[m].first;
    return GOAL_NONE;
}

static bool is_same(const struct goal_op *a, const struct goal_op *b)
{
    return a->coll_kind == b->coll_kind && a->amount == b->amount && a->peer == b->peer &&
           a->fold_op == b->fold_op && a->fold_type == b->fold_type;
}

/* Compare the collectives of @group that @rank has started with those of the group's first rank. */
static int compare(const struct goal_player *player, uint32_t group, uint32_t rank, bool complete,
                   char *error, size_t error_bytes)
{
    const struct goal_op *op = player->goal->op;
    uint32_t lead = player->goal->group[group].rank[0];
    uint32_t a = first_of(player, lead, group), b = first_of(player, rank, group);
    char text[GOAL_TEXT_BYTES], other[GOAL_TEXT_BYTES];

    while (a != GOAL_NONE && b != GOAL_NONE && is_same(&op[a], &op[b])) {
        a = player->coll[op[a].coll].after;
        b = player->coll[op[b].coll].after;
    }
    if (a != GOAL_NONE && b != GOAL_NONE)
        return fail(-EINVAL, error, error_bytes,
                    "rank %u: %s (line %u) does not match the collective of rank %u of its group: "
                    "%s (line %u); kind, size, root, operation and type must be the same",
                    rank, goal_op_text(&op[b], text), op[b].line, lead, goal_op_text(&op[a], other),
                    op[a].line);
    if (a == b || !complete)
        return 0;
    return fail(-EINVAL, error, error_bytes,
                "rank %u: %s (line %u) has no counterpart at rank %u of its group",
                b == GOAL_NONE ? lead : rank, goal_op_text(&op[b == GOAL_NONE ? a : b], text),
                op[b == GOAL_NONE ? a : b].line, b == GOAL_NONE ? rank : lead);
}

int goal_player_agree(const struct goal_player *player, bool complete, char *error,
                      size_t error_bytes)
{
    int err = 0;

    for (uint32_t g = 0; !err && g < player->goal->groups; g++) {
        const struct goal_group *group = &player->goal->group[g];

        for (uint32_t i = 1; group->used && !err && i < group->ranks; i++)
            err = compare(player, g, group->rank[i], complete, error, error_bytes);
    }
    return err;
}
