/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabemu.h - the programming interface of a fabemu adapter.
 *
 * A process attaches to a running fabric and gets one of its nodes. Over the adapter of that node
 * it sends and receives messages (queues), reads and writes registered memory of other processes
 * (put, get, atomics), and takes part in groups whose barriers, broadcasts and reductions are done
 * by the network.
 *
 * Every operation is non-blocking: the caller owns a struct fabemu_req, posts it, and learns of its
 * completion by fabemu_test(), fabemu_wait() or a callback. A thread that waits for a completion
 * steps the adapter itself: it handles arrived segments and sends queued ones. When no thread of
 * the application steps the adapter, a thread of the library takes over within milliseconds, so
 * that peers never wait for the application.
 *
 * Unless its comment says otherwise, a function returns 0 or a negative errno value and is
 * thread-safe. Sizes are in bytes, except counts of elements. A buffer of 0 bytes may be NULL; a
 * NULL buffer with a size above 0 is refused with -EFAULT.
 *
 * Link with `pkg-config --cflags --libs libfabemu`; see apps/example.c.
 */
#ifndef FABEMU_H
#define FABEMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FABEMU_API __attribute__((visibility("default")))

#define FABEMU_ANY_NODE     UINT32_MAX /* receive: from any node */
#define FABEMU_ANY_QUEUE    UINT32_MAX /* receive: from any queue of the node */
#define FABEMU_INJECT_BYTES 192        /* fabemu_inject(): largest message */
#define FABEMU_PENDING      1          /* fabemu_req.status while the operation is pending */

struct fabemu;       /* an attached adapter */
struct fabemu_queue; /* an endpoint for messages */
struct fabemu_group; /* a member's view of a group */
struct fabemu_event; /* counts completions; operations may wait for a count */

#define FABEMU_FOREVER UINT64_MAX /* no limit */

/*
 * Upper limits on how long this library waits, in milliseconds; FABEMU_FOREVER: no limit. `fabemu
 * run --bound` sets them, see docs/manual.md.
 */
struct fabemu_bounds {
    uint64_t silence_ms;   /* for a reply of a peer */
    uint64_t successor_ms; /* for the next process on a node whose process has left or died */
    /* fabemu_detach(): for peers that have not confirmed everything sent to them */
    uint64_t leave_ms;
    /* fabemu_detach(): for peers that have confirmed everything but do not answer */
    uint64_t farewell_ms;
    uint64_t drain_ms;  /* closing a libfabric endpoint: for its sends to complete */
    uint64_t detach_ms; /* fabemu_detach(): for the fabric's reply */
};

/* A process and its fabric. */
struct fabemu_info {
    char fabric[64]; /* name of the fabric */
    char topo[64];   /* canonical topology SPEC */
    char profile[32];
    char clock[16];          /* raw, real or virtual */
    uint32_t node;           /* this process's node */
    uint32_t nodes;          /* number of nodes of the fabric */
    double link_bytes_per_s; /* bandwidth of the emulated link */
    uint32_t hop_limit;      /* switches on the longest route */
    /* ordinal, from 1, of this process among all processes that have attached to its node; see
       "incarnations" below */
    uint64_t incarnation;
    uint64_t fabric_id; /* random; differs at every start of a fabric */
    /* the fabric runs with transport=acknowledged. Then words, conditionals and broadcast puts are
       available, and an operation whose segment the network drops for good ends with an error */
    bool acknowledged;
    struct fabemu_bounds bounds;
};

/*
 * One operation. The caller owns the struct and must not touch it while the operation is pending.
 * Zero it before the first use, set `done` and `context`, then post it. If `done` is NULL, the
 * struct may be reused as soon as `status` is no longer FABEMU_PENDING. Otherwise it may be reused
 * only after `done` was called, because `done` is called after `status` has changed.
 */
struct fabemu_req {
    /* Set by the caller. */
    /* NULL, or a function that is called once when the operation completes, by the thread that
       steps the adapter. That thread holds the adapter's lock, so this function must be short and
       must not call this library */
    void (*done)(struct fabemu_req *req);
    void *context;              /* for the caller's use */
    struct fabemu_event *event; /* NULL, or the event that counts this completion */
    /* NULL, or the event that starts the operation when its count reaches `threshold`; see "events"
       below. Not allowed for receives of several messages, of claimed messages and of notices */
    struct fabemu_event *after;
    uint64_t threshold;
    /* receives, probes, puts, gets, atomics: the only incarnation of the node with which the
       operation may take place; 0: any, see "incarnations" below */
    uint64_t incarnation;
    /* compare `threshold` with the sum of the count and the failures of `after` */
    bool after_failures;
    /* puts, gets, atomics: the target's queue `target_queue` counts the operation, see
       fabemu_queue_event(). Not needed for a put with a notice: such a put is counted by the queue
       that the notice names */
    bool targets_queue;
    uint16_t target_queue;
    /* batches: the request completes when all segments are sent, like the request of a message, and
       nothing reports a refused record. If the network drops a segment for good, or the peer's
       process dies, other operations with the node end with an error */
    bool unconfirmed;
    /* 0; or, for a collective that executes a part of the program's call of another collective: 1 +
       the enum fabemu_coll of the program's call, so that reports on a standstill name this call */
    uint8_t call;

    /* Set by the library; valid once status is no longer FABEMU_PENDING. */
    /* FABEMU_PENDING, 0, or a negative errno: read it with fabemu_req_status() */
    int status;
    uint32_t src_node;        /* receives: the sender's node */
    uint32_t src_queue;       /* receives: the sender's queue */
    uint64_t src_incarnation; /* receives: the sender's incarnation */
    uint64_t tag;             /* receives: the message's tag */
    uint64_t data;            /* receives: 64 bits that the sender chose */
    uint16_t mark;            /* receives: 16 further bits that the sender chose; notices: 0 */
    uint16_t queue;           /* receives: the queue to which the message was sent */
    uint64_t bytes;           /* receives and probes: length of the whole message */

    uint64_t opaque[26]; /* for the library's use */
};

/**
 * fabemu_req_status - return the status, loaded with acquire order. Unless it is FABEMU_PENDING,
 * everything that the operation wrote is visible.
 */
static inline int fabemu_req_status(const struct fabemu_req *req)
{
    /* N4 pairs with N3 in nic/host/base/complete.c. */
    return __atomic_load_n(&req->status, __ATOMIC_ACQUIRE);
}

/**
 * fabemu_req_why - write to @text one line about the error with which @req ended. For -EHOSTUNREACH
 * the line says why the node cannot be reached now. For -EPIPE it says which node, switch or cable
 * had broken the group when the operation ended. Call it before the request is reused.
 */
FABEMU_API void fabemu_req_why(const struct fabemu *fab, const struct fabemu_req *req, char *text,
                               size_t bytes);

/**
 * fabemu_breaks - return how often operations with @node, or with any node (FABEMU_ANY_NODE), ended
 * because the node's process left, died or did not answer, or because the network dropped a segment
 * for good. The count increases before such an operation completes. Thread: any.
 */
FABEMU_API uint64_t fabemu_breaks(const struct fabemu *fab, uint32_t node);

/**
 * fabemu_ping - check that the process of @node answers. This is for a caller that waits for that
 * process without a pending operation that would fail if the process died. If no reply comes within
 * the bound `silence`, or the network drops the query, fabemu_breaks() increases. Does not block.
 */
FABEMU_API void fabemu_ping(struct fabemu *fab, uint32_t node);

/**
 * fabemu_node_why - write to @text one line about why @node cannot be reached. Returns false if the
 * reason is unknown.
 */
FABEMU_API bool fabemu_node_why(const struct fabemu *fab, uint32_t node, char *text, size_t bytes);

/**
 * fabemu_drops - return how many segments the network has dropped for good between the process of
 * @node and any other process; FABEMU_ANY_NODE: between any two processes. The fabric reports each
 * such drop to all processes, because a third process may wait for one of the two.
 * fabemu_drop_why - write to @text one line about the last of these drops. The line names the
 * cable. Returns false if no drop was reported for the process that is attached to @node, or was
 * attached to it last.
 * Thread: any.
 */
FABEMU_API uint64_t fabemu_drops(const struct fabemu *fab, uint32_t node);
FABEMU_API bool fabemu_drop_why(struct fabemu *fab, uint32_t node, char *text, size_t bytes);

/* --- the adapter -------------------------------------------------------------------- */

