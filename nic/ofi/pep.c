/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pep.c - passive endpoints: fi_passive_ep(), fi_listen(), fi_reject(), and requests for
 * connections.
 *
 * A passive endpoint holds a reference to the process's adapter. The untagged queue in its address
 * is its channel (cm.c), so clients need no other address. fi_getname() or fi_listen() opens the
 * channel. Afterwards the address does not change. Messages that arrive before fi_listen() stay in
 * the queue until then.
 *
 * A program may open an active endpoint with a passive endpoint as fi_info.handle. The active
 * endpoint then has the address of the passive endpoint, even after the latter is closed
 * (fi_endpoint(3)).
 */
#include "nic/ofi/cm.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>
#include <string.h>

#define PEP_RECEIVES 64 /* receives that are posted for requests from clients */

struct ofi_pep {
    struct fid_pep pep_fid;
    struct ofi_fabric *fabric;
    struct ofi_pep *next; /* next in fabric->peps; protected by fabric->request_lock */
    struct fabemu *fab;
    struct fi_info *info; /* copied for each request */
    uint32_t addr_format;
    struct ofi_addr source; /* the requested address; once the channel is open, its address */
    bool named;             /* the program has chosen the port */
    struct ofi_cm cm;
    struct fid_eq *eq;
    /* requests that the program has neither accepted nor rejected; protected by
       fabric->request_lock */
    uint32_t request_count;
};

static struct ofi_pep *pep_of(struct fid *fid)
{
    return container_of(fid, struct ofi_pep, pep_fid.fid);
}

/* --- requests ----------------------------------------------------------------------- */

struct ofi_request *ofi_request_hold(struct ofi_fabric *fabric, const struct fid *handle)
{
    struct ofi_request *request;

    pthread_mutex_lock(&fabric->request_lock);
    request = fabric->requests;
    while (request && &request->fid != handle)
        request = request->next;
    if (request)
        request->refs++;
    pthread_mutex_unlock(&fabric->request_lock);
    return request;
}

/* Lock: the fabric's request_lock. */
static void request_drop(struct ofi_request *request)
{
    struct ofi_request **at = &request->fabric->requests;

    if (--request->refs)
        return;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    free(request);
}

void ofi_request_release(struct ofi_request *request)
{
    struct ofi_fabric *fabric = request->fabric;

    pthread_mutex_lock(&fabric->request_lock);
    request_drop(request);
    pthread_mutex_unlock(&fabric->request_lock);
}

/* Release the passive endpoint's reference, unless it was released before. Lock: request_lock. */
static void request_leave_pep(struct ofi_request *request)
{
    if (!request->pep)
        return;
    request->pep->request_count--;
    request->pep = NULL;
    request_drop(request);
}

bool ofi_request_answer(struct ofi_request *request, const struct ofi_pep *pep)
{
    bool may;

    pthread_mutex_lock(&request->fabric->request_lock);
    may = !request->answered && (!pep || request->pep == pep);
    request->answered |= may;
    pthread_mutex_unlock(&request->fabric->request_lock);
    return may;
}

void ofi_request_answered(struct ofi_request *request, bool sent)
{
    struct ofi_fabric *fabric = request->fabric;

    pthread_mutex_lock(&fabric->request_lock);
    request->answered = sent;
    if (sent)
        request_leave_pep(request);
    pthread_mutex_unlock(&fabric->request_lock);
}

/*
 * Return a new request, which has one reference, held by its passive endpoint. NULL: there is no
 * memory.
 * @count: receives the number of requests that the program has not answered.
 */
static struct ofi_request *request_new(struct ofi_pep *pep, const struct ofi_addr *client,
                                       uint16_t channel, uint32_t *count)
{
    struct ofi_request *request = calloc(1, sizeof *request);

    if (!request)
        return NULL;
    request->fid.fclass = FI_CLASS_CONNREQ;
    request->fabric = pep->fabric;
    request->refs = 1;
    request->pep = pep;
    request->addr = *client;
    request->channel = channel;
    pthread_mutex_lock(&pep->fabric->request_lock);
    request->next = pep->fabric->requests;
    pep->fabric->requests = request;
    *count = ++pep->request_count;
    pthread_mutex_unlock(&pep->fabric->request_lock);
    return request;
}

static struct fi_info *request_info(struct ofi_pep *pep, struct ofi_request *request)
{
    struct fi_info *info = fi_dupinfo(pep->info);

    if (!info)
        return NULL;
    if (ofi_addr_dup(pep->addr_format, &pep->source, &info->src_addr, &info->src_addrlen) ||
        ofi_addr_dup(pep->addr_format, &request->addr, &info->dest_addr, &info->dest_addrlen)) {
        fi_freeinfo(info);
        return NULL;
    }
    info->handle = &request->fid;
    return info;
}

