/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabemu.h - the host interface of a fabemu adapter.
 *
 * A process attaches to a running fabric and gets one node of it. Over that
 * node's adapter it sends and receives messages (queues), writes and reads
 * registered memory of other processes (put, get, atomics), and takes part in
 * groups whose barriers, broadcasts and reductions are done by the network.
 *
 * Every operation is non-blocking: the caller owns a struct fabemu_req, posts,
 * and learns of completion by fabemu_test(), fabemu_wait() or a callback. A
 * thread that waits steps the adapter itself; when no thread does, a thread of
 * the library takes over within milliseconds, so a peer is never held up.
 *
 * Functions return 0 or a negative errno value. All are thread-safe unless they
 * say otherwise. Sizes are bytes, unless a count of elements is asked for. A buffer
 * of no bytes may be NULL; one that is NULL and has bytes is refused with -EFAULT.
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

#define FABEMU_ANY_NODE     UINT32_MAX /* receive: from whichever node */
#define FABEMU_ANY_QUEUE    UINT32_MAX /* receive: from whichever queue of the node */
#define FABEMU_INJECT_BYTES 192        /* fabemu_inject(): largest message */
#define FABEMU_PENDING      1          /* fabemu_req.status of an operation under way */

struct fabemu;       /* an attached adapter */
struct fabemu_queue; /* an endpoint for messages */
struct fabemu_group; /* a member's view of a group */
struct fabemu_event; /* a count of completions that operations may wait for */

#define FABEMU_FOREVER UINT64_MAX /* of a bound: off */

/*
 * How long this library waits for others at most, in milliseconds, or FABEMU_FOREVER. The fabric
 * says: `fabemu run --bound`, see docs/manual.md.
 */
struct fabemu_bounds {
    uint64_t silence_ms;   /* for a peer that must answer */
    uint64_t successor_ms; /* for one who follows a process that has left or died */
    uint64_t leave_ms;     /* fabemu_detach(): for those who have not confirmed all */
    uint64_t farewell_ms;  /* fabemu_detach(): for those who have, and do not answer */
    uint64_t drain_ms;     /* a libfabric endpoint that is closed: for its sends */
    uint64_t detach_ms;    /* fabemu_detach(): for the fabric's answer */
};

/* Who and where a process is in its fabric. */
struct fabemu_info {
    char fabric[64]; /* name of the fabric */
    char topo[64];   /* canonical SPEC */
    char profile[32];
    char clock[16];          /* raw, real */
    uint32_t node;           /* this process's node */
    uint32_t nodes;          /* nodes of the fabric */
    double link_bytes_per_s; /* of the emulated link */
    uint32_t hop_limit;      /* switches on the longest route */
    /* which process of the node: counts those that attached to it, from 1 */
    uint64_t seat;
    uint64_t fabric_id; /* another one at every start of a fabric */
    bool acknowledged;  /* transport=acknowledged: words, conditionals, broadcast puts; and what
                           the network gives up ends with an error */
    struct fabemu_bounds bounds;
};

/*
 * One operation. The caller owns the memory and leaves it alone while pending;
 * zero it before first use, set done and context, then post. Reusable at once
 * after completion; one with done is over only when done was called, which
 * follows the change of status.
 */
struct fabemu_req {
    /* Set by the caller. */
    void (*done)(struct fabemu_req *req); /* NULL, or called once at completion, by whichever thread
                                             steps the adapter, under the adapter's lock: it must be
                                             short, and call nothing of this library */
    void *context;                        /* the caller's */
    struct fabemu_event *event;           /* NULL, or counts this completion */
    /* NULL, or the operation starts when this has counted to */
    struct fabemu_event *after;
    uint64_t threshold; /* ... so much; see below, events. Not for receives */
    uint64_t seat;      /* receives, probes, puts, gets, atomics: only with the process
                           of this seat; 0: see below, lives */

    /* Set by the library; valid once status is no longer FABEMU_PENDING. */
    /* FABEMU_PENDING, 0, or a negative errno: read it with fabemu_req_status() */
    int status;
    uint32_t src_node;  /* receives: who sent it */
    uint32_t src_queue; /* receives: and from which of its queues */
    uint64_t src_seat;  /* receives: and which process of that node it was */
    uint64_t tag;       /* receives: the message's tag */
    uint64_t data;      /* receives: the sender's 64 bits of data */
    uint64_t bytes;     /* receives and probes: length of the message as sent */

    uint64_t opaque[24]; /* the library's */
};

/**
 * fabemu_req_status - status with acquire order: what the operation wrote is visible when it is not
 * FABEMU_PENDING.
 */
static inline int fabemu_req_status(const struct fabemu_req *req)
{
    /* N4 pairs with N3, nic/host/base/complete.c */
    return __atomic_load_n(&req->status, __ATOMIC_ACQUIRE);
}