/**
 * fabemu_socket - get the path of a fabric's control socket on this host.
 * @path: the path, or NULL for $FABEMU_SOCKET. "%h" in it is replaced by this host's name, because
 * programs on all hosts of a fabric get the same text.
 * @ret: receives the path, cut to @bytes; "" if no fabric is named.
 * Thread: any.
 */
FABEMU_API void fabemu_socket(const char *path, char *ret, size_t bytes);

/**
 * fabemu_attach - attach this process to a fabric and get a node.
 * @socket_path: the fabric's control socket, as for fabemu_socket(); NULL: $FABEMU_SOCKET.
 *
 * If this process is attached already, the call returns the same adapter with one more reference,
 * so that a libfabric provider and an MPI component in one process share a node. The process
 * requests node $FABEMU_NODE (its number, or its name in the network's file), or else the node of
 * the rank that an MPI launcher exported (PMIX_RANK, OMPI_COMM_WORLD_RANK, PMI_RANK). If that node
 * is taken, the fabric assigns a free node. Errors: -ENOENT, no fabric is named; -ECONNREFUSED,
 * nobody listens on the socket; -EACCES, the fabric belongs to another user; -EINVAL, $FABEMU_NODE
 * is no node of the fabric, or $FABEMU_TCLASS is no traffic class; -ENOSPC, every node is taken
 * (fabemu_error() says how to get more); -EPROTO, the fabric has another version than this library.
 */
FABEMU_API int fabemu_attach(struct fabemu **ret, const char *socket_path);

/**
 * fabemu_detach - drop a reference; the last one gives the node back. Queues, groups and events
 * must be closed first.
 *
 * Dropping the last reference blocks until all completed operations have reached their destination:
 * the fabric has taken their segments and every peer has confirmed them. It blocks for at most
 * bounds.leave_ms (10 s). A peer that has not confirmed everything by then is named on stderr and
 * counted in the fabric's report. For a peer that does not answer, although it has confirmed
 * everything or had nothing to confirm, the call waits for at most bounds.farewell_ms (1 s).
 * Operations that have not completed are abandoned.
 */
FABEMU_API void fabemu_detach(struct fabemu *fab);

/**
 * fabemu_error - return one line about the last call of this thread that failed for a reason that
 * its errno value does not fully describe. Never NULL.
 */
FABEMU_API const char *fabemu_error(void);

/*
 * The traffic class of a process determines which packets go first where packets wait for a cable.
 * Each class has a priority for *short* packets, which are sent as a single segment, and another
 * one for longer packets. A packet of higher priority goes first.
 * Source: QsNet III §IV-B (priorities, so that transfers of a file system do not delay small
 * messages).
 */
#define FABEMU_TCLASS_DEFAULT 0u /* long packets have priority 1, short ones 2 */
#define FABEMU_TCLASS_BULK    1u /* priority 0, for example for storage */
#define FABEMU_TCLASS_LATENCY 2u /* long packets have priority 2, short ones 3 */

/**
 * fabemu_set_tclass - set the traffic class of all messages and collectives that this process sends
 * from now on. All members of a group should have the same class. If the environment variable
 * FABEMU_TCLASS is set (to default, bulk or latency), it determines the class, and this call
 * changes nothing. Without acknowledgments (fabemu_info.acknowledged) there are no priorities, and
 * the class has no effect. A process may choose any class. Errors: -EINVAL.
 */
FABEMU_API int fabemu_set_tclass(struct fabemu *fab, unsigned tclass);

/** fabemu_info - return the description of this process and fabric, valid until fabemu_detach(). */
FABEMU_API const struct fabemu_info *fabemu_info(const struct fabemu *fab);

/**
 * fabemu_await_time - on clock virtual, wait until simulated time begins. It begins when all
 * processes of the job have attached and each has called this function or posted an operation. So
 * results do not depend on how long programs take to start. On other clocks, and once time has
 * begun, it returns at once. Open MPI's component calls it at the end of MPI_Init.
 */
FABEMU_API void fabemu_await_time(struct fabemu *fab);

/**
 * fabemu_testing - on clock virtual, say whether the calling thread is in a function that only
 * tests, such as MPI_Test. The program may compute between two tests, so a poll in a test does not
 * wait for a segment. Returns whether time is simulated; on other clocks it does nothing.
 */
FABEMU_API bool fabemu_testing(struct fabemu *fab, bool testing);

/* What another process must do before a call of the program can continue: fabemu_awaits(). */
enum fabemu_action {
    FABEMU_ACTION_UNLOCK,   /* release a lock, for example of a window's memory */
    FABEMU_ACTION_POST,     /* permit accesses: MPI_Win_post */
    FABEMU_ACTION_COMPLETE, /* end its accesses: MPI_Win_complete */
    FABEMU_ACTION_FREE,     /* free the window, too: MPI_Win_free */
    FABEMU_ACTIONS
};

struct fabemu_awaited {
    enum fabemu_action action;
    uint32_t node;   /* of the process that must act; FABEMU_ANY_NODE: unknown, or several */
    uint32_t target; /* UNLOCK: the node at which the lock is */
    unsigned checks; /* operations since the last call that only checked for the action */
};

/**
 * fabemu_awaits - say that the program waits for an action of another process, for which no
 * operation of the adapter is pending. The report of a standstill then names the action, and
 * @awaited->checks operations do not count as progress. Call it again after more checks, and with
 * NULL when the wait has ended. If several threads wait, the last call counts.
 */
FABEMU_API void fabemu_awaits(struct fabemu *fab, const struct fabemu_awaited *awaited);

/**
 * fabemu_progress - step the adapter once. Bounded; never blocks. Returns the number of segments
 * moved. If it is 0, the adapter was idle or another thread is stepping it, and the caller may want
 * to yield.
 */
FABEMU_API unsigned fabemu_progress(struct fabemu *fab);

/** fabemu_test - step the adapter once; return true if @req is complete. */
FABEMU_API bool fabemu_test(struct fabemu *fab, struct fabemu_req *req);

/**
 * fabemu_wait - step the adapter until @req is complete. The caller spins a little, then yields,
 * then sleeps until the fabric wakes it. Returns the request's status.
 */
FABEMU_API int fabemu_wait(struct fabemu *fab, struct fabemu_req *req);

/**
 * fabemu_abort - cancel an operation, and wait until it is complete. If the request has a done
 * function, it has been called when this returns.
 *
 * A pending operation completes with -ECANCELED and its memory belongs to the caller again. The
 * peer's operation ends with -ECANCELED, too, or the peer discards its data. If the fabric has
 * already taken some segments of a message, the call instead waits until the fabric has taken the
 * rest. This wait has no time limit. Not for collectives. Returns the request's status.
 */
FABEMU_API int fabemu_abort(struct fabemu *fab, struct fabemu_req *req);

/**
 * fabemu_idle - let other threads run after a fabemu_progress() that moved nothing.
 * @rounds: number of consecutive calls of fabemu_progress() that moved nothing.
 *
 * In the first rounds it spins, then it yields. In later rounds it sometimes sleeps, for at most 50
 * us (plus the host's timer slack) or until a segment arrives. Because the sleep is so short, the
 * caller may also wait for something other than the adapter. If the host has sched_autogroup, a
 * yield lets only threads of the same session (setsid(2)) run. If the fabric is in the caller's
 * session, it runs during these yields, so usually 50 us pass before the first sleep.
 */
FABEMU_API void fabemu_idle(const struct fabemu *fab, unsigned rounds);

/**
 * fabemu_block - let the library's thread step the adapter from now on, until a thread of the
 * application steps it again. A thread calls this when it is about to block until a completion
 * callback wakes it. Without this call the library's thread takes over within 10 ms. Does not
 * block.
 *
 * fabemu_hand_over - let the library's thread step the adapter from the time when the next segment
 * arrives, unless a thread of the application does so earlier. A thread calls this when it has
 * posted a long operation and may compute while the operation runs. If the thread waits for the
 * operation instead, this call costs almost nothing.
 */
FABEMU_API void fabemu_block(struct fabemu *fab);
FABEMU_API void fabemu_hand_over(struct fabemu *fab);

/* --- incarnations ------------------------------------------------------------------- */

