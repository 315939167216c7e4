/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.h - operations under way, and the table that names them on the wire.
 *
 * Owner: the table (`slots`), the free operations for serving peers. An operation of the
 * application's lies in its request until that completes; one that serves a peer is the adapter's.
 * Lock: held, but for the checks. Callers: everybody above; nothing below knows operations.
 */
#ifndef NIC_OP_H
#define NIC_OP_H

#include "nic/host/base/complete.h"
#include "nic/host/base/watched.h"

#define NIC_IOVS       4
#define NIC_OPS_MAX    (1u << 20) /* transfers at a time: 20 bits of an id */
#define NIC_SERVED_MAX (1u << 16) /* of them, on behalf of peers */

enum nic_op_state {
    NIC_OP_IDLE,    /* over */
    NIC_OP_ARMED,   /* waits for its event */
    NIC_OP_QUEUED,  /* a request that is not on its way */
    NIC_OP_EAGER,   /* an eager message that is partly on its way */
    NIC_OP_WAITING, /* waits for the peer: CTS, FIN, RESULT or DATA; or for the network's answer */
    NIC_OP_STREAM,  /* sends DATA */
    NIC_OP_POSTED,  /* a receive that has not matched */
    NIC_OP_FILLING  /* a receive whose eager message is under way */
};

enum nic_op_kind {
    NIC_OP_SEND,
    NIC_OP_RECV,
    NIC_OP_PUT, /* ours */
    NIC_OP_GET,
    NIC_OP_ATOMIC,
    NIC_OP_SERVE_PUT, /* a peer's, into memory of ours */
    NIC_OP_SERVE_GET,
    NIC_OP_WHEN,   /* does nothing but wait for its event */
    NIC_OP_NOTICE, /* receives a notice; a struct nic_recv, like the receive of a message */
    NIC_OP_SET,    /* of a group; its node is FABEMU_ANY_NODE, so that no peer can name it */
    NIC_OP_TEST,
    NIC_OP_BROADCAST,
    NIC_OP_KINDS
};

/*
 * What the other side may say about an operation of a kind, and whose it is. What is done about a
 * kind at one place alone is a table there.
 */
struct nic_op_traits {
    bool sends;    /* it waits for a CTS, and then sends DATA */
    bool whole;    /* of these: the CTS wants all of it; one that wants nothing refuses it */
    bool succeeds; /* a FIN may end it well, when all of it was moved */
    bool fails;    /* a FIN may end it with a failure */
    bool again;    /* of these: the target may have had too much to serve, and is asked again */
    bool result;   /* a RESULT ends it well */
    bool serves;   /* it is on behalf of a peer */
    bool message;  /* a struct nic_watched is behind it */
};

/*
 * What every operation begins with, the application's and those on behalf of a peer. Around it lies
 * a struct of its kind: nic_send, nic_access, nic_atomic_access (tx/request.h), nic_recv
 * (rx/queue.h), nic_serve (below), nic_set and nic_condition (group/word.h),
 * nic_broadcast_put (group/broadcast.h). That lies in the request's opaque words, or is the
 * adapter's.
 */
struct nic_op {
    struct nic_post post; /* on a list of its event, peer, queue or group, or of the adapter (bulk);
                             req: NULL when it serves a peer */
    uint8_t kind;         /* enum nic_op_kind */
    uint8_t state;        /* enum nic_op_state */
    uint8_t iovs;
    uint8_t iov_at;  /* sending: the piece that comes next */
    uint32_t node;   /* peer; receives: wanted, later actual */
    uint32_t id;     /* ours, 0: none */
    uint32_t remote; /* the peer's */
    /* Once begun it is with the first process at the node whose seat is this or a later one. */
    uint64_t seat;
    bool named;       /* with that one and no other: the application named its seat */
    uint32_t seen_ms; /* progress/pending.c: when it was seen first; 0: it was not */
    struct fabemu_iov iov[NIC_IOVS];
    uint64_t iov_off; /* sending: within that piece, bytes */
    uint64_t bytes;   /* to move */
    uint64_t moved;
} __attribute__((may_alias));

/* A kind of operation: @of() is the @type whose @member is the operation. It fits a request. */
#define NIC_OP_KIND(of, type, member)            \
    static inline type *of(struct nic_op *op)    \
    {                                            \
        return emu_list_entry(op, type, member); \
    }                                            \
    static_assert(sizeof(type) <= sizeof(((struct fabemu_req *)0)->opaque), "fits")

/** nic_op_traits - those of its kind. Lock: none. */
const struct nic_op_traits *nic_op_traits(const struct nic_op *op);

/* A put or get of a peer's. */
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
/** nic_op_find - the operation that @node names; NULL (counted) unless it is alive and with it. */
struct nic_op *nic_op_find(struct fabemu *fab, uint32_t id, uint32_t node);
/** nic_op_end - off all lists and out of the table; complete the request, or free a served one. */
void nic_op_end(struct fabemu *fab, struct nic_op *op, int status);
/** nic_op_tell - @op, a message, is complete, and well: the fabric is told, if it is watched. */
void nic_op_tell(const struct fabemu *fab, const struct nic_op *op);
/** nic_op_serve - an operation on behalf of a peer, or NULL. */
struct nic_serve *nic_op_serve(struct fabemu *fab, uint8_t kind, uint32_t node);
/** nic_op_any - is there an operation with @node that has an id, and of which @is() is true? */
bool nic_op_any(const struct fabemu *fab, uint32_t node, bool (*is)(const struct nic_op *op));
/** nic_op_fail_all - end every transfer with @node (or any). */
void nic_op_fail_all(struct fabemu *fab, uint32_t node, int status);
/**
 * nic_op_new - make an operation in the opaque words of @req. It has not begun; what is not an
 * argument is 0, in all of the words.
 * @node: FABEMU_ANY_NODE: the operation has no peer yet.
 */
struct nic_op *nic_op_new(struct fabemu_req *req, enum nic_op_kind kind, uint32_t node,
                          int (*begin)(struct fabemu *fab, struct nic_post *post));
/**
 * nic_buffer_check, nic_iov_check, nic_transfer_check - can these be an operation's? Lock: none.
 * Errors: -EFAULT, -EINVAL, -EMSGSIZE.
 */
int nic_buffer_check(const void *base, size_t bytes);
int nic_iov_check(const struct fabemu_iov *iov, unsigned iovs);
int nic_transfer_check(uint64_t bytes);
void nic_op_iov(struct nic_op *op, const struct fabemu_iov *iov, unsigned iovs);
/** nic_op_write - copy into the pieces at @offset; what does not fit is cut off. */
void nic_op_write(const struct nic_op *op, uint64_t offset, const void *src, size_t bytes);
/** nic_op_read - copy the next @bytes out of the pieces. */
void nic_op_read(struct nic_op *op, void *dst, size_t bytes);

#endif
