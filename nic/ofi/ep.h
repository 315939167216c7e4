/* SPDX-License-Identifier: BSD-3-Clause */
/* ep.h - endpoints, their contexts and aliases */
#ifndef NIC_OFI_EP_H
#define NIC_OFI_EP_H

#include "nic/ofi/op.h"

struct ofi_cm;
struct ofi_mc;
struct ofi_sep;
struct ofi_stx;

/* One direction of an endpoint. Written before the endpoint is enabled. */
struct ofi_side {
    struct ofi_cq *cq;
    bool selective; /* only operations with FI_COMPLETION get an entry */
};

/*
 * A program's handle of an endpoint: of the endpoint itself, or of an alias, which has its own
 * flags.
 */
struct ofi_handle {
    struct fid_ep ep_fid;
    struct ofi_ep *ep;
    /* flags of calls without a flags argument; any thread may set them at any time */
    _Atomic uint64_t tx_flags, rx_flags;
};

/*
 * An endpoint. A scalable endpoint, its contexts, and a shared receive context are endpoints, too
 * (scalable.c, share.c).
 */
struct ofi_ep {
    struct ofi_handle handle;
    struct ofi_domain *domain;
    _Atomic uint32_t aliases; /* number of open aliases */
    /* in a context, only one of them is true; in a scalable endpoint, neither is */
    bool sends, receives;
    bool after_writes;         /* FI_ORDER_SAW: a send waits for writes in flight */
    bool shares_tx, shares_rx; /* opened for shared contexts, which must be bound */
    struct ofi_stx *stx;       /* the bound shared contexts; NULL: none */
    struct ofi_srx *srx;
    /* links of the list of endpoints that use the shared receive context, oldest first; protected
       by the context's lock */
    struct ofi_ep *srx_previous, *srx_next;
    bool srx_joined;     /* this endpoint is in the list: from enabling to closing */
    struct ofi_sep *sep; /* the scalable endpoint, if this is a context of one; else NULL */
    unsigned index;      /* index of this context */
    uint64_t caps;
    uint32_t addr_format; /* the format of addresses for fi_setname() and similar calls */
    size_t message_max_bytes;
    /* the address that was requested for the endpoint; once it is enabled, its own address */
    struct ofi_addr source;
    /* FI_EP_MSG: the address that fi_getname() returns, if it has queues; data uses other queues */
    struct ofi_addr name;
    bool enabled;
    _Atomic bool closing; /* the endpoint is being closed, so completions are dropped */
    struct ofi_av *av;
    struct ofi_side tx;
    struct ofi_side rx;
    struct ofi_cntr *cntr[OFI_COUNTS];
    struct fabemu_queue *queue[OFI_KINDS];
    /* gets events about the connection and about joined groups; NULL: none is bound */
    struct fid_eq *eq;
    /* the connection, and the client's request that this endpoint may accept; NULL: none, or the
       type is not FI_EP_MSG */
    struct ofi_cm *cm;
    struct ofi_request *request;
    struct fabemu_queue *join_queue; /* FI_COLLECTIVE: for the messages of join.c; else NULL */
    _Atomic size_t multi_min_bytes;  /* FI_OPT_MIN_MULTI_RECV; any thread may set it */
    /* operations for messages that arrive in buffers for several messages or were lost; protected
       by the adapter's lock */
    struct ofi_pool arrivals;

    struct ofi_lock lock; /* protects the fields below; never taken by a callback */
    struct ofi_pool pool; /* operations for the application's calls */
    /* operations that keep a claimed message until the program receives it; found by their
       context */
    struct ofi_op *claims;
    /* the groups of the endpoint, found by their addresses; NULL where an address is free */
    struct ofi_mc **mcs;
    uint32_t mc_count; /* length of the array */
};

/* ep.c */
/** ofi_ep_check - check the attributes of a new endpoint, and read its address. */
int ofi_ep_check(const struct fi_info *info, struct ofi_addr *source);
/** ofi_ep_init - initialise a zeroed endpoint. It holds a reference to the domain. */
void ofi_ep_init(struct ofi_ep *ep, struct ofi_domain *domain, const struct fi_info *info,
                 size_t class, void *context);
/**
 * ofi_ep_queues_open - open two queues for each of @contexts contexts. If the source address of @ep
 * names no queues, use free ones and store them in the address.
 */