/*
 * One process after another can attach to a node. Each of them is an incarnation of the node. Its
 * number (fabemu_info.incarnation) distinguishes it from earlier and later ones, so (node,
 * incarnation) is an address that is never reused.
 *
 * An operation that names a node and an incarnation takes place with that process only. It ends
 * with -EHOSTUNREACH once that process has left or died.
 *
 * An operation that names only a node takes place with the process that is attached there when the
 * operation starts. If none is attached, it takes place with the next process that attaches. If
 * none attaches in time, it ends with -EHOSTUNREACH. The time is bounds.successor_ms (1 s) if a
 * process has left the node or died there, and bounds.silence_ms (10 s) if none was ever there. An
 * operation never passes from one process to the next. (A message that has arrived can be received
 * even if its sender has left or was replaced.)
 *
 * A process that detaches disconnects from all its peers. Everything that it or a peer had
 * completed sending before is delivered. Data sent to a process that died may be lost; see
 * fabemu_send().
 */

/* --- queues: messages --------------------------------------------------------------- */

/**
 * fabemu_queue_open - open queue @id (0 to 65535) of the adapter. Messages that arrived before it
 * was opened for the first time are kept for it. From each node, at most 4096 messages are kept for
 * all queues that are not open; further messages of that node wait at the sender. After a queue has
 * closed, messages to it are dropped until it is opened again, and sends that wait for the receiver
 * end with -ECANCELED.
 * Errors: -EADDRINUSE, -ENOMEM.
 */
FABEMU_API int fabemu_queue_open(struct fabemu *fab, uint16_t id, struct fabemu_queue **ret);

/**
 * fabemu_queue_open_any - open @count queues with successive numbers. The first number is even, and
 * is chosen round robin from 256 up. If @count is odd, the next number is reserved: this function
 * assigns it to no other queue while the last queue is open. Messages that arrived for these
 * numbers before are dropped, because they were for another owner.
 * @ret: array of @count queues. Errors: -EADDRINUSE, -EINVAL (@count is 0), -ENOMEM.
 */
FABEMU_API int fabemu_queue_open_any(struct fabemu *fab, unsigned count, struct fabemu_queue **ret);

/**
 * fabemu_queue_announce - let the processes of this host find this queue by its number. Lasts until
 * the queue closes. Waits for the fabric's reply. Errors: -ENOTCONN, the fabric is gone; -ENOMEM;
 * -EINVAL, a shared receive queue has no number.
 * fabemu_queue_find - get the process of this host that has announced a queue with number @id. If
 * several processes have announced that number, the call prefers this process; otherwise it chooses
 * the one that attached first. Waits for the fabric's reply. @node, @incarnation: written on
 * success. Errors: -ENOENT, there is none; -ENOTCONN.
 */
FABEMU_API int fabemu_queue_announce(struct fabemu_queue *queue);
FABEMU_API int fabemu_queue_find(struct fabemu *fab, uint16_t id, uint32_t *node,
                                 uint64_t *incarnation);

/**
 * fabemu_queue_open_counted - as fabemu_queue_open(), for a queue that several parts of this
 * process use. If this function has opened the queue already, the call returns the same queue with
 * one more reference. fabemu_queue_close() drops a reference, and the last one closes the queue.
 * Messages that arrive after that are kept, because another part may open the queue again.
 */
FABEMU_API int fabemu_queue_open_counted(struct fabemu *fab, uint16_t id,
                                         struct fabemu_queue **ret);

/**
 * fabemu_queue_open_shared - open a shared receive queue. It has no number, so no process can send
 * a message to it, and it cannot send. A receive that is posted to it receives a message to any of
 * the queues that share it; fabemu_req.queue says to which. Errors: -ENOSPC, 4096 are open;
 * -ENOMEM.
 */
FABEMU_API int fabemu_queue_open_shared(struct fabemu *fab, struct fabemu_queue **ret);

/**
 * fabemu_queue_share - from now on, match the messages to @queue with the receives of @shared. This
 * includes messages that have arrived already but have matched no receive. When @queue closes, its
 * messages are dropped, and receives that have matched one of them complete with -ECANCELED. @queue
 * can still send and receive notices.
 * Errors: -EINVAL, @shared is not a shared receive queue; or @queue is itself one, already shares
 * one, or has a pending receive.
 */
FABEMU_API int fabemu_queue_share(struct fabemu_queue *queue, struct fabemu_queue *shared);

/**
 * fabemu_queue_on_loss - call @lost(@queue, @failed, @arg) when the network has dropped a message
 * from @queue for good although its send had completed, or had no request (fabemu_inject()).
 * @failed: a request with the status -EHOSTUNREACH, for fabemu_req_why(). The call is made about a
 * second after the drop, but only if no operation with the receiver has ended with an error because
 * of this drop. One call may stand for several messages.
 * @lost: called like the callback of a request; NULL: report no more losses.
 */
FABEMU_API void fabemu_queue_on_loss(struct fabemu_queue *queue,
                                     void (*lost)(struct fabemu_queue *queue,
                                                  const struct fabemu_req *failed, void *arg),
                                     void *arg);

/**
 * fabemu_queue_id - return the queue's number, which peers put into struct fabemu_dest. Not for
 * shared receive queues.
 */
FABEMU_API uint16_t fabemu_queue_id(const struct fabemu_queue *queue);

/**
 * fabemu_queue_close - close the queue. Pending receives complete with -ECANCELED; unexpected
 * messages are dropped. If a message had not arrived completely and its send is still pending, the
 * send ends with -ECANCELED.
 */
FABEMU_API void fabemu_queue_close(struct fabemu_queue *queue);

/* Where a message goes, and what the receiver matches. */
struct fabemu_dest {
    uint32_t node;
    uint16_t queue;
    /* fabemu_send(): complete only when the message is in the receiver's memory. A short message
       gets there without a posted receive. A long message needs one */
    bool delivered;
    bool matched; /* fabemu_send(): complete only when a receive has received the message */
    uint64_t tag;
    uint64_t data; /* passed to the receiver unchanged */
    uint16_t mark; /* passed to the receiver unchanged */
    /* the only incarnation that may receive it; 0: any, see "incarnations" above */
    uint64_t incarnation;
};

struct fabemu_iov {
    void *base;
    size_t bytes;
};

/**
 * fabemu_send - send a message. The send completes when the buffer may be reused.
 * @iov, @iovs: the message in pieces (at most 4; the array may be freed on return).
 *
 * Messages between one pair of queues match in the order in which they were sent. When a send has
 * completed, the whole message arrives before anything that this process sends to the same node
 * afterwards. Therefore, once a receive of a later message completes, the receive of the earlier
 * message (if posted) is complete, too. (The send of a long message completes when the receiver has
 * all of it. The send of a short message completes while the message may still be in flight.)
 *
 * Errors (returned, or as the request's status): -EINVAL; -EMSGSIZE, it is longer than 928 GiB;
 * -EHOSTUNREACH, there is no such node, nobody is attached there, its process left or died, or the
 * network dropped the message; -ECANCELED, before all of the message had arrived, the receiver
 * cancelled the receive or closed the queue; -ENOBUFS, the receiver has too many operations in
 * progress (the receive also ends with -ENOBUFS); -ENOTCONN, the fabric is gone.
 *
 * When the network drops a segment between two processes for good, their streams have a gap. All
 * pending operations between the two end with -EHOSTUNREACH at both processes, including receives
 * from that node. If none was pending, the next operation between the two ends with -EHOSTUNREACH.
 * Then the processes handshake again. Operations posted meanwhile wait for the handshake, and end
 * with -EHOSTUNREACH if it fails. A receive from FABEMU_ANY_NODE stays posted.
 *
 * The same happens if a process dies before it has confirmed everything that was sent to it. If no
 * operation was pending, the next operation that names only the node ends with -EHOSTUNREACH, even
 * if a new process has attached there. An operation that names the new incarnation is not affected.
 */
FABEMU_API int fabemu_send(struct fabemu_queue *queue, const struct fabemu_dest *dest,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);

/**
 * fabemu_inject - send up to FABEMU_INJECT_BYTES without a request. @buf may be reused on return.
 * Errors: as fabemu_send(); -EAGAIN, it cannot be sent now: call fabemu_progress() and try again.
 */
FABEMU_API int fabemu_inject(struct fabemu_queue *queue, const struct fabemu_dest *dest,
                             const void *buf, size_t bytes);

/**
 * fabemu_recv - receive a message into @iov.
 * @node: the sender's node, or FABEMU_ANY_NODE.
 * @tag, @ignore: a message matches when (its tag ^ tag) & ~ignore is 0.
 *
 * Receives match in the order in which they were posted. A message that is too long fills the
 * buffer and completes with -EMSGSIZE; req->bytes is its full length. Status -EHOSTUNREACH: the
 * sender, or the process that this receive waits for, has left or died. Status -ECANCELED: the
 * receive was cancelled, or the sender cancelled the message. Messages that a process sent before
 * it died can still be received in order. If such a message has arrived only in part, the receive
 * that matches it ends with -EHOSTUNREACH.
 */
