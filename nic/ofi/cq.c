/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq.c - completion queues.
 *
 * An entry of a completion queue is the completed operation itself (ofi.h). A read that finds no
 * entry steps the adapter once, checks again, and returns -FI_EAGAIN. Callers repeat such reads,
 * some of them (Open MPI's blocking send) without ever yielding. So after OFI_POLLS_BEFORE_IDLE
 * reads in a row that found nothing, each further read calls fabemu_idle(), which lets other
 * threads run. Yielding in every read would make the latency of short messages up to three times as
 * long.
 */
#include "nic/ofi/ep.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>
#include <string.h>

void ofi_cq_poll_missed(struct ofi_cq *cq)
{
    unsigned empty = atomic_load_explicit(&cq->empty, memory_order_relaxed);

    if (empty < OFI_POLLS_BEFORE_SLEEP) /* the count ends at this value */
        atomic_store_explicit(&cq->empty, empty + 1, memory_order_relaxed);
    if (empty >= OFI_POLLS_BEFORE_IDLE)
        fabemu_idle(cq->domain->fab, empty - OFI_POLLS_BEFORE_IDLE);
}

/*
 * A poll has found an entry or moved segments: restart the count of polls that found nothing. For
 * example, a caller that receives a long message is not idle.
 */
static void cq_poll_found(struct ofi_cq *cq)
{
    atomic_store_explicit(&cq->empty, 0, memory_order_relaxed);
}

/* Append the operations in cq->arrived to the queue, in the order of their arrival. Lock: held. */
static void cq_take(struct ofi_cq *cq)
{
    struct ofi_op *op = ofi_stack_take(&cq->arrived);
    struct ofi_op *newest = op;
    struct ofi_op *oldest = NULL;

    while (op) {
        struct ofi_op *next = op->next;

        op->next = oldest;
        oldest = op;
        op = next;
    }
    if (!oldest)
        return;
    if (cq->oldest)
        cq->newest->next = oldest;
    else
        cq->oldest = oldest;
    cq->newest = newest;
}

/* Return the oldest entry, which stays in the queue; NULL: there is none. Lock: held. */
static struct ofi_op *cq_peek(struct ofi_cq *cq)
{
    if (!cq->oldest)
        cq_take(cq);
    return cq->oldest;
}

static bool cq_ready(struct ofi_source *source)
{
    struct ofi_cq *cq = container_of(source, struct ofi_cq, source);
    bool ready;

    ofi_lock(&cq->lock);
    ready = cq_peek(cq) || atomic_load_explicit(&cq->signalled, memory_order_relaxed);
    ofi_unlock(&cq->lock);
    return ready;
}

/*
 * Remove the oldest entry after the program has read it. If it reported a peer's write, its
 * operation now waits for the next write, unless its endpoint is closing. (ep_stop() in ep.c sets
 * `closing` under the same lock.)
 */
static void cq_drop(struct ofi_cq *cq)
{
    struct ofi_op *op = cq->oldest;
    bool closing = atomic_load_explicit(&op->ep->closing, memory_order_relaxed);

    cq->oldest = op->next;
    if (op->flags & FI_REMOTE_WRITE && !closing)
        ofi_notice_await(op);
    else
        ofi_op_read(op);
}

static uint64_t cq_entry_flags(const struct ofi_op *op)
{
    bool data = op->flags & FI_RECV && op->req.mark & OFI_HAS_DATA;

    return op->flags | (data ? FI_REMOTE_CQ_DATA : 0);
}

/* Write an entry to @to. Each format is a prefix of the longest one. */
static void cq_entry(const struct ofi_cq *cq, const struct ofi_op *op, void *to)
{
    struct fi_cq_tagged_entry entry = {
        .op_context = op->req.context,
        .flags = cq_entry_flags(op),
        .buf = op->buf,
    };

    if (op->flags & OFI_FROM_PEER) {
        entry.len = op->req.bytes;
        entry.data = op->req.data;
        entry.tag = op->req.tag;
    }
    memcpy(to, &entry, cq->entry_bytes);
}

/* Return whether to look for the sender of a message or write in the address vector. */
static bool cq_has_source(const struct ofi_op *op)
{
    return op->flags & OFI_FROM_PEER && op->ep->caps & FI_SOURCE && op->ep->av;
}

static fi_addr_t cq_source(const struct ofi_op *op)
{
    if (!cq_has_source(op))
        return FI_ADDR_NOTAVAIL;

    struct ofi_peer from = {.node = op->req.src_node, .incarnation = op->req.src_incarnation};

    from.queue[op->kind] = (uint16_t)op->req.src_queue;
    return ofi_av_find(op->ep->av, op->kind, &from);
}

/*
 * Return whether an entry is an error. With FI_SOURCE_ERR, a message or write whose sender is not
 * in the address vector becomes an error here. Source: fi_cq(3). Lock: held.
 */
static bool cq_find_error(struct ofi_op *op)
{
    if (!op->error && op->ep->caps & FI_SOURCE_ERR && cq_has_source(op) &&
        cq_source(op) == FI_ADDR_NOTAVAIL)
        op->error = FI_EADDRNOTAVAIL;
    return op->error;
}

/*
 * Read up to @count entries, at most up to the first error. Returns their number; -FI_EAVAIL if the
 * oldest entry is an error; -FI_EAGAIN if there is none.
 */
static ssize_t cq_pop(struct ofi_cq *cq, char *to, size_t count, fi_addr_t *source)
{
    ssize_t got = 0, none = 0;
    struct ofi_op *op;

    ofi_lock(&cq->lock);
    while ((op = cq_peek(cq)) && !cq_find_error(op) && (size_t)got < count) {
        cq_entry(cq, op, to + (size_t)got * cq->entry_bytes);
        if (source)
            source[got] = cq_source(op);
        cq_drop(cq);
        got++;
    }
    if (!op)
        none = -FI_EAGAIN;
    else if (op->error)
        none = -FI_EAVAIL;
    ofi_unlock(&cq->lock);
    return got ? got : none;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source)
{
    struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq_fid);
    unsigned moved = 0;
    ssize_t got;

    if (!buf && count)
        return -FI_EINVAL;
    got = cq_pop(cq, buf, count, source);
    if (got == -FI_EAGAIN) {
        moved = fabemu_progress(cq->domain->fab);
        got = cq_pop(cq, buf, count, source);
    }
    if (got > 0 || moved)
        cq_poll_found(cq);
    else if (got == -FI_EAGAIN)
        ofi_cq_poll_missed(cq);
    return got;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    return cq_readfrom(fid, buf, count, NULL);
}

