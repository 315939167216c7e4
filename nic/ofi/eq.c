/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eq.c - event queues. An event is copied into the queue when it happens. Only fi_eq_readerr()
 * reads errors. Threads that read the queue also handle the messages about connections (cm.c) and
 * about groups (join.c).
 */
#include "nic/ofi/cm.h"
#include "nic/ofi/coll.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>
#include <string.h>

struct eq_event {
    struct eq_event *next;
    uint32_t code;              /* enum fi_eq_event, or a code of the program */
    struct fi_eq_err_entry err; /* err.err 0: the event is no error */
    /* the object that the event concerns; NULL: the program wrote the event */
    const struct fid *fid;
    /* information of FI_CONNREQ; the program owns it after it has read the event */
    struct fi_info *info;
    size_t bytes;
    /* struct fi_eq_entry, struct fi_eq_cm_entry, or a structure of the program; if the event is
       an error: its err_data */
    uint8_t entry[];
};

struct ofi_eq {
    struct fid_eq eq_fid;
    struct ofi_fabric *fabric;
    struct ofi_source source;

    pthread_mutex_t cm_lock; /* protects the next two fields; taken before `lock` */
    struct ofi_cm *channels;
    struct ofi_mc *joins; /* groups that endpoints are joining */

    pthread_mutex_t lock; /* protects the events */
    struct eq_event *oldest, **end;
    /* the error that was read last; the program may still use its err_data */
    struct eq_event *error;
};

static struct ofi_eq *eq_of(struct fid_eq *fid)
{
    return container_of(fid, struct ofi_eq, eq_fid);
}

struct ofi_source *ofi_eq_source(struct fid *fid)
{
    return &container_of(fid, struct ofi_eq, eq_fid.fid)->source;
}

int ofi_eq_bind(struct fid *eq, struct fid_eq **slot)
{
    if (!eq || eq->fclass != FI_CLASS_EQ || *slot)
        return -FI_EINVAL;
    ofi_hold(&ofi_eq_source(eq)->refs);
    *slot = container_of(eq, struct fid_eq, fid);
    return 0;
}

void ofi_eq_unbind(struct fid_eq **slot)
{
    if (*slot)
        ofi_release(&ofi_eq_source(&(*slot)->fid)->refs);
    *slot = NULL;
}

void ofi_eq_lock(struct fid_eq *fid)
{
    pthread_mutex_lock(&eq_of(fid)->cm_lock);
}

void ofi_eq_unlock(struct fid_eq *fid)
{
    pthread_mutex_unlock(&eq_of(fid)->cm_lock);
}

void ofi_eq_add(struct fid_eq *fid, struct ofi_cm *cm)
{
    struct ofi_eq *eq = eq_of(fid);

    ofi_eq_lock(fid);
    cm->eq = fid;
    cm->next = eq->channels;
    eq->channels = cm;
    ofi_eq_unlock(fid);
}

/* Free an event that the program has not read. */
static void event_drop(struct eq_event *event)
{
    fi_freeinfo(event->info);
    free(event);
}

/* Drop the events of an object that is being closed, because they would name freed memory. */
static void eq_forget(struct ofi_eq *eq, const struct fid *fid)
{
    struct eq_event **at = &eq->oldest;

    pthread_mutex_lock(&eq->lock);
    while (*at) {
        struct eq_event *event = *at;

        if (event->fid != fid) {
            at = &event->next;
            continue;
        }
        *at = event->next;
        event_drop(event);
    }
    eq->end = at;
    pthread_mutex_unlock(&eq->lock);
}

void ofi_eq_remove(struct ofi_cm *cm)
{
    struct ofi_eq *eq = cm->eq ? eq_of(cm->eq) : NULL;
    struct ofi_cm **at;

    if (!eq)
        return;
    pthread_mutex_lock(&eq->cm_lock);
    for (at = &eq->channels; *at != cm;)
        at = &(*at)->next;
    *at = cm->next;
    pthread_mutex_unlock(&eq->cm_lock);
    eq_forget(eq, cm->fid);
}