FABEMU_API int fabemu_recv(struct fabemu_queue *queue, uint32_t node, uint64_t tag, uint64_t ignore,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);

/* Where a message may come from. */
struct fabemu_source {
    uint32_t node;  /* or FABEMU_ANY_NODE */
    uint32_t queue; /* of the sender, or FABEMU_ANY_QUEUE */
};

/** fabemu_recv_from - as fabemu_recv(), but @from may also name the sender's queue. */
FABEMU_API int fabemu_recv_from(struct fabemu_queue *queue, struct fabemu_source from, uint64_t tag,
                                uint64_t ignore, const struct fabemu_iov *iov, unsigned iovs,
                                struct fabemu_req *req);

/* A buffer that receives several messages, one after the other. */
struct fabemu_multi {
    void *base;
    size_t bytes;
    size_t min_bytes; /* the buffer takes no further message when less space is left; at least 1 */
    /* Called when a message matches, with the request of fabemu_recv_multi(). @at: address at which
       the message will be stored. Returns a request for this message, prepared as for
       fabemu_recv(), or NULL if there is no memory for a request. The caller holds the adapter's
       lock, so this function must be short and must not call this library */
    struct fabemu_req *(*next)(struct fabemu_req *req, void *at);
};

/**
 * fabemu_recv_multi - receive several messages into one buffer, in the order of their arrival and
 * without gaps between them.
 * @from, @tag, @ignore: which messages match, as for fabemu_recv_from().
 * @multi: copied; the buffer must stay valid until @req and the requests of all messages are
 * complete.
 *
 * The request of a message completes as for fabemu_recv(), with -EMSGSIZE if the message was longer
 * than the space that was left. @req completes with 0 when the buffer takes no further
 * message, with -ENOMEM if `next` returned NULL, or with -ECANCELED (see fabemu_cancel()). Messages
 * that matched before that may complete after @req.
 */
FABEMU_API int fabemu_recv_multi(struct fabemu_queue *queue, struct fabemu_source from,
                                 uint64_t tag, uint64_t ignore, const struct fabemu_multi *multi,
                                 struct fabemu_req *req);

/**
 * fabemu_probe - step the adapter once and look for an unexpected message that matches.
 * @claim: if not NULL, the message is removed from matching and *claim refers to it, for
 * fabemu_recv_claimed().
 * @req: receives the message's source, tag, data and bytes, as in a completed receive.
 * Errors: -ENOMSG, there is no such message now.
 */
struct fabemu_message;
FABEMU_API int fabemu_probe(struct fabemu_queue *queue, uint32_t node, uint64_t tag,
                            uint64_t ignore, struct fabemu_message **claim, struct fabemu_req *req);

/** fabemu_probe_from - as fabemu_probe(), for a message that fabemu_recv_from() would receive. */
FABEMU_API int fabemu_probe_from(struct fabemu_queue *queue, struct fabemu_source from,
                                 uint64_t tag, uint64_t ignore, struct fabemu_message **claim,
                                 struct fabemu_req *req);

/**
 * fabemu_recv_claimed - receive a claimed message. With @iovs 0 the message is discarded, and its
 * sender is not notified.
 */
FABEMU_API int fabemu_recv_claimed(struct fabemu_queue *queue, struct fabemu_message *claim,
                                   const struct fabemu_iov *iov, unsigned iovs,
                                   struct fabemu_req *req);

/**
 * fabemu_cancel - cancel a receive that has not matched, which completes with -ECANCELED. Errors:
 * -ENOENT, it has matched and will complete.
 */
FABEMU_API int fabemu_cancel(struct fabemu_queue *queue, struct fabemu_req *req);

/* --- memory: put and get ------------------------------------------------------------ */

#define FABEMU_REMOTE_READ  1u
#define FABEMU_REMOTE_WRITE 2u
/* allows every atomic; fabemu_atomic() says which atomics the other bits allow */
#define FABEMU_REMOTE_ATOMIC 4u
#define FABEMU_BY_ADDRESS    8u  /* see fabemu_register() */
#define FABEMU_CHOSEN_KEY    16u /* see fabemu_register() */
#define FABEMU_BY_PARTS      32u /* see fabemu_region_add() */
#define FABEMU_TRAPS         64u /* see fabemu_register() */

/**
 * fabemu_register - let peers access the memory [addr, addr + bytes), which they name by *key.
 * @access: FABEMU_REMOTE_*. With FABEMU_BY_ADDRESS peers name a byte of the region by its address
 * in this process; otherwise by its offset from @addr. With FABEMU_CHOSEN_KEY the caller has set
 * *key; otherwise *key receives a key that peers cannot guess.
 *
 * @addr NULL with @bytes SIZE_MAX registers all memory of this process. Then an offset is an
 * address.
 *
 * With FABEMU_TRAPS, an access to pages that this process has not mapped, or has mapped without the
 * permission that the access needs, fails at its origin with -EFAULT and changes nothing on these
 * pages. After the pages are mapped, another try succeeds. Without FABEMU_TRAPS such an access
 * crashes this process. FABEMU_TRAPS costs a system call per access, and one per segment of longer
 * transfers. A page may be unmapped at any time, except while a put, a get or an atomic accesses it
 * in another thread. To exclude this, unregister the region first. Errors: -EEXIST, this process
 * has a region with the chosen key; -ENOTSUP, FABEMU_TRAPS needs Linux 5.14.
 */
FABEMU_API int fabemu_register(struct fabemu *fab, void *addr, size_t bytes, unsigned access,
                               uint64_t *key);

/**
 * fabemu_registerv - register memory in pieces (at most 4) as one region. The pieces follow each
 * other in it without gaps. With FABEMU_BY_ADDRESS the first byte has the address of the first
 * piece.
 */
FABEMU_API int fabemu_registerv(struct fabemu *fab, const struct fabemu_iov *iov, unsigned iovs,
                                unsigned access, uint64_t *key);

/**
 * fabemu_region_add - let peers access the memory [addr, addr + bytes) as a part of a region that
 * was registered with FABEMU_BY_PARTS and with 0 bytes. Peers name a byte of such a region by its
 * address. One access may cover several parts if there are no gaps between them.
 * Errors: -EEXIST, it overlaps a part; -ENOENT, there is no such region; -EINVAL, @bytes is 0.
 * fabemu_region_remove - remove the part that begins at @addr. Transfers to or from it in progress
 * end with -EACCES. Errors: -ENOENT.
 */
FABEMU_API int fabemu_region_add(struct fabemu *fab, uint64_t key, void *addr, size_t bytes);
FABEMU_API int fabemu_region_remove(struct fabemu *fab, uint64_t key, const void *addr);

/** fabemu_unregister - remove the region. Transfers to or from it in progress end with -EACCES. */
FABEMU_API int fabemu_unregister(struct fabemu *fab, uint64_t key);

/**
 * fabemu_register_event - count in @event the accesses of peers to the region.
 * @access: FABEMU_REMOTE_WRITE counts each put, broadcast put, and atomic except FETCH, when it is
 * complete. FABEMU_REMOTE_READ counts each get, when the adapter has read all its bytes, and each
 * atomic that returns the previous value. Both may be set. The region may have one event for each.
 * @event: NULL: stop counting.
 */
FABEMU_API int fabemu_register_event(struct fabemu *fab, uint64_t key, unsigned access,
                                     struct fabemu_event *event);

/*
 * A trap: an access of a peer that this process refuses. Reasons: there is no such region, the
 * access is not allowed or not inside the region, or a page is not mapped (only with FABEMU_TRAPS).
 */
struct fabemu_trap {
    uint64_t count; /* traps of this process so far; 0: the other fields are not valid */
    uint32_t node;  /* of the peer */
    int status;     /* of the peer's operation: -EACCES, or -EFAULT because of a page */
    uint64_t key;   /* the key that the peer named; 0: a page was unmapped during a transfer */
    uint64_t offset, bytes;
};

/** fabemu_traps - return the last trap of this process, and the number of its traps. */
FABEMU_API void fabemu_traps(struct fabemu *fab, struct fabemu_trap *last);

