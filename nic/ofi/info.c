/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info.c - fi_getinfo(): the properties that the provider offers, and whether they satisfy the
 * hints.
 *
 * There is one fi_info for each kind of endpoint: FI_EP_RDM, FI_EP_MSG and FI_EP_DGRAM. Datagrams
 * are reliable, too. For all kinds:
 * - When a send is complete, its buffer may be reused. With FI_TRANSMIT_COMPLETE or
 * FI_DELIVERY_COMPLETE, the message is then also in the peer's memory. RMA writes and atomics are
 * always acknowledged.
 * - Progress is automatic: if no thread of the program steps the adapter for 10 ms, a thread of the
 * library does.
 * - The adapter chooses the keys of regions for programs that set FI_MR_PROV_KEY or accept
 * FI_MR_BASIC. Other programs choose keys themselves. A program accepts FI_MR_BASIC if it sets this
 * bit, or if it requests a version below 1.5 and leaves mr_mode FI_MR_UNSPEC (fi_mr(3)). Programs
 * that request FI_RMA_EVENT choose keys, too, because peers may know the key of a region before the
 * region is enabled.
 * - Address vectors may be maps or tables: the type is FI_AV_UNSPEC unless the program chooses.
 */
#include "nic/ofi/ep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INFO_QUEUE_DEPTH 4096  /* operations that an endpoint supports in flight */
#define INFO_ENDPOINTS   32639 /* each uses two of the queues from 256 to 65533 */
#define INFO_REGIONS     65536
/*
 * libfabric's utility providers, such as ofi_rxm, set this flag when they look for a provider below
 * them. No public header defines it. This provider refuses it: libfabric lists utility providers
 * first, so a program that asks for FI_EP_RDM would get ofi_rxm over connections of this provider.
 */
#define INFO_CORE_PROV_ONLY (UINT64_C(1) << 59)

static const struct info_kind {
    enum fi_ep_type type;
    uint64_t caps;
    size_t message_bytes; /* longest message */
    size_t contexts;      /* maximum number of contexts in each direction */
} info_kinds[] = {
    {FI_EP_RDM, OFI_CAPS, OFI_MESSAGE_MAX_BYTES, OFI_CONTEXTS_MAX},
    {FI_EP_MSG,
     OFI_CAPS & ~(FI_SOURCE | FI_SOURCE_ERR | FI_DIRECTED_RECV | FI_SHARED_AV | FI_NAMED_RX_CTX |
                  FI_COLLECTIVE),
     OFI_MESSAGE_MAX_BYTES, 1},
    {FI_EP_DGRAM,
     FI_MSG | OFI_CAPS_SIDE | FI_SOURCE | FI_SOURCE_ERR | FI_DIRECTED_RECV | FI_MULTI_RECV |
         FI_NAMED_RX_CTX | OFI_CAPS_DOMAIN,
     OFI_DATAGRAM_MAX_BYTES, OFI_CONTEXTS_MAX},
};
#define INFO_KINDS (sizeof info_kinds / sizeof info_kinds[0])

static size_t kind_message_bytes(const struct info_kind *kind)
{
    size_t most = ofi_limits()->message_bytes;

    return kind->message_bytes < most ? kind->message_bytes : most;
}

/* The hint that the current call of fi_getinfo() has refused last; "": none. */
static _Thread_local char refused[96];

static int info_refuse(const char *what)
{
    FI_INFO(&ofi_prov, FI_LOG_CORE, "the provider does not support the %s in the hints\n", what);
    snprintf(refused, sizeof refused, "%s", what);
    return -FI_ENODATA;
}

static int info_refuse_caps(uint64_t caps, const char *where)
{
    char names[64] = "", what[96];

    fi_tostr_r(names, sizeof names, &caps, FI_TYPE_CAPS);
    snprintf(what, sizeof what, "capability%s %s", where, names);
    return info_refuse(what);
}