/**
 * fabemu_req_why - one line about the error that @req has ended with: with -EHOSTUNREACH it names
 * the node that cannot be reached, as it is now; with -EPIPE the node, switch or cable for which
 * its group was broken, as it was then. The request's memory is as the library left it.
 */
FABEMU_API void fabemu_req_why(const struct fabemu *fab, const struct fabemu_req *req, char *text,
                               size_t bytes);

/**
 * fabemu_breaks - how often something under way with @node has broken off, or with any node where
 * that is FABEMU_ANY_NODE: its process went, or was silent, or the network gave a segment up.
 * Whoever sees an operation that failed for that sees it counted. Thread: any.
 */
FABEMU_API uint64_t fabemu_breaks(const struct fabemu *fab, uint32_t node);

/**
 * fabemu_greet - ask whether the process of @node answers: for who waits for it, and has nothing
 * under way with it that could fail. If it does not, within the bound `silence`, or the network
 * gives the question up, fabemu_breaks() counts. Does not block.
 */
FABEMU_API void fabemu_greet(struct fabemu *fab, uint32_t node);

/**
 * fabemu_node_why - one line about what keeps @node from being reached, as it is now. False:
 * nothing that is known.
 */
FABEMU_API bool fabemu_node_why(const struct fabemu *fab, uint32_t node, char *text, size_t bytes);

/**
 * fabemu_losses - how often a segment between the process of @node and any other was lost for good;
 * FABEMU_ANY_NODE: between any two. The fabric tells all, for who is with one of the two may wait
 * for what it does with the other. Thread: any.
 * fabemu_node_lost - one line about the last of them: it names the cable. False: there was none of
 * the process that is at @node, or was there last.
 */
FABEMU_API uint64_t fabemu_losses(const struct fabemu *fab, uint32_t node);
FABEMU_API bool fabemu_node_lost(struct fabemu *fab, uint32_t node, char *text, size_t bytes);

/* --- the adapter -------------------------------------------------------------------- */

/**
 * fabemu_socket - where a fabric's control socket is on this host: @path, or for NULL
 * $FABEMU_SOCKET, with this host's name in the place of %h, since programs on all hosts of a fabric
 * are told the same path. "": no fabric is named. Cut to @bytes. Thread: any.
 */
FABEMU_API void fabemu_socket(const char *path, char *ret, size_t bytes);

/**
 * fabemu_attach - attach this process to a fabric; the node is the process's.
 * @socket_path: the fabric's control socket, as fabemu_socket() takes it; NULL: $FABEMU_SOCKET.
 *
 * Attaching again returns the same adapter with one more reference, so that a
 * libfabric provider and an MPI component in one process share a node.
 * $FABEMU_NODE, or else the rank that an MPI launcher exported (PMIX_RANK,
 * OMPI_COMM_WORLD_RANK), is the node asked for; if it is taken, any free one.
 * Errors: -ENOENT, no fabric named; -ECONNREFUSED, nobody listens there;
 * -EACCES, the fabric is another user's; -ENOSPC, every node is taken (how to
 * get more is printed by fabemu_error()); -EPROTO, another version.
 */
FABEMU_API int fabemu_attach(struct fabemu **ret, const char *socket_path);

/**
 * fabemu_detach - drop a reference; the last one gives the node back. Queues, groups and events
 * must be closed.
 *
 * The last one blocks until all that had completed is where it was to go: the fabric has taken it,
 * and the processes that this one has met have confirmed it. At most bounds.leave_ms (10 s);
 * who has not confirmed it by then is named on stderr, and counted in the fabric's report. A peer
 * that was sent nothing, or has confirmed all of it, and does not answer is waited for
 * bounds.farewell_ms (1 s). What has not completed is given up.
 */
FABEMU_API void fabemu_detach(struct fabemu *fab);

/**
 * fabemu_error - one line about this thread's last failed call that has more to say than its errno;
 * never NULL.
 */
FABEMU_API const char *fabemu_error(void);

/** fabemu_info - who and where this process is; it stays until fabemu_detach(). */
FABEMU_API const struct fabemu_info *fabemu_info(const struct fabemu *fab);

/**
 * fabemu_progress - step the adapter once: bounded, never blocks.
 * Returns the number of segments moved; 0 says that it was idle (or that another
 * thread is stepping it right now), and the caller may want to yield.
 */
FABEMU_API unsigned fabemu_progress(struct fabemu *fab);

/** fabemu_test - step once; true when @req is complete. */
FABEMU_API bool fabemu_test(struct fabemu *fab, struct fabemu_req *req);

/**
 * fabemu_wait - step until @req is complete (spins a little, yields, then sleeps until the fabric
 * rings); returns its status.
 */
