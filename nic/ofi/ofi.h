/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.h - the objects of the libfabric provider, and who may access their fields.
 *
 * fabric -> domain -> { av, cq, cntr, mr, ep }: an object counts the objects opened on it and
 * refuses (-FI_EBUSY) to close before them. A domain holds a reference to the process's adapter. An
 * endpoint opens two of its queues, one for untagged and one for tagged messages, so that neither
 * kind can match the other's receives.
 *
 * A posted operation is a struct ofi_op from its endpoint's pool. When the adapter completes it,
 * the same struct becomes the completion entry: it is pushed to its completion queue, and returns
 * to the pool when the entry is read. So a completion queue cannot overflow, and a callback neither
 * allocates nor locks. Rejected: a ring of entries per completion queue, which must grow under the
 * adapter's lock, or drop entries.
 */
#ifndef NIC_OFI_OFI_H
#define NIC_OFI_OFI_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "nic/fabemu.h"

/*
 * libfabric 2 has no container_of(), and warns about the mr_mode bits that version 1.5 deprecated.
 * Programs may still pass these bits.
 */
#ifndef container_of
#define container_of(ptr, type, field) ((type *)((char *)(ptr)-offsetof(type, field)))
#endif
#define OFI_MR_BASIC    (1 << 0) /* FI_MR_BASIC */
#define OFI_MR_SCALABLE (1 << 1) /* FI_MR_SCALABLE */

#define OFI_NAME              "fabemu"
#define OFI_IOV_MAX           4
#define OFI_MESSAGE_MAX_BYTES ((size_t)1 << 39)
#define OFI_CQ_DATA_BYTES     4 /* the upper half of fabemu's 64 bits holds OFI_HAS_DATA */
#define OFI_HAS_DATA          ((uint64_t)1 << 32)
/* struct ofi_addr: private to this provider */
#define OFI_ADDR_FORMAT        (UINT32_C(1) << 31 | 0xfabu)
#define OFI_QUEUE_NONE         UINT16_MAX
#define OFI_SLAB_OPS           128  /* growth step of a pool */
#define OFI_SLABS_MAX          8192 /* about a million operations; then -FI_EAGAIN */
#define OFI_POLLS_BEFORE_IDLE  4    /* empty polls in a row before fabemu_idle() */
#define OFI_POLLS_BEFORE_SLEEP 4096 /* in blocking calls: empty polls before short sleeps */
#define OFI_SLEEP_NS           50000

/* Capabilities of the provider, as offered by fi_getinfo(). */
#define OFI_CAPS_SIDE   (FI_SEND | FI_RECV)
#define OFI_CAPS_MEMORY (FI_RMA | FI_ATOMIC) /* need keys */
#define OFI_CAPS_ACCESS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define OFI_CAPS_COMM   (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define OFI_CAPS_TX     (FI_MSG | FI_TAGGED | FI_SEND | OFI_CAPS_MEMORY | FI_READ | FI_WRITE)
#define OFI_CAPS_RX                                                                  \
    (FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_SOURCE | OFI_CAPS_MEMORY | \
     FI_REMOTE_READ | FI_REMOTE_WRITE)
#define OFI_CAPS (OFI_CAPS_TX | OFI_CAPS_RX | OFI_CAPS_COMM)

/* Operation flags that an endpoint may have as default. */
#define OFI_DELIVERED   (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE) /* equivalent here */
#define OFI_OP_FLAGS_TX (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | OFI_DELIVERED)
#define OFI_OP_FLAGS_RX FI_COMPLETION

enum ofi_kind { OFI_UNTAGGED, OFI_TAGGED, OFI_KINDS };

/* The address of an endpoint, as returned by fi_getname(); it has a fixed length. */
struct ofi_addr {
    uint32_t node;             /* FABEMU_ANY_NODE as source: the node that we get */
    uint16_t queue[OFI_KINDS]; /* OFI_QUEUE_NONE as source: any free queue */
    uint64_t fabric;           /* the fabric's id; 0: unknown */
    uint64_t incarnation;      /* incarnation of the node; 0: unknown, any */
};
static_assert(sizeof(struct ofi_addr) == 24, "no padding in an address");

struct ofi_op;

/*
 * An object's lock, for threads of the application; callbacks of the adapter take none. It does
 * nothing if the application never makes two calls on a domain at a time (FI_THREAD_DOMAIN; Open
 * MPI sets it unless MPI_THREAD_MULTIPLE is used).
 */
struct ofi_lock {
    pthread_mutex_t mutex;
    bool serial; /* written once */
};

/* A lock-free stack; any thread may push. */
struct ofi_stack {
    _Atomic(struct ofi_op *) top;
};

struct ofi_fabric {
    struct fid_fabric fabric_fid;
    _Atomic uint32_t refs; /* domains and event queues */
};

