/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * av.c - address vectors: an fi_addr_t is an index into a table of peers (table.c).
 *
 * Successive processes of a node may use the same queues; the incarnation distinguishes their
 * entries. An entry without an incarnation, which comes from a name or an IPv4 address, matches
 * each of them. An address of this host, such as 127.0.0.1, is looked up when it is inserted. If no
 * process of the host has that port yet, it is looked up again at each use, until one has it
 * (OFI_NODE_SELF).
 *
 * FI_AV_MAP and FI_AV_TABLE use the same table. Even with FI_EVENT, all addresses are inserted, and
 * all events are in the event queue, when the call returns.
 */
#include "nic/ofi/ep.h"
#include "nic/ofi/table.h"
#include "nic/ofi/unsupported.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define AV_CONTEXT_BITS 16 /* upper limit for context_bits */

struct ofi_av {
    struct fid_av av_fid;
    struct ofi_domain *domain;
    enum fi_av_type type;
    /* how many of the highest bits of an fi_addr_t are the index of a receive context */
    unsigned context_bits;
    bool events;           /* eq gets an event for each insertion (FI_EVENT) */
    struct fid_eq *eq;     /* NULL: none is bound */
    _Atomic uint32_t refs; /* number of bound endpoints and of address sets (av_set.c) */
    struct ofi_entries entries;
};

struct ofi_av *ofi_av_of(struct fid *fid)
{
    return container_of(fid, struct ofi_av, av_fid.fid);
}

void ofi_av_hold(struct ofi_av *av)
{
    ofi_hold(&av->refs);
}

void ofi_av_release(struct ofi_av *av)
{
    ofi_release(&av->refs);
}

/*
 * Find the process for an entry whose address names only this host and a port. Store the process in
 * the table if the table is writable. Errors: -FI_ECONNREFUSED, no process of this host has opened
 * an endpoint there.
 */
static int av_resolve(struct ofi_av *av, fi_addr_t addr, struct ofi_peer *ret)
{
    struct ofi_addr named = {.node = ret->node,
                             .queue = {ret->queue[OFI_UNTAGGED], ret->queue[OFI_TAGGED]}};
    int err = ofi_addr_dest(&named, av->domain->fab);

    if (err)
        return err;
    ret->node = named.node;
    ret->incarnation = named.incarnation;
    ofi_entries_resolve(&av->entries, addr, ret);
    return 0;
}

int ofi_av_endpoint(struct ofi_av *av, fi_addr_t addr, struct ofi_peer *ret)
{
    unsigned bits = av->context_bits;
    fi_addr_t index = bits ? addr << bits >> bits : addr;
    int err = ofi_entries_get(&av->entries, index, ret);

    if (!err && ret->node == OFI_NODE_SELF)
        err = av_resolve(av, index, ret);
    return err;
}

int ofi_av_peer(struct ofi_av *av, fi_addr_t addr, struct ofi_peer *ret)
{
    unsigned bits = av->context_bits;
    uint64_t first = bits ? OFI_KINDS * (addr >> (64 - bits)) : 0; /* first queue of the context */
    int err = ofi_av_endpoint(av, addr, ret);

    for (unsigned kind = 0; kind < OFI_KINDS && !err; kind++) {
        if (first >= (uint64_t)OFI_QUEUE_NONE - ret->queue[kind])
            return -FI_EINVAL;
        ret->queue[kind] = (uint16_t)(ret->queue[kind] + first);
    }
    return err;
}

fi_addr_t ofi_av_count(const struct ofi_av *av)
{
    return ofi_entries_count(&av->entries);
}

const struct ofi_domain *ofi_av_domain(const struct ofi_av *av)
{
    return av->domain;
}

bool ofi_av_is_table(const struct ofi_av *av)
{
    return av->type == FI_AV_TABLE;
}

fi_addr_t ofi_av_find(struct ofi_av *av, enum ofi_kind kind, const struct ofi_peer *from)
{
    return ofi_entries_find(&av->entries, kind, from);
}

/* --- insert ------------------------------------------------------------------------- */

/* The addresses of one call: an array or, if that is NULL, a range of nodes and of ports. */
struct av_list {
    const void *array;
    size_t count;
    struct ofi_addr first; /* the first address of the range */
    size_t ports;          /* number of ports of each node of the range */
};

static int list_at(const struct ofi_av *av, const struct av_list *list, size_t index,
                   struct ofi_addr *ret)
{
    uint64_t node, port;

