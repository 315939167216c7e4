/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eq.c - event queues. An event is copied into the queue when it happens. An error is read by
 * fi_eq_readerr() only.
 */
#include "nic/ofi/unsupported.h"

#include <stdlib.h>
#include <string.h>

struct eq_event {
    struct eq_event *next;
    uint32_t code;              /* enum fi_eq_event, or the program's own */
    struct fi_eq_err_entry err; /* err.err 0: the event is no error */
    size_t bytes;
    uint8_t entry[]; /* struct fi_eq_entry, struct fi_eq_cm_entry, or the program's own */
};

struct ofi_eq {
    struct fid_eq eq_fid;
    struct ofi_fabric *fabric;
    struct ofi_source source;

    pthread_mutex_t lock; /* protects the events */
    struct eq_event *oldest, **end;
};

static struct ofi_eq *eq_of(struct fid_eq *fid)
{
    return container_of(fid, struct ofi_eq, eq_fid);
}

struct ofi_source *ofi_eq_source(struct fid *fid)
{
    return &container_of(fid, struct ofi_eq, eq_fid.fid)->source;
}

static bool eq_ready(struct ofi_source *source)
{
    struct ofi_eq *eq = container_of(source, struct ofi_eq, source);
    bool ready;

    pthread_mutex_lock(&eq->lock);
    ready = eq->oldest;
    pthread_mutex_unlock(&eq->lock);
    return ready;
}

/* Append an event of @bytes; with @err, an error. */
static int eq_append(struct ofi_eq *eq, uint32_t code, const void *entry, size_t bytes,
                     const struct fi_eq_err_entry *err)
{
    struct eq_event *event = calloc(1, sizeof *event + bytes);

    if (!event)
        return -FI_ENOMEM;
    event->code = code;
    event->bytes = bytes;
    if (bytes)
        memcpy(event->entry, entry, bytes);
    if (err)
        event->err = *err;
    pthread_mutex_lock(&eq->lock);
    *eq->end = event;
    eq->end = &event->next;
    pthread_mutex_unlock(&eq->lock);
    ofi_source_wake(&eq->source);
    return 0;
}

int ofi_eq_report(struct fid_eq *fid, uint32_t code, const void *entry, size_t bytes)
{
    return eq_append(eq_of(fid), code, entry, bytes, NULL);
}

int ofi_eq_report_error(struct fid_eq *fid, const struct fi_eq_err_entry *err)
{
    return eq_append(eq_of(fid), 0, NULL, 0, err);
}

/* Remove the oldest event. Lock: held. */
static void eq_drop(struct ofi_eq *eq)
{
    struct eq_event *event = eq->oldest;

    eq->oldest = event->next;
    if (!eq->oldest)
        eq->end = &eq->oldest;
    free(event);
}

/* Copy the oldest event; with FI_PEEK it stays in the queue. Lock: held. */
static ssize_t eq_take(struct ofi_eq *eq, uint32_t *code, void *buf, size_t bytes, uint64_t flags)
{
    struct eq_event *event = eq->oldest;
    size_t n;

    if (!event)
        return -FI_EAGAIN;
    if (event->err.err)
        return -FI_EAVAIL;
    if (bytes < event->bytes && bytes < sizeof(struct fi_eq_entry))
        return -FI_ETOOSMALL;
    n = bytes < event->bytes ? bytes : event->bytes; /* data of connections may be cut */
    *code = event->code;
    memcpy(buf, event->entry, n);
    if (!(flags & FI_PEEK))
        eq_drop(eq);
    return (ssize_t)n;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *code, void *buf, size_t bytes, uint64_t flags)
{
    struct ofi_eq *eq = eq_of(fid);
    ssize_t got;

    if (flags & ~FI_PEEK)
        return -FI_EBADFLAGS;
    pthread_mutex_lock(&eq->lock);
    got = eq_take(eq, code, buf, bytes, flags);
    pthread_mutex_unlock(&eq->lock);
    return got;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
    struct ofi_eq *eq = eq_of(fid);
    ssize_t got = -FI_EAGAIN;

    (void)flags;
    pthread_mutex_lock(&eq->lock);
    if (eq->oldest && eq->oldest->err.err) {
        *buf = eq->oldest->err;
        eq_drop(eq);
        got = sizeof *buf;
    }
    pthread_mutex_unlock(&eq->lock);
    return got;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t code, const void *buf, size_t bytes,
                        uint64_t flags)
{
    int err = flags ? -FI_EBADFLAGS : eq_append(eq_of(fid), code, buf, bytes, NULL);

    return err ? err : (ssize_t)bytes;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *code, void *buf, size_t bytes, int timeout_ms,
                        uint64_t flags)
{
    struct ofi_wait wait = ofi_wait_begin(NULL, timeout_ms);
    ssize_t got;

    while ((got = eq_read(fid, code, buf, bytes, flags)) == -FI_EAGAIN)
        if (!ofi_wait_step(&wait))
            return -FI_EAGAIN;
    return got;
}

static const char *eq_strerror(struct fid_eq *eq, int prov_errno, const void *data, char *buf,
                               size_t bytes)
{
    (void)eq, (void)data;
    if (buf && bytes) {
        strncpy(buf, fi_strerror(prov_errno), bytes - 1);
        buf[bytes - 1] = '\0';
    }
    return fi_strerror(prov_errno);
}

static int eq_control(struct fid *fid, int command, void *arg)
{
    return ofi_source_control(ofi_eq_source(fid), command, arg);
}

static int eq_close(struct fid *fid)
{
    struct ofi_eq *eq = container_of(fid, struct ofi_eq, eq_fid.fid);

    if (ofi_held(&eq->source.refs))
        return -FI_EBUSY;
    while (eq->oldest)
        eq_drop(eq);
    ofi_source_close(&eq->source);
    pthread_mutex_destroy(&eq->lock);
    ofi_release(&eq->fabric->refs);
    free(eq);
    return 0;
}

static struct fi_ops eq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = eq_close,
    .bind = ofi_no_bind,
    .control = eq_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_eq eq_ops = {
    .size = sizeof(struct fi_ops_eq),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = eq_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

int ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **ret,
                void *context)
{
    struct ofi_eq *eq = calloc(1, sizeof *eq);
    int err;

    if (!eq)
        return -FI_ENOMEM;
    eq->source.fid = &eq->eq_fid.fid;
    eq->source.ready = eq_ready;
    err = ofi_source_open(&eq->source, attr ? attr->wait_obj : FI_WAIT_NONE,
                          attr ? attr->wait_set : NULL);
    if (err) {
        free(eq);
        return err;
    }
    pthread_mutex_init(&eq->lock, NULL);
    eq->end = &eq->oldest;
    eq->fabric = container_of(fabric, struct ofi_fabric, fabric_fid);
    ofi_fid_init(&eq->eq_fid.fid, FI_CLASS_EQ, context, &eq_fid_ops);
    eq->eq_fid.ops = &eq_ops;
    ofi_hold(&eq->fabric->refs);
    *ret = &eq->eq_fid;
    return 0;
}
