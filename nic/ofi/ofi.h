/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.h - the objects of the libfabric provider, and which threads may access their fields.
 *
 * The objects form a tree: fabric -> domain -> { av, cq, cntr, mr, ep }. Each object counts the
 * objects that were opened on it, and cannot be closed before them (-FI_EBUSY). A domain holds a
 * reference to the process's adapter. An endpoint opens two queues of the adapter, one for untagged
 * and one for tagged messages, so that a message of one kind cannot match a receive of the other.
 *
 * A posted operation is a struct ofi_op from its endpoint's pool. When the adapter completes it,
 * the same struct becomes the completion entry: it is pushed to its completion queue, and returns
 * to the pool when the entry is read. So a completion queue cannot overflow, and a callback neither
 * allocates nor locks, except that the callback for a message that arrives in a buffer for several
 * messages (multi.c) may make its pool grow. Rejected: a ring of entries in each completion queue.
 * It would have to grow under the adapter's lock, or drop entries.
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
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "nic/fabemu.h"
#include "nic/ofi/versions.h"
#include "nic/provider.h"

#define OFI_NAME              PROVIDER_NAME
#define OFI_IOV_MAX           4
#define OFI_INJECT_BYTES      ((size_t)4096)
#define OFI_ATOMIC_BYTES      OFI_INJECT_BYTES /* elements of one call, so any can be injected */
#define OFI_MESSAGE_MAX_BYTES ((size_t)1 << 39)
/* longest datagram; the adapter sends it without waiting for a receive */
#define OFI_DATAGRAM_MAX_BYTES ((size_t)8192)
#define OFI_CQ_DATA_BYTES      8
#define OFI_HAS_DATA           1u /* the mark of messages with completion data */
/* says that an address is a struct ofi_addr, which only this provider knows */
#define OFI_ADDR_FORMAT  (UINT32_C(1) << 31 | 0xfabu)
#define OFI_QUEUE_NONE   UINT16_MAX
#define OFI_NODE_SELF    (FABEMU_ANY_NODE - 1) /* in an address: this host, see addr.c */
#define OFI_PORT_MAX     32767u                /* port P stands for the queues 2P and 2P + 1 */
#define OFI_CONTEXTS_MAX 256                   /* in each direction of a scalable endpoint */
#define OFI_SLAB_OPS     128                   /* operations by which a pool grows */
#define OFI_SLABS_MAX    8192                  /* about a million operations; then -FI_EAGAIN */
/* how many reads in a row must find nothing before each further one calls fabemu_idle() */
#define OFI_POLLS_BEFORE_IDLE 4
/* how many polls of a blocking call must find nothing before each further one sleeps */
#define OFI_POLLS_BEFORE_SLEEP 4096
#define OFI_SLEEP_NS           50000

/* Capabilities of the provider, as offered by fi_getinfo(). */
#define OFI_CAPS_SIDE   (FI_SEND | FI_RECV)
#define OFI_CAPS_MEMORY (FI_RMA | FI_ATOMIC) /* they need memory keys */
#define OFI_CAPS_ACCESS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define OFI_CAPS_COMM   (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define OFI_CAPS_DOMAIN (OFI_CAPS_COMM | FI_SHARED_AV)
#define OFI_CAPS_TX                                                                     \
    (FI_MSG | FI_TAGGED | FI_SEND | OFI_CAPS_MEMORY | FI_READ | FI_WRITE | FI_TRIGGER | \
     FI_NAMED_RX_CTX | FI_COLLECTIVE)
#define OFI_CAPS_RX                                                                   \
    (FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV |    \
     OFI_CAPS_MEMORY | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT | FI_TRIGGER | \
     FI_COLLECTIVE)
#define OFI_CAPS (OFI_CAPS_TX | OFI_CAPS_RX | OFI_CAPS_DOMAIN)

/* Operation flags that an endpoint may have by default. */
/* both flags mean the same for this provider */
#define OFI_DELIVERED (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define OFI_OP_FLAGS_TX \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | OFI_DELIVERED | FI_MATCH_COMPLETE)
#define OFI_CALL_FLAGS_TX (OFI_OP_FLAGS_TX | FI_FENCE | FI_MORE)
#define OFI_OP_FLAGS_RX   (FI_COMPLETION | FI_MULTI_RECV)

/* Message orders that a program may request: sends after sends, and sends after writes. */
#define OFI_ORDERS (FI_ORDER_SAS | FI_ORDER_SAW)

#define OFI_MULTI_MIN_BYTES 64 /* default of FI_OPT_MIN_MULTI_RECV */

enum ofi_kind { OFI_UNTAGGED, OFI_TAGGED, OFI_KINDS };

/*
 * The address of an endpoint. It has a fixed length, so a program may use it as an address format.
 * The untagged queue is OFI_QUEUE_NONE in an address without queues. As a source address that means
 * any free queues.
 */
struct ofi_addr {
    /* as a source, OFI_NODE_SELF and FABEMU_ANY_NODE mean the node of this process */
    uint32_t node;
    uint16_t queue[OFI_KINDS];
    uint64_t fabric;      /* the fabric's id; 0: unknown */
    uint64_t incarnation; /* incarnation of the node; 0: any */
};
static_assert(sizeof(struct ofi_addr) == 24, "no padding in an address");