/* A property that hints may request, and whether it is refused. */
struct info_limit {
    const char *what; /* names the property; NULL ends a list */
    bool exceeded;
};

static int info_check(const struct info_limit *limit)
{
    for (; limit->what; limit++)
        if (limit->exceeded)
            return info_refuse(limit->what);
    return 0;
}

/*
 * Return the mr_mode for a program of @version with these hints. If the program makes no choice,
 * the adapter chooses keys, because peers cannot guess such keys. With FI_MR_RMA_EVENT, peers
 * cannot access a region before its counters are bound. The provider does not need this bit, so it
 * keeps the bit only if the program has set it and requests FI_RMA_EVENT. Source: fi_mr(3),
 * fi_domain(3).
 */
static int info_mr_mode(uint32_t version, const struct fi_info *hints)
{
    bool old = FI_VERSION_LT(version, FI_VERSION(1, 5));
    int want = hints && hints->domain_attr ? hints->domain_attr->mr_mode : 0;

    if (want == OFI_MR_BASIC || (old && !want))
        return OFI_MR_BASIC;
    if (want == OFI_MR_SCALABLE)
        return OFI_MR_SCALABLE;
    if (hints && hints->caps & FI_RMA_EVENT)
        return want & FI_MR_RMA_EVENT;
    return !hints || want & FI_MR_PROV_KEY ? FI_MR_PROV_KEY : 0;
}

/*
 * Return the capabilities that the hints request or imply. If they request none, return all
 * capabilities of the provider except FI_SOURCE_ERR, which turns completions into errors.
 */
static uint64_t info_caps(const struct fi_info *hints)
{
    uint64_t caps = hints ? hints->caps : 0;

    if (!(caps & (FI_MSG | FI_TAGGED | OFI_CAPS_MEMORY)))
        return caps ? caps | OFI_CAPS_COMM : OFI_CAPS & ~FI_SOURCE_ERR;
    if (caps & (FI_MSG | FI_TAGGED) && !(caps & OFI_CAPS_SIDE))
        caps |= OFI_CAPS_SIDE;
    if (caps & OFI_CAPS_MEMORY && !(caps & OFI_CAPS_ACCESS))
        caps |= OFI_CAPS_ACCESS;
    return caps | OFI_CAPS_COMM;
}

/* DSCP values LE and CS1 to AF13 are for bulk; CS4 and higher values are for low latency. */
static int tclass_of_dscp(uint32_t dscp)
{
    if (dscp >= 64)
        return -1;
    if (dscp == 1 || (dscp >= 8 && dscp < 16))
        return FABEMU_TCLASS_BULK;
    return dscp >= 32 ? FABEMU_TCLASS_LATENCY : FABEMU_TCLASS_DEFAULT;
}

int ofi_tclass(uint32_t tclass)
{
    switch (tclass) {
    case FI_TC_UNSPEC:
    case FI_TC_BEST_EFFORT:
        return FABEMU_TCLASS_DEFAULT;
    case FI_TC_BULK_DATA:
    case FI_TC_SCAVENGER:
        return FABEMU_TCLASS_BULK;
    case FI_TC_LOW_LATENCY:
    case FI_TC_DEDICATED_ACCESS:
    case FI_TC_NETWORK_CTRL:
        return FABEMU_TCLASS_LATENCY;
    default:
        return (tclass & ~UINT32_C(255)) == FI_TC_DSCP ? tclass_of_dscp(fi_tc_dscp_get(tclass))
                                                       : -1;
    }
}

void ofi_tclass_set(struct ofi_domain *domain, uint32_t tclass)
{
    int its = ofi_tclass(tclass);

    if (tclass != FI_TC_UNSPEC && its >= 0)
        fabemu_set_tclass(domain->fab, (unsigned)its);
}

