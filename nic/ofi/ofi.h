/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.h - the libfabric provider: its limits, locks and references, and its two top objects,
 * fabrics and domains. Other headers declare the other objects: addr.h, source.h, cq.h, op.h, ep.h,
 * and for special uses table.h, cm.h and coll.h.
 *
 * The objects form a tree: fabric -> domain -> { av, cq, cntr, mr, ep }. Each object counts the
 * objects that were opened on it, and cannot be closed before them (-FI_EBUSY). A domain holds a
 * reference to the process's adapter. An endpoint opens two queues of the adapter, one for untagged
 * and one for tagged messages, so that a message of one kind cannot match a receive of the other.
 *
 * A posted operation is a struct ofi_op from its endpoint's pool. When the adapter completes it,
 * the same struct becomes the completion entry: it is pushed to its completion queue, and returns
 * to the pool when the entry is read. So a completion queue cannot overflow, and the callbacks of
 * operations neither allocate memory nor take locks. There is one exception: for a message that
 * arrives in a buffer for several messages (multi.c), or that was lost, the callback may make a
 * pool grow. Rejected: a ring of entries in each completion queue. It would have to grow under the
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
#define OFI_ATOMIC_BYTES      OFI_INJECT_BYTES /* size of operands: any call can be injected */
#define OFI_MESSAGE_MAX_BYTES ((size_t)1 << 39)
/* longest datagram; the adapter sends it without waiting for a receive */
#define OFI_DATAGRAM_MAX_BYTES ((size_t)8192)
#define OFI_CQ_DATA_BYTES      8
#define OFI_HAS_DATA           1u  /* marks a message with completion data */
#define OFI_CONTEXTS_MAX       256 /* maximum in each direction of a scalable endpoint */

/* Capabilities of the provider, as offered by fi_getinfo(). */
#define OFI_CAPS_SIDE   (FI_SEND | FI_RECV)
#define OFI_CAPS_MEMORY (FI_RMA | FI_ATOMIC) /* these need memory keys */
#define OFI_CAPS_ACCESS (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define OFI_CAPS_COMM   (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define OFI_CAPS_DOMAIN (OFI_CAPS_COMM | FI_SHARED_AV)
#define OFI_CAPS_TX                                                                     \
    (FI_MSG | FI_TAGGED | FI_SEND | OFI_CAPS_MEMORY | FI_READ | FI_WRITE | FI_TRIGGER | \
     FI_NAMED_RX_CTX | FI_COLLECTIVE)
#define OFI_CAPS_RX                                                                                \
    (FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_SOURCE_ERR | FI_MULTI_RECV | \
     OFI_CAPS_MEMORY | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT | FI_TRIGGER |              \
     FI_COLLECTIVE)
#define OFI_CAPS (OFI_CAPS_TX | OFI_CAPS_RX | OFI_CAPS_DOMAIN)

/*
 * Operation flags that an endpoint may have by default. The two flags of OFI_DELIVERED mean the
 * same for this provider.
 */
#define OFI_DELIVERED (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define OFI_OP_FLAGS_TX \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | OFI_DELIVERED | FI_MATCH_COMPLETE)
#define OFI_CALL_FLAGS_TX (OFI_OP_FLAGS_TX | FI_FENCE | FI_MORE)
#define OFI_OP_FLAGS_RX   (FI_COMPLETION | FI_MULTI_RECV)

/* Message orders that a program may request: sends after sends, and sends after writes. */
#define OFI_ORDERS (FI_ORDER_SAS | FI_ORDER_SAW)

struct ofi_op;
struct ofi_pep;
struct ofi_request;
struct ofi_work;

/*
 * The lock of an object, for threads of the application; the adapter's callbacks take none. It does
 * nothing if the application promises never to make two calls on one domain at the same time
 * (FI_THREAD_DOMAIN). Open MPI promises this, unless MPI_THREAD_MULTIPLE is used.
 */
struct ofi_lock {
    pthread_mutex_t mutex;
    bool serial; /* calls are serialized, so that no lock is needed; written once */
};

struct ofi_fabric {
    struct fid_fabric fabric_fid;
    _Atomic uint32_t refs; /* number of objects opened on this fabric */

    pthread_mutex_t request_lock; /* protects the two lists below */
    struct ofi_pep *peps;         /* all passive endpoints */
    struct ofi_request *requests; /* all requests for connections; see cm.h */
};

struct ofi_domain {
    struct fid_domain domain_fid;
    struct ofi_fabric *fabric;
    struct fabemu *fab;   /* the domain's reference to the adapter */
    uint32_t addr_format; /* format of the addresses in address vectors */
    uint64_t fabric_hash; /* identifies the fabric in a struct ofi_addr */
    bool serial;          /* the application serializes its calls on this domain */
    bool by_address;      /* peers name memory by its address, not by its offset */
    bool chosen_keys;     /* the application chooses the keys of regions */
    bool cq_data;         /* FI_REMOTE_CQ_DATA may be used, because cq_data_size was not 0 */
    /* peers cannot access a region with FI_RMA_EVENT before fi_mr_enable() (FI_MR_RMA_EVENT) */
    bool enables_regions;
    _Atomic uint32_t refs; /* number of objects opened on this domain */

    struct ofi_lock lock;   /* protects the fields below; taken before the lock of an endpoint */
    struct ofi_work *works; /* deferred work, newest first; some of it may be complete */
    uint32_t work_count;    /* length of the list */
    uint32_t work_sweep_at; /* length at which complete work is freed */
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

/* defined in prov.c; not const, because libfabric modifies its field context */
extern struct fi_provider ofi_prov;

/*
 * Protocol and limits that fi_getinfo() offers and all calls enforce. The limits are
 * OFI_INJECT_BYTES, OFI_IOV_MAX and OFI_MESSAGE_MAX_BYTES or, if this provider uses the name of
 * another provider (prov.c), the limits of that provider.
 */
struct ofi_limits {
    const char *name;  /* name of the provider */
    uint32_t protocol; /* protocol of its endpoints: one of FI_PROTO_*, or OFI_ADDR_FORMAT */
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
 * ofi_check_tx, ofi_check_rx - check that an endpoint with the capabilities @caps can have these
 * attributes. NULL: no attributes are requested. Errors: -FI_ENODATA.
 */
int ofi_check_tx(const struct fi_tx_attr *tx, uint64_t caps);
int ofi_check_rx(const struct fi_rx_attr *rx, uint64_t caps);
/**
 * ofi_tclass - return the FABEMU_TCLASS_* of a traffic class of libfabric; -1: it is unknown. Pure.
 * ofi_tclass_set - give the adapter of @domain this class, unless it is FI_TC_UNSPEC or unknown. An
 * adapter has one class for all endpoints of its process, so the last call counts.
 */
int ofi_tclass(uint32_t tclass);
void ofi_tclass_set(struct ofi_domain *domain, uint32_t tclass);
int ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **info);

/* fabric.c */
int ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* mr.c */
extern struct fi_ops_mr ofi_mr_ops;

static inline struct ofi_domain *ofi_domain_of(struct fid_domain *domain)
{
    return container_of(domain, struct ofi_domain, domain_fid);
}

/** ofi_fid_init - initialise the part that is common to all objects. */
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