struct ofi_op;

/*
 * The lock of an object, for threads of the application; the adapter's callbacks take none. It does
 * nothing if the application promises never to make two calls on one domain at the same time
 * (FI_THREAD_DOMAIN). Open MPI promises this, unless MPI_THREAD_MULTIPLE is used.
 */
struct ofi_lock {
    pthread_mutex_t mutex;
    bool serial; /* calls are serialized, so that no lock is needed; written once */
};

/* A lock-free stack; any thread may push. */
struct ofi_stack {
    _Atomic(struct ofi_op *) top;
};

/* Wakes threads that wait for a file descriptor. */
struct ofi_signal {
    int fd;             /* an eventfd; -1: none */
    _Atomic bool armed; /* a thread may wait, so the next event must write to fd */
};

struct ofi_wait_set;

/* The part that all objects have for which a program can wait: queues, counters and wait sets. */
struct ofi_source {
    struct fid *fid;
    /* the adapter whose steps lead to events of this object; NULL: ready() steps all adapters */
    struct fabemu *fab;
    /* returns whether there is an event that the program has not read */
    bool (*ready)(struct ofi_source *source);
    /* without fab: as fabemu_block(), for all adapters */
    void (*block)(struct ofi_source *source);
    enum fi_wait_obj wait_obj;
    struct ofi_signal own_signal, *signal; /* own_signal, or that of a wait set */
    struct ofi_wait_set *set;              /* NULL: none */
    _Atomic uint32_t refs;                 /* endpoints and poll sets that use it */
};

struct ofi_pep;
struct ofi_request;

struct ofi_fabric {
    struct fid_fabric fabric_fid;
    _Atomic uint32_t refs; /* number of open domains and event queues */

    pthread_mutex_t request_lock; /* protects the two lists below; taken last */
    struct ofi_pep *peps;         /* all passive endpoints */
    struct ofi_request *requests; /* for connections; see cm.h */
};

struct ofi_domain {
    struct fid_domain domain_fid;
    struct ofi_fabric *fabric;
    struct fabemu *fab;   /* the domain's reference to the adapter */
    uint32_t addr_format; /* of the addresses in address vectors */
    uint64_t fabric_hash; /* identifies the fabric in a struct ofi_addr */
    bool serial;          /* the application serializes its calls on this domain */
    bool by_address;      /* peers name memory by its address, not by its offset */
    bool chosen_keys;     /* the application chooses the keys of regions */
    bool cq_data;         /* FI_REMOTE_CQ_DATA may be used, because cq_data_size was not 0 */
    /* regions with FI_RMA_EVENT cannot be accessed before fi_mr_enable() (FI_MR_RMA_EVENT) */
    bool enables_regions;
    _Atomic uint32_t refs; /* number of objects opened on this domain */

    struct ofi_lock lock;   /* protects the fields below; taken before the lock of an endpoint */
    struct ofi_work *works; /* deferred work, newest first; some of it may have ended */
    uint32_t work_count;    /* length of the list */
    uint32_t work_sweep_at; /* length at which the ended work is freed */
};

/* What an fi_addr_t names: an entry of an address vector. */
struct ofi_peer {
    uint32_t node; /* FABEMU_ANY_NODE: the entry was removed */
    uint16_t queue[OFI_KINDS];
    uint64_t incarnation; /* incarnation of the node; 0: any */
};

/*
 * A counter is a tolerant event of the adapter. So the adapter itself can start operations that
 * wait for the counter. Whatever counts in it or is triggered by it holds a reference
 * (source.refs).
 */
struct ofi_cntr {
    struct fid_cntr cntr_fid;
    struct ofi_domain *domain;
    struct ofi_source source;
    struct fabemu_event event; /* count: operations that completed; failures: those that failed */
    _Atomic uint64_t seen;     /* sum of both when the program last read the counter */
};

struct ofi_cq {
    struct fid_cq cq_fid;
    struct ofi_domain *domain;
    struct ofi_source source;
    size_t entry_bytes;     /* size of an entry in the requested format */
    _Atomic unsigned empty; /* reads in a row that found nothing; a lost update is harmless */
    _Atomic bool signalled; /* fi_cq_signal() was called: the next fi_cq_sread() returns */
    /* completed operations, newest first; callbacks push, readers take all at once */
    struct ofi_stack arrived;

    struct ofi_lock lock;  /* for the threads that read entries; protects oldest and newest */
    struct ofi_op *oldest; /* operations taken from arrived, in the order of arrival */
    struct ofi_op *newest;

    /* for fi_cq_strerror(): text of the error that was read last */
    char why[96];
    int why_of; /* prov_errno of that error */
};

/* One direction of an endpoint. Written before the endpoint is enabled. */
struct ofi_side {
    struct ofi_cq *cq;
    bool selective; /* only operations with FI_COMPLETION get an entry */
};

/* Which counter counts an operation. fi_ep_bind() accepts no counter for OFI_COUNT_NOTICE. */
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
struct ofi_stx;
struct ofi_sep;
struct ofi_cm;
struct ofi_work;

