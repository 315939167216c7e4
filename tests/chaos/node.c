/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node.c - see node.h: the life cycle of a process, and tasks in general.
 */
#include "tests/chaos/node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/util/random.h"
#include "tests/fixtures/bytes.h"

#define QUEUE     1u
#define LATE_MOST 40u /* most rounds by which an operation is delayed */
#define POISON    0xa5u

void chaos_wrong(struct chaos_node *node, const char *format, ...)
{
    char text[CHAOS_LINE - 64];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "chaos_nodes: node %u, step %u: %s\n", node->me, node->step, text);
    if (!atomic_exchange(&node->board->wrong, true))
        snprintf(node->board->line, CHAOS_LINE, "node %u, step %u: %s", node->me, node->step, text);
    _exit(1);
}

void chaos_idle(struct chaos_node *node, uint32_t *rounds)
{
    if (fabemu_progress(node->fab))
        *rounds = 0;
    else
        fabemu_idle(node->fab, (*rounds)++);
}

/* --- bytes -------------------------------------------------------------------------- */

void chaos_poison(uint8_t *at, size_t bytes)
{
    memset(at, POISON, bytes);
}

bool chaos_poisoned(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != POISON)
            return false;
    return true;
}

void chaos_check(struct chaos_node *node, const struct chaos_task *task, const void *at,
                 size_t bytes, uint64_t key)
{
    size_t good = bytes;

    if (task->buf && !chaos_poisoned(task->buf + task->bytes, CHAOS_GUARD))
        chaos_wrong(node, "operation %u wrote behind its buffer of %zu bytes", task->index,
                    task->bytes);
    if (bytes_filled(at, bytes, key))
        return;
    while (good && !bytes_filled(at, good, key))
        good--;
    chaos_wrong(
        node, "operation %u, kind %u, from node %u: of %zu bytes those from byte %zu on are wrong",
        task->index, task->op->kind, task->op->from, bytes, good);
}

/* --- tasks -------------------------------------------------------------------------- */

struct chaos_task *chaos_task(struct chaos_node *node, uint32_t index, size_t bytes)
{
    struct chaos_task *task = &node->task[node->tasks++];

    if (node->tasks > CHAOS_TASKS)
        chaos_wrong(node, "more than %u tasks in a step", CHAOS_TASKS);
    memset(task, 0, sizeof *task);
    task->op = &node->op[index];
    task->index = index;
    task->team = CHAOS_TEAMS;
    task->bytes = bytes;
    task->buf = malloc(bytes + CHAOS_GUARD);
    if (!task->buf)
        chaos_wrong(node, "there is no memory");
    chaos_poison(task->buf, bytes + CHAOS_GUARD);
    return task;
}

void chaos_posted(struct chaos_task *task, int err)
{
    task->posted = true;
    if (err)
        task->req.status = err;
}

void chaos_over(struct chaos_node *node, struct chaos_task *task)
{
    struct chaos_incarnation *place = &node->board->place[node->me];

    task->over = true;
    atomic_fetch_add_explicit(&place->done, 1, memory_order_relaxed);
}

void chaos_begun(struct chaos_node *node, uint64_t members, const char *who)
{
    for (uint64_t left = members; left; left &= left - 1) {
        uint32_t m = (uint32_t)__builtin_ctzll(left);

        if (atomic_load(&node->board->place[m].begun) <= node->step)
            chaos_wrong(node, "%s was over before node %u had come", who, m);
    }
}

uint64_t chaos_tag(const struct chaos_node *node, enum chaos_use use, uint32_t index)
{
    return use == CHAOS_IN_ORDER ? UINT64_C(1) << 60
                                 : (uint64_t)use << 60 | (uint64_t)node->step << 16 | index;
}

uint64_t chaos_incarnation_of(const struct chaos_node *node, const struct chaos_task *task)
{
    if (task->successor && chaos_is_in(node->plan.doomed, task->peer))
        return atomic_load(&node->board->successor[task->peer]);
    return node->plan.successors ? node->board->incarnation[task->peer] : 0;
}