/*
 * Return the size of the caller's struct fi_cq_err_entry, which grew in libfabric 1.5 and 1.20. The
 * headers with which this file is compiled may be older or newer than 1.20.
 */
static size_t cq_error_bytes(const struct ofi_cq *cq)
{
    uint32_t version = cq->domain->fabric->fabric_fid.api_version;

    if (FI_VERSION_LT(version, FI_VERSION(1, 5)))
        return offsetof(struct fi_cq_err_entry, err_data_size);
    if (FI_VERSION_LT(version, FI_VERSION(1, 20)))
        return offsetof(struct fi_cq_err_entry, err_data_size) + sizeof(size_t);
    return sizeof(struct fi_cq_err_entry);
}

/*
 * Write the address of an unknown sender to the buffer in the caller's entry @buf. If the entry has
 * no buffer, use that of the queue. Lock: held.
 */
static void cq_error_source(struct ofi_cq *cq, const struct ofi_op *op,
                            const struct fi_cq_err_entry *buf, struct fi_cq_err_entry *entry)
{
    struct ofi_addr from = {.node = op->req.src_node,
                            .fabric = cq->domain->fabric_hash,
                            .incarnation = op->req.src_incarnation};
    size_t room = entry->err_data ? buf->err_data_size : 0, bytes;

    if (!room) {
        entry->err_data = cq->err_data;
        room = sizeof cq->err_data;
    }
    bytes = room;
    ofi_addr_set_port(&from, op->req.src_queue / OFI_KINDS);
    if (ofi_addr_copy(cq->domain->addr_format, &from, entry->err_data, &bytes) == -FI_EADDRNOTAVAIL)
        bytes = 0; /* the format has no address for this node */
    entry->err_data_size = bytes < room ? bytes : room;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
    struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq_fid);
    struct fi_cq_err_entry entry = {0};
    ssize_t got = -FI_EAGAIN;

    (void)flags;
    if (!buf)
        return -FI_EINVAL;
    ofi_lock(&cq->lock);
    struct ofi_op *op = cq_peek(cq);

    if (op && cq_find_error(op)) {
        entry.op_context = op->req.context;
        entry.flags = cq_entry_flags(op);
        entry.buf = op->buf;
        entry.err = op->error;
        entry.prov_errno = op->error;
        fabemu_req_why(cq->domain->fab, &op->req, cq->why, sizeof cq->why);
        cq->why_of = op->error;
        if (op->error == FI_ETRUNC || op->error == FI_EADDRNOTAVAIL) {
            entry.olen = op->error == FI_ETRUNC ? op->req.bytes - op->room : 0;
            entry.len = op->req.bytes - entry.olen;
            entry.data = op->req.data;
            entry.tag = op->req.tag;
        }
        if (cq_error_bytes(cq) > offsetof(struct fi_cq_err_entry, err_data_size))
            entry.err_data = buf->err_data; /* the caller's buffer */
        if (op->error == FI_EADDRNOTAVAIL)
            cq_error_source(cq, op, buf, &entry);
        memcpy(buf, &entry, cq_error_bytes(cq));
        cq_drop(cq);
        got = 1;
    }
    ofi_unlock(&cq->lock);
    return got;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source,
                            const void *cond, int timeout_ms)
{
    struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq_fid);
    struct ofi_wait wait = ofi_wait_begin(cq->domain->fab, timeout_ms);
    ssize_t got;

    (void)cond; /* the threshold is only a hint */
    if (cq->source.wait_obj == FI_WAIT_NONE || (!buf && count))
        return -FI_EINVAL;
    while ((got = cq_pop(cq, buf, count, source)) == -FI_EAGAIN)
        if (atomic_exchange_explicit(&cq->signalled, false, memory_order_relaxed) ||
            !ofi_wait_step(&wait))
            return -FI_EAGAIN;
    return got;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond,
                        int timeout_ms)
{
    return cq_sreadfrom(fid, buf, count, NULL, cond, timeout_ms);
}

