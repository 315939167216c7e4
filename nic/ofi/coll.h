/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.h - groups of endpoints (FI_COLLECTIVE).
 *
 * A program names the members by a set of addresses (av_set.c). To join, all members exchange
 * messages, and the first member asks the fabric to create a group in its switches (join.c). Each
 * collective (coll.c) then has the address of the group object (mc.c) as an argument.
 */
#ifndef NIC_OFI_COLL_H
#define NIC_OFI_COLL_H

#include "nic/ofi/ep.h"

#define OFI_AV_SET_ADDR (UINT64_C(1) << 62)     /* the address of every set */
#define OFI_MC_ADDR     (UINT64_C(1) << 62 | 1) /* address of the first group */
/*
 * Each process's queue for the messages of join.c. No port stands for it: an endpoint at port P > 0
 * has queues from 2P up, and an endpoint without a port gets free queues from 256 up.
 */
#define OFI_JOIN_QUEUE 1

struct ofi_av_set {
    struct fid_av_set set_fid;
    struct ofi_av *av;
    struct ofi_lock lock; /* protects the fields below */
    fi_addr_t *addr;
    uint32_t count, room; /* number of addresses; size of the array */
};

/** ofi_av_set_copy - copy the addresses; the caller frees them. Errors: -FI_ENOMEM. */
int ofi_av_set_copy(const struct ofi_av_set *set, fi_addr_t **addr, uint32_t *count);

struct ofi_join;

/*
 * A group that an endpoint has joined or is joining. After `joined` is set, only `next`, `refs` and
 * `closing` and the fields below the lock change.
 */
struct ofi_mc {
    struct fid_mc mc_fid;
    struct ofi_ep *ep;
    struct ofi_mc *next;        /* next in the event queue's list of groups that are joining */
    uint32_t members, rank;     /* number of members; position of this member */
    struct ofi_peer *peer;      /* the members, in the order of the set */
    uint16_t *queue_of;         /* each member's queue for messages of this group */
    struct fabemu_queue *queue; /* this member's queue for such messages */
    /* NULL: the group has only one member, or the fabric's group is not joined yet */
    struct fabemu_group *group;
    struct ofi_join *join; /* the state of joining; NULL when the member has joined */
    _Atomic bool joined;
    _Atomic uint32_t refs; /* collectives in flight */
    /* the group is being closed, so no collective starts; set under the endpoint's lock */
    _Atomic bool closing;

    struct ofi_lock lock; /* protects the order in which operations are posted */
    uint64_t posted;      /* number of collectives that were posted */
};

/* mc.c */
int ofi_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
             void *context);
/**
 * ofi_mc_hold - find a group by its address, and hold a reference (refs). NULL: this endpoint has
 * not joined such a group.
 */
struct ofi_mc *ofi_mc_hold(struct ofi_ep *ep, fi_addr_t addr);
/** ofi_mc_any - return whether the endpoint has a group that is not closed. */
bool ofi_mc_any(struct ofi_ep *ep);
/** ofi_mc_rank - return the position of the member @peer; mc->members if it is no member. */
uint32_t ofi_mc_rank(const struct ofi_mc *mc, const struct ofi_peer *peer);

/* join.c */
/** ofi_join_begin - begin to join; the event queue reports the result. Errors: -FI_ENOMEM. */
int ofi_join_begin(struct ofi_mc *mc, void *context);
/**
 * ofi_join_step - handle the messages that have arrived. Returns true when @mc has joined and needs
 * no more steps. Lock: ofi_eq_lock().
 */
bool ofi_join_step(struct ofi_mc *mc);
/** ofi_join_end - stop joining, and notify the other members if they wait for this one. */
void ofi_join_end(struct ofi_mc *mc);

/* eq.c: the groups that are joining */
void ofi_eq_add_join(struct ofi_mc *mc);
/** ofi_eq_remove_join - remove the group if it is still joining, and drop its events. */
void ofi_eq_remove_join(struct ofi_mc *mc);

/* coll.c */
extern struct fi_ops_collective ofi_coll_ops;
int ofi_coll_query(struct fid_domain *domain, enum fi_collective_op coll,
                   struct fi_collective_attr *attr, uint64_t flags);

#endif
