/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabemu.h - the host interface of a fabemu adapter.
 *
 * A process attaches to a running fabric and gets one node of it. Over that node's adapter it sends
 * and receives messages (queues), reads and writes registered memory of other processes (put, get,
 * atomics), and takes part in groups whose barriers, broadcasts and reductions are done by the
 * network.
 *
 * Every operation is non-blocking: the caller owns a struct fabemu_req, posts it, and learns of
 * completion by fabemu_test(), fabemu_wait() or a callback. A thread that waits steps the adapter
 * itself. When no thread does, a thread of the library takes over within milliseconds, so that
 * peers never wait for the application.
 *
 * Functions return 0 or a negative errno value, and are thread-safe, unless they say otherwise.
 * Sizes are in bytes, except counts of elements. A buffer of 0 bytes may be NULL; NULL with a size
 * above 0 is refused with -EFAULT.
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
 * How long this library waits for others at most, in milliseconds, or FABEMU_FOREVER. Set by
 * `fabemu run --bound`, see docs/manual.md.
 */
struct fabemu_bounds {
    uint64_t silence_ms;   /* for a peer that must answer */
    uint64_t successor_ms; /* for the next process on a node whose process has left or died */
    uint64_t leave_ms;     /* fabemu_detach(): for peers that have not confirmed everything */
    uint64_t farewell_ms;  /* fabemu_detach(): for peers that have, but do not answer */
    uint64_t drain_ms;     /* closing a libfabric endpoint: for its sends */
    uint64_t detach_ms;    /* fabemu_detach(): for the fabric's answer */
};

/* A process and its fabric. */
struct fabemu_info {
    char fabric[64]; /* name of the fabric */
    char topo[64];   /* canonical topology SPEC */
    char profile[32];
    char clock[16];          /* raw, real */
    uint32_t node;           /* this process's node */
    uint32_t nodes;          /* number of nodes of the fabric */
    double link_bytes_per_s; /* of the emulated link */
    uint32_t hop_limit;      /* switches on the longest route */
    /* incarnation: this process is the Nth that attached to its node, N from 1 */
    uint64_t incarnation;
    uint64_t fabric_id; /* differs at every start of a fabric */
    /* transport=acknowledged: words, conditionals and broadcast puts work; an operation whose
       segment the network drops for good ends with an error */
    bool acknowledged;
    struct fabemu_bounds bounds;
};

/*
 * One operation. The caller owns the memory and must not touch it while the operation is pending.
 * Zero it before the first use, set done and context, then post. It may be reused right after
 * completion; with done set, only after done was called, which follows the change of status.
 */
struct fabemu_req {
    /* Set by the caller. */
    /* NULL, or called once at completion, by the thread that steps the adapter and under the
       adapter's lock: it must be short and must not call this library */
    void (*done)(struct fabemu_req *req);
    void *context;              /* for the caller's use */
    struct fabemu_event *event; /* NULL, or the event that counts this completion */
    /* NULL, or the operation starts when this event reaches threshold; see "events" below. Not for
       receives */
    struct fabemu_event *after;
    uint64_t threshold;
    /* receives, probes, puts, gets, atomics: only with this incarnation of the node; 0: see
       "incarnations" below */
    uint64_t incarnation;

    /* Set by the library; valid once status is no longer FABEMU_PENDING. */
    /* FABEMU_PENDING, 0, or a negative errno: read it with fabemu_req_status() */
    int status;
    uint32_t src_node;        /* receives: the sender's node */
    uint32_t src_queue;       /* receives: the sender's queue */
    uint64_t src_incarnation; /* receives: the sender's incarnation */
    uint64_t tag;             /* receives: the message's tag */
    uint64_t data;            /* receives: 64 bits that the sender chose */
    uint64_t bytes;           /* receives and probes: length of the whole message */

    uint64_t opaque[24]; /* for the library's use */
};

/**
 * fabemu_req_status - status with acquire order: unless it is FABEMU_PENDING, everything that the
 * operation wrote is visible.
 */
static inline int fabemu_req_status(const struct fabemu_req *req)
{
    /* N4 pairs with N3 in nic/host/base/complete.c. */
    return __atomic_load_n(&req->status, __ATOMIC_ACQUIRE);
}

/**
 * fabemu_req_why - print one line about the error with which @req ended. For -EHOSTUNREACH it says
 * why the node cannot be reached now; for -EPIPE, which node, switch or cable broke the group then.
 * Call it before the request is reused.
 */