int ofi_check_tx(const struct fi_tx_attr *tx, uint64_t caps)
{
    if (!tx)
        return 0;
    return info_check((struct info_limit[]){
        {"transmit capability", tx->caps & ~caps},
        {"transmit operation flag", tx->op_flags & ~OFI_OP_FLAGS_TX},
        {"transmit message order", tx->msg_order & ~OFI_ORDERS},
        {"transmit completion order", tx->comp_order},
        {"traffic class", ofi_tclass(tx->tclass) < 0},
        {"inject size", tx->inject_size > ofi_limits()->inject_bytes},
        {"transmit queue size", tx->size > INFO_QUEUE_DEPTH},
        {"transmit iov limit",
         tx->iov_limit > ofi_limits()->iovs || tx->rma_iov_limit > ofi_limits()->iovs},
        {0},
    });
}

int ofi_check_rx(const struct fi_rx_attr *rx, uint64_t caps)
{
    if (!rx)
        return 0;
    return info_check((struct info_limit[]){
        {"receive capability", rx->caps & ~caps},
        {"receive operation flag", rx->op_flags & ~OFI_OP_FLAGS_RX},
        {"receive message order", rx->msg_order & ~OFI_ORDERS},
        {"receive completion order", rx->comp_order},
        {"receive queue size", rx->size > INFO_QUEUE_DEPTH},
        {"receive iov limit", rx->iov_limit > ofi_limits()->iovs},
        {"total_buffered_recv (no space is reserved)", rx->total_buffered_recv},
        {0},
    });
}

/*
 * Return whether @count contexts, or a shared context, are possible if an endpoint may have @max
 * contexts.
 */
static bool contexts_fit(size_t count, size_t max)
{
    return count <= max || count == FI_SHARED_CONTEXT;
}

static int check_ep(const struct fi_ep_attr *ep)
{
    if (!ep)
        return 0;
    return info_check((struct info_limit[]){
        {"endpoint type", ep->type > FI_EP_RDM},
        {"protocol", ep->protocol != FI_PROTO_UNSPEC && ep->protocol != ofi_limits()->protocol},
        {"message size", ep->max_msg_size > ofi_limits()->message_bytes},
        {"ordered size",
         ep->max_order_raw_size || ep->max_order_war_size || ep->max_order_waw_size},
        {"count of contexts", !contexts_fit(ep->tx_ctx_cnt, OFI_CONTEXTS_MAX) ||
                                  !contexts_fit(ep->rx_ctx_cnt, OFI_CONTEXTS_MAX)},
        {"authorization key", ep->auth_key_size},
        {0},
    });
}

/* Return the maximum size of error data. Only FI_SOURCE_ERR has such data: the sender's address. */
static size_t error_data_bytes(uint64_t caps)
{
    return caps & FI_SOURCE_ERR ? OFI_ADDR_TEXT_BYTES : 0;
}

static int check_domain(const struct fi_domain_attr *domain, uint64_t caps)
{
    if (!domain)
        return 0;
    return info_check((struct info_limit[]){
        {"domain name", domain->name && strcmp(domain->name, ofi_prov.name) != 0},
        {"size of completion data", domain->cq_data_size > OFI_CQ_DATA_BYTES},
        {"domain capability", domain->caps & ~OFI_CAPS_DOMAIN},
        {"count of contexts of an endpoint",
         domain->max_ep_tx_ctx > OFI_CONTEXTS_MAX || domain->max_ep_rx_ctx > OFI_CONTEXTS_MAX},
        {"count of endpoints of a shared context",
         domain->max_ep_stx_ctx > INFO_ENDPOINTS || domain->max_ep_srx_ctx > INFO_ENDPOINTS},
        {"authorization key", domain->auth_key_size},
        {"count of endpoints, contexts, queues or counters",
         domain->ep_cnt > INFO_ENDPOINTS || domain->cq_cnt > INFO_ENDPOINTS ||
             domain->cntr_cnt > INFO_ENDPOINTS || domain->tx_ctx_cnt > INFO_ENDPOINTS ||
             domain->rx_ctx_cnt > INFO_ENDPOINTS},
        {"count of memory regions, or of their pieces",
         domain->mr_cnt > INFO_REGIONS || domain->mr_iov_limit > ofi_limits()->iovs},
        {"error data", domain->max_err_data > error_data_bytes(caps)},
        {"traffic class of the domain", ofi_tclass(domain->tclass) < 0},
        {"groups of peers", ofi_max_group_id(domain)},
        {0},
    });
}

