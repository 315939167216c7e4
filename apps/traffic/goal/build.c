/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * build.c - builds the graph of a rank's operations and dependencies from the statements of a GOAL
 * file (docs/traffic.md).
 */
#include "apps/traffic/goal/build.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDGES_MOST  (UINT32_MAX - 1)
#define CYCLE_SHOWN 6u /* maximum number of operations of a cycle that an error names */

int goal_wrong(const struct goal_build *build, uint32_t line, const char *format, ...)
{
    int bytes = snprintf(build->error, build->error_bytes, "%s, line %u: ", build->path, line);
    va_list args;

    va_start(args, format);
    if (bytes > 0 && (size_t)bytes < build->error_bytes)
        vsnprintf(build->error + bytes, build->error_bytes - (size_t)bytes, format, args);
    va_end(args);
    return -EINVAL;
}

int goal_no_memory(const struct goal_build *build)
{
    snprintf(build->error, build->error_bytes, "%s: out of memory", build->path);
    return -ENOMEM;
}

bool goal_build_reserve(struct goal_array *array, size_t count, size_t bytes)
{
    size_t room = array->room ? array->room : 64;
    void *more;

    if (count <= array->room)
        return true;
    while (room < count)
        room += room / 2;
    more = realloc(array->at, room * bytes);
    if (!more)
        return false;
    *array = (struct goal_array){more, room};
    return true;
}

void goal_build_begin(struct goal_build *build, uint32_t rank, uint32_t line)
{
    build->rank = &build->goal->rank[rank];
    *build->rank = (struct goal_rank){.first = build->goal->ops,
                                      .cpus = 1,
                                      .first_member = build->goal->members,
                                      .line = line};
    build->needs = build->unresolved_count = 0;
    goal_labels_begin(&build->labels);
}

int goal_build_op(struct goal_build *build, const struct goal_op *op, struct goal_word label)
{
    struct goal *goal = build->goal;

    if (goal->ops == GOAL_OPS_MOST)
        return goal_wrong(build, op->line, "the file has more than %u operations", GOAL_OPS_MOST);
    if (!goal_build_reserve(&build->op, goal->ops + 1, sizeof goal->op[0]))
        return goal_no_memory(build);
    goal->op = build->op.at;
    int err = label.bytes ? goal_labels_add(&build->labels, label, build->rank->ops) : 0;
    if (err == -EEXIST)
        return goal_wrong(
            build, op->line,
            "the label '%.*s' exists already, in line %u; each operation of a rank "
            "needs its own",
            (int)(label.bytes < 40 ? label.bytes : 40), label.text,
            goal->op[build->rank->first + goal_labels_find(&build->labels, label)].line);
    if (err)
        return goal_no_memory(build);
    goal->op[goal->ops] = *op;
    if (op->kind == GOAL_SEND)
        goal->op[goal->ops].message = goal->messages++;
    if (op->kind == GOAL_COLL)
        goal->op[goal->ops].coll = goal->colls++;
    if (op->cpu >= build->rank->cpus)
        build->rank->cpus = op->cpu + 1u;
    goal->ops++;
    build->rank->ops++;
    return 0;
}

/* --- dependencies ------------------------------------------------------------------- */

static int need_add(struct goal_build *build, uint32_t op, uint32_t on,
                    const struct goal_label_need *need)
{
    if (build->goal->edges + (uint64_t)build->needs >= EDGES_MOST)
        return goal_wrong(build, need->line, "the file has more than %u dependencies", EDGES_MOST);
    if (!goal_build_reserve(&build->need, (size_t)build->needs + 1, sizeof(struct goal_need)))
        return goal_no_memory(build);
    ((struct goal_need *)build->need.at)[build->needs++] =
        (struct goal_need){op, 2 * on + need->start};
    return 0;
}

int goal_build_need(struct goal_build *build, const struct goal_label_need *need)
{
    uint32_t op = goal_labels_find(&build->labels, need->op);
    uint32_t on = goal_labels_find(&build->labels, need->on);

    if (op != GOAL_NONE && on != GOAL_NONE)
        return need_add(build, op, on, need);
    if (!goal_build_reserve(&build->unresolved, (size_t)build->unresolved_count + 1, sizeof *need))
        return goal_no_memory(build);
    ((struct goal_label_need *)build->unresolved.at)[build->unresolved_count++] = *need;
    return 0;
}

/* Add the dependencies that were read before an operation with one of their labels. */
static int resolve(struct goal_build *build)
{
    const struct goal_label_need *need = build->unresolved.at;
    int err = 0;

    for (uint32_t i = 0; !err && i < build->unresolved_count; i++, need++) {
        uint32_t op = goal_labels_find(&build->labels, need->op);
        uint32_t on = goal_labels_find(&build->labels, need->on);
        const struct goal_word *missing = op == GOAL_NONE ? &need->op : &need->on;

        if (op == GOAL_NONE || on == GOAL_NONE)
            err = goal_wrong(build, need->line,
                             "this rank has no operation with the label '%.*s'; dependencies "
                             "connect operations of one rank",
                             (int)(missing->bytes < 40 ? missing->bytes : 40), missing->text);
        else
            err = need_add(build, op, on, need);
    }
    return err;
}