FABEMU_API void fabemu_req_why(const struct fabemu *fab, const struct fabemu_req *req, char *text,
                               size_t bytes);

/**
 * fabemu_breaks - how often operations with @node, or with any node (FABEMU_ANY_NODE), were broken
 * off: its process left or died, did not answer, or the network dropped a segment for good. A
 * caller that sees an operation fail for such a reason sees it counted. Thread: any.
 */
FABEMU_API uint64_t fabemu_breaks(const struct fabemu *fab, uint32_t node);

/**
 * fabemu_ping - check that the process of @node answers. For a caller that waits for that process
 * and has no operation under way with it that could fail. If no answer comes within the bound
 * `silence`, or the network drops the query, fabemu_breaks() increases. Does not block.
 */
FABEMU_API void fabemu_ping(struct fabemu *fab, uint32_t node);

/**
 * fabemu_node_why - print one line about why @node cannot be reached now. Returns false if no
 * reason is known.
 */
FABEMU_API bool fabemu_node_why(const struct fabemu *fab, uint32_t node, char *text, size_t bytes);

/**
 * fabemu_drops - how often an unrecoverable drop hit a segment between the process of @node and
 * any other process; FABEMU_ANY_NODE: between any two processes. The fabric reports drops to all
 * processes, because a third process may wait for the two. Thread: any.
 * fabemu_drop_why - print one line about the last of these drops, naming the cable. Returns false
 * if there was none for the process that is, or last was, at @node.
 */
FABEMU_API uint64_t fabemu_drops(const struct fabemu *fab, uint32_t node);
FABEMU_API bool fabemu_drop_why(struct fabemu *fab, uint32_t node, char *text, size_t bytes);

/* --- the adapter -------------------------------------------------------------------- */

/**
 * fabemu_socket - the path of a fabric's control socket on this host. @path: NULL for
 * $FABEMU_SOCKET. "%h" in it is replaced by this host's name, because programs on all hosts of a
 * fabric get the same path. @ret: "" if no fabric is named; cut to @bytes. Thread: any.
 */
FABEMU_API void fabemu_socket(const char *path, char *ret, size_t bytes);

/**
 * fabemu_attach - attach this process to a fabric and get a node.
 * @socket_path: the fabric's control socket, as for fabemu_socket(); NULL: $FABEMU_SOCKET.
 *
 * Attaching again returns the same adapter with one more reference, so that a libfabric provider
 * and an MPI component in one process share a node. The node requested is $FABEMU_NODE, or else the
 * rank that an MPI launcher exported (PMIX_RANK, OMPI_COMM_WORLD_RANK); if it is taken, any free
 * node. Errors: -ENOENT, no fabric named; -ECONNREFUSED, nobody listens on the socket; -EACCES, the
 * fabric belongs to another user; -ENOSPC, every node is taken (fabemu_error() says how to get
 * more); -EPROTO, another version.
 */
FABEMU_API int fabemu_attach(struct fabemu **ret, const char *socket_path);

/**
 * fabemu_detach - drop a reference; the last one gives the node back. Queues, groups and events
 * must be closed first.
 *
 * Dropping the last reference blocks until all completed operations have reached their destination:
 * the fabric has taken their segments and every peer has confirmed them. It blocks for at most
 * bounds.leave_ms (10 s). A peer that has not confirmed by then is named on stderr and counted in
 * the fabric's report. A peer that was sent nothing, or has confirmed everything, and does not
 * answer, is waited for only bounds.farewell_ms (1 s). Operations that have not completed are
 * abandoned.
 */
FABEMU_API void fabemu_detach(struct fabemu *fab);

/**
 * fabemu_error - one line about the last failed call of this thread that gave more detail than its
 * errno; never NULL.
 */
FABEMU_API const char *fabemu_error(void);

/** fabemu_info - this process and its fabric; valid until fabemu_detach(). */
FABEMU_API const struct fabemu_info *fabemu_info(const struct fabemu *fab);

/**
 * fabemu_progress - step the adapter once. Bounded; never blocks. Returns the number of segments
 * moved. 0: the adapter was idle, or another thread is stepping it; the caller may want to yield.
 */
FABEMU_API unsigned fabemu_progress(struct fabemu *fab);

/** fabemu_test - step the adapter once; return true if @req is complete. */
FABEMU_API bool fabemu_test(struct fabemu *fab, struct fabemu_req *req);