static int check_hints(const struct fi_info *hints, uint64_t caps)
{
    int err;

    if (!hints)
        return 0;
    err = check_ep(hints->ep_attr);
    if (err)
        return err;
    if (caps & ~OFI_CAPS)
        return info_refuse_caps(caps & ~OFI_CAPS, "");
    if (caps & FI_SOURCE_ERR && !(caps & FI_SOURCE))
        return info_refuse("capability FI_SOURCE_ERR without FI_SOURCE");
    if (ofi_addr_format(hints->addr_format) == FI_FORMAT_UNSPEC)
        return info_refuse("address format");
    if (hints->fabric_attr && hints->fabric_attr->name &&
        strcmp(hints->fabric_attr->name, ofi_prov.name) != 0)
        return info_refuse("fabric name");
    err = ofi_check_tx(hints->tx_attr, caps);
    if (!err)
        err = ofi_check_rx(hints->rx_attr, caps);
    if (!err)
        err = check_domain(hints->domain_attr, caps);
    return err;
}

struct ofi_names {
    const char *node, *service;
    uint64_t flags;
};

static bool names_exist(const struct ofi_names *names)
{
    return names->node || names->service;
}

/*
 * Set the address for the program's endpoints to the first of these that exists: the source that
 * the caller named, the source in the hints, the address of the passive endpoint in the hints, any
 * node and queues.
 */
static int info_src_addr(struct fi_info *info, const struct ofi_names *names,
                         const struct fi_info *hints)
{
    struct ofi_addr addr = ofi_addr_any;
    int err = 0;

    if (names->flags & FI_SOURCE)
        err = ofi_addr_parse(names->node, names->service, names->flags, &addr);
    else if (hints && hints->src_addr)
        err = ofi_addr_read(info->addr_format, hints->src_addr, hints->src_addrlen, &addr);
    else if (info->handle)
        err = ofi_pep_addr(info->handle, &addr);
    if (err)
        return info_refuse("source address");
    return ofi_addr_dup(info->addr_format, &addr, &info->src_addr, &info->src_addrlen);
}

/*
 * Set the destination address: the destination that the caller named, or else the destination in
 * the hints. If the caller named a node without a service, the queues are unknown. A service
 * without a node means this host, as with getaddrinfo(3).
 */
static int info_dest_addr(struct fi_info *info, const struct ofi_names *names,
                          const struct fi_info *hints)
{
    struct ofi_addr addr = ofi_addr_any;
    int err = 0;

    if (names_exist(names) && !(names->flags & FI_SOURCE)) {
        err = ofi_addr_parse(names->node, names->service, names->flags, &addr);
        if (!names->node)
            addr.node = OFI_NODE_SELF;
    } else if (hints && hints->dest_addr) {
        err = ofi_addr_read(info->addr_format, hints->dest_addr, hints->dest_addrlen, &addr);
    } else {
        return 0;
    }
    if (err || addr.node == FABEMU_ANY_NODE)
        return info_refuse("destination address");
    return ofi_addr_dup(info->addr_format, &addr, &info->dest_addr, &info->dest_addrlen);
}

/* Set both addresses. Source: fi_getinfo(3). */
static int info_addrs(struct fi_info *info, const struct ofi_names *names,
                      const struct fi_info *hints)
{
    int err;

    if (names->flags & FI_SOURCE && !names_exist(names))
        return info_refuse("flag FI_SOURCE without node and service");
    err = info_src_addr(info, names, hints);
    if (!err)
        err = info_dest_addr(info, names, hints);
    return err == -FI_EADDRNOTAVAIL ? info_refuse("node number in this address format") : err;
}

