/* SPDX-License-Identifier: BSD-3-Clause */
/* set.c - wait sets (fi_wait_open()) and poll sets (fi_poll_open()) of queues and counters */
#include "nic/ofi/ep.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>

struct members {
    pthread_mutex_t lock; /* protects the fields below */
    struct ofi_source **source;
    size_t count;
};

struct ofi_wait_set {
    struct fid_wait wait_fid;
    struct ofi_fabric *fabric;
    struct ofi_source source; /* its own_signal is the signal of all members */
    struct members members;
};

struct poll_set {
    struct fid_poll poll_fid;
    struct ofi_domain *domain;
    struct members members;
};

static int members_add(struct members *members, struct ofi_source *source)
{
    struct ofi_source **grown;

    pthread_mutex_lock(&members->lock);
    grown = reallocarray(members->source, members->count + 1, sizeof(struct ofi_source *));
    if (grown) {
        members->source = grown;
        members->source[members->count++] = source;
    }
    pthread_mutex_unlock(&members->lock);
    return grown ? 0 : -FI_ENOMEM;
}

static bool members_remove(struct members *members, const struct ofi_source *source)
{
    bool found = false;

    pthread_mutex_lock(&members->lock);
    for (size_t i = 0; i < members->count && !found; i++) {
        found = members->source[i] == source;
        if (found)
            members->source[i] = members->source[--members->count];
    }
    pthread_mutex_unlock(&members->lock);
    return found;
}

static void members_free(struct members *members)
{
    free(members->source);
    pthread_mutex_destroy(&members->lock);
}

/* --- wait sets ---------------------------------------------------------------------- */

struct ofi_wait_set *ofi_wait_set_of(struct fid *fid)
{
    return container_of(fid, struct ofi_wait_set, wait_fid.fid);
}

struct ofi_source *ofi_wait_set_source(struct ofi_wait_set *set)
{
    return &set->source;
}

int ofi_wait_set_add(struct ofi_wait_set *set, struct ofi_source *source)
{
    return members_add(&set->members, source);
}

void ofi_wait_set_remove(struct ofi_wait_set *set, struct ofi_source *source)
{
    members_remove(&set->members, source);
}

/* Step the members' adapters, until a member has an event. Returns whether a member has one. */
static bool wait_set_ready(struct ofi_source *source)
{
    struct ofi_wait_set *set = container_of(source, struct ofi_wait_set, source);
    bool ready = false;

    pthread_mutex_lock(&set->members.lock);
    for (size_t i = 0; i < set->members.count && !ready; i++)
        ready = ofi_source_step(set->members.source[i]);
    pthread_mutex_unlock(&set->members.lock);
    return ready;
}

static void wait_set_block(struct ofi_source *source)
{
    struct ofi_wait_set *set = container_of(source, struct ofi_wait_set, source);

    pthread_mutex_lock(&set->members.lock);
    for (size_t i = 0; i < set->members.count; i++)
        ofi_source_block(set->members.source[i]);
    pthread_mutex_unlock(&set->members.lock);
}

static int wait_set_wait(struct fid_wait *fid, int timeout_ms)
{
    struct ofi_wait_set *set = ofi_wait_set_of(&fid->fid);
    struct ofi_wait wait = ofi_wait_begin(NULL, timeout_ms);

    while (!wait_set_ready(&set->source))
        if (!ofi_wait_step(&wait))
            return -FI_ETIMEDOUT;
    return 0;
}

static int wait_set_close(struct fid *fid)
{
    struct ofi_wait_set *set = ofi_wait_set_of(fid);

    if (set->members.count)
        return -FI_EBUSY;
    ofi_source_close(&set->source);
    ofi_release(&set->fabric->refs);
    members_free(&set->members);
    free(set);
    return 0;
}

static struct fi_ops wait_set_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = wait_set_close,
    .bind = ofi_no_bind,
    .control = ofi_source_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_wait wait_set_ops = {
    .size = sizeof(struct fi_ops_wait),
    .wait = wait_set_wait,
};

