/* SPDX-License-Identifier: BSD-3-Clause */
/* op.h - operations: their arguments, pools and completion */
#ifndef NIC_OFI_OP_H
#define NIC_OFI_OP_H

#include "nic/ofi/addr.h"
#include "nic/ofi/cq.h"

#define OFI_SLAB_OPS  128  /* number of operations by which a pool grows */
#define OFI_SLABS_MAX 8192 /* about a million operations; then -FI_EAGAIN */

#define OFI_MULTI_MIN_BYTES 64 /* default of FI_OPT_MIN_MULTI_RECV */

/* Selects the counter that counts an operation. No counter can be bound for OFI_COUNT_NOTICE. */
enum ofi_count {
    OFI_COUNT_SEND,
    OFI_COUNT_RECV,
    OFI_COUNT_READ,
    OFI_COUNT_WRITE,
    OFI_COUNT_NOTICE, /* a peer's write that carries completion data */
    /* peers' operations on memory that target the endpoint; the adapter counts them */
    OFI_COUNT_REMOTE_READ,
    OFI_COUNT_REMOTE_WRITE,
    OFI_COUNTS
};

/* Flags in the entry of an operation that a peer caused. */
#define OFI_FROM_PEER (FI_RECV | FI_REMOTE_WRITE)

struct ofi_slab;
struct ofi_srx;

/* Memory for operations, and the free operations in it. */
struct ofi_pool {
    struct ofi_stack spare; /* operations returned to the pool; any thread may push */
    struct ofi_op *free;    /* free operations; when there are none, all of `spare` become free */
    struct ofi_slab *slabs; /* the memory of all operations */
    uint32_t slab_count;
};

struct ofi_trigger {
    struct ofi_cntr *cntr; /* NULL: none, and the operation starts at once */
    uint64_t threshold;
    const void *context; /* context of the call, by which the operation can be cancelled */
    /* the deferred work that the operation executes; NULL: it was posted with FI_TRIGGER */
    struct ofi_work *work;
};

/* An operation. It is free, then in flight, then an entry of a completion queue. */
struct ofi_op {
    struct fabemu_req req; /* req.context is the context that the program passed */
    struct ofi_op *next;   /* next in the pool, in ep->claims or in a completion queue */
    /* the endpoint at which it was posted; after completion: the endpoint that reports it */
    struct ofi_ep *ep;
    /* the shared receive context of a pending receive that has no endpoint yet; else NULL */
    struct ofi_srx *srx;
    struct ofi_pool *pool;
    struct ofi_cq *cq;      /* the queue that reports it; NULL: none */
    struct ofi_cntr *cntr;  /* the counter that counts it; NULL: none */
    _Atomic uint32_t *hold; /* a reference count that the completion decrements; NULL: none */
    void *buf;              /* receives: the buffer, which the entry reports */
    size_t room;            /* receives: size of the buffer */
    uint64_t expected; /* parts of collectives: the completion data that the message must carry */
    uint64_t flags;    /* flags of the entry, such as FI_SEND | FI_TAGGED */
    struct fabemu_message *message; /* the claimed message, while the operation is in the claims */
    int error;                      /* positive FI_E number; 0: success */
    bool wanted;                    /* success gets an entry, too; an error always gets one */
    /* called when the adapter has completed the request and `error` is set */
    void (*done)(struct ofi_op *op);
    /* if this is a part: the operation that was split; if this is a message in a buffer for
       several messages: the operation of the buffer; else NULL */
    struct ofi_op *whole;
    /* number of pending parts or messages of an operation, plus 1 for the operation itself */
    _Atomic uint32_t parts;
    /* condition for the start; empty (cntr is NULL) while the operation is in the pool */
    struct ofi_trigger trigger;
    enum ofi_kind kind;
    /* a posted receive or a triggered operation, which fi_cancel() may cancel */
    _Atomic bool cancellable;
    void *large_copy; /* NULL, or OFI_INJECT_BYTES for injected data; kept for the next use */
    unsigned char copy[FABEMU_INJECT_BYTES]; /* memory for injected data that fits */
};