/* Operations that can be used, and those in use. */
struct ofi_pool {
    struct ofi_stack spare; /* operations returned to the pool; any thread may push */
    struct ofi_op *free;    /* operations that can be used; filled from spare when empty */
    struct ofi_slab *slabs; /* the memory of all operations */
    uint32_t slab_count;
};

/* What the program has of an endpoint: the endpoint itself, or an alias with flags of its own. */
struct ofi_handle {
    struct fid_ep ep_fid;
    struct ofi_ep *ep;
    uint64_t tx_flags, rx_flags; /* for the calls that have no flags argument */
};

/*
 * An endpoint. A scalable endpoint, its contexts, and a shared receive context are endpoints, too
 * (scalable.c, share.c).
 */
struct ofi_ep {
    struct ofi_handle handle;
    struct ofi_domain *domain;
    _Atomic uint32_t aliases;  /* number of open aliases */
    bool sends, receives;      /* one of them is false in a context, both in a scalable endpoint */
    bool after_writes;         /* FI_ORDER_SAW: a send waits for writes in flight */
    bool shares_tx, shares_rx; /* opened for shared contexts, which must be bound */
    struct ofi_stx *stx;       /* the bound shared contexts; NULL: none */
    struct ofi_srx *srx;
    /* protected by the lock of the shared receive context: the endpoints that began to use it just
       before and after this one; whether this one uses it, which it does while it is enabled */
    struct ofi_ep *srx_previous, *srx_next;
    bool srx_joined;
    struct ofi_sep *sep; /* of a context: its scalable endpoint; else NULL */
    unsigned index;      /* of a context */
    uint64_t caps;
    uint32_t addr_format; /* of the addresses that fi_setname() and others take and return */
    size_t message_max_bytes;
    /* the address that was requested for the endpoint; once it is enabled, its own address */
    struct ofi_addr source;
    /* FI_EP_MSG: the address that fi_getname() returns, if it has queues. Its data uses others */
    struct ofi_addr name;
    bool enabled;
    _Atomic bool closing; /* the endpoint is being closed, so completions are dropped */
    struct ofi_av *av;
    struct ofi_side tx;
    struct ofi_side rx;
    struct ofi_cntr *cntr[OFI_COUNTS];
    struct fabemu_queue *queue[OFI_KINDS];
    /* reports on the connection, or that the endpoint has joined groups; NULL: none is bound */
    struct fid_eq *eq;
    /* FI_EP_MSG, else NULL: the connection, and the request of a client that this endpoint may
       accept */
    struct ofi_cm *cm;
    struct ofi_request *request;
    struct fabemu_queue *join_queue; /* FI_COLLECTIVE: for the messages of join.c; else NULL */
    size_t multi_min_bytes;          /* FI_OPT_MIN_MULTI_RECV */
    /* operations for messages that arrive in buffers for several messages; protected by the
       adapter's lock */
    struct ofi_pool arrivals;

    struct ofi_lock lock; /* protects the fields below; never taken by a callback */
    struct ofi_pool pool; /* operations for the application's calls */
    /* operations that keep a claimed message until it is received; found by their context */
    struct ofi_op *claims;
    /* the groups of the endpoint, found by their addresses; NULL where an address is free */
    struct ofi_mc **mcs;
    uint32_t mc_count; /* length of the array */
};

/* The condition for the start of an operation. */
struct ofi_trigger {
    struct ofi_cntr *cntr; /* NULL: none, it starts at once */
    uint64_t threshold;
    const void *context; /* of the call, by which the operation can be cancelled */
    /* the deferred work that the operation executes; NULL: it was posted with FI_TRIGGER */
    struct ofi_work *work;
};