/*
 * Return the order of messages for a program that requests @want. Sends wait for writes only if the
 * program requests that order, because this costs time.
 */
static uint64_t info_order(uint64_t want)
{
    return FI_ORDER_SAS | (want & FI_ORDER_SAW);
}

static void info_fill_ctx(struct fi_info *info, const struct info_kind *kind,
                          const struct fi_info *hints)
{
    const struct fi_ep_attr *want = hints ? hints->ep_attr : NULL;

    *info->tx_attr = (struct fi_tx_attr){
        .caps = info->caps & OFI_CAPS_TX,
        .op_flags = hints && hints->tx_attr ? hints->tx_attr->op_flags : 0,
        .msg_order = info_order(hints && hints->tx_attr ? hints->tx_attr->msg_order : 0),
        .inject_size = ofi_limits()->inject_bytes,
        .size = INFO_QUEUE_DEPTH,
        .tclass = hints && hints->tx_attr ? hints->tx_attr->tclass : FI_TC_UNSPEC,
        .iov_limit = ofi_limits()->iovs,
        .rma_iov_limit = info->caps & OFI_CAPS_MEMORY ? ofi_limits()->iovs : 0,
    };
    *info->rx_attr = (struct fi_rx_attr){
        .caps = info->caps & OFI_CAPS_RX,
        .op_flags = hints && hints->rx_attr ? hints->rx_attr->op_flags : 0,
        .msg_order = info_order(hints && hints->rx_attr ? hints->rx_attr->msg_order : 0),
        .total_buffered_recv = 0,
        .size = INFO_QUEUE_DEPTH,
        .iov_limit = ofi_limits()->iovs,
    };
    *info->ep_attr = (struct fi_ep_attr){
        .type = kind->type,
        .protocol = ofi_limits()->protocol,
        .protocol_version = 1,
        .max_msg_size = kind_message_bytes(kind),
        .mem_tag_format = UINT64_MAX,
        .tx_ctx_cnt = want && want->tx_ctx_cnt ? want->tx_ctx_cnt : 1,
        .rx_ctx_cnt = want && want->rx_ctx_cnt ? want->rx_ctx_cnt : 1,
    };
}

/*
 * Fill in the domain's attributes. An option that makes no difference to the provider gets the
 * value in the hints.
 */
static void info_fill_domain(struct fi_info *info, uint32_t version, const struct fi_info *hints)
{
    const struct fi_domain_attr none = {0};
    const struct fi_domain_attr *want = hints && hints->domain_attr ? hints->domain_attr : &none;
    int mr_mode = info_mr_mode(version, hints);
    const struct fi_domain_attr attr = {
        .threading = want->threading ? want->threading : FI_THREAD_SAFE,
        .control_progress = want->control_progress ? want->control_progress : FI_PROGRESS_AUTO,
        .data_progress = want->data_progress ? want->data_progress : FI_PROGRESS_AUTO,
        .resource_mgmt = want->resource_mgmt ? want->resource_mgmt : FI_RM_ENABLED,
        .av_type = want->av_type,
        .mr_mode = info->caps & OFI_CAPS_MEMORY ? mr_mode : mr_mode & ~FI_MR_PROV_KEY,
        .mr_key_size = sizeof(uint64_t),
        .cq_data_size = OFI_CQ_DATA_BYTES,
        .cq_cnt = INFO_ENDPOINTS,
        .ep_cnt = INFO_ENDPOINTS,
        .tx_ctx_cnt = INFO_ENDPOINTS,
        .rx_ctx_cnt = INFO_ENDPOINTS,
        .max_ep_tx_ctx = OFI_CONTEXTS_MAX,
        .max_ep_rx_ctx = OFI_CONTEXTS_MAX,
        .max_ep_stx_ctx = INFO_ENDPOINTS,
        .max_ep_srx_ctx = INFO_ENDPOINTS,
        .cntr_cnt = INFO_ENDPOINTS,
        .mr_iov_limit = ofi_limits()->iovs,
        .mr_cnt = INFO_REGIONS,
        .max_err_data = error_data_bytes(info->caps),
        .caps = OFI_CAPS_DOMAIN,
        .tclass = want->tclass,
    };

    memcpy(info->domain_attr, &attr, OFI_DOMAIN_ATTR_BYTES);
}

