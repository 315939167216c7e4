/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node.h - one process of a chaos run: a node of the fabric that does its part of the plan, checks
 * all that it gets, and says what is wrong.
 *
 * Beside the fabric the processes share a page (struct chaos_board) for what a launcher would tell
 * them, and for what must not depend on the network that is under test: who is there, who is dead,
 * keys and groups, how far each has come.
 */
#ifndef TESTS_CHAOS_NODE_H
#define TESTS_CHAOS_NODE_H

#include <stdatomic.h>
#include <stddef.h>

#include "nic/fabemu.h"
#include "tests/chaos/plan.h"

#define CHAOS_GUARD       16u /* bytes behind each buffer, which nobody may write */
#define CHAOS_PUTS        2u  /* places for puts of a pair, used by turns */
#define CHAOS_WORDS       3u /* words of a pair: of adds, of swaps; the third is node 0's, of all */
#define CHAOS_LINE        400u
#define CHAOS_ERAS        4096u              /* so many steps, CHAOS_ERA times, there are at most */
#define CHAOS_TASKS       1024u              /* of a node, in a step */
#define CHAOS_BYTES_KNOWN (2u * CHAOS_BYTES) /* memory that peers get */

enum chaos_region { CHAOS_KNOWN, CHAOS_SLOTS, CHAOS_ATOMIC, CHAOS_REGIONS };

/* A team of an era, as who makes it tells the others. */
struct chaos_made {
    _Atomic bool known;
    uint32_t id;
    int err; /* there is none */
};

struct chaos_board {
    _Atomic uint64_t ready;    /* nodes that have attached, and told their keys */
    _Atomic uint64_t finished; /* nodes that have done all their steps */
    _Atomic uint64_t dead;
    _Atomic uint64_t successors; /* nodes that get a successor, or have one */
    _Atomic uint32_t steps;      /* that may begin */
    _Atomic bool last;           /* and there will be no more */
    _Atomic uint64_t taken_back; /* receives and sends */
    _Atomic uint64_t visits;     /* of successors, that are over */
    _Atomic bool wrong;
    char line[CHAOS_LINE]; /* what is wrong, of who was first to find something */
    /* of the process that does the plan; 0: it has not come */
    uint64_t incarnation[CHAOS_NODES];
    _Atomic uint64_t successor[CHAOS_NODES]; /* of its successor; 0: it has not come */
    uint64_t key[CHAOS_NODES][CHAOS_REGIONS];
    struct chaos_made team[CHAOS_ERAS][CHAOS_TEAMS];
    struct chaos_incarnation {
        _Atomic uint32_t begun;  /* steps */
        _Atomic uint64_t done;   /* operations that were checked */
        _Atomic uint64_t failed; /* that ended with an error, as they may */
    } place[CHAOS_NODES];
};

struct chaos_node;

/* One operation, as this process carries it out. */
struct chaos_task {
    const struct chaos_op *op;
    struct fabemu_req req;
    /* called until it has posted the request */
    void (*start)(struct chaos_node *node, struct chaos_task *task);
    /* what follows the request; it posts the next, or calls chaos_over() */
    void (*then)(struct chaos_node *node, struct chaos_task *task);
    uint32_t index; /* of the operation in its step */
    uint32_t peer;  /* of a pair; or */
    uint32_t team;  /* CHAOS_TEAMS: it is a pair's */
    bool posted;    /* the request is under way, or complete */
    bool over;
    bool lasting;    /* it cannot be aborted, and ends by itself */
    uint32_t place;  /* of a put: which of those of its pair it is */
    uint32_t late;   /* rounds to go before it begins */
    uint32_t rounds; /* to go, once it is posted, before withdraw(); 0: that is not called */
    /* takes the request back, or tries to */
    void (*withdraw)(struct chaos_node *node, struct chaos_task *task);
    /* what follows a request that ended with -ECANCELED; NULL: that it may not */
    void (*withdrawn)(struct chaos_node *node, struct chaos_task *task);
    struct chaos_task *other; /* that this one says something of */
    bool successor;           /* it is with the successor of the peer's first process */
    uint64_t
        word; /* of an atomic: what it fetched; of a put: whether the message says it is there */
    uint64_t want; /* what it must have fetched */
    uint8_t *buf;
    size_t bytes;
    struct fabemu_message *claim;
};

struct chaos_member {
    struct fabemu_group *group; /* NULL: no member, or it is lost */
    uint64_t members;
    uint32_t era;
    bool lost;
    uint32_t casts[CHAOS_NODES]; /* broadcast puts of each */
    uint64_t key;
    uint8_t *memory; /* by root, CHAOS_PUTS places of CHAOS_CAST_MAX */
};

struct chaos_node {
    struct chaos_plan plan;
    struct chaos_board *board;
    uint32_t me;
    uint32_t step;
    struct fabemu *fab;
    struct fabemu_queue *queue;
    uint64_t lost; /* peers that an operation has failed with, as it may */
    bool visited;  /* by the successor of who is doomed */
    struct chaos_op
        op[CHAOS_OPS + CHAOS_NODES]; /* the last ones are visits, by peer: successor.c */
    struct chaos_task *task;
    uint32_t tasks;
    struct chaos_member team[CHAOS_TEAMS];