/**
 * fabemu_wait - step until @req is complete: spin a little, yield, then sleep until the fabric
 * wakes us. Returns the status.
 */
FABEMU_API int fabemu_wait(struct fabemu *fab, struct fabemu_req *req);

/**
 * fabemu_abort - cancel a message, put or get. It is complete, and done was called, when this
 * returns.
 *
 * A pending operation completes with -ECANCELED and its memory belongs to the caller again. The
 * peer's operation ends with -ECANCELED too, or its data is discarded. A message that is partly in
 * the fabric is finished instead, which may wait for space in the up ring. Not for collectives.
 * Returns the status.
 */
FABEMU_API int fabemu_abort(struct fabemu *fab, struct fabemu_req *req);

/**
 * fabemu_idle - give the processor away after an empty fabemu_progress().
 * @rounds: how many empty rounds the caller has seen in a row. Spins first, then yields. A caller
 * that only polls then sleeps now and then: at most 50 us (plus the host's timer slack), or until a
 * segment arrives. So this also suits callers that wait for something else. If the fabric is in the
 * caller's session, where a yield gives it the processor, the first sleep usually comes after 50
 * us.
 */
FABEMU_API void fabemu_idle(const struct fabemu *fab, unsigned rounds);

/* --- incarnations ------------------------------------------------------------------- */

/*
 * A node is given to one process after another. Each is an incarnation of the node; its number
 * (fabemu_info.incarnation) distinguishes it from earlier and later ones, so (node, incarnation) is
 * an address that is never reused.
 *
 * An operation that names both is with that process only. It ends with -EHOSTUNREACH once that
 * process has left or died.
 *
 * An operation that names only a node is with the process that is attached there when it starts, or
 * else with the first process that attaches. If none does, it ends with -EHOSTUNREACH: within
 * bounds.successor_ms (1 s) if a process has left the node or died there, and within
 * bounds.silence_ms (10 s) if nobody was ever there. It never passes from one process to the next.
 * (A message that has arrived can be received whoever is at its sender's node by then.)
 *
 * A process that detaches disconnects from all its peers: everything that either side had completed
 * sending by then is delivered. Data sent to a process that died may be lost; see fabemu_send().
 */

/* --- queues: messages --------------------------------------------------------------- */

/**
 * fabemu_queue_open - open queue @id (0 to 65535) of this adapter. Errors: -EADDRINUSE, -ENOMEM.
 */
FABEMU_API int fabemu_queue_open(struct fabemu *fab, uint16_t id, struct fabemu_queue **ret);

/**
 * fabemu_queue_open_any - open a free queue, round robin from 256 up. Messages that were sent to it
 * before are dropped, as by a close.
 */
FABEMU_API int fabemu_queue_open_any(struct fabemu *fab, struct fabemu_queue **ret);

/** fabemu_queue_id - the queue's number on this node, which peers put into struct fabemu_dest. */
FABEMU_API uint16_t fabemu_queue_id(const struct fabemu_queue *queue);

/**
 * fabemu_queue_close - close. Pending receives complete with -ECANCELED; unexpected messages are
 * dropped. The sender of a message that had not arrived completely gets -ECANCELED, if its send is
 * not complete yet.
 */
FABEMU_API void fabemu_queue_close(struct fabemu_queue *queue);

/* Where a message goes, and what the receiver matches. */
struct fabemu_dest {
    uint32_t node;
    uint16_t queue;
    /*
     * fabemu_send(): complete only when the message is in the receiver's memory. A short message
     * gets there without a posted receive; a long one needs a receive.
     */
    bool delivered;
    uint64_t tag;
    uint64_t data;        /* passed to the receiver unchanged */
    uint64_t incarnation; /* only to this incarnation; 0: see "incarnations" above */
};

struct fabemu_iov {
    void *base;
    size_t bytes;
};