int ofi_wait_set_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **ret)
{
    struct ofi_wait_set *set;
    int err;

    if (!attr || !ret)
        return -FI_EINVAL;
    if (attr->flags)
        return -FI_EBADFLAGS;
    set = calloc(1, sizeof *set);
    if (!set)
        return -FI_ENOMEM;
    set->source.ready = wait_set_ready;
    set->source.block = wait_set_block;
    err = ofi_source_open(&set->source,
                          attr->wait_obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : attr->wait_obj, NULL);
    if (err) {
        free(set);
        return err;
    }
    pthread_mutex_init(&set->members.lock, NULL);
    set->fabric = container_of(fabric, struct ofi_fabric, fabric_fid);
    ofi_fid_init(&set->wait_fid.fid, FI_CLASS_WAIT, NULL, &wait_set_fid_ops);
    set->source.fid = &set->wait_fid.fid;
    set->wait_fid.ops = &wait_set_ops;
    ofi_hold(&set->fabric->refs);
    *ret = &set->wait_fid;
    return 0;
}

/* --- poll sets ---------------------------------------------------------------------- */

static struct poll_set *poll_set_of(struct fid_poll *fid)
{
    return container_of(fid, struct poll_set, poll_fid);
}

static int poll_set_poll(struct fid_poll *fid, void **contexts, int count)
{
    struct members *members = &poll_set_of(fid)->members;
    int found = 0;

    if (!contexts)
        return -FI_EINVAL;
    pthread_mutex_lock(&members->lock);
    for (size_t i = 0; i < members->count && found < count; i++)
        if (ofi_source_step(members->source[i]))
            contexts[found++] = members->source[i]->fid->context;
    pthread_mutex_unlock(&members->lock);
    return found;
}

/* Return the source of an object that may be in a poll set: of any object except a wait set. */
static struct ofi_source *poll_set_source(struct fid *fid)
{
    return fid && fid->fclass != FI_CLASS_WAIT ? ofi_source_of(fid) : NULL;
}

static int poll_set_add(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
    struct ofi_source *source = poll_set_source(event_fid);
    int err;

    if (flags)
        return -FI_EBADFLAGS;
    if (!source)
        return -FI_EINVAL;
    err = members_add(&poll_set_of(fid)->members, source);
    if (!err)
        ofi_hold(&source->refs);
    return err;
}

static int poll_set_del(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
    struct ofi_source *source = poll_set_source(event_fid);

    if (flags)
        return -FI_EBADFLAGS;
    if (!source || !members_remove(&poll_set_of(fid)->members, source))
        return -FI_EINVAL;
    ofi_release(&source->refs);
    return 0;
}

static int poll_set_close(struct fid *fid)
{
    struct poll_set *set = container_of(fid, struct poll_set, poll_fid.fid);

    for (size_t i = 0; i < set->members.count; i++)
        ofi_release(&set->members.source[i]->refs);
    ofi_release(&set->domain->refs);
    members_free(&set->members);
    free(set);
    return 0;
}

static struct fi_ops poll_set_fid_ops = OFI_FID_OPS(poll_set_close);

static struct fi_ops_poll poll_set_ops = {
    .size = sizeof(struct fi_ops_poll),
    .poll = poll_set_poll,
    .poll_add = poll_set_add,
    .poll_del = poll_set_del,
};

int ofi_poll_set_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **ret)
{
    struct poll_set *set;

    if (!ret)
        return -FI_EINVAL;
    if (attr && attr->flags)
        return -FI_EBADFLAGS;
    set = calloc(1, sizeof *set);
    if (!set)
        return -FI_ENOMEM;
    pthread_mutex_init(&set->members.lock, NULL);
    set->domain = ofi_domain_of(domain);
    ofi_fid_init(&set->poll_fid.fid, FI_CLASS_POLL, NULL, &poll_set_fid_ops);
    set->poll_fid.ops = &poll_set_ops;
    ofi_hold(&set->domain->refs);
    *ret = &set->poll_fid;
    return 0;
}