/** fabemu_trap_event - count every trap of this process in @event; NULL: stop counting. */
FABEMU_API int fabemu_trap_event(struct fabemu *fab, struct fabemu_event *event);

/**
 * fabemu_queue_event - as fabemu_register_event(), for the peers' operations that name the queue
 * (fabemu_req.target_queue, or the notice of a put). An atomic that returns the previous value
 * counts only as a read here, and every other atomic as a write.
 */
FABEMU_API int fabemu_queue_event(struct fabemu_queue *queue, unsigned access,
                                  struct fabemu_event *event);

/**
 * fabemu_put, fabemu_get - copy memory to or from @offset of a peer's registered region. The
 * operation completes when the data is in the destination memory. For a put, this is when the peer
 * has confirmed it.
 * Status: -EACCES, the peer has no such region or does not allow this access to it; -EFAULT, the
 * region has FABEMU_TRAPS and a page is not mapped; -EHOSTUNREACH.
 */
FABEMU_API int fabemu_put(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                          const void *src, size_t bytes, struct fabemu_req *req);
FABEMU_API int fabemu_get(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                          void *dst, size_t bytes, struct fabemu_req *req);

/**
 * fabemu_putv, fabemu_getv - as fabemu_put() and fabemu_get(), with local memory in pieces (at most
 * 4; the array may be freed on return).
 */
FABEMU_API int fabemu_putv(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);
FABEMU_API int fabemu_getv(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);

/* Tells the target process of a put that all bytes of the put are in its memory. */
struct fabemu_notice {
    uint16_t queue;     /* queue of the target process that receives the notice */
    uint16_t src_queue; /* the receiver gets it as the sender's queue */
    uint64_t data;      /* the receiver gets it unchanged */
};

/**
 * fabemu_putv_notice - as fabemu_putv(); when all bytes are in the target's memory, the target's
 * queue receives @notice. Each put with status 0 causes exactly one notice; a refused put causes
 * none. The put is complete when its notice is in the target's queue.
 * Status: as fabemu_put(); -EOPNOTSUPP, nothing was written: the target process has no such queue,
 * or has not called fabemu_recv_notice() for it; -ECANCELED or -ENOMEM, the bytes were written but
 * no notice arrived: the target closed the queue meanwhile, or is out of memory; -EHOSTUNREACH, it
 * is unknown whether the put was done.
 */
FABEMU_API int fabemu_putv_notice(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                                  const struct fabemu_iov *iov, unsigned iovs,
                                  const struct fabemu_notice *notice, struct fabemu_req *req);

/**
 * fabemu_recv_notice - receive the next notice that arrives at @queue, from any process. The first
 * call makes the queue accept notices. From then on the library keeps each notice until a call
 * receives it. Notices are received in the order of arrival. A notice never matches a receive that
 * was posted for a message.
 * @req: gets src_node, src_queue and src_incarnation; the notice's data; the put's bytes; tag 0.
 * Status: -ECANCELED, the receive was cancelled, or the queue was closed.
 */
FABEMU_API int fabemu_recv_notice(struct fabemu_queue *queue, struct fabemu_req *req);

/* Each operation applies to all types except pairs, unless the comment says otherwise. */
enum fabemu_atomic_op {
    FABEMU_ATOMIC_ADD, /* integers wrap around */
    FABEMU_ATOMIC_AND, /* bitwise AND, OR and XOR: integers */
    FABEMU_ATOMIC_OR,
    FABEMU_ATOMIC_XOR,
    FABEMU_ATOMIC_MIN, /* MIN and MAX: not for complex numbers */
    FABEMU_ATOMIC_MAX,
    FABEMU_ATOMIC_SWAP, /* writes the operand */
    /* writes the operand if the element and `compare` are equal bit by bit; only for types of up to
       8 bytes */
    FABEMU_ATOMIC_CAS,
    FABEMU_ATOMIC_FETCH, /* only reads */
    FABEMU_ATOMIC_PROD,
    FABEMU_ATOMIC_LAND, /* logical: the result is 0 or 1 */
    FABEMU_ATOMIC_LOR,
    FABEMU_ATOMIC_LXOR,
    /* The next six compare values, not bits: 0.0 equals -0.0, and NaN is not equal to itself. They
       write the operand if `compare` is equal to (EQ), not equal to (NE), at most (LE), less than
       (LT), at least (GE) or greater than (GT) the element. Only EQ and NE apply to complex
       numbers */
    FABEMU_ATOMIC_CAS_EQ,
    FABEMU_ATOMIC_CAS_NE,
    FABEMU_ATOMIC_CAS_LE,
    FABEMU_ATOMIC_CAS_LT,
    FABEMU_ATOMIC_CAS_GE,
    FABEMU_ATOMIC_CAS_GT,
    FABEMU_ATOMIC_MSWAP, /* integers: writes those bits of the operand that are set in `compare` */
    FABEMU_ATOMIC_OPS
};

struct fabemu_atomic {
    uint32_t node;
    uint64_t key;
    uint64_t offset;     /* of the first element in the peer's region */
    unsigned op;         /* enum fabemu_atomic_op */
    unsigned type;       /* enum fabemu_type, but not a type of pairs */
    const void *operand; /* of this type; NULL for FETCH */
    const void *compare; /* for CAS, CAS_* and MSWAP only, of this type */
    void *result;        /* NULL, or receives the previous value of the element */
};

/**
 * fabemu_atomic - change one element, of at most 8 bytes, of a peer's registered region. The
 * operand and the value to compare with are read before this returns. If the request waits for an
 * event (req->after, see "events" below), they must stay unchanged from the start of the operation
 * until @req completes.
 *
 * The peer executes the operation exactly once, even if the network repeats segments, because each
 * pair of processes numbers its requests. The peer's adapter executes atomics in the order in which
 * they were posted. This order includes puts of up to FABEMU_INJECT_BYTES without a notice.
 *
 * An element of at most 8 bytes that is not a complex number must be aligned to its size in the
 * peer's memory. Its change is atomic with respect to atomics of all other adapters, and to C11
 * atomics of processes that have the memory mapped. All of these are sequentially consistent. Other
 * elements may have any alignment. Their change is atomic only with respect to other atomics that
 * name memory of the same process: its adapter executes them under its lock. Threads of the process
 * that access the element meanwhile may see a part of the change.
 * Source: QsNet III §III, a sequence number based protocol for atomic operations.
 *
 * The region needs FABEMU_REMOTE_ATOMIC, or else FABEMU_REMOTE_WRITE to change the element and
 * FABEMU_REMOTE_READ to fetch it. @req completes when the peer has executed the operation.
 * Status: -EACCES; -EFAULT, as for fabemu_put();
 * -EINVAL, the element is not aligned, or not in one piece of the region; -EHOSTUNREACH, it is
 * unknown whether the peer executed it.
 */
FABEMU_API int fabemu_atomic(struct fabemu *fab, const struct fabemu_atomic *what,
                             struct fabemu_req *req);

/**
 * fabemu_atomic_array - as fabemu_atomic(), on each of @count elements, which follow each other and
 * may have any size. @count is 1 to fabemu_atomic_most(). Each change is atomic, but not all of
 * them together. The operand, the value to compare with and the result are arrays of @count
 * elements. The arrays of operands and of values to compare with must stay unchanged until @req
 * completes. If the peer refuses one element, it changes none.
 *
 * If the operation does not use what->compare, @count may be higher: the elements may have up to 1
 * GiB together or, if there is a result, up to FABEMU_BATCH_RESULT bytes. They are executed as a
 * record of a batch, with the rules of fabemu_batchv(). Errors: -EMSGSIZE, @count is too large.
 */
FABEMU_API int fabemu_atomic_array(struct fabemu *fab, const struct fabemu_atomic *what,
                                   size_t count, struct fabemu_req *req);

/**
 * fabemu_atomic_most - return the maximum number of elements of @type to which
 * fabemu_atomic_array() can apply @op in one segment; 0 if @op does not apply to @type.
 */
FABEMU_API size_t fabemu_atomic_most(unsigned op, unsigned type);

/** fabemu_atomic_ok - return whether adapters can apply @op to @type. */
static inline bool fabemu_atomic_ok(unsigned op, unsigned type)
{
    return fabemu_atomic_most(op, type) != 0;
}

/*
 * A *batch* is a list of puts, gets and atomics, which the peer's adapter executes in order. Each
 * of them consists of a record and its data, with padding up to a multiple of FABEMU_RECORD_UNIT.
 * FABEMU_RECORD_GET and FABEMU_ATOMIC_FETCH have no data.
 */