/* An operation. It is free, then in flight, then an entry of a completion queue. */
struct ofi_op {
    struct fabemu_req req; /* req.context is the one that the user passed */
    struct ofi_op *next;   /* next in the pool, in the claims or in a completion queue */
    /* the endpoint at which it was posted; once completed, the one at which it is reported */
    struct ofi_ep *ep;
    /* a pending receive of a shared context, which has no endpoint yet; else NULL */
    struct ofi_srx *srx;
    struct ofi_pool *pool;
    struct ofi_cq *cq;              /* where it is reported; NULL: nowhere */
    struct ofi_cntr *cntr;          /* what counts it; NULL: nothing */
    _Atomic uint32_t *hold;         /* a reference that the operation releases; NULL: none */
    void *buf;                      /* receives: the buffer, which the entry reports */
    size_t room;                    /* receives: size of the buffer */
    uint64_t expected;              /* parts of collectives: the data that a message must have */
    uint64_t flags;                 /* flags of the entry, such as FI_SEND | FI_TAGGED */
    struct fabemu_message *message; /* the claimed message, while the operation is in the claims */
    int error;                      /* positive FI_E number; 0: success */
    bool wanted;                    /* success must be reported, too, not only an error */
    /* called when the adapter has completed the request and `error` is set */
    void (*done)(struct ofi_op *op);
    /* a part: the operation that it belongs to; a message in a buffer for several messages: the
       operation of the buffer */
    struct ofi_op *whole;
    /* pending operations that belong to this one, and 1 for itself; see ofi_op_split() and
       multi.c */
    _Atomic uint32_t parts;
    /* when the operation starts; none in all operations in the pool */
    struct ofi_trigger trigger;
    enum ofi_kind kind;
    /* a posted receive or a triggered operation, which fi_cancel() may cancel */
    _Atomic bool cancellable;
    void *large_copy; /* NULL, or OFI_INJECT_BYTES for injected data; kept for the next use */
    unsigned char copy[FABEMU_INJECT_BYTES]; /* for injected data that fits */
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
    bool silent; /* fi_inject(): it gets no completion entry */
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
 * S1 pairs with S2: a thread that takes the stack sees everything that was written by the threads
 * that pushed, including the links. Stacks are only taken as a whole, so there is no ABA problem.
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

/* defined in prov.c; not const, because libfabric modifies its field context */
extern struct fi_provider ofi_prov;

/*
 * Protocol and limits that fi_getinfo() offers. The calls enforce the limits: OFI_INJECT_BYTES,
 * OFI_IOV_MAX and OFI_MESSAGE_MAX_BYTES, or lower ones under the name of a provider that has them.
 */
struct ofi_limits {
    const char *name;  /* of the provider */
    uint32_t protocol; /* of its endpoints, a number of FI_PROTO_*, or OFI_ADDR_FORMAT */
    size_t inject_bytes;
    size_t iovs; /* pieces of a message, or of memory */
    size_t message_bytes;
};

/** ofi_limits - return the protocol and limits under the provider's present name. */
const struct ofi_limits *ofi_limits(void);

/** ofi_errno - return the positive FI_E number for a negative errno of fabemu.h. */
int ofi_errno(int err);

/** ofi_report - print a line on stderr. Only the first call in a process prints. */
void ofi_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/**
 * ofi_socket_check - check that a fabric listens at $FABEMU_SOCKET. If the variable is set and no
 * fabric listens there, print the reason. Errors: -FI_ENODATA.
 */
int ofi_socket_check(void);

/* info.c */
/**
 * ofi_check_tx, ofi_check_rx - check that the provider offers these attributes, if not NULL, to an
 * endpoint with the capabilities @caps. Errors: -FI_ENODATA.
 */
int ofi_check_tx(const struct fi_tx_attr *tx, uint64_t caps);
int ofi_check_rx(const struct fi_rx_attr *rx, uint64_t caps);
int ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **info);

/* addr.c */
/* room for the longest text of an address, with the terminating zero */
#define OFI_ADDR_TEXT_BYTES 64

/* any node and any free queues */
extern const struct ofi_addr ofi_addr_any;

/** ofi_addr_has_queues - return whether the address names queues, rather than any free ones. */
static inline bool ofi_addr_has_queues(const struct ofi_addr *addr)
{
    return addr->queue[OFI_UNTAGGED] != OFI_QUEUE_NONE;
}

/** ofi_addr_port, ofi_addr_set_port - the port that stands for the queues; 0: any free queues. */
uint32_t ofi_addr_port(const struct ofi_addr *addr);
void ofi_addr_set_port(struct ofi_addr *addr, uint32_t port);

/**
 * ofi_addr_format - return the format with which the provider answers this fi_info.addr_format;
 * FI_FORMAT_UNSPEC: the format is not supported.
 */
uint32_t ofi_addr_format(uint32_t format);

/**
 * ofi_addr_read - read an address of @bytes in @format. Its size must be exactly that of the
 * format; that of a text includes the terminating zero.
 * ofi_addr_read_whole - read an address for which the caller gave no size.
 * ofi_addr_read_element - read an element of an array as fi_av_insert() takes it.
 * @format: a result of ofi_addr_format(). Errors: -FI_EINVAL.
 */
int ofi_addr_read(uint32_t format, const void *from, size_t bytes, struct ofi_addr *ret);
int ofi_addr_read_whole(uint32_t format, const void *from, struct ofi_addr *ret);
int ofi_addr_read_element(uint32_t format, const void *array, size_t index, struct ofi_addr *ret);

/**
 * ofi_addr_copy - write an address as fi_getname() and fi_av_lookup() must: cut to *@bytes, which
 * is set to the full size. Errors: -FI_ETOOSMALL, it was cut; -FI_EADDRNOTAVAIL, the format has no
 * address for this node.
 * ofi_addr_dup - replace *@ret by an address in new memory. Errors: also -FI_ENOMEM.
 */
int ofi_addr_copy(uint32_t format, const struct ofi_addr *addr, void *to, size_t *bytes);
int ofi_addr_dup(uint32_t format, const struct ofi_addr *addr, void **ret, size_t *bytes);

/**
 * ofi_addr_text - print an address as fi_av_straddr() must, cut to @bytes. Returns the full size
 * with the zero.
 */
size_t ofi_addr_text(uint32_t format, const struct ofi_addr *addr, char *text, size_t bytes);

/**
 * ofi_addr_parse - make an address from names, as described in addr.c.
 * @node: NULL: any node. @service: NULL: any free queues. @flags: may have FI_NUMERICHOST.
 * Errors: -FI_ENODATA, a name is invalid.
 */
