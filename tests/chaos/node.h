/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node.h - one process of a chaos run: a node of the fabric that runs its part of the plan, checks
 * all that it receives, and reports errors.
 *
 * Besides the fabric the processes share a page (struct chaos_board) for data that a launcher would
 * distribute, or that must not depend on the network under test: attached and dead nodes, keys, and
 * each node's progress.
 */
#ifndef TESTS_CHAOS_NODE_H
#define TESTS_CHAOS_NODE_H

#include <stdatomic.h>
#include <stddef.h>

#include "nic/fabemu.h"
#include "tests/chaos/plan.h"

#define CHAOS_GUARD       16u /* bytes after each buffer that must stay unwritten */
#define CHAOS_PUTS        2u  /* slots for puts of a pair, used alternately */
#define CHAOS_WORDS       3u  /* of a pair: adds, swaps; third: node 0's, for all */
#define CHAOS_LINE        400u
#define CHAOS_ERAS        4096u              /* times CHAOS_ERA: the most steps */
#define CHAOS_TASKS       1024u              /* of a node, in a step */
#define CHAOS_BYTES_KNOWN (2u * CHAOS_BYTES) /* memory that peers read with gets */

enum chaos_region { CHAOS_KNOWN, CHAOS_SLOTS, CHAOS_ATOMIC, CHAOS_REGIONS };

struct chaos_board {
    _Atomic uint64_t ready;    /* nodes that have attached and published their keys */
    _Atomic uint64_t finished; /* nodes that have done all their steps */
    _Atomic uint64_t dead;
    _Atomic uint64_t successors; /* nodes that get a successor, or have one */
    _Atomic uint32_t steps;      /* that may start */
    _Atomic bool last;           /* and there will be no more */
    _Atomic uint64_t taken_back; /* cancelled receives and sends */
    _Atomic uint64_t visits;     /* visits of successors that have ended */
    _Atomic bool wrong;
    char line[CHAOS_LINE]; /* the first error found */
    /* of the process that runs the plan; 0: not attached yet */
    uint64_t incarnation[CHAOS_NODES];
    _Atomic uint64_t successor[CHAOS_NODES]; /* of its successor; 0: not attached yet */
    uint64_t key[CHAOS_NODES][CHAOS_REGIONS];
    struct chaos_incarnation {
        _Atomic uint32_t begun;  /* steps started */
        _Atomic uint64_t done;   /* operations checked */
        _Atomic uint64_t failed; /* allowed failures */
    } place[CHAOS_NODES];
};

struct chaos_node;

/* One operation of this process. */
struct chaos_task {
    const struct chaos_op *op;
    struct fabemu_req req;
    /* called until it has posted the request */
    void (*start)(struct chaos_node *node, struct chaos_task *task);
    /* called when the request has completed; posts the next one, or calls chaos_over() */
    void (*then)(struct chaos_node *node, struct chaos_task *task);
    uint32_t index; /* of the operation in its step */
    uint32_t peer;  /* of a pair */
    uint32_t team;  /* CHAOS_TEAMS: an operation of a pair */
    bool posted;    /* the request is in progress, or complete */
    bool over;
    bool lasting;    /* it cannot be aborted, and ends by itself */
    uint32_t place;  /* put: its number among those of its pair */
    uint32_t late;   /* rounds to wait before it starts */
    uint32_t rounds; /* rounds after posting until withdraw(); 0: never */
    /* cancels the request, or tries to */
    void (*withdraw)(struct chaos_node *node, struct chaos_task *task);
    /* called after -ECANCELED; NULL: that is an error */
    void (*withdrawn)(struct chaos_node *node, struct chaos_task *task);
    struct chaos_task *other; /* the message that this one reports on */
    bool successor;           /* its peer is the successor of the node's first process */
    uint64_t word; /* atomic: the fetched value; put: whether the message reports delivery */
    uint64_t want; /* the value that it must have fetched */
    uint8_t *buf;
    size_t bytes;
    struct fabemu_message *claim;
};

struct chaos_member {
    struct fabemu_group *group; /* NULL: not a member, or lost */
    uint64_t members;
    uint32_t era;
    bool lost;
    uint32_t casts[CHAOS_NODES]; /* broadcast puts of each member */
    uint64_t key;
    uint8_t *memory; /* by root, CHAOS_PUTS slots of CHAOS_CAST_MAX */
};

struct chaos_node {
    struct chaos_plan plan;
    struct chaos_board *board;
    uint32_t me;
    uint32_t step;
    struct fabemu *fab;
    struct fabemu_queue *queue;
    uint64_t lost; /* peers with an allowed failure so far */
    bool visited;  /* by the successor of the doomed node */
    struct chaos_op
        op[CHAOS_OPS + CHAOS_NODES]; /* the last ones are visits, by peer: successor.c */
    struct chaos_task *task;
    uint32_t tasks;
    struct chaos_member team[CHAOS_TEAMS];