FABEMU_API int fabemu_wait(struct fabemu *fab, struct fabemu_req *req);

/**
 * fabemu_abort - have a message, a put or a get over when this returns, done included.
 *
 * What is under way completes with -ECANCELED, and its memory is the caller's
 * again; the peer's side of it ends with -ECANCELED, or goes nowhere. A message
 * that is partly in the fabric is finished instead, which waits for room there.
 * Not for collectives. Returns the status.
 */
FABEMU_API int fabemu_abort(struct fabemu *fab, struct fabemu_req *req);

/**
 * fabemu_idle - give the processor away after an empty fabemu_progress().
 * @rounds: the caller's count of empty rounds in a row. Spins, then yields; then a caller
 * that does nothing but ask naps now and then, for 50 us at most (and the host's timer slack) and
 * until the fabric brings something, so it suits callers who also wait for something else. Where
 * the fabric is of the caller's session, and so gets the processor by a yield, a wait is 50 us old
 * before the first nap, as a rule.
 */
FABEMU_API void fabemu_idle(const struct fabemu *fab, unsigned rounds);

/* --- lives -------------------------------------------------------------------------- */

/*
 * A node is given to one process after another. A process's seat (fabemu_info.seat) tells it from
 * those before and after it on the node, so (node, seat) is an address that is never given again.
 * An operation that names both is with that process and no other. It ends with -EHOSTUNREACH once
 * that process has left or died.
 *
 * An operation that names a node alone is with the process that is attached there when it begins.
 * Where nobody is attached, it is with the first process that comes. If none comes, it ends with
 * -EHOSTUNREACH: within bounds.successor_ms (1 s) where a process has left the node or died there,
 * and within bounds.silence_ms (10 s) where none ever was. It never passes from one process to the
 * next. (A message that has arrived is received whoever is at its sender's node by then.)
 *
 * A process that detaches says goodbye to all that it has met: what either had completed to send by
 * then is with the other. What was said to a process that died may be lost; see fabemu_send().
 */

/* --- queues: messages --------------------------------------------------------------- */

/**
 * fabemu_queue_open - open the queue @id (0 to 65535) of this adapter. Errors: -EADDRINUSE,
 * -ENOMEM.
 */
FABEMU_API int fabemu_queue_open(struct fabemu *fab, uint16_t id, struct fabemu_queue **ret);

/**
 * fabemu_queue_open_any - open a free queue from 256 up, in turn. What was sent to it before is
 * dropped, as by a close.
 */
FABEMU_API int fabemu_queue_open_any(struct fabemu *fab, struct fabemu_queue **ret);

/** fabemu_queue_id - its number on this node, which peers name in struct fabemu_dest. */
FABEMU_API uint16_t fabemu_queue_id(const struct fabemu_queue *queue);

/**
 * fabemu_queue_close - close; pending receives complete with -ECANCELED, unexpected messages are
 * dropped.
 *
 * Who sent one that is dropped before all of it was here gets -ECANCELED, if its send is not
 * complete yet.
 */
FABEMU_API void fabemu_queue_close(struct fabemu_queue *queue);

/* Where a message goes and how the receiver will match it. */
struct fabemu_dest {
    uint32_t node;
    uint16_t queue;
    /*
     * fabemu_send(): complete only when the message is in the receiver's memory. A short one gets
     * there whether a receive is posted or not, a long one when one is.
     */
    bool delivered;
    uint64_t tag;
    uint64_t data; /* handed to the receiver as it is */
    uint64_t seat; /* only to the process of this seat; 0: see above, lives */
};

struct fabemu_iov {
    void *base;
    size_t bytes;
};

/**
 * fabemu_send - send a message; complete when the buffer may be used again.
 * @iov, @iovs: the message, in pieces (at most 4; the array may go away on return).
 *
 * Messages between one pair of queues match in the order in which they were sent. When a send has
 * completed, nothing that its process sends to the same node afterwards arrives before all of it:
 * a receive of the later message that is complete says that the earlier one is, too, if it had a
 * receive posted. (A long message completes when the receiver has all of it; a short one may still
 * be on its way then.) Errors (here or as the request's status): -EINVAL; -EMSGSIZE, beyond 928
 * GiB; -EHOSTUNREACH, no such node, nobody attached there, its process left or died, or the network
 * gave up; -ECANCELED, its receive was given up when part of it had come, or its receiver closed
 * the queue before; -ENOTCONN, the fabric is gone.
 *
 * When the network gives up a segment between two processes, what they have said to each other has
 * a hole. Everything under way between them ends with -EHOSTUNREACH on both sides, receives from
 * that node included; or, where nothing was, the next operation does. Then they meet anew:
 * operations wait until they have, or end with -EHOSTUNREACH. A receive from FABEMU_ANY_NODE stays
 * posted.
 *
 * The same if a process dies that has not confirmed all that was sent to it: if nothing was under
 * way, the next operation ends so that names its node alone, although that may have a successor.
 * One that names the successor does not.
 */