void chaos_send(struct chaos_node *node, struct chaos_task *task, uint32_t peer, uint64_t tag,
                const void *at, size_t bytes)
{
    struct fabemu_dest dest = {.node = peer,
                               .queue = QUEUE,
                               .tag = tag,
                               .data = ~tag,
                               .incarnation = chaos_incarnation_of(node, task)};
    size_t first = task->op->random % 3 && bytes ? task->op->random % bytes : bytes;
    const struct fabemu_iov iov[2] = {{.base = (void *)(uintptr_t)at, .bytes = first},
                                      {.base = (char *)(uintptr_t)at + first,
                                       .bytes = bytes - first}};

    dest.delivered = task->op->random >> 8 & 1;
    memset(&task->req, 0, sizeof task->req);
    chaos_posted(task, fabemu_send(node->queue, &dest, iov, 2, &task->req));
}

void chaos_receive(struct chaos_node *node, struct chaos_task *task, uint32_t peer, uint64_t tag,
                   void *at, size_t bytes)
{
    const struct fabemu_iov iov = {.base = at, .bytes = bytes};

    memset(&task->req, 0, sizeof task->req);
    if (peer != FABEMU_ANY_NODE)
        task->req.incarnation = chaos_incarnation_of(node, task);
    chaos_posted(task, fabemu_recv(node->queue, peer, tag, 0, &iov, 1, &task->req));
}

/* Abort all operations with @peer, and start no more with it. */
static void peer_lose(struct chaos_node *node, uint32_t peer)
{
    node->lost |= UINT64_C(1) << peer;
    for (uint32_t i = 0; i < node->tasks; i++) {
        struct chaos_task *task = &node->task[i];

        if (task->over || task->team != CHAOS_TEAMS || task->peer != peer || task->successor)
            continue;
        if (task->posted && fabemu_req_status(&task->req) == FABEMU_PENDING) {
            if (task->lasting)
                continue;
            fabemu_abort(node->fab, &task->req);
        }
        task->over = true;
    }
}

static void team_lose(struct chaos_node *node, uint32_t team)
{
    node->team[team].lost = true;
}

/* The task failed. Is that allowed? */
static void task_failed(struct chaos_node *node, struct chaos_task *task, int status)
{
    bool pair = task->team == CHAOS_TEAMS;
    bool may = pair ? !task->successor && chaos_may_fail(&node->plan, node->me, task->peer)
                    : chaos_team_may_fail(&node->plan, node->team[task->team].members);
    bool right = pair ? status == -EHOSTUNREACH || status == -ECANCELED : status == -EPIPE;
    char why[160];

    fabemu_req_why(node->fab, &task->req, why, sizeof why);
    if (!may || !right)
        chaos_wrong(node,
                    "operation %u, kind %u, from node %u to %u, %zu bytes, ended with: %s (%s)",
                    task->index, task->op->kind, task->op->from, task->op->to, task->bytes,
                    strerror(-status), why);
    atomic_fetch_add(&node->board->place[node->me].failed, 1);
    if (pair) {
        task->over = true;
        peer_lose(node, task->peer);
    } else {
        team_lose(node, task->team);
        task->then(node, task);
    }
}

static void task_step(struct chaos_node *node, struct chaos_task *task)
{
    int status;

    if (!task->posted) {
        if (task->late)
            task->late--;
        else
            task->start(node, task);
        return;
    }
    status = fabemu_req_status(&task->req);
    if (status == FABEMU_PENDING) {
        if (task->rounds && !--task->rounds)
            task->withdraw(node, task);
        return;
    }
    if (status == -ECANCELED && task->withdrawn)
        task->withdrawn(node, task);
    else if (status)
        task_failed(node, task, status);
    else
        task->then(node, task);
}

/* Run until all tasks of the step have ended. */
void chaos_finish(struct chaos_node *node)
{
    uint32_t rounds = 0, first = 0;

    while (first < node->tasks) {
        for (uint32_t i = first; i < node->tasks; i++)
            if (!node->task[i].over)
                task_step(node, &node->task[i]);
        while (first < node->tasks && node->task[first].over)
            first++;
        if (first < node->tasks)
            chaos_idle(node, &rounds);
    }
    for (uint32_t i = 0; i < node->tasks; i++)
        free(node->task[i].buf);
    node->tasks = 0;
}