void ofi_pep_request(struct ofi_cm *cm, const struct ofi_addr *client, uint16_t channel,
                     const void *data, size_t bytes)
{
    union {
        struct fi_eq_cm_entry entry;
        uint8_t bytes[sizeof(struct fi_eq_cm_entry) + OFI_CM_DATA_BYTES];
    } out = {.entry = {.fid = cm->fid}};
    struct ofi_pep *pep = pep_of(cm->fid);
    uint32_t count;
    struct ofi_request *request = request_new(pep, client, channel, &count);

    if (!request)
        return; /* the client gives up after a time */
    if (count <= OFI_REQUESTS_MAX)
        out.entry.info = request_info(pep, request);
    if (bytes)
        memcpy(out.entry.data, data, bytes);
    if (out.entry.info && !ofi_eq_report(pep->eq, FI_CONNREQ, &out, sizeof out.entry + bytes))
        return;
    fi_freeinfo(out.entry.info);
    ofi_cm_reject(cm, &pep->source, request, NULL, 0);
    ofi_request_answered(request, true);
}

/* --- calls -------------------------------------------------------------------------- */

static int pep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct ofi_pep *pep = pep_of(fid);

    if (flags)
        return -FI_EBADFLAGS;
    return ofi_eq_bind(other, &pep->eq);
}

static int pep_open_channel(struct ofi_pep *pep)
{
    const struct fabemu_info *info = fabemu_info(pep->fab);
    int err;

    if (pep->cm.queue)
        return 0;
    if (!ofi_addr_is_here(&pep->source, info))
        return -FI_EADDRNOTAVAIL;
    err = ofi_cm_open(&pep->cm, pep->fab, &pep->pep_fid.fid, pep->source.queue[OFI_UNTAGGED]);
    if (err)
        return err;
    pep->named = ofi_addr_has_queues(&pep->source);
    pep->source.node = info->node;
    pep->source.fabric = ofi_addr_hash(info);
    pep->source.incarnation = info->incarnation;
    pep->source.queue[OFI_UNTAGGED] = fabemu_queue_id(pep->cm.queue);
    pep->source.queue[OFI_TAGGED] = pep->source.queue[OFI_UNTAGGED] | 1u;
    return 0;
}

static int pep_listen(struct fid_pep *fid)
{
    struct ofi_pep *pep = pep_of(&fid->fid);
    int err;

    if (!pep->eq)
        return -FI_ENOEQ;
    if (pep->cm.state == CM_LISTENING)
        return -FI_EOPBADSTATE;
    err = pep_open_channel(pep);
    if (err)
        return err;
    pep->cm.state = CM_LISTENING;
    err = ofi_cm_start(&pep->cm, pep->eq, PEP_RECEIVES);
    if (!err && pep->named && fabemu_queue_announce(pep->cm.queue)) {
        ofi_eq_remove(&pep->cm);
        err = -FI_EOTHER;
    }
    if (err) {
        ofi_cm_close(&pep->cm);
        pep->cm.state = CM_IDLE;
    }
    return err;
}

static int pep_reject(struct fid_pep *fid, struct fid *handle, const void *data, size_t bytes)
{
    struct ofi_pep *pep = pep_of(&fid->fid);
    struct ofi_request *request = ofi_request_hold(pep->fabric, handle);
    int err;

    if (!request)
        return -FI_EINVAL;
    if (!ofi_request_answer(request, pep)) {
        ofi_request_release(request);
        return -FI_EOPBADSTATE;
    }
    ofi_eq_lock(pep->eq);
    err = ofi_cm_reject(&pep->cm, &pep->source, request, data, bytes);
    ofi_eq_unlock(pep->eq);
    ofi_request_answered(request, !err);
    ofi_request_release(request);
    return err;
}

static int pep_setname(fid_t fid, void *addr, size_t bytes)
{
    struct ofi_pep *pep = pep_of(fid);

    if (pep->cm.queue)
        return -FI_EOPBADSTATE;
    return ofi_addr_read(pep->addr_format, addr, bytes, &pep->source);
}

static int pep_getname(fid_t fid, void *addr, size_t *bytes)
{
    struct ofi_pep *pep = pep_of(fid);
    int err = pep_open_channel(pep);

    return err ? err : ofi_addr_copy(pep->addr_format, &pep->source, addr, bytes);
}

static int pep_getopt(fid_t fid, int level, int name, void *value, size_t *bytes)
{
    (void)fid;
    return ofi_opt_get(level, name, FI_OPT_CM_DATA_SIZE, OFI_CM_DATA_BYTES, value, bytes);
}

/*
 * Reject the requests for which the program has opened no endpoint. The other requests can still be
 * accepted. The caller has removed the passive endpoint from its event queue.
 */
