/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process.h - processes of a real fabric that start, communicate, detach, are stopped and die, on
 * command.
 *
 * A conductor (process_test.c) forks them (process_child.c), one at a time per node, and sends
 * commands over a socket. A model (process_model.c) knows which process was attached where when
 * each message was sent, and so whether it must arrive, may arrive, or must fail.
 */
#ifndef TESTS_APPS_DAEMON_PROCESS_H
#define TESTS_APPS_DAEMON_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_NODES       4u
#define PROCESS_ANY_QUEUE   1u /* receives from any source are always posted there */
#define PROCESS_NAMED_QUEUE 2u /* receives that name a sender are posted there, on command */

/* --- orders and words: one datagram each -------------------------------------------- */

enum process_order_what {
    PROCESS_SEND, /* send @bytes to @queue of (@node, @incarnation), filled from @id */
    /* receive from (@node, @incarnation) at PROCESS_NAMED_QUEUE, identified by @id */
    PROCESS_RECV,
    PROCESS_ADD,    /* add 1 to the word of (@node, @incarnation), identified by @id */
    PROCESS_REPORT, /* report the results */
    PROCESS_LEAVE,
    PROCESS_EXIT /* without detaching */
};

struct process_order {
    uint32_t what, node, queue, bytes;
    uint64_t incarnation; /* 0: any process at the node */
    uint64_t id, key;
};

enum process_word_what {
    PROCESS_STARTED, /* started: @incarnation, @key */
    PROCESS_SENT,    /* message @id completed with @status */
    /*
     * message @id arrived from (@node, @incarnation), for the receive @nth that was posted; or
     * failed
     */
    PROCESS_ARRIVED,
    PROCESS_ENDED, /* the receive @id failed */
    PROCESS_ADDED, /* the addition @id completed with @status */
    PROCESS_END    /* end of the report; @key: the word that others add to */
};

struct process_word {
    uint32_t what, node, queue, bytes;
    uint64_t incarnation, id, key, nth;
    int32_t status;
    uint32_t intact; /* its bytes are as expected */
};

/**
 * process_child - attach to @node of the fabric at $FABEMU_SOCKET and execute commands. Never
 * returns.
 */
_Noreturn void process_child(int orders, uint32_t node);

/* --- the model ---------------------------------------------------------------------- */

/*
 * Longer messages use a rendezvous and end with the receiver's confirmation. This is the default of
 * FABEMU_EAGER_BYTES.
 */
#define PROCESS_EAGER_BYTES 8192

enum proc_state { PROC_HERE, PROC_STOPPED, PROC_LEAVING, PROC_LEFT, PROC_DEAD };

struct proc {
    enum proc_state state;
    pid_t pid;
    int fd;
    uint32_t node;
    uint64_t incarnation, key;
    uint32_t spoke; /* bit mask of nodes: it has sent something to the process there */
    uint32_t owed;  /* bit mask of nodes whose process died: one operation may report that */
    uint64_t added, maybe_added; /* additions to its word: certain, and possible */
};

#define PROCESS_PENDING 1

struct message {
    uint32_t from; /* sender, a process number */
    int64_t to;    /* receiver, a process number; -1: the node is empty so far */
    uint32_t node, queue, bytes;
    bool add;       /* an addition instead of a message */
    bool named;     /* addressed by incarnation */
    bool must_fail; /* it names a process that is gone */
    bool may_fail;  /* whatever happens to the two */
    bool may_pass;  /* its target was leaving: the successor may get it instead */
    bool arrived;
    int status;
    uint64_t nth;
    bool over;
};

/* A receive that names its sender. */
struct receive {
    uint32_t who;
    uint32_t from; /* sender, a process number */
    bool over;
};

struct model {
    struct proc *proc;
    uint32_t procs, room;
    int64_t at[PROCESS_NODES]; /* number of the process there; -1: none */
    struct message *message;
    uint64_t messages, message_room;
    uint64_t first_open; /* all messages before it are complete */
    struct receive *receive;
    uint64_t receives, receive_room;
    uint64_t first_receive; /* all receives before it are complete */
    uint64_t failed;        /* messages that failed where they should or might */
    char wrong[512];        /* the first error; empty: none */
};

void model_init(struct model *m);
void model_release(struct model *m);

/** model_started - a process with @incarnation attached at @node. Returns its number. */
uint32_t model_started(struct model *m, pid_t pid, int fd, uint32_t node, uint64_t incarnation,
                       uint64_t key);
/** model_gone - the process is not attached any more. @died: without detaching. */
void model_gone(struct model *m, uint32_t proc, bool died);

/**
 * model_sends - process @from sends to @node, naming process @to (-1: any process there). Returns
 * the message's number.
 */
uint64_t model_sends(struct model *m, uint32_t from, uint32_t node, int64_t to, uint32_t queue,
                     uint32_t bytes, bool add);
/**
 * model_receives - process @who posts a receive at PROCESS_NAMED_QUEUE that names @from. Returns
 * its number.
 */
uint64_t model_receives(struct model *m, uint32_t who, uint32_t from);
/** model_receives_short - how many more messages than named receives @to's named queue has. */
int64_t model_receives_short(const struct model *m, uint32_t to);
/** model_reported - process @who sent this report. */
void model_reported(struct model *m, uint32_t who, const struct process_word *word);

/**
 * model_open - return whether an operation is pending that must still complete, and describe it in
 * @what. Checks all completed operations. *@vacant: an empty node for which a message waits; -1:
 * none.
 */
bool model_open(struct model *m, char *what, size_t what_bytes, int64_t *vacant);

/** model_is_here - the process exists, running or stopped, and was not told to leave. */
static inline bool model_is_here(const struct model *m, int64_t proc)
{
    return proc >= 0 && m->proc[proc].state <= PROC_STOPPED;
}

#endif
