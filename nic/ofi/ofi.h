/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.h - the objects of the libfabric provider, and who may touch their fields.
 *
 * fabric -> domain -> { av, cq, cntr, mr, ep }: an object counts those that
 * stand on it and refuses (-FI_EBUSY) to close before them. A domain holds a
 * reference to the process's adapter; an endpoint opens two of its queues, one
 * for untagged and one for tagged messages, so that neither kind can match the
 * other's receives.
 *
 * A posted operation is a struct ofi_op out of its endpoint's pool. When the
 * adapter is done with it, the same struct is the completion entry: it is pushed
 * on its completion queue, and goes back to the pool when the entry is read. So
 * a completion queue cannot overflow, and a callback neither allocates nor locks.
 * Rejected: a ring of entries for each completion queue; it must grow under the
 * adapter's lock, or drop.
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
 * libfabric 2 has no container_of() and warns of the names of the mr_mode bits that version 1.5
 * deprecated. Programs may still pass these bits.
 */
#ifndef container_of
#define container_of(ptr, type, field) ((type *)((char *)(ptr)-offsetof(type, field)))
#endif
#define OFI_MR_BASIC    (1 << 0) /* FI_MR_BASIC */
#define OFI_MR_SCALABLE (1 << 1) /* FI_MR_SCALABLE */

#define OFI_NAME               "fabemu"
#define OFI_IOV_MAX            4
#define OFI_MESSAGE_MAX_BYTES  ((size_t)1 << 39)
#define OFI_CQ_DATA_BYTES      4 /* the upper half of fabemu's 64 bits carries OFI_HAS_DATA */
#define OFI_HAS_DATA           ((uint64_t)1 << 32)
#define OFI_ADDR_FORMAT        (UINT32_C(1) << 31 | 0xfabu) /* struct ofi_addr; provider's own */
#define OFI_QUEUE_NONE         UINT16_MAX
#define OFI_SLAB_OPS           128  /* operations that a pool grows by */
#define OFI_SLABS_MAX          8192 /* about a million operations under way; then -FI_EAGAIN */
#define OFI_POLLS_BEFORE_IDLE  4    /* empty polls in a row before fabemu_idle() */
#define OFI_POLLS_BEFORE_SLEEP 4096 /* in calls that block: empty polls before short sleeps */
#define OFI_SLEEP_NS           50000

/* What the provider can; fi_getinfo() offers no more. */
#define OFI_CAPS_SIDE   (FI_SEND | FI_RECV)
#define OFI_CAPS_MEMORY (FI_RMA | FI_ATOMIC) /* what needs keys */
#define OFI_CAPS_ACCESS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define OFI_CAPS_COMM   (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define OFI_CAPS_TX     (FI_MSG | FI_TAGGED | FI_SEND | OFI_CAPS_MEMORY | FI_READ | FI_WRITE)
#define OFI_CAPS_RX                                                                  \
    (FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_SOURCE | OFI_CAPS_MEMORY | \
     FI_REMOTE_READ | FI_REMOTE_WRITE)
#define OFI_CAPS (OFI_CAPS_TX | OFI_CAPS_RX | OFI_CAPS_COMM)

/* Flags of operations that an endpoint may have for all of its own. */
#define OFI_DELIVERED   (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE) /* one and the same here */
#define OFI_OP_FLAGS_TX (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | OFI_DELIVERED)
#define OFI_OP_FLAGS_RX FI_COMPLETION

enum ofi_kind { OFI_UNTAGGED, OFI_TAGGED, OFI_KINDS };

/* The address of an endpoint, as fi_getname() gives it; the same length everywhere. */
struct ofi_addr {
    uint32_t node;             /* FABEMU_ANY_NODE in a source: whichever we get */
    uint16_t queue[OFI_KINDS]; /* OFI_QUEUE_NONE in a source: whichever is free */
    uint64_t fabric;           /* the fabric's id; 0: not known */
    uint64_t seat;             /* which process of the node; 0: not known, whoever is there */
};
static_assert(sizeof(struct ofi_addr) == 24, "no padding in an address");

