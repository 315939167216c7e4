/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mc.c - groups of endpoints: fi_join_collective(), the addresses of groups, and fi_close().
 *
 * The address of a group is an index into a table of its endpoint, so that a call with a wrong
 * address is refused. A member that closes its group abandons the collectives that are in flight.
 * It also breaks the group. So the collectives of the other members fail, and the members do not
 * wait for it.
 *
 * Multicast of messages (FI_MULTICAST) is not offered, because no operation of the network delivers
 * one message to receives that all members have posted. A broadcast is a collective that every
 * member must start. A put to all members writes their memory, but completes no receive.
 */
#include "nic/ofi/coll.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>

/* --- the table of addresses --------------------------------------------------------- */

/* Find a free address. Lock: the endpoint's. Errors: -FI_ENOMEM. */
static int mc_slot(struct ofi_ep *ep, uint32_t *ret)
{
    uint32_t at = 0, count = ep->mc_count ? 2 * ep->mc_count : 8;
    struct ofi_mc **grown;

    while (at < ep->mc_count && ep->mcs[at])
        at++;
    *ret = at;
    if (at < ep->mc_count)
        return 0;
    grown = realloc(ep->mcs, count * sizeof(struct ofi_mc *));
    if (!grown)
        return -FI_ENOMEM;
    for (uint32_t i = ep->mc_count; i < count; i++)
        grown[i] = NULL;
    ep->mcs = grown;
    ep->mc_count = count;
    return 0;
}

static int mc_enter(struct ofi_mc *mc)
{
    struct ofi_ep *ep = mc->ep;
    uint32_t at;

    ofi_lock(&ep->lock);
    int err = mc_slot(ep, &at);

    if (!err) {
        ep->mcs[at] = mc;
        mc->mc_fid.fi_addr = OFI_MC_ADDR + at;
    }
    ofi_unlock(&ep->lock);
    return err;
}

/* Remove the group from the table, so that no call finds it. */
static void mc_leave(struct ofi_mc *mc)
{
    struct ofi_ep *ep = mc->ep;

    ofi_lock(&ep->lock);
    ep->mcs[mc->mc_fid.fi_addr - OFI_MC_ADDR] = NULL;
    ofi_unlock(&ep->lock);
}

struct ofi_mc *ofi_mc_hold(struct ofi_ep *ep, fi_addr_t addr)
{
    struct ofi_mc *mc = NULL;

    ofi_lock(&ep->lock);
    if (addr >= OFI_MC_ADDR && addr - OFI_MC_ADDR < ep->mc_count)
        mc = ep->mcs[addr - OFI_MC_ADDR];
    if (mc && (!atomic_load_explicit(&mc->joined, memory_order_acquire) || /* C4 pairs with C3 */
               atomic_load_explicit(&mc->closing, memory_order_relaxed)))
        mc = NULL;
    if (mc)
        ofi_hold(&mc->refs);
    ofi_unlock(&ep->lock);
    return mc;
}

bool ofi_mc_any(struct ofi_ep *ep)
{
    bool any = false;

    ofi_lock(&ep->lock);
    for (uint32_t i = 0; i < ep->mc_count && !any; i++)
        any = ep->mcs[i];
    ofi_unlock(&ep->lock);
    return any;
}

uint32_t ofi_mc_rank(const struct ofi_mc *mc, const struct ofi_peer *peer)
{
    uint32_t rank = 0;

    while (rank < mc->members && (mc->peer[rank].node != peer->node ||
                                  mc->peer[rank].queue[OFI_UNTAGGED] != peer->queue[OFI_UNTAGGED]))
        rank++;
    return rank;
}

/* --- join and close ----------------------------------------------------------------- */

static void mc_free(struct ofi_mc *mc)
{
    if (mc->queue)
        fabemu_queue_close(mc->queue);
    ofi_lock_destroy(&mc->lock);
    free(mc->queue_of);
    free(mc->peer);
    free(mc);
}

static void mc_stop(struct ofi_mc *mc)
{
    ofi_lock(&mc->ep->lock);
    atomic_store_explicit(&mc->closing, true, memory_order_relaxed);
    ofi_unlock(&mc->ep->lock);
}

/*
 * End the collectives in flight. When the group breaks, all their parts complete, except messages
 * that are partly sent. Such a message completes when its remaining segments are sent, or when its
 * receiver does not answer. A thread that is just starting a collective gets an error, too.
 * Errors: -FI_EBUSY, some collectives have not ended within the bound `drain`.
 */
static int mc_abandon(struct ofi_mc *mc)
{
    struct ofi_wait wait = ofi_wait_drain(mc->ep->domain->fab);

    if (mc->group) /* a group of one member has none */
        fabemu_group_break(mc->group);
    while (ofi_held(&mc->refs))
        if (!ofi_wait_step(&wait))
            return -FI_EBUSY;
    return 0;
}

static int mc_close(struct fid *fid)
{
    struct ofi_mc *mc = container_of(fid, struct ofi_mc, mc_fid.fid);
    int err;

    mc_stop(mc);
    err = ofi_held(&mc->refs) ? mc_abandon(mc) : 0;
    if (err)
        return err;
    mc_leave(mc);
    ofi_eq_remove_join(mc);
    ofi_join_end(mc);
    if (mc->group)
        fabemu_group_leave(mc->group);
    mc_free(mc);
    return 0;
}