struct ofi_slab {
    struct ofi_slab *next;
    struct ofi_op op[OFI_SLAB_OPS];
};

/* Arguments of any send or receive call. */
struct ofi_xfer {
    enum ofi_kind kind;
    const struct iovec *iov;
    size_t iovs;
    fi_addr_t addr;
    uint64_t tag;
    uint64_t ignore;
    uint64_t data; /* completion data, with FI_REMOTE_CQ_DATA */
    uint64_t flags;
    void *context;
    bool silent; /* fi_inject(): success gets no completion entry */
};

/*
 * S1 pairs with S2: a thread that takes the stack sees all that the pushing threads have written,
 * including the links. Stacks are only taken as a whole, so there is no ABA problem.
 */
static inline void ofi_stack_push(struct ofi_stack *stack, struct ofi_op *op)
{
    op->next = atomic_load_explicit(&stack->top, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&stack->top, &op->next, op,
                                                  memory_order_release, /* S1 */
                                                  memory_order_relaxed))
        ;
}

static inline struct ofi_op *ofi_stack_take(struct ofi_stack *stack)
{
    if (!atomic_load_explicit(&stack->top, memory_order_relaxed))
        return NULL;
    return atomic_exchange_explicit(&stack->top, NULL, memory_order_acquire); /* S2 */
}

/* op.c */
/**
 * ofi_op_get - take an operation from the pool and prepare it for @xfer. NULL: there is no memory,
 * or too many operations are in use. Thread: any.
 */
struct ofi_op *ofi_op_get(struct ofi_ep *ep, const struct ofi_xfer *xfer, enum ofi_count count);

/**
 * ofi_op_begin - as ofi_op_get(), but with FI_TRIGGER the operation will wait for a counter.
 * Errors: -FI_EAGAIN, ofi_op_get() would return NULL; others of ofi_trigger_of().
 */
int ofi_op_begin(struct ofi_ep *ep, const struct ofi_xfer *xfer, enum ofi_count count,
                 struct ofi_op **ret);

/** ofi_op_drop - return to the pool an operation that could not be posted. */
void ofi_op_drop(struct ofi_op *op);

/**
 * ofi_op_arrival - take an operation from the pool for messages that arrive in buffers for several
 * messages. @multi: the operation of the buffer. The caller initialises it. NULL: as ofi_op_get().
 * Thread: the thread that steps the adapter, under its lock.
 */
struct ofi_op *ofi_op_arrival(struct ofi_op *multi);

/** ofi_op_put - return an operation to the pool. Thread: any. */
void ofi_op_put(struct ofi_op *op);

/**
 * ofi_op_read - return @op to the pool after the program has read its entry. Thread: the
 * application's.
 */
void ofi_op_read(struct ofi_op *op);

/**
 * ofi_op_split - begin to execute @whole as @parts operations. The caller takes each of them by
 * ofi_op_part(). @whole completes when all parts have completed. If a part failed, @whole gets its
 * error.
 * ofi_op_split_end - call it after the last part was started. If parts could not be started,
 * @missing is their number, and @error (positive) the reason. Afterwards the caller must not use
 * @whole.
 */
void ofi_op_split(struct ofi_op *whole, uint32_t parts);
void ofi_op_split_end(struct ofi_op *whole, uint32_t missing, int error);

/**
 * ofi_op_part - take an operation for a part of @whole from the pool. NULL: as ofi_op_get().
 * ofi_op_part_done - the function op->done of a part. If a caller sets another function, that
 * function must call this one.
 */
struct ofi_op *ofi_op_part(struct ofi_op *whole);
void ofi_op_part_done(struct ofi_op *op);

