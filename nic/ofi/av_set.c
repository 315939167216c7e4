/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * av_set.c - sets of addresses, which define the members of groups.
 *
 * A set is an array of addresses, in the order in which they were added. Programs build a set only
 * once for each group, so a linear search is good enough. Programs use the address of a set
 * (fi_av_set_addr()) only as an argument of fi_join_collective(), which also gets the set itself.
 * So all sets have the same address.
 */
#include "nic/ofi/coll.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>
#include <string.h>

#define SET_COLLS                                                                                \
    (FI_BARRIER_SET | FI_BROADCAST_SET | FI_ALLTOALL_SET | FI_ALLREDUCE_SET | FI_ALLGATHER_SET | \
     FI_REDUCE_SCATTER_SET | FI_REDUCE_SET | FI_SCATTER_SET | FI_GATHER_SET)

static struct ofi_av_set *set_of(struct fid_av_set *fid)
{
    return container_of(fid, struct ofi_av_set, set_fid);
}

/* Return the position of the address; `count` if it is not in the set. Lock: the set's. */
static uint32_t set_find(const struct ofi_av_set *set, fi_addr_t addr)
{
    uint32_t i = 0;

    while (i < set->count && set->addr[i] != addr)
        i++;
    return i;
}

/* Append an address that is not in the set yet. Lock: the set's. Errors: -FI_ENOMEM. */
static int set_append(struct ofi_av_set *set, fi_addr_t addr)
{
    if (set->count == set->room) {
        uint32_t room = set->room ? 2 * set->room : 16;
        fi_addr_t *grown = realloc(set->addr, room * sizeof *grown);

        if (!grown)
            return -FI_ENOMEM;
        set->addr = grown;
        set->room = room;
    }
    set->addr[set->count++] = addr;
    return 0;
}

static void set_drop(struct ofi_av_set *set, uint32_t at)
{
    set->count--;
    memmove(&set->addr[at], &set->addr[at + 1], (set->count - at) * sizeof set->addr[0]);
}

int ofi_av_set_copy(const struct ofi_av_set *from, fi_addr_t **addr, uint32_t *count)
{
    struct ofi_av_set *set = (struct ofi_av_set *)from; /* only the lock is changed */
    size_t bytes;

    ofi_lock(&set->lock);
    *count = set->count;
    bytes = set->count * sizeof **addr;
    *addr = malloc(bytes ? bytes : 1);
    if (*addr && bytes)
        memcpy(*addr, set->addr, bytes);
    ofi_unlock(&set->lock);
    return *addr ? 0 : -FI_ENOMEM;
}

/* --- operations --------------------------------------------------------------------- */

static int set_insert(struct fid_av_set *fid, fi_addr_t addr)
{
    struct ofi_av_set *set = set_of(fid);
    struct ofi_peer peer;
    int err = ofi_av_peer(set->av, addr, &peer);

    if (err)
        return err;
    ofi_lock(&set->lock);
    err = set_find(set, addr) < set->count ? -FI_EINVAL : set_append(set, addr);
    ofi_unlock(&set->lock);
    return err;
}

static int set_remove(struct fid_av_set *fid, fi_addr_t addr)
{
    struct ofi_av_set *set = set_of(fid);
    int err = 0;

    ofi_lock(&set->lock);
    uint32_t at = set_find(set, addr);

    if (at < set->count)
        set_drop(set, at);
    else
        err = -FI_EINVAL;
    ofi_unlock(&set->lock);
    return err;
}

enum set_how { SET_UNION, SET_INTERSECT, SET_DIFF };

static bool list_has(const fi_addr_t *list, uint32_t count, fi_addr_t addr)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == addr)
            return true;
    return false;
}

/* Combine the set with a list of addresses. Lock: the set's. Errors: -FI_ENOMEM. */
static int set_change(struct ofi_av_set *set, const fi_addr_t *list, uint32_t count,
                      enum set_how how)
{
    int err = 0;

    if (how == SET_UNION) {
        for (uint32_t i = 0; i < count && !err; i++)
            if (set_find(set, list[i]) == set->count)
                err = set_append(set, list[i]);
        return err;
    }
    for (uint32_t i = 0; i < set->count;)
        if (list_has(list, count, set->addr[i]) == (how == SET_DIFF))
            set_drop(set, i);
        else
            i++;
    return 0;
}