/* --- the process -------------------------------------------------------------------- */

struct chaos_node *chaos_open(const struct chaos_plan *plan, struct chaos_board *board, uint32_t me)
{
    struct chaos_node *node = calloc(1, sizeof *node);
    char number[16];
    int err;

    if (!node)
        return NULL;
    node->plan = *plan;
    node->board = board;
    node->me = me;
    snprintf(number, sizeof number, "%u", node->me);
    setenv("FABEMU_NODE", number, 1);
    node->task = calloc(CHAOS_TASKS, sizeof *node->task);
    if (!node->task)
        chaos_wrong(node, "there is no memory");
    err = fabemu_attach(&node->fab, NULL);
    if (!err)
        err = fabemu_queue_open(node->fab, QUEUE, &node->queue);
    if (err)
        chaos_wrong(node, "it cannot attach: %s (%s)", strerror(-err), fabemu_error());
    if (fabemu_info(node->fab)->node != node->me)
        chaos_wrong(node, "it was given node %u", fabemu_info(node->fab)->node);
    node->plan.words = fabemu_info(node->fab)->acknowledged;
    return node;
}

/* Wait until all nodes are in this set, or dead. */
void chaos_handshake(struct chaos_node *node, _Atomic uint64_t *set)
{
    uint32_t rounds = 0;

    atomic_fetch_or(set, UINT64_C(1) << node->me);
    while ((atomic_load(set) | atomic_load(&node->board->dead)) != chaos_all(&node->plan))
        chaos_idle(node, &rounds);
}

/* May the node start its next step? Waits until that is known. */
static bool node_goes_on(struct chaos_node *node)
{
    uint32_t rounds = 0;

    for (;;) {
        bool last = atomic_load(&node->board->last);

        if (node->step < atomic_load(&node->board->steps))
            return true;
        if (last)
            return false;
        chaos_idle(node, &rounds);
    }
}

static void node_step(struct chaos_node *node)
{
    uint32_t count = chaos_step(&node->plan, node->step, node->op);

    if (node->step % CHAOS_ERA == 0)
        chaos_teams_turn(node, node->step / CHAOS_ERA);
    atomic_store(&node->board->place[node->me].begun, node->step + 1);
    if (!node->visited && atomic_load(&node->board->successor[chaos_doomed(&node->plan)]))
        chaos_visit(node);
    for (uint32_t i = 0; i < count; i++) {
        if (node->op[i].kind < CHAOS_BARRIER)
            chaos_pair(node, i);
        else
            chaos_team_op(node, i);
    }
    for (uint32_t i = 0; i < node->tasks; i++) {
        struct chaos_task *task = &node->task[i];

        if (!task->posted && !task->late && task->op->random >> 12 & 1)
            task->late = (uint32_t)(emu_mix(task->op->random ^ node->me) % LATE_MOST);
    }
    chaos_finish(node);
}

int chaos_node_run(const struct chaos_plan *plan, struct chaos_board *board, uint32_t me)
{
    struct chaos_node *node = chaos_open(plan, board, me);

    if (!node)
        return 1;
    chaos_pairs_open(node);
    board->incarnation[me] = fabemu_info(node->fab)->incarnation;
    chaos_handshake(node, &board->ready);
    for (uint32_t n = 0; n < plan->nodes; n++)
        if (!board->incarnation[n])
            node->lost |= UINT64_C(1) << n; /* it died before it attached */
    for (; node_goes_on(node); node->step++)
        node_step(node);
    if (atomic_load(&board->successors) && !node->visited) {
        chaos_visit(node);
        chaos_finish(node);
    }
    chaos_handshake(node, &board->finished);
    chaos_visited(node);
    chaos_pairs_end(node);
    chaos_teams_leave(node);
    fabemu_queue_close(node->queue);
    fabemu_detach(node->fab);
    return 0;
}