struct ofi_op;

/*
 * An object's lock. None is taken where the application says that it never makes two calls on a
 * domain at a time (FI_THREAD_DOMAIN; Open MPI does, without MPI_THREAD_MULTIPLE): it is for
 * threads of the application, and nothing that the adapter calls takes one.
 */
struct ofi_lock {
    pthread_mutex_t mutex;
    bool serial; /* written once */
};

/* Last in, first out; any thread pushes, without a lock. */
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
    struct fabemu *fab;    /* our reference */
    uint64_t fabric_hash;  /* what struct ofi_addr carries */
    bool serial;           /* the application serializes its calls on all of it */
    bool by_address;       /* peers name memory by its address (FI_MR_BASIC), not by its offset */
    bool cq_data;          /* FI_REMOTE_CQ_DATA may be used: cq_data_size was not 0 */
    _Atomic uint32_t refs; /* objects opened on this domain */
};

/* Where a fi_addr_t leads. */
struct ofi_peer {
    uint32_t node; /* FABEMU_ANY_NODE: removed */
    uint16_t queue[OFI_KINDS];
    uint64_t seat; /* 0: whoever is there */
};

struct ofi_cntr {
    struct fid_cntr cntr_fid;
    struct ofi_domain *domain;
    _Atomic uint64_t done;   /* added to by callbacks */
    _Atomic uint64_t failed; /* likewise */
    _Atomic uint32_t refs;   /* endpoints bound */
};

struct ofi_cq {
    struct fid_cq cq_fid;
    struct ofi_domain *domain;
    size_t entry_bytes; /* of one entry in the format asked for */
    enum fi_wait_obj wait_obj;
    _Atomic uint32_t refs;    /* endpoints bound */
    _Atomic unsigned empty;   /* polls in a row that found nothing; lost updates do no harm */
    _Atomic bool signalled;   /* fi_cq_signal(): the next fi_cq_sread() returns */
    struct ofi_stack arrived; /* newest first; callbacks push, the reader takes all */

    struct ofi_lock lock;  /* a reader's: guards oldest and newest */
    struct ofi_op *oldest; /* what was taken from arrived, in order */
    struct ofi_op *newest;

    /* For fi_cq_strerror(): of the error that was read last. Its reader's. */
    char why[96];
    int why_of; /* prov_errno */
};

/* One side of an endpoint. Written before the endpoint is enabled. */
struct ofi_side {
    struct ofi_cq *cq;
    bool selective;    /* an entry only for operations with FI_COMPLETION */
    uint64_t op_flags; /* of calls that take none */
};

/* How an operation is counted. fi_ep_bind() takes a counter for each kind but the last. */
enum ofi_count {
    OFI_COUNT_SEND,
    OFI_COUNT_RECV,
    OFI_COUNT_READ,
    OFI_COUNT_WRITE,
    OFI_COUNT_NOTICE, /* a peer's write that carries completion data */
    OFI_COUNTS
};

/* Flags of the entries of operations that a peer began. */
#define OFI_FROM_PEER (FI_RECV | FI_REMOTE_WRITE)

struct ofi_slab;

struct ofi_ep {
    struct fid_ep ep_fid;
    struct ofi_domain *domain;
    uint64_t caps;
    struct ofi_addr source; /* what the user asked for; our address once enabled */
    bool enabled;
    _Atomic bool closing; /* completions are dropped from now on */
    struct ofi_av *av;
    struct ofi_side tx;
    struct ofi_side rx;
    struct ofi_cntr *cntr[OFI_COUNTS];
    struct fabemu_queue *queue[OFI_KINDS];
    struct ofi_stack spare; /* operations given back; any thread pushes */

    struct ofi_lock lock;  /* guards what follows; never taken by a callback */
    struct ofi_op *free;   /* operations to hand out; refilled from spare */
    struct ofi_op *claims; /* claimed messages, by context */
    struct ofi_slab *slabs;
    uint32_t slab_count;
};