int ofi_addr_parse(const char *node, const char *service, uint64_t flags, struct ofi_addr *ret);

/**
 * ofi_addr_dest - check that messages can be sent to @addr, and replace OFI_NODE_SELF by the
 * process of this host that has opened an endpoint there, which waits for the fabric's reply.
 * Errors: -FI_EINVAL, it names no node or no queues; -FI_EHOSTUNREACH, it is no address of this
 * fabric; -FI_ECONNREFUSED, no process of this host has such an endpoint.
 */
int ofi_addr_dest(struct ofi_addr *addr, struct fabemu *fab);

/**
 * ofi_addr_is_here - return whether an endpoint of this process may have this source address.
 * ofi_addr_of_source - read the source address for a new endpoint. Errors: -FI_EINVAL.
 */
bool ofi_addr_is_here(const struct ofi_addr *source, const struct fabemu_info *info);
int ofi_addr_of_source(const struct fi_info *info, struct ofi_addr *ret);

/**
 * ofi_is_pep - return whether @fid is a passive endpoint of this provider. ofi_pep_addr() - get the
 * address of a passive endpoint, which is fixed from now on. Errors: as fi_getname().
 * ofi_pep_addr_of() - as ofi_pep_addr(), for a handle that may be wrong. Errors: also -FI_EINVAL,
 * the fabric has no such passive endpoint.
 */
bool ofi_is_pep(const struct fid *fid);
int ofi_pep_addr(struct fid *fid, struct ofi_addr *ret);
int ofi_pep_addr_of(struct ofi_fabric *fabric, const struct fid *handle, struct ofi_addr *ret);

/** ofi_addr_hash - return a number that identifies this run of the fabric in addresses; never 0. */
uint64_t ofi_addr_hash(const struct fabemu_info *info);

/* source.c */
/**
 * ofi_source_open - initialise @source for an object that is opened. fid, fab and ready are set.
 * @wait_set: with FI_WAIT_SET, the set of which the object becomes a member.
 * Errors: -FI_ENOSYS, this kind of waiting is not supported; -FI_EINVAL; others of eventfd().
 */
int ofi_source_open(struct ofi_source *source, enum fi_wait_obj wait_obj,
                    struct fid_wait *wait_set);
void ofi_source_close(struct ofi_source *source);

/** ofi_source_of - return the source of @fid. NULL: @fid is NULL, or one cannot wait for it. */
struct ofi_source *ofi_source_of(struct fid *fid);

/** ofi_source_control - implement fi_control() of these objects. */
int ofi_source_control(struct ofi_source *source, int command, void *arg);

/** ofi_source_step - step the source's adapter, and return whether there is an event. */
bool ofi_source_step(struct ofi_source *source);

/** ofi_source_block - as fabemu_block(), for the source's adapters. */
void ofi_source_block(struct ofi_source *source);

/** ofi_source_wake - wake the threads that wait for an event. Thread: any, callbacks too. */
void ofi_source_wake(struct ofi_source *source);

int ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

/* set.c */
int ofi_wait_set_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set);
int ofi_poll_set_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set);
/** ofi_wait_set_add, ofi_wait_set_remove - enter or remove a source. Errors: -FI_ENOMEM. */
int ofi_wait_set_add(struct ofi_wait_set *set, struct ofi_source *source);
void ofi_wait_set_remove(struct ofi_wait_set *set, struct ofi_source *source);

struct ofi_wait_set *ofi_wait_set_of(struct fid *fid);
struct ofi_source *ofi_wait_set_source(struct ofi_wait_set *set);

/* eq.c */
int ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                void *context);
struct ofi_source *ofi_eq_source(struct fid *fid);
/** ofi_eq_bind - let *@slot, which must be NULL, refer to the event queue. Errors: -FI_EINVAL. */
int ofi_eq_bind(struct fid *eq, struct fid_eq **slot);
void ofi_eq_unbind(struct fid_eq **slot);
/**
 * ofi_eq_report, ofi_eq_report_error - append a copy of an event, or of an error. Thread: any.
 * Errors: -FI_ENOMEM.
 */
int ofi_eq_report(struct fid_eq *eq, uint32_t code, const void *entry, size_t bytes);
int ofi_eq_report_error(struct fid_eq *eq, const struct fi_eq_err_entry *err);

/* fabric.c */
int ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* av.c */
struct ofi_av;
int ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                void *context);
struct ofi_av *ofi_av_of(struct fid *fid);
void ofi_av_hold(struct ofi_av *av);
void ofi_av_release(struct ofi_av *av);

/* av_set.c */
/** ofi_av_set_open - implement fi_av_set(). */
int ofi_av_set_open(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set,
                    void *context);

/** ofi_av_count - return an upper limit of the addresses: one more than the highest. */
fi_addr_t ofi_av_count(const struct ofi_av *av);
const struct ofi_domain *ofi_av_domain(const struct ofi_av *av);
/** ofi_av_is_table - return whether the type of the vector is FI_AV_TABLE. */
bool ofi_av_is_table(const struct ofi_av *av);

