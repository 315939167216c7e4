/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.h - pending operations, and the table of their ids.
 *
 * An operation of the application is stored in its request until the request completes. An
 * operation that serves a peer's put or get belongs to the adapter. A segment names an operation by
 * an id. CTS, FIN, RESULT and DATA are kinds of segments (wire.h).
 * Lock: the caller holds the adapter's lock (lock.h), except for the functions nic_*_check().
 */
#ifndef NIC_OP_H
#define NIC_OP_H

#include "emu/hostif/calls.h"
#include "emu/util/now.h"
#include "nic/host/base/complete.h"

#define NIC_IOVS       4
#define NIC_OPS_MAX    (1u << 20) /* operations with an id; an index has 20 bits */
#define NIC_SERVED_MAX (1u << 16) /* at most this many operations serve peers */

enum nic_op_state {
    NIC_OP_IDLE,    /* the operation has ended */
    NIC_OP_ARMED,   /* waits for its event, or is about to start */
    NIC_OP_QUEUED,  /* is a request; none of its segments has been sent */
    NIC_OP_EAGER,   /* a message, put, atomic or batch; some of its segments have been sent */
    NIC_OP_WAITING, /* waits for the peer's CTS, FIN, RESULT or DATA, or for the network */
    NIC_OP_STREAM,  /* sends DATA */
    NIC_OP_POSTED,  /* is a receive that has not matched a message */
    NIC_OP_FILLING  /* is a receive whose eager message is arriving */
};

enum nic_op_kind {
    NIC_OP_SEND,
    NIC_OP_RECV,
    NIC_OP_PUT, /* a put to a peer's memory */
    NIC_OP_GET,
    NIC_OP_ATOMIC,
    NIC_OP_BATCH,     /* a list of puts, gets and atomics */
    NIC_OP_SERVE_PUT, /* serves a peer's put into our memory */
    NIC_OP_SERVE_GET, /* sends memory of ours, or the result of a batch, to a peer */
    NIC_OP_WHEN,      /* does nothing but wait for its event */
    NIC_OP_NOTICE,    /* receives a notice of a put; a struct nic_recv */
    /* operations of groups; peers' segments cannot name them: their node is FABEMU_ANY_NODE */
    NIC_OP_SET,
    NIC_OP_TEST,
    NIC_OP_BROADCAST,
    NIC_OP_KINDS
};

/*
 * The segments that a peer may send for an operation of each kind, and other properties of the
 * kind. A property that only one file needs is a table in that file.
 */
struct nic_op_traits {
    bool sends;    /* waits for a CTS, then sends DATA */
    bool whole;    /* if sends: the CTS must request all bytes, or 0, which refuses the operation */
    bool succeeds; /* a FIN may complete it with success after all its bytes were moved */
    bool fails;    /* a FIN may end it with an error */
    bool again;    /* if fails: after a FIN with -ENOBUFS we send the request again */
    bool result;   /* a RESULT completes it */
    bool serves;   /* serves a request of a peer */
    bool message;  /* a struct nic_watched follows the struct nic_op */
};

/*
 * The first member of every operation. It is embedded in a struct of its kind: nic_send,
 * nic_access, nic_atomic_access (tx/request.h), nic_recv (rx/queue.h), nic_serve (below), nic_set
 * and nic_condition (group/word.h), nic_broadcast_put (group/broadcast.h).
 */