FABEMU_API int fabemu_send(struct fabemu_queue *queue, const struct fabemu_dest *dest,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);

/**
 * fabemu_inject - send up to FABEMU_INJECT_BYTES without a request: @buf is free on return.
 * -EAGAIN: step and try again.
 */
FABEMU_API int fabemu_inject(struct fabemu_queue *queue, const struct fabemu_dest *dest,
                             const void *buf, size_t bytes);

/**
 * fabemu_recv - receive a message into @iov.
 * @node: only from this node, or FABEMU_ANY_NODE.
 * @tag, @ignore: a message matches when (its tag ^ tag) & ~ignore is 0.
 *
 * Receives match in the order in which they were posted. A longer message fills
 * the buffer and completes with -EMSGSIZE, req->bytes its full length. Status
 * -EHOSTUNREACH: the sender, or the process that it waits for, has left or died;
 * -ECANCELED: cancelled, or the sender gave the message up. What a process had sent before it died
 * stays to be received in its order: a message of which a part is missing ends its receive so.
 */
FABEMU_API int fabemu_recv(struct fabemu_queue *queue, uint32_t node, uint64_t tag, uint64_t ignore,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);

/* Whom a message may come from. */
struct fabemu_source {
    uint32_t node;  /* or FABEMU_ANY_NODE */
    uint32_t queue; /* of the sender, or FABEMU_ANY_QUEUE */
};

/** fabemu_recv_from - fabemu_recv(), but from one queue of a node that has several. */
FABEMU_API int fabemu_recv_from(struct fabemu_queue *queue, struct fabemu_source from, uint64_t tag,
                                uint64_t ignore, const struct fabemu_iov *iov, unsigned iovs,
                                struct fabemu_req *req);

/**
 * fabemu_probe - is there an unexpected message that would match? Steps once.
 * @claim: if not NULL, the message is taken out of matching and *claim names it.
 * @req: filled like a receive's (src, tag, data, bytes).
 * Errors: -ENOMSG, none now.
 */
struct fabemu_message;
FABEMU_API int fabemu_probe(struct fabemu_queue *queue, uint32_t node, uint64_t tag,
                            uint64_t ignore, struct fabemu_message **claim, struct fabemu_req *req);

/** fabemu_probe_from - the same, of a message that fabemu_recv_from() would receive. */
FABEMU_API int fabemu_probe_from(struct fabemu_queue *queue, struct fabemu_source from,
                                 uint64_t tag, uint64_t ignore, struct fabemu_message **claim,
                                 struct fabemu_req *req);

/**
 * fabemu_recv_claimed - receive a claimed message. No iov (iovs 0) discards it, which its sender
 * does not learn.
 */
FABEMU_API int fabemu_recv_claimed(struct fabemu_queue *queue, struct fabemu_message *claim,
                                   const struct fabemu_iov *iov, unsigned iovs,
                                   struct fabemu_req *req);

/**
 * fabemu_cancel - cancel a receive that has not matched: completes with -ECANCELED. -ENOENT: too
 * late, it will complete.
 */
FABEMU_API int fabemu_cancel(struct fabemu_queue *queue, struct fabemu_req *req);

/* --- memory: put and get ------------------------------------------------------------ */

#define FABEMU_REMOTE_READ   1u
#define FABEMU_REMOTE_WRITE  2u
#define FABEMU_REMOTE_ATOMIC 4u /* atomics of any kind; see fabemu_atomic() for the others */
#define FABEMU_BY_ADDRESS    8u /* see fabemu_register() */

/**
 * fabemu_register - let peers reach [addr, addr + bytes); *key names it to them.
 * @access: FABEMU_REMOTE_*. With FABEMU_BY_ADDRESS peers name a byte of the region by its address
 * in this process; otherwise by its offset from @addr.
 *
 * NULL with SIZE_MAX is all memory: then the offset is an address, and any process that has the
 * key can crash this one.
 */
FABEMU_API int fabemu_register(struct fabemu *fab, void *addr, size_t bytes, unsigned access,
                               uint64_t *key);

/** fabemu_unregister - the region is no more; transfers under way there end with -EACCES. */
FABEMU_API int fabemu_unregister(struct fabemu *fab, uint64_t key);

/**
 * fabemu_register_event - from now on @event counts what peers write into the region: one for each
 * put, atomic and broadcast put, when all of it is there. NULL: no event any more.
 */
FABEMU_API int fabemu_register_event(struct fabemu *fab, uint64_t key, struct fabemu_event *event);