void ofi_eq_add_join(struct ofi_mc *mc)
{
    struct ofi_eq *eq = eq_of(mc->ep->eq);

    ofi_eq_lock(mc->ep->eq);
    mc->next = eq->joins;
    eq->joins = mc;
    ofi_eq_unlock(mc->ep->eq);
    ofi_source_wake(&eq->source); /* its messages may have arrived already */
}

void ofi_eq_remove_join(struct ofi_mc *mc)
{
    struct ofi_eq *eq = eq_of(mc->ep->eq);
    struct ofi_mc **at;

    pthread_mutex_lock(&eq->cm_lock);
    for (at = &eq->joins; *at && *at != mc;)
        at = &(*at)->next;
    if (*at)
        *at = mc->next;
    pthread_mutex_unlock(&eq->cm_lock);
    eq_forget(eq, &mc->mc_fid.fid);
}

static void eq_step(struct ofi_eq *eq)
{
    pthread_mutex_lock(&eq->cm_lock);
    for (struct ofi_cm *cm = eq->channels; cm; cm = cm->next)
        ofi_cm_step(cm);
    for (struct ofi_mc **at = &eq->joins; *at;)
        if (ofi_join_step(*at))
            *at = (*at)->next; /* remove a group that has joined */
        else
            at = &(*at)->next;
    pthread_mutex_unlock(&eq->cm_lock);
}

static bool eq_ready(struct ofi_source *source)
{
    struct ofi_eq *eq = container_of(source, struct ofi_eq, source);
    bool ready;

    eq_step(eq);
    pthread_mutex_lock(&eq->lock);
    ready = eq->oldest;
    pthread_mutex_unlock(&eq->lock);
    return ready;
}

/* All channels and groups of a process have the same adapter. */
static void eq_block(struct ofi_source *source)
{
    struct ofi_eq *eq = container_of(source, struct ofi_eq, source);

    pthread_mutex_lock(&eq->cm_lock);
    if (eq->channels)
        fabemu_block(eq->channels->fab);
    else if (eq->joins)
        fabemu_block(eq->joins->ep->domain->fab);
    pthread_mutex_unlock(&eq->cm_lock);
}

static struct eq_event *event_new(uint32_t code, const void *entry, size_t bytes)
{
    struct eq_event *event = calloc(1, sizeof *event + bytes);

    if (!event)
        return NULL;
    event->code = code;
    event->bytes = bytes;
    if (bytes)
        memcpy(event->entry, entry, bytes);
    return event;
}

static int eq_append(struct ofi_eq *eq, struct eq_event *event)
{
    if (!event)
        return -FI_ENOMEM;
    pthread_mutex_lock(&eq->lock);
    *eq->end = event;
    eq->end = &event->next;
    pthread_mutex_unlock(&eq->lock);
    ofi_source_wake(&eq->source);
    return 0;
}

int ofi_eq_report(struct fid_eq *fid, uint32_t code, const void *entry, size_t bytes)
{
    struct eq_event *event = event_new(code, entry, bytes);

    if (event) /* struct fi_eq_cm_entry begins with fid, too */
        event->fid = ((const struct fi_eq_entry *)entry)->fid;
    if (event && code == FI_CONNREQ)
        event->info = ((const struct fi_eq_cm_entry *)entry)->info;
    return eq_append(eq_of(fid), event);
}

int ofi_eq_report_error(struct fid_eq *fid, const struct fi_eq_err_entry *err)
{
    struct eq_event *event = event_new(0, err->err_data, err->err_data_size);

    if (event) {
        event->err = *err;
        event->fid = err->fid;
    }
    return eq_append(eq_of(fid), event);
}

/* Remove the oldest event from the list. Lock: held. */
static struct eq_event *eq_pop(struct ofi_eq *eq)
{
    struct eq_event *event = eq->oldest;

    eq->oldest = event->next;
    if (!eq->oldest)
        eq->end = &eq->oldest;
    return event;
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
    if (buf && bytes < event->bytes && bytes < sizeof(struct fi_eq_entry))
        return -FI_ETOOSMALL;
    /* connection data may be truncated; a caller without a buffer wants only the code */
    n = !buf ? 0 : bytes < event->bytes ? bytes : event->bytes;
    *code = event->code;
    if (n)
        memcpy(buf, event->entry, n);
    if (!(flags & FI_PEEK))
        free(eq_pop(eq));
    return (ssize_t)n;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *code, void *buf, size_t bytes, uint64_t flags)
{
    struct ofi_eq *eq = eq_of(fid);
    ssize_t got;

    if (flags & ~FI_PEEK)
        return -FI_EBADFLAGS;
    if (!code)
        return -FI_EINVAL;
    eq_step(eq);
    pthread_mutex_lock(&eq->lock);
    got = eq_take(eq, code, buf, bytes, flags);
    pthread_mutex_unlock(&eq->lock);
    return got;
}