#define FABEMU_RECORD_UNIT  16u
#define FABEMU_RECORD_PUT   255u
#define FABEMU_RECORD_GET   254u
#define FABEMU_BATCH_RESULT (16u << 10) /* bytes of the longest result of a batch */

struct fabemu_record {
    uint64_t offset; /* in the peer's region */
    uint32_t bytes;  /* of data in the region, at least 1 */
    /* FABEMU_RECORD_PUT or _GET, or an enum fabemu_atomic_op that does not use `compare` */
    uint8_t op;
    uint8_t type;     /* for an atomic: enum fabemu_type */
    uint16_t strided; /* 0; or 1: a struct fabemu_stride follows the record */
};

/* Divides the data of a record into blocks, which have gaps between them in the region. */
struct fabemu_stride {
    uint64_t block; /* bytes of a block, at least 1; the last one may have fewer */
    uint64_t step;  /* from the beginning of a block to that of the next one, modulo 2^64 */
};

/**
 * fabemu_batchv - execute a batch on a peer's registered region. @iov: the list, in pieces (at most
 * 4; the array may be freed on return), which must stay unchanged until @req completes.
 * @result: NULL, or memory for the data of the gets and the previous values of all elements of the
 * atomics, in the order of the list. Its size must be the sum of their sizes, and at most
 * FABEMU_BATCH_RESULT.
 *
 * Batches and atomics are executed in the order in which they were posted, see fabemu_atomic(). The
 * change of an element, of any type, is atomic only with respect to other atomics that name memory
 * of the same process. In the list, the data of an element of more than FABEMU_RECORD_UNIT bytes
 * must begin at a multiple of the element's size. If it would not, make the record strided. Then a
 * struct fabemu_stride before the data moves them to such a multiple. The region needs
 * FABEMU_REMOTE_WRITE or _READ, or for atomics FABEMU_REMOTE_ATOMIC. The region's events count the
 * batch as one write and, if there is a result, as one read. Status: that of the first record that
 * is refused, as for fabemu_atomic(). The records before it were executed, and the records after it
 * were not; the result is undefined. -EINVAL, the result has another size; -ENOBUFS, the peer has
 * no memory for the result, and nothing was executed.
 */
FABEMU_API int fabemu_batchv(struct fabemu *fab, uint32_t node, uint64_t key,
                             const struct fabemu_iov *iov, unsigned iovs,
                             const struct fabemu_iov *result, struct fabemu_req *req);

/* --- events: counts of completions -------------------------------------------------- */

/*
 * An event counts completions with status 0 of requests that name it (req->event), and peers'
 * accesses to a region or queue (fabemu_register_event(), fabemu_queue_event()). The process can
 * add to the count with fabemu_event_add(). A request with req->after is *armed*: its call returns,
 * and the adapter starts the operation when that event has reached req->threshold, which may be at
 * once. When the operation completes, its own event counts the completion, and may start further
 * operations. So a chain of operations runs without a thread of the application. The data of an
 * armed operation is read when it starts. An armed receive is posted to its queue when it starts;
 * if the queue has closed by then, it ends with -ECANCELED.
 *
 * If a request fails, its event does not count it but fails with the request's status. All
 * operations that are armed on that event or wait for it fail, too. An event that was opened with
 * fabemu_event_open_tolerant() never fails: it counts failed requests separately.
 *
 * Usually counts only grow, and a program that uses an event again uses higher thresholds.
 * Source: QsNet III §IV-A, where adapters run collectives by means of counted events, each starting
 * the next operation.
 */
struct fabemu_event {
    uint64_t count;    /* read with fabemu_event_count() */
    uint64_t failures; /* read with fabemu_event_failures(); 0 unless the event is tolerant */
    int status;        /* 0, or the error with which the event failed */

    uint64_t opaque[11]; /* for the library's use */
};

/**
 * fabemu_event_count - return the count, loaded with acquire order. Everything that the counted
 * operations wrote is visible.
 */
static inline uint64_t fabemu_event_count(const struct fabemu_event *event)
{
    /* N6 pairs with N5 in nic/host/base/complete.c. */
    return __atomic_load_n(&event->count, __ATOMIC_ACQUIRE);
}

/** fabemu_event_failures - return how many failed requests a tolerant event has counted. */
static inline uint64_t fabemu_event_failures(const struct fabemu_event *event)
{
    return __atomic_load_n(&event->failures, __ATOMIC_ACQUIRE); /* N6 pairs with N5 */
}

/**
 * fabemu_event_open - create an event with count 0 in the caller's memory, which must stay valid
 * until the event is closed.
 */
FABEMU_API int fabemu_event_open(struct fabemu *fab, struct fabemu_event *event);

/**
 * fabemu_event_open_tolerant - as fabemu_event_open(), for an event that counts failed requests in
 * event->failures instead of failing itself.
 * @changed: NULL, or called after each change of one of the two counts, by the thread that changes
 * it. That thread holds the adapter's lock, so the same rules apply as for fabemu_req.done.
 */
FABEMU_API int fabemu_event_open_tolerant(struct fabemu *fab, struct fabemu_event *event,
                                          void (*changed)(struct fabemu_event *event));

/**
 * fabemu_event_close - close the event. Operations that are armed on it complete with -ECANCELED,
 * and regions and queues stop counting in it. No pending request may name it in req->event.
 */
FABEMU_API void fabemu_event_close(struct fabemu_event *event);

/** fabemu_event_add - add @n to the count. */
FABEMU_API int fabemu_event_add(struct fabemu_event *event, uint64_t n);

enum fabemu_event_change {
    FABEMU_EVENT_ADD,          /* add to the count, modulo 2^64 */
    FABEMU_EVENT_SET,          /* set the count, which may lower it */
    FABEMU_EVENT_ADD_FAILURES, /* the same for the failures of a tolerant event */
    FABEMU_EVENT_SET_FAILURES
};

/**
 * fabemu_event_change - change one of the two counts, and start the operations whose threshold is
 * reached then.
 * Errors: -EINVAL, the event is not tolerant and has no count of failures.
 * fabemu_event_change_in_done - do the same in a function that the adapter calls under its lock:
 * fabemu_req.done, fabemu_multi.next, or the function of a tolerant event. Only such a function may
 * call it, and it may change the failures only of a tolerant event.
 */
FABEMU_API int fabemu_event_change(struct fabemu_event *event, enum fabemu_event_change change,
                                   uint64_t value);
FABEMU_API void fabemu_event_change_in_done(struct fabemu_event *event,
                                            enum fabemu_event_change change, uint64_t value);

/**
 * fabemu_disarm - cancel an armed operation that has not started; it completes with -ECANCELED.
 * Not for collectives. Errors: -ENOENT, it has started or is complete.
 */
FABEMU_API int fabemu_disarm(struct fabemu *fab, struct fabemu_req *req);

/**
 * fabemu_event_when - post an operation that does nothing but complete @req when @event reaches
 * @threshold.
 */
FABEMU_API int fabemu_event_when(struct fabemu_event *event, uint64_t threshold,
                                 struct fabemu_req *req);

/**
 * fabemu_event_wait - step the adapter until @event reaches @threshold (returns 0) or fails
 * (returns its error).
 */
FABEMU_API int fabemu_event_wait(struct fabemu_event *event, uint64_t threshold);

/* --- groups: collectives in the network --------------------------------------------- */

/**
 * fabemu_group_create - ask the fabric for a collective address and a tree of switches for a group.
 * One member calls this and sends *id to the others by any means. Then every member joins.
 * @nodes: the members, 2 or more, distinct.
 * When the call returns, the switches have the group's tables. It blocks until the fabric's manager
 * replies.
 * Errors: -EINVAL; -ENOSPC, no collective address or combine state is left, a member has used up
 * its share of them, or a host of the fabric cannot make the group; -EHOSTUNREACH, a member is not
 * attached (yet).
 */
FABEMU_API int fabemu_group_create(struct fabemu *fab, const uint32_t *nodes, uint32_t count,
                                   uint32_t *id);

/**
 * fabemu_group_join - become a member of the group.
 * @members: number of members, as at creation.
 * The call blocks until the fabric's manager replies. If a member fails to join, or dies or
 * detaches before it has left the group, the group breaks: the operations of the members that have
 * joined end with -EPIPE, and they must leave.
 * Errors: -ENOENT, there is no such group (any more); -EINVAL, another number of members;
 * -EALREADY, this process is a member; -ENOMEM.
 */