struct nic_op {
    /* post.link is in a list of its event, peer, queue or group, or in fab->bulk. post.req is NULL
       if the operation serves a peer */
    struct nic_post post;
    uint8_t kind;  /* enum nic_op_kind */
    uint8_t state; /* enum nic_op_state */
    uint8_t iovs;
    uint8_t iov_at; /* sending: the piece from which the next bytes are taken */
    /* the peer; of a receive, the requested source and, after the match, the sender */
    uint32_t node;
    uint32_t id;     /* our id of the operation; 0: none */
    uint32_t remote; /* the peer's id of its operation */
    /* Before the start: the incarnation that the application named, or 0. After the start: the
       lowest incarnation of the node with which the operation may take place */
    uint64_t incarnation;
    bool named;       /* the application named the incarnation, so no other is allowed */
    bool traps;       /* serves a peer in a region with FABEMU_TRAPS */
    uint32_t seen_ms; /* when progress/pending.c first sampled it; 0: never */
    struct fabemu_iov iov[NIC_IOVS];
    uint64_t iov_off; /* sending: bytes already taken from iov[iov_at] */
    uint64_t bytes;   /* total size */
    uint64_t moved;
} __attribute__((may_alias));

/*
 * Define @of(), which returns the struct @type that has an operation as its @member. Also check
 * that the type fits in a request.
 */
#define NIC_OP_KIND(of, type, member)            \
    static inline type *of(struct nic_op *op)    \
    {                                            \
        return emu_list_entry(op, type, member); \
    }                                            \
    static_assert(sizeof(type) <= sizeof(((struct fabemu_req *)0)->opaque), "fits")

/** nic_op_traits - return the properties of the operation's kind. Lock: none. */
const struct nic_op_traits *nic_op_traits(const struct nic_op *op);

/* The put or get of a peer, which this adapter serves. */
struct nic_serve {
    struct nic_op op;
    struct nic_region *region; /* NULL: serves a batch, whose result is in `result` */
    uint8_t *result;           /* NULL, or memory that is freed when the operation ends */
    uint64_t offset;           /* the peer's offset in the region */
    bool targets_queue;        /* the events of `queue` count the request */
    uint16_t queue;
    bool has_notice; /* for puts: send the notice when all bytes have arrived */
    struct fabemu_notice notice;
    /* for gets: NULL, or called when all bytes have been sent, before the operation ends */
    void (*sent)(struct fabemu *fab, const struct nic_serve *serve);
};

static inline struct nic_serve *nic_serve_of(struct nic_op *op)
{
    assert(nic_op_traits(op)->serves);
    return emu_list_entry(op, struct nic_serve, op);
}

struct nic_slot {
    struct nic_op *op;
    uint32_t generation; /* its low 12 bits are part of the id */
    uint32_t next_free;
};

static inline struct nic_op *nic_op_of(struct fabemu_req *req)
{
    return (struct nic_op *)(void *)req->opaque;
}

/** nic_op_id - give @op an id. Errors: -ENOBUFS, all ids are in use. */
int nic_op_id(struct fabemu *fab, struct nic_op *op);
/**
 * nic_op_find - return the operation with @id if it takes place with @node. Otherwise count a stale
 * segment and return NULL.
 */
struct nic_op *nic_op_find(struct fabemu *fab, uint32_t id, uint32_t node);
/**
 * nic_op_end - remove the operation from all lists and from the table of ids. Then complete its
 * request, or free it if it serves a peer.
 */
void nic_op_end(struct fabemu *fab, struct nic_op *op, int status);
/** nic_op_post - post an operation by nic_post(). Lock: not held. */
int nic_op_post(struct fabemu *fab, struct nic_op *op);
/** nic_op_call - describe an operation for nic_call_begin(). Lock: none. */
struct emu_call nic_op_call(const struct nic_op *op);
/** nic_op_report - report the completed message of @op to the fabric if it is watched. */
void nic_op_report(const struct fabemu *fab, const struct nic_op *op);
/**
 * nic_op_serve - allocate an operation that serves a request of a peer, with an id. NULL: a limit
 * is reached or there is no memory.
 */
struct nic_serve *nic_op_serve(struct fabemu *fab, uint8_t kind, uint32_t node);
/** nic_op_any - return whether @is() is true for any operation with @node that has an id. */
bool nic_op_any(const struct fabemu *fab, uint32_t node, bool (*is)(const struct nic_op *op));
/**
 * nic_op_fail_all - end all operations with @node (FABEMU_ANY_NODE: with all nodes) that have an
 * id.
 */