static int info_create(uint32_t version, const struct info_kind *kind, const struct fi_info *hints,
                       uint64_t caps, struct fi_info **ret)
{
    struct fi_info *info = fi_allocinfo();

    if (!info)
        return -FI_ENOMEM;
    info->caps = caps & kind->caps;
    info->addr_format = ofi_addr_format(hints ? hints->addr_format : FI_FORMAT_UNSPEC);
    info->handle = hints ? hints->handle : NULL;
    info_fill_ctx(info, kind, hints);
    info_fill_domain(info, version, hints);
    info->domain_attr->name = strdup(ofi_prov.name);
    info->fabric_attr->name = strdup(ofi_prov.name);
    info->fabric_attr->prov_version = ofi_prov.version;
    if (!info->domain_attr->name || !info->fabric_attr->name) {
        fi_freeinfo(info);
        return -FI_ENOMEM;
    }
    *ret = info;
    return 0;
}

static bool kind_fits(const struct info_kind *kind, const struct fi_info *hints)
{
    enum fi_ep_type type = hints && hints->ep_attr ? hints->ep_attr->type : FI_EP_UNSPEC;

    if (type != FI_EP_UNSPEC && type != kind->type)
        return false;
    if (hints && hints->handle && (kind->type != FI_EP_MSG || !ofi_is_pep(hints->handle)))
        return info_refuse("handle") == 0;
    if (hints && hints->caps & ~kind->caps)
        return info_refuse_caps(hints->caps & ~kind->caps, " for this type of endpoint") == 0;
    if (hints && hints->ep_attr && hints->ep_attr->max_msg_size > kind_message_bytes(kind))
        return info_refuse("message size for this type of endpoint") == 0;
    if (hints && hints->ep_attr &&
        (!contexts_fit(hints->ep_attr->tx_ctx_cnt, kind->contexts) ||
         !contexts_fit(hints->ep_attr->rx_ctx_cnt, kind->contexts)))
        return info_refuse("count of contexts for this type of endpoint") == 0;
    return true;
}

/* Append an fi_info for this kind of endpoint, if it satisfies the hints. */
static int info_append(struct fi_info **list, uint32_t version, const struct info_kind *kind,
                       const struct fi_info *hints, uint64_t caps, const struct ofi_names *names)
{
    struct fi_info *info;
    int err;

    if (!kind_fits(kind, hints))
        return 0;
    err = info_create(version, kind, hints, caps, &info);
    if (err)
        return err;
    while (*list)
        list = &(*list)->next;
    *list = info;
    return info_addrs(info, names, hints);
}

int ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **ret)
{
    const struct ofi_names names = {.node = node, .service = service, .flags = flags};
    uint64_t caps = info_caps(hints);
    struct fi_info *list = NULL;
    bool below = flags & INFO_CORE_PROV_ONLY;
    int err;

    *refused = '\0';
    err = below ? info_refuse("use below a utility provider") : check_hints(hints, caps);
    if (!err && !(flags & FI_PROV_ATTR_ONLY))
        err = ofi_socket_check();
    for (unsigned i = 0; i < INFO_KINDS && !err; i++)
        err = info_append(&list, version, &info_kinds[i], hints, caps, &names);
    if (!err && !list)
        err = -FI_ENODATA;
    if (err)
        fi_freeinfo(list);
    else
        *ret = list;
    if (err == -FI_ENODATA && *refused && !below)
        fabemu_refused(refused);
    return err;
}