/**
 * ofi_op_copy - copy all pieces, at most OFI_INJECT_BYTES, into memory of @op and return that
 * memory. NULL: there is no memory.
 */
void *ofi_op_copy(struct ofi_op *op, const struct fabemu_iov *iov, unsigned pieces, size_t bytes);

/** ofi_op_fenced - return whether a call with @flags must wait for operations in flight. */
bool ofi_op_fenced(struct ofi_ep *ep, uint64_t flags);

/**
 * ofi_op_after_writes - return whether a send with @flags must wait for writes and atomics in
 * flight (FI_ORDER_SAW). A triggered send does not: it starts later.
 */
bool ofi_op_after_writes(struct ofi_ep *ep, uint64_t flags);

/**
 * ofi_op_finish - count a completed operation, and report it or return it to the pool. Afterwards
 * the caller must not use @op. Thread: a callback's, under the adapter's lock.
 * ofi_op_finish_here - the same without the adapter's lock. Thread: the application's.
 */
void ofi_op_finish(struct ofi_op *op);
void ofi_op_finish_here(struct ofi_op *op);

/**
 * ofi_op_lost - report at @ep that the network has dropped a message whose send was complete, or
 * that was injected. The error entry has no context. @failed describes the error. Thread: the
 * thread that steps the adapter, under its lock. Source: fi_cq(3): error completions are generated
 * for all operations, including those for which no completion was requested.
 */
void ofi_op_lost(struct ofi_ep *ep, enum ofi_kind kind, const struct fabemu_req *failed);

/** ofi_op_sends_pending - return whether an operation that is not a receive is in flight. */
bool ofi_op_sends_pending(struct ofi_ep *ep);

/**
 * ofi_op_abort_all - abort all operations of an endpoint that is being closed. When this returns,
 * no callback is running any more.
 */
void ofi_op_abort_all(struct ofi_ep *ep);

/**
 * ofi_op_disarm - cancel the operations with this context that wait for a counter or, with @all,
 * all that wait.
 * Errors: -FI_ENOENT, there is none, or they have started.
 */
int ofi_op_disarm(struct ofi_ep *ep, bool all, const void *context);

ssize_t ofi_op_cancel(struct ofi_ep *ep, void *context);

void ofi_op_pool_free(struct ofi_ep *ep);

/**
 * ofi_op_claim - keep the claimed @message in @op until ofi_op_claimed() finds it by the context of
 * @op.
 */
void ofi_op_claim(struct ofi_op *op, struct fabemu_message *message);
/**
 * ofi_op_claimed - find the operation with this context that keeps a claimed message, and remove it
 * from the claims. NULL: there is none.
 */
struct ofi_op *ofi_op_claimed(struct ofi_ep *ep, void *context);

/* xfer.c */
/**
 * ofi_send - start a send.
 * Errors: -FI_EAGAIN, it cannot be started now: make progress and try again; -FI_EMSGSIZE;
 * -FI_EINVAL.
 */
ssize_t ofi_send(struct ofi_ep *ep, const struct ofi_xfer *xfer);

ssize_t ofi_recv(struct ofi_ep *ep, const struct ofi_xfer *xfer);

/** ofi_peek - execute a receive call with FI_PEEK, alone or with FI_CLAIM or FI_DISCARD. */
ssize_t ofi_peek(struct ofi_ep *ep, const struct ofi_xfer *xfer);

/**
 * ofi_recv_claimed - execute a receive call with FI_CLAIM, alone or with FI_DISCARD.
 * Errors: -FI_ENOMSG, no message is claimed under this context.
 */
ssize_t ofi_recv_claimed(struct ofi_ep *ep, const struct ofi_xfer *xfer);

/** ofi_discard_claims - discard the claimed messages when the endpoint closes. */
void ofi_discard_claims(struct ofi_ep *ep);