/**
 * fabemu_put, fabemu_get - move memory to or from @offset of a peer's registered region.
 * Complete when the data is at its destination (a put is acknowledged).
 * Status: -EACCES, the peer has no such region or not with this access; -EHOSTUNREACH.
 */
FABEMU_API int fabemu_put(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                          const void *src, size_t bytes, struct fabemu_req *req);
FABEMU_API int fabemu_get(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                          void *dst, size_t bytes, struct fabemu_req *req);

/**
 * fabemu_putv, fabemu_getv - the same with local memory in pieces (at most 4; the array may go away
 * on return).
 */
FABEMU_API int fabemu_putv(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);
FABEMU_API int fabemu_getv(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);

/* Tells the target process of a put that all bytes of the put are in its memory. */
struct fabemu_notice {
    uint16_t queue;     /* of the target process, which receives notices there */
    uint16_t src_queue; /* the receiver gets it as the sender's queue */
    uint64_t data;      /* the receiver gets it unchanged */
};

/**
 * fabemu_putv_notice - as fabemu_putv(), and when all bytes are in the target's memory, a notice
 * arrives there. Each put with status 0 gives exactly one notice, and a refused put gives none. The
 * put is complete when its notice is in the target's queue.
 * Status: as of fabemu_put(); -EOPNOTSUPP, nothing was written: the target process has no such
 * queue, or has not called fabemu_recv_notice() for it; -ECANCELED or -ENOMEM, the bytes were
 * written and no notice arrived: the target closed the queue meanwhile, or has no memory left;
 * -EHOSTUNREACH, and it is not known whether the put was done.
 */
FABEMU_API int fabemu_putv_notice(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                                  const struct fabemu_iov *iov, unsigned iovs,
                                  const struct fabemu_notice *notice, struct fabemu_req *req);

/**
 * fabemu_recv_notice - receive the next notice that arrives at @queue, from any process. The first
 * call makes this queue take notices; from then on the library keeps notices that arrive while no
 * call waits for one. Notices are received in the order in which they arrived. They never match a
 * message, nor a receive of one.
 * @req: gets src_node, src_queue and src_seat; the notice's data; the put's bytes; tag 0.
 * Status: -ECANCELED, cancelled, or the queue was closed.
 */
FABEMU_API int fabemu_recv_notice(struct fabemu_queue *queue, struct fabemu_req *req);

enum fabemu_atomic_op {
    FABEMU_ATOMIC_ADD, /* wraps around */
    FABEMU_ATOMIC_AND, /* this to FABEMU_ATOMIC_MAX: not for FABEMU_F64 */
    FABEMU_ATOMIC_OR,
    FABEMU_ATOMIC_XOR,
    FABEMU_ATOMIC_MIN,
    FABEMU_ATOMIC_MAX,
    FABEMU_ATOMIC_SWAP,  /* writes the operand */
    FABEMU_ATOMIC_CAS,   /* writes the operand if the word's bits are those of compare */
    FABEMU_ATOMIC_FETCH, /* only reads */
    FABEMU_ATOMIC_OPS
};

struct fabemu_atomic {
    uint32_t node;
    uint64_t key;
    uint64_t offset; /* of a word that lies at a multiple of its size there */
    unsigned op;     /* enum fabemu_atomic_op */
    unsigned type;   /* FABEMU_I32, _U32, _I64, _U64 or _F64 */
    /* of this type; read before fabemu_atomic() returns. NULL: FETCH needs none */
    const void *operand;
    const void *compare; /* likewise; CAS alone needs it */
    void *result;        /* NULL, or where the word's value before goes */
};

/**
 * fabemu_atomic - change one word of a peer's registered region.
 *
 * Done exactly once, whatever the network sends again: it is one of the pair's numbered requests,
 * which the peer's adapter carries out in the order in which they were posted, also after puts of
 * up to FABEMU_INJECT_BYTES without a notice. Atomic with all other adapters' atomics, and with C11
 * atomics of the processes that have the memory mapped (sequentially consistent).
 * Source: QsNet III §III: a sequence number based protocol for atomic operations.
 *
 * Needs FABEMU_REMOTE_ATOMIC, or else _WRITE for what changes the word and _READ for what fetches
 * it. Complete when it is done there. Status: -EACCES; -EINVAL, the word is not aligned;
 * -EHOSTUNREACH, and then nobody knows whether it was done.
 */
FABEMU_API int fabemu_atomic(struct fabemu *fab, const struct fabemu_atomic *what,
                             struct fabemu_req *req);

/** fabemu_atomic_ok - can adapters apply @op to @type? */
FABEMU_API bool fabemu_atomic_ok(unsigned op, unsigned type);

/* --- events: counts of completions -------------------------------------------------- */

