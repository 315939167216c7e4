/* SPDX-License-Identifier: BSD-3-Clause */
/* ops.c - the operations of a rank: dependencies and cpus. */
#include "apps/traffic/goal/node.h"

void goal_ops_append(const struct goal_node *node, struct goal_list *list, uint32_t op)
{
    struct goal_state *state = node->player->state;

    state[op].next = GOAL_NONE;
    if (list->head == GOAL_NONE)
        list->head = op;
    else
        state[list->tail].next = op;
    list->tail = op;
}

void goal_ops_unlink(const struct goal_node *node, struct goal_list *list, uint32_t before,
                     uint32_t op)
{
    struct goal_state *state = node->player->state;

    *(before == GOAL_NONE ? &list->head : &state[before].next) = state[op].next;
    if (list->tail == op)
        list->tail = before;
}

static void ready(struct goal_node *node, uint32_t op)
{
    goal_ops_append(node, &node->cpu[goal_node_op(node, op)->cpu].ready, op);
}

/*
 * Satisfy the dependencies on the end of operation @op or, if @start is GOAL_EDGE_START, on its
 * start.
 */
static void satisfy(struct goal_node *node, uint32_t op, uint32_t start)
{
    const struct goal *goal = node->player->goal;

    for (uint32_t e = goal->edge_first[op]; e < goal->edge_first[op + 1]; e++)
        if ((goal->edge[e] & GOAL_EDGE_START) == start &&
            !--node->player->state[goal->edge[e] / 2].waits)
            ready(node, goal->edge[e] / 2);
}

void goal_ops_done(struct goal_node *node, uint32_t op, uint64_t now_ps)
{
    node->player->state[op].waits = GOAL_DONE;
    node->finish_ps = now_ps;
    node->done++;
    node->worker->done++;
    satisfy(node, op, 0);
}

void goal_ops_fail(struct goal_node *node, uint32_t op, enum goal_fault fault)
{
    if (node->fault)
        return;
    node->fault = fault;
    node->fault_op = op;
    node->worker->fault = true;
}

/* --- calc --------------------------------------------------------------------------- */

static void calc_start(struct goal_node *node, uint32_t op, uint64_t now_ps)
{
    struct goal_cpu *cpu = &node->cpu[goal_node_op(node, op)->cpu];
    uint64_t length_ps = goal_node_op(node, op)->amount * 1000;

    if (!length_ps) {
        goal_ops_done(node, op, now_ps);
        return;
    }
    if (length_ps > EMU_LAST_PS - now_ps) {
        goal_ops_fail(node, op, GOAL_TOO_LATE);
        return;
    }
    cpu->calc = op;
    cpu->end_ps = now_ps + length_ps;
    if (!node->computing++)
        node->since_ps = now_ps;
}

void goal_ops_end(struct goal_node *node, uint64_t now_ps)
{
    for (uint32_t c = 0; node->computing && c < node->rank->cpus; c++) {
        struct goal_cpu *cpu = &node->cpu[c];
        uint32_t op = cpu->calc;

        if (cpu->end_ps != now_ps)
            continue;
        cpu->calc = GOAL_NONE;
        cpu->end_ps = EMU_NEVER;
        if (!--node->computing)
            node->busy_ps += now_ps - node->since_ps;
        goal_ops_done(node, op, now_ps);
    }
}

uint64_t goal_ops_next_ps(const struct goal_node *node)
{
    uint64_t next_ps = EMU_NEVER;

    for (uint32_t c = 0; node->computing && c < node->rank->cpus; c++)
        if (node->cpu[c].end_ps < next_ps)
            next_ps = node->cpu[c].end_ps;
    return next_ps;
}

/* --- start -------------------------------------------------------------------------- */

static void start(struct goal_node *node, uint32_t op, uint64_t now_ps)
{
    node->player->state[op].waits = GOAL_STARTED;
    satisfy(node, op, GOAL_EDGE_START);
    switch ((enum goal_kind)goal_node_op(node, op)->kind) {
    case GOAL_CALC:
        calc_start(node, op, now_ps);
        break;
    case GOAL_SEND:
        goal_message_send(node, op, now_ps);
        break;
    case GOAL_RECV:
        goal_message_recv(node, op, now_ps);
        break;
    case GOAL_COLL:
        goal_coll_start(node, op, now_ps);
        break;
    }
}

void goal_ops_start(struct goal_node *node, uint64_t now_ps)
{
    bool started;

    do {
        started = false;
        for (uint32_t c = 0; c < node->rank->cpus; c++) {
            struct goal_cpu *cpu = &node->cpu[c];

            while (cpu->calc == GOAL_NONE && cpu->ready.head != GOAL_NONE && !node->fault) {
                uint32_t op = cpu->ready.head;

                cpu->ready.head = node->player->state[op].next;
                start(node, op, now_ps);
                started = true;
            }
        }
    } while (started && node->rank->cpus > 1);
}

void goal_ops_begin(struct goal_node *node)
{
    for (uint32_t i = 0; i < node->rank->ops; i++)
        if (!node->player->state[node->rank->first + i].waits)
            ready(node, node->rank->first + i);
    goal_ops_start(node, 0);
}