/**
 * ofi_iov - convert the pieces of @xfer to those of fabemu.h: at least one, which may be empty.
 * Errors: -FI_EINVAL, there are too many pieces; -FI_EFAULT, a piece is at address 0, and the
 * pieces before it were converted; -FI_EMSGSIZE, the sum of their sizes is above SIZE_MAX.
 */
int ofi_iov(const struct ofi_xfer *xfer, struct fabemu_iov *to, unsigned *pieces, size_t *bytes);

/**
 * ofi_data_check - check that completion data is allowed if @flags request it. Errors:
 * -FI_EOPNOTSUPP, the domain was opened with a cq_data_size of 0.
 */
int ofi_data_check(const struct ofi_ep *ep, uint64_t flags);

void ofi_iov_copy(void *to, const struct fabemu_iov *iov, unsigned pieces);

/**
 * ofi_iov_slice - describe in @to (OFI_IOV_MAX elements) the range of @bytes that begins at @offset
 * of the pieces @from. Returns the number of pieces, at least 1.
 */
unsigned ofi_iov_slice(const struct fabemu_iov *from, unsigned pieces, size_t offset, size_t bytes,
                       struct fabemu_iov *to);

/* multi.c */
/** ofi_multi_post - post @op as a buffer for several messages. Errors: as fabemu_recv_multi(). */
int ofi_multi_post(struct ofi_op *op, const struct ofi_xfer *xfer, struct fabemu_source from);

int ofi_multi_setopt(fid_t fid, int level, int name, const void *value, size_t bytes);

/* rma.c */
/**
 * ofi_notice_await - let @op wait for a peer's next write with completion data to the endpoint. @op
 * then becomes the completion entry of that write. @op was taken for OFI_COUNT_NOTICE; the
 * endpoint's queues are open.
 */
void ofi_notice_await(struct ofi_op *op);

/* atomic.c */
/**
 * ofi_type_find - find the type in fabemu.h for @type, and the size of an element. Errors:
 * -FI_EOPNOTSUPP.
 */
int ofi_type_find(enum fi_datatype type, unsigned *ret, size_t *bytes);

int ofi_atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags);

/* work.c: triggered operations and deferred work */
/**
 * ofi_trigger_of - read the trigger from the context of a call with FI_TRIGGER.
 * Errors: -FI_EINVAL; -FI_ENOSYS, this type of trigger is not supported.
 */
int ofi_trigger_of(const struct ofi_ep *ep, const struct ofi_xfer *xfer, struct ofi_trigger *ret);

/** ofi_work_apply - let @op be reported and counted as its deferred work requests. */
void ofi_work_apply(struct ofi_op *op);

/**
 * ofi_work_complete - give @op the context that the program passed with the deferred work. If the
 * work was cancelled, no counter counts @op and no queue reports it.
 */
void ofi_work_complete(struct ofi_op *op);

/** ofi_work_end - mark the work as complete; its operation does not use it any more. */
void ofi_work_end(struct ofi_work *work);

int ofi_work_control(struct ofi_domain *domain, int command, void *arg);

/** ofi_work_free - free all work of a domain that is being closed; all of it is complete. */
void ofi_work_free(struct ofi_domain *domain);

/**
 * ofi_op_target - set the peer of @op. The counters of the peer's endpoint count only the @last
 * part of a call.
 */
static inline void ofi_op_target(struct ofi_op *op, const struct ofi_peer *peer, bool last)
{
    op->req.incarnation = peer->incarnation;
    op->req.targets_queue = last;
    op->req.target_queue = peer->queue[OFI_UNTAGGED];
}

/**
 * ofi_op_flags_set - set the flags of the entry. A thread that waits for sends may read the flags
 * of an operation that another thread has just taken from the pool, so they are stored atomically.
 */
static inline void ofi_op_flags_set(struct ofi_op *op, uint64_t flags)
{
    __atomic_store_n(&op->flags, flags, __ATOMIC_RELAXED);
}

#endif