/* Combine @to with a copy of @from, so that no thread holds the locks of two sets. */
static int set_combine(struct fid_av_set *to, const struct fid_av_set *from, enum set_how how)
{
    struct ofi_av_set *set = set_of(to);
    const struct ofi_av_set *other = set_of((struct fid_av_set *)from);
    fi_addr_t *list;
    uint32_t count;
    int err = from && set->av == other->av ? ofi_av_set_copy(other, &list, &count) : -FI_EINVAL;

    if (err)
        return err;
    ofi_lock(&set->lock);
    err = set_change(set, list, count, how);
    ofi_unlock(&set->lock);
    free(list);
    return err;
}

static int set_union(struct fid_av_set *to, const struct fid_av_set *from)
{
    return set_combine(to, from, SET_UNION);
}

static int set_intersect(struct fid_av_set *to, const struct fid_av_set *from)
{
    return set_combine(to, from, SET_INTERSECT);
}

static int set_diff(struct fid_av_set *to, const struct fid_av_set *from)
{
    return set_combine(to, from, SET_DIFF);
}

static int set_addr(struct fid_av_set *fid, fi_addr_t *ret)
{
    (void)fid;
    if (!ret)
        return -FI_EINVAL;
    *ret = OFI_AV_SET_ADDR;
    return 0;
}

/* --- open and close ----------------------------------------------------------------- */

static int set_close(struct fid *fid)
{
    struct ofi_av_set *set = container_of(fid, struct ofi_av_set, set_fid.fid);

    ofi_av_release(set->av);
    ofi_lock_destroy(&set->lock);
    free(set->addr);
    free(set);
    return 0;
}

static struct fi_ops set_fid_ops = OFI_FID_OPS(set_close);

static struct fi_ops_av_set set_ops = {
    .size = sizeof(struct fi_ops_av_set),
    .set_union = set_union,
    .intersect = set_intersect,
    .diff = set_diff,
    .insert = set_insert,
    .remove = set_remove,
    .addr = set_addr,
};

static bool attr_has_range(const struct fi_av_set_attr *attr)
{
    return attr->start_addr != FI_ADDR_NOTAVAIL || attr->end_addr != FI_ADDR_NOTAVAIL;
}

/*
 * Check the attributes of a new set. A communication key is refused, because it stands for a group
 * that a resource manager has created, and this fabric has no such keys. Source: fi_av_set(3).
 */
static int attr_check(const struct ofi_av *av, const struct fi_av_set_attr *attr)
{
    if (attr->flags & ~(SET_COLLS | FI_UNIVERSE))
        return -FI_EBADFLAGS;
    if (attr->comm_key_size)
        return -FI_ENOSYS;
    if (!attr_has_range(attr) || attr->flags & FI_UNIVERSE)
        return 0;
    if (!ofi_av_is_table(av) || attr->start_addr > attr->end_addr || !attr->stride ||
        attr->end_addr >= ofi_av_count(av))
        return -FI_EINVAL;
    return attr->count && (attr->end_addr - attr->start_addr) / attr->stride >= attr->count
               ? -FI_EINVAL
               : 0;
}

/*
 * Add the addresses that the attributes name. Skip an address that was removed from the vector.
 */
static int set_fill(struct ofi_av_set *set, const struct fi_av_set_attr *attr)
{
    bool all = attr->flags & FI_UNIVERSE;
    fi_addr_t first = all ? 0 : attr->start_addr, stride = all ? 1 : attr->stride;
    fi_addr_t end = all ? ofi_av_count(set->av) : attr->end_addr + 1;
    struct ofi_peer peer;
    int err = 0;

    if (!all && !attr_has_range(attr))
        return 0;
    for (fi_addr_t at = first; at < end && !err; at = end - at > stride ? at + stride : end)
        if (!ofi_av_peer(set->av, at, &peer))
            err = set_append(set, at);
    return err;
}

int ofi_av_set_open(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **ret,
                    void *context)
{
    struct ofi_av *of = ofi_av_of(&av->fid);
    struct ofi_av_set *set;
    int err = attr && ret ? attr_check(of, attr) : -FI_EINVAL;

    if (err)
        return err;
    set = calloc(1, sizeof *set);
    if (!set)
        return -FI_ENOMEM;
    set->av = of;
    err = set_fill(set, attr);
    if (err) {
        free(set->addr);
        free(set);
        return err;
    }
    ofi_lock_init(&set->lock, ofi_av_domain(of));
    ofi_fid_init(&set->set_fid.fid, FI_CLASS_AV_SET, context, &set_fid_ops);
    set->set_fid.ops = &set_ops;
    ofi_av_hold(of);
    *ret = &set->set_fid;
    return 0;
}