/*
 * An event counts completions with status 0: of requests that name it (req->event), of what peers
 * write into a region (fabemu_register_event()), and what the process adds. A request with
 * req->after is armed: its call returns, and the adapter starts it when that event has counted to
 * req->threshold, at once if it has. Then its own event may count, and so on, with no thread of the
 * application at work. What an armed operation sends is read when it starts.
 *
 * A request that fails is not counted: the event fails with its status, and so does all that is
 * armed on it or waits for it.
 *
 * Counts only grow: use thresholds further up again, not the event. Source: QsNet III §IV-A, where
 * collectives run in the adapters by counted events, each starting the next operation.
 */
struct fabemu_event {
    uint64_t count; /* read with fabemu_event_count() */
    int status;     /* 0, or what it failed with */

    uint64_t opaque[9]; /* the library's */
};

/**
 * fabemu_event_count - how far it has counted, with acquire order: what the counted operations
 * wrote is visible.
 */
static inline uint64_t fabemu_event_count(const struct fabemu_event *event)
{
    /* N6 pairs with N5, nic/host/base/complete.c */
    return __atomic_load_n(&event->count, __ATOMIC_ACQUIRE);
}

/**
 * fabemu_event_open - an event in the caller's memory, which stays until it is closed; counts from
 * 0.
 */
FABEMU_API int fabemu_event_open(struct fabemu *fab, struct fabemu_event *event);

/**
 * fabemu_event_close - what is armed on it completes with -ECANCELED; regions forget it. No request
 * under way may name it.
 */
FABEMU_API void fabemu_event_close(struct fabemu_event *event);

/** fabemu_event_add - the process counts @n. */
FABEMU_API int fabemu_event_add(struct fabemu_event *event, uint64_t n);

/**
 * fabemu_event_when - complete @req when @event has counted to @threshold: an operation that does
 * nothing else.
 */
FABEMU_API int fabemu_event_when(struct fabemu_event *event, uint64_t threshold,
                                 struct fabemu_req *req);

/** fabemu_event_wait - step until @event has counted to @threshold (0), or failed. */
FABEMU_API int fabemu_event_wait(struct fabemu_event *event, uint64_t threshold);

/* --- groups: collectives in the network --------------------------------------------- */

/**
 * fabemu_group_create - ask the fabric for a collective address and its tree.
 * @nodes: the members, 2 or more, distinct. One member calls it and hands *id to
 * the others by any means; then every member joins. The tables are in the
 * switches when it returns. Blocks for the fabric manager's answer.
 * Errors: -EINVAL; -ENOSPC, no collective address or combine state is left, or a member holds its
 * share of them; -EHOSTUNREACH, a member is not attached (yet).
 */
FABEMU_API int fabemu_group_create(struct fabemu *fab, const uint32_t *nodes, uint32_t count,
                                   uint32_t *id);

/**
 * fabemu_group_create_wide - the same for operations of many segments (some 16 KB and more).
 *
 * A member may be so far ahead of the others as the group's window is wide: 60 KB, here 480 KB. So
 * large operations wait less for members that have no core at the moment; small ones run better in
 * the other kind, whose states stay in the caches. The address says which it is, so all join alike.
 * Errors: also -ENOSPC where only narrow windows are left.
 */
FABEMU_API int fabemu_group_create_wide(struct fabemu *fab, const uint32_t *nodes, uint32_t count,
                                        uint32_t *id);

/**
 * fabemu_group_join - become a member. @members: count of members, as at creation.
 * Blocks for the fabric manager's answer. A group is over when a member dies, detaches or fails to
 * join before it has left the group: who has joined by then gets -EPIPE from its operations, and
 * leaves.
 * Errors: -ENOENT, there is no such group, or none any more; -EINVAL, it has not so many members;
 * -EALREADY; -ENOMEM.
 */
FABEMU_API int fabemu_group_join(struct fabemu *fab, uint32_t id, uint32_t members,
                                 struct fabemu_group **ret);

/**
 * fabemu_group_break - what is under way in the group ends with -EPIPE, and so does all that begins
 * there, here and soon at all other members: for a member that goes no further, on whom others
 * would wait. Over a network without acknowledgments the fabric tells them, and its answer is
 * waited for. Again: nothing.
 */
FABEMU_API void fabemu_group_break(struct fabemu_group *group);

/**
 * fabemu_group_lost - the node of the member that died, where that is what broke the group and it
 * is known; else FABEMU_ANY_NODE. For who got -EPIPE from an operation.
 */
FABEMU_API uint32_t fabemu_group_lost(const struct fabemu_group *group);

/**
 * fabemu_group_gave_up - the node of the member whose part the network gave up, where that is what
 * broke the group; else FABEMU_ANY_NODE. That member could not reach others, or not all of them.
 */