FABEMU_API int fabemu_group_join(struct fabemu *fab, uint32_t id, uint32_t members,
                                 struct fabemu_group **ret);

#define FABEMU_GROUP_KEY 95u /* maximum length of a key, in bytes */

/**
 * fabemu_group_open - become a member of the group of all processes on @nodes that use this key.
 * The call needs no messages between the members and does not wait for them: the first member that
 * calls it creates the group, and all join the same one. A member may start operations before the
 * others have joined, and may leave when its own operations are complete.
 *
 * @key: chosen by the program, 1 to FABEMU_GROUP_KEY bytes without control characters. All members
 * pass the same key, nodes (in the same order) and window. A member that has left may use the key
 * for a new group, even if other members have not joined the old one yet. Each member joins the
 * groups of a key in the order of their creation.
 * @wide: for operations of many segments (about 16 KB and more). The window of a group limits how
 * many bytes a member may send ahead of the others: 60 KB, or 480 KB if it is wide. With a wide
 * window, large operations are delayed less by members that have no core at the moment. Small
 * operations run better with a narrow window, because the switches' states for a narrow window stay
 * in the caches.
 * Errors: those of fabemu_group_create(). If the fabric refuses the group, each member gets the
 * same error once, even if its cause has gone in the meantime. -ENOSPC can have two more causes.
 * First, only narrow windows are left. Second, of the groups that another member has created, more
 * than 64 were refused or broke before this process called this function for them. From then on
 * this process can join that member's groups, but cannot create a group with that member. -EPIPE,
 * the group broke before this process joined it. -ENOTCONN, or -ENOMEM in this process: only this
 * member has failed, and the group breaks.
 * Thread: any. Blocks until the fabric's manager has replied.
 */
FABEMU_API int fabemu_group_open(struct fabemu *fab, const char *key, const uint32_t *nodes,
                                 uint32_t count, bool wide, struct fabemu_group **ret);

/**
 * fabemu_group_break - break the group: pending and new operations end with -EPIPE at this member,
 * and soon at all others. A member that cannot continue calls it so that the others do not wait.
 * Over a network without acknowledgments the fabric notifies the others, and this call waits for
 * the fabric's reply. Calling it again does nothing.
 */
FABEMU_API void fabemu_group_break(struct fabemu_group *group);

/**
 * fabemu_group_dead_node - return the node of the member whose death broke the group;
 * FABEMU_ANY_NODE if the group broke for another reason or the node is unknown. Call it after an
 * operation has ended with -EPIPE.
 */
FABEMU_API uint32_t fabemu_group_dead_node(const struct fabemu_group *group);

/**
 * fabemu_group_gave_up - return the node of the member that broke the group because the network
 * dropped one of its segments, so that it could not reach all others; else FABEMU_ANY_NODE.
 */
FABEMU_API uint32_t fabemu_group_gave_up(const struct fabemu_group *group);

/**
 * fabemu_group_broke_off - return the node of the member that broke the group, if known; else
 * FABEMU_ANY_NODE. Its process has failed to join, has detached before it had left the group, or
 * has called fabemu_group_break(). Only that member knows why. Over a network with acknowledgments,
 * the other members get this node from fabemu_group_gave_up().
 */
FABEMU_API uint32_t fabemu_group_broke_off(const struct fabemu_group *group);

/**
 * fabemu_group_why - write to @text one line about the switch or cable whose failure broke the
 * group. Returns false if the fabric did not break it. Call it after an operation has ended with
 * -EPIPE.
 */
FABEMU_API bool fabemu_group_why(const struct fabemu_group *group, char *text, size_t bytes);

/**
 * fabemu_group_name - set the name by which the fabric reports the group if it hangs. At most 39
 * bytes are kept.
 */
FABEMU_API void fabemu_group_name(struct fabemu_group *group, const char *name);

/**
 * fabemu_group_queue - make @queue part of the group: when the group breaks, the queue's pending
 * and later receives and sends end with -ECANCELED, and the queue refuses messages. The queue is
 * part of the group until this process leaves the group, but a broken queue stays broken.
 */
FABEMU_API void fabemu_group_queue(struct fabemu_group *group, struct fabemu_queue *queue);

/**
 * fabemu_group_leave - leave the group. No operation may be pending. The fabric removes the tree
 * when the last member has left or died.
 */
FABEMU_API void fabemu_group_leave(struct fabemu_group *group);

/*
 * Collectives. Every member starts the same operations in the same order; any number of them may be
 * in flight. @op and @type: enum fabemu_op and fabemu_type. For reductions @in may equal @out;
 * otherwise they must not overlap. Unless the fabric was started with --set combine_order=port,
 * floating-point results depend on the order in which contributions arrive. Status -EPIPE: a member
 * died, or the network dropped a segment of the group; all later operations of the group end with
 * -EPIPE, too, at every member.
 * Source: output-queued routers §2, §2.1.
 */

/** fabemu_barrier - start a barrier. It is complete when all members have started it. */
FABEMU_API int fabemu_barrier(struct fabemu_group *group, struct fabemu_req *req);

/**
 * fabemu_broadcast - copy @bytes from @buf of the member on @root_node to @buf of all others. All
 * members pass the same @bytes and @root_node.
 */
FABEMU_API int fabemu_broadcast(struct fabemu_group *group, void *buf, size_t bytes,
                                uint32_t root_node, struct fabemu_req *req);

/**
 * fabemu_reduce - combine the members' vectors of @count elements, element by element, in the
 * network. @out: written at the root only; may be NULL elsewhere.
 */
FABEMU_API int fabemu_reduce(struct fabemu_group *group, const void *in, void *out, size_t count,
                             unsigned op, unsigned type, uint32_t root_node,
                             struct fabemu_req *req);

/** fabemu_allreduce - as fabemu_reduce(), but every member gets the result. */
FABEMU_API int fabemu_allreduce(struct fabemu_group *group, const void *in, void *out, size_t count,
                                unsigned op, unsigned type, struct fabemu_req *req);

/* The same values as enum emu_op and enum emu_type (static_assert in nic/host/group/coll.c). */
enum fabemu_op {
    FABEMU_SUM,
    FABEMU_MIN,
    FABEMU_MAX,
    FABEMU_PROD,
    /* logical operations: the result is 0 or 1; all types but pairs */
    FABEMU_LAND,
    FABEMU_LOR,
    FABEMU_LXOR,
    /* bitwise operations, on integers only */
    FABEMU_BAND,
    FABEMU_BOR,
    FABEMU_BXOR,
    FABEMU_MINLOC,
    FABEMU_MAXLOC /* MINLOC and MAXLOC apply to pairs of a value and an index */
};
enum fabemu_type {
    FABEMU_I8,
    FABEMU_U8,
    FABEMU_I16,
    FABEMU_U16,
    FABEMU_I32,
    FABEMU_U32,
    FABEMU_I64,
    FABEMU_U64,
    FABEMU_F32,
    FABEMU_F64,
    FABEMU_F32_I32,
    FABEMU_F64_I32,
    FABEMU_I64_I32,
    FABEMU_I32_I32,
    FABEMU_I16_I32,
    FABEMU_F128_I32,
    FABEMU_F32_F32,
    FABEMU_F64_F64,
    FABEMU_F128, /* long double */
    /* complex numbers: no MIN and MAX */
    FABEMU_F32_COMPLEX,
    FABEMU_F64_COMPLEX,
    FABEMU_F128_COMPLEX,
    /* integers of 16 bytes */
    FABEMU_I128,
    FABEMU_U128
};

/** fabemu_reducible - return whether the switches can apply @op to @type. */
FABEMU_API bool fabemu_reducible(unsigned op, unsigned type);

/* --- groups: words and conditionals, broadcast puts --------------------------------- */

/*
 * Each member keeps FABEMU_WORDS words of the group in its adapter, initially 0. Only the member
 * itself writes them. A conditional is a query to all members: it checks whether a word has a given
 * value at every member. The adapters answer the query without their processes. Words and
 * conditionals can form a barrier: each member sets a word to the next number, then tests until the
 * word of all members has reached it. Source: QsNet III §IV-A, network conditionals.
 *
 * Errors of all these functions: -EOPNOTSUPP, the fabric has no acknowledgments
 * (fabemu_info.acknowledged); -EINVAL; status -EPIPE, the group is broken.
 */
#define FABEMU_WORDS 16