/* An operation: free, then under way, then an entry of a completion queue. */
struct ofi_op {
    struct fabemu_req req; /* req.context is the user's */
    struct ofi_op *next;   /* in the pool, the claims or a completion queue */
    struct ofi_ep *ep;
    struct ofi_cq *cq;              /* NULL: nowhere to report to */
    struct ofi_cntr *cntr;          /* or NULL */
    void *buf;                      /* receives: what the entry says */
    size_t room;                    /* receives: bytes of the buffer */
    uint64_t flags;                 /* of the entry: FI_SEND | FI_TAGGED and the like */
    struct fabemu_message *message; /* while among the claims */
    int error;                      /* a positive FI_E number, or 0 */
    bool wanted;                    /* an entry even if nothing went wrong */
    enum ofi_kind kind;
    _Atomic bool cancellable;                /* a receive that is posted: fi_cancel() may try */
    unsigned char copy[FABEMU_INJECT_BYTES]; /* of what was injected and is not sent at once */
};

struct ofi_slab {
    struct ofi_slab *next;
    struct ofi_op op[OFI_SLAB_OPS];
};

/* What every send and receive call boils down to. */
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
    bool silent; /* fi_inject(): never an entry */
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
 * S1 pairs with S2: who takes the stack sees what its pushers wrote, the link
 * included. Lock-free; only whole stacks are taken, so there is no ABA.
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

/* prov.c: libfabric writes to its context and nothing else changes. */
extern struct fi_provider ofi_prov;

/** ofi_errno - the FI_E number, positive, for a negative errno of fabemu. */
int ofi_errno(int err);

/** ofi_tell - one line on stderr, the first that this process has to say, and no other. */
void ofi_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * ofi_socket_check - does somebody listen at $FABEMU_SOCKET? Tells why not, where it is set.
 * -FI_ENODATA.
 */
int ofi_socket_check(void);

/* info.c */
int ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **info);

/* addr.c */
/** ofi_addr_parse - @node: decimal or NULL; @service: decimal 0 to 32766 or NULL. -FI_ENODATA. */
int ofi_addr_parse(const char *node, const char *service, struct ofi_addr *ret);

/** ofi_addr_hash - names the fabric in addresses, one run of it; never 0. */
uint64_t ofi_addr_hash(const struct fabemu_info *info);

/** ofi_addr_copy - as fi_getname() and fi_av_lookup() hand addresses out. -FI_ETOOSMALL. */
int ofi_addr_copy(const struct ofi_addr *addr, void *to, size_t *bytes);

const char *ofi_addr_text(const struct ofi_addr *addr, char *text, size_t *bytes);

/* fabric.c, domain.c, eq.c */
int ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int ofi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                    void *context);
int ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                void *context);

/* av.c */
struct ofi_av;
int ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                void *context);
struct ofi_av *ofi_av_of(struct fid *fid);
void ofi_av_hold(struct ofi_av *av);
void ofi_av_release(struct ofi_av *av);

/** ofi_av_peer - where @addr leads. -FI_EINVAL, it is not in the table. Lock-free. */
int ofi_av_peer(struct ofi_av *av, fi_addr_t addr, struct ofi_peer *ret);

/** ofi_av_find - the fi_addr_t of who sent from @from's queue of this kind; FI_ADDR_NOTAVAIL. */
fi_addr_t ofi_av_find(struct ofi_av *av, enum ofi_kind kind, const struct ofi_peer *from);

/* cq.c */
int ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                void *context);

/** ofi_cq_forget - drop the entries of an endpoint that is being closed. */
void ofi_cq_forget(struct ofi_cq *cq, struct ofi_ep *ep);

/** ofi_cq_poll_missed - a poll found nothing: after a few of them, let others run. */
void ofi_cq_poll_missed(struct ofi_cq *cq);

/* wait.c */
/* A call that blocks. */
struct ofi_wait {
    struct fabemu *fab;
    int64_t until_ms; /* INT64_MAX: without limit */
    unsigned rounds;  /* that found nothing, in a row */
};