    if (list->array)
        return ofi_addr_read_element(av->domain->addr_format, list->array, index, ret);
    *ret = list->first;
    if (list->count == 1)
        return 0;
    node = ret->node + (uint64_t)(index / list->ports);
    port = ofi_addr_port(ret) + (uint64_t)(index % list->ports);
    if ((node != ret->node && node >= OFI_NODE_SELF) || port > OFI_PORT_MAX)
        return -FI_EINVAL;
    ret->node = (uint32_t)node;
    ofi_addr_set_port(ret, (uint32_t)port);
    return 0;
}

static int av_insert_one(struct ofi_av *av, const struct av_list *list, size_t index,
                         fi_addr_t *ret)
{
    struct ofi_addr addr;
    int err = list_at(av, list, index, &addr);

    if (!err)
        err = ofi_addr_dest(&addr, av->domain->fab);
    if (err && err != -FI_ECONNREFUSED) /* a refused address is looked up again at each use */
        return err;
    return ofi_entries_add(&av->entries,
                           &(struct ofi_peer){
                               .node = addr.node,
                               .queue = {addr.queue[OFI_UNTAGGED], addr.queue[OFI_TAGGED]},
                               .incarnation = addr.incarnation,
                           },
                           ret);
}

static int report_error(struct ofi_av *av, size_t index, int err, void *context)
{
    return ofi_eq_report_error(av->eq, &(struct fi_eq_err_entry){
                                           .fid = &av->av_fid.fid,
                                           .context = context,
                                           .data = index,
                                           .err = -err,
                                           .prov_errno = -err,
                                       });
}

static int report_complete(struct ofi_av *av, size_t inserted, void *context)
{
    const struct fi_eq_entry entry = {
        .fid = &av->av_fid.fid,
        .context = context,
        .data = inserted,
    };

    return ofi_eq_report(av->eq, FI_AV_COMPLETE, &entry, sizeof entry);
}

/* Check the arguments that are common to all calls that insert addresses. */
static int insert_check(const struct ofi_av *av, const struct av_list *list,
                        const fi_addr_t *fi_addr, uint64_t flags, const void *context)
{
    if (av->events && !av->eq)
        return -FI_ENOEQ;
    if (flags & ~(uint64_t)(FI_MORE | FI_SYNC_ERR) || (flags & FI_SYNC_ERR && av->events))
        return -FI_EBADFLAGS;
    if (list->count > INT_MAX || (flags & FI_SYNC_ERR && !context && list->count) ||
        (av->type == FI_AV_MAP && !fi_addr && list->count))
        return -FI_EINVAL;
    return av->entries.read_only ? -FI_EACCES : 0;
}

/*
 * Insert all addresses of the list. Returns the number inserted or, with FI_EVENT, 0. With
 * FI_SYNC_ERR, @context is an array that receives an error for each address.
 */
static int av_insert_list(struct ofi_av *av, const struct av_list *list, fi_addr_t *fi_addr,
                          uint64_t flags, void *context)
{
    int err = insert_check(av, list, fi_addr, flags, context);
    int inserted = 0;

    for (size_t i = 0; i < list->count && !err; i++) {
        fi_addr_t index = FI_ADDR_NOTAVAIL;
        int failed = av_insert_one(av, list, i, &index);

        if (fi_addr)
            fi_addr[i] = index;
        if (flags & FI_SYNC_ERR)
            ((int *)context)[i] = -failed;
        if (failed && av->events)
            err = report_error(av, i, failed, context);
        inserted += !failed;
    }
    if (!err && av->events)
        err = report_complete(av, (size_t)inserted, context);
    return err || av->events ? err : inserted;
}

static int av_insert(struct fid_av *fid, const void *addrs, size_t count, fi_addr_t *fi_addr,
                     uint64_t flags, void *context)
{
    if (!addrs && count)
        return -FI_EINVAL;
    return av_insert_list(ofi_av_of(&fid->fid), &(struct av_list){.array = addrs, .count = count},
                          fi_addr, flags, context);
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodes, const char *service,
                        size_t services, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    struct av_list list = {.ports = services};

    if (!node || __builtin_mul_overflow(nodes, services, &list.count) ||
        ofi_addr_parse(node, service, 0, &list.first))
        return -FI_EINVAL;
    if (nodes > 1 && list.first.node >= OFI_NODE_SELF)
        return -FI_EINVAL; /* a range needs numbers or IPv4 addresses */
    if (!ofi_addr_has_queues(&list.first))
        return -FI_EINVAL;
    return av_insert_list(ofi_av_of(&fid->fid), &list, fi_addr, flags, context);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
                        fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    return av_insertsym(fid, node, 1, service, 1, fi_addr, flags, context);
}