/* Store the dependencies of the rank as edges, ordered by the operation that others wait for. */
static int store_edges(struct goal_build *build)
{
    struct goal *goal = build->goal;
    const struct goal_need *need = build->need.at;
    uint32_t first = build->rank->first, ops = build->rank->ops;

    if (!goal_build_reserve(&build->waits, goal->ops + 1, sizeof goal->waits[0]) ||
        !goal_build_reserve(&build->edge_first, goal->ops + 1, sizeof goal->edge_first[0]) ||
        !goal_build_reserve(&build->edge, (size_t)goal->edges + build->needs + 1,
                            sizeof goal->edge[0]))
        return goal_no_memory(build);
    goal->waits = build->waits.at;
    goal->edge_first = build->edge_first.at;
    goal->edge = build->edge.at;
    memset(goal->waits + first, 0, ops * sizeof goal->waits[0]);
    memset(goal->edge_first + first, 0, (ops + 1) * sizeof goal->edge_first[0]);
    for (uint32_t i = 0; i < build->needs; i++) {
        goal->waits[first + need[i].op]++;
        goal->edge_first[first + need[i].on / 2]++;
    }
    for (uint32_t i = 0, sum = goal->edges; i <= ops; i++) {
        sum += goal->edge_first[first + i];
        /* for now the end of the operation's edges; the loop below turns it into their beginning */
        goal->edge_first[first + i] = sum;
    }
    for (uint32_t i = build->needs; i-- > 0;)
        goal->edge[--goal->edge_first[first + need[i].on / 2]] = 2 * (first + need[i].op) +
                                                                 need[i].on % 2;
    goal->edges += build->needs;
    return 0;
}

/* --- cycles ------------------------------------------------------------------------- */

/*
 * Report a cycle with its operations. @left: by operation, number of dependencies that can never be
 * satisfied. @before: a buffer with an element for each operation.
 */
static int cycle_wrong(const struct goal_build *build, const uint32_t *left, uint32_t *before)
{
    const struct goal *goal = build->goal;
    uint32_t first = build->rank->first, ops = build->rank->ops, at = 0, begin;
    char lines[16 * CYCLE_SHOWN] = "";
    size_t bytes = 0;

    for (uint32_t i = 0; i < ops; i++)
        for (uint32_t e = goal->edge_first[first + i];
             left[i] && e < goal->edge_first[first + i + 1]; e++)
            if (left[goal->edge[e] / 2 - first])
                before[goal->edge[e] / 2 - first] = i;
    while (!left[at])
        at++;
    /* after one step backwards for each operation, `at` is in a cycle */
    for (uint32_t i = 0; i < ops; i++)
        at = before[at];
    begin = at;
    for (uint32_t shown = 0; shown < CYCLE_SHOWN && (!shown || at != begin); shown++) {
        bytes += (size_t)snprintf(lines + bytes, sizeof lines - bytes, "%s%u", shown ? ", " : "",
                                  goal->op[first + at].line);
        at = before[at];
    }
    return goal_wrong(build, goal->op[first + begin].line,
                      "the operations in these lines wait for each other in a cycle, so none can "
                      "start: %s%s",
                      lines, at == begin ? "" : ", …");
}

/*
 * Check that all operations can start. Kahn's algorithm: repeatedly remove an operation that waits
 * for no other.
 */
static int check_cycles(const struct goal_build *build)
{
    const struct goal *goal = build->goal;
    uint32_t first = build->rank->first, ops = build->rank->ops, done = 0, begun = 0;
    uint32_t *left, *queue;
    int err = 0;

    if (!build->needs)
        return 0;
    left = malloc(2 * (size_t)ops * sizeof left[0]);
    if (!left)
        return goal_no_memory(build);
    queue = left + ops;
    memcpy(left, goal->waits + first, ops * sizeof left[0]);
    for (uint32_t i = 0; i < ops; i++)
        if (!left[i])
            queue[begun++] = i;
    while (done < begun) {
        uint32_t op = first + queue[done++];

        for (uint32_t e = goal->edge_first[op]; e < goal->edge_first[op + 1]; e++) {
            uint32_t next = goal->edge[e] / 2 - first;

            if (!--left[next])
                queue[begun++] = next;
        }
    }
    if (begun < ops)
        err = cycle_wrong(build, left, queue);
    free(left);
    return err;
}

int goal_build_end(struct goal_build *build)
{
    int err = resolve(build);

    if (!err)
        err = store_edges(build);
    return err ? err : check_cycles(build);
}

/* --- messages ----------------------------------------------------------------------- */

/* Number the messages, and the pairs of ranks that exchange messages. */
int goal_build_done(struct goal_build *build)
{
    struct goal *goal = build->goal;
    /*
     * by receiver: sender[] is 1 + the last rank so far that sends to it; pair[] is the number of
     * the pair of these two ranks
     */
    uint32_t *sender = calloc(2 * (size_t)goal->ranks, sizeof sender[0]), *pair;

    goal->message = malloc(((size_t)goal->messages + 1) * sizeof goal->message[0]);
    if (!sender || !goal->message) {
        free(sender);
        return goal_no_memory(build);
    }
    pair = sender + goal->ranks;
    for (uint32_t r = 0; r < goal->ranks; r++) {
        for (uint32_t i = 0; i < goal->rank[r].ops; i++) {
            uint32_t op = goal->rank[r].first + i;
            uint32_t to = goal->op[op].peer;

            if (goal->op[op].kind != GOAL_SEND)
                continue;
            if (sender[to] != r + 1) {
                sender[to] = r + 1;
                pair[to] = goal->pairs++;
            }
            goal->message[goal->op[op].message] = (struct goal_message){op, r, pair[to]};
        }
    }
    free(sender);
    return 0;
}

void goal_build_release(struct goal_build *build)
{
    struct goal *goal = build->goal;

    goal->op = build->op.at;
    goal->waits = build->waits.at;
    goal->edge_first = build->edge_first.at;
    goal->edge = build->edge.at;
    goal->group = build->group.at;
    goal->member = build->member.at;
    goal_labels_release(&build->labels);
    free(build->need.at);
    free(build->unresolved.at);
}