/**
 * ofi_av_peer - find the peer that @addr names. If @addr names a receive context of it (by
 * fi_rx_addr()), return the queues of that context. Lock-free. Errors: -FI_EINVAL, no such entry.
 */
int ofi_av_peer(struct ofi_av *av, fi_addr_t addr, struct ofi_peer *ret);

/**
 * ofi_av_endpoint - as ofi_av_peer(), but return the queues in the peer's address even if @addr
 * names a receive context. All contexts send from these queues.
 */
int ofi_av_endpoint(struct ofi_av *av, fi_addr_t addr, struct ofi_peer *ret);

/**
 * ofi_av_find - return the fi_addr_t of the entry that has @from's node and its queue of this kind,
 * or FI_ADDR_NOTAVAIL.
 */
fi_addr_t ofi_av_find(struct ofi_av *av, enum ofi_kind kind, const struct ofi_peer *from);

/* cq.c */
int ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                void *context);

/** ofi_cq_forget - drop the entries of an endpoint that is being closed. */
void ofi_cq_forget(struct ofi_cq *cq, struct ofi_ep *ep);

/** ofi_cq_poll_missed - count a poll that found nothing; after a few in a row, yield the core. */
void ofi_cq_poll_missed(struct ofi_cq *cq);

/* wait.c */
/* State of a call that blocks. */
struct ofi_wait {
    struct fabemu *fab; /* NULL: the caller steps */
    int64_t until_ms;   /* INT64_MAX: no limit */
    unsigned rounds;    /* calls of fabemu_progress() in a row that moved nothing */
    bool stepped;       /* ofi_wait_step() was called */
};

/** ofi_wait_begin - begin to wait for at most @timeout_ms; below 0: without limit. */
struct ofi_wait ofi_wait_begin(struct fabemu *fab, int timeout_ms);
/** ofi_wait_drain - begin to wait for operations that end when an object closes: bound `drain`. */
struct ofi_wait ofi_wait_drain(struct fabemu *fab);

/**
 * ofi_wait_step - step the adapter, or let other threads run if there is nothing to do. Returns
 * false, and does nothing, if the time has passed. The first call always steps, so a program that
 * polls with a time limit of 0 makes progress.
 */
bool ofi_wait_step(struct ofi_wait *wait);

/* cntr.c */
int ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                  void *context);

/** ofi_cntr_of - find the counter. NULL: @cntr is NULL, or not a counter of this domain. */
struct ofi_cntr *ofi_cntr_of(const struct ofi_domain *domain, struct fid_cntr *cntr);

/** ofi_cntr_bind - let *@slot, which must be NULL, refer to the counter. Errors: -FI_EINVAL. */
int ofi_cntr_bind(const struct ofi_domain *domain, struct fid *cntr, struct ofi_cntr **slot);
void ofi_cntr_unbind(struct ofi_cntr **slot);

/* work.c: triggered operations and deferred work */
/**
 * ofi_trigger_of - read the trigger from the context of a call with FI_TRIGGER.
 * Errors: -FI_EINVAL; -FI_ENOSYS, this type of trigger is not supported.
 */
int ofi_trigger_of(const struct ofi_ep *ep, const struct ofi_xfer *xfer, struct ofi_trigger *ret);

/** ofi_work_apply - set in @op how an operation that executes deferred work is reported. */
void ofi_work_apply(struct ofi_op *op);

/**
 * ofi_work_complete - set the context that the completion entry of @op reports. If the work was
 * cancelled, let nothing count or report @op.
 */
void ofi_work_complete(struct ofi_op *op);

/** ofi_work_end - the last use of the work by its operation, which is complete. */
void ofi_work_end(struct ofi_work *work);

/** ofi_work_control - implement fi_control() of a domain for deferred work. */
int ofi_work_control(struct ofi_domain *domain, int command, void *arg);

/** ofi_work_free - free all work of a domain that is being closed. It has ended. */
void ofi_work_free(struct ofi_domain *domain);

/* mr.c */
extern struct fi_ops_mr ofi_mr_ops;

/* conn.c: connected endpoints */
extern struct fi_ops_cm ofi_conn_ops;
int ofi_conn_open(struct ofi_ep *ep, const struct fi_info *info);
int ofi_conn_enable(struct ofi_ep *ep);
void ofi_conn_close(struct ofi_ep *ep);
int ofi_conn_peer(const struct ofi_ep *ep, struct ofi_peer *ret);

/* alias.c */
/** ofi_alias_open - implement FI_ALIAS for an endpoint or an alias. */
int ofi_alias_open(struct ofi_handle *of, struct fi_alias *alias);

/* share.c: shared contexts */
int ofi_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                 void *context);
int ofi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                 void *context);
/** ofi_share_bind, ofi_share_unbind - let an endpoint use a shared context, or none any more. */
int ofi_share_bind(struct ofi_ep *ep, struct fid *fid, uint64_t flags);
void ofi_share_unbind(struct ofi_ep *ep);
/**
 * ofi_srx_join - receive the messages to the queues of @ep, which are open, by the shared context.
 * Errors: -FI_EINVAL, the context is used with another address vector.
 * ofi_srx_leave - report nothing at @ep any more. Then close the queues, so that no callback still
 * reports at @ep.
 */