struct ofi_domain {
    struct fid_domain domain_fid;
    struct ofi_fabric *fabric;
    struct fabemu *fab;    /* a reference that we hold */
    uint64_t fabric_hash;  /* for struct ofi_addr */
    bool serial;           /* the application serializes its calls */
    bool by_address;       /* peers name memory by its address (FI_MR_BASIC), not by its offset */
    bool cq_data;          /* FI_REMOTE_CQ_DATA may be used: cq_data_size was not 0 */
    _Atomic uint32_t refs; /* objects opened on this domain */
};

/* The target of an fi_addr_t. */
struct ofi_peer {
    uint32_t node; /* FABEMU_ANY_NODE: removed */
    uint16_t queue[OFI_KINDS];
    uint64_t incarnation; /* incarnation; 0: any */
};

struct ofi_cntr {
    struct fid_cntr cntr_fid;
    struct ofi_domain *domain;
    _Atomic uint64_t done;   /* increased by callbacks */
    _Atomic uint64_t failed; /* likewise */
    _Atomic uint32_t refs;   /* endpoints bound */
};

struct ofi_cq {
    struct fid_cq cq_fid;
    struct ofi_domain *domain;
    size_t entry_bytes; /* in the requested format */
    enum fi_wait_obj wait_obj;
    _Atomic uint32_t refs;    /* endpoints bound */
    _Atomic unsigned empty;   /* empty polls in a row; lost updates are harmless */
    _Atomic bool signalled;   /* fi_cq_signal(): the next fi_cq_sread() returns */
    struct ofi_stack arrived; /* newest first; callbacks push, readers take all */

    struct ofi_lock lock;  /* for readers; protects oldest and newest */
    struct ofi_op *oldest; /* taken from arrived, in order */
    struct ofi_op *newest;

    /* for fi_cq_strerror(): the error that was read last */
    char why[96];
    int why_of; /* prov_errno */
};

/* One direction of an endpoint. Written before the endpoint is enabled. */
struct ofi_side {
    struct ofi_cq *cq;
    bool selective;    /* entries only for operations with FI_COMPLETION */
    uint64_t op_flags; /* for calls without flags */
};

/* How an operation is counted. fi_ep_bind() accepts a counter for each but the last. */
enum ofi_count {
    OFI_COUNT_SEND,
    OFI_COUNT_RECV,
    OFI_COUNT_READ,
    OFI_COUNT_WRITE,
    OFI_COUNT_NOTICE, /* a peer's write that carries completion data */
    OFI_COUNTS
};

/* Entry flags of operations that a peer started. */
#define OFI_FROM_PEER (FI_RECV | FI_REMOTE_WRITE)

struct ofi_slab;

struct ofi_ep {
    struct fid_ep ep_fid;
    struct ofi_domain *domain;
    uint64_t caps;
    struct ofi_addr source; /* requested by the user; our address once enabled */
    bool enabled;
    _Atomic bool closing; /* completions are dropped */
    struct ofi_av *av;
    struct ofi_side tx;
    struct ofi_side rx;
    struct ofi_cntr *cntr[OFI_COUNTS];
    struct fabemu_queue *queue[OFI_KINDS];
    struct ofi_stack spare; /* returned operations; any thread may push */

    struct ofi_lock lock;  /* protects the fields below; never taken by a callback */
    struct ofi_op *free;   /* operations to use; refilled from spare */
    struct ofi_op *claims; /* claimed messages, by context */
    struct ofi_slab *slabs;
    uint32_t slab_count;
};

/* An operation: free, then in flight, then an entry of a completion queue. */
struct ofi_op {
    struct fabemu_req req; /* req.context belongs to the user */
    struct ofi_op *next;   /* in the pool, the claims or a completion queue */
    struct ofi_ep *ep;
    struct ofi_cq *cq;              /* NULL: not reported */
    struct ofi_cntr *cntr;          /* or NULL */
    void *buf;                      /* receives: for the entry */
    size_t room;                    /* receives: bytes of the buffer */
    uint64_t flags;                 /* of the entry: FI_SEND | FI_TAGGED and the like */
    struct fabemu_message *message; /* while in the claims */
    int error;                      /* a positive FI_E number, or 0 */
    bool wanted;                    /* report also success */
    enum ofi_kind kind;
    _Atomic bool cancellable;                /* a posted receive: fi_cancel() may try */
    unsigned char copy[FABEMU_INJECT_BYTES]; /* injected data that is not sent immediately */
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
    uint64_t data; /* with FI_REMOTE_CQ_DATA */
    uint64_t flags;
    void *context;
    bool silent; /* fi_inject(): no entry */
};

