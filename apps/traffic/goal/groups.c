/* SPDX-License-Identifier: BSD-3-Clause */
/* groups.c - the groups of a file, and which ranks use them. */
#include "apps/traffic/goal/build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_rank(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The ranks of a group are stored twice: in the order of the file, and then in ascending order. */
static const uint32_t *sorted(const struct goal_group *group)
{
    return group->rank + group->ranks;
}

static int check_ranks(const struct goal_build *build, const struct goal_group *group)
{
    if (group->ranks < 2)
        return goal_wrong(build, group->line, "a group has 2 ranks or more");
    for (uint32_t i = 1; i < group->ranks; i++)
        if (sorted(group)[i] == sorted(group)[i - 1])
            return goal_wrong(build, group->line, "rank %u is twice in the group",
                              sorted(group)[i]);
    return 0;
}

int goal_build_group(struct goal_build *build, uint32_t number, bool wide, uint32_t line,
                     const uint32_t *ranks, uint32_t count)
{
    struct goal *goal = build->goal;
    struct goal_group group = {.number = number, .line = line, .ranks = count, .wide = wide};

    if (goal->groups && goal->group[goal->groups - 1].number >= number)
        return goal_wrong(build, line, "the numbers of groups must ascend, but %u follows %u",
                          number, goal->group[goal->groups - 1].number);
    group.rank = malloc((2 * (size_t)count + 1) * sizeof group.rank[0]);
    if (!group.rank ||
        !goal_build_reserve(&build->group, (size_t)goal->groups + 1, sizeof goal->group[0])) {
        free(group.rank);
        return goal_no_memory(build);
    }
    memcpy(group.rank, ranks, count * sizeof ranks[0]);
    memcpy(group.rank + count, ranks, count * sizeof ranks[0]);
    qsort(group.rank + count, count, sizeof ranks[0], by_rank);
    goal->group = build->group.at;
    goal->group[goal->groups++] = group;
    return check_ranks(build, &group);
}

static bool has_rank(const struct goal_group *group, uint32_t rank)
{
    return bsearch(&rank, sorted(group), group->ranks, sizeof rank, by_rank) != NULL;
}

static int by_number(const void *a, const void *b)
{
    const struct goal_group *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

static struct goal_group *group_find(const struct goal *goal, uint32_t number)
{
    const struct goal_group key = {.number = number};

    return goal->groups ? bsearch(&key, goal->group, goal->groups, sizeof goal->group[0], by_number)
                        : NULL;
}

/* Set *@ret to the membership of the present rank in group @index, which may be a new one. */
static int member_of(struct goal_build *build, uint32_t index, uint32_t *ret)
{
    struct goal *goal = build->goal;
    uint32_t rank = (uint32_t)(build->rank - goal->rank);

    for (uint32_t i = build->rank->members; i-- > 0;)
        if (goal->member[build->rank->first_member + i].group == index) {
            *ret = build->rank->first_member + i;
            return 0;
        }
    if (!goal_build_reserve(&build->member, (size_t)goal->members + 1, sizeof goal->member[0]))
        return goal_no_memory(build);
    goal->member = build->member.at;
    goal->member[goal->members] = (struct goal_member){rank, index};
    build->rank->members++;
    *ret = goal->members++;
    return 0;
}

int goal_build_member(struct goal_build *build, struct goal_op *op, uint32_t number, bool rooted)
{
    struct goal *goal = build->goal;
    struct goal_group *group = group_find(goal, number);
    uint32_t rank = (uint32_t)(build->rank - goal->rank);

    if (!group)
        return goal_wrong(build, op->line,
                          "the file has no group %u; a group needs a line before the first rank: "
                          "group %u ranks 0-3",
                          number, number);
    if (!has_rank(group, rank) || (rooted && !has_rank(group, op->peer)))
        return goal_wrong(build, op->line, "rank %u is not in group %u (line %u)",
                          has_rank(group, rank) ? op->peer : rank, number, group->line);
    group->used = true;
    return member_of(build, (uint32_t)(group - goal->group), &op->member);
}
