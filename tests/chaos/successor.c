/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * successor.c - the successor of a killed process on the same node: it runs no plan, but visits all
 * remaining nodes.
 *
 * It exchanges messages with each of them, and gets from their memory. Its operations name
 * processes, not nodes: it never receives anything for its predecessor, and none of its operations
 * may fail. Visited nodes do their part between two steps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/util/random.h"
#include "tests/chaos/node.h"
#include "tests/fixtures/bytes.h"

#define MESSAGES 6u /* to each, and as many back */

/* The exchange of the successor at node @of with node @to, in both directions. */
static struct chaos_op visit_of(const struct chaos_node *node, uint32_t of, uint32_t to)
{
    uint64_t random = emu_mix(node->plan.seed ^ ((uint64_t)of << 32 | to) * EMU_GOLDEN);

    return (struct chaos_op){.kind = CHAOS_MESSAGE,
                             .from = of,
                             .to = to,
                             .bytes = bytes_below(&random, CHAOS_BYTES / 2),
                             .random = random};
}

static uint64_t visit_tag(enum chaos_use use, uint32_t message)
{
    return (uint64_t)use << 60 | message;
}

/* Message @task->place; every other one is short. */
static size_t visit_bytes(const struct chaos_task *task)
{
    return task->op->bytes >> (task->place % 2 ? 8 : 0);
}

static uint64_t visit_key(const struct chaos_task *task, bool back)
{
    return task->op->random + 2 * task->place + back;
}

static struct chaos_task *visit_task(struct chaos_node *node, uint32_t peer, uint32_t message)
{
    uint32_t index = CHAOS_OPS + peer;
    struct chaos_task *task = chaos_task(node, index, node->op[index].bytes);

    task->peer = peer;
    task->place = message;
    task->successor = true;
    return task;
}

/* --- visited processes -------------------------------------------------------------- */

static void echoed(struct chaos_node *node, struct chaos_task *task)
{
    chaos_over(node, task);
}

static void visitor_arrived(struct chaos_node *node, struct chaos_task *task)
{
    size_t bytes = visit_bytes(task);

    if (task->req.bytes != bytes || task->req.src_node != task->peer ||
        task->req.src_incarnation != atomic_load(&node->board->successor[task->peer]))
        chaos_wrong(node, "message %u of the successor at node %u: what came is another one",
                    task->place, task->peer);
    chaos_check(node, task, task->buf, bytes, visit_key(task, false));
    bytes_fill(task->buf, bytes, visit_key(task, true));
    task->then = echoed;
    chaos_send(node, task, task->peer, visit_tag(CHAOS_ECHO, task->place), task->buf, bytes);
}

void chaos_visit(struct chaos_node *node)
{
    uint32_t visitor = chaos_doomed(&node->plan), rounds = 0;

    node->visited = true;
    while (!atomic_load(&node->board->successor[visitor]))
        chaos_idle(node, &rounds);
    node->op[CHAOS_OPS + visitor] = visit_of(node, visitor, node->me);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct chaos_task *task = visit_task(node, visitor, i);

        task->then = visitor_arrived;
        chaos_receive(node, task, visitor, visit_tag(CHAOS_VISIT, i), task->buf, task->bytes);
    }
}

/* A visited node stays until the successor has all that it requested: its get may come last. */
void chaos_visited(struct chaos_node *node)
{
    uint32_t rounds = 0;

    while (node->visited && !atomic_load(&node->board->visits))
        chaos_idle(node, &rounds);
}

/* --- the successor ------------------------------------------------------------------ */

static void got(struct chaos_node *node, struct chaos_task *task)
{
    chaos_check(node, task, task->buf, task->bytes, chaos_known_key(node, task->peer, 0));
    chaos_over(node, task);
}

static void echo_arrived(struct chaos_node *node, struct chaos_task *task)
{
    size_t bytes = visit_bytes(task);

    if (task->req.bytes != bytes || task->req.src_node != task->peer)
        chaos_wrong(node, "message %u came back from node %u as another one", task->place,
                    task->peer);
    chaos_check(node, task, task->buf, bytes, visit_key(task, true));
    chaos_over(node, task);
}

static void sent(struct chaos_node *node, struct chaos_task *task)
{
    chaos_poison(task->buf, task->bytes);
    task->then = echo_arrived;
    chaos_receive(node, task, task->peer, visit_tag(CHAOS_ECHO, task->place), task->buf,
                  task->bytes);
}

static void visit_one(struct chaos_node *node, uint32_t peer)
{
    node->op[CHAOS_OPS + peer] = visit_of(node, node->me, peer);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct chaos_task *task = visit_task(node, peer, i);

        task->then = sent;
        bytes_fill(task->buf, visit_bytes(task), visit_key(task, false));
        chaos_send(node, task, peer, visit_tag(CHAOS_VISIT, i), task->buf, visit_bytes(task));
    }
    struct chaos_task *get = visit_task(node, peer, 0);

    get->then = got;
    get->req.incarnation = chaos_incarnation_of(node, get);
    chaos_posted(get, fabemu_get(node->fab, peer, node->board->key[peer][CHAOS_KNOWN], 0, get->buf,
                                 get->bytes, &get->req));
}

int chaos_successor_run(const struct chaos_plan *plan, struct chaos_board *board, uint32_t me)
{
    struct chaos_node *node = chaos_open(plan, board, me);
    uint32_t rounds = 0;
    uint64_t incarnation;

    if (!node)
        return 1;
    incarnation = fabemu_info(node->fab)->incarnation;
    if (incarnation <= board->incarnation[me])
        chaos_wrong(node, "the successor has seat %llu, after %llu",
                    (unsigned long long)incarnation, (unsigned long long)board->incarnation[me]);
    while ((atomic_load(&board->ready) | atomic_load(&board->dead)) != chaos_all(plan))
        chaos_idle(node, &rounds);
    atomic_store(&board->successor[me], incarnation);
    for (uint32_t n = 0; n < plan->nodes; n++)
        if (!chaos_is_in(plan->doomed, n))
            visit_one(node, n);
    chaos_finish(node); /* all at once: visited nodes may wait for each other */
    atomic_fetch_add(&board->visits, 1);
    fabemu_queue_close(node->queue);
    fabemu_detach(node->fab);
    return 0;
}