/**
 * fabemu_send - send a message; complete when the buffer may be reused.
 * @iov, @iovs: the message in pieces (at most 4; the array may be freed on return).
 *
 * Messages between one pair of queues match in the order in which they were sent. When a send has
 * completed, nothing that its process sends to the same node afterwards arrives before all of it:
 * once a receive of a later message completes, the receive of the earlier one (if posted) is
 * complete, too. (A long message completes when the receiver has all of it; a short one may still
 * be on its way.)
 *
 * Errors (returned, or as the request's status): -EINVAL; -EMSGSIZE, beyond 928 GiB; -EHOSTUNREACH,
 * no such node, nobody attached there, its process left or died, or the network dropped the
 * message; -ECANCELED, the receive was cancelled when part of the message had arrived, or the
 * receiver closed the queue before that; -ENOTCONN, the fabric is gone.
 *
 * When the network drops a segment between two processes for good, their streams have a gap. All
 * operations under way between the two end with -EHOSTUNREACH on both sides, including receives
 * from that node. If there were none, the next operation ends so. Then the processes handshake
 * again; operations wait for that, or end with -EHOSTUNREACH. A receive from FABEMU_ANY_NODE stays
 * posted.
 *
 * The same happens if a process dies before it has confirmed everything that was sent to it. If
 * nothing was under way, the next operation that names only the node ends so, although the node may
 * have a new process; an operation that names the new incarnation does not.
 */
FABEMU_API int fabemu_send(struct fabemu_queue *queue, const struct fabemu_dest *dest,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);

/**
 * fabemu_inject - send up to FABEMU_INJECT_BYTES without a request: @buf may be reused on return.
 * Errors: as fabemu_send(); -EAGAIN, step and try again.
 */
FABEMU_API int fabemu_inject(struct fabemu_queue *queue, const struct fabemu_dest *dest,
                             const void *buf, size_t bytes);

/**
 * fabemu_recv - receive a message into @iov.
 * @node: only from this node, or FABEMU_ANY_NODE.
 * @tag, @ignore: a message matches when (its tag ^ tag) & ~ignore is 0.
 *
 * Receives match in the order in which they were posted. A message that is too long fills the
 * buffer and completes with -EMSGSIZE; req->bytes is its full length. Status -EHOSTUNREACH: the
 * sender, or the process that this receive waits for, has left or died. -ECANCELED: cancelled, or
 * the sender cancelled the message. Messages that a process sent before it died can still be
 * received in order; a receive that matches an incomplete one ends with -EHOSTUNREACH.
 */
FABEMU_API int fabemu_recv(struct fabemu_queue *queue, uint32_t node, uint64_t tag, uint64_t ignore,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);

/* Where a message may come from. */
struct fabemu_source {
    uint32_t node;  /* or FABEMU_ANY_NODE */
    uint32_t queue; /* of the sender, or FABEMU_ANY_QUEUE */
};

/** fabemu_recv_from - fabemu_recv() from one queue of a node that has several. */
FABEMU_API int fabemu_recv_from(struct fabemu_queue *queue, struct fabemu_source from, uint64_t tag,
                                uint64_t ignore, const struct fabemu_iov *iov, unsigned iovs,
                                struct fabemu_req *req);

/**
 * fabemu_probe - step once and look for an unexpected message that matches.
 * @claim: if not NULL, the message leaves matching and *claim names it.
 * @req: filled like that of a receive (src, tag, data, bytes).
 * Errors: -ENOMSG, there is none now.
 */
struct fabemu_message;
FABEMU_API int fabemu_probe(struct fabemu_queue *queue, uint32_t node, uint64_t tag,
                            uint64_t ignore, struct fabemu_message **claim, struct fabemu_req *req);

/** fabemu_probe_from - the same for a message that fabemu_recv_from() would receive. */
FABEMU_API int fabemu_probe_from(struct fabemu_queue *queue, struct fabemu_source from,
                                 uint64_t tag, uint64_t ignore, struct fabemu_message **claim,
                                 struct fabemu_req *req);

/**
 * fabemu_recv_claimed - receive a claimed message. No iov (iovs 0) discards it without notifying
 * the sender.
 */
FABEMU_API int fabemu_recv_claimed(struct fabemu_queue *queue, struct fabemu_message *claim,
                                   const struct fabemu_iov *iov, unsigned iovs,
                                   struct fabemu_req *req);

/**
 * fabemu_cancel - cancel a receive that has not matched: it completes with -ECANCELED. Errors:
 * -ENOENT, it has matched and will complete.
 */
FABEMU_API int fabemu_cancel(struct fabemu_queue *queue, struct fabemu_req *req);

/* --- memory: put and get ------------------------------------------------------------ */

#define FABEMU_REMOTE_READ   1u
#define FABEMU_REMOTE_WRITE  2u
#define FABEMU_REMOTE_ATOMIC 4u /* any atomic; see fabemu_atomic() for what the other bits allow */
#define FABEMU_BY_ADDRESS    8u /* see fabemu_register() */