/*
 * Copy an error, and its err_data into the program's buffer. If the program gives no buffer, or has
 * requested a version before 1.5, the data stays in the queue until the next error is read. The
 * structures of those versions end before err_data_size. Returns the size of the program's
 * structure. Source: fi_eq(3).
 */
static size_t eq_copy_error(const struct ofi_eq *eq, struct eq_event *event,
                            struct fi_eq_err_entry *to)
{
    bool old = FI_VERSION_LT(eq->fabric->fabric_fid.api_version, FI_VERSION(1, 5));
    size_t bytes = old ? offsetof(struct fi_eq_err_entry, err_data_size) : sizeof *to;
    size_t room = !old && to->err_data ? to->err_data_size : 0;
    struct fi_eq_err_entry entry = event->err;

    entry.err_data = room ? to->err_data : event->entry;
    entry.err_data_size = room && room < event->bytes ? room : event->bytes;
    if (room && event->bytes)
        memcpy(entry.err_data, event->entry, entry.err_data_size);
    memcpy(to, &entry, bytes);
    return bytes;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
    struct ofi_eq *eq = eq_of(fid);
    ssize_t got = -FI_EAGAIN;

    (void)flags;
    if (!buf)
        return -FI_EINVAL;
    pthread_mutex_lock(&eq->lock);
    if (eq->oldest && eq->oldest->err.err) {
        free(eq->error);
        eq->error = eq_pop(eq);
        got = (ssize_t)eq_copy_error(eq, eq->error, buf);
    }
    pthread_mutex_unlock(&eq->lock);
    return got;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t code, const void *buf, size_t bytes,
                        uint64_t flags)
{
    if (!buf && bytes)
        return -FI_EINVAL;
    int err = flags ? -FI_EBADFLAGS : eq_append(eq_of(fid), event_new(code, buf, bytes));

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

static int eq_close(struct fid *fid)
{
    struct ofi_eq *eq = container_of(fid, struct ofi_eq, eq_fid.fid);

    if (ofi_held(&eq->source.refs))
        return -FI_EBUSY;
    while (eq->oldest)
        event_drop(eq_pop(eq));
    free(eq->error);
    ofi_source_close(&eq->source);
    pthread_mutex_destroy(&eq->cm_lock);
    pthread_mutex_destroy(&eq->lock);
    ofi_release(&eq->fabric->refs);
    free(eq);
    return 0;
}

static struct fi_ops eq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = eq_close,
    .bind = ofi_no_bind,
    .control = ofi_source_control,
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
    struct ofi_eq *eq;
    int err;

    if (!ret || (attr && attr->flags & ~(uint64_t)(FI_WRITE | FI_AFFINITY)))
        return -FI_EINVAL;
    eq = calloc(1, sizeof *eq);
    if (!eq)
        return -FI_ENOMEM;
    eq->source.fid = &eq->eq_fid.fid;
    eq->source.ready = eq_ready;
    eq->source.block = eq_block;
    err = ofi_source_open(&eq->source, attr ? attr->wait_obj : FI_WAIT_NONE,
                          attr ? attr->wait_set : NULL);
    if (err) {
        free(eq);
        return err;
    }
    pthread_mutex_init(&eq->cm_lock, NULL);
    pthread_mutex_init(&eq->lock, NULL);
    eq->end = &eq->oldest;
    eq->fabric = container_of(fabric, struct ofi_fabric, fabric_fid);
    ofi_fid_init(&eq->eq_fid.fid, FI_CLASS_EQ, context, &eq_fid_ops);
    eq->eq_fid.ops = &eq_ops;
    ofi_hold(&eq->fabric->refs);
    *ret = &eq->eq_fid;
    return 0;
}