/** ofi_wait_begin - for @timeout_ms; less than 0: without limit. */
struct ofi_wait ofi_wait_begin(struct fabemu *fab, int timeout_ms);

/**
 * ofi_wait_step - step the adapter; if there is nothing for it to do, let others run.
 * False: the time is over, and nothing was done.
 */
bool ofi_wait_step(struct ofi_wait *wait);

/** ofi_wait_sleep - the same where nothing can be polled: a short sleep. */
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
 * ofi_op_get - an operation from the pool, with everything but its request set.
 * NULL: no memory, or too many are under way. Thread: any.
 */
struct ofi_op *ofi_op_get(struct ofi_ep *ep, const struct ofi_xfer *xfer, enum ofi_count count);

/** ofi_op_put - give back an operation that was not posted. */
void ofi_op_put(struct ofi_op *op);

/** ofi_op_read - give back an operation whose entry was read. Thread: a caller of libfabric. */
void ofi_op_read(struct ofi_op *op);

/**
 * ofi_op_finish - count it, and report it or give it back.
 *
 * It is no longer the caller's. Lock-free: callbacks use it under the adapter's lock.
 */
void ofi_op_finish(struct ofi_op *op);

/** ofi_op_sends_pending - is any operation but receives under way? For closing. */
bool ofi_op_sends_pending(struct ofi_ep *ep);

/** ofi_op_abort_all - have all operations over, callbacks included. For closing. */
void ofi_op_abort_all(struct ofi_ep *ep);

/** ofi_op_cancel - see fi_cancel(). */
ssize_t ofi_op_cancel(struct ofi_ep *ep, void *context);

void ofi_op_pool_free(struct ofi_ep *ep);

/** ofi_op_claim - remember what the user claimed, under the context of @op. */
void ofi_op_claim(struct ofi_op *op, struct fabemu_message *message);
/** ofi_op_claimed - take the operation that remembers it; NULL: nothing has this context. */
struct ofi_op *ofi_op_claimed(struct ofi_ep *ep, void *context);

/* xfer.c */
/** ofi_send - start a send. -FI_EAGAIN, no room: progress, try again; -FI_EMSGSIZE; -FI_EINVAL. */
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

/** ofi_discard_claims - give up what was claimed and never received. For closing. */
void ofi_discard_claims(struct ofi_ep *ep);

/**
 * ofi_iov - @xfer's pieces in fabemu's form: at least one, maybe empty.
 * Errors: -FI_EINVAL, too many; -FI_EFAULT, one at address 0; -FI_EMSGSIZE, more than memory has.
 */
int ofi_iov(const struct ofi_xfer *xfer, struct fabemu_iov *to, unsigned *pieces, size_t *bytes);

/**
 * ofi_data_check - if these flags of an operation ask for completion data: is that allowed?
 * -FI_EOPNOTSUPP, the domain was opened with a cq_data_size of 0.
 */
int ofi_data_check(const struct ofi_ep *ep, uint64_t flags);

/** ofi_iov_copy - all pieces, one behind the other. */
void ofi_iov_copy(void *to, const struct fabemu_iov *iov, unsigned pieces);

/* rma.c */
/**
 * ofi_notice_await - let @op, of kind OFI_COUNT_NOTICE, await the next write to its endpoint that
 * carries completion data, and become its entry. The endpoint is enabled and its queues are open.
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

/** ofi_fid_init - what begins every object that the user gets. */
static inline void ofi_fid_init(struct fid *fid, size_t class, void *context, struct fi_ops *ops)
{
    fid->fclass = class;
    fid->context = context;
    fid->ops = ops;
}

/** ofi_waits_by_polling - may a queue or a counter be waited for so? Nothing else is here. */
static inline bool ofi_waits_by_polling(enum fi_wait_obj wait_obj)
{
    return wait_obj == FI_WAIT_NONE || wait_obj == FI_WAIT_UNSPEC || wait_obj == FI_WAIT_YIELD;
}

/* References count open objects; only closing looks at them, hence relaxed. */
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