/**
 * fabemu_register - let peers access [addr, addr + bytes); they name it by *key.
 * @access: FABEMU_REMOTE_*. With FABEMU_BY_ADDRESS peers name a byte of the region by its address
 * in this process; otherwise by its offset from @addr.
 *
 * NULL with SIZE_MAX registers all memory: then the offset is an address, and any process that has
 * the key can crash this one.
 */
FABEMU_API int fabemu_register(struct fabemu *fab, void *addr, size_t bytes, unsigned access,
                               uint64_t *key);

/** fabemu_unregister - remove the region; transfers under way there end with -EACCES. */
FABEMU_API int fabemu_unregister(struct fabemu *fab, uint64_t key);

/**
 * fabemu_register_event - @event counts each put, atomic and broadcast put that a peer completes in
 * the region. NULL: stop counting.
 */
FABEMU_API int fabemu_register_event(struct fabemu *fab, uint64_t key, struct fabemu_event *event);

/**
 * fabemu_put, fabemu_get - copy memory to or from @offset of a peer's registered region. Complete
 * when the data is at its destination (a put is acknowledged).
 * Status: -EACCES, the peer has no such region or not with this access; -EHOSTUNREACH.
 */
FABEMU_API int fabemu_put(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                          const void *src, size_t bytes, struct fabemu_req *req);
FABEMU_API int fabemu_get(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                          void *dst, size_t bytes, struct fabemu_req *req);

/**
 * fabemu_putv, fabemu_getv - the same with local memory in pieces (at most 4; the array may be
 * freed on return).
 */
FABEMU_API int fabemu_putv(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);
FABEMU_API int fabemu_getv(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                           const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req);

/* Notifies the target process of a put that all its bytes are in memory. */
struct fabemu_notice {
    uint16_t queue;     /* of the target process; it receives notices there */
    uint16_t src_queue; /* the receiver gets it as the sender's queue */
    uint64_t data;      /* the receiver gets it unchanged */
};

/**
 * fabemu_putv_notice - as fabemu_putv(), and when all bytes are in the target's memory, a notice
 * arrives there. Each put with status 0 causes exactly one notice; a refused put causes none. The
 * put is complete when its notice is in the target's queue.
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
 * call makes the queue accept notices; from then on the library keeps notices that arrive while no
 * call waits for one. Notices are received in the order of arrival. They never match a message or a
 * receive of one.
 * @req: gets src_node, src_queue and src_incarnation; the notice's data; the put's bytes; tag 0.
 * Status: -ECANCELED, cancelled, or the queue was closed.
 */
FABEMU_API int fabemu_recv_notice(struct fabemu_queue *queue, struct fabemu_req *req);

enum fabemu_atomic_op {
    FABEMU_ATOMIC_ADD, /* wraps around */
    FABEMU_ATOMIC_AND, /* AND to MAX: not for FABEMU_F64 */
    FABEMU_ATOMIC_OR,
    FABEMU_ATOMIC_XOR,
    FABEMU_ATOMIC_MIN,
    FABEMU_ATOMIC_MAX,
    FABEMU_ATOMIC_SWAP,  /* writes the operand */
    FABEMU_ATOMIC_CAS,   /* writes the operand if the word has the bits of compare */
    FABEMU_ATOMIC_FETCH, /* only reads */
    FABEMU_ATOMIC_OPS
};

struct fabemu_atomic {
    uint32_t node;
    uint64_t key;
    uint64_t offset; /* of a word that is aligned to its size in the peer's memory */
    unsigned op;     /* enum fabemu_atomic_op */
    unsigned type;   /* FABEMU_I32, _U32, _I64, _U64 or _F64 */
    /* of this type, read before fabemu_atomic() returns; NULL for FETCH */
    const void *operand;
    const void *compare; /* likewise; only for CAS */
    void *result;        /* NULL, or receives the word's previous value */
};

/**
 * fabemu_atomic - change one word of a peer's registered region.
 *
 * Done exactly once, even if the network repeats segments: it is one of the pair's numbered
 * requests, which the peer's adapter executes in the order in which they were posted, also after
 * puts of up to FABEMU_INJECT_BYTES without a notice. Atomic with the atomics of all other
 * adapters, and with C11 atomics of processes that have the memory mapped (sequentially
 * consistent).
 * Source: QsNet III §III, a sequence number based protocol for atomic operations.
 *
 * Needs FABEMU_REMOTE_ATOMIC; or else _WRITE to change the word and _READ to fetch it. Complete
 * when it is done at the peer. Status: -EACCES; -EINVAL, the word is not aligned; -EHOSTUNREACH, it
 * is unknown whether it was done.
 */