static struct fi_ops mc_fid_ops = OFI_FID_OPS(mc_close);

static int compare_u32(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Check that all members are on different nodes, because the fabric's groups consist of nodes. */
static int members_check(const struct ofi_mc *mc)
{
    uint32_t *node = malloc(mc->members * sizeof *node);
    int err = 0;

    if (!node)
        return -FI_ENOMEM;
    for (uint32_t i = 0; i < mc->members; i++)
        node[i] = mc->peer[i].node;
    qsort(node, mc->members, sizeof *node, compare_u32);
    for (uint32_t i = 1; i < mc->members && !err; i++)
        if (node[i] == node[i - 1]) {
            FI_INFO(&ofi_prov, FI_LOG_EP_CTRL,
                    "no group for collectives: two of its members are on node %u\n", node[i]);
            err = -FI_EOPNOTSUPP;
        }
    free(node);
    return err;
}

/* Look up the members, and find this one among them. */
static int members_find(struct ofi_mc *mc, const struct ofi_av_set *set)
{
    const struct ofi_addr *own = &mc->ep->source;
    const struct ofi_peer self = {.node = own->node,
                                  .queue = {own->queue[OFI_UNTAGGED], own->queue[OFI_TAGGED]}};
    fi_addr_t *addr;
    int err = ofi_av_set_copy(set, &addr, &mc->members);

    if (err)
        return err;
    mc->peer = calloc(mc->members + 1u, sizeof *mc->peer);
    mc->queue_of = calloc(mc->members + 1u, sizeof *mc->queue_of);
    if (!mc->peer || !mc->queue_of)
        err = -FI_ENOMEM;
    for (uint32_t i = 0; i < mc->members && !err; i++)
        err = ofi_av_peer(set->av, addr[i], &mc->peer[i]);
    free(addr);
    if (!err) {
        mc->rank = ofi_mc_rank(mc, &self);
        err = mc->rank == mc->members ? -FI_EINVAL : members_check(mc);
    }
    return err;
}

static int mc_open(struct ofi_ep *ep, const struct ofi_av_set *set, void *context,
                   struct ofi_mc **ret)
{
    struct ofi_mc *mc = calloc(1, sizeof *mc);
    int err;

    if (!mc)
        return -FI_ENOMEM;
    mc->ep = ep;
    ofi_lock_init(&mc->lock, ep->domain);
    err = members_find(mc, set);
    if (!err)
        err = -ofi_errno(fabemu_queue_open_any(ep->domain->fab, 1, &mc->queue));
    if (err) {
        mc_free(mc);
        return err;
    }
    ofi_fid_init(&mc->mc_fid.fid, FI_CLASS_MC, context, &mc_fid_ops);
    *ret = mc;
    return 0;
}

/* Check the arguments of fi_join_collective(). The address names a set, or a group of @ep. */
static int join_check(struct ofi_ep *ep, const struct fi_collective_addr *addr, uint64_t flags,
                      struct fid_mc *const *ret)
{
    if (!(flags & FI_COLLECTIVE) || !(ep->caps & FI_COLLECTIVE) || ep->sep || !ep->sends ||
        !ep->receives)
        return -FI_EOPNOTSUPP; /* for example multicast, or an endpoint that is only a context */
    if (flags & ~(FI_COLLECTIVE | FI_SEND | FI_RECV))
        return -FI_EBADFLAGS;
    if (!(flags & FI_SEND) != !(flags & FI_RECV))
        return -FI_EOPNOTSUPP; /* a member must both send and receive */
    if (!ep->enabled)
        return -FI_EOPBADSTATE;
    if (!ep->eq)
        return -FI_ENOEQ;
    if (!ret || !addr || !addr->set || addr->set->fid.fclass != FI_CLASS_AV_SET)
        return -FI_EINVAL;
    if (addr->coll_addr == FI_ADDR_NOTAVAIL)
        return -FI_ENOSYS; /* such a group needs a communication key (av_set.c) */
    if (addr->coll_addr != OFI_AV_SET_ADDR) {
        struct ofi_mc *parent = ofi_mc_hold(ep, addr->coll_addr);

        if (!parent)
            return -FI_EINVAL;
        ofi_release(&parent->refs);
    }
    return 0;
}

int ofi_join(struct fid_ep *fid, const void *arg, uint64_t flags, struct fid_mc **ret,
             void *context)
{
    const struct fi_collective_addr *addr = arg;
    struct ofi_ep *ep = ofi_ep_of(fid);
    const struct ofi_av_set *set;
    struct ofi_mc *mc;
    int err = join_check(ep, addr, flags, ret);

    if (err)
        return err;
    set = container_of(addr->set, const struct ofi_av_set, set_fid);
    if (set->av != ep->av)
        return -FI_EINVAL;
    err = mc_open(ep, set, context, &mc);
    if (err)
        return err;
    err = mc_enter(mc);
    if (!err) {
        err = ofi_join_begin(mc, context);
        if (err)
            mc_leave(mc);
    }
    if (err) {
        mc_free(mc);
        return err;
    }
    *ret = &mc->mc_fid;
    if (mc->members > 1)
        ofi_eq_add_join(mc);
    return 0;
}