#define FABEMU_TEST_EQUAL   0u /* the word is this value */
#define FABEMU_TEST_REACHED 1u /* (word - value) modulo 2^64 is below 2^63 */
/* may be added to either test: the network repeats the test until it is true */
#define FABEMU_TEST_UNTIL 2u

/*
 * Words may also be in memory. An adapter has FABEMU_MEMORY_WORDS words of 8 bytes that the process
 * has mapped and the network can test. The process may use them like any other memory: it may store
 * into them, and register them so that peers put into them or change them by atomics. Each member
 * chooses a range of these words for the group, and word FABEMU_WORDS + i of the group is then word
 * i of each member's range. By repeated tests, a member can find out the values of the others'
 * words.
 *
 * The program must store with release order, for example by C11 atomics. Then the data that the
 * member had written to memory, and its puts that were complete before the store, are visible to a
 * process whose test is true.
 */
#define FABEMU_MEMORY_WORDS 4096

/**
 * fabemu_words_alloc - allocate @count words of memory, which are 0. They are valid until
 * fabemu_detach(). Errors: -EINVAL, @count is 0 or above FABEMU_MEMORY_WORDS; -ENOSPC.
 * fabemu_words_free - free @count words that were allocated. No group may use them any more, and no
 * region may contain them.
 */
FABEMU_API int fabemu_words_alloc(struct fabemu *fab, size_t count, uint64_t **words);
FABEMU_API void fabemu_words_free(struct fabemu *fab, uint64_t *words, size_t count);

/**
 * fabemu_group_memory - choose this member's range: @count allocated words, beginning with @words.
 * Before the first call, tests of words in memory are false at this member. @count 0: use none. The
 * members' ranges need not be at the same place. A member may call this again to change its range.
 */
FABEMU_API int fabemu_group_memory(struct fabemu_group *group, const uint64_t *words, size_t count);

/**
 * fabemu_group_set - write one of this member's own words. If this process tells another one that
 * the write is complete, that process finds the word set.
 * @req: NULL, or a request that completes when the word is set: at once, unless it is armed.
 */
FABEMU_API int fabemu_group_set(struct fabemu_group *group, uint32_t word, uint64_t value,
                                struct fabemu_req *req);

/**
 * fabemu_group_test - test whether @word has @value at all members. If @word is FABEMU_WORDS or
 * higher, it is a word in memory, and the test is false at a member whose range does not contain
 * it.
 * @how: FABEMU_TEST_EQUAL or FABEMU_TEST_REACHED, and optionally FABEMU_TEST_UNTIL. With
 * FABEMU_TEST_UNTIL, the test ends when it is true, when the group breaks, or when fabemu_abort()
 * removes it from the network.
 * Any number of tests may be in flight. Status: 0, all members have the value; -EAGAIN, a member
 * has another value or was not reached (never with FABEMU_TEST_UNTIL).
 */
FABEMU_API int fabemu_group_test(struct fabemu_group *group, uint32_t word, uint64_t value,
                                 unsigned how, struct fabemu_req *req);

/**
 * fabemu_register_symmetric - fabemu_register() under a key that is the same at all members.
 *
 * This is a collective: all members call it with the same @bytes, and in the same order among the
 * group's collectives. It is complete when all members have registered their memory; *key is valid
 * then. All peers can use the key, for put, get, atomics and fabemu_broadcast_put(). Status:
 * -EINVAL, the members' sizes differ. The region is removed by fabemu_unregister(), or when this
 * member leaves the group. Works on any fabric.
 */
FABEMU_API int fabemu_register_symmetric(struct fabemu_group *group, void *addr, size_t bytes,
                                         unsigned access, uint64_t *key, struct fabemu_req *req);

/**
 * fabemu_broadcast_put - write @bytes at @offset of a symmetric region at every member, including
 * this one.
 *
 * This is one-sided: any member may call it at any time, and the others post nothing. Several may
 * call it at once. It is complete when the adapters of all members have acknowledged it. If this
 * process then sends a message to another member, that member finds the bytes in its memory when it
 * receives the message. The last bytes, at most FABEMU_BROADCAST_LAST_BYTES, are sent only after
 * all earlier bytes have been acknowledged, so they are written last.
 *
 * @src is the same range of this member's own region, or lies outside the region. The regions need
 * FABEMU_REMOTE_WRITE (checked at the source and by each member). If a member has unregistered its
 * region, it drops the bytes, and the source is not notified.
 * Source: QsNet III §IV-A, broadcast to the same virtual address of all processes.
 */
#define FABEMU_BROADCAST_LAST_BYTES 224
FABEMU_API int fabemu_broadcast_put(struct fabemu_group *group, uint64_t key, uint64_t offset,
                                    const void *src, size_t bytes, struct fabemu_req *req);

/* --- counts for the fabric's report ------------------------------------------------- */

enum fabemu_coll {
    FABEMU_COLL_BARRIER,
    FABEMU_COLL_BROADCAST,
    FABEMU_COLL_REDUCE,
    FABEMU_COLL_ALLREDUCE,
    FABEMU_COLL_ALLGATHER,
    FABEMU_COLL_REDUCE_SCATTER,
    FABEMU_COLL_GATHER,
    FABEMU_COLL_SCATTER,
    FABEMU_COLL_SCAN,
    FABEMU_COLL_ALLTOALL,
    FABEMU_COLL_NEIGHBOR, /* collectives on the neighbours of a graph */
    FABEMU_COLLS
};

/**
 * fabemu_uses - return how many calls of fabemu_attach() of this process share @fab and are not
 * detached yet. Thread: any.
 */
FABEMU_API uint32_t fabemu_uses(struct fabemu *fab);

/**
 * fabemu_outside - record in the fabric's report that messages of this process bypass the fabric.
 * @why: one line.
 * Errors: -ENOTCONN or another error of the control socket. Thread: any.
 */
FABEMU_API int fabemu_outside(struct fabemu *fab, const char *why);

/**
 * fabemu_finalizing - name a function that returns whether the program has called MPI_Finalize, for
 * reports of standstills. The library calls it about once a second, with a lock held. It must not
 * call the library. @function: NULL removes the function. After this call has returned, the
 * function that was named before is not called again.
 * Thread: any.
 */
FABEMU_API void fabemu_finalizing(struct fabemu *fab, bool (*function)(void));

/**
 * fabemu_refused - record in the report of the fabric at $FABEMU_SOCKET that this process asked the
 * libfabric provider for something that it does not support. The fabric discards this record when
 * the process attaches. Waits for the fabric's reply, usually less than a millisecond.
 * @what: names the unsupported property; at most 95 bytes are kept.
 * Errors: -ENOENT, no fabric is named; those of the control socket. Thread: any.
 */
FABEMU_API int fabemu_refused(const char *what);

/* Why a collective did not run in the switches. */
enum fabemu_why {
    FABEMU_WHY_OP,     /* the operation is user-defined or unsupported */
    FABEMU_WHY_TYPE,   /* the data type is derived or unsupported */
    FABEMU_WHY_WINDOW, /* it has many segments, and no group with a wide window was available */
    /* there is no group: a member is not on the fabric, or no collective address or combine state
       was left */
    FABEMU_WHY_GROUP,
    FABEMU_WHY_SINGLE,   /* the communicator has one member */
    FABEMU_WHY_INTER,    /* the communicator is an intercommunicator */
    FABEMU_WHY_FINALIZE, /* MPI is shutting down */
    FABEMU_WHY_OFF,      /* disabled by an option */
    FABEMU_WHY_SLOWER, /* messages were measured to be faster for this size and number of members */
    FABEMU_WHY_COUNTS, /* MPI does not tell a member how much data the others send */
    FABEMU_WHYS
};

/**
 * fabemu_count_in_network, fabemu_count_elsewhere - count one collective that the group has
 * executed, or that ran by other means. Only one member (rank 0) calls it for each collective.
 */
FABEMU_API void fabemu_count_in_network(struct fabemu_group *group, enum fabemu_coll coll);
FABEMU_API void fabemu_count_elsewhere(struct fabemu *fab, enum fabemu_coll coll,
                                       enum fabemu_why why);

/**
 * fabemu_time_elsewhere - report to the fabric the duration of one collective that ran by other
 * means. Every member calls it. The library itself records the collectives of groups.
 * @bytes: size of the operation. @ns: duration of the call.
 */
FABEMU_API void fabemu_time_elsewhere(struct fabemu *fab, enum fabemu_coll coll, uint64_t bytes,
                                      uint64_t ns);

#ifdef __cplusplus
}
#endif
#endif