int ofi_srx_join(struct ofi_ep *ep);
void ofi_srx_leave(struct ofi_ep *ep);
/** ofi_srx_of - return the shared context of which @ep is the endpoint; NULL: it is another one. */
struct ofi_srx *ofi_srx_of(struct ofi_ep *ep);
/**
 * ofi_srx_assign - choose the endpoint at which @op is reported: the one to which the message was
 * sent or, without a message, the one that has used the shared context longest. Returns false if
 * that endpoint is closing, or there is none.
 * Lock: the adapter's, or that of the shared context.
 */
bool ofi_srx_assign(struct ofi_op *op);

/* scalable.c: scalable endpoints */
int ofi_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                 void *context);
int ofi_tx_context(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx,
                   void *context);
int ofi_rx_context(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx,
                   void *context);
/** ofi_sep_share_av - let a context use the address vector of its endpoint, if that has one. */
void ofi_sep_share_av(struct ofi_ep *context);
/** ofi_sep_queues - let a context use queues of its endpoint, which are opened if necessary. */
int ofi_sep_queues(struct ofi_ep *context);
/** ofi_sep_forget - the context is being closed. */
void ofi_sep_forget(struct ofi_ep *context);

/* ep.c */
/** ofi_ep_check - check what a new endpoint requires, and read its address. */
int ofi_ep_check(const struct fi_info *info, struct ofi_addr *source);
/** ofi_ep_init - initialise a zeroed endpoint. It holds a reference to the domain. */
void ofi_ep_init(struct ofi_ep *ep, struct ofi_domain *domain, const struct fi_info *info,
                 size_t class, void *context);
/**
 * ofi_ep_queues_open - open two queues for each of @contexts, at the source address of @ep or
 * anywhere, and complete that address.
 */
int ofi_ep_queues_open(struct ofi_ep *ep, unsigned contexts, struct fabemu_queue **queue);
int ofi_ep_bind(struct fid *fid, struct fid *other, uint64_t flags);
/** ofi_ep_drain - end all operations, then close the endpoint's queues. */
void ofi_ep_drain(struct ofi_ep *ep);
/** ofi_ep_free - free an endpoint to which nothing is bound. */
void ofi_ep_free(struct ofi_ep *ep);
/** ofi_ep_control - implement fi_control() of an endpoint or alias. */
int ofi_ep_control(struct fid *fid, int command, void *arg);
/**
 * ofi_ep_peer - find the peer of a call: the one that @addr names or, of a connected endpoint, its
 * only one. Errors: -FI_EINVAL, -FI_ENOTCONN; -FI_EOPNOTSUPP, @ep cannot send.
 */
int ofi_ep_peer(const struct ofi_ep *ep, fi_addr_t addr, struct ofi_peer *ret);
int ofi_ep_setname(fid_t fid, void *addr, size_t bytes);
int ofi_ep_getname(fid_t fid, void *addr, size_t *bytes);
/** ofi_opt_get - implement fi_getopt() for the endpoint option @which, a size_t. */
int ofi_opt_get(int level, int name, int which, size_t is, void *value, size_t *bytes);
int ofi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

/* op.c */
/**
 * ofi_op_get - take an operation from the pool and prepare it for @xfer. NULL: there is no memory,
 * or too many operations are in use. Thread: any.
 */
struct ofi_op *ofi_op_get(struct ofi_ep *ep, const struct ofi_xfer *xfer, enum ofi_count count);

/**
 * ofi_op_begin - as ofi_op_get(), for an operation that a call with FI_TRIGGER arms on a counter.
 * Errors: -FI_EAGAIN, ofi_op_get() would return NULL; others of ofi_trigger_of().
 */
int ofi_op_begin(struct ofi_ep *ep, const struct ofi_xfer *xfer, enum ofi_count count,
                 struct ofi_op **ret);

/** ofi_op_drop - return an operation to the pool that could not be posted. */
void ofi_op_drop(struct ofi_op *op);

/**
 * ofi_op_arrival - take an operation for a message that arrives in the buffer of @multi, from the
 * pool for such messages. The caller initialises it. NULL: as ofi_op_get(). Thread: the one that
 * steps the adapter, under its lock.
 */
struct ofi_op *ofi_op_arrival(struct ofi_op *multi);

/** ofi_op_put - return an operation to the pool. Thread: any. */
void ofi_op_put(struct ofi_op *op);

/** ofi_op_read - after its entry was read, return @op to the pool. Thread: the application's. */
void ofi_op_read(struct ofi_op *op);

/**
 * ofi_op_split - begin to execute @whole as @parts operations. The caller starts each of them with
 * ofi_op_part(). @whole completes when all parts have completed; if one failed, with its error.
 * ofi_op_split_end - call it after the last part was started, or with the @error (positive) of the
 * first part that could not be started and the number of those that were not. Afterwards the caller
 * must not use @whole.
 */
void ofi_op_split(struct ofi_op *whole, uint32_t parts);
void ofi_op_split_end(struct ofi_op *whole, uint32_t missing, int error);