static inline void ofi_lock_init(struct ofi_lock *lock, const struct ofi_domain *domain)
{
    pthread_mutex_init(&lock->mutex, NULL);
    lock->serial = domain->serial;
}

static inline void ofi_lock_destroy(struct ofi_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

static inline void ofi_lock(struct ofi_lock *lock)
{
    if (!lock->serial)
        pthread_mutex_lock(&lock->mutex);
}

static inline void ofi_unlock(struct ofi_lock *lock)
{
    if (!lock->serial)
        pthread_mutex_unlock(&lock->mutex);
}

/*
 * S1 pairs with S2: a thread that takes the stack sees everything that its pushers wrote, including
 * the link. Only whole stacks are taken, so there is no ABA problem.
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

/* prov.c: modified only by libfabric, in its context field */
extern struct fi_provider ofi_prov;

/** ofi_errno - the positive FI_E number for a negative errno of fabemu. */
int ofi_errno(int err);

/** ofi_report - print a line on stderr; later calls of the process print nothing. */
void ofi_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * ofi_socket_check - does a fabric listen at $FABEMU_SOCKET? If it is set, prints why not. Errors:
 * -FI_ENODATA.
 */
int ofi_socket_check(void);

/* info.c */
int ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **info);

/* addr.c */
/** ofi_addr_parse - @node: decimal or NULL; @service: decimal 0 to 32766 or NULL. -FI_ENODATA. */
int ofi_addr_parse(const char *node, const char *service, struct ofi_addr *ret);

/** ofi_addr_hash - identifies one run of the fabric in addresses; never 0. */
uint64_t ofi_addr_hash(const struct fabemu_info *info);

/** ofi_addr_copy - copy as for fi_getname() and fi_av_lookup(). Errors: -FI_ETOOSMALL. */
int ofi_addr_copy(const struct ofi_addr *addr, void *to, size_t *bytes);

const char *ofi_addr_text(const struct ofi_addr *addr, char *text, size_t *bytes);

/* fabric.c */
int ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* av.c */
struct ofi_av;
int ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                void *context);
struct ofi_av *ofi_av_of(struct fid *fid);
void ofi_av_hold(struct ofi_av *av);
void ofi_av_release(struct ofi_av *av);

/** ofi_av_peer - the target of @addr. Errors: -FI_EINVAL, it is not in the table. Lock-free. */
int ofi_av_peer(struct ofi_av *av, fi_addr_t addr, struct ofi_peer *ret);

/** ofi_av_find - the fi_addr_t of the sender with @from's queue of this kind; FI_ADDR_NOTAVAIL. */
fi_addr_t ofi_av_find(struct ofi_av *av, enum ofi_kind kind, const struct ofi_peer *from);

/* cq.c */
int ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                void *context);

/** ofi_cq_forget - drop the entries of an endpoint that is being closed. */
void ofi_cq_forget(struct ofi_cq *cq, struct ofi_ep *ep);

/** ofi_cq_poll_missed - a poll found nothing: after a few of them, give the processor away. */
void ofi_cq_poll_missed(struct ofi_cq *cq);

/* wait.c */
/* State of a call that blocks. */
struct ofi_wait {
    struct fabemu *fab;
    int64_t until_ms; /* INT64_MAX: no limit */
    unsigned rounds;  /* empty ones in a row */
};

/** ofi_wait_begin - @timeout_ms: below 0: no limit. */
struct ofi_wait ofi_wait_begin(struct fabemu *fab, int timeout_ms);

/**
 * ofi_wait_step - step the adapter, or give the processor away if there is nothing to do. False:
 * the time has passed, and nothing was done.
 */
bool ofi_wait_step(struct ofi_wait *wait);

/** ofi_wait_sleep - the same if nothing can be polled: sleep briefly. */
bool ofi_wait_sleep(const struct ofi_wait *wait);

/* cntr.c */
int ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                  void *context);

/* mr.c */
extern struct fi_ops_mr ofi_mr_ops;

/* ep.c */
int ofi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

/* op.c */
/**
 * ofi_op_get - an operation from the pool, initialised except for its request. NULL: no memory, or
 * too many. Thread: any.
 */
struct ofi_op *ofi_op_get(struct ofi_ep *ep, const struct ofi_xfer *xfer, enum ofi_count count);

/** ofi_op_put - return an operation that was not posted. */
void ofi_op_put(struct ofi_op *op);

/** ofi_op_read - return an operation whose entry was read. Thread: a caller of libfabric. */
void ofi_op_read(struct ofi_op *op);

/**
 * ofi_op_finish - count a completed operation, and report it or return it to the pool. The caller
 * no longer owns it. Lock-free: callbacks call it under the adapter's lock.
 */
void ofi_op_finish(struct ofi_op *op);

