/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * goal.c - write the communication of all processes to a GOAL file (`--goal`): the groups whose
 * collectives the network executes, and the part that each process wrote (nic/host/base/trace.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/fold.h"
#include "apps/base/message.h"
#include "apps/daemon/client.h"
#include "apps/fabric/origin.h"

/* The groups that the fabric has created so far. */
struct daemon_goal {
    size_t count, room;
    struct goal_group {
        uint32_t id, members;
        uint32_t *node; /* the members, in the order of the group */
    } * group;
};

/* Make room for one more group. Returns false if there is no memory. */
static bool grow(struct daemon_goal *goal)
{
    size_t room = goal->room ? 2 * goal->room : 16;
    struct goal_group *more = goal->group;

    if (goal->count < goal->room)
        return true;
    more = realloc(more, room * sizeof *more);
    if (!more)
        return false;
    goal->group = more;
    goal->room = room;
    return true;
}

void daemon_goal_group(struct daemon *daemon, uint32_t id, const uint32_t *nodes, uint32_t count)
{
    struct daemon_goal *goal = daemon->goal;
    uint32_t *node;

    if (!daemon->config->fabric->compute.traces)
        return;
    if (!goal)
        goal = daemon->goal = calloc(1, sizeof *goal);
    node = malloc(count * sizeof node[0]);
    if (!goal || !node || !grow(goal)) {
        free(node);
        daemon->goal_lost = true;
        return;
    }
    memcpy(node, nodes, count * sizeof node[0]);
    goal->group[goal->count++] = (struct goal_group){id, count, node};
}

/* --- the file ------------------------------------------------------------------------- */

/* Write a group, for example "group 5 wide ranks 0-3 7". */
static void group_write(FILE *out, const struct goal_group *group)
{
    fprintf(out, "group %u%s ranks", group->id, group->id & EMU_GROUP_WIDE ? " wide" : "");
    for (uint32_t i = 0, end; i < group->members; i = end) {
        for (end = i + 1; end < group->members && group->node[end] == group->node[end - 1] + 1;)
            end++;
        fprintf(out, " %u", group->node[i]);
        if (end > i + 1)
            fprintf(out, "-%u", group->node[end - 1]);
    }
    fputc('\n', out);
}

static int by_id(const void *a, const void *b)
{
    const struct goal_group *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static void groups_write(FILE *out, struct daemon_goal *goal)
{
    qsort(goal->group, goal->count, sizeof goal->group[0], by_id);
    for (size_t i = 0; i < goal->count; i++)
        group_write(out, &goal->group[i]);
}

/* Return whether the process wrote its whole trace. */
static bool ended_well(const struct calls_part *part)
{
    const size_t end = sizeof EMU_TRACE_END - 1;

    return part->bytes >= end && memcmp(part->data + part->bytes - end, EMU_TRACE_END, end) == 0;
}

/* An incomplete block has no closing brace, so that every reader of GOAL refuses the file. */
void daemon_goal_write(const struct daemon *daemon, FILE *out, struct json_object *origin,
                       const struct calls_part *part, size_t parts)
{
    origin_print(out, origin, "// ", "// ", FOLD_NEVER);
    json_object_put(origin);
    fprintf(out, "num_ranks %lld\n", (long long)part[parts - 1].rank + 1);
    if (daemon->goal)
        groups_write(out, daemon->goal);
    for (size_t i = 0; i < parts; i++) {
        fprintf(out, "rank %lld {\n", (long long)part[i].rank);
        fwrite(part[i].data, 1, part[i].bytes, out);
        fputs(ended_well(&part[i]) ? "}\n" : "\n// incomplete: the process did not end well\n",
              out);
    }
}

/* --- checks --------------------------------------------------------------------------- */

/* Return how many calls the process has marked as not expressible in GOAL. */
static uint64_t calls_left_out(const struct calls_part *part)
{
    const char *at = (const char *)part->data, *end = at + part->bytes;
    uint64_t count = 0;

    while ((at = memmem(at, (size_t)(end - at), EMU_TRACE_NOT, sizeof EMU_TRACE_NOT - 1))) {
        at += sizeof EMU_TRACE_NOT - 1;
        count++;
    }
    return count;
}

/* Check the groups. After many thousands of groups, a new group gets the address of an old one. */
static bool groups_check(const struct daemon *daemon)
{
    const struct daemon_goal *goal = daemon->goal;

    if (daemon->goal_lost) {
        print_message("--goal: out of memory, so a group is missing in the file");
        return false;
    }
    for (size_t i = 1; goal && i < goal->count; i++)
        if (goal->group[i].id == goal->group[i - 1].id) {
            print_message("--goal: the program created more than %zu groups, too many for the file",
                          goal->count - 1);
            return false;
        }
    return true;
}

/*
 * Warn if the file has so many groups that `fabemu traffic` may refuse it. The program may have
 * freed a group before it created the next one, but `fabemu traffic` creates all of them at the
 * beginning. All processes have ended, so fabric_groups_left() counts the groups of an empty
 * fabric.
 */
static void groups_warn(const struct daemon *daemon, const struct calls_part *part, size_t parts)
{
    const struct daemon_goal *goal = daemon->goal;
    uint32_t *node = malloc(parts * sizeof node[0]), left;
    uint64_t needed = 0;

    for (size_t i = 0; goal && i < goal->count; i++)
        needed += emu_window(goal->group[i].id) / EMU_WINDOW;
    for (size_t i = 0; node && i < parts; i++)
        node[i] = (uint32_t)part[i].rank;
    left = node ? fabric_groups_left(daemon->fabric, node, (uint32_t)parts) : UINT32_MAX;
    if (needed > left)
        print_message("--goal: the program created %zu groups, and fabemu traffic creates all of "
                      "them at the beginning, but such a network has room for %u; record with "
                      "mpirun --mca coll_fabemu_enable 0 to have no groups in the file",
                      goal->count, left);
    free(node);
}

bool daemon_goal_check(const struct daemon *daemon, const struct calls_part *part, size_t parts)
{
    uint64_t left_out = 0;

    for (size_t i = 0; i < parts; i++) {
        if (i && part[i].rank == part[i - 1].rank) {
            print_message("--goal: node %lld had several processes, but GOAL has one for each rank",
                          (long long)part[i].rank);
            return false;
        }
        if (!ended_well(&part[i])) {
            print_message("--goal: the process of node %lld did not end well, so the file is not "
                          "complete, and fabemu traffic refuses it",
                          (long long)part[i].rank);
            return false;
        }
        left_out += calls_left_out(&part[i]);
    }
    if (left_out)
        print_message("--goal: the file does not contain the whole program, because GOAL has no "
                      "one-sided accesses and no triggered operations (%llu calls)",
                      (unsigned long long)left_out);
    if (left_out || !groups_check(daemon))
        return false;
    groups_warn(daemon, part, parts);
    return true;
}

void daemon_goal_free(struct daemon *daemon)
{
    for (size_t i = 0; daemon->goal && i < daemon->goal->count; i++)
        free(daemon->goal->group[i].node);
    if (daemon->goal)
        free(daemon->goal->group);
    free(daemon->goal);
    daemon->goal = NULL;
}
