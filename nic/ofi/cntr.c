/* SPDX-License-Identifier: BSD-3-Clause */
/* cntr.c - completion counters. fi_cntr_read() and fi_cntr_wait() step the adapter. */
#include "nic/ofi/ep.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>

static struct ofi_cntr *cntr_of(struct fid_cntr *fid)
{
    return container_of(fid, struct ofi_cntr, cntr_fid);
}

static uint64_t cntr_sum(const struct ofi_cntr *cntr)
{
    return fabemu_event_count(&cntr->event) + fabemu_event_failures(&cntr->event);
}

static bool cntr_ready(struct ofi_source *source)
{
    struct ofi_cntr *cntr = container_of(source, struct ofi_cntr, source);

    return cntr_sum(cntr) != atomic_load_explicit(&cntr->seen, memory_order_relaxed);
}

/* Callback of the adapter, under its lock. */
static void cntr_changed(struct fabemu_event *event)
{
    ofi_source_wake(&container_of(event, struct ofi_cntr, event)->source);
}

static void cntr_note_seen(struct ofi_cntr *cntr)
{
    atomic_store_explicit(&cntr->seen, cntr_sum(cntr), memory_order_relaxed);
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    fabemu_progress(cntr_of(fid)->domain->fab);
    cntr_note_seen(cntr_of(fid));
    return fabemu_event_count(&cntr_of(fid)->event);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    cntr_note_seen(cntr_of(fid));
    return fabemu_event_failures(&cntr_of(fid)->event);
}

static int cntr_change(struct fid_cntr *fid, enum fabemu_event_change change, uint64_t value)
{
    return -ofi_errno(fabemu_event_change(&cntr_of(fid)->event, change, value));
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
    return cntr_change(fid, FABEMU_EVENT_ADD, value);
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    return cntr_change(fid, FABEMU_EVENT_SET, value);
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    return cntr_change(fid, FABEMU_EVENT_ADD_FAILURES, value);
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    return cntr_change(fid, FABEMU_EVENT_SET_FAILURES, value);
}

/*
 * Wait until the counter reaches @threshold. A failed operation ends the wait, because the counter
 * might then never reach @threshold.
 */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout_ms)
{
    struct ofi_cntr *cntr = cntr_of(fid);
    uint64_t failed = fabemu_event_failures(&cntr->event);
    struct ofi_wait wait = ofi_wait_begin(cntr->domain->fab, timeout_ms);

    while (fabemu_event_count(&cntr->event) < threshold) {
        if (fabemu_event_failures(&cntr->event) != failed)
            return -FI_EAVAIL;
        if (!ofi_wait_step(&wait))
            return -FI_ETIMEDOUT;
    }
    return 0;
}

static int cntr_close(struct fid *fid)
{
    struct ofi_cntr *cntr = container_of(fid, struct ofi_cntr, cntr_fid.fid);

    if (ofi_held(&cntr->source.refs))
        return -FI_EBUSY;
    fabemu_event_close(&cntr->event);
    ofi_source_close(&cntr->source);
    ofi_release(&cntr->domain->refs);
    free(cntr);
    return 0;
}

static struct fi_ops cntr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = cntr_close,
    .bind = ofi_no_bind,
    .control = ofi_source_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_cntr cntr_ops = {
    .size = sizeof(struct fi_ops_cntr),
    .read = cntr_read,
    .readerr = cntr_readerr,
    .add = cntr_add,
    .set = cntr_set,
    .wait = cntr_wait,
    .adderr = cntr_adderr,
    .seterr = cntr_seterr,
};

int ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **ret,
                  void *context)
{
    struct ofi_cntr *cntr;
    int err;

    if (!attr || !ret)
        return -FI_EINVAL;
    if (attr->events != FI_CNTR_EVENTS_COMP)
        return -FI_ENOSYS;
    if (attr->flags) /* flags such as FI_PEER are not supported */
        return -FI_EINVAL;
    cntr = calloc(1, sizeof *cntr);
    if (!cntr)
        return -FI_ENOMEM;
    cntr->domain = ofi_domain_of(domain);
    cntr->source.fid = &cntr->cntr_fid.fid;
    cntr->source.fab = cntr->domain->fab;
    cntr->source.ready = cntr_ready;
    err = ofi_source_open(&cntr->source, attr->wait_obj, attr->wait_set);
    if (err)
        goto free_cntr;
    err = -ofi_errno(fabemu_event_open_tolerant(cntr->domain->fab, &cntr->event, cntr_changed));
    if (err)
        goto close_source;
    ofi_fid_init(&cntr->cntr_fid.fid, FI_CLASS_CNTR, context, &cntr_fid_ops);
    cntr->cntr_fid.ops = &cntr_ops;
    ofi_hold(&cntr->domain->refs);
    *ret = &cntr->cntr_fid;
    return 0;

close_source:
    ofi_source_close(&cntr->source);
free_cntr:
    free(cntr);
    return err;
}

struct ofi_cntr *ofi_cntr_of(const struct ofi_domain *domain, struct fid_cntr *fid)
{
    if (!fid || fid->fid.fclass != FI_CLASS_CNTR || cntr_of(fid)->domain != domain)
        return NULL;
    return cntr_of(fid);
}

int ofi_cntr_bind(const struct ofi_domain *domain, struct fid *fid, struct ofi_cntr **slot)
{
    struct ofi_cntr *cntr = ofi_cntr_of(domain, container_of(fid, struct fid_cntr, fid));

    if (!cntr || *slot)
        return -FI_EINVAL;
    ofi_hold(&cntr->source.refs);
    *slot = cntr;
    return 0;
}

void ofi_cntr_unbind(struct ofi_cntr **slot)
{
    if (*slot)
        ofi_release(&(*slot)->source.refs);
    *slot = NULL;
}