    uint8_t *known;
    uint8_t *slots;  /* by peer, CHAOS_PUTS slots of CHAOS_BYTES */
    uint64_t *words; /* by peer, CHAOS_WORDS */
    /* requested and ended, to each peer */
    uint32_t puts_asked[CHAOS_NODES], puts_over[CHAOS_NODES];
    /* expected and checked, from each peer */
    uint32_t puts_from[CHAOS_NODES], puts_right[CHAOS_NODES];
    uint64_t added[CHAOS_NODES], swapped[CHAOS_NODES]; /* current values in words of peers */
    /* final values of my words */
    uint64_t expected_sum[CHAOS_NODES], expected_swap[CHAOS_NODES];
    uint64_t shared; /* and of the shared word at node 0 */
};

/** chaos_node_run - the whole program of node @me. Returns its exit status. */
int chaos_node_run(const struct chaos_plan *plan, struct chaos_board *board, uint32_t me);

/** chaos_wrong - report an error and exit. */
__attribute__((format(printf, 2, 3), noreturn)) void chaos_wrong(struct chaos_node *node,
                                                                 const char *format, ...);

/** chaos_task - create a task for operation @index; with a buffer of @bytes and its guard. */
struct chaos_task *chaos_task(struct chaos_node *node, uint32_t index, size_t bytes);

/** chaos_posted - the task's request was posted, with this result. */
void chaos_posted(struct chaos_task *task, int err);

/** chaos_over - the task has ended, with the right result. */
void chaos_over(struct chaos_node *node, struct chaos_task *task);

/** chaos_begun - after a barrier: have all of these nodes started this step? */
void chaos_begun(struct chaos_node *node, uint64_t members, const char *who);

/** chaos_check - are these the @bytes of @key, and is the guard of the task's buffer intact? */
void chaos_check(struct chaos_node *node, const struct chaos_task *task, const void *at,
                 size_t bytes, uint64_t key);

/** chaos_poison, chaos_poisoned - fill memory that must not be written now; check it. */
void chaos_poison(uint8_t *at, size_t bytes);
bool chaos_poisoned(const uint8_t *at, size_t bytes);

/** chaos_tag - the tag of a message of operation @index of this step. @use: its purpose. */
enum chaos_use { CHAOS_DATA, CHAOS_IN_ORDER, CHAOS_DONE, CHAOS_SEEN, CHAOS_VISIT, CHAOS_ECHO };
uint64_t chaos_tag(const struct chaos_node *node, enum chaos_use use, uint32_t index);

/** chaos_incarnation_of - the incarnation of a task's peer; 0 if nodes get no successors. */
uint64_t chaos_incarnation_of(const struct chaos_node *node, const struct chaos_task *task);

/** chaos_send, chaos_receive - post the task's request: a message to, or from, @peer. */
void chaos_send(struct chaos_node *node, struct chaos_task *task, uint32_t peer, uint64_t tag,
                const void *at, size_t bytes);
void chaos_receive(struct chaos_node *node, struct chaos_task *task, uint32_t peer, uint64_t tag,
                   void *at, size_t bytes);

/*
 * pairs.c: memory and words for all peers; start this process's part of an operation of the step;
 * check the final values of words.
 */
void chaos_pairs_open(struct chaos_node *node);
void chaos_pair(struct chaos_node *node, uint32_t index);
void chaos_pairs_end(struct chaos_node *node);
/** chaos_known - are these the bytes from @words on of node @of's readable memory? */
uint64_t chaos_known_key(const struct chaos_node *node, uint32_t of, uint64_t words);

/** chaos_is_fragile - may anything fail in this run? */
static inline bool chaos_is_fragile(const struct chaos_plan *plan)
{
    return plan->doomed || plan->parted;
}

/* teams.c: the same for a team's operations; and the creation and end of teams. */
void chaos_team_op(struct chaos_node *node, uint32_t index);
void chaos_teams_turn(struct chaos_node *node, uint32_t era);
void chaos_teams_leave(struct chaos_node *node);

/*
 * successor.c: the whole program of the successor at node @me; and the part of a visited node,
 * which at the end continues until the successor has all that it requested.
 */
int chaos_successor_run(const struct chaos_plan *plan, struct chaos_board *board, uint32_t me);
void chaos_visit(struct chaos_node *node);
void chaos_visited(struct chaos_node *node);

/* node.c: also for a process without a plan. NULL: out of memory. */
struct chaos_node *chaos_open(const struct chaos_plan *plan, struct chaos_board *board,
                              uint32_t me);
void chaos_finish(struct chaos_node *node);
void chaos_handshake(struct chaos_node *node, _Atomic uint64_t *set);

/** chaos_idle - an empty round while waiting for the board. */
void chaos_idle(struct chaos_node *node, uint32_t *rounds);

#endif
