/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process.h - processes of a real fabric that are born, talk, leave, are stopped and die, by order.
 *
 * A conductor (process_test.c) forks them (process_child.c), one at a node at a time, and gives
 * orders over a socket; a model (process_model.c) knows who was where when each message was sent,
 * and so whether it must arrive, may, or must fail.
 */
#ifndef TESTS_APPS_DAEMON_PROCESS_H
#define TESTS_APPS_DAEMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_NODES       4u
#define PROCESS_ANY_QUEUE   1u /* receives from anybody are always posted there */
#define PROCESS_NAMED_QUEUE 2u /* receives that name a sender are posted there, by order */

/* --- orders and words: one datagram each -------------------------------------------- */

enum process_order_what {
    PROCESS_SEND,   /* @bytes to @queue of (@node, @incarnation), filled from @id */
    PROCESS_RECV,   /* from (@node, @incarnation) at PROCESS_NAMED_QUEUE, called @id */
    PROCESS_ADD,    /* 1 to the word of (@node, @incarnation), called @id */
    PROCESS_REPORT, /* say what happened */
    PROCESS_LEAVE,
    PROCESS_EXIT /* without detaching */
};

struct process_order {
    uint32_t what, node, queue, bytes;
    uint64_t incarnation; /* 0: whoever is there */
    uint64_t id, key;
};

enum process_word_what {
    PROCESS_BORN, /* @incarnation, @key */
    PROCESS_SENT, /* message @id completed with @status */
    /*
     * message @id came from (@node, @incarnation), to the receive @nth that was posted; or it broke
     */
    PROCESS_CAME,
    PROCESS_ENDED, /* the receive @id ended with an error */
    PROCESS_ADDED, /* the addition @id completed with @status */
    PROCESS_END    /* of the answer; @key: the word that others add to */
};

struct process_word {
    uint32_t what, node, queue, bytes;
    uint64_t incarnation, id, key, nth;
    int32_t status;
    uint32_t intact; /* its bytes are as they should be */
};

/** process_child - be born at @node of the fabric at $FABEMU_SOCKET, and obey. Never returns. */
_Noreturn void process_child(int orders, uint32_t node);

/* --- the model ---------------------------------------------------------------------- */

/*
 * What is longer asks first, and ends with the receiver's word: FABEMU_EAGER_BYTES as it is by
 * itself.
 */
#define PROCESS_EAGER_BYTES 8192

enum life_state { LIFE_HERE, LIFE_STOPPED, LIFE_LEAVING, LIFE_LEFT, LIFE_DEAD };

struct life {
    enum life_state state;
    pid_t pid;
    int fd;
    uint32_t node;
    uint64_t incarnation, key;
    uint32_t spoke; /* nodes, as bits: to whose process it has said something */
    uint32_t owed;  /* nodes whose process died so: one operation may be told of that */
    uint64_t added, maybe_added; /* to its word: for certain, and perhaps */
};

#define PROCESS_PENDING 1

struct message {
    uint32_t from; /* which life */
    int64_t to;    /* which life; -1: nobody was there, and nobody has come */
    uint32_t node, queue, bytes;
    bool add;       /* not a message: an addition */
    bool named;     /* by seat */
    bool must_fail; /* it names one that is gone */
    bool may_fail;  /* whatever becomes of the two */
    bool may_pass;  /* its target was leaving: the next one at the node may get it instead */
    bool came;
    int status;
    uint64_t nth;
    bool over;
};

/* A receive that names its sender. */
struct receive {
    uint32_t who;
    uint32_t from; /* which life */
    bool over;
};

struct model {
    struct life *life;
    uint32_t lives, room;
    int64_t at[PROCESS_NODES]; /* which life is there; -1 none */
    struct message *message;
    uint64_t messages, message_room;
    uint64_t first_open; /* all before it are over */
    struct receive *receive;
    uint64_t receives, receive_room;
    uint64_t first_receive; /* all before it are over */
    uint64_t failed;        /* messages that ended with an error, as they should or might */
    char wrong[512];        /* what is wrong; empty: nothing */
};

void model_init(struct model *m);
void model_release(struct model *m);

/** model_born - a process with @incarnation is at @node. Returns its number. */
uint32_t model_born(struct model *m, pid_t pid, int fd, uint32_t node, uint64_t incarnation,
                    uint64_t key);
/** model_gone - it is not there any more. @died: without a goodbye. */
void model_gone(struct model *m, uint32_t life, bool died);

/**
 * model_sends - life @from sends to @node, naming @to (-1: whoever is there). Returns the message's
 * number.
 */
uint64_t model_sends(struct model *m, uint32_t from, uint32_t node, int64_t to, uint32_t queue,
                     uint32_t bytes, bool add);
/**
 * model_receives - life @who posts a receive at PROCESS_NAMED_QUEUE that names @from. Returns its
 * number.
 */
uint64_t model_receives(struct model *m, uint32_t who, uint32_t from);
/**
 * model_receives_short - are there more messages at @to's named queue than receives that name their
 * sender? Returns that.
 */
int64_t model_receives_short(const struct model *m, uint32_t to);
/** model_hears - life @who says so. */
void model_hears(struct model *m, uint32_t who, const struct process_word *word);

/**
 * model_open - is anything left that is to happen? Says in @what, what.
 * All that is over is checked here. *@vacant: a node that a message waits at for somebody; -1:
 * none.
 */
bool model_open(struct model *m, char *what, size_t what_bytes, int64_t *vacant);

/** model_is_here - it exists, running or stopped, and was not told to leave. */
static inline bool model_is_here(const struct model *m, int64_t life)
{
    return life >= 0 && m->life[life].state <= LIFE_STOPPED;
}

#endif