FABEMU_API int fabemu_atomic(struct fabemu *fab, const struct fabemu_atomic *what,
                             struct fabemu_req *req);

/** fabemu_atomic_ok - can adapters apply @op to @type? */
FABEMU_API bool fabemu_atomic_ok(unsigned op, unsigned type);

/* --- events: counts of completions -------------------------------------------------- */

/*
 * An event counts completions with status 0: of requests that name it (req->event), of peers'
 * writes to a region (fabemu_register_event()), and what the process adds. A request with
 * req->after is armed: its call returns, and the adapter starts it when that event has reached
 * req->threshold, which may be at once. Its own event may then count, and so on, without a thread
 * of the application. The data of an armed operation is read when it starts.
 *
 * A request that fails is not counted: the event fails with its status, and so do all operations
 * that are armed on it or wait for it.
 *
 * Counts only grow: to use an event again, use higher thresholds. Source: QsNet III §IV-A, where
 * collectives run in the adapters by counted events, each starting the next operation.
 */
struct fabemu_event {
    uint64_t count; /* read with fabemu_event_count() */
    int status;     /* 0, or the error with which it failed */

    uint64_t opaque[9]; /* for the library's use */
};

/**
 * fabemu_event_count - the count with acquire order: everything that the counted operations wrote
 * is visible.
 */
static inline uint64_t fabemu_event_count(const struct fabemu_event *event)
{
    /* N6 pairs with N5 in nic/host/base/complete.c. */
    return __atomic_load_n(&event->count, __ATOMIC_ACQUIRE);
}

/**
 * fabemu_event_open - create an event with count 0 in the caller's memory, which must stay valid
 * until the event is closed.
 */
FABEMU_API int fabemu_event_open(struct fabemu *fab, struct fabemu_event *event);

/**
 * fabemu_event_close - operations that are armed on the event complete with -ECANCELED; regions
 * stop counting. No pending request may name it.
 */
FABEMU_API void fabemu_event_close(struct fabemu_event *event);

/** fabemu_event_add - add @n to the count. */
FABEMU_API int fabemu_event_add(struct fabemu_event *event, uint64_t n);

/**
 * fabemu_event_when - an operation that does nothing but complete @req when @event reaches
 * @threshold.
 */
FABEMU_API int fabemu_event_when(struct fabemu_event *event, uint64_t threshold,
                                 struct fabemu_req *req);

/** fabemu_event_wait - step until @event reaches @threshold (returns 0) or fails. */
FABEMU_API int fabemu_event_wait(struct fabemu_event *event, uint64_t threshold);

/* --- groups: collectives in the network --------------------------------------------- */

/**
 * fabemu_group_create - ask the fabric for a collective address and its tree.
 * @nodes: the members, 2 or more, distinct. One member calls this and sends *id to the others by
 * any means; then every member joins. When it returns, the switches have their tables. Blocks for
 * the answer of the fabric's manager.
 * Errors: -EINVAL; -ENOSPC, no collective address or combine state is left, or a member has used up
 * its share of them; -EHOSTUNREACH, a member is not attached (yet).
 */
FABEMU_API int fabemu_group_create(struct fabemu *fab, const uint32_t *nodes, uint32_t count,
                                   uint32_t *id);

/**
 * fabemu_group_create_wide - the same for operations of many segments (about 16 KB and more).
 *
 * The window limits how far a member may run ahead of the others: 60 KB, here 480 KB. With a wide
 * window, large operations wait less for members that have no core at the moment. Small ones run
 * better with a narrow one, whose states stay in the caches. The address says which it is, so that
 * all members join alike.
 * Errors: also -ENOSPC if only narrow windows are left.
 */
FABEMU_API int fabemu_group_create_wide(struct fabemu *fab, const uint32_t *nodes, uint32_t count,
                                        uint32_t *id);

/**
 * fabemu_group_join - become a member. @members: the number of members, as at creation. Blocks for
 * the answer of the fabric's manager. A group breaks when a member dies, detaches, or fails to
 * join, before it has left the group: members that have joined get -EPIPE from their operations and
 * must leave.
 * Errors: -ENOENT, there is no such group (any more); -EINVAL, another number of members;
 * -EALREADY; -ENOMEM.
 */