/* --- remove, look up, print --------------------------------------------------------- */

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    struct ofi_av *av = ofi_av_of(&fid->fid);
    int err = 0;

    if (flags)
        return -FI_EBADFLAGS;
    if (!fi_addr && count)
        return -FI_EINVAL;
    for (size_t i = 0; i < count && !err; i++)
        err = ofi_entries_remove(&av->entries, fi_addr[i]);
    return err;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *to, size_t *bytes)
{
    struct ofi_av *av = ofi_av_of(&fid->fid);
    struct ofi_addr addr = {.fabric = av->domain->fabric_hash};
    struct ofi_peer peer;
    int err = bytes ? ofi_entries_get(&av->entries, fi_addr, &peer) : -FI_EINVAL;

    if (err)
        return err;
    addr.node = peer.node;
    addr.incarnation = peer.incarnation;
    memcpy(addr.queue, peer.queue, sizeof addr.queue);
    err = ofi_addr_copy(av->domain->addr_format, &addr, to, bytes);
    return err == -FI_ETOOSMALL ? 0 : err; /* *bytes tells the caller the full size */
}

static const char *av_straddr(struct fid_av *fid, const void *from, char *text, size_t *bytes)
{
    static const char invalid[] = "invalid address";
    const struct ofi_av *av = ofi_av_of(&fid->fid);
    struct ofi_addr addr;
    size_t room;

    if (!bytes || (!text && *bytes))
        return NULL;
    room = *bytes;
    if (!ofi_addr_read_whole(av->domain->addr_format, from, &addr)) {
        *bytes = ofi_addr_text(av->domain->addr_format, &addr, text, room);
        return text;
    }
    *bytes = sizeof invalid;
    if (room) {
        strncpy(text, invalid, room - 1);
        text[room - 1] = '\0';
    }
    return text;
}

/* --- open, bind, close -------------------------------------------------------------- */

static int av_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct ofi_av *av = ofi_av_of(fid);

    if (flags)
        return -FI_EBADFLAGS;
    return ofi_eq_bind(other, &av->eq);
}

static int av_close(struct fid *fid)
{
    struct ofi_av *av = ofi_av_of(fid);

    if (ofi_held(&av->refs))
        return -FI_EBUSY;
    ofi_entries_close(&av->entries);
    ofi_eq_unbind(&av->eq);
    ofi_release(&av->domain->refs);
    free(av);
    return 0;
}

static struct fi_ops av_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = av_close,
    .bind = av_bind,
    .control = ofi_no_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_av av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
    .av_set = ofi_av_set_open,
};

static int attr_check(const struct fi_av_attr *attr)
{
    /* FI_SYMMETRIC makes no difference to this provider */
    if (attr->flags & ~(uint64_t)(FI_EVENT | FI_READ | FI_SYMMETRIC))
        return -FI_EBADFLAGS;
    if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > AV_CONTEXT_BITS || attr->type > FI_AV_TABLE ||
        (attr->flags & FI_READ && !attr->name))
        return -FI_EINVAL;
    return 0;
}

int ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **ret,
                void *context)
{
    struct ofi_av *av;
    int err = attr && ret ? attr_check(attr) : -FI_EINVAL;

    if (err)
        return err;
    av = calloc(1, sizeof *av);
    if (!av)
        return -FI_ENOMEM;
    av->domain = ofi_domain_of(domain);
    err = ofi_entries_open(&av->entries, attr->name, attr->flags & FI_READ,
                           fabemu_info(av->domain->fab));
    if (err) {
        free(av);
        return err;
    }
    if (attr->type == FI_AV_UNSPEC)
        attr->type = FI_AV_TABLE;
    if (attr->name && !attr->map_addr)
        attr->map_addr = av->entries.table->addr;
    av->type = attr->type;
    av->context_bits = (unsigned)attr->rx_ctx_bits;
    av->events = attr->flags & FI_EVENT;
    ofi_fid_init(&av->av_fid.fid, FI_CLASS_AV, context, &av_fid_ops);
    av->av_fid.ops = &av_ops;
    ofi_hold(&av->domain->refs);
    *ret = &av->av_fid;
    return 0;
}