int ofi_ep_queues_open(struct ofi_ep *ep, unsigned contexts, struct fabemu_queue **queue);
int ofi_ep_bind(struct fid *fid, struct fid *other, uint64_t flags);
/** ofi_ep_drain - end all operations, then close the endpoint's queues. */
void ofi_ep_drain(struct ofi_ep *ep);
void ofi_ep_free(struct ofi_ep *ep);
/** ofi_ep_control - implement fi_control() of an endpoint or alias. */
int ofi_ep_control(struct fid *fid, int command, void *arg);
/**
 * ofi_ep_peer - find the peer of a call: the peer that @addr names or, if the endpoint is
 * connected, its only peer. Errors: -FI_EINVAL, -FI_ENOTCONN; -FI_EOPNOTSUPP, @ep cannot send.
 */
int ofi_ep_peer(const struct ofi_ep *ep, fi_addr_t addr, struct ofi_peer *ret);
int ofi_ep_setname(fid_t fid, void *addr, size_t bytes);
int ofi_ep_getname(fid_t fid, void *addr, size_t *bytes);
/** ofi_opt_get - implement fi_getopt() for the endpoint option @which, a size_t. */
int ofi_opt_get(int level, int name, int which, size_t is, void *value, size_t *bytes);
int ofi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

/* conn.c: connected endpoints */
extern struct fi_ops_cm ofi_conn_ops;
int ofi_conn_open(struct ofi_ep *ep, const struct fi_info *info);
int ofi_conn_enable(struct ofi_ep *ep);
void ofi_conn_close(struct ofi_ep *ep);
int ofi_conn_peer(const struct ofi_ep *ep, struct ofi_peer *ret);

/* alias.c */
int ofi_alias_open(struct ofi_handle *of, struct fi_alias *alias);

/* share.c: shared contexts */
int ofi_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                 void *context);
int ofi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                 void *context);
/** ofi_share_bind, ofi_share_unbind - let an endpoint use a shared context, or end this use. */
int ofi_share_bind(struct ofi_ep *ep, struct fid *fid, uint64_t flags);
void ofi_share_unbind(struct ofi_ep *ep);
/**
 * ofi_srx_join - let the receives of the shared context match the messages to the open queues of
 * @ep.
 * Errors: -FI_EINVAL, the context is used with another address vector.
 * ofi_srx_leave - undo ofi_srx_join(). Callbacks that are running may still report at @ep until the
 * caller has closed the queues.
 */
int ofi_srx_join(struct ofi_ep *ep);
void ofi_srx_leave(struct ofi_ep *ep);
/**
 * ofi_srx_of - return the shared receive context whose endpoint is @ep; NULL: @ep is another kind
 * of endpoint.
 */
struct ofi_srx *ofi_srx_of(struct ofi_ep *ep);
/**
 * ofi_srx_assign - choose the endpoint at which @op is reported: the endpoint to which the message
 * was sent or, if @op has no message, the endpoint that has used the shared context longest.
 * Returns false if there is no such endpoint, or it is closing.
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
/**
 * ofi_sep_share_av - let a context use the address vector of its scalable endpoint, if there is
 * one.
 */
void ofi_sep_share_av(struct ofi_ep *context);
/**
 * ofi_sep_queues - give a context its queues, which belong to the scalable endpoint; open these if
 * necessary.
 */
int ofi_sep_queues(struct ofi_ep *context);
/** ofi_sep_forget - remove a context that is being closed from its scalable endpoint. */
void ofi_sep_forget(struct ofi_ep *context);

/* atomic.c, msg.c, rma.c */
extern struct fi_ops_atomic ofi_atomic_ops;
extern struct fi_ops_msg ofi_msg_ops;
extern struct fi_ops_tagged ofi_tagged_ops;
extern struct fi_ops_rma ofi_rma_ops;

static inline struct ofi_handle *ofi_handle_of(struct fid_ep *ep)
{
    return container_of(ep, struct ofi_handle, ep_fid);
}

static inline uint64_t ofi_tx_flags(struct fid_ep *ep)
{
    return atomic_load_explicit(&ofi_handle_of(ep)->tx_flags, memory_order_relaxed);
}

static inline uint64_t ofi_rx_flags(struct fid_ep *ep)
{
    return atomic_load_explicit(&ofi_handle_of(ep)->rx_flags, memory_order_relaxed);
}

static inline size_t ofi_multi_min_bytes(const struct ofi_ep *ep)
{
    return atomic_load_explicit(&ep->multi_min_bytes, memory_order_relaxed);
}

static inline struct ofi_ep *ofi_ep_of(struct fid_ep *ep)
{
    return ofi_handle_of(ep)->ep;
}

static inline struct ofi_ep *ofi_ep_of_fid(struct fid *fid)
{
    return ofi_ep_of(container_of(fid, struct fid_ep, fid));
}

#endif
