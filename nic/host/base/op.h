/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.h - operations under way, and the table of their ids.
 *
 * An operation of the application lies in its request until that completes; one that serves a peer
 * belongs to the adapter. Lock: held, except for the checks.
 */
#ifndef NIC_OP_H
#define NIC_OP_H

#include "emu/util/now.h"
#include "nic/host/base/complete.h"

#define NIC_IOVS       4
#define NIC_OPS_MAX    (1u << 20) /* operations with an id: 20 bits */
#define NIC_SERVED_MAX (1u << 16) /* of these, on behalf of peers */

enum nic_op_state {
    NIC_OP_IDLE,    /* has ended */
    NIC_OP_ARMED,   /* waits for its event */
    NIC_OP_QUEUED,  /* a request of which nothing has been sent */
    NIC_OP_EAGER,   /* an eager message of which a part has been sent */
    NIC_OP_WAITING, /* waits for the peer's CTS, FIN, RESULT or DATA, or for the network */
    NIC_OP_STREAM,  /* sends DATA */
    NIC_OP_POSTED,  /* a receive that has not matched */
    NIC_OP_FILLING  /* a receive whose eager message is arriving */
};

enum nic_op_kind {
    NIC_OP_SEND,
    NIC_OP_RECV,
    NIC_OP_PUT, /* ours */
    NIC_OP_GET,
    NIC_OP_ATOMIC,
    NIC_OP_SERVE_PUT, /* a peer's, into our memory */
    NIC_OP_SERVE_GET,
    NIC_OP_WHEN,   /* only waits for its event */
    NIC_OP_NOTICE, /* receives a notice; a struct nic_recv */
    NIC_OP_SET,    /* the rest: of a group; node is FABEMU_ANY_NODE, so no peer can name them */
    NIC_OP_TEST,
    NIC_OP_BROADCAST,
    NIC_OP_KINDS
};

/*
 * What a peer may send about an operation of each kind, and other properties of the kind. A
 * property that only one file needs is a table there.
 */
struct nic_op_traits {
    bool sends;    /* waits for a CTS, then sends DATA */
    bool whole;    /* of these: the CTS must accept all bytes; 0 bytes means refused */
    bool succeeds; /* a FIN may complete it with success, once all bytes were moved */
    bool fails;    /* a FIN may end it with an error */
    bool again;    /* of these: -ENOBUFS of the peer means that we send the request again */
    bool result;   /* a RESULT completes it */
    bool serves;   /* on behalf of a peer */
    bool message;  /* a struct nic_watched follows it */
};

/*
 * The first member of every operation. It is embedded in a struct of its kind: nic_send,
 * nic_access, nic_atomic_access (tx/request.h), nic_recv (rx/queue.h), nic_serve (below), nic_set
 * and nic_condition (group/word.h), nic_broadcast_put (group/broadcast.h).
 */
struct nic_op {
    /* on a list of its event, peer, queue or group, or of the adapter (bulk); req: NULL when it
       serves a peer */
    struct nic_post post;
    uint8_t kind;  /* enum nic_op_kind */
    uint8_t state; /* enum nic_op_state */
    uint8_t iovs;
    uint8_t iov_at;  /* sending: the current piece */
    uint32_t node;   /* the peer; receives: wanted, then actual */
    uint32_t id;     /* our id, 0: none */
    uint32_t remote; /* the peer's id */
    /* once started: with the first process at the node whose incarnation is at least this */
    uint64_t incarnation;
    bool named;       /* with exactly this incarnation: the application named it */
    uint32_t seen_ms; /* when progress/pending.c sampled it first; 0: never */
    struct fabemu_iov iov[NIC_IOVS];
    uint64_t iov_off; /* sending: position in that piece, bytes */
    uint64_t bytes;   /* total */
    uint64_t moved;
} __attribute__((may_alias));

/*
 * Defines @of(), which returns the @type whose @member is the operation. The type fits in a
 * request.
 */
#define NIC_OP_KIND(of, type, member)            \
    static inline type *of(struct nic_op *op)    \
    {                                            \
        return emu_list_entry(op, type, member); \
    }                                            \
    static_assert(sizeof(type) <= sizeof(((struct fabemu_req *)0)->opaque), "fits")

/** nic_op_traits - the traits of the kind of @op. Lock: none. */
const struct nic_op_traits *nic_op_traits(const struct nic_op *op);

/* A put or get of a peer. */
struct nic_serve {
    struct nic_op op;
    struct nic_region *region;
    bool has_notice; /* puts */
    struct fabemu_notice notice;
};

static inline struct nic_serve *nic_serve_of(struct nic_op *op)
{
    assert(nic_op_traits(op)->serves);
    return emu_list_entry(op, struct nic_serve, op);
}

struct nic_slot {
    struct nic_op *op;
    uint32_t generation; /* 12 bits of the id */
    uint32_t next_free;
};