void nic_op_fail_all(struct fabemu *fab, uint32_t node, int status);
/**
 * nic_op_new - make an operation in @req->opaque, and do not start it; all other fields are 0.
 * @node: the peer; FABEMU_ANY_NODE: there is none yet.
 */
struct nic_op *nic_op_new(struct fabemu_req *req, enum nic_op_kind kind, uint32_t node,
                          int (*begin)(struct fabemu *fab, struct nic_post *post));
/**
 * nic_buffer_check, nic_iov_check, nic_transfer_check - check that an operation may use this
 * memory, or this size. Lock: none. Errors: -EFAULT, -EINVAL, -EMSGSIZE.
 */
int nic_buffer_check(const void *base, size_t bytes);
int nic_iov_check(const struct fabemu_iov *iov, unsigned iovs);
int nic_transfer_check(uint64_t bytes);
void nic_op_iov(struct nic_op *op, const struct fabemu_iov *iov, unsigned iovs);
/**
 * nic_op_write - copy @bytes into the operation's pieces of memory, beginning at @offset. Bytes
 * beyond the end of the pieces are cut off.
 */
void nic_op_write(const struct nic_op *op, uint64_t offset, const void *src, size_t bytes);
/** nic_op_read - copy the next @bytes out of the operation's pieces of memory. */
void nic_op_read(struct nic_op *op, void *dst, size_t bytes);

/* --- watched messages --------------------------------------------------------------- */

/*
 * The fabric may record when messages are posted and when they complete. It sets the smallest size
 * that is recorded (emu_hostif_shared.watched_bytes). Such messages are *watched*. The size of a
 * receive is unknown until its message arrives, so the start time of every receive is recorded,
 * whatever its size. If no size is watched, the cost is one load of a cache line that is rarely
 * written. Lock: none for nic_watched_begin(), else held.
 */
#define NIC_WATCHED_NS ((UINT64_C(1) << 48) - 1)

/* Follows the struct nic_op of sends and receives. */
struct nic_watched {
    /* when the operation was posted, by nic_now_ns() modulo 78 hours; 0: not watched */
    uint64_t began_ns : 48;
    /* lowest bits of the message's number: the sender counts its requests to each receiver */
    uint64_t number : 16;
};

/** nic_watched_bytes - return whether messages of this size are watched. */
static inline bool nic_watched_bytes(const struct fabemu *fab, uint64_t bytes)
{
    uint64_t from = atomic_load_explicit(&fab->hostif.shared->watched_bytes, memory_order_relaxed);

    return from && bytes >= from - 1;
}

/** nic_watched_begin - return the struct nic_watched of a message of @bytes that is posted now. */
static inline struct nic_watched nic_watched_begin(const struct fabemu *fab, uint64_t bytes)
{
    if (__builtin_expect(!nic_watched_bytes(fab, bytes), 1))
        return (struct nic_watched){0};
    return (struct nic_watched){.began_ns = (nic_now_ns(fab) & NIC_WATCHED_NS) | 1};
}

/**
 * nic_watched_report - report a completed message to the fabric as @what, with the times at which
 * it was posted and completed, if its size is watched.
 */
static inline void nic_watched_report(const struct fabemu *fab, const struct nic_watched *watched,
                                      struct emu_finished what)
{
    uint64_t now_ns = nic_now_ns(fab);
    /* plus 1, because nic_watched_begin() may have made began_ns 1 too high */
    uint64_t took_ns = (now_ns + 1 - watched->began_ns) & NIC_WATCHED_NS;

    what.first = watched->number;
    what.ended_ns = now_ns;
    what.began_ns = now_ns + 1 - took_ns < now_ns ? now_ns + 1 - took_ns : now_ns;
    if (nic_watched_bytes(fab, what.bytes))
        emu_finished_write(&fab->hostif.shared->finished, &what);
}

#endif