/** ofi_op_sends_pending - is an operation other than a receive in flight? For closing. */
bool ofi_op_sends_pending(struct ofi_ep *ep);

/** ofi_op_abort_all - abort all operations; no callback runs afterwards. For closing. */
void ofi_op_abort_all(struct ofi_ep *ep);

/** ofi_op_cancel - see fi_cancel(). */
ssize_t ofi_op_cancel(struct ofi_ep *ep, void *context);

void ofi_op_pool_free(struct ofi_ep *ep);

/** ofi_op_claim - remember the claimed @message under the context of @op. */
void ofi_op_claim(struct ofi_op *op, struct fabemu_message *message);
/** ofi_op_claimed - take the operation that remembers it; NULL: none has this context. */
struct ofi_op *ofi_op_claimed(struct ofi_ep *ep, void *context);

/* xfer.c */
/**
 * ofi_send - start a send. -FI_EAGAIN, no space: make progress, try again; -FI_EMSGSIZE;
 * -FI_EINVAL.
 */
ssize_t ofi_send(struct ofi_ep *ep, const struct ofi_xfer *xfer);

/** ofi_recv - post a receive. */
ssize_t ofi_recv(struct ofi_ep *ep, const struct ofi_xfer *xfer);

/** ofi_peek - FI_PEEK, alone or with FI_CLAIM or FI_DISCARD. */
ssize_t ofi_peek(struct ofi_ep *ep, const struct ofi_xfer *xfer);

/**
 * ofi_recv_claimed - FI_CLAIM, alone or with FI_DISCARD.
 * Errors: -FI_ENOMSG, nothing is claimed under this context.
 */
ssize_t ofi_recv_claimed(struct ofi_ep *ep, const struct ofi_xfer *xfer);

/** ofi_discard_claims - discard claimed messages that were not received. For closing. */
void ofi_discard_claims(struct ofi_ep *ep);

/**
 * ofi_iov - @xfer's pieces in fabemu's form: at least one, which may be empty.
 * Errors: -FI_EINVAL, too many; -FI_EFAULT, one at address 0; -FI_EMSGSIZE, above SIZE_MAX.
 */
int ofi_iov(const struct ofi_xfer *xfer, struct fabemu_iov *to, unsigned *pieces, size_t *bytes);

/**
 * ofi_data_check - if @flags request completion data: is that allowed? Errors: -FI_EOPNOTSUPP, the
 * domain was opened with a cq_data_size of 0.
 */
int ofi_data_check(const struct ofi_ep *ep, uint64_t flags);

/** ofi_iov_copy - copy all pieces into one buffer. */
void ofi_iov_copy(void *to, const struct fabemu_iov *iov, unsigned pieces);

/* rma.c */
/**
 * ofi_notice_await - let @op, of kind OFI_COUNT_NOTICE, wait for the next write to its endpoint
 * that carries completion data, and become its entry. The endpoint is enabled and its queues are
 * open.
 */
void ofi_notice_await(struct ofi_op *op);

/* atomic.c */
/** ofi_atomic_query - see fi_query_atomic(). */
int ofi_atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags);

/* atomic.c, msg.c, rma.c */
extern struct fi_ops_atomic ofi_atomic_ops;
extern struct fi_ops_msg ofi_msg_ops;
extern struct fi_ops_tagged ofi_tagged_ops;
extern struct fi_ops_rma ofi_rma_ops;

static inline struct ofi_domain *ofi_domain_of(struct fid_domain *domain)
{
    return container_of(domain, struct ofi_domain, domain_fid);
}

static inline struct ofi_ep *ofi_ep_of(struct fid_ep *ep)
{
    return container_of(ep, struct ofi_ep, ep_fid);
}

/** ofi_fid_init - initialise the common part of every object. */
static inline void ofi_fid_init(struct fid *fid, size_t class, void *context, struct fi_ops *ops)
{
    fid->fclass = class;
    fid->context = context;
    fid->ops = ops;
}

/**
 * ofi_waits_by_polling - does this kind of waiting need no wait object? Others are not supported.
 */
static inline bool ofi_waits_by_polling(enum fi_wait_obj wait_obj)
{
    return wait_obj == FI_WAIT_NONE || wait_obj == FI_WAIT_UNSPEC || wait_obj == FI_WAIT_YIELD;
}

/* Reference counts of open objects; only closing checks them, hence relaxed. */
static inline void ofi_hold(_Atomic uint32_t *refs)
{
    atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

static inline void ofi_release(_Atomic uint32_t *refs)
{
    atomic_fetch_sub_explicit(refs, 1, memory_order_relaxed);
}

static inline bool ofi_held(_Atomic uint32_t *refs)
{
    return atomic_load_explicit(refs, memory_order_relaxed) != 0;
}

#endif