FABEMU_API int fabemu_group_join(struct fabemu *fab, uint32_t id, uint32_t members,
                                 struct fabemu_group **ret);

/**
 * fabemu_group_break - break the group: pending and new operations end with -EPIPE, here and soon
 * at all other members. For a member that cannot continue and for which others would wait. Over a
 * network without acknowledgments the fabric notifies the others, and this call waits for its
 * answer. Calling it again does nothing.
 */
FABEMU_API void fabemu_group_break(struct fabemu_group *group);

/**
 * fabemu_group_dead_node - the node of the member whose death broke the group; FABEMU_ANY_NODE if
 * it broke otherwise or the node is unknown. Call it after an operation has ended with -EPIPE.
 */
FABEMU_API uint32_t fabemu_group_dead_node(const struct fabemu_group *group);

/**
 * fabemu_group_gave_up - the node of the member whose dropped segment broke the group, so that it
 * could not reach all others; else FABEMU_ANY_NODE.
 */
FABEMU_API uint32_t fabemu_group_gave_up(const struct fabemu_group *group);

/**
 * fabemu_group_broke_off - the node of the member that broke the group, if known; else
 * FABEMU_ANY_NODE: its process has detached or declined before it had left the group, or has called
 * fabemu_group_break(). Only that member knows why. Over a network with acknowledgments the other
 * members see it as fabemu_group_gave_up().
 */
FABEMU_API uint32_t fabemu_group_broke_off(const struct fabemu_group *group);

/**
 * fabemu_group_why - print one line about the switch or cable whose failure broke the group.
 * Returns false if the fabric did not break it. Call it after an operation has ended with -EPIPE.
 */
FABEMU_API bool fabemu_group_why(const struct fabemu_group *group, char *text, size_t bytes);

/**
 * fabemu_group_name - the name by which the fabric reports the group if it hangs. At most 39 bytes
 * are kept.
 */
FABEMU_API void fabemu_group_name(struct fabemu_group *group, const char *name);

/**
 * fabemu_group_leave - no operation may be pending. The tree is removed when the last member has
 * left or died.
 */
FABEMU_API void fabemu_group_leave(struct fabemu_group *group);

/*
 * Collectives: every member starts the same operations in the same order; any number may be in
 * flight. @op and @type: enum fabemu_op and fabemu_type. For reductions @in may equal @out;
 * otherwise they must not overlap. Floating-point results depend on the order of combining unless
 * the fabric was started with --combine port. Status -EPIPE: a member died, or the network dropped
 * a segment of the group; then all later operations end so, at every member.
 * Source: output-queued routers §2, §2.1.
 */

/** fabemu_barrier - complete when all members have started it. */
FABEMU_API int fabemu_barrier(struct fabemu_group *group, struct fabemu_req *req);

/**
 * fabemu_broadcast - copy the @bytes at @buf of the member on @root_node to @buf of all others. All
 * members pass the same @bytes and root.
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

/** fabemu_allreduce - as fabemu_reduce(), but every member gets the result. */
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
 * Each member has FABEMU_WORDS words of a group in its adapter, initially 0, which only it writes.
 * A conditional checks, in one sweep of the network, whether a word has a value at all members. The
 * adapters answer without their processes. So a barrier is: set a word to the next number, then
 * test until all members have reached it. Source: QsNet III §IV-A, network conditionals.
 *
 * Errors of all these: -EOPNOTSUPP, the fabric has no acknowledgments (fabemu_info.acknowledged);
 * -EINVAL; status -EPIPE, the group is broken.
 */
#define FABEMU_WORDS 16

#define FABEMU_TEST_EQUAL   0u /* the word is this value */
#define FABEMU_TEST_REACHED 1u /* word - value, modulo 2^64, is below 2^63 */
/* or-ed with one of these: the network repeats the test until it is true */
#define FABEMU_TEST_UNTIL 2u

/**
 * fabemu_group_set - write one of this member's own words. A process that learns of the completion
 * from this one finds the word set.
 * @req: NULL, or completes when the word is set: at once, unless armed.
 */
FABEMU_API int fabemu_group_set(struct fabemu_group *group, uint32_t word, uint64_t value,
                                struct fabemu_req *req);