FABEMU_API uint32_t fabemu_group_gave_up(const struct fabemu_group *group);

/**
 * fabemu_group_broke_off - the node of the member that has broken it off, where that is known; else
 * FABEMU_ANY_NODE: its process has detached or declined before it had left the group, or somebody
 * has called fabemu_group_break() there. Why it did so only it knows. Over a network with
 * acknowledgments such a member is fabemu_group_gave_up()'s, for the others.
 */
FABEMU_API uint32_t fabemu_group_broke_off(const struct fabemu_group *group);

/**
 * fabemu_group_why - one line about what broke the group, where that was the fabric itself: it
 * names the switch, or the cable. False: nothing is known. For who got -EPIPE from an operation.
 */
FABEMU_API bool fabemu_group_why(const struct fabemu_group *group, char *text, size_t bytes);

/**
 * fabemu_group_name - how the program calls the group: where it stands still, the fabric says so by
 * this name. At most 39 bytes of it are kept.
 */
FABEMU_API void fabemu_group_name(struct fabemu_group *group, const char *name);

/**
 * fabemu_group_leave - no operation may be pending. The tree goes when the last member has left or
 * died.
 */
FABEMU_API void fabemu_group_leave(struct fabemu_group *group);

/*
 * Collectives: every member starts the same operations in the same order, any
 * number may be in flight. @op and @type: enum fabemu_op and fabemu_type. For
 * reductions @in may equal @out; otherwise they do not overlap. Floating-point
 * results depend on the order of combining unless the fabric was started with
 * --combine port. Status -EPIPE: a member died, or the network gave up a segment of
 * the group's; then all that follows ends so, at every member.
 * Source: output-queued routers §2, §2.1.
 */

/** fabemu_barrier - complete when all members have begun it. */
FABEMU_API int fabemu_barrier(struct fabemu_group *group, struct fabemu_req *req);

/**
 * fabemu_broadcast - the @bytes at @buf of the member on @root_node get to @buf of all others. All
 * give as many bytes, and the same root.
 */
FABEMU_API int fabemu_broadcast(struct fabemu_group *group, void *buf, size_t bytes,
                                uint32_t root_node, struct fabemu_req *req);

/**
 * fabemu_reduce - combine the members' vectors of @count elements, element by element, in the
 * network. @out: written at the root only, may be NULL elsewhere.
 */
FABEMU_API int fabemu_reduce(struct fabemu_group *group, const void *in, void *out, size_t count,
                             unsigned op, unsigned type, uint32_t root_node,
                             struct fabemu_req *req);

/** fabemu_allreduce - fabemu_reduce(), and every member gets the result. */
FABEMU_API int fabemu_allreduce(struct fabemu_group *group, const void *in, void *out, size_t count,
                                unsigned op, unsigned type, struct fabemu_req *req);

/* The same values as enum emu_op and enum emu_type (static_assert in nic/host/group/coll.c). */
enum fabemu_op {
    FABEMU_SUM,
    FABEMU_MIN,
    FABEMU_MAX,
    FABEMU_PROD,
    /* logical: integers */
    FABEMU_LAND,
    FABEMU_LOR,
    FABEMU_LXOR,
    /* bitwise: integers */
    FABEMU_BAND,
    FABEMU_BOR,
    FABEMU_BXOR,
    FABEMU_MINLOC,
    FABEMU_MAXLOC /* pairs */
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
    FABEMU_F64_F64
};

/** fabemu_reducible - can the switches apply @op to @type? */
FABEMU_API bool fabemu_reducible(unsigned op, unsigned type);

/* --- groups: words and conditionals, broadcast puts --------------------------------- */

/*
 * Each member has FABEMU_WORDS words of a group in its adapter, 0 at first, which only it writes. A
 * conditional asks, in one sweep of the network, whether a word is as wanted at all members.
 * Adapters answer without their processes. So a barrier is: set a word to the next number, then
 * test until all have reached it. Source: QsNet III §IV-A, network conditionals.
 *
 * Errors of all these: -EOPNOTSUPP, the fabric has no acknowledgments (fabemu_info.acknowledged);
 * -EINVAL; status -EPIPE, the group is broken.
 */
#define FABEMU_WORDS 16

#define FABEMU_TEST_EQUAL   0u /* the word is this value */
#define FABEMU_TEST_REACHED 1u /* it has reached it: word - value, modulo 2^64, is below 2^63 */
#define FABEMU_TEST_UNTIL   2u /* added: ask again until it is so; the network does that */

/**
 * fabemu_group_set - write one's own word. A process that learns of the completion from this one
 * finds the word set.
 * @req: NULL, or complete when that is so: at once, unless armed.
 */