static inline struct nic_op *nic_op_of(struct fabemu_req *req)
{
    return (struct nic_op *)(void *)req->opaque;
}

/** nic_op_id - give @op an id. Errors: -ENOBUFS. */
int nic_op_id(struct fabemu *fab, struct nic_op *op);
/**
 * nic_op_find - the operation that @node names; NULL (counted as stale) unless it exists and is
 * with that node.
 */
struct nic_op *nic_op_find(struct fabemu *fab, uint32_t id, uint32_t node);
/**
 * nic_op_end - remove it from all lists and the table; complete the request, or free a served one.
 */
void nic_op_end(struct fabemu *fab, struct nic_op *op, int status);
/**
 * nic_op_report - report to the fabric that the message @op has completed successfully, if it is
 * watched.
 */
void nic_op_report(const struct fabemu *fab, const struct nic_op *op);
/** nic_op_serve - get an operation on behalf of a peer, or NULL. */
struct nic_serve *nic_op_serve(struct fabemu *fab, uint8_t kind, uint32_t node);
/** nic_op_any - is there an operation with @node that has an id and for which @is() is true? */
bool nic_op_any(const struct fabemu *fab, uint32_t node, bool (*is)(const struct nic_op *op));
/** nic_op_fail_all - end every operation with @node (or any) that has an id. */
void nic_op_fail_all(struct fabemu *fab, uint32_t node, int status);
/**
 * nic_op_new - make an operation in @req->opaque, not started, with all other fields 0.
 * @node: FABEMU_ANY_NODE: the operation has no peer yet.
 */
struct nic_op *nic_op_new(struct fabemu_req *req, enum nic_op_kind kind, uint32_t node,
                          int (*begin)(struct fabemu *fab, struct nic_post *post));
/**
 * nic_buffer_check, nic_iov_check, nic_transfer_check - are these valid for an operation? Lock:
 * none. Errors: -EFAULT, -EINVAL, -EMSGSIZE.
 */
int nic_buffer_check(const void *base, size_t bytes);
int nic_iov_check(const struct fabemu_iov *iov, unsigned iovs);
int nic_transfer_check(uint64_t bytes);
void nic_op_iov(struct nic_op *op, const struct fabemu_iov *iov, unsigned iovs);
/** nic_op_write - copy into the pieces at @offset; excess bytes are cut off. */
void nic_op_write(const struct nic_op *op, uint64_t offset, const void *src, size_t bytes);
/** nic_op_read - copy the next @bytes out of the pieces. */
void nic_op_read(struct nic_op *op, void *dst, size_t bytes);

/* --- watched messages --------------------------------------------------------------- */

/*
 * The fabric may record when messages are posted and complete. It sets the smallest size to report
 * (emu_hostif_shared.watched_bytes). The size of a receive is unknown until its message arrives, so
 * the start of every receive is recorded then. Without watching, this costs one load of a cache
 * line that is rarely written. Lock: none for nic_watched_begin(), else held.
 */
#define NIC_WATCHED_NS ((UINT64_C(1) << 48) - 1)

/* Follows the operation, in sends and in receives. */
struct nic_watched {
    /* when it was posted, by emu_now_ns() modulo 78 hours; 0: not watched */
    uint64_t began_ns : 48;
    uint64_t number : 16; /* its number among the sender's requests to its receiver, lowest bits */
};

/** nic_watched_bytes - are messages of this size watched? */
static inline bool nic_watched_bytes(const struct fabemu *fab, uint64_t bytes)
{
    uint64_t from = atomic_load_explicit(&fab->hostif.shared->watched_bytes, memory_order_relaxed);

    return from && bytes >= from - 1;
}

/** nic_watched_begin - to store in a message of @bytes that is posted now. */
static inline struct nic_watched nic_watched_begin(const struct fabemu *fab, uint64_t bytes)
{
    if (__builtin_expect(!nic_watched_bytes(fab, bytes), 1))
        return (struct nic_watched){0};
    return (struct nic_watched){.began_ns = (emu_now_ns() & NIC_WATCHED_NS) | 1};
}

/**
 * nic_watched_report - the message is complete: report @what with its times, if its size is
 * watched.
 */
static inline void nic_watched_report(const struct fabemu *fab, const struct nic_watched *watched,
                                      struct emu_finished what)
{
    uint64_t now_ns = emu_now_ns();
    /* began_ns may be 1 too high */
    uint64_t took_ns = (now_ns + 1 - watched->began_ns) & NIC_WATCHED_NS;

    what.first = watched->number;
    what.ended_ns = now_ns;
    what.began_ns = now_ns + 1 - took_ns < now_ns ? now_ns + 1 - took_ns : now_ns;
    if (nic_watched_bytes(fab, what.bytes))
        emu_finished_write(&fab->hostif.shared->finished, &what);
}

#endif