static int cq_signal(struct fid_cq *fid)
{
    struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq_fid);

    atomic_store_explicit(&cq->signalled, true, memory_order_relaxed);
    ofi_source_wake(&cq->source);
    return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *data, char *buf,
                               size_t bytes)
{
    struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq_fid);
    const char *text = fi_strerror(prov_errno);

    (void)data;
    ofi_lock(&cq->lock);
    if (prov_errno == FI_EHOSTUNREACH && prov_errno == cq->why_of)
        text = cq->why;
    if (buf && bytes) {
        strncpy(buf, text, bytes - 1);
        buf[bytes - 1] = '\0';
    }
    ofi_unlock(&cq->lock);
    return text;
}

void ofi_cq_forget(struct ofi_cq *cq, struct ofi_ep *ep)
{
    struct ofi_op **at = &cq->oldest;

    ofi_lock(&cq->lock);
    cq_take(cq);
    cq->newest = NULL;
    while (*at)
        if ((*at)->ep == ep) {
            struct ofi_op *op = *at;

            *at = op->next;
            if (op->pool != &ep->pool && op->pool != &ep->arrivals)
                /* operations of a shared context; other operations are freed with their endpoint */
                ofi_op_put(op);
        } else {
            cq->newest = *at;
            at = &(*at)->next;
        }
    ofi_unlock(&cq->lock);
}

static int cq_close(struct fid *fid)
{
    struct ofi_cq *cq = container_of(fid, struct ofi_cq, cq_fid.fid);

    if (ofi_held(&cq->source.refs))
        return -FI_EBUSY;
    ofi_source_close(&cq->source);
    ofi_lock_destroy(&cq->lock);
    ofi_release(&cq->domain->refs);
    free(cq);
    return 0;
}

static struct fi_ops cq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = cq_close,
    .bind = ofi_no_bind,
    .control = ofi_source_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_cq cq_ops = {
    .size = sizeof(struct fi_ops_cq),
    .read = cq_read,
    .readfrom = cq_readfrom,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

static size_t cq_entry_bytes(enum fi_cq_format format)
{
    switch (format) {
    case FI_CQ_FORMAT_UNSPEC:
    case FI_CQ_FORMAT_CONTEXT:
        return sizeof(struct fi_cq_entry);
    case FI_CQ_FORMAT_MSG:
        return sizeof(struct fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA:
        return sizeof(struct fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
        return sizeof(struct fi_cq_tagged_entry);
    }
    return 0;
}

int ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **ret,
                void *context)
{
    size_t entry_bytes = attr && ret ? cq_entry_bytes(attr->format) : 0;
    struct ofi_cq *cq;
    int err;

    /* FI_PEER would write entries to another provider's queue */
    if (!entry_bytes || attr->flags & ~(uint64_t)FI_AFFINITY)
        return -FI_EINVAL;
    cq = calloc(1, sizeof *cq);
    if (!cq)
        return -FI_ENOMEM;
    if (attr->format == FI_CQ_FORMAT_UNSPEC)
        attr->format = FI_CQ_FORMAT_CONTEXT;
    cq->entry_bytes = entry_bytes;
    cq->domain = ofi_domain_of(domain);
    cq->source.fid = &cq->cq_fid.fid;
    cq->source.fab = cq->domain->fab;
    cq->source.ready = cq_ready;
    err = ofi_source_open(&cq->source, attr->wait_obj, attr->wait_set);
    if (err) {
        free(cq);
        return err;
    }
    ofi_lock_init(&cq->lock, cq->domain);
    ofi_fid_init(&cq->cq_fid.fid, FI_CLASS_CQ, context, &cq_fid_ops);
    cq->cq_fid.ops = &cq_ops;
    ofi_hold(&cq->domain->refs);
    *ret = &cq->cq_fid;
    return 0;
}