/**
 * fabemu_group_test - does @word have the value at all members?
 * @how: FABEMU_TEST_EQUAL or _REACHED, with or without _UNTIL. With _UNTIL it ends when it is true,
 * when the group breaks, or by fabemu_abort(), which removes it from the network. Any number may be
 * in flight. Status: 0, yes; -EAGAIN, no, or not all members could be asked (never with _UNTIL).
 */
FABEMU_API int fabemu_group_test(struct fabemu_group *group, uint32_t word, uint64_t value,
                                 unsigned how, struct fabemu_req *req);

/**
 * fabemu_register_symmetric - fabemu_register() under a key that is the same at all members.
 *
 * A collective: all members call it, with the same @bytes, in the same order among the group's
 * collectives. Complete when all have registered; *key is written then. All peers can use the key,
 * for put, get, atomics and fabemu_broadcast_put(). Status: -EINVAL, the members' sizes differ. The
 * region ends by fabemu_unregister(), or when its group is left. Works on any fabric.
 */
FABEMU_API int fabemu_register_symmetric(struct fabemu_group *group, void *addr, size_t bytes,
                                         unsigned access, uint64_t *key, struct fabemu_req *req);

/**
 * fabemu_broadcast_put - write to @offset of a symmetric region at every member, including this
 * one.
 *
 * One-sided: any member may call it at any time, several at once; the others post nothing. Complete
 * when the adapters of all members have acknowledged it: a process that learns of that over the
 * fabric finds the bytes in its memory. The last bytes, at most FABEMU_BROADCAST_LAST_BYTES, are
 * sent after all others have been acknowledged, so they are written last. @src is the same range of
 * this member's own region, or lies outside the region. The regions need FABEMU_REMOTE_WRITE
 * (checked at the source and by each member). A member that has unregistered its region drops the
 * bytes, and the source is not notified.
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
 * form the group for a collective call of its program. If the run hangs meanwhile, the fabric
 * reports the program's call and communicator instead of the messages. There is one call at a time:
 * a second one replaces the first.
 * @name: of the communicator; at most 39 bytes are kept. @members: of the communicator. Thread:
 * any.
 */
FABEMU_API void fabemu_call_begin(struct fabemu *fab, enum fabemu_coll coll, const char *name,
                                  uint32_t members);
FABEMU_API void fabemu_call_end(struct fabemu *fab);

/**
 * fabemu_uses - how many calls of fabemu_attach() of this process share @fab and are not detached.
 * Thread: any.
 */
FABEMU_API uint32_t fabemu_uses(struct fabemu *fab);

/**
 * fabemu_outside - record in the report that messages of this process bypass the fabric.
 * @why: one line. Errors: those of the fabric. Thread: any.
 */
FABEMU_API int fabemu_outside(struct fabemu *fab, const char *why);

/* Why a collective did not run in the switches. */
enum fabemu_why {
    FABEMU_WHY_OP,       /* a user-defined or unsupported operation */
    FABEMU_WHY_TYPE,     /* a derived or unsupported data type */
    FABEMU_WHY_WINDOW,   /* many segments, and no group with a wide window was available */
    FABEMU_WHY_GROUP,    /* no group: a member is off the fabric, or no address or state was left */
    FABEMU_WHY_SINGLE,   /* a communicator with one member */
    FABEMU_WHY_INTER,    /* an intercommunicator */
    FABEMU_WHY_FINALIZE, /* MPI is shutting down */
    FABEMU_WHY_OFF,      /* disabled by an option */
    FABEMU_WHY_SLOWER, /* messages were measured to be faster for this size and number of members */
    FABEMU_WHYS
};

/**
 * fabemu_count_in_network, fabemu_count_elsewhere - count one collective that @group executed, or
 * that ran by other means. One member calls it per collective (rank 0).
 */
FABEMU_API void fabemu_count_in_network(struct fabemu_group *group, enum fabemu_coll coll);
FABEMU_API void fabemu_count_elsewhere(struct fabemu *fab, enum fabemu_coll coll,
                                       enum fabemu_why why);

/**
 * fabemu_time_elsewhere - for the report's profile: this process's call of a collective that ran by
 * other means. Every member calls it. The library itself records the collectives of groups.
 * @bytes: of the operation. @ns: duration of the call.
 */
FABEMU_API void fabemu_time_elsewhere(struct fabemu *fab, enum fabemu_coll coll, uint64_t bytes,
                                      uint64_t ns);

#ifdef __cplusplus
}
#endif
#endif