/**
 * ofi_op_part - take an operation for a part of @whole from the pool. NULL: as ofi_op_get().
 * ofi_op_part_done - op->done of a part. A caller that sets another function calls it from there.
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
 * ofi_op_lost - report at @ep, by an error entry without a context, that the network has dropped a
 * message of a send that was complete, or was injected. @failed: describes the error. Thread: the
 * one that steps the adapter, under its lock. Source: fi_cq(3), error completions are generated for
 * all operations, including those for which no completion was requested.
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
 * ofi_op_disarm - cancel the operations that wait for a counter: those with this context, or all.
 * Errors: -FI_ENOENT, there is none, or they have started.
 */
int ofi_op_disarm(struct ofi_ep *ep, bool all, const void *context);

/** ofi_op_cancel - implement fi_cancel(). */
ssize_t ofi_op_cancel(struct ofi_ep *ep, void *context);

void ofi_op_pool_free(struct ofi_ep *ep);

/** ofi_op_claim - keep the claimed @message in @op, to be found by the context of @op. */
void ofi_op_claim(struct ofi_op *op, struct fabemu_message *message);
/**
 * ofi_op_claimed - return, and forget, the operation with this context that keeps a claimed
 * message; NULL: there is none.
 */
struct ofi_op *ofi_op_claimed(struct ofi_ep *ep, void *context);

/* xfer.c */
/**
 * ofi_send - start a send.
 * Errors: -FI_EAGAIN, it cannot be started now: make progress and try again; -FI_EMSGSIZE;
 * -FI_EINVAL.
 */
ssize_t ofi_send(struct ofi_ep *ep, const struct ofi_xfer *xfer);

/** ofi_recv - post a receive. */
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
 * Errors: -FI_EINVAL, there are too many; -FI_EFAULT, one is at address 0, and the pieces before it
 * were converted; -FI_EMSGSIZE, their sum is above SIZE_MAX.
 */
int ofi_iov(const struct ofi_xfer *xfer, struct fabemu_iov *to, unsigned *pieces, size_t *bytes);

/**
 * ofi_data_check - check that completion data is allowed if @flags request it. Errors:
 * -FI_EOPNOTSUPP, the domain was opened with a cq_data_size of 0.
 */
int ofi_data_check(const struct ofi_ep *ep, uint64_t flags);

/** ofi_iov_copy - copy all pieces into one buffer. */
void ofi_iov_copy(void *to, const struct fabemu_iov *iov, unsigned pieces);

/**
 * ofi_iov_slice - store in @to (OFI_IOV_MAX) the @bytes at @offset of the pieces @from. Returns the
 * number of pieces, at least 1.
 */
unsigned ofi_iov_slice(const struct fabemu_iov *from, unsigned pieces, size_t offset, size_t bytes,
                       struct fabemu_iov *to);

/* multi.c */
/** ofi_multi_post - post @op as a buffer for several messages. Errors: as fabemu_recv_multi(). */
int ofi_multi_post(struct ofi_op *op, const struct ofi_xfer *xfer, struct fabemu_source from);

int ofi_multi_setopt(fid_t fid, int level, int name, const void *value, size_t bytes);

/* rma.c */
/**
 * ofi_notice_await - let @op wait for the next write to its endpoint that carries completion data,
 * and become the entry that reports it. @op is of kind OFI_COUNT_NOTICE; the endpoint's queues are
 * open.
 */
void ofi_notice_await(struct ofi_op *op);

/* atomic.c */
/** ofi_type_find - find the type of fabemu.h and the size of an element. Errors: -FI_EOPNOTSUPP. */
int ofi_type_find(enum fi_datatype type, unsigned *ret, size_t *bytes);

/** ofi_atomic_query - implement fi_query_atomic(). */
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

static inline struct ofi_handle *ofi_handle_of(struct fid_ep *ep)
{
    return container_of(ep, struct ofi_handle, ep_fid);
}

static inline struct ofi_ep *ofi_ep_of(struct fid_ep *ep)
{
    return ofi_handle_of(ep)->ep;
}

static inline struct ofi_ep *ofi_ep_of_fid(struct fid *fid)
{
    return ofi_ep_of(container_of(fid, struct fid_ep, fid));
}

/**
 * ofi_op_target - let @op take place with @peer. Its endpoint's counters count @op if it is the
 * @last part of its call.
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

/** ofi_fid_init - initialise the part that all objects have. */
static inline void ofi_fid_init(struct fid *fid, size_t class, void *context, struct fi_ops *ops)
{
    fid->fclass = class;
    fid->context = context;
    fid->ops = ops;
}

/*
 * Reference counts of open objects. Only the close functions read them. O6 pairs with O7: when a
 * thread finds no reference, all accesses of other threads to the object have happened before, so
 * the thread may free the object.
 */
static inline void ofi_hold(_Atomic uint32_t *refs)
{
    atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

static inline void ofi_release(_Atomic uint32_t *refs)
{
    atomic_fetch_sub_explicit(refs, 1, memory_order_release); /* O6 */
}

static inline bool ofi_held(_Atomic uint32_t *refs)
{
    return atomic_load_explicit(refs, memory_order_acquire) != 0; /* O7 */
}

#endif