static void pep_forget_requests(struct ofi_pep *pep)
{
    struct ofi_request *request, *next;

    pthread_mutex_lock(&pep->fabric->request_lock);
    for (request = pep->fabric->requests; request; request = next) {
        next = request->next;
        if (request->pep != pep)
            continue;
        if (request->refs == 1)
            ofi_cm_reject(&pep->cm, &pep->source, request, NULL, 0);
        request_leave_pep(request);
    }
    pthread_mutex_unlock(&pep->fabric->request_lock);
}

static void pep_unlist(struct ofi_pep *pep)
{
    struct ofi_pep **at = &pep->fabric->peps;

    pthread_mutex_lock(&pep->fabric->request_lock);
    while (*at != pep)
        at = &(*at)->next;
    *at = pep->next;
    pthread_mutex_unlock(&pep->fabric->request_lock);
}

static int pep_close(struct fid *fid)
{
    struct ofi_pep *pep = pep_of(fid);

    pep_unlist(pep);
    if (pep->cm.state == CM_LISTENING) {
        ofi_eq_remove(&pep->cm); /* so that no thread handles its messages any more */
        pep_forget_requests(pep);
        ofi_cm_refuse(&pep->cm, &pep->source);
        ofi_cm_drain(&pep->cm); /* sends the rejections */
    }
    ofi_cm_close(&pep->cm);
    ofi_eq_unbind(&pep->eq);
    fi_freeinfo(pep->info);
    fabemu_detach(pep->fab);
    ofi_release(&pep->fabric->refs);
    free(pep);
    return 0;
}

static struct fi_ops pep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = pep_close,
    .bind = pep_bind,
    .control = ofi_no_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_ep pep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = ofi_no_cancel,
    .getopt = pep_getopt,
    .setopt = ofi_no_setopt,
    .tx_ctx = ofi_no_tx_ctx,
    .rx_ctx = ofi_no_rx_ctx,
    .rx_size_left = ofi_no_size_left,
    .tx_size_left = ofi_no_size_left,
};

static struct fi_ops_cm pep_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = pep_setname,
    .getname = pep_getname,
    .getpeer = ofi_no_getpeer,
    .connect = ofi_no_connect,
    .listen = pep_listen,
    .accept = ofi_no_accept,
    .reject = pep_reject,
    .shutdown = ofi_no_shutdown,
};

bool ofi_is_pep(const struct fid *fid)
{
    return fid->fclass == FI_CLASS_PEP && fid->ops == &pep_fid_ops;
}

int ofi_pep_addr(struct fid *fid, struct ofi_addr *ret)
{
    struct ofi_pep *pep = pep_of(fid);
    int err = pep_open_channel(pep);

    if (!err)
        *ret = pep->source;
    return err;
}

int ofi_pep_addr_of(struct ofi_fabric *fabric, const struct fid *handle, struct ofi_addr *ret)
{
    struct ofi_pep *pep;

    pthread_mutex_lock(&fabric->request_lock);
    pep = fabric->peps;
    while (pep && &pep->pep_fid.fid != handle)
        pep = pep->next;
    pthread_mutex_unlock(&fabric->request_lock);
    return pep ? ofi_pep_addr(&pep->pep_fid.fid, ret) : -FI_EINVAL;
}

static void pep_list(struct ofi_pep *pep)
{
    pthread_mutex_lock(&pep->fabric->request_lock);
    pep->next = pep->fabric->peps;
    pep->fabric->peps = pep;
    pthread_mutex_unlock(&pep->fabric->request_lock);
}

int ofi_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **ret,
                 void *context)
{
    struct ofi_addr source;
    struct ofi_pep *pep;
    int err;

    if (!info || !ret || !info->ep_attr || info->ep_attr->type != FI_EP_MSG ||
        ofi_addr_of_source(info, &source))
        return -FI_EINVAL;
    pep = calloc(1, sizeof *pep);
    if (!pep)
        return -FI_ENOMEM;
    pep->info = fi_dupinfo(info);
    err = pep->info ? fabemu_attach(&pep->fab, NULL) : -ENOMEM;
    if (err) {
        fi_freeinfo(pep->info);
        free(pep);
        return -ofi_errno(err);
    }
    pep->source = source;
    pep->addr_format = ofi_addr_format(info->addr_format);
    pep->fabric = container_of(fabric, struct ofi_fabric, fabric_fid);
    ofi_fid_init(&pep->pep_fid.fid, FI_CLASS_PEP, context, &pep_fid_ops);
    pep->pep_fid.ops = &pep_ops;
    pep->pep_fid.cm = &pep_cm_ops;
    ofi_hold(&pep->fabric->refs);
    pep_list(pep);
    *ret = &pep->pep_fid;
    return 0;
}