FABEMU_API int fabemu_group_set(struct fabemu_group *group, uint32_t word, uint64_t value,
                                struct fabemu_req *req);

/**
 * fabemu_group_test - is @word as wanted at all members?
 * @how: FABEMU_TEST_EQUAL or _REACHED, and _UNTIL. Until: it ends when it is so, with the group, or
 * by fabemu_abort(), which takes it back from the network. Any number may be in flight. Status 0:
 * yes; -EAGAIN: no, or not all could be asked; never of until.
 */
FABEMU_API int fabemu_group_test(struct fabemu_group *group, uint32_t word, uint64_t value,
                                 unsigned how, struct fabemu_req *req);

/**
 * fabemu_register_symmetric - fabemu_register() under a key that is the same at all members.
 *
 * A collective: all members call it, with as many @bytes, in the same order among the group's
 * collectives. Complete when all have registered; *key is written then. The key serves all peers,
 * for put, get and atomics, and fabemu_broadcast_put(). Status: -EINVAL, the members' sizes differ.
 * The region ends by fabemu_unregister(), or when its group is left. On any fabric.
 */
FABEMU_API int fabemu_register_symmetric(struct fabemu_group *group, void *addr, size_t bytes,
                                         unsigned access, uint64_t *key, struct fabemu_req *req);

/**
 * fabemu_broadcast_put - write to @offset of a symmetric region at every member, one's own
 * included.
 *
 * One-sided: any member at any time, several at once; the others post nothing. Complete when the
 * adapters of all members have acknowledged it: a process that learns of that over the fabric
 * finds the bytes in its memory. Its last bytes, at most FABEMU_BROADCAST_LAST_BYTES, are sent when
 * all before them have been acknowledged, so they are the last that are written. @src is the place
 * in one's own region, or lies outside. The regions need FABEMU_REMOTE_WRITE (checked at the source
 * and by each member). What comes for a region that a member has unregistered is dropped there, and
 * the source is not told.
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
    FABEMU_COLLS
};

/**
 * fabemu_call_begin, fabemu_call_end - between these two calls this process exchanges messages to
 * form the group for a collective call of its program. If the run stands still meanwhile, the
 * fabric reports the program's call and communicator instead of the messages. There is one call at
 * a time: a second one replaces the first.
 * @name: of the communicator; at most 39 bytes of it are kept. @members: of the communicator.
 * Any thread.
 */
FABEMU_API void fabemu_call_begin(struct fabemu *fab, enum fabemu_coll coll, const char *name,
                                  uint32_t members);
FABEMU_API void fabemu_call_end(struct fabemu *fab);

/**
 * fabemu_uses - how many calls of fabemu_attach() of this process share @fab and are not detached.
 * Any thread.
 */
FABEMU_API uint32_t fabemu_uses(struct fabemu *fab);

/**
 * fabemu_outside - record in the report that messages of this process do not pass the fabric.
 * @why: one line. Errors: the fabric's. Any thread.
 */
FABEMU_API int fabemu_outside(struct fabemu *fab, const char *why);

/* Why a collective did not run in the switches. */
enum fabemu_why {
    FABEMU_WHY_OP,       /* a user-defined or unsupported operation */
    FABEMU_WHY_TYPE,     /* a derived or unsupported data type */
    FABEMU_WHY_WINDOW,   /* many segments, and no group with a wide window was to be had */
    FABEMU_WHY_GROUP,    /* no group: a member is off the fabric, or no address or state was left */
    FABEMU_WHY_SINGLE,   /* a communicator of one */
    FABEMU_WHY_INTER,    /* an intercommunicator */
    FABEMU_WHY_FINALIZE, /* MPI is shutting down */
    FABEMU_WHY_OFF,      /* switched off by an option */
    FABEMU_WHY_SLOWER,   /* messages were measured to be faster at its size and number of members */
    FABEMU_WHYS
};

/**
 * fabemu_count_in_network, fabemu_count_elsewhere - count one collective, that @group has carried
 * out, or that ran by other means; by one member of each (rank 0).
 */
FABEMU_API void fabemu_count_in_network(struct fabemu_group *group, enum fabemu_coll coll);
FABEMU_API void fabemu_count_elsewhere(struct fabemu *fab, enum fabemu_coll coll,
                                       enum fabemu_why why);

/**
 * fabemu_time_elsewhere - for the report's profile: this process's call of a collective that ran
 * elsewhere, by every member. Of those that a group carries out the library knows itself.
 * @bytes: of the operation. @ns: from the beginning of the call to its end.
 */
FABEMU_API void fabemu_time_elsewhere(struct fabemu *fab, enum fabemu_coll coll, uint64_t bytes,
                                      uint64_t ns);

#ifdef __cplusplus
}
#endif
#endif