    uint8_t *known;
    uint8_t *slots;  /* by peer, CHAOS_PUTS places of CHAOS_BYTES */
    uint64_t *words; /* by peer, CHAOS_WORDS */
    uint32_t puts_asked[CHAOS_NODES], puts_over[CHAOS_NODES]; /* to each */
    uint32_t puts_from[CHAOS_NODES], puts_right[CHAOS_NODES]; /* asked for, and checked */
    uint64_t added[CHAOS_NODES], swapped[CHAOS_NODES];        /* what words of peers hold now */
    uint64_t to_come[CHAOS_NODES], in_place[CHAOS_NODES];     /* what mine must hold at the end */
    uint64_t shared;                                          /* and that of all, at node 0 */
};

/** chaos_node_run - be node @me: the whole life of its process. Returns its exit status. */
int chaos_node_run(const struct chaos_plan *plan, struct chaos_board *board, uint32_t me);

/** chaos_wrong - something is: it is told, and the process ends. */
__attribute__((format(printf, 2, 3), noreturn)) void chaos_wrong(struct chaos_node *node,
                                                                 const char *format, ...);

/** chaos_task - a new one of operation @index; with a buffer of @bytes and its guard. */
struct chaos_task *chaos_task(struct chaos_node *node, uint32_t index, size_t bytes);

/** chaos_posted - the task's request was posted, with this result. */
void chaos_posted(struct chaos_task *task, int err);

/** chaos_over - the task is; it was right. */
void chaos_over(struct chaos_node *node, struct chaos_task *task);

/** chaos_begun - a barrier says that all of these nodes have begun this step: have they? */
void chaos_begun(struct chaos_node *node, uint64_t members, const char *who);

/** chaos_check - are these the @bytes of @key, and is the guard of the task's buffer whole? */
void chaos_check(struct chaos_node *node, const struct chaos_task *task, const void *at,
                 size_t bytes, uint64_t key);

/** chaos_poison, chaos_poisoned - bytes that nobody is to write now; has nobody? */
void chaos_poison(uint8_t *at, size_t bytes);
bool chaos_poisoned(const uint8_t *at, size_t bytes);

/** chaos_tag - of a message that belongs to operation @index of this step. @use: what for. */
enum chaos_use { CHAOS_DATA, CHAOS_IN_ORDER, CHAOS_DONE, CHAOS_SEEN, CHAOS_VISIT, CHAOS_ECHO };
uint64_t chaos_tag(const struct chaos_node *node, enum chaos_use use, uint32_t index);

/**
 * chaos_incarnation_of - of the process that a task is with; 0 where nodes are not given away
 * again. */
uint64_t chaos_incarnation_of(const struct chaos_node *node, const struct chaos_task *task);

/** chaos_send, chaos_receive - post the task's request: a message to, or from, @peer. */
void chaos_send(struct chaos_node *node, struct chaos_task *task, uint32_t peer, uint64_t tag,
                const void *at, size_t bytes);
void chaos_receive(struct chaos_node *node, struct chaos_task *task, uint32_t peer, uint64_t tag,
                   void *at, size_t bytes);

/* pairs.c: memory and words for all peers; begin this process's part of an operation of the step;
 * what words hold after all steps. */
void chaos_pairs_open(struct chaos_node *node);
void chaos_pair(struct chaos_node *node, uint32_t index);
void chaos_pairs_end(struct chaos_node *node);
/** chaos_known - are these bytes from @words on of the memory that all may get of node @of? */
uint64_t chaos_known_key(const struct chaos_node *node, uint32_t of, uint64_t words);

/** chaos_is_fragile - may anything in this run fail? */
static inline bool chaos_is_fragile(const struct chaos_plan *plan)
{
    return plan->doomed || plan->parted;
}

/* teams.c: the same of a team's; and teams come and go. */
void chaos_team_op(struct chaos_node *node, uint32_t index);
void chaos_teams_turn(struct chaos_node *node, uint32_t era);
void chaos_teams_leave(struct chaos_node *node);

/*
 * successor.c: be the successor at node @me, the whole life of its process; be visited by one, and,
 * in the end, until it has all that it asked for.
 */
int chaos_successor_run(const struct chaos_plan *plan, struct chaos_board *board, uint32_t me);
void chaos_visit(struct chaos_node *node);
void chaos_visited(struct chaos_node *node);

/* node.c: also for a process that does no plan. NULL: there is no memory. */
struct chaos_node *chaos_open(const struct chaos_plan *plan, struct chaos_board *board,
                              uint32_t me);
void chaos_finish(struct chaos_node *node);
void chaos_handshake(struct chaos_node *node, _Atomic uint64_t *set);

/** chaos_idle - an empty round of waiting for the board. */
void chaos_idle(struct chaos_node *node, uint32_t *rounds);

#endif
